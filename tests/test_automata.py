"""Agents that are prompted: whatever their parts do, what is remembered is what was accepted."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import warm
from alveus import Memory
from alveus.agents.automata import Automata, Epoch, Manifold, automata
from alveus.agents.windows import ContextMemory, Observation, Stream
from alveus.compat import thinker
from alveus.errors import (
    EpochsSpent,
    IdempotencyConflict,
    InvalidInput,
    InvalidValue,
    ModelAnswerInvalid,
    ModelUnavailable,
    PromptAborted,
)
from alveus.llm import ScriptedChat, Unfit
from alveus.runs.durable_calls import durable
from alveus.store import Retain
from alveus.text.messages import Message
from automata_worker import CALLS, STEPS, expected
from scale import COUNTS
from waiting import LIMIT_S

WORKER = Path(__file__).with_name("automata_worker.py")
KILLS = max(2 * len(STEPS), COUNTS.kills // 6)


class All(ContextMemory):
    """A user's own window, which holds everything."""

    def __init__(self):
        self._lock, self.kept = threading.Lock(), []

    def purge(self):
        with self._lock:
            self.kept.clear()

    def commit(self, observation):
        with self._lock:
            self.kept.append(observation)

    def observations(self):
        with self._lock:
            return list(self.kept)

    def context(self, prompt):
        with self._lock:
            said = [m for o in self.kept for m in o.messages]
        return said if prompt is None else [*said, prompt]


def call(tool, **arguments):
    """What a model answers to have a tool called."""
    return json.dumps({"tool": tool, "arguments": arguments})


def texts(window):
    return [m.content for m in window.context(None)]


@pytest.fixture
def own():
    """A window of the user's own, for what has nothing to do with where windows are kept."""
    return All()


@pytest.fixture(params=["own", "own, run on a key", "stream", "stream on a key"])
def place(request, tmp_path):
    """A window, and the key that its agent is given."""
    if "key" not in request.param:
        yield (All() if request.param == "own" else Stream()), None
        return
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        key = memory.key("ada")
        yield (All(), key) if "own" in request.param else (Stream(memory=key), None)


@pytest.fixture
def window(place):
    return place[0]


@pytest.fixture
def key(place):
    return place[1]


# --- the parts ----------------------------------------------------------------------------------


def test_a_prompt_returns_what_the_decoder_makes_of_the_reply(window, key):
    """The encoder makes the prompt, the decoder the result, whatever type it is of."""
    model = ScriptedChat(["6 * 7 = 42"])
    agent = Automata(
        model,
        window,
        lambda given: f"What is {given['a']} * {given['b']}?",
        lambda reply: complex(int(str(reply.content).rpartition(" ")[2])),
        key=key,
    )
    assert agent.prompt({"a": 6, "b": 7}) == 42 + 0j
    assert texts(window) == ["What is 6 * 7?", "6 * 7 = 42"]
    assert model.requests[0].messages == ({"role": "user", "content": "What is 6 * 7?"},)


def test_a_message_may_be_prompted_with(window, key):
    """It comes to the encoder as it is, and need not have one."""
    said = Message("hi", "user", name="ada")
    model = ScriptedChat(["ok", "ok"])
    assert Automata(model, window, key=key).prompt(said) == "ok"
    assert Automata(model, window, lambda given: given, key=key).prompt(said) == "ok"
    assert model.requests[0].messages == ({"role": "user", "content": "hi", "name": "ada"},)
    assert window.context(None)[0] == said


def test_the_parts_may_be_objects_with_a_method(own):
    """encode, decode and deduct; a model is an object with `complete`, or a function."""

    class Parts:
        def encode(self, given):
            return Message(given.upper(), name="ada")

        def decode(self, reply):
            return str(reply.content)[::-1]

        def deduct(self, state):
            assert (state.epoch, state.input, state.prompt.name) == (1, "hi", "ada")
            assert (state.value, state.feedback) == ("gnihton", None)
            return "return"

        def complete(self, messages):
            assert messages == [{"role": "user", "content": "HI", "name": "ada"}]
            return "nothing"

    parts: Any = Parts()
    assert Automata(parts, own, parts, parts, parts).prompt("hi") == "gnihton"
    assert Automata(lambda messages: messages[-1]["content"] * 2, All()).prompt("hi") == "hihi"


