"""Items that searches found lately, at hand without asking the store.

A version of an item never changes, so what is kept here is right for as long as search finds it.
Only when an item was last read does change: that is kept up for what this process reads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, cast

from fornix import wire
from fornix.items import Item
from fornix.records import item_of
from fornix.store import Finder, Record, StoredItem
from fornix.values import moment

KEPT = 4_096
"""Items that are kept; with `LONGEST` a few MB in most memories, 32 MB at the very most."""

LONGEST = 2_048
"""Characters of value, text and metadata up to which an item is kept."""

_NAMES = [field.name for field in fields(Item)]
_PLACES = {name: at for at, name in enumerate(_NAMES)}
_VALUE, _METADATA, _ACCESSED = (_PLACES[name] for name in ("value", "metadata", "accessed"))

_PUT = [getattr(Item, name).__set__ for name in _NAMES]
"""What fills the slots of an item; its own `__init__`, frozen as it is, takes twice as long."""

_SCALARS = (str, int, float, bool, type(None))


@dataclass(slots=True)
class _Kept:
    """One item, by its fields in order, and the texts that those are decoded from which may change.

    Attributes:
        value: None: the value is a scalar, and the same for everyone.
        metadata: None: it holds scalars alone, so that copying it is enough.
    """

    first: int
    fields: list[Any]
    value: str | None
    metadata: str | None

    def item(self) -> Item:
        """Return the item, which shares nothing mutable with any other."""
        own = self.fields.copy()
        if self.value is not None:
            own[_VALUE] = wire.decode(self.value)
        own[_METADATA] = (
            own[_METADATA].copy() if self.metadata is None else wire.decode(self.metadata)
        )
        item = object.__new__(Item)
        for put, value in zip(_PUT, own, strict=True):
            put(item, value)
        return item


class Shelf:
    """The items of one store, by row."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._kept: dict[int, _Kept] = {}
        self._rows: dict[int, int] = {}
        self._mutex = threading.Lock()

    def items(self, rows: Sequence[int]) -> tuple[dict[int, Item], list[int]]:
        """Return the live items of *rows* that exist, by row, and their first rows."""
        kept = [self._kept.get(row) for row in rows]
        if None in kept:
            return self._with_stored(rows, kept)
        there = cast("list[_Kept]", kept)
        items = {row: one.item() for row, one in zip(rows, there, strict=True)}
        return items, [one.first for one in there]

    def _with_stored(
        self, rows: Sequence[int], kept: Sequence[_Kept | None]
    ) -> tuple[dict[int, Item], list[int]]:
        known = {row: one for row, one in zip(rows, kept, strict=True) if one is not None}
        stored = self._finder.stored([row for row in rows if row not in known])
        items = {row: one.item() for row, one in known.items()}
        items.update((one.row, item_of(one)) for one in stored)
        self._keep(stored, items)
        return items, [*(one.first for one in known.values()), *(one.first for one in stored)]

    def touched(self, firsts: Sequence[int], time: int) -> None:
        """Note that items were read."""
        when = moment(time)
        for first in firsts:
            row = self._rows.get(first)
            kept = None if row is None else self._kept.get(row)
            if kept is not None:
                kept.fields[_ACCESSED] = _later(kept.fields[_ACCESSED], when)

    def _keep(self, stored: Sequence[StoredItem], items: Mapping[int, Item]) -> None:
        with self._mutex:
            for one in stored:
                if _size(one.record) > LONGEST:
                    continue
                self._kept[one.row] = _kept(one, items[one.row])
                self._rows[one.first] = one.row
            while len(self._kept) > KEPT:
                oldest = self._kept.pop(next(iter(self._kept)))
                if self._rows.get(oldest.first) not in self._kept:
                    self._rows.pop(oldest.first, None)

    def clear(self) -> None:
        """Free the RAM."""
        with self._mutex:
            self._kept.clear()
            self._rows.clear()


def _kept(stored: StoredItem, item: Item) -> _Kept:
    plain = all(isinstance(value, _SCALARS) for value in item.metadata.values())
    own = [getattr(item, name) for name in _NAMES]
    own[_METADATA] = dict(item.metadata) if plain else {}
    scalar = isinstance(item.value, _SCALARS)
    own[_VALUE] = item.value if scalar else None
    record = stored.record
    return _Kept(
        stored.first, own, None if scalar else record.value, None if plain else record.metadata
    )


def _later(one: datetime | None, other: datetime) -> datetime:
    return other if one is None or other > one else one


def _size(record: Record) -> int:
    return len(record.value or "") + len(record.text or "") + len(record.metadata)
