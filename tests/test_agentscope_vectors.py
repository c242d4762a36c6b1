"""The vectors of AgentScope's messages and their memory, by their ids: kept, and mended.

A test is named after its vector: `test_a10_…` is vector A10. Its docstring says what both do, or
what AgentScope does and what fornix does instead.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fornix import Memory
from fornix.compat.agentscope import (
    MemoryBase,
    MessageBase,
    Msg,
    PromptType,
    TemporaryMemory,
    Tht,
    deserialize,
)
from fornix.errors import InvalidInput


@pytest.fixture(params=["ram", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path):
    """Make memories of messages: in RAM, or on a key of a file."""
    opened: list[Any] = []

    def made(**options: Any) -> TemporaryMemory:
        if request.param == "file":
            memory = Memory.open(tmp_path / f"{len(opened)}.db", embedder="words")
            opened.append(memory)
            options = {"memory": memory.key("ada")} | options
        found = TemporaryMemory(**options)
        opened.append(found)
        return found

    yield made
    for one in reversed(opened):
        one.close()


A, B, C = (
    Msg("u", "A", role="user"),
    Msg("b", "B", role="assistant"),
    Msg("u", "C", role="user"),
)


def said(units: Any) -> list[Any]:
    return [unit["content"] for unit in units]


@pytest.fixture
def abc(make: Any) -> TemporaryMemory:
    """A memory of A, B and C."""
    memory = make()
    memory.add([A, B, C])
    return memory


def test_a01_items_of_a_message():
    """Kept: a message has content, id, name, role, timestamp and url."""
    assert sorted(Msg("u", "A")) == ["content", "id", "name", "role", "timestamp", "url"]


def test_a02_items_are_attributes():
    """Kept: ``m.name`` is ``m["name"]``; what is not there is an AttributeError."""
    message = Msg("u", "A")
    assert message.name == message["name"] == "u"
    with pytest.raises(AttributeError, match="no attribute 'zzz'"):
        message.zzz  # noqa: B018 - reading it raises


def test_a03_a_message_as_a_line():
    """Kept: ``name: content``."""
    assert Msg("u", "A").to_str() == "u: A"


def test_a04_a_thought():
    """Kept: a thought is named so, in its line too."""
    thought = Tht("x")
    assert (thought.name, thought.to_str()) == ("thought", "thought thought: x")


@pytest.mark.parametrize("message", [Msg("u", "A", mood="glad"), Tht("x")])
def test_a05_serialised_and_read_again(message):
    """Kept: an equal object, with its id and timestamp, of its class."""
    again = deserialize(message.serialize())
    assert again == message
    assert type(again) is type(message)


def test_a06_a_class_that_is_not_known():
    """AgentScope's error has unformatted braces; here it names the type."""
    with pytest.raises(InvalidInput, match="'Zzz'"):
        deserialize('{"__type": "Zzz"}')


def test_a07_nothing_is_added(make):
    """Kept: adding None adds nothing."""
    memory = make()
    assert memory.add(None) == []
    assert memory.size() == 0


def test_a08_an_id_is_added_once(make):
    """Kept: the same message twice is there once."""
    memory = make()
    memory.add(A)
    memory.add(A)
    assert memory.size() == 1


def test_a09_twice_in_one_call(make):
    """AgentScope keeps duplicates of one call; here an id is there once."""
    memory = make()
    memory.add(A)
    memory.add([B, B])
    assert said(memory.get_memory()) == ["A", "B"]


def test_a10_equal_plain_dicts(make):
    """Kept by default: dicts without an id are two; by content they are one."""
    plain = {"name": "Eve", "content": "x"}
    by_id, by_content = make(), make(dedupe="content")
    for memory in (by_id, by_content):
        memory.add([plain, dict(plain)])
    assert (by_id.size(), by_content.size()) == (2, 1)


def test_a11_a_tuple(make):
    """AgentScope keeps the tuple as one unit; here it is two messages."""
    memory = make()
    memory.add((A, B))
    assert memory.size() == 2


def test_a12_the_last_ones(abc, caplog):
    """Kept: the last two; more than there are is all, with a warning; None is all."""
    assert abc.get_memory(recent_n=2) == [B, C]
    with caplog.at_level(logging.WARNING):
        assert abc.get_memory(recent_n=99) == [A, B, C]
    assert "99 messages were asked for" in caplog.text
    assert abc.get_memory() == [A, B, C]


def test_a13_the_last_none(abc):
    """AgentScope gives all for 0; here none."""
    assert abc.get_memory(recent_n=0) == []


def test_a14_fewer_than_none(abc):
    """AgentScope drops the first for -1; here it is an error."""
    with pytest.raises(ValueError, match="-1"):
        abc.get_memory(recent_n=-1)


def test_a15_places_count_inside_what_is_looked_at(abc):
    """Kept: with the last two, place 0 is the first of those."""
    assert abc.get_memory(recent_n=2, filter_func=lambda i, _: i == 0) == [B]


