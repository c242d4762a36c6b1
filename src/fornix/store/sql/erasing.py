"""Erasing as SQL: all that one `forget` removes, inside the write transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fornix.errors import KeyBusy
from fornix.store import Batch, Revive, SetRef
from fornix.store.checks import ROW_BITS
from fornix.store.erasures import (
    ERASED_HOW,
    Erased,
    Erasure,
    hidden_scope,
    mentions_erased,
    op_of_erasure,
    owner_of,
    stub_of,
)
from fornix.store.packed_values import restored
from fornix.store.sql import erased_runs, row_values
from fornix.store.sql.apply import Transaction
from fornix.store.sql.connection import Row, first, query
from fornix.store.sql.items import Changes
from fornix.store.sql.row_values import rename, rows_of, scope_id
from fornix.values import wire

_OF_SCOPE = """
    SELECT row FROM item WHERE set_id IN (SELECT id FROM memory_set WHERE scope = ?)
"""

_OF_ID = """
    SELECT row FROM item WHERE id IS ?3 AND set_id = (SELECT memory_set.id FROM memory_set
        JOIN scope ON scope.id = memory_set.scope WHERE space IS ?1 AND key IS ?2 AND name IS ?4)
"""

_DERIVED = """
    SELECT DISTINCT link.row FROM link JOIN item ON item.row = link.row
    WHERE source IN (SELECT value FROM carray(?))
"""

_ROWS = """
    SELECT row, set_id, id, first, begun, ended FROM item
    WHERE row IN (SELECT value FROM carray(?))
"""

_LAST = (
    "SELECT max(version) = (SELECT version FROM item WHERE row = ?3) FROM item "
    "WHERE set_id = ?1 AND id IS ?2"
)

_PURGED_OF = """
    SELECT set_id, added FROM compaction WHERE purged AND set_id = (SELECT memory_set.id
        FROM memory_set JOIN scope ON scope.id = memory_set.scope
        WHERE space IS ?1 AND key IS ?2 AND name IS ?3)
"""

_MADE = "SELECT row, first, sources FROM item WHERE set_id = ? AND sources IS NOT NULL"

_STUBS = """
    SELECT stub.row FROM stub JOIN memory_set ON memory_set.id = set_id
    JOIN scope ON scope.id = memory_set.scope
    WHERE space IS ?1 AND key IS ?2 AND name IS ?3 AND source = ?4
"""

_STUBS_OF_SCOPE = """
    SELECT DISTINCT row FROM stub WHERE set_id IN (SELECT id FROM memory_set WHERE scope = ?)
"""

_PURGED = "SELECT added FROM compaction WHERE id BETWEEN ? AND ? AND purged"

_COMPACTED = "SELECT DISTINCT id >> 20 FROM compaction"

_COMPACTIONS = "SELECT id, set_id, retired, added FROM compaction WHERE id BETWEEN ? AND ?"

_SHARED = """
    SELECT count(DISTINCT item.first) FROM journal CROSS JOIN item
        ON item.row BETWEEN n << 20 AND (n << 20) + 1048575
    WHERE journal.scope = ? AND set_id IN (SELECT memory_set.id FROM memory_set
        JOIN scope ON scope.id = memory_set.scope WHERE key = '')
"""

_FORGET_COMMITS = """
    UPDATE journal SET result = NULL, request = NULL, ended = NULL, erased = ?2
    WHERE scope = ?1 AND erased IS NULL
"""

_FORGET_RESULTS = """
    UPDATE journal SET result = NULL, request = NULL,
        erased = CASE WHEN op IS NULL THEN NULL ELSE ?2 END
    WHERE n IN (SELECT value FROM carray(?1)) AND erased IS NULL
        AND (result IS NOT NULL OR op IS NOT NULL)
