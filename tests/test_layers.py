"""Layers: nothing lost, nothing doubled, nothing changed by reading; alone, side by side, killed.

The cases of DB-GPT's own memory are in test_dbgpt_vectors.py.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import warm
from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, ScriptedChat, action
from alveus.agents.layers import (
    AgentMemory,
    AgentMemoryFragment,
    EnhancedShortTermMemory,
    GptsMemory,
    GptsMessage,
    GptsPlan,
    HybridMemory,
    InsightMemoryFragment,
    LLMImportanceScorer,
    LLMInsightExtractor,
    LongTermMemory,
    MemoryFragment,
    OfflineImportanceScorer,
    OfflineInsightExtractor,
    SensoryMemory,
    ShortTermMemory,
    StructuredAgentMemoryFragment,
    Weights,
    WriteOperation,
    initialize_id_generator,
    time_of_id,
)
from alveus.agents.layers.layer import Dedupe
from alveus.agents.storage import FairLock
from alveus.compat import dbgpt
from alveus.embed import open_embedder
from alveus.errors import (
    DuplicateItem,
    EmbedderFailed,
    IdempotencyConflict,
    InvalidInput,
    ModelUnavailable,
    NotFound,
)
from alveus.search.similarity import Nearness
from layers_worker import alike, everything, layers, topic
from scale import COUNTS
from waiting import LIMIT_S

WORKER = Path(__file__).with_name("layers_worker.py")
KILLS = max(1, COUNTS.kills * 5 // 48)


@pytest.fixture
def memory():
    with Memory.open(embedder="words") as opened:
        yield opened


def frag(text, importance=None, **kwargs):
    return AgentMemoryFragment(text, importance=importance, **kwargs)


def texts(fragments):
    return [fragment.raw_observation for fragment in fragments]


def run(case):
    """Make a test of a coroutine, with a memory."""

    def test(memory):
        asyncio.run(case(memory))

    test.__name__, test.__doc__ = case.__name__, case.__doc__
    return test


# --- kept -------------------------------------------------------------------------------------


def test_layers_survive_a_restart(tmp_path):
    """A layer on a file is the same after the process that wrote it is gone."""
    path = tmp_path / "app.db"

    async def write(memory):
        short = ShortTermMemory(buffer_size=2, memory=memory.key("test123"))
        for name in "abc":
            await short.write(frag(name, 0.25, metadata={"speaker": "Ann", "topic": name}))

    with Memory.open(path, embedder="words") as memory:
        asyncio.run(write(memory))
    with Memory.open(path, embedder="words") as memory:
        short = ShortTermMemory(buffer_size=2, memory=memory.key("test123"))
        found = asyncio.run(short.read(""))
        assert texts(found) == ["b", "c"]
        assert (found[0].importance, found[0].metadata) == (0.25, {"speaker": "Ann", "topic": "b"})
        (hit, *_) = memory.key("test123").search("c", sets=["short_term"])
        assert (hit.item.text, hit.item.speaker) == ("c", "Ann")


def test_a_layer_says_where_it_is(memory):
    """What is lost at the end of the process says so."""
    assert "RAM, until this process ends" in repr(ShortTermMemory())
    assert "'ada'" in repr(ShortTermMemory(memory=memory.key("ada")))
    assert "RAM" in repr(AgentMemory())


def test_what_is_no_key_is_refused(memory):
    """A whole memory is a likely mistake; the error says what to pass."""
    with pytest.raises(InvalidInput, match=r"pass memory.key"):
        ShortTermMemory(memory=memory)
    name: Any = "ada"
    with pytest.raises(InvalidInput, match="not 'ada'"):
        ShortTermMemory(memory=name)


@run
async def test_other_keys_and_labels_are_other_layers(memory):
    """Nothing crosses a key; on one key, nothing crosses a label."""
    mine = ShortTermMemory(memory=memory.key("ada"))
    await mine.write(frag("a"))
    others = (
        ShortTermMemory(memory=memory.key("bob")),
        ShortTermMemory(memory=memory.key("ada"), label="joy"),
        mine.structure_clone(),
        mine.structure_clone(),
        mine.structure_clone(label="ann"),
    )
    for other in others:
        assert await other.read("") == []
        await other.write(frag(repr(other)))
    assert texts(await mine.read("")) == ["a"]
    assert len({other.label for other in others}) == 5


@run
async def test_a_clone_has_the_models_and_the_settings(memory):
    """Each agent gets a structure of its own, set up like the one it was given."""
    scorer = OfflineImportanceScorer()
    hybrid = HybridMemory(
        sensory_memory=SensoryMemory(1, threshold_to_short_term=0.2),
        short_term_memory=EnhancedShortTermMemory(alike, buffer_size=3, enhance_threshold=2),
        long_term_memory=LongTermMemory(k=7, reflection_threshold=5),
        memory=memory.key("ada"),
    )
    agent = AgentMemory(hybrid, importance_scorer=scorer)
    agent.initialize("Joy", session_id="c1")
    await agent.write_batch([frag(topic(n)) for n in range(9)])
    clone = agent.structure_clone()
    assert await clone.read("a") == []
    inner: Any = clone.memory
    assert inner.label == "Joy"
    assert (inner.sensory_memory.buffer_size, inner.short_term_memory.buffer_size) == (1, 3)
    assert inner.sensory_memory.threshold_to_short_term == 0.2
    assert (inner.long_term_memory.k, inner.long_term_memory.reflection_threshold) == (7, 5)
    assert {part.importance_scorer for part in inner.parts()} == {scorer}
    assert clone.gpts_memory is agent.gpts_memory
    assert clone.plans_memory is agent.plans_memory
    assert clone.message_memory is agent.message_memory


@run
async def test_long_term_memory_is_of_all_conversations(memory):
    """A conversation's name is kept with a fragment, and hides no other's."""
    long = LongTermMemory(memory=memory.key("ada"))
    long.initialize("Joy", session_id="monday")
    await long.write(frag("Ann likes tea"))
    again = LongTermMemory(memory=memory.key("ada"))
    again.initialize("Joy", session_id="tuesday")
    assert texts(await again.read("tea")) == ["Ann likes tea"]


@run
async def test_layers_of_a_hybrid_are_in_one_place(memory):
    """A move between layers is one commit, which two places cannot share."""
    with pytest.raises(InvalidInput, match="stored in one key"):
        HybridMemory(
            short_term_memory=ShortTermMemory(memory=memory.key("ada")),
            long_term_memory=LongTermMemory(memory=memory.key("bob")),
        )
    both: Any = ShortTermMemory()
    with pytest.raises(InvalidInput, match="in one set"):
        HybridMemory(sensory_memory=both, short_term_memory=both)
    with pytest.raises(InvalidInput, match="not both"):
        LongTermMemory(memory=memory.key("ada"), vector_store=memory.key("ada"))
    long = LongTermMemory(vector_store=memory.key("ada"))
    shared = HybridMemory(short_term_memory=ShortTermMemory(), long_term_memory=long)
    await shared.write(frag("a"))
    assert "short_term" in memory.key("ada").sets()


def test_hybrid_memory_by_the_names_of_stores(tmp_path, memory):
    """`from_vstore` and `from_chroma` make what they name, of alveus."""
    by_store = HybridMemory.from_vstore(memory.key("ada"), alike)
    asyncio.run(by_store.write(frag("a")))
    assert texts(asyncio.run(by_store.read("a"))) == ["a"]
    for _ in range(2):
        by_path = HybridMemory.from_chroma(vstore_path=tmp_path / "folder", embeddings="static")
        asyncio.run(by_path.write(frag("tea", memory_id=1)))
        assert texts(asyncio.run(by_path.read("tea"))) == ["tea"]
        by_path.close()
    in_ram = HybridMemory.from_chroma(embeddings="static")
    asyncio.run(in_ram.write(frag("tea")))
    in_ram.close()


# --- written once -----------------------------------------------------------------------------


@run
async def test_written_again_it_is_there_once(memory):
    """Whoever does not know whether a write was done does it again."""
    hybrid = layers(memory)
    for n in [*range(30), *range(30)]:
        await hybrid.write(frag(topic(n), memory_id=n))
    assert await everything(hybrid) == sorted(topic(n) for n in range(30))


@run
async def test_what_left_before_is_named(memory):
    """A repetition of what has left says so, and changes nothing; after clear it counts."""
    short = ShortTermMemory(1, memory=memory.key("ada"))
    a = frag("a")
    await short.write(a)
    await short.write(frag("b"))
    again: Any = await short.write(a)
    assert texts(d.fragment for d in again.dropped) == ["a"]
    assert "written before" in again.dropped[0].reason
    assert texts(await short.read("")) == ["b"]
    await short.clear()
    assert await short.write(a) is None
    assert texts(await short.read("")) == ["a"]


@run
async def test_a_write_that_fails_changes_nothing(memory):
    """All is checked first; what a class of one's own raises changes nothing either."""

    class Faulty(AgentMemoryFragment):
        def copy(self):
            raise TypeError("a fault")

    hybrid = layers(memory)
    await hybrid.write(frag("a"))
    before = await everything(hybrid)
    bad: Any
    for bad in ("text", frag("a", metadata={"speaker": 3}), frag("a", metadata={"x": object()})):
        with pytest.raises(InvalidInput):
            await hybrid.write_batch([frag("b"), bad])
    with pytest.raises(TypeError, match="a fault"):
        await hybrid.write_batch([frag("b"), frag("c"), Faulty("d")])
    assert await everything(hybrid) == before
    await hybrid.write(frag("e"))
    assert len(await everything(hybrid)) == 2


