"""Connections to a PostgreSQL server: the URL, statements in one packet, errors and outages."""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg import abc, errors, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.rows import TupleRow, tuple_row
from psycopg.waiting import Ready, Wait

from alveus.errors import (
    AccessDenied,
    AlveusError,
    InvalidInput,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
    TooLarge,
    Unavailable,
    Unusable,
)
from alveus.store.postgres.dialect import NumberArray, TextArray, translated
from alveus.store.sql.connection import Query, Row, Write
from alveus.values.forks import FreshLock
from alveus.values.urls import check_password, without_password

CANCEL_S = 5.0
"""The longest wait for the server to cancel a statement."""

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Begins a transaction that sees all commits that were made while the transaction waited."""

EPOCH = """
    (date_part('epoch', greatest(pg_postmaster_start_time(),
        CASE WHEN current_setting('server_version_num')::int >= 150000
        THEN pg_stat_get_bgwriter_stat_reset_time() END)) * 1000000)::bigint
"""
"""SQL for the time when the server last started, or recovered from a crash of one of its processes.

A recovery resets the statistics, whose time of reset shows it. PostgreSQL 14 reads statistics from
a file, which is slow; so with PostgreSQL 14, only the start of the server counts.
"""

# --- the URL --------------------------------------------------------------------------------------

DEFAULT_SCHEMA = "alveus"

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")

# fmt: off
_RESERVED = frozenset((
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric",
    "authorization", "binary", "both", "case", "cast", "check", "collate", "collation",
    "column", "concurrently", "constraint", "create", "cross", "current_catalog",
    "current_date", "current_role", "current_schema", "current_time", "current_timestamp",
    "current_user", "default", "deferrable", "desc", "distinct", "do", "else", "end",
    "except", "false", "fetch", "for", "foreign", "freeze", "from", "full", "grant",
    "group", "having", "ilike", "in", "initially", "inner", "intersect", "into", "is",
    "isnull", "join", "lateral", "leading", "left", "like", "limit", "localtime",
    "localtimestamp", "natural", "not", "notnull", "null", "offset", "on", "only", "or",
    "order", "outer", "overlaps", "placing", "primary", "references", "returning", "right",
    "select", "session_user", "similar", "some", "symmetric", "system_user", "table",
    "tablesample", "then", "to", "trailing", "true", "union", "unique", "user", "using",
    "variadic", "verbose", "when", "where", "window", "with",
    "plpgsql",
))
# fmt: on
"""Names that PostgreSQL 14 to 18 reserve, and `plpgsql`, the prefix of reserved settings."""

_DEFAULTS: dict[str, str | int] = {
    "fallback_application_name": "alveus",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Parameters of libpq with which a client notices within half a minute that a server vanished.

Without them, this may take hours.
"""


class ServerLocation(NamedTuple):
    """A schema in a database, and how to connect to it.

    Attributes:
        conninfo: The URL for libpq, without the name of the schema.
        defaults: Parameters of libpq that the URL does not set.
        schema: The name of the schema.
        display_url: The user's URL without its password.
    """

    conninfo: str
    defaults: Mapping[str, str | int]
    schema: str
    display_url: str

    @classmethod
    def of(cls, url: str) -> ServerLocation:
        """Return the location that *url* names.

        A URL has the form ``postgresql://user:password@host:port/database?schema=alveus``.
        Parameters of libpq may follow, such as ``sslmode=require``.

        Raises:
            InvalidInput: The URL cannot be parsed, or the name of the schema is not allowed.
        """
        check_password(url)
        try:
            parts = urlsplit(url)
            given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError as error:
            raise InvalidInput(
                f"{without_password(url)!r} is not a URL of PostgreSQL: {error}"
            ) from None
        schemas = [value for name, value in given if name == "schema"] or [DEFAULT_SCHEMA]
        if len(schemas) > 1 or not _SCHEMA.fullmatch(schemas[0]):
            raise InvalidInput(
                f"schema={schemas[-1]!r} cannot be used; pass one schema in lower case, "
                "digits and _, of at most 63 characters"
            )
        if schemas[0] in _RESERVED or schemas[0].startswith("pg_"):
            raise InvalidInput(f"schema={schemas[0]!r} is reserved by PostgreSQL; pass another")
        rest = [(name, value) for name, value in given if name not in {"schema", "client_encoding"}]
        query = urlencode(rest, quote_via=quote)
        conninfo = url.partition("?")[0] + (f"?{query}" if query else "")
        defaults = {name: value for name, value in _DEFAULTS.items() if name not in dict(rest)}
        defaults["client_encoding"] = "UTF8"  # overrides $PGCLIENTENCODING
        return cls(conninfo, defaults, schemas[0], without_password(url))


