"""Conversations of a key: what is told a model, summaries, batches, actions, processes."""

from __future__ import annotations

import itertools
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

import warm
from alveus import Agent, InputEvent, LocalRunner, Memory, ScriptedChat, action
from alveus.agents.messages import COMPRESSED, SUMMARY, Msg, TemporaryMemory
from alveus.errors import (
    IdempotencyConflict,
    InvalidInput,
    ModelFailed,
    NotFound,
    Rejected,
    RunParked,
    SetDefinitionConflict,
)
from alveus.sets.admission import Exact, Size
from alveus.text import Summary, tokens
from alveus.text.messages import Message
from dialogue_worker import turn
from scale import COUNTS
from waiting import LIMIT_S

WORKER = Path(__file__).with_name("dialogue_worker.py")
KILLS = max(4, COUNTS.kills * 5 // 12)


@pytest.fixture(params=["ram", "file"])
def key(request, tmp_path):
    url = ":memory:" if request.param == "ram" else tmp_path / "app.db"
    with Memory.open(url, embedder="words") as memory:
        yield memory.key("ada")


@pytest.fixture
def talk(key):
    return key.conversation("talk")


def user(n):
    return {"id": str(n), "role": "user", "content": f"number {n}"}


def ids(messages):
    return [message["id"] for message in messages]


def told(talk, **options):
    return ids(talk.get_memory(exclude_mark=COMPRESSED, **options))


# --- messages -----------------------------------------------------------------------------------

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "x"},
        {"role": "user", "content": "x", "name": "Ada", "mood": {"glad": True}},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "content": "sunny", "tool_call_id": "c1"},
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image", "n": 1}]},
        {"role": "developer", "content": "", "name": None},
        {"role": "user", "content": 5},
        Message("x", "assistant", calls=("c1", "c2")).to_dict(),
        dict(Msg("Ada", "x", "a.png", role="user")),
    ],
)
def test_a_message_comes_back_as_it_was(talk, message):
    """Whatever a message holds is kept, and what reads of it for itself changes nothing of it."""
    (given,) = talk.add(message)
    assert talk.get_memory() == [{"id": given, "content": None} | message]


@pytest.mark.parametrize(
    ("timestamp", "time"),
    [
        ("2023-05-08T13:56:00+02:00", datetime(2023, 5, 8, 11, 56, tzinfo=UTC)),
        ("2023-05-08T11:56:00.25Z", datetime(2023, 5, 8, 11, 56, 0, 250_000, tzinfo=UTC)),
        ("2023-05-08 13:56:00", datetime(2023, 5, 8, 13, 56).astimezone(UTC)),
        (1_683_547_000, datetime(2023, 5, 8, 11, 56, 40, tzinfo=UTC)),
        (1_683_547_000_500, datetime(2023, 5, 8, 11, 56, 40, 500_000, tzinfo=UTC)),
    ],
)
def test_a_message_keeps_its_own_time(key, talk, timestamp, time):
    """Its `timestamp` is the time of its item, which searches and prompts show and filter by."""
    said = {"role": "user", "content": "I moved to Lisbon.", "timestamp": timestamp}
    talk.add({**said, "id": "m"})
    assert key.set("talk").get("m").time == time
    assert talk.get_memory() == [{**said, "id": "m"}]
    found = talk.search("moved", where={"$time": {"lt": "2023-05-09T00:00Z"}})
    assert [hit.item.id for hit in found] == ["m"]
    (again,) = talk.add({**said, "content": "Twice."}, idempotency_key="once")
    assert talk.add({**said, "content": "Twice."}, idempotency_key="once") == [again]
    talk.update_messages_mark("seen")
    assert key.set("talk").get("m").time == time


