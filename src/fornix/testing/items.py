"""Laws of items: found by id, in order, by page; changed by version; never lost from the past."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fornix.errors import DuplicateItem, StaleItem
from fornix.store import Add, ItemRecord, Replace, Retire, Scope, SetRef, Store, StoredItem
from fornix.testing.batches import ADA, BOB, HANDBOOK, NOTES, NOW, SECOND, Laws, add, record, write
from fornix.testing.reads import pages
from fornix.testing.tree import WORDS

WHOLE = ItemRecord(
    "i",
    value='{"text":"naïve 🦊"}',
    text="naïve 🦊",
    metadata='{"topic":["é",1,null]}',
    importance=0.25,
    speaker="Ada",
    role="user",
    session="s\0",
    time=NOW - SECOND,
    sources=("a", "b\0", "🦊"),
    compacted=True,
    terms=b"\1\0\0\0\1",
    tokens=300,
    temporal=255,
    vectors=b"\0\xff",
)
NEVER = SetRef(ADA, "never")


def only(
    store: Store, item_id: str = "i", ref: SetRef = NOTES, at: int | None = None
) -> StoredItem:
    """Return an item that is there."""
    found = store.get(ref, [item_id], at=at)[0]
    assert found is not None
    return found


def ids(items: list[StoredItem]) -> list[str]:
    """Return what is there, by id."""
    return [item.record.id for item in items]


class ItemLaws(Laws):
    """What happens to items, one by one."""

    def test_an_item_comes_back_as_it_was(self, store: Store) -> None:
        """Every field; but what only search reads is left to search."""
        commit = write(store, Add(NOTES, WHOLE))
        found = only(store)
        assert found.record == replace(WHOLE, terms=b"", tokens=0, temporal=0, vectors=b"")
        assert (found.set, found.version, found.first) == (NOTES, 1, found.row)
        assert (found.begun, found.ended) == (commit.number, None)
        assert (found.created, found.updated, found.accessed) == (NOW, NOW, None)

    def test_an_item_without_a_time_has_that_of_its_commit(self, store: Store) -> None:
        """Also when a new version comes without one."""
        write(store, add("i"))
        assert only(store).record.time == NOW
        write(store, Replace(NOTES, 1, record("i", "new")), time=NOW + SECOND)
        assert only(store).record.time == NOW + SECOND

    def test_a_value_may_stand_for_its_text(self, store: Store) -> None:
        """None and an empty text are told apart."""
        write(store, Add(NOTES, ItemRecord("i", None, "")), Add(NOTES, ItemRecord("j", '""', None)))
        assert [(r.value, r.text) for r in (only(store).record, only(store, "j").record)] == [
            (None, ""),
            ('""', None),
        ]

    def test_get_answers_in_the_order_asked(self, store: Store) -> None:
        """None for what is not there; what is asked twice is answered twice."""
        write(store, add("i"), add("j"))
        found = store.get(NOTES, ["j", "nobody", "i", "j"])
        assert [item and item.record.id for item in found] == ["j", None, "i", "j"]
        assert store.get(NOTES, []) == []
        assert store.get(NEVER, ["i", "j"]) == [None, None]

    def test_every_look_up_checks_where_it_looks(self, store: Store) -> None:
        """Key, space, knowledge and set: an equal id elsewhere is another item."""
        scopes = (ADA, BOB, Scope("other app", "ada"), HANDBOOK, Scope("app", None))
        refs = [SetRef(scope, name) for scope in scopes for name in ("notes", "note", "Notes")]
        for ref in refs:
            write(store, add("i", f"of {ref}", to=ref), scope=ref.scope)
        for ref in refs:
            info = store.set_info(ref)
            assert info is not None
            assert (info.ref, info.items) == (ref, 1)
            assert only(store, ref=ref).set == ref
            assert only(store, ref=ref).record.text == f"of {ref}"
            assert [item.record.text for item in store.page(ref)] == [f"of {ref}"]
            assert [item.set for item in store.versions(ref, "i")] == [ref]
            rows = [feature.row for feature in store.features(info.number)]
            assert [item.set for item in store.stored(rows)] == [ref]
        write(store, Retire(NOTES, "i", 1))
        assert [store.get(ref, ["i"])[0] is None for ref in refs] == [ref == NOTES for ref in refs]

    def test_rows_are_unique_and_rise(self, store: Store) -> None:
        """Over sets, keys and knowledge, in commit order and within a batch."""
        rows: list[int] = []
        for ref in (NOTES, SetRef(BOB, "notes"), NOTES, SetRef(HANDBOOK, "book")):
            number = write(
                store, add(f"{len(rows)}", to=ref), add(f"{len(rows)}b", to=ref), scope=ref.scope
            ).number
            found = store.effects(number)
            assert found is not None
            rows += [item.row for item in found.begun]
        assert rows == sorted(set(rows))
        assert len(rows) == 8

    def test_a_live_id_is_not_added_again(self, store: Store) -> None:
        """Neither later nor in the same batch; the error says where."""
        write(store, add("i"))
        with pytest.raises(DuplicateItem) as caught:
            write(store, add("i"))
        assert (caught.value.item_id, caught.value.set_name) == ("i", "notes")
        with pytest.raises(DuplicateItem):
            write(store, add("j"), add("j"))
        assert store.get(NOTES, ["j"]) == [None]

    def test_many_fresh_items_go_in_at_once(self, store: Store) -> None:
        """Their ids were just made, so that nobody needs to look for them."""
        write(store, *(Add(NOTES, record(f"{i:04}"), fresh=True) for i in range(1_500)))
        assert len(pages(store, NOTES)) == 1_500

    # --- versions

    def test_a_replacement_is_the_next_version(self, store: Store) -> None:
        """Of the same item: first and created stay."""
        write(store, add("i"))
        old = only(store)
        number = write(store, Replace(NOTES, 1, record("i", "new")), time=NOW + SECOND).number
        new = only(store)
        assert (new.version, new.record.text) == (2, "new")
        assert (new.first, new.created, new.updated) == (old.first, NOW, NOW + SECOND)
        assert new.row > old.row
        assert (new.begun, new.ended) == (number, None)
        assert store.versions(NOTES, "i") == [replace(old, ended=number), new]

    @pytest.mark.parametrize("version", [0, 1, 3])
    def test_a_version_that_is_not_live_is_not_changed(self, store: Store, version: int) -> None:
        """Neither replaced nor retired; the error says what is there."""
        write(store, add("i"))
        write(store, Replace(NOTES, 1, record("i", "new")))
        for change in (Replace(NOTES, version, record("i", "newer")), Retire(NOTES, "i", version)):
            with pytest.raises(StaleItem) as caught:
                write(store, change)
            assert (caught.value.item_id, caught.value.expected) == ("i", version)
            assert caught.value.found == 2
        assert only(store).record.text == "new"

    def test_what_is_gone_is_not_changed(self, store: Store) -> None:
        """Nor what never was, nor in a set that never was; the error says that nothing is there."""
        write(store, add("i"))
        write(store, Retire(NOTES, "i", 1))
        for ref, item_id in ((NOTES, "i"), (NOTES, "nobody"), (NEVER, "i")):
            for change in (Replace(ref, 1, record(item_id)), Retire(ref, item_id, 1)):
                with pytest.raises(StaleItem) as caught:
                    write(store, change)
                assert caught.value.found is None
        assert store.set_info(NEVER) is None

    def test_a_retired_item_is_gone_from_the_present(self, store: Store) -> None:
        """And from it alone."""
        first = write(store, add("i"), add("j")).number
        number = write(store, Retire(NOTES, "i", 1)).number
        assert store.get(NOTES, ["i"]) == [None]
        assert ids(store.page(NOTES)) == ["j"]
        assert ids(store.page(NOTES, at=first)) == ["i", "j"]
        assert [item.ended for item in store.versions(NOTES, "i")] == [number]

    def test_an_id_that_comes_back_goes_on_counting(self, store: Store) -> None:
        """Its versions rise; it is created anew and stands where it comes now."""
        write(store, add("i", time=NOW), add("j", time=NOW))
        write(store, Replace(NOTES, 1, replace(record("i", "new"), time=NOW)))
        write(store, Retire(NOTES, "i", 2))
        write(store, add("i", "again", time=NOW), time=NOW + SECOND)
        found = only(store)
        assert (found.version, found.created, found.first) == (3, NOW + SECOND, found.row)
        assert ids(store.page(NOTES)) == ["j", "i"]
        assert [item.version for item in store.versions(NOTES, "i")] == [1, 2, 3]

    def test_changes_of_one_batch_apply_in_order(self, store: Store) -> None:
        """Each sees what those before it did."""
        write(store, add("i"), Replace(NOTES, 1, record("i", "new")))
        assert [(item.version, item.record.text) for item in store.versions(NOTES, "i")] == [
            (1, "text of i"),
            (2, "new"),
        ]
        write(store, Retire(NOTES, "i", 2), add("i", "again"))
        assert only(store).version == 3
        write(store, Retire(NOTES, "i", 3), add("i"), Retire(NOTES, "i", 4))
        assert store.get(NOTES, ["i"]) == [None]
        assert [item.version for item in store.versions(NOTES, "i")] == [1, 2, 3, 4]

    def test_many_ids_are_taken_as_one_is(self, store: Store) -> None:
        """A batch of many adds continues what was retired, and refuses what is live, whole."""
        names = ["i", "i\0", "i\0j", "ï", *(f"n{n}" for n in range(20))]
        write(store, *map(add, names), add("i", to=SetRef(ADA, "others")))
        write(store, *(Retire(NOTES, name, 1) for name in names[:-1]))
        with pytest.raises(DuplicateItem) as caught:
            write(store, *map(add, names))
        assert caught.value.item_id == names[-1]
        assert ids(store.page(NOTES)) == names[-1:]
        write(store, *map(add, [*names[:-1], "new"]))
        found = store.get(NOTES, [*names, "new"])
        assert [item and item.version for item in found] == [2] * (len(names) - 1) + [1, 1]
        write(store, *(Retire(NOTES, name, 2) for name in names[:-1]))
        plain = [name for name in names[:-1] if "\0" not in name]
        write(store, *map(add, plain))
        assert [item and item.version for item in store.get(NOTES, plain)] == [3] * len(plain)

    def test_there_are_no_versions_of_what_never_was(self, store: Store) -> None:
        """An empty list."""
        write(store, add("i"))
        assert store.versions(NOTES, "j") == store.versions(NEVER, "i") == []

    def test_the_past_is_read_at_its_commit(self, store: Store) -> None:
        """Each version when it was live, for get and page alike."""
        numbers = [
            write(store, add("i", "one", time=NOW)).number,
            write(store, add("j", time=NOW)).number,
            write(store, Replace(NOTES, 1, replace(record("i", "two"), time=NOW))).number,
            write(store, Retire(NOTES, "i", 2)).number,
            write(store, add("i", "three", time=NOW)).number,
        ]
        texts = ["one", "one", "two", None, "three"]
        for number, text in zip(numbers, texts, strict=True):
            found = store.get(NOTES, ["i"], at=number)[0]
            assert (found and found.record.text) == text
        assert [ids(store.page(NOTES, at=n)) for n in (0, *numbers)] == [
            [],
            ["i"],
            ["i", "j"],
            ["i", "j"],
            ["j"],
            ["j", "i"],
        ]

    # --- pages

    def test_pages_go_by_time_and_then_by_who_was_first(self, store: Store) -> None:
        """Not by id, not by when a version came."""
        write(store, add("z", time=NOW), add("y", time=NOW - SECOND), add("x", time=NOW))
        write(store, Replace(NOTES, 1, replace(record("z", "new"), time=NOW)))
        assert ids(store.page(NOTES)) == ["y", "z", "x"]
        assert ids(store.page(NOTES, newest_first=True)) == ["x", "z", "y"]

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("past", [False, True])
    def test_pages_cover_a_set(self, store: Store, newest_first: bool, past: bool) -> None:  # noqa: FBT001 - cases
        """Each item once, in either direction, now and in the past, with many of one time."""
        changes = [add(f"{i}", time=NOW + i // 4) for i in range(20)]
        number = write(store, *changes).number
        expected = [f"{i}" for i in range(20)]
        if past:
            write(store, *(Retire(NOTES, f"{i}", 1) for i in range(0, 20, 3)), add("new", time=NOW))
        found = pages(store, NOTES, newest_first=newest_first, at=number if past else None)
        assert ids(found) == (expected[::-1] if newest_first else expected)

    def test_a_page_has_at_most_so_many(self, store: Store) -> None:
        """From the end that was asked for."""
        write(store, *(add(f"{i}") for i in range(5)))
        assert ids(store.page(NOTES, limit=2)) == ["0", "1"]
        assert ids(store.page(NOTES, limit=2, newest_first=True)) == ["4", "3"]
        assert ids(store.page(NOTES)) == ["0", "1", "2", "3", "4"]
        assert store.page(NEVER) == []

    def test_paging_goes_on_while_others_write(self, store: Store) -> None:
        """What stays is seen once; what comes behind the reader is not, ahead of it is."""
        write(store, *(add(f"{i}", time=NOW + i) for i in range(6)))
        first = store.page(NOTES, limit=3)
        write(
            store,
            Retire(NOTES, "1", 1),
            Retire(NOTES, "4", 1),
            add("behind", time=NOW),
            add("ahead", time=NOW + 4),
            Replace(NOTES, 1, replace(record("2", "new"), time=NOW + 2)),
        )
        after = (first[-1].record.time or 0, first[-1].first)
        assert ids(first) == ["0", "1", "2"]
        assert ids(store.page(NOTES, after=after)) == ["3", "ahead", "5"]

    def test_odd_ids_are_told_apart(self, store: Store) -> None:
        """In get, in pages, and in sets of odd names."""
        refs = [SetRef(ADA, word) for word in WORDS]
        write(store, *(add(word, f"{i}", time=NOW) for i, word in enumerate(WORDS)))
        write(store, *(add("i", to=ref) for ref in refs))
        found = store.get(NOTES, WORDS)
        assert [item and item.record.text for item in found] == [f"{i}" for i in range(len(WORDS))]
        assert ids(pages(store, NOTES)) == list(WORDS)
        assert [only(store, ref=ref).set for ref in refs] == refs

    # --- touches

    def test_a_touch_is_seen_at_once(self, store: Store) -> None:
        """In every read of the item; the latest time stands."""
        write(store, add("i"), add("j"))
        first = only(store).first
        store.touch([first], time=NOW + 1)
        store.touch([first], time=NOW + 2)
        assert [item.accessed for item in store.page(NOTES)] == [NOW + 2, None]
        assert only(store).accessed == NOW + 2
        assert [item.accessed for item in store.stored([first])] == [NOW + 2]

    def test_a_touch_moves_no_number(self, store: Store) -> None:
        """No commit, no change for search, no new version, no other time."""
        write(store, add("i"))
        before, seq = only(store), store.seq()
        store.touch([before.first], time=NOW + 5)
        assert only(store) == replace(before, accessed=NOW + 5)
        assert store.seq() == seq
        assert store.commit_at(NOW + 5) == before.begun

    def test_a_touch_belongs_to_the_item(self, store: Store) -> None:
        """A new version of it keeps it, later commits too; a new item of its id does not."""
        write(store, add("i"))
        store.touch([only(store).first], time=NOW + 1)
        write(store, Replace(NOTES, 1, record("i", "new")))
        assert only(store).accessed == NOW + 1
        write(store, Retire(NOTES, "i", 2))
        write(store, add("i"))
        assert only(store).accessed is None

    def test_a_refused_batch_does_not_take_touches_along(self, store: Store) -> None:
        """A touch travels with a commit; if that is refused, it waits for the next."""
        write(store, add("i"))
        store.touch([only(store).first], time=NOW + 1)
        with pytest.raises(DuplicateItem):
            write(store, add("i"))
        assert only(store).accessed == NOW + 1
        write(store, add("j"))
        assert only(store).accessed == NOW + 1

    def test_touching_nothing_is_no_error(self, store: Store) -> None:
        """An item may be gone by then."""
        store.touch([], time=NOW)
        store.touch([12345], time=NOW)
        assert write(store, add("i")).number
