"""Applies batches, and groups of batches, inside a write transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self, TypeVar

from alveus.errors import AlveusError, DuplicateItem, InvalidInput, LimitReached
from alveus.store import Add, Batch, Commit, SetRef, commit_time
from alveus.store.checks import ROW_BITS, check_base, check_batch, check_leases
from alveus.store.commit_queue import CommitTicket
from alveus.store.packed_values import packed
from alveus.store.sql import past
from alveus.store.sql.connection import Connection, OwnerRegistry, Query, first, query
from alveus.store.sql.items import Changes
from alveus.store.sql.rows import LAST_COMMIT, adopted, expect_notes
from alveus.store.sql.runs import RunWriter
from alveus.store.sql.tree import apply_tree, lookups
from alveus.store.sql.writer import PendingRows, RunRow, ScopeRows, WriterCache
from alveus.values import wire

_EARLIER = "SELECT 1 FROM item WHERE set_id = ? AND id IS ? AND begun <= ? LIMIT 1"

_LIVE_IDS = """
    SELECT id FROM item WHERE set_id = ?1 AND ended IS NULL AND begun <= ?2
        AND id IN (SELECT value FROM carray(?3) AS names)
"""

_HEAD = "SELECT head FROM scope WHERE id = ?"


class Transaction:
    """Applies batches, one after the other, on a connection whose transaction is open.

    The transaction updates `cache`. After a rollback, the caller must drop the cache, or call
    `reset`. After a commit, `begun` makes the object usable again: a new one takes longer to make.
    """

    def __init__(self, connection: Connection, cache: WriterCache, owners: OwnerRegistry) -> None:
        self.connection = self._db = connection
        self.cache, self.owners = cache, owners
        self._gather()

    def begun(self) -> Self:
        """Return this object for a new transaction, without collected rows."""
        self.cache.limit_size()
        self.rows.begin()
        self._look_up_last()
        return self

    def _gather(self) -> None:
        cache = self.cache
        self.pending_rows = PendingRows(self._db, cache.runs.runs)
        self.rows = ScopeRows(self._db, cache)
        self.runs = RunWriter(self._db, cache.runs, self.pending_rows, self.owners)

    def _look_up_last(self) -> None:
        if self.cache.number is None:
            row = self._db.execute(LAST_COMMIT).get
            self.cache.number, self.cache.time = row or (0, 0)

    def reset(self) -> None:
        """Drop cached and collected rows after a partial rollback."""
        self.cache.__init__(version=self.cache.version)
        self._gather()
        self._look_up_last()

    def apply(self, batch: Batch) -> Commit:
        """Apply one batch, whole, or return the earlier commit of its op."""
        before = self.cache.number or 0
        try:
            answer = self.apply_unflushed(batch)
            self.pending_rows.flush()
            self._db.settle()
        except self._db.taken as error:
            self._db.recover()
            raise self._duplicate_error(batch, before) from error
        return answer

    def apply_unflushed(self, batch: Batch) -> Commit:
        """Apply one batch; inserted rows are collected, and not written yet.

        Raises:
            `Connection.taken`: Collected rows conflict with each other, or with existing rows.
        """
        number = (self.cache.number or 0) + 1
        if batch.op is not None or batch.run is not None:
            repeated = self._repeated_commit(batch, number)
            if repeated is not None:
                return repeated
        time = self._time(batch, number)
        scope = self.rows.scope_row_of(batch.scope)
        if batch.expects is not self.cache.expected:
            expect_notes(self._db, batch.expects, self.cache.notes)
            self.cache.expected = batch.expects
        run = self._check(batch, scope, number)
        ended: dict[str, list[int]] = {}
        sets_to_compact: Sequence[SetRef] = ()
        if batch.state:
            live = self.cache.nodes.setdefault(scope, {})
            ended["nodes"] = apply_tree(
                self._db, self.pending_rows, scope, batch.state, number=number, live=live
            )
            self.cache.trim(scope)
        if batch.items or batch.define:
            changes = self.changes_of(batch, number=number, time=time)
            ended["items"] = self._run(changes, batch, number)
            sets_to_compact = tuple(changes.sets_to_compact)
        if batch.run is not None and run is not None:
            self.runs.apply(run, batch.run, number=number, time=time)
        if batch.history_start != (0, 0):
            past.raise_history_start(self._db, scope, batch.history_start)
        if batch.release and batch.epoch is not None:
            self.runs.release_lease(batch.scope, batch.epoch)
        result = None if batch.result is None else packed(wire.encode(batch.result))
        self.pending_rows.add_commit(
            (number, time, scope, batch.op, batch.request, result, self._ended(ended))
        )
        self.cache.number, self.cache.time = number, time
        return Commit(
            number, time, adopted=False, result=batch.result, sets_to_compact=sets_to_compact
        )

    def lookups(self, batch: Batch) -> list[Query]:
        """Return the queries that a batch will make, as far as they are known in advance."""
        queries, scope = self.runs.lookups(batch), self.cache.scopes.get(batch.scope)
        if scope is None:
            return queries
        if batch.base is not None and scope not in self.cache.heads:
            queries.append((_HEAD, (scope,)))
        live = self.cache.nodes.get(scope, {})
        return queries + lookups(self._db, scope, batch.state, live)

    def changes_of(self, batch: Batch, *, number: int, time: int) -> Changes:
        """Return the item changes of a batch, which becomes commit *number*."""
        row = number << ROW_BITS
        return Changes(self._db, self.rows, self.pending_rows, batch, number, time, row)

    def _time(self, batch: Batch, number: int) -> int:
        """Return the time of a commit; store a setback of the clock."""
        if batch.corroborated is not None:
            self.cache.corroborated = batch.corroborated
        last = self.cache.time if number > 1 else None
        time = commit_time(batch.time, last)
        if last is not None and time < last:
            self._db.execute("INSERT INTO setback (n, time) VALUES (?, ?)", (number, time))
        return time

    def _repeated_commit(self, batch: Batch, number: int) -> Commit | None:
        """Return the earlier commit of the batch's op; if there is none, claim the op."""
        if batch.op is not None:
            if batch.op in self.pending_rows.ops:
                self.pending_rows.flush()
            return adopted(self._db, batch.op, request=batch.request, label=batch.label)
        if batch.run is not None:
            return self.runs.repeated_commit(batch.run, number)
        return None

    def _ended(self, ended: dict[str, list[int]]) -> str | None:
        """Return the rows that a commit ended, as JSON."""
        found = {what: rows for what, rows in ended.items() if rows}
        return json.dumps(found) if found else None

    def _check(self, batch: Batch, scope: int, number: int) -> RunRow | None:
        """Return the run that the batch reports on, or None. Raise if the batch is not allowed."""
        check_batch(batch, number - 1)
        check_leases(batch, self.runs.holder, self.owners.is_alive)
        run = None if batch.run is None else self.runs.check(batch, batch.run)
        if batch.base is None:
            return run
        head = self.cache.heads.get(scope)
        if head is None:
            head = self._db.execute(_HEAD, (scope,)).get
            self.cache.heads[scope] = head
        check_base(batch, head)
        if batch.state:
            self.cache.heads[scope] = self.pending_rows.heads[scope] = number
        return run

    def _run(self, changes: Changes, batch: Batch, number: int) -> list[int]:
        """Make the item changes of a batch. Return the rows that ended."""
        try:
            return changes.run()
        except LimitReached:  # after all changes, because fresh ids were not looked up
            self._refuse_live(batch, number - 1)
            raise

    def _refuse_live(self, batch: Batch, before: int) -> None:
        """Raise `DuplicateItem` if a fresh id was live at commit *before*, and still is."""
        fresh: dict[SetRef, list[str]] = {}
        for change in batch.items:
            if isinstance(change, Add) and change.fresh:
                fresh.setdefault(change.set, []).append(change.record.id)
        for ref, ids in fresh.items():
            set_row = self.rows.set_row(ref)
            if set_row is None:
                continue
            live = query(self._db, _LIVE_IDS, set_row[0], before, self._db.texts(ids))
            taken = [item_id for item_id in ids if (item_id,) in live]
            if taken:
                raise DuplicateItem(taken[0], set_name=ref.name)

    def _duplicate_error(self, batch: Batch, before: int) -> DuplicateItem | InvalidInput:
        """Return the error for a fresh id that was live at commit *before*, or added twice."""
        seen: set[tuple[SetRef, str]] = set()
        for change in batch.items:
            if not isinstance(change, Add):
                continue
            item_id = change.record.id
            set_row = self.rows.set_row(change.set)
            if (change.set, item_id) in seen or (
                change.fresh
                and set_row is not None
                and first(self._db, _EARLIER, set_row[0], item_id, before)
            ):
                return DuplicateItem(item_id, set_name=change.set.name)
            seen.add((change.set, item_id))
        return InvalidInput("a batch adds an id that is taken")


