"""Laws of what a store takes in from another one: commits done again, as they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from fornix.errors import DuplicateItem, FornixError, InvalidInput, NotFound, StaleRun
from fornix.store import (
    SWEEP_AFTER_US,
    Commit,
    Compact,
    Compaction,
    Create,
    Define,
    Definition,
    Delete,
    Past,
    Put,
    Retire,
    Store,
    StoredItem,
    Undo,
)
from fornix.store.replay_checks import GONE, PLACE_BITS
from fornix.testing.batches import ADA, NOTES, NOW, SECOND, Laws, add, batch, record, write
from fornix.testing.items import ids, only
from fornix.testing.lineage import OTHERS, derived, into, last
from fornix.testing.reads import FAR, Follower, differences, reads, tree
from fornix.testing.sets import info

LATE = NOW + 9 * SWEEP_AFTER_US


def following(store: Store, place: int = 0) -> int:
    """Return the row at a place in the commit that comes next."""
    return ((store.commit_at(FAR) + 1) << PLACE_BITS) + place


def version(store: Store, item_id: str, *, place: int = 0, number: int = 1) -> StoredItem:
    """Return a version that the next commit begins, of an item that is older."""
    row = following(store, place)
    made, changed = NOW - 2 * SECOND, NOW - SECOND
    begun = row >> PLACE_BITS
    return StoredItem(row, row, NOTES, begun, None, number, made, changed, None, record(item_id))


def done(store: Store, *, retired: Sequence[int], added: Sequence[int]) -> Compaction:
    """Return a compaction that the next commit did."""
    row = following(store)
    return Compaction(row, NOTES, row >> PLACE_BITS, NOW, "{}", retired, added, 0, None)


def refused(store: Store, error: type[FornixError], past: Past) -> None:
    """Commit a past, which is refused and changes nothing."""
    before = reads(store, now=NOW)
    with pytest.raises(error):
        write(store, past)
    assert not differences(before, reads(store, now=NOW))


class PastLaws(Laws):
    """What `Past`, `Batch.after` and `Batch.floor` do, and what `Effects` say so that they can."""

    # --- versions

    def test_a_past_version_is_what_it_was(self, store: Store) -> None:
        """Its number, its first row and its times are kept; the commit is the one it came with."""
        write(store, add("i"))
        item = version(store, "i", place=5, number=7)
        item = replace(item, first=3 << PLACE_BITS)
        write(store, Past(NOTES, [item], [only(store, "i").row]))
        kept = only(store, "i")
        assert kept == replace(item, record=replace(item.record, time=item.updated))
        assert [v.version for v in store.versions(NOTES, "i")] == [1, 7]
        assert info(store).items == 1

    def test_a_past_makes_its_set(self, store: Store) -> None:
        """As by default, where it was not defined."""
        write(store, Past(NOTES, [version(store, "i")]))
        assert (info(store).definition, ids(store.page(NOTES))) == (Definition(), ["i"])

    def test_versions_that_ended_in_their_commit_were_live_at_none(self, store: Store) -> None:
        """They are versions all the same, and those that follow them are live."""
        one, two = version(store, "i"), version(store, "i", place=3, number=2)
        number = write(store, Past(NOTES, [one, two], [one.row])).number
        assert [v.ended for v in store.versions(NOTES, "i")] == [number, None]
        assert [item.version for item in store.page(NOTES, at=number)] == [2]
        found = store.effects(number)
        assert found is not None
        assert [i.row for i in found.begun] == [one.row, two.row]
        assert [i.row for i in found.ended] == [one.row]

    def test_a_follower_keeps_up_with_a_past(self, store: Store) -> None:
        """The change log tells of it, whatever places its versions have."""
        follower = Follower()
        write(store, add("i"))
        follower.catch_up(store)
        begun = [version(store, "i", place=2, number=2), version(store, "j", place=9)]
        write(store, Past(NOTES, begun, [only(store, "i").row]))
        follower.catch_up(store)
        assert follower.agrees_with(store)

    def test_no_capacity_holds_a_past(self, store: Store) -> None:
        """It was so."""
        write(store, Define(NOTES, Definition(capacity=1, compaction="reject")))
        write(store, Past(NOTES, [version(store, "i"), version(store, "j", place=1)]))
        assert info(store).items == 2

    def test_a_past_that_cannot_be_is_refused(self, store: Store) -> None:
        """Rows of other commits or out of order, another set's; what is live, and what is not."""
        write(store, add("i"), add("gone"))
        write(store, Retire(NOTES, "gone", 1))
        ended = store.versions(NOTES, "gone")[0].row
        new = version(store, "new")
        early = replace(new, row=new.row - 1)
        others = replace(new, set=OTHERS)
        for past in (
            Past(NOTES, [early]),
            Past(NOTES, [version(store, "new", place=1), version(store, "k")]),
            Past(NOTES, [others]),
            Past(NOTES, compactions=[replace(done(store, retired=[], added=[]), id=early.row)]),
        ):
            refused(store, InvalidInput, past)
        refused(store, InvalidInput, Past(NOTES, [version(store, "gone")]))
        refused(store, DuplicateItem, Past(NOTES, [new, version(store, "i", place=1)]))
        for row in (ended, 1 << 50):
            refused(store, NotFound, Past(NOTES, [new], [row]))
        refused(store, NotFound, Past(OTHERS, ended=[only(store, "i").row]))
        refused(store, NotFound, Past(NOTES, [new], undone=[1 << 50]))

    # --- lineage

    def test_a_past_links_what_it_is_told(self, store: Store) -> None:
        """Earlier versions too, once; a sweep may have taken one of the two, and none is made."""
        write(store, add("i"), add("j"))
        i, j = only(store, "i").row, only(store, "j").row
        new = version(store, "new")
        links = [(new.row, i), (new.row, 77), (77, i), (j, i)]
        write(store, Past(NOTES, [new], links=links))
        write(store, Past(NOTES, links=[(j, i)]))
        assert store.links([77, j, new.row]) == [(j, i), (new.row, i)]
        assert store.derived([i]) == [(j, i), (new.row, i)]

    def test_a_past_compaction_is_one(self, store: Store) -> None:
        """It is listed with what is kept of it, and can be undone; one that was undone cannot."""
        write(store, add("i"))
        i, made = only(store, "i").row, version(store, "sum")
        told = replace(done(store, retired=[i], added=[made.row]), erased=2)
        write(store, Past(NOTES, [made], [i], [(made.row, i)], [told]))
        assert store.compactions(NOTES) == [told]
        number = write(store, Past(NOTES, undone=[told.id])).number
        assert store.compaction(told.id) == replace(told, undone=number)
        again = replace(done(store, retired=[i], added=[made.row]), purged=True)
        write(store, Past(NOTES, compactions=[again]))
        assert store.compaction(again.id) == again

    def test_a_past_compaction_can_be_undone(self, store: Store) -> None:
        """What it retired comes back."""
        write(store, add("i"))
        i, made = only(store, "i").row, version(store, "sum")
        told = done(store, retired=[i], added=[made.row])
        write(store, Past(NOTES, [made], [i], compactions=[told]))
        write(store, Undo(NOTES, told.id))
        assert ids(store.page(NOTES)) == ["i"]

    # --- from when on it is whole

    def test_a_past_says_from_when_on_it_is_whole(self, store: Store) -> None:
        """A set by its commit, a tree by commit and time; neither goes back."""
        for floor in (7, 5):
            write(store, Past(NOTES, floor=floor))
            store.commit(replace(batch(), floor=(floor, NOW + floor)))
        assert (info(store).floor, store.floor(ADA)) == (7, (7, NOW + 7))

    def test_a_batch_that_is_refused_moves_no_floor(self, store: Store) -> None:
        """Neither of a set nor of a tree."""
        write(store, add("i"), Put(("a",), 1))
        past = Past(NOTES, floor=5, undone=[99])
        with pytest.raises(NotFound):
            store.commit(replace(batch(past), floor=(5, NOW)))
        assert (info(store).floor, store.floor(ADA)) == (0, (0, 0))

    # --- directly after

    def test_a_batch_may_have_to_come_directly_after_another(self, store: Store) -> None:
        """0: it must be the first."""
        after: list[Commit] = [store.commit(replace(batch(add("i")), after=0))]
        after.append(store.commit(replace(batch(add("j")), after=after[0].number)))
        before = reads(store, now=NOW)
        for number in (0, after[0].number, after[1].number + 1):
            with pytest.raises(StaleRun) as caught:
                store.commit(replace(batch(add("k")), after=number))
            assert (caught.value.expected, caught.value.found) == (number, after[1].number)
        assert not differences(before, reads(store, now=NOW))

    # --- what effects say

    def test_effects_say_how_nodes_got_their_places(self, store: Store) -> None:
        """A value that replaces another has its place, and what a commit made was made by it."""
        one = write(store, Put(("a",), 1), Put(("b",), 1)).number
        two = write(store, Put(("c",), 1), Put(("a",), 2)).number
        found, earlier = store.effects(two), store.effects(one)
        assert found is not None
        assert earlier is not None
        assert [path for path, _ in found.put] == [("a",), ("c",)]
        assert [place >> PLACE_BITS for place in found.places] == [one, two]
        assert found.places[0] == earlier.places[0]
        assert list(found.places) == sorted(found.places)

    def test_effects_say_when_nodes_ended(self, store: Store) -> None:
        """By which commit they were replaced or removed, with an object or by themselves."""
        one = write(
            store, Create(("o",)), Put(("o", "x"), 1), Put(("a",), 1), Put(("b",), 1)
        ).number
        two = write(store, Put(("a",), 2)).number
        three = write(store, Delete(("o",))).number
        found = store.effects(one)
        assert found is not None
        ends = dict(zip((path for path, _ in found.put), found.ends, strict=True))
        assert ends == {("o",): three, ("o", "x"): three, ("a",): two, ("b",): None}

    def test_effects_name_compactions(self, store: Store) -> None:
        """Those that a commit did, and those that it undid."""
        write(store, add("i"), add("j"))
        both = write(store, into("sum", "i"), Compact(NOTES, [("j", 1)], [derived("s")], "{}"))
        kept = store.compactions(NOTES)
        undo = write(store, Undo(NOTES, kept[0].id)).number
        found, other = store.effects(both.number), store.effects(undo)
        assert found is not None
        assert other is not None
        assert [c.id for c in found.compactions] == sorted(c.id for c in kept)
        assert (list(found.undone), list(other.compactions)) == ([], [])
        assert list(other.undone) == [last(store).id]

    # --- what stands for nodes that are gone

    def test_what_stands_for_another_is_in_no_read(self, store: Store) -> None:
        """Of no time; a value that replaces it has its place."""
        one = write(store, Put(("a",), 0, GONE), Put(("b",), 1)).number
        for at in (None, one):
            assert [path for path, _ in tree(store, ADA, now=NOW, at=at)] == [("b",)]
            assert store.node(ADA, ("a",), at=at, now=NOW) is None
        write(store, Put(("a",), 1))
        assert [name for name, _ in store.children(ADA, (), at=None, now=NOW)] == ["a", "b"]

    def test_no_sweep_takes_what_stands_for_another(self, store: Store) -> None:
        """What has its place may come late; and no moment of the past is lost by it."""
        write(store, Put(("a",), 0, GONE), Put(("b",), 1), Put(("c",), 1, NOW + SECOND))
        assert store.sweep(now=LATE) == 1
        assert store.floor(ADA) == (0, NOW + SECOND)
        write(store, Put(("a",), 1))
        assert [name for name, _ in store.children(ADA, (), at=None, now=NOW)] == ["a", "b"]

    def test_pruning_what_stood_for_another_loses_nothing(self, store: Store) -> None:
        """It goes once it was replaced, and no moment of the past is lost by it."""
        one = write(store, Put(("a",), 0, GONE)).number
        two = write(store, Put(("a",), 1)).number
        store.commit(replace(batch(add("i")), time=LATE))
        assert store.prune_history(before=LATE) == (1, None)
        assert store.floor(ADA) == (0, 0)
        assert tree(store, ADA, now=NOW, at=one) == []
        assert [path for path, _ in tree(store, ADA, now=NOW, at=two)] == [("a",)]

    def test_what_stood_for_another_is_not_among_the_removed(self, store: Store) -> None:
        """It was not there."""
        one = write(store, Put(("a",), 0, GONE)).number
        two = write(store, Delete(("a",))).number
        found, other = store.effects(one), store.effects(two)
        assert found is not None
        assert other is not None
        assert [(path, node.expires) for path, node in found.put] == [(("a",), GONE)]
        assert list(other.removed) == []
