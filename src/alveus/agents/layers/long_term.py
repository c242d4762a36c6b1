"""Long-term memory: all fragments that reach it, recalled by meaning, time and importance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, cast

from alveus.agents.layers.fragments import (
    DiscardedMemoryFragments,
    FragmentId,
    MemoryFragment,
    T,
    WriteOperation,
    finite,
)
from alveus.agents.layers.layer import Dedupe, LayerMemory, LayerOptions, absorb, normal_text
from alveus.agents.layers.moves import (
    FragmentEntry,
    Insight,
    LayerNote,
    Move,
    accessed_time,
    entry_of,
    fragment_of,
    item_id,
    value_of,
)
from alveus.agents.layers.scoring import (
    Ranked,
    RankedFragment,
    Weights,
    best_first,
    recency,
    score_parts,
    unit,
)
from alveus.agents.storage import LayerStorage, Now, aware
from alveus.errors import InvalidInput
from alveus.memory.keys import KeySets
from alveus.search.query import SearchOptions
from alveus.sets.batch import AFTER_ALL
from alveus.sets.set_editor import SetEditor
from alveus.sets.writer import PageQuery, Writer
from alveus.store import SetRef
from alveus.store.changes import Link
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.values.keywords import check_keywords
from alveus.values.storable import checked_kind, counted
from alveus.values.wire import digest

Mark: TypeAlias = Literal["forget", "merge"]
"""Why a stored fragment is not recalled."""

ALL = 128
"""The most fragments in a layer for a read to rank all.

In a larger layer, a read ranks the hits of a search, and the `LATEST` fragments.
"""

CANDIDATES = 100
"""The least number of hits that this search asks for. Source: DB-GPT's top_k."""

MOST_HITS = 1_000
"""The most hits of a search."""

LATEST = 64

ALSO = 64
"""How many of the last ids with the same text are kept, to recognise a repeated write."""

SINCE = 256
"""The most fragments of a reflection. If there are more, the last fragments are used."""

FADED = 0.05
"""`fade` drops a fragment whose importance times its recency is below this number."""

SCORE_OF_BEST = 3.0
"""The greatest score of a search: 1 for words and 2 for meaning."""


