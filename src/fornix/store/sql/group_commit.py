"""Group commit: what many threads write shares one transaction and one fsync.

Whoever finds nobody leading becomes the leader: it takes all that wait, does it in one
transaction (each with an answer of its own; if one is refused, each in a savepoint) and hands over
to one who waits. With one thread that is a commit like any other; with many, what arrives during
an fsync shares the next one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar, cast

from fornix.errors import FornixError, Unavailable
from fornix.store import Batch, Commit
from fornix.store.sql.apply import Transaction
from fornix.values.forks import HandleLock

MOST = 256
"""Pieces of work in one transaction, so that nobody waits long for the first of them."""

R = TypeVar("R")


class CommitTicket:
    """A piece of work that waits, and what became of it.

    Attributes:
        batches: The work is to apply these, and answers with a list; none: it is something else.
        caller: What `CommitQueue.caller` returned where it was passed in.
    """

    __slots__ = ("answer", "batches", "caller", "error", "leads", "ready", "settled", "work")

    def __init__(self, work: Callable[[Transaction], object], batches: Sequence[Batch]) -> None:
        self.work, self.batches = work, batches
        self.answer: object = None
        self.caller: object = None
        self.error: FornixError | None = None
        self.settled = False
        self.leads = False
        self.ready = threading.Lock()
        self.ready.acquire()

    def settle(self, answer: object) -> None:
        """Give the answer, or the error that refuses the work."""
        if isinstance(answer, FornixError):
            self.error = answer
        else:
            self.answer = answer
        self.settled = True


class CommitQueue:
    """Gathers work into groups; *commit_group* settles every ticket of a group.

    Attributes:
        caller: Tells who passes work in; None: nobody asks.
    """

    def __init__(self, commit_group: Callable[[list[CommitTicket]], None]) -> None:
        self.commit_group = commit_group
        self.caller: Callable[[], object] | None = None
        self._mutex = HandleLock()
        self._waiting: deque[CommitTicket] = deque()
        self._led = False

    def do(self, work: Callable[[Transaction], R], batches: Sequence[Batch] = ()) -> R:
        """Return what *work* answers once it is durable, or raise what refused it.

        Work that raises a `FornixError` is undone by itself; what else raises undoes its group.

        Args:
            batches: See `CommitTicket`: with those of other threads they take fewer statements.
        """
        ticket = CommitTicket(work, batches)
        if self.caller is not None:
            ticket.caller = self.caller()
        with self._mutex:
            self._waiting.append(ticket)
            leads, self._led = not self._led, True
        if not leads:
            self._wait(ticket)
        if not ticket.settled:
            self._lead()
        if ticket.error is not None:
            raise ticket.error
        return cast("R", ticket.answer)

    def _wait(self, ticket: CommitTicket) -> None:
        """Wait until the ticket is settled, or is to lead; an interrupt leaves nobody waiting."""
        try:
            ticket.ready.acquire()
        except BaseException:
            with self._mutex:
                waiting = ticket in self._waiting
                if waiting:
                    self._waiting.remove(ticket)
            if waiting and ticket.leads:
                self._hand_over()
            raise

    def _lead(self) -> None:
        with self._mutex:
            group = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
        try:
            self.commit_group(group)
        except FornixError as error:
            _settle(group, error)
        except BaseException as error:
            lost = f"the thread that committed for this one stopped ({type(error).__name__})"
            _settle(group, Unavailable(f"{lost}; look whether it is there, or use a key"))
            raise
        finally:
            self._hand_over()
            for ticket in group:
                ticket.ready.release()

    def _hand_over(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].ready.release()
            else:
                self._led = False


def _settle(group: list[CommitTicket], error: FornixError) -> None:
    for ticket in group:
        if not ticket.settled:
            ticket.settle(error)


def answers_of(tx: Transaction, group: list[CommitTicket]) -> Sequence[object]:
    """Do the work of a group; return an answer, or the error that refuses it, for each ticket."""
    if len(group) == 1:
        return [group[0].work(tx)]

    def together(ticket: CommitTicket) -> object:
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
