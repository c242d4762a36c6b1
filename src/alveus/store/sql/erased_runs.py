"""Erasing what runs left: events, errors, steps, durable calls and outputs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from alveus.store import Scope, SetRef
from alveus.store.erasures import STATES, Erased, StoredReceipt, has_read
from alveus.store.sql import row_values
from alveus.store.sql.connection import Connection, first, query
from alveus.store.sql.row_values import rows_of
from alveus.store.sql.runs import STATUSES, task_rows
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
"""Ids up to which a text is looked through for each before it is decoded."""


class Erasable(Protocol):
    """What is looked at of a version that goes."""

    @property
    def set_id(self) -> int:
        """The number of its set."""
        ...

    @property
    def id(self) -> str:
        """The id of its item."""
        ...

    @property
    def begin_commit(self) -> int:
        """The commit that began it."""
        ...


@dataclass(slots=True)
class ErasedRuns:
    """Runs whose records go, and what is told of them.

    Attributes:
        open_runs: Runs whose records are to go once they have ended.
        tree_commits: Commits of theirs that left values in an exact tree that stays.
    """

    runs: Sequence[int] = ()
    open_runs: Sequence[int] = ()
    tree_commits: Sequence[int] = ()
    unread: int = 0
    delivered: int = 0
    outputs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


def runs_of_scope(db: Connection, scope: int) -> ErasedRuns:
    """Return all runs of a key; those that were erased before are not among them."""
    sql = (
        "SELECT run.id FROM run JOIN lane ON lane.id = run.lane "
        "WHERE lane.scope = ? AND run.erased IS NULL ORDER BY run.id"
    )
    return _gone(db, [number for (number,) in query(db, sql, scope)])


def runs_of_items(db: Connection, versions: Iterable[Erasable]) -> ErasedRuns:
    """Return the runs that wrote or read one of *versions*."""
    begun: set[int] = set()
    ids: dict[int, set[str]] = {}
    for version in versions:
        begun.add(version.begin_commit)
        ids.setdefault(version.set_id, set()).add(version.id)
    refs = row_values.set_refs(db, sorted(ids))
    named = {refs[number]: some for number, some in ids.items()}
    found: set[int] = set()
    few = _few_forms(named)
    for run, commit, looked, space, key in db.execute(_READ_SET):
        if run in found:
            continue
        wanted = looked is not None and (few is None or any(form in looked for form in few))
        if commit in begun or (wanted and has_read(looked, named, Scope(space, key))):
            found.add(run)
    runs = sorted(_with_heirs(db, found))
    sql = "SELECT id, ended FROM run WHERE id IN (SELECT value FROM carray(?)) AND erased IS NULL"
    ended = dict(query(db, sql, db.numbers(runs)))
    gone = _gone(db, [run for run in ended if ended[run] is not None])
    gone.open_runs = [run for run in ended if ended[run] is None]
    commits = [n for run in gone.runs for n, _ in _steps(db, run)]
    gone.tree_commits = [n for n in commits if first(db, _PUTS, *rows_of(n))]
    return gone


def _few_forms(named: Mapping[SetRef, Collection[str]]) -> list[str] | None:
    """Return ids as they stand in wire form, so that most texts need no reading; None: too many."""
    ids = {item_id for some in named.values() for item_id in some}
    return [wire.encode(item_id)[1:-1] for item_id in ids] if len(ids) <= MAX_SEARCHED_IDS else None


def _with_heirs(db: Connection, runs: Collection[int]) -> set[int]:
    """Return *runs*, and those that had the same input before or after them."""
    found = set(runs)
    if not found:
        return found
    pairs, count = query(db, _HEIRS), 0
    while len(found) != count:
        count = len(found)
        for pair in pairs:
            if not found.isdisjoint(pair):
                found.update(pair)
    return found


def _steps(db: Connection, run: int) -> list[tuple[int, int]]:
    """Return (commit, agent) of the steps of a run."""
    sql = (
        "SELECT step.n, run.agent FROM step JOIN run ON run.id = ?1 WHERE step.id BETWEEN ?2 AND ?3"
    )
    return [(n, agent) for n, agent in query(db, sql, run, *task_rows(run))]


def _gone(db: Connection, runs: Sequence[int]) -> ErasedRuns:
    """Return what goes with *runs*."""
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


def forget(db: Connection, erased: ErasedRuns, *, number: int, time: int) -> dict[str, int]:
    """Erase the records of runs, end those that have not ended; return how much went, by kind."""
    counts = {"outputs": len(erased.outputs), "runs": len(erased.runs), "steps": 0, "calls": 0}
    db.write(("DELETE FROM output WHERE agent = ? AND id = ?", erased.outputs))
    for run in erased.runs:
        query(db, "DELETE FROM step WHERE id BETWEEN ? AND ?", *task_rows(run))
        counts["steps"] += db.changes()
        query(db, "DELETE FROM durable_call WHERE step BETWEEN ? AND ?", *task_rows(run))
        counts["calls"] += db.changes()
        query(db, _FORGET, run, number, STATUSES.index("discarded"), time)
    return counts


def forget_ended(db: Connection, runs: Sequence[int], *, number: int, time: int) -> list[int]:
    """Erase the records of those of *runs* that have ended; return those that have not."""
    listed = db.numbers(sorted(_with_heirs(db, runs)))
    sql = "SELECT id, ended, erased FROM run WHERE id IN (SELECT value FROM carray(?)) ORDER BY id"
    there = query(db, sql, listed)
    ended = [run for run, over, erased in there if over is not None and erased is None]
    forget(db, _gone(db, ended), number=number, time=time)
    return [run for run, over, _ in there if over is None]


_ALL = "SELECT id, owner, asked, erased, state, open, held, scrubbed FROM receipt"


def insert_receipt(db: Connection, receipt: str, owner: str, request: str, erased: Erased) -> None:
    """Keep a new receipt."""
    query(
        db,
        "INSERT INTO receipt (id, n, owner, asked, erased, state, open, held) "
        "VALUES (?, ?, ?, ?, ?, 0, ?, '[]')",
        *(receipt, erased.commit, owner, request, erased.to_json(), json.dumps([*erased.open])),
    )


def receipts(db: Connection, where: str, *bindings: object) -> list[StoredReceipt]:
    """Return the receipts that a condition chooses."""
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
    """Return the receipts of what is still in files, or in records of runs, the first first."""
    return receipts(db, "scrubbed IS NULL ORDER BY n")


def update_receipt(db: Connection, receipt: StoredReceipt) -> None:
    """Note how far a receipt is."""
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
