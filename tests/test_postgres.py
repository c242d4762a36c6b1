"""What is PostgreSQL's own: the URL, the schema, the README on a server, errors in words."""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from types import ModuleType
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
import yaml
from click.testing import CliRunner
from psycopg import sql

from alveus import AsyncMemory, Item, Memory
from alveus.cli import alveus
from alveus.errors import (
    AlveusError,
    DuplicateItem,
    ForkedStore,
    IdempotencyConflict,
    InvalidInput,
    NotAStore,
    StoreBusy,
    StoreClosed,
    StoreReadOnly,
    StoreTooNew,
    Unavailable,
    Unusable,
)
from alveus.store import CLOCK_STEP_US, Batch, Put, QueuedInput, Retire, Scope
from alveus.store.postgres import PostgresStore
from alveus.store.postgres import store as postgres_store
from alveus.store.postgres.connection import (
    PREPARE_AFTER,
    PipelinedConnection,
    ServerLocation,
    is_lost,
)
from alveus.store.postgres.database import FLUSH
from alveus.store.postgres.dialect import TABLES, original, storable, translated
from alveus.store.postgres.drafting import REFUSED
from alveus.store.sql.rows import BY_IDS, page_sql
from alveus.testing import ADA, NOTES, NOW, add, write
from doors import Letters
from file_scan import scan
from harness.store.store_machine import play_beside
from pages import ROOT, blocks
from postgres_server import OwnServer, server, url_for
from waiting import LIMIT_S, SHORT_S


@pytest.fixture
def url(tmp_path):
    return url_for(tmp_path / "memory")


@pytest.fixture
def raw():
    with psycopg.connect(server(), autocommit=True) as connection:
        yield connection


def schema_of(url):
    return ServerLocation.of(url).schema


def test_the_blocks_of_the_readme_run_on_a_server(tmp_path, monkeypatch):
    """Unchanged but for the place that they open."""
    program = ModuleType("__main__")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", program)
    said = io.StringIO()
    ran = 0
    for block in blocks(ROOT / "README.md"):
        if block.language == "python" and block.no_run is None:
            code = re.sub(
                r'Memory\.open\("([^"]+)"',
                lambda found: f'Memory.open("{url_for(tmp_path / found[1])}"',
                block.code,
            )
            ran += code != block.code
            with contextlib.redirect_stdout(said):
                exec(compile(code, str(block.page), "exec", dont_inherit=True), vars(program))  # noqa: S102 - running the page is the test
    assert ran == 3
    assert said.getvalue()


def test_the_command_line_takes_a_url(url, monkeypatch):
    """As --db, or in the environment; what works on a file says so."""
    shell = CliRunner()

    def run(*words, code=0):
        result = shell.invoke(alveus, words)
        assert result.exit_code == code, result.output + result.stderr
        return result

    run("--db", url, "add", "Prefers window seats.", "--key", "ada", "--embedder", "words")
    monkeypatch.setenv("ALVEUS_DB", url)
    assert "window" in run("search", "which seat?", "--key", "ada").stdout
    run("set", "city", "Lisbon", "--key", "ada")
    assert run("get", "city", "--key", "ada").stdout == "Lisbon\n"
    assert "postgresql://" in run("keys").stderr
    told = run("doctor").stdout
    checks = ("postgresql", "user", "pgvector", "vacuum", "lease clock", "connections")
    assert [name for name in ("server", "schema", *checks) if f" {name} " not in told] == []
    assert "docs/postgres.md" in run("backup", "copy.db", code=1).stderr
    assert "docs/postgres.md" in run("restore", "copy.db", "--yes", code=1).stderr


def test_an_async_memory_opens_one(url):
    """The same door."""
    import asyncio

    async def play():
        async with await AsyncMemory.open(url, embedder=Letters()) as memory:
            ada = await memory.key("ada")
            await ada.add("Prefers window seats.")
            return [hit.item.text for hit in await ada.search("seats")]

    assert asyncio.run(play()) == ["Prefers window seats."]


def test_two_processes_of_one_memory_see_each_other(url):
    """What one commits, the other finds at once: exact memory, items and searches."""
    with Memory.open(url, embedder=Letters()) as one, Memory.open(url, embedder=Letters()) as two:
        one.key("ada").short_term.set("city", "Lisbon")
        assert two.key("ada").short_term.get("city") == "Lisbon"
        one.key("ada").add("Prefers window seats.", id="a")
        assert [hit.item.id for hit in two.key("ada").search("seats")] == ["a"]
        two.key("ada").forget()
        assert len(one.key("ada").search("seats")) == 0
        assert one.key("ada").get("a") is None


