"""Memory sets: what the calls of a set promise, on RAM and on a file."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest

from alveus import Item, KeyBatch, KeyMemory, KnowledgeMemory, Limits, Memory, MemorySet, Signals
from alveus.compat.flink_agents import LongTermMemory
from alveus.errors import (
    DuplicateItem,
    IdempotencyConflict,
    InvalidFilter,
    InvalidInput,
    InvalidName,
    InvalidTime,
    InvalidValue,
    KeyFull,
    NotFound,
    SetDefinitionConflict,
    SetFull,
    StaleItem,
    TooLarge,
)
from alveus.store import Definition
from doors import START, Clock, texts

WEST = timezone(-timedelta(hours=23))


def test_an_item_comes_back_whole(ada: KeyMemory) -> None:
    """Everything that was given of an item is in what get returns, and what alveus adds."""
    time = datetime(2025, 3, 1, 12, tzinfo=UTC)
    item_id = ada.add(
        {"text": "Window seat", "n": [1, b"\0", 2**80]},
        time=time,
        metadata={"topic": "travel", "deep": {"x": [None, True]}},
        importance=0.5,
        speaker="Ada",
        role="user",
        session="s1",
    )
    item = ada.get(item_id)
    assert isinstance(item, Item)
    assert item.value == {"text": "Window seat", "n": [1, b"\0", 2**80]}
    assert (item.text, item.time, item.importance) == ("Window seat", time, 0.5)
    assert (item.speaker, item.role, item.session) == ("Ada", "user", "s1")
    assert item.metadata == {"topic": "travel", "deep": {"x": [None, True]}}
    assert item.created == item.updated
    assert item.created is not None
    assert item.created > START
    assert (item.version, item.set_name, item.compacted, item.sources) == (1, "default", False, ())


def test_values_are_copied_in_and_out(ada: KeyMemory) -> None:
    """Changing what was passed, or what was returned, changes nothing that is stored."""
    value, metadata = {"text": "x", "list": [1]}, {"tags": ["a"]}
    item_id = ada.add(value, metadata=metadata)
    value["list"].append(2)
    metadata["tags"].append("b")
    found = ada.get(item_id)
    assert isinstance(found, Item)
    found.value["list"].append(3)
    found.metadata["tags"].append("c")
    again = ada.get(item_id)
    assert isinstance(again, Item)
    assert again.value == {"text": "x", "list": [1]}
    assert again.metadata == {"tags": ["a"]}


def test_times_default_to_the_commit_and_order_everything(ada: KeyMemory) -> None:
    """list and recent go by when it happened; among equals by the order of adding."""
    ada.add("now")
    ada.add("earlier", time=START - timedelta(days=9))
    same = START - timedelta(days=3)
    ada.add_many([Item("b1", time=same), Item("b2", time=same)])
    assert texts(ada.list()) == ["earlier", "b1", "b2", "now"]
    assert texts(ada.list(newest_first=True)) == ["now", "b2", "b1", "earlier"]
    assert texts(ada.recent(2)) == ["b2", "now"]
    assert ada.recent(0) == []


def test_listing_is_complete_and_pages(ada: KeyMemory) -> None:
    """Nothing is cut without being asked; pages join without gap or repetition."""
    ada.add_many([f"n{i:04}" for i in range(700)])
    assert len(ada.list()) == 700
    pages, after = [], None
    while page := ada.list(limit=64, after=after):
        pages += page
        after = page[-1].id
    assert texts(pages) == [f"n{i:04}" for i in range(700)]
    assert ada.list(limit=0) == []
    with pytest.raises(NotFound, match="nobody"):
        ada.list(after="nobody")


def test_a_page_follows_an_item_that_has_gone(ada: KeyMemory) -> None:
    """What was deleted since the page before has its place; what was forgotten has none."""
    ids = ada.add_many([f"n{i}" for i in range(6)])
    ada.update(ids[2], "changed")
    ada.delete(ids[2])
    assert texts(ada.list(after=ids[2])) == ["n3", "n4", "n5"]
    assert texts(ada.list(after=ids[2], newest_first=True)) == ["n1", "n0"]
    ada.forget(ids[2:3])
    with pytest.raises(NotFound, match="to list after"):
        ada.list(after=ids[2])


def test_get_answers_in_the_order_asked(ada: KeyMemory) -> None:
    """A list of ids gives a list as long, with None where nothing is."""
    one, two = ada.add_many(["one", "two"])
    found = ada.get([two, "none", one, two])
    assert [item and item.text for item in found] == ["two", None, "one", "two"]
    assert ada.get("none") is None


def test_an_id_is_taken_once(ada: KeyMemory) -> None:
    """on_existing says what happens with a taken id: an error, keep, or update."""
    ada.add("first", id="x")
    with pytest.raises(DuplicateItem, match="on_existing"):
        ada.add("second", id="x")
    assert ada.add("second", id="x", on_existing="keep") == "x"
    assert texts(ada.list()) == ["first"]
    ada.add_many([Item("second", id="x"), Item("other", id="y")], on_existing="update")
    assert texts(ada.list()) == ["second", "other"]
    assert texts(ada.history("x")) == ["first", "second"]
    with pytest.raises(InvalidInput, match="same id"):
        ada.add_many([Item("a", id="z"), Item("b", id="z")], on_existing="keep")
    with pytest.raises(InvalidInput, match="on_existing"):
        ada.add("b", on_existing="merge")  # pyright: ignore[reportArgumentType] - wrong on purpose


def test_many_are_added_whole_or_not_at_all(ada: KeyMemory) -> None:
    """One bad item, and none is added."""
    ada.add("taken", id="x")
    with pytest.raises(DuplicateItem):
        ada.add_many(["a", Item("b", id="x")])
    with pytest.raises(InvalidValue, match="value"):
        ada.add_many(["a", {1, 2}])
    with pytest.raises(InvalidInput, match="list"):
        ada.add_many("text")
    assert texts(ada.list()) == ["taken"]


def test_one_request_is_carried_out_once(ada: KeyMemory) -> None:
    """The same key with the same request returns the first answer; with another it is refused."""
    first = ada.add("ordered", metadata={"b": 1, "a": 2}, idempotency_key="order-991")
    assert ada.add("ordered", metadata={"a": 2, "b": 1}, idempotency_key="order-991") == first
    with pytest.raises(IdempotencyConflict, match="order-991"):
        ada.add("ordered!", idempotency_key="order-991")
    ids = ada.add_many(["a", "b"], idempotency_key="two")
    assert ada.add_many(["a", "b"], idempotency_key="two") == ids
    assert ada.delete(ids, idempotency_key="del") == 2
    assert ada.delete(ids, idempotency_key="del") == 2
    ada.update(first, "changed", idempotency_key="u")
    ada.delete(first)
    assert len(ada.list()) == 0


def test_a_repeated_update_needs_no_item_any_more(ada: KeyMemory) -> None:
    """A repetition is recognised before anything is looked up."""
    item_id = ada.add("x")
    notes = ada.set("default")
    notes.update(item_id, "y", idempotency_key="u")
    assert notes.update(item_id, "y", idempotency_key="u").version == 2


def test_an_update_makes_a_version(ada: KeyMemory) -> None:
    """What is not passed stays; created stays; the version rises; history has all of it."""
    item_id = ada.add("one", metadata={"a": 1}, speaker="Ada")
    new = ada.update(item_id, "two", importance=0.9)
    assert (new.text, new.metadata, new.speaker, new.importance) == ("two", {"a": 1}, "Ada", 0.9)
    assert new.version == 2
    assert new.created is not None
    assert new.updated is not None
    assert new.created < new.updated
    ada.update(item_id, speaker=None, metadata={})
    versions = ada.history(item_id)
    assert [(v.version, v.text, v.speaker) for v in versions] == [
        (1, "one", "Ada"),
        (2, "two", "Ada"),
        (3, "two", None),
    ]
    assert [v.retired is None for v in versions] == [False, False, True]
    assert versions[0].retired == versions[1].updated


def test_an_update_based_on_an_old_version_is_refused(ada: KeyMemory) -> None:
    """if_version is compared inside the commit."""
    item_id = ada.add("one")
    ada.update(item_id, "two", if_version=1)
    with pytest.raises(StaleItem, match="version 2"):
        ada.update(item_id, "three", if_version=1)
    with pytest.raises(NotFound, match="nobody"):
        ada.update("nobody", "x")


def test_a_retention_ends_within_a_thousand_years(ada: KeyMemory) -> None:
    """As a time to live does: no store counts further."""
    with pytest.raises(InvalidInput, match="at most 1,000 years"):
        ada.set("notes", retention=timedelta.max)
    ada.set("notes", retention=timedelta(days=365_250)).add("kept")


def test_a_filter_takes_collections_of_any_kind_in_every_call(ada: KeyMemory) -> None:
    """Tuples, sets and mappings, as `list` and `search` take them."""
    ada.add_many([Item(f"n {n}", id=f"{n}", metadata={"n": n}) for n in range(5)])
    chosen = [{"n": {"in": {0}}}, MappingProxyType({"n": 1}), {"any": ({"n": 2}, {"n": 2})}]
    assert [item.id for item in ada.list(where={"any": chosen})] == ["0", "1", "2"]
    assert [ada.delete(where=chosen[0], idempotency_key="once") for _ in range(2)] == [1, 1]
    with ada.batch() as batch:
        assert batch.delete(where=chosen[1]) == 1
    ada.forget(where=chosen[2], idempotency_key="gone")
    ada.forget(where={"n": {"in": frozenset([3])}}, idempotency_key="gone too")
    assert [item.id for item in ada.list()] == ["4"]


def test_a_filter_by_a_datetime_deletes_and_forgets(ada: KeyMemory) -> None:
    """In a batch, and under idempotency keys as well, which remember what was asked."""
    ada.add_many(
        [
            Item(f"year {y}", id=f"{y}", time=datetime(y, 1, 1, tzinfo=UTC))
            for y in range(2020, 2024)
        ]
    )
    until = [{"$time": {"lt": datetime(y, 6, 1, tzinfo=UTC)}} for y in range(2020, 2024)]
    assert [item.id for item in ada.list(where={"all": [until[0]]})] == ["2020"]
    assert [hit.item.id for hit in ada.search("year", where=until[0])] == ["2020"]
    assert [ada.delete(where=until[0], idempotency_key="once") for _ in range(2)] == [1, 1]
    with ada.batch() as batch:
        assert batch.delete(where=until[1]) == 1
    receipts = [ada.forget(where=until[2], idempotency_key="gone") for _ in range(2)]
    assert receipts[0].id == receipts[1].id
    assert [item.id for item in ada.list()] == ["2023"]


def test_delete_retires(ada: KeyMemory) -> None:
    """Deleted items are gone from the present, not from the past."""
    ids = ada.add_many([Item(f"n{i}", metadata={"odd": bool(i % 2)}) for i in range(6)])
    before = ada.list()
    assert ada.delete([ids[0], "none", ids[0]]) == 1
    assert ada.delete(where={"odd": True}) == 3
    assert texts(ada.list()) == ["n2", "n4"]
    assert ada.history(ids[0])[-1].retired is not None
    assert ada.history("none") == []
    notes = ada.set("default")
    assert notes.clear() == 2
    assert len(notes) == 0
    again = ada.add("back", id=ids[0])
    assert [v.version for v in ada.history(again)] == [1, 2]
    assert len(before) == 6
    with pytest.raises(InvalidInput, match="clear"):
        ada.delete()


def test_the_past_can_be_read(ada: KeyMemory, memory: Memory, clock: Clock) -> None:
    """as_of takes a commit or a time; get, list, recent and search all answer as they did."""
    item_id = ada.add("green tea")
    commit = memory.store.stats().commits
    moment = clock.now
    clock.move(hours=1)
    ada.update(item_id, "black coffee")
    ada.add("more")
    for then in (commit, moment):
        found = ada.set("default").get(item_id, as_of=then)
        assert found is not None
        assert found.text == "green tea"
        assert texts(ada.list(as_of=then)) == ["green tea"]
        assert texts(ada.recent(5, as_of=then)) == ["green tea"]
        assert [h.item.text for h in ada.search("tea", as_of=then)] == ["green tea"]
    assert ada.list(as_of=0) == []
    with pytest.raises(InvalidTime):
        ada.list(as_of=datetime(2026, 1, 1))  # noqa: DTZ001 - a time without a zone, on purpose


def test_capacity_trims_the_oldest(ada: KeyMemory) -> None:
    """A set holds at most its capacity: what happened first goes, and stays in history."""
    notes = ada.set("notes", capacity=3)
    ids = notes.add_many([f"n{i}" for i in range(5)])
    assert texts(notes.list()) == ["n2", "n3", "n4"]
    notes.add("old", time=START - timedelta(days=1))
    assert texts(notes.list()) == ["n2", "n3", "n4"]
    assert len(notes) == 3
    assert notes.history(ids[0])[-1].retired is not None


def test_a_full_set_can_refuse(ada: KeyMemory) -> None:
    """compaction="reject": the add that would exceed the capacity changes nothing."""
    notes = ada.set("notes", capacity=2, compaction="reject")
    notes.add_many(["a", "b"])
    with pytest.raises(SetFull, match="2 items"):
        notes.add("c")
    assert len(notes) == 2
    notes.update(notes.list()[0].id or "", "changed")


def test_a_definition_is_kept_until_it_is_changed(ada: KeyMemory) -> None:
    """Opening writes nothing; another definition is a conflict; redefine changes it."""
    ada.set("notes", capacity=5)
    assert ada.sets() == []
    ada.set("notes", capacity=5).add("x")
    assert ada.sets() == ["notes"]
    assert ada.set("notes").definition.capacity == 5
    with pytest.raises(SetDefinitionConflict, match="redefine"):
        ada.set("notes", capacity=6)
    notes = ada.set("notes", capacity=5)
    assert notes.redefine(capacity=1, compaction="reject").capacity == 1
    with pytest.raises(SetFull):
        notes.add("y")
    assert notes.redefine(capacity=None).capacity is None
    notes.add("y")
    notes.redefine(signals=Signals(meaning=0.0))
    assert notes.search("zzz") == ()
    for wrong in (
        {"capacity": -1},
        {"capacity": 0},
        {"capacity_tokens": 0},
        {"capacity_bytes": 0.0},
        {"capacity": True},
        {"compaction": "melt"},
    ):
        with pytest.raises(InvalidInput):
            ada.set("other", **wrong)  # pyright: ignore[reportArgumentType] - wrong on purpose


def test_limits_hold_for_all_sets_of_a_key(tmp_path: Path) -> None:
    """A key at its limit refuses more, whichever set it goes to; other keys go on."""
    with Memory.open(embedder="words", limits=Limits(items=2)) as memory:
        memory.key("ada").add("a")
        memory.key("ada").set("notes").add("b")
        with pytest.raises(KeyFull, match="2 items"):
            memory.key("ada").set("more").add("c")
        memory.key("bob").add("a")
        memory.knowledge.set("book").add("free")
    with Memory.open(tmp_path / "b.db", embedder="words", limits=Limits(bytes=100)) as memory:
        memory.key("ada").add("x" * 50)
        with pytest.raises(KeyFull, match="bytes"):
            memory.key("ada").add("x" * 60)


def test_nothing_crosses_keys_sets_or_spaces(tmp_path: Path) -> None:
    """Every look-up by id checks where it looks."""
    path = tmp_path / "app.db"
    with (
        Memory.open(path, space="a", embedder="words") as a,
        Memory.open(path, space="b", embedder="words") as b,
    ):
        item_id = a.key("ada").set("notes").add("secret plan")
        for elsewhere in (
            a.key("bob").set("notes"),
            a.key("ada").set("other"),
            b.key("ada").set("notes"),
            a.knowledge.set("notes"),
        ):
            assert elsewhere.get(item_id) is None
            assert elsewhere.history(item_id) == []
            assert elsewhere.delete(item_id) == 0
            assert elsewhere.search("secret plan") == ()
            assert item_id not in elsewhere
            with pytest.raises(NotFound):
                elsewhere.update(item_id, "mine")
        assert a.key("ada").set("notes").get(item_id) is not None
        assert b.key("ada").search("secret") == ()
        assert a.key("ada").search("secret", sets=["other"]) == ()
        assert len(a.key("ada").search("secret")) == 1


def test_knowledge_is_shared_by_name(tmp_path: Path) -> None:
    """Spaces that name the same knowledge share it at once; others see nothing of it."""
    path = tmp_path / "app.db"
    with (
        Memory.open(path, space="a", knowledge="book", embedder="words") as a,
        Memory.open(path, space="b", knowledge="book", embedder="words") as b,
        Memory.open(path, space="c", embedder="words") as c,
        Memory.open(path, space="book", embedder="words") as same_name,
    ):
        a.knowledge.set("rules").add("No sugar after nine", id="r")
        found = b.knowledge.set("rules").get("r")
        assert found is not None
        b.knowledge.set("rules").update("r", "No sugar after eight")
        assert a.knowledge.search("sugar")[0].item.text == "No sugar after eight"
        assert c.knowledge.sets() == []
        assert c.knowledge.set("rules").get("r") is None
        assert same_name.knowledge.set("rules").get("r") is not None
        assert a.key("ada").knowledge == a.knowledge or a.key("ada").knowledge.sets() == ["rules"]


def test_filters_choose(ada: KeyMemory) -> None:
    """where= in list, delete and search chooses by the same rules."""
    ada.add("a tent", metadata={"topic": "camping", "year": 2024})
    ada.add("a tent too", metadata={"topic": "camping", "year": 2020}, speaker="Bob")
    ada.add("a tram", metadata={"topic": "city"})
    where = {"topic": "camping", "year": {"gte": 2021}}
    assert texts(ada.list(where=where)) == ["a tent"]
    assert [h.item.text for h in ada.search("tent", where=where)] == ["a tent"]
    assert texts(ada.list(where={"$speaker": "Bob"})) == ["a tent too"]
    free = {h.item.id: h.score for h in ada.search("tent")}
    for hit in ada.search("tent", where={"topic": "camping"}):
        assert free[hit.item.id] == hit.score
    with pytest.raises(InvalidFilter, match="gtt"):
        ada.list(where={"year": {"gtt": 1}})


def test_filters_choose_by_the_value_of_an_item(ada: KeyMemory) -> None:
    """In list, search, delete and forget; now, in a batch, and as of then."""
    green = {"name": "tent", "tags": ["camping", "green"], "size": {"persons": 2}}
    ada.add(Item(value=green, text="a green tent", id="green"))
    ada.add(Item(value={"name": "tent", "price": 90}, text="a cheap tent", id="cheap"))
    ada.add("a tent of words", id="words")
    (then,) = [item.updated for item in ada.list(where={"$id": "words"})]

    def found(sets: KeyMemory | KeyBatch, where: dict[str, Any], **options: Any) -> set[str | None]:
        listed = {item.id for item in sets.list(where=where, **options)}
        assert {hit.item.id for hit in sets.search("tent", where=where, **options)} == listed
        return listed

    questions = [
        ({"$value.name": "tent"}, {"green", "cheap"}),
        ({"$value.size.persons": {"gte": 2}}, {"green"}),
        ({"$value.tags": {"contains": "camping"}}, {"green"}),
        ({"$value.tags": {"eq": ["camping", "green"]}}, {"green"}),
        ({"$value.size": {"eq": {"persons": 2.0}}}, {"green"}),
        ({"$value": {"contains": "words"}}, {"words"}),
        ({"any": [{"$value.price": {"lt": 100}}, {"$value.price": {"exists": False}}]},
         {"green", "cheap", "words"}),
    ]  # fmt: skip
    for where, ids in questions:
        assert found(ada, where) == ids
    with ada.batch() as batch:
        batch.update("cheap", {"name": "tent", "price": 120}, text="a dear tent")
        batch.add(Item(value={"name": "tent", "price": 80}, text="another tent", id="new"))
        assert found(batch, {"$value.price": {"gte": 0}}) == {"cheap", "new"}
        assert found(batch, {"$value.price": {"lt": 100}}) == {"new"}
    assert found(ada, {"$value.price": {"lt": 100}}) == {"new"}
    assert found(ada, {"$value.price": {"lt": 100}}, as_of=then) == {"cheap"}
    assert ada.delete(where={"$value.price": 120}) == 1
    ada.forget(where={"$value.tags": {"contains": "green"}})
    assert found(ada, {}) == {"words", "new"}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda k: k.add(None), InvalidValue),
        (lambda k: k.add(3), InvalidValue),
        (lambda k: k.add(float("nan"), text="x"), InvalidValue),
        (lambda k: k.add("x\ud800"), InvalidValue),
        (lambda k: k.add("x", id=""), InvalidName),
        (lambda k: k.add("x", id=7), InvalidName),
        (lambda k: k.add("x", speaker=""), InvalidName),
        (lambda k: k.add("x", metadata={1: 2}), InvalidValue),
        (lambda k: k.add("x", metadata=[]), InvalidValue),
        (lambda k: k.add("x", metadata=0), InvalidValue),
        (lambda k: k.add("x", speaker="Ada", metadata=()), InvalidValue),
        (lambda k: k.add("x", metadata={"a": float("nan")}), InvalidValue),
        (lambda k: k.add("x", importance=2), InvalidInput),
        (lambda k: k.add("x", importance=True), InvalidInput),
        (lambda k: k.add("x", time=datetime(2026, 1, 1)), InvalidTime),  # noqa: DTZ001 - on purpose
        (lambda k: k.add("x", idempotency_key=""), InvalidName),
        (lambda k: k.add("x", id="y" * 5000), TooLarge),
        (lambda k: k.set(""), InvalidName),
        (lambda k: k.recent(-1), InvalidInput),
        (lambda k: k.recent("2"), InvalidInput),
        (lambda k: k.list(limit=-1), InvalidInput),
        (lambda k: k.search("x", limit=0), InvalidInput),
        (lambda k: k.search("x", limit=1001), InvalidInput),
        (lambda k: k.search(7), InvalidInput),
        (lambda k: k.list(as_of=-1), InvalidInput),
        (lambda k: k.list(after=[]), InvalidName),
        (lambda k: k.get(None), InvalidInput),
        (lambda k: k.delete(5), InvalidInput),
        (lambda k: k.add_many(None), InvalidInput),
        (lambda k: k.add_many(Item("x")), InvalidInput),
        (lambda k: k.search("x", sets=5), InvalidInput),
        (lambda k: k.search("x", signals={}), InvalidInput),
        (lambda k: k.add("x", time=datetime.max.replace(tzinfo=WEST)), InvalidTime),
    ],
)
def test_bad_input_is_named_and_changes_nothing(ada: KeyMemory, call, error) -> None:
    """One error of the tree that says what is wrong; nothing is added."""
    with pytest.raises(error) as raised:
        call(ada)
    assert len(str(raised.value)) > 15
    assert ada.list() == []


def test_any_text_can_be_kept_and_searched(ada: KeyMemory) -> None:
    """NUL, emoji, right-to-left, a megabyte: stored as they are, and search answers."""
    odd = ["a\0b", "👩‍👩‍👧 family", "שלום עולם", "x" * 1_000_000, "", " \n\t"]
    ids = ada.add_many([Item(text, text=text) for text in odd])
    assert [item and item.text for item in ada.get(ids)] == odd
    for query in [*odd, "\0", "שלום"]:
        ada.search(query)


def test_a_search_touches_what_it_returns(ada: KeyMemory) -> None:
    """accessed is later than created once a search or a get returned the item."""
    item_id = ada.add("green tea")
    assert ada.list()[0].accessed is None
    ada.search("tea")
    item = ada.list()[0]
    assert item.accessed is not None
    assert item.created is not None
    assert item.accessed > item.created
    ada.get(item_id)
    later = ada.list()[0].accessed
    assert later is not None
    assert later > item.accessed


def test_sets_are_told_apart_and_compared(memory: Memory) -> None:
    """Handles of one set are equal; reprs name the set and whose it is."""
    notes = memory.key("ada").set("notes")
    assert notes == memory.key("ada").set("notes")
    assert notes != memory.key("bob").set("notes")
    assert len({notes, memory.key("ada").set("notes")}) == 1
    assert repr(notes) == "<MemorySet 'notes' of key 'ada'>"
    assert repr(memory.knowledge.set("b")) == "<KnowledgeSet 'b' of knowledge 'default'>"
    notes.add("x", id="x")
    assert "x" in notes
    assert 7 not in notes
    assert [item.text for item in notes] == ["x"]
    assert memory.key("ada").get_memory_set("notes") == notes
    assert memory.key("ada").long_term_memory.get_memory_set("notes") == notes


# --- what an empty set is -------------------------------------------------------------------------


def test_an_empty_set_takes_the_definition_it_is_opened_with(memory: Memory) -> None:
    """What is named is as named, the rest stays; and that is what `definition` says at once."""
    ada = memory.key("ada")
    notes = ada.set("n", capacity=5, item_type="str")
    assert notes.definition.capacity == 5
    notes.add("a")
    notes.clear()
    assert ada.set("n").definition == notes.definition == Definition(capacity=5, item_type="str")
    again = ada.set("n", item_type="turn")
    assert again.definition == Definition(capacity=5, item_type="turn")
    assert notes.definition == Definition(capacity=5, item_type="str")
    again.add("b")
    assert notes.definition == again.definition == Definition(capacity=5, item_type="turn")
    with pytest.raises(SetDefinitionConflict):
        ada.set("n", item_type="str")
    again.clear()
    with ada.batch() as batch:
        made = batch.set("n", item_type="str", capacity=7)
        assert made.definition == Definition(capacity=7, item_type="str")
        made.add("c")
        assert batch.set("n").definition == made.definition
    assert notes.definition == Definition(capacity=7, item_type="str")


def test_a_set_that_was_added_to_since_keeps_its_definition(memory: Memory) -> None:
    """A definition that waits for the first add changes no set that holds items by then."""
    ada = memory.key("ada")
    ada.set("n", item_type="str").add("a", id="a")
    ada.set("n").clear()
    waits, batch = ada.set("n", item_type="turn"), ada.batch()
    with pytest.raises(SetDefinitionConflict), batch:  # noqa: PT012 - its end raises
        batch.set("n", item_type="turn").add("late")
        ada.set("n").add("b")
    with pytest.raises(SetDefinitionConflict):
        waits.add("late")
    assert waits.definition.item_type == "str"
    ada.set("n").clear()
    waits.add("c")
    assert waits.definition.item_type == "turn"
    with ada.batch() as batch:  # which empties it itself
        batch.set("n").clear()
        batch.set("n", item_type="str").add("d")
    assert (texts(waits.list()), waits.definition.item_type) == (["d"], "str")


def test_no_capacity_is_nothing(memory: Memory) -> None:
    """A capacity of 0 is refused wherever one is named, with what to do instead."""
    ada, knowledge = memory.key("ada"), memory.knowledge
    notes = ada.set("n", capacity=2)
    notes.add_many(["a", "b"])
    asked: list[Callable[[], object]] = [
        lambda: ada.set("n", capacity=0),
        lambda: ada.set("other", capacity_tokens=0),
        lambda: ada.set("other", capacity_bytes=0),
        lambda: LongTermMemory(ada).get_or_create_memory_set("n", str, 0),
        lambda: notes.redefine(capacity=0),
        lambda: notes.redefine(capacity_bytes=0),
        lambda: ada.batch().set("n", capacity=0),
    ]
    for ask in asked:
        with pytest.raises(InvalidInput, match=r"at least 1, not 0; leave it out .*redefine\("):
            ask()
    with pytest.raises(InvalidInput, match="takes no capacity"):
        knowledge.set("k", capacity=0)
    with pytest.raises(InvalidInput, match="takes no capacity"):
        knowledge.set("k").redefine(capacity=0)
    with pytest.raises(InvalidInput, match='"capacity" must be a whole number, at least 1'):
        Definition.from_json({"capacity": 0})
    assert (notes.definition, texts(notes.list())) == (Definition(capacity=2), ["a", "b"])


CALLS = ("add", "add_many", "get", "list", "recent", "update", "supersede", "delete", "history")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("owner", [KeyMemory, KeyBatch, KnowledgeMemory])
def test_calls_of_the_default_set_have_its_signatures(owner: type, name: str) -> None:
    """They are methods, so that editors and type checkers see arguments, result and docstring."""
    if not hasattr(owner, name):
        assert owner is KnowledgeMemory
        return
    here, there = getattr(owner, name), getattr(MemorySet, name)
    assert inspect.isfunction(here)
    assert inspect.signature(here) == inspect.signature(there)
    assert here.__doc__ == there.__doc__


def test_a_wrong_keyword_is_answered_with_the_nearest_one(memory: Memory) -> None:
    """The error names the class that was called; nothing was written."""
    ada: Any = memory.key("ada")  # a type checker would refuse each of these calls
    ada.add("x", id="a")
    wrong = {
        "KeyMemory.add() has no argument 'metdata'; did you mean 'metadata'?": lambda: ada.add(
            "x", metdata={}
        ),
        "MemorySet.add() has no argument 'tll'; did you mean 'ttl'?": lambda: ada.set("n").add(
            "x", tll="7d"
        ),
        "KeyMemory.update() has no argument 'version'; did you mean 'if_version'?": lambda: (
            ada.update("a", version=3)
        ),
        "KeyMemory.set() has no argument 'capasity'; did you mean 'capacity'?": lambda: ada.set(
            "n", capasity=3
        ),
        "KeyMemory.search() has no argument 'limits'; did you mean 'limit'?": lambda: ada.search(
            "x", limits=3
        ),
        "MemorySet.recent() has no argument 'limit'; the arguments are n": lambda: ada.set(
            "n"
        ).recent(limit=3),
        "KeyMemory.batch() has no argument 'idempotency'": lambda: ada.batch(idempotency="k"),
        "KeyMemory.set() takes 1 positional argument; a value under a name is of exact memory: "
        "short_term.set(name, value)": lambda: ada.set("notes", 1),
        "MemorySet.redefine() has no argument 'name'": lambda: ada.set("n").redefine(name="m"),
        "KeyMemory.supersede() has no argument 'id_new'": lambda: ada.supersede(
            "a", "y", id_new="b"
        ),
    }
    for message, call in wrong.items():
        with pytest.raises(TypeError, match=re.escape(message)):
            call()
    for incomplete, name in {ada.add: "add", ada.set("n").get: "get", ada.search: "search"}.items():
        with pytest.raises(TypeError, match=rf"^{name}\(\) missing 1 required"):
            cast("Any", incomplete)()
    assert texts(ada.list()) == ["x"]


def test_fields_beside_an_item_stand_in_place_of_its_own(ada: KeyMemory) -> None:
    """What is passed by name is never left out without a word."""
    kept = ada.get(ada.add(Item("x", role="user", speaker="Ada"), role="assistant", metadata=None))
    assert kept is not None
    assert (kept.role, kept.speaker) == ("assistant", "Ada")


def test_a_list_of_items_given_to_add_is_told_of_add_many(memory):
    """A list is one item, and has no text; who meant several is told how."""
    with pytest.raises(InvalidValue, match="add several items with add_many"):
        memory.key("ada").add(["Refunds take 5 days.", "Tents are green."])
    with pytest.raises(InvalidValue, match=r"no search finds the item$") as error:
        memory.key("ada").add(7)
    assert "add_many" not in str(error.value)
