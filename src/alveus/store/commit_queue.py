"""Group commit: the writes of many threads share one transaction and one fsync.

A thread that finds no leader becomes the leader: it takes all waiting work, does it in one
transaction, and hands over to a waiting thread. Work that arrives during an fsync shares the next
one. If one piece of work is refused, each is repeated in a savepoint.

The leader also makes the batches of adds, as a text alone takes three times as long as among
others; see `JointAdds`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from alveus.errors import (
    AlveusError,
    DuplicateItem,
    KeyBusy,
    SetFull,
    SetMoved,
    StaleItem,
    Unavailable,
)
from alveus.store import Batch, Commit, ItemRecord, Store
from alveus.store.items import Item
from alveus.store.ledger import IGNORED, Observed
from alveus.store.records import RecordMaker
from alveus.store.times import DisciplinedClock
from alveus.values.forks import FORKS, HandleLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.times import Zone

MOST = 256
"""The most pieces of work in one transaction."""

LOOK_S = 1.0
"""How often a waiting thread checks whether the leader stopped without handing over."""


@runtime_checkable
class Queued(Protocol):
    """A store whose commits pass through a queue."""

    def commit_planned(self, add: JointAdd, planner: JointAdds) -> Commit | None:
        """Commit the batch that *planner* makes of *add*. None means that it made no batch.

        Raises:
            AlveusError: The batch is refused, as `Ledger.commit` says.
        """
        ...


@dataclass(slots=True, eq=False)
class CommitTicket:
    """A piece of work that waits, and its outcome.

    Attributes:
        work: A function of an open transaction, or a `JointAdd`; None beside *batches*.
        batches: Batches to apply; the answer is a list of a commit or an error for each.
        raises: The error that refuses one of *batches* is raised; else it is among the answers.
        drafts: The work may be done as a draft (store/postgres/drafting.py), without batches too.
        caller: The call whose work it is, if that is observed.
        planner: Makes the one batch of the work; the answer is None if it makes none.
        group: The tickets that its thread commits as the leader, itself included.
        ready: A lock that its waiting thread acquires to continue.
        stopped: The error that ended its thread for good, if any.
    """

    work: Any
    batches: Sequence[Batch] = ()
    raises: bool = True
    drafts: bool = False
    caller: Observed = IGNORED
    planner: JointAdds | None = None
    answer: object = None
    error: AlveusError | None = None
    group: list[CommitTicket] = field(default_factory=list["CommitTicket"])
    settled: bool = False
    ready: threading.Lock | None = None
    stopped: type[BaseException] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the ticket has an answer, or its thread has stopped."""
        return self.settled or self.stopped is not None

    def release(self) -> None:
        """Wake the ticket's thread, if it waits. A second call does nothing."""
        if self.ready is not None and self.ready.locked():
            self.ready.release()

    def settle(self, answer: object) -> None:
        """Set the answer, or the error that refuses the work."""
        if isinstance(answer, AlveusError):
            self.error = answer
        else:
            self.answer = answer
        self.settled = True


class CommitQueue:
    """Collects work into groups; *commit_group* settles every ticket of a group.

    An interrupt (Ctrl-C, a signal whose handler raises) may come anywhere in the leading thread.
    The next call finishes the queue's interrupted work, so `_step_down` may be called twice, or
    again from its middle.
    """

    def __init__(self, commit_group: Callable[[list[CommitTicket]], None]) -> None:
        self.commit_group = commit_group
        self._mutex = HandleLock(reentrant=True)  # no thread takes it twice; it knows its owner
        self._waiting: deque[CommitTicket] = deque()
        self._leading: dict[None, CommitTicket] = {}  # becoming the leader takes no lock
        self._last_size = 1
        self._planning_thread = 0

    def do(self, ticket: CommitTicket) -> Any:  # noqa: ANN401 - the answer to the work
        """Return the answer to the work once it is durable, or raise the error that refused it.

        Work that raises an `AlveusError` is undone by itself; any other error undoes its group.
        A planner may call this itself, as a user's embedder may write: its work is done at once,
        and a plan is answered with None.
        """
        if self._planning_thread and self._planning_thread == threading.get_ident():
            if ticket.planner is None:
                self.commit_group([ticket])
        else:
            self._do_in_turn(ticket)
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    def _do_in_turn(self, ticket: CommitTicket) -> None:
        try:
            if self._leading.setdefault(None, ticket) is not ticket:
                self._await_turn(ticket)
            if not ticket.settled:
                self._lead(ticket)
            self._step_down(ticket)
        except BaseException as error:
            ticket.stopped = error.__class__  # before anything that takes memory
            try:  # here: one more interrupt may come as a function begins
                self._step_down(ticket)
            except BaseException:
                self._give_up(ticket)
                raise
            finally:
                self._mutex.let_go()
            raise

    def _give_up(self, ticket: CommitTicket) -> None:
        """Make the next thread lead, even if another interrupt comes meanwhile."""
        for left in (1, 0):
            try:
                self._step_down(ticket)
            except BaseException:
                if not left:
                    raise
            else:
                return

    def _await_turn(self, ticket: CommitTicket) -> None:
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
        """Make the next thread lead if the leader stopped without handing over."""
        leader = self._leading.get(None)
        if leader is not None and leader.stopped is not None:
            self._step_down(leader)

    def _lead(self, ticket: CommitTicket) -> None:
        if self._last_size == 1 and ticket.ready is None and not self._waiting:
            group = [ticket]
        else:
            group = self._gathered(ticket)
            self._last_size = len(group)
        planned = self._planned(group)  # an interrupt leaves the others to the next leader
        ticket.group = group
        try:
            for one, batch in planned.items():
                if batch is None:
                    one.settle(None)
                else:
                    one.batches = (batch,)
            work = [one for one in group if not one.settled] if planned else group
            if work:
                self.commit_group(work)
        except AlveusError as error:
            _settle(group, error)

    def _planned(self, group: Sequence[CommitTicket]) -> dict[CommitTicket, Batch | None]:
        """Return the batches of the tickets that have a planner."""
        together: dict[JointAdds, list[CommitTicket]] = {}
        for one in group:
            if one.planner is not None:
                together.setdefault(one.planner, []).append(one)
        if not together:
            return {}
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

    def _gathered(self, ticket: CommitTicket) -> list[CommitTicket]:
        """Return the ticket's group: all waiting tickets. The ticket itself leads the group."""
        group = [ticket] if ticket.ready is None else []
        if len(group) + len(self._waiting) < self._last_size:
            time.sleep(0)  # answered threads may return: they get Python's lock first
        if self._waiting:
            with self._mutex:
                group += islice(self._waiting, MOST - len(group))
        return group

    def _step_down(self, ticket: CommitTicket) -> None:
        """Wake all threads of the group, and make the next one lead. Calling it twice is safe."""
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


