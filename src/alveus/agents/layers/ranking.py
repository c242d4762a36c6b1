"""Fragments by recency, relevance and importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple

import numpy as np

from alveus.agents.layers.fragment_items import item_id
from alveus.agents.layers.fragments import FragmentId, MemoryFragment, T
from alveus.agents.layers.importance import Weights, recency, unit
from alveus.agents.storage import LayerStorage, aware
from alveus.search.similarity import Nearness
from alveus.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RankedFragment(Generic[T]):
    """A fragment that was recalled, and why.

    Attributes:
        score: What `parts` come to, with the weights of the reading.
        parts: `recency`, `relevance` and `importance`, each 0..1 (of the profile "dbgpt":
            importance as that counts it).
    """

    fragment: T
    score: float
    parts: Mapping[str, float]


class Ranked(NamedTuple):
    """What is ranked: the item of a fragment, whose id it has."""

    score: float
    id: FragmentId
    item: Any
    parts: Mapping[str, float]


def best_first(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Return what was found, best first; of equals the newest first, by their ids."""
    newest = sorted(ranked, key=lambda one: _order(one.id), reverse=True)
    return sorted(newest, key=lambda one: -one.score)


def _order(name: FragmentId) -> tuple[bool, int, str]:
    """Numbers rise with time, and as numbers; ids from outside stand by themselves."""
    return (True, name, "") if isinstance(name, int) else (False, 0, item_id(name))


def score_parts(
    accessed: datetime | None, relevance: float, importance: float, now: datetime
) -> dict[str, float]:
    """Return the parts of a score; what was never recalled is as recent as can be."""
    near = recency(aware(accessed or now), now)
    return {"recency": near, "relevance": relevance, "importance": importance}


def ranked(
    storage: LayerStorage, fragments: Sequence[T], observation: str, weights: Weights
) -> list[T]:
    """Return fragments, best first."""
    if not fragments:
        return []
    now, near = storage.now(), relevances(storage, fragments, observation, weights)
    found: list[Ranked] = []
    for fragment, relevance in zip(fragments, near, strict=True):
        parts = score_parts(fragment.last_accessed_time, relevance, unit(fragment.importance), now)
        found.append(Ranked(weights.score(parts), fragment.id, fragment, parts))
    return [one.item for one in best_first(found)]


def relevances(
    storage: LayerStorage, fragments: Sequence[MemoryFragment], observation: str, weights: Weights
) -> list[float]:
    """Return how near fragments are to an observation, 0..1; without vectors, by words."""
    if not weights.beta:
        return [0.0] * len(fragments)
    texts = [fragment.raw_observation for fragment in fragments]
    embedder = storage.engine.recorder.embedder
    if not embedder.dimensions:
        return [_shared_words(observation, text) for text in texts]
    query, *rows = Nearness(embedder).vectors([observation, *texts])
    return [min(1.0, max(0.0, float(np.dot(query, row)))) for row in rows]


def _shared_words(query: str, text: str) -> float:
    """Return the share of the query's words that a text has."""
    words = set(query.casefold().split())
    return len(words & set(text.casefold().split())) / len(words) if words else 0.0
