"""Runs: what one costs, in RAM and on disk, beside LangGraph doing the same work.

    python bench/runs.py                     alveus and LangGraph
    python bench/runs.py --runs 20000 --log
    python bench/runs.py --systems ram,normal

A run has two actions. The first reads and writes a counter of its key, writes to the memory of the
run, and sends an event; the second reads that memory and gives an output. 64 keys take turns.
LangGraph does it with two nodes, a state, and a checkpointer; each of its runs is awaited before
the next, as its API has it. On a file, `floor` is what apsw alone takes for the same rows in the
same transactions. `tree` compares reads and writes of the exact tree with a plain dict.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import measure, syncs
from bench.measure import Report, Result, timed

WORK = Path(__file__).resolve().parent / ".work"
KEYS = 64
ROUNDS = 5
TREE_OPERATIONS = 20_000


class System(Protocol):
    """Who does runs. `run` does *count* of them, numbered from *first*, and returns the outputs."""

    name: str
    note: str

    def open(self, folder: Path) -> None: ...
    def run(self, first: int, count: int) -> list[int]: ...
    def close(self) -> None: ...


class Alveus:
    """`LocalRunner.map` over a memory in RAM, or on a file."""

    def __init__(self, name: str, place: str, durability: Literal["full", "normal"]) -> None:
        self.name, self._place = name, place
        self._durability: Literal["full", "normal"] = durability
        self.note = f"{durability} durability" if place else "in RAM"

    def open(self, folder: Path) -> None:
        from alveus import LocalRunner, Memory

        place = self._place or ":memory:"
        if self._place and "://" not in place:
            place = str(folder / place)
        self.memory = Memory.open(place, embedder="words", durability=self._durability)
        self._runner = LocalRunner(agent(), self.memory)

    def run(self, first: int, count: int) -> list[int]:
        inputs = ((f"k{i % KEYS}", i) for i in range(first, first + count))
        return [outputs[0] for outputs in self._runner.map(inputs)]

    def floor(self, first: int, count: int, folder: Path) -> tuple[float, float]:
        """Return the seconds, of CPU and by the clock, that the rows of runs take by apsw alone."""
        from bench.floor import floor_of_all

        def work() -> object:
            return self.run(first, count)

        return floor_of_all(self.memory, work, folder, durability=self._durability)

    def close(self) -> None:
        self._runner.close()
        self.memory.close()


def agent() -> Any:
    """Return the agent that is measured."""
    from alveus import Agent, Event, InputEvent, OutputEvent, action

    class Counted(Event):
        n: int

    class Counter(Agent):
        @action(InputEvent)
        def count(self, event, ctx):
            seen = ctx.short_term_memory.get("seen", 0) + 1
            ctx.short_term_memory.set("seen", seen)
            ctx.sensory_memory.set("input", event.input)
            ctx.send_event(Counted(seen))

        @action(Counted)
        def answer(self, event, ctx):
            ctx.send_event(OutputEvent(ctx.sensory_memory.get("input") + event.n))

    return Counter


class LangGraph:
    """A graph of two nodes with the SQLite checkpointer; a thread per key."""

    name = "langgraph"

    def __init__(self, durability: Literal["sync", "exit"]) -> None:
        self._durability: Literal["sync", "exit"] = durability
        self.name = f"langgraph-{durability}"
        self.note = "SqliteSaver, " + (
            "a checkpoint per step" if durability == "sync" else "one per run"
        )

    def open(self, folder: Path) -> None:
        from typing import TypedDict

        from langgraph.graph import END, START, StateGraph

        class State(TypedDict, total=False):
            seen: int
            input: int
            sensory: int
            output: int

        def count(state: Any) -> dict[str, int]:
            return {"seen": state.get("seen", 0) + 1, "sensory": state["input"]}

        def answer(state: Any) -> dict[str, int]:
            return {"output": state["sensory"] + state["seen"]}

        graph = StateGraph(State)
        graph.add_node("count", count)
        graph.add_node("answer", answer)
        graph.add_edge(START, "count")
        graph.add_edge("count", "answer")
        graph.add_edge("answer", END)
        self._graph = graph.compile(checkpointer=self.saver(folder))

    def saver(self, folder: Path) -> Any:
        """The checkpointer."""
        import sqlite3

        from langgraph.checkpoint.sqlite import SqliteSaver

        self._connection = sqlite3.connect(folder / "graph.db", check_same_thread=False)
        return SqliteSaver(self._connection)

    def run(self, first: int, count: int) -> list[int]:
        return [
            self._graph.invoke(
                {"input": i},
                {"configurable": {"thread_id": f"k{i % KEYS}"}},
                durability=self._durability,
            )["output"]
            for i in range(first, first + count)
        ]

    def close(self) -> None:
        self._connection.close()


SYSTEMS = ("ram", "normal", "full", "langgraph-sync", "langgraph-exit")
OURS = ("ram", "normal", "full")


def system(name: str) -> System:
    """Return a system by name."""
    if name.startswith("langgraph"):
        return LangGraph("sync" if name.endswith("sync") else "exit")
    durability: Literal["full", "normal"] = "full" if name == "full" else "normal"
    return Alveus(f"alveus-{name}", "" if name == "ram" else "runs.db", durability)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what *arguments* (default: the command line) ask for."""
    asked = _parser().parse_args(arguments)
    measure.one_core(asked.core)
    asked.work.mkdir(parents=True, exist_ok=True)
    where = measure.machine(asked.work)
    results: list[Result] = []
    with measure.progress("runs", total=len(asked.systems) + 1) as step:
        for name in asked.systems:
            results.extend(_runs(system(name), asked.runs, asked.work))
            step(name)
        results.extend(_trees())
        step("trees")
    measure.show(results, title=f"runs · {where.line()}")
    print("\n".join(_ratios(results)))
    if asked.log:
        words = sys.argv[1:] if arguments is None else arguments
        command = shlex.join(["python", "bench/runs.py", *words])
        measure.append_log(Report("runs", command, where, results, notes=_ratios(results)))
    return 0


