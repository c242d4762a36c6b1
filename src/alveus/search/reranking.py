"""Asks a re-ranker for its scores of texts, and checks the scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alveus.errors import AlveusError, EmbedderFailed, ModelFailed, RerankerFailed
from alveus.errors.short_repr import short_repr
from alveus.llm import Reranker
from alveus.store.items import Item

RERANKER_FAILURES = (EmbedderFailed, ModelFailed, RerankerFailed)
"""Errors of a re-ranker, its model or its server.

After one of them the search keeps its order of the hits, and reports the error.
"""

CODE_ERRORS = (
    AssertionError,
    AttributeError,
    ImportError,
    NameError,
    NotImplementedError,
    TypeError,
)
"""Errors that show a mistake in the code of a re-ranker. The search raises them unchanged."""


def reranked(reranker: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """Return the re-ranker's score for each text.

    Raises:
        RerankerFailed: The re-ranker raised, or did not return one finite number per text.
        Exception: Errors of alveus and `CODE_ERRORS` are raised unchanged.
    """
    try:
        answer = reranker.rerank(query, texts)
    except (AlveusError, *CODE_ERRORS):
        raise
    except Exception as error:  # the edge to other people's code; the cause is kept
        raise RerankerFailed(f"the re-ranker {reranker!r} raised {error!r}") from error
    try:
        scores = [float(score) for score in answer]
    except (TypeError, ValueError, OverflowError):
        scores = []
    if len(scores) != len(texts) or not np.isfinite(scores).all():
        raise RerankerFailed(f"the re-ranker {reranker!r} did not give one number for each text")
    return scores


def dated_text(item: Item) -> str:
    """Return an item as text for a re-ranker: "Ada, 2024-05-02: I moved to Lisbon."."""
    about = [who] if (who := item.speaker or item.role) else []
    if item.time is not None:
        about.append(item.time.date().isoformat())
    text = item.text or short_repr(item.value)
    return f"{', '.join(about)}: {text}" if about else text
