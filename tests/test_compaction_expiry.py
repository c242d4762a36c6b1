"""What has expired is no part of a compaction: it takes no room, and is in no summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from alveus import Item, Memory, Merge, Summarize, Trim
from alveus.memory.compactor import Compactor
from alveus.sets.compaction import CompactionPlan
from alveus.store.scope import Scope, SetRef
from compacting import numbered
from doors import START, Clock, texts
from waiting import LIMIT_S

SOON, LATER = START + timedelta(hours=1), START + timedelta(hours=2)


@pytest.fixture(params=["ram", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "ram" else str(tmp_path / "app.db")


@pytest.fixture
def clock() -> Clock:
    return Clock(step=timedelta(0))


@pytest.fixture
def memory(place: str, clock: Clock) -> Iterator[Memory]:
    with Memory.open(place, embedder="words", clock=clock) as memory:
        yield memory


def brief(count: int) -> list[Item]:
    """Items that are over soon."""
    return [Item(f"brief {n}", expire_at=SOON) for n in range(count)]


STRATEGIES = (Trim(n=1), Summarize(n=2), Merge())


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
def test_a_full_set_of_expired_items_takes_what_is_added(
    memory: Memory, clock: Clock, strategy: Trim | Summarize | Merge
) -> None:
    """One by one and in a batch: nothing that lives goes for what is over."""
    notes = memory.key("ada").set("n", capacity=5, compaction=strategy, execution="sync")
    notes.add_many([*brief(4), "lives"])
    clock.elapse(hours=2)
    with memory.key("ada").batch() as batch:
        for text in numbered(2):
            batch.set("n").add(text)
    notes.add("and another")
    assert {*texts(notes.list())} == {"lives", *numbered(2), "and another"}
    assert notes.compactions() == []


@pytest.mark.parametrize("what", ["bytes", "tokens"])
def test_room_in_bytes_and_tokens_is_that_of_what_lives(
    memory: Memory, clock: Clock, what: str
) -> None:
    """A batch makes no room that is there already."""
    notes = memory.key("ada").set("n")
    notes.add_many([*brief(4), "lives"])
    held = memory.store.set_info(SetRef(Scope("default", "ada"), "n"))
    assert held is not None
    if what == "bytes":
        notes.redefine(capacity_bytes=held.bytes, compaction=Trim(n=1), execution="sync")
    else:
        notes.redefine(capacity_tokens=held.tokens, compaction=Trim(n=1), execution="sync")
    clock.elapse(hours=2)
    with memory.key("ada").batch() as batch:
        batch.set("n").add("one more")
    assert texts(notes.list()) == ["lives", "one more"]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
def test_a_set_of_expired_items_alone_has_nothing_to_compact(
    memory: Memory, clock: Clock, strategy: Trim | Summarize | Merge
) -> None:
    """Asked for, or by a process of its own: nothing is done, and nobody goes on trying."""
    notes = memory.key("ada").set("n", capacity=5, compaction=strategy, execution="external")
    notes.add_many(brief(9))
    clock.elapse(hours=2)
    compactor = Compactor(memory)
    assert list(compactor.due()) == []
    assert compactor.run() == 0
    assert notes.compact() is None


def test_a_compaction_takes_no_more_than_what_lives_is_too_much(
    memory: Memory, clock: Clock
) -> None:
    """Down to the low-water mark of living items, however many expired ones are there."""
    notes = memory.key("ada").set("n", capacity=6, compaction=Trim(), execution="external")
    notes.add_many([*brief(9), *(Item(text) for text in numbered(4))])
    clock.elapse(hours=2)
    assert notes.compact() is None
    assert texts(notes.list()) == numbered(4)


def test_no_summary_says_what_has_expired(memory: Memory, clock: Clock) -> None:
    """Neither of alveus nor of a strategy of one's own, which is not shown it."""
    shown: list[list[str | None]] = []

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        _ = capacity
        shown.append(texts(items))
        return CompactionPlan()

    notes = memory.key("ada").set("n", capacity=20, execution="external")
    notes.add_many([*brief(3), *(Item(text) for text in numbered(4))])
    clock.elapse(hours=2)
    assert notes.compact(plan) is None
    assert shown == [numbered(4)]
    done = notes.compact(Summarize(n=4))
    assert done is not None
    (made,) = notes.list()
    assert "brief" not in str(made.text)
    assert texts(notes.sources(str(made.id))) == numbered(4)


def test_a_set_twice_full_of_expired_items_lets_go_on(memory: Memory, clock: Clock) -> None:
    """Whoever adds does not wait for a compaction that has nothing to do."""
    notes = memory.key("ada").set("n", capacity=4, compaction=Summarize(n=2))
    notes.add_many(brief(12))
    assert memory.settle(LIMIT_S)
    clock.elapse(hours=2)
    notes.add("lives")
    assert texts(notes.list()) == ["lives"]
