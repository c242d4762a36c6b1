"""A connection to PostgreSQL, as the shared statements use it, and its errors in our words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import psycopg
from psycopg import errors
from psycopg.rows import TupleRow

from fornix.errors import (
    FornixError,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
    TooLarge,
    Unavailable,
    Unusable,
)
from fornix.store.postgres.dialect import NumberArray, TextArray, translated
from fornix.store.sql.connection import Row


class PostgresRows:
    """What a statement gave."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: psycopg.Cursor[TupleRow]) -> None:
        self._cursor = cursor

    @property
    def get(self) -> Any:  # noqa: ANN401 - as the query says
        """The first row, or its only column; None: no row."""
        row = self._cursor.fetchone()
        return row[0] if row is not None and len(row) == 1 else row

    def fetchall(self) -> list[Row]:
        """Return all rows."""
        return self._cursor.fetchall() if self._cursor.description else []

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows."""
        return iter(self._cursor)


class PostgresConnection:
    """A connection borrowed from the pool, for one call of the store."""

    taken = errors.UniqueViolation

    def __init__(self, connection: psycopg.Connection[TupleRow], schema: str) -> None:
        self._connection, self._schema = connection, schema
        self._changed = 0

    def execute(self, statement: str, bindings: Sequence[object] = (), /) -> PostgresRows:
        """Run one statement of the shared ones."""
        cursor = psycopg.RawCursor(self._connection)
        cursor.execute(cast("Any", translated(statement, self._schema)), bindings, binary=True)
        self._changed = cursor.rowcount
        return PostgresRows(cursor)

    def executemany(self, statement: str, bindings: Iterable[Sequence[object]], /) -> None:
        """Run a statement for each of several bindings."""
        cursor = psycopg.RawCursor(self._connection)
        cursor.executemany(cast("Any", translated(statement, self._schema)), bindings)
        self._changed = cursor.rowcount

    def script(self, text: str) -> None:
        """Run statements of PostgreSQL's own, without bindings."""
        self._connection.execute(cast("Any", text))

    def changes(self) -> int:
        """Return how many rows the last statement inserted, changed or deleted."""
        return max(0, self._changed)

    def numbers(self, values: Sequence[int], /) -> NumberArray:
        """See `Connection.numbers`."""
        return NumberArray(values)

    def texts(self, values: Sequence[str], /) -> TextArray:
        """See `Connection.texts`."""
        return TextArray(values)

    def recover(self) -> None:
        """Undo what was done since the last savepoint of a batch: PostgreSQL refuses all else."""
        self.execute("ROLLBACK TO batch")

    @property
    def transaction_id(self) -> int:
        """The number that PostgreSQL knows the open transaction by."""
        return self.execute("SELECT pg_current_xact_id()::text::bigint").get


def is_lost(error: BaseException) -> bool:
    """Return whether *error* came because the connection to the server broke."""
    shutting_down = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)
    if isinstance(error, shutting_down):
        return True
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and (
        cast("psycopg.Error", error).sqlstate is None
        or str(cast("psycopg.Error", error).sqlstate).startswith("08")
    )


_MEANINGS: list[tuple[tuple[type[Exception], ...], type[FornixError], str]] = [
    (
        (errors.LockNotAvailable, errors.QueryCanceled),
        StoreBusy,
        "another host has been writing for too long; try again, or raise wait_s",
    ),
    (
        (errors.DiskFull,),
        StoreFull,
        "the disk of the server is full; free some room and try again",
    ),
    (
        (errors.ReadOnlySqlTransaction,),
        StoreReadOnly,
        "the server takes no writes (it is a replica, or was set so); open it with mode='ro'",
    ),
    (
        (errors.InsufficientPrivilege,),
        StoreReadOnly,
        "this user lacks a right; let the owner grant it (docs/postgres.md says which)",
    ),
    (
        (errors.ProgramLimitExceeded,),
        TooLarge,
        "a value is over a limit of PostgreSQL; store it in parts",
    ),
    (
        (errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName),
        Unusable,
        "its tables were dropped or changed while it was open; open it again",
    ),
    (
        (errors.InvalidPassword, errors.InvalidAuthorizationSpecification),
        Unavailable,
        "the server refuses this user; check user and password in the URL",
    ),
    (
        (errors.InvalidCatalogName,),
        Unavailable,
        "there is no such database; make it first: createdb NAME",
    ),
    (
        (errors.TooManyConnections,),
        Unavailable,
        "the server has no connection left; raise max_connections, or use a pooler",
    ),
]


def explained(error: Exception, place: str) -> FornixError | None:
    """Return the fornix error that says what *error* means; None: it is a fault of ours."""
    for kinds, meaning, words in _MEANINGS:
        if isinstance(error, kinds):
            return meaning(f"{place}: {words} ({_first_line(error)})")
    if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
        return StoreDamaged(place, _first_line(error))
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Unavailable(
            f"{place}: the server cannot be reached, or went away; try again ({_first_line(error)})"
        )
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
