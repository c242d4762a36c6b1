"""A process that learns, to be killed: ``python facts_worker.py DATABASE KEY [CALLS AHEAD_S]``.

It says "ready", waits for a line, and says a line for each call of its model. Each answer carries
a token of its own, and takes a few milliseconds, so that two processes meet at each step. CALLS is
the budget of an hour, in a space of the key's name, by a clock that is so many seconds ahead.
"""

from __future__ import annotations

import random
import sys
import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from alveus import Memory
from alveus.facts import LearnOptions
from facts_script import scripted


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


def run(place: str, key: str, calls: str = "", ahead_s: str = "0") -> None:
    """Learn from the conversation of a key, once a line was read."""
    ahead = timedelta(seconds=float(ahead_s))
    with Memory.open(
        place,
        space=key if calls else "default",
        embedder="words",
        clock=lambda: datetime.now(UTC) + ahead,
    ) as opened:
        say("ready")
        sys.stdin.readline()
        report = opened.key(key).learn(
            opened.key(key).conversation("chat"),
            model=scripted(token),
            options=LearnOptions(batch_messages=6, calls_per_hour=int(calls) if calls else None),
        )
        say(f"done, {report.waiting} wait")


if __name__ == "__main__":
    run(*sys.argv[1:])
