"""History goes out and comes back: every read of every time is the same, wherever it goes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

import warm
from alveus import Item, Memory
from alveus.errors import AlveusError, Conflict, InvalidInput
from alveus.store import Add, Batch, Compact, Link, Scope, SetRef, Undo
from alveus.store.checks import PLACEHOLDER_EXPIRY
from alveus.store.sqlite import SqliteStore
from alveus.testing.reads import differences, pages, reads, tree
from alveus.transfer import Load, Selection, Source, export_lines, history_lines, survey
from alveus.values.storable import microseconds
from scale import COUNTS
from waiting import LIMIT_S, wait_until, written

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
IDS = tuple("abcdef")
KEYS = ("ada", "bob")
FIELDS = ("x", "y", "z", "deep")
DAY = timedelta(days=1)
LAST = 1 << 61
MOMENTS = 5
"""At how many commits of a life the past is read; others in another life."""


class Clock:
    """A clock that tests move."""

    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now

    def elapsed(self):
        return self.now - START


class Life:
    """A memory that lives a random life, as of its clock.

    Args:
        lasting: No value expires.
        tidies: Things are swept, purged, pruned and forgotten.
        sums: How many compactions there were before.
    """

    def __init__(self, memory, clock, rng, *, lasting=False, tidies=True, sums=0):
        self.lasting = lasting
        self.memory, self.clock, self.rng = memory, clock, rng
        self.forgot, self.sums = False, sums
        self.doings = [
            self.add, self.add, self.add, self.update, self.delete, self.several, self.compact,
            self.undo, self.write, self.write, self.write, self.remove, self.look, self.redefine,
            self.supersede, self.derive,
        ]  # fmt: skip
        if tidies:
            self.doings += [
                self.sweep, self.retire_expired, self.prune, self.keep, self.forget,
                self.forget_key,
            ]  # fmt: skip

    def live(self, steps):
        for _ in range(steps):
            self.clock.now += self.rng.choice((0, 1, 3600, 40 * 3600)) * timedelta(seconds=1)
            self.rng.choice(self.doings)()

    def set(self):
        if self.rng.random() < 0.2:
            return self.memory.knowledge.set(self.rng.choice(("handbook", "lore")))
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

    def chosen(self, ref=None):
        """Return a set, and the id of one of its live items, if there is one."""
        chosen = self.set()
        found = [item.id for item in chosen.list()]
        return chosen, self.rng.choice(found) if found else None

    def update(self):
        chosen, item_id = self.chosen()
        if item_id is not None:
            chosen.update(item_id, value=f"changed {self.rng.randrange(9)}")

    def supersede(self):
        chosen, item_id = self.chosen()
        with suppress(AlveusError):  # the id is taken, or it held at other times
            if item_id is not None:
                new = self.rng.choice((*IDS, "later"))
                chosen.supersede(item_id, "What holds now.", new_id=new)

    def delete(self):
        self.set().delete(self.rng.sample(IDS, 2))

    def derive(self):
        """Add what was made of an item elsewhere: in another set, or in knowledge."""
        scope = Scope("default", self.rng.choice(KEYS))
        source = SetRef(scope, self.rng.choice(("notes", "more")))
        home = self.rng.choice((SetRef(scope, "more"), SetRef(Scope("default", None), "lore")))
        found = [s for s in self.memory.store.get(source, IDS) if s is not None]
        if found:
            item_id = self.rng.choice(found).record.id
            with suppress(AlveusError):  # the id is live
                self.commit(scope, self.made("lesson", home, source, [item_id]))

    def compact(self):
        ref = SetRef(Scope("default", self.rng.choice(KEYS)), "notes")
        store = self.memory.store
        live = store.page(ref)
        if not live:
            return
        retired = self.rng.sample(live, min(len(live), self.rng.choice((1, 2))))
        ids = tuple(s.record.id for s in retired)
        self.sums += 1
        add = self.made(f"sum {self.sums}", ref, ref, ids)
        change = Compact(ref, [(s.record.id, s.version) for s in retired], [add], '{"by": "test"}')
        self.commit(ref.scope, change)

    def made(self, item_id, home, source, ids):
        """Return the add of an item that was made of others."""
        item = replace(self.item(), sources=tuple(ids), compacted=True, until=None)
        recorder, now = self.memory.engine.recorder, microseconds(self.clock.now)
        (record,) = recorder.records([(item_id, item)], now=now)
        return Add(home, record, links=[Link(source, i) for i in ids])

    def undo(self):
        ref = SetRef(Scope("default", self.rng.choice(KEYS)), "notes")
        done = self.memory.store.compactions(ref)
        if done:
            with suppress(AlveusError):  # it was undone, or what it made changed
                self.commit(ref.scope, Undo(ref, self.rng.choice(done).id))

    def commit(self, scope, change):
        time = microseconds(self.clock.now)
        expects = self.memory.engine.expects
        self.memory.store.commit(Batch(scope=scope, time=time, items=[change], expects=expects))

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
        self.memory.key(self.rng.choice(KEYS)).set("notes").redefine(
            capacity=self.rng.choice((4, 50)), compaction="trim"
        )

    # --- what is not kept

    def sweep(self):
        self.memory.store.sweep(now=microseconds(self.clock.now))

    def retire_expired(self):
        self.memory.sweep()

    def prune(self):
        self.memory.prune_history(before=self.clock.now - self.rng.choice((0, 9)) * DAY)

    def keep(self):
        kept = self.rng.choice(("keep", "purge", 2 * DAY, 9 * DAY))
        chosen = self.memory.key(self.rng.choice(KEYS)).set(self.rng.choice(("notes", "more")))
        chosen.redefine(retention=kept)

    def forget(self):
        self.set().forget(self.rng.sample(IDS, 2), scrub="later")

    def forget_key(self):
        if self.rng.random() < 0.2:
            self.memory.forget(self.rng.choice(KEYS), scrub="later")
            self.forgot = True


def opened(place, clock):
    return Memory.open(place, embedder="words", clock=clock, durability="normal")


def source(found, name="history.jsonl"):
    return Source(name, io.BytesIO("\n".join(found).encode()))


def brought(memory, found):
    file = source(found)
    survey(file, "alveus", None)
    return Load(memory).run(file, "alveus")


def told(store, now, at):
    """Return what a store answers, but for what history is not: results, heads, how many ops.

    Nodes that stand for what is no longer kept are named by their commits, and by no other read.
    """
    found: Any = reads(store, now=now, at=at)
    commits = [
        (c[0], c[1], [put for put in c[3] if put[1] != ("null", PLACEHOLDER_EXPIRY)], *c[4:])
        for c in found["commits"]
    ]
    kept: Any = {n: v for n, v in found.items() if not n.startswith("head of")}
    return kept | {"commits": commits}


def seen(memory, times, now):
    """Return what was where at each of some times, and what is said of it: no commit is named."""
    store, found = memory.store, {}
    scopes = [Scope("default", None), *(Scope("default", key) for key in KEYS)]
    for scope in scopes:
        found[scope] = store.history_start(scope)[1]
        for moment in times:
            at = store.commit_at(moment)
            found[scope, moment] = tree(store, scope, now=now, at=at)
            for ref in store.all_sets(scope):
                found[ref, moment] = [spoken(v) for v in pages(store, ref, at=at)]
        for ref in store.all_sets(scope):
            versions = {v.row: spoken(v) for v in store.all_versions(ref, limit=9_999)}
            done = [named(done, versions) for done in store.compactions(ref)]
            found[ref] = (sorted(versions.values(), key=repr), done, store.set_info(ref).definition)
            pairs = store.source_links(sorted(versions))
            names = versions | {v.row: spoken(v) for v in store.items_by_row([s for _, s in pairs])}
            found[ref, "links"] = [(names[row], names[source]) for row, source in pairs]
    return found


def spoken(item):
    accessed = item.accessed if item.end_commit is None else None
    return (item.record.id, item.version, item.created, item.updated, accessed, item.record)


def named(done, versions):
    """Return a compaction, with what it did by its names."""
    did = [[versions[row] for row in rows] for rows in (done.retired, done.added)]
    return (*did, done.time, done.how, done.erased, done.undo_commit is None, done.purged)


@pytest.mark.parametrize("end", ["ram", "sqlite"])
@pytest.mark.parametrize("start", ["ram", "sqlite"])
@pytest.mark.parametrize("seed", range(COUNTS.walks))
def test_a_life_is_the_same_elsewhere(seed, start, end, tmp_path):
    """From any store to any other: every read of every time; exported again, the same bytes."""
    folder, clock = tmp_path, Clock()
    places = {"ram": ":memory:", "sqlite": folder / "a.db"}
    with (
        opened(places[start], clock) as memory,
        opened(":memory:" if end == "ram" else folder / "b.db", clock) as other,
    ):
        life = Life(memory, clock, Random(seed))
        life.live(80)
        first = list(history_lines(memory, Selection()))
        done = brought(other, first)
        assert list(history_lines(other, Selection())) == first
        assert (done.commits, brought(other, first).commits) == (other.store.commit_at(LAST), 0)
        assert list(export_lines(other, Selection())) == list(export_lines(memory, Selection()))
        now, store = microseconds(clock.now), memory.store
        at = sorted(Random(seed).sample(range(1, store.commit_at(LAST) + 1), MOMENTS))
        times = [store.time_of_commit(number) for number in at]
        alike(seen(memory, times, now), seen(other, times, now))
        if not life.forgot:  # commits of a forgotten key are not carried
            alike(told(store, now, at), told(other.store, now, at))


@pytest.mark.parametrize(
    "part",
    [
        Selection(keys=["ada"]),
        Selection(keys=["bob"], knowledge=False),
        Selection(keys=[]),
        Selection(sets=["notes"], trees=False),
    ],
    ids=["key and knowledge", "key", "knowledge", "sets"],
)
def test_a_part_of_a_life_makes_the_same_trip(part):
    """What goes in of some keys and sets comes out again, and nothing else."""
    for seed in range(COUNTS.walks):
        clock = Clock()
        with opened(":memory:", clock) as memory, opened(":memory:", clock) as other:
            life = Life(memory, clock, Random(seed))
            life.doings.remove(life.forget_key)
            life.live(60)
            first = list(history_lines(memory, part))
            brought(other, first)
            assert list(history_lines(other)) == first


@pytest.mark.parametrize("seed", range(COUNTS.walks))
def test_a_tree_of_which_much_is_swept_makes_the_same_trip(seed):
    """What stands for what is gone is the same in each copy, and in a copy of the copy."""
    rng = Random(seed)
    for _ in range(10):
        clock = Clock()
        with opened(":memory:", clock) as memory:
            life = Life(memory, clock, rng)
            life.doings = [*[life.write] * 6, life.remove, life.sweep, life.prune]
            life.live(50)
            first = list(history_lines(memory))
        for _ in range(2):
            with opened(":memory:", clock) as other:
                brought(other, first)
                assert list(history_lines(other)) == first


def test_what_was_removed_with_an_object_needs_nothing_to_stand_for_it():
    """What stands for a swept value ends with the object it is in; no copy names it twice."""
    clock = Clock()
    with opened(":memory:", clock) as memory, opened(":memory:", clock) as other:
        tree = memory.key("ada").short_term
        tree.set("deep.x", 1)
        tree.set("deep.x", 2, ttl=timedelta(hours=1))
        clock.now += 3 * DAY
        memory.store.sweep(now=microseconds(clock.now))
        tree.delete("deep")
        first = list(history_lines(memory))
        assert [line for line in first if '"gone"' in line] == [
            '{"type":"gone","key":"ada","path":["deep","x"]}'
        ]
        brought(other, first)
        assert list(history_lines(other)) == first


@pytest.mark.parametrize("end", ["ram", "sqlite"])
@pytest.mark.parametrize("seed", range(COUNTS.walks))
def test_a_copy_lives_on_like_the_first(seed, end, tmp_path):
    """Whatever happens afterwards happens alike: what stands for what is gone is in no way."""
    clock = Clock()
    with (
        opened(":memory:", clock) as memory,
        opened(":memory:" if end == "ram" else tmp_path / "b.db", clock) as other,
    ):
        life = Life(memory, clock, Random(seed))
        life.doings.remove(life.forget_key)  # what is left of it is not carried
        life.live(60)
        brought(other, history_lines(memory))
        then, later = clock.now, []
        for one in (memory, other):
            clock.now = then
            life = Life(one, clock, Random(-seed - 1), sums=60)
            life.doings.remove(life.retire_expired)  # of several keys, in any order
            for forgetting in (life.forget, life.forget_key):
                life.doings.remove(forgetting)  # what was made of purged items is not carried
            life.live(60)
            later.append(list(history_lines(one)))
        assert later[0] == later[1]


def alike(ours, theirs):
    found = differences(ours, theirs)
    assert not found, "\n".join(line[:600] for line in found[:5])


def lived(place, clock, steps=60):
    """A memory after a life in which nothing was let go."""
    memory = opened(place, clock)
    Life(memory, clock, Random(5), lasting=True, tidies=False).live(steps)
    return memory


@pytest.mark.parametrize("end", ["ram", "sqlite"])
def test_a_sweep_may_come_between_commits(end, tmp_path):
    """What expired or ended long before the commit it comes after goes, as it would elsewhere."""
    clock = Clock()
    with (
        opened(":memory:", clock) as memory,
        opened(":memory:" if end == "ram" else tmp_path / "b.db", clock) as other,
    ):
        life = Life(memory, clock, Random(5))
        life.doings.remove(life.forget_key)  # the sets of the key would begin anew
        life.live(100)
        life.doings.remove(life.sweep)
        life.live(400)
        file, swept = source(history_lines(memory)), []

        def sweep(_count):
            store = other.store
            swept.append(store.sweep(now=store.time_of_commit(LAST)))

        Load(other).run(file, "alveus", progress=sweep)
        assert len(swept) > 1
        assert max(swept) > 1
        if isinstance(other.store, SqliteStore):
            assert other.store.problems() == []
        for one in (memory, other):
            one.store.sweep(now=microseconds(clock.now))
        assert list(history_lines(other)) == list(history_lines(memory))


def test_a_history_goes_only_where_it_is_the_past(tmp_path):
    """A store that was written to later is refused, and nothing is written."""
    clock = Clock()
    with lived(":memory:", clock) as memory, opened(":memory:", clock) as other:
        found = list(history_lines(memory))
        other.key("zoe").add("later")
        with pytest.raises(Conflict, match=r"changed after commit 1 of history\.jsonl"):
            brought(other, found)
        assert other.store.commit_at(LAST) == 1


def test_a_history_that_was_cut_off_is_refused(tmp_path):
    """The last line tells that it is whole."""
    clock = Clock()
    with lived(":memory:", clock) as memory, opened(":memory:", clock) as other:
        found = list(history_lines(memory))
        with pytest.raises(InvalidInput, match="is incomplete"):
            brought(other, found[:-1])
        with pytest.raises(InvalidInput, match="a line is missing"):
            brought(other, [line for line in found if '"commit":3,' not in line])
        assert other.store.commit_at(LAST) == 0


@pytest.mark.parametrize("number", range(max(2, COUNTS.kills // 24)))
def test_an_import_of_history_that_is_killed_goes_on(tmp_path, number):
    """Whenever it is killed, the same command again leaves the same history."""
    clock = Clock()
    with lived(":memory:", clock, 1500) as memory:
        found = list(history_lines(memory))
    (tmp_path / "life.jsonl").write_text("\n".join(found))
    db = tmp_path / "new.db"
    words = ["--db", str(db), "import", str(tmp_path / "life.jsonl"), "--embedder", "words"]
    command = [sys.executable, "-m", "alveus.cli", *words]
    log, size = tmp_path / "new.db-wal", Random(number).randrange(1_000_000)
    with warm.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        wait_until(lambda: child.poll() is not None or written(log) >= size)
        child.kill()
        child.communicate(timeout=LIMIT_S)
    warm.run(command, check=True, timeout=LIMIT_S, capture_output=True)
    with Memory.open(db, mode="ro") as other:
        assert list(history_lines(other)) == found


def test_a_history_names_no_key_for_what_it_did_before_it_was_forgotten(tmp_path):
    """Nor for the forgetting: also once the key is used again, and has its name back."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        ada = memory.key("ada")
        ada.add("Tea.")
        with ada.batch() as batch:
            batch.short_term.set("n", 1)
            batch.knowledge.set("book").add("Milk.")
        memory.forget("ada")
        ada.add("Juice.")
        lines = [json.loads(line) for line in history_lines(memory)]
    commits = [line["key"] for line in lines if line["type"] == "commit"]
    assert commits == [None, "ada"]
