"""BM25 over several sets as if they were one.

    idf(t)      = ln(1 + (N - n_t + 0.5) / (n_t + 0.5))
    weight(t,d) = idf(t) · c · (k1 + 1) / (c + k1 · (1 - b + b · length / average length))

N is the number of live docs in all searched sets, and n_t the number of them that contain the term
t; docs that a filter hides count too. A long text is cut into passages (`words.passages`), and its
weight is that of its best passage. So c is how often the passage contains the term, and length and
average length are those of live passages, in tokens.

Source: Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009; the 1 in the
logarithm, as in Lucene, keeps a weight from being negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alveus.search.index import SetIndex
from alveus.search.signals import Signals
from alveus.values.lazy_dataclass import dataclass

_CHEAP = 64
"""`top` always adds up a term that at most 1/64 of a set's passages contain."""

_SAMPLE = 16_384
"""Size of the sample of scores from which `_reached` estimates the best scores, roughly."""

_SEARCH = 8
"""Number of docs that can be added up in the time of one binary search."""

_ANY = np.finfo(np.float64).tiny

_STEP = 32_768
"""Passages whose scores are added up at once."""

SMALL = 2_048
"""Most docs of a set for which the weights of all its terms may be computed at once."""

PATIENCE = 2
"""From this search of an unchanged set on, the weights of all its terms are computed at once."""

