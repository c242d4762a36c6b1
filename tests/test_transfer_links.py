"""What items were made of goes out with them, and is linked again where it comes in."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from alveus import Item, Memory
from alveus.errors import InvalidInput
from alveus.store import Add, Batch, Link, Scope, SetRef
from alveus.transfer import CHUNK, Load, Loaded, Selection, Source, export_lines, survey
from scale import COUNTS
from test_history import Clock, Life, opened

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
ADA = Scope("default", "ada")
FACTS, LORE = SetRef(ADA, "facts"), SetRef(Scope("default", None), "lore")
OLD = {"type": "item", "key": "ada", "set": "facts", "id": "old", "value": "Works for Acme."}
NEW = OLD | {"id": "new", "value": "Works for Initech.", "sources": ["old"]}


@pytest.fixture
def memory():
    with Memory.open(embedder="words", clock=lambda: NOW) as memory:
        yield memory


def lines(memory, **selection):
    return list(export_lines(memory, Selection(**selection)))


def source(*found):
    told = [line if isinstance(line, str) else json.dumps(line) for line in found]
    return Source("file.jsonl", io.BytesIO("\n".join(told).encode()))


def load(memory, *found, **options):
    file = source(*found)
    survey(file, "alveus", None)
    return Load(memory, **options).run(file, "alveus")


def copied(found):
    with Memory.open(embedder="words", clock=lambda: NOW) as other:
        load(other, *found)
        return lines(other)


def learn(memory, item_id, home, *sources):
    """Add an item that was made of others, in one set or another."""
    engine, item = memory.engine, Item("What it comes to.", sources=tuple(s for _, s in sources))
    (record,) = engine.recorder.records([(item_id, item)], now=engine.clock())
    add = Add(home, record, links=[Link(ref, name) for ref, name in sources])
    batch = Batch(scope=ADA, time=engine.clock(), items=[add], expects=engine.expects)
    memory.store.commit(batch)


def made_of(chosen, item_id):
    return [(item.set_name, item.id) for item in chosen.sources(item_id)]


def test_an_export_names_what_items_were_made_of(memory):
    """By key, set and id, of live items that are exported too; the trip changes no byte."""
    facts = memory.key("ada").set("facts")
    facts.add("Works for Acme.", id="old")
    facts.add("Likes tea.", id="tea")
    facts.supersede("old", "Works for Initech.", new_id="new")
    learn(memory, "lesson", LORE, (FACTS, "new"), (FACTS, "tea"))
    found = {fields.get("id"): fields for fields in map(json.loads, lines(memory))}
    assert found["new"]["linked"] == [["ada", "facts", "old"]]
    assert found["lesson"]["linked"] == [["ada", "facts", "new"], ["ada", "facts", "tea"]]
    assert "linked" not in found["tea"]
    assert copied(lines(memory)) == lines(memory)
    (lesson,) = (json.loads(x) for x in lines(memory, keys=[]) if '"lesson"' in x)
    assert lesson["linked"] == []


def test_what_is_retired_is_not_linked_to_what_took_its_id(memory):
    """A later item of the same id is another one, and the export does not name it."""
    facts = memory.key("ada").set("facts")
    facts.add("Likes tea.", id="tea")
    learn(memory, "lesson", FACTS, (FACTS, "tea"))
    facts.delete("tea")
    facts.add("Tea is at five.", id="tea")
    found = lines(memory)
    with Memory.open(embedder="words", clock=lambda: NOW) as other:
        assert load(other, *found).unlinked == 1
        assert made_of(other.key("ada").set("facts"), "lesson") == []
        assert lines(other) == found


@pytest.mark.parametrize("order", [[OLD, NEW], [NEW, OLD]])
def test_forgetting_reaches_what_an_import_linked(memory, order):
    """Whatever comes first in the file: lineage names the source, and erasing it erases both."""
    assert load(memory, *order) == Loaded(added=2, linked=1)
    facts = memory.key("ada").set("facts")
    assert made_of(facts, "new") == [("facts", "old")]
    assert [node.id for node in facts.lineage("new").nodes] == ["new", "old"]
    assert facts.forget("old").derived == 1
    assert facts.get("new") is None


def test_a_source_may_have_come_before(memory):
    """It was imported from another file; without it, the item is counted, and linked later."""
    assert load(memory, NEW) == Loaded(added=1, unlinked=1)
    assert load(memory, OLD) == Loaded(added=1)
    assert load(memory, NEW) == Loaded(kept=1, linked=1)
    assert made_of(memory.key("ada").set("facts"), "new") == [("facts", "old")]


def test_a_file_again_links_nothing_twice(memory):
    """No commit is made, also after the source was changed: it is the same item."""
    load(memory, OLD, NEW)
    memory.key("ada").set("facts").update("old", metadata={"seen": True})
    last = memory.store.commit_at(1 << 60)
    assert load(memory, OLD, NEW) == Loaded(kept=2)
    assert memory.store.commit_at(1 << 60) == last


def test_what_is_otherwise_in_the_store_is_not_linked(memory):
    """It was not made of what the file says; nor is an item linked to itself."""
    memory.key("ada").set("facts").add("Works at home.", id="new")
    assert load(memory, OLD, NEW) == Loaded(added=1, kept=1)
    assert made_of(memory.key("ada").set("facts"), "new") == []
    assert load(memory, OLD | {"id": "own", "sources": ["own"]}) == Loaded(added=1, unlinked=1)


@pytest.mark.parametrize("left", range(3))
def test_an_import_that_was_cut_off_links_when_it_goes_on(memory, left):
    """What was added before is linked too."""
    many = [NEW | {"id": f"new {n}"} for n in range(2 * CHUNK)]
    file, stops = source(*many, OLD), iter(range(left))

    class Cut(Exception):
        pass

    def stop(_count):
        if next(stops, None) is None:
            raise Cut

    with pytest.raises(Cut):
        Load(memory).run(file, "alveus", progress=stop)
    done = Load(memory).run(file, "alveus")
    assert (done.linked, done.unlinked) == (len(many), 0)
    assert memory.key("ada").set("facts").forget("old").derived == len(many)


@pytest.mark.parametrize(
    "linked", [7, [7], [["ada", "facts"]], [["ada", "facts", ""]], [[1, "f", "i"]]]
)
def test_a_link_that_cannot_be_read_is_named(linked):
    """The error has the line, and what is wrong with it."""
    with pytest.raises(InvalidInput, match=r'^file\.jsonl:1: .*"linked"'):
        survey(source(OLD | {"linked": linked}), "alveus", None)


def test_items_that_have_expired_stay_where_they_are(memory):
    """They are in no read of the present: not exported, and not imported but counted."""
    over = NOW - timedelta(hours=1)
    facts = memory.key("ada").set("facts")
    facts.add("Meets Bob at noon.", id="noon", expire_at=NOW + timedelta(hours=1))
    facts.add("Met Eve.", id="eve", expire_at=over)
    assert [json.loads(line).get("id") for line in lines(memory)][2:] == ["noon"]
    told = OLD | {"expire_at": over.isoformat()}
    assert load(memory, told, NEW) == Loaded(added=1, expired=1, unlinked=1)


@pytest.mark.parametrize("seed", range(COUNTS.walks))
def test_any_life_makes_the_trip(seed):
    """Export, import, export: the same bytes, with all that was derived from what is there."""
    clock = Clock()
    with opened(":memory:", clock) as memory, opened(":memory:", clock) as other:
        Life(memory, clock, Random(seed)).live(80)
        first = lines(memory)
        done = load(other, *first)
        assert lines(other) == first
        assert replace(load(other, *first), kept=0, values_kept=0) == Loaded(unlinked=done.unlinked)
