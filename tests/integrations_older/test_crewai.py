"""CrewAI: its memory on an alveus storage, beside its own storage."""

from __future__ import annotations

import asyncio
import copy
import random
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from crewai.llms.base_llm import BaseLLM
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory as CrewMemory

from alveus import Memory
from alveus.errors import InvalidInput, StoreClosed
from alveus.integrations.crewai import AlveusStorage
from frameworks_tried import counted
from scale import COUNTS
from waiting import LIMIT_S

SCOPES = ["/", "/a", "/a/b", "/a/b/c", "/d"]
WORKER = Path(__file__).parent / "crewai_worker.py"
BEGIN = datetime(2026, 1, 2)  # noqa: DTZ001 - CrewAI's times have no zone


class Silent(BaseLLM):
    """A model that nobody has to ask: all is said when something is remembered."""

    def call(self, *_, **__):
        raise AssertionError("the model was asked")


@pytest.fixture
def storage():
    with Memory.open(":memory:", embedder="static") as memory:
        yield AlveusStorage(memory, key="crew")


def crew_memory(storage):
    return CrewMemory(
        storage=storage,
        embedder=storage.embedder,
        llm=Silent(model="silent"),
        consolidation_threshold=1.0,
    )


def contents(records):
    return [record.content for record in records]


def test_a_memory_goes_on_after_a_restart(tmp_path):
    """Its own Memory, offline: remembered, recalled, changed and forgotten, over two openings."""
    given: Any = {"scope": "/trips", "categories": ["travel"], "importance": 0.7}
    storage = AlveusStorage(tmp_path / "a.db", key="crew")
    assert isinstance(storage, StorageBackend)
    memory = crew_memory(storage)
    made = memory.remember("Ada sits by the glass.", metadata={"who": "ada"}, **given)
    memory.remember_many(["Bob flies on Monday.", "Tents are green."], metadata={}, **given)
    (first, *_) = memory.recall("Where does Ada like to sit?", depth="shallow")
    assert made
    assert first.record.id == made.id
    memory.close()
    with pytest.raises(StoreClosed):
        storage.count()

    with Memory.open(tmp_path / "a.db") as opened:
        assert opened.key("crew").search("seat by the glass")[0].item.id == made.id
        again = crew_memory(AlveusStorage(opened, key="crew"))
        assert again.info("/trips").record_count == 3
        assert again.update(made.id, content="Ada sits on the aisle.").metadata == {"who": "ada"}
        found = again.recall("Ada's seat", scope="/trips", categories=["travel"], depth="shallow")
        assert "Ada sits on the aisle." in contents(match.record for match in found)
        assert again.forget(metadata_filter={"who": "ada"}) == 1
        assert again.forget(record_ids=[made.id]) == 0
        again.reset()
        assert again.list_records() == []
        assert opened.key("crew").sets() == ["crewai"]


def test_random_calls_answer_as_its_own_storage_does(tmp_path, storage):
    """But for what that one does otherwise than it says: a scope is not the beginning of a name."""
    dice = random.Random(11)
    both: Any = [LanceDBStorage(path=tmp_path / "lance", compact_every=0), storage]

    def record(number):
        content = f"word{number} and more"
        return MemoryRecord(
            id=f"r{number}",
            content=content,
            scope=dice.choice(SCOPES),
            categories=dice.sample(["x", "y", "z"], dice.randrange(3)),
            metadata=dice.choice([{}, {"n": number % 3}, {"n": 1, "who": "ada.b"}]),
            created_at=BEGIN + timedelta(minutes=number),
            importance=dice.random(),
            embedding=storage.embedder([content])[0],
        )

    def call(number):
        new, metadata = record(number), dice.choice([None, {"n": 1}, {"who": "ada.b"}])
        return dice.choice(
            [
                ("save", [new]),
                ("save", [new, record(number + 1_000)]),
                ("update", new),
                ("delete", None, None, [f"r{dice.randrange(number + 1)}", "nobody"]),
                ("delete", dice.choice(SCOPES[1:]), ["x"], None, new.created_at, metadata),
            ]
        )

    first = record(5_000)
    for store in both:
        store.save([first])
    for number in range(100):
        name, *arguments = call(number)
        answers = [getattr(one, name)(*arguments) for one in both]
        assert answers[0] == answers[1], (number, name)
        scope, (vector,) = dice.choice(SCOPES), storage.embedder([f"word{number}"])
        theirs, ours = (seen(one, scope, vector, f"r{number}") for one in both)
        assert theirs == ours, (number, name)
    counted("CrewAI", calls=number + 1)


def seen(store, scope, vector, record_id):
    """Return what can be asked of a storage, but for when a record was read."""
    found = store.search(vector, scope, ["x", "y"], {"n": 1}, 1_000, -1.0)
    record = store.get_record(record_id)
    return [
        store.get_scope_info(scope),
        store.list_scopes(scope),
        store.list_categories(scope),
        store.count(scope),
        [one.id for one in store.list_records(scope, 5, 2)],
        record and record.model_dump(exclude={"last_accessed"}),
        sorted(one.id for one, _ in found),
    ]


