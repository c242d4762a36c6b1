"""Text into the pieces of a unigram language model, in plain Python.

A text becomes the pieces with the highest sum of scores (Kudo, ACL 2018), found by Viterbi's
algorithm. The pieces are those of the `tokenizers` library, with two exceptions on purpose: the
model's marks, such as ``</s>``, are cut like other text, so a user cannot write them, and U+0000 is
dropped. `tests/test_multilingual.py` checks this with a golden file.

No piece reaches over a space, so each word is cut alone, and is cached.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN = 3
"""The piece of a run of characters that no known piece has."""

SPACE_ALONE = 6
"""The piece of the space before a word that no known piece begins with."""

UNKNOWN_COST = 10.0
"""How much worse an unknown character is than the worst piece. Source: SentencePiece."""

SPACE = "\u2581"
"""What the pieces have for the space before a word."""

CACHED_WORDS = 32_768
"""Most cached words, about 7 MB. A full cache is emptied."""

LONGEST_CACHED = 24
"""Most characters of a cached word. A longer one is rare, or a sentence without spaces."""


class Unigram:
    """Cuts texts into pieces. One instance may serve many threads.

    The known pieces are a tree of characters in arrays, so that nothing is built at the start and
    only what is read takes memory. Node 0 is the root. The children of node ``n`` are the nodes
    from ``children[n]`` to ``children[n + 1]``, in the order of their characters.

    Args:
        arrays: ``characters``, the code points in the known pieces, in order; for each node
            ``children``, ``labels`` (its last character, as a position in ``characters``) and
            ``pieces`` (the piece that ends there, or -1); ``scores`` of each piece; ``folded``,
            pairs of a code point and of one that replaces it, 0 for none.
    """

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._children = _view(arrays["children"])
        self._labels = _view(arrays["labels"])
        self._pieces = _view(arrays["pieces"])
        self._scores = _view(arrays["scores"])
        self._unknown = float(arrays["scores"].min()) - UNKNOWN_COST
        characters: list[int] = arrays["characters"].tolist()
        self._positions = {chr(code): at for at, code in enumerate(characters)}
        self._folded = _folded(arrays["folded"].tolist())
        self._words = _Words(self)

    def ids(self, text: str) -> list[int]:
        """Return the pieces of *text*, without marks.

        Any `str` is accepted, also with lone surrogates, and no error is raised. Compatible
        characters become one (Unicode's NFKC), and control characters are dropped.
        """
        found: list[int] = []
        for word in self.words(text):
            found += self._words[word]
        return found

    def words(self, text: str) -> list[str]:
        """Return the words of *text*, before they are cut into pieces."""
        plain = text.translate(self._folded)
        if not plain.isascii():
            plain = unicodedata.normalize("NFC", plain)
        return list(filter(None, plain.split(" ")))

    def cut(self, word: str) -> tuple[int, ...]:
        """Return the pieces of a word, with the space before it."""
        positions, children, labels = self._positions, self._children, self._labels
        pieces, scores, unknown = self._pieces, self._scores, self._unknown
        letters = [positions.get(letter, -1) for letter in SPACE + word]
        best = [0.0] + [-np.inf] * len(letters)
        last = [(0, UNKNOWN)] * (len(letters) + 1)
        for start in range(len(letters)):
            node, end, single = 0, start, False
            while end < len(letters):
                low, high, letter = children[node], children[node + 1], letters[end]
                node = bisect_left(labels, letter, low, high)
                if letter < 0 or node == high or labels[node] != letter:
                    break
                end += 1
                piece = pieces[node]
                if piece >= 0:
                    single |= end == start + 1
                    score = best[start] + scores[piece]
                    if score > best[end]:
                        best[end], last[end] = score, (start, piece)
            if not single and best[start] + unknown > best[start + 1]:
                best[start + 1], last[start + 1] = best[start] + unknown, (start, UNKNOWN)
        return _walked_back(last)


def _walked_back(last: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Return the pieces of the best path. *last* has, per end, the start and id of a piece."""
    found: list[int] = []
    at = len(last) - 1
    while at:
        at, piece = last[at]
        if piece != UNKNOWN or found[-1:] != [UNKNOWN]:
            found.append(piece)
    return tuple(reversed(found))


class _Words(dict[str, tuple[int, ...]]):
    """A cache of the pieces of words."""

    def __init__(self, pieces: Unigram) -> None:
        super().__init__()
        self._pieces = pieces

    def __missing__(self, word: str) -> tuple[int, ...]:
        found = self._pieces.cut(word)
        if len(word) <= LONGEST_CACHED:
            if len(self) >= CACHED_WORDS:
                self.clear()
            self[word] = found
        return found


def _folded(pairs: Sequence[tuple[int, int]]) -> dict[int, str]:
    folded: dict[int, str] = {}
    for code, becomes in pairs:
        folded[code] = folded.get(code, "") + (chr(becomes) if becomes else "")
    return folded


def _view(array: NDArray[np.generic]) -> memoryview[Any]:
    """Return a view of an array. Reads of single numbers are faster than with NumPy."""
    return memoryview(np.ascontiguousarray(array)).toreadonly()
