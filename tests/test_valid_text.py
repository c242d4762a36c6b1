"""Text as it comes: half of a surrogate pair becomes U+FFFD at every door, and is counted."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alveus import Item, Memory, memory_tools, valid_text
from alveus.errors import InvalidInput, InvalidName, InvalidValue
from alveus.store.items import valid_item
from alveus.transfer import Load, Source, Target, survey
from test_server import ServedHere
from test_wire import same

HALF = "caf\ud800!"
WHOLE = "caf\ufffd!"

CHARS = st.characters(codec=None, categories=["L", "Cs"]) | st.sampled_from("\ud83d\ude00a")
TEXTS = st.text(CHARS)
VALUES = st.recursive(
    TEXTS | st.none() | st.integers() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(value=VALUES)
@example(value=dict(zip(["\ud800", "\ud801", "\ufffd"], range(3), strict=True)))
@example(value="\ud83d\ude00 \ude00\ud83d")
def test_any_text_becomes_one_that_can_be_stored(value):
    """Nothing else changes: a value of whole texts is returned as it is, and no field is lost."""
    made, replaced = valid_text(value)
    again, none = valid_text(made)
    assert (again is made, none) == (True, 0)
    text = repr(made)
    text.encode()
    if replaced == 0 and made is not value:
        assert made != value  # two halves that were a pair
    if isinstance(value, dict | list):
        assert len(made) == len(value)
    with Memory.open(embedder="words") as memory:
        memory.key("ada").short_term.set("x", made)
        assert same(memory.key("ada").short_term.get("x"), made)


@pytest.mark.parametrize(
    ("text", "made", "replaced"),
    [
        ("whole", "whole", 0),
        ("\ud83d\ude00", "\U0001f600", 0),
        ("\ud83d", "\ufffd", 1),
        ("\ude00\ud83d", "\ufffd\ufffd", 2),
        ("\ud83d\ud83d\ude00\ude00", "\ufffd\U0001f600\ufffd", 2),
        ({"\ud800": "\udfff"}, {"\ufffd": "\ufffd"}, 2),
        (dict(zip(["\ud800", "\ufffd"], (1, 2), strict=True)), {"\ufffd\ufffd": 1, "\ufffd": 2}, 1),
        (("\ud800", [b"x"]), ("\ufffd", [b"x"]), 1),
    ],
)
def test_each_half_of_a_pair_is_counted(text, made, replaced):
    """The two halves of a character are that character, which loses nothing."""
    assert valid_text(text) == (made, replaced)


def test_the_core_says_how_to_pass_such_text():
    """An add of one's own is exact: nothing changes unasked."""
    with Memory.open(embedder="words") as memory:
        key = memory.key("ada")
        for add in (
            lambda: key.add(HALF),
            lambda: key.add("x", metadata={"a": HALF}),
            lambda: key.short_term.set("x", [HALF]),
        ):
            with pytest.raises(InvalidValue, match=r"alveus\.valid_text\(value\)\.value"):
                add()
        key.add(valid_text(HALF).value)
        with pytest.raises(InvalidName, match="lone surrogate"):
            key.add("x", id=HALF)


def test_an_item_counts_in_its_metadata():
    """Its value, texts, metadata and speaker are texts; ids are names, and stay refused."""
    made = valid_item(Item(HALF, id=HALF, metadata={"a": HALF}, speaker=HALF, texts=[HALF]))
    assert (made.value, made.speaker, made.texts) == (WHOLE, WHOLE, [WHOLE])
    assert (made.id, made.metadata) == (HALF, {"a": WHOLE, "replaced_characters": 3})
    whole = Item("x")
    assert valid_item(whole) is whole


def test_a_search_finds_with_such_a_question():
    """What is asked is not stored, so nothing has to be told."""
    with Memory.open(embedder="words") as memory:
        key = memory.key("ada")
        key.add("Prefers window seats.")
        assert len(key.search(f"window{HALF} seats")) == 1
        assert key.context(f"window seats {HALF}").messages[-1]["content"].endswith(WHOLE)


