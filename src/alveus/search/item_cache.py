"""A cache of the items that searches found lately, and of the hits of the last searches.

Of a version of an item, only the last access and the expiry ever change. So a cached version stays
valid as long as search finds it. A read in this process updates the cached last access. An item
that was renewed in this process, or has expired, is read from the store again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from alveus.store import Finder, ItemRecord, Scope, SetRef, StoredItem
from alveus.store.items import ITEM_FIELDS, Hit, Hits, Item
from alveus.store.records import decoded_metadata, item_of
from alveus.values import wire
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import moment

CACHED_ITEMS = 4_096
"""Most items that are cached: a few MB in most memories, at most 32 MB with `LONGEST`."""

LONGEST = 2_048
"""An item is cached if its value, text and metadata together have at most this many characters."""

_FIELDS = attrgetter(*ITEM_FIELDS)

_VALUE, _METADATA, _ACCESSED = map(ITEM_FIELDS.index, ("value", "metadata", "accessed"))

_SCALARS = (str, int, float, bool, type(None))


@dataclass(slots=True, eq=False)
class _CachedItem:
    """The fields of an item, and the texts from which mutable fields are decoded.

    Attributes:
        value: The value's JSON. None means that the value is a scalar, which can be shared.
        metadata: The metadata's JSON. None means that it contains only scalars, so a copy is
            enough.
    """

    first: int
    expires: int | None
    fields: list[Any]
    value: str | None
    metadata: str | None

    def item(self) -> Item:
        """Return the item. It shares no mutable object with any other."""
        fields = self.fields.copy()
        if self.metadata is None:
            fields[_METADATA] = fields[_METADATA].copy()
        else:
            fields[_METADATA] = decoded_metadata(self.metadata)
        if self.value is not None:
            fields[_VALUE] = wire.decode(self.value)
        return Item(*fields)


class ItemCache:
    """A cache of the items of one store, by row."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._items: dict[int, _CachedItem] = {}
        self._rows: dict[int, int] = {}
        self._epoch = 0
        self._mutex = HandleLock()

    def items(
        self, rows: Sequence[int], *, now: int, epoch: int
    ) -> tuple[list[Item | None], list[int]]:
        """Return the item of each row, and the first rows of the items that were found.

        A row that the store no longer has gives None. *now* becomes the last access of the cached
        items; the returned items show the access before it.

        Args:
            epoch: Epoch of the view that found *rows*. In another epoch the same numbers may be
                other rows.
        """
        if epoch != self._epoch:
            with self._mutex:
                self._clear()
                self._epoch = epoch
        cached = [self._fresh(row, now) for row in rows]
        if not all(cached):
            stored = self._finder.items_by_row(
                [r for r, one in zip(rows, cached, strict=True) if not one]
            )
            new = {one.row: _cached(one) for one in stored}
            self._add(new, stored, epoch)
            cached = [one or new.get(row) for row, one in zip(rows, cached, strict=True)]
        items = [one and one.item() for one in cached]
        present = [one for one in cached if one]
        _note(present, now)
        return items, [one.first for one in present]

    def touched(self, firsts: Sequence[int], now: int) -> None:
        """Make *now* the last access of the cached items with these first rows."""
        if not self._rows:
            return
        rows = [row for first in firsts if (row := self._rows.get(first)) is not None]
        _note([cached for row in rows if (cached := self._items.get(row))], now)

    def drop(self, rows: Sequence[int]) -> None:
        """Drop the items of *rows*, because their expiry has changed in the store."""
        with self._mutex:
            for row in rows:
                self._drop(row)

    def _drop(self, row: int) -> None:
        cached = self._items.pop(row, None)
        if cached is not None and self._rows.get(cached.first) not in self._items:
            self._rows.pop(cached.first, None)

    def _fresh(self, row: int, now: int) -> _CachedItem | None:
        """Return the cached item of a row. Return None if it is not cached, or has expired.

        Another process may have renewed an expired item, so the caller reads it again.
        """
        cached = self._items.get(row)
        if cached is None or cached.expires is None or cached.expires > now:
            return cached
        return None

    def _add(
        self, new: Mapping[int, _CachedItem], stored: Sequence[StoredItem], epoch: int
    ) -> None:
        with self._mutex:
            for one in stored if epoch == self._epoch else ():
                if _size(one.record) <= LONGEST:
                    self._items[one.row] = new[one.row]
                    self._rows[one.first] = one.row
            while len(self._items) > CACHED_ITEMS:
                self._drop(next(iter(self._items)))

    def clear(self) -> None:
        """Drop all cached items."""
        with self._mutex:
            self._clear()

    def _clear(self) -> None:
        self._items.clear()
        self._rows.clear()


