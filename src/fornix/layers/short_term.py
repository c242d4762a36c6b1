"""Short-term memory: the last few fragments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from fornix.layers.buffer import BufferMemory
from fornix.layers.contents import Entry
from fornix.layers.fragments import MemoryFragment, WriteOperation
from fornix.layers.layer import absorb, normal_text
from fornix.layers.moves import Move

T = TypeVar("T", bound=MemoryFragment)


class ShortTermMemory(BufferMemory[T]):
    """Keeps the newest fragments; when it overflows the oldest leave.

    Args:
        buffer_size: How many it keeps.
        settings: What every layer takes; see `Memory`. With ``memory=`` it survives a restart.
    """

    kind: ClassVar[str] = "short_term"
    least: ClassVar[int] = 1

    def __init__(self, buffer_size: int = 5, **settings: Any) -> None:  # noqa: ANN401 - of Memory
        super().__init__(buffer_size, **settings)

    def take(self, move: Move, entry: Entry, op: WriteOperation) -> list[Entry]:
        """Take an entry in; return those that leave, oldest first."""
        if op is WriteOperation.RETRIEVAL:
            return []
        buffer = move.buffer(self)
        self.take_again(move, entry)
        buffer.append(entry)
        over = len(buffer.entries) - self._buffer_size
        leaving = buffer.entries[: max(0, over)]
        buffer.remove(leaving)
        return [gone.leaving() for gone in leaving]

    def take_again(self, move: Move, entry: Entry) -> None:
        """Make an entry and what it has a duplicate of, by its text, into one: the entry."""
        if self._dedupe != "text":
            return
        buffer = move.buffer(self)
        text = normal_text(entry.fragment.raw_observation)
        same = [e for e in buffer.entries if normal_text(e.fragment.raw_observation) == text]
        for held in same:
            absorb(entry.fragment, held.fragment)
            entry.extra["seen"] = entry.extra.get("seen", 1) + held.extra.get("seen", 1)
            entry.origin = (*entry.origin, *held.origins())
        buffer.remove(same)

    @property
    def short_term_memories(self) -> list[T]:
        """Copies of its fragments, oldest first."""
        return self.held(self.place.writer())

    async def handle_overflow(self, memory_fragments: Sequence[T]) -> tuple[list[T], list[T]]:
        """Return the newest fragments, and the oldest, which are too many."""
        fragments = list(memory_fragments)
        over = max(0, len(fragments) - self._buffer_size)
        return fragments[over:], fragments[:over]
