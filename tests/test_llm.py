"""Language models: what may be asked, what a server may do wrong, and what a script says."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import subprocess
import sys
import threading
import traceback
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action, llm
from alveus.compat.dbgpt import OpenAILLMClient
from alveus.errors import (
    AlveusError,
    InvalidInput,
    ModelAnswerInvalid,
    ModelClosed,
    ModelFailed,
    ModelMissing,
    ModelRefused,
    ModelUnavailable,
    ScriptEnded,
)
from alveus.llm import (
    Asking,
    ChatModel,
    Dialect,
    OpenAIChat,
    ScriptedChat,
    Unfit,
    Usage,
    openai_chat,
)
from alveus.llm.openai_chat import _dialect_of
from alveus.llm.server_replies import lines
from alveus.testing import ChatReply, ChatServer
from alveus.values.http_json import asked_wait_s
from alveus.values.retries import Retry
from waiting import LIMIT_S, SHORT_S, wait_until

KEY = "sk-never-to-be-seen"
WORDS = "the cello is in the attic"
SAID = [{"role": "user", "content": WORDS}]
SOON = Retry(attempts=3, wait_s=0.002)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch):
    """What a developer's shell says about models is no part of a test."""
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def serve():
    """Return a client of a server that gives these replies, and the server; both are closed."""
    opened = []

    def open_both(*replies, **options):
        server = ChatServer(replies)
        options = {"retry": SOON, "timeout_s": LIMIT_S, "api_key": KEY, **options}
        chat = OpenAIChat("small", base_url=server.url, **options)
        opened.extend([chat, server])
        return chat, server

    yield open_both
    for thing in opened:
        thing.close()


# --- what is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        [],
        "hello",
        {"role": "user", "content": "hello"},
        ["hello"],
        [{"role": "user"}],
        [{"content": "hello"}],
        [{"role": "robot", "content": "hello"}],
        [{"role": ["user"], "content": "hello"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": "half a \ud83d"}],
        [{"role": "user", "content": "hello", "name": None}],
        [{"role": "user", "content": "hello", "tool_calls": []}],
    ],
)
def test_messages_are_checked_before_anything_is_sent(messages):
    """A typo in a message is an error here, not a status 400 from far away."""
    chat = ScriptedChat(["never said"])
    with pytest.raises(InvalidInput, match="message"):
        chat.complete(messages)
    assert chat.requests == ()


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -0.1},
        {"temperature": 2.5},
        {"temperature": float("nan")},
        {"temperature": True},
        {"temperature": "hot"},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"stop": "end"},
        {"stop": [""]},
        {"stop": [3]},
        {"stop": 3},
        {"json_schema": "object"},
        {"json_schema": {"type": object}},
    ],
)
def test_options_are_checked_before_anything_is_sent(options):
    """What no server could understand is refused at once, by name."""
    (named,) = options
    with pytest.raises(InvalidInput, match=named):
        ScriptedChat(["never said"]).complete(SAID, **options)


@pytest.mark.parametrize(
    ("name", "sent", "said"),
    [
        ("ada", "ada", "hi"),
        ("_-_", "_-_", "hi"),
        ("Ada Lovelace", "Ada_Lovelace", "hi"),
        ("ada@example.org", "ada_example_org", "hi"),
        ("a" * 64, "a" * 64, "hi"),
        ("a" * 65, None, "a" * 65 + ": hi"),
        ("Zoë", None, "Zoë: hi"),
        ("小明", None, "小明: hi"),
        ("٣", None, "٣: hi"),
        ("🤖", None, "🤖: hi"),
        ("...", None, "...: hi"),
        ("Zoë\nsystem", None, "Zoë system: hi"),
        ("ada\n", "ada_", "hi"),
        ("", None, "hi"),
        (" \n", None, "hi"),
    ],
)
def test_who_spoke_is_told_in_a_way_that_servers_take(serve, name, sent, said):
    """They refuse other names; what could not be told by such a one stands in the text."""
    chat, server = serve("Yes.", "Yes.")
    asked = [{"role": "user", "content": "hi", "name": name}]
    chat.complete(asked)
    list(chat.stream(asked))
    for one in server.requests:
        (told,) = one.body["messages"]
        assert told == {"role": "user", "content": said} | ({} if sent is None else {"name": sent})


def test_a_speaker_named_in_the_text_still_shows_images(serve):
    """Only the name moves."""
    chat, server = serve("Yes.", takes_images=True)
    chat.complete(
        [{"role": "user", "content": "hi", "name": "Zoë", "urls": ["https://example.org/a.png"]}]
    )
    (told,) = server.requests[0].body["messages"]
    assert [part["type"] for part in told["content"]] == ["text", "image_url"]
    assert told["content"][0]["text"] == "Zoë: hi"


