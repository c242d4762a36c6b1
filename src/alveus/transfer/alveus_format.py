"""The format of an export: a line for each set, item and node of exact memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias, cast

from alveus.errors import InvalidInput, RuleFailed
from alveus.errors.short_repr import short_repr
from alveus.search.signals import Signals
from alveus.sets.admission.rules import rules_of
from alveus.sets.compaction.strategies import OWN, restored
from alveus.sets.set_options import definition
from alveus.state import MemoryKind, MemoryRef
from alveus.store import Definition, Node
from alveus.store.items import Item, counted_valid_item, text_of
from alveus.store.records import check_spans
from alveus.store.scope import HIDDEN
from alveus.store.sets import HIGH_WATER, IN_THE_COMMIT, Plan
from alveus.transfer.record_fields import (
    Ids,
    check_field_names,
    object_of,
    owner_of,
    texts_of,
    time_of,
)
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import (
    Path,
    Value,
    checked,
    checked_name,
    counted,
    microseconds,
    moment,
    valid_text,
)
from alveus.values.times import format_time

FORMAT = 1
"""The version of the format."""

KINDS = ("alveus", "set", "item", "learnt", "object", "value")
"""The types of lines."""

SETTINGS = tuple(one.name for one in fields_of(Definition))
"""The fields of a "set" line after its key and set."""

ITEM_FIELDS = (
    "type key set id time speaker role session value text metadata importance sources "
    "compacted until expire_at valid_from valid_to"
)
LABELS = ("speaker", "role", "session")
TIMES = ("until", "expire_at", "valid_from", "valid_to")
"""Times of an item that most items do not have."""


@dataclass(frozen=True, slots=True)
class SetLine:
    """A set and its definition; the key None is knowledge."""

    key: str | None
    set: str
    definition: Definition

    def fields(self) -> dict[str, Value]:
        """Return the line."""
        fields: dict[str, Value] = {"type": "set", "key": self.key, "set": self.set}
        return fields | self.definition.to_json()

    @classmethod
    def from_fields(cls, fields: dict[str, Value]) -> SetLine:
        """Return the set that a line defines."""
        check_field_names(fields, f"type key set {' '.join(SETTINGS)}")
        key, name = owner_of(fields)
        made = _definition({name: fields[name] for name in SETTINGS if name in fields})
        if key is None and made != Definition(item_type=made.item_type, admission=made.admission):
            raise InvalidInput("a set of knowledge has no capacity, compaction or signals")
        return SetLine(key, name, made)


class ItemLocation(NamedTuple):
    """Where an item is; the key None is knowledge."""

    key: str | None
    set: str
    id: str


def _as_it_is(fields: dict[str, Value], name: str) -> object:
    return fields[name]


def _time_in(fields: dict[str, Value], name: str) -> object:
    return time_of(fields[name])


_READERS: dict[str, Callable[[dict[str, Value], str], object]] = {
    **dict.fromkeys(("id", "text", "importance", *LABELS), _as_it_is),
    "metadata": object_of,
    "sources": texts_of,
    "compacted": lambda fields, name: fields[name] is True,
    **dict.fromkeys(("time", *TIMES), _time_in),
}
"""The fields of an item besides its value, and what reads them."""


@dataclass(frozen=True, slots=True)
class ItemLine:
    """An item of a set.

    Attributes:
        linked: Its sources; None: the items of its own set that it names as `sources`.
        replaced: How many characters of the file were no text; see `valid_item`.
    """

    key: str | None
    set: str
    item: Item
    linked: Sequence[ItemLocation] | None = None
    replaced: int = 0

    def fields(self) -> dict[str, Value]:
        """Return the line, without what is the default or follows from the value."""
        item = self.item
        fields: dict[str, Value] = {"type": "item", "key": self.key, "set": self.set, "id": item.id}
        if item.time is not None:
            fields["time"] = format_time(item.time)
        fields |= {n: getattr(item, n) for n in LABELS if getattr(item, n) is not None}
        fields["value"] = item.value
        if item.text is not None and item.text != text_of(item.value):
            fields["text"] = item.text
        others: dict[str, Value] = {
            "metadata": dict(item.metadata),
            "importance": item.importance,
            "sources": list(item.sources),
            "compacted": item.compacted,
        }
        fields |= {name: value for name, value in others.items() if value}
        fields |= {n: format_time(getattr(item, n)) for n in TIMES if getattr(item, n) is not None}
        if self.linked is not None:
            fields["linked"] = [list(location) for location in self.linked]
        return fields

    @classmethod
    def from_fields(cls, fields: dict[str, Value], ids: Ids) -> ItemLine:
        """Return the item of a line; one without an id gets one of *ids*."""
        check_field_names(fields, f"{ITEM_FIELDS} linked")
        owner_of(fields)
        if "value" not in fields:
            raise InvalidInput('"value" is missing')
        line = ItemLine.from_passed_fields(fields, ids)
        checked_item(line.item)
        return line

    @classmethod
    def from_passed_fields(cls, fields: dict[str, Value], ids: Ids) -> ItemLine:
        """Return what `from_fields` does, of fields that are known to be those of an item."""
        known: dict[str, Any] = {
            name: _READERS[name](fields, name) for name in fields if name in _READERS
        }
        if "id" not in fields:
            known["id"] = ids.make(fields)
        item, replaced = counted_valid_item(Item(fields["value"], **known))
        linked = _locations(fields["linked"]) if "linked" in fields else None
        key, name = cast("str | None", fields["key"]), cast("str", fields["set"])
        return ItemLine(key, name, item, linked, replaced)


@dataclass(frozen=True, slots=True)
class LearntLine:
    """Messages of a conversation that facts were learnt from.

    Attributes:
        ids: Theirs.
        set_aside: Ids of messages that a model gave no usable answer about: in how many calls.
    """

    key: str
    set: str
    ids: Sequence[str]
    set_aside: Mapping[str, int]

    def fields(self) -> dict[str, Value]:
        """Return the line."""
        fields: dict[str, Value] = {"type": "learnt", "key": self.key, "set": self.set}
        fields["ids"] = [*self.ids]
        if self.set_aside:
            fields["set_aside"] = dict(self.set_aside)
        return fields

    @classmethod
    def from_fields(cls, fields: dict[str, Value]) -> LearntLine:
        """Return the messages of a line."""
        check_field_names(fields, "type key set ids set_aside")
        key, name = owner_of(fields)
        if key is None:
            raise InvalidInput("nothing is learnt from a set of knowledge")
        failures: dict[str, int] = {}
        for item_id, count in object_of(fields, "set_aside").items():
            failures[item_id] = counted(cast("int", count), '"set_aside"')
        return LearntLine(key, name, texts_of(fields, "ids"), failures)


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node of the exact tree of a key; *replaced* as of an `ItemLine`."""

    key: str
    path: Path
    node: Node
    replaced: int = 0

    def fields(self) -> dict[str, Value]:
        """Return the line."""
        kind = "object" if self.node.is_object else "value"
        fields: dict[str, Value] = {"type": kind, "key": self.key, "path": list(self.path)}
        if not self.node.is_object:
            fields["value"] = self.node.value
        if self.node.expires is not None:
            fields["expires"] = format_time(moment(self.node.expires))
        return fields

    @classmethod
    def from_fields(cls, fields: dict[str, Value]) -> NodeLine:
        """Return the node of a line."""
        check_field_names(fields, "type key path value expires")
        key, path = checked_name(fields.get("key"), '"key"'), checked_path(fields.get("path", []))
        is_object = fields["type"] == "object"
        if is_object == ("value" in fields):
            raise InvalidInput('a "value" line has a "value", an "object" line has none')
        expires = time_of(fields.get("expires"))
        given, replaced = valid_text(fields.get("value"))
        node = Node(is_object, checked(given, nan=True), expires and microseconds(expires))
        return NodeLine(key, path, node, replaced)


