"""What an agent is bound to: a memory, and the log of its conversations."""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import Any, TypeVar, cast

from alveus.agents.layers.buffers import ShortTermMemory
from alveus.agents.layers.fragment_items import FragmentEntry
from alveus.agents.layers.fragments import AgentMemoryFragment, MemoryFragment, T, WriteOperation
from alveus.agents.layers.gpts_memory import GptsMemory, GptsMessageMemory, GptsPlansMemory
from alveus.agents.layers.importance import ImportanceScorer
from alveus.agents.layers.insight_extractors import InsightExtractor
from alveus.agents.layers.layer import LayerMemory
from alveus.agents.layers.layer_plans import Move
from alveus.agents.storage import Now
from alveus.errors import InvalidInput
from alveus.llm import ChatModel
from alveus.memory.keys import KeySets
from alveus.values.keywords import delegated

C = TypeVar("C", bound=type)

FORWARDED = (
    "storage", "profile", "label", "set_name", "note_set", "real_memory_fragment_class", "parts",
    "move_to", "close", "clear", "write", "write_batch", "live_entry", "score_memory_importance",
    "get_insights", "reflect", "handle_duplicated", "handle_overflow",
)  # fmt: skip
"""What an agent memory asks its layers for, as they define or override it."""


def forward_to_layers(made: C) -> C:
    """Return a class of memories whose `FORWARDED` attributes are those of their layers."""
    for name in FORWARDED:
        published = inspect.getattr_static(LayerMemory, name)
        if isinstance(published, property):
            forwarded: object = property(attrgetter(f"memory.{name}"), doc=published.__doc__)
        else:
            forwarded = delegated(attrgetter("memory"), published)
        setattr(made, name, forwarded)
    return made


@forward_to_layers
class AgentMemory(LayerMemory[T]):
    """A memory of fragments, and a log of messages and plans, which stays when that is cleared.

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
                f"an agent memory is made of a layer of alveus.agents.layers, not {memory!r}"
            )
        if not (gpts_memory is None or isinstance(gpts_memory, GptsMemory)):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"the log of an agent memory is a GptsMemory, not {gpts_memory!r}")
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
        self.fragment_class = inner.fragment_class

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

    # --- what a layer has to say itself; the rest is forwarded --------------------------------

    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """See `LayerMemory.take`."""
        return self.memory.take(move, entry, op)

    async def read(
        self,
        observation: str,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
    ) -> list[T]:
        """Read by an observation; see `LayerMemory.read`, whose weights these are."""
        return await self.memory.read(observation, alpha, beta, gamma)

    def emptied(self, move: Move) -> list[MemoryFragment]:
        """See `LayerMemory.emptied`. The log stays."""
        return self.memory.emptied(move)

    # --- the log ------------------------------------------------------------------------------

    @property
    def plans_memory(self) -> GptsPlansMemory:
        """Where plans are kept."""
        return self.gpts_memory.plans_memory

    @property
    def message_memory(self) -> GptsMessageMemory:
        """Where messages are kept."""
        return self.gpts_memory.message_memory