class LongTermMemory(LayerMemory[T], Generic[T]):
    """Keeps every fragment, of all conversations, until it is cleared or fades.

    A read ranks by a mean of recency, relevance and importance, each 0..1. Of fragments with equal
    scores, the newest is first. Fragments with the same text are stored as one, with a count.

    Args:
        executor: Accepted as in DB-GPT, and not used.
        vector_store: The same as `memory`, for programs that pass DB-GPT's vector store here.
        now: The clock of RAM.
        reflection_threshold: When the importance of the fragments since the last reflection sums up
            to this number, insights are drawn from them and stored. None means never.
        _default_importance: The importance of fragments that are written without an importance.
        metadata: Facts that are added to every fragment.
        k: The most fragments that a read returns.
        carry: True if the excess over the threshold counts for the next reflection.
        settings: See `LayerMemory`.
    """

    kind: ClassVar[str] = "long_term"
    reads_meaning: ClassVar[bool] = True
    guards_fragments: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913 - DB-GPT's signature
        self,
        executor: object = None,
        vector_store: KeySets | None = None,
        now: Now = None,
        reflection_threshold: float | None = None,
        _default_importance: float | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        k: int = 4,
        carry: bool = False,
        memory: KeySets | None = None,
        dedupe: Dedupe = "text",
        storage: LayerStorage | None = None,
        **settings: Any,  # noqa: ANN401 - of LayerMemory
    ) -> None:
        del executor
        check_keywords(self, "__init__", settings, LayerOptions)
        if memory is not None and vector_store is not None:
            raise InvalidInput("pass memory= or vector_store=, not both")
        kept_in = vector_store if memory is None else memory
        super().__init__(memory=kept_in, now=now, dedupe=dedupe, storage=storage, **settings)
        if reflection_threshold is not None:
            reflection_threshold = finite(reflection_threshold, "reflection_threshold")
            if reflection_threshold <= 0:
                raise InvalidInput(
                    f"reflection_threshold must be above 0, not {reflection_threshold!r}"
                )
        if _default_importance is not None:
            _default_importance = finite(_default_importance, "_default_importance")
            self.profile.check(_default_importance, "_default_importance")
        self.reflection_threshold = reflection_threshold
        self._default_importance = _default_importance
        checked_kind(metadata, dict | None, "metadata must be a dict")
        self.metadata = {"memory_type": "long_term"} if metadata is None else dict(metadata)
        self.k, self.carry = counted(k, "k", least=0), bool(carry)

    def __copy__(self) -> Self:
        """Return a copy for `structure_clone`, with separate metadata."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self), metadata=dict(self.metadata))
        return copied

    # --- writing ------------------------------------------------------------------------------

    def take(self, move: Move, entry: FragmentEntry, op: WriteOperation) -> list[FragmentEntry]:
        """Add an entry. Return an empty list, as no entry leaves the layer."""
        if op is WriteOperation.RETRIEVAL:
            return []
        if self._settled(move, entry):
            self._reflect(move, entry)
        return []

    def _settled(self, move: Move, entry: FragmentEntry) -> bool:
        """Store an entry. Return False if it was joined to an earlier entry with the same text."""
        fragment = entry.fragment
        if fragment.importance is None:
            default = self._default_importance
            fragment.update_importance(self._importance(None) if default is None else default)
        fragment.update_accessed_time(move.now)
        fragment.metadata.update({**self.metadata, **fragment.metadata})
        if self._dedupe == "text" and self._joined(move, entry):
            return False
        move.items(self).add(entry)
        return True

    # --- duplicates ---------------------------------------------------------------------------

    def _joined(self, move: Move, entry: FragmentEntry) -> bool:
        """Join *entry* to the earlier entry with the same text, and return True.

        If there is no such earlier entry, record the text and return False.
        """
        same = self._of_text(move, entry)
        if same is None:
            return False
        if entry.fragment.id not in [same.fragment.id, *same.extra.get("also", ())]:
            absorb(same.fragment, entry.fragment)
            same.extra["seen"] = same.extra.get("seen", 1) + entry.extra.get("seen", 1)
            same.extra["also"] = [*same.extra.get("also", ()), entry.fragment.id][-ALSO:]
            same.extra.pop("mark", None)  # a forgotten fragment is recalled again once rewritten
            move.items(self).change(same)
        return True

    def _of_text(self, move: Move, entry: FragmentEntry) -> FragmentEntry | None:
        """Return the earlier entry with the text of *entry*, or None after recording the text.

        The text is recorded in a note, which is derived from the item. There are two names for the
        note of a text: after an item was removed, the note of the next item gets the other name.
        """
        text = digest(normal_text(entry.fragment.raw_observation), salt=b"").hex()
        note, other = (move.note(self, f"{self.set_name} {text}{end}") for end in ("", " again"))
        if other.value:
            note, other = other, note
        same = move.items(self).get(note.value["item"]) if note.value else None
        if same is not None:
            return same
        if note.stored is not None:
            move.retire(note)
            note.value, note = {}, other
        note.value["item"] = entry.id
        note.about = Link(move.storage.ref(self.set_name), entry.id)
        move.write(note)
        return None

    # --- reflection ---------------------------------------------------------------------------

    def _reflect(self, move: Move, entry: FragmentEntry) -> None:
        """Count an entry for the next reflection, and reflect if the threshold is reached."""
        threshold = self.reflection_threshold
        if threshold is None or entry.fragment.is_insight:
            return
        note = move.note(self)
        total = note.value.get("aggregate", 0.0) + (entry.fragment.importance or 0.0)
        since = [*note.value.get("since", ()), entry.id][-SINCE:]
        if total >= threshold:
            self._infer(move, since)
            total, since = (total - threshold if self.carry else 0.0), []
        note.value |= {"aggregate": total, "since": since}
        move.write(note)

    def _infer(self, move: Move, since: Sequence[str]) -> None:
        entries = [e for name in since if (e := move.items(self).get(name)) is not None]
        fragments = [entry.fragment for entry in entries]
        (answer,) = move.ask(self, "insight", [fragments])
        for insight in [] if answer is None else cast("Insight", answer).insights:
            insight.update_importance(max(unit(f.importance) for f in fragments))
            self.take_insight(move, insight, entries)

    def take_insight(
        self, move: Move, insight: MemoryFragment, sources: Sequence[FragmentEntry]
    ) -> None:
        """Add an insight that was inferred from *sources*, entries of this layer or of this move.

        If the layer has the id of the insight already, nothing changes.
        """
        ref = move.storage.ref(self.set_name)
        links = tuple(Link(ref, one.id) for one in sources if move.items(self).get(one.id))
        made = _sourced(insight, [one.fragment for one in sources])
        entry = FragmentEntry(made, origin=links)
        if move.items(self).get(entry.id) is None:
            self._settled(move, entry)

    @property
    def aggregate_importance(self) -> float:
        """The sum of importance since the last reflection. It is 0 without a threshold."""
        notes = self.storage.ref(self.note_set)
        note = LayerNote.read(self.storage.writer(), notes, self.set_name)
        return float(note.value.get("aggregate", 0.0))

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
        """Return the *k* fragments with the best scores for *observation*, best first.

        The weights of recency (alpha), relevance (beta) and importance (gamma) are 0.05, 1 and 0.1
        by default.
        """
        found = await self.recall(observation, alpha, beta, gamma, k=k)
        return [one.fragment for one in found]

    async def recall(
        self,
        observation: str,
        alpha: float | None = None,
        beta: float | None = None,
        gamma: float | None = None,
        *,
        k: int | None = None,
    ) -> list[RankedFragment[T]]:
        """Return the same fragments as `read`, with their scores and the parts of the scores."""
        wanted = self.k if k is None else counted(k, "k", least=0)
        weights = Weights.given(alpha, beta, gamma)
        return await self.storage.call(
            lambda writer: self.recalled(writer, observation, weights, wanted)
        )

    def recalled(
        self, writer: Writer, observation: str, weights: Weights, k: int
    ) -> list[RankedFragment[T]]:
        """Return the best *k* fragments, and record that they were accessed."""
        ref, now = self.storage.ref(self.set_name), self.storage.now()
        if not k or writer.info(ref) is None:
            return []
        found, raw = list[Ranked](), self.profile.raw
        for item, near in self._candidates(writer, ref, observation, weights, k):
            value = value_of(item)
            if not value.get("mark"):
                importance: float | None = value.get("importance")
                if not raw or importance is None:
                    importance = unit(importance)
                parts = score_parts(accessed_time(item), near, importance, now)
                found.append(Ranked(weights.score(parts, raw=raw), value["id"], item, parts))
        best = best_first(found)[:k]
        stored = writer.get(ref, [str(one.item.id) for one in best], at=None)
        writer.touch([s for s in stored if s is not None and s.row < AFTER_ALL])
        return [
            RankedFragment(
                cast("T", fragment_of(one.item, self.fragment_class)), one.score, dict(one.parts)
            )
            for one in best
        ]

    def _candidates(
        self, writer: Writer, ref: SetRef, observation: str, weights: Weights, k: int
    ) -> Iterator[tuple[Item, float]]:
        """Yield the items to rank, each with its relevance to *observation*, 0..1."""
        wanted = max(CANDIDATES, min(k, MOST_HITS))
        asked = SearchOptions(limit=wanted, touch=False)
        hits = writer.search([ref], observation, asked) if weights.beta else ()
        seen: set[str | None] = set()
        for hit in hits:
            seen.add(hit.item.id)
            yield hit.item, min(1.0, max(0.0, hit.score / SCORE_OF_BEST))
        info = writer.info(ref)
        few = info is None or info.items <= max(ALL, k)
        if few or not weights.beta:
            rest = SetEditor(writer, ref).items()
        else:
            rest = writer.page(ref, PageQuery(limit=LATEST, newest_first=True))
        for stored in rest:
            if stored.record.id not in seen:
                yield item_of(stored), 0.0

    # --- removing -----------------------------------------------------------------------------

    async def mark(self, ids: Sequence[FragmentId], mark: Mark | None) -> int:
        """Mark fragments so that they are not recalled. The mark None makes them recallable again.

        Return the number of marked fragments, without unknown ids.
        """
        if mark not in ("forget", "merge", None):
            raise InvalidInput(f"a mark must be 'forget', 'merge' or None, not {mark!r}")
        names = _names(ids)
        plan = partial(self._marked, names, mark)
        return await self._moved(plan, "mark fragments", [*names], mark)

    def _marked(self, names: Sequence[str], mark: Mark | None, move: Move) -> int:
        items = move.items(self)
        found = [entry for name in names if (entry := items.get(name)) is not None]
        for entry in found:
            entry.extra["mark"] = mark
            items.change(entry)
        return len(found)

    async def fade(self, below: float = FADED) -> DiscardedMemoryFragments[T]:
        """Drop fragments that are neither important nor recent, and return them.

        A fragment is dropped if importance times recency is less than *below*. Fragments with
        ``pinned`` in their metadata stay. `recover` restores dropped fragments.
        """
        least = finite(below, "below")
        plan = partial(self._faded, least)
        discarded = await self._moved(plan, "let fragments fade", least)
        return cast("DiscardedMemoryFragments[T]", discarded)

    def _faded(self, least: float, move: Move) -> DiscardedMemoryFragments[MemoryFragment]:
        items = move.items(self)
        for entry in items.entries:
            fragment = entry.fragment
            accessed = aware(fragment.last_accessed_time or move.now)
            strength = unit(fragment.importance) * recency(accessed, move.now)
            if strength < least and not fragment.metadata.get("pinned"):
                move.drop(fragment, f"it faded: {strength:.3g} is below {least:.3g}")
                items.remove([entry])
        return move.discarded

    async def recover(self, ids: Sequence[FragmentId]) -> list[T]:
        """Restore fragments that faded or were cleared, and return them.

        If the text of a fragment was written again since, the fragment is joined to the newer
        fragment, and not returned.
        """
        names = _names(ids)
        plan = partial(self._recovered, names)
        return cast("list[T]", await self._moved(plan, "recover", [*names]))

    def _recovered(self, names: Sequence[str], move: Move) -> list[MemoryFragment]:
        items = move.items(self)
        back: list[MemoryFragment] = []
        for name in names:
            past = move.storage.engine.store.versions(items.editor.ref, name)
            if past and items.get(name) is None:
                entry = entry_of(past[-1], self.fragment_class)
                if self._settled(move, replace(entry, stored=None)):
                    back.append(entry.fragment)
        return back


def _sourced(insight: MemoryFragment, fragments: Sequence[MemoryFragment]) -> MemoryFragment:
    """Return an insight that has the ids of *fragments* as its `source_ids`."""
    if set(insight.source_ids) == {fragment.id for fragment in fragments}:
        return insight
    return insight.current_class.build_from(
        insight.raw_observation,
        insight.embeddings,
        insight.id,
        insight.importance,
        True,  # noqa: FBT003 - DB-GPT's signature
        source_ids=[fragment.id for fragment in fragments],
        metadata=insight.metadata,
    )


def _names(ids: Sequence[FragmentId]) -> list[str]:
    """Return the ids of the items that keep these fragments, each once."""
    if isinstance(ids, str) or not isinstance(ids, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"ids must be a list of ids of fragments, not {ids!r}")
    return list(dict.fromkeys(item_id(one) for one in ids))
