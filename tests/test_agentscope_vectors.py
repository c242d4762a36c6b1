"""The vectors of AgentScope's messages and their memory, by their ids: kept, and mended.

A test is named after its vector: `test_a10_…` is vector A10. Its docstring says what both do, or
what AgentScope does and what fornix does instead; from these tools/make_docs.py writes
docs/agentscope-vectors.md.
"""

from __future__ import annotations

import json
import logging
import re
import sys
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
from pages import ROOT

PAGE = ROOT / "docs" / "agentscope-vectors.md"
VECTORS = [*(f"A{n:02}" for n in range(1, 106))]


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


LATER = {
    "A41": 'None, 5, a role of "bad" and metadata of any class: [], "5", two errors.',
    "A42": "The url of a picture becomes a block of content.",
    "A43": "The texts of blocks are joined without a space.",
    "A46": "Deleting a place that is not there is an IndexError.",
    "A47": "An iterator of places deletes nothing.",
    "A48": "In SQL an unused memory cannot be cleared.",
    "A49": "An id that is added again is there once.",
    "A50": "An id twice in one call is there twice, or an error.",
    "A51": "SQL counts ids that were not there as deleted.",
    "A52": "A mark finds its messages.",
    "A53": "A mark is left out.",
    "A54": "Both together.",
    "A55": "An empty mark finds nothing, or everything.",
    "A56": "A mark of 1 is a TypeError.",
    "A57": "Messages are marked, and keep their order.",
    "A58": "A mark that is there is counted again, or an error.",
    "A59": "A mark takes the place of another.",
    "A60": "A mark is taken off some.",
    "A61": "Neither a new nor an old mark: nothing, or all marks go.",
    "A62": "What has two marks is counted twice.",
    "A63": "A mark of 5 is a TypeError, or another error.",
    "A64": "The summary comes first, with a new id each time.",
    "A65": "The summary outlives a clear.",
    "A66": "Marks of 1 are a TypeError, or accepted.",
    "A67": "A tuple is accepted, or a TypeError.",
    "A68": "A change of what was returned changes the memory.",
    "A69": "A state without content is a KeyError, a bad one a ValueError; an old one is read.",
    "A70": "In SQL two users who share a session's name share its messages.",
    "A71": "In SQL names with a hyphen run into each other.",
    "A72": "In SQL two writers give one place twice.",
    "A73": "The summary is lost with the process; its messages stay out.",
    "A74": "The id of an invocation is lost.",
    "A75": "Names of files with an underscore run into each other.",
    "A76": "A session's name leaves its folder.",
    "A77": "The only message is summarised.",
    "A78": "Two messages are summarised, although three are to be kept.",
    "A79": "Of three the newest is kept.",
    "A80": "A newest message of any size is not counted.",
    "A81": "A call and its result are kept together.",
    "A82": "A summary rolls on.",
    "A83": "Below the threshold nothing happens.",
    "A84": "Of 30, 10 and 10 tokens beside 60 the first is summarised, for 80.",
    "A85": "Of 30, 15 and 10 the first two are summarised.",
    "A86": "The newest request is summarised.",
    "A87": "A message of two blocks is split between them.",
    "A88": "From 70 of 100 tokens on a context is compressed, down to a reserve of 40.",
    "A89": "The model fails: a note says that something is missing.",
    "A90": "The model fails again: all messages are gone.",
    "A91": "Results of tools are cut at 100 tokens; the rest goes to a file.",
    "A92": "A result of just as many tokens is left alone.",
    "A93": "Of six pictures the oldest becomes a hint.",
    "A94": "A reserve above the trigger is an error.",
    "A95": "Long-term memory without any name is a ValueError.",
    "A96": "Every turn records all of the conversation again.",
    "A97": "What was recalled is recorded as new.",
    "A98": "A turn records what is new in it; what was recalled is left out.",
    "A99": "What several keywords find is there once.",
    "A100": "A search that fails does not fail the reply.",
    "A101": "A file that a model chooses and nobody has is left out.",
    "A102": "Ranks of two lists are fused: 0.7 and 0.3, over 60 and the rank.",
    "A103": "What is first in both has 0.016393.",
    "A104": "BM25 with 1.5 and 0.75 scores three texts 0.492150, 0.431196 and 1.185883.",
    "A105": "Scores are weighted by kind: an insight twice, twice again where the time matches.",
}
"""Vectors of a later part, and what AgentScope does: no test has them yet."""


