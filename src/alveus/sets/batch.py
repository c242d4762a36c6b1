"""A batch: several changes of one key and of knowledge, committed together."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice
from typing import TypeAlias

from alveus.errors import Conflict, DuplicateItem, InvalidInput, NotFound, StaleItem, Unusable
from alveus.search.index import SetIndex
from alveus.search.near_duplicates import ItemsByTerm, Probe
from alveus.search.query import Drafted, SearchOptions
from alveus.sets.admission.barrier import combined_check, recheck_admission
from alveus.sets.compaction import BatchCapacity, Compacted, Given
from alveus.sets.compaction.set_snapshot import living
from alveus.sets.writer import Engine, NewId, PageQuery, PlannedWrite, SetRules, WriteCall, Writer
from alveus.store import (
    Add,
    AdmissionCheck,
    Define,
    Definition,
    Feature,
    ItemChange,
    ItemRecord,
    Replace,
    Retire,
    Revive,
    Scope,
    SetInfo,
    SetRef,
    StoredItem,
    Undo,
    parts_of,
    records_of,
)
from alveus.store.items import Hits
from alveus.store.records import ItemEdit, feature_of, id_of, is_past, position_of, with_vectors
from alveus.store.scope import is_hidden
from alveus.store.times import Moment, expired, is_valid_at
from alveus.values.forks import HandleLock
from alveus.values.ids import derived_ids, new_id
from alveus.values.storable import Value

OUTSIDE_BLOCK = "a batch works only inside its with block; open another one"
SECOND_BLOCK = "a batch works for one block only; open another one"

AFTER_ALL = 1 << 62
"""First row number of drafted items: above every row of a store, so that they sort last."""

FIRST_READ = 16
"""Versions that a page visits first; each further step visits twice as many."""

FEW_HOLES = 64
"""An index is built anew if its ended versions outnumber the live items by more than this."""

ItemPosition: TypeAlias = tuple[int, int]
"""The position of an item in its set; see `position_of`."""


class DraftedSet:
    """The gathered changes of one set.

    Attributes:
        live: The batch's version of each changed item, by id; None for a retired item.
        hidden: The id and the expiry of each committed version that the batch ended, by row.
        checked: The line of the change log up to which `note_gone` recorded that others ended
            versions in `hidden`, too.
    """

    def __init__(self, rows: dict[int, StoredItem]) -> None:
        self.live: dict[str, StoredItem | None] = {}
        self.hidden: dict[int, tuple[str, int | None]] = {}
        self.checked: int | None = None
        self._rows = rows  # live versions of all sets of the batch, by row
        self._order: list[tuple[int, int, int]] = []
        self._expiries: list[int] = []
        self._hidden_expiries: list[int] = []
        self._gone = 0
        self._gone_expiries: list[int] = []
        self._with_validity: dict[int, StoredItem] = {}
        self._runs: dict[bool, tuple[int, int, dict[ItemPosition | None, ItemPosition]]] = {}
        self._index: SetIndex | None = None
        self._unindexed: list[int] = []
        self._unindexed_ends: list[int] = []

    def take(self, item_id: str, new: StoredItem | None, *, before: StoredItem | None) -> None:
        """Record a change of an item from version *before* to version *new*.

        Args:
            new: None if the change retires the item.
            before: None if the change adds the item.
        """
        earlier = self.live.get(item_id)
        if earlier is not None:  # the batch may not have read its earlier version: it had expired
            self._drop(earlier)
        if before is not None and before.row < AFTER_ALL:
            expires = before.record.expires
            if expires is not None and before.row not in self.hidden:
                insort(self._hidden_expiries, expires)
            self.hidden[before.row] = item_id, expires
        self.live[item_id] = new
        if new is not None:
            self._add(new)

    def _add(self, new: StoredItem) -> None:
        self._rows[new.row] = new
        insort(self._order, (*position_of(new), new.row))
        record = new.record
        if record.expires is not None:
            insort(self._expiries, record.expires)
        if record.valid_from is not None or record.valid_to is not None:
            self._with_validity[new.row] = new
        if self._index is not None:
            self._unindexed.append(new.row)

    def _drop(self, old: StoredItem) -> None:
        del self._rows[old.row]
        del self._order[bisect_left(self._order, (*position_of(old), old.row))]
        if old.record.expires is not None:
            del self._expiries[bisect_left(self._expiries, old.record.expires)]
        self._with_validity.pop(old.row, None)
        if self._index is not None:
            self._unindexed_ends.append(old.row)

    def put(self, stored: StoredItem) -> None:
        """Replace a live version by *stored*, which is the same version with its vectors."""
        self.live[stored.record.id] = self._rows[stored.row] = stored

    def more(self, now: int) -> int:
        """Return by how many unexpired items the batch changes the count of committed items."""
        live = len(self._order) - bisect_right(self._expiries, now)
        hidden = len(self.hidden) - bisect_right(self._hidden_expiries, now)
        gone = self._gone - bisect_right(self._gone_expiries, now)
        return live - (hidden - gone)

    def note_gone(self, gone: Sequence[int | None], seq: int) -> None:
        """Record which `hidden` versions others ended, too, up to line *seq* of the change log.

        Args:
            gone: The expiry of each of these versions.
        """
        self._gone = len(gone)
        self._gone_expiries = sorted(expires for expires in gone if expires is not None)
        self.checked = seq

    def past(self, after: ItemPosition | None, *, newest_first: bool) -> Iterator[StoredItem]:
        """Yield the versions after the position *after*, in page order, with expired versions.

        Another thread of the action may add versions meanwhile.
        """
        order, most = self._order, FIRST_READ
        last = None if after is None else (*after, -1 if newest_first else 2 * AFTER_ALL)
        while True:
            if newest_first:
                end = len(order) if last is None else bisect_left(order, last)
                chunk = order[max(0, end - most) : end][::-1]
            else:
                start = 0 if last is None else bisect_right(order, last)
                chunk = order[start : start + most]
            for *_, row in chunk:
                if (stored := self._rows.get(row)) is not None:
                    yield stored
            if len(chunk) < most:
                return
            last, most = chunk[-1], 2 * most

    def runs(
        self, seq: int, now: int, *, newest_first: bool
    ) -> dict[ItemPosition | None, ItemPosition]:
        """Return known spans of hidden items: a dict from the position before a span to its end.

        The spans are valid at line *seq* of the change log; at another line, or after the clock was
        set back, no span is known. The caller adds the spans that it finds to the dict.
        """
        known_seq, known_now, runs = self._runs.get(newest_first, (seq, now, {}))
        if known_seq != seq or now < known_now:
            runs = {}
        self._runs[newest_first] = seq, now, runs
        return runs

    # --- search ---------------------------------------------------------------------------------

    def index(self, now: int, valid_at: int | None, *, dimensions: int) -> SetIndex | None:
        """Return an index of the items that are valid and have not expired, or None without items.

        The index is kept and brought up to date by the next call. While some items are invalid or
        expired, each call builds another index. Only one thread at a time may call this.
        """
        if not self._order:
            return None
        if (self._expiries and self._expiries[0] <= now) or (
            valid_at is not None
            and not all(is_valid_at(s.record, valid_at) for s in self._with_validity.values())
        ):
            rows = [
                row
                for row in self._sorted_rows()
                if not expired(self._rows[row].record, now)
                and (valid_at is None or is_valid_at(self._rows[row].record, valid_at))
            ]
            return self._built(rows, dimensions) if rows else None
        index, new_rows, ends = self._index, self._unindexed, self._unindexed_ends
        if index is None or index.size + len(new_rows) > 2 * len(self._order) + FEW_HOLES:
            index = self._index = self._built(self._sorted_rows(), dimensions)
        else:
            for row in ends:
                index.end(row)
            new = [self._rows[row] for row in new_rows if row in self._rows]
            index.extend([feature_of(stored) for stored in new])
        new_rows.clear()
        ends.clear()
        return index

    def _sorted_rows(self) -> list[int]:
        return sorted(row for _, _, row in self._order)

    def _built(self, rows: list[int], dimensions: int) -> SetIndex:
        features = (feature_of(self._rows[row]) for row in rows)
        return SetIndex.build(features, dimensions=dimensions)


# --- the batch --------------------------------------------------------------------------------

MIN_KNOWN_RUN = 16
"""Least number of hidden items in a set for which reads of pages record the runs of them."""

MOST_READ = 256
"""Number of items to which a read of a page grows while it looks for unchanged items."""


class Draft(Writer):
    """A writer that gathers changes. Reads see the latest commits and the gathered changes.

    A batch with an op id may be a repetition: the same batch was committed before.

    Attributes:
        open: True while the block of the batch is running.
        before: In a repetition, the moment before the first commit of the batch; otherwise None. A
            repetition reads the state at this moment, so that it decides as the first run did.
        mutex: Held by a call whose reads and writes belong together, because the threads of an
            action share one batch.
    """

    def __init__(self, engine: Engine, scope: Scope, op: bytes | None) -> None:
        super().__init__(engine, scope)
        self.calls: list[Value] = []
        self.define: list[Define] = []
        self.items: list[ItemChange] = []
        self._sets: dict[SetRef, DraftedSet] = {}
        self._rows: dict[int, StoredItem] = {}
        self._embedded = 0
        self._versions: dict[tuple[SetRef, str], int] = {}
        self._next = AFTER_ALL
        self.open = False
        self.mutex = HandleLock(reentrant=True)
        self.before: Moment | None = None
        self._counts_before: dict[SetRef, int] = {}
        self._op = op
        self._new_id = new_id if op is None else derived_ids(op)
        self._tidying = self._planning = False
        compactions, view = engine.compactions, DraftView(self, engine)
        self._capacity = BatchCapacity(view, compactions.tools, compactions.local_strategies)
        self.admission_checks: dict[SetRef, AdmissionCheck] = {}
        self._whole: set[SetRef] = set()
        self._rules_checked: set[SetRef] = set()
        self._drafted_terms: dict[SetRef, ItemsByTerm] = {}

    def now(self) -> int:
        """See `Writer.now`. A repetition uses the time of the first commit."""
        return super().now() if self.before is None else self.before.time

    def write(self, call: WriteCall, *, idempotency_key: str | None = None) -> Value:
        """See `Writer.write`. The batch keeps the changes until it commits."""
        self._check_open()
        if idempotency_key is not None:
            raise InvalidInput("a call in a batch takes no idempotency_key; pass it to the batch")
        with self.mutex:  # a search in another thread indexes the gathered items
            return self._gathered(call)

    def _gathered(self, call: WriteCall) -> Value:
        new_ids: list[str] = []

        def new_id() -> str:
            new_ids.append(self._new_id())
            return new_ids[-1]

        self._planning = True  # reads for planning are not recorded as reads of the caller
        try:
            try:
                change = self._planned(call, new_id)
            except (Conflict, NotFound):
                if not self._is_repetition():
                    raise
                repeated_ids = chain(tuple(new_ids), iter(self._new_id, None))
                change = self._planned(call, lambda: next(repeated_ids))
            self.keep(change.items, change.define)
        finally:
            self._planning = False
        self.calls.append([call.name, call.arguments()])
        for check in change.admission_checks:
            earlier = self.admission_checks.get(check.set)
            self.admission_checks[check.set] = combined_check(earlier, check)
            if change.whole:
                self._whole.add(check.set)
        return change.result

    def keep(self, items: Sequence[ItemChange], define: Sequence[Define] = ()) -> None:
        """Gather changes, and the compactions that make room for them. After an error, gather none.

        Raises:
            SetFull: A set is full and its compaction cannot make room.
            InvalidPlan, StrategyFailed: A user's strategy failed.
        """
        if self.before is None:
            self._engine.relieve(items)
        done, defined = len(self.items), self.define[:]
        self.define.extend(define)
        try:
            for item in items:
                self._capacity.follow(item.set, self.define)
                if isinstance(item, Add) and self.before is None:  # a repetition adds nothing
                    self._make_room(item)
                    self._append(self._capacity.timed(item))
                else:
                    self._append(item)
        except BaseException:
            self._begin_anew(self.items[:done], defined)
            raise

    def _make_room(self, add: Add) -> None:
        self._tidying = True
        try:
            for compact in self._capacity.steps_for(add):
                self._append(compact)
        finally:
            self._tidying = False

    def _append(self, item: ItemChange) -> None:
        self.items.append(item)
        for part in parts_of(item):
            self._take(part)

    def _begin_anew(self, items: Sequence[ItemChange], define: Sequence[Define]) -> None:
        self.items, self.define = [], list(define)
        self._sets, self._rows, self._versions, self._drafted_terms = {}, {}, {}, {}
        self._embedded = 0
        self._capacity.forget()
        for item in items:
            self._capacity.follow(item.set, self.define)
            self._append(item)

    def _is_repetition(self) -> bool:
        """Return whether this call finds that another process has committed this batch.

        From then on the block reads the state before that commit, and further calls return False.
        """
        if self._op is None or self.before is not None:
            return False
        first = self._engine.store.commit_of_op(self._op, request=None, label="")
        if first is not None:
            self.before = Moment(first.number - 1, first.time)
        return first is not None

    def _was_overtaken(self) -> bool:
        """Return whether the last read of the block may include this batch's earlier commit."""
        return not self._planning and self._is_repetition()

    def _planned(self, call: WriteCall, new_id: NewId) -> PlannedWrite:
        change = call.plan(new_id)
        if any(isinstance(item, (Undo, Revive)) for item in change.items):
            raise Unusable("a batch cannot undo or restore; make that call outside of the batch")
        parts = [part for item in change.items for part in parts_of(item)]
        added = [(i.set, i.record.id) for i in parts if isinstance(i, Add)]
        if len(set(added)) != len(added):
            raise InvalidInput("one call has two items with the same id; merge them first")
        for part in parts:
            self._check(part)
        return change

    def alone(self, what: str) -> Engine:
        """See `Writer.alone`; a batch always raises."""
        raise Unusable(f"{what} is a separate commit; call it outside of the batch or action")

    def _check_open(self) -> None:
        if not self.open:
            raise Unusable(OUTSIDE_BLOCK)

    def _check(self, change: ItemEdit) -> None:
        if isinstance(change, Add):
            drafted = self._drafted_item(change.set, change.record.id)
            must_be_new = change.existing == "error" and not change.fresh
            if drafted is not None or (must_be_new and self._current_item(change)):
                raise DuplicateItem(change.record.id, set_name=change.set.name)
        elif not (isinstance(change, Replace) and change.upsert):
            current = self._current_item(change)
            if current is None or current.version != change.version:
                version = None if current is None else current.version
                raise StaleItem(id_of(change), expected=change.version, found=version)

    def _current_item(self, change: ItemEdit) -> StoredItem | None:
        return self.get(change.set, [id_of(change)], at=None)[0]

    def _drafted_item(self, ref: SetRef, item_id: str) -> StoredItem | None:
        """Return the batch's version of an item, or None if the batch has none or retired it."""
        drafted = self._sets.get(ref)
        return None if drafted is None else drafted.live.get(item_id)

    def _take(self, change: ItemEdit) -> None:
        item_id = id_of(change)
        before = None if isinstance(change, Add) else self._current_item(change)
        self._capacity.count(change, before)
        drafted = self._sets.get(change.set)
        if drafted is None:
            drafted = self._sets[change.set] = DraftedSet(self._rows)
        if isinstance(change, Retire):
            drafted.take(item_id, None, before=before)
        else:
            last = self._last(change) if before is None else before.version
            self._versions[change.set, item_id] = last + 1
            new = self._stored(change.set, change.record, before, last + 1)
            drafted.take(item_id, new, before=before)
            if change.set in self._drafted_terms:
                record = change.record
                self._drafted_terms[change.set].take(record.id, record.terms, record.tokens)

    def _last(self, add: ItemEdit) -> int:
        """Return the last version of an id, in the batch or before it; 0 if the id is new."""
        item_key = (add.set, id_of(add))
        if item_key in self._versions or (isinstance(add, Add) and add.fresh):
            return self._versions.get(item_key, 0)
        versions = self._engine.store.versions(*item_key)
        before = self.before
        numbers = (s.version for s in versions if before is None or s.begin_commit <= before.commit)
        return max(numbers, default=0)

    def _stored(
        self, ref: SetRef, record: ItemRecord, before: StoredItem | None, version: int
    ) -> StoredItem:
        row, now = self._next, self._engine.clock()
        self._next += 1
        return StoredItem(
            row=row,
            first=row if before is None else before.first,
            set=ref,
            begin_commit=0,
            end_commit=None,
            version=version,
            created=now if before is None else before.created,
            updated=now,
            accessed=None,
            record=record,
        )

    # --- reads --------------------------------------------------------------------------------

    def drafted(self, ref: SetRef) -> dict[str, StoredItem | None]:
        """Return the gathered versions of a set: a dict from id to version, None if retired."""
        self._check_open()
        drafted = self._sets.get(ref)
        return {} if drafted is None else dict(drafted.live)

    def get(self, ref: SetRef, ids: Sequence[str], *, at: Moment | None) -> list[StoredItem | None]:
        """See `Writer.get`."""
        self._check_open()
        committed = super().get(ref, ids, at=self.before if at is None else at)
        if at is not None:
            return committed
        if self._was_overtaken():
            committed = super().get(ref, ids, at=self.before)
        drafted = self._sets.get(ref)
        live = {} if drafted is None else drafted.live
        current = [live.get(i, stored) for i, stored in zip(ids, committed, strict=True)]
        return [None if s is None or self._is_expired(s, None) else s for s in current]

    def page(self, ref: SetRef, query: PageQuery) -> list[StoredItem]:
        """See `Writer.page`."""
        self._check_open()
        drafted = self._sets.get(ref)
        committed = self._committed_page(ref, query)
        if query.at is None and self._was_overtaken():
            committed = self._committed_page(ref, query)
        if query.at is not None or drafted is None:
            return committed
        past = drafted.past(query.after, newest_first=query.newest_first)
        new = (stored for stored in past if not self._is_expired(stored, None))
        merged = heapq.merge(committed, new, key=position_of, reverse=query.newest_first)
        return list(islice(merged, query.limit))

    def _committed_page(self, ref: SetRef, query: PageQuery) -> list[StoredItem]:
        """Return a page of the committed items that the batch did not change.

        For a query of the past, return a page of all items at that moment.
        """
        after, limit, newest_first, at = query
        before = query._replace(at=self.before if at is None else at)
        drafted = self._sets.get(ref)
        if at is not None or drafted is None or not drafted.hidden:
            return super().page(ref, before)
        hidden, runs = drafted.hidden, dict[ItemPosition | None, ItemPosition]()
        if len(hidden) >= MIN_KNOWN_RUN:
            seq = -1 if self.before is not None else self._engine.store.seq()
            runs = drafted.runs(seq, self.now(), newest_first=newest_first)
        left: list[StoredItem] = []
        origin, start, most = after, runs.get(after, after), limit + min(limit, len(hidden))
        while True:
            page = super().page(ref, before._replace(after=start, limit=most))
            for stored in page:
                if not is_past(stored, start, newest_first):
                    continue
                start = position_of(stored)
                if stored.row in hidden:
                    start = runs[origin] = runs.get(start, start)
                else:
                    origin = start
                    left.append(stored)
            if len(left) >= limit or len(page) < most:
                return left[:limit]
            most = max(most, min(2 * most, MOST_READ))

    def versions(self, ref: SetRef, item_id: str) -> list[tuple[StoredItem, datetime | None]]:
        """See `Writer.versions`. Gathered versions are left out.

        In a repetition, the versions that the batch committed are left out, too.
        """
        self._check_open()
        committed = super().versions(ref, item_id)
        self._was_overtaken()  # if so, leave out the items that the batch committed
        if self.before is None:
            return committed
        last = self.before.commit
        return [
            (stored, None if stored.end_commit is not None and stored.end_commit > last else ended)
            for stored, ended in committed
            if stored.begin_commit <= last
        ]

    def info(self, ref: SetRef) -> SetInfo | None:
        """See `Writer.info`. The definition and the item count include the batch's changes."""
        self._check_open()
        info, drafted = super().info(ref), self._sets.get(ref)
        defined = next((d.definition for d in reversed(self.define) if d.set == ref), None)
        if info is not None and defined is not None:
            info = replace(info, definition=defined)
        if drafted is None:
            return info
        more = self._more(ref, drafted)
        if info is None:
            return SetInfo(0, ref, defined or Definition(), more, 0)
        return replace(info, items=info.items + more)

    def count(self, ref: SetRef) -> int:
        """See `Writer.count`. The count includes the batch's changes.

        In a repetition, the other items are counted as they were before the batch's commit.
        """
        now = super().count(ref)
        self._was_overtaken()
        if self.before is None:
            return now
        committed = self._counts_before.get(ref)
        if committed is None:
            committed = self._counts_before[ref] = self._count_before(ref, self.before)
        drafted = self._sets.get(ref)
        return committed if drafted is None else committed + self._more(ref, drafted)

    def _count_before(self, ref: SetRef, before: Moment) -> int:
        count, query = 0, PageQuery(limit=MOST_READ, at=before)
        while page := super().page(ref, query):
            count += len(page)
            query = query._replace(after=position_of(page[-1]))
        return count

    def _more(self, ref: SetRef, drafted: DraftedSet) -> int:
        """Return the item count with the batch's changes minus the committed count."""
        store, before = self._engine.store, self.before
        seq = store.seq() if before is None else -1
        if drafted.checked != seq:  # others may have ended items that the batch changed
            hidden = drafted.hidden.copy()  # another thread of the action may add to the dict
            ids = dict.fromkeys(item_id for item_id, _ in hidden.values())
            found = store.get(ref, [*ids], at=None if before is None else before.commit)
            live = {stored.row for stored in found if stored is not None}
            gone = [expires for row, (_, expires) in hidden.items() if row not in live]
            drafted.note_gone(gone, seq)
        return drafted.more(self.now())

    def compact(self, ref: SetRef, compaction: Given | None) -> Compacted | None:
        """See `Writer.compact`. A batch always raises; it makes room only in "sync" sets."""
        _ = compaction
        raise Unusable(
            f"set {ref.name!r} cannot be compacted by a call inside a batch or an action; "
            'define it with execution="sync", or compact it outside'
        )

    def sources(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """See `Writer.sources`. Raises `Unusable` for items that the batch added."""
        if any(row >= AFTER_ALL for row in rows):
            raise Unusable("an item of this batch has no lineage before the batch is committed")
        return super().sources(rows)

    def counts(self, scope: Scope) -> dict[str, int]:
        """See `SetReader.counts`; includes the changes of the batch."""
        return {name: self.count(SetRef(scope, name)) for name in self.sets(scope)}

    def sets(self, scope: Scope) -> list[str]:
        """See `Writer.sets`; includes sets that the batch creates."""
        self._check_open()
        drafted = {d.set for d in self.define} | self._sets.keys()
        names = (ref.name for ref in drafted if ref.scope == scope and not is_hidden(ref))
        return sorted({*super().sets(scope), *names})

    def origins(self, ref: SetRef) -> list[Scope]:
        """See `Writer.origins`. An item of knowledge may also have sources in the batch's key."""
        return list(dict.fromkeys((*super().origins(ref), self.scope)))

    def hidden(self, scope: Scope) -> list[str]:
        """See `Writer.hidden`."""
        drafted = {ref.name for ref in self._sets if ref.scope == scope and is_hidden(ref)}
        return sorted({*super().hidden(scope), *drafted})

    # --- admission -----------------------------------------------------------------------------

    def rules(self, ref: SetRef, definition: Definition | None) -> SetRules | None:
        """See `Writer.rules`. The first call for a set with rules reads them from the store.

        Other writers may use outdated cached rules, because the store then refuses their commit. A
        batch would get this refusal only at its end.
        """
        if ref not in self._rules_checked:
            self._rules_checked.add(ref)
            info = self.info(ref)
            if info is not None and info.definition.admission is not None:
                self._engine.rules_by_set[ref] = None
        return super().rules(ref, definition)

    def alike(
        self, ref: SetRef, probes: Sequence[Probe]
    ) -> tuple[int | None, list[list[StoredItem]]]:
        """See `Writer.alike`; includes gathered items."""
        self._check_open()
        last_row: int | None = None
        matches: list[list[StoredItem]] = []
        if self.before is None:
            last_row, matches = super().alike(ref, probes)
            self._was_overtaken()
        if self.before is not None:
            found = self._engine.alike.find_at(ref, probes, self.before.commit)
            last_row, matches = None, self._unexpired(found)
        drafted = self._sets.get(ref)
        if drafted is None:
            return last_row, matches
        live, drafted_terms = drafted.live, self._drafted_terms.get(ref)
        if drafted_terms is None:
            drafted_terms = self._drafted_terms[ref] = ItemsByTerm()
            for item_id, stored in live.items():
                if stored is not None:
                    drafted_terms.take(item_id, stored.record.terms, stored.record.tokens)
        for items, probe in zip(matches, probes, strict=True):
            items[:] = [stored for stored in items if stored.row not in drafted.hidden]
            found = (live.get(item_id) for item_id in drafted_terms.find(probe))
            items.extend(stored for stored in found if stored is not None)
        return last_row, matches

    def is_whole(self, set_name: str) -> bool:
        """Return whether a gathered change depends on all items of the set with this name."""
        return any(ref.name == set_name for ref in self._whole)

    def recheck(self) -> None:
        """Check the gathered changes against items that others added since.

        Raises:
            SetMoved: An item that others added changes the outcome.
        """
        for ref, check in self.admission_checks.items():
            if ref in self._whole:
                continue  # the store refuses the batch if the set changed
            added = {i.record.id for i in self.items if isinstance(i, Add) and i.set == ref}
            live = [self._drafted_item(ref, item_id) for item_id in added]
            still_live = [stored for stored in live if stored is not None]
            self.admission_checks[ref] = recheck_admission(self._engine, check, still_live)

    def search(self, sets: Sequence[SetRef] | Scope, query: str, options: SearchOptions) -> Hits:
        """See `Writer.search`."""
        self._check_open()
        if options.at is not None or not self.items:
            return super().search(sets, query, options)
        with self.mutex:  # an index serves one thread
            return self._search_drafted(sets, query, options)

    def _search_drafted(
        self, sets: Sequence[SetRef] | Scope, query: str, options: SearchOptions
    ) -> Hits:
        self._embed_drafted()
        now, valid_at = options.instants(self.now())
        if isinstance(sets, Scope):
            asked = [ref for ref in self._sets if ref.scope == sets and not is_hidden(ref)]
            asked.sort(key=lambda ref: ref.name)
        else:
            asked = [ref for ref in sets if ref in self._sets]
        dimensions = self._engine.recorder.embedder.dimensions
        indexes = [self._sets[ref].index(now, valid_at, dimensions=dimensions) for ref in asked]
        hidden = {ref: self._sets[ref].hidden for ref in asked if self._sets[ref].hidden}
        drafted = Drafted(self._rows, [one for one in indexes if one is not None], hidden)
        hits = self._engine.recall.search(
            sets, query, options, drafted, now=now, zone=self._engine.timezone
        )
        self._engine.recent_hits.note(sets, hits)
        return hits

    def committed_features(self, ref: SetRef, items: Sequence[StoredItem]) -> dict[int, Feature]:
        """Return the search features of committed items, by row."""
        info = super().info(ref) if items else None
        if info is None:
            return {}
        rows = [stored.row for stored in items]
        return {f.row: f for f in self._engine.store.features_of(info.number, rows)}

    def _embed_drafted(self) -> None:
        """Embed the drafted items; the vectors are committed with them."""
        new = self.items[self._embedded :]
        records = [record for item in new for record in records_of(item)]
        waiting = {id(record): record for record in records if record.vectors is None}
        if waiting:
            vectors = self._engine.recorder.vectors(list(waiting.values()))
            done = {
                id(old): replace(old, vectors=found)
                for old, found in zip(waiting.values(), vectors, strict=True)
            }
            self.items[self._embedded :] = [with_vectors(change, done) for change in new]
            for change in new:
                for record in records_of(change):
                    stored = self._drafted_item(change.set, record.id)
                    if stored is not None and stored.record is record and id(record) in done:
                        self._sets[change.set].put(replace(stored, record=done[id(record)]))
        self._embedded = len(self.items)


class DraftView:
    """A read view of sets for compactions in a batch. An action does not record these reads."""

    def __init__(self, draft: Draft, engine: Engine) -> None:
        self._draft, self._engine = draft, engine

    def info(self, ref: SetRef) -> SetInfo | None:
        """See `View.info`. Expired items do not count."""
        info, engine = Draft.info(self._draft, ref), self._engine
        if info is None or info.next_expiry is None or info.next_expiry > (now := engine.clock()):
            return info
        whole = engine.store.set_info(ref)
        unexpired = info if whole is None else living(engine.store, whole, now)
        return replace(info, bytes=unexpired.bytes, tokens=unexpired.tokens)

    def page(self, ref: SetRef, after: tuple[int, int] | None, limit: int) -> list[StoredItem]:
        """See `View.page`."""
        return Draft.page(self._draft, ref, PageQuery(after, limit))

    def features(self, ref: SetRef, items: Sequence[StoredItem]) -> Mapping[int, Feature]:
        """See `View.features`."""
        drafted = {stored.row: feature_of(stored) for stored in items if stored.row >= AFTER_ALL}
        return drafted | self._draft.committed_features(
            ref, [s for s in items if s.row not in drafted]
        )