# --- statements in one packet ---------------------------------------------------------------------
#
# psycopg's pipeline sends each statement by itself. Here libpq gathers 8 KB before it sends. This
# halves the cost of a commit for client and server, and so the time for which a commit holds the
# lock. Large statements are sent at once, so that libpq never copies all of them.

PREPARE_AFTER = 5
"""A statement is prepared after this many uses on a connection, as in psycopg."""

PREPARED = 200
"""The most prepared statements of a connection. The server parses other statements each time."""

MOST_QUEUED_BYTES = 1 << 20
"""Roughly the most bytes of values that libpq copies before it sends them."""

Plan = tuple[bytes, tuple[int, ...]]
"""The text and the types of values of a prepared statement."""


class FetchedRows(list[Row]):
    """The rows that a statement returned.

    Attributes:
        affected: The number of rows that were returned, inserted, changed or deleted.
    """

    affected = 0

    @property
    def get(self) -> Any:  # noqa: ANN401 - as the query says
        """The first row, or its value if it has only one column. None if there is no row."""
        return None if not self else self[0][0] if len(self[0]) == 1 else self[0]

    def fetchall(self) -> list[Row]:
        """Return all rows."""
        return self


NO_ROWS = FetchedRows()


class _Encoded(NamedTuple):
    """A statement in the form in which libpq sends it."""

    sql: bytes
    values: Sequence[Any]
    types: tuple[int, ...]
    formats: Sequence[pq.Format]

    @property
    def plan(self) -> Plan:
        return self.sql, self.types

    def name(self) -> bytes:
        """Return the unique name under which the statement is prepared."""
        return f"alveus_{blake2b(repr(self.plan).encode(), digest_size=16).hexdigest()}".encode()


class PipelinedConnection(psycopg.Connection[TupleRow]):
    """A connection that sends statements together.

    Attributes:
        done: How many statements of the last `run_together` were executed.
        is_pooled: Whether a pooler may change the session of the server. Then no statement is
            prepared.
    """

    def __init__(self, pgconn: pq.abc.PGconn) -> None:
        super().__init__(pgconn, tuple_row)
        self._uses: dict[Plan, int] = {}
        self._prepared_as: dict[Plan, bytes] = {}
        self.done = 0
        self.is_pooled = False

    def look_for_pooler(self) -> None:
        """Set `is_pooled`: whether another server process answers than accepted the connection."""
        (answering,) = self.execute("SELECT pg_backend_pid()").fetchall()[0]
        self.is_pooled = answering != self.info.backend_pid

    def run_together(self, statements: Sequence[Query]) -> list[FetchedRows]:
        """Run statements in order, in one round trip, and return the rows of each.

        The statements are one transaction, unless some of them begin or end transactions.

        Raises:
            psycopg.Error: A statement was refused. The statements after it were not executed.
        """
        self.done = 0
        encoded = [self._encoded(*statement) for statement in statements]
        with self.lock:
            results = self._answers(encoded)
        return [self._rows(result) for result in results]

    def _encoded(self, sql: str, bindings: Sequence[object]) -> _Encoded:
        transformer = Transformer.from_context(self)
        values = transformer.dump_sequence(bindings, [PyFormat.AUTO] * len(bindings))
        return _Encoded(sql.encode(), values, transformer.types or (), transformer.formats or ())

    def _rows(self, result: pq.abc.PGresult) -> FetchedRows:
        transformer = Transformer.from_context(self)
        transformer.set_pgresult(result)
        rows = FetchedRows(transformer.load_rows(0, result.ntuples, tuple))
        rows.affected = result.command_tuples or 0
        return rows

    def _answers(self, statements: Sequence[_Encoded]) -> list[pq.abc.PGresult]:
        """Send statements, and return the result of each."""
        new: dict[Plan, bytes] = {}
        prepares: list[Plan | None] = []
        queued = 0
        self.pgconn.enter_pipeline_mode()
        try:
            for one in statements:
                prepares += self._queue(one, new)
                queued += sum(len(value) for value in one.values if value is not None)
                if queued > MOST_QUEUED_BYTES:
                    self.wait(_until_sent(self.pgconn))
                    queued = 0
            self.pgconn.pipeline_sync()
            results = self.wait(_until_synced(self.pgconn))
        finally:
            self._end_pipeline()
        for result, plan in zip(results, prepares, strict=False):
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise error_from_result(result, self.info.encoding)
            if plan is None:
                self.done += 1
            else:  # stays prepared if a later statement is refused
                self._prepared_as[plan] = new[plan]
        if failed := results[len(prepares) :]:  # the implicit commit of all statements failed
            raise error_from_result(failed[0], self.info.encoding)
        return [one for one, plan in zip(results, prepares, strict=True) if plan is None]

    def _queue(self, one: _Encoded, new: dict[Plan, bytes]) -> Iterator[Plan | None]:
        """Queue a statement in libpq, after a command that prepares it if needed.

        For each answer that the server will send, yields the plan that the command prepares, or
        None for the statement itself.
        """
        uses = self._uses[one.plan] = self._uses.get(one.plan, 0) + 1
        name = self._prepared_as.get(one.plan) or new.get(one.plan)
        may_be = uses > PREPARE_AFTER and len(self._prepared_as) < PREPARED and not self.is_pooled
        if name is None and may_be:
            name = new[one.plan] = one.name()
            self.pgconn.send_prepare(name, one.sql, param_types=one.types)
            yield one.plan
        if name is None:
            self.pgconn.send_query_params(
                one.sql, one.values, one.types, one.formats, pq.Format.BINARY
            )
        else:
            self.pgconn.send_query_prepared(name, one.values, one.formats, pq.Format.BINARY)
        yield None

    def _end_pipeline(self) -> None:
        """Leave libpq's pipeline mode, or close the connection if that fails."""
        try:
            self.pgconn.exit_pipeline_mode()
        except psycopg.Error:
            self.close()


