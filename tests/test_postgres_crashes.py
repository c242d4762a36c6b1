"""Clients and servers are killed, and connections cut, at random: what was told stands, once."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing, suppress
from typing import cast

import psycopg
import pytest

from alveus import Memory
from alveus.errors import AlveusError, StaleRun, Unavailable
from alveus.store import Batch, Put, QueuedInput, Scope, SetRef
from alveus.store.postgres import PostgresStore, owners
from alveus.store.postgres.connection import PipelinedConnection
from alveus.store.postgres.database import FLUSH
from alveus.testing import ADA, NOTES, NOW, add, batch, write
from crash_worker import MODES, SlowEmbedder
from doors import Letters
from postgres_server import OwnServer, orphans, url_for
from scale import COUNTS
from tcp_proxies import CuttingProxy
from test_crashes import check
from victims import Victim
from waiting import LIMIT_S, wait_until

pytestmark = pytest.mark.server

NAMES = ("ada", "bob", "eve")


@pytest.fixture
def own():
    server = OwnServer()
    yield server
    server.remove()


@pytest.mark.parametrize("mode", sorted(set(MODES) - {"fork", "spread"}))
def test_what_was_acknowledged_survives_the_kill_of_a_client(tmp_path, mode):
    """Every acknowledged write is there, none in part, and writing goes on."""
    chance = random.Random(mode)
    url, next_step = url_for(tmp_path / "app"), 0
    for _ in range(max(2, COUNTS.kills // len(MODES))):
        victim = Victim(url, mode, "ada", next_step)
        time.sleep(chance.random() ** 2 * 0.12)  # noqa: TID251 - until the kill
        done = victim.kill()
        with Memory.open(url, embedder=SlowEmbedder(), wait_s=LIMIT_S) as memory:
            next_step = check(memory.key("ada"), mode, done)


def test_two_hosts_are_killed_at_once(tmp_path):
    """Killed together, each finds what it was told."""
    chance = random.Random(2)
    url, steps = url_for(tmp_path / "app"), {"ada": 0, "bob": 0}
    modes = {"ada": "tree", "bob": "add"}
    for _ in range(max(2, COUNTS.kills // len(MODES))):
        victims = [Victim(url, modes[name], name, start) for name, start in steps.items()]
        time.sleep(chance.random() ** 2 * 0.12)  # noqa: TID251 - until the kill
        done = {victim.name: victim.kill() for victim in victims}
        with Memory.open(url, embedder=SlowEmbedder(), wait_s=LIMIT_S) as memory:
            for name in steps:
                steps[name] = check(memory.key(name), modes[name], done[name])


def test_sixteen_processes_write_to_two_hundred_keys(tmp_path):
    """All are killed in the end: each finds what it was told, once, and at most one item more."""
    url = url_for(tmp_path / "app")
    Memory.open(url, embedder=SlowEmbedder()).close()
    victims = [Victim(url, "spread", f"host {number}", 0) for number in range(16)]
    time.sleep(0.3)  # noqa: TID251 - until the kill
    done = {victim.name: victim.kill() for victim in victims}
    with Memory.open(url, embedder=SlowEmbedder(), wait_s=LIMIT_S) as memory:
        names = list(memory.keys())
        found = [str(item.text) for name in names for item in memory.key(name).list()]
        assert memory.stats().store.commits == len(found)
        assert not orphans(cast("PostgresStore", memory.store))
    assert len(found) == len(set(found)), "one call was carried out twice"
    for name, last in done.items():
        steps = sorted(int(text.split()[-1]) for text in found if text.startswith(f"{name} "))
        assert steps == [*range(len(steps))]
        assert len(steps) - last - 1 in (0, 1)


def test_what_was_acknowledged_survives_the_kill_of_the_server(own):
    """All its processes go at once, under load; what comes back holds each answer that was given.

    A call that had no answer says so by an error, and is there once or not at all.
    """
    chance = random.Random(3)
    acknowledged: list[str] = []
    asked: list[str] = []
    with Memory.open(own.url(), embedder=Letters(), wait_s=LIMIT_S) as memory:
        for trial in range(max(2, COUNTS.kills // 12)):
            stop = threading.Event()

            def work(name: str, trial: int = trial, stop: threading.Event = stop) -> None:
                for number in range(10_000):
                    if stop.is_set():
                        return
                    item_id = f"{trial}-{name}-{number}"
                    asked.append(item_id)
                    try:
                        memory.key(name).add(item_id, id=item_id)
                    except AlveusError:
                        return
                    acknowledged.append(item_id)

            threads = [
                threading.Thread(target=work, args=(name,)) for name in ("ada", "bob", "eve")
            ]
            for thread in threads:
                thread.start()
            time.sleep(0.05 + chance.random() * 0.2)  # noqa: TID251 - until the kill
            own.kill()
            stop.set()
            own.start()
            for thread in threads:
                thread.join(LIMIT_S)
                assert not thread.is_alive()
            found = [
                item.text for name in ("ada", "bob", "eve") for item in memory.key(name).list()
            ]
            assert len(found) == len(set(found)), "one call was carried out twice"
            assert set(acknowledged) <= set(found) <= set(asked)


@pytest.mark.parametrize("what", ["an append", "more than that"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_answer_is_cut_off_is_made_once(own, when, what):
    """The connection breaks as COMMIT is sent: before the server has it, or after.

    The caller gets the answer all the same, and what it wrote is there once.
    """
    with CuttingProxy(own.port, when=when) as proxy:
        store = PostgresStore.open(own.url(proxy.port))
        for number in range(max(4, COUNTS.kills // 4)):
            proxy.cut_next()
            if what == "an append":
                commit = store.commit(Batch(scope=ADA, time=NOW, items=[add(f"{number}")]))
            else:
                commit = write(store, add(f"{number}"), Put((f"p{number}",), number))
            assert not commit.adopted
            assert commit.number == number + 1
        assert proxy.cuts == number + 1
        assert [item.record.id for item in store.page(NOTES)] == [f"{n}" for n in range(number + 1)]
        store.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_first_commit_whose_answer_is_cut_off_is_made_once(own, when):
    """Of a key with a set, and of an agent with a lane; the host goes on with what it made."""
    with CuttingProxy(own.port, when=when) as proxy:
        store = PostgresStore.open(own.url(proxy.port))
        for number in range(max(4, COUNTS.kills // 8)):
            scope = Scope("app", f"{number}")
            inputs = [QueuedInput(scope, "1", NOW)]
            notes = SetRef(scope, "notes")
            proxy.cut_next()
            first = store.commit(Batch(scope=scope, time=NOW, items=[add("1", to=notes)]))
            proxy.cut_next()
            assert store.accept(f"agent {number}", inputs)[0].number == 0
            assert proxy.cuts == 2 * number + 2
            then = store.commit(Batch(scope=scope, time=NOW, items=[add("2", to=notes)]))
            assert (first.number, then.number) == (2 * number + 1, 2 * number + 2)
            assert store.accept(f"agent {number}", inputs)[0].number == 1
            assert [item.record.id for item in store.page(notes)] == ["1", "2"]
        assert not orphans(store)
        store.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_opening_whose_connection_is_cut_off_goes_on(own, when):
    """The tables are made in one transaction: its COMMIT is cut off, and opening tries again."""
    with CuttingProxy(own.port, when=when) as proxy:
        proxy.cut_next()
        store = PostgresStore.open(own.url(proxy.port))
        assert proxy.cuts == 1
        assert write(store, add("1")).number == 1
        store.close()


def test_a_commit_that_a_crash_took_is_not_taken_for_another(own, monkeypatch):
    """The server stops before the disk has a commit, and gives its number to another host.

    What is acknowledged afterwards is there.
    """
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
    own.kill()
    own.start()
    here, other = PostgresStore.open(own.url()), PostgresStore.open(own.url())
    bob = Scope("app", "bob")
    write(here, Put(("first",), 1))
    write(other, Put(("first",), 1), scope=bob)
    run_together = PipelinedConnection.run_together
    armed = threading.Event()
    armed.set()

    def crash(self, statements):
        if not armed.is_set() or [sql for sql, _ in statements[-2:]] != ["COMMIT", FLUSH]:
            return run_together(self, statements)
        armed.clear()
        run_together(self, statements[:-1])
        own.kill()
        own.start()
        for number in range(8):
            write(other, Put((f"p{number}",), number), scope=bob)
        raise psycopg.OperationalError("the server closed the connection")

    monkeypatch.setattr(PipelinedConnection, "run_together", crash)
    commit = write(here, Put(("second",), 2))
    assert not armed.is_set()
    assert commit.number == 11
    assert [name for name, _ in here.field_names(ADA, (), at=None, now=NOW)] == ["first", "second"]
    here.close()
    other.close()


@pytest.mark.parametrize("ask", ["commits", "looks"])
def test_what_is_not_done_again_survives_a_crash(own, ask):
    """Another host committed it, and did not wait for the disk: whoever is told of it does."""
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
    own.kill()
    own.start()
    here = PostgresStore.open(own.url())
    other = PostgresStore.open(own.url(), durability="normal")
    batch = Batch(scope=ADA, time=NOW, items=[add("once")], op=b"once", request=b"1")
    write(here, add("first"))
    other.commit(batch)
    if ask == "looks":
        assert here.commit_of_op(b"once", request=b"1", label="") is not None
    else:
        assert here.commit(batch).adopted
    own.kill()
    own.start()
    assert [item.record.id for item in here.page(NOTES)] == ["first", "once"]
    here.close()
    other.close()


@pytest.mark.parametrize("first", ["writes", "reads", "has new connections"])
def test_a_crash_that_takes_a_set_does_not_take_what_is_added_later(own, first):
    """A host still knows the set, and another made one since: the numbers look alike.

    With new connections, as a pooler gives them, the host sees of the crash only the epoch.
    """
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
    own.kill()
    own.start()
    here = PostgresStore.open(own.url(), durability="normal")
    other = PostgresStore.open(own.url())
    write(here, add("first"))
    write(other, add("second"))
    lost, made = (SetRef(ADA, name) for name in ("lost", "made"))
    here.commit(Batch(scope=ADA, time=NOW, items=[add("taken", to=lost)]))
    own.kill()
    own.start()
    assert write(other, add("there", to=made)).number == 3
    if first == "reads":
        assert here.page(lost) == []
    elif first == "has new connections":
        here._pool.check()
    here.commit(Batch(scope=ADA, time=NOW, items=[add("new", to=lost)]))
    assert [item.record.id for item in other.page(lost)] == ["new"]
    assert [item.record.id for item in other.page(made)] == ["there"]
    here.close()
    other.close()


@pytest.mark.parametrize("whole", [True, False])
def test_a_search_shows_nothing_that_a_crash_took(own, whole):
    """A host searched commits that the disk did not have; others get their numbers later.

    All hosts find what `list` gives, whether the whole server stopped or only its processes did.
    """
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
    own.kill()
    own.start()
    embedder = Letters()
    writer = Memory.open(own.url(), embedder=embedder, durability="normal")
    reader, other = (Memory.open(own.url(), embedder=embedder) for _ in range(2))

    def found(memory: Memory) -> list[str]:
        return sorted(str(hit.item.id) for hit in memory.key("ada").search("note", limit=20))

    for number in range(3):
        other.key("ada").add(f"common note {number}", id=f"common {number}")
    assert found(reader) == found(other)
    for number in range(3):
        writer.key("ada").add(f"lost note {number}", id=f"lost {number}")
    assert len(found(reader)) == 6
    if whole:
        own.kill()
        own.start()
    else:
        own.kill_one()
    for number in range(3):
        add_when_back(other, f"later note {number}", f"later {number}")
    listed = sorted(str(item.id) for item in other.key("ada").list())
    assert listed == [f"{when} {number}" for when in ("common", "later") for number in range(3)]
    for memory in (reader, other, writer):
        assert found(memory) == listed
        memory.close()


def add_when_back(memory: Memory, text: str, item_id: str) -> None:
    """Add an item; again while the server is not back."""

    def is_added() -> bool:
        with suppress(Unavailable):
            memory.key("ada").add(text, id=item_id)
            return True
        return False

    wait_until(is_added, "the server did not come back")


def test_a_host_that_lost_its_connection_never_commits_afterwards(own):
    """Its lease is taken over within seconds, by the server's clock; its epoch no longer holds."""
    with CuttingProxy(own.port, when="before") as proxy:
        cut_off, other = PostgresStore.open(own.url(proxy.port)), PostgresStore.open(own.url())
        lease = cut_off.acquire_lease(ADA, "first")
        assert lease is not None
        assert other.acquire_lease(ADA, "second") is None
        proxy.refuse()
        began = time.monotonic()  # noqa: TID251 - what is printed, and a bound far above
        wait_until(lambda: other.acquire_lease(ADA, "second") is not None)
        assert time.monotonic() - began < LIMIT_S  # noqa: TID251 - the same
        proxy.allow()
        batch = Batch(scope=ADA, time=NOW, base=0, epoch=lease.epoch, state=[Put(("a",), 1)])
        with pytest.raises(StaleRun):
            commit_when_back(cut_off, batch)
        cut_off.close()
        other.close()


