"""Messages of every form come back from a conversation as they were added to it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Memory
from alveus.conversation import message_items
from alveus.errors import InvalidValue

NAMES = st.text("abcxyz_", min_size=1, max_size=6)
IDS = NAMES.map(lambda name: f"call_{name}")
SAID = st.text("abcé🦊東\0", max_size=8)
ARGUMENTS = st.dictionaries(NAMES, st.integers() | SAID, max_size=2)
OWN = frozenset(("role", "content", "type", "id", *message_items._OF_SERVERS))
ODD = st.sampled_from(["more", "calls", "answers", "without", "$x", "cache_control"])
EXTRA = st.dictionaries(
    (NAMES | ODD).filter(lambda name: name not in OWN),
    st.none() | st.booleans() | SAID | st.lists(SAID, max_size=2),
    max_size=2,
)
"""Fields that no form has: a program's own."""


def fields(**parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(dict(parts))


def just(text: str) -> st.SearchStrategy[str]:
    return st.just(text)


PARTS = st.lists(
    fields(type=just("text"), text=SAID)
    | fields(type=just("image_url"), image_url=fields(url=SAID))
    | fields(type=just("input_audio"), input_audio=fields(data=SAID, format=just("wav"))),
    max_size=3,
)
OPENAI_CALL = fields(id=IDS, type=just("function"), function=fields(name=NAMES, arguments=SAID))
OPENAI = st.one_of(
    fields(role=st.sampled_from(["system", "developer"]), content=SAID | PARTS),
    fields(role=just("user"), content=SAID | PARTS, name=NAMES),
    fields(role=just("user"), content=SAID | PARTS),
    fields(role=just("assistant"), content=SAID | PARTS),
    fields(role=just("assistant"), content=st.none(), refusal=SAID.filter(bool)),
    fields(
        role=just("assistant"),
        content=st.none() | SAID | PARTS,
        tool_calls=st.lists(OPENAI_CALL, min_size=1, max_size=2),
    ),
    fields(role=just("tool"), content=SAID | PARTS, tool_call_id=IDS),
    fields(role=just("function"), content=SAID, name=NAMES),
)
OLLAMA = st.one_of(
    fields(role=just("user"), content=SAID, images=st.lists(SAID, min_size=1, max_size=2)),
    fields(
        role=just("assistant"),
        content=SAID,
        tool_calls=st.lists(
            fields(function=fields(name=NAMES, arguments=ARGUMENTS)), min_size=1, max_size=2
        ),
    ),
    fields(role=just("tool"), content=SAID, tool_name=NAMES),
    fields(role=just("tool"), content=SAID, name=NAMES),
    fields(role=just("tool"), content=SAID),
)
BLOCKS = st.lists(
    fields(type=just("text"), text=SAID)
    | fields(type=just("tool_use"), id=IDS, name=NAMES, input=ARGUMENTS)
    | fields(
        type=just("tool_result"),
        tool_use_id=IDS,
        content=SAID | st.lists(fields(type=just("text"), text=SAID), max_size=2),
    ),
    max_size=3,
)
ANTHROPIC = fields(role=st.sampled_from(["user", "assistant"]), content=BLOCKS)
RESPONSES = st.one_of(
    fields(
        type=just("message"),
        role=st.sampled_from(["user", "assistant"]),
        content=st.lists(fields(type=just("output_text"), text=SAID), max_size=2),
        status=just("completed"),
    ),
    fields(type=just("function_call"), call_id=IDS, name=NAMES, arguments=SAID),
    fields(
        type=just("function_call_output"),
        call_id=IDS,
        output=SAID | st.lists(fields(type=just("input_text"), text=SAID), max_size=2),
    ),
    fields(type=just("item_reference"), call=SAID),
)
CONTENTS = st.none() | SAID | PARTS | st.lists(SAID, max_size=2) | st.integers() | ARGUMENTS
ANY = fields(role=NAMES | st.sampled_from(["user", "tool", "assistant"]), content=CONTENTS)
MESSAGES = st.builds(
    lambda extra, message: extra | message,
    EXTRA,
    st.one_of(OPENAI, OLLAMA, ANTHROPIC, RESPONSES, ANY),
)


@pytest.fixture(scope="module")
def key():
    with Memory.open(embedder="words") as memory:
        yield memory.key("ada")


@given(message=MESSAGES)
def test_a_message_comes_back_as_it_was_added(key, message):
    """Whatever its form: the roles, contents, calls and fields are those that came, and no more."""
    talk = key.conversation("whole")
    (made,) = talk.add(message)
    (kept,) = talk.get_memory()
    assert kept.pop("id") == made
    assert kept == message
    talk.clear()


@given(extra=EXTRA, message=st.one_of(OPENAI, OLLAMA, ANTHROPIC))
def test_a_message_goes_to_a_server_in_the_form_in_which_it_came(extra, message):
    """Only what no form has is left out: a server refuses fields that it does not know."""
    with Memory.open(embedder="words") as memory:
        talk = memory.key("ada").conversation("talk")
        talk.add(extra | message)
        (stored,) = talk._newest()
        assert message_items.for_model(stored) == message


@given(message=RESPONSES)
def test_an_item_of_responses_goes_as_it_came(message):
    """Its type, its call and all other fields, without a role or an id that it did not have."""
    with Memory.open(embedder="words") as memory:
        talk = memory.key("ada").conversation("talk")
        talk.add(message)
        (stored,) = talk._newest()
        told = message_items.for_model(stored)
        known = message if "role" not in message else {k: message[k] for k in ("role", "content")}
        assert told == known


def test_an_answer_of_a_tool_without_an_id_is_the_tool_s(key):
    """As Ollama has it: never words of the assistant."""
    talk = key.conversation("ollama")
    call = {"function": {"name": "weather", "arguments": {"city": "Lisbon"}}}
    said = [
        {"role": "user", "content": "Is it warm?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "24 degrees", "tool_name": "weather"},
        {"role": "assistant", "content": "It is."},
    ]
    talk.add(said)
    assert talk.messages() == said
    assert talk.messages(recent_n=2) == said[2:]


def test_a_content_of_no_parts_is_no_text(key):
    """It is sent as it came, and neither search nor a chat model reads brackets."""
    talk = key.conversation("empty")
    talk.add({"role": "user", "content": []})
    assert talk.messages() == [{"role": "user", "content": []}]
    assert talk.messages(for_chat=True) == [{"role": "user", "content": ""}]


@pytest.mark.parametrize(
    "told", [{"city": "Évora", "degrees": [24, None]}, ["Évora", True], 24, {"picture": b"\x00"}]
)
def test_what_is_told_as_text_is_json(key, told):
    """Contents, arguments and outputs: a model and search read JSON, not how Python shows it."""
    text = json.dumps(told, ensure_ascii=False, default=str)
    call = {"function": {"name": "look", "arguments": told}}
    block = {"type": "tool_use", "id": "c1", "name": "look", "input": told}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": told}
    item = {"type": "function_call", "call_id": "c2", "name": "look", "arguments": told}
    forms = [
        ({"role": "user", "content": told}, text),
        ({"role": "tool", "content": told, "tool_call_id": "c1"}, text),
        ({"role": "assistant", "content": None, "tool_calls": [call]}, f"look({text})"),
        ({"role": "assistant", "content": [block]}, f"look({text})"),
        ({"role": "user", "content": [result]}, text),
        (item, f"look({text})"),
        ({"type": "function_call_output", "call_id": "c2", "output": told}, text),
    ]
    for message, shown in forms:
        assert message_items.text_of_message(message) == shown
    talk = key.conversation("values")
    talk.add(forms[0][0])
    assert talk.messages() == [{"role": "user", "content": text}]
    assert talk.get_memory()[0]["content"] == told
    talk.clear()


def test_a_content_that_cannot_be_stored_is_refused(key):
    """With the error that every value has, whatever part of a message it is."""
    endless: list[Any] = []
    endless.append({"inner": endless})
    for content in (endless, {1: "a"}, object()):
        with pytest.raises(InvalidValue):
            key.conversation("values").add({"role": "user", "content": content})


def test_a_call_of_responses_stays_with_its_output(key):
    """An output whose call was deleted is not sent; a server would refuse it."""
    talk = key.conversation("responses")
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "24 degrees"}
    ids = talk.add([{"role": "user", "content": "Is it warm?"}, call, output])
    assert talk.messages()[1:] == [call, output]
    assert talk.messages(recent_n=1) == [call, output]
    assert talk.search("degrees")[0].item.id == ids[2]
    talk.delete(ids[1])
    assert len(talk.messages()) == 1
