"""Erases items, keys and records of runs with SQL, and stores the receipts of erasures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from alveus.errors import KeyBusy
from alveus.store import Batch, Revive, Scope, SetRef
from alveus.store.checks import ROW_BITS
from alveus.store.erasing import (
    ERASED_HOW,
    STATES,
    Erased,
    Erasure,
    StoredReceipt,
    has_read,
    hidden_scope,
    hindrances_of,
    mentions_erased,
    op_of_erasure,
    owner_of,
    stub_of,
    with_heirs,
)
from alveus.store.packed_values import restored
from alveus.store.sql.connection import Connection, Row, first, query
from alveus.store.sql.rows import adopted, rename, rows_of, scope_id, set_refs
from alveus.store.sql.transaction import STATUSES, Transaction, task_rows
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass

_READ_SET = """
    SELECT step.id >> 20, step.n, step.looked, scope.space, scope.key FROM step
    JOIN run ON run.id = step.id >> 20 JOIN lane ON lane.id = run.lane
    JOIN scope ON scope.id = lane.scope
"""

_HEIRS = "SELECT id, origin FROM run WHERE origin IS NOT NULL"

_PUTS = "SELECT EXISTS (SELECT 1 FROM node WHERE id BETWEEN ? AND ?)"

_OUTPUTS = "SELECT id FROM output WHERE agent = ? AND id BETWEEN ? AND ?"

_FORGET = """
    UPDATE run SET event = '', error = NULL, erased = ?2,
        status = CASE WHEN ended IS NULL THEN ?3 ELSE status END, ended = coalesce(ended, ?4)
    WHERE id = ?1
"""


MAX_SEARCHED_IDS = 32
"""Of up to this many erased ids, a read set must contain one as text to be decoded.

For more ids, every read set is decoded.
"""


@dataclass(slots=True)
class ErasedRuns:
    """The runs that an erasure concerns.

    Attributes:
        runs: Runs whose records are deleted now.
        open_runs: See `Erased.open`.
        tree_commits: See `Erased.puts`.
        unread, delivered: See `Erased`.
        outputs: The deleted outputs, as (agent, id).
    """

    runs: Sequence[int] = ()
    open_runs: Sequence[int] = ()
    tree_commits: Sequence[int] = ()
    unread: int = 0
    delivered: int = 0
    outputs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


def runs_of_items(db: Connection, versions: Iterable[VersionRow]) -> ErasedRuns:
    """Return the runs that wrote or read one of *versions*, and all runs with the same inputs."""
    begun: set[int] = set()
    ids: dict[int, set[str]] = {}
    for version in versions:
        begun.add(version.begin_commit)
        ids.setdefault(version.set_id, set()).add(version.id)
    refs = set_refs(db, sorted(ids))
    named = {refs[number]: some for number, some in ids.items()}
    every_id = set[str]().union(*ids.values())
    few = [wire.encode(i)[1:-1] for i in every_id] if len(every_id) <= MAX_SEARCHED_IDS else None
    found: set[int] = set()
    for run, commit, looked, space, key in db.execute(_READ_SET):
        if run in found:
            continue
        wanted = looked is not None and (few is None or any(form in looked for form in few))
        if commit in begun or (wanted and has_read(looked, named, Scope(space, key))):
            found.add(run)
    runs = sorted(with_heirs(found, query(db, _HEIRS)))
    sql = "SELECT id, ended FROM run WHERE id IN (SELECT value FROM carray(?)) AND erased IS NULL"
    ended = dict(query(db, sql, db.numbers(runs)))
    gone = _gone(db, [run for run in ended if ended[run] is not None])
    gone.open_runs = [run for run in ended if ended[run] is None]
    commits = [n for run in gone.runs for n, _ in _steps(db, run)]
    gone.tree_commits = [n for n in commits if first(db, _PUTS, *rows_of(n))]
    return gone


def _steps(db: Connection, run: int) -> list[tuple[int, int]]:
    """Return (commit, agent) of each step of a run."""
    sql = (
        "SELECT step.n, run.agent FROM step JOIN run ON run.id = ?1 WHERE step.id BETWEEN ?2 AND ?3"
    )
    return [(n, agent) for n, agent in query(db, sql, run, *task_rows(run))]


def _gone(db: Connection, runs: Sequence[int]) -> ErasedRuns:
    """Return *runs* with their outputs, and the numbers of read and of unread outputs."""
    read: dict[int, int | None] = {}
    gone = ErasedRuns(runs)
    for run in runs:
        for commit, agent in _steps(db, run):
            if agent not in read:
                sql = "SELECT min(position) FROM consumer WHERE agent = ?"
                read[agent] = first(db, sql, agent)
            upto = read[agent]
            for (output,) in query(db, _OUTPUTS, agent, *rows_of(commit)):
                gone.outputs.append((agent, output))
                gone.unread += upto is not None and output > upto
                gone.delivered += upto is not None and output <= upto
    return gone


def forget_runs(db: Connection, erased: ErasedRuns, *, number: int, time: int) -> Counter[str]:
    """Delete the records of runs, and end open runs. Return the number of deleted rows by kind."""
    counts = Counter({"outputs": len(erased.outputs), "runs": len(erased.runs)})
    db.write(("DELETE FROM output WHERE agent = ? AND id = ?", erased.outputs))
    for run in erased.runs:
        query(db, "DELETE FROM step WHERE id BETWEEN ? AND ?", *task_rows(run))
        counts["steps"] += db.changes()
        query(db, "DELETE FROM durable_call WHERE step BETWEEN ? AND ?", *task_rows(run))
        counts["calls"] += db.changes()
        query(db, _FORGET, run, number, STATUSES.index("discarded"), time)
    return counts


def forget_ended(db: Connection, runs: Sequence[int], *, number: int, time: int) -> list[int]:
    """Delete the records of the ended runs among *runs*. Return the runs that have not ended.

    Runs with the same inputs as *runs* count among them.
    """
    listed = db.numbers(sorted(with_heirs(runs, query(db, _HEIRS))))
    sql = "SELECT id, ended, erased FROM run WHERE id IN (SELECT value FROM carray(?)) ORDER BY id"
    there = query(db, sql, listed)
    ended = [run for run, over, erased in there if over is not None and erased is None]
    forget_runs(db, _gone(db, ended), number=number, time=time)
    return [run for run, over, _ in there if over is None]


_ALL = "SELECT id, owner, asked, erased, state, open, held, scrubbed FROM receipt"

_NEW_RECEIPT = """
    INSERT INTO receipt (id, n, owner, asked, erased, state, open, held)
    VALUES (?, ?, ?, ?, ?, 0, ?, '[]')
