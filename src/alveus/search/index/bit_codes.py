"""One bit per dimension: the signs of vectors, by which the candidates of a search are found.

Two vectors that point the same way agree in most signs. Of 13,882 texts embedded by MiniLM the 200
nearest by signs held 98.9 % of the ten best by cosine, the 400 nearest 99.7 %. Turning the vectors
at random, or taking their mean off first, made no difference beyond chance; neither is done, and so
a code depends on its own row alone.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from alveus.search.index.segment import Damaged, Segment
from alveus.values.native import NATIVE, Native

BLOCK = 32_768
"""Rows compared at a time; what a block needs mostly stays in the L2 cache."""

RARE = 32
"""Of so many rows one or fewer are asked for: then only those are read."""

SAMPLE = 16_384
"""Distances that a first guess of the cut is made from."""

FAR = 0xFFFF
"""The distance of a row that is not to be found."""

Codes = NDArray[np.uint64]


def words(dimensions: int) -> int:
    """Return how many 64-bit words a code of *dimensions* bits has."""
    return -(-dimensions // 64)


def encoded(rows: NDArray[np.int8]) -> Codes:
    """Return the codes of rows, as an array of words by rows."""
    packed = np.packbits(rows > 0, axis=1)
    wide = np.zeros((len(rows), 8 * words(rows.shape[1])), np.uint8)
    wide[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(wide.view("<u8").T)


class Bits:
    """The codes of a set's rows, in blocks of words by rows.

    Args:
        sealed: A file with full blocks.

    Raises:
        Damaged: Its blocks have another shape.
    """

    def __init__(self, dimensions: int, *, sealed: Segment | None = None) -> None:
        self._words = words(dimensions)
        self._segment = sealed
        self._blocks: list[Codes] = []
        if sealed:
            codes = sealed.array("codes")
            if codes.shape[1:] != (self._words, BLOCK):
                raise Damaged(sealed.path, "its codes have another shape")
            self._blocks.extend(codes)
        self._sealed = len(self._blocks)
        self.size = self._sealed * BLOCK

    def extend(self, rows: NDArray[np.int8]) -> None:
        """Take the codes of further rows."""
        while len(rows):
            used = self.size % BLOCK
            if not used:
                self._blocks.append(np.empty((self._words, BLOCK), np.uint64))
            part = rows[: BLOCK - used]
            self._blocks[-1][:, used : used + len(part)] = encoded(part)
            self.size += len(part)
            rows = rows[len(part) :]

    def distances(self, code: Codes, chosen: NDArray[np.intp] | None = None) -> NDArray[np.uint16]:
        """Return in how many bits each row differs from *code*, of all rows or the *chosen*."""
        if chosen is not None:
            return self._of_some(code, chosen)
        found = np.empty(self.size, np.uint16)
        if NATIVE is None or not self._count_by(NATIVE, code, found):
            self._count(code, found)
        return found

    def _count(self, code: Codes, found: NDArray[np.uint16]) -> None:
        differing = np.empty((self._words, min(BLOCK, self.size)), np.uint64)
        counts = np.empty(differing.shape, np.uint8)
        for number, start in enumerate(range(0, self.size, BLOCK)):
            block = self._block(number)
            size = min(BLOCK, self.size - start)
            np.bitwise_xor(block[:, :size], code, out=differing[:, :size])
            np.bitwise_count(differing[:, :size], out=counts[:, :size])
            part = found[start : start + size]
            np.add.reduce(counts[:, :size], axis=0, dtype=np.uint16, out=part)

    def _count_by(self, compiled: Native, code: Codes, found: NDArray[np.uint16]) -> bool:
        """Do the same by compiled code; return whether it could."""
        for number, start in enumerate(range(0, self.size, BLOCK)):
            part = found[start : start + BLOCK]
            if not compiled.differing(self._block(number), BLOCK, code, part):
                return False
        return True

    def few(self, count: int) -> bool:
        """Return whether so many rows are best read one by one."""
        return count < self.size // RARE

    def _of_some(self, code: Codes, chosen: NDArray[np.intp]) -> NDArray[np.uint16]:
        found = np.empty(len(chosen), np.uint16)
        bounds = np.searchsorted(chosen, np.arange(len(self._blocks) + 1) * BLOCK).tolist()
        for number, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                picked = self._block(number)[:, chosen[start:stop] - number * BLOCK]
                counts = np.bitwise_count(picked ^ code)
                np.add.reduce(counts, axis=0, dtype=np.uint16, out=found[start:stop])
        return found

    def _block(self, number: int) -> Codes:
        if self._segment and number < self._sealed:
            self._segment.check_entries("codes", number, number + 1)
        return self._blocks[number]

    def full_blocks(self) -> list[Codes]:
        """Return the blocks that are full, to be sealed, each as an array of one."""
        return [block[None] for block in self._blocks[: self.size // BLOCK]]

    @property
    def nbytes(self) -> int:
        """Bytes of RAM they take."""
        return sum(block.nbytes for block in self._blocks[self._sealed :])


def nearest(
    distances: NDArray[np.uint16], owner: NDArray[np.int32], limit: int, *, among: int | None = None
) -> NDArray[np.int32]:
    """Return the *limit* owners with the least distance, rising; of equal ones the first.

    An owner's distance is the least of its rows'.

    Args:
        among: How many of the rows are not `FAR`; None: all.
    """
    among = len(distances) if among is None else among
    step = max(1, len(distances) // SAMPLE)
    sample = distances[::step]
    guess = min(len(sample) - 1, limit * 5 // (4 * step) + 8)
    cut = min(int(np.partition(sample, guess)[guess]), FAR - 1)
    while True:
        at = np.flatnonzero(distances <= cut)
        docs, near = _least(owner[at], distances[at])
        if len(docs) >= limit or len(at) == among:
            break
        cut = min(cut + max(1, cut // 16), FAR - 1)
    if len(docs) <= limit:
        return docs
    last = np.partition(near, limit - 1)[limit - 1]
    ties = np.flatnonzero(near == last)[: limit - int((near < last).sum())]
    chosen = near < last
    chosen[ties] = True
    return docs[chosen]


def _least(
    docs: NDArray[np.int32], near: NDArray[np.uint16]
) -> tuple[NDArray[np.int32], NDArray[np.uint16]]:
    """Return each document once, rising, with its least distance."""
    if (docs[1:] > docs[:-1]).all():
        return docs, near
    order = np.lexsort((near, docs))
    docs, near = docs[order], near[order]
    first = np.append(True, docs[1:] != docs[:-1])
    return docs[first], near[first]