@pytest.mark.parametrize("timestamp", ["soon", "", None, True, -1e40, 1e400, ["2023"], {"at": 5}])
def test_a_timestamp_that_is_no_time_is_kept_and_counts_for_nothing(key, talk, timestamp):
    """A message may hold anything; its item then has the time of the commit."""
    said = {"role": "user", "content": "x", "timestamp": timestamp}
    (given,) = talk.add(said)
    stored = key.set("talk").get(given)
    assert stored.time == stored.created
    assert talk.get_memory() == [{**said, "id": given}]


def test_messages_of_one_call_keep_their_order_whatever_their_timestamps_say(key, talk):
    """So do those of a state; what one says of its time, those before it cannot be later than."""
    days = [None, "2023-05-09", None, "2023-05-08", "2023-05-10", "2999-01-01", None]
    said = [
        {"id": f"{n}", "role": "user", "content": f"{n}"}
        | ({"timestamp": f"{day}T10:00Z"} if day else {})
        for n, day in enumerate(days)
    ]
    talk.add(said)
    assert [one["id"] for one in talk.get_memory()] == [*"0123456"]
    times = [stored.time.isoformat()[:10] for stored in key.set("talk").get([*"01234"])]
    assert times == ["2023-05-09"] * 4 + ["2023-05-10"]
    state = talk.state_dict()
    talk.load_state_dict(state)
    assert [one["id"] for one in talk.get_memory()] == [*"0123456"]
    talk.add({"id": "last", "content": "now"})
    talk.add({"id": "first", "content": "then", "timestamp": "2023-05-01T10:00Z"})
    assert [one["id"] for one in talk.get_memory()] == ["first", *"0123456", "last"]


def test_a_stamp_of_this_minute_does_not_change_the_order(talk):
    """Stamps are to the second: what was added after them would stand before them, or after."""
    for n in range(6):
        talk.add(Msg("Ada", f"{n}", role="user") if n % 2 else {"content": f"{n}"})
    assert [one["content"] for one in talk.get_memory()] == [*"012345"]


def test_what_a_model_is_told(talk):
    """Role, content, name and tool calls: what servers of the OpenAI protocol take."""
    talk.add([Msg("Ada", "x", role="user"), Message("y", "assistant")])
    talk.add([{"role": "assistant", "content": None, "tool_calls": [CALL]}])
    assert talk.messages() == [
        {"role": "user", "content": "x", "name": "Ada"},
        {"role": "assistant", "content": "y"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
    ]


def test_what_a_chat_model_is_told(talk):
    """Whatever is in a conversation, a `ChatModel` takes it: calls as text, urls, known roles."""
    asks, calls, says = turn("a", 1)
    talk.add([user(0), asks, calls, says, {"role": "narrator", "content": {"at": 5}, "name": 5}])
    talk.add(Msg("Ada", "look", ["https://e.org/a.png", "b.txt"], role="user"))
    for takes, looks in (
        (True, {"content": "look\nb.txt", "urls": ["https://e.org/a.png"]}),
        (False, {"content": "look\nhttps://e.org/a.png\nb.txt"}),
    ):
        model = ScriptedChat(["Yes."], takes_images=takes)
        model.complete(talk.messages(for_chat=True))
        assert model.requests[0].messages == (
            {"role": "user", "content": "number 0"},
            {"role": "user", "content": "What is number 1?"},
            {"role": "assistant", "content": "look({})"},
            {"role": "user", "content": "It is 1."},
            {"role": "user", "content": '{"at": 5}'},
            {"role": "user", "name": "Ada", **looks},
        )


def test_a_call_is_told_with_its_answer_or_not_at_all(talk):
    """A call that was never answered is left out once something else is said; so is an answer."""
    asks, calls, says = turn("a", 1)
    talk.add([asks, calls])
    assert len(talk.messages()) == 2
    talk.add(user(2))
    assert [message["content"] for message in talk.messages()] == [asks["content"], "number 2"]
    talk.add(says)
    assert [m["role"] for m in talk.messages()] == ["user", "assistant", "user", "tool"]
    talk.delete(calls["id"])
    assert [m["role"] for m in talk.messages()] == ["user", "user"]
    assert talk.size() == 3


def test_the_last_ones_part_no_call_from_its_answer(talk):
    """What answers a call comes with it; where it is gone, no more is read than was asked for."""
    talk.add(turn("a", 1))
    assert ids(talk.get_memory(recent_n=1)) == ["a-1-calls", "a-1-says"]
    assert [m["role"] for m in talk.messages(recent_n=1)] == ["assistant", "tool"]
    talk.delete("a-1-calls")
    assert ids(talk.get_memory(recent_n=1)) == ["a-1-says"]
    assert talk.get_memory(recent_n=0) == []


def test_a_call_that_is_far_back_is_not_looked_for(talk):
    """An answer long after its call comes alone: the last message is not all of a conversation."""
    _, calls, says = turn("a", 1)
    talk.add([calls, *[user(n) for n in range(300)], says])
    assert ids(talk.get_memory(recent_n=1)) == [says["id"]]


def test_a_search_finds_messages_and_no_summary(talk):
    """Those that were summed up too; the summary says the same, and is none of them."""
    talk.add([{"id": "cat", "role": "user", "content": "My cat is called Momo."}, user(1)])
    talk.compress(keep_recent=1)
    assert "Momo" in talk.summary
    found = [hit.item.id for hit in talk.search("cat called Momo")]
    assert found[0] == "cat"
    assert SUMMARY not in found


def test_blocks_are_known_as_pairs(talk):
    """Calls and answers as AgentScope's blocks, and as Anthropic's."""
    use = {"type": "tool_use", "id": "c", "name": "look", "input": {"at": 1}}
    talk.add([user(1), {"role": "assistant", "content": [use]}])
    talk.add({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "n": 1}]})
    talk.add(user(2))
    assert talk.compress(keep_recent=2).messages == 1
    assert talk.search("look", limit=1)


