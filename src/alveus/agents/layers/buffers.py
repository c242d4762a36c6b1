"""What sensory and short-term memory have in common: few fragments, all of which are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Unpack, cast

from alveus.agents.layers.fragment_items import FragmentEntry
from alveus.agents.layers.fragments import MemoryFragment, T, WriteOperation, finite
from alveus.agents.layers.importance import Weights
from alveus.agents.layers.layer import LayerMemory, LayerOptions, absorb, normal_text
from alveus.agents.layers.layer_plans import ModelAnswers, Move
from alveus.agents.layers.ranking import ranked
from alveus.errors import InvalidInput
from alveus.sets.writer import Writer
from alveus.values.keywords import check_keywords
from alveus.values.storable import counted


class BufferMemory(LayerMemory[T]):
    """A layer that holds few fragments, and gives all of them to whoever reads.

    Args:
        buffer_size: The most fragments that it holds when a write has ended.
        settings: What every layer takes; see `LayerMemory`.
    """

    least: ClassVar[int] = 0

    def __init__(self, buffer_size: int, **settings: Unpack[LayerOptions]) -> None:
        check_keywords(self, "__init__", settings, LayerOptions)
        super().__init__(**settings)
        self.buffer_size = counted(buffer_size, "buffer_size", least=self.least)

    def _settings(self) -> dict[str, Any]:
        return {"buffer_size": self.buffer_size}

    def contents(self, writer: Writer) -> list[T]:
        """Return copies of its fragments, oldest first."""
        return cast("list[T]", Move(self.storage, writer, ModelAnswers()).buffer(self).fragments)

    async def read(
        self,
        observation: str,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
    ) -> list[T]:
        """Return copies of all its fragments: oldest first, or, given any weight, best first."""
        if not isinstance(observation, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"an observation must be a str, not {observation!r}")
        if alpha is None and beta is None and gamma is None:
            return await self.storage.call(self.contents)
        weights = Weights.given(alpha, beta, gamma)

        return await self.storage.call(
            lambda writer: ranked(self.storage, self.contents(writer), observation, weights)
        )

    def emptied(self, move: Move) -> list[MemoryFragment]:
        """Empty it as part of a move; return what it held."""
        buffer = move.buffer(self)
        fragments = buffer.fragments
        buffer.remove(buffer.entries)
        buffer.note.begin_era()
        buffer.touch()
        return fragments


class SensoryMemory(BufferMemory[T]):
    """Gathers fragments; when it overflows all of them leave at once, and it is empty again.

    Each is scored then. What is important enough is handed on, and the rest is dropped, by name.

    Args:
        buffer_size: How many it gathers; 0: every fragment is scored as it comes.
        threshold_to_short_term: The least importance of what is handed on.
        settings: What every layer takes; see `LayerMemory`.
    """

    importance_weight = 0.9
    kind: ClassVar[str] = "sensory"

    def __init__(
        self,
        buffer_size: int = 0,
        *,
        threshold_to_short_term: float = 0.1,
        **settings: Unpack[LayerOptions],
    ) -> None:
        super().__init__(buffer_size, **settings)
        self.threshold_to_short_term = finite(threshold_to_short_term, "threshold_to_short_term")

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"threshold_to_short_term": self.threshold_to_short_term}

    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """Take an entry in; return those that leave, with their importance."""
        if op is WriteOperation.RETRIEVAL:
            raise InvalidInput(
                "what was recalled strengthens short-term memory, not sensory memory"
            )
        if not self.buffer_size:
            return self._let_through(move, [entry])
        buffer = move.buffer(self)
        if len(buffer.entries) < self.buffer_size:
            buffer.append(entry)
            return []
        leaving = [*buffer.entries, entry]
        buffer.remove(buffer.entries)
        buffer.touch()
        return self._let_through(move, leaving)

    def _let_through(self, move: Move, entries: list[FragmentEntry]) -> list[FragmentEntry]:
        fragments = [entry.fragment for entry in entries]
        if self.importance_scorer is not None:
            move.ask(self, "score", [[fragment] for fragment in fragments])
        scores = move.answers.importances(self, fragments)
        passed: list[FragmentEntry] = []
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


class ShortTermMemory(BufferMemory[T]):
    """Keeps the newest fragments; when it overflows the oldest leave.

    Args:
        buffer_size: How many it keeps.
        settings: What every layer takes; see `LayerMemory`. With ``memory=`` it survives a restart.
    """

    kind: ClassVar[str] = "short_term"
    least: ClassVar[int] = 1

    def __init__(self, buffer_size: int = 5, **settings: Unpack[LayerOptions]) -> None:
        super().__init__(buffer_size, **settings)

    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """Take an entry in; return those that leave, oldest first."""
        if op is WriteOperation.RETRIEVAL:
            return []
        buffer = move.buffer(self)
        self.take_again(move, entry)
        buffer.append(entry)
        over = len(buffer.entries) - self.buffer_size
        leaving = buffer.entries[: max(0, over)]
        buffer.remove(leaving)
        return [gone.leaving() for gone in leaving]

    def take_again(self, move: Move, entry: FragmentEntry) -> None:
        """Make an entry and what it has a duplicate of, by its text, into one: the entry."""
        if self._dedupe != "text":
            return
        buffer = move.buffer(self)
        text = normal_text(entry.fragment.raw_observation)
        same = [e for e in buffer.entries if normal_text(e.fragment.raw_observation) == text]
        for earlier in same:
            absorb(entry.fragment, earlier.fragment)
            entry.extra["seen"] = entry.extra.get("seen", 1) + earlier.extra.get("seen", 1)
            entry.origin = (*entry.origin, *earlier.origins())
        buffer.remove(same)

    @property
    def short_term_memories(self) -> list[T]:
        """Copies of its fragments, oldest first."""
        return self.contents(self.storage.writer())

    async def handle_overflow(self, memory_fragments: Sequence[T]) -> tuple[list[T], list[T]]:
        """Return the newest fragments, and the oldest, which are too many."""
        fragments = list(memory_fragments)
        over = max(0, len(fragments) - self.buffer_size)
        return fragments[over:], fragments[:over]
