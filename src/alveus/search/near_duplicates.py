"""Finds candidates for near duplicates by shared words, for the admission rules of a set.

All candidates are found; the caller compares them. The newest items of a set are kept in dicts by
their terms, because dicts are cheap to update. The older items of a large set are found in the
index that search uses.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import field
from itertools import chain
from typing import NamedTuple

import numpy as np

from alveus.search.index import Index, SetIndex
from alveus.store import SearchView, SetRef, Store, StoredItem
from alveus.values import words
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass

RECENT_ITEMS = 16_384
"""Most items that are kept outside the index. If there are more, they are moved into it."""

COUNTED = 2_000
"""Up to this many items with any term of a probe are all counted.

If there are more, only the items with the probe's rarest terms are read.
"""

SETS = 256
"""Most sets whose recent items are kept."""


class Probe(NamedTuple):
    """The terms of an item, and the conditions for a candidate.

    Attributes:
        terms: The terms, each once. If empty, every item that is short enough is a candidate.
        least: Least number of *terms* that a candidate contains.
        most: Most tokens in the text of a candidate.
    """

    terms: Sequence[int]
    least: int
    most: int


class ItemsByTerm:
    """An index of items by their terms, in dicts."""

    def __init__(self) -> None:
        self._items: list[tuple[str, bytes, int]] = []
        self._holders: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def take(self, item_id: str, packed: bytes, tokens: int) -> None:
        """Add an item. If it was added before, its earlier words still find it."""
        at = len(self._items)
        self._items.append((item_id, packed, tokens))
        holders = self._holders
        for term in words.unpack(packed)[0].tolist():
            if term in holders:
                holders[term].append(at)
            else:
                holders[term] = [at]

    def find(self, probe: Probe) -> list[str]:
        """Return the ids of the candidates for *probe*. An id may occur more than once."""
        items, holders = self._items, self._holders
        if not probe.terms:
            return [item_id for item_id, _, tokens in items if tokens <= probe.most]
        lists = [holders[term] for term in probe.terms if term in holders]
        if len(lists) < probe.least:
            return []
        if sum(map(len, lists)) <= COUNTED:
            counts = Counter(chain.from_iterable(lists))
            enough = [items[at] for at, count in counts.items() if count >= probe.least]
            return [item_id for item_id, _, tokens in enough if tokens <= probe.most]
        return self._find_among(lists, probe)

    def _find_among(self, lists: list[list[int]], probe: Probe) -> list[str]:
        items = self._items
        lists.sort(key=len)
        few = lists[: len(lists) - probe.least + 1]  # each candidate is in one of these lists
        ids = list[str]()
        for at in {at for holders in few for at in holders}:
            item_id, packed, tokens = items[at]
            if tokens <= probe.most and shared(packed, probe.terms) >= probe.least:
                ids.append(item_id)
        return ids


def shared(packed: bytes, terms: Sequence[int]) -> int:
    """Return how many of *terms* are among the *packed* terms of an item."""
    return len(set(words.unpack(packed)[0].tolist()).intersection(terms))


def find(index: SetIndex, probe: Probe) -> list[str]:
    """Return the ids of the candidates for *probe* in *index*."""
    if not probe.terms:
        return index.ids(np.flatnonzero(index.alive & (index.length <= probe.most)))
    lists = sorted((index.holders(term) for term in probe.terms), key=len)
    few = len(lists) - probe.least + 1
    docs, shared = np.unique(np.concatenate(lists[:few]), return_counts=True)
    for most_to_come, others in zip(range(probe.least - 1, 0, -1), lists[few:], strict=True):
        enough = shared + most_to_come >= probe.least
        docs, shared = docs[enough], shared[enough]
        if not len(docs):
            return []
        if len(others):
            at = np.minimum(others.searchsorted(docs), len(others) - 1)
            shared = shared + (others[at] == docs)
    return index.ids(docs[(shared >= probe.least) & (index.length[docs] <= probe.most)])


@dataclass
class _IndexedSet:
    """The indexed state of a set. *lock* guards all fields.

    Attributes:
        number: The number of the set in the store.
        items: The number of the set's items when the set was first read.
        base: Items up to this row are in the index.
        read_up_to: Items up to this row are in the index or in *recent*.
    """

    number: int
    items: int
    base: int = 0
    read_up_to: int = 0
    recent: ItemsByTerm = field(default_factory=ItemsByTerm)
    lock: HandleLock = field(default_factory=HandleLock)


class Alike:
    """Finds candidates in the sets of one store. Threads may share it."""

    def __init__(self, store: Store, index: Index, *, dimensions: int) -> None:
        self._store, self._index, self._dimensions = store, index, dimensions
        self._sets: OrderedDict[SetRef, _IndexedSet] = OrderedDict()
        self._epoch = 0
        self._mutex = HandleLock()

    def find(self, ref: SetRef, probes: Sequence[Probe]) -> tuple[int, list[list[StoredItem]]]:
        """Return the row up to which the set was read, and the live candidates for each probe."""
        indexed = self._of(ref)
        if indexed is None:
            return 0, [[] for _ in probes]
        with indexed.lock:
            self._catch_up(indexed)
            last_row = indexed.read_up_to
            ids_by_probe = [indexed.recent.find(probe) for probe in probes]
            if indexed.base:
                for ids, more in zip(
                    ids_by_probe, self._in_index(indexed.number, probes), strict=True
                ):
                    ids.extend(more)
        return last_row, self._live(ref, ids_by_probe, None)

    def forget(self, ref: SetRef) -> None:
        """Drop the state of a set, because another set may get its name."""
        with self._mutex:
            self._sets.pop(ref, None)

    def clear(self) -> None:
        """Drop the state of all sets, because items were erased."""
        with self._mutex:
            self._sets.clear()

    def _of(self, ref: SetRef) -> _IndexedSet | None:
        with self._mutex:
            if self._epoch != self._index.epoch:
                self._sets.clear()
                self._epoch = self._index.epoch
            indexed = self._sets.get(ref)
            if indexed is not None:
                self._sets.move_to_end(ref)
                return indexed
        info = self._store.set_info(ref)
        if info is None:
            return None
        with self._mutex:
            indexed = self._sets.setdefault(ref, _IndexedSet(info.number, info.items))
            if len(self._sets) > SETS:
                self._sets.popitem(last=False)
        return indexed

    def find_at(self, ref: SetRef, probes: Sequence[Probe], at: int) -> list[list[StoredItem]]:
        """Return the candidates for each probe that were live after commit *at*.

        Reads the whole set.
        """
        info = self._store.set_info(ref)
        if info is None:
            return [[] for _ in probes]
        index = SetIndex.build(self._store.features(info.number, at=at), dimensions=0)
        return self._live(ref, [find(index, probe) for probe in probes], at)

    def _live(
        self, ref: SetRef, ids_by_probe: Sequence[Sequence[str]], at: int | None
    ) -> list[list[StoredItem]]:
        unique_ids = list(dict.fromkeys(item_id for ids in ids_by_probe for item_id in ids))
        if not unique_ids:
            return [[] for _ in ids_by_probe]
        live = dict(zip(unique_ids, self._store.get(ref, unique_ids, at=at), strict=True))
        each = ([live[item_id] for item_id in dict.fromkeys(ids)] for ids in ids_by_probe)
        return [[stored for stored in items if stored is not None] for items in each]

    def _catch_up(self, indexed: _IndexedSet) -> None:
        if len(indexed.recent) > RECENT_ITEMS or (
            indexed.items > RECENT_ITEMS and not indexed.read_up_to
        ):
            indexed.base = indexed.read_up_to = self._index.read(
                [indexed.number], dimensions=self._dimensions, work=_last_row
            )
            indexed.recent = ItemsByTerm()
        for feature in self._store.features(indexed.number, after=indexed.read_up_to):
            indexed.recent.take(feature.id, feature.terms, feature.tokens)
            indexed.read_up_to = feature.row

    def _in_index(self, number: int, probes: Sequence[Probe]) -> list[list[str]]:
        # The index is not refreshed, which would take longer: later items are in *recent*.
        return self._index.read(
            [number],
            dimensions=self._dimensions,
            work=lambda sets: [find(sets[0], probe) for probe in probes],
            view=SearchView(self._index.seq, [], epoch=self._index.epoch),
        )


def _last_row(sets: list[SetIndex]) -> int:
    sets[0].run()  # groups the postings of the set, so that later searches find them sooner
    return int(sets[0].row[-1]) if sets[0].size else 0
