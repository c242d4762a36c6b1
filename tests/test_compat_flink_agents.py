"""The published calls of Flink Agents on memory sets and knowledge sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from fornix import Memory
from fornix.compat.flink_agents import ChatMessage, Knowledge, LongTermMemory
from fornix.errors import InvalidInput, InvalidValue, SetDefinitionConflict


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
    assert item.created_time <= item.last_accessed_time
    assert item.id == ids[0]
    assert history.search(query="favourite drink", limit=1)[0].value.content == "I like tea"
    assert history.size == 2
    assert long_term.get_memory_set("chat_history") == history
    assert long_term.get_memory_set("chat_history").get_recent(1)[0].value == noted


def test_a_search_is_an_access(memory: Memory) -> None:
    """L4: an item that a search returned was last accessed after it was created."""
    history = LongTermMemory(memory.key("ada")).get_or_create_memory_set("h", str)
    history.add("I like tea")
    history.search("tea", 1)
    item = history.get()[0]
    assert item.last_accessed_time > item.created_time


def test_knowledge_takes_any_storable_value(memory: Memory) -> None:
    """A knowledge item has a name and two times, and is found by the words in it."""
    rules = Knowledge(memory.knowledge).get_or_create_knowledge_set(name="house_rules")
    rules.add({"rule": "no sugar after nine", "weight": 3})
    fact = rules.get_recent(1)[0]
    assert (fact.name, fact.value["weight"]) == ("house_rules", 3)
    assert fact.created_time <= fact.updated_time
    assert rules.search("sugar", 1)[0].value == fact.value


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
    with pytest.raises(InvalidInput, match="one each"):
        notes.add(["a", "b"], ids=["1"])


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
