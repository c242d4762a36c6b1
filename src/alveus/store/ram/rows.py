"""What a `RamStore` is made of: versions of nodes and items, sets, and a commit on its way.

What is kept of every run and commit is kept as plain tuples of texts and numbers. As long as an
object that could hold others is there, the garbage collector goes through it again and again: with
millions of them, that took longer than the runs. Such tuples it leaves alone.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import field, replace
from typing import Any, TypeAlias

from alveus.store import (
    Batch,
    Commit,
    Definition,
    Feature,
    ItemRecord,
    Node,
    PendingVectors,
    Scope,
    SetRef,
    StoredItem,
)
from alveus.store.checks import ROW_BITS
from alveus.store.packed_values import packed
from alveus.store.records import has_meaning, read_at
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import ATOMS, Path, Value


@dataclass(slots=True, eq=False, acyclic=True)
class NodeRow:
    """One version of a node. What stands below an object, or stood there, hangs on its row."""

    begin_commit: int
    is_object: bool
    value: Value
    expires: int | None
    live: dict[str, NodeRow]
    versions: dict[str, list[NodeRow]]
    path: Path = ()
    position: int = 0
    end_commit: int | None = None
    swept: bool = False

    @classmethod
    def of_value(cls, begin_commit: int, value: Value, expires: int | None) -> NodeRow:
        """Return the row of a value, below which there is nothing."""
        return cls(begin_commit, False, value, expires, _NONE, _NEVER)  # noqa: FBT003 - in order

    @classmethod
    def of_object(cls, begin_commit: int, expires: int | None = None) -> NodeRow:
        """Return the row of an object that has no fields."""
        return cls(begin_commit, True, None, expires, {}, {})  # noqa: FBT003 - in order

    def below(self, name: str, at: int | None) -> NodeRow | None:
        """Return the version of a field that lives now, or lived after commit *at*."""
        if at is None:
            return self.live.get(name)
        versions = self.versions.get(name, [])
        index = bisect_right(versions, at, key=lambda row: row.begin_commit)
        row = versions[index - 1] if index else None
        return row if row is not None and (row.end_commit is None or row.end_commit > at) else None

    def expired(self, now: int) -> bool:
        """Whether it has itself expired by *now*."""
        return self.expires is not None and self.expires <= now

    def node(self) -> Node:
        """Return a copy of it."""
        value = self.value
        copied = value if type(value) in ATOMS else deepcopy(value)
        return Node(self.is_object, copied, self.expires)


_NONE: dict[str, NodeRow] = {}
_NEVER: dict[str, list[NodeRow]] = {}
"""What is below values: nothing, now and ever."""


@dataclass(slots=True, eq=False)
class ItemRow:
    """One version of an item. `record` is exchanged when its vectors come."""

    row: int
    first: int
    set_rows: SetRows
    begin_commit: int
    version: int
    created: int
    updated: int
    time: int
    record: ItemRecord
    end_commit: int | None = None

    def is_live_at(self, at: int | None) -> bool:
        """Whether it lives now, or lived after commit *at*."""
        if at is None:
            return self.end_commit is None
        return self.begin_commit <= at and (self.end_commit is None or self.end_commit > at)

    def has_meaning(self) -> bool:
        """Whether search by meaning reaches it: by vectors, or what they can be made of."""
        r = self.record
        return r.vectors != b"" or has_meaning(r.text or "", r.metadata)

    def has_validity(self) -> bool:
        """Whether it expires, or is valid for a time only."""
        r = self.record
        return not r.expires is r.valid_from is r.valid_to is None

    def expired(self, now: int) -> bool:
        """Whether it has expired by *now*."""
        return self.record.expires is not None and self.record.expires <= now

    def continues(self, row: ItemRow) -> bool:
        """Whether it is live and says what *row* does: it is that, or what brought it back."""
        unread = {"terms": b"", "vectors": b""}
        return (
            self.end_commit is None
            and (self.first, self.updated) == (row.first, row.updated)
            and replace(self.record, **unread) == replace(row.record, **unread)
        )

    def bytes(self) -> int:
        """Return what it counts for in the size of its set."""
        contents = (packed(self.record.value), self.record.text, self.record.metadata)
        return sum(len(k.encode() if isinstance(k, str) else k) for k in contents if k is not None)

    def feature(self) -> Feature:
        """Return what search reads of it."""
        return Feature.of(
            self.record,
            self.row,
            self.first,
            self.time,
            begin_commit=self.begin_commit,
            end_commit=self.end_commit,
        )


@dataclass(slots=True, eq=False)
class SetRows:
    """A set: all rows, the versions of each id, and the live rows by (time, first).

    Attributes:
        rows_with_validity: Live rows that expire, or are valid for a time only, by `first`.
    """

    number: int
    ref: SetRef
    definition: Definition
    rows: list[ItemRow] = field(default_factory=list[ItemRow])
    versions: dict[str, list[ItemRow]] = field(default_factory=dict[str, list[ItemRow]])
    live_order: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    live: dict[int, ItemRow] = field(default_factory=dict[int, ItemRow])
    rows_with_validity: dict[int, ItemRow] = field(default_factory=dict[int, ItemRow])
    bytes: int = 0
    tokens: int = 0
    history_start: int = 0

    def last_version(self, item_id: str) -> ItemRow | None:
        """Return the last version of an id, live or ended."""
        versions = self.versions.get(item_id)
        return versions[-1] if versions else None

    def find_row(self, number: int) -> ItemRow | None:
        """Return a row that is kept, or None."""
        index = bisect_left(self.rows, number, key=number_of)
        row = self.rows[index] if index < len(self.rows) else None
        return row if row is not None and row.row == number else None

    def rows_after(self, number: int) -> list[ItemRow]:
        """Return the rows past a row."""
        return self.rows[bisect_right(self.rows, number, key=number_of) :]

    def find_rows(self, numbers: Sequence[int]) -> list[ItemRow]:
        """Return those of some rows that are kept."""
        return [row for row in map(self.find_row, numbers) if row is not None]

    def add_version(self, row: ItemRow) -> None:
        """Take in a row, which is live."""
        insort(self.rows, row, key=number_of)
        insort(self.versions.setdefault(row.record.id, []), row, key=number_of)
        self.add_live(row)

    def remove_version(self, row: ItemRow) -> None:
        """Take out a live row as if it had never been."""
        self.remove_live(row)
        del self.rows[bisect_left(self.rows, row.row, key=number_of)]
        self.versions[row.record.id].remove(row)

    def purge(self, row: ItemRow) -> None:
        """Take out a row that has ended, for good."""
        self._remove(row)
        self.history_start = max(self.history_start, row.end_commit or 0)

    def erase(self, row: ItemRow) -> None:
        """Take out a row, live or not, as if it had never been."""
        if row.end_commit is None:
            self.remove_live(row)
        self._remove(row)

    def _remove(self, row: ItemRow) -> None:
        del self.rows[bisect_left(self.rows, row.row, key=number_of)]
        versions = self.versions[row.record.id]
        versions.remove(row)
        if not versions:
            del self.versions[row.record.id]

    def add_live(self, row: ItemRow) -> None:
        """Make a row one of the live ones."""
        row.end_commit = None
        insort(self.live_order, (row.time, row.first))
        self.live[row.first] = row
        self.bytes += row.bytes()
        self.tokens += row.record.tokens
        if row.has_validity():
            self.rows_with_validity[row.first] = row

    def remove_live(self, row: ItemRow) -> None:
        """Make a row one of those that ended."""
        del self.live_order[bisect_left(self.live_order, (row.time, row.first))]
        del self.live[row.first]
        self.rows_with_validity.pop(row.first, None)
        self.bytes -= row.bytes()
        self.tokens -= row.record.tokens


def number_of(row: ItemRow) -> int:
    """Return what rows are ordered by."""
    return row.row


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A row of the journal: references to what a commit changed."""

    commit: Commit
    scope: Scope
    request: bytes | None
    put_nodes: Sequence[tuple[Path, NodeRow]]
    removed_nodes: Sequence[tuple[Path, NodeRow]]
    begun_items: Sequence[ItemRow]
    ended_items: Sequence[ItemRow]
    erased: int | None = None


