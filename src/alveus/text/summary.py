"""Summaries and topics, and the interface of a summariser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast, runtime_checkable

import numpy as np

from alveus.embed import Vectors
from alveus.errors import InvalidInput
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import counted, encodable

MOST_TOPICS = 1_000
"""Most topics that may be requested."""

LEAST_TOKENS = 8
"""The least limit of tokens of a summary: a character of any script fits in."""

SUMMARY_TOKENS = 256
"""The default of the most tokens of a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summary and its author.

    Attributes:
        text: Empty only if there was nothing to sum up.
        by: ``extractive``, or ``model:`` and the model's name.
        tokens: About the tokens of the text; never above the limit.
        left_out: Sentences that were not considered because there were too many.
        because: The reason why the model did not make the summary; else empty.
    """

    text: str
    by: str
    tokens: int
    left_out: int = 0
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Texts that belong together.

    Attributes:
        title: One short line.
        summary: The summary of the texts.
        indices: The texts, ascending; no text is in two topics, and some may be in none.
        by, because: See `Summary`.
    """

    title: str
    summary: str
    indices: tuple[int, ...]
    by: str
    because: str = ""


@runtime_checkable
class Summariser(Protocol):
    """Summarises texts. One instance serves many threads at once."""

    def summarise(
        self,
        texts: Sequence[str],
        *,
        max_tokens: int = SUMMARY_TOKENS,
        vectors: Vectors | None = None,
    ) -> Summary:
        """Return a summary of *texts*, in at most *max_tokens*.

        Args:
            vectors: A unit row per text, if known; they save embedding.

        Raises:
            InvalidInput: An argument cannot be used.
        """
        ...

    def topics(
        self,
        texts: Sequence[str],
        limit: int,
        *,
        max_tokens: int = SUMMARY_TOKENS,
        vectors: Vectors | None = None,
    ) -> tuple[Topic, ...]:
        """Return *texts* as at most *limit* topics, with at most *max_tokens* each, by first text.

        Every index is in range and in one topic at most. Texts without words are in none.

        Raises:
            InvalidInput: An argument cannot be used.
        """
        ...


def checked_request(
    texts: object,
    vectors: Vectors | None,
    max_tokens: int,
    limit: int = 1,
    *,
    dimensions: int | None = None,
) -> tuple[tuple[str, ...], Vectors | None]:
    """Return the checked texts and vectors of a request; *dimensions* None: vectors of any size.

    Raises:
        InvalidInput: The texts are no list of texts that can be encoded; a limit is no whole
            number, or out of range; the vectors have another shape than (texts, dimensions).
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise InvalidInput(f"texts must be a list of texts, not {type(texts).__name__}")
    listed = cast("Sequence[object]", texts)
    found = tuple(encodable(text, f"texts[{at}]") for at, text in enumerate(listed))
    counted(max_tokens, "max_tokens", least=LEAST_TOKENS)
    counted(limit, "limit", most=MOST_TOPICS)
    return found, _checked_vectors(vectors, found, dimensions)


def _checked_vectors(
    vectors: Vectors | None, texts: Sequence[str], dimensions: int | None
) -> Vectors | None:
    if vectors is None:
        return None
    rows = np.asarray(vectors, dtype=np.float32)
    size = rows.shape[-1] if dimensions is None and rows.ndim else dimensions
    if rows.shape != (len(texts), size) or not np.isfinite(rows).all():
        raise InvalidInput(
            f"vectors must be numbers of the shape {(len(texts), size)}, a row per text of the "
            f"summariser's embedder, not of {rows.shape}"
        )
    return rows
