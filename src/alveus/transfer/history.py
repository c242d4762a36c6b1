"""History of a memory: exported as lines, commit by commit, and repeated in another store."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from alveus.errors import AlveusError, Conflict, StaleRun
from alveus.facts.learning_records import RECORDS, renumbered
from alveus.memory.memory import Memory
from alveus.sets.forgetting import ForgottenKeys, is_bare
from alveus.store import (
    Batch,
    Compaction,
    Create,
    Define,
    Delete,
    Effects,
    ItemRecord,
    Node,
    Past,
    Put,
    Scope,
    SetRef,
    StoredItem,
    TreeDelta,
)
from alveus.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.transfer.export import LAST, Selection, scope_of, set_pages
from alveus.transfer.import_formats import entries
from alveus.transfer.import_source import Source
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
    NodeGone,
    NodeLine,
    NodeRemoved,
    RowName,
    SetLine,
    SetPart,
    SourceAdded,
)
from alveus.values import wire
from alveus.values.retries import call_with_retries
from alveus.values.storable import Path, Value

# --- export -----------------------------------------------------------------------------------

MEANWHILE = "data was erased or purged during the export; export it again"

EVER = -(1 << 61)
"""A time before the expiry of every node, even of a placeholder."""

POSITION_MASK = (1 << ROW_BITS) - 1


def history_lines(memory: Memory, selection: Selection | None = None) -> Iterator[str]:
    """Yield the lines of an export of history, without line ends, from one snapshot.

    Commits outside the selection are left out. Erased and purged data is missing. If the order of
    later rows depends on missing data, the export has a placeholder for it.

    Raises:
        Conflict: Data was erased or purged during the export.
    """
    for fields in _HistoryExport(memory, selection or Selection()).lines():
        yield wire.encode(fields)


class _HistoryExport:
    """An export of history.

    It reads every commit twice. The first reading finds the commits to export, and the missing
    nodes that need a placeholder.
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
        """Return whether the line of a commit names the key of the commit.

        A key that is not selected, or was forgotten, is not named.
        """
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
        """Record the missing nodes that a kept node replaced, or that replaced a kept node."""
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
        """Return the paths that a commit removed, and those of its nodes that are still kept."""
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
        starts: dict[Scope, list[HistoryStart]] = {}
        for owner, (number, time) in self._complete_from.items():
            scope, name = (owner.scope, owner.name) if isinstance(owner, SetRef) else (owner, None)
            commit = self._name(number << ROW_BITS).commit if number else 0
            starts.setdefault(scope, []).append(HistoryStart(scope.key, name, commit, time))
        return starts

    def _definitions(self) -> dict[Scope, list[SetLine]]:
        """Return the definitions of the selected sets by scope, even of hidden and empty sets."""
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
        """Return a row that an item refers to, numbered by the commits of the export.

        A row of a commit that is left out becomes the last row before this commit.
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
        """Return the rows of the sources of each version, as far as their sets are selected."""
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
        for ref in sorted(self._sets, key=_by_name):
            for item in (i for page in set_pages(self._store, ref, at=self._at) for i in page):
                if item.accessed is not None:
                    yield AccessedLine(*_key_and_set(ref), self._name(item.first), item.accessed)


def _by_name(ref: SetRef) -> tuple[str, str]:
    return ref.scope.key or "", ref.name


def _key_and_set(ref: SetRef) -> tuple[str | None, str]:
    return ref.scope.key, ref.name


# --- import -----------------------------------------------------------------------------------

TOGETHER = 200
"""Commits of one transaction."""

MARK = "history"
"""The field of a repeated commit's result with the digest of the file up to the commit."""


