"""All sets of a store, and how the item changes of a batch reach them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TypeAlias

from fornix.errors import (
    CompactionChanged,
    DuplicateItem,
    NotFound,
    SetDefinitionConflict,
    SetMoved,
    StaleItem,
)
from fornix.store import (
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
from fornix.store.checks import (
    ROW_BITS,
    check_limits,
    check_next,
    check_past,
    check_rules,
    check_undo,
    needs_trimming,
)
from fornix.store.ram.row_versions import CommitDraft, ItemRow, SetRows


class LineageLinks:
    """Links between versions, by their rows, and compactions by id.

    Attributes:
        sources: Rows that a version was derived from.
        derived: Rows that were derived from a version.
        compactions: By id, in the order they were done.
        stubs: What a version came from, to any depth, that is purged by now: sets and ids.
        accessed: When an item was last read, by its first row.
    """

    def __init__(self) -> None:
        self.sources: dict[int, list[int]] = {}
        self.derived: dict[int, list[int]] = {}
        self.stubs: dict[int, frozenset[tuple[SetRef, str]]] = {}
        self.compactions: dict[int, Compaction] = {}
        self.accessed: dict[int, int] = {}

    def link(self, row: int, sources: Sequence[int], work: CommitDraft) -> None:
        """Note that *row* was derived from *sources*."""
        before = self.sources.get(row, [])
        new = sorted(set(sources).difference(before))
        if not new:
            return
        self.sources[row] = sorted([*before, *new])
        for source in new:
            self.derived.setdefault(source, []).append(row)
        work.undo.append(lambda: self._unlink(row, before, new))

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

    def inherit(self, row: ItemRow, before: ItemRow, work: CommitDraft) -> None:
        """Give a later version the sources of an earlier one."""
        self.link(row.row, self.sources.get(before.row, []), work)
        if before.row in self.stubs:
            self.stubs[row.row] = self.stubs[before.row]
            work.undo.append(lambda: self.stubs.pop(row.row))

    def access(self, first: int, time: int, work: CommitDraft) -> None:
        """Note that an item that is being added counts as read at *time*."""
        self.accessed[first] = time
        work.undo.append(lambda: self.accessed.pop(first))

    def keep(self, compaction: Compaction, work: CommitDraft) -> None:
        """Keep a compaction: a new one, or what became of it."""
        before = self.compactions.get(compaction.id)
        self.compactions[compaction.id] = compaction

        def take_back() -> None:
            if before is None:
                del self.compactions[compaction.id]
            else:
                self.compactions[compaction.id] = before

        work.undo.append(take_back)

    def done_by(self, number: int) -> list[Compaction]:
        """Return the compactions that commit *number* did."""
        return [done for done in self.compactions.values() if done.commit == number]

    def undone_by(self, number: int) -> list[int]:
        """Return the ids of those that it undid."""
        return [done.id for done in self.compactions.values() if done.undo_commit == number]

    def purge(self, row: ItemRow) -> None:
        """Drop what is known of a version that is removed, whose set's compactions it was in."""
        stub = {(row.home.ref, row.record.id)} | self.stubs.get(row.row, frozenset())
        for other in self.derived.get(row.row, []):
            self.stubs[other] = self.stubs.get(other, frozenset()) | stub
        self.forget(row.row)
        for done in list(self.compactions.values()):
            if (done.set, done.commit) == (row.home.ref, row.ended):
                self.compactions[done.id] = replace(done, purged=True)
        versions = row.home.versions.get(row.record.id, ())
        if all(other.first != row.first for other in versions):
            self.accessed.pop(row.first, None)

    def of(self, ref: SetRef, *, before: int | None, limit: int) -> list[Compaction]:
        """Return compactions of a set, the latest first."""
        found = [
            c
            for c in reversed(self.compactions.values())
            if c.set == ref and (before is None or c.id < before)
        ]
        return found[:limit]


_Renewed: TypeAlias = tuple[SetRows, Definition]
"""A set that gets another definition, and the one that it had."""


