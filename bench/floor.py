"""The floor of a write: the same rows, by apsw alone, in a transaction that waits for the disk.

What fornix has the writer's connection do is noted while it writes; the same statements are then
done to a copy of the file that was made just before. No program that writes these rows with
SQLite from Python is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from bench.measure import Figure, timed
from fornix import Memory
from fornix.store.sqlite.connection import SqliteConnection


class _Done(NamedTuple):
    """A statement, and what it was bound to: once, or many times."""

    sql: str
    bindings: Sequence[Any]
    many: bool


def floor_of(memory: Memory, write: Callable[[int], object], count: int, folder: Path) -> Figure:
    """Return what *count* writes take without fornix; ``write(i)`` is called with 0, 1 …

    Each has to be one transaction of the memory's file, and none is to begin a set.
    """
    copy = folder / "floor.db"
    memory.backup(copy)
    with _noted() as statements:
        for number in range(count):
            write(number)
    transactions = list(_transactions(statements))
    if len(transactions) != count:
        raise RuntimeError(f"{count} writes were {len(transactions)} transactions")
    bare = apsw.Connection(str(copy))
    try:
        bare.execute("PRAGMA journal_mode = WAL")
        bare.execute("PRAGMA synchronous = FULL")

        def again(number: int) -> None:
            for sql, bindings, many in transactions[number]:
                if many:
                    bare.executemany(sql, bindings)
                else:
                    bare.execute(sql, bindings)

        return timed(again, count)
    finally:
        bare.close()
        for path in folder.glob("floor.db*"):
            path.unlink()


@contextmanager
def _noted() -> Generator[list[_Done]]:
    """Note what is executed during a block."""
    statements: list[_Done] = []
    execute, executemany = SqliteConnection.execute, SqliteConnection.executemany

    def noting(self: SqliteConnection, sql: str, bindings: Sequence[Any] = (), /) -> Any:
        statements.append(_Done(sql, bindings, many=False))
        return execute(self, sql, bindings)

    def noting_many(self: SqliteConnection, sql: str, bindings: Iterable[Any], /) -> Any:
        rows = list(bindings)
        statements.append(_Done(sql, rows, many=True))
        return executemany(self, sql, rows)

    SqliteConnection.execute, SqliteConnection.executemany = noting, noting_many
    try:
        yield statements
    finally:
        SqliteConnection.execute, SqliteConnection.executemany = execute, executemany


def _transactions(statements: Sequence[_Done]) -> Generator[list[_Done]]:
    """Yield what stands from a BEGIN to its COMMIT."""
    found: list[_Done] | None = None
    for done in statements:
        if done.sql.startswith("BEGIN IMMEDIATE"):
            found = []
        if found is not None:
            found.append(done)
            if done.sql == "COMMIT":
                yield found
                found = None
