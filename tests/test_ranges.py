"""Names as ranges, items that are popped, branches that are moved, batches that are repeated."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from alveus import AsyncMemory, Memory
from alveus.errors import (
    HistoryPruned,
    InvalidInput,
    InvalidName,
    KeyBusy,
    NotAnObject,
    ObjectInTheWay,
    StaleItem,
    TreeConflict,
)
from alveus.store.scope import NameRange, end_of_prefix


@pytest.fixture(params=["ram", "file"])
def memory(request, tmp_path):
    url = ":memory:" if request.param == "ram" else tmp_path / "app.db"
    with Memory.open(url, embedder="words") as opened:
        yield opened


def test_names_of_a_tree_are_read_as_a_range(memory):
    """By prefix, past one, so many, from either end; the names of other objects do not show."""
    tree = memory.key("ada").short_term
    for number in range(20):
        tree.set(("checkpoints", f"c{number:02}"), {"n": number})
    tree.set("checkpoints.other", 1)
    points = tree.get_object("checkpoints")
    assert points.names(limit=2) == ["c00", "c01"]
    assert points.names(newest_first=True, limit=2) == ["other", "c19"]
    assert points.names(prefix="c", newest_first=True, limit=1) == ["c19"]
    assert points.names(prefix="c", after="c17") == ["c18", "c19"]
    assert points.names(after="c01", newest_first=True) == ["c00"]
    assert points.names(prefix="c1", after="c18", newest_first=True, limit=2) == ["c17", "c16"]
    assert points.names(limit=0) == points.names(prefix="x") == []


def test_names_in_a_batch_are_those_of_the_batch(memory):
    """What it made is there, what it deleted is not, and unchanged objects are read as ranges."""
    key = memory.key("ada")
    for name in "bdf":
        key.short_term.set(("o", name), 1)
    with key.batch() as batch:
        box = batch.short_term.get_object("o")
        assert box.names(limit=2) == ["b", "d"]
        box.set("c", 1)
        box.delete("b")
        assert box.names(limit=2) == ["c", "d"]
        box.clear()
        assert box.names() == []


def test_names_of_the_past(memory):
    """The same, of a tree as it was."""
    tree = memory.key("ada").short_term
    tree.set("a", 1)
    tree.set("b", 1)
    moment = memory.store.head(memory.key("ada").inside.scope)
    tree.delete("b")
    tree.set("c", 1)
    assert tree.at(moment).names() == ["a", "b"]
    assert tree.names() == ["a", "c"]


def test_names_that_expired_are_not_there(memory):
    """As in every other read."""
    tree = memory.key("ada").short_term
    tree.set("a", 1, expires_at=datetime(2000, 1, 1, tzinfo=UTC))
    tree.set("b", 1)
    assert tree.names() == ["b"]


def test_a_range_is_checked(memory):
    """A mistake is told; a value has no names."""
    tree = memory.key("ada").short_term
    tree.set("a", 1)
    for wrong in ({"limit": -1}, {"limit": 1.5}, {"limit": True}):
        with pytest.raises(InvalidInput):
            tree.names(**wrong)
    for wrong in ({"prefix": 1}, {"after": ""}, {"after": 3}, {"prefix": "\ud800"}):
        with pytest.raises(InvalidName):
            tree.names(**wrong)
    with pytest.raises(InvalidName):
        memory.keys(prefix=None)
    moved = tree.new_object("o")
    tree.delete("o")
    with pytest.raises(NotAnObject):
        moved.names()


def test_the_end_of_a_prefix():
    """The least text past all that begin so; surrogates are no text."""
    assert end_of_prefix("a") == "b"
    assert end_of_prefix("a\U0010ffff") == "b"
    assert end_of_prefix("\U0010ffff") is None
    assert end_of_prefix("") is None
    assert end_of_prefix("\ud7ff") == "\ue000"


def test_the_order_of_names():
    """That of code points, where a dot comes right before a backslash."""
    assert NameRange().choose(["a\\", "a]", "aZ", "a.", "a"]) == ["a", "aZ", "a.", "a\\", "a]"]


def test_keys_by_prefix(memory):
    """Those that begin so, past one of them."""
    for name in ("user-1", "user-2", "user-3", "v", "device-1"):
        memory.key(name).add("x")
    assert list(memory.keys(prefix="user-")) == ["user-1", "user-2", "user-3"]
    assert list(memory.keys(prefix="user-", after="user-1")) == ["user-2", "user-3"]
    assert list(memory.keys(after="user-3")) == ["v"]
    assert list(memory.keys(prefix="no")) == []


def test_sets_by_prefix_with_counts(memory):
    """The names that begin so, and how many items each has; also in a batch."""
    key = memory.key("ada")
    for name, count in {"docs/a": 2, "docs/b": 1, "chat": 3}.items():
        key.set(name).add_many([f"{name} {n}" for n in range(count)])
    assert key.sets(prefix="docs/") == ["docs/a", "docs/b"]
    assert key.sets(counts=True) == {"chat": 3, "docs/a": 2, "docs/b": 1}
    with key.batch() as batch:
        batch.set("docs/b").add("more")
        batch.set("docs/c").add("new")
        expected = {"docs/a": 2, "docs/b": 2, "docs/c": 1}
        assert batch.sets(prefix="docs/", counts=True) == expected
    assert key.sets(prefix="docs/", counts=True) == expected


def test_sets_are_searched_by_prefix(memory):
    """Those whose names begin so, and no others; none if there is none."""
    key = memory.key("ada")
    for name in ("docs/a", "docs/b", "chat"):
        key.set(name).add(f"A red kite over {name}.")
    hits = key.search("red kite", prefix="docs/")
    assert sorted(hit.item.text[-7:-1] for hit in hits) == ["docs/a", "docs/b"]
    assert list(key.search("red kite", prefix="nothing")) == []
    with pytest.raises(InvalidInput, match="not both"):
        key.search("red kite", prefix="docs/", sets=["chat"])


def test_pop_retires_the_last_items(memory):
    """It returns them oldest first; they stay in the history."""
    notes = memory.key("ada").set("notes")
    ids = notes.add_many(["one", "two", "three"])
    assert [item.text for item in notes.pop()] == ["three"]
    assert [item.text for item in notes.pop(5)] == ["one", "two"]
    assert notes.pop() == notes.pop(0) == []
    assert [item.retired is not None for item in notes.history(ids[0])] == [True]
    for wrong in (-1, 1.0, True, "1"):
        with pytest.raises(InvalidInput):
            notes.pop(wrong)


def test_pop_in_a_batch(memory):
    """It sees what the batch added, and is committed with it."""
    key = memory.key("ada")
    key.add("one")
    with key.batch() as batch:
        batch.add("two")
        assert [item.text for item in batch.pop()] == ["two"]
        assert [item.text for item in batch.pop()] == ["one"]
        assert batch.pop() == []
    assert key.list() == []


def test_a_repeated_pop_returns_the_same(memory):
    """With an idempotency key nothing is taken twice."""
    key = memory.key("ada")
    key.add_many(["one", "two"])
    first = [item.text for item in key.pop(idempotency_key="k")]
    key.add("three")
    assert [item.text for item in key.pop(idempotency_key="k")] == first == ["two"]
    assert [item.text for item in key.list()] == ["one", "three"]


def test_a_repeated_pop_of_what_is_not_kept(memory):
    """Where the set purged what was popped, the repetition says so."""
    notes = memory.key("ada").set("notes", retention="purge")
    notes.add("one")
    notes.pop(idempotency_key="k")
    memory.sweep()
    try:
        again = [item.text for item in notes.pop(idempotency_key="k")]
    except HistoryPruned:
        again = ["one"]
    assert again == ["one"]


def test_no_item_is_popped_twice(memory):
    """Threads that pop at the same time share the items between them."""
    notes = memory.key("ada").set("notes")
    notes.add_many([f"{n}" for n in range(24)])
    popped = []

    def pop():
        for _ in range(6):
            popped.extend(item.text for item in memory.key("ada").set("notes").pop())

    threads = [threading.Thread(target=pop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(popped, key=int) == [f"{n}" for n in range(24)]


def test_a_branch_is_moved(memory):
    """With all below it, and each expiry; it is one commit."""
    tree = memory.key("ada").short_term
    tree.set("files.a.text", "hello")
    tree.set("files.a.brief", 1, ttl=timedelta(hours=1))
    tree.new_object("files.a.empty")
    ref = tree.move("files.a", "archive.2024.a")
    assert ref.path == "archive.2024.a"
    assert tree.to_dict() == {
        "files": {},
        "archive": {"2024": {"a": {"text": "hello", "brief": 1, "empty": {}}}},
    }
    scope = memory.key("ada").inside.scope
    node = memory.store.node(scope, ("archive", "2024", "a", "brief"), at=None, now=0)
    assert node is not None
    assert node.expires is not None
    assert (
        memory.store.node(scope, ("archive", "2024", "a", "text"), at=None, now=0).expires is None
    )
    tree.move("archive.2024.a.text", "text")
    assert tree.get("text") == "hello"


def test_a_move_that_cannot_be_changes_nothing(memory):
    """Nothing there, something in the way, into itself, or below a value."""
    tree = memory.key("ada").short_term
    tree.set("a.b", 1)
    tree.set("c", 2)
    before = tree.to_dict()
    for old, new in (
        ("no", "x"),
        ("a", "c"),
        ("a", "a"),
        ("a", "a.b.c"),
        ("a.b", "a"),
        ("a", "c.d"),
    ):
        with pytest.raises(TreeConflict):
            tree.move(old, new)
        with memory.key("ada").batch() as batch:
            with pytest.raises(TreeConflict):
                batch.short_term.move(old, new)
            assert batch.short_term.to_dict() == before
        assert tree.to_dict() == before


def test_a_repeated_move_is_done_once(memory):
    """Under an idempotency key the repetition changes nothing."""
    tree = memory.key("ada").short_term
    tree.set("a", 1)
    tree.once("k").move("a", "b")
    tree.set("a", 2)
    tree.once("k").move("a", "b")
    assert tree.to_dict() == {"b": 1, "a": 2}


def test_commit_calls_again_when_others_were_faster(memory):
    """The function reads what is there then; only the last call is committed."""
    key = memory.key("ada")
    item_id = key.add("0")
    key.short_term.set("n", 0)
    calls = []

    def change(batch):
        calls.append(1)
        n = batch.short_term.get("n")
        item = batch.get(item_id)
        if len(calls) == 1:
            key.short_term.set("n", 10)
        elif len(calls) == 2:
            key.update(item_id, "10")
        batch.short_term.set("n", n + 1)
        batch.update(item_id, f"{item.text}+", if_version=item.version)
        if len(calls) == 3:
            key.update(item_id, "20")
        return n

    assert key.commit(change) == 10
    assert (key.short_term.get("n"), key.get(item_id).text, len(calls)) == (11, "20+", 4)


def test_commit_of_many_threads(memory):
    """No increment is lost."""
    key = memory.key("ada")
    key.short_term.set("n", 0)

    def add_one(batch):
        batch.short_term.set("n", batch.short_term.get("n") + 1)

    threads = [
        threading.Thread(target=lambda: [key.commit(add_one) for _ in range(5)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert key.short_term.get("n") == 20


def test_commit_raises_what_the_function_raises(memory):
    """Also a conflict of its own, which no other call would mend; nothing is committed."""
    key = memory.key("ada")
    item_id = key.add("one")
    calls = []

    def wrong(batch):
        calls.append(1)
        batch.add("two")
        batch.update(item_id, "x", if_version=7)

    with pytest.raises(StaleItem):
        key.commit(wrong)
    assert len(calls) == 2
    assert [item.text for item in key.list()] == ["one"]
    key.short_term.set("o.x", 1)
    with pytest.raises(ObjectInTheWay):
        key.commit(lambda batch: batch.short_term.set("o", 1))


def test_commit_is_repeated_under_a_key_once(memory):
    """As a batch with that idempotency key."""
    key = memory.key("ada")
    for _ in range(2):
        key.commit(lambda batch: batch.add("one"), idempotency_key="k")
    assert [item.text for item in key.list()] == ["one"]


def test_commit_gives_up_after_the_wait(tmp_path):
    """Where others are always faster, it says that the key is busy."""
    wait_s = 0.05  # the writer that is waited for never stops, and waits for nobody
    with Memory.open(tmp_path / "app.db", embedder="words", wait_s=wait_s) as memory:
        key = memory.key("ada")
        key.short_term.set("n", 0)

        def loses(batch):
            read = batch.short_term.get("n")  # what is only set would conflict with nobody
            key.short_term.increment("n")
            batch.short_term.set("n", -read)

        with pytest.raises(KeyBusy):
            key.commit(loses)
        assert key.short_term.get("n") > 0


def test_the_async_door():
    """Has all of it."""

    async def use():
        async with await AsyncMemory.open(":memory:", embedder="words") as memory:
            key = await memory.key("ada")
            await key.short_term.set("o.a", 1)
            await key.short_term.set("o.b", 1)
            assert await (await key.short_term.get_object("o")).names(limit=1) == ["a"]
            assert (await key.short_term.move("o.a", "c")).path == "c"
            await key.add("one")
            assert await key.commit(lambda batch: batch.add("two", id="t")) == "t"
            assert await key.sets(counts=True) == {"default": 2}
            assert [item.text for item in await key.pop()] == ["two"]
            assert [i.text for i in await (await key.set("default")).pop()] == ["one"]
            assert await memory.keys(prefix="a") == ["ada"]
            assert len(await key.search("one", prefix="d")) == 0

    asyncio.run(use())
