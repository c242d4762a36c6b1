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
"""Ended documents of a set in RAM that stay until there are more of them than live ones."""

WAITING = 10_000
"""Changes that a loaded set waits to take in, until they are more than its live documents."""

LINE_BYTES = 120
"""RAM that one of those takes, roughly."""

OFTEN_MEASURED = 2_000
"""Sets of more documents are measured after every use, smaller ones at every 16th."""

SELDOM = 16


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What an index takes.

    Attributes:
        bytes: Of RAM, roughly; files that are mapped are not counted.
        sets: Loaded ones.
        segments: Sealed files.
        segment_bytes: What they take on disk.
        unsealed: Loaded sets that are large and have none that others could use: each process
            builds them anew.
    """

    bytes: int
    sets: int
    segments: int
    segment_bytes: int
    unsealed: int


@dataclass(slots=True)
class _CatalogEntry:
    """A set that is loaded, or about to be. *lock* guards *index*, the catalog's lock the rest.

    Attributes:
        waiting: Changes that it is to take in.
        live: Documents that were live when it was last used.
        counted: Those of *nbytes* that the catalog's sum has.
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
    """The sets of one store, ready for search: loaded when asked for, refreshed at each use.

    Shared between threads; a set serves one of them at a time. Nothing in it is a second truth:
    all can be dropped at any time, and comes back from the store. What it takes follows from what
    is live, however much was added and ended before.

    Args:
        folder: Where sealed files of large sets are kept, made when first needed; None: all stays
            in RAM.
        salt: The store's; a file of another store is not taken.
        writable: Whether sealed files may be written and removed; else they are only read.
        budget_bytes: RAM that sets may keep while they are not in use. A set that alone takes more
            is kept in files without a name, if *in_files*; else it is read again at each use.
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
        self._epoch = self._seq = 0
        self._bytes = 0  # the sum of what the entries have counted
        self._users: WeakSet[Finder] = WeakSet()

    def join(self, user: Finder) -> None:
        """Note who uses it: a handle of the store, until it is collected or leaves."""
        with self._lock:
            self._users.add(user)

    def leave(self, user: Finder) -> None:
        """Free the RAM if nobody else uses it; sealed files stay. Twice is fine."""
        with self._lock:
            self._users.discard(user)
            if not self._users:
                self._drop_entries()
                self._sealed.leave()

    @property
    def numbers(self) -> Container[int]:
        """Sets that are loaded, or about to be."""
        return self._entries.keys()

    @property
    def seq(self) -> int:
        """The line of the change log that the last view went up to."""
        return self._seq

    @property
    def epoch(self) -> int:
        """That of the last view; see `SearchView`."""
        return self._epoch

    @contextmanager
    def view(
        self, set_numbers: Sequence[int], *, dimensions: int, seen: SearchView | None = None
    ) -> Generator[list[SetIndex]]:
        """Give the sets, in the order asked, with all that was committed before.

        They are valid inside the block, and nobody else uses them meanwhile: no second view of
        one of them may be opened inside it by the same thread.

        Args:
            dimensions: Of the embedder; 0: there are no vectors.
            seen: What was read of the sets a moment ago; what it holds is not read again.

        Raises:
            Damaged: A sealed file turned out to be damaged while it was read. It is dropped; the
                next view has the set from the store. `read` repeats the work itself.
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
        """Return what *work* makes of the sets; see `view`.

        Once more from the start if a sealed file turned out to be damaged.

        Args:
            view: What was read of the sets a moment ago; what it holds is not read again.
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
        """Do what `view` does for one set: most searches are of one, and this is much of them."""
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
        """Forget a set, and remove its sealed file; it comes back from the store when asked for.

        What was forgotten in the store leaves no trace here then, but in a file that cannot be
        removed: it is not used again, and keeps the receipt waiting. A view in use goes on.
        """
        with self._lock:
            entry = self._entries.get(set_number) or _CatalogEntry(set_number)
            self._drop_entry(entry)
        with entry.lock:
            entry.index = None
            self._sealed.discard(set_number)

    def drop_all(self) -> None:
        """Forget all sets, and remove every sealed file of this index."""
        for number in {*self._entries, *self._sealed.numbers()}:
            self.drop(number)

    def clear(self) -> None:
        """Free the RAM; sealed files stay."""
        with self._lock:
            self._drop_entries()

    def tidy(self, *, dimensions: int) -> int:
        """Seal anew the loaded large sets that grew or changed much; return how many.

        Worth calling now and then from the background: an unsealed change is taken in anew each
        time the store is opened. Takes seconds for a million items.
        """
        with self._lock:
            entries = list(self._entries.values())
        sealed = 0
        for entry in entries:
            with entry.lock:
                if entry.index is not None and self._sealed.change_share(entry.index) > WORN:
                    entry.index = self._load(entry, dimensions, afresh=True)
                    sealed += 1
        return sealed

    def stats(self) -> IndexStats:
        """Return what it takes."""
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
        """Return the sets' entries, which stay while they are held, told of the latest changes.

        And what was *seen*, if it says of the sets just what the entries were told; else None.
        """
        with self._lock:
            if not self._is_of(seen):
                try:
                    self._route(seen)
                except BaseException:  # some may have been told what others were not
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
        """Return whether *seen* says what loaded sets were told last."""
        return seen is not None and seen.seq == self._seq and seen.epoch == self._epoch

    def _route(self, seen: SearchView | None) -> None:
        """Tell each loaded set what changed in it since the last time."""
        if seen is None or (seen.epoch == self._epoch and seen.seq < self._seq):
            seen = self._finder.search_view((), SearchCache(self._seq))
        if seen.epoch != self._epoch or seen.seq < self._seq or not self._entries:
            self._forget(seen)
            return
        if seen.changes is not None and seen.since == self._seq:
            self._tell(seen.changes)
            self._seq = seen.seq
            return
        while self._seq < seen.seq:
            changes = self._finder.changes(self._seq)
            if not changes:
                self._forget(seen)
                return
            self._tell(changes)
            self._seq = changes[-1].seq

    def _tell(self, changes: Sequence[FeatureChange]) -> None:
        """Tell loaded sets of changes; drop those that wait for more than loading them costs."""
        told: dict[int, _CatalogEntry] = {}
        for change in changes:
            entry = self._entries.get(change.set_number)
            if entry is not None:
                entry.waiting.append(change)
                told[entry.number] = entry
        for entry in told.values():
            if len(entry.waiting) > max(WAITING, entry.live) and not entry.users:
                self._drop_entry(entry)

    def _forget(self, seen: SearchView) -> None:
        """Drop all sets: the change log does not say what happened in them."""
        self._drop_entries()
        self._epoch, self._seq = seen.epoch, seen.seq

    def _refreshed(
        self, entry: _CatalogEntry, dimensions: int, seen: SearchView | None
    ) -> SetIndex:
        """Return the set with all changes it was told of. Its lock is held."""
        index = entry.index
        if not entry.waiting and index is not None and index.dimensions == dimensions:
            return index
        entry.index = None  # half refreshed it must not stay, whatever fails
        with self._lock:
            waiting, entry.waiting = entry.waiting, []
        try:
            if index is None and seen is not None and entry.number in seen.features:
                index = SetIndex.build(seen.features[entry.number], dimensions=dimensions)
            elif (
                index is None
                or index.dimensions != dimensions
                or self._keeps_removed(entry.number, index, waiting)
            ):
                index = self._load(entry, dimensions)
            elif waiting:
                brought = (seen or NOTHING).changed_features
                apply(waiting, index, self._finder, entry.number, brought)
                if self._sealed.change_share(index) > OVERGROWN or _is_hollow(index):
                    index = self._load(entry, dimensions, afresh=True)
        except Outdated:
            index = self._load(entry, dimensions)
        except Damaged as damage:
            self._discard({entry.number: entry}, damage)
            index = self._load(entry, dimensions)
        entry.index = index
        return index

    def _keeps_removed(
        self, number: int, index: SetIndex, changes: Sequence[FeatureChange]
    ) -> bool:
        """Return whether what was forgotten is in files without a name, and give these up."""
        if not any(change.kind == "removed" for change in changes):
            return False
        return self._sealed.drop_nameless(number) or index.spilled

    def _load(self, entry: _CatalogEntry, dimensions: int, *, afresh: bool = False) -> SetIndex:
        return self._sealed.load(entry.number, dimensions=dimensions, afresh=afresh)

    def _discard(self, entries: dict[int, _CatalogEntry], damage: Damaged) -> None:
        """Drop what is damaged. The entries' locks are held."""
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
        """Have a set take less RAM than all sets may, if that can be; return what it takes."""
        try:
            index.spill(self._sealed.spill_folder())
        except OSError as problem:
            logger.warning("a large set is read again at each search: %s", problem)
        if index.nbytes > self._budget_bytes:
            index.cache.clear()
        return index.nbytes

    def _release(self, entries: dict[int, _CatalogEntry]) -> None:
        """Stop holding entries; then drop the least recently used ones beyond the budget.

        Looks at no others: what they all take is a sum that is kept.
        """
        with self._lock:
            for number, entry in entries.items():
                entry.users -= 1
                if self._entries.get(number) is entry:
                    self._bytes += entry.nbytes - entry.counted
                    entry.counted = entry.nbytes
            excess, unused = self._bytes - self._budget_bytes, list[_CatalogEntry]()
            for entry in self._entries.values() if excess > 0 else ():
                if not entry.users:  # what is in use now has to go later
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


def _is_hollow(index: SetIndex) -> bool:
    """Return whether a set in RAM has more holes than live documents."""
    return not index.sealed and index.size - index.live > max(HOLES, index.live)
