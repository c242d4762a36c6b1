"""What other systems export, as items: what is kept, what is left out, and what is refused."""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Memory
from alveus.errors import InvalidInput, StoreBusy
from alveus.transfer import (
    CHUNK,
    LAYOUTS,
    OWN_TARGETS,
    ItemLine,
    Load,
    Loaded,
    Source,
    Target,
    import_file,
    import_source,
    langgraph,
    layout_of,
    survey,
    survey_file,
)
from alveus.transfer.import_source import Invalid, JsonRecord
from alveus.transfer.mem0 import KINDS, Entity, Mem0Memory, Mem0Reader, end_of

ADA = Target("ada")
NOON = datetime(2025, 2, 5, 12, tzinfo=UTC)


@pytest.fixture
def memory():
    with Memory.open(embedder="words") as opened:
        yield opened


def document(found, name="file.json", **style):
    return Source(name, io.BytesIO(json.dumps(found, **style).encode()))


def lines(*found):
    return Source("file.jsonl", io.BytesIO("\n".join(map(json.dumps, found)).encode()))


def bring(memory, file, target: Target | None = ADA, **options):
    layout = layout_of(file)
    found = survey(file, layout, target)
    done = Load(memory, **options).run(file, layout, target)
    assert done.added + done.kept + done.updated == sum(found.items.values())
    return found


def items(memory, key="ada", name="default"):
    return {item.id: item for item in memory.key(key).set(name).list()}


def only(memory, **names):
    (item,) = items(memory, **names).values()
    return item


# --- plain items -------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [lines, lambda *found: document(list(found), indent=2)])
def test_a_text_is_an_item_and_the_rest_of_it_is_kept(memory, file):
    """A text alone is enough; what an item has is its own, and other fields are metadata."""
    told = file(
        {"text": "Prefers window seats."},
        {
            "id": 7,
            "text": "Lives in Lisbon.",
            "time": "2025-02-05T12:00:00Z",
            "speaker": "Ada",
            "role": "user",
            "session": "monday",
            "importance": 0.5,
            "valid_from": 1738756800,
            "expire_at": "2100-01-01T00:00:00Z",
            "metadata": {"by": "form"},
            "by": "form",
            "tags": ["home"],
            "retired": None,
        },
        {"value": {"seat": "3A"}, "text": "Sits in 3A.", "set": "seats"},
    )
    assert bring(memory, told).layout == "items"
    found = items(memory)
    home = found.pop("7")
    assert [item.value for item in found.values()] == ["Prefers window seats."]
    assert (home.text, home.time, home.valid_from) == ("Lives in Lisbon.", NOON, NOON)
    assert (home.speaker, home.role, home.session, home.importance) == (
        "Ada",
        "user",
        "monday",
        0.5,
    )
    assert home.expire_at == datetime(2100, 1, 1, tzinfo=UTC)
    assert home.metadata == {"by": "form", "tags": ["home"]}
    seat = only(memory, name="seats")
    assert (seat.value, seat.text) == ({"seat": "3A"}, "Sits in 3A.")
    assert bring(memory, told).entries == 3
    assert len(items(memory)) == 2


def test_items_name_their_keys(memory):
    """Without a target each goes to its key; no item goes to another key than it names."""
    file = lines({"text": "tea", "key": "ada"}, {"text": "wine", "key": "bob", "set": "drinks"})
    bring(memory, file, None)
    assert (only(memory).text, only(memory, key="bob", name="drinks").text) == ("tea", "wine")
    assert only(memory).metadata == {}
    with pytest.raises(InvalidInput, match=r"^file\.jsonl:2: it has the key 'bob', but"):
        bring(memory, file, ADA)
    with pytest.raises(InvalidInput, match=r"^file\.jsonl:1: .*goes into knowledge"):
        bring(memory, file, Target())
    with pytest.raises(InvalidInput, match=r"^file\.jsonl:2: the field 'key' for"):
        bring(memory, lines({"text": "x", "key": "ada"}, {"text": "y"}), None)
    bring(memory, lines({"text": "beer", "key": "seat", "user": "cid"}), Target(key_from="user"))
    assert only(memory, key="cid").metadata == {"key": "seat"}


def test_a_field_of_another_name_is_the_text(memory):
    """`text_from` reads items of any names, and a format that fits more closely is preferred."""
    note = {"body": "Prefers window seats.", "by": "form"}
    survey(lines(note), "items", Target("ada", text_from="body"))
    file = lines(note)
    Load(memory).run(file, "items", Target("ada", text_from="body"))
    assert (only(memory).text, only(memory).metadata) == ("Prefers window seats.", {"by": "form"})
    message = {"role": "user", "content": "x", "text": "y"}
    assert layout_of(lines(message)) == "chat"


# --- chats -------------------------------------------------------------------------------------

SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "ok"},
    {"role": "assistant", "content": "ok"},
    {"role": "user", "content": "ok"},
]


@pytest.mark.parametrize(
    "file",
    [
        document(SAID),
        document(SAID, indent=2),
        lines(*SAID),
        document({"messages": SAID}),
        document([{"messages": SAID}], indent=1),
        lines({"messages": SAID}),
    ],
    ids=["list", "indented", "lines", "conversation", "conversations", "fine-tuning"],
)
def test_messages_are_items_however_they_are_written(memory, file):
    """A list, lines, or conversations: the same messages, and said again is said twice."""
    assert bring(memory, file).layout == "chat"
    found = list(memory.key("ada").list())
    assert [(i.role, i.text) for i in found] == [(m["role"], m["content"]) for m in SAID]
    assert bring(memory, file).entries == len(memory.key("ada").set("default")) == len(SAID)


def test_parts_of_a_message_are_read(memory):
    """Texts are joined; pictures and what nobody can read are metadata; nothing is dropped."""
    content = [
        {"type": "text", "text": "What is"},
        "this?",
        {"type": "input_text", "text": {"value": "And that?", "annotations": []}},
        {
            "type": "image_url",
            "image_url": {"url": "https://example.org/a.png"},
            "caption": "a cat",
        },
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
        {"type": "input_audio", "input_audio": {"format": "wav"}},
        {"type": "refusal", "refusal": "No."},
    ]
    file = document([{"role": "user", "content": content, "name": "Ada", "model": "m"}])
    assert bring(memory, file).skipped == {"is a picture inside a message: its data is left out": 1}
    item = only(memory)
    assert item.text == "What is\nthis?\nAnd that?\nNo."
    assert item.speaker == "Ada"
    assert item.metadata == {
        "model": "m",
        "images": ["https://example.org/a.png", "data:image/png;base64"],
        "caption": ["a cat"],
        "parts": [content[5]],
    }


