"""The file of the reference memory server of MCP: entities, observations, relations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from alveus.errors import InvalidInput
from alveus.store.items import Item
from alveus.transfer.foreign_formats import Reader, ReadPart, Skipped, Target
from alveus.transfer.import_source import Invalid, JsonRecord
from alveus.transfer.record_fields import inside, texts_of
from alveus.values.storable import Value, checked_name

UNKNOWN = "is a relation of an entity that is not in the file"


class McpMemoryReader(Reader):
    """Reads entities, each an item; relations go to the metadata of the entity they start from."""

    LISTS: ClassVar[frozenset[str]] = frozenset({"entities", "relations"})
    PREPARES: ClassVar[bool] = True

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._relations: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
        self._names: set[str] = set()

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether it is an entity or a relation."""
        return _kind(record) == "entity" or (
            _kind(record) == "relation" and "relationType" in record.fields
        )

    def prepare(self, records: Iterable[JsonRecord | Invalid]) -> None:
        """Collect the relations, which come after the entities."""
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
                yield Skipped(UNKNOWN)
            return
        if kind != "entity":
            raise InvalidInput(f'"type" is {fields.get("type")!r:.40}; it is entity or relation')
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
    """Return the type of a record, which its list or the record itself names."""
    under = {"entities": "entity", "relations": "relation"}.get(record.list_name)
    return cast("Value", under) or record.fields.get("type")
