"""What the benchmarks store and ask: generated items of any number, without end in memory.

`Corpus(seed)` is the same on every machine: item 7 of a seed has the same text and the same vector,
whoever asks and in whatever order. Texts are 30 to 55 words, half of them everyday words by Zipf's
law, half from the item's topic. Vectors have 384 dimensions and unit length, lie around 2,000
topics in 64 of their directions, and are made from int8 numbers, so that a store that keeps int8
loses nothing. Each text starts with its item's name, by which `Corpus.embed` finds its vector
again.

    python -m bench.corpus --check      the self-check of this file and of conversations.py
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIMENSIONS = 384
BLOCK_ROWS = 4096
"""Items made at once; a block depends on the seed and its number only."""
BLOCKS_KEPT = 8
TOPICS = 2000
TOPIC_WORDS = 40
INTRINSIC = 64
VOCABULARY = 30_000
ZIPF = 1.07
KINDS = {"rare": 0.01, "tenth": 0.1, "half": 0.5, "other": 0.39}
"""What items are filtered by, and the part of them that each kind is."""
"""What `where=` is measured with: each item has one of them, so a filter keeps a tenth."""

_EVERYDAY = """
the to and a of in is it that for was on with he as you at be this have from or had by not but
what some we can out other were all there when up use your how said an each she which do their
time if will way about many then them would like so these her long make thing see him two has
look more day could go come did my no most who over know than call first people may down been
now find any new take get place made where after back only little man year came show every good
me give our under name very through just think great say help low before turn move right too
mean old same tell
"""
EVERYDAY = _EVERYDAY.split()

_STARTS = [*"bcdfghjklmnprstvwz", "br", "st", "tr"]
_VOWELS = [*"aeiou", "ai", "ea"]
_ENDS = ["", "", *"nrsl"]

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Rows:
    """Items side by side: `ids[i]` has text `texts[i]`, kind `kinds[i]` and the unit vector
    `vectors[i]`."""

    ids: Sequence[str]
    texts: Sequence[str]
    kinds: Sequence[str]
    vectors: Vectors

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, stop: int) -> Rows:
        """Rows *start* to *stop* of these; the vectors are a view."""
        span = slice(start, stop)
        return Rows(self.ids[span], self.texts[span], self.kinds[span], self.vectors[span])


class Corpus:
    """All items and all questions of one seed."""

    def __init__(self, seed: int = 7) -> None:
        self.seed = seed
        rng = np.random.default_rng(seed)
        self._topics: Vectors = rng.standard_normal((TOPICS, INTRINSIC), dtype=np.float32)
        self._basis: Vectors = rng.standard_normal(
            (INTRINSIC, DIMENSIONS), dtype=np.float32
        ) / np.sqrt(np.float32(INTRINSIC))
        self._words = _vocabulary(rng)
        weights = 1.0 / np.arange(1, len(self._words) + 1) ** ZIPF
        self._cumulative = np.cumsum(weights) / weights.sum()
        self._topic_words = rng.integers(len(EVERYDAY), VOCABULARY, (TOPICS, TOPIC_WORDS))
        self._kept: OrderedDict[int, Rows] = OrderedDict()

    def rows(self, start: int, stop: int) -> Iterator[Rows]:
        """Items number *start* to *stop* in order, at most `BLOCK_ROWS` at once."""
        while start < stop:
            number, offset = divmod(start, BLOCK_ROWS)
            until = min(BLOCK_ROWS, offset + stop - start)
            yield self._block(number).part(offset, until)
            start += until - offset

    def take(self, start: int, count: int) -> Rows:
        """*count* items from number *start* on, as one value."""
        parts = list(self.rows(start, start + count))
        return Rows(
            [name for part in parts for name in part.ids],
            [text for part in parts for text in part.texts],
            [kind for part in parts for kind in part.kinds],
            np.concatenate([part.vectors for part in parts]),
        )

    def questions(self, count: int, *, among: int) -> Rows:
        """*count* questions about the first *among* items: 4 to 10 words, a vector near one item's,
        the kind to filter by.

        Asking again for more gives the same ones first. Ids begin with `q`, and so do the texts.
        """
        found: list[Rows] = []
        for number in range(count):
            rng = np.random.default_rng((self.seed, 2, number))
            row = self.take(int(rng.integers(among)), 1)
            words = row.texts[0].split()[1:]
            chosen = rng.choice(len(words), int(rng.integers(4, 11)), replace=False)
            vector = row.vectors[0] + np.float32(0.025) * rng.standard_normal(
                DIMENSIONS, dtype=np.float32
            )
            name = f"q{number:08d}"
            text = " ".join([name, *(words[i] for i in sorted(chosen))])
            found.append(
                Rows([name], [text], row.kinds, _through_int8(vector.astype(np.float32)[None, :]))
            )
        return Rows(
            [row.ids[0] for row in found],
            [row.texts[0] for row in found],
            [row.kinds[0] for row in found],
            np.concatenate([row.vectors for row in found]),
        )

    def vector(self, name: str) -> NDArray[np.float32]:
        """The vector of item *name* (`n00000042`); from the blocks used last, else its block is
        made again."""
        number, offset = divmod(int(name[1:]), BLOCK_ROWS)
        return self._block(number).vectors[offset]

    def _block(self, number: int) -> Rows:
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        self._kept[number] = rows = self._made(number)
        if len(self._kept) > BLOCKS_KEPT:
            self._kept.popitem(last=False)
        return rows

    def _made(self, number: int) -> Rows:
        rng = np.random.default_rng((self.seed, 1, number))
        topic = rng.integers(TOPICS, size=BLOCK_ROWS)
        inner = self._topics[topic] + np.float32(0.75) * rng.standard_normal(
            (BLOCK_ROWS, INTRINSIC), dtype=np.float32
        )
        raw = inner @ self._basis
        raw += np.float32(0.35) * rng.standard_normal(raw.shape, dtype=np.float32)
        first = number * BLOCK_ROWS
        ids = [f"n{first + i:08d}" for i in range(BLOCK_ROWS)]
        kinds = rng.choice(list(KINDS), size=BLOCK_ROWS, p=list(KINDS.values())).tolist()
        return Rows(
            ids,
            self._texts(rng, ids, topic),
            kinds,
            _through_int8(raw.astype(np.float32, copy=False)),
        )

    def _texts(
        self, rng: np.random.Generator, ids: Sequence[str], topic: NDArray[np.int64]
    ) -> list[str]:
        lengths = rng.integers(29, 55, len(ids))
        total = int(lengths.sum())
        common = np.searchsorted(self._cumulative, rng.random(total))
        own = self._topic_words[np.repeat(topic, lengths), rng.integers(TOPIC_WORDS, size=total)]
        chosen = np.where(rng.random(total) < 0.5, common, own).tolist()
        texts: list[str] = []
        at = 0
        for name, length in zip(ids, lengths.tolist(), strict=True):
            texts.append(
                " ".join([name, *(self._words[i] for i in chosen[at : at + length])]) + "."
            )
            at += length
        return texts


class CorpusEmbedder:
    """The vectors of a `Corpus`, for systems that turn texts into vectors themselves; a look-up, no
    model.

    A text is known by the name it starts with. Questions must be announced (`learn`), items need
    not.

    Raises:
        KeyError: A text starts with no name of the corpus.
    """

    name = "bench-corpus"
    dimensions = DIMENSIONS
    instant = True

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._questions: dict[str, NDArray[np.float32]] = {}

    def learn(self, questions: Rows) -> None:
        """Know the vectors of *questions* from now on."""
        self._questions.update(zip(questions.ids, questions.vectors, strict=True))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of *texts*, one unit row each; of items in their order they are at hand."""
        if not len(texts):
            return np.empty((0, DIMENSIONS), np.float32)
        names = [text[:9] for text in texts]
        if names[0][:1] == "n" and names[0][1:].isdigit():
            first = int(names[0][1:])
            parts = list(self._corpus.rows(first, first + len(names)))
            if names == [name for part in parts for name in part.ids]:
                vectors = [part.vectors for part in parts]
                return vectors[0] if len(vectors) == 1 else np.concatenate(vectors)
        return np.stack([self._one(text) for text in texts])

    def _one(self, text: str) -> NDArray[np.float32]:
        name = text[:9]
        if name[:1] == "q":
            return self._questions[name]
        if name[:1] != "n" or not name[1:].isdigit():
            raise KeyError(f"no item of the corpus starts with {name!r}")
        return self._corpus.vector(name)


