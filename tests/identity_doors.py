"""Doors of the machine of `identity_walk`: frameworks, the protocols of the server, and MCP."""

from __future__ import annotations

from functools import cache
from typing import Any, cast
from urllib.parse import quote

import httpx
from agent_framework import Message
from fastapi import FastAPI
from langgraph.store.base import GetOp, PutOp, SearchOp
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelRequest, UserPromptPart

from alveus import Memory
from alveus.integrations.agent_framework import AlveusHistoryProvider
from alveus.integrations.anthropic_memory import AlveusMemoryTool
from alveus.integrations.langgraph import AlveusSaver, AlveusStore
from alveus.integrations.pydantic_ai import AlveusConversationStore
from alveus.server.app import create_app
from alveus.server.callers import Memories
from alveus.server.mcp.served_key import Asked, Asker, ServedKey
from identity_walk import (
    ANOTHER,
    GIVEN,
    SHARED,
    Door,
    Identity,
    KeyDoor,
    Model,
    SessionDoor,
    SharedSessionDoor,
    World,
    words_in,
)  # fmt: skip


class ThreadDoor(Door):
    """Threads of LangGraph's checkpointer."""

    kind = "thread"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._saver = world.closing(AlveusSaver(world.memory))
        self._forgetting = world.closing(AlveusSaver(world.memory, deleting="forget"))
        self._threads: list[str] = []
        self.ways = {
            "delete": self.empties(self._saver.delete_thread),
            "forget": self.empties(self._forgetting.delete_thread),
            "prune": self.empties(lambda name: self._prune(name, "delete")),
            "keep the latest": self._keep_latest,
            "delete a run": self._delete_run,
            "copy": self._copy,
        }

    def names(self, drawn: list[str]) -> list[Any]:
        self._threads = drawn
        return [*drawn]

    def write(self, name: Any, word: str) -> None:
        number = word.removeprefix("word")
        checkpoint: Any = {
            "v": 1, "id": number, "ts": "", "channel_values": {"said": word},
            "channel_versions": {"said": number}, "versions_seen": {}, "updated_channels": None,
        }  # fmt: skip
        where: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        self._saver.put(where, checkpoint, cast("Any", {"run_id": word}), {"said": number})

    def read(self, name: Any) -> list[str]:
        where: Any = {"configurable": {"thread_id": name}}
        return [one.checkpoint["channel_values"]["said"] for one in self._saver.list(where)]

    def listed(self) -> set[Any]:
        found = self._saver.list(None)
        return {one.config["configurable"]["thread_id"] for one in found}  # pyright: ignore[reportTypedDictNotRequiredAccess] - a saver gives it

    def _prune(self, name: str, strategy: str) -> None:
        self.world.run(self._forgetting.aprune([name], strategy=strategy))

    def _keep_latest(self, name: Any, model: Model) -> None:
        self._prune(name, "keep_latest")
        model[self.identity(name)] = [max(model[self.identity(name)])]

    def _delete_run(self, name: Any, model: Model) -> None:
        run = model[self.identity(name)][0]
        self._forgetting.delete_for_runs([run])
        for (kind, _), words in model.items():
            if kind == self.kind and run in words:  # copies of the thread have it too
                words.remove(run)

    def _copy(self, name: Any, model: Model) -> None:
        known = [other for other in self._threads if (self.kind, other) in model]
        target = self.world.rng.choice(known)
        self._saver.copy_thread(name, target)
        model[self.kind, target] = [*model[self.identity(name)]]


class NamespaceDoor(Door):
    """Namespaces of a store of LangGraph: one label."""

    kind = "namespace"
    key: dict[str, str] = {}  # noqa: RUF012 - how the store is made

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._store = world.closing(AlveusStore(world.memory, **self.key))  # pyright: ignore[reportArgumentType] - the test fails where it is another type
        self.ways = {
            "delete one": self.takes_one(
                lambda name, word: self._store.batch([PutOp(self._of(name), word, None)])
            )
        }

    def _of(self, name: str) -> tuple[str, ...]:
        return (name,)

    def write(self, name: Any, word: str) -> None:
        self._store.batch([PutOp(self._of(name), word, {"text": word})])

    def read(self, name: Any) -> list[str]:
        (found,) = cast("Any", self._store.batch([SearchOp(self._of(name), limit=1_000)]))
        return [one.value["text"] for one in found if one.namespace == self._of(name)]

    def find(self, name: Any, word: str) -> list[str]:
        space = self._of(name)
        asked = [GetOp(space, word), SearchOp(space, query=word, limit=1_000)]
        one, found = cast("Any", self._store.batch(asked))
        return [one.value["text"], *(hit.value["text"] for hit in found if hit.namespace == space)]


