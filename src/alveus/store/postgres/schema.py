"""The schema of a store in PostgreSQL: how it is made, checked and migrated.

`schema.sql` is the whole of the newest schema. `migrations/NNNN_name.sql` leads from the schema
before to number NNNN; its first line, ``-- least: N``, names the least schema that a program must
know to go on working after it. The table `ledger` holds both numbers, so a migration does not stop
an older alveus unless it has to.
"""

from __future__ import annotations

import functools
import os
import re
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from alveus.errors import NotAStore, StoreTooNew, StoreTooOld
from alveus.store.postgres.connection import BEGIN, PostgresConnection
from alveus.store.postgres.location import ServerLocation
from alveus.store.sql.connection import first

SCHEMA = 6
"""The newest schema this code knows, and the one it needs."""

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


class Migration(NamedTuple):
    """A script that leads to schema *number*; programs that know schema *least* may go on."""

    number: int
    least: int
    script: str


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
    for migration in migrations():
        if migration.number > found:
            _apply(db, server.schema, migration, wait_s=wait_s)


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
            db.script(_of(schema, _file("schema.sql").read_text(encoding="utf-8")))
            least = max(migration.least for migration in migrations())
            db.execute(
                "INSERT INTO ledger (version, schema, least) VALUES (0, ?, ?)", (SCHEMA, least)
            )
            db.execute("INSERT INTO note (name, text) VALUES ('salt', ?)", (os.urandom(16).hex(),))
    except BaseException:
        db.roll_back("ROLLBACK")
        raise
    db.execute("COMMIT")
    db.settle()


def _apply(db: PostgresConnection, schema: str, migration: Migration, *, wait_s: float) -> None:
    """Do one migration in one transaction, unless another host just did.

    It locks the row of `ledger` first, as every writer does, so that neither waits in a circle.
    """
    db.execute(BEGIN)
    try:
        db.execute(f"SET LOCAL lock_timeout = {max(1, round(wait_s * 1000))}")
        db.execute(_TURN, (_lock_name(schema),))
        if first(db, "SELECT schema FROM ledger FOR UPDATE") < migration.number:
            db.script(_of(schema, migration.script))
            db.execute(_MIGRATED, (migration.number, migration.least))
            db.settle()
    except BaseException:
        db.roll_back("ROLLBACK")
        raise
    db.execute("COMMIT")
    db.settle()


@functools.cache
def migrations() -> list[Migration]:
    """Return every migration, in order; the first makes a schema from nothing."""
    files = sorted(_file("migrations").iterdir(), key=lambda file: file.name)
    found = ((file.name, file.read_text(encoding="utf-8")) for file in files)
    return [
        Migration(int(name.split("_", 1)[0]), _least(name, script), script)
        for name, script in found
        if name.endswith(".sql")
    ]


def _least(name: str, script: str) -> int:
    said = _LEAST.match(script)
    if said is None:
        raise ValueError(f"migrations/{name} does not begin with '-- least: N'")
    return int(said[1])


def _file(name: str) -> Traversable:
    return resources.files(__package__).joinpath(name)


def _of(schema: str, script: str) -> str:
    """Return a script for another schema than `alveus`."""
    return re.sub(r"\balveus(?=[.;])", schema, script)


def _lock_name(schema: str) -> str:
    return f"alveus {schema}"
