"""A process that commits to windows and is going to be killed.

``python stream_worker.py DATABASE`` commits observations to a window of five and to one without
a limit, and prints the id of each when both have it.
"""

from __future__ import annotations

import os
import sys

from alveus import Memory
from alveus.agents.windows import Observation, Stream

CAP = 5


def windows(memory: Memory) -> tuple[Stream, Stream]:
    """Return both windows."""
    key = memory.key("ada")
    return Stream(CAP, memory=key, name="few"), Stream(None, memory=key, name="all")


def main() -> None:
    """Commit until somebody ends this."""
    with Memory.open(sys.argv[1], embedder="words", durability="normal") as memory:
        few, everything = windows(memory)
        while True:
            one = Observation("what is it?", "it is " + "so " * 20)
            few.commit(one)
            everything.commit(one)
            os.write(1, f"{one.created}\n".encode())


if __name__ == "__main__":
    main()
