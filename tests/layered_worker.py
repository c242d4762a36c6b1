"""A process that commits to a window of layers, which reflects; it may be killed.

``python layered_worker.py DATABASE NAME [COUNT]`` commits so many observations, or for ever, looks
at the window after each, and prints what it committed.
"""

from __future__ import annotations

import os
import sys
from itertools import count

from alveus import Memory
from alveus.agents.windows import Hierarchical, Observation, Reflection, Reply
from alveus.text.messages import Message
from waiting import LIMIT_S


def seen(observations):
    """What follows: the names of what it was drawn from."""
    return "+".join(str(one.query.content) for one in observations)


def window_of(memory):
    """The window that the processes share."""
    reflection = Reflection(1.0, seen)
    return Hierarchical(4, 8, 10_000, memory=memory.key("ada"), reflection=reflection)


def main(url, name, most="0"):
    """Commit observations of importance 1/4."""
    with Memory.open(url, embedder="words", durability="normal", wait_s=LIMIT_S) as memory:
        window = window_of(memory)
        for number in range(int(most)) if int(most) else count():
            reply = Reply(Message("r", "assistant"), importance=0.25)
            window.commit(Observation(f"{name}{number}", reply))
            window.context(None)
            os.write(1, f"{name}{number}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
