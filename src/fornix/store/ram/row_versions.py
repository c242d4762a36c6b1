"""What a `RamStore` is made of: versions of nodes and items, sets, and a commit on its way.

What is kept of every run and commit is kept as plain tuples of texts and numbers. As long as an
object that could hold others is there, the garbage collector goes through it again and again: with
millions of them, that took longer than the runs. Such tuples it leaves alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import field, replace
from typing import Any

from fornix.store import (
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
from fornix.store.checks import ROW_BITS
from fornix.store.packed_values import packed
from fornix.store.records import has_meaning
from fornix.values.lazy_dataclass import dataclass
from fornix.values.storable import Path, Value

ATOMS = frozenset({type(None), bool, int, float, str, bytes})
"""Types of values that nobody can change, which need no copy."""


class NodeRow:
    """One version of a node. What stands below an object, or stood there, hangs on its row."""

    __slots__ = (
        "begun", "ended", "expires", "is_object", "live", "path", "position", "swept", "value",
        "versions",
    )  # fmt: skip

    def __init__(
        self, begun: int, *, is_object: bool, value: Value = None, expires: int | None = None
    ) -> None:
        self.begun, self.is_object, self.value, self.expires = begun, is_object, value, expires
        self.path: Path = ()
        self.position = 0
        self.ended: int | None = None
        self.swept = False
        self.live: dict[str, NodeRow] = {} if is_object else _NONE
        self.versions: dict[str, list[NodeRow]] = {} if is_object else _NEVER

    def below(self, name: str, at: int | None) -> NodeRow | None:
        """Return the version of a field that lives now, or lived after commit *at*."""
        if at is None:
            return self.live.get(name)
        versions = self.versions.get(name, [])
        place = bisect_right(versions, at, key=lambda row: row.begun)
        row = versions[place - 1] if place else None
        return row if row is not None and (row.ended is None or row.ended > at) else None

    def expired(self, now: int) -> bool:
        """Whether it has itself expired by *now*."""
        return self.expires is not None and self.expires <= now

    def node(self) -> Node:
        """Return a copy of it."""
        value = self.value
        kept = value if type(value) in ATOMS else deepcopy(value)
        return Node(self.is_object, kept, self.expires)


_NONE: dict[str, NodeRow] = {}
_NEVER: dict[str, list[NodeRow]] = {}
"""What is below values: nothing, now and ever."""


@dataclass(slots=True, eq=False)
class ItemRow:
    """One version of an item. `record` is exchanged when its vectors come."""

    row: int
    first: int
    home: SetRows
    begun: int
    version: int
    created: int
    updated: int
    time: int
    record: ItemRecord
    ended: int | None = None

    def lives(self, at: int | None) -> bool:
        """Whether it lives now, or lived after commit *at*."""
        if at is None:
            return self.ended is None
        return self.begun <= at and (self.ended is None or self.ended > at)

    def has_meaning(self) -> bool:
        """Whether search by meaning reaches it: by vectors, or what they can be made of."""
        r = self.record
        return r.vectors != b"" or has_meaning(r.text or "", r.metadata)

    def timed(self) -> bool:
        """Whether it expires, or is valid for a time only."""
        r = self.record
        return not r.expires is r.valid_from is r.valid_to is None

    def expired(self, now: int) -> bool:
        """Whether it has expired by *now*."""
        return self.record.expires is not None and self.record.expires <= now

    def is_again(self, row: ItemRow) -> bool:
        """Whether it is live and says what *row* does: it is that, or what brought it back."""
        unread = {"terms": b"", "vectors": b""}
        return (
            self.ended is None
            and (self.first, self.updated) == (row.first, row.updated)
            and replace(self.record, **unread) == replace(row.record, **unread)
        )

    def bytes(self) -> int:
        """Return what it counts for in the size of its set."""
        kept = (packed(self.record.value), self.record.text, self.record.metadata)
        return sum(len(k.encode() if isinstance(k, str) else k) for k in kept if k is not None)

    def feature(self) -> Feature:
        """Return what search reads of it."""
        return Feature.of(
            self.record,
            self.row,
            self.first,
            self.time,
            begin_commit=self.begun,
            end_commit=self.ended,
        )


@dataclass(slots=True, eq=False)
class SetRows:
    """A set: all rows, the versions of each id, and the live rows by (time, first).

    Attributes:
        timed: Live rows that expire, or are valid for a time only, by `first`.
    """

    number: int
    ref: SetRef
    definition: Definition
    rows: list[ItemRow] = field(default_factory=list[ItemRow])
    versions: dict[str, list[ItemRow]] = field(default_factory=dict[str, list[ItemRow]])
    order: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    live: dict[int, ItemRow] = field(default_factory=dict[int, ItemRow])
    timed: dict[int, ItemRow] = field(default_factory=dict[int, ItemRow])
    bytes: int = 0
    tokens: int = 0
    floor: int = 0

    def last(self, item_id: str) -> ItemRow | None:
        """Return the last version of an id, live or ended."""
        versions = self.versions.get(item_id)
        return versions[-1] if versions else None

    def numbered(self, number: int) -> ItemRow | None:
        """Return a row that is kept, or None."""
        place = bisect_left(self.rows, number, key=number_of)
        found = self.rows[place] if place < len(self.rows) else None
        return found if found is not None and found.row == number else None

    def since(self, number: int) -> list[ItemRow]:
        """Return the rows past a row."""
        return self.rows[bisect_right(self.rows, number, key=number_of) :]

    def kept(self, numbers: Sequence[int]) -> list[ItemRow]:
        """Return those of some rows that are kept."""
        return [row for row in map(self.numbered, numbers) if row is not None]

    def begin(self, row: ItemRow) -> None:
        """Take in a row, which is live."""
        insort(self.rows, row, key=number_of)
        insort(self.versions.setdefault(row.record.id, []), row, key=number_of)
        self.enlist(row)

    def drop(self, row: ItemRow) -> None:
        """Take out a live row as if it had never been."""
        self.delist(row)
        del self.rows[bisect_left(self.rows, row.row, key=number_of)]
        self.versions[row.record.id].remove(row)

    def purge(self, row: ItemRow) -> None:
        """Take out a row that has ended, for good."""
        self._remove(row)
        self.floor = max(self.floor, row.ended or 0)

    def erase(self, row: ItemRow) -> None:
        """Take out a row, live or not, as if it had never been."""
        if row.ended is None:
            self.delist(row)
        self._remove(row)

    def _remove(self, row: ItemRow) -> None:
        del self.rows[bisect_left(self.rows, row.row, key=number_of)]
        versions = self.versions[row.record.id]
        versions.remove(row)
        if not versions:
            del self.versions[row.record.id]

    def enlist(self, row: ItemRow) -> None:
        """Make a row one of the live ones."""
        row.ended = None
        insort(self.order, (row.time, row.first))
        self.live[row.first] = row
        self.bytes += row.bytes()
        self.tokens += row.record.tokens
        if row.timed():
            self.timed[row.first] = row

    def delist(self, row: ItemRow) -> None:
        """Make a row one of those that ended."""
        del self.order[bisect_left(self.order, (row.time, row.first))]
        del self.live[row.first]
        self.timed.pop(row.first, None)
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
    put: Sequence[tuple[Path, NodeRow]]
    removed: Sequence[tuple[Path, NodeRow]]
    begun: Sequence[ItemRow]
    ended: Sequence[ItemRow]
    erased: int | None = None


class Journal:
    """Entries, in the order of their commits; a sequence that begins with commit 1.

    Attributes:
        times: Of all commits.
        set_back: Whether a time is before that of the last one.
    """

    def __init__(self) -> None:
        self.times: list[int] = []
        self.set_back = False
        self._rows: list[tuple[Any, ...]] = []
        self._put: list[NodeRow] = []

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> JournalEntry:
        time, result, space, key, request, *rest = self._rows[place]
        number = place + 1
        commit = Commit(number, time, adopted=False, result=result)
        begin = bisect_left(self._put, number, key=_begun)
        end = bisect_right(self._put, number, key=_begun)
        put = [(row.path, row) for row in self._put[begin:end]]
        return JournalEntry(commit, Scope(space, key), request, put, *rest)

    def append(self, commit: Commit, batch: Batch, work: CommitDraft) -> None:
        """Keep a commit, and what it did."""
        self.set_back = self.set_back or (self.time is not None and commit.time < self.time)
        self.times.append(commit.time)
        # fmt: off
        self._rows.append((
            commit.time, commit.result, *batch.scope, batch.request, tuple(work.removed),
            tuple(work.begun.values()), tuple(work.ended), None,
        ))
        # fmt: on
        self._put.extend(sorted(work.put.values(), key=_position))

    @property
    def time(self) -> int | None:
        """The time of the last commit; None: there is none."""
        return self.times[-1] if self.times else None

    def of(self, scope: Scope) -> list[int]:
        """Return the numbers of the commits of a scope."""
        return [i + 1 for i, row in enumerate(self._rows) if row[2:4] == (*scope,)]

    def erase(self, number: int, erased: int | None) -> None:
        """Take the request and the result out of a commit; *erased* is what did so, if it tells."""
        time, _, space, key, _, *changed, _ = self._rows[number - 1]
        self._rows[number - 1] = (time, None, space, key, None, *changed, erased)

    def erase_tree(self, numbers: Collection[int]) -> None:
        """Have commits say nothing of nodes, and of items that they ended."""
        for number in numbers:
            *before, _, begun, _, erased = self._rows[number - 1]
            self._rows[number - 1] = (*before, (), begun, (), erased)
        self._put = [row for row in self._put if row.begun not in numbers]

    def erase_items(self, rows: Collection[ItemRow]) -> None:
        """Have commits say nothing of versions of items."""
        gone = {row.row for row in rows}
        for number in {row.begun for row in rows} | {row.ended for row in rows if row.ended}:
            *before, begun, ended, erased = self._rows[number - 1]
            kept = (tuple(row for row in some if row.row not in gone) for some in (begun, ended))
            self._rows[number - 1] = (*before, *kept, erased)


def _begun(row: NodeRow) -> int:
    return row.begun


def _position(row: NodeRow) -> int:
    return row.position


class CommitDraft:
    """One commit on its way: what it did, and the steps that take it back."""

    def __init__(self, number: int, time: int) -> None:
        self.number, self.time = number, time
        self.positions = self.made = self.compacted = 0
        self.put: dict[Path, NodeRow] = {}
        self.removed: list[tuple[Path, NodeRow]] = []
        self.begun: dict[int, ItemRow] = {}
        self.ended: list[ItemRow] = []
        self.grown: dict[SetRef, SetRows] = {}
        self.marks: list[SetRef] = []
        self.landed: set[tuple[SetRef, str]] = set()
        self.stayed: set[tuple[SetRef, str]] = set()
        self.undo: list[Callable[[], object]] = []

    def begin(
        self, home: SetRows, record: ItemRecord, last: ItemRow | None, *, version: int
    ) -> ItemRow:
        """Begin a version: of the item that *last* is a version of, or of a new one."""
        number = (self.number << ROW_BITS) + self.made
        self.made += 1
        time = self.time if record.time is None else record.time
        row = ItemRow(
            row=number,
            first=number if last is None else last.first,
            home=home,
            begun=self.number,
            version=version,
            created=self.time if last is None else last.created,
            updated=self.time,
            time=time,
            record=replace(record, time=time),
        )
        return self._begun(home, row)

    def revive(self, row: ItemRow, *, version: int) -> ItemRow:
        """Begin a version that has everything an ended one had."""
        number = (self.number << ROW_BITS) + self.made
        self.made += 1
        again = replace(row, row=number, begun=self.number, version=version, ended=None)
        return self._begun(row.home, again)

    def restore(self, home: SetRows, item: StoredItem) -> ItemRow:
        """Begin a version as it was in another store."""
        time = item.updated if item.record.time is None else item.record.time
        row = ItemRow(
            item.row,
            item.first,
            home,
            self.number,
            item.version,
            item.created,
            item.updated,
            time,
            replace(item.record, time=time),
        )
        self.made = max(self.made, item.row - (self.number << ROW_BITS) + 1)
        return self._begun(home, row)

    def _begun(self, home: SetRows, row: ItemRow) -> ItemRow:
        home.begin(row)
        self.begun[row.row] = row
        self.undo.append(lambda: home.drop(row))
        return row

    def end(self, row: ItemRow) -> None:
        """End a version. One that this very commit began was live at no commit; it stays known."""
        row.home.delist(row)
        row.ended = self.number
        self.ended.append(row)
        self.undo.append(lambda: row.home.enlist(row))


class VectorQueue:
    """What comes after its item: vectors that are missing, and staged ones of a new embedder."""

    def __init__(self) -> None:
        self.staged: dict[int, bytes] = {}
        self._waiting: dict[int, ItemRow] = {}

    def begin(self, row: ItemRow) -> None:
        """Take note of a new version."""
        if row.record.vectors is None:
            self._waiting[row.row] = row

    def begun(self) -> list[int]:
        """Return the commits that began what waits."""
        return [row.begun for row in self._waiting.values()]

    def waiting(self, limit: int, set_numbers: Sequence[int] | None) -> list[PendingVectors]:
        """Return what waits, of any set or of those given."""
        rows = self._waiting.values()
        return _first(
            [r for r in rows if set_numbers is None or r.home.number in set_numbers], limit
        )

    def fill(self, vectors: Sequence[tuple[int, int, bytes]]) -> Iterator[ItemRow]:
        """Fill in what is missing; yield the rows that waited for it."""
        for set_number, number, new in vectors:
            row = self._waiting.get(number)
            if row is not None and row.home.number == set_number:
                self._put(row, new)
                yield row

    def drop(self, row: int) -> None:
        """Drop what is known of a version that is removed."""
        self.staged.pop(row, None)
        self._waiting.pop(row, None)

    def unstaged(self, homes: Sequence[SetRows], limit: int) -> list[PendingVectors]:
        """Return versions that meaning can read and that have no staged vectors."""
        return _first([row for row in _meant(homes) if row.row not in self.staged], limit)

    def swap(self, homes: Sequence[SetRows]) -> Iterator[ItemRow]:
        """Put staged vectors in place; what has none waits from now on. Yield all such rows."""
        for row in _meant(homes):
            self._put(row, self.staged.get(row.row))
            yield row
        self.staged.clear()

    def _put(self, row: ItemRow, vectors: bytes | None) -> None:
        row.record = replace(row.record, vectors=vectors)
        self._waiting.pop(row.row, None)
        self.begin(row)


def _meant(homes: Sequence[SetRows]) -> list[ItemRow]:
    return [row for home in homes for row in home.rows if row.has_meaning()]


def _first(rows: list[ItemRow], limit: int) -> list[PendingVectors]:
    """Return what an embedder needs of *limit* rows: live ones first, then as they ended."""
    chosen = sorted(rows, key=lambda row: (row.ended or 0, row.row))[:limit]
    return [
        PendingVectors(r.home.number, r.row, r.record.text or "", r.record.metadata) for r in chosen
    ]
