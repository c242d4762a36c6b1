"""Export: a memory as JSON lines, from one snapshot, without or with its history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from alveus.facts.fact import FACTS
from alveus.facts.learning_records import POSITION, RECORDS, read_position
from alveus.memory.memory import Memory
from alveus.store import Node, Scope, SetInfo, SetRef, Store, StoredItem
from alveus.store.records import item_of
from alveus.store.scope import is_hidden
from alveus.transfer.lines import FORMAT, ItemLine, ItemLocation, LearntLine, NodeLine, SetLine
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value, checked_name

PAGE = 256

LAST = (1 << 62) - 1
"""A time after every commit, in microseconds."""


def scope_of(memory: Memory, key: str | None) -> Scope:
    """Return the scope of *key*. If *key* is None, return the scope of the memory's knowledge."""
    return Scope(memory.knowledge.name, None) if key is None else Scope(memory.space, key)


@dataclass(frozen=True, slots=True)
class Selection:
    """The contents to export.

    Attributes:
        keys: The keys to export. None means all keys of the space.
        sets: The names of the sets to export. None means all sets.
        knowledge: True to export the knowledge too.
        trees: True to export exact memory.
    """

    keys: Sequence[str] | None = None
    sets: Sequence[str] | None = None
    knowledge: bool = True
    trees: bool = True

    def scopes(self, memory: Memory) -> Iterator[Scope]:
        """Yield the selected keys, and the knowledge last."""
        for key in memory.keys() if self.keys is None else self.keys:
            yield scope_of(memory, checked_name(key, "a key"))
        if self.knowledge:
            yield scope_of(memory, None)

    def includes(self, memory: Memory, scope: Scope) -> bool:
        """Return whether a scope is selected."""
        if scope.key is None:
            return self.knowledge and scope == scope_of(memory, None)
        return scope.space == memory.space and (self.keys is None or scope.key in self.keys)

    def includes_set(self, memory: Memory, ref: SetRef) -> bool:
        """Return whether a set is selected."""
        return (self.sets is None or ref.name in self.sets) and self.includes(memory, ref.scope)


def export_lines(memory: Memory, selection: Selection = Selection()) -> Iterator[str]:  # noqa: B008 - frozen
    """Yield the lines of an export, without line ends, from one snapshot of the memory.

    Equal memories give equal lines, byte for byte, also after an export and an import.
    """
    export = _Export(memory, selection, memory.store.commit_at(LAST), memory.engine.clock())
    yield wire.encode({"type": "alveus", "format": FORMAT})
    for fields in export.lines():
        yield wire.encode(fields)


def exported_items(memory: Memory, selection: Selection) -> int:
    """Return the number of items that `export_lines` writes, without expired items, at most."""
    scopes = selection.scopes(memory)
    return sum(info.items for scope in scopes for info in _set_infos(memory, scope, selection))


def walk_tree(
    store: Store, scope: Scope, *, at: int | None, now: int, start: Path = ()
) -> Iterator[tuple[Path, Node]]:
    """Yield every node below *start*: an object before its fields, fields in order of creation."""
    for name, node in store.children(scope, start, at=at, now=now):
        path = (*start, name)
        yield path, node
        if node.is_object:
            yield from walk_tree(store, scope, at=at, now=now, start=path)


def set_pages(store: Store, ref: SetRef, *, at: int) -> Iterator[list[StoredItem]]:
    """Yield the items of a set in order, as after commit *at*, a page at a time."""
    after: tuple[int, int] | None = None
    while page := store.page(ref, after=after, limit=PAGE, at=at):
        yield page
        time = page[-1].record.time
        after = (page[-1].updated if time is None else time, page[-1].first)


def _set_infos(memory: Memory, scope: Scope, selection: Selection) -> list[SetInfo]:
    infos = memory.store.set_infos(scope)
    return [i for i in infos if not is_hidden(i.ref) and selection.includes_set(memory, i.ref)]


@dataclass(frozen=True, slots=True)
class _Export:
    """One export.

    Attributes:
        at: The commit whose state is exported.
        now: The time of the export, in microseconds. Items that expired before it are left out.
    """

    memory: Memory
    selection: Selection
    at: int
    now: int

    def lines(self) -> Iterator[dict[str, Value]]:
        store = self.memory.store
        for scope in self.selection.scopes(self.memory):
            for info in _set_infos(self.memory, scope, self.selection):
                yield SetLine(scope.key, info.ref.name, info.definition).fields()
                for page in set_pages(store, info.ref, at=self.at):
                    yield from self._items(page)
                yield from self._learnt(info.ref)
            if self.selection.trees and scope.key is not None:
                for path, node in walk_tree(store, scope, at=self.at, now=self.now):
                    yield NodeLine(scope.key, path, node).fields()

    def _items(self, page: Sequence[StoredItem]) -> Iterator[dict[str, Value]]:
        live = [item for item in page if not self._expired(item)]
        sources = self._sources(live)
        for stored in live:
            linked = sources.get(stored.row, [])
            has_sources = bool(linked or stored.record.sources)
            key, name = stored.set.scope.key, stored.set.name
            yield ItemLine(key, name, item_of(stored), linked if has_sources else None).fields()

    def _learnt(self, ref: SetRef) -> Iterator[dict[str, Value]]:
        """Yield lines with the messages of a set that facts were learnt from.

        Yield nothing if the facts are not exported.
        """
        key, store = ref.scope.key, self.memory.store
        if key is None or not self.selection.includes_set(self.memory, SetRef(ref.scope, FACTS)):
            return
        (stored,) = store.get(SetRef(ref.scope, RECORDS), [POSITION + ref.name], at=self.at)
        if stored is None:
            return
        position = read_position(stored)
        empty = True
        for page in set_pages(store, ref, at=self.at):
            waiting = {
                one.record.id: position.failures_of(one.first)
                for one in page
                if not self._expired(one)
            }
            read = [item_id for item_id, failures in waiting.items() if failures is None]
            failed = {item_id: failures for item_id, failures in waiting.items() if failures}
            if read or failed:
                yield LearntLine(key, ref.name, read, failed).fields()
                empty = False
        if empty:
            yield LearntLine(key, ref.name, (), {}).fields()

    def _expired(self, item: StoredItem) -> bool:
        return item.record.expires is not None and item.record.expires <= self.now

    def _sources(self, page: Sequence[StoredItem]) -> dict[int, list[ItemLocation]]:
        """Return the exported sources of each version, by the row of the version."""
        store = self.memory.store
        pairs = store.source_links([item.row for item in page])
        versions = store.items_by_row(sorted({source for _, source in pairs}))
        exported = {version.row: version for version in versions if self._is_exported(version)}
        locations: dict[int, set[ItemLocation]] = {}
        for row, source in pairs:
            if source in exported:
                ref = exported[source].set
                location = ItemLocation(ref.scope.key, ref.name, exported[source].record.id)
                locations.setdefault(row, set()).add(location)
        return {
            row: sorted(found, key=lambda location: wire.encode(list(location)))
            for row, found in locations.items()
        }

    def _is_exported(self, version: StoredItem) -> bool:
        if is_hidden(version.set) or not self.selection.includes_set(self.memory, version.set):
            return False
        (live,) = self.memory.store.get(version.set, [version.record.id], at=self.at)
        return live is not None and live.first == version.first and not self._expired(live)
