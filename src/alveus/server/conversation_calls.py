"""Calls of the conversations of a key, as requests carry them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from alveus.conversation import ConversationMemory
from alveus.memory.aio import AsyncConversation
from alveus.server.memory_call import CallTarget, Document, MemoryCall, models_of


class ConversationCall(MemoryCall):
    """A call of one conversation."""

    conversation: Annotated[str, Field(description="Its name; it is the set of that name.")]
    timezone: Annotated[
        str | None, Field(description="Where it takes place; by default where the reader is.")
    ] = None
    keeps_times: Annotated[
        bool, Field(description="Whether `add` keeps a `timestamp` of the last minute.")
    ] = True

    @property
    def set_name(self) -> str | None:
        """See `MemoryCall.set_name`."""
        return self.conversation

    def opened(self, to: CallTarget) -> ConversationMemory:
        """See `MemoryCall.opened`."""
        return to.conversation(self.conversation, self.timezone)

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`.

        Under its idempotency key, `add` keeps the times that messages have. A client that made up
        a key to repeat its request wants the time of the commit instead.
        """
        return super().answer(to) if self.keeps_times else self.committed(to)


CONVERSATION_CALLS = models_of(AsyncConversation, ConversationCall)