"""

_ANSWERS = "SELECT n, scope, result FROM journal WHERE result IS NOT NULL AND erased IS NULL"

_WRITTEN = "SELECT row, id FROM item WHERE row BETWEEN ? AND ?"

_OWNERS = "SELECT memory_set.id, scope, key FROM memory_set JOIN scope ON scope.id = scope"


class Version(NamedTuple):
    """What is looked at of a version that is to be erased, or to come back."""

    row: int
    set_id: int
    id: str
    first: int
    begun: int
    ended: int | None


class Eraser:
    """One erasure: what it finds, and its deletion."""

    def __init__(self, tx: Transaction, erasure: Erasure, salt: bytes) -> None:
        self._tx, self._db, self._asked, self._salt = tx, tx.connection, erasure, salt
        self._number = (tx.cache.number or 0) + 1
        self._time = max(erasure.time, tx.cache.time)
        self._counts: dict[str, int] = {}
        self._rows: dict[int, Version] = {}
        self._compactions: dict[int, Row] = {}

    def run(self) -> Erased:
        """Erase; if there is something to erase, write a line of the journal and a receipt."""
        earlier = next(iter(erased_runs.receipts(self._db, "id = ?", self._asked.receipt)), None)
        if earlier is not None:
            return earlier.erased
        return self._whole() if self._asked.whole_key else self._some()

    # --- what is asked

    def _whole(self) -> Erased:
        scope, db = self._asked.scope, self._db
        there = scope_id(db, scope)
        if there is None and not self._tx.runs.holder(scope)[1]:
            return Erased(None, self._time)
        self._take_turn()
        number = there or self._tx.scope(scope)
        asked = [row for (row,) in query(db, _OF_SCOPE, number)]
        made = [row for (row,) in query(db, _STUBS_OF_SCOPE, number)]
        derived, sources = self._find(asked, made)
        gone, answers = erased_runs.of_scope(db, number), self._answers()
        self._forget_runs(gone)
        self._count("nodes", "DELETE FROM node WHERE scope = ?", number)
        self._delete_items()
        shared = first(db, _SHARED, number)
        self._count(
            "compactions",
            "DELETE FROM compaction WHERE set_id IN (SELECT id FROM memory_set WHERE scope = ?)",
            number,
        )
        self._count("sets", "DELETE FROM memory_set WHERE scope = ?", number)
        self._count("commits", _FORGET_COMMITS, number, self._number)
        self._count("commits", _FORGET_RESULTS, self._db.numbers(answers), self._number)
        restored = self._restore(sources)
        sql = "UPDATE scope SET head = ?, floor = 0, since = 0 WHERE id = ?"
        query(db, sql, self._number, number)
        query(
            db,
            "UPDATE lease SET owner = NULL, epoch = epoch + 1 WHERE space IS ? AND key IS ?",
            scope.space,
            scope.key,
        )
        rename(db, scope, hidden_scope(scope, self._salt))
        return self._done(number, derived, sources, restored, gone, shared=shared)

    def _some(self) -> Erased:
        items = self._asked.items
        asked = [row for ref, ids in items for row in self._named(ref, ids)]
        made = [row for ref, ids in items for row in self._made_of(ref, ids)]
        if not asked and not made:
            return Erased(None, self._time)
        self._take_turn()
        derived, sources = self._find(asked, made)
        gone = erased_runs.of_items(self._db, self._rows.values())
        self._count("commits", _FORGET_RESULTS, self._db.numbers(self._answers()), self._number)
        self._forget_runs(gone)
        self._delete_items()
        restored = self._restore(sources)
        number = self._tx.scope(self._asked.scope)
        return self._done(number, derived, sources, restored, gone)

    def _take_turn(self) -> None:
        """Refuse while somebody runs the key: an action may hold what it has read of it."""
        scope = self._asked.scope
        owner, _ = self._tx.runs.holder(scope)
        if owner is not None and self._tx.owners.is_alive(owner):
            raise KeyBusy(scope.owner, wait_s=0)

    def _named(self, ref: SetRef, ids: Sequence[str]) -> Iterable[int]:
        place = ref.scope.space, ref.scope.key or ""
        for item_id in dict.fromkeys(ids):
            yield from (row for (row,) in query(self._db, _OF_ID, *place, item_id, ref.name))

    def _made_of(self, ref: SetRef, ids: Sequence[str]) -> Iterable[int]:
        """Yield what was made of items that were purged since, and left no links."""
        place = ref.scope.space, ref.scope.key or "", ref.name
        for item_id in dict.fromkeys(ids):
            found = query(self._db, _STUBS, *place, stub_of(item_id, self._salt))
            yield from (row for (row,) in found)
        purged = query(self._db, _PURGED_OF, *place)
        firsts = {row for _, added in purged for row in wire.decode_plain(added)}
        for number in {number for number, _ in purged}:
            for row, begun, sources in query(self._db, _MADE, number):
                if begun in firsts and not set(ids).isdisjoint(wire.decode_plain(sources)):
                    yield row

    def _find(self, asked: Sequence[int], made: Sequence[int]) -> tuple[list[int], ErasedSources]:
        """Find all that goes; return what is derived of it, and what else that came from."""
        gone = {*asked, *made}
        derived, new = sorted(gone.difference(asked)), list(gone)
        while new:
            found = (row for (row,) in query(self._db, _DERIVED, self._db.numbers(new)))
            new = [row for row in found if row not in gone]
            gone.update(new)
            derived.extend(new)
        self._rows = {
            r[0]: Version(*r) for r in query(self._db, _ROWS, self._db.numbers(sorted(gone)))
        }
        self._look_for_compactions()
        return derived, self._sources(derived)

    def _answers(self) -> list[int]:
        """Return the commits that wrote what goes, or that answered with an id of it."""
        named: dict[int | None, set[str]] = {}
        owners = {s: scope if key else None for s, scope, key in query(self._db, _OWNERS)}
        for version in self._rows.values():
            named.setdefault(owners[version.set_id], set()).add(version.id)
        found = {version.begun for version in self._rows.values()}
        everywhere = named.get(None, set())
        for commit, scope, result in self._db.execute(_ANSWERS):
            gone = everywhere | named.get(scope, set()) if scope in named else everywhere
            if (
                gone
                and commit not in found
                and mentions_erased(wire.decode(restored(result)), gone, ())
            ):
                written = query(self._db, _WRITTEN, *rows_of(commit))
                kept = {item_id for row, item_id in written if row not in self._rows}
                if mentions_erased(wire.decode(restored(result)), gone, kept):
                    found.add(commit)
        return sorted(found)

    def _look_for_compactions(self) -> None:
        """Find the compactions that retired or added something of what goes."""
        commits = {v.begun for v in self._rows.values()}
        commits.update(v.ended for v in self._rows.values() if v.ended is not None)
        for (commit,) in query(self._db, _COMPACTED):
            if commit in commits:
                rows = query(self._db, _COMPACTIONS, *rows_of(commit))
                self._compactions.update({row[0]: row for row in rows})

    # --- what comes back

    def _sources(self, derived: Sequence[int]) -> ErasedSources:
        sql = "SELECT row, source FROM link WHERE row IN (SELECT value FROM carray(?))"
        pairs = [
            p for p in query(self._db, sql, self._db.numbers(derived)) if p[1] not in self._rows
        ]
        others = sorted({source for _, source in pairs})
        found = {row[0]: Version(*row) for row in query(self._db, _ROWS, self._db.numbers(others))}
        firsts = {self._rows[row].first for row in derived}
        lost = sum(self._is_of_purged(row) for row in firsts)
        return ErasedSources([v for v in found.values() if self._may_return(v)], lost)

    def _is_of_purged(self, row: int) -> bool:
        """Whether a compaction added it of which what it retired is no longer kept."""
        found = query(self._db, _PURGED, *rows_of(row >> ROW_BITS))
        return any(row in wire.decode_plain(added) for (added,) in found)

    def _may_return(self, version: Version) -> bool:
        """Whether a compaction alone retired it, and nothing became of it since."""
        if version.ended is None:
            return False
        rows = query(self._db, _COMPACTIONS, *rows_of(version.ended))
        retired = any(version.row in wire.decode_plain(row[2]) for row in rows)
        return retired and bool(first(self._db, _LAST, version.set_id, version.id, version.row))

    def _restore(self, sources: ErasedSources) -> list[SetRef]:
        back = sorted(sources.back)
        refs = row_values.set_refs(self._db, sorted({v.set_id for v in back}))
        if back:
            changes = [Revive(refs[version.set_id], version.row) for version in back]
            batch = Batch(scope=self._asked.scope, time=self._time, items=changes)
            Changes(self._tx, batch, self._number, self._time).run()
            self._tx.gathered.flush()
        self._mend({version.row for version in back})
        return list(dict.fromkeys(refs[v.set_id] for v in back))

    def _mend(self, back: set[int]) -> None:
        """Have compactions say nothing of what is erased, and not undo what came back."""
        for number, _, retired, added in self._compactions.values():
            lists: tuple[list[int], list[int]] = (
                wire.decode_plain(retired),
                wire.decode_plain(added),
            )
            if self._rows.keys().isdisjoint((*lists[0], *lists[1])):
                continue
            lost = not self._rows.keys().isdisjoint(lists[1])
            nothing = lost and not any(self._is_there(row) for row in lists[1])
            query(
                self._db,
                "UPDATE compaction SET how = ?, retired = ?, "
                "undone = CASE WHEN ? THEN coalesce(undone, ?) ELSE undone END WHERE id = ?",
                *(ERASED_HOW, json.dumps([row for row in lists[0] if row not in back])),
                *(nothing, self._number, number),
            )

    def _is_there(self, row: int) -> bool:
        return first(self._db, "SELECT 1 FROM item WHERE row = ?", row) is not None

    # --- what goes

    def _count(self, kind: str, sql: str, *bindings: object) -> None:
        query(self._db, sql, *bindings)
        self._add(kind, self._db.changes())

    def _add(self, kind: str, count: int) -> None:
        if count:
            self._counts[kind] = self._counts.get(kind, 0) + count

    def _forget_runs(self, gone: erased_runs.Gone) -> None:
        counts = erased_runs.forget(self._db, gone, number=self._number, time=self._time)
        for kind, count in counts.items():
            self._add(kind, count)

    def _delete_items(self) -> None:
        db, rows = self._db, sorted(self._rows)
        listed = self._db.numbers(rows)
        for table in ("staged", "stub"):
            query(db, f"DELETE FROM {table} WHERE row IN (SELECT value FROM carray(?))", listed)  # noqa: S608 - ours
        places = [(v.set_id, v.ended or 0, v.row) for v in self._rows.values()]
        db.executemany("DELETE FROM feature WHERE set_id = ? AND ended = ? AND row = ?", places)
        self._count(
            "links",
            "DELETE FROM link WHERE row IN (SELECT value FROM carray(?1)) "
            "OR source IN (SELECT value FROM carray(?1))",
            listed,
        )
        firsts = sorted({version.first for version in self._rows.values()})
        query(
            db,
            "DELETE FROM access WHERE first IN (SELECT value FROM carray(?))",
            self._db.numbers(firsts),
        )
        self._add("items", len({(v.set_id, v.id) for v in self._rows.values()}))
        self._count(
            "versions", "DELETE FROM item WHERE row IN (SELECT value FROM carray(?))", listed
        )

    def _done(
        self,
        scope: int,
        derived: Sequence[int],
        sources: ErasedSources,
        restored: list[SetRef],
        gone: erased_runs.Gone,
        *,
        shared: int = 0,
    ) -> Erased:
        asked = self._asked
        erased = Erased(
            commit=self._number,
            time=self._time,
            counts=dict(sorted(self._counts.items())),
            derived=len({(self._rows[r].set_id, self._rows[r].id) for r in derived}),
            restored=len(sources.back),
            lost=sources.lost,
            unread=gone.unread,
            delivered=gone.delivered,
            shared=shared,
            sets=tuple(sorted({version.set_id for version in self._rows.values()})),
            puts=tuple(gone.puts),
            open=tuple(gone.open),
            unsure=tuple(asked.uncertain_runs),
            marks=tuple(restored),
        )
        query(
            self._db,
            "INSERT INTO journal (n, time, scope, op) VALUES (?, ?, ?, ?)",
            *(self._number, self._time, scope, op_of_erasure(asked.receipt, self._salt)),
        )
        erased_runs.insert(self._db, asked.receipt, owner_of(asked.scope), asked.request, erased)
        return erased


class ErasedSources(NamedTuple):
    """What derived items that go came from besides."""

    back: list[Version]
    lost: int


class Rehearsed(Exception):
    """Ends a transaction that was only to tell what it would do."""

    def __init__(self, erased: Erased) -> None:
        self.erased = erased
        super().__init__("a rehearsal is rolled back")
