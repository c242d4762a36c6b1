"""What an agent is bound to is a memory: all of a layer's interface, and nothing out of range."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from alveus import CompactionPlan, Derived, Item, Memory
from alveus.agents.layers import (
    AgentMemory,
    AgentMemoryFragment,
    EnhancedShortTermMemory,
    HybridMemory,
    ImportanceScorer,
    InsightExtractor,
    InsightMemoryFragment,
    LongTermMemory,
    OfflineImportanceScorer,
    OfflineInsightExtractor,
    SensoryMemory,
    ShortTermMemory,
)
from alveus.agents.layers import LayerMemory as Layer
from alveus.compat import dbgpt
from alveus.errors import InvalidInput

PUBLISHED = sorted(name for name, _ in inspect.getmembers(Layer) if not name.startswith("_"))
SETTINGS = {"guards_fragments", "importance_weight", "kind", "reads_meaning"}
"""Of a kind of layer; an agent memory has none of its own."""


def frag(text: str, importance: float | None = None) -> AgentMemoryFragment:
    return AgentMemoryFragment(text, importance=importance)


def test_an_agent_memory_is_a_memory() -> None:
    """Under DB-GPT's names, too."""
    assert isinstance(AgentMemory(), Layer)
    assert issubclass(dbgpt.AgentMemory, dbgpt.Memory)
    assert {"reflect", "get_insights", "score_memory_importance", "handle_duplicated"} < set(
        PUBLISHED
    )


def test_the_log_of_an_agent_memory_is_a_log() -> None:
    """Or the agent would fail at its first message."""
    with pytest.raises(InvalidInput, match="the log of an agent must be a GptsMemory, not 5"):
        AgentMemory(gpts_memory=5)  # pyright: ignore[reportArgumentType] - what is refused


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name not in SETTINGS])
def test_an_agent_memory_has_the_whole_interface(name: str) -> None:
    """Each public name of a memory is there, with its arguments, and asks the layers."""
    own, published = vars(AgentMemory).get(name), inspect.getattr_static(Layer, name)
    assert own is not None, f"AgentMemory.{name} is the layer's own, not that of its layers"
    assert isinstance(own, property) == isinstance(published, property)
    if not isinstance(own, property):
        mine, theirs = inspect.signature(own), inspect.signature(published)
        assert list(mine.parameters) == list(theirs.parameters)
        assert [p.kind for p in mine.parameters.values()] == [
            p.kind for p in theirs.parameters.values()
        ]
        assert inspect.iscoroutinefunction(own) == inspect.iscoroutinefunction(published)


def test_an_agent_reaches_what_its_layers_do() -> None:
    """Reflection, insights, importance and duplicates: what the layers answer."""

    async def main() -> None:
        inner = LongTermMemory[Any](dedupe="text")
        agent = AgentMemory(inner, OfflineImportanceScorer(), OfflineInsightExtractor())
        agent.initialize("Joy", session_id="c1")
        assert (agent.name, agent.session_id) == (inner.name, inner.session_id) == ("Joy", "c1")
        fragments = [frag("Ann was born in Oslo."), frag("Ann moved to Bergen.")]
        reflected = await agent.reflect(fragments)
        assert reflected[:2] == fragments
        assert [f.is_insight for f in reflected[2:]] == [True]
        assert len(await agent.get_insights(fragments)) == 2
        scores = await agent.score_memory_importance(fragments)
        assert scores == await inner.score_memory_importance(fragments)
        assert scores != [0.5, 0.5]
        twice = [frag("ann was born  in OSLO.")]
        assert await agent.handle_duplicated(fragments, twice) == fragments
        assert await agent.handle_overflow(fragments) == (fragments, [])
        nested = AgentMemory(agent)
        await nested.write(fragments[0])
        assert [f.raw_observation for f in await agent.read("Oslo")] == ["Ann was born in Oslo."]

    asyncio.run(main())


# --- importance -----------------------------------------------------------------------------------

LAYERS = [SensoryMemory, ShortTermMemory, EnhancedShortTermMemory, LongTermMemory, HybridMemory]


@pytest.mark.parametrize("kind", [*LAYERS, AgentMemory])
@pytest.mark.parametrize("importance", [7, -0.1, 1.0001])
def test_a_layer_refuses_an_importance_out_of_range(kind: type[Any], importance: float) -> None:
    """Nothing of a write with an importance outside 0..1 is kept; DB-GPT's profile goes to 10."""

    async def main() -> None:
        memory = kind() if kind is AgentMemory else kind(profile="alveus")
        with pytest.raises(InvalidInput, match="from 0 to 1, not"):
            await memory.write_batch([frag("fine", 0.5), frag("not", importance)])
        with pytest.raises(InvalidInput, match="from 0 to 1, not"):
            await memory.write(frag("not", importance))
        assert await memory.clear() == []

    asyncio.run(main())


def test_importance_as_dbgpt_counts_goes_to_ten() -> None:
    """A rating times the weight of a layer; what is beyond is refused there, too."""

    async def main() -> None:
        short = ShortTermMemory[Any](profile="dbgpt")
        await short.write(frag("fine", 9))
        with pytest.raises(InvalidInput, match="from 0 to 10, not 11"):
            await short.write(frag("not", 11))

    asyncio.run(main())
    with pytest.raises(InvalidInput, match="_default_importance must be a number from 0 to 1"):
        LongTermMemory(_default_importance=7)


