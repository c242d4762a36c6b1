"""Memories of mem0 in alveus: the one layout that imports and the server for its clients share.

A user is the key of that name. An agent, an app or a run that memories belong to without a user is
the key ``agent:…``, ``app:…`` or ``run:…``. A user whose name looks like one of those keys is the
key ``user:`` and the name. So each key is one entity of mem0, and each entity is one key, whatever
characters its name has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple, cast

from alveus.errors import InvalidInput
from alveus.store.items import Item
from alveus.transfer.alveus_format import ItemLine
from alveus.transfer.foreign_formats import Reader, Skipped
from alveus.transfer.import_source import JsonRecord
from alveus.transfer.record_fields import label_of, metadata_of, name_of
from alveus.values.storable import Value

KINDS = ("user", "agent", "app", "run")
"""Kinds of entities; a memory is in the key of the first kind that it names."""

ENTITIES = tuple(f"{kind}_id" for kind in KINDS)
"""The fields of a memory that name its entities."""

ANYBODY = "*"
"""The wildcard of mem0's filters, which names no entity."""

_OTHER_KIND = re.compile("(?:user:)*(?:agent|app|run):.", re.DOTALL)
"""The beginning of a user's name that would be read as another entity, if it were a key."""


class Entity(NamedTuple):
    """An owner of memories in mem0.

    Attributes:
        kind: One of `KINDS`.
    """

    kind: str
    name: str

    @property
    def key(self) -> str:
        """The key of the entity's memories; no two entities have the same."""
        escaped = self.kind != "user" or _OTHER_KIND.match(self.name)
        return f"{self.kind}:{self.name}" if escaped else self.name

    @classmethod
    def of_key(cls, key: str) -> Entity:
        """Return the entity of a key; `key` of it is that key again."""
        if not _OTHER_KIND.match(key):
            return cls("user", key)
        kind, _, name = key.partition(":")
        return cls(kind, name)


def entity_name(field: str, value: object) -> str:
    """Return the name of an entity: a text, or a whole number, which mem0 takes as its digits.

    Raises:
        InvalidInput: The value names no entity.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or value in ("", ANYBODY):
        raise InvalidInput(
            f'{field} must be a name or a whole number, not {value!r:.80}; the wildcard "*" is not '
            "served"
        )
    return value


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
        yield self.item_line(item, self._with_key(fields), record.document)

    def _with_key(self, fields: dict[str, Value]) -> dict[str, Value]:
        """Return the fields; the name of the entity that names the key becomes that key."""
        field = self.target.key_from
        if field not in ENTITIES or fields.get(field) is None:
            return fields
        name = entity_name(field, fields[field])
        return fields | {field: Entity(field.removesuffix("_id"), name).key}


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