def test_a_call_of_a_tool_is_kept_and_an_empty_message_is_counted(memory):
    """A message that says nothing but calls a tool is one; one that says nothing at all is not."""
    calls = [{"id": "c-1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    file = lines(
        {"role": "user", "content": "Call f.", "tool_calls": None},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "name": "f", "tool_call_id": "c-1", "content": "7"},
        {"role": "assistant", "content": " "},
        {"role": "assistant", "content": [], "id": None, "metadata": None},
    )
    assert bring(memory, file).skipped == {"has no text": 2}
    _, called, answer = memory.key("ada").list()
    assert (called.text, called.metadata) == ("", {"tool_calls": calls})
    assert (answer.role, answer.speaker) == ("tool", None)
    assert answer.metadata == {"name": "f", "tool_call_id": "c-1"}


def test_imported_messages_are_those_of_a_conversation(memory):
    """With their roles, names and calls of tools: what a user said is nobody else's."""
    call = {"id": "c1", "type": "function", "function": {"name": "seats", "arguments": "{}"}}
    said = [
        {"id": "1", "role": "user", "name": "Ada", "content": "Which seats are free?"},
        {"id": "2", "role": "assistant", "content": "", "tool_calls": [call]},
        {"id": "3", "role": "tool", "tool_call_id": "c1", "content": "12A"},
        {"id": "4", "role": "assistant", "content": "12A is free."},
    ]
    bring(memory, lines(*said))
    talk = memory.key("ada").conversation("default")
    assert talk.get_memory() == said
    assert talk.messages() == [{k: v for k, v in one.items() if k != "id"} for one in said]
    assert talk.messages(recent_n=2) == talk.messages()[1:]  # a call stays with its answer
    other = memory.key("bob").conversation("talk")
    other.load_state_dict(talk.state_dict())
    assert other.get_memory() == said


def test_an_answer_that_names_no_call_is_no_tool_s_to_a_model(memory):
    """As in ChatGPT's exports: a model's server would refuse the whole request."""
    said = {"id": "1", "role": "tool", "content": "42"}
    bring(memory, lines(said))
    talk = memory.key("ada").conversation("default")
    assert talk.get_memory() == [said]
    assert talk.messages() == [{"role": "assistant", "content": "42"}]


def test_a_conversation_is_a_session(memory):
    """Its id and the place of a message make the message's id; its time is the message's."""
    chat = {
        "id": "monday",
        "title": "Seats",
        "created_at": 1738756800,
        "messages": [
            {"role": "user", "content": "Which seat?"},
            {"role": "assistant", "content": "Window.", "id": "m", "created_at": 1738756860},
        ],
    }
    bring(memory, lines(chat))
    one, two = items(memory).values()
    assert (one.id, one.session, one.time) == ("monday/1", "monday", NOON)
    assert (two.id, two.time) == ("monday/m", NOON + timedelta(minutes=1))
    assert one.metadata == {"title": "Seats"}
    chat["messages"].append({"role": "user", "content": "Thanks."})
    bring(memory, lines(chat))
    assert len(items(memory)) == 3


def test_conversations_without_ids_are_told_apart_by_what_was_said(memory):
    """The same first words do not make one conversation of two; twice the same are two."""
    first = {"messages": SAID[:2]}
    bring(memory, lines(first, {"messages": SAID}, first))
    assert len(items(memory)) == 2 + len(SAID) + 2
    assert len({item.session for item in items(memory).values()}) == 3


def exported(**changes):
    """A conversation as ChatGPT exports it, with an answer that was asked for again."""

    def said(number, role, content, **facts):
        kind = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
        return {
            "id": f"m-{number}",
            "author": {"role": role, "name": None, "metadata": {}},
            "create_time": None if number == 3 else 1738756800 + number,
            "content": kind,
            "recipient": "all",
            "metadata": facts,
        }

    spoken = {"content_type": "audio_transcription", "text": "See?", "direction": "in"}
    image = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_1"}
    nodes = [
        ("root", None, None),
        ("n-0", "root", said(0, "system", "", is_visually_hidden_from_conversation=True)),
        ("n-1", "n-0", said(1, "user", {"content_type": "user_editable_context"})),
        ("n-2", "n-1", said(2, "user", "Which seat?")),
        ("n-3", "n-2", said(3, "assistant", "Aisle.")),
        ("n-4", "n-2", said(3, "assistant", "Window.", model_slug="m-1")),
        ("n-5", "n-4", said(5, "user", {"content_type": "multimodal_text",
                                        "parts": [image, spoken]})),
        ("n-6", "n-5", said(6, "assistant", {"content_type": "code", "text": "draw()"})
            | {"recipient": "tool"}),
        ("n-7", "n-6", said(7, "assistant", "")),
    ]  # fmt: skip
    mapping = {i: {"id": i, "parent": p, "message": m, "children": []} for i, p, m in nodes}
    chat = {"id": "c", "title": "Seats", "create_time": 1738756800.5, "mapping": mapping}
    return chat | {"current_node": "n-7"} | changes


def test_the_branch_that_a_chat_shows_is_imported(memory):
    """Of ChatGPT's tree only what is shown; the rest is counted by reason."""
    found = bring(memory, document([exported()]))
    assert found.skipped == {
        "is hidden in the chat": 1,
        "is of ChatGPT's kind 'user_editable_context'": 1,
        "is on a branch that the chat left": 1,
        "has no text": 1,
    }
    asked, answer, picture, code = memory.key("ada").list()
    assert (asked.id, asked.role, asked.session) == ("c/m-2", "user", "c")
    assert asked.metadata == {"title": "Seats"}
    assert (answer.text, answer.metadata["model"]) == ("Window.", "m-1")
    assert answer.time == asked.time == NOON + timedelta(seconds=2)
    assert (picture.text, picture.metadata["images"]) == ("See?", ["sediment://file_1"])
    assert (code.text, code.metadata["recipient"]) == ("draw()", "tool")


