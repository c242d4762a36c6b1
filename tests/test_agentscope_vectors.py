"""The vectors of AgentScope's messages and their memory, by their ids: kept, and mended.

A test is named after its vector: `test_a10_…` is vector A10. Its docstring says what both do, or
what AgentScope does and what alveus does instead; from these tools/make_docs.py writes
docs/agentscope-vectors.md.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alveus import KeyMemory, Memory
from alveus.agents.messages import COMPRESSED, SUMMARY, ConversationMemory
from alveus.agents.prompt_limits import HINT, ToolResults, split_texts, with_newest_pictures
from alveus.compat.agentscope import (
    MemoryBase,
    MessageBase,
    Msg,
    PromptType,
    TemporaryMemory,
    Tht,
    deserialize,
)
from alveus.compat.reme import fused_ranks, keyword_scores, score_of_kind
from alveus.errors import EmbedderFailed, InvalidInput, ModelUnavailable, NoSuchPlace
from alveus.llm import ChatReranker, ScriptedChat
from alveus.text.budget import Budget
from pages import ROOT

PAGE = ROOT / "docs" / "agentscope-vectors.md"
ELSEWHERE = [*(ROOT / "tests").glob("integrations*/test_agentscope_*.py")]
VECTORS = [*(f"A{n:02}" for n in range(1, 106))]


def test_a_message_keeps_its_own_time() -> None:
    """Its `timestamp` is the time of its item; the order stays that in which they were added."""
    with Memory.open(":memory:", embedder="words") as memory:
        ada = memory.key("ada")
        talk = TemporaryMemory(memory=ada)
        said = [
            {"id": "a", "content": "A", "timestamp": "2023-05-08T11:56:00Z"},
            {"id": "b", "content": "B", "timestamp": "2023-05-09T11:56:00Z"},
            {"id": "c", "content": "C", "timestamp": "2023-05-07T11:56:00Z"},
        ]
        talk.add(said[:2])
        talk.add(said[2])
        talk.add(Msg("Ada", "D", id="d"))
        talk.add({"id": "e", "content": "E", "timestamp": "2022-01-01T11:56:00Z"})
        talk.add({"id": "f", "content": "F", "timestamp": "no time"})
        told: Any = talk.get_memory()
        assert told[:3] == said
        assert [one["id"] for one in told] == [*"abcdef"]

        def days(ids: str) -> list[str]:
            items = [ada.set("messages").get(one) for one in ids]
            return [f"{item.time:%Y-%m-%d}" for item in items if item and item.time]

        assert days("abc") == ["2023-05-08", "2023-05-09", "2023-05-09"]
        live = ada.set("messages").get("d")
        assert live is not None
        assert days("ef") == [f"{live.created:%Y-%m-%d}"] * 2
        talk.load(said, overwrite=True)
        assert talk.get_memory() == said
        assert days("abc") == ["2023-05-08"] + ["2023-05-09"] * 2


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


def test_every_vector_has_one_place():
    """No vector is missing, and none is there twice."""
    source = "".join(path.read_text(encoding="utf-8") for path in [Path(__file__), *ELSEWHERE])
    named = [one.upper() for one in re.findall(r"^def test_(a\d+)_", source, re.MULTILINE)]
    assert sorted(named) == sorted(VECTORS)
    rows = re.findall(r"^\| (A\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(VECTORS)


A, B, C = (Msg("u", "A", role="user"), Msg("b", "B", role="assistant"), Msg("u", "C", role="user"))


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
    """Both: ``m.name`` is ``m["name"]``; a missing field raises an AttributeError."""
    message = Msg("u", "A")
    assert message.name == message["name"] == "u"
    with pytest.raises(AttributeError, match="no attribute 'zzz'"):
        message.zzz  # noqa: B018 - reading it raises


def test_a03_a_message_as_a_line():
    """Both: a message is printed as ``name: content``."""
    assert Msg("u", "A").to_str() == "u: A"


def test_a04_a_thought():
    """Both: the printed line of a thought says that it is a thought."""
    thought = Tht("x")
    assert (thought.name, thought.to_str()) == ("thought", "thought thought: x")


@pytest.mark.parametrize("message", [Msg("u", "A", mood="glad"), Tht("x")])
def test_a05_serialised_and_read_again(message):
    """Both: a serialised message is read back as an equal object of its class, with its id and
    timestamp.
    """
    again = deserialize(message.serialize())
    assert again == message
    assert type(again) is type(message)


def test_a06_a_class_that_is_not_known():
    """AgentScope: the error message contains braces that were not formatted.

    alveus: the error names the type.
    """
    with pytest.raises(InvalidInput, match="'Zzz'"):
        deserialize('{"__type": "Zzz"}')


def test_a07_nothing_is_added(make):
    """Both: adding None adds nothing."""
    memory = make()
    assert memory.add(None) == []
    assert memory.size() == 0


def test_a08_an_id_is_added_once(make):
    """Both: a message that is added twice is stored once."""
    memory = make()
    memory.add(A)
    memory.add(A)
    assert memory.size() == 1


def test_a09_twice_in_one_call(make):
    """AgentScope: duplicates in one call are all stored. alveus: each id is stored once."""
    memory = make()
    memory.add(A)
    memory.add([B, B])
    assert said(memory.get_memory()) == ["A", "B"]


def test_a10_equal_plain_dicts(make):
    """AgentScope: two equal dicts without an id are two messages.

    alveus: the same; with dedupe="content" they are one message.
    """
    plain = {"name": "Eve", "content": "x"}
    by_id, by_content = make(), make(dedupe="content")
    for memory in (by_id, by_content):
        memory.add([plain, dict(plain)])
    assert (by_id.size(), by_content.size()) == (2, 1)


def test_a11_a_tuple(make):
    """AgentScope: a tuple is stored as one unit.

    alveus: a tuple of messages is stored as messages.
    """
    memory = make()
    memory.add((A, B))
    assert memory.size() == 2


def test_a12_the_last_ones(abc, caplog):
    """Both: recent_n=2 returns the last two; a larger number than the size returns all, with a
    warning; None returns all.
    """
    assert abc.get_memory(recent_n=2) == [B, C]
    with caplog.at_level(logging.WARNING):
        assert abc.get_memory(recent_n=99) == [A, B, C]
    assert "99 messages were asked for" in caplog.text
    assert abc.get_memory() == [A, B, C]


def test_a13_the_last_none(abc):
    """AgentScope: recent_n=0 returns all messages. alveus: recent_n=0 returns none."""
    assert abc.get_memory(recent_n=0) == []


def test_a14_fewer_than_none(abc):
    """AgentScope: recent_n=-1 returns all messages but the first.

    alveus: recent_n=-1 is an error.
    """
    with pytest.raises(ValueError, match="-1"):
        abc.get_memory(recent_n=-1)


def test_a15_positions_count_inside_what_is_looked_at(abc):
    """Both: the filter counts positions within the last recent_n messages: position 0 is the first
    of these.
    """
    assert abc.get_memory(recent_n=2, filter_func=lambda i, _: i == 0) == [B]


def test_a16_a_filter(abc):
    """Both: a filter can select messages by role."""
    assert abc.get_memory(filter_func=lambda _, unit: unit.role == "user") == [A, C]


def test_a17_what_is_returned_is_a_copy(abc):
    """AgentScope: changing the returned list changes the memory.

    alveus: the returned list is a copy.
    """
    found = abc.get_memory()
    found[0]["content"] = "changed"
    found.clear()
    assert abc.get_memory() == [A, B, C]


def test_a18_positions_that_are_not_there(abc, caplog):
    """Both: deleting positions that do not exist logs a warning and deletes nothing."""
    with caplog.at_level(logging.WARNING):
        assert abc.delete(-1) == 0
        assert abc.delete(100) == 0
    assert "none at [-1]" in caplog.text
    assert abc.size() == 3


def test_a19_several_positions(abc):
    """Both: messages at several positions are deleted in one call."""
    assert abc.delete([0, 2]) == 2
    assert abc.get_memory() == [B]


@pytest.mark.parametrize("kind", [tuple, set, iter])
def test_a20_any_iterable(make, kind):
    """AgentScope: positions are an int or a list.

    alveus: positions are an int or any iterable, as AgentScope documents.
    """
    memory = make()
    memory.add([A, B])
    assert memory.delete(kind([0])) == 1
    assert memory.get_memory() == [B]


def test_a21_what_is_no_position(make):
    """AgentScope: an invalid position raises no error if the memory is empty.

    alveus: an invalid position raises a TypeError.
    """
    with pytest.raises(TypeError, match="index"):
        make().delete("x")


def test_a22_export_without_a_target(abc):
    """AgentScope: `export` without a target raises a NotImplementedError; an exported list is the
    list of the memory.

    alveus: it raises a ValueError; an exported list is a copy.
    """
    with pytest.raises(ValueError, match="to_mem"):
        abc.export()
    copy = abc.export(to_mem=True)
    copy[0]["content"] = "changed"
    assert abc.get_memory() == [A, B, C]


def test_a23_export_to_a_file(abc, tmp_path):
    """AgentScope: the file is a JSON array of objects.

    alveus: the same; each object also has its class and the version of the format.
    """
    file = tmp_path / "messages.json"
    assert abc.export(file_path=str(file)) is None
    found = json.loads(file.read_text())
    assert [{k: v for k, v in one.items() if k[:2] != "__"} for one in found] == [A, B, C]
    assert {(one["__type"], one["__format"]) for one in found} == {("Msg", 1)}
    assert [path.name for path in tmp_path.glob("messages*")] == ["messages.json"]


def test_a24_load_a_file(abc, make, tmp_path):
    """AgentScope: `load` adds the messages, and then raises an UnboundLocalError.

    alveus: `load` adds the messages.
    """
    abc.export(file_path=tmp_path / "messages.json")
    other = make()
    other.load(str(tmp_path / "messages.json"))
    assert other.get_memory() == [A, B, C]


def test_a25_load_over_what_is_held(abc, make, tmp_path):
    """AgentScope: `load` with overwrite loses the old and the new messages.

    alveus: the new messages replace the old ones, or nothing changes.
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
    """Both: `load` of a list adds its messages; `load` of one message replaces the contents."""
    memory = make()
    memory.load([A, B, C])
    assert memory.size() == 3
    memory.load(A, overwrite=True)
    assert memory.get_memory() == [A]


