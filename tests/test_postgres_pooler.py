"""PostgreSQL behind PgBouncer, which gives each transaction another connection to the server.

The server is an older one than in the other tests.
"""

from __future__ import annotations

import atexit
import functools
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from alveus import Memory
from alveus.errors import Unavailable
from alveus.store.postgres import PostgresStore
from alveus.store.postgres.connection import PREPARE_AFTER, ServerLocation
from alveus.testing.run_laws import LaneLaws
from harness.store.erasing_laws import ErasingLaws, ErasingRunLaws
from harness.store.group_laws import GroupLaws
from harness.store.lineage_laws import LineageLaws, RetentionLaws
from harness.store.store_laws import ThreadLaws
from pooler import Pooler
from postgres_server import older_server, server, url_for
from waiting import SHORT_S

pytestmark = pytest.mark.server


@functools.cache
def pooler(size=4):
    """One for all tests of a process, with fewer connections than a store has to it."""
    made = Pooler(older_server(), size=size)
    atexit.register(made.remove)
    return made


class TestPooled(
    LaneLaws, GroupLaws, ThreadLaws, LineageLaws, RetentionLaws, ErasingLaws, ErasingRunLaws
):
    """The laws of what takes the lock, with one connection: no call needs another meanwhile."""

    def location(self, path):
        return pooler(1).url(path)

    def open(self, path):
        return PostgresStore.open(self.location(path))

    def kill_owner(self, store, owner):
        assert isinstance(store, PostgresStore)
        store._owners.dismiss(owner)


def test_each_statement_is_the_one_that_was_meant(tmp_path):
    """Programs share sessions of the server, where each would find what others had prepared."""
    url, keys = pooler().url(tmp_path), 6

    def work(number):
        key, texts = memories[number % 2].key(f"user:{number}"), []
        for step in range(4 * PREPARE_AFTER):
            texts.append(f"{number} said {step}")
            added = key.add(texts[-1])
            key.short_term.set("step", step)
            found = key.get(added)
            assert found is not None
            assert (found.text, key.short_term.get("step")) == (texts[-1], step)
            assert {hit.item.text for hit in key.search("said", limit=100)} == set(texts)
        return texts == [item.text for item in key.recent(100)]

    memories = [Memory.open(url, embedder="words") for _ in range(2)]
    with memories[0], memories[1], ThreadPoolExecutor(keys) as pool:
        assert list(pool.map(work, range(keys))) == [True] * keys


@pytest.mark.parametrize("is_pooled", [False, True], ids=["direct", "pooled"])
def test_a_scrub_does_not_wait_for_a_table(tmp_path, is_pooled):
    """Whoever came to use the table later would wait behind it; and nothing stays set."""
    url = pooler().url(tmp_path) if is_pooled else url_for(tmp_path)
    schema = ServerLocation.of(url).schema
    with Memory.open(url, embedder="words") as memory:
        memory.key("ada").add("a secret")
        with psycopg.connect(older_server() if is_pooled else server()) as other:
            table = sql.Identifier(schema, "item")
            other.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(table))
            receipt = memory.forget("ada")
            assert receipt.state == "pending"
            assert "table item was in use for 2 s" in receipt.blocked_by
        assert [receipt.state for receipt in memory.scrub()] == ["scrubbed"]
    place = pooler().url("") if is_pooled else server()
    with psycopg.connect(place, autocommit=True, prepare_threshold=None) as other:
        for setting, default in (("lock_timeout", "0"), ("maintenance_work_mem", "64MB")):
            for _ in range(8):
                shown = other.execute("SELECT current_setting(%s)", (setting,)).fetchone()
                assert shown == (default,)


def test_a_pooler_without_a_connection_left_is_said_to_have_none(tmp_path):
    """In session mode it lets everybody in, and answers two minutes later."""
    with (
        Pooler(older_server(), "session", size=1) as full,
        Memory.open(full.url(tmp_path)) as memory,
    ):
        memory.key("ada").add("one")
        with pytest.raises(Unavailable, match="all connections are in use"):
            Memory.open(full.url(tmp_path), wait_s=SHORT_S)  # the connection stays taken