"""


def stored_receipts(db: Connection, where: str, *bindings: object) -> list[StoredReceipt]:
    """Return the receipts that meet the SQL condition *where*."""
    return [
        StoredReceipt(
            number,
            owner,
            asked,
            Erased.from_json(erased),
            STATES[int(state)],
            tuple(wire.decode_plain(waiting)),
            tuple(wire.decode_plain(held)),
            scrubbed,
        )
        for number, owner, asked, erased, state, waiting, held, scrubbed in query(
            db, f"{_ALL} WHERE {where}", *bindings
        )
    ]


def unfinished_receipts(db: Connection) -> list[StoredReceipt]:
    """Return the receipts of unfinished erasures, oldest first."""
    return stored_receipts(db, "scrubbed IS NULL ORDER BY n")


def update_receipt(db: Connection, receipt: StoredReceipt) -> None:
    """Store the fields of a receipt that change as its erasure proceeds."""
    query(
        db,
        "UPDATE receipt SET state = ?, open = ?, held = ?, scrubbed = ? WHERE id = ?",
        *(
            STATES.index(receipt.state),
            json.dumps([*receipt.open_runs]),
            json.dumps([*receipt.blocked_by]),
        ),
        *(receipt.scrubbed, receipt.id),
    )


def tidy_receipts(db: Connection, *, now: int) -> list[StoredReceipt]:
    """Delete the records of runs that were open at their erasure and have ended since.

    Return the unfinished receipts.
    """
    found = unfinished_receipts(db)
    for kept in found:
        if kept.open_runs:
            commit = kept.erased.commit or 0
            left = forget_ended(db, kept.open_runs, number=commit, time=now)
            if left != [*kept.open_runs]:  # the rows erased now remain in the file until a rewrite
                update_receipt(db, replace(kept, open_runs=tuple(left), state="erased"))
    if found:
        query(db, "DELETE FROM access WHERE first NOT IN (SELECT first FROM item)")
    return unfinished_receipts(db)


def finish_receipts(
    db: Connection, unfinished: Sequence[StoredReceipt], blockers: Sequence[str], *, now: int
) -> list[str]:
    """Mark the receipts as scrubbed, or store what hinders it. Return all hindrances.

    Args:
        blockers: The hindrances that concern every receipt.
    """
    hindrances = list(blockers)
    for receipt in unfinished:
        runs = hindrances_of(receipt.open_runs)
        hindrances.extend(runs)
        if blockers or runs:
            update_receipt(db, replace(receipt, blocked_by=(*blockers, *runs)))
        else:
            update_receipt(db, replace(receipt, state="scrubbed", blocked_by=(), scrubbed=now))
    return list(dict.fromkeys(hindrances))


_OF_SCOPE = """
    SELECT row FROM item WHERE set_id IN (SELECT id FROM memory_set WHERE scope = ?)
