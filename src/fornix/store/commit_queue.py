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
from typing import Generic, TypeVar

from fornix.errors import FornixError, Unavailable
from fornix.store.changes import Batch
from fornix.values.forks import HandleLock

MOST = 256
"""Pieces of work in one transaction, so that nobody waits long for the first of them."""

W = TypeVar("W")


class CommitTicket(Generic[W]):
    """A piece of work that waits, and what became of it.

    Attributes:
        batches: The work is to apply these, and answers with a list; none: it is something else.
        raises: What refuses one of them is raised; else it is among the answers.
        drafts: The work may be done as a draft (store/postgres/drafting.py), without batches too.
        caller: What `CommitQueue.caller` returned where it was passed in.
    """

    __slots__ = (
        *("answer", "batches", "caller", "drafts", "error", "leads", "raises", "ready"),
        *("settled", "work"),
    )

    def __init__(
        self, work: W, batches: Sequence[Batch], *, raises: bool, drafts: bool = False
    ) -> None:
        self.work, self.batches, self.raises = work, batches, raises
        self.drafts = drafts or bool(batches)
        self.answer: object = None
        self.caller: object = None
        self.error: FornixError | None = None
        self.settled = False
        self.leads = False
        self.ready: threading.Lock | None = None

    def waiting(self) -> CommitTicket[W]:
        """Return this ticket, whose thread waits from now on until `ready` is released."""
        self.ready = threading.Lock()
        self.ready.acquire()
        return self

    def release(self) -> None:
        """Have its thread go on, if it waits."""
        if self.ready is not None:
            self.ready.release()

    def settle(self, answer: object) -> None:
        """Give the answer, or the error that refuses the work."""
        if isinstance(answer, FornixError):
            self.error = answer
        else:
            self.answer = answer
        self.settled = True


class CommitQueue(Generic[W]):
    """Gathers work into groups; *commit_group* settles every ticket of a group.

    Attributes:
        caller: Tells who passes work in; None: nobody asks.
    """

    def __init__(self, commit_group: Callable[[list[CommitTicket[W]]], None]) -> None:
        self.commit_group = commit_group
        self.caller: Callable[[], object] | None = None
        self._mutex = HandleLock()
        self._waiting: deque[CommitTicket[W]] = deque()
        self._led = False

    def pass_in(
        self,
        work: W,
        batches: Sequence[Batch] = (),
        *,
        raises: bool = True,
        drafts: bool = False,
    ) -> object:
        """Return what *work* was answered once it is durable, or raise what refused it.

        Work that raises a `FornixError` is undone by itself; what else raises undoes its group.

        Args:
            batches: See `CommitTicket`: with those of other threads they take fewer statements.
            raises, drafts: See `CommitTicket`.
        """
        _reserve_calls()
        ticket = CommitTicket(work, batches, raises=raises, drafts=drafts)
        if self.caller is not None:
            ticket.caller = self.caller()
        with self._mutex:
            leads, self._led = not self._led, True
            if not leads:
                self._waiting.append(ticket.waiting())
        if leads:
            self._lead([ticket])  # where nobody leads, nobody waits
        else:
            self._wait(ticket)
            if not ticket.settled:
                self._lead(self._taken())
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    def _wait(self, ticket: CommitTicket[W]) -> None:
        """Wait until the ticket is settled, or is to lead; an interrupt leaves nobody waiting."""
        assert ticket.ready is not None  # noqa: S101 - it is in the queue
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

    def _taken(self) -> list[CommitTicket[W]]:
        with self._mutex:
            return [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]

    def _lead(self, group: list[CommitTicket[W]]) -> None:
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
                ticket.release()

    def _hand_over(self) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].release()
            else:
                self._led = False


def _reserve_calls(left: int = 16) -> None:
    """Raise RecursionError now where the stack has no room for as many calls as leading takes.

    Raised in the midst of that, it would leave all others waiting.
    """
    if left:
        _reserve_calls(left - 1)


def _settle(group: list[CommitTicket[W]], error: FornixError) -> None:
    for ticket in group:
        if not ticket.settled:
            ticket.settle(error)
