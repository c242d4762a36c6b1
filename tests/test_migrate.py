"""A memory is copied from one store into another, with all that was ever in it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import closing

import apsw
import psycopg
import pytest
from click.testing import CliRunner

import warm
from alveus import Agent, CompactionPlan, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.cli import alveus
from alveus.errors import (
    AlveusError,
    InvalidInput,
    NotFound,
    RunParked,
    StoreTooNew,
    StoreTooOld,
    Unusable,
)
from alveus.store.sql.copying import ROWS, TABLES
from alveus.store.sqlite.schema import SCHEMA
from alveus.transfer import migrate
from postgres_server import server, url_for
from scale import COUNTS

pytestmark = pytest.mark.server

WORDS = ["a tent by the lake", "a stove", "a window seat", "a night train", "oat milk", "two lamps"]


class Shop(Agent):
    """An agent that sells everything but glue."""

    @action(InputEvent)
    def order(self, event, ctx):
        if event.input == "glue":
            raise ValueError("no glue")
        ctx.short_term_memory.append("orders", event.input)
        ctx.send_event(OutputEvent(f"Here is {event.input}."))


def fill(place, count=30):
    """Put everything into a memory that one can hold."""
    with Memory.open(place, embedder="words") as memory:
        ada = memory.key("ada")
        ada.short_term.set("city", "Lisbon")
        ada.short_term.set("city", "Porto\0\x01")
        ada.short_term.set("photo", b"\x00\xff" * 100)
        ada.add_many([f"{WORDS[n % len(WORDS)]} {n}" for n in range(count)])
        ada.add("in a file", id="file", metadata={"raw": b"\x01" * 200})
        ada.update("file", "in two files")
        ada.delete("file")
        ada.add("once", id="once", idempotency_key="message-17")
        notes = ada.set(
            "n",
            capacity=20,
            compaction=lambda items, _capacity: CompactionPlan(retire=[str(items[0].id)]),
            execution="external",
        )
        notes.add_many([f"note {number}" for number in range(3)])
        assert notes.compact() is not None
        memory.key("bob").add("bob's secret")
        memory.forget("bob")
        memory.knowledge.set("facts").add("Tents keep rain out.")
        memory.settle()
        with LocalRunner(Shop, memory) as runner:
            runner.handle("ada", "a tent", event_id="order-1")
            assert len(list(runner.outputs(consumer="mailer"))) == 1
            with pytest.raises(RunParked):
                runner.handle("eve", "glue", event_id="order-2")
    with Memory.open(place, space="other", embedder="static") as memory:
        memory.key("ada").add("of another space")


def seen(place):
    """What a memory answers."""
    with Memory.open(place, mode="ro") as memory:
        ada = memory.key("ada")
        last = memory.stats().store.commits
        return {
            "commits": last,
            "tree": [ada.short_term.get(name) for name in ("city", "photo", "orders")],
            "past": [
                sorted(repr(item) for item in ada.list(as_of=number)) for number in range(last + 1)
            ],
            "history": ada.history("file"),
            "hits": [
                [(hit.item.id, hit.score, hit.relevance) for hit in ada.search(text)]
                for text in WORDS
            ],
            "compactions": ada.set("n").compactions(),
            "receipts": [(one.id, one.time, one.counts) for one in memory.receipts()],
            "knowledge": [repr(item) for item in memory.knowledge.set("facts").list()],
        }


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.db"
    fill(path)
    return path


def test_there_and_back(tmp_path, source):
    """SQLite to PostgreSQL to SQLite: every row is the same, and so is what a memory answers."""
    url, back = url_for(tmp_path / "server"), tmp_path / "back.db"
    before = source.read_bytes()
    there = migrate(source, url)
    assert source.read_bytes() == before
    assert migrate(url, back) == there
    assert migrate(source, back) == there, "a repetition compares, and changes nothing"
    assert seen(source) == seen(url) == seen(back)


@pytest.mark.parametrize("kind", ["server", "file"])
def test_life_goes_on(tmp_path, source, kind):
    """Repetitions are recognised, compactions undone, parked runs retried; numbers are new."""
    place = url_for(tmp_path / "server") if kind == "server" else tmp_path / "target.db"
    migrate(source, place)
    with Memory.open(place) as memory:
        ada = memory.key("ada")
        commits = memory.stats().store.commits
        assert ada.add("once", id="once", idempotency_key="message-17") == "once"
        assert memory.stats().store.commits == commits
        notes = ada.set("n")
        notes.undo(notes.compactions()[0].id)
        assert len(notes) == 3
        ada.set("a new set").add("in it")
        memory.key("zoe").add("of a new key")
        with LocalRunner(Shop, memory) as runner:
            repeated = runner.handle("ada", "a tent", event_id="order-1")
            assert repeated == ("Here is a tent.",)
            assert repeated.repeated
            assert list(runner.outputs(consumer="mailer")) == []
            assert [run.key for run in runner.runs.list(status="parked")] == ["eve"]
            assert runner.handle("zoe", "a stove") == ("Here is a stove.",)
    with pytest.raises(Unusable, match="differs from"):
        migrate(source, place)


def test_every_column_of_every_table_is_copied(source):
    """What a later schema adds is not forgotten."""
    with closing(apsw.Connection(str(source))) as db:
        tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        found = {
            name: {column[1] for column in db.execute(f"PRAGMA table_info({name})")}
            for name in [str(name) for (name,) in tables]
            if not name.startswith("sqlite_") and name != "note"
        }
    assert {table.name: set(table.columns) for table in TABLES} == found


def test_a_target_that_is_not_empty(tmp_path, source):
    """It is refused, and stays as it is."""
    target = tmp_path / "target.db"
    with Memory.open(target, embedder="words") as memory:
        memory.key("ada").add("mine")
    with pytest.raises(InvalidInput, match=r"target\.db already holds a memory"):
        migrate(source, target)
    with pytest.raises(InvalidInput, match="the source and the target"):
        migrate(source, source)
    with Memory.open(target) as memory:
        assert [item.text for item in memory.key("ada").list()] == ["mine"]


def test_a_source_that_cannot_be_moved(tmp_path, source, monkeypatch):
    """There is none, it is in RAM, or its schema is another one."""
    with pytest.raises(NotFound):
        migrate(tmp_path / "none.db", tmp_path / "target.db")
    with pytest.raises(AlveusError, match="RAM"):
        migrate(":memory:", tmp_path / "target.db")
    for known, error in ((SCHEMA + 1, StoreTooOld), (SCHEMA - 1, StoreTooNew)):
        with monkeypatch.context() as patch:
            patch.setattr("alveus.store.sqlite.schema.SCHEMA", known)
            with pytest.raises(error, match="schema"):
                migrate(source, tmp_path / "target.db")
    assert not list(tmp_path.glob("target.db*")), "an empty memory would stay there"


@pytest.mark.parametrize("kind", ["server", "file"])
def test_killed_at_any_moment_it_goes_on(tmp_path, kind):
    """The next call ends it, also where the source was written to in between; nothing doubles."""
    chance, source = random.Random(kind), tmp_path / "source.db"
    fill(source, count=4 * ROWS)
    script = "import sys; from alveus.transfer import migrate; "
    script += "migrate(*sys.argv[1:], progress=lambda count: print(count, flush=True))"
    refused = 0
    for trial in range(max(2, COUNTS.kills // 20)):
        path = tmp_path / f"target-{trial}"
        place = url_for(path) if kind == "server" else f"{path}.db"
        for _ in range(3):
            command = [sys.executable, "-c", script, str(source), place]
            with warm.Popen(command, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                for _ in range(chance.randrange(1, 12)):
                    process.stdout.readline()
                time.sleep(chance.random() * 0.02)  # noqa: TID251 - until the kill
                process.send_signal(signal.SIGKILL)
        try:
            Memory.open(place, mode="ro").close()
        except Unusable:
            refused += 1
            if trial % 2:
                with Memory.open(source) as memory:
                    memory.key("ada").delete(next(iter(memory.key("ada").list())).id)
        done = migrate(source, place)
        assert done == migrate(source, place)
        assert done.rows["item"] > 4 * ROWS
    assert refused, "no kill came before the end"


def test_an_unfinished_target_is_not_opened(tmp_path, source, monkeypatch):
    """Neither a memory nor another migration takes it for what it is not yet."""
    target = tmp_path / "target.db"

    def stop(_count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(source, target, progress=stop)
    for mode in ("rw", "ro"):
        with pytest.raises(Unusable, match="unfinished migration"):
            Memory.open(target, mode=mode)
    with pytest.raises(InvalidInput, match="unfinished migration"):
        migrate(target, tmp_path / "third.db")
    assert not list(tmp_path.glob("third.db*")), "an empty memory would stay there"
    other = tmp_path / "other.db"
    Memory.open(other, embedder="words").close()
    with pytest.raises(InvalidInput, match="from another source"):
        migrate(other, target)
    migrate(source, target)
    assert seen(source) == seen(target)


def test_the_source_is_open_elsewhere(tmp_path, source):
    """What it held when the call began is copied, whole."""
    target = tmp_path / "target.db"
    with Memory.open(source) as memory:
        before = memory.stats().store.commits

        def write(_count):
            memory.key("late").add("too late")

        assert migrate(source, target, progress=write).commits == before
    with Memory.open(target) as memory:
        assert "late" not in list(memory.keys())


def test_the_command(tmp_path, source):
    """It says what it copied; one space alone is refused."""
    url = url_for(tmp_path / "server")
    run = CliRunner().invoke(alveus, ["migrate", str(source), url, "--json"])
    assert run.exit_code == 0, run.output
    answer = json.loads(run.stdout)
    assert answer["commits"] == seen(url)["commits"]
    assert answer["rows"].keys() == answer["checksums"].keys() == {table.name for table in TABLES}
    run = CliRunner().invoke(alveus, ["migrate", str(source), url, "--space", "other"])
    assert run.exit_code == 2
    assert "copies all spaces" in run.output


def test_a_difference_is_named(tmp_path, source):
    """A row that changed on the way is an error that says in which table."""
    url = url_for(tmp_path / "server")
    migrate(source, url)
    schema = url.rpartition("schema=")[2]
    with psycopg.connect(server(), autocommit=True) as raw:
        change = f"UPDATE {schema}.item SET text = 'other' WHERE id = 'once'"  # noqa: S608 - ours
        raw.execute(change.encode())
    with pytest.raises(Unusable, match="item has other contents"):
        migrate(source, url)
