"""Reads rows of the database as the values of `alveus.store`: items, sets, keys, commits, notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from alveus.errors import IdempotencyConflict, StoreDamaged
from alveus.store import (
    ChangeKind,
    Commit,
    Compaction,
    Definition,
    FeatureChange,
    ItemRecord,
    Scope,
    SetInfo,
    SetRef,
    StoredItem,
)
from alveus.store.checks import ROW_BITS, check_note
from alveus.store.erasing import NO_SPACE, forgotten, hidden_scope
from alveus.store.packed_values import restored
from alveus.store.sets import DEFAULT
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.values import wire

ITEM = (
    "SELECT row, first, begun, ended, version, created, updated,"
    "(SELECT time FROM access WHERE access.first=item.first),"
    "id, value, text, metadata, importance, speaker, role, session, time, sources, compacted,"
    "set_id, until, expires, valid_from, valid_to FROM item"
)
"""Selects the columns of an item.

The text is short, because SQLite's statement cache reads the whole text of each statement.
"""

_OF_ID = f"{ITEM} WHERE set_id=?1 AND id IS ?2"

BY_ID = (
    f"{_OF_ID} AND ended IS NULL AND version="  # noqa: S608 - ours
    "(SELECT max(version) FROM item WHERE set_id=?1 AND id IS ?2)"
)
"""Finds the live version of the item with an id. Only an item's last version may be live."""

BY_ID_AT = f"{_OF_ID} AND item.begun <= ?3 AND coalesce(item.ended > ?3, TRUE)"

LIVE_OF_IDS = """
    coalesce(item.ended, 0) = 0 AND item.row IN (SELECT (
            SELECT latest.row FROM item AS latest
            WHERE latest.set_id = ?1 AND latest.id IS ids.asked
            ORDER BY latest.version DESC LIMIT 1
        ) FROM (SELECT value AS asked FROM carray(?2)) AS ids)
"""
"""The condition of `BY_ID`, for many ids.

``coalesce`` prevents PostgreSQL from reading an index of all live rows for ``ended IS NULL``.
"""

BY_IDS = f"{ITEM} WHERE {LIVE_OF_IDS}"

VERSIONS = f"{_OF_ID} ORDER BY item.version"

EVERY_VERSION = f"""
    {ITEM} WHERE item.set_id = ?1 AND (item.id, item.version) > (?2, ?3)
    ORDER BY item.id, item.version LIMIT ?4
"""
BY_ROW = f"{ITEM} WHERE item.row IN (SELECT value FROM carray(?))"  # noqa: S608 - ours

_REFS = """
    SELECT memory_set.id, space, key, name FROM memory_set JOIN scope ON scope.id = scope
"""

_REFS_OF = f"{_REFS} WHERE memory_set.id IN (SELECT value FROM carray(?))"  # noqa: S608 - ours

REFS = f"""
    {_REFS}
    WHERE memory_set.id IN (SELECT set_id FROM item WHERE row IN (SELECT value FROM carray(?)))
"""  # noqa: S608 - ours
"""Finds the numbers and names of the sets that contain the given rows."""

_SET = """
    SELECT id FROM memory_set WHERE name IS ?
        AND scope = (SELECT id FROM scope WHERE space IS ? AND key IS ?)
"""
SETS_OF = """
    SELECT id, name, definition, items, bytes, tokens,
        (SELECT min(expires) FROM item WHERE set_id = memory_set.id
         AND ended IS NULL AND expires IS NOT NULL),
        EXISTS (SELECT 1 FROM item WHERE set_id = memory_set.id
         AND ended IS NULL AND (valid_from IS NOT NULL OR valid_to IS NOT NULL)), floor
    FROM memory_set
    WHERE scope = (SELECT id FROM scope WHERE space IS ? AND key IS ?)
"""

_SET_NAMED = f"{SETS_OF} AND name IS ?"

OUT_OF_TIME = """
    SELECT row FROM item WHERE set_id = ?1
        AND ended IS NULL AND expires IS NOT NULL AND expires <= ?2
    UNION
    SELECT row FROM item WHERE set_id = ?1
        AND ended IS NULL AND (valid_from IS NOT NULL OR valid_to IS NOT NULL)
        AND (valid_from > ?3 OR valid_to <= ?3)
"""

OUT_OF_TIME_AT = """
    SELECT row FROM item WHERE set_id = ?1 AND begun <= ?4 AND coalesce(ended > ?4, TRUE)
        AND (expires <= ?2 OR valid_from > ?3 OR valid_to <= ?3) ORDER BY row
"""

ACCESSED = """
    SELECT item.row, item.first, access.time FROM item LEFT JOIN access USING (first)
    WHERE set_id = ? AND ended IS NULL
"""

KINDS: tuple[ChangeKind, ...] = ("added", "ended", "embedded", "removed")