def nearest(corpus: Corpus, count: int, questions: Rows, *, limit: int) -> list[list[str]]:
    """The *limit* items with the largest cosine to each question, best first, among the first
    *count*: the truth for recall."""
    best = np.full((len(questions), limit), -2.0, np.float32)
    which = np.zeros((len(questions), limit), np.int64)
    first = 0
    for rows in corpus.rows(0, count):
        scores = np.concatenate([best, questions.vectors @ rows.vectors.T], axis=1)
        numbers = np.concatenate(
            [
                which,
                np.broadcast_to(np.arange(first, first + len(rows)), (len(questions), len(rows))),
            ],
            axis=1,
        )
        top = np.argpartition(-scores, limit - 1, axis=1)[:, :limit]
        best, which = np.take_along_axis(scores, top, 1), np.take_along_axis(numbers, top, 1)
        first += len(rows)
    order = np.argsort(-best, axis=1, kind="stable")
    return [
        [f"n{number:08d}" for number in row] for row in np.take_along_axis(which, order, 1).tolist()
    ]


def _through_int8(raw: Vectors) -> Vectors:
    """*raw* rounded to int8 numbers by the largest of each row, then scaled to unit length."""
    codes = np.rint(raw * (127.0 / np.abs(raw).max(axis=1, keepdims=True))).astype(np.float32)
    return codes / np.linalg.norm(codes, axis=1, keepdims=True)


