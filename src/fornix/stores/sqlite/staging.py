"""Vectors that come after their items, the notes that say whose they are, and changing both."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from fornix.errors import EmbedderConflict
from fornix.store import Pending
from fornix.stores.sqlite.connection import first, numbers, query

_PENDING = """
    SELECT feature.set_id, feature.row, item.text, item.metadata
    FROM feature JOIN item ON item.row = feature.row
"""

_MEANT = """
    (vectors IS NULL OR vectors != x'' OR EXISTS (SELECT 1 FROM item WHERE item.row = feature.row
        AND is_meant(ifnull(text, ''), item.metadata)))
"""

_FILL = """
    UPDATE feature SET vectors = ?3 WHERE set_id = ?1 AND row = ?2 AND vectors IS NULL
    AND ended = (SELECT ifnull(ended, 0) FROM item WHERE row = ?2)
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


def pending(db: apsw.Connection, set_numbers: Sequence[int] | None, limit: int) -> list[Pending]:
    """Return versions that wait for their vectors, live ones and earlier ones first."""
    if set_numbers is None:
        where, bindings = "", (limit,)
    else:
        where, bindings = (
            "AND feature.set_id IN (SELECT value FROM carray(?2))",
            (
                limit,
                numbers(set_numbers),
            ),
        )
    return _found(
        db,
        f"{_PENDING} WHERE vectors IS NULL {where} ORDER BY feature.ended, feature.row LIMIT ?1",
        bindings,
    )


def unstaged(db: apsw.Connection, set_numbers: Sequence[int], limit: int) -> list[Pending]:
    """Return versions that search by meaning reaches and that have no staged vectors."""
    return _found(db, _UNSTAGED, (limit, numbers(set_numbers)))


def _found(db: apsw.Connection, sql: str, bindings: tuple[object, ...]) -> list[Pending]:
    rows = query(db, sql, *bindings)
    return [Pending(set_id, row, text or "", metadata) for set_id, row, text, metadata in rows]


def fill(
    db: apsw.Connection,
    vectors: Sequence[tuple[int, int, bytes]],
    expects: Sequence[tuple[str, str]],
) -> None:
    """Fill in vectors, if the notes stand as expected."""
    expect(db, expects, known={})
    db.executemany(_FILL, vectors)


def expect(
    db: apsw.Connection, expects: Sequence[tuple[str, str]], *, known: dict[str, str | None]
) -> None:
    """Raise `EmbedderConflict` unless every note stands as given; *known* ones need no look."""
    for name, text in expects:
        if name not in known:
            known[name] = _note(db, name)
        if known[name] != text:
            raise EmbedderConflict(name, asked=text, found=str(known[name]))


def _note(db: apsw.Connection, name: str) -> str | None:
    return first(db, "SELECT text FROM note WHERE name = ?", name)


def put_note(db: apsw.Connection, name: str, text: str | None, expected: str | None) -> bool:
    """Note *text* if what stands there is *expected*."""
    if _note(db, name) != expected:
        return False
    db.execute("DELETE FROM note WHERE name = ?", (name,))
    if text is not None:
        db.execute("INSERT INTO note (name, text) VALUES (?, ?)", (name, text))
    return True


def stage(db: apsw.Connection, vectors: Sequence[tuple[int, int, bytes]]) -> None:
    """Keep vectors beside those in use, of versions that are there."""
    rows = [(row, new) for _, row, new in vectors]
    db.executemany(
        "INSERT OR REPLACE INTO staged (row, vectors) SELECT row, ?2 FROM item WHERE row = ?1", rows
    )


def swap(
    db: apsw.Connection, set_numbers: Sequence[int], notes: Sequence[tuple[str, str | None, str]]
) -> bool:
    """Put staged vectors in place and change notes; False: a note was not as expected."""
    for name, expected, _ in notes:
        if _note(db, name) != expected:
            return False
    for name, expected, text in notes:
        put_note(db, name, text, expected)
    query(db, _SWAP, numbers(set_numbers))
    db.execute("DELETE FROM staged")
    return True