def test_a16_a_filter(abc):
    """Kept: by role."""
    assert abc.get_memory(filter_func=lambda _, unit: unit.role == "user") == [A, C]


def test_a17_what_is_returned_is_a_copy(abc):
    """In AgentScope a change of the list changes the memory; here nothing does but its calls."""
    found = abc.get_memory()
    found[0]["content"] = "changed"
    found.clear()
    assert abc.get_memory() == [A, B, C]


def test_a18_places_that_are_not_there(abc, caplog):
    """Kept: a warning, and nothing is deleted."""
    with caplog.at_level(logging.WARNING):
        assert abc.delete(-1) == 0
        assert abc.delete(100) == 0
    assert "none at [-1]" in caplog.text
    assert abc.size() == 3


def test_a19_several_places(abc):
    """Kept."""
    assert abc.delete([0, 2]) == 2
    assert abc.get_memory() == [B]


@pytest.mark.parametrize("kind", [tuple, set, iter])
def test_a20_any_iterable(make, kind):
    """AgentScope takes lists alone; here any iterable, as its documentation says."""
    memory = make()
    memory.add([A, B])
    assert memory.delete(kind([0])) == 1
    assert memory.get_memory() == [B]


def test_a21_what_is_no_place(make):
    """AgentScope says nothing of an empty memory; here it is a TypeError."""
    with pytest.raises(TypeError, match="index"):
        make().delete("x")


def test_a22_export_without_a_target(abc):
    """AgentScope's is a NotImplementedError; here a ValueError, and a list is a copy."""
    with pytest.raises(ValueError, match="to_mem"):
        abc.export()
    copy = abc.export(to_mem=True)
    copy[0]["content"] = "changed"
    assert abc.get_memory() == [A, B, C]


def test_a23_export_to_a_file(abc, tmp_path):
    """Kept: an array of objects; each says its class and the format's version besides."""
    file = tmp_path / "messages.json"
    assert abc.export(file_path=str(file)) is None
    found = json.loads(file.read_text())
    assert [{k: v for k, v in one.items() if k[:2] != "__"} for one in found] == [A, B, C]
    assert {(one["__type"], one["__format"]) for one in found} == {("Msg", 1)}
    assert [path.name for path in tmp_path.glob("messages*")] == ["messages.json"]


def test_a24_load_a_file(abc, make, tmp_path):
    """AgentScope adds, and raises an UnboundLocalError; here it works."""
    abc.export(file_path=tmp_path / "messages.json")
    other = make()
    other.load(str(tmp_path / "messages.json"))
    assert other.get_memory() == [A, B, C]


def test_a25_load_over_what_is_held(abc, make, tmp_path):
    """AgentScope loses both; here the file's take the place of the old ones, or nothing changes."""
    abc.export(file_path=tmp_path / "messages.json")
    other = make()
    other.add(Msg("u", "old"))
    other.add(A)
    other.load(str(tmp_path / "messages.json"), overwrite=True)
    assert other.get_memory() == [A, B, C]
    (tmp_path / "bad.json").write_text('[{"name": "u", "content": "x"}, 5]')
    with pytest.raises(InvalidInput, match="message 1"):
        other.load(str(tmp_path / "bad.json"), overwrite=True)
    assert other.get_memory() == [A, B, C]


def test_a26_load_messages(make):
    """Kept: a list; one, instead of what is held."""
    memory = make()
    memory.load([A, B, C])
    assert memory.size() == 3
    memory.load(A, overwrite=True)
    assert memory.get_memory() == [A]


def test_a27_load_json(make):
    """Kept: a text that is JSON."""
    memory = make()
    memory.load('[{"name": "u", "content": "1"}, {"name": "u", "content": "2"}]')
    assert said(memory.get_memory()) == ["1", "2"]


def test_a28_what_is_no_json(abc):
    """Kept: a JSONDecodeError; nothing is changed, and the error does not repeat the text."""
    with pytest.raises(json.JSONDecodeError, match="Cannot load") as raised:
        abc.load("[{bad", overwrite=True)
    assert "{bad" not in str(raised.value)
    assert isinstance(raised.value, InvalidInput)
    assert abc.size() == 3


def test_a29_a_number(make):
    """AgentScope stores the number 5; here it is a ValueError."""
    with pytest.raises(ValueError, match="int"):
        make().load("5")


def test_a30_no_embedding_model(make):
    """Kept: a RuntimeError."""
    with pytest.raises(RuntimeError, match="Embedding model is not provided"):
        make().add(A, embed=True)


def test_a31_no_embeddings_yet(abc):
    """AgentScope's is an AttributeError; here None, or what the model makes."""
    assert abc.get_embeddings() == [None, None, None]


def vectors(make: Any) -> TemporaryMemory:
    memory = make()
    memory.add([{**A, "embedding": [1, 0]}, {**B, "embedding": [0, 1]}, {**C, "embedding": None}])
    return memory


