"""A move: the changes that one call makes to layers, planned on their items and committed whole.

A plan never waits: where it needs a model's answer that is missing, it stops (`Unanswered`), the
model is asked, and the plan is made again. It is also made again when another writer was first.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, ClassVar, TypeVar, cast

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
from alveus.agents.layers.scoring import ImportanceScorer, InsightExtractor, Profile, rated, unit
from alveus.agents.storage import RAM_PAST_US, FairLock, LayerStorage, Note, aware, later
from alveus.errors import AlveusError, InvalidInput
from alveus.llm import ChatModel
from alveus.sets.admission.barrier import Barrier
from alveus.sets.admission.quarantine import QuarantineDraft
from alveus.sets.admission.verdicts import Outcome
from alveus.sets.origins import known_links
from alveus.sets.set_editor import NewId, SetEditor
from alveus.sets.writer import PlannedWrite, PlannerCall, Writer
from alveus.store import Add, Define, Definition, ItemChange, Replace, SetRef, StoredItem
from alveus.store.changes import Link
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.values.ids import new_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value

LABELS = ("speaker", "role", "session")
"""Fields of an item that a fragment has in its metadata."""


def item_id(fragment_id: FragmentId) -> str:
    """Return the id of the item that a fragment is kept as."""
    return str(fragment_id)


@dataclass(slots=True)
class FragmentEntry:
    """A fragment in a layer.

    Attributes:
        number: Its place in the order of arrival.
        stored: The version it was read from; None: it is new here.
        origin: What it was made from, elsewhere.
        extra: What the layer knows of it besides.
        time: When it happened; None: now.
    """

    fragment: MemoryFragment
    number: int = 0
    stored: StoredItem | None = None
    origin: Sequence[Link] = ()
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    time: datetime | None = None

    @property
    def id(self) -> str:
        """The id of its item."""
        return item_id(self.fragment.id) if self.stored is None else self.stored.record.id

    def origins(self) -> tuple[Link, ...]:
        """Return what is derived from it has to name: itself, or, if new, what it came from."""
        return tuple(self.origin) if self.stored is None else (Link(self.stored.set, self.id),)

    def leaving(self) -> FragmentEntry:
        """Return it as the next layer gets it."""
        extra = {name: self.extra[name] for name in ("seen", "parts") if name in self.extra}
        return FragmentEntry(self.fragment, origin=self.origins(), extra=extra, time=self.time)

    def parts(self) -> list[dict[str, Any]]:
        """Return what it was made of: the parts of a merged one, or itself."""
        if "parts" in self.extra:
            return list(self.extra["parts"])
        value = {name: v for name, v in self._value(0).items() if name in _FIELDS}
        return [value | {"metadata": dict(self.fragment.metadata)}]

    def value(self) -> dict[str, Any]:
        """Return the value that keeps it where it is."""
        return self._value(self.extra.get("era", 0))

    def item(self, *, era: int, now: datetime, session: str | None) -> Item:
        """Return the item that keeps it."""
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
        """Return the item that it was read from, as it is now."""
        return replace(
            item_of(stored),
            value=self.value(),
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
    """Return the fields of an item that are in the metadata of a fragment, checked."""
    labels = {name: metadata.get(name) for name in LABELS}
    for name, label in labels.items():
        if label is not None and not isinstance(label, str):
            raise InvalidInput(f"{name} in the metadata of a fragment must be a str: {label!r}")
    return labels


def merged(members: Sequence[FragmentEntry]) -> FragmentEntry:
    """Return entries as one, of the class and the importance of the first.

    It keeps all that is known of each in `parts`, and of their metadata what they agree in.
    """
    first = members[0]
    fragments = [member.fragment for member in members]
    whole = first.fragment.current_class.reduce(fragments, importance=first.fragment.importance)
    for name, known in first.fragment.metadata.items():
        if all(f.metadata.get(name) == known for f in fragments):
            whole.metadata[name] = known
    links = dict.fromkeys(link for member in members for link in member.origins())
    parts = [part for member in members for part in member.parts()]
    return FragmentEntry(whole, origin=tuple(links), extra={"parts": parts}, time=first.time)


_FIELDS = frozenset(
    ("id", "observation", "importance", "accessed", "insight", "sources", "snapshot", "embeddings")
)


def entry_of(stored: StoredItem, made: type[MemoryFragment] | None) -> FragmentEntry:
    """Return the fragment that a stored item keeps, as an entry; see `fragment_of`."""
    item = item_of(stored)
    value = value_of(item)
    extra = {name: v for name, v in value.items() if name not in _FIELDS}
    return FragmentEntry(fragment_of(item, made), value.get("n", 0), stored, (), extra, item.time)


def fragment_of(item: Item, made: type[MemoryFragment] | None) -> MemoryFragment:
    """Return the fragment that an item keeps.

    Args:
        made: Its class, where that holds what the item holds; None: as the item says.
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
    """Return what an item keeps of a fragment; one that no layer wrote is a fragment of text."""
    value = cast("dict[str, Any]", item.value)
    if isinstance(value, dict) and "id" in value and "n" in value:  # pyright: ignore[reportUnnecessaryIsInstance] - anybody can add to a set
        return value
    return {"id": item.id, "observation": item.text or "", "importance": item.importance or None}


