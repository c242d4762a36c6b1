"""Turns vectors into bytes and back, scales them to length 1, and groups near rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from alveus.errors import InvalidInput
from alveus.values.native import NATIVE

F = TypeVar("F", bound=np.floating[Any])

Vectors: TypeAlias = NDArray[np.float32]
"""Rows of numbers, shape (rows, dimensions)."""

Vector: TypeAlias = NDArray[np.float32]
"""A row of numbers."""

ROWS_AND_NUMBERS = 2
"""Axes of an array of vectors."""

LARGEST = 127
"""The magnitude of the largest number of a quantised row."""

SCALE_BYTES = 4
"""Bytes of the scale before a packed vector, a float32."""


def quantise(vectors: Vectors) -> bytes:
    """Return rows as int8, one after the other, each stretched until its largest number is 127.

    The direction of a row is kept, to a cosine of 0.9999 for rows of embedders. The length of a row
    is not kept. A zero row stays zero. The same rows give the same bytes everywhere.

    Args:
        vectors: Finite numbers, shape (rows, dimensions).

    Raises:
        InvalidInput: *vectors* has another shape, or a number is not finite.
    """
    if vectors.ndim != ROWS_AND_NUMBERS:
        raise InvalidInput(f"vectors must have the shape (n, dimensions), not {vectors.shape}")
    if not vectors.size:
        return b""
    flags = vectors.flags
    if NATIVE and vectors.dtype == np.float32 and flags.c_contiguous and flags.aligned:
        packed = NATIVE.quantise(vectors, vectors.shape[1])
        if packed is not None:
            return packed
    return _quantise(vectors)


def _quantise(vectors: Vectors) -> bytes:
    largest = np.maximum.reduce(np.abs(vectors), axis=1)
    if not math.isfinite(largest.sum(dtype=np.float64)):  # NaN if one number of a row is
        raise InvalidInput("a vector contains a number that is not finite; embed the text again")
    largest[largest == 0] = 1
    scale = LARGEST / largest.astype(np.float64)
    return np.rint(vectors * scale[:, None]).astype(np.int8).tobytes()


def quantise_each(windows: Sequence[Vectors]) -> list[bytes]:
    """Return the result of `quantise` for each array, quicker than by single calls.

    All arrays must have the same width.
    """
    if not windows:
        return []
    packed = quantise(np.concatenate(windows))
    width, parts, at = windows[0].shape[1], list[bytes](), 0
    for rows in windows:
        parts.append(packed[at : at + len(rows) * width])
        at += len(rows) * width
    return parts


def dequantise(blob: bytes, dimensions: int) -> NDArray[np.int8]:
    """Return the int8 rows that `quantise` wrote, shape (rows, *dimensions*), read-only.

    A row is a direction: divided by its length it is the unit vector, so no scale is stored.
    If *dimensions* is 0, there are no rows.

    Raises:
        InvalidInput: The bytes are not a whole number of rows.
    """
    whole = len(blob) % dimensions == 0 if dimensions > 0 else not blob and dimensions == 0
    if not whole:
        raise InvalidInput(
            f"{len(blob)} bytes cannot be divided into vectors of {dimensions} dimensions"
        )
    rows = len(blob) // dimensions if dimensions else 0
    return np.frombuffer(blob, dtype=np.int8).reshape(rows, dimensions)


def pack_vector(vector: Vector) -> bytes:
    """Return a vector as bytes: a scale, then int8 numbers. `unpack_vector` reads them.

    The error of a number is at most half of 1/127 of the largest number, so the small numbers of a
    long vector are kept. One-byte floats lose them.

    Args:
        vector: Finite numbers, shape (dimensions,).

    Raises:
        InvalidInput: *vector* has another shape, or a number is not finite.
    """
    if vector.ndim != 1:
        raise InvalidInput(f"a vector must have one dimension, not the shape {vector.shape}")
    largest = np.abs(vector).max(initial=0.0)
    rows = quantise(vector[None])
    return np.float32(largest / LARGEST).astype("<f4").tobytes() + rows


def unpack_vector(blob: bytes) -> Vector:
    """Return the float32 vector that `pack_vector` wrote.

    Raises:
        InvalidInput: The bytes are not a packed vector.
    """
    scale = np.frombuffer(blob, "<f4", 1)[0] if len(blob) >= SCALE_BYTES else np.float32(math.nan)
    if not 0.0 <= scale < math.inf:
        raise InvalidInput(f"{len(blob)} bytes are not a vector with a scale")
    return np.frombuffer(blob, np.int8, offset=SCALE_BYTES) * scale


def float8(data: bytes | Sequence[int]) -> Vector:
    """Return a vector of one-byte floats, the format in which thinker stores vectors, as float32.

    A byte has a sign, four bits of exponent and three of mantissa: (1 + m / 8) * 2 ** (e - 7),
    and 0 for the byte 0x00. No byte means NaN or infinity.

    Raises:
        InvalidInput: A number is not a byte.
    """
    try:
        codes = np.frombuffer(bytes(data), np.uint8)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"one-byte floats must be bytes, or numbers from 0 to 255 ({error})"
        ) from error
    sign = np.where(codes & 0x80, -1.0, 1.0)
    values = sign * (1 + (codes & 0x07) / 8) * 2.0 ** (((codes >> 3) & 0x0F) - 7.0)
    return np.where(codes, values, 0.0).astype(np.float32)


def unit(vectors: NDArray[F]) -> NDArray[F]:
    """Return rows of length 1 in the directions of *vectors*. Zero rows stay zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    if 0.0 in lengths.tolist():  # for one row quicker than a test by NumPy
        lengths[lengths == 0] = 1
    return vectors / lengths[:, None]