@run
async def test_a_model_that_fails_costs_no_fragment(memory):
    """Without its answer the default counts, and the result says so."""
    down = ScriptedChat(lambda messages: ModelUnavailable("scripted", "it is down"))
    sensory = SensoryMemory(memory=memory.key("ada"))
    sensory.initialize(llm_client=down, importance_scorer=LLMImportanceScorer())
    gone: Any = await sensory.write(frag("a"))
    assert [f.importance for f in gone.discarded_memory_fragments] == [0.5]
    assert "down" in gone.failures[0].reason
    short = ShortTermMemory(1, memory=memory.key("ada"))
    short.initialize(llm_client=down, insight_extractor=LLMInsightExtractor())
    await short.write(frag("a"))
    gone: Any = await short.write(frag("b"))
    assert (texts(gone.discarded_memory_fragments), gone.discarded_insights) == (["a"], [])
    assert len(gone.failures) == 1


@run
async def test_embeddings_that_fail_cost_no_fragment(memory):
    """What cannot be compared is like nothing."""

    def broken(texts):
        raise RuntimeError("no vectors today")

    short = EnhancedShortTermMemory(broken, memory=memory.key("ada"))
    await short.write(frag("a"))
    gone: Any = await short.write(frag("b"))
    assert "no vectors today" in gone.failures[0].reason
    assert texts(await short.read("")) == ["a", "b"]


