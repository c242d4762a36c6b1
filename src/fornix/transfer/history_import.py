"""Import of history: the commits of another store, done again in this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from fornix.errors import Conflict, FornixError, StaleRun
from fornix.memory.memory import Memory
from fornix.store import (
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
from fornix.store.checks import ROW_BITS
from fornix.transfer.export import LAST, scope_of
from fornix.transfer.import_entries import (
    AccessedLine,
    Begun,
    CommitLine,
    Ended,
    HistoryStart,
    ImportedCompaction,
    ImportedSource,
    ImportedUndo,
    Name,
    NodeLine,
    Part,
    Removed,
    SetLine,
)
from fornix.transfer.import_formats import entries
from fornix.transfer.import_source import Source
from fornix.values.retries import call_again

TOGETHER = 200
"""Commits that are done in one transaction."""

MARK = "history"
"""Field of the result of a replayed commit: the digest of the file up to it."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What an import of history did: commits and versions that were written here, and not."""

    commits: int
    versions: int
    kept: int


class Replay:
    """An import of history into one memory; `run` may be repeated, and does no commit twice.

    A commit is done only where the one before it in the file is the last of the store, so that no
    other can come between: what was done is told by the results of the commits themselves.
    """

    def __init__(
        self, memory: Memory, source: Source, progress: Callable[[int], None] = lambda _count: None
    ) -> None:
        self._memory, self._source, self._progress = memory, source, progress
        self._store = memory.store
        self._base = 0
        self._commits = self._versions = 0

    def run(self) -> Replayed:
        """Do every commit of the file that was not done yet.

        Raises:
            Conflict: The store has other commits that are later; none was done since.
        """
        kept = self._done()
        call_again(lambda: self._rest(self._done()), on=StaleRun)
        return Replayed(self._commits, self._versions, kept)

    # --- how far it is

    def _lines(self) -> Iterator[CommitLine]:
        return (e for _, e in entries(self._source, "fornix", None) if isinstance(e, CommitLine))

    def _done(self) -> int:
        """Return how many commits of the file the store ends with."""
        last = self._store.commit_at(LAST)
        found = self._store.effects(last)
        if found is None:
            self._base = 0
            return 0
        result = found.commit.result
        if isinstance(result, dict) and isinstance(result.get("commit"), int):
            done = int(str(result["commit"]))
            line = next(islice(self._lines(), done - 1, None), None)
            if line is not None and line.digest == result.get(MARK):
                self._base = last - done
                return done
        self._refuse_later(found.commit.time)
        self._base = last
        return 0

    def _refuse_later(self, time: int) -> None:
        """Refuse a store whose commits the history would have to come before, or among."""
        for line in self._lines():
            if line.time <= time:
                raise Conflict(
                    f"the store was written to after commit {line.number} of {self._source.name}; "
                    "import a history into a new store, or one last written before it began"
                )
            for part in line.parts:
                owner = part.line if isinstance(part, Begun) else part
                if isinstance(owner, (NodeLine, Removed)) or owner.set is None:
                    if self._store.head(self._scope(owner.key)):
                        raise Conflict(_there(f"exact memory of key {owner.key!r}"))
                elif self._store.set_info(self._ref(owner.key, owner.set)) is not None:
                    raise Conflict(_there(f"set {owner.set!r} of key {owner.key!r}"))

    def _number(self, ordinal: int) -> int:
        return self._base + ordinal

    def _row(self, name: Name) -> int:
        return (self._number(name.commit) << ROW_BITS) + name.place

    # --- the rest of it

    def _rest(self, done: int) -> None:
        found = entries(self._source, "fornix", None)
        lines = islice(
            (e for _, e in found if isinstance(e, (CommitLine, AccessedLine))), done, None
        )
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
            if isinstance(answer, FornixError):
                raise answer
            self._commits += 1
            self._versions += sum(isinstance(part, Begun) for part in line.parts)
            self._memory.engine.written(batch.items, answer)

    def _batch(self, line: CommitLine, heads: dict[Scope, int]) -> Batch:
        scope = self._scope(line.key)
        state = [delta for part in line.parts for delta in _deltas(part)]
        base = (heads.get(scope) or self._store.head(scope)) if state else None
        return Batch(
            scope=scope,
            time=line.time,
            after=self._number(line.number) - 1,
            base=base,
            floor=self._floor(line),
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
        """Return from when on the past of the tree is whole."""
        for part in line.parts:
            if isinstance(part, HistoryStart) and part.set is None:
                return self._number(part.commit) if part.commit else 0, part.since
        return 0, 0

    def _scope(self, key: str | None) -> Scope:
        return scope_of(self._memory, key)

    def _ref(self, key: str | None, name: str) -> SetRef:
        return SetRef(self._scope(key), name)

    def _pasts(self, line: CommitLine) -> list[Past]:
        begun = [part for part in line.parts if isinstance(part, Begun)]
        pairs = [(part.line.item.id or "", part.line.item) for part in begun]
        recorder = self._memory.engine.recorder
        made = recorder.records(pairs, now=line.time) if pairs else []
        records = {part.place: record for part, record in zip(begun, made, strict=True)}
        pasts: dict[SetRef, _Gathered] = {}
        for part in line.parts:
            if isinstance(part, HistoryStart):
                if part.set is not None:
                    ref = self._ref(part.key, part.set)
                    pasts.setdefault(ref, _Gathered()).floor = self._number(part.commit)
            elif not isinstance(part, (SetLine, NodeLine, Removed)):
                owner = part.line if isinstance(part, Begun) else part
                ref = self._ref(owner.key, owner.set)
                self._take(part, ref, pasts.setdefault(ref, _Gathered()), line, records)
        changed = [gathered.past(ref) for ref, gathered in pasts.items()]
        links = [Past(ref, links=gathered.links) for ref, gathered in pasts.items()]
        return [*changed, *(past for past in links if past.links)]  # of one set to another too

    def _take(
        self,
        part: Begun | Ended | ImportedSource | ImportedCompaction | ImportedUndo,
        ref: SetRef,
        past: _Gathered,
        line: CommitLine,
        records: Mapping[int, ItemRecord],
    ) -> None:
        match part:
            case Begun():
                item = self._stored(part, ref, line, records[part.place])
                past.begun.append(item)
                past.links += [(item.row, self._row(source)) for source in part.links]
            case Ended(row=row):
                past.ended.append(self._row(row))
            case ImportedSource(row=row, source=source):
                past.links.append((self._row(row), self._row(source)))
            case ImportedCompaction():
                past.compactions.append(self._compaction(part, ref, line))
            case ImportedUndo(compaction=name):
                past.undone.append(self._row(name))

    def _stored(self, part: Begun, ref: SetRef, line: CommitLine, record: ItemRecord) -> StoredItem:
        row = self._row(Name(line.number, part.place))
        return StoredItem(
            row=row,
            first=row if part.first is None else self._row(part.first),
            set=ref,
            begun=self._number(line.number),
            ended=None,
            version=part.version,
            created=line.time if part.created is None else part.created,
            updated=line.time if part.updated is None else part.updated,
            accessed=None,
            record=record,
        )

    def _compaction(self, part: ImportedCompaction, ref: SetRef, line: CommitLine) -> Compaction:
        return Compaction(
            id=self._row(Name(line.number, part.place)),
            set=ref,
            commit=self._number(line.number),
            time=line.time,
            how=part.how,
            retired=[self._row(name) for name in part.retired],
            added=[self._row(name) for name in part.added],
            erased=part.erased,
            undone=None,
            purged=part.purged,
        )


def _there(what: str) -> str:
    return f"{what} is there already; import its history into a store without it"


@dataclass(slots=True)
class _Gathered:
    """What a commit did to one set."""

    begun: list[StoredItem] = field(default_factory=list[StoredItem])
    ended: list[int] = field(default_factory=list[int])
    links: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    compactions: list[Compaction] = field(default_factory=list[Compaction])
    undone: list[int] = field(default_factory=list[int])
    floor: int = 0

    def past(self, ref: SetRef) -> Past:
        return Past(ref, self.begun, self.ended, (), self.compactions, self.undone, self.floor)


def _deltas(part: Part) -> Iterator[TreeDelta]:
    """Yield what brings a node of exact memory where a commit had it."""
    if isinstance(part, Removed):
        yield Delete(part.path)
    elif isinstance(part, NodeLine):
        node = part.node
        if node.is_object:
            yield Create(part.path, node.expires)
        else:
            yield Put(part.path, node.value, node.expires)
