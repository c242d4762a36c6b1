"""Sets that are too large for the RAM of who searches them: the server chooses candidates."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import errors

from alveus import Memory
from alveus.store.postgres import PostgresStore, large_sets
from alveus.store.postgres.connection import PostgresConnection
from postgres_server import url_for
from waiting import wait_until

pytestmark = pytest.mark.server

TODAY = datetime(2026, 1, 1, tzinfo=UTC)
ITEMS = 1_500

THINGS = [
    "tea",
    "chess",
    "garden",
    "piano",
    "river",
    "mountain",
    "bicycle",
    "novel",
    "camera",
    "kitchen",
    "bread",
    "violin",
]
DEEDS = [
    "likes",
    "bought",
    "painted",
    "repaired",
    "lost",
    "found",
    "visited",
    "sold",
    "borrowed",
    "cleaned",
]
LOOKS = [
    "old",
    "blue",
    "quiet",
    "broken",
    "expensive",
    "tiny",
    "wooden",
    "famous",
    "cold",
    "bright",
]
PEOPLE = ["Anna", "Bert", "Clara", "David", "Edna", "Fiona", "Gustav", "Hanna"]


def turns(number=ITEMS, seed=3):
    """Turns of talks of 40 turns, as (text, options)."""
    dice = random.Random(seed)
    for turn in range(number):
        said = " ".join(
            f"{dice.choice(DEEDS)} the {dice.choice(LOOKS)} {dice.choice(THINGS)} "
            f"{dice.randrange(400)}"
            for _ in range(dice.choice((1, 1, 2, 40 if turn % 100 == 7 else 3)))
        )
        speaker = dice.choice(PEOPLE)
        yield (
            f"{speaker} {said}{dice.choice('.?')}",
            {
                "id": f"turn-{turn}",
                "speaker": speaker,
                "session": f"talk {turn // 40}",
                "time": TODAY - timedelta(days=300) + timedelta(minutes=turn),
                "metadata": {"topic": dice.choice(THINGS)},
            },
        )


def filled(place, items=None, **settings):
    memory = Memory.open(place, embedder="static", clock=lambda: TODAY, **settings)
    with memory.key("x").batch() as batch:
        for text, options in turns() if items is None else items:
            batch.knowledge.set("book").add(text, **options)
    return memory


def grown(memory, at=1_000):
    """Have a memory's sets count as large from *at* items on, and the index of them made."""
    store = store_of(memory)
    store._builder.large = at
    assert store.build_large_sets(memory.embedder.dimensions)
    return memory


def store_of(memory: Memory) -> PostgresStore:
    store = memory._engine.store
    assert isinstance(store, PostgresStore)
    return store


def book(memory):
    return memory.knowledge.set("book")


def scores(memory, query, **options):
    return [(hit.item.id, hit.score) for hit in book(memory).search(query, **options)]


def asked(number=40, seed=5):
    dice = random.Random(seed)
    said = list(turns())
    for _ in range(number):
        text, options = dice.choice(said)
        words = text.rstrip(".?").split()[:8]
        yield (
            dice.choice(
                [f"What {words[1]} {words[0]}?", " ".join(words[1:5]), f"Who {words[1]} it?"]
            ),
            dice.choice(
                [
                    None,
                    None,
                    {"topic": options["metadata"]["topic"]},
                    {"$speaker": words[0]},
                    {"$value": {"contains": words[1]}},
                ]
            ),
        )


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The same items in RAM and on a server, where their set is a large one."""
    url = url_for(tmp_path_factory.mktemp("large") / "memory")
    with filled(":memory:") as ram, grown(filled(url)) as served:
        yield ram, served


@pytest.fixture
def served(tmp_path):
    with grown(filled(url_for(tmp_path / "memory"))) as memory:
        yield memory


@pytest.fixture
def reads_whole(monkeypatch):
    """Have a set that is read whole be an error."""

    def refuse(*_, **__):
        raise AssertionError("the set was read whole")

    def forbid(memory):
        monkeypatch.setattr(store_of(memory), "features", refuse)

    return forbid


def raw(memory, query):
    """Ask the server itself; ``alveus.`` stands for the memory's schema."""
    place = store_of(memory)._server
    with psycopg.connect(place.conninfo) as connection:
        return connection.execute(query.replace("alveus.", f"{place.schema}.")).fetchall()


def rows(memory, table, where="TRUE"):
    return {row for (row,) in raw(memory, f"SELECT row FROM alveus.{table} WHERE {where}")}  # noqa: S608 - ours


def checked(memory):
    """The index holds each live item once, and counts what it holds."""
    live = rows(memory, "feature", "ended = 0")
    assert rows(memory, "large_text", "counted") == rows(memory, "large_vector") == live
    texts = raw(memory, "SELECT terms, passages, tokens FROM alveus.large_text")
    terms = Counter(term for held, _, _ in texts for term in held)
    assert dict(raw(memory, "SELECT term, texts FROM alveus.large_term")) == terms
    ((passages, tokens),) = raw(memory, "SELECT passages, tokens FROM alveus.large_set")
    assert (passages, tokens) == tuple(sum(row[at] for row in texts) for at in (1, 2))
    return live


