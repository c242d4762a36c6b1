"""The runs of a `RamStore`: lanes, steps, durable calls and outputs, and the changes of a batch."""

from __future__ import annotations

from bisect import insort
from dataclasses import field, replace
from operator import attrgetter
from typing import Any

from alveus.errors import IdempotencyConflict
from alveus.store import Batch, DurableCall, Run, Scope, Step, StoredOutput
from alveus.store.checks import ROW_BITS, check_run, no_run
from alveus.store.ram.rows import CommitDraft, UndoSteps
from alveus.store.runs import ENDED, MAX_POSITIONS, Begin, QueuedInput, RunStatus
from alveus.values.lazy_dataclass import dataclass

_COMMIT, _SENSORY, _READ_SET = 1, 3, 4
"""Indexes in the row of a step, which has the fields of `StepDone` without run and ordinal."""


@dataclass(slots=True, frozen=True)
class EventId:
    """The use of an event id: the run of its input, and the digest of the request."""

    run: int
    number: int
    request: bytes | None
    time: int


@dataclass(slots=True, eq=False)
class AgentLanes:
    """The lanes, outputs and consumers of an agent. A lane is the queue of its runs for one key.

    Attributes:
        pruned_position: The position of the last pruned output.
        scopes: One object for each scope, which all runs of the scope share.
        next_numbers: For each scope, the number of the next run.
        open_runs: For each scope, the ids of the unfinished runs, in order.
        events: The used event ids.
        outputs: Tuples with the fields of a `StoredOutput`, in order.
        consumers: The position of each consumer, by name.
    """

    pruned_position: int = 0
    scopes: dict[Scope, Scope] = field(default_factory=dict[Scope, Scope])
    next_numbers: dict[Scope, int] = field(default_factory=dict[Scope, int])
    open_runs: dict[Scope, list[int]] = field(default_factory=dict[Scope, list[int]])
    events: dict[bytes, EventId] = field(default_factory=dict[bytes, EventId])
    outputs: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    consumers: dict[str, int] = field(default_factory=dict[str, int])

    def outputs_of(self, run: int) -> list[StoredOutput]:
        """Return the outputs of a run."""
        return [StoredOutput(*row) for row in self.outputs if row[1] == run]


def _changed(
    run: Run,
    *,
    status: RunStatus | None = None,
    now: int | None = None,
    actions: tuple[str, ...] | None = None,
    error: str | None = None,
    ended: int | None = None,
) -> Run:
    """Return *run* with the given changes. *ended* and *error* are set even if None.

    `replace` would take as long as the rest of a commit.
    """
    # fmt: off
    return Run(
        run.id, run.agent, run.scope, run.number, status or run.status, run.event, run.accepted,
        run.now if now is None else now, run.actions if actions is None else actions, ended, error,
        run.origin,
    )
    # fmt: on


_FIELDS = attrgetter(
    "id", "agent", "scope.space", "scope.key", "number", "status", "event", "accepted", "now",
    "actions", "ended", "error", "origin", "forgotten",
)  # fmt: skip


def _step_id(run: int, ordinal: int) -> int:
    """Return the number of a step, which is its id in the SQL stores too."""
    return run * MAX_POSITIONS + ordinal


def _run(row: tuple[Any, ...]) -> Run:
    """Return the run whose `_FIELDS` are in *row*."""
    number, agent, space, key, *rest = row
    return Run(number, agent, Scope(space, key), *rest)


