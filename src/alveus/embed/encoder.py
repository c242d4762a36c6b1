"""An encoder of texts in NumPy: layers of attention over the pieces of a text, then their mean.

It runs the models `minilm` and `multilingual`, whose layers have the same form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cache
from itertools import count, groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from alveus.embed.vectors import Vectors, as_texts, unit
from alveus.embed.wordpiece import READ, window_starts
from alveus.values.lazy import lazy_attribute
from alveus.values.lazy_dataclass import dataclass

DIMENSIONS = 384
"""Numbers of a row. Source: `config.json` of both models, as for `HEADS`."""

HEADS = 12
"""Attention heads of a layer."""

SMALLEST_VARIANCE = 1e-12
"""Added to the variance when a row is normalised. Source: as for `HEADS`."""

BATCH_PIECES = 1024
"""Word pieces that go through the model together: more are no faster, and take more memory."""

GELU = (
    0.7978281362850228,
    0.036468789526898415,
    -0.00012486064245312569,
    -3.058121225608204e-05,
    1.1190945280898277e-06,
)
"""The odd polynomial p for which x/2·(1 + tanh p(x)) is x·Φ(x), the model's GELU, to 3.1e-6.

Fitted for alveus: least squares on 0 < x < 7, re-weighted towards the worst point. Beyond 7,
tanh is ±1.
"""

GELU_ROWS = 64
"""Rows that are computed together: they fit a core's second cache."""


FEW_ROWS = 32
"""A product of at most this many rows, as one short text has, is cut into small products."""

SMALL_ROWS, SMALL_COLUMNS = 8, 32
"""Size of a small product. OpenBLAS has a faster way below a million multiplications."""

PARTS = 8
"""Parts of a matrix computed at a time for the first short text; they fit into the cache."""

MATRICES = ("heads", "mixed", "wide", "narrow")
"""The names of the four matrices of a layer in a weights file."""


@dataclass(frozen=True)
class WholeMatrix:
    """A float32 matrix, shape (numbers in, numbers out), and its bias."""

    matrix: Vectors
    bias: Vectors

    def __call__(self, rows: Vectors) -> Vectors:
        """Return *rows* times the matrix, plus the bias."""
        out = rows @ self.matrix
        out += self.bias
        return out