class Replay:
    """An import of history into one memory: it repeats the commits of a file in the store.

    A commit is repeated only if the commit before it in the file is the last commit of the store,
    so no other commit comes between. The results of the commits record the progress of the import,
    so a second `run` continues and writes no commit twice.

    Attributes:
        commits, versions: The numbers of commits and versions that this import wrote.
    """

    def __init__(
        self, memory: Memory, source: Source, progress: Callable[[int], None] = lambda _count: None
    ) -> None:
        self._memory, self._source, self._progress = memory, source, progress
        self._store = memory.store
        self._base = 0
        self.commits = self.versions = 0

    def run(self) -> int:
        """Repeat the remaining commits of the file.

        Return the number of commits that an earlier import had written.

        Raises:
            Conflict: Another writer has added later commits. This call wrote nothing after them.
        """
        kept = self._done()
        call_with_retries(lambda: self._rest(self._done()), on=StaleRun)
        return kept

    # --- the progress of the import

    def _lines(self) -> Iterator[CommitLine]:
        return (e for _, e in entries(self._source, "alveus", None) if isinstance(e, CommitLine))

    def _done(self) -> int:
        """Return how many commits of the file the store already has."""
        last = self._store.commit_at(LAST)
        effects = self._store.effects(last)
        if effects is None:
            self._base = 0
            return 0
        result = effects.commit.result
        if isinstance(result, dict) and isinstance(result.get("commit"), int):
            done = int(str(result["commit"]))
            line = next(islice(self._lines(), done - 1, None), None)
            if line is not None and line.digest == result.get(MARK):
                self._base = last - done
                return done
        self._refuse_later(effects.commit.time)
        self._base = last
        return 0

    def _refuse_later(self, time: int) -> None:
        """Refuse a store that was written to after the history began, or has the same data.

        Raises:
            Conflict: A commit of the store is not earlier than the history, or the store has a set
                or an exact memory that the history makes.
        """
        for line in self._lines():
            if line.time <= time:
                raise Conflict(
                    f"the store was changed after commit {line.number} of {self._source.name}; "
                    "import the history into a new store"
                )
            for part in line.parts:
                if isinstance(part, (NodeLine, NodeRemoved, NodeGone)) or part.set is None:
                    if self._store.head(scope_of(self._memory, part.key)):
                        raise Conflict(_exists(f"exact memory of key {part.key!r}"))
                elif self._store.set_info(self._ref(part.key, part.set)) is not None:
                    raise Conflict(_exists(f"set {part.set!r} of key {part.key!r}"))

    def _number(self, ordinal: int) -> int:
        return self._base + ordinal

    def _row(self, name: RowName) -> int:
        return (self._number(name.commit) << ROW_BITS) + name.position

    # --- the remaining commits

    def _rest(self, done: int) -> None:
        numbered = entries(self._source, "alveus", None)
        history = (e for _, e in numbered if isinstance(e, (CommitLine, AccessedLine)))
        lines = islice(history, done, None)
        while chunk := list(islice(lines, TOGETHER)):
            self._commit([line for line in chunk if isinstance(line, CommitLine)])
            for line in chunk:
                if isinstance(line, AccessedLine):
                    self._store.touch([self._row(line.row)], time=line.time)
            self._progress(len(chunk))

    def _commit(self, lines: Sequence[CommitLine]) -> None:
        heads: dict[Scope, int] = {}
        batches: list[Batch] = []
        for line in lines:
            batches.append(self._batch(line, heads))
            if batches[-1].state:
                heads[batches[-1].scope] = self._number(line.number)
        answers = self._store.commit_many(batches)
        for line, batch, answer in zip(lines, batches, answers, strict=True):
            if isinstance(answer, AlveusError):
                raise answer
            self.commits += 1
            self.versions += sum(isinstance(part, ItemBegun) for part in line.parts)
            self._memory.engine.written(batch.items, answer)

    def _batch(self, line: CommitLine, heads: dict[Scope, int]) -> Batch:
        scope = scope_of(self._memory, line.key)
        state = [delta for part in line.parts for delta in _deltas(part)]
        base = (heads.get(scope) or self._store.head(scope)) if state else None
        return Batch(
            scope=scope,
            time=line.time,
            after=self._number(line.number) - 1,
            base=base,
            history_start=next(
                (
                    (self._number(part.commit) if part.commit else 0, part.time)
                    for part in line.parts
                    if isinstance(part, HistoryStart) and part.set is None
                ),
                (0, 0),
            ),
            state=state,
            define=[
                Define(self._ref(part.key, part.set), part.definition, replace=True)
                for part in line.parts
                if isinstance(part, SetLine)
            ],
            items=self._pasts(line),
            expects=self._memory.engine.expects,
            result={MARK: line.digest, "commit": line.number},
        )

    def _ref(self, key: str | None, name: str) -> SetRef:
        return SetRef(scope_of(self._memory, key), name)

    def _pasts(self, line: CommitLine) -> list[Past]:
        begun = [part for part in line.parts if isinstance(part, ItemBegun)]
        pairs = [(part.line.item.id or "", self._item(part)) for part in begun]
        made = self._memory.engine.recorder.records(pairs, now=line.time) if pairs else []
        records = dict(zip((part.place for part in begun), made, strict=True))
        by_set: dict[SetRef, list[SetPart | HistoryStart]] = {}
        for part in line.parts:
            if isinstance(part, SetPart | HistoryStart) and part.set is not None:
                by_set.setdefault(self._ref(part.key, part.set), []).append(part)
        pasts = [self._past(ref, parts, line, records) for ref, parts in by_set.items()]
        links = [Past(ref, links=self._links(parts, line)) for ref, parts in by_set.items()]
        return [*pasts, *(past for past in links if past.links)]  # to another set

    def _item(self, part: ItemBegun) -> Item:
        if part.set != RECORDS:
            return part.line.item
        return renumbered(part.line.item, lambda row: row and row + (self._base << ROW_BITS))

    def _past(
        self,
        ref: SetRef,
        parts: Sequence[SetPart | HistoryStart],
        line: CommitLine,
        records: Mapping[int, ItemRecord],
    ) -> Past:
        return Past(
            ref,
            [self._stored(p, line, records[p.place]) for p in parts if isinstance(p, ItemBegun)],
            [self._row(p.row) for p in parts if isinstance(p, ItemEnded)],
            compactions=[self._compaction(p, line) for p in parts if isinstance(p, CompactionDone)],
            undone_compactions=[
                self._row(p.compaction) for p in parts if isinstance(p, CompactionUndone)
            ],
            history_start=next(
                (self._number(p.commit) for p in parts if isinstance(p, HistoryStart)), 0
            ),
        )

    def _links(
        self, parts: Sequence[SetPart | HistoryStart], line: CommitLine
    ) -> list[tuple[int, int]]:
        links: list[tuple[int, int]] = []
        for part in parts:
            if isinstance(part, ItemBegun):
                row = RowName(line.number, part.place)
                links += [(self._row(row), self._row(source)) for source in part.links]
            elif isinstance(part, SourceAdded):
                links.append((self._row(part.row), self._row(part.source)))
        return links

    def _stored(self, part: ItemBegun, line: CommitLine, record: ItemRecord) -> StoredItem:
        row = self._row(RowName(line.number, part.place))
        return StoredItem(
            row=row,
            first=row if part.first is None else self._row(part.first),
            set=self._ref(part.key, part.set),
            begin_commit=self._number(line.number),
            end_commit=None,
            version=part.version,
            created=line.time if part.created is None else part.created,
            updated=line.time if part.updated is None else part.updated,
            accessed=None,
            record=record,
        )

    def _compaction(self, part: CompactionDone, line: CommitLine) -> Compaction:
        return Compaction(
            id=self._row(RowName(line.number, part.place)),
            set=self._ref(part.key, part.set),
            commit=self._number(line.number),
            time=line.time,
            how=part.how,
            retired=[self._row(name) for name in part.retired],
            added=[self._row(name) for name in part.added],
            erased=part.erased,
            undo_commit=None,
            purged=part.purged,
        )


def _exists(what: str) -> str:
    return f"{what} exists already; import its history into a store without it"


def _deltas(part: CommitPart) -> Iterator[TreeDelta]:
    match part:
        case NodeRemoved(path=path):
            yield Delete(path)
        case NodeGone(path=path):
            yield Put(path, None, PLACEHOLDER_EXPIRY)
        case NodeLine(path=path, node=node) if node.is_object:
            yield Create(path, node.expires)
        case NodeLine(path=path, node=node):
            yield Put(path, node.value, node.expires)
        case _:
            pass
