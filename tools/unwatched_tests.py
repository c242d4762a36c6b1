"""Find the everyday tests that coverage need not watch, and write them down in tests/unwatched.txt.

    python tools/unwatched_tests.py    run all of them, and again those that reach something

A test that takes a while and reaches nothing that no other test reaches is not watched. Which of
several that reach the same are watched is tried from the quickest on. It takes half an hour.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LIST = ROOT / "tests" / "unwatched.txt"
NOTES = ROOT / "build" / "growth"

LONG_S = 0.02
"""Seconds of CPU that all parameters of a test take together, watched, from which it is listed."""

VERY_LONG_S = 0.15
"""The same, from which it is listed though it reaches a `FEW` steps that no other test reaches."""

FEW = 6


class Growth(NamedTuple):
    """What a test was the first to reach, and its seconds of CPU."""

    steps: int
    cpu_s: float
    nodeid: str


def name_of(nodeid: str) -> str:
    """Return how a list names the test of *nodeid*, whatever its parameters."""
    return nodeid.partition("[")[0].removeprefix("tests/")


def unwatched(every: Sequence[Growth], watched: Iterable[Growth]) -> list[str]:
    """Return the tests of *every* that take long, but for those that reach something, watched."""
    cpu_s: dict[str, float] = defaultdict(float)
    for one in every:
        cpu_s[name_of(one.nodeid)] += one.cpu_s
    steps = Counter[str]()
    for one in watched:
        steps[name_of(one.nodeid)] += one.steps
    return sorted(
        name
        for name, took in cpu_s.items()
        if took >= LONG_S and steps[name] <= (FEW if took >= VERY_LONG_S else 0)
    )


def growth(*arguments: str) -> list[Growth]:
    """Run tests, and return what each was the first to reach."""
    shutil.rmtree(NOTES, ignore_errors=True)
    NOTES.mkdir(parents=True)
    command = ["-m", "coverage", "run", "-m", "pytest", "-q", *arguments]
    environment = os.environ | {"ALVEUS_TEST_GROWTH": str(NOTES), "ALVEUS_TEST_SCALE": "quick"}
    status = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=False)
    if status.returncode != 0:
        raise SystemExit(status.returncode)
    lines = [line for each in NOTES.iterdir() for line in each.read_text("utf-8").splitlines()]
    fields = [line.split("\t", 2) for line in lines]
    return [Growth(int(steps), float(cpu_s), nodeid) for steps, cpu_s, nodeid in fields]


def main() -> None:
    """Write the list."""
    every = growth("-n", "2", "--dist", "worksteal")
    order = NOTES.with_name("order.txt")
    reached = sorted((one for one in every if one.steps), key=lambda one: one.cpu_s)
    order.write_text("".join(f"{one.nodeid}\n" for one in reached), encoding="utf-8")
    again = growth(f"@{order}")
    found = unwatched(every, again)
    LIST.write_text("".join(f"{name}\n" for name in found), encoding="utf-8")
    print(f"{len(found)} tests in {LIST.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