def test_derived_fragments_name_their_sources(memory):
    """What left as one can be followed to what it was made of, through the layers."""

    async def write():
        short = EnhancedShortTermMemory(alike, enhance_threshold=1, random=lambda: 0.0)
        hybrid = HybridMemory(short_term_memory=short, memory=memory.key("ada"))
        await hybrid.write(frag("a1", memory_id=1, metadata={"day": "Monday", "n": 1}))
        await hybrid.write(frag("a2", memory_id=2, metadata={"day": "Monday", "n": 2}))
        (whole,) = await hybrid.read("a")
        return whole

    whole = asyncio.run(write())
    assert whole.source_ids == [1, 2]
    (item,) = memory.key("ada").set("long_term").list()
    assert item.sources == ("1", "2")
    assert item.metadata == {"day": "Monday", "memory_type": "long_term"}
    assert [part["metadata"]["n"] for part in item.value["parts"]] == [1, 2]
    assert [i.text for i in memory.key("ada").set("short_term").history("1")] == ["a1"]


# --- reading ----------------------------------------------------------------------------------


@run
async def test_a_read_changes_nothing(memory):
    """Reading writes no item, and reading again gives the same."""
    hybrid = layers(memory)
    for n in range(40):
        await hybrid.write(frag(topic(n), memory_id=n))
    before = memory.stats().store
    first = [f.id for f in await hybrid.read("a number 8")]
    assert [f.id for f in await hybrid.read("a number 8")] == first
    after = memory.stats().store
    assert (after.commits, after.item_versions) == (before.commits, before.item_versions)


def test_access_times_are_kept(tmp_path):
    """What was recalled is nearer in time, also for the next process."""
    path, now = tmp_path / "app.db", [datetime(2026, 1, 1, tzinfo=UTC)]

    async def work(memory, *, write):
        long = LongTermMemory(memory=memory.key("ada"), k=1)
        if write:
            await long.write_batch([frag("tea"), frag("cake")])
            now[0] += timedelta(hours=100)
            return texts(await long.read("tea"))
        return [one.fragment.raw_observation for one in await long.recall("", 1, 0, 0)]

    for write in (True, False):
        with Memory.open(path, embedder="words", clock=lambda: now[0]) as memory:
            assert asyncio.run(work(memory, write=write)) == ["tea"]


@run
async def test_only_what_is_returned_counts_as_read(memory):
    """A candidate that was not good enough was not read."""
    long = LongTermMemory(memory=memory.key("ada"), k=1)
    await long.write_batch([frag("green tea"), frag("black tea with milk")])
    await long.read("green tea")
    read = {item.text: item.accessed for item in memory.key("ada").set("long_term").list()}
    assert read["green tea"] is not None
    assert read["black tea with milk"] is None


@run
async def test_weights_decide(memory):
    """Alpha, beta and gamma act in every layer that is asked with them."""
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    for layer in (LongTermMemory(now=lambda: now[0]), ShortTermMemory(now=lambda: now[0])):
        await layer.write(frag("tea", 0.1))
        now[0] += timedelta(hours=50)
        await layer.write(frag("cake", 0.9))
        await layer.write(frag("rain", 0.5))
        orders = [texts(await layer.read("tea", *w)) for w in ((0, 1, 0), (0, 0, 1))]
        assert orders[0][0] == "tea"
        assert orders[1] == ["cake", "rain", "tea"]
    for bad in ((-1, 1, 1), (0, 0, 0), (float("nan"), 1, 1), (True, 1, 1)):
        with pytest.raises(InvalidInput):
            Weights(*bad)


