"""Candidates of a search in a large set, chosen by the server.

By meaning through pgvector: HNSW over half-precision vectors, with an iterative scan, so that a
filter is looked at while the index is walked. By words through an inverted index of term hashes,
from the rarest term on. What was added since the index was brought up to date comes along whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from alveus.store.filters import All, Condition, Filter, Key, Node, Some
from alveus.store.finder import CandidateQuery, LargeSet
from alveus.store.postgres.dialect import NumberArray, TextArray
from alveus.store.sql.connection import Connection, Row
from alveus.store.sql.rows import FEATURE_COLUMNS
from alveus.values import wire

LARGE = 200_000
"""Live items from which a set is searched on the server; below, its features fit into RAM."""

TAIL = 2_000
"""Items that are not in the index yet, up to which a set is searched by it."""

WAKING = 200
"""Items that are not in the index yet, from which it is brought up to date."""

FEW_TEXTS = 4_000
"""A term that more items hold brings none of them by itself."""

SCANNED = 20_000
"""Items that a filter alone chooses at most."""

SPEAKERS = 2_000
"""Speakers of a set that questions are searched for."""

TERM_BITS = 32

Query = tuple[str, Sequence[object]]


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

_AROUND = """
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
"""For one transaction. The planner takes a third of the set for the tail, which it cannot know, and
would read the whole set in place of the few thousand rows that are chosen."""


STRAYS = [
    f"""DELETE FROM alveus.{table} WHERE NOT EXISTS (SELECT 1 FROM alveus.feature AS one
        WHERE one.set_id = {table}.set_id AND one.ended = 0 AND one.row = {table}.row)"""  # noqa: S608 - ours
    for table in ("large_vector", "large_text", "large_late")
]
"""What takes out of the index what ended while its builder was killed."""


def read_large_set(
    db: Connection,
    set_number: int,
    terms: Sequence[int],
    *,
    dimensions: int,
    wake: Callable[[], None],
) -> LargeSet | None:
    """See `Finder.large_set`; *wake* has the index brought up to date."""
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
        parts.append(_by_filter(_matching(wanted.where, bindings)))
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


def read_neighbours(db: Connection, set_number: int, rows: Sequence[int]) -> list[list[int]]:
    """See `Finder.neighbours`."""
    ((*windows,),) = db.query_all((_AROUND, (set_number, db.numbers(rows))))
    return [window for (window,) in windows]


def keyed(set_number: int, term: int) -> int:
    """Return what stands for a term of a set in the index."""
    return set_number << TERM_BITS | term


# --- what is chosen ---------------------------------------------------------------------------


def _by_filter(condition: str) -> str:
    return f"""
        SELECT one.row FROM alveus.feature AS one
        WHERE one.set_id = ?1 AND one.ended = 0 AND {condition} LIMIT {SCANNED}
    """  # noqa: S608 - ours


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
    """Yield what brings items that hold the rarest terms; the whole set's, whatever the filter."""
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
    for number in range(len(common), 1, -1):  # what holds several of the common ones
        bindings.append(NumberArray(sorted(common[:number])))
        yield _holding(len(bindings), "@>", wanted.texts)
        if number <= len(common) - 2:
            break


def _holding(binding: int, operator: str, limit: int) -> str:
    return f"""
        SELECT row FROM alveus.large_text WHERE terms {operator} ?{binding}::bigint[] LIMIT {limit}
    """  # noqa: S608 - ours


# --- a filter, as far as the server can look at it --------------------------------------------

_OPERATORS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "eq": "="}

_NUL = r"'\u0000'"
"""NUL in JSON, which a text of PostgreSQL cannot hold: to reach such a field is an error."""

_NUMBERS = {"$time": "one.time", "$importance": "one.importance"}

_NAMES = {
    "$id": "one.id",
    "$speaker": "one.speaker",
    "$role": "one.role",
    "$session": "one.session",
}


def _matching(where: Filter | None, bindings: list[object]) -> str:
    """Return a condition that everything passes which matches; others may pass it too."""
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
    """Return that the metadata has a scalar at *path*, compared by its text where that is sure."""
    kind, value = key
    if kind != "text" or value is None or any(map(wire.is_mark, path)) or "\0" in str(value):
        return "TRUE"
    bindings.append(TextArray(path))
    bindings.append(value)
    found = f"(one.metadata::json #>> ?{len(bindings) - 1}::text[]) = ?{len(bindings)}::text"
    return f"CASE WHEN strpos(one.metadata, {_NUL}) > 0 THEN TRUE ELSE {found} END"
