"""Finds problems of a file, and rebuilds derived data: features, counts and missing vectors.

`repair_derived` never changes data that are not derived. If they are damaged, only a backup can
restore them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import apsw

from alveus.errors import StoreDamaged
from alveus.store import Scope
from alveus.store.packed_values import restored
from alveus.store.records import has_meaning, terms_of
from alveus.store.sets import Definition
from alveus.store.sql.connection import Row, query
from alveus.store.sqlite import checksums, schema
from alveus.store.sqlite.connection import SqliteConnection
from alveus.values import wire, words

STEP = 500
"""The most versions of items that are read at a time."""

_STRAY = """
    DELETE FROM feature WHERE NOT EXISTS (SELECT 1 FROM item WHERE item.row = feature.row
        AND item.set_id = feature.set_id AND ifnull(item.ended, 0) = feature.ended)
"""

ITEMS_AND_FEATURES = """
    SELECT item.row, item.set_id, ifnull(item.ended, 0), item.first, item.id, item.begun, item.time,
        item.importance, item.speaker, item.role, item.session, item.metadata, item.text,
        item.tokens, feature.row IS NOT NULL, feature.first, feature.id, feature.begun,
        feature.time, feature.importance, feature.speaker, feature.role, feature.session,
        feature.metadata, feature.terms, feature.tokens, feature.temporal, feature.vectors
    FROM item LEFT JOIN feature ON feature.set_id = item.set_id AND feature.row = item.row
        AND feature.ended = ifnull(item.ended, 0)
    WHERE item.row > ? ORDER BY item.row LIMIT ?
"""

_MAKE = """
    INSERT OR REPLACE INTO feature (set_id, ended, row, first, id, begun, time, importance, speaker,
        role, session, metadata, terms, tokens, temporal, vectors)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_COUNTS = """
    UPDATE memory_set SET (items, bytes, tokens) = (SELECT count(*),
        ifnull(sum(ifnull(octet_length(value), 0) + ifnull(octet_length(text), 0)
            + octet_length(metadata)), 0), ifnull(sum(tokens), 0)
        FROM item WHERE set_id = memory_set.id AND ended IS NULL)
    WHERE (items, bytes, tokens) IS NOT (SELECT count(*),
        ifnull(sum(ifnull(octet_length(value), 0) + ifnull(octet_length(text), 0)
            + octet_length(metadata)), 0), ifnull(sum(tokens), 0)
        FROM item WHERE set_id = memory_set.id AND ended IS NULL)
"""


def repair_derived(
    db: SqliteConnection,
    *,
    dimensions: Callable[[Scope], int | None],
    progress: Callable[[int], None],
) -> list[str]:
    """Rebuild missing or wrong derived data. Return a line for each kind of repair.

    Args:
        dimensions: Returns the dimensions of a scope's vectors: None if they are unknown, 0 if the
            scope has no vectors.
        progress: Called with the number of items examined since the last call.
    """
    done = Counter[str]()
    query(db, _STRAY)
    done["features of no item removed"] += db.changes()
    sizes = _sizes(db, dimensions)
    last = -1
    while some := query(db, ITEMS_AND_FEATURES, last, STEP):
        for row in some:
            _mend(db, row, sizes.get(row[1]), done)
        last = some[-1][0]
        progress(len(some))
    query(db, "DELETE FROM staged WHERE NOT EXISTS (SELECT 1 FROM item WHERE row = staged.row)")
    done["staged vectors of no item removed"] += db.changes()
    query(db, _COUNTS)
    done["counts of sets made again"] += db.changes()
    for number, text, found in query(db, "SELECT id, definition, retention FROM memory_set"):
        right = Definition.from_json(wire.decode_plain(text)).retention_us
        if found != right:
            query(db, "UPDATE memory_set SET retention = ? WHERE id = ?", right, number)
            done["retentions of sets noted again"] += 1
    return [f"{number:,} {what}" for what, number in done.items() if number]


