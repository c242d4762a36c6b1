"""The conversations of a key of a server: each call is a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from alveus.conversation import (
    COMPRESSED,
    Compressed,
    ConversationMemory,
    Said,
    message_items,
)
from alveus.conversation.conversation_memory import message_ids
from alveus.conversation.rolling_summary import MAX_TOKENS, SummaryPolicy, Summing
from alveus.errors import InvalidInput, InvalidValue
from alveus.errors.short_repr import short_repr
from alveus.llm import ChatModel
from alveus.memory.remote.json_readers import Json, value_json, value_of, wire_json
from alveus.memory.remote.local_only import unsupported
from alveus.memory.remote.remote_sets import RemoteSet, RemoteWriter
from alveus.sets import MemorySet
from alveus.store import SetRef
from alveus.text import Summariser
from alveus.text import tokens as word_pieces
from alveus.text.budget import Budget
from alveus.values.storable import counted, flag, valid_text
from alveus.values.times import Zone


class RemoteConversation(ConversationMemory):
    """A conversation behind a server; what is not here goes to its set."""

    def __init__(self, writer: RemoteWriter, ref: SetRef, zone: Zone | None = None) -> None:
        super().__init__(writer, ref, zone)
        self._calls = writer.calls

    @property
    def _set(self) -> MemorySet:
        return RemoteSet(self._writer, self._ref, {})

    def _read(self, call: str, **arguments: object) -> Json:
        return self._calls.read(f"conversation.{call}", conversation=self.name, **arguments)

    def _write(self, call: str, idempotency_key: str | None = None, /, **arguments: object) -> Json:
        name = f"conversation.{call}"
        if self._zone is not None:
            arguments["timezone"] = self._zone.name(datetime.now(UTC))
        return self._calls.write(name, idempotency_key, conversation=self.name, **arguments)

    # --- messages -----------------------------------------------------------------------------

    def add(
        self,
        messages: Said | Iterable[Said] | None,
        marks: str | Iterable[str] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """See `ConversationMemory.add`."""
        named = message_items.checked_marks(marks)
        said = [_message_json(one) for one in message_items.listed(messages)]
        if not said:
            return []
        keeps = idempotency_key is not None
        told = self._write("add", idempotency_key, messages=said, marks=named, keeps_times=keeps)
        return told["ids"]

    def get_memory(
        self,
        mark: str | None = None,
        exclude_mark: str | None = None,
        prepend_summary: bool = True,  # noqa: FBT001, FBT002 - as AgentScope has it
        *,
        recent_n: int | None = None,
    ) -> list[dict[str, Any]]:
        """See `ConversationMemory.get_memory`."""
        return self._messages_of("get_memory", mark, exclude_mark, prepend_summary, recent_n)

    def messages(
        self,
        recent_n: int | None = None,
        *,
        mark: str | None = None,
        exclude_mark: str | None = COMPRESSED,
        prepend_summary: bool = True,
        for_chat: bool = False,
    ) -> list[dict[str, Any]]:
        """See `ConversationMemory.messages`."""
        chosen = mark, exclude_mark, prepend_summary, recent_n
        return self._messages_of("messages", *chosen, for_chat=flag(for_chat, "for_chat"))

    def _messages_of(
        self,
        call: str,
        mark: str | None,
        exclude_mark: str | None,
        prepend_summary: bool,  # noqa: FBT001 - as its callers have it
        recent_n: int | None,
        **more: bool,
    ) -> list[dict[str, Any]]:
        told = self._read(
            call,
            mark=_mark(mark, "mark"),
            exclude_mark=_mark(exclude_mark, "exclude_mark"),
            prepend_summary=flag(prepend_summary, "prepend_summary"),
            recent_n=None if recent_n is None else counted(recent_n, "recent_n", least=0),
            **more,
        )
        return cast("list[dict[str, Any]]", value_of(told["messages"]))

    def size(self) -> int:
        """See `ConversationMemory.size`."""
        return self._read("describe")["messages"]

    @property
    def summary(self) -> str:
        """See `ConversationMemory.summary`."""
        return self._read("describe")["summary"]

    def clear(self) -> int:
        """See `ConversationMemory.clear`."""
        return self._write("clear")["messages"]

    def update_messages_mark(
        self,
        new_mark: str | None = None,
        old_mark: str | None = None,
        msg_ids: str | Iterable[str] | None = None,
    ) -> int:
        """See `ConversationMemory.update_messages_mark`."""
        new, old = _mark(new_mark, "new_mark"), _mark(old_mark, "old_mark")
        ids = None if msg_ids is None else message_ids(msg_ids)
        return self._write("mark", new_mark=new, old_mark=old, ids=ids)["messages"]

    # --- the summary --------------------------------------------------------------------------

    def update_compressed_summary(self, summary: str, msg_ids: str | Iterable[str] = ()) -> int:
        """See `ConversationMemory.update_compressed_summary`."""
        if not isinstance(summary, str):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            kind = type(summary).__name__
            raise InvalidValue("summary", f"is a text, not {kind}", hint="use str(summary)")
        text = value_json(valid_text(summary).value, "summary")
        return self._write("summary", summary=text, ids=message_ids(msg_ids))["messages"]

    def compress(
        self,
        *,
        keep_recent: int | None = None,
        keep_tokens: int | None = None,
        trigger_tokens: int | Budget | None = None,
        beside_tokens: int = 0,
        model: ChatModel | Summariser | None = None,
        max_tokens: int = MAX_TOKENS,
    ) -> Compressed:
        """See `ConversationMemory.compress`: one commit; a model of the call's own is refused."""
        policy = SummaryPolicy.of(keep_recent, keep_tokens, beside_tokens, trigger_tokens)
        Summing(model, max_tokens)
        if model is not None:
            raise unsupported(
                "compress(model=…)",
                "ask your model yourself, and give what it says to update_compressed_summary",
            )
        if policy.budget.counter is not word_pieces:
            raise unsupported("Budget(counter=…)", "give a number of tokens")
        told = self._write(
            "compress",
            keep_recent=keep_recent,
            keep_tokens=keep_tokens,
            trigger_tokens=policy.budget.tokens,
            message_tokens=policy.budget.message_tokens,
            beside_tokens=beside_tokens,
            max_tokens=max_tokens,
        )
        return Compressed(**told)

    def uncompress(self) -> int:
        """See `ConversationMemory.uncompress`."""
        return self._write("uncompress")["messages"]

    # --- as a whole ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """See `ConversationMemory.state_dict`."""
        return cast("dict[str, Any]", value_of(self._read("state_dict")["state"]))

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:  # noqa: FBT001, FBT002 - as AgentScope has it
        """See `ConversationMemory.load_state_dict`."""
        sent = _sent(_plain_state(state), "a state")
        self._write("load_state_dict", state=sent, strict=flag(strict, "strict"))


