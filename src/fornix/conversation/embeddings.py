"""Embeddings of messages, by whatever the caller has: an embedder, its name, or a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan, nan
from typing import Any, TypeAlias, cast

import numpy as np

from fornix.embed import Embedder, open_embedder
from fornix.errors import EmbedderFailed, InvalidInput

Embed: TypeAlias = "str | Embedder | Callable[[list[str]], Any]"
"""The name of a bundled embedder, an embedder, or a function that gives texts their vectors."""


def embed_with(model: Embed) -> Callable[[list[str]], Any]:
    """Return what gives texts their vectors.

    Raises:
        InvalidInput: It is nothing that does.
    """
    if callable(model):
        return model
    found = open_embedder(model)
    if not found.dimensions:
        raise InvalidInput(f"embedder {found.name!r} has no vectors; take another one")
    return found.embed


def embedded(embed: Callable[[list[str]], Any], texts: Sequence[str]) -> list[list[float]]:
    """Return a vector per text; a function may answer a single text with a single vector.

    Raises:
        EmbedderFailed: It raised, or answered with something else.
    """
    if not texts:
        return []
    try:
        rows = np.asarray(embed(list(texts)), dtype=np.float64)
    except Exception as error:  # the edge to other people's code; the cause is kept
        raise EmbedderFailed(f"the embedding model raised {error!r}") from error
    if rows.ndim == 1 and len(texts) == 1:
        rows = rows[None, :]
    if rows.ndim != 2 or len(rows) != len(texts) or not rows.size or not np.isfinite(rows).all():  # noqa: PLR2004 - a row per text
        raise EmbedderFailed(
            f"the embedding model answered {len(texts)} texts with the shape {rows.shape}, "
            "not with one vector each"
        )
    return cast("list[list[float]]", rows.tolist())


def vector_of(query: object) -> object | None:
    """Return a query that is a vector already, as it is; None: it is something to be embedded."""
    if isinstance(query, str | dict):
        return None
    if isinstance(query, np.ndarray):
        return cast("object", query)
    if isinstance(query, Sequence):
        numbers = cast("Sequence[object]", query)
        if numbers and all(isinstance(number, int | float) for number in numbers):
            return numbers
    kind = type(cast("object", query)).__name__
    raise InvalidInput(f"a query is a text, a message or a vector, not {kind}")


def score_of(metric: Callable[[Any, Any], float], asked: object, vector: object) -> float:
    """Return how near two vectors are.

    Raises:
        InvalidInput: *metric* is no function, or gives no number.
    """
    if not callable(metric):
        raise InvalidInput(f"a metric is told two vectors, not {metric!r}")
    found = metric(asked, vector)
    try:
        score = float(found)
    except (TypeError, ValueError):
        score = nan
    if isnan(score):
        raise InvalidInput(f"the metric returned {found!r:.40}, which is no score")
    return score