def test_a_decoder_says_how_much_its_reply_matters(own):
    """What it sets is kept with the observation, and who set it."""

    def decode(reply):
        reply.importance = 0.75
        return reply.content.content

    Automata(lambda _: "yes", own, decoder=decode).prompt("hi")
    (kept,) = own.observations()
    assert (kept.reply.importance, kept.reply.scored_by) == (0.75, "decoder")

    def too_much(reply):
        reply.importance = 2

    with pytest.raises(InvalidInput, match="importance that the decoder set"):
        Automata(lambda _: "yes", own, decoder=too_much).prompt("hi")
    assert own.observations() == [kept]


def test_a_reasoner_that_asks_on_is_in_conversation(own):
    """Each question sees the answers before it, all are remembered, the last one is returned."""
    model = ScriptedChat(["Lisbon", "Portugal"])

    def deduct(state):
        return "return" if state.epoch == 2 else ("ask", f"In which country is {state.value}?")

    agent = Automata(model, own, reasoner=deduct)
    assert agent.prompt("Where to?") == "Portugal"
    told = ["Where to?", "Lisbon", "In which country is Lisbon?"]
    assert [m["content"] for m in model.requests[1].messages] == told
    assert texts(own) == [*told, "Portugal"]
    assert [o.outcome for o in own.observations()] == ["accepted", "accepted"]


def test_a_second_conversation_sees_the_first_and_itself(window, key):
    """What one prompt gathered is not taken for what the one before it gathered."""
    model = ScriptedChat(str)

    def deduct(state):
        return "return" if state.epoch == 2 else ("ask", f"{state.input} again")

    agent = Automata(model, window, reasoner=deduct, key=key)
    for asked in ("one", "two"):
        agent.prompt(asked)
    told = [m["content"] for m in model.requests[-1].messages if m["role"] == "user"]
    assert told == ["one", "one again", "two", "two again"]


def test_what_is_refined_is_remembered_as_rejected(own):
    """The model sees what it said and why that will not do; so does whoever looks later."""
    model = ScriptedChat(["four", "4"])

    def decode(reply):
        if not str(reply.content).isdecimal():
            raise Unfit("it is no number")
        return int(str(reply.content))

    assert Automata(model, own, decoder=decode).prompt("2 + 2?") == 4
    again = model.requests[1].messages
    assert [m["role"] for m in again] == ["user", "assistant", "user"]
    assert "it is no number" in again[2]["content"]
    assert [o.outcome for o in own.observations()] == ["rejected", "accepted"]


def test_thrown_away_answers_are_remembered_only_if_asked_for(key):
    """After "retry" the same is asked again, and nothing of the first answer is left."""

    def deduct(state):
        return "return" if state.value == "good" else "retry"

    for keeps, outcomes in ((False, ["accepted"]), (True, ["rejected", "accepted"])):
        model, window = ScriptedChat(["bad", "good"]), All()
        agent = Automata(model, window, reasoner=deduct, key=key, keep_rejected=keeps)
        assert agent.prompt("hi") == "good"
        first, second = model.requests
        assert first.messages == second.messages
        assert [o.outcome for o in window.observations()] == outcomes


def test_an_agent_gives_up_by_itself(window, key):
    """Unless told otherwise a reasoner that is never content ends after 32 answers."""
    model = ScriptedChat(lambda _: "no")
    with pytest.raises(EpochsSpent, match="32 times"):
        Automata(model, window, reasoner=lambda _: "retry", key=key).prompt("hi")
    assert len(model.requests) == 32
    assert [o.outcome for o in window.observations()] == ["aborted"]
    with pytest.raises(EpochsSpent, match="2 times") as raised:
        Automata(model, window, reasoner=lambda _: "retry", max_epochs=2).prompt("hi")
    assert isinstance(raised.value, PromptAborted)


def test_the_last_epoch_counts(own):
    """An answer that is accepted is returned, also if it is the last that there may be."""
    model = ScriptedChat(["no", "no", "yes"])
    reasoner = Epoch(3, lambda state: "return" if state.value == "yes" else "retry")
    assert Automata(model, own, reasoner=reasoner).prompt("hi") == "yes"


