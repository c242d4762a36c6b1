"""Strategies that misbehave: they call who asks them, never answer, or raise anything."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence

import pytest

from alveus import CompactionPlan, Compactor, Item, Memory, Merge, Trim
from alveus.errors import SetBusy, SetFull, StoreClosed, StrategyFailed, Unusable
from alveus.sets.compaction.strategies import CUSTOM, restored
from compacting import numbered, ticking
from doors import texts
from waiting import LIMIT_S, SHORT_S


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(embedder="words", clock=ticking(), wait_s=SHORT_S) as memory:
        yield memory


def first(items: Sequence[Item], _capacity: int | None = None) -> CompactionPlan:
    return CompactionPlan(retire=[str(items[0].id)])


@pytest.mark.parametrize("given", [Trim(n=1), Merge(), first])
def test_a_strategy_compacts_no_set_that_it_is_asked_about(memory: Memory, given: object) -> None:
    """It fails clearly, the set is as it was, and who has the right to compact keeps it."""
    notes = memory.key("ada").set("n")
    notes.add_many(numbered(5))

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        notes.compact(given)  # pyright: ignore[reportArgumentType]  one of several kinds
        return first(items)

    with pytest.raises(StrategyFailed) as caught:
        notes.compact(plan)
    assert isinstance(caught.value.__cause__, Unusable)
    assert texts(notes.list()) == numbered(5)

    def hushed(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        with pytest.raises(Unusable):
            notes.compact(Trim(n=1))
        return first(items)

    assert notes.compact(hushed) is not None
    assert texts(notes.list()) == numbered(4, 1)


def test_a_strategy_adds_to_other_sets_and_not_to_its_own_full_one(memory: Memory) -> None:
    """No add asks a strategy that is being asked, so that none goes round for ever."""
    ada = memory.key("ada")
    other = ada.set("other")

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        ada.set(str(items[0].metadata["to"])).add("said by a plan")
        return first(items)

    notes = ada.set("n", capacity=3, compaction=plan, execution="sync")
    notes.add_many([Item(text, metadata={"to": "other"}) for text in numbered(4)])
    assert texts(other.list()) == ["said by a plan"]
    own = ada.set("own", capacity=3, compaction=plan, execution="sync")
    own.add_many([Item(text, metadata={"to": "own"}) for text in numbered(3)])
    with pytest.raises(StrategyFailed) as caught:
        own.add("one more")
    assert isinstance(caught.value.__cause__, Unusable)
    assert texts(own.list()) == numbered(3)


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, MemoryError, GeneratorExit])
@pytest.mark.filterwarnings("error")
def test_whatever_a_strategy_raises_the_background_goes_on(
    memory: Memory, raised: type[BaseException]
) -> None:
    """The set is left alone and tried again later, others are seen to, and settle ends."""
    ada = memory.key("ada")

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        raise raised

    bad = ada.set("bad", capacity=5, compaction=plan)
    bad.add_many(numbered(6))
    assert memory.settle(LIMIT_S)
    good = ada.set("good", capacity=5, compaction=Trim(n=2))
    good.add_many(numbered(6))
    assert memory.settle(LIMIT_S)
    assert (len(bad), len(good)) == (6, 4)
    assert memory.engine.compactions.worker.failures[bad._ref].tries == 1


def test_a_strategy_ends_no_program(memory: Memory) -> None:
    """Not the agent's whose add asks it, nor a compactor that has other sets to see to."""

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        sys.exit(0)

    ada = memory.key("ada")
    notes = ada.set("n", capacity=3, compaction=plan, execution="sync")
    notes.add_many(numbered(3))
    with pytest.raises(StrategyFailed, match="SystemExit"):
        notes.add("one more")
    notes.redefine(execution="external", capacity=2)
    other = ada.set("other", capacity=3, compaction=Trim(n=2), execution="external")
    other.add_many(numbered(4))
    with pytest.raises(StrategyFailed):
        Compactor(memory).run()
    assert (len(notes), len(other)) == (3, 2)


def test_a_strategy_that_finds_another_store_closed_closes_nothing(memory: Memory) -> None:
    """Only its own store's end ends the background: what a strategy raises is its failure."""
    with Memory.open(embedder="words") as other:
        archive = other.key("ada").set("archive")

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        archive.add("gone")
        return first(items)

    ada = memory.key("ada")
    ada.set("n", capacity=5, compaction=plan).add_many(numbered(6))
    assert memory.settle(LIMIT_S)
    with pytest.raises(StrategyFailed) as caught:
        ada.set("n").compact()
    assert isinstance(caught.value.__cause__, StoreClosed)
    good = ada.set("good", capacity=5, compaction=Trim(n=2))
    good.add_many(numbered(6))
    assert memory.settle(LIMIT_S)
    assert len(good) == 4


def test_a_strategy_that_never_answers_holds_up_nobody_for_ever(memory: Memory) -> None:
    """Adds do not wait for it; twice full they wait `wait_s`, as does another compaction."""
    asked, go_on = threading.Event(), threading.Event()

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        asked.set()
        go_on.wait(LIMIT_S)
        return first(items)

    notes = memory.key("ada").set("n", capacity=5, compaction=plan)
    try:
        notes.add_many(numbered(6))
        assert asked.wait(LIMIT_S)
        notes.add_many(numbered(5, 6))
        with pytest.raises(SetFull) as caught:
            notes.add("one more")
        assert isinstance(caught.value.__cause__, SetBusy)
        with pytest.raises(SetBusy, match="another thread or process"):
            notes.compact(Trim(n=1))
        assert texts(notes.list()) == numbered(11)
    finally:
        go_on.set()
    assert memory.settle(LIMIT_S)
    notes.add("one more")


def test_a_file_makes_nothing_but_strategies(tmp_path):
    """A set names its strategy; a name that leads to a class of another kind is not called."""
    made = tmp_path / "made"
    planted = {"name": CUSTOM, "at": "subprocess:Popen", "settings": {"args": ["touch", str(made)]}}
    with pytest.raises(StrategyFailed, match="has no method plan"):
        restored(planted, {})
    assert not made.exists()