FEATURE_COLUMNS = """
    row, first, id, begun, nullif(ended, 0), time, importance, speaker, role, session, metadata,
    terms, tokens, temporal, vectors
"""

_FEATURE = f"SELECT {FEATURE_COLUMNS} FROM feature"  # noqa: S608 - ours

LIVE_FEATURES = f"{_FEATURE} WHERE set_id = ? AND ended = 0 AND row > ? ORDER BY row LIMIT ?"

FEATURES_AT = f"""{_FEATURE} WHERE set_id = ?1 AND (ended = 0 OR ended > ?2) AND begun <= ?2
    AND row > ?3 ORDER BY row LIMIT ?4"""

FEATURE_ROW = f"""{_FEATURE} WHERE set_id = ?1 AND row = ?2
    AND ended = (SELECT coalesce(ended, 0) FROM item WHERE row = ?2)"""  # noqa: S608 - ours


def page_sql(*, newest_first: bool, at: bool, after: bool) -> str:
    """Return the query for a page of the items of a set, as they are now.

    Args:
        at: Find the items as of a given commit. Two queries find the rows that are still live and
            the rows that ended since. Each has a LIMIT; else PostgreSQL would sort the whole set.
        after: Find only the items that follow a given item.
    """
    order = "DESC" if newest_first else "ASC"
    first, second = ("?4", "?5") if at else ("?3", "?4")
    side = "<" if newest_first else ">"
    past = f"AND (item.time, item.first) {side} ({first}, {second})" if after else ""
    live = f"{ITEM} WHERE item.set_id = ?1 AND item.ended IS NULL {past}"
    tail = f"ORDER BY 17 {order}, 2 {order} LIMIT ?2"
    if not at:
        return f"{live} {tail}"
    since = f"{ITEM} WHERE item.set_id = ?1 AND item.ended > ?3 AND item.begun <= ?3 {past}"
    live = f"{live} AND item.begun <= ?3"
    both = [f"SELECT * FROM ({part} {tail}) AS part" for part in (live, since)]  # noqa: S608 - ours
    return f"{' UNION ALL '.join(both)} {tail}"


def stored_item(row: Row, ref: SetRef, touched: int | None = None) -> StoredItem:
    """Return the item version that a row of `ITEM` holds.

    Args:
        touched: The time of an access that is not stored yet, or None.
    """
    accessed = row[7] if touched is None else max(touched, row[7] or 0)
    begun, ended, version, created, updated = row[2:7]
    if not (type(row[16]) is type(created) is type(updated) is int):
        raise StoreDamaged(None, f"a time of item row {row[0]!r} is no number")
    sources = tuple(wire.decode_plain(row[17])) if row[17] else ()
    name, value, text, metadata, importance, speaker, role, session, time = row[8:17]
    record = ItemRecord(
        name,
        restored(value),
        text,
        metadata,
        importance,
        speaker,
        role,
        session,
        time,
        sources,
        bool(row[18]),
        *row[20:24],
    )
    return StoredItem(
        row[0], row[1], ref, begun, ended, version, created, updated, accessed, record
    )


def feature_changes(lines: Iterable[Row], since: int) -> Iterator[FeatureChange]:
    """Yield the changes with numbers above *since* from lines of the change log.

    One line may log the changes of many consecutive rows.
    """
    for seq, set_number, first_row, kind, rows in lines:
        before, name = seq - rows, KINDS[int(kind)]
        for past in range(max(1, since - before + 1), rows + 1):
            yield FeatureChange(before + past, set_number, first_row + past - 1, name)


def set_refs(connection: Connection, numbers: Sequence[int]) -> dict[int, SetRef]:
    """Return the names of sets by number."""
    rows = query(connection, _REFS_OF, connection.numbers(numbers)) if numbers else ()
    return {number: ref_of(*names) for number, *names in rows}


def ref_of(space: str, key: str, name: str) -> SetRef:
    """Return the name of a set from its columns."""
    return SetRef(Scope(space, key or None), name)


def set_number(connection: Connection, ref: SetRef) -> int | None:
    """Return the number of a set, or None if the set does not exist."""
    return connection.execute(_SET, (ref.name, ref.scope.space, ref.scope.key or "")).get


def sets_of(connection: Connection, scope: Scope, name: str | None = None) -> list[SetInfo]:
    """Return the sets of *scope* by name, or only the set called *name*."""
    sql, names = (f"{SETS_OF} ORDER BY name", ()) if name is None else (_SET_NAMED, (name,))
    return [
        info_of(scope, row) for row in query(connection, sql, scope.space, scope.key or "", *names)
    ]


def definition_of(text: str) -> Definition:
    """Return the definition in a set's column. The default definition is `DEFAULT` itself."""
    return DEFAULT if text == "{}" else Definition.from_json(wire.decode_plain(text))


