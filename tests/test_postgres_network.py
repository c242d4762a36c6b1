"""A host stops between its packets to PostgreSQL, or within one: what others can do meanwhile."""

from __future__ import annotations

import itertools
import logging
import threading
from contextlib import closing, suppress
from dataclasses import replace

import pytest
from psycopg.errors import CheckViolation, OperationalError
from psycopg_pool import PoolTimeout

from alveus import Memory
from alveus.errors import Unavailable
from alveus.store import Compact, Define, Definition, Link, Put, QueuedInput, Scope, SetRef, Undo
from alveus.store.packed_values import Packed
from alveus.store.postgres import PostgresStore, database
from alveus.store.postgres.connection import OutageLog, PipelinedConnection
from alveus.store.postgres.dialect import TextArray
from alveus.testing import ADA, NOTES, NOW, add, batch, write
from postgres_server import OwnServer, orphans, url_for
from tcp_proxies import HoldingProxy
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


def held_packets(proxy, working):
    """Count the packets of *working*: each is held while the block is done."""
    for held in itertools.count(1):
        wait_until(lambda: proxy.holds or not working.is_alive())
        if not working.is_alive():
            return
        yield held
        proxy.let_go()


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
    for held in held_packets(proxy, working):
        assert other.accept("agent", [sent(BOB, held)], owner="bob")[0].number == held
        mine = other.acquire_lease(BOB, "bob")
        other.release_lease(mine)
        again = other.acquire_lease(BOB, "bob")
        assert again.epoch == mine.epoch + 1
        other.release_lease(again)
        write(other, Put(("held",), held), scope=BOB)
    assert working.answers == [1, None, 1, False]
    assert held > 8
    assert [run.number for run in other.queued_runs("agent", ADA)] == [0, 1]
    assert {item.record.id for item in other.page(NOTES)} == {"first", "second"}


@pytest.mark.server
def test_a_host_that_stops_in_its_first_commits_holds_up_nobody(proxy, hosts):
    """Of keys, sets, agents and lanes; others commit meanwhile, to new keys too."""
    slow, other = hosts
    eve, dan, more = Scope("app", "eve"), Scope("app", "dan"), SetRef(ADA, "more")
    proxy.holding = True
    working = Working(
        lambda: write(slow, Put(("x",), 1), scope=eve).adopted,
        lambda: write(slow, add("first")).adopted,
        lambda: write(slow, Define(more, Definition(item_type="note")), add("1", to=more)).adopted,
        lambda: write(slow, Define(more, Definition(item_type="note")), add("2", to=more)).adopted,
        lambda: slow.accept("agent", [sent(ADA, 0)], owner="ada")[0].number,
        lambda: slow.accept("agent", [sent(dan, 0)])[0].number,
    )
    held = 0
    for held in held_packets(proxy, working):
        write(other, Put(("held",), held), scope=BOB)
        new = Scope("app", f"{held}")
        write(other, add("here", to=SetRef(new, "notes")), scope=new)
        assert other.accept("other", [sent(BOB, held)])[0].number == held - 1
    assert working.answers == [False, False, False, False, 0, 0]
    assert held > 20
    assert [item.record.id for item in other.page(more)] == ["1", "2"]
    assert len(other.queued_runs("agent", dan)) == len(other.queued_runs("agent", ADA)) == 1
    assert not orphans(other)


@pytest.mark.server
def test_a_host_that_stops_in_a_compaction_holds_up_nobody(proxy, hosts):
    """Whatever it retires, and with the numbers of the commit that it becomes."""
    slow, other = hosts
    ids = [f"{number}" for number in range(100)]
    write(other, *map(add, ids))
    write(other, Put(("first",), 1), scope=BOB)
    proxy.holding = True
    links = [Link(NOTES, item_id) for item_id in ids]
    retired, added = [(item_id, 1) for item_id in ids], [replace(add("sum"), links=links)]
    working = Working(lambda: write(slow, Compact(NOTES, retired, added, "{}")).adopted)
    held = 0
    for held in held_packets(proxy, working):
        write(other, Put(("held",), held), scope=BOB)
    assert working.answers == [False]
    assert 1 < held < 12
    [item] = other.page(NOTES)
    [done] = other.compactions(NOTES)
    assert list(done.added) == [item.row]
    proxy.holding = True
    working = Working(lambda: write(slow, Undo(NOTES, done.id)).adopted)
    for held in held_packets(proxy, working):
        write(other, Put(("held",), held), scope=BOB)
    assert working.answers == [False]
    assert {item.record.id for item in other.page(NOTES, limit=200)} == set(ids)


