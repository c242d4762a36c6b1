"""Group commit: what many threads write shares one transaction and one fsync.

Whoever finds nobody leading becomes the leader: it takes all that wait, does it in one
transaction (each with an answer of its own; if one is refused, each in a savepoint) and hands over
to one who waits. With one thread that is a commit like any other; with many, what arrives during
an fsync shares the next one. Where the last group was larger, those who were in it may come again
at once: the leader lets them go first, or every second group would be of one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, Generic, TypeVar

from alveus.errors import AlveusError, Unavailable
from alveus.store.changes import Batch
from alveus.store.ledger import IGNORED, Observed
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass

MOST = 256
"""Pieces of work in one transaction, so that nobody waits long for the first of them."""

LOOK_S = 1.0
"""How often who waits looks whether the leader stopped without handing over."""

W = TypeVar("W")


@dataclass(slots=True, eq=False)
class CommitTicket(Generic[W]):
    """A piece of work that waits, and what became of it.

    Attributes:
        batches: The work is to apply these, and answers with a list; none: it is something else.
        raises: What refuses one of them is raised; else it is among the answers.
        drafts: The work may be done as a draft (store/postgres/drafting.py), without batches too.
        caller: The call whose work it is, if that is observed.
        group: What its thread commits as the leader, itself included.
        ready: Held until its thread, which waits for that, is to go on; None: it does not wait.
        stopped: What its thread raised, and will not come back for it; None: it goes on.
    """

    work: W
    batches: Sequence[Batch]
    raises: bool
    drafts: bool = False
    caller: Observed = IGNORED
    answer: object = None
    error: AlveusError | None = None
    group: list[CommitTicket[W]] = field(default_factory=list["CommitTicket[W]"])
    settled: bool = False
    ready: threading.Lock | None = None
    stopped: type[BaseException] | None = None

    @property
    def is_over(self) -> bool:
        """Whether it waits for nothing any more."""
        return self.settled or self.stopped is not None

    def release(self) -> None:
        """Have its thread go on, if it waits; twice is fine."""
        if self.ready is not None and self.ready.locked():
            self.ready.release()

    def settle(self, answer: object) -> None:
        """Give the answer, or the error that refuses the work."""
        if isinstance(answer, AlveusError):
            self.error = answer
        else:
            self.answer = answer
        self.settled = True


class CommitQueue(Generic[W]):
    """Gathers work into groups; *commit_group* settles every ticket of a group.

    An interrupt (Ctrl-C, a signal whose handler raises) may come anywhere in the thread that
    leads. What it leaves undone in the queue is done once more, so `_step_down` may be called
    twice, or from its middle.
    """

    def __init__(self, commit_group: Callable[[list[CommitTicket[W]]], None]) -> None:
        self.commit_group = commit_group
        self._mutex = HandleLock(reentrant=True)  # nobody takes it twice; it knows who has it
        self._waiting: deque[CommitTicket[W]] = deque()
        self._leading: dict[None, CommitTicket[W]] = {}  # to be the first in here takes no lock
        self._last_size = 1

    def pass_in(
        self,
        work: W,
        batches: Sequence[Batch] = (),
        *,
        raises: bool = True,
        drafts: bool = False,
        caller: Observed = IGNORED,
    ) -> Any:  # noqa: ANN401 - what the work answers with, of whatever type
        """Return what *work* was answered once it is durable, or raise what refused it.

        Work that raises an `AlveusError` is undone by itself; what else raises undoes its group.

        Args:
            batches: See `CommitTicket`: with those of other threads they take fewer statements.
            raises, drafts, caller: See `CommitTicket`.
        """
        ticket = CommitTicket(work, batches, raises, drafts, caller)
        try:
            if self._leading.setdefault(None, ticket) is not ticket:
                self._await_turn(ticket)
            if not ticket.settled:
                self._lead(ticket)
            self._step_down(ticket)
        except BaseException as error:
            ticket.stopped = error.__class__  # before what takes memory
            try:  # here: one more interrupt may come as a function begins
                self._step_down(ticket)
            except BaseException:
                self._give_up(ticket)
                raise
            finally:
                self._mutex.let_go()
            raise
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    def _give_up(self, ticket: CommitTicket[W]) -> None:
        """Have the next one lead, also where one more interrupt comes meanwhile."""
        for left in (1, 0):
            try:
                self._step_down(ticket)
            except BaseException:
                if not left:
                    raise
            else:
                return

    def _await_turn(self, ticket: CommitTicket[W]) -> None:
        """Return once the ticket leads, or is settled."""
        with self._mutex:
            if self._leading.setdefault(None, ticket) is ticket:
                return
            ticket.ready = threading.Lock()
            ticket.ready.acquire()
            self._waiting.append(ticket)
        self._relieve()
        while not ticket.ready.acquire(timeout=LOOK_S):
            self._relieve()

    def _relieve(self) -> None:
        """Have the next one lead where the leader stopped, and could not."""
        leader = self._leading.get(None)
        if leader is not None and leader.stopped is not None:
            self._step_down(leader)

    def _lead(self, ticket: CommitTicket[W]) -> None:
        if self._last_size == 1 and ticket.ready is None and not self._waiting:
            ticket.group = [ticket]
        else:
            ticket.group = self._gathered(ticket)
            self._last_size = len(ticket.group)
        try:
            self.commit_group(ticket.group)
        except AlveusError as error:
            _settle(ticket.group, error)

    def _gathered(self, ticket: CommitTicket[W]) -> list[CommitTicket[W]]:
        """Return its group: all that wait; it leads them, and is the first of them if it waited."""
        group = [ticket] if ticket.ready is None else []
        if len(group) + len(self._waiting) < self._last_size:
            time.sleep(0)  # who has just been answered may come again: they get Python's lock first
        if self._waiting:
            with self._mutex:
                group += islice(self._waiting, MOST - len(group))
        return group

    def _step_down(self, ticket: CommitTicket[W]) -> None:
        """Have all of its group go on, and the next one lead; or stop waiting. Twice is fine."""
        with self._mutex:
            leading, waiting = self._leading, self._waiting
            if leading.get(None) is ticket:
                if ticket.stopped is not None:
                    kind = ticket.stopped.__name__
                    lost = f"the thread that committed for this one stopped ({kind})"
                    lost = f"{lost}; look whether it is there, or use a key"
                    _settle(ticket.group, Unavailable(lost))
                for one in ticket.group if waiting else ():
                    one.release()
                while waiting and (waiting[0].is_over or waiting[0] is ticket):
                    waiting.popleft()
                if waiting:
                    leading[None] = waiting[0]
                else:
                    del leading[None]
                ticket.group = []  # it holds itself, which would be left to the garbage collector
            elif not ticket.settled and ticket in waiting:
                waiting.remove(ticket)
            if waiting and leading:
                leading[None].release()


def _settle(group: list[CommitTicket[W]], error: AlveusError) -> None:
    for ticket in group:
        if not ticket.settled:
            ticket.settle(error)
