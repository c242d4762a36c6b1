"""Sensory memory: takes in what is perceived, and lets through what matters."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from fornix.errors import InvalidInput
from fornix.layers.buffer import BufferMemory
from fornix.layers.contents import Entry
from fornix.layers.fragments import MemoryFragment, WriteOperation, finite
from fornix.layers.moves import Move

T = TypeVar("T", bound=MemoryFragment)


class SensoryMemory(BufferMemory[T]):
    """Gathers fragments; when it overflows all of them leave at once, and it is empty again.

    Each is scored then. What is important enough is handed on, and the rest is dropped, by name.

    Args:
        buffer_size: How many it gathers; 0: every fragment is scored as it comes.
        threshold_to_short_term: The least importance of what is handed on.
        settings: What every layer takes; see `Memory`.
    """

    importance_weight = 0.9
    kind: ClassVar[str] = "sensory"

    def __init__(
        self,
        buffer_size: int = 0,
        *,
        threshold_to_short_term: float = 0.1,
        **settings: Any,  # noqa: ANN401 - of Memory
    ) -> None:
        super().__init__(buffer_size, **settings)
        self.threshold_to_short_term = finite(threshold_to_short_term, "threshold_to_short_term")

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"threshold_to_short_term": self.threshold_to_short_term}

    def take(self, move: Move, entry: Entry, op: WriteOperation) -> list[Entry]:
        """Take an entry in; return those that leave, with their importance."""
        if op is WriteOperation.RETRIEVAL:
            raise InvalidInput(
                "what was recalled strengthens short-term memory, not sensory memory"
            )
        if not self._buffer_size:
            return self._let_through(move, [entry])
        buffer = move.buffer(self)
        if len(buffer.entries) < self._buffer_size:
            buffer.append(entry)
            return []
        leaving = [*buffer.entries, entry]
        buffer.remove(buffer.entries)
        buffer.touch()
        return self._let_through(move, leaving)

    def _let_through(self, move: Move, entries: list[Entry]) -> list[Entry]:
        fragments = [entry.fragment for entry in entries]
        if self.importance_scorer is not None:
            move.ask(self, "score", [[fragment] for fragment in fragments])
        scores = self.importances(move.known, fragments)
        passed: list[Entry] = []
        for entry, score in zip(entries, scores, strict=True):
            fragment = entry.fragment
            if self.importance_scorer is None and fragment.importance is not None:
                score = fragment.importance  # noqa: PLW2901 - it says so itself
            if score < self.threshold_to_short_term:
                limit = self.threshold_to_short_term
                move.drop(fragment, f"its importance, {score:.3g}, is below {limit:.3g}")
                continue
            fragment.update_importance(score)
            passed.append(entry.leaving())
        return passed
