"""Clients and servers are killed, and connections cut, at random: what was told stands, once."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress

import pytest

from crash_worker import MODES, SlowEmbedder
from cutting_proxy import CuttingProxy
from doors import Letters
from fornix import Memory
from fornix.errors import FornixError, StaleRun, Unavailable
from fornix.store import Batch, Put, Scope
from fornix.store.postgres import PostgresStore, owners
from fornix.testing import ADA, NOTES, NOW, add, write
from postgres_server import OwnServer, url_for
from scale import COUNTS
from test_crashes import Victim, check
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
                    except FornixError:
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


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_answer_is_cut_off_is_made_once(own, when):
    """The connection breaks as COMMIT is sent: before the server has it, or after.

    The caller gets the answer all the same, and what it wrote is there once.
    """
    with CuttingProxy(own.port, when=when) as proxy:
        store = PostgresStore.open(own.url(proxy.port))
        for number in range(max(4, COUNTS.kills // 4)):
            proxy.cut_next()
            commit = write(store, add(f"{number}"), Put((f"p{number}",), number))
            assert not commit.adopted
            assert commit.number == number + 1
        assert proxy.cuts == number + 1
        assert [item.record.id for item in store.page(NOTES)] == [f"{n}" for n in range(number + 1)]
        store.close()


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