def test_a27_load_json(make):
    """Both: `load` accepts a JSON text."""
    memory = make()
    memory.load('[{"name": "u", "content": "1"}, {"name": "u", "content": "2"}]')
    assert said(memory.get_memory()) == ["1", "2"]


def test_a28_what_is_no_json(abc):
    """AgentScope: invalid JSON raises a JSONDecodeError and changes nothing.

    alveus: the same; the error does not repeat the text.
    """
    with pytest.raises(json.JSONDecodeError, match="Cannot load a text, not the path of a file,"):
        abc.load("mistyped.json", overwrite=True)
    with pytest.raises(json.JSONDecodeError, match="Cannot load") as raised:
        abc.load("[{bad", overwrite=True)
    assert "{bad" not in str(raised.value)
    assert isinstance(raised.value, InvalidInput)
    assert abc.size() == 3


def test_a29_a_number(make):
    """AgentScope: `load` of "5" stores the number 5. alveus: `load` of "5" raises a ValueError."""
    with pytest.raises(ValueError, match="int"):
        make().load("5")


def test_a30_no_embedding_model(make):
    """Both: embeddings without an embedding model raise a RuntimeError."""
    with pytest.raises(RuntimeError, match="Embedding model is not provided"):
        make().add(A, embed=True)


def test_a31_no_embeddings_yet(abc):
    """AgentScope: reading embeddings before any exist raises an AttributeError.

    alveus: the embedding is None, or is made by the model.
    """
    assert abc.get_embeddings() == [None, None, None]


def vectors(make: Any) -> TemporaryMemory:
    memory = make()
    memory.add([{**A, "embedding": [1, 0]}, {**B, "embedding": [0, 1]}, {**C, "embedding": None}])
    return memory


def test_a32_embeddings_that_are_missing(make):
    """Both: missing embeddings are made and stored."""
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
    """Both: a hit has a score, a position and a message."""
    memory = embedded(make)
    hits = memory.retrieve_by_embedding([1, 0.1], lambda a, b: float(np.dot(a, b)))
    assert [(hit["score"], hit["index"]) for hit in hits] == [(1.0, 0)]
    assert hits[0]["memory"]["content"] == "A"


def test_a34_two_in_their_order(make):
    """Both: with top_k, the nearest message comes first."""
    assert found(embedded(make), top_k=2) == [("A", 1.0), ("C", 0.68)]


