"""Exact memory: a tree of values per key, read and written through cursors."""

from fornix.state.committed_tree import CommittedTree, PastTree, WriterLock
from fornix.state.memory_object import ExactMemory, MemoryObject
from fornix.state.overlay import Overlay
from fornix.state.paths import MAX_LEVELS, MemoryKind, MemoryRef, Places, Resolver, Spelling
from fornix.state.tree_values import MISSING, ExactTree, Mark, Snapshot, TreeLimits, Ttl

__all__ = [
    "MAX_LEVELS",
    "MISSING",
    "CommittedTree",
    "ExactMemory",
    "ExactTree",
    "Mark",
    "MemoryKind",
    "MemoryObject",
    "MemoryRef",
    "Overlay",
    "PastTree",
    "Places",
    "Resolver",
    "Snapshot",
    "Spelling",
    "TreeLimits",
    "Ttl",
    "WriterLock",
]
