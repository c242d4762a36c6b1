"""The observations of a window in RAM: ordered by time, joined to units, ranked by columns.

A unit is an observation, or a group in which observations answer each other's tool calls. A unit is
shown, counted and removed together. A `Mirror` reads changes of the set from the store's log.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from alveus.agents.windows.observation import RELATED, ObservationHeader, entry_of
from alveus.errors import InvalidInput
from alveus.sets.batch import Draft
from alveus.sets.set_editor import SetEditor
from alveus.sets.writer import Writer
from alveus.store import (
    Definition,
    Feature,
    FeatureChange,
    ItemRecord,
    SearchCache,
    SetInfo,
    SetRef,
    Store,
    StoredItem,
)
from alveus.text.messages import OBSERVATIONS
from alveus.values.forks import HandleLock

Column: TypeAlias = NDArray[Any]
"""A number for each slot of a `WindowIndex`. Numbers of free slots have no meaning."""

SortKey: TypeAlias = tuple[str, int]

FIRST_BLOCK = 128
"""How many of the best items are sorted first. Each further block is four times as large."""


def by_time(entry: ObservationHeader) -> SortKey:
    """Return the sort key of an observation in the order of creation."""
    return (entry.created, entry.first)


def by_arrival(entry: ObservationHeader) -> SortKey:
    """Return the sort key of an observation in the order of commits."""
    return ("", entry.first)


class WindowIndex:
    """The headers of a window's observations. Each has a slot, its position in the columns.

    Attributes:
        live: True for occupied slots.
        importance: The importance of each observation.
        made: The time of each observation in ticks; see `ticks`.
        first: The row of each item. Rows order observations with the same time.
        unit: The unit of each observation, as the slot of one member of the unit.
        layer: The layer of each observation in a window of several layers.
    """

    def __init__(self, order: Callable[[ObservationHeader], SortKey] = by_time) -> None:
        self._sort_key, self._by_time = order, order is by_time
        self._slots: dict[str, int] = {}
        self._entries: list[ObservationHeader | None] = []
        self._free: list[int] = []
        self._order: list[tuple[SortKey, str]] = []
        self._members: dict[int, set[int]] = {}
        self._joined = 0
        self._callers: dict[str, list[tuple[SortKey, int]]] = {}
        self._linking: dict[str, set[str]] = {}
        self.live: Column = np.zeros(0, np.bool_)
        self.importance: Column = np.zeros(0, np.float64)
        self.made: Column = np.zeros(0, np.int64)
        self.first: Column = np.zeros(0, np.int64)
        self.unit: Column = np.zeros(0, np.int64)
        self.layer: Column = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._slots

    def __iter__(self) -> Iterator[ObservationHeader]:
        """Yield all headers, oldest first."""
        return (self[item_id] for _, item_id in self._order)

    def __reversed__(self) -> Iterator[ObservationHeader]:
        return (self[item_id] for _, item_id in reversed(self._order))

    def __getitem__(self, item_id: str) -> ObservationHeader:
        return self.at(self._slots[item_id])

    def at(self, slot: int) -> ObservationHeader:
        """Return the observation in an occupied slot."""
        entry = self._entries[slot]
        assert entry is not None  # noqa: S101 - it is asked for by what is live
        return entry

    def slot(self, item_id: str) -> int:
        """Return the slot of an observation."""
        return self._slots[item_id]

    @property
    def age(self) -> Column:
        """The time or the arrival number of each observation. A larger number is newer."""
        return self.made if self._by_time else self.first

    @property
    def slots(self) -> Column:
        """The occupied slots."""
        return np.flatnonzero(self.live)

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self) - self._joined

    def in_order(self, entries: Iterable[ObservationHeader]) -> list[ObservationHeader]:
        """Return observations in the order of the window."""
        return sorted(entries, key=self._sort_key)

    def unit_of(self, entry: ObservationHeader) -> list[ObservationHeader]:
        """Return the unit of an observation, in order."""
        slot = self._slots[entry.id]
        members = self._members.get(int(self.unit[slot]), {slot})
        return self.in_order(self.at(member) for member in members)

    def last_units(self, most: int) -> list[list[ObservationHeader]]:
        """Return up to *most* units with the newest observations, newest first."""
        if not self._members:
            return [[entry] for entry in islice(reversed(self), most)]
        found: dict[int, list[ObservationHeader]] = {}
        for entry in reversed(self):
            if len(found) == most:
                break
            unit = int(self.unit[self._slots[entry.id]])
            if unit not in found:
                found[unit] = self.unit_of(entry)
        return list(found.values())

    def caller(self, call: str) -> ObservationHeader | None:
        """Return the last observation that asked for a tool call, or None."""
        callers = self._callers.get(call)
        return self.at(callers[-1][1]) if callers else None

    def linked(self, item_id: str) -> dict[str, str]:
        """Return the kind of each link to or from an observation, by the other observation's id."""
        if item_id not in self:
            return {}
        entry, found = self[item_id], dict[str, str]()
        for other in self._linking.get(item_id, ()):
            found[other] = self[other].kinds.get(item_id, RELATED)
        for link in entry.links:
            if link in self:
                found[link] = entry.kinds.get(link, RELATED)
        found.pop(item_id, None)
        return found

    # --- ranked -------------------------------------------------------------------------------

    def of_units(self, column: Column) -> Column:
        """Return a column that gives each observation the largest number in its unit."""
        if not self._members:
            return column
        least = -np.inf if column.dtype.kind == "f" else np.iinfo(column.dtype).min
        largest = np.full(len(column), least, column.dtype)
        slots = self.slots
        np.maximum.at(largest, self.unit[slots], column[slots])
        return largest[self.unit]

    def best_first(self, worth: Column | None) -> Iterator[int]:
        """Yield slots by their worth, best first. Of slots with equal worth, the newest is first.

        Only the slots that are read are sorted. Slots with the worth -inf are left out. If *worth*
        is None, all slots are equal.
        """
        if worth is None:
            yield from (self._slots[item_id] for _, item_id in reversed(self._order))
            return
        slots = self.slots
        if worth.dtype.kind == "f":
            slots = slots[worth[slots] > -np.inf]
        most = FIRST_BLOCK
        while len(slots) > most:
            values = worth[slots]
            border = np.partition(values, len(values) - most)[len(values) - most]
            yield from self._sorted(slots[values > border], worth)
            yield from self._sorted(slots[values == border], worth)
            slots, most = slots[values < border], most * 4
        yield from self._sorted(slots, worth)

    def _sorted(self, slots: Column, worth: Column) -> Iterator[int]:
        order = np.lexsort((*self._ages(slots), worth[slots]))
        return (int(slot) for slot in slots[order[::-1]])

    def _ages(self, slots: Column) -> tuple[Column, Column]:
        """Return two keys that sort slots from old to new. The second breaks ties of the first."""
        return self.first[slots], self.age[slots]

    def worst(
        self, worth: Column | None, safe: Collection[int], *, among: Column | None = None
    ) -> int | None:
        """Return the slot with the least worth that is not *safe*, or None if there is none.

        Of slots with equal worth, the oldest is returned. A unit is as old as its newest
        observation.

        Args:
            worth: The worth of each slot. None means that all are equal.
            among: Slots that may leave, as a mask. None means any occupied slot.
        """
        if worth is None:
            slots = (self._slots[item_id] for _, item_id in self._order)
            there = (slot for slot in slots if among is None or among[slot])
            return next((s for s in there if s not in safe and self._is_last(s)), None)
        left = self.live.copy() if among is None else self.live & among
        left[list(safe)] = False
        slots = np.flatnonzero(left)
        if not len(slots):
            return None
        values = worth[slots]
        least = slots[values == values.min()]
        if self._members:
            in_order = (int(slot) for slot in least[np.lexsort(self._ages(least))])
            return next(slot for slot in in_order if self._is_last(slot))
        oldest = least[self.age[least] == self.age[least].min()]
        return int(oldest[np.argmin(self.first[oldest])])

    def _is_last(self, slot: int) -> bool:
        """Return whether an observation is the newest of its unit."""
        members = self._members.get(int(self.unit[slot]))
        return members is None or self.unit_of(self.at(slot))[-1] is self.at(slot)

    # --- changed ------------------------------------------------------------------------------

    def add(self, entry: ObservationHeader) -> None:
        """Add an observation. An observation that is held already stays unchanged."""
        if entry.id in self._slots:
            return
        slot = self._free.pop() if self._free else self._grown()
        self._slots[entry.id], self._entries[slot] = slot, entry
        key = self._sort_key(entry)
        is_last = not self._order or self._order[-1][0] < key
        if is_last:
            self._order.append((key, entry.id))
        else:
            insort(self._order, (key, entry.id))
        self.live[slot], self.importance[slot] = True, entry.importance
        self.first[slot], self.unit[slot] = entry.first, slot
        self.made[slot], self.layer[slot] = ticks(entry.created), entry.layer
        for link in entry.links:
            self._linking.setdefault(link, set()).add(entry.id)
        if entry.is_linked:
            self._join(entry, slot) if is_last else self._join_all()

    def remove(self, item_ids: Iterable[str]) -> list[ObservationHeader]:
        """Remove observations. Return the headers of those that the window held."""
        slots = {self._slots[item_id] for item_id in item_ids if item_id in self._slots}
        gone = [self.at(slot) for slot in slots]
        units = [self._members.get(int(self.unit[slot]), slots) for slot in slots]
        broken = any(not unit <= slots for unit in units)
        for entry, slot in zip(gone, slots, strict=True):
            del self._slots[entry.id], self._order[self._at(entry)]
            self._entries[slot], self.live[slot] = None, False
            self._joined -= len(self._members.pop(int(self.unit[slot]), (slot,))) - 1
            for link in entry.links:
                self._linking[link].discard(entry.id)
                if not self._linking[link]:
                    del self._linking[link]
            for call in entry.calls:
                self._callers[call].remove((self._sort_key(entry), slot))
                if not self._callers[call]:
                    del self._callers[call]
            self._free.append(slot)
        if broken:
            self._join_all()
        return gone

    def _at(self, entry: ObservationHeader) -> int:
        return bisect_left(self._order, (self._sort_key(entry), entry.id))

    def _grown(self) -> int:
        slot = len(self._entries)
        self._entries.append(None)
        if slot == len(self.live):
            more = max(64, slot)
            for name in ("live", "importance", "made", "first", "unit", "layer"):
                column: Column = getattr(self, name)
                setattr(self, name, np.concatenate((column, np.zeros(more, column.dtype))))
        return slot

    def _join(self, entry: ObservationHeader, slot: int) -> None:
        """Join the newest observation to the units whose tool calls the observation answers."""
        key = self._sort_key(entry)
        for call in entry.answers:
            asked = [one for one in self._callers.get(call, ()) if one[0] < key]
            if asked:
                self._merge(asked[-1][1], slot)
        for call in entry.calls:
            insort(self._callers.setdefault(call, []), (key, slot))

    def _merge(self, one: int, other: int) -> None:
        name, lost = int(self.unit[one]), int(self.unit[other])
        if name == lost:
            return
        members = self._members.setdefault(name, {name})
        joined = self._members.pop(lost, {lost})
        members |= joined
        self._joined += 1
        self.unit[list(joined)] = name

    def _join_all(self) -> None:
        """Recompute all units, after an insertion between others or the removal of a member."""
        self._members.clear()
        self._callers.clear()
        self._joined = 0
        self.unit[:] = np.arange(len(self.unit))
        for entry in self:
            if entry.is_linked:
                self._join(entry, self._slots[entry.id])