Docs = NDArray[np.int32]
Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Bm25:
    """Computes the BM25 of the docs of some sets for the words of one question."""

    def __init__(
        self,
        sets: Sequence[SetIndex],
        terms: Sequence[int],
        signals: Signals,
        *,
        background: int | None = None,
    ) -> None:
        """Look up the postings of the terms in the sets.

        Args:
            background: Number of imaginary texts without the terms that N counts too, so that a
                word has a weight even in a set of one text. None means that only real texts count.
        """
        self._sets, self._terms = sets, terms
        few = len(sets) == 1 and background is None
        self._known = _weighed(sets[0], signals) if few else None
        if self._known is not None:
            return
        self._postings = [[index.postings(term) for term in terms] for index in sets]
        live = sum([index.live for index in sets]) + (background or 0)
        self._least, self._slope = _norms(sets, signals)
        holder_counts = [
            list(map(index.holding, terms, [passages for passages, _ in postings]))
            for index, postings in zip(sets, self._postings, strict=True)
        ]
        self._peaks = [
            _peak(live, sum(number), signals) for number in zip(*holder_counts, strict=True)
        ]
        """For each term, the limit of its weight as its repetitions increase."""

    @property
    def most(self) -> float:
        """The limit of a text's BM25 as the repetitions of every term increase."""
        return sum(self._peaks)

    def all(self, number: int) -> Numbers:
        """Return the BM25 of every doc of set *number*; 0.0 for a doc that contains no term."""
        if self._known is not None:
            return _best(self._sets[number], self._known.of(self._terms))
        index, postings = self._sets[number], self._postings[number]
        sizes = [len(docs) for docs, _ in postings]
        if not any(sizes):
            return np.zeros(index.size)
        passages = np.concatenate([passages for passages, _ in postings])
        counts = np.concatenate([counts for _, counts in postings])
        peaks = np.array(self._peaks).repeat(sizes)
        weights = self._weights(peaks, counts, index.passage_words[passages])
        scores = np.bincount(passages, weights, minlength=index.passages)
        return _best(index, scores.astype(np.float64, copy=False))

    def some(self, number: int, docs: Docs) -> Numbers:
        """Return the BM25 of *docs*, which must rise: the same numbers, bit for bit, as `all`."""
        index = self._sets[number]
        if not len(docs):
            return np.zeros(0)
        passages, firsts = (docs, None) if index.uncut else index.passages_of(docs)
        scores = np.zeros(len(passages))
        length = index.passage_words[passages]
        for (holders, counts), peak in zip(self._postings[number], self._peaks, strict=True):
            at, here = _positions(holders, passages)
            if here.size:
                scores[here] += self._weights(peak, counts[at], length[here])
        return scores if firsts is None else np.maximum.reduceat(scores, firsts)

    def _weights(self, peaks: float | Numbers, counts: NDArray[np.uint8], length: Docs) -> Numbers:
        """Return weights of terms. *peaks* are the terms' idf times (k1 + 1)."""
        return _weights(peaks, counts, self._least + self._slope * length)

    def top(self, number: int, *, count: int, allowed: Mask | None, alone: bool) -> Docs:
        """Return about *count* of the *allowed* docs with the best BM25, sorted by number.

        The best doc of the whole set is always among the result, *allowed* or not. Of equally good
        docs the first are taken. Terms are added up from the rarest on, until the remaining, more
        common terms cannot lift a doc without a rare term among the best (MaxScore: Turtle and
        Flood, 1995).

        Args:
            alone: Whether only words find docs. If so, common terms are added up until *count* docs
                are found. If not, fewer docs are enough where the rare terms have no more.
        """
        index, order = self._sets[number], self._from_the_rarest(number)
        if allowed is not None and not index.uncut:
            allowed = allowed[index.documents(np.arange(index.passages, dtype=np.int32))]
        done = sum([len(term.passages) * _CHEAP <= index.passages for term in order])
        passages, sums = self._added(index, order[:done])
        goal = _Goal(order, count, alone=alone)
        if not goal.met(done, sums, None if allowed is None else allowed[passages]):
            every = np.zeros(index.passages)
            every[passages] = sums
            passages, sums, done = self._added_up(index, every, goal, done, allowed)
        for term in order[done:]:
            at, here = _positions(term.passages, passages)
            length = index.passage_words[passages[here]]
            sums[here] += self._weights(term.peak, term.counts[at], length)
        best = passages[sums == sums.max(initial=0.0)][:1]
        if allowed is not None:
            permitted = allowed[passages]
            passages, sums = passages[permitted], sums[permitted]
        return united([index.documents(passages[highest(sums, count)]), index.documents(best)])

    def _from_the_rarest(self, number: int) -> list[_Term]:
        terms = [
            _Term(passages, counts, peak, peak / (1 + self._least / float(counts.max())))
            for (passages, counts), peak in zip(self._postings[number], self._peaks, strict=True)
            if len(passages)
        ]
        return sorted(terms, key=lambda term: (len(term.passages), -term.peak))

    def _added(self, index: SetIndex, terms: Sequence[_Term]) -> tuple[Docs, Numbers]:
        """Return the sorted passages that contain any of *terms*, and their BM25 for *terms*."""
        if not terms:
            return np.zeros(0, np.int32), np.zeros(0)
        passages = np.concatenate([term.passages for term in terms])
        counts = np.concatenate([term.counts for term in terms])
        sizes = [len(term.passages) for term in terms]
        peaks = np.array([term.peak for term in terms]).repeat(sizes)
        unique_passages, at = np.unique(passages, return_inverse=True)
        sums = np.bincount(at, self._weights(peaks, counts, index.passage_words[passages]))
        return unique_passages, sums.astype(np.float64, copy=False)

    def _added_up(
        self, index: SetIndex, every: Numbers, goal: _Goal, done: int, allowed: Mask | None
    ) -> tuple[Docs, Numbers, int]:
        """Return the sorted passages that may be best, their sums, and the number of terms added.

        Args:
            every: For each passage, the sum of the weights of the first *done* terms. The weights
                of further terms are added to this array.
        """
        while True:
            if goal.met(done, every, allowed):
                reached = _reached(every if allowed is None else every * allowed, goal.count)
                least = max(reached - goal.left[done], _ANY)
                passages = (every >= least).nonzero()[0].astype(np.int32)
                if done == len(goal.order) or len(passages) * _SEARCH <= len(
                    goal.order[done].passages
                ):
                    return passages, every[passages], done
            self._add(index, every, goal.order[done])
            done += 1

    def _add(self, index: SetIndex, sums: Numbers, term: _Term) -> None:
        """Add a term to the sums of all passages, in steps that fit into the processor's cache."""
        length = index.passage_words
        for start in range(0, len(term.passages), _STEP):
            part = slice(start, start + _STEP)
            passages, counts = term.passages[part], term.counts[part]
            sums[passages] += self._weights(term.peak, counts, length[passages])


