"""Calls of conversations as requests carry them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from alveus.conversation import ConversationMemory
from alveus.conversation.rolling_summary import MAX_TOKENS
from alveus.errors import InvalidInput
from alveus.memory.keys import KeyMemory, KnowledgeMemory
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server.memory_call import CallTarget, Document, MemoryCall
from alveus.server.tokens import Access
from alveus.text.budget import MESSAGE_TOKENS, Budget


class ConversationCall(MemoryCall):
    """A call of one conversation."""

    conversation: Annotated[str, Field(description="Its name; it is the set of that name.")]
    timezone: Annotated[
        str | None,
        Field(description="Where it takes place; left out: where the reader is."),
    ] = None

    @property
    def set_name(self) -> str | None:
        """See `MemoryCall.set_name`."""
        return self.conversation

    def opened(self, to: CallTarget) -> ConversationMemory:
        """Return the conversation.

        Raises:
            InvalidInput: Knowledge has none.
        """
        if isinstance(to.owner, KnowledgeMemory):
            raise InvalidInput("a conversation belongs to a key; name one with ?key=")
        return to.owner.conversation(self.conversation, timezone=self.timezone)

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`: what changes it is one commit, made once."""
        if self.access == "write" and isinstance(to.owner, KeyMemory):
            return to.owner.commit(
                lambda batch: self.answer_of(self.opened(CallTarget(batch, to.token))),
                idempotency_key=to.once,
            )
        return self.answer_of(self.opened(to))

    def answer_of(self, talk: ConversationMemory) -> Document:
        """Make the call; return what it answers."""
        raise NotImplementedError


class AddMessages(ConversationCall):
    """Add messages; those that are there already stay as they are."""

    call: Literal["conversation.add"]
    messages: list[dict[str, Any]] = Field(max_length=10_000)
    marks: list[str] = Field(default_factory=list[str])
    keeps_times: Annotated[
        bool,
        Field(description="Whether a `timestamp` of the last minute is the time of the message."),
    ] = True

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        if not self.keeps_times or to.once is None:
            return super().answer(to)
        talk = self.opened(to)
        return {"ids": talk.add(self._said(), self.marks, idempotency_key=to.once)}

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        return {"ids": talk.add(self._said(), self.marks)}

    def _said(self) -> list[dict[str, Any]]:
        return [asked.stored(message) for message in self.messages]


class ReadMessages(ConversationCall):
    """Read messages as they were added, with their ids."""

    access: ClassVar[Access] = "read"
    call: Literal["conversation.get_memory"]
    mark: str | None = None
    exclude_mark: str | None = None
    prepend_summary: bool = True
    recent_n: int | None = None

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        told = talk.get_memory(
            self.mark, self.exclude_mark, self.prepend_summary, recent_n=self.recent_n
        )
        return {"messages": forms.wired([*told])}


class TellMessages(ConversationCall):
    """Read what a model is to be told: the summary, and the messages that it is not of."""

    access: ClassVar[Access] = "read"
    call: Literal["conversation.messages"]
    recent_n: int | None = None
    mark: str | None = None
    exclude_mark: str | None = "compressed"
    prepend_summary: bool = True
    for_chat: bool = False

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        told = talk.messages(
            self.recent_n,
            mark=self.mark,
            exclude_mark=self.exclude_mark,
            prepend_summary=self.prepend_summary,
            for_chat=self.for_chat,
        )
        return {"messages": forms.wired([*told])}


class DescribeConversation(ConversationCall):
    """Tell how many messages there are, and the summary."""

    access: ClassVar[Access] = "read"
    call: Literal["conversation.describe"]

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        return {"messages": talk.size(), "summary": talk.summary}


class ConversationState(ConversationCall):
    """Read all of it: messages with their marks, and the summary."""

    access: ClassVar[Access] = "read"
    call: Literal["conversation.state_dict"]

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        return {"state": forms.wired(talk.state_dict())}


class LoadConversation(ConversationCall):
    """Have another state in place of all of it."""

    call: Literal["conversation.load_state_dict"]
    state: Any
    strict: bool = True

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        talk.load_state_dict(asked.stored(self.state), self.strict)
        return {}


class ClearConversation(ConversationCall):
    """Delete all messages, and the summary."""

    call: Literal["conversation.clear"]

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        return {"messages": talk.clear()}


class MarkMessages(ConversationCall):
    """Give messages a mark, take one off, or put one in the place of another."""

    call: Literal["conversation.mark"]
    new_mark: str | None = None
    old_mark: str | None = None
    ids: Annotated[list[str] | None, Field(description="Left out: all messages.")] = None

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        return {"messages": talk.update_messages_mark(self.new_mark, self.old_mark, self.ids)}


class SetSummary(ConversationCall):
    """Have another summary; an empty one takes it away."""

    call: Literal["conversation.summary"]
    summary: str
    ids: Annotated[
        list[str], Field(description="Messages that it stands for besides those it did.")
    ] = Field(default_factory=list[str])

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        return {"messages": talk.update_compressed_summary(self.summary, self.ids)}


class CompressConversation(ConversationCall):
    """Sum up what was said, but for the end of it, by sentences that are chosen; see alveus."""

    call: Literal["conversation.compress"]
    keep_recent: int | None = None
    keep_tokens: int | None = None
    trigger_tokens: int | None = None
    message_tokens: int = MESSAGE_TOKENS
    beside_tokens: int = 0
    max_tokens: int = MAX_TOKENS

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        done = talk.compress(
            keep_recent=self.keep_recent,
            keep_tokens=self.keep_tokens,
            trigger_tokens=Budget(self.trigger_tokens, message_tokens=self.message_tokens),
            beside_tokens=self.beside_tokens,
            max_tokens=self.max_tokens,
        )
        return forms.attributes(done, "messages summary by because tokens")


class UncompressConversation(ConversationCall):
    """Undo the last summary."""

    call: Literal["conversation.uncompress"]

    def answer_of(self, talk: ConversationMemory) -> Document:
        """See `ConversationCall.answer_of`."""
        return {"messages": talk.uncompress()}


AnyConversationCall = (
    AddMessages
    | ReadMessages
    | TellMessages
    | DescribeConversation
    | ConversationState
    | LoadConversation
    | ClearConversation
    | MarkMessages
    | SetSummary
    | CompressConversation
    | UncompressConversation
)
"""Every call of a conversation; what else Python has is made of calls of its set."""
