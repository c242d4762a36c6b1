"""One run: an input, the tasks it leads to, and how far they are.

Tasks go one after the other, those that an event sets off before those of later events. Each is
one batch; after a crash the steps that were committed stand, and the first other task begins anew.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import cast

from alveus.errors import AgentChanged, RunTooLong, StaleRun
from alveus.runs.agent import BoundAction, DispatchTable
from alveus.runs.durable_calls import Calls, message_of
from alveus.runs.memory_recorder import MemoryRecorder, snapshot
from alveus.runs.task import Done, RunnerContext, Task, TaskEnvironment
from alveus.sets.writer import Engine
from alveus.state import MemoryKind, PathCache, Ttl, committed_tree
from alveus.state.committed_tree import LeasedTree
from alveus.store import (
    Batch,
    Begin,
    Commit,
    DurableCall,
    Ledger,
    Progress,
    Run,
    RunStatus,
    Scope,
    StatusChange,
    Step,
)
from alveus.values import wire
from alveus.values.events import (
    Event,
    MemoryEvent,
    OutputEvent,
    RunBeginEvent,
    plain,
    restored,
    silent,
    written,
)
from alveus.values.forks import Flag
from alveus.values.lazy_dataclass import dataclass
from alveus.values.retries import ONCE
from alveus.values.storable import Value

TRACEBACK_CHARS = 20_000
"""Characters of a parked run's traceback that are kept, its end first of all."""


LOOK_S = 0.05
"""How often a pause of an async action looks whether its runner closes."""

RUN_BEGIN = "<run begin>"
"""The task that goes before all others where the beginning of a run is told."""


class Interrupted(BaseException):
    """Ends a task whose runner is closing; nothing of it is kept, and it begins anew later.

    Not an `Exception`: an action's own `except Exception` is not to hold it up.
    """


@dataclass(frozen=True, slots=True)
class RunnerHooks:
    """What a runner that is built on another one does in its own way.

    Attributes:
        tree: Makes the tree of a key under a lease, from the ledger, the scope and the epoch.
        prune_until: Returns the time until which what ended may be pruned, in microseconds; None:
            nothing may yet.
    """

    tree: Callable[[Ledger, Scope, int], LeasedTree] = LeasedTree
    prune_until: Callable[[], int | None] | None = None


@dataclass(frozen=True, slots=True)
class RunnerSetup:
    """What all runs of one runner have in common."""

    engine: Engine
    plan: DispatchTable
    space: str
    knowledge: str
    ttl: Ttl | None
    hooks: RunnerHooks = RunnerHooks()
    paths: PathCache = field(default_factory=partial(PathCache, MemoryKind.SHORT_TERM))
    sensory_paths: PathCache = field(default_factory=partial(PathCache, MemoryKind.SENSORY))


@dataclass(slots=True, eq=False)
class Finished:
    """A task whose action has returned: what it did, and what is to be committed.

    Attributes:
        follow: The events it sent, each with the actions that it sets off.
    """

    batch: Batch
    did: Done | None = None
    follow: Sequence[tuple[Event, tuple[str, ...]]] = ()


@dataclass(slots=True, eq=False)
class Due:
    """A task that is to be done.

    Attributes:
        bound_action: The action, once somebody asked for it.
    """

    ordinal: int
    action: str
    event: Event
    bound_action: BoundAction | None = None


