"""Facts that hold for a time: one takes the place of another, and both are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Unpack

from fornix.errors import DuplicateItem, InvalidInput
from fornix.sets.set_options import ItemChanges, item_from
from fornix.sets.set_writes import SetWrites
from fornix.sets.writer import PlannedWrite, WriteCall
from fornix.store import Add, Link, Replace
from fornix.store.items import Item
from fornix.store.records import as_passed, item_of
from fornix.values.keywords import check_keywords, suggest_names_in
from fornix.values.storable import Value, checked_name, microseconds, moment


@suggest_names_in
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

        def arguments() -> Value:
            return [self.name, id, asked, as_passed(item)]

        def build(new: Callable[[], str]) -> PlannedWrite:
            stored = self._live(id)
            since = moment(self._writer.now() if asked is None else asked)
            before = item_of(stored)
            ends = _ended(before, since)
            name = new() if new_id is None else new_id
            if new_id is not None and self._writer.get(self._ref, [name], at=None)[0] is not None:
                raise DuplicateItem(name, set_name=self.name)  # which building again cannot mend
            pairs = [(id, ends), (name, replace(item, valid_from=since))]
            old, fresh = self._writer.records(pairs)
            added = Add(self._ref, fresh, fresh=new_id is None, links=[Link(self._ref, id)])
            screened = self._screened(replace(item, id=name, valid_from=since), fresh, beside=id)
            changes = [Replace(self._ref, stored.version, old), added]
            return PlannedWrite(changes, name, self._define, retry=True, screened=screened)

        return str(self._writer.write(WriteCall("supersede", arguments, idempotency_key), build))


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