# --- conversations ------------------------------------------------------------------------------


def talks(tmp_path, kind):
    """Yield a key, in this process or behind a server."""
    if kind == "here":
        with Memory.open(embedder="words") as memory:
            yield memory.key("ada")
        return
    served = ServedHere(tmp_path)
    try:
        with Memory.open(f"http://127.0.0.1:{served.port}") as memory:
            yield memory.key("ada")
    finally:
        served.stop()


@pytest.fixture(params=["here", "behind a server"])
def key(request, tmp_path):
    yield from talks(tmp_path, request.param)


def test_a_message_goes_in_as_it_comes(key):
    """Its texts are whole, its item says how many characters were not; its id is a name."""
    talk = key.conversation("talk")
    call = {"id": HALF, "function": {"name": "f", "arguments": HALF}}
    talk.add([{"role": "user", "content": HALF}, {"role": "assistant", "tool_calls": [call]}])
    talk.add({"role": "tool", "tool_call_id": HALF, "content": [{"type": "text", "text": HALF}]})
    told = talk.messages()
    assert told[0] == {"role": "user", "content": WHOLE}
    assert told[2]["tool_call_id"] == told[1]["tool_calls"][0]["id"] == WHOLE
    counts = [item.metadata["replaced_characters"] for item in key.set("talk").list()]
    assert counts == [1, 2, 2]
    with pytest.raises(InvalidName, match="surrogate"):
        talk.add({"id": HALF, "role": "user", "content": "x"})
    talk.update_compressed_summary(HALF)
    assert talk.summary == WHOLE
    talk.load_state_dict({"content": [[{"role": "user", "content": HALF}, []]]}, strict=False)
    assert talk.get_memory()[-1]["content"] == WHOLE


# --- tools --------------------------------------------------------------------------------------


def test_a_tool_of_the_memory_says_what_it_replaced():
    """A model may write half a character; what it names stays exact."""
    with Memory.open(embedder="words") as memory:
        key = memory.key("ada")
        tools = memory_tools(key, blocks=("me",))
        answer = tools.call("remember", {"text": HALF})
        assert "1 character was no valid text" in answer.text
        assert key.list()[0].text == WHOLE
        assert WHOLE in tools.call("recall", {"query": f"{HALF} caf"}).text
        corrected = tools.call("correct", {"id": answer.ids[0], "text": f"tea {HALF}{HALF}"})
        assert "2 characters were" in corrected.text
        assert tools.call("forget", {"id": f"{answer.ids[0]}\ud800"}).is_error
        assert "1 character" in tools.call("update_block", {"block": "me", "text": HALF}).text


# --- the server ---------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path):
    here = ServedHere(tmp_path)
    yield here
    here.stop()


def test_a_request_is_answered_with_the_number(served):
    """Of items, changes, values and texts to learn from; names are refused."""
    ada = {"key": "ada"}
    body = {"items": [{"id": "i", "value": HALF, "metadata": {HALF: [HALF]}}]}
    status, told = served.ask("POST", "/v1/items", body, **ada)
    assert (status, told) == (201, {"ids": ["i"], "replaced_characters": 3})
    item = served.ask("GET", "/v1/item", id="i", **ada)[1]
    assert item["metadata"] == {WHOLE: [WHOLE], "replaced_characters": 3}
    changed = served.ask("PATCH", "/v1/item", {"value": f"{HALF}{HALF}"}, id="i", **ada)[1]
    assert (changed["value"], changed["replaced_characters"]) == (WHOLE * 2, 2)
    told = served.ask("PUT", "/v1/exact", {"value": [HALF]}, path="x", **ada)[1]
    assert (told["value"], told["replaced_characters"]) == ([WHOLE], 1)
    told = served.ask("POST", "/v1/learn", {"texts": [f"I live in Lisbon.{HALF}"]}, **ada)[1]
    assert told["replaced_characters"] == 1
    hits = served.ask("POST", "/v1/search", {"query": HALF}, **ada)
    assert hits[0] == 200
    named = {"items": [{"id": HALF, "value": "x"}]}
    assert served.ask("POST", "/v1/items", named, **ada)[0] == 400
    whole = served.ask("POST", "/v1/items", {"items": [{"id": "w", "value": "x"}]}, **ada)[1]
    assert whole == {"ids": ["w"]}


