"""A process that learns, to be killed: ``python facts_worker.py DATABASE KEY``.

It says "ready", waits for a line, and says a line for each call of its model. Each answer carries
a token of its own, and takes a few milliseconds, so that two processes meet at each step.
"""

from __future__ import annotations

import random
import sys
import time
from uuid import uuid4

from facts_script import scripted
from fornix import Memory
from fornix.facts import LearnOptions


def say(word: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def token() -> str:
    """Return what tells this answer from all others."""
    mark = uuid4().hex
    say(mark)
    time.sleep(random.random() * 0.004)  # noqa: TID251 - as a model thinks
    return mark


if __name__ == "__main__":
    with Memory.open(sys.argv[1], embedder="words") as opened:
        say("ready")
        sys.stdin.readline()
        opened.key(sys.argv[2]).learn(
            opened.key(sys.argv[2]).conversation("chat"),
            model=scripted(token),
            options=LearnOptions(batch_messages=6),
        )
        say("done")