def test_a35_all_and_none(make):
    """Both: top_k=None returns all messages in their order; top_k=0 returns none."""
    memory = embedded(make)
    assert found(memory, top_k=None) == [("A", 1.0), ("B", 0.1), ("C", 0.68)]
    assert found(memory, top_k=0) == []


@pytest.mark.parametrize("query", ["where?", Msg("u", "where?")])
def test_a36_a_query_is_embedded(make, query):
    """AgentScope: a text query is passed to the metric, which raises.

    alveus: the model makes a vector of a text query.
    """
    memory = embedded(make)
    hits = memory.retrieve_by_embedding(
        query, lambda a, b: float(np.dot(a, b)), embedding_model=lambda _: [0.0, 1.0]
    )
    assert said(hit["memory"] for hit in hits) == ["B"]


# --- of later versions ----------------------------------------------------------------------------


def test_a37_what_is_added(make):
    """AgentScope: adding a dict or a text is refused.

    alveus: a dict is added as a message; a text is refused.
    """
    memory = make()
    memory.add({"name": "Eve", "content": "x"})
    with pytest.raises(ValueError, match="str"):
        memory.add("x")
    assert memory.size() == 1


def test_a38_a_tuple_of_messages(make):
    """Both: a tuple of two messages adds two messages."""
    memory = make()
    memory.add((A, B))
    assert memory.get_memory() == [A, B]


def test_a39_embeddings_as_it_is_added(make):
    """AgentScope: embeddings passed to `add` raise an error: messages have no such field.

    alveus: the embeddings are stored with the messages.
    """
    memory = make(embedding_model=lambda texts: [[1.0, 2.0] for _ in texts])
    memory.add(A, embed=True)
    assert memory.get_embeddings() == [[1.0, 2.0]]


def test_a40_loaded_twice(make, tmp_path):
    """Both: loaded messages keep their ids, so loading a file twice stores each message once."""
    first, other = make(), make()
    first.add([A, B])
    first.export(file_path=tmp_path / "messages.json")
    for _ in range(2):
        other.load(str(tmp_path / "messages.json"))
    assert other.get_memory() == [A, B]


def test_a41_contents_of_any_kind(make):
    """AgentScope: content of None becomes [], and 5 becomes "5"; a role of "bad" is an error, and
    so is metadata of any class.

    alveus: content is the same; any role is accepted, and values that cannot be stored are refused
    by `add`.
    """
    assert Msg("u", None).get_content_blocks() == []
    assert Msg("u", 5).get_text_content() == "5"
    assert Msg("u", "x", role="bad").role == "bad"
    with pytest.raises(TypeError):
        make().add(Msg("u", "x", metadata=object()))


def test_a42_a_picture_at_an_address():
    """Both: the blocks of a message are its text and a block with the picture at its url."""
    message = Msg("u", "c", "x.png")
    assert message.get_content_blocks() == [
        {"type": "text", "text": "c"},
        {"type": "image", "url": "x.png"},
    ]
    assert message.get_content_blocks("image") == [{"type": "image", "url": "x.png"}]
    found = Msg("u", None, ["a.mp3", "a.mp4", "a.zip", "a"]).get_content_blocks()
    assert [block["type"] for block in found] == ["audio", "video", "file", "file"]


def test_a43_texts_of_blocks():
    """Both: the texts of the blocks x and y are "xy"; a separator may be given."""
    message = Msg("u", [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}])
    assert message.get_text_content() == "xy"
    assert message.get_text_content(" ") == "x y"
    message.get_content_blocks()[0]["text"] = "changed"
    assert message.get_text_content() == "xy"
    assert Msg("u", ["x", 5]).get_text_content() == "x5"


def test_a44_from_a_dict():
    """AgentScope: `from_dict` changes the dict. alveus: `from_dict` does not change the dict."""
    items = {"__type": "Msg", "name": "u", "content": "x", "role": "user"}
    before = dict(items)
    assert Msg.from_dict(items).content == "x"
    assert items == before


def test_a45_a_module_that_is_named():
    """AgentScope: `deserialize` imports a module that the text names.

    alveus: `deserialize` refuses such a text.
    """
    for named in ('{"__type": "os"}', '{"__type": "os.path", "name": "u", "content": "x"}'):
        with pytest.raises(InvalidInput, match="must be one of"):
            deserialize(named)
    text = '{"__module__": "antigravity", "__name__": "X", "name": "u", "content": "x"}'
    assert type(deserialize(text)) is Msg
    assert "antigravity" not in sys.modules


# --- memories with marks and a summary ------------------------------------------------------------


@pytest.fixture(params=["ram", "file"])
def key(request: pytest.FixtureRequest, tmp_path: Path):
    """The memory of a key: in RAM, or in a file."""
    url = ":memory:" if request.param == "ram" else tmp_path / "app.db"
    with Memory.open(url, embedder="words") as opened:
        yield opened.key("ada")


def number(n: int, role: str = "user") -> dict[str, Any]:
    return {"id": str(n), "role": role, "content": f"number {n}"}


@pytest.fixture
def talk(key: Any) -> ConversationMemory:
    """A conversation of 0 … 4; and 5 and 6, which are important and to be done."""
    made = key.conversation("talk")
    made.add([number(n) for n in range(5)])
    made.add([number(n) for n in (5, 6)], marks=["important", "todo"])
    return made


def ids(messages: Any) -> list[str]:
    return [message["id"] for message in messages]


def test_a46_a_position_that_is_not_there(make):
    """AgentScope: deleting a position that does not exist raises an IndexError.

    alveus: the same with missing="raise"; nothing is deleted.
    """
    memory = make(missing="raise")
    memory.add([A, B])
    for place in (9, -1):
        with pytest.raises(IndexError, match=re.escape(f"2 messages, none at [{place}]")):
            memory.delete([0, place])
    assert memory.delete([0]) == 1
    with pytest.raises(NoSuchPlace) as caught:
        memory.delete([3, 4])
    assert (caught.value.places, caught.value.size) == ((3, 4), 1)
    with pytest.raises(InvalidInput, match="missing must be"):
        make(missing="ignore")


def test_a47_an_iterator_of_positions(make):
    """AgentScope: the check of the positions consumes an iterator, so nothing is deleted.

    alveus: the positions of an iterator are deleted.
    """
    memory = make()
    memory.add([A, B])
    assert memory.delete(iter([0])) == 1