"""

_OF_ID = """
    SELECT row FROM item WHERE id IS ?3 AND set_id = (SELECT memory_set.id FROM memory_set
        JOIN scope ON scope.id = memory_set.scope WHERE space IS ?1 AND key IS ?2 AND name IS ?4)
"""

_DERIVED = """
    SELECT DISTINCT link.row FROM link JOIN item ON item.row = link.row
    WHERE source IN (SELECT value FROM carray(?))
"""

_ROWS = """
    SELECT row, set_id, id, first, begun, ended FROM item
    WHERE row IN (SELECT value FROM carray(?))
"""

_LAST = (
    "SELECT max(version) = (SELECT version FROM item WHERE row = ?3) FROM item "
    "WHERE set_id = ?1 AND id IS ?2"
)

_PURGED_OF = """
    SELECT set_id, added FROM compaction WHERE purged AND set_id = (SELECT memory_set.id
        FROM memory_set JOIN scope ON scope.id = memory_set.scope
        WHERE space IS ?1 AND key IS ?2 AND name IS ?3)
"""

_MADE = "SELECT row, first, sources FROM item WHERE set_id = ? AND sources IS NOT NULL"

_STUBS = """
    SELECT stub.row FROM stub JOIN memory_set ON memory_set.id = set_id
    JOIN scope ON scope.id = memory_set.scope
    WHERE space IS ?1 AND key IS ?2 AND name IS ?3 AND source = ?4
"""

_STUBS_OF_SCOPE = """
    SELECT DISTINCT row FROM stub WHERE set_id IN (SELECT id FROM memory_set WHERE scope = ?)
"""

_RUNS = """
    SELECT run.id FROM run JOIN lane ON lane.id = run.lane
    WHERE lane.scope = ? AND run.erased IS NULL ORDER BY run.id
"""

_PURGED = "SELECT added FROM compaction WHERE id BETWEEN ? AND ? AND purged"

_COMPACTIONS = """
    SELECT compaction.id, set_id, retired, added
    FROM (SELECT value AS n FROM carray(?)) AS commits CROSS JOIN compaction
        ON compaction.id BETWEEN n << 20 AND (n << 20) + 1048575
"""

_SHARED = """
    SELECT count(DISTINCT item.first) FROM journal CROSS JOIN item
        ON item.row BETWEEN n << 20 AND (n << 20) + 1048575
    WHERE journal.scope = ? AND set_id IN (SELECT memory_set.id FROM memory_set
        JOIN scope ON scope.id = memory_set.scope WHERE key = '')
"""

_FORGET_COMMITS = """
    UPDATE journal SET result = NULL, request = NULL, ended = NULL, erased = ?2
    WHERE scope = ?1 AND erased IS NULL
"""

_FORGET_RESULTS = """
    UPDATE journal SET result = NULL, request = NULL,
        erased = CASE WHEN op IS NULL THEN NULL ELSE ?2 END
    WHERE n IN (SELECT value FROM carray(?1)) AND erased IS NULL
        AND (result IS NOT NULL OR op IS NOT NULL)
