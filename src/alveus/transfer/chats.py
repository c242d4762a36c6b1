"""Messages in the form of model APIs, conversations of messages, and the data export of ChatGPT.

ChatGPT's ``conversations.json`` has no published schema. Alveus reads the fields on which public
tools for such files agree: ``mapping`` contains the messages by id, each with its ``parent``.
``current_node`` is the last message of the branch that the chat shows. Other kinds of messages are
left out and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime, tzinfo
from typing import ClassVar, cast

from alveus.errors import InvalidInput
from alveus.llm.answer_reader import is_thought, message_without_thoughts, text_said
from alveus.store.items import Item
from alveus.transfer.foreign_formats import TIMES, Reader, ReadPart, Skipped
from alveus.transfer.import_source import JsonRecord
from alveus.transfer.record_fields import (
    checked_object,
    label_of,
    list_of,
    metadata_of,
    name_of,
    time_of,
)
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_name, valid_text
from alveus.values.words import MONTHS

FIELDS = {"id", "role", "content", "speaker", "session", "metadata", "importance"}
"""Fields of a message that become fields of an item. All other fields become metadata."""

OTHER_CONTENT = ("tool_calls", "function_call", "refusal", "audio")
"""Fields that a message may have instead of a text."""

_DATE = re.compile(r"(\d{1,2}):(\d\d) ([ap]m) on (\d{1,2}) ([A-Z][a-z]+), (\d{4})")
_SESSION = re.compile(r"session_([0-9]{1,6})")

SHOWN = ("text", "multimodal_text", "code", "execution_output")
"""ChatGPT's kinds of content that a chat shows as messages."""

THOUGHT = "is a model's thought"
INLINE_IMAGE = "is a picture inside a message: its data is left out"
BRANCH = "is on a branch that the chat left"
HIDDEN = "is hidden in the chat"


@dataclass(slots=True)
class Content:
    """The content of a message.

    Attributes:
        inline_images: The number of images inside the message. Their data is left out.
        thoughts: The number of parts with a model's thoughts, which are left out.
    """

    texts: list[str] = field(default_factory=list[str])
    images: list[Value] = field(default_factory=list[Value])
    captions: list[Value] = field(default_factory=list[Value])
    parts: list[Value] = field(default_factory=list[Value])
    inline_images: int = 0
    thoughts: int = 0

    def read(self, content: Value) -> None:
        """Add the content of a message: a text, or a list of parts."""
        for part in [content] if isinstance(content, str) else cast("list[Value]", content):
            if isinstance(part, str):
                self.texts.append(part)
            elif isinstance(part, dict):
                self._read_part(part)
            else:
                raise InvalidInput(f"a part of the content is {part!r:.40}, not an object or text")

    def _read_part(self, part: dict[str, Value]) -> None:
        if is_thought(part):
            self.thoughts += 1
            return
        text, url, refusal = part.get("text"), part.get("image_url"), part.get("refusal")
        if isinstance(text, dict):
            text = text.get("value")
        if isinstance(url, dict):
            url = url.get("url")
        if isinstance(text, str):
            self.texts.append(text)
        elif isinstance(refusal, str):
            self.texts.append(refusal)
        elif isinstance(url, str):
            self._read_image(url, part.get("caption"))
        else:
            self.parts.append(part)

    def _read_image(self, url: str, caption: Value) -> None:
        if url.startswith("data:"):
            url = url.partition(",")[0]
            self.inline_images += 1
        self.images.append(url)
        if isinstance(caption, str) and caption:
            self.captions.append(caption)

    def metadata(self) -> dict[str, Value]:
        """Return the fields for the metadata of an item."""
        lists: dict[str, Value] = {
            "images": self.images,
            "parts": self.parts,
            "caption": self.captions,
        }
        return {name: value for name, value in lists.items() if value}


