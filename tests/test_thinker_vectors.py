"""The vectors of thinker's memory and agents, by their ids: what is kept, and what is mended.

A test is named after its vector: `test_t16_…` is vector T16. Its docstring says what both do, or
what thinker, or the guide that it was to have, does and what alveus does instead; from these
tools/make_docs.py writes docs/thinker-vectors.md.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import get_args

import numpy as np
import pytest

from alveus.agents.automata import Automata, Decoder, Epoch, Manifold
from alveus.agents.windows import (
    Fading,
    Hierarchical,
    Hybrid,
    Importance,
    Length,
    Linked,
    Observation,
    Priority,
    Profile,
    Reply,
    Semantic,
    Stamp,
    Stream,
    Void,
    WindowRequest,
    float8,
)
from alveus.agents.windows.scorers import scored
from alveus.agents.windows.semantic import expanded
from alveus.embed import pack_vector, unpack_vector
from alveus.errors import BudgetTooSmall, EpochsSpent, InvalidInput, ModelUnavailable, PromptAborted
from alveus.llm import ScriptedChat, Unfit
from alveus.text.budget import Budget
from alveus.text.messages import Message
from pages import ROOT

PAGE = ROOT / "docs" / "thinker-vectors.md"
VECTORS = [f"T{n:02}" for n in range(1, 39)]


def cycle(name, importance=0.0):
    """An observation whose query is its name, and whose reply is that in small letters."""
    return Observation(name, Reply(Message(name.lower(), "assistant"), importance=importance))


def shown(window, prompt="p"):
    """The observations of a context by their names, and the prompt."""
    return [m.content for m in window.context(prompt) if m.role != "assistant"]


def names(observations):
    return [str(one.query.content) for one in observations]


def letters(texts):
    """Vectors: texts that begin with one letter are alike, others are not."""
    return [[float(ord(text[0].upper()) == code) for code in range(65, 91)] for text in texts]


class Letters:
    name, dimensions, instant = "letters", 26, True

    def embed(self, texts):
        return np.array(letters(texts), np.float32)


PROFILES = get_args(Profile)


def both(text):
    """An observation that says one thing twice."""
    return Observation(text, text)


def texts(window, prompt=None):
    return [m.content for m in window.context(prompt)]


def long(name, characters):
    """An observation whose reply is so long."""
    return Observation(name, "x" * characters)


def asked(window, prompt=None):
    """What is asked in a context, with the stratum and the prompt."""
    return [m.content for m in window.context(prompt) if m.role != "assistant"]


def test_every_vector_has_one_place():
    """Each of T01 to T38 is one test here, in their order, and one row of the page."""
    source = (ROOT / "tests" / "test_thinker_vectors.py").read_text(encoding="utf-8")
    named = [f"T{n}" for n in re.findall(r"^def test_t(\d\d)_", source, re.MULTILINE)]
    assert named == VECTORS
    rows = re.findall(r"^\| (T\d\d) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == VECTORS


# --- T01 to T07: Stream -------------------------------------------------------------------------


@pytest.fixture
def stream():
    window = Stream(2, "role.")
    window.commit(Observation("prompt.", "reply."))
    return window


def test_t01_one_observation(stream):
    """Both: a context has the stratum, the query, the reply and the prompt."""
    assert texts(stream, "ask.") == ["role.", "prompt.", "reply.", "ask."]


def test_t02_the_last_two(stream):
    """Both: with a cap of two, the last two of four observations are shown, in order. (alveus
    returns the evicted ones.)
    """
    gone = [stream.commit(both(text)) for text in ("0.", "a.", "b.")]
    assert texts(stream, "c.") == ["role.", "a.", "a.", "b.", "b.", "c."]
    assert [names(one) for one in gone] == [[], ["prompt."], ["0."]]


def test_t03_reset(stream):
    """Both: after `reset`, only the stratum and the prompt are shown; `purge` does the same."""
    stream.reset()
    assert texts(stream, "c.") == ["role.", "c."]


def test_t04_nothing_at_all():
    """Both: a window without stratum, observations and prompt shows no messages."""
    assert Stream(2, "").context(None) == []


def test_t05_no_limit():
    """thinker: a cap of 0 means no limit.

    alveus: the same with profile="thinker"; otherwise a cap of 0 is refused.
    """
    window = Stream(0, "s", profile="thinker")
    for n in range(1000):
        window.commit(both(str(n)))
    assert len(window.context(None)) == 1 + 2000
    with pytest.raises(InvalidInput, match="None: no limit"):
        Stream(0, "s")


@pytest.mark.parametrize(("cap", "profile"), [(None, PROFILES[0]), (-1, PROFILES[1])])
def test_t06_infinite(cap, profile):
    """thinker: a cap of -1 means no limit, and is the default.

    alveus: a cap of None means no limit; the default is 100.
    """
    endless = Stream(cap, profile=profile)
    for n in range(120):
        endless.commit(both(str(n)))
        assert len(endless.context(None)) == 2 * (n + 1)


def test_t07_one():
    """Both: with a cap of one, the newest observation is shown."""
    window = Stream(1)
    for text in "abc":
        window.commit(both(text))
        assert texts(window) == [text, text]


# --- T08 to T13: agents with tools --------------------------------------------------------------


def manifold(*answers, decoder: Decoder = str, **tools):
    """An agent with tools, and its window, whose model answers as it is told."""
    window = Stream(None, "role.")
    return Manifold(ScriptedChat(answers), tools, window, decoder=decoder), window


def call(tool):
    return json.dumps({"tool": tool})


def test_t08_one_prompt():
    """Both: after one prompt, the stratum, the query and the reply are shown."""
    agent, window = manifold("reply.")
    agent.prompt("prompt.")
    assert texts(window) == ["role.", "prompt.", "reply."]


def test_t09_one_tool():
    """thinker: a tool call and its answer are two observations with four messages, which eviction
    may separate.

    alveus: the same four messages, which are shown and evicted together.
    """
    agent, window = manifold(call("time"), "noon.", time=lambda: 12)
    agent.prompt("time?")
    said = ["time?", call("time"), '{"tool": "time", "answer": 12}', "noon."]
    assert texts(window) == ["role.", *said]
    asked, answered = window.observations()
    assert asked.reply.content.calls == answered.query.content.answers != ()
    small = Stream(1)
    for observation in (asked, answered):
        assert small.commit(observation) == ()
    assert texts(small) == said


def test_t10_feedback_once():
    """Both: after one feedback there are four messages: the query and the bad reply, the feedback
    and the good reply.
    """

    def decode(reply):
        if str(reply.content) == "bad.":
            raise Unfit("it is bad")
        return str(reply.content)

    agent, window = manifold("bad.", "good.", decoder=decode)
    assert agent.prompt("prompt.") == "good."
    role, asked, bad, why, good = texts(window)
    assert (role, asked, bad, good) == ("role.", "prompt.", "bad.", "good.")
    assert "it is bad" in why


def test_t11_a_model_that_fails():
    """Both: if the model fails, nothing is remembered."""
    agent, window = manifold(ModelUnavailable("scripted", "it is down"))
    with pytest.raises(ModelUnavailable):
        agent.prompt("prompt.")
    assert window.observations() == []


def test_t12_an_answer_cut_short():
    """Both: a reply that was cut short is decoded and remembered: two messages."""
    agent, window = manifold("Once upon a", time=lambda: 12)
    assert agent.prompt("prompt.") == "Once upon a"
    assert texts(window) == ["role.", "prompt.", "Once upon a"]


def test_t13_a_tool_gives_up():
    """thinker: an aborted prompt leaves two messages, like any other.

    alveus: the same two; the observation says that it was aborted.
    """

    def stop():
        raise PromptAborted("no")

    agent, window = manifold(call("stop"), stop=stop)
    with pytest.raises(PromptAborted, match="no"):
        agent.prompt("prompt.")
    assert texts(window) == ["role.", "prompt.", call("stop")]
    assert [o.outcome for o in window.observations()] == ["aborted"]


# --- T14 to T20: Void, twice, order, tools ------------------------------------------------------


def test_t14_void():
    """Both: `Void` shows the stratum and the prompt, whatever was committed."""
    window = Void("s")
    for text in "abc":
        window.commit(both(text))
    assert texts(window, "p") == ["s", "p"]
    assert texts(window) == ["s"]


def test_t15_void_without_anything():
    """Both: `Void` without stratum and prompt shows no messages."""
    assert Void("").context(None) == []


def test_t16_one_twice_where_one_has_room():
    """thinker: committing one observation twice to a window with a cap of one crashes.

    alveus: the observation is stored once.
    """
    window, one = Stream(1), both("A")
    assert window.commit(one) == window.commit(one) == ()
    assert texts(window) == ["A", "A"]


def test_t17_one_twice():
    """thinker: an observation that is committed twice is shown twice, as with profile="thinker".

    alveus: it is shown once.
    """
    for profile, expected in zip(PROFILES, (["q", "r"], ["q", "r", "q", "r"]), strict=True):
        window, one = Stream(2, profile=profile), Observation("q", "r")
        window.commit(one)
        window.commit(one)
        assert texts(window) == expected


def test_t18_the_second_first():
    """thinker: observations are in the order of arrival, as with profile="thinker".

    alveus: they are in the order of time.
    """
    first, second = both("1"), both("2")
    for profile, expected in zip(PROFILES, (["1", "2"], ["2", "1"]), strict=True):
        window = Stream(2, profile=profile)
        window.commit(second)
        window.commit(first)
        assert asked(window) == expected


def test_t19_context_while_others_commit():
    """thinker: a concurrent `context` and `commit` are a data race, which may end the process.

    alveus: a context shows the window at one moment. `alveus.testing.ContextContract` tests
    threads; this test commits in between.
    """
    window = Stream(None)
    for n in range(5):
        window.commit(both(str(n)))

    def counter(text):
        window.commit(both("later"))
        return len(text)

    told = window.context("p", budget_tokens=Budget(10_000, counter))
    # The first was committed as the prompt was counted, before the window was looked at.
    assert [m.content for m in told[:-1:2]] == ["0", "1", "2", "3", "4", "later"]
    assert len(window) == 5 + 1 + 2 * 6


def test_t20_a_tool_call_and_its_answer():
    """thinker: the window may begin with a tool's answer whose call was evicted.

    alveus: both stay, or both are evicted.
    """
    window = Stream(1)
    calls = Message("look it up", "assistant", calls=("c1",))
    window.commit(Observation("who?", calls))
    window.commit(Observation(Message("Ann", "tool", answers=("c1",)), "it is Ann"))
    assert texts(window) == ["who?", "look it up", "Ann", "it is Ann"]
    gone = window.commit(both("thanks"))
    assert names(gone) == ["who?", "Ann"]
    assert texts(window) == ["thanks", "thanks"]


# --- T21, T22: reasoners ------------------------------------------------------------------------


def test_t21_retry():
    """thinker: after a retry, the bad reply is remembered, and the good reply is not.

    alveus: the good reply is remembered; with keep_rejected=True the bad one too, as rejected.
    """

    def decode(reply):
        if str(reply.content) == "bad":
            raise Unfit("it is bad")
        return str(reply.content)

    def deduct(state):
        return "return" if state.feedback is None else "retry"

    for keeps, kept in ((False, ["good"]), (True, ["bad", "good"])):
        window, model = Stream(), ScriptedChat(["bad", "good"])
        agent = Automata(model, window, str, decode, deduct, keep_rejected=keeps)
        assert agent.prompt("ask.") == "good"
        assert model.requests[0].messages == model.requests[1].messages
        found = {str(o.reply.content): o.outcome for o in window.observations()}
        assert list(found) == kept
        assert found["good"] == "accepted"
        assert found.get("bad", "rejected") == "rejected"


def test_t22_epochs():
    """Both: Epoch(3) with a reasoner that always says "retry" makes three calls, and then raises an
    error.
    """
    model = ScriptedChat(lambda _: "no")
    agent = Automata(model, Stream(), str, str, Epoch(3, lambda _: "retry"))
    with pytest.raises(EpochsSpent, match="3 times"):
        agent.prompt("ask.")
    assert len(model.requests) == 3


# --- T23 to T28: importance ---------------------------------------------------------------------

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "characters", "score"),
    [
        (0, 100, 0.668),
        (1, 100, 0.334),
        (24, 1000, 0.04),
        (0, 1, 0.1003),
        (0, 10, 0.3471),
        (0, 0, 0),
    ],
)
def test_t23_importance_by_age_and_length(hours, characters, score):
    """thinker: the guide: 4.6052, 2.3026, 0.2763, 0, 2.3026, and minus infinity for an empty reply.

    alveus: scores are from 0 to 1, and change with time, also in `Importance`.
    """
    made = Stamp.at(NOON - timedelta(hours=hours))
    one = Observation("q", "x" * characters, created=made)
    found = scored(Fading(), one, now=NOON, newest=[])
    assert found.value == pytest.approx(score, abs=5e-4)
    window = Importance(now=lambda: NOON)
    window.commit(one)
    assert weight(window) == pytest.approx(score, abs=5e-4)


def weight(window):
    """How much the one observation of a window matters by now."""
    with window._mirror.snapshot(window._storage.writer()) as index:
        (slot,) = index.slots
        return window.importance(index, WindowRequest(None, NOON, window._storage.writer()))[slot]


@pytest.mark.parametrize(
    ("characters", "score"), [(0, 0), (100, 0.1), (999, 0.999), (1000, 1), (5000, 1)]
)
def test_t24_importance_by_length(characters, score):
    """Both: importance by length is a thousandth for each character, at most 1."""
    assert scored(Length(), long("q", characters), now=NOON, newest=[]).value == score
    window = Priority()
    window.commit(long("q", characters))
    assert window.observations()[0].reply.importance == score


def test_t25_the_two_that_matter_most():
    """Both: the two most important observations are shown in the order of time."""
    window = Priority(2, "s")
    for name, characters in (("A", 100), ("B", 500), ("C", 300)):
        window.commit(long(name, characters))
    assert asked(window, "p") == ["s", "B", "C", "p"]


def test_t26_and_one_more():
    """Both: an observation less important than a new one is evicted."""
    window = Priority(2, "s")
    for name, characters in (("A", 100), ("B", 500), ("C", 300), ("D", 2000)):
        window.commit(long(name, characters))
    assert asked(window, "p") == ["s", "B", "D", "p"]


def test_t27_equals():
    """thinker: the eviction among equally important observations is undefined.

    alveus: the oldest of them is evicted.
    """
    window = Priority(2)
    for name in "ABC":
        window.commit(long(name, 500))
    assert asked(window) == ["B", "C"]


def test_t28_the_newest_matters_least():
    """thinker: A, B: a least important newest observation is evicted at once, as with
    profile="thinker".

    alveus: A, C: the newest `keep_recent` units, by default one, are never evicted.
    """
    for profile, expected in zip(PROFILES, (["A", "C"], ["A", "B"]), strict=True):
        window = Priority(2, profile=profile)
        for name, characters in (("A", 900), ("B", 800), ("C", 10)):
            window.commit(long(name, characters))
        assert asked(window) == expected


# --- T29 to T31: recent, important, near --------------------------------------------------------


def test_t29_important_and_recent():
    """thinker: the guide: C, prompt, A: important observations come after the prompt.

    alveus: A, C, prompt. Both evict B, whose importance equals the threshold.
    """
    window = Hybrid(keep_recent=1)
    gone = [window.commit(cycle(n, i)) for n, i in (("A", 0.9), ("B", 0.5), ("C", 0.2))]
    assert shown(window) == ["A", "C", "p"]
    assert [names(one) for one in gone] == [[], [], ["B"]]


def test_t30_important_while_recent():
    """thinker: the guide: A, B, prompt, A: an observation that is recent and important is shown
    twice.

    alveus: A, B, prompt.
    """
    window = Hybrid(keep_recent=2)
    for name, importance in (("A", 0.9), ("B", 0.2)):
        window.commit(cycle(name, importance))
    assert shown(window) == ["A", "B", "p"]


@pytest.mark.parametrize("embedder", [None, Letters()])
def test_t31_fewer_than_asked_for(embedder):
    """Both: a search for five of three observations finds three; in alveus they are in the order of
    time.
    """
    window = Semantic(top_k=5, embedder=embedder)
    for name in ("C", "A", "B"):
        window.commit(cycle(name))
    assert shown(window, "A") == ["C", "A", "B", "A"]


# --- T32 to T34: budgets, access ----------------------------------------------------------------

LETTERS = {"s": 2, "A": 2, "a": 2, "B": 2, "b": 2, "p": 3}


def counted(tokens):
    """A budget that counts the letters above, and nothing else."""
    return Budget(tokens, LETTERS.__getitem__, message_tokens=0)


@pytest.fixture
def counting():
    """The stratum has 2 tokens, both observations 4."""
    window = Stream(2, "s", budget_tokens=counted(100))
    window.commit(cycle("A"))
    window.commit(cycle("B"))
    return window


def test_t32_a_budget(counting):
    """thinker: there is no budget. alveus: the newer observation is shown, with 9 of 10 tokens."""
    told = counting.context("p", budget_tokens=counted(10))
    assert [m.content for m in told] == ["s", "B", "b", "p"]


def test_t33_a_budget_that_is_too_small(counting):
    """thinker: there is no budget. alveus: an error names the 5 tokens that are always needed."""
    with pytest.raises(BudgetTooSmall, match=r"\(5 tokens\)") as caught:
        counting.context("p", budget_tokens=counted(4))
    assert (caught.value.budget, caught.value.fixed) == (4, 5)


def test_t34_what_was_not_shown_for_longest():
    """thinker: every context updates the access time of all observations.

    alveus: only A was shown, so B is evicted: A, C.
    """
    window = Stream(2, evict="least recently used")
    window.commit(cycle("A"))
    window.commit(long("B", 5000))
    told = window.context("p", budget_tokens=60)
    assert [m.content for m in told] == ["A", "a", "p"]
    assert names(window.commit(cycle("C"))) == ["B"]
    assert asked(window) == ["A", "C"]


# --- T35 to T38: links, layers, vectors ---------------------------------------------------------


def test_t35_a_link_is_followed():
    """thinker: the guide names linked observations, without details.

    alveus: an observation linked to a hit of 1.0 is worth 0.5 after a hop, with a decay of 0.5.
    """
    links = {"A": ["B"], "B": ["A", "C"], "C": ["B"]}
    found = expanded({"A": 1.0}, links.__getitem__, hops=1, decay=0.5, cap=1)
    assert found == {"A": 1.0, "B": 0.5}
    window = Linked(top_k=1, hops=1, decay=0.5, linked=1, embedder=Letters())
    a, b = cycle("A"), cycle("B")
    for one in (a, b, cycle("C"), cycle("Z")):
        window.commit(one)
    assert shown(window, "A") == ["A", "Z", "A"]
    window.link(a, b)
    assert shown(window, "A") == ["A", "B", "Z", "A"]


def test_t36_what_leaves_a_layer():
    """thinker: the guide names layers of memory, without details.

    alveus: layers of one and two hold D, and B and C; `commit` returns A.
    """
    window = Hierarchical(1, 2)
    gone = [names(window.commit(cycle(name))) for name in "ABCD"]
    assert [names(layer) for layer in window.layers()] == [["D"], ["B", "C"]]
    assert gone == [[], [], [], ["A"]]
    assert shown(window) == ["B", "C", "D", "p"]


def test_t37_one_byte_floats():
    """Both: the one-byte floats 38, 3c, b8, 77 and 01 are 1.0, 1.5, -1.0, 240 and 0.008789."""
    found = float8(bytes.fromhex("383cb87701"))
    assert found.tolist() == [1.0, 1.5, -1.0, 240.0, pytest.approx(0.008789, abs=1e-6)]


def test_t38_what_is_kept_of_a_vector():
    """thinker: 0.1, 0.3, 0.7, 0.007 and -0.999 become .09375, .28125, .6875, 0 and -.9375.

    alveus: each number becomes a byte with a common scale, with an error of at most 0.004. A vector
    of 1,536 small numbers, which thinker loses, keeps its direction.
    """
    given = np.array([0.1, 0.3, 0.7, 0.007, -0.999], np.float32)
    assert np.abs(unpack_vector(pack_vector(given)) - given).max() < 0.004
    small = np.random.default_rng(0).uniform(-0.0078, 0.0078, 1536).astype(np.float32)
    again = unpack_vector(pack_vector(small))
    assert small @ again / np.linalg.norm(small) / np.linalg.norm(again) > 0.9999
