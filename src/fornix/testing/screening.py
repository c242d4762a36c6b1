"""Laws of screens: what is added to a set with rules was checked by them, and still is so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fornix.errors import SetMoved
from fornix.store import (
    Compact,
    Define,
    Definition,
    Replace,
    Retire,
    Screened,
    SetRef,
    Store,
)
from fornix.testing.batches import ADA, HANDBOOK, NOTES, AnyChange, Laws, add, batch, record, write
from fornix.testing.items import ids

RULES = [{"rule": "size", "most": 5}]
RULED = Definition(admission=RULES)
OTHER = SetRef(ADA, "other")


def screened(store: Store, *changes: AnyChange, by: Screened | None) -> None:
    """Commit *changes* that were checked, as *by* says; None: that pass every rule."""
    made = batch(*changes)
    store.commit(replace(made, screened=None if by is None else [by]))


def last_row(store: Store, ref: SetRef = NOTES) -> int:
    """Return the row of the item of a set that came last."""
    return max(stored.row for stored in store.page(ref))


class ScreenLaws(Laws):
    """What holds for `Batch.screened`."""

    def test_an_unchecked_add_to_a_set_with_rules_is_refused(self, store: Store) -> None:
        """Nothing is changed, and other sets are not asked."""
        screened(store, Define(NOTES, RULED), add("i"), by=Screened(NOTES, RULES))
        with pytest.raises(SetMoved):
            write(store, add("j"), add("k", to=OTHER))
        assert ids(store.page(NOTES)) == ["i"]
        write(store, add("k", to=OTHER))

    def test_an_unchecked_replacement_is_refused_and_a_retirement_is_not(
        self, store: Store
    ) -> None:
        """What is in a set may go without being checked."""
        screened(store, Define(NOTES, RULED), add("i"), by=Screened(NOTES, RULES))
        with pytest.raises(SetMoved):
            write(store, Replace(NOTES, 1, record("i", "new")))
        with pytest.raises(SetMoved):
            write(store, Retire(NOTES, "i", 1), add("j"))
        write(store, Retire(NOTES, "i", 1))
        assert ids(store.page(NOTES)) == []

    def test_a_compaction_is_not_checked(self, store: Store) -> None:
        """What it adds stands for what was."""
        screened(store, Define(NOTES, RULED), add("i"), by=Screened(NOTES, RULES))
        write(store, Compact(NOTES, [("i", 1)], [add("sum")], "{}"))
        assert ids(store.page(NOTES)) == ["sum"]

    def test_other_rules_are_refused(self, store: Store) -> None:
        """Also those of a set that has none, or had none."""
        write(store, add("i"))
        with pytest.raises(SetMoved):
            screened(store, add("j"), by=Screened(NOTES, RULES))
        write(store, Define(NOTES, RULED, replace=True))
        with pytest.raises(SetMoved):
            screened(store, add("j"), by=Screened(NOTES, None))
        with pytest.raises(SetMoved):
            screened(store, add("j"), by=Screened(NOTES, []))
        screened(store, add("j"), by=Screened(NOTES, tuple(RULES)))
        assert ids(store.page(NOTES)) == ["i", "j"]

    def test_a_live_item_past_the_screen_is_refused(self, store: Store) -> None:
        """One that ended since does not count."""
        write(store, add("i"))
        row = last_row(store)
        write(store, add("j"))
        with pytest.raises(SetMoved):
            screened(store, add("k"), by=Screened(NOTES, None, row))
        write(store, Retire(NOTES, "j", 1))
        screened(store, add("k"), by=Screened(NOTES, None, row))
        assert ids(store.page(NOTES)) == ["i", "k"]

    def test_a_set_that_was_not_there_may_have_come_to_be(self, store: Store) -> None:
        """Its screen knows of no row; only the first of two that begin it is taken."""
        first = Screened(NOTES, None, 0)
        screened(store, add("i"), by=first)
        with pytest.raises(SetMoved):
            screened(store, add("j"), by=first)

    def test_batches_of_one_transaction_are_checked_against_each_other(self, store: Store) -> None:
        """The second sees what the first added."""
        twice = [replace(batch(add(i)), screened=[Screened(NOTES, None, 0)]) for i in "ij"]
        done, refused = store.commit_many(twice)
        assert not isinstance(done, Exception)
        assert isinstance(refused, SetMoved)
        assert ids(store.page(NOTES)) == ["i"]

    def test_what_passes_every_rule_is_taken(self, store: Store) -> None:
        """None instead of screens: a restored item, say."""
        screened(store, Define(NOTES, RULED), add("i"), by=None)
        screened(store, Replace(NOTES, 1, record("i", "new")), by=None)
        assert ids(store.page(NOTES)) == ["i"]

    def test_knowledge_is_checked_too(self, store: Store) -> None:
        """A batch of a key that adds to knowledge is held by its rules."""
        book = SetRef(HANDBOOK, "book")
        write(store, Define(book, RULED))
        with pytest.raises(SetMoved):
            write(store, add("i", to=book))
        screened(store, add("i", to=book), by=Screened(book, RULES))
