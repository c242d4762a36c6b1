"""Compaction, as a user of sets sees it: when it is done, by whom, and what it leaves."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest

from alveus import (
    Agent,
    CompactionPlan,
    Compactor,
    Derived,
    InputEvent,
    Item,
    LocalRunner,
    Memory,
    MemorySet,
    RunnerContext,
    Summarize,
    Trim,
    action,
)
from alveus.compat.flink_agents import ChatMessage, DatetimeRange, LongTermMemory
from alveus.errors import InvalidPlan, SetFull, StrategyFailed
from compacting import loose, numbered, ticking, whole
from doors import START, Clock, texts
from scale import COUNTS
from waiting import LIMIT_S


@pytest.fixture
def clock() -> Clock:
    return ticking()


@pytest.fixture
def embedder() -> str:
    return "static"


# --- the vectors of the documents -------------------------------------------------------------


def test_l1_trims_ten_of_a_full_set(memory: Memory) -> None:
    """L1: capacity 100, trim 10, 120 adds leave exactly 20 to 119, in order."""
    notes = memory.key("ada").set("n", capacity=100, compaction=Trim(n=10), execution="sync")
    for text in numbered(120):
        notes.add(text)
    assert texts(notes.list()) == numbered(100, 20)


def test_l2_and_l3_sum_up_and_undo(memory: Memory) -> None:
    """L2: 82 items, the first of which reaches 0 to 38. L3: two undos bring all back."""
    notes = memory.key("ada").set("n", capacity=100, compaction=Summarize(n=20), execution="sync")
    before = []
    for text in numbered(120):
        item_id = notes.add(text)
        before.append(notes.list(newest_first=True, limit=1)[0])
        assert before[-1].id == item_id
    items = notes.list()
    assert len(items) == 82
    summary = items[0]
    assert summary.compacted
    assert summary.until is not None
    assert summary.time == before[0].time
    assert summary.until == before[38].time
    assert texts(items[1:]) == numbered(81, 39)
    reached = {node.text for node in notes.lineage(str(summary.id)).nodes if not node.compacted}
    assert reached == set(numbered(39))
    for done in notes.compactions():
        notes.undo(done.id)
    assert whole(notes.list()) == whole(before)


@pytest.mark.parametrize("way", ["batch", "action", "many"])
def test_one_commit_leaves_what_many_would(memory: Memory, way: str) -> None:
    """120 adds of one action, batch or call give L1 and L2 exactly, in one commit."""
    strategies = {"trim": Trim(n=10), "sum": Summarize(n=20)}

    def fill(name: str, notes: MemorySet) -> None:
        if way == "many":
            notes.add_many(numbered(120))
        else:
            for text in numbered(120):
                notes.add(text)
            assert len(notes) == {"trim": 100, "sum": 82}[name], "what the action itself reads"

    for name, strategy in strategies.items():
        if way == "many":
            fill(
                name,
                memory.key("ada").set(name, capacity=100, compaction=strategy, execution="sync"),
            )
        elif way == "batch":
            with memory.key("ada").batch() as b:
                fill(name, b.set(name, capacity=100, compaction=strategy, execution="sync"))
        else:
            run_once(
                memory,
                lambda ctx, n=name, s=strategy: fill(
                    n, ctx.long_term_memory.set(n, capacity=100, compaction=s, execution="sync")
                ),
            )
    ada = memory.key("ada")
    assert texts(ada.set("trim").list()) == numbered(100, 20)
    summary, *rest = ada.set("sum").list()
    assert texts(rest) == numbered(81, 39)
    assert summary.until is not None
    assert summary.time is not None
    assert summary.time < summary.until
    first, second = ada.set("sum").compactions()
    assert first.commit == second.commit
    for done in (first, second):
        ada.set("sum").undo(done.id)
    assert texts(ada.set("sum").list()) == numbered(120)


def run_once(memory: Memory, act: object) -> None:
    class Once(Agent):
        name = "once"

        @action(InputEvent)
        @staticmethod
        def go(event: InputEvent, ctx: RunnerContext) -> None:
            loose(act)(ctx)

    with LocalRunner(Once(), memory=memory) as runner:
        runner.handle("ada", None)


def test_l1_and_l2_through_the_names_of_flink_agents(memory: Memory) -> None:
    """The published calls keep L1 and L2; a compacted item has a range of times."""
    long_term = LongTermMemory(memory.key("ada"))
    trimmed = long_term.get_or_create_memory_set("t", str, 100, Trim(n=10))
    summed = long_term.get_or_create_memory_set("s", ChatMessage, 100, Summarize(n=20))
    for n in range(120):
        trimmed.add(f"note {n}")
        summed.add(ChatMessage("user" if n % 2 else "assistant", f"note {n}"))
    assert [item.value for item in trimmed.get()] == numbered(100, 20)
    items = summed.get()
    assert len(items) == summed.size == 82
    created = items[0].created_time
    assert items[0].compacted
    assert isinstance(created, DatetimeRange)
    assert created.start < created.end <= items[0].last_accessed_time
    assert isinstance(items[0].value, ChatMessage)
    assert [item.value.content for item in items[1:]] == numbered(81, 39)


def test_l4_what_stands_for_others_was_read_when_they_were(memory: Memory) -> None:
    """G-17: a derived item was accessed when the last of its sources was."""
    notes = memory.key("ada").set("n")
    notes.add_many([Item(text, id=text) for text in numbered(6)])
    notes.search("note", limit=6)
    read = notes.list()[0].accessed
    notes.compact(Summarize(n=3))
    (summary,) = [item for item in notes.list() if item.compacted]
    assert summary.accessed == read is not None


def test_what_stands_for_others_was_read_when_the_last_of_them_was(memory: Memory) -> None:
    """What is used stays: one source that was read lately is enough."""
    notes = memory.key("ada").set("n")
    notes.add_many([Item(text, id=text) for text in numbered(4)])
    notes.get("note 2")
    notes.get("note 0")
    read = {item.id: item.accessed for item in notes.list()}
    notes.compact(Summarize(n=3))
    assert notes.list()[0].accessed == read["note 0"]
    assert read["note 0"] is not None
    assert read["note 2"] is not None
    assert read["note 0"] > read["note 2"]


def test_l5_a_plan_that_names_a_stranger_changes_nothing(memory: Memory) -> None:
    """L5: a user's strategy that returns an unknown id is an error, and nothing is changed."""

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        return CompactionPlan(retire=["nobody"])

    notes = memory.key("ada").set("n", capacity=3, compaction=plan, execution="sync")
    ids = [notes.add(text) for text in numbered(3)]
    with pytest.raises(InvalidPlan, match="'nobody', which is not in the set"):
        notes.add("one more")
    assert [item.id for item in notes.list()] == ids
    assert notes.compactions() == []


