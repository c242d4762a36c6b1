"""Relevance: the probability that an item answers a question, comparable between searches.

A score orders the hits of one search. A relevance can be compared between searches:

    evidence  = intercept  +  words · coverage  +  meaning · likeness  +  named
    relevance = 1 / (1 + e ** -evidence)

*coverage* is the item's BM25 as a share of the highest BM25 possible for the question. *likeness*
is the cosine of their vectors. The neighbours in the session add a part to both, as to a score.
Numbers of up to two digits do not count, because every text has some from its time. *named* is 1
for the speaker or the user that the question names, and up to 1 for its date.

The numbers were fitted on LoCoMo: items that answer a question against the ten best items for a
question about other people, and for one about nobody (a logistic regression, rounded).
`docs/how-search-works.md` says what a relevance of 0.5 means, and `bench/relevance.py` measures it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Embedder
from alveus.search.embedding_worker import embed_texts
from alveus.values import words
from alveus.values.lazy import lists_of
from alveus.values.lazy_dataclass import dataclass

SHARE_BEFORE, SHARE_AFTER = 0.2, 0.1
"""The shares of the neighbours in a session: the defaults of `Signals`."""

BACKGROUND = 50
"""Texts that BM25 counts beside the real ones, so that a word is rare even in a single text."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The coefficients that turn coverage and likeness into relevance.

    Attributes:
        unrelated: Mean cosine of unrelated texts. It counts as a likeness of 0.
    """

    intercept: float
    words: float
    meaning: float = 0.0
    unrelated: float = 0.0

    def relevance(self, coverage: Numbers, likeness: Numbers, named: Numbers) -> Numbers:
        """Return the relevance of each item, 0..1."""
        alike = (likeness - self.unrelated) / (1 - self.unrelated) if self.meaning else 0.0
        evidence = self.intercept + self.words * coverage + self.meaning * alike + named
        return 1 / (1 + np.exp(-evidence))


WORDS_ALONE = Calibration(-1.8, 8.0)
"""The calibration of searches without vectors."""

BUNDLED = {"minilm": Calibration(-4.8, 5.0, 12.0), "static": Calibration(-5.5, 6.5, 7.5)}

_LIKE_MINILM = -4.8 + 12.0 * 0.043, 5.0, 12.0 * (1 - 0.043)
"""The calibration of minilm, for likeness above that of unrelated texts (their cosine is .043)."""

UNRELATED = tuple(lists_of(__file__)["unrelated"])
"""Texts without a common subject."""


def telling_terms(terms: Sequence[int]) -> list[int]:
    """Return terms without the terms of a time of day, such as "2" and "pm"."""
    clock = _clock_terms()
    return [term for term in terms if term not in clock]


@lru_cache(maxsize=1)
def _clock_terms() -> frozenset[int]:
    numbers = [f"{n:0{width}}" for width in (1, 2) for n in range(60)]
    return frozenset(words.terms(" ".join([*numbers, "am", "pm"])))


def calibration_of(embedder: Embedder) -> Calibration:
    """Return the calibration for an embedder. If it is not bundled, it embeds `UNRELATED` first.

    Raises:
        EmbedderFailed: The embedder failed on `UNRELATED`.
    """
    if not embedder.dimensions:
        return WORDS_ALONE
    if embedder.name in BUNDLED:
        return BUNDLED[embedder.name]
    rows = embed_texts(embedder, list(UNRELATED)).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines = (rows @ rows.T)[np.triu_indices(len(rows), 1)]
    unrelated = float(np.clip(cosines.mean(), 0.0, 0.95))
    return Calibration(*_LIKE_MINILM, unrelated=unrelated)
