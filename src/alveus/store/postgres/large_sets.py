"""Large sets: the server chooses the candidates of a search, and keeps an index of their items.

The server chooses items by meaning through pgvector: an HNSW index over half-precision vectors,
with an iterative scan that applies a filter. It chooses items by words through an inverted index of
term hashes, beginning with the rarest term. Items that the index does not contain yet are all
candidates.

`LargeSetBuilder` inserts vectors and terms without the lock of the ledger. Rows that ended
meanwhile are deleted under the lock, in the transaction that notes the progress.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import psycopg
from psycopg import errors

from alveus.errors import AlveusError
from alveus.store.filters import All, Condition, Filter, Key, Node, Some
from alveus.store.finder import CandidateQuery, LargeSet
from alveus.store.postgres.connection import PostgresConnection
from alveus.store.postgres.dialect import NumberArray, TextArray, for_schema
from alveus.store.postgres.owners import Lender
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.store.sql.rows import FEATURE_COLUMNS
from alveus.values import wire, words
from alveus.values.forks import Flag, began

LARGE = 200_000
"""The server chooses candidates in sets of at least this many live items. Others fit in RAM."""

TAIL = 2_000
"""The index of a set is used only if at most this many items are missing from it."""

WAKING = 200
"""The builder is started if more than this many items are missing from an index."""

FEW_TEXTS = 4_000
"""A term that more items than this contain does not choose candidates alone."""

SCANNED = 20_000
"""The most items that a filter alone may choose."""

SPEAKERS = 2_000
"""The most speakers of a set whose names are looked for in a question."""

TERM_BITS = 32

STEP = 500
"""The most items that the builder indexes in one step."""

STOP_S = 0.1
"""The pause between two attempts to cancel the creation of an index."""

REST_S = 0.05
"""The pause between two steps of the builder, which lets others write."""

GIVE_MEMORY = """
    SELECT set_config('maintenance_work_mem', '512MB', {local})
    WHERE pg_size_bytes(current_setting('maintenance_work_mem')) < pg_size_bytes('512MB')
"""
"""Raises the memory for the creation of an index, which else takes many times as long."""

TAKE_MEMORY_BACK = "RESET maintenance_work_mem"

_TABLES = Path(__file__).with_name("large_sets.sql")

IS_THERE = "SELECT coalesce(has_table_privilege(to_regclass(?), 'SELECT'), FALSE)"

_TAIL = """
    SELECT row FROM alveus.feature WHERE set_id = ?1 AND ended = 0
        AND row > (SELECT upto FROM alveus.large_set WHERE set_id = ?1)
    UNION SELECT row FROM alveus.large_late WHERE set_id = ?1
"""

STATE = f"""
    SELECT dimensions, ready, passages, tokens,
        (SELECT count(*) FROM ({_TAIL} LIMIT {TAIL + 1}) AS tail)
    FROM alveus.large_set WHERE set_id = ?1
"""  # noqa: S608 - ours

_ITEMS = "SELECT items FROM alveus.memory_set WHERE id = ?"

_COUNTS = "SELECT term, texts FROM alveus.large_term WHERE term = ANY(?)"

_SPEAKERS = f"""
    WITH RECURSIVE heard AS (
        (SELECT alveus.digest(speaker) AS digest, speaker FROM alveus.feature
         WHERE set_id = ?1 AND ended = 0 AND speaker IS NOT NULL
         ORDER BY alveus.digest(speaker) LIMIT 1)
        UNION ALL
        SELECT later.digest, later.speaker FROM heard, LATERAL (
            SELECT alveus.digest(speaker) AS digest, speaker FROM alveus.feature
            WHERE set_id = ?1 AND ended = 0 AND speaker IS NOT NULL
                AND alveus.digest(speaker) > heard.digest
            ORDER BY alveus.digest(speaker) LIMIT 1) AS later)
    SELECT speaker FROM heard LIMIT {SPEAKERS}
