"""A cache of the items that searches found lately, and of the hits of the last searches.

Of a version of an item, only the last access and the expiry ever change. So a cached version stays
valid as long as search finds it. A read in this process updates the cached last access. An item
that was renewed in this process, or has expired, is read from the store again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal

from alveus.search.cues import Cue, cue_of
from alveus.search.frames import Reading, reading
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

_VALUE, _TEXT, _METADATA, _ACCESSED = map(
    ITEM_FIELDS.index, ("value", "text", "metadata", "accessed")
)

_SCALARS = (str, int, float, bool, type(None))


@dataclass(slots=True, eq=False)
class CachedItem:
    """The fields of an item, and the texts from which mutable fields are decoded.

    Attributes:
        first: The row of the item's first version.
        is_lasting: Whether the item never expires and is always valid.
        says: What the text of the item says; False if it was not read yet.
        changes: What the text says has changed; False if it was not read yet.
        value: The value's JSON. None means that the value is a scalar, which can be shared.
        metadata: The metadata's JSON. None means that it contains only scalars, so a copy is
            enough.
    """

    first: int
    expires: int | None
    is_lasting: bool
    fields: list[Any]
    value: str | None
    metadata: str | None
    says: Reading | Literal[False] | None = False
    changes: Cue | Literal[False] | None = False

    @property
    def text(self) -> str | None:
        """The text of the item."""
        return self.fields[_TEXT]

    def reading(self) -> Reading | None:
        """Return what the text of the item says; it is read once."""
        if self.says is False:
            self.says = None if self.text is None else reading(self.text)
        return self.says

    def cue(self) -> Cue | None:
        """Return what the text of the item says has changed; it is read once."""
        if self.changes is False:
            self.changes = None if self.text is None else cue_of(self.text)
        return self.changes

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
        self._items: dict[int, CachedItem] = {}
        self._rows: dict[int, int] = {}
        self._epoch = 0
        self._mutex = HandleLock()

    def items(self, rows: Sequence[int], *, now: int, epoch: int) -> list[CachedItem | None]:
        """Return the item of each row, None for a row that the store no longer has.

        Args:
            now: An item that has expired by this time is read from the store again.
            epoch: Epoch of the view that found *rows*. In another epoch the same numbers may be
                other rows.
        """
        if epoch != self._epoch:
            with self._mutex:
                self._clear()
                self._epoch = epoch
        get = self._items.get
        # Another process may have renewed an expired item, so it is read again.
        cached = [
            one if (one := get(row)) is None or one.expires is None or one.expires > now else None
            for row in rows
        ]
        if not all(cached):
            stored = self._finder.items_by_row(
                [r for r, one in zip(rows, cached, strict=True) if not one]
            )
            new = {one.row: cached_item(one) for one in stored}
            self._add(new, stored, epoch)
            cached = [one or new.get(row) for row, one in zip(rows, cached, strict=True)]
        return cached

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

    def _add(self, new: Mapping[int, CachedItem], stored: Sequence[StoredItem], epoch: int) -> None:
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


def _note(cached: Sequence[CachedItem], now: int) -> None:
    if cached:
        when = moment(now)
        for one in cached:
            was = one.fields[_ACCESSED]
            if was is None or was < when:
                one.fields[_ACCESSED] = when


def cached_item(stored: StoredItem) -> CachedItem:
    """Return a stored item in the form in which it is cached."""
    item, record = item_of(stored), stored.record
    plain = all(isinstance(value, _SCALARS) for value in item.metadata.values())
    scalar = isinstance(item.value, _SCALARS)
    value, metadata = None if scalar else record.value, None if plain else record.metadata
    is_lasting = item.expire_at is item.valid_from is item.valid_to is None
    fields = list(_FIELDS(item))
    return CachedItem(stored.first, record.expires, is_lasting, fields, value, metadata)


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
