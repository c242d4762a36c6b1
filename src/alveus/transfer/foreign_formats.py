"""Readers of other formats: their base, the target of an import, plain items, and MCP's memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import ClassVar, TypeAlias, cast

from alveus.errors import AlveusError, InvalidInput
from alveus.store.items import Item, counted_valid_item, text_of
from alveus.transfer.import_source import Invalid, JsonRecord
from alveus.transfer.lines import LABELS, ItemLine, checked_item
from alveus.transfer.record_fields import (
    Ids,
    inside,
    label_of,
    metadata_of,
    texts_of,
    time_of,
    value_at,
)
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name

NO_TEXT = "has no text"
"""Why an item is left out: search could not find it."""

TIMES = ("time", "timestamp", "created_at")
"""The fields for the time of a message."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part that is left out on purpose, and the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnusablePart:
    """A part of a record that cannot be used, such as one message of a conversation."""

    problem: str


@dataclass(frozen=True, slots=True)
class Target:
    """The key and set of imported items, for a file that names no key of alveus.

    Fields are dotted paths into a record: ``user_id``, ``metadata.customer``, ``namespace.1``.

    Attributes:
        key: The key. None means knowledge, or that `key_from` names the key.
        key_from: The field that names the key. Records without this field go to `key`.
        set_from: The field that names the set. Records without this field go to `set`.
        time_from: The field that holds the time, if it is not the usual field of the format.
        text_from: The field that search reads, if it is not the usual field of the format.
        zone: The zone of times that name no zone.
    """

    key: str | None = None
    set: str = "default"
    key_from: str | None = None
    set_from: str | None = None
    time_from: str | None = None
    text_from: str | None = None
    zone: tzinfo | None = None


ReadPart: TypeAlias = ItemLine | Skipped | UnusablePart
"""The result of a reader for a part of a record."""


class Reader(ABC):
    """Turns the records of one format into items.

    Attributes:
        LISTS: Fields of a document whose lists contain records.
        PREPARES: True if `prepare` has to read all records before the first call of `read`.
    """

    LISTS: ClassVar[frozenset[str]] = frozenset()
    PREPARES: ClassVar[bool] = False

    def __init__(self, target: Target) -> None:
        self.target = target
        self.ids = Ids()

    @classmethod
    @abstractmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether a record has this format."""

    def prepare(self, records: Iterable[JsonRecord | Invalid]) -> None:  # noqa: B027 - most formats need not
        """Read all records before the first call of `read`, where `PREPARES` is true."""

    @abstractmethod
    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield the items of a record.

        Raises:
            InvalidInput: The record cannot be imported.
        """

    @staticmethod
    def part(parts: Iterable[ReadPart], what: str = "") -> Iterator[ReadPart]:
        """Yield the items of a part of a record, or one `UnusablePart` if it cannot be used.

        Args:
            what: The name of the part in errors.
        """
        try:
            yield from list(parts)
        except AlveusError as error:
            yield UnusablePart(f"{what}: {error}" if what else str(error))

    def item_line(
        self, item: Item, *records: dict[str, Value], keep: bool = False
    ) -> ItemLine | Skipped:
        """Return an item with its key and set, or a `Skipped` if search could not find it.

        Args:
            records: The records in which the target's fields are looked up, in this order.
            keep: True to import an item without a text, for its other contents.

        Raises:
            InvalidInput: The item cannot be stored, or a field of the target has no usable value.
        """
        target = self.target
        if target.text_from is not None:
            text = value_at(target.text_from, records) or ""
            if not isinstance(text, str):
                raise InvalidInput(
                    f"{target.text_from!r} must be a text, not {text!r:.40}; pass another field"
                )
            item = replace(item, text=text)
        text = text_of(item.value) if item.text is None else item.text
        if not keep and text is not None and not text.strip() and not item.metadata.get("caption"):
            return Skipped(NO_TEXT)
        key = _name_at(target.key_from, records) or target.key
        if key is None and target.key_from is not None:
            raise InvalidInput(
                f"the field {target.key_from!r} for the key is missing; pass a key for such "
                "records (--key)"
            )
        name = _name_at(target.set_from, records) or target.set
        valid, replaced = counted_valid_item(item)
        return ItemLine(
            key if key is None else checked_name(key, "a key"),
            checked_name(name, "a set"),
            checked_item(valid),
            replaced=replaced,
        )

    def when(
        self, *records: dict[str, Value], names: Iterable[str] = TIMES, zone: tzinfo | None = None
    ) -> datetime | None:
        """Return the time in the target's field, or else the first time in the records, or None.

        Args:
            records: The message first, then the objects that contain it.
            names: The fields that may hold a time, the preferred one first.
            zone: The zone of a time that names no zone, if the target names no zone either.

        Raises:
            InvalidInput: The field holds no time, or a time without a zone.
        """
        zone = self.target.zone or zone
        if self.target.time_from is not None:
            return self.read_time(value_at(self.target.time_from, records), zone)
        found = ((name, record[name]) for record in records for name in names if name in record)
        for name, value in found:
            try:
                time = self.read_time(value, zone)
            except InvalidInput as error:
                options = "--zone sets a zone, --time-from names another field"
                raise InvalidInput(f"field {name!r}: {error} ({options})") from error
            if time is not None:
                return time
        return None

    def read_time(self, value: Value, zone: tzinfo | None) -> datetime | None:
        """Return the time that *value*, the value of a field, states, or None if it is null."""
        return time_of(value, zone)


def _name_at(path: str | None, records: Iterable[Value]) -> str | None:
    """Return the name of a key or set at a dotted path.

    Return None if *path* is None, or if no record has a value there.
    """
    value = None if path is None else value_at(path, records)
    if value is None:
        return None
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise InvalidInput(f"{path!r} must be the text of a key or a set, not {value!r:.40}")
    return str(value)


