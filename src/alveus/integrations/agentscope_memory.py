"""AgentScope 1.0: the long-term memory of an agent. For AgentScope 2 see `agentscope_middleware`.

The messages of an agent, and the texts it chooses to remember, are items of a set of a key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from agentscope.memory import LongTermMemoryBase
from agentscope.message import Msg, TextBlock
from agentscope.tool import ToolResponse

from alveus.errors import AlveusError, InvalidInput, InvalidValue
from alveus.integrations.opened import OpenedMemory, message_item, shown_items
from alveus.llm.answer_reader import text_said
from alveus.memory.keys import KeyBatch
from alveus.memory.memory import Memory
from alveus.store.items import Item, valid_item
from alveus.values.ids import Kind, identity_key
from alveus.values.storable import ValidText

NAME = "agentscope"
"""The set of the memories."""

KINDS: Mapping[str, Kind] = {
    "user": "agentscope.user",
    "agent": "agentscope.agent",
    "run": "agentscope.run",
}
"""The kinds of identities, by AgentScope's names."""

NOTE = "long_term_memory"
"""The author's name on messages by which AgentScope passes memories to an agent."""


class AlveusLongTermMemory(OpenedMemory, LongTermMemoryBase):
    """Remembers messages, for ``ReActAgent(long_term_memory=…)``.

    Each call is one commit, durable when it returns. A message is stored once, however often its
    conversation is recorded, and not again after its deletion. A cancelled task waits for the
    commit.

    Args:
        memory: A memory, or a path or a URL that this object opens, and closes with `close`.
        agent_name: The name of an agent. As in AgentScope's memory, records keep the names that
            are passed, and a search finds only records with all of these names.
        user_name: The name of a user.
        run_name: The name of a run.
        key: The owner of the memory. By default, the key is made of the user's name, such as
            ``agentscope.user:NAME``, or else of the agent's name, or else of the run's name.
    """

    def __init__(
        self,
        memory: Memory | str | Path,
        *,
        agent_name: str | None = None,
        user_name: str | None = None,
        run_name: str | None = None,
        key: str | None = None,
    ) -> None:
        LongTermMemoryBase.__init__(self)
        names = {"user": user_name, "agent": agent_name, "run": run_name}
        self._names = {name: value for name, value in names.items() if value}
        if not self._names:
            raise InvalidInput(
                "agent_name, user_name and run_name are all empty; pass at least one of them"
            )
        OpenedMemory.__init__(self, memory)
        first, name = next(iter(self._names.items()))
        self._key = self.memory.key(key or identity_key(KINDS[first], name))

    async def record(
        self,
        msgs: list[Msg | None],
        **_: Any,  # noqa: ANN401 - AgentScope's
    ) -> list[str]:
        """Record messages that are not stored yet. Return their ids.

        AgentScope's messages about this memory are left out.
        """
        messages = [one for one in _checked(msgs) if one.name != NOTE and _text(one)]
        items = {one.id: self._item(one) for one in messages}

        def change(batch: KeyBatch) -> list[str]:
            kept = batch.set(NAME)
            new = [item for item in items.values() if item.id and not kept.history(item.id)]
            return kept.add_many(new) if new else []

        return await self.awaited(lambda: self._key.commit(change))

    async def retrieve(
        self,
        msg: Msg | list[Msg] | None,
        limit: int | None = None,
        **_: Any,  # noqa: ANN401 - AgentScope's
    ) -> str:
        """Return memories that messages need, one per line, the best for each message first.

        A small memory is returned whole, and a message that needs no memory gets none; see
        `KeyMemory.context`.

        Args:
            limit: The most memories for a message. By default, they need at most 1,000 tokens.
        """
        queries = [_text(one) for one in _checked(msg)]
        options = {"sets": [NAME], "where": dict(self._names), "limit": limit}

        def search() -> list[str]:
            texts = dict[str, None]()
            for query in filter(None, queries):
                pieces = shown_items(self._key, query, options=options)
                texts |= dict.fromkeys(piece.text for piece in pieces)
            return list(texts)

        return "\n".join(await self.awaited(search))

    async def record_to_memory(
        self,
        thinking: str,  # noqa: ARG002 - AgentScope's: a model thinks first
        content: list[str],
        **_: Any,  # noqa: ANN401 - AgentScope's
    ) -> ToolResponse:
        """Remember what will matter later. Say who, when, where and what, each a whole sentence.

        Args:
            thinking (`str`):
                Why it is worth remembering. This is not stored.
            content (`list[str]`):
                What to remember.
        """
        items = [valid_item(Item(value=text, metadata=self._names)) for text in content]
        try:
            await self.awaited(lambda: self._key.set(NAME).add_many(items))
        except AlveusError as error:
            return _response(f"Nothing was remembered: {error}")
        return _response(f"Remembered: {len(items)}.")

    async def retrieve_from_memory(
        self,
        keywords: list[str],
        limit: int = 5,
        **_: Any,  # noqa: ANN401 - AgentScope's
    ) -> ToolResponse:
        """Search what is remembered.

        Args:
            keywords (`list[str]`):
                Short phrases, such as a name, a place, a date or a topic; each is a search.
            limit (`int`, optional):
                The most that a keyword finds.
        """
        try:
            texts = await self._found(keywords, limit)
        except AlveusError as error:
            return _response(f"The search failed: {error}")
        return _response("\n".join(texts) or "Nothing is remembered about that.")

    async def _found(self, queries: Sequence[str], limit: int) -> list[str]:
        """Search for each query. Return the texts that were found, each once."""

        def search() -> list[str]:
            kept, texts = self._key.set(NAME), dict[str, None]()
            for query in filter(None, queries):
                hits = kept.search(query, limit=limit, where=dict(self._names))
                texts |= dict.fromkeys(hit.item.text or "" for hit in hits)
            return list(texts)

        return await self.awaited(search)

    def _item(self, message: Msg) -> Item:
        """Return a message as an item. Search covers its text."""
        given: dict[str, Any] = message.to_dict()  # pyright: ignore[reportUnknownMemberType] - AgentScope says only "dict"
        return message_item(
            ValidText({**given, "invocation_id": message.invocation_id}, 0),
            message.role,
            _text(message),
            id=json.dumps([message.id, self._names]),  # agents of one user receive the same message
            metadata=self._names,
            speaker=message.name or None,
        )


def _response(text: str) -> ToolResponse:
    return ToolResponse(content=[TextBlock(type="text", text=text)])


def _checked(messages: object) -> list[Msg]:
    """Return messages as a list without None."""
    given = cast("list[object]", messages) if isinstance(messages, list) else [messages]
    for one in given:
        if not isinstance(one, Msg | None):
            raise InvalidValue("a message", f"it must be a Msg, not {type(one).__name__}")
    return [one for one in given if isinstance(one, Msg)]


def _text(message: Msg) -> str:
    """Return the text of a message, without a model's thoughts."""
    return text_said(message.role, message.get_text_content() or "")
