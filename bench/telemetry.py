"""What traces and metrics cost: the same calls of memories without, with the API, and with the SDK.

    python bench/telemetry.py                11 rounds, about half a minute
    python bench/telemetry.py --rounds 5

Needs opentelemetry-sdk. "API" is a program that has set no provider, so that every call of
OpenTelemetry is a no-op; "SDK" samples every span, and hands them in batches to an exporter that
drops them. The three take turns, and each round another one is first; a ratio is made of two turns
of the same round. Given are the median of the rounds, and the lowest and highest.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action
from alveus.telemetry import OpenTelemetry

CALLS = 200
"""Calls of a turn; its figure is their median."""


class Drop(SpanExporter):
    """Exports nothing."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Echo(Agent):
    """One short action per run."""

    @action(InputEvent)
    def echo(self, event, ctx):
        ctx.send_event(OutputEvent(event.input))


def with_sdk() -> OpenTelemetry:
    """Return telemetry that samples everything."""
    spans = TracerProvider()
    spans.add_span_processor(BatchSpanProcessor(Drop()))
    return OpenTelemetry(
        tracer_provider=spans, meter_provider=MeterProvider([InMemoryMetricReader()])
    )


KINDS: dict[str, Callable[[], OpenTelemetry | None]] = {
    "none": lambda: None,
    "API": OpenTelemetry,
    "SDK": with_sdk,
}


def operations(url: str, kind: str, stack: ExitStack) -> dict[str, Callable[[int], object]]:
    """Return what is measured on a store of one kind of telemetry."""
    memory = stack.enter_context(
        Memory.open(url, embedder="words", durability="normal", telemetry=KINDS[kind]())
    )
    runner = stack.enter_context(LocalRunner(Echo, memory))
    notes, others = memory.key("ada").set("notes"), memory.key("bob").set("notes")
    notes.add_many([f"Note {number} on tents, seats and trains." for number in range(100)])
    return {
        "add": lambda number: others.add(f"a note, number {number}"),
        "search, 100 items": lambda number: notes.search(f"seats {number % 50}"),
        "run of one action": lambda number: runner.handle("eve", number),
    }


def turn(operation: Callable[[int], object]) -> float:
    """Return the median of the calls of a turn, in microseconds."""
    took: list[float] = []
    for number in range(CALLS):
        began = time.perf_counter()
        operation(number)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e6


def main() -> None:
    """Measure all in turn, and print a table for LOG.md."""
    parser = argparse.ArgumentParser(description="Measure what traces and metrics cost.")
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    print("| call | store | none, us | API, us | over none | SDK, us | over none |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    kinds = list(KINDS)
    for store in ("RAM", "SQLite"):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            urls = {
                kind: ":memory:" if store == "RAM" else str(folder / f"{kind}.db") for kind in kinds
            }
            work = {kind: operations(urls[kind], kind, stack) for kind in kinds}
            for name in work["none"]:
                took: dict[str, list[float]] = {kind: [] for kind in kinds}
                for number in range(rounds):
                    for kind in kinds[number % 3 :] + kinds[: number % 3]:
                        took[kind].append(turn(work[kind][name]))
                print(f"| {name} | {store} | {statistics.median(took['none']):.0f} | {_row(took)}")


def _row(took: dict[str, list[float]]) -> str:
    cells: list[str] = []
    for kind in ("API", "SDK"):
        over = [one / other for one, other in zip(took[kind], took["none"], strict=True)]
        spread = f"{statistics.median(over):.2f} ({min(over):.2f}-{max(over):.2f})"
        cells.append(f"{statistics.median(took[kind]):.0f} | {spread}")
    return " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
