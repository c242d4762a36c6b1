"""The write barrier: the verdicts of a set's rules on new items, as changes of one commit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal, NamedTuple, TypeAlias, cast

from alveus.errors import Rejected, SetMoved
from alveus.search.near_duplicates import ItemsByTerm, Probe
from alveus.sets.admission.rules import rules_of
from alveus.sets.admission.verdicts import (
    ACCEPT,
    LONGEST_REASON,
    Candidate,
    Other,
    Rule,
    Verdict,
    strictest,
)
from alveus.sets.writer import Engine, SetReader, SetRules, Writer
from alveus.store import AdmissionCheck, Definition, ItemRecord, Scope, SetRef, StoredItem
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.values import words
from alveus.values.lazy_dataclass import dataclass

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
        after_row: Compare with items after this row only, and with no recent hits. None means with
            all.
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
        """Return the verdict on each item; later items are compared with earlier accepted ones."""
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
        """Return a probe for items that share *threshold* of a record's words; 1 means equal items.

        An item does not match if it has more than ``2 / threshold`` times the record's tokens.
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
    """Return the verdicts of a set's current rules on new items; all pass a set without rules.

    The store refuses items that outdated rules accepted; all other verdicts need a second look at
    the rules here.

    Args:
        definition: The definition of a set without items.
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

    Rules for duplicates do not apply. Return the check for the store; none if the set has no rules.

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
    """Return a new check of items that are not committed yet.

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
    """Return the check of two calls to one set: up to the lower of their rows."""
    checks = [check for check in (before, now) if check is not None]
    rows = [check.last_row for check in checks if check.last_row is not None]
    return replace(now, last_row=min(rows, default=None))
