"""Laws of what is kept of the past, and for how long; and of items that expire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fornix.errors import CompactionChanged
from fornix.store import (
    SWEEP_AFTER_US,
    SWEPT_AT_ONCE,
    Add,
    Define,
    Definition,
    Delete,
    Put,
    Replace,
    Retire,
    StatusChange,
    Step,
    Store,
    Undo,
)
from fornix.testing.batches import ADA, BOB, NOTES, NOW, SECOND, Laws, add, record, write
from fornix.testing.items import ids, only
from fornix.testing.lanes import BEGIN, accept, leased, told
from fornix.testing.lineage import derived, into, last
from fornix.testing.reads import Follower
from fornix.testing.sets import info

AGES = NOW + 3 * SWEEP_AFTER_US
PURGE = Definition(retention="purge")


def mortal(item_id: str, expires: int = NOW) -> Add:
    """Return a change that adds an item that expires."""
    return Add(NOTES, replace(record(item_id), expires=expires))


def prune(store: Store, *, before: int, limit: int = 10_000) -> int:
    """Prune trees, step by step; return how many versions went."""
    removed, after = store.prune_history(before=before, limit=limit)
    while after is not None:
        more, after = store.prune_history(before=before, after=after, limit=limit)
        removed += more
    return removed


class RetentionLaws(Laws):
    """How long the past is kept."""

    def test_a_set_keeps_what_ended_for_as_long_as_it_says(self, store: Store) -> None:
        """For good, unless told; a sweep removes what ended longer ago, and never a live row."""
        write(store, Define(NOTES, Definition(retention=SECOND)), add("i"), add("j"))
        one = write(store, Replace(NOTES, 1, record("i", "new"))).number
        two = write(store, Retire(NOTES, "j", 1), time=NOW + SECOND).number
        assert store.sweep(now=NOW + SECOND - 1) == 0
        assert info(store).floor == 0
        assert store.sweep(now=NOW + SECOND) == 1
        assert [v.version for v in store.versions(NOTES, "i")] == [2]
        assert len(store.versions(NOTES, "j")) == 1
        assert info(store).floor == one
        assert sorted(ids(store.page(NOTES, at=one))) == ["i", "j"]
        assert store.sweep(now=AGES) == 1
        assert (info(store).floor, info(store).items) == (two, 1)
        assert store.versions(NOTES, "j") == []
        found = store.effects(two)
        assert found is not None
        assert found.ended == []
        assert store.sweep(now=AGES) == 0

    def test_a_set_that_is_not_told_keeps_everything(self, store: Store) -> None:
        """Until it is defined otherwise, and from then on nothing."""
        write(store, add("i"))
        write(store, Retire(NOTES, "i", 1))
        assert store.sweep(now=AGES) == 0
        write(store, Define(NOTES, PURGE, replace=True))
        assert store.sweep(now=NOW) == 1
        assert store.versions(NOTES, "i") == []

    def test_a_sweep_has_bounded_steps(self, store: Store) -> None:
        """It is called again for the rest."""
        names = [f"{n}" for n in range(SWEPT_AT_ONCE + 5)]
        write(store, Define(NOTES, PURGE), *map(add, names))
        write(store, *(Retire(NOTES, name, 1) for name in names))
        assert [store.sweep(now=NOW) for _ in range(3)] == [SWEPT_AT_ONCE, 5, 0]

    def test_what_is_purged_takes_its_links_along(self, store: Store) -> None:
        """What was derived from it stays; and search is told."""
        write(store, Define(NOTES, PURGE), add("i"), add("j"))
        write(store, derived("d", "i", "j"))
        follower = Follower()
        follower.catch_up(store)
        gone = only(store)
        write(store, Retire(NOTES, "i", 1))
        store.sweep(now=NOW)
        row = only(store, "d").row
        assert store.links([row]) == [(row, only(store, "j").row)]
        assert store.derived([gone.row]) == []
        assert store.stored([gone.row]) == []
        assert store.features_of(info(store).number, [gone.row]) == []
        follower.catch_up(store)
        assert follower.agrees_with(store)

    def test_a_purged_compaction_is_not_undone(self, store: Store) -> None:
        """Not in part either; it stays listed, and says so."""
        write(store, Define(NOTES, PURGE), add("i"), add("k"))
        write(store, into("d", "i"))
        done = last(store)
        store.sweep(now=NOW)
        found = store.compaction(done.id)
        assert found == replace(done, retired=[], erased=1, purged=True)
        with pytest.raises(CompactionChanged, match="purged") as caught:
            write(store, Undo(NOTES, done.id))
        assert caught.value.compaction == done.id
        assert ids(store.page(NOTES)) == ["k", "d"]

    def test_an_open_run_keeps_what_it_may_need(self, store: Store) -> None:
        """What ended since its first step stays until it has ended."""
        write(store, Define(NOTES, PURGE), add("i"), Put(("a",), 1))
        run = accept(store)
        lease = leased(store)
        step = told(Step(run, 0, "greet", begin=BEGIN), epoch=lease.epoch)
        number = store.commit(step).number
        store.release(lease)
        write(store, Retire(NOTES, "i", 1), Put(("a",), 2))
        write(store, add("late"), time=AGES)
        assert store.sweep(now=AGES) == 0
        assert prune(store, before=AGES) == 0
        node = store.node(ADA, ("a",), at=number, now=NOW)
        assert node is not None
        assert node.value == 1
        store.commit(told(StatusChange(run, "waiting", "discarded"), time=AGES))
        assert prune(store, before=AGES) == 1
        assert store.sweep(now=AGES) > 0

    # --- trees

    @pytest.mark.parametrize("limit", [1, 10_000])
    def test_the_past_of_trees_is_pruned(self, store: Store, limit: int) -> None:
        """What ended before; the floor says from when on the past is whole."""
        write(store, Put(("a",), 1), Put(("b",), 1))
        one = write(store, Put(("a",), 2), Delete(("b",))).number
        write(store, Put(("a",), 1), scope=BOB)
        two = write(store, Put(("a",), 3), time=NOW + SECOND).number
        assert prune(store, before=NOW, limit=limit) == 0
        write(store, add("late"), time=AGES)
        assert prune(store, before=NOW + SECOND, limit=limit) == 2
        assert (store.floor(ADA), store.floor(BOB)) == ((one, 0), (0, 0))
        seen = [store.node(ADA, ("a",), at=at, now=NOW) for at in (one, two, None)]
        assert [node and node.value for node in seen] == [2, 3, 3]
        assert store.node(ADA, ("b",), at=one - 1, now=NOW) is None
        assert prune(store, before=AGES, limit=limit) == 1
        assert store.floor(ADA) == (two, 0)

    def test_what_is_under_way_keeps_its_past(self, store: Store) -> None:
        """A day of it, whatever is asked for."""
        write(store, Put(("a",), 1))
        write(store, Put(("a",), 2))
        write(store, Put(("a",), 3), time=NOW + SWEEP_AFTER_US - 1)
        assert prune(store, before=AGES) == 0
        write(store, add("late"), time=NOW + SWEEP_AFTER_US)
        assert prune(store, before=AGES) == 1

    def test_a_sweep_says_of_which_past_it_took(self, store: Store) -> None:
        """A value that expired was there until then: earlier moments are not whole."""
        write(store, Put(("a",), 1, NOW + SECOND), Put(("b",), 1, NOW + 2 * SECOND), Put(("c",), 1))
        write(store, Put(("c",), 1), scope=BOB)
        store.sweep(now=NOW + 2 * SECOND + SWEEP_AFTER_US)
        assert (store.floor(ADA), store.floor(BOB)) == ((0, NOW + 2 * SECOND), (0, 0))

    def test_times_of_commits_are_known(self, store: Store) -> None:
        """Of each, and of the last one before a number that is none."""
        one = write(store, add("i")).number
        two = write(store, add("j"), time=NOW + SECOND).number
        assert [store.time_of(n) for n in (0, one, two, two + 9)] == [
            0,
            NOW,
            NOW + SECOND,
            NOW + SECOND,
        ]

    # --- items that expire

    def test_what_expired_is_listed(self, store: Store) -> None:
        """Of any set, while it is live."""
        write(store, mortal("i"), mortal("j", NOW + 1), add("k"))
        assert ids(store.expired(now=NOW)) == ["i"]
        assert ids(store.expired(now=NOW + 1)) == ["i", "j"]
        assert len(store.expired(now=NOW + 1, limit=1)) == 1
        write(store, Retire(NOTES, "i", 1))
        assert ids(store.expired(now=NOW)) == []

    @pytest.mark.parametrize("count", [1, 20])
    def test_the_id_of_what_expired_is_free(self, store: Store, count: int) -> None:
        """An add ends what expired by the time of its commit, and goes on counting."""
        names = [f"{n}" for n in range(count)]
        write(store, *(mortal(name, NOW + SECOND) for name in names))
        number = write(store, *map(add, names), time=NOW + SECOND).number
        found = store.get(NOTES, names)
        assert [item and item.version for item in found] == [2] * count
        assert [item and item.record.expires for item in found] == [None] * count
        assert [v.ended for v in store.versions(NOTES, "0")] == [number, None]
        assert info(store).items == count

    def test_what_expired_takes_no_room(self, store: Store) -> None:
        """A set with a capacity lets go of it first."""
        full = Definition(capacity=2, compaction="reject")
        write(store, Define(NOTES, full), mortal("i", NOW + SECOND), add("j"))
        write(store, add("k"), time=NOW + SECOND)
        assert ids(store.page(NOTES)) == ["j", "k"]