def _runs(what: System, count: int, work: Path) -> Iterator[Result]:
    """Runs per second of CPU time, in rounds, the middle one; and per second by the clock."""
    folder = work / "runs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    few = count if what.name.startswith("alveus") else max(KEYS, count // 20)
    what.open(folder)
    try:
        what.run(0, 4 * KEYS)  # warm: threads, statements, how long actions take
        measure.collect_garbage()
        first, rates = 4 * KEYS, []
        for _ in range(ROUNDS):
            began, cpu = time.perf_counter(), time.process_time()
            outputs = what.run(first, few)
            rates.append((few / (time.process_time() - cpu), few / (time.perf_counter() - began)))
            assert outputs == [i + i // KEYS + 1 for i in range(first, first + few)]
            first += few
        on_file = isinstance(what, Alveus) and what.name != "alveus-ram"
        floor = what.floor(first, few, folder) if on_file else None
    finally:
        what.close()
    rates.sort()
    by_cpu, by_clock = rates[ROUNDS // 2]
    spread = f"{rates[0][0]:,.0f}-{rates[-1][0]:,.0f} in {ROUNDS} rounds of {few:,}"
    yield Result(what.name, "runs by CPU", few, value=by_cpu, unit="runs/s", note=spread)
    yield Result(what.name, "runs by clock", few, value=by_clock, unit="runs/s", note=what.note)
    for clock, seconds in zip(("CPU", "clock"), floor or (), strict=False):
        note = "apsw alone, the same rows and transactions"
        operation, rate = f"floor of runs by {clock}", few / seconds
        yield Result(what.name, operation, few, value=rate, unit="runs/s", note=note)
    if what.name == "alveus-full":
        for operation, found in syncs.syncs_per_run():
            yield Result(what.name, operation, few, value=found, unit="syncs per run")


def _trees() -> Iterator[Result]:
    """Sets and gets of an action's exact tree, flat and four deep, beside a plain dict."""
    for what, path in (("flat", "n{}"), ("four deep", "a.b.c.n{}")):
        paths = [path.format(i % 100) for i in range(TREE_OPERATIONS)]
        for name, tree in (("alveus", Exact(paths)), ("dict", Plain(paths))):
            yield Result(name, f"set {what}", len(paths), figure=timed(tree.set, len(paths)))
            yield Result(name, f"get {what}", len(paths), figure=timed(tree.get, len(paths)))


class Exact:
    """The exact tree of an action."""

    def __init__(self, paths: Sequence[str]) -> None:
        from alveus.state import MemoryKind, Overlay, root_of

        self._root = root_of(Overlay.over(None, kind=MemoryKind.SENSORY, now=0))
        self._paths = paths

    def set(self, i: int) -> None:
        self._root.set(self._paths[i], i)

    def get(self, i: int) -> object:
        return self._root.get(self._paths[i])


class Plain:
    """Nested dicts; the paths are split already."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._root: dict[str, Any] = {}
        self._paths = [path.split(".") for path in paths]

    def set(self, i: int) -> None:
        place, names = self._root, self._paths[i]
        for name in names[:-1]:
            place = place.setdefault(name, {})
        place[names[-1]] = i

    def get(self, i: int) -> object:
        place = self._root
        for name in self._paths[i]:
            place = place[name]
        return place


def _ratios(results: Sequence[Result]) -> list[str]:
    """How many times the runs of LangGraph ours are, by CPU."""
    rates = {r.system: r.value for r in results if r.operation == "runs by CPU"}
    peer = rates.get("langgraph-sync")
    if not peer:
        return []
    return [
        f"{name}: {rate / peer:.1f} times the runs of langgraph-sync per second of CPU"
        for name, rate in rates.items()
        if name.startswith("alveus") and rate
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench/runs.py", description="Measure runs.")
    parser.add_argument(
        "--systems", type=measure.some_of(SYSTEMS), default=list(SYSTEMS), help=",".join(SYSTEMS)
    )
    parser.add_argument("--runs", type=int, default=10_000, help="in each of five rounds")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--log", action="store_true", help="append the results to LOG.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
