"""The rows of a `RamStore`: versions of nodes and items, sets, the draft of a commit, the journal.

Entries of the journal, ended runs, steps and outputs are plain tuples of texts and numbers, because
the garbage collector does not visit such tuples. With millions of commits, its visits would take
longer than the runs.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import field, replace
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from alveus.store import (
    Batch,
    Commit,
    Definition,
    Feature,
    ItemRecord,
    Node,
    Scope,
    SetRef,
    StoredItem,
)
from alveus.store.checks import ROW_BITS
from alveus.store.packed_values import packed
from alveus.store.records import has_meaning, read_at
from alveus.store.times import expired
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import ATOMS, Path, Value


@dataclass(slots=True, eq=False, acyclic=True)
class NodeRow:
    """One version of a node. The row of an object also holds the rows of its fields.

    Attributes:
        live: For an object: the live version of each field.
        versions: For an object: all versions of each field, oldest first.
        position: The number that orders the node among its siblings.
        swept: Whether the version was removed from its tree.
    """

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
        """Return a new row for a value."""
        return cls(begin_commit, False, value, expires, _NONE, _NEVER)  # noqa: FBT003 - in order

    @classmethod
    def of_object(cls, begin_commit: int, expires: int | None = None) -> NodeRow:
        """Return a new row for an object without fields."""
        return cls(begin_commit, True, None, expires, {}, {})  # noqa: FBT003 - in order

    def below(self, name: str, at: int | None) -> NodeRow | None:
        """Return the live version of the field *name*, or None if there is none.

        Args:
            at: If not None, return the version that was live after this commit.
        """
        if at is None:
            return self.live.get(name)
        versions = self.versions.get(name, [])
        index = bisect_right(versions, at, key=lambda row: row.begin_commit)
        row = versions[index - 1] if index else None
        return row if row is not None and (row.end_commit is None or row.end_commit > at) else None

    def expired(self, now: int) -> bool:
        """Return whether the node has expired by *now*."""
        return self.expires is not None and self.expires <= now

    def node(self) -> Node:
        """Return the version as a `Node`, with a copy of its value."""
        value = self.value
        copied = value if type(value) in ATOMS else deepcopy(value)
        return Node(self.is_object, copied, self.expires)


_NONE: dict[str, NodeRow] = {}
_NEVER: dict[str, list[NodeRow]] = {}


@dataclass(slots=True, eq=False)
class ItemRow:
    """One version of an item.

    Attributes:
        time: The item's time. The time in `record` may be None: a record is not copied to set it.
        record: The contents, which are replaced when the vectors arrive or the expiry changes.
    """

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
        """Return whether the version is live or, if *at* is given, was live after that commit."""
        if at is None:
            return self.end_commit is None
        return self.begin_commit <= at and (self.end_commit is None or self.end_commit > at)

    def has_meaning(self) -> bool:
        """Return whether search by meaning can find the item.

        True if the item has vectors, waits for vectors, or has a text or caption to embed.
        """
        r = self.record
        return r.vectors != b"" or has_meaning(r.text or "", r.metadata)

    def has_validity(self) -> bool:
        """Return whether the item expires, or is valid for a limited time."""
        r = self.record
        return not r.expires is r.valid_from is r.valid_to is None

    def expired(self, now: int) -> bool:
        """Return whether the item has expired by *now*."""
        return expired(self.record, now)

    def continues(self, row: ItemRow) -> bool:
        """Return whether this version is live and has the contents of *row*, an earlier version.

        True if both are the same version, or if this version revived *row*.
        """
        unread = {"terms": b"", "vectors": b""}
        return (
            self.end_commit is None
            and (self.first, self.updated) == (row.first, row.updated)
            and replace(self.record, **unread) == replace(row.record, **unread)
        )

    def bytes(self) -> int:
        """Return how many bytes the item adds to the size of its set."""
        parts = (packed(self.record.value), self.record.text, self.record.metadata)
        return sum([len(k.encode() if isinstance(k, str) else k) for k in parts if k is not None])

    def feature(self) -> Feature:
        """Return the data that search reads."""
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
    """The rows of a set, and their sums.

    Attributes:
        rows: All rows, in order of their numbers.
        versions: The rows of each item id, in order of their numbers.
        live_order: The (time, first) of each live row, in order.
        live: The live rows, by `first`.
        rows_with_validity: Live rows that expire, or are valid for a limited time, by `first`.
        bytes, tokens: The size of the live rows.
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
        """Return the last version of the item *item_id*, live or ended, or None."""
        versions = self.versions.get(item_id)
        return versions[-1] if versions else None

    def find_row(self, number: int) -> ItemRow | None:
        """Return the row that has this number, or None if it does not exist."""
        index = bisect_left(self.rows, number, key=number_of)
        row = self.rows[index] if index < len(self.rows) else None
        return row if row is not None and row.row == number else None

    def rows_after(self, number: int) -> list[ItemRow]:
        """Return the rows with higher numbers than *number*, in order."""
        return self.rows[bisect_right(self.rows, number, key=number_of) :]

    def find_rows(self, numbers: Sequence[int]) -> list[ItemRow]:
        """Return the existing rows that have one of *numbers*, in the order of *numbers*."""
        return [row for row in map(self.find_row, numbers) if row is not None]

    def add_version(self, row: ItemRow) -> None:
        """Insert a live row."""
        insort(self.rows, row, key=number_of)
        insort(self.versions.setdefault(row.record.id, []), row, key=number_of)
        self.add_live(row)

    def purge(self, row: ItemRow) -> None:
        """Remove an ended row. The history of the set then begins after the end of the row."""
        self._remove(row)
        self.history_start = max(self.history_start, row.end_commit or 0)

    def erase(self, row: ItemRow) -> None:
        """Remove a row, live or not. The start of the set's history stays."""
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
        """Make a row live."""
        row.end_commit = None
        insort(self.live_order, (row.time, row.first))
        self.live[row.first] = row
        self.bytes += row.bytes()
        self.tokens += row.record.tokens
        if row.has_validity():
            self.rows_with_validity[row.first] = row

    def remove_live(self, row: ItemRow) -> None:
        """Make a row ended."""
        del self.live_order[bisect_left(self.live_order, (row.time, row.first))]
        del self.live[row.first]
        self.rows_with_validity.pop(row.first, None)
        self.bytes -= row.bytes()
        self.tokens -= row.record.tokens


