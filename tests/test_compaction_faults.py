"""Faults of earlier compactions, elsewhere, that alveus does not have; and the model's part."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alveus import (
    Agent,
    AsyncMemory,
    CompactionPlan,
    Compactor,
    Derived,
    InputEvent,
    Item,
    LocalRunner,
    Memory,
    RunnerContext,
    Summarize,
    Trim,
    action,
)
from alveus.errors import (
    InvalidInput,
    ModelUnavailable,
    NotFound,
    SetBusy,
    SetFull,
    StaleRun,
    StrategyFailed,
)
from alveus.llm import ScriptedChat
from alveus.memory.compactor import Look
from alveus.sets.compaction import executor
from alveus.sets.compaction.executor import LEASE
from alveus.sets.compaction.planning import MODEL_STEP
from alveus.store.scope import Scope
from alveus.store.sqlite import SqliteStore
from compacting import loose, numbered, ticking
from doors import texts
from waiting import LIMIT_S, SHORT_S, wait_until


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(embedder="static", clock=ticking()) as memory:
        yield memory


def test_a_summary_never_sets_off_the_next(memory: Memory) -> None:
    """As many summaries as the set may hold are refused; just below that, every add ends."""
    with pytest.raises(InvalidInput, match="must be below the capacity"):
        memory.key("ada").set("n", capacity=4, compaction=Summarize(n=5, limit=4))
    notes = memory.key("ada").set(
        "m", capacity=4, compaction=Summarize(n=4, limit=3), execution="sync"
    )
    for text in numbered(12):
        notes.add(text)
    assert len(notes) <= 4


def test_items_of_one_add_share_no_metadata(memory: Memory) -> None:
    """A summary's metadata is its own, and undo gives each source back its own."""
    shared = {"from": "one dict"}
    notes = memory.key("ada").set("n")
    notes.add_many([Item(text, metadata=shared) for text in numbered(4)])
    done = notes.compact(Summarize(n=3))
    assert done is not None
    assert notes.list()[0].metadata == {"summarised_by": "extractive"}
    notes.undo(done.id)
    assert [item.metadata for item in notes.list()] == [shared] * 4


def test_a_model_never_sees_the_whole_set_at_once() -> None:
    """Each step asks about so many items at most, whatever the set holds."""
    model = ScriptedChat(lambda _messages: '{"summary": "Notes."}')
    with Memory.open(embedder="static", model=model) as memory:
        notes = memory.key("ada").set(
            "n", capacity=200, compaction=Summarize(), execution="external"
        )
        notes.add_many([f"note {n} is about {'tea' if n % 2 else 'the sea'}" for n in range(200)])
        done = notes.compact()
        assert done is not None
        assert len(done.retired) <= MODEL_STEP
        assert len(model.requests) == len(done.added)
        for request in model.requests:
            assert str(request.messages).count("note ") <= MODEL_STEP


def test_each_key_is_compacted_in_its_own_set() -> None:
    """In the background, what is made of a key's items goes to that key."""
    with Memory.open(embedder="static") as memory:
        for name in ("ada", "bob", "eve"):
            notes = memory.key(name).set("n", capacity=20, compaction=Summarize(n=10))
            for n in range(30):
                notes.add(f"{name} note {n}")
        assert memory.settle(LIMIT_S)
        for name in ("ada", "bob", "eve"):
            notes = memory.key(name).set("n")
            assert len(notes) <= 20
            for item in notes.list():
                nodes = notes.lineage(str(item.id)).nodes
                assert all(str(node.text).startswith(name) for node in nodes)


