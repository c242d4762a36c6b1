"""Erasing from a `RamStore`: looked up first, then done, so that a rehearsal changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field, replace

from fornix.errors import KeyBusy
from fornix.store import Batch, Commit, Revive, Run, Scope, SetRef, StoredItem, StoredOutput
from fornix.store.erasures import (
    ERASED_HOW,
    Erased,
    Erasure,
    StoredReceipt,
    has_read,
    hidden_scope,
    mentions_erased,
    op_of_erasure,
    owner_of,
)
from fornix.store.ram.row_versions import CommitDraft, ItemRow, JournalEntry, NodeRow
from fornix.store.ram.tables import RamTables, locked
from fornix.store.ram.tree import TreeRows
from fornix.values.lazy_dataclass import dataclass


@dataclass(slots=True)
class ErasurePlan:
    """What an erasure removes and brings back."""

    rows: list[ItemRow]
    derived: list[ItemRow] = field(default_factory=list[ItemRow])
    back: list[ItemRow] = field(default_factory=list[ItemRow])
    lost: int = 0
    runs: list[Run] = field(default_factory=list[Run])
    open: list[Run] = field(default_factory=list[Run])
    entries: list[int] = field(default_factory=list[int])

    @property
    def numbers(self) -> set[int]:
        """The rows that go."""
        return {row.row for row in self.rows}


class RamErasing(RamTables):
    """What `Ledger` promises of forgetting."""

    @locked
    def erase(self, erasure: Erasure) -> Erased:
        earlier = self._receipts.get(erasure.receipt)
        if earlier is not None:
            return earlier.erased
        time = max(erasure.time, self._journal.time or erasure.time)
        plan = self._planned(erasure)
        if plan is None:
            return Erased(None, time)
        erased = self._told(erasure, plan, time)
        if not erasure.dry_run:
            self._carry_out(erasure, plan, time)
            owner = owner_of(erasure.scope)
            kept = StoredReceipt(
                erasure.receipt, owner, erasure.request, erased, "erased", erased.open
            )
            self._receipts[erasure.receipt] = replace(
                kept, erased=Erased.from_json(erased.to_json())
            )
        return erased

    # --- what is to go

    def _planned(self, asked: Erasure) -> ErasurePlan | None:
        scope = asked.scope
        if asked.whole_key:
            named = scope.key in self._keys.get(scope.space, [])
            if not named and (scope in self._hidden or scope not in self._leases):
                return None
            rows = [row for home in self._sets.of(scope) for row in home.rows]
            made = [self._rows[n] for n in self._stubbed(lambda ref, _: ref.scope == scope)]
        else:
            rows = [row for ref, ids in asked.items for row in self._versions_of(ref, ids)]
            made = [row for ref, ids in asked.items for row in self._made_of(ref, ids)]
            if not rows and not made:
                return None
        owner, _ = self._holder(scope)
        if owner is not None and self._alive(owner):
            raise KeyBusy(scope.owner, wait_s=0)
        asked_for = {row.row for row in rows}
        derived = [r for r in {row.row: row for row in made}.values() if r.row not in asked_for]
        plan = ErasurePlan([*rows, *derived], derived)
        self._add_derived(plan)
        self._add_sources(plan)
        if asked.whole_key:
            there = self._runs.every()
            plan.runs = [run for run in there if run.scope == scope and not run.forgotten]
            done = self._journal.of(scope)
            plan.entries = [n for n in done if self._journal[n - 1].erased is None]
            plan.entries += sorted(set(self._answers(plan)).difference(done))
        else:
            found = [run for run in self._touching(plan) if not run.forgotten]
            plan.runs = [run for run in found if run.ended is not None]
            plan.open = [run for run in found if run.ended is None]
            plan.entries = self._answers(plan)
        return plan

    def _versions_of(self, ref: SetRef, ids: Sequence[str]) -> Iterable[ItemRow]:
        home = self._sets.named(ref)
        for item_id in dict.fromkeys(ids):
            yield from [] if home is None else home.versions.get(item_id, [])

    def _made_of(self, ref: SetRef, ids: Sequence[str]) -> Iterable[ItemRow]:
        """Yield what was made of items that were purged since, and left no links."""
        yield from map(self._rows.__getitem__, self._stubbed(lambda r, i: r == ref and i in ids))
        done = self._sets.lineage.compactions.values()
        purged = {row for c in done if c.purged and c.set == ref for row in c.added}
        home = self._sets.named(ref)
        for row in [] if home is None else home.rows:
            if row.first in purged and not set(ids).isdisjoint(row.record.sources):
                yield row

    def _stubbed(self, of: Callable[[SetRef, str], bool]) -> list[int]:
        """Return the versions that came from something purged, of such a set and id."""
        stubs = self._sets.lineage.stubs
        return sorted(row for row, every in stubs.items() if any(of(*stub) for stub in every))

    def _answers(self, plan: ErasurePlan) -> list[int]:
        """Return the commits that wrote what goes, or that answered with an id of it."""
        named: dict[Scope | None, set[str]] = {}
        for row in plan.rows:
            scope = row.home.ref.scope
            named.setdefault(scope if scope.key else None, set()).add(row.record.id)
        begun, gone = {row.begun for row in plan.rows}, plan.numbers
        found: list[int] = []
        for number in range(1, len(self._journal) + 1):
            entry = self._journal[number - 1]
            ids = named.get(None, set()) | named.get(entry.scope, set())
            kept = {row.record.id for row in entry.begun if row.row not in gone}
            if self._says(entry) and (
                number in begun or mentions_erased(entry.commit.result, ids, kept)
            ):
                found.append(number)
        return found

    def _says(self, entry: JournalEntry) -> bool:
        named = entry.commit.number in self._ops.values()
        return entry.erased is None and (named or entry.commit.result is not None)

    def _add_derived(self, plan: ErasurePlan) -> None:
        lineage, gone = self._sets.lineage, plan.numbers
        for row in plan.rows:  # grows while it is walked
            for number in lineage.derived.get(row.row, []):
                if number not in gone and number in self._rows:
                    gone.add(number)
                    plan.rows.append(self._rows[number])
                    plan.derived.append(self._rows[number])

    def _add_sources(self, plan: ErasurePlan) -> None:
        gone, lineage = plan.numbers, self._sets.lineage
        back: dict[int, ItemRow] = {}
        for row in plan.derived:
            for number in lineage.sources.get(row.row, []):
                if number not in gone and self._may_return(self._rows[number]):
                    back[number] = self._rows[number]
        plan.back = [back[number] for number in sorted(back)]
        purged = {row for c in lineage.compactions.values() if c.purged for row in c.added}
        plan.lost = len({row.first for row in plan.derived if row.first in purged})

    def _may_return(self, row: ItemRow) -> bool:
        """Whether a compaction alone retired it, and nothing became of it since."""
        done = self._sets.lineage.compactions.values()
        retired = any(c.commit == row.ended and row.row in c.retired for c in done)
        return retired and row.home.last(row.record.id) is row

    def _touching(self, plan: ErasurePlan) -> list[Run]:
        """Return the runs that wrote or read what goes, and those of the same input."""
        begun = {row.begun for row in plan.rows}
        named: dict[SetRef, set[str]] = {}
        for row in plan.rows:
            named.setdefault(row.home.ref, set()).add(row.record.id)
        return self._with_heirs(
            run.id
            for run in self._runs.every()
            for commit, looked in self._runs.done(run.id)
            if commit in begun or has_read(looked, named, run.scope)
        )

    def _with_heirs(self, runs: Iterable[int]) -> list[Run]:
        """Return runs, and those that had the same input before or after them."""
        found, count = set(runs), -1
        pairs = [(r.id, r.origin) for r in self._runs.every() if r.origin is not None]
        while found and len(found) != count:
            count = len(found)
            for pair in pairs:
                if not found.isdisjoint(pair):
                    found.update(pair)
        there = [self._runs.get(number) for number in sorted(found)]
        return [run for run in there if run is not None]

    # --- what is told

    def _told(self, asked: Erasure, plan: ErasurePlan, time: int) -> Erased:
        gone, lineage = plan.numbers, self._sets.lineage
        links = {(r, s) for r, found in lineage.sources.items() for s in found}
        outputs = [output for run in plan.runs for output in self._outputs(run)]
        read = [self._is_read(run, output) for run, output in outputs]
        tree = self._trees.get(asked.scope)
        sets = self._sets.of(asked.scope) if asked.whole_key else []
        refs = {home.ref for home in sets}
        counts = {
            "calls": sum(len(self._runs.calls.get(run.id, ())) for run in plan.runs),
            "commits": len(plan.entries),
            "compactions": sum(c.set in refs for c in lineage.compactions.values()),
            "items": len({(row.home.number, row.record.id) for row in plan.rows}),
            "links": sum(row in gone or source in gone for row, source in links),
            "nodes": _size(tree.root) if asked.whole_key and tree is not None else 0,
            "outputs": len(outputs),
            "runs": len(plan.runs),
            "sets": len(sets),
            "steps": sum(len(self._runs.steps.get(run.id, ())) for run in plan.runs),
            "versions": len(plan.rows),
        }
        commits = [commit for run in plan.runs for commit, _ in self._runs.done(run.id)]
        return Erased(
            commit=None if asked.dry_run else len(self._journal) + 1,
            time=time,
            counts={kind: count for kind, count in counts.items() if count},
            derived=len({(row.home.number, row.record.id) for row in plan.derived}),
            restored=len(plan.back),
            lost=plan.lost,
            unread=read.count(False),
            delivered=read.count(True),
            shared=self._shared(asked.scope, gone) if asked.whole_key else 0,
            sets=tuple(sorted({row.home.number for row in plan.rows})),
            puts=() if asked.whole_key else tuple(n for n in commits if self._puts(n)),
            open=tuple(run.id for run in plan.open),
            unsure=tuple(asked.uncertain_runs),
            marks=tuple(dict.fromkeys(row.home.ref for row in plan.back)),
        )

    def _outputs(self, run: Run) -> list[tuple[Run, StoredOutput]]:
        return [(run, output) for output in self._runs.of(run).of(run.id)]

    def _is_read(self, run: Run, output: StoredOutput) -> bool | None:
        """Return whether every consumer has read an output; None: nobody reads them."""
        read = min(self._runs.of(run).consumers.values(), default=None)
        return None if read is None else output.position <= read

    def _shared(self, scope: Scope, gone: Collection[int]) -> int:
        begun = {
            row.first
            for number in self._journal.of(scope)
            for row in self._journal[number - 1].begun
            if row.home.ref.scope.key is None and row.row in self._rows and row.row not in gone
        }
        return len(begun)

    def _puts(self, number: int) -> bool:
        return any(not row.swept for _, row in self._journal[number - 1].put)

    # --- what goes

    def _carry_out(self, asked: Erasure, plan: ErasurePlan, time: int) -> None:
        number, scope = len(self._journal) + 1, asked.scope
        for row in plan.rows:
            self._remove(row)
        for run in plan.runs:
            self._runs.forget(run, time=time)
        self._empty(asked, plan, number)
        if asked.whole_key:
            for home in self._sets.of(scope):
                self._sets.remove(home)
        work = CommitDraft(number, time)
        changes = [Revive(row.home.ref, row.row) for row in plan.back]
        batch = Batch(scope=scope, time=time, items=changes)
        self._sets.apply(batch, work)
        self._mend(plan, number)
        self._journal.append(Commit(number, time, adopted=False, result=None), batch, work)
        self._ops[op_of_erasure(asked.receipt, self._salt)] = number
        self._add_rows([*work.begun.values()])
        self._name(scope)
        if asked.whole_key:
            tree = self._trees[scope] = TreeRows()
            tree.head = number
            if scope in self._leases:
                self._leases[scope] = (None, self._leases[scope][1] + 1)
            self._hide(scope)

    def _remove(self, row: ItemRow) -> None:
        """Take a version out of everything that knows it."""
        row.home.erase(row)
        if not any(other.first == row.first for other in row.home.rows):
            self._accessed.pop(row.first, None)
        del self._rows[row.row]
        self._vectors.drop(row.row)
        self._sets.lineage.forget(row.row)
        self._line(row, "removed")

    def _empty(self, asked: Erasure, plan: ErasurePlan, number: int) -> None:
        """Take out of the journal what it says."""
        self._journal.erase_items(plan.rows)
        for entry in plan.entries:
            own = asked.whole_key and self._journal[entry - 1].scope == asked.scope
            says = own or entry in self._ops.values()
            self._journal.erase(entry, number if says else None)
        if asked.whole_key:
            self._journal.erase_tree(set(self._journal.of(asked.scope)))

    def _mend(self, plan: ErasurePlan, number: int) -> None:
        """Have compactions say nothing of what is erased, and not undo what came back."""
        gone, back = plan.numbers, {row.row for row in plan.back}
        for done in list(self._sets.lineage.compactions.values()):
            if gone.isdisjoint((*done.retired, *done.added)):
                continue
            lost = not gone.isdisjoint(done.added)
            nothing = lost and not any(row in self._rows for row in done.added)
            self._sets.lineage.compactions[done.id] = replace(
                done,
                how=ERASED_HOW,
                retired=[row for row in done.retired if row not in back],
                undo_commit=done.undo_commit or number if nothing else done.undo_commit,
            )

    def _hide(self, scope: Scope) -> None:
        """Have nothing tell the name of a key, until it is used again."""
        self._hidden[scope] = hidden_scope(scope, self._salt)
        self._named.discard(scope)
        keys = self._keys[scope.space]
        keys.remove(scope.key or "")
        if not keys:
            del self._keys[scope.space]

    # --- receipts

    @locked
    def scrub(self, *, now: int) -> list[str]:
        left: list[str] = []
        for kept in self._receipts.values():
            if kept.scrubbed is not None:
                continue
            there = self._with_heirs(kept.open_runs)
            for run in there:
                if run.ended is not None and not run.forgotten:
                    self._runs.forget(run, time=now)
            waiting = tuple(run.id for run in there if run.ended is None)
            held = tuple(f"run {n} has not ended; let it end, or discard it" for n in waiting)
            left.extend(held)
            state = "rewritten" if held else "scrubbed"
            done = None if held else now
            self._receipts[kept.id] = replace(
                kept, state=state, open_runs=waiting, blocked_by=held, scrubbed=done
            )
        return list(dict.fromkeys(left))

    @locked
    def receipts(
        self, owners: Sequence[str], *, before: int | None = None, limit: int = 100
    ) -> list[StoredReceipt]:
        found = [
            kept
            for kept in reversed(self._receipts.values())
            if kept.owner in owners and (before is None or (kept.erased.commit or 0) < before)
        ]
        return found[:limit]

    @locked
    def receipt(self, receipt: str) -> StoredReceipt | None:
        return self._receipts.get(receipt)

    @locked
    def all_versions(
        self, ref: SetRef, *, after: tuple[str, int] | None = None, limit: int = 256
    ) -> list[StoredItem]:
        home = self._sets.named(ref)
        rows = [] if home is None else home.rows
        places = sorted(((r.record.id.encode(), r.version), r.row) for r in rows)
        start = None if after is None else (after[0].encode(), after[1])
        past = [row for place, row in places if start is None or place > start]
        return [self._stored(self._rows[row]) for row in past[:limit]]

    @locked
    def all_sets(self, scope: Scope) -> list[SetRef]:
        return [home.ref for home in self._sets.of(scope)]


def _size(row: NodeRow) -> int:
    """Return how many versions of nodes hang below an object."""
    below = [version for versions in row.versions.values() for version in versions]
    return len(below) + sum(map(_size, below))
