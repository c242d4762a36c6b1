"""Vectors and terms of committed items in arrays, for search; the store can rebuild them."""

from alveus.search.index.catalog import Index, IndexStats
from alveus.search.index.column_filters import ReadValues
from alveus.search.index.segment import Damaged
from alveus.search.index.set_index import SetIndex
from alveus.search.index.vectors import Quantised, quantised

__all__ = ["Damaged", "Index", "IndexStats", "Quantised", "ReadValues", "SetIndex", "quantised"]
