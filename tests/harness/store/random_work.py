"""Random batches and runs, similar enough to collide, and odd enough to find unexpected faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, field, replace
from datetime import timedelta
from random import Random
from typing import Any, ParamSpec, TypeVar, cast

from alveus.errors import AlveusError
from alveus.store import (
    Accepted,
    Add,
    Batch,
    Begin,
    Clear,
    Commit,
    Compact,
    Create,
    Define,
    Definition,
    Delete,
    DurableCall,
    Erased,
    Erasure,
    ItemChange,
    ItemRecord,
    Lease,
    Limits,
    Link,
    Progress,
    Put,
    QueuedInput,
    Refresh,
    Replace,
    Retain,
    Retire,
    Revive,
    Run,
    Scope,
    SetRef,
    StatusChange,
    Step,
    Store,
    TreeDelta,
    Undo,
)
from alveus.testing.batches import DAY, SECOND, VALUES
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path

SCOPES = (Scope("app", "ada"), Scope("app", "b.o\0b"), Scope("app 2", "ada"), Scope("app", None))
OBJECTS = ("a", "a.b", "\\", "x\0y", "🦊")
LEAVES = ("leaf", "other leaf")
"""Names that never become objects. Only these expire, so no object expires before its fields."""

IDS = ("i", "j", "k", "🦊", "i\0")
TEXTS = ("short", "", "a longer text about nothing", "naïve 🦊 \0", "text")
DEFINITIONS = (
    Definition(),
    Definition(capacity=2, compaction="reject"),
    Definition(capacity=3),
    Definition(capacity=1, compaction={"name": "summarise"}),
    Definition(signals={"speaker": 0.5}),
    Definition(capacity=4, compaction={"name": "merge", "at": [0.5]}, admission=[{"name": "a"}]),
    Definition(capacity=3, compaction={"name": "merge"}, execution="sync"),
    Definition(capacity_tokens=300),
    Definition(capacity_bytes=60),
    Definition(capacity_bytes=90, capacity_tokens=3, compaction="reject", low_water=0.5),
)
STEPS = (0, 0, 1, SECOND, 3 * SECOND, 60 * SECOND)
"""Steps of time between two batches."""

WRONG = (0, 0, 0, 0, -SECOND, -DAY)
"""Errors of the clock with which a batch is made."""


@dataclass
class Player:
    """Makes random batches for a store. It reads the store only to choose likely targets.

    Args:
        rng: The source of randomness.
        clock: The true time.
        purges: Also define sets with a limited retention.
    """

    rng: Random
    clock: int
    purges: bool = False

    def batch(self, store: Store) -> Batch:
        """Return a batch that *store* usually accepts."""
        self.clock += self.rng.choice(STEPS)
        scope = self.rng.choice(SCOPES)
        state = [self._delta() for _ in range(self._few())] if scope.key is not None else []
        items = [self._change(store, scope) for _ in range(self._few())]
        named = self.rng.random() < 0.4
        number = self.rng.randrange(40)
        asked = named and number % 2 == 0
        return Batch(
            scope=scope,
            time=self.clock + self.rng.choice(WRONG),
            op=b"op %d" % number if named else None,
            request=b"request %d" % self.rng.choice((1, 1, 1, 2)) if asked else None,
            base=self._base(store, scope) if state or self._rarely() else None,
            state=state,
            define=[self._definition(scope)] if self._rarely() else [],
            items=items,
            limits=self._limits(),
            result=self.rng.choice(VALUES),
        )

    def _few(self) -> int:
        return self.rng.choice((0, 1, 1, 2, 3, 5))

    def _rarely(self) -> bool:
        return self.rng.random() < 0.15

    def _base(self, store: Store, scope: Scope) -> int:
        head = store.head(scope)
        return self.rng.choice((0, head)) if self._rarely() else head

    def _limits(self) -> Limits | None:
        if not self._rarely():
            return None
        return self.rng.choice((Limits(items=3), Limits(bytes=60), Limits()))

    def _set(self, scope: Scope) -> SetRef:
        home = SCOPES[-1] if self._rarely() else scope
        return SetRef(home, self.rng.choice(("notes", "no\0tes")))

    def _definition(self, scope: Scope) -> Define:
        replaces = self.rng.random() < 0.7
        definition = self.rng.choice(DEFINITIONS)
        if self.purges:
            kept = self.rng.choice(("keep", "purge", SECOND, 60 * SECOND))
            definition = replace(definition, retention=kept)
        return Define(self._set(scope), definition, replace=replaces)

    def _path(self) -> Path:
        return tuple(self.rng.choice(OBJECTS[:2]) for _ in range(self.rng.choice((0, 0, 0, 1, 2))))

    def _expiry(self) -> int | None:
        return self.clock + self.rng.choice((-1, 0, 1, SECOND, 90 * SECOND))

    def _delta(self) -> TreeDelta:
        objects = (*self._path(), self.rng.choice(OBJECTS))
        leaf = (*self._path(), self.rng.choice(LEAVES))
        value = self.rng.choice(VALUES)
        deltas: tuple[TreeDelta, ...] = (
            Create(objects),
            Create(objects),
            Put(leaf, value),
            Put(leaf, value, self._expiry()),
            Put(objects, value),
            Delete(self.rng.choice((objects, leaf))),
            Clear(self._path()),
            Refresh(leaf, self.rng.choice((None, self._expiry()))),
        )
        return self.rng.choice(deltas)

    def _change(self, store: Store, scope: Scope) -> ItemChange:
        home, item_id = self._set(scope), self.rng.choice(IDS)
        live = store.get(home, [item_id])[0]
        if live is None and not self._rarely():
            return Add(home, self._record(item_id))
        version = 1 if live is None else live.version
        version += self.rng.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
        changes: tuple[ItemChange, ...] = (
            Retire(home, item_id, version),
            Replace(home, version, self._record(item_id)),
            Replace(home, version, self._record(item_id)),
            Add(home, self._record(self.rng.choice(IDS))),
            self._derived(scope, home, self.rng.choice(IDS)),
            self._compact(store, scope, home),
            self._bring_back(store, home),
        )
        return self.rng.choice(changes)

    def _derived(self, scope: Scope, home: SetRef, item_id: str) -> Add:
        places = [home, home, self._set(scope)]
        links = [Link(self.rng.choice(places), self.rng.choice(IDS)) for _ in range(self._few())]
        accessed = self.rng.choice((None, self.clock - DAY))
        return Add(home, self._record(item_id), links=links, accessed=accessed)

    def _compact(self, store: Store, scope: Scope, home: SetRef) -> Compact:
        live = [(item.record.id, item.version) for item in store.page(home, limit=5)]
        retired = self.rng.sample(live, min(len(live), self._few()))
        if self._rarely():
            retired.append((self.rng.choice(IDS), self.rng.choice((1, 2))))
        names = [item_id for item_id, _ in retired] or list(IDS)
        added = [
            replace(
                self._derived(scope, home, self.rng.choice((*names, *IDS))),
                links=[Link(home, name) for name in names],
            )
            for _ in range(self.rng.choice((0, 1, 1, 2)))
        ]
        return Compact(home, retired, added, self.rng.choice(('{"by": "chance"}', "{}")))

    def _bring_back(self, store: Store, home: SetRef) -> ItemChange:
        """Return an undo, or a revival of a version, of a set that has them."""
        done = store.compactions(home, limit=3)
        if done and self.rng.random() < 0.8:
            return Undo(home, self.rng.choice(done).id)
        versions = store.versions(home, self.rng.choice(IDS))
        return Revive(home, self.rng.choice(versions).row if versions else 0)

    def _record(self, item_id: str) -> ItemRecord:
        made = ItemRecord(
            item_id,
            value=self.rng.choice((None, '"v"', '{"text":"é"}')),
            text=self.rng.choice(TEXTS),
            metadata=self.rng.choice(("{}", '{"topic":"é"}')),
            importance=self.rng.choice((0.0, 0.5)),
            sources=self.rng.choice(((), ("i", "j"))),
            compacted=self.rng.choice((False, True)),
            time=self.rng.choice((None, self.clock, self.clock - DAY)),
            vectors=self.rng.choice((None, b"", b"\1\2")),
        )
        if self._rarely():
            made = replace(made, until=self.clock + SECOND, expires=self._expiry())
        if self._rarely():
            made = replace(made, valid_from=self.clock - SECOND, valid_to=self._expiry())
        if self._rarely():
            return replace(made, speaker="Ada", role="user", session="s1")
        return replace(made, terms=b"\1\0\0\0\1", tokens=1, temporal=self.rng.choice((0, 255)))


def vectors_of(text: str) -> bytes:
    """Return made-up vectors that depend on the text alone, as an embedder's do."""
    return text.encode()[:8].ljust(8, b"\1")