@pytest.mark.server
def test_a_host_that_stops_as_it_adds_to_a_full_set_holds_up_nobody(proxy, hosts):
    """The oldest item goes with the add; the set is full before and after."""
    slow, other = hosts
    few = Definition(capacity=3)
    write(other, *(add(f"{n}", time=NOW + n) for n in range(3)), Define(NOTES, few))
    write(other, Put(("first",), 1), scope=BOB)
    proxy.holding = True
    working = Working(
        lambda: write(slow, add("3"), time=NOW + 3).adopted,
        lambda: write(slow, add("4"), time=NOW + 4).adopted,
    )
    held = 0
    for held in held_packets(proxy, working):
        write(other, Put(("held",), held), scope=BOB)
    assert working.answers == [False, False]
    assert held > 6
    assert [item.record.id for item in other.page(NOTES)] == ["2", "3", "4"]


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
        lock = (f"{other._server.schema}.ledger", "Row%")
        wait_until(lambda: db.execute(held, lock).get > 0)
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


def test_a_commit_whose_answer_was_lost_as_the_store_closes_is_made_once(tmp_path, monkeypatch):
    """Its row, which says that it was made, stays until that was asked for."""
    store = PostgresStore.open(url_for(tmp_path / "memory"), wait_s=LIMIT_S)
    write(store, add("first"))
    closing_thread = threading.Thread(target=store.close, daemon=True)
    waits, answered = threading.Event(), threading.Event()
    ask, turn, end, send = (
        *(store._appended, store._one_writer, store._owners.close),
        PipelinedConnection.run_together,
    )

    def lost(connection, statements):
        rows = send(connection, statements)
        if ("COMMIT", ()) in statements:
            monkeypatch.setattr(PipelinedConnection, "run_together", send)
            raise OperationalError("the answer is lost")
        return rows

    def asked(attempt):
        closing_thread.start()
        assert waits.wait(LIMIT_S)
        return ask(attempt)

    def one_writer():
        if threading.current_thread() is closing_thread:
            waits.set()
        return turn()

    def ended():
        waits.set()
        assert answered.wait(LIMIT_S)
        end()

    monkeypatch.setattr(PipelinedConnection, "run_together", lost)
    monkeypatch.setattr(store, "_appended", asked)
    monkeypatch.setattr(store, "_one_writer", one_writer)
    monkeypatch.setattr(store._owners, "close", ended)
    made = store.commit(batch(Put(("x",), 1), base=store.head(ADA)))
    answered.set()
    closing_thread.join(LIMIT_S)
    with closing(PostgresStore.open(url_for(tmp_path / "memory"))) as other:
        assert made.number == other.head(ADA) == 2


def test_threads_that_sync_at_once_each_wait_for_the_disk(tmp_path, monkeypatch):
    """Whatever the durability, and whichever of them is done first."""
    store = PostgresStore.open(url_for(tmp_path / "memory"), durability="normal")
    flushed: list[str] = []
    send, turn = PipelinedConnection.run_together, store._one_writer
    second = threading.Thread(target=store.sync, name="second", daemon=True)
    waits = threading.Event()

    def sent(connection, statements):
        if any("pg_logical_emit_message" in sql for sql, _ in statements):
            flushed.append(threading.current_thread().name)
            if len(flushed) == 1:
                second.start()
                wait_until(lambda: waits.is_set() or not second.is_alive())
        return send(connection, statements)

    def one_writer():
        if threading.current_thread() is second:
            waits.set()
        return turn()

    monkeypatch.setattr(PipelinedConnection, "run_together", sent)
    monkeypatch.setattr(store, "_one_writer", one_writer)
    store.sync()
    second.join(LIMIT_S)
    store.close()
    assert flushed == [threading.current_thread().name, "second"]


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


