"""The store on one SQLite file: what erases from it, and from its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fornix.erasures import Erased, Erasure, Kept
from fornix.errors import StoreReadOnly
from fornix.store import Scope, SetRef, StoredItem
from fornix.stores.sqlite import receipts, scrubbing, shapes
from fornix.stores.sqlite.apply import Known, Transaction
from fornix.stores.sqlite.connection import query, translated
from fornix.stores.sqlite.erasing import Eraser, Rehearsed, end_rehearsal
from fornix.stores.sqlite.lanes import SqliteLanes

_SETS = """
    SELECT name FROM memory_set WHERE scope = (SELECT id FROM scope WHERE space = ? AND key = ?)
    ORDER BY name
"""

_VERSIONS = f"""
    {shapes.ITEM} WHERE item.set_id = ?1 AND (item.id, item.version) > (?2, ?3)
    ORDER BY item.id, item.version LIMIT ?4
"""


class SqliteForgetting(SqliteLanes):
    """What `Ledger` promises of forgetting."""

    @translated
    def erase(self, erasure: Erasure) -> Erased:
        """See `Ledger.erase`."""
        salt = self.salt()
        try:
            with self._writing() as db:
                self._known = Known()
                assert self._owners is not None  # noqa: S101 - a writable store has them
                erased = Eraser(Transaction(db, Known(), self._owners), erasure, salt).run()
                end_rehearsal(erasure, erased)
        except Rehearsed as rehearsed:
            return replace(rehearsed.erased, commit=None)
        return erased

    @translated
    def scrub(self, *, now: int) -> list[str]:
        """See `Ledger.scrub`."""
        with self._writing() as db:
            unfinished = scrubbing.tidy(db, now=now)
        if not unfinished:
            return []
        if self._writer is None or self._lock is None:
            raise StoreReadOnly(f"{self._path} was opened read-only; open it without mode='ro'")
        with self._lock.held():
            self._check()
            self._check_place()
            self._known = Known()
            unfinished = scrubbing.rewrite(self._writer, receipts.unfinished(self._writer))
            held = scrubbing.empty_log(self._writer, self._path)
            held += scrubbing.clear_side_files(self.folder, unfinished)
            left = scrubbing.finish(self._writer, unfinished, held, now=now)
            self._known = Known()
        return left

    @property
    def open_elsewhere(self) -> list[int]:
        """Other processes that have the store open, as far as the system tells."""
        return scrubbing.others(self._path)

    @translated
    def receipts(
        self, owners: Sequence[str], *, before: int | None = None, limit: int = 100
    ) -> list[Kept]:
        """See `Ledger.receipts`."""
        with self._reader() as db:
            return receipts.receipts(db, owners, before, limit)

    @translated
    def receipt(self, receipt: str) -> Kept | None:
        """See `Ledger.receipt`."""
        with self._reader() as db:
            return receipts.receipt(db, receipt)

    @translated
    def kept(
        self, ref: SetRef, *, after: tuple[str, int] | None = None, limit: int = 256
    ) -> list[StoredItem]:
        """See `Ledger.kept`."""
        with self._reader() as db:
            for number in self._set_numbers(db, ref):
                rows = query(db, _VERSIONS, number, *(after or ("", -1)), limit)
                if rows:
                    return [self._stored(row, ref) for row in rows]
        return []

    @translated
    def every_set(self, scope: Scope) -> list[SetRef]:
        """See `Ledger.every_set`."""
        with self._reader() as db:
            rows = query(db, _SETS, scope.space, scope.key or "")
            return [SetRef(scope, name) for (name,) in rows]