@pytest.mark.parametrize("why", ["it is of no use", None, ZeroDivisionError("nought")])
def test_a_reasoner_may_give_up(own, why):
    """What it says is raised; an error is raised as it is. The answer is remembered as aborted."""
    agent = Automata(lambda _: "no", own, reasoner=lambda _: ("abort", why))
    expected = type(why) if isinstance(why, Exception) else PromptAborted
    with pytest.raises(expected, match=str(why) if why else "given up"):
        agent.prompt("hi")
    assert [o.outcome for o in own.observations()] == ["aborted"]


def test_prompt_once_begins_with_an_empty_window(window, key):
    """The window is purged, and holds this prompt alone afterwards."""
    model = ScriptedChat(lambda messages: f"{len(messages)} messages")
    agent = Automata(model, window, key=key)
    assert agent.prompt("one") == "1 messages"
    assert agent.prompt("two") == "3 messages"
    assert agent.prompt_once("three") == "1 messages"
    assert texts(window) == ["three", "1 messages"]


def test_prompts_may_be_awaited(window, key):
    """Each from a thread; they go one after the other."""
    agent = Automata(lambda messages: str(len(messages)), window, key=key)

    async def both():
        return await asyncio.gather(agent.aprompt("one"), agent.aprompt("two"))

    assert sorted(asyncio.run(both())) == ["1", "3"]
    assert asyncio.run(agent.aprompt_once("three")) == "1"


# --- parts that fail ----------------------------------------------------------------------------

BROKEN = {
    "encoder raises": ({"encoder": lambda _: 1 / 0}, ZeroDivisionError),
    "encoder answers nonsense": ({"encoder": lambda _: 7}, InvalidInput),
    "no encoder for it": ({}, InvalidInput),
    "model raises": ({"llm": ScriptedChat(lambda _: OSError("down"))}, OSError),
    "model is down": (
        {"llm": ScriptedChat(lambda _: ModelUnavailable("m", "x"))},
        ModelUnavailable,
    ),
    "model answers nonsense": ({"llm": lambda _: None}, ModelAnswerInvalid),
    "decoder raises": ({"decoder": lambda _: 1 / 0}, ZeroDivisionError),
    "reasoner raises": ({"reasoner": lambda _: 1 / 0}, ZeroDivisionError),
    "reasoner answers nothing": ({"reasoner": lambda _: None}, InvalidInput),
    "reasoner answers a word": ({"reasoner": lambda _: "Return"}, InvalidInput),
    "reasoner asks nothing": ({"reasoner": lambda _: ("ask", None)}, InvalidInput),
    "reasoner says too much": ({"reasoner": lambda _: ("return", "x")}, InvalidInput),
    "reasoner says three things": ({"reasoner": lambda _: ("ask", "x", 1)}, InvalidInput),
    "reasoner answers a list": ({"reasoner": lambda _: ["ask", "x"]}, InvalidInput),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_part_that_fails_fails_the_prompt_and_no_other(key, what):
    """Its error is raised as it is; nothing is remembered; the next prompt goes on."""
    window = All()
    broken, error = BROKEN[what]
    whole: dict[str, Any] = {"llm": lambda _: "ok", "encoder": str}
    given: dict[str, Any] = (
        whole | broken if what != "no encoder for it" else {"llm": lambda _: "ok"}
    )
    with pytest.raises(error):
        Automata(memory=window, key=key, **given).prompt(7)
    assert window.observations() == []
    assert Automata(memory=window, key=key, **whole).prompt(7) == "ok"


def test_a_model_may_do_what_it_likes_with_its_messages(own):
    """They are its own; and a text of another class is a text."""

    class Text(str):
        __slots__ = ()

    told = []

    def model(messages):
        told.append([dict(message) for message in messages])
        messages.append(messages[0])
        messages[0].clear()
        return Text("ok")

    reasoner = Epoch(2, lambda state: "retry" if state.epoch < 2 else "return")
    answer = Automata(model, own, reasoner=reasoner).prompt("hi")
    assert (answer, type(answer)) == ("ok", str)
    assert told == [[{"role": "user", "content": "hi"}]] * 2


@pytest.mark.parametrize("part", ["encoder", "decoder", "reasoner", "llm"])
def test_a_part_that_prompts_its_own_agent_is_refused(window, key, part):
    """It would wait for itself."""
    agents = []
    parts: dict[str, Any] = {"llm": lambda _: "ok", part: lambda _: agents[0].prompt("again")}
    agents.append(Automata(memory=window, key=key, **parts))
    with pytest.raises(InvalidInput, match="cannot wait for a later run of the same key"):
        agents[0].prompt("hi")
    assert texts(window) == []


def test_what_cannot_be_stored_cannot_be_asked(window, key):
    """A prompt may have to go on in another process."""
    agent = Automata(lambda _: "ok", window, str, key=key)
    with pytest.raises(InvalidValue):
        agent.prompt({1, 2})
    assert agent.prompt([1, 2]) == "ok"


@pytest.mark.parametrize("shown", [None, "text", ["text"], [1]])
def test_a_window_that_shows_no_messages_is_told_so(shown):
    """By its name, before a model is asked."""

    class Odd(All):
        def context(self, prompt):
            return shown

    model = ScriptedChat([])
    with pytest.raises(InvalidInput, match="context of Odd"):
        Automata(model, Odd()).prompt("hi")
    assert model.requests == ()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"llm": None}, "a model must be a function"),
        ({"memory": []}, "ContextMemory"),
        ({"encoder": "x"}, "an encoder"),
        ({"decoder": 3}, "a decoder"),
        ({"reasoner": object()}, "a reasoner"),
        ({"max_epochs": 0}, "max_epochs"),
        ({"tool_chars": 0}, "tool_chars"),
        ({"key": "ada"}, "Memory.key"),
        ({"name": ""}, "an agent's name"),
        ({"tools": 3}, "tools must be"),
        ({"tools": [lambda: 1]}, "has no name"),
        ({"tools": [len, len]}, "two tools"),
        ({"tools": {"x": None}}, "plain function"),
    ],
)
def test_settings_are_checked_at_once(wrong, says):
    """What cannot serve is an error of the line that passes it."""
    given: dict[str, Any] = {"llm": lambda _: "ok", "memory": All()} | wrong
    with pytest.raises(InvalidInput, match=says):
        Automata(**given)


