"""The reads of the store: each borrows a connection for the length of a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import apsw

from fornix.store import (
    Commit,
    Compaction,
    Effects,
    Feature,
    FeatureChange,
    Node,
    PendingVectors,
    Scope,
    SetInfo,
    SetRef,
    StoredItem,
    StoreStats,
)
from fornix.store.sqlite import (
    journal,
    lineage,
    maintenance,
    retention,
    row_values,
    staged_vectors,
)
from fornix.store.sqlite.connection import Row, numbers, query, translated
from fornix.store.sqlite.database_file import Durability, SqliteFile
from fornix.store.sqlite.row_values import head_of, scope_id
from fornix.store.sqlite.tree import read_children, read_names, read_node
from fornix.values.storable import Path as TreePath

VERSION = "PRAGMA data_version"
"""A number that a connection sees change whenever another one committed."""

_SET = """
    SELECT id FROM memory_set WHERE name = ?
        AND scope = (SELECT id FROM scope WHERE space = ? AND key = ?)
"""

GLANCED = 10_000
"""Answers that a connection remembers."""


FEATURES = 5_000
"""Features read at a time."""


class Glance(NamedTuple):
    """What a connection saw when the file was of a version."""

    version: int
    seq: int
    sets: dict[Scope | tuple[SetRef, ...], list[SetInfo]]


class SqliteReads(SqliteFile):
    """What `Ledger` and `Finder` promise of reading."""

    def __init__(
        self, path: Path, *, read_only: bool, durability: Durability, wait_s: float, immutable: bool
    ) -> None:
        super().__init__(
            path, read_only=read_only, durability=durability, wait_s=wait_s, immutable=immutable
        )
        self._glances: dict[apsw.Connection, Glance] = {}

    # --- reading: the exact tree --------------------------------------------------------------

    @translated
    def head(self, scope: Scope) -> int:
        """See `Ledger.head`."""
        with self._reader() as db:
            return head_of(db, scope)

    @translated
    def node(self, scope: Scope, path: TreePath, *, at: int | None, now: int) -> Node | None:
        """See `Ledger.node`."""
        self._check()
        if not path:
            return Node(is_object=True)
        with self._reader() as db:
            number = self._number_of(db, scope)
            return None if number is None else read_node(db, number, path, at=at, now=now)

    @translated
    def children(
        self, scope: Scope, path: TreePath, *, at: int | None, now: int
    ) -> list[tuple[str, Node]]:
        """See `Ledger.children`."""
        with self._reader() as db:
            number = self._number_of(db, scope)
            return [] if number is None else read_children(db, number, path, at=at, now=now)

    @translated
    def field_names(
        self, scope: Scope, path: TreePath, *, at: int | None, now: int
    ) -> list[tuple[str, int | None]]:
        """See `Ledger.field_names`."""
        with self._reader() as db:
            number = self._number_of(db, scope)
            return [] if number is None else read_names(db, number, path, at=at, now=now)

    def _number_of(self, db: apsw.Connection, scope: Scope) -> int | None:
        return self._known.scopes.get(scope) or scope_id(db, scope)

    # --- reading: the journal -----------------------------------------------------------------

    @translated
    def adopted(self, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
        """See `Ledger.adopted`."""
        with self._reader() as db:
            return journal.adopted(db, op, request=request, label=label)

    @translated
    def effects(self, number: int) -> Effects | None:
        """See `Ledger.effects`."""
        with self._reader() as db:
            return journal.effects(db, number)

    @translated
    def commit_at(self, time: int) -> int:
        """See `Ledger.commit_at`."""
        with self._reader() as db:
            return journal.commit_at(db, time)

    @translated
    def note(self, name: str) -> str | None:
        """See `Ledger.note`."""
        with self._reader() as db:
            return db.execute("SELECT text FROM note WHERE name = ?", (name,)).get

    def salt(self) -> bytes:
        """See `Ledger.salt`."""
        self._check()
        if self._salt is None:
            self._salt = bytes.fromhex(self.note("salt") or "")
        return self._salt

    @translated
    def stats(self) -> StoreStats:
        """See `Ledger.stats`."""
        with self._reader() as db:
            return maintenance.stats(db, self._path)

    # --- reading: sets ------------------------------------------------------------------------

    @translated
    def keys(self, space: str, *, after: str | None = None, limit: int = 1000) -> list[str]:
        """See `Ledger.keys`."""
        with self._reader() as db:
            rows = db.execute(
                "SELECT key FROM scope WHERE space = ? AND key > ? ORDER BY key LIMIT ?",
                (space, after or "", limit),
            )
            return [key for (key,) in rows]

    @translated
    def spaces(self) -> list[str]:
        """See `Ledger.spaces`."""
        with self._reader() as db:
            sql = "SELECT DISTINCT space FROM scope WHERE key != '' AND space != '' ORDER BY space"
            return [space for (space,) in db.execute(sql)]

    @translated
    def time_of(self, number: int) -> int:
        """See `Ledger.time_of`."""
        with self._reader() as db:
            return retention.time_of(db, number)

    @translated
    def floor(self, scope: Scope) -> tuple[int, int]:
        """See `Ledger.floor`."""
        with self._reader() as db:
            return retention.floor(db, scope)

    def expired(self, *, now: int, limit: int = 1000) -> list[StoredItem]:
        """See `Ledger.expired`."""
        return self.stored(self._expired(now, limit))

    @translated
    def _expired(self, now: int, limit: int) -> list[int]:
        with self._reader() as db:
            return retention.expired(db, now=now, limit=limit)

    @translated
    def set_info(self, ref: SetRef) -> SetInfo | None:
        """See `Ledger.set_info`."""
        return next((info for info in self._infos(ref.scope, ref.name)), None)

    @translated
    def set_infos(self, scope: Scope) -> list[SetInfo]:
        """See `Ledger.set_infos`."""
        return self._infos(scope, None)

    def _infos(self, scope: Scope, name: str | None) -> list[SetInfo]:
        with self._reader() as db:
            return self._rows_of(db, scope, name)

    def _rows_of(self, db: apsw.Connection, scope: Scope, name: str | None) -> list[SetInfo]:
        if name is None:
            rows = query(db, f"{row_values.SETS_OF} ORDER BY name", scope.space, scope.key or "")
        else:
            rows = query(db, row_values.SET_NAMED, scope.space, scope.key or "", name)
        return list(row_values.set_infos(rows, scope))

    def _set_numbers(self, db: apsw.Connection, ref: SetRef) -> Iterator[int]:
        """Yield the number that a set is known by, and, if nothing is there, what it is by now.

        Another process may have forgotten the set since, and somebody added to a new one.
        """
        known = self._known.sets.get(ref)
        if known is not None:
            yield known[0]
        found = db.execute(_SET, (ref.name, ref.scope.space, ref.scope.key or "")).get
        if found is not None and (known is None or found != known[0]):
            yield found

    @translated
    def get(
        self, ref: SetRef, ids: Sequence[str], *, at: int | None = None
    ) -> list[StoredItem | None]:
        """See `Ledger.get`."""
        with self._reader() as db:
            for number in self._set_numbers(db, ref):
                found = [self._one(db, ref, number, item_id, at) for item_id in ids]
                if any(found):
                    return found
        return [None] * len(ids)

    def _one(
        self, db: apsw.Connection, ref: SetRef, number: int, item_id: str, at: int | None
    ) -> StoredItem | None:
        if at is None:
            row = db.execute(row_values.BY_ID, (number, item_id)).get
            return None if row is None else self._stored(row, ref)
        row = db.execute(row_values.BY_ID_AT, (number, item_id, at)).get
        return None if row is None else self._stored(row, ref)

    def _stored(self, row: Row, ref: SetRef) -> StoredItem:
        return row_values.stored(row, ref, self._touched.get(row[1]))

    @translated
    def page(
        self,
        ref: SetRef,
        *,
        after: tuple[int, int] | None = None,
        limit: int = 256,
        newest_first: bool = False,
        at: int | None = None,
    ) -> list[StoredItem]:
        """See `Ledger.page`."""
        sql = row_values.page_sql(
            newest_first=newest_first, at=at is not None, after=after is not None
        )
        with self._reader() as db:
            for number in self._set_numbers(db, ref):
                bindings = (number, limit, *(after or (None, None)), at)
                used = 5 if at is not None else 4 if after is not None else 2
                found = [self._stored(row, ref) for row in db.execute(sql, bindings[:used])]
                if found:
                    return found
        return []

    @translated
    def versions(self, ref: SetRef, item_id: str) -> list[StoredItem]:
        """See `Ledger.versions`."""
        with self._reader() as db:
            for number in self._set_numbers(db, ref):
                rows = db.execute(row_values.VERSIONS, (number, item_id))
                if found := [self._stored(row, ref) for row in rows]:
                    return found
        return []

    @translated
    def compactions(
        self, ref: SetRef, *, before: int | None = None, limit: int = 100
    ) -> list[Compaction]:
        """See `Ledger.compactions`."""
        with self._reader() as db:
            for number in self._set_numbers(db, ref):
                if found := lineage.compactions(db, number, before, limit):
                    return found
        return []

    @translated
    def compaction(self, compaction: int) -> Compaction | None:
        """See `Ledger.compaction`."""
        with self._reader() as db:
            return lineage.compaction(db, compaction)

    @translated
    def links(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """See `Ledger.links`."""
        with self._reader() as db:
            return lineage.links(db, rows)

    @translated
    def derived(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """See `Ledger.derived`."""
        with self._reader() as db:
            return lineage.derived(db, rows)

    # --- reading: what search needs -----------------------------------------------------------

    @translated
    def seq(self) -> int:
        """See `Finder.seq`."""
        with self._reader() as db:
            return db.execute("SELECT max(seq) FROM change").get or 0

    @translated
    def glance(self, sets: Sequence[SetRef] | Scope) -> tuple[int, list[SetInfo]]:
        """See `Finder.glance`.

        While nobody commits, a connection answers from what it read before.
        """
        name = sets if isinstance(sets, Scope) else tuple(sets)
        with self._reader() as db:
            seen = self._glances.get(db)
            known = None if seen is None else seen.sets.get(name)
            if known is not None and seen is not None and db.execute(VERSION).get == seen.version:
                return seen.seq, known
            return self._looked(db, name)

    def _looked(
        self, db: apsw.Connection, name: Scope | tuple[SetRef, ...]
    ) -> tuple[int, list[SetInfo]]:
        """Read what `glance` answers, in one transaction, and remember it."""
        db.execute("BEGIN")
        try:
            version = db.execute(VERSION).get
            seen = self._glances.get(db)
            if seen is None or seen.version != version or len(seen.sets) >= GLANCED:
                seq = db.execute("SELECT max(seq) FROM change").get or 0
                seen = self._glances[db] = Glance(version, seq, {})
            if isinstance(name, Scope):
                found = self._rows_of(db, name, None)
            else:
                found = [i for ref in name for i in self._rows_of(db, ref.scope, ref.name)]
        finally:
            db.execute("ROLLBACK")
        seen.sets[name] = found
        return seen.seq, found

    @translated
    def changes(self, since: int, *, limit: int = 10_000) -> list[FeatureChange] | None:
        """See `Finder.changes`."""
        with self._reader() as db:
            before = db.execute("SELECT seq - rows FROM change ORDER BY seq LIMIT 1").get
            if before is not None and before > since:
                return None
            rows = query(
                db,
                "SELECT seq, set_id, row, kind, rows FROM change WHERE seq > ? "
                "ORDER BY seq LIMIT ?",
                since,
                limit,
            )
            return list(islice(row_values.changes(rows, since), limit))

    def features(
        self, set_number: int, *, after: int = 0, at: int | None = None
    ) -> Iterator[Feature]:
        """See `Finder.features`."""
        while chunk := self._features(set_number, after, at):
            yield from chunk
            if len(chunk) < FEATURES:
                break
            after = chunk[-1].row

    @translated
    def _features(self, set_number: int, after: int, at: int | None) -> list[Feature]:
        with self._reader() as db:
            if at is None:
                rows = db.execute(row_values.LIVE_FEATURES, (set_number, after, FEATURES))
            else:
                rows = db.execute(row_values.FEATURES_AT, (set_number, at, after, FEATURES))
            return [row_values.feature(row) for row in rows]

    @translated
    def features_of(self, set_number: int, rows: Sequence[int]) -> list[Feature]:
        """See `Finder.features_of`."""
        with self._reader() as db:
            found = (db.execute(row_values.FEATURE_ROW, (set_number, row)).get for row in rows)
            return [row_values.feature(row) for row in found if row is not None]

    @translated
    def stored(self, rows: Sequence[int]) -> list[StoredItem]:
        """See `Finder.stored`."""
        if not rows:
            return []
        with self._reader() as db:
            found = query(db, row_values.BY_ROW, numbers(rows))
            names = {
                number: row_values.set_ref(db, number) for number in {row[19] for row in found}
            }
            return row_values.in_order((self._stored(row, names[row[19]]) for row in found), rows)

    @translated
    def out_of_time(
        self, set_number: int, *, now: int, valid_at: int | None, at: int | None = None
    ) -> list[int]:
        """See `Finder.out_of_time`."""
        with self._reader() as db:
            asked = (set_number, now, valid_at)
            if at is None:
                rows = db.execute(row_values.OUT_OF_TIME, asked)
            else:
                rows = db.execute(row_values.OUT_OF_TIME_AT, (*asked, at))
            return [row for (row,) in rows]

    @translated
    def accessed(self, set_number: int) -> list[tuple[int, int]]:
        """See `Finder.accessed`."""
        with self._reader() as db:
            rows = query(db, row_values.ACCESSED, set_number)
        lately = self._touched
        found = [(row, max(time or 0, lately.get(first, 0))) for row, first, time in rows]
        return [(row, time) for row, time in found if time]

    @translated
    def pending(
        self, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
        """See `Finder.pending`."""
        with self._reader() as db:
            return staged_vectors.pending(db, set_numbers, limit)

    @translated
    def unstaged(self, set_numbers: Sequence[int], *, limit: int) -> list[PendingVectors]:
        """See `Finder.unstaged`."""
        with self._reader() as db:
            return staged_vectors.unstaged(db, set_numbers, limit)
