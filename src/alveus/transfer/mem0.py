"""Memories of mem0 in alveus: one layout, shared by imports and the server for mem0's clients.

The key of a user is the user's name. If memories have no user, the key of their agent, app or run
is ``agent:…``, ``app:…`` or ``run:…``. If a user's name looks like such a key, or like a key of
`alveus.values.ids`, the key is ``user:`` and the name. So no two entities share a key, and no
entity has the key of another system's identity, whatever characters its name has.

A memory is an item of its key. `Mem0Memory` maps the fields of both.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, date, datetime, time
from typing import Any, ClassVar, NamedTuple, cast

from alveus.errors import InvalidInput
from alveus.facts.fact import FACTS
from alveus.store.items import Item
from alveus.transfer.foreign_formats import Reader, ReadPart, Skipped
from alveus.transfer.import_source import JsonRecord
from alveus.transfer.record_fields import inside, label_of, metadata_of, name_of
from alveus.values import ids, wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value
from alveus.values.times import format_time

KINDS = ("user", "agent", "app", "run")
"""Kinds of entities. A memory is in the key of its entity whose kind comes first here."""

ENTITIES = tuple(f"{kind}_id" for kind in KINDS)
"""The fields of a memory that name its entities."""

SETS = ("default", FACTS)
"""The sets of a key whose items are memories of mem0."""

MARKS = "mem0"
"""The field of an item's metadata that holds a memory's entities and other fields."""

ANYBODY = "*"
"""The wildcard of mem0's filters, which matches every entity."""

OWN_KEY = "entity"
"""A field that an import adds to each record: the key of the record's first entity."""

_FOREIGN = "|".join(map(re.escape, ids.KINDS))

_OTHER_KIND = re.compile(rf"(?:user:)*(?:(?:agent|app|run):.|(?:{_FOREIGN}):)", re.DOTALL)
"""The beginning of a user's name that would equal the key of another identity."""

_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of mem0's ids and of alveus's."""


class Entity(NamedTuple):
    """An owner of memories in mem0.

    Attributes:
        kind: One of `KINDS`.
    """

    kind: str
    name: str

    @property
    def key(self) -> str:
        """The key of the entity's memories. No two entities share a key."""
        escaped = self.kind != "user" or _OTHER_KIND.match(self.name)
        return f"{self.kind}:{self.name}" if escaped else self.name

    @classmethod
    def of_key(cls, key: str) -> Entity:
        """Return the entity that a key belongs to.

        The `key` of this entity is the same key, unless no entity of mem0 has this key.
        """
        if not _OTHER_KIND.match(key):
            return cls("user", key)
        kind, _, name = key.partition(":")
        return cls(kind, name) if kind in KINDS else cls("user", key)

    @property
    def mark(self) -> str:
        """The wire form of this entity's mark in an item's metadata."""
        return wire.encode({f"{self.kind}_id": self.name})[1:-1]

    @classmethod
    def first(cls, entities: Mapping[str, str]) -> Entity:
        """Return the entity whose key holds a memory of *entities*, which must not be empty."""
        name = next(each for each in ENTITIES if each in entities)
        return cls(name.removesuffix("_id"), entities[name])

    @property
    def kinds_after(self) -> Sequence[str]:
        """The fields that may name further entities of a memory in this entity's key."""
        return ENTITIES[KINDS.index(self.kind) + 1 :]


