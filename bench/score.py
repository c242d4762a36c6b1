"""How good a ranking of turns is: share of the gold turns among the first, reciprocal rank, nDCG,
sessions; no model judges.

The unit is one question; tables are means over questions. Questions without gold are left out, a
question without a ranking counts 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from bench.conversations import Conversation, Question

CUTS = (5, 10, 20, 50)
SESSION_CUTS = (5, 10)
METRICS = (
    *(f"R@{k}" for k in CUTS),
    *(f"any@{k}" for k in CUTS),
    *(f"all@{k}" for k in CUTS),
    "MRR",
    "nDCG@10",
    *(f"sR@{k}" for k in SESSION_CUTS),
)
SHOWN = ("R@5", "R@10", "R@20", "R@50", "any@10", "all@10", "MRR", "nDCG@10", "sR@5", "sR@10")
MEMPALACE_CUTS = (5, 10)

Rankings = Mapping[str, Sequence[str]]
"""Turn ids, best first, by question id."""


def scores(
    question: Question, ranked: Sequence[str], session_of: Mapping[str, str]
) -> dict[str, float]:
    """Every metric of one question whose gold is not empty, 0 to 1.

    Ids that are no turns are passed over, and so is an id's second place.
    """
    turns = [name for name in dict.fromkeys(ranked) if name in session_of]
    places = [place for place, name in enumerate(turns) if name in question.gold]
    found = {
        f"{kind}@{k}": value
        for k in CUTS
        for kind, value in _at(k, places, len(question.gold)).items()
    }
    found["MRR"] = 1 / (places[0] + 1) if places else 0.0
    best = sum(1 / math.log2(place + 2) for place in range(min(10, len(question.gold))))
    found["nDCG@10"] = sum(1 / math.log2(place + 2) for place in places if place < 10) / best
    gold = {session_of[name] for name in question.gold if name in session_of}
    for k in SESSION_CUTS:
        found[f"sR@{k}"] = _share(gold, _sessions(turns, session_of)[:k])
    return found


def mempalace(
    question: Question, ranked: Sequence[str], session_of: Mapping[str, str], *, cut: int
) -> float:
    """MemPalace's own figure for LoCoMo: share of the evidence's sessions among the first *cut*
    sessions of the ranking.

    As in its script (commit 9b7cfc9): every question counts, adversarial ones too; the session is
    the number after the `D` at the start of each evidence string as the source spells it; a
    question without evidence counts 1. Without such strings the gold sessions stand in.
    """
    if question.evidence is None:
        wanted = {session_of[name] for name in question.gold if name in session_of}
    else:
        starts = (re.match(r"D(\d+):", text) for text in question.evidence)
        wanted = {f"S{start[1]}" for start in starts if start}
    first = _sessions([name for name in dict.fromkeys(ranked) if name in session_of], session_of)[
        :cut
    ]
    return _share(wanted, first) if wanted else 1.0


def by_category(
    conversations: Iterable[Conversation], rankings: Rankings
) -> dict[str, list[dict[str, float]]]:
    """The scores of every question that has gold, by category."""
    found: dict[str, list[dict[str, float]]] = {}
    for each in conversations:
        session_of = each.session_of()
        for question in each.questions:
            if question.gold:
                found.setdefault(question.category, []).append(
                    scores(question, rankings.get(question.id, ()), session_of)
                )
    return dict(sorted(found.items()))


def mempalace_mean(conversations: Iterable[Conversation], rankings: Rankings, *, cut: int) -> float:
    """`mempalace` over all questions."""
    return mean(
        [
            mempalace(q, rankings.get(q.id, ()), each.session_of(), cut=cut)
            for each in conversations
            for q in each.questions
        ]
    )


def means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over *rows*, in percent."""
    return {metric: 100 * mean([row[metric] for row in rows]) for metric in METRICS}


def mean(values: Sequence[float]) -> float:
    """Their mean; 0 of none."""
    return sum(values) / len(values) if values else 0.0


def _at(k: int, places: Sequence[int], gold: int) -> dict[str, float]:
    hits = sum(place < k for place in places)
    return {"R": hits / gold, "any": float(hits > 0), "all": float(hits == gold)}


def _sessions(turns: Sequence[str], session_of: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(session_of[name] for name in turns))


def _share(wanted: set[str], found: Iterable[str]) -> float:
    return len(wanted & set(found)) / len(wanted) if wanted else 0.0
