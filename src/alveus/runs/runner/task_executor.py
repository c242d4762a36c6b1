"""The work of a runner: it calls the actions of lanes, and commits tasks in groups.

A lane is the queue of one agent and key; see `alveus.runs.runner.scheduler`. The number of tasks in
a commit depends on how long their actions take. Async actions run concurrently on one event loop,
in a separate thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from alveus.errors import (
    AlveusError,
    DuplicateItem,
    ForkedStore,
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
from alveus.runs.durable_calls import Interrupted, Slot, refuse_awaitable
from alveus.runs.run import Finished, LiveRun
from alveus.runs.runner.scheduler import LaneState, LiveLane, Scheduler, Shift, drained
from alveus.runs.runner.tickets import TicketRegistry
from alveus.runs.task import RunnerSetup
from alveus.store import Batch, Commit, StatusChange, Step
from alveus.store.running_keys import RunningKey, RunningKeys, restore_running_keys, running_keys
from alveus.values.forks import NO_THREAD, Flag, HandleLock, began

P = ParamSpec("P")
R = TypeVar("R")

CLEAN_UP_S = 1.0
"""Longest wait for cancelled async actions to end, in seconds."""


class ActionThreads(ThreadPoolExecutor):
    """A pool of daemon threads that run calls in the context of the calling action.

    With another pool, ``loop.run_in_executor(None, …)`` would not pass the context on, as
    `asyncio.to_thread` does. When Python ends, it waits for the threads of other pools, but
    abandons the calls in these threads.

    Args:
        most: The largest number of threads.
        name: The prefix of the name of each thread; a number follows.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, thread_name_prefix=name)
        self._most, self._name = most, name
        self._calls = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]()
        self._lock = threading.Lock()
        self._begun: list[threading.Thread] = []
        self._free, self._ended = 0, False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See `ThreadPoolExecutor.submit`."""
        future, work = Future[R](), partial(copy_context().run, fn, *args, **kwargs)
        with self._lock:
            if self._ended:
                raise RuntimeError("the runner was closed")
            if self._free:
                self._free -= 1
            elif len(self._begun) < self._most:
                name = f"{self._name}_{len(self._begun)}"
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                thread.start()
                self._begun.append(thread)
            self._calls.put((future, work))
        return future

    def _serve(self) -> None:
        while (asked := self._calls.get()) is not None:
            _do(*asked)
            del asked  # so that no call is kept while the thread waits
            with self._lock:
                self._free += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as it is called
        """See `ThreadPoolExecutor.shutdown`."""
        with self._lock:
            self._ended = True
            with suppress(Empty):
                while cancel_futures:
                    waiting = self._calls.get_nowait()
                    if waiting is not None:
                        waiting[0].cancel()
            for _ in self._begun:
                self._calls.put(None)
        for thread in self._begun if wait else ():
            thread.join()


def _do(future: Future[R], work: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - the caller gets it
        future.set_exception(error)
        del future, work  # a cycle with its traceback


class EventLoopThread:
    """An event loop in a separate thread, for async actions.

    Any thread may call any method.

    Args:
        threads: The largest number of threads for blocking calls of coroutines.
    """

    def __init__(self, name: str, *, threads: int) -> None:
        self._name, self._threads = name, threads
        self._lock = HandleLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._ending: asyncio.Task[None] | None = None
        self._calls = deque[tuple[Callable[[], Coroutine[object, object, None] | None], Context]]()
        self._running: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Start the thread; do nothing if it was started or stopped before.

        The first coroutine needs the thread.

        Raises:
            Unavailable: No thread or no loop can be started.
        """
        with self._lock:
            if self._stopped or self._loop is not None:
                return
        is_known, problems = Flag(), list[OSError]()
        target = partial(self._run, is_known, problems)
        if not began(threading.Thread(target=target, name=self._name, daemon=True)):
            raise Unavailable(f"no async action can run: {NO_THREAD}")
        is_known.wait()
        if problems:
            raise Unavailable(f"no async action can run: {problems[0]}") from problems[0]

    def _run(self, is_known: Flag, problems: list[OSError]) -> None:
        """Make the loop, and run it until it is stopped.

        Args:
            is_known: Set when the loop runs, or cannot be made.
            problems: Gets the error if the loop cannot be made.
        """
        try:
            loop = asyncio.new_event_loop()
        except OSError as error:  # too many files are open
            problems.append(error)
            is_known.set()
            return
        loop.set_default_executor(ActionThreads(self._threads, self._name))
        with self._lock:
            is_wanted = self._loop is None and not self._stopped
            if is_wanted:
                self._loop, self._thread = loop, threading.current_thread()
        is_known.set()
        try:
            while is_wanted and not self._has_ended():
                # `SystemExit` of a task that an action awaits also comes out here.
                with suppress(KeyboardInterrupt, SystemExit):
                    loop.run_forever()
                    return
        finally:
            loop.close()

    def _has_ended(self) -> bool:
        return self._ending is not None and self._ending.done()

    def call(self, make: Callable[[], Coroutine[object, object, None] | None]) -> None:
        """Call *make* on the loop, and run the coroutine that it returns, if any.

        If Ctrl-C interrupts this method, *make* may or may not be called. After `stop` it is not
        called.
        """
        with self._lock:
            loop = self._loop
            if self._stopped or loop is None:
                return
            try:
                self._calls.append((make, copy_context()))
                loop.call_soon_threadsafe(self._begin_calls, loop)
            except BaseException:
                loop.call_soon_threadsafe(self._begin_calls, loop)  # the loop may still sleep
                raise

    def _begin_calls(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make the queued calls, in the thread of the loop.

        The tasks are kept until they end: the loop has no strong references to them, and the
        garbage collector could drop one.
        """
        while self._calls:
            make, context = self._calls.popleft()
            coroutine = context.run(make)
            if coroutine is not None:
                task = loop.create_task(coroutine, context=context)
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Cancel the running coroutines, and end the thread; may be called twice."""
        with self._lock:
            loop, thread, self._stopped = self._loop, self._thread, True
        if loop is None or thread is None:
            return
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._end, loop)
        if thread is not threading.current_thread():
            thread.join(2 * CLEAN_UP_S)  # an action that blocks the loop is abandoned

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._ending is None:
            self._ending = loop.create_task(_end_loop(loop))


