"""Values of exact trees at hand: what a batch reads is what the store holds as of its base."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alveus import Memory
from alveus.errors import StoreClosed
from alveus.store import Batch, Delete, Node, Put, Scope
from alveus.store.sql import tree as sql_tree
from alveus.store.sql.tree import RecentTree, RecentTrees
from alveus.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

ADA = Scope("default", "ada")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def memory(path: Path) -> Generator[Memory]:
    with Memory.open(path, embedder="words", durability="normal") as memory:
        yield memory


def store_of(memory: Memory) -> SqliteStore:
    assert isinstance(memory.store, SqliteStore)
    return memory.store


def read(memory: Memory, *paths: str) -> list[object]:
    with memory.key("ada").batch() as batch:
        return [batch.short_term.get(path, None) for path in paths]


def commit_as_another(memory: Memory, *deltas: Put | Delete) -> None:
    """Commit what nothing here is told of, as it is not of commits of other processes."""
    store = store_of(memory)
    now = store.time_of_commit(1 << 62) + 1
    store.commit_many([Batch(scope=ADA, time=now, base=store.head(ADA), state=deltas)])


def reads_of_nodes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that takes the path of each node that is read from the database."""
    found: list[object] = []
    of_database = SqliteStore._read_node  # pyright: ignore[reportPrivateUsage] - what is counted

    def counted(self: SqliteStore, scope: Scope, path: tuple[str, ...], **more: int) -> Node | None:
        found.append(path)
        return of_database(self, scope, path, **more)

    monkeypatch.setattr(SqliteStore, "_read_node", counted)
    return found


def test_a_value_that_was_read_or_written_is_not_read_again(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    key = memory.key("ada")
    key.short_term.set("a.x", 1)
    asked = reads_of_nodes(monkeypatch)
    assert read(memory, "a.x", "a.none") == [1, None]
    with key.batch() as batch:
        batch.short_term.set("a.y", "two")
        batch.short_term.set("a.x", batch.short_term.get("a.x") + 1)
    del asked[:]
    assert read(memory, "a.x", "a.y", "a.none") == [2, "two", None]
    assert asked == []


def test_few_fields_are_known_together_after_a_commit():
    tree = RecentTree(1)
    one, two = (Node(is_object=False, value=number) for number in (1, 2))
    tree.keep_few(("o",), 2, {"a": one})
    tree.keep_few(("many",), 2, None)
    more = tree.after([Put(("o", "b"), 2, None), Put(("many", "x"), 3, None)], 2)
    assert more is not None
    assert more.few == {(("o",), 2): {"a": one, "b": two}, (("many",), 2): None}
    for delta in (Put(("o", "c"), 3, None), Put(("o", "a"), [], None), Put(("o", "a"), 1, 99)):
        after = more.after([delta], 3)
        assert after is not None
        assert [*after.few] == [(("many",), 2)]


def test_a_batch_reads_as_of_its_base(memory: Memory):
    """Also when another one of this process, which shares what is known, commits meanwhile."""
    key = memory.key("ada")
    key.short_term.set("x", 1)
    assert read(memory, "x", "y") == [1, None]
    with key.batch() as early:
        with key.batch() as later:
            later.short_term.set("x", 2)
            later.short_term.set("y", 2)
        assert read(memory, "x", "y") == [2, 2]
        assert [early.short_term.get("x"), early.short_term.get("y", None)] == [1, None]
    assert read(memory, "x", "y") == [2, 2]


def test_commits_of_others_are_seen(memory: Memory):
    memory.key("ada").short_term.set("x", 1)
    assert read(memory, "x") == [1]
    commit_as_another(memory, Put(("x",), 2, None))
    assert read(memory, "x") == [2]
    commit_as_another(memory, Delete(("x",)))
    assert read(memory, "x") == [None]


def test_a_list_is_shared_with_nobody(memory: Memory):
    memory.key("ada").short_term.set("list", [1])
    for _ in range(2):
        with suppress(ZeroDivisionError), memory.key("ada").batch() as batch:
            found = batch.short_term.get("list")
            batch.short_term.append("list", 2)
            found.append(3)
            raise ZeroDivisionError
    assert read(memory, "list") == [[1]]


def test_what_expires_is_asked_for(path: Path):
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    with Memory.open(path, embedder="words", durability="normal", clock=lambda: now[0]) as memory:
        memory.key("ada").short_term.set("x", 1, ttl=timedelta(seconds=9))
        assert read(memory, "x") == [1]
        now[0] += timedelta(seconds=10)
        assert read(memory, "x") == [None]


def test_what_was_forgotten_is_not_at_hand(memory: Memory):
    memory.key("ada").short_term.set("x", "secret")
    assert read(memory, "x") == ["secret"]
    memory.forget("ada")
    assert not store_of(memory)._known.trees._trees  # pyright: ignore[reportPrivateUsage] - it is RAM
    assert read(memory, "x") == [None]


def test_a_restored_store_has_the_values_of_its_backup(memory: Memory, tmp_path: Path):
    """Its last commit may have the number of the last one before."""
    key, backup = memory.key("ada"), tmp_path / "backup.db"
    key.short_term.set("x", "old")
    memory.backup(backup)
    key.short_term.set("x", "new")
    assert read(memory, "x") == ["new"]
    store_of(memory).restore(backup)
    key.short_term.set("y", 1)
    assert read(memory, "x") == ["old"]


def test_a_closed_memory_answers_nothing(path: Path):
    memory = Memory.open(path, embedder="words", durability="normal")
    memory.key("ada").short_term.set("x", 1)
    assert read(memory, "x") == [1]
    with memory.key("ada").batch() as batch:
        memory.close()
        with pytest.raises(StoreClosed):
            batch.short_term.get("x")


def test_little_is_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sql_tree, "MAX_TREES", 3)
    monkeypatch.setattr(sql_tree, "MAX_KEPT_NODES", 5)
    monkeypatch.setattr(sql_tree, "MAX_OBJECTS", 2)
    trees = RecentTrees()
    for number in range(20):
        trees.read_head(Scope("app", str(number)), 1)
        assert len(trees._trees) <= 3  # pyright: ignore[reportPrivateUsage] - what is bounded
    tree = RecentTree(1)
    for number in range(20):
        tree.keep_node((str(number),), Node(is_object=False, value=number), now=0)
        tree.keep_few((str(number),), 3, None)
        assert (len(tree.nodes) <= 5, len(tree.few) <= 2) == (True, True)
    for node in (
        Node(is_object=True),
        Node(is_object=False, value=[1]),
        Node(is_object=False, value="x" * 2_000),
        Node(is_object=False, value=1, expires=5),
    ):
        tree.keep_node(("other",), node, now=0)
        tree.keep_few(("other",), 3, {"x": node})
    assert ("other",) not in tree.nodes
    assert (("other",), 3) not in tree.few