def _settle(group: list[CommitTicket], error: AlveusError) -> None:
    for ticket in group:
        if not ticket.settled:
            ticket.settle(error)


# --- adds of many threads ---------------------------------------------------------------------

_MENDABLE = (DuplicateItem, KeyBusy, SetFull, SetMoved, StaleItem)
"""Errors of an add that may pass if its thread makes the add again, or waits."""


class JointAdd(Protocol):
    """An add that another thread may record and commit."""

    @property
    def pairs(self) -> Sequence[tuple[str, Item]]:
        """The items, and their ids."""
        ...

    @property
    def zone(self) -> Zone:
        """The zone of items without a time."""
        ...

    def batch_of(self, records: Sequence[ItemRecord], *, time: int, corroborated: int) -> Batch:
        """Return the batch that adds the records of the items; times as in `Batch`."""
        ...


class JointAdds:
    """The adds of one open memory: makes their batches in the thread that commits them.

    The adds wait in the queue of the store; if the store has none, in a queue of this object.
    """

    def __init__(self, store: Store, recorder: RecordMaker, clock: DisciplinedClock) -> None:
        self._store, self._recorder, self._clock = store, recorder, clock
        self._generation = FORKS.generation
        self._queue = CommitQueue(self._commit_group)
        self._pass_on = store.commit_planned if isinstance(store, Queued) else self._queue_here

    def commit(self, add: JointAdd) -> Commit | None:
        """Commit an add together with the adds of other threads. Return its commit.

        None means that nothing was done; adding it alone then succeeds or raises the error.

        Raises:
            AlveusError: The commit failed: the disk is full, or the store is unreachable or closed.
        """
        if FORKS.is_inherited(self._generation):  # a leader at the fork is not in the child
            return None
        try:
            return self._pass_on(add, self)
        except _MENDABLE:
            return None

    def _queue_here(self, add: JointAdd, planner: JointAdds) -> Commit | None:
        return self._queue.do(CommitTicket(add, planner=planner))

    def _commit_group(self, group: Sequence[CommitTicket]) -> None:
        batches = [batch for ticket in group for batch in ticket.batches]
        alone = len(batches) == 1
        answers = [self._store.commit(batches[0])] if alone else self._store.commit_many(batches)
        for ticket, answer in zip(group, answers, strict=True):
            ticket.settle(answer)

    def batches(self, adds: Sequence[JointAdd], /) -> list[Batch | None]:
        """Return the batch of each add. None means that the add would also fail alone."""
        zones = {add.zone for add in adds}
        if len(zones) > 1:
            apart = {zone: [add for add in adds if add.zone == zone] for zone in zones}
            made = {zone: iter(self.batches(some)) for zone, some in apart.items()}
            return [next(made[add.zone]) for add in adds]
        now, corroborated = self._clock.times()
        pairs = [pair for add in adds for pair in add.pairs]
        try:
            records = iter(self._recorder.records(pairs, now=now, zone=adds[0].zone))
            each = [(add, list(islice(records, len(add.pairs)))) for add in adds]
            return [add.batch_of(made, time=now, corroborated=corroborated) for add, made in each]
        except Exception:  # noqa: BLE001 - each add is tried alone; the caller of a failing one raises
            if len(adds) == 1:
                return [None]
            return [one for add in adds for one in self.batches([add])]