class Journal:
    """Entries, in the order of their commits; a sequence that begins with commit 1.

    What is removed leaves it too: of a commit that says nothing any more, 16 bytes are kept.

    Attributes:
        times: Of all commits.
        has_setback: Whether a time is before that of the last one.
    """

    def __init__(self) -> None:
        self.times = array("q")
        self.has_setback = False
        self._rows: list[tuple[Any, ...]] = []
        self._empty_rows: dict[Scope, tuple[Any, ...]] = {}
        self._put: list[NodeRow] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> JournalEntry:
        result, space, key, request, *rest = self._rows[index]
        number = index + 1
        commit = Commit(number, self.times[index], adopted=False, result=result)
        begin = bisect_left(self._put, number, key=_begin_commit)
        end = bisect_right(self._put, number, key=_begin_commit)
        put = [(row.path, row) for row in self._put[begin:end]]
        return JournalEntry(commit, Scope(space, key), request, put, *rest)

    def append(self, commit: Commit, batch: Batch, draft: CommitDraft) -> None:
        """Keep a commit, and what it did."""
        times, time = self.times, commit.time
        self.has_setback = self.has_setback or bool(times and time < times[-1])
        times.append(time)
        # fmt: off
        self._rows.append(self._row(
            commit.result, *batch.scope, batch.request, tuple(draft.removed_nodes),
            tuple(draft.begun_items.values()), tuple(draft.ended_items), None,
        ))
        # fmt: on
        put = draft.put_nodes.values()
        self._put.extend(put if len(put) < 2 else sorted(put, key=_position))  # noqa: PLR2004 - one is sorted

    def _row(self, result: Value, space: str, key: str | None, *rest: object) -> tuple[Any, ...]:
        """Return a row; commits of a scope that say nothing else share one."""
        if result is None and not any(rest):
            scope = Scope(space, key)
            row = self._empty_rows.get(scope)
            if row is None:
                row = self._empty_rows[scope] = (None, space, key, None, (), (), (), None)
            return row
        return (result, space, key, *rest)

    @property
    def time(self) -> int | None:
        """The time of the last commit; None: there is none."""
        return self.times[-1] if self.times else None

    def commits_of(self, scope: Scope) -> list[int]:
        """Return the numbers of the commits of a scope."""
        return [i + 1 for i, row in enumerate(self._rows) if row[1:3] == (*scope,)]

    def erase(self, number: int, erased: int | None) -> None:
        """Take the request and the result out of a commit; *erased* is what did so, if it tells."""
        _, space, key, _, *changed, _ = self._rows[number - 1]
        self._rows[number - 1] = self._row(None, space, key, None, *changed, erased)

    def erase_tree(self, numbers: Collection[int]) -> None:
        """Have commits say nothing of nodes, and of items that they ended."""
        for number in numbers:
            *before, _, begun, _, erased = self._rows[number - 1]
            self._rows[number - 1] = self._row(*before, (), begun, (), erased)
        self._put = [row for row in self._put if row.begin_commit not in numbers]

    def drop_swept(self, rows: Collection[NodeRow]) -> None:
        """Have commits say nothing of versions of nodes that were swept."""
        if not rows:
            return
        self._put = [row for row in self._put if not row.swept]
        for number in {row.end_commit for row in rows if row.end_commit}:
            *before, removed, begun, ended, erased = self._rows[number - 1]
            left = tuple(node for node in removed if not node[1].swept)
            self._rows[number - 1] = self._row(*before, left, begun, ended, erased)

    def erase_items(self, rows: Collection[ItemRow]) -> None:
        """Have commits say nothing of versions of items."""
        erased_rows = {row.row for row in rows}
        for number in {row.begin_commit for row in rows} | {
            row.end_commit for row in rows if row.end_commit
        }:
            *before, begun, ended, erased = self._rows[number - 1]
            remaining = (
                tuple(row for row in some if row.row not in erased_rows) for some in (begun, ended)
            )
            self._rows[number - 1] = self._row(*before, *remaining, erased)


