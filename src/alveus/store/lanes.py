"""What is to be run, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from alveus.store.changes import NamedRequest
from alveus.store.progress import (
    Accepted,
    DurableCall,
    QueuedInput,
    Retain,
    Run,
    RunStatus,
    StepDone,
    StoredOutput,
)
from alveus.store.scope import Scope


class Lanes(Protocol):
    """What is to be run, and how far it is. A lane is the queue of one agent and key.

    An agent's name is that of its runner, in a space. Runs of a lane are numbered from 0 without
    gaps, in the order their inputs were accepted.
    """

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """Keep inputs, all of one space: durable when this returns; answer in their order.

        Moves no commit number.

        Args:
            owner: Also take the leases of their keys for it, where they are free.

        Raises:
            IdempotencyConflict: An event id was used for another request; none was kept.
            InvalidInput: They are of several spaces, or of knowledge.
        """
        ...

    def run(self, run: int) -> Run | None:
        """Return a run, or None if there is none (any more)."""
        ...

    def runs(  # noqa: PLR0913 - which of them, by name
        self,
        space: str,
        *,
        agent: str | None = None,
        key: str | None = None,
        status: RunStatus | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """Return runs, the latest first, with ids below *before* and above *after*."""
        ...

    def run_statuses(self, runs: Sequence[int]) -> dict[int, RunStatus]:
        """Return the statuses of runs by id; of one that is not there (any more), none."""
        ...

    def queued_runs(
        self, agent: str, scope: Scope, *, past_parked: bool = False, limit: int = 100
    ) -> list[Run]:
        """Return the runs of a lane that wait or are parked, in order.

        Args:
            past_parked: Only those that wait.
        """
        ...

    def waiting_lanes(
        self, agent: str, space: str, *, past_parked: bool, limit: int = 1000
    ) -> list[Scope]:
        """Return the scopes of an agent's lanes where a run waits, by its id.

        Args:
            past_parked: Also those where an earlier run is parked.
        """
        ...

    def steps(self, run: int) -> list[StepDone]:
        """Return the tasks of a run that are done, by ordinal."""
        ...

    def durable_calls(self, run: int, ordinal: int) -> list[DurableCall]:
        """Return the durable calls of a task, by position, as they stand; see `DurableCall`."""
        ...

    def retry_run(
        self, run: int, *, last: bool, time: int, named: NamedRequest | None = None
    ) -> int:
        """Let a parked run wait again, as it is; return its id.

        It moves no commit number, unless it is *named*: then the name, and the id for whoever
        repeats it, are a commit.

        Args:
            last: A new run takes its input over instead, at the end of the lane; its id is
                returned, and the parked one is "retried".

        Raises:
            NotFound: There is no such run.
            StaleRun: It is not parked.
        """
        ...

    def outputs(
        self, agent: str, space: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredOutput]:
        """Return outputs of an agent past a position, in order.

        Raises:
            OutputsPruned: Some past *after* were pruned.
        """
        ...

    def run_outputs(self, run: int) -> list[StoredOutput]:
        """Return the outputs of one run, in order."""
        ...

    def consumer_position(self, agent: str, space: str, name: str) -> int:
        """Return the position up to which a consumer has read; a new one is noted, at the floor.

        The floor is the last position that was pruned. From then on outputs past a consumer's
        position are kept.
        """
        ...

    def advance_consumer(self, agent: str, space: str, name: str, position: int) -> None:
        """Move a consumer up to *position*; durable. It never moves back.

        Raises:
            NotFound: There is no such consumer (any more).
        """
        ...

    def drop_consumer(self, agent: str, space: str, name: str) -> bool:
        """Forget a consumer; return whether there was one. Outputs no longer wait for it."""
        ...

    def prune_runs(
        self, agent: str, space: str, retain: Retain, *, now: int, limit: int = 1000
    ) -> int:
        """Remove up to *limit* ended runs that *retain* gives up, with what hangs on them.

        What they changed in memory stays. They go in the order they ended, up to the first whose
        outputs a consumer has yet to read; so do up to *limit* ids of events. Returns how many
        runs went; moves no commit number.
        """
        ...