"""  # noqa: S608 - ours

AROUND = """
    SELECT array(
        SELECT row FROM (
            (SELECT row, time, first FROM alveus.feature AS other WHERE other.set_id = one.set_id
                AND other.ended = 0 AND alveus.digest(other.session) = alveus.digest(one.session)
                AND other.session IS NOT NULL AND (other.time, other.first) <= (one.time, one.first)
             ORDER BY other.time DESC, other.first DESC LIMIT 3)
            UNION ALL
            (SELECT row, time, first FROM alveus.feature AS other WHERE other.set_id = one.set_id
                AND other.ended = 0 AND alveus.digest(other.session) = alveus.digest(one.session)
                AND other.session IS NOT NULL AND (other.time, other.first) > (one.time, one.first)
             ORDER BY other.time, other.first LIMIT 2)) AS near
        ORDER BY time, first)
    FROM alveus.feature AS one
    WHERE one.set_id = ? AND one.ended = 0 AND one.row = ANY(?) AND one.session IS NOT NULL
"""


FEATURES_OF = f"""
    WITH named AS (SELECT row AS its_row, coalesce(ended, 0) AS its_end FROM alveus.item
        WHERE row = ANY(?2))
    SELECT {FEATURE_COLUMNS} FROM named JOIN alveus.feature
        ON set_id = ?1 AND ended = its_end AND row = its_row
"""  # noqa: S608 - ours


_SETTINGS = """
    SELECT set_config('hnsw.ef_search', ?, TRUE),
        set_config('hnsw.iterative_scan', 'strict_order', TRUE),
        set_config('enable_hashjoin', 'off', TRUE), set_config('enable_mergejoin', 'off', TRUE),
        set_config('max_parallel_workers_per_gather', '0', TRUE)
"""
"""Settings for one transaction.

Without them, the planner would read the whole set instead of a few thousand rows.
"""


STRAYS = [
    f"""DELETE FROM alveus.{table} WHERE NOT EXISTS (SELECT 1 FROM alveus.feature AS one
        WHERE one.set_id = {table}.set_id AND one.ended = 0 AND one.row = {table}.row)"""  # noqa: S608 - ours
    for table in ("large_vector", "large_text", "large_late")
]
"""Deletes index rows of items that are not live. A killed builder may leave such rows."""


def read_large_set(
    db: Connection,
    set_number: int,
    terms: Sequence[int],
    *,
    dimensions: int,
    wake: Callable[[], None],
) -> LargeSet | None:
    """See `Finder.large_set`.

    Args:
        wake: Starts the builder of the index. Called if the index is missing or outdated.
    """
    keys = db.numbers([keyed(set_number, term) for term in terms])
    states, items, counts, speakers = db.query_all(
        (STATE, (set_number,)),
        (_ITEMS, (set_number,)),
        (_COUNTS, (keys,)),
        (_SPEAKERS, (set_number,)),
    )
    if not states or not items:
        wake()
        return None
    ((known, ready, passages, tokens, behind),) = states
    usable = known == dimensions and ready and behind <= TAIL
    if behind > WAKING or not usable:
        wake()
    if not usable:
        return None
    found = {key & (1 << TERM_BITS) - 1: number for key, number in counts}
    documents = items[0][0]
    return LargeSet(
        documents,
        passages,
        tokens,
        {term: found.get(term, 0) for term in terms},
        [speaker for (speaker,) in speakers],
    )


def read_candidates(
    db: Connection, set_number: int, wanted: CandidateQuery, *, dimensions: int
) -> list[Row]:
    """See `Finder.candidates`."""
    parts: list[str] = [_TAIL]
    bindings: list[object] = [set_number]
    if wanted.scan:
        parts.append(
            "SELECT one.row FROM alveus.feature AS one WHERE one.set_id = ?1 AND one.ended = 0 "  # noqa: S608 - ours
            f"AND {_matching(wanted.where, bindings)} LIMIT {SCANNED}"
        )
    elif wanted.vector:
        bindings.append("[" + ",".join(f"{number:.6g}" for number in wanted.vector) + "]")
        matching = _matching(wanted.where, bindings)
        about = _about(wanted, bindings)
        conditions = (matching, *[f"{matching} AND {one}" for one in about])
        parts += [_by_meaning(one, dimensions, wanted.vectors) for one in conditions]
    parts += _by_words(set_number, wanted, bindings)
    chosen = " UNION ".join(f"({part})" for part in parts)
    sql = f"""
        WITH chosen AS MATERIALIZED ({chosen})
        SELECT {FEATURE_COLUMNS} FROM alveus.feature
        WHERE set_id = ?1 AND ended = 0 AND row IN (SELECT row FROM chosen) ORDER BY row
    """  # noqa: S608 - ours
    _, _, rows, _ = db.query_all(
        ("BEGIN READ ONLY", ()),
        (_SETTINGS, (str(min(1_000, wanted.vectors)),)),
        (sql, bindings),
        ("COMMIT", ()),
    )
    return rows


def keyed(set_number: int, term: int) -> int:
    """Return the number that stands for a set's term in the index."""
    return set_number << TERM_BITS | term


