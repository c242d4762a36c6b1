"""What goes out and comes back: the format of exports, chats, and imports that are interrupted."""

from __future__ import annotations

import io
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Item, Memory, Signals, Summarize, Trim
from alveus.errors import AlveusError, DuplicateItem, InvalidInput, SetDefinitionConflict
from alveus.sets.admission import Exact, Near, Size
from alveus.sets.compaction import CompactionPlan
from alveus.store import Scope
from alveus.transfer import (
    CHUNK,
    Load,
    Loaded,
    Selection,
    Source,
    Target,
    export_lines,
    exported_items,
    layout_of,
    survey,
    walk_tree,
)
from alveus.transfer.import_formats import entries
from alveus.values.times import parse_time


@pytest.fixture
def memory():
    with Memory.open(embedder="words") as opened:
        yield opened


def lines(memory, **selection):
    return list(export_lines(memory, Selection(**selection)))


def source(*found, name="file.jsonl"):
    texts = [one if isinstance(one, str) else json.dumps(one) for one in found]
    return Source(name, io.BytesIO("\n".join(texts).encode("utf-8", "surrogatepass")))


def load(memory, file, target=None, **options):
    layout = layout_of(file)
    survey(file, layout, target)
    return Load(memory, **options).run(file, layout, target)


def keep_all(items, capacity):
    """A strategy of one's own."""
    return CompactionPlan()


def copied(found):
    with Memory.open(embedder="words") as other:
        load(other, source(*found))
        return lines(other)


def chat(count, start=0):
    return [{"role": "user", "content": f"message {n}"} for n in range(start, start + count)]


# --- lines that were checked ---------------------------------------------------------------------


def item_lines(*values):
    return [
        {"type": "item", "key": "ada", "set": "notes", "id": f"{n}", "value": value}
        for n, value in enumerate(values)
    ]


@pytest.mark.parametrize("bad", ['{"type": "item"}', "[]", '{"a": 1, "a": 1}', "{"])
def test_a_line_that_changes_after_the_check_is_checked_again(memory, bad):
    """Whoever writes the file while it is imported: no line is taken that was not looked at."""
    handle = io.BytesIO("\n".join(map(json.dumps, item_lines("a", "b", "c"))).encode())
    file = Source("file.jsonl", handle)
    survey(file, "alveus", None)
    lines_now = handle.getvalue().decode().splitlines()
    handle.seek(0)
    handle.truncate()
    handle.write("\n".join([lines_now[0], bad, lines_now[2]]).encode())
    with pytest.raises(InvalidInput, match=r"file\.jsonl:2: "):
        Load(memory).run(file, "alveus")


def test_lines_that_move_after_the_check_are_read_where_they_are(memory):
    """Each as it is then, whether it stood there before or not."""
    texts = [json.dumps(line) for line in item_lines("a", {"text": "b"}, "c")]
    handle = io.BytesIO("\n".join(texts).encode())
    file = Source("file.jsonl", handle)
    survey(file, "alveus", None)
    handle.seek(0)
    handle.truncate()
    handle.write("\n".join(["", texts[2], *texts[:2]]).encode())
    Load(memory).run(file, "alveus")
    notes = memory.key("ada").set("notes")
    assert [notes.get(f"{n}").value for n in range(3)] == ["a", {"text": "b"}, "c"]


def test_a_line_that_passed_is_read_as_it_was(memory):
    """Of whatever is stored, and of lines without an id: the second reading is the first."""
    notes = memory.key("ada").set("notes")
    notes.add({"text": "hi", "raw": b"\0\xff", "$a": [math.inf]}, id="a", metadata={"$b": b""})
    notes.add(7, text="seven", speaker="Ada", importance=1, ttl="7d")
    moon = datetime(1969, 7, 20, 20, 17, 40, 5, UTC)
    notes.add(Item("made of it", id="c", sources=("a",), time=moon))
    memory.knowledge.set("handbook").add("x", text="")
    nameless = [{k: v for k, v in line.items() if k != "id"} for line in item_lines("a", "a")]
    file = source(*lines(memory), *nameless)
    first, again = (list(entries(file, "alveus", None)) for _ in range(2))
    assert first == again == list(entries(source(*lines(memory), *nameless), "alveus", None))
    assert len(first) > 6


@pytest.mark.parametrize(
    "fields",
    [
        *({"text": 5}, {"sources": [""]}, {"time": "noon"}, {"session": "a\ud800"}),
        {"valid_from": "2026-01-02T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"},
        {"time": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"until": "2026-01-01T00:00:00Z"},
    ],
)
def test_nothing_is_written_where_a_part_of_an_item_cannot_be(memory, fields):
    """What a store would refuse is found before anything is written."""
    good, bad = item_lines("a", "b")
    with pytest.raises(InvalidInput, match=r"file\.jsonl:2: "):
        load(memory, source(good, bad | fields))
    assert len(memory.key("ada").set("notes")) == 0


