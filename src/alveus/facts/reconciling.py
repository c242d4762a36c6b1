"""Reconciles new facts with known facts, as the changes of one commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any

from alveus.facts.answers import (
    CandidateFact,
    CheckedDecision,
    candidate_id,
    end_of,
    folded,
    time_of,
)
from alveus.facts.fact import TIMELESS, Quotation
from alveus.facts.learning_records import LearningChanges
from alveus.sets.admission.barrier import QuarantineDraft, judged
from alveus.sets.admission.rules import Verdict
from alveus.sets.writer import Writer
from alveus.store import (
    Add,
    AdmissionCheck,
    Define,
    ItemChange,
    Link,
    Replace,
    Retire,
    SetRef,
    StoredItem,
)
from alveus.store.items import Item
from alveus.store.records import item_of, said_at
from alveus.values.ids import new_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.times import offset_name, offset_of

CURRENT, REPLACED = "current", "replaced"
"""Values of the metadata field "state"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """The result of one learning, which is one commit; see `LearnReport` for the fields."""

    changes: LearningChanges
    confirmed: tuple[str, ...]
    superseded: tuple[str, ...]
    contradicted: tuple[str, ...]
    refused: Mapping[str, int]
    messages: int


@dataclass(slots=True)
class _KnownFact:
    """A known or new fact, with its planned changes.

    Attributes:
        stored: The stored item, or None if the fact is new.
        is_taken_back: True if the plan retires a known fact, or leaves out a new one.
    """

    stored: StoredItem | None
    item: Item
    links: list[Link] = field(default_factory=list[Link])
    is_taken_back: bool = False

    @property
    def notes(self) -> Mapping[str, Any]:
        """The metadata of the fact."""
        return self.item.metadata

    @property
    def is_changed(self) -> bool:
        """Whether the plan changes the fact."""
        return self.is_taken_back or self.stored is None or self.item != item_of(self.stored)

    def note(self, **notes: object) -> None:
        """Change metadata of the fact."""
        self.item = replace(self.item, metadata={**self.item.metadata, **notes})

    def append(self, name: str, item_id: str) -> None:
        """Add an id to a list in the metadata."""
        self.note(**{name: [*self.notes[name], item_id]})


