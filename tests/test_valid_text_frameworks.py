"""Half a character in what a tool or a user says ends no run of a framework, and is counted."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any, TypedDict, cast

import httpx2
from agent_framework import Message
from agents import Agent, Runner, function_tool
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818StrReplaceCommand,
)
from langgraph.graph import END, START, StateGraph
from openai.types.responses import ResponseFunctionToolCall
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import Conversation
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.test import TestModel

from alveus import Memory
from alveus.integrations.agent_framework import AlveusHistoryProvider
from alveus.integrations.anthropic_memory import AlveusMemoryTool
from alveus.integrations.langgraph import AlveusSaver, AlveusStore
from alveus.integrations.openai_agents import AlveusSession
from alveus.integrations.pydantic_ai import KEY, SET, AlveusConversationStore
from test_mcp import HELLO, command, served_here
from test_openai_agents import QUIET, Scripted, said
from waiting import LIMIT_S

HALF = "Rain \ud83d"
WHOLE = "Rain \ufffd"


@function_tool
def sky(city: str) -> str:
    """Tell the weather, cut in the middle of a character."""
    return f"{HALF} in {city}"


def test_a_run_of_openais_agents_goes_on(tmp_path):
    """As with the SDK's own session: the output is kept, and the next run has it."""

    async def work():
        with Memory.open(tmp_path / "a.db", embedder="words") as memory:
            session = AlveusSession("trip", memory)
            call = ResponseFunctionToolCall(
                arguments='{"city": "Lisbon"}', call_id="c1", name="sky", type="function_call"
            )
            agent = Agent(name="guide", model=Scripted(call, said("Rain.")), tools=[sky])
            made = await Runner.run(agent, "How is it?", session=session, run_config=QUIET)  # pyright: ignore[reportArgumentType] - the test fails where it is another type
            assert made.final_output == "Rain."
            outputs = [item.get("output") for item in await session.get_items()]
            assert f"{WHOLE} in Lisbon" in outputs
            counts = [item.metadata for item in session._items.list()]
            assert counts.count({"replaced_characters": 1}) == 1

    asyncio.run(work())


def test_a_conversation_of_pydantic_ai_is_saved(tmp_path):
    """With the output of its tool."""

    async def work():
        store = AlveusConversationStore(tmp_path / "a.db", key="ada")
        agent = PydanticAgent(TestModel(custom_output_text="Noted."))

        @agent.tool_plain
        def weather() -> str:
            """Tell the weather."""
            return HALF

        result = await agent.run(HALF, conversation=Conversation(conversation_id="trip"))
        await store.save(result)
        again = await store.load("trip")
        assert again is not None
        assert WHOLE in repr(again.messages[2])
        store.close()

    asyncio.run(work())


def test_half_a_character_in_a_name_of_pydantic_ai_is_one_replacement():
    """What a tool was called with; pydantic itself makes three characters of it, uncounted."""

    async def work():
        with Memory.open(embedder="words") as memory:
            store = AlveusConversationStore(memory)
            call = ToolCallPart("sky", {"city \ud83d": "x"})
            entry = ConversationEntry(parent_id=None, message=ModelResponse([call]))
            record = ConversationRecord(conversation_id="trip", head_id=entry.id)
            await store.write_record(record, new_entries=[entry], expected_revision=None)
            (item,) = memory.key(KEY).set(SET).list()
            assert item.value["message"]["parts"][0]["args"] == {"city \ufffd": "x"}
            assert item.metadata == {"replaced_characters": 1}

    asyncio.run(work())


def test_a_session_of_agent_framework_is_kept():
    """Its text and the name of who said it."""

    async def work():
        with Memory.open(embedder="words") as memory:
            history = AlveusHistoryProvider(memory, key="ada")
            message = Message(role="user", contents=[HALF], author_name=HALF)
            await history.save_messages("one", [message])
            (kept,) = await history.get_messages("one")
            assert (kept.text, kept.author_name) == (WHOLE, WHOLE)
            (item,) = memory.key("ada").set("agent_session.one").list()
            assert item.metadata["replaced_characters"] >= 1

    asyncio.run(work())


