"""Large checkpoints, until it is killed: ``python large_states_worker.py PLACE THREAD``.

It says "ready", waits for a line, and says the number of each checkpoint that is stored.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from alveus import Memory
from alveus.integrations.langgraph import AlveusSaver

PHOTO_BYTES = 700_000
MOST = 12


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
    version = f"{number:032}"
    checkpoint: Any = {
        "v": 1, "id": f"{number:04}", "ts": "", "channel_values": {"photos": photos(number)},
        "channel_versions": {"photos": version}, "versions_seen": {}, "updated_channels": None,
    }  # fmt: skip
    at = config(thread, number)
    saver.put(config(thread, number - 1), checkpoint, {"step": number}, {"photos": version})
    saver.put_writes(at, [("photos", photos(number)[-2:])], "task")


def main() -> None:
    """Store one checkpoint after the other."""
    place, thread = sys.argv[1:]
    with Memory.open(place, embedder="words", durability="normal") as memory:
        saver = AlveusSaver(memory)
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
