"""Vectors that come after their items, the notes that say whose they are, and changing both."""

from __future__ import annotations

import json
from collections.abc import Sequence

from alveus.errors import NotFound
from alveus.store import Compaction, Past, PendingVectors, Scope
from alveus.store.checks import check_next, check_note, check_past
from alveus.store.sql.batched_inserts import PendingRows
from alveus.store.sql.connection import Connection, first, query

_PENDING = """
    SELECT feature.set_id, feature.row, item.text, item.metadata
    FROM feature JOIN item ON item.row = feature.row
"""

_MEANT = """
    (vectors IS NULL OR octet_length(vectors) != 0
        OR EXISTS (SELECT 1 FROM item WHERE item.row = feature.row
            AND is_meant(coalesce(text, ''), item.metadata)))
"""

FILL = """
    UPDATE feature SET vectors = ?3 WHERE set_id = ?1 AND row = ?2 AND vectors IS NULL
    AND ended = (SELECT coalesce(ended, 0) FROM item WHERE row = ?2)
"""


STAGE = """
    INSERT INTO staged (row, vectors) SELECT row, ?2 FROM item WHERE row = ?1
    ON CONFLICT (row) DO UPDATE SET vectors = excluded.vectors
"""
_SWAP = f"""
    UPDATE feature
    SET vectors = (SELECT vectors FROM staged WHERE staged.row = feature.row)
    WHERE set_id IN (SELECT value FROM carray(?)) AND {_MEANT}
"""  # noqa: S608 - ours

_UNSTAGED = f"""{_PENDING}
    WHERE feature.set_id IN (SELECT value FROM carray(?2)) AND {_MEANT}
    AND NOT EXISTS (SELECT 1 FROM staged WHERE staged.row = feature.row)
    ORDER BY feature.ended, feature.row LIMIT ?1
"""  # noqa: S608 - ours


def pending(db: Connection, set_numbers: Sequence[int] | None, limit: int) -> list[PendingVectors]:
    """Return versions that wait for their vectors, live ones and earlier ones first."""
    where, sets = "vectors IS NULL", ()
    if set_numbers is not None:
        where += " AND feature.set_id IN (SELECT value FROM carray(?2))"
        sets = (db.numbers(set_numbers),)
    sql = f"{_PENDING} WHERE {where} ORDER BY feature.ended, feature.row LIMIT ?1"
    return _waiting(db, sql, (limit, *sets))


def unstaged(db: Connection, set_numbers: Sequence[int], limit: int) -> list[PendingVectors]:
    """Return versions that search by meaning reaches and that have no staged vectors."""
    return _waiting(db, _UNSTAGED, (limit, db.numbers(set_numbers)))


def _waiting(db: Connection, sql: str, bindings: tuple[object, ...]) -> list[PendingVectors]:
    rows = query(db, sql, *bindings)
    return [
        PendingVectors(set_id, row, text or "", metadata) for set_id, row, text, metadata in rows
    ]


def expect(
    db: Connection, expects: Sequence[tuple[str, str]], cache: dict[str, str | None]
) -> None:
    """Raise `EmbedderConflict` unless every note stands as given; those in *cache* are not read."""
    for name, text in expects:
        if name not in cache:
            cache[name] = _note(db, name)
        if cache[name] != text:
            check_note(name, expected=text, actual=cache[name])


def _note(db: Connection, name: str) -> str | None:
    return first(db, "SELECT text FROM note WHERE name IS ?", name)


def put_note(db: Connection, name: str, text: str | None, expected: str | None) -> bool:
    """Note *text* if what stands there is *expected*."""
    if _note(db, name) != expected:
        return False
    db.execute("DELETE FROM note WHERE name IS ?", (name,))
    if text is not None:
        db.execute("INSERT INTO note (name, text) VALUES (?, ?)", (name, text))
    return True


