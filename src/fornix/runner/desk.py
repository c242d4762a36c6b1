"""Who waits for which run: tickets, and the answers that runs give them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, cast

from fornix import wire
from fornix.errors import Forgotten, FornixError, NotFound, RunDiscarded, RunParked
from fornix.events import Event
from fornix.run import LiveRun, Shop
from fornix.runner.lanes import LiveLane
from fornix.runner.outlet import Outlet
from fornix.runner.tickets import Outputs, Ticket
from fornix.store import Run


class Desk:
    """Tickets by run; a `Listener` of the work. May be used from any thread.

    Attributes:
        stir: Set when something is to be looked after.
        failure: What ended all work, if something did.
    """

    def __init__(self, shop: Shop, outlet: Outlet) -> None:
        self.stir = threading.Event()
        self.failure: BaseException | None = None
        self._store, self._outlet = shop.engine.store, outlet
        self._lock = threading.Lock()
        self._tickets: dict[int, list[Ticket]] = {}
        self._why: Callable[[Ticket], BaseException] | None = None

    def add(self, tickets: Iterable[Ticket]) -> None:
        """Have tickets answered when their runs are over, or at once if none is any more."""
        with self._lock:
            why = self._why
            if why is None:
                for ticket in tickets:
                    others = self._tickets.get(ticket.run)
                    self._tickets[ticket.run] = [ticket] if others is None else [*others, ticket]
        if why is not None:
            for ticket in tickets:
                ticket.resolve(None, why(ticket))

    def waiting(self) -> list[Ticket]:
        """Return a ticket of each run that somebody waits for."""
        with self._lock:
            return [tickets[0] for tickets in self._tickets.values()]

    def _take(self, run: int) -> list[Ticket]:
        with self._lock:
            return self._tickets.pop(run, [])

    # --- what became of runs ------------------------------------------------------------------

    def ended(self, run: LiveRun) -> None:
        """Give the outputs of a run that is over to those who wait; see `Listener`."""
        tickets = self._take(run.row.id)
        if tickets:
            _give(tickets, self._outlet.of(run.row.id) if run.resumed else run.outputs)

    def parked(self, row: Run, error: BaseException) -> None:
        """Tell those who wait that a run is parked; see `Listener`."""
        del error  # what the store keeps of it is told
        self.look_up(row.id)

    def stuck(self, lane: LiveLane) -> None:
        """Have somebody look after a lane; see `Listener`."""
        del lane
        self.stir.set()

    def failed(self, error: BaseException) -> None:
        """Tell everybody that nothing will end any more; see `Listener`."""
        self.failure = error
        self.dismiss(lambda _: error)

    def dismiss(self, why: Callable[[Ticket], BaseException]) -> None:
        """Answer all tickets with an error, also those that are still to come."""
        with self._lock:
            self._why = why
            left = [ticket for tickets in self._tickets.values() for ticket in tickets]
            self._tickets.clear()
        for ticket in left:
            ticket.resolve(None, why(ticket))

    def look_up_all(self, tickets: Iterable[Ticket]) -> None:
        """Give tickets that have no answer theirs, if the store has it."""
        for ticket in tickets:
            if not ticket.done:
                self.look_up(ticket.run)

    def look_up(self, run: int) -> None:
        """Give tickets of a run their answer, if the store has it."""
        row = self._store.run(run)
        if row is not None and row.status == "waiting":
            return
        tickets = self._take(run)
        if tickets and row is not None and row.status == "done" and not row.forgotten:
            _give(tickets, self._outlet.of(run))
            return
        for ticket in tickets:
            ticket.resolve(None, self.why(run, row))

    def why(self, run: int, row: Run | None, *, behind: int | None = None) -> FornixError:
        """Return the error that says why a run has no outputs."""
        if row is None:
            return NotFound(f"run {run} was pruned, and its outputs with it; see retain=")
        if row.forgotten:
            return Forgotten(f"run {run} was over, and what it was given and did was forgotten")
        key = row.scope.key or ""
        if row.status != "parked":
            return RunDiscarded(run, key, status=row.status)
        error = cast("dict[str, Any]", wire.decode(row.error) if row.error else {})
        shown = f"{error.get('type', 'an error')}: {error.get('message', '')}"
        return RunParked(run, key, action=error.get("action", ""), error=shown, behind=behind)


def _give(tickets: Iterable[Ticket], events: list[Event]) -> None:
    for ticket in tickets:
        ticket.resolve(
            Outputs.of(events, run=ticket.run, number=ticket.number, repeated=ticket.repeated)
        )