@pytest.mark.parametrize(
    ("chat", "problem"),
    [
        (exported(id=None), 'needs an "id"'),
        (exported(current_node="gone"), "no message 'gone'"),
        (exported(current_node=None), "the 2 branches"),
        (exported(mapping={"n-7": {"parent": "n-7"}}), "form a circle"),
        (exported(mapping={"n-7": {"parent": 7}}), "no message 7"),
    ],
)
def test_a_broken_tree_is_named(chat, problem):
    """Not one message of a conversation is guessed at."""
    with pytest.raises(InvalidInput, match=r"^file\.json:1: record 1: ") as raised:
        survey(document([chat]), "chat", ADA)
    assert problem in str(raised.value)


def test_a_chat_of_one_branch_needs_no_last_message(memory):
    """Where there is but one way through the tree, it is that one."""
    nodes = {
        "a": {"message": None},
        "b": {
            "parent": "a",
            "message": json.loads(json.dumps(exported()["mapping"]))["n-2"]["message"],
        },
    }
    bring(
        memory,
        document(
            [
                exported(mapping=nodes, current_node=None),
                exported(id="d", mapping={}, current_node=None),
            ]
        ),
    )
    assert list(items(memory)) == ["c/m-2"]


# --- LoCoMo ------------------------------------------------------------------------------------


def sample(**changes):
    talk = {
        "speaker_a": "Ines",
        "speaker_b": "Tomas",
        "session_2_date_time": "12:05 am on 6 February, 2025",
        "session_2": [{"speaker": "Tomas", "dia_id": "D2:1", "text": "Home at last."}],
        "session_10": [],
        "session_10_date_time": "1:00 pm on 9 February, 2025",
        "session_1_date_time": "7:42 pm on 5 February, 2025",
        "session_1": [
            {"speaker": "Ines", "dia_id": "D1:1", "text": "Are you home?"},
            {
                "speaker": "Tomas", "dia_id": "D1:2", "text": "", "blip_caption": "a sofa",
                "img_url": ["https://example.org/sofa.jpg"], "query": "sofa",
            },
            {"speaker": "Ines", "dia_id": "D1:3", "text": ""},
        ],
        "session_11_date_time": "1:00 pm on 10 February, 2025",
    }  # fmt: skip
    return {"sample_id": "conv-1", "qa": [], "conversation": talk | changes}


def test_a_sample_of_locomo_keeps_when_it_was_said(memory):
    """Sessions in their order, at their times; captions are read, search phrases are not."""
    found = bring(memory, document([sample()], indent=1), Target(key_from="sample_id"))
    assert (found.layout, found.skipped) == ("locomo", {"has no text": 1})
    one, two, three = memory.key("conv-1").list()
    assert (one.id, one.session, one.speaker) == ("conv-1/D1:1", "conv-1/session_1", "Ines")
    assert one.time == two.time == datetime(2025, 2, 5, 19, 42, tzinfo=UTC)
    assert two.metadata == {"caption": "a sofa", "images": ["https://example.org/sofa.jpg"]}
    assert three.time == datetime(2025, 2, 6, 0, 5, tzinfo=UTC)


def test_a_zone_moves_times_that_have_none(memory):
    """What happened at 7:42 pm in Lisbon did so at another moment than in Tokyo."""
    target = Target("ada", zone=timezone(timedelta(hours=9)))
    bring(memory, document([sample()]), target)
    assert items(memory)["conv-1/D1:1"].time == datetime(2025, 2, 5, 10, 42, tzinfo=UTC)
    bring(memory, lines({"role": "user", "content": "x", "time": "2025-02-05T21:00:00"}), target)
    assert next(i for i in items(memory).values() if i.role).time == NOON


# --- times of messages -------------------------------------------------------------------------

LATER = NOON + timedelta(minutes=1)
SAID_LATER = {"role": "user", "content": "x", "timestamp": "2025-02-05T12:01:00Z"}
TURN_LATER = {"speaker": "Ines", "text": "x", "timestamp": "2025-02-05T12:01:00Z"}


@pytest.mark.parametrize(
    "record",
    [
        SAID_LATER,
        SAID_LATER | {"timestamp": 1738756860},
        SAID_LATER | {"timestamp": 1738756860000},
        SAID_LATER | {"created_at": "2025-02-06T12:00:00Z"},
        {"time": "2025-02-05T12:00:00Z", "messages": [SAID_LATER]},
        {"id": "c", "sessions": [
            {"session_id": "s", "date": "2025-02-05T12:00:00Z", "turns": [TURN_LATER | {"id": "1"}]}
        ]},
        {"id": "c", "sessions": [{"session_id": "s", "turns": [
            TURN_LATER | {"id": "1", "timestamp": "12:01 pm on 5 February, 2025"}
        ]}]},
        sample(session_1=[], session_2=[TURN_LATER | {"dia_id": "D1:1"}]),
        {"id": "m", "memory": "x", "created_at": "2025-02-05T12:01:00Z"},
        {"namespace": ["a"], "key": "k", "value": SAID_LATER, "created_at": "2025-02-06T12:00:00"},
        exported(mapping={"a": {"message": {
            "author": {"role": "user"}, "create_time": 1738756860.0, "content": {"parts": ["x"]},
        }}}, current_node="a"),
    ],
    ids=[
        "iso", "seconds", "milliseconds", "created too", "in a chat", "conversation",
        "no date", "locomo", "mem0", "langgraph", "chatgpt",
    ],
)  # fmt: skip
def test_a_message_keeps_its_own_time(memory, record):
    """The time of the message wins over that of its conversation, session or row."""
    bring(memory, document([record]))
    item = only(memory)
    assert item.time == LATER
    assert "timestamp" not in item.metadata


def test_a_second_time_of_a_message_is_metadata(memory):
    """One field becomes the time of the item, and no other is lost."""
    times = {"timestamp": "2025-02-05T12:00:00Z", "created_at": "2025-02-05T12:01:00Z"}
    bring(memory, lines({"role": "user", "content": "x", **times}))
    assert only(memory).metadata == {"created_at": times["created_at"]}
    bring(memory, lines({"role": "user", "content": "y", **times}),
          Target("bob", time_from="created_at"))  # fmt: skip
    found = only(memory, key="bob")
    assert (found.time, found.metadata) == (LATER, {"timestamp": times["timestamp"]})


