"""ReMe's scores: of keywords, of two fused ranked lists, and of kinds of memories.

ReMe is AgentScope's memory kit. alveus ranks by `Signals`. These functions are for programs that
depend on ReMe's numbers.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from alveus.errors import InvalidInput

RANK_DAMPING = 60
"""The damping of a rank in a fused score."""

VECTOR_WEIGHT, KEYWORD_WEIGHT = 0.7, 0.3

K1, B = 1.5, 0.75

KINDS = {"conversation": 0.5, "observation": 1.0, "customised observation": 1.2, "insight": 2.0}
"""The factor of each kind of memory."""

TIME_MATCHES = 2.0
"""The factor for a memory whose time is equal to the time of the query."""

_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|\w{2,}")
"""A word of two or more characters, or a character of Chinese or Japanese."""

Kind = Literal["conversation", "observation", "customised observation", "insight"]


def fused_ranks(by_vector: Sequence[str], by_keyword: Sequence[str]) -> dict[str, float]:
    """Return the fused score of each id in two ranked lists, best first."""
    scores: dict[str, float] = {}
    for weight, ids in ((VECTOR_WEIGHT, by_vector), (KEYWORD_WEIGHT, by_keyword)):
        for rank, each in enumerate(ids, start=1):
            scores[each] = scores.get(each, 0.0) + weight / (RANK_DAMPING + rank)
    return dict(sorted(scores.items(), key=lambda scored: -scored[1]))


def keyword_scores(texts: Sequence[str], query: str) -> list[float]:
    """Return the BM25 score of each text for the words of a query."""
    documents = [Counter(_words(text)) for text in texts]
    sizes = [document.total() for document in documents]
    mean = sum(sizes) / len(sizes) if any(sizes) else 1.0
    scores = [0.0] * len(texts)
    for word in dict.fromkeys(_words(query)):
        having = sum(word in document for document in documents)
        rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for at, document in enumerate(documents):
            often = document[word]
            damped = often + K1 * (1 - B + B * sizes[at] / mean)
            scores[at] += rarity * often * (K1 + 1) / damped
    return scores


def score_of_kind(score: float, kind: Kind, *, time_matches: bool = False) -> float:
    """Return *score* times the factor of the memory's kind."""
    if kind not in KINDS:
        raise InvalidInput(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    return score * KINDS[kind] * (TIME_MATCHES if time_matches else 1.0)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
