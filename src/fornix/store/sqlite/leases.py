"""Leases: who may run a key, and the epoch that fences whoever had it before."""

from __future__ import annotations

from dataclasses import dataclass, field

import apsw

from fornix.store import Lease
from fornix.store.progress import CallStatus, RunStatus
from fornix.store.scope import Scope
from fornix.store.sqlite.lock_files import Owners
from fornix.store.sqlite.row_values import found_again

MOST = 20_000
"""Runs and lanes that are remembered."""

STATUSES: tuple[RunStatus, ...] = ("waiting", "parked", "done", "discarded", "retried")
"""By the number that stands for each in the file."""

CALL_STATUSES: tuple[CallStatus, ...] = ("pending", "returned", "raised")


@dataclass(slots=True)
class KnownLane:
    """A lane: the number of its next run, and how many have not ended."""

    id: int
    next: int
    open: int


@dataclass(slots=True)
class KnownRun:
    """A run that has not ended.

    Attributes:
        felt: Whether a step of it may hold sensory memory.
        next: Past the ordinals of its steps.
    """

    agent: int
    scope: Scope
    status: RunStatus
    begun: bool
    felt: bool
    next: int


@dataclass
class KnownLanes:
    """Part of what a writer knows: dropped with all of it."""

    last: int = -1
    agents: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    lanes: dict[tuple[int, Scope], KnownLane] = field(
        default_factory=dict[tuple[int, Scope], KnownLane]
    )
    runs: dict[int, KnownRun] = field(default_factory=dict[int, KnownRun])
    leases: dict[Scope, tuple[str | None, int]] = field(
        default_factory=dict[Scope, "tuple[str | None, int]"]
    )

    def trim(self) -> None:
        """Start anew where it has grown."""
        for each in (self.lanes, self.runs, self.leases):
            if len(each) > MOST:
                each.clear()

    def next_run(self, db: apsw.Connection) -> int:
        """Return the id of a new run; none is used twice, pruned or not."""
        if self.last < 0:
            self.last = db.execute(
                "SELECT max(ifnull((SELECT max(id) FROM run), 0), "
                "ifnull((SELECT max(pruned) FROM agent), 0))"
            ).get
        self.last += 1
        return self.last

    def agent(self, db: apsw.Connection, space: str, name: str) -> int:
        """Return the row of an agent, which is made if there is none."""
        found = self.agents.get((space, name))
        if found is None:
            db.execute(
                "INSERT INTO agent (space, name) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (space, name),
            )
            sql = "SELECT id FROM agent WHERE space = ? AND name = ?"
            found = self.agents[space, name] = db.execute(sql, (space, name)).get
        return found


def holder(db: apsw.Connection, known: KnownLanes, scope: Scope) -> tuple[str | None, int]:
    """Return who has the lease of *scope*, or had it last as None, and its epoch."""
    found = known.leases.get(scope)
    if found is None:
        found = db.execute(
            "SELECT owner, epoch FROM lease WHERE space = ? AND key = ?",
            (scope.space, scope.key or ""),
        ).get or (None, 0)
        known.leases[scope] = found
    return found


def take(
    db: apsw.Connection, known: KnownLanes, owners: Owners, scope: Scope, owner: str
) -> Lease | None:
    """Give *owner* the lease, or None while somebody alive has it."""
    held, epoch = holder(db, known, scope)
    if not epoch and found_again(db, scope) is not None:
        del known.leases[scope]
        held, epoch = holder(db, known, scope)
    if held is not None and held != owner and owners.is_alive(held):
        return None
    owners.enlist(owner)
    if held == owner:
        return Lease(scope, owner, epoch)
    db.execute(
        "INSERT INTO lease (space, key, owner, epoch) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch",
        (scope.space, scope.key or "", owner, epoch + 1),
    )
    known.leases[scope] = (owner, epoch + 1)
    return Lease(scope, owner, epoch + 1)


def drop(db: apsw.Connection, known: KnownLanes, scope: Scope, epoch: int) -> None:
    """Make nobody have the lease that holds."""
    db.execute(
        "UPDATE lease SET owner = NULL WHERE space = ? AND key = ?", (scope.space, scope.key or "")
    )
    known.leases[scope] = (None, epoch)
