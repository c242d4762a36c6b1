"""Plain items: an object for each, with a text, and whatever else of an item it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import cast

from alveus.errors import InvalidInput
from alveus.store.items import Item, text_of
from alveus.transfer.alveus_format import LABELS
from alveus.transfer.foreign_formats import TIMES, Reader, ReadPart, Target
from alveus.transfer.import_source import JsonRecord
from alveus.transfer.record_fields import inside, label_of, metadata_of, value_at
from alveus.values.storable import Value

SPANS = ("expire_at", "valid_from", "valid_to")
"""Times of an item besides the one at which it happened."""

FIELDS = frozenset(("id", "text", "value", "metadata", "importance", *LABELS, *SPANS))
"""Fields that become fields of an item; the others become metadata."""


class ItemReader(Reader):
    """Reads items; one that has a `set` goes there, unless the target names another field."""

    def __init__(self, target: Target) -> None:
        super().__init__(replace(target, set_from=target.set_from or "set"))

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether it has a text."""
        return isinstance(record.fields.get("text"), str)

    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield the item."""
        fields = record.fields
        key = fields.get("key")
        if self.target.key_from is None and key is not None and key != self.target.key:
            where = "knowledge" if self.target.key is None else f"key {self.target.key!r}"
            raise InvalidInput(
                f"it names the key {key!r:.40}, and the import is into {where}; leave one of both "
                "out, or have each go to its own (--key-from key)"
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
        """Return the text of an item, if it has one of its own, and its value."""
        text = fields.get("text")
        if text is None and self.target.text_from is not None:
            text = value_at(self.target.text_from, [fields])
        if not isinstance(text, str) and (text is not None or text_of(fields.get("value")) is None):
            raise InvalidInput('an item has a "text" (--text-from names another field)')
        return (text, fields["value"]) if "value" in fields else (None, text)

    def _metadata(self, fields: dict[str, Value], time: str) -> dict[str, Value]:
        target, metadata = self.target, metadata_of(fields)
        used = FIELDS | {time, target.key_from or "key", target.set_from, target.text_from}
        others = {n: v for n, v in fields.items() if n not in used and v is not None}
        twice = next((n for n, v in others.items() if metadata.get(n, v) != v), None)
        if twice is not None:
            raise InvalidInput(f"{twice!r} is also in the metadata, and differs; remove one")
        return others | metadata

    def _time(self, fields: dict[str, Value], name: str) -> datetime | None:
        with inside(f"field {name!r}"):
            return self.read_time(fields.get(name), self.target.zone)
