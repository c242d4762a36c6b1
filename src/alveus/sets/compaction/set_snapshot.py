"""What a compaction works on: a set as somebody sees it, its items oldest first."""

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
        """Return the set, or None while there is none."""
        ...

    def page(
        self, ref: SetRef, *, after: tuple[int, int] | None, limit: int, newest_first: bool
    ) -> list[StoredItem]:
        """Return up to *limit* items by (time, first)."""
        ...

    def features(self, ref: SetRef, items: Sequence[StoredItem]) -> Mapping[int, Feature]:
        """Return what search reads of items, by row."""
        ...


class StoreView:
    """A set as it is committed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def info(self, ref: SetRef) -> SetInfo | None:
        """See `View.info`."""
        return self._store.set_info(ref)

    def page(
        self, ref: SetRef, *, after: tuple[int, int] | None, limit: int, newest_first: bool
    ) -> list[StoredItem]:
        """See `View.page`."""
        return self._store.page(ref, after=after, limit=limit, newest_first=newest_first)

    def features(self, ref: SetRef, items: Sequence[StoredItem]) -> Mapping[int, Feature]:
        """See `View.features`."""
        info = self._store.set_info(ref)
        rows = [stored.row for stored in items]
        found = [] if info is None else self._store.features_of(info.number, rows)
        return {feature.row: feature for feature in found}


@dataclass(frozen=True, slots=True)
class SetSize:
    """How much a set holds, or how much is to come."""

    items: int
    tokens: int
    bytes: int

    @classmethod
    def of(cls, info: SetInfo) -> Self:
        """Return how much a set holds."""
        return cls(info.items, info.tokens, info.bytes)

    def __add__(self, more: SetSize) -> SetSize:
        return SetSize(self.items + more.items, self.tokens + more.tokens, self.bytes + more.bytes)

    def __sub__(self, less: SetSize) -> SetSize:
        return SetSize(self.items - less.items, self.tokens - less.tokens, self.bytes - less.bytes)

    def exceeds(self, definition: Definition, share: float = 1.0) -> bool:
        """Whether it is more than a share of a set's capacities."""
        return (
            definition.exceeded_capacity(self.items, self.tokens, self.bytes, share=share)
            is not None
        )


NOTHING = SetSize(0, 0, 0)


@dataclass(frozen=True, slots=True)
class CompactionSnapshot:
    """A set that is to be compacted.

    Attributes:
        coming: What is to be added to it, for which there must be room.
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
        """What it was opened with."""
        return self.info.definition

    @property
    def live_size(self) -> SetSize:
        """What is in it."""
        return SetSize.of(self.info)

    def oldest(self) -> Iterator[StoredItem]:
        """Yield its items, the oldest first."""
        after: tuple[int, int] | None = None
        while page := self.view.page(self.ref, after=after, limit=PAGE, newest_first=False):
            yield from (stored for stored in page if not expired(stored.record, self.now))
            after = position_of(page[-1])

    def sizes(self, items: Sequence[StoredItem]) -> list[SetSize]:
        """Return what each of *items* counts for."""
        counts = self.definition.capacity_tokens is not None
        none: Mapping[int, Feature] = {}
        features = self.view.features(self.ref, items) if counts else none
        return [
            SetSize(1, features[s.row].tokens if s.row in features else 0, bytes_of(s.record))
            for s in items
        ]


def living(store: Store, info: SetInfo, now: int) -> SetInfo:
    """Return a set without its items that have expired, which take no room.

    A store counts them until something is added, or a sweep comes.
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
    """Return when what an item says began to happen."""
    return position_of(stored)[0]


def end_of(stored: StoredItem) -> int:
    """Return when what an item says had happened."""
    until = stored.record.until
    return time_of(stored) if until is None else until


def bytes_of(record: ItemRecord) -> int:
    """Return what an item counts for in the bytes of its set."""
    texts = (record.value, record.text, record.metadata)
    return sum(len(text.encode()) for text in texts if text is not None)


def record_size(record: ItemRecord) -> SetSize:
    """Return what an item that is to be added counts for."""
    return SetSize(1, record.tokens, bytes_of(record))
