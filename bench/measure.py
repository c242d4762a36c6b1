"""Timing that can be trusted: percentiles with their spread, CPU beside wall, and the disk's own
speed to compare with.

One operation is timed in rounds. A figure is the median of the rounds' medians, and its spread the
lowest and the highest of them: if the spread is wide, the machine was busy and the figure means
little. Durable operations are also given as a multiple of `sync_baseline`, which is what the same
folder takes to append 4 KB and make it safe; that ratio carries over to another disk.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

LOG = Path(__file__).with_name("LOG.md")
ROUNDS = 5
SYNC_BYTES = 4096
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Figure:
    """What one operation took, in milliseconds.

    `p50` is the median of the rounds' medians, `low` and `high` the smallest and largest of these;
    `p99` is over all samples; `cpu` is CPU time of the whole process per operation. `ratio` is
    `p50` over the disk's own sync, for durable operations.
    """

    p50: float
    p99: float
    low: float
    high: float
    cpu: float
    samples: int
    rounds: int
    ratio: float | None = None

    def per(self, items: int) -> Figure:
        """The same figure per item, where each operation handled *items*."""
        return replace(
            self,
            p50=self.p50 / items,
            p99=self.p99 / items,
            low=self.low / items,
            high=self.high / items,
            cpu=self.cpu / items,
        )

    def against(self, baseline: Figure) -> Figure:
        """The same figure with its ratio to *baseline*."""
        return replace(self, ratio=self.p50 / baseline.p50)


@dataclass(frozen=True)
class Result:
    """One line of a report: which system did what, on how much, and the figure.

    `figure` is None where the system cannot do it, and then `note` says why. `value` holds what is
    no time (bytes, items per second, recall) in `unit`.
    """

    system: str
    operation: str
    items: int
    layout: str = ""
    figure: Figure | None = None
    value: float | None = None
    unit: str = "ms"
    note: str = ""
    version: str = ""

    def line(self) -> str:
        """The result as one line of JSON."""
        return json.dumps(
            {key: value for key, value in asdict(self).items() if value not in (None, "")},
            sort_keys=True,
        )


def result(source: Mapping[str, Any]) -> Result:
    """The result that `Result.line` wrote as the object *source*."""
    values = dict(source)
    figure = values.pop("figure", None)
    return Result(**values, figure=Figure(**figure) if figure else None)


def timed(
    operation: Callable[[int], object],
    count: int,
    *,
    rounds: int = ROUNDS,
    first: int = 0,
    warm: int = 0,
) -> Figure:
    """Call `operation(first)`, `operation(first + 1)` … *count* times in *rounds* equal parts and
    time each call.

    The first *warm* calls are not counted. The argument never repeats, so each call can have an
    input of its own.
    """
    for number in range(first, first + warm):
        operation(number)
    return timed_in_turns([operation], count, rounds=rounds, first=first + warm)[0]


def timed_in_turns(
    operations: Sequence[Callable[[int], object]],
    count: int,
    *,
    rounds: int = ROUNDS,
    first: int = 0,
) -> list[Figure]:
    """Time each of *operations* as `timed` does, a round of each after the other.

    A machine or a disk that changes its pace meanwhile changes all of the figures alike.
    """
    parts: list[list[_Round]] = [[] for _ in operations]
    per_round = max(1, count // rounds)
    for done in range(min(rounds, count)):
        for operation, part in zip(operations, parts, strict=True):
            part.append(_round(operation, first + done * per_round, per_round))
    return [_figure(part) for part in parts]


class _Round(NamedTuple):
    samples: list[int]  # ns
    cpu: int  # ns, of all calls


def _round(operation: Callable[[int], object], first: int, count: int) -> _Round:
    samples: list[int] = []
    cpu = time.process_time_ns()
    for number in range(first, first + count):
        began = time.perf_counter_ns()
        operation(number)
        samples.append(time.perf_counter_ns() - began)
    return _Round(samples, time.process_time_ns() - cpu)


def _figure(rounds: Sequence[_Round]) -> Figure:
    medians = [statistics.median(each.samples) / 1e6 for each in rounds]
    everything = [sample for each in rounds for sample in each.samples]
    return Figure(
        p50=statistics.median(medians),
        p99=percentile(everything, 99) / 1e6,
        low=min(medians),
        high=max(medians),
        cpu=sum(each.cpu for each in rounds) / len(everything) / 1e6,
        samples=len(everything),
        rounds=len(medians),
    )


def collect_garbage() -> None:
    """Collect what the harness made, so that Python does not while a system is timed.

    Where much was imported and nothing collected yet, that takes 10 to 40 ms. What is collected
    after it is for what the system makes, and counts.
    """
    gc.collect()


def once(operation: Callable[[], object]) -> Figure:
    """The time of a single call: no spread."""
    return timed(lambda _: operation(), 1, rounds=1)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that *percent* of the samples do not exceed (nearest rank)."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def sync_baseline(folder: Path, *, count: int = 200) -> Figure:
    """What *folder* takes to append 4 KB to a file and `fdatasync` it; the file is removed."""
    path = folder / "sync-baseline"
    block = os.urandom(SYNC_BYTES)
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def append(_: int) -> None:
        os.write(handle, block)
        os.fdatasync(handle)

    try:
        return timed(append, count, warm=10)
    finally:
        os.close(handle)
        path.unlink()


def some_of(known: Mapping[str, object] | Sequence[str]) -> Callable[[str], list[str]]:
    """Return what reads an argument that names some of *known*, with commas."""

    def parse(text: str) -> list[str]:
        unknown = [part for part in text.split(",") if part not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of {', '.join(known)}")
        return text.split(",")

    return parse


def one_core(core: int) -> None:
    """Keep this process, and the threads and processes it starts, on *core*."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def resident_mb() -> float:
    """Memory this process holds in RAM."""
    return psutil.Process().memory_info().rss / MEGABYTE


