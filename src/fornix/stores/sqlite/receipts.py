"""Receipts of what was forgotten, as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from fornix.erasures import STATES, Erased, Kept
from fornix.stores.sqlite.connection import Row, first, query

_ALL = "SELECT id, owner, asked, erased, state, open, held, scrubbed FROM receipt"


def insert(db: apsw.Connection, receipt: str, owner: str, asked: str, erased: Erased) -> None:
    """Keep a new receipt."""
    query(
        db,
        "INSERT INTO receipt (id, n, owner, asked, erased, state, open, held) "
        "VALUES (?, ?, ?, ?, ?, 0, ?, '[]')",
        *(receipt, erased.commit, owner, asked, erased.to_json(), json.dumps([*erased.open])),
    )


def receipt(db: apsw.Connection, number: str) -> Kept | None:
    """Return a receipt, or None."""
    row = first(db, f"{_ALL} WHERE id = ?", number)
    return None if row is None else _kept(row)


def receipts(
    db: apsw.Connection, owners: Sequence[str], before: int | None, limit: int
) -> list[Kept]:
    """Return receipts of owners, the latest first."""
    sql = f"{_ALL} WHERE owner = ? AND n < ? ORDER BY n DESC LIMIT ?"
    last = (1 << 63) - 1 if before is None else before
    found = [_kept(row) for owner in owners for row in query(db, sql, owner, last, limit)]
    return sorted(found, key=lambda kept: kept.erased.commit or 0, reverse=True)[:limit]


def unfinished(db: apsw.Connection) -> list[Kept]:
    """Return the receipts of what is still in files, or in records of runs, the first first."""
    return [_kept(row) for row in query(db, f"{_ALL} WHERE scrubbed IS NULL ORDER BY n")]


def update(db: apsw.Connection, kept: Kept) -> None:
    """Note how far a receipt is."""
    query(
        db,
        "UPDATE receipt SET state = ?, open = ?, held = ?, scrubbed = ? WHERE id = ?",
        *(STATES.index(kept.state), json.dumps([*kept.open]), json.dumps([*kept.held])),
        *(kept.scrubbed, kept.id),
    )


def _kept(row: Row) -> Kept:
    number, owner, asked, erased, state, waiting, held, scrubbed = row
    return Kept(
        number,
        owner,
        asked,
        Erased.from_json(erased),
        STATES[int(state)],
        tuple(json.loads(waiting)),
        tuple(json.loads(held)),
        scrubbed,
    )
