"""A process that prompts an agent with tools and is going to be killed.

``python automata_worker.py DATABASE LEDGER FIRST COUNT`` prompts an agent COUNT times, and prints
the number of each prompt when it has its answer. What its model and its tool are asked goes to the
ledger, a line each. ``ALVEUS_CRASH=STEP:before|after:COUNT`` ends it, by SIGKILL, at a step, for
the COUNT-th time.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from alveus import Memory
from alveus.agents.automata import Manifold
from alveus.agents.windows import Stream
from alveus.llm import Unfit
from alveus.store.sqlite import SqliteStore
from layers_worker import crash
from waiting import LIMIT_S

TOOL = "tool"
CALLS = ("model", TOOL, "model", "model")
"""What a prompt asks of the world."""


class World:
    """A model and a tool, which write down that they were asked."""

    def __init__(self, ledger: str) -> None:
        self._ledger = ledger

    def _note(self, *words: object) -> None:
        with Path(self._ledger).open("a", encoding="utf-8") as book:
            book.write(f"{' '.join(map(str, words))}\n")

    def model(self, messages: list[dict[str, str]]) -> str:
        """Call the tool, give a bad answer, and then a good one."""
        asked = messages[-1]["content"]
        n = int("".join(c for c in asked if c.isdecimal()))
        self._note("model", n)
        if asked.startswith("prompt"):
            return json.dumps({"tool": TOOL, "arguments": {"n": n}})
        return f"bad {n}" if asked.startswith("{") else f"done {n}"

    def book(self, n: int) -> str:
        """Book something."""
        self._note(TOOL, n)
        return f"booked {n}"


STEPS: dict[str, tuple[Any, str]] = {
    "accept": (SqliteStore, "accept"),
    "record": (SqliteStore, "commit"),
    "step": (SqliteStore, "commit_many"),
    "model": (World, "model"),
    TOOL: (World, "book"),
}
"""Where a worker can be killed."""


def decode(reply: object) -> str:
    """Refuse a bad answer."""
    if str(reply).startswith("bad"):
        raise Unfit(f"it is {reply}")
    return str(reply)


def expected(prompts: int) -> list[str]:
    """Return what the window holds after so many prompts."""
    said: list[str] = []
    for n in range(prompts):
        call = json.dumps({"tool": TOOL, "arguments": {"n": n}})
        answer = json.dumps({"tool": TOOL, "answer": f"booked {n}"})
        again = f"Your answer could not be used: it is bad {n}. Answer again."
        said += [f"prompt {n}", call, answer, f"bad {n}", again, f"done {n}"]
    return said


def main(path: str, ledger: str, first: int, count: int) -> None:
    world = World(ledger)
    with Memory.open(path, embedder="words", wait_s=LIMIT_S) as memory:
        window = Stream(None, memory=memory.key("ada"))
        agent = Manifold(world.model, {TOOL: world.book}, window, decoder=decode)
        for n in range(first, first + count):
            assert agent.prompt(f"prompt {n}", event_id=f"prompt {n}") == f"done {n}"
            sys.stdout.write(f"{n}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if "ALVEUS_CRASH" in os.environ:
        crash(os.environ["ALVEUS_CRASH"], STEPS)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
