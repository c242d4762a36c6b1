"""What a batch gathered for a set, kept so that a read looks at no more of it than it gives."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from alveus.search.index import SetIndex
from alveus.store import StoredItem
from alveus.store.records import feature_of, position_of
from alveus.store.times import expired, is_valid_at

AFTER_ALL = 1 << 62
"""Rows of drafted items: past every row of the store, so that they come last among their like."""

FIRST_READ = 16
"""Versions that a page looks at first; then twice as many each time."""

FEW_HOLES = 64
"""Versions that an index may hold which the batch replaced since, before it is made anew."""

Place: TypeAlias = tuple[int, int]
"""Where an item stands in its set; see `position_of`."""


class DraftedSet:
    """What a batch gathered for one set.

    Attributes:
        live: By id, the version that the batch made; None: it retired the item.
        hidden: Committed versions that the batch ended: their ids and expiries, by row.
        checked: Line of the change log as of which it is known which of those others ended too.
    """

    def __init__(self, rows: dict[int, StoredItem]) -> None:
        self.live: dict[str, StoredItem | None] = {}
        self.hidden: dict[int, tuple[str, int | None]] = {}
        self.checked: int | None = None
        self._rows = rows  # of all sets of the batch: its live versions, by row
        self._order: list[tuple[int, int, int]] = []
        self._expiries: list[int] = []
        self._hidden_expiries: list[int] = []
        self._gone = 0
        self._gone_expiries: list[int] = []
        self._with_validity: dict[int, StoredItem] = {}
        self._runs: dict[bool, tuple[int, int, dict[Place | None, Place]]] = {}
        self._index: SetIndex | None = None
        self._unindexed: list[int] = []
        self._unindexed_ends: list[int] = []

    def take(self, item_id: str, new: StoredItem | None, *, before: StoredItem | None) -> None:
        """Take a change: the item is *new* from now on, and was *before*; None: it is not there."""
        earlier = self.live.get(item_id)
        if earlier is not None:  # of this batch, which may not have seen it: it had expired
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
        """Have a version that is there be *stored*: the same, with its vectors."""
        self.live[stored.record.id] = self._rows[stored.row] = stored

    def more(self, now: int) -> int:
        """Return how many more items the set has than are committed, of those not expired."""
        live = len(self._order) - bisect_right(self._expiries, now)
        hidden = len(self.hidden) - bisect_right(self._hidden_expiries, now)
        gone = self._gone - bisect_right(self._gone_expiries, now)
        return live - (hidden - gone)

    def note_gone(self, gone: Sequence[int | None], seq: int) -> None:
        """Note the expiries of those of `hidden` that others ended too, by line *seq*."""
        self._gone = len(gone)
        self._gone_expiries = sorted(expires for expires in gone if expires is not None)
        self.checked = seq

    def past(self, after: Place | None, *, newest_first: bool) -> Iterator[StoredItem]:
        """Yield the versions past a position, in the order of a page; expired ones too.

        Another thread of the action may add to them meanwhile.
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

    def runs(self, seq: int, now: int, *, newest_first: bool) -> dict[Place | None, Place]:
        """Return the ends of known runs of hidden items by what comes before them, for a page.

        They are known as of line *seq* of the change log; the caller adds those it finds. Where
        the clock was set back, what had expired among them may be there again.
        """
        known_seq, known_now, runs = self._runs.get(newest_first, (seq, now, {}))
        if known_seq != seq or now < known_now:
            runs = {}
        self._runs[newest_first] = seq, now, runs
        return runs

    # --- what search reads ----------------------------------------------------------------------

    def index(self, now: int, valid_at: int | None, *, dimensions: int) -> SetIndex | None:
        """Return the index of what has not expired and holds; None: there is nothing.

        It is kept, and takes in what is new, as long as there is nothing to be left out. Serves
        one thread at a time.
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
