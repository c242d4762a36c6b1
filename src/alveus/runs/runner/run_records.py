"""`Runs`: list, retry and discard the runs of an agent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast, get_args

from alveus.errors import InvalidInput, NotFound, StaleRun
from alveus.errors.short_repr import short_repr
from alveus.runs.task import RunnerSetup
from alveus.store import Batch, Run, RunStatus, StatusChange, Store
from alveus.store.runs import ENDED, LARGEST
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name, choice, counted, moment


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run, as it is now.

    Attributes:
        number: Its number among the runs of its agent and key, from 0.
        status: "waiting" (accepted, and not ended), "parked", "done", "discarded", or "retried":
            it was parked, and a later run took its input over.
        input: The fields of its input event; of an `InputEvent`: ``{"input": …}``.
        error: The error that parked it: ``action``, ``type``, ``message``, ``traceback``; or None.
        forgotten: A `forget` erased its records; *input* is empty.
    """

    id: int
    number: int
    key: str
    status: RunStatus
    input: dict[str, Any]
    accepted: datetime
    ended: datetime | None
    error: dict[str, str] | None
    forgotten: bool = False


class Runs:
    """The runs of one agent, from `LocalRunner.runs`; for any thread."""

    def __init__(self, setup: RunnerSetup) -> None:
        self._setup, self._store = setup, setup.engine.store

    def list(
        self, *, key: str | None = None, status: RunStatus | None = None, limit: int = 100
    ) -> list[RunRecord]:
        """Return the kept runs, the latest first."""
        if status is not None:
            choice(status, "status", *get_args(RunStatus))
        if key is not None:
            checked_name(key, "a key")
        counted(limit, "limit", least=0, most=LARGEST)
        name, space = self._setup.plan.name, self._setup.space
        rows = self._store.runs(space, agent=name, key=key, status=status, limit=limit)
        return [_record(row) for row in rows]

    def get(self, run: int) -> RunRecord | None:
        """Return a run by its id; None: the agent has no such run, or no longer."""
        row = self._row(run)
        return None if row is None else _record(row)

    def retry(self, run: int) -> int:
        """Retry a parked run; return the id of the run that has its input now.

        It continues with the action that failed. If later runs of its key began meanwhile, a new
        run behind them takes its input over.

        Raises:
            NotFound: The agent has no such run.
            StaleRun: The run is not parked.
        """
        row = self._known(run)
        last = overtaken(self._store, row)
        return self._store.retry_run(run, last=last, time=self._setup.engine.clock())

    def discard(self, run: int) -> None:
        """End a parked, waiting or running run; the runs behind it continue.

        The commits of its finished actions stay; an action in progress commits nothing.

        Raises:
            NotFound: The agent has no such run.
            StaleRun: The run has ended.
        """
        try:
            self._discard(self._known(run))
        except StaleRun:  # it ended, or was just parked
            self._discard(self._known(run))

    def _discard(self, row: Run) -> None:
        self._store.commit(given_up(row, self._setup.engine.clock()))

    def _row(self, run: int) -> Run | None:
        if type(run) is not int:
            raise InvalidInput(f"a run is named by its id, a whole number, not {short_repr(run)}")
        row = self._store.run(run) if 0 < run <= LARGEST else None
        ours = row is not None and (row.agent, row.scope.space) == (
            self._setup.plan.name,
            self._setup.space,
        )
        return row if ours else None

    def _known(self, run: int) -> Run:
        row = self._row(run)
        if row is None:
            raise NotFound(
                f"agent {self._setup.plan.name!r} has no run {short_repr(run)} (any more)"
            )
        return row


def overtaken(store: Store, row: Run) -> bool:
    """Return whether a later run of its agent and key began while *row* was parked."""
    return any(other.now is not None or other.status in ENDED for other in _later_than(store, row))


def _later_than(store: Store, row: Run) -> Iterator[Run]:
    before: int | None = None
    where, key, after = row.scope.space, row.scope.key, row.id
    while rows := store.runs(where, agent=row.agent, key=key, before=before, after=after):
        yield from rows
        before = rows[-1].id


def given_up(row: Run, time: int) -> Batch:
    """Return the batch that discards a run.

    Raises:
        StaleRun: The run has ended.
    """
    if row.status in ENDED:
        what, key = f"run {row.id}", row.scope.key or ""
        raise StaleRun(key, expected="waiting or parked", found=row.status, what=what)
    return Batch(scope=row.scope, time=time, run=StatusChange(row.id, row.status, "discarded"))


def _record(row: Run) -> RunRecord:
    event = '["", null, null, {}]' if row.forgotten else row.event
    stored = cast("tuple[str, str | None, int | None, dict[str, Any]]", wire.decode(event))
    return RunRecord(
        id=row.id,
        number=row.number,
        key=row.scope.key or "",
        status=row.status,
        input=stored[3],
        accepted=moment(row.accepted),
        ended=None if row.ended is None else moment(row.ended),
        error=None if row.error is None else cast("dict[str, str]", wire.decode(row.error)),
        forgotten=row.forgotten,
    )
