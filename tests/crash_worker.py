"""A process that is going to be killed: it writes, and says so after each call that returned.

``python crash_worker.py DATABASE MODE NAME START`` does step START, START + 1, … of a mode, for
ever. A line on standard output, unbuffered, acknowledges a step.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from alveus import Item, Memory
from alveus.store import Batch, Begin, Put, QueuedInput, Scope, Step

MANY = 20

KEYS = 200
"""Keys over which "spread" writes."""


class SlowEmbedder:
    """An embedder whose vectors tell which text they are of; slow enough to be killed in."""

    name = "slow"
    dimensions = 32
    instant = False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit row per text."""
        time.sleep(0.001 * len(texts))  # noqa: TID251 - to be killed in
        rows = np.array([self.row(text) for text in texts], dtype=np.float32)
        return rows.reshape(len(texts), self.dimensions)

    def row(self, text: str) -> NDArray[np.float32]:
        """Return the vector of one text."""
        row = np.random.default_rng(list(text.encode())).standard_normal(self.dimensions)
        return (row / np.linalg.norm(row)).astype(np.float32)


def add(memory: Memory, name: str, step: int) -> None:
    """Add one item."""
    memory.key(name).add(f"{name} item {step}", id=f"add-{step}", metadata={"step": step})


def many(memory: Memory, name: str, step: int) -> None:
    """Add a batch of items: all of them or none."""
    items = [Item(f"{name} {step}", id=f"many-{step}-{i}") for i in range(MANY)]
    memory.key(name).set("many").add_many(items)


def update(memory: Memory, name: str, step: int) -> None:
    """Update one item: value and metadata together, a version more each time."""
    notes = memory.key(name).set("updated")
    notes.add(Item(f"version {step}", id="it", metadata={"step": step}), on_existing="update")


def delete(memory: Memory, name: str, step: int) -> None:
    """Add an item and delete the one before."""
    notes = memory.key(name).set("deleted")
    notes.add(f"{name} {step}", id=f"del-{step}", on_existing="keep")
    if step:
        notes.delete(f"del-{step - 1}")


def tree(memory: Memory, name: str, step: int) -> None:
    """Change two places of the exact tree, and an item, in one commit."""
    with memory.key(name).batch(idempotency_key=f"tree-{step}") as b:
        b.short_term.set("a.step", step)
        b.short_term.set("b.c.step", step)
        b.short_term.append("log", step)
        b.set("tree").add(f"step {step}")


def once(memory: Memory, name: str, step: int) -> None:
    """Do one request twice, as a caller that was not sure."""
    notes = memory.key(name).set("once")
    first = notes.add(f"request {step}", idempotency_key=f"once-{step}")
    again = notes.add(f"request {step}", idempotency_key=f"once-{step}")
    if first != again:
        message = f"{first} and {again} for one request"
        raise AssertionError(message)


def run(memory: Memory, name: str, step: int) -> None:
    """Have an input accepted, and do what is left of its two tasks, as whoever comes after would.

    The first task changes the tree and sends something out; the second ends the run.
    """
    store, scope, now = memory.store, Scope(memory.space, name), time.time_ns() // 1000
    given = QueuedInput(scope, f"{step}", now, event_id=b"%d" % step, request=b"asked")
    accepted = store.accept("worker", [given], owner=f"worker {os.getpid()}")[0]
    while accepted.lease is None and _waits(memory, accepted.run):
        time.sleep(0.05)  # noqa: TID251 - a server takes whoever was killed for alive, for seconds
        accepted = store.accept("worker", [given], owner=f"worker {os.getpid()}")[0]
    if accepted.lease is None or accepted.run is None:
        return  # done, and told by nobody
    task = Step(accepted.run, 0, "count", outputs=[f"{step}"], begin=Begin(now, ("count",)))
    batch = Batch(scope=scope, time=now, run=task, epoch=accepted.lease.epoch)
    if not store.steps(accepted.run):
        state = [Put(("runs",), step + 1)]
        store.commit(replace(batch, base=store.head(scope), state=state))
    last = replace(task, ordinal=1, outputs=(), done=True)
    store.commit(replace(batch, run=last, release=True))


def _waits(memory: Memory, run: int | None) -> bool:
    found = None if run is None else memory.store.run(run)
    return found is not None and found.status == "waiting"


def spread(memory: Memory, name: str, step: int) -> None:
    """Add one item to one of many keys."""
    memory.key(f"key {step * 37 % KEYS}").add(f"{name} {step}", id=f"{name}-{step}")


def fork(memory: Memory, name: str, step: int) -> None:
    """Leave a forked child behind, once, that holds on to what it inherited; then add."""
    if step % 50 == 1:
        child = os.fork()
        if not child:
            time.sleep(30)  # noqa: TID251 - to be killed in
            os._exit(0)
        say(f"child {child}")
    memory.key(name).set("forked").add(f"{name} {step}", id=f"fork-{step}", on_existing="keep")


MODES: dict[str, Callable[[Memory, str, int], None]] = {
    "add": add,
    "many": many,
    "update": update,
    "delete": delete,
    "tree": tree,
    "once": once,
    "run": run,
    "spread": spread,
    "fork": fork,
}


def say(line: str) -> None:
    """Write a line, whole."""
    os.write(1, f"{line}\n".encode())


def main() -> None:
    """Write until somebody kills this."""
    path, mode, name, start = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    with Memory.open(path, embedder=SlowEmbedder()) as memory:
        say("ready")
        step = start
        while True:
            MODES[mode](memory, name, step)
            say(f"done {step}")
            step += 1


if __name__ == "__main__":
    main()