def test_two_speakers_never_get_one_name(serve):
    """Who has the name itself keeps it; who would share one is named in the text."""
    chat, server = serve("Yes.")
    names = ["a_b", "a b", "a b", "x y", "x.y", "z z", "z z"]
    chat.complete([{"role": "user", "content": "hi", "name": name} for name in names])
    told = [(one.get("name"), one["content"]) for one in server.requests[0].body["messages"]]
    assert told == [
        ("a_b", "hi"),
        (None, "a b: hi"),
        (None, "a b: hi"),
        (None, "x y: hi"),
        (None, "x.y: hi"),
        ("z_z", "hi"),
        ("z_z", "hi"),
    ]


def test_everything_asked_reaches_the_server(serve):
    """Role, content and name as given; options under the protocol's names; the key as a header."""
    chat, server = serve("fine")
    said = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Grüße, 世界 🎻", "name": "ada"},
    ]
    chat.complete(said, json_schema=SCHEMA, temperature=0.5, max_tokens=9, stop=["END"])
    (asked,) = server.requests
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "small",
        "messages": said,
        "stream": False,
        "temperature": 0.5,
        "max_tokens": 9,
        "stop": ["END"],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA},
        },
    }


def test_what_is_left_out_is_not_sent(serve):
    """The model's own defaults hold: some models refuse a temperature that others need."""
    chat, server = serve("fine")
    chat.complete(SAID)
    assert set(server.requests[0].body) == {"model", "messages", "stream"}


@pytest.mark.parametrize(
    ("dialect", "sent"),
    [
        (Dialect(json="object"), {"response_format": {"type": "json_object"}, "max_tokens": 9}),
        (Dialect(json="words", max_tokens="num_predict"), {"num_predict": 9}),
        (Dialect(json="words", extra={"seed": 4, "max_tokens": 8}), {"seed": 4, "max_tokens": 8}),
    ],
)
def test_a_server_is_spoken_to_in_its_dialect(serve, dialect, sent):
    """Servers that claim the protocol differ: in JSON, in the name of a limit, in extras."""
    chat, server = serve("fine", dialect=dialect)
    chat.complete(SAID, json_schema=SCHEMA, max_tokens=9)
    asked = {name: value for name, value in server.requests[0].body.items() if name in sent}
    assert asked == sent
    assert set(server.requests[0].body) == {"model", "messages", "stream", *sent}


def test_a_stream_asks_for_its_tokens_unless_told_not_to(serve):
    """`stream_options` is newer than some servers."""
    chat, server = serve("fine")
    assert "".join(chat.stream(SAID)) == "fine"
    assert server.requests[0].body["stream_options"] == {"include_usage": True}
    chat, server = serve(ChatReply("fine", usage=None), dialect=Dialect(stream_usage=False))
    assert "".join(chat.stream(SAID)) == "fine"
    assert "stream_options" not in server.requests[0].body
    assert chat.usage == Usage(calls=1, uncounted=1)


# --- what comes back ---------------------------------------------------------------------------


def test_an_answer_comes_whole_or_in_pieces(serve):
    """The pieces of a streamed answer are the answer, spaces and all."""
    text = "  Two  spaces,\na line, and 世界. "
    chat, _ = serve(text)
    assert chat.complete(SAID) == text
    pieces = list(chat.stream(SAID))
    assert len(pieces) > 2
    assert "".join(pieces) == text


def test_an_answer_can_be_awaited(serve):
    """`acomplete` is `complete` in a thread: many at once, with the same options."""
    chat, server = serve("fine")

    async def ask():
        return await asyncio.gather(*(chat.acomplete(SAID, max_tokens=3) for _ in range(4)))

    assert asyncio.run(ask()) == ["fine"] * 4
    assert asyncio.run(ask()) == ["fine"] * 4, "another loop is as good"
    assert {asked.body["max_tokens"] for asked in server.requests} == {3}


def test_usage_is_what_the_server_counted(serve):
    """Costs are added up, and what was not told is counted as not told."""
    replies = [ChatReply("a", usage=(10, 2)), ChatReply("b", usage=None), ChatReply("c")]
    chat, _ = serve(*replies)
    chat.complete(SAID)
    before = chat.usage
    assert before == Usage(1, 10, 2)
    chat.complete(SAID)
    assert "".join(chat.stream(SAID)) == "c"
    assert chat.usage - before == Usage(2, 7, 5, uncounted=1)
    assert before + (chat.usage - before) == chat.usage


