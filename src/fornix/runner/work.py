"""The work of a runner: the next task of a lane is done, and committed with those of others.

How many tasks share a commit depends on how long their actions take. Async actions run side by
side on one event loop, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from fornix.errors import (
    ForkedStore,
    FornixError,
    KeyBusy,
    StaleItem,
    StaleRun,
    StoreBusy,
    StoreClosed,
    StoreFull,
    StoreReadOnly,
)
from fornix.run import Finished, Interrupted, LiveRun, RunRecorder, Shop
from fornix.runner.floor import Floor
from fornix.runner.lanes import Kind, LiveLane, Pending, State
from fornix.runner.loop import Loop
from fornix.store import Commit, Run

_LOG = logging.getLogger(__name__)

GROUP = 64
"""Tasks that are committed together at most."""

SLICE_S = 0.002
"""How long a worker goes on before it commits: what the first of a group waits at most, if all
its actions are quick."""

QUICK_S = 0.001
"""Actions that took less lately are done one after the other by one worker."""

LATELY = 0.3
"""Weight of the last time an action took, in the average of how long it takes lately."""

CONFLICTS = 10
"""How often a task begins again at once because an item that it changes had moved on."""

RETRY_S = (0.01, 5.0)
"""Shortest and longest wait before work is tried again that the store could not take."""

_HINDERED = (StoreBusy, StoreFull, StoreReadOnly)
"""What hinders the store, and is not the fault of an action."""

_GONE = (StoreClosed, ForkedStore)
"""What ends all work of this process on the store."""


class Listener(Protocol):
    """Who is told what became of runs."""

    def ended(self, run: LiveRun) -> None:
        """A run is over: its last task is committed."""
        ...

    def parked(self, row: Run, error: Exception) -> None:
        """A run is parked."""
        ...

    def stuck(self, lane: LiveLane) -> None:
        """A lane waits behind a parked run, or behind somebody else's lease."""
        ...

    def failed(self, error: BaseException) -> None:
        """The store cannot be used any more; nothing will end."""
        ...