@run
async def test_old_fragments_are_found_among_many(memory):
    """Recall reaches past what can be ranked one by one."""
    long = LongTermMemory(memory=memory.key("ada"))
    await long.write(frag("The key to the shed is under the blue pot"))
    await long.write_batch([frag(f"Weather report {n}: rain") for n in range(600)])
    assert texts(await long.read("where is the key to the shed?", k=1)) == [
        "The key to the shed is under the blue pot"
    ]


@run
async def test_structured_fragments_keep_their_class(memory):
    """Steps come back as steps; plain text in such a layer stays text."""
    short = ShortTermMemory(memory=memory.key("ada"))
    short.initialize(real_memory_fragment_class=StructuredAgentMemoryFragment)
    await short.write(StructuredAgentMemoryFragment([{"thought": "t"}, {"action": "a"}]))
    await short.write(frag("plain"))
    steps, plain = await short.read("")
    assert (type(steps), steps.steps) == (
        StructuredAgentMemoryFragment,
        [{"thought": "t"}, {"action": "a"}],
    )
    assert (type(plain), plain.raw_observation) == (AgentMemoryFragment, "plain")
    whole = steps.reduce([steps, plain])
    assert whole.steps[-1] == {"observation": "plain"}


@run
async def test_duplicates_by_policy(memory):
    """By id, by text, or not at all."""
    same = [frag("Tea", 0.2), frag("tea ", 0.8)]
    policies: list[tuple[Dedupe, int]] = [("id", 2), ("text", 1), ("none", 2)]
    for dedupe, count in policies:
        short = ShortTermMemory(memory=memory.key("ada"), label=dedupe, dedupe=dedupe)
        assert len(await short.handle_duplicated(same[:1], same[1:])) == count
        await short.write_batch([f.copy() for f in same])
        assert len(await short.read("")) == count
    assert await ShortTermMemory(2).handle_overflow([1, 2, 3]) == ([2, 3], [1])
    assert await SensoryMemory().handle_overflow([1]) == ([1], [])


# --- models -----------------------------------------------------------------------------------


@run
async def test_models_and_their_stand_ins(memory):
    """A model is asked with the fragment's text; without one the stand-ins serve."""

    def answer(messages: Any) -> str:
        is_rating = messages[-1]["content"].startswith("Rate how")
        return "Rating: 10" if is_rating else "1. Likes tea\n2. Is kind"

    chat = ScriptedChat(answer)
    short = ShortTermMemory(memory=memory.key("ada"))
    short.initialize("Joy", chat, LLMImportanceScorer(), LLMInsightExtractor())
    assert await short.score_memory_importance([frag("tea")]) == [1.0]
    (insight,) = await short.get_insights([frag("tea")])
    assert texts(insight.insights) == ["Likes tea", "Is kind"]
    assert [r.messages[0]["content"].count("tea") for r in chat.requests] == [1, 1]
    short.initialize("Joy", None, OfflineImportanceScorer(), OfflineInsightExtractor())
    dull, sharp = frag("ok"), frag("On 3 May Ann married Bob in Lisbon; she loves him")
    low, high = await short.score_memory_importance([dull, sharp])
    assert low < high
    (summary,) = await short.get_insights([sharp])
    assert "Ann" in summary.insights[0].raw_observation
    assert texts(await short.reflect([sharp]))[0] == sharp.raw_observation
    with pytest.raises(InvalidInput, match="LLM client is required"):
        await LLMImportanceScorer().score_importance(frag("a"))
    with pytest.raises(InvalidInput, match=r"not contain \{text\}"):
        LLMImportanceScorer("rate it")


@run
async def test_insights_reach_long_term_memory(memory):
    """The first insight of what consolidates is kept beside it, scored, with its sources."""

    class Two(OfflineInsightExtractor):
        async def extract_insights(self, memory_fragment, llm_client=None):
            return InsightMemoryFragment(memory_fragment, ["first", "second"])

    hybrid = HybridMemory(
        short_term_memory=ShortTermMemory(1),
        default_insight_extractor=Two(),
        default_importance_scorer=OfflineImportanceScorer(),
        memory=memory.key("ada"),
    )
    await hybrid.write(frag("Ann loves tea since she moved to Lisbon", memory_id=1))
    await hybrid.write(frag("Bob hates tea since he moved to London", memory_id=2))
    found = await hybrid.long_term_memory.read("first", k=9)
    (insight,) = [f for f in found if f.is_insight]
    assert (insight.raw_observation, insight.source_ids) == ("first", [1])


# --- inside an action -------------------------------------------------------------------------


