"""A process of its own that commits to a window of layers, with a reflection."""

from __future__ import annotations

import sys

from fornix import Memory
from fornix.context import Hierarchical, Observation, Reflection, Reply
from fornix.messages import Message


def seen(observations):
    return "+".join(str(one.query.content) for one in observations)


def window_of(memory):
    """The window that the processes share."""
    reflection = Reflection(1.0, seen)
    return Hierarchical(4, 8, 200, memory=memory.key("ada"), reflection=reflection)


def main(url, letter):
    """Commit twenty observations, and look at the window after each."""
    with Memory.open(url, embedder="static", wait_s=60) as memory:
        window = window_of(memory)
        for number in range(20):
            reply = Reply(Message("r", "assistant"), importance=0.25)
            window.commit(Observation(f"{letter}{number}", reply))
            window.context(None)


if __name__ == "__main__":
    main(*sys.argv[1:])
