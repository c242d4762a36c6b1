"""Whose memory it is: what one identity keeps, no other one reads or deletes, by any door."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, combinations, count
from typing import Any, cast

import pytest
from agent_framework import Message
from langgraph.store.base import GetOp, PutOp
from pydantic_ai.conversation_store import ConversationRecord

from alveus import Memory
from alveus.integrations.agent_framework import AlveusHistoryProvider
from alveus.integrations.langgraph import AlveusSaver, AlveusStore
from alveus.integrations.openai_agents import AlveusSession
from alveus.integrations.pydantic_ai import AlveusConversationStore
from alveus.transfer.mem0 import ENTITIES, Entity
from alveus.values.ids import identity_key
from identity_doors import (
    DOORS,
    ConversationDoor,
    FilesDoor,
    HistoryDoor,
    HttpWorld,
    Mem0Door,
    Mem0RunDoor,
    Mem0UserDoor,
    MemoryStoreDoor,
    NamespaceDoor,
    ThreadDoor,
)
from identity_walk import (
    LENGTH,
    Crossing,
    KeyDoor,
    SessionDoor,
    SharedSessionDoor,
    Walk,
    World,
    walks,
)
from scale import COUNTS

PAIRS = len([*combinations(DOORS, 2)])

CHECKPOINT: Any = {
    "v": 1, "id": "1", "ts": "", "channel_values": {"a": 1}, "channel_versions": {"a": "1"},
    "versions_seen": {}, "updated_channels": None,
}  # fmt: skip


def put(saver: AlveusSaver, thread: str) -> None:
    """Have a thread hold a checkpoint."""
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    saver.put(config, CHECKPOINT, {}, {"a": "1"})


def threads(saver: AlveusSaver) -> set[str]:
    """Return the threads that hold a checkpoint."""
    found = [each.config["configurable"] for each in saver.list(None)]  # pyright: ignore[reportTypedDictNotRequiredAccess] - the test fails where it is another type
    return {each["thread_id"] for each in found}


@pytest.fixture
def memory():
    with Memory.open(embedder="words") as opened:
        yield opened


def test_identities_are_keys_one_to_one(memory):
    """An identity is got back from its key, whatever it is made of, the empty one too."""
    names = ["", "a", "a:b", ":", "%3A", "langgraph", "langgraph.thread:a", "é", "e\u0301"]
    for name in names:
        memory.key(identity_key("langgraph.thread", name)).add("x")
        memory.key(name or "other").add("y")
    prefix = identity_key("langgraph.thread", "")
    found = [key.removeprefix(prefix) for key in memory.keys(prefix=prefix)]
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize("deleting", ["forget", "retire"])
@pytest.mark.parametrize("how", ["delete", "prune", "runs", "copy"])
def test_a_thread_that_is_deleted_takes_nothing_else_along(memory, how, deleting):
    """Of whatever name: that of a store's key, of a user, of a session, of another thread."""
    saver, store = AlveusSaver(memory, deleting=deleting), AlveusStore(memory)
    store.put(("users", "ada"), "seat", {"text": "Sits by the glass."})
    names = ["langgraph", "langgraph.store", "ada", "s", "pydantic-ai", "t"]
    session = AlveusSession("s", memory)
    asyncio.run(session.add_items([{"role": "user", "content": "hello"}]))
    for name in names:
        memory.key(name).add(f"of {name}")
        memory.key(name).short_term.set("langgraph", "mine")
        put(saver, name)
    for name in names[:-1]:
        match how:
            case "delete":
                saver.delete_thread(name)
            case "prune":
                saver.prune([name], strategy="delete")
            case "runs":
                saver.delete_for_runs([name])
            case _:
                saver.copy_thread("t", name)
    assert threads(saver) == ({"t"} if how in ("delete", "prune") else {*names})
    for name in names:
        assert [item.value for item in memory.key(name).list()] == [f"of {name}"]
        assert memory.key(name).short_term.get("langgraph") == "mine"
    assert store.get(("users", "ada"), "seat") is not None
    assert len(asyncio.run(session.get_items())) == 1


