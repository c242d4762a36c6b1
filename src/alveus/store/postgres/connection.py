"""A connection to PostgreSQL, as the shared statements use it, and its errors in our words."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import psycopg
from psycopg import errors

from alveus.errors import (
    AccessDenied,
    AlveusError,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
    TooLarge,
    Unavailable,
    Unusable,
)
from alveus.store.postgres.dialect import NumberArray, TextArray, translated
from alveus.store.postgres.pipeline import PipelinedConnection, StatementRows
from alveus.store.sql.connection import Row, Write

CANCEL_S = 5.0
"""How long the server is waited for that is told to cancel a statement."""


BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Begins a transaction that writes, whatever the server's default: the lock of the ledger orders
them, and what waited for it has to see what was committed meanwhile."""


EPOCH = """
    (date_part('epoch', greatest(pg_postmaster_start_time(),
        CASE WHEN current_setting('server_version_num')::int >= 150000
        THEN pg_stat_get_bgwriter_stat_reset_time() END)) * 1000000)::bigint
"""
"""When the server started, or recovered from a crash that its first process survived.

A recovery drops the server's statistics, so they begin at that time. PostgreSQL 14 reads them from
a file, which is slow; there, only a start of the whole server is told.
"""


class NeverRaised(Exception):
    """What nothing raises."""


class NoRows:
    """What a statement gives that was not sent yet, and has no rows."""

    get: Any = None

    def fetchall(self) -> list[Row]:
        """Return none."""
        return []

    def __iter__(self) -> Iterator[Row]:
        """Yield none."""
        return iter(())


NO_ROWS = NoRows()


class PostgresConnection:
    """A connection borrowed from the pool, for one call of the store.

    A statement that gives no rows waits until one does, or until `settle`: then all go to the
    server together, and one answer is waited for.

    Attributes:
        together: Whether `settle` leaves what waits to the COMMIT, which `finish` sends.
    """

    def __init__(self, connection: PipelinedConnection, schema: str) -> None:
        self._connection, self._schema = connection, schema
        self._waiting: list[tuple[str, Sequence[object]]] = []
        self._changed = 0
        self.together = False

    @property
    def taken(self) -> type[Exception]:
        """See `Connection.taken`; where all goes `together`, there is no going on after that."""
        return NeverRaised if self.together else errors.UniqueViolation

    @property
    def waiting(self) -> int:
        """How many statements wait to be sent."""
        return len(self._waiting)

    @property
    def done(self) -> int:
        """How many of the statements were done that were sent together last."""
        return self._connection.done

    @property
    def is_pooled(self) -> bool:
        """Whether a pooler may give each transaction another session of the server."""
        return self._connection.is_pooled

    @property
    def server_version(self) -> int:
        """The version of the server, as 170002."""
        return self._connection.info.server_version

    def execute(self, statement: str, bindings: Sequence[object] = (), /) -> StatementRows | NoRows:
        """Run one statement of the shared ones, now or with the next that gives rows."""
        sql = translated(statement, self._schema)
        self._waiting.append((sql, bindings))
        return self._send() if gives_rows(sql) else NO_ROWS

    def write(self, *writes: Write) -> None:
        """Run statements for all of their rows, with the next one that gives rows."""
        for statement, rows in writes:
            sql = translated(statement, self._schema)
            self._waiting.extend((sql, row) for row in rows)

    def query_all(self, *queries: tuple[str, Sequence[object]]) -> list[list[Row]]:
        """See `Connection.query_all`; statements that give no rows may be among them."""
        if len(queries) == 1:
            return [self.execute(*queries[0]).fetchall()]
        self.finish()
        asked = [(translated(sql, self._schema), bindings) for sql, bindings in queries]
        return [rows.fetchall() for rows in self._connection.run_together(asked)]

    def settle(self) -> None:
        """Have all statements done that wait, unless they are to go `together`.

        Raises:
            psycopg.Error: One of them was refused; those after it were not done.
        """
        if not self.together:
            self.finish()

    def finish(self) -> None:
        """Have all statements done that wait; raises as `settle` does."""
        if self._waiting:
            self._send()

    def _send(self) -> StatementRows:
        """Send what waits; return what the last statement gave."""
        statements, self._waiting = self._waiting, []
        rows = self._connection.run_together(statements)[-1]
        self._changed = rows.affected
        return rows

    def script(self, text: str) -> None:
        """Run statements of PostgreSQL's own, without bindings."""
        self.finish()
        self._connection.execute(cast("Any", text))

    def cancel(self) -> None:
        """Have the server stop the statement that another thread waits for, if there is one."""
        with suppress(psycopg.Error):  # the connection broke: nobody waits any longer
            self._connection.cancel_safe(timeout=CANCEL_S)

    def changes(self) -> int:
        """Return how many rows the last statement inserted, changed or deleted."""
        self.finish()
        return max(0, self._changed)

    def numbers(self, values: Sequence[int], /) -> NumberArray:
        """See `Connection.numbers`."""
        return NumberArray(values)

    def json_of(self, rows: Sequence[int], /) -> str:
        """See `Connection.json_of`."""
        return json.dumps(rows)

    def texts(self, values: Sequence[str], /) -> TextArray:
        """See `Connection.texts`."""
        return TextArray(values)

    def recover(self) -> None:
        """Undo what was done since the last savepoint of a batch: PostgreSQL refuses all else."""
        self.roll_back("ROLLBACK TO batch")

    def roll_back(self, statement: str) -> None:
        """Undo, to a savepoint or all of it; what waits since then is not sent at all."""
        point = statement.replace("ROLLBACK TO", "SAVEPOINT")
        for index in range(len(self._waiting) - 1, -1, -1):
            if self._waiting[index][0] == point:
                del self._waiting[index + 1 :]
                return
        self._waiting.clear()
        self.execute(statement)
        self.finish()


