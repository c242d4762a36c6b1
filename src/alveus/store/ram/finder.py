"""The reads of search in a `RamStore`: sets, features, changes and vectors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
    StoredItem,
    WholeSets,
)
from alveus.store.ram.database import RamTables, locked
from alveus.store.ram.items import info_of
from alveus.store.ram.rows import ItemRow, SetRows, number_of
from alveus.store.times import is_valid_at


class RamFinder(WholeSets, RamTables):
    """See `alveus.store.Finder`."""

    @locked
    def set_info(self, ref: SetRef) -> SetInfo | None:
        found = self._sets.get(ref)
        return None if found is None else info_of(found)

    @locked
    def set_infos(self, scope: Scope) -> list[SetInfo]:
        return [info_of(found) for found in self._sets.sets_of_scope(scope)]

    @locked
    def seq(self) -> int:
        return self._seq

    @locked
    def seq_and_sets(self, sets: Sequence[SetRef] | Scope) -> tuple[int, list[SetInfo]]:
        if isinstance(sets, Scope):
            return self._seq, self.set_infos(sets)
        found = [self.set_info(ref) for ref in sets]
        return self._seq, [info for info in found if info is not None]

    def search_view(self, sets: Sequence[SetRef] | Scope, cached: SearchCache) -> SearchView:  # noqa: ARG002 - all is near
        """See `Finder.search_view`."""
        return SearchView(*self.seq_and_sets(sets))

    @locked
    def changes(self, since: int, *, limit: int = 10_000) -> list[FeatureChange] | None:
        dropped = self._seq - len(self._log)
        if since < dropped:
            return None
        newest = list(islice(reversed(self._log), max(0, self._seq - since)))
        return newest[::-1][:limit]

    @locked
    def features(
        self, set_number: int, *, after: int = 0, at: int | None = None
    ) -> Iterator[Feature]:
        rows = self._sets.rows_by_number(set_number).rows
        start = bisect_right(rows, after, key=number_of)
        return iter([row.feature() for row in rows[start:] if row.is_live_at(at)])

    @locked
    def features_of(self, set_number: int, rows: Sequence[int]) -> list[Feature]:
        found = [self._rows[row] for row in rows if row in self._rows]
        return [row.feature() for row in found if row.set_rows.number == set_number]

    @locked
    def items_by_row(self, rows: Sequence[int]) -> list[StoredItem]:
        return [self._stored(self._rows[row]) for row in rows if row in self._rows]

    @locked
    def expired_or_invalid_rows(
        self, set_number: int, *, now: int, valid_at: int | None, at: int | None = None
    ) -> list[int]:
        set_rows = self._sets.rows_by_number(set_number)
        rows = set_rows.rows_with_validity.values() if at is None else set_rows.rows
        existing = [row for row in rows if row.has_validity() and row.is_live_at(at)]
        return [
            row.row
            for row in sorted(existing, key=number_of)
            if row.expired(now) or not (valid_at is None or is_valid_at(row.record, valid_at))
        ]

    @locked
    def access_times(self, set_number: int) -> list[tuple[int, int]]:
        live = self._sets.rows_by_number(set_number).live
        found = [(row.row, self._accessed.get(first)) for first, row in live.items()]
        return [(row, time) for row, time in found if time is not None]

    # --- vectors

    @locked
    def count_pending(self) -> int:
        return len(self._pending)

    @locked
    def pending_vectors(
        self, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
        rows = self._pending.values()
        wanted = [r for r in rows if set_numbers is None or r.set_rows.number in set_numbers]
        return _first(wanted, limit)

    @locked
    def store_vectors(
        self, vectors: Sequence[tuple[int, int, bytes]], *, expects: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._check_notes(expects)
        for set_number, number, new in vectors:
            row = self._pending.get(number)
            if row is not None and row.set_rows.number == set_number:
                self._put_vectors(row, new)

    def _put_vectors(self, row: ItemRow, vectors: bytes | None) -> None:
        row.record = replace(row.record, vectors=vectors)
        self._pending.pop(row.row, None)
        if vectors is None:
            self._pending[row.row] = row
        self._line(row, "embedded")

    @locked
    def versions_to_stage(self, set_numbers: Sequence[int], *, limit: int) -> list[PendingVectors]:
        sets = [rows for rows in self._sets.all_sets() if rows.number in set_numbers]
        return _first([r for r in _rows_with_meaning(sets) if r.row not in self._staged], limit)

    @locked
    def stage_vectors(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        self._staged.update({row: new for _, row, new in vectors if row in self._rows})

    @locked
    def sync(self) -> None:
        """Do nothing: RAM survives no loss of power; see `Finder.sync`."""

    @locked
    def drop_staged_vectors(self) -> None:
        self._staged.clear()

    @locked
    def use_staged_vectors(
        self,
        set_numbers: Sequence[int],
        *,
        notes: Sequence[tuple[str, str | None, str]],
        scopes: Sequence[Scope] = (),
    ) -> bool:
        if any(self._notes.get(name) != expected for name, expected, _ in notes):
            return False
        self._notes.update({name: text for name, _, text in notes})
        owners = {(scope.space, scope.key is None) for scope in scopes}
        sets = [
            rows
            for rows in self._sets.all_sets()
            if rows.number in set_numbers
            or (rows.ref.scope.space, rows.ref.scope.key is None) in owners
        ]
        for row in _rows_with_meaning(sets):
            self._put_vectors(row, self._staged.get(row.row))
        self._staged.clear()
        return True


def _rows_with_meaning(sets: Sequence[SetRows]) -> list[ItemRow]:
    return [row for set_rows in sets for row in set_rows.rows if row.has_meaning()]


def _first(rows: list[ItemRow], limit: int) -> list[PendingVectors]:
    """Return the texts of *limit* rows: live ones first, then in the order in which they ended."""
    chosen = sorted(rows, key=lambda row: (row.end_commit or 0, row.row))[:limit]
    return [
        PendingVectors(r.set_rows.number, r.row, r.record.text or "", r.record.metadata)
        for r in chosen
    ]
