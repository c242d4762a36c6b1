"""Google's Agent Development Kit: agents who recall other sessions, beside its own service."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest
from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import preload_memory
from google.genai import types

from alveus import Memory
from alveus.errors import InvalidInput, StoreClosed
from alveus.integrations.google_adk import AlveusMemoryService
from frameworks_tried import counted

ADA: Any = {"app_name": "guide", "user_id": "ada"}


def said(text, *, role="user"):
    return types.Content(role=role, parts=[types.Part(text=text)])


def event(number, text, **given):
    return Event(id=f"e{number}", author="user", content=said(text), timestamp=number, **given)


class Scripted(BaseLlm):
    """Answers always the same, and notes what it was asked."""

    model: str = "scripted"
    asked: list[str]

    async def generate_content_async(self, llm_request, stream=False):
        self.asked.append(str(llm_request.contents))
        yield LlmResponse(content=said("Noted.", role="model"))


def test_an_agent_recalls_another_session_after_a_restart(tmp_path):
    """What its own tool reads from memory is in the instruction of the model."""

    async def talk(text, session_id):
        service, sessions, model = (
            AlveusMemoryService(tmp_path / "a.db"),
            InMemorySessionService(),
            Scripted(asked=[]),
        )
        agent = LlmAgent(name="guide", model=model, tools=[preload_memory])
        runner = Runner(
            app_name="guide", agent=agent, session_service=sessions, memory_service=service
        )
        await sessions.create_session(**ADA, session_id=session_id)
        async for _ in runner.run_async(
            user_id="ada", session_id=session_id, new_message=said(text)
        ):
            pass
        session = await sessions.get_session(**ADA, session_id=session_id)
        assert session
        for _ in range(2):
            await service.add_session_to_memory(session)
        service.close()
        with pytest.raises(StoreClosed):
            await service.search_memory(**ADA, query=text)
        return model.asked[0]

    assert "PAST_CONVERSATIONS" not in asyncio.run(talk("I sit by the glass.", "one"))
    assert "I sit by the glass." in asyncio.run(talk("Where do I sit?", "two"))
    with Memory.open(tmp_path / "a.db") as memory:
        kept = memory.key("google_adk.user:ada").set("google_adk.guide").list()
        assert [(item.text, item.role, item.session) for item in kept] == [
            ("I sit by the glass.", "user", "one"),
            ("Noted.", "assistant", "one"),
            ("Where do I sit?", "user", "two"),
            ("Noted.", "assistant", "two"),
        ]


def test_a_search_gives_what_a_prompt_would_show():
    """A small memory whole, also to a query without a word in common; nothing to a greeting."""

    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            service = AlveusMemoryService(memory)
            events = [event(1, "I am allergic to peanuts."), event(2, "I live in Lisbon.")]
            await service.add_events_to_memory(**ADA, events=events, session_id="s")
            for query, most in (("Suggest a snack.", 2), ("Hello!", 0)):
                found = await service.search_memory(**ADA, query=query)
                assert len(found.memories) == most, query
            nearest = AlveusMemoryService(memory, limit=1)
            found = await nearest.search_memory(**ADA, query="Where do I live in Lisbon?")
            assert [one.id for one in found.memories] == ["e2"]

    asyncio.run(work())


def test_random_calls_find_what_the_kits_own_service_finds():
    """Each event has a word of its own, so that both have one answer to each question."""
    dice = random.Random(5)

    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            both = cast(
                "list[Any]", [InMemoryMemoryService(), AlveusMemoryService(memory, limit=10)]
            )
            session = Session(id="s", **ADA)
            for step in range(150):
                kind = dice.choice(["session", "events", "delete", "search", "search"])
                number = dice.randrange(25)
                if kind == "session":
                    session.events.append(event(step + 100, f"word{step % 25}"))
                new = event(number, f"word{number}")
                if kind == "events" and new.id not in {one.id for one in session.events}:
                    session.events.append(new)
                answers = []
                for service in both:
                    if kind == "session":
                        await service.add_session_to_memory(session)
                    elif kind == "events":
                        await service.add_events_to_memory(**ADA, events=[new, new], session_id="s")
                    elif kind == "delete":
                        await service.delete_memory(**ADA, memory_id=f"e{number}")
                    found = await service.search_memory(**ADA, query=f"word{number}")
                    answers.append([(one.id, one.author, one.content) for one in found.memories])
                theirs, ours = answers
                by_id = {one[0]: one for one in ours[: len(theirs)]}
                assert by_id == {one[0]: one for one in theirs}, (step, kind)
            kept = {
                item.text
                for item in memory.key("google_adk.user:ada").set("google_adk.guide").list()
            }
            for number in range(25):
                found = await both[0].search_memory(**ADA, query=f"word{number}")
                assert bool(found.memories) == (f"word{number}" in kept)
            counted("Google ADK", calls=step + 1)

    asyncio.run(work())


def test_what_is_deleted_is_not_added_again_and_forgotten_if_asked():
    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            ways: Any = (("retire", 0), ("forget", 1))
            for deleting, receipts in ways:
                service = AlveusMemoryService(memory, deleting=deleting)
                one = event(receipts, "My code is 1234.")
                for _ in range(2):
                    await service.add_events_to_memory(**ADA, events=[one])
                    await service.delete_memory(**ADA, memory_id=one.id)
                    await service.delete_memory(**ADA)
                    assert (await service.search_memory(**ADA, query="code")).memories == []
                assert len(memory.receipts()) == receipts
            with pytest.raises(InvalidInput, match="'retire' or 'forget'"):
                AlveusMemoryService(memory, deleting=cast("Any", "soon"))

    asyncio.run(work())


def test_entries_come_back_as_they_were_and_only_to_their_user_and_app():
    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            service = AlveusMemoryService(memory)
            picture = types.Part(inline_data=types.Blob(data=b"\xff\x00", mime_type="image/png"))
            content = types.Content(role="user", parts=[types.Part(text="A tent."), picture])
            entry = MemoryEntry(
                id="m1",
                content=content,
                author="ada",
                timestamp="2026-01-02T03:04:05+00:00",
                custom_metadata={"topic": "camp"},
            )
            bare = MemoryEntry(content=said("A tent too."))
            for _ in range(2):
                await service.add_memory(
                    **ADA, memories=[entry], custom_metadata={"topic": "other", "year": 2026}
                )
            await service.add_memory(**ADA, memories=[bare])
            found = (await service.search_memory(**ADA, query="tent")).memories
            by_id = {one.id: one for one in found}
            assert len(found) == 2
            assert by_id["m1"] == entry.model_copy(
                update={"custom_metadata": {"topic": "camp", "year": 2026}}
            )
            for other in ({**ADA, "user_id": "bob"}, {**ADA, "app_name": "shop"}):
                assert (await service.search_memory(**other, query="tent")).memories == []
            with pytest.raises(InvalidInput, match="ISO 8601"):
                await service.add_memory(
                    **ADA, memories=[entry.model_copy(update={"timestamp": "yesterday"})]
                )

    asyncio.run(work())


def test_parts_of_an_answer_that_is_streamed_are_not_kept():
    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            service = AlveusMemoryService(memory)
            events = [event(1, "In", partial=True), event(1, "In Lisbon."), Event(author="user")]
            await service.add_events_to_memory(**ADA, events=events)
            found = (await service.search_memory(**ADA, query="Lisbon")).memories
            assert [one.content for one in found] == [said("In Lisbon.")]
            assert len(memory.key("google_adk.user:ada").set("google_adk.guide")) == 1

    asyncio.run(work())


def test_half_a_character_is_replaced_and_counted():
    """What was said is kept, and found by a question of the same kind."""

    async def work():
        with Memory.open(":memory:", embedder="words") as memory:
            service = AlveusMemoryService(memory)
            await service.add_events_to_memory(**ADA, events=[event(1, "Rain \ud83d")])
            found = await service.search_memory(**ADA, query="Rain \ud83d")
            (entry,) = found.memories
            assert cast("Any", entry.content.parts)[0].text == "Rain \ufffd"
            assert entry.custom_metadata["replaced_characters"] == 1

    asyncio.run(work())
