"""Agents, their runs, and what a batch tells of one."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import field, replace
from operator import attrgetter, itemgetter
from typing import Any

from fornix.errors import IdempotencyConflict, NotFound, OutputsPruned
from fornix.store import Batch, DurableCall, Run, Scope, Step, StoredOutput
from fornix.store.checks import ROW_BITS, check_run
from fornix.store.progress import ENDED, MAX_POSITIONS, Begin, QueuedInput, RunStatus
from fornix.store.ram.row_versions import CommitDraft
from fornix.values.lazy_dataclass import dataclass

Undo = list[Callable[[], object]]

_COMMIT, _SENSORY, _LOOKED = 1, 3, 4
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
    floor: int = 0
    scopes: dict[Scope, Scope] = field(default_factory=dict[Scope, Scope])
    next: dict[Scope, int] = field(default_factory=dict[Scope, int])
    open: dict[Scope, list[int]] = field(default_factory=dict[Scope, list[int]])
    events: dict[bytes, EventId] = field(default_factory=dict[bytes, EventId])
    outputs: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    consumers: dict[str, int] = field(default_factory=dict[str, int])

    def past(self, after: int, limit: int) -> list[StoredOutput]:
        """Return outputs past a position."""
        if after < self.floor:
            raise OutputsPruned(self.name, after=after, floor=self.floor)
        start = bisect_right(self.outputs, after, key=itemgetter(0))
        return [StoredOutput(*row) for row in self.outputs[start : start + limit]]

    def of(self, run: int) -> list[StoredOutput]:
        """Return outputs of a run."""
        return [StoredOutput(*row) for row in self.outputs if row[1] == run]


def _moved(
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


def _run(row: tuple[Any, ...]) -> Run:
    """Return the run that `_FIELDS` were read of."""
    number, agent, space, key, *rest = row
    return Run(number, agent, Scope(space, key), *rest)


class RunTable:
    """Every run of a store, and the steps and calls of each. What fails is taken back by *undo*.

    Attributes:
        steps: Rows by run and ordinal: the other fields of a `StepDone`, in order.
        made: The id of the last run.
    """

    def __init__(self) -> None:
        self.agents: dict[tuple[str, str], AgentLanes] = {}
        self.steps: dict[int, dict[int, tuple[Any, ...]]] = {}
        self._open: dict[int, Run] = {}
        self._ended: dict[int, tuple[Any, ...]] = {}
        self.calls: dict[int, dict[tuple[int, int], tuple[DurableCall, int]]] = {}
        self.made = 0

    def needed(self) -> int:
        """Return the first commit of a run that has not ended; a large number: there is none."""
        steps = [step[1] for n in self._open for step in self.steps.get(n, {}).values()]
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

    def every(self) -> list[Run]:
        """Return all runs, by id."""
        runs = [*self._open.values(), *map(_run, self._ended.values())]
        return sorted(runs, key=attrgetter("id"))

    def done(self, run: int) -> list[tuple[int, str | None]]:
        """Return the commit of each step of a run, and what the step looked up."""
        return [(row[_COMMIT], row[_LOOKED]) for row in self.steps.get(run, {}).values()]

    def waiting(self, number: int) -> Run:
        """Return a run that waits or is parked."""
        return self._open[number]

    def of(self, run: Run) -> AgentLanes:
        """Return the agent of a run."""
        return self.agents[run.scope.space, run.agent]

    def first(self, run: Run) -> bool:
        """Return whether no unfinished run stands before this one, which waits."""
        return run.status == "waiting" and self.of(run).open[run.scope][0] == run.id

    # --- inputs

    def earlier(self, agent: str, given: QueuedInput) -> EventId | None:
        """Return what is known of an input's event id; refuse another request."""
        home = self.agents.get((given.scope.space, agent))
        if given.event_id is None or home is None:
            return None
        found = home.events.get(given.event_id)
        if found is not None and found.request != given.request:
            raise IdempotencyConflict(given.label, what="event id")
        return found

    def begin(
        self, agent: str, given: QueuedInput, undo: Undo, *, origin: int | None = None
    ) -> Run:
        """Put a run at the end of its lane."""
        home = self.agent(agent, given.scope.space)
        scope = home.scopes.setdefault(given.scope, given.scope)
        number = home.next.get(scope, 0)
        self.made += 1
        run = Run(
            self.made, agent, scope, number, "waiting", given.event, given.time, origin=origin
        )
        if given.event_id is not None:
            event_id = given.event_id
            home.events[event_id] = EventId(run.id, number, given.request, given.time)
            undo.append(lambda: home.events.pop(event_id))
        home.next[scope] = number + 1
        waiting = home.open.setdefault(scope, [])
        waiting.append(run.id)
        self._open[run.id] = run
        undo.append(
            lambda: (
                home.next.update({scope: number}),
                waiting.remove(run.id),
                self._open.pop(run.id),
            )
        )
        return run

    # --- what a batch tells

    def adopted(self, batch: Batch) -> int | None:
        """Return the number of the commit that took the place of a step, or completed a call."""
        told = batch.run
        if isinstance(told, Step):
            steps = self.steps.get(told.run)
            row = None if steps is None else steps.get(told.ordinal)
            return None if row is None else row[_COMMIT]
        if isinstance(told, DurableCall) and not told.truncate:
            found = self.calls.get(told.run, {}).get((told.ordinal, told.position))
            return None if found is None or found[0].status == "pending" else found[1]
        return None

    def guard(self, batch: Batch) -> None:
        """Refuse a batch about a run that is not there, is another key's, or has moved on."""
        told = batch.run
        if told is None:
            return
        run = self.get(told.run)
        if run is None:
            raise NotFound(f"there is no run {told.run}; it was never accepted, or was pruned")
        check_run(batch, told, status=run.status, scope=run.scope, has_begun=run.now is not None)

    def apply(self, batch: Batch, work: CommitDraft) -> None:
        """Keep what a batch tells of a run, which was guarded."""
        told = batch.run
        if told is None:
            return
        if told.begin is not None:
            self._begun(told.run, told.begin, work.undo)
        if isinstance(told, Step):
            self._step(told, work)
        elif isinstance(told, DurableCall):
            self._call(told, work)
        else:
            self.turn(told.run, told.status, told.error, work.time, work.undo)

    def _begun(self, number: int, begin: Begin, undo: Undo) -> None:
        run = self._open[number]
        if run.now is None:
            self._put(
                _moved(run, now=begin.now, actions=tuple(begin.actions), error=run.error), undo
            )

    def _put(self, run: Run, undo: Undo) -> None:
        before = self._open[run.id]
        undo.append(lambda: self._open.update({run.id: before}))
        if run.ended is None:
            self._open[run.id] = run
            return
        undo.append(lambda: self._ended.pop(run.id))
        self._ended[run.id] = _FIELDS(run)
        del self._open[run.id]

    def _step(self, step: Step, work: CommitDraft) -> None:
        run = self._open[step.run]
        row = (step.action, work.number, step.sent, step.sensory, step.read_set, step.skipped)
        steps = self.steps.get(step.run)
        if steps is None:
            steps = self.steps[step.run] = {}
        steps[step.ordinal] = row
        work.undo.append(lambda: steps.pop(step.ordinal))
        if step.outputs:
            self._put_out(run, step, work)
        if step.done:
            self.turn(step.run, "done", None, work.time, work.undo)

    def _put_out(self, run: Run, step: Step, work: CommitDraft) -> None:
        outputs = self.of(run).outputs
        count = len(outputs)
        start, key = work.number << ROW_BITS, run.scope.key or ""
        for i, event in enumerate(step.outputs):
            row = (start + i, run.id, run.number, step.ordinal, key, event, work.time)
            outputs.append(row)
        work.undo.append(lambda: outputs.__delitem__(slice(count, None)))

    def _call(self, call: DurableCall, work: CommitDraft) -> None:
        calls = self.calls.setdefault(call.run, {})
        before = dict(calls)
        work.undo.append(lambda: self.calls.update({call.run: before}))
        place = (call.ordinal, call.position)
        if call.truncate:
            for late in [p for p in calls if place <= p < (call.ordinal, MAX_POSITIONS)]:
                del calls[late]
        calls[place] = (replace(call, begin=None, truncate=False), work.number)

    def turn(
        self, number: int, status: RunStatus, error: str | None, time: int, undo: Undo
    ) -> None:
        """Change the status of a run that has not ended."""
        run = self._open[number]
        kept = None if status == "done" else run.error if error is None else error
        if status not in ENDED:
            self._put(_moved(run, status=status, error=kept), undo)
            return
        self._put(_moved(run, status=status, error=kept, ended=time), undo)
        waiting = self.of(run).open[run.scope]
        waiting.remove(number)
        undo.append(lambda: insort(waiting, number))
        steps = self.steps.get(number, {})
        felt = {i: row for i, row in steps.items() if row[_SENSORY] is not None}
        if felt:
            undo.append(lambda: steps.update(felt))
            for i, row in felt.items():
                steps[i] = (*row[:_SENSORY], None, *row[_SENSORY + 1 :])

    def forget(self, run: Run, *, time: int) -> None:
        """Erase what hangs on a run, and what set it off; end it if it has not ended."""
        home = self.of(run)
        home.outputs = [row for row in home.outputs if row[1] != run.id]
        self.steps.pop(run.id, None)
        self.calls.pop(run.id, None)
        if run.ended is None:
            home.open[run.scope].remove(run.id)
            del self._open[run.id]
            run = replace(run, status="discarded", ended=time)
        self._ended[run.id] = _FIELDS(replace(run, event="", error=None, forgotten=True))

    def drop(self, run: Run) -> None:
        """Remove a run that ended, and what hangs on it."""
        home = self.of(run)
        last = max((output.position for output in home.of(run.id)), default=0)
        home.floor = max(home.floor, last)
        home.outputs = [row for row in home.outputs if row[1] != run.id]
        self.steps.pop(run.id, None)
        self.calls.pop(run.id, None)
        del self._ended[run.id]
