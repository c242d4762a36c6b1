"""Microsoft Agent Framework: the history of sessions, and memories for an input.

The messages of a session are items of a set of a key, so a later run finds the session again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_framework import (
    AgentSession,
    ContextProvider,
    HistoryProvider,
    Message,
    SessionContext,
    SupportsAgentRun,
)

from alveus.integrations.opened import OpenedMemory, message_item, quoted
from alveus.memory.memory import Memory
from alveus.store.items import Item
from alveus.values.storable import ValidText

NO_SESSION = "agent_session"
"""The name of the set of an agent without a session. With one, a dot and its id follow."""


def _set_of(session_id: str | None) -> str:
    return NO_SESSION if session_id is None else f"{NO_SESSION}.{session_id}"


class AlveusHistoryProvider(OpenedMemory, HistoryProvider):
    """Keeps the messages of sessions, for ``Agent(context_providers=[…])``.

    The messages of a run are one commit, durable when the run ends. A message with an id is stored
    once, however often the framework passes it. A cancelled task waits for the commit.

    Args:
        memory: A memory, or a path or a URL that the provider opens, and closes with `close`.
        key: The owner of the sessions, such as a user. The session with the id ID is the set
            ``agent_session.ID`` of this key.
        skip_excluded: As in the framework's providers: messages marked as excluded when they were
            stored are not returned.
        options: ``load_messages store_inputs store_outputs store_context_messages
            store_context_from`` of the framework's `HistoryProvider`.
    """

    DEFAULT_SOURCE_ID = "alveus_history"

    def __init__(
        self,
        memory: Memory | str | Path,
        *,
        key: str,
        source_id: str = DEFAULT_SOURCE_ID,
        skip_excluded: bool = False,
        **options: Any,  # noqa: ANN401 - the framework's
    ) -> None:
        HistoryProvider.__init__(self, source_id, **options)
        self.skip_excluded = skip_excluded
        OpenedMemory.__init__(self, memory)
        self._key = self.memory.key(key)

    async def get_messages(
        self,
        session_id: str | None,
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002 - the framework's
        **_: Any,  # noqa: ANN401 - the framework's
    ) -> list[Message]:
        """Return the messages of a session, oldest first."""
        kept = self._key.set(_set_of(session_id))
        items = await self.awaited(kept.list)
        messages = [Message.from_dict(item.value) for item in items]
        if self.skip_excluded:
            return [one for one in messages if not one.additional_properties.get("_excluded")]
        return messages

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002 - the framework's
        **_: Any,  # noqa: ANN401 - the framework's
    ) -> None:
        """Append all messages of *messages*, or none if one cannot be stored."""
        kept = self._key.set(_set_of(session_id))
        items: dict[str | int, Item] = {}
        for position, message in enumerate(messages):
            items.setdefault(message.message_id or position, _item(message))
        if items:
            await self.awaited(lambda: kept.add_many(list(items.values()), on_existing="keep"))


class AlveusContextProvider(OpenedMemory, ContextProvider):
    """Quotes a key's memory about an input to the model. Stores nothing.

    The quotation is one user message before the input. The messages of the session are not quoted,
    as the `AlveusHistoryProvider` of the session returns them.

    Args:
        memory: A memory, or a path or a URL that the provider opens, and closes with `close`.
        key: The owner of the memory, such as a user.
        budget_tokens: The most tokens of the message.
        options: Further arguments of `KeyMemory.context`: ``profile where signals limit`` and more.
    """

    DEFAULT_SOURCE_ID = "alveus_memory"

    def __init__(
        self,
        memory: Memory | str | Path,
        *,
        key: str,
        budget_tokens: int = 1_000,
        source_id: str = DEFAULT_SOURCE_ID,
        **options: Any,  # noqa: ANN401 - of KeyMemory.context
    ) -> None:
        ContextProvider.__init__(self, source_id)
        OpenedMemory.__init__(self, memory)
        self._key = self.memory.key(key)
        self._budget_tokens, self._options = budget_tokens, options

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,  # noqa: ARG002 - the framework's
        session: AgentSession,  # noqa: ARG002 - the framework's
        context: SessionContext,
        state: dict[str, Any],  # noqa: ARG002 - the framework's
    ) -> None:
        """Add the quotation for the input, or a sentence that nothing was found."""
        query = "\n".join(message.text for message in context.input_messages if message.text)
        if query:
            found = await self.awaited(
                lambda: quoted(
                    self._key,
                    query,
                    budget_tokens=self._budget_tokens,
                    options=self._options,
                    hidden=_set_of(context.session_id),
                )
            )
            if found:
                context.extend_messages(self, [Message(role="user", contents=[found])])


def _item(message: Message) -> Item:
    return message_item(
        ValidText(message.to_dict(), 0),
        message.role,
        message.text or "",
        id=message.message_id or None,
        speaker=message.author_name or None,
    )