def test_a48_before_its_first_use(key):
    """AgentScope: the size of a memory before its first use is 0; in SQL it raises an
    OperationalError.

    alveus: the size is 0.
    """
    empty = key.conversation("talk")
    assert (empty.size(), empty.clear(), empty.delete("x"), empty.get_memory()) == (0, 0, 0, [])
    assert key.sets() == []


def test_a49_an_id_again(talk):
    """Both: a message with an existing id is stored once."""
    assert talk.add(number(1) | {"content": "other"}) == ["1"]
    assert talk.size() == 7
    assert talk.get_memory()[1]["content"] == "number 1"


def test_a50_an_id_twice_in_one_call(key):
    """AgentScope: a message that occurs twice in one call is stored twice; in SQL it is an error.

    alveus: it is stored once.
    """
    talk = key.conversation("talk")
    talk.add([number(7), number(7)])
    assert ids(talk.get_memory()) == ["7"]


def test_a51_deleted_by_id(talk):
    """AgentScope: `delete` of three ids, two of which exist, returns 2; in SQL it returns 3.

    alveus: it returns 2.
    """
    assert talk.delete(["2", "4", "99"]) == 2
    assert ids(talk.get_memory()) == ["0", "1", "3", "5", "6"]


def test_a52_by_a_mark(talk):
    """Both: `get_memory` with a mark returns the messages with the mark."""
    assert ids(talk.get_memory(mark="important")) == ["5", "6"]


def test_a53_without_a_mark(talk):
    """Both: `get_memory` with an excluded mark returns the messages without the mark."""
    assert ids(talk.get_memory(exclude_mark="todo")) == ["0", "1", "2", "3", "4"]


def test_a54_with_one_and_without_another(talk):
    """Both: a mark and an excluded mark are both applied."""
    assert talk.get_memory(mark="important", exclude_mark="todo") == []


def test_a55_an_empty_mark(talk):
    """AgentScope: an empty mark selects nothing; in SQL it selects everything.

    alveus: an empty mark raises a ValueError.
    """
    with pytest.raises(ValueError, match="mark"):
        talk.get_memory(mark="")


def test_a56_a_mark_that_is_a_number(talk):
    """Both: a mark that is a number raises a TypeError."""
    with pytest.raises(TypeError, match="mark"):
        talk.get_memory(mark=1)


def test_a57_marked_later(talk):
    """Both: marking two messages returns 2; the messages keep their order."""
    assert talk.update_messages_mark("review", msg_ids=["6", "0"]) == 2
    assert ids(talk.get_memory(mark="review")) == ["0", "6"]
    assert ids(talk.get_memory()) == [str(n) for n in range(7)]


def test_a58_marked_again(talk):
    """AgentScope: setting a mark again returns 0 or 1, or raises an IntegrityError.

    alveus: it returns 0.
    """
    talk.update_messages_mark("review", msg_ids=["6", "0"])
    assert talk.update_messages_mark("review", msg_ids=["6", "0"]) == 0


def test_a59_a_mark_for_another(talk):
    """Both: a mark of two messages is replaced: the old mark selects none, the new mark both."""
    assert talk.update_messages_mark("done", "todo") == 2
    assert talk.get_memory("todo") == []
    assert ids(talk.get_memory("done")) == ["5", "6"]


def test_a60_a_mark_is_taken_off(talk):
    """Both: a mark is removed from one of two messages."""
    talk.update_messages_mark("done", "todo")
    assert talk.update_messages_mark(None, "done", ["5"]) == 1
    assert ids(talk.get_memory("done")) == ["6"]


def test_a61_neither_mark(talk):
    """AgentScope: without an old and a new mark, nothing changes; in SQL all marks of the message
    are removed.

    alveus: a ValueError is raised.
    """
    with pytest.raises(ValueError, match="new_mark"):
        talk.update_messages_mark(None, None, ["6"])
    assert ids(talk.get_memory("important")) == ["5", "6"]


def test_a62_deleted_by_marks(talk):
    """AgentScope: `delete_by_mark` returns 3; in SQL it returns 2.

    alveus: it returns 3, the number of messages; a message with two marks counts once.
    """
    talk.update_messages_mark("review", msg_ids=["6", "0"])
    assert talk.delete_by_mark(["important", "review"]) == 3
    assert ids(talk.get_memory()) == ["1", "2", "3", "4"]


def test_a63_deleted_by_a_number(talk):
    """AgentScope: `delete_by_mark` with a number raises a TypeError; in SQL an ArgumentError.

    alveus: it raises a TypeError.
    """
    with pytest.raises(TypeError, match="mark"):
        talk.delete_by_mark(5)


def test_a64_a_summary(talk):
    """AgentScope: the summary comes first, with a new id at each read.

    alveus: the summary comes first, and its id never changes.
    """
    talk.update_compressed_summary("SUM")
    first, again = talk.get_memory()[0], talk.get_memory()[0]
    assert (first["content"], first["role"]) == ("SUM", "user")
    assert first["id"] == again["id"] == SUMMARY
    assert talk.size() == 7
    assert ids(talk.get_memory(prepend_summary=False)) == [str(n) for n in range(7)]


def test_a65_cleared_with_its_summary(talk):
    """AgentScope: `clear` keeps the summary. alveus: `clear` deletes the summary too."""
    talk.update_compressed_summary("SUM")
    assert talk.clear() == 7
    assert (talk.get_memory(), talk.summary, talk.size()) == ([], "", 0)


def test_a66_marks_that_are_numbers(talk):
    """AgentScope: marks that are numbers raise a TypeError; Redis accepts them.

    alveus: they raise a TypeError.
    """
    with pytest.raises(TypeError, match="marks"):
        talk.add(number(7), marks=[1])
    assert talk.size() == 7


def test_a67_messages_in_a_tuple(key):
    """AgentScope: messages in a tuple are added; in SQL a TypeError is raised.

    alveus: they are added.
    """
    assert key.conversation("talk").add((number(1), number(2))) == ["1", "2"]


def test_a68_a_message_that_was_returned(talk):
    """AgentScope: changing a returned message changes the memory.

    alveus: a returned message is a copy.
    """
    found = talk.get_memory()
    found[0]["content"] = "changed"
    assert talk.get_memory()[0] == number(0)


