"""What a ranking must beat: plain BM25, plain cosine, the two fused by ranks, and Chroma given the
same vectors.

Each is done the usual way. A turn is the text "Speaker: text [image: caption]" and a question is
taken as it stands.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.conversations import Conversation, Question, Turn

RRF_K = 60
"""Damping of reciprocal rank fusion. Source: Cormack et al., SIGIR 2009."""
BM25_K1, BM25_B = 1.2, 0.75
"""Lucene's and SQLite's defaults."""
_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there
these they this to was will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Lucene's English list."""
DEEP = 1000
"""How many turns of each list the fusion sees."""

NAMES = ("bm25", "cosine", "rrf", "chroma")
Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    def embed(self, texts: Sequence[str]) -> Vectors: ...


def rankings(
    each: Conversation, questions: Sequence[Question], embedder: Embedder, *, limit: int
) -> Iterator[tuple[str, Mapping[str, list[str]]]]:
    """The first *limit* turn ids of each of `NAMES`, by question id. Embeds the turns of *each*
    once."""
    texts = [document(turn) for turn in each.turns]
    names = [turn.id for turn in each.turns]
    words = Bm25(texts)
    turns = embedder.embed(texts)
    asked = embedder.embed([question.text for question in questions])
    near = _chroma(names, turns, asked, limit=limit)
    for question, vector, from_chroma in zip(questions, asked, near, strict=True):
        by_words, by_meaning = _order(words.scores(question.text)), _order(turns @ vector)
        orders = {
            "bm25": by_words,
            "cosine": by_meaning,
            "rrf": fused([by_words[:DEEP], by_meaning[:DEEP]]),
        }
        yield (
            question.id,
            {name: [names[i] for i in order[:limit]] for name, order in orders.items()}
            | {"chroma": from_chroma},
        )


def document(turn: Turn) -> str:
    """What the baselines read of *turn*."""
    return f"{turn.speaker}: {turn.text}" + (f" [image: {turn.caption}]" if turn.caption else "")


def words_of(text: str) -> list[str]:
    """The words of *text* in lower case without stop words, unstemmed."""
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]


class Bm25:
    """BM25 as Lucene computes it, over texts that do not change."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words_of(text)) for text in texts]
        lengths = np.array([count.total() for count in counts], float)
        self._count = len(texts)
        self._norm = BM25_K1 * (1 - BM25_B + BM25_B * lengths / max(1.0, lengths.mean()))
        postings: dict[str, list[tuple[int, int]]] = {}
        for place, count in enumerate(counts):
            for word, times in count.items():
                postings.setdefault(word, []).append((place, times))
        self._postings = {word: np.array(places).T for word, places in postings.items()}

    def scores(self, query: str) -> NDArray[np.float64]:
        """The score of each text, 0 without a common word."""
        found = np.zeros(self._count)
        for word in words_of(query):
            if word in self._postings:
                places, times = self._postings[word]
                idf = math.log(1 + (self._count - len(places) + 0.5) / (len(places) + 0.5))
                found[places] += idf * times * (BM25_K1 + 1) / (times + self._norm[places])
        return found


def fused(orders: Sequence[Sequence[int]]) -> list[int]:
    """*orders* as one, by the sum of `1 / (RRF_K + place)`, best first."""
    points: dict[int, float] = defaultdict(float)
    for order in orders:
        for place, number in enumerate(order, start=1):
            points[number] += 1 / (RRF_K + place)
    return sorted(points, key=lambda number: -points[number])


def _order(values: NDArray[np.floating]) -> list[int]:
    return np.argsort(-values, kind="stable").tolist()


def _chroma(names: Sequence[str], turns: Vectors, asked: Vectors, *, limit: int) -> list[list[str]]:
    """What a new Chroma collection with its defaults finds."""
    import chromadb  # only baselines need it; alveus alone is ranked without

    client = chromadb.EphemeralClient()
    items = client.create_collection("turns", embedding_function=None)
    try:
        most = client.get_max_batch_size()
        for start in range(0, len(names), most):
            items.add(ids=list(names[start : start + most]), embeddings=turns[start : start + most])
        return items.query(query_embeddings=asked, n_results=min(limit, len(names)), include=[])[
            "ids"
        ]
    finally:
        client.delete_collection("turns")
