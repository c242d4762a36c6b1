"""The write barrier: the verdicts of a set's rules on new items, and the quarantine.

The quarantine has items that rules keep out of every search until a person or program decides.
They are in a hidden set of the same key or knowledge as their set, so forgetting the key or
knowledge erases them, too.
"""

from __future__ import annotations

import builtins
import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from itertools import chain, count
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from alveus.errors import DuplicateItem, InvalidInput, NotFound, Rejected, SetMoved
from alveus.search.near_duplicates import ItemsByTerm, Probe
from alveus.sets.admission.rules import (
    ACCEPT,
    LONGEST_REASON,
    Candidate,
    Other,
    Rule,
    Verdict,
    plain,
    rules_of,
    strictest,
)
from alveus.sets.origins import known_links
from alveus.sets.writer import Engine, NewId, PlannedWrite, PlannerCall, SetReader, SetRules, Writer
from alveus.store import (
    Add,
    AdmissionCheck,
    Define,
    Definition,
    ItemChange,
    ItemRecord,
    Retire,
    Scope,
    SetRef,
    StoredItem,
)
from alveus.store.items import Item
from alveus.store.records import decoded_metadata, item_of, offset_in, with_offset
from alveus.store.scope import HIDDEN
from alveus.values import wire, words
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name, counted

log = logging.getLogger(__name__)

PREFIX = f"{HIDDEN}quarantine/"

MARK = "alveus:quarantine"
"""The metadata field that records why an item is held, and later its release."""

CAPACITY = 10_000
"""Most items in the quarantine of a set; beyond this number, the oldest are retired."""

DEFINITION = Definition(capacity=CAPACITY)


def quarantine_of(ref: SetRef) -> SetRef:
    """Return the hidden set that holds the quarantined items of *ref*."""
    return SetRef(ref.scope, PREFIX + ref.name)


