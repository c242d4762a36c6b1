"""CrewAI: a storage and an embedder for its `Memory`, so that no data leaves the machine.

Records are items of a set. Searches find them by meaning, with alveus's embedder.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Self

import numpy as np
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord, ScopeInfo

from alveus.embed import Embedder
from alveus.errors import InvalidInput
from alveus.integrations.opened import Deleting, OpenedMemory, plain_json
from alveus.memory.async_calls import awaited
from alveus.memory.memory import Memory
from alveus.search.signals import Signals
from alveus.store.items import Item, valid_item

NAME = "crewai"
"""The default name of the set of the records."""

_OTHERS = "words previous next reply speaker user date when session instruction short_question"

MEANING = Signals(meaning=1, **dict.fromkeys(_OTHERS.split(), 0.0))
"""Signals that rank by the cosine alone. CrewAI weighs it against age and importance."""

REMEMBERED = 10_000
"""The most texts whose vectors are remembered: more than CrewAI embeds before a search."""


class AlveusStorage(OpenedMemory):
    """Keeps the records of CrewAI's memory: ``Memory(storage=s, embedder=s.embedder)``.

    Each call is one commit, durable when it returns. Any thread and event loop may use it. A
    cancelled task waits until the commit has ended.

    Args:
        memory: A memory, or a path or a URL that the storage opens, and closes with `close`.
        key: The owner of the memory, such as a crew.
        name: The name of the set of the records.
        deleting: How records are deleted: "retire" deletes them, and keeps their history for as
            long as the memory keeps it; "forget" erases them, and leaves a receipt.
    """

    def __init__(
        self,
        memory: Memory | str | Path,
        *,
        key: str,
        name: str = NAME,
        deleting: Deleting = "retire",
    ) -> None:
        super().__init__(memory, deleting=deleting)
        self._records = self.memory.key(key).set(name)
        self.embedder = TextEmbedder(self.memory.embedder)

    def __deepcopy__(self, memo: object) -> Self:
        """Return the object itself: a copy of a crew shares the storage."""
        return self

    def save(self, records: list[MemoryRecord]) -> None:
        """Add all records, or none. A record replaces a stored record with the same id."""
        items = [_item(record) for record in records]
        if items:
            self._records.add_many(items, on_existing="update")

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return the records nearest to an embedding, with cosines, best first.

        Raises:
            EmbeddingDimensionMismatchError: The vector has other dimensions than the embedder.
            InvalidInput: `embedder` has not returned the vector recently.
        """
        query = self.embedder.text_of(query_embedding)
        where = _where(scope_prefix, categories, metadata_filter)
        hits = self._records.search(
            query, where=where, limit=max(limit, 1), signals=MEANING, valid_at="any"
        )
        found = [(_record(hit.item), hit.score) for hit in hits if hit.score >= min_score]
        return found[: max(limit, 0)]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that match all given arguments. Return their number."""
        where = _where(scope_prefix, categories, metadata_filter)
        if record_ids is not None:
            where["all"].append({"$id": {"in": record_ids}})
        if older_than is not None:
            where["all"].append({"$time": {"lt": _aware(older_than)}})
        return self._delete(where)

    def update(self, record: MemoryRecord) -> None:
        """Replace the record with the same id, or add it."""
        self.save([record])

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record by its id, or None."""
        item = self._records.get(record_id) if record_id else None
        return None if item is None else _record(item)

    def list_records(
        self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0
    ) -> list[MemoryRecord]:
        """Return the records of a scope and of the scopes below it, newest first."""
        if limit <= 0 or offset < 0:
            return []
        items = self._records.list(
            where=_where(scope_prefix), newest_first=True, limit=limit + offset
        )
        return [_record(item) for item in items[offset:]]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return the number, categories and times of the records in a scope and below it."""
        items = self._records.list(where=_where(scope))
        times = [record.created_at for record in map(_record, items)]
        return ScopeInfo(
            path=_path(scope) or "/",
            record_count=len(items),
            categories=sorted(_categories(items)),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=_children(items, scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes directly below another scope."""
        return _children(self._records.list(where=_where(parent)), parent)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records by category, in a scope and below it."""
        return dict(_categories(self._records.list(where=_where(scope_prefix))))

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records in a scope and below it."""
        if not _path(scope_prefix):
            return len(self._records)
        return len(self._records.list(where=_where(scope_prefix)))

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete the records in a scope and below it, or all records for None."""
        self._delete(_where(scope_prefix))

    def touch_records(self, record_ids: list[str]) -> None:
        """Record that records were accessed."""
        self._records.get(record_ids)

    asave, asearch, adelete = awaited(save), awaited(search), awaited(delete)

    def _delete(self, where: dict[str, Any]) -> int:
        ids = [item.id for item in self._records.list(where=where) if item.id]
        count = self._records.delete(ids) if ids else 0
        if ids and self._deleting == "forget":
            self._records.forget(ids)
        return count


class TextEmbedder:
    """A memory's embedder for CrewAI, which remembers the text of each vector that it made.

    CrewAI passes only a vector to a storage. alveus searches by texts.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._lock = Lock()

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector per text, each of length one."""
        if not self._embedder.dimensions:
            raise InvalidInput(
                f"embedder {self._embedder.name!r} makes no vectors, but CrewAI needs them; "
                "open the memory with another embedder"
            )
        vectors = self._embedder.embed(list(texts))
        with self._lock:
            for text, vector in zip(texts, vectors, strict=True):
                self._texts[_digest(vector)] = text
                self._texts.move_to_end(_digest(vector))
            while len(self._texts) > REMEMBERED:
                self._texts.popitem(last=False)
        return vectors.tolist()

    def text_of(self, vector: Sequence[float]) -> str:
        """Return the text of a vector that this embedder made."""
        if len(vector) != self._embedder.dimensions:
            raise EmbeddingDimensionMismatchError(self._embedder.dimensions, len(vector))
        with self._lock:
            text = self._texts.get(_digest(vector))
        if text is None:
            raise InvalidInput(
                "the vector was not made by the embedder of this storage; pass that embedder: "
                "Memory(storage=storage, embedder=storage.embedder)"
            )
        return text


def _digest(vector: object) -> bytes:
    return hashlib.blake2b(np.asarray(vector, np.float32).tobytes(), digest_size=16).digest()


def _path(scope: str | None) -> str:
    """Return the path of a scope, or "" for all scopes."""
    parts = (scope or "").strip("/")
    return f"/{parts}" if parts else ""


def _where(
    scope: str | None, categories: list[str] | None = None, metadata: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a filter for records in a scope or below it, with a category and the metadata.

    A record matches if it has one of the *categories* and all of the *metadata*.
    """
    every: list[dict[str, Any]] = []
    if path := _path(scope):
        below = {"gte": f"{path}/", "lt": f"{path}0"}  # "0" is what follows "/"
        every.append({"any": [{"$value.scope": path}, {"$value.scope": below}]})
    if categories:
        every.append({"any": [{"$value.categories": {"contains": one}} for one in categories]})
    for name, value in (metadata or {}).items():
        field = "$value.metadata." + name.replace("\\", "\\\\").replace(".", "\\.")
        if value is None:
            every.append({"any": [{field: {"eq": None}}, {field: {"exists": False}}]})
        else:
            every.append({field: {"eq": value}})
    return {"all": every}


def _item(record: MemoryRecord) -> Item:
    """Return a record as an item. Search covers its content."""
    value, replaced = plain_json(record)
    return valid_item(
        Item(
            value={**value, "scope": _path(record.scope) or "/"},
            id=record.id,
            text=record.content,
            importance=record.importance,
            time=_aware(record.created_at),
        ),
        in_value=replaced,
    )


def _record(item: Item) -> MemoryRecord:
    record = MemoryRecord.model_validate(item.value)
    last, read = record.last_accessed, item.accessed
    if read is not None and _aware(last) < read:
        read = read if last.tzinfo else read.replace(tzinfo=None)
        return record.model_copy(update={"last_accessed": read})
    return record


def _aware(time: datetime) -> datetime:
    """Return a time with a zone. A time without one, as CrewAI makes them, is in UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def _categories(items: Sequence[Item]) -> Counter[str]:
    return Counter(category for item in items for category in item.value["categories"])


def _children(items: Sequence[Item], scope: str) -> list[str]:
    """Return the scopes of items directly below a scope."""
    start = f"{_path(scope)}/"
    names = {item.value["scope"].removeprefix(start).split("/")[0] for item in items}
    return sorted(start + name for name in names if name)
