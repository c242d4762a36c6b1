"""A process that is going to be killed while it compacts, undoes, or adds to what others compact.

``python compaction_worker.py DATABASE MODE NAME START`` goes on for ever. A line on standard
output, unbuffered, acknowledges a step.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta

from alveus import Compactor, Memory, Summarize, Trim
from alveus.errors import CompactionChanged, NotFound, SetBusy

CAPACITY = 30


def say(line: str) -> None:
    """Write a line, whole."""
    os.write(1, f"{line}\n".encode())


def sync(memory: Memory, name: str, step: int) -> None:
    """Add an item to a set that the add itself compacts."""
    notes = memory.key(name).set(
        "sync", capacity=CAPACITY, compaction=Summarize(n=10), execution="sync"
    )
    notes.add(f"note {step}", id=f"i{step}", on_existing="keep")


def background(memory: Memory, name: str, step: int) -> None:
    """Add an item to a set that a thread compacts meanwhile."""
    notes = memory.key(name).set(
        "background", capacity=CAPACITY, compaction=Summarize(n=10), execution="background"
    )
    notes.add(f"note {step}", id=f"i{step}", on_existing="keep")


def undo(memory: Memory, name: str, step: int) -> None:
    """Compact a set, and undo that again, one after the other."""
    notes = memory.key(name).set("undo")
    if not notes.compactions(limit=1) and not notes.list(limit=1):
        notes.add_many([f"note {n}" for n in range(20)])
    if step % 2 == 0:
        notes.compact(Summarize(n=6, limit=2) if step % 4 else Trim(n=6))
        return
    for done in notes.compactions(limit=10):
        if done.undone is None:
            notes.undo(done.id)
            return


def agent(memory: Memory, name: str, step: int) -> None:
    """Add an item to a set that other processes compact."""
    notes = memory.key("shared").set(
        "shared", capacity=CAPACITY, compaction=Summarize(n=10), execution="external"
    )
    notes.add(f"{name} {step}", id=f"{name}-{step}", on_existing="keep")


def compactor(memory: Memory, _name: str, _step: int) -> None:
    """Compact what is due, as `alveus compact --watch` does, and now and then undo something."""
    watcher = Compactor(memory)
    watcher.run(every=timedelta(milliseconds=1))
    notes = memory.key("shared").set("shared")
    for done in notes.compactions(limit=1):
        if done.id % 5 == 0 and done.undone is None:
            try:
                notes.undo(done.id)
            except (CompactionChanged, NotFound, SetBusy):
                say("moved 0")


MODES = {
    "sync": sync,
    "background": background,
    "undo": undo,
    "agent": agent,
    "compactor": compactor,
}


def main() -> None:
    """Go on until somebody kills this."""
    path, mode, name, start = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    with Memory.open(path, embedder="words") as memory:
        say("ready")
        step = start
        while True:
            MODES[mode](memory, name, step)
            say(f"done {step}")
            step += 1


if __name__ == "__main__":
    main()
