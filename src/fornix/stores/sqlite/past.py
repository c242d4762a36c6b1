"""What a commit of another store did to a set, as SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence

import apsw

from fornix.errors import NotFound
from fornix.store import Compaction, Past, StoredItem
from fornix.store.past import check_next, check_past
from fornix.stores.sqlite.connection import first
from fornix.stores.sqlite.gathered import Gathered

_LAST = """
    SELECT version, ended IS NULL FROM item WHERE set_id = ? AND id = ?
    ORDER BY version DESC LIMIT 1
"""

_END_ITEM = "UPDATE item SET ended = ?1 WHERE set_id = ?2 AND row = ?3 AND ended IS NULL"

_END_FEATURE = "UPDATE feature SET ended = ?1 WHERE set_id = ?2 AND ended = 0 AND row = ?3"


_LINK = """
    INSERT OR IGNORE INTO link (row, source) SELECT ?1, ?2
    WHERE EXISTS (SELECT 1 FROM item WHERE row = ?1) AND EXISTS (SELECT 1 FROM item WHERE row = ?2)
"""


def apply_past(
    db: apsw.Connection, gathered: Gathered, number: int, past: Past, commit: int
) -> list[int]:
    """Do to set *number* what *past* says; return the rows that ended."""
    check_past(past, commit)
    gathered.flush()
    ended = set(past.ended)
    for row in sorted(ended.difference(item.row for item in past.begun)):
        _end(db, number, row, past, commit)
    following = -1
    for item in past.begun:
        if item.row != following:  # the change log names rows without a gap
            gathered.flush()
        following = item.row + 1
        if (number, item.record.id) in gathered.names:
            gathered.flush()
        check_next(item, first(db, _LAST, number, item.record.id))
        _begin(gathered, number, item, commit)
        if item.row in ended:
            gathered.flush()
            _end(db, number, item.row, past, commit)
    gathered.flush()
    db.execute("UPDATE memory_set SET floor = max(floor, ?2) WHERE id = ?1", (number, past.floor))
    _lineage(db, number, past, commit)
    return list(past.ended)


def _lineage(db: apsw.Connection, number: int, past: Past, commit: int) -> None:
    db.executemany(_LINK, list(past.links))
    for done in past.compactions:
        _keep(db, number, done)
    for compaction in past.undone:
        _undo(db, number, past, compaction, commit)


def _begin(gathered: Gathered, number: int, item: StoredItem, commit: int) -> None:
    r, row = item.record, item.row
    time = item.updated if r.time is None else r.time
    sources = json.dumps(r.sources) if r.sources else None
    # fmt: off
    gathered.add_item((
        row, number, r.id, item.first, item.version, commit, time, item.created, item.updated,
        r.value, r.text, r.metadata, r.importance, r.speaker, r.role, r.session, sources,
        int(r.compacted), r.tokens, r.until, r.expires, r.valid_from, r.valid_to,
    ), (
        number, 0, row, item.first, r.id, commit, time, r.importance, r.speaker, r.role, r.session,
        r.metadata, r.terms, r.tokens, r.temporal, r.vectors,
    ))
    # fmt: on


def _end(db: apsw.Connection, number: int, row: int, past: Past, commit: int) -> None:
    db.execute(_END_ITEM, (commit, number, row))
    if not db.changes():
        raise NotFound(f"set {past.set.name!r} has no live version of row {row}")
    db.execute(_END_FEATURE, (commit, number, row))


def _keep(db: apsw.Connection, number: int, done: Compaction) -> None:
    gone = [0] * done.erased  # no row has this number
    db.execute(
        "INSERT INTO compaction (id, set_id, how, retired, added, purged) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (
            done.id,
            number,
            done.how,
            _listed(done.retired, gone),
            _listed(done.added, []),
            done.purged,
        ),
    )


def _listed(rows: Sequence[int], gone: Sequence[int]) -> str:
    return json.dumps([*rows, *gone])


def _undo(db: apsw.Connection, number: int, past: Past, compaction: int, commit: int) -> None:
    db.execute(
        "UPDATE compaction SET undone = ? WHERE id = ? AND set_id = ?",
        (commit, compaction, number),
    )
    if not db.changes():
        raise NotFound(f"set {past.set.name!r} has no compaction {compaction}")
