"""What an action looked up: paths of exact trees, items, and searches with their hits.

A step keeps it as `StepDone.looked`, in wire form; what is empty may be left out::

    {
        "short_term": [path, …], "sensory": [path, …],
        "items": [[owner, set, [id, …]], …],
        "searches": [[owner, [set, …], query, [[set, id], …]], …]
    }

The owner of sets is null for the key of the run, or the name of a knowledge. With the scope of the
run that names an item as the store does: by scope, set and id. `Looked` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

from fornix import wire
from fornix.state.tree import Tree
from fornix.store import Node, Scope, SetRef
from fornix.values import Path, Value

Seen: TypeAlias = tuple[tuple[str, tuple[Path, ...]], ...]
"""By the name of a memory: the paths that were looked up in it."""

FEW = 8
"""Paths that an action looked up whose wire form is kept in mind."""


class Watched:
    """A tree, or none, that notes which paths were looked up in it."""

    __slots__ = ("seen", "tree")

    def __init__(self, tree: Tree | None) -> None:
        self.tree = tree
        self.seen: list[Path] = []

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; see `Tree`."""
        self.seen.append(path)
        return None if self.tree is None else self.tree.node(path, now)

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*; see `Tree`."""
        self.seen.append(path)
        return [] if self.tree is None else self.tree.children(path, now)


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


@dataclass(frozen=True, slots=True)
class Searched:
    """A search: the sets it went through, and its hits, best first, by set and id."""

    sets: Sequence[SetRef]
    query: str
    hits: Sequence[tuple[SetRef, str]]


@dataclass(frozen=True, slots=True)
class Looked:
    """What a step looked up, as it was kept.

    Attributes:
        short_term: Paths.
        sensory: Paths.
        items: Ids, by set; an item that was looked up twice is there twice.
    """

    short_term: Sequence[Path]
    sensory: Sequence[Path]
    items: Sequence[tuple[SetRef, Sequence[str]]]
    searches: Sequence[Searched]

    @classmethod
    def of(cls, looked: str | None, scope: Scope) -> Looked:
        """Return what `StepDone.looked` says of a step of a run of *scope*."""
        kept = cast("dict[str, Any]", wire.decode(looked)) if looked else {}

        def ref(owner: str | None, name: str) -> SetRef:
            return SetRef(scope if owner is None else Scope(owner, None), name)

        return cls(
            short_term=[tuple(path) for path in kept.get("short_term", ())],
            sensory=[tuple(path) for path in kept.get("sensory", ())],
            items=[(ref(owner, name), ids) for owner, name, ids in kept.get("items", ())],
            searches=[
                Searched(
                    [ref(owner, name) for name in names],
                    query,
                    [(ref(owner, name), one) for name, one in hits],
                )
                for owner, names, query, hits in kept.get("searches", ())
            ],
        )

    def found(self) -> Iterator[tuple[SetRef, str]]:
        """Yield each item that was looked up, or was a hit, by set and id."""
        for ref, ids in self.items:
            for one in ids:
                yield ref, one
        for search in self.searches:
            yield from search.hits
