"""Export: a memory as JSON lines, from one snapshot, without or with its history."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache

from alveus.errors import Conflict
from alveus.facts.fact import FACTS
from alveus.facts.learning_records import POSITION, RECORDS, read_position, renumbered
from alveus.memory.memory import Memory
from alveus.sets.forgetting import ForgottenKeys, is_bare
from alveus.store import Compaction, Effects, Node, Scope, SetInfo, SetRef, Store, StoredItem
from alveus.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS
from alveus.store.records import item_of
from alveus.store.scope import is_hidden
from alveus.transfer.lines import (
    FORMAT,
    AccessedLine,
    CommitLine,
    CommitPart,
    CompactionDone,
    CompactionUndone,
    HistoryStart,
    ItemBegun,
    ItemEnded,
    ItemLine,
    ItemLocation,
    LearntLine,
    NodeGone,
    NodeLine,
    NodeRemoved,
    RowName,
    SetLine,
    SourceAdded,
)
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value, checked_name

PAGE = 256

LAST = (1 << 62) - 1
"""A time after every commit, in microseconds."""


def scope_of(memory: Memory, key: str | None) -> Scope:
    """Return the scope of a key. None means the memory's knowledge."""
    return Scope(memory.knowledge.name, None) if key is None else Scope(memory.space, key)