def test_a69_states(talk, key):
    """Both: a state without content raises a KeyError, an invalid entry a ValueError; older states
    can be loaded.
    """
    other = key.conversation("other")
    with pytest.raises(KeyError):
        other.load_state_dict({})
    with pytest.raises(ValueError, match="entry 0"):
        other.load_state_dict({"content": ["x"]})
    other.load_state_dict({"content": [number(1), [number(2), ["todo"]]]})
    assert ids(other.get_memory()) == ["1", "2"]
    talk.update_compressed_summary("SUM")
    other.load_state_dict(json.loads(json.dumps(talk.state_dict())))
    assert other.state_dict() == talk.state_dict()
    assert ids(other.get_memory("important", prepend_summary=False)) == ["5", "6"]


def test_a70_two_users_of_one_name(tmp_path):
    """AgentScope: in SQL, two users with the same session name read and delete each other's
    messages.

    alveus: they do not see each other's messages.
    """
    with Memory.open(tmp_path / "app.db", embedder="words") as opened:
        alice = opened.key("alice").conversation("s")
        bob = opened.key("bob").conversation("s")
        alice.add({"role": "user", "content": "secret"})
        assert bob.get_memory() == []
        assert not bob.search("secret")
        assert bob.clear() == 0
        assert alice.size() == 1


def test_a71_names_with_hyphens(tmp_path):
    """AgentScope: in SQL, of two names that differ in hyphens the second is lost silently.

    alveus: both are stored.
    """
    with Memory.open(tmp_path / "app.db", embedder="words") as opened:
        pairs = (("a-b", "c-d"), ("a", "b-c-d"))
        talks = [opened.key(user).conversation(name) for user, name in pairs]
        for place, talk in enumerate(talks):
            talk.add({"id": "id", "role": "user", "content": f"number {place}"})
        assert [said(talk.get_memory()) for talk in talks] == [["number 0"], ["number 1"]]


def test_a72_two_writers(tmp_path):
    """AgentScope: in SQL, the positions of two writers collide.

    alveus: both writers see the same order, without gaps.
    """
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as one, Memory.open(path, embedder="words") as two:
        talks = [opened.key("ada").conversation("talk") for opened in (one, two)]
        for n in range(20):
            talks[n % 2].add(number(n))
        assert [ids(talk.get_memory()) for talk in talks] == [[str(n) for n in range(20)]] * 2
        assert ids(talks[0].get_memory(recent_n=3)) == ["17", "18", "19"]


def test_a73_a_summary_in_another_process(tmp_path):
    """AgentScope: the summary is lost with the process, and so are the messages that it covers.

    alveus: another process reads the summary.
    """
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words") as opened:
        talk = opened.key("ada").conversation("talk")
        talk.update_compressed_summary("S", talk.add([number(1), number(2)]))
    with Memory.open(path, embedder="words") as opened:
        talk = opened.key("ada").conversation("talk")
        assert said(talk.get_memory(exclude_mark=COMPRESSED)) == ["S"]
        assert talk.size() == 2


def test_a74_items_of_the_user(key):
    """AgentScope: an additional field of a message, the id of an invocation, is lost.

    alveus: every field is stored.
    """
    message = Msg("u", "x", role="user", invocation_id="i")
    assert Msg.from_dict(message.to_dict()) == message
    key.conversation("talk").add(message)
    assert key.conversation("talk").get_memory() == [message]


def test_a75_names_with_underscores(tmp_path):
    """AgentScope: two sessions whose names contain underscores share a file.

    alveus: they are two conversations.
    """
    with Memory.open(tmp_path / "app.db", embedder="words") as opened:
        opened.key("a_b").conversation("c").add(number(1))
        assert opened.key("a").conversation("b_c").size() == 0


def test_a76_a_name_that_is_a_path(tmp_path):
    """AgentScope: a session name that is a path writes outside the folder.

    alveus: the name is only a name, not a path of a file.
    """
    (tmp_path / "in").mkdir()
    with Memory.open(tmp_path / "in" / "app.db", embedder="words") as opened:
        opened.key("ada").conversation("../x").add(number(1))
        assert opened.key("ada").sets() == ["../x"]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


# --- compression ----------------------------------------------------------------------------------


def test_a77_the_only_message(key):
    """AgentScope: the only message is summarised, so the request is lost.

    alveus: the only message is kept.
    """
    talk = key.conversation("talk")
    talk.add({"id": "1", "role": "user", "content": "word " * 100})
    assert talk.compress(keep_recent=3, trigger_tokens=10).messages == 0
    assert ids(talk.get_memory()) == ["1"]


def test_a78_fewer_than_are_kept(key):
    """AgentScope: two messages are summarised, although more are to be kept.

    alveus: both are kept.
    """
    talk = key.conversation("talk")
    talk.add([number(1), number(2)])
    assert talk.compress(keep_recent=3, trigger_tokens=1).messages == 0
    assert talk.summary == ""


def test_a79_all_but_the_last(key):
    """Both: all messages but the last are summarised: the first two of three."""
    talk = key.conversation("talk")
    talk.add([{"id": n, "role": "user", "content": f"This is {n}."} for n in "xyz"])
    done = talk.compress(keep_recent=1, trigger_tokens=1)
    assert (done.messages, done.by) == (2, "extractive")
    assert "This is x." in done.summary
    assert "This is z." not in done.summary
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "z"]
    assert talk.size() == 3


def test_a80_a_newest_message_of_any_size(key):
    """AgentScope: the newest message is not counted, so nothing is summarised, however long it is.

    alveus: all messages are counted; the older ones are summarised, and the newest stays unchanged.
    """
    talk = key.conversation("talk")
    talk.add([number(1), number(2), {"id": "3", "role": "user", "content": "word " * 500}])
    assert talk.compress(keep_recent=1, trigger_tokens=200).messages == 2
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "3"]


def call_and_answer(n: int) -> list[dict[str, Any]]:
    """A tool call, and what answers it."""
    function = {"name": "look", "arguments": f'{{"at": {n}}}'}
    asked = {"id": f"c{n}", "type": "function", "function": function}
    return [
        {"id": f"asks{n}", "role": "assistant", "content": None, "tool_calls": [asked]},
        {"id": f"says{n}", "role": "tool", "tool_call_id": f"c{n}", "content": f"found {n}"},
    ]


