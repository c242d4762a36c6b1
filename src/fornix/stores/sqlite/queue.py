"""Group commit: batches of many threads share one transaction and one fsync.

Whoever finds nobody leading becomes the leader: it takes all that wait, commits them in one
transaction (each with an answer of its own; if one is refused, each in a savepoint) and hands over
to one who waits. With one thread that is a commit like any other; with many, what arrives during
an fsync shares the next one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from fornix.errors import FornixError, Unavailable
from fornix.store import Batch, Commit

MOST = 256
"""Batches in one transaction, so that nobody waits long for the first of them."""


class Ticket:
    """A batch that waits, and what became of it."""

    __slots__ = ("answer", "batch", "error", "leads", "ready")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.answer: Commit | None = None
        self.error: FornixError | None = None
        self.leads = False
        self.ready = threading.Lock()
        self.ready.acquire()

    @property
    def settled(self) -> bool:
        """Whether there is an answer or an error."""
        return self.answer is not None or self.error is not None


class CommitQueue:
    """Gathers batches into groups; *commit_group* settles every ticket of a group."""

    def __init__(self, commit_group: Callable[[list[Ticket]], None]) -> None:
        self._commit_group = commit_group
        self._mutex = threading.Lock()
        self._waiting: deque[Ticket] = deque()
        self._led = False

    def commit(self, batch: Batch) -> Commit:
        """Return the answer to *batch* once it is durable, or raise what refused it."""
        ticket = Ticket(batch)
        with self._mutex:
            self._waiting.append(ticket)
            leads, self._led = not self._led, True
        if not leads:
            self._wait(ticket)
        if not ticket.settled:
            self._lead()
        if ticket.error is not None:
            raise ticket.error
        assert ticket.answer is not None  # noqa: S101 - a group settles all its tickets
        return ticket.answer

    def _wait(self, ticket: Ticket) -> None:
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
            self._commit_group(group)
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


def _settle(group: list[Ticket], error: FornixError) -> None:
    for ticket in group:
        if not ticket.settled:
            ticket.error = error
