"""The work of a group of tickets in one transaction, each with an answer of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from alveus.errors import AlveusError
from alveus.store import Batch, Commit
from alveus.store.commit_queue import CommitQueue, CommitTicket
from alveus.store.observer import IGNORED, Observed
from alveus.store.sql.apply import Transaction

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
        caller: Observed = IGNORED,
    ) -> R:
        """Return what *work* answers once it is durable, or raise what refused it.

        Work that raises an `AlveusError` is undone by itself; what else raises undoes its group.

        Args:
            batches: See `CommitTicket`: with those of other threads they take fewer statements.
            raises, drafts, caller: See `CommitTicket`.
        """
        answer: R = self.pass_in(work, batches, raises=raises, drafts=drafts, caller=caller)
        return answer


def answers_of(tx: Transaction, group: Sequence[StoreTicket]) -> Sequence[object]:
    """Do the work of a group; return an answer, or the error that refuses it, for each ticket."""
    if is_alone(group):
        return [group[0].work(tx)]
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


def is_alone(group: Sequence[StoreTicket]) -> bool:
    """Return whether what refuses the work of a group is raised, and there is nothing to undo."""
    return len(group) == 1 and group[0].raises


def answers_together(tx: Transaction, group: Sequence[StoreTicket]) -> Sequence[object]:
    """Do the work of a group with few statements.

    Raises:
        AlveusError, `Connection.taken`: One of them is refused; the transaction is to be undone.
    """
    answers = [_gathered(tx, ticket) for ticket in group]
    tx.pending_rows.flush()
    tx.connection.settle()
    return answers


def _gathered(tx: Transaction, ticket: StoreTicket) -> object:
    if ticket.batches:
        return [tx.apply_unflushed(batch) for batch in ticket.batches]
    tx.pending_rows.flush()
    return ticket.work(tx)


def answers_one_by_one(tx: Transaction, group: Sequence[StoreTicket]) -> Sequence[object]:
    """Do the work of a group, each in a savepoint."""
    return [_alone(tx, ticket.work) for ticket in group]


def apply_each(tx: Transaction, batches: Sequence[Batch]) -> list[Commit | AlveusError]:
    """Apply batches, each in a savepoint."""
    return [_alone(tx, partial(Transaction.apply, batch=batch)) for batch in batches]


def _alone(tx: Transaction, work: Callable[[Transaction], R]) -> R | AlveusError:
    """Do one piece of work in a savepoint; what refuses it concerns it alone."""
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