@pytest.mark.parametrize(
    "wrong",
    ["x", 5, [5], {"role": "user"}, {"role": 5, "content": "x"}, {"id": SUMMARY, "content": ""}],
)
def test_what_is_no_message_is_refused(talk, wrong):
    """And nothing of its call is added."""
    with pytest.raises(InvalidInput):
        talk.add([user(1), *wrong] if isinstance(wrong, list) else wrong)
    assert talk.size() == 0


def test_a_set_that_is_no_conversation(key):
    """A set of another kind is not written to."""
    key.set("notes", item_type="observation").add("x")
    with pytest.raises(SetDefinitionConflict):
        key.conversation("notes").add(user(1))


# --- commits ------------------------------------------------------------------------------------


def test_an_idempotency_key(talk):
    """A message without an id is added once under it; another one is refused."""
    message = {"role": "user", "content": "x"}
    first = talk.add(message, idempotency_key="k")
    assert talk.add(message, idempotency_key="k") == first
    assert talk.size() == 1
    with pytest.raises(IdempotencyConflict):
        talk.add(user(2), idempotency_key="k")


def test_in_a_batch(key, talk):
    """All that is done to a conversation in a batch is there with its end, and seen before it."""
    talk.add([user(n) for n in range(4)])
    talk.compress(keep_recent=1)
    with key.batch() as batch:
        drafted = batch.conversation("talk")
        drafted.add([user(4), user(5)])
        assert drafted.compress(keep_recent=1).messages == 2
        assert drafted.compress(keep_recent=0).messages == 0
        drafted.update_messages_mark("todo", msg_ids=["5"])
        assert told(drafted) == [SUMMARY, "5"]
        assert told(talk) == [SUMMARY, "3"]
    assert told(talk) == [SUMMARY, "5"]
    assert ids(talk.get_memory("todo", prepend_summary=False)) == ["5"]
    with key.batch() as batch:
        batch.conversation("talk").load_state_dict({"content": [user(5), user(1)]})
    assert ids(talk.get_memory()) == ["5", "1"]


