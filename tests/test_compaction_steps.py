"""A strategy that works in steps is repeated until there is room; one that frees nothing fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

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
    Trim,
    action,
)
from alveus.errors import InvalidPlan, RunParked, SetFull, StrategyFailed
from compacting import loose, numbered
from doors import texts
from waiting import LIMIT_S

Plan = Callable[[Sequence[Item], int | None], CompactionPlan]

EXECUTIONS: list[Literal["sync", "background", "external"]] = ["sync", "background", "external"]


@pytest.fixture(params=["ram", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    path = ":memory:" if request.param == "ram" else tmp_path / "m.db"
    with Memory.open(path, embedder="words", wait_s=LIMIT_S) as memory:
        yield memory


def five_oldest(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    """Retire a few, whatever there is to do."""
    return CompactionPlan(retire=[str(item.id) for item in items[:5]])


def newest_stay(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    """Retire what is over the capacity that is told, and no more."""
    return CompactionPlan(retire=[str(item.id) for item in items[: len(items) - (capacity or 0)]])


def two_as_one(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    return CompactionPlan(add=[Derived([str(item.id) for item in items[:2]], "both")])


STEPS: list[Plan | Trim] = [five_oldest, newest_stay, two_as_one, Trim(n=5)]


def nothing(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    return CompactionPlan()


def as_many(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    return CompactionPlan(add=[Derived([str(item.id)], "it again") for item in items])


def none_at_all(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    return loose(None)


def a_stranger(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    return CompactionPlan(retire=["nobody"])


def raises(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
    raise ValueError(capacity)


BAD: list[tuple[Plan, type[Exception], str]] = [
    (nothing, SetFull, "retires nothing"),
    (as_many, SetFull, "are as large"),
    (none_at_all, InvalidPlan, "not a NoneType"),
    (a_stranger, InvalidPlan, "which is not in the set"),
    (raises, StrategyFailed, "raised ValueError"),
]


@pytest.mark.parametrize("strategy", STEPS)
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_steps_are_repeated_until_there_is_room(
    memory: Memory, strategy: Plan | Trim, execution: Literal["sync", "background", "external"]
) -> None:
    """However many items come at once, and however few a step takes, adds go on."""
    ada = memory.key("ada")
    notes = ada.set("n", capacity=10, compaction=strategy, execution=execution)
    notes.add_many(numbered(16))
    for number in range(16, 40):
        notes.add(f"note {number}")
    with ada.batch() as batch:
        batch.set("n").add_many(numbered(16, start=40))
        batch.add("elsewhere")
    assert memory.settle(wait_s=LIMIT_S)
    if execution == "external":
        assert Compactor(memory).run() > 0
    assert len(notes) <= 10
    assert texts(notes.recent(1)) == ["note 55"]


@pytest.mark.parametrize("strategy", STEPS)
def test_a_smaller_capacity_is_reached_by_the_next_add(
    memory: Memory, strategy: Plan | Trim
) -> None:
    """Whatever a set held before it was given a capacity, the next add finds room."""
    notes = memory.key("ada").set("n", compaction=strategy)
    notes.add_many(numbered(30))
    notes.redefine(capacity=10, execution="sync")
    notes.add("one more")
    assert len(notes) <= 10
    assert texts(notes.recent(1)) == ["one more"]
    for done in notes.compactions():
        notes.undo(done.id)
    assert len(notes) == 31


def redefined(memory: Memory, plan: Plan) -> MemorySet:
    notes = memory.key("ada").set("n", compaction=plan)
    notes.add_many(numbered(30))
    notes.redefine(capacity=10, execution="sync")
    return notes


@pytest.mark.parametrize(("plan", "error", "says"), BAD)
def test_a_strategy_that_makes_no_room_fails_the_add(
    memory: Memory, plan: Plan, error: type[Exception], says: str
) -> None:
    """The add says which strategy of which set made no room, and why; nothing has changed."""
    notes = redefined(memory, plan)
    before = notes.list()
    for _ in range(2):
        with pytest.raises(error, match=says) as failed:
            notes.add("one more")
    with pytest.raises(error, match=says), memory.key("ada").batch() as batch:
        batch.set("n").add_many(["one", "more"])
    for part in (f"{plan.__module__}:{plan.__qualname__}", "set 'n'", "redefine()"):
        assert part in str(failed.value)
    assert notes.list() == before
    notes.redefine(compaction=Trim())
    notes.add("one more")
    assert len(notes) <= 10


@pytest.mark.parametrize(("plan", "error", "says"), BAD)
def test_a_set_twice_full_says_why_its_strategy_fails(
    memory: Memory, plan: Plan, error: type[Exception], says: str
) -> None:
    """In the background it is the add that finds the set twice full which says so."""
    notes = memory.key("ada").set("n", capacity=10, compaction=plan)
    notes.add_many(numbered(21))
    with pytest.raises(SetFull, match=says) as failed:
        notes.add("one more")
    for part in (f"{plan.__module__}:{plan.__qualname__}", "set 'n'", "redefine()"):
        assert part in str(failed.value)
    assert error is SetFull or isinstance(failed.value.__cause__, error)
    assert len(notes) == 21


@pytest.mark.parametrize(("plan", "error", "says"), BAD)
def test_a_compactor_says_why_a_strategy_fails(
    memory: Memory, plan: Plan, error: type[Exception], says: str
) -> None:
    """A process of its own says so, and leaves the set as it is; others are compacted."""
    ada = memory.key("ada")
    notes = ada.set("n", capacity=10, compaction=plan, execution="external")
    notes.add_many(numbered(21))
    ada.set("o", capacity=10, compaction=Trim(n=5), execution="external").add_many(numbered(21))
    with pytest.raises(error, match=says):
        Compactor(memory).run()
    assert (len(notes), len(ada.set("o"))) == (21, 6)


def test_endless_progress_has_an_end(memory: Memory) -> None:
    """A strategy that frees a byte at a time, and never room, is given up after a while."""
    asked: list[int] = []

    def shorter(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        asked.append(len(items))
        first = items[0]
        return CompactionPlan(add=[Derived([str(first.id)], str(first.text)[:-1])])

    def swings(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        asked.append(len(items))
        longer = "a " * 900 if len(asked) % 2 else "a" * 900
        return CompactionPlan(add=[Derived([str(items[0].id)], longer)])

    for plan in (shorter, swings):
        notes = memory.key("ada").set(plan.__name__, compaction=plan)
        notes.add("x" * 1_000)
        notes.redefine(capacity_bytes=100, capacity_tokens=100, execution="sync")
        with pytest.raises(SetFull, match=r"too little|are as large"):
            notes.add("one more")
    assert len(asked) < 250
    notes = memory.key("ada").set("short", capacity=10, compaction=shorter)
    notes.add_many(numbered(21))
    assert memory.settle(wait_s=LIMIT_S)
    assert len(asked) < 300


def test_an_action_makes_room_in_steps(memory: Memory) -> None:
    """In a run it is the same; a strategy that makes none parks it, with the same error."""

    class Notes(Agent):
        @action(InputEvent)
        def note(self, event: InputEvent, ctx: RunnerContext) -> None:
            ctx.long_term_memory.get_memory_set("n").add_many(numbered(16))

    notes = redefined(memory, five_oldest)
    with LocalRunner(Notes(), memory, name="n") as runner:
        runner.handle("ada", "go")
        assert len(notes) <= 10
        notes.redefine(compaction=nothing)
        with pytest.raises(RunParked, match="retires nothing"):
            runner.handle("ada", "go")
    assert memory.settle(wait_s=LIMIT_S)
