"""What a memory takes, of RAM and of the disk, follows from what it holds, not from its past."""

from __future__ import annotations

import itertools

import pytest

from fornix import Item, Memory
from fornix.search.index import catalog, set_loader
from fornix.store.sqlite import SqliteStore, apply
from index_store import Store, answers, catalog_of, fresh, viewed

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
    monkeypatch.setattr(apply, "SCOPES", 20)
    with Memory.open(tmp_path / "app.db", embedder="words", durability="normal") as memory:
        for turn in range(2):
            for number in range(50):
                memory.key(f"k{number}").short_term.set("turn", turn)
                memory.key(f"k{number}").add(f"turn {turn}")
        assert isinstance(memory.store, SqliteStore)
        known = memory.store._known
        assert max(map(len, (known.scopes, known.heads, known.sets, known.notes))) <= 21
        assert len(memory.engine.lanes) <= 1
        assert all(memory.key(f"k{n}").short_term.get("turn") == 1 for n in range(50))
        assert all(len(memory.key(f"k{n}").set("default")) == 2 for n in range(50))


# --- what a call reads --------------------------------------------------------------------------


def steps_of(store, call):
    """Return how many instructions of SQLite's machine a call takes, on a connection that is warm.

    The same on every machine, however busy.
    """
    call()
    with store._reader() as db:
        steps = itertools.count()
        db.set_progress_handler(lambda: bool(next(steps) < 0), 1)
    call()
    with store._reader() as db:
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
