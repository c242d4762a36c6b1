"""The write barrier: what a set's rules say of what is to be added, as changes of one commit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias, TypeVar, cast

from alveus.errors import Rejected, SetMoved
from alveus.search.near_duplicates import ItemsByTerm, Probe
from alveus.sets.admission.quarantine import QuarantineDraft
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
from alveus.sets.origins import linked
from alveus.sets.writer import Engine, PlannedWrite, SetReader, SetRules, Writer
from alveus.store import (
    Add,
    AdmissionCheck,
    Define,
    Definition,
    ItemChange,
    ItemRecord,
    Replace,
    Scope,
    SetRef,
    StoredItem,
)
from alveus.store.items import Item
from alveus.store.records import item_of
from alveus.values import words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value

Judged = TypeVar("Judged")

OnRejected: TypeAlias = Literal["error", "skip"]
"""What `add_many` does with an item that is rejected: refuse the call, or leave the item out."""

SHORT = 16
"""Tokens that an item may have beside those of its text: of its date, speaker and captions."""


@dataclass
class Barrier:
    """Checks what one call adds to a set with rules.

    Args:
        rules: Those that the set has.
        replaced_id: The id of an item that is not compared: the checked item replaces it.
    """

    writer: SetReader
    ref: SetRef
    rules: SetRules
    replaced_id: str = ""
    _checked_up_to: int | None = None
    _accepted_terms: ItemsByTerm = field(default_factory=ItemsByTerm)
    _accepted: dict[str, tuple[ItemRecord, Item]] = field(
        default_factory=dict[str, tuple[ItemRecord, Item]]
    )

    def __post_init__(self) -> None:
        """Read the rules."""
        if self.rules.parsed is None:
            self.rules.parsed = tuple(rules_of(self.rules.effective))
        self._rules = cast("tuple[Rule, ...]", self.rules.parsed)
        self._level = min((r.level for r in self._rules if r.level is not None), default=None)

    @property
    def admission_check(self) -> AdmissionCheck:
        """What was checked, for the store to hold against the set as it is by then."""
        return AdmissionCheck(self.ref, self.rules.set_rules, self._checked_up_to)

    def judge(self, items: Sequence[tuple[Item, ItemRecord]]) -> list[Verdict]:
        """Return what the rules say of each item; items accepted count for those after them."""
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
            recent_hits=lambda: self.writer.recent_hits(self.ref.scope),
        )
        verdict = strictest(rule.judge(candidate) for rule in self._rules)
        if verdict.outcome == "accept":
            self._accepted_terms.take(record.id, record.terms, record.tokens)
            self._accepted[record.id] = (record, item)
            return ACCEPT
        return replace(verdict, reason=verdict.reason[:LONGEST_REASON])

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
        return matches

    def _probe(self, record: ItemRecord, threshold: float) -> Probe:
        """Return what finds items that share so much of a record's words, or at 1 say the same.

        An item whose text says it more than twice over, at that, is another one.
        """
        from alveus.text.statements import anchors  # its patterns take a while to compile

        text = record.text or ""
        terms = anchors(text) if threshold == 1 else []
        terms = terms or words.terms(text)
        most = math.ceil(2 * record.tokens / threshold) + SHORT
        return Probe(terms, max(1, math.ceil(threshold * len(terms) - 1e-9)), most)


def _other(stored: StoredItem) -> Other:
    return Other(stored.record, lambda: item_of(stored))


# --- adding -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Adding:
    """A call that adds items to a set with rules.

    Attributes:
        live: By id, what is replaced; what has no such item is added.
        existing: What becomes of what is there already.
    """

    writer: Writer
    ref: SetRef
    rules: SetRules
    pairs: Sequence[tuple[str, Item]]
    live: dict[str, StoredItem]
    existing: Literal["error", "keep", "update"]
    on_rejected: OnRejected
    new_id: Callable[[], str]

    @property
    def keep(self) -> bool:
        """Whether what is there already stays as it is."""
        return self.existing == "keep"

    def change(self, define: Sequence[Define], *, retry: bool) -> PlannedWrite | None:
        """Return the changes of the call, and its result: ids and verdicts.

        None if the rules are others by now. What is accepted by rules that are not the set's any
        more the store refuses; before anything else comes of them, they are looked at again.

        Raises:
            Rejected: An item is rejected, and those are not to be skipped.
        """
        records = self.writer.records(self.pairs)
        to_judge = [
            (item, record)
            for (item_id, item), record in zip(self.pairs, records, strict=True)
            if not (self.keep and item_id in self.live)
        ]
        barrier = Barrier(self.writer, self.ref, self.rules)
        judged = barrier.judge(to_judge)
        if any(v.outcome != "accept" for v in judged) and not self.writer.rules_unchanged(
            self.ref, self.rules
        ):
            return None
        next_verdict = iter(judged)
        changes: list[ItemChange] = []
        ids: list[Value] = []
        verdicts: list[Verdict] = []
        quarantined = QuarantineDraft(self.writer, self.ref, self.new_id)
        for at, ((item_id, item), record) in enumerate(zip(self.pairs, records, strict=True)):
            verdict = ACCEPT if self.keep and item_id in self.live else next(next_verdict)
            if verdict.outcome == "merge" and item_id in self.live:
                verdict = ACCEPT  # it replaces its earlier version
            verdicts.append(verdict)
            match verdict.outcome:
                case "accept":
                    ids.append(item_id)
                    changes.extend(self._changes_of(record, item))
                case "merge":
                    ids.append(verdict.into)
                case "quarantine":
                    ids.append(quarantined.take(record, verdict))
                case "reject":
                    self._refuse(verdict, at)
        self._touch(verdicts)
        checks = [barrier.admission_check] if changes else []
        return PlannedWrite(
            linked(self.writer, self.ref, [*changes, *quarantined.changes]),
            {"ids": ids, "verdicts": [_as_list(v) for v in verdicts]},
            [*(define if changes or quarantined.changes else ()), *quarantined.define],
            retry=retry,
            admission_checks=[*checks, *quarantined.admission_checks],
        )

    def _changes_of(self, record: ItemRecord, item: Item) -> list[ItemChange]:
        stored = self.live.get(record.id)
        if stored is None:
            fresh = item.id is None
            return [Add(self.ref, record, fresh=fresh, existing=self.existing)]
        return [] if self.keep else [Replace(self.ref, stored.version, record, upsert=True)]

    def _refuse(self, verdict: Verdict, at: int) -> None:
        if self.on_rejected == "error":
            raise Rejected(self.ref.name, rule=verdict.rule, reason=verdict.reason, position=at)

    def _touch(self, verdicts: Sequence[Verdict]) -> None:
        """Note that what items were merged into was met again."""
        into = list({v.into: None for v in verdicts if v.into is not None})
        if into:
            targets = self.writer.get(self.ref, into, at=None)
            self.writer.touch([stored for stored in targets if stored is not None])


def _as_list(verdict: Verdict) -> Value:
    return [verdict.outcome, verdict.reason, verdict.rule, verdict.into]


def judge_by_current_rules(
    writer: Writer,
    ref: SetRef,
    definition: Definition | None,
    judge: Callable[[SetRules], Judged | None],
) -> Judged | None:
    """Return what *judge* makes of the rules of a set; None: the set has no rules.

    *judge* returns None where the rules were changed meanwhile; it is then asked again, with the
    new ones.

    Args:
        definition: How the set is to be defined, if nothing was added to it yet.
    """
    while (rules := writer.rules(ref, definition)) is not None:
        judged = judge(rules)
        if judged is not None:
            return judged
    return None


def check_update(
    writer: Writer, ref: SetRef, item: Item, record: ItemRecord, *, replaced_id: str = ""
) -> list[AdmissionCheck]:
    """Check the new version of an item, or what replaces *replaced_id*, by the rules of its set.

    Duplicates are not looked for. Returns the check for the store; none if the set has no rules.

    Raises:
        Rejected: A rule would not have it in the set as it is.
    """

    def judge(rules: SetRules) -> AdmissionCheck | None:
        verdict = Barrier(writer, ref, rules, replaced_id).judge([(item, record)])[0]
        if verdict.outcome not in ("quarantine", "reject"):
            return AdmissionCheck(ref, rules.set_rules)
        if not writer.rules_unchanged(ref, rules):
            return None
        raise Rejected(ref.name, rule=verdict.rule, reason=verdict.reason)

    check = judge_by_current_rules(writer, ref, None, judge)
    return [] if check is None else [check]


class Since(SetReader):
    """Reads that know of no item up to a row, and of no search."""

    def __init__(self, engine: Engine, after_row: int) -> None:
        super().__init__(engine)
        self._after_row = after_row

    def alike(
        self, ref: SetRef, probes: Sequence[Probe]
    ) -> tuple[int | None, list[list[StoredItem]]]:
        """See `Writer.alike`."""
        last_row, found = super().alike(ref, probes)
        return last_row, [[s for s in items if s.row > self._after_row] for items in found]

    def recent_hits(self, scope: Scope) -> list[tuple[Scope, Item]]:
        """See `Writer.recent_hits`."""
        _ = scope
        return []


def recheck_admission(
    engine: Engine, before: AdmissionCheck, added: Sequence[StoredItem]
) -> AdmissionCheck:
    """Return the check of items that are still to be added, as of now.

    Raises:
        SetMoved: What others added meanwhile makes a difference to one of them.
    """
    if before.last_row is None:
        return before
    since = Since(engine, before.last_row)
    barrier = Barrier(since, before.set, SetRules(before.rules, before.rules or ()))
    verdicts = barrier.judge([(item_of(stored), stored.record) for stored in added])
    if any(verdict.outcome != "accept" for verdict in verdicts):
        raise SetMoved(before.set.name)
    last_row = barrier.admission_check.last_row
    return before if last_row is None else replace(before, last_row=last_row)


def combined_check(before: AdmissionCheck | None, now: AdmissionCheck) -> AdmissionCheck:
    """Return the check of two calls to one set: up to the row that both have seen."""
    checks = [check for check in (before, now) if check is not None]
    rows = [check.last_row for check in checks if check.last_row is not None]
    return replace(now, last_row=min(rows, default=None))