def _sizes(
    db: SqliteConnection, dimensions: Callable[[Scope], int | None]
) -> Mapping[int, int | None]:
    rows = query(
        db, "SELECT memory_set.id, space, key FROM memory_set JOIN scope ON scope.id = scope"
    )
    return {number: dimensions(Scope(space, key or None)) for number, space, key in rows}


def _mend(db: SqliteConnection, row: Row, dimensions: int | None, done: Counter[str]) -> None:
    """Rebuild the feature of one version, and its count of tokens, if they are missing or wrong.

    Args:
        row: A row of `ITEMS_AND_FEATURES`.
        done: Counts the repairs by kind.
    """
    number, set_id, ended, *fields = row[:12]
    text, tokens, there = row[12:15]
    metadata, read = fields[8], _terms_of_row(row)
    vectors, problem = _vectors(row[27], text, metadata, dimensions, there=bool(there))
    wrong = not there or [*fields, *read] != list(row[15:27])
    if wrong or problem:
        query(db, _MAKE, set_id, ended, number, *fields, *read, vectors)
    if wrong:
        done["features made again" if there else "missing features made"] += 1
    if problem:
        done["vectors to be made again"] += 1
    if tokens != read.tokens:
        query(db, "UPDATE item SET tokens = ? WHERE row = ?", read.tokens, number)
        done["counts of tokens made again"] += 1


def _terms_of_row(row: Row) -> words.TextTerms:
    """Return the terms of the item in a row of `ITEMS_AND_FEATURES`."""
    time, speaker, metadata, text = row[6], row[8], row[11], row[12]
    return terms_of(text, time, speaker, metadata)


def _vectors(
    found: bytes | None, text: str | None, metadata: str, dimensions: int | None, *, there: bool
) -> tuple[bytes | None, bool]:
    """Return the vectors to store, and whether *found* was wrong or missing.

    The vectors are None if they must be embedded again.

    Args:
        there: Whether the version has a feature.
    """
    meant = has_meaning(text or "", metadata)
    if not there:
        return (None, True) if meant and dimensions != 0 else (b"", False)
    if not dimensions or found is None:
        return found, False
    if found:
        whole = len(found) % dimensions == 0
        return (found, False) if whole else (None if meant else b"", True)
    return (None, True) if meant else (b"", False)


CHECKS = Path(__file__).with_name("checks.sql")
"""The file with queries whose counts must be 0. The comment above a query describes the problem."""

CONTENTS = {
    "journal": ("n", "result", "ended"),
    "node": ("id", "value", "parent", "name"),
    "memory_set": ("id", "definition", "name"),
    "item": ("row", "value", "metadata", "sources", "text", "id", "speaker", "role", "session"),
    "compaction": ("id", "how", "retired", "added"),
    "run": ("id", "event", "actions", "error"),
    "step": ("id", "sent", "sensory", "looked", "skipped", "action"),
    "durable_call": ("step << 20 | position", "outcome", "name"),
    "output": ("id", "event"),
    "receipt": ("id", "asked", "erased", "open", "held"),
    "note": ("name", "text"),
    "scope": ("id", "space", "key"),
}
"""For each table, the expression that identifies a row, and the columns that hold users' data."""

_PLAIN = {"name", "parent", "text", "id", "speaker", "role", "session", "action", "space", "key"}
"""The columns that hold plain text, not JSON."""

_FAILURES = (apsw.Error, UnicodeDecodeError)


def damage(db: SqliteConnection) -> str | None:
    """Return the first problem of the file's structure, or None if the structure is sound."""
    return next(_structure(db), None)


