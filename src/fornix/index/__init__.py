"""Vectors and terms of what was committed, ready for search; never a second truth."""

from fornix.index.catalog import Index, IndexStats
from fornix.index.clearing import clear_files
from fornix.index.segment import Damaged
from fornix.index.setindex import SetIndex
from fornix.index.vectors import Quantised, quantised

__all__ = ["Damaged", "Index", "IndexStats", "Quantised", "SetIndex", "clear_files", "quantised"]
