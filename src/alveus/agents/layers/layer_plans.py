"""A move: what one call does to layers, planned on what they hold, and committed whole.

A plan is made without waiting: where it needs what a model says, it stops (`Unanswered`), the
model is asked, and the plan is made again. So it is where somebody else was first.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, cast

from alveus.agents.layers.fragment_items import Buffer, FragmentEntry, LayerNote, added, replaced
from alveus.agents.layers.fragments import FragmentId, MemoryFragment
from alveus.agents.layers.importance import ImportanceScorer, Profile, rated
from alveus.agents.layers.insight_extractors import InsightExtractor
from alveus.agents.layers.layer_results import (
    DiscardedMemoryFragments,
    Dropped,
    Failure,
    InsightMemoryFragment,
)
from alveus.agents.storage import RAM_PAST_US, FairLock, LayerStorage
from alveus.errors import AlveusError, InvalidInput
from alveus.llm import ChatModel
from alveus.sets.admission.barrier import Barrier
from alveus.sets.admission.quarantine import QuarantineDraft
from alveus.sets.admission.verdicts import Outcome
from alveus.sets.set_editor import NewId, SetEditor
from alveus.sets.writer import PlannedWrite, PlannerCall, Writer
from alveus.store import Add, Define, Definition, ItemChange, Replace, SetRef
from alveus.store.changes import Link
from alveus.store.items import Item
from alveus.values.ids import new_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value

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