def test_async_parts_are_refused():
    """They would answer something to be awaited."""

    async def later(_):
        return "ok"

    for part in ("llm", "encoder", "decoder", "reasoner"):
        given: dict[str, Any] = {"llm": lambda _: "ok", "memory": All(), part: later}
        with pytest.raises(InvalidInput, match="async"):
            Automata(**given)
    with pytest.raises(InvalidInput, match="plain function"):
        Manifold(lambda _: "ok", [later], All())


# --- tools --------------------------------------------------------------------------------------


def add(a: int, b: int) -> int:
    """Add two numbers.

    This is not told.
    """
    return a + b


def test_a_tool_is_called_and_its_answer_told(window, key):
    """The model is told of the tools, calls one, is told what it returned, and answers."""
    model = ScriptedChat([call("add", a=2, b=3), "It is 5."])
    agent = Manifold(model, [add], window, key=key)
    assert agent.prompt("2 + 3?") == "It is 5."
    system, *asked = model.requests[0].messages
    assert system["role"] == "system"
    assert system["content"].endswith("- add(a: int, b: int) -> int: Add two numbers.")
    assert system["content"] == agent.instructions
    assert asked == [{"role": "user", "content": "2 + 3?"}]
    *_, told = model.requests[1].messages
    assert told == {"role": "user", "content": '{"tool": "add", "answer": 5}'}
    first, second = window.observations()
    assert first.reply.content.calls == second.query.content.answers != ()
    assert second.query.content.role == "tool"


def test_instructions_follow_those_of_the_window(own):
    """The own's own come first."""

    class Ruled(All):
        def context(self, prompt):
            return [Message.stratum("Be kind."), *super().context(prompt)]

    model = ScriptedChat(["ok"])
    Manifold(model, [add], Ruled()).prompt("hi")
    roles = [m["role"] for m in model.requests[0].messages]
    assert roles == ["system", "system", "user"]
    assert model.requests[0].messages[0]["content"] == "Be kind."