number_of = attrgetter("row")
"""The number of an `ItemRow`, which orders rows."""


K = TypeVar("K")
V = TypeVar("V")

UndoStep: TypeAlias = tuple[Callable[..., object], *tuple[Any, ...]]
"""A function and its arguments. This costs less than a `partial`, and a run needs ten."""


class UndoSteps(list[UndoStep]):
    """The steps that undo the changes made so far, in the order of the changes."""

    __slots__ = ()

    def put(self, entries: dict[K, V], key: K, value: V) -> None:
        """Set an entry of a dict, and add the step that undoes the change."""
        before = entries.get(key)
        self.append((entries.pop, key) if before is None else (entries.__setitem__, key, before))
        entries[key] = value

    def set(self, target: object, name: str, value: object) -> None:
        """Set the attribute *name* of *target*, and add the step that undoes the change."""
        self.append((setattr, target, name, getattr(target, name)))
        setattr(target, name, value)

    def take_back(self) -> None:
        """Undo all changes, the last one first."""
        for step, *arguments in reversed(self):
            step(*arguments)


@dataclass(slots=True, eq=False)
class CommitDraft:
    """A commit in progress: its changes so far, and the steps that undo them.

    Attributes:
        positions: The highest position of the tree's nodes before the commit.
        unchanged_ids: Items that an `Add` kept because they existed.
        replaced_ids: Items that an `Add` replaced because they existed.
    """

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
    undo: UndoSteps = field(default_factory=UndoSteps)

    def _next_row(self) -> int:
        self.row_count += 1
        return (self.number << ROW_BITS) + self.row_count - 1

    def begin(
        self, set_rows: SetRows, record: ItemRecord, last: ItemRow | None, *, version: int
    ) -> ItemRow:
        """Begin a version, and return it.

        Args:
            last: The version before it, or None for a new item.
        """
        number = self._next_row()
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
            record=read_at(record, time),
        )
        return self._add_version(row)

    def revive(self, row: ItemRow, *, version: int) -> ItemRow:
        """Begin a version with the contents of *row*, an ended version, and return it."""
        number, begin = self._next_row(), self.number
        again = replace(row, row=number, begin_commit=begin, version=version, end_commit=None)
        return self._add_version(again)

    def restore(self, set_rows: SetRows, item: StoredItem) -> ItemRow:
        """Begin the version *item* of another store, with the same row number, and return it."""
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
            item.record,
        )
        self.row_count = max(self.row_count, item.row - (self.number << ROW_BITS) + 1)
        return self._add_version(row)

    def _add_version(self, row: ItemRow) -> ItemRow:
        row.set_rows.add_version(row)
        self.begun_items[row.row] = row
        self.undo.append((row.set_rows.erase, row))
        return row

    def end(self, row: ItemRow) -> None:
        """End a version. A version that this commit began stays in its set, but was never live."""
        row.set_rows.remove_live(row)
        row.end_commit = self.number
        self.ended_items.append(row)
        self.undo.append((row.set_rows.add_live, row))