class DeepNamespaceDoor(NamespaceDoor):
    """Namespaces of several labels, of the same store."""

    kind = "deep namespace"

    def names(self, drawn: list[str]) -> list[Any]:
        return [name for name in drawn if "." in name]

    def _of(self, name: str) -> tuple[str, ...]:
        return tuple(name.split("."))


class SharedNamespaceDoor(NamespaceDoor):
    """Namespaces of a store whose key other integrations are given too."""

    kind = "shared namespace"
    key = {"key": SHARED}  # noqa: RUF012 - how the store is made

    def listed(self) -> set[Any]:
        found = self._store.list_namespaces(limit=1_000)
        assert all(len(each) == 1 for each in found), found
        return {each[0] for each in found}


class HistoryDoor(Door):
    """Sessions of the Agent Framework, and its runs without one; the framework deletes nothing."""

    kind = "agent session"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._history = world.closing(AlveusHistoryProvider(world.memory, key=SHARED))

    def names(self, drawn: list[str]) -> list[Any]:
        return [*drawn, None]

    def write(self, name: Any, word: str) -> None:
        said = Message(role="user", contents=[word], message_id="one id in all sessions" + word)
        self.world.run(self._history.save_messages(name, [said]))

    def read(self, name: Any) -> list[str]:
        found = self.world.run(self._history.get_messages(name))
        return [message.text for message in found]


class FilesDoor(Door):
    """Files of Anthropic's memory tool, under the keys of a program with a prefix of its own."""

    kind = "files"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.ways = {
            "delete one": self.takes_one(lambda name, word: self._delete(name, word, "retire")),
            "forget one": self.takes_one(lambda name, word: self._delete(name, word, "forget")),
            "clear": self.empties(lambda name: self._tool(name, "retire").clear_all_memory()),
            "forget": self.empties(lambda name: self._tool(name, "forget").clear_all_memory()),
        }

    def _tool(self, name: str, deleting: Any) -> AlveusMemoryTool:
        key = SHARED if name == "shared" else f"{GIVEN}files of {name}"
        return AlveusMemoryTool(self.world.memory, key=key, deleting=deleting)

    def _delete(self, name: str, word: str, deleting: str) -> None:
        path = f"/memories/{word}"
        self._tool(name, deleting).call({"command": "delete", "path": path})

    def write(self, name: Any, word: str) -> None:
        command = {"command": "create", "path": f"/memories/{word}", "file_text": "x"}
        self._tool(name, "retire").call(command)

    def read(self, name: Any) -> list[str]:
        shown = self._tool(name, "retire").call({"command": "view", "path": "/memories"})
        return words_in(shown)


class ConversationDoor(Door):
    """Conversations of PydanticAI."""

    kind = "conversation"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        memory = world.memory
        self._store = world.closing(AlveusConversationStore(memory))
        self._forgetting = world.closing(AlveusConversationStore(memory, deleting="forget"))
        self.ways = {
            "delete": self.empties(lambda name: self._delete(name, self._store)),
            "forget": self.empties(lambda name: self._delete(name, self._forgetting)),
        }

    def names(self, drawn: list[str]) -> list[Any]:
        return [name for name in drawn if name]

    def _record(self, name: str) -> ConversationRecord | None:
        return self.world.run(self._store.read_record(name))

    def write(self, name: Any, word: str) -> None:
        old = self._record(name)
        head = None if old is None else old.head_id
        said = ModelRequest(parts=[UserPromptPart(content=word)])
        record = ConversationRecord(conversation_id=name, head_id=word)
        self.world.run(
            self._store.write_record(
                record,
                new_entries=[ConversationEntry(id=word, parent_id=head, message=said)],
                expected_revision=None if old is None else old.revision,
            )
        )

    def read(self, name: Any) -> list[str]:
        record = self._record(name)
        if record is None:
            return []
        return [one.id for one in self.world.run(self._store.read_history(record.head_id))]

    def listed(self) -> set[Any]:
        return {one.conversation_id for one in self.world.run(self._store.read_records())}

    def _delete(self, name: str, store: AlveusConversationStore) -> None:
        record = self._record(name)
        assert record is not None
        self.world.run(store.delete_record(name, expected_revision=record.revision))