@pytest.mark.parametrize("wrong", ["schema=Caps", "schema=a&schema=b", "schema=", "schema=a;b"])
def test_a_schema_is_a_plain_name(wrong):
    with pytest.raises(InvalidInput, match="schema="):
        Memory.open(f"postgresql://host/db?{wrong}")


def test_a_schema_is_no_word_that_the_server_keeps():
    """It says so before it connects; every word that the server reserves is known."""
    with psycopg.connect(server()) as connection:
        query = "SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T')"
        words = [word for (word,) in connection.execute(query)]
    for word in (*words, "plpgsql", "pg_agents"):
        with pytest.raises(InvalidInput, match="is reserved by"):
            ServerLocation.of(f"postgresql://host/db?schema={word}")


def test_a_schema_may_be_named_as_a_table_is():
    """What stands in it is named in full, and no name is read for that of the table."""
    for name in TABLES:
        assert translated("FROM alveus.begin_draft()", name) == f"FROM {name}.begin_draft()"
        assert translated("JOIN run AS every_run", name) == f"JOIN {name}.every_run"
        assert translated(f"INTO {name} (n)", name) == f"INTO {name}.{name} (n)"


def test_a_memory_in_a_schema_named_as_a_table_is():
    with psycopg.connect(server(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS agent CASCADE")
        url = server()
        store = PostgresStore.open(f"{url}{'&' if '?' in url else '?'}schema=agent")
        play_beside(store, batches=20, seed=1)
        store.close()
        connection.execute("DROP SCHEMA agent CASCADE")


def test_no_error_shows_a_password():
    """Neither that of the URL's user nor that of a parameter."""
    for url in (
        "postgresql://me:secret@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password=secret&connect_timeout=3",
    ):
        with pytest.raises(Unavailable) as caught:
            Memory.open(url)
        assert "secret" not in str(caught.value)
        assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize(
    "password", ["my@secret", "my/secret", "my?secret", "my#secret", "my%secret"]
)
def test_a_password_that_is_not_quoted_is_not_shown(password):
    """Nor is any part of it taken for the host."""
    with pytest.raises(InvalidInput) as caught:
        Memory.open(f"postgresql://me:{password}@127.0.0.1:1/db?connect_timeout=3")
    assert "secret" not in str(caught.value)


def test_a_url_may_name_no_host():
    """Then libpq takes its socket, and what the environment says."""
    for url in ("postgresql:///db", "postgresql:///db?sslmode=prefer&schema=a"):
        assert ServerLocation.of(url).conninfo == url.removesuffix("&schema=a")


def test_texts_are_utf_8_whatever_the_environment_says(url, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    for given in (url, f"{url}&client_encoding=SQL_ASCII"):
        with Memory.open(given) as memory:
            memory.key("ada").add("naïve 🦊")
            assert [item.text for item in memory.key("ada").list()][-1:] == ["naïve 🦊"]


def test_a_database_with_another_encoding_is_refused(raw):
    raw.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
    try:
        place = urlsplit(server())
        with pytest.raises(Unusable, match=r"LATIN1.*UTF8"):
            Memory.open(place._replace(path="/latin").geturl())
    finally:
        raw.execute("DROP DATABASE latin WITH (FORCE)")


def test_a_statement_that_the_server_cancels_says_so(tmp_path):
    with pytest.raises(StoreBusy, match="statement_timeout"):
        Memory.open(url_for(tmp_path / "memory", options="-c%20statement_timeout%3D1"))


def test_a_url_that_libpq_does_not_know_says_what_is_wrong():
    with pytest.raises(AlveusError, match="nonsense"):
        Memory.open("postgresql://127.0.0.1/db?nonsense=1")


def test_a_memory_that_is_not_there_is_not_made_to_be_read(url, raw):
    """Nothing is left behind either."""
    with pytest.raises(NotAStore, match="open it once without"):
        Memory.open(url, mode="ro")
    found = raw.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema_of(url),))
    assert found.fetchone() is None


def test_many_processes_may_make_it_at_once(url):
    """One makes the tables; the others find them."""
    stores: list[PostgresStore] = []

    def open_one():
        stores.append(PostgresStore.open(url))

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert len(stores) == 6
    assert len({store.salt() for store in stores}) == 1
    for store in stores:
        store.close()


def test_a_newer_schema_is_refused(url, raw):
    PostgresStore.open(url).close()
    raw.execute(f"UPDATE {schema_of(url)}.ledger SET schema = 99, least = 99")  # noqa: S608 - ours
    with pytest.raises(StoreTooNew):
        PostgresStore.open(url)


def test_reading_alone_changes_nothing(url):
    PostgresStore.open(url).close()
    store = PostgresStore.open(url, read_only=True)
    with pytest.raises(StoreReadOnly):
        write(store, add("a"))
    store.close()


def test_a_closed_store_says_so(url):
    store = PostgresStore.open(url)
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.head(ADA)


def test_a_writer_that_waits_too_long_is_told(url, raw):
    """Another session holds the row that orders commits."""
    store = PostgresStore.open(url, wait_s=SHORT_S)  # the row stays held
    with raw.transaction():
        raw.execute(f"SELECT * FROM {schema_of(url)}.ledger FOR UPDATE")  # noqa: S608 - ours
        with pytest.raises(StoreBusy, match="another host"):
            write(store, add("a"))
    assert write(store, add("a")).number == 1
    store.close()


def test_a_broken_connection_is_replaced(tmp_path, raw):
    """A read, of the salt too, and a commit find another one; nobody notices."""
    store = PostgresStore.open(url_for(tmp_path, application_name="to_be_broken"))
    write(store, add("a"))
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'to_be_broken'"
    )
    raw.execute(ended)
    assert [item.record.id for item in store.page(NOTES)] == ["a"]
    raw.execute(ended)
    assert store.salt()
    raw.execute(ended)
    assert write(store, add("b")).number == 2
    store.close()


