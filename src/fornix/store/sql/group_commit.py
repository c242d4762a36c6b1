"""The work of a group of tickets in one transaction, each with an answer of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar, cast

from fornix.errors import FornixError
from fornix.store import Batch, Commit
from fornix.store.commit_queue import CommitQueue, CommitTicket
from fornix.store.sql.apply import Transaction

R = TypeVar("R")

StoreTicket: TypeAlias = CommitTicket[Callable[[Transaction], object]]
"""Work that is done in an open transaction."""


class StoreQueue(CommitQueue[Callable[[Transaction], object]]):
    """Where the writes of one open store gather."""

    def do(
        self,
        work: Callable[[Transaction], R],
        batches: Sequence[Batch] = (),
        *,
        raises: bool = True,
        drafts: bool = False,
    ) -> R:
        """Return what *work* answers once it is durable, or raise what refused it.

        Work that raises a `FornixError` is undone by itself; what else raises undoes its group.

        Args:
            batches: See `CommitTicket`: with those of other threads they take fewer statements.
            raises, drafts: See `CommitTicket`.
        """
        return cast("R", self.pass_in(work, batches, raises=raises, drafts=drafts))


def answers_of(tx: Transaction, group: list[StoreTicket]) -> Sequence[object]:
    """Do the work of a group; return an answer, or the error that refuses it, for each ticket."""
    if len(group) == 1:
        return [group[0].work(tx)]

    def together(ticket: StoreTicket) -> object:
        if ticket.batches:
            return [tx.apply_unflushed(batch) for batch in ticket.batches]
        tx.pending_rows.flush()
        return ticket.work(tx)

    answers = _apply_all(tx, [partial(together, ticket) for ticket in group])
    return [_alone(tx, ticket.work) for ticket in group] if answers is None else answers


def apply_each(tx: Transaction, batches: Sequence[Batch]) -> list[Commit | FornixError]:
    """Apply batches with few statements, or, if one is refused, each in a savepoint."""
    answers = _apply_all(tx, [partial(tx.apply_unflushed, batch) for batch in batches])
    if answers is None:
        return [_alone(tx, partial(Transaction.apply, batch=batch)) for batch in batches]
    return [*answers]


def _apply_all(tx: Transaction, work: Sequence[Callable[[], R]]) -> list[R] | None:
    """Do pieces of work with few statements; None, and nothing done: one of them is refused."""
    db = tx.connection
    db.execute("SAVEPOINT together")
    try:
        answers = [piece() for piece in work]
        tx.pending_rows.flush()
        db.settle()
    except (FornixError, db.taken):
        db.roll_back("ROLLBACK TO together")
        db.execute("RELEASE together")
        tx.reset()
        return None
    db.execute("RELEASE together")
    return answers


def _alone(tx: Transaction, work: Callable[[Transaction], R]) -> R | FornixError:
    """Do one piece of work in a savepoint; what refuses it concerns it alone."""
    db = tx.connection
    db.execute("SAVEPOINT batch")
    try:
        answer = work(tx)
    except FornixError as error:
        db.roll_back("ROLLBACK TO batch")
        db.execute("RELEASE batch")
        tx.reset()
        return error
    db.execute("RELEASE batch")
    return answer
