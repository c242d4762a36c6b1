"""The vectors of thinker's memory and agents, by their ids: what is kept, and what is mended.

A test is named after its vector: `test_t16_…` is vector T16. Its docstring says what both do, or
what thinker, or the guide that it was to have, does and what fornix does instead; from these
tools/make_docs.py writes docs/thinker-vectors.md.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from fornix.automata import Automata, Decoder, Epoch, Manifold
from fornix.context import (
    Hierarchical,
    Hybrid,
    Linked,
    Observation,
    Reply,
    Semantic,
    Stream,
    float8,
)
from fornix.context.links import expanded
from fornix.embed import pack_vector, unpack_vector
from fornix.errors import EpochsSpent, ModelUnavailable, PromptAborted
from fornix.llm import ScriptedChat, Unfit
from fornix.messages import Message
from pages import ROOT

PAGE = ROOT / "docs" / "thinker-vectors.md"
VECTORS = [f"T{n:02}" for n in range(1, 39)]


def texts(messages):
    return [str(message) for message in messages]


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


def test_every_vector_has_one_place():
    """Each of T01 to T38 is one test here, in their order, and one row of the page."""
    source = (ROOT / "tests" / "test_thinker_vectors.py").read_text(encoding="utf-8")
    named = [f"T{n}" for n in re.findall(r"^def test_t(\d\d)_", source, re.MULTILINE)]
    assert named == VECTORS
    rows = re.findall(r"^\| (T\d\d) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == VECTORS


# --- T08 to T13: agents with tools --------------------------------------------------------------


def manifold(*answers, decoder: Decoder = str, **tools):
    """An agent with tools, and its window, whose model answers as it is told."""
    window = Stream(None, "role.")
    return Manifold(ScriptedChat(answers), tools, window, decoder=decoder), window


def call(tool):
    return json.dumps({"tool": tool})


def test_t08_one_prompt():
    """Both: the stratum, what was asked, and what was answered."""
    agent, window = manifold("reply.")
    agent.prompt("prompt.")
    assert texts(window.context(None)) == ["role.", "prompt.", "reply."]


def test_t09_one_tool():
    """thinker: two observations, four messages; eviction may part them.

    fornix: the same four, shown and let go together.
    """
    agent, window = manifold(call("time"), "noon.", time=lambda: 12)
    agent.prompt("time?")
    said = ["time?", call("time"), '{"tool": "time", "answer": 12}', "noon."]
    assert texts(window.context(None)) == ["role.", *said]
    asked, answered = window.observations()
    assert asked.reply.content.calls == answered.query.content.answers != ()
    small = Stream(1)
    for observation in (asked, answered):
        assert small.commit(observation) == ()
    assert texts(small.context(None)) == said


def test_t10_feedback_once():
    """Both: four messages: the question and the bad reply, why it is bad and the good one."""

    def decode(reply):
        if str(reply.content) == "bad.":
            raise Unfit("it is bad")
        return str(reply.content)

    agent, window = manifold("bad.", "good.", decoder=decode)
    assert agent.prompt("prompt.") == "good."
    role, asked, bad, why, good = texts(window.context(None))
    assert (role, asked, bad, good) == ("role.", "prompt.", "bad.", "good.")
    assert "it is bad" in why


def test_t11_a_model_that_fails():
    """Both: nothing is remembered."""
    agent, window = manifold(ModelUnavailable("scripted", "it is down"))
    with pytest.raises(ModelUnavailable):
        agent.prompt("prompt.")
    assert window.observations() == []


def test_t12_an_answer_cut_short():
    """Both: what came of it is decoded and remembered: two messages."""
    agent, window = manifold("Once upon a", time=lambda: 12)
    assert agent.prompt("prompt.") == "Once upon a"
    assert texts(window.context(None)) == ["role.", "prompt.", "Once upon a"]


def test_t13_a_tool_gives_up():
    """thinker: two messages, like any others.

    fornix: the same two; the observation says that it was aborted.
    """

    def stop():
        raise PromptAborted("no")

    agent, window = manifold(call("stop"), stop=stop)
    with pytest.raises(PromptAborted, match="no"):
        agent.prompt("prompt.")
    assert texts(window.context(None)) == ["role.", "prompt.", call("stop")]
    assert [o.outcome for o in window.observations()] == ["aborted"]


# --- T21, T22: reasoners ------------------------------------------------------------------------


def test_t21_retry():
    """thinker: the bad reply is remembered, and the good one that was asked for is not.

    fornix: the good one; the bad one too if keep_rejected=True, as rejected.
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
        assert model.asked[0].messages == model.asked[1].messages
        found = {str(o.reply.content): o.outcome for o in window.observations()}
        assert list(found) == kept
        assert found["good"] == "accepted"
        assert found.get("bad", "rejected") == "rejected"


