"""Making again what follows from the truth: features, counts, what waits for an embedder.

The truth are items, nodes, the journal, runs, links and compactions. It is not touched: damage to
it is for a backup to mend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from alveus.store import Scope
from alveus.store.definition import Definition
from alveus.store.records import has_meaning, terms_of
from alveus.store.sql.connection import Row, query
from alveus.store.sqlite.connection import SqliteConnection
from alveus.values import wire, words
from alveus.values.lazy_dataclass import dataclass

STEP = 500
"""Items that are read again together."""

_STRAY = """
    DELETE FROM feature WHERE NOT EXISTS (SELECT 1 FROM item WHERE item.row = feature.row
        AND item.set_id = feature.set_id AND ifnull(item.ended, 0) = feature.ended)
"""

SOME = """
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


@dataclass
class Repaired:
    """How much of what was made again."""

    made: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, what: str, number: int = 1) -> None:
        """Note that something was made again."""
        if number:
            self.made[what] = self.made.get(what, 0) + number

    def lines(self) -> list[str]:
        """Return a line for each."""
        return [f"{number:,} {what}" for what, number in self.made.items()]


def repair(
    db: SqliteConnection,
    *,
    dimensions: Callable[[Scope], int | None],
    progress: Callable[[int], None],
) -> list[str]:
    """Make again what is missing or wrong; return what was done, a line for each kind.

    Args:
        dimensions: Of the vectors of a scope; None: nobody knows.
        progress: Called with how many items were looked at since the last call.
    """
    done = Repaired()
    query(db, _STRAY)
    done.count("features of no item removed", db.changes())
    sizes = _sizes(db, dimensions)
    last = -1
    while some := query(db, SOME, last, STEP):
        for row in some:
            _mend(db, row, sizes.get(row[1]), done)
        last = some[-1][0]
        progress(len(some))
    query(db, "DELETE FROM staged WHERE NOT EXISTS (SELECT 1 FROM item WHERE row = staged.row)")
    done.count("staged vectors of no item removed", db.changes())
    query(db, _COUNTS)
    done.count("counts of sets made again", db.changes())
    _retentions(db, done)
    return done.lines()


def _sizes(
    db: SqliteConnection, dimensions: Callable[[Scope], int | None]
) -> Mapping[int, int | None]:
    rows = query(
        db, "SELECT memory_set.id, space, key FROM memory_set JOIN scope ON scope.id = scope"
    )
    return {number: dimensions(Scope(space, key or None)) for number, space, key in rows}


def _mend(db: SqliteConnection, row: Row, dimensions: int | None, done: Repaired) -> None:
    """Make the feature of one version again, if it is not as it should be."""
    number, set_id, ended, *own = row[:12]
    text, tokens, there = row[12:15]
    metadata, read = own[8], _read(row)
    vectors, problem = _vectors(row[27], text, metadata, dimensions, there=bool(there))
    wrong = not there or [*own, *read] != list(row[15:27])
    if there and not wrong and not problem:
        _tokens(db, number, tokens, read.tokens, done)
        return
    query(db, _MAKE, set_id, ended, number, *own, *read, vectors)
    if not there:
        done.count("missing features made")
    elif wrong:
        done.count("features made again")
    if problem:
        done.count("vectors to be made again")
    _tokens(db, number, tokens, read.tokens, done)


def is_contradicted(row: Row) -> bool:
    """Return whether a row of `SOME` has a feature, of words, that were not read of its item."""
    return bool(row[24]) and [*row[3:12], *_read(row)] != list(row[15:27])


def _read(row: Row) -> words.TextTerms:
    """Return what is read of the item of a row of `SOME`."""
    time, speaker, metadata, text = row[6], row[8], row[11], row[12]
    return terms_of(text, time, speaker, metadata)


def _tokens(db: SqliteConnection, row: int, found: int, right: int, done: Repaired) -> None:
    if found != right:
        query(db, "UPDATE item SET tokens = ? WHERE row = ?", right, row)
        done.count("counts of tokens made again")


def _vectors(
    found: bytes | None, text: str | None, metadata: str, dimensions: int | None, *, there: bool
) -> tuple[bytes | None, bool]:
    """Return the vectors to keep (None: they are to be made), and whether they were wrong."""
    meant = has_meaning(text or "", metadata)
    if not there:
        return (None, True) if meant and dimensions != 0 else (b"", False)
    if not dimensions or found is None:
        return found, False
    if found:
        whole = len(found) % dimensions == 0
        return (found, False) if whole else (None if meant else b"", True)
    return (None, True) if meant else (b"", False)


def _retentions(db: SqliteConnection, done: Repaired) -> None:
    for number, text, found in query(db, "SELECT id, definition, retention FROM memory_set"):
        right = Definition.from_json(wire.decode_plain(text)).retention_us
        if found != right:
            query(db, "UPDATE memory_set SET retention = ? WHERE id = ?", right, number)
            done.count("retentions of sets noted again")
