"""What is wrong with a file: its pages, its structure, and contents that contradict each other."""

from __future__ import annotations

import json
from collections.abc import Iterator

import apsw

from alveus.errors import StoreDamaged
from alveus.store.packed_values import restored
from alveus.store.sql.connection import query
from alveus.store.sqlite import checksums, repair, schema
from alveus.store.sqlite.connection import SqliteConnection

CHECKS = {
    "items without features": "SELECT count(*) FROM item "
    "WHERE NOT EXISTS (SELECT 1 FROM feature WHERE set_id = item.set_id "
    "AND feature.ended = ifnull(item.ended, 0) AND feature.row = item.row)",
    "features without items": "SELECT count(*) FROM feature WHERE NOT EXISTS "
    "(SELECT 1 FROM item WHERE item.row = feature.row)",
    "items with several live versions": "SELECT count(*) FROM (SELECT 1 FROM item "
    "WHERE ended IS NULL GROUP BY set_id, id HAVING count(*) > 1)",
    "sets whose count is wrong": "SELECT count(*) FROM memory_set WHERE items != "
    "(SELECT count(*) FROM item WHERE set_id = memory_set.id AND ended IS NULL)",
    "runs whose lane is wrong": "SELECT count(*) FROM run WHERE NOT EXISTS "
    "(SELECT 1 FROM lane WHERE lane.id = run.lane AND lane.agent = run.agent "
    "AND run.number < lane.next)",
    "runs that ended in part": "SELECT count(*) FROM run "
    "WHERE (status >= 2) != (ended IS NOT NULL) OR (now IS NULL) != (actions IS NULL)",
    "steps without a run and a commit": "SELECT count(*) FROM step WHERE NOT EXISTS "
    "(SELECT 1 FROM run WHERE run.id = step.id >> 20 AND now IS NOT NULL "
    "AND (ended IS NULL OR sensory IS NULL)) "
    "OR NOT EXISTS (SELECT 1 FROM journal WHERE journal.n = step.n)",
    "durable calls without a run": "SELECT count(*) FROM durable_call WHERE NOT EXISTS "
    "(SELECT 1 FROM run WHERE run.id = durable_call.step >> 20 AND now IS NOT NULL)",
    "outputs without a step": "SELECT count(*) FROM output WHERE NOT EXISTS "
    "(SELECT 1 FROM step WHERE step.id = output.step AND step.n = output.id >> 20)",
    "sets whose size is wrong": "SELECT count(*) FROM memory_set WHERE bytes != "
    "(SELECT ifnull(sum(ifnull(octet_length(value), 0) + ifnull(octet_length(text), 0) "
    "+ octet_length(metadata)), 0) FROM item WHERE set_id = memory_set.id AND ended IS NULL)",
    "sets whose tokens are wrong": "SELECT count(*) FROM memory_set WHERE tokens != "
    "(SELECT ifnull(sum(tokens), 0) FROM item WHERE set_id = memory_set.id "
    "AND ended IS NULL)",
    "items whose tokens are not those of their features": "SELECT count(*) FROM item "
    "JOIN feature ON feature.set_id = item.set_id AND feature.row = item.row "
    "AND feature.ended = ifnull(item.ended, 0) WHERE feature.tokens != item.tokens",
    "links of versions that are not there": "SELECT count(*) FROM link WHERE NOT EXISTS "
    "(SELECT 1 FROM item WHERE item.row = link.row) "
    "OR NOT EXISTS (SELECT 1 FROM item WHERE item.row = link.source)",
    "compactions without a commit or a set": "SELECT count(*) FROM compaction "
    "WHERE NOT EXISTS (SELECT 1 FROM journal WHERE journal.n = compaction.id >> 20) "
    "OR NOT EXISTS (SELECT 1 FROM memory_set WHERE memory_set.id = set_id) "
    "OR undone IS NOT NULL AND NOT EXISTS (SELECT 1 FROM journal WHERE n = undone)",
    "compactions of versions that they did not change": "SELECT count(*) FROM compaction "
    "WHERE EXISTS (SELECT 1 FROM json_each(retired) AS r JOIN item ON item.row = r.value "
    "WHERE item.set_id != compaction.set_id OR item.ended IS NOT compaction.id >> 20) "
    "OR EXISTS (SELECT 1 FROM json_each(added) AS a JOIN item ON item.row = a.value "
    "WHERE item.set_id != compaction.set_id OR item.begun != compaction.id >> 20)",
    "forgotten runs that left something": "SELECT count(*) FROM run WHERE erased IS NOT NULL "
    "AND (event != '' OR error IS NOT NULL OR ended IS NULL OR EXISTS (SELECT 1 FROM step "
    "WHERE step.id BETWEEN run.id << 20 AND (run.id << 20) + 1048575) OR EXISTS (SELECT 1 "
    "FROM durable_call WHERE step BETWEEN run.id << 20 AND (run.id << 20) + 1048575))",
    "forgotten keys that left something": "SELECT count(*) FROM scope WHERE space = '' "
    "AND (EXISTS (SELECT 1 FROM memory_set WHERE memory_set.scope = scope.id) "
    "OR EXISTS (SELECT 1 FROM node WHERE node.scope = scope.id) "
    "OR EXISTS (SELECT 1 FROM lane JOIN run ON run.lane = lane.id "
    "WHERE lane.scope = scope.id AND run.erased IS NULL))",
    "receipts without a commit": "SELECT count(*) FROM receipt WHERE NOT EXISTS "
    "(SELECT 1 FROM journal WHERE journal.n = receipt.n)",
    "nodes whose parent is no object": "SELECT count(*) FROM node AS child "
    "WHERE ended IS NULL AND parent != '' AND NOT EXISTS (SELECT 1 FROM node "
    "WHERE scope = child.scope AND value IS NULL AND ended IS NULL "
    "AND iif(parent = '', name, parent || '.' || name) = child.parent)",
}
"""What is not to be found, and how it is counted."""

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
"""The columns of each table that hold what users wrote, after the one that names a row."""

