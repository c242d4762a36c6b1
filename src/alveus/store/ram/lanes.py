"""Leases, inputs, runs, outputs and consumers of a `RamStore`, for runners."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter

from alveus.errors import NotFound, OutputsPruned
from alveus.store import (
    Accepted,
    DurableCall,
    Lease,
    QueuedInput,
    Retain,
    Run,
    RunStatus,
    Scope,
    StepDone,
    StoredOutput,
)
from alveus.store.checks import check_status, no_run
from alveus.store.ram.database import RamTables, locked
from alveus.store.ram.rows import UndoSteps
from alveus.store.ram.runs import AgentLanes
from alveus.store.runs import space_of


class RamLanes(RamTables):
    """The methods of `alveus.store.Lanes`, and those for leases of `alveus.store.Ledger`."""

    @locked
    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        return self.observer.leased(self._take(scope, owner, UndoSteps()))

    def _take(self, scope: Scope, owner: str, undo: UndoSteps) -> Lease | None:
        holder, epoch = self._holder(scope)
        if holder is not None and holder != owner and self._alive(holder):
            return None
        if holder != owner:
            epoch += 1
            undo.put(self._leases, scope, (owner, epoch))
            if scope in self._hidden:
                self._name(scope)
        return Lease(scope, owner, epoch, taken_over=holder not in (None, owner))

    @locked
    def release_lease(self, lease: Lease) -> None:
        if self._leases.get(lease.scope) == (lease.owner, lease.epoch):
            self._leases[lease.scope] = (None, lease.epoch)

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """See `Lanes.accept`."""
        with self.observer.accept(agent, inputs) as observed, self.ready():
            if not inputs:
                return observed.answered([])
            space_of(inputs)
            undo = UndoSteps()
            try:
                answers = [self._accept(agent, given, owner, undo) for given in inputs]
            except BaseException:
                undo.take_back()
                raise
            for given in inputs:
                self._name(given.scope)
            return observed.answered(answers)

    def _accept(
        self, agent: str, given: QueuedInput, owner: str | None, undo: UndoSteps
    ) -> Accepted:
        earlier = self._runs.used_event_id(agent, given)
        if earlier is None:
            run = self._runs.begin(agent, given, undo)
            number = run.number
        else:
            run, number = self._runs.get(earlier.run), earlier.number
        lease = None
        if run is not None and run.status == "waiting" and owner is not None:
            lease = self._take(run.scope, owner, undo)
        return Accepted(
            run=None if run is None else run.id,
            number=number,
            repeated=earlier is not None,
            lease=lease,
            first=run is not None
            and run.status == "waiting"
            and self._runs.agent_of(run).open_runs[run.scope][0] == run.id,
        )

    @locked
    def run(self, run: int) -> Run | None:
        found = self._runs.get(run)
        return None if found is None else self._seen(found)

    def _seen(self, run: Run) -> Run:
        """Return *run*; if its key was forgotten, a digest replaces the name of the key."""
        hidden = self._hidden.get(run.scope)
        if hidden is None:
            return run
        return replace(run, scope=Scope(run.scope.space, hidden.key))

    @locked
    def runs(  # noqa: PLR0913 - the signature of `Lanes.runs`
        self,
        space: str,
        *,
        agent: str | None = None,
        key: str | None = None,
        status: RunStatus | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        found = [
            run
            for run in map(self._seen, reversed(self._runs.all_runs()))
            if run.scope.space == space
            and agent in (None, run.agent)
            and key in (None, run.scope.key)
            and status in (None, run.status)
            and (before is None or run.id < before)
            and (after is None or run.id > after)
        ]
        return found[:limit]

    def _agent(self, agent: str, space: str) -> AgentLanes:
        return self._runs.agents.get((space, agent)) or AgentLanes()

    @locked
    def run_statuses(self, runs: Sequence[int]) -> dict[int, RunStatus]:
        found = map(self._runs.get, runs)
        return {run.id: run.status for run in found if run is not None}

    @locked
    def queued_runs(
        self, agent: str, scope: Scope, *, past_parked: bool = False, limit: int = 100
    ) -> list[Run]:
        numbers = self._agent(agent, scope.space).open_runs.get(scope, [])
        if not past_parked:
            return [self._runs.open_run(number) for number in numbers[:limit]]
        runs = map(self._runs.open_run, numbers)
        return [*islice((run for run in runs if run.status == "waiting"), limit)]

    @locked
    def waiting_lanes(
        self, agent: str, space: str, *, past_parked: bool, limit: int = 1000
    ) -> list[Scope]:
        found: list[tuple[int, Scope]] = []
        for scope, numbers in self._agent(agent, space).open_runs.items():
            reach = numbers if past_parked else numbers[:1]
            waiting = [n for n in reach if self._runs.open_run(n).status == "waiting"]
            found.extend((number, scope) for number in waiting[:1])
        return [scope for _, scope in sorted(found, key=lambda pair: pair[0])][:limit]

    @locked
    def steps(self, run: int) -> list[StepDone]:
        return [StepDone(run, ordinal, *row) for ordinal, row in sorted(self._runs.steps(run))]

    @locked
    def durable_calls(self, run: int, ordinal: int) -> list[DurableCall]:
        found = sorted(self._runs.calls.get(run, {}).items(), key=lambda pair: pair[0])
        return [call for (task, _), (call, _) in found if task == ordinal]

    def _retry(self, run: int, *, last: bool, time: int) -> int:
        found = self._runs.get(run)
        if found is None:
            raise no_run(run)
        check_status(run, found.scope, found.status, "parked")
        if not last:
            self._runs.change_status(run, "waiting", None, time, UndoSteps())
            return run
        self._runs.change_status(run, "retried", None, time, UndoSteps())
        given = QueuedInput(found.scope, found.event, time)
        return self._runs.begin(found.agent, given, UndoSteps(), origin=run).id

    @locked
    def outputs(
        self, agent: str, space: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredOutput]:
        lanes = self._agent(agent, space)
        if after < lanes.pruned_position:
            raise OutputsPruned(agent, after=after, floor=lanes.pruned_position)
        start = bisect_right(lanes.outputs, after, key=itemgetter(0))
        return [StoredOutput(*row) for row in lanes.outputs[start : start + limit]]

    @locked
    def run_outputs(self, run: int) -> list[StoredOutput]:
        found = self._runs.get(run)
        return [] if found is None else self._runs.agent_of(found).outputs_of(run)

    @locked
    def consumer_position(self, agent: str, space: str, name: str) -> int:
        lanes = self._runs.agent(agent, space)
        return lanes.consumers.setdefault(name, lanes.pruned_position)

    @locked
    def advance_consumer(self, agent: str, space: str, name: str, position: int) -> None:
        consumers = self._agent(agent, space).consumers
        if name not in consumers:
            raise NotFound(f"agent {agent!r} has no consumer {name!r}; name it first")
        consumers[name] = max(position, consumers[name])

    @locked
    def drop_consumer(self, agent: str, space: str, name: str) -> bool:
        return self._agent(agent, space).consumers.pop(name, None) is not None

    @locked
    def prune_runs(
        self, agent: str, space: str, retain: Retain, *, now: int, limit: int = 1000
    ) -> int:
        lanes = self._agent(agent, space)
        ended = [(r.ended, r) for r in self._runs.all_runs() if r.ended is not None]
        mine = [(t, r) for t, r in ended if (r.scope.space, r.agent) == (space, agent)]
        mine.sort(key=lambda pair: (pair[0], pair[1].id))
        spare = 0 if retain.count is None else len(mine) - retain.count
        read = min(lanes.consumers.values(), default=None)
        done = 0
        for index, (time, run) in enumerate(mine[:limit]):
            old = retain.age_us is not None and time <= now - retain.age_us
            outputs = [output.position for output in lanes.outputs_of(run.id)]
            unread = read is not None and max(outputs, default=0) > read
            if unread or not (old or index < spare):
                break
            self._runs.drop(run)
            done += 1
        self._forget(lanes, retain, now, limit)
        return done

    def _forget(self, lanes: AgentLanes, retain: Retain, now: int, limit: int) -> None:
        """Delete up to *limit* event ids that *retain* no longer keeps, the oldest first."""
        until, last = now - retain.dedupe_us, self._runs.last_id - retain.dedupe_count
        going = sorted(
            (known.time, event_id)
            for event_id, known in lanes.events.items()
            if known.time <= until
            and known.run <= last
            and ((run := self._runs.get(known.run)) is None or run.ended is not None)
        )
        for _, event_id in going[:limit]:
            del lanes.events[event_id]

    def _counts(self) -> tuple[int, int, int]:
        """Return the numbers of waiting, parked and ended runs."""
        found = [run.status for run in self._runs.all_runs()]
        waiting, parked = found.count("waiting"), found.count("parked")
        return waiting, parked, len(found) - waiting - parked
