"""A move: the changes of one call to layers, planned on their items and committed whole.

A plan never waits: if a model's answer is missing, planning stops (`Unanswered`), the model is
asked, and the plan is made again. The plan is also made again after a conflict with another writer.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast

from alveus.agents.layers.fragments import (
    AgentMemoryFragment,
    DiscardedMemoryFragments,
    Dropped,
    Failure,
    FragmentId,
    InsightMemoryFragment,
    MemoryFragment,
    StructuredAgentMemoryFragment,
)
from alveus.agents.layers.scoring import (
    ImportanceScorer,
    InsightExtractor,
    Profile,
    ProfileName,
    rated,
    unit,
)
from alveus.agents.storage import RAM_PAST_US, LayerStorage, Note, aware, later
from alveus.errors import AlveusError, InvalidInput
from alveus.llm import ChatModel
from alveus.sets.admission.barrier import Barrier, QuarantineDraft
from alveus.sets.admission.rules import Outcome
from alveus.sets.origins import known_links
from alveus.sets.set_editor import NewId, SetEditor
from alveus.sets.writer import PlannedWrite, Writer
from alveus.store import Add, Define, Definition, ItemChange, Replace, Retire, SetRef, StoredItem
from alveus.store.changes import Link
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.values.ids import new_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name

LABELS = ("speaker", "role", "session")
"""The fields of an item that a fragment keeps in its metadata."""


def item_id(fragment_id: FragmentId) -> str:
    """Return the id of the item that keeps a fragment."""
    return str(fragment_id)


@dataclass(slots=True)
class FragmentEntry:
    """A fragment in a layer.

    Attributes:
        number: The number of the fragment in the order of arrival.
        stored: The stored version from which the entry was read, or None for a new entry.
        origin: The items that a new fragment was made from.
        extra: Further fields of the stored value, for the layer.
        time: The time of the observation. With None, the time of the write is stored.
    """

    fragment: MemoryFragment
    number: int = 0
    stored: StoredItem | None = None
    origin: Sequence[Link] = ()
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    time: datetime | None = None

    @property
    def id(self) -> str:
        """The id of the item that stores the fragment."""
        return item_id(self.fragment.id) if self.stored is None else self.stored.record.id

    def origins(self) -> tuple[Link, ...]:
        """Return the sources of a fragment derived from this entry.

        They are the stored item of the entry, or the `origin` of a new entry.
        """
        return tuple(self.origin) if self.stored is None else (Link(self.stored.set, self.id),)

    def leaving(self) -> FragmentEntry:
        """Return a new entry for the next layer, with the same fragment."""
        extra = {name: self.extra[name] for name in ("seen", "parts") if name in self.extra}
        return FragmentEntry(self.fragment, origin=self.origins(), extra=extra, time=self.time)

    def parts(self) -> list[dict[str, Any]]:
        """Return the fields of each part of a merged fragment, or of the fragment itself."""
        if "parts" in self.extra:
            return list(self.extra["parts"])
        value = {name: v for name, v in self._value(0).items() if name in _FIELDS}
        return [value | {"metadata": dict(self.fragment.metadata)}]

    def item(self, *, era: int, now: datetime, session: str | None) -> Item:
        """Return the item that stores the entry."""
        fragment = self.fragment
        metadata = dict(fragment.metadata)
        labels = labels_of(metadata)
        labels["session"] = labels["session"] or session
        text = fragment.raw_observation
        return Item(
            self._value(era),
            text=text,
            metadata=metadata,
            importance=unit(fragment.importance),
            time=self.time or now,
            sources=tuple(item_id(source) for source in fragment.source_ids),
            **labels,
        )

    def as_read(self, stored: StoredItem) -> Item:
        """Return a copy of *stored*, the item of this entry, with the entry's current values."""
        return replace(
            item_of(stored),
            value=self._value(self.extra.get("era", 0)),
            metadata=self.fragment.metadata,
            importance=unit(self.fragment.importance),
            time=self.time,
        )

    def _value(self, era: int) -> dict[str, Any]:
        f, extra = self.fragment, self.extra
        is_structured = isinstance(f, StructuredAgentMemoryFragment)
        accessed = f.last_accessed_time
        value: dict[str, Any] = {
            "id": f.id,
            "observation": f.observation if is_structured else f.raw_observation,
            "importance": f.importance,
            "accessed": None if accessed is None else aware(accessed).isoformat(),
            "insight": f.is_insight,
            "sources": f.source_ids,
            "snapshot": f.snapshot_path if isinstance(f, AgentMemoryFragment) else None,
            "embeddings": f.embeddings,
        }
        kept = {name: v for name, v in value.items() if not (v is None or v is False or v == [])}
        return {**extra, **kept, "n": self.number, "era": era}