def test_l6_what_is_added_meanwhile_is_kept(memory: Memory) -> None:
    """L6: what is added while a compaction is being planned is kept, as itself."""
    notes = memory.key("ada").set("n", capacity=10, compaction=Trim(n=2))

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        if len(notes) == 5:
            notes.add("meanwhile")
        return CompactionPlan(add=[Derived([str(i.id) for i in items[:3]], "three")])

    notes.add_many(numbered(5))
    notes.compact(plan)
    assert texts(notes.list()) == ["three", *numbered(2, 3), "meanwhile"]


def test_an_item_that_changes_meanwhile_is_planned_anew(memory: Memory) -> None:
    """What a plan was made of and changed since is never retired unseen."""
    notes = memory.key("ada").set("n")
    ids = notes.add_many(numbered(4))
    seen: list[list[str | None]] = []

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        seen.append(texts(items))
        if len(seen) == 1:
            notes.update(ids[0], "changed")
        return CompactionPlan(add=[Derived(ids[:2], " and ".join(str(i.text) for i in items[:2]))])

    notes.compact(plan)
    assert len(seen) == 2
    assert texts(notes.list())[0] == "changed and note 1"


# --- in the background ------------------------------------------------------------------------


def test_the_background_ends_where_the_add_would(memory: Memory) -> None:
    """However late the background comes, taking n at a time ends at the same items."""
    notes = memory.key("ada").set("n", capacity=100, compaction=Trim(n=10))
    for text in numbered(120):
        notes.add(text)
    assert memory.settle(LIMIT_S)
    assert texts(notes.list()) == numbered(100, 20)


def test_without_n_a_set_is_brought_to_its_low_water_mark(memory: Memory) -> None:
    """At nine tenths of its capacity it is brought down to seven tenths."""
    notes = memory.key("ada").set("n", capacity=100, compaction=Trim())
    notes.add_many(numbered(90))
    assert memory.settle(LIMIT_S)
    assert len(notes) == 90
    notes.add("note 90")
    assert memory.settle(LIMIT_S)
    assert texts(notes.list()) == numbered(70, 21)


