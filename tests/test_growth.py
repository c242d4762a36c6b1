"""What a memory takes, of RAM and of the disk, follows from what it holds, not from its past."""

from __future__ import annotations

import itertools
import json
import random
import sys
import tracemalloc
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

import warm
from alveus import Item, Memory, ScriptedChat, Trim
from alveus.cli import alveus
from alveus.facts.learning import LearnOptions
from alveus.facts.learning_records import RECORDS
from alveus.memory.prompt import prompt_sources
from alveus.runs.runner.tickets import overtaken
from alveus.search.index import catalog, set_loader
from alveus.sets import batch as drafts
from alveus.sets.writer import SetReader
from alveus.store import Batch, Define, Definition, QueuedInput, Scope, SetRef
from alveus.store.ram import RamStore
from alveus.store.sql import tree, writer
from alveus.store.sqlite import SqliteStore, connection, database_file, maintenance
from alveus.store.sqlite.connection import connect
from doors import Clock
from index_store import Store, answers, catalog_of, fresh, viewed
from scale import COUNTS

DIMENSIONS = 24


def turned_over(store, *, times):
    """Replace every live item of a set by a new one, so many times, a change after the other."""
    for _ in range(times):
        for feature in store.live():
            store._end(1, feature)
            store._put(store.feature(), 1)


def filled(number):
    store = Store(7)
    for _ in range(number):
        store._put(store.feature(), 1)
    return store


@pytest.mark.parametrize("in_a_file", [False, True])
def test_an_index_holds_a_bounded_share_of_what_ended(monkeypatch, tmp_path, in_a_file):
    """Rows and bytes are as many after 40 turns as after 4, in RAM and sealed."""
    monkeypatch.setattr(catalog, "HOLES", 16)
    monkeypatch.setattr(set_loader, "LARGE", 50 if in_a_file else 1_000)
    store = filled(100)
    index = catalog_of(store, tmp_path / "index")
    taken = []
    for _ in range(2):
        for _ in range(20):
            for feature in store.live()[:25]:
                store._end(1, feature)
                store._put(store.feature(), 1)
            with index.view([1], dimensions=DIMENSIONS) as (one,):
                assert one.live == 100
                assert one.size <= 2 * one.live + 2 * 25
        taken.append(index.stats().bytes)
    assert taken[1] <= taken[0] * 1.5
    assert viewed(index, store) == answers(fresh(store))


def test_a_loaded_set_that_nobody_reads_does_not_gather_its_changes(monkeypatch):
    """Changes wait for the next read of a set; past a bound the set is dropped instead."""
    monkeypatch.setattr(catalog, "WAITING", 50)
    store = filled(100)
    store._put(store.feature(), 2)
    index = catalog_of(store, None)
    viewed(index, store)
    viewed(index, store, 2)
    most = index.stats().bytes + 200 * catalog.LINE_BYTES
    for _ in range(20):
        turned_over(store, times=1)
        viewed(index, store, 2)
        assert index.stats().bytes <= most
    assert index.stats().sets == 1
    assert viewed(index, store) == answers(fresh(store))


def test_a_set_that_shrank_leaves_no_sealed_file(monkeypatch, tmp_path):
    """A file of a set that is served from RAM again is never of use; it goes."""
    monkeypatch.setattr(set_loader, "LARGE", 50)
    store = filled(100)
    index = catalog_of(store, tmp_path / "index")
    viewed(index, store)
    assert index.stats().segments == 1
    for feature in store.live()[:80]:
        store._end(1, feature)
    assert viewed(index, store) == answers(fresh(store))
    assert index.stats().segments == 0


def test_a_writer_knows_a_bounded_number_of_keys(monkeypatch, tmp_path):
    """However many keys were written to; what it no longer knows it reads again."""
    monkeypatch.setattr(writer, "MAX_CACHED_SCOPES", 20)
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        for turn in range(2):
            for number in range(50):
                memory.key(f"k{number}").short_term.set("turn", turn)
                memory.key(f"k{number}").add(f"turn {turn}")
        assert isinstance(memory.store, SqliteStore)
        known = memory.store._cache
        assert max(map(len, (known.scopes, known.heads, known.sets, known.notes))) <= 21
        assert len(memory.engine.lanes) <= 1
        assert all(memory.key(f"k{n}").short_term.get("turn") == 1 for n in range(50))
        assert all(len(memory.key(f"k{n}").set("default")) == 2 for n in range(50))