def test_several_tools_in_one_answer(own):
    """They are called in order, and all answers told together."""
    calls = f"```json\n[{call('add', a=1, b=1)}, {call('twice', text='a')}]\n```"
    model = ScriptedChat([calls, "done"])
    tools = {"add": add, "twice": lambda text: text * 2}
    assert Manifold(model, tools, own).prompt("go") == "done"
    told = model.requests[1].messages[-1]["content"]
    assert told == '{"tool": "add", "answer": 2}\n{"tool": "twice", "answer": "aa"}'
    assert len(set(own.observations()[0].reply.content.calls)) == 2


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (call("subtract", a=1), "there is no such tool; the tools are add, fail"),
        (call("add", a=1), "its signature is (a: int, b: int) -> int: missing"),
        (call("add", a=1, b=2, c=3), "unexpected keyword argument 'c'"),
        (call("add", a=1, b="x"), "TypeError: unsupported operand"),
        (call("fail"), "ConnectionError: the line went dead"),
        ('{"tool": "add"}', "its signature is (a: int, b: int) -> int: missing"),
    ],
)
def test_what_went_wrong_is_told_to_the_model(own, said, told):
    """An unknown tool, wrong arguments, an error of the tool: the model may do otherwise."""

    def fail():
        raise ConnectionError("the line went dead")

    model = ScriptedChat([said, "sorry"])
    assert Manifold(model, [add, fail], own).prompt("go") == "sorry"
    answer = json.loads(model.requests[1].messages[-1]["content"])
    assert answer["tool"] == json.loads(said)["tool"]
    assert told in answer["error"]


@pytest.mark.parametrize(
    "said",
    [
        '{"tool": "add", "arguments": {}, "why": "x"}',
        '{"tool": 3}',
        '{"tool": "add", "arguments": [1, 2]}',
        '{"tool": "add", "arguments": {"a": "\\ud800"}}',
        '{"a": 1}',
        "[]",
        "[1]",
        "null",
        '{"tool": "add", "argu',
        "add(1, 2)",
    ],
)
def test_what_is_no_call_is_the_answer(own, said):
    """Only an object of a tool and its arguments is a call; the decoder has all else."""
    assert Manifold(ScriptedChat([said]), [add], own).prompt("go") == said
    assert own.observations()[0].reply.content.calls == ()


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), [float("nan")], "\ud800"])
def test_a_tool_that_returns_no_json_fails_the_prompt(window, key, value):
    """That is a fault of the program, which the model cannot mend."""
    model = ScriptedChat(lambda _: call("odd"))
    agent = Manifold(model, {"odd": lambda: value}, window, key=key)
    with pytest.raises(InvalidValue, match="the result of tool 'odd'"):
        agent.prompt("go")
    assert window.observations() == []


@pytest.mark.parametrize(
    ("value", "answer", "size"),
    [("x" * 101, "x" * 100, 101), (["a"] * 50, str(["a"] * 50).replace("'", '"')[:100], 250)],
)
def test_of_a_long_answer_of_a_tool_the_beginning_is_told(window, key, value, answer, size):
    """And that it is one: a model must not take a part for the whole."""
    model = ScriptedChat([call("long"), "ok"] * 2)
    for most, told in ((100, answer), (None, value)):
        agent = Manifold(model, {"long": lambda: value}, window, key=key, tool_chars=most)
        assert agent.prompt("go") == "ok"
        heard = json.loads(model.requests[-1].messages[-1]["content"])
        assert heard["answer"] == told
        cut = f"this is the beginning: 100 of {size} characters"
        assert heard.get("cut") == (None if most is None else cut)


def test_a_tool_that_does_not_say_what_it_takes(own):
    """A function in C: what it is called with, and what it says to that, is all there is."""
    model = ScriptedChat([call("max", a=1), "sorry"])
    agent = Manifold(model, [max], own)
    assert "- max(…): max(iterable" in agent.instructions
    assert agent.prompt("go") == "sorry"
    assert "TypeError" in model.requests[1].messages[-1]["content"]


def test_a_tool_may_give_up(window, key):
    """The prompt is aborted with what the tool said, and no further tool is called."""
    called = []

    def stop():
        raise PromptAborted("the account is closed")

    model = ScriptedChat([f"[{call('stop')}, {call('note')}]"])
    agent = Manifold(model, {"stop": stop, "note": lambda: called.append(1)}, window, key=key)
    with pytest.raises(PromptAborted, match="the account is closed"):
        agent.prompt("go")
    assert called == []
    assert [o.outcome for o in window.observations()] == ["aborted"]


