"""Conversations behind a server: each call is a request."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from alveus.conversation import ConversationMemory, Said, message_items
from alveus.memory.async_calls import Access, AsyncConversation
from alveus.memory.memory import Memory
from alveus.memory.remote.calls import ask_for, calls_of, sends
from alveus.memory.remote.remote_sets import RemoteSet, RemoteWriter
from alveus.sets import MemorySet
from alveus.store import SetRef
from alveus.values.times import Zone


@sends(AsyncConversation)
class RemoteConversation(ConversationMemory):
    """A conversation behind a server; calls not defined here go to its set."""

    def __init__(self, writer: RemoteWriter, ref: SetRef, zone: Zone | None = None) -> None:
        super().__init__(writer, ref, zone)
        self.calls = writer.calls

    @property
    def _set(self) -> MemorySet:
        return RemoteSet(self._writer, self._ref, {})

    def place(self, _: Access) -> dict[str, Any]:
        """See `Remote.place`."""
        zone = {} if self._zone is None else {"timezone": self._zone.name(datetime.now(UTC))}
        return {"conversation": self.name, **zone}

    def twin(self, memory: Memory) -> ConversationMemory:
        """See `Remote.twin`."""
        return memory.key(self._ref.scope.key or "").conversation(self.name)

    def add(
        self,
        messages: Said | Iterable[Said] | None,
        marks: str | Iterable[str] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """See `ConversationMemory.add`."""
        said = message_items.listed(messages)
        if not said:
            message_items.checked_marks(marks)
            return []
        once: dict[str, Any] = {"idempotency_key": idempotency_key}
        keeps = idempotency_key is not None
        return ask_for(_ADD, self, (said, marks), once, keeps_times=keeps)


_ADD = calls_of(AsyncConversation)["conversation.add"]
