"""The write barrier: what a set's rules say of what is to be added, as changes of one commit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias, cast

from fornix.errors import InvalidInput, Rejected, SetMoved
from fornix.search.near_duplicates import ItemsByTerm, Probe
from fornix.sets.admission.quarantine import QuarantineDraft
from fornix.sets.admission.rules import rules_of
from fornix.sets.admission.verdicts import (
    ACCEPT,
    LONGEST_REASON,
    Added,
    Candidate,
    Other,
    Outcome,
    Rule,
    Verdict,
    strictest,
)
from fornix.sets.origins import linked
from fornix.sets.writer import Engine, PlannedWrite, SetReader, SetRules, Writer
from fornix.store import (
    Add,
    AdmissionCheck,
    Define,
    ItemChange,
    ItemRecord,
    Replace,
    Scope,
    SetRef,
    StoredItem,
)
from fornix.store.items import Item
from fornix.store.records import item_of
from fornix.values import words
from fornix.values.lazy_dataclass import dataclass
from fornix.values.storable import Value

OnRejected: TypeAlias = Literal["error", "skip"]
"""What `add_many` does with an item that is rejected: refuse the call, or leave the item out."""

SHORT = 16
"""Tokens that an item may have beside those of its text: of its date, speaker and captions."""


@dataclass
class Barrier:
    """Checks what one call adds to a set with rules.

    Args:
        ruled: The rules, as they are kept.
        beside: The id of an item that is not compared: what is checked takes its place.
    """

    writer: SetReader
    ref: SetRef
    ruled: SetRules
    beside: str = ""
    _past: int | None = None
    _crowd: ItemsByTerm = field(default_factory=ItemsByTerm)
    _mine: dict[str, tuple[ItemRecord, Item]] = field(
        default_factory=dict[str, tuple[ItemRecord, Item]]
    )

    def __post_init__(self) -> None:
        """Read the rules."""
        if self.ruled.parsed is None:
            self.ruled.parsed = tuple(rules_of(self.ruled.rules))
        self._rules = cast("tuple[Rule, ...]", self.ruled.parsed)
        self._level = min((r.level for r in self._rules if r.level is not None), default=None)

    @property
    def screened(self) -> AdmissionCheck:
        """What was checked, for the store to hold against the set as it is by then."""
        return AdmissionCheck(self.ref, self.ruled.set_rules, self._past)

    def judge(self, items: Sequence[tuple[Item, ItemRecord]]) -> list[Verdict]:
        """Return what the rules say of each item; items accepted count for those after them."""
        near = self._look([record for _, record in items], self._level)
        return [
            self._judge(item, record, others)
            for (item, record), others in zip(items, near, strict=True)
        ]

    def _judge(self, item: Item, record: ItemRecord, others: Sequence[StoredItem]) -> Verdict:
        def find(threshold: float) -> Sequence[Other]:
            near = others
            if self._level is None or threshold < self._level or threshold == 1 > self._level:
                near = self._look([record], threshold)[0]
            found = [_other(stored) for stored in near]
            if self._mine:
                found += map(self._own, self._crowd.find(self._probe(record, threshold)))
            return [other for other in found if other.record.id not in (record.id, self.beside)]

        candidate = Candidate(
            record=record,
            passed=item,
            scope=self.ref.scope,
            set_name=self.ref.name,
            now=self.writer.now(),
            find=find,
            heard=lambda: self.writer.recent_hits(self.ref.scope),
        )
        verdict = strictest(rule.judge(candidate) for rule in self._rules)
        if verdict.outcome == "accept":
            self._crowd.take(record.id, record.terms, record.tokens)
            self._mine[record.id] = (record, item)
            return ACCEPT
        return replace(verdict, reason=verdict.reason[:LONGEST_REASON])

    def _own(self, item_id: str) -> Other:
        record, item = self._mine[item_id]
        return Other(record, lambda: replace(item, id=item_id))

    def _look(
        self, records: Sequence[ItemRecord], threshold: float | None
    ) -> Sequence[Sequence[StoredItem]]:
        if threshold is None:
            return [() for _ in records]
        probes = [self._probe(record, threshold) for record in records]
        past, found = self.writer.alike(self.ref, probes)
        known = [row for row in (past, self._past) if row is not None]
        self._past = min(known, default=None)
        return found

    def _probe(self, record: ItemRecord, threshold: float) -> Probe:
        """Return what finds items that share so much of a record's words, or at 1 say the same.

        An item whose text says it more than twice over, at that, is another one.
        """
        from fornix.text.statements import anchors  # its patterns take a while to compile

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
    ruled: SetRules
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
        asked = [
            (item, record)
            for (item_id, item), record in zip(self.pairs, records, strict=True)
            if not (self.keep and item_id in self.live)
        ]
        barrier = Barrier(self.writer, self.ref, self.ruled)
        judged = barrier.judge(asked)
        if any(v.outcome != "accept" for v in judged) and not self.writer.still(
            self.ref, self.ruled
        ):
            return None
        said = iter(judged)
        changes: list[ItemChange] = []
        ids: list[Value] = []
        verdicts: list[Verdict] = []
        held = QuarantineDraft(self.writer, self.ref, self.new_id)
        for at, ((item_id, item), record) in enumerate(zip(self.pairs, records, strict=True)):
            verdict = ACCEPT if self.keep and item_id in self.live else next(said)
            if verdict.outcome == "merge" and item_id in self.live:
                verdict = ACCEPT  # it takes the place of its own earlier version
            verdicts.append(verdict)
            match verdict.outcome:
                case "accept":
                    ids.append(item_id)
                    changes.extend(self._kept(record, item))
                case "merge":
                    ids.append(verdict.into)
                case "quarantine":
                    ids.append(held.take(record, verdict))
                case "reject":
                    self._refuse(verdict, at)
        self._touch(verdicts)
        own = [barrier.screened] if changes else []
        return PlannedWrite(
            linked(self.writer, self.ref, [*changes, *held.changes]),
            {"ids": ids, "verdicts": [_as_list(v) for v in verdicts]},
            [*(define if changes or held.changes else ()), *held.define],
            retry=retry,
            screened=[*own, *held.screened],
        )

    def _kept(self, record: ItemRecord, item: Item) -> list[ItemChange]:
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
            found = self.writer.get(self.ref, into, at=None)
            self.writer.touch([stored for stored in found if stored is not None])


_Kept: TypeAlias = tuple[Outcome, str, str, str | None]


def _as_list(verdict: Verdict) -> Value:
    return [verdict.outcome, verdict.reason, verdict.rule, verdict.into]


def added(answer: Value) -> Added:
    """Return the result of a call that added items, from what its commit keeps."""
    if isinstance(answer, list):
        return Added(str(item_id) for item_id in answer)
    assert isinstance(answer, dict)  # noqa: S101 - `Adding.change` made it
    ids, said = (cast("list[Value]", answer[name]) for name in ("ids", "verdicts"))
    made = Added(str(item_id) for item_id in ids)
    made.verdicts = tuple(Verdict(*cast("_Kept", verdict)) for verdict in said)
    return made


def check_update(
    writer: Writer,
    ref: SetRef,
    ruled: SetRules,
    *,
    item: Item,
    record: ItemRecord,
    beside: str = "",
) -> AdmissionCheck | None:
    """Check the new version of an item; duplicates are its own affair.

    None if the rules are others by now.

    Raises:
        Rejected: A rule would not have it in the set as it is.
    """
    verdict = Barrier(writer, ref, ruled, beside).judge([(item, record)])[0]
    if verdict.outcome in ("quarantine", "reject"):
        if not writer.still(ref, ruled):
            return None
        raise Rejected(ref.name, rule=verdict.rule, reason=verdict.reason)
    return AdmissionCheck(ref, ruled.set_rules)


def check_on_rejected(on_rejected: object) -> None:
    """Refuse what is no `OnRejected`."""
    if on_rejected not in ("error", "skip"):
        raise InvalidInput(f"on_rejected must be 'error' or 'skip', not {on_rejected!r}")


class Since(SetReader):
    """Reads that know of no item up to a row, and of no search."""

    def __init__(self, engine: Engine, past: int) -> None:
        super().__init__(engine)
        self._past = past

    def alike(
        self, ref: SetRef, probes: Sequence[Probe]
    ) -> tuple[int | None, list[list[StoredItem]]]:
        """See `Writer.alike`."""
        past, found = super().alike(ref, probes)
        return past, [[s for s in items if s.row > self._past] for items in found]

    def recent_hits(self, scope: Scope) -> list[tuple[Scope, Item]]:
        """See `Writer.recent_hits`."""
        _ = scope
        return []


def screened_again(
    engine: Engine, before: AdmissionCheck, added: Sequence[StoredItem]
) -> AdmissionCheck:
    """Return the screen of items that are still to be added, as of now.

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
    past = barrier.screened.last_row
    return before if past is None else replace(before, last_row=past)


def both(before: AdmissionCheck | None, now: AdmissionCheck) -> AdmissionCheck:
    """Return the screen of two calls to one set: the earlier of what they knew."""
    known = [s.last_row for s in (before, now) if s is not None and s.last_row is not None]
    return replace(now, last_row=min(known, default=None))
