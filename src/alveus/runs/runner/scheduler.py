"""The scheduler of a runner: its lanes, those that are ready, and the workers that take them.

A worker takes ready lanes one after the other; what it does with them is
`alveus.runs.runner.task_executor`. One worker is enough while actions are quick. Before an action
that is slow, or whose speed is not known yet, it calls another.

Ctrl-C may come anywhere in a worker that is the main thread. So whatever is noted here may be noted
twice, and a lane is noted where it goes to before it is where it comes from: what a step left half
done is done once more as the shift ends (`TaskExecutor.once`).
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
from typing import Literal, TypeAlias, cast

from alveus.runs.agent import OnFailed
from alveus.runs.run import Finished, LiveRun
from alveus.sets.writer import Engine
from alveus.state.committed_tree import LeasedTree
from alveus.store import Ledger, Run, Store
from alveus.store.ledger import Outcome
from alveus.store.scope import Lease, Scope
from alveus.values.forks import Flag, HandleLock, began
from alveus.values.lazy_dataclass import dataclass


def owner_name(engine: Engine) -> str:
    """Return a name to hold leases under, which no other runner that is open has."""
    try:
        return engine.owners.pop()
    except IndexError:
        return f"{os.getpid()}-{uuid.uuid4().hex}"


class LaneState(Enum):
    """What a lane does. It is changed under the lock of the scheduler only."""

    IDLE = "nothing to do, or nothing known"
    READY = "waits for a worker"
    TAKEN = "a worker is at it"
    AWAY = "an async action is under way"
    LATER = "waits for its next try"
    BLOCKED = "somebody else has its lease"
    PARKED = "its next run is parked"


Kind: TypeAlias = Literal["step", "parked", "over"]


@dataclass(slots=True)
class PendingCommit:
    """What a worker did for a lane, and has to commit.

    Attributes:
        kind: A task is done; a run is parked; a run without tasks is over.
    """

    lane: LiveLane
    kind: Kind
    finished: Finished


@dataclass(slots=True, eq=False)
class Shift:
    """What one thread does from beginning to work to ending it.

    Attributes:
        lanes: Those that were taken in it.
        group: Tasks that are done, and still to be committed.
        since: When the action at hand was begun, by `time.perf_counter`.
        slow: It is held up: others do not wait for it to come for what is ready.
        cut_short: A Ctrl-C came: the loop takes no lane from it any more.
    """

    lanes: list[LiveLane] = field(default_factory=list["LiveLane"])
    group: deque[PendingCommit] = field(default_factory=deque[PendingCommit])
    since: float = inf
    slow: bool = False
    cut_short: bool = False


TURN_S = (1.0, 8.0)
"""How long a key is kept at least and at most while its queue is never empty. Then its lease is
given back with a commit: others, who look every `watch.POLL_S`, may be waiting for the key."""

REST_S = 0.12
"""How long whoever gave way leaves the key alone: twice the longest pause of those who wait."""

PAGE = 100
"""Waiting runs that are read at once."""


@dataclass(slots=True, eq=False)
class LiveLane:
    """The queue of one key.

    Attributes:
        lease: The right to run the key, while this process has it.
        returned: The epoch of the last lease that was given back, or is with a commit under way.
        shift: That in which it was taken last; None: the watch has what was done of it.
        news: Counts the inputs that were accepted here.
        idle_since: When it last had nothing to do, or was given something to do behind a parked
            run; by the monotonic clock.
        waiting: The next runs, as far as they are known, in order.
        known_up_to: Up to this number, every run that waits is in `waiting`; None: not known.
        complete: No run is known to wait but those in `waiting`.
        pending: What was done and is still to be committed.
        conflicts: How often the task was begun again since an item it read had moved on.
        hindered: How often the store could not serve it in a row.
        stuck: The parked run that the others wait behind.
        failure: What an async action raised, until it is decided what becomes of it.
        tree: What is known of the key's tree under the lease.
        gave_way: The epoch of the last lease that was given back though there was more to do.
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
    pending: PendingCommit | None = None
    conflicts: int = 0
    hindered: int = 0
    stuck: Run | None = None
    failure: BaseException | None = None
    tree: LeasedTree | None = None
    gave_way: int = 0
    _turn: tuple[int, float, float] = (0, 0.0, 0.0)

    def add(self, row: Run, *, first: bool) -> bool:
        """Note a run that was just accepted; *first*: no earlier one waits or is parked.

        Returns False if somebody has taken notice of it before, and may be done with it by now.
        The lock of the scheduler is held.
        """
        self.news += 1
        if self.known_up_to is not None and row.number <= self.known_up_to:
            return False
        if self.stuck is not None:
            self.idle_since = time.monotonic()
            return True  # read again with the others, once the parked one is out of the way
        if first or (self.known_up_to is not None and row.number == self.known_up_to + 1):
            self.waiting.append(row)
            self.known_up_to = row.number
        else:
            self.complete = False
        return True

    def lend(self, lease: Lease | None) -> None:
        """Note a lease, unless it is one that was given back."""
        if lease is not None and lease.epoch > self.returned:
            self.lease = lease

    def gives_way(self, epoch: int) -> bool:
        """Return whether the lease of this epoch was had so long that it is given back.

        If nobody came the last time, the next turn is twice as long.
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
        """Whether the key is left to others for a moment."""
        return self.state is LaneState.LATER and self.gave_way == self.returned != 0

    def leased_tree(
        self, ledger: Ledger, epoch: int, make: Callable[[Ledger, Scope, int], LeasedTree]
    ) -> LeasedTree:
        """Return the tree of the key, with what is known of it under this lease."""
        if self.tree is None or self.tree.epoch != epoch:
            self.tree = make(ledger, self.scope, epoch)
        return self.tree

    def lose(self) -> None:
        """Forget everything that depended on the lease."""
        self.lease, self.run, self.pending, self.failure = None, None, None, None
        self.refresh()

    def drop_run(self, outcome: Outcome) -> None:
        """Have no run at hand: it ended, or somebody takes it up again later."""
        run, self.run = self.run, None
        if run is not None:
            run.observer.end(outcome)

    def refresh(self) -> None:
        """Have the runs that wait read again; the lock of the scheduler is held."""
        self.known_up_to, self.complete, self.stuck, self.tree = None, False, None, None
        self.waiting.clear()

    def load(self, store: Store, agent: str, on_failed: OnFailed, lock: HandleLock) -> None:
        """Read which runs wait; `stuck` is the parked one that is in their way, if one is."""
        news, past_parked = self.news, on_failed == "next"
        rows = store.queued_runs(agent, self.scope, past_parked=past_parked, limit=PAGE)
        with lock:
            if self.news != news:
                self.known_up_to = None  # what was accepted meanwhile may be among the rows, or not
            self._take_in(rows)
            all_read = len(rows) < PAGE and self.news == news
            self.complete = all_read or self.stuck is not None

    def _take_in(self, rows: Sequence[Run]) -> None:
        self.stuck = None
        self.waiting.clear()
        for row in rows:
            if row.status == "parked":
                self.stuck = row
                break
            self.waiting.append(row)
        if rows:
            self.known_up_to = rows[-1].number


LANES = 1000
"""Lanes that are kept in mind though they have nothing to do; and that are parked."""

IDLE_S = 5.0
"""How long a lane is kept at least: the answer to an input may still be on its way to it."""

HELD_S = 0.02
"""An action that was to be quick, and takes longer, holds its worker up."""


class Scheduler:
    """Lanes and workers. Every method may be called from any thread.

    Args:
        work: What a worker does: something that is ready.
        stir: Set when somebody should look after workers that may be held up.

    Attributes:
        lock: Guards the state of lanes, and everything here.
        stopping: Set when no new task is to be begun.
        unwatched: Nobody calls `look_after` for a while.
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

    # --- lanes get ready ----------------------------------------------------------------------

    def make_ready(self, lane: LiveLane, *, call: bool = True) -> None:
        """Have somebody work on a lane; the lock is held.

        Args:
            call: Call a worker if none is about to look; else the caller works itself.
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
        """Have the watch look now and then from now on, if it rests."""
        if self.unwatched:
            self.unwatched = False
            self._stir.set()

    def _call_worker(self) -> None:
        """Wake a worker, or hire one; the lock is held."""
        if self._idle:
            self._work.notify()
        elif len(self._threads) < self.concurrency and not self.stopping.is_set():
            name = f"alveus-{self._name}-{len(self._threads)}"
            thread = threading.Thread(target=self._serve, name=name, daemon=True)
            if began(thread):  # else the watch calls one again
                self._threads.append(thread)

    def look_after(self) -> tuple[float | None, list[PendingCommit]]:
        """Make lanes ready whose time has come; help where a worker is held up.

        To be called now and then. Returns how long until the next lane's time, and what those who
        are held up have done, for the caller to commit.
        """
        with self.lock:
            now = time.monotonic()
            while self._later and self._later[0][0] <= now:
                lane = heapq.heappop(self._later)[2]
                if lane.state is LaneState.LATER:
                    self.make_ready(lane)
            taken_over = [pending for shift in self._shifts for pending in self._held_up(shift)]
            if self._ready and not self._quick:
                self._call_worker()
            if len(self.lanes) > LANES:
                self._forget_idle(now)
            return (self._later[0][0] - now if self._later else None), taken_over

    def _held_up(self, shift: Shift) -> list[PendingCommit]:
        """Note a thread that is held up, and take over what it has done; the lock is held."""
        if shift.slow or time.perf_counter() - shift.since < HELD_S:
            return []
        shift.slow = True
        self._quick.discard(shift)
        taken_over = drained(shift.group)
        for pending in taken_over:
            pending.lane.shift = None
        return taken_over

    def _forget_idle(self, now: float) -> None:
        """Drop lanes that have long had nothing to do; the lock is held."""
        for lane in list(self.lanes.values()):
            if lane.state is LaneState.IDLE:
                self._forget(lane, now)

    def forget_parked(self, *, but: Container[str | None]) -> None:
        """Drop lanes whose next run is parked, if they are many; but not of some keys.

        Where runs that wait are pulled from the store, it tells of them again once somebody has
        retried or discarded the parked one.
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
        """Whether nothing is ready, at work, or waiting for its next try."""
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
        """Have a worker come for what is ready, now that the calling thread turns away."""
        with self.lock:
            if self._ready and not self._quick:
                self._call_worker()

    @property
    def _is_full(self) -> bool:
        """Whether there is no room for one more to work."""
        return len(self._shifts) >= self.concurrency

    def enter(self, shift: Shift) -> bool:
        """Begin to work, if there is room for one more."""
        with self.lock:
            return self._enter(shift)

    def _enter(self, shift: Shift) -> bool:
        if self._is_full or self.stopping.is_set():
            return False
        self._shifts.add(shift)
        self._quick.add(shift)
        return True

    def exit(self, shift: Shift) -> None:
        """End to work; twice is fine."""
        with self.lock:
            self._quick.discard(shift)
            self._shifts.discard(shift)

    def cut_short(self, shift: Shift) -> list[LiveLane]:
        """End to work where a Ctrl-C came, as `exit` does; return the lanes that are in hand."""
        self.exit(shift)
        with self.lock:
            shift.cut_short = True
            return [
                lane
                for lane in shift.lanes
                if lane.state is LaneState.TAKEN and lane.shift is shift
            ]

    def take(self, shift: Shift) -> LiveLane | None:
        """Take the lane that was ready first; None: there is none."""
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
        """Call another worker if lanes are ready: the calling one is held up from now on."""
        with self.lock:
            shift.slow = True
            self._quick.discard(shift)
            if self._ready:
                self._call_worker()

    def end_slow(self, shift: Shift) -> None:
        """Be back from what held the calling worker up."""
        with self.lock:
            self._quick.add(shift)
            shift.slow = False

    # --- taking lanes, and putting them down --------------------------------------------------

    def claim(self, lane: LiveLane, shift: Shift) -> bool:
        """Take one lane, and begin to work, if it is ready and there is room for one more."""
        with self.lock:
            if lane.state is not LaneState.READY or not self._enter(shift):
                return False
            self._hold(lane, shift)
            return True

    def leave(self, lane: LiveLane, state: LaneState) -> None:
        """Put a lane down that was taken."""
        with self.lock:
            self._taken.discard(lane)
            if state is LaneState.READY:
                self.make_ready(lane)
            else:
                lane.state = state

    def leave_ready(self, lanes: Sequence[LiveLane]) -> None:
        """Put lanes down that have more to do."""
        with self.lock:
            for lane in lanes:
                self._taken.discard(lane)
                self.make_ready(lane)

    def put_down(self, lane: LiveLane) -> None:
        """Put a lane down whose lease was given back, unless it has more to do by now."""
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
        """Put a lane down whose lease was given back for others to have it, though it has more."""
        with self.lock:
            if lane.lease is not None and lane.lease.epoch <= lane.returned:
                lane.lease = None
        self.put_off(lane, REST_S)

    def put_off(self, lane: LiveLane, pause_s: float) -> None:
        """Put a lane down, to be ready again after *pause_s*."""
        due = time.monotonic() + pause_s
        with self.lock:
            heapq.heappush(self._later, (due, next(self._numbers), lane))
            lane.state = LaneState.LATER
            self._taken.discard(lane)

    def send_away(self, lane: LiveLane, shift: Shift) -> bool:
        """Put a lane down whose next action is async; return whether there is room for it now.

        Called in the thread of the loop: it has the lane from here on, if nobody put it down.
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
        """Have a lane gone on with; return another one for which there is room by that."""
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
        """Begin no more tasks."""
        self.stopping.set()
        with self.lock:
            self._work.notify_all()

    def join(self, wait_s: float) -> bool:
        """Wait for the tasks at work, up to *wait_s*; return whether all of them ended."""
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
        """Return the leases that this process has, by what it knows."""
        with self.lock:
            return [lane.lease for lane in self.lanes.values() if lane.lease is not None]


def drained(group: deque[PendingCommit]) -> list[PendingCommit]:
    """Return what is in *group*, and take it out; two threads may do so at once."""
    pending: list[PendingCommit] = []
    with suppress(IndexError):
        while True:
            pending.append(group.popleft())
    return pending
