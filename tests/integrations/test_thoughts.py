"""Thoughts of models in frameworks that need a Python environment of their own."""

from __future__ import annotations

import asyncio

from agentscope.message import Msg, TextBlock, ThinkingBlock
from google.adk.events.event import Event
from google.genai import types
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.base.llms.types import TextBlock as LlamaText
from llama_index.core.base.llms.types import ThinkingBlock as LlamaThinking

from alveus import Memory
from alveus.integrations.agentscope_middleware import _item as agentscope_item
from alveus.integrations.google_adk import AlveusMemoryService
from alveus.integrations.llama_index import AlveusChatStore

UNSAID = "Zanzibar"
TOLD = "Lisbon it is."
TAGGED = f"<think>{UNSAID}, I guess.</think>\n\n{TOLD}"


def test_the_memory_of_the_adk_has_no_thoughts() -> None:
    """What it finds is told to a model: parts that are thoughts are left out, and tags."""
    parts = [types.Part(text=UNSAID, thought=True), types.Part(text=TAGGED)]
    said = Event(id="e1", author="bot", content=types.Content(role="model", parts=parts))
    only = types.Content(role="model", parts=parts[:1])
    thought = Event(id="e2", author="bot", content=only)
    asks = types.Content(role="user", parts=[types.Part(text=f"<think>{UNSAID}</think>")])
    asked = Event(id="e3", author="user", content=asks)
    with Memory.open(embedder="words") as memory:
        service = AlveusMemoryService(memory)
        asyncio.run(
            service.add_events_to_memory(
                app_name="a", user_id="ada", events=[said, thought, asked], session_id="s"
            )
        )
        found = asyncio.run(
            service.search_memory(app_name="a", user_id="ada", query=f"{TOLD} {UNSAID}")
        )
        texts = {one.id: [part.text for part in one.content.parts or ()] for one in found.memories}
        assert texts == {"e1": [TOLD], "e3": [f"<think>{UNSAID}</think>"]}


def test_a_chat_of_llama_index_returns_thoughts_and_searches_none() -> None:
    """A thinking block comes back as it was."""
    blocks = [LlamaThinking(content=UNSAID), LlamaText(text=TAGGED)]
    said = ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks)
    with Memory.open(embedder="words") as memory:
        store = AlveusChatStore(memory, key="ada")
        asyncio.run(store.add_messages("s", [said]))
        assert asyncio.run(store.get_messages("s")) == [said]
        texts = [
            item.text
            for key in [*memory.keys()]
            for name in memory.key(key).sets()
            for item in memory.key(key).set(name).list()
        ]
        assert texts == [TOLD]


def test_a_message_of_agentscope_is_searched_without_thoughts() -> None:
    """Its value is as it was."""
    content = [ThinkingBlock(thinking=UNSAID), TextBlock(text=TAGGED)]
    said = Msg(name="bot", role="assistant", content=content)
    item = agentscope_item(said, "s")
    assert item.text == TOLD
    assert item.value == said.model_dump(mode="json")