def accessed_time(item: Item) -> datetime | None:
    """Return when what an item keeps was recalled last."""
    noted = value_of(item).get("accessed")
    return later(None if noted is None else datetime.fromisoformat(noted), item.accessed)


class LayerNote(Note):
    """What is known of a layer besides its fragments; its version guards them all.

    Every change of a buffer writes its note. So of two writers that saw the same buffer one
    is refused, and looks again.
    """

    __slots__ = ()

    @property
    def era(self) -> int:
        """How often the layer was cleared."""
        return int(self.value.get("era", 0))

    def begin_era(self) -> None:
        """Note that the layer was cleared: what it held before may be written again."""
        arrivals = self.value.get("arrivals", 0)
        self.value = {"era": self.era + 1, "arrivals": arrivals}

    def next_number(self) -> int:
        """Count an arrival."""
        self.value["arrivals"] = number = int(self.value.get("arrivals", 0)) + 1
        return number


class Buffer:
    """The fragments of a layer that holds few, oldest first, as a plan changes them."""

    def __init__(
        self, editor: SetEditor, note: LayerNote, fragment_class: type[MemoryFragment] | None
    ) -> None:
        self.editor, self.note = editor, note
        entries = [entry_of(stored, fragment_class) for stored in editor.items()]
        self.entries = sorted(entries, key=lambda entry: (entry.number, entry.id))
        self._before = [(entry.id, entry.stored) for entry in self.entries if entry.stored]
        self._touched = False

    @property
    def fragments(self) -> list[MemoryFragment]:
        """Its fragments, oldest first."""
        return [entry.fragment for entry in self.entries]

    def touch(self) -> None:
        """Have its note written."""
        self._touched = True

    def append(self, entry: FragmentEntry) -> None:
        """Put an entry at the end."""
        number = self.note.next_number()
        self.entries.append(replace(entry, number=number, stored=None, extra=dict(entry.extra)))

    def remove(self, removed: Iterable[FragmentEntry]) -> None:
        """Take entries out."""
        ids = {entry.id for entry in removed}
        self.entries = [entry for entry in self.entries if entry.id not in ids]

    def changes(self, *, now: datetime, session: str | None) -> list[ItemChange]:
        """Return what makes the set be as this is."""
        ids = {entry.id for entry in self.entries}
        gone = [stored for item_id, stored in self._before if item_id not in ids]
        new = [entry for entry in self.entries if entry.stored is None]
        if not (gone or new or self._touched):
            return []
        made = added(self.editor, new, era=self.note.era, now=now, session=session)
        return [*made, *self.editor.retired(gone), self.note.change(self.editor.writer)]