def test_in_an_action(key):
    """What an action says is committed with the action, or not at all."""

    @action(InputEvent)
    def speak(event, ctx):
        talk, n = ctx.long_term_memory.conversation("talk"), event.data["input"]
        talk.add([user(n), {"role": "assistant", "content": "Noted."}])
        if n == 2:
            raise ValueError
        assert talk.compress(keep_recent=0).messages == 1

    agent = Agent("speaker", actions=[speak])
    with LocalRunner(agent, key) as runner:
        runner.handle("ada", 1)
        with pytest.raises(RunParked):
            runner.handle("ada", 2)
    talk = key.conversation("talk")
    assert told(talk) == [SUMMARY, "1"]
    assert talk.summary == "assistant: Noted."
    assert talk.size() == 2


# --- summaries ----------------------------------------------------------------------------------


def test_a_summary_is_undone(talk):
    """Each step by itself, the last one first: summary and marks are as they were before it."""
    talk.add([user(n) for n in range(9)])
    states = [talk.state_dict()]
    for keep in (6, 3, 1):
        talk.compress(keep_recent=keep)
        states.append(talk.state_dict())
    assert told(talk) == [SUMMARY, "8"]
    for state in states[-2::-1]:
        assert talk.uncompress() > 0
        assert talk.state_dict() == state
    with pytest.raises(NotFound):
        talk.uncompress()
    talk.compress(keep_recent=1)
    assert told(talk) == [SUMMARY, "8"]


def test_what_is_opened_again_is_told_again(talk):
    """A message whose mark is taken off is no longer taken for summed up, also after an undo."""
    talk.add([user(n) for n in range(6)])
    talk.compress(keep_recent=3)
    talk.compress(keep_recent=1)
    assert talk.update_messages_mark(None, COMPRESSED, ["1"]) == 1
    assert told(talk) == [SUMMARY, "1", "5"]
    talk.uncompress()
    assert told(talk) == [SUMMARY, "1", "3", "4", "5"]
    talk.add(user(6))
    talk.compress(keep_recent=1)
    assert told(talk) == [SUMMARY, "6"]


def test_the_end_of_what_is_summed_up_may_go(talk):
    """Where the last message of a summary is deleted, what follows is found all the same."""
    talk.add([user(n) for n in range(6)])
    talk.compress(keep_recent=2)
    talk.delete("3")
    assert told(talk) == [SUMMARY, "4", "5"]


def test_a_request_between_is_kept(talk):
    """The newest request stays, however much was done since; so does a call without an answer."""
    asks, calls, says = turn("a", 1)
    talk.add([user(0), user(1), calls, says])
    talk.add([{"id": "step", "role": "assistant", "content": "One step."}])
    pending = turn("b", 2)[1]
    talk.add([pending, {"id": "last", "role": "assistant", "content": "Still waiting."}])
    talk.compress(keep_recent=0)
    assert told(talk) == [SUMMARY, "1", "b-2-calls"]
    assert asks["id"] not in told(talk)


def test_a_long_conversation_takes_several_commits(talk):
    """Each is whole, and the summary of all of them is one."""
    talk.add([user(n) for n in range(1_200)])
    done = talk.compress(keep_recent=2)
    assert done.messages == 1_198
    assert told(talk) == [SUMMARY, "1198", "1199"]
    assert talk.uncompress() < 1_000
    assert talk.size() == 1_200


class Broken:
    """A summariser whose model is down."""

    def summarise(self, texts, *, max_tokens=256, vectors=None):
        raise ModelFailed("scripted", "it is down")

    def topics(self, texts, limit, *, max_tokens=256, vectors=None):
        return ()


