"""The schema of a store file: how it is made, checked and migrated.

The head of the file holds the number of its schema (``user_version``), and `APPLICATION_ID`.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from alveus.errors import NotAStore, StoreDamaged, StoreTooNew
from alveus.store.sql.connection import migrations
from alveus.store.sqlite import checksums

APPLICATION_ID = 0x616C7665
"""``alve``: marks an alveus store among SQLite files."""

SCHEMA = 1
"""The newest schema that this code knows, and the only one that it uses."""

WHOLE = Path(__file__).with_name("schema.sql")
"""The script of the newest schema.

It is found by its path, because importing `importlib.resources` takes longer than opening a file.
"""

MIGRATIONS = Path(__file__).with_name("migrations")
"""The folder of the migration scripts; see `alveus.store.sql.connection.migrations`."""


def check(connection: apsw.Connection, path: Path) -> int:
    """Return the schema number of an open file, or 0 if the file is empty.

    Raises:
        NotAStore: The file is an SQLite file, but not a store.
        StoreDamaged: The head of the file is wrong, or the end of the file is missing.
        StoreTooNew: The schema of the file is newer than `SCHEMA`.
        Unsupported: See `checksums.check`.
    """
    try:
        found = connection.pragma("user_version")
        empty = not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except apsw.NotADBError as error:
        if checksums.is_ours(connection, APPLICATION_ID):
            raise StoreDamaged(path, f"its header cannot be read ({error})") from error
        raise
    if empty and found == 0:
        return 0
    if connection.pragma("application_id") != APPLICATION_ID:
        raise NotAStore(path, "is an SQLite file, but not an alveus store; pass another path")
    if not isinstance(found, int) or found > SCHEMA:
        raise StoreTooNew(path, found=int(found or 0), known=SCHEMA)
    checksums.check(connection, path)
    return found


def migrate(connection: apsw.Connection, *, from_version: int) -> None:
    """Migrate an open file from schema *from_version* to `SCHEMA`, in one transaction.

    An empty file, of schema 0, gets the newest schema at once. After a kill at any moment, the file
    has its old schema, and the next opening migrates it.
    """
    with connection:
        if from_version == 0:
            connection.execute(WHOLE.read_text(encoding="utf-8"))
        else:
            for script in migrations(MIGRATIONS, after=from_version).values():
                connection.execute(script)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA)
