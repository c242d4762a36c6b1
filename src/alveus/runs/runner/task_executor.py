"""The work of a runner: the next task of a lane is done, and committed with those of others.

How many tasks share a commit depends on how long their actions take. Async actions run side by
side on one event loop, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Coroutine
from functools import partial
from math import inf

from alveus.errors import (
    AlveusError,
    DuplicateItem,
    ForkedStore,
    InvalidInput,
    KeyBusy,
    RunTooLong,
    SetFull,
    SetMoved,
    StaleItem,
    StaleRun,
    StoreBusy,
    StoreClosed,
    StoreFull,
    StoreReadOnly,
    Unavailable,
)
from alveus.runs.durable_calls import Slot
from alveus.runs.run import Finished, Interrupted, LiveRun, RunnerSetup
from alveus.runs.runner.event_loop_thread import EventLoopThread
from alveus.runs.runner.scheduler import (
    Kind,
    LaneState,
    LiveLane,
    PendingCommit,
    Scheduler,
    Shift,
    drained,
)
from alveus.runs.runner.tickets import TicketRegistry
from alveus.store import Commit
from alveus.store.running_keys import (
    RunningKey,
    RunningKeys,
    restore_running_keys,
    running_keys,
)

SLICE_S = 0.002
"""How long a worker goes on before it commits: what the first of a group waits at most, if all
its actions and the store are quick."""

LONGEST_SLICE_S = 0.05

PER_COMMIT = 2.0
"""Times as long as a commit takes a worker goes on before it, if that is longer: a group that
waits for the disk is to be worth it."""

QUICK_S = 0.001
"""Actions while which the process was idle for less lately are done one after the other by one
worker: where it is busy all the time, by this thread or others, more of them would only be in each
other's way."""

LATELY = 0.3
"""Weight of the last time, in averages of lately."""


class Pace:
    """How long actions and commits took lately.

    Attributes:
        slice_s: How long a worker goes on before it commits.
    """

    def __init__(self) -> None:
        self.slice_s = SLICE_S
        self._commit_s = 0.0
        self._idle: dict[str, float] = {}
        self._doubted: set[str] = set()

    def is_quick(self, action: str) -> bool:
        """Return whether the process is hardly ever idle while an action is done."""
        return self._idle.get(action, 1.0) <= QUICK_S

    def worked(self, action: str) -> float | None:
        """Return how long the process has worked so far, if `acted` needs to know that.

        Asking takes longer than a quick action does: for those it is left out until one took long.
        """
        if action in self._doubted or self._idle.get(action, 1.0) > QUICK_S:
            return time.process_time()
        return None

    def acted(self, action: str, took: float, worked: float | None) -> None:
        """Note how long an action took, and what `worked` said when it began."""
        if took > QUICK_S:
            self._doubted.add(action)
        elif worked is not None:
            self._doubted.discard(action)
        if worked is not None:
            idle = took - (time.process_time() - worked)
            last = self._idle.get(action, idle)
            self._idle[action] = last + LATELY * (idle - last)

    def committed(self, took: float) -> None:
        """Note how long a commit took."""
        self._commit_s += LATELY * (took - self._commit_s)
        self.slice_s = min(max(SLICE_S, PER_COMMIT * self._commit_s), LONGEST_SLICE_S)


_LOG = logging.getLogger(__name__)

GROUP = 64
"""Tasks that are committed together at most."""

CONFLICTS = 10
"""How often a task begins again at once because an item that it changes had moved on."""

RETRY_S = (0.01, 5.0)
"""Shortest and longest wait before work is tried again that the store could not take."""

_HINDERED = (StoreBusy, StoreFull, StoreReadOnly)
"""What hinders the store, and is not the fault of an action."""


def _hinders(error: BaseException) -> bool:
    """Return whether it is no fault of an action, nor one of the thread that commits for others."""
    return isinstance(error, _HINDERED) or type(error) is Unavailable


_GONE = (StoreClosed, ForkedStore)
"""What ends all work of this process on the store."""


