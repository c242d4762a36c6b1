"""A game of runs, played at random on a store and on `RamStore`, with every answer compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import TypeVar

from fornix.errors import FornixError
from fornix.store import (
    Accepted,
    Batch,
    Begin,
    Commit,
    DurableCall,
    Lease,
    Progress,
    Put,
    QueuedInput,
    Retain,
    Run,
    Scope,
    StatusChange,
    Step,
    Store,
)
from fornix.testing.batches import SECOND
from fornix.testing.random_batches import SCOPES
from fornix.values import wire

T = TypeVar("T")

AGENTS = ("helper", "other \0 agent")
SPACES = ("app", "app 2")
RETAINS = (
    Retain(age=None, count=3),
    Retain(age=timedelta(microseconds=SECOND), count=9, dedupe_for=timedelta(0), dedupe_count=0),
    Retain(age=None, count=1, dedupe_for=timedelta(minutes=1), dedupe_count=4),
    Retain(age=timedelta(0), dedupe_for=timedelta(days=1), dedupe_count=9),
)


def answer(work: Callable[[], T]) -> T | FornixError:
    """Return what *work* returns, or the error it raises."""
    try:
        return work()
    except FornixError as error:
        return error


def said(found: object) -> object:
    """Return of an answer what is the same in every store."""
    if isinstance(found, FornixError):
        return type(found)
    if isinstance(found, Commit):
        return found.time, found.adopted, wire.encode(found.result), list(found.marks)
    if isinstance(found, Accepted):
        return found.run is None, found.number, found.repeated, found.lease is None, found.first
    return found


@dataclass
class LaneGame:
    """Moves of runners, consumers and the command line, made on two stores at once.

    Attributes:
        numbers: Commits, as the store and the model number them.
        leases: Leases that were had, as the store and the model gave them.
        runs: The store's id of each run of the model.
    """

    store: Store
    model: Store
    numbers: list[tuple[int, int]]
    leases: list[tuple[Lease, Lease]]
    runs: dict[int, int] = field(default_factory=dict[int, int])

    def play(self, rng: Random, *, clock: int, owner: str) -> None:
        """Make one move."""
        moves = (
            *[self._accept] * 4,
            *[self._tell] * 8,
            self._retry,
            self._read,
            self._advance,
            self._prune,
        )
        rng.choice(moves)(rng, clock, owner)

    def release(self, scope: Scope) -> None:
        """Give back the lease of *scope*, if it is held."""
        for ours, theirs in reversed(self.leases):
            if theirs.scope == scope:
                self.store.release(ours)
                self.model.release(theirs)
                return

    def _both(self, ours: Callable[[], T], theirs: Callable[[], T]) -> tuple[T, T] | None:
        """Return both answers, which agree; None: both were refused alike."""
        found, expected = answer(ours), answer(theirs)
        assert said(found) == said(expected), (found, expected)
        if isinstance(found, FornixError) or isinstance(expected, FornixError):
            return None
        return found, expected

    # --- runners

    def _accept(self, rng: Random, clock: int, owner: str) -> None:
        space = rng.choice(SPACES)
        scopes = [scope for scope in SCOPES if scope.space == space and scope.key is not None]
        inputs = [_input(rng, rng.choice(scopes), clock) for _ in range(rng.choice((1, 1, 2, 3)))]
        agent, taker = rng.choice(AGENTS), rng.choice((owner, None))
        ours = answer(lambda: self.store.accept(agent, inputs, owner=taker))
        theirs = answer(lambda: self.model.accept(agent, inputs, owner=taker))
        if isinstance(ours, FornixError) or isinstance(theirs, FornixError):
            assert type(ours) is type(theirs), (inputs, ours, theirs)
            return
        assert [*map(said, ours)] == [*map(said, theirs)], (inputs, ours, theirs)
        for mine, yours in zip(ours, theirs, strict=True):
            if mine.run is not None and yours.run is not None:
                assert self.runs.setdefault(yours.run, mine.run) == mine.run
            if mine.lease is not None and yours.lease is not None:
                self.leases.append((mine.lease, yours.lease))

    def _tell(self, rng: Random, clock: int, owner: str) -> None:
        """Commit something about a run or a few, one by one or together."""
        pairs = [self._batch(rng, clock, owner) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
        made = [pair for pair in pairs if pair is not None]
        if len(made) == 1:
            ours: list[Commit | FornixError] = [answer(lambda: self.store.commit(made[0][0]))]
            theirs: list[Commit | FornixError] = [answer(lambda: self.model.commit(made[0][1]))]
        else:
            ours = self.store.commit_many([pair[0] for pair in made])
            theirs = self.model.commit_many([pair[1] for pair in made])
        for found, expected, pair in zip(ours, theirs, made, strict=True):
            assert said(found) == said(expected), (pair[1], found, expected)
            if isinstance(found, Commit) and isinstance(expected, Commit):
                numbers = (found.number, expected.number)
                if not expected.adopted:
                    self.numbers.append(numbers)
                assert numbers in reversed(self.numbers), (pair[1], found, expected)

    def _batch(self, rng: Random, clock: int, owner: str) -> tuple[Batch, Batch] | None:
        run = self._some(rng, "waiting")
        if run is None:
            return None
        scope = run.scope if rng.random() < 0.95 else rng.choice(SCOPES[:3])
        lease = self._lease(rng, scope, owner)
        told = _progress(rng, run, clock)
        outside = lease is None or (isinstance(told, StatusChange) and rng.random() < 0.5)
        if outside and not isinstance(told, StatusChange):
            return None
        state = [Put(("leaf",), rng.randrange(9))] if rng.random() < 0.3 else []
        theirs = Batch(
            scope=scope,
            time=clock,
            run=told,
            state=state,
            base=self.model.head(scope) if state else None,
            epoch=None if outside or lease is None else lease[1].epoch,
            release=not outside and rng.random() < 0.2,
        )
        ours = replace(
            theirs,
            run=replace(told, run=self.runs.get(told.run, told.run)),
            base=self.store.head(scope) if state else None,
            epoch=None if outside or lease is None else lease[0].epoch,
        )
        return ours, theirs

    def _some(self, rng: Random, status: str) -> Run | None:
        """Return a run of the model, most likely one of *status*, or one that is not there."""
        found = [run for space in SPACES for run in self.model.runs(space, limit=12)]
        fitting = [run for run in found if run.status == status]
        if not found or rng.random() < 0.05:
            return Run(10**9, "nobody", SCOPES[0], 0, "waiting", "0", 0)
        return rng.choice(fitting if fitting and rng.random() < 0.85 else found)

    def _lease(self, rng: Random, scope: Scope, owner: str) -> tuple[Lease, Lease] | None:
        ours, theirs = self.store.lease(scope, owner), self.model.lease(scope, owner)
        assert (ours is None) == (theirs is None), (ours, theirs)
        old = [pair for pair in self.leases if pair[0].scope == scope]
        if ours is not None and theirs is not None:
            self.leases.append((ours, theirs))
            if rng.random() < 0.9 or not old:
                return ours, theirs
        return rng.choice(old) if old else None

    def _retry(self, rng: Random, clock: int, _owner: str) -> None:
        run = self._some(rng, "parked")
        if run is None:
            return
        last, ours = rng.random() < 0.5, self.runs.get(run.id, run.id)
        found = answer(lambda: self.store.retry(ours, last=last, time=clock))
        expected = answer(lambda: self.model.retry(run.id, last=last, time=clock))
        if isinstance(found, int) and isinstance(expected, int):
            assert self.runs.setdefault(expected, found) == found
        else:
            assert type(found) is type(expected), (run, found, expected)

    # --- readers

    def _read(self, rng: Random, _clock: int, _owner: str) -> None:
        """Name a consumer or forget one."""
        agent, space, name = rng.choice(AGENTS), rng.choice(SPACES), rng.choice(("mail", "log"))
        if rng.random() < 0.4:
            self._both(
                lambda: self.store.drop_consumer(agent, space, name),
                lambda: self.model.drop_consumer(agent, space, name),
            )
            return
        ours, theirs = (each.consumer(agent, space, name) for each in (self.store, self.model))
        found = self.store.outputs(agent, space, after=ours)
        expected = self.model.outputs(agent, space, after=theirs)
        assert [o.event for o in found] == [o.event for o in expected]

    def _advance(self, rng: Random, _clock: int, _owner: str) -> None:
        agent, space, name = rng.choice(AGENTS), rng.choice(SPACES), rng.choice(("mail", "log"))
        count = rng.choice((1, 2, 5))

        def advance(store: Store) -> None:
            floor = store.consumer(agent, space, "mail")
            page = store.outputs(agent, space, after=floor, limit=count)
            store.advance(agent, space, name, page[-1].position if page else 0)

        self._both(lambda: advance(self.store), lambda: advance(self.model))

    def _prune(self, rng: Random, clock: int, _owner: str) -> None:
        agent, space = rng.choice(AGENTS), rng.choice(SPACES)
        retain, limit = rng.choice(RETAINS), rng.choice((1, 5, 1000))
        self._both(
            lambda: self.store.prune(agent, space, retain, now=clock, limit=limit),
            lambda: self.model.prune(agent, space, retain, now=clock, limit=limit),
        )


def _input(rng: Random, scope: Scope, clock: int) -> QueuedInput:
    event = wire.encode(rng.choice(("hello", 1, None, "naïve 🦊 \0")))
    if rng.random() < 0.5:
        return QueuedInput(scope, event, clock)
    request = rng.choice((b"asked", b"asked", b"asked", b"asked", b"other"))
    return QueuedInput(scope, event, clock, b"event %d" % rng.randrange(12), request, "an event")


def _progress(rng: Random, run: Run, clock: int) -> Progress:
    begin = Begin(clock, ("greet", "note")) if rng.random() < 0.9 else None
    text = rng.choice((None, "1", '"naïve 🦊"'))
    chance = rng.random()
    if chance < 0.5:
        outputs = [f'"{clock} {i}"' for i in range(rng.choice((0, 0, 1, 3)))]
        done = rng.random() < 0.3
        # fmt: off
        return Step(
            run.id, rng.randrange(4), rng.choice(("greet", "note")), text, text, text, outputs,
            text, begin, done,
        )
        # fmt: on
    if chance < 0.75:
        status = rng.choice(("pending", "pending", "returned", "raised"))
        place, attempts = rng.randrange(3), rng.randrange(1, 4)
        truncate = rng.random() < 0.2
        # fmt: off
        return DurableCall(
            run.id, rng.randrange(4), place, "fetch", "digest", status, text, attempts, begin,
            truncate,
        )
        # fmt: on
    expected = run.status if run.status in {"waiting", "parked"} else "waiting"
    if rng.random() < 0.1:
        expected = rng.choice(("waiting", "parked"))
    status = rng.choice(("waiting", "parked", "parked", "done", "discarded"))
    return StatusChange(run.id, expected, status, text, begin)