def changed_for_days(memory, clock, *, value):
    """Set, replace, expire and delete exact values, and remove their past."""
    tree = memory.key("ada").short_term
    for turn in range(20):
        tree.set("replaced", f"{value} {turn}")
        tree.set("expiring", f"{value} {turn}", ttl=timedelta(hours=1))
        tree.set("deleted.name", f"{value} {turn}")
        tree.delete("deleted")
        clock.elapse(days=1)
        memory.sweep()
    clock.elapse(days=2)
    tree.set("replaced", "last")
    memory.sweep()
    memory.prune_history(before=clock.now - timedelta(days=1))


def test_a_memory_in_ram_gives_back_what_is_removed_of_exact_memory():
    """Values that were pruned or swept are nowhere, not even in the journal."""
    clock, mb = Clock(), 1_000_000
    with Memory.open(":memory:", embedder="words", clock=clock) as memory:
        tracemalloc.start()
        try:
            changed_for_days(memory, clock, value="x" * (mb // 10))
            assert tracemalloc.get_traced_memory()[0] < mb
        finally:
            tracemalloc.stop()
        store = memory.store
        assert isinstance(store, RamStore)
        told = [store.effects(n + 1) for n in range(store.stats().commits)]
        assert [len(each.put_nodes) for each in told if each and each.put_nodes] == [1, 1]
        assert not any(each and each.removed_paths for each in told)


def test_a_commit_that_says_nothing_any_more_takes_no_room_of_its_own_in_ram():
    """However many there were: runs that were pruned, items that were purged."""
    clock = Clock()
    with Memory.open(":memory:", embedder="words", clock=clock) as memory:
        notes = memory.key("ada").set("notes", retention="purge")
        for turn in range(20):
            notes.delete(notes.add(f"note {turn}"))
            clock.elapse(days=1)
        memory.sweep()
        store = memory.store
        assert isinstance(store, RamStore)
        assert len(store._journal) == 40
        assert len({id(row) for row in store._journal._rows}) == 1


def test_the_journal_names_nothing_that_is_gone(tmp_path):
    """Neither values of exact memory nor items: what was removed leaves a line per commit."""
    clock = Clock()
    with Memory.open(tmp_path / "app.db", embedder="words", clock=clock) as memory:
        notes = memory.key("ada").set("notes", retention="purge")
        notes.delete(notes.add_many(["one", "two"]))
        changed_for_days(memory, clock, value="x")
        store = memory.store
        assert isinstance(store, SqliteStore)
        with store.reader() as db:
            assert db.execute("SELECT n FROM journal WHERE ended IS NOT NULL").fetchall() == []
            assert db.execute("SELECT count(*) FROM journal").get == memory.stats().store.commits


def test_a_log_that_a_reader_made_long_is_cut_once_the_reader_is_gone(tmp_path, monkeypatch):
    """Where it begins anew; nobody has to close the memory, or to shrink it."""
    monkeypatch.setattr(connection, "LOG_KEPT_BYTES", 100_000)
    monkeypatch.setattr(database_file, "CHECKPOINT_PAGES", 4)
    monkeypatch.setattr(database_file, "MOVED_BESIDE", 0)
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words", durability="normal") as memory:
        tree = memory.key("ada").short_term
        tree.set("text", "first")
        with closing(connect(path, read_only=True)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT 1 FROM node").fetchall()
            for turn in range(20):
                tree.set("text", f"{turn}" * 20_000)
            assert memory.stats().store.wal_bytes > 400_000
        for turn in range(2):  # the first moves all of the log, the second begins it anew
            tree.set("text", f"last {turn}")
        assert memory.stats().store.wal_bytes <= 100_000
        assert tree.get("text") == "last 1"


@pytest.mark.parametrize("is_old", [False, True])
def test_learning_keeps_no_versions_of_its_notes(is_old):
    """How far it read, and how often a model was called: only what they are now, not each before.

    Nor does it in a store whose notes were made to keep all.
    """
    clock = Clock()
    with Memory.open(":memory:", embedder="words", clock=clock) as memory:
        ada, store = memory.key("ada"), memory.store
        for scope in (Scope("default", "ada"), Scope("default", None)) if is_old else ():
            define = Define(SetRef(scope, RECORDS), Definition())
            store.commit(Batch(scope=scope, time=1, define=[define]))
        talk = ada.conversation("talk")
        for turn in range(10):
            talk.add({"role": "user", "content": f"hello {turn}"})
            nothing = ScriptedChat([json.dumps({"facts": []})])
            ada.learn(talk, model=nothing, options=LearnOptions(calls_per_hour=5))
            clock.elapse(days=1)
        assert store.stats().item_versions > store.stats().items + 10
        memory.sweep()
        assert store.stats().item_versions == store.stats().items
        assert len([*ada.facts.learnings()]) == 10
        assert ada.facts.cost(talk, model=ScriptedChat([])).messages == 0


# --- what a call reads --------------------------------------------------------------------------


def steps_of(store, call):
    """Return how many instructions of SQLite's machine a call takes, on a connection that is warm.

    The same on every machine, however busy.
    """
    call()
    with store.reader() as db:
        pass  # the one that is lent first from now on
    return steps_on(db, call)


def steps_on(db, call):
    """Return how many instructions a call takes on a connection."""
    steps = itertools.count()
    db.set_progress_handler(lambda: bool(next(steps) < 0), 1)
    call()
    db.set_progress_handler(None)
    return next(steps)


def test_the_length_of_a_set_is_read_as_fast_beside_many_others(tmp_path):
    """What a set holds is looked up by its name, not among all sets of its key."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        ada = memory.key("ada")
        chosen = ada.set("chosen")
        chosen.add("x")
        alone = steps_of(memory.store, lambda: len(chosen))
        for number in range(60):
            ada.set(f"s{number}").add("y")
        assert len(chosen) == 1
        assert steps_of(memory.store, lambda: len(chosen)) <= alone + 5
        assert [len(ada.set(name)) for name in ada.sets()] == [1] * 61


def test_the_names_of_sets_are_read_without_what_is_in_them(tmp_path):
    """Not when the next item expires, nor how many there are."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        ada = memory.key("ada")
        for number in range(60):
            ada.set(f"s{number:02}").add("y")
        assert ada.sets() == [f"s{number:02}" for number in range(60)]
        assert steps_of(memory.store, ada.sets) <= 60 * 8


def test_the_last_commit_is_found_without_a_search(tmp_path):
    """Streams of events ask for it all the time, and each read of the past by a number."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        store, steps, ada = memory.store, list[int](), memory.key("ada")
        for commits in (16, 512):
            while store.commit_at(1 << 62) < commits:
                ada.short_term.set("n", commits)
            assert store.commit_at(store.time_of_commit(commits)) == commits
            assert store.commit_at(store.time_of_commit(1) - 1) == 0
            steps.append(steps_of(store, lambda: store.commit_at(1 << 62)))
        assert steps[1] <= steps[0] + 2


def test_the_spaces_of_a_store_are_read_without_their_keys(tmp_path):
    """Nor is a space named of which there is knowledge alone."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        store, steps = memory.store, list[int]()
        memory.knowledge.set("facts").add("known to all")
        for keys in (5, 300):
            for space in ("one", "two"):
                inputs = [QueuedInput(Scope(space, f"k{n}"), "1", 1) for n in range(keys)]
                store.accept("helper", inputs)
            assert store.spaces() == ["one", "two"]
            steps.append(steps_of(store, store.spaces))
        assert steps[1] <= steps[0] + 5


@pytest.mark.parametrize("where", [None, {"n": {"gte": 590}}])
def test_a_list_reads_no_more_than_it_is_asked_for(tmp_path, monkeypatch, where):
    """Ten rows for ten items; where a filter passes few, pages grow, and all are found."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        ada = memory.key("ada")
        ada.add_many([Item(f"item {n}", metadata={"n": n}) for n in range(600)])
        read, page = [], memory.store.page

        def counted(*args, **options):
            read.append(len(page(*args, **options)))
            return page(*args, **options)

        monkeypatch.setattr(memory.store, "page", counted)
        found = ada.list(limit=10, where=where, newest_first=True)
        assert [item.metadata["n"] for item in found] == [*range(599, 589, -1)]
        assert read == [10]
        assert ada.list(limit=0) == []
        assert len(ada.recent(3)) == 3
        assert read == [10, 3]
        oldest_first = ada.list(limit=10, where=where)
        assert len(oldest_first) == 10
        assert len(read) <= 2 + 7
        assert len(ada.list()) == 600


def test_a_list_of_facts_reads_no_more_than_it_is_asked_for(memory, monkeypatch):
    """Past items of the set that nobody learnt, too."""
    kept: dict[str, Any] = {
        "subject": "Ada", "kind": "profile", "entities": [], "confidence": 1.0, "quotations": [],
        "conversation": "talk", "when": [None, None], "confirmed": 0, "replaces": [],
        "replaced_by": [], "contradicts": [], "learning": "one", "model": "m", "prompt": "p",
        "zone": "UTC",
    }  # fmt: skip
    ada = memory.key("ada")
    learnt = [Item(f"fact {n}", metadata=kept) for n in range(300)]
    ada.set("facts").add_many([*learnt[:3], Item("noted"), Item("noted too"), *learnt[3:]])
    read, page = [], memory.store.page

    def counted(*args, **options):
        read.append(len(found := page(*args, **options)))
        return found

    monkeypatch.setattr(memory.store, "page", counted)
    assert [fact.text for fact in ada.facts.list(limit=2)] == ["fact 0", "fact 1"]
    assert read == [2]
    assert [fact.text for fact in ada.facts.list(limit=5)] == [f"fact {n}" for n in range(5)]
    assert sum(read) <= 2 + 10
    assert ada.facts.list(limit=0) == []
    assert [fact.text for fact in ada.facts.list(limit=999)] == [f"fact {n}" for n in range(300)]
    assert len(ada.facts.list()) == 300


def test_who_waits_is_found_in_proportion_to_how_many_wait(tmp_path):
    """A runner that serves asks for lanes twenty times a second."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        store, steps = memory.store, dict[tuple[int, bool], int]()
        for lanes in (20, 160):
            inputs = [QueuedInput(Scope("app", f"k{n}"), "1", 1) for n in range(lanes)]
            store.accept(f"agent {lanes}", inputs * 2)
            for past_parked in (True, False):

                def look(agent=f"agent {lanes}", past_parked=past_parked):
                    return store.waiting_lanes(agent, "app", past_parked=past_parked)

                assert len(look()) == lanes
                steps[lanes, past_parked] = steps_of(store, look)
        assert all(steps[160, past] <= 10 * steps[20, past] for past in (True, False))


def test_an_item_that_was_changed_often_is_read_and_changed_as_fast_as_another(tmp_path):
    """Its earlier versions are not looked at, nor those of an item that was deleted."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        ada = memory.key("ada").set("counters")
        for name in ("new", "often", "gone"):
            ada.add(Item("0", id=name))
        for turn in range(60):
            ada.update("often", str(turn))
            ada.update("gone", str(turn))
        ada.delete("gone")
        assert [item and item.text for item in ada.get(["new", "often", "gone"])] == [
            "0", "59", None,
        ]  # fmt: skip
        new, often, gone = (
            steps_of(memory.store, lambda name=name: ada.get(name))
            for name in ("new", "often", "gone")
        )
        assert often <= new + 5
        assert gone <= 2 * new
        assert isinstance(memory.store, SqliteStore)
        new, often = (
            steps_on(memory.store._writer, lambda name=name: ada.update(name, "x"))
            for name in ("new", "often")
        )
        assert often <= new + 60


def test_many_items_that_were_changed_often_are_read_as_fast_as_others(tmp_path):
    """By their ids: of each id the last version alone is looked at, also where ids are taken."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        notes, names = memory.key("ada").set("notes"), ("new", "often", "gone")
        ids = {name: [f"{name}{n:02}" for n in range(30)] for name in names}
        for name in names:
            notes.add_many([Item("0", id=each) for each in ids[name]])
        for turn in range(40):
            changed = [Item(str(turn), id=each) for each in ids["often"] + ids["gone"]]
            notes.add_many(changed, on_existing="update")
        notes.delete(ids["gone"])
        assert [item and item.text for item in notes.get(ids["often"] + ids["gone"])] == [
            *["39"] * 30, *[None] * 30,
        ]  # fmt: skip
        assert [item and item.id for item in notes.get([*"abcdefgh", "new01", "new01"])] == [
            *[None] * 8, "new01", "new01",
        ]  # fmt: skip
        new, often, gone = (
            steps_of(memory.store, lambda name=name: notes.get(ids[name])) for name in names
        )
        assert often <= new + 30
        assert gone <= new
        assert isinstance(memory.store, SqliteStore)
        again = [Item("again", id=each) for each in ids["gone"]]
        first = [Item("first", id=f"{each} of them") for each in ids["new"]]
        steps_again, steps_first = (
            steps_on(memory.store._writer, lambda items=items: notes.add_many(items))
            for items in (again, first)
        )
        assert steps_again <= 2.5 * steps_first


def test_what_has_expired_is_found_without_a_look_at_what_has_not(tmp_path):
    """Nor is it looked at again for each step of a sweep."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        store, now, steps = memory.store, datetime.now(UTC), []
        for items in (5, 200):
            for name in ("one", "two"):
                later = [Item("later", ttl=timedelta(days=9)) for _ in range(items)]
                memory.key("ada").set(name).add_many(later)
            us = int((now + timedelta(days=1)).timestamp() * 1e6)
            steps.append(steps_of(store, lambda us=us: store.expired_items(now=us)))
        assert steps[1] <= steps[0] + 20
        us = int((now + timedelta(days=10)).timestamp() * 1e6)
        assert len(store.expired_items(now=us)) == 410
        assert len(store.expired_items(now=us, limit=7)) == 7


def test_a_run_is_retried_as_fast_behind_many_that_were_before_it(tmp_path):
    """Whether it was overtaken is asked of later runs alone."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        store, steps = memory.store, list[int]()
        for earlier in (5, 300):
            inputs = [QueuedInput(Scope("default", f"k{n}"), "1", 1) for n in range(earlier)]
            store.accept("helper", inputs)
            (last,) = store.accept("helper", [QueuedInput(Scope("default", "ada"), "1", 1)])
            assert last.run is not None
            run = store.run(last.run)
            assert run is not None
            steps.append(steps_of(store, lambda run=run: overtaken(store, run)))
        assert steps[1] <= steps[0] + 20


def test_an_item_is_forgotten_as_fast_beside_many_compactions(tmp_path):
    """Those of the commits that began or ended it are looked at."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        store, ada = memory.store, memory.key("ada")
        assert isinstance(store, SqliteStore)
        full = memory.key("eve").set("log", capacity=5, compaction=Trim(n=1), execution="sync")
        steps = list[int]()
        for adds in (10, 150):
            for number in range(adds):
                full.add(f"note {number}")
            ada.add("x", id=f"{adds}")
            commits = len(full.compactions(limit=1_000))
            journal = store.commit_at(1 << 62)
            forget = partial(ada.set("default").forget, f"{adds}", scrub="later")
            steps.append(steps_on(store._writer, forget) - 4 * journal)
        assert commits >= 100
        assert steps[1] <= steps[0] + 50


class NeverWalked(dict):
    """A dict of which only single keys are looked at."""

    def __iter__(self):
        raise AssertionError("all keys were looked at")


def test_an_object_is_deleted_as_fast_beside_many_others(tmp_path):
    """What lies below it is found by its path, in the file and among what is known of the tree."""
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        tree, store = memory.key("ada").short_term, memory.store
        assert isinstance(store, SqliteStore)
        steps = []
        for others in (5, 200):
            with memory.key("ada").batch() as batch:
                for number in range(others):
                    batch.short_term.set(f"other{number}.name", number)
            tree.set("one.name.first", 1)
            store._cache.nodes = {n: NeverWalked(known) for n, known in store._cache.nodes.items()}
            steps.append(steps_on(store._writer, lambda: tree.delete("one")))
            assert not tree.is_exist("one.name")
        assert steps[1] <= steps[0] + 50
        tree.set("one.name.first", 2)
        assert tree.to_dict()["one"] == {"name": {"first": 2}}


def test_a_pop_reads_no_more_than_it_takes(memory, monkeypatch):
    """And all of many."""
    ada = memory.key("ada")
    ada.add_many([Item(f"item {n}") for n in range(600)])
    asked, page = [], memory.store.page

    def counted(*args, **options):
        asked.append(options["limit"])
        return page(*args, **options)

    monkeypatch.setattr(memory.store, "page", counted)
    assert [item.text for item in ada.pop()] == ["item 599"]
    assert [item.text for item in ada.pop(2)] == ["item 597", "item 598"]
    assert asked == [1, 2]
    assert len(ada.pop(500)) == 500
    assert len(ada.pop(500)) == 97


def test_a_batch_reads_no_more_of_a_set_than_it_changed_there(memory, monkeypatch):
    """Not as many items as it changed in other sets, or made itself."""
    ada = memory.key("ada")
    ada.set("large").add_many([Item(f"item {n}", id=str(n)) for n in range(50)])
    ada.set("small").add_many([f"note {n}" for n in range(9)])
    asked, page = [], memory.store.page

    def counted(*args, **options):
        asked.append(options["limit"])
        return page(*args, **options)

    monkeypatch.setattr(memory.store, "page", counted)
    with ada.batch() as batch:
        for number in range(50):
            batch.set("large").update(str(number), "changed")
        small = batch.set("small")
        small.add(Item("new", id="new"))
        for number in range(20):
            small.update("new", f"new {number}")
        assert [item.text for item in small.recent(2)] == ["note 8", "new 19"]
        assert small.pop()[0].id == "new"
        small.pop()
        assert [item.text for item in small.recent(2)] == ["note 6", "note 7"]
    assert max(asked) <= 3
    assert len(ada.set("small")) == 8


READS_OF_A_BATCH = {
    "len": len,
    "recent": lambda notes: notes.recent(2),
    "list": lambda notes: notes.list(limit=3),
    "search": lambda notes: notes.search("item", limit=3),
    "pop": lambda notes: notes.pop(),
}


@pytest.mark.parametrize("read", READS_OF_A_BATCH.values(), ids=READS_OF_A_BATCH.keys())
@pytest.mark.parametrize("change", ["add", "update"])
def test_a_read_in_a_batch_costs_the_same_however_much_is_pending(
    memory, monkeypatch, read, change
):
    """What was gathered before is not walked again, nor what the batch ended."""
    ada, looked_at = memory.key("ada"), [0]
    ada.add_many([Item(f"item {n}", id=str(n)) for n in range(300)])

    def counting(call, number_of):
        def counted(*args, **options):
            answer = call(*args, **options)
            looked_at[0] += number_of(args, answer)
            return answer

        return counted

    store = memory.store
    monkeypatch.setattr(store, "page", counting(store.page, lambda _, answer: len(answer)))
    monkeypatch.setattr(store, "get", counting(store.get, lambda args, _: len(args[1])))
    for module, name in ((SetReader, "_is_expired"), (drafts, "feature_of")):
        monkeypatch.setattr(module, name, counting(getattr(module, name), lambda *_: 1))
    with ada.batch() as batch:
        notes, costs = batch.set("default"), list[int]()
        for number in range(250):
            if change == "add":
                notes.add(f"new item {number}")
            else:
                notes.update(str(299 - number), "changed")
            looked_at[0] = 0
            read(notes)
            costs.append(looked_at[0])
            if number % 50 == 20:  # it takes in what others commit
                ada.set("other").add("x")
        assert sum(costs) <= 250 * 20 + 5 * 250
        assert sorted(costs)[-20] <= 40


@pytest.mark.parametrize("place", [":memory:", "app.db"])
@pytest.mark.parametrize("timed", [False, True])
def test_a_batch_searches_what_it_gathered_as_if_it_were_read_anew(tmp_path, place, timed):
    """In whatever order it adds, changes and deletes; also where some of it has expired."""
    rng, now = random.Random(5), [datetime(2026, 1, 1, tzinfo=UTC)]
    where = place if place == ":memory:" else tmp_path / place
    with Memory.open(where, embedder="words", clock=lambda: now[0]) as memory:
        ada, ids = memory.key("ada"), [f"c{n}" for n in range(40)]
        ada.add_many([Item(f"green item {name}", id=name) for name in ids])
        with ada.batch() as batch:
            notes = batch.set("default")
            for number in range(300):
                now[0] += timedelta(seconds=1)
                kind = rng.choice(["add", "add", "add", "update", "update", "delete"])
                if kind == "add":
                    seconds = rng.randrange(1, 60) if timed and rng.random() < 0.3 else None
                    life = None if seconds is None else timedelta(seconds=seconds)
                    text = f"{rng.choice(['green', 'red'])} thing {number}"
                    ids.append(notes.add(Item(text, ttl=life)))
                elif kind == "delete":
                    notes.delete(ids.pop(rng.randrange(len(ids))))
                elif (chosen := rng.choice(ids)) in notes:
                    notes.update(chosen, f"red change {number}")
                listed = notes.list()
                assert len(notes) == len(listed)
                assert notes.list(newest_first=True) == listed[::-1]
                found = notes.search("red thing", limit=50)
                assert {hit.item.id for hit in found} <= {item.id for item in listed}
                for drafted in batch._draft._sets.values():
                    drafted._index = None
                assert notes.search("red thing", limit=50) == found
        assert {item.id for item in ada.list()} == {item.id for item in listed}


def test_a_context_reads_no_more_of_exact_memory_than_it_counts(memory, monkeypatch):
    """Not all fields of a wide object, to say how many are left out, nor to show the first."""
    monkeypatch.setattr(prompt_sources, "WIDE", 600)
    with memory.key("ada").batch() as batch:
        for number in range(700):
            batch.short_term.set(f"n{number:03}", number)
            batch.short_term.set(("below", f"n.{number:03}"), number)
    read = []
    monkeypatch.setattr(memory.store, "children", lambda *args, **_: read.append(args))
    made = memory.context("hello", key="ada")
    (left_out,) = [piece for piece in made.why if piece.part == "exact"]
    assert left_out.reason.startswith("at least 500 exact values are left out")
    assert left_out.text.startswith("below, n000, n001")
    shown = memory.context("n.499", key="ada", exact=["below"]).why
    assert next(piece.source for piece in shown if piece.part == "exact") == '["below","n.499"]'
    assert sum(piece.part == "exact" for piece in shown) == 500
    assert read == []


def test_a_command_that_adds_asks_or_forgets_counts_nothing(tmp_path, monkeypatch):
    """Neither keys, items nor runs: figures of the store cost as much as it holds."""

    def counted(_store):
        raise AssertionError("all was counted")

    monkeypatch.setattr(SqliteStore, "stats", counted)
    for words in (
        ("add", "a window seat", "--key", "ada", "--set", "notes"),
        ("search", "seat", "--key", "ada"),
        ("context", "seat", "--key", "ada"),
        ("forget", "--key", "ada", "--yes"),
    ):
        command = ["--db", str(tmp_path / "app.db"), "--embedder", "static", *words]
        done = CliRunner().invoke(alveus, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output


# --- what the disk holds ------------------------------------------------------------------------


def held(path):
    """Return the bytes that a store takes on the disk."""
    files = [path, *path.parent.glob(f"{path.name}*/**/*"), *path.parent.glob(f"{path.name}-*")]
    return sum(file.stat().st_size for file in files if file.is_file())


def problems(memory):
    assert isinstance(memory.store, SqliteStore)
    return memory.store.problems()


def grown(path, *, items):
    """Make a store whose items were all retired, and that keeps none of them."""
    with Memory.open(path, embedder="words", durability="normal") as memory:
        chosen = memory.key("ada").set("log", capacity=200, retention="purge")
        for start in range(0, items, 500):
            chosen.add_many([f"message {n} of the log" for n in range(start, start + 500)])
        chosen.clear()


def test_what_is_deleted_gives_back_its_disk(tmp_path):
    """In the file, its log and beside: what is left is of the present and the journal."""
    path = tmp_path / "app.db"
    grown(path, items=6_000)
    before = held(path)
    with Memory.open(path, embedder="words") as memory:
        memory.key("ada").add("stays")
        told = []
        given = memory.shrink(progress=told.append)
        assert sum(told) == given > before // 3
        assert memory.stats().store.free_bytes == 0
        assert memory.stats().store.details["versions_to_sweep"] == 0
        assert memory.shrink() == 0
        assert held(path) < before // 3
        assert [item.text for item in memory.key("ada").list()] == ["stays"]
        assert problems(memory) == []
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("SELECT count(*) FROM journal WHERE ended IS NOT NULL").get == 0
    assert held(path) < before // 3


def test_shrinking_is_done_in_short_transactions(tmp_path):
    """Each moves a bounded number of pages; others commit between them."""
    path = tmp_path / "app.db"
    grown(path, items=6_000)
    with (
        Memory.open(path, embedder="words") as memory,
        Memory.open(path, embedder="words") as other,
    ):
        memory.sweep()
        steps = 0
        while given := memory.store.shrink(limit=40_960):
            assert given <= 40_960
            other.key("eve").add(f"between {steps}")
            steps += 1
        assert steps > 2
        assert len(other.key("eve").list()) == steps


def test_a_sweep_leaves_a_share_of_the_file_free(tmp_path, monkeypatch):
    """Where much is free, a sweep gives back all but what later writes soon use."""
    monkeypatch.setattr(maintenance, "MIN_FREE_PAGES", 10)
    path = tmp_path / "app.db"
    grown(path, items=6_000)
    with Memory.open(path, embedder="words") as memory:
        memory.sweep()
        stats = memory.stats().store
        assert 0 < stats.free_bytes <= stats.file_bytes * maintenance.SPARE + 4_096


def test_a_writer_sweeps_as_fast_as_it_writes(tmp_path, monkeypatch):
    """What a set keeps no longer does not pile up behind large batches."""
    monkeypatch.setattr(database_file, "CHECKPOINT_PAGES", 200)
    path = tmp_path / "app.db"
    with Memory.open(path, embedder="words", durability="normal") as memory:
        chosen = memory.key("ada").set("log", capacity=100, retention="purge")
        for start in range(0, 12_000, 3_000):
            chosen.add_many([f"message {n}" for n in range(start, start + 3_000)])
        memory.key("ada").add("one more")
        assert memory.stats().store.item_versions < 2 * 3_000


SHRINKING = """
import os, signal, sys
from alveus import Memory
left = int(sys.argv[2])
def tell(_given):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
with Memory.open(sys.argv[1], embedder="words") as memory:
    memory.sweep()
    shrink, memory.store.shrink = memory.store.shrink, lambda: shrink(limit=16_384)
    memory.shrink(progress=tell)
"""


def test_shrinking_that_is_killed_loses_nothing(tmp_path):
    """At any step; and it can be done again."""
    path = tmp_path / "app.db"
    grown(path, items=3_000)
    with Memory.open(path, embedder="words") as memory:
        kept = memory.key("bob").add_many([f"kept {n}" for n in range(300)])
    for step in range(1, 1 + max(2, COUNTS.kills // 12)):
        code = [sys.executable, "-c", SHRINKING, str(path), str(step)]
        warm.run(code, check=False, timeout=60)
        with Memory.open(path, embedder="words") as memory:
            assert problems(memory) == []
            assert [item.id for item in memory.key("bob").list()] == list(kept)
            assert len(memory.key("bob").search("kept", limit=400)) == 300
    with Memory.open(path, embedder="words") as memory:
        memory.shrink()
        assert memory.stats().store.free_bytes == 0


@pytest.mark.parametrize("inside", [False, True])
def test_the_names_of_an_object_are_read_without_its_values(tmp_path, monkeypatch, inside):
    """How many fields there are, and which, outside of a batch and in one, with what it changed."""
    with Memory.open(tmp_path / "app.db", embedder="words") as memory:
        ada = memory.key("ada")
        for number in range(5):
            ada.short_term.set(f"box.f{number}", ["x" * 100, number])
        with monkeypatch.context() as patch:
            patch.setattr(tree.wire, "decode", None)
            assert ada.short_term.get_object("box").get_field_names() == [f"f{n}" for n in range(5)]
            assert len(ada.short_term.get_object("box")) == 5
            assert list(ada.short_term) == ["box"]
        if inside:
            with ada.batch() as batch:
                box = batch.short_term.get_object("box")
                assert len(box) == 5
                box.delete("f1")
                box.set("f2", 2)
                box.set("new", 1)
                box.delete("f3")
                box.set("f3", 3)
                assert box.get_field_names() == ["f0", "f2", "f4", "new", "f3"]
                assert box.to_dict() == {
                    "f0": ["x" * 100, 0],
                    "f2": 2,
                    "f4": ["x" * 100, 4],
                    "new": 1,
                    "f3": 3,
                }
                assert box.get_field_names() == [*box.to_dict()]
            assert ada.short_term.get_object("box").get_field_names() == [
                *("f0", "f2", "f4", "new", "f3")
            ]
