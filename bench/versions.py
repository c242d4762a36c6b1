"""Two versions of alveus beside each other: what one call of each kind costs the processor.

    python bench/versions.py OLD/src src               12 turns, a minute or two
    python bench/versions.py OLD/src src --turns 30

Each turn starts a process for each version, in alternating order, on one core's CPU time, so that
a busy machine changes the figures little; the least of all turns is what a call costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from time import process_time

ROUNDS = 5


def measure(folder: str) -> dict[str, float]:
    """Return the microseconds of CPU time that each kind of call takes, least of some rounds."""
    from alveus import Memory

    found: dict[str, float] = {}
    number = count()

    def timed(name, call, times):
        for _ in range(times // 5):
            call()
        least = float("inf")
        for _ in range(ROUNDS):
            begin = process_time()
            for _ in range(times):
                call()
            least = min(least, (process_time() - begin) / times)
        found[name] = least * 1e6

    def all_of(memory, kind, times):
        key = memory.key("ada")
        timed(f"add, {kind}", lambda: key.add(f"a note on tents, number {next(number)}"), times)
        timed(f"set a value, {kind}", lambda: key.short_term.set("a.b", next(number)), times)
        ids = [item.id for item in key.list(limit=50)]
        notes = key.set("default")
        timed(f"get an item, {kind}", lambda: notes.get(ids[next(number) % 50]), 5 * times)
        timed(f"get a value, {kind}", lambda: key.short_term.get("a.b"), 5 * times)
        timed(f"search, {kind}", lambda: key.search("tents, number 12", limit=3), times)
        with _runner(memory) as runner:
            timed(f"run, {kind}", lambda: runner.handle("u", 1), times // 2)

    for durability in ("full", "normal"):
        with tempfile.TemporaryDirectory(dir=folder) as at:
            path = Path(at) / "a.db"
            with Memory.open(path, embedder="words", durability=durability) as memory:
                all_of(memory, durability, 150)
    with Memory.open(embedder="words") as memory:
        all_of(memory, "RAM", 300)
    return found


def _runner(memory):
    from alveus import Agent, InputEvent, LocalRunner, OutputEvent, action

    class Shop(Agent):
        @action(InputEvent)
        def count(self, event, ctx):
            ctx.short_term_memory.increment("n")
            ctx.sensory_memory.set("x", 1)
            ctx.send_event(OutputEvent(ctx.short_term_memory.get("n")))

    return LocalRunner(Shop, memory)


def once(source: str, work: str) -> dict[str, float]:
    """Measure the version whose sources are there, in a process of its own."""
    here = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, __file__, "--measure", work]
    answer = subprocess.run(
        command, env=here | {"PYTHONPATH": source}, check=True, capture_output=True, text=True
    )
    return json.loads(answer.stdout)


def main() -> None:
    """Measure both in turn, and print a table for LOG.md."""
    parser = argparse.ArgumentParser(description="Compare two versions of alveus.")
    parser.add_argument("versions", nargs="*", help="two folders of sources: old, new")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--work", default=".", help="a folder on the disk to be measured")
    parser.add_argument("--measure", metavar="WORK", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    if len(given.versions) != 2:
        parser.error("name two folders of sources: old, new")
    found: list[list[dict[str, float]]] = [[], []]
    for turn in range(given.turns):
        for which in (0, 1) if turn % 2 else (1, 0):
            source = str(Path(given.versions[which]).resolve())
            found[which].append(once(source, given.work))
        print(f"\rturn {turn + 1} of {given.turns}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("| call | before, µs | after, µs | more | median of turns |\n|---|---|---|---|---|")
    for name in found[0][0]:
        old, new = ([turn[name] for turn in turns] for turns in found)
        medians = statistics.median(new) / statistics.median(old) - 1
        more = min(new) / min(old) - 1
        print(f"| {name} | {min(old):.1f} | {min(new):.1f} | {more:+.1%} | {medians:+.1%} |")


if __name__ == "__main__":
    main()