def test_a_field_that_only_looks_like_a_time_can_be_passed_over(memory):
    """A position in a recording is no time; the target names another field, if there is one."""
    file = lines({"role": "user", "content": "x", "timestamp": "00:12:31"})
    with pytest.raises(InvalidInput, match="--time-from names another field"):
        bring(memory, file)
    bring(memory, file, Target("ada", time_from="sent"))
    assert only(memory).metadata == {"timestamp": "00:12:31"}


def test_the_time_of_a_message_is_one_that_a_search_finds_by_its_date(memory):
    """The `date` signal and a context see when a message was sent, not when it was imported."""
    told = {"role": "user", "content": "We saw the harbour.", "timestamp": "2023-05-08T13:56:00Z"}
    left = {"role": "user", "content": "We left the harbour.", "timestamp": 1717941360}
    bring(memory, lines(told, left))
    hits = memory.key("ada").set("default").search("The harbour on 8 May 2023?")
    assert hits[0].item.time.year == 2023
    text = memory.context("When was the harbour?", key="ada", budget_tokens=500).text
    assert "2023" in text
    assert "2024" in text


# --- mem0 --------------------------------------------------------------------------------------


def remembered(number, **changes):
    return {
        "id": f"m-{number}",
        "memory": f"Fact {number}.",
        "hash": "h",
        "user_id": f"user-{number % 2}",
        "created_at": "2025-02-05T04:00:00-08:00",
        "updated_at": "2025-02-06T12:00:00Z",
        "metadata": {"topic": "travel"},
    } | changes


@pytest.mark.parametrize(
    "file",
    [
        document([remembered(1), remembered(2)]),
        document({"results": [remembered(1), remembered(2)]}),
        document({"count": 2, "results": [remembered(1), remembered(2)], "next": None}, indent=1),
        document([{"results": [remembered(1)]}, {"results": [remembered(2)]}]),
        lines(remembered(1), remembered(2)),
        lines({"results": [remembered(1)]}, {"results": [remembered(2)]}),
    ],
)
def test_memories_of_mem0_are_items(memory, file):
    """However get_all's answers were saved: ids, times and metadata are kept, users are keys."""
    target = Target(key_from="user_id", set="facts")
    found = bring(memory, file, target)
    assert (found.layout, found.keys) == ("mem0", 2)
    item = only(memory, key="user-1", name="facts")
    assert (item.id, item.text, item.time) == ("m-1", "Fact 1.", NOON)
    marks = {"user_id": "user-1", "updated_at": "2025-02-06T12:00:00Z"}
    assert item.metadata == {"topic": "travel", "mem0": marks}
    assert bring(memory, file, target).entries == 2
    assert len(items(memory, "user-0", "facts")) == 1


@pytest.mark.parametrize(
    ("field", "name", "key"),
    [
        ("user_id", "ada", "ada"),
        ("user_id", 7, "7"),
        ("user_id", "agent:x", "user:agent:x"),
        ("user_id", "user:agent:x", "user:user:agent:x"),
        ("user_id", "user:ada", "user:ada"),
        ("agent_id", "x", "agent:x"),
        ("run_id", "agent:x", "run:agent:x"),
    ],
)
def test_an_entity_of_mem0_is_a_key_that_no_other_entity_is(memory, field, name, key):
    """A user whose name looks like the key of an agent does not get the agent's memories."""
    bring(memory, lines(remembered(1, **{field: name})), Target(key_from=field))
    assert list(memory.keys()) == [key]
    assert Entity.of_key(key) == (field.removesuffix("_id"), str(name))


PIECES = ["user:", "agent:", "app:", "run:", ":", "x", "\n", "é"]


@given(st.lists(st.sampled_from(PIECES), min_size=1))
def test_each_key_is_one_entity_of_mem0(parts):
    """So no two entities have one key, and no key is without an entity."""
    key = "".join(parts)
    assert Entity.of_key(key).key == key
    for kind in KINDS:
        assert Entity.of_key(Entity(kind, key).key) == (kind, key)


OWNERS = [f"{kind}_id" for kind in KINDS]
ENTITY_NAMES = st.lists(st.sampled_from(PIECES), min_size=1).map("".join)
TEXTS = st.none() | st.just("é")
MOMENTS = st.none() | st.sampled_from([NOON, end_of(NOON.date())])


@given(
    st.dictionaries(st.sampled_from(OWNERS), ENTITY_NAMES, min_size=1),
    st.dictionaries(st.sampled_from(["mem0", "topic", "user_id"]), st.sampled_from([1, {}, "x"])),
    st.tuples(TEXTS, TEXTS, MOMENTS, MOMENTS, st.lists(ENTITY_NAMES).map(tuple)),
)
def test_a_memory_of_mem0_is_an_item_and_back(entities, metadata, others):
    """Nothing of it is lost, whatever its entities and its metadata are called."""
    actor, role, created, expires, categories = others
    kept = Mem0Memory(
        "Tea.", entities, metadata, actor, role, created, None, expires, categories=categories
    )
    item = kept.item()
    assert Mem0Memory.of_item(Entity.first(entities).key, item) == kept
    record = kept.fields() | {"id": "m"}
    line = next(Mem0Reader(OWN_TARGETS["mem0"]).read(JsonRecord(1, 1, record)))
    assert isinstance(line, ItemLine)
    assert (line.key, line.item) == (Entity.first(entities).key, replace(item, id="m"))


def test_who_said_it_and_in_which_run_is_kept(memory):
    """Runs are sessions, actors are speakers; a name that is taken is not overwritten."""
    record = remembered(
        1, run_id="r", actor_id="Ada", role="user", agent_id="bot", metadata={"agent_id": "other"},
        categories=["food"], updated_at=None, expiration_date=None,
    )  # fmt: skip
    bring(memory, lines(record))
    item = only(memory)
    assert (item.session, item.speaker, item.role) == ("r", "Ada", "user")
    marks = {"user_id": "user-1", "agent_id": "bot", "run_id": "r", "categories": ["food"]}
    assert item.metadata == {"agent_id": "other", "mem0": marks}
    taken = remembered(2, immutable=True, metadata={"immutable": "no"})
    bring(memory, lines(taken), Target("bob"))
    found = only(memory, key="bob").metadata
    assert (found["immutable"], found["mem0_immutable"]) == ("no", True)