def test_a_model_that_only_calls_tools_is_stopped(own):
    """The last call that nobody would hear the answer of is not made."""
    made = []
    model = ScriptedChat(lambda _: call("note"))
    with pytest.raises(EpochsSpent):
        Manifold(model, {"note": lambda: made.append(1)}, own, max_epochs=3).prompt("go")
    assert (len(model.requests), len(made)) == (3, 2)


def test_a_tool_that_prompts_its_own_agent_is_refused(window, key):
    """It would wait for itself; the model is told so, and nothing is left of the inner prompt."""
    model = ScriptedChat([call("again"), "I cannot."])
    agents = []

    def again():
        return agents[0].prompt("and again", event_id="inner")

    agents.append(Manifold(model, [again], window, key=key))
    assert agents[0].prompt("go") == "I cannot."
    assert "InvalidInput" in model.requests[1].messages[-1]["content"]
    assert len(model.requests) == 2
    assert len(agents[0].runs.list()) == 1


def test_a_tool_may_prompt_another_agent(window, key):
    """An agent with a key of its own, or in RAM."""
    helper = Automata(lambda messages: messages[-1]["content"].upper(), All())
    model = ScriptedChat([call("loud", given="hi"), "HI it is"])
    agent = Manifold(model, {"loud": helper.prompt}, window, key=key)
    assert agent.prompt("go") == "HI it is"
    assert json.loads(model.requests[1].messages[-1]["content"])["answer"] == "HI"


# --- where prompts are runs ---------------------------------------------------------------------


def test_an_agent_says_where_its_prompts_are(tmp_path):
    """In RAM, or of which key; and what it remembers them in."""
    assert "prompts in RAM, until this process ends" in repr(Automata(lambda _: "ok", All()))
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        agent = Manifold(lambda _: "ok", [], key=memory.key("ada"), name="desk")
        assert repr(agent).startswith("<'desk of ada', prompts of <key 'ada'")
        assert agent.prompt("hi") == "ok"
        assert len(Stream(memory=memory.key("ada"))) == 1
        assert [run.key for run in agent.runs.list()] == ["ada"]


def test_a_window_of_another_key_is_refused():
    """What it takes in could not be part of the run."""
    with Memory.open(embedder="words") as memory:
        window = Stream(memory=memory.key("ada"))
        with pytest.raises(InvalidInput, match="is stored in another key than"):
            Automata(lambda _: "ok", window, key=memory.key("bob"))
        Automata(lambda _: "ok", window, key=memory.key("ada"))
        with memory.key("ada").batch() as batch, pytest.raises(InvalidInput, match="the window"):
            Automata(lambda _: "ok", Stream(memory=batch))


def test_agents_share_a_window_and_not_their_prompts(tmp_path):
    """Two of one key: one order of prompts, one window, and each finishes its own."""
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        window = Stream(memory=memory.key("ada"))
        one = Automata(lambda messages: f"one {len(messages)}", window, name="one")
        two = Automata(lambda messages: f"two {len(messages)}", window, name="two")
        assert [one.prompt("a"), two.prompt("b"), one.prompt("c")] == ["one 1", "two 3", "one 5"]
        assert (len(one.runs.list()), len(two.runs.list())) == (2, 1)


