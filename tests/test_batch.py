"""Batches by hand: changes of one key, and of knowledge, that are committed together."""
# ruff: noqa: PT012 - what raises is the end of a block, and what it serves is in it

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from alveus import Item, KeyBatch, KeyMemory, Memory, MemoryObject
from alveus.errors import (
    CompareFailed,
    DuplicateItem,
    IdempotencyConflict,
    InvalidInput,
    InvalidValue,
    NotFound,
    ObjectInTheWay,
    SetFull,
    StaleItem,
    StaleRun,
    Unusable,
)
from alveus.search.index import SetIndex
from alveus.sets.admission import Exact
from alveus.store import Scope
from doors import START, Clock, Letters, texts
from waiting import LIMIT_S, SHORT_S


def commits(memory: Memory) -> int:
    return memory.stats().store.commits


def test_all_of_it_is_one_commit(ada: KeyMemory, memory: Memory) -> None:
    """Items of several sets, the exact tree and knowledge: nobody sees some of it."""
    with ada.batch() as b:
        one = b.add("Ordered a tent.")
        two = b.set("notes").add("Likes tents.")
        b.short_term.append("orders", "991")
        b.short_term.increment("n")
        fact = b.knowledge.set("shop").add("Tents are sold out.")
        assert commits(memory) == 0
        assert ada.list() == []
        assert ada.short_term.to_dict() == {}
        assert memory.knowledge.set("shop").list() == []
    assert b.committed is not None
    assert (b.committed.number, b.committed.adopted, commits(memory)) == (1, False, 1)
    assert ada.get(one) is not None
    assert ada.set("notes").get(two) is not None
    assert memory.knowledge.set("shop").get(fact) is not None
    assert ada.short_term.to_dict() == {"orders": ["991"], "n": 1}
    effects = memory.store.effects(1)
    assert effects is not None
    assert [stored.record.id for stored in effects.begun_items] == [one, two, fact]


def test_a_block_that_raises_changes_nothing(ada: KeyMemory, memory: Memory) -> None:
    """Whatever was done before it, and the error goes on as it is."""
    kept = ada.add("kept")
    with pytest.raises(ZeroDivisionError), ada.batch(idempotency_key="k") as b:
        b.add("x")
        b.delete(kept)
        b.short_term.set("a", 1)
        b.knowledge.set("s").add("y")
        _ = 1 / 0
    assert b.committed is None
    assert texts(ada.list()) == ["kept"]
    assert ada.short_term.to_dict() == {}
    assert memory.knowledge.sets() == []
    assert commits(memory) == 1
    with ada.batch(idempotency_key="k") as b:
        b.add("another request under the key of one that never was")
    assert len(ada.list()) == 2


def test_a_batch_without_changes_is_no_commit(ada: KeyMemory, memory: Memory) -> None:
    """Reading in it leaves no trace."""
    with ada.batch() as b:
        b.list()
        b.short_term.get("a")
        b.delete("nobody")
    assert b.committed is None
    assert commits(memory) == 0


def test_reads_see_what_is_pending(ada: KeyMemory, clock: Clock) -> None:
    """get, list, recent, search, len and in: with new items, without deleted ones, as updated."""
    ids = ada.add_many([Item("apple pie", id="a"), Item("bread", id="b"), Item("coffee", id="c")])
    with ada.batch() as b:
        notes = b.set("default")
        b.add("dates", id="d")
        b.add("earliest", id="e", time=START - timedelta(days=1))
        b.update("a", "apple tart")
        b.delete("b")
        assert texts(b.list()) == ["earliest", "apple tart", "coffee", "dates"]
        assert texts(b.list(newest_first=True)) == ["dates", "coffee", "apple tart", "earliest"]
        assert texts(b.recent(2)) == ["coffee", "dates"]
        assert texts(b.list(limit=2, after="e")) == ["apple tart", "coffee"]
        assert texts(b.list(where={"$id": {"in": ["a", "b", "d"]}})) == ["apple tart", "dates"]
        found = b.get(["a", "b", "d", "none"])
        assert [item and item.text for item in found] == ["apple tart", None, "dates", None]
        assert (len(notes), "d" in notes, "b" in notes) == (4, True, False)
        assert [h.item.text for h in b.search("apple tart", limit=1)] == ["apple tart"]
        assert [h.item.text for h in b.search("dates", limit=1)] == ["dates"]
        assert "bread" not in [h.item.text for h in b.search("bread")]
        assert texts(ada.list()) == ["apple pie", "bread", "coffee"], "seen before its time"
    assert ids == ["a", "b", "c"]
    assert sorted(texts(ada.list()), key=str) == ["apple tart", "coffee", "dates", "earliest"]
    assert [h.item.text for h in ada.search("dates", limit=1)] == ["dates"]