def added(
    editor: SetEditor,
    entries: Sequence[FragmentEntry],
    *,
    era: int,
    now: datetime,
    session: str | None,
) -> list[ItemChange]:
    """Return what adds entries to a set."""
    items = [(entry.id, entry.item(era=era, now=now, session=session)) for entry in entries]
    return [
        Add(
            editor.ref,
            record,
            links=tuple(entry.origin) or known_links(editor.writer, editor.ref, record),
        )
        for record, entry in zip(editor.writer.records(items), entries, strict=True)
    ]


def replaced(editor: SetEditor, entries: Sequence[FragmentEntry]) -> list[ItemChange]:
    """Return what keeps entries, which were read before, as they are now."""
    return editor.replaced([(e.stored, e.as_read(e.stored)) for e in entries if e.stored])


R = TypeVar("R")
Insight = InsightMemoryFragment[MemoryFragment]

_LOG = logging.getLogger(__name__)

LONGEST_INSIGHT = 100_000
"""Characters of an insight; a model that says more has not inferred anything."""

NEVER: Sequence[Outcome] = ("reject", "quarantine")
"""What a set says of an item whatever else it holds."""

ANY: Sequence[Outcome] = (*NEVER, "merge")


class LayerSettings:
    """The sets of a layer, its numbers, and the models that it asks: what a move reads of it.

    Args:
        label: Goes before the names of the sets.
        profile: Whose numbers it counts by.

    Attributes:
        name: The agent's name.
        session_id: The conversation that fragments are written in.
        fragment_class: The class that its fragments are read as; None: as each was written.
    """

    importance_weight: float = 0.15
    kind: ClassVar[str] = ""

    def __init__(self, label: str, profile: Profile) -> None:
        self._label, self._profile = label, profile
        self.name: str | None = None
        self.llm_client: ChatModel | None = None
        self.importance_scorer: ImportanceScorer | None = None
        self.insight_extractor: InsightExtractor | None = None
        self.session_id: str | None = None
        self.fragment_class: type[MemoryFragment] | None = None

    @property
    def profile(self) -> Profile:
        """Whose numbers it counts by."""
        return self._profile

    @property
    def label(self) -> str:
        """What goes before the names of its sets."""
        return self._label

    @property
    def set_name(self) -> str:
        """The name of the set that holds its fragments."""
        return self._named(self.kind)

    @property
    def note_set(self) -> str:
        """The name of the set that holds what is noted of it and the layers beside it."""
        return self._named("layers")

    def _named(self, kind: str) -> str:
        return f"{self._label}.{kind}" if self._label else kind


class Unanswered(Exception):
    """A plan needs something of a model that it was not asked yet."""


@dataclass(slots=True, frozen=True)
class FragmentQuestion:
    """What a model is asked about one fragment, or about several taken together."""

    layer: LayerSettings
    kind: str
    fragments: tuple[MemoryFragment, ...]

    @property
    def name(self) -> tuple[str, str, tuple[FragmentId, ...]]:
        """What tells it from others."""
        return (self.kind, self.layer.set_name, tuple(f.id for f in self.fragments))


class ModelAnswers:
    """What models answered so far, and what is to be asked next."""

    def __init__(self) -> None:
        self._answers: dict[object, object] = {}
        self._missing: dict[object, FragmentQuestion] = {}

    def answer(self, *questions: FragmentQuestion) -> list[Any]:
        """Return the answers.

        Raises:
            Unanswered: Some are missing; `ask` gets them.
        """
        missing = [q for q in questions if q.name not in self._answers]
        if missing:
            self._missing |= {q.name: q for q in missing}
            raise Unanswered
        return [self._answers[q.name] for q in questions]

    async def ask(self) -> None:
        """Get the answers that are missing, all at once."""
        questions, self._missing = list(self._missing.values()), {}
        found = await asyncio.gather(*(_model_answer(question) for question in questions))
        self._answers |= {q.name: a for q, a in zip(questions, found, strict=True)}

    def importances(self, layer: LayerSettings, fragments: Sequence[MemoryFragment]) -> list[float]:
        """Return how important fragments are: by the scorer, or without one a constant.

        Raises:
            Unanswered: The scorer was not asked yet.
        """
        weight = layer.importance_weight
        if layer.importance_scorer is None:
            return [layer.profile.importance(None, weight) for _ in fragments]
        found = self.answer(*(FragmentQuestion(layer, "score", (f,)) for f in fragments))
        ratings = [None if isinstance(rating, Failure) else rating for rating in found]
        return [layer.profile.importance(rating, weight) for rating in ratings]