# --- the queries of candidates ----------------------------------------------------------------


_LIVE = """
    JOIN alveus.feature AS one
        ON one.set_id = near.set_id AND one.ended = 0 AND one.row = near.row
"""


def _by_meaning(condition: str, dimensions: int, limit: int) -> str:
    kind = f"halfvec({dimensions})"
    looked_at = "" if condition == "TRUE" else _LIVE
    return f"""
        SELECT row FROM (
            SELECT near.row FROM alveus.large_vector AS near {looked_at}
            WHERE near.set_id = ?1 AND near.dimensions = {dimensions} AND {condition}
            ORDER BY (near.vector::{kind}) <=> (?2::text::{kind}) LIMIT {limit}) AS nearest
    """  # noqa: S608 - ours


def _about(wanted: CandidateQuery, bindings: list[object]) -> Iterator[str]:
    for column, name in (("speaker", wanted.speaker), ("role", wanted.role)):
        if name is not None:
            bindings.append(name)
            yield f"one.{column} = ?{len(bindings)}::text"


def _by_words(set_number: int, wanted: CandidateQuery, bindings: list[object]) -> Iterator[str]:
    """Yield queries for the items that contain the rarest terms. Their filter is ignored."""
    held = sorted((number, term) for term, number in wanted.counts.items() if number)
    chosen: list[int] = []
    total = 0
    for number, term in held:
        if number > FEW_TEXTS or total >= wanted.texts:
            break
        chosen.append(keyed(set_number, term))
        total += number
    if chosen:
        bindings.append(NumberArray(sorted(chosen)))
        yield _holding(len(bindings), "&&", FEW_TEXTS + wanted.texts)
    common = [keyed(set_number, term) for _, term in held if keyed(set_number, term) not in chosen]
    for number in range(len(common), 1, -1):  # items that contain several of the common terms
        bindings.append(NumberArray(sorted(common[:number])))
        yield _holding(len(bindings), "@>", wanted.texts)
        if number <= len(common) - 2:
            break


def _holding(binding: int, operator: str, limit: int) -> str:
    return f"""
        SELECT row FROM alveus.large_text WHERE terms {operator} ?{binding}::bigint[] LIMIT {limit}
    """  # noqa: S608 - ours


# --- a filter as SQL, as far as the server can apply it ---------------------------------------

_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "eq": "="}

_NUL = r"'\u0000'"
"""U+0000 in JSON. Reading such a field is an error, as a text of PostgreSQL cannot contain it."""

_NUMBERS = {"$time": "one.time", "$importance": "one.importance"}

_NAMES = {
    "$id": "one.id",
    "$speaker": "one.speaker",
    "$role": "one.role",
    "$session": "one.session",
}


def _matching(where: Filter | None, bindings: list[object]) -> str:
    """Return an SQL condition that is true for all items that match; others may meet it too.

    Appends its bindings to *bindings*.
    """
    return "TRUE" if where is None else _sql(where.root, bindings)


def _sql(node: Node, bindings: list[object]) -> str:
    if isinstance(node, Condition):
        return _condition(node, bindings)
    if isinstance(node, All):
        return _joined(" AND ", [_sql(part, bindings) for part in node.parts], "TRUE")
    if isinstance(node, Some):
        return _joined(" OR ", [_sql(part, bindings) for part in node.parts], "FALSE")
    return "TRUE"


def _joined(word: str, parts: Sequence[str], none: str) -> str:
    return f"({word.join(parts)})" if parts else none


def _condition(condition: Condition, bindings: list[object]) -> str:
    operands = sorted(condition.operands, key=repr)
    if condition.is_item_field:
        return _of_field(condition.path[0], condition.op, operands, bindings)
    if condition.op not in ("eq", "in"):
        return "TRUE"
    return _joined(
        " OR ", [_in_metadata(condition.path, one, bindings) for one in operands], "FALSE"
    )