class ChatReader(Reader):
    """Reads messages, conversations with messages, and the conversations that ChatGPT exports."""

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether the record is a message, or contains messages."""
        fields = record.fields
        return (
            ("role" in fields and ("content" in fields or "tool_calls" in fields))
            or isinstance(fields.get("messages"), list)
            or isinstance(fields.get("mapping"), dict)
        )

    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield the messages of a record."""
        fields = record.fields
        if isinstance(fields.get("mapping"), dict):
            yield from self._chatgpt_conversation(fields)
        elif "messages" in fields:
            yield from self._conversation(fields)
        else:
            yield from self._message(fields, {}, None)

    def _conversation(self, chat: dict[str, Value]) -> Iterator[ReadPart]:
        messages = list_of(chat, "messages")
        session = name_of(chat, "id", "conversation_id", "thread_id")
        if session is None:
            session = self.ids.make(messages)
        for number, message in enumerate(messages, start=1):
            parts = self._message(message, chat, session, number)
            yield from self.part(parts, f"message {number}")

    def _message(
        self, message: Value, chat: dict[str, Value], session: str | None, number: int = 0
    ) -> Iterator[ReadPart]:
        """Yield a message, then a `Skipped` for each image and each thought that is left out.

        A message outside a conversation, whose *session* is None, names its id and session itself.
        In a conversation, *number* replaces a missing id.
        """
        fields = checked_object(message)
        role, text_or_parts = fields.get("role"), fields.get("content")
        has_more = any(fields.get(name) for name in OTHER_CONTENT)
        readable = isinstance(text_or_parts, (str, list)) or (text_or_parts is None and has_more)
        if not isinstance(role, str) or not readable:
            raise InvalidInput(
                'a message needs a text as "role", and a text or a list of parts as "content"'
            )
        content = Content()
        content.read(text_or_parts or "")
        speaker = label_of(fields, "speaker")
        times = [name for name in TIMES if fields.get(name) is not None]
        used = FIELDS | {self.target.time_from or (times[0] if times else "")}
        if speaker is None and role not in ("tool", "function"):
            speaker, used = label_of(fields, "name"), used | {"name"}
        others = {
            name: value
            for name, value in message_without_thoughts(fields).items()
            if name not in used and not (name in TIMES and value is None)
        }
        title: dict[str, Value] = {"title": chat["title"]} if chat.get("title") else {}
        inner, name = content.metadata(), name_of(fields, "id") or number
        item = Item(
            value=text_said(role, "\n".join(content.texts)),
            id=self.ids.of_record(fields) if session is None else f"{session}/{name}",
            metadata=title | metadata_of(chat) | others | inner | metadata_of(fields),
            importance=cast("float", fields.get("importance", 0.0)),
            speaker=speaker,
            role=role,
            session=label_of(fields, "session") or session,
            time=self.when(fields, chat),
        )
        yield self.item_line(item, fields, chat, keep=has_more or bool(inner))
        for _ in range(content.inline_images):
            yield Skipped(INLINE_IMAGE)
        for _ in range(content.thoughts):
            yield Skipped(THOUGHT)

    # --- the data export of ChatGPT -----------------------------------------------------------

    def _chatgpt_conversation(self, chat: dict[str, Value]) -> Iterator[ReadPart]:
        """Yield the messages of the branch that a conversation shows, oldest first.

        Raises:
            InvalidInput: The conversation has no id, or its messages are not a tree.
        """
        session = name_of(chat, "conversation_id", "id")
        if session is None:
            raise InvalidInput('a conversation needs an "id" or a "conversation_id"')
        nodes = {i: node for i, node in _object(chat, "mapping").items() if isinstance(node, dict)}
        branch = _branch(nodes, _last_node(chat, nodes))
        timed: dict[str, Value] = {}  # the last message with a time
        for node_id in branch:
            message = nodes[node_id].get("message")
            if isinstance(message, dict):
                item_id = f"{session}/{name_of(message, 'id') or node_id}"
                parts = self._chatgpt_message(message, chat, timed, item_id, session)
                yield from self.part(parts, f"message {item_id!r}")
                timed = message if message.get("create_time") is not None else timed
        for node_id in nodes.keys() - set(branch):
            message = nodes[node_id].get("message")
            if isinstance(message, dict) and _chatgpt_text(_object(message, "content")):
                yield Skipped(BRANCH)

    def _chatgpt_message(
        self,
        message: dict[str, Value],
        chat: dict[str, Value],
        timed: dict[str, Value],
        item_id: str,
        session: str,
    ) -> Iterator[ReadPart]:
        content, author = _object(message, "content"), _object(message, "author")
        facts, kind = _object(message, "metadata"), content.get("content_type", "text")
        if facts.get("is_visually_hidden_from_conversation"):
            yield Skipped(HIDDEN)
            return
        if kind not in SHOWN:
            yield Skipped(f"is of ChatGPT's kind {kind!r:.40}")
            return
        recipient = message.get("recipient")
        images = [part.get("asset_pointer") for part in _parts(content) if isinstance(part, dict)]
        metadata: dict[str, Value] = {
            "title": chat.get("title"),
            "model": facts.get("model_slug"),
            "images": [pointer for pointer in images if isinstance(pointer, str)],
            "content_type": None if kind in ("text", "multimodal_text") else kind,
            "recipient": None if recipient == "all" else recipient,
            "author": author.get("name"),
        }
        item = Item(
            value=_chatgpt_text(content),
            id=item_id,
            metadata={name: value for name, value in metadata.items() if value},
            role=label_of(author, "role"),
            session=session,
            time=self.when(message, timed, chat, names=("create_time",)),
        )
        yield self.item_line(item, message, chat, keep="images" in item.metadata)