def test_a81_a_call_and_its_result(key):
    """Both: a tool call and its result stay together, and count as one message."""
    talk = key.conversation("talk")
    talk.add([number(1), *call_and_answer(1), number(2), *call_and_answer(2)])
    talk.compress(keep_recent=1)
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "2", "asks2", "says2"]


def test_a82_a_summary_that_rolls(key):
    """AgentScope: each summary is made from the previous summary.

    alveus: the same; facts of earlier summaries stay.
    """
    talk = key.conversation("talk")
    talk.add({"role": "user", "content": "The code of the door is 4711."})
    for n in range(8):
        talk.add({"role": "assistant", "content": f"Step {n} of the plan was done. " * 3})
        talk.add({"id": f"last{n}", "role": "user", "content": f"Go on with step {n + 1}."})
        assert talk.compress(keep_recent=1).messages >= 1
        assert "4711" in talk.summary
        assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, f"last{n}"]
    assert talk.search("code of the door", limit=1)[0].item.text.endswith("4711.")


def test_a83_below_the_threshold(talk):
    """Both: below the threshold, nothing is summarised."""
    assert talk.compress(keep_recent=1, trigger_tokens=10_000).messages == 0
    assert talk.summary == ""


def sized(key: KeyMemory, *sizes: int) -> ConversationMemory:
    """A conversation of messages of so many words each, by user and assistant in turn."""
    talk = key.conversation("talk")
    for n, size in enumerate(sizes, start=1):
        talk.add({"id": str(n), "role": ROLES[n % 2], "content": "word " * size})
    return talk


ROLES = ("assistant", "user")


def words(most: int | None = None) -> Budget:
    """A budget that counts words, and nothing for a message."""
    return Budget(most, counter=lambda text: len(text.split()), message_tokens=0)


def test_a84_what_fits_is_kept(key):
    """Both: with a limit of 80 tokens, 60 of them instructions, messages of 30, 10 and 10: the
    first is summarised.
    """
    talk = sized(key, 30, 10, 10)
    assert talk.compress(keep_tokens=80, beside_tokens=60, trigger_tokens=words(80)).messages == 1
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "2", "3"]


def test_a85_what_does_not_fit_goes(key):
    """Both: with a limit of 80 tokens, 60 of them instructions, messages of 30, 15 and 10: the
    first two are summarised.
    """
    talk = sized(key, 30, 15, 10)
    assert talk.compress(keep_tokens=80, beside_tokens=60, trigger_tokens=words(80)).messages == 2
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "3"]


def test_a86_the_newest_request(key):
    """AgentScope: all messages are summarised, even the newest request.

    alveus: the newest request is always kept.
    """
    talk = sized(key, 30, 15, 30)
    assert talk.compress(keep_tokens=80, beside_tokens=60, trigger_tokens=words(80)).messages == 2
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "3"]
    talk.add(number(4, "assistant"))
    assert talk.compress(keep_recent=0, trigger_tokens=1).messages == 1
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "3"]


def blocks(*texts: str) -> list[dict[str, Any]]:
    """Blocks of text, of ten words each."""
    return [{"type": "text", "text": " ".join([text] * 10)} for text in texts]


def split_talk(key: KeyMemory) -> tuple[ConversationMemory, list[dict[str, Any]]]:
    """A conversation of 30, (10, 10) and 10 words, of which 80 are kept beside 60."""
    talk = key.conversation("talk")
    said = [
        {"id": "1", "role": "user", "content": "old " * 30},
        {"id": "2", "role": "assistant", "content": blocks("one", "two")},
        {"id": "3", "role": "user", "content": "new " * 10},
    ]
    talk.add(said)
    talk.compress(**KEPT)
    return talk, said


KEPT: Any = {"keep_tokens": 80, "beside_tokens": 60, "trigger_tokens": words(80)}


def test_a87_inside_a_message(key):
    """Both: of messages with 30, (10, 10) and 10 tokens, the second is split between its blocks."""
    talk, said = split_talk(key)
    assert "old" in talk.summary
    assert "one" in talk.summary
    assert "two" not in talk.summary
    summary, *told = talk.get_memory(exclude_mark=COMPRESSED)
    assert summary["id"] == SUMMARY
    assert told == [said[1] | {"content": blocks("two")}, said[2]]
    assert [turn["content"] for turn in talk.messages()[1:]] == [blocks("two"), "new " * 10]
    assert talk.get_memory(prepend_summary=False) == said


def test_a_split_message_is_summed_up_once(key):
    """What was split off is no part of the next summary's sources; both can be undone."""
    talk, said = split_talk(key)
    asked = ScriptedChat(['{"summary": "All that was said."}'])
    talk.add({"id": "4", "role": "user", "content": "last " * 10})
    assert talk.compress(**KEPT, model=asked).messages == 1
    assert "assistant: two two" in str(asked.requests[0].messages)
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "3", "4"]
    talk.uncompress()
    assert talk.get_memory(exclude_mark=COMPRESSED)[1]["content"] == blocks("two")
    talk.update_compressed_summary("By hand.")
    assert talk.messages()[:2] == [
        {"role": "user", "content": "By hand."},
        {"role": "assistant", "content": blocks("two")},
    ]
    talk.update_compressed_summary("All by hand.", "2")
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "3", "4"]
    talk.uncompress()
    talk.uncompress()
    talk.uncompress()
    assert talk.get_memory(exclude_mark=COMPRESSED)[:2] == said[:2]


def test_a_split_goes_on_within_its_message(key):
    """A longer message is split again where the room of later messages ends."""
    talk = key.conversation("talk")
    parts = ["apple", "bread", "cheese", "dates"]
    talk.add({"id": "1", "role": "assistant", "content": blocks(*parts)})
    talk.add({"id": "2", "role": "user", "content": "new " * 10})
    for gone in (1, 2, 3):
        left = parts[gone:]
        done = talk.compress(keep_tokens=len(left) * 10 + 10, trigger_tokens=words(40))
        assert done.messages == 0
        assert talk.get_memory(exclude_mark=COMPRESSED)[1]["content"] == blocks(*left)
        assert [one for one in parts if one in talk.summary] == parts[:gone]
    assert talk.search("apple", limit=1)[0].item.id == "1"
    talk.forget("1")
    assert (talk.summary, ids(talk.get_memory())) == ("", ["2"])


