"""AgentScope 1.0: its agents, with a long-term memory; and the vectors of its own.

A test named after a vector is a row of docs/agentscope-vectors.md.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

import pytest
from agentscope.agent import ReActAgent
from agentscope.formatter import FormatterBase
from agentscope.memory import InMemoryMemory
from agentscope.message import Msg, TextBlock, ToolUseBlock
from agentscope.model import ChatModelBase, ChatResponse

from alveus import Memory
from alveus.errors import InvalidInput, StoreClosed
from alveus.integrations.agentscope_memory import AlveusLongTermMemory
from frameworks_tried import counted


class Plain(FormatterBase):
    async def format(self, msgs, **_):
        return [one.to_dict() for one in msgs]


class Scripted(ChatModelBase):
    """Answers in turn, and notes what it was asked, and of which tools it was told."""

    def __init__(self, *answers):
        super().__init__("scripted", stream=False)
        self.answers, self.asked, self.tools = list(answers), [], {}

    async def __call__(self, messages, tools=None, **_):
        self.asked.append(str(messages))
        self.tools = {tool["function"]["name"]: tool["function"] for tool in tools or []}
        answer = self.answers.pop(0)
        content: Any = (
            [TextBlock(type="text", text=answer)] if isinstance(answer, str) else [answer]
        )
        return ChatResponse(content=content)


def agent_with(long_term, model, mode="static_control"):
    agent = ReActAgent(
        name="guide",
        sys_prompt="You help.",
        model=model,
        formatter=Plain(),
        memory=InMemoryMemory(),
        long_term_memory=long_term,
        long_term_memory_mode=mode,
    )
    agent.set_console_output_enabled(enabled=False)
    return agent


def said(text, name="ada", role: Any = "user"):
    return Msg(name, text, role)


def kept(memory, key="agentscope.user:ada"):
    return [item.text for item in memory.key(key).set("agentscope").list()]


@pytest.fixture
def memory():
    with Memory.open(":memory:", embedder="static") as opened:
        yield opened


def test_a95_no_name(memory):
    """Both: long-term memory without the name of an agent, a user or a run raises a ValueError."""
    with pytest.raises(ValueError, match="agent_name"):
        AlveusLongTermMemory(memory)


def test_a96_two_turns(memory):
    """AgentScope: the second turn stores the messages of the first turn again.

    alveus: each message is stored once.
    """

    async def work():
        long_term = AlveusLongTermMemory(memory, user_name="ada")
        agent = agent_with(long_term, Scripted("a1", "a2"))
        await agent(said("u1"))
        first = kept(memory)
        await agent(said("u2"))
        return first, kept(memory)

    first, both = asyncio.run(work())
    assert first == ["u1", "a1"]
    assert both == ["u1", "a1", "u2", "a2"]


def test_a97_what_was_recalled(memory):
    """AgentScope: memories that were recalled are stored again as new.

    alveus: they are not stored again.
    """

    async def work():
        long_term = AlveusLongTermMemory(memory, user_name="ada")
        await long_term.record_to_memory("It will matter.", ["Ada sits by the glass."])
        model = Scripted("By the glass.", "Yes.")
        agent = agent_with(long_term, model)
        await agent(said("Where does Ada sit?"))
        await agent(said("By the glass, is it?"))
        assert "Ada sits by the glass." in model.asked[0]
        return kept(memory)

    assert asyncio.run(work()) == [
        "Ada sits by the glass.",
        "Where does Ada sit?",
        "By the glass.",
        "By the glass, is it?",
        "Yes.",
    ]


def test_an_agent_remembers_and_searches_by_its_tools(memory):
    async def work():
        long_term = AlveusLongTermMemory(memory, user_name="ada", agent_name="guide")
        calls = [
            ToolUseBlock(type="tool_use", id=str(number), name=name, input=given)
            for number, (name, given) in enumerate(
                [
                    ("record_to_memory", {"thinking": "", "content": ["A red tent.", "A map."]}),
                    ("retrieve_from_memory", {"keywords": ["red tent", "tent"], "limit": 1}),
                ]
            )
        ]
        model = Scripted(*calls, "Done.")
        await agent_with(long_term, model, "agent_control")(
            said("Remember my red tent and my map.")
        )
        assert kept(memory) == ["A red tent.", "A map."]
        assert model.asked[2].count("'A red tent.'") == 2  # said to be recorded, and found once
        assert set(model.tools["retrieve_from_memory"]["parameters"]["properties"]) == {
            "keywords",
            "limit",
        }

    asyncio.run(work())


def test_only_what_has_all_names_is_found(memory):
    async def work():
        one = AlveusLongTermMemory(memory, user_name="ada", agent_name="one")
        await one.record([said("A green tent."), None])
        two = AlveusLongTermMemory(memory, user_name="ada", agent_name="two")
        any_agent = AlveusLongTermMemory(memory, user_name="ada")
        other_key = AlveusLongTermMemory(memory, agent_name="one", key="agentscope.user:ada")
        bob = AlveusLongTermMemory(memory, user_name="bob")
        question = [said("Which tent?")]
        assert await two.retrieve(question) == await bob.retrieve(question) == ""
        for found in (one, any_agent, other_key):
            assert await found.retrieve(question) == "A green tent."
        assert await one.retrieve(None) == await one.retrieve(said("")) == ""

    asyncio.run(work())


def test_a_message_gets_what_it_needs(memory):
    """A small memory comes whole, though no word is shared; thanks get nothing."""

    async def work():
        ada = AlveusLongTermMemory(memory, user_name="ada")
        facts = [f"Fact {n}: I own {n} red tents." for n in range(8)]
        await ada.record([said(text) for text in [*facts, "I am allergic to peanuts."]])
        found = await ada.retrieve(said("Suggest a snack."))
        assert set(found.splitlines()) == {*facts, "I am allergic to peanuts."}
        assert len((await ada.retrieve(said("Suggest a snack."), limit=3)).splitlines()) <= 3
        assert await ada.retrieve(said("Thank you!")) == ""

    asyncio.run(work())


def test_a_user_an_agent_and_a_run_of_one_name_are_three(memory):
    """A user, an agent and a run share nothing; each agent keeps what all of a user hear."""

    async def work():
        message = said("A green tent.")
        for names in ({"user_name": "x"}, {"agent_name": "x"}, {"run_name": "x"}):
            memory.key("x").set("agentscope").clear()
            long_term = AlveusLongTermMemory(memory, **names)
            assert await long_term.retrieve(message) == ""
            await long_term.record([message])
            assert await long_term.retrieve(message) == "A green tent."
        for agent in ("one", "two"):
            long_term = AlveusLongTermMemory(memory, user_name="ada", agent_name=agent)
            await long_term.record([message])
            assert await long_term.retrieve(message) == "A green tent."

    asyncio.run(work())


def test_what_was_deleted_is_not_recorded_again(memory):
    """As the agent still has it in its conversation, and records all of that."""

    async def work():
        long_term = AlveusLongTermMemory(memory, user_name="ada")
        message = said("My code is 1234.")
        (recorded,) = await long_term.record([message, message])
        assert memory.key("agentscope.user:ada").set("agentscope").delete(recorded)
        assert await long_term.record([message]) == []

    asyncio.run(work())
    assert kept(memory) == []


def test_what_is_no_message_is_its_type_error(memory):
    async def work():
        long_term = AlveusLongTermMemory(memory, run_name="r")
        for call in (long_term.record, long_term.retrieve):
            with pytest.raises(TypeError, match="Msg"):
                await call(cast("Any", ["text"]))

    asyncio.run(work())
    with pytest.raises(InvalidInput):
        AlveusLongTermMemory(memory, user_name="")


def test_what_a_closed_memory_answers(tmp_path):
    """Its tools tell the model of it; what the developer calls raises."""

    async def work():
        long_term = AlveusLongTermMemory(tmp_path / "a.db", user_name="ada")
        await long_term.record([said("A green tent.")])
        long_term.close()
        told: Any = await long_term.record_to_memory("", ["A map."])
        assert "Nothing was remembered" in told.content[0]["text"]
        told = await long_term.retrieve_from_memory(["tent"])
        assert "The search failed" in told.content[0]["text"]
        with pytest.raises(StoreClosed):
            await long_term.retrieve(said("Which tent?"))

    asyncio.run(work())
    with Memory.open(tmp_path / "a.db") as memory:
        (hit,) = memory.key("agentscope.user:ada").search("tent")
        assert (hit.item.role, hit.item.speaker) == ("user", "ada")
        again = AlveusLongTermMemory(memory, user_name="ada")
        assert asyncio.run(again.retrieve(said("Which tent?"))) == "A green tent."


def test_its_vectors_are_counted():
    """As the page says how many there are; each is a test of this file."""
    counted("AgentScope 1", vectors=sum(bool(re.match(r"test_a\d+_", test)) for test in globals()))


def test_half_a_character_is_replaced(memory):
    """In messages, and in what an agent adds by its tool."""

    async def work():
        long_term = AlveusLongTermMemory(memory, user_name="ada")
        await long_term.record([said("Rain \ud83d")])
        await long_term.record_to_memory("", ["Snow \ud83d"])
        return await long_term.retrieve([said("Rain \ud83d")])

    told = asyncio.run(work())
    assert "Rain \ufffd" in told
    assert "Snow \ufffd" in told
