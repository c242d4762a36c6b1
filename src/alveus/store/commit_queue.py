"""Group commit: the writes of many threads share one transaction and one fsync.

A thread that finds no leader becomes the leader: it takes all waiting work, does it in one
transaction (each with an answer of its own; if one is refused, each in a savepoint), and hands over
to a waiting thread. With one thread that is a commit like any other; with many, the work that
arrives during an fsync shares the next one. Where the last group was larger, its threads may come
again at once: the leader lets them go first, or every second group would be of one.

Batches may be planned by the leader, too: to embed a text by itself takes about three times as long
as among others, and so does the rest of an add. See `Planner`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from alveus.errors import AlveusError, Unavailable
from alveus.store.changes import Batch, Commit
from alveus.store.ledger import IGNORED, Observed
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass

MOST = 256
"""Pieces of work in one transaction, so that nobody waits long for the first of them."""

LOOK_S = 1.0
"""How often a waiting thread looks whether the leader stopped without handing over."""

W = TypeVar("W")


class Planner(Protocol):
    """Makes batches of the work of several threads at once, in the thread that commits them."""

    def batches(self, works: Sequence[Any], /) -> Sequence[Batch | None]:
        """Return a batch for each; None: nothing is to be committed for it."""
        ...


@runtime_checkable
class Queued(Protocol):
    """A store whose commits pass through a queue."""

    def commit_planned(self, work: Any, planner: Planner) -> Commit | None:  # noqa: ANN401 - the planner's
        """Commit the batch that *planner* makes of *work* and of others'; None: it makes none.

        Raises:
            AlveusError: The batch is refused, as `Ledger.commit` says.
        """
        ...


@dataclass(slots=True, eq=False)
class CommitTicket(Generic[W]):
    """A piece of work that waits, and its outcome.

    Attributes:
        work: Passed to *planner*; without one, done if there are no *batches*.
        batches: Batches to apply; the answer is a list of a commit or an error for each.
        raises: The error that refuses one of *batches* is raised; else it is among the answers.
        drafts: The work may be done as a draft (store/postgres/drafting.py), without batches too.
        caller: The call whose work it is, if that is observed.
        planner: Makes the one batch of the work; the answer is None if it makes none.
        group: The tickets that its thread commits as the leader, itself included.
        ready: Held until its thread, which waits for that, is to go on; None: it does not wait.
        stopped: The error that ended its thread, which will not come back; None: it goes on.
    """

    work: W
    batches: Sequence[Batch] = ()
    raises: bool = True
    drafts: bool = False
    caller: Observed = IGNORED
    planner: Planner | None = None
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
        """Let its thread go on, if it waits; twice is fine."""
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
        self._planning_thread = 0

    def do(self, ticket: CommitTicket[W]) -> Any:  # noqa: ANN401 - the answer to the work
        """Return the answer to the work once it is durable, or raise the error that refused it.

        Work that raises an `AlveusError` is undone by itself; any other error undoes its group.
        A planner may call this itself, as a user's embedder may write: its work is done at once,
        and a plan is answered with None.
        """
        if self._planning_thread and self._planning_thread == threading.get_ident():
            return self._done_apart(ticket)
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

    def _done_apart(self, ticket: CommitTicket[W]) -> object:
        if ticket.planner is None:
            self.commit_group([ticket])
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
            group = [ticket]
        else:
            group = self._gathered(ticket)
            self._last_size = len(group)
        planned = self._planned(group)  # an interrupt leaves the others to the next leader
        ticket.group = group
        try:
            work = group if planned is None else _with_batches(group, planned)
            if work:
                self.commit_group(work)
        except AlveusError as error:
            _settle(group, error)

    def _planned(
        self, group: Sequence[CommitTicket[W]]
    ) -> dict[CommitTicket[W], Batch | None] | None:
        """Return the batches of tickets with a planner; None: no ticket has one."""
        together: dict[Planner, list[CommitTicket[W]]] = {}
        for one in group:
            if one.planner is not None:
                together.setdefault(one.planner, []).append(one)
        if not together:
            return None
        self._planning_thread = threading.get_ident()
        try:
            return {
                one: batch
                for planner, tickets in together.items()
                for one, batch in zip(
                    tickets, planner.batches([each.work for each in tickets]), strict=True
                )
            }
        finally:
            self._planning_thread = 0

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


def _with_batches(
    group: Sequence[CommitTicket[W]], planned: dict[CommitTicket[W], Batch | None]
) -> list[CommitTicket[W]]:
    """Give tickets their planned batches; return those with anything to do, and settle the rest."""
    for one, batch in planned.items():
        if batch is None:
            one.settle(None)
        else:
            one.batches = (batch,)
    return [one for one in group if not one.settled]


def _settle(group: list[CommitTicket[W]], error: AlveusError) -> None:
    for ticket in group:
        if not ticket.settled:
            ticket.settle(error)
