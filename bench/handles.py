"""What a second memory on a file takes, in the process that has one open already.

python bench/handles.py                         100,000 items
python bench/handles.py --items 10000 --log
"""

from __future__ import annotations

import argparse
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TypeVar

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Memory
from bench import measure
from bench.measure import Report, Result

T = TypeVar("T")

OPENINGS = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--log", action="store_true", help="add the figures to bench/LOG.md")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "app.db"
        _fill(path, asked.items)
        found = _measured(path, asked.items)
        where = measure.machine(Path(folder))
    measure.show(found, title=f"handles · {where.line()}")
    if asked.log:
        command = shlex.join(["python", "bench/handles.py", *words])
        measure.append_log(Report("handles", command, where, found))
    return 0


def _fill(path: Path, items: int) -> None:
    chance = random.Random(1)
    words = [f"w{n}" for n in range(5_000)]
    with Memory.open(path, embedder="static", durability="normal") as memory:
        chosen = memory.key("bench").set("notes")
        for begin in range(0, items, 1_000):
            some = range(begin, min(items, begin + 1_000))
            chosen.add_many([" ".join(chance.choices(words, k=12)) for _ in some])
        chosen.search("w1 w2")  # makes the index file, which a first search then maps


def _measured(path: Path, items: int) -> list[Result]:
    found: list[Result] = []

    def opened() -> Memory:
        return Memory.open(path, embedder="static", durability="normal")

    def search(memory: Memory) -> None:
        memory.key("bench").set("notes").search("w1 w2 w3")

    memories: list[Memory] = []
    for nth in ("first", "second"):
        before = measure.resident_mb()
        memory, opening_ms = _timed(opened)
        memories.append(memory)
        _, search_ms = _timed(lambda memory=memory: search(memory))
        taken = measure.resident_mb() - before
        for what, value, unit in (
            ("opening", opening_ms, "ms"),
            ("its first search", search_ms, "ms"),
            ("resident, more", taken, "MB"),
        ):
            found.append(Result("alveus", f"{nth} memory: {what}", items, value=value, unit=unit))
    openings: list[float] = []
    for _ in range(OPENINGS):
        memory, opening_ms = _timed(opened)
        openings.append(opening_ms)
        memory.close()
    each = Result("alveus", "a later memory: opening", items, value=median(openings), unit="ms")
    for memory in memories:
        memory.close()
    return [*found, each]


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    made = work()
    return made, (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    sys.exit(main())
