"""How tests wait for another thread or process: for what happens, never for a time to pass.

A bound guards against hanging for ever and is no law, so it is far above what any machine needs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

LIMIT_S = 300
"""How long a test waits at most for what does happen."""

SHORT_S = 0.05  # for what cannot happen
"""How long a test waits for what cannot happen: longer would only make it more sure."""


def wait_until(
    what: Callable[[], object],
    problem: str | Callable[[], str] = "it did not come to be",
    *,
    limit_s: float = LIMIT_S,
) -> None:
    """Wait, bounded, until *what* is so; *problem* says what is wrong if it never is.

    To ask may be work itself, which takes a core from whoever is waited for: twice as long as that
    took is left to them.
    """
    asked = time.monotonic()  # noqa: TID251 - a guard against hanging
    deadline = asked + limit_s
    while not what():
        now = time.monotonic()  # noqa: TID251 - the same
        assert now < deadline, problem if isinstance(problem, str) else problem()
        time.sleep(max(0.002, 2 * (now - asked)))  # noqa: TID251 - another thread or process does it
        asked = time.monotonic()  # noqa: TID251 - the same


def written(log: Path) -> int:
    """Return how many bytes a write-ahead log holds: zeros behind them are only to be quick."""
    try:
        return len(log.read_bytes().rstrip(b"\0"))
    except FileNotFoundError:
        return 0


def rounds(seconds: float, *, least: int = 1) -> Iterator[int]:
    """Count up from 0 for so many seconds, and at least so often, however slow the machine is."""
    end = time.monotonic() + seconds  # noqa: TID251 - how much is done, not what comes of it
    for number in itertools.count():
        if number >= least and time.monotonic() >= end:  # noqa: TID251 - the same
            return
        yield number