def test_what_is_twice_in_a_file_is_one_item(memory):
    """The answers for a user and for an agent overlap: exactly alike is skipped, else refused."""
    found = bring(memory, lines(remembered(1), remembered(2), remembered(1)))
    assert found.skipped == {"is there twice with the same contents": 1}
    assert len(items(memory)) == 2
    changed = remembered(1, memory="Another fact.")
    with pytest.raises(InvalidInput, match=r"^file\.jsonl:2: 'm-1' is also on line 1,"):
        bring(memory, lines(remembered(1), changed))
    with pytest.raises(InvalidInput, match=r"^file\.json:1: record 2: .* in record 1,"):
        bring(memory, document([remembered(1), changed]))


def test_relations_of_a_graph_and_deleted_memories_are_counted(memory):
    """What is left out is said, with the reason."""
    graph = {"results": [remembered(1)], "relations": [{"source": "a", "relationship": "b"}]}
    assert bring(memory, document(graph)).skipped == {"is a relation of mem0's graph": 1}
    gone = {"id": "g", "content": "x", "state": "deleted", "metadata": {}}
    assert bring(memory, lines(gone)).skipped == {"was deleted there": 1}


def test_a_backup_of_openmemory_is_read(memory):
    """Its user's name stands for the number; numbered categories get their names."""
    kept = {
        "id": "m-1", "user_id": "7f", "content": "Likes tea.", "state": "active", "metadata": None,
        "created_at": "2025-02-05T12:00:00+00:00", "category_ids": ["c-1"],
    }  # fmt: skip
    backup = {
        "user": {"id": "7f", "user_id": "ada"},
        "categories": [{"id": "c-1", "name": "food"}],
        "memories": [kept],
    }
    bring(memory, document(backup, indent=2), Target(key_from="user_id"))
    item = only(memory)
    assert item.metadata == {
        "state": "active", "mem0": {"user_id": "ada", "categories": ["food"]},
    }  # fmt: skip
    line = {name: v for name, v in kept.items() if name not in ("user_id", "category_ids")}
    bring(memory, lines(line | {"app": "cli", "categories": ["food"]}), Target("bob"))
    assert only(memory, key="bob").metadata["app"] == "cli"


# --- LangGraph ---------------------------------------------------------------------------------


def stored(key="k", namespace=("memories", "ada"), **value):
    return {
        "namespace": list(namespace),
        "key": key,
        "value": value or {"text": "Prefers window seats."},
        "created_at": "2025-02-05T12:00:00",
        "updated_at": "2025-02-05T12:00:00",
    }


def test_items_of_a_langgraph_store_are_items(memory):
    """Their namespaces can name keys and sets; a value is kept whole, and read."""
    nested = stored("b", food={"likes": ["tea", "figs"]}, count=3, none=None)
    found = bring(
        memory,
        document({"items": [stored(), nested, stored("c", ("memories", "bob"), text=" ")]}),
        Target(key_from="namespace.-1", set_from="namespace.0"),
    )
    assert (found.layout, found.skipped) == ("langgraph", {"has no text": 1})
    one, two = items(memory, name="memories").values()
    assert (one.id, one.text, one.time) == ("memories.ada/k", "Prefers window seats.", NOON)
    assert one.metadata == {"namespace": ["memories", "ada"], "key": "k"}
    assert two.value == nested["value"]
    assert two.text == "food.likes: tea\nfood.likes: figs\ncount: 3"


def test_ids_of_langgraph_do_not_meet(memory):
    """Where a slash or a dot is in a name, another item is not taken for it."""
    bring(memory, document([stored("b/c", ("a",)), stored("c", ("a/b",)), stored("c", ("a.b",))]))
    assert list(items(memory)) == ["a/b/c", "a%2Fb/c", "a%2Eb/c"]


def test_another_field_may_be_what_search_reads(memory):
    """The text, the time, the key and the set are where the target says."""
    target = Target(
        key_from="value.who", set_from="value.kind", time_from="value.at", text_from="value.what"
    )
    value = {"who": 7, "kind": "notes", "at": 1738756800, "what": "Tea."}
    bring(memory, document([stored(**value)]), target)
    item = only(memory, key="7", name="notes")
    assert (item.text, item.time, item.value) == ("Tea.", NOON, value)


TABLE = """
CREATE TABLE store (
    prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (prefix, key)
);
"""
TTL = """
ALTER TABLE store ADD COLUMN expires_at TIMESTAMP;
ALTER TABLE store ADD COLUMN ttl_minutes REAL;
"""


