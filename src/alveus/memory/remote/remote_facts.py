"""Facts behind a server: each call is a request."""

from __future__ import annotations

from typing import Any

from alveus.conversation import ConversationMemory
from alveus.facts import Facts, LearnOptions
from alveus.facts.learning import Source, check_model, checked_options, conversation_of
from alveus.llm import ChatModel
from alveus.memory.aio import AsyncFacts
from alveus.memory.async_calls import Access
from alveus.memory.memory import Memory
from alveus.memory.remote.calls import sends
from alveus.memory.remote.codecs import OnlyLocal, argument_json
from alveus.memory.remote.local_only import unsupported
from alveus.memory.remote.remote_tree import RemoteCalls
from alveus.store import Scope


@sends(AsyncFacts)
class RemoteFacts(Facts):
    """The facts of one key, behind a server."""

    def __init__(self, calls: RemoteCalls, scope: Scope) -> None:
        self.calls, self._scope = calls, scope

    def __repr__(self) -> str:
        return f"<facts of key {self._scope.key!r}>"

    def place(self, _: Access) -> dict[str, Any]:
        """See `Remote.place`."""
        return {}

    def twin(self, memory: Memory) -> Facts:
        """See `Remote.twin`."""
        return memory.key(self._scope.key or "").facts


def learn_json(
    learned: ConversationMemory,
    source: Source,
    model: ChatModel | None,
    options: LearnOptions | None,
) -> dict[str, Any]:
    """Return the body of a learn request; adds texts and messages to *learned* first.

    Raises:
        Unsupported: A model is given; the server uses its configured model.
    """
    check_model(model)
    given = None if options is None else checked_options(options)
    try:
        argument_json(ChatModel | None, model, "model")
        how = argument_json(LearnOptions | None, given, "options")
    except OnlyLocal as instead:
        name = "options" if model is None else "model"
        raise unsupported(f"learn({name}=…)", str(instead)) from None
    sent = {} if how is None else {"options": how}
    return {"conversation": conversation_of(learned, source).name, **sent}