def test_threads_share_a_client(serve):
    """One instance serves many threads, and counts each answer once."""
    chat, server = serve("fine")
    said = []
    threads = [
        threading.Thread(target=lambda: said.extend(chat.complete(SAID) for _ in range(5)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["fine"] * 30
    assert chat.usage == Usage(30, 30 * 7, 30 * 5)
    assert server.connections <= 6


# --- what goes wrong: tried again --------------------------------------------------------------

BUSY = [
    ChatReply(status=408),
    ChatReply(status=409),
    ChatReply(status=425),
    ChatReply(status=429),
    ChatReply(status=429, headers={"Retry-After": "0.02"}),
    ChatReply(status=500, body=b"<html>oops</html>", kind="text/html"),
    ChatReply(status=503, headers={"retry-after-ms": "1"}),
    ChatReply(status=529, error={"type": "overloaded_error"}),
    ChatReply("never whole", cut_after=0),
    ChatReply("never whole", cut_after=40),
]
BUSY_IDS = [
    f"{reply.status}{''.join(reply.headers)}{'' if reply.cut_after is None else reply.cut_after}"
    for reply in BUSY
]


@pytest.mark.parametrize("fault", BUSY, ids=BUSY_IDS)
def test_what_may_pass_is_tried_again(serve, fault):
    """A server that is busy, or a connection that is cut, costs time, not the answer."""
    chat, server = serve(fault, fault, "fine")
    assert chat.complete(SAID) == "fine"
    assert len(server.requests) == 3
    assert chat.usage.calls == 1, "what failed is not an answer"


@pytest.mark.parametrize("fault", BUSY, ids=BUSY_IDS)
def test_a_stream_is_tried_again_until_its_first_piece(serve, fault):
    """Nothing was said yet, so nothing is said twice."""
    chat, server = serve(fault, "all is fine")
    assert "".join(chat.stream(SAID)) == "all is fine"
    assert len(server.requests) == 2


@pytest.mark.parametrize("fault", BUSY, ids=BUSY_IDS)
def test_what_does_not_pass_is_unavailable(serve, fault):
    """After the last try the error says what it was, with its status, and how often."""
    chat, server = serve(fault)
    with pytest.raises(ModelUnavailable) as raised:
        chat.complete(SAID)
    assert len(server.requests) == SOON.attempts
    assert raised.value.status == (None if fault.status == 200 else fault.status)
    assert raised.value.__notes__ == ["tried 3 times"]
    assert raised.value.model == "small"


def test_a_server_that_asks_to_be_left_alone_is(serve):
    """Retry-After is honoured; longer than `most_s` is for the caller to decide, who is told."""
    soon, late = {"Retry-After": "0.08"}, {"Retry-After": "3600"}
    chat, server = serve(ChatReply(status=429, headers=soon), "fine")
    began = datetime.now(UTC)
    assert chat.complete(SAID) == "fine"
    assert (datetime.now(UTC) - began).total_seconds() >= 0.08
    chat, server = serve(ChatReply(status=429, headers=late), "fine")
    with pytest.raises(ModelUnavailable, match="3600 s") as raised:
        chat.complete(SAID)
    assert raised.value.retry_after_s == 3600
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "asked_s"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, float("inf")),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2020 12:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 21 Nov 99999999999999999999 12:00:00 GMT"}, None),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:00 +99999999999"}, None),
        ({"retry-after": "3", "retry-after-ms": "250"}, 0.25),
    ],
)
def test_both_forms_of_retry_after_are_read(headers, asked_s):
    """Seconds or a date (RFC 9110), and OpenAI's milliseconds; nonsense is as if not said."""
    assert asked_wait_s(headers, datetime(2026, 11, 21, 12, tzinfo=UTC)) == asked_s


def test_a_silent_server_is_given_up(serve):
    """A try ends `timeout_s` after the last byte, before or in the middle of an answer."""
    silent = ChatReply("too late", delay_s=3600)
    chat, server = serve(silent, silent, "fine", timeout_s=SHORT_S, retry=PATIENT)
    assert chat.complete(SAID) == "fine"
    assert len(server.requests) >= 3
    assert server.requests[0] == server.requests[1] == server.requests[2]
    halfway = ChatReply("one two three", drip_s=3600)
    chat, _ = serve(halfway, timeout_s=SHORT_S, retry=Retry(attempts=1))
    for ask in (chat.complete, lambda said: list(chat.stream(said))):
        wait_until(lambda ask=ask: "went silent" in failure_of(ask))