async def _model_answer(question: FragmentQuestion) -> object:
    """Return the answer, or a `Failure`."""
    layer, fragments = question.layer, question.fragments
    whole = fragments[0] if len(fragments) == 1 else fragments[0].current_class.reduce(fragments)
    try:
        if question.kind == "score":
            scorer = layer.importance_scorer
            return scorer and rated(await awaited(scorer.score_importance(whole, layer.llm_client)))
        extractor = layer.insight_extractor
        answer = extractor and await awaited(extractor.extract_insights(whole, layer.llm_client))
        return _inferred(layer, fragments, answer)
    except Exception as error:  # noqa: BLE001 - the edge to a user's model: told in `failures`
        _LOG.warning("a model failed in a layer: %s: %s", question.kind, type(error).__name__)
        why = str(error) if isinstance(error, AlveusError) else repr(error)
        return Failure(fragments[0], f"{question.kind}: {why}")


def _inferred(
    layer: LayerSettings, fragments: tuple[MemoryFragment, ...], answer: object
) -> Insight | None:
    """Return what an extractor answered about fragments, checked; what is blank is left out."""
    if answer is None:
        return None
    if not isinstance(answer, InsightMemoryFragment):
        raise InvalidInput(
            f"an extractor gives an InsightMemoryFragment or None, not {type(answer).__name__}"
        )
    insights = cast("Insight", answer).insights
    for insight in insights:
        layer.profile.check(insight.importance, "the importance of an insight")
        text = insight.raw_observation
        if len(text) > LONGEST_INSIGHT:
            raise InvalidInput(
                f"an insight has {len(text)} characters; at most {LONGEST_INSIGHT} are kept"
            )
        text.encode()  # a lone surrogate is no text
    filled = [insight for insight in insights if insight.raw_observation.strip()]
    return InsightMemoryFragment(fragments[0] if len(fragments) == 1 else fragments, filled)


async def awaited(answer: Awaitable[R] | R) -> R:
    """Return what a function answered that may be async or not."""
    return await answer if inspect.isawaitable(answer) else cast("R", answer)


class FragmentGate:
    """Checks what one move adds to sets with rules, and gathers what goes into quarantine."""

    def __init__(self, writer: Writer, new_id: Callable[[], str]) -> None:
        self._writer, self._new_id = writer, new_id
        self._barriers: dict[SetRef, Barrier | None] = {}
        self._quarantine: dict[SetRef, QuarantineDraft] = {}

    def refusal(
        self, ref: SetRef, item_id: str, item: Callable[[], Item], refused: Sequence[Outcome]
    ) -> str | None:
        """Return why a set does not take an item; None: it does, or has no rules."""
        barrier = self._barrier(ref)
        if barrier is None:
            return None
        made = item()
        record = self._writer.records([(item_id, made)])[0]
        verdict = barrier.judge([(made, record)])[0]
        if verdict.outcome == "accept":
            return None
        if not self._writer.rules_unchanged(ref, barrier.rules):
            del self._barriers[ref]
            return self.refusal(ref, item_id, item, refused)
        if verdict.outcome not in refused:
            return None
        if verdict.outcome == "quarantine":
            draft = QuarantineDraft(self._writer, ref, self._new_id)
            self._quarantine.setdefault(ref, draft).take(record, verdict)
        why = verdict.reason or "it is there already"
        return f"{verdict.outcome} by rule {verdict.rule!r} of set {ref.name!r}: {why}"

    def _barrier(self, ref: SetRef) -> Barrier | None:
        if ref not in self._barriers:
            rules = self._writer.rules(ref, None)
            self._barriers[ref] = None if rules is None else Barrier(self._writer, ref, rules)
        return self._barriers[ref]

    def plan(self, changes: Sequence[ItemChange]) -> PlannedWrite:
        """Return the changes of a move, with those that put items into quarantine."""
        grown = dict.fromkeys(c.set for c in changes if isinstance(c, (Add, Replace)))
        checks = [barrier.admission_check for ref in grown if (barrier := self._barrier(ref))]
        items, define = list(changes), list[Define]()
        for draft in self._quarantine.values():
            items += draft.changes
            define += draft.define
            checks += draft.admission_checks
        return PlannedWrite(items, None, define, retry=True, admission_checks=checks)


