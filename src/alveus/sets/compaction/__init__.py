"""Compaction: makes a full set smaller; undo can restore the retired items."""

from alveus.sets.compaction.executor import CALLED, BatchCapacity, Compacted, Compactions
from alveus.sets.compaction.planning import CompactionTools
from alveus.sets.compaction.strategies import (
    CompactionPlan,
    Derived,
    Given,
    Merge,
    Strategy,
    Summarize,
    Trim,
    stored_form,
)

__all__ = [
    "CALLED",
    "BatchCapacity",
    "Compacted",
    "CompactionPlan",
    "CompactionTools",
    "Compactions",
    "Derived",
    "Given",
    "Merge",
    "Strategy",
    "Summarize",
    "Trim",
    "stored_form",
]
