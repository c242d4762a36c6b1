"""What an action looked up: paths of exact trees, items, and searches with their hits.

How a step keeps it is told in `fornix.store.stored_read_set`, which reads it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from fornix.state.tree_values import ExactTree
from fornix.store import Node, SetRef
from fornix.values import wire
from fornix.values.storable import Path, Value

Seen: TypeAlias = tuple[tuple[str, tuple[Path, ...]], ...]
"""By the name of a memory: the paths that were looked up in it."""

FEW = 8
"""Paths that an action looked up whose wire form is kept in mind."""


class Watched:
    """A tree, or none, that notes which paths were looked up in it."""

    __slots__ = ("seen", "tree")

    def __init__(self, tree: ExactTree | None) -> None:
        self.tree = tree
        self.seen: list[Path] = []

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; see `ExactTree`."""
        self.seen.append(path)
        return None if self.tree is None else self.tree.node(path, now)

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*; see `ExactTree`."""
        self.seen.append(path)
        return [] if self.tree is None else self.tree.children(path, now)

    def field_names(self, path: Path, now: int) -> list[tuple[str, int | None]]:
        """Return the names of its fields; see `ExactTree`."""
        self.seen.append(path)
        return [] if self.tree is None else self.tree.field_names(path, now)


def looks(seen: Seen) -> dict[str, Value]:
    """Return which paths were looked up, by memory, each once."""
    return {name: [[*path] for path in dict.fromkeys(paths)] for name, paths in seen}


def looks_in_wire(seen: Seen) -> str:
    """Return `looks` in wire form; most actions look up what others did before."""
    few = sum([len(paths) for _, paths in seen]) <= FEW
    return _known(seen) if few else wire.encode(looks(seen))


@lru_cache
def _known(seen: Seen) -> str:
    return wire.encode(looks(seen))


# --- items ------------------------------------------------------------------------------------


def owner_of(ref: SetRef) -> Value:
    """Return the owner of a set, as it is kept: None for a key, or the name of a knowledge."""
    return ref.scope.space if ref.scope.key is None else None