# --- round trips -------------------------------------------------------------------------------


def test_an_export_comes_back_byte_for_byte(memory):
    """Export, import into an empty memory, export: the same bytes, whatever the values."""
    ada = memory.key("ada")
    notes = ada.set("notes", capacity=50, compaction="reject", signals=Signals(recency=0.5))
    notes.add("Prefers window seats.", metadata={"topic": "travel", "$odd": {"$bytes": "no"}})
    notes.add({"content": "hi", "raw": b"\0\xff", "big": 10**700, "inf": math.inf})
    notes.add([1, 2.5, None, True], text="a list", importance=0.25, speaker="Ada", role="user")
    notes.add("x", text="", session="s", time=datetime(1969, 7, 20, 20, 17, 40, 5, UTC))
    ada.set("emptied").delete(ada.set("emptied").add("gone"))
    tree = ada.short_term
    tree.set("profile.city", "Lisbon")
    tree.set(("with.dot", "ü\n"), [b"bytes", {"$int": 1}])
    tree.set("nan", math.nan)
    tree.new_object("empty")
    tree.set("soon", 1, ttl=timedelta(days=1))
    memory.knowledge.set("handbook").add("Returns within 30 days.", id="h-1")
    first = lines(memory)
    assert copied(first) == first
    assert json.loads(first[0]) == {"type": "alveus", "format": 1}
    assert exported_items(memory, Selection()) == 5


def test_a_set_comes_back_as_it_was_defined(memory):
    """Every setting of a set, and when items hold and expire; a set keeps on as it did."""
    ada, time = memory.key("ada"), datetime(2040, 1, 1, tzinfo=UTC)
    ada.set(
        "facts",
        capacity=50,
        capacity_tokens=900,
        capacity_bytes=9_000,
        compaction=Summarize(limit=3),
        high_water=0.8,
        low_water=0.5,
        execution="sync",
        retention=timedelta(days=3),
        admission=[Exact(), Near(0.7), Size(max_chars=90)],
    ).add("Ada is in Rome", expire_at=time, valid_from=time - timedelta(9), valid_to=time)
    ada.set("log", capacity=9, compaction=Trim(n=2), retention="purge").add("x")
    ada.set("own", capacity=9, compaction=keep_all).add("x")
    first = lines(memory)
    with Memory.open(embedder="words") as other:
        load(other, source(*first))
        assert lines(other) == first
        for name in ("facts", "log", "own"):
            assert other.key("ada").set(name).definition == ada.set(name).definition


def test_an_export_has_what_is_there_now(memory):
    """Deleted items and earlier versions stay at home."""
    ada = memory.key("ada")
    ada.add("first", id="a")
    ada.update("a", "second")
    ada.delete(ada.add("gone"))
    found = [json.loads(line) for line in lines(memory) if '"item"' in line]
    assert [one["value"] for one in found] == ["second"]


def test_items_keep_their_order(memory):
    """Items of one time come back in the order in which they were added."""
    time = datetime(2025, 1, 1, tzinfo=UTC)
    memory.key("ada").add_many([str(n) for n in range(700)])
    for n in range(5):
        memory.key("bob").add(f"same time {n}", time=time)
    first = lines(memory)
    assert copied(first) == first


def test_a_selection_is_a_part_of_the_whole(memory):
    """Keys, sets, knowledge and trees can be chosen."""
    memory.key("ada").add("a")
    memory.key("ada").set("other").add("b")
    memory.key("bob").short_term.set("x", 1)
    memory.knowledge.set("handbook").add("k")
    keys = {json.loads(line).get("key") for line in lines(memory, keys=["ada"], knowledge=False)}
    assert keys == {None, "ada"}
    kinds = [json.loads(line)["type"] for line in lines(memory, sets=["other"], trees=False)]
    assert kinds == ["alveus", "set", "item"]
    assert exported_items(memory, Selection(sets=["other"])) == 1


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=values, field=st.text(min_size=1, max_size=10))
def test_any_value_makes_the_trip(value, field):
    """Whatever can be stored can be exported and imported."""
    with Memory.open(embedder="words") as memory:
        memory.key("ada").add(value, text="x", metadata={field: value})
        memory.key("ada").short_term.set((field,), value)
        first = lines(memory)
        assert copied(first) == first


