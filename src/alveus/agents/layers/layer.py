"""DB-GPT's `LayerMemory`, kept in sets of a key, and its sensory and short-term memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from datetime import datetime
from functools import partial
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

from alveus.agents.layers.fragments import (
    AgentMemoryFragment,
    DiscardedMemoryFragments,
    Failure,
    Insights,
    MemoryFragment,
    T,
    WriteOperation,
    finite,
)
from alveus.agents.layers.moves import (
    FragmentEntry,
    LayerSettings,
    ModelAnswers,
    Move,
    QuestionKind,
    Unanswered,
    entry_of,
    item_id,
    labels_of,
)
from alveus.agents.layers.scoring import (
    ImportanceScorer,
    InsightExtractor,
    ProfileName,
    Weights,
    ranked,
    unit,
)
from alveus.agents.storage import FairLock, LayerStorage, Now, aware
from alveus.errors import InvalidInput
from alveus.llm import ChatModel
from alveus.memory.keys import KeySets
from alveus.sets.set_editor import NewId
from alveus.sets.writer import PlannedWrite, PlannerCall, Writer
from alveus.values.keywords import check_keywords, suggest_names_in
from alveus.values.storable import Value, checked_kind, choice, counted

R = TypeVar("R")

Dedupe: TypeAlias = Literal["id", "text", "none"]
"""Which fragments are duplicates.

