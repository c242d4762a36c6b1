"""The default embedder: all-MiniLM-L6-v2 in NumPy, on int8 weights that come with the package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from alveus.embed import wordpiece
from alveus.embed.encoder import Encoder, unpack
from alveus.embed.vectors import Vectors, as_texts
from alveus.embed.weights import read_arrays
from alveus.embed.wordpiece import READ, window_starts
from alveus.values.forks import FreshLock

DIMENSIONS = 384
"""Numbers of a vector. Source: all-MiniLM-L6-v2's `config.json`."""

WEIGHTS = "minilm.npz"
"""The weights, in this package; `tools/make_weights.py` makes them."""

BATCH_PIECES = 1024
"""Word pieces that go through the model together: more are no faster, and take more memory."""


class MiniLm:
    """English sentences as 384 numbers.

    To a cosine of 0.998 or more these are the vectors of the float weights. Beside the file, which
    is mapped, the weights take 43 MB of memory from the second short text on, and 43 MB for long
    ones; see `encoder.Dense`.
    """

    name = "minilm"
    dimensions = DIMENSIONS
    instant = False

    def __init__(self) -> None:
        self._lock = FreshLock()
        self._encoder: Encoder | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a unit row per text, shape (texts, 384), from its first 254 word pieces.

        A text without a piece that the model knows (empty, blank, or only emoji, say) has a zero
        row: the model would give all of them the same vector. A text has the same row, to 1e-5 a
        number, whatever the other texts; the bytes may differ between machines.
        """
        return self._encode([pieces[:READ] for pieces in _pieces(texts)])

    def embed_windows(self, texts: Sequence[str]) -> list[Vectors]:
        """Return per text a row for each of its `window_starts`, shape (windows, 384).

        Each window is embedded like a separate text.
        """
        windows: list[list[int]] = []
        ends: list[int] = []
        for pieces in _pieces(texts):
            windows += [pieces[at : at + READ] for at in window_starts(len(pieces))]
            ends.append(len(windows))
        rows = self._encode(windows)
        return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def _encode(self, windows: Sequence[list[int]]) -> Vectors:
        rows = np.zeros((len(windows), self.dimensions), dtype=np.float32)
        known = [at for at, pieces in enumerate(windows) if not _is_blank(pieces)]
        known.sort(key=lambda at: len(windows[at]))
        for batch in _batches(known, [len(pieces) for pieces in windows]):
            marked = [[wordpiece.START, *windows[at], wordpiece.END] for at in batch]
            rows[batch] = self._run(marked)
        return rows

    def _run(self, marked: Sequence[Sequence[int]]) -> Vectors:
        with self._lock:
            if self._encoder is None:
                self._encoder = unpack(read_arrays(WEIGHTS))
        return self._encoder.encode(marked)


def _pieces(texts: Sequence[str]) -> list[list[int]]:
    return [wordpiece.bundled().ids(text) for text in as_texts(texts)]


def _is_blank(pieces: Sequence[int]) -> bool:
    return all(piece == wordpiece.UNKNOWN for piece in pieces)


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
