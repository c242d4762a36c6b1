"""The pace of a runner: which actions are quick, and how long tasks are gathered for a commit."""

from __future__ import annotations

import time

SLICE_S = 0.002
"""How long a worker goes on before it commits: what the first of a group waits at most, if all
its actions and the store are quick."""

LONGEST_SLICE_S = 0.05

PER_COMMIT = 2.0
"""Times as long as a commit takes a worker goes on before it, if that is longer: a group that
waits for the disk is to be worth it."""

QUICK_S = 0.001
"""Actions while which the process was idle for less lately are done one after the other by one
worker: where it is busy all the time, by this thread or others, more of them would only be in each
other's way."""

LATELY = 0.3
"""Weight of the last time, in averages of lately."""


class Pace:
    """How long actions and commits took lately.

    Attributes:
        slice_s: How long a worker goes on before it commits.
    """

    def __init__(self) -> None:
        self.slice_s = SLICE_S
        self._commit_s = 0.0
        self._idle: dict[str, float] = {}
        self._doubted: set[str] = set()

    def is_quick(self, action: str) -> bool:
        """Return whether the process is hardly ever idle while an action is done."""
        return self._idle.get(action, 1.0) <= QUICK_S

    def worked(self, action: str) -> float | None:
        """Return how long the process has worked so far, if `acted` needs to know that.

        Asking takes longer than a quick action does: for those it is left out until one took long.
        """
        if action in self._doubted or self._idle.get(action, 1.0) > QUICK_S:
            return time.process_time()
        return None

    def acted(self, action: str, took: float, worked: float | None) -> None:
        """Note how long an action took, and what `worked` said when it began."""
        if took > QUICK_S:
            self._doubted.add(action)
        elif worked is not None:
            self._doubted.discard(action)
        if worked is not None:
            idle = took - (time.process_time() - worked)
            last = self._idle.get(action, idle)
            self._idle[action] = last + LATELY * (idle - last)

    def committed(self, took: float) -> None:
        """Note how long a commit took."""
        self._commit_s += LATELY * (took - self._commit_s)
        self.slice_s = min(max(SLICE_S, PER_COMMIT * self._commit_s), LONGEST_SLICE_S)
