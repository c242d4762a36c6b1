"""What is to be run, and how far it is: the part of the store that runners use."""

from __future__ import annotations

from collections.abc import Sequence

from fornix.store import (
    Accepted,
    Call,
    Input,
    Lease,
    Output,
    Retain,
    Run,
    RunStatus,
    Scope,
    StepDone,
)
from fornix.stores.sqlite import inputs as intake
from fornix.stores.sqlite import leases, outputs, runs
from fornix.stores.sqlite.connection import translated
from fornix.stores.sqlite.queue import CommitQueue
from fornix.stores.sqlite.reads import SqliteReads


class SqliteLanes(SqliteReads):
    """`Lanes` and leases; what they write shares transactions with commits."""

    _queue: CommitQueue

    # --- leases -------------------------------------------------------------------------------

    def lease(self, scope: Scope, owner: str) -> Lease | None:
        """See `Ledger.lease`."""
        self._check()
        return self._queue.do(
            lambda tx: leases.take(tx.connection, tx.known.runs, tx.owners, scope, owner)
        )

    def release(self, lease: Lease) -> None:
        """See `Ledger.release`."""
        self._check()
        self._queue.do(lambda tx: leases.give_back(tx.connection, tx.known.runs, lease))

    # --- runs ---------------------------------------------------------------------------------

    def accept(
        self, agent: str, inputs: Sequence[Input], *, owner: str | None = None
    ) -> list[Accepted]:
        """See `Lanes.accept`."""
        self._check()
        if not inputs:
            return []
        return self._queue.do(lambda tx: intake.accept(tx, agent, inputs, owner))

    @translated
    def run(self, run: int) -> Run | None:
        """See `Lanes.run`."""
        with self._reader() as db:
            return runs.run(db, run)

    @translated
    def runs(
        self,
        space: str,
        *,
        agent: str | None = None,
        key: str | None = None,
        status: RunStatus | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """See `Lanes.runs`."""
        with self._reader() as db:
            return runs.runs(
                db, space, agent=agent, key=key, status=status, before=before, limit=limit
            )

    @translated
    def queue(self, agent: str, scope: Scope, *, limit: int = 100) -> list[Run]:
        """See `Lanes.queue`."""
        with self._reader() as db:
            return runs.queue(db, agent, scope, limit)

    @translated
    def lanes(self, agent: str, space: str, *, past_parked: bool, limit: int = 1000) -> list[Scope]:
        """See `Lanes.lanes`."""
        with self._reader() as db:
            return runs.lanes(db, agent, space, past_parked=past_parked, limit=limit)

    @translated
    def steps(self, run: int) -> list[StepDone]:
        """See `Lanes.steps`."""
        with self._reader() as db:
            return runs.steps(db, run)

    @translated
    def calls(self, run: int, ordinal: int) -> list[Call]:
        """See `Lanes.calls`."""
        with self._reader() as db:
            return runs.calls(db, run, ordinal)

    def retry(self, run: int, *, last: bool, time: int) -> int:
        """See `Lanes.retry`."""
        self._check()
        return self._queue.do(lambda tx: intake.retry(tx, run, last=last, time=time))

    # --- outputs ------------------------------------------------------------------------------

    @translated
    def outputs(self, agent: str, space: str, *, after: int = 0, limit: int = 100) -> list[Output]:
        """See `Lanes.outputs`."""
        with self._reader() as db:
            return runs.outputs(db, agent, space, after, limit)

    @translated
    def outputs_of(self, run: int) -> list[Output]:
        """See `Lanes.outputs_of`."""
        with self._reader() as db:
            return runs.outputs_of(db, run)

    @translated
    def consumer(self, agent: str, space: str, name: str) -> int:
        """See `Lanes.consumer`."""
        with self._reader() as db:
            found = outputs.position(db, agent, space, name)
        if found is not None:
            return found
        return self._queue.do(lambda tx: outputs.consumer(tx, agent, space, name))

    def advance(self, agent: str, space: str, name: str, position: int) -> None:
        """See `Lanes.advance`."""
        self._check()
        self._queue.do(lambda tx: outputs.advance(tx, agent, space, name, position))

    def drop_consumer(self, agent: str, space: str, name: str) -> bool:
        """See `Lanes.drop_consumer`."""
        self._check()
        return self._queue.do(lambda tx: outputs.drop_consumer(tx, agent, space, name))

    @translated
    def prune(self, agent: str, space: str, retain: Retain, *, now: int, limit: int = 1000) -> int:
        """See `Lanes.prune`."""
        with self._reader() as db:
            pruning = outputs.Pruning(db, agent, space, retain, now=now, limit=limit)
        return self._queue.do(pruning.run) if pruning.needed else 0
