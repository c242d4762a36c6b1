"""Adding to a set: what one call of `add` or `add_many` changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Literal, TypeAlias

from alveus.errors import InvalidInput
from alveus.sets.admission.barrier import Adding, OnRejected, judge_by_current_rules
from alveus.sets.origins import check_sources, linked
from alveus.sets.set_editor import SetEditor
from alveus.sets.writer import NewId, PlannedWrite
from alveus.store import (
    Add,
    AdmissionCheck,
    Define,
    ItemChange,
    ItemRecord,
    Replace,
    StoredItem,
)
from alveus.store.items import Item
from alveus.store.records import request_json
from alveus.store.sets import SetRules
from alveus.values.ids import made_by
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name, choice

SIMPLE_ITEMS = 16
"""A call that adds more gains nothing from others'."""

_SOURCES = attrgetter("sources")

OnExisting: TypeAlias = Literal["error", "keep", "update"]
"""What `add` does with an id that is taken: refuse it, skip the item, or replace the other."""


def _lasting(item: Item, life: timedelta) -> Item:
    """Return an item that lives so long, unless it says how long."""
    return replace(item, ttl=life) if item.ttl is item.expire_at is None else item


@dataclass(frozen=True, slots=True)
class AddCall:
    """Adds items to a set.

    Attributes:
        definitions: Returns what the set is defined as with its next add.
        judged: Whether the rules of the set are asked; not about what was in the set before.
        life: How long an item lives that does not say; it is no part of the request.
    """

    editor: SetEditor
    items: Sequence[Item]
    on_existing: OnExisting
    on_rejected: OnRejected
    definitions: Callable[[], Sequence[Define]]
    judged: bool
    life: timedelta | None

    name = "add"

    def arguments(self) -> Value:
        """See `WriteCall.arguments`."""
        skips: list[Value] = [] if self.on_rejected == "error" else [self.on_rejected]
        items: list[Value] = [request_json(item) for item in self.items]
        return [self.editor.ref.name, self.on_existing, items, *skips]

    def is_simple(self) -> bool:
        """Return whether it is planned without asking anybody: it only adds a few items."""
        return (
            self.judged
            and self.on_existing == "error"
            and 0 < len(self.items) <= SIMPLE_ITEMS
            and not any(map(_SOURCES, self.items))
            and not self.definitions()
            and self.editor.writer.rules(self.editor.ref, None) is None
        )

    def plan(self, new_id: NewId) -> PlannedWrite:
        """See `WriteCall.plan`."""
        writer, ref, define = self.editor.writer, self.editor.ref, self.definitions()
        pairs = self.pairs(new_id)
        definition = define[0].definition if define else None
        if not self.judged:
            rules = writer.rules(ref, definition)
            checks = [] if rules is None else [AdmissionCheck(ref, rules.set_rules)]
            return self._unjudged(pairs, define, checks)
        judge = partial(self._judged, pairs=pairs, define=define, new_id=new_id)
        judged = judge_by_current_rules(writer, ref, definition, judge)
        return self._unjudged(pairs, define, []) if judged is None else judged

    def pairs(self, new_id: NewId) -> list[tuple[str, Item]]:
        """Return the items as they are to be recorded, with their ids."""
        items = self.items
        if self.life is not None:
            items = [_lasting(item, self.life) for item in items]
        if len(items) == 1:
            item = items[0]
            return [(new_id() if item.id is None else item.id, item)]
        ids = [item.id for item in items]
        made = iter(made_by(new_id, sum([item_id is None for item_id in ids])))
        return [
            (next(made) if item_id is None else item_id, item)
            for item_id, item in zip(ids, items, strict=True)
        ]

    def added(self, records: Sequence[ItemRecord]) -> list[ItemChange]:
        """Return the changes that add the items, whose ids are all new."""
        ref = self.editor.ref
        return [
            Add(ref, record, item.id is None)
            for record, item in zip(records, self.items, strict=True)
        ]

    def _unjudged(
        self,
        pairs: Sequence[tuple[str, Item]],
        define: Sequence[Define],
        checks: Sequence[AdmissionCheck],
    ) -> PlannedWrite:
        """Return the changes that add the items as they are."""
        writer, ref = self.editor.writer, self.editor.ref
        records = writer.records(pairs)
        added = self.added(records) if self.on_existing == "error" else self._merged(records)
        return PlannedWrite(
            linked(writer, ref, added) if self.judged else added,  # who brings it back links it
            [item_id for item_id, _ in pairs],
            define,
            retry=self.on_existing != "error",
            admission_checks=checks,
        )

    def _judged(
        self,
        rules: SetRules,
        pairs: Sequence[tuple[str, Item]],
        define: Sequence[Define],
        new_id: NewId,
    ) -> PlannedWrite | None:
        """Return what the rules of the set make of the items; see `Adding`."""
        existing = self.on_existing != "error"
        adding = Adding(
            writer=self.editor.writer,
            ref=self.editor.ref,
            rules=rules,
            pairs=pairs,
            live=self._live([item_id for item_id, _ in pairs]) if existing else {},
            existing=self.on_existing,
            on_rejected=self.on_rejected,
            new_id=new_id,
        )
        return adding.change(define, retry=existing)

    def _live(self, ids: Sequence[str]) -> dict[str, StoredItem]:
        """Return the items that have one of *ids*, by id."""
        if len(set(ids)) != len(ids):
            raise InvalidInput("one call names an id twice; merge those items first")
        return {stored.record.id: stored for stored in self.editor.get(ids)}

    def _merged(self, records: Sequence[ItemRecord]) -> list[ItemChange]:
        """Return changes that add what is new, and keep or replace what is there."""
        ref, live = self.editor.ref, self._live([record.id for record in records])
        changes: list[ItemChange] = []
        for record in records:
            stored = live.get(record.id)
            if stored is None:
                changes.append(Add(ref, record, existing=self.on_existing))
            elif self.on_existing == "update":
                changes.append(Replace(ref, stored.version, record, upsert=True))
        return changes


def check_adding(items: Sequence[Item], on_existing: object) -> None:
    """Refuse what no set takes, whatever it holds."""
    choice(on_existing, "on_existing", "error", "keep", "update")
    for item in items:
        if item.id is not None:
            checked_name(item.id, "an item's id")
        if type(item.sources) is not tuple or item.sources:
            check_sources(item.sources)