def test_a_refused_wait_for_the_disk_is_told_as_that(once, monkeypatch):
    """At once, and with the commit: whoever repeats it would make it twice."""
    store, _ = once
    write(store, add("first"))
    monkeypatch.setattr(database, "FLUSH", "SELECT 1 / 0")
    with pytest.raises(Unavailable, match="was made, but the server did not confirm"):
        write(store, add("second"))
    assert len(store.page(NOTES)) == 2


def test_a_fence_outlives_the_host_that_set_it(tmp_path):
    """The packet that it is to stop may come after the host closed."""
    url = url_for(tmp_path / "memory")
    with closing(PostgresStore.open(url)) as looking:
        rows = "SELECT fence FROM appender WHERE id = ?"
        for fenced in (False, True):
            store = PostgresStore.open(url)
            write(store, add(f"{fenced}"))
            attempt = next(store._attempts)
            if fenced:
                assert store._appended(attempt) is None
            store.close()
            with looking.reader() as db:
                assert db.query_all((rows, (store._host,)))[0] == ([(attempt,)] if fenced else [])


def test_a_server_that_gives_no_connection_is_waited_for_once(tmp_path, monkeypatch):
    """Whatever is asked: a draft too."""
    with closing(PostgresStore.open(url_for(tmp_path / "memory"))) as store:
        store.accept("agent", [sent(ADA, 0)])
        lent = []

        def lend():
            lent.append(1)
            raise PoolTimeout("no connection")

        with monkeypatch.context() as patched:
            patched.setattr(store, "_lend", lend)
            with pytest.raises(Unavailable):
                store.accept("agent", [sent(ADA, 1)])
        assert len(lent) == 1
        assert store.accept("agent", [sent(ADA, 1)])[0].number == 1


@pytest.mark.parametrize(
    "value",
    [Packed("x" * 1_000_000), "ä" * 250_000, b"x" * 1_000_000, TextArray(["x" * 1_000_000])],
    ids=["packed", "not ASCII", "bytes", "array"],
)
def test_a_draft_has_time_for_all_that_is_sent(value):
    limit_ms = database._limit_ms([("INSERT", (1, value))])
    assert limit_ms >= (database.DRAFT_S + 10) * 1000


@pytest.mark.server
def test_that_a_server_is_away_is_logged_once_and_that_it_is_back(own, caplog):
    """Not at each attempt of the pool, of which a program without logging sees each on stderr."""
    url = own.url()
    with Memory.open(url, embedder="words", wait_s=0.2) as memory:  # away for as long as it waits
        memory.key("ada").add("Tea.")
        for _ in range(2):
            caplog.clear()
            own.kill()
            for _ in range(3):
                with pytest.raises(Unavailable):
                    memory.key("ada").add("Milk.")
            logged("is away", caplog)
            own.start()
            wait_until(lambda: answers(memory), "the memory did not come back")
            away, back = logged("is back", caplog)
            assert "is away" in away
            assert "is back" in back
            assert "postgres@127.0.0.1" in away
    assert not logging.getLogger("psycopg.pool").filters


def answers(memory):
    """Return whether the server answers by now."""
    with suppress(Unavailable):
        memory.key("ada").add("Back.")
        return True
    return False


def logged(last, caplog):
    """Wait until *last* is logged; return all that was."""

    def said():
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    wait_until(lambda: any(last in line for line in said()), f"nothing says {last!r}")
    return said()


def test_records_of_other_pools_are_logged(caplog):
    """A program may have a pool of its own, which says what it likes."""
    other = OutageLog("alveus-1", "postgresql://here")
    pool = logging.getLogger("psycopg.pool")
    other.begin()
    try:
        pool.warning("error connecting in %r: %s", "mine", OSError("gone"))
        pool.warning("rolling back returned connection: %s", "x")
        pool.warning("discarding broken connection: %s", "mine")
        pool.warning("error connecting in %r: %s", "alveus-1", OSError("gone"))
        pool.warning("error connecting in %r: %s", "alveus-1", OSError("gone"))
    finally:
        other.end()
    assert [record.name for record in caplog.records] == [
        "psycopg.pool", "psycopg.pool", "psycopg.pool", "alveus.store.postgres.connection",
    ]  # fmt: skip
