"""Imported items are linked to their sources once the whole file is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from fornix.errors import Conflict
from fornix.memory.memory import Memory
from fornix.store import Batch, ItemChange, Past, Scope, SetRef
from fornix.store.records import item_of
from fornix.transfer.export import scope_of
from fornix.transfer.fornix_format import ItemLine, ItemLocation, differs
from fornix.transfer.import_formats import entries
from fornix.transfer.import_source import Source
from fornix.values.retries import TRIES

CHUNK = 500
"""Items that one commit links."""


def is_derived(line: ItemLine) -> bool:
    """Return whether an item names its sources."""
    return bool(line.linked or line.item.sources)


@dataclass(frozen=True, slots=True)
class LinkCount:
    """How many items were linked by this import, and how many have a source that is not there."""

    linked: int
    unlinked: int


class Linking:
    """Links the items of an import to their sources; `run` again links nothing twice.

    An item is linked if the store has it as the file has it.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory, self._store = memory, memory.store
        self._linked = self._unlinked = 0

    def run(self, source: Source) -> LinkCount:
        """Link the items of a file, all of which was imported.

        Raises:
            Conflict: Other writers changed the same items again and again.
        """
        lines = (entry for _, entry in entries(source, "fornix", None))
        derived = (line for line in lines if isinstance(line, ItemLine) and is_derived(line))
        for key, alike in groupby(derived, key=lambda line: line.key):
            while chunk := list(islice(alike, CHUNK)):
                self._link(scope_of(self._memory, key), chunk)
        return LinkCount(self._linked, self._unlinked)

    def _ref(self, item: ItemLine | ItemLocation) -> SetRef:
        return SetRef(scope_of(self._memory, item.key), item.set)

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
            f"other writers changed items of {scope.key or scope.space!r} again and again "
            "while they were linked to their sources; import again"
        )

    def _missing(
        self, lines: Sequence[ItemLine]
    ) -> tuple[dict[SetRef, list[tuple[int, int]]], int]:
        """Return the missing links by set, and how many items have a source that is not there."""
        missing: dict[SetRef, list[tuple[int, int]]] = {}
        unlinked = 0
        for line in lines:
            ref = self._ref(line)
            (item,) = self._store.get(ref, [line.item.id or ""])
            if item is None or differs(line.item, item_of(item)):
                continue
            locations = _source_locations(line)
            sources = [self._store.get(self._ref(one), [one.id])[0] for one in locations]
            linked_rows = [row for _, row in self._store.links([item.row])]
            linked = {version.first for version in self._store.stored(linked_rows)}
            links = [(item.row, s.row) for s in sources if s is not None and s.first not in linked]
            if links:
                missing.setdefault(ref, []).extend(links)
            unlinked += None in sources or len(locations) < len(set(line.item.sources))
        return missing, unlinked


def _source_locations(line: ItemLine) -> list[ItemLocation]:
    """Return the sources of an item but itself: as the file says, else items of its own set."""
    ids = dict.fromkeys(line.item.sources)
    locations = line.linked
    if locations is None:
        locations = [ItemLocation(line.key, line.set, source) for source in ids]
    itself = ItemLocation(line.key, line.set, line.item.id or "")
    return [location for location in locations if location != itself]