def swap(
    db: Connection,
    set_numbers: Sequence[int],
    notes: Sequence[tuple[str, str | None, str]],
    scopes: Sequence[Scope],
) -> bool:
    """Put staged vectors in place and change notes; False: a note was not as expected."""
    for name, expected, _ in notes:
        if _note(db, name) != expected:
            return False
    for name, expected, text in notes:
        put_note(db, name, text, expected)
    of_scopes = {number for scope in scopes for number in _sets_beside(db, scope)}
    query(db, _SWAP, db.numbers(sorted(of_scopes.union(set_numbers))))
    db.execute("DELETE FROM staged")
    return True


_SETS_OF_SPACE = """
    SELECT memory_set.id, scope.key FROM scope JOIN memory_set ON memory_set.scope = scope.id
    WHERE scope.space IS ?
"""


def _sets_beside(db: Connection, scope: Scope) -> list[int]:
    """Return the sets of a knowledge; of a key, those of all keys of its space."""
    found = query(db, _SETS_OF_SPACE, scope.space)
    return [number for number, key in found if bool(key) == (scope.key is not None)]


_LAST = """
    SELECT version, ended IS NULL FROM item WHERE set_id = ? AND id IS ?
    ORDER BY version DESC LIMIT 1
"""

_END_ITEM = "UPDATE item SET ended = ?1 WHERE set_id = ?2 AND row = ?3 AND ended IS NULL"

_END_FEATURE = "UPDATE feature SET ended = ?1 WHERE set_id = ?2 AND ended = 0 AND row = ?3"


_LINK = """
    INSERT INTO link (row, source) SELECT ?1, ?2
    WHERE EXISTS (SELECT 1 FROM item WHERE row = ?1) AND EXISTS (SELECT 1 FROM item WHERE row = ?2)
    ON CONFLICT DO NOTHING
"""


def apply_past(
    db: Connection, gathered: PendingRows, number: int, past: Past, commit: int
) -> list[int]:
    """Do to set *number* what *past* says; return the rows that ended."""
    check_past(past, commit)
    gathered.flush()
    ended = set(past.ended_rows)
    for row in sorted(ended.difference(item.row for item in past.begun_items)):
        _end(db, number, row, past, commit)
    following = -1
    for item in past.begun_items:
        if item.row != following:  # the change log names rows without a gap
            gathered.flush()
        following = item.row + 1
        if gathered.has_item(number, item.record.id):
            gathered.flush()
        check_next(item, first(db, _LAST, number, item.record.id))
        version = (item.row, item.first, item.version, item.created, item.updated)
        gathered.add_item(number, commit, item.record, version)
        if item.row in ended:
            gathered.flush()
            _end(db, number, item.row, past, commit)
    gathered.flush()
    db.execute(
        "UPDATE memory_set SET floor = max(floor, ?2) WHERE id = ?1", (number, past.history_start)
    )
    _lineage(db, number, past, commit)
    return list(past.ended_rows)


def _lineage(db: Connection, number: int, past: Past, commit: int) -> None:
    db.write((_LINK, list(past.links)))
    for done in past.compactions:
        _keep(db, number, done)
    for undone in past.undone_compactions:
        sql = "UPDATE compaction SET undone = ? WHERE id = ? AND set_id = ?"
        query(db, sql, commit, undone, number)
        if not db.changes():
            raise NotFound(f"set {past.set.name!r} has no compaction {undone}")


def _end(db: Connection, number: int, row: int, past: Past, commit: int) -> None:
    db.execute(_END_ITEM, (commit, number, row))
    if not db.changes():
        raise NotFound(f"set {past.set.name!r} has no live version of row {row}")
    db.execute(_END_FEATURE, (commit, number, row))


def _keep(db: Connection, number: int, done: Compaction) -> None:
    retired = json.dumps([*done.retired, *[0] * done.erased])  # no row has the number 0
    query(
        db,
        "INSERT INTO compaction (id, set_id, how, retired, added, purged) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        *(done.id, number, done.how, retired, json.dumps([*done.added]), done.purged),
    )
