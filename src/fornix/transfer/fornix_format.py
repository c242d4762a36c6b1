"""The lines of an export of fornix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import timedelta
from typing import cast

from fornix.compaction.strategies import OWN, restored
from fornix.errors import InvalidInput, RuleFailed
from fornix.search.signals import Signals
from fornix.sets.admission.rules import rules_of
from fornix.sets.set_options import definition
from fornix.state import MemoryKind, MemoryRef
from fornix.store import Definition, Node
from fornix.store.definition import HIGH_WATER, IN_THE_COMMIT, Plan
from fornix.store.items import Item
from fornix.store.scope import HIDDEN
from fornix.transfer.export import FORMAT
from fornix.transfer.import_entries import (
    Entry,
    Ids,
    ItemLine,
    ItemLocation,
    NodeLine,
    SetLine,
    checked_item,
    object_of,
    texts_of,
    time_of,
)
from fornix.values.storable import Value, checked, checked_name, microseconds

SETTINGS = tuple(one.name for one in fields_of(Definition))
"""What a "set" line says of a set, besides whose it is."""

KINDS = ("fornix", "set", "item", "object", "value")
"""What the lines of an export are of."""

OWNER = ("type", "key", "set")
"""What a set's line has before its definition."""


def only(fields: dict[str, Value], known: str) -> None:
    """Refuse fields that a line of such a type has not."""
    unknown = sorted(set(fields).difference(known.split()))
    if unknown:
        raise InvalidInput(f"unknown fields {unknown}: a {fields['type']!r} line has {known}")


def owner_of(fields: dict[str, Value]) -> tuple[str | None, str]:
    """Return the key (None: knowledge) and the set that a line names."""
    if "key" not in fields:
        raise InvalidInput('"key" is missing; it is null for knowledge')
    key = fields["key"]
    name = checked_name(fields.get("set"), '"set"')
    return (None if key is None else checked_name(key, '"key"')), name


class FornixLines:
    """Reads the lines of an export."""

    def __init__(self) -> None:
        self._ids = Ids()

    def line(self, fields: dict[str, Value]) -> Iterator[Entry]:
        """Yield what a line says.

        Raises:
            InvalidInput: It cannot be used.
        """
        kind = fields.get("type")
        if str(fields.get("set")).startswith(HIDDEN):
            raise InvalidInput(f'"set" must not begin with {HIDDEN!r}')
        if kind == "fornix":
            self.header(fields)
        elif kind == "set":
            yield self.set(fields)
        elif kind == "item":
            yield self._derived(fields)
        elif kind in ("object", "value"):
            yield self.node(fields)
        else:
            raise InvalidInput(f'"type" is {kind!r}; it is fornix, set, item, object or value')

    def end(self) -> Iterator[Entry]:
        """Yield what the end of the file says: nothing."""
        yield from ()

    def header(self, fields: dict[str, Value]) -> None:
        """Refuse the first line of a format that this fornix does not read."""
        if fields.get("format") != FORMAT:
            raise InvalidInput(
                f"the format is {fields.get('format')!r}, this fornix reads {FORMAT}; "
                "upgrade fornix, or export it again with this one"
            )

    def set(self, fields: dict[str, Value]) -> SetLine:
        """Return the set that a line defines."""
        only(fields, f"type key set {' '.join(SETTINGS)}")
        key, name = owner_of(fields)
        made = _definition({name: fields[name] for name in SETTINGS if name in fields})
        if key is None and made != Definition(item_type=made.item_type, admission=made.admission):
            raise InvalidInput("a set of knowledge has no capacity, compaction or signals")
        return SetLine(key, name, made)

    def item(self, fields: dict[str, Value]) -> ItemLine:
        """Return the item that a line is."""
        only(
            fields,
            "type key set id time speaker role session value text metadata importance sources "
            "compacted until expire_at valid_from valid_to",
        )
        key, name = owner_of(fields)
        if "value" not in fields:
            raise InvalidInput('"value" is missing')
        item = Item(
            value=fields["value"],
            id=cast("str", fields["id"]) if "id" in fields else self._ids.make(fields),
            text=cast("str | None", fields.get("text")),
            metadata=object_of(fields, "metadata"),
            importance=cast("float", fields.get("importance", 0.0)),
            speaker=cast("str | None", fields.get("speaker")),
            role=cast("str | None", fields.get("role")),
            session=cast("str | None", fields.get("session")),
            time=time_of(fields.get("time")),
            sources=texts_of(fields, "sources"),
            compacted=fields.get("compacted") is True,
            until=time_of(fields.get("until")),
            expire_at=time_of(fields.get("expire_at")),
            valid_from=time_of(fields.get("valid_from")),
            valid_to=time_of(fields.get("valid_to")),
        )
        return ItemLine(key, name, checked_item(item))

    def _derived(self, fields: dict[str, Value]) -> ItemLine:
        """Return an item, with the places of what it was made of."""
        line = self.item({name: value for name, value in fields.items() if name != "linked"})
        return replace(line, sources=_places(fields["linked"]) if "linked" in fields else None)

    def node(self, fields: dict[str, Value]) -> NodeLine:
        """Return the node of exact memory that a line is."""
        only(fields, "type key path value expires")
        key, path = checked_name(fields.get("key"), '"key"'), texts_of(fields, "path")
        MemoryRef(MemoryKind.SHORT_TERM, path)
        if not path:
            raise InvalidInput('"path" is empty; name at least one field')
        is_object = fields["type"] == "object"
        if is_object == ("value" in fields):
            raise InvalidInput('a "value" line has a "value", an "object" line has none')
        expires = time_of(fields.get("expires"))
        value = None if is_object else checked(fields["value"], nan=True)
        return NodeLine(key, path, Node(is_object, value, expires and microseconds(expires)))


