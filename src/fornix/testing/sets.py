"""Laws of sets: definitions, counts, capacities, limits; and which keys and spaces there are."""

from __future__ import annotations

import pytest

from fornix.errors import KeyFull, SetDefinitionConflict, SetFull
from fornix.store import (
    Add,
    Define,
    Definition,
    ItemRecord,
    Limits,
    Put,
    Replace,
    Retire,
    Scope,
    SetInfo,
    SetRef,
    Store,
)
from fornix.testing.batches import (
    ADA,
    BOB,
    HANDBOOK,
    NOTES,
    NOW,
    SECOND,
    Laws,
    add,
    batch,
    record,
    write,
)
from fornix.testing.items import ids
from fornix.testing.tree import WORDS
from fornix.values import wire
from fornix.values.storable import Value

BOOK = SetRef(HANDBOOK, "book")
TRIM = Definition(capacity=2)
REJECT = Definition(capacity=2, compaction="reject")
RICH = Definition(
    capacity=7, compaction={"name": "merge"}, item_type="turn", signals={"speaker": 0.5}
)


def info(store: Store, ref: SetRef = NOTES) -> SetInfo:
    """Return a set that is there."""
    found = store.set_info(ref)
    assert found is not None
    return found


class SetLaws(Laws):
    """What holds for sets as a whole."""

    def test_a_set_is_there_from_its_first_add(self, store: Store) -> None:
        """Before, there is None; without a definition it has the default one."""
        assert store.set_info(NOTES) is None
        assert store.set_infos(ADA) == []
        write(store, add("i"))
        assert (info(store).ref, info(store).definition) == (NOTES, Definition())
        assert store.set_infos(ADA) == [info(store)]

    def test_a_definition_is_kept(self, store: Store) -> None:
        """All of it; later adds need not repeat it, and may."""
        write(store, Define(NOTES, RICH), add("i"))
        write(store, add("j"))
        write(store, Define(NOTES, RICH), add("k"))
        assert info(store).definition == RICH
        assert info(store).items == 3

    def test_another_definition_is_a_conflict(self, store: Store) -> None:
        """The set keeps its own; the error shows both."""
        write(store, Define(NOTES, RICH), add("i"))
        with pytest.raises(SetDefinitionConflict) as caught:
            write(store, Define(NOTES, TRIM), add("j"))
        assert (caught.value.set_name, caught.value.asked, caught.value.found) == (
            "notes",
            TRIM,
            RICH,
        )
        assert info(store).definition == RICH

    def test_a_definition_is_replaced_on_demand(self, store: Store) -> None:
        """The set stays the same; a replacement may also be its first definition."""
        write(store, add("i"))
        number = info(store).number
        write(store, Define(NOTES, RICH, replace=True))
        assert (info(store).number, info(store).definition) == (number, RICH)
        write(store, Define(BOOK, TRIM, replace=True), add("page", to=BOOK))
        assert info(store, BOOK).definition == TRIM

    def test_an_empty_set_takes_the_definition_of_its_next_add(self, store: Store) -> None:
        """And only then: by itself a definition changes nothing, and no set that holds items."""
        late = ItemRecord("late", None, "late", expires=NOW + 1)
        write(store, Define(NOTES, RICH), add("i"), Add(NOTES, late))
        with pytest.raises(SetDefinitionConflict):
            write(store, Define(NOTES, TRIM), Retire(NOTES, "i", 1), add("j"))
        write(store, Retire(NOTES, "i", 1))
        with pytest.raises(SetDefinitionConflict):
            write(store, Define(NOTES, TRIM))
        with pytest.raises(SetDefinitionConflict):
            write(store, Define(NOTES, TRIM), add("page", to=BOOK))
        assert (info(store).definition, store.set_info(BOOK)) == (RICH, None)
        write(store, Define(NOTES, TRIM), *map(add, "abc"), time=NOW + 2)
        assert (info(store).definition, ids(store.page(NOTES))) == (TRIM, ["b", "c"])
        with pytest.raises(SetDefinitionConflict) as caught:
            write(store, Define(NOTES, RICH), add("d"))
        assert (caught.value.asked, caught.value.found) == (RICH, TRIM)
        retired = [Retire(NOTES, "b", 1), Retire(NOTES, "c", 1)]
        write(store, Define(NOTES, RICH), add("d"), *retired)
        assert (info(store).definition, ids(store.page(NOTES))) == (RICH, ["d"])

    def test_a_definition_is_copied_in_and_out(self, store: Store) -> None:
        """Its signals are a mapping that somebody may go on using."""
        signals = {"speaker": 0.5}
        write(store, Define(NOTES, Definition(signals=signals)), add("i"))
        signals["speaker"] = 1.0
        found = info(store).definition.signals
        assert found == {"speaker": 0.5}
        assert isinstance(found, dict)
        found["date"] = 1.0
        assert info(store).definition.signals == {"speaker": 0.5}

    def test_a_strategy_is_copied_in_and_out(self, store: Store) -> None:
        """To any depth; and so are rules of admission."""
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
        """Those of the scope alone."""
        refs = [SetRef(ADA, word) for word in WORDS]
        write(store, *(add("i", to=ref) for ref in refs), add("page", to=BOOK))
        write(store, add("i", to=SetRef(BOB, "his")), scope=BOB)
        assert [found.ref.name for found in store.set_infos(ADA)] == sorted(WORDS)
        assert [found.ref for found in store.set_infos(HANDBOOK)] == [BOOK]

    def test_numbers_of_sets_are_their_own(self, store: Store) -> None:
        """Unique in the store, and they do not change."""
        refs = [SetRef(scope, name) for scope in (ADA, BOB, HANDBOOK) for name in ("a", "b")]
        for ref in refs:
            write(store, add("i", to=ref), scope=ref.scope)
        numbers = [info(store, ref).number for ref in refs]
        assert len(set(numbers)) == len(refs)
        write(store, Retire(refs[0], "i", 1), Define(refs[1], RICH, replace=True))
        assert [info(store, ref).number for ref in refs] == numbers

    def test_live_items_are_counted(self, store: Store) -> None:
        """And the UTF-8 bytes of their values, texts and metadata."""
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
        """Not for the third more that their wire form takes; and for none once they are gone."""
        value = wire.encode({"a": b"\xff" * 600, "b": [b"x" * 400]})
        write(store, Add(NOTES, ItemRecord("i", value, "")))
        assert 1_000 < info(store).bytes < 1_100
        write(store, Replace(NOTES, 1, ItemRecord("i", wire.encode(b"y" * 3_000), "")))
        assert 3_000 < info(store).bytes < 3_100
        write(store, Retire(NOTES, "i", 2))
        assert info(store).bytes == 0

    # --- capacity

    def test_a_full_set_trims_its_oldest(self, store: Store) -> None:
        """By time, then by who was first; retired in the same commit, not lost."""
        write(store, Define(NOTES, TRIM), add("new", time=NOW), add("old", time=NOW - SECOND))
        number = write(store, add("newest", time=NOW)).number
        assert ids(store.page(NOTES)) == ["new", "newest"]
        found = store.effects(number)
        assert found is not None
        assert ids(list(found.ended)) == ["old"]
        assert [item.ended for item in store.versions(NOTES, "old")] == [number]
        write(store, add("a", time=NOW), add("b", time=NOW), add("c", time=NOW))
        assert ids(store.page(NOTES)) == ["b", "c"]
        assert info(store).items == 2

    def test_trimming_may_take_what_was_just_added(self, store: Store) -> None:
        """If it is the oldest: what happened long ago does not push out what is recent."""
        write(store, Define(NOTES, TRIM), add("a"), add("b"))
        write(store, add("ancient", time=NOW - SECOND))
        assert ids(store.page(NOTES)) == ["a", "b"]

    def test_capacity_is_held_at_the_end_of_a_batch(self, store: Store) -> None:
        """What the batch itself retires makes room."""
        write(store, Define(NOTES, REJECT), add("a"), add("b"))
        write(store, add("c"), Retire(NOTES, "a", 1))
        assert ids(store.page(NOTES)) == ["b", "c"]

    def test_capacity_is_held_whatever_comes_before_the_add(self, store: Store) -> None:
        """A change of another kind of the same set does not hide it."""
        write(store, Define(NOTES, TRIM), add("a"), add("b"))
        write(store, Replace(NOTES, 1, record("b", "new")), add("c"))
        assert ids(store.page(NOTES)) == ["b", "c"]
        assert info(store).items == 2

    def test_a_set_may_refuse_instead(self, store: Store) -> None:
        """Up to its capacity it takes; beyond it says so and changes nothing."""
        write(store, Define(NOTES, REJECT), add("a"), add("b"))
        with pytest.raises(SetFull) as caught:
            write(store, add("c"))
        assert (caught.value.set_name, caught.value.capacity) == ("notes", 2)
        assert ids(store.page(NOTES)) == ["a", "b"]
        write(store, Replace(NOTES, 1, record("a", "edited")))
        write(store, Retire(NOTES, "b", 1))
        write(store, add("c"))

    def test_other_compactions_are_not_the_stores_business(self, store: Store) -> None:
        """A set that is compacted by others may exceed its capacity until they come."""
        write(
            store,
            Define(NOTES, Definition(capacity=1, compaction={"name": "summarise"})),
            add("a"),
            add("b"),
        )
        assert info(store).items == 2

    def test_a_smaller_capacity_holds_from_the_next_add(self, store: Store) -> None:
        """A redefinition alone retires nothing."""
        write(store, *(add(f"{i}") for i in range(5)))
        write(store, Define(NOTES, TRIM, replace=True))
        assert info(store).items == 5
        write(store, add("new"))
        assert ids(store.page(NOTES)) == ["4", "new"]

    def test_a_capacity_holds_in_knowledge_too(self, store: Store) -> None:
        """If somebody defined one, and from the batch of any key."""
        write(store, Define(BOOK, TRIM), *(add(f"{i}", to=BOOK) for i in range(3)))
        assert ids(store.page(BOOK)) == ["1", "2"]

    # --- limits

    def test_a_key_holds_so_many_items(self, store: Store) -> None:
        """In all its sets together; others' and knowledge do not count."""
        limits = Limits(items=2)
        other = SetRef(ADA, "other")
        write(store, *(add(f"{i}", to=SetRef(BOB, "notes")) for i in range(5)), scope=BOB)
        write(store, add("i"), add("j", to=other), add("page", to=BOOK), limits=limits)
        with pytest.raises(KeyFull) as caught:
            write(store, add("k", to=other), limits=limits)
        assert (caught.value.key, caught.value.what, caught.value.limit) == ("ada", "items", 2)
        write(store, add("page 2", to=BOOK), limits=limits)
        write(store, add("k"))

    def test_a_key_holds_so_many_bytes(self, store: Store) -> None:
        """Of values, texts and metadata, in UTF-8."""
        write(store, Add(NOTES, ItemRecord("i", '"é"', "é")), limits=Limits(bytes=8))
        with pytest.raises(KeyFull) as caught:
            write(store, Add(NOTES, ItemRecord("j", None, "")), limits=Limits(bytes=9))
        assert (caught.value.what, caught.value.limit) == ("bytes", 9)
        write(store, Add(NOTES, ItemRecord("j", None, "")), limits=Limits(bytes=10))

    def test_limits_do_not_keep_anyone_from_deleting(self, store: Store) -> None:
        """Nor from writing the tree: they hold for what adds."""
        write(store, *(add(f"{i}") for i in range(5)))
        write(store, Retire(NOTES, "0", 1), Put(("a",), 1), limits=Limits(items=1, bytes=1))
        assert info(store).items == 4

    def test_trimming_comes_before_limits(self, store: Store) -> None:
        """What a set gives up does not count."""
        write(store, Define(NOTES, TRIM), *(add(f"{i}") for i in range(5)), limits=Limits(items=2))
        assert info(store).items == 2

    # --- keys and spaces

    def test_keys_are_listed_in_code_point_order(self, store: Store) -> None:
        """Those of the space alone, past any of them, so many at a time."""
        for word in (*WORDS, "z", "Z"):
            store.commit(batch(scope=Scope("app", word)))
        store.commit(batch(scope=Scope("app 2", "other")))
        expected = sorted((*WORDS, "z", "Z"))
        assert store.keys("app") == expected
        assert store.keys("app", limit=3) == expected[:3]
        for i, word in enumerate(expected):
            assert store.keys("app", after=word, limit=2) == expected[i + 1 : i + 3]
        assert store.keys("app", after="Z ") == [word for word in expected if word > "Z "]
        assert store.keys("nowhere") == []

    def test_a_key_stays_when_it_is_empty(self, store: Store) -> None:
        """Its past is still there."""
        write(store, Put(("a",), 1, NOW + 1), add("i"))
        write(store, Retire(NOTES, "i", 1))
        store.sweep(now=NOW + 1)
        assert store.keys("app") == ["ada"]

    def test_only_a_commit_makes_a_key(self, store: Store) -> None:
        """Reading, leasing, or failing does not; knowledge is no key."""
        store.head(BOB)
        store.lease(BOB, "one")
        with pytest.raises(KeyFull):
            write(store, add("i", to=SetRef(BOB, "n")), scope=BOB, limits=Limits(items=0))
        store.commit(batch(add("page", to=BOOK), scope=HANDBOOK))
        assert store.keys("app") == store.keys("handbook") == []
        assert store.spaces() == []

    def test_spaces_are_listed_by_name(self, store: Store) -> None:
        """Those that have a key."""
        for space in ("b", "a", "🦊", "a"):
            store.commit(batch(scope=Scope(space, "ada")))
        write(store, add("page", to=BOOK))
        assert store.spaces() == ["a", "app", "b", "🦊"]
