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
        trace = Path(place) / "trace"
        calls = ",".join([*CALLS, "?mkdir", "?mkdirat"])
        command = [
            strace,
            "-f",
            "-qq",
            "-e",
            f"trace={calls}",
            "-o",
            str(trace),
            sys.executable,
            "-m",
            "bench.syncs",
            "--child",
            system,
            place,
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(
                f"{system} failed under strace: {done.stderr.strip().splitlines()[-1:]}"
            )
        lines = trace.read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if BEGIN in line)
    last = next(i for i, line in enumerate(lines) if END in line)
    return sum(any(f" {call}(" in line for call in CALLS) for line in lines[first:last]) / ADDS


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
    for system in sys.argv[1:] or SYSTEMS:
        print(f"{system:20} {syncs_per_add(system)} syncs per add")


if __name__ == "__main__":
    _main()
