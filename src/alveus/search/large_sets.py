"""The search of a large set: only candidates that its store chooses are loaded.

The loaded part takes its figures, such as the number of documents, from the whole set, and contains
the neighbours of the candidates. So each candidate gets the same score as in a search of the whole
set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from alveus.search.bm25 import Bm25, Mask
from alveus.search.index import Quantised, SetIndex
from alveus.search.ranking import Ranking
from alveus.search.signals import Signals
from alveus.store import CandidateQuery, Feature, Finder, LargeSet
from alveus.store.filters import Filter

SHORT_LIST = 200
"""Candidates whose neighbours are scored too, or four times the limit of hits if that is more."""

BEST_BY_WORDS = 8
"""Candidates that are added to the short list for their words alone."""


def can_be_partial(signals: Signals) -> bool:
    """Return whether words and meaning alone find all hits of a search with *signals*."""
    return not (signals.recency or signals.importance or signals.decay or signals.names)


def part_of(  # noqa: PLR0913 - a large set, the search in it and its filter
    store: Finder,
    number: int,
    whole: LargeSet,
    ranking: Ranking,
    where: Filter | None,
    allow: Callable[[SetIndex], Mask | None],
    *,
    dimensions: int,
) -> tuple[SetIndex, list[int]]:
    """Return an index of the best candidates of a large set, and its rows that must not be hits.

    Args:
        number: The number of the set.
        whole: The figures of the set.
        ranking: The question, the weights and the limit of the search.
        allow: Returns a mask of the docs of an index that may be hits, or None if all may.
    """
    query = _query(whole, ranking, where)
    features = store.candidates(number, query, dimensions=dimensions)
    candidates = _standing_for(whole, features, dimensions)
    allowed = allow(candidates)
    if where is not None and allowed is not None and np.count_nonzero(allowed) < ranking.limit:
        features = store.candidates(number, query._replace(scan=True), dimensions=dimensions)
        candidates = _standing_for(whole, features, dimensions)
        allowed = allow(candidates)
    limit = max(SHORT_LIST, 4 * ranking.limit)
    best = replace(
        ranking,
        sets=[candidates],
        allowed=[allowed],
        limit=limit,
        calibration=None,
        everything=False,
    ).best()
    words = Bm25([candidates], ranking.question.terms, ranking.signals).all(0)
    by_words = candidates.row[np.argsort(-words, kind="stable")[:BEST_BY_WORDS]].tolist()
    rows = sorted({*best.rows, *by_words})
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


def _query(whole: LargeSet, ranking: Ranking, where: Filter | None) -> CandidateQuery:
    question, signals, vector = ranking.question, ranking.signals, ranking.vector
    meaning: Sequence[float] = ()
    if isinstance(vector, Quantised) and signals.meaning and vector.norm:
        meaning = (vector.whole / vector.norm).tolist()
    return CandidateQuery(
        counts=whole.counts if signals.words else {},
        vector=meaning,
        speaker=question.speaker if signals.speaker else None,
        role="user" if question.says_i and question.speaker is None and signals.user else None,
        where=where,
    )


def _standing_for(whole: LargeSet, features: Sequence[Feature], dimensions: int) -> SetIndex:
    part = SetIndex.build(features, dimensions=dimensions)
    part.stand_for(whole, ())
    return part


def _inner(rows: Sequence[int], windows: Sequence[Sequence[int]]) -> set[int]:
    """Return *rows* and the rows next to them: the rows whose neighbours are all loaded."""
    chosen, inner = set(rows), set(rows)
    for window in windows:
        for at, row in enumerate(window):
            if row in chosen:
                inner.update(window[max(0, at - 1) : at + 2])
    return inner