def problems(db: SqliteConnection, *, deep: bool = False) -> list[str]:
    """Return the problems of the file, as texts. The list is empty if no problem was found.

    Args:
        deep: Also verify the checksum of every page, used or not. If no problem was found, then
            also read every text and value, and compare the items with their features.
    """
    pages = checksums.damaged_pages(db) if deep else ()
    found = [f"page {number} does not match its checksum" for number in pages]
    found += _structure(db)
    found += _notes(db)
    for what, sql in re.findall(
        r"^-- (.+)\n(SELECT [^;]+);", CHECKS.read_text("utf-8"), re.MULTILINE
    ):
        try:
            count = db.execute(sql).get
        except _FAILURES as error:
            found.append(f"{what}: this cannot be checked: {_words(error)}")
        else:
            found += [f"{count} {what}"] if count else []
    return found if found or not deep else [*unreadable(db), *_contradicting(db)]


def _structure(db: SqliteConnection) -> Iterator[str]:
    """Yield SQLite's complaints about pages, tables and indexes, as far as SQLite can read them."""
    try:
        yield from _checked(db, "PRAGMA integrity_check")
    except _FAILURES as error:
        yield from list(_by_table(db)) or [_words(error)]


def _notes(db: SqliteConnection) -> list[str]:
    try:
        noted = checksums.are_noted(db)
    except _FAILURES as error:
        return [f"table note cannot be read: {_words(error)}"]
    return [] if noted else ["table note does not say that pages have checksums"]


def _by_table(db: SqliteConnection) -> Iterator[str]:
    try:
        tables = query(db, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    except _FAILURES as error:
        yield f"the schema cannot be read: {_words(error)}"
        return
    for (name,) in tables:
        try:
            yield from _checked(db, f"PRAGMA integrity_check('{name}')")
        except _FAILURES as error:
            yield f"table {name} cannot be read: {_words(error)}"


def _checked(db: SqliteConnection, sql: str) -> Iterator[str]:
    yield from (str(line) for (line,) in query(db, sql) if line != "ok")


def _words(error: Exception) -> str:
    if checksums.is_mismatch(error):
        return "a page does not match its checksum"
    return f"{type(error).__name__}: {error}"


def unreadable(db: SqliteConnection) -> Iterator[str]:
    """Yield texts that are not UTF-8, and values that are neither JSON nor packed."""
    for table, (name, *columns) in CONTENTS.items():
        read = ", ".join(f"typeof({column}), CAST({column} AS BLOB)" for column in columns)
        try:
            for row, *found in db.execute(f"SELECT {name}, {read} FROM {table}"):  # noqa: S608 - ours
                for column, kind, value in zip(columns, found[::2], found[1::2], strict=True):
                    if not _is_readable(value, kind, plain=column in _PLAIN):
                        yield f"{column} of {table} {row!r} cannot be read"
        except _FAILURES as error:
            yield f"table {table} cannot be read: {_words(error)}"


def _contradicting(db: SqliteConnection) -> Iterator[str]:
    """Yield a text for each item that differs from its feature.

    A file with an earlier schema is not read: that schema may have split texts into other terms.
    """
    if db.pragma("user_version") != schema.SCHEMA:
        return
    last = -1
    try:
        while some := query(db, ITEMS_AND_FEATURES, last, STEP):
            for row in some:
                if row[24] and [*row[3:12], *_terms_of_row(row)] != list(row[15:27]):
                    yield f"item {row[0]} is not what its feature was made of"
            last = some[-1][0]
    except (*_FAILURES, StoreDamaged) as error:
        yield f"items cannot be compared with their features: {_words(error)}"


def _is_readable(value: bytes | None, kind: str, *, plain: bool) -> bool:
    """Return whether the content of a column can be read.

    Args:
        value: The content, as a blob.
        kind: The SQLite type of the content.
        plain: Whether the text is not JSON.
    """
    if value is None or kind not in {"text", "blob"}:
        return value is None
    try:
        text = restored(value) if kind == "blob" else value.decode()
        if text and not plain:
            json.loads(text)
    except (StoreDamaged, ValueError):
        return False
    return True
