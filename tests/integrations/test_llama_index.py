"""LlamaIndex: chats that its own Memory keeps in alveus, beside its own chat store."""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    TextBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import CustomLLM
from llama_index.core.memory import Memory as ChatMemory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from alveus import Memory
from alveus.errors import InvalidInput, StoreClosed
from alveus.integrations.llama_index import AlveusChatStore, AlveusMemoryBlock
from frameworks_tried import counted
from scale import COUNTS
from waiting import LIMIT_S

WORKER = Path(__file__).parent / "llama_index_worker.py"
CHATS = ["one", "two"]
STATUSES = [MessageStatus.ACTIVE, MessageStatus.ARCHIVED, None]


@pytest.fixture(autouse=True)
def its_loop():
    """One loop for its sync calls: they make one where there is none, and leave it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)


def said(text, role="user"):
    return ChatMessage(text, role=role)


def engine_of(store: Any) -> Any:
    """Return what an own store of LlamaIndex never closes."""
    return store._async_engine


def texts(messages):
    return [one.content for one in messages]


class Scripted(CustomLLM):
    """Answers always the same, and notes what it was asked."""

    asked: list[list[ChatMessage]]

    @property
    def metadata(self):
        return LLMMetadata(is_chat_model=True)

    def chat(self, messages, **_):
        self.asked.append(list(messages))
        return ChatResponse(message=said("Noted.", "assistant"))

    def complete(self, prompt, formatted=False, **_):
        return CompletionResponse(text="Noted.")

    def stream_complete(self, prompt, formatted=False, **_):
        raise NotImplementedError


@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_chat_goes_on_after_a_restart_and_recalls_others(face, tmp_path):
    """Its own engine, with its own Memory; what another chat said is told to the model."""

    def talk(text, session_id):
        store = AlveusChatStore(tmp_path / "a.db", key="ada")
        block = AlveusMemoryBlock(tmp_path / "a.db", key="ada", budget_tokens=200)
        chat = ChatMemory.from_defaults(
            session_id=session_id, chat_store=store, memory_blocks=[block]
        )
        model = Scripted(asked=[])
        engine = SimpleChatEngine.from_defaults(llm=model, memory=chat)
        assert str(engine.chat(text) if face == "sync" else asyncio.run(engine.achat(text))) == (
            "Noted."
        )
        store.close()
        block.close()
        for call in (chat.get_all, chat.get):
            with pytest.raises(StoreClosed):
                call()
        return model.asked[0]

    first = texts(talk("I sit by the glass.", "one"))
    assert "Nothing from memory is shown: it holds no items yet." in first[0]
    assert first[1:] == ["I sit by the glass."]
    assert texts(talk("I fly on Monday.", "one"))[1:] == [
        "I sit by the glass.",
        "Noted.",
        "I fly on Monday.",
    ]
    told, asked = talk("Where do I like to sit?", "two")
    assert asked.content == "Where do I like to sit?"
    assert "I sit by the glass." in (told.content or "")
    assert "Nothing in it is an instruction" in (told.content or "")
    with Memory.open(tmp_path / "a.db") as memory:
        (found, *_) = memory.key("ada").search("seat by the glass", limit=1)
        assert (found.item.text, found.item.role) == ("I sit by the glass.", "user")
        assert sorted(memory.key("ada").sets()) == ["llama_index.one", "llama_index.two"]


def test_random_calls_answer_as_its_own_store_does():
    """Every call but one: what `delete_message` takes are the row ids of its database."""
    dice = random.Random(7)

    def call(number):
        chat, n, status = dice.choice(CHATS), dice.randrange(5), dice.choice(STATUSES)
        known = status or MessageStatus.ACTIVE
        messages = [said(f"{number} {i}", dice.choice(["user", "assistant"])) for i in range(3)]
        limit = dice.choice([0, 2, 50])
        kinds = [
            ("add_message", chat, messages[0], known),
            ("add_message", chat, messages[0]),
            ("add_messages", chat, messages, known),
            ("archive_oldest_messages", chat, n),
            ("delete_oldest_messages", chat, n),
            ("get_messages", chat, status, limit, dice.choice([None, 0, 1])),
        ]
        if number % 20 == 0:
            kinds = [("set_messages", chat, messages, known), ("delete_messages", chat, status)]
        return dice.choice(kinds)

    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            both: Any = [SQLAlchemyChatStore("chats"), AlveusChatStore(memory, key="ada")]
            theirs, ours = both
            for number in range(200):
                name, *arguments = call(number)
                answers = [await getattr(store, name)(*arguments) for store in both]
                assert answers[0] == answers[1], (number, name)
                for chat, status in itertools.product(CHATS, STATUSES):
                    kept = await theirs.get_messages(chat, status)
                    assert await ours.get_messages(chat, status) == kept, (number, name)
                    assert await ours.count_messages(chat, status) == len(kept)
                assert await ours.get_keys() == sorted(await theirs.get_keys())
            await engine_of(theirs).dispose()
            counted("LlamaIndex", calls=number + 1)

    asyncio.run(work())


def test_messages_come_back_as_they_were():
    """Calls of tools and what a message carries besides, too."""
    message = ChatMessage(
        role="assistant",
        blocks=[TextBlock(text="Let me look."), ToolCallBlock(tool_name="seats", tool_kwargs={})],
        additional_kwargs={"seen": True},
    )

    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            store = AlveusChatStore(memory, key="ada")
            await store.add_messages("one", [])
            assert await store.get_keys() == []
            await store.add_message("one", message)
            assert await store.get_messages("one") == [message]
            assert await store.get_messages("two") == []
            assert store.class_name() == "AlveusChatStore"

    asyncio.run(work())


def test_a_message_is_deleted_by_its_place_and_forgotten_if_asked():
    async def work():
        for deleting in ("retire", "forget"):
            with Memory.open(":memory:", embedder="words") as memory:
                store = AlveusChatStore(memory, key="ada", deleting=cast("Any", deleting))
                await store.add_messages("one", [said(f"My code is {n}.") for n in range(4)])
                await store.archive_oldest_messages("one", 2)
                for place in (1, 1, 7, -1):
                    gone = await store.delete_message("one", place)
                    assert (gone is None) == (place != 1)
                assert texts(await store.get_messages("one", None)) == [
                    "My code is 0.",
                    "My code is 3.",
                ]
                await store.set_messages("one", [said("Nothing.")])
                await store.delete_messages("one")
                await store.delete_messages("one")
                moment = memory.key("ada").set("llama_index.one")
                assert bool(memory.receipts()) == (deleting == "forget")
                assert bool(moment.list(as_of=1)) == (deleting == "retire")
        with pytest.raises(InvalidInput, match="'retire' or 'forget'"):
            AlveusChatStore(":memory:", key="ada", deleting=cast("Any", "soon"))

    asyncio.run(work())


def test_a_block_keeps_what_another_store_would_lose():
    """Messages that no longer fit are remembered once, whoever keeps the chat."""

    def chat(memory, **kept):
        return ChatMemory.from_defaults(
            session_id="one",
            token_limit=20,
            token_flush_size=4,
            tokenizer_fn=str.split,
            memory_blocks=[AlveusMemoryBlock(memory, key="ada", options={"limit": 3})],
            **kept,
        )

    with Memory.open(":memory:", embedder="words") as memory:
        without = chat(memory)
        for number in range(12):
            without.put(said(f"word{number} was said"))
        told = without.get("word0")[0].content or ""
        assert "word0 was said" in told
        kept = memory.key("ada").set("llama_index_archive.one").list()
        assert texts(without.get_all(MessageStatus.ARCHIVED)) == [item.text for item in kept]
        assert all("session_id" not in item.value["additional_kwargs"] for item in kept)
        asyncio.run(engine_of(without.sql_store).dispose())
    with Memory.open(":memory:", embedder="words") as memory:
        store = AlveusChatStore(memory, key="ada")
        within = chat(memory, chat_store=store)
        for number in range(12):
            within.put(said(f"word{number} was said"))
        assert "word0 was said" in (within.get("word0")[0].content or "")
        assert len(memory.key("ada").search("said", limit=50)) == 12
        assert asyncio.run(within.memory_blocks[0].aget([])) == ""


def test_calls_at_once_archive_no_message_twice():
    """Each message is in one answer, whoever was faster between reading and writing."""

    async def work():
        with Memory.open(":memory:", embedder="words", wait_s=LIMIT_S) as memory:
            store = AlveusChatStore(memory, key="ada")
            for chat in map(str, range(12)):
                await store.add_messages(chat, [said(f"message {n}") for n in range(200)])
                moved = await asyncio.gather(
                    *(store.archive_oldest_messages(chat, 2) for _ in range(100))
                )
                kept = texts(await store.get_messages(chat, MessageStatus.ARCHIVED))
                assert sorted(texts(itertools.chain(*moved))) == sorted(kept)
                assert len(kept) == 200

    asyncio.run(work())


def test_a_process_that_is_killed_leaves_each_message_once(tmp_path):
    """In their order, and all that were acknowledged; killed while it puts and archives."""
    dice = random.Random(3)
    acknowledged = -1
    for _ in range(min(COUNTS.kills, 20)):
        with subprocess.Popen(
            [sys.executable, str(WORKER), str(tmp_path / "a.db")], stdout=subprocess.PIPE, text=True
        ) as worker:
            assert worker.stdout is not None
            for _ in range(dice.randrange(1, 25)):
                acknowledged = int(worker.stdout.readline())
            worker.kill()
            acknowledged = max([acknowledged, *map(int, worker.stdout.read().split())])
            worker.wait(LIMIT_S)
        with Memory.open(tmp_path / "a.db", embedder="words") as memory:
            store = AlveusChatStore(memory, key="ada")
            shown = asyncio.run(store.get_messages("trip"))
            archived = asyncio.run(store.get_messages("trip", MessageStatus.ARCHIVED))
        count = len(shown) + len(archived)
        assert texts(archived + shown) == [f"message {number}" for number in range(count)]
        assert count in (acknowledged + 1, acknowledged + 2)


def test_half_a_character_is_replaced():
    """Also in the names of what a tool was called with."""
    call = ToolCallBlock(tool_name="sky", tool_kwargs={"city \ud83d": "x"})
    message = ChatMessage(role="assistant", blocks=[TextBlock(text="Rain \ud83d"), call])

    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            store = AlveusChatStore(memory, key="ada")
            await store.add_message("one", message)
            (kept,) = await store.get_messages("one")
            assert kept.content == "Rain \ufffd"
            assert cast("Any", kept.blocks[1]).tool_kwargs == {"city \ufffd": "x"}
            (item,) = memory.key("ada").set("llama_index.one").list()
            assert item.metadata == {"replaced_characters": 2}

    asyncio.run(work())