def folder_mb(path: Path) -> float:
    """Disk blocks that *path* and all below it take."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_blocks * 512 for each in files) / MEGABYTE


@contextmanager
def progress(title: str, *, total: int) -> Iterator[Callable[..., None]]:
    """A bar on standard error with the time left.

    Call the yielded function with what was done and, if not one, how many steps it was.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(title, total=total)

        def step(doing: str, steps: int = 1) -> None:
            bars.update(task, advance=steps, description=f"{title}: {doing}"[:60])

        yield step


@dataclass(frozen=True)
class Machine:
    """Where the figures come from; nothing that names a host, a user or a path."""

    cpu: str
    cores: int
    ram_gb: float
    filesystem: str
    python: str
    kernel: str
    load: float

    def line(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.ram_gb:.0f} GB, {self.filesystem},"
            f" Python {self.python}, {self.kernel}, load {self.load:.1f} at the start"
        )


def machine(folder: Path) -> Machine:
    """This machine, with the file system that *folder* is on."""
    place = folder.stat().st_dev
    kinds = [
        part.fstype
        for part in psutil.disk_partitions(all=True)
        if _device(part.mountpoint) == place
    ]
    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        ram_gb=psutil.virtual_memory().total / 2**30,
        filesystem=kinds[-1] if kinds else "unknown file system",
        python=platform.python_version(),
        kernel=f"{platform.system()} {platform.release().split('-')[0]}",
        load=os.getloadavg()[0],
    )


def commit() -> str:
    """The short hash of the repository's commit, with `+` for uncommitted changes; `no commit` if
    there is none."""
    root = LOG.parent.parent
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        return "no commit"
    changed = subprocess.run(
        ["git", "--no-optional-locks", "status", "--porcelain", "src"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() + ("+" if changed.stdout.strip() else "")


@dataclass(frozen=True)
class Sheet:
    """A table of cells: its headings, those of columns of text, and the rows."""

    headings: Sequence[str]
    textual: Sequence[str]
    rows: Sequence[Sequence[str]]

    def show(self, title: str) -> None:
        """Print it."""
        table = Table(title=title)
        for heading in self.headings:
            table.add_column(heading, justify="left" if heading in self.textual else "right")
        for row in self.rows:
            table.add_row(*map(escape, row))
        Console(width=None if sys.stdout.isatty() else 170).print(table)

    def markdown(self) -> list[str]:
        """Its lines in Markdown."""
        align = ["---" if heading in self.textual else "---:" for heading in self.headings]
        return [f"| {' | '.join(row)} |" for row in [self.headings, align, *self.rows]]


@dataclass(frozen=True)
class Report:
    """A run's results under the headings of a log entry: as a sheet, if it has one of its own."""

    title: str
    command: str
    machine: Machine
    results: Sequence[Result] = ()
    notes: Sequence[str] = ()
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    sheet: Sheet | None = None

    def markdown(self) -> str:
        """The section that goes into the log."""
        head = [
            f"## {self.began:%Y-%m-%d %H:%M} UTC · {self.title}",
            "",
            f"- commit: {commit()}",
            f"- machine: {self.machine.line()}",
            f"- command: `{self.command}`",
            *(f"- {note}" for note in self.notes),
            "",
        ]
        return "\n".join([*head, *(self.sheet or _sheet(self.results)).markdown()]) + "\n"


def append_log(report: Report, *, log: Path = LOG) -> None:
    """Add *report* to the end of *log*; nothing that is there changes."""
    with log.open("a", encoding="utf-8") as file:
        file.write("\n" + report.markdown())


def write_lines(path: Path, results: Iterable[Result]) -> None:
    """Append *results* to *path*, one JSON object per line."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(each.line() + "\n" for each in results)


def show(results: Sequence[Result], *, title: str) -> None:
    """Print *results* as a table, one row per result, the systems of an operation next to each
    other."""
    _sheet(results).show(title)


HEADINGS = (
    "operation",
    "layout",
    "items",
    "system",
    "p50 / value",
    "spread",
    "p99",
    "CPU",
    "x sync",
    "note",
)
TEXTUAL = ("operation", "layout", "system", "note")


def _cells(each: Result) -> tuple[str, ...]:
    start = (each.operation, each.layout, f"{each.items:,}", each.system)
    figure = each.figure
    if figure is None:
        return (
            *start,
            "None" if each.value is None else f"{number(each.value)} {each.unit}",
            "",
            "",
            "",
            "",
            each.note,
        )
    spread = f"{number(figure.low)}-{number(figure.high)}" if figure.rounds > 1 else "one run"
    ratio = "" if figure.ratio is None else f"{figure.ratio:.1f}"
    return (
        *start,
        f"{number(figure.p50)} ms",
        spread,
        number(figure.p99),
        number(figure.cpu),
        ratio,
        each.note,
    )


def number(value: float) -> str:
    """*value* with three digits that mean something."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return (
        f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"
    )


def _sheet(results: Sequence[Result]) -> Sheet:
    return Sheet(HEADINGS, TEXTUAL, [_cells(each) for each in results])


def _device(mountpoint: str) -> int | None:
    try:
        return Path(mountpoint).stat().st_dev
    except OSError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
