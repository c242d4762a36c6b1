"""The schema in PostgreSQL: who migrates, by a made-up step, and what older programs may do."""

from __future__ import annotations

import re

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

from alveus.cli import alveus
from alveus.errors import StoreBusy, StoreTooNew, StoreTooOld, Unavailable
from alveus.store.postgres import PostgresStore, schema
from alveus.store.postgres.connection import ServerLocation
from alveus.store.postgres.schema import SCHEMA
from alveus.testing import NOTES, add, write
from alveus.transfer import migrate
from postgres_server import server, url_for, user
from waiting import SHORT_S

CATALOG = {
    "relations": """
        SELECT relname, relkind, relpersistence, reloptions, relrowsecurity, relforcerowsecurity,
            relacl::text, obj_description(c.oid, 'pg_class')
        FROM pg_class c WHERE relnamespace = %(schema)s::regnamespace""",
    "columns": """
        SELECT c.relname, row_number() OVER (PARTITION BY c.oid ORDER BY attnum), attname,
            format_type(atttypid, atttypmod), collname, attnotnull, attidentity, attgenerated,
            pg_get_expr(adbin, adrelid), attstorage, attcompression, attstattarget, attacl::text,
            col_description(c.oid, attnum)
        FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
        LEFT JOIN pg_collation k ON k.oid = attcollation
        WHERE relnamespace = %(schema)s::regnamespace AND attnum > 0 AND NOT attisdropped""",
    "indexes": """
        SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid), indisunique, indisprimary,
            indisvalid FROM pg_index JOIN pg_class c ON c.oid = indexrelid
        WHERE relnamespace = %(schema)s::regnamespace""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype, convalidated,
            pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = %(schema)s::regnamespace""",
    "functions": """
        SELECT proname, pg_get_functiondef(oid), proacl::text, obj_description(oid, 'pg_proc')
        FROM pg_proc WHERE pronamespace = %(schema)s::regnamespace AND prokind = 'f'""",
    "triggers": """
        SELECT tgrelid::regclass::text, pg_get_triggerdef(t.oid), tgenabled,
            obj_description(t.oid, 'pg_trigger')
        FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
        WHERE relnamespace = %(schema)s::regnamespace AND NOT tgisinternal""",
    "policies": """
        SELECT tablename, policyname, permissive, roles::text, cmd, qual, with_check
        FROM pg_policies WHERE schemaname = %(schema)s::name::text""",
    "types": """
        SELECT typname, typtype FROM pg_type
        WHERE typnamespace = %(schema)s::regnamespace AND typtype IN ('e', 'd', 'r')""",
    "views": "SELECT viewname, definition FROM pg_views WHERE schemaname = %(schema)s::name::text",
}


@pytest.fixture
def url(tmp_path):
    return url_for(tmp_path / "memory")


@pytest.fixture
def raw():
    with psycopg.connect(server(), autocommit=True) as connection:
        yield connection


def schema_of(url):
    return ServerLocation.of(url).schema


def shape(raw, name):
    """Return all that is declared in a schema, as if it were named ``alveus``."""
    found = {}
    for kind, query in CATALOG.items():
        rows = raw.execute(query, {"schema": name}).fetchall()
        found[kind] = sorted(re.sub(rf"\b{name}\b", "alveus", repr(row)) for row in rows)
    return found


@pytest.fixture
def next_migration(monkeypatch, tmp_path):
    """A migration to the schema after the newest, which this code is made to know."""

    def make(*, least=SCHEMA, script="ALTER TABLE alveus.note ADD COLUMN more text;"):
        folder = tmp_path / "migrations"
        folder.mkdir(exist_ok=True)
        text = f"-- least: {least}\n{script}" if least else script
        (folder / f"{SCHEMA + 1:04}_made_up.sql").write_text(text, encoding="utf-8")
        monkeypatch.setattr(schema, "MIGRATIONS", folder)
        monkeypatch.setattr(schema, "SCHEMA", SCHEMA + 1)

    return make


def test_the_planner_keeps_no_sample_of_a_text(url, raw):
    """A sample would outlive its row; a column that a migration adds has to say so too."""
    PostgresStore.open(url).close()
    found = raw.execute(
        """SELECT attrelid::regclass::text, attname FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid AND relkind = 'r'
        WHERE relnamespace = %s::regnamespace AND attnum > 0
        AND atttypid IN ('text'::regtype, 'bytea'::regtype) AND attstattarget IS DISTINCT FROM 0""",
        (schema_of(url),),
    )
    assert found.fetchall() == []


def test_a_migration_says_what_a_program_must_know(url, raw, next_migration):
    """One that forgets it is refused, and changes nothing."""
    PostgresStore.open(url).close()
    before = shape(raw, schema_of(url))
    next_migration(least=None)
    with pytest.raises(ValueError, match=f"the script of schema {SCHEMA + 1} does not begin"):
        PostgresStore.open(url)
    assert shape(raw, schema_of(url)) == before


def test_the_owner_migrates_as_it_opens(url, raw, next_migration):
    """What is there stays; only what is missing is done."""
    store = PostgresStore.open(url)
    write(store, add("a"))
    store.close()
    next_migration()
    for _ in range(2):
        store = PostgresStore.open(url)
        assert store.stats().details["schema"] == SCHEMA + 1
        assert [item.record.id for item in store.page(NOTES)] == ["a"]
        store.close()


