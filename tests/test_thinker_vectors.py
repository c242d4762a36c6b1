"""The vectors of thinker's memory and agents, by their ids: what is kept, and what is mended.

A test is named after its vector: `test_t16_…` is vector T16. Its docstring says what both do, or
what thinker does and what fornix does instead; from these tools/make_docs.py writes
docs/thinker-vectors.md.
"""

from __future__ import annotations

import json
import re

import pytest

from fornix.automata import Automata, Epoch, Manifold
from fornix.context import Stream
from fornix.errors import EpochsSpent, ModelUnavailable, PromptAborted
from fornix.llm import ScriptedChat, Unfit
from pages import ROOT

PAGE = ROOT / "docs" / "thinker-vectors.md"
VECTORS = [f"T{n:02}" for n in range(1, 39)]


def texts(messages):
    return [str(message) for message in messages]


def test_every_vector_has_one_place():
    """Each of T01 to T38 is one test here, in their order, and one row of the page."""
    source = (ROOT / "tests" / "test_thinker_vectors.py").read_text(encoding="utf-8")
    named = [f"T{n}" for n in re.findall(r"^def test_t(\d\d)_", source, re.MULTILINE)]
    assert named == VECTORS
    rows = re.findall(r"^\| (T\d\d) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == VECTORS


# --- T08 to T13: agents with tools --------------------------------------------------------------


def manifold(*answers, decoder=str, **tools):
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
