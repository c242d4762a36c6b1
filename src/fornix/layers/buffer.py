"""What sensory and short-term memory have in common: few fragments, all of which are read."""

from __future__ import annotations

from typing import Any, ClassVar, Self, TypeVar, cast

from fornix.errors import InvalidInput
from fornix.keys import KeySets
from fornix.layers.fragments import MemoryFragment
from fornix.layers.layer import Memory
from fornix.layers.moves import Known, Move, moved
from fornix.layers.ranking import ranked
from fornix.layers.scoring import Weights
from fornix.place import Now
from fornix.values import counted
from fornix.writer import Writer

T = TypeVar("T", bound=MemoryFragment)


class BufferMemory(Memory[T]):
    """A layer that holds few fragments, and gives all of them to whoever reads.

    Args:
        buffer_size: The most fragments that it holds when a write has ended.
        settings: What every layer takes; see `Memory`.
    """

    least: ClassVar[int] = 0

    def __init__(self, buffer_size: int, **settings: Any) -> None:  # noqa: ANN401 - of Memory
        super().__init__(**settings)
        self._buffer_size = counted(buffer_size, "buffer_size", least=self.least)

    @property
    def buffer_size(self) -> int:
        """The most fragments that it holds when a write has ended."""
        return self._buffer_size

    def structure_clone(
        self, now: Now = None, *, label: str | None = None, memory: KeySets | None = None
    ) -> Self:
        """Return a layer like this one that holds nothing yet; see `Memory.structure_clone`."""
        del now  # RAM is renewed with its clock, and a memory has its own
        return self._cloned(label, memory, **self._settings())

    def _settings(self) -> dict[str, Any]:
        return {"buffer_size": self._buffer_size}

    def held(self, writer: Writer) -> list[T]:
        """Return copies of its fragments, oldest first."""
        return cast("list[T]", Move(self.place, writer, Known()).buffer(self).fragments)

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
            return await self.place.call(self.held)
        weights = Weights.given(alpha, beta, gamma)

        def best(writer: Writer) -> list[T]:
            return ranked(self.place, self.held(writer), observation, weights)

        return await self.place.call(best)

    async def clear(self) -> list[T]:
        """Empty it; return what it held, oldest first. It can be written again, old ids too."""
        found = await moved(self.place, self._turns, self.emptied, "clear a layer", self.set_name)
        return cast("list[T]", found)

    def emptied(self, move: Move) -> list[MemoryFragment]:
        """Empty it as part of a move; return what it held."""
        buffer = move.buffer(self)
        held = buffer.fragments
        buffer.remove(list(buffer.entries))
        buffer.note.begin_era()
        buffer.touch()
        return held