class Looking(Broken):
    """A summariser that looks at the conversation each time, before it says anything."""

    def __init__(self, talk):
        self.talk, self.seen = talk, []

    def summarise(self, texts, *, max_tokens=256, vectors=None):
        marked = self.talk.get_memory(COMPRESSED, prepend_summary=False)
        self.seen.append(set(ids(marked)))
        return Summary(text="SUM", by="looking", tokens=1)


def test_no_commit_of_a_long_compression_parts_a_call_from_its_answer(talk):
    """What begins in one and ends in the next is summed up by the next."""
    _, calls, says = turn("a", 1)
    talk.add([*[user(n) for n in range(999)], calls, says, user(1_000)])
    model = Looking(talk)
    assert talk.compress(keep_recent=1, model=model).messages == 1_001
    between = model.seen[1]
    assert len(between) > 900
    assert not {calls["id"], says["id"]} & between


def test_a_summary_is_never_longer_than_it_may_be(talk):
    """However often it rolls on, and whatever room the one before took."""
    for n in range(6):
        talk.add({"role": "user", "content": f"In year {n} the garden had roses and a pond."})
        talk.add({"role": "assistant", "content": f"Noted the garden of year {n}."})
        talk.compress(keep_recent=0, max_tokens=64 if n < 4 else 40)
        assert tokens(talk.summary) <= (64 if n < 4 else 40)


def test_a_summary_of_ones_own(talk):
    """With the marks of what it stands for, in one commit; "" takes it away."""
    given = talk.add([user(n) for n in range(3)])
    assert talk.update_compressed_summary("SUM", given[:2]) == 2
    assert told(talk) == [SUMMARY, "2"]
    talk.update_compressed_summary("")
    assert told(talk) == ["2"]
    with pytest.raises(TypeError, match="summary"):
        talk.update_compressed_summary(5)


class Counting(Broken):
    """A summariser that counts what it is given."""

    def summarise(self, texts, *, max_tokens=256, vectors=None):
        return Summary(text=f"{len(texts)} texts, first {texts[0]}", by="counting", tokens=8)


def test_a_summariser_of_ones_own(talk):
    """It is given the summary so far, and what was said since; another one stands in for it."""
    talk.add([user(n) for n in range(3)])
    assert talk.compress(keep_recent=1, model=Counting()).summary == "2 texts, first user: number 0"
    talk.add(user(3))
    done = talk.compress(keep_recent=1, model=Counting())
    assert (done.summary, done.by) == ("2 texts, first 2 texts, first user: number 0", "counting")
    talk.add(user(4))
    done = talk.compress(keep_recent=1, model=Broken())
    assert done.by == "extractive"
    assert "down" in done.because
    assert "first user: number 0" in done.summary


class Saying(Broken):
    """A summariser that returns, or raises, what it is made with."""

    def __init__(self, answer):
        self.answer = answer

    def summarise(self, texts, *, max_tokens=256, vectors=None):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "because"),
    [
        (None, "must return a Summary"),
        ("a text", "must return a Summary"),
        (Summary(text=5, by="x", tokens=1), "must return a Summary"),  # pyright: ignore[reportArgumentType] - wrong on purpose
        (Summary(text="", by="x", tokens=0), "its summary is empty"),
        (Summary(text="word " * 600, by="x", tokens=1), "more than 512 tokens"),
        (ZeroDivisionError("x"), "ZeroDivisionError"),
    ],
)
def test_a_summariser_that_does_wrong_is_stood_in_for(talk, answer, because):
    """Whatever it returns or raises: sentences are chosen, and it is said why."""
    talk.add([user(n) for n in range(3)])
    done = talk.compress(keep_recent=1, model=Saying(answer))
    assert (done.messages, done.by) == (2, "extractive")
    assert because in done.because
    assert talk.summary == "user: number 0\nuser: number 1"


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep_recent": -1},
        {"keep_tokens": -1},
        {"keep_tokens": 5, "keep_recent": 1},
        {"beside_tokens": -1},
        {"trigger_tokens": 0},
        {"max_tokens": 1},
        {"model": 5},
    ],
)
def test_a_compression_that_cannot_be(talk, wrong):
    """Is refused before anything is done."""
    talk.add([user(n) for n in range(9)])
    with pytest.raises(InvalidInput):
        talk.compress(**wrong)
    assert talk.summary == ""


