"""What a re-ranker is: a model that reads a question and texts together, and marks the texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Reranker(Protocol):
    """Says how well texts answer a question; one instance serves many threads."""

    def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a number per text, the higher the better, comparable within this call."""
        ...