def test_t22_epochs():
    """Both: Epoch(3) with a reasoner that says "retry" for ever: three calls, and an error."""
    model = ScriptedChat(lambda _: "no")
    agent = Automata(model, Stream(), str, str, Epoch(3, lambda _: "retry"))
    with pytest.raises(EpochsSpent, match="3 times"):
        agent.prompt("ask.")
    assert len(model.asked) == 3


# --- T29 to T38: windows that the guide describes, or names ------------------------------------


def test_t29_important_and_recent():
    """The guide: C, prompt, A: what is important comes after the prompt.

    fornix: A, C, prompt. In both B is let go, whose importance is the threshold itself.
    """
    window = Hybrid(1, 0.5)
    gone = [window.commit(cycle(n, i)) for n, i in (("A", 0.9), ("B", 0.5), ("C", 0.2))]
    assert shown(window) == ["A", "C", "p"]
    assert [names(one) for one in gone] == [[], [], ["B"]]


def test_t30_important_while_recent():
    """The guide: A, B, prompt, A: what is both is there twice.

    fornix: A, B, prompt.
    """
    window = Hybrid(2, 0.5)
    for name, importance in (("A", 0.9), ("B", 0.2)):
        window.commit(cycle(name, importance))
    assert shown(window) == ["A", "B", "p"]


@pytest.mark.parametrize("embedder", [None, Letters()])
def test_t31_fewer_than_asked_for(embedder):
    """Both: of three observations a search for five finds three; in fornix in order of time."""
    window = Semantic(5, embedder=embedder)
    for name in ("C", "A", "B"):
        window.commit(cycle(name))
    assert shown(window, "A") == ["C", "A", "B", "A"]


def test_t35_a_link_is_followed():
    """The guide names linked observations, and nothing more.

    fornix: what is linked to a hit of 1.0 is worth 0.5 after a hop, with the decay 0.5.
    """
    links = {"A": ["B"], "B": ["A", "C"], "C": ["B"]}
    found = expanded({"A": 1.0}, links.__getitem__, hops=1, decay=0.5, cap=1)
    assert found == {"A": 1.0, "B": 0.5}
    window = Linked(1, hops=1, decay=0.5, linked=1, embedder=Letters())
    a, b = cycle("A"), cycle("B")
    for one in (a, b, cycle("C"), cycle("Z")):
        window.commit(one)
    assert shown(window, "A") == ["A", "Z", "A"]
    window.link(a, b)
    assert shown(window, "A") == ["A", "B", "Z", "A"]


def test_t36_what_leaves_a_layer():
    """The guide names layers of memory, and nothing more.

    fornix: layers of one and two hold D, and B and C; A is returned.
    """
    window = Hierarchical(1, 2)
    gone = [names(window.commit(cycle(name))) for name in "ABCD"]
    assert [names(layer) for layer in window.layers()] == [["D"], ["B", "C"]]
    assert gone == [[], [], [], ["A"]]
    assert shown(window) == ["B", "C", "D", "p"]


def test_t37_one_byte_floats():
    """Both: the bytes 38, 3c, b8, 77 and 01 are 1.0, 1.5, -1.0, 240 and 0.008789."""
    found = float8(bytes.fromhex("383cb87701"))
    assert found.tolist() == [1.0, 1.5, -1.0, 240.0, pytest.approx(0.008789, abs=1e-6)]


def test_t38_what_is_kept_of_a_vector():
    """thinker: 0.1, 0.3, 0.7, 0.007 and -0.999 become .09375, .28125, .6875, 0 and -.9375.

    fornix: whole numbers of a byte behind a scale: none is off by more than 0.004, and of a vector
    with 1,536 numbers, all of which thinker loses, the direction is kept.
    """
    given = np.array([0.1, 0.3, 0.7, 0.007, -0.999], np.float32)
    assert np.abs(unpack_vector(pack_vector(given)) - given).max() < 0.004
    small = np.random.default_rng(0).uniform(-0.0078, 0.0078, 1536).astype(np.float32)
    again = unpack_vector(pack_vector(small))
    assert small @ again / np.linalg.norm(small) / np.linalg.norm(again) > 0.9999