EXACT_CALLS: dict[str, dict[str, Any]] = {
    "add": {"call": "set.add_many", "set": {}, "items": [{"value": HALF}]},
    "metadata": {
        "call": "set.add_many",
        "set": {},
        "items": [{"value": "x", "metadata": {"a": HALF}}],
    },
    "update": {"call": "set.update", "set": {}, "id": "i", "value": HALF},
    "supersede": {"call": "set.supersede", "set": {}, "id": "i", "value": {"value": HALF}},
    "admit": {"call": "set.admit", "set": {}, "value": {"value": HALF}},
    "set": {"call": "exact.set", "path": ["x"], "value": {HALF: 1}},
    "append": {"call": "exact.append", "path": ["x"], "value": HALF},
}


@pytest.mark.parametrize("call", EXACT_CALLS.values(), ids=EXACT_CALLS)
def test_the_calls_of_python_are_exact_behind_a_server(served, call):
    """One by itself, and several: they refuse such text as the core does, and change nothing."""
    ada = {"key": "ada"}
    served.ask("POST", "/v1/items", {"items": [{"id": "i", "value": "x"}]}, **ada)
    before = served.ask("GET", "/v1/export")
    for path, body in (("/v1/call", call), ("/v1/batch", {"calls": [call]})):
        status, told = served.ask("POST", path, body, **ada)
        assert (status, told["error"]["type"]) == (400, "InvalidValue")
        assert "alveus.valid_text(value).value" in told["error"]["message"]
    assert served.ask("GET", "/v1/export") == before


@pytest.mark.parametrize("infer", [True, False])
def test_a_client_of_mem0_adds_and_changes_such_text(served, infer):
    """Its texts are whole, the answer has the number; ids and roles are names, and refused."""
    said = {"role": "user", "content": [{"type": "text", "text": f"I live in Lisbon{HALF}"}]}
    about = {"user_id": "ada", "infer": infer, "metadata": {HALF: HALF}}
    body = {**about, "messages": [{**said, "name": HALF}]}
    told = served.ask("POST", "/v3/memories/add/", body)[1]
    assert told["replaced_characters"] == 4
    (made,) = told["results"]
    assert "Lisboncaf\ufffd" in made["memory"]
    found = {"query": f"Lisbon{HALF}", "filters": {"user_id": "ada"}}
    (hit,) = served.ask("POST", "/v3/memories/search/", found)[1]["results"]
    assert hit["metadata"][WHOLE] == WHOLE
    assert hit["metadata"]["replaced_characters"] == (2 if infer else 4)
    change = {"text": HALF, "metadata": {"a": [HALF]}}
    changed = served.ask("PUT", f"/v1/memories/{made['id']}/", change)[1]
    assert (changed["memory"], changed["replaced_characters"]) == (WHOLE, 2)
    together = {"memories": [{"memory_id": made["id"], **change}]}
    assert served.ask("PUT", "/v1/batch/", together)[1]["replaced_characters"] == 2
    history = served.ask("GET", f"/v1/memories/{made['id']}/history/")[1]
    assert history[-1]["new_memory"] == WHOLE
    for named in ({"user_id": HALF}, {"messages": [{**said, "role": HALF}]}):
        assert served.ask("POST", "/v3/memories/add/", body | named)[0] == 400


