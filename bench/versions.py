"""Versions of alveus beside each other: how long one call of each kind takes.

    python bench/versions.py OLD/src src                    3 starts of 12 turns, some minutes
    python bench/versions.py OLD/src src --only add,run     rows whose name begins so

Each start begins a process per version. In a turn all processes measure the same row, one after
the other, in changing order, so that a busy machine slows all of them alike. A row counts the CPU
time of the process, or elapsed time if it says "wall". Printed are the median of all turns, and the
median and the middle half of the ratios to the first version within a turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from operator import truediv
from pathlib import Path
from threading import Thread
from time import perf_counter, process_time

THREADS, BULK = 16, 1000


class Row:
    """A kind of call: *call* does *calls* of them, and is timed *times* in a turn."""

    def __init__(self, call: Callable[[], object], times: int, clock=process_time, calls=1) -> None:
        self.call, self.times, self.clock, self.calls = call, times, clock, calls

    def measure(self) -> float:
        """Return the microseconds of a call."""
        begin = self.clock()
        for _ in range(self.times):
            self.call()
        return (self.clock() - begin) / self.times / self.calls * 1e6


def rows(folder: str, stack: ExitStack) -> Iterator[tuple[str, Row]]:
    """Give the rows, by name; what they need is opened in the folder."""
    from alveus import Memory

    begin = "import alveus; alveus.Memory"
    yield (
        begin,
        Row(lambda: subprocess.run([sys.executable, "-c", begin], check=True), 1, _children),
    )
    memories = {
        "full": Memory.open(Path(folder) / "full.db", embedder="words"),
        "normal": Memory.open(Path(folder) / "normal.db", embedder="words", durability="normal"),
        "RAM": Memory.open(embedder="words"),
    }
    for kind, memory in memories.items():
        yield from _calls(stack.enter_context(memory), kind, stack)
    for kind, embedder in (("vectors at hand", _AtHand()), ("static", "static")):
        path = Path(folder) / f"{kind}.db"
        memory = Memory.open(path, embedder=embedder, durability="normal")
        key, texts = stack.enter_context(memory).key("ada"), _texts()
        yield f"add_many, {kind}", Row(lambda k=key, t=texts: k.add_many(next(t)), 3, calls=BULK)
        whole = Row(lambda k=key, t=texts: k.add_many(next(t)), 3, perf_counter, BULK)
        yield f"add_many, {kind}, wall", whole


def _calls(memory, kind: str, stack: ExitStack) -> Iterator[tuple[str, Row]]:
    number, key = count(), memory.key("ada")

    def add() -> None:
        key.add(f"a note on tents, number {next(number)}")

    def add_in_threads() -> None:
        threads = [Thread(target=lambda: [add() for _ in range(25)]) for _ in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    for _ in range(100):
        add()
    ids = [item.id for item in key.list(limit=50)]
    notes, searched = key.set("default"), memory.key("searched")
    searched.add_many([f"a note on tents, number {n}" for n in range(300)])
    runner = stack.enter_context(_runner(memory))
    yield f"add, {kind}", Row(add, 100)
    if kind != "RAM":
        yield f"add, {kind}, wall", Row(add, 100, perf_counter)
        threads = Row(add_in_threads, 1, perf_counter, 25 * THREADS)
        yield f"add, {kind}, {THREADS} threads, wall", threads
    yield f"set a value, {kind}", Row(lambda: key.short_term.set("a.b", next(number)), 100)
    yield f"get an item, {kind}", Row(lambda: notes.get(ids[next(number) % 50]), 500)
    yield f"get a value, {kind}", Row(lambda: key.short_term.get("a.b"), 500)
    yield f"search, {kind}", Row(lambda: searched.search("tents, number 12", limit=3), 100)
    yield f"run, {kind}", Row(lambda: runner.handle("u", 1), 100)


def _children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _texts() -> Iterator[list[str]]:
    words = ["tent", "rain", "lake", "boat", "fire", "smoke", "river", "stone", "bread", "light"]
    for turn in count():
        yield [
            " ".join(words[n * step % 10] for step in range(1, 9)) + f" number {n} of {turn}"
            for n in range(BULK)
        ]


class _AtHand:
    """Gives texts vectors that were made before."""

    name = "at hand"
    dimensions = 384
    instant = True

    def __init__(self) -> None:
        import numpy as np

        vectors = np.random.default_rng(1).standard_normal((BULK, self.dimensions), np.float32)
        self._vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed(self, texts):
        return self._vectors[: len(texts)]


def _runner(memory):
    from alveus import Agent, InputEvent, LocalRunner, OutputEvent, action

    class Shop(Agent):
        @action(InputEvent)
        def count(self, event, ctx):
            ctx.short_term_memory.increment("n")
            ctx.sensory_memory.set("x", 1)
            ctx.send_event(OutputEvent(ctx.short_term_memory.get("n")))

    return LocalRunner(Shop, memory)


def serve(folder: str) -> None:
    """Print the names of the rows; then, for each name that is read, what was measured."""
    with ExitStack() as stack:
        known = dict(rows(folder, stack))
        print("|".join(known), flush=True)
        for row in known.values():
            row.call()
        for line in sys.stdin:
            print(known[line.strip()].measure(), flush=True)


@contextmanager
def process(source: str, work: str) -> Iterator[Callable[[str], str]]:
    """Begin a process of the version whose sources are there; give what asks it for a row."""
    here = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    here["PYTHONPATH"] = str(Path(source).resolve())
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        subprocess.Popen(
            [sys.executable, __file__, "--serve", folder],
            env=here,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as worker,
    ):
        into, out = worker.stdin, worker.stdout
        assert into
        assert out

        def ask(name: str) -> str:
            if name:
                print(name, file=into, flush=True)
            return out.readline().strip()

        yield ask
        into.close()


def main() -> None:
    """Measure the versions in turns, and print a table for LOG.md."""
    parser = argparse.ArgumentParser(description="Compare versions of alveus.")
    parser.add_argument("versions", nargs="*", help="folders of sources: old, new, ...")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--only", default="", help="beginnings of names of rows")
    parser.add_argument("--work", default=".", help="a folder on the disk to be measured")
    parser.add_argument("--serve", metavar="WORK", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    if len(given.versions) < 2:
        parser.error("name folders of sources: old, new")
    found: list[dict[str, list[float]]] = [{} for _ in given.versions]
    for start in range(given.starts):
        with ExitStack() as stack:
            ask = [stack.enter_context(process(each, given.work)) for each in given.versions]
            names = [each("") for each in ask]
            beginnings = tuple(given.only.split(","))
            chosen = [name for name in names[0].split("|") if name.startswith(beginnings)]
            for turn in range(given.turns):
                for name in chosen:
                    for n in range(len(ask)):
                        which = (n + turn) % len(ask)
                        found[which].setdefault(name, []).append(float(ask[which](name)))
                print(f"\rstart {start + 1}, turn {turn + 1}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print_table(found)


def print_table(found: list[dict[str, list[float]]]) -> None:
    """Print what was found of each version, by row."""
    heads = ["call", "before, µs", *["after, µs | ratio"] * (len(found) - 1)]
    print("| " + " | ".join(heads) + " |")
    print("|---|" + "---:|" * (2 * len(found) - 1))
    for name, old in found[0].items():
        cells = [name, f"{statistics.median(old):.1f}"]
        for each in found[1:]:
            low, middle, high = statistics.quantiles(map(truediv, each[name], old), n=4)
            ratio = f"{middle:.3f} ({low:.3f}-{high:.3f})"
            cells += [f"{statistics.median(each[name]):.1f}", ratio]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
