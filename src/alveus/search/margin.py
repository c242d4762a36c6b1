"""Does a request need the memory that is searched, or any memory at all?

    margin = highest cosine of the request to an item
             -  mean of its three highest cosines to requests that need no memory

"Write a function that reverses a list." is nearer to such requests, which `margin.txt` lists, than
to anything in a memory of preferences: its margin is negative. The margin of "Suggest a café." is
positive in the same memory. A margin needs vectors of sentences: for `static`, whose vectors are
means of word vectors, it says little. `bench/prompting.py` measures both.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Embedder
from alveus.search.embedding_worker import embed_texts
from alveus.search.index import Quantised
from alveus.search.ranking import Calibration
from alveus.values.lazy import lists_of

NEAREST = 3
"""How many of the listed requests count in a margin: those with the highest cosines."""

_LISTS = lists_of(__file__)

SELF_CONTAINED = tuple(_LISTS["self_contained"])
"""Requests that need no memory, in English."""

LONGEST_COURTESY = 60
"""The most characters of a request that is compared with the listed courtesies."""

ACCENTS = 27
"""Marks of this combining class or a higher one are accents and Arabic vowels. Marks of lower
classes, such as vowels in Hindi and the voicing of kana, tell words apart."""


def is_courtesy(request: str) -> bool:
    """Return whether a request is only greetings, thanks and farewells, in listed languages."""
    words = _words(request) if len(request) <= LONGEST_COURTESY else ()
    courtesies, most = _courtesies()
    ends = {0}  # the numbers of first words that are a row of courtesies
    for end in range(1, len(words) + 1):
        if any(words[start:end] in courtesies for start in ends if end - start <= most):
            ends.add(end)
    return bool(words) and len(words) in ends


@lru_cache(maxsize=1)
def _courtesies() -> tuple[frozenset[tuple[str, ...]], int]:
    """Return the words of each courtesy, and the most words of one."""
    listed = frozenset(map(_words, _LISTS["courtesies"]))
    return listed, max(map(len, listed))


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text without accents: "İyi" and "iyi", "días" and "dias" are equal."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    kept = [one for one in letters if unicodedata.combining(one) < ACCENTS]
    return tuple("".join([one if _is_of_word(one) else " " for one in kept]).split())


def _is_of_word(char: str) -> bool:
    return unicodedata.category(char)[0] in "LMN"


class Margins:
    """Computes the margins of requests for one embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: NDArray[np.float32] | None = None

    def margin(self, request: Quantised, nearest: float, calibration: Calibration) -> float | None:
        """Return the margin of a request, about -1..1, or None for an embedder of words.

        A cosine counts as its share of the range above the cosine of unrelated texts.

        Args:
            request: The vector of the request, with the names of speakers in it: these names
                distinguish "What does Ada do?" from requests that need no memory.
            nearest: The highest cosine of the request to an item.

        Raises:
            EmbedderFailed: The embedder failed.
        """
        if not calibration.of_sentences:
            return None
        if self._rows is None:
            self._rows = embed_texts(self._embedder, SELF_CONTAINED)
        near = np.sort(self._rows @ (request.whole / (request.norm or 1.0)))[-NEAREST:]
        return (nearest - float(near.mean())) / (1 - calibration.unrelated)
