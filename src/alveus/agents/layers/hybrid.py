"""Memories made of layers: `HybridMemory`, and `AgentMemory`, which an agent is bound to."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar, cast

from alveus.agents.layers.enhanced import EnhancedShortTermMemory
from alveus.agents.layers.fragments import (
    AgentMemoryFragment,
    DiscardedMemoryFragments,
    MemoryFragment,
    T,
    WriteOperation,
)
from alveus.agents.layers.gpts_memory import GptsMemory, GptsMessageMemory, GptsPlansMemory
from alveus.agents.layers.layer import (
    BufferMemory,
    LayerMemory,
    LayerOptions,
    SensoryMemory,
    ShortTermMemory,
)
from alveus.agents.layers.long_term import LongTermMemory
from alveus.agents.layers.moves import FragmentEntry, Insight, Move
from alveus.agents.layers.scoring import ImportanceScorer, InsightExtractor, Weights
from alveus.agents.storage import Now
from alveus.embed import Embedder
from alveus.errors import InvalidInput
from alveus.llm import ChatModel
from alveus.memory.keys import KeySets
from alveus.memory.memory import Memory as Store
from alveus.sets.writer import Writer
from alveus.values.keywords import check_keywords, delegated
from alveus.values.storable import checked_kind, counted

DEFAULT_STORE = "agent_memory_long_term"


class HybridMemory(LayerMemory[T]):
    """Three layers as one: a fragment that leaves a layer enters the next in the same commit.

    Sensory memory passes important fragments to short-term memory. Fragments that leave short-term
    memory, and the first insight of each, go to long-term memory. A read returns the fragments that
    long-term memory recalls, best first, then all of short-term and sensory memory, oldest first.

    Args:
        now: The clock of RAM.
        sensory_memory: The first layer. None means `SensoryMemory()`.
        short_term_memory: The second layer. None means `EnhancedShortTermMemory()`.
        long_term_memory: The third layer. None means `LongTermMemory()`.
        default_insight_extractor: The extractor if `initialize` gets none.
        default_importance_scorer: The scorer if `initialize` gets none.
        settings: See `LayerMemory`. Layers in RAM are moved to *memory*, or to the memory of
            another layer, without the fragments that they have. Layers made here get this label.

    Raises:
        InvalidInput: Two layers are kept in different memories, so no commit can contain both; or
            two layers are kept in one set.
    """

    importance_weight = 0.9
    kind: ClassVar[str] = "hybrid"
    reads_meaning: ClassVar[bool] = True

    def __init__(
        self,
        now: Now = None,
        sensory_memory: SensoryMemory[T] | None = None,
        short_term_memory: BufferMemory[T] | None = None,
        long_term_memory: LongTermMemory[T] | None = None,
        default_insight_extractor: InsightExtractor | None = None,
        default_importance_scorer: ImportanceScorer | None = None,
        **settings: Any,  # noqa: ANN401 - of LayerMemory
    ) -> None:
        check_keywords(self, "__init__", settings, LayerOptions)
        super().__init__(now=now, **settings)
        shared: dict[str, Any] = {
            "label": self.label,
            "profile": self.profile.name,
            "storage": self.storage,
        }
        self._sensory = sensory_memory or SensoryMemory[T](**shared)
        self._short = short_term_memory or EnhancedShortTermMemory[T](**shared)
        self._long = long_term_memory or LongTermMemory[T](**shared)
        self._default_extractor = default_insight_extractor
        self._default_scorer = default_importance_scorer
        self._gather()
        self.initialize()

    def _gather(self) -> None:
        """Keep all layers in one storage."""
        storages = {id(s): s for s in (self.storage, *(layer.storage for layer in self.parts()))}
        given = [storage for storage in storages.values() if not storage.is_ram]
        if len({storage.identity for storage in given}) > 1:
            raise InvalidInput(
                "the layers of a hybrid memory must be stored in one key; pass memory= to the "
                "hybrid memory alone, or the same key to each layer"
            )
        self._storage = given[0] if given else self.storage
        names = [layer.set_name for layer in self.parts()]
        if len(set(names)) < len(names):
            raise InvalidInput(
                f"two layers of a hybrid memory are stored in one set: {names}; give each layer "
                "another name"
            )
        for layer in self.parts():
            layer.move_to(self._storage, self._lock)

    @classmethod
    def from_vstore(  # noqa: PLR0913, PLR0917 - DB-GPT's signature
        cls,
        vector_store: KeySets | None = None,
        embeddings: object = None,
        executor: object = None,
        now: Now = None,
        sensory_memory: SensoryMemory[T] | None = None,
        short_term_memory: BufferMemory[T] | None = None,
        long_term_memory: LongTermMemory[T] | None = None,
        **kwargs: Any,  # noqa: ANN401 - DB-GPT's signature
    ) -> Self:
        """Return a hybrid memory that is kept in *vector_store*: `Memory.key(…)`.

        Args:
            embeddings: The embedder that compares fragments in short-term memory. None means the
                memory's embedder.
        """
        kwargs.setdefault("memory", vector_store)
        label = kwargs.get("label", "")
        short = short_term_memory or EnhancedShortTermMemory[T](embeddings, executor, label=label)
        return cls(now, sensory_memory, short, long_term_memory, **kwargs)

    @classmethod
    def from_chroma(
        cls,
        vstore_name: str = DEFAULT_STORE,
        vstore_path: str | os.PathLike[str] | None = None,
        embeddings: str | Embedder | None = None,
        **kwargs: Any,  # noqa: ANN401 - DB-GPT's signature
    ) -> Self:
        """Return a hybrid memory in a file of alveus: ``alveus.db`` in the folder *vstore_path*.

        Chroma is not used: the call has DB-GPT's name so that programs for DB-GPT run. `close`
        closes the file.

        Args:
            vstore_name: The key.
            vstore_path: A folder, created if missing. None means RAM.
            embeddings: An embedder of alveus, or its name. None means the embedder of the file.
        """
        url: str | Path = ":memory:"
        if vstore_path is not None:
            Path(vstore_path).mkdir(parents=True, exist_ok=True)
            url = Path(vstore_path) / "alveus.db"
        store = Store.open(url, embedder=embeddings)
        made = cls.from_vstore(store.key(vstore_name), **kwargs)
        made.opened = store
        return made

    opened: Store | None = None

    def close(self) -> None:
        """Free the RAM, and close the file that `from_chroma` opened."""
        super().close()
        if self.opened is not None:
            self.opened.close()

    # --- the layers ---------------------------------------------------------------------------

    @property
    def sensory_memory(self) -> SensoryMemory[T]:
        """The first layer."""
        return self._sensory

    @property
    def short_term_memory(self) -> BufferMemory[T]:
        """The second layer."""
        return self._short

    @property
    def long_term_memory(self) -> LongTermMemory[T]:
        """The third layer."""
        return self._long

    def parts(self) -> Sequence[LayerMemory[T]]:
        """Return the three layers."""
        return (self._sensory, self._short, self._long)

    def structure_clone(
        self, now: Now = None, *, label: str | None = None, memory: KeySets | None = None
    ) -> Self:
        """Return an empty hybrid memory with the settings of this memory."""
        clone: Self = super().structure_clone(now, label=label, memory=memory)
        clone._sensory = self._sensory.structure_clone(label=clone.label, memory=memory)
        clone._short = self._short.structure_clone(label=clone.label, memory=memory)
        clone._long = self._long.structure_clone(label=clone.label, memory=memory)
        for layer in clone.parts():
            layer.move_to(clone.storage, clone._lock)
        clone.opened = None
        return clone

    # --- writing ------------------------------------------------------------------------------

    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """Add an entry. Return an empty list, as no entry leaves the last layer.

        Entries that leave a layer move to the next.
        """
        is_new = op is WriteOperation.ADD
        passed = self._sensory.take(move, entry, op) if is_new else [entry]
        for one in passed:
            leaving = self._short.take(move, one, op)
            insights = move.inferred(self._short, leaving)
            for gone in leaving:
                self._long.take(move, gone, WriteOperation.ADD)
            for insight in insights:
                self._store_insight(move, insight, leaving)
        return []

    def _store_insight(
        self, move: Move, insight: Insight, leaving: Sequence[FragmentEntry]
    ) -> None:
        """Add the first insight from a fragment to long-term memory, if there is an insight."""
        if not insight.insights:
            return
        first = insight.insights[0]
        named = {fragment.id for fragment in insight.originals}
        sources = [entry for entry in leaving if entry.fragment.id in named]
        (rating,) = move.ask(self, "score", [[first]])
        first.update_importance(self._importance(rating))
        self._long.take_insight(move, first, sources)

    # --- reading ------------------------------------------------------------------------------

    async def read(
        self,
        observation: str,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        *,
        k: int | None = None,
    ) -> list[T]:
        """Return fragments of long-term memory, best first, then all fragments of the other layers.

        See `LongTermMemory.read` for *k* and the weights.
        """
        weights = Weights.given(alpha, beta, gamma)
        wanted = self._long.k if k is None else counted(k, "k", least=0)

        def look(writer: Writer) -> list[T]:
            # In the order of moves: a fragment that moves during the read is read twice, not
            # missed.
            first, second = self._sensory.contents(writer), self._short.contents(writer)
            third = [r.fragment for r in self._long.recalled(writer, observation, weights, wanted)]
            seen = {name for f in third for name in (f.id, *f.source_ids)}
            second = [f for f in second if f.id not in seen]
            seen |= {f.id for f in second}
            return [*third, *second, *(f for f in first if f.id not in seen)]

        return await self.storage.call(look)

    def emptied(self, move: Move) -> list[MemoryFragment]:
        """Empty all layers as part of a move. Return their fragments, long-term memory first."""
        layers = (self._long, self._short, self._sensory)
        return [fragment for layer in layers for fragment in layer.emptied(move)]

    async def fade(self, below: float | None = None) -> DiscardedMemoryFragments[T]:
        """Drop faded fragments of long-term memory; see `LongTermMemory.fade`."""
        return await (self._long.fade() if below is None else self._long.fade(below))


C = TypeVar("C", bound=type)


def forward_to_layers(made: C) -> C:
    """Add the public calls of `LayerMemory` that a class does not define. Return the class.

    Each added call is forwarded to the attribute `memory` of the object.
    """
    for name in dir(LayerMemory):
        published = inspect.getattr_static(LayerMemory, name)
        if name.startswith("_") or name in vars(made):
            continue
        if isinstance(published, property):
            setattr(made, name, property(attrgetter(f"memory.{name}"), doc=published.__doc__))
        elif inspect.isfunction(published):
            setattr(made, name, delegated(attrgetter("memory"), published))
    return made


@forward_to_layers
class AgentMemory(LayerMemory[T]):
    """A memory of fragments, and a log of messages and plans. Clearing keeps the log.

    The agent memory is a `LayerMemory` itself: its layers answer the calls.

    Args:
        memory: The layers. None means `ShortTermMemory()`.
        importance_scorer: The scorer if `initialize` gets none.
        insight_extractor: The extractor if `initialize` gets none.
        gpts_memory: The log. None means a new log in RAM. Clones share the log.
    """

    def __init__(
        self,
        memory: LayerMemory[T] | None = None,
        importance_scorer: ImportanceScorer | None = None,
        insight_extractor: InsightExtractor | None = None,
        gpts_memory: GptsMemory | None = None,
    ) -> None:
        what = "the memory of an agent memory must be a layer of alveus.agents.layers"
        checked_kind(memory, LayerMemory | None, what)
        checked_kind(gpts_memory, GptsMemory | None, "the log of an agent must be a GptsMemory")
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
        """Copy the settings of the layers to this object."""
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
        """Set the agent's name and the models; see `LayerMemory.initialize`."""
        self.memory.initialize(
            name,
            llm_client,
            importance_scorer or self._scorer,
            insight_extractor or self._extractor,
            real_memory_fragment_class or cast("type[Any]", AgentMemoryFragment),
            session_id,
        )
        self._show_settings()

    def structure_clone(
        self, now: Now = None, *, label: str | None = None, memory: KeySets | None = None
    ) -> AgentMemory[T]:
        """Return an empty agent memory with the settings and the log of this memory."""
        inner = self.memory.structure_clone(now, label=label, memory=memory)
        return AgentMemory(inner, self._scorer, self._extractor, self.gpts_memory)

    # --- calls of a layer that are not forwarded ----------------------------------------------

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
        """Return the fragments that are relevant to *observation*; see `LayerMemory.read`."""
        return await self.memory.read(observation, alpha, beta, gamma)

    # --- the log ------------------------------------------------------------------------------

    @property
    def plans_memory(self) -> GptsPlansMemory:
        """The store of plans."""
        return self.gpts_memory.plans_memory

    @property
    def message_memory(self) -> GptsMessageMemory:
        """The store of messages."""
        return self.gpts_memory.message_memory