def test_a_layer_in_an_action_is_part_of_it(memory):
    """What an action writes to a layer is committed with it, or not at all; also from threads."""
    short = ShortTermMemory(2, memory=memory.key("ada"))
    attempts = []

    class Remembers(Agent):
        @action(InputEvent)
        async def remember(self, event, ctx):
            await short.write(frag(f"{event.value} 1"))
            await asyncio.to_thread(asyncio.run, short.write(frag(f"{event.value} 2")))
            same = ShortTermMemory(2, memory=ctx.long_term_memory)
            attempts.append(texts(await same.read("")))
            if len(attempts) == 1:
                raise OSError("once")
            ctx.send_event(OutputEvent(attempts[-1]))

    class Sees(Agent):
        @action(InputEvent)
        def see(self, event, ctx):
            ctx.send_event(OutputEvent(texts(asyncio.run(short.read("")))))

    with LocalRunner(Remembers(), memory) as runner, pytest.raises(Exception, match="once"):
        runner.handle("ada", "x")
    assert asyncio.run(short.read("")) == []
    with LocalRunner(Remembers(), memory, name="again") as runner:
        assert [*runner.handle("ada", "y")] == [["y 1", "y 2"]]
    assert texts(asyncio.run(short.read(""))) == ["y 1", "y 2"]
    with LocalRunner(Sees(), memory) as runner:
        assert [*runner.handle("ada", 1)] == [["y 1", "y 2"]]


def test_a_layer_in_a_batch(memory):
    """A batch by hand takes a layer's changes along, or drops them with the rest."""
    ada = memory.key("ada")
    with ada.batch() as batch:
        short = ShortTermMemory(1, memory=batch)
        asyncio.run(short.write_batch([frag("a"), frag("b")]))
        batch.short_term.set("n", 1)
    assert texts(asyncio.run(ShortTermMemory(1, memory=ada).read(""))) == ["b"]
    with pytest.raises(ZeroDivisionError), ada.batch() as batch:
        asyncio.run(_and_fail(ShortTermMemory(1, memory=batch)))
    assert texts(asyncio.run(ShortTermMemory(1, memory=ada).read(""))) == ["b"]


async def _and_fail(short):
    await short.write(frag("c"))
    raise ZeroDivisionError


def test_hybrid_memory_in_one_batch(memory):
    """Moves between all layers fit into one batch, sources before what is derived from them."""
    with memory.key("ada").batch() as batch:
        hybrid = HybridMemory(
            sensory_memory=SensoryMemory(2),
            short_term_memory=EnhancedShortTermMemory(
                alike, buffer_size=3, enhance_threshold=1, random=lambda: 0.0
            ),
            long_term_memory=LongTermMemory(k=100),
            memory=batch,
        )
        for n in range(30):
            asyncio.run(hybrid.write(frag(topic(n), memory_id=n)))
        held = asyncio.run(everything(hybrid))
    assert held == sorted(topic(n) for n in range(30))
    assert asyncio.run(everything(layers(memory))) == held


# --- side by side -----------------------------------------------------------------------------


def test_writers_and_readers_side_by_side(tmp_path):
    """Eight threads that write and as many that read lose and double nothing."""
    done, stop = [], threading.Event()

    def writer(number):
        hybrid, n = layers(memory), 0
        while not stop.is_set():
            asyncio.run(hybrid.write(frag(topic(n * 8 + number), memory_id=n * 8 + number)))
            done.append(n * 8 + number)
            n += 1

    def reader():
        hybrid = layers(memory)
        while not stop.is_set():
            known = {topic(n) for n in done}
            held = asyncio.run(hybrid.read("number", k=100_000))
            found = [text for f in held for text in f.raw_observation.split(";")]
            assert len(found) == len(set(found))
            assert known <= set(found)
            for part in (hybrid.sensory_memory, hybrid.short_term_memory):
                assert len(asyncio.run(part.read(""))) <= part.buffer_size

    with Memory.open(tmp_path / "app.db", embedder="words", wait_s=LIMIT_S) as memory:
        faults = []
        threads = [threading.Thread(target=_guarded(writer, faults, n)) for n in range(8)]
        threads += [threading.Thread(target=_guarded(reader, faults)) for _ in range(8)]
        for thread in threads:
            thread.start()
        stop.wait(COUNTS.contention_s)
        stop.set()
        for thread in threads:
            thread.join(LIMIT_S)
        assert faults == []
        assert asyncio.run(everything(layers(memory))) == sorted(map(topic, done))


def _guarded(work, faults, *args):
    def guarded():
        try:
            work(*args)
        except BaseException as error:
            faults.append(error)
            raise

    return guarded


def test_processes_side_by_side(tmp_path):
    """Processes that write to one buffer lose and double nothing."""
    path, count = tmp_path / "app.db", 25
    command = [sys.executable, str(WORKER), str(path)]
    children = [
        warm.Popen([*command, str(n * 1000), str(count)], stdout=subprocess.DEVNULL)
        for n in range(3)
    ]
    assert [child.wait(LIMIT_S) for child in children] == [0, 0, 0]
    numbers = [n * 1000 + m for n in range(3) for m in range(count)]
    with Memory.open(path, embedder="words") as memory:
        assert asyncio.run(everything(layers(memory))) == sorted(map(topic, numbers))


def test_turns_are_fair_and_outlive_a_cancelled_one():
    """Who waits first is first; who gives up keeps nobody waiting."""

    async def main():
        turns, order = FairLock(), []

        async def work(name):
            async with turns:
                order.append(name)
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(work(n)) for n in range(5)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[3].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await work(9)
        return order

    assert asyncio.run(main()) == [0, 2, 4, 9]


