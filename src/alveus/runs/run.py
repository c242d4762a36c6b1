"""One run: an input, the tasks that the input leads to, and their progress.

Tasks run one after the other, in the order of the events that trigger them. Each is committed as
one batch. After a crash the committed steps stay, and the next task begins anew.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from alveus.errors import AgentChanged, RunTooLong, StaleRun
from alveus.runs.agent import BoundAction
from alveus.runs.durable_calls import Calls, message_of
from alveus.runs.memory_recorder import MemoryRecorder, snapshot
from alveus.runs.task import Done, RunnerContext, RunnerSetup, Task, TaskEnvironment
from alveus.state import committed_tree
from alveus.state.committed_tree import LeasedTree
from alveus.store import (
    Batch,
    Begin,
    Commit,
    DurableCall,
    Progress,
    Run,
    RunStatus,
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
"""The number of characters of a parked run's traceback that are kept, from the end of it."""

RUN_BEGIN = "<run begin>"
"""The name of the first task's action if a run sends a `RunBeginEvent` as it begins."""


@dataclass(slots=True, eq=False)
class Finished:
    """A finished piece of work of a run, to be committed.

    Attributes:
        batch: The changes to commit. They include a `Step` if a task is done or skipped, else a
            `StatusChange` that ends or parks the run.
        did: The effects of the action, or None if no action returned.
        follow: The events of the action that trigger actions, each with the names of these.
    """

    batch: Batch
    did: Done | None = None
    follow: Sequence[tuple[Event, tuple[str, ...]]] = ()


@dataclass(slots=True, eq=False)
class Due:
    """A task to be done.

    Attributes:
        ordinal: The number of the task in its run, from 0.
        action: The name of the action.
        bound_action: The action of this name, or None before its first lookup.
    """

    ordinal: int
    action: str
    event: Event
    bound_action: BoundAction | None = None