PATIENT = Retry(attempts=10_000, wait_s=0)
"""A busy machine does not answer in `SHORT_S` each time, but some time."""


def failure_of(ask) -> str:
    """Return how a call failed: before its answer began, where the machine was slow to begin it."""
    with pytest.raises(ModelUnavailable) as raised:
        ask(SAID)
    return str(raised.value)


def test_an_answer_that_trickles_is_given_up(serve, monkeypatch):
    """A byte now and then keeps a connection alive, but not a call."""
    monkeypatch.setattr(openai_chat, "monotonic", itertools.count(step=3 * LIMIT_S).__next__)
    chat, _ = serve("word " * 200, retry=Retry(attempts=1))
    with pytest.raises(ModelUnavailable, match="not whole after"):
        chat.complete(SAID)


def test_nobody_at_the_other_end_is_unavailable():
    """A closed port is an error of ours that names the server, and nothing secret of it."""
    with ChatServer() as server:
        url = server.url.replace("http://", "http://ada:pass@") + "?token=hidden"
    with OpenAIChat("small", base_url=url, api_key=KEY, retry=SOON) as chat:
        with pytest.raises(ModelUnavailable, match=r"http://127\.0\.0\.1:\d+ cannot be") as raised:
            chat.complete(SAID)
        assert "pass" not in repr(chat)
        assert "hidden" not in repr(chat)
    assert "pass" not in str(raised.value)
    assert "hidden" not in str(raised.value)


# --- what goes wrong: final --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (400, {"code": "context_length_exceeded"}, "context_length_exceeded"),
        (401, {"code": "invalid_api_key"}, "OPENAI_API_KEY"),
        (403, {}, "rights"),
        (404, {"code": "model_not_found"}, "base_url="),
        (413, {}, "less text"),
        (422, {}, "dialect"),
        (429, {"code": "insufficient_quota"}, "no quota left"),
        (418, {"code": f"{KEY} {WORDS}"}, "status 418: check"),
        (418, {"code": {"of": [418]}, "type": ["x"]}, "status 418: check"),
    ],
)
def test_what_will_not_pass_is_refused_at_once(serve, status, error, says):
    """The same request would fail the same way, so it is not made again; the error says why."""
    chat, server = serve(ChatReply(status=status, error=error))
    with pytest.raises(ModelRefused, match=says) as raised:
        chat.complete(SAID)
    assert raised.value.status == status
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (ChatReply(body=b'{"choices": [{"message": {"content": "\\ud83d"}}]}'), "surrogate"),
        (ChatReply(None), "no text"),
        (ChatReply(""), "no text"),
        (ChatReply("", finish="length"), "without a text"),
    ],
)
def test_an_answer_that_is_none_is_invalid(serve, reply, says):
    """Whatever a server sends, it is a text, or an error of ours that tells what it was."""
    chat, server = serve(reply)
    with pytest.raises(ModelAnswerInvalid, match=says):
        chat.complete(SAID)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (ChatReply(body=b'{"choices": ['), "broken, not JSON"),
        (ChatReply(body=b""), "empty, not JSON"),
        (ChatReply(body=b"\xff\xfe"), "broken, not JSON"),
        (ChatReply(body=b"[" * 100_000), "broken, not JSON"),
        (ChatReply(body=b"<html>", kind="text/html; charset=utf-8"), "text/html, not JSON"),
        (ChatReply(body=b"<html>", kind="sk-x " * 9), "of no known type, not JSON"),
        (ChatReply(body=b"[1, 2]"), "not an object"),
        (ChatReply(body=b"{}"), "has no choices"),
        (ChatReply(body=b'{"choices": []}'), "has no choices"),
        (ChatReply(body=b'{"choices": {"0": 1}}'), "has no choices"),
        (ChatReply(body=b'{"choices": [3]}'), "has no choices"),
    ],
)
def test_a_body_that_is_no_answer_is_a_server_out_of_reach(serve, reply, says):
    """A proxy's page, half a body or no choices say nothing of the request: it is tried again."""
    chat, server = serve(reply, reply, "fine")
    assert chat.complete(SAID) == "fine"
    assert len(server.requests) == 3
    chat, _ = serve(reply)
    with pytest.raises(ModelUnavailable, match=says):
        chat.complete(SAID)


def test_an_answer_larger_than_any_is_not_read(serve, monkeypatch: pytest.MonkeyPatch):
    """A server that never ends is not kept in memory."""
    monkeypatch.setattr("alveus.llm.openai_chat.MOST_BYTES", 1 << 20)
    chat, _ = serve(ChatReply("x" * (2 << 20)))
    with pytest.raises(ModelAnswerInvalid, match="longer than 1 MiB"):
        chat.complete(SAID)
    with pytest.raises(ModelAnswerInvalid, match="longer than 1 MiB"):
        list(chat.stream(SAID))


