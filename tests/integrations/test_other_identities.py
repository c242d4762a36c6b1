"""The random machine of identities, through the frameworks of this environment."""

from __future__ import annotations

from itertools import count
from typing import Any

from google.adk.events import Event
from google.genai import types
from llama_index.core.base.llms.types import ChatMessage

from alveus.integrations.agentscope_middleware import AlveusMiddleware
from alveus.integrations.google_adk import AlveusMemoryService
from alveus.integrations.llama_index import AlveusChatStore, AlveusMemoryBlock
from identity_walk import (
    SHARED,
    Door,
    KeyDoor,
    Model,
    SessionDoor,
    SharedSessionDoor,
    World,
    walks,
    words_in,
)
from scale import COUNTS


class AdkUserDoor(Door):
    """Users of Google ADK, all of one app."""

    kind = "user"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        made = (
            AlveusMemoryService(world.memory, limit=1_000, deleting=d) for d in ("retire", "forget")
        )
        self._services = [world.closing(one) for one in made]
        self.ways = {
            "delete one": self.takes_one(lambda name, word: self._delete(0, name, word)),
            "forget one": self.takes_one(lambda name, word: self._delete(1, name, word)),
        }

    def _of(self, name: str) -> dict[str, str]:
        return {"user_id": name, "app_name": "guide"}

    def _delete(self, service: int, name: str, word: str) -> None:
        self.world.run(self._services[service].delete_memory(**self._of(name), memory_id=word))

    def write(self, name: Any, word: str) -> None:
        content = types.Content(role="user", parts=[types.Part(text=f"said {word}")])
        event = Event(id=word, author="user", content=content)
        self.world.run(self._services[0].add_events_to_memory(**self._of(name), events=[event]))

    def read(self, name: Any) -> list[str]:
        found = self.world.run(self._services[0].search_memory(**self._of(name), query="said"))
        return words_in([one.content for one in found.memories])


class AdkAppDoor(AdkUserDoor):
    """Apps of Google ADK, all of one user."""

    kind = "app"

    def _of(self, name: str) -> dict[str, str]:
        return {"user_id": "a user of apps", "app_name": name}


class ChatDoor(Door):
    """Chats of LlamaIndex, and the messages of its block that name none."""

    kind = "chat"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        ways: tuple[Any, ...] = ("retire", "forget")
        made = (AlveusChatStore(world.memory, key=SHARED, deleting=way) for way in ways)
        self._stores = [world.closing(one) for one in made]
        self._block = world.closing(AlveusMemoryBlock(world.memory, key=SHARED))
        self.ways = {
            "delete": self._unless_none(self._stores[0].delete_messages),
            "forget": self._unless_none(self._stores[1].delete_messages),
            "archive": self._archive,
        }

    def names(self, drawn: list[str]) -> list[Any]:
        return [*drawn, None]

    def write(self, name: Any, word: str) -> None:
        said = ChatMessage(word)
        block, store = self._block.aput([said]), self._stores[0]
        if name is None:
            self.world.run(block)
        else:
            block.close()
            self.world.run(store.add_message(name, said))

    def read(self, name: Any) -> list[str]:
        if name is None:
            inside = self.world.memory.key(SHARED).set("llama_index_archive")
            return words_in([item.text for item in inside.list()])
        found = self.world.run(self._stores[0].get_messages(name, status=None))
        return words_in([one.content for one in found])

    def listed(self) -> set[Any]:
        unnamed = {None} if self.read(None) else set()
        return {*self.world.run(self._stores[0].get_keys())} | unnamed

    def _unless_none(self, delete: Any) -> Any:
        def way(name: Any, model: Model) -> None:
            if name is not None:
                self.world.run(delete(name))
                model[self.identity(name)] = []

        return way

    def _archive(self, name: Any, _: Model) -> None:
        if name is not None:
            self.world.run(self._stores[0].archive_oldest_messages(name, 1))


class ScopeUserDoor(Door):
    """Users of AgentScope 2, each with one agent; AgentScope deletes nothing."""

    kind = "agentscope user"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._made: dict[Any, AlveusMiddleware] = {}

    def names(self, drawn: list[str]) -> list[Any]:
        return [name for name in drawn if name.strip()]

    def _of(self, name: Any) -> dict[str, Any]:
        return {"user_id": name, "agent_id": "guide"}

    def _middleware(self, name: Any) -> AlveusMiddleware:
        if name not in self._made:
            made = AlveusMiddleware(self.world.memory, **self._of(name))
            self._made[name] = self.world.closing(made)
        return self._made[name]

    def write(self, name: Any, word: str) -> None:
        self.world.run(self._middleware(name).add([f"said {word}"]))

    def read(self, name: Any) -> list[str]:
        return words_in(self.world.run(self._middleware(name).find("said", limit=1_000)))


class ScopeAgentDoor(ScopeUserDoor):
    """Agents of AgentScope 2, all of one user, in a key that others share."""

    kind = "agentscope agent"

    def _of(self, name: Any) -> dict[str, Any]:
        return {"user_id": "a user of agents", "agent_id": name, "key": SHARED}


DOORS = [
    KeyDoor, SessionDoor, SharedSessionDoor, AdkUserDoor, AdkAppDoor, ChatDoor, ScopeUserDoor,
    ScopeAgentDoor,
]  # fmt: skip


def test_identities_share_nothing(tmp_path):
    """After each step, each identity reads what was kept for it, and no more."""
    walks(tmp_path, DOORS, seeds=count(1), steps=COUNTS.identity_steps)
