"""Sessions of the OpenAI Agents SDK: with its runner, and beside its own SQLite session."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any, cast

import pytest
from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
)
from agents.memory import Session, SessionSettings
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from alveus import Memory
from alveus.errors import InvalidInput, InvalidName, SessionClosed, StoreClosed
from alveus.integrations.openai_agents import AlveusSession
from frameworks_tried import counted

QUIET = RunConfig(tracing_disabled=True)


def said(text):
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="m", content=[part], role="assistant", status="completed", type="message"
    )


class Scripted(Model):
    """Answers in turn, and notes what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def get_response(self, system_instructions, input, *_, **__):  # noqa: A002 - the SDK's
        self.asked.append(input)
        return ModelResponse(output=[self.answers.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city}."


def test_an_agent_remembers_what_was_said_and_called(tmp_path):
    """In another run and another process's place; and the memory finds it."""
    call = ResponseFunctionToolCall(
        arguments='{"city": "Lisbon"}', call_id="c1", name="weather", type="function_call"
    )

    async def talk(text, *answers):
        session = AlveusSession("trip-1", tmp_path / "app.db", key="ada")
        assert isinstance(session, Session)
        model = Scripted(*answers)
        agent = Agent(name="guide", model=model, tools=[weather])
        made = await Runner.run(agent, text, session=session, run_config=QUIET)
        session.close()
        return made.final_output, model.asked

    asyncio.run(talk("How is Lisbon?", call, said("It rains.")))
    output, asked = asyncio.run(talk("And tomorrow?", said("Rain again.")))
    assert output == "Rain again."
    kinds = [item.get("type") or item["role"] for item in asked[0]]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user"]
    with Memory.open(tmp_path / "app.db") as memory:
        ada = memory.key("ada")
        assert len(ada.set("session.trip-1")) == 6
        found = ada.search("weather in Lisbon", limit=2)
        assert "Lisbon" in str(found[0].item.text)
        roles = {item.role for item in ada.set("session.trip-1").list()}
        assert roles == {"user", "assistant", None}


def test_random_calls_answer_as_the_sdks_own_session_does():
    dice = random.Random(3)

    async def work():
        theirs = SQLiteSession("s")
        with Memory.open(":memory:", embedder="words") as memory:
            ours = AlveusSession("s", memory)
            for step in range(200):
                kind = dice.choice(["add"] * 6 + ["get"] * 3 + ["pop"] * 4 + ["clear"])
                said = [f"{step} {number}" for number in range(dice.randrange(4))]
                limit = dice.choice([None, 1, 3, 50])
                answers = []
                for session in cast("list[Any]", [theirs, ours]):
                    if kind == "add":
                        items = [{"role": "user", "content": text} for text in said]
                        answers.append(await session.add_items(items))
                    elif kind == "pop":
                        answers.append(await session.pop_item())
                    elif kind == "clear":
                        answers.append(await session.clear_session())
                    answers.append(await session.get_items(limit))
                half = len(answers) // 2
                assert answers[half:] == answers[:half]
            counted("OpenAI Agents SDK", calls=step + 1)
        theirs.close()

    asyncio.run(work())


def test_no_two_who_pop_get_the_same():
    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            session = AlveusSession("s", memory)
            await session.add_items([{"role": "user", "content": str(n)} for n in range(30)])
            popped = await asyncio.gather(*(session.pop_item() for _ in range(40)))
            texts = [item["content"] for item in popped if item]
            assert sorted(texts, key=int) == [str(n) for n in range(30)]
            assert await session.pop_item() is None

    asyncio.run(work())


def test_clearing_a_session_forgets_if_asked():
    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            ways: Any = (("retire", 0), ("forget", 1))
            for clearing, receipts in ways:
                session = AlveusSession("s", memory, clearing=clearing)
                await session.add_items([{"role": "user", "content": "My code is 1234."}])
                await session.clear_session()
                assert await session.get_items() == []
                assert len(memory.receipts()) == receipts
            with pytest.raises(InvalidInput, match="'retire' or 'forget'"):
                AlveusSession("s", memory, clearing=cast("Any", "soon"))

    asyncio.run(work())


@pytest.mark.parametrize("wrong", ["", None, 7])
def test_a_session_without_an_id_is_refused(tmp_path, wrong):
    """Or all who forgot theirs would share one; an empty key is not the session's id either."""
    with pytest.raises(InvalidName, match="a session's id must be a non-empty str"):
        AlveusSession(wrong, tmp_path / "app.db", key="ada")
    with pytest.raises(InvalidName, match="a key must be a non-empty str"):
        AlveusSession("trip", tmp_path / "app.db", key="" if wrong is None else wrong)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [None, {"role": "user", "content": "A tent."}, ["A tent."]])