# --- importing again ---------------------------------------------------------------------------


def test_a_file_again_adds_nothing(memory):
    """The same file twice is the same memory, also without ids in it."""
    file = source(*chat(10), *chat(3))
    target = Target("ada", "chat")
    assert load(memory, file, target) == Loaded(added=13)
    assert load(memory, file, target) == Loaded(kept=13)
    assert len(memory.key("ada").set("chat")) == 13


def test_a_longer_file_adds_its_end(memory):
    """A log that has grown brings its new lines, and no old one twice."""
    target = Target("ada")
    load(memory, source(*chat(10)), target)
    assert load(memory, source(*chat(10), *chat(2, 9)), target) == Loaded(added=2, kept=10)


@pytest.mark.parametrize("on_existing", ["keep", "update"])
def test_two_imports_at_once_count_what_each_of_them_did(tmp_path, on_existing):
    """Of one file, into one key: together as many items, sets and values as there are."""
    file = [
        {"type": "set", "key": "ada", "set": "chat", "capacity": 10_000},
        *({"type": "item", "key": "ada", "set": "chat", "value": f"n {n}"} for n in range(1200)),
        *({"type": "value", "key": "ada", "path": [f"v{n}"], "value": n} for n in range(20)),
    ]
    ready = threading.Barrier(2)

    def work(path):
        with Memory.open(path, embedder="words", durability="normal") as memory:
            ready.wait()
            return load(memory, source(*file), on_existing=on_existing)

    for number in range(5):
        path = tmp_path / f"{number}.db"
        with ThreadPoolExecutor() as threads:
            one, two = threads.map(work, [path, path])
        both = one.plus(two)
        assert (both.added, both.kept, both.updated, both.sets) == (1200, 1200, 0, 1)
        assert both.values == 20 if on_existing == "keep" else both.values >= 20


class Fails(Exception):
    pass


@pytest.mark.parametrize("chunks", [0, 1, 2])
def test_an_interrupted_import_goes_on(memory, chunks):
    """Stopped between two commits and run again, it gives what one run would have given."""
    file, target = source(*chat(3 * CHUNK)), Target("ada")
    left = chunks

    def stop(_count):
        nonlocal left
        left -= 1
        if left < 0:
            raise Fails

    with pytest.raises(Fails) as raised:
        Load(memory).run(file, "chat", target, progress=stop)
    assert f"up to line {(chunks + 1) * CHUNK}" in raised.value.__notes__[0]
    assert len(memory.key("ada").set("default")) == (chunks + 1) * CHUNK
    assert Load(memory).run(file, "chat", target).added == (2 - chunks) * CHUNK
    assert [i.value for i in memory.key("ada").list()] == [f"message {n}" for n in range(3 * CHUNK)]


def test_an_error_of_the_store_says_how_far_it_came(memory):
    """A set that is full ends an import; what was written is said."""
    ada = memory.key("ada")
    ada.set("chat", capacity=CHUNK, compaction="reject").add_many(["x"])
    with pytest.raises(AlveusError, match="full") as raised:
        load(memory, source(*chat(CHUNK - 1), *chat(2, 9000)), Target("ada", "chat"))
    assert not getattr(raised.value, "__notes__", [])


def test_what_is_there_is_kept_or_updated_or_refused(memory):
    """`on_existing` decides about items, values and definitions."""
    ada = memory.key("ada")
    ada.add("old", id="a")
    ada.short_term.set("city", "Lisbon")
    file = source(
        {"type": "item", "key": "ada", "set": "default", "id": "a", "value": "new"},
        {"type": "value", "key": "ada", "path": ["city"], "value": "Porto"},
    )
    assert load(memory, file) == Loaded(kept=1, values_kept=1)
    assert ada.get("a").value == "old"
    with pytest.raises(DuplicateItem):
        load(memory, file, on_existing="error")
    assert load(memory, file, on_existing="update") == Loaded(updated=1, values=1)
    assert (ada.get("a").value, ada.short_term.get("city")) == ("new", "Porto")
    assert load(memory, file, on_existing="update").updated == 0
    with pytest.raises(InvalidInput, match="already"):
        load(memory, source(*file_of_value()), on_existing="error")
    with pytest.raises(InvalidInput, match="on_existing"):
        Load(memory, on_existing="never")  # pyright: ignore[reportArgumentType] - wrong on purpose


def file_of_value():
    return [{"type": "value", "key": "ada", "path": ["city"], "value": "Porto"}]


