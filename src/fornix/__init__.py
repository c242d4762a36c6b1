"""Memory for AI agents that behaves like a database.

The way in is `Memory.open`; every name a user needs is here.
"""

from fornix.aio import AsyncMemory
from fornix.embed import Embedder
from fornix.errors import FornixError
from fornix.items import Hit, Hits, Item
from fornix.keys import KeyBatch, KeyMemory, KnowledgeMemory
from fornix.memory import Memory, MemoryStats
from fornix.sets import KnowledgeSet, MemorySet
from fornix.signals import Signals
from fornix.state import MemoryKind, MemoryObject, MemoryRef, Ttl
from fornix.store import Limits

__version__ = "0.1.0"

__all__ = [
    "AsyncMemory",
    "Embedder",
    "FornixError",
    "Hit",
    "Hits",
    "Item",
    "KeyBatch",
    "KeyMemory",
    "KnowledgeMemory",
    "KnowledgeSet",
    "Limits",
    "Memory",
    "MemoryKind",
    "MemoryObject",
    "MemoryRef",
    "MemorySet",
    "MemoryStats",
    "Signals",
    "Ttl",
]