def _begin_commit(row: NodeRow) -> int:
    return row.begin_commit


def _position(row: NodeRow) -> int:
    return row.position


UndoStep: TypeAlias = tuple[Callable[..., object], *tuple[Any, ...]]
"""A function, and its arguments: less to make than a `partial`, of which a run needs ten."""

Undo: TypeAlias = list[UndoStep]
"""What takes back what was done so far, in the order in which it was done."""


def take_back(undo: Undo) -> None:
    """Take back what was done, the last first."""
    for step, *arguments in reversed(undo):
        step(*arguments)


@dataclass(slots=True, eq=False)
class CommitDraft:
    """One commit on its way: what it did, and the steps that take it back."""

    number: int
    time: int
    positions: int = 0
    row_count: int = 0
    compaction_count: int = 0
    put_nodes: dict[Path, NodeRow] = field(default_factory=dict[Path, NodeRow])
    removed_nodes: list[tuple[Path, NodeRow]] = field(default_factory=list[tuple[Path, NodeRow]])
    begun_items: dict[int, ItemRow] = field(default_factory=dict[int, ItemRow])
    ended_items: list[ItemRow] = field(default_factory=list[ItemRow])
    sets_added_to: dict[SetRef, SetRows] = field(default_factory=dict[SetRef, SetRows])
    sets_to_compact: list[SetRef] = field(default_factory=list[SetRef])
    replaced_ids: set[tuple[SetRef, str]] = field(default_factory=set[tuple[SetRef, str]])
    unchanged_ids: set[tuple[SetRef, str]] = field(default_factory=set[tuple[SetRef, str]])
    undo: Undo = field(default_factory=list[UndoStep])

    def begin(
        self, set_rows: SetRows, record: ItemRecord, last: ItemRow | None, *, version: int
    ) -> ItemRow:
        """Begin a version: of the item that *last* is a version of, or of a new one."""
        number = (self.number << ROW_BITS) + self.row_count
        self.row_count += 1
        time = self.time if record.time is None else record.time
        row = ItemRow(
            row=number,
            first=number if last is None else last.first,
            set_rows=set_rows,
            begin_commit=self.number,
            version=version,
            created=self.time if last is None else last.created,
            updated=self.time,
            time=time,
            record=replace(read_at(record, time), time=time),
        )
        return self._add_version(set_rows, row)

    def revive(self, row: ItemRow, *, version: int) -> ItemRow:
        """Begin a version that has everything an ended one had."""
        number = (self.number << ROW_BITS) + self.row_count
        self.row_count += 1
        again = replace(row, row=number, begin_commit=self.number, version=version, end_commit=None)
        return self._add_version(row.set_rows, again)

    def restore(self, set_rows: SetRows, item: StoredItem) -> ItemRow:
        """Begin a version as it was in another store."""
        time = item.updated if item.record.time is None else item.record.time
        row = ItemRow(
            item.row,
            item.first,
            set_rows,
            self.number,
            item.version,
            item.created,
            item.updated,
            time,
            replace(item.record, time=time),
        )
        self.row_count = max(self.row_count, item.row - (self.number << ROW_BITS) + 1)
        return self._add_version(set_rows, row)

    def _add_version(self, set_rows: SetRows, row: ItemRow) -> ItemRow:
        set_rows.add_version(row)
        self.begun_items[row.row] = row
        self.undo.append((set_rows.remove_version, row))
        return row

    def end(self, row: ItemRow) -> None:
        """End a version. One that this very commit began was live at no commit; it stays known."""
        row.set_rows.remove_live(row)
        row.end_commit = self.number
        self.ended_items.append(row)
        self.undo.append((row.set_rows.add_live, row))