class State(TypedDict):
    said: str


def test_a_graph_and_a_store_of_langgraph_go_on():
    """LangGraph itself replaces the character in a checkpoint; an item of the store is searched."""
    with Memory.open(embedder="words") as memory:
        graph = cast("Any", StateGraph(State))
        graph.add_node("answer", lambda _: {"said": HALF})
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        compiled = graph.compile(checkpointer=AlveusSaver(memory))
        config: Any = {"configurable": {"thread_id": "t"}}
        assert compiled.invoke({"said": HALF}, config)["said"] == HALF
        assert compiled.get_state(config).values["said"] == "Rain ?"
        store = AlveusStore(memory)
        store.put(("users", "ada"), "sky", {"text": HALF})
        item = store.get(("users", "ada"), "sky")
        assert item is not None
        assert item.value == {"text": WHOLE}
        assert [one.key for one in store.search(("users",), query=f"{HALF} rain")] == ["sky"]
        for asked in ({"text": HALF}, {"text": {"$eq": HALF}}):
            assert [one.key for one in store.search(("users",), filter=asked)] == ["sky"]


def test_anthropics_tool_says_how_many_characters_it_replaced():
    """A file has the texts that can be stored; the same text finds its place again."""
    with Memory.open(embedder="words") as memory:
        tool = AlveusMemoryTool(memory, key="ada")
        path = "/memories/sky.md"
        create = BetaMemoryTool20250818CreateCommand(command="create", path=path, file_text=HALF)
        assert "1 character was no valid text" in str(tool.create(create))
        replace = BetaMemoryTool20250818StrReplaceCommand(
            command="str_replace", path=path, old_str=HALF, new_str=HALF * 2
        )
        assert "2 characters were no valid text" in str(tool.str_replace(replace))
        insert = BetaMemoryTool20250818InsertCommand(
            command="insert", path=path, insert_line=1, insert_text=HALF
        )
        assert "1 character was" in str(tool.insert(insert))
        item = memory.key("ada").set("memories").get(path)
        assert item is not None
        assert item.value == f"{WHOLE * 2}\n{WHOLE}\n"


def remembering(request_id):
    """Return a call of `remember`, as JSON with half of a surrogate pair."""
    call = {"name": "remember", "arguments": {"text": HALF}}
    told = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": call}
    return json.dumps(told)


def test_mcp_reads_a_line_with_half_a_character(tmp_path):
    """Which its own library does not: the answer says how many characters were replaced."""
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    client = {"clientInfo": {"name": HALF, "version": HALF}}
    hello = {**HELLO, "params": {**HELLO["params"], **client}}
    lines = [json.dumps(hello), json.dumps(ready), remembering(7)]
    done = subprocess.run(
        command(tmp_path), input="\n".join(lines) + "\n", capture_output=True, text=True,
        timeout=LIMIT_S, check=True, encoding="utf-8",
    )  # fmt: skip
    answers = {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert "serverInfo" in answers[HELLO["id"]]["result"]
    assert "1 character was no valid text" in answers[7]["result"]["content"][0]["text"]
    with Memory.open(tmp_path / "memory.db", embedder="words") as memory:
        assert memory.key("ada").list()[0].text == WHOLE


def test_mcp_reads_a_body_with_half_a_character():
    """The same over HTTP."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with Memory.open(embedder="words") as memory, served_here(memory) as url:
        with httpx2.Client(headers=headers, timeout=LIMIT_S) as client:
            hello = client.post(url, json=HELLO)
            more = {"Mcp-Session-Id": hello.headers.get("mcp-session-id", "")}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            client.post(url, json=ready, headers=more)
            answer = client.post(url, content=remembering(7), headers=more)
        assert "1 character was no valid text" in answer.text
        assert memory.key("ada").list()[0].text == WHOLE