def test_json_that_was_cut_is_no_answer(serve):
    """Half a text may be of use; half of JSON is not."""
    chat, _ = serve(ChatReply('{"n": 1', finish="length"))
    assert chat.complete(SAID, max_tokens=3) == '{"n": 1'
    with pytest.raises(ModelAnswerInvalid, match="cut at its limit"):
        chat.complete(SAID, max_tokens=3, json_schema=SCHEMA)


@pytest.mark.parametrize(
    "reply",
    [
        ChatReply("x", finish="content_filter"),
        ChatReply(body=b'{"choices": [{"message": {"content": null, "refusal": "I will not"}}]}'),
    ],
)
def test_a_model_that_refuses_is_not_misread(serve, reply):
    """A refusal is not an empty answer."""
    chat, _ = serve(reply)
    with pytest.raises(ModelRefused):
        chat.complete(SAID)


# --- streams -----------------------------------------------------------------------------------


def test_a_stream_that_is_cut_says_so_after_its_pieces(serve):
    """What was heard stays heard, nothing is said twice, and the end is not mistaken for one."""
    for fault in (ChatReply("one two three", cut_after=260), ChatReply("one two", finish=None)):
        chat, server = serve(fault, "never asked again")
        heard = []
        with pytest.raises(ModelUnavailable, match="cut off"):
            heard.extend(chat.stream(SAID))
        assert len(server.requests) == 1
        assert chat.usage == Usage(calls=1, uncounted=1)


def sse(*events: str) -> ChatReply:
    body = "".join(f"data: {event}\n\n" for event in events).encode()
    return ChatReply(body=body, kind="text/event-stream")


def piece(text: str, finish: str = "null") -> str:
    return f'{{"choices": [{{"delta": {{"content": "{text}"}}, "finish_reason": {finish}}}]}}'


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (sse("{broken"), ModelUnavailable),
        (sse("[1]"), ModelUnavailable),
        (sse("[DONE]"), ModelUnavailable),
        (sse(piece("\\ud83d")), ModelAnswerInvalid),
        (sse(piece("a", '"content_filter"')), ModelRefused),
        (sse('{"choices": [{"delta": {"refusal": "no"}, "finish_reason": "stop"}]}'), ModelRefused),
        (sse('{"error": {"type": "server_error", "message": "x"}}'), ModelUnavailable),
        (sse('{"error": {"type": {"of": 1}, "code": [1]}}'), ModelUnavailable),
        (sse(), ModelUnavailable),
        (ChatReply(body=b"<html>", kind="text/html"), ModelUnavailable),
        (ChatReply(status=401), ModelRefused),
    ],
)
def test_a_stream_of_nonsense_is_an_error_of_ours(serve, reply, error):
    """Streams are checked like whole answers."""
    chat, _ = serve(reply)
    with pytest.raises(error):
        list(chat.stream(SAID))


def test_a_stream_may_hold_what_is_not_for_us(serve):
    """Comments, other fields, empty choices and line ends of both kinds are passed over."""
    last = piece("b", '"stop"')
    text = (
        f': alive\r\nevent: x\r\ndata: {{"choices": []}}\r\n\r\ndata:{piece("c")}\n\ndata: {last}'
    )
    body = text.encode()
    chat, _ = serve(ChatReply(body=body, kind="text/event-stream"))
    assert list(chat.stream(SAID)) == ["c", "b"]


def test_a_stream_that_nobody_reads_on_lets_go(serve):
    """A consumer that stops early leaves no connection and no warning behind."""
    chat, server = serve(ChatReply("one two three", drip_s=0.005), "fine")
    for heard in chat.stream(SAID):
        assert heard == "one "
        break
    gc.collect()
    chat.stream(SAID)
    assert len(server.requests) == 1, "a stream that is not read asks nothing"
    assert chat.complete(SAID) == "fine"


@given(st.lists(st.binary(max_size=5)))
def test_lines_are_the_same_however_they_arrive(chunks: list[bytes]):
    """Where the network cuts a stream means nothing."""
    whole = b"".join(chunks)
    expected = [line.rstrip(b"\r") for line in whole.split(b"\n")]
    assert list(lines(chunks)) == (expected if whole.split(b"\n")[-1] else expected[:-1])


