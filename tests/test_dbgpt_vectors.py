"""The vectors of DB-GPT's agents, by their ids: what is kept, and what is mended.

A test is named after its vector: `test_d22_…` is vector D22, `test_v1_…` of the proposed ones P1.
Its docstring says what both do, or what DB-GPT does and what alveus does instead; from these
tools/make_docs.py writes docs/dbgpt-vectors.md.
"""

from __future__ import annotations

import asyncio
import math
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from alveus import Memory as Store
from alveus.agents.layers import (
    AgentMemory,
    AgentMemoryFragment,
    EnhancedShortTermMemory,
    GptsMemory,
    GptsMessage,
    GptsPlan,
    HybridMemory,
    ImportanceScorer,
    InsightExtractor,
    InsightMemoryFragment,
    LongTermMemory,
    SensoryMemory,
    ShortTermMemory,
    StructuredAgentMemoryFragment,
    Weights,
    WriteOperation,
    kept_rounds,
    memories_text,
    memory_text,
    parse_conv_id,
    parse_list,
    parse_number,
    recency,
    sigmoid,
    steps_of,
    user_prompt,
)
from alveus.agents.prompt_limits import (
    ContextLimits,
    ResultLimits,
    ToolOutput,
    ToolResults,
    preview,
)
from alveus.errors import InvalidInput, ModelUnavailable
from alveus.llm import ScriptedChat
from alveus.sets.writer import PageQuery
from alveus.store.records import item_of
from pages import ROOT

PAGE = ROOT / "docs" / "dbgpt-vectors.md"
VECTORS = [*(f"D{n}" for n in range(1, 82)), *(f"P{n}" for n in range(1, 6))]
START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now

    def pass_hours(self, hours):
        self.now += timedelta(hours=hours)


def alike(texts):
    """Vectors: texts that begin alike are alike, others are not."""
    return [[float(ord(text[0]) == code) for code in range(97, 123)] for text in texts]


def frag(text, importance=None, **kwargs):
    return AgentMemoryFragment(text, importance=importance, **kwargs)


def texts(fragments):
    return [fragment.raw_observation for fragment in fragments]


def left(discarded):
    return None if discarded is None else texts(discarded.discarded_memory_fragments)


async def written(memory, *names, **kwargs):
    """Write fragments one by one; return for each what left, and what is there then."""
    seen = []
    for name in names:
        fragment = name if isinstance(name, AgentMemoryFragment) else frag(name)
        seen.append((left(await memory.write(fragment, **kwargs)), texts(await memory.read(""))))
    return seen


def enhanced(**kwargs):
    return EnhancedShortTermMemory(alike, random=kwargs.pop("random", lambda: 0.0), **kwargs)


def counts(memory):
    """How often each fragment was strengthened, oldest first."""
    notes = memory.storage.writer().get(memory.storage.ref("layers"), ["short_term"], at=None)
    value = {} if notes[0] is None else item_of(notes[0]).value
    by = [value.get(name, {}) for name in ("enhanced", "recalled")]
    ids = [str(fragment.id) for fragment in memory.short_term_memories]
    return [sum(len(names.get(one, ())) for names in by) for one in ids]


class Rates(ImportanceScorer):
    def __init__(self, ratings, pause=0):
        self.ratings, self.pause = ratings, pause

    async def score_importance(self, memory_fragment, llm_client=None):
        for _ in range(self.pause):
            await asyncio.sleep(0)
        if isinstance(self.ratings, dict):
            return self.ratings[memory_fragment.raw_observation]
        return self.ratings


class Infers(InsightExtractor):
    def __init__(self, fails=(), pause=0):
        self.fails, self.pause = fails, pause

    async def extract_insights(self, memory_fragment, llm_client=None):
        for _ in range(self.pause):
            await asyncio.sleep(0)
        if memory_fragment.raw_observation in self.fails:
            return None
        return InsightMemoryFragment(memory_fragment, [f"I:{memory_fragment.raw_observation}"])


def with_scorer(memory, ratings, **kwargs):
    memory.initialize(importance_scorer=Rates(ratings, **kwargs))
    return memory


def with_extractor(memory, **kwargs):
    memory.initialize(insight_extractor=Infers(**kwargs))
    return memory


def run(case):
    """Make a test of a coroutine."""

    def test():
        asyncio.run(case())

    test.__name__, test.__doc__ = case.__name__, case.__doc__
    return test


