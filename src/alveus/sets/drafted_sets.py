"""The gathered items of a set in a batch, in order, so that a read visits only what it returns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from alveus.search.index import SetIndex
from alveus.store import StoredItem
from alveus.store.records import feature_of, position_of
from alveus.store.times import expired, is_valid_at

AFTER_ALL = 1 << 62
"""First row number of drafted items: above every row of a store, so that they sort last."""

FIRST_READ = 16
"""Versions that a page visits first; each further step visits twice as many."""

FEW_HOLES = 64
"""Replaced versions that an index may contain before the batch builds it anew."""

ItemPosition: TypeAlias = tuple[int, int]
"""The position of an item in its set; see `position_of`."""


class DraftedSet:
    """The gathered changes of one set.

    Attributes:
        live: The batch's version of each item by id; None marks a retired item.
        hidden: Committed versions that the batch ended: their ids and expiries, by row.
        checked: The line of the change log up to which `hidden` includes endings by others.
    """

    def __init__(self, rows: dict[int, StoredItem]) -> None:
        self.live: dict[str, StoredItem | None] = {}
        self.hidden: dict[int, tuple[str, int | None]] = {}
        self.checked: int | None = None
        self._rows = rows  # live versions of all sets of the batch, by row
        self._order: list[tuple[int, int, int]] = []
        self._expiries: list[int] = []
        self._hidden_expiries: list[int] = []
        self._gone = 0
        self._gone_expiries: list[int] = []
        self._with_validity: dict[int, StoredItem] = {}
        self._runs: dict[bool, tuple[int, int, dict[ItemPosition | None, ItemPosition]]] = {}
        self._index: SetIndex | None = None
        self._unindexed: list[int] = []
        self._unindexed_ends: list[int] = []

    def take(self, item_id: str, new: StoredItem | None, *, before: StoredItem | None) -> None:
        """Record a change from version *before* to version *new*; None means no item."""
        earlier = self.live.get(item_id)
        if earlier is not None:  # the batch may not have read its earlier version: it had expired
            self._drop(earlier)
        if before is not None and before.row < AFTER_ALL:
            expires = before.record.expires
            if expires is not None and before.row not in self.hidden:
                insort(self._hidden_expiries, expires)
            self.hidden[before.row] = item_id, expires
        self.live[item_id] = new
        if new is not None:
            self._add(new)

    def _add(self, new: StoredItem) -> None:
        self._rows[new.row] = new
        insort(self._order, (*position_of(new), new.row))
        record = new.record
        if record.expires is not None:
            insort(self._expiries, record.expires)
        if record.valid_from is not None or record.valid_to is not None:
            self._with_validity[new.row] = new
        if self._index is not None:
            self._unindexed.append(new.row)

    def _drop(self, old: StoredItem) -> None:
        del self._rows[old.row]
        del self._order[bisect_left(self._order, (*position_of(old), old.row))]
        if old.record.expires is not None:
            del self._expiries[bisect_left(self._expiries, old.record.expires)]
        self._with_validity.pop(old.row, None)
        if self._index is not None:
            self._unindexed_ends.append(old.row)

    def put(self, stored: StoredItem) -> None:
        """Replace a live version by *stored*: the same version with its vectors."""
        self.live[stored.record.id] = self._rows[stored.row] = stored

    def more(self, now: int) -> int:
        """Return the number of unexpired items minus the number of committed ones."""
        live = len(self._order) - bisect_right(self._expiries, now)
        hidden = len(self.hidden) - bisect_right(self._hidden_expiries, now)
        gone = self._gone - bisect_right(self._gone_expiries, now)
        return live - (hidden - gone)

    def note_gone(self, gone: Sequence[int | None], seq: int) -> None:
        """Record the expiries of `hidden` versions that others ended too, up to line *seq*."""
        self._gone = len(gone)
        self._gone_expiries = sorted(expires for expires in gone if expires is not None)
        self.checked = seq

    def past(self, after: ItemPosition | None, *, newest_first: bool) -> Iterator[StoredItem]:
        """Yield the versions after a position, in page order; expired versions too.

        Another thread of the action may add versions meanwhile.
        """
        order, most = self._order, FIRST_READ
        last = None if after is None else (*after, -1 if newest_first else 2 * AFTER_ALL)
        while True:
            if newest_first:
                end = len(order) if last is None else bisect_left(order, last)
                chunk = order[max(0, end - most) : end][::-1]
            else:
                start = 0 if last is None else bisect_right(order, last)
                chunk = order[start : start + most]
            for *_, row in chunk:
                if (stored := self._rows.get(row)) is not None:
                    yield stored
            if len(chunk) < most:
                return
            last, most = chunk[-1], 2 * most

    def runs(
        self, seq: int, now: int, *, newest_first: bool
    ) -> dict[ItemPosition | None, ItemPosition]:
        """Return known runs of hidden items: from the position before a run to its end.

        The runs are valid up to line *seq* of the change log. The caller adds the runs it finds.
        After the clock was set back, expired items in a run may be live again.
        """
        known_seq, known_now, runs = self._runs.get(newest_first, (seq, now, {}))
        if known_seq != seq or now < known_now:
            runs = {}
        self._runs[newest_first] = seq, now, runs
        return runs

    # --- search ---------------------------------------------------------------------------------

    def index(self, now: int, valid_at: int | None, *, dimensions: int) -> SetIndex | None:
        """Return an index of the unexpired items that are valid; None if there are none.

        The index is kept and extended until an item in it ends. Serves one thread at a time.
        """
        if not self._order:
            return None
        if (self._expiries and self._expiries[0] <= now) or (
            valid_at is not None
            and not all(is_valid_at(s.record, valid_at) for s in self._with_validity.values())
        ):
            rows = [
                row
                for row in self._sorted_rows()
                if not expired(self._rows[row].record, now)
                and (valid_at is None or is_valid_at(self._rows[row].record, valid_at))
            ]
            return self._built(rows, dimensions) if rows else None
        index, new_rows, ends = self._index, self._unindexed, self._unindexed_ends
        if index is None or index.size + len(new_rows) > 2 * len(self._order) + FEW_HOLES:
            index = self._index = self._built(self._sorted_rows(), dimensions)
        else:
            for row in ends:
                index.end(row)
            new = [self._rows[row] for row in new_rows if row in self._rows]
            index.extend([feature_of(stored) for stored in new])
        new_rows.clear()
        ends.clear()
        return index

    def _sorted_rows(self) -> list[int]:
        return sorted(row for _, _, row in self._order)

    def _built(self, rows: list[int], dimensions: int) -> SetIndex:
        features = (feature_of(self._rows[row]) for row in rows)
        return SetIndex.build(features, dimensions=dimensions)