@cache
def _app() -> FastAPI:
    """Return a server, whose routes take .3 s to make: one for all walks, one after the other."""
    return create_app(Memory.open)


class HttpWorld:
    """The server of a walk's memory, asked in this process; one for all doors of a walk."""

    _ATTRIBUTE = "http_of_walk"

    def __init__(self, world: World) -> None:
        self._world = world
        app = _app()
        app.state.memories = Memories(lambda _: world.memory)
        transport = httpx.ASGITransport(app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def close(self) -> None:
        """Close the client."""
        self._world.run(self._client.aclose())

    @classmethod
    def of(cls, world: World) -> HttpWorld:
        """Return the server of a walk."""
        if not hasattr(world, cls._ATTRIBUTE):
            setattr(world, cls._ATTRIBUTE, world.closing(cls(world)))
        return cast("HttpWorld", getattr(world, cls._ATTRIBUTE))

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Return the JSON of an answer without an error; None: the thing does not exist."""
        asked = self._client.request(method, path, json=body, params=query)
        answer = self._world.run(asked)
        if answer.status_code == 404:
            return None
        assert answer.status_code in (200, 201), (method, path, query, answer.text)
        return answer.json()


class RestDoor(KeyDoor):
    """Keys through the addresses of alveus's own server."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._http = HttpWorld.of(world)
        self.ways = {
            "forget the key": self.empties(
                lambda name: self._http.ask("POST", "/v1/forget", {"everything": True}, key=name)
            ),
            "forget all": self.empties(
                lambda name: self._http.ask(
                    "POST", "/v1/forget", {"where": {}}, key=name, set="default"
                )
            ),
            "delete one": self.takes_one(
                lambda name, word: self._http.ask(
                    "DELETE", "/v1/item", key=name, set="default", id=self.id_of(name, word)
                )
            ),
        }

    def write(self, name: Any, word: str) -> None:
        body = {"items": [{"value": word, "id": word}]}
        self._http.ask("POST", "/v1/items", body, key=name, set="default")

    def read(self, name: Any) -> list[str]:
        found = self._http.ask("GET", "/v1/items", key=name, set="default", limit=1_000)
        return [one["value"] for one in found["items"]]

    def find(self, name: Any, word: str) -> list[str]:
        found = self._http.ask("POST", "/v1/search", {"query": word, "limit": 100}, key=name)
        return [hit["item"]["text"] for hit in found["hits"]]


class ToolsDoor(KeyDoor):
    """Keys through the tools of MCP."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.ways = {
            "forget one": self.takes_one(
                lambda name, word: self._call(name, "forget", id=self.id_of(name, word))
            )
        }

    def _call(self, name: str, tool: str, **arguments: object) -> str:
        served = ServedKey(self._key(name), forget="erase")
        answer = served.call(Asked(tool, arguments, {}, None, None), Asker())
        assert not answer.is_error, answer
        return answer.text

    def write(self, name: Any, word: str) -> None:
        self._call(name, "remember", text=word)

    def find(self, name: Any, word: str) -> list[str]:
        return words_in(self._call(name, "recall", query=word))


class Mem0Door(Door):
    """Agents of mem0, through the addresses of its client."""

    kind = "agent"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._http = HttpWorld.of(world)
        self.ways = {
            "delete all": self.empties(
                lambda name: self._http.ask("DELETE", "/v1/memories/", **{self._field: name})
            ),
            "delete one": self.takes_one(self._delete),
            "delete the entity": self._delete_entity,
        }

    @property
    def _field(self) -> str:
        return f"{self.kind}_id"

    def names(self, drawn: list[str]) -> list[Any]:
        return [name for name in drawn if name not in ("", "*")]

    def write(self, name: Any, word: str) -> None:
        body = {"messages": [{"role": "user", "content": word}], "infer": False}
        self._http.ask("POST", "/v3/memories/add/", {**body, self._field: name})

    def _all(self, name: str) -> list[dict[str, Any]]:
        asked = {"filters": {self._field: name}}
        return self._http.ask("POST", "/v3/memories/", asked, page_size=1_000)["results"]

    def read(self, name: Any) -> list[str]:
        return [one["memory"] for one in self._all(name)]

    def find(self, name: Any, word: str) -> list[str]:
        asked = {"query": word, "filters": {self._field: name}, "top_k": 1_000}
        found = self._http.ask("POST", "/v3/memories/search/", asked)
        return [one["memory"] for one in found["results"]]

    def _delete(self, name: str, word: str) -> None:
        (one,) = (each for each in self._all(name) if each["memory"] == word)
        self._http.ask("DELETE", f"/v1/memories/{one['id']}/")

    def _delete_entity(self, name: Any, model: Model) -> None:
        found = self._http.ask("GET", "/v1/entities/")["results"]
        assert (self.kind, name) in {(each["type"], each["name"]) for each in found}
        if {*name.split("/")} & {".", ".."}:  # clients take such a name out of a path
            self._http.ask("DELETE", "/v1/memories/", **{self._field: name})
        else:
            self._http.ask("DELETE", f"/v2/entities/{self.kind}/{quote(name, safe='')}/")
        model[self.identity(name)] = []


class Mem0UserDoor(Mem0Door):
    """Users of mem0: each is the key of its name, unless another identity has that key."""

    kind = "user"

    def identity(self, name: Any) -> Identity:
        return (self.kind if ANOTHER.match(name) else KeyDoor.kind), name


class Mem0AppDoor(Mem0Door):
    """Apps of mem0."""

    kind = "app"


class Mem0RunDoor(Mem0Door):
    """Runs of mem0."""

    kind = "run"


class MemoryStoreDoor(Door):
    """Stores of Anthropic's Memory Stores, whose ids the server makes."""

    kind = "memory store"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._http = HttpWorld.of(world)
        self._ids: dict[str, str] = {}
        self.ways = {
            "delete one": self.takes_one(self._delete),
            "delete the store": self.empties(self._delete_store),
        }

    def names(self, drawn: list[str]) -> list[Any]:
        return [name for name in drawn if 0 < len(name) < 255 and not set(name) & {*"\x00\n"}]

    def _place(self, name: str) -> str:
        if name not in self._ids:
            made = self._http.ask("POST", "/v1/memory_stores", {"name": name})
            self._ids[name] = made["id"]
        return f"/v1/memory_stores/{self._ids[name]}"

    def _all(self, name: str) -> list[dict[str, Any]]:
        place = f"{self._place(name)}/memories"
        found: list[dict[str, Any]] = []
        page: dict[str, Any] = {}
        while True:
            answer = self._http.ask("GET", place, view="full", limit=20, **page)
            found += answer["data"]
            if answer["next_page"] is None:
                return found
            page = {"page": answer["next_page"]}

    def write(self, name: Any, word: str) -> None:
        body = {"path": f"/{word}", "content": word}
        self._http.ask("POST", f"{self._place(name)}/memories", body)

    def read(self, name: Any) -> list[str]:
        return [one["content"] for one in self._all(name)]

    def _delete(self, name: str, word: str) -> None:
        (one,) = (each for each in self._all(name) if each["content"] == word)
        self._http.ask("DELETE", f"{self._place(name)}/memories/{one['id']}")

    def _delete_store(self, name: str) -> None:
        self._http.ask("DELETE", self._place(name))
        del self._ids[name]


DOORS = [
    KeyDoor, ThreadDoor, NamespaceDoor, DeepNamespaceDoor, SharedNamespaceDoor, SessionDoor,
    SharedSessionDoor, HistoryDoor, FilesDoor, ConversationDoor, ToolsDoor, RestDoor, Mem0Door,
    Mem0UserDoor, Mem0AppDoor, Mem0RunDoor, MemoryStoreDoor,
]  # fmt: skip
