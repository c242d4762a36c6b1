"""The journal: the commit of each op, the time of each commit, and the compactions."""

from __future__ import annotations

from collections.abc import Sequence

from alveus.errors import IdempotencyConflict
from alveus.store import Commit, Compaction, SetRef
from alveus.store.checks import ROW_BITS, check_note
from alveus.store.erasing import forgotten
from alveus.store.packed_values import restored
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.store.sql.rows import set_refs
from alveus.values import wire

_DONE = """
    SELECT compaction.id, set_id, how, retired, added, undone, purged, time
    FROM compaction JOIN journal AS every_commit ON every_commit.n = compaction.id >> 20
"""


BY_OP = "SELECT n, time, request, result, erased FROM journal WHERE op = ?"

_LAST_COMMIT = "SELECT n, time FROM journal AS every_commit ORDER BY n DESC LIMIT 1"

_NEXT_COMMIT = "SELECT n, time FROM journal AS every_commit WHERE n >= ? ORDER BY n LIMIT 1"


def adopted(db: Connection, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
    """Return the commit of *op*, or None; raise if the op had another request."""
    row = db.execute(BY_OP, (op,)).get
    if row is None:
        return None
    number, time, earlier, result, erased = row
    if erased is not None:
        raise forgotten(f"request {label!r}" if label else "this request")
    if request is not None and earlier != request:
        raise IdempotencyConflict(label)
    stored = None if result is None else wire.decode(restored(result))
    return Commit(number, time, adopted=True, result=stored)


def commit_at(db: Connection, time: int) -> int:
    """Return the last commit at or before *time*; see `Ledger.commit_at`.

    Times rise with the numbers between two setbacks of the clock.
    """
    low = first(db, "SELECT max(n) FROM setback WHERE time <= ?", time) or 0
    high = first(db, "SELECT min(n) - 1 FROM setback WHERE n > ?", low)
    if high is None:
        last, last_time = first(db, _LAST_COMMIT) or (0, 0)
        if last_time <= time:
            return last
        high = last
    while low < high:
        middle = (low + high + 1) // 2
        row = first(db, _NEXT_COMMIT, middle)
        if row[1] <= time:
            low = row[0]
        else:
            high = middle - 1
    return low


def compaction(db: Connection, number: int) -> Compaction | None:
    """Return a compaction, or None."""
    return next(iter(compactions(db, "compaction.id = ?", number)), None)


def compactions(db: Connection, where: str, *bindings: object) -> list[Compaction]:
    """Return the compactions that meet an SQL condition."""
    rows = query(db, f"{_DONE} WHERE {where}", *bindings)
    refs = set_refs(db, sorted({row[1] for row in rows}))
    # A set that was forgotten between the two queries no longer has a name.
    return [_compaction(db, row, refs[row[1]]) for row in rows if row[1] in refs]


def _compaction(db: Connection, row: Row, ref: SetRef) -> Compaction:
    number, _, how, retired, added, undone, purged, time = row
    listed: tuple[list[int], list[int]] = wire.decode_plain(retired), wire.decode_plain(added)
    there = [_existing(db, rows) for rows in listed]
    return Compaction(
        id=number,
        set=ref,
        commit=number >> ROW_BITS,
        time=time,
        how=how,
        retired=there[0],
        added=there[1],
        erased=sum(map(len, listed)) - sum(map(len, there)),
        undo_commit=undone,
        purged=bool(purged),
    )


def _existing(db: Connection, rows: Sequence[int]) -> list[int]:
    """Return the existing rows among *rows*, in order."""
    sql = "SELECT row FROM item WHERE row IN (SELECT value FROM carray(?))"
    there = {row for (row,) in query(db, sql, db.numbers(rows))}
    return [row for row in rows if row in there]


def expect_notes(
    db: Connection, expects: Sequence[tuple[str, str]], cache: dict[str, str | None]
) -> None:
    """Raise `EmbedderConflict` unless every note has its expected text, in *cache* or stored."""
    for name, text in expects:
        if name not in cache:
            cache[name] = note_text(db, name)
        if cache[name] != text:
            check_note(name, expected=text, actual=cache[name])


def note_text(db: Connection, name: str) -> str | None:
    """Return the text of a note, or None."""
    """Return the text of a note, or None."""
    return first(db, "SELECT text FROM note WHERE name IS ?", name)


def put_note(db: Connection, name: str, text: str | None, expected: str | None) -> bool:
    """Set a note to *text* if its current text is *expected*. Return whether it was set."""
    if note_text(db, name) != expected:
        return False
    db.execute("DELETE FROM note WHERE name IS ?", (name,))
    if text is not None:
        db.execute("INSERT INTO note (name, text) VALUES (?, ?)", (name, text))
    return True
