"""Statements that go to PostgreSQL in one packet, and come back as rows.

psycopg's own pipeline sends each statement by itself: the server's process wakes up for each, and
so does the client. Here libpq gathers them, 8 KB at a time, before it sends. That halves what a
commit costs both sides, and with it the time for which a commit holds the lock of all others.
Large statements are sent as they are queued, so that libpq never holds a copy of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import psycopg
from psycopg import abc, pq
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.rows import TupleRow, tuple_row
from psycopg.waiting import Ready, Wait

PREPARE_AFTER = 5
"""A statement is prepared when it has run so often on a connection, as psycopg has it."""

PREPARED = 200
"""Most prepared statements of a connection; what comes later is parsed each time."""

MOST_QUEUED_BYTES = 1 << 20
"""Bytes of values that libpq holds a copy of, about, before they are sent."""

Statement = tuple[str, Sequence[object]]

Plan = tuple[bytes, tuple[int, ...]]
"""What one prepared statement serves: a text, and the types of its values."""


class StatementRows:
    """What a statement gave.

    Attributes:
        affected: How many rows it gave, inserted, changed or deleted.
    """

    __slots__ = ("_at", "_found", "_transformer", "affected")

    def __init__(self, found: pq.abc.PGresult, transformer: abc.Transformer) -> None:
        transformer.set_pgresult(found)
        self._found, self._transformer, self._at = found, transformer, 0
        self.affected = found.command_tuples or 0

    @property
    def get(self) -> Any:  # noqa: ANN401 - as the query says
        """The next row, or its only column; None: no row."""
        rows = self._take(1)
        return None if not rows else rows[0][0] if len(rows[0]) == 1 else rows[0]

    def fetchall(self) -> list[TupleRow]:
        """Return all rows that are left."""
        return self._take(self._found.ntuples)

    def __iter__(self) -> Iterator[TupleRow]:
        """Yield the rows that are left."""
        while rows := self._take(100):
            yield from rows

    def _take(self, most: int) -> list[TupleRow]:
        start, self._at = self._at, min(self._at + most, self._found.ntuples)
        return self._transformer.load_rows(start, self._at, tuple)


class _Encoded(NamedTuple):
    """A statement as libpq sends it; its values have types that it may be prepared for."""

    sql: bytes
    values: Sequence[Any]
    types: tuple[int, ...]
    formats: Sequence[pq.Format]

    @property
    def size(self) -> int:
        """The bytes of its values."""
        return sum(len(value) for value in self.values if value is not None)

    @property
    def plan(self) -> Plan:
        """What it may be prepared as."""
        return self.sql, self.types

    def name(self) -> bytes:
        """Return the name under which it is prepared: the same for no other statement."""
        return f"alveus_{blake2b(repr(self.plan).encode(), digest_size=16).hexdigest()}".encode()


class PipelinedConnection(psycopg.Connection[TupleRow]):
    """A connection that sends statements together.

    Attributes:
        done: How many of the statements that were sent together last were done.
        is_pooled: A pooler may hand each transaction to another process of the server, which does
            not know what was prepared before: nothing is.
    """

    def __init__(self, pgconn: pq.abc.PGconn) -> None:
        super().__init__(pgconn, tuple_row)
        self._uses: dict[Plan, int] = {}
        self._prepared_as: dict[Plan, bytes] = {}
        self.done = 0
        self.is_pooled = False

    def look_for_pooler(self) -> None:
        """Find out whether it is another process that answers than the one that let us in."""
        (answering,) = self.execute("SELECT pg_backend_pid()").fetchall()[0]
        self.is_pooled = answering != self.info.backend_pid

    def run_together(self, statements: Sequence[Statement]) -> list[StatementRows]:
        """Run statements one after the other, and return what each gave.

        All are sent at once, and one answer is waited for. They are one transaction, but for
        those that begin or end one.

        Raises:
            psycopg.Error: One of them was refused; those after it were not done.
        """
        self.done = 0
        encoded = [self._encoded(*statement) for statement in statements]
        with self.lock:
            results = self._answers(encoded)
        return [StatementRows(result, Transformer.from_context(self)) for result in results]

    def _encoded(self, sql: str, bindings: Sequence[object]) -> _Encoded:
        transformer = Transformer.from_context(self)
        values = transformer.dump_sequence(bindings, [PyFormat.AUTO] * len(bindings))
        return _Encoded(sql.encode(), values, transformer.types or (), transformer.formats or ())

    def _answers(self, statements: Sequence[_Encoded]) -> list[pq.abc.PGresult]:
        """Send statements, and return the result of each."""
        new: dict[Plan, bytes] = {}
        prepares: list[Plan | None] = []
        queued = 0
        self.pgconn.enter_pipeline_mode()
        try:
            for one in statements:
                prepares += self._queue(one, new)
                queued += one.size
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
            else:  # also where a later statement is refused, and the transaction undone
                self._prepared_as[plan] = new[plan]
        if failed := results[len(prepares) :]:  # the commit that ends all of them
            raise error_from_result(failed[0], self.info.encoding)
        return [one for one, plan in zip(results, prepares, strict=True) if plan is None]

    def _queue(self, one: _Encoded, new: dict[Plan, bytes]) -> Iterator[Plan | None]:
        """Hand a statement to libpq; yield for each answer what it prepares; None: its result."""
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
        """Leave the pipeline; where that fails, the connection is of no more use."""
        try:
            self.pgconn.exit_pipeline_mode()
        except psycopg.Error:
            self.close()


def _until_sent(pgconn: pq.abc.PGconn) -> abc.PQGen[None]:
    """Send what is queued; answers that come meanwhile are read, or the server would wait."""
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()


def _until_synced(pgconn: pq.abc.PGconn) -> abc.PQGen[list[pq.abc.PGresult]]:
    """Send what is queued, and return all results once the server has answered all of it.

    Raises:
        psycopg.OperationalError: The connection broke.
    """
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
