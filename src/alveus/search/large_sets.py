"""Search of a large set by the candidates that its store chooses.

The searched part has the figures of the whole set and the neighbours of its items. So each
candidate gets the same score as in a search of the whole set.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alveus.search.bm25 import Bm25
from alveus.search.index import Quantised, ReadValues, SetIndex
from alveus.search.ranking import Ranking
from alveus.search.signals import QuestionSignals, Signals
from alveus.store import CandidateQuery, Feature, Finder, LargeSet
from alveus.store.filters import Filter

SHORT_LIST = 200
"""Candidates whose neighbours are scored too, or four times the limit of hits."""

BEST_BY_WORDS = 8
"""Candidates added to the short list for their words alone."""


class LargeSetRequest(NamedTuple):
    """The question, filter and limit of a search in a large set.

    Attributes:
        now: Microseconds since 1970.
        hidden: Rows that are never hits.
        read_values: Returns values of items that the filter names.
    """

    question: QuestionSignals
    vector: Quantised | None
    signals: Signals
    where: Filter | None
    limit: int
    now: int
    hidden: Collection[int]
    read_values: ReadValues


def can_be_partial(signals: Signals) -> bool:
    """Return whether words and meaning alone find all items of the search."""
    return not (signals.recency or signals.importance or signals.decay or signals.names)


def part_of(
    store: Finder, number: int, whole: LargeSet, request: LargeSetRequest, *, dimensions: int
) -> tuple[SetIndex, list[int]]:
    """Return the part of a large set with the best candidates, and its rows that are not hits."""
    query = _query(whole, request)
    features = store.candidates(number, query, dimensions=dimensions)
    candidates = _standing_for(whole, features, dimensions)
    if (
        np.count_nonzero(_visible(candidates, request)) < request.limit
        and request.where is not None
    ):
        features = store.candidates(number, query._replace(scan=True), dimensions=dimensions)
        candidates = _standing_for(whole, features, dimensions)
    rows = _short_list(candidates, request)
    windows = store.neighbours(number, rows)
    features_by_row = {feature.row: feature for feature in features}
    wanted_rows = {*rows, *(row for window in windows for row in window)}
    more = store.features_of(number, sorted(wanted_rows.difference(features_by_row)))
    features_by_row.update((feature.row, feature) for feature in more if feature.end_commit is None)
    chosen: list[Feature] = [
        features_by_row[row] for row in sorted(wanted_rows) if row in features_by_row
    ]
    part = SetIndex.build(chosen, dimensions=dimensions)
    part.stand_for(whole, windows)
    return part, sorted(wanted_rows.difference(_inner(rows, windows)))


def _query(whole: LargeSet, request: LargeSetRequest) -> CandidateQuery:
    question, signals, vector = request.question, request.signals, request.vector
    meaning: Sequence[float] = ()
    if vector is not None and signals.meaning and vector.norm:
        meaning = (vector.whole / vector.norm).tolist()
    return CandidateQuery(
        counts=whole.counts if signals.words else {},
        vector=meaning,
        speaker=question.speaker if signals.speaker else None,
        role="user" if question.says_i and question.speaker is None and signals.user else None,
        where=request.where,
    )


def _standing_for(whole: LargeSet, features: Sequence[Feature], dimensions: int) -> SetIndex:
    part = SetIndex.build(features, dimensions=dimensions)
    part.stand_for(whole, ())
    return part


def _visible(candidates: SetIndex, request: LargeSetRequest) -> NDArray[np.bool_]:
    visible = np.isin(candidates.row, list(request.hidden), invert=True)
    return (
        visible
        if request.where is None
        else visible & candidates.mask(request.where, request.read_values)
    )


def _short_list(candidates: SetIndex, request: LargeSetRequest) -> list[int]:
    """Return the rows of the best candidates, and of the best by words alone."""
    ranking = Ranking(
        [candidates],
        request.question,
        request.vector,
        limit=max(SHORT_LIST, 4 * request.limit),
        signals=request.signals,
        allowed=[_visible(candidates, request)],
        now=request.now,
    )
    words = Bm25([candidates], request.question.terms, request.signals).all(0)
    by_words = np.argsort(-words, kind="stable")[:BEST_BY_WORDS]
    return sorted({*(one.row for one in ranking.best()), *candidates.row[by_words].tolist()})


def _inner(rows: Sequence[int], windows: Sequence[Sequence[int]]) -> set[int]:
    """Return *rows* and their direct neighbours: the rows with known neighbours."""
    chosen, inner = set(rows), set(rows)
    for window in windows:
        for at, row in enumerate(window):
            if row in chosen:
                inner.update(window[max(0, at - 1) : at + 2])
    return inner
