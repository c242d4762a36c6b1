"""Google's Agent Development Kit: a memory service for the events of sessions.

Events with text are items of a set of a user, so an agent finds the events of other sessions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from alveus.errors import InvalidInput
from alveus.integrations.opened import Deleting, OpenedMemory, message_item, plain_json, shown_items
from alveus.llm.answer_reader import text_said
from alveus.memory.keys import KeyBatch, KeyMemory
from alveus.memory.memory import Memory
from alveus.store.items import Item
from alveus.values.ids import identity_key
from alveus.values.times import Zone

ROOT = "google_adk"
"""The name below which exact memory records deleted events, so that no session adds them again."""


class AlveusMemoryService(OpenedMemory, BaseMemoryService):
    """Remembers the events of sessions, for ``Runner(memory_service=…)``.

    The events of a user and an app are in the set ``google_adk.APP`` of the key
    ``google_adk.user:ID``. Each call is one commit, durable when it returns. A cancelled task waits
    for the commit.

    Args:
        memory: A memory, or a path or a URL that the service opens, and closes with `close`.
        limit: The most hits of a search, whatever their relevance. By default, a search returns the
            memories that a prompt of 1,000 tokens shows: all of a small memory, none for "Hello".
        deleting: How `delete_memory` deletes: "retire" deletes the item, and keeps its history for
            as long as the memory keeps it; "forget" erases it, and leaves a receipt.
    """

    def __init__(
        self,
        memory: Memory | str | Path,
        *,
        limit: int | None = None,
        deleting: Deleting = "retire",
    ) -> None:
        super().__init__(memory, deleting=deleting)
        self._limit = limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Add the new events of a session."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add events. An event that is stored already, or was deleted, is left out.

        Args:
            custom_metadata: Facts to filter by, added to each event.
        """
        zone = self._key(user_id).inside.writer.timezone
        items = [
            _item(
                event.content,
                event.id,
                event.author,
                custom_metadata,
                session_id=session_id,
                time=zone.local(datetime.fromtimestamp(event.timestamp, UTC)),
            )
            for event in events
            if event.content and _parts(event.content) and not event.partial
        ]
        await self._add(app_name, user_id, items)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add entries. An entry whose id is stored already, or was deleted, is left out.

        Args:
            custom_metadata: Facts to filter by, added to the metadata of each entry.
        """
        zone = self._key(user_id).inside.writer.timezone
        items = [
            _item(
                entry.content,
                entry.id,
                entry.author,
                {**(custom_metadata or {}), **entry.custom_metadata},
                time=_time(entry.timestamp, zone),
            )
            for entry in memories
        ]
        await self._add(app_name, user_id, items)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Return the memories that the query needs, or the nearest *limit*, best first."""
        key, name = self._key(user_id), _set_of(app_name)
        kept = key.set(name)

        def search() -> list[MemoryEntry]:
            if self._limit is not None:
                return [_entry(hit.item) for hit in kept.search(query, limit=self._limit)]
            pieces = shown_items(key, query, options={"sets": [name]})
            found = kept.get([piece.ids[0] for piece in pieces])
            return [_entry(item) for item in found if item is not None]

        return SearchMemoryResponse(memories=await self.awaited(search))

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Delete the memory *memory_id*, so that no later call adds it again."""
        if memory_id:
            key, name = self._key(user_id), _set_of(app_name)
            await self.awaited(lambda: self._delete(key, name, memory_id))

    def _key(self, user_id: str) -> KeyMemory:
        return self.memory.key(identity_key("google_adk.user", user_id))

    async def _add(self, app_name: str, user_id: str, items: list[Item]) -> None:
        key, name = self._key(user_id), _set_of(app_name)

        def change(batch: KeyBatch) -> None:
            new, seen = list[Item](), set[str]()
            for one in items:
                if one.id is None:
                    new.append(one)
                elif one.id not in seen and (ROOT, name, one.id) not in batch.short_term:
                    new.append(one)
                    seen.add(one.id)
            if new:
                batch.set(name).add_many(new, on_existing="keep")

        if items:
            await self.awaited(lambda: key.commit(change))

    def _delete(self, key: KeyMemory, name: str, memory_id: str) -> None:
        def change(batch: KeyBatch) -> None:
            if batch.set(name).delete(memory_id):
                batch.short_term.set((ROOT, name, memory_id), value=True)

        key.commit(change)
        # Reads the history, so that a second call finishes the deletion of a killed process.
        if self._deleting == "forget" and key.set(name).history(memory_id):
            key.set(name).forget(memory_id)


def _set_of(app_name: str) -> str:
    return f"google_adk.{app_name}"


def _parts(content: types.Content) -> list[types.Part]:
    """Return the parts of a content, without a model's thoughts."""
    return [
        part.model_copy(update={"text": text_said(content.role, part.text)}) if part.text else part
        for part in content.parts or ()
        if not part.thought
    ]


def _item(
    content: types.Content,
    item_id: str | None,
    author: str | None,
    metadata: Mapping[str, Any] | None,
    *,
    time: datetime | None,
    session_id: str | None = None,
) -> Item:
    """Return a content as an item, without thoughts. Search covers its texts."""
    content = content.model_copy(update={"parts": _parts(content)})
    return message_item(
        plain_json(content, exclude_none=True),
        "assistant" if content.role == "model" else content.role,
        " ".join(part.text for part in content.parts or () if part.text),
        id=item_id or None,
        metadata=dict(metadata or {}),
        speaker=author or None,
        session=session_id or None,
        time=time,
    )


def _entry(item: Item) -> MemoryEntry:
    return MemoryEntry(
        content=types.Content.model_validate(item.value),
        custom_metadata=dict(item.metadata),
        id=item.id,
        author=item.speaker,
        timestamp=item.time.isoformat() if item.time else None,
    )


def _time(timestamp: str | None, zone: Zone) -> datetime | None:
    """Return the time of an entry. A time without a zone is in the memory's zone."""
    if not timestamp:
        return None
    try:
        return zone.instant(datetime.fromisoformat(timestamp))
    except ValueError:
        problem = f"the timestamp of a memory must be a date of ISO 8601, not {timestamp!r}"
        raise InvalidInput(problem) from None
