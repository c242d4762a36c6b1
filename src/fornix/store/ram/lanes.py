"""What is to be run, and how far it is: the part of the store that runners use."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import RLock

from fornix.errors import ForkedStore, NotFound, StaleRun, StoreClosed
from fornix.store import (
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
from fornix.store.progress import space_of
from fornix.store.ram.progress import AgentLanes, RunTable, Undo


class RamLanes:
    """`Lanes` and leases; what all parts of the store share: its lock, and which keys it has."""

    def __init__(self, alive: Callable[[str], bool]) -> None:
        self._alive = alive
        self._lock = RLock()
        self._process = os.getpid()
        self._closed = False
        self._keys: dict[str, list[str]] = {}
        self._named: set[Scope] = set()
        self._leases: dict[Scope, tuple[str | None, int]] = {}
        self._hidden: dict[Scope, Scope] = {}
        self._runs = RunTable()

    def _ready(self) -> RLock:
        """Return the lock, if this handle can be used here."""
        if os.getpid() != self._process:
            raise ForkedStore("this RamStore was made before a fork; make another one here")
        if self._closed:
            raise StoreClosed("this RamStore was closed, and what it held is gone; make another")
        return self._lock

    def _name(self, scope: Scope) -> None:
        """Take note that there is a key."""
        key = scope.key
        if key is None or scope in self._named:
            return
        self._hidden.pop(scope, None)
        self._named.add(scope)
        keys = self._keys.get(scope.space)
        if keys is None:
            keys = self._keys[scope.space] = []
        place = bisect_left(keys, key)
        if place == len(keys) or keys[place] != key:
            keys.insert(place, key)

    # --- leases

    def lease(self, scope: Scope, owner: str) -> Lease | None:
        """Take the right to run *scope* for *owner*, or None while a live owner has it."""
        with self._ready():
            return self._take(scope, owner, [])

    def _take(self, scope: Scope, owner: str, undo: Undo) -> Lease | None:
        before = self._leases.get(scope, (None, 0))
        holder, epoch = before
        if holder is not None and holder != owner and self._alive(holder):
            return None
        if holder != owner:
            epoch += 1
            undo.append(lambda: self._leases.update({scope: before}))
            if scope in self._hidden:
                self._name(scope)
            self._leases[scope] = (owner, epoch)
        return Lease(scope, owner, epoch)

    def release(self, lease: Lease) -> None:
        """Give a lease back; nothing happens if it was taken over."""
        with self._ready():
            if self._leases.get(lease.scope) == (lease.owner, lease.epoch):
                self._leases[lease.scope] = (None, lease.epoch)

    # --- runs

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """Keep inputs, all of them or none; see `Lanes.accept`."""
        with self._ready():
            if not inputs:
                return []
            space_of(inputs)
            undo: Undo = []
            try:
                answers = [self._accept(agent, given, owner, undo) for given in inputs]
            except BaseException:
                for step in reversed(undo):
                    step()
                raise
            for given in inputs:
                self._name(given.scope)
            return answers

    def _accept(self, agent: str, given: QueuedInput, owner: str | None, undo: Undo) -> Accepted:
        earlier = self._runs.earlier(agent, given)
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
            first=run is not None and self._runs.first(run),
        )

    def run(self, run: int) -> Run | None:
        """Return a run, or None if there is none (any more)."""
        with self._ready():
            found = self._runs.get(run)
            return None if found is None else self._seen(found)

    def _seen(self, run: Run) -> Run:
        """Return a run; of a key that was forgotten without the key's name."""
        hidden = self._hidden.get(run.scope)
        if hidden is None:
            return run
        return replace(run, scope=Scope(run.scope.space, hidden.key))

    def runs(
        self,
        space: str,
        *,
        agent: str | None = None,
        key: str | None = None,
        status: RunStatus | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """Return runs, the latest first, with ids below *before*."""
        with self._ready():
            found = [
                run
                for run in map(self._seen, reversed(self._runs.every()))
                if run.scope.space == space
                and agent in (None, run.agent)
                and key in (None, run.scope.key)
                and status in (None, run.status)
                and (before is None or run.id < before)
            ]
            return found[:limit]

    def _agent(self, agent: str, space: str) -> AgentLanes:
        return self._runs.agents.get((space, agent)) or AgentLanes(agent, space)

    def queue(self, agent: str, scope: Scope, *, limit: int = 100) -> list[Run]:
        """Return the runs of a lane that wait or are parked, in order."""
        with self._ready():
            numbers = self._agent(agent, scope.space).open.get(scope, [])
            return [self._runs.waiting(number) for number in numbers[:limit]]

    def lanes(self, agent: str, space: str, *, past_parked: bool, limit: int = 1000) -> list[Scope]:
        """Return the scopes of an agent's lanes where a run waits, by its id."""
        with self._ready():
            found: list[tuple[int, Scope]] = []
            for scope, numbers in self._agent(agent, space).open.items():
                reach = numbers if past_parked else numbers[:1]
                waiting = [n for n in reach if self._runs.waiting(n).status == "waiting"]
                found.extend((number, scope) for number in waiting[:1])
            return [scope for _, scope in sorted(found, key=lambda pair: pair[0])][:limit]

    def steps(self, run: int) -> list[StepDone]:
        """Return the tasks of a run that are done, by ordinal."""
        with self._ready():
            rows = sorted(self._runs.steps.get(run, {}).items())
            return [StepDone(run, ordinal, *row) for ordinal, row in rows]

    def calls(self, run: int, ordinal: int) -> list[DurableCall]:
        """Return the durable calls of a task, by position."""
        with self._ready():
            found = sorted(self._runs.calls.get(run, {}).items(), key=lambda pair: pair[0])
            return [call for (task, _), (call, _) in found if task == ordinal]

    def retry(self, run: int, *, last: bool, time: int) -> int:
        """Let a parked run wait again, or a new one in its place; see `Lanes.retry`."""
        with self._ready():
            found = self._runs.get(run)
            if found is None:
                raise NotFound(f"there is no run {run} (any more)")
            if found.status != "parked":
                key = found.scope.key or ""
                raise StaleRun(key, expected="parked", found=found.status, what=f"run {run}")
            if not last:
                self._runs.turn(run, "waiting", None, time, [])
                return run
            self._runs.turn(run, "retried", None, time, [])
            given = QueuedInput(found.scope, found.event, time)
            return self._runs.begin(found.agent, given, [], origin=run).id

    # --- outputs

    def outputs(
        self, agent: str, space: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredOutput]:
        """Return outputs of an agent past a position, in order."""
        with self._ready():
            return self._agent(agent, space).past(after, limit)

    def outputs_of(self, run: int) -> list[StoredOutput]:
        """Return the outputs of one run, in order."""
        with self._ready():
            found = self._runs.get(run)
            return [] if found is None else self._runs.of(found).of(run)

    def consumer(self, agent: str, space: str, name: str) -> int:
        """Return the position up to which a consumer has read; a new one is at the floor."""
        with self._ready():
            home = self._runs.agent(agent, space)
            return home.consumers.setdefault(name, home.floor)

    def advance(self, agent: str, space: str, name: str, position: int) -> None:
        """Move a consumer up to *position*, never back."""
        with self._ready():
            consumers = self._agent(agent, space).consumers
            if name not in consumers:
                raise NotFound(f"agent {agent!r} has no consumer {name!r}; name it first")
            consumers[name] = max(position, consumers[name])

    def drop_consumer(self, agent: str, space: str, name: str) -> bool:
        """Forget a consumer; return whether there was one."""
        with self._ready():
            return self._agent(agent, space).consumers.pop(name, None) is not None

    def prune(self, agent: str, space: str, retain: Retain, *, now: int, limit: int = 1000) -> int:
        """Remove ended runs in the order they ended; see `Lanes.prune`."""
        with self._ready():
            home = self._agent(agent, space)
            ended = [(r.ended, r) for r in self._runs.every() if r.ended is not None]
            mine = [(t, r) for t, r in ended if (r.scope.space, r.agent) == (space, agent)]
            mine.sort(key=lambda pair: (pair[0], pair[1].id))
            spare = 0 if retain.count is None else len(mine) - retain.count
            read = min(home.consumers.values(), default=None)
            done = 0
            for place, (time, run) in enumerate(mine[:limit]):
                old = retain.age_us is not None and time <= now - retain.age_us
                outputs = [output.position for output in home.of(run.id)]
                unread = read is not None and max(outputs, default=0) > read
                if unread or not (old or place < spare):
                    break
                self._runs.drop(run)
                done += 1
            self._forget(home, retain, now, limit)
            return done

    def _forget(self, home: AgentLanes, retain: Retain, now: int, limit: int) -> None:
        """Forget ids of events, but for the last ones, and those of unfinished runs."""
        until, last = now - retain.dedupe_us, self._runs.made - retain.dedupe_count
        going = sorted(
            (known.time, event_id)
            for event_id, known in home.events.items()
            if known.time <= until
            and known.run <= last
            and ((run := self._runs.get(known.run)) is None or run.ended is not None)
        )
        for _, event_id in going[:limit]:
            del home.events[event_id]

    def _counts(self) -> tuple[int, int, int]:
        """Return how many runs wait, are parked, and have ended."""
        found = [run.status for run in self._runs.every()]
        waiting, parked = found.count("waiting"), found.count("parked")
        return waiting, parked, len(found) - waiting - parked