def entity_name(name: str, value: object) -> str:
    """Return the name of an entity: a text, or the digits of a whole number, as in mem0.

    Args:
        name: The field's name, for errors.

    Raises:
        InvalidInput: The value names no entity.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or value in ("", ANYBODY):
        raise InvalidInput(
            f'{name} must be a name or a whole number, not {value!r:.80}; "*" is not supported'
        )
    return value


class Mem0Location(NamedTuple):
    """The key, the set and the id of an item with a memory of mem0."""

    key: str
    set_name: str
    item_id: str

    @property
    def id(self) -> str:
        """The memory's id in mem0: the item's id if it is a UUID, or else `packed`."""
        return self.item_id if _UUID.fullmatch(self.item_id) else self.packed

    @property
    def packed(self) -> str:
        """An id that contains key, set and item id, for any item id."""
        text = json.dumps(self, ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def unpacked(cls, memory_id: str) -> Mem0Location | None:
        """Return the location that a packed id contains, or None for any other id."""
        try:
            padded = memory_id.encode() + b"=" * (-len(memory_id) % 4)
            found: Any = json.loads(base64.b64decode(padded, b"-_", validate=True))
            location = cls(*map(_text, found))
        except (ValueError, TypeError, RecursionError):
            return None
        return location if location.set_name in SETS else None


def _text(found: object) -> str:
    if not isinstance(found, str) or not found:
        raise ValueError(found)
    return found


def uuid_of(memory_id: str) -> str | None:
    """Return an id of mem0 in lower case, as in item ids, or None if it is not a UUID."""
    lower = memory_id.lower()
    return lower if _UUID.fullmatch(lower) else None


@dataclass(frozen=True, slots=True)
class Mem0Memory:
    """A memory with mem0's fields, converted to an item and back.

    Attributes:
        entities: Names of entities by the fields of `ENTITIES`; at least one.
        metadata: Any names, even ``mem0``.
        actor: The name of the speaker.
        updated: The time of the last change, in ISO 8601. None means never changed, or unknown.
        expires: The time from which the memory is not found.
    """

    text: str | None
    entities: Mapping[str, str]
    metadata: Mapping[str, Value] = field(default_factory=dict[str, Value])
    actor: str | None = None
    role: str | None = None
    created: datetime | None = None
    updated: str | None = None
    expires: datetime | None = None
    categories: tuple[Value, ...] = ()

    def item(self, item_id: str | None = None) -> Item:
        """Return the item that keeps this memory in the key of its first entity."""
        return Item(
            self.text,
            id=item_id,
            metadata=self.item_metadata(),
            speaker=self.actor,
            role=self.role,
            session=self.entities.get("run_id"),
            time=self.created,
            expire_at=self.expires,
        )

    def item_metadata(self) -> dict[str, Value]:
        """Return the metadata of the item: the memory's metadata, and its other fields as marks."""
        marks: dict[str, Value] = dict(self.entities)
        if self.categories:
            marks["categories"] = [*self.categories]
        if self.updated is not None:
            marks["updated_at"] = self.updated
        if MARKS in self.metadata:
            marks[MARKS] = self.metadata[MARKS]
        return {**self.metadata, MARKS: marks}

    @classmethod
    def of_item(cls, key: str, item: Item) -> Mem0Memory:
        """Return the memory that an item holds, whichever program wrote the item.

        The key names the first entity, and marks name the entities of later kinds. Any writer of
        the key may have made the marks, so the types of all their values are checked.
        """
        metadata: dict[str, Value] = dict(item.metadata)
        found = metadata.pop(MARKS, None)
        marks: dict[str, Value] = found if isinstance(found, dict) else {}
        if MARKS in marks:
            metadata[MARKS] = marks[MARKS]
        owner = Entity.of_key(key)
        beside = {name: marks[name] for name in owner.kinds_after if name in marks}
        updated, categories = marks.get("updated_at"), marks.get("categories")
        if item.version > 1 or not isinstance(updated, str):
            updated = None if item.updated is None else format_time(item.updated)
        return cls(
            item.value if isinstance(item.value, str) else item.text,
            {f"{owner.kind}_id": owner.name}
            | {name: each for name, each in beside.items() if isinstance(each, str)},
            metadata,
            actor=item.speaker,
            role=item.role,
            created=item.time,
            updated=updated,
            expires=item.expire_at,
            categories=tuple(categories) if isinstance(categories, list) else (),
        )

    def fields(self) -> dict[str, Value]:
        """Return the memory's fields as mem0 answers them, without the id."""
        said: dict[str, Value] = {"actor_id": self.actor, "role": self.role}
        return {
            "memory": self.text,
            **dict.fromkeys(ENTITIES),
            **self.entities,
            **{name: value for name, value in said.items() if value is not None},
            "metadata": dict(self.metadata),
            "categories": [*self.categories],
            "created_at": self.created and format_time(self.created),
            "updated_at": self.updated,
            "expiration_date": self.expires and day_of(self.expires),
        }


def end_of(day: date) -> datetime:
    """Return the end of *day*, which is the last day on which a memory is found."""
    return datetime.combine(day, time.max, UTC)


def day_of(expires: datetime) -> str:
    """Return the date whose `end_of` is *expires*. Return any other time in ISO 8601."""
    last = expires.astimezone(UTC)
    return (
        last.date().isoformat()
        if last.timetz() == time.max.replace(tzinfo=UTC)
        else format_time(last)
    )


# --- files ----------------------------------------------------------------------------------------

