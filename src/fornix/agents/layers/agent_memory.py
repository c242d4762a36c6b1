"""What an agent is bound to: a memory, and the log of its conversations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from fornix.agents.layers.buffers import ShortTermMemory
from fornix.agents.layers.fragment_items import FragmentEntry
from fornix.agents.layers.fragments import AgentMemoryFragment, MemoryFragment, WriteOperation
from fornix.agents.layers.gpts_memory import GptsMemory, GptsMessageMemory, GptsPlansMemory
from fornix.agents.layers.importance import ImportanceScorer, Profile
from fornix.agents.layers.insight_extractors import InsightExtractor
from fornix.agents.layers.layer import LayerMemory
from fornix.agents.layers.layer_plans import LayerSettings, Move
from fornix.agents.layers.layer_results import DiscardedMemoryFragments, Insights
from fornix.agents.storage import FairLock, LayerStorage, Now
from fornix.errors import InvalidInput
from fornix.llm import ChatModel
from fornix.memory.keys import KeySets

T = TypeVar("T", bound=MemoryFragment)


class AgentMemory(LayerMemory[T]):
    """A memory of fragments, and a log of messages and plans.

    It is a memory itself: whatever a `LayerMemory` does, the layers do that it is made of.

    Args:
        memory: The layers; None: `ShortTermMemory()`.
        importance_scorer: Used where `initialize` gives none.
        insight_extractor: Likewise.
        gpts_memory: The log; None: a new one, in RAM. Clones share it.
    """

    def __init__(
        self,
        memory: LayerMemory[T] | None = None,
        importance_scorer: ImportanceScorer | None = None,
        insight_extractor: InsightExtractor | None = None,
        gpts_memory: GptsMemory | None = None,
    ) -> None:
        if not (memory is None or isinstance(memory, LayerMemory)):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"an agent memory is made of a layer of fornix.agents.layers, not {memory!r}"
            )
        self.memory: LayerMemory[T] = ShortTermMemory[T]() if memory is None else memory
        inner = self.memory
        super().__init__(storage=inner.storage, label=inner.label, profile=inner.profile.name)
        self._scorer, self._extractor = importance_scorer, insight_extractor
        self._show_settings()
        self.importance_scorer = inner.importance_scorer or importance_scorer
        self.insight_extractor = inner.insight_extractor or insight_extractor
        self.gpts_memory = GptsMemory() if gpts_memory is None else gpts_memory

    def __repr__(self) -> str:
        return f"<AgentMemory: {self.memory!r}, {self.gpts_memory!r}>"

    def _show_settings(self) -> None:
        """Have the attributes that the layers have."""
        inner = self.memory
        self.name, self.llm_client, self.session_id = inner.name, inner.llm_client, inner.session_id
        self.importance_scorer = inner.importance_scorer
        self.insight_extractor = inner.insight_extractor
        self._fragment_class = cast("type[T] | None", inner.settings.fragment_class)

    # --- where it is --------------------------------------------------------------------------

    @property
    def storage(self) -> LayerStorage:
        """Where the layers are kept."""
        return self.memory.storage

    @property
    def profile(self) -> Profile:
        """Whose numbers the layers count by."""
        return self.memory.profile

    @property
    def label(self) -> str:
        """What goes before the names of their sets."""
        return self.memory.label

    @property
    def settings(self) -> LayerSettings:
        """See `LayerMemory.settings`."""
        return self.memory.settings

    @property
    def set_name(self) -> str:
        """See `LayerMemory.set_name`."""
        return self.memory.set_name

    def parts(self) -> Sequence[LayerMemory[T]]:
        """Return the layers."""
        return self.memory.parts()

    def move_to(self, storage: LayerStorage, lock: FairLock) -> None:
        """See `LayerMemory.move_to`."""
        self.memory.move_to(storage, lock)

    def close(self) -> None:
        """Free the RAM of the layers; see `LayerMemory.close`. The log stays."""
        self.memory.close()

    # --- how it is set up ---------------------------------------------------------------------

    def initialize(
        self,
        name: str | None = None,
        llm_client: ChatModel | None = None,
        importance_scorer: ImportanceScorer | None = None,
        insight_extractor: InsightExtractor | None = None,
        real_memory_fragment_class: type[Any] | None = None,
        session_id: str | None = None,
    ) -> None:
        """Set who uses the memory, and with which models; see `LayerMemory.initialize`."""
        self.memory.initialize(
            name,
            llm_client,
            importance_scorer or self._scorer,
            insight_extractor or self._extractor,
            real_memory_fragment_class or cast("type[Any]", AgentMemoryFragment),
            session_id,
        )
        self._show_settings()

    @property
    def real_memory_fragment_class(self) -> type[T]:
        """See `LayerMemory.real_memory_fragment_class`."""
        return self.memory.real_memory_fragment_class

    def copy_from(self, memory: LayerMemory[T]) -> None:
        """See `LayerMemory.copy_from`."""
        self.memory.copy_from(memory)
        self._show_settings()

    def structure_clone(
        self, now: Now = None, *, label: str | None = None, memory: KeySets | None = None
    ) -> AgentMemory[T]:
        """Return one like this that holds no fragments; the log is shared."""
        inner = self.memory.structure_clone(now, label=label, memory=memory)
        return AgentMemory(inner, self._scorer, self._extractor, self.gpts_memory)

    # --- writing ------------------------------------------------------------------------------

    async def write(
        self,
        memory_fragment: T,
        now: datetime | None = None,
        op: WriteOperation = WriteOperation.ADD,
    ) -> DiscardedMemoryFragments[T] | None:
        """Write a fragment; see `LayerMemory.write`."""
        return await self.memory.write(memory_fragment, now, op)

    async def write_batch(
        self, memory_fragments: Sequence[T], now: datetime | None = None
    ) -> DiscardedMemoryFragments[T] | None:
        """Write fragments in one commit; see `LayerMemory.write_batch`."""
        return await self.memory.write_batch(memory_fragments, now)

    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """See `LayerMemory.take`."""
        return self.memory.take(move, entry, op)

    def live_entry(self, move: Move, entry_id: str) -> FragmentEntry | None:
        """See `LayerMemory.live_entry`."""
        return self.memory.live_entry(move, entry_id)

    # --- reading ------------------------------------------------------------------------------

    async def read(
        self,
        observation: str,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
    ) -> list[T]:
        """Read by an observation; see `LayerMemory.read`, whose weights these are."""
        return await self.memory.read(observation, alpha, beta, gamma)

    async def clear(self) -> list[T]:
        """Empty the memory; return what it held. The log stays."""
        return await self.memory.clear()

    # --- models -------------------------------------------------------------------------------

    async def score_memory_importance(self, memory_fragments: Sequence[T]) -> list[float]:
        """Return how important fragments are; see `LayerMemory.score_memory_importance`."""
        return await self.memory.score_memory_importance(memory_fragments)

    async def get_insights(self, memory_fragments: Sequence[T]) -> Insights[T]:
        """Return what can be inferred from each fragment; see `LayerMemory.get_insights`."""
        return await self.memory.get_insights(memory_fragments)

    async def reflect(self, memory_fragments: Sequence[T]) -> list[T]:
        """Return the fragments, and what is inferred from all of them; see `Memory.reflect`."""
        return await self.memory.reflect(memory_fragments)

    async def handle_duplicated(
        self, memory_fragments: Sequence[T], new_memory_fragments: Sequence[T]
    ) -> list[T]:
        """Return both lists as one, without duplicates; see `LayerMemory.handle_duplicated`."""
        return await self.memory.handle_duplicated(memory_fragments, new_memory_fragments)

    async def handle_overflow(self, memory_fragments: Sequence[T]) -> tuple[list[T], list[T]]:
        """Return what stays of fragments, and what is too much; see `Memory.handle_overflow`."""
        return await self.memory.handle_overflow(memory_fragments)

    # --- the log ------------------------------------------------------------------------------

    @property
    def plans_memory(self) -> GptsPlansMemory:
        """Where plans are kept."""
        return self.gpts_memory.plans_memory

    @property
    def message_memory(self) -> GptsMessageMemory:
        """Where messages are kept."""
        return self.gpts_memory.message_memory
