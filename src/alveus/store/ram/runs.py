"""Agents, their runs, and what a batch tells of one."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import field, replace
from operator import attrgetter, itemgetter
from typing import Any

from alveus.errors import IdempotencyConflict, NotFound, OutputsPruned
from alveus.store import Batch, DurableCall, Run, Scope, Step, StoredOutput
from alveus.store.checks import ROW_BITS, check_run
from alveus.store.ram.rows import CommitDraft, Undo
from alveus.store.runs import ENDED, MAX_POSITIONS, Begin, QueuedInput, RunStatus
from alveus.values.lazy_dataclass import dataclass

_COMMIT, _SENSORY, _READ_SET = 1, 3, 4
"""Where the row of a step has its commit, what it changed in sensory memory, and what it read."""


@dataclass(slots=True, frozen=True)
class EventId:
    """An event id that was used: by which run, and for what."""

    run: int
    number: int
    request: bytes | None
    time: int


@dataclass(slots=True, eq=False)
class AgentLanes:
    """All lanes of an agent: next numbers and unfinished runs by scope; its outputs and readers.

    Attributes:
        outputs: Rows: the fields of an `StoredOutput`, in order.
        scopes: The one of each lane that its runs refer to.
    """

    name: str
    space: str
    pruned_position: int = 0
    scopes: dict[Scope, Scope] = field(default_factory=dict[Scope, Scope])
    next_numbers: dict[Scope, int] = field(default_factory=dict[Scope, int])
    open_runs: dict[Scope, list[int]] = field(default_factory=dict[Scope, list[int]])
    events: dict[bytes, EventId] = field(default_factory=dict[bytes, EventId])
    outputs: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    consumers: dict[str, int] = field(default_factory=dict[str, int])

    def outputs_after(self, after: int, limit: int) -> list[StoredOutput]:
        """Return outputs past a position."""
        if after < self.pruned_position:
            raise OutputsPruned(self.name, after=after, floor=self.pruned_position)
        start = bisect_right(self.outputs, after, key=itemgetter(0))
        return [StoredOutput(*row) for row in self.outputs[start : start + limit]]

    def outputs_of(self, run: int) -> list[StoredOutput]:
        """Return outputs of a run."""
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
    """Return a run that went on; *error* is what there is of one now.

    As `replace` would return it, which takes as long as the rest of a commit.
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


def _place(run: int, ordinal: int) -> int:
    """Return where the row of a step is, as in a table of SQL."""
    return run * MAX_POSITIONS + ordinal


def _run(row: tuple[Any, ...]) -> Run:
    """Return the run that `_FIELDS` were read of."""
    number, agent, space, key, *rest = row
    return Run(number, agent, Scope(space, key), *rest)


