"""Memories that mem0 gives out: by ``get_all()``, and in the backup files of OpenMemory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, cast

from fornix.errors import InvalidInput
from fornix.store.items import Item
from fornix.transfer.foreign_formats import Reader, Skipped
from fornix.transfer.fornix_format import ItemLine
from fornix.transfer.import_source import JsonRecord
from fornix.transfer.record_fields import label_of, metadata_of, name_of
from fornix.values.storable import Value

FIELDS = {"id", "memory", "content", "metadata", "created_at", "hash", "score", "category_ids"}
"""Fields of a memory that are something of an item, or are made anew; others become metadata."""

DELETED = "was deleted there"
RELATION = "is a relation of mem0's graph"


class Mem0Reader(Reader):
    """Reads memories one by one, lists of them, and what is under ``results`` or ``memories``."""

    LISTS: ClassVar[frozenset[str]] = frozenset({"results", "memories", "relations"})

    @classmethod
    def knows(cls, record: JsonRecord) -> bool:
        """Return whether it is a memory: of mem0, or of OpenMemory."""
        fields = record.fields
        told = "memory" in fields or ("content" in fields and "state" in fields)
        return ("id" in fields and told) or record.list_name == "relations"

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
        _user(fields, record.document)
        metadata = _metadata(fields, record.document)
        item = Item(
            value=memory,
            id=name_of(fields, "id"),
            metadata=metadata,
            speaker=label_of(fields, "actor_id"),
            role=label_of(fields, "role"),
            session=name_of(fields, "run_id"),
            time=self.when(fields, names=("created_at",)),
        )
        yield self.item_line(item, fields, record.document)


def _user(fields: dict[str, Value], around: dict[str, Value]) -> None:
    """In a backup of OpenMemory, put the user's name in the place of the database's number."""
    user = around.get("user")
    if isinstance(user, dict) and isinstance(user.get("user_id"), str):
        fields["user_id"] = user["user_id"]


def _metadata(fields: dict[str, Value], around: dict[str, Value]) -> dict[str, Value]:
    own = metadata_of(fields)
    found = {
        name: value
        for name, value in fields.items()
        if name not in FIELDS and value is not None and value != []
    }
    if found.get("updated_at") == fields.get("created_at"):
        found.pop("updated_at", None)
    names = _categories(fields, around)
    if names:
        found["categories"] = names
    clashes = {name for name in found if name in own and own[name] != found[name]}
    return {f"mem0_{n}" if n in clashes else n: v for n, v in found.items()} | own


def _categories(fields: dict[str, Value], around: dict[str, Value]) -> list[Value]:
    """Return the names of the categories that a backup of OpenMemory numbers."""
    numbered = around.get("categories")
    known = numbered if isinstance(numbered, list) else []
    names = {
        cast("str", one.get("id")): one.get("name")
        for one in known
        if isinstance(one, dict) and isinstance(one.get("id"), str)
    }
    ids = fields.get("category_ids")
    return [names.get(i, i) for i in ids if isinstance(i, str)] if isinstance(ids, list) else []