def test_pages_of_many_are_complete_with_what_is_pending(ada: KeyMemory) -> None:
    """Listing goes page by page: what the batch changed on any page is seen, nothing twice."""
    ids = ada.add_many([f"n{i:04}" for i in range(600)])
    with ada.batch() as b:
        b.delete(ids[100:400])
        b.add_many([f"p{i:04}" for i in range(300)])
        expected = [f"n{i:04}" for i in range(600) if not 100 <= i < 400]
        expected += [f"p{i:04}" for i in range(300)]
        assert texts(b.list()) == expected
        assert texts(b.list(newest_first=True)) == expected[::-1]
        assert len(b.set("default")) == 600
    assert texts(ada.list()) == expected


def test_objects_of_two_batches_are_of_two_memories(ada: KeyMemory) -> None:
    """Each block sees its own changes alone, so the same path in another one is another place."""
    with ada.batch() as one, ada.batch() as two:
        assert one.short_term == one.short_term
        assert one.short_term != two.short_term
        assert one.short_term != ada.short_term


def test_the_tree_is_as_it_was_at_the_start(ada: KeyMemory) -> None:
    """Reads of the exact tree see the state at the beginning of the block, and own writes."""
    ada.short_term.set("a", 1)
    with pytest.raises(StaleRun, match="ada"), ada.batch() as b:
        ada.short_term.set("a", 2)
        assert b.short_term.get("a") == 1
        b.short_term.set("b", b.short_term.get("a") + 1)
        assert b.short_term.to_dict() == {"a": 1, "b": 2}
        b.add("x")
    assert b.committed is None
    assert ada.short_term.to_dict() == {"a": 2}
    assert ada.list() == []


def test_values_that_are_only_set_are_laid_over_what_is_there(ada: KeyMemory) -> None:
    """Whoever sets last stays; what others set meanwhile beside it stays too."""
    with ada.batch() as b:
        b.short_term.set("a", 1)
        b.short_term.set("deep.a", 1, ttl=timedelta(hours=1))
        b.short_term.set("a", 2)
        ada.short_term.set("a", 0)
        ada.short_term.set("b", 3)
        ada.short_term.set("deep.b", 4)
        b.add("x")
    assert b.committed is not None
    assert ada.short_term.to_dict() == {"a": 2, "b": 3, "deep": {"a": 1, "b": 4}}
    assert texts(ada.list()) == ["x"]


def test_a_block_that_read_the_tree_is_held_to_it(ada: KeyMemory) -> None:
    """Whatever it read, and however it changed something."""
    ada.short_term.set("a", 1)

    def by_get(tree: MemoryObject) -> object:
        return tree.get("a")

    def by_name(tree: MemoryObject) -> object:
        return "z" in tree

    def by_delete(tree: MemoryObject) -> object:
        return tree.delete("a")

    def by_names(tree: MemoryObject) -> object:
        return tree.names()

    for read in (by_get, by_name, by_delete, by_names):
        with pytest.raises(StaleRun), ada.batch() as b:
            b.short_term.set("c", 1)
            read(b.short_term)
            ada.short_term.increment("b")
    assert "c" not in ada.short_term