R = TypeVar("R")


def answers_of(tx: Transaction, group: Sequence[CommitTicket]) -> Sequence[object]:
    """Do the work of a group. Return a result, or the error that refuses it, for each ticket."""
    if is_alone(group):
        return [answer_of(tx, group[0])]
    db = tx.connection
    db.execute("SAVEPOINT together")
    try:
        answers = answers_together(tx, group)
    except (AlveusError, db.taken):
        db.roll_back("ROLLBACK TO together")
        tx.reset()
        answers = answers_one_by_one(tx, group)
    db.execute("RELEASE together")
    return answers


def is_alone(group: Sequence[CommitTicket]) -> bool:
    """Return whether the group is one ticket whose error is raised, so that nothing is undone."""
    return len(group) == 1 and group[0].raises


def answer_of(tx: Transaction, ticket: CommitTicket) -> object:
    """Do the work of one ticket.

    Raises:
        AlveusError: The work is refused.
    """
    if ticket.batches and ticket.raises:
        return [tx.apply(batch) for batch in ticket.batches]
    if ticket.batches:
        return [_in_savepoint(tx, partial(Transaction.apply, batch=b)) for b in ticket.batches]
    return None if ticket.work is None else ticket.work(tx)


def answers_together(tx: Transaction, group: Sequence[CommitTicket]) -> Sequence[object]:
    """Do the work of a group with few statements.

    Raises:
        AlveusError, `Connection.taken`: A ticket is refused; the transaction must be undone.
    """
    answers: list[object] = []
    for ticket in group:
        if ticket.batches:
            answers.append([tx.apply_unflushed(batch) for batch in ticket.batches])
        else:
            tx.pending_rows.flush()
            answers.append(answer_of(tx, ticket))
    tx.pending_rows.flush()
    tx.connection.settle()
    return answers


def answers_one_by_one(tx: Transaction, group: Sequence[CommitTicket]) -> Sequence[object]:
    """Do the work of a group, each ticket in a savepoint."""
    return [_in_savepoint(tx, partial(answer_of, ticket=ticket)) for ticket in group]


def _in_savepoint(tx: Transaction, work: Callable[[Transaction], R]) -> R | AlveusError:
    """Do the work in a savepoint. Return its result, or the error that refuses it."""
    db = tx.connection
    db.execute("SAVEPOINT batch")
    try:
        answer = work(tx)
    except AlveusError as error:
        db.roll_back("ROLLBACK TO batch")
        db.execute("RELEASE batch")
        tx.reset()
        return error
    db.execute("RELEASE batch")
    return answer