def embed_some(store: Store, *, limit: int) -> None:
    """Embed up to *limit* waiting items."""
    waiting = store.pending_vectors(limit=limit)
    store.store_vectors([(p.set_number, p.row, vectors_of(p.text)) for p in waiting])


def forget_some(
    store: Store, model: Store, rng: Random, *, clock: int, runs: Mapping[int, int]
) -> tuple[int, int] | None:
    """Forget something in both stores. Return the numbers of the commits, if any.

    Args:
        runs: The store's id of each run of the model.
    """
    erasure = _erasure(rng, clock)
    found, expected = (answer(each.erase, erasure) for each in (store, model))
    if isinstance(found, AlveusError) or isinstance(expected, AlveusError):
        assert type(found) is type(expected), (erasure, found, expected)
        return None
    assert _told(found, {}) == _told(expected, runs), (erasure, found, expected)
    again = answer(store.erase, erasure)
    if not erasure.dry_run:
        assert isinstance(again, Erased)
        assert replace(again, marks=found.marks) == found or found.commit is None, "it was done"
    if found.commit is None or expected.commit is None:
        assert found.commit is expected.commit
        return None
    return found.commit, expected.commit


def _erasure(rng: Random, clock: int) -> Erasure:
    scope = rng.choice(SCOPES)
    receipt = f"{rng.getrandbits(64):016x}"
    rehearse = rng.random() < 0.2
    if scope.key is not None and rng.random() < 0.5:
        return Erasure(scope, clock, receipt, whole_key=True, dry_run=rehearse)
    names = ["notes", "no\0tes"]
    items = [(SetRef(scope, name), rng.sample(IDS, rng.choice((1, 2)))) for name in names]
    return Erasure(scope, clock, receipt, items=items[: rng.choice((1, 2))], dry_run=rehearse)


