"""The store in the memory of a process.

Random tests compare other stores with this store, so each part is the simplest that works: rows
with the commits at which they began and ended, one lock, and steps that undo a failed batch.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import cast

from alveus.errors import AlveusError, IdempotencyConflict, TooLarge
from alveus.store import (
    MAX_SHRUNK_BYTES,
    MAX_SWEPT_VERSIONS,
    OP_RETENTION_US,
    OPS_KEPT,
    SWEEP_AFTER_US,
    Batch,
    Commit,
    Compaction,
    Effects,
    Feature,
    FeatureChange,
    Lease,
    NamedRequest,
    Node,
    PendingVectors,
    Scope,
    SearchCache,
    SearchView,
    SetInfo,
    SetRef,
    StoredItem,
    StoreStats,
    WholeSets,
    commit_time,
)
from alveus.store.checks import PLACEHOLDER_EXPIRY, ROW_BITS, check_base, check_batch, check_leases
from alveus.store.erasing import Erased, Erasure, forgotten
from alveus.store.ram.database import locked
from alveus.store.ram.erasing import RamErasing
from alveus.store.ram.items import info_of
from alveus.store.ram.lanes import RamLanes
from alveus.store.ram.rows import CommitDraft, ItemRow, JournalEntry, NodeRow, SetRows, number_of
from alveus.store.ram.tree import TreeRows
from alveus.store.scope import NameRange
from alveus.store.times import is_valid_at
from alveus.values.storable import Path


def _repeated(entry: JournalEntry) -> Commit:
    """Return the answer to a repetition of a commit."""
    return replace(
        entry.commit, adopted=True, result=deepcopy(entry.commit.result), sets_to_compact=()
    )


class RamStore(WholeSets, RamLanes, RamErasing):
    """A `Store` in the memory of one process, for tests, trials and data that may be lost."""

    location = ":memory:"
    read_only = False

    def commit(self, batch: Batch) -> Commit:
        """See `Ledger.commit`."""
        with self.observer.commit([batch]) as observed, self.ready():
            return observed.answered([self._commit(batch)])[0]

    def _commit(self, batch: Batch) -> Commit:
        if batch.op is not None:
            earlier = self.commit_of_op(batch.op, request=batch.request, label=batch.label)
            if earlier is not None:
                return earlier
        repeated = self._runs.repeated_commit(batch)
        if repeated is not None:
            return _repeated(self._journal[repeated - 1])
        time = commit_time(batch.time, self._journal.time)
        draft = CommitDraft(len(self._journal) + 1, time)
        try:
            self._check(batch)
            self._apply(batch, draft)
            return self._finish(batch, draft)
        except BaseException:
            draft.undo.take_back()
            raise

    @locked
    def commit_of_op(self, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
        number = self._ops.get(op)
        if number is None:
            return None
        entry = self._journal[number - 1]
        if entry.erased is not None:
            raise forgotten(f"request {label!r}" if label else "this request")
        if request is not None and request != entry.request:
            raise IdempotencyConflict(label)
        return _repeated(entry)

    @locked
    def retry_run(
        self, run: int, *, last: bool, time: int, named: NamedRequest | None = None
    ) -> int:
        if named is not None:
            done = self.commit_of_op(named.op, request=named.request, label=named.label)
            if done is not None:
                return cast("int", done.result)
        heir = self._retry(run, last=last, time=time)
        if named is not None:
            scope = self._runs.open_run(heir).scope
            self._commit(named.answered(heir, scope=scope, time=time))
        return heir

    @locked
    def erase(self, erasure: Erasure) -> Erased:
        if (named := erasure.named) is not None and erasure.receipt not in self._receipts:
            done = self.commit_of_op(named.op, request=named.request, label=named.label)
            if done is not None:
                return Erased(None, done.time)
        return self._erase(erasure)

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | AlveusError]:
        """See `Ledger.commit_many`."""
        with self.observer.commit(batches) as observed, self.ready():
            answers: list[Commit | AlveusError] = []
            for batch in batches:
                try:
                    answers.append(self._commit(batch))
                except AlveusError as error:
                    answers.append(error)
            return observed.answered(answers)

    def _check(self, batch: Batch) -> None:
        self._check_notes(batch.expects)
        check_batch(batch, len(self._journal))
        check_leases(batch, self._holder, self._alive)
        self._runs.check(batch)
        check_base(batch, 0 if batch.base is None else self._tree(batch.scope).head)
        if max(len(batch.state), len(batch.items)) >> ROW_BITS:
            raise TooLarge(f"a batch holds at most {1 << ROW_BITS:,} changes; commit in parts")

    def _apply(self, batch: Batch, draft: CommitDraft) -> None:
        if batch.state:
            tree = self._trees.get(batch.scope)
            if tree is None:
                tree = self._trees[batch.scope] = TreeRows()
            draft.positions = tree.positions
            draft.undo.set(tree, "positions", tree.positions)
            for delta in batch.state:
                tree.apply(delta, draft)
        if batch.history_start != (0, 0):
            self._trees.setdefault(batch.scope, TreeRows()).raise_history_start(
                batch.history_start, draft
            )
        if batch.define or batch.items:
            self._sets.apply(batch, draft)
        self._runs.apply(batch, draft)

    def _finish(self, batch: Batch, draft: CommitDraft) -> Commit:
        """Write the journal and the change log, and return the commit. Nothing here can fail."""
        result = None if batch.result is None else deepcopy(batch.result)
        marks = tuple(draft.sets_to_compact)
        commit = Commit(
            draft.number, draft.time, adopted=False, result=result, sets_to_compact=marks
        )
        self._journal.append(commit, batch, draft)
        if batch.op is not None:
            self._ops[batch.op] = draft.number
        if batch.state:
            self._trees[batch.scope].head = draft.number
        if batch.release and batch.epoch is not None:
            self._leases[batch.scope] = (None, batch.epoch)
        self._name(batch.scope)
        if draft.begun_items:
            self._add_rows([*draft.begun_items.values()])
        for row in draft.ended_items:
            self._line(row, "ended")
        return commit if result is None else replace(commit, result=deepcopy(result))

    def _tree(self, scope: Scope) -> TreeRows:
        return self._trees.get(scope) or TreeRows()

    @locked
    def head(self, scope: Scope) -> int:
        return self._tree(scope).head

    def node(self, scope: Scope, path: Path, *, at: int | None, now: int) -> Node | None:
        """See `Ledger.node`."""
        with self.ready():  # not `locked`: the most frequent read
            row = self._tree(scope).find(path, at, now)
            return None if row is None else row.node()

    @locked
    def children(
        self, scope: Scope, path: Path, *, at: int | None, now: int
    ) -> list[tuple[str, Node]]:
        return [(name, row.node()) for name, row in self._fields(scope, path, at, now)]

    @locked
    def few_fields(
        self, scope: Scope, path: Path, *, at: int | None, most: int
    ) -> dict[str, Node | None] | None:
        fields = self._fields(scope, path, at, 0)
        return None if len(fields) > most else {name: row.node() for name, row in fields}

    @locked
    def field_names(
        self, scope: Scope, path: Path, *, at: int | None, now: int
    ) -> list[tuple[str, int | None]]:
        return [(name, row.expires) for name, row in self._fields(scope, path, at, now)]

    @locked
    def names_in_range(
        self, scope: Scope, path: Path, chosen: NameRange, *, at: int | None, now: int
    ) -> list[str]:
        return chosen.choose(name for name, _ in self._fields(scope, path, at, now))

    @locked
    def node_commits(self, scope: Scope, path: Path) -> list[int]:
        return self._tree(scope).commits_of(path)

    def _fields(
        self, scope: Scope, path: Path, at: int | None, now: int
    ) -> list[tuple[str, NodeRow]]:
        row = self._tree(scope).find(path, at, now)
        if row is None:
            return []
        versions = [(n, row.below(n, at)) for n in (row.live if at is None else row.versions)]
        fields = [(n, r) for n, r in versions if r is not None and not r.expired(now)]
        return sorted(fields, key=lambda pair: pair[1].position)

    @locked
    def effects(self, number: int) -> Effects | None:
        if not 0 < number <= len(self._journal):
            return None
        entry = self._journal[number - 1]
        put = entry.put_nodes
        compactions = self._sets.compactions.values()
        return Effects(
            replace(entry.commit, result=deepcopy(entry.commit.result), sets_to_compact=()),
            self._hidden.get(entry.scope, entry.scope),
            put_nodes=[(path, row.node()) for path, row in put],
            removed_paths=[
                path for path, row in entry.removed_nodes if row.expires != PLACEHOLDER_EXPIRY
            ],
            begun_items=[self._stored(row) for row in entry.begun_items if row.row in self._rows],
            ended_items=[self._stored(row) for row in entry.ended_items if row.row in self._rows],
            positions=[row.position for _, row in put],
            end_commits=[row.end_commit for _, row in put],
            compactions=[self._without_erased(c) for c in compactions if c.commit == number],
            undone_compactions=[done.id for done in compactions if done.undo_commit == number],
        )

    @locked
    def scopes_of_commits(self, after: int, *, limit: int = 1000) -> list[tuple[int, Scope]]:
        numbers = range(after + 1, min(after + limit, len(self._journal)) + 1)
        scopes = {number: self._journal[number - 1].scope for number in numbers}
        return [(number, self._hidden.get(scope, scope)) for number, scope in scopes.items()]

    @locked
    def commit_at(self, time: int) -> int:
        times = self._journal.times
        if not self._journal.has_setback:
            return bisect_right(times, time)
        return next((n for n in range(len(times), 0, -1) if times[n - 1] <= time), 0)

    @locked
    def time_of_commit(self, number: int) -> int:
        last = min(number, len(self._journal))
        return self._journal[last - 1].commit.time if last > 0 else 0

    @locked
    def live_items_by_commit(self) -> list[tuple[int, int]]:
        firsts = (first for rows in self._sets.all_sets() for first in rows.live)
        return sorted(Counter(first >> ROW_BITS for first in firsts).items())

    @locked
    def history_start(self, scope: Scope) -> tuple[int, int]:
        return self._tree(scope).history_start

    @locked
    def prune_history(
        self, *, before: int, after: int = 0, limit: int = 10_000
    ) -> tuple[int, int | None]:
        """See `Ledger.prune_history`. One call examines all versions."""
        del after, limit
        last = self._journal[-1].commit.time if self._journal else 0
        until = self.commit_at(min(before - 1, last - SWEEP_AFTER_US))
        until = min(until, self._runs.oldest_needed_commit() - 1)
        removed = [row for tree in self._trees.values() for row in tree.prune(until)]
        self._journal.drop_swept(removed)
        return len(removed), None

    @locked
    def expired_items(self, *, now: int, limit: int = 1000) -> list[StoredItem]:
        rows = [
            row
            for set_rows in self._sets.all_sets()
            for row in set_rows.rows_with_validity.values()
        ]
        expired = [row for row in rows if row.expired(now)][:limit]
        return [self._stored(row) for row in sorted(expired, key=attrgetter("row"))]

    @locked
    def keys(
        self, space: str, *, prefix: str = "", after: str | None = None, limit: int = 1000
    ) -> list[str]:
        keys = self._keys.get(space, [])
        start = 0 if after is None else bisect_right(keys, after)
        start = max(start, bisect_left(keys, prefix))
        return [key for key in keys[start : start + limit] if key.startswith(prefix)]

    @locked
    def spaces(self) -> list[str]:
        return sorted(self._keys)

    @locked
    def sets_of_item(self, space: str, item_id: str) -> list[SetRef]:
        return sorted(
            rows.ref
            for rows in self._sets.all_sets()
            if rows.ref.scope.space == space and rows.ref.scope.key and rows.versions.get(item_id)
        )

    @locked
    def sets_with_metadata(self, space: str, name: str, text: str) -> list[SetRef]:
        return sorted(
            rows.ref
            for rows in self._sets.all_sets()
            if rows.ref.scope.space == space and rows.ref.scope.key and rows.ref.name == name
            if any(text in row.record.metadata for row in rows.live.values())
        )

    @locked
    def get(
        self, ref: SetRef, ids: Sequence[str], *, at: int | None = None
    ) -> list[StoredItem | None]:
        versions = self._sets.rows_of(ref).versions
        live_rows = [[r for r in versions.get(item_id, []) if r.is_live_at(at)] for item_id in ids]
        return [self._stored(rows[0]) if rows else None for rows in live_rows]

    @locked
    def page(
        self,
        ref: SetRef,
        *,
        after: tuple[int, int] | None = None,
        limit: int = 256,
        newest_first: bool = False,
        at: int | None = None,
    ) -> list[StoredItem]:
        set_rows = self._sets.rows_of(ref)
        rows, order = set_rows.live, set_rows.live_order
        if at is not None:
            rows = {row.first: row for row in set_rows.rows if row.is_live_at(at)}
            order = sorted((row.time, row.first) for row in rows.values())
        if newest_first:
            order = order[: None if after is None else bisect_left(order, after)][::-1]
        elif after is not None:
            order = order[bisect_right(order, after) :]
        return [self._stored(rows[first]) for _, first in order[:limit]]

    @locked
    def versions(self, ref: SetRef, item_id: str) -> list[StoredItem]:
        return [self._stored(row) for row in self._sets.rows_of(ref).versions.get(item_id, [])]

    @locked
    def compactions(
        self, ref: SetRef, *, before: int | None = None, limit: int = 100
    ) -> list[Compaction]:
        found = [
            done
            for done in reversed(self._sets.compactions.values())
            if done.set == ref and (before is None or done.id < before)
        ]
        return [self._without_erased(done) for done in found[:limit]]

    @locked
    def compaction(self, compaction: int) -> Compaction | None:
        done = self._sets.compactions.get(compaction)
        return None if done is None else self._without_erased(done)

    def _without_erased(self, done: Compaction) -> Compaction:
        retired = [row for row in done.retired if row in self._rows]
        added = [row for row in done.added if row in self._rows]
        erased = len(done.retired) + len(done.added) - len(retired) - len(added)
        return replace(done, retired=retired, added=added, erased=erased)

    @locked
    def source_links(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        sources = self._sets.sources
        return [(r, source) for r in sorted(set(rows)) for source in sources.get(r, [])]

    @locked
    def derived_links(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        derived = self._sets.derived
        return sorted((row, r) for r in set(rows) for row in derived.get(r, []))

    @locked
    def touch(self, rows: Sequence[int], *, time: int) -> None:
        for first in rows:
            self._accessed[first] = max(time, self._accessed.get(first, time))

    @locked
    def renew(self, expiries: Sequence[tuple[int, int]], *, now: int) -> int:
        renewed = 0
        for number, expires in expiries:
            row = self._rows.get(number)
            if row is None or row.end_commit is not None or row.record.expires is None:
                continue
            if now < row.record.expires < expires:
                row.record = replace(row.record, expires=expires)
                renewed += 1
        return renewed

    @locked
    def set_info(self, ref: SetRef) -> SetInfo | None:
        found = self._sets.get(ref)
        return None if found is None else info_of(found)

    @locked
    def set_infos(self, scope: Scope) -> list[SetInfo]:
        return [info_of(found) for found in self._sets.sets_of_scope(scope)]

    @locked
    def seq(self) -> int:
        return self._seq

    @locked
    def seq_and_sets(self, sets: Sequence[SetRef] | Scope) -> tuple[int, list[SetInfo]]:
        if isinstance(sets, Scope):
            return self._seq, self.set_infos(sets)
        found = [self.set_info(ref) for ref in sets]
        return self._seq, [info for info in found if info is not None]

    def search_view(self, sets: Sequence[SetRef] | Scope, cached: SearchCache) -> SearchView:  # noqa: ARG002 - no round trips to save
        """See `Finder.search_view`."""
        return SearchView(*self.seq_and_sets(sets))

    @locked
    def changes(self, since: int, *, limit: int = 10_000) -> list[FeatureChange] | None:
        dropped = self._seq - len(self._log)
        if since < dropped:
            return None
        newest = list(islice(reversed(self._log), max(0, self._seq - since)))
        return newest[::-1][:limit]

    @locked
    def features(
        self, set_number: int, *, after: int = 0, at: int | None = None
    ) -> Iterator[Feature]:
        rows = self._sets.rows_by_number(set_number).rows
        start = bisect_right(rows, after, key=number_of)
        return iter([row.feature() for row in rows[start:] if row.is_live_at(at)])

    @locked
    def features_of(self, set_number: int, rows: Sequence[int]) -> list[Feature]:
        found = [self._rows[row] for row in rows if row in self._rows]
        return [row.feature() for row in found if row.set_rows.number == set_number]

    @locked
    def items_by_row(self, rows: Sequence[int]) -> list[StoredItem]:
        return [self._stored(self._rows[row]) for row in rows if row in self._rows]

    @locked
    def expired_or_invalid_rows(
        self, set_number: int, *, now: int, valid_at: int | None, at: int | None = None
    ) -> list[int]:
        set_rows = self._sets.rows_by_number(set_number)
        rows = set_rows.rows_with_validity.values() if at is None else set_rows.rows
        existing = [row for row in rows if row.has_validity() and row.is_live_at(at)]
        return [
            row.row
            for row in sorted(existing, key=number_of)
            if row.expired(now) or not (valid_at is None or is_valid_at(row.record, valid_at))
        ]

    @locked
    def access_times(self, set_number: int) -> list[tuple[int, int]]:
        live = self._sets.rows_by_number(set_number).live
        found = [(row.row, self._accessed.get(first)) for first, row in live.items()]
        return [(row, time) for row, time in found if time is not None]

    @locked
    def count_pending(self) -> int:
        return len(self._pending)

    @locked
    def pending_vectors(
        self, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
        rows = self._pending.values()
        wanted = [r for r in rows if set_numbers is None or r.set_rows.number in set_numbers]
        return _first(wanted, limit)

    @locked
    def store_vectors(
        self, vectors: Sequence[tuple[int, int, bytes]], *, expects: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._check_notes(expects)
        for set_number, number, new in vectors:
            row = self._pending.get(number)
            if row is not None and row.set_rows.number == set_number:
                self._put_vectors(row, new)

    def _put_vectors(self, row: ItemRow, vectors: bytes | None) -> None:
        row.record = replace(row.record, vectors=vectors)
        self._pending.pop(row.row, None)
        if vectors is None:
            self._pending[row.row] = row
        self._line(row, "embedded")

    @locked
    def versions_to_stage(self, set_numbers: Sequence[int], *, limit: int) -> list[PendingVectors]:
        sets = [rows for rows in self._sets.all_sets() if rows.number in set_numbers]
        return _first([r for r in _rows_with_meaning(sets) if r.row not in self._staged], limit)

    @locked
    def stage_vectors(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        self._staged.update({row: new for _, row, new in vectors if row in self._rows})

    @locked
    def sync(self) -> None:
        """Do nothing, as RAM does not survive loss of power. See `Finder.sync`."""

    @locked
    def drop_staged_vectors(self) -> None:
        self._staged.clear()

    @locked
    def use_staged_vectors(
        self,
        set_numbers: Sequence[int],
        *,
        notes: Sequence[tuple[str, str | None, str]],
        scopes: Sequence[Scope] = (),
    ) -> bool:
        if any(self._notes.get(name) != expected for name, expected, _ in notes):
            return False
        self._notes.update({name: text for name, _, text in notes})
        owners = {(scope.space, scope.key is None) for scope in scopes}
        sets = [
            rows
            for rows in self._sets.all_sets()
            if rows.number in set_numbers
            or (rows.ref.scope.space, rows.ref.scope.key is None) in owners
        ]
        for row in _rows_with_meaning(sets):
            self._put_vectors(row, self._staged.get(row.row))
        self._staged.clear()
        return True

    @locked
    def note(self, name: str) -> str | None:
        return self._notes.get(name)

    @locked
    def put_note(self, name: str, text: str | None, *, expected: str | None) -> bool:
        if self._notes.get(name) != expected:
            return False
        if text is None:
            self._notes.pop(name, None)
        else:
            self._notes[name] = text
        return True

    @locked
    def shrink(self, *, limit: int = MAX_SHRUNK_BYTES, keep_free: float = 0.0) -> int:  # noqa: ARG002 - there is no file
        """Return 0: freed RAM is available at once."""
        return 0

    @locked
    def sweep(self, *, now: int, ops_kept: int = OPS_KEPT) -> int:
        until = min(self.commit_at(now - OP_RETENTION_US), len(self._journal) - ops_kept)
        late = [op for op, n in self._ops.items() if n <= until]
        for op in late:
            del self._ops[op]
        purged = sum(self._purge(set_rows, now) for set_rows in self._sets.all_sets())
        expired = now - SWEEP_AFTER_US
        removed = [row for tree in self._trees.values() for row in tree.sweep(expired)]
        self._journal.drop_swept(removed)
        return len(late) + purged + len(removed)

    def _purge(self, set_rows: SetRows, now: int) -> int:
        """Delete versions that ended longer ago than the set's retention; return how many."""
        retention_us = set_rows.definition.retention_us
        if retention_us is None:
            return 0
        until = min(self.commit_at(now - retention_us), self._runs.oldest_needed_commit() - 1)
        ended = [
            row for row in set_rows.rows if row.end_commit is not None and row.end_commit <= until
        ]
        purged = sorted(ended, key=lambda row: (row.end_commit, row.row))[:MAX_SWEPT_VERSIONS]
        for row in purged:
            self._sets.purge(row)
            self._drop_row(row)
        self._journal.erase_items(purged)
        return len(purged)

    @locked
    def size_bytes(self) -> int:
        return 0

    @locked
    def stats(self) -> StoreStats:
        sets = self._sets.all_sets()
        since = [self._journal.times[row.begin_commit - 1] for row in self._pending.values()]
        leases = [Lease(s, owner, n) for s, (owner, n) in self._leases.items() if owner]
        waiting, parked, ended = self._counts()
        return StoreStats(
            commits=len(self._journal),
            keys=sum(map(len, self._keys.values())),
            sets=len(sets),
            items=sum(len(s.live) for s in sets),
            item_versions=len(self._rows),
            nodes=sum(tree.size() for tree in self._trees.values()),
            pending=len(since),
            oldest_pending=min(since, default=None),
            file_bytes=0,
            wal_bytes=0,
            leases=leases,
            runs_waiting=waiting,
            runs_parked=parked,
            runs_ended=ended,
        )

    @locked
    def salt(self) -> bytes:
        return self._salt

    def close(self) -> None:
        """Close the store, and lose its contents. A second call does nothing."""
        if os.getpid() == self._process:
            with self._lock:
                self._closed = True


def _rows_with_meaning(sets: Sequence[SetRows]) -> list[ItemRow]:
    return [row for set_rows in sets for row in set_rows.rows if row.has_meaning()]


def _first(rows: list[ItemRow], limit: int) -> list[PendingVectors]:
    """Return the texts of up to *limit* rows: live rows first, then in the order of their ends."""
    chosen = sorted(rows, key=lambda row: (row.end_commit or 0, row.row))[:limit]
    return [
        PendingVectors(r.set_rows.number, r.row, r.record.text or "", r.record.metadata)
        for r in chosen
    ]