@pytest.fixture
def trips(monkeypatch):
    """What a call sends to the server, and waits for: a list of how many statements each time."""
    sent: list[int] = []
    run_together = PipelinedConnection.run_together

    def counted(self, statements):
        sent.append(len(statements))
        return run_together(self, statements)

    monkeypatch.setattr(PipelinedConnection, "run_together", counted)
    return sent


def test_a_search_within_a_key_takes_two_round_trips_at_most(url, trips):
    """Of a new process, after another host wrote, and after nobody did."""
    with Memory.open(url, embedder="static") as here, Memory.open(url, embedder="static") as there:
        for number in range(50):
            here.key("ada").add(f"Note {number} is about tea and chess.")
        for memory in (there, there, here, there):
            trips.clear()
            assert memory.key("ada").search("Which notes are about chess?")
            assert len(trips) <= 2
            here.key("ada").add("One more note, about chess.")
            there.key("bob").add("Bob plays chess too.")


def test_a_page_of_the_past_reads_no_more_than_it_is_asked_for(url, raw):
    """Rows for three items, not the whole set, which would be sorted."""
    with Memory.open(url, embedder="words") as memory:
        notes = memory.key("ada").set("notes")
        notes.add_many([f"note {number}" for number in range(2_000)])
        past = memory.store.commit_at(1 << 62)
        notes.update(notes.list(limit=1)[0].id or "", "changed")
        read = [item.text for item in notes.list(limit=3, as_of=past)]
        assert read == ["note 0", "note 1", "note 2"]
        info = memory.store.set_info(notes.inside.ref)
    assert info is not None
    raw.execute(f"VACUUM ANALYZE {schema_of(url)}.item".encode())
    for newest_first in (False, True):
        page = page_sql(newest_first=newest_first, at=True, after=False)
        explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {translated(page, schema_of(url))}".encode()
        rows = psycopg.RawCursor(raw).execute(explained, (info.number, 3, past)).fetchall()
        assert max(_rows_read(rows[0][0][0]["Plan"])) <= 10


def test_a_page_of_keys_reads_no_more_than_it_has(url, raw):
    """Not all keys past it, which would be sorted for each page; with statistics and without."""
    alike = "a" * 70  # the index holds the first 64 characters
    names = sorted([*(f"k{n:04}" for n in range(2_000)), *(f"{alike}{n}" for n in range(30))])
    with Memory.open(url, embedder="words") as memory:
        store = memory.store
        store.accept("helper", [QueuedInput(Scope("default", name), "1", 1) for name in names])
        assert [*memory.keys()] == names
        assert [*memory.keys(after="k1990")] == names[-9:]
        assert [*memory.keys(prefix="k19", after="k1")] == names[-100:]
        assert [*memory.keys(prefix=f"{alike}2")] == [n for n in names if n[70:].startswith("2")]
        assert store.keys("default", after=f"{alike}5", limit=40) == names[26:66]
        assert store.keys("default", prefix=alike, limit=3) == names[:3]
        assert store.keys("default", prefix="x") == store.keys("other") == []
        assert store.spaces() == ["default"]
    page = translated(postgres_store._KEYS, schema_of(url))
    explained = psycopg.RawCursor(raw)
    for _ in range(2):
        with raw.transaction():
            raw.execute(postgres_store.IN_ORDER)
            rows = explained.execute(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {page}".encode(),
                ("default", "k0100", 50, "", None),
            ).fetchall()
        assert max(_rows_read(rows[0][0][0]["Plan"])) <= 50 + 3 * 16
        raw.execute(f"VACUUM ANALYZE {schema_of(url)}.scope".encode())