def store_file(path, *rows, journal="delete", more=TTL):
    """The tables that langgraph-checkpoint-sqlite 3.1 makes, with rows in them."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", journal)
    list(db.execute(TABLE + more))
    for prefix, key, value, *expires in rows:
        db.execute(
            "INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES (?, ?, ?, "
            "'2025-02-05 12:00:00', '2025-02-06 12:00:00')",
            (prefix, key, value),
        )
        if expires:
            db.execute("UPDATE store SET expires_at = ? WHERE key = ?", (expires[0], key))
    return db


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_the_file_of_a_langgraph_store_is_read(memory, tmp_path, journal):
    """Whether somebody has it open or not; it is as before, and nothing is left beside it."""
    path = tmp_path / "store.db"
    db = store_file(
        path,
        ("memories.ada", "k", b'{"text": "Prefers window seats."}'),
        ("memories.ada", "old", '{"text": "x"}', "2020-01-01 00:00:00.5+00:00"),
        ("memories.ada", "new", '{"text": "y"}', "3020-01-01 00:00:00"),
        journal=journal,
    )
    target = Target(key_from="namespace.1", set_from="namespace.0")
    open_found = survey_file(path, target=target)
    db.close()
    before = (path.read_bytes(), sorted(tmp_path.iterdir()))
    found = import_file(memory, path, target=target)
    assert (path.read_bytes(), sorted(tmp_path.iterdir())) == before
    assert found.survey == open_found
    assert found.survey.skipped == {"had expired": 1}
    assert import_file(memory, path, target=target).done == Loaded(kept=2)
    one, two = items(memory, name="memories").values()
    assert (one.id, one.time) == ("memories.ada/k", NOON)
    assert one.metadata["updated_at"] == "2025-02-06T12:00:00+00:00"
    assert two.metadata["expires_at"] == "3020-01-01T00:00:00+00:00"


def test_a_store_without_expiry_is_read(tmp_path):
    """Earlier versions made no such column."""
    store_file(tmp_path / "s.db", ("a", "k", '{"text": "x"}'), more="").close()
    assert survey_file(tmp_path / "s.db", target=ADA).entries == 1


def test_a_store_that_is_written_to_is_not_half_read(tmp_path, monkeypatch):
    """What changes under a reader that takes no locks is refused, not mixed."""
    monkeypatch.setattr(langgraph, "PAGE", 1)
    path = tmp_path / "s.db"
    store_file(path, ("a", "k", '{"text": "x"}'), ("a", "l", '{"text": "y"}')).close()
    with langgraph.langgraph_file(path) as file:
        rows = file.records(())
        next(rows)
        with apsw.Connection(str(path)) as db:
            db.execute("DELETE FROM store")
        with pytest.raises(StoreBusy, match="import it again"):
            next(rows)


def test_what_is_not_committed_is_not_read(tmp_path):
    """A transaction that somebody is in is not there yet, and is not held up."""
    path = tmp_path / "s.db"
    db = store_file(path, ("a", "k", '{"text": "x"}'))
    db.execute("BEGIN")
    db.execute("DELETE FROM store")
    assert survey_file(path, target=ADA).entries == 1
    db.execute("COMMIT")
    assert survey_file(path, target=ADA).entries == 0
    db.pragma("cache_size", 2)
    db.execute("BEGIN")
    size = path.stat().st_size
    rows = [("a", f"{n}", '{"text": "x"}', "x" * 1000, "x") for n in range(200)]
    db.executemany("INSERT INTO store VALUES (?, ?, ?, ?, ?, NULL, NULL)", rows)
    assert path.stat().st_size > size, "the transaction has not reached the file"
    with pytest.raises(StoreBusy, match="locked"):
        survey_file(path, target=ADA)
    db.execute("ROLLBACK")
    db.close()


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (["CREATE TABLE t (x)"], "no table of a LangGraph store"),
        (["CREATE TABLE checkpoints (x)"], "checkpoints of LangGraph"),
        ([f"PRAGMA application_id = {0x616C7665}", "CREATE TABLE t (x)"], "a memory of alveus"),
        ([TABLE, "INSERT INTO store VALUES ('a', 'k', '{', NULL, NULL)"], "cannot be read"),
        ([TABLE, "INSERT INTO store VALUES ('a', 'k', '{}', 'soon', NULL)"], "Invalid isoformat"),
        ([TABLE, "INSERT INTO store VALUES ('a', 'k', '{}', 7, NULL)"], "cannot be read"),
        ([TABLE, "INSERT INTO store VALUES ('a', 'k', '[]', NULL, NULL)"], "row 1: the"),
    ],
)
def test_another_sqlite_file_is_named(tmp_path, sql, problem):
    """The error says what it is instead."""
    path = tmp_path / "s.db"
    with apsw.Connection(str(path)) as db:
        for statement in sql:
            list(db.execute(statement))
    db.close()
    with pytest.raises(InvalidInput) as raised:
        survey_file(path, target=ADA)
    assert str(path) in str(raised.value)
    assert problem in str(raised.value)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InvalidInput, match="SQLite file"):
        survey_file(path, target=ADA)


def test_a_locked_store_is_named(tmp_path):
    """Somebody who holds the file is not waited for."""
    path = tmp_path / "s.db"
    db = store_file(path, ("a", "k", '{"text": "x"}'), journal="wal")
    db.pragma("locking_mode", "exclusive")
    list(db.execute("BEGIN EXCLUSIVE; DELETE FROM store"))
    with pytest.raises(StoreBusy, match="locked"):
        survey_file(path, target=ADA)
    db.close(force=True)


# --- the memory server of MCP ------------------------------------------------------------------

ENTITIES = [
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["Likes tea."]},
    {"type": "entity", "name": "Acme", "entityType": "company", "observations": []},
]
RELATIONS = [
    {"type": "relation", "from": "Ada", "to": "Acme", "relationType": "works_at"},
    {"type": "relation", "from": "Ada", "to": "Acme", "relationType": "works_at"},
    {"type": "relation", "from": "Bob", "to": "Acme", "relationType": "left"},
]
GRAPH = {
    "entities": [{n: v for n, v in one.items() if n != "type"} for one in ENTITIES],
    "relations": [{n: v for n, v in one.items() if n != "type"} for one in RELATIONS],
}


@pytest.mark.parametrize("file", [lines(*ENTITIES, *RELATIONS), document(GRAPH), document([GRAPH])])
def test_entities_are_items(memory, file):
    """What was observed is their text; where a relation leads is metadata."""
    found = bring(memory, file, Target(None, "graph"))
    assert found.layout == "mcp-memory"
    assert found.skipped == {"is a relation of an entity that is not in the file": 1}
    ada, acme = memory.knowledge.set("graph").list()
    assert (ada.id, ada.text) == ("Ada", "Ada (person)\nLikes tea.")
    assert ada.metadata == {
        "entity": "Ada",
        "entity_type": "person",
        "relations": [{"type": "works_at", "to": "Acme"}],
    }
    assert acme.text == "Acme (company)"
    more = [dict(ENTITIES[0], observations=["Likes tea.", "Prefers window seats."])]
    bring(memory, lines(*more), Target(None, "graph"), on_existing="update")
    assert memory.knowledge.set("graph").get("Ada").text.endswith("window seats.")


# --- which format it is ------------------------------------------------------------------------


def test_a_format_that_cannot_be_told_is_not_guessed():
    """None that fits, or more than one, is an error with the names to choose from."""
    with pytest.raises(InvalidInput, match="the format is unknown") as raised:
        layout_of(lines({"what": 1}))
    assert all(name in str(raised.value) for name in LAYOUTS)
    assert "alveus import --help shows" in str(raised.value)
    both = remembered(1, role="user", content="x")
    with pytest.raises(InvalidInput, match=r"fit 2 formats; pass one as --format \(chat, mem0\)"):
        layout_of(document([both]))


def test_a_target_is_needed():
    """Only our own export, plain items and memories of mem0 name their keys."""
    with pytest.raises(InvalidInput, match="has no keys"):
        survey(lines(*SAID), "chat", None)


def test_a_record_without_its_key_is_named(memory):
    """A record goes to no key by accident."""
    file = lines(remembered(1), remembered(2, user_id=None))
    with pytest.raises(InvalidInput, match=r"^file\.jsonl:2: the field 'user_id' for"):
        bring(memory, file, Target(key_from="user_id"))
    bring(memory, file, Target("rest", key_from="user_id"))
    assert list(items(memory, "rest")) == ["m-2"]
    for path in ("metadata", "user_id.0"):
        with pytest.raises(InvalidInput, match=r"must be the text of a key|is missing"):
            bring(memory, file, Target(key_from=path))
    with pytest.raises(InvalidInput, match="be a text"):
        bring(memory, file, Target("ada", text_from="metadata"))


@pytest.mark.parametrize(
    ("layout", "record", "problem"),
    [
        ("items", {"text": 7}, 'an item needs a "text"'),
        ("items", {"value": {"a": 1}}, 'an item needs a "text"'),
        ("items", {"text": "x", "a": 1, "metadata": {"a": 2}}, "'a' has another value in"),
        ("items", {"text": "x", "expire_at": "soon"}, "field 'expire_at' cannot"),
        ("items", {"text": "x", "importance": 2}, "importance must be"),
        ("items", {"text": "x", "id": ""}, "an item's id"),
        ("chat", {"role": "user", "content": [7]}, "a part of the content is 7"),
        ("chat", {"role": "user", "content": "x", "speaker": 7}, '"speaker" must be a text'),
        ("chat", {"messages": [{"role": "user"}]}, "message 1: a message needs"),
        ("chat", {"messages": ["hi"]}, "list of objects"),
        ("chat", {"role": "user", "content": "x", "time": "2025-02-05T12:00:00"}, "no zone"),
        ("locomo", {"conversation": {"session_1": []}}, "sample_id"),
        ("locomo", {"sample_id": 1}, 'needs a "conversation"'),
        ("chat", {"role": "user", "content": "x", "timestamp": "noon"}, "field 'timestamp': the"),
        ("chat", {"role": "user", "content": "x", "timestamp": 1e300}, "out of range"),
        ("locomo", sample(session_2_date_time=None), "session_2 of 'conv-1': turn 'D2:1' needs"),
        ("locomo", sample(session_2_date_time=True), "session_2 of 'conv-1': the time True"),
        ("locomo", sample(session_2=[{"dia_id": "1", "speaker": "I"}]), "a turn needs a text"),
        ("mem0", {"id": "m", "memory": 7}, 'needs an "id"'),
        ("mem0", {"memory": "x"}, 'needs an "id"'),
        ("mem0", {"id": "m", "memory": "x", "metadata": [1]}, "metadata"),
        ("langgraph", {"namespace": [1], "key": "k", "value": {}}, "list of texts"),
        ("langgraph", {"namespace": ["a"], "key": "k", "value": 1}, "be an object"),
        ("langgraph", {"namespace": ["a"], "key": "", "value": {}}, "an item's key"),
        ("mcp-memory", {"type": "thing"}, "entity or relation"),
        ("mcp-memory", {"type": "entity", "name": "a", "observations": []}, "entityType"),
        ("mcp-memory", {"type": "relation", "from": "a", "to": 7, "relationType": "x"}, "to must"),
    ],
)
def test_a_record_that_cannot_be_used_is_named(layout, record, problem):
    """The error has the file, where the record begins, its number, and what is wrong."""
    good = {"type": "entity", "name": "x", "entityType": "", "observations": []}
    first = [good] if layout == "mcp-memory" else []
    file = document([*first, record], indent=1)
    with pytest.raises(InvalidInput) as raised:
        survey(file, layout, ADA)
    place = f"file.json:{2 + 6 * len(first)}: record {1 + len(first)}: "
    assert str(raised.value).startswith(place)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'[{"a": 1},\n {"b" 2}]', r"^f:2:7: the file is not JSON .*delimiter"),
        (b'[{"a": 1}\n {"b": 2}]', r"^f:2:2: ',' is expected here, not '{'"),
        (b'[{"a": 1},\n', r"^f:2:1: the file is not JSON"),
        (b'[{"a": 1}', r"^f:1:10: ',' is expected here, but the file ends"),
        (b'[{"a": 1}, 7]', r"^f:1: record 2 is not an object: 7"),
        (b'{"results": [7]\n}', r"^f:1: record 1 is not an object: 7"),
        (b'[{"results": [7]}]', r"^f:1: record 1 is not an object: 7"),
        (b"7", r"^f:1:1: the file must be a list or an object"),
        (b"{7: 1}", r"^f:1:3: the name of a field must be a text, not 7"),
        (b'[{"a": "\xff"}]', r"^f:1: the file is not UTF-8"),
        (b'{"a":\n' + b"[" * 200_000, r"^f:2:1: the file is nested too deeply"),
        (b'[{"a": 1,\n "a": 2}]', r"^f:1:2: .*the field 'a' occurs twice"),
        (b'{"a": 1,\n "a": 2}', r"^f:2:6: the field 'a' occurs twice"),
        (b'{"b": 1}\n{"c": {"a": 1, "a": 2}}\n', r"^f:2: .*the field 'a' occurs twice"),
        (b'{"b": 1}\n{"c": "d', r"^f:2: is not JSON .*\(Unterminated string .* at character 7\)"),
        (b"\x1f\x8b\x08", r"^f is compressed; unpack it"),
        (b"SQLite format 3\0...", r"^f is an SQLite file; pass its path"),
    ],
)
def test_a_broken_document_is_named(text, problem):
    """The error has the file, the line, and the place in it."""

    def read():
        for record in Source("f", io.BytesIO(text)).records({"results"}):
            if isinstance(record, Invalid):
                raise record.error

    with pytest.raises(InvalidInput, match=problem):
        read()


def test_a_field_that_is_there_twice_is_named_in_an_export_too():
    """Else one of the two would be lost, and nobody told."""
    text = b'{"type": "alveus", "format": 1}\n{"type": "value", "key": "a", "key": "b"}\n'
    with pytest.raises(InvalidInput, match=r"^f:2: .*the field 'key' occurs twice"):
        survey(Source("f", io.BytesIO(text)), "alveus", None)


def test_a_pipe_is_named(tmp_path):
    """A file is read twice; what can be read once is piped in, and kept meanwhile."""
    os.mkfifo(tmp_path / "pipe")
    for place, problem in ((tmp_path / "pipe", "a regular file"), (tmp_path, "is a folder")):
        with pytest.raises(InvalidInput, match=problem):
            survey_file(place)


@pytest.mark.parametrize("text", [b"", b"[]", b" [ ]\n", b'{"results": []}'])
def test_a_file_with_nothing_in_it_is_named(text):
    """Nothing to import is not success."""
    with pytest.raises(InvalidInput, match=r"^f has no records to import"):
        layout_of(Source("f", io.BytesIO(text)))


def test_a_zip_archive_is_named():
    """ChatGPT and OpenMemory give one out; the file in it is what is imported."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("conversations.json", "[]")
    with pytest.raises(InvalidInput, match="zip archive"):
        layout_of(Source("export.zip", packed))