def test_the_command_line_migrates(url, next_migration):
    shell = CliRunner()
    PostgresStore.open(url).close()
    next_migration()
    result = shell.invoke(alveus, ["upgrade", "--db", url, "--json"])
    assert result.exit_code == 0, result.output
    assert result.stdout == f'{{"schema": {SCHEMA + 1}}}\n'


def test_a_program_that_is_open_goes_on_where_a_migration_lets_it(url, next_migration):
    store = PostgresStore.open(url)
    next_migration()
    PostgresStore.open(url).close()
    assert write(store, add("a")).number == 1
    assert [item.record.id for item in store.page(NOTES)] == ["a"]
    store.close()


def test_a_program_that_knows_too_little_is_refused(url, raw, monkeypatch, next_migration):
    """Open already or not, it commits nothing."""
    open_before = PostgresStore.open(url)
    next_migration(least=SCHEMA + 1)
    PostgresStore.open(url).close()
    monkeypatch.undo()
    with pytest.raises(StoreTooNew) as caught:
        write(open_before, add("a"))
    assert (caught.value.found, caught.value.known) == (SCHEMA + 1, SCHEMA)
    open_before.close()
    for read_only in (False, True):
        with pytest.raises(StoreTooNew, match="upgrade"):
            PostgresStore.open(url, read_only=read_only)
    found = raw.execute(sql.SQL("SELECT count(*) FROM {}.item").format(ident(url))).fetchone()
    assert found == (0,)


def test_a_program_that_knows_enough_opens_a_newer_schema(url, monkeypatch, next_migration):
    PostgresStore.open(url).close()
    next_migration()
    PostgresStore.open(url).close()
    monkeypatch.undo()
    store = PostgresStore.open(url)
    assert write(store, add("a")).number == 1
    store.close()


def test_a_copy_is_of_a_schema_that_the_program_knows_whole(
    url, tmp_path, monkeypatch, next_migration
):
    """A column of a newer one would be left out without a word."""
    PostgresStore.open(url).close()
    next_migration()
    PostgresStore.open(url).close()
    monkeypatch.undo()
    with pytest.raises(StoreTooNew):
        migrate(url, tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy.db*"))


def test_who_does_not_own_the_tables_is_told_who_does(url, raw, next_migration):
    """So is a handle that only reads: nothing is changed by it."""
    PostgresStore.open(url).close()
    name = user(raw, "guest")
    for rights in ("USAGE ON SCHEMA {0}", "SELECT, UPDATE ON ALL TABLES IN SCHEMA {0}"):
        grant = sql.SQL("GRANT " + rights + " TO {1}")
        raw.execute(grant.format(ident(url), sql.Identifier(name)))
    next_migration()
    for place, read_only in ((f"{url}&user={name}", False), (url, True)):
        with pytest.raises(StoreTooOld, match="alveus upgrade") as caught:
            PostgresStore.open(place, read_only=read_only)
        assert (caught.value.found, caught.value.needed) == (SCHEMA, SCHEMA + 1)
        assert caught.value.owner == raw.info.user
    found = raw.execute(sql.SQL("SELECT schema FROM {}.ledger").format(ident(url)))
    assert found.fetchone() == (SCHEMA,)


def test_a_migration_that_fails_leaves_all_as_it_was(url, raw, next_migration):
    """Half a schema is never there."""
    PostgresStore.open(url).close()
    before = shape(raw, schema_of(url))
    next_migration(script="ALTER TABLE alveus.note ADD COLUMN more text; SELECT 1 / 0;")
    with pytest.raises(psycopg.errors.DivisionByZero):
        PostgresStore.open(url)
    assert shape(raw, schema_of(url)) == before


def test_a_migration_that_is_cut_off_is_made_by_the_next_opening(url, raw, next_migration):
    """The server ends the connection in its midst: nothing of it is there, and all is later."""
    store = PostgresStore.open(url)
    write(store, add("a"))
    store.close()
    before = shape(raw, schema_of(url))
    added = "ALTER TABLE alveus.note ADD COLUMN more text;"
    next_migration(script=f"{added} SELECT pg_terminate_backend(pg_backend_pid());")
    with pytest.raises(Unavailable):
        PostgresStore.open(url)
    assert shape(raw, schema_of(url)) == before
    next_migration()
    store = PostgresStore.open(url)
    assert store.stats().details["schema"] == SCHEMA + 1
    assert [item.record.id for item in store.page(NOTES)] == ["a"]
    store.close()


def test_a_migration_waits_its_turn(url, raw, next_migration):
    """Behind a reader it waits no longer than it may; readers are not kept waiting behind it."""
    PostgresStore.open(url).close()
    next_migration()
    with raw.transaction():
        raw.execute(sql.SQL("SELECT * FROM {}.note").format(ident(url)))
        with pytest.raises(StoreBusy):
            PostgresStore.open(url, wait_s=SHORT_S)
    PostgresStore.open(url).close()


def ident(url):
    return sql.Identifier(schema_of(url))
