"""Files as earlier versions of alveus made them."""

from __future__ import annotations

from pathlib import Path

import apsw

from alveus.store.sqlite.checksums import MARK
from alveus.store.sqlite.connection import APPLICATION_ID, migrations, sql


def as_schema_1(made: Path, path: Path) -> None:
    """Write to *path* what a store of schema 1 would hold of what the store *made* does."""
    db = apsw.Connection(str(path))
    db.execute(sql(migrations()[1]))
    db.execute("ATTACH ? AS made", (str(made),))
    tables = [
        name
        for (name,) in db.execute(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
    ]
    with db:
        for table in tables:
            names = ", ".join(row[1] for row in db.execute(f"PRAGMA main.table_xinfo({table})"))
            db.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM made.{table}")  # noqa: S608 - ours
    db.execute("DELETE FROM note WHERE name = ?", (MARK,))
    db.execute("DETACH made")
    db.pragma("application_id", APPLICATION_ID)
    db.pragma("user_version", 1)
    db.close()