def test_what_is_found_has_the_cosine_of_its_vector(storage):
    """Which CrewAI weighs against age and importance, and compares with thresholds."""
    texts = ["Ada sits by the glass.", "Bob flies on Monday.", "Where do I sit?"]
    storage.save([MemoryRecord(content=text) for text in texts])
    (query,) = storage.embedder(["Where does Ada sit?"])
    found = storage.search(query, min_score=-1.0)
    cosines = {
        text: sum(a * b for a, b in zip(query, vector, strict=True))
        for text, vector in zip(texts, storage.embedder(texts), strict=True)
    }
    assert contents(record for record, _ in found) == sorted(
        texts, key=lambda text: cosines[text], reverse=True
    )
    for record, score in found:
        assert score == pytest.approx(cosines[record.content], abs=0.02)
    assert len(storage.search(query, min_score=0.5, limit=1)) <= 1


def test_a_scope_is_no_beginning_of_a_name(storage):
    """What is below "/a" is in it, and "/ab" is not; with and without a slash at the ends."""
    for scope in ("/a", "a/b/", "/ab", "/a.b", "/"):
        storage.save([MemoryRecord(content=scope, scope=scope)])
    assert sorted(contents(storage.list_records("a"))) == ["/a", "a/b/"]
    assert storage.list_scopes("/") == ["/a", "/a.b", "/ab"]
    storage.reset("/a/")
    assert storage.count("/") == 3
    assert storage.list_records(limit=0) == []


def test_a_vector_of_another_embedder_is_refused(storage):
    """With CrewAI's own error where the dimensions differ."""
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.search([1.0, 0.0])
    (vector,) = storage.embedder(["a"])
    with pytest.raises(InvalidInput, match=r"embedder=storage\.embedder"):
        storage.search(vector[::-1])
    with (
        Memory.open(":memory:", embedder="words") as memory,
        pytest.raises(InvalidInput, match="makes no vectors"),
    ):
        AlveusStorage(memory, key="crew").embedder(["a"])


def test_what_is_deleted_is_forgotten_if_asked():
    for deleting in ("retire", "forget"):
        with Memory.open(":memory:", embedder="words") as memory:
            storage = AlveusStorage(memory, key="crew", deleting=cast("Any", deleting))
            storage.save([MemoryRecord(id="r1", content="My code is 1234.")])
            storage.save([])
            assert storage.delete(metadata_filter={"who": None}) == 1
            assert bool(memory.receipts()) == (deleting == "forget")
            assert bool(memory.key("crew").set("crewai").history("r1")) == (deleting == "retire")
    with pytest.raises(InvalidInput, match="'retire' or 'forget'"):
        AlveusStorage(":memory:", key="crew", deleting=cast("Any", "soon"))


def test_the_same_from_any_event_loop(storage):
    async def work():
        await storage.asave([MemoryRecord(id="r1", content="A green tent.")])
        (vector,) = storage.embedder(["tent"])
        ((record, _),) = await storage.asearch(vector)
        assert record.id == "r1"
        assert await storage.adelete(older_than=record.created_at) == 0
        assert await storage.adelete(record_ids=["r1"]) == 1

    asyncio.run(work())
    assert copy.deepcopy(storage) is storage


def test_reading_is_noted_in_the_record(storage):
    """When a record was last read is that of its item, and `touch_records` reads it."""
    old = MemoryRecord(id="r1", content="A tent.", created_at=BEGIN, last_accessed=BEGIN)
    storage.save([old])
    storage.touch_records(["r1", "nobody"])
    read = storage.get_record("r1")
    assert read is not None
    assert read.last_accessed > BEGIN
    assert read.created_at == BEGIN


def test_a_process_that_is_killed_leaves_each_save_whole_and_once(tmp_path):
    """What was acknowledged is there; a save that is repeated adds nothing."""
    dice = random.Random(5)
    acknowledged = -1
    for _ in range(min(COUNTS.kills, 20)):
        with subprocess.Popen(
            [sys.executable, str(WORKER), str(tmp_path / "a.db"), str(acknowledged + 1)],
            stdout=subprocess.PIPE,
            text=True,
        ) as worker:
            assert worker.stdout is not None
            for _ in range(dice.randrange(1, 25)):
                acknowledged = int(worker.stdout.readline())
            worker.kill()
            acknowledged = max([acknowledged, *map(int, worker.stdout.read().split())])
            worker.wait(LIMIT_S)
        with Memory.open(tmp_path / "a.db", embedder="words") as memory:
            storage = AlveusStorage(memory, key="crew")
            ids = [record.id for record in storage.list_records(limit=100_000)]
        count = len(ids) // 3
        assert sorted(ids) == sorted(f"{n}-{part}" for n in range(count) for part in range(3))
        assert count in (acknowledged + 1, acknowledged + 2)


def test_half_a_character_is_replaced(storage):
    """In a record, also in its metadata; a question with one finds it."""
    made = MemoryRecord(content="Rain \ud83d", metadata={"sky \ud83d": "x"})
    storage.save([made])
    (vector,) = storage.embedder(["Rain \ud83d"])
    ((found, _),) = storage.search(vector)
    assert (found.content, found.metadata) == ("Rain \ufffd", {"sky \ufffd": "x"})