def test_what_is_no_list_of_items_is_refused(tmp_path, wrong):
    """Or the names of an item's fields would be taken for items."""

    async def add():
        session = AlveusSession("trip", tmp_path / "app.db")
        try:
            with pytest.raises(InvalidInput, match=r"add_items\(\) needs a list of dicts"):
                await session.add_items(wrong)
            assert await session.get_items() == []
        finally:
            session.close()

    asyncio.run(add())


def test_settings_limit_and_what_is_closed_stays_closed(tmp_path):
    async def work():
        session = AlveusSession("s", tmp_path / "app.db", session_settings=SessionSettings(limit=2))
        await session.add_items([{"role": "user", "content": str(n)} for n in range(5)])
        assert [item["content"] for item in await session.get_items()] == ["3", "4"]
        assert [item["content"] for item in await session.get_items(1)] == ["4"]
        assert await session.get_items(0) == []
        session.close()
        with pytest.raises(StoreClosed):
            await session.get_items()

    asyncio.run(work())


@pytest.mark.parametrize("limit", ["1", 1.0, True, [1]])
def test_a_limit_that_is_no_whole_number_is_refused(memory, limit):
    """The SDK's own session raises an error of Python or of SQLite."""
    session = AlveusSession("s", memory)
    with pytest.raises(InvalidInput, match="limit must be a whole number or None, not"):
        asyncio.run(session.get_items(limit))


def test_settings_of_a_session_may_be_a_dict(tmp_path):
    """The SDK's own sessions take one: its limit is what the model is sent, also with a run's."""

    async def use(session: AlveusSession) -> list[list[Any]]:
        await session.add_items([{"role": "user", "content": str(n)} for n in range(5)])
        shown: list[list[Any]] = [await session.get_items()]
        session.session_settings = {"limit": 2}
        shown.append(await session.get_items())
        for settings in (None, SessionSettings(limit=3), {"limit": 3}):
            model = Scripted(said("Hi."))
            config = RunConfig(tracing_disabled=True, session_settings=settings)
            agent = Agent(name="a", model=model)
            await Runner.run(agent, "now", session=session, run_config=config)  # pyright: ignore[reportArgumentType] - the test fails where it is another type
            shown.append(model.asked[0])
        return shown

    with AlveusSession("s", tmp_path / "app.db", session_settings={"limit": 1}) as session:
        assert [len(items) for items in asyncio.run(use(session))] == [1, 2, 3, 4, 4]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"limt": 1}, "no field 'limt'; its fields are: limit"),
        ({"limit": "many"}, "limit"),
        (7, "must be a SessionSettings, not 7"),
        ([("limit", 1)], "must be a SessionSettings"),
    ],
)
def test_what_are_no_settings_of_a_session_is_refused(memory, settings, says):
    """A typo would send the whole history to the model."""
    with pytest.raises(InvalidInput, match=re.escape(says)):
        AlveusSession("s", memory, session_settings=settings)
    session = AlveusSession("s", memory)
    with pytest.raises(InvalidInput, match=re.escape(says)):
        session.session_settings = settings
    assert session.session_settings == SessionSettings()


def test_every_call_of_a_closed_session_raises_a_runtime_error(tmp_path):
    """Programs of the SDK catch that; also a call that has nothing to do."""
    session = AlveusSession("s", tmp_path / "app.db")
    session.close()
    calls = (
        lambda: session.add_items([]),
        lambda: session.add_items([{"role": "user", "content": "a"}]),
        session.get_items,
        lambda: session.get_items(0),
        session.pop_item,
        session.clear_session,
    )
    for call in calls:
        with pytest.raises(SessionClosed, match="closed") as raised:
            asyncio.run(call())
        assert isinstance(raised.value, RuntimeError)