"id": fragments with the same id. "text": also fragments with the same text. "none": no fragments.
"""

SEEN_BEFORE = "it was written before and has left the layer since"

TAKEN = "its id belongs to a fragment with another text"


class LayerOptions(TypedDict, total=False):
    """The settings of every layer; see `LayerMemory`."""

    memory: KeySets | None
    label: str
    now: Now
    profile: ProfileName
    dedupe: Dedupe
    storage: LayerStorage | None


@suggest_names_in
class LayerMemory(LayerSettings, ABC, Generic[T]):
    """A layer, or several layers as one. Fragments are written to it, and read by an observation.

    Every write is one commit. A fragment that leaves a layer is returned, enters the next layer, or
    is reported as dropped. A repeated write of a fragment, for example after a failure, changes
    nothing. Reads change only access times. Any number of tasks, threads and processes may write
    and read. Inside an action that runs the key, writes belong to the action.

    Args:
        memory: The memory that keeps the fragments: `Memory.key(…)`. None means RAM, until the
            process ends.
        label: The prefix of the names of the sets, so that several agents can share a key.
        now: The clock of RAM.
        profile: "dbgpt" uses DB-GPT's numbers, without the faults of DB-GPT.
        dedupe: Which fragments are duplicates. "id": fragments with the same id. "text": also
            fragments with the same text. "none": no fragments.
    """

    _default_scorer: ImportanceScorer | None = None
    _default_extractor: InsightExtractor | None = None
    reads_meaning: ClassVar[bool] = False
    """True if a layer of this kind needs vectors."""

    def __init__(
        self,
        *,
        memory: KeySets | None = None,
        label: str = "",
        now: Now = None,
        profile: ProfileName = "alveus",
        dedupe: Dedupe = "id",
        storage: LayerStorage | None = None,
    ) -> None:
        super().__init__(label, profile)
        embedder = None if self.reads_meaning else "words"
        self._storage = storage or LayerStorage(memory, now=now, embedder=embedder)
        self._dedupe: Dedupe = choice(dedupe, "dedupe", "id", "text", "none")
        self._clones = 0
        self._lock = FairLock()

    def __repr__(self) -> str:
        label = f" {self._label!r}" if self._label else ""
        return f"<{type(self).__name__}{label} in {self._storage!r}>"

    # --- storage ------------------------------------------------------------------------------

    @property
    def storage(self) -> LayerStorage:
        """The storage of the fragments."""
        return self._storage

    def parts(self) -> Sequence[LayerMemory[T]]:
        """Return the layers that this memory consists of: by default only itself."""
        return (self,)

    def move_to(self, storage: LayerStorage, lock: FairLock) -> None:
        """Use *storage* and *lock* from now on. Other layers share both."""
        self._storage, self._lock = storage, lock

    def close(self) -> None:
        """Free the layer's RAM, if any. A memory that was passed stays open."""
        self._storage.close()

    # --- settings -----------------------------------------------------------------------------

    def initialize(
        self,
        name: str | None = None,
        llm_client: ChatModel | None = None,
        importance_scorer: ImportanceScorer | None = None,
        insight_extractor: InsightExtractor | None = None,
        real_memory_fragment_class: type[T] | None = None,
        session_id: str | None = None,
    ) -> None:
        """Set the agent's name, the models, the class of fragments and the conversation.

        An omitted argument resets its setting to None, or to the default scorer or extractor.
        """
        asked = {"score_importance": importance_scorer, "extract_insights": insight_extractor}
        for call, model in asked.items():
            if model is not None and not hasattr(model, call):
                raise InvalidInput(
                    f"{model!r} has no method {call}(); pass an ImportanceScorer or an "
                    "InsightExtractor"
                )
        scorer = importance_scorer or self._default_scorer
        extractor = insight_extractor or self._default_extractor
        kind = real_memory_fragment_class
        self.name, self.llm_client, self.session_id = name, llm_client, session_id
        self.importance_scorer, self.insight_extractor = scorer, extractor
        self.fragment_class = kind
        for part in self.parts():
            if part is not self:
                part.initialize(name, llm_client, scorer, extractor, kind, session_id)

    @property
    def real_memory_fragment_class(self) -> type[T]:
        """The class of the layer's fragments.

        Raises:
            InvalidInput: `initialize` got no class.
        """
        if self.fragment_class is None:
            raise InvalidInput("The real memory fragment class is not set; initialize() sets it")
        return cast("type[T]", self.fragment_class)

    def structure_clone(
        self, now: Now = None, *, label: str | None = None, memory: KeySets | None = None
    ) -> Self:
        """Return an empty layer with the settings of this layer.

        Args:
            label: The label of the new layer. In the same memory, None means the name of the agent,
                or a number. Pass a label to find the layer again after a restart.
            memory: Another memory for the new layer. If this memory has fragments under the label,
                the new layer contains them. None means the same memory, or new RAM.
        """
        del now  # new RAM keeps its clock, and a memory has a clock
        clone: Self = copy(self)
        clone._label, clone._clones = self._clone_label(label, memory), 0
        clone.move_to(self._storage.again(memory), FairLock())
        return clone

    def _clone_label(self, label: str | None, memory: KeySets | None) -> str:
        if label is not None:
            return label
        if memory is not None or self._storage.is_ram:
            return self._label
        if self.name and self.name != self._label:
            return self.name
        self._clones += 1
        return f"{self._label or 'agent'}-{self._clones + 1}"

    # --- writing ------------------------------------------------------------------------------

    async def write(
        self,
        memory_fragment: T,
        now: datetime | None = None,
        op: WriteOperation = WriteOperation.ADD,
    ) -> DiscardedMemoryFragments[T] | None:
        """Write a fragment. Return the fragments that the write discarded, or None for none.

        Args:
            now: The time of the observation; by default now.
            op: RETRIEVAL means that the fragment was recalled. It is not added, and only
                strengthens similar fragments.
        """
        if op not in tuple(WriteOperation):
            raise InvalidInput(f"op must be a WriteOperation, not {op!r}")
        return await self._write([memory_fragment], now, WriteOperation(op))

    async def write_batch(
        self, memory_fragments: Sequence[T], now: datetime | None = None
    ) -> DiscardedMemoryFragments[T] | None:
        """Write fragments in one commit, with the same effect as single writes in this order."""
        checked_kind(memory_fragments, Iterable, "a batch must be a list of fragments")
        return await self._write(list(memory_fragments), now, WriteOperation.ADD)

    async def _write(
        self, fragments: list[T], now: datetime | None, op: WriteOperation
    ) -> DiscardedMemoryFragments[T] | None:
        for fragment in fragments:
            checked_kind(fragment, MemoryFragment, "a layer is written fragments to")
            labels_of(fragment.metadata)
            self._profile.check(fragment.importance, "the importance of a fragment")
        if not fragments:
            return None
        plan = partial(self._written, fragments, now, op)
        given: list[Value] = [[f.raw_observation, f.importance, f.metadata] for f in fragments]
        discarded = await self._moved(plan, "write to a layer", self.set_name, op.value, given)
        return cast("DiscardedMemoryFragments[T]", discarded) or None

    def _written(
        self, fragments: Sequence[T], now: datetime | None, op: WriteOperation, move: Move
    ) -> DiscardedMemoryFragments[MemoryFragment]:
        if now is not None:
            move.now = aware(now)
        is_new, discarded = op is WriteOperation.ADD, move.discarded
        for fragment in fragments:
            entry = FragmentEntry(fragment.copy())
            if is_new and (self._was_written(move, entry) or move.is_refused(self.parts(), entry)):
                continue
            leaving = self.take(move, entry, op)
            discarded.discarded_memory_fragments += [gone.fragment for gone in leaving]
            discarded.discarded_insights += move.inferred(self, leaving)
        return discarded

    async def _moved(self, plan: Callable[[Move], R], name: str, *arguments: Value) -> R:
        """Commit a plan, and return the result of the plan.

        Args:
            name: The name of the call.
            arguments: The arguments of the call, which are compared when an idempotency key is
                reused.

        Raises:
            StaleItem: Other writers changed the layers again and again, for as long as the memory
                waits.
        """
        storage, answers = self.storage, ModelAnswers()

        def commit(writer: Writer) -> R:
            storage.warn_of_separate_commit(writer)
            result: list[R] = []

            def build(new_id: NewId) -> PlannedWrite:
                move = Move(storage, writer, answers, new_id)
                result[:] = [plan(move)]
                return move.plan()

            writer.write(PlannerCall(name, [*arguments], build))
            return result[0]

        async with self._lock:
            while True:
                try:
                    found = await storage.call(commit)
                except Unanswered as missing:
                    await answers.ask(missing.questions)
                else:
                    storage.changed()
                    return found

    @abstractmethod
    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """Add an entry as part of a move. Return the entries that leave for the next layer."""

    def _was_written(self, move: Move, entry: FragmentEntry) -> bool:
        """Return whether the fragment of an entry is, or was, in one of the layers.

        If duplicates are allowed, return False, and give the fragment a free id.
        """
        if self._dedupe == "none":
            entry.fragment = self._renamed(move, entry)
            return False
        for layer in self.parts():
            there = move.items(layer).get(entry.id)
            if there is not None:
                if there.fragment.raw_observation != entry.fragment.raw_observation:
                    move.drop(entry.fragment, TAKEN)
                return True
            era = move.items(layer).note.era
            past = move.storage.engine.store.versions(move.storage.ref(layer.set_name), entry.id)
            if any(entry_of(stored, None).extra.get("era") == era for stored in past):
                move.drop(entry.fragment, SEEN_BEFORE)
                return True
        return False

    def _renamed(self, move: Move, entry: FragmentEntry) -> MemoryFragment:
        """Return the fragment, or a copy with a new id if the layers have its id."""
        if not any(move.items(layer).get(entry.id) for layer in self.parts()):
            return entry.fragment
        f = entry.fragment
        metadata: dict[str, Any] = {"metadata": f.metadata}
        observation = f.observation if isinstance(f, AgentMemoryFragment) else f.raw_observation
        return move.made(
            [entry.id],
            lambda made_id: f.current_class.build_from(
                observation, f.embeddings, made_id, f.importance, f.is_insight, **metadata
            ),
        )

    # --- reading ------------------------------------------------------------------------------

    @abstractmethod
    async def read(
        self,
        observation: str,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
    ) -> list[T]:
        """Return copies of the fragments that are relevant to *observation*.

        Args:
            observation: The query.
            alpha, beta, gamma: Weights of recency, relevance and importance.
        """

    async def clear(self) -> list[T]:
        """Delete all fragments and return them, oldest first. Their ids can be written again."""
        return cast("list[T]", await self._moved(self.emptied, "clear a layer", self.set_name))

    def emptied(self, move: Move) -> list[MemoryFragment]:
        """Delete all fragments as part of a move. Return them."""
        return move.items(self).clear()

    # --- models -------------------------------------------------------------------------------

    async def score_memory_importance(self, memory_fragments: Sequence[T]) -> list[float]:
        """Return the importance of each fragment. Without a scorer, all are equally important."""
        answers = await self._answers("score", memory_fragments)
        ratings = [None if isinstance(answer, Failure) else answer for answer in answers]
        return [self._importance(rating) for rating in ratings]

    async def _answers(self, kind: QuestionKind, fragments: Sequence[MemoryFragment]) -> list[Any]:
        """Ask a model about each fragment. Return the answers; see `ModelAnswers.about`."""
        answers, groups = ModelAnswers(), [[fragment] for fragment in fragments]
        try:
            return answers.about(self, kind, groups)
        except Unanswered as missing:
            await answers.ask(missing.questions)
            return answers.about(self, kind, groups)

    async def get_insights(self, memory_fragments: Sequence[T]) -> Insights[T]:
        """Return the insights from each fragment. Without an extractor, the list is empty.

        The `failures` of the list contain each fragment for which the extractor failed, or gave
        nothing.
        """
        if self.insight_extractor is None or not memory_fragments:
            return Insights()
        answers = [
            answer or Failure(fragment, "insight: the extractor gave none")
            for fragment, answer in zip(
                memory_fragments, await self._answers("insight", memory_fragments), strict=True
            )
        ]
        failures = [answer for answer in answers if isinstance(answer, Failure)]
        return Insights([a for a in answers if not isinstance(a, Failure)], failures)

    async def reflect(self, memory_fragments: Sequence[T]) -> list[T]:
        """Return the fragments, followed by the insights from all of them together."""
        fragments = list(memory_fragments)
        if self.insight_extractor is None or not fragments:
            return fragments
        whole = fragments[0]
        if len(fragments) > 1:
            whole = cast("T", whole.current_class.reduce(fragments))
        inferred = await self.get_insights([whole])
        return fragments + [insight for one in inferred for insight in one.insights]

    # --- for subclasses to override -----------------------------------------------------------

    async def handle_duplicated(
        self, memory_fragments: Sequence[T], new_memory_fragments: Sequence[T]
    ) -> list[T]:
        """Return both lists as one, without duplicates.

        The first of two duplicates stays. It gets the higher importance and the later access time.
        """
        kept: dict[str, T] = {}
        for at, fragment in enumerate([*memory_fragments, *new_memory_fragments]):
            name = str(at) if self._dedupe == "none" else item_id(fragment.id)
            if self._dedupe == "text":
                name = normal_text(fragment.raw_observation)
            if name in kept:
                absorb(kept[name], fragment)
            else:
                kept[name] = fragment
        return list(kept.values())

    async def handle_overflow(self, memory_fragments: Sequence[T]) -> tuple[list[T], list[T]]:
        """Return the fragments that stay, oldest first, and the fragments that overflow."""
        return list(memory_fragments), []


