"""Conversations of PydanticAI: with its agents, and beside its own store in RAM."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    InMemoryConversationStore,
)
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from alveus import Memory
from alveus.errors import InvalidInput, StoreClosed
from alveus.integrations.pydantic_ai import KEY, AlveusConversationStore
from frameworks_tried import counted


async def loaded(store, conversation_id):
    """Return a conversation that is there."""
    conversation = await store.load(conversation_id)
    assert conversation is not None
    return conversation


def said(messages):
    """Return what users and models said."""
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if isinstance(part, (UserPromptPart, TextPart))]


def test_a_conversation_goes_on_after_a_restart(tmp_path):
    """An agent has its messages, calls of tools included; what was said is searched."""

    async def turn(prompt):
        store = AlveusConversationStore(tmp_path / "a.db", key="ada")
        agent = Agent(TestModel(custom_output_text="Noted."))

        @agent.tool_plain
        def weather(city: str) -> str:
            """Tell the weather."""
            return f"Rain in {city}."

        conversation = await store.load("trip") or Conversation(conversation_id="trip")
        result = await agent.run(prompt, conversation=conversation)
        entries = await store.save(result)
        again = await loaded(store, "trip")
        assert again.messages == result.all_messages()
        assert again.usage == result.conversation.usage
        store.close()
        with pytest.raises(StoreClosed):
            await store.load("trip")
        return len(entries), said(result.all_messages())

    first = asyncio.run(turn("I sit by the glass."))
    assert first == (4, ["I sit by the glass.", "Noted."])
    second = asyncio.run(turn("Where do I sit?"))
    assert second[1] == ["I sit by the glass.", "Noted.", "Where do I sit?", "Noted."]
    with Memory.open(tmp_path / "a.db") as memory:
        hits = memory.key("ada").search("seat by the glass")
        assert hits[0].item.text == "I sit by the glass."


def test_of_two_that_go_on_one_is_told(tmp_path):
    """Nothing of the other is stored."""

    async def use(memory):
        store = AlveusConversationStore(memory)
        agent = Agent(TestModel(custom_output_text="Hi."))
        await store.save(await agent.run("Hello", conversation=Conversation(conversation_id="c")))
        one, two = await store.load("c"), await store.load("c")
        results = [await agent.run(text, conversation=c) for text, c in (("A", one), ("B", two))]
        saved = await asyncio.gather(*map(store.save, results), return_exceptions=True)
        assert [isinstance(answer, ConversationConflict) for answer in saved].count(True) == 1
        return said((await loaded(store, "c")).messages), len(memory.key(KEY).set("pydantic_ai"))

    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        told, count = asyncio.run(use(memory))
    assert told in (["Hello", "Hi.", "A", "Hi."], ["Hello", "Hi.", "B", "Hi."])
    assert count == 4


async def outcome(call):
    """Return what a call of a store answers, without what is made up at random."""
    try:
        answer = await call
    except (ConversationConflict, LookupError) as error:
        return type(error).__name__ if isinstance(error, ConversationConflict) else "LookupError"
    if isinstance(answer, ConversationEntry):
        return (answer.id, answer.parent_id, answer.message)
    return answer


def message(dice, number):
    """Make up a message."""
    text = dice.choice(["one", "two", "", "three\nlines\n…"])
    if dice.random() < 0.5:
        return ModelRequest(parts=[UserPromptPart(content=f"{text}{number}")])
    return ModelResponse(parts=[TextPart(content=f"{text}{number}")])


@pytest.mark.parametrize("deleting", ["retire", "forget"])
def test_it_answers_as_the_store_in_ram(tmp_path, deleting):
    """Random reads, writes and deletions have the same answers from PydanticAI's own store."""
    dice = random.Random(11)

    async def both(ours, theirs, call):
        answers = [await outcome(call(store)) for store in (ours, theirs)]
        assert answers[0] == answers[1]
        return answers[0]

    async def walk(ours, theirs):
        entry_ids: list[str] = []
        for number in range(150):
            name = dice.choice(["a", "b.c", "d e"])
            stored = await both(ours, theirs, lambda store, name=name: store.read_record(name))
            revision = dice.choice([getattr(stored, "revision", None)] * 4 + [None, "other"])
            if dice.random() < 0.2 and revision is not None:
                await both(
                    ours,
                    theirs,
                    lambda store, name=name, revision=revision: store.delete_record(
                        name, expected_revision=revision
                    ),
                )
                continue
            tips = [one.head_id for one in await theirs.read_records()]
            parent, new = dice.choice([getattr(stored, "head_id", None), *tips]), []
            for _ in range(dice.randrange(3)):
                new.append(ConversationEntry(parent_id=parent, message=message(dice, number)))
                parent = new[-1].id
            record = ConversationRecord(
                conversation_id=name,
                head_id=parent,
                scope=dice.choice([None, "x"]),
                branches=[t for t in [getattr(stored, "head_id", None)] if t],
            )
            await both(
                ours,
                theirs,
                lambda store, record=record, new=new, revision=revision: store.write_record(
                    record, new_entries=new, expected_revision=revision
                ),
            )
            entry_ids += [entry.id for entry in new]
            for scope, limit in ((None, None), ("x", 2)):
                await both(
                    ours,
                    theirs,
                    lambda store, scope=scope, limit=limit: store.read_records(
                        scope=scope, limit=limit
                    ),
                )
        for one in entry_ids:
            await both(ours, theirs, lambda store, one=one: store.read_entry(one))
        counted("PydanticAI", calls=number + 1)

    with Memory.open(tmp_path / "a.db", embedder="words", durability="normal") as memory:
        store = AlveusConversationStore(memory, deleting=deleting)
        asyncio.run(walk(store, InMemoryConversationStore()))
        with pytest.raises(InvalidInput):
            AlveusConversationStore(memory, deleting=cast("Any", "hide"))


def test_branches_forks_and_deletion(tmp_path):
    """What a conversation left stays readable; a deleted one that was forgotten leaves nothing."""

    def answer(messages, _):
        return ModelResponse(parts=[TextPart(content=f"to {len(messages)}")])

    async def use(memory):
        store = AlveusConversationStore(memory, deleting="forget")
        agent = Agent(FunctionModel(answer))
        conversation = Conversation(conversation_id="c")
        for prompt in ("one", "two"):
            result = await agent.run(prompt, conversation=conversation)
            await store.save(result)
            conversation = await loaded(store, "c")
        history = await store.load_entries("c", limit=3)
        assert history is not None
        assert said(entry.message for entry in history) == ["to 1", "two", "to 3"]
        await store.fork("c", new_conversation_id="d")
        await store.delete("c")
        assert await store.load("c") is None
        assert said((await loaded(store, "d")).messages) == ["one", "to 1", "two", "to 3"]
        await store.delete("d")
        assert await store.read_records() == []
        with pytest.raises(LookupError):
            await store.read_entry(history[0].id)
        return history[0].id

    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        entry_id = asyncio.run(use(memory))
        assert memory.key(KEY).set("pydantic_ai").history(entry_id) == []
