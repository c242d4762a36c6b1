"""Bringing the server's index of a large set up to date, in steps.

Vectors and terms go in without the lock of the ledger, which all writers take; what ended
meanwhile is taken out again under that lock, in the same transaction that says how far it is. So a
row that is in the index and counted lives, or goes with the transaction that ends it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import psycopg
from psycopg import errors

from alveus.errors import AlveusError
from alveus.store.postgres.connection import PostgresConnection
from alveus.store.postgres.dialect import for_schema
from alveus.store.postgres.large_sets import IS_THERE, LARGE, STRAYS, keyed
from alveus.store.postgres.vacuuming import GIVE_MEMORY, TAKE_MEMORY_BACK
from alveus.store.sql.connection import Row, first, query
from alveus.values import words
from alveus.values.forks import Flag, began

STEP = 500
"""Items that are taken in at a time."""

STOP_S = 0.1
"""Pause between two tries to cancel the making of an index."""

REST_S = 0.05
"""Pause between two steps, so that others get on."""

_TABLES = Path(__file__).with_name("large_sets.sql")

_GROWN = "SELECT id FROM alveus.memory_set WHERE items >= ? ORDER BY id"

_NEXT = """
    SELECT row, terms, tokens, vectors FROM alveus.feature WHERE set_id = ?1 AND ended = 0 AND (
        row > (SELECT upto FROM alveus.large_set WHERE set_id = ?1)
        OR row IN (SELECT row FROM alveus.large_late WHERE set_id = ?1))
    ORDER BY row LIMIT ?2
"""

_START = """
    INSERT INTO alveus.large_set (set_id, dimensions) VALUES (?, ?) ON CONFLICT DO NOTHING
    RETURNING set_id
"""

_VECTOR = """
    INSERT INTO alveus.large_vector (row, part, set_id, dimensions, vector)
    VALUES (?, ?, ?, ?, ?::text::halfvec) ON CONFLICT DO NOTHING
"""

_TEXT = """
    INSERT INTO alveus.large_text (row, set_id, terms, passages, tokens)
    VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

_ENDED = """row = ANY(?1) AND NOT EXISTS (SELECT 1 FROM alveus.feature AS one
    WHERE one.set_id = ?2 AND one.ended = 0 AND one.row = {table}.row)"""

_COUNT = """
    WITH new AS (
        UPDATE alveus.large_text SET counted = TRUE WHERE row = ANY(?1) AND NOT counted
        RETURNING terms, passages, tokens),
    sums AS (
        INSERT INTO alveus.large_term AS known (term, set_id, texts)
        SELECT term, ?2, count(*) FROM new, unnest(terms) AS term GROUP BY term
        ON CONFLICT (term) DO UPDATE SET texts = known.texts + excluded.texts)
    UPDATE alveus.large_set SET upto = greatest(upto, ?3),
        passages = large_set.passages + coalesce((SELECT sum(passages) FROM new), 0),
        tokens = large_set.tokens + coalesce((SELECT sum(tokens) FROM new), 0)
    WHERE set_id = ?2
"""

_EMBEDDED_MEANWHILE = """
    INSERT INTO alveus.large_late (row, set_id) SELECT row, set_id FROM alveus.feature
    WHERE set_id = ? AND ended = 0 AND row = ANY(?) AND vectors IS NOT NULL ON CONFLICT DO NOTHING
"""

_USABLE = """
    SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = to_regclass(?)
"""

_MAKE_INDEX = """
    CREATE INDEX CONCURRENTLY large_vector_DIMENSIONS ON alveus.large_vector
    USING hnsw ((vector::halfvec(DIMENSIONS)) halfvec_cosine_ops) WHERE dimensions = DIMENSIONS
"""

_DROP_INDEX = "DROP INDEX CONCURRENTLY alveus.large_vector_DIMENSIONS"

_ANALYZE = "ANALYZE alveus.feature, alveus.large_vector, alveus.large_text"

_STRAYS_PAST = [
    f"{stray} AND set_id = ?1 AND row > (SELECT upto FROM alveus.large_set WHERE set_id = ?1)"  # noqa: S608 - ours
    for stray in STRAYS[:2]
]

Lender = Callable[[], AbstractContextManager[PostgresConnection]]


