"""Group commit: the writes of many threads share one transaction and one fsync.

A thread that finds no leader becomes the leader: it takes all waiting work, does it in one
transaction, and makes a waiting thread the next leader. All work that arrives during an fsync
shares the next fsync. If one piece of work is refused, the leader repeats each piece in a savepoint
of its transaction.

The leader also makes the batches of adds: preparing one text alone takes three times as long as
preparing it together with others; see `JointAdds`.
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
"""How often a waiting thread checks whether the leader stopped without naming a next leader."""


@runtime_checkable
class Queued(Protocol):
    """A store whose commits pass through a queue."""

    def commit_planned(self, add: JointAdd, planner: JointAdds) -> Commit | None:
        """Commit the batch that *planner* makes of *add*, or return None if it makes no batch.

        Raises:
            AlveusError: The batch is refused, as `Ledger.commit` says.
        """
        ...


@dataclass(slots=True, eq=False)
class CommitTicket:
    """A piece of work that waits, and its outcome.

    Attributes:
        work: A function that takes an open transaction, or a `JointAdd`. None if *batches* are the
            work.
        batches: Batches to apply. The answer is a list with a commit or an error for each.
        raises: If True, an error that refuses one of *batches* is raised. If False, the error is
            an element of the answer.
        drafts: Whether the work may be done as a draft (store/postgres/drafting.py), even without
            batches.
        caller: The observed call that asked for the work; `IGNORED` if nobody observes it.
        planner: Makes the batch from *work*, or None if *work* needs no planner. If the planner
            makes no batch, the answer is None.
        answer: The result of the work, once the ticket is settled.
        error: The error that refused the work, if any.
        group: While the ticket's thread is the leader, the tickets that it commits, including this
            ticket.
        settled: Whether the work has an answer or an error.
        ready: A lock that the ticket's waiting thread acquires to continue.
        stopped: The class of the error that ended the work of the ticket's thread, if any.
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
        """Store *answer* as the error if it is an `AlveusError`, and as the answer if not."""
        if isinstance(answer, AlveusError):
            self.error = answer
        else:
            self.answer = answer
        self.settled = True


