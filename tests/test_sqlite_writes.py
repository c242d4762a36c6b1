"""What a connection to SQLite writes, and what it refuses."""

from __future__ import annotations

import gc
import sys
from typing import Any

import apsw
import pytest

from alveus.store.sqlite.connection import SqliteConnection

SCHEMA = "CREATE TABLE pair (a, b UNIQUE)"
INSERT = "INSERT INTO pair VALUES (?, ?)"
MOVE = "UPDATE pair SET a = ?2 WHERE b = ?1"
ALL = "SELECT rowid, a, typeof(a), b, typeof(b) FROM pair ORDER BY rowid"


def opened() -> SqliteConnection:
    db = SqliteConnection(":memory:")
    db.execute(SCHEMA)
    return db


def test_a_statement_goes_on_after_a_row_was_refused():
    """It is prepared once, and as good as new."""
    db = opened()
    db.write((INSERT, [(1, "x"), (2, "y")]))
    for _ in range(3):
        with pytest.raises(db.taken, match=r"UNIQUE constraint failed: pair\.b") as error:
            db.write((INSERT, [(3, "z"), (4, "x"), (5, "w")]), (MOVE, [("y", 9)]))
        assert getattr(error.value, "extendedresult", 0) == apsw.SQLITE_CONSTRAINT_UNIQUE
        db.write(("DELETE FROM pair WHERE b = ?", [("z",)]))
    assert db.execute(ALL).fetchall()[-1][1] == 2
    db.execute("ALTER TABLE pair RENAME TO couple")
    db.execute(SCHEMA)  # another table than the statement was prepared for
    db.write((INSERT, [(1, "x")]))
    assert db.execute("SELECT count(*) FROM pair").get == 1


def test_what_a_function_of_python_raises_is_raised():
    """SQLite calls it in the midst of a statement."""
    db = opened()

    def half(*values: Any) -> int:
        if values[0] % 2:
            raise ArithmeticError(values[0])
        return values[0] // 2

    db.create_scalar_function("half", half, 1)
    insert = "INSERT INTO pair VALUES (half(?), ?)"
    with pytest.raises(ArithmeticError, match="7"):
        db.write((insert, [(6, "x"), (7, "y"), (8, "z")]))
    db.write((insert, [(8, "z")]))
    assert [row[1] for row in db.execute(ALL)] == [3, 4]


def test_a_connection_that_is_closed_writes_nothing():
    """It says so, and is closed though it had prepared something; twice is fine."""
    db = opened()
    db.write((INSERT, [(1, "x")]))
    db.close()
    db.close()
    with pytest.raises(apsw.ConnectionClosedError):
        db.write((INSERT, [(2, "y")]))


def test_a_connection_may_be_collected(monkeypatch):
    """What it prepared goes before it, so that SQLite does not refuse to close it."""
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    db = opened()
    db.write((INSERT, [(1, "x")]))
    del db
    gc.collect()
    assert not unraisable


def test_a_connection_loads_no_extension(tmp_path):
    """SQLite would make its symbols global in the process; nor may SQL have it load one."""
    db = opened()
    db.write((INSERT, [(1, "x")]))
    with pytest.raises(apsw.SQLError, match="not authorized"):
        db.execute("SELECT load_extension(?)", (str(tmp_path / "any"),))
    with pytest.raises(apsw.ExtensionLoadingError, match="not authorized"):
        db.load_extension(str(tmp_path / "any"))
