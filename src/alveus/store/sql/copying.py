"""Copies all rows of a store into another store, whose engine may differ, and compares the two.

Rows are read from one snapshot of the source and inserted unchanged, in the order of their keys. An
interrupted copy continues after the last row in the target. Until a copy is finished, the target
has the note `UNFINISHED_NOTE`, whose text is the salt of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

from alveus.errors import InvalidInput, Unusable
from alveus.store import UNFINISHED_NOTE
from alveus.store.packed_values import as_stored
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.store.sql.database import SqlDatabase, explained_errors
from alveus.store.sql.rows import note_text

ROWS = 500
"""The most rows that are read at a time, and that one transaction inserts."""

_NOTES = "SELECT name, text FROM note"
_PUT_NOTE = "INSERT INTO note (name, text) VALUES (?, ?)"


class CopiedTable(NamedTuple):
    """A table whose rows are copied.

    Attributes:
        key: Names of the key columns, in order; *columns* begins with them.
        columns: Names of all columns.
        content: Indexes of columns that hold stored values, whose form depends on the engine.
        flags: Indexes of columns that are booleans in some engines, and numbers in others.
    """

    name: str
    key: Sequence[str]
    columns: Sequence[str]
    content: Sequence[int]
    flags: Sequence[int]

    def rows_after(self, db: Connection, key: Sequence[object] | None) -> list[Row]:
        """Return up to `ROWS` rows after *key*, in order; the first rows if *key* is None."""
        names, order = ", ".join(self.columns), ", ".join(self.key)
        bindings = ", ".join("?" * len(self.key))
        where = "" if key is None else f"WHERE ({order}) > ({bindings})"
        sql = f"SELECT {names} FROM {self.name} {where} ORDER BY {order} LIMIT {ROWS}"  # noqa: S608 - ours
        return [self._same_everywhere(row) for row in query(db, sql, *(key or ()))]

    def _same_everywhere(self, row: Row) -> Row:
        """Return a row in the form that every engine accepts and returns."""
        if not self.content and not self.flags:
            return row
        made = list(row)
        for index in self.content:
            made[index] = as_stored(made[index])
        for index in self.flags:
            made[index] = bool(made[index])
        return tuple(made)

    def last_key(self, db: Connection) -> Sequence[object] | None:
        """Return the key of the last row, or None if the table is empty."""
        names, order = ", ".join(self.key), ", ".join(f"{name} DESC" for name in self.key)
        found = query(db, f"SELECT {names} FROM {self.name} ORDER BY {order} LIMIT 1")  # noqa: S608 - ours
        return found[0] if found else None

    def insertion(self, override: str) -> str:
        """Return the statement that inserts a row unless the row exists.

        Args:
            override: See `SqlDatabase.identity_override`.
        """
        names, bindings = ", ".join(self.columns), ", ".join("?" * len(self.columns))
        return (
            f"INSERT INTO {self.name} ({names}) {override} VALUES ({bindings}) "  # noqa: S608 - ours
            "ON CONFLICT DO NOTHING"
        )


def _table(name: str, key: str, columns: str, *, content: str = "", flag: str = "") -> CopiedTable:
    names = [*key.split(), *columns.split()]
    contents = [names.index(each) for each in content.split()]
    flags = [names.index(each) for each in flag.split()]
    return CopiedTable(name, key.split(), names, contents, flags)


TABLES = (
    _table("scope", "id", "space key head floor since"),
    _table("memory_set", "id", "scope name definition items bytes tokens retention floor"),
    _table("lease", "space key", "owner epoch"),
    _table("agent", "id", "space name floor pruned"),
    _table("lane", "id", "agent scope next"),
    _table("journal", "n", "time scope op request result ended erased", content="result"),
    _table("setback", "n", "time"),
    _table("node", "id", "scope parent name place value expires begun ended", content="value"),
    _table(
        "item",
        "row",
        "set_id id first version begun ended time created updated value text metadata importance "
        "speaker role session sources compacted tokens until expires valid_from valid_to",
        content="value",
    ),
    _table("link", "row source", ""),
    _table("stub", "row set_id source", ""),
    _table("compaction", "id", "set_id how retired added undone purged", flag="purged"),
    _table("access", "first", "time"),
    _table("change", "seq", "set_id row kind rows"),
    _table(
        "feature",
        "set_id ended row",
        "first id begun time importance speaker role session metadata terms tokens temporal "
        "vectors",
    ),
    _table("staged", "row", "vectors"),
    _table(
        "run",
        "id",
        "agent lane number status event accepted now actions ended error origin erased",
        content="event",
    ),
    _table("step", "id", "n action sent sensory looked skipped", content="sent sensory"),
    _table(
        "durable_call", "step position", "n name digest status outcome attempts", content="outcome"
    ),
    _table("output", "agent id", "step event", content="event"),
    _table("consumer", "agent name", "position"),
    _table("event_id", "agent digest", "run number request time"),
    _table("receipt", "id", "n owner asked erased state open held scrubbed"),
)
"""All copied tables, in the order of copying: all but notes, and tables that only one engine has.