def _of_field(field: str, op: str, operands: Sequence[Key], bindings: list[object]) -> str:
    column = _NUMBERS.get(field) or _NAMES.get(field)
    if column is None or (op != "in" and op not in _OPERATORS):
        return "TRUE"
    if field in _NAMES and op not in ("eq", "in"):
        return "TRUE"
    kind = "double precision" if field in _NUMBERS else "text"
    each: list[str] = []
    for _, operand in operands:
        bindings.append(float(operand) if field in _NUMBERS and operand is not None else operand)
        each.append(f"{column} {_OPERATORS.get(op, '=')} ?{len(bindings)}::{kind}")
    return _joined(" OR ", each, "FALSE")


def _in_metadata(path: Sequence[str], key: Key, bindings: list[object]) -> str:
    """Return an SQL condition that a field of the metadata equals a scalar.

    Returns ``TRUE``, so that all items meet it, if SQL cannot compare the scalar or the path.
    """
    kind, value = key
    if kind != "text" or value is None or any(map(wire.is_mark, path)) or "\0" in str(value):
        return "TRUE"
    bindings.append(TextArray(path))
    bindings.append(value)
    found = f"(one.metadata::json #>> ?{len(bindings) - 1}::text[]) = ?{len(bindings)}::text"
    return f"CASE WHEN strpos(one.metadata, {_NUL}) > 0 THEN TRUE ELSE {found} END"


# --- the index ------------------------------------------------------------------------------------

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


class LargeSetBuilder:
    """Keeps the index of large sets up to date, in a thread that `wake` starts.

    Args:
        lend: Lends a connection for a block.
        write: Lends a connection in a transaction that holds the lock of the ledger.
        alone: Holds an exclusive right during a block; see `PostgresDatabase.alone`.
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
        """Start a thread that brings the index of all large sets up to date.

        Does nothing if such a thread runs, or if the server cannot index sets.
        """
        with self._mutex:
            works = self._thread is not None and self._thread.is_alive()
            if works or self._impossible or self._stopped.is_set():
                return
            thread = threading.Thread(
                target=self._run, args=(dimensions,), name="alveus large sets", daemon=True
            )
            if began(thread):  # else the next search calls `wake` again
                self._thread = thread

    def stop(self) -> None:
        """Stop the thread after its current step. Cancels the creation of an index."""
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
        with contextlib.suppress(AlveusError, psycopg.Error):  # the next search tries again
            self.build(dimensions)

    def build(self, dimensions: int) -> bool:
        """Bring the index of all large sets up to date.

        Returns False if this server cannot index sets, or this user may not create the tables.

        Raises:
            StoreBusy: Another process does this.
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
        """Create the tables of the index if they are missing.

        Returns False if the server lacks pgvector, or this user may not create the tables.
        """
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
        """Delete the rows of a set from the index."""
        for table in ("large_set", "large_vector", "large_text", "large_term", "large_late"):
            db.execute(f"DELETE FROM alveus.{table} WHERE set_id = ?", (number,))  # noqa: S608 - ours

    def _step(self, number: int, dimensions: int) -> bool:
        """Index the next `STEP` items of a set. Return False if no item was left."""
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

    def _finish(self, number: int, dimensions: int) -> None:
        """Create the HNSW index of the vectors, and mark the set's index as ready.

        This is quicker than inserting the vectors into an existing index.
        """

        def script(text: str) -> str:
            return for_schema(text, self._schema).replace("DIMENSIONS", str(dimensions))

        with self._lend() as db, contextlib.ExitStack() as end:
            end.callback(setattr, self, "_indexing", None)
            self._indexing = db
            usable = first(db, _USABLE, script("alveus.large_vector_DIMENSIONS"))
            if usable is False:  # the builder was stopped while it made the index
                db.script(script(_DROP_INDEX))
            if not usable and db.raw.is_pooled:  # the setting would stay for other clients
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
    """Return the bindings of `_VECTOR` for an item: one row per vector, or none without vectors."""
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
    """Return the bindings of `_TEXT` for an item."""
    terms, counts = words.unpack(row[1])
    hashes = np.frombuffer(row[1], "<u4", len(row[1]) // 5)
    passages = max(1, int((hashes == words.PASSAGE).sum()))
    tokens = row[2] if passages == 1 else int(counts.sum())
    return row[0], number, [keyed(number, term) for term in terms.tolist()], passages, tokens
