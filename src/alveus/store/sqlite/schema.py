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
"""``alve``: tells an alveus store from other SQLite files."""

SCHEMA = 1
"""The newest schema this code knows, and the one it needs."""

WHOLE = Path(__file__).with_name("schema.sql")
"""The script of the newest schema. `importlib.resources` takes longer to import than a file to
open."""

MIGRATIONS = Path(__file__).with_name("migrations")
"""The folder of the scripts that lead to it; see `alveus.store.sql.connection.migrations`."""


def check(connection: apsw.Connection, path: Path) -> int:
    """Return the schema number of an open file; 0: empty.

    Raises:
        NotAStore: It is some other SQLite file.
        StoreDamaged: Its head is wrong.
        StoreTooNew: Its schema is newer than `SCHEMA`.
    """
    try:
        found = connection.pragma("user_version")
        empty = not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except apsw.NotADBError as error:
        if checksums.is_ours(connection, APPLICATION_ID):
            raise StoreDamaged(path, f"its head cannot be read ({error})") from error
        raise
    if empty and found == 0:
        return 0
    if connection.pragma("application_id") != APPLICATION_ID:
        raise NotAStore(path, "is an SQLite file, but not an alveus store; choose another path")
    if not isinstance(found, int) or found > SCHEMA:
        raise StoreTooNew(path, found=int(found or 0), known=SCHEMA)
    checksums.check(connection, path)
    return found


def migrate(connection: apsw.Connection, *, from_version: int) -> None:
    """Bring an open file from schema *from_version* to `SCHEMA`, in one transaction.

    An empty file, of schema 0, gets the whole schema at once. Killed at any moment, the file has
    the schema that it had, and the next opening migrates it.
    """
    with connection:
        if from_version == 0:
            connection.execute(WHOLE.read_text(encoding="utf-8"))
        else:
            for script in migrations(MIGRATIONS, after=from_version).values():
                connection.execute(script)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA)