class Move:
    """One call's changes of layers, in the making.

    Attributes:
        answers: What models said.
        discarded: What left the layers.
    """

    def __init__(
        self, storage: LayerStorage, writer: Writer, answers: ModelAnswers, new_id: NewId = new_id
    ) -> None:
        self.storage, self.writer, self.answers = storage, writer, answers
        self._gate = FragmentGate(writer, new_id)
        self.now = storage.now()
        self.discarded = DiscardedMemoryFragments[MemoryFragment]([])
        self._buffers: dict[SetRef, tuple[Buffer, str | None]] = {}
        self._notes: dict[tuple[SetRef, str], LayerNote] = {}
        self._added: dict[SetRef, tuple[LayerSettings, dict[str, FragmentEntry]]] = {}
        self._replaced: dict[SetRef, dict[str, FragmentEntry]] = {}
        self._more: list[ItemChange] = []
        self._written: dict[tuple[SetRef, str], LayerNote] = {}

    def fragments(self, layer: LayerSettings) -> SetEditor:
        """Return the set of a layer's fragments."""
        return SetEditor(self.writer, self.storage.ref(layer.set_name))

    def buffer(self, layer: LayerSettings) -> Buffer:
        """Return what a layer holds, to be changed."""
        editor = self.fragments(layer)
        if editor.ref not in self._buffers:
            made = Buffer(editor, self.note(layer), layer.fragment_class)
            self._buffers[editor.ref] = made, layer.session_id
        return self._buffers[editor.ref][0]

    def added(self, layer: LayerSettings) -> dict[str, FragmentEntry]:
        """Return what is added, by id, to a layer that holds too much to be read; add to it."""
        return self._added.setdefault(self.storage.ref(layer.set_name), (layer, {}))[1]

    def changed(self, layer: LayerSettings) -> dict[str, FragmentEntry]:
        """Return what is changed, by id, in such a layer; add to it."""
        return self._replaced.setdefault(self.storage.ref(layer.set_name), {})

    def note(self, layer: LayerSettings, name: str | None = None) -> LayerNote:
        """Return what is noted of a layer besides its fragments, or a *name*d part of that."""
        ref, name = self.storage.ref(layer.note_set), name or layer.set_name
        if (ref, name) not in self._notes:
            self._notes[ref, name] = LayerNote.read(self.writer, ref, name)
        return self._notes[ref, name]

    def change(self, changes: Sequence[ItemChange], note: LayerNote | None = None) -> None:
        """Make changes that are of no buffer, and write a note."""
        self._more += changes
        if note is not None:
            self._written[note.ref, note.name] = note

    def is_refused(self, layers: Sequence[LayerSettings], entry: FragmentEntry) -> bool:
        """Return whether the rules of a layer's set keep an entry out; it is dropped then."""
        return any(
            self._refused(self.storage.ref(layer.set_name), [entry], layer.session_id, NEVER)
            for layer in layers
        )

    def _refused(
        self,
        ref: SetRef,
        entries: Sequence[FragmentEntry],
        session: str | None,
        outcomes: Sequence[Outcome],
    ) -> list[FragmentEntry]:
        refused: list[FragmentEntry] = []
        for entry in entries:

            def item(entry: FragmentEntry = entry) -> Item:
                return entry.item(era=0, now=self.now, session=session)

            reason = self._gate.refusal(ref, entry.id, item, outcomes)
            if reason is not None:
                self.drop(entry.fragment, reason)
                refused.append(entry)
        return refused

    def _unlink(self, gone: Link, entries: Mapping[str, FragmentEntry]) -> None:
        """Remove notes of an entry that is not added after all, and links to it."""
        self._written = {name: note for name, note in self._written.items() if note.about != gone}
        for entry in entries.values():
            entry.origin = [link for link in entry.origin if link != gone]

    def drop(self, fragment: MemoryFragment, reason: str) -> None:
        """Let go of a fragment for good."""
        self.discarded.dropped.append(Dropped(fragment, reason))

    def ask(
        self, layer: LayerSettings, kind: str, groups: Sequence[Sequence[MemoryFragment]]
    ) -> list[Any]:
        """Return a model's answers about groups of fragments; None where there is none.

        What failed is noted, and is None here.
        """
        questions = [FragmentQuestion(layer, kind, tuple(group)) for group in groups]
        answers = self.answers.answer(*questions)
        self.discarded.failures += [a for a in answers if isinstance(a, Failure)]
        return [None if isinstance(a, Failure) else a for a in answers]

    def inferred(self, layer: LayerSettings, entries: Sequence[FragmentEntry]) -> list[Insight]:
        """Return what can be inferred from entries, one by one."""
        if layer.insight_extractor is None or not entries:
            return []
        answers = self.ask(layer, "insight", [[entry.fragment] for entry in entries])
        return [insight for insight in answers if insight is not None]

    def plan(self) -> PlannedWrite:
        """Return what is to be committed, sources before what is derived from them.

        What the rules of a set keep out of it is dropped.
        """
        made: list[ItemChange] = []
        for buffer, session in self._buffers.values():
            new = [entry for entry in buffer.entries if entry.stored is None]
            buffer.remove(self._refused(buffer.editor.ref, new, session, ANY))
            made += buffer.changes(now=self.now, session=session)
        for layer, entries in self._added.values():
            editor, session = self.fragments(layer), layer.session_id
            for refused in self._refused(editor.ref, list(entries.values()), session, ANY):
                del entries[refused.id]
                self._unlink(Link(editor.ref, refused.id), entries)
            new, era = list(entries.values()), self.note(layer).era
            made += added(editor, new, era=era, now=self.now, session=session)
        for ref, changed in self._replaced.items():
            made += replaced(SetEditor(self.writer, ref), list(changed.values()))
        made += self._more
        made += [note.change(self.writer) for note in self._written.values()]
        planned = self._gate.plan(made)
        return replace(planned, define=[*planned.define, *self._begun_in_ram(planned.items)])

    def _begun_in_ram(self, changes: Sequence[ItemChange]) -> list[Define]:
        """Define sets of RAM that begin: what left them is kept for a day, of notes nothing."""
        if not self.storage.is_ram:
            return []
        notes = {ref for ref, _ in self._notes}
        begun = dict.fromkeys(change.set for change in changes if isinstance(change, Add))
        return [
            Define(ref, Definition(retention="purge" if ref in notes else RAM_PAST_US))
            for ref in begun
            if self.writer.info(ref) is None
        ]


async def moved(
    storage: LayerStorage, lock: FairLock, plan: Callable[[Move], R], name: str, *arguments: Value
) -> R:
    """Make a plan, commit it, and return what it returned.

    Args:
        name: What was called.
        arguments: With what, as it was passed: that tells a batch from another with its key.

    Raises:
        StaleItem: Others changed the layers again and again, for as long as the memory waits.
    """
    answers = ModelAnswers()

    def commit(writer: Writer) -> R:
        storage.warn_of_separate_commit(writer)
        result: list[R] = []

        def build(new_id: NewId) -> PlannedWrite:
            move = Move(storage, writer, answers, new_id)
            result[:] = [plan(move)]
            return move.plan()

        writer.write(PlannerCall(name, [*arguments], build))
        return result[0]

    async with lock:
        while True:
            try:
                found = await storage.call(commit)
            except Unanswered:
                await answers.ask()
            else:
                storage.changed()
                return found
