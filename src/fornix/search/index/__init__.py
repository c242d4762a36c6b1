"""Vectors and terms of what was committed, ready for search; never a second truth."""

from fornix.search.index.catalog import Index, IndexStats
from fornix.search.index.column_filters import ReadValues
from fornix.search.index.segment import Damaged
from fornix.search.index.set_index import SetIndex
from fornix.search.index.vectors import Quantised, quantised

__all__ = ["Damaged", "Index", "IndexStats", "Quantised", "ReadValues", "SetIndex", "quantised"]
