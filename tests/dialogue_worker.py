"""A process that talks, and is going to be killed, or in another one's way.

``python dialogue_worker.py DATABASE NAME FIRST COUNT`` adds turns FIRST … FIRST+COUNT-1 of a
request, a tool call and its answer, sums up what is old, and prints the number of each turn that it
added. ``ALVEUS_CRASH=STEP:WHEN:COUNT`` ends it, by SIGKILL, at a step of a commit.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from alveus import Memory
from layers_worker import crash
from waiting import LIMIT_S

EVERY = 3
"""Turns after which what is old is summed up."""


def turn(name: str, n: int) -> list[dict[str, Any]]:
    """Return a turn: what is asked, what is called, what that gives."""
    asked = {
        "id": f"{name}{n}",
        "type": "function",
        "function": {"name": "look", "arguments": "{}"},
    }
    return [
        {"id": f"{name}-{n}-asks", "role": "user", "content": f"What is number {n}?"},
        {"id": f"{name}-{n}-calls", "role": "assistant", "content": None, "tool_calls": [asked]},
        {
            "id": f"{name}-{n}-says",
            "role": "tool",
            "tool_call_id": f"{name}{n}",
            "content": f"It is {n}.",
        },
    ]


def main(path: str, name: str, first: int, count: int) -> None:
    with Memory.open(path, embedder="words", wait_s=LIMIT_S) as memory:
        talk = memory.key("ada").conversation("talk")
        for n in range(first, first + count):
            talk.add(turn(name, n))
            sys.stdout.write(f"{n}\n")
            sys.stdout.flush()
            if n % EVERY == 0:
                talk.compress(keep_recent=2)


if __name__ == "__main__":
    if "ALVEUS_CRASH" in os.environ:
        crash(os.environ["ALVEUS_CRASH"])
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