def test_turns_outlive_a_loop_that_is_closed():
    """What waited in it keeps nobody waiting."""

    def abandon(turns):
        loop = asyncio.new_event_loop()
        task = loop.create_task(turns.__aenter__())
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        cast("Any", task)._log_destroy_pending = False

    async def main():
        turns = FairLock()
        async with turns:
            await asyncio.to_thread(abandon, turns)
        return await asyncio.wait_for(turns.__aenter__(), LIMIT_S)

    asyncio.run(main())


# --- killed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_killed_between_and_inside_moves(tmp_path, seed):
    """Whatever instant a process dies at: no fragment is lost, and none is there twice."""
    path, chance, first = tmp_path / "app.db", random.Random(seed), 0
    for _ in range(KILLS):
        step = chance.choice(["commit:before", "commit:after", "item:before", "item:after"])
        spec = f"{step}:{chance.randint(1, 60 if step.startswith('item') else 20)}"
        child = warm.run(
            [sys.executable, str(WORKER), str(path), str(first), "200"],
            env=os.environ | {"ALVEUS_CRASH": spec},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert child.returncode == -signal.SIGKILL, child.stderr[-500:]
        told = [int(line) for line in child.stdout.split()]
        first = told[-1] + 1 if told else first
        with Memory.open(path, embedder="words") as memory:
            held = asyncio.run(everything(layers(memory)))
        known = sorted(map(topic, range(first)))
        assert held in (known, sorted(map(topic, range(first + 1)))), spec
    assert first > KILLS


# --- the log ----------------------------------------------------------------------------------


def channel(log, conv):
    queue = log.queue(conv)
    assert queue is not None
    return queue


def gpts(conv, content, **kwargs):
    return GptsMessage(conv, "Joy", "User", "ai", content, **kwargs)


@run
async def test_the_log_is_kept_and_shown(memory):
    """Messages are durable; who watches sees each state of the conversation, and the end."""
    log = GptsMemory(memory=memory)
    await log.init("c1", enable_vis_message=False, history_messages=[gpts("c1", "before")])
    await log.append_message("c1", gpts("c1", "raw", action_report='{"content": "done"}'))
    await log.append_message("c1", GptsMessage("c1", "User", "Joy", "human", "hidden"))
    await log.push_message("c1", "typing")
    await log.complete("c1")
    views = [view async for view in log.chat_messages("c1")]
    assert [v["markdown"] for v in views[0]] == ["before", "done"]
    assert views[1] == views[0]
    assert views[2][-1] == {"markdown": "typing"}
    await log.init("c1", history_messages=[gpts("c1", "again")])
    await log.push_message("c1", "typing")
    assert channel(log, "c1").get_nowait().endswith("**Joy** to User:\n\ndone\n\ntyping")
    again = GptsMemory(memory=memory)
    assert [m.content for m in await again.get_messages("c1")] == ["before", "raw", "hidden"]
    assert await again.get_agent_history_memory("c1", "Joy") == [{"content": "done"}]
    assert [m.content for m in again.message_memory.get_between_agents("c1", "Joy", "User")]
    assert again.message_memory.get_between_agents("c1", "Joy", "User", "no goal") == []
    with pytest.raises(NotFound, match="no channel"):
        await anext(again.chat_messages("c2"))
    await again.complete("c2")


@run
async def test_the_log_refuses_what_it_would_keep_elsewhere(memory):
    """A message of another conversation would be found there alone; no state is a typing error."""
    log = GptsMemory(memory=memory)
    with pytest.raises(InvalidInput, match="to conversation 'b', not 'a'"):
        await log.append_message("a", gpts("b", "x"))
    with pytest.raises(InvalidInput, match="GptsMessage, not None"):
        await log.append_message("a", None)  # pyright: ignore[reportArgumentType] - wrong on purpose
    log.plans_memory.batch_save([GptsPlan("a", 1)])
    with pytest.raises(InvalidInput, match=r"be todo, running, .*not 'done'"):
        log.plans_memory.update_task("a", 1, "done", 0)
    assert (await log.get_messages("b"), log.plans_memory.get_by_conv_id("a")[0].state) == (
        [],
        "todo",
    )


@run
async def test_the_log_in_ram_is_bounded(memory):
    """Conversations that were used longest ago go first; a channel keeps the latest views."""
    log = GptsMemory(conversations=2)
    for conv in ("a", "b", "a", "c"):
        await log.append_message(conv, gpts(conv, f"to {conv}"))
    assert [len(await log.get_messages(conv)) for conv in "abc"] == [2, 0, 1]
    await log.init("a")
    for _ in range(100):
        await log.push_message("a", "x")
    assert channel(log, "a").qsize() == 64


def test_plans_are_strict(memory):
    """A number is taken once; what is not there cannot be changed; removing removes."""
    plans = GptsMemory(memory=memory).plans_memory
    plans.batch_save([GptsPlan("c", 2), GptsPlan("c", 1), GptsPlan("d", 1)])
    with pytest.raises(DuplicateItem):
        plans.batch_save([GptsPlan("c", 1)])
    with pytest.raises(NotFound, match="no task 7"):
        plans.complete_task("c", 7, "ok")
    with pytest.raises(ValueError, match="nonsense"):
        plans.update_task("c", 1, "nonsense", 0)
    assert [p.sub_task_num for p in plans.get_by_conv_id("c")] == [1, 2]
    assert (plans.remove_by_conv_id("c"), len(plans.get_by_conv_id("d"))) == (2, 1)
    assert GptsPlan.from_dict(GptsPlan("c", 1, sub_task_title="t").to_dict()).sub_task_title == "t"
    for bad in ({"conv_id": "c"}, {"conv_id": "c", "sub_task_num": 1, "nope": 1}):
        with pytest.raises(InvalidInput):
            GptsPlan.from_dict(bad)


# --- input ------------------------------------------------------------------------------------


def test_bad_settings_are_refused():
    """Each says what it wants."""
    number: Any = {"a": 1}
    text: Any = "text"
    unknown: Any = "maybe"
    for make in (
        lambda: ShortTermMemory(0),
        lambda: SensoryMemory(-1),
        lambda: ShortTermMemory(dedupe=unknown),
        lambda: ShortTermMemory(profile=unknown),
        lambda: EnhancedShortTermMemory(3),
        lambda: EnhancedShortTermMemory(enhance_threshold=0),
        lambda: LongTermMemory(reflection_threshold=0),
        lambda: LongTermMemory(now=text),
        lambda: AgentMemoryFragment(number),
        lambda: AgentMemoryFragment("a", importance=float("nan")),
        lambda: AgentMemoryFragment("a", memory_id=""),
        lambda: StructuredAgentMemoryFragment(text),
        lambda: InsightMemoryFragment([], ["a"]),
        lambda: ShortTermMemory().real_memory_fragment_class,
    ):
        with pytest.raises(InvalidInput):
            make()


@run
async def test_embeddings_that_raise_anything_lose_nothing(memory):
    """Libraries of models have errors of their own; a write keeps the fragment, and says so."""

    class OutOfService(Exception):
        pass

    def embed(texts: list[str]) -> list[list[float]]:
        raise OutOfService

    short = EnhancedShortTermMemory(embed, memory=memory.key("ada"))
    await short.write(frag("a"))
    discarded = await short.write(frag("b"))
    assert discarded is not None
    assert "OutOfService" in discarded.failures[0].reason
    assert [one.raw_observation for one in short.short_term_memories] == ["a", "b"]


@run
async def test_bad_calls_are_refused(memory):
    """Marks, thresholds and operations that mean nothing are errors."""
    long, maybe = LongTermMemory(memory=memory.key("ada")), cast("Any", "maybe")
    with pytest.raises(InvalidInput, match="a mark must be"):
        await long.mark([1], maybe)
    with pytest.raises(InvalidInput, match="write them to short-term memory"):
        await SensoryMemory().write(frag("a"), op=WriteOperation.RETRIEVAL)
    short = Nearness(lambda texts: [[1.0]])
    with pytest.raises(EmbedderFailed, match="one vector of finite numbers for each"):
        short.vectors(["a", "b"])
    words_only = EnhancedShortTermMemory(memory=memory.key("ada"))
    with pytest.raises(InvalidInput, match="makes no vectors"):
        await words_only.write(frag("a"))


def test_ids_rise_and_tell_the_time():
    """An id that alveus made says when; texts may be ids too."""
    before = datetime.now(UTC) - timedelta(seconds=1)
    first, second = (cast("int", frag(name).id) for name in "ab")
    assert first < second
    assert before <= time_of_id(first) <= datetime.now(UTC) + timedelta(seconds=1)
    assert AgentMemoryFragment("a", memory_id="from outside").id == "from outside"


def test_ids_as_dbgpt_makes_them():
    """A process may have Snowflakes: 64 bits that rise, with its number and the time in them."""
    before = datetime.now(UTC) - timedelta(seconds=1)
    try:
        for epoch in (0, 1_288_834_974_657):
            initialize_id_generator(instance=7, seq=4090, epoch=epoch)
            ids = [cast("int", frag("a").id) for _ in range(10_000)]
            assert ids == sorted(set(ids))
            assert ids[-1] < 1 << 63
            assert {one >> 12 & 1023 for one in ids} == {7}
            assert before <= time_of_id(ids[0]) <= datetime.now(UTC) + timedelta(minutes=1)
        far = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1000)
        initialize_id_generator(1, timestamp=far)
        assert time_of_id(cast("int", frag("a").id)) == datetime(2100, 1, 1, tzinfo=UTC)
        for bad in ((1024,), (-1,), (1, 4096), (1, 0, far), (1, 0, 5, 4)):
            with pytest.raises(InvalidInput):
                initialize_id_generator(*bad)
    finally:
        initialize_id_generator()
    assert before <= time_of_id(cast("int", frag("a").id)) <= datetime.now(UTC)


