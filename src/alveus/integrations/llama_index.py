"""LlamaIndex: the chat store of its `Memory`, and a memory block with quotations.

The messages of a chat are items of two sets of a key: messages that the model sees, and older
messages that no longer fit. So the length of a chat does not slow down reads of the chat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from alveus.errors import StaleItem
from alveus.integrations.opened import Deleting, OpenedMemory, message_item, plain_json, quoted
from alveus.memory.keys import KeyBatch, KeyMemory
from alveus.memory.memory import Memory
from alveus.store.items import Item

SHOWN, ARCHIVED = "llama_index", "llama_index_archive"
"""The names of the sets of messages without a chat. With a chat, a dot and its id follow."""


class AlveusChatStore(AsyncDBChatStore):
    """Keeps the messages of chats, for ``Memory.from_defaults(session_id=…, chat_store=…)``.

    Each call is one commit, durable when it returns. A cancelled task waits until the commit has
    ended. Any thread and event loop may use it.

    Args:
        memory: A memory, or a path or a URL that the store opens, and closes with `close`.
        key: The owner of the chats, such as a user. What LlamaIndex calls a key is the id of a
            chat, which is a part of the names of the chat's sets.
        deleting: How messages are deleted: "retire" deletes them, and keeps their history for as
            long as the memory keeps it; "forget" erases them, and leaves a receipt.
    """

    _opened: OpenedMemory = PrivateAttr()
    _key: KeyMemory = PrivateAttr()
    _deleting: str = PrivateAttr()

    def __init__(
        self, memory: Memory | str | Path, *, key: str, deleting: Deleting = "retire"
    ) -> None:
        super().__init__()
        self._opened = OpenedMemory(memory, deleting=deleting)
        self._key, self._deleting = self._opened.memory.key(key), deleting

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class."""
        return "AlveusChatStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return messages of a chat, oldest first. The status None selects all messages."""
        items = await self._opened.awaited(lambda: _listed(self._key, key, status))
        start = offset or 0
        return _messages(items[start : None if limit is None else start + limit])

    async def count_messages(
        self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> int:
        """Return the number of messages with a status, or of all for None, without reading them."""

        def count() -> int:
            return sum(len(self._key.set(name)) for name in _names(key, status))

        return await self._opened.awaited(count)

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Append a message."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Append all messages of *messages*, or none."""
        items, (name,) = [_item(message) for message in messages], _names(key, status)
        if items:
            await self._opened.awaited(lambda: self._key.set(name).add_many(items))

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Replace all messages of the chat, in one commit."""
        items, (name,) = [_item(message) for message in messages], _names(key, status)

        def change(batch: KeyBatch) -> list[Item]:
            old = _remove(batch, key, None, None)
            if items:
                batch.set(name).add_many(items)
            return old

        await self._opened.awaited(lambda: self._delete(key, change))

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Delete a message and return it, or return None if there is no message at *idx*.

        Args:
            idx: The position of the message in the whole chat, from 0, oldest first.
        """

        def change(batch: KeyBatch) -> list[Item]:
            return _remove(batch, key, None, slice(idx, idx + 1) if idx >= 0 else slice(0))

        deleted = await self._opened.awaited(lambda: self._delete(key, change))
        return deleted[0] if deleted else None

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete the messages of a chat with a status, or the whole chat for None."""
        await self._opened.awaited(
            lambda: self._delete(key, lambda batch: _remove(batch, key, status, None))
        )

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Delete the first *n* messages that the model sees, and return them."""

        def change(batch: KeyBatch) -> list[Item]:
            return _remove(batch, key, MessageStatus.ACTIVE, slice(max(n, 0)))

        return await self._opened.awaited(lambda: self._delete(key, change))

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Hide the first *n* messages from the model, and return them. Search still finds them."""

        def change(batch: KeyBatch) -> list[Item]:
            moved = _remove(batch, key, MessageStatus.ACTIVE, slice(max(n, 0)))
            if moved:
                batch.set(_set_of(ARCHIVED, key)).add_many(
                    [_moved(item) for item in moved],
                    on_existing="keep",  # a concurrent call was faster; this one retries
                )
            return moved

        return _messages(await self._opened.awaited(lambda: self._key.commit(change)))

    async def get_keys(self) -> list[str]:
        """Return the ids of the chats that have a message."""

        def read() -> list[str]:
            ids = {
                name.removeprefix(prefix)
                for prefix in (_set_of(SHOWN, ""), _set_of(ARCHIVED, ""))
                for name, count in self._key.sets(prefix=prefix, counts=True).items()
                if count
            }
            return sorted(ids)

        return await self._opened.awaited(read)

    def close(self) -> None:
        """Close the memory, if the store opened it. Later calls raise `StoreClosed`."""
        self._opened.close()

    def _delete(self, key: str, change: Callable[[KeyBatch], list[Item]]) -> list[ChatMessage]:
        deleted = self._key.commit(change)
        if deleted and self._deleting == "forget":
            for name in _names(key, None):
                self._key.set(name).forget([item.id for item in deleted if item.id])
        return _messages(deleted)


class AlveusMemoryBlock(BaseMemoryBlock[str]):
    """Quotes a key's memory about the last message to the model, as data.

    Messages that the model sees anyway are left out. Messages that no longer fit are stored, unless
    an `AlveusChatStore` of the same key stores the chat.

    Args:
        memory: A memory, or a path or a URL that the block opens, and closes with `close`.
        key: The owner of the memory, such as a user.
        budget_tokens: The most tokens of the quotation.
        options: Further arguments of `KeyMemory.context`: ``profile where signals limit`` and more.
        name, description, priority, accept_short_term_memory: The arguments of any block of
            LlamaIndex.
    """

    _opened: OpenedMemory = PrivateAttr()
    _key: KeyMemory = PrivateAttr()
    _budget_tokens: int = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()

    def __init__(
        self,
        memory: Memory | str | Path,
        *,
        key: str,
        budget_tokens: int = 1_000,
        options: dict[str, Any] | None = None,
        name: str = "Remembered",
        **fields: Any,  # noqa: ANN401 - LlamaIndex's
    ) -> None:
        super().__init__(name=name, **fields)
        self._opened = OpenedMemory(memory)
        self._key = self._opened.memory.key(key)
        self._budget_tokens, self._options = budget_tokens, dict(options or {})

    async def _aget(
        self,
        messages: list[ChatMessage] | None = None,
        *,
        session_id: str | None = None,
        **_: Any,  # noqa: ANN401 - LlamaIndex's
    ) -> str:
        """Return the quotation for the last message of the user, or "" if there is none."""
        said = [one.content for one in messages or () if one.role == MessageRole.USER]
        query = next((text for text in reversed(said) if text), None)
        if query is None:
            return ""
        return await self._opened.awaited(
            lambda: quoted(
                self._key,
                query,
                budget_tokens=self._budget_tokens,
                options=self._options,
                hidden=_set_of(SHOWN, session_id),
            )
        )

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store all messages of a chat, or none.

        A chat that an `AlveusChatStore` of the same key stores is left out.
        """
        chats: dict[str | None, list[Item]] = {}
        for message in messages:
            kept = message.model_copy(update={"additional_kwargs": {**message.additional_kwargs}})
            session_id = kept.additional_kwargs.pop("session_id", None)
            chats.setdefault(session_id, []).append(_item(kept))
        for session_id, items in chats.items():
            await self._opened.awaited(lambda s=session_id, i=items: self._add(s, i))

    def _add(self, session_id: str | None, items: Sequence[Item]) -> None:
        if _set_of(SHOWN, session_id) not in self._key.sets(prefix=SHOWN):
            self._key.set(_set_of(ARCHIVED, session_id)).add_many(items)

    def close(self) -> None:
        """Close the memory, if the block opened it. Later calls raise `StoreClosed`."""
        self._opened.close()


def _set_of(part: str, chat: str | None) -> str:
    return part if chat is None else f"{part}.{chat}"


def _names(key: str, status: MessageStatus | None) -> list[str]:
    """Return the names of a status's sets. A reader in this order misses no message that moves."""
    names = {
        MessageStatus.ACTIVE: _set_of(SHOWN, key),
        MessageStatus.ARCHIVED: _set_of(ARCHIVED, key),
    }
    return list(names.values()) if status is None else [names[status]]


def _listed(owner: KeyMemory | KeyBatch, key: str, status: MessageStatus | None) -> list[Item]:
    """Return items in order of time. Of items with the same time, archived items are first."""
    items: dict[str | None, Item] = {}
    for name in _names(key, status):
        found = {item.id: item for item in owner.set(name).list()}
        items = {**found, **{id: item for id, item in items.items() if id not in found}}
    return sorted(items.values(), key=_time)


def _time(item: Item) -> datetime:
    assert item.time is not None  # noqa: S101 - it is in a set
    return item.time


def _remove(
    batch: KeyBatch, key: str, status: MessageStatus | None, part: slice | None
) -> list[Item]:
    """Delete items with a status, in order of time, and return them.

    Args:
        status: None means any status.
        part: The part of the ordered items that is deleted. None means all.
    """
    items = _listed(batch, key, status)[part or slice(None)]
    ids = [item.id for item in items if item.id]
    deleted = sum(batch.set(name).delete(ids) for name in _names(key, status)) if ids else 0
    if deleted != len(ids):
        raise StaleItem(ids[0], expected=items[0].version, found=None)  # the commit is repeated
    return items


def _item(message: ChatMessage) -> Item:
    return message_item(plain_json(message), message.role.value, message.content or "")


def _moved(item: Item) -> Item:
    """Return an item for another set, with the same time."""
    return Item(
        value=item.value,
        id=item.id,
        text=item.text,
        metadata=item.metadata,
        role=item.role,
        time=item.time,
    )


def _messages(items: Sequence[Item]) -> list[ChatMessage]:
    return [ChatMessage.model_validate(item.value) for item in items]
