"""The lanes of a runner in this process: which runs of a key are next, and who works on them."""

from __future__ import annotations

import os
import time
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from threading import Event
from typing import Literal, Protocol, TypeAlias

from fornix.runs.agent import OnFailed
from fornix.runs.run import Finished, LiveRun
from fornix.sets.writer import Engine
from fornix.state.committed_tree import LeasedTree
from fornix.store import Ledger, Run, Store
from fornix.store.scope import Lease, Scope
from fornix.values.forks import HandleLock


def owner_name(engine: Engine) -> str:
    """Return a name to hold leases under, which no other runner that is open has."""
    try:
        return engine.owners.pop()
    except IndexError:
        return f"{os.getpid()}-{uuid.uuid4().hex}"


class LaneState(Enum):
    """What a lane does. It is changed under the lock of the floor only."""

    IDLE = "nothing to do, or nothing known"
    READY = "waits for a worker"
    TAKEN = "a worker is at it"
    AWAY = "an async action is under way"
    LATER = "waits for its next try"
    BLOCKED = "somebody else has its lease"
    PARKED = "its next run is parked"


Kind: TypeAlias = Literal["step", "parked", "over"]


@dataclass(slots=True)
class PendingCommit:
    """What a worker did for a lane, and has to commit.

    Attributes:
        kind: A task is done; a run is parked; a run without tasks is over.
    """

    lane: LiveLane
    kind: Kind
    finished: Finished
    error: BaseException | None = None


TURN_S = (1.0, 8.0)
"""How long a key is kept at least and at most while its queue is never empty. Then its lease is
given back with a commit: others, who look every `watch.POLL_S`, may be waiting for the key."""

REST_S = 0.12
"""How long whoever gave way leaves the key alone: twice the longest pause of those who wait."""

PAGE = 100
"""Waiting runs that are read at once."""


@dataclass(slots=True, eq=False)
class LiveLane:
    """The queue of one key.

    Attributes:
        lease: The right to run the key, while this process has it.
        returned: The epoch of the last lease that was given back, or is with a commit under way.
        worker: The thread that took it last.
        news: Counts the inputs that were accepted here.
        idle_since: When it last had nothing to do; by the monotonic clock.
        waiting: The next runs, as far as they are known, in order.
        known: Up to this number, every run that waits is in `waiting`; None: that is not known.
        complete: No run is known to wait but those in `waiting`.
        pending: What was done and is still to be committed.
        conflicts: How often the task was begun again since an item it read had moved on.
        hindered: How often the store could not serve it in a row.
        stuck: The parked run that the others wait behind.
        failure: What an async action raised, until it is decided what becomes of it.
        tree: What is known of the key's tree under the lease.
        gave_way: The epoch of the last lease that was given back though there was more to do.
    """

    scope: Scope
    state: LaneState = LaneState.IDLE
    lease: Lease | None = None
    returned: int = 0
    worker: int = 0
    news: int = 0
    idle_since: float = 0.0
    waiting: deque[Run] = field(default_factory=deque[Run])
    known: int | None = None
    complete: bool = True
    run: LiveRun | None = None
    pending: PendingCommit | None = None
    conflicts: int = 0
    hindered: int = 0
    stuck: Run | None = None
    failure: BaseException | None = None
    tree: LeasedTree | None = None
    gave_way: int = 0
    _turn: tuple[int, float, float] = (0, 0.0, 0.0)

    def add(self, row: Run, *, first: bool) -> bool:
        """Note a run that was just accepted; *first*: no earlier one waits or is parked.

        Returns False if somebody has taken notice of it before, and may be done with it by now.
        The lock of the floor is held.
        """
        self.news += 1
        if self.known is not None and row.number <= self.known:
            return False
        if self.stuck is not None:
            return True  # read again with the others, once the parked one is out of the way
        if first or (self.known is not None and row.number == self.known + 1):
            self.waiting.append(row)
            self.known = row.number
        else:
            self.complete = False
        return True

    def lend(self, lease: Lease | None) -> None:
        """Note a lease, unless it is one that was given back."""
        if lease is not None and lease.epoch > self.returned:
            self.lease = lease

    def gives_way(self, epoch: int) -> bool:
        """Return whether the lease of this epoch was had so long that it is given back.

        If nobody came the last time, the next turn is twice as long.
        """
        now, (shortest, longest) = time.monotonic(), TURN_S
        known, began, length = self._turn
        if epoch != known:
            nobody_came = epoch == self.gave_way + 1
            length = max(shortest, min(2 * length, longest)) if nobody_came else shortest
            self._turn = epoch, now, length
            return False
        if now - began < length:
            return False
        self.gave_way = epoch
        return True

    @property
    def rests(self) -> bool:
        """Whether the key is left to others for a moment."""
        return self.state is LaneState.LATER and self.gave_way == self.returned != 0

    def held(self, ledger: Ledger, epoch: int) -> LeasedTree:
        """Return the tree of the key, with what is known of it under this lease."""
        if self.tree is None or self.tree.epoch != epoch:
            self.tree = LeasedTree(ledger, self.scope, epoch)
        return self.tree

    def lose(self) -> None:
        """Forget everything that depended on the lease."""
        self.lease, self.run, self.pending, self.failure = None, None, None, None
        self.refresh()

    def refresh(self) -> None:
        """Have the runs that wait read again; the lock of the floor is held."""
        self.known, self.complete, self.stuck, self.tree = None, False, None, None
        self.waiting.clear()

    def load(self, store: Store, agent: str, on_failed: OnFailed, lock: HandleLock) -> None:
        """Read which runs wait; `stuck` is the parked one that is in their way, if one is."""
        news, limit = self.news, PAGE
        rows = store.queue(agent, self.scope, limit=limit)
        while len(rows) == limit and all(row.status == "parked" for row in rows):
            if on_failed == "wait":
                break
            limit *= 4
            rows = store.queue(agent, self.scope, limit=limit)
        with lock:
            if self.news != news:
                self.known = None  # what was accepted meanwhile may be among the rows, or not
            self._take_in(rows, on_failed)
            all_read = len(rows) < limit and self.news == news
            self.complete = all_read or self.stuck is not None

    def _take_in(self, rows: Sequence[Run], on_failed: OnFailed) -> None:
        self.stuck = None
        self.waiting.clear()
        for row in rows:
            if row.status == "waiting":
                self.waiting.append(row)
            elif on_failed == "wait":
                self.stuck = row
                break
        if rows:
            self.known = rows[-1].number


class Listener(Protocol):
    """Who is told what became of runs.

    Attributes:
        stir: Set when something is to be looked after.
    """

    stir: Event

    def ended(self, run: LiveRun) -> None:
        """A run is over: its last task is committed."""
        ...

    def parked(self, row: Run, error: BaseException) -> None:
        """A run is parked."""
        ...

    def stuck(self, lane: LiveLane) -> None:
        """A lane waits behind a parked run, or behind somebody else's lease."""
        ...

    def failed(self, error: BaseException) -> None:
        """The store cannot be used any more; nothing will end."""
        ...