def test_an_object_that_others_made_is_in_the_way(ada: KeyMemory) -> None:
    """What cannot be laid over what is there is refused, whole."""
    with pytest.raises(ObjectInTheWay), ada.batch() as b:
        b.short_term.set("a", 1)
        b.add("x")
        ada.short_term.new_object("a")
    assert ada.list() == []


def test_many_who_only_set_never_conflict(ada: KeyMemory) -> None:
    """Sixteen threads, each with batches of its own and one name that all of them set."""

    def work(number: int) -> None:
        for step in range(10):
            with ada.batch() as b:
                b.short_term.set(f"own.{number}", step)
                b.short_term.set("last", [number, step])
                b.add(f"{number} {step}")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert ada.short_term.get("own").to_dict() == {str(n): 9 for n in range(16)}
    assert ada.short_term.get("last")[1] == 9
    assert len(ada.set("default")) == 160


def test_a_tree_that_moved_does_not_matter_to_items(ada: KeyMemory) -> None:
    """Only who changes the tree is held to what it was."""
    with ada.batch() as b:
        ada.short_term.set("a", 2)
        b.add("x")
    assert texts(ada.list()) == ["x"]


def test_an_item_that_moved_refuses_the_batch(ada: KeyMemory, memory: Memory) -> None:
    """Updates and deletes carry the version they read, in knowledge too; nothing goes through."""
    ada.add("x", id="x")
    fact = memory.knowledge.set("s").add("y")
    for change in (lambda b: b.update("x", "mine"), lambda b: b.delete("x")):
        with pytest.raises(StaleItem, match="'x'"), ada.batch() as b:
            change(b)
            b.add("lost with it")
            ada.update("x", "theirs")
    with pytest.raises(StaleItem), ada.batch() as b:
        b.knowledge.set("s").update(fact, "mine")
        memory.knowledge.set("s").update(fact, "theirs")
    assert texts(ada.list()) == ["theirs"]
    assert texts(memory.knowledge.set("s").list()) == ["theirs"]


def test_a_batch_counts_what_it_lists_though_others_delete_what_it_changed(
    ada: KeyMemory, memory: Memory
) -> None:
    """Also where they change it again, or add it anew; one that is counted out twice is not."""
    notes = ada.set("notes")
    notes.add_many([Item("note", id=name) for name in "abcd"])
    with pytest.raises(StaleItem), ada.batch() as b:
        pending = b.set("notes")
        assert pending.delete(["a", "b"]) == 2
        pending.update("c", "changed")
        assert len(pending) == len(pending.list()) == 2
        for others_do in (
            lambda: notes.delete("a"),
            lambda: notes.update("b", "theirs"),
            lambda: notes.delete(["c", "d"]),
            lambda: notes.add("again", id="a"),
        ):
            others_do()
            assert len(pending) == len(pending.list())
            assert b.sets(counts=True) == {"notes": len(pending.list())}


def test_what_had_expired_between_deleted_items_is_listed_when_the_clock_is_set_back(
    ada: KeyMemory, clock: Clock
) -> None:
    """A batch knows which of them follow each other, as of the time that it was then."""
    notes = ada.set("notes")
    ids = [f"{number:02}" for number in range(40)]
    lives = {"20": timedelta(seconds=10)}
    notes.add_many([Item("note", id=name, ttl=lives.get(name)) for name in ids])
    clock.move(seconds=20)
    with ada.batch() as b:
        pending = b.set("notes")
        pending.delete([name for name in ids if name not in ("20", "39")])
        for newest_first in (False, True):
            assert [item.id for item in pending.list(newest_first=newest_first)] == ["39"]
        clock.move(seconds=-15)
        assert [item.id for item in pending.list()] == ["20", "39"]
        assert [item.id for item in pending.list(newest_first=True)] == ["39", "20"]