def labels_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `LABELS` in the metadata of a fragment; a missing label is None.

    Raises:
        InvalidInput: A label is not a str.
    """
    labels = {name: metadata.get(name) for name in LABELS}
    for name, label in labels.items():
        if label is not None and not isinstance(label, str):
            raise InvalidInput(f"{name} in the metadata of a fragment must be a str, not {label!r}")
    return labels


_FIELDS = frozenset(
    ("id", "observation", "importance", "accessed", "insight", "sources", "snapshot", "embeddings")
)


def entry_of(stored: StoredItem, made: type[MemoryFragment] | None) -> FragmentEntry:
    """Return an entry for the fragment that a stored item keeps; see `fragment_of`."""
    item = item_of(stored)
    value = value_of(item)
    extra = {name: v for name, v in value.items() if name not in _FIELDS}
    return FragmentEntry(fragment_of(item, made), value.get("n", 0), stored, (), extra, item.time)


def fragment_of(item: Item, made: type[MemoryFragment] | None) -> MemoryFragment:
    """Return the fragment that an item stores.

    Args:
        made: The class of the fragment. If it does not fit the observation, or is None, the class
            is `AgentMemoryFragment` for a text and `StructuredAgentMemoryFragment` for steps.
    """
    value = value_of(item)
    observation = value.get("observation", "")
    plain = isinstance(observation, str)
    cls: type[MemoryFragment] = AgentMemoryFragment if plain else StructuredAgentMemoryFragment
    if made is not None and issubclass(made, StructuredAgentMemoryFragment) != plain:
        cls = made
    more = {"snapshot_path": value["snapshot"]} if "snapshot" in value else {}
    return cls.build_from(
        observation,
        embeddings=value.get("embeddings"),
        memory_id=value["id"],
        importance=value.get("importance"),
        is_insight=value.get("insight", False),
        last_accessed_time=accessed_time(item),
        metadata=item.metadata,
        source_ids=value.get("sources", ()),
        **more,
    )


def value_of(item: Item) -> dict[str, Any]:
    """Return the fields of the fragment that an item stores.

    An item that no layer wrote counts as a fragment of its text.
    """
    value = cast("dict[str, Any]", item.value)
    if isinstance(value, dict) and "id" in value and "n" in value:  # pyright: ignore[reportUnnecessaryIsInstance] - anybody can add to a set
        return value
    return {"id": item.id, "observation": item.text or "", "importance": item.importance or None}


def accessed_time(item: Item) -> datetime | None:
    """Return the time at which an item's fragment was last recalled, or None if it never was."""
    noted = value_of(item).get("accessed")
    return later(None if noted is None else datetime.fromisoformat(noted), item.accessed)


class LayerNote(Note):
    """The note of a layer. In small layers its version guards the fragments; see `LayerItems`."""

    __slots__ = ()

    @property
    def era(self) -> int:
        """The number of times that the layer was cleared."""
        return int(self.value.get("era", 0))

    def begin_era(self) -> None:
        """Record that the layer was cleared: earlier ids may be written again."""
        arrivals = self.value.get("arrivals", 0)
        self.value = {"era": self.era + 1, "arrivals": arrivals}

    def next_number(self) -> int:
        """Count an arriving fragment. Return its number."""
        self.value["arrivals"] = number = int(self.value.get("arrivals", 0)) + 1
        return number


R = TypeVar("R")
Insight = InsightMemoryFragment[MemoryFragment]

_LOG = logging.getLogger(__name__)

LONGEST_INSIGHT = 100_000
"""The most characters of an insight."""

NEVER: Sequence[Outcome] = ("reject", "quarantine")
"""Outcomes that do not depend on the other items of a set."""

ANY: Sequence[Outcome] = (*NEVER, "merge")


