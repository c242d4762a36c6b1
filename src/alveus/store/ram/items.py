"""All sets of a store, and how the item changes of a batch reach them."""

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
    adds_to,
    expiry_cutoff,
    unchecked_sets,
    upserted,
)
from alveus.store.checks import (
    ROW_BITS,
    check_limits,
    check_next,
    check_past,
    check_rules,
    check_undo,
    needs_trimming,
)
from alveus.store.ram.rows import CommitDraft, ItemRow, SetRows


class LineageLinks:
    """Links between versions, by their rows, and compactions by id.

    Attributes:
        sources: Rows that a version was derived from.
        derived: Rows that were derived from a version.
        compactions: By id, in the order they were done.
        stubs: What a version came from, to any depth, that is purged by now: sets and ids.
        access_times: When an item was last read, by its first row.
    """

    def __init__(self) -> None:
        self.sources: dict[int, list[int]] = {}
        self.derived: dict[int, list[int]] = {}
        self.stubs: dict[int, frozenset[tuple[SetRef, str]]] = {}
        self.compactions: dict[int, Compaction] = {}
        self.access_times: dict[int, int] = {}

    def link(self, row: int, sources: Sequence[int], draft: CommitDraft) -> None:
        """Note that *row* was derived from *sources*."""
        before = self.sources.get(row, [])
        new = sorted(set(sources).difference(before))
        if not new:
            return
        self.sources[row] = sorted([*before, *new])
        for source in new:
            self.derived.setdefault(source, []).append(row)
        draft.undo.append((self._unlink, row, before, new))

    def _unlink(self, row: int, before: list[int], sources: Sequence[int]) -> None:
        self.sources[row] = before
        for source in sources:
            self.derived[source].remove(row)

    def forget(self, row: int) -> None:
        """Drop all links of a version that is removed."""
        self.stubs.pop(row, None)
        for source in self.sources.pop(row, []):
            self.derived[source].remove(row)
        for other in self.derived.pop(row, []):
            self.sources[other].remove(row)

    def inherit(self, row: ItemRow, before: ItemRow, draft: CommitDraft) -> None:
        """Give a later version the sources of an earlier one."""
        self.link(row.row, self.sources.get(before.row, []), draft)
        if before.row in self.stubs:
            self.stubs[row.row] = self.stubs[before.row]
            draft.undo.append((self.stubs.pop, row.row))

    def access(self, first: int, time: int, draft: CommitDraft) -> None:
        """Note that an item that is being added counts as read at *time*."""
        self.access_times[first] = time
        draft.undo.append((self.access_times.pop, first))

    def put_compaction(self, compaction: Compaction, draft: CommitDraft) -> None:
        """Keep a compaction: a new one, or what became of it."""
        before = self.compactions.get(compaction.id)
        self.compactions[compaction.id] = compaction

        if before is None:
            draft.undo.append((self.compactions.pop, compaction.id))
        else:
            draft.undo.append((self.compactions.__setitem__, before.id, before))

    def compactions_of_commit(self, number: int) -> list[Compaction]:
        """Return the compactions that commit *number* did."""
        return [done for done in self.compactions.values() if done.commit == number]

    def undone_by_commit(self, number: int) -> list[int]:
        """Return the ids of those that it undid."""
        return [done.id for done in self.compactions.values() if done.undo_commit == number]

    def purge(self, row: ItemRow) -> None:
        """Drop what is known of a version that is removed, whose set's compactions it was in."""
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

    def compactions_of_set(
        self, ref: SetRef, *, before: int | None, limit: int
    ) -> list[Compaction]:
        """Return compactions of a set, the latest first."""
        compactions = [
            c
            for c in reversed(self.compactions.values())
            if c.set == ref and (before is None or c.id < before)
        ]
        return compactions[:limit]


_Redefined: TypeAlias = tuple[SetRows, Definition]
"""A set that gets another definition, and the one that it had."""


