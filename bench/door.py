"""What it costs to begin: imports, small commands, and the first search of a process.

    python bench/door.py                     11 turns, about a minute
    python bench/door.py --turns 5 --items 1000

Each turn starts a process per line of the table and adds up its CPU time, the kernel's too, right
beside a `python -c "import numpy"`. A ratio is the line's time over that of the import beside it,
so that figures of a busy machine, and of different machines, can be compared. Given are the median
of the turns, and the lowest and highest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

BASELINE = [sys.executable, "-c", "import numpy"]
ALVEUS = [sys.executable, "-m", "alveus"]


def cpu_ms(command: Sequence[str]) -> float:
    """Return the CPU time of a process, in milliseconds.

    Raises:
        SystemExit: It failed.
    """
    here = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, env=here, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def filled(folder: str, items: int, embedder: str, *, searched: bool) -> Path:
    """Return a store of *items* short texts of one key, embedded; and *searched* by a program."""
    from alveus import Memory

    path = Path(folder) / ("searched.db" if searched else "app.db")
    with Memory.open(path, embedder=embedder, durability="normal") as memory:
        ada = memory.key("ada")
        for begin in range(0, items, 1000):
            texts = [f"Note {begin + n} on tents, seats and trains." for n in range(1000)]
            ada.add_many(texts)
        memory.settle()
        if searched:
            ada.search("tents")
    return path


def lines(store: Path, searched: Path, items: int) -> dict[str, list[str]]:
    """Return what is measured: a command per line of the table."""
    question = ("search", "--key", "ada", "a seat in the train")
    return {
        "python": [sys.executable, "-c", "pass"],
        "import alveus": [sys.executable, "-c", "import alveus"],
        "import alveus; alveus.Memory": [sys.executable, "-c", "import alveus; alveus.Memory"],
        "alveus --version": [*ALVEUS, "--version"],
        "alveus --help": [*ALVEUS, "--help"],
        f"alveus search, {items:,} items": [*ALVEUS, "--db", str(store), *question],
        "the same, after a program's": [*ALVEUS, "--db", str(searched), *question],
    }


def main() -> None:
    """Measure all in turn, and print a table for LOG.md."""
    parser = argparse.ArgumentParser(description="Measure what it costs to begin.")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--embedder", default="minilm")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, searched = (
            filled(folder, given.items, given.embedder, searched=first) for first in (False, True)
        )
        commands = lines(store, searched, given.items)
        times: dict[str, list[float]] = {name: [] for name in commands}
        ratios: dict[str, list[float]] = {name: [] for name in commands}
        baselines: list[float] = []
        for turn in range(given.turns + 1):
            for name, command in commands.items():
                beside, took = cpu_ms(BASELINE), cpu_ms(command)
                if turn:  # the first one compiles and fills the caches of the system
                    baselines.append(beside)
                    times[name].append(took)
                    ratios[name].append(took / beside)
            print(f"\rturn {turn} of {given.turns}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"import numpy: {statistics.median(baselines):.0f} ms\n")
    print("| process | CPU, ms | lowest-highest | over import numpy | lowest-highest |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, took in times.items():
        over = ratios[name]
        print(
            f"| {name} | {statistics.median(took):.0f} | {min(took):.0f}-{max(took):.0f} "
            f"| {statistics.median(over):.2f} | {min(over):.2f}-{max(over):.2f} |"
        )


if __name__ == "__main__":
    main()