def commit_when_back(store: PostgresStore, batch: Batch) -> None:
    """Commit; where the connections that broke are noticed only now, once more."""
    with suppress(Unavailable):
        store.commit(batch)
        return
    store.commit(batch)


def test_a_live_owner_keeps_its_lease(own, monkeypatch):
    """Its process says so again and again, however little it does."""
    store, other = PostgresStore.open(own.url()), PostgresStore.open(own.url())
    assert store.acquire_lease(Scope("app", "x"), "me") is not None
    with store.reader() as db:
        first = db.execute("SELECT expires FROM owner WHERE name = 'me'").get
        wait_until(lambda: db.execute("SELECT expires FROM owner WHERE name = 'me'").get > first)
    assert other.acquire_lease(Scope("app", "x"), "you") is None
    assert owners.LEASE_S / owners.BEATS < owners.LEASE_S
    store.close()
    assert other.acquire_lease(Scope("app", "x"), "you") is not None
    other.close()


def test_what_a_crash_takes_from_a_reader_is_not_told(monkeypatch):
    """A commit that another host made is seen before it is on the disk, and lost there."""
    own = OwnServer(("wal_writer_delay=10s",))
    send = PipelinedConnection.run_together
    works = [own.start, own.kill]

    def sent(connection, statements):
        if any("pg_logical_emit_message" in sql for sql, _ in statements):
            while works:
                works.pop()()
        return send(connection, statements)

    try:
        with (
            closing(PostgresStore.open(own.url(), wait_s=LIMIT_S)) as here,
            closing(PostgresStore.open(own.url(), durability="normal")) as there,
        ):
            write(there, add("kept"))
            there.sync()
            there.commit(batch(add("lost"), op=b"op"))
            monkeypatch.setattr(PipelinedConnection, "run_together", sent)
            found = here.commit_of_op(b"op", request=None, label="")
            assert not works
            assert (found is not None) == ("lost" in {item.record.id for item in here.page(NOTES)})
    finally:
        own.remove()