def test_no_call_is_parted_from_its_answer(key):
    """A message is not split between a tool call and what answers it, in it or behind it."""
    talk = key.conversation("talk")
    call, answer = (
        {"type": "tool_call", "id": "c", "name": "look", "input": "x"},
        {"type": "tool_result", "id": "c", "name": "look", "output": "found " * 9},
    )
    parts = [*blocks("one"), call, answer, *blocks("two")]
    talk.add({"id": "1", "role": "assistant", "content": parts})
    talk.add({"id": "2", "role": "user", "content": "new"})
    assert talk.messages()[0]["content"] == parts
    assert talk.messages(recent_n=2)[0]["content"] == parts
    talk.compress(keep_tokens=20, trigger_tokens=words(20))
    assert talk.messages()[1]["content"] == blocks("two")

    other = key.conversation("other")
    asks, says = call_and_answer(1)
    other.add([asks | {"content": blocks("one", "two")}, says, number(3)])
    other.compress(keep_tokens=16, trigger_tokens=words(16))
    _, asked, answered, _ = other.messages()
    assert (asked["content"], answered["content"]) == (blocks("two"), "found 1")


def test_a88_from_a_size_on_down_to_another(key):
    """Both: with a trigger of 70 tokens, 20 of them instructions, the last messages that fit into
    40 are kept.
    """
    talk = sized(key, 29, 10, 10)
    how = {"keep_tokens": 40, "beside_tokens": 20, "trigger_tokens": words(70)}
    assert talk.compress(**how).messages == 0
    talk.clear()
    sized(key, 30, 10, 10)
    assert talk.compress(**how).messages == 1
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "2", "3"]


def test_a94_more_is_kept_than_sets_it_off(talk):
    """Both: a limit of kept tokens above the trigger is an error."""
    with pytest.raises(InvalidInput, match="keep_tokens is 30, more than trigger_tokens, 20"):
        talk.compress(keep_tokens=30, trigger_tokens=20)
    assert talk.summary == ""


def test_a91_a_long_result(key):
    """AgentScope: of results with 20, 20 and 100 tokens and a limit of 100, the last 40 are moved
    to a file.

    alveus: 60 tokens of the last result are shown, and the whole result is stored in a set.
    """
    results = ToolResults(key)
    texts = ["word " * size for size in (20, 20, 100)]
    *kept, reference = results.shown_in_part(texts, 100, tool="look", counter=words().counter)
    assert [len(text.split()) for text in kept] == [20, 20, 60]
    assert results.read(reference[:-1].split()[-1]) == "word " * 140


def test_a92_a_result_at_its_limit(key):
    """Both: a result with exactly as many tokens as the limit is shown unchanged."""
    texts = ["word " * size for size in (20, 80)]
    kept = ToolResults(key).shown_in_part(texts, 100, tool="look", counter=words().counter)
    assert kept == texts
    assert key.sets() == []
    assert split_texts(["ab", "cd"], 2) == (["ab"], ["cd"])


def test_a93_more_pictures_than_are_shown():
    """Both: of six pictures with a limit of five, the oldest is replaced by a hint."""
    picture = {"type": "image", "source": {"type": "url", "url": "a.png"}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, picture, picture]},
        {"role": "assistant", "content": "Nice."},
        {"role": "user", "content": [picture] * 4},
        {"role": "assistant"},
    ]
    shown = with_newest_pictures(messages, 5)
    assert shown[0]["content"] == [messages[0]["content"][0], HINT, picture]
    assert shown[1:] == messages[1:]
    assert with_newest_pictures(messages, 6) == messages


def test_a101_what_a_model_chooses(key):
    """AgentScope: a file that the model names is ignored if it does not exist.

    alveus: the model rates the texts that it received; an answer about other texts is not used.
    """
    key.add_many(["Green tea.", "Black tea."])
    found = [hit.item.id for hit in key.search("tea")]
    asked = ChatReranker(ScriptedChat(['{"marks": [1, 2, 9]}'] * 9))
    hits = key.search("tea", reranker=asked)
    assert [hit.item.id for hit in hits] == found
    assert hits.reranker_failure is not None


def test_a102_two_lists_as_one():
    """Both: two ranked lists are fused with the weights 0.7 and 0.3 over 60 plus the rank."""
    fused = fused_ranks(["A", "B", "C"], ["C", "D"])
    assert list(fused) == ["C", "A", "B", "D"]
    assert [*fused.values()] == pytest.approx([0.016029, 0.011475, 0.011290, 0.004839], abs=1e-6)


def test_a103_first_in_both_lists():
    """Both: a document that is first in both lists scores 0.016393."""
    assert fused_ranks(["A"], ["A"])["A"] == pytest.approx(0.016393, abs=1e-6)


def test_a104_keywords():
    """Both: BM25 with 1.5 and 0.75 scores 0.492150, 0.431196 and 1.185883."""
    texts = ["cat sat mat", "dog ran far away", "cat cat dog"]
    expected = [0.492150, 0.431196, 1.185883]
    assert keyword_scores(texts, "cat dog") == pytest.approx(expected, abs=1e-6)
    assert keyword_scores(["", "a"], "a") == [0.0, 0.0]
    assert keyword_scores([], "cat") == []


def test_a105_kinds():
    """Both: the score of an insight is doubled, and doubled again if its time matches."""
    assert score_of_kind(0.4, "insight") == pytest.approx(0.8)
    assert score_of_kind(0.4, "insight", time_matches=True) == pytest.approx(1.6)
    assert score_of_kind(0.5, "customised observation") == pytest.approx(0.6)
    assert score_of_kind(0.9, "conversation") == pytest.approx(0.45)
    with pytest.raises(InvalidInput, match="kind must be one of"):
        score_of_kind(1, "fact")  # pyright: ignore[reportArgumentType] - wrong on purpose


def failing() -> ScriptedChat:
    return ScriptedChat([ModelUnavailable("scripted", "the model is down")] * 9)


def test_a89_the_model_fails(talk):
    """AgentScope: if the model fails, a note says that messages were left out.

    alveus: a summary is made without the model.
    """
    done = talk.compress(keep_recent=1, model=failing())
    assert (done.messages, done.by) == (6, "extractive")
    assert "down" in done.because
    assert "number 0" in done.summary
    assert ids(talk.get_memory(prepend_summary=False)) == [str(n) for n in range(7)]


