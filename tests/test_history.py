"""History goes out and comes back: every read of every time is the same, wherever it goes."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from fornix import Item, Memory
from fornix.errors import Conflict, FornixError, InvalidInput
from fornix.store import Add, Batch, Compact, Link, Scope, SetRef, Undo
from fornix.store.past import GONE
from fornix.testing.reads import differences, reads, tree
from fornix.transfer import Load, Selection, Source, check, export_lines, history_lines
from fornix.values import microseconds
from scale import COUNTS

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
IDS = tuple("abcdef")
KEYS = ("ada", "bob")
FIELDS = ("x", "y", "z", "deep")


class Clock:
    """A clock that tests move."""

    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now


class Life:
    """A memory that lives a random life, as of its clock."""

    def __init__(self, memory, clock, rng, *, lasting=False, sweeps=True):
        self.lasting, self.sweeps = lasting, sweeps
        self.memory, self.clock, self.rng = memory, clock, rng

    def live(self, steps):
        doings = (
            self.add, self.add, self.add, self.update, self.delete, self.several, self.compact,
            self.undo, self.write, self.write, self.write, self.remove, self.look, self.redefine,
            self.sweep,
        )  # fmt: skip
        for _ in range(steps):
            self.clock.now += self.rng.choice((0, 1, 3600, 40 * 3600)) * timedelta(seconds=1)
            self.rng.choice(doings)()

    def set(self):
        if self.rng.random() < 0.2:
            return self.memory.knowledge.set("handbook")
        return self.memory.key(self.rng.choice(KEYS)).set(self.rng.choice(("notes", "more")))

    def item(self, item_id=None):
        rng, now = self.rng, self.clock.now
        value = rng.choice(("A window seat.", "naïve 🦊", {"text": "t", "raw": b"\0"}))
        time = rng.choice((None, None, START, now - timedelta(days=1)))
        item = Item(value, item_id, time=time, importance=rng.choice((0.0, 0.5)))
        if rng.random() < 0.3:
            item = replace(item, speaker="Ada", session="s", metadata={"topic": "é"}, text="")
        if rng.random() < 0.3:
            valid = {"valid_from": START, "valid_to": now + timedelta(days=3)}
            item = replace(item, expire_at=now + timedelta(hours=1), until=now, **valid)
        return item

    def add(self):
        self.set().add(
            self.item(self.rng.choice(IDS)), on_existing=self.rng.choice(("keep", "update"))
        )

    def several(self):
        """Versions come and go in one commit, of a key and of knowledge."""
        with self.memory.key(self.rng.choice(KEYS)).batch() as batch:
            notes = batch.set("notes")
            notes.add(self.item("f"), on_existing="update")
            if self.rng.random() < 0.5:
                notes.delete("f")
                notes.add(self.item("f"))
            notes.delete(list(IDS[:2]))
            batch.short_term.set("x", 1)
            batch.short_term.set("w", 2)
            batch.short_term.set("x", 3)

    def update(self):
        chosen = self.set()
        found = list(chosen.list())
        if found:
            chosen.update(self.rng.choice(found).id, value=f"changed {self.rng.randrange(9)}")

    def delete(self):
        self.set().delete(self.rng.sample(IDS, 2))

    def compact(self):
        ref = SetRef(Scope("default", self.rng.choice(KEYS)), "notes")
        store, engine = self.memory.store, self.memory.engine
        retired = [s for s in store.get(ref, self.rng.sample(IDS, 2)) if s is not None]
        if not retired:
            return
        ids = tuple(s.record.id for s in retired)
        item = replace(self.item(), sources=ids, compacted=True, until=None)
        (record,) = engine.recorder.records(
            [(f"sum {store.commit_at(1 << 61)}", item)], now=microseconds(self.clock.now)
        )
        add = Add(ref, record, links=[Link(ref, i) for i in ids])
        change = Compact(ref, [(s.record.id, s.version) for s in retired], [add], '{"by": "test"}')
        self.commit(ref, change)

    def undo(self):
        ref = SetRef(Scope("default", self.rng.choice(KEYS)), "notes")
        done = self.memory.store.compactions(ref)
        if done:
            with suppress(FornixError):  # it was undone, or what it made changed
                self.commit(ref, Undo(ref, self.rng.choice(done).id))

    def commit(self, ref, change):
        time = microseconds(self.clock.now)
        expects = self.memory.engine.expects
        self.memory.store.commit(Batch(scope=ref.scope, time=time, items=[change], expects=expects))

    def write(self):
        tree = self.memory.key(self.rng.choice(KEYS)).short_term
        field = self.rng.choice(FIELDS)
        ttl = self.rng.choice((None, None, timedelta(hours=2), timedelta(hours=60)))
        ttl = None if self.lasting else ttl
        if field == "deep":
            tree.set(("deep", self.rng.choice(FIELDS)), self.rng.randrange(9), ttl=ttl)
        else:
            tree.set(field, self.rng.choice((1, b"\0", [1.5, None], "é")), ttl=ttl)

    def remove(self):
        tree = self.memory.key(self.rng.choice(KEYS)).short_term
        tree.delete(self.rng.choice(FIELDS))

    def look(self):
        self.set().get(self.rng.choice(IDS))

    def redefine(self):
        self.memory.key(self.rng.choice(KEYS)).set("notes").redefine(capacity=50)

    def sweep(self):
        if self.sweeps:
            self.memory.store.sweep(now=microseconds(self.clock.now))


def opened(place, clock):
    return Memory.open(place, embedder="words", clock=clock)


def source(found, name="history.jsonl"):
    return Source(name, io.BytesIO("\n".join(found).encode()))


def brought(memory, found):
    file = source(found)
    check(file, "fornix", None)
    return Load(memory).run(file, "fornix")


def told(store, now):
    """Return what a store answers, but for what history is not: results, heads, how many ops.

    Nodes that stand for what is no longer kept are named by their commits, and by no other read.
    """
    store.sweep(now=now)
    found: Any = reads(store, now=now)
    commits = [
        (c[0], c[1], [put for put in c[3] if put[1] != ("null", GONE)], *c[4:])
        for c in found["commits"]
    ]
    kept: Any = {n: v for n, v in found.items() if not n.startswith("head of")}
    refs = {item[0] for name in found if name.startswith("versions of ") for item in found[name]}
    rows: Any = {}
    for ref in sorted(refs, key=repr):
        every = {v.row: (v.record.id, v.version) for i in IDS for v in store.versions(ref, i)}
        for done in store.compactions(ref):
            for row in [*done.retired, *done.added]:
                (item,) = store.stored([row])
                every[row] = (item.record.id, item.version)
        links = [(every.get(a), every.get(b)) for a, b in store.links(sorted(every))]
        shown = [
            (
                [every[r] for r in d.retired], [every[r] for r in d.added], d.how, d.time,
                d.erased, d.undone is None, d.commit,
            )
            for d in store.compactions(ref)
        ]  # fmt: skip
        rows[f"lineage of {ref}"] = (links, shown)
    return kept | rows | {"commits": commits}


@pytest.mark.parametrize("end", ["ram", "sqlite"])
@pytest.mark.parametrize("start", ["ram", "sqlite"])
@pytest.mark.parametrize("seed", range(max(2, COUNTS.walks // 8)))
def test_a_life_is_the_same_elsewhere(seed, start, end, tmp_path):
    """From any store to any other: every read of every time; exported again, the same lines.

    But for those that stand for nodes that were swept: a store may need fewer of them.
    """
    folder, clock = tmp_path, Clock()
    places = {"ram": ":memory:", "sqlite": folder / "a.db"}
    with (
        opened(places[start], clock) as memory,
        opened(":memory:" if end == "ram" else folder / "b.db", clock) as other,
    ):
        Life(memory, clock, Random(seed)).live(80)
        first = list(history_lines(memory, Selection()))
        done = brought(other, first)
        assert done.commits == memory.store.commit_at(1 << 61)
        now = microseconds(clock.now)
        again = list(history_lines(other, Selection()))
        assert _without_gone(again) == _without_gone(first)
        found = differences(told(memory.store, now), told(other.store, now))
        assert not found, "\n".join(line[:600] for line in found)
        assert brought(other, first).commits == 0
        assert list(export_lines(other, Selection())) == list(export_lines(memory, Selection()))


def _without_gone(lines):
    return [line for line in lines if not line.startswith('{"type":"gone"')]


def lived(place, clock, steps=60):
    """A memory after a life."""
    memory = opened(place, clock)
    Life(memory, clock, Random(5), lasting=True).live(steps)
    return memory


@pytest.mark.parametrize("end", ["ram", "sqlite"])
def test_a_sweep_may_come_between_commits(end, tmp_path):
    """What expired long before the commit it comes after goes, and fields keep their order."""
    clock = Clock()
    with (
        opened(":memory:", clock) as memory,
        opened(":memory:" if end == "ram" else tmp_path / "b.db", clock) as other,
    ):
        life = Life(memory, clock, Random(5), sweeps=False)
        life.live(200)
        memory.store.sweep(now=microseconds(clock.now))
        life.live(400)
        file, swept = source(history_lines(memory)), []

        def sweep(_count):
            store = other.store
            swept.append(store.sweep(now=store.time_of(1 << 61)))

        Load(other).run(file, "fornix", progress=sweep)
        assert len(swept) > 1
        assert max(swept) > 1
        now, scopes = microseconds(clock.now), [Scope("default", key) for key in KEYS]
        memory.store.sweep(now=now)
        other.store.sweep(now=now)
        for scope in scopes:
            assert other.store.floor(scope) == memory.store.floor(scope)
            for at in (None, *range(1, memory.store.commit_at(1 << 61) + 1)):
                assert tree(other.store, scope, now=now, at=at) == tree(
                    memory.store, scope, now=now, at=at
                )


def test_a_history_goes_only_where_it_is_the_past(tmp_path):
    """A store that was written to later is refused, and nothing is written."""
    clock = Clock()
    with lived(":memory:", clock) as memory, opened(":memory:", clock) as other:
        found = list(history_lines(memory))
        other.key("zoe").add("later")
        with pytest.raises(Conflict, match=r"written to after commit 1 of history\.jsonl"):
            brought(other, found)
        assert other.store.commit_at(1 << 61) == 1


def test_a_history_that_was_cut_off_is_refused(tmp_path):
    """The last line tells that it is whole."""
    clock = Clock()
    with lived(":memory:", clock) as memory, opened(":memory:", clock) as other:
        found = list(history_lines(memory))
        with pytest.raises(InvalidInput, match="breaks off"):
            brought(other, found[:-1])
        with pytest.raises(InvalidInput, match="a line is missing"):
            brought(other, [line for line in found if '"commit":3,' not in line])
        assert other.store.commit_at(1 << 61) == 0


@pytest.mark.parametrize("number", range(max(2, COUNTS.kills // 6)))
def test_an_import_of_history_that_is_killed_goes_on(tmp_path, number):
    """Whenever it is killed, the same command again leaves the same history."""
    clock = Clock()
    with lived(":memory:", clock, 1500) as memory:
        found = list(history_lines(memory))
    (tmp_path / "life.jsonl").write_text("\n".join(found))
    db = tmp_path / "new.db"
    words = ["--db", str(db), "import", str(tmp_path / "life.jsonl"), "--embedder", "words"]
    command = [sys.executable, "-m", "fornix.cli", *words]
    log, size = tmp_path / "new.db-wal", Random(number).randrange(1_000_000)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        deadline = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
            if log.exists() and log.stat().st_size >= size:
                child.kill()
                break
            time.sleep(0.001)  # noqa: TID251 - a kill has to come in the middle of another process
        child.communicate(timeout=60)
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    with Memory.open(db, mode="ro") as other:
        assert list(history_lines(other)) == found
