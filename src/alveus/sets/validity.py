"""Facts that hold for a time: one takes the place of another, and both are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Unpack

from alveus.errors import DuplicateItem, InvalidInput
from alveus.sets.admission.barrier import check_update
from alveus.sets.set_editor import SetEditor
from alveus.sets.set_options import ItemChanges, item_from
from alveus.sets.set_writes import SetWrites
from alveus.sets.writer import NewId, PlannedWrite
from alveus.store import Add, Define, Link, Replace
from alveus.store.items import Item
from alveus.store.records import item_of, request_json
from alveus.values.keywords import check_keywords, suggest_names_in_part
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name, microseconds, moment


@suggest_names_in_part
class Superseding(SetWrites):
    """A set whose facts can be superseded."""

    def supersede(
        self,
        id: str,
        value: object,
        *,
        at: datetime | None = None,
        new_id: str | None = None,
        idempotency_key: str | None = None,
        **fields: Unpack[ItemChanges],
    ) -> str:
        """Say what holds instead of an item from *at* on; return the id of the new item.

        One commit: the old item gets a version that ends to hold at *at* (by default now), the new
        one begins to hold then, and has the old one as its source. Search and recent find what
        holds; ``valid_at=`` finds what held.

        Args:
            new_id: Of the new item.
            fields: What else is known of it, as in `add`, but for *valid_from*.

        Raises:
            NotFound: There is no live item of this id.
            DuplicateItem: *new_id* is taken.
            Rejected: A rule of the set keeps the new item out; it may say the same as others.
            InvalidInput: The old item began to hold after *at*, or ended to hold before.
        """
        checked_name(id, "an item's id")
        asked = None if at is None else microseconds(at, "at")
        if new_id is not None:
            checked_name(new_id, "an item's id")
        check_keywords(self, "supersede", fields, ItemChanges)
        if "valid_from" in fields:
            raise InvalidInput("supersede takes at=, not valid_from: the new item holds from then")
        item = replace(item_from(value, fields), id=new_id, sources=(id,))
        editor = SetEditor(self._writer, self._ref)
        call = SupersedeCall(editor, id, item, asked, self._define)
        return str(self._writer.write(call, idempotency_key=idempotency_key))


@dataclass(frozen=True, slots=True)
class SupersedeCall:
    """Ends an item, and adds the one that holds from then on.

    Attributes:
        at: When, in microseconds; None: now.
    """

    editor: SetEditor
    item_id: str
    item: Item
    at: int | None
    define: Sequence[Define]

    name = "supersede"

    def arguments(self) -> Value:
        """See `WriteCall.arguments`."""
        return [self.editor.ref.name, self.item_id, self.at, request_json(self.item)]

    def plan(self, new_id: NewId) -> PlannedWrite:
        """See `WriteCall.plan`."""
        writer, ref, given = self.editor.writer, self.editor.ref, self.item.id
        stored = self.editor.live(self.item_id)
        since = moment(writer.now() if self.at is None else self.at)
        ends = _ended(item_of(stored), since)
        name = new_id() if given is None else given
        if given is not None and self.editor.one(given) is not None:
            raise DuplicateItem(given, set_name=ref.name)  # another plan cannot mend that
        begins = replace(self.item, id=name, valid_from=since)
        old, new = writer.records([(self.item_id, ends), (name, begins)])
        added = Add(ref, new, fresh=given is None, links=[Link(ref, self.item_id)])
        checks = check_update(writer, ref, begins, new, replaced_id=self.item_id)
        changes = [Replace(ref, stored.version, old), added]
        return PlannedWrite(changes, name, self.define, retry=True, admission_checks=checks)


def _ended(item: Item, at: datetime) -> Item:
    """Return an item that ends to hold at *at*."""
    if item.valid_from is not None and at < item.valid_from:
        raise InvalidInput(
            f"item {item.id!r} begins to hold at {item.valid_from:%Y-%m-%d %H:%M}, after at=; "
            "supersede it from a later moment on, or delete it"
        )
    if item.valid_to is not None and item.valid_to < at:
        raise InvalidInput(
            f"item {item.id!r} ended to hold at {item.valid_to:%Y-%m-%d %H:%M}, before at=; "
            "add the new fact by itself"
        )
    return replace(item, valid_to=at)
