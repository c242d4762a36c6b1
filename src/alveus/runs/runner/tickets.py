"""Tickets, outputs and runs: the results of a runner for its callers.

A caller gets a ticket for an input, consumers read the outputs of all runs, and `Runs` lists,
retries and discards the runs of an agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeAlias, cast, get_args

from alveus.errors import (
    AlveusError,
    Forgotten,
    InvalidInput,
    NotFound,
    RunDiscarded,
    RunParked,
    StaleRun,
)
from alveus.errors.root import raisable
from alveus.errors.short_repr import short_repr
from alveus.runs.run import LiveRun
from alveus.runs.task import RunnerSetup
from alveus.store import Batch, Run, RunStatus, StatusChange, Store, StoredOutput
from alveus.store.runs import ENDED, LARGEST
from alveus.values import wire
from alveus.values.events import Event, OutputEvent, restored
from alveus.values.forks import Flag, FreshLock, HandleLock, ProcessBound
from alveus.values.lazy import lazy_attribute
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name, checked_wait, choice, counted, moment

LOOK_S = 0.05
"""Seconds between two checks of a waiting caller."""


class Outputs(tuple[Any, ...]):  # noqa: SLOT001 - it has attributes
    """The output values of a run, in order.

    Attributes:
        run: The id of the run.
        number: The number of the run among the runs of its agent and key, from 0.
        repeated: Whether the input had been accepted before, with the same event id.
        events: The output events, in the same order as the values.
    """

    run: int
    number: int
    repeated: bool
    events: tuple[Event, ...]

    @classmethod
    def of(cls, events: Iterable[Event], *, run: int, number: int, repeated: bool) -> Outputs:
        """Return the outputs in *events*.

        The value of an `OutputEvent` is its output. The value of another event is the dict of its
        fields.
        """
        event_list = tuple(events)
        outputs = cls([e.output if isinstance(e, OutputEvent) else e.data for e in event_list])
        outputs.run, outputs.number, outputs.repeated = run, number, repeated
        outputs.events = event_list
        return outputs


@dataclass(frozen=True, slots=True)
class Output:
    """An output event that a consumer has read, with its run.

    Attributes:
        position: The position of the output among all outputs. Positions rise in the order of
            commits, and are equal in every read.
        run: The id of the run.
        number: The number of the run among the runs of its agent and key, from 0.
        time: The time of the commit.
    """

    position: int
    run: int
    number: int
    key: str
    event: Event
    time: datetime

    @property
    def value(self) -> Any:  # noqa: ANN401 - any storable value
        """The output of an `OutputEvent`, or the dict of fields of an event without ``output``."""
        return getattr(self.event, "output", self.event.data)


class OutputReader:
    """Reads outputs from the store, in any thread."""

    def __init__(self, setup: RunnerSetup, closing: Flag) -> None:
        self._setup, self._closing = setup, closing

    def of(self, run: int) -> list[Event]:
        """Return the outputs of one run, in order."""
        return [output.event for output in self._read(self._setup.engine.store.run_outputs(run))]

    def stream(self, consumer: str | None, after: int, wait_s: float | None) -> Iterator[Output]:
        """Yield outputs in the order of their commits; see `LocalRunner.outputs`."""
        checked_wait(wait_s)
        counted(after, "after", least=0, most=LARGEST)
        if consumer is not None:
            checked_name(consumer, "a consumer")
            if after:
                raise InvalidInput(
                    "pass either a consumer, which continues at its position, or after="
                )
        return self._stream(consumer, after, wait_s)

    def _stream(self, consumer: str | None, after: int, wait_s: float | None) -> Iterator[Output]:
        name, space, store = self._setup.plan.name, self._setup.space, self._setup.engine.store
        if consumer is not None:
            after = store.consumer_position(name, space, consumer)
        began = time.monotonic()
        while True:
            rows = store.outputs(name, space, after=after)
            for output in self._read(rows):
                yield output
                after, began = output.position, time.monotonic()
                if consumer is not None:
                    store.advance_consumer(name, space, consumer, after)
            over = wait_s is not None and time.monotonic() - began >= wait_s
            if not rows and (over or self._closing.wait(LOOK_S)):
                return

    def _read(self, rows: Iterable[StoredOutput]) -> Iterator[Output]:
        for row in rows:
            stored = wire.decode(row.event)
            event = restored(stored, key=row.key, types=self._types, event_id="", time=row.time)
            yield Output(row.position, row.run, row.number, row.key, event, moment(row.time))

    @lazy_attribute
    def _types(self) -> dict[str, type[Event]]:
        """The classes that an output event may have, by name."""
        below = {kind.type_name(): kind for kind in _below(OutputEvent)}
        return {**below, **self._setup.plan.types}


def _below(kind: type[Event]) -> Iterator[type[Event]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _below(inner)


class Waiter(Protocol):
    """Waits for the run of a ticket; a runner is one."""

    def wait(self, ticket: Ticket, wait_s: float | None) -> None:
        """Return when the ticket is done.

        Args:
            wait_s: The longest wait in seconds; None sets no limit.

        Raises:
            AlveusError: The ticket was not done in time, or its run cannot end.
        """
        ...

    def look(self, ticket: Ticket, wait_s: float | None, *, left_s: float) -> None:
        """Raise if the run of the ticket cannot end, or if no time is left to wait.

        Args:
            wait_s: The longest wait in seconds, for the message; None sets no limit.
            left_s: The seconds that are left of the wait.
        """
        ...


@dataclass(slots=True, eq=False)
class Ticket(ProcessBound):
    """The receipt of an accepted input: the input is durable, and will be run.

    Attributes:
        run: The id of the run; 0 if a run of the same event ended earlier and was pruned since.
        number: The number of the run among the runs of its agent and key, from 0.
        repeated: Whether the input had been accepted before, with the same event id.
    """

    run: int
    key: str
    number: int
    repeated: bool
    _waiter: Waiter
    _outputs: Outputs | None = None
    _error: BaseException | None = None
    _then: tuple[Callable[[], None], ...] = ()
    _lock: threading.Lock | None = None

    def __repr__(self) -> str:
        state = "done" if self.done else "waiting"
        return f"<ticket of run {self.run}, number {self.number} of key {self.key!r}: {state}>"

    @property
    def done(self) -> bool:
        """Whether `result` returns or raises at once: the outputs or the error are known."""
        return self._outputs is not None or self._error is not None

    def result(self, wait_s: float | None = None) -> Outputs:
        """Return the outputs of the run, once it is over.

        Args:
            wait_s: The longest wait in seconds; None sets no limit.

        Raises:
            RunParked: The run failed, or waits behind a run that failed.
            RunDiscarded: The run was discarded, or a later run took over its input.
            NotFound: The run was pruned.
            Forgotten: The records of the run were erased by a `forget`.
            RunPending: The run did not end in *wait_s*; it continues.
        """
        checked_wait(wait_s)
        if not self.done:
            self._waiter.wait(self, wait_s)
        return self._answer()

    async def aresult(self, wait_s: float | None = None) -> Outputs:
        """Return the outputs of the run, once it is over; see `result`."""
        checked_wait(wait_s)
        loop = asyncio.get_running_loop()
        answered = loop.create_future()

        def answer() -> None:
            if not answered.done():
                answered.set_result(None)

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(answer)

        self._then = (*self._then, wake)
        deadline = None if wait_s is None else time.monotonic() + wait_s
        try:
            while not self.done:
                remaining_s = LOOK_S if deadline is None else deadline - time.monotonic()
                # `asyncio.wait_for` of Python 3.11 forgets a cancel that comes with the answer.
                await asyncio.wait([answered], timeout=min(max(0.0, remaining_s), LOOK_S))
                if not self.done:
                    self._waiter.look(self, wait_s, left_s=remaining_s)
        finally:
            self._then = tuple(then for then in self._then if then is not wake)
        return self._answer()

    def _answer(self) -> Outputs:
        if self._error is not None:
            raise raisable(self._error)
        assert self._outputs is not None  # noqa: S101 - one of both is set
        return self._outputs

    # --- for the runner -----------------------------------------------------------------------

    def resolve(self, outputs: Outputs | None, error: BaseException | None = None) -> None:
        """Set the answer: the outputs of the run, or an error. Only the first answer counts.

        The caller holds the lock of the registry, or has the only reference to the ticket.
        """
        if not self.done:
            self._outputs, self._error = outputs, error
            if self._lock is not None:
                self._lock.release()
            for then in self._then:
                then()

    def wait(self, timeout: float) -> bool:
        """Wait up to *timeout* seconds for the answer; return whether it is known."""
        lock = self._lock
        if lock is None:  # most tickets are never waited for
            with _FIRST_WAIT:
                if self._lock is None:
                    taken = threading.Lock()
                    taken.acquire()
                    self._lock = taken
                lock = self._lock
        if not self.done and lock.acquire(timeout=max(0.0, timeout)):
            lock.release()
        return self.done


_FIRST_WAIT = FreshLock()
"""Held while a ticket gets the lock for its waiting callers."""


Answer: TypeAlias = tuple[Outputs | None, BaseException | None]


class TicketRegistry:
    """The tickets without an answer, by run. Any thread may call any method.

    Attributes:
        reader: Reads outputs of the agent.
        stir: A flag; set it to wake the watch.
        failure: The error that ended all work of the runner, or None.
        has_missed: Whether tickets of an ended run may have no answer because Ctrl-C came.
    """

    def __init__(self, setup: RunnerSetup, closing: Flag) -> None:
        self.reader = OutputReader(setup, closing)
        self.stir = Flag()
        self.failure: BaseException | None = None
        self.has_missed = False
        self._store = setup.engine.store
        self._lock = HandleLock()
        self._tickets: dict[int, list[Ticket]] = {}
        self._why: Callable[[Ticket], BaseException] | None = None

    def add(self, tickets: Iterable[Ticket]) -> None:
        """Add tickets, to be answered when their runs end.

        After `dismiss` or `fail`, they are answered with the error at once.
        """
        with self._lock:
            why = self._why
            if why is None:
                for ticket in tickets:  # in one step: Ctrl-C leaves no empty list
                    self._tickets[ticket.run] = [*self._tickets.get(ticket.run, ()), ticket]
        if why is not None:
            for ticket in tickets:
                ticket.resolve(None, why(ticket))

    def waiting(self) -> list[Ticket]:
        """Return one ticket of each run that has tickets without an answer."""
        with self._lock:
            return [tickets[0] for tickets in self._tickets.values()]

    def _answer(self, run: int, tickets: list[Ticket], answer: Callable[[Ticket], Answer]) -> None:
        """Answer these *tickets* of a run; tickets of the run that were added later stay.

        A ticket is dropped only after its answer: Ctrl-C may come in between, and the waiting
        caller must get an answer all the same.
        """
        with self._lock:
            chosen, later = set(tickets), list[Ticket]()
            for ticket in self._tickets.get(run, ()):
                if ticket in chosen:
                    ticket.resolve(*answer(ticket))
                else:
                    later.append(ticket)
            if later:
                self._tickets[run] = later
            else:
                self._tickets.pop(run, None)

    # --- the end of runs ---------------------------------------------------------------------

    def ended(self, run: LiveRun) -> None:
        """Answer the tickets of a run with its outputs, after its last task was committed."""
        number = run.row.id
        with self._lock:
            tickets = [*self._tickets.get(number, ())]
            if not run.resumed:
                for ticket in tickets:
                    ticket.resolve(*_outputs(run.outputs, ticket))
                self._tickets.pop(number, None)
                return
        if tickets:
            self._answer(number, tickets, partial(_outputs, self.reader.of(number)))

    def fail(self, error: BaseException) -> None:
        """Answer all tickets with *error*: the store is no longer usable."""
        self.failure = error
        self.dismiss(lambda _: error)

    def dismiss(self, why: Callable[[Ticket], BaseException]) -> None:
        """Answer all tickets with the error that *why* returns, also tickets added later."""
        with self._lock:
            self._why = why
            for run in [*self._tickets]:
                for ticket in self._tickets[run]:
                    ticket.resolve(None, why(ticket))
                del self._tickets[run]

    def look_up_all(self, tickets: Iterable[Ticket]) -> None:
        """Answer the tickets whose runs have ended according to the store."""
        for ticket in tickets:
            if not ticket.done:
                self.look_up(ticket.run)

    def look_up(self, run: int) -> None:
        """Answer the tickets of a run, unless the run still waits according to the store.

        A ticket that is added while the store is read gets no answer here, because a run that the
        read found parked may have been retried since.
        """
        with self._lock:
            before = [*self._tickets.get(run, ())]
        row = self._store.run(run)
        if row is not None and row.status == "waiting":
            return
        if before and row is not None and row.status == "done" and not row.forgotten:
            self._answer(run, before, partial(_outputs, self.reader.of(run)))
            return
        self._answer(run, before, lambda _: (None, self.why(run, row)))

    def why(self, run: int, row: Run | None, *, behind: int | None = None) -> AlveusError:
        """Return the error that explains why a run has no outputs.

        Args:
            row: The run as the store has it, or None if it was pruned.
            behind: The id of the run that waits behind *run*, if the caller asked for that one.
        """
        if row is None:
            return NotFound(f"run {run} was pruned with its outputs; to keep runs, set retain=")
        if row.forgotten:
            return Forgotten(f"run {run} has ended, and its input and outputs were forgotten")
        key = row.scope.key or ""
        if row.status != "parked":
            return RunDiscarded(run, key, status=row.status)
        error = cast("dict[str, Any]", wire.decode(row.error) if row.error else {})
        message = f"{error.get('type', 'an error')}: {error.get('message', '')}"
        return RunParked(run, key, action=error.get("action", ""), error=message, behind=behind)


def _outputs(events: list[Event], of: Ticket) -> Answer:
    return Outputs.of(events, run=of.run, number=of.number, repeated=of.repeated), None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run, as it was when it was read.

    Attributes:
        number: The number of the run among the runs of its agent and key, from 0.
        status: "waiting" (accepted, and not ended), "parked", "done", "discarded", or "retried":
            the run was parked, and a later run took over its input.
        input: The fields of the input event. An `InputEvent` has ``{"input": …}``.
        accepted: The time when the input was accepted.
        ended: The time when the run ended, or None.
        error: The error that parked the run, with the names ``action``, ``type``, ``message`` and
            ``traceback``, or None.
        forgotten: Whether a `forget` erased the records of the run; *input* is then empty.
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
    """The runs of one agent, from `LocalRunner.runs`. Any thread may call any method."""

    def __init__(self, setup: RunnerSetup) -> None:
        self._setup, self._store = setup, setup.engine.store

    def list(
        self, *, key: str | None = None, status: RunStatus | None = None, limit: int = 100
    ) -> list[RunRecord]:
        """Return up to *limit* runs that the store still has, the latest first.

        Args:
            key: Only runs of this key; None means all keys.
            status: Only runs with this status; None means all.
        """
        if status is not None:
            choice(status, "status", *get_args(RunStatus))
        if key is not None:
            checked_name(key, "a key")
        counted(limit, "limit", least=0, most=LARGEST)
        name, space = self._setup.plan.name, self._setup.space
        rows = self._store.runs(space, agent=name, key=key, status=status, limit=limit)
        return [_record(row) for row in rows]

    def get(self, run: int) -> RunRecord | None:
        """Return the run with this id, or None if the agent never had it or it was pruned."""
        row = self._row(run)
        return None if row is None else _record(row)

    def retry(self, run: int) -> int:
        """Retry a parked run. Return the id of the run that has the input from now on.

        The run continues with the action that failed. If later runs of the key began meanwhile, a
        new run behind them takes over the input instead.

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
        except StaleRun:  # the run has just ended, or was just parked
            self._discard(self._known(run))

    def _discard(self, row: Run) -> None:
        self._store.commit(given_up(row, self._setup.engine.clock()))

    def _row(self, run: int) -> Run | None:
        if type(run) is not int:
            raise InvalidInput(f"a run must be a whole number, its id, not {short_repr(run)}")
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
                f"agent {self._setup.plan.name!r} has no run {short_repr(run)}; it never "
                "existed, or was pruned"
            )
        return row


def overtaken(store: Store, row: Run) -> bool:
    """Return whether a later run of the same agent and key has begun or ended."""
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