def test_every_vector_has_one_place():
    """No vector is missing, and none is there twice: it is a test, or of a later part."""
    source = Path(__file__).read_text(encoding="utf-8")
    named = [one.upper() for one in re.findall(r"^def test_(a\d+)_", source, re.MULTILINE)]
    assert sorted([*named, *LATER]) == sorted(VECTORS)
    rows = re.findall(r"^\| (A\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(VECTORS)


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
    """Both: a message has content, id, name, role, timestamp and url."""
    assert sorted(Msg("u", "A")) == ["content", "id", "name", "role", "timestamp", "url"]


def test_a02_items_are_attributes():
    """Both: ``m.name`` is ``m["name"]``; what is not there is an AttributeError."""
    message = Msg("u", "A")
    assert message.name == message["name"] == "u"
    with pytest.raises(AttributeError, match="no attribute 'zzz'"):
        message.zzz  # noqa: B018 - reading it raises


def test_a03_a_message_as_a_line():
    """Both: ``name: content``."""
    assert Msg("u", "A").to_str() == "u: A"


def test_a04_a_thought():
    """Both: a thought is named so, in its line too."""
    thought = Tht("x")
    assert (thought.name, thought.to_str()) == ("thought", "thought thought: x")


@pytest.mark.parametrize("message", [Msg("u", "A", mood="glad"), Tht("x")])
def test_a05_serialised_and_read_again(message):
    """Both: an equal object, with its id and timestamp, of its class."""
    again = deserialize(message.serialize())
    assert again == message
    assert type(again) is type(message)


def test_a06_a_class_that_is_not_known():
    """AgentScope: an error whose text has unformatted braces.

    fornix: one that names the type.
    """
    with pytest.raises(InvalidInput, match="'Zzz'"):
        deserialize('{"__type": "Zzz"}')


def test_a07_nothing_is_added(make):
    """Both: adding None adds nothing."""
    memory = make()
    assert memory.add(None) == []
    assert memory.size() == 0


def test_a08_an_id_is_added_once(make):
    """Both: the same message twice is there once."""
    memory = make()
    memory.add(A)
    memory.add(A)
    assert memory.size() == 1


def test_a09_twice_in_one_call(make):
    """AgentScope: duplicates of one call are kept. fornix: an id is there once."""
    memory = make()
    memory.add(A)
    memory.add([B, B])
    assert said(memory.get_memory()) == ["A", "B"]


def test_a10_equal_plain_dicts(make):
    """AgentScope: dicts without an id are two.

    fornix: the same; with dedupe="content" they are one.
    """
    plain = {"name": "Eve", "content": "x"}
    by_id, by_content = make(), make(dedupe="content")
    for memory in (by_id, by_content):
        memory.add([plain, dict(plain)])
    assert (by_id.size(), by_content.size()) == (2, 1)


def test_a11_a_tuple(make):
    """AgentScope: the tuple is kept as one unit. fornix: it is two messages."""
    memory = make()
    memory.add((A, B))
    assert memory.size() == 2


def test_a12_the_last_ones(abc, caplog):
    """Both: the last two; more than there are is all, with a warning; None is all."""
    assert abc.get_memory(recent_n=2) == [B, C]
    with caplog.at_level(logging.WARNING):
        assert abc.get_memory(recent_n=99) == [A, B, C]
    assert "99 messages were asked for" in caplog.text
    assert abc.get_memory() == [A, B, C]


def test_a13_the_last_none(abc):
    """AgentScope: the last 0 are all. fornix: none."""
    assert abc.get_memory(recent_n=0) == []


def test_a14_fewer_than_none(abc):
    """AgentScope: the last -1 are all but the first. fornix: an error."""
    with pytest.raises(ValueError, match="-1"):
        abc.get_memory(recent_n=-1)


def test_a15_places_count_inside_what_is_looked_at(abc):
    """Both: with the last two, place 0 is the first of those."""
    assert abc.get_memory(recent_n=2, filter_func=lambda i, _: i == 0) == [B]


def test_a16_a_filter(abc):
    """Both: by role."""
    assert abc.get_memory(filter_func=lambda _, unit: unit.role == "user") == [A, C]


def test_a17_what_is_returned_is_a_copy(abc):
    """AgentScope: a change of the list that was returned changes the memory.

    fornix: it is a copy.
    """
    found = abc.get_memory()
    found[0]["content"] = "changed"
    found.clear()
    assert abc.get_memory() == [A, B, C]


def test_a18_places_that_are_not_there(abc, caplog):
    """Both: a warning, and nothing is deleted."""
    with caplog.at_level(logging.WARNING):
        assert abc.delete(-1) == 0
        assert abc.delete(100) == 0
    assert "none at [-1]" in caplog.text
    assert abc.size() == 3


def test_a19_several_places(abc):
    """Both: messages of several places are deleted."""
    assert abc.delete([0, 2]) == 2
    assert abc.get_memory() == [B]


@pytest.mark.parametrize("kind", [tuple, set, iter])
def test_a20_any_iterable(make, kind):
    """AgentScope: places are an int or a list.

    fornix: or any iterable, as its documentation says.
    """
    memory = make()
    memory.add([A, B])
    assert memory.delete(kind([0])) == 1
    assert memory.get_memory() == [B]


def test_a21_what_is_no_place(make):
    """AgentScope: nothing is said of it where the memory is empty. fornix: a TypeError."""
    with pytest.raises(TypeError, match="index"):
        make().delete("x")


def test_a22_export_without_a_target(abc):
    """AgentScope: a NotImplementedError; a list that is asked for is the memory's own.

    fornix: a ValueError, and a copy.
    """
    with pytest.raises(ValueError, match="to_mem"):
        abc.export()
    copy = abc.export(to_mem=True)
    copy[0]["content"] = "changed"
    assert abc.get_memory() == [A, B, C]


def test_a23_export_to_a_file(abc, tmp_path):
    """AgentScope: an array of objects.

    fornix: the same; each says its class and the format's version besides.
    """
    file = tmp_path / "messages.json"
    assert abc.export(file_path=str(file)) is None
    found = json.loads(file.read_text())
    assert [{k: v for k, v in one.items() if k[:2] != "__"} for one in found] == [A, B, C]
    assert {(one["__type"], one["__format"]) for one in found} == {("Msg", 1)}
    assert [path.name for path in tmp_path.glob("messages*")] == ["messages.json"]


def test_a24_load_a_file(abc, make, tmp_path):
    """AgentScope: the messages are added, and an UnboundLocalError is raised.

    fornix: they are added.
    """
    abc.export(file_path=tmp_path / "messages.json")
    other = make()
    other.load(str(tmp_path / "messages.json"))
    assert other.get_memory() == [A, B, C]


def test_a25_load_over_what_is_held(abc, make, tmp_path):
    """AgentScope: the old messages are lost, and the new ones.

    fornix: the new ones take the place of the old, or nothing is changed.
    """
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
    """Both: a list is added; one message takes the place of what is held."""
    memory = make()
    memory.load([A, B, C])
    assert memory.size() == 3
    memory.load(A, overwrite=True)
    assert memory.get_memory() == [A]


def test_a27_load_json(make):
    """Both: a text that is JSON."""
    memory = make()
    memory.load('[{"name": "u", "content": "1"}, {"name": "u", "content": "2"}]')
    assert said(memory.get_memory()) == ["1", "2"]


def test_a28_what_is_no_json(abc):
    """AgentScope: a JSONDecodeError, and nothing is changed.

    fornix: the same; the error does not repeat the text.
    """
    with pytest.raises(json.JSONDecodeError, match="Cannot load") as raised:
        abc.load("[{bad", overwrite=True)
    assert "{bad" not in str(raised.value)
    assert isinstance(raised.value, InvalidInput)
    assert abc.size() == 3


def test_a29_a_number(make):
    """AgentScope: the number 5 is stored. fornix: a ValueError."""
    with pytest.raises(ValueError, match="int"):
        make().load("5")


def test_a30_no_embedding_model(make):
    """Both: a RuntimeError."""
    with pytest.raises(RuntimeError, match="Embedding model is not provided"):
        make().add(A, embed=True)


def test_a31_no_embeddings_yet(abc):
    """AgentScope: an AttributeError. fornix: None, or what the model makes."""
    assert abc.get_embeddings() == [None, None, None]


def vectors(make: Any) -> TemporaryMemory:
    memory = make()
    memory.add([{**A, "embedding": [1, 0]}, {**B, "embedding": [0, 1]}, {**C, "embedding": None}])
    return memory


def test_a32_embeddings_that_are_missing(make):
    """Both: those that are missing are made, and stay."""
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
    """Both: score, place and message."""
    memory = embedded(make)
    hits = memory.retrieve_by_embedding([1, 0.1], lambda a, b: float(np.dot(a, b)))
    assert [(hit["score"], hit["index"]) for hit in hits] == [(1.0, 0)]
    assert hits[0]["memory"]["content"] == "A"


def test_a34_two_in_their_order(make):
    """Both: in their order; otherwise the nearest comes first."""
    assert found(embedded(make), top_k=2) == [("A", 1.0), ("C", 0.68)]


def test_a35_all_and_none(make):
    """Both: None is all, in order; 0 is none."""
    memory = embedded(make)
    assert found(memory, top_k=None) == [("A", 1.0), ("B", 0.1), ("C", 0.68)]
    assert found(memory, top_k=0) == []


@pytest.mark.parametrize("query", ["where?", Msg("u", "where?")])
def test_a36_a_query_is_embedded(make, query):
    """AgentScope: the text goes to the metric, which raises.

    fornix: the model makes its vector.
    """
    memory = embedded(make)
    hits = memory.retrieve_by_embedding(
        query, lambda a, b: float(np.dot(a, b)), embedding_model=lambda _: [0.0, 1.0]
    )
    assert said(hit["memory"] for hit in hits) == ["B"]


# --- of later versions ----------------------------------------------------------------------------


def test_a37_what_is_added(make):
    """AgentScope: a dict and a text are refused.

    fornix: a dict is a message, a text is refused.
    """
    memory = make()
    memory.add({"name": "Eve", "content": "x"})
    with pytest.raises(ValueError, match="str"):
        memory.add("x")
    assert memory.size() == 1


def test_a38_a_tuple_of_messages(make):
    """Both: two messages."""
    memory = make()
    memory.add((A, B))
    assert memory.get_memory() == [A, B]


def test_a39_embeddings_as_it_is_added(make):
    """AgentScope: an error, messages have no such field. fornix: kept with the message."""
    memory = make(embedding_model=lambda texts: [[1.0, 2.0] for _ in texts])
    memory.add(A, embed=True)
    assert memory.get_embeddings() == [[1.0, 2.0]]


def test_a40_loaded_twice(make, tmp_path):
    """Both: ids are kept, so that what is loaded twice is there once."""
    first, other = make(), make()
    first.add([A, B])
    first.export(file_path=tmp_path / "messages.json")
    for _ in range(2):
        other.load(str(tmp_path / "messages.json"))
    assert other.get_memory() == [A, B]


def test_a44_from_a_dict():
    """AgentScope: the dict is changed. fornix: it is as it was."""
    items = {"__type": "Msg", "name": "u", "content": "x", "role": "user"}
    before = dict(items)
    assert Msg.from_dict(items).content == "x"
    assert items == before


def test_a45_a_module_that_is_named():
    """AgentScope: the module that a text names is imported. fornix: it is refused."""
    for named in ('{"__type": "os"}', '{"__type": "os.path", "name": "u", "content": "x"}'):
        with pytest.raises(InvalidInput, match="not known"):
            deserialize(named)
    text = '{"__module__": "antigravity", "__name__": "X", "name": "u", "content": "x"}'
    assert type(deserialize(text)) is Msg
    assert "antigravity" not in sys.modules


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


def test_the_first_of_one_id_stays_where_it_is(make):
    """Of two messages with one id in a call the first is added, at its place."""
    memory = make()
    memory.add([A, B, {**A, "content": "other"}])
    assert said(memory.get_memory()) == ["A", "B"]


def test_a_class_of_a_program(make):
    """A message of a class of the caller's own is kept as a `Msg`, with its items."""

    class Mine(Msg):
        pass

    memory = make()
    memory.add([Mine("u", "x"), MessageBase("u", "y")])
    assert [type(unit) for unit in memory.get_memory()] == [Msg, Msg]
    assert type(deserialize(Mine("u", "x").serialize())) is Msg


def test_a_class_that_nobody_knows_is_not_stored(abc):
    """What could not be read back is refused, and the rest stays readable."""
    with pytest.raises(InvalidInput, match="'Zzz'"):
        abc.add({"__type": "Zzz", "content": "x"})
    assert abc.get_memory() == [A, B, C]


def test_embeddings_of_messages_without_an_id(make):
    """Made once, kept in one commit, and not made again."""
    memory, asked = make(), []

    def model(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[float(len(text)), 1.0] for text in texts]

    memory.add([{"name": "u", "content": "a"}, {"name": "u", "content": "bb"}])
    assert memory.get_embeddings(model) == memory.get_embeddings(model) == [[1, 1], [2, 1]]
    assert asked == ["a", "bb"]


def test_in_a_batch_all_is_of_one_commit(tmp_path):
    """Messages that take the place of others in a batch: with its commit, or not at all."""
    with Memory.open(tmp_path / "app.db", embedder="words") as opened:
        ada = opened.key("ada")
        memory = TemporaryMemory(memory=ada)
        memory.add([A, B])
        with pytest.raises(InvalidInput), ada.batch() as batch:  # noqa: PT012 - what a block does before it raises is the test
            broken = TemporaryMemory(memory=batch)
            broken.load([C], overwrite=True)
            broken.load("5")
        assert memory.get_memory() == [A, B]
        with ada.batch() as batch:
            TemporaryMemory(memory=batch).load([B, C], overwrite=True)
        assert memory.get_memory() == [B, C]


def test_what_is_only_promised():
    """The base classes do nothing themselves, and say so."""
    with pytest.raises(NotImplementedError):
        MemoryBase().get_memory()
    with pytest.raises(NotImplementedError):
        MessageBase("a", "b").to_str()