def _object(fields: dict[str, Value], name: str) -> dict[str, Value]:
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def _last_node(chat: dict[str, Value], nodes: dict[str, dict[str, Value]]) -> Value:
    """Return the id of the last message that the chat shows, or None if it has no message."""
    if chat.get("current_node") is not None:
        return chat["current_node"]
    parents = [node.get("parent") for node in nodes.values()]
    leaves = [node_id for node_id in nodes if node_id not in parents]
    if len(leaves) > 1:
        raise InvalidInput(
            f'"current_node" is missing; it must name one of the {len(leaves)} branches'
        )
    return leaves[0] if leaves else None


def _branch(nodes: dict[str, dict[str, Value]], last: Value) -> list[str]:
    branch: dict[str, None] = {}
    while last is not None:
        if not isinstance(last, str) or last not in nodes:
            raise InvalidInput(
                f'"mapping" has no message {last!r:.60}, to which another message refers'
            )
        if last in branch:
            raise InvalidInput(f"the parents of message {last!r:.60} form a circle")
        branch[last] = None
        last = nodes[last].get("parent")
    return list(branch)[::-1]


def _parts(content: dict[str, Value]) -> list[Value]:
    parts = content.get("parts")
    return parts if isinstance(parts, list) else []


def _chatgpt_text(content: dict[str, Value]) -> str:
    texts = [part.get("text") if isinstance(part, dict) else part for part in _parts(content)]
    texts.append(content.get("text"))
    return "\n".join(text for text in texts if isinstance(text, str) and text)


# --- conversations of many sessions -----------------------------------------------------------