def _message_json(message: Mapping[str, Any]) -> Json:
    """Return a message as it is sent.

    Raises:
        InvalidInput: It is none, or cannot be stored.
    """
    message_items.id_of(message)
    return _sent(dict(message), "a message")


def _sent(value: Any, what: str) -> Json:  # noqa: ANN401 - as `value_json`
    """Return a value as JSON, as it is: the server counts the characters that it replaces.

    Raises:
        InvalidValue: It cannot be stored even then.
    """
    value_json(valid_text(value).value, what)
    return wire_json(value)


def _mark(mark: object, what: str) -> str | None:
    return None if mark is None else message_items.checked_mark(mark, what)


def _plain_state(state: object) -> object:
    """Return a state with its messages as dicts, as far as it is one."""
    if not isinstance(state, Mapping):
        raise InvalidInput(f"the state of a conversation is a dict, not {short_repr(state):.40}")
    made = dict(cast("Mapping[str, Any]", state))
    if isinstance(listed := made.get("content"), list | tuple):
        made["content"] = [_plain_entry(entry) for entry in cast("Sequence[object]", listed)]
    return made


def _plain_entry(entry: object) -> object:
    if isinstance(entry, Mapping):
        return dict(cast("Mapping[str, Any]", entry))
    if isinstance(entry, list | tuple):
        return [_plain_entry(part) for part in cast("Sequence[object]", entry)]
    return entry
