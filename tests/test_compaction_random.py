"""What undo gives back is what was there: random adds, changes, deletes, compactions and undos."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from alveus import CompactionPlan, Derived, Item, Memory, Merge, Summarize, Trim
from alveus.errors import CompactionChanged
from compacting import ticking, whole
from scale import COUNTS

CHANCE = st.randoms(use_true_random=False)


@dataclass
class Done:
    """A compaction that was done, as the model knows it."""

    id: int
    retired: list[Item]
    added: list[Item]
    undone: bool = False


class Tidying(RuleBasedStateMachine):
    """A set beside a plain dict of what is in it, and a list of what was compacted."""

    url = ":memory:"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        url = f"{self.folder.name}/app.db" if self.url == "file" else self.url
        self.memory = Memory.open(url, embedder="words", clock=ticking())
        self.notes = self.memory.key("ada").set("n")
        self.live: dict[str, Item] = {}
        self.done: list[Done] = []
        self.made = 0

    def teardown(self) -> None:
        self.memory.close()
        self.folder.cleanup()

    def read(self) -> dict[str, Item]:
        return {str(item.id): item for item in whole(self.notes.list())}

    @initialize()
    def begin(self) -> None:
        self.add(Random(1), 4)

    @rule(rng=CHANCE, count=st.integers(1, 4))
    def add(self, rng: Random, count: int) -> None:
        """Add items, one of them perhaps under an id that was there before."""
        items = []
        for _ in range(count):
            self.made += 1
            text = f"note {rng.randrange(6)} of {self.made if rng.random() < 0.7 else 'old'}"
            items.append(
                Item(text, id=f"i{self.made}", importance=rng.random(), metadata={"n": self.made})
            )
        gone = sorted({str(i.id) for d in self.done for i in d.retired} - set(self.live))
        if gone and rng.random() < 0.2:
            items.append(Item("again", id=rng.choice(gone)))
        self.notes.add_many(items)
        self.live = self.read()

    @rule(rng=CHANCE)
    def update(self, rng: Random) -> None:
        """Change an item, perhaps one that stands for others; sometimes to what it was."""
        if self.live:
            item_id = rng.choice(sorted(self.live))
            same = rng.random() < 0.2
            self.notes.update(item_id, self.live[item_id].text if same else f"{item_id} new")
            self.live = self.read()

    @rule(rng=CHANCE)
    def delete(self, rng: Random) -> None:
        """Delete an item."""
        if self.live:
            item_id = rng.choice(sorted(self.live))
            assert self.notes.delete(item_id) == 1
            del self.live[item_id]

    @rule(rng=CHANCE)
    def compact(self, rng: Random) -> None:
        """Compact by one of the strategies, or by a random plan."""

        def random_plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
            ids = [str(item.id) for item in items]
            rng.shuffle(ids)
            cut = rng.randrange(len(ids) + 1)
            most = rng.randrange(1, 3)
            add = [Derived(ids[:cut][at::most], f"some {at}") for at in range(min(most, cut))]
            return CompactionPlan(retire=ids[cut : cut + rng.randrange(2)], add=add)

        before = self.live
        chosen = rng.choice(
            [Trim(n=2), Trim(n=1, by="importance"), Summarize(n=4), Summarize(n=6, limit=3),
             Merge(threshold=0.8), random_plan]
        )  # fmt: skip
        done = self.notes.compact(chosen)
        if done is not None:
            after = self.read()
            assert set(done.retired) <= set(before)
            assert not set(done.added) & set(before)
            assert set(after) == set(before) - set(done.retired) | set(done.added)
            assert all(after[i] == before[i] for i in set(after) & set(before))
            retired = [before[item_id] for item_id in done.retired]
            self.done.append(Done(done.id, retired, [after[item_id] for item_id in done.added]))
            self.live = after

    @rule(rng=CHANCE)
    def undo(self, rng: Random) -> None:
        """Undo any compaction: all comes back, or the error is the one the model knows."""
        if not self.done:
            return
        done = rng.choice(self.done)
        ids = {str(item.id) for item in done.retired}
        stands = all(self.live.get(str(item.id)) == item for item in done.added)
        if done.undone or not stands or ids & set(self.live):
            with pytest.raises(CompactionChanged):
                self.notes.undo(done.id)
            return
        undone = self.notes.undo(done.id)
        assert set(undone.restored) == ids
        assert (undone.missing, undone.erased) == ((), 0)
        assert set(undone.removed) == {str(item.id) for item in done.added}
        for item in done.added:
            del self.live[str(item.id)]
        self.live |= {str(item.id): item for item in done.retired}
        done.undone = True

    @invariant()
    def is_as_known(self) -> None:
        """The set holds exactly what the model knows, in order of time."""
        found = self.notes.list()
        assert {str(item.id): item for item in whole(found)} == self.live
        assert len(self.notes) == len(found)
        times = [item.time for item in found]
        assert times == sorted(times, key=str)


class TidyingOnFile(Tidying):
    """The same on a file."""

    url = "file"


SLOW = settings(deadline=None, max_examples=COUNTS.walks * 2, stateful_step_count=30)
TestTidying = Tidying.TestCase
TestTidying.settings = SLOW
TestTidyingOnFile = TidyingOnFile.TestCase
TestTidyingOnFile.settings = SLOW
