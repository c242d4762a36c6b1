"""The journal of a `RamStore`: what each commit changed.

Entries are kept as plain tuples of texts and numbers, as runs are. The garbage collector visits
every object that may hold others, again and again: with millions of commits, that took longer than
the runs. It skips such tuples.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

from alveus.store import Batch, Commit, Scope
from alveus.store.ram.rows import CommitDraft, ItemRow, NodeRow
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value

_begin_commit, _position = attrgetter("begin_commit"), attrgetter("position")


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """An entry of the journal, with references to the rows that a commit changed."""

    commit: Commit
    scope: Scope
    request: bytes | None
    put_nodes: Sequence[tuple[Path, NodeRow]]
    removed_nodes: Sequence[tuple[Path, NodeRow]]
    begun_items: Sequence[ItemRow]
    ended_items: Sequence[ItemRow]
    erased: int | None = None


class Journal:
    """The entries of all commits, from commit 1 on.

    Removed rows are removed here too. An empty entry takes 16 bytes.

    Attributes:
        times: The times of all commits.
        has_setback: A commit has an earlier time than the one before it.
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
        self._put.extend(put if len(put) < 2 else sorted(put, key=_position))  # noqa: PLR2004 - one is sorted

    def _row(self, result: Value, space: str, key: str | None, *rest: object) -> tuple[Any, ...]:
        """Return a row; the empty commits of a scope share one."""
        if result is None and not any(rest):
            scope = Scope(space, key)
            row = self._empty_rows.get(scope)
            if row is None:
                row = self._empty_rows[scope] = (None, space, key, None, (), (), (), None)
            return row
        return (result, space, key, *rest)

    @property
    def time(self) -> int | None:
        """The time of the last commit; None if no commit exists."""
        return self.times[-1] if self.times else None

    def commits_of(self, scope: Scope) -> list[int]:
        """Return the numbers of the commits of a scope."""
        return [i + 1 for i, row in enumerate(self._rows) if row[1:3] == (*scope,)]

    def erase(self, number: int, erased: int | None) -> None:
        """Erase the request and the result of a commit; *erased* is the commit that erases."""
        _, space, key, _, *changed, _ = self._rows[number - 1]
        self._rows[number - 1] = self._row(None, space, key, None, *changed, erased)

    def erase_tree(self, numbers: Collection[int]) -> None:
        """Erase the nodes of commits, and the items that they ended."""
        for number in numbers:
            *before, _, begun, _, erased = self._rows[number - 1]
            self._rows[number - 1] = self._row(*before, (), begun, (), erased)
        self._put = [row for row in self._put if row.begin_commit not in numbers]

    def drop_swept(self, rows: Collection[NodeRow]) -> None:
        """Drop swept versions of nodes from their commits."""
        if not rows:
            return
        self._put = [row for row in self._put if not row.swept]
        for number in {row.end_commit for row in rows if row.end_commit}:
            *before, removed, begun, ended, erased = self._rows[number - 1]
            left = tuple(node for node in removed if not node[1].swept)
            self._rows[number - 1] = self._row(*before, left, begun, ended, erased)

    def erase_items(self, rows: Collection[ItemRow]) -> None:
        """Drop versions of items from their commits."""
        erased_rows = {row.row for row in rows}
        for number in {row.begin_commit for row in rows} | {
            row.end_commit for row in rows if row.end_commit
        }:
            *before, begun, ended, erased = self._rows[number - 1]
            remaining = (
                tuple(row for row in some if row.row not in erased_rows) for some in (begun, ended)
            )
            self._rows[number - 1] = self._row(*before, *remaining, erased)
