"""Erasing from a `RamStore`: each erasure is planned first, so that a dry run changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field, replace

from alveus.errors import KeyBusy
from alveus.store import Batch, Commit, Revive, Run, Scope, SetRef, StoredItem
from alveus.store.erasing import (
    ERASED_HOW,
    Erased,
    Erasure,
    StoredReceipt,
    has_read,
    hidden_scope,
    hindrances_of,
    mentions_erased,
    op_of_erasure,
    owner_of,
    with_heirs,
)
from alveus.store.ram.database import RamTables, locked
from alveus.store.ram.rows import CommitDraft, ItemRow, NodeRow
from alveus.store.ram.tree import TreeRows
from alveus.values.lazy_dataclass import dataclass


@dataclass(slots=True)
class ErasurePlan:
    """The rows, runs and commits that an erasure changes.

    Attributes:
        rows: All versions to remove, including *derived_rows*.
        derived_rows: The versions to remove because they were derived from others to remove.
        restored_rows: The sources of derived rows that become live again.
        lost_count: The number of derived items that have a purged source.
        runs: The runs whose records are erased.
        open_runs: The unfinished runs whose records are erased later.
        entries: The numbers of the commits whose requests and results are erased.
    """

    rows: list[ItemRow]
    derived_rows: list[ItemRow] = field(default_factory=list[ItemRow])
    restored_rows: list[ItemRow] = field(default_factory=list[ItemRow])
    lost_count: int = 0
    runs: list[Run] = field(default_factory=list[Run])
    open_runs: list[Run] = field(default_factory=list[Run])
    entries: list[int] = field(default_factory=list[int])

    @property
    def numbers(self) -> set[int]:
        """The numbers of the versions to remove."""
        return {row.row for row in self.rows}


class RamErasing(RamTables):
    """The erasing methods of `alveus.store.Ledger`."""

    def _erase(self, erasure: Erasure) -> Erased:
        earlier = self._receipts.get(erasure.receipt)
        if earlier is not None:
            return earlier.erased
        time = max(erasure.time, self._journal.time or erasure.time)
        plan = self._plan(erasure)
        if plan is None:
            return Erased(None, time)
        erased = self._result(erasure, plan, time)
        if not erasure.dry_run:
            self._carry_out(erasure, plan, time)
            names = erasure.receipt, owner_of(erasure.scope), erasure.request
            kept = Erased.from_json(erased.to_json())
            self._receipts[erasure.receipt] = StoredReceipt(*names, kept, "erased", erased.open)
        return erased

    def _plan(self, erasure: Erasure) -> ErasurePlan | None:
        scope = erasure.scope
        if erasure.whole_key:
            named = scope.key in self._keys.get(scope.space, [])
            if not named and (scope in self._hidden or scope not in self._leases):
                return None
            rows = [row for set_rows in self._sets.sets_of_scope(scope) for row in set_rows.rows]
            derived_from_purged = [
                self._rows[n] for n in self._rows_with_stub(lambda ref, _: ref.scope == scope)
            ]
        else:
            rows = [
                row
                for ref, ids in erasure.items
                for item_id in dict.fromkeys(ids)
                for row in self._sets.rows_of(ref).versions.get(item_id, [])
            ]
            derived_from_purged = [
                row for ref, ids in erasure.items for row in self._derived_from_purged(ref, ids)
            ]
            if not rows and not derived_from_purged:
                return None
        owner, _ = self._holder(scope)
        if owner is not None and self._alive(owner):
            raise KeyBusy(scope.owner, wait_s=0)
        asked_rows = {row.row for row in rows}
        others = {row.row: row for row in derived_from_purged if row.row not in asked_rows}
        plan = ErasurePlan([*rows, *others.values()], [*others.values()])
        self._add_derived(plan)
        self._add_sources(plan)
        if erasure.whole_key:
            runs = self._runs.all_runs()
            plan.runs = [run for run in runs if run.scope == scope and not run.forgotten]
            done = self._journal.commits_of(scope)
            plan.entries = [n for n in done if self._journal[n - 1].erased is None]
            plan.entries += sorted(set(self._commits_to_erase(plan)).difference(done))
        else:
            touching = [run for run in self._touching(plan) if not run.forgotten]
            plan.runs = [run for run in touching if run.ended is not None]
            plan.open_runs = [run for run in touching if run.ended is None]
            plan.entries = self._commits_to_erase(plan)
        return plan

    def _derived_from_purged(self, ref: SetRef, ids: Sequence[str]) -> Iterable[ItemRow]:
        """Yield versions that were derived from purged versions of the items *ids* of a set.

        A purged version left no links.
        """
        yield from map(
            self._rows.__getitem__, self._rows_with_stub(lambda r, i: r == ref and i in ids)
        )
        done = self._sets.compactions.values()
        purged = {row for c in done if c.purged and c.set == ref for row in c.added}
        for row in self._sets.rows_of(ref).rows:
            if row.first in purged and not set(ids).isdisjoint(row.record.sources):
                yield row

    def _rows_with_stub(self, of: Callable[[SetRef, str], bool]) -> list[int]:
        """Return the rows of the versions that were derived from a purged item.

        Args:
            of: Returns whether a purged item counts, from its set and its id.
        """
        stubs = self._sets.stubs
        return sorted(row for row, every in stubs.items() if any(of(*stub) for stub in every))

    def _commits_to_erase(self, plan: ErasurePlan) -> list[int]:
        """Return the commits that wrote a row to remove, or whose result contains its id."""
        ids_by_scope: dict[Scope | None, set[str]] = {}
        for row in plan.rows:
            scope = row.set_rows.ref.scope
            ids_by_scope.setdefault(scope if scope.key else None, set()).add(row.record.id)
        begun, erased_rows = {row.begin_commit for row in plan.rows}, plan.numbers
        commits: list[int] = []
        for number in range(1, len(self._journal) + 1):
            entry = self._journal[number - 1]
            ids = ids_by_scope.get(None, set()) | ids_by_scope.get(entry.scope, set())
            written_ids = {row.record.id for row in entry.begun_items if row.row not in erased_rows}
            result = entry.commit.result
            if entry.erased is not None or (result is None and number not in self._ops.values()):
                continue
            if number in begun or mentions_erased(result, ids, written_ids):
                commits.append(number)
        return commits

    def _add_derived(self, plan: ErasurePlan) -> None:
        lineage, removed = self._sets, plan.numbers
        for row in plan.rows:  # grows during the loop
            for number in lineage.derived.get(row.row, []):
                if number not in removed and number in self._rows:
                    removed.add(number)
                    plan.rows.append(self._rows[number])
                    plan.derived_rows.append(self._rows[number])

    def _add_sources(self, plan: ErasurePlan) -> None:
        removed, lineage = plan.numbers, self._sets
        back: dict[int, ItemRow] = {}
        for row in plan.derived_rows:
            for number in lineage.sources.get(row.row, []):
                if number not in removed and self._may_return(self._rows[number]):
                    back[number] = self._rows[number]
        plan.restored_rows = [back[number] for number in sorted(back)]
        purged = {row for c in lineage.compactions.values() if c.purged for row in c.added}
        plan.lost_count = len({row.first for row in plan.derived_rows if row.first in purged})

    def _may_return(self, row: ItemRow) -> bool:
        """Return whether a compaction retired *row*, and its item has no later version."""
        done = self._sets.compactions.values()
        retired = any(c.commit == row.end_commit and row.row in c.retired for c in done)
        return retired and row.set_rows.last_version(row.record.id) is row

    def _touching(self, plan: ErasurePlan) -> list[Run]:
        """Return the runs that wrote or read an item to remove, and runs that had their inputs."""
        begun = {row.begin_commit for row in plan.rows}
        named: dict[SetRef, set[str]] = {}
        for row in plan.rows:
            named.setdefault(row.set_rows.ref, set()).add(row.record.id)
        return self._with_heirs(
            run.id
            for run in self._runs.all_runs()
            for commit, looked in self._runs.step_commits(run.id)
            if commit in begun or has_read(looked, named, run.scope)
        )

    def _with_heirs(self, runs: Iterable[int]) -> list[Run]:
        origins = [(r.id, r.origin) for r in self._runs.all_runs() if r.origin is not None]
        existing = map(self._runs.get, sorted(with_heirs(runs, origins)))
        return [run for run in existing if run is not None]

    def _result(self, asked: Erasure, plan: ErasurePlan, time: int) -> Erased:
        removed, lineage = plan.numbers, self._sets
        links = {(r, s) for r, found in lineage.sources.items() for s in found}
        read: list[bool | None] = []  # for each output: whether all consumers read it; None if none
        for run in plan.runs:
            lanes = self._runs.agent_of(run)
            last_read = min(lanes.consumers.values(), default=None)
            outputs = lanes.outputs_of(run.id)
            read += [None if last_read is None else o.position <= last_read for o in outputs]
        tree = self._trees.get(asked.scope)
        sets = self._sets.sets_of_scope(asked.scope) if asked.whole_key else []
        refs = {set_rows.ref for set_rows in sets}
        counts = {
            "calls": sum(len(self._runs.calls.get(run.id, ())) for run in plan.runs),
            "commits": len(plan.entries),
            "compactions": sum(c.set in refs for c in lineage.compactions.values()),
            "items": len({(row.set_rows.number, row.record.id) for row in plan.rows}),
            "links": sum(row in removed or source in removed for row, source in links),
            "nodes": _size(tree.root) if asked.whole_key and tree is not None else 0,
            "outputs": len(read),
            "runs": len(plan.runs),
            "sets": len(sets),
            "steps": sum(len(self._runs.steps(run.id)) for run in plan.runs),
            "versions": len(plan.rows),
        }
        commits = [commit for run in plan.runs for commit, _ in self._runs.step_commits(run.id)]
        return Erased(
            commit=None if asked.dry_run else len(self._journal) + 1,
            time=time,
            counts={kind: count for kind, count in counts.items() if count},
            derived=len({(row.set_rows.number, row.record.id) for row in plan.derived_rows}),
            restored=len(plan.restored_rows),
            lost=plan.lost_count,
            unread=read.count(False),
            delivered=read.count(True),
            shared=self._shared(asked.scope, removed) if asked.whole_key else 0,
            sets=tuple(sorted({row.set_rows.number for row in plan.rows})),
            puts=()
            if asked.whole_key
            else tuple(n for n in commits if self._journal[n - 1].put_nodes),
            open=tuple(run.id for run in plan.open_runs),
            unsure=tuple(asked.uncertain_runs),
            marks=tuple(dict.fromkeys(row.set_rows.ref for row in plan.restored_rows)),
        )

    def _shared(self, scope: Scope, removed: Collection[int]) -> int:
        begun = {
            row.first
            for number in self._journal.commits_of(scope)
            for row in self._journal[number - 1].begun_items
            if row.set_rows.ref.scope.key is None
            and row.row in self._rows
            and row.row not in removed
        }
        return len(begun)

    def _carry_out(self, asked: Erasure, plan: ErasurePlan, time: int) -> None:
        number, scope = len(self._journal) + 1, asked.scope
        for row in plan.rows:
            self._remove(row)
        for run in plan.runs:
            self._runs.forget(run, time=time)
        self._empty(asked, plan, number)
        if asked.whole_key:
            for set_rows in self._sets.sets_of_scope(scope):
                self._sets.remove(set_rows)
        draft = CommitDraft(number, time)
        changes = [Revive(row.set_rows.ref, row.row) for row in plan.restored_rows]
        request = None if asked.named is None else asked.named.request
        batch = Batch(scope=scope, time=time, request=request, items=changes)
        self._sets.apply(batch, draft)
        self._mend(plan, number)
        self._journal.append(Commit(number, time, adopted=False, result=None), batch, draft)
        self._ops[op_of_erasure(asked, self._salt)] = number
        self._add_rows([*draft.begun_items.values()])
        self._name(scope)
        if asked.whole_key:
            tree = self._trees[scope] = TreeRows()
            tree.head = number
            if scope in self._leases:
                self._leases[scope] = (None, self._leases[scope][1] + 1)
            self._hide(scope)

    def _remove(self, row: ItemRow) -> None:
        """Remove a version from its set, its links, and the tables of the store."""
        row.set_rows.erase(row)
        if not any(other.first == row.first for other in row.set_rows.rows):
            self._accessed.pop(row.first, None)
        self._sets.forget(row.row)
        self._drop_row(row)

    def _empty(self, asked: Erasure, plan: ErasurePlan, number: int) -> None:
        """Erase the rows and commits of the plan from the journal.

        Args:
            number: The number of the commit that erases.
        """
        self._journal.erase_items(plan.rows)
        for entry in plan.entries:
            of_key = asked.whole_key and self._journal[entry - 1].scope == asked.scope
            is_noted = of_key or entry in self._ops.values()
            self._journal.erase(entry, number if is_noted else None)
        if asked.whole_key:
            self._journal.erase_tree(set(self._journal.commits_of(asked.scope)))

    def _mend(self, plan: ErasurePlan, number: int) -> None:
        """Correct the compactions that retired or added an erased row.

        They lose their `how`, and the restored rows. A compaction without added rows, and
        without retired rows that could return, counts as undone by commit *number*. If its sources
        stay retired, it can still be undone.
        """
        removed, back = plan.numbers, {row.row for row in plan.restored_rows}
        for done in list(self._sets.compactions.values()):
            if removed.isdisjoint((*done.retired, *done.added)):
                continue
            left = [row for row in done.retired if row not in back]
            lost = not removed.isdisjoint(done.added)
            nothing = (
                lost
                and not any(row in self._rows for row in done.added)
                and not any(row in self._rows and self._may_return(self._rows[row]) for row in left)
            )
            self._sets.compactions[done.id] = replace(
                done,
                how=ERASED_HOW,
                retired=left,
                undo_commit=done.undo_commit or number if nothing else done.undo_commit,
            )

    def _hide(self, scope: Scope) -> None:
        """Hide the name of a key until the key is used again."""
        self._hidden[scope] = hidden_scope(scope, self._salt)
        self._named.discard(scope)
        keys = self._keys[scope.space]
        keys.remove(scope.key or "")
        if not keys:
            del self._keys[scope.space]

    @locked
    def scrub(self, *, now: int) -> list[str]:
        blocked_by: list[str] = []
        for receipt in self._receipts.values():
            if receipt.scrubbed is not None:
                continue
            open_runs = self._with_heirs(receipt.open_runs)
            for run in open_runs:
                if run.ended is not None and not run.forgotten:
                    self._runs.forget(run, time=now)
            waiting = tuple(run.id for run in open_runs if run.ended is None)
            blockers = hindrances_of(waiting)
            blocked_by.extend(blockers)
            state = "rewritten" if blockers else "scrubbed"
            done = None if blockers else now
            self._receipts[receipt.id] = replace(
                receipt, state=state, open_runs=waiting, blocked_by=blockers, scrubbed=done
            )
        return list(dict.fromkeys(blocked_by))

    @locked
    def receipts(
        self, owners: Sequence[str], *, before: int | None = None, limit: int = 100
    ) -> list[StoredReceipt]:
        found = [
            receipt
            for receipt in reversed(self._receipts.values())
            if receipt.owner in owners and (before is None or (receipt.erased.commit or 0) < before)
        ]
        return found[:limit]

    @locked
    def receipt(self, receipt: str) -> StoredReceipt | None:
        return self._receipts.get(receipt)

    @locked
    def all_versions(
        self, ref: SetRef, *, after: tuple[str, int] | None = None, limit: int = 256
    ) -> list[StoredItem]:
        rows = self._sets.rows_of(ref).rows
        ordered = sorted(((r.record.id.encode(), r.version), r.row) for r in rows)
        start = None if after is None else (after[0].encode(), after[1])
        later = [row for position, row in ordered if start is None or position > start]
        return [self._stored(self._rows[row]) for row in later[:limit]]

    @locked
    def all_sets(self, scope: Scope) -> list[SetRef]:
        return [set_rows.ref for set_rows in self._sets.sets_of_scope(scope)]


def _size(row: NodeRow) -> int:
    """Return the number of versions of all nodes below an object."""
    below = [version for versions in row.versions.values() for version in versions]
    return len(below) + sum(map(_size, below))