def info_of(scope: Scope, row: Row) -> SetInfo:
    """Return the `SetInfo` of a `SETS_OF` row, for a set of *scope*."""
    number, name, definition, items, size, tokens, expiring, timed, start = row
    return SetInfo(
        number,
        SetRef(scope, name),
        definition_of(definition),
        items,
        size,
        tokens,
        expiring,
        bool(timed),
        start,
    )


def rows_of(commit: int) -> tuple[int, int]:
    """Return the first and the last row number that the rows made by *commit* can have."""
    return commit << ROW_BITS, (commit + 1 << ROW_BITS) - 1


def scope_id(connection: Connection, scope: Scope) -> int | None:
    """Return the row of *scope*, or None if nothing was committed to it."""
    return connection.execute(
        "SELECT id FROM scope WHERE space IS ? AND key IS ?", (scope.space, scope.key or "")
    ).get


def salt_of(connection: Connection) -> bytes:
    """Return the salt of the store."""
    return bytes.fromhex(note_text(connection, "salt") or "")


def hidden_id(connection: Connection, scope: Scope) -> int | None:
    """Return the row of *scope* if its key was forgotten and not used since, else None."""
    any_hidden = "SELECT 1 FROM scope WHERE space IS ? LIMIT 1"
    if scope.key is None or connection.execute(any_hidden, (NO_SPACE,)).get is None:
        return None
    return scope_id(connection, hidden_scope(scope, salt_of(connection)))


def found_again(connection: Connection, scope: Scope) -> int | None:
    """Restore the name of a forgotten key that is used again. Return its row.

    Return None if the key of *scope* was not forgotten.
    """
    number = hidden_id(connection, scope)
    if number is not None:
        rename(connection, hidden_scope(scope, salt_of(connection)), scope)
    return number


def rename(connection: Connection, scope: Scope, to: Scope) -> None:
    """Rename a key, and its lease."""
    names = (to.space, to.key, scope.space, scope.key)
    connection.execute("UPDATE scope SET space = ?, key = ? WHERE space IS ? AND key IS ?", names)
    connection.execute("UPDATE lease SET space = ?, key = ? WHERE space IS ? AND key IS ?", names)


# --- commits and notes ---------------------------------------------------------------------------

_DONE = """
    SELECT compaction.id, set_id, how, retired, added, undone, purged, time
    FROM compaction JOIN journal AS every_commit ON every_commit.n = compaction.id >> 20
"""


BY_OP = "SELECT n, time, request, result, erased FROM journal WHERE op = ?"

LAST_COMMIT = "SELECT n, time FROM journal AS every_commit ORDER BY n DESC LIMIT 1"

_NEXT_COMMIT = "SELECT n, time FROM journal AS every_commit WHERE n >= ? ORDER BY n LIMIT 1"


def adopted(db: Connection, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
    """Return the commit that *op* made before, or None if it made none.

    Raises:
        Forgotten: What the op made was erased since.
        IdempotencyConflict: The op was used with another request.
    """
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


def last_commit_at(db: Connection, time: int) -> int:
    """See `Ledger.commit_at`. Between two setbacks of the clock, times rise with the numbers."""
    low = first(db, "SELECT max(n) FROM setback WHERE time <= ?", time) or 0
    high = first(db, "SELECT min(n) - 1 FROM setback WHERE n > ?", low)
    if high is None:
        last, last_time = first(db, LAST_COMMIT) or (0, 0)
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


def stored_compaction(db: Connection, number: int) -> Compaction | None:
    """Return the compaction with this number, or None if it does not exist."""
    return next(iter(stored_compactions(db, "compaction.id = ?", number)), None)


def stored_compactions(db: Connection, where: str, *bindings: object) -> list[Compaction]:
    """Return the compactions that meet the SQL condition *where*."""
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
    """Raise `EmbedderConflict` unless every note has its expected text.

    Args:
        expects: Names and texts.
        cache: The texts of notes that were read before; this function adds the notes that it reads.
    """
    for name, text in expects:
        if name not in cache:
            cache[name] = note_text(db, name)
        if cache[name] != text:
            check_note(name, expected=text, actual=cache[name])


def note_text(db: Connection, name: str) -> str | None:
    """Return the text of a note, or None if the note does not exist."""
    return first(db, "SELECT text FROM note WHERE name IS ?", name)


def put_note(db: Connection, name: str, text: str | None, expected: str | None) -> bool:
    """Set a note to *text* if its current text is *expected*. Return whether it was set.

    In both arguments, None means a note that does not exist.
    """
    if note_text(db, name) != expected:
        return False
    db.execute("DELETE FROM note WHERE name IS ?", (name,))
    if text is not None:
        db.execute("INSERT INTO note (name, text) VALUES (?, ?)", (name, text))
    return True
