"""The scheduler of a runner: its lanes, the ready lanes among them, and its workers.

A lane is the queue of one agent and key. A worker is a thread that takes ready lanes one after the
other; `alveus.runs.runner.task_executor` does their tasks. One worker is enough while actions are
quick. Before an action that is slow, or of unknown speed, a worker calls another one.

Ctrl-C may interrupt a worker in the main thread anywhere. So each change here may be made twice,
and a lane is added to its new collection before it leaves the old one: `TaskExecutor.once` repeats
the interrupted step as the shift ends.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import field
from enum import Enum
from itertools import count
from math import inf
from typing import cast

from alveus.runs.agent import OnFailed
from alveus.runs.run import Finished, LiveRun
from alveus.sets.writer import Engine
from alveus.state.committed_tree import LeasedTree
from alveus.store import Run, Store
from alveus.store.ledger import Outcome
from alveus.store.scope import Lease, Scope
from alveus.values.forks import Flag, HandleLock, began
from alveus.values.lazy_dataclass import dataclass


def owner_name(engine: Engine) -> str:
    """Return a name for a runner as the owner of leases, unique among open runners."""
    try:
        return engine.owners.pop()
    except IndexError:
        return f"{os.getpid()}-{uuid.uuid4().hex}"


class LaneState(Enum):
    """The state of a lane. It changes only under the lock of the scheduler."""

    IDLE = "nothing to do, or nothing known"
    READY = "waits for a worker"
    TAKEN = "a worker does its task"
    AWAY = "an async action is under way"
    LATER = "waits for its next try"
    BLOCKED = "another process has its lease"
    PARKED = "its next run is parked"


@dataclass(slots=True, eq=False)
class Shift:
    """One period of work of a thread, which ends with a commit of its group.

    Attributes:
        lanes: The lanes that the shift took.
        group: The lanes with a finished task that is not committed yet.
        since: When the current action began, by `time.perf_counter`; infinite between actions.
        slow: Whether the thread is held up, so that other workers take the ready lanes.
        cut_short: Whether Ctrl-C came, so that the event loop takes no lane from the shift.
    """

    lanes: list[LiveLane] = field(default_factory=list["LiveLane"])
    group: deque[LiveLane] = field(default_factory=deque["LiveLane"])
    since: float = inf
    slow: bool = False
    cut_short: bool = False


TURN_S = (1.0, 8.0)
"""Shortest and longest time, in seconds, that a process keeps a key whose queue is never empty.
Then a commit releases the lease: other processes, which poll every `watcher.POLL_S`, may wait for
the key."""

REST_S = 0.12
"""Seconds for which a process leaves a released key to others: twice their longest poll."""

PAGE = 100
"""The largest number of waiting runs in one read."""


@dataclass(slots=True, eq=False)
class LiveLane:
    """The queue of one agent and key, as this process knows it.

    Attributes:
        lease: The right to run the key, or None while this process does not have it.
        returned: The epoch of the last lease that was released, or will be by a commit in progress.
        shift: The shift that took the lane last. None if the watch took the lane over from a worker
            that is held up, to commit its finished task.
        news: The number of inputs for the key that this process accepted.
        idle_since: The time, by the monotonic clock, when the lane last ran out of work, or got an
            input behind a parked run.
        waiting: The next runs, as far as they are known, in order.
        known_up_to: `waiting` has every waiting run up to this number; None if this is unknown.
        complete: Whether `waiting` has all waiting runs that this process knows of.
        run: The current run.
        pending: The finished work that is not committed yet.
        conflicts: How often the task was repeated because another writer changed items it used.
        hindered: How often in a row the store could not serve the lane.
        stuck: The parked run that later runs wait behind.
        failure: The error of the async action that ended last, until a worker handles it.
        tree: The cached state of the key's tree, which is valid under the lease.
        gave_way: The epoch of the last lease that was released although runs were waiting.
    """

    scope: Scope
    state: LaneState = LaneState.IDLE
    lease: Lease | None = None
    returned: int = 0
    shift: Shift | None = None
    news: int = 0
    idle_since: float = 0.0
    waiting: deque[Run] = field(default_factory=deque[Run])
    known_up_to: int | None = None
    complete: bool = True
    run: LiveRun | None = None
    pending: Finished | None = None
    conflicts: int = 0
    hindered: int = 0
    stuck: Run | None = None
    failure: BaseException | None = None
    tree: LeasedTree | None = None
    gave_way: int = 0
    _turn: tuple[int, float, float] = (0, 0.0, 0.0)

    def add(self, row: Run, *, first: bool) -> bool:
        """Add a run that was just accepted. The caller holds the lock of the scheduler.

        Return False if the lane had read the run from the store before; it may be done by now.

        Args:
            first: Whether no earlier run of the key waits or is parked.
        """
        self.news += 1
        if self.known_up_to is not None and row.number <= self.known_up_to:
            return False
        if self.stuck is not None:
            self.idle_since = time.monotonic()
            return True  # read from the store with the others, when no parked run is in front
        if first or (self.known_up_to is not None and row.number == self.known_up_to + 1):
            self.waiting.append(row)
            self.known_up_to = row.number
        else:
            self.complete = False
        return True

    def lend(self, lease: Lease | None) -> None:
        """Keep *lease* for the lane, unless it is None or was released already."""
        if lease is not None and lease.epoch > self.returned:
            self.lease = lease

    def gives_way(self, epoch: int) -> bool:
        """Return whether the lease with this epoch was held so long that it must be released.

        If no other process took the lease the last time, this process holds it twice as long.
        """
        now, (shortest, longest) = time.monotonic(), TURN_S
        turn_epoch, began, length = self._turn
        if epoch != turn_epoch:
            nobody_came = epoch == self.gave_way + 1
            length = max(shortest, min(2 * length, longest)) if nobody_came else shortest
            self._turn = epoch, now, length
            return False
        if now - began < length:
            return False
        self.gave_way = epoch
        return True

    @property
    def rests(self) -> bool:
        """Whether this process has released the key for a moment, for other processes."""
        return self.state is LaneState.LATER and self.gave_way == self.returned != 0

    def lose(self) -> None:
        """Drop the lease and everything that depended on it."""
        self.lease, self.run, self.pending, self.failure = None, None, None, None
        self.refresh()

    def drop_run(self, outcome: Outcome) -> None:
        """Drop the current run, which has ended or is continued later."""
        run, self.run = self.run, None
        if run is not None:
            run.observer.end(outcome)

    def refresh(self) -> None:
        """Forget the waiting runs, so that they are read again.

        The caller holds the lock of the scheduler.
        """
        self.known_up_to, self.complete, self.stuck, self.tree = None, False, None, None
        self.waiting.clear()

    def load(self, store: Store, agent: str, on_failed: OnFailed, lock: HandleLock) -> None:
        """Read the waiting runs, and the parked run in front of them (`stuck`) if there is one."""
        news, past_parked = self.news, on_failed == "next"
        rows = store.queued_runs(agent, self.scope, past_parked=past_parked, limit=PAGE)
        with lock:
            if self.news != news:
                self.known_up_to = None  # *rows* may lack inputs that were accepted meanwhile
            self.stuck = None
            self.waiting.clear()
            for row in rows:
                if row.status == "parked":
                    self.stuck = row
                    break
                self.waiting.append(row)
            if rows:
                self.known_up_to = rows[-1].number
            all_read = len(rows) < PAGE and self.news == news
            self.complete = all_read or self.stuck is not None


LANES = 1000
"""Idle or parked lanes are dropped if there are more lanes, or more parked lanes, than this."""

IDLE_S = 5.0
"""Seconds that an idle lane is kept at least, because an input that the store has just accepted may
be about to be added."""

HELD_S = 0.02
"""Seconds after which an action that was expected to be quick counts as slow."""


class Scheduler:
    """Holds the lanes of a runner, and starts its workers. Any thread may call any method.

    Args:
        name: The name of the agent, for the names of the threads.
        work: Does tasks of ready lanes. Workers call it again and again.
        concurrency: The largest number of workers, and of async actions in progress.
        stir: The flag that wakes the watch, the thread that helps if workers are held up.

    Attributes:
        lock: Guards the state of the lanes and of the scheduler.
        stopping: A flag that is set when no new task may begin.
        unwatched: Whether the watch rests, and does not call `look_after`.
    """

    def __init__(
        self, name: str, work: Callable[[], None], *, concurrency: int, stir: Flag
    ) -> None:
        self.concurrency = concurrency
        self.unwatched = False
        self._stir = stir
        self.lock = HandleLock()
        self.lanes: dict[Scope, LiveLane] = {}
        self.stopping = Flag()
        self._name, self._do = name, work
        self._work = threading.Condition(cast("threading.Lock", self.lock))
        self._ready: OrderedDict[LiveLane, None] = OrderedDict()
        self._later: list[tuple[float, int, LiveLane]] = []
        self._numbers = count()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._shifts: set[Shift] = set()
        self._quick: set[Shift] = set()
        self._taken: set[LiveLane] = set()
        self._away: set[LiveLane] = set()
        self._queued_away: deque[LiveLane] = deque()

    # --- ready lanes --------------------------------------------------------------------------

    def make_ready(self, lane: LiveLane, *, call: bool = True) -> None:
        """Mark a lane as ready. The caller holds the lock.

        Args:
            call: Whether to call a worker if none is about to take lanes. Pass False if the calling
                thread will do the task.
        """
        self._ready[lane] = None
        lane.state = LaneState.READY
        if not call:
            return
        if not self._quick:
            self._call_worker()
        elif self.unwatched:
            self.attend()

    def attend(self) -> None:
        """Wake the watch if it rests."""
        if self.unwatched:
            self.unwatched = False
            self._stir.set()

    def _call_worker(self) -> None:
        """Wake an idle worker, or start a worker. The caller holds the lock."""
        if self._idle:
            self._work.notify()
        elif len(self._threads) < self.concurrency and not self.stopping.is_set():
            name = f"alveus-{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            if began(thread):  # otherwise the watch calls a worker later
                self._threads.append(thread)

    def look_after(self) -> tuple[float | None, list[LiveLane]]:
        """Make the lanes ready whose next try is due, and replace workers that are held up.

        To be called periodically. Return the seconds until the next try is due, or None if no lane
        waits for a try; and the lanes whose finished tasks the caller must commit, because their
        workers are held up.
        """
        with self.lock:
            now = time.monotonic()
            while self._later and self._later[0][0] <= now:
                lane = heapq.heappop(self._later)[2]
                if lane.state is LaneState.LATER:
                    self.make_ready(lane)
            taken_over = [lane for shift in self._shifts for lane in self._held_up(shift)]
            if self._ready and not self._quick:
                self._call_worker()
            if len(self.lanes) > LANES:
                for lane in [v for v in self.lanes.values() if v.state is LaneState.IDLE]:
                    self._forget(lane, now)
            return (self._later[0][0] - now if self._later else None), taken_over

    def _held_up(self, shift: Shift) -> list[LiveLane]:
        """Return the group of a shift that is found to be held up, and mark the shift as slow.

        Return an empty list if the shift is not held up, or was marked before. The caller holds the
        lock.
        """
        if shift.slow or time.perf_counter() - shift.since < HELD_S:
            return []
        shift.slow = True
        self._quick.discard(shift)
        taken_over = drained(shift.group)
        for lane in taken_over:
            lane.shift = None
        return taken_over

    def forget_parked(self, *, but: Container[str | None]) -> None:
        """If many lanes have a parked run next, drop them, except the lanes of the keys in *but*.

        When the parked run is retried or discarded, the store reports the waiting runs again.
        """
        with self.lock:
            parked = [v for v in self.lanes.values() if v.state is LaneState.PARKED]
            now = time.monotonic()
            for lane in parked if len(parked) > LANES else ():
                if lane.scope.key not in but:
                    self._forget(lane, now)

    def _forget(self, lane: LiveLane, now: float) -> None:
        if lane.lease is None and lane.idle_since < now - IDLE_S:
            del self.lanes[lane.scope]

    @property
    def quiet(self) -> bool:
        """Whether no lane is ready, has a task in progress, or waits for its next try."""
        if self._ready or self._taken or self._away or self._queued_away:
            return False
        return not any(lane.state is LaneState.LATER for _, _, lane in self._later)

    # --- workers ------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            with self.lock:
                while not self._ready or self._quick or self._is_full:
                    if self.stopping.is_set():
                        return
                    self._idle += 1
                    self._work.wait()
                    self._idle -= 1
            if self.stopping.is_set():
                return
            self._do()

    def nudge(self) -> None:
        """Call a worker if lanes are ready, because the calling thread will not do their tasks."""
        with self.lock:
            if self._ready and not self._quick:
                self._call_worker()

    @property
    def _is_full(self) -> bool:
        """Whether the limit of workers is reached."""
        return len(self._shifts) >= self.concurrency

    def enter(self, shift: Shift, only: LiveLane | None = None) -> bool:
        """Begin a shift, and take the lane *only* if it is not None.

        Return False, and begin nothing, if the limit of workers is reached, if no new task may
        begin, or if *only* is not ready.
        """
        with self.lock:
            if self._is_full or self.stopping.is_set():
                return False
            if only is not None:
                if only.state is not LaneState.READY:
                    return False
                self._hold(only, shift)
            self._shifts.add(shift)
            self._quick.add(shift)
            return True

    def exit(self, shift: Shift) -> None:
        """End a shift. A second call changes nothing."""
        with self.lock:
            self._quick.discard(shift)
            self._shifts.discard(shift)

    def cut_short(self, shift: Shift) -> list[LiveLane]:
        """End a shift that Ctrl-C interrupted. Return the lanes that the shift still has."""
        self.exit(shift)
        with self.lock:
            shift.cut_short = True
            return [
                lane
                for lane in shift.lanes
                if lane.state is LaneState.TAKEN and lane.shift is shift
            ]

    def take(self, shift: Shift) -> LiveLane | None:
        """Take the lane that became ready first, and return it; return None if none is ready."""
        with self.lock:
            if not self._ready:
                return None
            lane = next(iter(self._ready))
            self._hold(lane, shift)
            return lane

    def _hold(self, lane: LiveLane, shift: Shift) -> None:
        shift.lanes.append(lane)
        lane.shift, lane.state = shift, LaneState.TAKEN
        self._taken.add(lane)
        self._ready.pop(lane, None)

    def begin_slow(self, shift: Shift) -> None:
        """Record that the calling worker is held up. If lanes are ready, call another worker."""
        with self.lock:
            shift.slow = True
            self._quick.discard(shift)
            if self._ready:
                self._call_worker()

    def end_slow(self, shift: Shift) -> None:
        """Record that the calling worker is no longer held up."""
        with self.lock:
            self._quick.add(shift)
            shift.slow = False

    # --- lanes that workers hand back ---------------------------------------------------------

    def leave(self, lane: LiveLane, state: LaneState) -> None:
        """Take back a lane from its worker, and give it a state."""
        with self.lock:
            self._taken.discard(lane)
            if state is LaneState.READY:
                self.make_ready(lane)
            else:
                lane.state = state

    def leave_ready(self, lanes: Sequence[LiveLane]) -> None:
        """Take back lanes that have more to do, and make them ready."""
        with self.lock:
            for lane in lanes:
                self._taken.discard(lane)
                self.make_ready(lane)

    def put_down(self, lane: LiveLane) -> None:
        """Take back a lane whose lease was released; make it ready if new inputs came meanwhile."""
        with self.lock:
            self._taken.discard(lane)
            if lane.lease is not None and lane.lease.epoch <= lane.returned:
                lane.lease = None
            lane.idle_since = time.monotonic()
            if lane.stuck is not None:
                lane.state = LaneState.PARKED
            elif lane.waiting or not lane.complete:
                self.make_ready(lane)
            else:
                lane.state = LaneState.IDLE

    def rest(self, lane: LiveLane) -> None:
        """Take back a lane with waiting runs that released its lease for other processes.

        The lane is ready again after `REST_S`.
        """
        with self.lock:
            if lane.lease is not None and lane.lease.epoch <= lane.returned:
                lane.lease = None
        self.put_off(lane, REST_S)

    def put_off(self, lane: LiveLane, pause_s: float) -> None:
        """Take a lane back, and make it ready after *pause_s* seconds."""
        due = time.monotonic() + pause_s
        with self.lock:
            heapq.heappush(self._later, (due, next(self._numbers), lane))
            lane.state = LaneState.LATER
            self._taken.discard(lane)

    def send_away(self, lane: LiveLane, shift: Shift) -> bool:
        """Hand a lane whose next action is async from its shift to the event loop.

        Called in the thread of the event loop. Return True if the action may run now. Return False
        if the limit of async actions is reached, so that the lane waits until `come_back` returns
        it, or if the shift no longer has the lane.
        """
        with self.lock:
            if lane.state is not LaneState.TAKEN or lane.shift is not shift or shift.cut_short:
                return False
            self._taken.discard(lane)
            lane.state = LaneState.AWAY
            if len(self._away) >= self.concurrency:
                self._queued_away.append(lane)
                return False
            self._away.add(lane)
            return True

    def come_back(self, lane: LiveLane, *, abandoned: bool) -> LiveLane | None:
        """Record that the async action of a lane ended, and make the lane ready.

        Return the next lane whose async action may run now, or None if none waits.

        Args:
            abandoned: Whether the action was cancelled; the lane is then not made ready.
        """
        with self.lock:
            self._away.discard(lane)
            if abandoned:
                lane.state = LaneState.IDLE
            else:
                self.make_ready(lane)
            if self.stopping.is_set() or not self._queued_away:
                return None
            following = self._queued_away.popleft()
            self._away.add(following)
            return following

    # --- the end ------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let no new task begin."""
        self.stopping.set()
        with self.lock:
            self._work.notify_all()

    def join(self, wait_s: float) -> bool:
        """Wait up to *wait_s* seconds for tasks and workers to end; return whether all ended."""
        deadline = time.monotonic() + wait_s
        while (self._taken or self._away) and time.monotonic() < deadline:
            time.sleep(0.005)
        with self.lock:
            threads = list(self._threads)
        others = [thread for thread in threads if thread is not threading.current_thread()]
        for thread in others:
            left_s = max(0.0, deadline - time.monotonic())
            thread.join(min(left_s, threading.TIMEOUT_MAX))
        return not (self._taken or self._away or any(thread.is_alive() for thread in others))

    def leases(self) -> list[Lease]:
        """Return the leases that the lanes of this runner have."""
        with self.lock:
            return [lane.lease for lane in self.lanes.values() if lane.lease is not None]


def drained(group: deque[LiveLane]) -> list[LiveLane]:
    """Remove all lanes from *group*, and return them; two threads may call this concurrently."""
    lanes: list[LiveLane] = []
    with suppress(IndexError):
        while True:
            lanes.append(group.popleft())
    return lanes