@dataclass(frozen=True, slots=True)
class Selection:
    """The contents to export: keys (None means all of the space) and sets (None means all).

    Attributes:
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
    """Return the most items that `export_lines` writes. Expired items are left out."""
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
        now: In microseconds. Items that expired before are left out.
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
        """Yield the learnt messages of a conversation, if the facts are exported."""
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
        """Return the exported sources of each version, by row."""
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
        """Return whether any version of the item is exported."""
        if is_hidden(version.set) or not self.selection.includes_set(self.memory, version.set):
            return False
        (live,) = self.memory.store.get(version.set, [version.record.id], at=self.at)
        return live is not None and live.first == version.first and not self._expired(live)


# --- history ----------------------------------------------------------------------------------

MEANWHILE = "something was erased or purged while the history was exported; export it again"

EVER = -(1 << 61)
"""A time before every expiry, of placeholder nodes too."""

POSITION_MASK = (1 << ROW_BITS) - 1


def history_lines(memory: Memory, selection: Selection | None = None) -> Iterator[str]:
    """Yield the lines of an export of history, without line ends, from one snapshot.

    Commits outside the selection are left out. Erased and purged data is missing. A placeholder
    replaces it if the order of later rows depends on it.

    Raises:
        Conflict: Data was erased or purged during the export.
    """
    for fields in _HistoryExport(memory, selection or Selection()).lines():
        yield wire.encode(fields)


class _HistoryExport:
    """An export of history.

    It reads every commit twice, first for the references of later commits.
    """

    def __init__(self, memory: Memory, selection: Selection) -> None:
        self._memory, self._selection, self._store = memory, selection, memory.store
        self._at = self._store.commit_at(LAST)
        self._numbers = array("q")
        self._complete_from = self._read_complete_from()
        self._sets: dict[SetRef, None] = {}
        self._replaced: set[tuple[Scope, Path]] = set()
        self._gone: dict[int, list[tuple[int, Scope, Path]]] = {}
        self._paths = lru_cache(maxsize=64)(self._paths_of)
        self._forgotten = ForgottenKeys(self._store)

    def lines(self) -> Iterator[dict[str, Value]]:
        yield {"type": "alveus", "format": FORMAT, "history": True}
        self._scan()
        definitions, starts = self._definitions(), self._starts()
        for ordinal, number in enumerate(self._numbers, start=1):
            effects = self._store.effects(number)
            if effects is None:
                continue
            knowledge = scope_of(self._memory, None)
            scope = effects.scope if self._names(effects) else knowledge
            scopes = (knowledge, scope)
            yield from (line.fields() for one in scopes for line in definitions.pop(one, ()))
            yield CommitLine(ordinal, effects.commit.time, scope.key).fields()
            yield from (start.fields() for one in scopes for start in starts.pop(one, ()))
            yield from (part.fields() for part in self._parts(effects))
        yield from (line.fields() for line in self._accesses())
        if self._read_complete_from() != self._complete_from:
            raise Conflict(MEANWHILE)
        yield {"type": "end", "commits": len(self._numbers)}

    # --- selection

    def _includes(self, scope: Scope) -> bool:
        return self._selection.includes(self._memory, scope)

    def _names(self, effects: Effects) -> bool:
        """Return whether the line of a commit names its key. A forgotten key is not named."""
        number, scope = effects.commit.number, effects.scope
        forgotten = is_bare(effects) and self._forgotten.cover(number, scope)
        return self._includes(scope) and not forgotten

    def _includes_set(self, ref: SetRef) -> bool:
        return self._selection.includes_set(self._memory, ref)

    def _includes_tree(self, scope: Scope) -> bool:
        return self._selection.trees and scope.key is not None and self._includes(scope)

    # --- the first reading

    def _scan(self) -> None:
        numbers: set[int] = set()
        for number in range(1, self._at + 1):
            effects = self._store.effects(number)
            if effects is None:
                continue
            changed = self._changed_sets(effects)
            self._sets.update(dict.fromkeys(changed))
            if changed or self._names(effects):
                numbers.add(number)
            numbers.update(
                i.first >> ROW_BITS for i in effects.begun_items if self._includes_set(i.set)
            )
            if self._includes_tree(effects.scope):
                self._scan_gone(effects)
        numbers.update(commit for commit, _ in self._complete_from.values() if commit)
        self._numbers.extend(sorted(numbers.union(self._gone)))

    def _changed_sets(self, effects: Effects) -> list[SetRef]:
        undone = [self._store.compaction(number) for number in effects.undone_compactions]
        changes = [
            *effects.begun_items,
            *effects.ended_items,
            *effects.compactions,
            *filter(None, undone),
        ]
        return [change.set for change in changes if self._includes_set(change.set)]

    def _scan_gone(self, effects: Effects) -> None:
        """Record deleted nodes that precede kept nodes or were replaced by kept nodes."""
        nodes = zip(effects.put_nodes, effects.positions, effects.end_commits, strict=True)
        for (path, node), position, end in nodes:
            made = position >> ROW_BITS
            if node.expires == PLACEHOLDER_EXPIRY:
                continue  # kept nodes show the needed objects, as in the source store
            if made != effects.commit.number and path not in self._paths(made):
                self._note_gone(made, position, effects.scope, path)
            if end is not None and path not in self._paths(end):
                self._note_gone(end, position, effects.scope, path)

    def _note_gone(self, number: int, position: int, scope: Scope, path: Path) -> None:
        gone = self._gone.setdefault(number, [])
        self._replaced.add((scope, path))
        if number <= self._at and (position, scope, path) not in gone:
            gone.append((position, scope, path))

    def _paths_of(self, number: int) -> frozenset[Path]:
        """Return the paths of kept nodes that a commit put or removed."""
        effects = self._store.effects(number)
        if effects is None:
            return frozenset()
        put = (path for path, node in effects.put_nodes if node.expires != PLACEHOLDER_EXPIRY)
        return frozenset([*effects.removed_paths, *put])

    def _read_complete_from(self) -> dict[Scope | SetRef, tuple[int, int]]:
        """Return the commit and time from which the past of each selected tree and set is complete.

        Trees and sets with a complete past are left out. For sets the time is 0.
        """
        starts: dict[Scope | SetRef, tuple[int, int]] = {}
        for scope in self._selection.scopes(self._memory):
            if self._includes_tree(scope):
                starts[scope] = self._store.history_start(scope)
            for info in self._store.set_infos(scope):
                if self._includes_set(info.ref):
                    starts[info.ref] = info.history_start, 0
        return {owner: start for owner, start in starts.items() if start != (0, 0)}

    def _starts(self) -> dict[Scope, list[HistoryStart]]:
        """Return the lines of `_complete_from`, by scope."""
        starts: dict[Scope, list[HistoryStart]] = {}
        for owner, (number, time) in self._complete_from.items():
            scope, name = (owner.scope, owner.name) if isinstance(owner, SetRef) else (owner, None)
            commit = self._name(number << ROW_BITS).commit if number else 0
            starts.setdefault(scope, []).append(HistoryStart(scope.key, name, commit, time))
        return starts

    def _definitions(self) -> dict[Scope, list[SetLine]]:
        """Return the definitions of all sets by scope, with hidden and empty sets."""
        scopes = self._selection.scopes(self._memory)
        listed = [info.ref for scope in scopes for info in self._store.set_infos(scope)]
        refs = {ref for ref in [*listed, *self._sets] if self._includes_set(ref)}
        definitions: dict[Scope, list[SetLine]] = {}
        for ref in sorted(refs, key=_by_name):
            info = self._store.set_info(ref)
            if info is not None:
                line = SetLine(ref.scope.key, ref.name, info.definition)
                definitions.setdefault(ref.scope, []).append(line)
        return definitions

    # --- the lines of a commit

    def _name(self, row: int) -> RowName:
        """Return the name of a row in the lines: its commit, and its position in the commit."""
        number = row >> ROW_BITS
        index = bisect_left(self._numbers, number)
        if index == len(self._numbers) or self._numbers[index] != number:
            raise Conflict(MEANWHILE)
        return RowName(index + 1, row & POSITION_MASK)

    def _row(self, row: int) -> int:
        """Return the row of an item's reference, counted by the commits of the export.

        A row of a left-out commit becomes the last row before it.
        """
        number = row >> ROW_BITS
        index = bisect_left(self._numbers, number)
        if index < len(self._numbers) and self._numbers[index] == number:
            return (index + 1) << ROW_BITS | (row & POSITION_MASK)
        return index << ROW_BITS | POSITION_MASK if row else 0

    def _parts(self, effects: Effects) -> Iterator[CommitPart]:
        if self._includes_tree(effects.scope):
            yield from self._tree(effects)
        begun = [item for item in effects.begun_items if self._includes_set(item.set)]
        links = self._links([item.row for item in begun])
        for item in begun:
            yield self._begun(item, effects.commit.time, links.get(item.row, []))
        for item in sorted(effects.ended_items, key=lambda item: item.row):
            if self._includes_set(item.set):
                yield ItemEnded(*_key_and_set(item.set), self._name(item.row))
        yield from self._later_sources(effects.commit.number, [item.row for item in begun])
        for compaction in effects.compactions:
            if self._includes_set(compaction.set):
                yield self._compaction(compaction)
        for number in effects.undone_compactions:
            compaction = self._store.compaction(number)
            if compaction is not None and self._includes_set(compaction.set):
                yield CompactionUndone(*_key_and_set(compaction.set), self._name(number))

    def _tree(self, effects: Effects) -> Iterator[CommitPart]:
        scope, number = effects.scope, effects.commit.number
        key = scope.key or ""
        nodes: list[tuple[int, NodeLine | NodeGone]] = [
            (position, NodeLine(key, path, node))
            for position, (path, node) in zip(effects.positions, effects.put_nodes, strict=True)
            if node.expires != PLACEHOLDER_EXPIRY and self._has_parent(scope, path, number)
        ]
        nodes += [
            (position, NodeGone(key, path))
            for position, gone_scope, path in self._gone.get(number, [])
            if gone_scope == scope
        ]
        removed = set(effects.removed_paths)
        removed.update(  # a node at this path may be a placeholder
            node.path
            for position, node in nodes
            if position >> ROW_BITS == number and (scope, node.path) in self._replaced
        )
        yield from (NodeRemoved(key, path) for path in sorted(removed))
        yield from (node for _, node in sorted(nodes, key=lambda placed: placed[0]))

    def _has_parent(self, scope: Scope, path: Path, number: int) -> bool:
        if len(path) == 1:
            return True
        parent: Node | None = self._store.node(scope, path[:-1], at=number, now=EVER)
        return parent is not None

    def _links(self, rows: Sequence[int]) -> dict[int, list[int]]:
        """Return the sources of versions, as rows of selected sets."""
        pairs = self._store.source_links(rows) if rows else []
        stored = self._store.items_by_row(sorted({source for _, source in pairs}))
        selected = {item.row for item in stored if self._includes_set(item.set)}
        links: dict[int, list[int]] = {}
        for row, source in pairs:
            if source in selected:
                links.setdefault(row, []).append(source)
        return links

    def _later_sources(self, number: int, rows: Sequence[int]) -> Iterator[SourceAdded]:
        """Yield links from versions of earlier commits to versions that this commit began."""
        pairs = [(r, s) for r, s in self._store.derived_links(rows) if r >> ROW_BITS < number]
        stored = {i.row: i for i in self._store.items_by_row(sorted({row for row, _ in pairs}))}
        for row, source in sorted(pairs):
            if row in stored and self._includes_set(stored[row].set):
                yield SourceAdded(
                    *_key_and_set(stored[row].set), self._name(row), self._name(source)
                )

    def _begun(self, item: StoredItem, time: int, links: Sequence[int]) -> ItemBegun:
        value = item_of(item)
        if item.set.name == RECORDS:
            value = renumbered(value, self._row)
        return ItemBegun(
            ItemLine(*_key_and_set(item.set), value),
            item.row & POSITION_MASK,
            item.version,
            None if item.first == item.row else self._name(item.first),
            None if item.created == time else item.created,
            None if item.updated == time else item.updated,
            tuple(self._name(row) for row in links if row >> ROW_BITS <= item.begin_commit),
        )

    def _compaction(self, compaction: Compaction) -> CompactionDone:
        return CompactionDone(
            *_key_and_set(compaction.set),
            compaction.id & POSITION_MASK,
            compaction.how,
            [self._name(row) for row in compaction.retired],
            [self._name(row) for row in compaction.added],
            compaction.erased,
            compaction.purged,
        )

    def _accesses(self) -> Iterator[AccessedLine]:
        """Yield the last access of live items."""
        for ref in sorted(self._sets, key=_by_name):
            for item in (i for page in set_pages(self._store, ref, at=self._at) for i in page):
                if item.accessed is not None:
                    yield AccessedLine(*_key_and_set(ref), self._name(item.first), item.accessed)


def _by_name(ref: SetRef) -> tuple[str, str]:
    return ref.scope.key or "", ref.name


def _key_and_set(ref: SetRef) -> tuple[str | None, str]:
    return ref.scope.key, ref.name