`change` comes before `feature`, because triggers of `feature` write to `change` on deletion.
"""


class CopyResult(NamedTuple):
    """Numbers and digests of the rows of the source, and so of the target.

    Attributes:
        commits: The number of the last commit.
        rows: The number of rows of each table.
        checksums: A digest of the rows of each table, hexadecimal.
    """

    commits: int
    rows: dict[str, int]
    checksums: dict[str, str]


def copy_store(
    source: SqlDatabase, target: SqlDatabase, *, progress: Callable[[int], None]
) -> CopyResult:
    """Copy all rows of *source* into *target*, and compare them. Continue an interrupted copy.

    Args:
        progress: Called with the number of rows copied or compared since the last call.

    Raises:
        AccessDenied: The user of a database server is not the owner of the tables of a store.
        InvalidInput: The target holds other data, or the source is an unfinished copy.
        Unusable: The rows of the two differ after the copy; the message names the tables. Or the
            schema of a store is not the newest that this program knows.
    """
    with explained_errors(source), source.snapshot_reader() as db:
        _check_source(source, db)
        before = _begin(db, target)
        if before != "finished":
            _copy_rows(db, target, progress)
        result, differences = _compared(db, target, progress)
        if differences and before == "unfinished":  # the source may have changed since then
            _clear(target)
            _copy_rows(db, target, progress)
            result, differences = _compared(db, target, progress)
        if differences:
            raise Unusable(
                f"{target.location} differs from {source.location}: {'; '.join(differences)}. "
                "Do not use them during the migration, and migrate into an empty memory"
                + "; ".join(differences)
                + ". Use none of the two meanwhile, or migrate into an empty memory"
            )
        if before != "finished":
            _finish(source, db, target)
    return result


def check_source(source: SqlDatabase) -> None:
    """Raise the error that `copy_store` would raise for *source*, before a target is made."""
    with explained_errors(source), source.reader() as db:
        _check_source(source, db)


def _check_source(source: SqlDatabase, db: Connection) -> None:
    source.check_whole(db)
    if note_text(db, UNFINISHED_NOTE) is not None:
        raise InvalidInput(f"{source.location} is an unfinished migration; finish it first")


def _begin(db: Connection, target: SqlDatabase) -> Literal["empty", "unfinished", "finished"]:
    """Return the state of the target before the copy. Store `UNFINISHED_NOTE` in an empty target.

    Raises:
        InvalidInput: The target holds other data.
    """
    salt = note_text(db, "salt")
    with explained_errors(target), target.writing() as there:
        target.check_whole(there)
        noted = note_text(there, UNFINISHED_NOTE)
        if noted == salt:
            return "unfinished"
        if noted is None and note_text(there, "salt") == salt:
            return "finished"
        if noted is not None or any(table.last_key(there) is not None for table in TABLES):
            held = "a migration from another source" if noted else "a memory"
            raise InvalidInput(
                f"{target.location} already holds {held}; nothing was changed. Migrate into an "
                "empty memory, or into a path that does not exist"
            )
        there.execute(_PUT_NOTE, (UNFINISHED_NOTE, salt))
    return "empty"


def _copy_rows(db: Connection, target: SqlDatabase, progress: Callable[[int], None]) -> None:
    """Copy the rows of each table that follow the target's last row."""
    for table in TABLES:
        insertion = table.insertion(target.identity_override)
        with explained_errors(target), target.reader() as there:
            last = table.last_key(there)
        while rows := table.rows_after(db, last):
            with explained_errors(target), target.writing() as there:
                there.write((insertion, rows))
            last = rows[-1][: len(table.key)]
            progress(len(rows))


def _clear(target: SqlDatabase) -> None:
    with explained_errors(target), target.writing() as there:
        for table in reversed(TABLES):
            there.execute(f"DELETE FROM {table.name}")  # noqa: S608 - ours


def _compared(
    db: Connection, target: SqlDatabase, progress: Callable[[int], None]
) -> tuple[CopyResult, list[str]]:
    """Return the result for the source, and a text for each table that differs in the target."""
    counts: dict[str, int] = {}
    sums: dict[str, str] = {}
    differences: list[str] = []
    with explained_errors(target), target.snapshot_reader() as there:
        for table in TABLES:
            counts[table.name], sums[table.name] = _checksum(db, table, progress)
            count, checksum = _checksum(there, table, progress)
            if count != counts[table.name]:
                differences.append(f"{table.name} has {count:,} rows, not {counts[table.name]:,}")
            elif checksum != sums[table.name]:
                differences.append(f"{table.name} has other contents")
    commits = first(db, "SELECT coalesce(max(n), 0) FROM journal")
    return CopyResult(commits, counts, sums), differences


def _checksum(
    db: Connection, table: CopiedTable, progress: Callable[[int], None]
) -> tuple[int, str]:
    count, digest, last = 0, blake2b(digest_size=16), None
    while rows := table.rows_after(db, last):
        for row in rows:
            digest.update(repr(row).encode())
        count += len(rows)
        last = rows[-1][: len(table.key)]
        progress(len(rows))
    return count, digest.hexdigest()


def _finish(source: SqlDatabase, db: Connection, target: SqlDatabase) -> None:
    """Complete the target: copy the notes, and let no new set get a number used in the source."""
    excluded = source.local_notes | target.local_notes
    notes = [(name, text) for name, text in query(db, _NOTES) if name not in excluded]
    last_set = source.last_set(db)
    with explained_errors(target), target.writing() as there:
        for name, _ in query(there, _NOTES):
            if name not in excluded:
                there.execute("DELETE FROM note WHERE name IS ?", (name,))
        there.write((_PUT_NOTE, notes))
        target.number_after(there, last_set)
