"""The sets in use, kept up to date with the store and within a budget of RAM."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Container, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from alveus.search.index.segment import Damaged
from alveus.search.index.set_index import SetIndex
from alveus.search.index.set_loader import OVERGROWN, WORN, Outdated, SealedSets, apply
from alveus.store import FeatureChange, Finder, SearchCache, SearchView
from alveus.values.forks import HandleLock, call_within, let_go
from alveus.values.lazy_dataclass import dataclass

R = TypeVar("R")

NOTHING = SearchView(0, [])

logger = logging.getLogger(__name__)

HOLES = 2_048
"""Ended documents that a set in RAM may keep even if they outnumber its live ones."""

WAITING = 10_000
"""Changes that may wait for a loaded set even if they outnumber its live documents."""

LINE_BYTES = 120
"""RAM of a waiting change, roughly."""

OFTEN_MEASURED = 2_000
"""A set of more documents is measured after every use, a smaller set after every 16th use."""

SELDOM = 16


@dataclass(frozen=True, slots=True)
class IndexStats:
    """The size of an index.

    Attributes:
        bytes: RAM, roughly, without mapped files.
        sets: Loaded sets.
        segments: Sealed files.
        segment_bytes: Size of the sealed files.
        unsealed: Large loaded sets without a sealed file: each process builds them anew.
    """

    bytes: int
    sets: int
    segments: int
    segment_bytes: int
    unsealed: int


@dataclass(slots=True)
class _CatalogEntry:
    """A set that is loaded or soon will be.

    *lock* guards *index*; the lock of the catalog guards the other fields.

    Attributes:
        waiting: Changes to apply at the next use.
        live: Documents that were live when the set was last used.
        counted: The bytes of this entry in the catalog's sum.
    """

    number: int
    lock: HandleLock = field(default_factory=partial(HandleLock, reentrant=True))
    index: SetIndex | None = None
    waiting: list[FeatureChange] = field(default_factory=list[FeatureChange])
    users: int = 0
    uses: int = 0
    nbytes: int = 0
    live: int = 0
    counted: int = 0


class Index:
    """The sets of one store, ready for search: loaded at their first use, refreshed at each use.

    Threads share the index; one thread at a time uses a set. All sets can be dropped at any time
    and are loaded again from the store. The size depends on the live items alone, however many were
    added and ended before.

    Args:
        folder: The folder of sealed files of large sets, made when needed. None means that all sets
            stay in RAM.
        salt: The salt of the store. A file of another store is refused.
        writable: Whether sealed files may be written and removed. If not, they are only read.
        budget_bytes: RAM that unused sets may keep. A set that needs more by itself is kept in
            nameless files if *in_files* is set; else each use loads the set again.

    Attributes:
        seq: The last line of the store's change log that the index has read.
        epoch: The epoch in which the index read the store; see `SearchView`.
        numbers: Numbers of the sets that are loaded or soon will be.
    """

    def __init__(
        self,
        finder: Finder,
        *,
        folder: Path | None = None,
        salt: bytes = b"",
        writable: bool = True,
        budget_bytes: int = 256 << 20,
        in_files: bool = True,
    ) -> None:
        self._finder = finder
        self._budget_bytes, self._in_files = budget_bytes, in_files
        self._sealed = SealedSets(
            finder,
            folder=folder,
            salt=salt,
            writable=writable,
            budget_bytes=budget_bytes if in_files else None,
        )
        self._lock = HandleLock()
        self._entries: OrderedDict[int, _CatalogEntry] = OrderedDict()
        self.numbers: Container[int] = self._entries.keys()
        self.epoch = self.seq = 0
        self._bytes = 0  # the sum of `counted` of the entries
        self._users: WeakSet[Finder] = WeakSet()

    def join(self, user: Finder) -> None:
        """Register *user*, a handle of the store. It counts until `leave` or garbage collection."""
        with self._lock:
            self._users.add(user)

    def leave(self, user: Finder) -> None:
        """Unregister *user*. Without other users, free the RAM; named sealed files stay.

        May be called twice.
        """
        with self._lock:
            self._users.discard(user)
            if not self._users:
                self._drop_entries()
                self._sealed.leave()

    @contextmanager
    def view(
        self, set_numbers: Sequence[int], *, dimensions: int, seen: SearchView | None = None
    ) -> Generator[list[SetIndex]]:
        """Yield the sets in the order of *set_numbers*, with all earlier commits.

        The sets are valid inside the block, and no other thread uses them meanwhile. Inside the
        block the same thread must not open a second view of one of these sets.

        Args:
            dimensions: Numbers in a vector of the embedder. 0 means that it makes no vectors.
            seen: A search view of the sets, read a moment ago. The store is not read again for it.

        Raises:
            Damaged: A sealed file is damaged. The file is dropped, so the next view loads the set
                from the store. `read` handles this by repeating the work.
        """
        entries, seen = self._acquire(set_numbers, seen)
        locks = [entries[number].lock for number in sorted(entries)]
        try:
            for lock in locks:
                lock.acquire()
            sets = {n: self._refreshed(entry, dimensions, seen) for n, entry in entries.items()}
            try:
                yield [sets[number] for number in set_numbers]
            except Damaged as damage:
                self._discard(entries, damage)
                raise
            for entry in entries.values():
                self._measure(entry)
            let_go(locks)
        except BaseException:
            let_go(locks)
            raise
        finally:
            self._release(entries)

    def read(
        self,
        set_numbers: Sequence[int],
        *,
        dimensions: int,
        work: Callable[[list[SetIndex]], R],
        view: SearchView | None = None,
    ) -> R:
        """Call *work* with the sets and return its result; see `view`.

        If a sealed file is damaged, *work* is called again.

        Args:
            view: A search view of the sets, read a moment ago. The store is not read again for it.
        """
        try:
            if len(set_numbers) == 1:
                return self._read_one(set_numbers[0], dimensions, work, view)
            return call_within(self.view(set_numbers, dimensions=dimensions, seen=view), work)
        except Damaged:
            return call_within(self.view(set_numbers, dimensions=dimensions), work)

    def _read_one(
        self,
        number: int,
        dimensions: int,
        work: Callable[[list[SetIndex]], R],
        seen: SearchView | None,
    ) -> R:
        """Do the work of `read` for one set, the most common case: a tenth faster than `view`."""
        entries, seen = self._acquire((number,), seen)
        entry = entries[number]
        try:
            with entry.lock:
                index = self._refreshed(entry, dimensions, seen)
                try:
                    found = work([index])
                except Damaged as damage:
                    self._discard(entries, damage)
                    raise
                self._measure(entry)
                return found
        finally:
            self._release(entries)

    def drop(self, set_number: int) -> None:
        """Drop a set, and remove its sealed file. The next use loads the set from the store.

        The index then keeps no trace of forgotten items, except in a file that cannot be removed.
        That file is not used again, and the receipt of the erasure waits until it is removed. An
        open view stays valid.
        """
        with self._lock:
            entry = self._entries.get(set_number) or _CatalogEntry(set_number)
            self._drop_entry(entry)
        with entry.lock:
            entry.index = None
            self._sealed.discard(set_number)

    def clear(self) -> None:
        """Drop all loaded sets, to free RAM. Sealed files stay."""
        with self._lock:
            self._drop_entries()

    def tidy(self, *, dimensions: int) -> int:
        """Write new sealed files for loaded large sets that grew or changed much.

        Return the number of these sets.

        Meant for occasional calls in the background: unsealed changes are applied again each time
        the store is opened. Takes seconds for a million items.
        """
        with self._lock:
            entries = list(self._entries.values())
        sealed = 0
        for entry in entries:
            with entry.lock:
                if entry.index is not None and self._sealed.change_share(entry.index) > WORN:
                    entry.index = self._sealed.load(
                        entry.number, dimensions=dimensions, afresh=True
                    )
                    sealed += 1
        return sealed

    def stats(self) -> IndexStats:
        """Return the size of the index."""
        with self._lock:
            entries = list(self._entries.values())
        files = self._sealed.files()
        nbytes = sum(entry.nbytes + LINE_BYTES * len(entry.waiting) for entry in entries)
        unsealed = sum(self._sealed.should_have_file(one.number, one.index) for one in entries)
        return IndexStats(nbytes, len(entries), len(files), sum(files.values()), unsealed)

    # --- one use --------------------------------------------------------------------------------

    def _acquire(
        self, numbers: Sequence[int], seen: SearchView | None
    ) -> tuple[dict[int, _CatalogEntry], SearchView | None]:
        """Return the entries of sets, marked as in use, with the latest changes queued; and *seen*.

        If *seen* is of another state than the entries, return None instead of it.
        """
        with self._lock:
            if not self._is_of(seen):
                try:
                    self._route(seen)
                except BaseException:  # some may have changes that others lack
                    self._drop_entries()
                    raise
            entries: dict[int, _CatalogEntry] = {}
            for number in set(numbers):
                entry = self._entries.get(number)
                if entry is None:
                    entry = self._entries[number] = _CatalogEntry(number)
                self._entries.move_to_end(number)
                entry.users += 1
                entries[number] = entry
            return entries, seen if self._is_of(seen) else None

    def _is_of(self, seen: SearchView | None) -> bool:
        """Return whether *seen* is of the same state as the loaded sets."""
        return seen is not None and seen.seq == self.seq and seen.epoch == self.epoch

    def _route(self, seen: SearchView | None) -> None:
        """Queue the changes since the last view for the loaded sets."""
        if seen is None or (seen.epoch == self.epoch and seen.seq < self.seq):
            seen = self._finder.search_view((), SearchCache(self.seq))
        if seen.epoch != self.epoch or seen.seq < self.seq or not self._entries:
            self._forget(seen)
            return
        if seen.changes is not None and seen.since == self.seq:
            self._queue(seen.changes)
            self.seq = seen.seq
            return
        while self.seq < seen.seq:
            changes = self._finder.changes(self.seq)
            if not changes:
                self._forget(seen)
                return
            self._queue(changes)
            self.seq = changes[-1].seq

    def _queue(self, changes: Sequence[FeatureChange]) -> None:
        """Queue changes for loaded sets. Drop a set if loading it again is cheaper."""
        queued: dict[int, _CatalogEntry] = {}
        for change in changes:
            entry = self._entries.get(change.set_number)
            if entry is not None:
                entry.waiting.append(change)
                queued[entry.number] = entry
        for entry in queued.values():
            if len(entry.waiting) > max(WAITING, entry.live) and not entry.users:
                self._drop_entry(entry)

    def _forget(self, seen: SearchView) -> None:
        """Drop all sets, because the change log cannot bring them up to date. Go on from *seen*."""
        self._drop_entries()
        self.epoch, self.seq = seen.epoch, seen.seq

    def _refreshed(
        self, entry: _CatalogEntry, dimensions: int, seen: SearchView | None
    ) -> SetIndex:
        """Return the set with all its changes applied. The caller holds the lock of *entry*."""
        index = entry.index
        if not entry.waiting and index is not None and index.dimensions == dimensions:
            return index
        entry.index = None  # it must not stay half refreshed if something fails
        with self._lock:
            waiting, entry.waiting = entry.waiting, []
        load = partial(self._sealed.load, entry.number, dimensions=dimensions)
        forgets = any(change.kind == "removed" for change in waiting)
        try:
            if index is None and seen is not None and entry.number in seen.features:
                index = SetIndex.build(seen.features[entry.number], dimensions=dimensions)
            elif index is None or index.dimensions != dimensions:
                index = load()
            elif forgets and (self._sealed.drop_nameless(entry.number) or index.spilled):
                index = load()  # its nameless files have forgotten items
            elif waiting:
                brought = (seen or NOTHING).changed_features
                apply(waiting, index, self._finder, entry.number, brought)
                is_hollow = index.size - index.live > max(HOLES, index.live)
                if self._sealed.change_share(index) > OVERGROWN or (is_hollow and not index.sealed):
                    index = load(afresh=True)
        except Outdated:
            index = load()
        except Damaged as damage:
            self._discard({entry.number: entry}, damage)
            index = load()
        entry.index = index
        return index

    def _discard(self, entries: dict[int, _CatalogEntry], damage: Damaged) -> None:
        """Drop damaged sets. The caller holds the locks of *entries*."""
        logger.warning("a sealed index file is damaged and is made anew: %s", damage)
        for number, entry in entries.items():
            if entry.index is None or entry.index.sealed:
                entry.index = None
                self._sealed.discard(number)

    def _measure(self, entry: _CatalogEntry) -> None:
        entry.uses += 1
        index = entry.index
        entry.live = 0 if index is None else index.live
        nbytes = entry.nbytes
        if index is None:
            nbytes = 0
        elif index.size > OFTEN_MEASURED or entry.uses % SELDOM == 1:
            nbytes = index.nbytes
            if nbytes > self._budget_bytes and self._in_files:
                nbytes = self._spill(index)
        entry.nbytes = nbytes

    def _spill(self, index: SetIndex) -> int:
        """Move a set to files; if it is still too large, drop its cache. Return its size in RAM."""
        try:
            index.spill(self._sealed.spill_folder())
        except OSError as problem:
            logger.warning("a large set is read again at each search: %s", problem)
        if index.nbytes > self._budget_bytes:
            index.cache.clear()
        return index.nbytes

    def _release(self, entries: dict[int, _CatalogEntry]) -> None:
        """Mark *entries* as not in use; then drop the least recently used sets beyond the budget.

        Within the budget no other entry is read, because the sum of all sizes is kept.
        """
        with self._lock:
            for number, entry in entries.items():
                entry.users -= 1
                if self._entries.get(number) is entry:
                    self._bytes += entry.nbytes - entry.counted
                    entry.counted = entry.nbytes
            excess, unused = self._bytes - self._budget_bytes, list[_CatalogEntry]()
            for entry in self._entries.values() if excess > 0 else ():
                if not entry.users:  # an entry in use is dropped later
                    unused.append(entry)
                    excess -= entry.counted
                if excess <= 0:
                    break
            for entry in unused:
                self._drop_entry(entry)

    def _drop_entry(self, entry: _CatalogEntry) -> None:
        if self._entries.get(entry.number) is entry:
            del self._entries[entry.number]
            self._bytes -= entry.counted
            entry.counted = 0

    def _drop_entries(self) -> None:
        for entry in self._entries.values():
            entry.counted = 0
        self._entries.clear()
        self._bytes = 0
