"""Large checkpoints, until it is killed: ``python large_states_worker.py PLACE THREAD``.

It says "ready", waits for a line, and says the number of each checkpoint that is stored. With
``--memory`` in the place of a thread it prints how far calls make the resident set grow, at most.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alveus import Memory
from alveus.integrations.langgraph import AlveusSaver

PHOTO_BYTES = 700_000
MOST = 12

LARGE_BYTES = 96_000_000
"""Bytes of a value beside which all else that a process needs is little."""


def photo(number: int) -> bytes:
    """Return what compresses as little as a photo does."""
    return random.Random(number).randbytes(PHOTO_BYTES)


def photos(number: int) -> list[bytes]:
    """Return the value of the channel in a checkpoint: each adds two."""
    return [photo(each) for each in range(2 * number)]


def config(thread: str, number: int = 0) -> Any:
    """Return what names a checkpoint of a thread; 0: the last one."""
    named = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": named | ({"checkpoint_id": f"{number:04}"} if number else {})}


def put(saver: AlveusSaver, thread: str, number: int) -> None:
    """Store a checkpoint, and a write to it."""
    put_value(saver, thread, number, photos(number))
    saver.put_writes(config(thread, number), [("photos", photos(number)[-2:])], "task")


def put_value(saver: AlveusSaver, thread: str, number: int, value: list[bytes]) -> None:
    """Store a checkpoint with this value of its channel."""
    version = f"{number:032}"
    checkpoint: Any = {
        "v": 1, "id": f"{number:04}", "ts": "", "channel_values": {"photos": value},
        "channel_versions": {"photos": version}, "versions_seen": {}, "updated_channels": None,
    }  # fmt: skip
    saver.put(config(thread, number - 1), checkpoint, {"step": number}, {"photos": version})


def memory_figure(field: str) -> int:
    """Return a figure of this process's memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def growth(call: Callable[[], object]) -> int:
    """Return by how many bytes the resident set grew within a call, at most."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory_figure("VmRSS")
    call()
    return memory_figure("VmHWM") - before


def print_growth(saver: AlveusSaver) -> None:
    """Print as JSON how far each call grows, as times of a large value."""
    value = [random.Random(number).randbytes(LARGE_BYTES // 8) for number in range(8)]
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: put_value(saver, "ada", 1, value),
        "read": lambda: saver.get_tuple(config("ada")),
        "put more": lambda: put_value(saver, "ada", 2, [photo(0), *value]),
        "write": lambda: saver.put_writes(config("ada", 2), [("photos", [*value, photo(1)])], "t"),
        "copy": lambda: saver.copy_thread("ada", "bob"),
    }
    grown = {name: growth(call) / LARGE_BYTES for name, call in calls.items()}
    sys.stdout.write(json.dumps(grown))


def main() -> None:
    """Store one checkpoint after the other."""
    place, thread = sys.argv[1:]
    with Memory.open(place, embedder="words", durability="normal") as memory:
        saver = AlveusSaver(memory)
        if thread == "--memory":
            print_growth(saver)
            return
        last = saver.get_tuple(config(thread))
        begin = 1 if last is None else int(last.checkpoint["id"]) + 1
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        for number in range(begin, MOST + 1):
            put(saver, thread, number)
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