class LayerSettings:
    """The numbers, names and models of a layer, as a move reads them; see `LayerMemory`.

    Attributes:
        name: The agent's name; see `LayerMemory.initialize`.
        session_id: The conversation that is stored with each fragment which names no session.
    """

    importance_weight: float = 0.15
    kind: ClassVar[str] = ""
    guards_fragments: ClassVar[bool] = True
    """True if each change writes the note of the layer; see `LayerItems`."""

    def __init__(self, label: str, profile: ProfileName) -> None:
        if label:
            checked_name(label, "a label")
        self._label, self._profile = label, Profile.of(profile)
        self.name: str | None = None
        self.llm_client: ChatModel | None = None
        self.importance_scorer: ImportanceScorer | None = None
        self.insight_extractor: InsightExtractor | None = None
        self.session_id: str | None = None
        self.fragment_class: type[MemoryFragment] | None = None

    @property
    def profile(self) -> Profile:
        """The profile with the numbers of this layer."""
        return self._profile

    @property
    def label(self) -> str:
        """The prefix of the names of the layer's sets."""
        return self._label

    @property
    def set_name(self) -> str:
        """The name of the set that holds the layer's fragments."""
        return self._named(self.kind)

    @property
    def note_set(self) -> str:
        """The name of the set that holds the notes of all layers with this label."""
        return self._named("layers")

    def _named(self, kind: str) -> str:
        return f"{self._label}.{kind}" if self._label else kind

    def _importance(self, rating: float | None) -> float:
        """Return the importance of a fragment whose scorer gave *rating*, or None for no rating."""
        return self._profile.importance(rating, self.importance_weight)


QuestionKind: TypeAlias = Literal["score", "insight"]
"""A question to the scorer of a layer ("score"), or to its extractor ("insight")."""


@dataclass(slots=True, frozen=True)
class FragmentQuestion:
    """A question to a model about one fragment, or about several together."""

    layer: LayerSettings
    kind: QuestionKind
    fragments: tuple[MemoryFragment, ...]

    @property
    def name(self) -> tuple[str, str, tuple[FragmentId, ...]]:
        """The identity of the question. Questions with equal names have the same answer."""
        return (self.kind, self.layer.set_name, tuple(f.id for f in self.fragments))

    async def answered(self) -> object:
        """Return the answer, or a `Failure`."""
        layer, first = self.layer, self.fragments[0]
        try:
            whole = first
            if len(self.fragments) > 1:
                whole = first.current_class.reduce(self.fragments)
            if self.kind == "score":
                scorer = layer.importance_scorer
                rating = scorer and scorer.score_importance(whole, layer.llm_client)
                return rated(await awaited(rating))
            extractor = layer.insight_extractor
            insights = extractor and extractor.extract_insights(whole, layer.llm_client)
            return self._inferred(await awaited(insights))
        except Exception as error:  # noqa: BLE001 - the edge to a user's model: reported in `failures`
            _LOG.warning("a model failed in a layer: %s: %s", self.kind, type(error).__name__)
            why = str(error) if isinstance(error, AlveusError) else repr(error)
            return Failure(first, f"{self.kind}: {why}")

    def _inferred(self, answer: object) -> Insight | None:
        """Check the answer of an extractor. Return it without blank insights; None stays None."""
        if answer is None:
            return None
        if not isinstance(answer, InsightMemoryFragment):
            raise InvalidInput(
                "an extractor must return an InsightMemoryFragment or None, not "
                f"{type(answer).__name__}"
            )
        insights = cast("Insight", answer).insights
        for insight in insights:
            self.layer.profile.check(insight.importance, "the importance of an insight")
            text = insight.raw_observation
            if len(text) > LONGEST_INSIGHT:
                raise InvalidInput(
                    f"an insight has {len(text)} characters; an extractor may return at most "
                    f"{LONGEST_INSIGHT}"
                )
            text.encode()  # a lone surrogate is no text
        filled = [insight for insight in insights if insight.raw_observation.strip()]
        sources = self.fragments
        return InsightMemoryFragment(sources[0] if len(sources) == 1 else sources, filled)


class Unanswered(Exception):
    """A plan needs a model's answers to *questions*, which are missing so far."""

    def __init__(self, questions: Sequence[FragmentQuestion]) -> None:
        super().__init__()
        self.questions = questions


