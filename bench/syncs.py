"""How often a system forces its writes to the disk per added item, counted by strace.

A system that never does loses acknowledged items in a power cut, and its adds cannot be compared
with those of one that does.

    python -m bench.syncs [system ...]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.corpus import DIMENSIONS, Corpus, CorpusEmbedder
from bench.peers import SYSTEMS, offline, peer

ADDS = 20
RUNS = 640
CALLS = ("fsync", "fdatasync", "msync", "sync_file_range", "syncfs", "sync")
BEGIN, END = "bench-adds-begin", "bench-adds-end"
ROOT = Path(__file__).resolve().parents[1]


def syncs_per_add(system: str) -> float | None:
    """Sync calls of *system* and its threads per single add, the median case; None without strace.

    Raises:
        RuntimeError: The system failed under strace; the message has its last words.
    """
    strace = shutil.which("strace")
    if strace is None:
        return None
    with tempfile.TemporaryDirectory() as place:
        lines = _traced(strace, place, ["--child", system, place])
    first = next(i for i, line in enumerate(lines) if BEGIN in line)
    last = next(i for i, line in enumerate(lines) if END in line)
    return sum(any(f" {call}(" in line for call in CALLS) for line in lines[first:last]) / ADDS


def _traced(strace: str, place: str, words: list[str]) -> list[str]:
    """Return the lines that strace writes of this program with *words*."""
    trace = Path(place) / "trace"
    calls = ",".join([*CALLS, "?mkdir", "?mkdirat"])
    command = [strace, "-f", "-qq", "-e", f"trace={calls}", "-o", str(trace)]
    command += [sys.executable, "-m", "bench.syncs", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{words[1]} failed under strace: {done.stderr.strip().splitlines()[-1:]}"
        )
    return trace.read_text(encoding="utf-8").splitlines()


def syncs_per_run() -> list[tuple[str, float]]:
    """Sync calls per run of `bench.runs`: one at a time, 64 keys at once, with a durable call.

    Empty without strace.
    """
    strace = shutil.which("strace")
    if strace is None:
        return []
    found: list[tuple[str, float]] = []
    for how in ("one by one", "64 keys", "with a durable call"):
        with tempfile.TemporaryDirectory() as place:
            lines = _traced(strace, place, ["--runs", how, place])
            first = next(i for i, line in enumerate(lines) if BEGIN in line)
            last = next(i for i, line in enumerate(lines) if END in line)
            count = sum(any(f" {call}(" in line for call in CALLS) for line in lines[first:last])
            found.append((f"syncs, {how}", count / RUNS))
    return found


def _runs_child(how: str, place: Path) -> None:
    """Do runs between two failing system calls that the trace shows."""
    from alveus import Agent, InputEvent, LocalRunner, Memory, OutputEvent, action
    from bench.runs import agent  # not needed by the other child

    class Calling(Agent):
        @action(InputEvent)
        def call(self, event, ctx):
            ctx.send_event(OutputEvent(ctx.durable(str, event.input)))

    with Memory.open(place / "runs.db", embedder="words") as memory:
        chosen = Calling if how == "with a durable call" else agent()
        runner = LocalRunner(chosen, memory)
        list(runner.map((f"k{i}", i) for i in range(64)))
        _mark(BEGIN)
        if how == "64 keys":
            list(runner.map((f"k{i % 64}", i) for i in range(RUNS)))
        else:
            for i in range(RUNS):
                runner.handle("k0", i)
        _mark(END)
        runner.close()


def _child(system: str, place: Path) -> None:
    """Add items between two failing system calls that the trace shows."""
    offline(place)
    corpus = Corpus()
    opened = peer(system, CorpusEmbedder(corpus))
    opened.open(place, DIMENSIONS)
    rows = corpus.take(0, 10 + ADDS)
    for i in range(len(rows)):
        if i == 10:
            _mark(BEGIN)
        opened.add_one(rows.part(i, i + 1), "k0")
    _mark(END)
    opened.close()


def _mark(name: str) -> None:
    try:
        Path(f"/{name}/never").mkdir()
    except FileNotFoundError:
        return


def _main() -> None:
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], Path(sys.argv[3]))
        return
    if sys.argv[1:2] == ["--runs"]:
        _runs_child(sys.argv[2], Path(sys.argv[3]))
        return
    for system in sys.argv[1:] or SYSTEMS:
        print(f"{system:20} {syncs_per_add(system)} syncs per add")


if __name__ == "__main__":
    _main()