class RunTable:
    """All runs of a store, with their steps and durable calls."""

    def __init__(self) -> None:
        self.agents: dict[tuple[str, str], AgentLanes] = {}
        self._steps: dict[int, tuple[Any, ...]] = {}
        self._next_ordinals: dict[int, int] = {}  # by run: one more than the highest step's ordinal
        self._open: dict[int, Run] = {}
        self._ended: dict[int, tuple[Any, ...]] = {}
        self.calls: dict[int, dict[tuple[int, int], tuple[DurableCall, int]]] = {}
        self.last_id = 0

    def oldest_needed_commit(self) -> int:
        """Return the first commit of any unfinished run, or a large number if there is none."""
        steps = [row[_COMMIT] for n in self._open for _, row in self.steps(n)]
        calls = [made for n in self._open for _, made in self.calls.get(n, {}).values()]
        return min([1 << 62, *steps, *calls])

    def agent(self, name: str, space: str) -> AgentLanes:
        """Return the lanes of an agent, which are created if they do not exist."""
        found = self.agents.get((space, name))
        if found is None:
            found = self.agents[space, name] = AgentLanes()
        return found

    def get(self, number: int) -> Run | None:
        """Return the run with this id, or None if it does not exist or was pruned."""
        run = self._open.get(number)
        if run is None:
            row = self._ended.get(number)
            run = None if row is None else _run(row)
        return run

    def all_runs(self) -> list[Run]:
        """Return all runs, sorted by id."""
        runs = [*self._open.values(), *map(_run, self._ended.values())]
        return sorted(runs, key=attrgetter("id"))

    def step_commits(self, run: int) -> list[tuple[int, str | None]]:
        """Return the commit and the read set of each step of a run."""
        return [(row[_COMMIT], row[_READ_SET]) for _, row in self.steps(run)]

    def steps(self, run: int) -> list[tuple[int, tuple[Any, ...]]]:
        """Return the ordinals and rows of the steps of a run, in order."""
        ids = range(_step_id(run, 0), _step_id(run, self._next_ordinals.get(run, 0)))
        return [(i, self._steps[at]) for i, at in enumerate(ids) if at in self._steps]

    def open_run(self, number: int) -> Run:
        """Return the unfinished run with this id."""
        return self._open[number]

    def agent_of(self, run: Run) -> AgentLanes:
        """Return the lanes of a run's agent."""
        return self.agents[run.scope.space, run.agent]

    def used_event_id(self, agent: str, queued: QueuedInput) -> EventId | None:
        """Return the earlier use of an input's event id, or None if the id was not used.

        Raises:
            IdempotencyConflict: The id was used for another request.
        """
        lanes = self.agents.get((queued.scope.space, agent))
        if queued.event_id is None or lanes is None:
            return None
        found = lanes.events.get(queued.event_id)
        if found is not None and found.request != queued.request:
            raise IdempotencyConflict(queued.label, what="event id")
        return found

    def begin(
        self, agent: str, queued: QueuedInput, undo: UndoSteps, *, origin: int | None = None
    ) -> Run:
        """Append a run for *queued* to its lane, and return the run.

        Args:
            origin: The run whose input the new run takes over.
        """
        lanes = self.agent(agent, queued.scope.space)
        scope = lanes.scopes.setdefault(queued.scope, queued.scope)
        number = lanes.next_numbers.get(scope, 0)
        self.last_id += 1
        run = Run(
            self.last_id, agent, scope, number, "waiting", queued.event, queued.time, origin=origin
        )
        if queued.event_id is not None:
            used = EventId(run.id, number, queued.request, queued.time)
            undo.put(lanes.events, queued.event_id, used)
        undo.put(lanes.next_numbers, scope, number + 1)
        undo.put(self._open, run.id, run)
        waiting = lanes.open_runs.setdefault(scope, [])
        waiting.append(run.id)
        undo.append((waiting.remove, run.id))
        return run

    def repeated_commit(self, batch: Batch) -> int | None:
        """Return the commit that made the same step or completed the same call, or None."""
        progress = batch.run
        if isinstance(progress, Step):
            row = self._steps.get(_step_id(progress.run, progress.ordinal))
            return None if row is None else row[_COMMIT]
        if isinstance(progress, DurableCall) and not progress.truncate:
            found = self.calls.get(progress.run, {}).get((progress.ordinal, progress.position))
            return None if found is None or found[0].status == "pending" else found[1]
        return None

    def check(self, batch: Batch) -> None:
        """Raise if the run of a batch does not exist, or if `check_run` refuses its progress."""
        progress = batch.run
        if progress is None:
            return
        run = self.get(progress.run)
        if run is None:
            raise no_run(progress.run)
        check_run(
            batch, progress, status=run.status, scope=run.scope, has_begun=run.now is not None
        )

    def apply(self, batch: Batch, draft: CommitDraft) -> None:
        """Apply the progress of a batch. The caller must have checked the batch."""
        progress = batch.run
        if progress is None:
            return
        if progress.begin is not None:
            self._begin(progress.run, progress.begin, draft.undo)
        if isinstance(progress, Step):
            self._step(progress, draft)
        elif isinstance(progress, DurableCall):
            self._call(progress, draft)
        else:
            self.change_status(
                progress.run, progress.status, progress.error, draft.time, draft.undo
            )

    def _begin(self, number: int, begin: Begin, undo: UndoSteps) -> None:
        run = self._open[number]
        if run.now is None:
            self._put(
                _changed(run, now=begin.now, actions=tuple(begin.actions), error=run.error), undo
            )

    def _put(self, run: Run, undo: UndoSteps) -> None:
        if run.ended is None:
            undo.put(self._open, run.id, run)
            return
        undo.put(self._ended, run.id, _FIELDS(run))
        undo.append((self._open.__setitem__, run.id, self._open.pop(run.id)))

    def _step(self, step: Step, draft: CommitDraft) -> None:
        run = self._open[step.run]
        row = (step.action, draft.number, step.sent, step.sensory, step.read_set, step.skipped)
        following = max(self._next_ordinals.get(step.run, 0), step.ordinal + 1)
        draft.undo.put(self._steps, _step_id(step.run, step.ordinal), row)
        draft.undo.put(self._next_ordinals, step.run, following)
        if step.outputs:
            outputs = self.agent_of(run).outputs
            draft.undo.append((outputs.__delitem__, slice(len(outputs), None)))
            start, key = draft.number << ROW_BITS, run.scope.key or ""
            outputs.extend(
                (start + i, run.id, run.number, step.ordinal, key, event, draft.time)
                for i, event in enumerate(step.outputs)
            )
        if step.done:
            self.change_status(step.run, "done", None, draft.time, draft.undo)

    def _call(self, call: DurableCall, draft: CommitDraft) -> None:
        calls, call_key = dict(self.calls.get(call.run, {})), (call.ordinal, call.position)
        if call.truncate:
            for late in [p for p in calls if call_key <= p < (call.ordinal, MAX_POSITIONS)]:
                del calls[late]
        calls[call_key] = (replace(call, begin=None, truncate=False), draft.number)
        draft.undo.put(self.calls, call.run, calls)

    def change_status(
        self, number: int, status: RunStatus, error: str | None, time: int, undo: UndoSteps
    ) -> None:
        """Change the status of an unfinished run, as `StatusChange` says."""
        run = self._open[number]
        stored_error = None if status == "done" else run.error if error is None else error
        if status not in ENDED:
            self._put(_changed(run, status=status, error=stored_error), undo)
            return
        self._put(_changed(run, status=status, error=stored_error, ended=time), undo)
        waiting = self.agent_of(run).open_runs[run.scope]
        waiting.remove(number)
        undo.append((insort, waiting, number))
        for ordinal, row in self.steps(number):
            if row[_SENSORY] is not None:
                without = (*row[:_SENSORY], None, *row[_SENSORY + 1 :])
                undo.put(self._steps, _step_id(number, ordinal), without)

    def forget(self, run: Run, *, time: int) -> None:
        """Erase the records and the event of a run. An unfinished run is discarded."""
        self._drop_records(run)
        if run.ended is None:
            self.agent_of(run).open_runs[run.scope].remove(run.id)
            del self._open[run.id]
            run = replace(run, status="discarded", ended=time)
        self._ended[run.id] = _FIELDS(replace(run, event="", error=None, forgotten=True))

    def drop(self, run: Run) -> None:
        """Remove an ended run and its records."""
        lanes = self.agent_of(run)
        last = max((output.position for output in lanes.outputs_of(run.id)), default=0)
        lanes.pruned_position = max(lanes.pruned_position, last)
        self._drop_records(run)
        del self._ended[run.id]

    def _drop_records(self, run: Run) -> None:
        lanes = self.agent_of(run)
        lanes.outputs = [row for row in lanes.outputs if row[1] != run.id]
        for ordinal, _ in self.steps(run.id):
            del self._steps[_step_id(run.id, ordinal)]
        self._next_ordinals.pop(run.id, None)
        self.calls.pop(run.id, None)