async def _end_loop(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CLEAN_UP_S)
    loop.stop()


SLICE_S = 0.002
"""The shortest time, in seconds, that a worker works before it commits. The first task of a group
waits no longer than this while actions and store are quick."""

LONGEST_SLICE_S = 0.05
"""The longest time, in seconds, that a worker works before it commits, if commits take long."""

PER_COMMIT = 2.0
"""A worker works for this many times the duration of a commit before it commits, within the two
limits above: a group should be worth the wait for the disk."""

QUICK_S = 0.001
"""An action is quick if the process was idle for at most this many seconds during its recent calls.
One worker does quick actions serially: while the process is busy anyway, in this thread or in
others, more workers would only compete."""

LATELY = 0.3
"""The weight of the last duration in a moving average."""


class Pace:
    """Measures recent durations of actions and commits.

    Attributes:
        slice_s: Seconds that a worker works before it commits.
    """

    def __init__(self) -> None:
        self.slice_s = SLICE_S
        self._commit_s = 0.0
        self._idle: dict[str, float] = {}
        self._doubted: set[str] = set()

    def is_quick(self, action: str) -> bool:
        """Return whether the process is hardly ever idle during an action."""
        return self._idle.get(action, 1.0) <= QUICK_S

    def worked(self, action: str) -> float | None:
        """Return the CPU time of the process, in seconds, or None if `acted` does not need it.

        Reading the CPU time takes longer than a quick action. So a quick action is measured only if
        its last call was slow.
        """
        if action in self._doubted or self._idle.get(action, 1.0) > QUICK_S:
            return time.process_time()
        return None

    def acted(self, action: str, took: float, worked: float | None) -> None:
        """Record that an action took *took* seconds; *worked* is what `worked` returned before."""
        if took > QUICK_S:
            self._doubted.add(action)
        elif worked is not None:
            self._doubted.discard(action)
        if worked is not None:
            idle = took - (time.process_time() - worked)
            last = self._idle.get(action, idle)
            self._idle[action] = last + LATELY * (idle - last)

    def committed(self, took: float) -> None:
        """Record that a commit took *took* seconds."""
        self._commit_s += LATELY * (took - self._commit_s)
        self.slice_s = min(max(SLICE_S, PER_COMMIT * self._commit_s), LONGEST_SLICE_S)