def _until_sent(pgconn: pq.abc.PGconn) -> abc.PQGen[None]:
    """Send the queue of libpq, and read answers meanwhile, so that the server does not block."""
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()


def _until_synced(pgconn: pq.abc.PGconn) -> abc.PQGen[list[pq.abc.PGresult]]:
    """Send the queue of libpq, and return all results once the server has sent them."""
    yield from _until_sent(pgconn)
    results: list[pq.abc.PGresult] = []
    while True:
        while pgconn.is_busy():
            if (yield Wait.R):
                pgconn.consume_input()
        result = pgconn.get_result()
        if pgconn.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError(pgconn.get_error_message())
        if result is not None:
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results
            results.append(result)


# --- the connection of the shared statements ------------------------------------------------------


class NeverRaised(Exception):
    """An error that nothing raises."""


class PostgresConnection:
    """A connection of the pool, which one call of the store uses.

    A statement that returns no rows waits until a statement that returns rows is executed, or until
    `settle` is called. Then all are sent in one round trip.

    Attributes:
        together: If True, `settle` sends nothing, and waiting statements are sent with the COMMIT.
    """

    def __init__(self, connection: PipelinedConnection, schema: str) -> None:
        self.raw, self._schema = connection, schema
        self._waiting: list[Query] = []
        self._changed = 0
        self.together = False

    @property
    def taken(self) -> type[Exception]:
        """See `Connection.taken`. With `together`, it is an error that is never raised.

        The server then refuses the whole group with the COMMIT.
        """
        return NeverRaised if self.together else errors.UniqueViolation

    @property
    def waiting(self) -> int:
        """The number of statements that wait to be sent."""
        return len(self._waiting)

    def execute(self, statement: str, bindings: Sequence[object] = (), /) -> FetchedRows:
        """Run a statement of the shared SQL, and return its rows.

        If the statement returns no rows, it waits for the next statement that does.
        """
        sql = translated(statement, self._schema)
        self._waiting.append((sql, bindings))
        return self._send()[-1] if gives_rows(sql) else NO_ROWS

    def write(self, *writes: Write) -> None:
        """Run each statement once for each of its rows of bindings.

        The statements wait for the next statement that returns rows.
        """
        for statement, rows in writes:
            sql = translated(statement, self._schema)
            self._waiting.extend((sql, row) for row in rows)

    def query_all(self, *queries: Query) -> list[list[Row]]:
        """See `Connection.query_all`. Some of the statements may return no rows."""
        self._waiting.extend((translated(sql, self._schema), bindings) for sql, bindings in queries)
        return [*self._send()[-len(queries) :]] if queries else []

    def settle(self) -> None:
        """Send the waiting statements, unless `together` is True.

        Raises:
            psycopg.Error: See `PipelinedConnection.run_together`.
        """
        if not self.together:
            self.finish()

    def finish(self) -> None:
        """Send the waiting statements, even if `together` is True."""
        if self._waiting:
            self._send()

    def _send(self) -> list[FetchedRows]:
        statements, self._waiting = self._waiting, []
        found = self.raw.run_together(statements)
        self._changed = found[-1].affected
        return found

    def script(self, text: str) -> None:
        """Run the statements in *text*, which are in PostgreSQL's dialect and have no bindings."""
        self.finish()
        self.raw.execute(cast("Any", text))

    def cancel(self) -> None:
        """Cancel the statement for which another thread waits, if any."""
        with suppress(psycopg.Error):  # the connection broke: no thread waits any longer
            self.raw.cancel_safe(timeout=CANCEL_S)

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
        """Roll back to the savepoint of a batch.

        After a failed statement, PostgreSQL refuses all others until a rollback.
        """
        self.roll_back("ROLLBACK TO batch")

    def roll_back(self, statement: str) -> None:
        """Run *statement*, a ROLLBACK or ROLLBACK TO a savepoint, and drop waiting statements.

        If the savepoint itself still waits to be sent, only the statements after it are dropped.
        """
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
    """Return whether a statement returns rows."""
    return sql.lstrip().startswith(("SELECT", "WITH", "SHOW")) or "RETURNING" in sql