def test_a_key_that_is_forgotten_takes_no_thread_along(memory):
    """A user, a thread, a session and a namespace of one name are four."""
    saver, store, session = AlveusSaver(memory), AlveusStore(memory), AlveusSession("ada", memory)
    put(saver, "ada")
    store.put(("ada",), "seat", {"text": "Sits by the glass."})
    asyncio.run(session.add_items([{"role": "user", "content": "hello"}]))
    for name in ("ada", "langgraph", "pydantic-ai"):
        memory.key(name).add("x")
        memory.key(name).forget()
    assert threads(saver) == {"ada"}
    assert store.get(("ada",), "seat") is not None
    assert len(asyncio.run(session.get_items())) == 1


def test_a_namespace_is_no_session_of_the_same_key(memory):
    """Under one key that both were given, a store sees its items alone, and so does a session."""
    store = AlveusStore(memory, key="ada")
    session = AlveusSession("x", memory, key="ada", clearing="forget")
    memory.key("ada").add("of the key itself")
    asyncio.run(session.add_items([{"role": "user", "content": "hello"}]))
    store.put(("session", "x"), "seat", {"text": "Sits by the glass."})
    store.put(("memories",), "seat", {"text": "Sits by the glass."})
    assert asyncio.run(session.get_items()) == [{"role": "user", "content": "hello"}]
    assert len(store.search(())) == 2
    assert store.list_namespaces() == [("memories",), ("session", "x")]
    assert {hit.namespace for hit in store.search((), query="hello glass key")} == {
        ("memories",), ("session", "x"),
    }  # fmt: skip
    asyncio.run(session.clear_session())
    assert len(store.search(())) == 2


def test_namespaces_differ_where_their_labels_do(memory):
    """Also labels with a dot, or empty ones, which `batch` takes."""
    store = AlveusStore(memory)
    spaces = [
        ("a", "b.c"),
        ("a.b", "c"),
        ("a", "b", "c"),
        ("a%2Eb", "c"),
        ("",),
        ("", ""),
        ("a", ""),
    ]
    store.batch([PutOp(each, "k", {"n": n}) for n, each in enumerate(spaces)])
    for n, each in enumerate(spaces):
        (found,) = cast("list[Any]", store.batch([GetOp(each, "k")]))
        assert (found.namespace, found.value) == (each, {"n": n})
    assert store.list_namespaces() == sorted(spaces)


def test_no_session_is_not_one_that_bears_its_name(memory):
    """An agent that is run without a session has a history of its own."""
    history = AlveusHistoryProvider(memory, key="ada")
    for session, said in ((None, "none"), ("default", "default"), ("", "empty")):
        made = [Message(role="user", contents=[said])]
        asyncio.run(history.save_messages(session, made))
    for session, said in ((None, "none"), ("default", "default"), ("", "empty")):
        found = asyncio.run(history.get_messages(session))
        assert [message.text for message in found] == [said]


def test_a_thread_copied_to_itself_stays(memory):
    """Nothing of it is lost."""
    saver = AlveusSaver(memory)
    put(saver, "t")
    saver.copy_thread("t", "t")
    assert threads(saver) == {"t"}


def test_conversations_without_a_key_are_of_none_that_a_user_has(memory):
    """A user by the name of the framework reads none of them, and erases none."""
    store = AlveusConversationStore(memory)
    record = ConversationRecord(conversation_id="c", head_id=None)
    asyncio.run(store.write_record(record, expected_revision=None))
    for name in ("pydantic-ai", "pydantic_ai", "c"):
        assert name not in [*memory.keys()]
        memory.key(name).add("of a user")
        memory.key(name).forget()
    assert asyncio.run(store.read_record("c")) == record


def test_a_user_of_mem0_named_like_a_thread_is_another(memory):
    """Whatever a client types as a user's name; and the thread is no user that it can list."""
    world = World(memory, random.Random(0))
    users, saver = Mem0UserDoor(world), AlveusSaver(memory, deleting="forget")
    for name in ("langgraph.thread:t", "langgraph.thread:", "user:langgraph.thread:t"):
        put(saver, name.rpartition(":")[2])
        memory.key(name).add("of a program")
        users.write(name, "word0000001")
        saver.delete_thread(name.rpartition(":")[2])
        assert users.read(name) == ["word0000001"]
        users.ways["delete the entity"](name, {users.identity(name): ["word0000001"]})
        assert users.read(name) == []
    world.close()


