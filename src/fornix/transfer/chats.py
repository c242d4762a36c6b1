"""Messages as models exchange them, and conversations of such messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, cast

from fornix.errors import InvalidInput
from fornix.store.items import Item
from fornix.transfer import chatgpt
from fornix.transfer.foreign_formats import (
    TIMES,
    Reader,
    inside,
    label_of,
    metadata_of,
    name_of,
)
from fornix.transfer.import_entries import ItemLine, Skipped, objects_of
from fornix.transfer.json_stream import JsonRecord
from fornix.values.storable import Value

FIELDS = {"id", "role", "content", "speaker", "session", "metadata", "importance"}
"""Fields of a message that become fields of an item; the others become metadata."""

BESIDES = ("tool_calls", "function_call", "refusal", "audio")
"""What a message may say instead of a text."""

CUT = "is a picture inside a message: its data is left out"


@dataclass(slots=True)
class Content:
    """What a message says.

    Attributes:
        cut: How many pictures were in the message itself, whose data is left out.
    """

    texts: list[str] = field(default_factory=list[str])
    images: list[Value] = field(default_factory=list[Value])
    captions: list[Value] = field(default_factory=list[Value])
    parts: list[Value] = field(default_factory=list[Value])
    cut: int = 0

    def read(self, content: Value) -> None:
        """Take in a text, or a list of parts."""
        if isinstance(content, str):
            self.texts.append(content)
            return
        for part in cast("list[Value]", content):
            if isinstance(part, str):
                self.texts.append(part)
            elif isinstance(part, dict):
                self._part(part)
            else:
                raise InvalidInput(f"a part of the content is {part!r:.40}, not an object or text")

    def _part(self, part: dict[str, Value]) -> None:
        said = part.get("text")
        if isinstance(said, dict):
            said = said.get("value")
        url = part.get("image_url")
        if isinstance(url, dict):
            url = url.get("url")
        if isinstance(said, str):
            self.texts.append(said)
        elif isinstance(part.get("refusal"), str):
            self.texts.append(cast("str", part["refusal"]))
        elif isinstance(url, str):
            self._image(url, part.get("caption"))
        else:
            self.parts.append(part)

    def _image(self, url: str, caption: Value) -> None:
        if url.startswith("data:"):
            url, self.cut = url.partition(",")[0], self.cut + 1
        self.images.append(url)
        if isinstance(caption, str) and caption:
            self.captions.append(caption)

    def facts(self) -> dict[str, Value]:
        """Return what is metadata."""
        found: dict[str, Value] = {"images": self.images, "parts": self.parts}
        if self.captions:
            found["caption"] = self.captions
        return {name: value for name, value in found.items() if value}


class ChatReader(Reader):
    """Reads messages, conversations with messages, and the conversations that ChatGPT exports."""

    LISTS: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def knows(cls, record: JsonRecord) -> bool:
        """Return whether it is a message, or holds some."""
        fields = record.fields
        return (
            ("role" in fields and ("content" in fields or "tool_calls" in fields))
            or isinstance(fields.get("messages"), list)
            or isinstance(fields.get("mapping"), dict)
        )

    def read(self, record: JsonRecord) -> Iterator[ItemLine | Skipped]:
        """Yield the messages of a record."""
        fields = record.fields
        if isinstance(fields.get("mapping"), dict):
            for found in chatgpt.messages(fields):
                item = found if isinstance(found, Skipped) else self._exported(found, fields)
                yield item
        elif "messages" in fields:
            yield from self._conversation(fields)
        else:
            yield from self._message(fields)

    def _exported(
        self, found: chatgpt.ExportedMessage, chat: dict[str, Value]
    ) -> ItemLine | Skipped:
        with inside(f"message {found.item.id!r}"):
            time = self.when(found.fields, found.before, chat, names=("create_time",))
            item = chatgpt.timed(found.item, time)
            return self.placed(item, found.fields, chat, keep="images" in item.metadata)

    def _conversation(self, chat: dict[str, Value]) -> Iterator[ItemLine | Skipped]:
        told = objects_of(chat, "messages")
        name = name_of(chat, "id", "conversation_id", "thread_id")
        if name is None:
            name = self.ids.make(cast("Value", told))
        for number, fields in enumerate(told, start=1):
            with inside(f"message {number}"):
                place = (f"{name}/{name_of(fields, 'id') or number}", name)
                yield from self._message(fields, chat, place=place)

    def _message(
        self,
        fields: dict[str, Value],
        chat: dict[str, Value] | None = None,
        *,
        place: tuple[str | None, str | None] = (None, None),
    ) -> Iterator[ItemLine | Skipped]:
        role, said = fields.get("role"), fields.get("content")
        besides = any(fields.get(name) for name in BESIDES)
        readable = isinstance(said, (str, list)) or (said is None and besides)
        if not isinstance(role, str) or not readable:
            raise InvalidInput(
                'a message has a "role", which is a text, and a "content": a text, or a list of '
                "parts"
            )
        content = Content()
        content.read(said or "")
        chat = chat or {}
        speaker = label_of(fields, "speaker")
        times = [name for name in TIMES if fields.get(name) is not None]
        taken = FIELDS | {self.target.time_from or (times[0] if times else "")}
        if speaker is None and role not in ("tool", "function"):
            speaker, taken = label_of(fields, "name"), taken | {"name"}
        others = {
            name: value
            for name, value in fields.items()
            if name not in taken and not (name in TIMES and value is None)
        }
        title: dict[str, Value] = {"title": chat["title"]} if chat.get("title") else {}
        facts = content.facts()
        item = Item(
            value="\n".join(content.texts),
            id=place[0] or self._id(fields),
            metadata=title | metadata_of(chat) | others | facts
            | metadata_of(fields),
            importance=cast("float", fields.get("importance", 0.0)),
            speaker=speaker,
            role=role,
            session=label_of(fields, "session") or place[1],
            time=self.when(fields, chat),
        )  # fmt: skip
        yield self.placed(item, fields, chat, keep=besides or bool(facts))
        for _ in range(content.cut):
            yield Skipped(CUT)

    def _id(self, fields: dict[str, Value]) -> str:
        given = fields.get("id")
        if given is None:
            return self.ids.make(fields)
        return str(given) if type(given) is int else cast("str", given)