def test_what_failed_where_nobody_waited_is_parked(tmp_path):
    """It is seen among the runs, holds nobody up, and goes on when it is retried."""
    path = tmp_path / "a.db"
    script = f"""
import os, sys
sys.path[:0] = [{str(Path(__file__).parent)!r}]
from alveus import Memory
from alveus.agents.automata import Automata
from alveus.agents.windows import Stream
memory = Memory.open({str(path)!r}, embedder="words")
Automata(lambda _: os._exit(9), Stream(memory=memory.key("ada"))).prompt("hi")
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    with Memory.open(path, embedder="words") as memory:
        model = ScriptedChat([OSError("down"), "first", "second"])
        agent = Automata(model, Stream(memory=memory.key("ada")))
        agent.resume()
        (run,) = agent.runs.list(status="parked")
        assert run.error is not None
        assert run.error["message"] == "down"
        agent.runs.retry(run.id)
        assert agent.prompt("ho") == "second"
        assert texts(agent.memory) == ["hi", "first", "ho", "second"]


def test_prompts_that_ended_are_pruned(own, monkeypatch):
    """Of an agent in RAM so many are kept, also if none of its runners lives for long."""
    monkeypatch.setattr(automata, "PRUNE_EVERY_S", -1)
    agent = Automata(lambda _: "ok", own, retain=Retain(count=2, dedupe_for=timedelta(0)))
    for _ in range(6):
        agent.prompt("hi")
    assert len(agent.runs.list()) <= 3


def test_the_names_of_thinker():
    """They are what its programs need them to be."""
    assert thinker.Stratum("s") == Message("s", "system")
    assert thinker.Prompt("p") == Message("p", "user")
    assert thinker.Answer("a", "1") == Message("a", "tool", answers=("1",))
    stream, twice = thinker.Stream(), Observation("q", "r")
    stream.commit(twice)
    stream.commit(twice)
    assert texts(stream) == ["q", "r", "q", "r"]
    model = ScriptedChat(["no", "yes"])

    def deduct(state):
        return thinker.AGENT_RETURN if state.value == "yes" else thinker.AGENT_RETRY

    agent = thinker.Automata(model, thinker.Stream(1, "s"), str, str, thinker.Epoch(2, deduct))
    assert agent.prompt("p") == "yes"
    assert all(hasattr(thinker, name) for name in thinker.__all__)


# --- exactly once -------------------------------------------------------------------------------


def test_a_named_prompt_is_asked_once(window, key):
    """Again under its event id it is not asked, and its result is made of the stored reply."""
    model = ScriptedChat(["one", "two"])
    agent = Automata(model, window, decoder=lambda reply: [str(reply.content)], key=key)
    assert agent.prompt("hi", event_id="a") == agent.prompt("hi", event_id="a") == ["one"]
    assert len(window.observations()) == 1
    with pytest.raises(IdempotencyConflict):
        agent.prompt("ho", event_id="a")
    assert agent.prompt("ho") == ["two"]


def test_a_named_prompt_that_was_given_up_stays_so(window, key):
    """Its reason comes again."""
    model = ScriptedChat(["no"])
    agent = Automata(model, window, reasoner=lambda _: ("abort", "never"), key=key)
    for _ in range(2):
        with pytest.raises(PromptAborted, match="never"):
            agent.prompt("hi", event_id="a")


def test_a_named_prompt_that_failed_goes_on_where_it_failed(window, key):
    """What was answered, and what tools returned, is not asked for again."""
    down = ModelUnavailable("m", "try later")
    model = ScriptedChat([call("add", a=2, b=3), down, "5"])
    made = []

    def add(a, b):
        made.append((a, b))
        return a + b

    agent = Manifold(model, [add], window, key=key)
    with pytest.raises(ModelUnavailable):
        agent.prompt("2 + 3?", event_id="a")
    if isinstance(window, All):
        window.purge()  # it is no part of the run, and kept what it was given
    assert texts(window) == []
    assert agent.prompt("2 + 3?", event_id="a") == "5"
    assert made == [(2, 3)]
    assert len(window.observations()) == 2
    assert len({o.created for o in window.observations()}) == 2


def test_a_named_prompt_that_was_overtaken_begins_anew(window, key):
    """Others went on meanwhile, so it comes after them, and what it asked is asked again."""
    model = ScriptedChat([ModelUnavailable("m", "x"), "between", "late"])
    agent = Automata(model, window, key=key)
    with pytest.raises(ModelUnavailable):
        agent.prompt("first", event_id="a")
    assert agent.prompt("second") == "between"
    assert agent.prompt("first", event_id="a") == "late"
    assert agent.prompt("first", event_id="a") == "late"
    assert texts(window) == ["second", "between", "first", "late"]


def test_a_prompt_that_is_interrupted_is_given_up(window, key):
    """Ctrl-C in the middle of a model's answer: the next prompt is the next one."""
    model = ScriptedChat([KeyboardInterrupt(), "hello"])
    agent = Automata(model, window, key=key)
    with pytest.raises(KeyboardInterrupt):
        agent.prompt("hi")
    assert agent.prompt("ho") == "hello"
    assert texts(window) == ["ho", "hello"]
    assert [r.status for r in agent.runs.list()] == ["done", "discarded"]