def test_a_batch_with_a_key_is_done_once(memory):
    """The same writes under one idempotency key are one; others under it are refused."""

    def write(*names):
        with memory.key("ada").batch(idempotency_key="x") as batch:
            short = ShortTermMemory(5, memory=batch)
            asyncio.run(short.write_batch([frag(name) for name in names]))

    write("a", "b")
    write("a", "b")
    assert texts(asyncio.run(ShortTermMemory(5, memory=memory.key("ada")).read(""))) == ["a", "b"]
    with pytest.raises(IdempotencyConflict):
        write("a", "c")


class Own(MemoryFragment):
    """The least that a fragment of one's own has to have."""

    def __init__(self, text, own_id=7):
        self._text, self._id = text, own_id

    @classmethod
    def build_from(cls, observation, embeddings=None, memory_id=None, *args, **kwargs):
        return cls(observation, 8 if memory_id is None else memory_id)

    @property
    def id(self):
        return self._id

    @property
    def raw_observation(self):
        return self._text

    def copy(self):
        return Own(self._text, self._id)

    def update_importance(self, importance):
        return None

    def update_embeddings(self, embeddings):
        pass

    def update_accessed_time(self, now):
        return None


@run
async def test_a_fragment_of_ones_own(memory):
    """What derives from MemoryFragment goes through the layers, and comes back in its class."""
    hybrid = HybridMemory(short_term_memory=ShortTermMemory(1), memory=memory.key("ada"))
    hybrid.initialize(real_memory_fragment_class=Own)
    for n, text in enumerate(("tea", "cake")):
        await hybrid.write(Own(text, n))
    found = await hybrid.read("tea")
    assert [(type(f), f.id, f.raw_observation) for f in found] == [
        (Own, 0, "tea"),
        (Own, 1, "cake"),
    ]
    own = found[0]
    assert (own.metadata, own.importance, own.embeddings, own.is_insight) == ({}, None, None, False)
    assert (own.last_accessed_time, own.source_ids, own.current_class) == (None, [], Own)
    assert own.calculate_current_embeddings(alike) == alike(["tea"])[0]
    assert own.reduce(found).raw_observation == "tea;cake"