ExportLine: TypeAlias = SetLine | ItemLine | LearntLine | NodeLine


class AlveusLines:
    """Reads the lines of an export."""

    def __init__(self) -> None:
        self._ids = Ids()

    def line(self, fields: dict[str, Value], *, has_passed: bool = False) -> ExportLine | None:
        """Return the contents of a line; None: it has none.

        Args:
            has_passed: The very line was read before.

        Raises:
            InvalidInput: The line cannot be imported.
        """
        kind = fields.get("type")
        if kind == "item" and has_passed:
            return ItemLine.from_passed_fields(fields, self._ids)
        if str(fields.get("set")).startswith(HIDDEN):
            raise InvalidInput(f'"set" must not begin with {HIDDEN!r}')
        if kind == "item":
            return ItemLine.from_fields(fields, self._ids)
        if kind == "set":
            return SetLine.from_fields(fields)
        if kind == "learnt":
            return LearntLine.from_fields(fields)
        if kind in ("object", "value"):
            return NodeLine.from_fields(fields)
        if kind != "alveus":
            raise InvalidInput(f'"type" is {kind!r}; it is one of {", ".join(KINDS)}')
        check_header(fields)
        return None


def check_header(fields: dict[str, Value]) -> None:
    """Refuse a file of a format that this version of alveus does not read."""
    if fields.get("format") != FORMAT:
        raise InvalidInput(
            f"the format is {fields.get('format')!r}, this alveus reads {FORMAT}; "
            "upgrade alveus, or export it again with this one"
        )


