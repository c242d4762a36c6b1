"""Laws of upserts: what others did to the item meanwhile is no conflict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fornix.errors import StaleItem
from fornix.store import Link, Replace, Retire, Store
from fornix.testing.batches import NOTES, NOW, SECOND, Laws, add, batch, record, upsert, write
from fornix.testing.items import ids, only
from fornix.testing.sets import info


def texts(store: Store) -> list[str | None]:
    """Return what the live items say."""
    return [item.record.text for item in store.page(NOTES)]


class UpsertLaws(Laws):
    """What `Add.existing` and `Replace.upsert` do."""

    def test_an_upsert_takes_the_place_of_what_is_there(self, store: Store) -> None:
        """Whatever its version; it is the next one, and the item keeps its place and beginning."""
        write(store, add("i", "one"))
        write(store, Replace(NOTES, 1, record("i", "two")))
        number = write(store, upsert("i", "three"), time=NOW + SECOND).number
        assert [v.record.text for v in store.versions(NOTES, "i")] == ["one", "two", "three"]
        item = only(store)
        assert (item.version, item.begun, item.created) == (3, number, NOW)
        assert info(store).items == 1

    def test_an_upsert_adds_what_is_not_there(self, store: Store) -> None:
        """Never, or not any more; as if nobody had been."""
        write(store, upsert("i", "one"), upsert("j", "one", "keep"))
        write(store, Retire(NOTES, "i", 1), Retire(NOTES, "j", 1))
        again = Replace(NOTES, 7, record("j", "two"), upsert=True)
        write(store, upsert("i", "two", "keep"), again)
        assert texts(store) == ["two", "two"]
        assert [item.version for item in store.page(NOTES)] == [2, 2]

    def test_what_is_kept_stays_as_it_is(self, store: Store) -> None:
        """No version is made of it."""
        before = write(store, add("i", "one")).number
        write(store, upsert("i", "two", "keep"))
        assert [(v.record.text, v.ended) for v in store.versions(NOTES, "i")] == [("one", None)]
        assert only(store).begun == before

    def test_a_replacement_that_is_an_upsert_names_no_version(self, store: Store) -> None:
        """The one that is live ends."""
        write(store, add("i", "one"))
        write(store, Replace(NOTES, 9, record("i", "two"), upsert=True))
        assert texts(store) == ["two"]
        with pytest.raises(StaleItem):
            write(store, Replace(NOTES, 9, record("i", "three")))

    def test_later_changes_of_the_batch_follow_an_upsert(self, store: Store) -> None:
        """They were computed from what it put there, so that no version can be wrong."""
        write(store, add("i", "one"), add("j", "one"))
        write(store, Replace(NOTES, 1, record("i", "two")))
        after = Replace(NOTES, 1, record("i", "four"))
        write(store, upsert("i", "three"), after, upsert("j", "two"), Retire(NOTES, "j", 1))
        assert texts(store) == ["four"]
        assert only(store).version == 4

    def test_later_changes_of_the_batch_refuse_what_was_kept(self, store: Store) -> None:
        """They were computed from what is not there; nothing of the batch is done."""
        write(store, add("i", "one"))
        for change in (Replace(NOTES, 1, record("i", "three")), Retire(NOTES, "i", 1)):
            with pytest.raises(StaleItem):
                write(store, upsert("i", "two", "keep"), add("j"), change)
        assert texts(store) == ["one"]

    def test_sources_are_gathered(self, store: Store) -> None:
        """Those of the item that was there, and those of the upsert."""
        write(store, add("a"), add("b"))
        old = replace(add("i"), record=replace(record("i"), sources=("a",)))
        write(store, replace(old, links=[Link(NOTES, "a")]))
        new = replace(upsert("i", "two"), record=replace(record("i", "two"), sources=("b",)))
        write(store, replace(new, links=[Link(NOTES, "b")]))
        (item,) = (item for item in store.page(NOTES) if item.record.id == "i")
        assert item.record.sources == ("a", "b")
        rows = {found.record.id: found.row for found in store.page(NOTES)}
        assert store.links([item.row]) == [(item.row, rows["a"]), (item.row, rows["b"])]

    def test_many_upserts_together(self, store: Store) -> None:
        """Some are there, some are not, and two batches are of one group."""
        write(store, *(add(f"{n}") for n in range(0, 20, 2)))
        many = [upsert(f"{n}", "new") for n in range(20)]
        answers = store.commit_many([batch(*many), batch(*many[::-1])])
        assert [type(answer).__name__ for answer in answers] == ["Commit", "Commit"]
        assert texts(store) == ["new"] * 20
        assert sorted(ids(store.page(NOTES))) == sorted(f"{n}" for n in range(20))