class Says(ImportanceScorer, InsightExtractor):
    """A model that answers what it likes."""

    def __init__(self, number: float) -> None:
        self._number = number

    async def score_importance(self, memory_fragment: Any, llm_client: Any = None) -> float:
        return self._number

    async def extract_insights(self, memory_fragment: Any, llm_client: Any = None) -> Any:
        return InsightMemoryFragment(memory_fragment, [frag("so", self._number)])


@pytest.mark.parametrize("answer", [0, 0.5, 11, -3, 1e300])
def test_a_rating_out_of_range_is_none(answer: float) -> None:
    """Ratings are 1 to 10: whoever answers 0.5 meant another scale. The default counts."""

    async def main() -> None:
        sensory = SensoryMemory[Any]()
        sensory.initialize(importance_scorer=Says(answer))
        left: Any = await sensory.write(frag("a"))
        assert [f.importance for f in left.discarded_memory_fragments] == [0.5]
        assert "must be a number from 1 to 10, not" in left.failures[0].reason

    asyncio.run(main())


def test_an_insight_out_of_range_is_left_out() -> None:
    """The fragment stays; the failure is told."""

    async def main() -> None:
        sensory = SensoryMemory[Any]()
        sensory.initialize(insight_extractor=Says(7))
        left: Any = await sensory.write(frag("a", 0.5))
        assert len(left.discarded_memory_fragments) == 1
        assert (
            "the importance of an insight must be a number from 0 to 1" in left.failures[0].reason
        )

    asyncio.run(main())


BAD: list[Any] = [7, -0.1, 1.0001, float("nan"), True, "1"]


class Counting(ImportanceScorer, InsightExtractor):
    """A model that is asked a few times at most."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def _ask(self, fragment: Any) -> None:
        self.asked.append(fragment.raw_observation)
        if len(self.asked) > 8:
            pytest.fail("asked again and again")  # no Exception, which a layer would record

    async def score_importance(self, memory_fragment: Any, llm_client: Any = None) -> float:
        self._ask(memory_fragment)
        return 10

    async def extract_insights(self, memory_fragment: Any, llm_client: Any = None) -> Any:
        self._ask(memory_fragment)
        return InsightMemoryFragment(memory_fragment, ["an insight"])


def test_insights_of_a_merged_fragment_are_asked_for_once() -> None:
    """A plan that is made again with the answer merges the same fragments into the same one."""

    async def scenario() -> None:
        short = EnhancedShortTermMemory[Any](
            lambda texts: [[1.0, 0.0] for _ in texts], enhance_threshold=2, random=lambda: 0.0
        )
        model, hybrid = Counting(), HybridMemory[Any](short_term_memory=short)
        hybrid.initialize("Joy", insight_extractor=model)
        for text in ("tea", "more tea", "rain"):
            await hybrid.write(frag(text))
        assert model.asked == ["tea;more tea;rain"]
        found = await hybrid.read("tea")
        (insight,) = [one for one in found if one.is_insight]
        (whole,) = [one for one in found if not one.is_insight]
        assert insight.source_ids == [whole.id]

    asyncio.run(scenario())


def test_a_fragment_under_a_free_id_is_rated_once() -> None:
    """Without duplicates each write is a fragment; a plan made again gives it the same id."""

    async def scenario() -> None:
        model, sensory = Counting(), SensoryMemory[Any](1, dedupe="none")
        sensory.initialize("Joy", importance_scorer=model)
        tea = frag("tea")
        await sensory.write(tea)
        gone = await sensory.write(tea)
        assert gone is not None
        first, second = gone.discarded_memory_fragments
        assert (first.id, second.id == tea.id) == (tea.id, False)
        assert model.asked == ["tea", "tea"]

    asyncio.run(scenario())


@pytest.mark.parametrize("importance", BAD)
def test_no_door_of_a_set_stores_an_importance_out_of_range(importance: Any) -> None:
    """By whatever call an item comes, and whatever changes it."""
    with Memory.open(embedder="words") as memory:
        ada = memory.key("ada")
        notes, item = ada.set("n"), Item("v", importance=importance)
        notes.add("x", id="x")

        def in_a_batch() -> None:
            with ada.batch() as batch:
                batch.set("n").add(item)

        def by_a_plan(*_: Any) -> CompactionPlan:
            return CompactionPlan(add=[Derived(["x"], "z", importance=importance)])

        for add in (
            lambda: notes.add("v", importance=importance),
            lambda: notes.add(item),
            lambda: notes.add_many(["fine", item]),
            lambda: notes.add_back([item]),
            lambda: notes.update("x", importance=importance),
            lambda: notes.add(Item("v", id="x", importance=importance), on_existing="update"),
            lambda: notes.supersede("x", "v", importance=importance),
            lambda: memory.knowledge.set("k").add(item),
            in_a_batch,
            lambda: notes.compact(by_a_plan),
        ):
            with pytest.raises(InvalidInput, match="importance must be a number from 0 to 1"):
                add()
        assert [(i.id, i.importance, i.version) for i in notes.list()] == [("x", 0.0, 1)]