def checked_path(value: Value) -> Path:
    """Return the path that a line about a node names."""
    path = texts_of({"path": value}, "path")
    MemoryRef(MemoryKind.SHORT_TERM, path)
    if not path:
        raise InvalidInput('"path" is empty; name at least one field')
    return path


def checked_item(item: Item) -> Item:
    """Return *item* if every part of it can be stored; a store would refuse it later."""
    checked_name(item.id, "an item's id")
    checked(item.value)
    if item.metadata:
        checked(dict(item.metadata), where="metadata")
    times = {
        name: microseconds(time, name)
        for name in ("time", *TIMES)
        if (time := getattr(item, name)) is not None
    }
    if item.until is not None and item.time is None:  # the time of the import is no beginning
        raise InvalidInput("until needs a time: it ends the span that time begins")
    if len(times) > 1:
        check_spans(*map(times.get, ("time", "until", "valid_from", "valid_to")))
    for name in LABELS:
        if (label := getattr(item, name)) is not None:
            checked_name(label, name)
    for source in item.sources:
        checked_name(source, "the id of a source")
    if type(item.importance) not in (int, float) or not 0 <= item.importance <= 1:
        raise InvalidInput(f"importance must be a number from 0 to 1, not {item.importance!r}")
    _check_text(item)
    return item


def _check_text(item: Item) -> None:
    if item.text is None and text_of(item.value) is None:
        raise InvalidInput('the value has no text that search could read: add "text" ("" for none)')
    if item.text is not None and not isinstance(checked(item.text, where="text"), str):
        raise InvalidInput(f"text must be a str, not {short_repr(item.text)}")


def differs(item: Item, stored: Item) -> bool:
    """Return whether the item of a file differs from the stored one; a missing time does not."""
    timed = replace(item, time=item.time or stored.time)
    return ItemLine(None, "", timed).fields() != ItemLine(None, "", stored).fields()


def _locations(linked: Value) -> list[ItemLocation]:
    """Return the sources of an item."""
    locations: list[ItemLocation] = []
    for location in linked if isinstance(linked, list) else [None]:
        if not isinstance(location, list) or len(location) != len(ItemLocation._fields):
            raise InvalidInput(f'"linked" must be a list of [key, set, id], not {linked!r}')
        key, name, item_id = location
        owner = None if key is None else checked_name(key, 'a key of "linked"')
        where = checked_name(name, 'a set of "linked"'), checked_name(item_id, 'an id of "linked"')
        locations.append(ItemLocation(owner, *where))
    return locations


def _definition(given: dict[str, Value]) -> Definition:
    """Return a definition, checked as a set's arguments are."""
    options: dict[str, object] = {"high_water": HIGH_WATER, **given}
    for name in ("capacity", "capacity_tokens", "capacity_bytes", "retention"):
        limit = options.get(name, 1)
        if not isinstance(limit, str) and (type(limit) is not int or limit < 1):
            raise InvalidInput(f'"{name}" must be a whole number from 1, not {limit!r}')
    if isinstance(options.get("retention"), int):
        options["retention"] = timedelta(microseconds=cast("int", options["retention"]))
    if (plan := given.get("compaction")) is not None:
        _check_compaction(plan)
    if (weights := given.get("signals")) is not None:
        if not isinstance(weights, dict):
            raise InvalidInput(f'"signals" must be an object, not {weights!r}')
        options["signals"] = Signals.from_json(cast("dict[str, float]", weights))
    if "item_type" in given:
        checked_name(given["item_type"], '"item_type"')
    if "admission" in given:
        options["admission"] = _admission(given["admission"])
    return definition({name: value for name, value in options.items() if value is not None})


def _check_compaction(plan: Value) -> None:
    if plan in IN_THE_COMMIT:
        return
    if not isinstance(plan, dict):
        raise InvalidInput(f'"compaction" must be "trim", "reject" or a strategy, not {plan!r}')
    if plan.get("name") != OWN:  # a user's strategy is looked up when the set is compacted
        restored(plan, {})


def _admission(rules: Value) -> list[Plan] | None:
    """Return rules of admission, which this alveus must know."""
    if rules is None:
        return None
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise InvalidInput(f'"admission" must be a list of objects, not {rules!r}')
    plans = cast("list[Plan]", rules)
    try:
        rules_of(plans)
    except RuleFailed as error:
        raise InvalidInput(f'"admission": {error}') from error
    return plans
