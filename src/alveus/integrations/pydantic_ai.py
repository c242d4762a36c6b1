"""A conversation store of PydanticAI. Searches of the memory find its messages.

The record of a conversation is a value of exact memory, and its messages are items of a set. One
commit changes both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from alveus.integrations.opened import Deleting, OpenedMemory
from alveus.llm import answer_text
from alveus.memory.keys import KeyBatch, KeyMemory
from alveus.memory.memory import Memory
from alveus.sets import MemorySet
from alveus.store.items import Item, valid_item
from alveus.values.ids import identity_key
from alveus.values.storable import valid_text

ROOT = "pydantic_ai"
"""The object of exact memory that holds the records, by the ids of the conversations."""

SET = "pydantic_ai"

KEY = identity_key("pydantic_ai.store", "default")
"""The default key of the conversations."""

_RECORDS: TypeAdapter[ConversationRecord] = TypeAdapter(ConversationRecord)


class AlveusConversationStore(OpenedMemory, ConversationStore):
    """Keeps conversations of agents, for ``await store.save(await agent.run(…))``.

    A save is one commit of the record and its new messages, durable when it returns. Of two saves
    that continue the same conversation, one is refused with `ConversationConflict`. A cancelled
    task waits until the commit has ended.

    Args:
        memory: A memory, or a path or a URL that the store opens, and closes with `close`.
        key: The owner of the conversations, such as a user.
        deleting: How conversations are deleted: "retire" keeps the history of a conversation for as
            long as the memory keeps it; "forget" erases its messages, and leaves a receipt.
    """

    def __init__(
        self, memory: Memory | str | Path, *, key: str = KEY, deleting: Deleting = "retire"
    ) -> None:
        super().__init__(memory, deleting=deleting)
        self._key = self.memory.key(key)
        self._entries = self._key.set(SET)

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None if there is none."""
        return await self.awaited(lambda: _record(self._key, conversation_id))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return records, last saved first. With a *scope*, return only the scope's records."""
        records = await self.awaited(lambda: _all_records(self._key))
        chosen = [one for one in records if scope is None or one.scope == scope]
        chosen.sort(key=lambda record: record.updated_at, reverse=True)
        return chosen[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new messages, all or nothing.

        Raises:
            ConversationConflict: The stored record does not have the revision *expected_revision*,
                or the last message of the record was deleted.
        """
        items = [_item(entry) for entry in new_entries]

        def change(batch: KeyBatch) -> None:
            stored, entries = _record(batch, record.conversation_id), batch.set(SET)
            if _revision(stored) != expected_revision:
                raise ConversationConflict(record.conversation_id)
            if items:
                entries.add_many(items)
            if record.head_id is not None and record.head_id not in entries:
                raise ConversationConflict(record.conversation_id)
            value = valid_text(_RECORDS.dump_python(record, mode="json")).value
            batch.short_term.set((ROOT, record.conversation_id), value)

        await self.awaited(lambda: self._key.commit(change))

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete a record, and the messages that no other conversation has.

        Raises:
            ConversationConflict: The stored record does not have the revision *expected_revision*,
                or does not exist.
        """

        def change(batch: KeyBatch) -> list[str]:
            if _revision(_record(batch, conversation_id)) != expected_revision:
                raise ConversationConflict(conversation_id)
            batch.short_term.delete((ROOT, conversation_id))
            entries = batch.set(SET)
            parents = {item.id: item.value["parent"] for item in entries.list()}
            reached: set[str | None] = {None}
            for record in _all_records(batch):
                for tip in (record.head_id, *record.branches):
                    entry_id = tip
                    while entry_id not in reached:
                        reached.add(entry_id)
                        entry_id = parents.get(entry_id)
            left = [entry_id for entry_id in parents if entry_id and entry_id not in reached]
            entries.delete(left)
            return left

        def delete() -> None:
            left = self._key.commit(change)
            if self._deleting == "forget" and left:
                self._entries.forget(left)

        await self.awaited(delete)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return a message with its id and the id of its parent.

        Raises:
            LookupError: The message does not exist.
        """
        return await self.awaited(lambda: _entry(self._entries, entry_id))

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the messages up to *head_id*, oldest first. A *limit* returns only the last."""

        def read() -> list[ConversationEntry]:
            history: list[ConversationEntry] = []
            entry_id = head_id
            while entry_id is not None and (limit is None or len(history) < limit):
                history.append(_entry(self._entries, entry_id))
                entry_id = history[-1].parent_id
            return history[::-1]

        return await self.awaited(read)


def _record(owner: KeyMemory | KeyBatch, conversation_id: str) -> ConversationRecord | None:
    value = owner.short_term.get((ROOT, conversation_id), None)
    return None if value is None else _RECORDS.validate_python(value)


def _all_records(owner: KeyMemory | KeyBatch) -> list[ConversationRecord]:
    if ROOT not in owner.short_term:
        return []
    values = cast("dict[str, Any]", owner.short_term.get_object(ROOT).to_dict())
    return [_RECORDS.validate_python(value) for value in values.values()]


def _revision(record: ConversationRecord | None) -> str | None:
    return None if record is None else record.revision


def _entry(entries: MemorySet, entry_id: str) -> ConversationEntry:
    item = entries.get(entry_id)
    if item is None:
        raise LookupError(f"there is no message {entry_id!r}; it was deleted")
    (message,) = ModelMessagesTypeAdapter.validate_python([item.value["message"]])
    return ConversationEntry(id=entry_id, parent_id=item.value["parent"], message=message)


def _item(entry: ConversationEntry) -> Item:
    """Return a message as an item. Search covers its texts."""
    messages = [entry.message]
    fields = valid_text(ModelMessagesTypeAdapter.dump_python(messages))
    if fields.replaced:  # see `plain_json`
        messages = ModelMessagesTypeAdapter.validate_python(fields.value)
    (message,) = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    return valid_item(
        Item(
            value={"parent": entry.parent_id, "message": message},
            id=entry.id,
            text="\n".join(_said(messages[0])),
            role="assistant" if entry.message.kind == "response" else "user",
        ),
        in_value=fields.replaced,
    )


def _said(message: ModelMessage) -> list[str]:
    """Return the texts of a message, without instructions to the model and its thoughts."""
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            texts.append(f"{part.tool_name} {part.args_as_json_str()}")
        elif isinstance(part, TextPart):
            texts.append(answer_text(part.content))
        elif isinstance(part, (ToolReturnPart, UserPromptPart)):
            content: object = part.content
            several = cast("list[object]", content) if isinstance(content, list) else [content]
            texts += [one for one in several if isinstance(one, str)]
    return texts