class TaskExecutor:
    """Does the tasks of lanes. Every method may be called from any thread."""

    def __init__(
        self, setup: RunnerSetup, owner: str, registry: TicketRegistry, *, concurrency: int
    ) -> None:
        self.setup, self.owner = setup, owner
        self.scheduler = Scheduler(
            setup.plan.name, self._serve, concurrency=concurrency, stir=registry.stir
        )
        self._registry = registry
        self.pace = Pace()
        # A durable call may keep one thread for long, and its record needs another.
        self._loop = EventLoopThread(f"alveus-{setup.plan.name}-loop", threads=2 * concurrency)

    def _serve(self) -> None:
        """Do what is ready, in a worker's thread."""
        try:
            self.once()
        except BaseException as error:  # noqa: BLE001 - nobody is above it: all who wait are told
            _LOG.exception("a worker ended", extra={"agent": self.setup.plan.name})
            self.fail(error)

    def once(self) -> bool:
        """Do what is ready, up to a group, and commit it; return whether there was anything."""
        began, shift, keys = time.perf_counter(), Shift(), running_keys()
        try:
            if not self.scheduler.enter(shift):
                return False
            while len(shift.group) < GROUP and not self.scheduler.stopping.is_set():
                lane = self.scheduler.take(shift)
                if lane is None:
                    break
                self._do(lane, shift)
                if time.perf_counter() - began > self.pace.slice_s:
                    break
            self.settle(shift.group)
            self.scheduler.exit(shift)
        except BaseException:
            try:  # here: one more Ctrl-C may come as a function begins
                self._drop(shift, keys)
            except BaseException:
                self._drop(shift, keys)
                raise
            raise
        did_any = bool(shift.lanes)
        shift.lanes.clear()  # which have it
        return did_any

    def on(self, lane: LiveLane) -> bool:
        """Do the next task of a lane in the calling thread, if it is ready and nobody is at it."""
        shift, keys = Shift(), running_keys()
        try:
            if not self.scheduler.claim(lane, shift):
                return False
            self._do(lane, shift)
            self.settle(shift.group)
            self.scheduler.exit(shift)
        except BaseException:
            try:
                self._drop(shift, keys)
            except BaseException:
                self._drop(shift, keys)
                raise
            raise
        shift.lanes.clear()
        return True

    def _do(self, lane: LiveLane, shift: Shift) -> None:
        """Do the next task of a lane that was taken; what is to be committed goes to the group."""
        work = self.look(lane, shift)
        if isinstance(work, LiveRun):
            work = self._act(lane, work, shift)
        if work is not None:
            shift.group.append(work)

    def _drop(self, shift: Shift, keys: RunningKeys) -> None:
        """End a shift in which Ctrl-C came, and put down what is in hand; twice is fine."""
        restore_running_keys(keys)
        for lane in self.scheduler.cut_short(shift):
            self._abandon(lane)
        self._registry.has_missed = True  # who was to be told, or called, may not have been
        self._registry.stir.set()

    # --- one task -----------------------------------------------------------------------------

    def look(self, lane: LiveLane, shift: Shift) -> LiveRun | PendingCommit | None:
        """Return the run of a lane whose next task is to be done here and now.

        Or what is to be committed of the lane; or None: it was put down.
        """
        if lane.pending is not None:
            return lane.pending
        failure, lane.failure = lane.failure, None
        if failure is not None:
            return self._refused(lane, failure)
        try:
            run = lane.run or self._next(lane)
            if run is None:
                return None
            if run.is_over:
                return self._pending(lane, "over", Finished(run.turned("done")))
            is_async = run.action.is_async
        except Exception as error:  # noqa: BLE001 - an agent's own condition: its run is parked
            return self._refused(lane, error)
        if not is_async:
            return run
        self._send_away(lane, shift)
        return None

    def _next(self, lane: LiveLane) -> LiveRun | None:
        """Begin the next run of a lane; None: there is none, and the lane is put down."""
        plan, store = self.setup.plan, self.setup.engine.store
        if lane.lease is None:
            lease = store.acquire_lease(lane.scope, self.owner)
            with self.scheduler.lock:
                lane.lend(lease)
                lane.refresh()
            if lane.lease is None:
                self.scheduler.leave(lane, LaneState.BLOCKED)
                self._registry.stir.set()
                return None
        while not lane.waiting and not lane.complete:
            lane.load(store, plan.name, plan.agent.on_failed, self.scheduler.lock)
        if not lane.waiting:
            self._give_up(lane)
            return None
        row = lane.waiting.popleft()
        tree = lane.leased_tree(store, lane.lease.epoch, self.setup.hooks.tree)
        lane.run = run = LiveRun(self.setup, row, epoch=tree.epoch, tree=tree)
        lane.conflicts = lane.hindered = 0
        run.prepare()
        return run

    def _give_up(self, lane: LiveLane) -> None:
        """Give back the lease of a lane that has nothing to do."""
        lease = lane.lease
        if lease is not None:
            lane.returned = lease.epoch
            self.setup.engine.store.release_lease(lease)
        self._released(lane)

    def _released(self, lane: LiveLane) -> None:
        lane.tree = None  # it holds under this lease only
        self.scheduler.put_down(lane)
        if lane.stuck is not None:
            self._registry.stir.set()

    def _act(self, lane: LiveLane, run: LiveRun, shift: Shift) -> PendingCommit | None:
        """Do the next task of a run; what is slow keeps no finished task of the group waiting."""
        action = run.action
        worked = self.pace.worked(action.name)
        if worked is not None and not self.pace.is_quick(action.name):
            self.settle(shift.group)
            self.scheduler.begin_slow(shift)
            worked = self.pace.worked(action.name)
        shift.since = began = time.perf_counter()
        try:
            task, event, context = run.begin(action, self.scheduler.stopping)
            with RunningKey(self.setup.engine.store, lane.scope, self.owner, task.draft):
                answer = run.call(action, event, context)
            if answer is not None:
                _refuse_awaitable(answer, action.name)
            finished = run.done(task, release=lambda: self._may_release(lane))
        except Interrupted:
            run.drop()
            self._abandon(lane)
            return None
        except BaseException as error:  # the user's code: its run is parked
            run.drop()
            if _is_ctrl_c(error):
                raise
            return self._refused(lane, error)
        finally:
            shift.since = inf
            self.pace.acted(action.name, time.perf_counter() - began, worked)
            if shift.slow:
                self.scheduler.end_slow(shift)
        return self._pending(lane, "step", finished)

    def _pending(self, lane: LiveLane, kind: Kind, finished: Finished) -> PendingCommit:
        lane.pending = PendingCommit(lane, kind, finished)
        return lane.pending

    def _may_release(self, lane: LiveLane, *, parked: bool = False) -> bool:
        """Return whether the lease goes back with the commit that ends the run, or parks it."""
        with self.scheduler.lock:
            if lane.lease is None:
                return parked
            more = lane.waiting or not lane.complete
            waits = parked and self.setup.plan.agent.on_failed == "wait"
            if more and not waits and not lane.gives_way(lane.lease.epoch):
                return False
            lane.returned = lane.lease.epoch
            return True

    def _abandon(self, lane: LiveLane) -> None:
        """Put a lane down whose task was interrupted: it begins anew when somebody takes it up."""
        if lane.run is not None:
            lane.run.drop()
        lane.drop_run("interrupted")
        with self.scheduler.lock:
            lane.pending = None
            lane.refresh()
        self.scheduler.leave(lane, LaneState.READY)

    # --- what fails ---------------------------------------------------------------------------

    def _refused(self, lane: LiveLane, error: BaseException) -> PendingCommit | None:
        """Decide what becomes of a task that failed."""
        run = lane.run
        if isinstance(error, _GONE) and self._is_gone():
            self.fail(error)
            self.scheduler.leave(lane, LaneState.IDLE)
            return None
        if run is None or (_hinders(error) and self._is_from_store(error)):
            self._hindered(lane, error)
            return None
        if isinstance(error, StaleRun) and run.fenced:
            self._lost(lane)
            return None
        if _moved_on(error) and self._begins_anew(lane):
            return None
        run.failures += 1
        ended = run.is_over or isinstance(error, RunTooLong)
        action = None if ended else self.setup.plan.actions.get(run.next_action)
        if action is not None and action.retry.should_retry(error, run.failures):
            self._wait(lane, action.retry.pause_s(run.failures))
            return None
        if action is not None and action.on_error == "skip":
            finished = run.skipped(error, release=lambda: self._may_release(lane))
            return self._pending(lane, "step", finished)
        run.observer.failed(error)
        parked = run.turned("parked", error, release=self._may_release(lane, parked=True))
        return self._pending(lane, "parked", Finished(parked))

    def _is_from_store(self, error: BaseException) -> bool:
        """Return whether it was the runner's own store that raised an error, not one of an action.

        It then came through a call of the store, or of what writes durable calls down in it.
        """
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        callees = [frame.f_locals.get("self") for frame in frames]
        return any(c is self.setup.engine.store or isinstance(c, Slot) for c in callees)

    def _is_gone(self) -> bool:
        """Return whether it is the runner's own store that was closed, not one of an action."""
        try:
            self.setup.engine.store.run(0)
        except _GONE:
            return True
        except AlveusError as error:
            _LOG.warning("the store could not tell whether it is open: %s", error)
        return False

    def fail(self, error: BaseException) -> None:
        """Stop: nothing can be done any more."""
        self.scheduler.stop()
        self._registry.fail(error)

    def _lost(self, lane: LiveLane) -> None:
        """Put a lane down whose lease somebody took over; what was not committed is theirs."""
        _LOG.warning("a lease was taken over", extra={"agent": self.setup.plan.name})
        lane.drop_run("fenced")
        with self.scheduler.lock:
            lane.lose()
        self.scheduler.leave(lane, LaneState.BLOCKED)
        self._registry.stir.set()

    def _hindered(self, lane: LiveLane, error: BaseException) -> None:
        """Have a lane tried again later which the store could not serve."""
        lane.hindered += 1
        if lane.run is None or not lane.run.prepared:
            lane.drop_run("interrupted")
            with self.scheduler.lock:
                lane.refresh()  # a run may have been taken out that was not begun
        shortest, longest = RETRY_S
        _LOG.warning("tried again later: %s", error, extra={"agent": self.setup.plan.name})
        self._wait(lane, min(shortest * 2.0 ** min(lane.hindered, 20), longest))

    def _wait(self, lane: LiveLane, pause_s: float) -> None:
        """Have a lane tried again later."""
        self.scheduler.put_off(lane, pause_s)
        self._registry.stir.set()

    # --- commits ------------------------------------------------------------------------------

    def settle(self, done: deque[PendingCommit]) -> None:
        """Commit what was done, in one transaction, and go on with each lane."""
        group = drained(done)
        if not group:
            return
        began = time.perf_counter()
        try:
            answers = self.setup.engine.store.commit_many(
                [pending.finished.batch for pending in group]
            )
        except Unavailable as error:  # also by Ctrl-C in a thread that committed for this one
            for pending in group:
                self._hindered(pending.lane, error)
            return
        except AlveusError as error:
            self.fail(error)
            for pending in group:
                self.scheduler.leave(pending.lane, LaneState.IDLE)
            return
        self.pace.committed(time.perf_counter() - began)
        go_on: list[LiveLane] = []
        for pending, answer in zip(group, answers, strict=True):
            pending.lane.pending = None
            if not isinstance(answer, Commit):
                self._not_committed(pending, answer)
            elif self._committed(pending, answer):
                go_on.append(pending.lane)
        self.scheduler.leave_ready(go_on)

    def _committed(self, pending: PendingCommit, answer: Commit) -> bool:
        """Take note of a commit; return whether the lane goes on, and is still to be put down."""
        lane, run = pending.lane, pending.lane.run
        assert run is not None  # noqa: S101 - it was what was committed
        if pending.kind == "parked":
            lane.drop_run("parked")
            if self.setup.plan.agent.on_failed == "wait":
                lane.stuck = run.row
            self._registry.look_up(run.row.id)
            lane.complete = lane.complete and lane.stuck is None
            return self._goes_on(pending)
        if answer.adopted:
            return self._adopted(pending)
        lane.conflicts = lane.hindered = 0
        if pending.kind == "step":
            run.committed(pending.finished, answer)
        if not run.is_over:
            return True
        lane.drop_run("done")
        goes_on = self._goes_on(pending)
        self._registry.ended(run)
        return goes_on

    def _goes_on(self, pending: PendingCommit) -> bool:
        """Return whether a lane goes on under its lease after a run; else it is put down."""
        lane, batch = pending.lane, pending.finished.batch
        if batch.release and lane.gave_way == batch.epoch:
            self.scheduler.rest(lane)
            self._registry.stir.set()
        elif batch.release:
            self._released(lane)
        return not batch.release

    def _adopted(self, pending: PendingCommit) -> bool:
        """Look at a lane anew: its step was committed before, and the answer to that was lost."""
        lane = pending.lane
        lane.drop_run("interrupted")
        with self.scheduler.lock:
            lane.refresh()
        if pending.finished.batch.release:  # by now somebody else may have the key
            self._released(lane)
        return not pending.finished.batch.release

    def _not_committed(self, pending: PendingCommit, error: AlveusError) -> None:
        lane, run = pending.lane, pending.lane.run
        lane.tree = None
        with self.scheduler.lock:  # the lease was not given back after all
            lane.returned = 0 if lane.lease is None else lane.lease.epoch - 1
        if isinstance(error, StaleRun) or run is None:
            self._lost(lane)
        # what somebody added meanwhile was not there when the action looked
        elif not (isinstance(error, (KeyBusy, DuplicateItem)) and self._begins_anew(lane)):
            refused = self._refused(lane, error)
            if refused is not None:
                self.settle(deque([refused]))

    def _begins_anew(self, lane: LiveLane) -> bool:
        """Have a task done over at once, unless it was so often already."""
        lane.conflicts += 1
        if lane.conflicts > CONFLICTS:
            return False
        self.scheduler.leave(lane, LaneState.READY)
        return True

    # --- async actions ------------------------------------------------------------------------

    def _send_away(self, lane: LiveLane, shift: Shift) -> None:
        """Have the loop take a lane that is in hand, unless it is put down before.

        Raises:
            Unavailable: There is no loop, and none can be begun.
        """
        self._loop.begin()
        self._loop.call(partial(self._go_away, lane, shift))

    def _go_away(self, lane: LiveLane, shift: Shift) -> Coroutine[object, object, None] | None:
        return self._act_async(lane) if self.scheduler.send_away(lane, shift) else None

    async def _act_async(self, lane: LiveLane) -> None:
        run = lane.run
        assert run is not None  # noqa: S101 - the lane was sent away with it
        try:
            action = run.action
            task, event, context = run.begin(action, self.scheduler.stopping)
            with RunningKey(self.setup.engine.store, lane.scope, self.owner, task.draft):
                await run.acall(action, event, context)
            finished = run.done(task, release=lambda: self._may_release(lane))
        except Interrupted:
            self._abandon_async(lane, run)
        except BaseException as error:
            if isinstance(error, GeneratorExit) and self.scheduler.stopping.is_set():
                raise  # it was thrown away unfinished, with its loop
            if isinstance(error, asyncio.CancelledError) and self.scheduler.stopping.is_set():
                self._abandon_async(lane, run)
                return
            run.drop()
            lane.failure = error
            self._come_back(lane)
        else:
            self._pending(lane, "step", finished)
            self._come_back(lane)

    def _abandon_async(self, lane: LiveLane, run: LiveRun) -> None:
        """Put a lane down whose async action the end of the runner cut short."""
        run.drop()
        lane.drop_run("interrupted")
        with self.scheduler.lock:
            lane.refresh()
        self._come_back(lane, abandoned=True)

    def _come_back(self, lane: LiveLane, *, abandoned: bool = False) -> None:
        """Have a lane gone on with, and let another one that waited go away."""
        following = self.scheduler.come_back(lane, abandoned=abandoned)
        if following is not None:
            self._loop.call(partial(self._act_async, following))

    def stop(self, wait_s: float) -> bool:
        """Let tasks at work end, up to *wait_s*; return whether all did.

        What goes on after that is fenced: it commits nothing.
        """
        self.scheduler.stop()
        ended = self.scheduler.join(wait_s)
        self._loop.stop()
        for run in [lane.run for lane in list(self.scheduler.lanes.values())]:
            if run is not None:
                run.observer.end("interrupted")
        return ended


def _is_ctrl_c(error: BaseException) -> bool:
    """Return whether a user interrupts the program, which happens in its main thread alone."""
    main = threading.main_thread()
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is main


def _moved_on(error: BaseException) -> bool:
    """Return whether others changed items meanwhile, so that the task reads and makes room anew."""
    return isinstance(error, (StaleItem, SetMoved)) or (
        isinstance(error, SetFull) and error.compacts and error.strategy is None
    )


def _refuse_awaitable(answer: object, action: str) -> None:
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise InvalidInput(
            f"action {action!r} returned something to be awaited; define it with `async def`"
        )