class ModelAnswers:
    """The answers that models have given so far. A plan that is made again finds them here.

    Attributes:
        made_ids: The ids of the fragments that the plan made, by their sources. A plan that is made
            again gives its fragments the same ids, so the answers about them are found.
    """

    def __init__(self) -> None:
        self._answers: dict[object, object] = {}
        self.made_ids: dict[tuple[object, ...], FragmentId] = {}

    def about(
        self, layer: LayerSettings, kind: QuestionKind, groups: Sequence[Sequence[MemoryFragment]]
    ) -> list[Any]:
        """Return a model's answers about groups of fragments, one for each group.

        An answer is None if the model gave none, or if the layer has no model. It is a `Failure`
        if the model failed.

        Raises:
            Unanswered: Some answers are missing; `ask` gets them.
        """
        if (layer.importance_scorer if kind == "score" else layer.insight_extractor) is None:
            return [None for _ in groups]
        questions = [FragmentQuestion(layer, kind, tuple(group)) for group in groups]
        if missing := [q for q in questions if q.name not in self._answers]:
            raise Unanswered(missing)
        return [self._answers[q.name] for q in questions]

    async def ask(self, questions: Sequence[FragmentQuestion]) -> None:
        """Ask models all questions at once, and keep the answers."""
        named = {question.name: question for question in questions}
        found = await asyncio.gather(*(question.answered() for question in named.values()))
        self._answers |= zip(named, found, strict=True)


async def awaited(answer: Awaitable[R] | R) -> R:
    """Return the result of a function that may be async."""
    return await answer if inspect.isawaitable(answer) else cast("R", answer)


class LayerItems:
    """The fragments of one layer, as a move reads and changes them.

    A layer with few fragments guards them by its note, which is written with each change: of two
    writers that read the same fragments, one is refused and plans again.

    Attributes:
        new: The fragments that the move adds, by id.
    """

    def __init__(self, move: Move, layer: LayerSettings) -> None:
        self.editor = SetEditor(move.writer, move.storage.ref(layer.set_name))
        self.note, self.layer, self._move = move.note(layer), layer, move
        self.new: dict[str, FragmentEntry] = {}
        self._read: dict[str, FragmentEntry] | None = None
        self._changed: dict[str, FragmentEntry] = {}
        self._removed: list[StoredItem] = []

    @property
    def entries(self) -> list[FragmentEntry]:
        """All fragments of the layer, oldest first."""
        if self._read is None:
            found = [entry_of(one, self.layer.fragment_class) for one in self.editor.items()]
            self._read = {e.id: e for e in sorted(found, key=lambda entry: entry.number)}
        return [*self._read.values(), *self.new.values()]

    def get(self, entry_id: str) -> FragmentEntry | None:
        """Return the fragment with an id, or None."""
        entry = self.new.get(entry_id) or self._changed.get(entry_id)
        if entry is not None or self._read is not None:
            return entry or (self._read or {}).get(entry_id)
        stored = self.editor.one(entry_id)
        return None if stored is None else entry_of(stored, self.layer.fragment_class)

    def add(self, entry: FragmentEntry) -> None:
        """Add a fragment as the newest."""
        if self.layer.guards_fragments:
            entry.number = self.note.next_number()
        self.new[entry.id] = entry

    def change(self, entry: FragmentEntry) -> None:
        """Write a changed fragment of `entries`."""
        self._changed[entry.id] = entry

    def remove(self, entries: Iterable[FragmentEntry]) -> None:
        """Remove fragments of `entries`."""
        for entry in list(entries):
            read = None if self.new.pop(entry.id, None) else (self._read or {}).pop(entry.id, None)
            if read is not None and read.stored is not None:
                self._removed.append(read.stored)

    def clear(self) -> list[MemoryFragment]:
        """Remove all fragments and return them. Their ids may be written again."""
        entries = self.entries
        self.remove(entries)
        self.note.begin_era()
        self._move.write(self.note)
        return [entry.fragment for entry in entries]

    def changes(self) -> list[ItemChange]:
        """Return the changes of the layer's set."""
        editor, ref, new = self.editor, self.editor.ref, list(self.new.values())
        now, session = self._move.now, self.layer.session_id
        items = [(e.id, e.item(era=self.note.era, now=now, session=session)) for e in new]
        added: list[ItemChange] = [
            Add(ref, record, links=tuple(e.origin) or known_links(editor.writer, ref, record))
            for record, e in zip(editor.writer.records(items), new, strict=True)
        ]
        pairs = [(e.stored, e.as_read(e.stored)) for e in self._changed.values() if e.stored]
        changes = [*added, *editor.retired(self._removed), *editor.replaced(pairs)]
        if changes and self.layer.guards_fragments:
            self._move.write(self.note)
        return changes