_begin_commit, _position = attrgetter("begin_commit"), attrgetter("position")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """The entry of a commit in the journal, with references to the rows that the commit changed.

    Attributes:
        erased: The commit that erased the request and the result, or None.
    """

    commit: Commit
    scope: Scope
    request: bytes | None
    put_nodes: Sequence[tuple[Path, NodeRow]]
    removed_nodes: Sequence[tuple[Path, NodeRow]]
    begun_items: Sequence[ItemRow]
    ended_items: Sequence[ItemRow]
    erased: int | None = None


class Journal:
    """The entries of all commits, from commit 1 on. Removed rows are dropped from the entries.

    Attributes:
        times: The times of all commits.
        has_setback: Whether a commit has an earlier time than the commit before it.
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
        """Append a commit and its changes."""
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
        self._put.extend(put if len(put) < 2 else sorted(put, key=_position))  # noqa: PLR2004 - one node is sorted

    def _row(self, result: Value, space: str, key: str | None, *rest: object) -> tuple[Any, ...]:
        """Return the row of a commit. All commits of a scope that changed nothing share one row."""
        if result is None and not any(rest):
            scope = Scope(space, key)
            row = self._empty_rows.get(scope)
            if row is None:
                row = self._empty_rows[scope] = (None, space, key, None, (), (), (), None)
            return row
        return (result, space, key, *rest)

    @property
    def time(self) -> int | None:
        """The time of the last commit, or None if there is no commit."""
        return self.times[-1] if self.times else None

    def commits_of(self, scope: Scope) -> list[int]:
        """Return the numbers of the commits of a scope."""
        return [i + 1 for i, row in enumerate(self._rows) if row[1:3] == (*scope,)]

    def erase(self, number: int, erased: int | None) -> None:
        """Erase the request and the result of the commit *number*.

        Args:
            erased: The commit that erases, or None if the entry needs no note of it.
        """
        _, space, key, _, *changed, _ = self._rows[number - 1]
        self._rows[number - 1] = self._row(None, space, key, None, *changed, erased)

    def erase_tree(self, numbers: Collection[int]) -> None:
        """Erase the nodes that the commits *numbers* put or removed, and the items they ended."""
        for number in numbers:
            *before, _, begun, _, erased = self._rows[number - 1]
            self._rows[number - 1] = self._row(*before, (), begun, (), erased)
        self._put = [row for row in self._put if row.begin_commit not in numbers]

    def drop_swept(self, rows: Collection[NodeRow]) -> None:
        """Drop versions of nodes that were swept from the entries of their commits."""
        if not rows:
            return
        self._put = [row for row in self._put if not row.swept]
        for number in {row.end_commit for row in rows if row.end_commit}:
            *before, removed, begun, ended, erased = self._rows[number - 1]
            left = tuple(node for node in removed if not node[1].swept)
            self._rows[number - 1] = self._row(*before, left, begun, ended, erased)

    def erase_items(self, rows: Collection[ItemRow]) -> None:
        """Drop versions of items from the entries of the commits that began or ended them."""
        erased_rows = {row.row for row in rows}
        for number in {row.begin_commit for row in rows} | {
            row.end_commit for row in rows if row.end_commit
        }:
            *before, begun, ended, erased = self._rows[number - 1]
            remaining = (
                tuple(row for row in some if row.row not in erased_rows) for some in (begun, ended)
            )
            self._rows[number - 1] = self._row(*before, *remaining, erased)
