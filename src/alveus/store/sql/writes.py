"""What a store writes: commits, vectors and notes, and what goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alveus.errors import AlveusError
from alveus.store import OPS_KEPT, Batch, Commit, Scope
from alveus.store.erasures import Erased, Erasure
from alveus.store.sql import retention, staged_vectors, sweeping
from alveus.store.sql.connection import Connection, query
from alveus.store.sql.database import SqlDatabase, writes
from alveus.store.sql.erasing import DryRunDone, Eraser
from alveus.store.sql.group_commit import apply_each
from alveus.store.sql.scope_rows import WriterCache

_RENEW = """
    UPDATE item SET expires = ?2
    WHERE row = ?1 AND ended IS NULL AND expires > ?3 AND expires < ?2 RETURNING row
"""


class SqlWrites(SqlDatabase):
    """What `Ledger` and `Finder` promise of writing."""

    def commit(self, batch: Batch) -> Commit:
        """See `Ledger.commit`."""
        self.check_open()
        with self.observer.commit([batch]) as observed:
            answers = self.commit_queue.do(lambda tx: [tx.apply(batch)], (batch,), caller=observed)
            commit = observed.answered(answers)[0]
        if batch.state and not commit.adopted:
            self._known.trees.committed(batch.scope, batch.base, batch.state, commit.number)
        return commit

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | AlveusError]:
        """See `Ledger.commit_many`."""
        self.check_open()
        if not batches:
            return []
        with self.observer.commit(batches) as observed:
            answers = self.commit_queue.do(
                lambda tx: apply_each(tx, batches), batches, raises=False, caller=observed
            )
            return observed.answered(answers)

    def touch(self, rows: Sequence[int], *, time: int) -> None:
        """See `Ledger.touch`."""
        self.check_open()
        if not self._read_only:
            self._note_touches(rows, time)

    @writes
    def renew(self, db: Connection, expiries: Sequence[tuple[int, int]], *, now: int) -> int:
        return sum(
            len(list(query(db, _RENEW, row, expires, now))) for row, expires in sorted(expiries)
        )

    # --- vectors and notes --------------------------------------------------------------------

    @writes
    def store_vectors(
        self,
        db: Connection,
        vectors: Sequence[tuple[int, int, bytes]],
        *,
        expects: Sequence[tuple[str, str]] = (),
    ) -> None:
        staged_vectors.expect(db, expects, {})
        db.write((staged_vectors.FILL, vectors))

    @writes
    def stage_vectors(self, db: Connection, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        db.write((staged_vectors.STAGE, [(row, new) for _, row, new in vectors]))

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
        return staged_vectors.swap(db, set_numbers, notes, scopes)

    @writes
    def put_note(
        self, db: Connection, name: str, text: str | None, *, expected: str | None
    ) -> bool:
        self._cache = WriterCache()
        return staged_vectors.put_note(db, name, text, expected)

    # --- what goes ----------------------------------------------------------------------------

    @writes
    def sweep(self, db: Connection, *, now: int, ops_kept: int = OPS_KEPT) -> int:
        self._cache = WriterCache()
        return sweeping.sweep(db, now=now, ops_kept=ops_kept)

    @writes
    def prune_history(
        self, db: Connection, *, before: int, after: int = 0, limit: int = 10_000
    ) -> tuple[int, int | None]:
        return retention.prune(db, before=before, after=after, limit=limit)

    def erase(self, erasure: Erasure) -> Erased:
        """See `Ledger.erase`."""
        try:
            erased = self._erase(erasure, self.salt())
        except DryRunDone as rehearsed:
            return replace(rehearsed.erased, commit=None)
        self._known.trees.clear()
        return erased

    @property
    def _eraser(self) -> type[Eraser]:
        return Eraser

    @writes
    def _erase(self, db: Connection, erasure: Erasure, salt: bytes) -> Erased:
        self._cache = WriterCache()
        erased = self._eraser(self._transaction(db, WriterCache()), erasure, salt).run()
        if erasure.dry_run:
            raise DryRunDone(erased)
        return erased