"""

_ANSWERS = "SELECT n, scope, result FROM journal WHERE result IS NOT NULL AND erased IS NULL"

_WRITTEN = "SELECT row, id FROM item WHERE row BETWEEN ? AND ?"

_OWNERS = "SELECT memory_set.id, scope, key FROM memory_set JOIN scope ON scope.id = scope"


class VersionRow(NamedTuple):
    """The columns of a version that an erasure reads, to delete or restore it."""

    row: int
    set_id: int
    id: str
    first: int
    begin_commit: int
    end_commit: int | None


class Eraser:
    """One erasure: finds the rows, and deletes them."""

    def __init__(self, tx: Transaction, erasure: Erasure, salt: bytes) -> None:
        self._tx, self._db, self._erasure, self._salt = tx, tx.connection, erasure, salt
        self._number = (tx.cache.number or 0) + 1
        self._time = max(erasure.time, tx.cache.time)
        self._counts = Counter[str]()
        self._rows: dict[int, VersionRow] = {}
        self._compactions: list[Row] = []
        self._derived: list[int] = []
        self._restorable: list[VersionRow] = []
        self._lost = 0

    def run(self) -> Erased:
        """Erase, and return the result. If the receipt exists already, return the result in it.

        If anything is erased, a line of the journal and a receipt are written too.
        """
        earlier = next(iter(stored_receipts(self._db, "id = ?", self._erasure.receipt)), None)
        if earlier is not None:
            return earlier.erased
        named = self._erasure.named
        if named is not None:
            done = adopted(self._db, named.op, request=named.request, label=named.label)
            if done is not None:
                return Erased(None, done.time)
        return self._erase_key() if self._erasure.whole_key else self._erase_items()

    def _erase_key(self) -> Erased:
        scope, db = self._erasure.scope, self._db
        existing_scope = scope_id(db, scope)
        if existing_scope is None and not self._tx.runs.holder(scope)[1]:
            return Erased(None, self._time)
        self._check_not_running()
        number = existing_scope or self._tx.rows.scope_row_of(scope)
        asked_rows = [row for (row,) in query(db, _OF_SCOPE, number)]
        derived_from_purged = [row for (row,) in query(db, _STUBS_OF_SCOPE, number)]
        self._find(asked_rows, derived_from_purged)
        answers = self._commits_to_erase()
        runs = self._forget_runs(_gone(db, [run for (run,) in query(db, _RUNS, number)]))
        self._count("nodes", "DELETE FROM node WHERE scope = ?", number)
        self._delete_items()
        shared = first(db, _SHARED, number)
        self._count(
            "compactions",
            "DELETE FROM compaction WHERE set_id IN (SELECT id FROM memory_set WHERE scope = ?)",
            number,
        )
        self._count("sets", "DELETE FROM memory_set WHERE scope = ?", number)
        self._count("commits", _FORGET_COMMITS, number, self._number)
        self._count("commits", _FORGET_RESULTS, self._db.numbers(answers), self._number)
        restored = self._restore()
        sql = "UPDATE scope SET head = ?, floor = 0, since = 0 WHERE id = ?"
        query(db, sql, self._number, number)
        query(
            db,
            "UPDATE lease SET owner = NULL, epoch = epoch + 1 WHERE space IS ? AND key IS ?",
            scope.space,
            scope.key,
        )
        rename(db, scope, hidden_scope(scope, self._salt))
        return self._finish(number, restored, runs, shared=shared)

    def _erase_items(self) -> Erased:
        asked_rows: list[int] = []
        derived_from_purged: list[int] = []
        for ref, ids in self._erasure.items:
            asked_rows += self._rows_of_ids(ref, ids)
            derived_from_purged += self._derived_from_purged(ref, ids)
        if not asked_rows and not derived_from_purged:
            return Erased(None, self._time)
        self._check_not_running()
        self._find(asked_rows, derived_from_purged)
        runs_to_erase = runs_of_items(self._db, self._rows.values())
        answers = self._db.numbers(self._commits_to_erase())
        self._count("commits", _FORGET_RESULTS, answers, self._number)
        self._forget_runs(runs_to_erase)
        self._delete_items()
        restored = self._restore()
        number = self._tx.rows.scope_row_of(self._erasure.scope)
        return self._finish(number, restored, runs_to_erase)

    def _check_not_running(self) -> None:
        """Raise `KeyBusy` if a live owner has the lease: an action may hold data of the key."""
        scope = self._erasure.scope
        owner, _ = self._tx.runs.holder(scope)
        if owner is not None and self._tx.owners.is_alive(owner):
            raise KeyBusy(scope.owner, wait_s=0)

    def _rows_of_ids(self, ref: SetRef, ids: Sequence[str]) -> Iterable[int]:
        scope = ref.scope.space, ref.scope.key or ""
        for item_id in dict.fromkeys(ids):
            yield from (row for (row,) in query(self._db, _OF_ID, *scope, item_id, ref.name))

    def _derived_from_purged(self, ref: SetRef, ids: Sequence[str]) -> Iterable[int]:
        """Yield the rows derived from items that were purged, which deleted the links to them."""
        names = ref.scope.space, ref.scope.key or "", ref.name
        for item_id in dict.fromkeys(ids):
            found = query(self._db, _STUBS, *names, stub_of(item_id, self._salt))
            yield from (row for (row,) in found)
        purged = query(self._db, _PURGED_OF, *names)
        firsts = {row for _, added in purged for row in wire.decode_plain(added)}
        for number in {number for number, _ in purged}:
            for row, begun, sources in query(self._db, _MADE, number):
                if begun in firsts and not set(ids).isdisjoint(wire.decode_plain(sources)):
                    yield row

    def _find(self, asked_rows: Sequence[int], derived_from_purged: Sequence[int]) -> None:
        """Find all rows to delete, including those derived from others, and sources to restore."""
        erased_rows = {*asked_rows, *derived_from_purged}
        derived, unvisited = sorted(erased_rows.difference(asked_rows)), list(erased_rows)
        while unvisited:
            derived_rows = (
                row for (row,) in query(self._db, _DERIVED, self._db.numbers(unvisited))
            )
            unvisited = [row for row in derived_rows if row not in erased_rows]
            erased_rows.update(unvisited)
            derived.extend(unvisited)
        self._derived = derived
        self._rows = {version.row: version for version in self._versions(sorted(erased_rows))}
        commits = {v.begin_commit for v in self._rows.values()}
        commits.update(v.end_commit for v in self._rows.values() if v.end_commit is not None)
        self._compactions = query(self._db, _COMPACTIONS, self._db.numbers(sorted(commits)))
        sql = "SELECT DISTINCT source FROM link WHERE row IN (SELECT value FROM carray(?))"
        sources = {row for (row,) in query(self._db, sql, self._db.numbers(derived))}
        others = self._versions(sorted(sources.difference(self._rows)))
        self._restorable = [version for version in others if self._can_be_restored(version)]
        firsts = {self._rows[row].first for row in derived}
        self._lost = sum(map(self._came_from_purged, firsts))

    def _commits_to_erase(self) -> list[int]:
        """Return the commits that wrote the erased rows, or that returned an erased id."""
        ids_by_scope: dict[int | None, set[str]] = {}
        owners = {s: scope if key else None for s, scope, key in query(self._db, _OWNERS)}
        for version in self._rows.values():
            ids_by_scope.setdefault(owners[version.set_id], set()).add(version.id)
        commits = {version.begin_commit for version in self._rows.values()}
        everywhere = ids_by_scope.get(None, set())
        for commit, scope, result in self._db.execute(_ANSWERS):
            erased_ids = (
                everywhere | ids_by_scope.get(scope, set()) if scope in ids_by_scope else everywhere
            )
            if (
                erased_ids
                and commit not in commits
                and mentions_erased(wire.decode(restored(result)), erased_ids, ())
            ):
                written = query(self._db, _WRITTEN, *rows_of(commit))
                written_ids = {item_id for row, item_id in written if row not in self._rows}
                if mentions_erased(wire.decode(restored(result)), erased_ids, written_ids):
                    commits.add(commit)
        return sorted(commits)

    def _versions(self, rows: Sequence[int]) -> list[VersionRow]:
        """Return the versions among *rows* that still exist."""
        return [VersionRow(*row) for row in query(self._db, _ROWS, self._db.numbers(rows))]

    def _came_from_purged(self, row: int) -> bool:
        """Return whether a compaction added the row, and one of its sources is no longer kept."""
        found = query(self._db, _PURGED, *rows_of(row >> ROW_BITS))
        return any(row in wire.decode_plain(added) for (added,) in found)

    def _can_be_restored(self, version: VersionRow) -> bool:
        """Return whether a compaction retired the version, and its item has no later version."""
        if version.end_commit is None:
            return False
        rows = query(self._db, _COMPACTIONS, self._db.numbers([version.end_commit]))
        retired = any(version.row in wire.decode_plain(row[2]) for row in rows)
        return retired and bool(first(self._db, _LAST, version.set_id, version.id, version.row))

    def _restore(self) -> list[SetRef]:
        restored = sorted(self._restorable)
        refs = set_refs(self._db, sorted({v.set_id for v in restored}))
        if restored:
            changes = [Revive(refs[version.set_id], version.row) for version in restored]
            batch = Batch(scope=self._erasure.scope, time=self._time, items=changes)
            self._tx.changes_of(batch, number=self._number, time=self._time).run()
            self._tx.pending_rows.flush()
        self._update_compactions({version.row for version in restored})
        return list(dict.fromkeys(refs[v.set_id] for v in restored))

    def _update_compactions(self, restored_rows: set[int]) -> None:
        """Remove what compactions with erased rows say, and restored rows from their sources.

        A compaction can no longer be undone if results of it were erased, no result is left, and no
        remaining source can be restored.
        """
        for number, _, retired_json, added_json in self._compactions:
            retired, added = wire.decode_plain(retired_json), wire.decode_plain(added_json)
            if self._rows.keys().isdisjoint((*retired, *added)):
                continue
            left = [row for row in retired if row not in restored_rows]
            nothing = (
                not self._rows.keys().isdisjoint(added)
                and not self._versions(added)
                and not any(map(self._can_be_restored, self._versions(left)))
            )
            query(
                self._db,
                "UPDATE compaction SET how = ?, retired = ?, "
                "undone = CASE WHEN ? THEN coalesce(undone, ?) ELSE undone END WHERE id = ?",
                *(ERASED_HOW, json.dumps(left), nothing, self._number, number),
            )

    def _count(self, kind: str, sql: str, *bindings: object) -> None:
        query(self._db, sql, *bindings)
        self._counts[kind] += self._db.changes()

    def _forget_runs(self, runs: ErasedRuns) -> ErasedRuns:
        self._counts += forget_runs(self._db, runs, number=self._number, time=self._time)
        return runs

    def _delete_items(self) -> None:
        db, rows = self._db, sorted(self._rows)
        listed = self._db.numbers(rows)
        for table in ("staged", "stub"):
            query(db, f"DELETE FROM {table} WHERE row IN (SELECT value FROM carray(?))", listed)  # noqa: S608 - ours
        features = [(v.set_id, v.end_commit or 0, v.row) for v in self._rows.values()]
        db.write(("DELETE FROM feature WHERE set_id = ? AND ended = ? AND row = ?", features))
        self._count(
            "links",
            "DELETE FROM link WHERE row IN (SELECT value FROM carray(?1)) "
            "OR source IN (SELECT value FROM carray(?1))",
            listed,
        )
        firsts = sorted({version.first for version in self._rows.values()})
        query(
            db,
            "DELETE FROM access WHERE first IN (SELECT value FROM carray(?))",
            self._db.numbers(firsts),
        )
        self._counts["items"] += len({(v.set_id, v.id) for v in self._rows.values()})
        self._count(
            "versions", "DELETE FROM item WHERE row IN (SELECT value FROM carray(?))", listed
        )

    def _finish(
        self, scope: int, restored: list[SetRef], runs: ErasedRuns, *, shared: int = 0
    ) -> Erased:
        erasure = self._erasure
        erased = Erased(
            commit=self._number,
            time=self._time,
            counts={kind: count for kind, count in sorted(self._counts.items()) if count},
            derived=len({(self._rows[r].set_id, self._rows[r].id) for r in self._derived}),
            restored=len(self._restorable),
            lost=self._lost,
            unread=runs.unread,
            delivered=runs.delivered,
            shared=shared,
            sets=tuple(sorted({version.set_id for version in self._rows.values()})),
            puts=tuple(runs.tree_commits),
            open=tuple(runs.open_runs),
            unsure=tuple(erasure.uncertain_runs),
            marks=tuple(restored),
        )
        query(
            self._db,
            "INSERT INTO journal (n, time, scope, op, request) VALUES (?, ?, ?, ?, ?)",
            *(self._number, self._time, scope, op_of_erasure(erasure, self._salt)),
            None if erasure.named is None else erasure.named.request,
        )
        names = erasure.receipt, self._number, owner_of(erasure.scope), erasure.request
        open_runs = json.dumps([*erased.open])
        query(self._db, _NEW_RECEIPT, *names, erased.to_json(), open_runs)
        return erased


class DryRunDone(Exception):
    """Raised to roll back the transaction of a dry run; carries the result."""

    def __init__(self, erased: Erased) -> None:
        self.erased = erased
        super().__init__("a rehearsal is rolled back")
