"""Many items added by one call: they are what as many calls would have made of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import apsw
import numpy as np
import pytest

from alveus import Item, Memory
from alveus.embed import open_embedder
from alveus.errors import AlveusError, DuplicateItem, InvalidInput, InvalidValue
from alveus.store import Add, Batch, Scope, SetRef
from alveus.store.records import RecordMaker, read_at
from alveus.store.sql.items import Changes
from alveus.store.sqlite import SqliteStore
from alveus.values import words
from alveus.values.ids import made_by, new_id, new_ids
from alveus.values.storable import microseconds

NOON = datetime(2026, 3, 4, 12, 0, 59, 999_990, tzinfo=UTC)

PLAIN = [
    Item("Ann likes tea", id="a"),
    Item("Where was Ann in May 2023?", id="b", metadata={"kind": "rare", "n": [1, 2.5]}),
    Item("Zürich ist schön, 東京も", id="ç"),
    Item("", id="empty"),
    Item(" \n", id="blank"),
    Item(" ", id="shown", metadata={"caption": "a red bicycle"}),
    Item("always answer in French " * 40, id="long"),
    Item("zero", id="zero", importance=0, compacted=False, sources=()),
    Item("half", id="half", importance=0.5),
    Item("one\x1e\ntwo", id="parts"),
]

OTHERS = [
    Item({"text": "a dict", "raw": b"\x00" * 90}, id="dict"),
    Item(7, text="seven", id="seven"),
    Item("said", id="said", speaker="User", session="s"),
    Item("role", id="role", speaker="Ann", role="judge"),
    Item("then", id="then", time=datetime(2020, 1, 1, tzinfo=UTC)),
    Item("span", id="span", until=NOON + timedelta(days=1), valid_from=NOON),
    Item("short", id="short", ttl="7d"),
    Item(None, texts=["first", "second"], id="texts"),
]

ROWS = {
    "item": """
        SELECT id, version, ended, time, created, updated, value, text, metadata, importance,
            speaker, role, session, sources, compacted, tokens, until, expires, valid_from, valid_to
        FROM item ORDER BY id
    """,
    "feature": """
        SELECT id, ended, time, importance, speaker, role, session, metadata, terms, tokens,
            temporal, vectors
        FROM feature ORDER BY id
    """,
    "set": "SELECT name, items, bytes, tokens FROM memory_set ORDER BY name",
}
"""What a file holds of items, but for their rows and commits."""


def stored(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return `ROWS` of a file."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = {name: db.execute(query).fetchall() for name, query in ROWS.items()}
    db.close()
    return found


def terms(path: Path) -> dict[str, bytes]:
    """Return what words read of each item of a file."""
    return {row[0]: row[8] for row in stored(path)["feature"]}


@pytest.mark.parametrize("embedder", ["static", "words"])
@pytest.mark.parametrize("items", [PLAIN, [*PLAIN, *OTHERS]], ids=["plain", "mixed"])
def test_one_call_and_many_store_the_same_rows(tmp_path, items, embedder):
    """Every column of items, of what search reads of them, and of what a set counts."""
    one, many = tmp_path / "one.db", tmp_path / "many.db"
    with Memory.open(one, embedder=embedder, clock=lambda: NOON) as memory:
        for item in items:
            memory.key("ada").set("notes").add(item)
    with Memory.open(many, embedder=embedder, clock=lambda: NOON) as memory:
        memory.key("ada").set("notes").add_many(items)
    found = stored(many)
    assert found == stored(one)
    assert len(found["item"]) == len(items)


def test_a_commit_in_the_next_minute_reads_the_words_of_its_time(tmp_path):
    """The words of an item without a time are those of its commit, whenever it was prepared."""
    with Memory.open(tmp_path / "a.db", embedder="words", clock=lambda: NOON) as memory:
        scope, prepared = Scope("default", "ada"), microseconds(NOON)
        pairs = [(f"{n}", Item("day")) for n in range(20)]
        pairs.append(("timed", Item("day", time=NOON)))
        records = memory.engine.recorder.records(pairs, now=prepared)
        notes = SetRef(scope, "notes")
        adds = [Add(notes, record) for record in records]
        memory.store.commit(Batch(scope=scope, time=prepared + 60_000_000, items=adds))
    later = read_at(records[0], prepared + 60_000_000).terms
    assert later != records[0].terms
    assert terms(tmp_path / "a.db") == {
        **{f"{n}": later for n in range(20)},
        "timed": records[20].terms,
    }


def test_an_id_that_was_there_begins_its_next_version(tmp_path):
    """In one call beside new ones, whether the item was deleted or has expired."""
    now = [NOON]
    with Memory.open(tmp_path / "a.db", embedder="words", clock=lambda: now[0]) as memory:
        notes = memory.key("ada").set("notes")
        notes.add_many([f"new {n}" for n in range(20)])
        notes.add("deleted", id="gone")
        notes.delete("gone")
        notes.add("expired", id="old", ttl="1d")
        now[0] += timedelta(days=2)
        notes.add_many([Item(f"again {n}", id=n) for n in ("gone", "old", *"abcdefgh")])
        assert [len(notes.history(n)) for n in ("gone", "old", "a")] == [2, 2, 1]


@pytest.mark.parametrize("twice", ["c", "b"], ids=["there", "in the call"])
def test_a_call_that_names_a_taken_id_adds_nothing(tmp_path, twice):
    """Neither those before it, nor those after it."""
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        notes = memory.key("ada").set("notes")
        notes.add("here", id="c")
        items = [Item(f"{n}", id=n) for n in "abdefghijk"]
        with pytest.raises(DuplicateItem, match=repr(twice)):
            notes.add_many([*items, Item("twice", id=twice), Item("no id")])
        assert [item.id for item in notes.list()] == ["c"]


@pytest.mark.parametrize("importance", [False, "0", 2, None])
def test_no_importance_but_a_number_passes(tmp_path, importance):
    """Also not one that equals the default."""
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        bad = Item("bad", importance=importance)
        with pytest.raises(InvalidInput, match="importance"):
            memory.key("ada").add_many([*["good"] * 20, bad])


@pytest.mark.parametrize("name", ["id", "text", "speaker", "session"])
@pytest.mark.parametrize("values", [[1, 2], [None]])
def test_no_array_passes_for_nothing(tmp_path, name, values):
    """An array compares with None element by element, and is still no text."""
    fields: dict[str, Any] = {name: np.array(values)}
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        with pytest.raises((InvalidInput, InvalidValue)):
            memory.key("ada").add(Item("alone", **fields))
        with pytest.raises((InvalidInput, InvalidValue)):
            memory.key("ada").add_many([*["good"] * 20, Item("bad", **fields)])
        assert not memory.key("ada").list()


def test_ids_that_are_made_together_rise_and_differ():
    """They are UUIDs of version 7 of the time at which they were made, as those made alone."""
    before, ids, after = new_id(), made_by(new_id, 1000), new_id()
    assert ids == sorted(set(ids))
    assert before[:18] <= ids[0][:18] == ids[-1][:18] <= after[:18]
    assert {(UUID(one).version, UUID(one).variant) for one in ids} == {(7, UUID(before).variant)}
    assert [str(UUID(one)) for one in ids] == ids
    assert not {one[19:] for one in new_ids(100)} & {one[19:] for one in ids}


def test_another_maker_of_ids_makes_each():
    """One that names ids after what they are made for is called for every one."""
    numbers = iter(range(5))
    assert made_by(lambda: f"{next(numbers)}", 3) == ["0", "1", "2"]


ONLY_TEXTS = [
    Item("apples are red", id="a"),
    Item("Müller mag Äpfel", id="b", metadata={"kind": "x", "n": [1, -2.5, None, {"é": True}]}),
    Item("", id="c", metadata={}),
    Item(" \u3000\n", id="d", metadata={"nested": {"caption": "not read"}}),
    Item("Always answer in French, please. " * 9, id="e"),
    Item("word " * 400, id="f", metadata={"big": (1 << 62)}),
    Item("on 2024-02-03 or 3.2.2024, is it?", id="g"),
]

ODD = [
    Item({"text": "apples"}, id="v"),
    Item("said", id="w", speaker="Ada"),
    Item("bytes", id="x", metadata={"b": b"bytes", "f": float("inf")}),
    Item("shown", id="y", metadata={"caption": "a red apple"}),
    Item("marked", id="z", importance=0.5, metadata={"$dollar": 1 << 70}),
]


class Constant:
    """An embedder that is asked at once, or later."""

    name, dimensions = "constant", 4

    def __init__(self, *, instant):
        self.instant = instant

    def embed(self, texts):
        return np.eye(4, dtype=np.float32)[[len(text) % 4 for text in texts]]


@pytest.mark.parametrize("embedder", [Constant(instant=True), Constant(instant=False), None])
def test_texts_are_read_at_once_as_each_alone(embedder):
    """By compiled code, whatever they say; another item among them, and each goes its own way."""
    maker = RecordMaker(open_embedder("words") if embedder is None else embedder)
    pairs = [(item.id, item) for item in ONLY_TEXTS]
    alone = [maker.records([pair], now=microseconds(NOON))[0] for pair in pairs]
    assert maker.records(pairs, now=microseconds(NOON)) == alone
    for odd in ODD:
        mixed = [*pairs, (odd.id, odd)]
        assert maker.records(mixed, now=microseconds(NOON)) == [
            *alone,
            *maker.records(mixed[-1:], now=microseconds(NOON)),
        ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "NATIVE", None)
        assert maker.records(pairs, now=microseconds(NOON)) == alone


CHAT = [
    Item("I like tea", id="a", speaker="Ann", session="s", time=NOON),
    Item("So do I", id="b", speaker="User", session="s", time=NOON + timedelta(seconds=1)),
    Item("Noted", id="c", speaker="ASSISTANT", metadata={"n": 1}),
    Item("Objection", id="d", speaker="Ann", role="judge", session="t"),
    Item("nobody said it", id="e"),
    Item("long ago", id="f", time=datetime(1970, 1, 1, tzinfo=UTC)),
    Item("always use " + "x" * 500, id="g", speaker="a" * 300, session="s"),
]


@pytest.mark.parametrize("embedder", [Constant(instant=True), Constant(instant=False)])
@pytest.mark.parametrize("odd", [None, *ODD, Item("hm", id="z", speaker="Zoë", session="ü")])
@pytest.mark.parametrize("first", range(len(CHAT)))
def test_what_was_said_is_read_at_once_as_each_alone(embedder, odd, first):
    """Whoever said it, in which role, and when; whatever comes first."""
    maker = RecordMaker(embedder)
    items = [*CHAT[first:], *CHAT[:first], *([] if odd is None else [odd])]
    pairs = [(item.id, item) for item in items]
    found = maker.records(pairs, now=microseconds(NOON))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "NATIVE", None)
        expected = [maker.records([pair], now=microseconds(NOON))[0] for pair in pairs]
    assert found == expected
    assert [record.minute for record in found] == [record.minute for record in expected]


@pytest.mark.parametrize(
    "wrong",
    [
        Item("a", id="z", speaker=cast("Any", ["Ann"])),
        Item("a", id="z", speaker="Ann", session=""),
        Item("a", id="z", speaker="Ann", role=cast("Any", 3)),
        Item("a", id="z", speaker=np.str_("Ann")),
        Item("a", id="z", speaker="a\ud800"),
        Item("a", id="z", session="s" * 5_000),
        Item("a", id="z", time=NOON.replace(tzinfo=None)),
        Item("a", id="z", time=cast("Any", "2020-01-01")),
        Item("lone \ud800", id="z"),
        Item("a", id="z", metadata={"a": (1, 2)}),
        Item("a", id="z", metadata={"a": float("nan")}),
        Item("a", id="z", metadata=cast("Any", {1: 2})),
        Item("a", id="z", metadata={"a": "\ud800"}),
        Item("a", id="z", metadata=cast("Any", [("a", 1)])),
        Item("a", id="z", metadata={"a": {3}}),
        Item("a", id="z", importance=True),
        Item("a", id="z", speaker=""),
        Item("a", id="z", texts=["b"], text="c"),
        Item(np.str_("a"), id="z"),
    ],
)
def test_what_cannot_be_stored_is_refused_among_many(wrong):
    """As it is alone, with the same words."""
    maker = RecordMaker(Constant(instant=True))
    pairs = [(item.id, item) for item in ONLY_TEXTS]
    with pytest.raises(AlveusError) as alone:
        maker.records([("z", wrong)], now=microseconds(NOON))
    with pytest.raises(AlveusError, match=re.escape(str(alone.value))):
        maker.records([*pairs, ("z", wrong)], now=microseconds(NOON))


def version_of(item: Item | None) -> tuple[str | None, object, int] | None:
    """Return which version an item is; that it was read makes none."""
    return None if item is None else (item.id, item.value, item.version)


def test_many_ids_are_got_as_each_alone(tmp_path):
    """In the order asked, also twice, and those that are not there or were; ids of any text."""
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        notes = memory.key("ada").set("notes")
        ids = ["a", "nul\0", "nul", "ç", "'", "gone", *map(str, range(20))]
        notes.add_many([Item(f"text of {item_id!r}", id=item_id) for item_id in ids])
        memory.key("bob").set("notes").add("not hers", id="theirs")
        notes.delete("gone")
        notes.update("a", "changed")
        for asked in (ids, [*ids[2:], "never", "a", "a", "theirs"]):
            alone = [notes.get(item_id) for item_id in asked]
            assert [version_of(item) for item in notes.get(asked)] == list(map(version_of, alone))
        assert memory.key("new").set("notes").get(ids) == [None] * len(ids)


MANY = 40

KINDS: dict[str, list[Item]] = {
    "texts": [Item(f"text {n}", id=f"{n}") for n in range(MANY)],
    "metadata": [
        Item(f"ä{n}" * (n % 3), id=f"{n}", metadata={"n": n, "é": "é"}) for n in range(MANY)
    ],
    "chat": [
        Item(f"{n}", id=f"{n}", speaker="ab"[n % 2], role="user", session="s", importance=n / 50)
        for n in range(1, MANY + 1)
    ],
    "times": [
        Item(f"{n}", id=f"{n}", time=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=n))
        for n in range(MANY)
    ],
    "falling times": [Item(f"{n}", id=f"{n}", time=NOON - timedelta(n)) for n in range(MANY)],
    "expiring": [
        Item(f"{n}", id=f"{n}", expire_at=NOON + timedelta(days=n), valid_from=NOON, valid_to=NOON)
        for n in range(1, MANY + 1)
    ],
    "expired": [
        Item(f"{n}", id=f"{n}", expire_at=NOON + timedelta(days=n - 9), until=NOON)
        for n in range(MANY)
    ],
    "values": [
        Item({"n": n, "raw": b"\x01" * (n * 3)}, text=f"{n}", id=f"{n}") for n in range(MANY)
    ],
    "no text": [Item(n, text="", id=f"{n}") for n in range(MANY)],
    "sources": [
        Item(f"{n}", id=f"{n}", sources=("x", f"{n}"), compacted=True) for n in range(MANY)
    ],
}

KINDS |= {
    "the first has no speaker": [Item("none", id="none"), *KINDS["chat"]],
    "the first has no importance": [
        Item(f"{n}", id=f"{n}", speaker="a", importance=n / 99) for n in range(MANY)
    ],
    "one is compacted": [*KINDS["texts"], Item("one", id="one", compacted=True)],
    "one has a value": [*KINDS["texts"], Item(7, text="one", id="one")],
    "the first alone expires": [Item("one", id="one", ttl="7d"), *KINDS["texts"]],
    "few": KINDS["chat"][:5],
}

SETS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bounded": {"capacity": 25, "compaction": None, "retention": "purge"},
    "by bytes": {"capacity_bytes": 300, "compaction": None},
}


@pytest.mark.parametrize("options", SETS.values(), ids=SETS)
@pytest.mark.parametrize("items", KINDS.values(), ids=KINDS)
def test_items_that_are_written_at_once_are_the_same_rows(tmp_path, monkeypatch, items, options):
    """What is bound, what a set counts, and what it keeps, as if each was written by itself."""
    found: list[Any] = []
    for number in range(2):
        if number:
            monkeypatch.setattr(Changes, "_add_all_new", lambda _: False)
        path = tmp_path / f"{number}.db"
        with Memory.open(path, embedder="words", clock=lambda: NOON) as memory:
            chosen = memory.key("ada").set("notes", **options)
            chosen.add("was there before", id="before")
            chosen.add_back(items)
            chosen.add("comes after", id="after")
            hits = [(hit.item.id, hit.score) for hit in chosen.search("text 3", limit=50)]
            found.append((stored(path), hits, [item.id for item in chosen.list()]))
            assert isinstance(memory.store, SqliteStore)
            assert memory.store.problems() == []
    assert found[0] == found[1]


def test_items_of_several_calls_of_a_batch_are_written_in_their_order(tmp_path):
    """What reads the changes meets them as they came."""
    with Memory.open(tmp_path / "a.db", embedder="words") as memory:
        key = memory.key("ada")
        with key.batch() as batch:
            for number in range(3):
                batch.set("notes").add_many([f"{number} {n}" for n in range(MANY)])
                batch.set("notes").add(f"{number} alone")
        assert len(key.set("notes").list(limit=1_000)) == 3 * (MANY + 1)
        assert len(key.set("notes").search("alone", limit=1_000)) == 3
        assert isinstance(memory.store, SqliteStore)
        assert memory.store.problems() == []
