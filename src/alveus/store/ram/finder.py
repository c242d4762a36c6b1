"""What search reads of a `RamStore`: its sets, their features, and what changed in them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice

from alveus.store import (
    Feature,
    FeatureChange,
    ItemRecord,
    PendingVectors,
    Scope,
    SearchCache,
    SearchView,
    SetInfo,
    SetRef,
    StoredItem,
    WholeSets,
)
from alveus.store.checks import check_note
from alveus.store.ram.database import RamTables, locked
from alveus.store.ram.items import info_of
from alveus.store.ram.rows import SetRows, number_of


class RamFinder(WholeSets, RamTables):
    """What `Finder` promises; the rows are those of the store's commits."""

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
        set_rows = self._sets.get_by_number(set_number)
        rows = [] if set_rows is None else set_rows.rows
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
        set_rows = self._sets.get_by_number(set_number)
        rows = (
            []
            if set_rows is None
            else set_rows.rows_with_validity.values()
            if at is None
            else set_rows.rows
        )
        existing = [row for row in rows if row.has_validity() and row.is_live_at(at)]
        return sorted(row.row for row in existing if _out_of_time(row.record, now, valid_at))

    @locked
    def access_times(self, set_number: int) -> list[tuple[int, int]]:
        set_rows = self._sets.get_by_number(set_number)
        live = {} if set_rows is None else set_rows.live
        found = [(row.row, self._accessed.get(first)) for first, row in live.items()]
        return [(row, time) for row, time in found if time is not None]

    @locked
    def count_pending(self) -> int:
        return len(self._vectors.begin_commits())

    @locked
    def pending_vectors(
        self, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
        return self._vectors.pending(limit, set_numbers)

    @locked
    def store_vectors(
        self, vectors: Sequence[tuple[int, int, bytes]], *, expects: Sequence[tuple[str, str]] = ()
    ) -> None:
        for name, text in expects:
            check_note(name, expected=text, actual=self._notes.get(name))
        for row in self._vectors.fill(vectors):
            self._line(row, "embedded")

    @locked
    def versions_to_stage(self, set_numbers: Sequence[int], *, limit: int) -> list[PendingVectors]:
        return self._vectors.versions_to_stage(self._numbered(set_numbers), limit)

    @locked
    def stage_vectors(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        existing = {row: new for _, row, new in vectors if row in self._rows}
        self._vectors.staged.update(existing)

    @locked
    def sync(self) -> None:
        """Do nothing: RAM survives no loss of power; see `Finder.sync`."""

    @locked
    def drop_staged_vectors(self) -> None:
        self._vectors.staged.clear()

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
        meant = [
            rows
            for rows in self._sets.all_sets()
            if rows.number in set_numbers
            or (rows.ref.scope.space, rows.ref.scope.key is None) in owners
        ]
        for row in self._vectors.use_staged(meant):
            self._line(row, "embedded")
        return True

    def _numbered(self, set_numbers: Sequence[int]) -> list[SetRows]:
        return [set_rows for set_rows in self._sets.all_sets() if set_rows.number in set_numbers]


def _out_of_time(record: ItemRecord, now: int, valid_at: int | None) -> bool:
    if record.expires is not None and record.expires <= now:
        return True
    if valid_at is None:
        return False
    return (record.valid_from is not None and record.valid_from > valid_at) or (
        record.valid_to is not None and record.valid_to <= valid_at
    )