class LargeSetBuilder:
    """Keeps the index of large sets up to date, in a thread of its own once it is asked to.

    Args:
        lend: Gives a connection without a transaction.
        write: Gives one with the lock of the ledger.
        alone: Holds the right to do something among all hosts.
    """

    def __init__(
        self,
        schema: str,
        *,
        lend: Lender,
        write: Lender,
        alone: Callable[..., AbstractContextManager[None]],
    ) -> None:
        self._schema, self._lend, self._write, self._alone = schema, lend, write, alone
        self.large = LARGE
        self._stopped = Flag()
        self._impossible = False
        self._indexing: PostgresConnection | None = None
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None

    def wake(self, dimensions: int) -> None:
        """Have a thread bring all large sets up to date, unless one does."""
        with self._mutex:
            works = self._thread is not None and self._thread.is_alive()
            if works or self._impossible or self._stopped.is_set():
                return
            thread = threading.Thread(
                target=self._run, args=(dimensions,), name="alveus large sets", daemon=True
            )
            if began(thread):  # else the next search asks again
                self._thread = thread

    def stop(self) -> None:
        """Stop the thread: its step ends, but the making of an index is broken off."""
        self._stopped.set()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        while thread.is_alive():
            indexing = self._indexing
            if indexing is not None:
                indexing.cancel()
            thread.join(STOP_S)

    def _run(self, dimensions: int) -> None:
        with contextlib.suppress(AlveusError, psycopg.Error):  # the next search asks again
            self.build(dimensions)

    def build(self, dimensions: int) -> bool:
        """Bring all large sets up to date; return whether this server can have them at all.

        Raises:
            StoreBusy: Another process does it.
        """
        with self._alone("index of large sets", wait_s=0):
            with self._lend() as db:
                self._impossible = not self._made(db)
                if self._impossible:
                    return False
                sets = [number for (number,) in query(db, _GROWN, self.large)]
            for number in sets:
                self._build_one(number, dimensions)
        return True

    def _made(self, db: PostgresConnection) -> bool:
        """Make the tables, if they are not there; False: this server, or user, does not let us."""
        if first(db, IS_THERE, f"{self._schema}.large_set"):
            return True
        text = _TABLES.read_text(encoding="utf-8")
        try:
            db.script("CREATE EXTENSION IF NOT EXISTS vector")
            db.script(f"BEGIN; {for_schema(text, self._schema)} COMMIT")
        except (
            errors.UndefinedFile,
            errors.FeatureNotSupported,
            errors.InsufficientPrivilege,
            errors.UndefinedObject,
            errors.DuplicateTable,
        ):
            db.roll_back("ROLLBACK")
            return False
        return True

    def _build_one(self, number: int, dimensions: int) -> None:
        with self._write() as db:
            known = first(db, "SELECT dimensions FROM alveus.large_set WHERE set_id = ?", number)
            if known != dimensions:
                self._clear(db, number)
                db.execute(_START, (number, dimensions))
            for statement in _STRAYS_PAST:
                db.execute(statement, (number,))
        while not self._stopped.is_set() and self._step(number, dimensions):
            self._stopped.wait(REST_S)
        if not self._stopped.is_set():
            self._finish(number, dimensions)

    def _clear(self, db: PostgresConnection, number: int) -> None:
        """Drop what the index has of a set."""
        for table in ("large_set", "large_vector", "large_text", "large_term", "large_late"):
            db.execute(f"DELETE FROM alveus.{table} WHERE set_id = ?", (number,))  # noqa: S608 - ours

    def _step(self, number: int, dimensions: int) -> bool:
        """Take in the next items; return whether there were any."""
        with self._lend() as db:
            found = query(db, _NEXT, number, STEP)
            if not found:
                return False
            db.execute("BEGIN")
            vectors = [v for row in found for v in _vectors(row, number, dimensions)]
            db.write((_VECTOR, vectors), (_TEXT, [_text(row, number) for row in found]))
            db.execute("COMMIT")
        rows = [row[0] for row in found]
        with self._write() as db:
            taken = db.numbers(rows)
            for table in ("large_vector", "large_text"):
                ended = _ENDED.format(table=table)
                db.execute(f"DELETE FROM alveus.{table} WHERE {ended}", (taken, number))  # noqa: S608 - ours
            db.execute(_COUNT, (taken, number, rows[-1]))
            db.execute("DELETE FROM alveus.large_late WHERE row = ANY(?)", (taken,))
            waited = db.numbers([row[0] for row in found if row[3] is None])
            db.execute(_EMBEDDED_MEANWHILE, (number, waited))
        return True

    @contextlib.contextmanager
    def _breakable(self, db: PostgresConnection) -> Generator[None]:
        """Let `stop` cancel what is done in a block."""
        self._indexing = db
        try:
            yield
        finally:
            self._indexing = None

    def _finish(self, number: int, dimensions: int) -> None:
        """Make the index of the vectors, which is quicker once most are there."""

        def script(text: str) -> str:
            return for_schema(text, self._schema).replace("DIMENSIONS", str(dimensions))

        with self._lend() as db, self._breakable(db):
            usable = first(db, _USABLE, script("alveus.large_vector_DIMENSIONS"))
            if usable is False:  # whoever made it was stopped
                db.script(script(_DROP_INDEX))
            if not usable and db.is_pooled:  # what is set there would stay set for others
                db.script(script(_MAKE_INDEX))
            elif not usable:
                db.script(GIVE_MEMORY.format(local=False))
                try:
                    db.script(script(_MAKE_INDEX))
                finally:
                    db.script(TAKE_MEMORY_BACK)
            db.script(script(_ANALYZE))
        with self._write() as db:
            db.execute("UPDATE alveus.large_set SET ready = TRUE WHERE set_id = ?", (number,))


def _vectors(row: Row, number: int, dimensions: int) -> Sequence[tuple[object, ...]]:
    """Return the rows of `_VECTOR` for an item; none if it waits for its vectors."""
    packed = row[3]
    if not packed or len(packed) % dimensions:
        return []
    windows = np.frombuffer(packed, np.int8).reshape(-1, dimensions)
    return [
        (row[0], part, number, dimensions, "[" + ",".join(map(str, window.tolist())) + "]")
        for part, window in enumerate(windows)
        if window.any()
    ]


def _text(row: Row, number: int) -> tuple[object, ...]:
    """Return the row of `_TEXT` for an item."""
    terms, counts = words.unpack(row[1])
    hashes = np.frombuffer(row[1], "<u4", len(row[1]) // 5)
    passages = max(1, int((hashes == words.PASSAGE).sum()))
    tokens = row[2] if passages == 1 else int(counts.sum())
    return row[0], number, [keyed(number, term) for term in terms.tolist()], passages, tokens