class VectorQueue:
    """What comes after its item: vectors that are missing, and staged ones of a new embedder."""

    def __init__(self) -> None:
        self.staged: dict[int, bytes] = {}
        self._pending: dict[int, ItemRow] = {}

    def begin(self, row: ItemRow) -> None:
        """Take note of a new version."""
        if row.record.vectors is None:
            self._pending[row.row] = row

    def begin_commits(self) -> list[int]:
        """Return the commits that began what waits."""
        return [row.begin_commit for row in self._pending.values()]

    def pending(self, limit: int, set_numbers: Sequence[int] | None) -> list[PendingVectors]:
        """Return what waits, of any set or of those given."""
        rows = self._pending.values()
        return _first(
            [r for r in rows if set_numbers is None or r.set_rows.number in set_numbers], limit
        )

    def fill(self, vectors: Sequence[tuple[int, int, bytes]]) -> Iterator[ItemRow]:
        """Fill in what is missing; yield the rows that waited for it."""
        for set_number, number, new in vectors:
            row = self._pending.get(number)
            if row is not None and row.set_rows.number == set_number:
                self._put(row, new)
                yield row

    def drop(self, row: int) -> None:
        """Drop what is known of a version that is removed."""
        self.staged.pop(row, None)
        self._pending.pop(row, None)

    def versions_to_stage(self, sets: Sequence[SetRows], limit: int) -> list[PendingVectors]:
        """Return versions that meaning can read and that have no staged vectors."""
        return _first(
            [row for row in _rows_with_meaning(sets) if row.row not in self.staged], limit
        )

    def use_staged(self, sets: Sequence[SetRows]) -> Iterator[ItemRow]:
        """Put staged vectors in place; what has none waits from now on. Yield all such rows."""
        for row in _rows_with_meaning(sets):
            self._put(row, self.staged.get(row.row))
            yield row
        self.staged.clear()

    def _put(self, row: ItemRow, vectors: bytes | None) -> None:
        row.record = replace(row.record, vectors=vectors)
        self._pending.pop(row.row, None)
        self.begin(row)


def _rows_with_meaning(sets: Sequence[SetRows]) -> list[ItemRow]:
    return [row for set_rows in sets for row in set_rows.rows if row.has_meaning()]


def _first(rows: list[ItemRow], limit: int) -> list[PendingVectors]:
    """Return what an embedder needs of *limit* rows: live ones first, then as they ended."""
    chosen = sorted(rows, key=lambda row: (row.end_commit or 0, row.row))[:limit]
    return [
        PendingVectors(r.set_rows.number, r.row, r.record.text or "", r.record.metadata)
        for r in chosen
    ]
