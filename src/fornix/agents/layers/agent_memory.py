"""What an agent is bound to: a memory, and the log of its conversations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from fornix.agents.layers.buffers import ShortTermMemory
from fornix.agents.layers.fragments import AgentMemoryFragment, MemoryFragment, WriteOperation
from fornix.agents.layers.gpts_memory import GptsMemory, GptsMessageMemory, GptsPlansMemory
from fornix.agents.layers.importance import ImportanceScorer
from fornix.agents.layers.insight_extractors import InsightExtractor
from fornix.agents.layers.layer import Memory
from fornix.agents.layers.layer_results import DiscardedMemoryFragments
from fornix.agents.storage import Now
from fornix.errors import InvalidInput
from fornix.llm import ChatModel
from fornix.memory.keys import KeySets

T = TypeVar("T", bound=MemoryFragment)


class AgentMemory(Generic[T]):
    """A memory of fragments, and a log of messages and plans.

    Args:
        memory: The layers; None: `ShortTermMemory()`.
        importance_scorer: Used where `initialize` gives none.
        insight_extractor: Likewise.
        gpts_memory: The log; None: a new one, in RAM. Clones share it.
    """

    def __init__(
        self,
        memory: Memory[T] | None = None,
        importance_scorer: ImportanceScorer | None = None,
        insight_extractor: InsightExtractor | None = None,
        gpts_memory: GptsMemory | None = None,
    ) -> None:
        if not (memory is None or isinstance(memory, Memory)):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"an agent memory is made of a layer of fornix.agents.layers, not {memory!r}"
            )
        self.memory: Memory[T] = ShortTermMemory[T]() if memory is None else memory
        self.importance_scorer, self.insight_extractor = importance_scorer, insight_extractor
        self.gpts_memory = GptsMemory() if gpts_memory is None else gpts_memory

    def __repr__(self) -> str:
        return f"<AgentMemory: {self.memory!r}, {self.gpts_memory!r}>"

    def initialize(
        self,
        name: str | None = None,
        llm_client: ChatModel | None = None,
        importance_scorer: ImportanceScorer | None = None,
        insight_extractor: InsightExtractor | None = None,
        real_memory_fragment_class: type[Any] | None = None,
        session_id: str | None = None,
    ) -> None:
        """Set who uses the memory, and with which models; see `Memory.initialize`."""
        self.memory.initialize(
            name,
            llm_client,
            importance_scorer or self.importance_scorer,
            insight_extractor or self.insight_extractor,
            real_memory_fragment_class or cast("type[Any]", AgentMemoryFragment),
            session_id,
        )

    def structure_clone(
        self, now: Now = None, *, label: str | None = None, memory: KeySets | None = None
    ) -> AgentMemory[T]:
        """Return one like this that holds no fragments; the log is shared."""
        inner = self.memory.structure_clone(now, label=label, memory=memory)
        return AgentMemory(inner, self.importance_scorer, self.insight_extractor, self.gpts_memory)

    async def write(
        self,
        memory_fragment: T,
        now: datetime | None = None,
        op: WriteOperation = WriteOperation.ADD,
    ) -> DiscardedMemoryFragments[T] | None:
        """Write a fragment; see `Memory.write`."""
        return await self.memory.write(memory_fragment, now, op)

    async def write_batch(
        self, memory_fragments: Sequence[T], now: datetime | None = None
    ) -> DiscardedMemoryFragments[T] | None:
        """Write fragments in one commit; see `Memory.write_batch`."""
        return await self.memory.write_batch(memory_fragments, now)

    async def read(
        self,
        observation: str,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
    ) -> list[T]:
        """Read by an observation; see `Memory.read`, whose weights these are."""
        return await self.memory.read(observation, alpha, beta, gamma)

    async def clear(self) -> list[T]:
        """Empty the memory; return what it held. The log stays."""
        return await self.memory.clear()

    @property
    def plans_memory(self) -> GptsPlansMemory:
        """Where plans are kept."""
        return self.gpts_memory.plans_memory

    @property
    def message_memory(self) -> GptsMessageMemory:
        """Where messages are kept."""
        return self.gpts_memory.message_memory
