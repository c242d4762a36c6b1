"""Memories for tests: with a clock that is moved by hand and an embedder that costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from alveus import Item
from alveus.testing import START, Clock

__all__ = ["START", "Clock", "Letters", "texts"]


class Letters:
    """An embedder that counts letters: alike texts are near, and it needs no weights.

    Args:
        instant: Whether it runs inside the commit.
    """

    dimensions = 26

    def __init__(self, *, instant: bool = True, name: str = "letters") -> None:
        self.name, self.instant = name, instant
        self.asked: list[str] = []
        self.broken: Exception | None = None

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit row per text."""
        if self.broken is not None:
            raise self.broken
        self.asked += texts
        rows = np.array([[t.lower().count(chr(97 + i)) for i in range(26)] for t in texts], float)
        rows = rows.reshape(len(texts), 26) + 1e-3
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def texts(items: Sequence[Item]) -> list[str | None]:
    """Return what meaning reads of each item."""
    return [item.text for item in items]