class Work:
    """Does the tasks of lanes. Every method may be called from any thread."""

    def __init__(self, shop: Shop, owner: str, listener: Listener, *, concurrency: int) -> None:
        self.shop, self.owner = shop, owner
        self.floor = Floor(shop.plan.name, self.once, concurrency=concurrency)
        self._listener = listener
        self._took: dict[str, float] = {}
        self._loop = Loop(f"fornix-{shop.plan.name}-loop")

    def once(self) -> bool:
        """Do what is ready, up to a group, and commit it; return whether there was anything."""
        group: list[Pending] = []
        taken: list[LiveLane] = []
        began = time.perf_counter()
        if not self.floor.enter():
            return False
        try:
            while len(group) < GROUP and not self.floor.stopping.is_set():
                lane = self.floor.take()
                if lane is None:
                    break
                taken.append(lane)
                found = self.look(lane)
                if isinstance(found, LiveRun):
                    found = self._act(lane, found, group)
                if found is not None:
                    group.append(found)
                if time.perf_counter() - began > SLICE_S:
                    break
            self.settle(group)
        except BaseException:
            self._drop(taken)
            raise
        finally:
            self.floor.exit()
        return bool(taken)

    def on(self, lane: LiveLane) -> bool:
        """Do the next task of a lane in the calling thread, if it is ready and nobody is at it."""
        if not self.floor.claim(lane):
            return False
        try:
            found = self.look(lane)
            if isinstance(found, LiveRun):
                found = self._act(lane, found, [])
            if found is not None:
                self.settle([found])
        except BaseException:
            self._drop([lane])
            raise
        finally:
            self.floor.exit()
        return True

    def _drop(self, lanes: Sequence[LiveLane]) -> None:
        """Put lanes down that this thread has in hand: a Ctrl-C came in the middle of them."""
        me = threading.get_ident()
        for lane in lanes:
            if lane.state is State.TAKEN and lane.worker == me:
                self._abandon(lane)

    # --- one task -----------------------------------------------------------------------------

    def look(self, lane: LiveLane) -> LiveRun | Pending | None:
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
            if run.over:
                return self._pending(lane, "over", Finished(run.turned("done")))
            is_async = run.action.is_async
        except Exception as error:  # noqa: BLE001 - an agent's own condition: its run is parked
            return self._refused(lane, error)
        if not is_async:
            return run
        self._send_away(lane)
        return None

    def _next(self, lane: LiveLane) -> LiveRun | None:
        """Begin the next run of a lane; None: there is none, and the lane is put down."""
        plan, store = self.shop.plan, self.shop.engine.store
        if lane.lease is None:
            lane.lend(store.lease(lane.scope, self.owner))
            lane.refresh()
            if lane.lease is None:
                self.floor.leave(lane, State.BLOCKED)
                self._listener.stuck(lane)
                return None
        if not lane.waiting and not lane.complete:
            lane.load(store, plan.name, plan.agent.on_failed)
        if not lane.waiting:
            self._give_up(lane)
            return None
        row = lane.waiting.popleft()
        lane.run = run = LiveRun(self.shop, row, epoch=lane.lease.epoch)
        lane.conflicts = 0
        run.prepare()
        return run

    def _give_up(self, lane: LiveLane) -> None:
        """Give back the lease of a lane that has nothing to do."""
        lease = lane.lease
        if lease is not None:
            lane.returned = lease.epoch
            self.shop.engine.store.release(lease)
        self._released(lane)

    def _released(self, lane: LiveLane) -> None:
        self.floor.put_down(lane)
        if lane.stuck is not None:
            self._listener.stuck(lane)

    def _act(self, lane: LiveLane, run: LiveRun, group: list[Pending]) -> Pending | None:
        """Do the next task of a run; what is slow keeps no finished task of *group* waiting."""
        action = run.action
        slow = self._took.get(action.name, 1.0) > QUICK_S
        if slow:
            self.settle(group)
            group.clear()
            self.floor.begin_slow()
        began = time.perf_counter()
        try:
            task, event, context = run.begin(RunRecorder(run, self.floor.stopping))
            action.call(event, context if action.adapt is None else action.adapt(context))
            finished = run.done(task, release=lambda: self._may_release(lane))
        except Interrupted:
            self._abandon(lane)
            return None
        except Exception as error:  # noqa: BLE001 - the user's code: recorded, and its run parked
            return self._refused(lane, error)
        finally:
            took = time.perf_counter() - began
            last = self._took.get(action.name, took)
            self._took[action.name] = last + LATELY * (took - last)
            if slow:
                self.floor.end_slow()
        return self._pending(lane, "step", finished)

    def _pending(self, lane: LiveLane, kind: Kind, finished: Finished) -> Pending:
        lane.pending = Pending(lane, kind, finished)
        return lane.pending

    def _may_release(self, lane: LiveLane) -> bool:
        """Return whether the lease goes back with the commit that ends the run."""
        with self.floor.lock:
            if lane.waiting or not lane.complete or lane.lease is None:
                return False
            lane.returned = lane.lease.epoch
            return True

    def _abandon(self, lane: LiveLane) -> None:
        """Put a lane down whose task was interrupted: it begins anew when somebody takes it up."""
        with self.floor.lock:
            lane.run, lane.pending = None, None
            lane.refresh()
        self.floor.leave(lane, State.IDLE)

    # --- what fails ---------------------------------------------------------------------------

    def _refused(self, lane: LiveLane, error: Exception) -> Pending | None:
        """Decide what becomes of a task that failed."""
        run = lane.run
        if isinstance(error, _GONE):
            self._fail(error)
            return None
        if isinstance(error, _HINDERED) or run is None:
            self._wait(lane, error)
            return None
        if isinstance(error, StaleRun):
            self._lost(lane)
            return None
        action = None if run.over else self.shop.plan.actions.get(run.next_action)
        if action is not None and action.retry.again(error, run.attempt):
            self._wait(lane, error, action.retry.pause_s(run.attempt))
            return None
        if action is not None and action.on_error == "skip":
            finished = run.skipped(error, release=lambda: self._may_release(lane))
            return self._pending(lane, "step", finished)
        with self.floor.lock:
            lane.returned = lane.returned if lane.lease is None else lane.lease.epoch
        pending = self._pending(lane, "parked", Finished(run.turned("parked", error)))
        pending.error = error
        return pending

    def _fail(self, error: FornixError) -> None:
        """Stop: the store cannot be used any more."""
        self.floor.stop()
        self._listener.failed(error)

    def _lost(self, lane: LiveLane) -> None:
        """Put a lane down whose lease somebody took over; what was not committed is theirs."""
        _LOG.warning("a lease was taken over", extra={"agent": self.shop.plan.name})
        with self.floor.lock:
            lane.lose()
        self.floor.leave(lane, State.BLOCKED)
        self._listener.stuck(lane)

    def _wait(self, lane: LiveLane, error: Exception, pause_s: float | None = None) -> None:
        """Have a lane tried again later."""
        if pause_s is None:
            lane.conflicts += 1
            shortest, longest = RETRY_S
            pause_s = min(shortest * 2.0 ** min(lane.conflicts, 20), longest)
            _LOG.warning("tried again later: %s", error, extra={"agent": self.shop.plan.name})
        self.floor.put_off(lane, pause_s)
        self._listener.stuck(lane)

    # --- commits ------------------------------------------------------------------------------

    def settle(self, group: list[Pending]) -> None:
        """Commit what was done, in one transaction, and go on with each lane."""
        if not group:
            return
        try:
            answers = self.shop.engine.store.commit_many([p.batch for p in group])
        except _HINDERED as error:
            for pending in group:
                self._wait(pending.lane, error)
            return
        except FornixError as error:
            self._fail(error)
            return
        for pending, answer in zip(group, answers, strict=True):
            pending.lane.pending = None
            if isinstance(answer, Commit):
                self._committed(pending, answer)
            else:
                self._not_committed(pending, answer)

    def _committed(self, pending: Pending, answer: Commit) -> None:
        lane, run = pending.lane, pending.lane.run
        assert run is not None  # noqa: S101 - it was what was committed
        if pending.kind == "parked":
            lane.run = None
            assert pending.error is not None  # noqa: S101 - it says why
            if self.shop.plan.agent.on_failed == "wait":
                lane.stuck = run.row
            self._listener.parked(run.row, pending.error)
            lane.complete = lane.complete and lane.stuck is None
            self._released(lane)
            return
        if answer.adopted:  # the answer to an earlier commit of this step was lost
            with self.floor.lock:
                lane.run, lane.known, lane.complete = None, None, False
                lane.waiting.clear()
            self.floor.leave(lane, State.READY)
            return
        if pending.kind == "step":
            run.committed(pending.finished, answer.number)
        if not run.over:
            self.floor.leave(lane, State.READY)
            return
        lane.run = None
        if pending.batch.release:
            self._released(lane)
        else:
            self.floor.leave(lane, State.READY)
        self._listener.ended(run)

    def _not_committed(self, pending: Pending, error: FornixError) -> None:
        lane, run = pending.lane, pending.lane.run
        with self.floor.lock:  # the lease was not given back after all
            lane.returned = 0 if lane.lease is None else lane.lease.epoch - 1
        if isinstance(error, StaleRun) or run is None:
            self._lost(lane)
        elif isinstance(error, (StaleItem, KeyBusy)) and lane.conflicts < CONFLICTS:
            lane.conflicts += 1
            self.floor.leave(lane, State.READY)
        else:
            refused = self._refused(lane, error)
            if refused is not None:
                self.settle([refused])

    # --- async actions ------------------------------------------------------------------------

    def _send_away(self, lane: LiveLane) -> None:
        if self.floor.send_away(lane) is not None:
            self._loop.run(self._act_async(lane))

    async def _act_async(self, lane: LiveLane) -> None:
        run = lane.run
        assert run is not None  # noqa: S101 - the lane was sent away with it
        action = run.action
        try:
            task, event, context = run.begin(RunRecorder(run, self.floor.stopping))
            await action.call(event, context if action.adapt is None else action.adapt(context))
            finished = run.done(task, release=lambda: self._may_release(lane))
        except (Interrupted, asyncio.CancelledError):
            lane.run = None
            lane.refresh()
            self._come_back(lane, abandoned=True)
        except Exception as error:  # noqa: BLE001 - the user's code: recorded, and its run parked
            lane.failure = error
            self._come_back(lane)
        else:
            self._pending(lane, "step", finished)
            self._come_back(lane)

    def _come_back(self, lane: LiveLane, *, abandoned: bool = False) -> None:
        """Have a lane gone on with, and let another one that waited go away."""
        following = self.floor.come_back(lane, abandoned=abandoned)
        if following is not None:
            self._loop.run(self._act_async(following))

    def stop(self, wait_s: float) -> bool:
        """Let tasks at work end, up to *wait_s*; return whether all did.

        What goes on after that is fenced: it commits nothing.
        """
        self.floor.stop()
        ended = self.floor.join(wait_s)
        self._loop.stop()
        return ended