NAMES = [
    "role", "content", "messages", "mapping", "current_node", "id", "message", "parent", "author",
    "content_type", "parts", "text", "image_url", "url", "tool_calls", "metadata", "name", "time",
    "created_at", "timestamp", "sample_id", "conversation", "session_1", "session_1_date_time",
    "dia_id",
    "speaker", "sessions", "session_id", "date", "turns", "memory", "state", "results", "user_id",
    "category_ids", "categories", "namespace", "key", "value", "items", "type", "entityType",
    "observations", "entities", "relations", "from", "to", "relationType", "n",
]  # fmt: skip
PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
    | st.sampled_from(["entity", "relation", "n", "user", "text", "2025-02-05T12:00:00Z"])
)  # fmt: skip
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=25,
)


@given(
    layout=st.sampled_from(LAYOUTS),
    records=st.lists(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8), max_size=3),
)
def test_whatever_is_in_a_file_is_read_or_refused(layout, records):
    """No contents make an importer fail otherwise than with an error that names the file."""
    for file in (document(records), lines(*records)):
        for refused in (
            refusal(survey, file, layout, Target("ada", key_from="user_id")),
            refusal(layout_of, file),
        ):
            assert refused is None or refused.startswith(file.name)


def refusal(call, *arguments):
    """What the error says, if there is one."""
    try:
        call(*arguments)
    except InvalidInput as error:
        return str(error)
    return None


