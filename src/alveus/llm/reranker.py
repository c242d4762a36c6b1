"""What a re-ranker is: a model that reads a question and texts together, and marks the texts."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values.storable import counted

CANDIDATES = 50
"""Hits that a re-ranker reads unless it says how many."""

MOST_CANDIDATES = 1_000
"""As many as a search can return."""


@runtime_checkable
class Reranker(Protocol):
    """Says how well texts answer a question; one instance serves many threads.

    It may have an attribute `candidates`, from 1 to 1,000: how many hits it is given, 50 by
    default. It is always given at least as many as the search returns.
    """

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a number per text, the higher the better, comparable within this call.

        A text is an item as a prompt shows it: ``Ada, 2024-05-02: I moved to Lisbon.``

        Raises:
            RerankerFailed: The model or its server failed; the search keeps its own order.
        """
        ...


class MemoryDefault(Enum):
    """Tells "not given" from None in the arguments of a call."""

    MEMORY_DEFAULT = "as the memory was opened"


MEMORY_DEFAULT: Final = MemoryDefault.MEMORY_DEFAULT
"""The re-ranker that `Memory.open` was given, if any."""

RerankerChoice: TypeAlias = Reranker | Literal[MemoryDefault.MEMORY_DEFAULT] | None
"""A call's re-ranker; None: the call goes without, whatever the memory has."""


def candidates_of(reranker: Reranker) -> int:
    """Return how many hits a re-ranker wants to read.

    Raises:
        InvalidInput: Its `candidates` are not a number from 1 to 1,000.
    """
    given: object = getattr(reranker, "candidates", CANDIDATES)
    return counted(given, "candidates of a re-ranker", most=MOST_CANDIDATES)


def checked_reranker(given: object) -> None:
    """Refuse what is no re-ranker; None and the memory's default pass."""
    if given is None or given is MEMORY_DEFAULT:
        return
    if not isinstance(given, Reranker) or isinstance(given, type):
        raise InvalidInput(
            f"reranker must be an object with a method rerank, not {short_repr(given)}"
        )
    candidates_of(given)
