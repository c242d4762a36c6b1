"""Vectors of what a window holds, at hand: how near each observation is to a prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fornix.batch import AFTER_ALL
from fornix.context.held import Column, Held
from fornix.context.kept import Entry
from fornix.embed import LARGEST, Vector
from fornix.index import Quantised

SIDES = 2
"""Vectors of an observation: of what was asked, and of what was answered."""

BLOCK = 512
"""Slots compared at once: their float32 rows fit a processor's cache."""


class Rows:
    """Two int8 rows for each slot of a `Held`: a side without a vector has zeros.

    Used under the lock of the window's mirror.
    """

    def __init__(self, dimensions: int) -> None:
        self._rows: NDArray[np.int8] = np.zeros((0, SIDES, dimensions), np.int8)
        self._norms: Column = np.zeros((0, SIDES))
        self._first: Column = np.zeros(0, np.int64)

    def missing(self, held: Held) -> list[Entry]:
        """Return those whose vectors are not at hand; those of a batch are always made anew."""
        self._grow(len(held.live))
        slots = held.slots
        first = held.first[slots]
        unknown = (self._first[slots] != first) | (first >= AFTER_ALL)
        return [held.at(int(slot)) for slot in slots[unknown]]

    def put(self, held: Held, entry: Entry, sides: Sequence[Vector | None]) -> None:
        """Have the vectors of an observation at hand, if it is still held."""
        if entry.id not in held:
            return
        slot = held.slot(entry.id)
        self._grow(len(held.live))
        self._rows[slot], self._first[slot] = 0, entry.first
        for side, vector in enumerate(sides):
            if vector is not None and (largest := float(np.abs(vector).max(initial=0.0))):
                self._rows[slot, side] = np.rint(vector * (LARGEST / largest))
        self._norms[slot] = np.sqrt(np.square(self._rows[slot].astype(np.float64)).sum(axis=1))

    def cosines(self, held: Held, query: Quantised) -> Column:
        """Return, by slot, the cosine of the side that is nearer; -inf without vectors.

        The same on every machine: see `fornix.index.vectors`.
        """
        size = len(held.live)
        self._grow(size)
        found = np.full(size, -np.inf)
        for at in range(0, size, BLOCK):
            rows = self._rows[at : min(at + BLOCK, size)]
            products = rows.reshape(-1, rows.shape[2]).astype(np.float32) @ query.whole
            norms = self._norms[at : at + len(rows)] * query.norm
            each = np.full(norms.shape, -np.inf)
            np.divide(products.reshape(norms.shape), norms, out=each, where=norms > 0)
            found[at : at + len(rows)] = each.max(axis=1)
        found[~held.live | (self._first[:size] != held.first)] = -np.inf
        return found

    def _grow(self, size: int) -> None:
        more = size - len(self._first)
        if more > 0:
            self._rows = np.concatenate(
                (self._rows, np.zeros((more, *self._rows.shape[1:]), np.int8))
            )
            self._norms = np.concatenate((self._norms, np.zeros((more, SIDES))))
            self._first = np.concatenate((self._first, np.full(more, -1)))