# --- size --------------------------------------------------------------------------------------


class Trickle(io.BytesIO):
    """A file that gives a few bytes at a time, and remembers how far it was read."""

    most = 7

    def read(self, size=-1):
        return super().read(self.most if size < 0 else min(size, self.most))


def test_a_document_is_read_as_it_comes(memory):
    """Where a block of the file ends makes no difference."""
    records = [remembered(n, memory=f'Fäct {n} \\ " {{[ 𝄞') for n in range(20)]
    for ascii_only in (True, False):
        text = json.dumps({"count": 12345, "results": records}, ensure_ascii=ascii_only, indent=1)
        found = list(import_source.Document("f", Trickle(text.encode()), {"results"}).records())
        assert [record.fields for record in found] == records  # pyright: ignore[reportAttributeAccessIssue] - the test fails where it is another type
        assert [record.number for record in found] == list(range(1, 21))  # pyright: ignore[reportAttributeAccessIssue] - the test fails where it is another type
        assert all(record.document == {"count": 12345} for record in found)  # pyright: ignore[reportAttributeAccessIssue] - the test fails where it is another type
        begins = [n for n, line in enumerate(text.splitlines(), 1) if line == "  {"]
        assert [record.line for record in found] == begins  # pyright: ignore[reportAttributeAccessIssue] - the test fails where it is another type


def test_a_document_is_not_read_whole(monkeypatch):
    """The first record is there before the rest was read; one too long for memory is refused."""
    text = json.dumps([remembered(n) for n in range(5000)]).encode()
    handle = io.BytesIO(text)
    next(import_source.Document("f", handle, ()).records())
    assert handle.tell() == import_source.BLOCK < len(text)
    broken = io.BytesIO(text[:-10] + b"!")
    with pytest.raises(InvalidInput, match=rf"^f:1:{len(text) - 10}: "):
        list(import_source.Document("f", broken, ()).records())
    monkeypatch.setattr(import_source, "LONGEST", 1000)
    long = json.dumps([remembered(1, memory="x" * 3 * import_source.BLOCK)]).encode()
    with pytest.raises(InvalidInput, match=r"^f:1:2: a record has more than 1,000 characters"):
        list(import_source.Document("f", io.BytesIO(long), ()).records())


def test_many_keys_share_chunks(memory):
    """Memories of users that alternate are written by key, and each once."""
    records = [remembered(n, user_id=f"user-{n % 3}") for n in range(2 * CHUNK)]
    steps = []
    target = Target(key_from="user_id")
    file = document(records)
    done = Load(memory).run(file, "mem0", target, progress=steps.append)
    assert done == Loaded(added=2 * CHUNK)
    assert (len(steps), sum(steps)) == (3, 2 * CHUNK)
    found = [item.id for item in memory.key("user-1").list()]
    assert found == [f"m-{n}" for n in range(1, 2 * CHUNK, 3)]


def test_an_import_that_fails_between_keys_says_so(memory):
    """Where it is not one place in the file up to which all is done, it says that it is a part."""
    records = [remembered(n) for n in range(4)]

    def fail(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        Load(memory).run(document(records), "mem0", Target(key_from="user_id"), progress=fail)
    assert "was imported in part; repeat the same command" in raised.value.__notes__[0]