def ticks(created: str) -> int:
    """Return the time of a stamp as a number. A millisecond has 4096 ticks."""
    return int(created[:8] + created[9:13] + created[15:18], 16)


def ticks_of(us: int) -> int:
    """Return a time in microseconds as ticks."""
    ms, rest = divmod(us, 1000)
    return ms << 12 | (rest << 12) // 1000


MISSES = 8
"""The choice ends after this number of units in a row that do not fit."""


class UnitSelection:
    """The choice of the units that a context shows.

    Args:
        room: The most tokens. None means any number.
        size: Returns the tokens of an observation.
    """

    def __init__(
        self, index: WindowIndex, *, room: int | None, size: Callable[[ObservationHeader], int]
    ) -> None:
        self._index, self._room, self._size = index, room, size
        self._chosen: dict[str, ObservationHeader] = {}
        self._passed: set[str] = set()

    def take_newest(self) -> None:
        """Take the newest unit, if it fits."""
        for unit in self._index.last_units(1):
            self.take(unit)

    def fill(self, worth: Column | None, *, most: int | None = None) -> None:
        """Take the best units that fit.

        Args:
            most: The most tokens of these units. None means all remaining tokens.
        """
        of_units = None if worth is None else self._index.of_units(worth)
        slots, left = self._index.best_first(of_units), self._room
        if most is None:
            self.take_each(slots)
            return
        self._room = granted = most if left is None else min(left, most)
        self.take_each(slots)
        self._room = None if left is None else left - (granted - self._room)

    def tokens(self, unit: Sequence[ObservationHeader]) -> int:
        """Return the number of tokens of a unit."""
        return sum(self._size(entry) for entry in unit)

    def take_each(self, slots: Iterable[int]) -> None:
        """Take the units of *slots* that fit, in order, until `MISSES` in a row do not fit."""
        misses = 0
        for slot in slots:
            entry = self._index.at(slot)
            if entry.id in self._chosen or entry.id in self._passed:
                continue
            misses = 0 if self.take(self._index.unit_of(entry)) else misses + 1
            if misses == MISSES:
                return

    def take(self, unit: Sequence[ObservationHeader]) -> bool:
        """Take a unit if all of it fits. Return whether it fits."""
        if self._room is not None:
            size = self.tokens(unit)
            if size > self._room:
                self._passed.update(entry.id for entry in unit)
                return False
            self._room -= size
        self._chosen.update((entry.id, entry) for entry in unit)
        return True

    def in_order(self) -> list[ObservationHeader]:
        """Return the chosen observations, in the order of the window."""
        return self._index.in_order(self._chosen.values())


