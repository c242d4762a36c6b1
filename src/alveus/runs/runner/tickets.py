"""What a caller gets for an input: a ticket for its run, and in the end the outputs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from alveus.errors import AlveusError, Forgotten, NotFound, RunDiscarded, RunParked
from alveus.errors.root import raisable
from alveus.runs.run import LiveRun, RunnerSetup
from alveus.runs.runner.consumers import OutputReader
from alveus.store import Run
from alveus.values import wire
from alveus.values.events import Event, OutputEvent
from alveus.values.forks import Flag, FreshLock, HandleLock, ProcessBound
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_wait

LOOK_S = 0.05
"""How often whoever waits looks whether it waits in vain."""


class Outputs(tuple[Any, ...]):  # noqa: SLOT001 - it carries where it comes from
    """The values that a run gave to the world, in order.

    Attributes:
        run: The id of the run.
        number: Its place among the runs of its agent and key, from 0.
        repeated: It had been accepted before, under the same event id.
        events: The events of the outputs, in the same order.
    """

    run: int
    number: int
    repeated: bool
    events: tuple[Event, ...]

    @classmethod
    def of(cls, events: Iterable[Event], *, run: int, number: int, repeated: bool) -> Outputs:
        """Return the outputs that *events* carry: of an `OutputEvent` its value."""
        event_list = tuple(events)
        outputs = cls([e.output if isinstance(e, OutputEvent) else e.data for e in event_list])
        outputs.run, outputs.number, outputs.repeated = run, number, repeated
        outputs.events = event_list
        return outputs


class Waiter(Protocol):
    """Knows how a run is waited for."""

    def wait(self, ticket: Ticket, wait_s: float | None) -> None:
        """Return when a ticket is done; raise when it is not in *wait_s*, or in vain."""
        ...

    def look(self, ticket: Ticket, wait_s: float | None, *, left_s: float) -> None:
        """Raise if a ticket waits in vain, or *left_s* of the time it was given is no more."""
        ...


@dataclass(slots=True, eq=False)
class Ticket(ProcessBound):
    """Stands for a run that was accepted: its input is durable, and will be run.

    Attributes:
        run: The id of the run; 0 if it was run before, and pruned since.
        number: Its place among the runs of its agent and key, from 0.
        repeated: It had been accepted before, under the same event id.
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
        """Whether there are outputs, or an error that says why there are none."""
        return self._outputs is not None or self._error is not None

    def result(self, wait_s: float | None = None) -> Outputs:
        """Return the outputs of the run, once it is over.

        Args:
            wait_s: Longest wait; None: as long as it takes.

        Raises:
            RunParked: It failed, or waits behind one that did.
            RunDiscarded: It was given up.
            NotFound: It was pruned.
            RunPending: It was not over in time; it goes on all the same.
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
        assert self._outputs is not None  # noqa: S101 - one of both is there
        return self._outputs

    # --- for the runner -----------------------------------------------------------------------

    def resolve(self, outputs: Outputs | None, error: BaseException | None = None) -> None:
        """Give the answer; the first one stands.

        Whoever gives it has the lock of the registry, or the ticket for himself.
        """
        if not self.done:
            self._outputs, self._error = outputs, error
            if self._lock is not None:
                self._lock.release()
            for then in self._then:
                then()

    def wait(self, timeout: float) -> bool:
        """Wait for the answer; return whether it is there."""
        lock = self._lock
        if lock is None:  # most tickets are never waited for
            with _FIRST_WAIT:
                lock = self._lock = self._lock or _taken_lock()
        if not self.done and lock.acquire(timeout=max(0.0, timeout)):
            lock.release()
        return self.done


_FIRST_WAIT = FreshLock()
"""Held while a ticket gets the lock by which it is waited for."""


def _taken_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


Answer: TypeAlias = tuple[Outputs | None, BaseException | None]


class TicketRegistry:
    """Tickets by run, answered as runs end. May be used from any thread.

    Attributes:
        stir: Set when something is to be looked after.
        failure: What ended all work, if something did.
        has_missed: A run may be over whose tickets were not answered: a Ctrl-C came.
    """

    def __init__(self, setup: RunnerSetup, reader: OutputReader) -> None:
        self.stir = Flag()
        self.failure: BaseException | None = None
        self.has_missed = False
        self._store, self._reader = setup.engine.store, reader
        self._lock = HandleLock()
        self._tickets: dict[int, Ticket] = {}
        self._others: dict[int, list[Ticket]] = {}  # of the same runs: hardly ever any
        self._why: Callable[[Ticket], BaseException] | None = None

    def add(self, tickets: Iterable[Ticket]) -> None:
        """Have tickets answered when their runs are over, or at once if none is any more."""
        with self._lock:
            why = self._why
            if why is None:
                for ticket in tickets:
                    if self._tickets.setdefault(ticket.run, ticket) is not ticket:
                        self._others.setdefault(ticket.run, []).append(ticket)
        if why is not None:
            for ticket in tickets:
                ticket.resolve(None, why(ticket))

    def waiting(self) -> list[Ticket]:
        """Return a ticket of each run that somebody waits for."""
        with self._lock:
            return list(self._tickets.values())

    def _of(self, run: int) -> list[Ticket]:
        """Return the tickets of a run that have no answer; the lock is held."""
        first = self._tickets.get(run)
        return [] if first is None else [first, *self._others.get(run, ())]

    def _drop(self, run: int) -> None:
        """Forget the tickets of a run, which have their answers; the lock is held."""
        self._others.pop(run, None)
        self._tickets.pop(run, None)

    def _answer(self, run: int, tickets: list[Ticket], answer: Callable[[Ticket], Answer]) -> None:
        """Answer those of *tickets* that nobody else answered; ones that came since stay.

        They are forgotten after that: Ctrl-C may come before, and who waits would wait for good.
        """
        with self._lock:
            chosen, later = set(tickets), list[Ticket]()
            for ticket in self._of(run):
                if ticket in chosen:
                    ticket.resolve(*answer(ticket))
                else:
                    later.append(ticket)
            if not later:
                self._drop(run)
                return
            self._tickets[run] = later[0]
            self._others[run] = later[1:]

    # --- what became of runs ------------------------------------------------------------------

    def ended(self, run: LiveRun) -> None:
        """Give the outputs of a run, whose last task is committed, to those who wait for them."""
        number = run.row.id
        if run.resumed:
            with self._lock:
                tickets = self._of(number)
            if tickets:
                self._answer(number, tickets, partial(_outputs, self._reader.of(number)))
            return
        with self._lock:
            for ticket in self._of(number):
                ticket.resolve(*_outputs(run.outputs, ticket))
            self._drop(number)

    def fail(self, error: BaseException) -> None:
        """Answer all tickets with *error*: the store cannot be used any more."""
        self.failure = error
        self.dismiss(lambda _: error)

    def dismiss(self, why: Callable[[Ticket], BaseException]) -> None:
        """Answer all tickets with an error, also those that are still to come."""
        with self._lock:
            self._why = why
            for run in [*self._tickets]:
                for ticket in self._of(run):
                    ticket.resolve(None, why(ticket))
                self._drop(run)

    def look_up_all(self, tickets: Iterable[Ticket]) -> None:
        """Give tickets that have no answer theirs, if the store has it."""
        for ticket in tickets:
            if not ticket.done:
                self.look_up(ticket.run)

    def look_up(self, run: int) -> None:
        """Give tickets of a run their answer, if the store has it.

        One that comes while the store is read is not answered by that: the run may have been
        parked then, and be told to try again since.
        """
        with self._lock:
            before = self._of(run)
        row = self._store.run(run)
        if row is not None and row.status == "waiting":
            return
        if before and row is not None and row.status == "done" and not row.forgotten:
            self._answer(run, before, partial(_outputs, self._reader.of(run)))
            return
        self._answer(run, before, lambda _: (None, self.why(run, row)))

    def why(self, run: int, row: Run | None, *, behind: int | None = None) -> AlveusError:
        """Return the error that says why a run has no outputs."""
        if row is None:
            return NotFound(f"run {run} was pruned, and its outputs with it; see retain=")
        if row.forgotten:
            return Forgotten(f"run {run} was over, and what it was given and did was forgotten")
        key = row.scope.key or ""
        if row.status != "parked":
            return RunDiscarded(run, key, status=row.status)
        error = cast("dict[str, Any]", wire.decode(row.error) if row.error else {})
        message = f"{error.get('type', 'an error')}: {error.get('message', '')}"
        return RunParked(run, key, action=error.get("action", ""), error=message, behind=behind)


def _outputs(events: list[Event], of: Ticket) -> Answer:
    return Outputs.of(events, run=of.run, number=of.number, repeated=of.repeated), None