def test_room_is_made_for_what_is_to_come(memory: Memory) -> None:
    """Without n, the set is at its low-water mark with what is added, however large that is."""
    notes = memory.key("ada").set("n", capacity=10, compaction=Trim(), execution="sync")
    for text in numbered(11):
        notes.add(text)
    assert texts(notes.list()) == numbered(7, 4)
    sized = memory.key("ada").set("s", capacity_bytes=1000, compaction=Trim(), execution="sync")
    small = "x" * 98  # and two bytes of metadata
    for _ in range(10):
        sized.add(small)
    assert len(sized) == 10
    sized.add("y" * 480)
    assert len(sized) == 3


def test_twice_full_the_one_who_adds_compacts(ram: Memory) -> None:
    """At twice its capacity the next add waits until there is room; if there is none, it fails."""
    calls = threading.Semaphore(0)

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        if threading.current_thread().name == "alveus-compaction":
            calls.acquire()
        return CompactionPlan(retire=[str(i.id) for i in items[: len(items) - 2]])

    notes = ram.key("ada").set("n", capacity=10, compaction=plan)
    notes.redefine(compaction=Trim(n=1, by="importance"))
    notes.redefine(compaction=plan)
    notes.add_many(numbered(30))
    calls.release(1000)
    notes.add("one more")
    assert ram.settle(LIMIT_S)
    assert len(notes) <= 10


def test_where_no_room_can_be_made_the_add_fails_clearly(ram: Memory) -> None:
    """Twice full and a strategy that fails: the add is refused, and says why."""

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        raise ValueError

    notes = ram.key("ada").set("n", capacity=10, compaction=plan)
    notes.add_many(numbered(30))
    with pytest.raises(SetFull, match="makes no room") as caught:
        notes.add("one more")
    assert isinstance(caught.value.__cause__, StrategyFailed)
    assert len(notes) == 30


def test_a_failure_leaves_the_set_and_is_told(
    ram: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed compaction changes nothing, is logged, and does not hold up settle."""

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        raise ValueError

    notes = ram.key("ada").set("n", capacity=10, compaction=plan)
    with caplog.at_level(logging.WARNING):
        notes.add_many(numbered(12))
        assert ram.settle(LIMIT_S)
    assert texts(notes.list()) == numbered(12)
    assert "the set is unchanged: StrategyFailed" in caplog.text


# --- a process of its own ---------------------------------------------------------------------


def test_a_compactor_sees_to_what_is_left_to_it(memory: Memory) -> None:
    """L7, in one process: execution="external" is left alone until a compactor comes."""
    ada = memory.key("ada")
    notes = ada.set("n", capacity=100, compaction=Trim(n=10), execution="external")
    own = ada.set("own", capacity=100, compaction=Trim(n=10), execution="sync")
    for text in numbered(120):
        notes.add(text)
        own.add(text)
    assert memory.settle(LIMIT_S)
    assert len(notes) == 120
    assert [info.ref.name for info in Compactor(memory).due()] == ["n"]
    assert Compactor(memory).run() == 2
    assert texts(notes.list()) == numbered(100, 20)
    assert notes.compactions()[0].by == "external"


def test_a_compactor_is_missed_only_when_it_was_not_seen_for_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that was at work lately is there; one that was not for ten minutes is not."""
    now = [START]
    with (
        Memory.open(embedder="words", clock=lambda: now[0]) as memory,
        caplog.at_level(logging.WARNING),
    ):
        assert Compactor(memory).run() == 0
        for name, later, told in (("a", 9, False), ("b", 11, True)):
            now[0] = START + timedelta(minutes=later)
            notes = memory.key("ada").set(
                name, capacity=4, compaction=Trim(n=1), execution="external"
            )
            notes.add_many(numbered(7))
            assert (f"set {name!r} holds more than" in caplog.text) is told


def test_an_overflowing_set_without_a_compactor_is_told_of_once(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """G-18: half too much and no compactor in sight: once in the log."""
    notes = memory.key("ada").set("n", capacity=10, compaction=Trim(n=5), execution="external")
    with caplog.at_level(logging.WARNING):
        for text in numbered(20):
            notes.add(text)
    assert caplog.text.count("no compactor was seen lately") == 1
    Compactor(memory).run()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        notes.add_many(numbered(20))
    assert "no compactor" not in caplog.text
    assert COUNTS.kills