def _definition(given: dict[str, Value]) -> Definition:
    """Return a definition, checked as a set's arguments are."""
    asked: dict[str, object] = {"high_water": HIGH_WATER, **given}
    for name in ("capacity", "capacity_tokens", "capacity_bytes", "retention"):
        most = asked.get(name, 1)
        if not isinstance(most, str) and (type(most) is not int or most < 1):
            raise InvalidInput(f'"{name}" must be a whole number from 1, not {most!r}')
    if isinstance(asked.get("retention"), int):
        asked["retention"] = timedelta(microseconds=cast("int", asked["retention"]))
    if (plan := given.get("compaction")) is not None:
        _check_compaction(plan)
    if (weights := given.get("signals")) is not None:
        if not isinstance(weights, dict):
            raise InvalidInput(f'"signals" must be an object, not {weights!r}')
        asked["signals"] = Signals.from_json(cast("dict[str, float]", weights))
    if "item_type" in given:
        checked_name(given["item_type"], '"item_type"')
    if "admission" in given:
        asked["admission"] = _admission(given["admission"])
    return definition({name: value for name, value in asked.items() if value is not None})


def _places(found: Value) -> list[ItemLocation]:
    """Return the items that an item was made of."""
    lists = [one for one in found if isinstance(one, list)] if isinstance(found, list) else None
    if lists is None or len(lists) != len(cast("list[Value]", found)):
        raise InvalidInput(f'"linked" must be a list of [key, set, id], not {found!r}')
    places: list[ItemLocation] = []
    for place in lists:
        if len(place) != len(ItemLocation._fields):
            raise InvalidInput(f'"linked" must be a list of [key, set, id], not {found!r}')
        key, name, item_id = place
        owner = None if key is None else checked_name(key, 'a key of "linked"')
        where = checked_name(name, 'a set of "linked"'), checked_name(item_id, 'an id of "linked"')
        places.append(ItemLocation(owner, *where))
    return places


def _check_compaction(plan: Value) -> None:
    if plan in IN_THE_COMMIT:
        return
    if not isinstance(plan, dict):
        raise InvalidInput(f'"compaction" must be "trim", "reject" or a strategy, not {plan!r}')
    if plan.get("name") != OWN:  # one of the user's is looked for when the set is compacted
        restored(plan, {})


def _admission(rules: Value) -> list[Plan] | None:
    """Return rules of admission, which this fornix must know."""
    if rules is None:
        return None
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise InvalidInput(f'"admission" must be a list of objects, not {rules!r}')
    kept = cast("list[Plan]", rules)
    try:
        rules_of(kept)
    except RuleFailed as error:
        raise InvalidInput(f'"admission": {error}') from error
    return kept