def as_texts(texts: Sequence[str]) -> Sequence[str]:
    """Return *texts*. A single text is refused, because it would be read letter by letter.

    Raises:
        InvalidInput: *texts* is a `str`.
    """
    if isinstance(texts, str):
        raise InvalidInput("embed() needs a list of texts, not one text; write embed([text])")
    return texts


MOST_JOINED = 1_000
"""Most rows that are grouped by joining. If there are more, an even sample is joined, and then each
row goes to the group with the nearest mean."""

DECIMALS = 4
"""Decimals of a cosine that count, because smaller differences are rounding. If two groups are
equally near, the earlier one gets the row."""


def grouped(rows: Vectors, limit: int) -> list[list[int]]:
    """Return the positions of *rows*, of unit length or zero, in at most *limit* groups.

    The positions in a group ascend, no group is empty, and groups are in the order of their first
    positions. Equal rows are in one group.
    """
    if limit == 1:
        return [list(range(len(rows)))]
    step = -(-len(rows) // MOST_JOINED)
    groups = _joined(rows[::step], limit)
    if step > 1:
        means = np.stack([rows[::step][group].mean(axis=0) for group in groups])
        nearest = np.argmax(np.round(rows @ unit(means).T, DECIMALS), axis=1)
        groups = [np.flatnonzero(nearest == at).tolist() for at in np.unique(nearest)]
    return sorted(groups)


def _joined(rows: Vectors, limit: int) -> list[list[int]]:
    """Return groups, made by repeated joins of the two groups with the least distance.

    Rows stay as near to the means of their groups as possible (Ward, 1963). The distances of a
    joined group are computed from those of its two parts (Lance and Williams, 1967).
    """
    products = np.round(rows @ rows.T, DECIMALS).astype(np.float64)
    squares = products.diagonal()
    apart = squares[:, None] + squares - 2 * products
    np.fill_diagonal(apart, np.inf)
    groups, sizes = [[at] for at in range(len(rows))], np.ones(len(rows))
    for left in range(len(rows), 1, -1):
        kept, gone = sorted(divmod(int(apart.argmin()), len(rows)))
        if left <= limit and apart[kept, gone] > 0:
            break
        one, other = sizes[kept], sizes[gone]
        joined = (one + sizes) * apart[kept] + (other + sizes) * apart[gone]
        joined -= sizes * apart[kept, gone]
        apart[kept] = apart[:, kept] = joined / (one + other + sizes)
        apart[gone] = apart[:, gone] = apart[kept, kept] = np.inf
        sizes[kept], sizes[gone] = one + other, 0
        groups[kept] += groups[gone]
        groups[gone] = []
    return [sorted(group) for group in groups if group]
