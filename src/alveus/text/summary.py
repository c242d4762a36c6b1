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
"""Least value of a summary's token limit. One character of any script fits into this limit."""

SUMMARY_TOKENS = 256
"""Default limit of the tokens of a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A summary and its author.

    Attributes:
        text: The summary. It is empty only if there was nothing to sum up.
        by: ``extractive``, or ``model:`` and the name of the model.
        tokens: About the number of tokens in the text; never above the limit.
        left_out: Number of sentences that were not considered because there were too many.
        because: The reason why a model did not make the summary; otherwise empty.
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
        indices: The indexes of the texts, ascending. No text is in two topics; some texts may be in
            no topic.
        by, because: See `Summary`.
    """

    title: str
    summary: str
    indices: tuple[int, ...]
    by: str
    because: str = ""


@runtime_checkable
class Summariser(Protocol):
    """The interface of an object that summarises texts. Many threads may use it at once."""

    def summarise(
        self,
        texts: Sequence[str],
        *,
        max_tokens: int = SUMMARY_TOKENS,
        vectors: Vectors | None = None,
    ) -> Summary:
        """Return a summary of *texts* with at most *max_tokens* tokens.

        Args:
            vectors: The vector of each text, of unit length, as rows. If they are given, the texts
                need not be embedded again.

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
        """Group *texts* into at most *limit* topics, in the order of their first texts.

        The summary of each topic has at most *max_tokens* tokens. Each text is in at most one
        topic; texts without words are in no topic.

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
    """Check the arguments of a request; return the texts and the vectors.

    Args:
        dimensions: The length that each vector must have; None allows any length.

    Raises:
        InvalidInput: *texts* is not a list of texts that can be encoded, a limit is not a whole
            number in its range, or the vectors do not have the shape (texts, dimensions).
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
            f"vectors must have the shape {(len(texts), size)}, a row per text of the "
            f"summariser's embedder, not {rows.shape}"
        )
    return rows
