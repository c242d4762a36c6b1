"""Import of history: the commits of another store, repeated in this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice

from alveus.errors import AlveusError, Conflict, StaleRun
from alveus.facts.learning_records import RECORDS, renumbered
from alveus.memory.memory import Memory
from alveus.store import (
    Batch,
    Compaction,
    Create,
    Define,
    Delete,
    ItemRecord,
    Past,
    Put,
    Scope,
    SetRef,
    StoredItem,
    TreeDelta,
)
from alveus.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS
from alveus.store.items import Item
from alveus.transfer.export import LAST, scope_of
from alveus.transfer.import_formats import entries
from alveus.transfer.import_source import Source
from alveus.transfer.lines import (
    AccessedLine,
    CommitLine,
    CommitPart,
    CompactionDone,
    CompactionUndone,
    HistoryStart,
    ItemBegun,
    ItemEnded,
    NodeGone,
    NodeLine,
    NodeRemoved,
    RowName,
    SetLine,
    SetPart,
    SourceAdded,
)
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import call_with_retries

TOGETHER = 200
"""Commits of one transaction."""

MARK = "history"
"""The field of a repeated commit's result with the digest of the file up to the commit."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The counts of an import of history.

    Attributes:
        commits, versions: The commits and versions that this import wrote.
        commits_kept: The commits that an earlier import had written.
    """

    commits: int
    versions: int
    commits_kept: int


class Replay:
    """An import of history into one memory. A repeated `run` repeats no commit.

    A commit is repeated only if the commit before it in the file is the last commit of the store,
    so
    no other commit comes between. The results of the commits record the progress of the import.
    """

    def __init__(
        self, memory: Memory, source: Source, progress: Callable[[int], None] = lambda _count: None
    ) -> None:
        self._memory, self._source, self._progress = memory, source, progress
        self._store = memory.store
        self._base = 0
        self._commits = self._versions = 0

    def run(self) -> Replayed:
        """Repeat the remaining commits of the file.

        Raises:
            Conflict: The store has other, later commits. This call wrote nothing since then.
        """
        kept = self._done()
        call_with_retries(lambda: self._rest(self._done()), on=StaleRun)
        return Replayed(self._commits, self._versions, kept)

    # --- how far it is

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
        """Refuse a store with commits later than the history."""
        for line in self._lines():
            if line.time <= time:
                raise Conflict(
                    f"the store was written to after commit {line.number} of {self._source.name}; "
                    "import a history into a new store, or one last written before it began"
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
        return (self._number(name.commit) << ROW_BITS) + name.place

    # --- the rest of it

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
            self._commits += 1
            self._versions += sum(isinstance(part, ItemBegun) for part in line.parts)
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
            history_start=self._floor(line),
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

    def _floor(self, line: CommitLine) -> tuple[int, int]:
        """Return the commit and time from which the past of the tree is complete."""
        for part in line.parts:
            if isinstance(part, HistoryStart) and part.set is None:
                return self._number(part.commit) if part.commit else 0, part.time
        return 0, 0

    def _ref(self, key: str | None, name: str) -> SetRef:
        return SetRef(scope_of(self._memory, key), name)

    def _pasts(self, line: CommitLine) -> list[Past]:
        begun = [part for part in line.parts if isinstance(part, ItemBegun)]
        pairs = [(part.line.item.id or "", self._item(part)) for part in begun]
        recorder = self._memory.engine.recorder
        made = recorder.records(pairs, now=line.time) if pairs else []
        records = dict(zip((part.place for part in begun), made, strict=True))
        changes: dict[SetRef, _SetChanges] = {}
        for part in line.parts:
            if isinstance(part, HistoryStart) and part.set is not None:
                ref = self._ref(part.key, part.set)
                changes.setdefault(ref, _SetChanges()).history_start = self._number(part.commit)
            elif isinstance(part, SetPart):
                ref = self._ref(part.key, part.set)
                self._apply(part, ref, changes.setdefault(ref, _SetChanges()), line, records)
        pasts = [change.to_past(ref) for ref, change in changes.items()]
        links = [Past(ref, links=change.links) for ref, change in changes.items()]
        return [*pasts, *(past for past in links if past.links)]  # to another set

    def _item(self, part: ItemBegun) -> Item:
        if part.set != RECORDS:
            return part.line.item
        return renumbered(part.line.item, lambda row: row and row + (self._base << ROW_BITS))

    def _apply(
        self,
        part: SetPart,
        ref: SetRef,
        changes: _SetChanges,
        line: CommitLine,
        records: Mapping[int, ItemRecord],
    ) -> None:
        match part:
            case ItemBegun():
                item = self._stored(part, ref, line, records[part.place])
                changes.begun.append(item)
                changes.links += [(item.row, self._row(source)) for source in part.links]
            case ItemEnded(row=row):
                changes.ended.append(self._row(row))
            case SourceAdded(row=row, source=source):
                changes.links.append((self._row(row), self._row(source)))
            case CompactionDone():
                changes.compactions.append(self._compaction(part, ref, line))
            case CompactionUndone(compaction=name):
                changes.undone.append(self._row(name))

    def _stored(
        self, part: ItemBegun, ref: SetRef, line: CommitLine, record: ItemRecord
    ) -> StoredItem:
        row = self._row(RowName(line.number, part.place))
        return StoredItem(
            row=row,
            first=row if part.first is None else self._row(part.first),
            set=ref,
            begin_commit=self._number(line.number),
            end_commit=None,
            version=part.version,
            created=line.time if part.created is None else part.created,
            updated=line.time if part.updated is None else part.updated,
            accessed=None,
            record=record,
        )

    def _compaction(self, part: CompactionDone, ref: SetRef, line: CommitLine) -> Compaction:
        return Compaction(
            id=self._row(RowName(line.number, part.place)),
            set=ref,
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


@dataclass(slots=True)
class _SetChanges:
    """The changes of a commit to one set."""

    begun: list[StoredItem] = field(default_factory=list[StoredItem])
    ended: list[int] = field(default_factory=list[int])
    links: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    compactions: list[Compaction] = field(default_factory=list[Compaction])
    undone: list[int] = field(default_factory=list[int])
    history_start: int = 0

    def to_past(self, ref: SetRef) -> Past:
        return Past(
            ref, self.begun, self.ended, (), self.compactions, self.undone, self.history_start
        )


def _deltas(part: CommitPart) -> Iterator[TreeDelta]:
    """Yield the changes of exact memory in a line."""
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