class SetTable:
    """Sets by scope and name, and by number."""

    def __init__(self) -> None:
        self._by_scope: dict[Scope, dict[str, SetRows]] = {}
        self._by_number: dict[int, SetRows] = {}
        self._made = 0
        self.lineage = LineageLinks()

    def of(self, scope: Scope) -> list[SetRows]:
        """Return the sets of *scope*, by name."""
        return [found for _, found in sorted(self._by_scope.get(scope, {}).items())]

    def named(self, ref: SetRef) -> SetRows | None:
        """Return a set, or None while there is none."""
        return self._by_scope.get(ref.scope, {}).get(ref.name)

    def numbered(self, number: int) -> SetRows | None:
        """Return the set that a Finder knows by *number*, or None."""
        return self._by_number.get(number)

    def every(self) -> list[SetRows]:
        """Return all sets of the store."""
        return list(self._by_number.values())

    def remove(self, home: SetRows) -> None:
        """Take out a set of a key that is forgotten, and what is known of its compactions."""
        del self._by_number[home.number], self._by_scope[home.ref.scope][home.ref.name]
        compactions = self.lineage.compactions
        for done in [c for c in compactions.values() if c.set == home.ref]:
            del compactions[done.id]

    def apply(self, batch: Batch, work: CommitDraft) -> None:
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
        renewed = [found for d in batch.define if (found := self._define(d, batch, work))]
        self._hold_screens(batch)
        bare = unchecked_sets(batch)
        for change in batch.items:
            self._refuse_bare(change, bare)
            self._change(change, work)
        until = expiry_cutoff(batch, work.time)
        _hold_renewed(renewed, work, until)
        for home in work.grown.values():
            _hold_capacity(home, work, until)
        self._hold_limits(batch, work)

    def _refuse_bare(self, change: ItemChange, bare: set[SetRef]) -> None:
        """Refuse a change of a set with rules to which something is added unchecked."""
        home = self.named(change.set) if change.set in bare else None
        if home is not None and home.definition.admission is not None:
            raise SetMoved(change.set.name, what="rules")

    def _hold_screens(self, batch: Batch) -> None:
        for screened in batch.admission_checks or ():
            home = self.named(screened.set)
            check_rules(screened, None if home is None else home.definition)
            if home is None or screened.last_row is None:
                continue
            if any(row.lives(None) for row in home.since(screened.last_row)):
                raise SetMoved(screened.set.name)

    def _define(self, define: Define, batch: Batch, work: CommitDraft) -> _Renewed | None:
        """Make or change a set; return it if that is right only where the set is empty."""
        found = self.named(define.set)
        if found is None:
            self._make(define.set, define.definition, work)
            return None
        before = found.definition
        other = before != define.definition
        if other and not define.replace and not adds_to(batch, define.set):
            raise SetDefinitionConflict(define.set.name, asked=define.definition, found=before)
        if other:
            work.undo.append(lambda: setattr(found, "definition", before))
            found.definition = _copied(define.definition)
        return (found, before) if other and not define.replace else None

    def _make(self, ref: SetRef, definition: Definition, work: CommitDraft) -> SetRows:
        self._made += 1
        made = SetRows(self._made, ref, _copied(definition))
        sets = self._by_scope.setdefault(ref.scope, {})
        sets[ref.name] = self._by_number[made.number] = made
        work.undo.append(lambda: (sets.pop(ref.name), self._by_number.pop(made.number)))
        return made

    def _change(self, change: ItemChange, work: CommitDraft) -> None:
        match change:
            case Add():
                self._add(change, work)
            case Replace():
                self._take_place(change, work)
            case Retire(set=ref, id=item_id, version=version):
                work.end(self._live(ref, item_id, version, work))
            case Compact():
                self._compact(change, work)
            case Undo():
                self._undo(change, work)
            case Past():
                self._past(change, work)
            case Revive(set=ref, row=number):
                home = self.named(ref)
                found = None if home is None else home.numbered(number)
                if found is None:
                    raise NotFound(f"set {ref.name!r} has no version of row {number}")
                self._revive(found, work)

    def _take_place(self, change: Replace, work: CommitDraft) -> None:
        if change.upsert:
            self._add(upserted(change), work)
            return
        last = self._live(change.set, change.record.id, change.version, work)
        self._replace(last, change.record, change.links, work)

    def _replace(
        self, last: ItemRow, record: ItemRecord, links: Sequence[Link], work: CommitDraft
    ) -> ItemRow:
        sources = [self._source(link).row for link in links]
        work.end(last)
        row = work.begin(last.home, record, last, version=last.version + 1)
        self.lineage.inherit(row, last, work)
        self.lineage.link(row.row, sources, work)
        return row

    def _meet(self, last: ItemRow, add: Add, work: CommitDraft) -> ItemRow:
        """Do what is to be done where a live item has the id of one that is added."""
        place = add.set, add.record.id
        if add.existing == "error":
            raise DuplicateItem(add.record.id, set_name=add.set.name)
        if add.existing == "keep":
            work.stayed.add(place)
            return last
        work.stayed.discard(place)
        work.landed.add(place)
        names = dict.fromkeys((*last.record.sources, *add.record.sources))
        return self._replace(last, replace(add.record, sources=tuple(names)), add.links, work)

    def _live(self, ref: SetRef, item_id: str, version: int, work: CommitDraft) -> ItemRow:
        home = self.named(ref)
        last = None if home is None else home.last(item_id)
        live = last is not None and last.ended is None
        place = ref, item_id
        moved = last is not None and last.version != version and place not in work.landed
        if last is None or not live or moved or place in work.stayed:
            found = last.version if last is not None and live else None
            raise StaleItem(item_id, expected=version, found=found)
        return last

    def _add(self, add: Add, work: CommitDraft) -> ItemRow:
        home = self.named(add.set)
        last = None if home is None else home.last(add.record.id)
        if last is not None and last.ended is None:
            if not last.expired(work.time):
                return self._meet(last, add, work)
            work.end(last)
        home = home or self._make(add.set, Definition(), work)
        work.grown[add.set] = home
        sources = [self._source(link) for link in add.links]
        version = 1 if last is None else last.version + 1
        row = work.begin(home, add.record, None, version=version)
        self.lineage.link(row.row, [source.row for source in sources], work)
        if add.accessed is not None:
            self.lineage.access(row.first, add.accessed, work)
        return row

    def _source(self, link: Link) -> ItemRow:
        home = self.named(link.set)
        last = None if home is None else home.last(link.id)
        if last is None:
            raise NotFound(f"set {link.set.name!r} has no item {link.id!r} to derive from")
        return last

    def _compact(self, change: Compact, work: CommitDraft) -> None:
        home = self.named(change.set)
        retired: list[ItemRow] = []
        for item_id, version in change.retired:
            retired.append(self._live(change.set, item_id, version, work))
            work.end(retired[-1])
        if home is None:
            raise NotFound(f"there is no set {change.set.name!r} to compact")
        added = [self._add(add, work) for add in change.added]
        number = (work.number << ROW_BITS) + work.compacted
        work.compacted += 1
        self.lineage.keep(
            Compaction(
                id=number,
                set=change.set,
                commit=work.number,
                time=work.time,
                how=change.how,
                retired=[row.row for row in retired],
                added=[row.row for row in added],
                erased=0,
                undo_commit=None,
            ),
            work,
        )

    def _undo(self, change: Undo, work: CommitDraft) -> None:
        done, home = self.lineage.compactions.get(change.compaction), self.named(change.set)
        if done is None or home is None or done.commit == work.number:
            raise NotFound(f"set {change.set.name!r} has no compaction {change.compaction}")
        retired, added = home.kept(done.retired), home.kept(done.added)
        check_undo(change, replace(done, retired=[row.row for row in retired]))
        for row in added:
            live = home.last(row.record.id)
            if live is None or not live.is_again(row):
                raise CompactionChanged(done.id, f"item {row.record.id!r} has changed since")
            work.end(live)
        for row in retired:
            if home.versions[row.record.id][-1].ended is None:
                raise CompactionChanged(done.id, f"an item {row.record.id!r} is live again")
            self._revive(row, work)
        self.lineage.keep(replace(done, undo_commit=work.number), work)

    def _past(self, past: Past, work: CommitDraft) -> None:
        home = self.named(past.set) or self._make(past.set, Definition(), work)
        check_past(past, work.number)
        begun, ended = {item.row for item in past.begun_items}, set(past.ended_rows)
        found = {row.row: row for row in home.kept(past.ended_rows)}
        for number in sorted(ended - begun):
            if number not in found or found[number].ended is not None:
                raise NotFound(f"set {past.set.name!r} has no live version of row {number}")
            work.end(found[number])
        for item in past.begun_items:
            last = home.last(item.record.id)
            check_next(item, None if last is None else (last.version, last.ended is None))
            row = work.restore(home, item)
            if item.row in ended:
                work.end(row)
        before = home.floor
        work.undo.append(lambda: setattr(home, "floor", before))
        home.floor = max(before, past.history_start)
        self._past_lineage(past, work)

    def _past_lineage(self, past: Past, work: CommitDraft) -> None:
        for row, source in past.links:
            if self._is_kept(row, past.set) and self._is_kept(source, past.set):
                self.lineage.link(row, [source], work)
        for done in past.compactions:
            gone = [0] * done.erased
            self.lineage.keep(replace(done, retired=[*done.retired, *gone], undo_commit=None), work)
        for compaction in past.undone_compactions:
            done = self.lineage.compactions.get(compaction)
            if done is None or done.set != past.set:
                raise NotFound(f"set {past.set.name!r} has no compaction {compaction}")
            self.lineage.keep(replace(done, undo_commit=work.number), work)

    def _is_kept(self, number: int, near: SetRef) -> bool:
        """Return whether a version is kept; it is looked for in the set that it is *near* first."""
        home = self.named(near)
        likely = [] if home is None else [home]
        return any(home.numbered(number) for home in (*likely, *self._by_number.values()))

    def _revive(self, row: ItemRow, work: CommitDraft) -> None:
        last = row.home.last(row.record.id)
        if last is None or last.ended is None:
            raise DuplicateItem(row.record.id, set_name=row.home.ref.name)
        self.lineage.inherit(work.revive(row, version=last.version + 1), row, work)

    def _hold_limits(self, batch: Batch, work: CommitDraft) -> None:
        limits, key = batch.limits, batch.scope.key
        if limits is None or key is None or all(ref.scope.key is None for ref in work.grown):
            return
        sets = self._by_scope[batch.scope].values()
        items, size = sum(len(s.live) for s in sets), sum(s.bytes for s in sets)
        check_limits(key, limits, items=items, size=size)


