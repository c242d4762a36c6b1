"""The published calls of Flink Agents on memory sets and knowledge sets."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import pytest

from alveus import LocalRunner, Memory, Summarize, Trim
from alveus.compat.flink_agents import (
    Agent,
    ChatMessage,
    InputEvent,
    Knowledge,
    LongTermMemory,
    OutputEvent,
    RunnerContext,
    action,
    memory_events,
)
from alveus.errors import InvalidInput, InvalidValue, RunParked, SetDefinitionConflict
from alveus.values.events import MemoryEvents


@pytest.fixture(params=["ram", "file"])
def memory(request: pytest.FixtureRequest, tmp_path: Path):
    url = ":memory:" if request.param == "ram" else tmp_path / "app.db"
    with Memory.open(url, embedder="minilm") as memory:
        yield memory


def test_a_chat_history_comes_back_as_it_was_given(memory: Memory) -> None:
    """Values come back as the type of the set, oldest first, with times and the set's name."""
    long_term = LongTermMemory(memory.key("ada"))
    history = long_term.get_or_create_memory_set(
        name="chat_history", item_type=ChatMessage, capacity=100, compaction_strategy=None
    )
    tea, noted = ChatMessage("user", "I like tea"), ChatMessage("assistant", "Noted")
    ids = history.add([tea, noted])
    assert [i.value.content for i in history.get_recent(2)] == ["I like tea", "Noted"]
    item = history.get(ids)[0]
    assert item.memory_set_name == "chat_history"
    assert item.value == tea
    assert item.compacted is False
    assert isinstance(item.created_time, datetime)
    assert item.created_time <= item.last_accessed_time
    assert item.id == ids[0]
    assert history.search(query="favourite drink", limit=1)[0].value.content == "I like tea"
    assert history.size == 2
    assert long_term.get_memory_set("chat_history") == history
    assert long_term.get_memory_set("chat_history").get_recent(1)[0].value == noted


def test_filters_leave_items_of_their_metadata(memory: Memory) -> None:
    """K5 and K6, and as many as a limit says, oldest first."""
    notes = LongTermMemory(memory.key("ada")).get_memory_set("notes")
    work = notes.add(["Ships on Monday.", "Ships on Friday."], metadatas={"category": "work"})
    notes.add("Ships in a bottle.", metadatas={"category": "home"})
    assert [item.id for item in notes.get(filters={"category": "work"})] == work
    assert [item.id for item in notes.get(None, {"category": "work"}, 1)] == work[:1]
    assert len(notes.get(limit=2)) == 2
    found = notes.search("ships", 5, {"category": "home"})
    assert [item.value for item in found] == ["Ships in a bottle."]


def test_metadata_in_the_place_of_ids_is_refused(memory: Memory) -> None:
    """Later versions of Flink Agents take metadata second; its names are no ids."""
    notes = LongTermMemory(memory.key("ada")).get_memory_set("notes")
    with pytest.raises(InvalidInput, match="ids must be a list, an entry per item, not"):
        notes.add("Ships on Monday.", {"category": "work"})  # pyright: ignore[reportArgumentType] - wrong on purpose
    assert notes.size == 0


def test_a_search_is_an_access(memory: Memory) -> None:
    """L4: an item that a search returned was last accessed after it was created."""
    history = LongTermMemory(memory.key("ada")).get_or_create_memory_set("h", str)
    history.add("I like tea")
    history.search("tea", 1)
    item = history.get()[0]
    assert isinstance(item.created_time, datetime)
    assert item.last_accessed_time > item.created_time


def test_knowledge_takes_any_storable_value(memory: Memory) -> None:
    """A knowledge item has a name and two times, and is found by the words in it."""
    rules = Knowledge(memory.knowledge).get_or_create_knowledge_set(name="house_rules")
    rules.add({"rule": "no sugar after nine", "weight": 3})
    fact = rules.get_recent(1)[0]
    assert (fact.name, fact.value["weight"]) == ("house_rules", 3)
    assert fact.created_time <= fact.updated_time
    assert rules.search("sugar", 1)[0].value == fact.value


def test_forgetting_keys_and_compaction_leave_knowledge_alone(memory: Memory) -> None:
    """It changes by explicit calls only, as in Flink Agents, whatever becomes of keys and sets."""
    rules = Knowledge(memory.knowledge).get_or_create_knowledge_set(name="house_rules")
    rules.add({"rule": "no sugar after nine", "weight": 3})
    before = [(i.value, i.created_time, i.updated_time) for i in rules.get()]
    notes = memory.key("ada").set("n", capacity=3, compaction=Trim(n=2), execution="sync")
    for n in range(9):
        notes.add(f"note {n}")
    assert len(notes) <= 3
    memory.forget("ada")
    assert [(i.value, i.created_time, i.updated_time) for i in rules.get()] == before