def _note(cached: Sequence[_CachedItem], now: int) -> None:
    if cached:
        when = moment(now)
        for one in cached:
            was = one.fields[_ACCESSED]
            if was is None or was < when:
                one.fields[_ACCESSED] = when


def _cached(stored: StoredItem) -> _CachedItem:
    item, record = item_of(stored), stored.record
    plain = all(isinstance(value, _SCALARS) for value in item.metadata.values())
    scalar = isinstance(item.value, _SCALARS)
    value, metadata = None if scalar else record.value, None if plain else record.metadata
    return _CachedItem(stored.first, record.expires, list(_FIELDS(item)), value, metadata)


def _size(record: ItemRecord) -> int:
    return len(record.value or "") + len(record.text or "") + len(record.metadata)


SEARCHES = 32
"""Most searches that are cached for one scope."""

SCOPES = 1_024
"""Most scopes with cached searches: the scopes searched last."""

HITS_BYTES = 64 << 20
"""The most RAM of all cached searches, roughly. A single scope may take more."""

HIT_BYTES = 700
"""RAM of a hit beside its texts, roughly."""


class RecentHits:
    """The hits of the last searches of each scope in this process. Threads may share it."""

    def __init__(self) -> None:
        self._hits: OrderedDict[Scope, deque[tuple[Hits, int]]] = OrderedDict()
        self._bytes = 0
        self._mutex = HandleLock()

    def note(self, sets: Sequence[SetRef] | Scope, hits: Hits) -> None:
        """Cache the hits of a search of sets of one scope."""
        if not hits:
            return
        scope = sets if isinstance(sets, Scope) else sets[0].scope
        with self._mutex:
            searches = self._hits.setdefault(scope, deque())
            self._hits.move_to_end(scope)
            searches.append((hits, nbytes := sum(map(_bytes_of, hits))))
            self._bytes += nbytes
            if len(searches) > SEARCHES:
                self._bytes -= searches.popleft()[1]
            while len(self._hits) > SCOPES or (self._bytes > HITS_BYTES and len(self._hits) > 1):
                _, dropped = self._hits.popitem(last=False)
                self._bytes -= sum(size for _, size in dropped)

    def of(self, scope: Scope) -> list[tuple[Scope, Item]]:
        """Return the cached items found in *scope* or in knowledge, each once, with their scopes.

        Within a scope, the items of the latest search come first.
        """
        with self._mutex:
            pairs = [
                (owner, hit.item)
                for owner, searches in self._hits.items()
                if owner == scope or owner.key is None
                for hits, _ in reversed(searches)
                for hit in hits
            ]
        once: dict[tuple[Scope, str | None, str | None], tuple[Scope, Item]] = {}
        for owner, item in pairs:
            once.setdefault((owner, item.set_name, item.id), (owner, item))
        return list(once.values())

    def clear(self) -> None:
        """Drop all cached searches."""
        with self._mutex:
            self._hits.clear()
            self._bytes = 0


def _bytes_of(hit: Hit) -> int:
    value, text = hit.item.value, hit.item.text or ""
    return HIT_BYTES + len(text) + (len(value) if isinstance(value, (str, bytes)) else len(text))