names = st.sampled_from(["a", "b", "o.a", "o.b", "o.c", "o.d", "o.p.a"])
values = st.sampled_from([1, 2, "text", None, [1], {"in": 1}, 2.5])
steps = st.one_of(
    st.tuples(st.just("set"), names, values),
    st.tuples(st.just("delete"), st.sampled_from(["a", "o", "o.a", "o.p"]), st.none()),
    st.tuples(st.just("clear"), st.just("o"), st.none()),
    st.tuples(st.just("other"), st.sampled_from(["a", "b"]), values),
    st.tuples(st.just("outside"), names, values),
)


@settings(deadline=None)
@given(st.lists(st.lists(steps, max_size=4), max_size=12))
def test_batches_read_what_the_store_holds(tmp_path_factory, groups):
    """Whatever was known: a tree without anything at hand, of the same commit, says the same."""
    every = ["a", "b", "o.a", "o.b", "o.c", "o.d", "o.p.a"]
    place = tmp_path_factory.mktemp("trees") / "app.db"
    with Memory.open(place, embedder="words", durability="normal") as memory:
        key = memory.key("ada")
        for group in groups:
            with key.batch() as batch:
                inside = [step for step in group if step[0] in {"set", "delete", "clear"}]
                for kind, name, value in inside:
                    if kind == "set":
                        batch.short_term.set(name, value)
                    elif kind == "delete":
                        batch.short_term.delete(name)
                    elif name in batch.short_term:
                        batch.short_term.get_object(name).clear()
            for kind, name, value in group:
                if kind == "other":
                    commit_as_another(memory, Put((name,), value, None))
                elif kind == "outside":
                    key.short_term.set(name, value)
            assert read(memory, *every) == [key.short_term.get(name, None) for name in every]


def test_who_looks_at_what_was_known_sees_no_later_commit():
    """A thread may be about to look something up as another one commits."""
    tree = RecentTree(1)
    tree.keep_node(("x",), Node(is_object=False, value=1), now=0)
    later = tree.after([Put(("x",), 2, None), Put(("y",), 2, None)], 2)
    assert later is not None
    assert ([*tree.nodes], tree.nodes["x",], later.nodes["x",]) == (
        [("x",)],
        Node(is_object=False, value=1),
        Node(is_object=False, value=2),
    )