def test_names_of_the_document():
    """Programs find the names they know, however the document spells them."""
    assert dbgpt.SensorMemory is dbgpt.SensoryMemory is SensoryMemory
    assert all(hasattr(dbgpt, name) for name in dbgpt.__all__)
    short = dbgpt.ShortTermMemory(buffer_size=5)
    agent = dbgpt.AgentMemory(memory=short)
    assert isinstance(agent.gpts_memory, dbgpt.GptsMemory)
    assert (agent.memory, short.buffer_size) == (short, 5)


@run
async def test_an_agent_memory_hands_on(memory):
    """What is written to an agent's memory, with its operation, reaches the layers."""
    short = EnhancedShortTermMemory(alike, random=lambda: 0.0, memory=memory.key("ada"))
    agent = AgentMemory(short, insight_extractor=OfflineInsightExtractor())
    agent.initialize("Joy")
    assert short.real_memory_fragment_class is AgentMemoryFragment
    await agent.write(frag("a"))
    await agent.write(frag("a1"), op=WriteOperation.RETRIEVAL)
    assert texts(await agent.read("a", 0, 1, 0)) == ["a"]
    assert texts(await agent.clear()) == ["a"]
    assert "EnhancedShortTermMemory" in repr(agent)
    short.close()


@run
async def test_embeddings_of_other_makes(memory):
    """An embedder, an object with `embed_documents`, or a function tells likeness."""

    class Documents:
        def embed_documents(self, texts):
            return alike(texts)

    for embeddings in (Documents(), alike, open_embedder("static")):
        short = EnhancedShortTermMemory(embeddings, enhance_threshold=1, random=lambda: 0.0)
        await short.write(frag("cake"))
        gone: Any = await short.write(frag("cake"))
        assert texts(gone.discarded_memory_fragments) == ["cake;cake"]
        short.close()
    with pytest.raises(InvalidInput, match="must be an Embedder"):
        EnhancedShortTermMemory(3)


@run
async def test_clocks(memory):
    """A datetime is when the clock of RAM begins, a function is the clock; naive is local time."""
    start = datetime(2040, 1, 1, tzinfo=UTC)
    for now in (start, lambda: start, start.astimezone().replace(tzinfo=None)):
        long = LongTermMemory(now=now)
        await long.write(frag("tea"))
        (found,) = await long.read("tea")
        assert abs(found.last_accessed_time - start) < timedelta(minutes=1)
        await long.write(frag("cake"), datetime(2041, 1, 1))  # noqa: DTZ001 - as DB-GPT's programs
        clone = long.structure_clone()
        assert await clone.read("tea") == []
        long.close()
