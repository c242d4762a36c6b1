"""A migration that is made up for tests, and files of the schema before it.

Nothing was released yet, so no store has a migration. Tests of what migrates take this one: in the
schema before it, items have a `weight` of twice their importance, and sets another column as well.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from alveus.store.sqlite import schema
from alveus.store.sqlite.connection import connect

BEFORE = schema.SCHEMA
AFTER = BEFORE + 1

STEP = """
ALTER TABLE item RENAME COLUMN weight TO importance;
UPDATE item SET importance = importance / 2;
ALTER TABLE memory_set RENAME COLUMN live TO items;
"""

_BACK = """
ALTER TABLE memory_set RENAME COLUMN items TO live;
UPDATE item SET importance = importance * 2;
ALTER TABLE item RENAME COLUMN importance TO weight;
"""


def add_step(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str = STEP) -> None:
    """Have this process know schema `AFTER`, to which *script* leads."""
    migrations = folder / "migrations"
    migrations.mkdir(exist_ok=True)
    (migrations / f"{AFTER:04}_made_up.sql").write_text(script, encoding="utf-8")
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    monkeypatch.setattr(schema, "SCHEMA", AFTER)


def as_before(path: Path) -> None:
    """Bring the store at *path* back to the schema before the step."""
    with closing(connect(path)) as db:
        with db:
            db.execute(_BACK)
            db.pragma("user_version", BEFORE)
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
