"""What tests of compaction share: a clock that goes on, numbered notes, items to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from alveus import Item
from alveus.testing import Clock


def ticking() -> Clock:
    """Return a clock that goes on a second with each look."""
    return Clock(step=timedelta(seconds=1))


def numbered(count: int, start: int = 0) -> list[str]:
    return [f"note {n}" for n in range(start, start + count)]


def whole(items: Sequence[Item]) -> list[Item]:
    """Return items without what an undo may change: their versions, and when they were read."""
    return [replace(item, version=0, accessed=None) for item in items]


def loose(value: object) -> Any:
    """Return *value* as anything, to pass what users without types may pass."""
    return value
