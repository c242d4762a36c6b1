"""The default embedder: all-MiniLM-L6-v2 in NumPy, on int8 weights that come with the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from alveus.embed import wordpiece
from alveus.embed.encoder import (
    MATRICES,
    Dense,
    Encoder,
    EncoderLayer,
    EncoderModel,
    Norm,
    ScaledWords,
)
from alveus.embed.vectors import Vectors
from alveus.embed.weights import read_arrays
from alveus.values.forks import FreshLock

WEIGHTS = "minilm.npz"
"""The weights, in this package; `tools/make_weights.py` makes them."""


def unpack(arrays: Mapping[str, NDArray[np.generic]]) -> Encoder:
    """Return the encoder whose arrays a weights file contains.

    A matrix is its int8 numbers, times a scale per number in, times a scale per number out. The
    word table stays int8. The scales include the factors that `EncoderLayer` describes.
    """
    int8 = {name: arrays[name].astype(np.int8, copy=False) for name in ("words", *MATRICES)}
    floats = {name: part.astype(np.float32) for name, part in arrays.items() if name not in int8}
    layers = range(len(int8["heads"]))
    return Encoder(
        words=ScaledWords(int8["words"], floats["words.scale"]),
        positions=floats["positions"],
        norm=Norm(*floats["norm"]),
        layers=tuple(_layer(int8, floats, at) for at in layers),
    )


def _layer(
    int8: Mapping[str, NDArray[np.int8]], floats: Mapping[str, Vectors], at: int
) -> EncoderLayer:
    heads, mixed, wide, narrow = (
        Dense(
            int8[name][at],
            floats[f"{name}.bias"][at],
            floats[f"{name}.in"][at][:, None],
            floats[f"{name}.out"][at][None, :],
        )
        for name in MATRICES
    )
    return EncoderLayer(
        heads=heads,
        mixed=mixed,
        mixed_norm=Norm(*floats["mixed.norm"][at]),
        wide=wide,
        narrow=narrow,
        narrow_norm=Norm(*floats["narrow.norm"][at]),
    )


class MiniLm(EncoderModel):
    """Turns English sentences into vectors of 384 numbers.

    The vectors agree with those of the float weights to a cosine of 0.998 or more. Beside the
    mapped file, the weights take 43 MB of memory from the second short text on, and another 43 MB
    from the first long text on; see `Dense`.
    """

    name = "minilm"
    languages: frozenset[str] | None = frozenset({"en"})

    def __init__(self) -> None:
        self._lock = FreshLock()
        self._encoder: Encoder | None = None

    def _cut(self, text: str) -> list[int]:
        return wordpiece.bundled().ids(text)

    def _knows(self, piece: int) -> bool:
        return piece != wordpiece.UNKNOWN

    def _marked(self, pieces: Sequence[int], question: bool) -> list[int]:  # noqa: FBT001, ARG002 - as the class asks
        return [wordpiece.START, *pieces, wordpiece.END]

    def _run(self, marked: Sequence[Sequence[int]]) -> Vectors:
        with self._lock:
            if self._encoder is None:
                self._encoder = unpack(read_arrays(WEIGHTS))
        return self._encoder.encode(marked)