# --- plain items ------------------------------------------------------------------------------

SPANS = ("expire_at", "valid_from", "valid_to")
"""Times of an item besides `time`."""

ITEM_FIELDS = frozenset(("id", "text", "value", "metadata", "importance", *LABELS, *SPANS))
"""Fields of a record that become fields of an item. All other fields become metadata."""


class ItemReader(Reader):
    """Reads items. The `set` of an item is its set, unless the target names another field."""

    def __init__(self, target: Target) -> None:
        super().__init__(replace(target, set_from=target.set_from or "set"))

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether the record has a text."""
        return isinstance(record.fields.get("text"), str)

    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield the item."""
        fields = record.fields
        key = fields.get("key")
        if self.target.key_from is None and key is not None and key != self.target.key:
            where = "knowledge" if self.target.key is None else f"key {self.target.key!r}"
            raise InvalidInput(
                f"it has the key {key!r:.40}, but the import goes into {where}; leave out one "
                "of the keys, or import each record under its key (--key-from key)"
            )
        text, value = self._contents(fields)
        given = [name for name in TIMES if fields.get(name) is not None]
        time = self.target.time_from or (given[0] if given else "")
        item = Item(
            value=value,
            id=self.ids.of_record(fields),
            text=text,
            metadata=self._metadata(fields, time),
            importance=cast("float", fields.get("importance", 0.0)),
            speaker=label_of(fields, "speaker"),
            role=label_of(fields, "role"),
            session=label_of(fields, "session"),
            time=self.when(fields),
            expire_at=self._time(fields, "expire_at"),
            valid_from=self._time(fields, "valid_from"),
            valid_to=self._time(fields, "valid_to"),
        )
        yield self.item_line(item, fields)

    def _contents(self, fields: dict[str, Value]) -> tuple[str | None, Value]:
        """Return the text and the value of an item.

        If the record has no "value", the value is the text, and the text is None.
        """
        text = fields.get("text")
        if text is None and self.target.text_from is not None:
            text = value_at(self.target.text_from, [fields])
        if not isinstance(text, str) and (text is not None or text_of(fields.get("value")) is None):
            raise InvalidInput('an item needs a "text"; for another field pass --text-from')
        return (text, fields["value"]) if "value" in fields else (None, text)

    def _metadata(self, fields: dict[str, Value], time: str) -> dict[str, Value]:
        target, metadata = self.target, metadata_of(fields)
        used = ITEM_FIELDS | {time, target.key_from or "key", target.set_from, target.text_from}
        others = {n: v for n, v in fields.items() if n not in used and v is not None}
        twice = next((n for n, v in others.items() if metadata.get(n, v) != v), None)
        if twice is not None:
            raise InvalidInput(f"{twice!r} has another value in the metadata; remove one of them")
        return others | metadata

    def _time(self, fields: dict[str, Value], name: str) -> datetime | None:
        with inside(f"field {name!r}"):
            return self.read_time(fields.get(name), self.target.zone)


# --- the reference memory server of MCP -------------------------------------------------------

UNKNOWN_ENTITY = "is a relation of an entity that is not in the file"


class McpMemoryReader(Reader):
    """Reads entities as items. A relation becomes metadata of its first entity."""

    LISTS: ClassVar[frozenset[str]] = frozenset({"entities", "relations"})
    PREPARES: ClassVar[bool] = True

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._relations: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
        self._names: set[str] = set()

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether the record is an entity or a relation."""
        return _kind(record) == "entity" or (
            _kind(record) == "relation" and "relationType" in record.fields
        )

    def prepare(self, records: Iterable[JsonRecord | Invalid]) -> None:
        """Collect the relations, which follow the entities in the file."""
        for record in records:
            if isinstance(record, Invalid):
                continue
            if _kind(record) == "relation":
                start, kind, end = (record.fields.get(n) for n in ("from", "relationType", "to"))
                if isinstance(start, str) and isinstance(kind, str) and isinstance(end, str):
                    self._relations[start][kind, end] = None
            else:
                self._names.add(str(record.fields.get("name")))

    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield an entity."""
        fields, kind = record.fields, _kind(record)
        if kind == "relation":
            start, *_ = (checked_name(fields.get(n), n) for n in ("from", "relationType", "to"))
            if start not in self._names:
                yield Skipped(UNKNOWN_ENTITY)
            return
        if kind != "entity":
            raise InvalidInput(f'"type" must be entity or relation, not {fields.get("type")!r:.40}')
        name = checked_name(fields.get("name"), "the name of an entity")
        with inside(f"entity {name!r:.60}"):
            item = self._item(name, fields)
            yield self.item_line(item, fields)

    def _item(self, name: str, fields: dict[str, Value]) -> Item:
        observations = texts_of(fields, "observations")
        entity_type = fields.get("entityType")
        if not isinstance(entity_type, str):
            raise InvalidInput(f'"entityType" must be a text, not {entity_type!r:.40}')
        metadata: dict[str, Value] = {"entity": name, "entity_type": entity_type}
        relations = self._relations.get(name)
        if relations:
            metadata["relations"] = [{"type": kind, "to": end} for kind, end in relations]
        others = set(fields) - {"type", "name", "entityType", "observations"}
        return Item(
            value="\n".join([f"{name} ({entity_type})" if entity_type else name, *observations]),
            id=name,
            metadata=metadata | {other: fields[other] for other in sorted(others)},
            time=self.when(fields, names=()),
        )


def _kind(record: JsonRecord) -> Value:
    under = {"entities": "entity", "relations": "relation"}.get(record.list_name)
    return cast("Value", under) or record.fields.get("type")