# --- secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_no_error_tells_the_key_or_the_users_words(serve, status):
    """A server may repeat what it was sent; what is printed and logged of an error does not."""
    echo = {"message": f"bad key {KEY} for {WORDS}", "code": KEY, "type": WORDS}
    chat, _ = serve(ChatReply(status=status, error=echo))
    with pytest.raises(ModelFailed) as raised:
        chat.complete(SAID)
    printed = "".join(traceback.format_exception(raised.value))
    assert KEY not in printed + repr(chat)
    assert WORDS not in printed
    assert KEY in str(getattr(raised.value.__cause__, "body", "")), "who debugs can still look"


def test_no_error_of_a_body_tells_what_it_said(serve):
    """An answer that cannot be read is not printed."""
    chat, _ = serve(ChatReply(body=f"{{{WORDS}".encode()))
    with pytest.raises(ModelUnavailable) as raised:
        chat.complete(SAID)
    assert WORDS not in "".join(traceback.format_exception(raised.value))


# --- opening and closing -----------------------------------------------------------------------


def test_nothing_is_needed_until_the_first_call(monkeypatch: pytest.MonkeyPatch):
    """A program that never asks needs no key, no package and no network."""
    chat = OpenAIChat("small")
    with pytest.raises(ModelMissing, match=r"OPENAI_API_KEY.*[Ff]or tests, use ScriptedChat"):
        chat.complete(SAID)
    with pytest.raises(ModelMissing):
        next(chat.stream(SAID))
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    with pytest.raises(ModelMissing, match="a line end") as raised:
        chat.complete(SAID)
    assert KEY not in str(raised.value)
    with ChatServer(["found"]) as server, chat:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert chat.complete(SAID) == "found"


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    """The extra is named, and what works without it."""
    monkeypatch.setattr("alveus.llm.openai_chat.find_spec", lambda name: None)
    with pytest.raises(ModelMissing, match=r"alveus\[openai\].*[Ff]or tests, use ScriptedChat"):
        OpenAIChat("small", api_key=KEY).complete(SAID)


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": ""},
        {"model": None},
        {"base_url": "localhost:11434"},
        {"base_url": "file:///v1"},
        {"base_url": "http://"},
        {"base_url": "http://host:port/v1"},
        {"timeout_s": 0},
        {"timeout_s": "60"},
        {"timeout_s": float("inf")},
        {"timeout_s": float("nan")},
    ],
)
def test_a_client_is_made_of_what_it_can_use(arguments):
    """A wrong argument is an error where it is written."""
    with pytest.raises(InvalidInput):
        OpenAIChat(**{"model": "small", **arguments})


@pytest.mark.parametrize(
    "wrong",
    [{"json": "xml"}, {"extra": {"x": object()}}, {"extra": {"x": "\ud83d", "y": float("nan")}}],
)
def test_a_dialect_can_be_sent(wrong):
    """What no request could carry is refused where it is written."""
    with pytest.raises(InvalidInput):
        Dialect(**wrong)


def test_connections_closed_behind_our_back_are_an_error_of_ours(serve):
    """Whatever the package raises, it is translated, once, and names no secret."""
    chat, _ = serve("fine")
    chat.complete(SAID)
    chat._here()._client.close()
    with pytest.raises(ModelFailed, match=r"127\.0\.0\.1") as raised:
        chat.complete(SAID)
    assert raised.value.__cause__ is not None


def test_a_closed_client_says_so(serve):
    """Closing twice is fine, using it afterwards is an error that says what happened."""
    chat, server = serve("fine")
    assert chat.complete(SAID) == "fine"
    chat.close()
    chat.close()
    for use in (chat.complete, lambda said: list(chat.stream(said))):
        with pytest.raises(ModelClosed, match="closed; make a new one"):
            use(SAID)
    assert len(server.requests) == 1
    OpenAIChat("small").close()


def test_closing_ends_the_wait_of_a_call():
    """A call that waits to try again is not waited for."""
    waiting, raised = threading.Event(), []

    class Patient(Retry):
        def pause_s(self, tried: int) -> float:
            waiting.set()
            return 60.0

    def ask(chat: OpenAIChat):
        try:
            chat.complete(SAID)
        except AlveusError as error:
            raised.append(error)

    with ChatServer([ChatReply(status=503)]) as server:
        chat = OpenAIChat("small", base_url=server.url, api_key=KEY, retry=Patient())
        thread = threading.Thread(target=ask, args=(chat,), daemon=True)
        thread.start()
        assert waiting.wait(timeout=LIMIT_S)
        chat.close()
        thread.join(timeout=LIMIT_S)
    assert [type(error) for error in raised] == [ModelClosed]


