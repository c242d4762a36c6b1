"""What a memory takes, of RAM and of the disk, follows from what it holds, not from its past."""

from __future__ import annotations

import pytest

from fornix import Memory
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
