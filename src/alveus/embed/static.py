"""The fast embedders: a table of word pieces, made from all-MiniLM-L6-v2; and words alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from alveus.embed import wordpiece
from alveus.embed.vectors import Vectors, as_texts, unit
from alveus.embed.weights import read_arrays
from alveus.values.forks import FreshLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.native import NATIVE

DIMENSIONS = 256
"""Numbers of a vector; 128 lose 6 points of recall@10 on LoCoMo, 384 gain one."""

WEIGHTS = "static.npz"
"""The table, in this package; `tools/make_weights.py` makes it."""


@dataclass(frozen=True)
class WordPieceTable:
    """A row per word piece: MiniLM's vector of the piece alone, shorter for a more common piece.

    Row 0 is zero and belongs to unknown pieces. Row 1 belongs to the first piece that is text.
    """

    rows: NDArray[np.int8]
    scales: Vectors


class Static:
    """English words as 256 numbers; their order does not count.

    A text's vector is the direction of the sum of its word pieces: it knows that a seat is like a
    chair, not who sat on it. In memory the table takes 8 MB.
    """

    name = "static"
    dimensions = DIMENSIONS
    instant = True
    languages: frozenset[str] | None = frozenset({"en"})

    def __init__(self) -> None:
        self._lock = FreshLock()
        self._read: WordPieceTable | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a unit row per text, shape (texts, 256), from all of its words.

        A text without a known word piece has a zero row. A text has the same row, to the last bit
        on one machine, whatever the other texts.
        """
        table, texts = self._table(), list(as_texts(texts))
        sums = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        add_pieces(table, texts, sums)
        return unit(sums)

    def word_vectors(self, text: str) -> tuple[list[str], Vectors]:
        """Return the words of *text* in order, and a unit row for each, shape (words, 256).

        Words are in lower case and without accents. Punctuation marks are words. A word that the
        table does not know has a zero row. Words of similar meaning have a high cosine.
        """
        table = self._table()
        words = wordpiece.bundled().words(text)
        if not words:
            return [], np.zeros((0, self.dimensions), dtype=np.float32)
        rows_of_pieces, ends = _table_rows([wordpiece.bundled().pieces(word) for word in words])
        rows = table.rows.take(rows_of_pieces, axis=0) * table.scales.take(rows_of_pieces)[:, None]
        starts = [0, *ends[:-1]]
        sums = rows[starts]
        for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if end - start > 1:
                sums[at] = rows[start:end].sum(axis=0)
        return words, unit(sums)

    def _table(self) -> WordPieceTable:
        with self._lock:
            if self._read is None:
                arrays = read_arrays(WEIGHTS)
                self._read = WordPieceTable(
                    rows=arrays["rows"].astype(np.int8, copy=False),
                    scales=arrays["scales"].astype(np.float32, copy=False),
                )
            return self._read


def add_pieces(table: WordPieceTable, texts: list[str], sums: Vectors) -> None:
    """Add to the row of each text in *sums* the rows of its pieces, each times its scale, in order.

    Each product and each sum is rounded, so the result is the same on every machine.
    """
    pieces = wordpiece.bundled()
    if NATIVE is not None:
        first, find = wordpiece.FIRST_WORD - 1, pieces.find
        NATIVE.add_pieces(texts, pieces.vocabulary, find, table.rows, table.scales, first, sums)
        return
    for at, text in enumerate(texts):
        rows_of_pieces, _ = _table_rows([pieces.ids(text)])
        rows = table.rows.take(rows_of_pieces, axis=0) * table.scales.take(rows_of_pieces)[:, None]
        sums[at] += rows.sum(axis=0)


def _table_rows(pieces: Sequence[Sequence[int]]) -> tuple[NDArray[np.intp], list[int]]:
    """Return the table's row numbers of all *pieces*, joined, and where each group ends."""
    ends = list(accumulate(map(len, pieces)))
    count = ends[-1] if ends else 0
    flat = np.fromiter(chain.from_iterable(pieces), dtype=np.intp, count=count)
    return np.maximum(flat - (wordpiece.FIRST_WORD - 1), 0), ends


class Words:
    """No meaning at all: rows without numbers, so that a search runs on words alone."""

    name = "words"
    dimensions = 0
    instant = True

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return an empty row per text, shape (texts, 0)."""
        return np.zeros((len(as_texts(texts)), 0), dtype=np.float32)