def answered(index: WindowIndex, answers: Iterable[str]) -> list[ObservationHeader]:
    """Return the observations whose tool calls a prompt answers, with all of their units.

    The context of the prompt needs them.
    """
    units: dict[str, ObservationHeader] = {}
    for call in answers:
        caller = index.caller(call)
        if caller is not None:
            units.update((entry.id, entry) for entry in index.unit_of(caller))
    return index.in_order(units.values())


RELOAD = 256
"""The most unread lines of the store's change log before a set with fewer items is read again."""

LINES = 10_000


class Mirror:
    """The headers of one set's observations, for all threads of this process.

    Updates and reads share one lock, so a reader sees the set at one moment.

    Attributes:
        definition: The definition of the set. None means that the set is not stored yet.
        past: The last row of the set that was read, for the admission check of a plan.
        sizes: The number of tokens of observations that were counted, by row.
    """

    def __init__(
        self, store: Store, ref: SetRef, order: Callable[[ObservationHeader], SortKey] = by_time
    ) -> None:
        self._store, self._ref, self._order = store, ref, order
        self._mutex = HandleLock(reentrant=True)
        self._index = WindowIndex(order)
        self._ids: dict[int, str] = {}
        self._number: int | None = None
        self._epoch = self._seq = 0
        self._in_use: WindowIndex | None = None
        self.definition: Definition | None = None
        self.past = 0
        self.sizes: dict[int, int] = {}

    @contextmanager
    def snapshot(self, writer: Writer) -> Generator[WindowIndex]:
        """Yield the index that a writer sees: committed observations, and those of its batch."""
        with self._mutex:
            if self._in_use is not None:  # a token counter or a scorer uses the window
                yield self._in_use
                return
            if isinstance(writer, Draft) and writer.before is not None:
                index = self._paged(writer)  # a replay reads the state of its first run
                drafted: Mapping[str, StoredItem | None] = {}
            else:
                self._catch_up()
                index = self._index
                drafted = writer.drafted(self._ref) if isinstance(writer, Draft) else {}
            hidden = index.remove(drafted)
            try:
                for stored in drafted.values():
                    if stored is not None:
                        index.add(self._entry(stored.record, stored.row, stored.first))
                self._in_use = index
                yield index
            finally:
                self._in_use = None
                index.remove(drafted)
                for entry in hidden:
                    index.add(entry)

    def _paged(self, writer: Writer) -> WindowIndex:
        index = WindowIndex(self._order)
        for stored in SetEditor(writer, self._ref).items():
            index.add(self._entry(stored.record, stored.row, stored.first))
        return index

    def accessed(self, index: WindowIndex) -> Column:
        """Return, by slot, the time of each observation's last access or creation, in ticks."""
        times = index.made.copy()
        read = {} if self._number is None else dict(self._store.access_times(self._number))
        for row, time in read.items():
            item_id = self._ids.get(row)
            if item_id is not None and item_id in index:
                times[index.slot(item_id)] = ticks_of(time)
        return times

    # --- caught up ----------------------------------------------------------------------------

    def _catch_up(self) -> None:
        numbers = () if self._number is None else (self._number,)
        view = self._store.search_view([self._ref], SearchCache(self._seq, numbers))
        is_same_log, self._epoch = view.epoch == self._epoch, view.epoch
        seq = view.seq
        if not view.sets:
            self._begin(None, seq)
            return
        info = view.sets[0]
        self._check(info)
        if (
            info.number != self._number
            or not is_same_log
            or (seq < self._seq or seq - self._seq > max(RELOAD, info.items))
        ):
            self._load(info, seq)
        elif seq > self._seq:
            self._follow(info)

    def _check(self, info: SetInfo) -> None:
        if self.definition is info.definition:
            return
        name, kind = info.ref.name, info.definition.item_type
        if kind != OBSERVATIONS:
            holds = "items of any kind" if kind is None else f"items of the type {kind!r}"
            raise InvalidInput(
                f"set {name!r} holds {holds}, not observations; give the window another set by "
                "name="
            )
        if info.definition.admission:
            raise InvalidInput(
                f"set {name!r} has rules of admission, but a window must store every "
                "observation; remove the rules with redefine(admission=[])"
            )
        self.definition = info.definition

    def _begin(self, info: SetInfo | None, seq: int) -> None:
        self._index, self._ids, self._seq = WindowIndex(self._order), {}, seq
        self._number = None if info is None else info.number
        if info is None:
            self.definition = None
        self.past = 0
        self.sizes.clear()

    def _load(self, info: SetInfo, seq: int) -> None:
        self._begin(info, seq)
        for feature in self._store.features(info.number):
            self._add(self._entry(feature, feature.row, feature.first))
        self._follow(info)

    def _entry(self, record: Feature | ItemRecord, row: int, first: int) -> ObservationHeader:
        return entry_of(record, row, first, where=self._ref.name)

    def _add(self, entry: ObservationHeader) -> None:
        self._ids[entry.row] = entry.id
        self._index.add(entry)
        self.past = max(self.past, entry.row)

    def _follow(self, info: SetInfo) -> None:
        """Apply all changes up to the last line of the log."""
        while True:
            changes = self._store.changes(self._seq, limit=LINES)
            if changes is None:
                self._load(info, self._store.seq())
                return
            self._apply([c for c in changes if c.set_number == info.number], info.number)
            if changes:
                self._seq = changes[-1].seq
            if len(changes) < LINES:
                return

    def _apply(self, changes: Sequence[FeatureChange], number: int) -> None:
        ended = {c.row for c in changes if c.kind in ("ended", "removed")}
        for row in ended:
            item_id = self._ids.pop(row, None)
            self.sizes.pop(row, None)
            if item_id is not None and self._index[item_id].row == row:
                self._index.remove([item_id])
        rows = {c.row for c in changes if c.kind == "added" and c.row not in self._ids} - ended
        # Rows that have ended since are added too: a later line of the log removes them.
        for feature in self._store.features_of(number, sorted(rows)):
            self._add(self._entry(feature, feature.row, feature.first))