def _vocabulary(rng: np.random.Generator) -> list[str]:
    """The everyday words, then made-up ones that can be spoken; all different."""
    words: dict[str, None] = dict.fromkeys(EVERYDAY)
    while len(words) < VOCABULARY:
        syllables = [
            _STARTS[rng.integers(len(_STARTS))] + _VOWELS[rng.integers(len(_VOWELS))]
            for _ in range(int(rng.integers(2, 5)))
        ]
        words["".join(syllables) + _ENDS[rng.integers(len(_ENDS))]] = None
    return list(words)


def check() -> None:
    """Raise AssertionError where a promise of this file does not hold."""
    ours, again = Corpus(7), Corpus(7)
    rows = ours.take(4090, 20)
    assert list(rows.ids) == list(again.take(4090, 20).ids)
    assert list(rows.texts) == [again.take(number, 1).texts[0] for number in range(4090, 4110)]
    assert np.array_equal(rows.vectors, again.take(4090, 20).vectors)
    assert rows.texts != Corpus(8).take(4090, 20).texts
    assert all(30 <= len(text.split()) <= 55 for text in rows.texts)
    assert np.allclose(np.linalg.norm(rows.vectors, axis=1), 1, atol=1e-6)
    assert np.allclose(_through_int8(rows.vectors), rows.vectors, atol=1e-6), (
        "int8 must lose nothing"
    )
    questions = ours.questions(20, among=10_000)
    assert questions.texts[:5] == ours.questions(5, among=10_000).texts
    embedder = CorpusEmbedder(ours)
    embedder.learn(questions)
    assert np.array_equal(
        embedder.embed([rows.texts[3], questions.texts[1]]),
        np.stack([rows.vectors[3], questions.vectors[1]]),
    )
    everything = ours.take(0, 10_000)
    found = nearest(ours, 10_000, questions, limit=10)
    for row, names in enumerate(found):
        scores = everything.vectors @ questions.vectors[row]
        assert names == [everything.ids[i] for i in np.argsort(-scores, kind="stable")[:10]]
    assert len(set(everything.texts)) == len(everything)


def _main() -> None:
    if sys.argv[1:] != ["--check"]:
        sys.exit("usage: python -m bench.corpus --check")
    from bench import conversations

    check()
    conversations.check()
    print("corpus and conversations: every promise holds")


if __name__ == "__main__":
    _main()
