"""Definitions that compact a set, undo, and where items come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from alveus import CompactionPlan, Derived, Item, Memory, Merge, Summarize, Trim
from alveus.errors import (
    CompactionChanged,
    InvalidInput,
    NotFound,
    SetDefinitionConflict,
    StrategyFailed,
    Unusable,
)
from alveus.testing import Clock
from alveus.transfer import export_lines, import_file
from compacting import loose, numbered, ticking
from doors import texts

if TYPE_CHECKING:
    from alveus.sets.compaction import Compacted


@pytest.fixture
def clock() -> Clock:
    return ticking()


@pytest.fixture
def embedder() -> str:
    return "static"


# --- definitions ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keep:
    """A strategy of a user's, with a setting, that other processes can import."""

    last: int = 2

    def plan(self, items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        return CompactionPlan(retire=[str(item.id) for item in items[: -self.last]])


def keep_one(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    return CompactionPlan(retire=[str(item.id) for item in items[:-1]])


@pytest.mark.parametrize("strategy", [Keep(last=3), Keep(), keep_one, Trim(n=2), Summarize(n=3)])
def test_a_strategy_is_kept_with_its_set(tmp_path: Path, strategy: object) -> None:
    """Another process that opens the file compacts with the strategy that the set was given."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="static") as memory:
        notes = memory.key("ada").set(
            "n", capacity=20, compaction=loose(strategy), execution="external"
        )
        notes.add_many(numbered(8))
    with Memory.open(path, embedder="static") as memory:
        memory.key("ada").set("n", compaction=loose(strategy))
        notes = memory.key("ada").set("n")
        assert notes.compact() is not None
        assert len(notes) == {
            Keep(last=3): 3, Keep(): 2, keep_one: 1, Trim(n=2): 6, Summarize(n=3): 6
        }[loose(strategy)]  # fmt: skip


def test_a_strategy_without_a_name_says_so_elsewhere(tmp_path: Path) -> None:
    """A lambda serves the process that opened the set with it; others leave the set alone."""
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="static") as memory:
        notes = memory.key("ada").set(
            "n",
            capacity=20,
            compaction=lambda items, _capacity: CompactionPlan(retire=[str(items[0].id)]),
            execution="external",
        )
        notes.add_many(numbered(3))
        assert notes.compact() is not None
    with Memory.open(path, embedder="static") as memory:
        notes = memory.key("ada").set("n")
        with pytest.raises(StrategyFailed, match="no name that this process can import"):
            notes.compact()
        assert len(notes) == 2


@pytest.mark.parametrize(
    "bad",
    [
        {"compaction": "shrink"},
        {"compaction": 7},
        {"compaction": Trim},
        {"execution": "later"},
        {"high_water": 0},
        {"high_water": 1.5},
        {"low_water": 0.95},
        {"low_water": True},
        {"retention": "forever"},
        {"retention": timedelta(0)},
        {"capacity_tokens": -1},
        {"capacity": 5, "compaction": Summarize(n=9, limit=5)},
    ],
)
def test_a_definition_is_checked(ram: Memory, bad: dict[str, object]) -> None:
    """What cannot be is refused as the set is opened, and as it is redefined."""
    with pytest.raises(InvalidInput):
        ram.key("ada").set("n", **loose(bad))
    notes = ram.key("ada").set("m")
    notes.add("one")
    with pytest.raises(InvalidInput):
        notes.redefine(**loose(bad))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Trim(n=0),
        lambda: Trim(by=loose("age")),
        lambda: Trim(recency=-1),
        lambda: Trim(half_life=timedelta(0)),
        lambda: Summarize(n=1),
        lambda: Summarize(n=3, limit=3),
        lambda: Summarize(limit=0),
        lambda: Summarize(max_tokens=1),
        lambda: Summarize(model=loose("maybe")),
        lambda: Merge(threshold=0.1),
        lambda: Merge(otherwise=loose("trim")),
    ],
)
def test_a_strategy_is_checked_as_it_is_made(make: object) -> None:
    """Settings that make no sense are refused at once."""
    with pytest.raises(InvalidInput):
        loose(make)()


def test_another_strategy_is_a_conflict(ram: Memory) -> None:
    """A set that exists keeps its definition until it is redefined."""
    notes = ram.key("ada").set("n", capacity=9, compaction=Trim(n=2))
    notes.add("one")
    with pytest.raises(SetDefinitionConflict):
        ram.key("ada").set("n", compaction=Trim(n=3))
    notes.redefine(compaction=Merge(threshold=0.8, otherwise=Trim(n=2)), execution="sync")
    ram.key("ada").set("n", compaction=Merge(threshold=0.8, otherwise=Trim(n=2)))


def test_knowledge_is_not_managed(ram: Memory) -> None:
    """G-13: knowledge takes no capacity, compaction or retention, and says why."""
    for refused in ({"capacity": 9}, {"compaction": Trim()}, {"retention": "purge"}):
        with pytest.raises(InvalidInput, match="since only explicit calls"):
            ram.knowledge.set("k", **loose(refused))
    rules = ram.knowledge.set("k")
    rules.add("one")
    with pytest.raises(InvalidInput, match="since only explicit calls"):
        rules.redefine(capacity=3)
    with pytest.raises(InvalidInput, match="since only explicit calls"):
        rules.compact(Trim(n=1))


# --- undo and lineage -------------------------------------------------------------------------


def test_an_undo_says_why_it_cannot(memory: Memory) -> None:
    """Undone, edited, recompacted, of another set, or unknown: each has its message."""
    notes = memory.key("ada").set("n")
    notes.add_many(numbered(6))
    first = notes.compact(Summarize(n=3))
    second = notes.compact(Summarize(n=3))
    assert first is not None
    assert second is not None
    with pytest.raises(CompactionChanged, match=f"compacted again by {second.id}; undo that first"):
        notes.undo(first.id)
    assert notes.undo(second.id).removed == second.added
    with pytest.raises(CompactionChanged, match="was undone by commit"):
        notes.undo(second.id)
    notes.update(first.added[0], "edited")
    with pytest.raises(CompactionChanged, match="has changed since"):
        notes.undo(first.id)
    with pytest.raises(NotFound, match="has no compaction"):
        notes.undo(7)
    with pytest.raises(NotFound, match="has no compaction"):
        memory.key("ada").set("other").undo(first.id)


def test_inside_a_batch_nothing_is_undone(memory: Memory) -> None:
    """A batch makes room by itself; compact and undo are calls of their own."""
    notes = memory.key("ada").set("n")
    notes.add_many(numbered(3))
    done = notes.compact(Trim(n=1))
    assert done is not None
    with memory.key("ada").batch() as b:
        with pytest.raises(Unusable):
            b.set("n").undo(done.id)
        with pytest.raises(Unusable):
            b.set("n").compact(Trim(n=1))


def test_a_lineage_is_drawn_to_any_depth(memory: Memory) -> None:
    """The graph says what is live, and its text is a tree."""
    notes = memory.key("ada").set("n")
    notes.add_many([Item(f"note {n}", id=f"i{n}") for n in range(4)])
    notes.compact(lambda _i, _c: CompactionPlan(add=[Derived(["i0", "i1"], "first")]))
    (first,) = [item for item in notes.list() if item.compacted]
    notes.compact(lambda _i, _c: CompactionPlan(add=[Derived([str(first.id), "i2"], "all")]))
    (top,) = [item for item in notes.list() if item.compacted]
    graph = notes.lineage(str(top.id))
    assert graph.depth == 2
    assert {node.text for node in graph.sources(graph.root)} == {"first", "note 2"}
    assert [node.retired for node in graph.nodes] == [False, True, True, True, True]
    drawn = graph.text().splitlines()
    assert drawn[0] == f"{top.id}  all  [compacted]"
    assert (
        drawn.count("│  ├─ i0  note 0  [retired]") + drawn.count("   ├─ i0  note 0  [retired]") == 1
    )
    assert [item.id for item in notes.sources(str(first.id))] == ["i0", "i1"]
    assert all(item.retired for item in notes.sources(str(first.id)))
    assert notes.sources("i3") == []
    with pytest.raises(NotFound):
        notes.lineage("nobody")


def test_listeners_hear_of_compactions(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    """After the commit, with ids that undo takes; who raises is dropped."""
    heard: list[Compacted] = []
    end = memory.on_compaction(heard.append)

    def broken(_done: Compacted) -> None:
        raise ValueError

    memory.on_compaction(broken)
    notes = memory.key("ada").set("n", capacity=3, compaction=Trim(n=2), execution="sync")
    for text in numbered(6):
        notes.add(text)
    assert [len(done.retired) for done in heard] == [2, 2]
    assert [done.id for done in heard] == [done.id for done in reversed(notes.compactions())]
    assert caplog.text.count("a listener raised, and was dropped") == 1
    end()
    notes.compact()
    assert len(heard) == 2


def test_a_definition_is_exported_and_imported(tmp_path: Path) -> None:
    """The line of a set says all of its definition; an import gives a set just that."""
    definitions: list[dict[str, object]] = [
        {"capacity": 9, "compaction": Summarize(n=4, limit=2), "execution": "external"},
        {"capacity": 9, "compaction": Trim(n=4), "high_water": 0.9, "retention": "purge"},
        {"compaction": Merge(threshold=0.8, otherwise=Trim()), "capacity_tokens": 70},
        {"capacity_bytes": 900, "compaction": keep_one, "retention": timedelta(days=3)},
        {"capacity": 3, "compaction": Keep(last=1), "execution": "sync", "low_water": 0.5},
        {"capacity": 3, "compaction": "reject"},
    ]
    with Memory.open(embedder="words") as memory:
        for number, given in enumerate(definitions):
            memory.key("ada").set(f"n{number}", **loose(given)).add("one")
        kept = [memory.key("ada").set(f"n{n}").definition for n in range(len(definitions))]
        (tmp_path / "out.jsonl").write_text("\n".join(export_lines(memory)), encoding="utf-8")
    with Memory.open(embedder="words") as memory:
        import_file(memory, tmp_path / "out.jsonl")
        found = [memory.key("ada").set(f"n{n}").definition for n in range(len(definitions))]
    assert found == kept


def test_each_compaction_of_a_commit_is_purged(memory: Memory) -> None:
    """Several of one batch: none is undone in part, and each says why."""
    ada = memory.key("ada")
    how = {"compaction": Trim(n=2), "execution": "sync", "retention": "purge"}
    with ada.batch() as batch:
        notes = batch.set("n", capacity=3, **loose(how))
        for text in numbered(8):
            notes.add(text)
    done = ada.set("n").compactions()
    assert len({found.commit for found in done}) == 1
    assert len(done) == 3
    ada.set("n").add("later")
    memory.sweep()
    for found in done:
        with pytest.raises(CompactionChanged, match="were purged"):
            ada.set("n").undo(found.id)


def test_what_was_added_anew_under_its_id_is_not_brought_back(memory: Memory) -> None:
    """The undo says so, and changes nothing; it can be done once that item is gone."""
    notes = memory.key("ada").set("n")
    notes.add_many([Item(text, id=text) for text in numbered(4)])
    done = notes.compact(Trim(n=2))
    assert done is not None
    notes.add("another", id="note 1")
    with pytest.raises(CompactionChanged, match="the set has an item 'note 1' again"):
        notes.undo(done.id)
    assert texts(notes.list()) == [*numbered(2, 2), "another"]
    notes.delete("note 1")
    notes.undo(done.id)
    assert texts(notes.list()) == numbered(4)


class ClockThatForgets(Clock):
    """A clock that has something done when it is looked at next."""

    then: Callable[[], object] | None = None

    def __call__(self) -> datetime:
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().__call__()


@pytest.mark.parametrize("place", ["ram", "file"])
def test_an_undo_names_nothing_that_was_forgotten_while_it_was_made(
    tmp_path: Path, place: str
) -> None:
    """Its answer is kept, with its idempotency key, and would be told to whoever repeats it."""
    clock, url = ClockThatForgets(), ":memory:" if place == "ram" else tmp_path / "app.db"
    with Memory.open(url, embedder="words", clock=clock) as memory:
        notes = memory.key("ada").set("n")
        notes.add_many([Item(text, id=text) for text in numbered(4)])
        done = notes.compact(Trim(n=2))
        assert done is not None
        clock.then = lambda: notes.forget("note 1")
        answer = notes.undo(done.id, idempotency_key="undo")
        assert (answer.restored, answer.erased) == (("note 0",), 1)
        assert notes.undo(done.id, idempotency_key="undo") == answer
        last = memory.store.effects(memory.store.stats().commits)
        assert "note 0" in repr(last)
        assert "note 1" not in repr(last)
