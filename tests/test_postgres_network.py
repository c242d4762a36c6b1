"""A host stops between its packets to PostgreSQL, or within one: what others can do meanwhile."""

from __future__ import annotations

import threading

import pytest
from psycopg.errors import CheckViolation

from fornix.store import Put, QueuedInput, Scope
from fornix.store.postgres import PostgresStore, database
from fornix.testing import ADA, NOTES, NOW, add, write
from holding_proxy import HoldingProxy
from postgres_server import OwnServer, url_for
from waiting import LIMIT_S, wait_until

BOB = Scope("app", "bob")


@pytest.fixture
def own():
    server = OwnServer()
    yield server
    server.remove()


@pytest.fixture
def proxy(own):
    with HoldingProxy(own.port) as proxy:
        yield proxy


@pytest.fixture
def hosts(own, proxy):
    """A host whose packets the proxy may hold, and one with a connection of its own."""
    opened = [PostgresStore.open(own.url(port)) for port in (proxy.port, own.port)]
    yield opened
    proxy.holding = False
    proxy.let_go()
    for store in opened:
        store.close()


class Working(threading.Thread):
    """Does *work* beside the test, and keeps its answers."""

    def __init__(self, *work):
        super().__init__(daemon=True)
        self._work, self.answers = work, []
        self.start()

    def run(self):
        self.answers += [each() for each in self._work]


def sent(scope, number):
    return QueuedInput(scope, f"{number}", NOW)


@pytest.mark.server
def test_a_host_that_stops_between_its_packets_holds_up_nobody(proxy, hosts):
    """While any packet of its inputs, leases and commits is held, others do the same at once."""
    slow, other = hosts
    for store, scope in ((slow, ADA), (other, BOB)):
        store.accept("agent", [sent(scope, 0)], owner=scope.key)
        store.release_lease(store.acquire_lease(scope, scope.key))
    write(slow, add("first"))
    lease = slow.acquire_lease(ADA, "ada")
    proxy.holding = True
    working = Working(
        lambda: slow.accept("agent", [sent(ADA, 1)], owner="ada")[0].number,
        lambda: slow.release_lease(lease),
        lambda: slow.acquire_lease(ADA, "ada").epoch - lease.epoch,
        lambda: write(slow, add("second")).adopted,
    )
    held = 0
    while working.is_alive():
        wait_until(lambda: proxy.holds or not working.is_alive())
        held += 1
        assert other.accept("agent", [sent(BOB, held)], owner="bob")[0].number == held
        mine = other.acquire_lease(BOB, "bob")
        other.release_lease(mine)
        again = other.acquire_lease(BOB, "bob")
        assert again.epoch == mine.epoch + 1
        other.release_lease(again)
        write(other, Put(("held",), held), scope=BOB)
        proxy.let_go()
    assert working.answers == [1, None, 1, False]
    assert held > 8
    assert [run.number for run in other.queued_runs("agent", ADA)] == [0, 1]
    assert {item.record.id for item in other.page(NOTES)} == {"first", "second"}


@pytest.mark.server
def test_the_server_ends_a_commit_whose_host_stops_while_it_sends_it(proxy, hosts, monkeypatch):
    """What does not fit into one part holds the lock until then, at most; it is made again."""
    slow, other = hosts
    monkeypatch.setattr(database, "DRAFT_S", 0.5)
    write(slow, add("first"))
    write(other, Put(("first",), 1), scope=BOB)
    proxy.whole, proxy.holding = False, True
    long = add("long", text="word " * 4000)
    working = Working(lambda: write(slow, long).adopted)
    wait_until(lambda: proxy.holds)
    with other.reader() as db:
        held = "SELECT count(*) FROM pg_locks WHERE relation = ?::text::regclass AND mode LIKE ?"
        assert db.execute(held, (f"{other._server.schema}.ledger", "Row%")).get > 0
    other._wait_s = LIMIT_S
    write(other, Put(("second",), 2), scope=BOB)
    proxy.holding = False
    proxy.let_go()
    working.join(LIMIT_S)
    assert working.answers == [False]
    assert {item.record.id for item in other.page(NOTES)} == {"first", "long"}


@pytest.fixture
def once(tmp_path):
    """A store, and the SQL of a query that is refused once."""
    store = PostgresStore.open(url_for(tmp_path / "memory"))
    name = f"{store._server.schema}.once"
    with store.writing() as db:
        db.execute(f"CREATE SEQUENCE {name}")
    yield store, f"SELECT 1 / (nextval('{name}') - 1)"
    store.close()


@pytest.mark.parametrize("drafted", [True, False])
def test_a_commit_whose_wait_for_the_disk_was_refused_was_made(once, drafted, monkeypatch):
    """The COMMIT came before it: the call returns the commit, once the disk has it."""
    store, refused = once
    write(store, add("first"))
    monkeypatch.setattr(database, "FLUSH", refused)
    if drafted:
        assert write(store, add("second")).number == 2
    else:
        store.accept("new agent", [sent(ADA, 0)])
        assert [run.number for run in store.queued_runs("new agent", ADA)] == [0]
    assert write(store, add("third")).number == 3 if drafted else 2
    assert len(store.page(NOTES)) == 3 if drafted else 2


@pytest.mark.parametrize("drafted", [True, False])
def test_a_commit_that_is_refused_before_its_end_was_not_made(once, drafted, monkeypatch):
    """Nothing of it is there, and nobody is asked."""
    store, _ = once
    write(store, add("first"))
    monkeypatch.setattr(store, "_appended", lambda _: pytest.fail("the server was asked"))
    column = "item.text" if drafted else "run.event"
    table, name = column.split(".")
    with store.writing() as db:
        table = f"{store._server.schema}.{table}"
        db.execute(f"ALTER TABLE {table} ADD CONSTRAINT never CHECK ({name} IS NULL) NOT VALID")
    with pytest.raises(CheckViolation, match="never"):
        write(store, add("second")) if drafted else store.accept("new agent", [sent(ADA, 0)])
    assert [item.record.id for item in store.page(NOTES)] == ["first"]