def test_every_vector_has_one_place():
    """No vector is missing, and none is there twice."""
    source = (ROOT / "tests" / "test_dbgpt_vectors.py").read_text(encoding="utf-8")
    found = re.findall(r"^(?:async )?def test_([dv]\d+)_", source, re.MULTILINE)
    named = [one.upper().replace("V", "P") for one in found]
    assert sorted(named) == sorted(VECTORS)
    rows = re.findall(r"^\| ([DP]\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == VECTORS


# --- importance and parsing -------------------------------------------------------------------


@run
async def test_d1_importance_without_a_scorer():
    """DB-GPT: importance is 4.5 in sensory memory and 0.75 in short-term memory.

    alveus: importance is 0.5 in every layer; with profile="dbgpt" as in DB-GPT.
    """
    for layer, theirs in ((SensoryMemory, 4.5), (ShortTermMemory, 0.75)):
        assert await layer().score_memory_importance([frag("a")]) == [0.5]
        assert await layer(profile="dbgpt").score_memory_importance([frag("a")]) == [theirs]


@run
async def test_d2_a_rating_of_8():
    """DB-GPT: a rating of 8 becomes 1.2: the rating times the weight of the layer.

    alveus: it becomes 0.778: the position of the rating between 1 and 10; with profile="dbgpt" as
    in DB-GPT.
    """
    memory = with_scorer(ShortTermMemory(), 8)
    assert await memory.score_memory_importance([frag("a")]) == [pytest.approx(7 / 9)]
    theirs = with_scorer(ShortTermMemory(profile="dbgpt"), 8)
    assert await theirs.score_memory_importance([frag("a")]) == [pytest.approx(1.2)]


def test_d3_a_number_with_a_weight():
    """Both: `parse_number("8", 0.15)` is 0.12; without a weight it is 8."""
    assert parse_number("8", 0.15) == pytest.approx(0.12)
    assert parse_number("8") == 8


def test_d4_a_rating_in_an_answer():
    """DB-GPT: the first digits count: "none" is 0, "-3" is 3, "12 of 100" is 12, "8.5" is 8.

    alveus: the first number counts, limited to 1..10: "none" is unknown, "-3" is 1, "12 of 100" is
    10, 8.5 is 8.5.
    """
    answers = ("Rating: 7", "7/10", "I'd say 12 of 100", "none", "-3", "8.5", "\n9")
    assert [parse_number(answer) for answer in answers] == [7, 7, 10, None, 1, 8.5, 9]


def test_d5_a_numbered_list():
    r"""Both: `"1. a\n2. b\n\n 3. c "` is read as the list a, b, c."""
    assert parse_list("1. a\n2. b\n\n 3.  c ") == ["a", "b", "c"]


def test_d6_an_empty_list():
    """Both: an empty answer has no insights."""
    assert parse_list("") == []


def test_d7_a_list_with_bullets():
    """DB-GPT: bullets stay in the text: "- y". alveus: bullets are removed, like numbers."""
    assert parse_list("- y\n10. z") == ["y", "z"]


@run
async def test_d8_an_extractor_that_fails_once():
    """DB-GPT: an extractor that fails once raises an error, and all other insights are lost.

    alveus: the other insights are returned, and the failure is named.
    """
    memory = with_extractor(ShortTermMemory(), fails=("b",))
    found = await memory.get_insights([frag("a"), frag("b")])
    assert [texts(one.insights) for one in found] == [["I:a"]]
    assert texts(failure.fragment for failure in found.failures) == ["b"]


@run
async def test_d9_insights():
    """Both: each fragment gets an insight, which is marked as an insight."""
    memory = with_extractor(ShortTermMemory())
    found = await memory.get_insights([frag("a"), frag("b")])
    assert [texts(one.insights) for one in found] == [["I:a"], ["I:b"]]
    assert all(insight.is_insight for one in found for insight in one.insights)


# --- fragments --------------------------------------------------------------------------------


def test_d10_reduce():
    """DB-GPT: `reduce` joins the texts with ";", takes the given importance, and makes a new id.

    alveus: the same; the result also has the ids of its sources.
    """
    a, b = frag("a"), frag("b")
    made = a.reduce([a, b], importance=2)
    assert (made.raw_observation, made.importance) == ("a;b", 2)
    assert made.source_ids == [a.id, b.id]
    assert made.id not in (a.id, b.id)


def test_d11_the_id_0():
    """DB-GPT: an id of 0 is replaced by a new id. alveus: 0 is an id; only None gets a new id."""
    assert AgentMemoryFragment("x", memory_id=0).id == 0
    assert AgentMemoryFragment("x").id != AgentMemoryFragment("x").id


def test_d12_structured_text():
    """Both: the text of a structured fragment is its JSON."""
    assert StructuredAgentMemoryFragment({"question": "q"}).raw_observation == '{"question": "q"}'


def structured(*names):
    return [StructuredAgentMemoryFragment({"question": name}) for name in names]


def test_d13_structured_reduce():
    """Both: `reduce` makes one list of two structures."""
    a, b = structured("q1", "q2")
    assert a.reduce([a, b]).raw_observation == '[{"question": "q1"}, {"question": "q2"}]'


def test_d14_structured_reduce_again():
    """DB-GPT: `reduce` of a list and a structure makes a list in a list.

    alveus: it makes one flat list of three.
    """
    a, b, c = structured("q1", "q2", "q3")
    both = a.reduce([a, b])
    assert [step["question"] for step in steps_of(both.reduce([both, c]))] == ["q1", "q2", "q3"]


def test_d15_structured_reduce_of_nothing():
    """Both: `reduce` of no fragments raises the error "Memory fragments is empty."."""
    with pytest.raises(ValueError, match=r"Memory fragments is empty\."):
        StructuredAgentMemoryFragment.reduce([])


def test_d16_structured_of_plain_text():
    """DB-GPT: plain text raises a JSONDecodeError. alveus: plain text becomes a plain fragment."""
    made = StructuredAgentMemoryFragment.build_from("not json")
    assert (type(made), made.raw_observation) == (AgentMemoryFragment, "not json")


def test_d17_structured_copy():
    """DB-GPT: a copy of a structured fragment is a plain fragment.

    alveus: a copy has the class of the original.
    """
    made = structured("q")[0].copy()
    assert type(made) is StructuredAgentMemoryFragment


def test_d18_update_importance():
    """Both: `update_importance` returns the previous importance."""
    fragment = frag("a", 1)
    assert fragment.update_importance(3) == 1
    assert fragment.importance == 3


# --- sensory and short-term -------------------------------------------------------------------


@run
async def test_d19_sensory_memory_without_a_buffer():
    """Both: a sensory memory without a buffer hands each fragment on at once, with its importance
    (D1).
    """
    memory = SensoryMemory()
    gone: Any = await memory.write(frag("a"))
    assert left(gone) == ["a"]
    assert gone.discarded_memory_fragments[0].importance == 0.5
    assert await memory.read("") == []


@run
async def test_d20_sensory_memory_empties_at_once():
    """Both: in a sensory memory with room for two, the third write hands on all three."""
    expected = [(None, ["a"]), (None, ["a", "b"]), (["a", "b", "c"], []), (None, ["d"])]
    assert await written(SensoryMemory(2), *"abcde") == [*expected, (None, ["d", "e"])]


@run
async def test_d21_sensory_memory_drops_what_is_unimportant():
    """DB-GPT: fragments below the threshold are lost silently.

    alveus: they are listed as dropped, with the reason.
    """
    memory = with_scorer(SensoryMemory(1), {"a": 1, "b": 5})
    assert await memory.write(frag("a")) is None
    gone: Any = await memory.write(frag("b"))
    assert left(gone) == ["b"]
    assert [(d.fragment.raw_observation, d.reason) for d in gone.dropped] == [
        ("a", "its importance, 0, is below 0.1")
    ]
    assert await memory.read("") == []


@run
async def test_d22_short_term_memory_hands_on_the_oldest():
    """DB-GPT: a full short-term memory loses the oldest fragment, and hands on one that it keeps.

    alveus: the oldest fragment is handed on.
    """
    expected = [(None, ["a"]), (None, ["a", "b"]), (["a"], ["b", "c"]), (["b"], ["c", "d"])]
    assert await written(ShortTermMemory(2), *"abcde") == [*expected, (["c"], ["d", "e"])]


@run
async def test_d23_short_term_memory_in_a_batch():
    """DB-GPT: of a batch of five, b, c and d are handed on, and d is kept as well.

    alveus: a, b and c are handed on, as with single writes.
    """
    memory = ShortTermMemory(2)
    assert left(await memory.write_batch([frag(name) for name in "abcde"])) == ["a", "b", "c"]
    assert texts(await memory.read("")) == ["d", "e"]


@run
async def test_d24_one_fragment_twice():
    """DB-GPT: a fragment that is written twice is stored twice.

    alveus: it is stored once; with dedupe="none" twice.
    """
    f = frag("f")
    assert await written(ShortTermMemory(2), f, f) == [(None, ["f"]), (None, ["f"])]
    assert await written(ShortTermMemory(2, dedupe="none"), f, f) == [
        (None, ["f"]),
        (None, ["f", "f"]),
    ]


@run
async def test_d25_what_was_read_is_changed():
    """DB-GPT: `read` returns the list of the buffer itself.

    alveus: `read` returns copies of the list and of its fragments.
    """
    memory = ShortTermMemory(2)
    await memory.write(frag("a"))
    found = await memory.read("q")
    found[0].update_importance(1)
    found.append(frag("z"))
    (kept,) = await memory.read("q")
    assert (kept.raw_observation, kept.importance) == ("a", None)


@run
async def test_d26_clear():
    """Both: `clear` returns the fragments, and leaves none."""
    memory = ShortTermMemory(5)
    await memory.write_batch([frag("a"), frag("b")])
    assert texts(await memory.clear()) == ["a", "b"]
    assert await memory.read("") == []


@run
async def test_d27_insights_of_what_leaves():
    """DB-GPT: the insights come from the fragment that is handed on by mistake (D22).

    alveus: they come from the oldest fragment.
    """
    memory = with_extractor(ShortTermMemory(1))
    await memory.write(frag("a"))
    gone: Any = await memory.write(frag("b"))
    assert left(gone) == ["a"]
    assert [texts(one.insights) for one in gone.discarded_insights] == [["I:a"]]
    assert texts(await memory.read("")) == ["b"]


@run
async def test_d28_short_term_memory_written_side_by_side():
    """DB-GPT: with concurrent writes, three of seven fragments are lost, and one is handed on four
    times.

    alveus: each fragment is handed on once, in the order of arrival.
    """
    memory = with_extractor(ShortTermMemory(2), pause=3)
    await memory.write_batch([frag("a"), frag("b")])
    gone: Any = await asyncio.gather(*(memory.write(frag(name)) for name in "cdefg"))
    assert [name for one in gone for name in left(one) or ()] == ["a", "b", "c", "d", "e"]
    assert texts(await memory.read("")) == ["f", "g"]


@run
async def test_d29_sensory_memory_written_side_by_side():
    """DB-GPT: with concurrent writes, waiting fragments are handed on four times each.

    alveus: each fragment is handed on once.
    """
    memory = with_scorer(SensoryMemory(2), 5, pause=3)
    await memory.write_batch([frag("a"), frag("b")])
    gone: Any = await asyncio.gather(*(memory.write(frag(name)) for name in "cdef"))
    assert [name for one in gone for name in left(one) or ()] == [*"abcdef"]


# --- enhanced short-term ----------------------------------------------------------------------


def test_d30_the_probability_of_likeness():
    """Both: the probability that two texts are alike is the sigmoid of their cosine."""
    found = [round(sigmoid(cosine), 6) for cosine in (-1, 0, 0.5, 0.8, 0.85, 0.9, 1)]
    assert found == [0.268941, 0.5, 0.622459, 0.689974, 0.700567, 0.710950, 0.731059]


def test_d31_the_cosine_that_a_threshold_needs():
    """Both: a threshold of 0.7 needs a cosine of at least 0.847298, a threshold of 0.5 one of at
    least 0.
    """
    assert math.log(0.7 / 0.3) == pytest.approx(0.847298, abs=1e-6)
    assert sigmoid(0.847298) == pytest.approx(0.7, abs=1e-6)
    assert sigmoid(0) == 0.5


@run
async def test_d32_strengthened_three_times():
    """DB-GPT: a fragment with three similar ones is handed on with them as one text, and the three
    stay as well.

    alveus: the three do not stay; with profile="dbgpt" as in DB-GPT.
    """
    names = ("a", "a1", "a2", "a3")
    theirs = enhanced(profile="dbgpt")
    await written(theirs, *names[:3])
    assert counts(theirs) == [2, 1, 0]
    assert left(await theirs.write(frag("a3"))) == ["a;a1;a2;a3"]
    assert (texts(theirs.short_term_memories), counts(theirs)) == (["a1", "a2", "a3"], [2, 1, 0])
    ours = enhanced()
    seen = await written(ours, *names)
    assert seen[2:] == [(None, ["a", "a1", "a2"]), (["a;a1;a2;a3"], [])]


@run
async def test_d33_a_recalled_fragment_strengthens():
    """Both: a recalled fragment strengthens similar fragments, and is not stored."""
    memory = enhanced()
    await memory.write(frag("a"))
    await memory.write(frag("a1"), op=WriteOperation.RETRIEVAL)
    assert (texts(memory.short_term_memories), counts(memory)) == (["a"], [1])


@run
async def test_d34_bad_luck():
    """Both: if the random number is too high, no fragment is strengthened."""
    memory = enhanced(random=lambda: 0.99)
    await written(memory, "a", "a1", "a2")
    assert counts(memory) == [0, 0, 0]


def rated(**importances):
    return [frag(name, importance) for name, importance in importances.items()]


@run
async def test_d35_overflow_of_the_least_important():
    """DB-GPT: the least important fragment of a full memory is lost. alveus: it is handed on."""
    seen = await written(enhanced(buffer_size=2), *rated(a=0.1, b=0.2, c=0.3))
    assert seen[-1] == (["a"], ["b", "c"])


@run
async def test_d36_the_newest_is_no_victim():
    """Both: the newest fragment stays, however unimportant. (DB-GPT loses the fragment that leaves,
    see D35.)
    """
    seen = await written(enhanced(buffer_size=2), *rated(a=0.3, b=0.2, c=0.05))
    assert seen[-1][1] == ["a", "c"]


@run
async def test_d37_the_least_strengthened_goes_first():
    """Both: the least strengthened of equally important fragments leaves first, then the oldest."""
    seen = await written(enhanced(buffer_size=3), "a", "b", "a1", "d")
    assert seen[-1][1] == ["a", "a1", "d"]


@run
async def test_d38_unknown_importance_at_overflow():
    """DB-GPT: unknown importance at an overflow raises a TypeError, and the buffer exceeds its
    capacity.

    alveus: unknown importance counts as the default.
    """
    a, b = frag("a"), frag("b")
    seen = await written(enhanced(buffer_size=2), a, b, frag("c", 1.0))
    assert seen[-1] == (["a"], ["b", "c"])


@run
async def test_d39_room_for_one():
    """DB-GPT: with room for one, "a;a1" leaves and a1 stays; then "a1;a2" leaves and a2 stays.

    alveus: "a;a1" leaves and a2 stays; with profile="dbgpt" as in DB-GPT.
    """
    names = ("a", "a1", "a2")
    theirs = await written(enhanced(buffer_size=1, enhance_threshold=1, profile="dbgpt"), *names)
    assert theirs[1:] == [(["a;a1"], ["a1"]), (["a1;a2"], ["a2"])]
    ours = await written(enhanced(buffer_size=1, enhance_threshold=1), *names)
    assert ours[1:] == [(["a;a1"], []), (None, ["a2"])]


@run
async def test_d40_clear_forgets_the_counts():
    """DB-GPT: after `clear`, old vectors and counts are used for other fragments.

    alveus: `clear` removes vectors and counts.
    """
    memory = enhanced()
    await memory.write(frag("a"))
    await memory.clear()
    await memory.write(frag("a1"))
    assert (texts(memory.short_term_memories), counts(memory)) == (["a1"], [0])


def test_d41_a_threshold_that_cannot_be_reached():
    """DB-GPT: a threshold of 0.74, which no cosine reaches, has no effect.

    alveus: the threshold is refused, with the reason.
    """
    with pytest.raises(InvalidInput, match="no similarity is greater"):
        enhanced(enhance_similarity_threshold=0.74)


# --- long-term --------------------------------------------------------------------------------


def long_term(**kwargs):
    clock = Clock()
    return LongTermMemory(now=clock, **kwargs), clock


@run
async def test_d42_unknown_importance():
    """DB-GPT: unknown importance raises the error "importance is required.".

    alveus: the default importance is used.
    """
    memory, _ = long_term()
    await memory.write(frag("a"))
    assert (await memory.read("a"))[0].importance == 0.5
    given, _ = long_term(_default_importance=0.25)
    await given.write(frag("a"))
    assert (await given.read("a"))[0].importance == 0.25


@run
async def test_d43_no_access_time():
    """DB-GPT: a missing access time raises an AttributeError.

    alveus: the access time is the time of the write.
    """
    memory, _ = long_term()
    await memory.write(frag("a"))
    assert (await memory.read("a"))[0].last_accessed_time == START


@run
async def test_d44_an_empty_batch():
    """DB-GPT: an empty batch raises the error "Now time is required.".

    alveus: an empty batch changes nothing.
    """
    assert await long_term()[0].write_batch([], None) is None


@run
async def test_d45_the_text_comes_back():
    """DB-GPT: the returned text begins with a number: "[0] alpha".

    alveus: the returned text is "alpha".
    """
    memory, _ = long_term()
    await memory.write(frag("alpha", 1))
    assert texts(await memory.read("alpha")) == ["alpha"]


@run
async def test_d46_what_was_written_first_is_found():
    """DB-GPT: only the latest fragments are found.

    alveus: all fragments are found, and the one that fits the query comes first.
    """
    memory, clock = long_term()
    await memory.write(frag("alpha", 0.5))
    clock.pass_hours(1)
    await memory.write(frag("beta", 1))
    assert texts(await memory.read("alpha")) == ["alpha", "beta"]


def test_d47_recency():
    """Both: recency is 0.99 to the power of the hours."""
    found = [recency(START, START + timedelta(hours=h)) for h in (1, 24, 168, 720)]
    assert found == [pytest.approx(r, abs=1e-6) for r in (0.99, 0.785678, 0.184805, 0.00072)]


def parts(hours, relevance, importance):
    now = START + timedelta(hours=hours)
    return {"recency": recency(START, now), "relevance": relevance, "importance": importance}


def test_d48_the_sum():
    """DB-GPT: recency, similarity and importance are added, so importance decides.

    alveus: the score is a weighted mean of three numbers in 0..1 (P1); with profile="dbgpt" as in
    DB-GPT.
    """
    equal = Weights(1, 1, 1)
    cases = (parts(100, 0.9, 0), parts(0, 0.2, 0), parts(100, 0.1, 2))
    found = [round(equal.score(case, raw=True), 6) for case in cases]
    assert found == [1.266032, 1.2, 2.466032]


@run
async def test_d49_how_many_and_which():
    """DB-GPT: at most four fragments are returned; texts that contain "[FORGET]" or "[MERGE]" are
    skipped.

    alveus: *k* fragments are returned, by default four; a mark is a field, so a text may contain
    any words.
    """
    memory, _ = long_term()
    fragments = [frag(f"tea number {n} [FORGET]", n / 10) for n in range(6)]
    await memory.write_batch(fragments)
    assert len(await memory.read("tea")) == 4
    assert len(await memory.read("tea", k=6)) == 6
    assert await memory.mark([fragments[5].id, fragments[4].id], "forget") == 2
    found = await memory.read("tea", 0, 0, 1)
    assert [f.importance for f in found] == [0.3, 0.2, 0.1, 0.0]
    await memory.mark([fragments[5].id], None)
    assert (await memory.read("tea", 0, 0, 1))[0].id == fragments[5].id


STREAM = {"a": (0.9, 10), "b": (0.1, 8), "c": (0.5, 6), "d": (0.4, 4), "e": (0.3, 2)}


def test_d50_recency_and_likeness():
    """Both: the score is similarity plus recency, without importance: the order is a, c, d, e."""
    weights = Weights(1, 1, 0)
    scores = {n: weights.score(parts(h, s, 0), raw=True) for n, (s, h) in STREAM.items()}
    assert [round(score, 4) for score in scores.values()] == [
        1.8044,
        1.0227,
        1.4415,
        1.3606,
        1.2801,
    ]
    assert sorted(scores, key=lambda name: -scores[name])[:4] == ["a", "c", "d", "e"]


@run
async def test_d51_a_second_read():
    """Both: fragments that were read come first in the next read, because of their access times."""
    memory, clock = long_term()
    for name in ("tea", "tea and cake", "tea and milk", "tea and ice", "a walk"):
        await memory.write(frag(name))
        clock.pass_hours(2)
    first = texts(await memory.read("tea"))
    assert len(first) == 4
    assert texts(await memory.read("tea")) == first
    read = await memory.read("tea")
    assert {f.last_accessed_time for f in read} == {clock.now}


@run
async def test_d52_a_clone_without_a_name():
    """DB-GPT: a clone without a name raises the error "name is required.".

    alveus: a clone gets a separate name, and is empty.
    """
    with Store.open(embedder="words") as store:
        memory = LongTermMemory(memory=store.key("ada"))
        await memory.write(frag("a"))
        clone = memory.structure_clone()
        assert clone.label != memory.label
        assert await clone.read("a") == []


@run
async def test_d53_importance_adds_up():
    """DB-GPT: importance adds up, without any effect.

    alveus: at the threshold, insights are stored, and the sum restarts at zero.
    """
    memory, _ = long_term(reflection_threshold=1.5)
    memory.initialize(insight_extractor=Infers())
    await memory.write(frag("a", 0.5))
    assert memory.aggregate_importance == 0.5
    await memory.write(frag("b", 1))
    assert memory.aggregate_importance == 0
    assert [f.raw_observation for f in await memory.read("a") if f.is_insight] == ["I:a;b"]


@run
async def test_d54_clear_long_term_memory():
    """DB-GPT: `clear` of long-term memory returns nothing and removes nothing.

    alveus: it removes all fragments and returns them.
    """
    memory, _ = long_term()
    await memory.write_batch([frag("a"), frag("b")])
    assert texts(await memory.clear()) == ["a", "b"]
    assert await memory.read("a") == []


@run
async def test_d55_an_agent_that_remembers_nothing_yet():
    """DB-GPT: an agent with long-term memory but without memories raises an error (D44).

    alveus: nothing happens.
    """
    assert await AgentMemory(LongTermMemory()).write_batch([]) is None


# --- hybrid -----------------------------------------------------------------------------------


def hybrid(**kwargs):
    return HybridMemory(short_term_memory=enhanced(), **kwargs)


SIMILAR = ("o0", "o1", "o2", "o3", "o4")


@run
async def test_d56_similar_fragments():
    """DB-GPT: "o0;o1;o2;o3" and "o1;o2;o3;o4" reach long-term memory, and o2 to o4 stay.

    alveus: "o0;o1;o2;o3" reaches it, and o4 stays: no fragment is in two places.
    """
    memory = hybrid()
    assert [left(await memory.write(frag(name))) for name in SIMILAR] == [None] * 5
    assert texts(await memory.long_term_memory.read("o")) == ["o0;o1;o2;o3"]
    assert texts(await memory.short_term_memory.read("o")) == ["o4"]


@run
async def test_d57_reading_writes_nothing():
    """DB-GPT: a read stores copies in long-term memory, and empties short-term memory.

    alveus: a read changes only access times.
    """
    memory = hybrid()
    await written(memory, *SIMILAR)
    before = len(memory.long_term_memory.storage.writer().sets(memory.storage.scope))
    assert texts(await memory.read("o")) == ["o0;o1;o2;o3", "o4"]
    assert len(await memory.long_term_memory.read("o", k=100)) == 1
    assert len(memory.long_term_memory.storage.writer().sets(memory.storage.scope)) == before


@run
async def test_d58_reading_again():
    """DB-GPT: a second read stores more copies.

    alveus: a second read returns the same as the first.
    """
    memory = hybrid()
    await written(memory, *SIMILAR)
    first = [f.id for f in await memory.read("o")]
    assert [f.id for f in await memory.read("o")] == first


@run
async def test_d59_a_batch_reaches_long_term_memory():
    """DB-GPT: fragments that leave short-term memory in a batch are lost.

    alveus: a batch has the same effect as single writes.
    """
    memory = hybrid()
    assert await memory.write_batch([frag(name) for name in SIMILAR]) is None
    assert texts(await memory.read("o")) == ["o0;o1;o2;o3", "o4"]


@run
async def test_d60_clear_all_layers():
    """DB-GPT: `clear` returns nothing and removes nothing.

    alveus: `clear` empties all layers and returns their fragments.
    """
    memory = hybrid(sensory_memory=SensoryMemory(1))
    await written(memory, *SIMILAR, "z")
    assert len(await memory.clear()) == 3
    assert await memory.read("o") == []


@run
async def test_d61_five_structured_steps():
    """DB-GPT: of five structured steps, the prompt contains only the last.

    alveus: all five steps are read, in order, and none contains another.
    """
    memory = HybridMemory(short_term_memory=EnhancedShortTermMemory(random=lambda: 0.0))
    memory.initialize(real_memory_fragment_class=StructuredAgentMemoryFragment)
    steps = [
        {"question": f"q{n}", "thought": "look it up", "action": "search", "observation": f"o{n}"}
        for n in range(5)
    ]
    for step in steps:
        await memory.write(StructuredAgentMemoryFragment(step))
    first = await memory.read("q4")
    assert [step for fragment in first for step in steps_of(fragment)] == steps
    assert {type(fragment) for fragment in first} == {StructuredAgentMemoryFragment}
    again = await memory.read("q4")
    assert [f.raw_observation for f in again] == [f.raw_observation for f in first]


# --- messages, plans, ids ---------------------------------------------------------------------


def message(conv, content, sender="User", receiver="Joy", **kwargs):
    return GptsMessage(conv, sender, receiver, "human", content, **kwargs)


def contents(messages):
    return [one.content for one in messages]


@run
async def test_d62_deleting_another_conversation():
    """DB-GPT: after a conversation was deleted, the next message overwrites another message.

    alveus: nothing is overwritten.
    """
    log = GptsMemory()
    for conv, content in (("A", "m0"), ("B", "m1"), ("B", "m2")):
        await log.append_message(conv, message(conv, content))
    assert log.message_memory.delete_by_conv_id("A") == 1
    await log.append_message("B", message("B", "m3"))
    assert contents(await log.get_messages("B")) == ["m1", "m2", "m3"]


@run
async def test_d63_the_last_message():
    """DB-GPT: `get_last_message` always returns None. alveus: it returns the last message."""
    log = GptsMemory()
    for content in ("m1", "m3"):
        await log.append_message("B", message("B", content))
    last = log.message_memory.get_last_message("B")
    assert last is not None
    assert last.content == "m3"


@run
async def test_d64_messages_of_an_agent():
    """DB-GPT: an AttributeError is raised as soon as another agent has written.

    alveus: the messages that the agent sent and received are returned.
    """
    log = GptsMemory()
    await log.append_message("B", message("B", "to Joy"))
    await log.append_message("B", message("B", "by Joy", "Joy", "User"))
    await log.append_message("B", message("B", "by Ann", "Ann", "User"))
    assert contents(await log.get_agent_messages("B", "Joy")) == ["to Joy", "by Joy"]


def test_d65_clearing_what_is_not_there():
    """DB-GPT: clearing an unknown conversation raises a KeyError.

    alveus: it returns False and changes nothing.
    """
    assert GptsMemory().clear("nope") is False


@run
async def test_d66_reading_after_clear():
    """DB-GPT: after `clear`, reads return the messages; each id that is read gets an entry in the
    cache.

    alveus: the same messages, and no entry for an unknown id.
    """
    log = GptsMemory()
    await log.init("B")
    await log.append_message("B", message("B", "m1"))
    assert log.clear("B") is True
    assert contents(await log.get_messages("B")) == ["m1"]
    assert await log.get_messages("unknown") == []
    assert [*log.message_memory.memory.keys()] == ["B"]


def plans():
    log = GptsMemory().plans_memory
    log.batch_save([GptsPlan("c", n, f"do {n}", f"title {n}") for n in (1, 2)])
    return log


def test_d67_completing_a_task():
    """DB-GPT: completing a task removes its title. alveus: the title stays."""
    log = plans()
    log.complete_task("c", 1, "ok")
    (done,) = log.get_by_conv_id_and_num("c", [1])
    assert (done.state, done.result, done.sub_task_title) == ("complete", "ok", "title 1")
    assert [plan.sub_task_num for plan in log.get_todo_plans("c")] == [2]


def test_d68_updating_a_task():
    """Both: `update_task` changes state, retries and agent; a task in the state "retrying" is still
    to be done.
    """
    log = plans()
    log.update_task("c", 2, "retrying", 1, agent="X")
    (task,) = log.get_by_conv_id_and_num("c", [2])
    assert (task.state, task.retry_times, task.sub_task_agent) == ("retrying", 1, "X")
    assert [plan.sub_task_num for plan in log.get_todo_plans("c")] == [1, 2]


def test_d69_ids_of_conversations():
    """DB-GPT: the id "x_1_y" is round 1 of "x".

    alveus: the number of a round is at the end of an id.
    """
    ids = ("abc", "abc_1", "a_b_12", "x_1_y", "a-b_3")
    found = [("abc", None), ("abc", 1), ("a_b", 12), ("x_1_y", None), ("a-b", 3)]
    assert [parse_conv_id(one) for one in ids] == found


# --- prompts and windows ----------------------------------------------------------------------


def test_d70_what_is_written_of_a_step():
    """Both: a step is written with one line for each part, and a space at the end of each line."""
    text = memory_text(question="q", thought="t", action="a", observation="o")
    assert text == "Question: q \nThought: t \nAction: a \nObservation: o "


def test_d71_a_step_without_some_parts():
    """DB-GPT: missing parts of a step leave blank lines. alveus: missing parts leave no lines."""
    assert memory_text(thought="t", observation="o") == "Thought: t \nObservation: o "


def test_d72_the_prompt():
    """DB-GPT: a prompt without memories begins with an empty line.

    alveus: it has no empty line; with memories the prompt is the same.
    """
    assert user_prompt("Q", "M") == "Most recent message:\nM\n\nUser input: Q\n"
    assert user_prompt("Q") == "User input: Q\n"


def test_d73_memories_in_a_prompt():
    """DB-GPT: memories are joined without a separator: "ab". alveus: each memory is on a line."""
    assert memories_text([frag("a"), frag("b")]) == "a\nb"


def test_d74_how_full_a_prompt_is():
    """Both: of 1,000 tokens, a prompt reaches "warning" at 700, "error" at 900 and "critical" at
    950.
    """
    limits = ContextLimits(1_000, reserved_tokens=0)
    found = [limits.fill(used) for used in (699, 700, 899, 900, 949, 950, 999, 1_000)]
    assert found == [
        "normal",
        *("warning", "warning"),
        *("error", "error"),
        *("critical", "critical"),
        "overflow",
    ]
    assert ContextLimits(10, reserved_tokens=10).fill(0) == "overflow"
    with pytest.raises(InvalidInput, match="each larger than"):
        ContextLimits(warning=0.95)


def test_d75_what_a_prompt_may_have():
    """Both: by default, a prompt may have 115904 tokens."""
    assert ContextLimits().effective_tokens == 115_904


def test_d76_a_history_that_is_too_long():
    """DB-GPT: the model of a long history is never asked, and after three failures the history is
    no longer shortened.

    alveus: the model is asked once; if it fails, the history is shortened without it.
    """
    with Store.open(":memory:", embedder="words") as store:
        talk = store.key("ada").conversation("talk")

        def add(count):
            talk.add([{"role": "user", "content": f"This is number {n}."} for n in range(count)])

        add(7)
        model = ScriptedChat(['{"summary": "What was said."}'])
        assert talk.compress(keep_recent=3, model=model).messages == 4
        assert (len(model.requests), talk.summary) == (1, "What was said.")
        for _ in range(4):
            add(2)
            failing = ScriptedChat([ModelUnavailable("scripted", "down")] * 9)
            assert talk.compress(keep_recent=3, model=failing).messages == 2


def test_d77_how_much_of_results():
    """Both: a result may have 15 % of the model's context size, and a turn 30 %, within bounds."""
    found = [ResultLimits.of(tokens) for tokens in (None, 8_000, 65_000, 200_000)]
    assert [(one.result, one.turn) for one in found] == [
        (100_000, 200_000),
        (8_000, 16_000),
        (39_000, 78_000),
        (100_000, 200_000),
    ]


def test_d78_the_beginning_of_a_result():
    """Both: the shown beginning of a result ends at a line's end in its second half; of a single
    line, it has the most characters allowed.
    """
    assert preview("a\n" * 10, 7) == ("a\na\na\n", True)
    assert preview("abcdefghij", 4) == ("abcd", True)
    assert preview("abcd", 4) == ("abcd", False)


def test_d79_the_results_of_a_turn():
    """Both: of results with 400 and 300 characters and a limit of 650, the first becomes a
    reference.
    """
    with Store.open(":memory:", embedder="words") as store:
        results = ToolResults(store.key("ada"), limits=ResultLimits(turn=650))
        given = [ToolOutput("look", "x" * 400, "c1"), ToolOutput("look", "y" * 300)]
        first, second = results.shown_in_turn(given)
        assert second == "y" * 300
        assert first.startswith("[look gave 400 characters; all of them: c1]")
        assert len(first) <= 247
        assert results.shown_in_turn(given) == [first, second]  # kept once, by the id of the call
        assert results.read("c1") == "x" * 400
        assert results.shown_in_turn(given[1:]) == ["y" * 300]


def test_d80_what_a_reference_reaches():
    """DB-GPT: a path outside of the folder reads nothing. alveus: a reference is not a path."""
    with Store.open(":memory:", embedder="words") as store:
        results = ToolResults(store.key("ada"), limits=ResultLimits(result=10, turn=20, preview=5))
        shown = results.shown(ToolOutput("look", "word " * 40))
        reference = shown.partition("]")[0].split()[-1]
        assert results.read(reference) == "word " * 40
        for other in ("../../etc/passwd", "/etc/passwd", "", "c9"):
            assert results.read(other) is None
        assert ToolResults(store.key("bob")).read(reference) is None


def test_d81_rounds_to_keep():
    """Both: the first and last rounds of a conversation are kept; negative numbers are errors."""
    asked = ((2, 0), (0, 2), (1, 1), (0, 0), (100, 100), (2, 2))
    found = [kept_rounds([1, 2, 3], start=start, end=end) for start, end in asked]
    assert found == [[1, 2], [2, 3], [1, 3], [], [1, 2, 3], [1, 2, 3]]
    with pytest.raises(ValueError, match="must be 0 or more"):
        kept_rounds([1, 2, 3], start=-1)


# --- what DB-GPT declares, and does not do ----------------------------------------------------


def test_v1_weights():
    """DB-GPT: alpha, beta and gamma are declared, but ignored.

    alveus: they weigh recency, relevance and importance, each in 0..1.
    """
    cases = {"m1": parts(0, 0.2, 0), "m2": parts(24, 0.9, 0), "m3": parts(168, 0.5, 1)}

    def order(*weights):
        return sorted(cases, key=lambda name: -Weights(*weights).score(cases[name]))

    scores = [Weights(1, 1, 1).score(case) for case in cases.values()]
    assert scores == [pytest.approx(s, abs=1e-6) for s in (0.4, 0.561893, 0.561602)]
    assert order(1, 1, 1) == ["m2", "m3", "m1"]
    assert order(1, 0, 0) == ["m1", "m2", "m3"]
    assert order(0, 1, 0) == ["m2", "m3", "m1"]
    assert order(0, 0, 1)[0] == "m3"


@run
async def test_v2_reflection():
    """DB-GPT: reflection is declared, but not implemented.

    alveus: when the sum of importance reaches the threshold, an insight is made from the fragments
    written since.
    """
    memory, _ = long_term(reflection_threshold=1.5)
    memory.initialize(insight_extractor=Infers())
    written_now = [frag("a", 0.5), frag("b", 0.5), frag("c", 0.75)]
    for fragment in written_now:
        await memory.write(fragment)
    (insight,) = [f for f in await memory.read("a", k=10) if f.is_insight]
    assert insight.source_ids == [f.id for f in written_now]
    assert memory.aggregate_importance == 0
    carrying, _ = long_term(reflection_threshold=1.5, carry=True)
    carrying.initialize(insight_extractor=Infers())
    await carrying.write_batch([frag("a", 0.5), frag("b", 0.5), frag("c", 0.75)])
    assert carrying.aggregate_importance == 0.25


@run
async def test_v3_duplicates():
    """DB-GPT: the handling of duplicates is declared, but not implemented.

    alveus: one fragment is stored per text, with the number of times it was written.
    """
    memory, clock = long_term()
    await memory.write(frag("Likes tea.", 0.9))
    clock.pass_hours(5)
    await memory.write(frag("likes  TEA.", 0.2))
    (one,) = await memory.recall("tea")
    assert (one.fragment.raw_observation, one.fragment.importance) == ("Likes tea.", 0.9)
    assert one.fragment.last_accessed_time == clock.now
    ref = memory.storage.ref("long_term")
    stored = memory.storage.writer().page(ref, PageQuery(limit=9))
    assert item_of(stored[0]).value["seen"] == 2


@run
async def test_v4_fading():
    """DB-GPT: fading is declared, but not implemented.

    alveus: weak fragments are removed and named; pinned fragments stay; a removed fragment can be
    recovered.
    """
    memory, clock = long_term()
    await memory.write(frag("pinned", 0, metadata={"pinned": True}))
    clock.pass_hours(9280)
    weak = frag("old", 0.5)
    await memory.write(weak)
    clock.pass_hours(696)
    await memory.write(frag("new", 0.5))
    clock.pass_hours(24)
    gone: Any = await memory.fade()
    assert [(d.fragment.raw_observation, d.reason) for d in gone.dropped] == [
        ("old", "it faded: 0.00036 is below 0.05")
    ]
    assert sorted(texts(await memory.read("old"))) == ["new", "pinned"]
    await memory.recover([weak.id])
    assert texts(await memory.read("old"))[0] == "old"


@run
async def test_v5_how_many():
    """DB-GPT: `read` always returns four.

    alveus: k=0 returns none, a k above the size returns all, and a negative k is an error.
    """
    memory, _ = long_term()
    await memory.write_batch([frag("a"), frag("b")])
    assert await memory.read("a", k=0) == []
    assert len(await memory.read("a", k=100)) == 2
    with pytest.raises(ValueError, match="k must be"):
        await memory.read("a", k=-1)