def held_as(versions: Iterable[StoredItem], ids: Collection[str]) -> builtins.list[str]:
    """Return the quarantine ids of held items whose quarantine id or intended id is in *ids*."""
    every = ((stored.record.id, str(_quarantined(stored).item.id)) for stored in versions)
    return list({held: None for held, meant in every if held in ids or meant in ids})


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A quarantined item.

    Attributes:
        id: The id of the item in the quarantine.
        item: The item as passed, with the id that it is to have in its set.
        set_name: The name of the set to which it was added.
        rule: The name of the rule that held the item.
        reason: The reason that the rule gave.
        since: The time of the add.
    """

    id: str
    item: Item
    set_name: str
    rule: str
    reason: str
    since: datetime


@dataclass
class QuarantineDraft:
    """The items that one call puts into the quarantine of a set."""

    writer: Writer
    ref: SetRef
    new_id: Callable[[], str]
    changes: list[ItemChange] = field(default_factory=list[ItemChange])
    define: list[Define] = field(default_factory=list[Define])
    admission_checks: list[AdmissionCheck] = field(default_factory=list[AdmissionCheck])
    _ids: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, record: ItemRecord, verdict: Verdict) -> str:
        """Hold an item; return its quarantine id, or the id of a held item with the same text."""
        hidden = quarantine_of(self.ref)
        text = plain(record.text or "")
        earlier_id = self._there(hidden, record, text)
        if earlier_id is not None:
            return earlier_id
        free = self.writer.get(hidden, [record.id], at=None)[0] is None
        item_id = record.id if free and record.id not in self._ids.values() else self.new_id()
        mark: Value = {"rule": verdict.rule, "reason": verdict.reason, "id": record.id}
        noted = wire.encode({**decoded_metadata(record.metadata), MARK: mark})
        metadata = with_offset(noted, offset_in(record.metadata))
        stored = replace(record, id=item_id, metadata=metadata, vectors=b"")
        if not self.define and self.writer.info(hidden) is None:
            self.define.append(Define(hidden, DEFINITION))
        self.changes.append(Add(hidden, stored))
        self._ids[text] = item_id
        log.info(
            "an item was quarantined",
            extra={"set": self.ref.name, "rule": verdict.rule, "reason": verdict.reason},
        )
        return item_id

    def _there(self, hidden: SetRef, record: ItemRecord, text: str) -> str | None:
        """Return the quarantine id of a held item with the same text and value, or None."""
        if text in self._ids:
            return self._ids[text]
        terms = words.terms(record.text or "")
        probe = Probe(terms, max(1, len(terms)), 2 * record.tokens + 16)
        last_row, matches = self.writer.alike(hidden, [probe])
        if not self.admission_checks:
            self.admission_checks.append(AdmissionCheck(hidden, None, last_row))
        for stored in matches[0]:
            if plain(stored.record.text or "") == text and stored.record.value == record.value:
                return stored.record.id
        return None


@suggest_names_in
class Quarantine:
    """The quarantined items of one set, or of all sets of a key or knowledge."""

    def __init__(self, writer: Writer, scope: Scope, name: str | None = None) -> None:
        self._writer, self._scope, self._name = writer, scope, name

    def __repr__(self) -> str:
        owner = (
            f"key {self._scope.key!r}" if self._scope.key else f"knowledge {self._scope.space!r}"
        )
        return f"<quarantine of {'' if self._name is None else f'set {self._name!r} of '}{owner}>"

    def __len__(self) -> int:
        return sum(self._writer.count(ref) for ref in self._refs())

    def list(self, *, limit: int | None = None) -> builtins.list[Quarantined]:
        """Return the held items, or the first *limit* of them, in order of set and time."""
        if limit is not None:
            counted(limit, "limit", least=0)
        items = chain.from_iterable(map(self._writer.walk, self._refs()))
        numbers = count() if limit is None else range(limit)
        return [_quarantined(stored) for _, stored in zip(numbers, items, strict=False)]

    def get(self, id: str) -> Quarantined | None:
        """Return the held item with a quarantine id, or None if there is none."""
        found = self._find(id)
        return None if found is None else _quarantined(found)

    def release(self, id: str, *, by: str | None = None, idempotency_key: str | None = None) -> str:
        """Move a held item into its set, in one commit; return its id in the set.

        No rule checks the item again. Its metadata field "alveus:quarantine" records the release,
        with the name *by* if it is given. With an *idempotency_key* a second call changes nothing
        and returns the result of the first call.

        Raises:
            NotFound: No held item has this id.
            DuplicateItem: The set has another item with the intended id by now.
            SetFull, KeyFull: A limit was reached.
        """
        checked_name(id, "an item's id")
        if by is not None:
            checked_name(by, "who releases")

        call = PlannerCall("release", [self._name, id, by], partial(self._planned_release, id, by))
        return str(self._writer.write(call, idempotency_key=idempotency_key))

    def discard(self, id: str, *, idempotency_key: str | None = None) -> None:
        """Retire a held item. Only the history keeps the item, until it is forgotten.

        With an *idempotency_key* a second call changes nothing.

        Raises:
            NotFound: No held item has this id.
        """
        checked_name(id, "an item's id")
        call = PlannerCall("discard", [self._name, id], partial(self._planned_discard, id))
        self._writer.write(call, idempotency_key=idempotency_key)

    def _planned_discard(self, item_id: str, _new_id: NewId) -> PlannedWrite:
        stored = self._must(item_id)
        return PlannedWrite([Retire(stored.set, item_id, stored.version)], None, retry=True)

    def _planned_release(self, item_id: str, by: str | None, _new_id: NewId) -> PlannedWrite:
        stored = self._must(item_id)
        held = _quarantined(stored)
        ref = SetRef(self._scope, held.set_name)
        mark: dict[str, Value] = {
            "rule": held.rule,
            "reason": held.reason,
            "released": True,
            **({} if by is None else {"by": by}),
        }
        item = replace(held.item, metadata={**held.item.metadata, MARK: mark})
        target = str(item.id)
        if self._writer.get(ref, [target], at=None)[0] is not None:
            self._must(item_id)  # raises if another call released the item just now
            raise DuplicateItem(target, set_name=held.set_name)
        record = self._writer.records([(target, item)])[0]
        links = known_links(self._writer, ref, record)
        return PlannedWrite(
            [Retire(stored.set, item_id, stored.version), Add(ref, record, links=links)],
            target,
            retry=True,
            admission_checks=self._writer.rules_check(ref),
        )

    def _refs(self) -> builtins.list[SetRef]:
        if self._name is not None:
            return [quarantine_of(SetRef(self._scope, self._name))]
        names = self._writer.hidden(self._scope)
        return [SetRef(self._scope, name) for name in names if name.startswith(PREFIX)]

    def _find(self, item_id: str) -> StoredItem | None:
        checked_name(item_id, "an item's id")
        every = (self._writer.get(ref, [item_id], at=None)[0] for ref in self._refs())
        found = [stored for stored in every if stored is not None]
        if len(found) > 1:
            names = ", ".join(repr(stored.set.name.removeprefix(PREFIX)) for stored in found)
            raise InvalidInput(
                f"the sets {names} all hold an item {item_id!r}; pass the name of one set"
            )
        return found[0] if found else None

    def _must(self, item_id: str) -> StoredItem:
        found = self._find(item_id)
        if found is None:
            raise NotFound(f"quarantine has no item {item_id!r}; list() shows the items in it")
        return found


def _quarantined(stored: StoredItem) -> Quarantined:
    item = item_of(stored)
    metadata = dict(item.metadata)
    mark = cast("dict[str, Any]", metadata.pop(MARK, {}))
    name = stored.set.name.removeprefix(PREFIX)
    since = item.created
    assert since is not None  # noqa: S101 - a stored item is complete
    original = replace(item, id=mark.get("id", item.id), metadata=metadata, set_name=name)
    return Quarantined(
        stored.record.id, original, name, mark.get("rule", ""), mark.get("reason", ""), since
    )


# --- verdicts ---------------------------------------------------------------------------------


OnRejected: TypeAlias = Literal["error", "skip"]
"""The action of `add_many` for a rejected item: refuse the call, or leave the item out."""

SHORT = 16
"""Tokens that an item may have besides its text: for its date, speaker and captions."""


@dataclass
class Barrier:
    """Checks the items that one call adds to a set with rules.

    Args:
        rules: The rules of the set.
        replaced_id: The id of the item that the checked item replaces; the two are not compared.
        after_row: If given, compare the items only with items after this row, and not with recent
            hits. By default compare them with all items and recent hits.
    """

    writer: SetReader
    ref: SetRef
    rules: SetRules
    replaced_id: str = ""
    after_row: int | None = None
    _checked_up_to: int | None = None
    _accepted_terms: ItemsByTerm = field(default_factory=ItemsByTerm)
    _accepted: dict[str, tuple[ItemRecord, Item]] = field(
        default_factory=dict[str, tuple[ItemRecord, Item]]
    )

    def __post_init__(self) -> None:
        """Parse the rules."""
        if self.rules.parsed is None:
            self.rules.parsed = tuple(rules_of(self.rules.effective))
        self._rules = cast("tuple[Rule, ...]", self.rules.parsed)
        self._level = min((r.level for r in self._rules if r.level is not None), default=None)

    @property
    def admission_check(self) -> AdmissionCheck:
        """The check for the store to compare with the set at commit time."""
        return AdmissionCheck(self.ref, self.rules.set_rules, self._checked_up_to)

    def judge(self, items: Sequence[tuple[Item, ItemRecord]]) -> list[Verdict]:
        """Return the verdict on each item. An item is also compared with earlier accepted items."""
        near = self._find_alike([record for _, record in items], self._level)
        return [
            self._judge(item, record, others)
            for (item, record), others in zip(items, near, strict=True)
        ]

    def _judge(self, item: Item, record: ItemRecord, others: Sequence[StoredItem]) -> Verdict:
        def find(threshold: float) -> Sequence[Other]:
            similar = others
            if self._level is None or threshold < self._level or threshold == 1 > self._level:
                similar = self._find_alike([record], threshold)[0]
            found = [_other(stored) for stored in similar]
            if self._accepted:
                found += map(
                    self._accepted_item, self._accepted_terms.find(self._probe(record, threshold))
                )
            return [
                other for other in found if other.record.id not in (record.id, self.replaced_id)
            ]

        candidate = Candidate(
            record=record,
            passed=item,
            scope=self.ref.scope,
            set_name=self.ref.name,
            now=self.writer.now(),
            find=find,
            recent_hits=self._recent_hits,
        )
        verdict = strictest(rule.judge(candidate) for rule in self._rules)
        if verdict.outcome == "accept":
            self._accepted_terms.take(record.id, record.terms, record.tokens)
            self._accepted[record.id] = (record, item)
            return ACCEPT
        return replace(verdict, reason=verdict.reason[:LONGEST_REASON])

    def _recent_hits(self) -> Sequence[tuple[Scope, Item]]:
        return self.writer.recent_hits(self.ref.scope) if self.after_row is None else ()

    def _accepted_item(self, item_id: str) -> Other:
        record, item = self._accepted[item_id]
        return Other(record, lambda: replace(item, id=item_id))

    def _find_alike(
        self, records: Sequence[ItemRecord], threshold: float | None
    ) -> Sequence[Sequence[StoredItem]]:
        if threshold is None:
            return [() for _ in records]
        probes = [self._probe(record, threshold) for record in records]
        last_row, matches = self.writer.alike(self.ref, probes)
        rows = [row for row in (last_row, self._checked_up_to) if row is not None]
        self._checked_up_to = min(rows, default=None)
        if (after := self.after_row) is None:
            return matches
        return [[stored for stored in items if stored.row > after] for items in matches]

    def _probe(self, record: ItemRecord, threshold: float) -> Probe:
        """Return a probe for items that have at least the share *threshold* of a record's words.

        An item does not match if it has more than ``2 / threshold`` times the record's tokens, plus
        `SHORT`. With a threshold of 1, the probe is for items that say the same.
        """
        from alveus.text.statements import anchors  # its patterns take a while to compile

        text = record.text or ""
        terms = anchors(text) if threshold == 1 else []
        terms = terms or words.terms(text)
        most = math.ceil(2 * record.tokens / threshold) + SHORT
        return Probe(terms, max(1, math.ceil(threshold * len(terms) - 1e-9)), most)


def _other(stored: StoredItem) -> Other:
    return Other(stored.record, lambda: item_of(stored))


class Judgement(NamedTuple):
    """The verdicts of a set's rules on new items.

    Attributes:
        checks: The check for the store to compare with the set at commit time; empty if the set
            has no rules.
    """

    verdicts: Sequence[Verdict]
    checks: Sequence[AdmissionCheck]


def judged(
    writer: Writer,
    ref: SetRef,
    items: Sequence[tuple[Item, ItemRecord]],
    definition: Definition | None = None,
    *,
    replaced_id: str = "",
) -> Judgement:
    """Return the verdicts of a set's current rules on new items. A set without rules accepts all.

    If the rules have changed, the store refuses items that the outdated rules accepted. For any
    other verdict, the rules are read again here, and if they have changed, the items are judged
    anew.

    Args:
        definition: The definition with which the set is about to be created, if any.
        replaced_id: The id of the item that a checked item replaces; the two are not compared.
    """
    while (rules := writer.rules(ref, definition)) is not None:
        barrier = Barrier(writer, ref, rules, replaced_id)
        verdicts = barrier.judge(items)
        accepted = all(verdict.outcome == "accept" for verdict in verdicts)
        if accepted or writer.rules_unchanged(ref, rules):
            return Judgement(verdicts, [barrier.admission_check])
    return Judgement([ACCEPT] * len(items), [])


def check_update(
    writer: Writer, ref: SetRef, item: Item, record: ItemRecord, *, replaced_id: str = ""
) -> list[AdmissionCheck]:
    """Check a new version of an item, or the replacement of *replaced_id*, by the set's rules.

    Rules for duplicates do not apply. Return the check for the store to make at commit time, in a
    list; the list is empty if the set has no rules.

    Raises:
        Rejected: A rule rejects the new version.
    """
    (verdict,), checks = judged(writer, ref, [(item, record)], replaced_id=replaced_id)
    if verdict.outcome in ("quarantine", "reject"):
        raise Rejected(ref.name, rule=verdict.rule, reason=verdict.reason)
    return [replace(check, last_row=None) for check in checks]


def recheck_admission(
    engine: Engine, before: AdmissionCheck, added: Sequence[StoredItem]
) -> AdmissionCheck:
    """Judge uncommitted items again, and return the check for the store to make at commit time.

    Args:
        before: The check from the last judgement of the items.
        added: The uncommitted items, which that judgement accepted.

    Raises:
        SetMoved: An item that others added meanwhile changes a verdict.
    """
    if before.last_row is None:
        return before
    rules = SetRules(before.rules, before.rules or ())
    barrier = Barrier(SetReader(engine), before.set, rules, after_row=before.last_row)
    verdicts = barrier.judge([(item_of(stored), stored.record) for stored in added])
    if any(verdict.outcome != "accept" for verdict in verdicts):
        raise SetMoved(before.set.name)
    last_row = barrier.admission_check.last_row
    return before if last_row is None else replace(before, last_row=last_row)


def combined_check(before: AdmissionCheck | None, now: AdmissionCheck) -> AdmissionCheck:
    """Return one check for two calls to the same set. It has the lower of their two rows."""
    checks = [check for check in (before, now) if check is not None]
    rows = [check.last_row for check in checks if check.last_row is not None]
    return replace(now, last_row=min(rows, default=None))
