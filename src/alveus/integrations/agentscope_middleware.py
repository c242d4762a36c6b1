"""AgentScope 2: long-term memory of an agent, as a middleware. For 1.0 see `agentscope_memory`.

The messages of a turn are items of a set of the user's key.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Literal, cast

from agentscope.agent import Agent
from agentscope.event import ReplyStartEvent
from agentscope.message import HintBlock, Msg, TextBlock, ToolResultState
from agentscope.middleware import MiddlewareBase
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.tool import ToolBase, ToolChunk

from alveus.errors import AlveusError, InvalidInput
from alveus.integrations.opened import OpenedMemory, message_item, plain_json, quoted
from alveus.llm.answer_reader import text_said
from alveus.memory.keys import KeyBatch
from alveus.memory.memory import Memory
from alveus.store.items import Item, valid_item
from alveus.values.ids import identity_key
from alveus.values.storable import choice

NO_AGENT = "agentscope_middleware"
"""The name of the set of a middleware without an *agent_id*."""

MODES = ("static_control", "agent_control", "both")

INSTRUCTIONS = (
    "## Long-term memory\n\n"
    "The tools `search_memory` and `add_memory` reach what is remembered of earlier "
    "conversations. Search before you answer what depends on it, and add what will matter later."
)

logger = logging.getLogger(__name__)


class AlveusMiddleware(OpenedMemory, MiddlewareBase):
    """Remembers turns and quotes memories for later turns, for ``Agent(middlewares=[…])``.

    A turn is one commit, durable when the reply ends, and stored once, however often the turn is
    repeated. If a search fails, the agent replies without a quotation, and a warning is logged. If
    a turn cannot be stored, the error is raised. A cancelled task waits for the commit.

    Args:
        memory: A memory, or a path or a URL that the middleware opens, and closes with `close`.
        user_id: The owner of the memory: the key ``agentscope.user:ID``.
        mode: "static_control" quotes and remembers automatically. "agent_control" gives the agent
            the tools ``search_memory`` and ``add_memory``: pass `list_tools` to its toolkit.
            "both" does both.
        agent_id: The id of the agent. Each agent id has a separate set.
        top_k: The most quoted items. By default, *budget_tokens* alone limits them.
        scope_search_by_agent: True to search only the agent's set, if *agent_id* is given. False
            to search all sets of the user.
        budget_tokens: The most tokens of the quotation.
        key: A key that is used instead of the user's key, to share its memory.
    """

    def __init__(  # noqa: PLR0913 - as AgentScope's middleware, and all but one by name
        self,
        memory: Memory | str | Path,
        *,
        user_id: str,
        mode: Literal["static_control", "agent_control", "both"] = "both",
        agent_id: str | None = None,
        top_k: int | None = None,
        scope_search_by_agent: bool = True,
        budget_tokens: int = 1_000,
        key: str | None = None,
    ) -> None:
        if not user_id.strip():
            raise InvalidInput("user_id is empty; pass the id of the user")
        choice(mode, "mode", *MODES)
        super().__init__(memory)
        self._key = self.memory.key(key or identity_key("agentscope.user", user_id))
        self._name = f"agentscope.{agent_id}" if agent_id else NO_AGENT
        self._is_scoped = bool(agent_id) and scope_search_by_agent
        self._mode, self._top_k, self._budget_tokens = mode, top_k, budget_tokens

    async def on_reply(
        self,
        agent: Agent,
        input_kwargs: dict[str, Any],
        next_handler: Callable[..., AsyncGenerator[Any, None]],
    ) -> AsyncGenerator[Any, None]:
        """Quote memories while the agent replies, then remember the turn."""
        asked = _asked(input_kwargs.get("inputs"))
        if self._mode == "agent_control" or not asked:
            async for event in next_handler(**input_kwargs):
                yield event
            return
        note = await self._note(asked, [message.id for message in agent.state.context])
        reply: Msg | None = None
        try:
            async for event in next_handler(**input_kwargs):
                if isinstance(event, ReplyStartEvent) and note is not None:
                    agent.state.context.append(note)
                if isinstance(event, Msg) and event.role == "assistant":
                    reply = event
                yield event
        finally:  # the quotation is neither stored nor shown again
            context = agent.state.context
            context[:] = [message for message in context if message is not note]
        if reply is not None:
            await self._remember(asked, reply, agent.state.session_id)

    async def on_system_prompt(self, agent: Agent, current_prompt: str) -> str:  # noqa: ARG002 - AgentScope's
        """Return the prompt, followed by an explanation of the tools if the agent has them."""
        if self._mode == "static_control":
            return current_prompt
        return f"{current_prompt}\n\n{INSTRUCTIONS}"

    async def list_tools(self) -> list[ToolBase]:
        """Return the tools of the agent. In the mode "static_control", there are none."""
        if self._mode == "static_control":
            return []
        return [SearchMemoryTool(self), AddMemoryTool(self)]

    async def find(self, query: str, *, limit: int) -> list[str]:
        """Return remembered texts, best first."""

        def search() -> list[str]:
            hits = self._key.search(query, sets=self._sets(), limit=limit)
            return [hit.item.text or "" for hit in hits]

        return await self.awaited(search)

    async def add(self, texts: list[str]) -> None:
        """Remember texts, all or none."""
        items = [valid_item(Item(text)) for text in texts]
        await self.awaited(lambda: self._key.set(self._name).add_many(items))

    def _sets(self) -> list[str]:
        return [self._name] if self._is_scoped else self._key.sets()

    async def _note(self, asked: list[Msg], shown: list[str]) -> Msg | None:
        """Return the quotation for the model, or None if there is none.

        Messages that the model sees anyway are not quoted.
        """
        query = "\n".join(message.get_text_content() or "" for message in asked)

        def quotation() -> str:
            options = {
                "sets": self._sets(),
                "limit": self._top_k,
                "where": {"not": {"$id": {"in": shown}}},
            }
            return quoted(self._key, query, budget_tokens=self._budget_tokens, options=options)

        try:
            hint = await self.awaited(quotation)
        except AlveusError:
            logger.warning("a search failed; the agent replies without it", exc_info=True)
            return None
        return (
            Msg(name="memory", role="assistant", content=[HintBlock(hint=hint)]) if hint else None
        )

    async def _remember(self, asked: list[Msg], reply: Msg, session: str) -> None:
        """Store a turn, unless its question is stored already.

        A second answer to the question has another id, so the id of the answer cannot show that.
        """
        said = [message for message in (*asked, reply) if _text(message)]
        items = [_item(message, session) for message in said]

        def change(batch: KeyBatch) -> None:
            kept = batch.set(self._name)
            if not kept.history(asked[-1].id):
                kept.add_many(items, on_existing="keep")

        await self.awaited(lambda: self._key.commit(change))


class MemoryTool(ToolBase):
    """A tool of an `AlveusMiddleware`. The agent may use the tool without permission."""

    def __init__(self, middleware: AlveusMiddleware) -> None:
        super().__init__()
        self._middleware = middleware

    async def check_permissions(
        self,
        *_: Any,  # noqa: ANN401 - AgentScope's
        **__: Any,  # noqa: ANN401 - the same
    ) -> PermissionDecision:
        """Allow the call."""
        return PermissionDecision(
            behavior=PermissionBehavior.ALLOW, message="a tool of the agent's memory"
        )


class SearchMemoryTool(MemoryTool):
    """Searches the memory."""

    name = "search_memory"
    description = (
        "Search what is remembered of earlier conversations. Each keyword is a separate search; "
        "what several of them find is listed once."
    )
    input_schema = {  # noqa: RUF012 - AgentScope's form
        "type": "object",
        "properties": {
            "keywords": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Short phrases, such as a name, a place, a date or a topic.",
            },
            "limit": {
                "type": "integer",
                "description": "The most that a keyword finds.",
                "default": 5,
            },
        },
        "required": ["keywords"],
    }
    is_concurrency_safe = True
    is_read_only = True

    async def call(self, keywords: list[str], limit: int = 5) -> ToolChunk:
        """Return the texts that the keywords find, each once."""
        texts: dict[str, None] = {}
        try:
            for keyword in keywords:
                texts |= dict.fromkeys(await self._middleware.find(keyword, limit=limit))
        except AlveusError as error:
            return _failed(f"The search failed: {error}")
        found = [f"- {text}" for text in texts]
        return _done("\n".join(found) or "Nothing is remembered about that.")


class AddMemoryTool(MemoryTool):
    """Remembers texts."""

    name = "add_memory"
    description = "Remember what will matter in later conversations."
    input_schema = {  # noqa: RUF012 - AgentScope's form
        "type": "object",
        "properties": {
            "thinking": {
                "type": "string",
                "description": "Why it is worth remembering. This is not stored.",
            },
            "content": {
                "type": "array",
                "items": {"type": "string"},
                "description": "What to remember: each a whole sentence that stands by itself.",
            },
        },
        "required": ["thinking", "content"],
    }
    is_concurrency_safe = True
    is_read_only = False

    async def call(self, thinking: str, content: list[str]) -> ToolChunk:  # noqa: ARG002 - AgentScope's
        """Remember each text of *content*."""
        try:
            await self._middleware.add(content)
        except AlveusError as error:
            return _failed(f"Nothing was remembered: {error}")
        return _done(f"Remembered: {len(content)}.")


def _done(text: str) -> ToolChunk:
    return ToolChunk(content=[TextBlock(text=text)])


def _failed(text: str) -> ToolChunk:
    return ToolChunk(content=[TextBlock(text=text)], state=ToolResultState.ERROR)


def _asked(inputs: object) -> list[Msg]:
    """Return the user's messages in the input, without empty messages."""
    given = cast("list[object]", inputs) if isinstance(inputs, list) else [inputs]
    return [
        one
        for one in given
        if isinstance(one, Msg) and one.role == "user" and one.get_text_content()
    ]


def _text(message: Msg) -> str:
    """Return the text of a message, without a model's thoughts."""
    return text_said(message.role, message.get_text_content() or "")


def _item(message: Msg, session: str) -> Item:
    """Return a message as an item. Search covers its text."""
    return message_item(
        plain_json(message),
        message.role,
        _text(message),
        id=message.id,
        speaker=message.name or None,
        session=session,
    )