_LOG = logging.getLogger(__name__)

GROUP = 64
"""The largest number of tasks in a commit."""

CONFLICTS = 10
"""How often a task is repeated at once because another writer changed items that it used."""

RETRY_S = (0.01, 5.0)
"""Shortest and longest wait before work that the store could not accept is tried again."""

_HINDERED = (StoreBusy, StoreFull, StoreReadOnly)
"""Errors of the store that no action causes: the work is tried again later."""


_AWAITABLE = "action {!r} returned something to be awaited; define it with `async def`"

_GONE = (StoreClosed, ForkedStore)
"""Errors after which this process can no longer use the store."""


class TaskExecutor:
    """Does the tasks of lanes, and commits them. Any thread may call any method.

    Args:
        owner: The name of this runner in the leases of its keys.
        concurrency: The largest number of workers, and of async actions in progress.
    """

    def __init__(
        self, setup: RunnerSetup, owner: str, registry: TicketRegistry, *, concurrency: int
    ) -> None:
        self.setup, self.owner = setup, owner
        self.scheduler = Scheduler(
            setup.plan.name, self._serve, concurrency=concurrency, stir=registry.stir
        )
        self._registry = registry
        self.pace = Pace()
        # A durable call may occupy one thread for long, and its record needs another.
        self._loop = EventLoopThread(f"alveus-{setup.plan.name}-loop", threads=2 * concurrency)

    def _serve(self) -> None:
        """Do tasks of ready lanes, in the thread of a worker; an error ends all work."""
        try:
            self.once()
        except BaseException as error:  # noqa: BLE001 - the end of a thread: all waiting callers get it
            _LOG.exception("a worker ended", extra={"agent": self.setup.plan.name})
            self.fail(error)

    def once(self, only: LiveLane | None = None) -> bool:
        """Do tasks of ready lanes, at most one group, and commit them.

        Return whether a ready lane was found.

        Args:
            only: If not None, do only the next task of this lane, and only if the lane is ready.
        """
        began, shift, keys = time.perf_counter(), Shift(), running_keys()
        try:
            if not self.scheduler.enter(shift, only):
                return False
            lane = only or self.scheduler.take(shift)
            while lane is not None:
                self._do(lane, shift)
                lane = None if only or self._is_over(shift, began) else self.scheduler.take(shift)
            self.settle(shift.group)
            self.scheduler.exit(shift)
        except BaseException:
            try:  # not in `_drop`: one more Ctrl-C may come as a function begins
                self._drop(shift, keys)
            except BaseException:
                self._drop(shift, keys)
                raise
            raise
        did_any = bool(shift.lanes)
        shift.lanes.clear()  # each of them refers to the shift
        return did_any

    def _is_over(self, shift: Shift, began: float) -> bool:
        """Return whether the shift, which began at *began*, is to take no more lanes."""
        is_full = len(shift.group) >= GROUP or self.scheduler.stopping.is_set()
        return is_full or time.perf_counter() - began > self.pace.slice_s

    def _do(self, lane: LiveLane, shift: Shift) -> None:
        """Do the next task of a lane that the shift has taken.

        If this leaves finished work to be committed, the lane joins the group of the shift.
        """
        work = self._look(lane, shift)
        if isinstance(work, LiveRun):
            work = self._act(lane, work, shift)
        if work is not None:
            shift.group.append(lane)

    def _drop(self, shift: Shift, keys: RunningKeys) -> None:
        """End a shift that Ctrl-C interrupted, and hand back its lanes; may be called twice."""
        restore_running_keys(keys)
        for lane in self.scheduler.cut_short(shift):
            self._abandon(lane)
        self._registry.has_missed = True  # a ticket or a worker may have been missed
        self._registry.stir.set()

    # --- one task -----------------------------------------------------------------------------

    def _look(self, lane: LiveLane, shift: Shift) -> LiveRun | Finished | None:
        """Return the next work of a lane.

        The result is the run of the lane if this thread is to do its next task now. It is finished
        work if only a commit is missing. It is None if the lane was handed back to the scheduler,
        or over to the event loop.
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
                return self._pending(lane, run.over())
            is_async = run.action.is_async
        except Exception as error:  # noqa: BLE001 - a condition of the agent: its run is parked
            return self._refused(lane, error)
        if not is_async:
            return run
        self._loop.begin()  # raises `Unavailable` if no loop can be started
        self._loop.call(
            lambda: self._act_async(lane) if self.scheduler.send_away(lane, shift) else None
        )
        return None

    def _next(self, lane: LiveLane) -> LiveRun | None:
        """Begin the next run of a lane, and return the run.

        Return None, and hand the lane back, if no run waits or another process has the lease.
        """
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
        tree, epoch = lane.tree, lane.lease.epoch
        if tree is None or tree.epoch != epoch:
            tree = lane.tree = self.setup.hooks.tree(store, lane.scope, epoch)
        lane.run = run = LiveRun(self.setup, row, epoch=epoch, tree=tree)
        lane.conflicts = lane.hindered = 0
        run.prepare()
        return run

    def _give_up(self, lane: LiveLane) -> None:
        """Release the lease of a lane that has nothing to do."""
        lease = lane.lease
        if lease is not None:
            lane.returned = lease.epoch
            self.setup.engine.store.release_lease(lease)
        self._released(lane)

    def _released(self, lane: LiveLane) -> None:
        lane.tree = None  # it was valid under the released lease only
        self.scheduler.put_down(lane)
        if lane.stuck is not None:
            self._registry.stir.set()

    def _act(self, lane: LiveLane, run: LiveRun, shift: Shift) -> Finished | None:
        """Call the next action of a run. If the action may be slow, commit the group first.

        Return the finished work to be committed, or None if the lane was handed back.
        """
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
                refuse_awaitable(answer, _AWAITABLE.format(action.name))
            finished = run.done(task, release=lambda: self._may_release(lane))
        except Interrupted:
            run.drop()
            self._abandon(lane)
            return None
        except BaseException as error:  # the user's code: its run is parked
            run.drop()
            is_main = threading.current_thread() is threading.main_thread()
            if isinstance(error, KeyboardInterrupt) and is_main:
                raise  # a user interrupted the program: Python raises that in its main thread only
            return self._refused(lane, error)
        finally:
            shift.since = inf
            self.pace.acted(action.name, time.perf_counter() - began, worked)
            if shift.slow:
                self.scheduler.end_slow(shift)
        return self._pending(lane, finished)

    def _pending(self, lane: LiveLane, finished: Finished) -> Finished:
        lane.pending = finished
        return finished

    def _may_release(self, lane: LiveLane, *, parked: bool = False) -> bool:
        """Return whether the commit that ends or parks the run is also to release the lease."""
        with self.scheduler.lock:
            if lane.lease is None:
                return parked
            more = lane.waiting or not lane.complete
            waits = parked and self.setup.plan.agent.on_failed == "wait"
            if more and not waits and not lane.gives_way(lane.lease.epoch):
                return False
            lane.returned = lane.lease.epoch
            return True

    def _abandon(self, lane: LiveLane, *, is_async: bool = False) -> None:
        """Hand back a lane whose task was interrupted. The task begins anew later."""
        if lane.run is not None:
            lane.run.drop()
        lane.drop_run("interrupted")
        with self.scheduler.lock:
            lane.pending = None
            lane.refresh()
        if is_async:
            self._come_back(lane, abandoned=True)
        else:
            self.scheduler.leave(lane, LaneState.READY)

    # --- failures -----------------------------------------------------------------------------

    def _refused(self, lane: LiveLane, error: BaseException) -> Finished | None:
        """Retry, skip or park a task that failed because of *error*.

        Return the finished work to be committed, or None if the lane was handed back.
        """
        run = lane.run
        if isinstance(error, _GONE) and self._is_gone():
            self.fail(error)
            self.scheduler.leave(lane, LaneState.IDLE)
            return None
        is_hindered = isinstance(error, _HINDERED) or type(error) is Unavailable
        if run is None or (is_hindered and self._is_from_store(error)):
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
            return self._pending(lane, finished)
        run.observer.failed(error)
        release = self._may_release(lane, parked=True)
        return self._pending(lane, run.parked(error, release=release))

    def _is_from_store(self, error: BaseException) -> bool:
        """Return whether *error* comes from the runner's store, not from a store of the action.

        If so, the traceback has a method of the runner's store, or of a `Slot`, which records
        durable calls there.
        """
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
        callees = [frame.f_locals.get("self") for frame in frames]
        return any(c is self.setup.engine.store or isinstance(c, Slot) for c in callees)

    def _is_gone(self) -> bool:
        """Return whether the runner's store, and not only a store of the action, was closed."""
        try:
            self.setup.engine.store.run(0)
        except _GONE:
            return True
        except AlveusError as error:
            _LOG.warning("the store could not tell whether it is open: %s", error)
        return False

    def fail(self, error: BaseException) -> None:
        """Stop all work of the runner, and answer all tickets with *error*."""
        self.scheduler.stop()
        self._registry.fail(error)

    def _lost(self, lane: LiveLane) -> None:
        """Hand back a lane whose lease another process took over; drop its uncommitted work."""
        _LOG.warning("a lease was taken over", extra={"agent": self.setup.plan.name})
        lane.drop_run("fenced")
        with self.scheduler.lock:
            lane.lose()
        self.scheduler.leave(lane, LaneState.BLOCKED)
        self._registry.stir.set()

    def _hindered(self, lane: LiveLane, error: BaseException) -> None:
        """Hand a lane back, to be tried again later, because a call of the store failed.

        The pause doubles with each such failure in a row, up to the longest in `RETRY_S`.
        """
        lane.hindered += 1
        if lane.run is None or not lane.run.prepared:
            lane.drop_run("interrupted")
            with self.scheduler.lock:
                lane.refresh()  # a run may have left the queue without being begun
        shortest, longest = RETRY_S
        _LOG.warning("tried again later: %s", error, extra={"agent": self.setup.plan.name})
        self._wait(lane, min(shortest * 2.0 ** min(lane.hindered, 20), longest))

    def _wait(self, lane: LiveLane, pause_s: float) -> None:
        """Hand a lane back to the scheduler, to be ready again after *pause_s* seconds."""
        self.scheduler.put_off(lane, pause_s)
        self._registry.stir.set()

    # --- commits ------------------------------------------------------------------------------

    def settle(self, done: deque[LiveLane]) -> None:
        """Commit the finished work of lanes in one transaction, and continue with each lane."""
        group = [(lane, lane.pending) for lane in drained(done) if lane.pending is not None]
        if not group:
            return
        began = time.perf_counter()
        try:
            answers = self.setup.engine.store.commit_many([finished.batch for _, finished in group])
        except Unavailable as error:  # also if Ctrl-C came in a thread that committed for this one
            for lane, _ in group:
                self._hindered(lane, error)
            return
        except AlveusError as error:
            self.fail(error)
            for lane, _ in group:
                self.scheduler.leave(lane, LaneState.IDLE)
            return
        self.pace.committed(time.perf_counter() - began)
        go_on: list[LiveLane] = []
        for (lane, finished), answer in zip(group, answers, strict=True):
            lane.pending = None
            if not isinstance(answer, Commit):
                self._not_committed(lane, answer)
            elif self._committed(lane, finished, answer):
                go_on.append(lane)
        self.scheduler.leave_ready(go_on)

    def _committed(self, lane: LiveLane, finished: Finished, answer: Commit) -> bool:
        """Record the commit of a lane's finished work.

        Return True if the lane keeps its lease: the caller must then make it ready. Otherwise this
        call handed the lane back.
        """
        run = lane.run
        assert run is not None  # noqa: S101 - its work was committed
        turn = finished.batch.run
        if isinstance(turn, StatusChange) and turn.status == "parked":
            lane.drop_run("parked")
            if self.setup.plan.agent.on_failed == "wait":
                lane.stuck = run.row
            self._registry.look_up(run.row.id)
            lane.complete = lane.complete and lane.stuck is None
            return self._goes_on(lane, finished.batch)
        if answer.adopted:
            return self._adopted(lane, finished.batch)
        lane.conflicts = lane.hindered = 0
        if isinstance(turn, Step):
            run.committed(finished, answer)
        if not run.is_over:
            return True
        lane.drop_run("done")
        goes_on = self._goes_on(lane, finished.batch)
        self._registry.ended(run)
        return goes_on

    def _goes_on(self, lane: LiveLane, batch: Batch) -> bool:
        """Return whether *lane* keeps its lease after the run of *batch*; if not, hand it back."""
        if batch.release and lane.gave_way == batch.epoch:
            self.scheduler.rest(lane)
            self._registry.stir.set()
        elif batch.release:
            self._released(lane)
        return not batch.release

    def _adopted(self, lane: LiveLane, batch: Batch) -> bool:
        """Let a lane be read again: its step had been committed, and the answer was lost.

        Return whether the lane keeps its lease; if not, hand it back.
        """
        lane.drop_run("interrupted")
        with self.scheduler.lock:
            lane.refresh()
        if batch.release:  # another process may have the key by now
            self._released(lane)
        return not batch.release

    def _not_committed(self, lane: LiveLane, error: AlveusError) -> None:
        lane.tree = None
        with self.scheduler.lock:  # the lease was not released after all
            lane.returned = 0 if lane.lease is None else lane.lease.epoch - 1
        if isinstance(error, StaleRun) or lane.run is None:
            self._lost(lane)
            return
        # other writers added items since the action read the set
        if isinstance(error, (KeyBusy, DuplicateItem)) and self._begins_anew(lane):
            return
        if self._refused(lane, error) is not None:
            self.settle(deque([lane]))

    def _begins_anew(self, lane: LiveLane) -> bool:
        """Make a lane ready to repeat its task at once.

        Return False if the task was repeated too often; the lane is then not made ready.
        """
        lane.conflicts += 1
        if lane.conflicts > CONFLICTS:
            return False
        self.scheduler.leave(lane, LaneState.READY)
        return True

    # --- async actions ------------------------------------------------------------------------

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
            self._abandon(lane, is_async=True)
        except BaseException as error:
            if isinstance(error, GeneratorExit) and self.scheduler.stopping.is_set():
                raise  # the coroutine was dropped with its loop
            if isinstance(error, asyncio.CancelledError) and self.scheduler.stopping.is_set():
                self._abandon(lane, is_async=True)
                return
            run.drop()
            lane.failure = error
            self._come_back(lane)
        else:
            self._pending(lane, finished)
            self._come_back(lane)

    def _come_back(self, lane: LiveLane, *, abandoned: bool = False) -> None:
        """Continue with a lane whose async action ended, and start the next waiting async action.

        Args:
            abandoned: Whether the action was cancelled; the lane is then not made ready.
        """
        following = self.scheduler.come_back(lane, abandoned=abandoned)
        if following is not None:
            self._loop.call(partial(self._act_async, following))

    def stop(self, wait_s: float) -> bool:
        """Stop, and wait up to *wait_s* for tasks in progress; return whether all of them ended.

        Tasks that end later commit nothing.
        """
        self.scheduler.stop()
        ended = self.scheduler.join(wait_s)
        self._loop.stop()
        for run in [lane.run for lane in list(self.scheduler.lanes.values())]:
            if run is not None:
                run.observer.end("interrupted")
        return ended


def _moved_on(error: BaseException) -> bool:
    """Return whether *error* says that other writers changed items: the task is then repeated."""
    return isinstance(error, (StaleItem, SetMoved)) or (
        isinstance(error, SetFull) and error.compacts and error.strategy is None
    )
