"""The sets of a `RamStore`: definitions, items, lineage, and the item changes of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TypeAlias

from alveus.errors import (
    CompactionChanged,
    DuplicateItem,
    NotFound,
    SetDefinitionConflict,
    SetMoved,
    StaleItem,
)
from alveus.store import (
    Add,
    Batch,
    Compact,
    Compaction,
    Define,
    Definition,
    ItemChange,
    ItemRecord,
    Link,
    Past,
    Replace,
    Retire,
    Revive,
    Scope,
    SetInfo,
    SetRef,
    Undo,
    unchecked_sets,
)
from alveus.store.changes import adds_to, expiry_cutoff, upserted
from alveus.store.checks import (
    ROW_BITS,
    check_limits,
    check_next,
    check_past,
    check_rules,
    check_undo,
    needs_trimming,
    no_compaction,
)
from alveus.store.ram.rows import CommitDraft, ItemRow, SetRows

_NO_SET = SetRef(Scope("", None), "")

_Redefined: TypeAlias = tuple[SetRows, Definition]
"""A set that has a new definition, and its old definition."""


class SetTable:
    """All sets of a store, the links between versions of items, and compactions.

    Attributes:
        sources: For the row of each derived version, the rows from which it was derived.
        derived: For the row of each source, the rows of the versions that were derived from it.
        stubs: For the row of a version, the purged items from which it was derived, directly or
            not.
        compactions: The compactions by id, in order.
        access_times: When each item was last read, by the row of its first version.
    """

    def __init__(self) -> None:
        self._by_scope: dict[Scope, dict[str, SetRows]] = {}
        self._by_number: dict[int, SetRows] = {}
        self._last_number = 0
        self.sources: dict[int, list[int]] = {}
        self.derived: dict[int, list[int]] = {}
        self.stubs: dict[int, frozenset[tuple[SetRef, str]]] = {}
        self.compactions: dict[int, Compaction] = {}
        self.access_times: dict[int, int] = {}

    def sets_of_scope(self, scope: Scope) -> list[SetRows]:
        """Return the sets of *scope*, sorted by name."""
        return [found for _, found in sorted(self._by_scope.get(scope, {}).items())]

    def get(self, ref: SetRef) -> SetRows | None:
        """Return the set *ref*, or None if it does not exist."""
        return self._by_scope.get(ref.scope, {}).get(ref.name)

    def rows_of(self, ref: SetRef) -> SetRows:
        """Return the set *ref*, or an empty set if it does not exist."""
        return self.get(ref) or SetRows(0, ref, Definition())

    def rows_by_number(self, number: int) -> SetRows:
        """Return the set that has this number, or an empty set if there is none."""
        return self._by_number.get(number) or SetRows(0, _NO_SET, Definition())

    def all_sets(self) -> list[SetRows]:
        """Return all sets of the store."""
        return list(self._by_number.values())

    def remove(self, set_rows: SetRows) -> None:
        """Remove a set of a forgotten key, and its compactions."""
        del self._by_number[set_rows.number], self._by_scope[set_rows.ref.scope][set_rows.ref.name]
        for done in [c for c in self.compactions.values() if c.set == set_rows.ref]:
            del self.compactions[done.id]

    def forget(self, row: int) -> None:
        """Drop all links between a removed version and other versions."""
        self.stubs.pop(row, None)
        for source in self.sources.pop(row, []):
            self.derived[source].remove(row)
        for other in self.derived.pop(row, []):
            self.sources[other].remove(row)

    def purge(self, row: ItemRow) -> None:
        """Remove an ended version. Versions that were derived from it get a stub of its item."""
        row.set_rows.purge(row)
        stub = {(row.set_rows.ref, row.record.id)} | self.stubs.get(row.row, frozenset())
        for other in self.derived.get(row.row, []):
            self.stubs[other] = self.stubs.get(other, frozenset()) | stub
        self.forget(row.row)
        for done in list(self.compactions.values()):
            if (done.set, done.commit) == (row.set_rows.ref, row.end_commit):
                self.compactions[done.id] = replace(done, purged=True)
        versions = row.set_rows.versions.get(row.record.id, ())
        if all(other.first != row.first for other in versions):
            self.access_times.pop(row.first, None)

    def _link(self, row: int, sources: Sequence[int], draft: CommitDraft) -> None:
        before = self.sources.get(row, [])
        new = sorted(set(sources).difference(before))
        if not new:
            return
        draft.undo.put(self.sources, row, sorted([*before, *new]))
        for source in new:
            derived = self.derived.setdefault(source, [])
            derived.append(row)
            draft.undo.append((derived.remove, row))

    def _inherit(self, row: ItemRow, before: ItemRow, draft: CommitDraft) -> None:
        """Link *row* to the sources of *before*, an earlier version of the same item."""
        self._link(row.row, self.sources.get(before.row, []), draft)
        if before.row in self.stubs:
            draft.undo.put(self.stubs, row.row, self.stubs[before.row])

    def _put_compaction(self, compaction: Compaction, draft: CommitDraft) -> None:
        draft.undo.put(self.compactions, compaction.id, compaction)

    def apply(self, batch: Batch, draft: CommitDraft) -> None:
        """Apply the definitions and item changes of *batch*, then check capacities and limits.

        Raises:
            AlveusError: The batch is refused; see `Ledger.commit`.
        """
        redefined = [found for d in batch.define if (found := self._define(d, batch, draft))]
        self._check_admission(batch)
        unchecked = unchecked_sets(batch)
        for change in batch.items:
            ref = change.set
            if ref in unchecked and self.rows_of(ref).definition.admission is not None:
                raise SetMoved(ref.name, what="rules")
            self._change(change, draft)
        until = expiry_cutoff(batch, draft.time)
        _check_redefined(redefined, draft, until)
        for set_rows in draft.sets_added_to.values():
            _enforce_capacity(set_rows, draft, until)
        self._check_limits(batch, draft)

    def _check_admission(self, batch: Batch) -> None:
        for check in batch.admission_checks or ():
            set_rows = self.rows_of(check.set)
            check_rules(check, set_rows.definition)
            later = [] if check.last_row is None else set_rows.rows_after(check.last_row)
            if any(row.is_live_at(None) for row in later):
                raise SetMoved(check.set.name)

    def _define(self, define: Define, batch: Batch, draft: CommitDraft) -> _Redefined | None:
        """Create a set, or change its definition.

        If the definition may only change in a set without items of earlier commits, returns the set
        and its old definition; the caller must check this at the end of the batch. Otherwise
        returns None.
        """
        set_rows = self.get(define.set)
        if set_rows is None:
            self._make(define.set, define.definition, draft)
            return None
        old_definition = set_rows.definition
        is_different = old_definition != define.definition
        if is_different and not define.replace and not adds_to(batch, define.set):
            raise SetDefinitionConflict(
                define.set.name, asked=define.definition, found=old_definition
            )
        if is_different:
            draft.undo.set(set_rows, "definition", _copied(define.definition))
        return (set_rows, old_definition) if is_different and not define.replace else None

    def _make(self, ref: SetRef, definition: Definition, draft: CommitDraft) -> SetRows:
        self._last_number += 1
        set_rows = SetRows(self._last_number, ref, _copied(definition))
        sets = self._by_scope.setdefault(ref.scope, {})
        draft.undo.put(sets, ref.name, set_rows)
        draft.undo.put(self._by_number, set_rows.number, set_rows)
        return set_rows

    def _change(self, change: ItemChange, draft: CommitDraft) -> None:
        match change:
            case Add() | Replace(upsert=True):
                self._add(change if isinstance(change, Add) else upserted(change), draft)
            case Replace(set=ref, version=version, record=record, links=links):
                self._replace(self._live(ref, record.id, version, draft), record, links, draft)
            case Retire(set=ref, id=item_id, version=version):
                draft.end(self._live(ref, item_id, version, draft))
            case Compact():
                self._compact(change, draft)
            case Undo():
                self._undo(change, draft)
            case Past():
                self._apply_past(change, draft)
            case Revive(set=ref, row=number):
                found = self.rows_of(ref).find_row(number)
                if found is None:
                    raise NotFound(f"set {ref.name!r} has no version of row {number}")
                self._revive(found, draft)

    def _replace(
        self, last: ItemRow, record: ItemRecord, links: Sequence[Link], draft: CommitDraft
    ) -> ItemRow:
        sources = [self._source(link).row for link in links]
        draft.end(last)
        row = draft.begin(last.set_rows, record, last, version=last.version + 1)
        self._inherit(row, last, draft)
        self._link(row.row, sources, draft)
        return row

    def _add_existing(self, last: ItemRow, add: Add, draft: CommitDraft) -> ItemRow:
        """Apply *add* although the item *last* with the same id is live, as `Add.existing` says.

        Returns the live version after it. Raises `DuplicateItem` if `existing` is "error".
        """
        item_key = add.set, add.record.id
        if add.existing == "error":
            raise DuplicateItem(add.record.id, set_name=add.set.name)
        if add.existing == "keep":
            draft.unchanged_ids.add(item_key)
            return last
        draft.unchanged_ids.discard(item_key)
        draft.replaced_ids.add(item_key)
        names = dict.fromkeys((*last.record.sources, *add.record.sources))
        return self._replace(last, replace(add.record, sources=tuple(names)), add.links, draft)

    def _live(self, ref: SetRef, item_id: str, version: int, draft: CommitDraft) -> ItemRow:
        last = self.rows_of(ref).last_version(item_id)
        live = last is not None and last.end_commit is None
        item_key = ref, item_id
        is_stale = (
            last is not None and last.version != version and item_key not in draft.replaced_ids
        )
        if last is None or not live or is_stale or item_key in draft.unchanged_ids:
            live_version = last.version if last is not None and live else None
            raise StaleItem(item_id, expected=version, found=live_version)
        return last

    def _add(self, add: Add, draft: CommitDraft) -> ItemRow:
        set_rows = self.get(add.set) or self._make(add.set, Definition(), draft)
        last = set_rows.last_version(add.record.id)
        if last is not None and last.end_commit is None:
            if not last.expired(draft.time):
                return self._add_existing(last, add, draft)
            draft.end(last)
        draft.sets_added_to[add.set] = set_rows
        sources = [self._source(link) for link in add.links]
        version = 1 if last is None else last.version + 1
        row = draft.begin(set_rows, add.record, None, version=version)
        self._link(row.row, [source.row for source in sources], draft)
        if add.accessed is not None:
            draft.undo.put(self.access_times, row.first, add.accessed)
        return row

    def _source(self, link: Link) -> ItemRow:
        last = self.rows_of(link.set).last_version(link.id)
        if last is None:
            raise NotFound(f"set {link.set.name!r} has no item {link.id!r} to derive from")
        return last

    def _compact(self, change: Compact, draft: CommitDraft) -> None:
        retired: list[ItemRow] = []
        for item_id, version in change.retired:
            retired.append(self._live(change.set, item_id, version, draft))
            draft.end(retired[-1])
        if self.get(change.set) is None:
            raise NotFound(f"there is no set {change.set.name!r} to compact")
        added = [self._add(add, draft) for add in change.added]
        number = (draft.number << ROW_BITS) + draft.compaction_count
        draft.compaction_count += 1
        self._put_compaction(
            Compaction(
                id=number,
                set=change.set,
                commit=draft.number,
                time=draft.time,
                how=change.how,
                retired=[row.row for row in retired],
                added=[row.row for row in added],
                erased=0,
                undo_commit=None,
            ),
            draft,
        )

    def _undo(self, change: Undo, draft: CommitDraft) -> None:
        done, set_rows = self.compactions.get(change.compaction), self.get(change.set)
        if done is None or set_rows is None or done.commit == draft.number:
            raise no_compaction(change.set, change.compaction)
        retired, added = set_rows.find_rows(done.retired), set_rows.find_rows(done.added)
        kept = replace(done, retired=[row.row for row in retired], added=[row.row for row in added])
        lost = len(done.retired) + len(done.added) - len(retired) - len(added)
        check_undo(change, replace(kept, erased=lost))
        for row in added:
            live = set_rows.last_version(row.record.id)
            if live is None or not live.continues(row):
                raise CompactionChanged(done.id, f"item {row.record.id!r} has changed since")
            draft.end(live)
        for row in retired:
            if set_rows.versions[row.record.id][-1].end_commit is None:
                raise CompactionChanged(done.id, f"the set has an item {row.record.id!r} again")
        for row in sorted(retired, key=lambda row: row.row):
            self._revive(row, draft)
        self._put_compaction(replace(done, undo_commit=draft.number), draft)

    def _apply_past(self, past: Past, draft: CommitDraft) -> None:
        set_rows = self.get(past.set) or self._make(past.set, Definition(), draft)
        check_past(past, draft.number)
        begun, ended = {item.row for item in past.begun_items}, set(past.ended_rows)
        live_rows = {row.row: row for row in set_rows.find_rows(past.ended_rows)}
        for number in sorted(ended - begun):
            if number not in live_rows or live_rows[number].end_commit is not None:
                raise NotFound(f"set {past.set.name!r} has no live version of row {number}")
            draft.end(live_rows[number])
        for item in past.begun_items:
            last = set_rows.last_version(item.record.id)
            check_next(item, None if last is None else (last.version, last.end_commit is None))
            row = draft.restore(set_rows, item)
            if item.row in ended:
                draft.end(row)
        start = max(set_rows.history_start, past.history_start)
        draft.undo.set(set_rows, "history_start", start)
        self._apply_past_lineage(past, draft)

    def _apply_past_lineage(self, past: Past, draft: CommitDraft) -> None:
        for row, source in past.links:
            if self._has_row(row, past.set) and self._has_row(source, past.set):
                self._link(row, [source], draft)
        for done in past.compactions:
            removed = [0] * done.erased
            self._put_compaction(
                replace(done, retired=[*done.retired, *removed], undo_commit=None), draft
            )
        for compaction in past.undone_compactions:
            done = self.compactions.get(compaction)
            if done is None or done.set != past.set:
                raise no_compaction(past.set, compaction)
            self._put_compaction(replace(done, undo_commit=draft.number), draft)

    def _has_row(self, number: int, near: SetRef) -> bool:
        """Return whether a version with this row exists. Searches the set *near* first."""
        sets = (self.rows_of(near), *self._by_number.values())
        return any(set_rows.find_row(number) for set_rows in sets)

    def _revive(self, row: ItemRow, draft: CommitDraft) -> None:
        last = row.set_rows.last_version(row.record.id)
        if last is None or last.end_commit is None:
            raise DuplicateItem(row.record.id, set_name=row.set_rows.ref.name)
        self._inherit(draft.revive(row, version=last.version + 1), row, draft)

    def _check_limits(self, batch: Batch, draft: CommitDraft) -> None:
        limits, key = batch.limits, batch.scope.key
        if (
            limits is None
            or key is None
            or all(ref.scope.key is None for ref in draft.sets_added_to)
        ):
            return
        sets = self._by_scope[batch.scope].values()
        items, size = sum(len(s.live) for s in sets), sum(s.bytes for s in sets)
        check_limits(key, limits, items=items, size=size)


def _check_redefined(renewed: Sequence[_Redefined], draft: CommitDraft, until: int) -> None:
    """Raise `SetDefinitionConflict` if a redefined set holds live items of earlier commits.

    Items that expired by *until* do not count.
    """
    for set_rows, before in renewed:
        if any(
            r.begin_commit < draft.number and not r.expired(until) for r in set_rows.live.values()
        ):
            asked = set_rows.definition
            raise SetDefinitionConflict(set_rows.ref.name, asked=asked, found=before)


def _enforce_capacity(set_rows: SetRows, draft: CommitDraft, until: int) -> None:
    """Trim a set to its capacity, or refuse the commit, or note that the set needs compaction.

    First ends the items that expired by *until*. Items that expired later, but before the commit,
    do not count towards the capacity, and stay.
    """
    definition = set_rows.definition
    if not definition.bounded:
        return
    for row in [row for row in set_rows.rows_with_validity.values() if row.expired(until)]:
        draft.end(row)
    hidden = [row for row in set_rows.rows_with_validity.values() if row.expired(draft.time)]
    taken = len(hidden), sum(r.record.tokens for r in hidden), sum(r.bytes() for r in hidden)

    def held_now() -> tuple[int, int, int]:
        return len(set_rows.live) - taken[0], set_rows.tokens - taken[1], set_rows.bytes - taken[2]

    held = held_now()
    if definition.needs_compaction(*held):
        draft.sets_to_compact.append(set_rows.ref)
    if needs_trimming(set_rows.ref, definition, held):
        firsts = {row.first for row in hidden}
        oldest = [first for _, first in set_rows.live_order if first not in firsts]
        for first in oldest:
            if not definition.exceeded_capacity(*held_now()):
                break
            draft.end(set_rows.live[first])


def _copied(definition: Definition) -> Definition:
    if definition.signals is definition.admission is None and type(definition.compaction) is str:
        return definition  # no part of it can be changed
    signals, compaction, admission = deepcopy(
        (definition.signals, definition.compaction, definition.admission)
    )
    return replace(definition, signals=signals, compaction=compaction, admission=admission)


def info_of(rows: SetRows) -> SetInfo:
    """Return the `SetInfo` of a set."""
    definition = _copied(rows.definition)
    records = [row.record for row in rows.rows_with_validity.values()]
    return SetInfo(
        rows.number,
        rows.ref,
        definition,
        len(rows.live),
        rows.bytes,
        rows.tokens,
        next_expiry=min((r.expires for r in records if r.expires is not None), default=None),
        has_validity=any(not r.valid_from is r.valid_to is None for r in records),
        history_start=rows.history_start,
    )
