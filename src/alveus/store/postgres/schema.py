"""The schema of a store in PostgreSQL: how it is made, checked and migrated.

The table `ledger` holds two numbers: its schema, and the least schema that a program must know to
use the tables. A migration names the latter in its first line, ``-- least: N``, so that it stops an
older alveus only where it has to.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from alveus.errors import NotAStore, StoreTooNew, StoreTooOld
from alveus.store.postgres.connection import BEGIN, PostgresConnection
from alveus.store.postgres.dialect import for_schema
from alveus.store.postgres.location import ServerLocation
from alveus.store.sql.connection import first, migrations

SCHEMA = 1
"""The newest schema this code knows, and the one it needs."""

WHOLE = Path(__file__).with_name("schema.sql")
"""The script of the newest schema."""

LEAST = 1
"""The least schema that a program must know to use the newest one."""

MIGRATIONS = Path(__file__).with_name("migrations")
"""The folder of the scripts that lead to it; see `alveus.store.sql.connection.migrations`."""

_OWNER = """
    SELECT pg_has_role(relowner, 'USAGE'), pg_get_userbyid(relowner) FROM pg_catalog.pg_class
    JOIN pg_catalog.pg_namespace AS space ON space.oid = relnamespace
    WHERE nspname = ? AND relname = 'ledger'
"""

_TURN = "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))"

_MIGRATED = """
    UPDATE ledger SET schema = ?, least = max(least, ?), version = version + 1,
        structure = structure + 1
"""

_LEAST = re.compile(r"-- least: (\d+)\n")


def prepare(
    db: PostgresConnection, server: ServerLocation, *, read_only: bool, wait_s: float
) -> None:
    """Have the tables there, in schema `SCHEMA` or a newer one that this program may use.

    Tables that are not there are made, and older ones migrated, if the store is to be written to;
    only the owner of the tables migrates.

    Raises:
        NotAStore: There are no tables, and it is to be opened read-only.
        StoreBusy: Somebody used the tables for longer than *wait_s*.
        StoreTooNew: This program does not know enough of the schema.
        StoreTooOld: The schema is older, and it is not this user, or handle, that migrates it.
    """
    owner = first(db, _OWNER, server.schema)
    if owner is None:
        if read_only:
            raise NotAStore(
                server.display_url,
                f"has no schema {server.schema!r} of alveus; open it writable once",
            )
        _create(db, server.schema)
        return
    found, least = first(db, "SELECT schema, least FROM ledger")
    check_least(server, found, least)
    if found >= SCHEMA:
        return
    is_owner, name = owner
    if read_only or not is_owner:
        raise StoreTooOld(server.display_url, found=found, needed=SCHEMA, owner=name)
    for number, script in migrations(MIGRATIONS, after=found).items():
        _apply(db, server.schema, number, script, wait_s=wait_s)


def check_least(server: ServerLocation, version: int, least: int) -> None:
    """Refuse a schema that only newer programs may use."""
    if least > SCHEMA:
        raise StoreTooNew(server.display_url, found=version, known=SCHEMA)


def _create(db: PostgresConnection, schema: str) -> None:
    """Make the tables in one transaction, unless another host just did."""
    db.execute(BEGIN)
    try:
        db.execute(_TURN, (_lock_name(schema),))
        if first(db, _OWNER, schema) is None:
            db.script(for_schema(WHOLE.read_text(encoding="utf-8"), schema))
            db.execute(
                "INSERT INTO ledger (version, schema, least) VALUES (0, ?, ?)", (SCHEMA, LEAST)
            )
            db.execute("INSERT INTO note (name, text) VALUES ('salt', ?)", (os.urandom(16).hex(),))
    except BaseException:
        db.roll_back("ROLLBACK")
        raise
    db.execute("COMMIT")
    db.settle()


def _apply(db: PostgresConnection, schema: str, number: int, script: str, *, wait_s: float) -> None:
    """Migrate to schema *number* in one transaction, unless another host just did.

    It locks the row of `ledger` first, as every writer does, so that neither waits in a circle.
    """
    db.execute(BEGIN)
    try:
        db.execute(f"SET LOCAL lock_timeout = {max(1, round(wait_s * 1000))}")
        db.execute(_TURN, (_lock_name(schema),))
        if first(db, "SELECT schema FROM ledger FOR UPDATE") < number:
            db.script(for_schema(script, schema))
            db.execute(_MIGRATED, (number, _least(number, script)))
            db.settle()
    except BaseException:
        db.roll_back("ROLLBACK")
        raise
    db.execute("COMMIT")
    db.settle()


def _least(number: int, script: str) -> int:
    """Return the schema that a migration names in its first line."""
    found = _LEAST.match(script)
    if found is None:
        raise ValueError(f"the script of schema {number} does not begin with '-- least: N'")
    return int(found[1])


def _lock_name(schema: str) -> str:
    return f"alveus {schema}"
