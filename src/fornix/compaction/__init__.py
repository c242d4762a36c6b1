"""Compaction: a set that grew is made smaller, and nothing is lost that could not come back."""

from fornix.compaction.compactor_notes import Compacted
from fornix.compaction.executor import CALLED, Compactions
from fornix.compaction.planning import CompactionTools
from fornix.compaction.plans import CompactionPlan, Derived, Strategy
from fornix.compaction.strategies import Given, Merge, Summarize, Trim, stored_form

__all__ = [
    "CALLED",
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