class Move:
    """The changes of layers that one call makes, while they are planned.

    Attributes:
        answers: The answers of models.
        discarded: The fragments that left the layers.
    """

    def __init__(
        self, storage: LayerStorage, writer: Writer, answers: ModelAnswers, new_id: NewId = new_id
    ) -> None:
        self.storage, self.writer, self.answers = storage, writer, answers
        self.now, self._new_id, self._made = storage.now(), new_id, 0
        self.discarded = DiscardedMemoryFragments[MemoryFragment]([])
        self._items: dict[SetRef, LayerItems] = {}
        self._notes: dict[tuple[SetRef, str], LayerNote] = {}
        self._written: dict[tuple[SetRef, str], LayerNote] = {}
        self._retired: list[ItemChange] = []
        self._barriers: dict[SetRef, Barrier | None] = {}
        self._quarantine: dict[SetRef, QuarantineDraft] = {}

    def items(self, layer: LayerSettings) -> LayerItems:
        """Return the fragments of a layer, for reads and changes."""
        ref = self.storage.ref(layer.set_name)
        if ref not in self._items:
            self._items[ref] = LayerItems(self, layer)
        return self._items[ref]

    def note(self, layer: LayerSettings, name: str | None = None) -> LayerNote:
        """Return the layer's note with this *name*, or the main note for None."""
        ref, name = self.storage.ref(layer.note_set), name or layer.set_name
        if (ref, name) not in self._notes:
            self._notes[ref, name] = LayerNote.read(self.writer, ref, name)
        return self._notes[ref, name]

    def write(self, note: LayerNote) -> None:
        """Write a note in the commit of the move."""
        self._written[note.ref, note.name] = note

    def retire(self, note: LayerNote) -> None:
        """Retire a note, if it is stored."""
        if note.stored is not None:
            self._retired.append(Retire(note.ref, note.name, note.stored.version))

    def made(
        self, sources: Sequence[str], make: Callable[[FragmentId | None], MemoryFragment]
    ) -> MemoryFragment:
        """Return a fragment from *make*, which is called with its id, or with None for a new id."""
        self._made += 1
        key = (self._made, *sources)
        fragment = make(self.answers.made_ids.get(key))
        self.answers.made_ids[key] = fragment.id
        return fragment

    def merged(self, members: Sequence[FragmentEntry]) -> FragmentEntry:
        """Return one entry that merges *members*, with the class and the importance of the first.

        Its `parts` keep every member whole. Its metadata has the fields that are equal in all
        members.
        """
        first, fragments = members[0], [member.fragment for member in members]
        reduce, importance = first.fragment.current_class.reduce, first.fragment.importance
        whole = self.made(
            [member.id for member in members],
            lambda made_id: reduce(fragments, memory_id=made_id, importance=importance),
        )
        for name, known in first.fragment.metadata.items():
            if all(f.metadata.get(name) == known for f in fragments):
                whole.metadata[name] = known
        links = dict.fromkeys(link for member in members for link in member.origins())
        parts = [part for member in members for part in member.parts()]
        return FragmentEntry(whole, origin=tuple(links), extra={"parts": parts}, time=first.time)

    def drop(self, fragment: MemoryFragment, reason: str) -> None:
        """Drop a fragment for good."""
        self.discarded.dropped.append(Dropped(fragment, reason))

    # --- models -------------------------------------------------------------------------------

    def ask(
        self, layer: LayerSettings, kind: QuestionKind, groups: Sequence[Sequence[MemoryFragment]]
    ) -> list[Any]:
        """Return a model's answers as `ModelAnswers.about` does.

        A `Failure` is recorded in `discarded`, and the answer is None.
        """
        answers = self.answers.about(layer, kind, groups)
        self.discarded.failures += [a for a in answers if isinstance(a, Failure)]
        return [None if isinstance(a, Failure) else a for a in answers]

    def inferred(self, layer: LayerSettings, entries: Sequence[FragmentEntry]) -> list[Insight]:
        """Return the insights that the layer's extractor infers from each entry."""
        answers = self.ask(layer, "insight", [[entry.fragment] for entry in entries])
        return [insight for insight in answers if insight is not None]

    # --- rules of admission -------------------------------------------------------------------

    def is_refused(self, layers: Sequence[LayerSettings], entry: FragmentEntry) -> bool:
        """Return whether the set of one of *layers* refuses *entry*. If so, drop *entry*."""
        return any(self._refused(self.items(layer), [entry], NEVER) for layer in layers)

    def _refused(
        self, items: LayerItems, entries: Sequence[FragmentEntry], outcomes: Sequence[Outcome]
    ) -> list[FragmentEntry]:
        """Drop the entries for which the rules give one of *outcomes*, and return them."""
        reasons = [(entry, self._refusal(items, entry, outcomes)) for entry in entries]
        refused = [(entry, reason) for entry, reason in reasons if reason is not None]
        for entry, reason in refused:
            self.drop(entry.fragment, reason)
        return [entry for entry, _ in refused]

    def _refusal(
        self, items: LayerItems, entry: FragmentEntry, outcomes: Sequence[Outcome]
    ) -> str | None:
        """Return why the rules of a set refuse an entry.

        Return None if the set has no rules, or if they give none of *outcomes*.
        """
        ref = items.editor.ref
        barrier = self._barrier(ref)
        if barrier is None:
            return None
        item = entry.item(era=0, now=self.now, session=items.layer.session_id)
        record = self.writer.records([(entry.id, item)])[0]
        verdict = barrier.judge([(item, record)])[0]
        if verdict.outcome == "accept":
            return None
        if not self.writer.rules_unchanged(ref, barrier.rules):
            del self._barriers[ref]
            return self._refusal(items, entry, outcomes)
        if verdict.outcome not in outcomes:
            return None
        if verdict.outcome == "quarantine":
            draft = QuarantineDraft(self.writer, ref, self._new_id)
            self._quarantine.setdefault(ref, draft).take(record, verdict)
        why = verdict.reason or "it is already in the layer"
        return f"{verdict.outcome} by rule {verdict.rule!r} of set {ref.name!r}: {why}"

    def _barrier(self, ref: SetRef) -> Barrier | None:
        if ref not in self._barriers:
            rules = self.writer.rules(ref, None)
            self._barriers[ref] = None if rules is None else Barrier(self.writer, ref, rules)
        return self._barriers[ref]

    # --- the commit ---------------------------------------------------------------------------

    def plan(self) -> PlannedWrite:
        """Return the changes to commit, sources before derived fragments.

        New fragments that the rules of their set refuse are dropped.
        """
        for items in self._items.values():
            refused = self._refused(items, list(items.new.values()), ANY)
            items.remove(refused)
            for entry in refused:
                self._unlink(Link(items.editor.ref, entry.id), items.new)
        made = [change for items in self._items.values() for change in items.changes()]
        made += [*self._retired, *(note.change(self.writer) for note in self._written.values())]
        grown = dict.fromkeys(c.set for c in made if isinstance(c, (Add, Replace)))
        checks = [barrier.admission_check for ref in grown if (barrier := self._barrier(ref))]
        define = self._begun_in_ram(made)
        for draft in self._quarantine.values():
            made += draft.changes
            define += draft.define
            checks += draft.admission_checks
        return PlannedWrite(made, None, define, retry=True, admission_checks=checks)

    def _unlink(self, gone: Link, entries: Mapping[str, FragmentEntry]) -> None:
        """Remove the notes about an entry that is not added, and the links to this entry."""
        self._written = {name: note for name, note in self._written.items() if note.about != gone}
        for entry in entries.values():
            entry.origin = [link for link in entry.origin if link != gone]

    def _begun_in_ram(self, changes: Sequence[ItemChange]) -> list[Define]:
        """Return the definitions of new sets if the storage is RAM.

        Sets of fragments keep removed fragments for a day. Sets of notes keep no removed notes.
        """
        if not self.storage.is_ram:
            return []
        notes = {ref for ref, _ in self._notes}
        begun = dict.fromkeys(change.set for change in changes if isinstance(change, Add))
        return [
            Define(ref, Definition(retention="purge" if ref in notes else RAM_PAST_US))
            for ref in begun
            if self.writer.info(ref) is None
        ]