def test_items_that_were_changed_often_are_read_by_their_last_versions(url, raw):
    """Not with all their versions, nor with all items of the set."""
    with Memory.open(url, embedder="words") as memory:
        notes, ids = memory.key("ada").set("notes"), [f"n{number}" for number in range(20)]
        notes.add_many([f"note {number}" for number in range(2_000)])
        for turn in range(10):
            notes.add_many([Item(f"{turn}", id=each) for each in ids], on_existing="update")
        assert [item and item.text for item in notes.get([*ids, "none"])] == [*["9"] * 20, None]
        info = memory.store.set_info(notes.inside.ref)
    assert info is not None
    asked = translated(BY_IDS, schema_of(url))
    for _ in range(2):
        rows = (
            psycopg.RawCursor(raw)
            .execute(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {asked.replace('$2', '$2::text[]')}".encode(),
                (info.number, ids),
            )
            .fetchall()
        )
        assert max(_rows_read(rows[0][0][0]["Plan"])) <= 20
        raw.execute(f"VACUUM ANALYZE {schema_of(url)}.item".encode())


def _rows_read(plan: dict[str, Any]) -> list[float]:
    """Return how many rows each part of a plan gave, and looked at in vain."""
    below = [rows for part in plan.get("Plans", ()) for rows in _rows_read(part)]
    return [plan["Actual Rows"], plan.get("Rows Removed by Filter", 0), *below]


def test_an_add_takes_one_round_trip_beside_the_commits_of_others(url, trips):
    with Memory.open(url, embedder="static") as here, Memory.open(url, embedder="static") as there:
        for number in range(3):
            here.key("ada").add(f"Note {number}.", id=f"{number}")
            there.key("bob").add(f"Note {number}.")
            trips.clear()
        here.key("ada").add("The last one.", id="last", idempotency_key="once")
        assert len(trips) - 1 == 1  # whether the call was made before is asked first
        trips.clear()
        here.key("ada").add_many([f"And {number} more." for number in range(20)])
        assert len(trips) == 1


def test_what_a_commit_reads_is_asked_together_beside_the_commits_of_others(url, trips):
    """Of the tree: what is there, all that the commit rests on, the commit."""

    def change_three():
        with key.batch() as batch:
            for name in "abc":
                batch.short_term.set(name, batch.short_term.get(name) + 1)

    with Memory.open(url, embedder="words") as here, Memory.open(url, embedder="words") as there:
        key, other = here.key("ada"), there.key("bob").set("notes")
        for path in ("a", "b", "c", "deep.below.it"):
            key.short_term.set(path, 0)
        for trips_at_most, call in (
            (4, lambda: key.short_term.set("a", 9)),
            (4, lambda: key.short_term.set("deep.below.it", 9)),
            (5, lambda: key.short_term.set("new", 9)),
            (6, change_three),
        ):
            for number in range(2):
                other.add(f"Note {number}.")
                key.short_term.set("beside", number)
            other.add("The last note.")
            trips.clear()
            call()
            assert len(trips) <= trips_at_most
        assert key.short_term.get("a") == 10


def append(store, *items, time=NOW, **more):
    """Commit what takes one round trip, if the store knows the set."""
    return store.commit(Batch(scope=ADA, time=time, items=items, **more))


@pytest.fixture
def hosts(url):
    """Two hosts that know a set."""
    opened = [PostgresStore.open(url) for _ in range(2)]
    for number, store in enumerate(opened):
        append(store, add(f"from host {number}"))
    yield opened
    for store in opened:
        store.close()


def version_of(store, item_id):
    return next(item for item in store.page(NOTES) if item.record.id == item_id)