def test_hits_and_scores_are_those_of_a_set_that_is_read_whole(two, reads_whole):
    """Of 40 questions, with filters and without, at least 99 % of the best ten."""
    ram, served = two
    reads_whole(served)
    found = wanted = 0
    for query, where in asked():
        expected, given = scores(ram, query, where=where), dict(scores(served, query, where=where))
        for item, score in expected:
            wanted += 1
            found += item in given
            assert given.get(item, score) == pytest.approx(score, abs=1e-6)
    assert found >= 0.99 * wanted


def test_a_rare_filter_finds_all_that_match(two, reads_whole):
    ram, served = two
    reads_whole(served)
    for where in ({"$id": "turn-7"}, {"$id": {"in": ["turn-3", "turn-9"]}}, {"topic": "nothing"}):
        for query in ("Who likes tea?", "something else"):
            assert scores(served, query, where=where) == scores(ram, query, where=where)


def test_a_filter_finds_any_name_and_any_text(served, reads_whole):
    """A name that begins with $ is as it was written, and a NUL in metadata stops no search."""
    reads_whole(served)
    found = {"dollar": {"$ref": "a"}, "mark": {"$bytes": "a"}, "nul": {"note": "a\0b"}}
    for item_id, metadata in found.items():
        book(served).add("Zacharias paints xylophones.", id=item_id, metadata=metadata)
    grown(served)
    for item_id, metadata in found.items():
        where = {name.replace("$", r"\$"): text for name, text in metadata.items()}
        assert [name for name, _ in scores(served, "who paints?", where=where)] == [item_id]
    assert scores(served, "who paints?", where={"note": "other"}) == []


def test_what_is_added_is_found_at_once(served, reads_whole):
    reads_whole(served)
    book(served).add("Zacharias paints xylophones.", id="new")
    assert scores(served, "who paints xylophones?")[0][0] == "new"
    grown(served)
    assert scores(served, "who paints xylophones?")[0][0] == "new"
    checked(served)


def test_what_goes_is_gone_from_the_index(served, reads_whole):
    reads_whole(served)
    (best, _), *_ = scores(served, "chess garden violin")
    book(served).delete(best)
    assert best not in dict(scores(served, "chess garden violin"))
    assert len(checked(served)) == ITEMS - 1
    book(served).update("turn-5", text="Yolanda mends umbrellas.")
    assert scores(served, "who mends umbrellas?")[0][0] == "turn-5"
    grown(served)
    assert scores(served, "who mends umbrellas?")[0][0] == "turn-5"
    checked(served)


def test_what_is_forgotten_leaves_no_trace_in_the_index(served):
    """Its tables are written anew: what was deleted is in no free part of a page."""
    names = "('alveus.large_vector', 'alveus.large_text')"
    files = f"SELECT pg_relation_filenode(one) FROM unnest(ARRAY[{names[1:-1]}]) AS one"  # noqa: S608 - ours
    before, old = checked(served), raw(served, files)
    book(served).forget("turn-11")
    served.scrub()
    after, new = checked(served), raw(served, files)
    assert len(before - after) == 1
    assert not (before - after) & (rows(served, "large_vector") | rows(served, "large_text"))
    assert not set(old) & set(new)
    assert scores(served, "Who likes tea?")


def test_a_builder_that_is_stopped_between_its_steps_goes_on(tmp_path, monkeypatch):
    """What ended while nobody was there to take it out is out when it has gone on."""
    memory = filled(url_for(tmp_path / "memory"))
    store_of(memory)._builder.large = 1_000
    lend = store_of(memory)._builder._write
    writes = 0

    def failing():
        nonlocal writes
        writes += 1
        if writes == 3:  # after the vectors of the second step, before they are counted
            raise KeyboardInterrupt
        return lend()

    monkeypatch.setattr(store_of(memory)._builder, "_write", failing)
    with pytest.raises(KeyboardInterrupt):
        store_of(memory).build_large_sets(memory.embedder.dimensions)
    monkeypatch.undo()
    assert rows(memory, "large_vector") & rows(memory, "large_text", "NOT counted")
    for turn in range(500, 1_000, 10):
        book(memory).delete(f"turn-{turn}")
    grown(memory)
    assert len(checked(memory)) == ITEMS - 50
    memory.close()


def test_closing_breaks_off_the_making_of_an_index(tmp_path, monkeypatch):
    """Which takes minutes for a million items; the next process makes it."""
    monkeypatch.setattr(large_sets, "_ANALYZE", "SELECT pg_sleep(3600)")
    place = url_for(tmp_path / "memory")
    memory = filled(place)
    builder = store_of(memory)._builder
    builder.large = 1_000
    assert scores(memory, "Who likes tea?")  # wakes the builder
    sleeps = "SELECT 1 FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(3600)'"
    wait_until(lambda: raw(memory, f"{sleeps} AND state = 'active'"))
    memory.close()
    monkeypatch.undo()
    with grown(Memory.open(place, embedder="static", clock=lambda: TODAY)) as again:
        assert len(checked(again)) == ITEMS


def test_a_server_without_the_extension_has_its_sets_read_whole(tmp_path, monkeypatch):
    def refuse(self, text):
        raise errors.UndefinedFile("there is no extension vector")

    memory = filled(url_for(tmp_path / "memory"))
    monkeypatch.setattr(PostgresConnection, "script", refuse)
    store_of(memory)._builder.large = 1_000
    assert not store_of(memory).build_large_sets(memory.embedder.dimensions)
    assert scores(memory, "Who likes tea?")
    memory.close()