def test_forgetting_reaches_the_summary(key, talk):
    """What is forgotten is in no summary either, of no time."""
    talk.add({"id": "s", "role": "user", "content": "The code is 4711."})
    talk.add([user(n) for n in range(4)])
    talk.compress(keep_recent=2)
    talk.compress(keep_recent=1)
    assert "4711" in talk.summary
    talk.forget("s")
    assert talk.summary == ""
    assert not key.set("talk").history(SUMMARY)
    assert not [hit for hit in key.search("4711") if "4711" in (hit.item.text or "")]


def test_what_is_left_of_a_forgotten_summary_is_told_again(talk):
    """Nothing stands for it then: a model is told it, and the next summary is made of it anew."""
    talk.add([user(n) for n in range(8)])
    talk.compress(keep_recent=2)
    talk.forget("1")
    left = [f"number {n}" for n in (0, 2, 3, 4, 5, 6, 7)]
    assert [message["content"] for message in talk.messages()] == left
    done = talk.compress(keep_recent=4, trigger_tokens=30)
    assert (done.messages, done.summary.splitlines()) == (3, [f"user: {one}" for one in left[:3]])
    assert told(talk) == [SUMMARY, "4", "5", "6", "7"]
    assert talk.uncompress() == 3
    assert [message["content"] for message in talk.messages()] == left


def test_a_summary_of_ones_own_over_marks_of_ones_own(talk):
    """Marked first, then summed up: forgetting one of them takes the summary too."""
    given = talk.add([user(n) for n in range(3)])
    talk.update_messages_mark(COMPRESSED, msg_ids=given[:2])
    assert len(talk.messages()) == 3
    assert talk.update_compressed_summary("SUM", given[:2]) == 0
    assert [message["content"] for message in talk.messages()] == ["SUM", "number 2"]
    talk.forget("0")
    assert talk.summary == ""


class Listing(Broken):
    """A summariser that says all that it is given."""

    def summarise(self, texts, *, max_tokens=256, vectors=None):
        return Summary(text="\n".join(texts), by="listing", tokens=8)


def test_a_summary_and_what_it_is_not_of_are_read_at_one_moment(talk):
    """While others sum up and undo, each message is told by the summary or itself, never twice."""
    talk.add([user(n) for n in range(8)])
    every = [f"number {n}" for n in range(8)]

    def sum_up():
        for _ in range(20):
            talk.compress(keep_recent=2, model=Listing())
            talk.uncompress()

    with ThreadPoolExecutor(1) as pool:
        done, reads = pool.submit(sum_up), 0
        while not done.done() or not reads:
            text = "\n".join(message["content"] for message in talk.messages())
            assert text.replace("user: ", "").splitlines() == every
            reads += 1
        done.result()


def test_contents_of_any_kind_and_urls_are_told(key, talk):
    """As text, where a model's form has no such content: by the conversation, and by prompts."""
    memory = TemporaryMemory(memory=key, name="own")
    parts = [{"type": "text", "text": "five"}]
    added = [
        Msg("Ada", {"seat": "window"}, role="user"),
        Msg("Ada", [1, 2], role="user"),
        Msg("Ada", "look", ["https://e.org/a.png", "data:image/png;base64,AAAA"], role="user"),
        Msg("Ada", None, "b.png", role="user"),
        Msg("Ada", parts, role="user"),
        {"role": "assistant", "content": 5},
    ]
    texts = [
        '{"seat": "window"}',
        "[1, 2]",
        "look\nhttps://e.org/a.png\ndata:image/png;base64",
        "b.png",
        parts,
        "5",
    ]
    talk.add(added)
    memory.add(added)
    assert [message["content"] for message in talk.messages()] == texts
    assert "a.png" in talk.search("e.org a.png", limit=1)[0].item.text
    for name in ("talk", "own"):
        found = key.context(None, messages=name, sets=None, recent=9)
        said = [message["content"].removeprefix("Ada: ") for message in found.messages]
        assert said == [*texts[:4], "five", "5"]
    assert talk.get_memory(recent_n=6)[2]["url"] == added[2].url


