"""What a step keeps of the paths and items that it looked up: read again.

A step keeps it as `StepDone.read_set`, in wire form; what is empty may be left out::

    {
        "short_term": [path, …], "sensory": [path, …],
        "items": [[owner, set, [id, …]], …],
        "searches": [[owner, [set, …], query, [[set, id], …]], …]
    }

The owner of sets is null for the key of the run, or the name of a knowledge. With the scope of the
run that names an item as the store does: by scope, set and id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from alveus.store.scope import Scope, SetRef
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path


@dataclass(frozen=True, slots=True)
class Searched:
    """A search: the sets it went through, and its hits, best first, by set and id."""

    sets: Sequence[SetRef]
    query: str
    hits: Sequence[tuple[SetRef, str]]


@dataclass(frozen=True, slots=True)
class ReadSet:
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
    def of(cls, text: str | None, scope: Scope) -> ReadSet:
        """Return what `StepDone.read_set` says of a step of a run of *scope*."""
        document = cast("dict[str, Any]", wire.decode(text)) if text else {}

        def ref(owner: str | None, name: str) -> SetRef:
            return SetRef(scope if owner is None else Scope(owner, None), name)

        return cls(
            short_term=[tuple(path) for path in document.get("short_term", ())],
            sensory=[tuple(path) for path in document.get("sensory", ())],
            items=[(ref(owner, name), ids) for owner, name, ids in document.get("items", ())],
            searches=[
                Searched(
                    [ref(owner, name) for name in names],
                    query,
                    [(ref(owner, name), one) for name, one in hits],
                )
                for owner, names, query, hits in document.get("searches", ())
            ],
        )

    def item_refs(self) -> Iterator[tuple[SetRef, str]]:
        """Yield each item that was looked up, or was a hit, by set and id."""
        for ref, ids in self.items:
            for one in ids:
                yield ref, one
        for search in self.searches:
            yield from search.hits
