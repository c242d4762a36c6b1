"""A clock for tests, that is moved by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Tells the time that it was set to; each look is a millisecond later.

    Attributes:
        now: The time it told last.
    """

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        """Return the time."""
        self.now += timedelta(milliseconds=1)
        return self.now

    def move(self, **by: float) -> None:
        """Move on, or back: ``clock.move(hours=1)``."""
        self.now += timedelta(**by)
