"""What a process and a file take when much was added and little is there.

    python bench/growth.py                          80,000 and 400,000 adds, 5,000 items live
    python bench/growth.py --adds 100000 --log

One set with a capacity, under retention "purge", is added to in batches of 100, with a search after
each fifth; resident memory is that of a process of its own. Then everything is deleted, and the
file is given back.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Memory
from bench import measure
from bench.measure import Report, Result

BATCH = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    asked = _parser().parse_args(arguments)
    if asked.inside is not None:
        for result in _grown(asked.inside, int(asked.adds), asked.live, asked.embedder):
            sys.stdout.write(f"{result.line()}\n")
        return 0
    found: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        for adds in asked.adds.split(","):
            found += _in_a_process(Path(folder) / f"{adds}.db", adds, asked)
        where = measure.machine(Path(folder))
    measure.show(found, title=f"growth · {where.line()}")
    if asked.log:
        command = shlex.join(["python", "bench/growth.py", *words])
        measure.append_log(Report("growth", command, where, found))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--adds", default="80000,400000")
    parser.add_argument("--live", type=int, default=5_000)
    parser.add_argument("--embedder", default="static")
    parser.add_argument("--log", action="store_true", help="add the figures to bench/LOG.md")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    return parser


def _in_a_process(path: Path, adds: str, asked: argparse.Namespace) -> list[Result]:
    """Return the figures of a process that does nothing else."""
    options = ["--inside", str(path), "--live", str(asked.live), "--embedder", asked.embedder]
    command = [sys.executable, str(Path(__file__).resolve()), "--adds", adds, *options]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [measure.result(json.loads(line)) for line in told.splitlines()]


def _grown(path: Path, adds: int, live: int, embedder: str) -> list[Result]:
    found: list[Result] = []

    def note(what: str, value: float, note: str = "") -> None:
        found.append(Result("alveus", what, adds, value=value, unit="MB", note=note))

    with Memory.open(path, embedder=embedder, durability="normal") as memory:
        chosen = memory.key("bench").set("log", capacity=live, retention="purge")
        chosen.add("the first message")
        chosen.search("message")
        note("resident, fresh", measure.resident_mb())
        for start in range(0, adds, BATCH):
            numbers = range(start, start + BATCH)
            chosen.add_many([f"message {n} on city{n % 977} by train{n % 31}" for n in numbers])
            if not start % (5 * BATCH):
                chosen.search(f"city{start % 977}")
        note("resident, after all adds", measure.resident_mb(), f"{len(chosen):,} live")
        note("index, after all adds", memory.stats().cache_bytes / 1e6)
        note("file, after all adds", path.stat().st_size / 1e6)
        chosen.clear()
        given = memory.shrink()
        note("given back after deleting all", given / 1e6)
        note("file, shrunk", path.stat().st_size / 1e6)
    return found


if __name__ == "__main__":
    sys.exit(main())