def test_instructions_of_a_developer_are_no_request(key, talk):
    """They are the system's, under a newer name: no prompt repeats them, no summary spares them."""
    talk.add([user(0), {"id": "d", "role": "developer", "content": "Be brief."}])
    talk.add({"id": "last", "role": "assistant", "content": "Yes."})
    assert "Be brief" not in key.context(None, sets=None).text
    assert talk.compress(keep_recent=1).messages == 1
    assert told(talk) == [SUMMARY, "0", "last"]


@pytest.mark.parametrize("wrong", [5, None, [], {"content": 5}, {"content": ["x"]}])
def test_what_is_no_state_is_refused(talk, wrong):
    """And nothing is changed."""
    talk.add(user(1))
    with pytest.raises(InvalidInput):
        talk.load_state_dict(wrong)
    assert talk.size() == 1


def test_a_summary_makes_no_conversation_the_newest(key, talk):
    """A context goes on with the one in which something was said last, whatever is summed up."""
    other = key.conversation("other")
    other.add(user(1))
    talk.add(user(2))
    other.update_compressed_summary("SUM")
    other.update_compressed_summary("SUM of 1", "1")
    assert [one["content"] for one in key.context(None, sets=None).messages] == ["number 2"]


def test_a_context_reads_the_conversation(key, talk):
    """A prompt shows the newest exchanges, with their calls, and finds what was summed up."""
    talk.add({"role": "user", "content": "My cat is called Momo."})
    for n in range(3):
        talk.add(turn("a", n))
    talk.compress(keep_recent=2)
    found = key.context("What is my cat called?", recent=1)
    shown = [message["content"] for message in found.messages]
    assert "What is number 2?" in shown
    assert any("It is 2." in text for text in shown)
    assert "Momo" in found.text


def test_rules_of_admission_hold(key):
    """What a set's rules keep out of it is kept out of the conversation; marks are no matter."""
    key.set("talk", item_type="message", admission=[Size(max_chars=90)]).add("x", id="x")
    talk = key.conversation("talk")
    with pytest.raises(Rejected):
        talk.add([user(1), {"role": "user", "content": "word " * 30}])
    talk.add([user(1), user(2), user(3)])
    assert talk.update_messages_mark("todo", msg_ids=["1"]) == 1
    assert talk.compress(keep_recent=1).messages == 3


def test_rules_of_admission_hold_for_a_memory_of_messages(key):
    """Also for messages that take the place of others: all of them, or nothing is changed."""
    key.set("talk", item_type="message", admission=[Size(max_chars=90), Exact()]).add("x", id="x")
    memory = TemporaryMemory(
        memory=key, name="talk", embedding_model=lambda texts: [[1.0] for _ in texts]
    )
    long, short = Msg("u", "word " * 30), Msg("u", "word")
    with pytest.raises(Rejected):
        memory.add([short, long])
    memory.add(short)
    with pytest.raises(Rejected):
        memory.load([short, long], overwrite=True)
    assert memory.size() == 2
    memory.load(short, overwrite=True)
    assert memory.get_embeddings() == [[1.0]]
    assert memory.get_memory() == [{**short, "embedding": [1.0]}]


# --- processes ----------------------------------------------------------------------------------


