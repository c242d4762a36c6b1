"""Reads the messages that an item holds, and shows them in a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from alveus.errors import InvalidInput
from alveus.llm.answer_reader import text_said
from alveus.memory.prompt.quoting import ANSWERED, quoted
from alveus.store.items import Item
from alveus.text.messages import ROLES, Message, Role


def messages_of(item: Item) -> list[Message]:
    """Return the messages of an item: two for an observation, else one.

    Raises:
        InvalidInput: The item holds no message.
    """
    value: object = item.value
    if not isinstance(value, dict):
        return [_message({"content": item.text or value}, item, "user")]
    fields = cast("dict[str, object]", value)
    if "query" in fields and "reply" in fields:
        return [
            _message(fields["query"], item, "user"),
            _message(fields["reply"], item, "assistant"),
        ]
    content = fields.get("content", item.text)
    if fields.get("url") or not isinstance(content, str):  # show the item's text, with its urls
        content = content if item.text is None else item.text
    return [_message({**fields, "content": content}, item, "user")]


def _message(value: object, item: Item, role: Role) -> Message:
    if isinstance(value, str):
        return Message(value, role)
    if not isinstance(value, dict):
        raise InvalidInput(f"{value!r:.40} is none")
    fields = cast("dict[str, object]", value)
    stated_role = fields.get("role", item.role)
    stated_role = "system" if stated_role == "developer" else stated_role
    passed_on = {name: fields[name] for name in ("content", "calls", "answers") if name in fields}
    if isinstance(passed_on.get("content"), str):
        passed_on["content"] = text_said(stated_role or role, str(passed_on["content"]))
    who = fields.get("name", item.speaker if stated_role not in ROLES else None)
    message = Message.from_dict(passed_on | {"role": stated_role if stated_role in ROLES else role})
    return (
        replace(message, content=f"{who}: {message.content}") if isinstance(who, str) else message
    )


def shown_message(message: Message) -> Message:
    """Return a message as a prompt shows it; a tool's result is quoted as data."""
    if message.role != "tool":
        return message
    return replace(message, content=f"{ANSWERED} {quoted(message.content)}", role="user")


def why_not_repeated(item: Item, messages: Sequence[Message]) -> str:
    """Return why a prompt does not repeat the messages of an item, or an empty string."""
    if any(message.role == "system" for message in messages):
        return "instructions of the past are not repeated"
    value: object = item.value
    fields = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return "its reply was rejected" if fields.get("outcome") == "rejected" else ""
