"""What a set of observations holds, kept at hand, and up to date by the store's change log."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from alveus.agents.windows.observation_items import ObservationHeader, entry_of
from alveus.agents.windows.window_contents import Column, SortKey, WindowIndex, by_time, ticks_of
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

RELOAD = 256
"""Lines of the change log past which a smaller set is read again: the log is of all sets."""

LINES = 10_000


class Mirror:
    """What is known of one set, for all threads of this process.

    It is caught up with the store and used under one lock, so that a reader sees the set as it was
    at one moment, and nobody changes it meanwhile.

    Attributes:
        definition: Of the set; None: nobody added to it yet.
        past: The last row of the set that is known; a plan that rests on what is held says so.
        sizes: How many tokens observations have, as far as they were counted, by row.
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
        """Give what a writer sees: what is committed, and what it gathered itself."""
        with self._mutex:
            if self._in_use is not None:  # by a token counter, or a scorer, which this one asked
                yield self._in_use
                return
            if isinstance(writer, Draft) and writer.before is not None:
                index = self._paged(
                    writer
                )  # a repetition, which sees what was there the first time
                own: Mapping[str, StoredItem | None] = {}
            else:
                self._catch_up()
                index = self._index
                own = writer.drafted(self._ref) if isinstance(writer, Draft) else {}
            hidden = index.remove(own)
            try:
                for stored in own.values():
                    if stored is not None:
                        index.add(self._entry(stored.record, stored.row, stored.first))
                self._in_use = index
                yield index
            finally:
                self._in_use = None
                index.remove(own)
                for entry in hidden:
                    index.add(entry)

    def _paged(self, writer: Writer) -> WindowIndex:
        index = WindowIndex(self._order)
        for stored in SetEditor(writer, self._ref).items():
            index.add(self._entry(stored.record, stored.row, stored.first))
        return index

    def accessed(self, index: WindowIndex) -> Column:
        """Return, by slot, when each observation was shown last, or made; in ticks."""
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
                f"set {name!r} holds {holds}, not observations; give the window a set of its own "
                "by name="
            )
        if info.definition.admission:
            raise InvalidInput(
                f"set {name!r} has rules of admission, and a window keeps all that is committed; "
                "lift them with redefine(admission=[])"
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
        """Take in what changed, up to the last line of the log: all that is of one moment."""
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
        # One that has ended since is taken in nevertheless: the line that says so comes later.
        for feature in self._store.features_of(number, sorted(rows)):
            self._add(self._entry(feature, feature.row, feature.first))