def worker(path, name, first, count, **env):
    command = [sys.executable, str(WORKER), str(path), name, str(first), str(count)]
    return warm.run(
        command, env=os.environ | env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def check(talk, written):
    """Hold a conversation to its law: *written* turns are there, whole, in order, each once."""
    every = ids(talk.get_memory(prepend_summary=False))
    summed = ids(talk.get_memory(mark=COMPRESSED, prepend_summary=False))
    open_ = told(talk, prepend_summary=False)
    assert len(set(every)) == len(every)
    assert sorted(summed + open_) == sorted(every)
    assert bool(talk.summary) == bool(summed)
    for name, turns in itertools.groupby(sorted(every), key=lambda one: one.split("-")[0]):
        there = set(turns)
        for n in written.get(name, ()):
            assert {one["id"] for one in turn(name, n)} <= there
    for one in every:
        name, n, part = one.split("-")
        whole = [message["id"] for message in turn(name, int(n))]
        assert set(whole) <= set(every)
        if part == "calls":
            assert (one in summed) == (whole[2] in summed)


def test_a_kill_loses_no_message_and_splits_no_call(tmp_path):
    """Killed before or after any commit, or inside one, what was added is there, and only that."""
    path, chance = tmp_path / "app.db", random.Random(7)
    written, first = [], 0
    for _ in range(KILLS):
        step, when = chance.choice(["commit", "item"]), chance.choice(["before", "after"])
        spec = f"{step}:{when}:{chance.randrange(1, 12)}"
        done = worker(path, "a", first, 6, ALVEUS_CRASH=spec)
        assert done.returncode in (0, -9), done.stderr[-500:]
        said = [int(line) for line in done.stdout.split()]
        written += said
        first = (said[-1] if said else first - 1) + 1
        with Memory.open(path, embedder="words") as memory:
            check(memory.key("ada").conversation("talk"), {"a": written})


def test_two_processes_in_one_conversation(tmp_path):
    """Both add and sum up: one order, no gaps, each one's turns in its own order."""
    path, count = tmp_path / "app.db", 10
    Memory.open(path, embedder="words").close()
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(worker, path, name, 0, count) for name in "ab"]
    assert [one.result().returncode for one in both] == [0, 0], both[0].result().stderr[-500:]
    with Memory.open(path, embedder="words") as memory:
        talk = memory.key("ada").conversation("talk")
        check(talk, {"a": range(count), "b": range(count)})
        every = ids(talk.get_memory(prepend_summary=False))
        assert len(every) == 6 * count
        for name in "ab":
            mine = [one for one in every if one.startswith(name)]
            assert mine == [m["id"] for n in range(count) for m in turn(name, n)]
        assert ids(talk.get_memory(prepend_summary=False, recent_n=len(every))) == every


def test_a_memory_of_messages_reads_a_conversation(key, talk):
    """A set of messages is one, whichever way it is opened."""
    memory = TemporaryMemory(memory=key, name="talk")
    memory.add([Msg("Ada", "x", role="user"), {"content": "y"}])
    assert [message["content"] for message in talk.get_memory()] == ["x", "y"]
    for for_chat in (False, True):
        last = talk.messages(1, for_chat=for_chat)
        assert last == [{"role": "assistant", "content": "y"}]


@pytest.mark.parametrize("strange", [{"more": 5}, {"calls": 5}, {"answers": [5]}, {"role": 5}])
def test_what_others_put_into_the_set_is_read(key, talk, strange):
    """An item that `ConversationMemory` did not write breaks no call of a conversation."""
    talk.add(user(1))
    key.set("talk").add({"content": "x", **strange}, text="x", id="strange")
    talk.add(user(2))
    assert ids(talk.get_memory()) == ["1", "strange", "2"]
    for for_chat in (False, True):
        contents = [one["content"] for one in talk.messages(for_chat=for_chat)]
        assert contents == ["number 1", "x", "number 2"]
    assert talk.compress(keep_recent=1).messages == 2
    assert key.context("x").text