def test_a90_the_model_fails_again(talk):
    """AgentScope: if the model fails again, no message and no note are left.

    alveus: the newest request is kept.
    """
    talk.compress(keep_recent=1, model=failing())
    talk.add([number(7, "assistant"), number(8)])
    talk.compress(keep_recent=0, model=failing())
    assert ids(talk.get_memory(exclude_mark=COMPRESSED)) == [SUMMARY, "8"]
    assert "number 0" in talk.summary
    assert "number 7" in talk.summary


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
    with caplog.at_level(logging.INFO, logger="alveus.chat"):
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
    """Of two messages with one id in a call the first is added, at its position."""
    memory = make()
    memory.add([A, B, {**A, "content": "other"}])
    assert said(memory.get_memory()) == ["A", "B"]


def test_an_add_says_what_is_new(make):
    """The ids of messages that were not there yet, and of no others."""
    memory = make()
    assert memory.add(A) == [A.id]
    assert memory.add([A, B]) == [B.id]
    assert memory.load([A, B]) == []


def test_a_content_is_one_with_and_without_its_embedding(make):
    """What a message says is what tells it from others where contents do."""
    memory = make(dedupe="content", embedding_model=lambda texts: [[1.0] for _ in texts])
    memory.add({"name": "u", "content": "a"}, embed=True)
    memory.add({"name": "u", "content": "a"})
    assert memory.size() == 1


def test_a_file_of_another_system(abc, tmp_path):
    """A mark of its encoding at the beginning is no part of its JSON."""
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"name": "u", "content": "x"}]), encoding="utf-8-sig")
    abc.load(path)
    assert abc.size() == 4


def test_what_is_missing_of_a_message_is_made():
    """By `from_dict`, as in a new one; what is given stays, and nothing is taken from the dict."""
    made, other = (Msg.from_dict({"name": "u", "content": "x"}) for _ in range(2))
    assert sorted(made) == sorted(Msg("u", "x"))
    assert (made.role, made.url) == ("assistant", None)
    assert made.id != other.id
    assert Msg.from_dict(A) == A


def test_two_delete_at_once(make):
    """A position is that of the moment: both delete, nothing is deleted twice, and nobody fails."""
    memory = make()
    memory.add([Msg("u", str(n)) for n in range(80)])
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(lambda: sum(memory.delete(0) for _ in range(30))) for _ in "ab"]
        assert [one.result() for one in both] == [30, 30]
    assert memory.size() == 20


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
    """Messages that replace others in a batch: with its commit, or not at all."""
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


def test_an_export_takes_the_place_of_files_alone(abc, tmp_path):
    """A device, a pipe or a folder stays what it is; of a link, what it leads to is written."""
    os.mkfifo(tmp_path / "pipe")
    for wrong in (tmp_path, tmp_path / "pipe", tmp_path / "no" / "file", "", "\0", "\ud800"):
        with pytest.raises(InvalidInput, match="cannot be written"):
            abc.export(file_path=wrong)
    for wrong in (5, b"x"):
        with pytest.raises(InvalidInput, match="path"):
            abc.export(file_path=wrong)
    with pytest.raises(InvalidInput, match="regular"):
        abc.load(tmp_path / "pipe")
    (tmp_path / "real.json").touch()
    (tmp_path / "link.json").symlink_to("real.json")
    abc.export(file_path=tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    fresh = TemporaryMemory()
    fresh.load(tmp_path / "real.json")
    assert fresh.get_memory() == [A, B, C]
    assert sorted(one.name for one in tmp_path.iterdir() if ".db" not in one.name) == [
        "link.json",
        "pipe",
        "real.json",
    ]


def test_two_exports_to_one_path(tmp_path):
    """Each is whole when it appears, whoever else writes there."""
    path, sizes = tmp_path / "talk.json", (3, 400)
    path.write_text("[]", encoding="utf-8")
    memories = [TemporaryMemory() for _ in sizes]
    for memory, size in zip(memories, sizes, strict=True):
        memory.add([Msg("u", f"{n}") for n in range(size)])

    def write(memory):
        for _ in range(30):
            memory.export(file_path=path)

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(write, memory) for memory in memories]
        while not all(one.done() for one in both):
            assert len(json.loads(path.read_text(encoding="utf-8"))) in (0, *sizes)
        for one in both:
            one.result()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.add({"__type": ["Msg"], "content": "x"}),
        lambda memory: memory.load('{"content": ' + "1" * 5000 + "}"),
        lambda memory: memory.get_memory(filter_func=5),
        lambda memory: memory.retrieve_by_embedding([1.0], 5),
        lambda memory: memory.retrieve_by_embedding([1.0], lambda *_: None),
        lambda memory: memory.retrieve_by_embedding([1.0], lambda *_: float("nan")),
        lambda memory: memory.update_config(5),
        lambda memory: TemporaryMemory(5),  # pyright: ignore[reportArgumentType] - wrong on purpose
        lambda memory: TemporaryMemory(name=""),
        lambda memory: deserialize(None),  # pyright: ignore[reportArgumentType] - wrong on purpose
        lambda memory: Msg.from_dict(5),  # pyright: ignore[reportArgumentType] - wrong on purpose
    ],
)
def test_what_cannot_be_meant_is_an_error_of_ours(call: Any):
    """It says what was wrong, and nothing is changed."""
    memory = TemporaryMemory()
    memory.add([{**A, "embedding": [1.0]}, {**B, "embedding": [1.0]}])
    before = memory.get_memory()
    with pytest.raises(InvalidInput):
        call(memory)
    assert memory.get_memory() == before


@pytest.mark.parametrize("answer", [None, [], [[], [], []], [[[1.0]]] * 3, 5, [["a"]] * 3])
def test_what_a_model_answers_is_checked(abc, answer):
    """What is not one vector of numbers for each text is an error, and nothing is kept of it."""
    with pytest.raises(EmbedderFailed):
        abc.get_embeddings(lambda _: answer)
    assert abc.get_embeddings() == [None, None, None]


def test_the_last_less_than_none_says_which_argument(abc):
    """An error names what the caller wrote."""
    with pytest.raises(InvalidInput, match="recent_n"):
        abc.get_memory(recent_n=-1)


def test_what_is_only_promised():
    """The base classes do nothing themselves, and say so."""
    with pytest.raises(NotImplementedError):
        MemoryBase().get_memory()
    with pytest.raises(NotImplementedError):
        MessageBase("a", "b").to_str()
