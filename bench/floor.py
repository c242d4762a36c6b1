"""The floor of a write: the same rows, by apsw alone, in the same transactions.

What alveus has the writer's connection do is noted while it writes; the same statements are then
done to a copy of the file that was made just before. No program that writes these rows with
SQLite from Python is faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import apsw

from alveus import Memory
from alveus.store.sql.connection import Write
from alveus.store.sqlite.connection import SqliteConnection
from bench.measure import Figure, timed_in_turns

Durability: TypeAlias = Literal["full", "normal"]

TURNS = 15
LOG_PAGES = 1100
"""Written to the copy's log before anything is timed: at 1,000 SQLite begins it anew. A log of some
age is written over, which is safe sooner than what makes a file longer."""


class _Done(NamedTuple):
    """A statement of a connection, and what it was bound to: once, or many times."""

    connection: int
    sql: str
    bindings: Sequence[Any]
    many: bool


class Floor(NamedTuple):
    """What writes take, and what their rows take by apsw alone, timed in turns."""

    writes: Figure
    bare: Figure

    @property
    def note(self) -> str:
        """How many times its floor a write takes."""
        times = self.writes.p50 / self.bare.p50
        cpu = self.writes.cpu / self.bare.cpu
        return f"apsw alone; alveus takes {times:.2f} times as long, CPU {cpu:.2f}"


def floor_of(
    memory: Memory,
    write: Callable[[int], object],
    count: int,
    folder: Path,
    *,
    durability: Durability = "full",
) -> Floor:
    """Return what *count* writes take with alveus and without; ``write(i)`` is called with 0, 1 …

    The first *count* are noted, and as many after them are timed in turns with the rows of the
    first. Each has to be one transaction of the memory's file, and none is to begin a set.
    """

    def work() -> None:
        for number in range(count):
            write(number)

    def write_more(number: int) -> None:
        write(count + number)

    with _again(memory, work, folder, durability) as (again, transactions):
        if transactions != count:
            raise RuntimeError(f"{count} writes were {transactions} transactions")
        rounds = min(TURNS, count)
        return Floor(*timed_in_turns([write_more, again], count, rounds=rounds))


def floor_of_all(
    memory: Memory, work: Callable[[], object], folder: Path, *, durability: Durability
) -> tuple[float, float]:
    """Return what all transactions of *work* take without alveus: seconds of CPU, and by the clock.

    It begins no set.
    """
    with _again(memory, work, folder, durability) as (again, transactions):
        began, cpu = time.perf_counter(), time.process_time()
        for number in range(transactions):
            again(number)
        return time.process_time() - cpu, time.perf_counter() - began


@contextmanager
def _again(
    memory: Memory, work: Callable[[], object], folder: Path, durability: Durability
) -> Generator[tuple[Callable[[int], None], int]]:
    """Do *work*; yield what does its transactions again, by number, to a copy, and their count."""
    copy = folder / "floor.db"
    memory.backup(copy)
    with _noted() as statements:
        work()
    transactions = list(_transactions(statements))
    bare = apsw.Connection(str(copy))
    try:
        bare.execute("PRAGMA journal_mode = WAL")
        _age_log(bare)
        bare.execute(f"PRAGMA synchronous = {durability.upper()}")

        def again(number: int) -> None:
            for _, sql, bindings, many in transactions[number]:
                if many:
                    bare.executemany(sql, bindings)
                else:
                    bare.execute(sql, bindings)

        yield again, len(transactions)
    finally:
        bare.close()
        for path in folder.glob("floor.db*"):
            path.unlink()


def _age_log(bare: apsw.Connection) -> None:
    bare.execute("PRAGMA synchronous = OFF")
    bare.execute("CREATE TABLE aged (page INTEGER)")
    for page in range(LOG_PAGES):
        bare.execute("REPLACE INTO aged (rowid, page) VALUES (1, ?)", (page,))


@contextmanager
def _noted() -> Generator[list[_Done]]:
    """Note what is executed during a block."""
    statements: list[_Done] = []
    execute, write = SqliteConnection.execute, SqliteConnection.write

    def noting(self: SqliteConnection, sql: str, bindings: Sequence[Any] = (), /) -> Any:
        statements.append(_Done(id(self), sql, bindings, many=False))
        return execute(self, sql, bindings)

    def noting_writes(self: SqliteConnection, *writes: Write) -> None:
        statements.extend(_Done(id(self), sql, list(rows), many=True) for sql, rows in writes)
        write(self, *writes)

    SqliteConnection.execute, SqliteConnection.write = noting, noting_writes
    try:
        yield statements
    finally:
        SqliteConnection.execute, SqliteConnection.write = execute, write


def _transactions(statements: Sequence[_Done]) -> Generator[list[_Done]]:
    """Yield what a connection did from a BEGIN to its COMMIT; others may have read meanwhile."""
    found: list[_Done] = []
    for done in statements:
        if done.sql.startswith("BEGIN IMMEDIATE"):
            found = [done]
        elif found and done.connection == found[0].connection:
            found.append(done)
            if done.sql == "COMMIT":
                yield found
                found = []
