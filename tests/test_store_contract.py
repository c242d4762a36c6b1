"""Every store keeps the same promise; and `RamStore`, what is its own."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import pytest

from alveus.store import Put
from alveus.store.postgres import PostgresStore
from alveus.store.ram import RamStore
from alveus.store.sqlite import SqliteStore
from alveus.testing import ADA, NOTES, NOW, add, write
from alveus.values.storable import Value
from harness.store.contract import WholeContract, WholePersistentContract
from postgres_server import url_for


class TestRam(WholeContract):
    def location(self, path):
        return ":memory:"

    def open(self, path):
        self.dead = set()
        return RamStore(alive=lambda owner: owner not in self.dead)

    def kill_owner(self, store, owner):
        self.dead.add(owner)


class TestSqlite(WholePersistentContract):
    def open(self, path):
        return SqliteStore.open(path)

    def kill_owner(self, store, owner):
        assert isinstance(store, SqliteStore)
        assert store._owners is not None
        store._owners.dismiss(owner)


@pytest.mark.server
class TestPostgres(WholePersistentContract):
    def location(self, path):
        return url_for(path)

    def open(self, path):
        return PostgresStore.open(url_for(path))

    def kill_owner(self, store, owner):
        assert isinstance(store, PostgresStore)
        store._owners.dismiss(owner)


def test_a_log_that_was_cut_says_so():
    """None: whoever is further behind has to start anew."""
    store = RamStore(log_lines=3)
    write(store, *(add(f"{i}") for i in range(5)))
    assert store.changes(0) is None
    assert store.changes(1) is None
    assert [line.seq for line in store.changes(2) or ()] == [3, 4, 5]
    assert store.changes(5) == []


def test_a_failure_of_the_store_itself_is_undone_too():
    """A value that cannot be copied, in the last delta, takes the batch with it."""

    class Stubborn:
        def __deepcopy__(self, memo):
            raise RuntimeError("no copies")

    store = RamStore()
    with suppress(RuntimeError):
        write(store, Put(("a",), 1), Put(("b",), cast("Value", Stubborn())), add("i"))
    assert store.children(ADA, (), at=None, now=NOW) == []
    assert store.set_info(NOTES) is None