def normal_text(text: str) -> str:
    """Return a text in lower case with single spaces, for the comparison of duplicates."""
    return " ".join(text.casefold().split())


def absorb(target: MemoryFragment, other: MemoryFragment) -> None:
    """Give *target* the importance of *other* if it is higher, and its access time if later."""
    if other.importance is not None and unit(target.importance) < unit(other.importance):
        target.update_importance(other.importance)
    mine, theirs = target.last_accessed_time, other.last_accessed_time
    if theirs is not None and (mine is None or aware(mine) < aware(theirs)):
        target.update_accessed_time(theirs)


class BufferMemory(LayerMemory[T]):
    """A layer that keeps at most *buffer_size* fragments. A read returns all of them."""

    least: ClassVar[int] = 0

    def __init__(self, buffer_size: int, **settings: Unpack[LayerOptions]) -> None:
        check_keywords(self, "__init__", settings, LayerOptions)
        super().__init__(**settings)
        self.buffer_size = counted(buffer_size, "buffer_size", least=self.least)

    def contents(self, writer: Writer) -> list[T]:
        """Return copies of the layer's fragments, oldest first."""
        entries = Move(self.storage, writer, ModelAnswers()).items(self).entries
        return [cast("T", entry.fragment) for entry in entries]

    async def read(
        self,
        observation: str,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
    ) -> list[T]:
        """Return copies of all fragments: oldest first, or best first if a weight is given."""
        checked_kind(observation, str, "an observation must be a str")
        if alpha is None and beta is None and gamma is None:
            return await self.storage.call(self.contents)
        weights = Weights.given(alpha, beta, gamma)

        return await self.storage.call(
            lambda writer: ranked(self.storage, self.contents(writer), observation, weights)
        )


