"""Systems that take turns at an operation, and the table that compares them.

A turn is short, each round another system has the first one, and a ratio is made of two turns of
the same round: so a busy machine widens the spread, and hurts all alike.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, TypeVar

from bench.measure import Sheet, number, percentile

T = TypeVar("T")

PEER = "langgraph-postgres"
"""Whom all are compared with."""


@dataclass
class Measured:
    """What one system took for one operation, a figure per round.

    Attributes:
        rounds: Milliseconds (the median of a round), or how many per second.
        more_is_better: The figures are rates.
        samples: Milliseconds of every call.
        client_cpu: Milliseconds per call of the process that asks; None: not known.
        server_cpu: The same of all processes of the server.
    """

    operation: str
    items: int
    system: str
    unit: str = "ms"
    rounds: list[float] = field(default_factory=list)
    samples: list[float] = field(default_factory=list)
    client_cpu: float | None = None
    server_cpu: float | None = None
    note: str = ""

    @property
    def more_is_better(self) -> bool:
        return self.unit != "ms"

    def times(self, other: Measured | None) -> str:
        """How many times better than *other*, with the lowest and highest round; above 1 is
        better."""
        if other is None or other is self or not self.rounds or not other.rounds:
            return ""
        mine, its = (self, other) if self.more_is_better else (other, self)
        if not all(its.rounds):
            return ""
        ratios = [a / b for a, b in zip(mine.rounds, its.rounds, strict=False)]
        middle = statistics.median(mine.rounds) / statistics.median(its.rounds)
        spread = f" ({number(min(ratios))}-{number(max(ratios))})" if len(ratios) > 1 else ""
        return number(middle) + spread

    def cells(self, other: Measured | None) -> tuple[str, ...]:
        """The row of a table, compared with *other*."""
        middle = f"{number(statistics.median(self.rounds))} {self.unit}" if self.rounds else "-"
        several = len(self.rounds) > 1
        return (
            self.operation,
            f"{self.items:,}",
            self.system,
            middle,
            f"{number(min(self.rounds))}-{number(max(self.rounds))}" if several else "",
            *(number(percentile(self.samples, at)) if self.samples else "" for at in (95, 99)),
            *(
                "" if cpu is None else number(round(cpu, 3))
                for cpu in (self.client_cpu, self.server_cpu)
            ),
            self.times(other),
            self.note,
        )


HEADINGS = (
    *("operation", "items", "system", "p50 / rate", "spread", "p95", "p99"),
    *("CPU client", "CPU server", f"x {PEER}", "note"),
)


def sheet(results: Sequence[Measured]) -> Sheet:
    """All results, one per row, each beside the same of the peer."""
    theirs = {(r.operation, r.items): r for r in results if r.system == PEER}
    rows = [each.cells(theirs.get((each.operation, each.items))) for each in results]
    return Sheet(HEADINGS, ("operation", "system", "note"), rows)


class Operation(NamedTuple):
    """What is timed: a call with a number that never repeats.

    Attributes:
        name: In the table.
        call: What is timed.
        before: What is done before each call, and not timed.
        per_call: How many items a call handles: the figure is a rate, then.
        most: How many calls one round may have; None: as many as fit.
    """

    name: str
    call: Callable[[Any, int], object]
    before: Callable[[Any, int], object] | None = None
    per_call: int = 0
    most: int | None = None


class Turns(NamedTuple):
    """Has systems do operations in turns.

    Attributes:
        rounds: How many turns each system has.
        turn_s: How long a turn lasts.
        server_cpu_s: The CPU time of a server that some of them use.
    """

    rounds: int
    turn_s: float
    server_cpu_s: Callable[[], float]

    def measure(
        self, operation: Operation, items: int, systems: Mapping[str, Any]
    ) -> list[Measured]:
        """Give each system a turn per round, another one first in each; one that fails says so."""
        unit = "/s" if operation.per_call else "ms"
        found = {name: Measured(operation.name, items, name, unit) for name in systems}
        numbers = {name: count() for name in systems}
        for turn in range(self.rounds):
            for name in rotated(list(systems), turn):
                if found[name].note:
                    continue
                try:
                    self._turn(operation, systems[name], numbers[name], found[name])
                except Exception as error:  # noqa: BLE001 - the edge of the benchmark: a peer's failure is a finding, and is reported as one
                    found[name].note = f"failed: {type(error).__name__}: {error}"[:200]
        return list(found.values())

    def _turn(
        self, operation: Operation, system: Any, numbers: Iterator[int], found: Measured
    ) -> None:
        """One turn of one system: the calls that fit into its time, at least one."""
        samples: list[float] = []
        server, cpu = self.server_cpu_s(), time.process_time()
        end = time.perf_counter() + self.turn_s
        while not samples or (
            time.perf_counter() < end and len(samples) < (operation.most or sys.maxsize)
        ):
            at = next(numbers)
            if operation.before:
                operation.before(system, at)
            began = time.perf_counter()
            operation.call(system, at)
            samples.append((time.perf_counter() - began) * 1e3)
        calls, before = len(samples), len(found.samples)
        if not operation.before:
            client = (time.process_time() - cpu) * 1e3 / calls
            other = (self.server_cpu_s() - server) * 1e3 / calls
            found.client_cpu = mean(found.client_cpu, before, client, calls)
            found.server_cpu = mean(found.server_cpu, before, other, calls)
        found.samples.extend(samples)
        rate = operation.per_call * calls * 1e3 / sum(samples)
        found.rounds.append(rate if operation.per_call else statistics.median(samples))


def rotated(values: list[T], by: int) -> list[T]:
    """*values*, another one first for each *by*."""
    by %= max(1, len(values))
    return values[by:] + values[:by]


def mean(known: float | None, known_calls: int, found: float, calls: int) -> float:
    """The mean of all calls, of which *known_calls* had the mean *known*."""
    return ((known or 0.0) * known_calls + found * calls) / (known_calls + calls)
