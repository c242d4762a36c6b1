"""The watch: a thread of a runner that polls for work that no worker notices.

It polls for lanes whose next try is due, for keys that other processes release, for runs that were
retried or discarded elsewhere, for workers that are held up, for ended runs to prune, and, while
the runner serves, for new inputs in the inbox.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence
from typing import TypeVar

from alveus.errors import StoreClosed, Unavailable
from alveus.runs.runner.scheduler import LaneState, LiveLane
from alveus.runs.runner.task_executor import TaskExecutor
from alveus.runs.runner.tickets import TicketRegistry
from alveus.runs.task import RunnerSetup
from alveus.store import Retain, RunStatus
from alveus.store.scope import Scope
from alveus.values.forks import NO_THREAD, Flag, began

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

POLL_S = (0.002, 0.05)
"""Shortest and longest wait, in seconds, between two polls of the work of other processes."""

REST_S = 5.0
"""Longest wait, in seconds, while there is nothing to poll for."""

LOOKED_AT = 1_000
"""The largest number of parked lanes, and of tickets, whose runs one poll reads. If there are more,
they take turns."""

TRIED = 100
"""The largest number of leases that one poll tries to take, each in a transaction. If more lanes
wait for a lease, they take turns."""

PRUNE_EVERY_S = 60.0

FORGOTTEN_S = 10.0
"""Seconds that tasks have to end after their runner was garbage-collected."""


def forget(watch: Watcher, name: str) -> None:
    """Let the threads of a garbage-collected runner end, and warn that it was not closed.

    The garbage collector calls this function anywhere, with any lock held. So the function only
    sets a flag of the watch, which ends the threads at its next poll.
    """
    watch.forgotten = True
    warnings.warn(
        f"{name} was never closed; use it in a with block, or call its close()",
        ResourceWarning,
        stacklevel=2,
    )


class Watcher:
    """A thread that polls for waiting work.

    Attributes:
        serving: Whether the watch also polls the inbox.
        forgotten: Whether the runner was garbage-collected and not closed.
    """

    def __init__(
        self, setup: RunnerSetup, work: TaskExecutor, registry: TicketRegistry, retain: Retain
    ) -> None:
        self.serving = self.forgotten = False
        self._setup, self._executor, self._registry, self._retain = setup, work, registry, retain
        self._store = setup.engine.store
        self._pruned, self._prunes = time.monotonic(), False
        self._closing = Flag()
        self._thread: threading.Thread | None = None
        self._owners = [work.owner]
        self._turn = 0
        self._doubted: set[Scope] = set()
        self._new_doubts: deque[Scope] = deque()

    def start(self) -> None:
        """Start the thread. May be called again if Ctrl-C interrupted the first call.

        Raises:
            Unavailable: No thread can be started.
        """
        name = f"alveus-{self._setup.plan.name}-watch"
        self._thread = thread = threading.Thread(target=self._watch, name=name, daemon=True)
        if not began(thread):
            raise Unavailable(f"the runner did not start: {NO_THREAD}")

    def doubt(self, scopes: Sequence[Scope]) -> None:
        """Record keys for which Ctrl-C interrupted a call that accepts inputs.

        The inputs may have been accepted, and the leases of the keys taken.
        """
        self._doubted.update(scopes)
        self._new_doubts.extend(scopes)
        self._registry.stir.set()

    def end(self, wait_s: float) -> None:
        """End all work, wait up to *wait_s* seconds for tasks in progress, and release the keys.

        May be called again if Ctrl-C interrupted the first call.
        """
        ended = self._executor.stop(wait_s)
        if not ended:
            _LOG.warning("an action did not end in time; what it does now is not kept")
        self.stop()
        with contextlib.suppress(StoreClosed):
            for lease in self._executor.scheduler.leases():
                self._store.release_lease(lease)
            for scope in self._doubted:
                lease = self._store.acquire_lease(scope, self._executor.owner)
                if lease is not None:
                    self._store.release_lease(lease)
            if ended and self._owners:
                self._setup.engine.owners.append(self._owners.pop())
        self._registry.dismiss(
            lambda t: StoreClosed(f"run {t.run} waits in the inbox, and its runner was closed")
        )

    def stop(self) -> None:
        """End the thread of the watch, and wait for its end."""
        self._closing.set()
        self._registry.stir.set()
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _watch(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - the end of a thread: all waiting callers get it
            _LOG.exception("the watch ended", extra={"agent": self._setup.plan.name})
            self._executor.fail(error)

    def _run(self) -> None:
        shortest, longest = POLL_S
        pause = shortest
        while (
            not self._closing.is_set()
            and self._registry.failure is None
            and self._thread is threading.current_thread()
        ):
            if self.forgotten:
                self.end(FORGOTTEN_S)
                return
            due, left = self._executor.scheduler.look_after()
            try:
                self._executor.settle(deque(left))
                waits = self._look()
            except Unavailable as error:
                _LOG.warning("looked in vain: %s", error, extra={"agent": self._setup.plan.name})
                waits = True
            except StoreClosed as error:
                self._executor.fail(error)
                return
            pause = min(pause * 1.5, longest) if waits else shortest
            scheduler = self._executor.scheduler
            scheduler.unwatched = not waits and not self.serving
            rests = scheduler.unwatched = scheduler.unwatched and scheduler.quiet
            wait_s = REST_S if rests else pause if waits else longest
            if self._registry.stir.wait(wait_s if due is None else max(0.0, min(due, wait_s))):
                self._registry.stir.clear()
                self._closing.wait(pause)

    def _look(self) -> bool:
        """Poll once. Return whether to poll again soon.

        That is so while lanes or callers wait for other processes or for parked runs, or while runs
        are being pruned.
        """
        scheduler = self._executor.scheduler
        with scheduler.lock:
            blocked = [v for v in scheduler.lanes.values() if v.state is LaneState.BLOCKED]
            parked = [v for v in scheduler.lanes.values() if v.state is LaneState.PARKED]
        self._turn += 1
        for lane in self._in_turn(blocked, TRIED):
            self._try(lane)
        self._look_at_parked(self._in_turn(parked, LOOKED_AT))
        elsewhere = {lane.scope for lane in (*blocked, *parked)}
        waiting = self._registry.waiting()
        keys = {k for k in {t.key for t in waiting} if self._is_elsewhere(k, elsewhere)}
        foreign = [t for t in waiting if t.key in keys] if keys else []
        if self._registry.has_missed:
            self._registry.has_missed = False
            over = foreign = self._registry.waiting()
        else:
            asked = self._in_turn(foreign, LOOKED_AT)
            statuses = self._statuses([ticket.run for ticket in asked])
            over = [ticket for ticket in asked if statuses.get(ticket.run) != "waiting"]
        for ticket in over:
            self._registry.look_up(ticket.run)
        if self.serving:
            self.pull()
            scheduler.forget_parked(but={ticket.key for ticket in waiting})
        if self._new_doubts:
            self._line_up([self._new_doubts.popleft() for _ in range(len(self._new_doubts))])
        if time.monotonic() - self._pruned > PRUNE_EVERY_S:
            self._prunes = self.prune() > 0
            self._pruned = self._pruned if self._prunes else time.monotonic()
        return bool(blocked or parked or foreign or self._prunes)

    def _is_elsewhere(self, key: str, elsewhere: set[Scope]) -> bool:
        """Return whether no worker of this process has the key or will take it.

        Args:
            elsewhere: Keys that are known to be blocked or parked.
        """
        scope = Scope(self._setup.space, key)
        lane = self._executor.scheduler.lanes.get(scope)
        return scope in elsewhere or lane is None or lane.state is LaneState.IDLE

    def _try(self, lane: LiveLane) -> None:
        """Take the lease of a lane if it is free, and make the lane ready."""
        lease = self._store.acquire_lease(lane.scope, self._executor.owner)
        if lease is not None:
            with self._executor.scheduler.lock:
                lane.lease = lease
                lane.refresh()
                self._executor.scheduler.make_ready(lane)

    def _look_at_parked(self, lanes: Sequence[LiveLane]) -> None:
        """Make the *lanes* ready whose parked run was retried or discarded."""
        stuck = [(lane, lane.stuck) for lane in lanes]
        statuses = self._statuses([run.id for _, run in stuck if run is not None])
        for lane, run in stuck:
            if run is not None and statuses.get(run.id) == "parked":
                continue
            with self._executor.scheduler.lock:
                if lane.state is LaneState.PARKED:
                    lane.refresh()
                    self._executor.scheduler.make_ready(lane)

    def _statuses(self, runs: Sequence[int]) -> dict[int, RunStatus]:
        return self._store.run_statuses(runs) if runs else {}

    def _in_turn(self, waiting: Sequence[T], most: int) -> Sequence[T]:
        """Return at most *most* items of *waiting*; the next poll returns the items behind them."""
        if len(waiting) <= most:
            return waiting
        start = self._turn * most % len(waiting)
        around = [*waiting[start:], *waiting[:start]]
        return around[:most]

    def prune(self) -> int:
        """Delete some ended runs that `retain` no longer keeps; return the number of runs."""
        setup, retain = self._setup, self._retain
        now = setup.engine.clock.settle()
        if setup.hooks.prune_until is not None:
            until = setup.hooks.prune_until()
            if until is None:
                return 0
            now = min(now, until + (retain.age_us or 0))
        return self._store.prune_runs(setup.plan.name, setup.space, retain, now=now)

    def pull(self) -> bool:
        """Make lanes ready whose keys have waiting runs; return whether the store has such keys."""
        plan = self._setup.plan
        past_parked = plan.agent.on_failed == "next"
        scopes = self._store.waiting_lanes(plan.name, self._setup.space, past_parked=past_parked)
        self._line_up(scopes)
        return bool(scopes)

    def _line_up(self, scopes: Sequence[Scope]) -> None:
        """Make the lanes of these keys ready if they are idle.

        If the agent has ``on_failed="wait"``, a lane behind a parked run becomes ready too.
        """
        scheduler = self._executor.scheduler
        past_parked = self._setup.plan.agent.on_failed == "next"
        with scheduler.lock:
            for scope in scopes:
                lane = scheduler.lanes.get(scope)
                if lane is None:
                    lane = scheduler.lanes[scope] = LiveLane(scope, complete=False)
                if lane.state is LaneState.IDLE or (
                    lane.state is LaneState.PARKED and not past_parked
                ):
                    lane.refresh()
                    scheduler.make_ready(lane)