class CommitQueue:
    """Collects work into groups, which *commit_group* commits.

    An interrupt (Ctrl-C, a signal whose handler raises) may come anywhere in the leading thread.
    The next call of the queue then finishes the interrupted work. So `_step_down` may be called
    twice for a ticket, or again after it stopped halfway.

    Args:
        commit_group: Does the work of the tickets, and settles every one.
    """

    def __init__(self, commit_group: Callable[[list[CommitTicket]], None]) -> None:
        self.commit_group = commit_group
        self._mutex = HandleLock(reentrant=True)  # reentrant: so the lock knows its thread
        self._waiting: deque[CommitTicket] = deque()
        self._leading: dict[None, CommitTicket] = {}  # a dict: `setdefault` needs no lock
        self._last_size = 1
        self._planning_thread = 0

    def do(self, ticket: CommitTicket) -> Any:  # noqa: ANN401 - the answer to the work
        """Return the answer to a ticket's work once the work is durable.

        If the work raises an `AlveusError`, only that work is undone. Any other error undoes the
        whole group.

        A planner may call this method too, as it calls a user's embedder, which may write to the
        store. Then work without a planner is done at once, and a ticket with a planner is
        answered with None.

        Raises:
            AlveusError: The error that refused the work.
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
        """Make the next thread lead, even if a second interrupt comes meanwhile."""
        for left in (1, 0):
            try:
                self._step_down(ticket)
            except BaseException:
                if not left:
                    raise
            else:
                return

    def _await_turn(self, ticket: CommitTicket) -> None:
        """Wait until the ticket is the leader, or is settled."""
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
        """Make the next thread lead if the leader stopped without naming a next leader."""
        leader = self._leading.get(None)
        if leader is not None and leader.stopped is not None:
            self._step_down(leader)

    def _lead(self, ticket: CommitTicket) -> None:
        if self._last_size == 1 and ticket.ready is None and not self._waiting:
            group = [ticket]
        else:
            group = self._gathered(ticket)
            self._last_size = len(group)
        planned = self._planned(group)  # if interrupted here, the next leader does the others' work
        ticket.group = group
        try:
            for one, batch in planned:
                if batch is None:
                    one.settle(None)
                else:
                    one.batches = (batch,)
            work = [one for one in group if not one.settled] if planned else group
            if work:
                self.commit_group(work)
        except AlveusError as error:
            _settle(group, error)

    def _planned(self, group: Sequence[CommitTicket]) -> list[tuple[CommitTicket, Batch | None]]:
        """Return each ticket that has a planner, with the batch or None that the planner makes."""
        together: dict[JointAdds, list[CommitTicket]] = {}
        for one in group:
            if one.planner is not None:
                together.setdefault(one.planner, []).append(one)
        planned: list[tuple[CommitTicket, Batch | None]] = []
        if not together:
            return planned
        self._planning_thread = threading.get_ident()
        try:
            for planner, tickets in together.items():
                batches = planner.batches([each.work for each in tickets])
                planned += zip(tickets, batches, strict=True)
            return planned
        finally:
            self._planning_thread = 0

    def _gathered(self, ticket: CommitTicket) -> list[CommitTicket]:
        """Return the tickets that *ticket*, the leader, commits: itself and all waiting ones.

        A group has at most `MOST` tickets.
        """
        group = [ticket] if ticket.ready is None else []
        if len(group) + len(self._waiting) < self._last_size:
            time.sleep(0)  # lets answered threads run, and perhaps bring more work
        if self._waiting:
            with self._mutex:
                group += islice(self._waiting, MOST - len(group))
        return group

    def _step_down(self, ticket: CommitTicket) -> None:
        """Wake all threads of the ticket's group, and make the next waiting thread the leader.

        A ticket that only waits is removed from the queue. A second call does no harm.
        """
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
                ticket.group = []  # breaks a cycle: the group contains the ticket itself
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
"""Errors of an add that may not occur again if its thread repeats the add, or waits."""


class JointAdd(Protocol):
    """An add that another thread may record and commit."""

    @property
    def pairs(self) -> Sequence[tuple[str, Item]]:
        """The items as (id, item)."""
        ...

    @property
    def zone(self) -> Zone:
        """The time zone of those items that have no time."""
        ...

    def batch_of(self, records: Sequence[ItemRecord], *, time: int, corroborated: int) -> Batch:
        """Return the batch that adds *records*. *time* and *corroborated* are those of `Batch`."""
        ...


class JointAdds:
    """The adds of one open memory, whose batches are made in the thread that commits them.

    The adds wait in the queue of the store. If the store has no queue, they wait in a queue of
    this object.
    """

    def __init__(self, store: Store, recorder: RecordMaker, clock: DisciplinedClock) -> None:
        self._store, self._recorder, self._clock = store, recorder, clock
        self._generation = FORKS.generation
        self._queue = CommitQueue(self._commit_group)
        self._pass_on = store.commit_planned if isinstance(store, Queued) else self._queue_here

    def commit(self, add: JointAdd) -> Commit | None:
        """Commit *add* together with the adds of other threads, and return its commit.

        Returns None if nothing was added. The caller must then add the items alone, which succeeds
        or raises the error.

        Raises:
            AlveusError: The commit failed: the disk is full, or the store is unreachable or closed.
        """
        if FORKS.is_inherited(self._generation):  # a leader's thread does not run in the child
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
        """Return the batch of each add, or None for an add that fails alone too."""
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
        except Exception:  # noqa: BLE001 - each add is tried alone; if it fails, its caller raises
            if len(adds) == 1:
                return [None]
            return [one for add in adds for one in self.batches([add])]
