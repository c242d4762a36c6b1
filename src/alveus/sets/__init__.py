"""Memory sets: long-term memory. A set uses a writer and depends on no run and no store."""

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
    """A named set of items. Searches find an item by its words and by its meaning.

    Opening a set writes nothing; the first add creates the set. Each change is atomic and durable
    when the call returns. Search finds an item by its words at once, and by its meaning after
    embedding.
    """


class KnowledgeSet(MemorySet):
    """A set that belongs to no key: all memories with the same knowledge share it.

    It changes only by explicit calls: it has no capacity and is never compacted.
    """

    _upkeep = False
