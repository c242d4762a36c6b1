"""Memory sets: the vague memory. Given a writer, a set knows neither run nor store."""

from __future__ import annotations

from alveus.sets.set_compaction import SetTidying
from alveus.sets.set_options import Execution, clearing, definition, refuse_upkeep
from alveus.sets.set_writes import OnExisting

__all__ = [
    "Execution",
    "KnowledgeSet",
    "MemorySet",
    "OnExisting",
    "clearing",
    "definition",
    "refuse_upkeep",
]


class MemorySet(SetTidying):
    """A named set of items: added to, searched by meaning, bounded if it is told so.

    Opening one writes nothing; the set comes to be with its first add.
    Every change is atomic, durable when the call returns, and found by search at once (by its
    words; by meaning as soon as it is embedded).
    """


class KnowledgeSet(MemorySet):
    """A set that belongs to no key: shared by all who name the same knowledge.

    It changes only by explicit calls: it has no capacity and is never compacted.
    """

    _upkeep = False
