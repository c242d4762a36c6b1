"""Run `make check` on a busy machine: its outcome must not depend on how busy that is.

    python tools/steady.py               three runs beside a loop per core, one on a single core
    python tools/steady.py --rounds 1    one of each
    python tools/steady.py --on COMMAND  another command in place of `make check`

Ends at the first run that fails, with its exit code. The loops end with this program, also if it
is killed. `make steady` runs the first form.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent

BURN = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""
"""Keeps a core busy for as long as the process that started it is there."""


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep so many cores busy inside the block."""
    with ExitStack() as stack:
        for _ in range(loops):
            burner = stack.enter_context(subprocess.Popen([sys.executable, "-c", BURN]))
            stack.callback(burner.kill)
        yield


def run(name: str, command: list[str]) -> None:
    """Run *command*; say how long it took, and end this program if it fails."""
    print(f"--- {name}: {' '.join(command)}", flush=True)
    began = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    result = "green" if status == 0 else f"failed with exit code {status}"
    print(f"--- {name}: {result} after {(time.monotonic() - began) / 60:.1f} min", flush=True)
    if status != 0:
        raise SystemExit(status)


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="runs beside the loops (3)")
    parser.add_argument("--loops", type=int, default=os.cpu_count() or 2, help="one per core")
    parser.add_argument("--on", nargs=argparse.REMAINDER, default=["make", "check"])
    asked = parser.parse_args()
    with busy(asked.loops):
        for number in range(1, asked.rounds + 1):
            run(f"{number} of {asked.rounds} beside {asked.loops} busy loops", asked.on)
    run("on a single core", ["taskset", "--cpu-list", "0", *asked.on])


if __name__ == "__main__":
    main()
