"""Random work on a store and on `RamStore`: step by step, side by side, or with threads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path
from random import Random

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from alveus.errors import AlveusError
from alveus.store import (
    Accepted,
    Batch,
    Begin,
    Commit,
    ItemChange,
    Lease,
    Put,
    QueuedInput,
    Revive,
    Scope,
    Step,
    Store,
    Undo,
)
from alveus.store.ram import RamStore
from alveus.testing.batches import DAY, NOW, SECOND, present
from alveus.testing.reads import FAR, Follower, differences, reads
from alveus.values.lazy_dataclass import dataclass
from harness.store.random_work import (
    AGENTS,
    SCOPES,
    LaneGame,
    Player,
    answer,
    comparable,
    embed_some,
    forget_some,
    vectors_of,
)

OWNERS = ("one", "two")
CHANCE = st.randoms(use_true_random=False)


def store_machine(
    open_store: Callable[[Path], Store],
    *,
    kill_owner: Callable[[Store, str], None] | None = None,
    persistent: bool = False,
) -> type[RuleBasedStateMachine]:
    """Return a state machine that compares a store with `RamStore`.

    ``TestMine = store_machine(MyStore.open).TestCase`` makes it a test.

    Args:
        open_store: Opens the store at a path in an empty folder; again after a `close`, if
            *persistent*.
        kill_owner: Makes the owner of a lease count as dead. None means owners live on.
        persistent: Close and open the store between steps.
    """

    class StoreMachine(_Machine):
        def __init__(self) -> None:
            super().__init__(open_store, kill_owner, persistent=persistent)

    return StoreMachine


class _Machine(RuleBasedStateMachine):
    def __init__(
        self,
        open_store: Callable[[Path], Store],
        kill_owner: Callable[[Store, str], None] | None,
        *,
        persistent: bool,
    ) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="alveus-")
        self.open, self.kill, self.persistent = open_store, kill_owner, persistent
        self.path = Path(self.folder.name) / "memory.db"
        self.store = open_store(self.path)
        self.dead: set[str] = set()
        self.model = RamStore(alive=lambda owner: owner not in self.dead, salt=self.store.salt())
        self.numbers = [(0, 0)]
        self.leases: list[tuple[Lease, Lease]] = []
        self.game = LaneGame(self.store, self.model, self.numbers, self.leases)
        self.follower = Follower()
        self.clock = self.latest = NOW

    def teardown(self) -> None:
        """Read everything once more, then close."""
        try:
            self._compare(None)
            embed_some(self.store, limit=1_000)
            embed_some(self.model, limit=1_000)
            self._compare(())
        finally:
            self.store.close()
            self.folder.cleanup()

    # --- what may happen

    @rule(rng=CHANCE)
    def commit(self, rng: Random) -> None:
        """Commit one random batch to both."""
        self._commit(rng)

    @rule(rng=CHANCE, count=st.integers(5, 30))
    def commit_several(self, rng: Random, count: int) -> None:
        """Commit several random batches, one after the other."""
        for _ in range(count):
            self._commit(rng)

    @rule(rng=CHANCE, count=st.integers(1, 20), owner=st.sampled_from(OWNERS))
    def run_things(self, rng: Random, count: int, owner: str) -> None:
        """Accept inputs, run steps, read outputs, and prune."""
        for _ in range(count):
            self.latest += rng.choice((0, 0, 1, SECOND))
            self.clock = max(self.clock, self.latest)
            self.game.play(rng, clock=self.latest, owner=self._name(owner))

    @rule(limit=st.integers(1, 4))
    def embed(self, limit: int) -> None:
        """Embed some waiting items."""
        embed_some(self.store, limit=limit)
        embed_some(self.model, limit=limit)

    @rule(limit=st.integers(1, 4))
    def stage(self, limit: int) -> None:
        """Stage vectors of another embedder for some items."""
        for store in (self.store, self.model):
            numbers = [info.number for info in store.set_infos(SCOPES[0])]
            found = store.versions_to_stage(numbers, limit=limit)
            store.stage_vectors(
                [(p.set_number, p.row, b"staged" + vectors_of(p.text)) for p in found]
            )

    @rule(text=st.sampled_from(("one", "two")), expected=st.sampled_from((None, "one", "two")))
    def swap(self, text: str, expected: str | None) -> None:
        """Swap the embedder of a space, if the note is as expected."""
        notes = [("n", expected, text)]
        self.game.both(
            lambda store: store.use_staged_vectors(
                [i.number for i in store.set_infos(SCOPES[0])], notes=notes
            )
        )

    @rule()
    def unstage(self) -> None:
        """Drop the staged vectors."""
        self.store.drop_staged_vectors()
        self.model.drop_staged_vectors()

    @rule(later=st.sampled_from((0, 1, 2 * SECOND, 91 * DAY)), ops_kept=st.sampled_from((0, 5)))
    def sweep(self, later: int, ops_kept: int) -> None:
        """Sweep expired data and old ops."""
        self.latest += later
        self.clock = max(self.clock, self.latest)
        for store in (self.store, self.model):
            store.sweep(now=self.latest, ops_kept=ops_kept)

    @rule(age=st.sampled_from((0, SECOND, 2 * DAY)), limit=st.integers(1, 40))
    def prune(self, age: int, limit: int) -> None:
        """Prune the past of trees, in steps."""
        for store in (self.store, self.model):
            after: int | None = 0
            while after is not None:
                _, after = store.prune_history(before=self.latest - age, after=after, limit=limit)

    @rule(position=st.integers(0, 5), scope=st.sampled_from(SCOPES))
    def touch(self, position: int, scope: Scope) -> None:
        """Touch a live item."""
        for store in (self.store, self.model):
            refs = [info.ref for info in store.set_infos(scope)]
            found = [item for ref in refs for item in store.page(ref, limit=5)]
            store.touch([item.first for item in found[position : position + 2]], time=self.latest)

    @rule(scope=st.sampled_from(SCOPES), life=st.sampled_from((1, SECOND, 2 * DAY)))
    def renew(self, scope: Scope, life: int) -> None:
        """Renew items that expire."""
        until = self.latest + life
        self.game.both(
            lambda store: store.renew(
                [
                    (item.row, until)
                    for info in store.set_infos(scope)
                    for item in store.page(info.ref, limit=5)
                ],
                now=self.latest,
            )
        )

    @rule(scope=st.sampled_from(SCOPES), owner=st.sampled_from(OWNERS))
    def lease(self, scope: Scope, owner: str) -> None:
        """Take the lease of a key."""
        self.game.lease(scope, self._name(owner))

    @rule(rng=CHANCE)
    def release(self, rng: Random) -> None:
        """Release a lease, perhaps one that was taken over."""
        if self.leases:
            ours, theirs = rng.choice(self.leases)
            self.store.release_lease(ours)
            self.model.release_lease(theirs)

    @rule(owner=st.sampled_from(OWNERS))
    def owner_dies(self, owner: str) -> None:
        """Kill the owner of leases."""
        if self.kill is not None:
            self.kill(self.store, self._name(owner))
            self.dead.add(self._name(owner))

    @rule(
        text=st.sampled_from((None, "one", "two")), expected=st.sampled_from((None, "one", "two"))
    )
    def note(self, text: str | None, expected: str | None) -> None:
        """Put a note, if the present one is as expected."""
        self.game.both(lambda store: store.put_note("n", text, expected=expected))
        self.game.both(lambda store: store.note("n"))

    @rule()
    def reopen(self) -> None:
        """Close and open the store, if it is persistent. Its owners die with the handle."""
        if self.persistent:
            self.store.close()
            self.store = self.game.store = self.open(self.path)
            self.dead.update(map(self._name, OWNERS))

    @rule(rng=CHANCE)
    def forget(self, rng: Random) -> None:
        """Forget a key or some items, or only rehearse it."""
        if rng.random() < 0.3:  # otherwise little would be left to compare
            pair = forget_some(self.store, self.model, rng, clock=self.latest, runs=self.game.runs)
            if pair is not None:
                self.numbers.append(pair)

    @rule()
    def scrub(self) -> None:
        """Scrub forgotten data from the files. All reads stay equal."""
        self.game.both(lambda store: bool(store.scrub(now=self.latest)))

    @rule(rng=CHANCE)
    def compare(self, rng: Random) -> None:
        """Compare all answers of both, also about the past."""
        count = len(self.numbers) - 1
        self._compare({rng.randint(1, count) for _ in range(3)} if count else ())

    @rule()
    def follow(self) -> None:
        """Compare a follower of the change log with the store."""
        self.follower.catch_up(self.store, limit=3)
        assert self.follower.agrees_with(self.store)

    @invariant()
    def heads_agree(self) -> None:
        """Check that both have the same heads."""
        for scope in SCOPES:
            assert (self.store.head(scope), self.model.head(scope)) in self.numbers

    # --- how

    def _name(self, owner: str) -> str:
        """Return the name of an owner in its present life: a dead owner never returns."""
        return f"{owner} {sum(name.startswith(owner) for name in self.dead)}"

    def _commit(self, rng: Random) -> None:
        player = Player(rng, self.clock, purges=True)
        batch = player.batch(self.model)
        self.clock = player.clock
        self.latest = max(self.latest, self.clock)
        ours, theirs = self._both(batch, rng)
        note(str(ours))
        self.game.agree(batch, answer(self.store.commit, ours), answer(self.model.commit, theirs))

    def _both(self, batch: Batch, rng: Random) -> tuple[Batch, Batch]:
        """Return *batch*, made for the model, for each of the two stores."""
        base = next((ours for ours, theirs in self.numbers if theirs == batch.base), None)
        ours, theirs = replace(again(batch, of=self.model, on=self.store), base=base), batch
        if rng.random() < 0.1:
            expects = [("n", rng.choice(("one", "two")))]
            ours, theirs = replace(ours, expects=expects), replace(theirs, expects=expects)
        leases = [pair for pair in self.leases if pair[0].scope == batch.scope]
        if leases and rng.random() < 0.5:
            lease = rng.choice(leases)
            return replace(ours, epoch=lease[0].epoch), replace(theirs, epoch=lease[1].epoch)
        return ours, theirs

    def _compare(self, at: set[int] | tuple[int, ...] | None) -> None:
        _compare(self.store, self.model, at, now=self.latest, follower=self.follower)


def again(batch: Batch, *, of: Store, on: Store) -> Batch:
    """Return a batch made on *of*, for a commit to *on*.

    Compactions are mapped by their position in their set, versions by id and number.
    """
    return replace(batch, items=[_change(change, of, on) for change in batch.items])


def _change(change: ItemChange, of: Store, on: Store) -> ItemChange:
    if isinstance(change, Undo):
        theirs = [c.id for c in reversed(of.compactions(change.set, limit=FAR))]
        ours = [c.id for c in reversed(on.compactions(change.set, limit=FAR))]
        place = theirs.index(change.compaction) if change.compaction in theirs else len(ours)
        return replace(change, compaction=ours[place] if place < len(ours) else 0)
    if isinstance(change, Revive):
        found = of.items_by_row([change.row])
        versions = on.versions(change.set, found[0].record.id) if found else []
        rows = [v.row for v in versions if v.version == found[0].version]
        return replace(change, row=rows[0] if rows else 0)
    return change


@dataclass
class Played:
    """The calls of threads to a store, and their answers.

    Attributes:
        answered: Batches and their commits, adopted ones too, unordered.
        accepted: Inputs and their answers, with their agent, unordered.
        refused: The number of refused batches by error class.
        latest: The latest time that a thread used.
    """

    answered: list[tuple[Batch, Commit]] = field(default_factory=list[tuple[Batch, Commit]])
    accepted: list[tuple[str, QueuedInput, Accepted]] = field(
        default_factory=list[tuple[str, QueuedInput, Accepted]]
    )
    refused: dict[str, int] = field(default_factory=dict[str, int])
    latest: int = NOW

    def note(self, batch: Batch, answer: Commit | AlveusError) -> None:
        """Record the answer to a batch."""
        if isinstance(answer, Commit):
            self.answered.append((batch, answer))
        else:
            kind = type(answer).__name__
            self.refused[kind] = self.refused.get(kind, 0) + 1


PLAYED = 0.3
"""Share of moves about runs."""


def play_beside(store: Store, *, batches: int, seed: int) -> None:
    """Commit random batches to *store* and to a new `RamStore`, side by side.

    Fails at the first different answer, or if reads differ at the end. Covers less than
    `store_machine`, but fails faster.
    """
    model, rng, numbers = RamStore(), Random(seed), [(0, 0)]
    player, latest = Player(rng, NOW), NOW
    game = LaneGame(store, model, numbers, [])
    for _ in range(batches):
        if rng.random() < PLAYED:
            game.play(rng, clock=player.clock, owner="one")
            continue
        theirs = player.batch(model)
        latest = max(latest, player.clock)
        if rng.random() < 0.8:  # a running owner blocks other changes of its tree
            game.release(theirs.scope)
        base = theirs.base and next(o for o, t in reversed(numbers) if t == theirs.base)
        ours = replace(again(theirs, of=model, on=store), base=base)
        game.agree(theirs, answer(store.commit, ours), answer(model.commit, theirs))
    for each in (store, model):  # a store may sweep by itself, as the journal shows
        each.sweep(now=latest)
    _compare(store, model, _some(len(numbers) - 1), now=latest)


def play_threads(store: Store, *, batches: int, threads: int, seed: int) -> Played:
    """Commit *batches* random batches in all from *threads* threads, each with its clock.

    They also embed, touch, read and sweep data that expired before an existing commit.
    """
    share = [batches // threads + (i < batches % threads) for i in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        work = [pool.submit(_play, store, n, f"{seed}.{i}") for i, n in enumerate(share)]
        parts = [each.result() for each in work]
    whole = Played()
    for part in parts:
        whole.answered += part.answered
        whole.accepted += part.accepted
        whole.latest = max(whole.latest, part.latest)
        for kind, count in part.refused.items():
            whole.refused[kind] = whole.refused.get(kind, 0) + count
    return whole


def _play(store: Store, batches: int, name: str) -> Played:
    played, rng = Played(), Random(name)
    player = Player(rng, NOW)
    for _ in range(batches):
        if rng.random() < PLAYED:
            _run_one(store, rng, player.clock, name, played)
            continue
        batch = player.batch(store)
        played.latest = max(played.latest, player.clock)
        commit = answer(store.commit, batch)
        played.note(batch, commit)
        if isinstance(commit, Commit) and rng.random() < 0.1:
            embed_some(store, limit=3)
            store.sweep(now=commit.time)
    return played


def _run_one(store: Store, rng: Random, clock: int, owner: str, played: Played) -> None:
    """Accept an input. If its key is free, do the next tasks of its lane and release the key."""
    scope, agent = rng.choice(SCOPES[:3]), rng.choice(AGENTS)
    given = QueuedInput(scope, f'"{owner}"', clock)
    if rng.random() < 0.5:
        given = replace(given, event_id=b"event %d" % rng.randrange(200), request=b"asked")
    accepted = store.accept(agent, [given], owner=owner)[0]
    played.accepted.append((agent, given, accepted))
    if accepted.lease is None:
        return
    lease = accepted.lease
    for run in store.queued_runs(agent, lease.scope, limit=2):
        ordinal = len(store.steps(run.id))
        step = Step(run.id, ordinal, "greet", outputs=["1"], begin=Begin(clock, ()))
        base = store.head(lease.scope)
        state = [Put(("leaf",), rng.randrange(9))]
        # fmt: off
        first = Batch(
            scope=lease.scope, time=clock, run=step, epoch=lease.epoch, base=base, state=state,
        )
        # fmt: on
        last = replace(step, ordinal=ordinal + 1, outputs=["2"], sensory="1", done=True)
        second = replace(first, run=last, base=None, state=())
        for batch, commit in zip((first, second), store.commit_many([first, second]), strict=True):
            played.note(batch, commit)
    store.release_lease(lease)


def replay(store: Store, played: Played) -> None:
    """Commit the recorded batches to a new `RamStore`, in the order of their numbers, and compare.

    Every batch must get the same answer as from *store*, and in the end both must answer every
    question
    alike, also about moments of the past.
    """
    model = RamStore()
    numbers, runs = {0: 0}, _accept_again(model, played.accepted)
    for batch, commit in _in_order(played.answered):
        base = None if batch.base is None else numbers[batch.base]
        same = again(replace(batch, base=base), of=store, on=model)
        repeated = _commit_again(model, same, runs)
        found = replace(
            repeated, sets_to_compact=commit.sets_to_compact
        )  # of an add, they go by sets as they were
        assert comparable(found) == comparable(commit), (batch, commit, repeated)
        numbers[commit.number] = repeated.number
    _embed_as(store, model)
    for each in (store, model):
        each.sweep(now=played.latest)
    _compare(store, model, _some(len(numbers) - 1), now=played.latest)


def _accept_again(
    model: Store, accepted: Sequence[tuple[str, QueuedInput, Accepted]]
) -> dict[int, int]:
    """Accept inputs in the order of their runs. Return the new run of each."""
    made = [each for each in accepted if not each[2].repeated]
    runs: dict[int, int] = {}
    for agent, given, was in sorted(made, key=lambda each: each[2].run or 0):
        found = model.accept(agent, [given])[0]
        assert found.number == was.number, (agent, given, was, found)
        assert was.run is not None
        assert found.run is not None
        runs[was.run] = found.run
    for agent, given, was in accepted:
        found = model.accept(agent, [given])[0] if given.event_id is not None else None
        assert found is None or found.run == runs[was.run or 0], (agent, given, was, found)
    return runs


def _commit_again(model: Store, batch: Batch, runs: Mapping[int, int]) -> Commit:
    """Commit a batch, under a lease if it was made under one."""
    if batch.run is None or batch.epoch is None:
        return model.commit(batch)
    lease = present(model.acquire_lease(batch.scope, "one"))
    told = replace(batch.run, run=runs[batch.run.run])
    try:
        return model.commit(replace(batch, run=told, epoch=lease.epoch))
    finally:
        model.release_lease(lease)


def _compare(
    store: Store,
    model: Store,
    at: Collection[int] | None,
    *,
    now: int,
    follower: Follower | None = None,
) -> None:
    """Check that both answer every question alike, and that the change log gives the same."""
    found = differences(*(reads(each, now=now, at=at, scopes=SCOPES) for each in (store, model)))
    assert not found, "the store and RamStore differ:\n" + "\n".join(f[:2000] for f in found)
    follower = follower or Follower()
    follower.catch_up(store)
    assert follower.agrees_with(store), "the change log leads elsewhere"


def _in_order(answered: Sequence[tuple[Batch, Commit]]) -> list[tuple[Batch, Commit]]:
    """Return the commits by number, without adopted ones. Check that numbers are unique."""
    made = sorted((pair for pair in answered if not pair[1].adopted), key=lambda p: p[1].number)
    numbers = [commit.number for _, commit in made]
    assert len(set(numbers)) == len(numbers), "two batches got one number"
    winners = {commit.number: batch for batch, commit in made}
    for batch, commit in answered:
        assert winners[commit.number].op == batch.op, "adopted from a batch of another name"
    return made


def _some(count: int) -> set[int]:
    """Return some moments of the past, as positions in commit order, to save time."""
    return {max(1, count * i // 10) for i in range(1, 11)} if count else set()


def _embed_as(store: Store, model: Store) -> None:
    """Embed the waiting items in both. Items embedded meanwhile got the same vectors."""
    for each in (store, model):
        while waiting := each.pending_vectors(limit=1_000):
            each.store_vectors([(p.set_number, p.row, vectors_of(p.text)) for p in waiting])