def test_other_keys_see_knowledge_but_not_history(memory: Memory) -> None:
    """Long-term memory is of one key, knowledge of all."""
    LongTermMemory(memory.key("ada")).get_memory_set("h").add("mine")
    Knowledge(memory.knowledge).get_knowledge_set("rules").add("ours")
    assert LongTermMemory(memory.key("bob")).get_memory_set("h").size == 0
    assert Knowledge(memory.key("bob").knowledge).get_knowledge_set("rules").size == 1


def test_a_wrong_type_is_refused(memory: Memory) -> None:
    """What is not of the set's type is refused, and nothing is added."""
    history = LongTermMemory(memory.key("ada")).get_or_create_memory_set("h", ChatMessage)
    with pytest.raises(InvalidValue, match="ChatMessage"):
        history.add([ChatMessage("user", "x"), "y"])
    assert history.size == 0
    with pytest.raises(InvalidInput, match="item_type"):
        LongTermMemory(memory.key("ada")).get_or_create_memory_set("g", int)


def test_ids_and_metadata_are_one_each(memory: Memory) -> None:
    """One dict is for all items; a list has one each, or is an error."""
    notes = LongTermMemory(memory.key("ada")).get_or_create_memory_set("n", str)
    assert notes.add(["a", "b"], ids=["1", "2"], metadatas={"topic": "x"}) == ["1", "2"]
    assert [dict(i.additional_metadata) for i in notes.get()] == [{"topic": "x"}] * 2
    with pytest.raises(InvalidInput, match="pass one for each"):
        notes.add(["a", "b"], ids=["1"])


def test_a_set_may_be_made_again_with_another_type(memory: Memory) -> None:
    """From then on it takes that type, refuses the one before, and can be read."""
    long_term = LongTermMemory(memory.key("ada"))
    long_term.create_memory_set("h", str).add(["a", "b"])
    long_term.delete_memory_set("h")
    again = long_term.create_memory_set("h", ChatMessage)
    assert again.item_type is ChatMessage
    with pytest.raises(InvalidValue, match="the set holds ChatMessage, not str"):
        again.add("c")
    again.add(ChatMessage("user", "d"))
    assert [item.value for item in again.get()] == [ChatMessage("user", "d")]
    assert long_term.get_memory_set("h").item_type is ChatMessage


def test_what_is_no_message_is_read_as_one(memory: Memory) -> None:
    """What others add to a set of messages, or a strategy puts there, is its text."""
    ada = memory.key("ada")
    history = LongTermMemory(ada).create_memory_set("h", ChatMessage)
    history.add(ChatMessage("user", "a"))
    ada.set("h").add("plain", role="assistant")
    ada.set("h").add({"text": "a dict", "more": 1})
    shown = [ChatMessage("user", "a"), ChatMessage("assistant", "plain")]
    assert [item.value for item in history.get()] == [*shown, ChatMessage("user", "a dict")]


def test_deleting_a_set_says_whether_there_was_one(memory: Memory) -> None:
    """A deleted set is empty, and may be made anew with another definition."""
    long_term = LongTermMemory(memory.key("ada"))
    assert long_term.delete_memory_set("h") is False
    kept = long_term.create_memory_set("h", str, capacity=2)
    kept.add(["a", "b", "c"])
    assert [i.value for i in kept.get()] == ["b", "c"]
    with pytest.raises(SetDefinitionConflict):
        long_term.get_or_create_memory_set("h", str, capacity=3)
    assert long_term.delete_memory_set("h") is True
    again = long_term.get_or_create_memory_set("h", str, capacity=3)
    again.add(["a", "b", "c"])
    assert again.size == 3
    again.delete([again.get()[0].id])
    assert again.size == 2
    again.delete()
    assert again.get() == []
    knowledge = Knowledge(memory.knowledge)
    knowledge.get_knowledge_set("k").add("x")
    assert knowledge.delete_knowledge_set("k") is True
    assert knowledge.delete_knowledge_set("other") is False


# --- runs ---------------------------------------------------------------------------------------


def handled(memory: Memory, *actions, value: object = None):
    with LocalRunner(Agent("theirs", actions=actions), memory) as runner:
        return runner.handle("ada", value)


def test_the_context_has_all_names(memory: Memory) -> None:
    """Properties and get_…() are the same; what alveus adds is there as well."""

    @action(InputEvent)
    def act(event, ctx: RunnerContext):
        assert ctx.get_sensory_memory() == ctx.sensory_memory
        assert ctx.get_short_term_memory() == ctx.short_term_memory
        ctx.get_long_term_memory().get_memory_set("s").add("one")
        assert ctx.long_term_memory.get_memory_set("s").size == 1
        ctx.get_knowledge().get_knowledge_set("k").add("two")
        assert ctx.knowledge.get_knowledge_set("k").size == 1
        ref = ctx.sensory_memory.set("a.b", 7)
        assert ref.resolve(ctx) == 7
        assert (ctx.key, ctx.run.number, ctx.now.tzinfo is not None) == ("ada", 0, True)
        ctx.log.debug("seen")
        assert "run 1" in repr(ctx)
        ctx.send_event(OutputEvent(ctx.durable(len, [1, 2])))

    assert handled(memory, act) == (2,)