def test_a_child_asks_through_connections_of_its_own(serve):
    """After a fork nothing is shared: neither an answer nor a lock of the parent is waited for."""
    chat, server = serve("fine")
    assert chat.complete(SAID) == "fine"
    child = os.fork()
    if child == 0:  # pragma: no cover - in another process
        status = 1
        try:
            fresh = chat.usage == Usage() and chat.complete(SAID) == "fine"
            chat.close()
            status = 0 if fresh and chat.usage.calls == 1 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert chat.complete(SAID) == "fine"
    assert chat.usage.calls == 2
    assert len(server.requests) == 3
    assert server.connections == 2


def test_importing_alveus_imports_no_client():
    """The package is imported at the first call: who never asks does not wait for it."""
    code = "import sys, alveus, alveus.llm; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WITHOUT_PYTEST = """
import sys
from importlib.abc import MetaPathFinder

MISSING = {"pytest", "_pytest", "hypothesis"}

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in MISSING else find_spec(name)
sys.meta_path.insert(0, Missing())

from alveus import OpenAIChat
from alveus.testing import ChatReply, ChatServer
from alveus.testing.chat_server import ReceivedRequest

with ChatServer([ChatReply("fine")]) as server:
    with OpenAIChat("small", base_url=server.url, api_key="any") as chat:
        assert chat.complete([{"role": "user", "content": "well?"}]) == "fine"
    assert isinstance(server.requests[0], ReceivedRequest)
try:
    from alveus.testing import StoreContract
except ImportError as error:
    print(error)