class LiveRun:
    """A run in progress. Its process has the lease of the key; one thread at a time uses it.

    Attributes:
        outputs: The outputs of the tasks that this object did, in order.
        resumed: Whether some tasks were done before, by another process or before a crash.
        prepared: Whether the tasks to be done are known.
        attempt: The number of attempts at the next task by this object.
        failures: The number of these attempts that failed.
        fenced: Whether another process took over the lease, or ended the run.
        observer: Is called for each action and durable call, and when the run ends.
    """

    def __init__(self, setup: RunnerSetup, row: Run, *, epoch: int, tree: LeasedTree) -> None:
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
        self._env = TaskEnvironment(setup, row, tree, self._now)
        self._recorded: list[DurableCall] | None = None
        self._task: Task | None = None
        parked = None if row.error is None else cast("dict[str, int]", wire.decode(row.error))
        self._parked_at = None if parked is None else parked.get("ordinal")

    # --- progress -----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Find the tasks to be done: all tasks of the input, or the remaining ones after a crash.

        Raises:
            AgentChanged: The agent no longer has an event class of the run, or any action for the
                input.
            Exception: A condition (``when=``) of the agent raised it.
        """
        engine, row = self.setup.engine, self.row
        event = self._restored(wire.decode(row.event), str(row.id), row.accepted)
        if row.actions is None:
            plan = self.setup.plan
            if not plan.asks_for(type(event)):
                raise AgentChanged(
                    f"the input of run {row.id} is an {event.type}, for which agent "
                    f"{plan.name!r} no longer has an action; restore the action and retry the "
                    "run, or discard the run"
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
            sent = wire.decode(step.sent) if step.sent is not None else []
            for stored, actions in cast("list[tuple[Value, list[str]]]", sent):
                if actions:
                    self._enqueue(self._restored(stored, "", self._now), tuple(actions))
        self.prepared = True

    def _enqueue(self, event: Event, actions: tuple[str, ...]) -> None:
        for name in actions:
            self._due.append(Due(self._next, name, event))
            self._next += 1

    def _restored(self, stored: Value, event_id: str, time: int) -> Event:
        key, types = self.row.scope.key or "", self.setup.plan.types
        return restored(stored, key=key, types=types, event_id=event_id, time=time)

    @property
    def is_over(self) -> bool:
        """Whether all tasks are done."""
        return not self._due

    @property
    def next_action(self) -> str:
        """The name of the next task's action, or "" if no task is left or none is known yet."""
        return self._due[0].action if self._due and self.prepared else ""

    @property
    def action(self) -> BoundAction:
        """The action of the next task.

        Raises:
            AgentChanged: The agent no longer has the action.
            RunTooLong: The run reached its limit of tasks.
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
            return BoundAction(RUN_BEGIN, (), self._send_begin, None, "fail", ONCE, is_async=False)
        action = self.setup.plan.actions.get(name)
        if action is None:
            raise AgentChanged(
                f"run {self.row.id} needs the action {name!r}, which agent "
                f"{self.setup.plan.name!r} no longer has; restore the action and retry the run, "
                "or discard the run"
            )
        return action

    # --- the next task ------------------------------------------------------------------------

    def begin(self, action: BoundAction, stopping: Flag) -> tuple[Task, Event, RunnerContext]:
        """Return the next task with its event and context, ready for `call` or `acall`.

        Args:
            action: The action of the task; pass the property `action`.
            stopping: A flag that the runner sets when durable calls are to stop waiting.
        """
        due = self._due[0]
        calls = partial(self._calls_for, due.ordinal, action, stopping)
        self.attempt += 1
        recorder, plan = None, self.setup.plan
        listened = self.setup.engine.listeners.kinds
        if (plan.reported or listened) and due.action != RUN_BEGIN and not silent(due.event):
            details = plan.reported_with(listened)
            recorder = MemoryRecorder(details, self.row.scope) if details else None
        task = Task(self._env, action, due.ordinal, self.attempt, action.is_async, calls, recorder)
        self._task = task
        event = due.event if due.event.shared() else due.event.copied()
        return task, event, RunnerContext(task)

    def call(self, action: BoundAction, event: Event, context: RunnerContext) -> object:
        """Call the action of the next task, and return its result."""
        argument = context if action.adapt is None else action.adapt(context)
        with self.observer.action(action.name, self.attempt):
            return action.call(event, argument)

    async def acall(self, action: BoundAction, event: Event, context: RunnerContext) -> None:
        """Await the async action of the next task, and check that it awaited its durable calls."""
        task = self._task
        assert task is not None  # noqa: S101 - it has begun
        argument = context if action.adapt is None else action.adapt(context)
        with self.observer.action(action.name, self.attempt):
            await action.call(event, argument)
            task.check_awaited()

    def _calls_for(self, ordinal: int, action: BoundAction, stopping: Flag) -> Calls:
        """Return the durable calls of a task. Called at their first use: most tasks have none."""
        recorded, store = self._recorded, self.setup.engine.store
        if recorded is None:
            recorded = store.durable_calls(self.row.id, ordinal)
        return Calls(
            self.row.id,
            ordinal,
            action.name,
            store.salt(),
            self._record,
            stopping,
            on_mismatch=self.setup.plan.agent.on_mismatch,
            is_async=action.is_async,
            recorded={call.position: call for call in recorded},
            retried=self.failures > 0 or self._parked_at == ordinal,
            observer=self.observer,
        )

    def _send_begin(self, event: Event, context: RunnerContext) -> None:
        """Send a `RunBeginEvent` with the content of short-term memory, then the input itself."""
        detail = "paths" if self.setup.plan.run_begin == "paths" else "values"
        context.send_event(RunBeginEvent(snapshot(context.short_term_memory, detail), detail))
        assert self._task is not None  # noqa: S101 - its action is under way
        self._task.sent.append(event)  # the input keeps its id

    def _record(self, call: DurableCall) -> None:
        """Store a durable call of the task in a separate commit; see `Calls`.

        Raises:
            StaleRun: Another process took over the lease, or ended the run.
        """
        self._recorded = None
        try:
            batch = self._batch(replace(call, begin=self._begin), release=False)
            answer = self.setup.engine.store.commit(batch)
        except StaleRun:
            self.fenced = True
            raise
        if answer.adopted:  # the new owner of the key made the call: its outcome counts
            self.fenced = True
            what = f"durable call {call.position} of run {call.run}"
            raise StaleRun(self.row.scope.key or "", expected="open", found="over", what=what)
        self._begin = None

    def done(self, task: Task, *, release: Callable[[], bool]) -> Finished:
        """Return the finished work of *task*, whose action has returned.

        Args:
            release: Returns whether the commit is also to release the lease. It is called only if
                *task* is the last task of the run.
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
            if isinstance(event, MemoryEvent):
                is_stored = type(event) in self.setup.plan.stored
            else:
                is_stored = not isinstance(event, OutputEvent)
            if actions or is_stored:
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

    def drop(self) -> None:
        """Close the context of a task whose action did not return, and drop its effects."""
        if self._task is not None:
            self._task.seal(
                f"this attempt at action {self.next_action!r} of run {self.row.id} has ended; "
                "its context can no longer be used"
            )

    def skipped(self, error: BaseException, *, release: Callable[[], bool]) -> Finished:
        """Return the finished work of a task that failed and is skipped; see `done`."""
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

    def over(self) -> Finished:
        """Return the finished work that ends a run without any tasks."""
        return self._turned("done", release=True)

    def parked(self, error: BaseException, *, release: bool) -> Finished:
        """Return the finished work that parks the run because of *error*.

        Args:
            release: Whether the commit also releases the lease.
        """
        ordinal = self._due[0].ordinal if self._due else 0
        text = error_record(error, self.next_action, ordinal)
        return self._turned("parked", text, release=release)

    def _turned(self, status: RunStatus, error: str | None = None, *, release: bool) -> Finished:
        turn = StatusChange(self.row.id, "waiting", status, error=error, begin=self._begin)
        return Finished(self._batch(turn, release=release))

    def _batch(self, progress: Progress, did: Done | None = None, *, release: bool) -> Batch:
        engine, draft = self.setup.engine, None if did is None else did.draft
        state = () if did is None else did.short
        batch = Batch(
            scope=self.row.scope,
            time=engine.clock(),
            epoch=self.epoch,
            run=progress,
            release=release,
            base=self._tree.head() if state else None,
            state=state,
        )
        if draft is None:
            return batch
        draft.recheck()
        now, corroborated = engine.clock.times()
        return replace(
            batch,
            time=now,
            corroborated=corroborated,
            expects=engine.expects if draft.items else (),
            define=draft.define,
            items=draft.items,
            admission_checks=tuple(draft.admission_checks.values()),
            limits=engine.limits,
        )

    # --- after a commit -----------------------------------------------------------------------

    def committed(self, finished: Finished, commit: Commit) -> None:
        """Record the commit of a task, and continue with the next task."""
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


def error_record(error: BaseException, action: str, ordinal: int) -> str:
    """Return the record of an action's error, in wire form."""
    text = "".join(traceback.format_exception(error)).encode(errors="replace").decode()
    record: Value = {
        "action": action,
        "ordinal": ordinal,
        "type": type(error).__qualname__,
        "message": message_of(error)[:TRACEBACK_CHARS],
        "traceback": text[-TRACEBACK_CHARS:],
    }
    return wire.encode(record)