def test_a_set_that_is_otherwise_is_not_changed_unasked(memory):
    """A smaller capacity would drop items: only `update` redefines a set."""
    memory.key("ada").set("notes", capacity=5).add("x")
    file = source({"type": "set", "key": "ada", "set": "notes", "capacity": 7})
    with pytest.raises(SetDefinitionConflict):
        load(memory, file)
    assert load(memory, file, on_existing="update") == Loaded(sets=1)
    assert load(memory, file) == Loaded()
    assert memory.key("ada").set("notes").definition.capacity == 7


def test_what_has_expired_is_left_out(memory):
    """A value whose time is over does not come back to life; it is counted."""
    past = {"type": "value", "key": "a", "path": ["x"], "value": 1, "expires": "2020-01-01T00:00Z"}
    assert load(memory, source(past)) == Loaded(expired=1)
    assert "x" not in memory.key("a").short_term


# --- other formats -----------------------------------------------------------------------------


def test_a_chat_becomes_items(memory):
    """Role, speaker, session and time are kept; unknown fields become metadata."""
    message = {
        "role": "user",
        "content": "hello",
        "time": 1738784520,
        "speaker": "Ada",
        "session": "s1",
        "model": "m",
        "$ref": 1,
        "id": "m-1",
    }
    load(memory, source(message), Target("ada"))
    item = memory.key("ada").get("m-1")
    assert item is not None
    assert (item.value, item.role, item.speaker, item.session) == ("hello", "user", "Ada", "s1")
    assert item.time == datetime(2025, 2, 5, 19, 42, tzinfo=UTC)
    assert item.metadata == {"model": "m", "$ref": 1}


def test_a_chat_may_go_to_knowledge(memory):
    """A target without a key is knowledge."""
    load(memory, source(*chat(2)), Target(None, "faq"))
    assert len(memory.knowledge.set("faq")) == 2


def conversation(**changes):
    turn = {"id": "S1:1", "speaker": "Ines", "text": "Are you home?", "caption": "a sofa"}
    session = {"session_id": "S1", "date": "12:05 am on 5 February, 2025", "turns": [turn]}
    return {"id": "c", "sessions": [session | changes]}


def test_a_conversation_becomes_items(memory):
    """Turns are items of their session, at its time, with their captions."""
    load(memory, source(conversation()), Target("ines"))
    (item,) = memory.key("ines").list()
    assert (item.id, item.session, item.speaker) == ("c/S1:1", "c/S1", "Ines")
    assert item.time == datetime(2025, 2, 5, 0, 5, tzinfo=UTC)
    assert item.metadata == {"caption": "a sofa"}
    other = conversation(date="2025-02-05T12:00:00+01:00") | {"id": "d"}
    load(memory, source(other), Target("ines"))
    assert memory.key("ines").get("d/S1:1").time == datetime(2025, 2, 5, 11, tzinfo=UTC)


# --- files that cannot be used -----------------------------------------------------------------