def test_what_an_append_could_not_know_is_refused_or_renumbered(hosts):
    """Another host wrote meanwhile: other items, the same op, the same id."""
    here, there = hosts
    numbers = [
        append(store, add(f"{n}{store is here}")).number for n in range(3) for store in hosts
    ]
    assert numbers == [*range(3, 9)]
    taken = append(there, add("taken"), op=b"once", request=b"this")
    again = append(here, add("other"), op=b"once", request=b"this")
    assert again.adopted
    assert again.number == taken.number
    with pytest.raises(IdempotencyConflict):
        append(here, add("other"), op=b"once", request=b"that")
    with pytest.raises(DuplicateItem):
        append(here, add("taken"))
    append(there, Retire(NOTES, "taken", version=1))
    append(here, add("taken"))
    assert version_of(here, "taken").version == 2


def test_an_append_after_a_host_whose_clock_is_ahead(hosts):
    """Times do not go back; a time that was given stays what it is."""
    here, there = hosts
    ahead = NOW + 5_000_000
    assert append(there, add("ahead"), time=ahead).time == ahead
    made = append(here, add("behind"), add("given", time=NOW + 1), time=NOW + 1)
    assert made.time == ahead
    behind, given = (version_of(here, name) for name in ("behind", "given"))
    assert (behind.record.time, behind.created, behind.updated) == (ahead, ahead, ahead)
    assert (given.record.time, given.created) == (NOW + 1, ahead)
    assert here.commit_at(ahead) == made.number
    back = append(here, add("back"), time=ahead - 2 * CLOCK_STEP_US)
    assert back.time == ahead - 2 * CLOCK_STEP_US
    after = ahead - CLOCK_STEP_US // 2  # later than the last commit, if not than its own last
    assert append(there, add("after"), time=after).time == after


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_server_with_another_isolation_loses_nothing(tmp_path, isolation):
    """Two hosts write at once: what waits for the lock goes on from what the other committed."""
    option = quote(f"-c default_transaction_isolation={isolation.replace(' ', chr(92) + ' ')}")
    url = url_for(tmp_path / "memory", options=option)
    with Memory.open(url, embedder="words") as here, Memory.open(url, embedder="words") as there:

        def work(memory):
            for number in range(12):
                memory.key("ada").add(f"note {number}")
                memory.key("ada").short_term.increment("notes")

        threads = [threading.Thread(target=work, args=(m,)) for m in (here, there, here, there)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        assert here.key("ada").short_term.get("notes") == len(there.key("ada").list()) == 48


def test_an_attempt_that_arrives_too_late_comes_to_nothing(hosts, url, raw):
    """A fence is set when its answer is missed: whatever is still on its way is refused."""
    here, there = hosts
    there.close()
    append(here, add("second"))

    def one_row(query, *bindings):
        schema = sql.Identifier(schema_of(url))
        return raw.execute(sql.SQL(query).format(schema=schema), bindings).fetchone()

    host, attempt = one_row("SELECT id, attempt FROM {schema}.appender")
    assert here._appended(attempt) is not None
    assert here._appended(attempt + 1) is None
    ledger = "SELECT structure, number, version FROM {schema}.ledger"
    structure, number, version = one_row(ledger)
    with pytest.raises(psycopg.Error) as refused:
        one_row(
            "SELECT {schema}.begin_draft(%s, %s, %s, NULL, %s, %s, NULL, 1, 0, %s, %s, '100')",
            *(host, attempt + 1, structure, version, number, NOW, NOW),
        )
    assert refused.value.sqlstate == REFUSED
    assert one_row(ledger) == (structure, number, version)
    assert append(here, add("third")).number == number + 1
    here.close()
    assert one_row("SELECT fence FROM {schema}.appender") == (attempt + 1,)


@pytest.mark.parametrize("changes", [[add("new")], [add("new"), Put(("new",), 1)]])
def test_a_commit_that_the_server_cancels_too_late_is_acknowledged(hosts, monkeypatch, changes):
    """The commit was made, and what waits for the disk afterwards is cancelled: that is no refusal.

    With an error, the caller would make the call again, and add twice.
    """
    here, _ = hosts
    run_together = PipelinedConnection.run_together
    cancelled = [("SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)", ())]

    def cancel(self, statements):
        if cancelled and [sql for sql, _ in statements[-2:]] == ["COMMIT", FLUSH]:
            statements = [*statements[:-1], cancelled.pop()]
        return run_together(self, statements)

    monkeypatch.setattr(PipelinedConnection, "run_together", cancel)
    number = write(here, *changes).number if len(changes) > 1 else append(here, *changes).number
    assert not cancelled
    assert number == 3
    assert version_of(here, "new").version == 1
    assert append(here, add("next")).number == 4


def test_a_forked_child_is_refused(url):
    """The parent's connections are its own."""
    store = PostgresStore.open(url)
    write(store, add("a"))
    child = os.fork()
    if not child:
        code = 1
        try:
            store.head(ADA)
        except ForkedStore:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert write(store, add("b")).number == 2
    store.close()


TEXTS = ["", "plain", "a\0b", "\0", "\x01", "\x01\x02", "\0\x01\0", "\x02", "\x01\x03x"]


def test_texts_with_nul_come_back_and_keep_their_order():
    """PostgreSQL's text holds every character but that one."""
    assert [original(storable(text)) for text in TEXTS] == TEXTS
    assert sorted(TEXTS) == [original(text) for text in sorted(map(storable, TEXTS))]
    assert not any("\0" in storable(text) for text in TEXTS)


def test_texts_with_nul_are_kept(url):
    with Memory.open(url, embedder=Letters()) as memory:
        key = memory.key("a\0b")
        for number, text in enumerate(TEXTS[1:]):
            key.add(text, id=f"{number}{text}", speaker=text)
        key.short_term.set(("x\0", "\x01"), "\0")
        assert {item.id: item.text for item in key.list()} == {
            f"{number}{text}": text for number, text in enumerate(TEXTS[1:])
        }
        assert key.short_term.to_dict() == {"x\0": {"\x01": "\0"}}
        assert list(memory.keys()) == ["a\0b"]


def test_what_is_blank_is_the_same_everywhere(url):
    """The function of the schema agrees with the one that every other store asks."""
    from alveus.store.records import has_meaning

    texts = ["", " ", "x", "\t\n\x0b\f\r", "\x1c\x1f", "\x85\xa0", "\u2003\u3000", "\u200b"]
    metadata = [
        "{}", '{"caption":""}', '{"caption":"x"}', '{"caption":[]}', '{"caption":["a","b"]}',
        '{"caption":["a",1]}', '{"caption":7}', '{"caption":{"a":1}}', '{"x":"caption"}',
    ]  # fmt: skip
    store = PostgresStore.open(url)
    with store.reader() as db:
        for text in texts:
            for told in metadata:
                found = db.execute("SELECT is_meant(?, ?)", (text, told)).get
                assert found == has_meaning(text, told), (text, told)
    store.close()


def test_words_of_sqlite_become_words_of_postgresql():
    """One statement of each kind."""
    assert translated("SELECT 1 FROM item WHERE row = ? AND set_id = ?", "s") == (
        "SELECT 1 FROM s.item WHERE row = $1 AND set_id = $2"
    )
    assert translated("UPDATE scope SET floor = max(floor, ?2) WHERE id = ?1", "s") == (
        "UPDATE s.scope SET floor = greatest(floor, $2) WHERE id = $1"
    )
    assert translated("SELECT max(n) FROM journal WHERE scope IS NULL AND key IS ?", "s") == (
        "SELECT max(n) FROM s.journal WHERE scope IS NULL "
        "AND (key_digest = s.digest($1) AND key = $1)"
    )
    assert translated("x IN (SELECT value FROM carray(?)) AND a IS NOT NULL", "s") == (
        "x = ANY($1) AND a IS NOT NULL"
    )


def test_forgetting_waits_for_old_transactions(url, raw):
    """A receipt is complete once nobody can see the rows, and they are gone from the tables."""
    store = PostgresStore.open(url)
    with Memory.open(url, embedder=Letters()) as memory:
        memory.key("ada").add("The canary sings.", id="a")
        raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        raw.execute(f"SELECT count(*) FROM {schema_of(url)}.item")  # noqa: S608 - ours
        memory.key("ada").forget()
        waits = store.scrub(now=NOW)
        assert any("old transaction" in words for words in waits)
        raw.execute("COMMIT")
        assert store.scrub(now=NOW) == []
        assert [receipt.state for receipt in memory.receipts()] == ["scrubbed"]
    store.close()


def test_forgetting_waits_for_nobody_in_another_database(url, raw):
    """What they see is not in the tables of this one."""
    place = urlsplit(server())
    store = PostgresStore.open(url)
    with (
        Memory.open(url, embedder=Letters()) as memory,
        psycopg.connect(urlunsplit(place._replace(path="/postgres")), autocommit=True) as other,
    ):
        memory.key("ada").add("The canary sings.", id="a")
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT count(*) FROM pg_class")
        assert memory.key("ada").forget().state == "scrubbed"
        assert store.scrub(now=NOW) == []
    store.close()


def check_log_is_named(
    memory: Memory, receipt: str, canaries: Sequence[str], own: OwnServer
) -> None:
    """See that the receipt names the log for as long as a segment of it holds a canary."""
    left = True
    while left:  # segments are removed, or renamed and written again
        with psycopg.connect(own.url(), autocommit=True) as raw:
            raw.execute("SELECT pg_logical_emit_message(TRUE, '', repeat('x', 99999))")
            raw.execute("SELECT pg_switch_wal()")
            raw.execute("CHECKPOINT")
            raw.execute("SELECT pg_logical_emit_message(TRUE, '', 'x')")
            (written,) = raw.execute("SELECT pg_walfile_name(pg_current_wal_lsn())")
        segments = sorted((own.folder / "data" / "pg_wal").glob("0*"))
        left = scan(canaries, *(each for each in segments if each.name not in written))
        again = memory.receipt(receipt).out_of_reach
        assert not left or "write-ahead log" in {each.what for each in again}


@pytest.mark.server
def test_what_was_forgotten_is_in_no_file_of_the_server():
    """Not in a table, an index, a TOAST table or a sample; the write-ahead log is named instead."""
    own = OwnServer()
    try:
        places = [own.folder / "data" / name for name in ("base", "global", "pg_stat")]
        texts = [f"canary-{number:04}-{'sings' * 40}" for number in range(60)]
        long = "canary-long-" + os.urandom(6_000).hex()
        with Memory.open(own.url(), embedder=Letters()) as memory:
            key = memory.key("canary-key-of-ada")
            for number, text in enumerate(texts):
                key.add(text, id=f"canary-id-{number:04}", metadata={"canary-metadata": number})
            key.add(long, id="long")
            key.short_term.set("canary-name", "canary-value")
            memory.key("eve").add("stays")
            canaries = [*texts[:3], long[-40:], "canary-key-of-ada", "canary-value"]
            with psycopg.connect(own.url(), autocommit=True) as raw:
                raw.execute("VACUUM (ANALYZE)")
                raw.execute("CHECKPOINT")
                assert set(scan(canaries, *places)) == set(canaries)
                receipt = key.forget()
                assert receipt.state == "scrubbed", receipt.blocked_by
                raw.execute("CHECKPOINT")
            assert scan([*canaries, "canary"], *places) == {}
            log = {each.what: each for each in receipt.out_of_reach}["write-ahead log"]
            assert "segments" in log.note
            assert "checkpoints" in log.until
            assert log.until in str(receipt.to_json()["out_of_reach"])
            check_log_is_named(memory, receipt.id, canaries, own)
    finally:
        own.remove()


def test_the_compose_file_starts_a_server_that_keeps_its_data():
    """Of the usual kind: a volume, a health check, pgvector, closed to other hosts."""
    text = (ROOT / "examples" / "postgres" / "compose.yaml").read_text(encoding="utf-8")
    made = yaml.safe_load(text)
    (service,) = made["services"].values()
    assert service["image"].startswith("pgvector/pgvector:pg")
    assert [place.split(":")[0] for place in service["volumes"]] == list(made["volumes"])
    assert "pg_isready" in service["healthcheck"]["test"][1]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    settings = [each for each in service["command"] if "=" in each]
    with psycopg.connect(server()) as raw:
        for setting in settings:
            name = setting.split("=")[0]
            assert raw.execute("SELECT 1 FROM pg_settings WHERE name = %s", (name,)).fetchone()


def test_a_url_without_a_host_is_of_a_socket(url):
    """As libpq's own: the host, or its default, comes from the parameters."""
    host, database = re.search("host=([^&]+)", url), urlsplit(url).path.lstrip("/")
    assert host is not None
    schema = ServerLocation.of(url).schema
    short = f"postgresql:///{database}?user=postgres&host={host[1]}&schema={schema}"
    assert ServerLocation.of(short).conninfo.startswith(f"postgresql:///{database}?")
    with Memory.open(short, embedder="words") as memory:
        memory.key("ada").add("Tea.")
    with Memory.open(url, embedder="words") as memory:
        assert len(memory.key("ada").list()) == 1


def test_what_the_url_says_of_the_connection_stands():
    """The rest is set so that a server that vanished is noticed."""
    place = ServerLocation.of("postgresql://host/db?keepalives_idle=99&schema=s")
    assert "keepalives_idle=99" in place.conninfo
    assert "keepalives_idle" not in place.defaults
    assert place.defaults["keepalives_interval"] == 5
    assert place.display_url == "postgresql://host/db?keepalives_idle=99&schema=s"


def spoken(number: int) -> list[tuple[str, dict[str, Any]]]:
    """The turns of a made-up conversation, as long as one of LoCoMo: 19 sessions, 590 turns."""
    dice = random.Random(number)
    words = [
        f"{a}{b}" for a in ("ka", "lo", "mi", "nu", "re") for b in ("tas", "vin", "dor", "sel")
    ]
    names = [f"Ann{number}", f"Ben{number}"]
    turns: list[tuple[str, dict[str, Any]]] = []
    for turn in range(590):
        text = " ".join(dice.choice([*words, "I", "always", "tea", "chess"]) for _ in range(14))
        day = datetime(2025, 1, 1 + turn // 31, 9, turn % 31, tzinfo=UTC)
        speaker = names[turn % 2]
        session = f"s{turn // 31}"
        turns.append(
            (text + dice.choice("?.."), {"speaker": speaker, "session": session, "time": day})
        )
    return turns


@pytest.mark.server
def test_searches_say_the_same_on_every_store(tmp_path):
    """Hit by hit and score by score, for ten conversations; filters and drafted items too."""
    today = datetime(2025, 3, 1, tzinfo=UTC)
    memories = [
        Memory.open(place, embedder="static", clock=lambda: today)
        for place in (":memory:", tmp_path / "file", url_for(tmp_path / "server"))
    ]
    for number in range(10):
        turns = spoken(number)
        for memory in memories:
            with memory.key(f"conversation {number}").batch() as batch:
                for place, (text, fields) in enumerate(turns):
                    batch.add(text, id=f"{number}-{place}", **fields)
    dice = random.Random(7)
    for _ in range(60):
        number = dice.randrange(10)
        text, fields = dice.choice(spoken(number))
        part = " ".join(dice.sample(text.split(), 5))
        query = dice.choice([part, f"What did {fields['speaker']} say about {part}?"])
        where = dice.choice([None, {"$speaker": fields["speaker"]}])
        found = [
            [
                (hit.item.id, hit.score)
                for hit in memory.key(f"conversation {number}").search(query, where=where, limit=20)
            ]
            for memory in memories
        ]
        for other in found[1:]:
            assert [one for one, _ in other] == [one for one, _ in found[0]]
            assert [score for _, score in other] == pytest.approx(
                [score for _, score in found[0]], abs=1e-6
            )
    for memory in memories:
        memory.close()


# --- statements that are sent together ------------------------------------------------------------


@pytest.fixture
def pipelined():
    with PipelinedConnection.connect(server(), autocommit=True) as connection:
        yield connection


def test_more_is_sent_and_answered_at_once_than_a_socket_holds(pipelined):
    """Neither side waits for the other to read first; rows come in the order of statements."""
    texts = [f"{number}" * 50_000 for number in range(200)]
    found = pipelined.run_together([("SELECT $1::text, 7", (text,)) for text in texts])
    assert [rows.get for rows in found] == [(text, 7) for text in texts]


def test_a_refused_statement_leaves_a_connection_of_use(pipelined):
    """What was to be prepared after it was not; a later call does not rely on it."""
    for _ in range(2 * PREPARE_AFTER):
        with pytest.raises(psycopg.errors.DivisionByZero):
            pipelined.run_together([("SELECT 1 / $1::int", (0,)), ("SELECT $1::int", (1,))])
    for number in range(2 * PREPARE_AFTER):
        one, two = pipelined.run_together(
            [("SELECT 1 / $1::int", (1,)), ("SELECT $1::int", (number,))]
        )
        assert (one.get, two.get) == (1, number)
    named = [name for (name,) in pipelined.execute("SELECT name FROM pg_prepared_statements")]
    assert len([name for name in named if name.startswith("alveus_")]) >= 2


def test_a_connection_that_the_server_ends_counts_as_lost(pipelined):
    """The statements after it are not answered, and the connection is closed."""
    end = "SELECT pg_terminate_backend(pg_backend_pid())"
    with pytest.raises(psycopg.OperationalError) as caught:
        pipelined.run_together([("SELECT 1", ()), (end, ()), ("SELECT 2", ())])
    assert is_lost(caught.value)
    assert pipelined.closed


def test_a_commit_that_fails_after_the_last_statement_is_reported(pipelined):
    """What is checked or cancelled at the end of a transaction has a result of its own."""
    pipelined.execute("CREATE TEMP TABLE once (x int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    statements = [("INSERT INTO once VALUES ($1)", (1,))] * 2
    with pytest.raises(psycopg.errors.UniqueViolation):
        pipelined.run_together(statements)
    assert pipelined.run_together([("SELECT count(*) FROM once", ())])[0].get == 0