_PLAIN = {"name", "parent", "text", "id", "speaker", "role", "session", "action", "space", "key"}
"""Columns that are text, not JSON."""

_FAILURES = (apsw.Error, UnicodeDecodeError)


def damage(db: SqliteConnection) -> str | None:
    """Return the first thing that is wrong with the file itself; None: nothing."""
    return next(_structure(db), None)


def problems(db: SqliteConnection, *, deep: bool = False) -> list[str]:
    """Return what is wrong with the file; empty: nothing.

    Args:
        deep: Read every page, used or not; and, where that is sound, every text, too.
    """
    found = [f"page {n} does not match its checksum" for n in _damaged_pages(db, deep=deep)]
    found += _structure(db)
    found += _notes(db)
    for what, sql in CHECKS.items():
        try:
            count = db.execute(sql).get
        except _FAILURES as error:
            found.append(f"{what}: this cannot be checked: {_words(error)}")
        else:
            found += [f"{count} {what}"] if count else []
    return found if found or not deep else [*unreadable(db), *_contradicting(db)]


def _damaged_pages(db: SqliteConnection, *, deep: bool) -> list[int]:
    return checksums.damaged_pages(db) if deep else []


def _structure(db: SqliteConnection) -> Iterator[str]:
    """Yield what SQLite finds wrong with pages, tables and indexes; of those that it can read."""
    try:
        yield from _checked(db, "PRAGMA integrity_check")
    except _FAILURES as error:
        told = list(_by_table(db))
        yield from told or [_words(error)]


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
    """Yield where a text is no UTF-8, or a value neither JSON nor packed."""
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
    """Yield which items are not those that their features were made of.

    None of an earlier schema: what words read of a text may have changed since.
    """
    if db.pragma("user_version") != schema.SCHEMA:
        return
    last = -1
    try:
        while some := query(db, repair.SOME, last, repair.STEP):
            for row in some:
                if repair.is_contradicted(row):
                    yield f"item {row[0]} is not what its feature was made of"
            last = some[-1][0]
    except (*_FAILURES, StoreDamaged) as error:
        yield f"items cannot be compared with their features: {_words(error)}"


def _is_readable(value: bytes | None, kind: str, *, plain: bool) -> bool:
    """Return whether a column can be read: of what kind it is, and its content as a blob."""
    if value is None or kind not in {"text", "blob"}:
        return value is None
    try:
        text = restored(value) if kind == "blob" else value.decode()
        if text and not plain:
            json.loads(text)
    except (StoreDamaged, ValueError):
        return False
    return True