class SensoryMemory(BufferMemory[T]):
    """Collects fragments. When the layer overflows, all fragments leave at once.

    Each fragment is then scored. Important fragments move to the next layer. The others are
    dropped, and reported.

    Args:
        buffer_size: The most fragments. 0 means that every fragment is scored when it is written.
        threshold_to_short_term: The least importance of a fragment that moves to the next layer.
        settings: See `LayerMemory`.
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

    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """Add an entry. Return the entries that leave, with their importance."""
        if op is WriteOperation.RETRIEVAL:
            raise InvalidInput(
                "sensory memory takes no fragments with op=RETRIEVAL; write them to short-term "
                "memory"
            )
        if not self.buffer_size:
            return self._let_through(move, [entry])
        items = move.items(self)
        gathered = items.entries
        if len(gathered) < self.buffer_size:
            items.add(entry)
            return []
        items.remove(gathered)
        move.write(items.note)
        return self._let_through(move, [*gathered, entry])

    def _let_through(self, move: Move, entries: list[FragmentEntry]) -> list[FragmentEntry]:
        ratings = move.ask(self, "score", [[entry.fragment] for entry in entries])
        passed: list[FragmentEntry] = []
        for entry, rating in zip(entries, ratings, strict=True):
            fragment, score = entry.fragment, self._importance(rating)
            if self.importance_scorer is None and fragment.importance is not None:
                score = fragment.importance
            if score < self.threshold_to_short_term:
                limit = self.threshold_to_short_term
                move.drop(fragment, f"its importance, {score:.3g}, is below {limit:.3g}")
                continue
            fragment.update_importance(score)
            passed.append(entry.leaving())
        return passed


class ShortTermMemory(BufferMemory[T]):
    """Keeps the newest *buffer_size* fragments. When the layer overflows, the oldest leave.

    The other settings are those of `LayerMemory`. With ``memory=`` fragments survive a restart.
    """

    kind: ClassVar[str] = "short_term"
    least: ClassVar[int] = 1

    def __init__(self, buffer_size: int = 5, **settings: Unpack[LayerOptions]) -> None:
        super().__init__(buffer_size, **settings)

    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """Add an entry. Return the entries that leave, oldest first."""
        if op is WriteOperation.RETRIEVAL:
            return []
        items = move.items(self)
        self.take_again(move, entry)
        items.add(entry)
        entries = items.entries
        leaving = entries[: max(0, len(entries) - self.buffer_size)]
        items.remove(leaving)
        return [gone.leaving() for gone in leaving]

    def take_again(self, move: Move, entry: FragmentEntry) -> None:
        """Remove earlier entries with the text of *entry*, and join them to *entry*.

        Do nothing if fragments with the same text are not duplicates.
        """
        if self._dedupe != "text":
            return
        items = move.items(self)
        text = normal_text(entry.fragment.raw_observation)
        same = [e for e in items.entries if normal_text(e.fragment.raw_observation) == text]
        for earlier in same:
            absorb(entry.fragment, earlier.fragment)
            entry.extra["seen"] = entry.extra.get("seen", 1) + earlier.extra.get("seen", 1)
            entry.origin = (*entry.origin, *earlier.origins())
        items.remove(same)

    @property
    def short_term_memories(self) -> list[T]:
        """Copies of the layer's fragments, oldest first."""
        return self.contents(self.storage.writer())

    async def handle_overflow(self, memory_fragments: Sequence[T]) -> tuple[list[T], list[T]]:
        """Return the newest fragments, which stay, and the oldest fragments, which overflow."""
        fragments = list(memory_fragments)
        over = max(0, len(fragments) - self.buffer_size)
        return fragments[over:], fragments[:over]
