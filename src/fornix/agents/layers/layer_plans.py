"""A move: what one call does to layers, planned on what they hold, and committed whole.

A plan is made without waiting: where it needs what a model says, it stops (`Unanswered`), the
model is asked, and it is made again. Where somebody else was first, it is made again as well.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fornix.agents.layers.fragment_admission import ANY, NEVER, FragmentGate, Turns
from fornix.agents.layers.fragment_items import Buffer, FragmentEntry, Note, added, replaced
from fornix.agents.layers.fragments import FragmentId, MemoryFragment
from fornix.agents.layers.importance import rated
from fornix.agents.layers.layer_results import (
    DiscardedMemoryFragments,
    Dropped,
    Failure,
    InsightMemoryFragment,
)
from fornix.agents.storage import LayerStorage
from fornix.errors import FornixError, InvalidInput
from fornix.sets.admission.verdicts import Outcome
from fornix.sets.writer import PlannedWrite, WriteCall, Writer
from fornix.store import ItemChange, SetRef
from fornix.store.changes import Link
from fornix.store.items import Item
from fornix.values.ids import new_id
from fornix.values.storable import Value

if TYPE_CHECKING:
    from fornix.agents.layers.layer import LayerMemory

R = TypeVar("R")
Insight = InsightMemoryFragment[MemoryFragment]

_LOG = logging.getLogger(__name__)

LONGEST_INSIGHT = 100_000
"""Characters of an insight; a model that says more has not inferred anything."""


class Unanswered(Exception):
    """A plan needs something of a model that it was not asked yet."""


@dataclass(slots=True)
class Departures:
    """What left the layers of a move."""

    fragments: list[MemoryFragment] = field(default_factory=list[MemoryFragment])
    insights: list[Insight] = field(default_factory=list[Insight])
    dropped: list[Dropped] = field(default_factory=list[Dropped])
    failures: list[Failure] = field(default_factory=list[Failure])

    def discarded(self) -> DiscardedMemoryFragments[MemoryFragment]:
        """Return it as callers get it."""
        return DiscardedMemoryFragments(
            self.fragments, self.insights, dropped=self.dropped, failures=self.failures
        )


@dataclass(slots=True, frozen=True)
class FragmentQuestion:
    """What a model is asked about one fragment, or about several taken together."""

    layer: LayerMemory[Any]
    kind: str
    fragments: tuple[MemoryFragment, ...]

    @property
    def name(self) -> tuple[str, int, tuple[FragmentId, ...]]:
        """What tells it from others."""
        return (self.kind, id(self.layer), tuple(f.id for f in self.fragments))


class ModelAnswers:
    """What models answered so far, and what is to be asked next."""

    def __init__(self) -> None:
        self._answers: dict[object, object] = {}
        self.asked: dict[object, FragmentQuestion] = {}

    def answer(self, *questions: FragmentQuestion) -> list[Any]:
        """Return the answers.

        Raises:
            Unanswered: Some are missing; `ask` gets them.
        """
        missing = [q for q in questions if q.name not in self._answers]
        if missing:
            self.asked |= {q.name: q for q in missing}
            raise Unanswered
        return [self._answers[q.name] for q in questions]

    async def ask(self) -> None:
        """Get the answers that are missing, all at once."""
        questions, self.asked = list(self.asked.values()), {}
        found = await asyncio.gather(*(_asked(question) for question in questions))
        self._answers |= {q.name: a for q, a in zip(questions, found, strict=True)}


async def _asked(question: FragmentQuestion) -> object:
    """Return the answer, or a `Failure`."""
    layer, fragments = question.layer, question.fragments
    whole = fragments[0] if len(fragments) == 1 else layer.reduced(fragments)
    try:
        if question.kind == "score":
            scorer = layer.importance_scorer
            return scorer and rated(await awaited(scorer.score_importance(whole, layer.llm_client)))
        extractor = layer.insight_extractor
        answer = extractor and await awaited(extractor.extract_insights(whole, layer.llm_client))
        return _inferred(layer, fragments, answer)
    except Exception as error:  # noqa: BLE001 - the edge to a user's model: told in `failures`
        _LOG.warning("a model failed in a layer: %s: %s", question.kind, type(error).__name__)
        said = str(error) if isinstance(error, FornixError) else repr(error)
        return Failure(fragments[0], f"{question.kind}: {said}")


def _inferred(
    layer: LayerMemory[Any], fragments: tuple[MemoryFragment, ...], answer: object
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
    told = [insight for insight in insights if insight.raw_observation.strip()]
    return InsightMemoryFragment(fragments[0] if len(fragments) == 1 else fragments, told)


async def awaited(answer: Awaitable[R] | R) -> R:
    """Return what a function answered that may be async or not."""
    return await answer if inspect.isawaitable(answer) else cast("R", answer)


class Move:
    """One call's changes of layers, in the making."""

    def __init__(
        self,
        place: LayerStorage,
        writer: Writer,
        known: ModelAnswers,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self.place, self.writer, self.known = place, writer, known
        self.gate = FragmentGate(writer, new_id)
        self.now = place.now()
        self.left = Departures()
        self._buffers: dict[SetRef, tuple[Buffer, str | None]] = {}
        self._notes: dict[tuple[SetRef, str], Note] = {}
        self._fresh: dict[SetRef, tuple[LayerMemory[Any], dict[str, FragmentEntry]]] = {}
        self._replaced: dict[SetRef, dict[str, FragmentEntry]] = {}
        self._more: list[ItemChange] = []
        self._written: dict[tuple[SetRef, str], Note] = {}

    def buffer(self, layer: LayerMemory[Any]) -> Buffer:
        """Return what a layer holds, to be changed."""
        ref = self.place.ref(layer.set_name)
        if ref not in self._buffers:
            note = self.note(layer)
            made = Buffer(self.writer, ref, note, layer.fragment_class)
            self._buffers[ref] = made, layer.session_id
        return self._buffers[ref][0]

    def fresh(self, layer: LayerMemory[Any]) -> dict[str, FragmentEntry]:
        """Return what is added, by id, to a layer that holds too much to be read; add to it."""
        return self._fresh.setdefault(self.place.ref(layer.set_name), (layer, {}))[1]

    def changed(self, layer: LayerMemory[Any]) -> dict[str, FragmentEntry]:
        """Return what is changed, by id, in such a layer; add to it."""
        return self._replaced.setdefault(self.place.ref(layer.set_name), {})

    def note(self, layer: LayerMemory[Any], name: str | None = None) -> Note:
        """Return what is known of a layer besides its fragments, or a *name*d part of that."""
        ref, name = self.place.ref(layer.note_set), name or layer.set_name
        if (ref, name) not in self._notes:
            self._notes[ref, name] = Note.read(self.writer, ref, name)
        return self._notes[ref, name]

    def change(self, changes: Sequence[ItemChange], note: Note | None = None) -> None:
        """Have changes made that are of no buffer, and a note written anew."""
        self._more += changes
        if note is not None:
            self._written[note.ref, note.name] = note

    def is_refused(self, layers: Sequence[LayerMemory[Any]], entry: FragmentEntry) -> bool:
        """Return whether the rules of a layer's set keep an entry out; it is dropped then."""
        for layer in layers:
            ref = self.place.ref(layer.set_name)
            if self._refused(ref, [entry], layer.session_id, NEVER):
                return True
        return False

    def _refused(
        self,
        ref: SetRef,
        entries: Sequence[FragmentEntry],
        session: str | None,
        by: Sequence[Outcome],
    ) -> list[FragmentEntry]:
        gone: list[FragmentEntry] = []
        for entry in entries:

            def item(entry: FragmentEntry = entry) -> Item:
                return entry.item(era=0, now=self.now, session=session)

            reason = self.gate.refusal(ref, entry.id, item, by)
            if reason is not None:
                self.drop(entry.fragment, reason)
                gone.append(entry)
        return gone

    def _unlink(self, gone: Link, entries: Mapping[str, FragmentEntry]) -> None:
        """Have nothing tell of an entry that is not added after all, or be derived from it."""
        self._written = {name: note for name, note in self._written.items() if note.about != gone}
        for entry in entries.values():
            entry.origin = [link for link in entry.origin if link != gone]

    def drop(self, fragment: MemoryFragment, reason: str) -> None:
        """Let go of a fragment for good."""
        self.left.dropped.append(Dropped(fragment, reason))

    def ask(self, layer: LayerMemory[Any], kind: str, groups: Sequence[Sequence[Any]]) -> list[Any]:
        """Return a model's answers about groups of fragments; None where there is none.

        What failed is noted, and is None here.
        """
        questions = [FragmentQuestion(layer, kind, tuple(group)) for group in groups]
        answers = self.known.answer(*questions)
        self.left.failures += [a for a in answers if isinstance(a, Failure)]
        return [None if isinstance(a, Failure) else a for a in answers]

    def change_of_all(self) -> PlannedWrite:
        """Return what is to be committed, sources before what is derived from them.

        What the rules of a set keep out of it is dropped.
        """
        made: list[ItemChange] = []
        for buffer, session in self._buffers.values():
            new = [entry for entry in buffer.entries if entry.stored is None]
            buffer.remove(self._refused(buffer.ref, new, session, ANY))
            made += buffer.changes(now=self.now, session=session)
        for ref, (layer, entries) in self._fresh.items():
            era, session = self.note(layer).era, layer.session_id
            for gone in self._refused(ref, list(entries.values()), session, ANY):
                del entries[gone.id]
                self._unlink(Link(ref, gone.id), entries)
            made += added(
                self.writer, ref, list(entries.values()), era=era, now=self.now, session=session
            )
        for ref, changed in self._replaced.items():
            made += [
                replaced(self.writer, ref, entry) for entry in changed.values() if entry.stored
            ]
        made += self._more
        made += [note.change(self.writer) for note in self._written.values()]
        held, define = self.gate.holding()
        screened = self.gate.screened(made)
        return PlannedWrite([*made, *held], None, define, retry=True, screened=screened)


async def moved(
    place: LayerStorage, turns: Turns, plan: Callable[[Move], R], name: str, *asked: Value
) -> R:
    """Make a plan, commit it, and return what it returned.

    Args:
        name: What was called.
        asked: With what, as it was passed: that tells a batch from another with its key.

    Raises:
        StaleItem: Others changed the layers again and again, for as long as the memory waits.
    """
    known, call = ModelAnswers(), WriteCall(name, lambda: [*asked])
    async with turns:
        while True:
            try:
                return await place.call(lambda writer: _committed(place, writer, plan, known, call))
            except Unanswered:
                await known.ask()


def _committed(
    place: LayerStorage,
    writer: Writer,
    plan: Callable[[Move], R],
    known: ModelAnswers,
    call: WriteCall,
) -> R:
    result: list[R] = []
    place.apart(writer)

    def build(new_id: Callable[[], str]) -> PlannedWrite:
        move = Move(place, writer, known, new_id)
        result[:] = [plan(move)]
        return move.change_of_all()

    writer.write(call, build)
    return result[0]
