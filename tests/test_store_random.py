"""Random batches on every store give what they give on `RamStore`, alone and by threads."""

from __future__ import annotations

import pytest

from fornix.stores.ram import RamStore
from fornix.stores.sqlite import SqliteStore
from fornix.testing import play_threads, replay, store_machine
from scale import COUNTS

TestRamMachine = store_machine(lambda path: RamStore()).TestCase

TestSqliteMachine = store_machine(
    SqliteStore.open,
    kill_owner=lambda store, owner: store._owners.dismiss(owner),
    persistent=True,
).TestCase


@pytest.mark.parametrize("seed", range(3))
def test_ram_agrees_with_a_replay_of_its_threads(seed):
    """Threads commit at the same time; one after the other, their batches do the same."""
    store = RamStore()
    replay(store, play_threads(store, batches=COUNTS.random_ops, threads=4, seed=seed))


def test_sqlite_agrees_with_a_replay_of_its_threads(tmp_path):
    """Groups of commits, savepoints and one fsync for many change nothing of it."""
    store = SqliteStore.open(tmp_path / "memory.db", durability="normal")
    replay(store, play_threads(store, batches=COUNTS.random_ops, threads=8, seed=1))
    store.close()
