"""Thoughts of models: in no conversation, prompt or search; back where a protocol needs them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Content
from agent_framework import Message as FrameworkMessage
from click.testing import CliRunner
from pydantic_ai.conversation_store import ConversationEntry
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    UserPromptPart,
)

from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, ScriptedChat, action
from alveus.agents.messages import Msg
from alveus.agents.windows import Observation, Reply, Stream
from alveus.cli import alveus
from alveus.integrations.agent_framework import AlveusHistoryProvider
from alveus.integrations.langgraph import AlveusStore
from alveus.integrations.openai_agents import AlveusSession
from alveus.integrations.pydantic_ai import _item
from alveus.llm import text_said
from alveus.memory.keys import KeyMemory
from alveus.runs.task import RunnerContext
from alveus.testing import ChatServer
from alveus.text.messages import Message
from alveus.transfer import Target, import_file

UNSAID = "Zanzibar"
"""A word that is thought, and said by nobody."""

TOLD = "Lisbon it is."
QUESTION = {"role": "user", "content": "Where does Ada live?"}

TAGGED = [
    f"<think>{UNSAID}, I guess.</think>\n\n{TOLD}",
    f"{UNSAID}, I guess.\n</think>\n\n{TOLD}",
    f"[THINK]{UNSAID}[/THINK]{TOLD}",
    f"<|channel|>analysis<|message|>{UNSAID}<|end|><|start|>assistant<|channel|>final<|message|>"
    + TOLD,
    f"{TOLD}\n<think>\n{UNSAID}",
]

UNSIGNED = [
    {"reasoning_content": f"{UNSAID}, I guess."},
    {"reasoning": f"{UNSAID}, I guess."},
    {"thinking": f"{UNSAID}, I guess."},
    {"content": [{"type": "thinking", "thinking": UNSAID}, {"type": "text", "text": TOLD}]},
    {"content": [{"type": "reasoning", "text": UNSAID}, {"type": "text", "text": TOLD}]},
    {"content": [{"text": UNSAID, "thought": True}, {"text": TOLD}]},
    {"content": [{"type": "text", "text": TAGGED[0]}]},
    {"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": UNSAID}]},
        {"type": "text", "text": TOLD},
    ]},
]  # fmt: skip

SIGNED = [
    {"type": "thinking", "thinking": UNSAID, "signature": "EqQB"},
    {"type": "redacted_thinking", "data": f"{UNSAID}+"},
    {"type": "reasoning", "text": UNSAID, "signature": "x"},
    {"text": UNSAID, "thought": True, "thought_signature": "Ab"},
    {"reasoningContent": {"reasoningText": {"text": UNSAID, "signature": "c2ln"}}},
]


@pytest.fixture
def ada() -> Any:
    """A key of a memory in RAM."""
    with Memory.open(embedder="words") as memory:
        yield memory.key("ada")


def shown(ada: KeyMemory, name: str) -> str:
    """Return all that a prompt, a search and learning make of a conversation."""
    talk = ada.conversation(name)
    prompts = [
        ada.context("Where does Ada live?", budget_tokens=2_000, messages=name).messages,
        ada.context(UNSAID, budget_tokens=2_000).messages[:-1],
        talk.messages(for_chat=True),
    ]
    asked = ScriptedChat(['{"facts": []}'] * 3)
    ada.learn(talk, model=asked)
    found = [hit.item.text for hit in talk.search(UNSAID)]
    summed = talk.compress(keep_recent=0).summary
    return json.dumps([prompts, [one.messages for one in asked.requests], found, summed])


@pytest.mark.parametrize("answer", TAGGED)
@pytest.mark.parametrize("role", ["assistant", "Assistant", "ai"])
def test_a_conversation_keeps_no_thoughts_of_a_model(
    ada: KeyMemory, answer: str, role: str
) -> None:
    """Thoughts between marks are cut off as the message is added, whoever adds it."""
    talk = ada.conversation("chat")
    talk.add([QUESTION, {"role": role, "content": answer}, QUESTION])
    assert talk.get_memory()[1]["content"] == TOLD
    assert UNSAID not in json.dumps([talk.get_memory(), talk.messages(), talk.state_dict()])
    assert UNSAID not in repr(ada.set("chat").list())
    assert TOLD in shown(ada, "chat")
    assert UNSAID not in shown(ada, "chat")
    talk.load_state_dict({"content": [[{"role": role, "content": answer}, []]]})
    assert UNSAID not in json.dumps(talk.state_dict())


@pytest.mark.parametrize("message", UNSIGNED, ids=str)
def test_thoughts_beside_an_answer_are_not_kept(ada: KeyMemory, message: dict[str, Any]) -> None:
    """Fields and parts for thoughts that no server asks for are left out."""
    talk = ada.conversation("chat")
    talk.add([QUESTION, {"role": "assistant", "content": TOLD, **message}])
    assert UNSAID not in json.dumps([talk.get_memory(), talk.messages(), talk.state_dict()])
    assert UNSAID not in shown(ada, "chat")
    assert TOLD in shown(ada, "chat")


@pytest.mark.parametrize("part", SIGNED, ids=str)
def test_signed_thoughts_come_back_as_they_were(ada: KeyMemory, part: dict[str, Any]) -> None:
    """A server refuses its own message without them; they are no text, and nobody reads them."""
    said = {"role": "assistant", "content": [part, {"type": "text", "text": TOLD}]}
    talk = ada.conversation("chat")
    talk.add([QUESTION, said])
    assert talk.get_memory()[1]["content"] == said["content"]
    text = ada.set("chat").list()[1].text
    assert text == TOLD
    assert UNSAID not in shown(ada, "chat")


@pytest.mark.parametrize("answer", [*TAGGED, f"I typed <think>{UNSAID}</think>."])
@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_what_others_say_stays_as_it_is(ada: KeyMemory, answer: str, role: str) -> None:
    """A user's text with marks is the user's own words."""
    talk = ada.conversation("chat")
    talk.add({"role": role, "content": answer, "reasoning": "mine"})
    (kept,) = talk.get_memory()
    assert (kept["content"], kept["reasoning"]) == (answer, "mine")
    assert ada.set("chat").list()[0].text == answer
    assert text_said(role, answer) == answer


def test_an_action_keeps_no_thoughts() -> None:
    """The conversation of an action is the same door."""

    class Chat(Agent):
        @action(InputEvent)
        def answer(self, _: InputEvent, ctx: RunnerContext) -> None:
            talk = ctx.long_term_memory.conversation("chat")
            talk.add({"role": "assistant", "content": TAGGED[0]})
            ctx.send_event(OutputEvent(talk.get_memory()[0]["content"]))

    with Memory.open(embedder="words") as opened, LocalRunner(Chat(), opened) as runner:
        assert list(runner.handle("ada", 1)) == [TOLD]
        assert opened.key("ada").conversation("chat").get_memory()[0]["content"] == TOLD


def test_a_window_and_a_message_tell_no_thoughts(ada: KeyMemory) -> None:
    """What a program hands over as a reply is told to the model without its thoughts."""
    window = Stream(memory=ada)
    window.commit(Observation("Where?", Reply(Message(TAGGED[0], "assistant"))))
    told = repr(window.context(Message("And?", "user")))
    assert TOLD in told
    assert UNSAID not in told + repr(ada.search(UNSAID))
    assert Msg("Bot", TAGGED[0]).to_chat()["content"] == TOLD
    assert Msg("Ada", TAGGED[0], role="user").to_chat()["content"] == TAGGED[0]


# --- integrations -------------------------------------------------------------------------------


def test_a_session_of_the_agents_sdk_returns_reasoning_and_searches_none(ada: KeyMemory) -> None:
    """The SDK needs its reasoning items back, next to the items that they belong to."""
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": UNSAID}],
        "content": [{"type": "reasoning_text", "text": UNSAID}],
        "encrypted_content": "gAAA",
    }
    parts = [{"type": "output_text", "text": TAGGED[0], "annotations": []}]
    items = [
        {"role": "user", "content": f"Not {UNSAID}?"},
        reasoning,
        {"type": "message", "id": "m1", "role": "assistant", "content": parts},
        {"role": "assistant", "content": TAGGED[1]},
    ]
    with Memory.open(embedder="words") as memory:
        session = AlveusSession("s1", memory)
        asyncio.run(session.add_items(items))
        assert asyncio.run(session.get_items()) == items
        name = "session.s1"
        (key,) = [memory.key(key) for key in [*memory.keys()] if name in memory.key(key).sets()]
        texts = [item.text for item in key.set(name).list()]
        assert texts == [f"Not {UNSAID}?", "", TOLD, TOLD]
        told = key.context("Where?", budget_tokens=2_000, messages=name).messages
        assert "I guess" not in json.dumps(told)


def test_a_conversation_of_pydantic_ai_returns_thoughts_and_searches_none() -> None:
    """A thinking part has a signature that its provider needs."""
    said = [
        ModelRequest(parts=[UserPromptPart("Where?")]),
        ModelResponse(parts=[ThinkingPart(UNSAID, signature="x"), TextPart(TAGGED[0])]),
    ]

    entries = [
        ConversationEntry(id=str(at), parent_id=None, message=m) for at, m in enumerate(said)
    ]
    items = [_item(entry) for entry in entries]
    assert [item.text for item in items] == ["Where?", TOLD]
    kept = [item.value["message"] for item in items]
    assert ModelMessagesTypeAdapter.validate_python(kept) == said


def test_a_history_of_agent_framework_returns_thoughts_and_searches_none() -> None:
    """Reasoning is a content of its own there, and tags are text."""
    contents = [Content.from_text_reasoning(text=UNSAID), Content.from_text(TAGGED[0])]
    said = FrameworkMessage(role="assistant", contents=contents, message_id="m1")
    with Memory.open(embedder="words") as memory:
        history = AlveusHistoryProvider(memory, key="ada")
        asyncio.run(history.save_messages("s", [said]))
        (back,) = asyncio.run(history.get_messages("s"))
        assert back.to_dict() == said.to_dict()
        (name,) = memory.key("ada").sets()
        (item,) = memory.key("ada").set(name).list()
        assert item.text == TOLD


def test_a_store_of_langgraph_searches_no_thoughts() -> None:
    """A value is returned as it was; messages in it are searched by what they say."""
    value = {
        "messages": [
            {"type": "human", "content": "Where?"},
            {
                "type": "ai",
                "content": TAGGED[0],
                "additional_kwargs": {"reasoning_content": UNSAID},
            },
            {"type": "ai", "content": [SIGNED[0], {"type": "text", "text": TOLD}]},
        ],
        "reasoning": "a field of the program's own",
    }
    with Memory.open(embedder="words") as memory:
        store = AlveusStore(memory)
        store.put(("talk",), "one", value)
        found = store.get(("talk",), "one")
        assert found is not None
        assert found.value == value
        texts = [
            item.text or ""
            for key in [*memory.keys()]
            for name in memory.key(key).sets()
            for item in memory.key(key).set(name).list()
        ]
        assert any(TOLD in text and "program's own" in text for text in texts)
        assert UNSAID not in repr(texts)


# --- imports, and the chat ----------------------------------------------------------------------


def test_an_import_leaves_thoughts_out(tmp_path: Path) -> None:
    """Of messages of a model; what was left out is counted."""
    lines = [
        {"role": "user", "content": f"I typed <think>{UNSAID}</think>"},
        {"role": "assistant", "content": TAGGED[0], "reasoning_content": f"{UNSAID} I guess"},
        {"role": "assistant", "content": [SIGNED[0], {"type": "text", "text": TOLD}]},
    ]
    path = tmp_path / "chat.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    with Memory.open(embedder="words") as memory:
        key = memory.key("ada")
        report = import_file(memory, path, target=Target("ada"))
        assert "thought" in repr(report)
        items = [item for name in key.sets() for item in key.set(name).list()]
        assert sorted(item.text or "" for item in items) == sorted(
            [f"I typed <think>{UNSAID}</think>", TOLD, TOLD]
        )
        assert repr([item.metadata for item in items]).count(UNSAID) == 0


def test_the_chat_of_the_command_line_keeps_the_answer(tmp_path: Path) -> None:
    """It shows an answer as it comes, and keeps no thoughts, if only their end is marked too."""
    path = tmp_path / "m.db"
    with ChatServer([TAGGED[1]]) as server:
        asked = ["--model", "m", "--base-url", server.url]
        run = CliRunner().invoke(
            alveus,
            ["--db", str(path), "--embedder", "words", "chat", "--key", "ada", *asked],
            input="Where?\n",
            env={"OPENAI_API_KEY": "any"},
        )
    assert run.exit_code == 0, run.output
    assert TOLD in run.output
    with Memory.open(path, embedder="words") as memory:
        said = memory.key("ada").conversation("chat").get_memory()
        assert [one["content"] for one in said] == ["Where?", TOLD]