class RunTable:
    """Every run of a store, and the steps and calls of each. What fails is taken back by *undo*.

    Attributes:
        last_id: The id of the last run.
    """

    def __init__(self) -> None:
        self.agents: dict[tuple[str, str], AgentLanes] = {}
        self._steps: dict[int, tuple[Any, ...]] = {}
        self._next_ordinals: dict[int, int] = {}  # past those of the steps of a run
        self._open: dict[int, Run] = {}
        self._ended: dict[int, tuple[Any, ...]] = {}
        self.calls: dict[int, dict[tuple[int, int], tuple[DurableCall, int]]] = {}
        self.last_id = 0

    def oldest_needed_commit(self) -> int:
        """Return the first commit of a run that has not ended; a large number: there is none."""
        steps = [row[_COMMIT] for n in self._open for _, row in self.steps(n)]
        calls = [made for n in self._open for _, made in self.calls.get(n, {}).values()]
        return min([1 << 62, *steps, *calls])

    def agent(self, name: str, space: str) -> AgentLanes:
        """Return an agent, with nothing in it if it is new."""
        found = self.agents.get((space, name))
        if found is None:
            found = self.agents[space, name] = AgentLanes(name, space)
        return found

    def get(self, number: int) -> Run | None:
        """Return a run, or None if there is none (any more)."""
        run = self._open.get(number)
        if run is None:
            row = self._ended.get(number)
            run = None if row is None else _run(row)
        return run

    def all_runs(self) -> list[Run]:
        """Return all runs, by id."""
        runs = [*self._open.values(), *map(_run, self._ended.values())]
        return sorted(runs, key=attrgetter("id"))

    def step_commits(self, run: int) -> list[tuple[int, str | None]]:
        """Return the commit of each step of a run, and what the step looked up."""
        return [(row[_COMMIT], row[_READ_SET]) for _, row in self.steps(run)]

    def steps(self, run: int) -> list[tuple[int, tuple[Any, ...]]]:
        """Return the steps of a run: ordinals, and the other fields of a `StepDone`, in order."""
        places = range(_place(run, 0), _place(run, self._next_ordinals.get(run, 0)))
        return [(i, self._steps[at]) for i, at in enumerate(places) if at in self._steps]

    def _drop_steps(self, run: int) -> None:
        for ordinal, _ in self.steps(run):
            del self._steps[_place(run, ordinal)]
        self._next_ordinals.pop(run, None)

    def open_run(self, number: int) -> Run:
        """Return a run that waits or is parked."""
        return self._open[number]

    def agent_of(self, run: Run) -> AgentLanes:
        """Return the agent of a run."""
        return self.agents[run.scope.space, run.agent]

    def is_next(self, run: Run) -> bool:
        """Return whether no unfinished run stands before this one, which waits."""
        return run.status == "waiting" and self.agent_of(run).open_runs[run.scope][0] == run.id

    # --- inputs

    def used_event_id(self, agent: str, queued: QueuedInput) -> EventId | None:
        """Return what is known of an input's event id; refuse another request."""
        set_rows = self.agents.get((queued.scope.space, agent))
        if queued.event_id is None or set_rows is None:
            return None
        found = set_rows.events.get(queued.event_id)
        if found is not None and found.request != queued.request:
            raise IdempotencyConflict(queued.label, what="event id")
        return found

    def begin(
        self, agent: str, queued: QueuedInput, undo: Undo, *, origin: int | None = None
    ) -> Run:
        """Put a run at the end of its lane."""
        set_rows = self.agent(agent, queued.scope.space)
        scope = set_rows.scopes.setdefault(queued.scope, queued.scope)
        number = set_rows.next_numbers.get(scope, 0)
        self.last_id += 1
        run = Run(
            self.last_id, agent, scope, number, "waiting", queued.event, queued.time, origin=origin
        )
        if queued.event_id is not None:
            event_id = queued.event_id
            set_rows.events[event_id] = EventId(run.id, number, queued.request, queued.time)
            undo.append((set_rows.events.pop, event_id))
        set_rows.next_numbers[scope] = number + 1
        waiting = set_rows.open_runs.setdefault(scope, [])
        waiting.append(run.id)
        self._open[run.id] = run
        undo.append((self._take_back, set_rows, run))
        return run

    def _take_back(self, lanes: AgentLanes, run: Run) -> None:
        lanes.next_numbers[run.scope] = run.number
        lanes.open_runs[run.scope].remove(run.id)
        del self._open[run.id]

    # --- what a batch tells

    def repeated_commit(self, batch: Batch) -> int | None:
        """Return the number of the commit that took the place of a step, or completed a call."""
        progress = batch.run
        if isinstance(progress, Step):
            row = self._steps.get(_place(progress.run, progress.ordinal))
            return None if row is None else row[_COMMIT]
        if isinstance(progress, DurableCall) and not progress.truncate:
            found = self.calls.get(progress.run, {}).get((progress.ordinal, progress.position))
            return None if found is None or found[0].status == "pending" else found[1]
        return None

    def check(self, batch: Batch) -> None:
        """Refuse a batch about a run that is not there, is another key's, or has moved on."""
        progress = batch.run
        if progress is None:
            return
        run = self.get(progress.run)
        if run is None:
            raise NotFound(f"there is no run {progress.run}; it was never accepted, or was pruned")
        check_run(
            batch, progress, status=run.status, scope=run.scope, has_begun=run.now is not None
        )

    def apply(self, batch: Batch, draft: CommitDraft) -> None:
        """Keep what a batch tells of a run, which was guarded."""
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

    def _begin(self, number: int, begin: Begin, undo: Undo) -> None:
        run = self._open[number]
        if run.now is None:
            self._put(
                _changed(run, now=begin.now, actions=tuple(begin.actions), error=run.error), undo
            )

    def _put(self, run: Run, undo: Undo) -> None:
        number = run.id
        undo.append((self._put_back, self._open[number]))
        if run.ended is None:
            self._open[number] = run
            return
        self._ended[number] = _FIELDS(run)
        del self._open[number]

    def _put_back(self, before: Run) -> None:
        self._open[before.id] = before
        self._ended.pop(before.id, None)

    def _step(self, step: Step, draft: CommitDraft) -> None:
        run = self._open[step.run]
        row = (step.action, draft.number, step.sent, step.sensory, step.read_set, step.skipped)
        place, before = _place(step.run, step.ordinal), self._next_ordinals.get(step.run, 0)
        self._steps[place] = row
        self._next_ordinals[step.run] = max(before, step.ordinal + 1)
        draft.undo.append((self._take_back_step, step.run, place, before))
        if step.outputs:
            self._append_outputs(run, step, draft)
        if step.done:
            self.change_status(step.run, "done", None, draft.time, draft.undo)

    def _take_back_step(self, run: int, place: int, before: int) -> None:
        del self._steps[place]
        self._next_ordinals[run] = before

    def _append_outputs(self, run: Run, step: Step, draft: CommitDraft) -> None:
        outputs = self.agent_of(run).outputs
        count = len(outputs)
        start, key = draft.number << ROW_BITS, run.scope.key or ""
        for i, event in enumerate(step.outputs):
            row = (start + i, run.id, run.number, step.ordinal, key, event, draft.time)
            outputs.append(row)
        draft.undo.append((outputs.__delitem__, slice(count, None)))

    def _call(self, call: DurableCall, draft: CommitDraft) -> None:
        calls = self.calls.setdefault(call.run, {})
        before = dict(calls)
        draft.undo.append((self.calls.__setitem__, call.run, before))
        call_key = (call.ordinal, call.position)
        if call.truncate:
            for late in [p for p in calls if call_key <= p < (call.ordinal, MAX_POSITIONS)]:
                del calls[late]
        calls[call_key] = (replace(call, begin=None, truncate=False), draft.number)

    def change_status(
        self, number: int, status: RunStatus, error: str | None, time: int, undo: Undo
    ) -> None:
        """Change the status of a run that has not ended."""
        run = self._open[number]
        stored_error = None if status == "done" else run.error if error is None else error
        if status not in ENDED:
            self._put(_changed(run, status=status, error=stored_error), undo)
            return
        self._put(_changed(run, status=status, error=stored_error, ended=time), undo)
        waiting = self.agent_of(run).open_runs[run.scope]
        waiting.remove(number)
        undo.append((insort, waiting, number))
        if sensory_rows := self._with_sensory(number):
            undo.append((self._steps.update, sensory_rows))
            for place, row in sensory_rows.items():
                self._steps[place] = (*row[:_SENSORY], None, *row[_SENSORY + 1 :])

    def _with_sensory(self, run: int) -> dict[int, tuple[Any, ...]]:
        """Return the rows of those steps of a run that hold sensory memory, by their places."""
        return {_place(run, i): row for i, row in self.steps(run) if row[_SENSORY] is not None}

    def forget(self, run: Run, *, time: int) -> None:
        """Erase what hangs on a run, and what set it off; end it if it has not ended."""
        set_rows = self.agent_of(run)
        set_rows.outputs = [row for row in set_rows.outputs if row[1] != run.id]
        self._drop_steps(run.id)
        self.calls.pop(run.id, None)
        if run.ended is None:
            set_rows.open_runs[run.scope].remove(run.id)
            del self._open[run.id]
            run = replace(run, status="discarded", ended=time)
        self._ended[run.id] = _FIELDS(replace(run, event="", error=None, forgotten=True))

    def drop(self, run: Run) -> None:
        """Remove a run that ended, and what hangs on it."""
        set_rows = self.agent_of(run)
        last = max((output.position for output in set_rows.outputs_of(run.id)), default=0)
        set_rows.pruned_position = max(set_rows.pruned_position, last)
        set_rows.outputs = [row for row in set_rows.outputs if row[1] != run.id]
        self._drop_steps(run.id)
        self.calls.pop(run.id, None)
        del self._ended[run.id]
