"""The programs of two design documents of Flink Agents, as agents of a Flink job.

Between their two actions the whole Flink is killed, once: the file that FLINK_KILL_MARK names says
whether that was done.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from alveus.compat.flink_agents import (
    Agent,
    ChatMessage,
    Event,
    InputEvent,
    MemoryObject,
    OutputEvent,
    RunnerContext,
    action,
)


class MyEvent(Event):
    pass


class Second(Event):
    pass


def kill_once() -> None:
    """Kill this process with all of Flink, the first time."""
    mark = Path(os.environ["FLINK_KILL_MARK"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


class E0(Agent):
    @action(MyEvent)
    @staticmethod
    def my_action(event: Event, ctx: RunnerContext):  # noqa: PLR0915 - as the document has it
        root = ctx.get_short_term_memory()
        if root.is_exist("x"):  # a later run of the key sees all of it
            ctx.send_event(OutputEvent(output=[root.get("x"), root.get("copy.n.j")]))
            return
        root.set("x", 100)
        root.set("y", "abc")
        obj_z = root.new_object("z")
        assert root.get_field_names() == ["x", "y", "z"]
        assert obj_z.get_fields() == {}
        obj_z.set("m", 0.5)
        obj_z.set("n.j", True)
        assert root.get("x") == 100
        assert root.get("z.m") == 0.5
        assert root.get("xx") is None
        assert root.get("z.mm") is None
        assert root.is_exist("x")
        assert not root.is_exist("xx")
        assert root.is_exist("z.m")
        assert not root.is_exist("z.mm")
        obj_n = root.get("z.n")
        assert isinstance(obj_n, MemoryObject)
        assert obj_n.get("j") is True
        assert obj_z.get_field_names() == ["m", "n"]
        fields = obj_z.get_fields()
        assert fields["m"] == 0.5
        assert isinstance(fields["n"], MemoryObject)
        root.set("copy", obj_z)
        obj_z.set("m", 1.0)
        assert root.get("copy.m") == 0.5
        assert root.get("copy.n.j") is True
        ctx.get_sensory_memory().set("seen", 1)
        ctx.send_event(Second())

    @action(Second)
    @staticmethod
    def after(event: Event, ctx: RunnerContext):
        kill_once()
        assert ctx.get_sensory_memory().get("seen") == 1
        ctx.send_event(OutputEvent(output=ctx.get_short_term_memory().get("z.m")))


@action(InputEvent)
def four(event: InputEvent, ctx: RunnerContext):  # noqa: PLR0915 - as the document has it
    sensory_memory = ctx.sensory_memory
    user: MemoryObject = sensory_memory.new_object("user")
    user.set("name", "jhon")
    user.set("age", 13)
    sensory_memory.set("user.name", "jhon")
    sensory_memory.set("user.age", 13)
    user = sensory_memory.get_object("user")
    name: str = user.get("name")
    age: int = user.get("age")
    assert (name, age) == (sensory_memory.get("user.name"), sensory_memory.get("user.age"))
    assert (name, age) == ("jhon", 13)
    history = ctx.long_term_memory.get_or_create_memory_set(
        name="chat_history", item_type=ChatMessage, capacity=100, compaction_strategy=None
    )
    ids = history.add(
        [
            ChatMessage(role="user", content="I like tea"),
            ChatMessage(role="assistant", content="Noted"),
        ]
    )
    assert [i.value.content for i in history.get_recent(2)] == ["I like tea", "Noted"]
    item = history.get(ids)[0]
    assert item.memory_set_name == "chat_history"
    assert item.value == ChatMessage(role="user", content="I like tea")
    assert item.compacted is False
    assert item.created_time
    assert item.last_accessed_time
    assert item.id == ids[0]
    found = history.search(query="favourite drink", limit=1)
    assert found[0].value.content == "I like tea"
    assert history.size == 2
    assert ctx.long_term_memory.get_memory_set("chat_history") == history
    rules = ctx.knowledge.get_or_create_knowledge_set(name="house_rules")
    rules.add({"rule": "no sugar after nine", "weight": 3})
    fact = rules.get_recent(1)[0]
    assert (fact.name, fact.value["weight"]) == ("house_rules", 3)
    assert fact.created_time <= fact.updated_time
    ctx.send_event(Second())


@action(Second)
def told(event: Second, ctx: RunnerContext):
    kill_once()
    assert ctx.sensory_memory.get("user.age") == 13
    history = ctx.long_term_memory.get_memory_set("chat_history")
    rules = ctx.knowledge.get_or_create_knowledge_set(name="house_rules")
    ctx.send_event(OutputEvent(output=[history.size, len(rules.get_recent(10))]))


E1 = Agent("E1", actions=[four, told])