def test_prompts_of_many_threads_go_one_after_the_other(window, key):
    """Eight threads on one agent: each answer rests on all before it, none is lost or twice."""
    agent = Automata(lambda messages: str(len(messages)), window, key=key)
    got, start, before = [], threading.Barrier(8), threading.active_count()

    def work(n):
        start.wait()
        got.extend(agent.prompt(f"{n}.{i}") for i in range(10))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, got)) == list(range(1, 160, 2))
    assert [str(o.reply.content) for o in window.observations()] == [
        str(n) for n in range(1, 160, 2)
    ]
    created = [o.created for o in window.observations()]
    assert created == sorted(set(created))
    assert threading.active_count() < before + 8


@pytest.mark.parametrize(("reconcile", "paid"), [(lambda: "paid before", 1), (None, 2)])
def test_a_reconciler_tells_what_became_of_a_tool(window, key, reconcile, paid):
    """A tool that was at work when its prompt was interrupted is asked for, not called again."""
    begun: list[str] = []

    def pay():
        """Pay."""
        begun.append("pay")
        if len(begun) == 1:
            raise KeyboardInterrupt
        return "paid now"

    tool = durable(reconcile=reconcile)(pay) if reconcile else pay
    model = ScriptedChat([call("pay"), "done"])
    agent = Manifold(model, {"pay": tool}, window, key=key)
    with pytest.raises(KeyboardInterrupt):
        agent.prompt("go", event_id="order-1")
    assert agent.prompt("go", event_id="order-1") == "done"
    assert len(begun) == paid
    told = "paid before" if reconcile else "paid now"
    assert json.loads(model.requests[-1].messages[-1]["content"])["answer"] == told


def test_processes_share_an_agent(tmp_path):
    """Two processes prompt agents of one name and key: all is done once, in one order."""
    path, ledger = tmp_path / "app.db", tmp_path / "ledger.txt"
    children = [
        warm.Popen([sys.executable, str(WORKER), str(path), str(ledger), first, "6"])
        for first in ("0", "100")
    ]
    assert [child.wait(LIMIT_S) for child in children] == [0, 0]
    with Memory.open(path, embedder="words") as memory:
        said = texts(Stream(None, memory=memory.key("ada")))
    prompts = [said[at : at + 6] for at in range(0, len(said), 6)]
    assert sorted(int(p[0].split()[1]) for p in prompts) == [*range(6), *range(100, 106)]
    assert all(len({re.sub(r"\D", "", text) for text in p}) == 1 for p in prompts)
    assert len(ledger.read_text(encoding="utf-8").splitlines()) == 12 * len(CALLS)


# --- killed -------------------------------------------------------------------------------------

UNRECORDED = ("record:before", "model:after", "tool:after")
"""Where what the world answered may be lost, and is asked for again."""


def test_killed_in_the_middle_of_prompts(tmp_path):
    """Whatever instant a process dies at: no answer that was stored is asked for again, and each
    exchange is in the window once.
    """
    path, ledger = tmp_path / "app.db", tmp_path / "ledger.txt"
    chance, first, lost = random.Random(11), 0, 0
    steps = [f"{step}:{where}" for step in STEPS for where in ("before", "after")]

    def work(count, crash):
        nonlocal first
        child = warm.run(
            [sys.executable, str(WORKER), str(path), str(ledger), str(first), str(count)],
            env=os.environ | ({"ALVEUS_CRASH": crash} if crash else {}),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert child.returncode == (-signal.SIGKILL if crash else 0), child.stderr[-500:]
        told = [int(line) for line in child.stdout.split()]
        first = told[-1] + 1 if told else first

    for n in range(KILLS):
        step = steps[n] if n < len(steps) else chance.choice(steps)
        work(100, f"{step}:{chance.randint(1, 9)}")
        lost += step in UNRECORDED
        with Memory.open(path, embedder="words") as memory:
            said = texts(Stream(None, memory=memory.key("ada")))
        assert said in (expected(first), expected(first + 1)), step
    work(1, None)
    with Memory.open(path, embedder="words") as memory:
        window = Stream(None, memory=memory.key("ada"))
        assert texts(window) == expected(first)
        created = [observation.created for observation in window.observations()]
        assert created == sorted(set(created))
        agent = Manifold(ScriptedChat([]), [], window)
        assert {run.status for run in agent.runs.list(limit=1000)} == {"done"}
    asked = Counter(ledger.read_text(encoding="utf-8").splitlines())
    once = Counter(f"{what} {n}" for n in range(first) for what in CALLS)
    assert once <= asked
    assert (asked - once).total() <= lost