def _told(erased: Erased, runs: Mapping[int, int]) -> dict[str, Any]:
    """Return the fields that are equal in every store."""
    told = asdict(erased)
    told["open"] = sorted(runs.get(run, run) for run in erased.open)
    for name in ("commit", "sets", "puts"):
        told[name] = len(told[name]) if isinstance(told[name], (list, tuple)) else None
    told["counts"] = {kind: n for kind, n in erased.counts.items() if kind != "nodes"}
    return told


T = TypeVar("T")
P = ParamSpec("P")

AGENTS = ("helper", "other \0 agent")
SPACES = ("app", "app 2")
RETAINS = (
    Retain(age=None, count=3),
    Retain(age=timedelta(microseconds=SECOND), count=9, dedupe_for=timedelta(0), dedupe_count=0),
    Retain(age=None, count=1, dedupe_for=timedelta(minutes=1), dedupe_count=4),
    Retain(age=timedelta(0), dedupe_for=timedelta(days=1), dedupe_count=9),
)


def answer(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | AlveusError:
    """Return what *work* returns, or the error it raises."""
    try:
        return work(*args, **kwargs)
    except AlveusError as error:
        return error


def comparable(answer: object) -> object:
    """Return the part of an answer that is equal in every store."""
    if isinstance(answer, AlveusError):
        return type(answer)
    if isinstance(answer, Commit):
        return answer.time, answer.adopted, wire.encode(answer.result), list(answer.sets_to_compact)
    if isinstance(answer, Accepted):
        return (
            answer.run is None,
            answer.number,
            answer.repeated,
            answer.lease is None,
            answer.first,
        )
    if isinstance(answer, list):
        return [comparable(each) for each in cast("list[object]", answer)]
    return answer


@dataclass
class LaneGame:
    """Moves of runners, consumers and the command line, made on two stores at once.

    Attributes:
        numbers: Commits by the numbers of the store and the model.
        leases: Past leases of the store and the model.
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
        """Release the lease of *scope*, if it is held."""
        for ours, theirs in reversed(self.leases):
            if theirs.scope == scope:
                self.store.release_lease(ours)
                self.model.release_lease(theirs)
                return

    def both(self, ask: Callable[[Store], T]) -> tuple[T, T] | None:
        """Return the equal answers of both. None means both refuse with equal errors."""
        found, expected = answer(ask, self.store), answer(ask, self.model)
        assert comparable(found) == comparable(expected), (found, expected)
        if isinstance(found, AlveusError) or isinstance(expected, AlveusError):
            return None
        return found, expected

    def agree(self, batch: Batch, answer: object, expected: object) -> None:
        """Compare the answers to a batch, and record their numbers."""
        assert comparable(answer) == comparable(expected), (batch, answer, expected)
        if isinstance(answer, Commit) and isinstance(expected, Commit):
            if not expected.adopted:
                assert answer.number > self.numbers[-1][0], "commit numbers rise"
                self.numbers.append((answer.number, expected.number))
            assert (answer.number, expected.number) in reversed(self.numbers), (answer, expected)

    def lease(self, scope: Scope, owner: str) -> tuple[Lease, Lease] | None:
        """Take a lease in both stores, if it is free."""
        ours, theirs = (
            self.store.acquire_lease(scope, owner),
            self.model.acquire_lease(scope, owner),
        )
        if ours is None or theirs is None:
            assert ours is theirs, (ours, theirs)
            return None
        assert (ours.scope, ours.owner) == (theirs.scope, theirs.owner)
        self.leases.append((ours, theirs))
        return ours, theirs

    # --- runners

    def _accept(self, rng: Random, clock: int, owner: str) -> None:
        space = rng.choice(SPACES)
        scopes = [scope for scope in SCOPES if scope.space == space and scope.key is not None]
        inputs = [_input(rng, rng.choice(scopes), clock) for _ in range(rng.choice((1, 1, 2, 3)))]
        agent, taker = rng.choice(AGENTS), rng.choice((owner, None))
        both = self.both(lambda store: store.accept(agent, inputs, owner=taker))
        for mine, yours in zip(*both, strict=True) if both else ():
            if mine.run is not None and yours.run is not None:
                assert self.runs.setdefault(yours.run, mine.run) == mine.run
            if mine.lease is not None and yours.lease is not None:
                self.leases.append((mine.lease, yours.lease))

    def _tell(self, rng: Random, clock: int, owner: str) -> None:
        """Commit a change of one or several runs, one by one or together."""
        pairs = [self._batch(rng, clock, owner) for _ in range(rng.choice((1, 1, 1, 2, 4)))]
        made = [pair for pair in pairs if pair is not None]
        if len(made) == 1:
            ours, theirs = made[0]
            self.agree(theirs, answer(self.store.commit, ours), answer(self.model.commit, theirs))
            return
        found = self.store.commit_many([ours for ours, _ in made])
        expected = self.model.commit_many([theirs for _, theirs in made])
        for mine, yours, (_, batch) in zip(found, expected, made, strict=True):
            self.agree(batch, mine, yours)

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
        """Return a run of the model, most likely one of *status*, or a missing run."""
        found = [run for space in SPACES for run in self.model.runs(space, limit=12)]
        fitting = [run for run in found if run.status == status]
        if not found or rng.random() < 0.05:
            return Run(10**9, "nobody", SCOPES[0], 0, "waiting", "0", 0)
        return rng.choice(fitting if fitting and rng.random() < 0.85 else found)

    def _lease(self, rng: Random, scope: Scope, owner: str) -> tuple[Lease, Lease] | None:
        old = [pair for pair in self.leases if pair[0].scope == scope]
        taken = self.lease(scope, owner)
        if taken is not None and (rng.random() < 0.9 or not old):
            return taken
        return rng.choice(old) if old else None

    def _retry(self, rng: Random, clock: int, _owner: str) -> None:
        run = self._some(rng, "parked")
        if run is None:
            return
        last, ours = rng.random() < 0.5, self.runs.get(run.id, run.id)
        found = answer(self.store.retry_run, ours, last=last, time=clock)
        expected = answer(self.model.retry_run, run.id, last=last, time=clock)
        if isinstance(found, int) and isinstance(expected, int):
            assert self.runs.setdefault(expected, found) == found
        else:
            assert type(found) is type(expected), (run, found, expected)

    # --- readers

    def _read(self, rng: Random, _clock: int, _owner: str) -> None:
        """Name a consumer or forget one."""
        agent, space, name = rng.choice(AGENTS), rng.choice(SPACES), rng.choice(("mail", "log"))
        if rng.random() < 0.4:
            self.both(lambda store: store.drop_consumer(agent, space, name))
            return
        found, expected = (
            each.outputs(agent, space, after=each.consumer_position(agent, space, name))
            for each in (self.store, self.model)
        )
        assert [o.event for o in found] == [o.event for o in expected]

    def _advance(self, rng: Random, _clock: int, _owner: str) -> None:
        agent, space, name = rng.choice(AGENTS), rng.choice(SPACES), rng.choice(("mail", "log"))
        count = rng.choice((1, 2, 5))

        def advance(store: Store) -> None:
            floor = store.consumer_position(agent, space, "mail")
            page = store.outputs(agent, space, after=floor, limit=count)
            store.advance_consumer(agent, space, name, page[-1].position if page else 0)

        self.both(advance)

    def _prune(self, rng: Random, clock: int, _owner: str) -> None:
        agent, space = rng.choice(AGENTS), rng.choice(SPACES)
        retain, limit = rng.choice(RETAINS), rng.choice((1, 5, 1000))
        self.both(lambda store: store.prune_runs(agent, space, retain, now=clock, limit=limit))


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
