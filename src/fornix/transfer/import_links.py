"""What imported items were made of: linked again, once all of a file is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from fornix.errors import Conflict
from fornix.memory.memory import Memory
from fornix.store import Batch, ItemChange, Past, Scope, SetRef, StoredItem
from fornix.store.records import item_of
from fornix.transfer.import_entries import ItemLine, ItemLocation, differs
from fornix.transfer.import_formats import entries
from fornix.transfer.import_source import Source

CHUNK = 500
"""Items that one commit links."""

TRIES = 20
"""How often items are looked up again while others change them."""


def is_derived(line: ItemLine) -> bool:
    """Return whether an item says that it was made of others."""
    return bool(line.sources or line.item.sources)


@dataclass(frozen=True, slots=True)
class LinkCount:
    """How many items were linked to all they were made of just now, and how many cannot be."""

    linked: int
    unlinked: int


class Linking:
    """Links the items of an import to what they were made of; `run` again links nothing twice.

    An item is linked if it is in the store as the file has it.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory, self._store = memory, memory.store
        self._linked = self._unlinked = 0

    def run(self, source: Source) -> LinkCount:
        """Link what a file has, all of which was imported.

        Raises:
            Conflict: Others changed the same items again and again.
        """
        for key, lines in groupby(self._lines(source), key=lambda line: line.key):
            while chunk := list(islice(lines, CHUNK)):
                self._link(self._scope(key), chunk)
        return LinkCount(self._linked, self._unlinked)

    def _lines(self, source: Source) -> Iterator[ItemLine]:
        for _, entry in entries(source, "fornix", None):
            if isinstance(entry, ItemLine) and is_derived(entry):
                yield entry

    def _scope(self, key: str | None) -> Scope:
        memory = self._memory
        return Scope(memory.knowledge.name, None) if key is None else Scope(memory.space, key)

    def _ref(self, place: ItemLocation) -> SetRef:
        return SetRef(self._scope(place.key), place.set)

    def _link(self, scope: Scope, lines: Sequence[ItemLine]) -> None:
        linked: set[int] = set()
        for _ in range(TRIES):
            missing, unlinked = self._missing(lines)
            if not missing:
                self._linked += len(linked)
                self._unlinked += unlinked
                return
            linked.update(row for links in missing.values() for row, _ in links)
            changes: list[ItemChange] = [Past(ref, links=links) for ref, links in missing.items()]
            self._store.commit(Batch(scope=scope, time=self._memory.engine.clock(), items=changes))
        raise Conflict(
            f"others changed items of {scope.key or scope.space!r} again and again "
            "while they were linked to their sources; import again"
        )

    def _missing(
        self, lines: Sequence[ItemLine]
    ) -> tuple[dict[SetRef, list[tuple[int, int]]], int]:
        """Return links that are to be made, by set, and how many items lack a source."""
        missing: dict[SetRef, list[tuple[int, int]]] = {}
        unlinked = 0
        for line in lines:
            ref = self._ref(ItemLocation(line.key, line.set, ""))
            (item,) = self._store.get(ref, [line.item.id or ""])
            if item is None or differs(line.item, item_of(item)):
                continue
            places = self._places(line)
            there = [self._there(place) for place in places]
            known = self._known(item)
            links = [(item.row, s.row) for s in there if s is not None and s.first not in known]
            if links:
                missing.setdefault(ref, []).extend(links)
            unlinked += None in there or len(places) < len(set(line.item.sources))
        return missing, unlinked

    def _places(self, line: ItemLine) -> list[ItemLocation]:
        """Return what an item was made of: as the file says, else items of its own set."""
        own = [
            ItemLocation(line.key, line.set, source) for source in dict.fromkeys(line.item.sources)
        ]
        named = own if line.sources is None else line.sources
        return [
            place
            for place in named
            if place != ItemLocation(line.key, line.set, line.item.id or "")
        ]

    def _there(self, place: ItemLocation) -> StoredItem | None:
        return self._store.get(self._ref(place), [place.id])[0]

    def _known(self, item: StoredItem) -> set[int]:
        """Return the first versions of what an item is linked to."""
        rows = [source for _, source in self._store.links([item.row])]
        return {version.first for version in self._store.stored(rows)}
