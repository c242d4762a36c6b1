"""Random batches on every store give what they give on `RamStore`, alone and by threads."""

from __future__ import annotations

import pytest
from hypothesis import settings

from alveus.store.postgres import PostgresStore
from alveus.store.ram import RamStore
from alveus.store.sqlite import SqliteStore
from harness.store.store_machine import play_beside, play_threads, replay, store_machine
from postgres_server import url_for
from scale import COUNTS
from two_hosts import TwoHosts, open_twice


def kill(store, owner):
    for host in store.hosts if isinstance(store, TwoHosts) else [store]:
        assert isinstance(host, SqliteStore | PostgresStore)
        assert host._owners is not None
        host._owners.dismiss(owner)


SqliteMachine = store_machine(SqliteStore.open, kill_owner=kill, persistent=True)
PostgresMachine = store_machine(
    lambda path: PostgresStore.open(url_for(path)), kill_owner=kill, persistent=True
)
TwoHostsMachine = store_machine(open_twice, kill_owner=kill, persistent=True)
TestRamMachine = store_machine(lambda path: RamStore()).TestCase
TestSqliteMachine = SqliteMachine.TestCase
TestPostgresMachine = pytest.mark.server(PostgresMachine.TestCase)
TestTwoHostsMachine = pytest.mark.server(TwoHostsMachine.TestCase)
TestRamMachine.settings = TestSqliteMachine.settings = settings(max_examples=COUNTS.store_walks)
TestPostgresMachine.settings = settings(max_examples=max(1, COUNTS.store_walks // 4))
TestTwoHostsMachine.settings = settings(max_examples=max(1, COUNTS.store_walks // 10))


@pytest.fixture
def sqlite(tmp_path):
    store = SqliteStore.open(tmp_path / "memory.db", durability="normal")
    yield store
    store.close()


@pytest.fixture
def postgres(tmp_path):
    store = PostgresStore.open(url_for(tmp_path / "memory.db"), durability="normal")
    yield store
    store.close()


def test_ram_agrees_with_a_replay_of_its_threads():
    """Threads commit at the same time; one after the other, their batches do the same."""
    store = RamStore()
    replay(store, play_threads(store, batches=COUNTS.random_ops, threads=4, seed=1))


def test_sqlite_agrees_with_a_replay_of_its_threads(sqlite):
    """Groups of commits, savepoints and one fsync for many change nothing of it."""
    replay(sqlite, play_threads(sqlite, batches=COUNTS.random_ops, threads=8, seed=1))


@pytest.mark.parametrize("seed", range(5))
def test_sqlite_agrees_with_ram_batch_by_batch(sqlite, seed):
    """Every answer is the same, errors too."""
    play_beside(sqlite, batches=COUNTS.random_ops // 5, seed=seed)


@pytest.mark.server
def test_postgres_agrees_with_a_replay_of_its_threads(postgres):
    """Groups, savepoints and several connections change nothing of it either."""
    replay(postgres, play_threads(postgres, batches=COUNTS.random_ops // 4, threads=8, seed=1))


@pytest.mark.server
@pytest.mark.parametrize("seed", range(3))
def test_postgres_agrees_with_ram_batch_by_batch(postgres, seed):
    """Every answer is the same, errors too."""
    play_beside(postgres, batches=COUNTS.random_ops // 10, seed=seed)


@pytest.mark.server
@pytest.mark.parametrize("seed", range(3))
def test_two_hosts_agree_with_ram_batch_by_batch(tmp_path, seed):
    """What a host remembers of keys, sets and commits is right after the commits of another."""
    hosts = open_twice(tmp_path / "memory")
    play_beside(hosts, batches=COUNTS.random_ops // 10, seed=seed)
    hosts.close()


@pytest.mark.server
@pytest.mark.parametrize("seed", range(2))
def test_threads_of_two_hosts_agree_with_a_replay(tmp_path, seed):
    """What is read without the lock, while others commit, is what is committed, or is refused."""
    hosts = open_twice(tmp_path / "memory")
    replay(hosts, play_threads(hosts, batches=COUNTS.random_ops // 10, threads=6, seed=seed))
    hosts.close()
