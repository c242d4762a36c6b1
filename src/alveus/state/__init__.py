"""Exact memory: a tree of values per key, read and written through cursors."""

from alveus.state.committed_tree import Backoff, BatchTree, CommittedTree, PastTree, SetValue
from alveus.state.memory_object import ExactMemory, MemoryObject, root_of
from alveus.state.overlay import Overlay
from alveus.state.paths import MAX_LEVELS, DottedPath, MemoryKind, MemoryRef, PathCache, Resolver
from alveus.state.tree_values import MISSING, ExactTree, NonValue, Snapshot, TreeLimits, Ttl, ttl_us

__all__ = [
    "MAX_LEVELS",
    "MISSING",
    "Backoff",
    "BatchTree",
    "CommittedTree",
    "DottedPath",
    "ExactMemory",
    "ExactTree",
    "MemoryKind",
    "MemoryObject",
    "MemoryRef",
    "NonValue",
    "Overlay",
    "PastTree",
    "PathCache",
    "Resolver",
    "SetValue",
    "Snapshot",
    "TreeLimits",
    "Ttl",
    "root_of",
    "ttl_us",
]