@dataclass(frozen=True)
class Dense:
    """A matrix, shape (numbers in, numbers out), and its bias.

    Attributes:
        packed: The matrix before scaling, as int8; or the matrix itself.
        bias: Added to the product.
        scales_in: The factor of each row, shape (numbers in, 1).
        scales_out: The factor of each column, shape (1, numbers out).
        calls: Counts the calls with few rows.
    """

    packed: NDArray[np.int8] | Vectors
    bias: Vectors
    scales_in: Vectors | float = 1.0
    scales_out: Vectors | float = 1.0
    calls: Iterator[int] = field(default_factory=count, repr=False, compare=False)

    def __call__(self, rows: Vectors) -> Vectors:
        """Return *rows* times the matrix, plus the bias."""
        out = np.empty((len(rows), len(self.bias)), dtype=np.float32)
        if len(rows) > FEW_ROWS or not has_small_products():
            np.matmul(rows, self.matrix, out=out)
        else:
            for columns, parts in self._by_columns():
                for at in range(0, len(rows), SMALL_ROWS):
                    block = out[at : at + SMALL_ROWS]
                    by_part = block.reshape(len(block), -1, SMALL_COLUMNS).swapaxes(0, 1)
                    np.matmul(rows[at : at + SMALL_ROWS], parts, out=by_part[columns])
        out += self.bias
        return out

    @lazy_attribute
    def matrix(self) -> Vectors:
        """The scaled matrix, computed at the first call with many rows."""
        matrix = np.multiply(self.packed, self.scales_in, dtype=np.float32)
        matrix *= self.scales_out
        return matrix

    def _by_columns(self) -> Iterator[tuple[slice, Vectors]]:
        """Yield parts of the matrix with their positions.

        The parts for the first text are not kept, because many processes embed no second text.
        """
        if next(self.calls):
            yield slice(None), self.parts
            return
        for at in range(0, len(self.bias) // SMALL_COLUMNS, PARTS):
            yield slice(at, at + PARTS), self._made(slice(at, at + PARTS))

    @lazy_attribute
    def parts(self) -> Vectors:
        """The scaled matrix in parts of a few columns, made at the second call with few rows."""
        return self._made(slice(None))

    def _made(self, columns: slice) -> Vectors:
        by_part = self.packed.reshape(len(self.packed), -1, SMALL_COLUMNS).swapaxes(0, 1)[columns]
        parts = np.multiply(by_part, self.scales_in, dtype=np.float32, order="C")
        scales = np.broadcast_to(self.scales_out, (1, len(self.bias)))
        parts *= scales.reshape(-1, 1, SMALL_COLUMNS)[columns]
        return parts


@cache
def has_small_products() -> bool:
    """Return whether this machine multiplies small matrices without copying them.

    OpenBLAS copies a matrix before it multiplies, and wakes all its threads: for one short text
    that takes longer than the product. With AVX-512 it does neither if the product is small.
    Measured, all matrices, one core of an EPYC: 12 rows 3.6 ms instead of 6.8, 24 rows 6.0 instead
    of 9.2. Without AVX-512, parts take up to twice as long as the whole.
    """
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return any(name == "X86_V4" or name.startswith("AVX512") for name in found)


@dataclass(frozen=True)
class Norm:
    """Scales each row to mean 0 and variance 1, then by learned numbers."""

    scale: Vectors
    shift: Vectors

    def __call__(self, rows: Vectors) -> Vectors:
        """Return the rows normalised. *rows* is overwritten."""
        rows -= rows.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", rows, rows) / np.float32(rows.shape[1])
        rows /= np.sqrt(variance + np.float32(SMALLEST_VARIANCE))[:, None]
        rows *= self.scale
        rows += self.shift
        return rows


@dataclass(frozen=True)
class EncoderLayer:
    """One layer: attention, then a wide and a narrow matrix, each added to its input.

    The queries in `heads` are already divided by the root of a head's size, and `narrow` is
    already halved for `gelu_doubled`.
    """

    heads: Dense | WholeMatrix
    mixed: Dense | WholeMatrix
    mixed_norm: Norm
    wide: Dense | WholeMatrix
    narrow: Dense | WholeMatrix
    narrow_norm: Norm


class WordTable(Protocol):
    """The rows of the word pieces. They may be packed; a row is unpacked when it is read."""

    def __call__(self, pieces: NDArray[np.int32]) -> Vectors:
        """Return a new array with the row of each piece."""
        ...


@dataclass(frozen=True)
class ScaledWords:
    """A table of rows. Each row is multiplied by its scale when it is read."""

    rows: NDArray[np.int8] | Vectors
    scales: Vectors

    def __call__(self, pieces: NDArray[np.int32]) -> Vectors:
        """Return a new array with the row of each piece."""
        rows = self.rows[pieces].astype(np.float32)
        rows *= self.scales[pieces, None]
        return rows


@dataclass(frozen=True)
class Encoder:
    """The weights of an encoder."""

    words: WordTable
    positions: Vectors
    norm: Norm
    layers: tuple[EncoderLayer, ...]

    def encode(self, texts: Sequence[Sequence[int]]) -> Vectors:
        """Return a unit row per text: the mean of its pieces after the last layer.

        Encoding is fastest if texts of equal length are next to each other. A text's row does not
        depend on the other texts, except for the rounding of the matrix products.

        Args:
            texts: The pieces of each text with its marks: at least one piece, at most
                `len(positions)`.
        """
        spans = _spans([len(text) for text in texts])
        pieces = np.concatenate([np.asarray(text, dtype=np.int32) for text in texts])
        rows = self.words(pieces)
        for start, end, length in spans:
            same_length = rows[start:end].reshape(-1, length, rows.shape[1])
            same_length += self.positions[:length]
        rows = self.norm(rows)
        for layer in self.layers:
            rows = _through(layer, rows, spans)
        sums = [
            rows[start:end].reshape(-1, length, rows.shape[1]).sum(axis=1)
            for start, end, length in spans
        ]
        return unit(np.concatenate(sums))


def _spans(lengths: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return for each group of neighbouring texts of equal length its rows, and that length.

    The rows are given as the first row and the row after the last.
    """
    spans: list[tuple[int, int, int]] = []
    start = 0
    for length, same in groupby(lengths):
        end = start + length * len(list(same))
        spans.append((start, end, length))
        start = end
    return spans


def _through(layer: EncoderLayer, rows: Vectors, spans: Sequence[tuple[int, int, int]]) -> Vectors:
    heads = layer.heads(rows)
    seen = np.empty_like(rows)
    for start, end, length in spans:
        _attend(heads[start:end], seen[start:end], length)
    mixed = layer.mixed(seen)
    mixed += rows
    rows = layer.mixed_norm(mixed)
    narrow = layer.narrow(gelu_doubled(layer.wide(rows)))
    narrow += rows
    return layer.narrow_norm(narrow)


def _attend(heads: Vectors, seen: Vectors, length: int) -> None:
    """Write to *seen* the attention of each piece to its text. All texts have one *length*."""
    size = seen.shape[1] // HEADS
    queries, keys, values = heads.reshape(-1, length, 3, HEADS, size).transpose(2, 0, 3, 1, 4)
    weights = queries @ keys.swapaxes(2, 3)
    weights -= weights.max(axis=3, keepdims=True)
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=3, keepdims=True)
    seen.reshape(-1, length, HEADS, size)[:] = (weights @ values).swapaxes(1, 2)


def gelu_doubled(rows: Vectors) -> Vectors:
    """Return 2·x·Φ(x) for each number, in the same array, to 7e-6; Φ is the normal distribution."""
    square = np.empty_like(rows[:GELU_ROWS])
    inner = np.empty_like(square)
    *lower, highest = [np.float32(factor) for factor in GELU]
    for start in range(0, len(rows), GELU_ROWS):
        part = rows[start : start + GELU_ROWS]
        squares, p = square[: len(part)], inner[: len(part)]
        np.multiply(part, part, out=squares)
        np.multiply(squares, highest, out=p)
        for factor in lower[:0:-1]:
            p += factor
            p *= squares
        p += lower[0]
        p *= part
        np.tanh(p, out=p)
        p *= part
        part += p
    return rows


class EncoderModel:
    """An embedder whose encoder reads one window of a text at a time."""

    dimensions = DIMENSIONS
    instant = False

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a unit row per text, shape (texts, 384), from its first 254 word pieces.

        A text without a piece that the model knows (empty or blank, say) has a zero row: the model
        would give all of them the same vector. A text has the same row, to 1e-5 a number, whatever
        the other texts; the bytes may differ between machines.
        """
        return self._encode([pieces[:READ] for pieces in self._pieces(texts)])

    def embed_windows(self, texts: Sequence[str]) -> list[Vectors]:
        """Return for each text one row per window, shape (windows, 384); see `window_starts`.

        Each window is embedded like a separate text.
        """
        windows: list[list[int]] = []
        ends: list[int] = []
        for pieces in self._pieces(texts):
            windows += [pieces[at : at + READ] for at in window_starts(len(pieces))]
            ends.append(len(windows))
        rows = self._encode(windows)
        return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _pieces(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._cut(text) for text in as_texts(texts)]

    def _encode(self, windows: Sequence[list[int]], *, question: bool = False) -> Vectors:
        rows = np.zeros((len(windows), self.dimensions), dtype=np.float32)
        known = [at for at, pieces in enumerate(windows) if any(map(self._knows, pieces))]
        known.sort(key=lambda at: len(windows[at]))
        for batch in _batches(known, [len(pieces) for pieces in windows]):
            rows[batch] = self._run([self._marked(windows[at], question) for at in batch])
        return rows

    def _cut(self, text: str) -> list[int]:
        """Return the pieces of a text."""
        raise NotImplementedError

    def _knows(self, piece: int) -> bool:
        """Return whether the model has learned the meaning of a piece."""
        raise NotImplementedError

    def _marked(self, pieces: Sequence[int], question: bool) -> list[int]:  # noqa: FBT001 - private
        """Return the pieces between the marks of the model."""
        raise NotImplementedError

    def _run(self, marked: Sequence[Sequence[int]]) -> Vectors:
        """Return a unit row per marked text."""
        raise NotImplementedError


def _batches(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the positions in *order* in batches of at most `BATCH_PIECES`, or of one text."""
    batch: list[int] = []
    size = 0
    for at in order:
        if batch and size + lengths[at] > BATCH_PIECES:
            yield batch
            batch, size = [], 0
        batch.append(at)
        size += lengths[at]
    if batch:
        yield batch