class FactChanges:
    """The changes of one batch of messages to the facts of a key, planned for the current set.

    Args:
        messages: The messages in which the candidates were found.
        found_by: The name of the model, and the version of its prompt.
        refused: The number of candidates that were refused before, by reason.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        facts: SetRef,
        conversation: SetRef,
        messages: Sequence[StoredItem],
        found_by: tuple[str, str],
        refused: Mapping[str, int],
    ) -> None:
        self._writer, self._facts, self._conversation = writer, facts, conversation
        self._messages, (self._model, self._prompt) = messages, found_by
        self.id = new_id()
        self.refused = Counter(refused)
        self.items: list[ItemChange] = []
        self.define: list[Define] = []
        self.admission_checks: list[AdmissionCheck] = []
        self._known: dict[str, _KnownFact] = {}
        self._added: list[_KnownFact] = []
        self._gone: set[str] = set()
        self._held = QuarantineDraft(writer, facts, new_id)
        self._groups: dict[str, list[str]] = {"same": [], "replaces": [], "contradicts": []}

    def take(self, decided: Sequence[tuple[CandidateFact, CheckedDecision]]) -> None:
        """Plan the changes for candidates and the decisions about them, in the given order."""
        ids = {decision.fact for _, decision in decided if decision.fact is not None}
        found = self._writer.get(self._facts, sorted(ids), at=None) if ids else []
        self._known = {s.record.id: _KnownFact(s, item_of(s)) for s in found if s is not None}
        made = self._made_and_judged(decided)
        for number, (candidate, decision) in enumerate(decided, start=1):
            name, known = candidate_id(number), self._known.get(decision.fact or "")
            if decision.refused:
                self.refused[decision.refused] += 1
                continue
            if decision.fact in self._gone or (known and known.is_taken_back):
                known = None
            if decision.decision == "same" and known is not None:
                self._known[name] = self._confirm(known, candidate)
            elif decision.decision == "takes_back":
                self._take_back(known, name)
            elif (new := made.get(number)) is not None:
                self._known[name] = new
                self._added.append(new)
                self._relate(new, known, decision.decision, candidate)
        self.items += self._edits()
        self.define += self._held.define
        self.admission_checks += self._held.admission_checks

    def _relate(
        self, new: _KnownFact, known: _KnownFact | None, decision: str, candidate: CandidateFact
    ) -> None:
        """Let a new fact replace or contradict a known fact, as *decision* says."""
        if known is None:
            return
        if decision == "replaces":
            self._supersede(known, new, self._since(candidate))
        elif decision == "contradicts":
            known.append("contradicts", str(new.item.id))
            new.append("contradicts", str(known.item.id))
            self._note("contradicts", known)

    def learnt(self) -> Learnt:
        """Return the result of the plan, for the record of the learning and for the report."""
        edits = [
            (one.stored, one.is_taken_back)
            for one in self._unique()
            if one.stored is not None and one.is_changed
        ]
        changed = {s.record.id: (s.row, s.version + 1) for s, is_gone in edits if not is_gone}
        taken = {s.record.id: s.row for s, is_gone in edits if is_gone}
        added = [str(one.item.id) for one in self._added if not one.is_taken_back]
        return Learnt(
            changes=LearningChanges(self.id, tuple(added), changed, taken),
            confirmed=tuple(dict.fromkeys(self._groups["same"])),
            superseded=tuple(dict.fromkeys(self._groups["replaces"])),
            contradicted=tuple(dict.fromkeys(self._groups["contradicts"])),
            refused=dict(self.refused),
            messages=len(self._messages),
        )

    def _unique(self) -> list[_KnownFact]:
        """Return all facts of the plan, each once."""
        return list({str(one.item.id): one for one in self._known.values()}.values())

    def _note(self, group: str, known: _KnownFact) -> None:
        """Add a known fact to a group of the report; a new fact is ignored."""
        if known.stored is not None:
            self._groups[group].append(str(known.item.id))

    # --- known facts ----------------------------------------------------------------------------

    def _confirm(self, known: _KnownFact, candidate: CandidateFact) -> _KnownFact:
        """Add the sources of a candidate that says the same to a known fact; return this fact."""
        new = self._evidence(candidate, known)
        if not new:
            self.refused["known from the same messages"] += 1
            return known
        quotations = [*known.notes["quotations"], *(one.to_json() for one in new)]
        known.note(quotations=quotations, confirmed=known.notes["confirmed"] + 1)
        sources = dict.fromkeys((*known.item.sources, *(one.source for one in new)))
        known.item = replace(known.item, sources=tuple(sources))
        known.links += self._links(new)
        self._note("same", known)
        return known

    def _take_back(self, known: _KnownFact | None, name: str) -> None:
        if known is None:
            self.refused["takes back a fact that is gone"] += 1
            return
        known.is_taken_back = True
        self._gone.add(name)

    def _evidence(self, candidate: CandidateFact, known: _KnownFact) -> list[Quotation]:
        """Return quotations of a candidate from messages that are not yet sources of *known*."""
        if known.notes["conversation"] != self._conversation.name:
            return candidate.quotations(self._messages)
        before = set(known.item.sources)
        return [one for one in candidate.quotations(self._messages) if one.source not in before]

    def _supersede(self, known: _KnownFact, new: _KnownFact, since: datetime) -> None:
        """End a known fact at the time *since*, from which the new fact is valid.

        In two cases the known fact does not change. If the new fact ended before *since* by its
        dates, both stay as they are. If the known fact began after *since*, the new fact ends when
        the known fact begins, or before.
        """
        begins, ends, until = known.item.valid_from, known.item.valid_to, new.item.valid_to
        if until is not None and until <= since:
            return
        if begins is not None and since < begins:
            new.item = replace(new.item, valid_to=begins if until is None else min(begins, until))
            return
        ended = since if ends is None or since < ends else ends
        known.item = replace(known.item, valid_to=ended)
        known.note(state=REPLACED)
        known.append("replaced_by", str(new.item.id))
        self._note("replaces", known)
        new.item = replace(new.item, valid_from=since)
        new.append("replaces", str(known.item.id))

    def _edits(self) -> Iterator[ItemChange]:
        """Yield the item changes that carry out the plan for known and new facts."""
        for one in self._unique():
            if not one.is_changed or (one.is_taken_back and one.stored is None):
                continue
            if one.is_taken_back and one.stored is not None:
                yield Retire(self._facts, one.stored.record.id, one.stored.version)
                continue
            record = self._writer.records([(str(one.item.id), one.item)])[0]
            if one.stored is None:
                yield Add(self._facts, record, fresh=True, links=one.links)
            else:
                yield Replace(self._facts, one.stored.version, record, links=one.links)

    # --- new facts ------------------------------------------------------------------------------

    def _made_and_judged(
        self, decided: Sequence[tuple[CandidateFact, CheckedDecision]]
    ) -> dict[int, _KnownFact]:
        """Return the new facts that the rules accept, each under the number of its candidate."""
        new = {
            number: self._made(candidate)
            for number, (candidate, decision) in enumerate(decided, start=1)
            if not decision.refused and decision.decision not in ("same", "takes_back")
        }
        if self._writer.rules(self._facts, None) is None:
            return new
        items = [one.item for one in new.values()]
        records = self._writer.records([(str(item.id), item) for item in items])
        pairs = list(zip(items, records, strict=True))
        judgement = judged(self._writer, self._facts, pairs)
        self.admission_checks += judgement.checks
        for (number, one), verdict in zip(list(new.items()), judgement.verdicts, strict=True):
            if verdict.outcome != "accept":
                self._keep_out(decided[number - 1][0], one, verdict)
                del new[number]
        return new

    def _made(self, candidate: CandidateFact) -> _KnownFact:
        """Return the new fact that a candidate describes."""
        quotations = candidate.quotations(self._messages)
        last = self._said(candidate)
        begins, ends = _times(candidate, last)
        holds = candidate.kind not in TIMELESS
        item = Item(
            candidate.text,
            id=new_id(),
            metadata={
                "subject": candidate.subject,
                "subject_key": folded(candidate.subject),
                "kind": candidate.kind,
                "entities": [*candidate.entities],
                "confidence": candidate.confidence,
                "quotations": [one.to_json() for one in quotations],
                "conversation": self._conversation.name,
                "when": [None, None] if holds else [candidate.begins, candidate.ends],
                "zone": offset_name(offset_of(last)),
                "state": CURRENT,
                "confirmed": 0,
                "replaces": [],
                "replaced_by": [],
                "contradicts": [],
                "learning": self.id,
                "model": self._model,
                "prompt": self._prompt,
            },
            session=f"{self._conversation.name} {last:%Y-%m-%d}",  # search groups by session
            time=last,
            valid_from=begins if holds else None,
            valid_to=ends if holds else None,
            sources=tuple(dict.fromkeys(one.source for one in quotations)),
        )
        return _KnownFact(None, item, self._links(quotations))

    def _said(self, candidate: CandidateFact) -> datetime:
        return max(said_at(self._messages[one.message]) for one in candidate.evidence)

    def _since(self, candidate: CandidateFact) -> datetime:
        said = self._said(candidate)
        begins = None if candidate.kind in TIMELESS else _times(candidate, said)[0]
        return said if begins is None else begins

    def _links(self, quotations: Sequence[Quotation]) -> list[Link]:
        ids = dict.fromkeys(one.source for one in quotations)
        return [Link(self._conversation, item_id) for item_id in ids]

    def _keep_out(self, candidate: CandidateFact, new: _KnownFact, verdict: Verdict) -> None:
        """Apply the verdict of a rule that does not accept a new fact.

        The fact is rejected or quarantined; for "merge", a known fact is confirmed instead.
        """
        if verdict.outcome == "merge":
            if (known := self._known_fact(verdict.into or "")) is not None:
                self._confirm(known, candidate)
            else:
                self.refused["said twice in one answer"] += 1
            return
        self.refused[f"rule {verdict.rule}: {verdict.outcome}"] += 1
        if verdict.outcome == "quarantine":
            self._held.take(self._writer.records([(str(new.item.id), new.item)])[0], verdict)
            self.items += [
                replace(change, links=new.links) if isinstance(change, Add) else change
                for change in self._held.changes
            ]
            self._held.changes.clear()

    def _known_fact(self, item_id: str) -> _KnownFact | None:
        """Return the fact with an id, or None if it does not exist or was not learned."""
        if item_id not in self._known:
            stored = self._writer.get(self._facts, [item_id], at=None)[0]
            if stored is None or "learning" not in (item := item_of(stored)).metadata:
                return None
            self._known[item_id] = _KnownFact(stored, item)
        return self._known[item_id]


def _times(candidate: CandidateFact, said: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the start and the end of a candidate's dates, read in the time zone of *said*."""
    zone = said.tzinfo or UTC
    begins = None if candidate.begins is None else time_of(candidate.begins, zone)
    ends = None if candidate.ends is None else end_of(candidate.ends, zone)
    return begins, ends