# --- errors ---------------------------------------------------------------------------------------

_ENDED = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.TransactionTimeout,
)
"""Errors with which the server ends a connection, or refuses a new connection."""


def is_lost(error: BaseException) -> bool:
    """Return whether *error* means that the connection to the server broke."""
    if isinstance(error, _ENDED):
        return True
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return False
    state = cast("psycopg.Error", error).sqlstate
    return state is None or str(state).startswith("08")


_MEANINGS: list[tuple[tuple[type[Exception], ...], type[AlveusError], str]] = [
    (
        (errors.LockNotAvailable, errors.DeadlockDetected),
        StoreBusy,
        "another host has held the write lock for too long; try again, or raise wait_s",
    ),
    (
        (errors.QueryCanceled,),
        StoreBusy,
        "the server cancelled a statement; try again, or raise its statement_timeout",
    ),
    ((errors.DiskFull,), StoreFull, "the disk of the server is full; free some room and try again"),
    (
        (errors.ReadOnlySqlTransaction,),
        StoreReadOnly,
        "the server is read-only, such as a replica; open it with mode='ro'",
    ),
    (
        (errors.InsufficientPrivilege,),
        AccessDenied,
        "this user lacks the right; have the owner of the tables grant it: alveus grant",
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
        "the database does not exist; create it first: createdb NAME",
    ),
    (
        (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement),
        Unavailable,
        "a pooler mixed up prepared statements of two sessions; connect without the pooler",
    ),
    (
        (errors.TooManyConnections,),
        Unavailable,
        "the server has no connection left; raise max_connections, or use a pooler",
    ),
]


def explained(error: Exception, location: str) -> AlveusError | None:
    """Return the error of alveus that explains an error of the server.

    Returns None if *error* has no such meaning, as it comes from a bug of alveus.
    """
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


# --- outages --------------------------------------------------------------------------------------

_LOG = logging.getLogger(__name__)

_POOL = logging.getLogger("psycopg.pool")

_REPEATED = ("error connecting", "reconnection attempt")
"""Beginnings of the log records that the pool writes at each attempt to connect."""

_LOST = ("discarding broken connection", "discarding closed connection")
"""Beginnings of log records of the pool that do not name the pool.

They are not needed: the call that used the connection raises an error, or is tried again.
"""


class OutageLog(logging.Filter):
    """Logs one warning when a server becomes unreachable, and one when it answers again.

    Hides the warnings that the pool logs at each attempt to connect.

    Args:
        pool: The unique name of the pool.
        location: The name of the store in the warnings.
    """

    def __init__(self, pool: str, location: str) -> None:
        super().__init__()
        self._pool, self._location = pool, location
        self._lock, self._is_away = FreshLock(), False

    def begin(self) -> None:
        """Begin to filter the log records of the pool."""
        _POOL.addFilter(self)

    def end(self) -> None:
        """Stop filtering the log records of the pool."""
        _POOL.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log *record*; log a warning if it shows that the server is away."""
        arguments: Sequence[object] = [*record.args] if isinstance(record.args, tuple) else []
        message = str(record.msg)
        if message.startswith(_LOST):
            return not any(isinstance(each, PipelinedConnection) for each in arguments)
        if self._pool not in arguments or not message.startswith(_REPEATED):
            return True
        if self._changes(is_away=True):
            why = " ".join(str(arguments[-1]).split())
            _LOG.warning("%s is away: %s; it is asked until it answers", self._location, why)
        return False

    def connected(self) -> None:
        """Record that the server answers. Log a warning if it did not answer before."""
        if self._changes(is_away=False):
            _LOG.warning("%s is back", self._location)

    def _changes(self, *, is_away: bool) -> bool:
        with self._lock:
            changes, self._is_away = self._is_away != is_away, is_away
        return changes