def _hold_renewed(renewed: Sequence[_Renewed], work: CommitDraft, until: int) -> None:
    """Refuse another definition for a set that holds items from before."""
    for home, before in renewed:
        if any(r.begun < work.number and not r.expired(until) for r in home.live.values()):
            asked = home.definition
            raise SetDefinitionConflict(home.ref.name, asked=asked, found=before)


def _hold_capacity(home: SetRows, work: CommitDraft, until: int) -> None:
    """Hold a set to its capacity; what expired by *until* is ended, what did since takes none."""
    definition = home.definition
    if not definition.bounded:
        return
    for row in [row for row in home.timed.values() if row.expired(until)]:
        work.end(row)
    hidden = [row for row in home.timed.values() if row.expired(work.time)]
    taken = len(hidden), sum(r.record.tokens for r in hidden), sum(r.bytes() for r in hidden)

    def held_now() -> tuple[int, int, int]:
        return len(home.live) - taken[0], home.tokens - taken[1], home.bytes - taken[2]

    held = held_now()
    if definition.needs_compaction(*held):
        work.marks.append(home.ref)
    if needs_trimming(home.ref, definition, held):
        firsts = {row.first for row in hidden}
        oldest = [first for _, first in home.order if first not in firsts]
        for first in oldest:
            if not definition.exceeded_capacity(*held_now()):
                break
            work.end(home.live[first])


def _copied(definition: Definition) -> Definition:
    signals, compaction, admission = deepcopy(
        (definition.signals, definition.compaction, definition.admission)
    )
    return replace(definition, signals=signals, compaction=compaction, admission=admission)


def info_of(found: SetRows) -> SetInfo:
    """Return what there is to say of a set."""
    definition = _copied(found.definition)
    records = [row.record for row in found.timed.values()]
    return SetInfo(
        found.number,
        found.ref,
        definition,
        len(found.live),
        found.bytes,
        found.tokens,
        next_expiry=min((r.expires for r in records if r.expires is not None), default=None),
        has_validity=any(not r.valid_from is r.valid_to is None for r in records),
        history_start=found.floor,
    )
