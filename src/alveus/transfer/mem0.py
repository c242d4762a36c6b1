"""Memories that mem0 exports: by ``get_all()``, and in the backup files of OpenMemory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast

from alveus.errors import InvalidInput
from alveus.store.items import Item
from alveus.transfer.alveus_format import ItemLine
from alveus.transfer.foreign_formats import Reader, Skipped
from alveus.transfer.import_source import JsonRecord
from alveus.transfer.record_fields import label_of, metadata_of, name_of
from alveus.values.storable import Value

FIELDS = {"id", "memory", "content", "metadata", "created_at", "hash", "score", "category_ids"}
"""Fields of a memory that become fields of an item, or follow from them; others are metadata."""

DELETED = "was deleted there"
RELATION = "is a relation of mem0's graph"


class Mem0Reader(Reader):
    """Reads memories one by one, lists of them, and what is under ``results`` or ``memories``."""

    LISTS: ClassVar[frozenset[str]] = frozenset({"results", "memories", "relations"})

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether it is a memory: of mem0, or of OpenMemory."""
        fields = record.fields
        is_memory = "memory" in fields or ("content" in fields and "state" in fields)
        return ("id" in fields and is_memory) or record.list_name == "relations"

    def read(self, record: JsonRecord) -> Iterator[ItemLine | Skipped]:
        """Yield the memory."""
        if record.list_name == "relations":
            yield Skipped(RELATION)
            return
        fields = dict(record.fields)
        memory = fields.get("memory", fields.get("content"))
        if name_of(fields, "id") is None or not isinstance(memory, str):
            raise InvalidInput(
                'a memory has an "id" and a "memory" (or "content"), which is a text'
            )
        if fields.get("state") == "deleted":
            yield Skipped(DELETED)
            return
        user = record.document.get("user")
        if isinstance(user, dict) and isinstance(user.get("user_id"), str):
            fields["user_id"] = user["user_id"]  # a backup of OpenMemory numbers its users
        item = Item(
            value=memory,
            id=name_of(fields, "id"),
            metadata=_metadata(fields, record.document),
            speaker=label_of(fields, "actor_id"),
            role=label_of(fields, "role"),
            session=name_of(fields, "run_id"),
            time=self.when(fields, names=("created_at",)),
        )
        yield self.item_line(item, fields, record.document)


def _metadata(fields: dict[str, Value], document: dict[str, Value]) -> dict[str, Value]:
    metadata = metadata_of(fields)
    others = {
        name: value
        for name, value in fields.items()
        if name not in FIELDS and value is not None and value != []
    }
    if others.get("updated_at") == fields.get("created_at"):
        others.pop("updated_at", None)
    if categories := _categories(fields, document):
        others["categories"] = categories
    clashes = {n for n, value in others.items() if n in metadata and metadata[n] != value}
    return {f"mem0_{n}" if n in clashes else n: v for n, v in others.items()} | metadata


def _categories(fields: dict[str, Value], document: dict[str, Value]) -> list[Value]:
    """Return the names of the categories that a backup of OpenMemory numbers."""
    ids, categories = fields.get("category_ids"), document.get("categories")
    if not isinstance(ids, list):
        return []
    names = {
        cast("str", category.get("id")): category.get("name")
        for category in (categories if isinstance(categories, list) else [])
        if isinstance(category, dict) and isinstance(category.get("id"), str)
    }
    return [names.get(i, i) for i in ids if isinstance(i, str)]
