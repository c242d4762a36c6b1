"""Laws of items and sets: how they are read, changed by version, and limited."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alveus.errors import DuplicateItem, KeyFull, SetDefinitionConflict, SetFull, StaleItem
from alveus.store import (
    Add,
    Define,
    Definition,
    ItemRecord,
    Limits,
    Link,
    Put,
    Replace,
    Retire,
    Scope,
    SetInfo,
    SetRef,
    Store,
    StoredItem,
)
from alveus.testing.batches import (
    ADA,
    BOB,
    BOOK,
    DAY,
    HANDBOOK,
    NOTES,
    NOW,
    SECOND,
    AnyChange,
    Laws,
    add,
    batch,
    present,
    record,
    refused,
    upsert,
    write,
)
from alveus.testing.reads import pages
from alveus.testing.tree_laws import WORDS
from alveus.values import wire
from alveus.values.storable import Value

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


def expiring(item_id: str, expires: int) -> Add:
    """Return a change that adds an item with this expiry."""
    return Add(NOTES, replace(record(item_id), expires=expires))


def only(
    store: Store, item_id: str = "i", ref: SetRef = NOTES, at: int | None = None
) -> StoredItem:
    """Return an item that must exist."""
    return present(store.get(ref, [item_id], at=at)[0])


def ids(items: list[StoredItem]) -> list[str]:
    """Return the ids of items."""
    return [item.record.id for item in items]


class ItemLaws(Laws):
    """Laws of single items."""

    def test_an_item_comes_back_as_it_was(self, store: Store) -> None:
        """Every field comes back, except the fields that only search reads."""
        commit = write(store, Add(NOTES, WHOLE))
        found = only(store)
        assert found.record == replace(WHOLE, terms=b"", tokens=0, temporal=0, vectors=b"")
        assert (found.set, found.version, found.first) == (NOTES, 1, found.row)
        assert (found.begin_commit, found.end_commit) == (commit.number, None)
        assert (found.created, found.updated, found.accessed) == (NOW, NOW, None)

    def test_an_item_without_a_time_has_that_of_its_commit(self, store: Store) -> None:
        """An item without a time has the time of its commit, also in a later version."""
        write(store, add("i"))
        assert only(store).record.time == NOW
        write(store, Replace(NOTES, 1, record("i", "new")), time=NOW + SECOND)
        assert only(store).record.time == NOW + SECOND

    def test_a_value_may_stand_for_its_text(self, store: Store) -> None:
        """If the value is None, the text is the value. A text of None and an empty text differ."""
        write(store, Add(NOTES, ItemRecord("i", None, "")), Add(NOTES, ItemRecord("j", '""', None)))
        assert [(r.value, r.text) for r in (only(store).record, only(store, "j").record)] == [
            (None, ""),
            ('""', None),
        ]

    def test_get_answers_in_the_order_asked(self, store: Store) -> None:
        """`get` returns None for a missing item, and returns an item twice for a repeated id."""
        write(store, add("i"), add("j"))
        found = store.get(NOTES, ["j", "nobody", "i", "j"])
        assert [item and item.record.id for item in found] == ["j", None, "i", "j"]
        assert store.get(NOTES, []) == []
        assert store.get(NEVER, ["i", "j"]) == [None, None]

    def test_every_look_up_checks_where_it_looks(self, store: Store) -> None:
        """Reads check key, space, knowledge and set: an equal id elsewhere is another item."""
        scopes = (ADA, BOB, Scope("other app", "ada"), HANDBOOK, Scope("app", None))
        refs = [SetRef(scope, name) for scope in scopes for name in ("notes", "note", "Notes")]
        for ref in refs:
            write(store, add("i", f"of {ref}", to=ref), scope=ref.scope)
        for ref in refs:
            info = present(store.set_info(ref))
            assert (info.ref, info.items) == (ref, 1)
            assert only(store, ref=ref).set == ref
            assert only(store, ref=ref).record.text == f"of {ref}"
            assert [item.record.text for item in store.page(ref)] == [f"of {ref}"]
            assert [item.set for item in store.versions(ref, "i")] == [ref]
            rows = [feature.row for feature in store.features(info.number)]
            assert [item.set for item in store.items_by_row(rows)] == [ref]
        write(store, Retire(NOTES, "i", 1))
        assert [store.get(ref, ["i"])[0] is None for ref in refs] == [ref == NOTES for ref in refs]

    def test_rows_are_unique_and_rise(self, store: Store) -> None:
        """Row numbers rise in commit order and within a batch, over all sets and keys."""
        rows: list[int] = []
        for ref in (NOTES, SetRef(BOB, "notes"), NOTES, SetRef(HANDBOOK, "book")):
            number = write(
                store, add(f"{len(rows)}", to=ref), add(f"{len(rows)}b", to=ref), scope=ref.scope
            ).number
            found = present(store.effects(number))
            rows += [item.row for item in found.begun_items]
        assert rows == sorted(set(rows))
        assert len(rows) == 8

    def test_a_live_id_is_not_added_again(self, store: Store) -> None:
        """A live id is refused in a later batch and in the same batch. The error names the set."""
        write(store, add("i"))
        error = refused(store, DuplicateItem, add("i"))
        assert (error.item_id, error.set_name) == ("i", "notes")
        refused(store, DuplicateItem, add("j"), add("j"))
        assert store.get(NOTES, ["j"]) == [None]

    @pytest.mark.parametrize("fresh", [False, True])
    def test_a_live_id_is_reported_before_a_limit(self, store: Store, *, fresh: bool) -> None:
        """A duplicate is reported before a limit of the key or set, also for a fresh id."""
        write(store, Define(NOTES, REJECT), add("i"), add("j"))
        again = Add(NOTES, record("i"), fresh=fresh)
        for limits in (None, Limits(items=2), Limits(bytes=2)):
            refused(store, DuplicateItem, again, limits=limits)
        refused(store, SetFull, Add(NOTES, record("k"), fresh=fresh))
        refused(store, KeyFull, Add(NEVER, record("k"), fresh=fresh), limits=Limits(items=2))

    def test_many_fresh_items_go_in_at_once(self, store: Store) -> None:
        """One batch adds many items with fresh ids, which the store need not look up."""
        write(store, *(Add(NOTES, record(f"{i:04}"), fresh=True) for i in range(1_500)))
        assert len(pages(store, NOTES)) == 1_500

    # --- versions

    def test_a_replacement_is_the_next_version(self, store: Store) -> None:
        """A replacement is a version of the same item: `first` and `created` stay."""
        write(store, add("i"))
        old = only(store)
        number = write(store, Replace(NOTES, 1, record("i", "new")), time=NOW + SECOND).number
        new = only(store)
        assert (new.version, new.record.text) == (2, "new")
        assert (new.first, new.created, new.updated) == (old.first, NOW, NOW + SECOND)
        assert new.row > old.row
        assert (new.begin_commit, new.end_commit) == (number, None)
        assert store.versions(NOTES, "i") == [replace(old, end_commit=number), new]

    @pytest.mark.parametrize("version", [0, 1, 3])
    def test_a_version_that_is_not_live_is_not_changed(self, store: Store, version: int) -> None:
        """A change of a version that is not live is refused. The error names the live version."""
        write(store, add("i"))
        write(store, Replace(NOTES, 1, record("i", "new")))
        for change in (Replace(NOTES, version, record("i", "newer")), Retire(NOTES, "i", version)):
            error = refused(store, StaleItem, change)
            assert (error.item_id, error.expected) == ("i", version)
            assert error.found == 2
        assert only(store).record.text == "new"

    def test_what_is_gone_is_not_changed(self, store: Store) -> None:
        """A change of an item that was retired, never added, or is in a missing set is refused.

        The error says that the item is missing.
        """
        write(store, add("i"))
        write(store, Retire(NOTES, "i", 1))
        for ref, item_id in ((NOTES, "i"), (NOTES, "nobody"), (NEVER, "i")):
            for change in (Replace(ref, 1, record(item_id)), Retire(ref, item_id, 1)):
                error = refused(store, StaleItem, change)
                assert error.found is None
        assert store.set_info(NEVER) is None

    def test_a_retired_item_is_gone_from_the_present(self, store: Store) -> None:
        """A retired item disappears from reads of the present only."""
        first = write(store, add("i"), add("j")).number
        number = write(store, Retire(NOTES, "i", 1)).number
        assert store.get(NOTES, ["i"]) == [None]
        assert ids(store.page(NOTES)) == ["j"]
        assert ids(store.page(NOTES, at=first)) == ["i", "j"]
        assert [item.end_commit for item in store.versions(NOTES, "i")] == [number]

    def test_an_id_that_comes_back_goes_on_counting(self, store: Store) -> None:
        """If an id is added again, its version numbers continue from the last one.

        The item has a new creation time and position.
        """
        write(store, add("i", time=NOW), add("j", time=NOW))
        write(store, Replace(NOTES, 1, replace(record("i", "new"), time=NOW)))
        write(store, Retire(NOTES, "i", 2))
        write(store, add("i", "again", time=NOW), time=NOW + SECOND)
        found = only(store)
        assert (found.version, found.created, found.first) == (3, NOW + SECOND, found.row)
        assert ids(store.page(NOTES)) == ["j", "i"]
        assert [item.version for item in store.versions(NOTES, "i")] == [1, 2, 3]

    def test_changes_of_one_batch_apply_in_order(self, store: Store) -> None:
        """Each change of a batch sees the earlier changes of the batch."""
        write(store, add("i"), Replace(NOTES, 1, record("i", "new")))
        expected = [(1, "text of i"), (2, "new")]
        assert [(item.version, item.record.text) for item in store.versions(NOTES, "i")] == expected
        write(store, Retire(NOTES, "i", 2), add("i", "again"))
        assert only(store).version == 3
        write(store, Retire(NOTES, "i", 3), add("i"), Retire(NOTES, "i", 4))
        assert store.get(NOTES, ["i"]) == [None]
        assert [item.version for item in store.versions(NOTES, "i")] == [1, 2, 3, 4]

    def test_many_ids_are_taken_as_one_is(self, store: Store) -> None:
        """Many adds in a batch may use retired ids. One live id refuses the whole batch."""
        names = ["i", "i\0", "i\0j", "ï", *(f"n{n}" for n in range(20))]
        write(store, *map(add, names), add("i", to=SetRef(ADA, "others")))
        write(store, *(Retire(NOTES, name, 1) for name in names[:-1]))
        error = refused(store, DuplicateItem, *map(add, names))
        assert error.item_id == names[-1]
        assert ids(store.page(NOTES)) == names[-1:]
        write(store, *map(add, [*names[:-1], "new"]))
        found = store.get(NOTES, [*names, "new"])
        assert [item and item.version for item in found] == [2] * (len(names) - 1) + [1, 1]
        write(store, *(Retire(NOTES, name, 2) for name in names[:-1]))
        plain = [name for name in names[:-1] if "\0" not in name]
        write(store, *map(add, plain))
        assert [item and item.version for item in store.get(NOTES, plain)] == [3] * len(plain)

    def test_there_are_no_versions_of_what_never_was(self, store: Store) -> None:
        """The versions of an unknown id are an empty list."""
        write(store, add("i"))
        assert store.versions(NOTES, "j") == store.versions(NEVER, "i") == []

    def test_the_past_is_read_at_its_commit(self, store: Store) -> None:
        """`get` and `page` at a commit return the versions that were live at this commit."""
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
        expected = [[], ["i"], ["i", "j"], ["i", "j"], ["j"], ["j", "i"]]
        assert [ids(store.page(NOTES, at=n)) for n in (0, *numbers)] == expected

    # --- pages

    def test_pages_go_by_time_and_then_by_who_was_first(self, store: Store) -> None:
        """A page is sorted by time, then by first row: not by id, and not by version."""
        write(store, add("z", time=NOW), add("y", time=NOW - SECOND), add("x", time=NOW))
        write(store, Replace(NOTES, 1, replace(record("z", "new"), time=NOW)))
        assert ids(store.page(NOTES)) == ["y", "z", "x"]
        assert ids(store.page(NOTES, newest_first=True)) == ["x", "z", "y"]

    @pytest.mark.parametrize("newest_first", [False, True])
    @pytest.mark.parametrize("earlier", [False, True])
    def test_pages_cover_a_set(self, store: Store, newest_first: bool, earlier: bool) -> None:  # noqa: FBT001 - cases
        """Pages contain each item once, in both directions, now and in the past."""
        changes = [add(f"{i}", time=NOW + i // 4) for i in range(20)]
        number = write(store, *changes).number
        expected = [f"{i}" for i in range(20)]
        if earlier:
            write(store, *(Retire(NOTES, f"{i}", 1) for i in range(0, 20, 3)), add("new", time=NOW))
        found = pages(store, NOTES, newest_first=newest_first, at=number if earlier else None)
        assert ids(found) == (expected[::-1] if newest_first else expected)

    def test_a_page_has_at_most_so_many(self, store: Store) -> None:
        """A page has at most *limit* items, from the requested end."""
        write(store, *(add(f"{i}") for i in range(5)))
        assert ids(store.page(NOTES, limit=2)) == ["0", "1"]
        assert ids(store.page(NOTES, limit=2, newest_first=True)) == ["4", "3"]
        assert ids(store.page(NOTES)) == ["0", "1", "2", "3", "4"]
        assert store.page(NEVER) == []

    def test_paging_goes_on_while_others_write(self, store: Store) -> None:
        """During writes, a paging reader sees stable items once, and new items only ahead of it."""
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

    def test_odd_ids_are_distinct(self, store: Store) -> None:
        """Odd ids are distinct in `get`, in pages, and in sets with odd names."""
        refs = [SetRef(ADA, word) for word in WORDS]
        write(store, *(add(word, f"{i}", time=NOW) for i, word in enumerate(WORDS)))
        write(store, *(add("i", to=ref) for ref in refs))
        found = store.get(NOTES, WORDS)
        assert [item and item.record.text for item in found] == [f"{i}" for i in range(len(WORDS))]
        assert ids(pages(store, NOTES)) == list(WORDS)
        assert [only(store, ref=ref).set for ref in refs] == refs

    # --- touches

    def test_a_touch_is_seen_at_once(self, store: Store) -> None:
        """Every read shows a touch (a recorded access) at once. The latest time is kept."""
        write(store, add("i"), add("j"))
        first = only(store).first
        store.touch([first], time=NOW + 1)
        store.touch([first], time=NOW + 2)
        assert [item.accessed for item in store.page(NOTES)] == [NOW + 2, None]
        assert only(store).accessed == NOW + 2
        assert [item.accessed for item in store.items_by_row([first])] == [NOW + 2]

    def test_a_touch_moves_no_number(self, store: Store) -> None:
        """A touch makes no commit, no change for search, no version, and no other time."""
        write(store, add("i"))
        before, seq = only(store), store.seq()
        store.touch([before.first], time=NOW + 5)
        assert only(store) == replace(before, accessed=NOW + 5)
        assert store.seq() == seq
        assert store.commit_at(NOW + 5) == before.begin_commit

    def test_a_touch_belongs_to_the_item(self, store: Store) -> None:
        """A touch survives new versions and later commits.

        A new item with the same id starts without a touch.
        """
        write(store, add("i"))
        store.touch([only(store).first], time=NOW + 1)
        write(store, Replace(NOTES, 1, record("i", "new")))
        assert only(store).accessed == NOW + 1
        write(store, Retire(NOTES, "i", 2))
        write(store, add("i"))
        assert only(store).accessed is None

    def test_a_refused_batch_does_not_take_touches_along(self, store: Store) -> None:
        """A refused batch loses no earlier touch: the touch waits for the next commit."""
        write(store, add("i"))
        store.touch([only(store).first], time=NOW + 1)
        refused(store, DuplicateItem, add("i"))
        assert only(store).accessed == NOW + 1
        write(store, add("j"))
        assert only(store).accessed == NOW + 1

    def test_touching_nothing_is_no_error(self, store: Store) -> None:
        """Touching a missing item raises no error: the item may be deleted by then."""
        store.touch([], time=NOW)
        store.touch([12345], time=NOW)
        assert write(store, add("i")).number

    # --- renewals

    def test_a_renewal_makes_no_version(self, store: Store) -> None:
        """A renewal changes only the expiry: no commit, no change for search, no version."""
        write(store, expiring("i", NOW + SECOND))
        before, seq = only(store), store.seq()
        assert store.renew([(before.row, NOW + DAY)], now=NOW) == 1
        later = replace(before.record, expires=NOW + DAY)
        assert only(store) == replace(before, record=later)
        assert [s.record for s in store.versions(NOTES, "i")] == [later]
        assert (store.seq(), store.commit_at(NOW + DAY)) == (seq, before.begin_commit)

    def test_a_renewed_item_is_there_in_every_read(self, store: Store) -> None:
        """Every read shows that an item was renewed: of its set, of expired items, of the past."""
        write(store, expiring("i", NOW + SECOND))
        at = only(store).begin_commit
        store.renew([(only(store).row, NOW + DAY)], now=NOW)
        info = store.set_info(NOTES)
        assert info is not None
        assert info.next_expiry == NOW + DAY
        late = NOW + 2 * SECOND
        assert not store.expired_items(now=late)
        for then in (None, at):
            out = store.expired_or_invalid_rows(info.number, now=late, valid_at=None, at=then)
            assert not list(out)
            [item] = store.get(NOTES, ["i"], at=then)
            assert item is not None
            assert item.record.expires == NOW + DAY

    def test_a_renewal_only_prolongs(self, store: Store) -> None:
        """A renewal changes no item that never expires, has expired, or expires later anyway."""
        write(store, add("never"), expiring("late", NOW + DAY), expiring("past", NOW + 1))
        write(store, expiring("gone", NOW + DAY))
        rows = [(s.row, NOW + SECOND) for s in store.page(NOTES)]
        write(store, Retire(NOTES, "gone", 1))
        before = store.page(NOTES)
        assert store.renew([*rows, (12345, NOW + SECOND)], now=NOW + 1) == 0
        assert store.page(NOTES) == before
        assert store.versions(NOTES, "gone")[0].record.expires == NOW + DAY


def texts(store: Store) -> list[str | None]:
    """Return the texts of the live items."""
    return [item.record.text for item in store.page(NOTES)]


class UpsertLaws(Laws):
    """Laws of `Add.existing` and `Replace.upsert`."""

    def test_an_upsert_replaces_what_is_there(self, store: Store) -> None:
        """An upsert makes the next version of an item, with its position and creation time."""
        write(store, add("i", "one"))
        write(store, Replace(NOTES, 1, record("i", "two")))
        number = write(store, upsert("i", "three"), time=NOW + SECOND).number
        assert [v.record.text for v in store.versions(NOTES, "i")] == ["one", "two", "three"]
        item = only(store)
        assert (item.version, item.begin_commit, item.created) == (3, number, NOW)
        assert info(store).items == 1

    def test_an_upsert_adds_what_is_not_there(self, store: Store) -> None:
        """An upsert adds an item that never existed, or was deleted, like a plain add."""
        write(store, upsert("i", "one"), upsert("j", "one", "keep"))
        write(store, Retire(NOTES, "i", 1), Retire(NOTES, "j", 1))
        again = Replace(NOTES, 7, record("j", "two"), upsert=True)
        write(store, upsert("i", "two", "keep"), again)
        assert texts(store) == ["two", "two"]
        assert [item.version for item in store.page(NOTES)] == [2, 2]

    def test_what_is_kept_stays_as_it_is(self, store: Store) -> None:
        """An upsert that keeps the existing item makes no version."""
        before = write(store, add("i", "one")).number
        write(store, upsert("i", "two", "keep"))
        assert [(v.record.text, v.end_commit) for v in store.versions(NOTES, "i")] == [
            ("one", None)
        ]
        assert only(store).begin_commit == before

    def test_a_replacement_that_is_an_upsert_names_no_version(self, store: Store) -> None:
        """An upserting replacement ends the live version, whatever its number."""
        write(store, add("i", "one"))
        write(store, Replace(NOTES, 9, record("i", "two"), upsert=True))
        assert texts(store) == ["two"]
        refused(store, StaleItem, Replace(NOTES, 9, record("i", "three")))

    def test_later_changes_of_the_batch_follow_an_upsert(self, store: Store) -> None:
        """Later changes of a batch build on the result of an upsert, whatever version they name."""
        write(store, add("i", "one"), add("j", "one"))
        write(store, Replace(NOTES, 1, record("i", "two")))
        after = Replace(NOTES, 1, record("i", "four"))
        write(store, upsert("i", "three"), after, upsert("j", "two"), Retire(NOTES, "j", 1))
        assert texts(store) == ["four"]
        assert only(store).version == 4

    def test_later_changes_of_the_batch_refuse_what_was_kept(self, store: Store) -> None:
        """Later changes of a batch are refused if an upsert kept the existing item.

        Nothing is changed.
        """
        write(store, add("i", "one"))
        for change in (Replace(NOTES, 1, record("i", "three")), Retire(NOTES, "i", 1)):
            refused(store, StaleItem, upsert("i", "two", "keep"), add("j"), change)
        assert texts(store) == ["one"]

    def test_sources_are_gathered(self, store: Store) -> None:
        """An upsert adds its sources to the sources of the existing item."""
        write(store, add("a"), add("b"))
        old = replace(add("i"), record=replace(record("i"), sources=("a",)))
        write(store, replace(old, links=[Link(NOTES, "a")]))
        new = replace(upsert("i", "two"), record=replace(record("i", "two"), sources=("b",)))
        write(store, replace(new, links=[Link(NOTES, "b")]))
        (item,) = (item for item in store.page(NOTES) if item.record.id == "i")
        assert item.record.sources == ("a", "b")
        rows = {found.record.id: found.row for found in store.page(NOTES)}
        assert store.source_links([item.row]) == [(item.row, rows["a"]), (item.row, rows["b"])]

    def test_many_upserts_together(self, store: Store) -> None:
        """A group of batches may mix upserts of existing items and of new items."""
        write(store, *(add(f"{n}") for n in range(0, 20, 2)))
        many = [upsert(f"{n}", "new") for n in range(20)]
        answers = store.commit_many([batch(*many), batch(*many[::-1])])
        assert [type(answer).__name__ for answer in answers] == ["Commit", "Commit"]
        assert texts(store) == ["new"] * 20
        assert sorted(ids(store.page(NOTES))) == sorted(f"{n}" for n in range(20))


TRIM = Definition(capacity=2)
REJECT = Definition(capacity=2, compaction="reject")
RICH = Definition(
    capacity=7, compaction={"name": "merge"}, item_type="turn", signals={"speaker": 0.5}
)


def info(store: Store, ref: SetRef = NOTES) -> SetInfo:
    """Return the information about a set that must exist."""
    return present(store.set_info(ref))


AB = (add("a"), add("b"))

CAPACITIES: dict[
    str, tuple[Definition, tuple[AnyChange, ...], tuple[AnyChange, ...], list[str]]
] = {
    "what happened long ago does not push out what is recent": (
        TRIM, AB, (add("ancient", time=NOW - SECOND),), ["a", "b"],
    ),
    "what the batch itself retires makes room": (
        REJECT, AB, (add("c"), Retire(NOTES, "a", 1)), ["b", "c"],
    ),
    "a change of another kind before the add does not hide it": (
        TRIM, AB, (Replace(NOTES, 1, record("b", "new")), add("c")), ["b", "c"],
    ),
    "a set that is compacted by others may exceed it until they come": (
        Definition(capacity=1, compaction={"name": "summarise"}), (), AB, ["a", "b"],
    ),
    "what a set gives up does not count for limits": (
        TRIM, (), tuple(add(f"{i}") for i in range(5)), ["3", "4"],
    ),
}  # fmt: skip


class SetLaws(Laws):
    """Laws of whole sets."""

    def test_a_set_is_there_from_its_first_add(self, store: Store) -> None:
        """A set exists from its first add.

        Before, `set_info` returns None. Without a `Define`, the set has the default definition.
        """
        assert store.set_info(NOTES) is None
        assert store.set_infos(ADA) == []
        write(store, add("i"))
        assert (info(store).ref, info(store).definition) == (NOTES, Definition())
        assert store.set_infos(ADA) == [info(store)]

    def test_a_definition_is_kept(self, store: Store) -> None:
        """A set keeps its whole definition. Later adds may repeat or omit it."""
        write(store, Define(NOTES, RICH), add("i"))
        write(store, add("j"))
        write(store, Define(NOTES, RICH), add("k"))
        assert info(store).definition == RICH
        assert info(store).items == 3

    def test_another_definition_is_a_conflict(self, store: Store) -> None:
        """A conflicting definition changes nothing. The error contains both definitions."""
        write(store, Define(NOTES, RICH), add("i"))
        error = refused(store, SetDefinitionConflict, Define(NOTES, TRIM), add("j"))
        assert (error.set_name, error.asked, error.found) == ("notes", TRIM, RICH)
        assert info(store).definition == RICH

    def test_a_definition_is_replaced_on_demand(self, store: Store) -> None:
        """A replaced definition keeps the set. A replacement may also be the first definition."""
        write(store, add("i"))
        number = info(store).number
        write(store, Define(NOTES, RICH, replace=True))
        assert (info(store).number, info(store).definition) == (number, RICH)
        write(store, Define(BOOK, TRIM, replace=True), add("page", to=BOOK))
        assert info(store, BOOK).definition == TRIM

    def test_an_empty_set_takes_the_definition_of_its_next_add(self, store: Store) -> None:
        """An empty set takes the definition of its next add. A set with items never does."""
        late = ItemRecord("late", None, "late", expires=NOW + 1)
        write(store, Define(NOTES, RICH), add("i"), Add(NOTES, late))
        refused(store, SetDefinitionConflict, Define(NOTES, TRIM), Retire(NOTES, "i", 1), add("j"))
        write(store, Retire(NOTES, "i", 1))
        refused(store, SetDefinitionConflict, Define(NOTES, TRIM))
        refused(store, SetDefinitionConflict, Define(NOTES, TRIM), add("page", to=BOOK))
        assert (info(store).definition, store.set_info(BOOK)) == (RICH, None)
        write(store, Define(NOTES, TRIM), *map(add, "abc"), time=NOW + 2)
        assert (info(store).definition, ids(store.page(NOTES))) == (TRIM, ["b", "c"])
        error = refused(store, SetDefinitionConflict, Define(NOTES, RICH), add("d"))
        assert (error.asked, error.found) == (RICH, TRIM)
        retired = [Retire(NOTES, "b", 1), Retire(NOTES, "c", 1)]
        write(store, Define(NOTES, RICH), add("d"), *retired)
        assert (info(store).definition, ids(store.page(NOTES))) == (RICH, ["d"])

    def test_a_definition_is_copied_in_and_out(self, store: Store) -> None:
        """If the caller changes the mapping of signals later, the set does not change."""
        signals = {"speaker": 0.5}
        write(store, Define(NOTES, Definition(signals=signals)), add("i"))
        signals["speaker"] = 1.0
        found = info(store).definition.signals
        assert found == {"speaker": 0.5}
        assert isinstance(found, dict)
        found["date"] = 1.0
        assert info(store).definition.signals == {"speaker": 0.5}

    def test_a_strategy_is_copied_in_and_out(self, store: Store) -> None:
        """Strategies and rules of admission are copied at every depth."""
        strategy: dict[str, Value] = {"name": "merge", "at": [0.5]}
        rules: list[dict[str, Value]] = [{"name": "size", "most": 9}]
        made = Definition(capacity=9, compaction=strategy, admission=rules, retention=5)
        write(store, Define(NOTES, made))
        strategy["at"] = []
        rules[0]["most"] = 1
        expected = Definition(
            capacity=9,
            compaction={"name": "merge", "at": [0.5]},
            admission=[{"name": "size", "most": 9}],
            retention=5,
        )
        assert info(store).definition == expected
        found = info(store).definition.compaction
        assert isinstance(found, dict)
        found["at"] = []
        assert info(store).definition == expected

    def test_sets_are_listed_by_name(self, store: Store) -> None:
        """A listing contains the sets of its scope only."""
        refs = [SetRef(ADA, word) for word in WORDS]
        write(store, *(add("i", to=ref) for ref in refs), add("page", to=BOOK))
        write(store, add("i", to=SetRef(BOB, "his")), scope=BOB)
        assert [found.ref.name for found in store.set_infos(ADA)] == sorted(WORDS)
        assert [found.ref for found in store.set_infos(HANDBOOK)] == [BOOK]

    def test_numbers_of_sets_are_unique(self, store: Store) -> None:
        """The number of a set is unique in the store and never changes."""
        refs = [SetRef(scope, name) for scope in (ADA, BOB, HANDBOOK) for name in ("a", "b")]
        for ref in refs:
            write(store, add("i", to=ref), scope=ref.scope)
        numbers = [info(store, ref).number for ref in refs]
        assert len(set(numbers)) == len(refs)
        write(store, Retire(refs[0], "i", 1), Define(refs[1], RICH, replace=True))
        assert [info(store, ref).number for ref in refs] == numbers

    def test_live_items_are_counted(self, store: Store) -> None:
        """A set counts its live items, and the UTF-8 bytes of their values, texts and metadata."""
        write(
            store,
            Add(NOTES, ItemRecord("i", '"é"', "🦊", '{"a":1}')),
            Add(NOTES, ItemRecord("j", None, "é")),
        )
        assert (info(store).items, info(store).bytes) == (2, 4 + 4 + 7 + 2 + 2)
        write(store, Replace(NOTES, 1, ItemRecord("i", "[]", None)))
        assert (info(store).items, info(store).bytes) == (2, 2 + 2 + 2 + 2)
        write(store, Retire(NOTES, "i", 2), add("k", "x"), Retire(NOTES, "k", 1))
        assert (info(store).items, info(store).bytes) == (1, 2 + 2)

    def test_bytes_count_for_as_many(self, store: Store) -> None:
        """Bytes values count by their length, not their longer wire form.

        Deleted items count zero.
        """
        value = wire.encode({"a": b"\xff" * 600, "b": [b"x" * 400]})
        write(store, Add(NOTES, ItemRecord("i", value, "")))
        assert 1_000 < info(store).bytes < 1_100
        write(store, Replace(NOTES, 1, ItemRecord("i", wire.encode(b"y" * 3_000), "")))
        assert 3_000 < info(store).bytes < 3_100
        write(store, Retire(NOTES, "i", 2))
        assert info(store).bytes == 0

    # --- capacity

    def test_a_full_set_trims_its_oldest(self, store: Store) -> None:
        """A full set retires its oldest items, by time, then by first row, in the same commit."""
        write(store, Define(NOTES, TRIM), add("new", time=NOW), add("old", time=NOW - SECOND))
        number = write(store, add("newest", time=NOW)).number
        assert ids(store.page(NOTES)) == ["new", "newest"]
        assert ids(list(present(store.effects(number)).ended_items)) == ["old"]
        assert [item.end_commit for item in store.versions(NOTES, "old")] == [number]
        write(store, add("a", time=NOW), add("b", time=NOW), add("c", time=NOW))
        assert ids(store.page(NOTES)) == ["b", "c"]
        assert info(store).items == 2

    @pytest.mark.parametrize("case", CAPACITIES)
    def test_a_capacity_is_held_at_the_end_of_a_batch(self, store: Store, case: str) -> None:
        """A capacity applies to the state after a batch, whatever else the batch contains."""
        definition, first, then, kept = CAPACITIES[case]
        write(store, Define(NOTES, definition), *first)
        write(store, *then, limits=Limits(items=2))
        assert ids(store.page(NOTES)) == kept
        assert info(store).items == len(kept)

    def test_a_set_may_refuse_instead(self, store: Store) -> None:
        """A set that rejects accepts items up to its capacity. A further add raises `SetFull`."""
        write(store, Define(NOTES, REJECT), add("a"), add("b"))
        error = refused(store, SetFull, add("c"))
        assert (error.set_name, error.capacity) == ("notes", 2)
        assert ids(store.page(NOTES)) == ["a", "b"]
        write(store, Replace(NOTES, 1, record("a", "edited")))
        write(store, Retire(NOTES, "b", 1))
        write(store, add("c"))

    def test_a_smaller_capacity_holds_from_the_next_add(self, store: Store) -> None:
        """A smaller capacity applies from the next add. The redefinition retires nothing."""
        write(store, *(add(f"{i}") for i in range(5)))
        write(store, Define(NOTES, TRIM, replace=True))
        assert info(store).items == 5
        write(store, add("new"))
        assert ids(store.page(NOTES)) == ["4", "new"]

    def test_a_capacity_holds_in_knowledge_too(self, store: Store) -> None:
        """A capacity of a knowledge set applies to batches of every key."""
        write(store, Define(BOOK, TRIM), *(add(f"{i}", to=BOOK) for i in range(3)))
        assert ids(store.page(BOOK)) == ["1", "2"]

    # --- limits

    def test_a_key_holds_so_many_items(self, store: Store) -> None:
        """A key's limit counts the items in all sets of the key, not in knowledge."""
        limits = Limits(items=2)
        other = SetRef(ADA, "other")
        write(store, *(add(f"{i}", to=SetRef(BOB, "notes")) for i in range(5)), scope=BOB)
        write(store, add("i"), add("j", to=other), add("page", to=BOOK), limits=limits)
        error = refused(store, KeyFull, add("k", to=other), limits=limits)
        assert (error.key, error.what, error.limit) == ("ada", "items", 2)
        write(store, add("page 2", to=BOOK), limits=limits)
        write(store, add("k"))

    def test_a_key_holds_so_many_bytes(self, store: Store) -> None:
        """A key's limit counts the UTF-8 bytes of values, texts and metadata."""
        write(store, Add(NOTES, ItemRecord("i", '"é"', "é")), limits=Limits(bytes=8))
        error = refused(
            store, KeyFull, Add(NOTES, ItemRecord("j", None, "")), limits=Limits(bytes=9)
        )
        assert (error.what, error.limit) == ("bytes", 9)
        write(store, Add(NOTES, ItemRecord("j", None, "")), limits=Limits(bytes=10))

    def test_limits_do_not_keep_anyone_from_deleting(self, store: Store) -> None:
        """Limits apply to adds only, not to deletes or to changes of the tree."""
        write(store, *(add(f"{i}") for i in range(5)))
        write(store, Retire(NOTES, "0", 1), Put(("a",), 1), limits=Limits(items=1, bytes=1))
        assert info(store).items == 4

    # --- keys and spaces

    def test_keys_are_listed_in_code_point_order(self, store: Store) -> None:
        """A listing contains the keys of its space after a given key, up to a limit."""
        for word in (*WORDS, "z", "Z"):
            store.commit(batch(scope=Scope("app", word)))
        store.commit(batch(scope=Scope("app 2", "other")))
        expected = sorted((*WORDS, "z", "Z"))
        assert store.keys("app") == expected
        assert store.keys("app", limit=3) == expected[:3]
        for i, word in enumerate(expected):
            assert store.keys("app", after=word, limit=2) == expected[i + 1 : i + 3]
        assert store.keys("app", after="Z ") == [word for word in expected if word > "Z "]
        for start in ("", *{word[:1] for word in expected}, "Z ", "no such"):
            found = [word for word in expected if word.startswith(start)]
            assert store.keys("app", prefix=start) == found
            assert (
                store.keys("app", prefix=start, after="Z", limit=2)
                == [word for word in found if word > "Z"][:2]
            )
        assert store.keys("nowhere") == []

    def test_a_key_stays_when_it_is_empty(self, store: Store) -> None:
        """An emptied key stays listed: its past still exists."""
        write(store, Put(("a",), 1, NOW + 1), add("i"))
        write(store, Retire(NOTES, "i", 1))
        store.sweep(now=NOW + 1)
        assert store.keys("app") == ["ada"]

    def test_only_a_commit_makes_a_key(self, store: Store) -> None:
        """Reads, leases and refused batches make no key. Knowledge is not a key."""
        store.head(BOB)
        store.acquire_lease(BOB, "one")
        refused(store, KeyFull, add("i", to=SetRef(BOB, "n")), scope=BOB, limits=Limits(items=0))
        store.commit(batch(add("page", to=BOOK), scope=HANDBOOK))
        assert store.keys("app") == store.keys("handbook") == []
        assert store.spaces() == []

    def test_spaces_are_listed_by_name(self, store: Store) -> None:
        """A listing contains the spaces with at least one key."""
        for space in ("b", "a", "🦊", "a"):
            store.commit(batch(scope=Scope(space, "ada")))
        write(store, add("page", to=BOOK))
        assert store.spaces() == ["a", "app", "b", "🦊"]