FIELDS = {
    *("id", "memory", "content", "metadata", "hash", "score", "category_ids", "categories"),
    *("created_at", "updated_at", "expiration_date", "actor_id", "role", *ENTITIES),
}
"""Fields of a memory that become, or follow from, fields of an item. Others become metadata."""

CAMEL = {
    re.sub("_([a-z])", lambda letter: letter[1].upper(), name): name
    for name in FIELDS
    if "_" in name
}
"""The names of fields in mem0's TypeScript client."""

DELETED = "was deleted there"
RELATION = "is a relation of mem0's graph"


class Mem0Reader(Reader):
    """Reads memories: single, in lists, and in the lists ``results`` and ``memories``."""

    LISTS: ClassVar[frozenset[str]] = frozenset({"results", "memories", "relations"})

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether the record is a memory of mem0 or OpenMemory."""
        fields = record.fields
        is_memory = "memory" in fields or ("content" in fields and "state" in fields)
        return ("id" in fields and is_memory) or record.list_name == "relations"

    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield the memory."""
        if record.list_name == "relations":
            yield Skipped(RELATION)
            return
        fields = {CAMEL.get(name, name): value for name, value in record.fields.items()}
        memory = fields.get("memory", fields.get("content"))
        item_id = name_of(fields, "id")
        if item_id is None or not isinstance(memory, str):
            raise InvalidInput('a memory needs an "id", and a text as "memory" or "content"')
        if fields.get("state") == "deleted":
            yield Skipped(DELETED)
            return
        user = record.document.get("user")
        if isinstance(user, dict) and isinstance(user.get("user_id"), str):
            fields["user_id"] = user["user_id"]  # a backup of OpenMemory numbers its users
        entities = {
            name: entity_name(name, fields[name])
            for name in ENTITIES
            if fields.get(name) not in (None, "")
        }
        found = Mem0Memory(
            memory,
            entities,
            _metadata(fields),
            actor=label_of(fields, "actor_id"),
            role=label_of(fields, "role"),
            created=self.when(fields, names=("created_at",)),
            updated=self._updated(fields),
            expires=_expiry(fields),
            categories=_categories(fields, record.document),
        )
        keys: dict[str, Value] = {
            name: Entity(name.removesuffix("_id"), each).key for name, each in entities.items()
        }
        if entities:
            keys[OWN_KEY] = Entity.first(entities).key
        yield self.item_line(found.item(item_id), fields | keys, record.document)

    def _updated(self, fields: dict[str, Value]) -> str | None:
        with inside("field 'updated_at'"):
            found = self.read_time(fields.get("updated_at"), self.target.zone or UTC)
        return None if found is None else format_time(found)


def _expiry(fields: dict[str, Value]) -> datetime | None:
    """Return the end of the day on which a memory expires, or the exact time from a file."""
    found = fields.get("expiration_date")
    if found is None:
        return None
    try:
        if isinstance(found, str) and len(found) == len("2999-12-31"):
            return end_of(date.fromisoformat(found))
        read = datetime.fromisoformat(cast("str", found))
    except (TypeError, ValueError):
        raise InvalidInput(
            f"field 'expiration_date' must be a date like 2999-12-31, not {found!r:.40}"
        ) from None
    return read.replace(tzinfo=read.tzinfo or UTC)


def _metadata(fields: dict[str, Value]) -> dict[str, Value]:
    metadata = metadata_of(fields)
    others = {
        name: value
        for name, value in fields.items()
        if name not in FIELDS and value is not None and value != []
    }
    clashes = {n for n, value in others.items() if n in metadata and metadata[n] != value}
    return {f"mem0_{n}" if n in clashes else n: v for n, v in others.items()} | metadata


def _categories(fields: dict[str, Value], document: dict[str, Value]) -> tuple[Value, ...]:
    """Return the names of a memory's categories.

    In a backup of OpenMemory, the memory has ids of categories, and the document has their names.
    """
    given, ids, known = (
        fields.get("categories"),
        fields.get("category_ids"),
        document.get("categories"),
    )
    if not isinstance(ids, list):
        return tuple(given) if isinstance(given, list) else ()
    names = {
        cast("str", category.get("id")): category.get("name")
        for category in (known if isinstance(known, list) else [])
        if isinstance(category, dict) and isinstance(category.get("id"), str)
    }
    return tuple(names.get(i, i) for i in ids if isinstance(i, str))