class LiveRun:
    """A run under way, for the owner of its key's lease; used by one thread at a time.

    Attributes:
        outputs: Those of the tasks done by this object, in order.
        resumed: Some tasks were done before, by others or before a crash.
        prepared: It is known what is to be done.
        attempt: How often the task that is next was begun here.
        failures: How often it failed here.
        fenced: The lease was taken over, or the run was ended by somebody else.
        observer: Is called as actions and durable calls are made, and as the run ends.
    """

    def __init__(
        self,
        setup: RunnerSetup,
        row: Run,
        *,
        epoch: int,
        tree: LeasedTree,
    ) -> None:
        self.setup, self.row, self.epoch = setup, row, epoch
        self.outputs: list[Event] = []
        self.resumed = self.prepared = self.fenced = False
        self.attempt = self.failures = 0
        self.observer = setup.engine.store.observer.run(row, setup.plan.class_name)
        self._due: deque[Due] = deque()
        self._next = 0
        self._begin: Begin | None = None
        self._tree = tree
        self._now = row.now if row.now is not None else setup.engine.clock()
        # fmt: off
        self._env = TaskEnvironment(
            setup.engine, row.scope, tree, setup.knowledge, setup.plan.name, row.scope.key or "",
            row.id, row.number, self._now, setup.sensory_paths, setup.paths, setup.ttl,
        )
        # fmt: on
        self._recorded: list[DurableCall] | None = None
        self._task: Task | None = None
        self._parked_at = None if row.error is None else parked_at(row.error)

    # --- how far it is ------------------------------------------------------------------------

    def prepare(self) -> None:
        """Find out what is to be done: what the input sets off, or what is left after a crash.

        Raises:
            AgentChanged: The agent lacks what the run needs.
            Exception: What a condition of the agent raised.
        """
        engine, row = self.setup.engine, self.row
        stored = wire.decode(row.event)
        event = restored(
            stored,
            key=row.scope.key or "",
            types=self.setup.plan.types,
            event_id=str(row.id),
            time=row.accepted,
        )
        if row.actions is None:
            plan = self.setup.plan
            if not plan.asks_for(type(event)):
                raise AgentChanged(
                    f"the input of run {row.id} is an {event.type}, for which agent {plan.name!r} "
                    "no longer has an action; bring it back and retry the run, or discard it"
                )
            actions = plan.set_off(event) if plan.run_begin == "off" else (RUN_BEGIN,)
            self._begin = Begin(self._now, actions)
            self._enqueue(event, actions)
            self._recorded = [] if row.now is None else None
            self.prepared = True
            return
        self._enqueue(event, row.actions)
        for step in engine.store.steps(row.id):
            self._due.popleft()
            self.resumed = True
            if step.sensory is not None:
                self._env.merge_sensory(committed_tree.deltas_from_json(wire.decode(step.sensory)))
            if step.sent is not None:
                self._enqueue_stored(wire.decode(step.sent))
        self.prepared = True

    def _enqueue(self, event: Event, actions: tuple[str, ...]) -> None:
        for name in actions:
            self._due.append(Due(self._next, name, event))
            self._next += 1

    def _enqueue_stored(self, sent: Value) -> None:
        for stored, actions in cast("list[tuple[Value, list[str]]]", sent):
            if actions:
                key, types = self.row.scope.key or "", self.setup.plan.types
                event = restored(stored, key=key, types=types, event_id="", time=self._now)
                self._enqueue(event, tuple(actions))

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be done."""
        return not self._due

    @property
    def next_action(self) -> str:
        """The name of the action of the next task; empty: there is none, or it is not known."""
        return self._due[0].action if self._due and self.prepared else ""

    @property
    def action(self) -> BoundAction:
        """The action of the next task.

        Raises:
            AgentChanged: The agent lacks it.
            RunTooLong: The run has done all that it may.
        """
        due, limit = self._due[0], self.setup.plan.agent.max_tasks
        if due.ordinal >= limit:
            key = self.row.scope.key or ""
            raise RunTooLong(self.row.id, key, action=due.action, limit=limit)
        if due.bound_action is None:
            due.bound_action = self._action_named(due.action)
        return due.bound_action

    def _action_named(self, name: str) -> BoundAction:
        if name == RUN_BEGIN:
            return BoundAction(RUN_BEGIN, (), self._tell_begin, None, "fail", ONCE, is_async=False)
        action = self.setup.plan.actions.get(name)
        if action is None:
            raise AgentChanged(
                f"run {self.row.id} needs the action {name!r}, which agent "
                f"{self.setup.plan.name!r} no longer has; bring it back and retry the run, or "
                "discard it"
            )
        return action

    # --- the next task ------------------------------------------------------------------------

    def begin(self, action: BoundAction, stopping: Flag) -> tuple[Task, Event, RunnerContext]:
        """Return the next task, ready for `call` or `acall`.

        Args:
            action: That of the task, as `action` gives it; for these two as well.
            stopping: Set when the task is not to wait any longer.
        """
        due = self._due[0]
        calls = partial(self._calls_for, due.ordinal, action, stopping)
        self.attempt += 1
        recorder = None
        if self.setup.plan.reported or self.setup.engine.listeners.kinds:
            recorder = self._recorder(due)
        task = Task(self._env, action, due.ordinal, self.attempt, action.is_async, calls, recorder)
        self._task = task
        event = due.event if due.event.shared() else due.event.copied()
        return task, event, RunnerContext(task)

    def call(self, action: BoundAction, event: Event, context: RunnerContext) -> object:
        """Return what the action of the next task returns."""
        argument = context if action.adapt is None else action.adapt(context)
        with self.observer.action(action.name, self.attempt):
            return action.call(event, argument)

    async def acall(self, action: BoundAction, event: Event, context: RunnerContext) -> None:
        """Await the action of the next task, which is async, and each durable call of it."""
        task = self._task
        assert task is not None  # noqa: S101 - it has begun
        argument = context if action.adapt is None else action.adapt(context)
        with self.observer.action(action.name, self.attempt):
            await action.call(event, argument)
            task.check_awaited()

    def _calls_for(self, ordinal: int, action: BoundAction, stopping: Flag) -> Calls:
        """Return the durable calls of a task, which most tasks never ask for."""
        return Calls(
            self.row.id,
            ordinal,
            action.name,
            self.setup.engine.store.salt(),
            RunRecorder(self, stopping),
            on_mismatch=self.setup.plan.agent.on_mismatch,
            is_async=action.is_async,
            recorded={call.position: call for call in self._calls_of(ordinal)},
            retried=self.failures > 0 or self._parked_at == ordinal,
            observer=self.observer,
        )

    def _recorder(self, due: Due) -> MemoryRecorder | None:
        if due.action == RUN_BEGIN or silent(due.event):
            return None
        details = self.setup.plan.reported_with(self.setup.engine.listeners.kinds)
        return MemoryRecorder(details, self.row.scope) if details else None

    def _tell_begin(self, event: Event, context: RunnerContext) -> None:
        """Tell what is in short-term memory, and go on with the input."""
        detail = "paths" if self.setup.plan.run_begin == "paths" else "values"
        context.send_event(RunBeginEvent(snapshot(context.short_term_memory, detail), detail))
        assert self._task is not None  # noqa: S101 - it is at work
        self._task.pass_on(event)  # the input, under the id that it came with

    def _calls_of(self, ordinal: int) -> list[DurableCall]:
        """Return what is recorded of a task; asked of the store once it may be anything."""
        if self._recorded is not None:
            return self._recorded
        return self.setup.engine.store.durable_calls(self.row.id, ordinal)

    def called(self, call: DurableCall) -> Batch:
        """Return the batch that keeps a durable call of the task."""
        self._recorded = None
        return self._batch(replace(call, begin=self._begin), release=False)

    def done(self, task: Task, *, release: Callable[[], bool]) -> Finished:
        """Return what is to be committed of a task whose action has returned.

        Args:
            release: Asked if the run ends with it: whether the lease is given back.
        """
        did = task.close()
        self._task = None
        follow: list[tuple[Event, tuple[str, ...]]] = []
        sent: list[Value] = []
        outputs: list[str] = []
        for event in did.sent:
            actions = self.setup.plan.set_off(event)
            if actions:
                follow.append((event, actions))
            if isinstance(event, OutputEvent):
                outputs.append(written(event))
            if actions or self._is_stored(event):
                sent.append([plain(event), [*actions]])
        is_last = len(self._due) == 1 and not follow
        sensory = () if is_last else did.sensory
        step = Step(
            run=self.row.id,
            ordinal=task.ordinal,
            action=task.action.name,
            sent=wire.encode(sent) if sent else None,
            sensory=wire.encode(committed_tree.deltas_to_json(sensory)) if sensory else None,
            read_set=did.read_set,
            outputs=outputs,
            begin=self._begin,
            done=is_last,
        )
        return Finished(self._batch(step, did, release=is_last and release()), did, follow)

    def _is_stored(self, event: Event) -> bool:
        """Return whether the step holds an event that sets nothing off."""
        if isinstance(event, MemoryEvent):
            return type(event) in self.setup.plan.stored
        return not isinstance(event, OutputEvent)

    def drop(self) -> None:
        """Close the context of a task that did not return; what it did is not kept."""
        if self._task is not None:
            self._task.seal(
                f"this attempt at action {self.next_action!r} of run {self.row.id} is over; what "
                "is done with its context now would be lost"
            )

    def skipped(self, error: BaseException, *, release: Callable[[], bool]) -> Finished:
        """Return the batch of a task that failed and that its agent goes on without."""
        due, is_last = self._due[0], len(self._due) == 1
        step = Step(
            run=self.row.id,
            ordinal=due.ordinal,
            action=due.action,
            skipped=error_record(error, due.action, due.ordinal),
            begin=self._begin,
            done=is_last,
        )
        return Finished(self._batch(step, release=is_last and release()))

    def turned(
        self, status: RunStatus, error: BaseException | None = None, *, release: bool = True
    ) -> Batch:
        """Return the batch that parks the run, or ends one without tasks.

        Args:
            release: Whether the lease is given back.
        """
        ordinal = self._due[0].ordinal if self._due else 0
        text = None if error is None else error_record(error, self.next_action, ordinal)
        turn = StatusChange(self.row.id, "waiting", status, error=text, begin=self._begin)
        return self._batch(turn, release=release)

    def _batch(self, progress: Progress, did: Done | None = None, *, release: bool) -> Batch:
        engine, draft = self.setup.engine, None if did is None else did.draft
        state = () if did is None else did.short
        if draft is None:
            return Batch(
                scope=self.row.scope,
                time=engine.clock(),
                epoch=self.epoch,
                run=progress,
                release=release,
                base=self._tree.head() if state else None,
                state=state,
            )
        draft.recheck()
        now, corroborated = engine.clock.times()
        return Batch(
            scope=self.row.scope,
            time=now,
            corroborated=corroborated,
            epoch=self.epoch,
            run=progress,
            release=release,
            expects=engine.expects if draft.items else (),
            base=self._tree.head() if state else None,
            state=state,
            define=draft.define,
            items=draft.items,
            admission_checks=tuple(draft.admission_checks.values()),
            limits=engine.limits,
        )

    # --- after a commit -----------------------------------------------------------------------

    def recorded(self) -> None:
        """Note that a batch of the run was committed: its beginning need not be told again."""
        self._begin = None

    def committed(self, finished: Finished, commit: Commit) -> None:
        """Go on to the next task, now that the one before it was committed."""
        did = finished.did
        self._begin = None
        self._due.popleft()
        self.attempt = self.failures = 0
        self._recorded = []
        if did is None:
            return
        if did.short:
            self._tree.apply(did.short, commit.number)
        for event, actions in finished.follow:
            self._enqueue(event, actions)
        for event in did.sent:
            if isinstance(event, OutputEvent):
                self.outputs.append(event)
        if self._due and did.sensory:
            self._env.merge_sensory(did.sensory)
        if did.draft is not None:
            self.setup.engine.written(did.draft.items, commit)
        if self.setup.engine.listeners.kinds:
            self.setup.engine.listeners.tell(did.sent)


class RunRecorder:
    """Writes the durable calls of a task down, each in a commit of its own."""

    def __init__(self, run: LiveRun, stopping: Flag) -> None:
        self._run, self._stopping = run, stopping

    def record(self, call: DurableCall) -> None:
        """Keep a call; durable when this returns."""
        run = self._run
        try:
            answer = run.setup.engine.store.commit(run.called(call))
        except StaleRun:
            run.fenced = True
            raise
        if answer.adopted:  # whoever has the key by now has made it: that one's outcome stands
            run.fenced = True
            what = f"durable call {call.position} of run {call.run}"
            raise StaleRun(run.row.scope.key or "", expected="open", found="over", what=what)
        run.recorded()

    def pause(self, seconds: float) -> None:
        """Wait before another try; raises `Interrupted` when the runner closes."""
        if self._stopping.wait(seconds):
            raise Interrupted

    async def apause(self, seconds: float) -> None:
        """Wait as `pause` does, and let others on the event loop go on."""
        deadline = time.monotonic() + seconds
        while (remaining_s := deadline - time.monotonic()) > 0 and not self._stopping.is_set():  # noqa: ASYNC110 - what is waited for is set by a thread
            await asyncio.sleep(min(remaining_s, LOOK_S))
        if self._stopping.is_set():
            raise Interrupted


def parked_at(error: str) -> int | None:
    """Return the ordinal of the task that failed, as `error_record` says."""
    return cast("dict[str, int]", wire.decode(error)).get("ordinal")


def error_record(error: BaseException, action: str, ordinal: int) -> str:
    """Return what is kept of the error of an action, in wire form."""
    text = "".join(traceback.format_exception(error)).encode(errors="replace").decode()
    record: Value = {
        "action": action,
        "ordinal": ordinal,
        "type": type(error).__qualname__,
        "message": message_of(error)[:TRACEBACK_CHARS],
        "traceback": text[-TRACEBACK_CHARS:],
    }
    return wire.encode(record)
