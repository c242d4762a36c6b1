"""Laws of expiry and of sweeping: what has expired is not there, swept or not."""

from __future__ import annotations

import pytest

from fornix.errors import NotAnObject
from fornix.store import SWEEP_AFTER_US, Clear, Create, Delete, Node, Put, Refresh, Store
from fornix.testing.batches import ADA, BOB, NOW, SECOND, Laws, add, batch, write
from fornix.testing.reads import FAR, Follower, differences, reads, tree

SOON = NOW + SECOND
LATER = NOW + 10 * SECOND
SWEPT = SOON + SWEEP_AFTER_US


def names(store: Store, *, now: int, at: int | None = None) -> list[str]:
    """Return the names at the root."""
    return [name for name, _ in store.children(ADA, (), at=at, now=now)]


class ExpiryLaws(Laws):
    """What `expires`, `Refresh` and `sweep` do."""

    def test_a_node_is_there_until_it_expires(self, store: Store) -> None:
        """From the very microsecond on it is not."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1))
        assert store.node(ADA, ("a",), at=None, now=SOON - 1) == Node(
            is_object=False, value=1, expires=SOON
        )
        assert store.node(ADA, ("a",), at=None, now=SOON) is None
        assert names(store, now=SOON - 1) == ["a", "b"]
        assert names(store, now=SOON) == ["b"]

    def test_an_expired_node_is_not_in_the_past_either(self, store: Store) -> None:
        """What *now* says holds for every moment that is read."""
        first = write(store, Put(("a",), 1, SOON)).number
        write(store, Put(("b",), 1))
        assert names(store, now=SOON, at=first) == []
        assert store.node(ADA, ("a",), at=first, now=SOON) is None
        assert names(store, now=NOW, at=first) == ["a"]

    def test_what_is_below_an_expired_object_is_not_there(self, store: Store) -> None:
        """The object lives as long as its fields, so they go together."""
        write(store, Create(("o",), SOON), Put(("o", "a"), 1, SOON))
        assert store.node(ADA, ("o", "a"), at=None, now=NOW) is not None
        assert store.node(ADA, ("o", "a"), at=None, now=SOON) is None
        assert store.children(ADA, ("o",), at=None, now=SOON) == []
        assert tree(store, ADA, now=SOON) == []

    def test_what_had_expired_is_deleted_by_who_puts_in_its_place(self, store: Store) -> None:
        """Then it is a new node: at the end, without the old expiry."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1))
        write(store, Delete(("a",)), Put(("a",), 2), time=SOON)
        assert names(store, now=SOON) == ["b", "a"]
        assert store.node(ADA, ("a",), at=None, now=FAR) == Node(is_object=False, value=2)

    def test_applying_looks_at_no_expiry(self, store: Store) -> None:
        """What was there when a batch was made is there for it, however late it is committed."""
        write(store, Create(("o",), SOON), Put(("o", "a"), 1, SOON))
        write(store, Refresh(("o",), LATER), Put(("o", "b"), 2, LATER), time=SOON + 1)
        assert names(store, now=SOON + 1) == ["o"]
        assert tree(store, ADA, now=SOON + 1) == [
            (("o",), ("object", LATER)),
            (("o", "b"), ("2", LATER)),
        ]
        store.commit(batch(scope=BOB, time=LATER))
        write(store, Put(("o", "b"), 3), Refresh(("o",), None), time=NOW)
        assert [path for path, _ in tree(store, ADA, now=FAR)] == [("o",), ("o", "b")]

    def test_a_put_before_the_expiry_keeps_the_position(self, store: Store) -> None:
        """And sets the expiry anew, or none."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1))
        write(store, Put(("a",), 2))
        assert names(store, now=FAR) == ["a", "b"]

    def test_a_refresh_moves_the_expiry(self, store: Store) -> None:
        """Forwards, backwards, or away; value and position stay."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1))
        write(store, Refresh(("a",), LATER))
        assert names(store, now=SOON) == ["a", "b"]
        assert names(store, now=LATER) == ["b"]
        write(store, Refresh(("a",), None))
        assert store.node(ADA, ("a",), at=None, now=FAR) == Node(is_object=False, value=1)
        write(store, Refresh(("a",), SOON))
        assert names(store, now=SOON) == ["b"]

    def test_a_refresh_is_taken_back_with_its_batch(self, store: Store) -> None:
        """Although it makes no version."""
        write(store, Put(("a",), 1, SOON))
        with pytest.raises(NotAnObject):
            write(store, Refresh(("a",), LATER), Put(("no", "way"), 1))
        assert names(store, now=SOON) == []

    def test_refreshing_nothing_is_no_error(self, store: Store) -> None:
        """Nothing comes to be by it."""
        write(store, Refresh(("b",), None))
        assert names(store, now=NOW) == []

    def test_a_new_version_does_not_inherit_a_later_expiry_into_the_past(
        self, store: Store
    ) -> None:
        """Each version has its own."""
        first = write(store, Put(("a",), 1, SOON)).number
        write(store, Put(("a",), 2, LATER))
        assert names(store, now=SOON, at=first) == []
        assert names(store, now=SOON) == ["a"]

    def test_a_node_may_be_deleted_after_it_expired(self, store: Store) -> None:
        """Nothing is there, so nothing happens; also to what is cleared."""
        write(store, Create(("o",), SOON), Put(("o", "a"), 1, SOON), Put(("b",), 1, SOON))
        write(store, Delete(("o",)), Clear(()), time=SOON)
        assert tree(store, ADA, now=SOON) == []

    # --- sweeping

    def test_reads_are_the_same_before_and_after_a_sweep(self, store: Store) -> None:
        """Of the present and, by its clock, of the past, and the change log; no number moves."""
        write(store, Put(("a",), 1, SOON), Put(("b",), 1), Create(("o",), SOON), add("i"))
        write(store, Put(("o", "x"), 1, SOON), Put(("c",), 1, LATER), add("j"))
        write(store, Put(("a",), 2), Delete(("b",)), scope=ADA)
        write(store, Put(("a",), 1, SOON), scope=BOB)
        follower = Follower()
        follower.catch_up(store)
        before, seq = reads(store, now=SOON), store.seq()
        last = store.commit_at(FAR)
        assert store.sweep(now=SWEPT) > 0
        after = reads(store, now=SOON)
        for told in (before, after):  # which say that a past was there
            told.pop("commits")
            told.pop(f"floor of {ADA}")
            told.pop(f"floor of {BOB}")
        assert not differences(before, after)
        assert store.commit_at(FAR) == last
        assert store.seq() == seq
        assert follower.agrees_with(store)

    def test_a_sweep_removes_for_good(self, store: Store) -> None:
        """A day after it expired; reads with an earlier clock do not see it, nor the journal."""
        number = write(store, Put(("a",), "secret", SOON), Put(("b",), 1, LATER)).number
        store.sweep(now=SWEPT)
        assert names(store, now=NOW) == ["b"]
        found = store.effects(number)
        assert found is not None
        assert [path for path, _ in found.put] == [("b",)]

    def test_a_sweep_removes_past_versions_that_expired(self, store: Store) -> None:
        """A version that was overwritten keeps its expiry."""
        first = write(store, Put(("a",), "secret", SOON)).number
        write(store, Put(("a",), 2))
        store.sweep(now=SWEPT)
        assert store.node(ADA, ("a",), at=first, now=NOW) is None
        assert store.node(ADA, ("a",), at=None, now=NOW) == Node(is_object=False, value=2)

    def test_a_sweep_with_nothing_to_do_does_nothing(self, store: Store) -> None:
        """It says so: 0."""
        write(store, Put(("a",), 1, SOON), add("i"))
        assert store.sweep(now=SWEPT - 1) == 0
        assert store.sweep(now=SWEPT) > 0
        assert store.sweep(now=SWEPT) == 0

    def test_writing_goes_on_after_a_sweep(self, store: Store) -> None:
        """At the place of what was swept too."""
        write(store, Create(("o",), SOON), Put(("o", "a"), 1, SOON), Put(("b",), 1))
        store.sweep(now=SWEPT)
        write(store, Create(("o",)), Put(("o", "a"), 2), time=SOON)
        assert names(store, now=SOON) == ["b", "o"]

    # --- shrinking

    def test_reads_are_the_same_before_and_after_shrinking(self, store: Store) -> None:
        """Of the present and the past, also where there was something to give back."""
        write(store, *[Put((f"n{n}",), "x" * 5_000, SOON) for n in range(40)], Put(("b",), 1))
        write(store, add("i"), add("j"))
        write(store, *[Delete((f"n{n}",)) for n in range(0, 40, 2)])
        store.sweep(now=SWEPT)
        before = reads(store, now=SWEPT)
        follower = Follower()
        follower.catch_up(store)
        while store.shrink(limit=10_000):
            pass
        assert not differences(before, reads(store, now=SWEPT))
        assert follower.agrees_with(store)
        write(store, Put(("c",), "x" * 5_000), time=SWEPT)
        assert names(store, now=SWEPT) == ["b", "c"]

    def test_shrinking_tells_how_much_it_gave_back(self, store: Store) -> None:
        """No more than asked for at once, but a page; at the end nothing, and nothing is free."""
        write(store, *[Put((f"n{n}",), "x" * 5_000, SOON) for n in range(40)])
        store.sweep(now=SWEPT)
        free, given = store.stats().free_bytes, list[int]()
        while some := store.shrink(limit=20_000):
            given.append(some)
        assert max(given, default=0) <= 20_000
        assert sum(given) >= free
        assert (store.stats().free_bytes, store.shrink()) == (0, 0)
