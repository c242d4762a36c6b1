"""The proof: a writing process is killed and restarted, and no item is lost or stored twice.

    python -m alveus.cli.demo.kill_proof FILE STEPS

runs the process that is killed. Each step is one commit: an item, and a counter in exact memory.
The process prints the number of a step on stdout when the step is durable. After a restart it
repeats every step from the first.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from alveus.memory.memory import Memory
from alveus.values.lazy_dataclass import dataclass

SPACE, KEY, SET = "kill", "writer", "log"


def write(path: str, steps: int) -> None:
    """Write all steps. Print the number of each step when the step is durable."""
    with Memory.open(path, space=SPACE, embedder="words") as memory:
        key = memory.key(KEY)
        for step in range(1, steps + 1):
            with key.batch(idempotency_key=f"step {step}") as batch:
                batch.set(SET).add(f"entry {step}")
                batch.short_term.increment("written")
            print(step, flush=True)


@dataclass(frozen=True, slots=True)
class Proof:
    """The contents of a file after its writer ended.

    Attributes:
        acknowledged: Steps that the writer reported as durable.
        items: Number of stored entries.
        counter: The counter in exact memory.
        missing: Acknowledged steps without an entry.
        twice: Entries that are stored more than once.
        problems: Damage of the file.
    """

    acknowledged: int
    items: int
    counter: int
    missing: int
    twice: int
    problems: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """True if every entry is stored whole and once, and the file is undamaged."""
        whole = self.items == self.counter and not self.problems
        return whole and not self.missing and not self.twice


def run_writer(
    path: Path, *, steps: int, kill_after: int | None, progress: Callable[[int], None]
) -> int:
    """Run the writer as a process. Kill it (SIGKILL) once it has acknowledged *kill_after* steps.

    Returns:
        The last step that the writer acknowledged.
    """
    command = [sys.executable, "-m", "alveus.cli.demo.kill_proof", str(path), str(steps)]
    acknowledged = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603 - it is ourselves
        assert child.stdout is not None  # noqa: S101 - it is a pipe
        for line in child.stdout:
            if line.endswith("\n"):
                acknowledged = int(line)
                progress(1)
            if acknowledged == kill_after:
                child.kill()
    return acknowledged


def examine(path: Path, *, acknowledged: int) -> Proof:
    """Open the file again and return its contents."""
    with Memory.open(path, space=SPACE, embedder="words") as memory:
        key = memory.key(KEY)
        entries = [item.value for item in key.set(SET).list()]
        expected = {f"entry {step}" for step in range(1, acknowledged + 1)}
        problems = getattr(memory.store, "problems", list[str])()
        return Proof(
            acknowledged=acknowledged,
            items=len(entries),
            counter=int(key.short_term.get("written", 0)),
            missing=len(expected.difference(map(str, entries))),
            twice=len(entries) - len(set(map(str, entries))),
            problems=tuple(problems),
        )


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]))