class ConversationReader(Reader):
    """Reads conversations with their sessions and turns.

    Attributes:
        TURN_ID: The field of a turn that holds its id.
        METADATA: The fields of a turn that are kept, and their names in the item's metadata.
    """

    TURN_ID: ClassVar[str] = "id"
    METADATA: ClassVar[Mapping[str, str]] = {"caption": "caption"}

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether the record has sessions."""
        return isinstance(record.fields.get("sessions"), list)

    def read(self, record: JsonRecord) -> Iterator[ReadPart]:
        """Yield the turns of a conversation, session by session."""
        name = self.name(record.fields)
        for label, session in self.sessions(record.fields, name):
            yield from self.part(self._session(session, name, record.fields), label)

    def name(self, fields: dict[str, Value]) -> str:
        """Return the name of a conversation."""
        return checked_name(fields.get("id"), "a conversation's id")

    def sessions(self, fields: dict[str, Value], _name: str) -> Iterator[tuple[str, Value]]:
        """Yield each session, after its label for errors."""
        for number, session in enumerate(list_of(fields, "sessions"), start=1):
            yield f"session {number}", session

    def _session(self, session: Value, name: str, fields: dict[str, Value]) -> Iterator[ReadPart]:
        """Yield the turns of a session. A turn without a time gets the session's time."""
        inner = checked_object(session)
        session_id = checked_name(inner.get("session_id"), "a session_id")
        turns = list_of(inner, "turns")
        time = self.read_time(inner.get("date"), self.target.zone)
        for number, turn in enumerate(turns, start=1):
            read = self._turn(turn, name, session_id, time, inner, fields)
            yield from self.part(read, f"turn {number} of {session_id} of {name!r}")

    def _turn(
        self,
        turn: Value,
        conversation: str,
        session: str,
        session_time: datetime | None,
        *around: dict[str, Value],
    ) -> Iterator[ReadPart]:
        fields = checked_object(turn)
        text, turn_id = fields.get("text"), fields.get(self.TURN_ID)
        if not isinstance(text, str):
            raise InvalidInput(f"a turn needs a text, not {text!r:.40}")
        time = self.when(fields, *(around if self.target.time_from else ())) or session_time
        if time is None:
            raise InvalidInput(f"turn {turn_id!r:.40} needs a time, or its session needs a date")
        speaker = fields.get("speaker")
        checked_name(valid_text(speaker).value, "a turn's speaker")
        item = Item(
            value=text,
            id=f"{conversation}/{checked_name(turn_id, f'the {self.TURN_ID} of a turn')}",
            metadata={to: fields[name] for name, to in self.METADATA.items() if fields.get(name)},
            speaker=cast("str", speaker),
            session=f"{conversation}/{session}",
            time=time,
        )
        yield self.item_line(item, fields, *around)

    def read_time(self, value: Value, zone: tzinfo | None) -> datetime | None:
        """Return the time that *value* states, or None if *value* is None.

        Args:
            value: A time that `time_of` reads, or one like ``7:42 pm on 5 February, 2025``.
            zone: The zone of a time without a zone. If it is None, `time_of` refuses such a time,
                and a time of the second form is in UTC.
        """
        found = _DATE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return time_of(value, zone)
        hour, minute, half, day, month, year = found.groups()
        try:
            return datetime(
                int(year),
                [name.lower() for name in MONTHS].index(month.lower()) + 1,
                int(day),
                int(hour) % 12 + (12 if half == "pm" else 0),
                int(minute),
                tzinfo=zone or UTC,
            )
        except ValueError:
            raise InvalidInput(f"the time {value!r} does not exist") from None


class LocomoReader(ConversationReader):
    """Reads samples of LoCoMo: ``session_1``, ``session_1_date_time``, … of two speakers.

    The questions, observations and summaries that its authors added are not read, because no
    speaker said them. For the same reason, the ``query`` of a picture is not read.
    """

    TURN_ID = "dia_id"
    METADATA: ClassVar[Mapping[str, str]] = {"blip_caption": "caption", "img_url": "images"}

    @classmethod
    def recognises(cls, record: JsonRecord) -> bool:
        """Return whether the record has numbered sessions."""
        talk = record.fields.get("conversation")
        return isinstance(talk, dict) and any(_SESSION.fullmatch(name) for name in talk)

    def name(self, fields: dict[str, Value]) -> str:
        """Return the name of a sample."""
        name = name_of(fields, "sample_id")
        if name is None:
            raise InvalidInput('a sample needs a "sample_id"')
        return name

    def sessions(self, fields: dict[str, Value], name: str) -> Iterator[tuple[str, Value]]:
        """Yield the sessions of a sample, in the order of their numbers."""
        talk = fields.get("conversation")
        if not isinstance(talk, dict):
            raise InvalidInput(f'sample {name!r} needs a "conversation" with sessions')
        numbers = sorted(int(found[1]) for found in map(_SESSION.fullmatch, talk) if found)
        for session in (f"session_{number}" for number in numbers):
            dated = {"turns": talk.get(session), "date": talk.get(f"{session}_date_time")}
            yield f"{session} of {name!r}", {**talk, **dated, "session_id": session}