@pytest.mark.parametrize("part", range(4))
def test_identities_share_nothing(tmp_path, part):
    """A random machine: after each step, each identity reads what was kept for it, and no more."""
    walks(tmp_path, DOORS, seeds=count(part, 4), steps=COUNTS.identity_steps // 4)


AT_ONCE = [
    KeyDoor, ThreadDoor, NamespaceDoor, SessionDoor, SharedSessionDoor, HistoryDoor, FilesDoor,
    ConversationDoor, Mem0Door, Mem0RunDoor, MemoryStoreDoor,
]  # fmt: skip
"""Doors of which each has identities of a kind that no other one has."""


@pytest.mark.parametrize("place", [":memory:", "memory.db"])
def test_doors_that_work_at_once_share_nothing(tmp_path, place):
    """Threads of a program: each has a door, all the same names, and one memory for all."""

    def work(door):
        walked = Walk(memory, [door], random.Random(door.__name__))
        walked.drawn = ["a", "session", "langgraph", "langgraph.thread:a", "default"]
        try:
            for _ in range(max(16, COUNTS.identity_steps // 48)):
                walked.step()
        finally:
            walked.world.close()

    file = place if place == ":memory:" else tmp_path / place
    with (
        Memory.open(file, embedder="words", durability="normal") as memory,
        ThreadPoolExecutor(len(AT_ONCE)) as pool,
    ):
        list(pool.map(work, AT_ONCE))


NAMES_OF_MEM0 = [
    *("x", "agent:x", "user:x", "user:agent:x", "run:x", 'x","run_id":"y', "y", '"', "\\", '\\"'),
    *("{}", "\u00e9", "e\u0301", "x\0", "x ", "X", "%", "_", "*x", "\u2028", "1", "app:x", "null"),
]


@pytest.mark.parametrize("seed", range(max(2, COUNTS.identity_steps // 400)))
def test_a_memory_of_several_entities_is_found_by_those_alone(memory, seed):
    """By any ids of mem0 together: each is that of the memory, whatever characters it has."""
    rng = random.Random(seed)
    names, kept = ["x", "agent:x", rng.choice(NAMES_OF_MEM0)], dict[str, dict[str, str]]()
    world = World(memory, rng)
    http = HttpWorld.of(world)

    def chosen() -> dict[str, str]:
        return {each: rng.choice(names) for each in rng.sample(ENTITIES, rng.choice([1, 1, 2, 3]))}

    for number in range(12):
        body = {"messages": [{"content": f"w{number}"}], "infer": False}
        kept[f"w{number}"] = chosen()
        http.ask("POST", "/v3/memories/add/", body | kept[f"w{number}"])
    for number in range(36):
        ids = chosen()
        of = {text for text, about in kept.items() if ids.items() <= about.items()}
        if number % 12 == 11:
            http.ask("DELETE", "/v1/memories/", **ids)
            kept = {text: about for text, about in kept.items() if text not in of}
            of = set()
        found = http.ask("POST", "/v3/memories/", {"filters": ids})["results"]
        assert {each["memory"] for each in found} == of, ids
    world.close()


def threads_by_the_key_of_the_store(monkeypatch):
    """Have the thread langgraph be the key of LangGraph's store, as it was once."""
    key, threads = AlveusSaver._key, AlveusSaver._threads
    monkeypatch.setattr(
        AlveusSaver,
        "_key",
        lambda self, name: self.memory.key(name) if name == "langgraph" else key(self, name),
    )
    monkeypatch.setattr(AlveusSaver, "_threads", lambda self: chain(["langgraph"], threads(self)))
    monkeypatch.setattr(NamespaceDoor, "key", {"key": "langgraph"})


def users_by_the_keys_of_agents(monkeypatch):
    """Have mem0's user agent:x be the key of the agent x, as it was once."""
    key = Entity.key.fget
    assert key is not None
    monkeypatch.setattr(
        Entity,
        "key",
        property(
            lambda entity: (
                entity.name
                if entity.kind == "user" and entity.name.startswith("agent:")
                else key(entity)
            )
        ),
    )


@pytest.mark.parametrize(
    ("fault", "seed"), [(threads_by_the_key_of_the_store, 382), (users_by_the_keys_of_agents, 360)]
)
def test_the_machine_finds_a_fault_that_is_put_back(tmp_path, monkeypatch, fault, seed):
    """Over all doors, two by two. The seed is near one that meets it; any does within the steps."""
    fault(monkeypatch)
    with pytest.raises(Crossing):
        walks(tmp_path, DOORS, seeds=count(seed), steps=8 * PAIRS * LENGTH)