def test_a32_embeddings_that_are_missing(make):
    """Kept: they are made, and stay."""
    memory = vectors(make)
    assert memory.get_embeddings() == [[1, 0], [0, 1], None]
    assert memory.get_embeddings(lambda _: [0.6, 0.8])[2] == [0.6, 0.8]
    assert memory.get_embeddings()[2] == [0.6, 0.8]


def found(memory: TemporaryMemory, **options: Any) -> list[tuple[str, float]]:
    hits = memory.retrieve_by_embedding([1, 0.1], lambda a, b: float(np.dot(a, b)), **options)
    return [(hit["memory"]["content"], round(hit["score"], 6)) for hit in hits]


def embedded(make: Any) -> TemporaryMemory:
    memory = vectors(make)
    memory.get_embeddings(lambda _: [0.6, 0.8])
    return memory


def test_a33_the_nearest(make):
    """Kept: score, place and message."""
    memory = embedded(make)
    hits = memory.retrieve_by_embedding([1, 0.1], lambda a, b: float(np.dot(a, b)))
    assert [(hit["score"], hit["index"]) for hit in hits] == [(1.0, 0)]
    assert hits[0]["memory"]["content"] == "A"


def test_a34_two_in_their_order(make):
    """Kept; otherwise the nearest comes first."""
    assert found(embedded(make), top_k=2) == [("A", 1.0), ("C", 0.68)]


def test_a35_all_and_none(make):
    """Kept: None is all, in order; 0 is none."""
    memory = embedded(make)
    assert found(memory, top_k=None) == [("A", 1.0), ("B", 0.1), ("C", 0.68)]
    assert found(memory, top_k=0) == []


@pytest.mark.parametrize("query", ["where?", Msg("u", "where?")])
def test_a36_a_query_is_embedded(make, query):
    """AgentScope hands the text to the metric; here the model makes its vector."""
    memory = embedded(make)
    hits = memory.retrieve_by_embedding(
        query, lambda a, b: float(np.dot(a, b)), embedding_model=lambda _: [0.0, 1.0]
    )
    assert said(hit["memory"] for hit in hits) == ["B"]


# --- the program of the document -----------------------------------------------------------------


def test_the_messages_of_the_document(caplog):
    """The calls of AgentScope's document on messages, unchanged but for their import lines."""
    m = Msg("Bob", "hello", "https://example.org/a.png", "2024-05-01 10:00:00", mood="glad")
    assert m.name == m["name"] == "Bob"
    assert m.url == m["url"]
    assert m.mood == "glad"
    assert isinstance(m, dict)
    assert m.timestamp == "2024-05-01 10:00:00"
    assert m.role == "assistant"
    assert Msg("Bob", "x").id != m.id
    m.mood = "calm"
    del m.mood
    with pytest.raises(AttributeError, match="no attribute 'mood'"):
        m.mood  # noqa: B018 - reading it raises
    assert m.to_str() == "Bob: hello"
    assert json.loads(m.serialize())["__type"] == "Msg"
    assert issubclass(Msg, MessageBase)
    assert Msg("Bob", "x").url is None
    with caplog.at_level(logging.INFO, logger="fornix.chat"):
        Msg("Bob", "hello", echo=True)
    assert "Bob: hello" in caplog.text


def test_the_memory_of_the_document(make, tmp_path, monkeypatch):
    """The calls of the document on a memory, unchanged but for their import lines."""
    monkeypatch.chdir(tmp_path)
    m = Msg("Bob", "hello", "https://example.org/a.png", "2024-05-01 10:00:00")
    two = Msg("Bob", "look", ["a.png", "b.png"], role="user")
    memory: MemoryBase = make()
    memory.add(m)
    memory.add([two, {"name": "Eve", "content": "a plain dict"}])
    assert memory.size() == 3
    assert memory.get_memory(PromptType.LIST, 2)[0] == two
    line = memory.get_memory(return_type=PromptType.STRING, recent_n=1)
    assert line == "Eve: a plain dict"
    assert memory.get_memory(filter_func=lambda _, unit: unit["name"] == "Bob") == [m, two]
    memory.delete(2)
    memory.delete(i for i in (0,))
    assert memory.get_memory() == [two]
    memory.export(file_path="messages.json")
    kept = memory.export(to_mem=True)
    memory.load("messages.json", overwrite=True)
    memory.load(kept)
    assert memory.get_memory() == [two]
    memory.load({"name": "Eve", "content": "again"})
    assert memory.size() == 2
    memory.clear()
    assert memory.size() == 0


def test_what_is_only_promised():
    """The base classes do nothing themselves, and say so."""
    with pytest.raises(NotImplementedError):
        MemoryBase().get_memory()
    with pytest.raises(NotImplementedError):
        MessageBase("a", "b").to_str()