def _best(index: SetIndex, values: Numbers) -> Numbers:
    """Return for every doc the highest of the *values* of its passages."""
    return values if index.uncut else np.maximum.reduceat(values, index.passage)


def _norms(sets: Sequence[SetIndex], signals: Signals) -> tuple[float, float]:
    """Return two parts of the denominator: a constant, and an addend per token of a passage."""
    live = sum([index.live_passages for index in sets])
    average = (sum([index.tokens for index in sets]) or 1) / (live or 1)
    return signals.k1 * (1 - signals.b), signals.k1 * signals.b / average


def _peak(live: int, holders: int, signals: Signals) -> float:
    """Return the limit of the weight of a term that *holders* of *live* docs contain."""
    idf = math.log(1 + (live - holders + 0.5) / (holders + 0.5))
    return idf * (signals.k1 + 1)


def _weights(
    peaks: float | Numbers, counts: NDArray[np.uint8], norm: NDArray[np.floating[Any]]
) -> Numbers:
    number = counts.astype(np.float64)
    return peaks * number / (number + norm)


@dataclass(frozen=True, slots=True)
class _Weighed:
    """The weights of every term of a small set. They equal those of `Bm25` bit for bit.

    Attributes:
        hashes: The hashes of the terms, ascending. The last entry belongs to no term.
        offsets: The position of each term's first entry.
        size: The number of passages.
    """

    hashes: NDArray[np.uint32]
    offsets: list[int]
    passages: NDArray[np.intp]
    weights: Numbers
    size: int

    def of(self, terms: Sequence[int]) -> Numbers:
        """Return the BM25 of every passage of the set for *terms*."""
        hashes = _term_array(tuple(terms))
        at = self.hashes.searchsorted(hashes)
        positions: list[int] = at[self.hashes[at] == hashes].tolist()
        if not positions:
            return np.zeros(self.size)
        offsets, weights = self.offsets, self.weights
        parts = [slice(offsets[one], offsets[one + 1]) for one in positions]
        passages = np.concatenate([self.passages[part] for part in parts])
        scores = np.bincount(passages, np.concatenate([weights[part] for part in parts]), self.size)
        return scores.astype(np.float64, copy=False)

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM, in bytes."""
        return self.hashes.nbytes * 9 + self.passages.nbytes + self.weights.nbytes


@lru_cache(maxsize=256)
def _term_array(terms: tuple[int, ...]) -> NDArray[np.uint32]:
    return np.array(terms, np.uint32)


def _weighed(index: SetIndex, signals: Signals) -> _Weighed | None:
    """Return the weights of all terms of a set, or None if computing them does not pay.

    They are computed for a small set in RAM, at its second search without a change in between.
    """
    if index.size > SMALL or not index.exact or index.is_part:
        return None
    name = (signals.k1, signals.b)
    if name in index.cache:
        return index.cache[name]
    questions = index.cache["asked"] = index.cache.get("asked", 0) + 1
    run = index.run() if questions >= PATIENCE else None
    if run is None:
        return None
    sizes = np.diff(run.offsets)
    least, slope = _norms([index], signals)
    if not index.uncut:  # count the documents that contain each term
        new = np.ones(len(run.docs), np.bool_)
        documents = index.documents(run.docs)
        np.not_equal(documents[1:], documents[:-1], out=new[1:])
        new[run.offsets[:-1][sizes > 0]] = True
        before = np.append(0, new.cumsum())
        numbers = np.diff(before[run.offsets])
    else:
        numbers = sizes
    distinct, which = np.unique(numbers, return_inverse=True)
    peaks = np.array([_peak(index.live, number, signals) for number in distinct.tolist()])
    peaks = peaks[which].repeat(sizes)
    weights = _weights(peaks, run.counts, least + slope * index.passage_words[run.docs])
    hashes = np.append(run.hashes, np.uint32(0xFFFFFFFF))
    offsets = [*run.offsets.tolist(), len(run.docs)]
    passages = run.docs.astype(np.intp)
    index.cache[name] = weighed = _Weighed(hashes, offsets, passages, weights, index.passages)
    return weighed


class _Term(NamedTuple):
    """A term of the question: the passages that contain it, and its count in each.

    *peak* is the limit of the term's weight as its count increases. *bound* is at least the term's
    weight in every passage.
    """

    passages: Docs
    counts: NDArray[np.uint8]
    peak: float
    bound: float


class _Goal:
    """Decides when enough terms were added up.

    Args:
        order: Terms from the rarest on.
        count: Number of docs to find.
        alone: Whether only words find docs.
    """

    def __init__(self, order: Sequence[_Term], count: int, *, alone: bool) -> None:
        bounds = [term.bound for term in order]
        self.left = [sum(bounds[at:]) for at in range(len(order) + 1)]
        """For each number of added terms: the most that the other terms can add to a passage."""
        self._held = [0, *accumulate([len(term.passages) for term in order])]
        self.order, self.count, self._alone = order, count, alone

    def met(self, done: int, sums: Numbers, allowed: Mask | None) -> bool:
        """Return whether every passage that may be among the best has one of the added terms.

        If meaning finds docs too, the added terms are also enough while fewer than `count` passages
        contain them.
        """
        if done + 1 == len(self.left):
            return True
        reaching = sums >= self.left[done]
        if not reaching.any():
            return False
        permitted = reaching if allowed is None else reaching & allowed
        few = not self._alone and self._held[done] < self.count
        return few or int(np.count_nonzero(permitted)) >= self.count


def _reached(values: Numbers, count: int) -> float:
    """Return a number that *count* of *values*, and few more, reach.

    Return 0.0 if no more than *count* values are above 0.
    """
    if np.count_nonzero(values >= _ANY) <= count:
        return 0.0
    step = max(1, len(values) // _SAMPLE)
    sample = values[::step]
    cut = kth_highest(sample, min(2 * count // step + 8, len(sample)))
    while np.count_nonzero(values >= cut) < count:
        cut /= 2
    return cut


def united(parts: Sequence[Docs]) -> Docs:
    """Return each doc of *parts* once, sorted. For few docs this is quicker than `np.unique`."""
    docs = np.concatenate(parts)
    docs.sort()
    new = np.ones(len(docs), np.bool_)
    np.not_equal(docs[1:], docs[:-1], out=new[1:])
    return docs[new].astype(np.int32, copy=False)


def kth_highest(values: NDArray[np.int64] | Numbers, count: int) -> float:
    """Return the *count*-th highest of *values*. There must be at least *count* values."""
    # Negated: with many equal low values, partitioning *values* takes twenty times longer.
    return -float(np.partition(-values, count - 1)[count - 1])


def highest(values: NDArray[np.int64] | Numbers, count: int) -> NDArray[np.intp]:
    """Return the positions of the *count* highest values, in rising order.

    Of equal values the first are chosen. Positions have the order of rows, which rise with time, as
    ids made by alveus do. So of equal values those with the lowest ids are chosen.
    """
    if len(values) <= count:
        return np.arange(len(values))
    least = kth_highest(values, count)
    above, tied = (values > least).nonzero()[0], (values == least).nonzero()[0]
    positions = np.concatenate([above, tied[: count - len(above)]])
    positions.sort()
    return positions


def _positions(holders: Docs, docs: Docs) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of the common docs in *holders* and in *docs*. Both must rise."""
    if not len(holders):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    at = holders.searchsorted(docs)
    at[at == len(holders)] = 0
    here = (holders[at] == docs).nonzero()[0]  # as np.flatnonzero, which is slower for so few
    return at[here], here