class SetTable:
    """Sets by scope and name, and by number."""

    def __init__(self) -> None:
        self._by_scope: dict[Scope, dict[str, SetRows]] = {}
        self._by_number: dict[int, SetRows] = {}
        self._last_number = 0
        self.lineage = LineageLinks()

    def sets_of_scope(self, scope: Scope) -> list[SetRows]:
        """Return the sets of *scope*, by name."""
        return [found for _, found in sorted(self._by_scope.get(scope, {}).items())]

    def get(self, ref: SetRef) -> SetRows | None:
        """Return a set, or None while there is none."""
        return self._by_scope.get(ref.scope, {}).get(ref.name)

    def get_by_number(self, number: int) -> SetRows | None:
        """Return the set that a Finder knows by *number*, or None."""
        return self._by_number.get(number)

    def all_sets(self) -> list[SetRows]:
        """Return all sets of the store."""
        return list(self._by_number.values())

    def remove(self, set_rows: SetRows) -> None:
        """Take out a set of a key that is forgotten, and what is known of its compactions."""
        del self._by_number[set_rows.number], self._by_scope[set_rows.ref.scope][set_rows.ref.name]
        compactions = self.lineage.compactions
        for done in [c for c in compactions.values() if c.set == set_rows.ref]:
            del compactions[done.id]

    def apply(self, batch: Batch, draft: CommitDraft) -> None:
        """Apply the definitions and item changes of *batch* in order, then hold what limits them.

        Raises:
            StaleItem: An item to replace or retire has another live version, or none.
            DuplicateItem: An id to add is live.
            SetDefinitionConflict: A set to define exists with another definition.
            SetMoved: What is added was not checked by the set's rules, or the set moved on since.
            CompactionChanged: A compaction to undo is not as it was left.
            NotFound: There is no such compaction, version or source.
            SetFull: A set that refuses, and that the batch adds to, exceeds its capacity.
            KeyFull: The key, if the batch adds to it, exceeds its limits.
        """
        redefined = [found for d in batch.define if (found := self._define(d, batch, draft))]
        self._check_admission(batch)
        unchecked = unchecked_sets(batch)
        for change in batch.items:
            self._refuse_unchecked(change, unchecked)
            self._change(change, draft)
        until = expiry_cutoff(batch, draft.time)
        _check_redefined(redefined, draft, until)
        for set_rows in draft.sets_added_to.values():
            _enforce_capacity(set_rows, draft, until)
        self._check_limits(batch, draft)

    def _refuse_unchecked(self, change: ItemChange, unchecked: set[SetRef]) -> None:
        """Refuse a change of a set with rules to which something is added unchecked."""
        set_rows = self.get(change.set) if change.set in unchecked else None
        if set_rows is not None and set_rows.definition.admission is not None:
            raise SetMoved(change.set.name, what="rules")

    def _check_admission(self, batch: Batch) -> None:
        for check in batch.admission_checks or ():
            set_rows = self.get(check.set)
            check_rules(check, None if set_rows is None else set_rows.definition)
            if set_rows is None or check.last_row is None:
                continue
            if any(row.is_live_at(None) for row in set_rows.rows_after(check.last_row)):
                raise SetMoved(check.set.name)

    def _define(self, define: Define, batch: Batch, draft: CommitDraft) -> _Redefined | None:
        """Make or change a set; return it if that is right only where the set is empty."""
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
            draft.undo.append((setattr, set_rows, "definition", old_definition))
            set_rows.definition = _copied(define.definition)
        return (set_rows, old_definition) if is_different and not define.replace else None

    def _make(self, ref: SetRef, definition: Definition, draft: CommitDraft) -> SetRows:
        self._last_number += 1
        set_rows = SetRows(self._last_number, ref, _copied(definition))
        sets = self._by_scope.setdefault(ref.scope, {})
        sets[ref.name] = self._by_number[set_rows.number] = set_rows
        draft.undo += ((sets.pop, ref.name), (self._by_number.pop, set_rows.number))
        return set_rows

    def _change(self, change: ItemChange, draft: CommitDraft) -> None:
        match change:
            case Add():
                self._add(change, draft)
            case Replace():
                self._replace_or_upsert(change, draft)
            case Retire(set=ref, id=item_id, version=version):
                draft.end(self._live(ref, item_id, version, draft))
            case Compact():
                self._compact(change, draft)
            case Undo():
                self._undo(change, draft)
            case Past():
                self._apply_past(change, draft)
            case Revive(set=ref, row=number):
                set_rows = self.get(ref)
                found = None if set_rows is None else set_rows.find_row(number)
                if found is None:
                    raise NotFound(f"set {ref.name!r} has no version of row {number}")
                self._revive(found, draft)

    def _replace_or_upsert(self, change: Replace, draft: CommitDraft) -> None:
        if change.upsert:
            self._add(upserted(change), draft)
            return
        last = self._live(change.set, change.record.id, change.version, draft)
        self._replace(last, change.record, change.links, draft)

    def _replace(
        self, last: ItemRow, record: ItemRecord, links: Sequence[Link], draft: CommitDraft
    ) -> ItemRow:
        sources = [self._source(link).row for link in links]
        draft.end(last)
        row = draft.begin(last.set_rows, record, last, version=last.version + 1)
        self.lineage.inherit(row, last, draft)
        self.lineage.link(row.row, sources, draft)
        return row

    def _add_existing(self, last: ItemRow, add: Add, draft: CommitDraft) -> ItemRow:
        """Do what is to be done where a live item has the id of one that is added."""
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
        set_rows = self.get(ref)
        last = None if set_rows is None else set_rows.last_version(item_id)
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
        set_rows = self.get(add.set)
        last = None if set_rows is None else set_rows.last_version(add.record.id)
        if last is not None and last.end_commit is None:
            if not last.expired(draft.time):
                return self._add_existing(last, add, draft)
            draft.end(last)
        set_rows = set_rows or self._make(add.set, Definition(), draft)
        draft.sets_added_to[add.set] = set_rows
        sources = [self._source(link) for link in add.links]
        version = 1 if last is None else last.version + 1
        row = draft.begin(set_rows, add.record, None, version=version)
        self.lineage.link(row.row, [source.row for source in sources], draft)
        if add.accessed is not None:
            self.lineage.access(row.first, add.accessed, draft)
        return row

    def _source(self, link: Link) -> ItemRow:
        set_rows = self.get(link.set)
        last = None if set_rows is None else set_rows.last_version(link.id)
        if last is None:
            raise NotFound(f"set {link.set.name!r} has no item {link.id!r} to derive from")
        return last

    def _compact(self, change: Compact, draft: CommitDraft) -> None:
        set_rows = self.get(change.set)
        retired: list[ItemRow] = []
        for item_id, version in change.retired:
            retired.append(self._live(change.set, item_id, version, draft))
            draft.end(retired[-1])
        if set_rows is None:
            raise NotFound(f"there is no set {change.set.name!r} to compact")
        added = [self._add(add, draft) for add in change.added]
        number = (draft.number << ROW_BITS) + draft.compaction_count
        draft.compaction_count += 1
        self.lineage.put_compaction(
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
        done, set_rows = self.lineage.compactions.get(change.compaction), self.get(change.set)
        if done is None or set_rows is None or done.commit == draft.number:
            raise NotFound(f"set {change.set.name!r} has no compaction {change.compaction}")
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
                raise CompactionChanged(done.id, f"an item {row.record.id!r} is live again")
        for row in sorted(retired, key=lambda row: row.row):
            self._revive(row, draft)
        self.lineage.put_compaction(replace(done, undo_commit=draft.number), draft)

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
        before = set_rows.history_start
        draft.undo.append((setattr, set_rows, "history_start", before))
        set_rows.history_start = max(before, past.history_start)
        self._apply_past_lineage(past, draft)

    def _apply_past_lineage(self, past: Past, draft: CommitDraft) -> None:
        for row, source in past.links:
            if self._has_row(row, past.set) and self._has_row(source, past.set):
                self.lineage.link(row, [source], draft)
        for done in past.compactions:
            removed = [0] * done.erased
            self.lineage.put_compaction(
                replace(done, retired=[*done.retired, *removed], undo_commit=None), draft
            )
        for compaction in past.undone_compactions:
            done = self.lineage.compactions.get(compaction)
            if done is None or done.set != past.set:
                raise NotFound(f"set {past.set.name!r} has no compaction {compaction}")
            self.lineage.put_compaction(replace(done, undo_commit=draft.number), draft)

    def _has_row(self, number: int, near: SetRef) -> bool:
        """Return whether a version is kept; it is looked for in the set that it is *near* first."""
        set_rows = self.get(near)
        likely = [] if set_rows is None else [set_rows]
        return any(home.find_row(number) for home in (*likely, *self._by_number.values()))

    def _revive(self, row: ItemRow, draft: CommitDraft) -> None:
        last = row.set_rows.last_version(row.record.id)
        if last is None or last.end_commit is None:
            raise DuplicateItem(row.record.id, set_name=row.set_rows.ref.name)
        self.lineage.inherit(draft.revive(row, version=last.version + 1), row, draft)

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
    """Refuse another definition for a set that holds items from before."""
    for set_rows, before in renewed:
        if any(
            r.begin_commit < draft.number and not r.expired(until) for r in set_rows.live.values()
        ):
            asked = set_rows.definition
            raise SetDefinitionConflict(set_rows.ref.name, asked=asked, found=before)


def _enforce_capacity(set_rows: SetRows, draft: CommitDraft, until: int) -> None:
    """Hold a set to its capacity; what expired by *until* is ended, what did since takes none."""
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
    signals, compaction, admission = deepcopy(
        (definition.signals, definition.compaction, definition.admission)
    )
    return replace(definition, signals=signals, compaction=compaction, admission=admission)


def info_of(rows: SetRows) -> SetInfo:
    """Return what there is to say of a set."""
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
