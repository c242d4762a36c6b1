"""Compaction: a set that grew is made smaller, and nothing is lost that could not come back."""

from fornix.compaction.compactor_notes import Compacted
from fornix.compaction.executor import CALLED, Compactions, Site
from fornix.compaction.planning import Workshop
from fornix.compaction.plans import CompactionPlan, Derived, Strategy
from fornix.compaction.strategies import Given, Merge, Summarize, Trim, kept

__all__ = [
    "CALLED",
    "Compacted",
    "CompactionPlan",
    "Compactions",
    "Derived",
    "Given",
    "Merge",
    "Site",
    "Strategy",
    "Summarize",
    "Trim",
    "Workshop",
    "kept",
]