def test_a_failure_in_the_background_is_kept_and_forgotten(
    memory: Memory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction that failed is noted in the store until it succeeds; the next try may."""
    fails = [True]
    monkeypatch.setattr(executor, "PAUSES_S", (3600, 3600))  # it is this test that tries again

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        if fails[0]:
            raise ValueError
        return CompactionPlan(retire=[str(item.id) for item in items[:5]])

    notes = memory.key("ada").set("n", capacity=10, compaction=plan)
    with caplog.at_level(logging.WARNING):
        notes.add_many(numbered(12))
        assert memory.settle(LIMIT_S)
    info = memory.store.set_infos(notes._ref.scope)[0]
    assert executor.failures(memory.store) == {info.number: ("StrategyFailed", 1)}
    fails[0] = False
    failure = memory.engine.compactions.worker.failures[notes._ref]
    assert (failure.tries, type(failure.error).__name__) == (1, "StrategyFailed")
    assert memory.engine.compactions._in_background(notes._ref)
    assert len(notes) == 7


def test_a_model_that_is_needed_and_gone_fails_the_add() -> None:
    """execution="sync" and model="need": the add is refused while the model is, and says why."""
    answers = [ModelUnavailable("scripted", "is away"), '{"summary": "All."}']
    with Memory.open(embedder="static", model=ScriptedChat(answers)) as memory:
        notes = memory.key("ada").set(
            "n", capacity=3, compaction=Summarize(n=2, model="need"), execution="sync"
        )
        for text in numbered(3):
            notes.add(text)
        with pytest.raises(ModelUnavailable, match="is away"):
            notes.add("one more")
        assert texts(notes.list()) == numbered(3)
        notes.add("one more")
        assert texts(notes.list()) == ["All.", "note 2", "one more"]


@pytest.mark.parametrize("url", ["ram", "file"])
def test_a_repetition_compacts_once(url: str, tmp_path: object) -> None:
    """The same request again, by key, changes nothing, though the set is full."""
    place = ":memory:" if url == "ram" else f"{tmp_path}/app.db"
    with Memory.open(place, embedder="static") as memory:
        ada = memory.key("ada")
        notes = ada.set("n", capacity=3, compaction=Trim(n=1), execution="sync")
        for text in numbered(3):
            notes.add(text)
        first = notes.add("note 3", idempotency_key="a")
        for _ in range(2):
            assert notes.add("note 3", idempotency_key="a") == first
            with ada.batch(idempotency_key="b") as b:
                for number in (4, 5):
                    b.set("n").add(f"note {number}")
        assert texts(notes.list()) == numbered(3, 3)
        assert len(notes.compactions()) == 3


def test_others_may_fill_a_set_while_a_batch_is_made(memory: Memory) -> None:
    """What a batch planned on may have moved on by its commit: it makes room anew.

    Who goes is decided by time, so the batch's first item may go before later ones of others.
    """
    ada = memory.key("ada")
    notes = ada.set("n", capacity=4, compaction=Trim(n=1), execution="sync")
    notes.add_many(numbered(3))
    with ada.batch() as b:
        b.set("n").add("mine 0")
        for text in numbered(4, 3):
            notes.add(text)
        b.set("n").add("mine 1")
    assert texts(notes.list()) == ["note 4", "note 5", "note 6", "mine 1"]


def test_others_may_fill_a_set_while_an_action_runs(memory: Memory) -> None:
    """The action is done over, on what is there by then; its run is not parked."""
    ada, attempts = memory.key("ada"), [0]
    notes = ada.set("n", capacity=4, compaction=Trim(n=2), execution="sync")
    notes.add_many(numbered(3))

    class Notes(Agent):
        name = "notes"

        @action(InputEvent)
        @staticmethod
        def go(event: InputEvent, ctx: RunnerContext) -> None:
            attempts[0] += 1
            ctx.long_term_memory.set("n").add("mine")
            if attempts[0] == 1:
                notes.add("theirs")

    with LocalRunner(Notes(), memory) as runner:
        runner.handle("ada", None)
    assert attempts == [2]
    assert texts(notes.list()) == ["note 2", "theirs", "mine"]


def test_who_lost_the_right_to_compact_changes_nothing(memory: Memory) -> None:
    """A lease that was taken over while a plan was made fences its commit."""
    notes = memory.key("ada").set("n")
    notes.add_many(numbered(3))
    store, info = memory.store, memory.store.set_infos(notes._ref.scope)[0]
    place = Scope("", f"{LEASE}{info.number}")

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        mine = store.acquire_lease(place, memory.engine.compactions.tools.owner)
        assert mine is not None
        store.release_lease(mine)
        assert store.acquire_lease(place, "another") is not None
        return CompactionPlan(retire=[str(items[0].id)])

    with pytest.raises(StaleRun):
        notes.compact(plan)
    assert texts(notes.list()) == numbered(3)
    with pytest.raises(SetBusy, match="is being compacted by another thread or process"):
        notes.compact(Trim(n=1))


def test_a_set_whose_items_expire_makes_no_room_by_summaries(memory: Memory) -> None:
    """Items that expire are left alone by summaries, so that nothing outlives its time."""
    notes = memory.key("ada").set("n", capacity=3, compaction=Summarize(n=2), execution="sync")
    late = memory.key("ada").set("n").add("lasts")
    assert late
    notes.redefine(capacity=3, compaction=Summarize(n=2), execution="sync")
    expire_at = ticking()().replace(year=2027)
    for text in numbered(2):
        notes.add(Item(text, expire_at=expire_at))
    with pytest.raises(SetFull, match="strategy 'summarize' makes no room"):
        notes.add(Item("one more", expire_at=expire_at))
    assert texts(notes.list()) == ["lasts", *numbered(2)]


def test_the_async_door_has_all_of_it() -> None:
    """AsyncMemory compacts, lists, undoes and draws as Memory does."""

    async def go() -> None:
        async with await AsyncMemory.open(embedder="static") as memory:
            heard: list[int] = []
            memory.on_compaction(lambda done: heard.append(done.id))
            ada = await memory.key("ada")
            notes = await ada.set("n", capacity=9, compaction=Trim(n=2), execution="sync")
            await notes.add_many(numbered(3))
            done = await notes.compact(Summarize(n=2))
            assert done is not None
            assert [found.id for found in await notes.compactions()] == [done.id] == heard
            made = (await notes.list())[0]
            assert (await notes.lineage(str(made.id))).depth == 1
            assert len(await notes.sources(str(made.id))) == 2
            assert len((await notes.undo(done.id)).restored) == 2
            knowledge = await memory.knowledge.set("k")
            with pytest.raises(InvalidInput):
                await knowledge.compact()

    asyncio.run(go())


def test_items_of_the_first_moment_are_compacted(memory: Memory) -> None:
    """Nothing can stand a microsecond before the year 1; what stands for others is there anyway."""
    first = datetime(1, 1, 1, tzinfo=UTC)
    notes = memory.key("ada").set("n")
    notes.add_many([Item(text, time=first) for text in numbered(6)])
    done = notes.compact(Summarize(n=3))
    assert done is not None
    assert [item.time for item in notes.list()] == [first] * 4
    assert len(notes.undo(done.id).restored) == 3


def test_a_number_that_is_none_of_a_compaction_is_refused(memory: Memory) -> None:
    """Whatever is passed as an id, a page or a commit, the error is of alveus."""
    notes = memory.key("ada").set("n")
    notes.add_many(numbered(3))
    notes.compact(Trim(n=1))
    for bad in (-1, 1 << 63, 10**30, True, 1.5, "1"):
        with pytest.raises(InvalidInput):
            notes.undo(loose(bad))
        with pytest.raises(InvalidInput):
            notes.compactions(before=loose(bad))
    with pytest.raises(NotFound):
        notes.undo((1 << 63) - 1)


def test_a_compactor_looks_at_all_each_time_it_is_run(memory: Memory) -> None:
    """A set that became too large by its definition, and not by an add, is compacted, too."""
    ada = memory.key("ada")
    notes = ada.set("n", capacity=100, compaction=Trim(n=10), execution="external")
    notes.add_many(numbered(50))
    compactor = Compactor(memory)
    assert compactor.run() == 0
    notes.redefine(capacity=45)
    assert compactor.run() == 1
    assert len(notes) == 40


def test_a_watching_compactor_outlives_a_busy_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Who held the store too long stops no compactor; what was added meanwhile is not missed."""
    path, given = tmp_path / "app.db", threading.Event()
    with (
        Memory.open(path, embedder="words") as agent,
        Memory.open(path, embedder="words", wait_s=SHORT_S) as memory,
    ):
        notes = agent.key("ada").set("n", capacity=5, compaction=Trim(n=2), execution="external")
        notes.add_many(numbered(6))
        store, compactor = agent.store, Compactor(memory)
        assert isinstance(store, SqliteStore)

        def watch() -> None:
            compactor.run(watch=True, every=timedelta(milliseconds=5), progress=told)

        def told(look: Look) -> None:
            if look.done:
                given.set()
                compactor.stop()

        watching = threading.Thread(target=watch)
        with caplog.at_level(logging.WARNING), store.writing():
            watching.start()
            wait_until(lambda: "could not be looked at: StoreBusy" in caplog.text)
        assert given.wait(LIMIT_S)
        watching.join(LIMIT_S)
        assert len(notes) == 4


@pytest.mark.parametrize(
    "bad",
    [
        {"hours": (24, 0)},
        {"hours": (3, 3)},
        {"hours": (1, 2, 3)},
        {"hours": ("a", 1)},
        {"hours": 5},
        {"at": "80%"},
        {"at": True},
        {"key": ""},
        {"key": 5},
        {"set_name": 4},
    ],
)
def test_a_compactor_is_checked_as_it_is_made(memory: Memory, bad: dict[str, object]) -> None:
    """What cannot be meant is an InvalidInput, never another error, and never nothing to do."""
    with pytest.raises(InvalidInput):
        Compactor(memory, **loose(bad))


def test_a_plan_that_makes_nothing_smaller_is_not_carried_out(memory: Memory) -> None:
    """A step that frees nothing would be done for ever; the set is as it was instead."""

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        return CompactionPlan(add=[Derived([str(items[0].id)], f"{items[0].text}, at length")])

    marks = {"low_water": 0.2, "high_water": 0.3}
    notes = memory.key("ada").set("n", capacity=9, compaction=plan, **loose(marks))
    notes.add_many(numbered(4))
    assert notes.compact() is None
    assert memory.settle(LIMIT_S)
    assert texts(notes.list()) == numbered(4)
    assert notes.compactions() == []


@pytest.mark.parametrize(
    ("hours", "open_at"),
    [((1, 5), {1, 4}), ((22, 4), {22, 23, 0, 1, 3}), ((0, 24), set(range(24))), ((5, 0), {5, 23})],
)
def test_a_compactor_keeps_to_its_hours(hours: tuple[int, int], open_at: set[int]) -> None:
    """From the first hour on, up to but not at the last, over midnight too, by local time."""
    now = datetime(2026, 6, 1).astimezone()
    with Memory.open(embedder="words", clock=lambda: now) as memory:
        notes = memory.key("ada").set("n", capacity=5, compaction=Trim(n=1), execution="external")
        compactor = Compactor(memory, hours=hours)
        for hour in sorted(open_at | {hours[0] - 1, hours[1]} & set(range(24))):
            notes.clear()
            notes.add_many(numbered(6))
            now = now.replace(hour=hour, minute=59 if hour in open_at else 0)
            compactor.run()
            assert len(notes) == (5 if hour in open_at or hours == (0, 24) else 6), hour


def test_a_set_that_somebody_else_compacted_is_looked_at_again(memory: Memory) -> None:
    """Without another add to it: whoever had it may have died over it."""
    notes = memory.key("ada").set("n", capacity=5, compaction=Trim(n=2), execution="external")
    notes.add_many(numbered(4))
    compactor, store = Compactor(memory), memory.store
    assert compactor.run() == 0
    notes.add_many(numbered(2, 4))
    number = store.set_infos(notes._ref.scope)[0].number
    lease = store.acquire_lease(Scope("", f"{LEASE}{number}"), "another")
    assert lease is not None
    compactor._check(lambda _: None)
    assert len(notes) == 6
    store.release_lease(lease)
    compactor._check(lambda _: None)
    assert len(notes) == 4


def test_a_compactor_does_not_try_again_at_once(memory: Memory) -> None:
    """What failed rests for a while, also if it is added to; other sets are seen to."""
    asked: list[int] = []

    def plan(items: Sequence[Item], capacity: int | None) -> CompactionPlan:
        asked.append(len(items))
        raise ValueError

    ada = memory.key("ada")
    notes = ada.set("n", capacity=5, compaction=plan, execution="external")
    notes.add_many(numbered(6))
    compactor = Compactor(memory)
    with pytest.raises(StrategyFailed):
        compactor.run()
    notes.add("one more")
    other = ada.set("other", capacity=5, compaction=Trim(n=2), execution="external")
    other.add_many(numbered(6))
    assert compactor.run() == 1
    assert (asked, len(notes), len(other)) == ([6], 7, 4)