@functools.lru_cache(maxsize=2048)
def gives_rows(sql: str) -> bool:
    """Return whether a statement gives rows."""
    return sql.lstrip().startswith(("SELECT", "WITH", "SHOW")) or "RETURNING" in sql


_ENDED = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.TransactionTimeout,
)
"""What the server says before it ends a connection, or does not begin one."""


def is_lost(error: BaseException) -> bool:
    """Return whether *error* came because the connection to the server broke."""
    if isinstance(error, _ENDED):
        return True
    return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and (
        cast("psycopg.Error", error).sqlstate is None
        or str(cast("psycopg.Error", error).sqlstate).startswith("08")
    )


_MEANINGS: list[tuple[tuple[type[Exception], ...], type[AlveusError], str]] = [
    (
        (errors.LockNotAvailable, errors.DeadlockDetected),
        StoreBusy,
        "another host has been writing for too long; try again, or raise wait_s",
    ),
    (
        (errors.QueryCanceled,),
        StoreBusy,
        "the server cancelled a statement; try again, or raise its statement_timeout",
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
        AccessDenied,
        "this user may not do that; have the owner of the tables grant it: alveus grant",
    ),
    (
        (errors.ProgramLimitExceeded,),
        TooLarge,
        "a value is over a limit of PostgreSQL; store it in parts",
    ),
    (
        (
            *(errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction),
            errors.InvalidSchemaName,
        ),
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
        (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement),
        Unavailable,
        "a pooler gave this to a session that had prepared something else; connect past it",
    ),
    (
        (errors.TooManyConnections,),
        Unavailable,
        "the server has no connection left; raise max_connections, or use a pooler",
    ),
]


def explained(error: Exception, location: str) -> AlveusError | None:
    """Return the alveus error that says what *error* means; None: it is a fault of ours."""
    for kinds, meaning, words in _MEANINGS:
        if isinstance(error, kinds):
            return meaning(f"{location}: {words} ({_first_line(error)})")
    if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
        return StoreDamaged(location, _first_line(error))
    if is_lost(error):
        return Unavailable(
            f"{location}: the server cannot be reached, or went away; try again "
            f"({_first_line(error)})"
        )
    if isinstance(error, psycopg.OperationalError):
        return Unavailable(f"{location} could not be used: {_first_line(error)}")
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
