"""A machine that plays random batches on a store and on `RamStore`, and compares every answer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fornix.errors import FornixError
from fornix.store import Batch, Commit, Lease, Scope, Store
from fornix.store.ram import RamStore
from fornix.testing.batches import DAY, NOW, SECOND, again
from fornix.testing.random_batches import SCOPES, Player, embed_some, forget_some, vectors_of
from fornix.testing.reads import Follower, differences, reads
from fornix.testing.run_machine import LaneGame
from fornix.values import wire

OWNERS = ("one", "two")
CHANCE = st.randoms(use_true_random=False)


def store_machine(
    open_store: Callable[[Path], Store],
    *,
    kill_owner: Callable[[Store, str], None] | None = None,
    persistent: bool = False,
) -> type[RuleBasedStateMachine]:
    """Return a state machine that holds a store to what `RamStore` does.

    ``TestMine = store_machine(MyStore.open).TestCase`` makes it a test.

    Args:
        open_store: Opens the store at a path in an empty folder; again after a `close`, if
            *persistent*.
        kill_owner: Makes the owner of a lease count as dead; None: owners live on.
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
        self.folder = tempfile.TemporaryDirectory(prefix="fornix-")
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
        """One random batch, for both."""
        self._commit(rng)

    @rule(rng=CHANCE, count=st.integers(5, 30))
    def commit_several(self, rng: Random, count: int) -> None:
        """Several random batches, one after the other."""
        for _ in range(count):
            self._commit(rng)

    @rule(rng=CHANCE, count=st.integers(1, 20), owner=st.sampled_from(OWNERS))
    def run_things(self, rng: Random, count: int, owner: str) -> None:
        """Inputs are accepted, runs make progress, outputs are read, what ended is pruned."""
        for _ in range(count):
            self.latest += rng.choice((0, 0, 1, SECOND))
            self.clock = max(self.clock, self.latest)
            self.game.play(rng, clock=self.latest, owner=self._name(owner))

    @rule(limit=st.integers(1, 4))
    def embed(self, limit: int) -> None:
        """Some of what waits for its vectors gets them."""
        embed_some(self.store, limit=limit)
        embed_some(self.model, limit=limit)

    @rule(limit=st.integers(1, 4))
    def stage(self, limit: int) -> None:
        """Some of what meaning can read gets vectors of another embedder beside its own."""
        for store in (self.store, self.model):
            numbers = [info.number for info in store.set_infos(SCOPES[0])]
            found = store.unstaged(numbers, limit=limit)
            store.stage([(p.set_number, p.row, b"staged" + vectors_of(p.text)) for p in found])

    @rule(text=st.sampled_from(("one", "two")), expected=st.sampled_from((None, "one", "two")))
    def swap(self, text: str, expected: str | None) -> None:
        """A space changes its embedder, if nobody did so before."""
        done = [
            store.swap(
                [i.number for i in store.set_infos(SCOPES[0])], notes=[("n", expected, text)]
            )
            for store in (self.store, self.model)
        ]
        assert done[0] == done[1], "only one of them swapped"

    @rule()
    def unstage(self) -> None:
        """Changing the embedder is given up."""
        self.store.unstage()
        self.model.unstage()

    @rule(later=st.sampled_from((0, 1, 2 * SECOND, 91 * DAY)), ops_kept=st.sampled_from((0, 5)))
    def sweep(self, later: int, ops_kept: int) -> None:
        """What has expired, and names of old ops, go for good."""
        self.latest += later
        self.clock = max(self.clock, self.latest)
        for store in (self.store, self.model):
            store.sweep(now=self.latest, ops_kept=ops_kept)

    @rule(age=st.sampled_from((0, SECOND, 2 * DAY)), limit=st.integers(1, 40))
    def prune(self, age: int, limit: int) -> None:
        """What trees were long ago goes for good, in steps."""
        for store in (self.store, self.model):
            after: int | None = 0
            while after is not None:
                _, after = store.prune_history(before=self.latest - age, after=after, limit=limit)

    @rule(position=st.integers(0, 5), scope=st.sampled_from(SCOPES))
    def touch(self, position: int, scope: Scope) -> None:
        """A live item is read."""
        for store in (self.store, self.model):
            refs = [info.ref for info in store.set_infos(scope)]
            found = [item for ref in refs for item in store.page(ref, limit=5)]
            store.touch([item.first for item in found[position : position + 2]], time=self.latest)

    @rule(scope=st.sampled_from(SCOPES), owner=st.sampled_from(OWNERS))
    def lease(self, scope: Scope, owner: str) -> None:
        """Somebody wants to run a key."""
        name = self._name(owner)
        ours, theirs = self.store.lease(scope, name), self.model.lease(scope, name)
        assert (ours is None) == (theirs is None), (ours, theirs)
        if ours is not None and theirs is not None:
            assert (ours.scope, ours.owner) == (theirs.scope, theirs.owner)
            self.leases.append((ours, theirs))

    @rule(rng=CHANCE)
    def release(self, rng: Random) -> None:
        """A lease, perhaps one taken over since, is given back."""
        if self.leases:
            ours, theirs = rng.choice(self.leases)
            self.store.release(ours)
            self.model.release(theirs)

    @rule(owner=st.sampled_from(OWNERS))
    def owner_dies(self, owner: str) -> None:
        """The owner of leases dies."""
        if self.kill is not None:
            self.kill(self.store, self._name(owner))
            self.dead.add(self._name(owner))

    @rule(
        text=st.sampled_from((None, "one", "two")), expected=st.sampled_from((None, "one", "two"))
    )
    def note(self, text: str | None, expected: str | None) -> None:
        """A note is taken, if what stands there is expected."""
        ours = self.store.put_note("n", text, expected=expected)
        assert ours == self.model.put_note("n", text, expected=expected)
        assert self.store.note("n") == self.model.note("n")

    @rule()
    def reopen(self) -> None:
        """The store is closed and opened, where that keeps it; its owners die with the handle."""
        if self.persistent:
            self.store.close()
            self.store = self.game.store = self.open(self.path)
            self.dead.update(map(self._name, OWNERS))

    @rule(rng=CHANCE)
    def forget(self, rng: Random) -> None:
        """A key, or some items, are forgotten; or that is only rehearsed."""
        if rng.random() < 0.3:  # else little would be left to compare
            pair = forget_some(self.store, self.model, rng, clock=self.latest, runs=self.game.runs)
            if pair is not None:
                self.numbers.append(pair)

    @rule()
    def scrub(self) -> None:
        """What was forgotten leaves the files; everything else is read as before."""
        ours, theirs = (store.scrub(now=self.latest) for store in (self.store, self.model))
        assert bool(ours) == bool(theirs), (ours, theirs)

    @rule(rng=CHANCE)
    def compare(self, rng: Random) -> None:
        """Both are asked everything, also about some moments of the past."""
        count = len(self.numbers) - 1
        self._compare({rng.randint(1, count) for _ in range(3)} if count else ())

    @rule()
    def follow(self) -> None:
        """The change log tells a follower what is there."""
        self.follower.catch_up(self.store, limit=3)
        assert self.follower.agrees_with(self.store)

    @invariant()
    def heads_agree(self) -> None:
        """Both have the same commits as the heads of their trees."""
        for scope in SCOPES:
            assert (self.store.head(scope), self.model.head(scope)) in self.numbers

    # --- how

    def _name(self, owner: str) -> str:
        """Return the name of an owner in its present life: nobody comes back from the dead."""
        return f"{owner} {sum(name.startswith(owner) for name in self.dead)}"

    def _commit(self, rng: Random) -> None:
        player = Player(rng, self.clock, purges=True)
        batch = player.batch(self.model)
        self.clock = player.clock
        self.latest = max(self.latest, self.clock)
        ours, theirs = self._both(batch, rng)
        note(str(ours))
        found, expected = _answer(self.store, ours), _answer(self.model, theirs)
        if isinstance(found, Commit) and isinstance(expected, Commit):
            if not expected.adopted:
                assert found.number > self.numbers[-1][0], "commit numbers rise"
                self.numbers.append((found.number, expected.number))
            assert (found.number, expected.number) in self.numbers, (found, expected)
            assert _told(found) == _told(expected), (batch, found, expected)
        else:
            assert type(found) is type(expected), (batch, found, expected)

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
        ours = reads(self.store, now=self.latest, at=at, scopes=SCOPES)
        theirs = reads(self.model, now=self.latest, at=at, scopes=SCOPES)
        found = differences(ours, theirs)
        assert not found, "the store and RamStore differ:\n" + "\n".join(f[:2000] for f in found)
        self.follower.catch_up(self.store)
        assert self.follower.agrees_with(self.store)


def _answer(store: Store, batch: Batch) -> Commit | FornixError:
    try:
        return store.commit(batch)
    except FornixError as error:
        return error


def _told(commit: Commit) -> tuple[object, ...]:
    return commit.time, commit.adopted, wire.encode(commit.result), list(commit.marks)
