"""What a process keeps that goes on for months: it is bounded, whatever it is asked."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from datetime import timedelta

import pytest

from alveus import Agent, InputEvent, Item, LocalRunner, Memory, OutputEvent, Trim, Ttl, action
from alveus.agents import storage
from alveus.agents.layers import (
    AgentMemoryFragment,
    EnhancedShortTermMemory,
    GptsMemory,
    GptsMessage,
    GptsPlan,
    GptsPlansMemory,
    SensoryMemory,
    ShortTermMemory,
    Status,
    gpts_memory,
    moves,
)
from alveus.errors import InvalidInput, RunParked, StoreClosed, StrategyFailed
from alveus.errors.root import raisable, without_frames
from alveus.memory.compactor import Compactor
from alveus.search import item_cache
from alveus.search.index import column_filters
from alveus.search.index.column_filters import Field
from alveus.sets.compaction import executor
from alveus.store import Scope
from alveus.store.items import Hit, Hits
from alveus.store.ram import RamStore
from alveus.store.sql import database
from alveus.store.sqlite import SharedStore, SqliteStore
from waiting import LIMIT_S, wait_until

EVERY = 16
"""Changes after which RAM is swept here, to have less to do."""

TEXT = "a ferry to Corfu leaves at nine"


def of_kind(kind):
    """Return how many objects of a class there are."""
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def frames_of(error):
    """Return how many calls an error holds on to."""
    trace, number = error.__traceback__, 0
    while trace is not None:
        trace, number = trace.tb_next, number + 1
    return number


# --- the index ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["metadata", "value"])
def test_filters_of_any_field_take_no_more_room(monkeypatch, path):
    """A set keeps the fields that were asked for last; the others are read again."""
    monkeypatch.setattr(column_filters, "MOST_FIELDS", 8)
    prefix = "$value." if path == "value" else ""
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        for number in range(3):
            fields = {f"f{number}": number}
            ada.add(Item(fields, text=TEXT) if path == "value" else Item(TEXT, metadata=fields))
        before = of_kind(Field)
        for _ in range(2):
            for number in range(50):
                hits = ada.search("ferry", where={f"{prefix}f{number}": number})
                assert len(hits) == (number < 3)
        assert of_kind(Field) - before <= 8
        many = {f"{prefix}g{number}": {"exists": False} for number in range(20)}
        assert len(ada.search("ferry", where=many)) == 3  # more at once than are kept


def test_an_index_of_many_small_sets_takes_what_it_says():
    """Else a server with many keys takes several times the RAM of ``cache_bytes``."""
    number = 200
    with Memory.open(embedder="words") as memory:
        for key in range(number):
            memory.key(f"k{key}").add(TEXT)
        memory.key("k0").search("ferry")
        before = memory.stats().cache_bytes
        tracemalloc.start()
        try:
            for key in range(1, number):
                memory.key(f"k{key}").search("ferry", where={"field": 1})
            said = memory.stats().cache_bytes - before
            gc.collect()
            full, _ = tracemalloc.get_traced_memory()
            memory._index.clear()
            gc.collect()
            freed = full - tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert 0.75 * freed <= said <= 1.5 * freed


# --- what was found -----------------------------------------------------------------------------


def test_items_that_are_renewed_leave_nothing_behind():
    """Each is read again at the next search, and known once, or not at all."""
    with Memory.open(embedder="words") as memory:
        notes = memory.key("ada").set("notes", ttl=Ttl(timedelta(days=1)))
        cache = memory.engine.recall._item_cache
        for number in range(30):
            item = notes.add(f"{TEXT} {number}")
            assert len(notes.search("ferry")) == len(cache._items) == 1
            notes.renew(item, ttl=timedelta(days=2))
            notes.delete(item)
        assert len(cache._rows) == len(cache._items) == 0


def test_found_texts_are_remembered_up_to_a_size(monkeypatch):
    """Those of the scopes that were searched last; of the last one all, as is documented."""
    monkeypatch.setattr(item_cache, "HITS_BYTES", 100_000)
    recent = item_cache.RecentHits()

    def search(key, size, *, times=1):
        for number in range(times):
            item = Item("x" * size, id=f"{key}{number}", text="x" * size)
            recent.note(Scope("app", key), Hits([Hit(item, 1.0, {})]))

    for number in range(100):
        search(f"k{number}", 10_000)
        assert recent._bytes == sum(size for all_of in recent._hits.values() for _, size in all_of)
        assert recent._bytes <= 100_000
    assert recent.of(Scope("app", "k99"))
    assert not recent.of(Scope("app", "k0"))
    search("k99", 20_000, times=40)
    assert len(recent.of(Scope("app", "k99"))) == item_cache.SEARCHES
    assert len(recent._hits) == 1


# --- access times -------------------------------------------------------------------------------


def touched(memory, number):
    """Return how many items of a set, all of which were read, say that they were."""
    return sum(item.accessed is not None for item in memory.key("ada").list(limit=number))


def test_a_close_keeps_all_access_times(tmp_path):
    """Not only as many as one commit takes along."""
    number = 2 * database.TOUCHES + 10
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        ids = memory.key("ada").add_many([Item(f"{TEXT} {n}") for n in range(number)])
        memory.key("ada").get(ids)
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        assert touched(memory, number) == number


def test_access_times_that_wait_for_a_commit_are_bounded(monkeypatch, tmp_path):
    """Where a process only reads, the oldest are given up."""
    monkeypatch.setattr(database, "WAITING_TOUCHES", 100)
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        assert isinstance(memory.store, SqliteStore)
        waiting = memory.store._touch_times
        for time in range(1_000):
            memory.store.touch([time], time=time)
            assert len(waiting) <= 100
        assert 999 in waiting


# --- compaction ---------------------------------------------------------------------------------


def test_a_set_that_was_compacted_leaves_nothing_behind():
    """Neither a lock nor a note that it was far too full, however many there are."""
    with Memory.open(embedder="words") as memory:
        for number in range(20):
            notes = memory.key(f"k{number}").set("n", capacity=3, compaction=Trim(n=2))
            notes.add_many([f"{TEXT} {n}" for n in range(9)])
        assert memory.settle(LIMIT_S)
        assert all(len(memory.key(f"k{n}").set("n")) <= 3 for n in range(20))
        compactions = memory.engine.compactions
        gc.collect()
        assert (len(compactions._locks), len(compactions.pressed)) == (0, 0)


def test_sets_that_were_warned_of_are_forgotten_at_a_bound(monkeypatch, caplog):
    """Of each set that overflows is told once, or again after very many others."""
    monkeypatch.setattr(executor, "MOST_REMEMBERED", 5)
    with Memory.open(embedder="words") as memory:
        for number in range(12):
            notes = memory.key(f"k{number}").set(
                "n", capacity=2, compaction=Trim(n=1), execution="external"
            )
            for n in range(5):
                notes.add(f"{TEXT} {n}")
        assert len(memory.engine.compactions._warned) <= 5
    assert sum("start one" in each.getMessage() for each in caplog.records) == 12


class Held:
    """What a call had in hand."""


def test_a_compaction_that_failed_holds_on_to_nothing():
    """The error is kept until the next try, and not what was to be compacted."""

    def plan(items, capacity):
        held = Held()
        raise ValueError(len(items), capacity, type(held))

    with Memory.open(embedder="words") as memory:
        notes = memory.key("ada").set("n", capacity=3, compaction=plan)
        notes.add_many([f"{TEXT} {n}" for n in range(4)])
        assert memory.settle(LIMIT_S)
        failure = memory.engine.compactions.worker.failures[notes._ref]
        assert isinstance(failure.error.__cause__, ValueError)
        assert of_kind(Held) == 0


def test_a_compactor_forgets_a_set_that_needs_it_no_more():
    """One that failed, and was emptied since by whoever it belongs to."""

    def plan(items, capacity):
        raise ValueError

    with Memory.open(embedder="words") as memory:
        compactor = Compactor(memory)
        notes = memory.key("ada").set("n", capacity=3, compaction=plan, execution="external")
        notes.add_many([f"{TEXT} {n}" for n in range(4)])
        with pytest.raises(StrategyFailed):
            compactor.run()
        assert len(compactor._failed) == 1
        notes.delete([item.id for item in notes.list()])
        compactor._check(lambda _: None)
        assert not compactor._failed


# --- layers and logs in RAM ---------------------------------------------------------------------


def versions(memory):
    """Return how many versions of items a memory in RAM holds."""
    assert isinstance(memory.store, RamStore)
    return sum(len(one.rows) for one in memory.store._sets.all_sets())


@pytest.mark.parametrize(
    "layer",
    [
        lambda: ShortTermMemory(buffer_size=3),
        lambda: SensoryMemory(3),
        lambda: EnhancedShortTermMemory(buffer_size=3),
    ],
)
def test_a_layer_in_ram_frees_what_left_it(monkeypatch, layer):
    """What it was told of itself at once; fragments after a day, in which they count as seen."""
    monkeypatch.setattr(storage, "SWEEP_EVERY", EVERY)
    kept = layer()

    async def write(number):
        for each in range(number):
            await kept.write(AgentMemoryFragment(f"fact {each}", importance=0.9))

    asyncio.run(write(2 * EVERY))
    sets = kept.storage._opened.store._sets.all_sets()
    assert {one.definition.retention for one in sets} == {"purge", storage.RAM_PAST_US}
    assert versions(kept.storage._opened) <= 2 * EVERY + 10
    monkeypatch.setattr(moves, "RAM_PAST_US", 0)
    kept = layer()
    asyncio.run(write(4 * EVERY))
    assert versions(kept.storage._opened) <= 10


def test_a_log_in_ram_holds_the_conversations_that_it_says(monkeypatch):
    """The others are gone, with their past: messages, and plans as they were before."""
    monkeypatch.setattr(gpts_memory, "SWEEP_EVERY", EVERY)
    log = GptsMemory(conversations=5)

    async def talk():
        for number in range(3 * EVERY):
            name = f"c{number}"
            message = GptsMessage(name, "a", "b", "user", "x")
            await log.append_message(name, message)

    asyncio.run(talk())
    assert versions(log.message_memory.memory) <= 5 + EVERY
    plans = GptsPlansMemory()
    plans.batch_save([GptsPlan("c", 1)])
    for number in range(EVERY):
        plans.update_task("c", 1, Status.RUNNING.value, number)
    assert versions(plans.memory) == 1
    assert plans.get_by_conv_id("c")[0].retry_times == EVERY - 1


# --- memories that are dropped ------------------------------------------------------------------


def embedding(place):
    """Open a memory whose thread embeds, and let it go."""
    Memory.open(place, embedder="minilm").key("ada").add(TEXT)


def compacting(place):
    """Open a memory whose thread compacts, and let it go."""
    notes = Memory.open(place, embedder="words").key("ada").set("n", capacity=3)
    notes.redefine(compaction=Trim(n=2), execution="background")
    notes.add_many([f"{TEXT} {n}" for n in range(5)])


@pytest.mark.parametrize("dropped", [embedding, compacting])
@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_memory_that_is_dropped_ends_its_threads(tmp_path, dropped, in_a_file):
    """And is collected whole: a program that opens one for each request does not grow."""
    before, stores = set(threading.enumerate()), of_kind(SharedStore) + of_kind(RamStore)
    for number in range(3):
        dropped(tmp_path / f"{number}.db" if in_a_file else ":memory:")

    def is_gone():
        there = of_kind(SharedStore) + of_kind(RamStore)  # which collects first
        return there <= stores and not set(threading.enumerate()) - before

    wait_until(is_gone, "its threads go on, or its store is there")


# --- errors that are kept -----------------------------------------------------------------------


class Fails(Agent):
    """Parks each run."""

    @action(InputEvent)
    def answer(self, event, ctx):
        raise ValueError(event.input)


class Echo(Agent):
    """Answers with its input."""

    @action(InputEvent)
    def answer(self, event, ctx):
        ctx.send_event(OutputEvent(event.input))


def raised_by(call, kind):
    """Return the error of a kind that a call raises."""
    with pytest.raises(kind) as caught:
        call()
    return caught.value


def test_a_ticket_may_be_asked_for_good():
    """Its error is no longer after a hundred times, and each who asks has one of their own."""
    with Memory.open(embedder="words") as memory, LocalRunner(Fails, memory) as runner:
        ticket = runner.submit("ada", "x")
        first = raised_by(ticket.result, RunParked)
        frames = frames_of(first)
        for _ in range(20):
            again = raised_by(ticket.result, RunParked)
            assert (str(again), again.run, again.key) == (str(first), first.run, first.key)
            assert frames_of(again) == frames_of(first) == frames


def test_a_runner_whose_store_is_gone_may_be_asked_for_good(tmp_path):
    """A server goes on calling it: no call stays in RAM by the error that it got."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        runner = LocalRunner(Echo, memory)
        assert runner.handle("ada", "x") == ("x",)
        runner._executor.fail(StoreClosed("it was closed"))

        def ask():
            held = Held()
            runner.handle("ada", type(held).__name__)

        frames = [frames_of(raised_by(ask, StoreClosed)) for _ in range(20)]
        assert len(set(frames)) == 1
        assert of_kind(Held) == 0
        runner.close()


def test_a_kept_error_is_raised_as_it_came():
    """With its cause and where it came from; an error of a foreign class is the same one."""
    kept = raised_by(lambda: 1 / 0, ZeroDivisionError)

    def refuse():
        raise InvalidInput("no") from kept

    assert raisable(kept) is kept
    assert kept.__traceback__ is None
    ours = raised_by(refuse, InvalidInput)
    frames = frames_of(ours)
    copied = raisable(ours)
    assert copied is not ours
    assert (type(copied), str(copied), copied.__cause__) == (InvalidInput, "no", kept)
    assert copied.__suppress_context__
    assert frames_of(copied) == frames_of(ours) == frames > 0
    kept.__context__ = ours  # a circle
    assert without_frames(ours) is ours
    assert frames_of(ours) == 0