def test_a_repetition_counts_what_the_first_one_counted(ada: KeyMemory) -> None:
    """Not what it did itself the first time, or others since; it may not even be below nothing."""
    ada.add_many([Item("one", id="a"), Item("two", id="b")])
    told: list[object] = []
    for _ in range(2):
        with ada.batch(idempotency_key="k") as b:
            default, talk = b.set("default"), b.conversation("talk")
            default.delete("a")
            told.append([len(default), b.sets(counts=True)["default"], len(talk)])
            default.delete("b")
            talk.add([{"role": "user", "content": "hello"}])
            told.append([len(default), b.sets(counts=True)["default"], len(talk)])
        ada.add_many(["three", "four"])
    assert told == [[1, 1, 0], [0, 0, 1]] * 2


def test_a_repetition_counts_what_it_did_not_change(ada: KeyMemory) -> None:
    """Before it reads any item, too."""
    ada.add("one")
    told: list[int] = []
    for _ in range(2):
        with ada.batch(idempotency_key="k") as b:
            told += [len(b.set("default")), b.add("new") is None, len(b.set("default"))]
    assert told == [1, False, 2] * 2


def test_a_search_in_a_batch_misses_nothing_that_another_thread_adds_meanwhile(
    ada: KeyMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads of an action share its batch: what comes as a search begins is found later."""
    threads: list[threading.Thread] = []
    extend = SetIndex.extend

    def extended(index: SetIndex, features: Any) -> None:
        extend(index, features)
        if not threads:
            threads.append(threading.Thread(target=lambda: b.add("red late", id="late")))
            threads[0].start()
            threads[0].join(SHORT_S)

    with ada.batch() as b:
        b.add("red one", id="one")
        b.search("red")
        b.add("red two", id="two")
        monkeypatch.setattr(SetIndex, "extend", extended)
        b.search("red")
        threads[0].join(LIMIT_S)
        assert {hit.item.id for hit in b.search("red")} == {"one", "two", "late"}


def test_what_is_pending_can_be_changed_again(ada: KeyMemory) -> None:
    """Added, updated, deleted and added again in one block: what is left is what was last."""
    with ada.batch() as b:
        b.add("one", id="x", metadata={"n": 1})
        new = b.update("x", "two")
        assert (new.text, new.version, new.metadata) == ("two", 2, {"n": 1})
        assert b.update("x", importance=0.5).version == 3
        with pytest.raises(StaleItem, match="version 3"):
            b.update("x", "four", if_version=2)
        b.add("gone", id="y")
        assert b.delete("y") == 1
        assert b.get("y") is None
        b.add("back", id="y")
        assert b.delete(where={"$id": "y"}) == 1
        b.add("again", id="z")
        assert b.set("other").clear() == 0
    assert texts(ada.list()) == ["two", "again"]
    found = ada.get("x")
    assert found is not None
    assert (found.importance, found.version) == (0.5, 3)
    assert ada.get("y") is None
    assert ada.search("two")[0].item.text == "two"


def test_a_refused_call_leaves_the_batch_as_it_was(ada: KeyMemory) -> None:
    """Ids that are taken, there or in the batch itself, are refused at once; the rest goes on."""
    ada.add("there", id="x")
    with ada.batch() as b:
        b.add("mine", id="y")
        for call in (
            lambda: b.add("again", id="x"),
            lambda: b.add("again", id="y"),
            lambda: b.add_many(["fine", Item("again", id="y")]),
        ):
            with pytest.raises(DuplicateItem):
                call()
        with pytest.raises(InvalidInput, match="two items with the same id"):
            b.add_many([Item("a", id="z"), Item("b", id="z")])
        with pytest.raises(InvalidValue):
            b.add_many(["fine", {1, 2}])  # pyright: ignore[reportArgumentType] - wrong on purpose
        with pytest.raises(NotFound):
            b.update("nobody", "x")
        with pytest.raises(CompareFailed):
            b.short_term.update("a", 1, expected=0)
        with pytest.raises(InvalidInput, match="to the batch"):
            b.add("x", idempotency_key="k")
        assert b.add("kept", id="y", on_existing="keep") == "y"
    assert texts(ada.list()) == ["there", "mine"]
    assert ada.short_term.to_dict() == {}


def test_an_id_taken_meanwhile_refuses_the_batch(ada: KeyMemory) -> None:
    """Somebody adds it between the call and the end of the block."""
    with pytest.raises(DuplicateItem, match="'x'"), ada.batch() as b:
        b.add("mine", id="x")
        b.short_term.set("a", 1)
        ada.add("theirs", id="x")
    assert texts(ada.list()) == ["theirs"]
    assert ada.short_term.to_dict() == {}


def order(b: KeyBatch) -> list[object]:
    """Do one of everything, the same each time."""
    b.add("first", id="given")
    made = b.set("notes").add("second")
    b.update("old", "changed", if_version=1)
    b.delete("doomed")
    b.knowledge.set("shop").add("third", id="fact")
    tree = b.short_term
    tree.set("a.b", 1)
    tree.append("list", 1)
    new = tree.increment("n")
    tree.update("compared", 2, expected=1)
    tree.new_object("made")
    gone = tree.delete("gone")
    return [made, new, gone, tree.get("compared"), texts(b.list())]


def test_a_batch_under_a_key_is_done_once(ada: KeyMemory, memory: Memory, clock: Clock) -> None:
    """Repeated, whenever that is, its block goes as the first time and changes nothing.

    That holds for given ids, deleted items, compare-and-set, counters and objects too.
    """
    ada.add_many([Item("to change", id="old"), Item("to delete", id="doomed")])
    ada.short_term.set("compared", 1)
    ada.short_term.set("gone", 1)
    with ada.batch(idempotency_key="order-991") as b:
        first = order(b)
    before = (commits(memory), texts(ada.list()), ada.short_term.to_dict())
    for days in (0, 30):
        clock.move(days=days)
        with ada.batch(idempotency_key="order-991") as b:
            assert order(b) == first
        assert b.committed is not None
        assert b.committed.adopted
        assert (commits(memory), texts(ada.list()), ada.short_term.to_dict()) == before
    ada.delete("given")
    ada.short_term.clear()
    with ada.batch(idempotency_key="order-991") as b:
        assert order(b) == first
    assert ada.get("given") is None
    assert ada.short_term.to_dict() == {}


@pytest.mark.parametrize(
    "other",
    [
        lambda b: b.add("other"),
        lambda b: (b.add("x"), b.add("y")),
        lambda b: b.add("x", metadata={"a": 1}),
        lambda b: b.set("notes").add("x"),
        lambda b: b.knowledge.set("default").delete("x"),
        lambda b: (b.add("x"), b.short_term.set("a", 1)),
        lambda b: None,
    ],
)
def test_another_batch_under_the_key_is_refused(ada: KeyMemory, memory: Memory, other) -> None:
    """A key stands for one request; another key of the space, or none, is another."""
    with ada.batch(idempotency_key="k") as b:
        b.add("x")
    with pytest.raises(IdempotencyConflict, match="'k'"), ada.batch(idempotency_key="k") as b:
        other(b)
    assert texts(ada.list()) == ["x"]
    with memory.key("bob").batch(idempotency_key="k") as b:
        other(b)
    assert b.committed is not None
    assert not b.committed.adopted


def test_tree_calls_tell_batches_apart(ada: KeyMemory) -> None:
    """Two batches that differ in a value of the tree alone are two requests."""
    with ada.batch(idempotency_key="k") as b:
        b.short_term.increment("n", 1)
    with ada.batch(idempotency_key="k") as b:
        b.short_term.increment("n", 1)
    with pytest.raises(IdempotencyConflict), ada.batch(idempotency_key="k") as b:
        b.short_term.increment("n", 2)
    assert ada.short_term.get("n") == 1


def test_a_batch_serves_one_block(ada: KeyMemory) -> None:
    """Before and after it, what was written would be lost, so every call raises."""
    early = ada.batch()
    for call in (lambda: early.add("x"), lambda: early.short_term, early.list):
        with pytest.raises(Unusable, match="with block"):
            call()
    with ada.batch() as b:
        b.add("x", id="x")
        b.short_term.set("o.a", 1)
        notes, cursor, knowledge = b.set("default"), b.short_term.get("o"), b.knowledge
        with pytest.raises(Unusable, match="one block"), b:
            pass
    for call in (
        lambda: b.add("y"),
        lambda: b.get("x"),
        lambda: b.search("x"),
        lambda: b.short_term.get("o"),
        lambda: notes.add("y"),
        notes.list,
        lambda: len(notes),
        lambda: cursor.set("a", 2),
        lambda: cursor.increment("a"),
        lambda: cursor.get("a"),
        lambda: cursor.is_exist("a"),
        cursor.get_field_names,
        lambda: knowledge.set("s").add("y"),
        b.__enter__,
    ):
        with pytest.raises(Unusable, match="block"):
            call()
    assert texts(ada.list()) == ["x"]
    assert ada.short_term.to_dict() == {"o": {"a": 1}}
    with early:
        early.add("z")
    assert texts(ada.list()) == ["x", "z"]


def test_batches_inside_one_another_are_two(ada: KeyMemory, memory: Memory) -> None:
    """The inner one commits first; of one tree, the outer one is then refused."""
    with pytest.raises(StaleRun), ada.batch() as outer:
        outer.short_term.increment("a")
        with ada.batch() as inner:
            inner.short_term.set("b", 2)
    assert ada.short_term.to_dict() == {"b": 2}
    with ada.batch() as outer:
        outer.add("outer")
        outer.short_term.set("a", 1)
        with memory.key("bob").batch() as inner:
            inner.add("inner")
            inner.short_term.set("b", 2)
        with ada.batch() as inner:
            inner.add("inner")
    assert texts(ada.list()) == ["inner", "outer"] or texts(ada.list()) == ["outer", "inner"]
    assert ada.short_term.to_dict() == {"b": 2, "a": 1}


def test_a_batch_keeps_to_capacity_and_definitions(ada: KeyMemory) -> None:
    """A set is defined with its first add in the block; what it refuses takes all with it."""
    with ada.batch() as b:
        notes = b.set("notes", capacity=2, compaction="reject")
        notes.add_many(["a", "b"])
        assert notes.definition.capacity == 2
        assert len(notes) == 2
    assert ada.set("notes").definition.capacity == 2
    with pytest.raises(SetFull), ada.batch() as b:
        b.set("notes").add("c")
        b.short_term.set("a", 1)
    assert ada.short_term.to_dict() == {}
    with ada.batch() as b:
        b.set("notes").clear()
        b.set("notes").add_many(["c", "d"])
    assert texts(ada.set("notes").list()) == ["c", "d"]


def test_the_past_does_not_show_what_is_pending(ada: KeyMemory, memory: Memory) -> None:
    """as_of in a batch reads what was committed then."""
    item_id = ada.add("one")
    first = commits(memory)
    ada.update(item_id, "two")
    with ada.batch() as b:
        b.update(item_id, "three")
        b.add("four")
        found = b.set("default").get(item_id, as_of=first)
        assert found is not None
        assert found.text == "one"
        assert texts(b.list(as_of=first)) == ["one"]
        assert [h.item.text for h in b.search("one", as_of=first)] == ["one"]
        assert texts(b.history(item_id)) == ["one", "two"]


def test_a_slow_embedder_is_asked_only_by_a_search(tmp_path: Path) -> None:
    """Pending items wait for their vectors as others do; a search in the block embeds them."""
    slow = Letters(instant=False)
    with Memory.open(tmp_path / "app.db", embedder=slow) as memory:
        ada = memory.key("ada")
        memory._engine.worker._stop.set()
        with ada.batch() as b:
            b.add("zzz", id="z")
            b.add("qqq", id="q")
            assert slow.asked == []
            hits = b.search("zz", limit=1)
            assert [h.item.id for h in hits] == ["z"]
            assert not hits.partial
            assert sorted(slow.asked) == ["qqq", "zz", "zzz"]
            b.update("q", "kkk")
            b.add("jjj", id="j")
        assert memory.stats().pending == 2, "what a search embedded is committed with its vectors"
        info = memory.store.set_infos(Scope("default", "ada"))[0]
        assert info.items == 3
        assert not ada.search("k").partial


def test_a_batch_that_somebody_else_commits_meanwhile_is_adopted(ada: KeyMemory) -> None:
    """Two workers do one request: the later one's block goes on, and tells the same ids."""
    ada.add_many([Item("to change", id="old"), Item("to delete", id="doomed")])
    ada.short_term.set("compared", 1)
    ada.short_term.set("gone", 1)
    with ada.batch(idempotency_key="k") as late:
        with ada.batch(idempotency_key="k") as first:
            told = order(first)
        assert order(late) == told
    assert late.committed is not None
    assert late.committed.adopted
    assert len(ada.history("given")) == len(ada.history("doomed")) == 1
    with pytest.raises(DuplicateItem), ada.batch(idempotency_key="other") as b:
        b.add("not this request", id="given")


@pytest.mark.parametrize(
    "read",
    [
        lambda b: b.get("x").text,
        lambda b: b.get(["x", "y"])[0].text,
        lambda b: str(texts(b.list())),
        lambda b: str(texts(b.list(newest_first=True))),
        lambda b: str(texts(b.history("x"))),
        lambda b: str(b.short_term.get("n")),
    ],
)
def test_what_the_same_batch_committed_meanwhile_is_not_read(
    ada: KeyMemory, read: Callable[[KeyBatch], str]
) -> None:
    """A block that computes its changes asks for the same, though the other one was quicker."""
    ada.add_many([Item("one", id="x"), Item("one", id="y")])

    def change(b: KeyBatch) -> None:
        b.update("x", f"{read(b)} more")
        b.short_term.set("n", f"{read(b)} more")
        b.add(read(b), id="new")

    with ada.batch(idempotency_key="k") as late:
        with ada.batch(idempotency_key="k") as first:
            change(first)
        change(late)
    assert late.committed is not None
    assert late.committed.adopted


def test_a_value_is_not_a_duplicate_of_what_the_same_batch_committed_meanwhile(
    ada: KeyMemory,
) -> None:
    """Nor does a block that asks `admit` take another way then."""
    ada.set("facts", admission=[Exact()]).add("Tea.")

    def change(b: KeyBatch) -> None:
        outcome = b.set("facts").admit("Milk.").outcome
        b.set("facts").add("Milk.")
        b.short_term.set("first", outcome)

    with ada.batch(idempotency_key="k") as late:
        with ada.batch(idempotency_key="k") as first:
            change(first)
        change(late)
    assert late.committed is not None
    assert late.committed.adopted
    assert ada.short_term.get("first") == "accept"


def test_two_callers_with_one_batch_at_once_have_one_commit(ada: KeyMemory) -> None:
    """The second one may begin, and read, at any moment of the first."""
    numbers: list[object] = []
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def count(gate: threading.Barrier, key: str) -> None:
        gate.wait(LIMIT_S)
        try:
            with ada.batch(idempotency_key=key) as b:
                b.short_term.set("n", b.short_term.get("n", 0) + 1)
                b.update("x", f"{int(str(texts(b.list())[0])) + 1}")
        except IdempotencyConflict as error:
            numbers.append(error)
        else:
            numbers.append(b.committed and b.committed.number)

    ada.add("0", id="x")
    try:
        for n in range(100):
            gate = threading.Barrier(2)
            callers = [threading.Thread(target=count, args=(gate, f"{n}")) for _ in range(2)]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join(LIMIT_S)
            one, two = numbers[-2:]
            assert one == two
    finally:
        sys.setswitchinterval(before)
    assert (ada.short_term.get("n"), texts(ada.list())) == (100, ["100"])