ITEM = {"type": "item", "key": "a", "set": "s", "value": "v"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is not JSON"),
        ("[1]", "not an object"),
        ("[" * 100_000, "is not JSON"),
        ({"type": "alveus", "format": 2}, "format must be 1, not 2"),
        ({"type": "thing"}, "'thing'"),
        ({"type": "item", "set": "s", "value": 1}, '"key" is missing'),
        (ITEM | {"key": ""}, "non-empty"),
        (ITEM | {"set": 3}, "non-empty"),
        (ITEM | {"id": ""}, "non-empty"),
        (ITEM | {"time": "2025-01-01T00:00:00"}, "no zone"),
        (ITEM | {"time": "yesterday"}, "not understood"),
        (ITEM | {"time": 1e300}, "out of range"),
        (ITEM | {"importance": 7}, "importance"),
        (ITEM | {"importance": True}, "importance"),
        (ITEM | {"metadata": []}, "metadata"),
        (ITEM | {"sources": "a"}, "sources"),
        (ITEM | {"speaker": ""}, "speaker"),
        (ITEM | {"value": 7}, "no text"),
        (ITEM | {"id": "\ud800"}, "surrogate"),
        (ITEM | {"valu": 7}, "unknown fields"),
        ('{"type": "item", "key": "a", "set": "s", "value": NaN, "text": "x"}', "NaN"),
        ({"type": "item", "key": "a", "set": "s"}, '"value" is missing'),
        ({"type": "set", "key": "a", "set": "s", "capacity": 0}, "capacity"),
        ({"type": "set", "key": "a", "set": "s", "compaction": "zip"}, "compaction"),
        ({"type": "set", "key": "a", "set": "s", "signals": 1}, "signals"),
        ({"type": "set", "key": "a", "set": "s", "signals": {"x": 1}}, "there are no signals"),
        ({"type": "set", "key": None, "set": "s", "capacity": 1}, "knowledge"),
        ({"type": "set", "key": "a", "set": "s", "item_type": ""}, "item_type"),
        ({"type": "set", "key": "a", "set": "s", "retention": 0}, "retention"),
        ({"type": "set", "key": "a", "set": "s", "retention": "later"}, "retention"),
        ({"type": "set", "key": "a", "set": "s", "execution": "never"}, "execution"),
        ({"type": "set", "key": "a", "set": "s", "high_water": 2}, "high_water"),
        ({"type": "set", "key": "a", "set": "s", "low_water": 0.95}, "low_water"),
        ({"type": "set", "key": "a", "set": "s", "capacity_tokens": -1}, "capacity_tokens"),
        ({"type": "set", "key": "a", "set": "s", "compaction": {"name": "newer"}}, "newer"),
        ({"type": "set", "key": "a", "set": "s", "admission": [{"rule": "newer"}]}, "newer"),
        ({"type": "set", "key": "a", "set": "s", "admission": "exact"}, "admission"),
        ({"type": "value", "key": "a", "path": [], "value": 1}, "empty"),
        ({"type": "value", "key": "a", "path": [""], "value": 1}, "path"),
        ({"type": "value", "key": "a", "path": ["x"]}, "needs a"),
        ({"type": "object", "key": "a", "path": ["x"], "value": 1}, "takes none"),
        ({"type": "value", "key": None, "path": ["x"], "value": 1}, "key"),
        ({"role": 1, "content": "x"}, "needs a text as"),
        (conversation(turns=[{"id": "1", "speaker": "I", "text": 5}]), "a turn needs a text"),
        (conversation(turns=[7]), "list of objects"),
        (conversation(date="7:42 pm on 31 February, 2025"), "does not exist"),
        (conversation(date=None), "its session needs a date"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(line, problem):
    """The error has the file, the line, and what is wrong."""
    kind = "chat" if "role" in line else "conversation" if "sessions" in line else "alveus"
    target = None if kind == "alveus" else Target("ada")
    with pytest.raises(InvalidInput, match=r"^file\.jsonl:1: ") as raised:
        survey(source(line), kind, target)
    assert problem in str(raised.value)


def test_nothing_is_written_if_a_late_line_is_wrong(memory):
    """The whole file is checked first."""
    with pytest.raises(InvalidInput, match=rf"file.jsonl:{2 * CHUNK + 1}: "):
        load(memory, source(*chat(2 * CHUNK), {"role": "user"}), Target("ada"))
    assert list(memory.keys()) == []


def test_an_id_that_is_there_twice_is_named(memory):
    """Two lines for one item would depend on their order."""
    message = {"role": "user", "content": "x", "id": "m"}
    with pytest.raises(InvalidInput, match=r"file.jsonl:2: 'm' is also on line 1"):
        load(memory, source(message, message | {"content": "y"}), Target("ada"))
    line = {"type": "item", "key": "ada", "set": "s", "id": "m", "value": "x"}
    with pytest.raises(InvalidInput, match=r"file.jsonl:2: 'm' is also on line 1"):
        load(memory, source(line, line))


def test_bytes_that_are_not_utf8_are_named(memory):
    """A file in another encoding is not guessed at."""
    file = Source("f", io.BytesIO(b'\xef\xbb\xbf{"role":"user","content":"x"}\n\n\xff\n'))
    with pytest.raises(InvalidInput, match=r"^f:3: byte 1 of the line is not UTF-8"):
        load(memory, file, Target("ada"))


def test_an_empty_file_is_said_to_be_empty():
    """Nothing to import is not success."""
    with pytest.raises(InvalidInput, match="no records to import"):
        layout_of(source("", " "))


def test_times_need_a_zone():
    """A time without a zone means something else on every machine."""
    assert parse_time("2025-02-05T19:42:00Z") == datetime(2025, 2, 5, 19, 42, tzinfo=UTC)
    for wrong in ("2025-02-05T19:42:00", "soon", None, 5):
        with pytest.raises(InvalidInput):
            parse_time(wrong)


def test_what_a_file_is_has_to_be_told():
    """A file is not guessed at."""
    with pytest.raises(InvalidInput, match="the format is unknown"):
        layout_of(source({"role": "user"}))


def test_a_tree_is_walked_from_the_top(memory):
    """An object comes before its fields."""
    memory.key("a").short_term.set("x.y", 1)
    found = walk_tree(memory.store, Scope("default", "a"), at=None, now=0)
    assert [path for path, _ in found] == [("x",), ("x", "y")]
