"""Runs on Apache Flink: how many a core does, with all memory exactly once.

    .venv-flink/bin/python bench/flink.py              every operator and store
    .venv-flink/bin/python bench/flink.py --log

A run has two actions without a model, as in bench/runs.py: a counter in short-term memory, a value
in the memory of the run, an event between the two, an output. 64 keys take turns. Flink runs in one
process of this machine with two parallel parts; what it takes to come up is left out: a job of many
inputs is compared with one of few. The published figure of Flink Agents 0.2, 2,060 records/s and
core, is of memory in RAM that is not exactly once.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from alveus import Agent, Event, InputEvent, OutputEvent, action
from alveus.runs.runner.flink import FlinkRunner
from alveus.runs.runner.flink.settings import Mode
from bench import measure
from bench.measure import Report, Result
from bench.postgres_server import Server

WORK = Path(__file__).resolve().parent / ".work" / "flink"
KEYS = 64
PARTS = 2
FEW = 400
FLINK_AGENTS = 2_060
"""Records/s and core of Flink Agents 0.2, from its own announcement."""


class Counted(Event):
    """Goes from the first action to the second."""

    count: int


@action(InputEvent)
def count(event, ctx):
    """Count the inputs of the key."""
    memory = ctx.short_term_memory
    number = memory.get("count", 0) + 1
    memory.set("count", number)
    ctx.sensory_memory.set("seen", event.input)
    ctx.send_event(Counted(number))


@action(Counted)
def tell(event, ctx):
    """Put the count out."""
    ctx.send_event(OutputEvent([ctx.sensory_memory.get("seen"), event.count]))


AGENT = Agent("bench", actions=[count, tell])


def run(url: str, name: str, inputs: int, mode: Mode, execution: str) -> float:
    """Return how long a job of so many inputs took, in seconds."""
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = folder / "in.jsonl"
    records = ({"key": f"k{n % KEYS}", "value": n, "id": f"{name} {n}"} for n in range(inputs))
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    runner = FlinkRunner(
        AGENT,
        url,
        name=name,
        embedder="words",
        mode=mode,
        parallelism=PARTS,
        concurrency=32,
        capacity=2_000,
        interval_s=2,
        overrides={"python.execution-mode": execution, "python.fn-execution.bundle.size": "200"},
    )
    began = time.perf_counter()
    runner.run(str(source), str(folder / "out"))
    took = time.perf_counter() - began
    found = [json.loads(x) for p in (folder / "out").rglob("part-*") for x in p.open()]
    assert len(found) == inputs, f"{len(found)} outputs of {inputs} inputs"
    return took


def rate(url: str, label: str, inputs: int, mode: Mode, execution: str) -> float:
    """Return runs/s, by a job of many inputs and one of few."""
    few = run(url, f"few {label}", FEW, mode, execution)
    many = run(url, f"many {label}", inputs, mode, execution)
    return (inputs - FEW) / (many - few)


def measured(stores: dict[str, str], inputs: int, rounds: int) -> list[Result]:
    """Return what each operator does on each store."""
    kinds: list[tuple[Mode, str]] = [
        ("concurrent", "thread"),
        ("synchronous", "thread"),
        ("synchronous", "process"),
    ]
    results: list[Result] = []
    with measure.progress("Flink", total=len(stores) * len(kinds) * rounds) as step:
        for store, url in stores.items():
            for mode, execution in kinds:
                found: list[float] = []
                for number in range(rounds):
                    step(f"{store}, {mode}, {execution}")
                    label = f"{store} {mode} {execution} {number}"
                    found.append(rate(url, label, inputs, mode, execution) / PARTS)
                found.sort()
                middle = found[len(found) // 2]
                note = (
                    f"{found[0]:,.0f} to {found[-1]:,.0f}; {middle / FLINK_AGENTS:.2f} x of Flink"
                )
                results.append(
                    Result(
                        "alveus",
                        f"runs per core, {mode}, {execution} mode",
                        inputs,
                        layout=store,
                        value=middle,
                        unit="/s",
                        note=f"{note} Agents 0.2, in RAM",
                    )
                )
    return results


def main(arguments: Sequence[str]) -> int:
    """Measure; print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", action="store_true", help="append to bench/LOG.md")
    chosen = parser.parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    machine = measure.machine(WORK)
    server = Server(WORK / "server")
    stores = {"PostgreSQL": server.make("flink"), "SQLite": str(WORK / "memory.db")}
    try:
        results = measured(stores, chosen.inputs, chosen.rounds)
    finally:
        server.close()
        shutil.rmtree(WORK, ignore_errors=True)
    measure.show(results, title="Flink")
    if chosen.log:
        command = shlex.join(["python", "bench/flink.py", *arguments])
        measure.append_log(Report("flink", command, machine, results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
