"""What search reads, and the vectors that are stored later than their items, as SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from alveus.store import (
    Feature,
    FeatureChange,
    PendingVectors,
    Scope,
    SearchCache,
    SearchView,
    SetInfo,
    SetRef,
    WholeSets,
)
from alveus.store.sql.connection import Connection, first, query
from alveus.store.sql.database import SetSnapshot, SqlDatabase, reads, writes
from alveus.store.sql.rows import (
    ACCESSED,
    FEATURE_ROW,
    FEATURES_AT,
    LIVE_FEATURES,
    OUT_OF_TIME,
    OUT_OF_TIME_AT,
    expect_notes,
    feature_changes,
    note_text,
    put_note,
    sets_of,
)
from alveus.store.sql.writer import WriterCache

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

_IN_SETS = " AND feature.set_id IN (SELECT value FROM carray(?2))"

_UNSTAGED = f"""
    {_MEANT} AND NOT EXISTS (SELECT 1 FROM staged WHERE staged.row = feature.row)
"""  # noqa: S608 - ours

_SETS_OF_SPACE = """
    SELECT memory_set.id, scope.key FROM scope JOIN memory_set ON memory_set.scope = scope.id
    WHERE scope.space IS ?
"""

FEATURES = 5_000
"""The most features that one query reads."""

SNAPSHOTS = 10_000
"""The most results of `seq_and_sets` that are cached for one `SqlDatabase._snapshot_key`."""


class SqlFinder(WholeSets, SqlDatabase):
    """Implements `Finder`."""

    @reads
    def seq(self, db: Connection) -> int:
        return first(db, "SELECT max(seq) FROM change") or 0

    @reads
    def seq_and_sets(
        self, db: Connection, sets: Sequence[SetRef] | Scope
    ) -> tuple[int, list[SetInfo]]:
        # The cached answers of a connection are valid until another commit.
        name = sets if isinstance(sets, Scope) else tuple(sets)
        key = self._snapshot_key(db)
        snapshot = self._snapshots.get(key)
        infos = None if snapshot is None else snapshot.sets.get(name)
        if infos is not None and snapshot is not None and self._version(db) == snapshot.version:
            return snapshot.seq, infos
        with self._snapshot(db):
            version = self._version(db)
            if snapshot is None or snapshot.version != version or len(snapshot.sets) >= SNAPSHOTS:
                seq = first(db, "SELECT max(seq) FROM change") or 0
                snapshot = self._snapshots[key] = SetSnapshot(version, seq, {})
            if isinstance(name, Scope):
                infos = sets_of(db, name)
            else:
                infos = [i for ref in name for i in sets_of(db, ref.scope, ref.name)]
        snapshot.sets[name] = infos
        return snapshot.seq, infos

    def search_view(self, sets: Sequence[SetRef] | Scope, cached: SearchCache) -> SearchView:  # noqa: ARG002 - all is near
        """See `Finder.search_view`."""
        return SearchView(*self.seq_and_sets(sets))

    @reads
    def changes(
        self, db: Connection, since: int, *, limit: int = 10_000
    ) -> list[FeatureChange] | None:
        before = first(db, "SELECT seq - rows FROM change ORDER BY seq LIMIT 1")
        if before is not None and before > since:
            return None
        sql = "SELECT seq, set_id, row, kind, rows FROM change WHERE seq > ? ORDER BY seq LIMIT ?"
        return list(islice(feature_changes(query(db, sql, since, limit), since), limit))

    def features(
        self, set_number: int, *, after: int = 0, at: int | None = None
    ) -> Iterator[Feature]:
        """See `Finder.features`."""
        while chunk := self._features(set_number, after, at):
            yield from chunk
            if len(chunk) < FEATURES:
                break
            after = chunk[-1].row

    @reads
    def _features(
        self, db: Connection, set_number: int, after: int, at: int | None
    ) -> list[Feature]:
        if at is None:
            rows = db.execute(LIVE_FEATURES, (set_number, after, FEATURES))
        else:
            rows = db.execute(FEATURES_AT, (set_number, at, after, FEATURES))
        return [Feature._make(row) for row in rows]

    @reads
    def features_of(self, db: Connection, set_number: int, rows: Sequence[int]) -> list[Feature]:
        found = db.query_all(*[(FEATURE_ROW, (set_number, row)) for row in rows])
        return [Feature._make(row) for some in found for row in some]

    @reads
    def expired_or_invalid_rows(
        self,
        db: Connection,
        set_number: int,
        *,
        now: int,
        valid_at: int | None,
        at: int | None = None,
    ) -> list[int]:
        if at is None:
            rows = query(db, OUT_OF_TIME, set_number, now, valid_at)
        else:
            rows = query(db, OUT_OF_TIME_AT, set_number, now, valid_at, at)
        return [row for (row,) in rows]

    @reads
    def access_times(self, db: Connection, set_number: int) -> list[tuple[int, int]]:
        touched = self._touch_times
        rows = [
            (row, max(time or 0, touched.get(item, 0)))
            for row, item, time in query(db, ACCESSED, set_number)
        ]
        return [(row, time) for row, time in rows if time]

    @reads
    def count_pending(self, db: Connection) -> int:
        return first(db, "SELECT count(*) FROM feature WHERE vectors IS NULL") or 0

    @reads
    def pending_vectors(
        self, db: Connection, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
        sets = () if set_numbers is None else (db.numbers(set_numbers),)
        return _waiting(db, f"vectors IS NULL{_IN_SETS if sets else ''}", limit, *sets)

    @reads
    def versions_to_stage(
        self, db: Connection, set_numbers: Sequence[int], *, limit: int
    ) -> list[PendingVectors]:
        return _waiting(db, f"{_UNSTAGED}{_IN_SETS}", limit, db.numbers(set_numbers))

    @writes
    def store_vectors(
        self,
        db: Connection,
        vectors: Sequence[tuple[int, int, bytes]],
        *,
        expects: Sequence[tuple[str, str]] = (),
    ) -> None:
        expect_notes(db, expects, {})
        db.write((FILL, vectors))

    @writes
    def stage_vectors(self, db: Connection, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        db.write((STAGE, [(row, new) for _, row, new in vectors]))

    @writes
    def drop_staged_vectors(self, db: Connection) -> None:
        db.execute("DELETE FROM staged")

    @writes
    def use_staged_vectors(
        self,
        db: Connection,
        set_numbers: Sequence[int],
        *,
        notes: Sequence[tuple[str, str | None, str]],
        scopes: Sequence[Scope] = (),
    ) -> bool:
        self._cache = WriterCache()
        if any(note_text(db, name) != expected for name, expected, _ in notes):
            return False
        for name, expected, text in notes:
            put_note(db, name, text, expected)
        numbers = set(set_numbers)
        for scope in scopes:
            found = query(db, _SETS_OF_SPACE, scope.space)
            numbers |= {number for number, key in found if bool(key) == (scope.key is not None)}
        query(db, _SWAP, db.numbers(sorted(numbers)))
        db.execute("DELETE FROM staged")
        return True


def _waiting(db: Connection, where: str, *bindings: object) -> list[PendingVectors]:
    """Return the versions that meet the SQL condition *where*: live versions first, then by end.

    Args:
        bindings: The limit, and the bindings of *where*.
    """
    sql = f"{_PENDING} WHERE {where} ORDER BY feature.ended, feature.row LIMIT ?1"
    return [
        PendingVectors(number, row, text or "", metadata)
        for number, row, text, metadata in query(db, sql, *bindings)
    ]
