"""multilingual-e5-small in NumPy, on 4-bit weights; they need ``alveus[multilingual]``.

The weights are in the package `alveus-multilingual`, which holds nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from alveus.embed.encoder import (
    DIMENSIONS,
    HEADS,
    MATRICES,
    Encoder,
    EncoderLayer,
    EncoderModel,
    Norm,
    WholeMatrix,
)
from alveus.embed.unigram import SPACE_ALONE, UNKNOWN, Unigram
from alveus.embed.vectors import Vectors, unit
from alveus.embed.weights import read_arrays
from alveus.embed.wordpiece import READ
from alveus.errors import EmbedderMissing
from alveus.values.forks import FreshLock
from alveus.values.lazy_dataclass import dataclass

PACKAGE = "alveus_multilingual"
"""The package that holds the weights."""

WEIGHTS = "multilingual.npz"
"""The weights, in that package; `tools/make_multilingual.py` makes them."""

START, END = 0, 2
"""The marks before and after a text."""

QUESTION, TEXT = "query:", "passage:"
"""The words that the model was taught to find before a question and before a text."""

HALF_BYTE, MIDDLE = 4, 8
"""Bits of a number in a weights file, and the number that means zero."""


class Multilingual(EncoderModel):
    """Turns sentences of a hundred languages into vectors of 384 numbers.

    In the published model, vectors of unrelated texts have cosines of 0.7 and more. This class
    subtracts the mean vector of 120 texts in twelve languages. The mean cosine of unrelated texts
    is then 0 across these languages, and 0.2 within English.

    Raises:
        EmbedderMissing: The package with the weights is not installed.
    """

    name = "multilingual"
    languages: frozenset[str] | None = None

    def __init__(self) -> None:
        if find_spec(PACKAGE) is None:
            raise EmbedderMissing(
                "the embedder 'multilingual' needs the package alveus-multilingual, which is not "
                "installed; run: pip install 'alveus[multilingual]'"
            )
        self._lock = FreshLock()
        self._read: _Model | None = None

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return a row per question, as `embed` does for texts."""
        return self._encode([pieces[:READ] for pieces in self._pieces(texts)], question=True)

    def _cut(self, text: str) -> list[int]:
        return self._model().pieces.ids(text)

    def _knows(self, piece: int) -> bool:
        return piece not in {UNKNOWN, SPACE_ALONE}

    def _marked(self, pieces: Sequence[int], question: bool) -> list[int]:  # noqa: FBT001 - as the class asks
        before = self._model().pieces.ids(QUESTION if question else TEXT)
        return [START, *before, *pieces, END]

    def _run(self, marked: Sequence[Sequence[int]]) -> Vectors:
        model = self._model()
        return unit(model.encoder.encode(marked) - model.mean)

    def _model(self) -> _Model:
        with self._lock:
            if self._read is None:
                arrays = read_arrays(WEIGHTS, PACKAGE)
                self._read = _Model(
                    Unigram(arrays), unpack(arrays), arrays["mean"].astype(np.float32)
                )
            return self._read


@dataclass(frozen=True)
class _Model:
    pieces: Unigram
    encoder: Encoder
    mean: Vectors


@dataclass(frozen=True)
class PackedWords:
    """Rows of 4-bit numbers, read from the mapped file one by one."""

    numbers: NDArray[np.uint8]
    scales: NDArray[np.float16]

    def __call__(self, pieces: NDArray[np.int32]) -> Vectors:
        """Return a new array with the row of each piece."""
        return unpack_rows(self.numbers[pieces], self.scales[pieces])


def unpack_rows(numbers: NDArray[np.uint8], scales: NDArray[np.float16]) -> Vectors:
    """Return rows of float32 from blocks of 32 numbers of 4 bits each.

    The low halves of a block's bytes are its first 16 numbers, the high halves the others.

    Args:
        numbers: Shape (rows, blocks, 16).
        scales: The factor of each block, shape (rows, blocks).
    """
    half = numbers.shape[2]
    rows = np.empty((*numbers.shape[:2], 2 * half), dtype=np.float32)
    np.bitwise_and(numbers, (1 << HALF_BYTE) - 1, out=rows[:, :, :half], casting="unsafe")
    np.right_shift(numbers, HALF_BYTE, out=rows[:, :, half:], casting="unsafe")
    rows -= MIDDLE
    rows *= scales[:, :, None].astype(np.float32)
    return rows.reshape(len(numbers), -1)


def unpack(arrays: Mapping[str, NDArray[np.generic]]) -> Encoder:
    """Return the encoder whose arrays a weights file contains. The word table stays packed."""
    layers = tuple(_layer(arrays, at) for at in range(len(arrays["heads"])))
    return Encoder(
        words=PackedWords(_numbers(arrays, "words"), _scales(arrays, "words")),
        positions=_floats(arrays, "positions"),
        norm=Norm(*_floats(arrays, "norm")),
        layers=layers,
    )


def _layer(arrays: Mapping[str, NDArray[np.generic]], at: int) -> EncoderLayer:
    heads, mixed, wide, narrow = (
        WholeMatrix(
            np.ascontiguousarray(
                unpack_rows(_numbers(arrays, name)[at], _scales(arrays, name)[at]).T
            ),
            _floats(arrays, f"{name}.bias")[at],
        )
        for name in MATRICES
    )
    for part in (heads.matrix, heads.bias):  # what `EncoderLayer` asks for
        part[..., :DIMENSIONS] /= np.float32(math.sqrt(DIMENSIONS // HEADS))
    narrow.matrix[:] *= np.float32(0.5)
    return EncoderLayer(
        heads=heads,
        mixed=mixed,
        mixed_norm=Norm(*_floats(arrays, "mixed.norm")[at]),
        wide=wide,
        narrow=narrow,
        narrow_norm=Norm(*_floats(arrays, "narrow.norm")[at]),
    )


def _numbers(arrays: Mapping[str, NDArray[np.generic]], name: str) -> NDArray[np.uint8]:
    return arrays[name].astype(np.uint8, copy=False)


def _scales(arrays: Mapping[str, NDArray[np.generic]], name: str) -> NDArray[np.float16]:
    return arrays[f"{name}.scale"].astype(np.float16, copy=False)


def _floats(arrays: Mapping[str, NDArray[np.generic]], name: str) -> Vectors:
    return arrays[name].astype(np.float32)
