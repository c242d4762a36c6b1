"""The view of a set that a compaction reads: its items, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, Self

from alveus.store import Feature, ItemRecord, SetInfo, Store, StoredItem
from alveus.store.records import position_of
from alveus.store.scope import SetRef
from alveus.store.sets import Definition
from alveus.store.times import expired
from alveus.values.lazy_dataclass import dataclass

PAGE = 512


class View(Protocol):
    """A read view of a set: the store, or a batch with uncommitted changes."""

    def info(self, ref: SetRef) -> SetInfo | None:
        """Return the set, or None if it does not exist."""
        ...

    def page(self, ref: SetRef, after: tuple[int, int] | None, limit: int) -> list[StoredItem]:
        """Return up to *limit* items in order of (time, first row), after the position *after*."""
        ...

    def features(self, ref: SetRef, items: Sequence[StoredItem]) -> Mapping[int, Feature]:
        """Return the search features of items, by row."""
        ...


class StoreView:
    """A view of committed sets."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def info(self, ref: SetRef) -> SetInfo | None:
        """See `View.info`."""
        return self._store.set_info(ref)

    def page(self, ref: SetRef, after: tuple[int, int] | None, limit: int) -> list[StoredItem]:
        """See `View.page`."""
        return self._store.page(ref, after=after, limit=limit)

    def features(self, ref: SetRef, items: Sequence[StoredItem]) -> Mapping[int, Feature]:
        """See `View.features`."""
        info = self._store.set_info(ref)
        rows = [stored.row for stored in items]
        found = [] if info is None else self._store.features_of(info.number, rows)
        return {feature.row: feature for feature in found}


@dataclass(frozen=True, slots=True)
class SetSize:
    """The size of a set, or of items to add."""

    items: int
    tokens: int
    bytes: int

    @classmethod
    def of(cls, info: SetInfo) -> Self:
        """Return the size of a set."""
        return cls(info.items, info.tokens, info.bytes)

    def __add__(self, more: SetSize) -> SetSize:
        return SetSize(self.items + more.items, self.tokens + more.tokens, self.bytes + more.bytes)

    def __sub__(self, less: SetSize) -> SetSize:
        return SetSize(self.items - less.items, self.tokens - less.tokens, self.bytes - less.bytes)

    def exceeds(self, definition: Definition, share: float = 1.0) -> bool:
        """Return whether the size exceeds a share of a set's capacities."""
        return (
            definition.exceeded_capacity(self.items, self.tokens, self.bytes, share=share)
            is not None
        )


NOTHING = SetSize(0, 0, 0)


@dataclass(frozen=True, slots=True)
class CompactionSnapshot:
    """A set to compact.

    Attributes:
        coming: The size of the items that are about to be added: the set must have room for them.
        now: The clock, in microseconds.
    """

    view: View
    info: SetInfo
    coming: SetSize
    now: int

    @property
    def ref(self) -> SetRef:
        """The set."""
        return self.info.ref

    @property
    def definition(self) -> Definition:
        """The definition of the set."""
        return self.info.definition

    @property
    def live_size(self) -> SetSize:
        """The size of the set."""
        return SetSize.of(self.info)

    def oldest(self) -> Iterator[StoredItem]:
        """Yield the items of the set, oldest first."""
        after: tuple[int, int] | None = None
        while page := self.view.page(self.ref, after, PAGE):
            yield from (stored for stored in page if not expired(stored.record, self.now))
            after = position_of(page[-1])

    def sizes(self, items: Sequence[StoredItem]) -> list[SetSize]:
        """Return the size of each of *items*."""
        counts = self.definition.capacity_tokens is not None
        none: Mapping[int, Feature] = {}
        features = self.view.features(self.ref, items) if counts else none
        return [
            SetSize(1, features[s.row].tokens if s.row in features else 0, bytes_of(s.record))
            for s in items
        ]


def living(store: Store, info: SetInfo, now: int) -> SetInfo:
    """Return *info* with counts and sizes that exclude expired items.

    A store counts expired items until the next add or sweep.
    """
    if info.next_expiry is None or info.next_expiry > now:
        return info
    rows = store.expired_or_invalid_rows(info.number, now=now, valid_at=None)
    gone = store.items_by_row(rows)
    tokens = sum(feature.tokens for feature in store.features_of(info.number, rows))
    size = sum(bytes_of(stored.record) for stored in gone)
    return replace(
        info,
        items=info.items - len(gone),
        tokens=info.tokens - tokens,
        bytes=info.bytes - size,
        next_expiry=None,
    )


def time_of(stored: StoredItem) -> int:
    """Return the time at which the event of an item begins."""
    return position_of(stored)[0]


def end_of(stored: StoredItem) -> int:
    """Return the time at which the event of an item ended."""
    until = stored.record.until
    return time_of(stored) if until is None else until


def bytes_of(record: ItemRecord) -> int:
    """Return the size of an item in bytes, as a set's capacity counts it."""
    texts = (record.value, record.text, record.metadata)
    return sum(len(text.encode()) for text in texts if text is not None)


def record_size(record: ItemRecord) -> SetSize:
    """Return the size of an item to add."""
    return SetSize(1, record.tokens, bytes_of(record))