def double(number: int, *, plus: int = 0) -> int:
    return 2 * number + plus


def test_durable_calls_have_the_published_form(memory: Memory) -> None:
    """Arguments go to the function, and the reconciler does not."""

    @action(InputEvent)
    def act(event, ctx: RunnerContext):
        first = ctx.durable_execute(double, event.input, plus=1)
        second = ctx.durable_execute(double, first, reconciler=lambda: 0)
        ctx.send_event(OutputEvent(second))

    @action(InputEvent)
    async def later(event, ctx: RunnerContext):
        first = await ctx.durable_execute_async(double, event.input)
        second = await ctx.durable_execute(double, first, plus=1)
        ctx.send_event(OutputEvent(second))

    assert handled(memory, act, later, value=3) == (14, 13)


@pytest.mark.parametrize("reconciler", [1, lambda needed: needed], ids=["int", "argument"])
def test_a_reconciler_takes_no_arguments(memory: Memory, reconciler: object) -> None:
    """What cannot be called so is an error where it is passed."""

    @action(InputEvent)
    def act(event, ctx: RunnerContext):
        ctx.durable_execute(double, 1, reconciler=reconciler)  # pyright: ignore[reportArgumentType] - the law

    with pytest.raises(RunParked, match="reconciler"):
        handled(memory, act)


ON = ["short_term_write", "sensory_write", "long_term_update", "long_term_get", "long_term_search"]
READS = ["short_term_read", "sensory_read"]


def settings(*, on: list[str], run_begin: str = "off") -> MemoryEvents:
    every = dict.fromkeys([*ON, *READS], "off") | dict.fromkeys(on, "values")
    return MemoryEvents(**every, run_begin=run_begin)  # pyright: ignore[reportArgumentType] - details


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({}, settings(on=ON)),
        ({"memory.generate-event": False}, settings(on=[])),
        ({"memory.generate-event": "true"}, settings(on=ON + READS)),
        (
            {
                "memory.generate-event": "false",
                "memory.generate-event.long-term-update": True,
                "memory.generate-event.short-term-write": "TRUE",
            },
            settings(on=["long_term_update", "short_term_write"]),
        ),
        (
            {"memory.generate-event": True, "memory.generate-event.long-term-search": False},
            settings(on=[name for name in ON + READS if name != "long_term_search"]),
        ),
        (
            {
                "agent-run.begin-event": "true",
                "num-async-threads": 4,
                "memory.generate-event": None,
            },
            settings(on=ON, run_begin="values"),
        ),
    ],
)
def test_switches_of_memory_events(config, found) -> None:
    """A kind's own switch, else the master switch, else what Flink Agents has."""
    assert memory_events(config) == found


def test_a_switch_is_true_or_false() -> None:
    """Anything else is an error that names the option."""
    with pytest.raises(InvalidInput, match=r"generate-event\.sensory-read"):
        memory_events({"memory.generate-event.sensory-read": "yes"})


def test_a_summary_of_both_roles_says_who_said_what(memory: Memory) -> None:
    """Without a model, too: nobody is shown to have said what the other said."""
    said = [
        ("user", "I moved to Lisbon. My new flat is small"),
        ("assistant", "Lisbon is sunny. Is your flat near the river?"),
        ("user", "It is near the river. The rent is high."),
        ("assistant", "Rents in Lisbon are high everywhere."),
    ]
    history = LongTermMemory(memory.key("ada")).create_memory_set(
        "h", ChatMessage, capacity=4, compaction_strategy=Summarize(n=4, max_tokens=200)
    )
    history.add([ChatMessage(role, text) for role, text in said])
    history.add(ChatMessage("user", "Bye"))
    summary, bye = history.get()
    assert (summary.compacted, bye.value) == (True, ChatMessage("user", "Bye"))
    assert summary.value.role == "system"
    whose = {"User": said[0][1] + said[2][1], "Assistant": said[1][1] + said[3][1]}
    lines = re.findall(
        r"(User|Assistant): (.+?)(?= User:| Assistant:|$)", summary.value.content, re.MULTILINE
    )
    assert {who for who, _ in lines} == {"User", "Assistant"}
    assert all(text.strip() in whose[who] for who, text in lines)
    assert sum(len(text) for _, text in lines) > 60

    alone = LongTermMemory(memory.key("ada")).create_memory_set(
        "one", ChatMessage, capacity=4, compaction_strategy=Summarize(n=4)
    )
    alone.add([ChatMessage("user", text) for _, text in said])
    alone.add(ChatMessage("user", "Bye"))
    assert alone.get()[0].value.role == "user"
    assert "User:" not in alone.get()[0].value.content