def test_a_memory_store_keeps_such_a_content(served):
    """Its answer, which is that of Anthropic's, says how many characters were replaced."""
    named = {"name": HALF, "description": HALF, "metadata": {HALF: HALF}}
    store = served.ask("POST", "/v1/memory_stores", named)[1]
    assert (store["name"], store["description"]) == (WHOLE, WHOLE)
    assert (store["metadata"], store["replaced_characters"]) == ({WHOLE: WHOLE}, 4)
    changed = served.ask("POST", f"/v1/memory_stores/{store['id']}", {"name": HALF * 2})[1]
    assert (changed["name"], changed["replaced_characters"]) == (WHOLE * 2, 2)
    place = f"/v1/memory_stores/{store['id']}/memories"
    assert served.ask("POST", place, {"path": f"/{HALF}", "content": "x"})[0] == 400
    made = served.ask("POST", f"{place}?view=full", {"path": "/a", "content": HALF})[1]
    assert (made["content"], made["replaced_characters"]) == (WHOLE, 1)
    changed = served.ask("POST", f"{place}/{made['id']}?view=full", {"content": HALF * 2})[1]
    assert (changed["content"], changed["replaced_characters"]) == (WHOLE * 2, 2)


# --- imports ------------------------------------------------------------------------------------

FILES: dict[Any, dict[str, Any]] = {
    "items": {"text": HALF, "metadata": {"a": HALF}},
    "chat": {"role": "user", "content": HALF, "name": HALF},
    "conversation": {
        "id": "c",
        "sessions": [
            {
                "session_id": "s",
                "date": "2026-01-01T00:00:00Z",
                "turns": [{"id": "1", "speaker": HALF, "text": HALF}],
            }
        ],
    },
    "locomo": {
        "sample_id": "c",
        "conversation": {
            "session_1_date_time": "7:42 pm on 5 February, 2025",
            "session_1": [{"speaker": HALF, "dia_id": "1", "text": HALF}],
        },
    },
    "mem0": {"id": "1", "memory": HALF, "user_id": "ada", "metadata": {"a": HALF}},
    "langgraph": {"namespace": ["a"], "key": "k", "value": {"text": HALF, "b": HALF}},
    "mcp-memory": {"type": "entity", "name": "Ada", "entityType": HALF, "observations": [HALF]},
    "alveus": {
        "type": "item",
        "key": "ada",
        "set": "default",
        "value": HALF,
        "metadata": {"a": HALF},
    },
}


@pytest.mark.parametrize("layout", FILES)
def test_an_import_counts_what_it_replaced(layout):
    """In each format; the same file again adds nothing, so the ids of records are the same."""
    text = json.dumps(FILES[layout]).encode()
    target = None if layout == "alveus" else Target("ada")
    with Memory.open(embedder="words") as memory:
        for added in (1, 0):
            source = Source("file", io.BytesIO(text))
            assert survey(source, layout, target).replaced >= 1
            assert Load(memory).run(source, layout, target).added == added
        (item,) = memory.key("ada").list()
        assert "\ufffd" in item.text
        assert item.metadata["replaced_characters"] >= 1


def test_a_value_of_exact_memory_is_counted_too():
    """An export that was changed by hand may have any text."""
    line = {"type": "value", "key": "ada", "path": ["x"], "value": [HALF]}
    source = Source("file", io.BytesIO(json.dumps(line).encode()))
    with Memory.open(embedder="words") as memory:
        assert survey(source, "alveus", None).replaced == 1
        Load(memory).run(source, "alveus")
        assert memory.key("ada").short_term.get("x") == [WHOLE]


def test_names_are_refused_in_an_import():
    """Two of them would become one."""
    source = Source("file", io.BytesIO(json.dumps({"text": "x", "id": HALF}).encode()))
    with pytest.raises(InvalidInput, match="surrogate"):
        survey(source, "items", Target("ada"))


def test_metadata_that_are_none_are_refused_and_not_read():
    """Who adds such an item hears what is wrong with it, over every door."""
    item = Item("x\ud800", metadata=None)  # pyright: ignore[reportArgumentType] - on purpose
    assert valid_item(item) is item