assert not MISSING & sys.modules.keys()
"""


def test_the_chat_server_needs_no_pytest():
    """Only what tests does; it says what is missing."""
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTEST], check=True, capture_output=True, text=True
    )
    assert answer.stdout == (
        "alveus.testing.StoreContract needs pytest and hypothesis: pip install pytest hypothesis\n"
    )


# --- scripts -----------------------------------------------------------------------------------


def test_a_script_says_its_answers_in_order():
    """The same answers to the same calls; what was asked is there to be looked at."""
    chat = ScriptedChat(["one answer", "two"], name="actor")
    assert chat.complete(SAID, temperature=0, stop=["x"]) == "one answer"
    assert list(chat.stream([{"role": "system", "content": "again"}])) == ["two"]
    assert [asked.messages[0]["content"] for asked in chat.requests] == [WORDS, "again"]
    assert (chat.requests[0].temperature, chat.requests[0].stop) == (0, ("x",))
    assert chat.usage == Usage(2, 7, 3)
    with pytest.raises(ScriptEnded, match="no answer left after 2"):
        chat.complete(SAID)
    assert len(chat.requests) == 3
    assert isinstance(chat, ChatModel)
    assert repr(chat) == "ScriptedChat(name='actor', requests=3)"


def test_a_script_may_be_a_function_and_may_raise():
    """Tests of failures need failures."""
    chat = ScriptedChat(lambda messages: messages[-1]["content"].upper())
    assert asyncio.run(chat.acomplete(SAID)) == WORDS.upper()
    chat = ScriptedChat([ModelUnavailable("actor", "it sleeps"), "awake"])
    with pytest.raises(ModelUnavailable, match="sleeps"):
        chat.complete(SAID)
    assert chat.complete(SAID) == "awake"
    assert chat.usage.calls == 1
    with pytest.raises(InvalidInput, match="not a str"):
        ScriptedChat("one long answer")
    with pytest.raises(InvalidInput, match="not int"):
        ScriptedChat([3]).complete(SAID)  # pyright: ignore[reportArgumentType]  wrong on purpose


def test_a_model_of_ones_own_needs_little():
    """Deriving from `ChatModel`, `complete` is enough: streams and awaiting go by it."""

    class Echo(ChatModel):
        @property
        def name(self):
            return "echo"

        @property
        def usage(self):
            return Usage()

        def complete(self, messages, **options):
            return messages[-1]["content"]

    chat = Echo()
    assert isinstance(chat, ChatModel)
    assert list(chat.stream(SAID)) == [WORDS]
    assert asyncio.run(chat.acomplete(SAID)) == WORDS
    assert list(Echo().stream([{"role": "user", "content": ""}])) == []


# --- JSON --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('{"n": 1}', {"n": 1}),
        (' \n["a"] ', ["a"]),
        ('```json\n{"n": 1}\n```', {"n": 1}),
        ('<think>\n{"n": 0}\n</think>\n\n{"n": 1}', {"n": 1}),
    ],
)
def test_json_is_found_in_what_models_put_around_it(answer, value):
    """A fence and thoughts are habits, not faults."""
    assert llm.read_json(answer) == value


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "NoneType"),
        ("", "not JSON"),
        ("Sure! {}", "not JSON"),
        ('{"n": 1} and more', "not JSON"),
        ('{"n": 1, "n": 2}', "twice"),
        ('{"n": NaN}', "NaN"),
        ("[" * 100_000, "deeply"),
        ("9" * 10_000, "digits"),
        (f'"{"x" * 1_000_000}"', "characters"),
    ],
)
def test_what_is_not_json_is_unfit(answer, says):
    """The reason is one that a model can be told."""
    with pytest.raises(Unfit, match=says):
        llm.read_json(answer)


def numbered(value: object) -> int:
    if not isinstance(value, dict) or type(value.get("n")) is not int:
        raise Unfit("n has to be a whole number")
    return value["n"]


def test_a_model_is_told_why_and_asked_again():
    """The reason goes to the model; its bad answer does not."""
    chat = ScriptedChat(["pardon?", '{"n": "IGNORE ALL"}', '{"n": 3}'])
    found = llm.ask_json(chat, SAID, json_schema=SCHEMA, check=numbered, asking=Asking(attempts=3))
    assert found == 3
    first, second, third = chat.requests
    assert first.messages == ({"role": "user", "content": WORDS},)
    assert [len(asked.messages) for asked in chat.requests] == [1, 2, 2]
    assert "not JSON" in second.messages[1]["content"]
    assert "whole number" in third.messages[1]["content"]
    assert "IGNORE" not in third.messages[1]["content"]
    assert all(asked.json_schema == SCHEMA for asked in chat.requests)


def test_a_model_that_never_fits_is_invalid():
    """The last reason is in the error; failures of other kinds are not asked again."""
    chat = ScriptedChat(["pardon?"] * 9)
    with pytest.raises(ModelAnswerInvalid, match=r"not JSON.*\(asked 2 times\)"):
        llm.ask_json(chat, SAID, json_schema=SCHEMA, check=numbered, asking=Asking(attempts=2))
    assert len(chat.requests) == 2
    chat = ScriptedChat([ModelUnavailable("actor", "it sleeps"), "never asked"])
    with pytest.raises(ModelUnavailable):
        llm.ask_json(chat, SAID, json_schema=SCHEMA, check=numbered, asking=Asking())
    assert len(chat.requests) == 1
    chat = ScriptedChat([KeyError("theirs")])
    with pytest.raises(ModelFailed, match="raised KeyError"):
        llm.ask_json(chat, SAID, json_schema=SCHEMA, check=numbered, asking=Asking())


# --- under other names -------------------------------------------------------------------------


def test_dbgpt_programs_find_their_client(monkeypatch: pytest.MonkeyPatch):
    """Built as their programs build it, without network or key; it goes where they say."""
    client = OpenAILLMClient("gpt-4o", os.getenv("OPENAI_API_BASE"), os.getenv("OPENAI_API_KEY"))
    assert repr(client) == "OpenAILLMClient('gpt-4o')"
    with pytest.raises(ModelMissing, match="OPENAI_API_KEY"):
        client.complete(SAID)
    with ChatServer(["found"]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        with OpenAILLMClient(model_alias="gpt-4o") as client:
            assert client.complete(SAID) == "found"
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        with OpenAILLMClient("gpt-4o", api_base=server.url, api_key="theirs") as client:
            assert client.complete(SAID) == "found"
        assert server.requests[1].headers["authorization"] == "Bearer theirs"


def test_openai_itself_is_told_its_newer_limit():
    """OpenAI's own models know `max_completion_tokens`; servers of others know `max_tokens`."""

    class Client:
        def __init__(self, base_url: str):
            self.base_url = base_url

    for url, name in (
        ("https://api.openai.com/v1/", "max_completion_tokens"),
        ("https://example.com/v1", "max_tokens"),
    ):
        assert _dialect_of(Client(url)).max_tokens == name  # pyright: ignore[reportArgumentType]  as much of a client as is looked at


def test_a_durable_call_of_a_model_is_paid_once():
    """An action may ask through `ctx.durable`: the answer is kept with its run."""
    chat = ScriptedChat(["Lisbon."])

    class Asks(Agent):
        @action(InputEvent)
        def ask(self, event, ctx):
            ctx.send_event(OutputEvent(ctx.durable(chat.complete, SAID)))

    with Memory.open(embedder="words") as memory, LocalRunner(Asks(), memory) as runner:
        assert list(runner.handle("ada", 1)) == ["Lisbon."]
