"""The conversations of the data export of ChatGPT (``conversations.json``).

There is no published schema. What is read is what the tools that work with such files agree on:
``mapping`` has the messages by id, each with its ``parent``; ``current_node`` is the last one of
the branch that the chat shows. What is of another kind than these is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

from fornix.errors import InvalidInput
from fornix.store.items import Item
from fornix.transfer.foreign_formats import label_of, name_of
from fornix.transfer.import_entries import Skipped
from fornix.values.storable import Value

SHOWN = ("text", "multimodal_text", "code", "execution_output")
"""Kinds of content that the chat shows as what was said."""

BRANCH = "is on a branch that the chat left"
HIDDEN = "is hidden in the chat"


@dataclass(frozen=True, slots=True)
class ExportedMessage:
    """A message of a conversation.

    Attributes:
        item: It, without a time.
        fields: It, as the file has it.
        before: The last message before it that has a time.
    """

    item: Item
    fields: dict[str, Value]
    before: dict[str, Value] = field(default_factory=dict[str, Value])


def timed(item: Item, time: datetime | None) -> Item:
    """Return *item* at a time."""
    return replace(item, time=time)


def messages(chat: dict[str, Value]) -> Iterator[ExportedMessage | Skipped]:
    """Yield the messages of the branch that a conversation shows, oldest first.

    Raises:
        InvalidInput: It has no id, or its messages do not hang together.
    """
    name = name_of(chat, "conversation_id", "id")
    if name is None:
        raise InvalidInput('a conversation has an "id" or a "conversation_id"')
    nodes = {i: node for i, node in _mapping(chat).items() if isinstance(node, dict)}
    path = _path(nodes, _last(chat, nodes))
    before: dict[str, Value] = {}
    for node_id in path:
        said = nodes[node_id].get("message")
        if isinstance(said, dict):
            yield _message(name, node_id, said, chat, before)
            before = said if said.get("create_time") is not None else before
    for node_id in nodes.keys() - set(path):
        said = nodes[node_id].get("message")
        if isinstance(said, dict) and _text(_object(said, "content")):
            yield Skipped(BRANCH)


def _mapping(chat: dict[str, Value]) -> dict[str, Value]:
    return cast("dict[str, Value]", chat["mapping"])


def _last(chat: dict[str, Value], nodes: dict[str, dict[str, Value]]) -> str | None:
    """Return the id of the last message shown; None where there is none at all."""
    last = chat.get("current_node")
    if last is not None:
        return cast("str", last)
    parents = [node.get("parent") for node in nodes.values()]
    leaves = [node_id for node_id in nodes if node_id not in parents]
    if len(leaves) > 1:
        raise InvalidInput(
            f'there is no "current_node" that says which of its {len(leaves)} branches is shown'
        )
    return leaves[0] if leaves else None


def _path(nodes: dict[str, dict[str, Value]], last: Value) -> list[str]:
    path: dict[str, None] = {}
    while last is not None:
        if not isinstance(last, str) or last not in nodes:
            raise InvalidInput(f'"mapping" has no message {last!r:.60}, which another one names')
        if last in path:
            raise InvalidInput(f"the parents of message {last!r:.60} go round in a circle")
        path[last] = None
        last = nodes[last].get("parent")
    return list(path)[::-1]


def _message(
    name: str,
    node_id: str,
    said: dict[str, Value],
    chat: dict[str, Value],
    before: dict[str, Value],
) -> ExportedMessage | Skipped:
    content, author, facts = (_object(said, part) for part in ("content", "author", "metadata"))
    kind = content.get("content_type", "text")
    if facts.get("is_visually_hidden_from_conversation"):
        return Skipped(HIDDEN)
    if kind not in SHOWN:
        return Skipped(f"is of ChatGPT's kind {kind!r:.40}")
    recipient = said.get("recipient")
    metadata: dict[str, Value] = {
        "title": chat.get("title"),
        "model": facts.get("model_slug"),
        "images": _images(content),
        "content_type": None if kind in ("text", "multimodal_text") else kind,
        "recipient": None if recipient == "all" else recipient,
        "author": author.get("name"),
    }
    item = Item(
        value=_text(content),
        id=f"{name}/{name_of(said, 'id') or node_id}",
        metadata={key: value for key, value in metadata.items() if value},
        role=label_of(author, "role"),
        session=name,
    )
    return ExportedMessage(item, said, before)


def _object(fields: dict[str, Value], name: str) -> dict[str, Value]:
    found = fields.get(name)
    return found if isinstance(found, dict) else {}


def _parts(content: dict[str, Value]) -> list[Value]:
    found = content.get("parts")
    return found if isinstance(found, list) else []


def _text(content: dict[str, Value]) -> str:
    texts: list[str] = []
    for part in _parts(content):
        spoken = part.get("text") if isinstance(part, dict) else part
        if isinstance(spoken, str):
            texts.append(spoken)
    own = content.get("text")
    if isinstance(own, str):
        texts.append(own)
    return "\n".join(text for text in texts if text)


def _images(content: dict[str, Value]) -> list[Value]:
    return [
        part["asset_pointer"]
        for part in _parts(content)
        if isinstance(part, dict) and isinstance(part.get("asset_pointer"), str)
    ]
