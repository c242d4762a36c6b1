"""Messages as AgentScope has them: dicts whose items are attributes too."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self, TypeAlias, cast
from uuid import uuid4

from fornix.dialogue.contents import text_of_message
from fornix.errors import InvalidInput
from fornix.urls import checked_urls

TIMESTAMP = "%Y-%m-%d %H:%M:%S"
"""Local time, without a zone, as AgentScope writes it."""

TYPE = "__type"
"""Names the class of a message that was serialised."""

Url: TypeAlias = str | Sequence[str] | None
"""Where what is not text can be found: a picture, a recording, several."""

_LOG = logging.getLogger("fornix.chat")


class MessageBase(dict[str, Any]):
    """A message: a dict, each item of which is an attribute as well.

    Args:
        name: Whose message it is.
        content: What it says; anything, and storable where it is to be kept.
        url: Where what it is about can be found; several are kept as a list.
        timestamp: When it was made; None: now, in local time, to the second.
        items: More items. ``role`` is "assistant" unless given, ``id`` is made unless given.
    """

    def __init__(
        self,
        name: str,
        content: Any = None,  # noqa: ANN401 - a message may say anything
        url: Url = None,
        timestamp: str | None = None,
        **items: Any,  # noqa: ANN401 - so may its items
    ) -> None:
        super().__init__()
        self["id"] = items.pop("id", None) or uuid4().hex
        self["timestamp"] = timestamp or datetime.now().astimezone().strftime(TIMESTAMP)
        self["name"], self["content"] = name, content
        self["role"] = items.pop("role", None) or "assistant"
        self["url"] = [*url] if isinstance(url, tuple) else url
        self.update(items)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the item is
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no attribute {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(f"no attribute {name!r}") from None

    def __copy__(self) -> Self:
        return self.from_items(self)

    @classmethod
    def from_items(cls, items: Mapping[str, Any]) -> Self:
        """Return a message that has exactly these items."""
        made = cls.__new__(cls)
        made.update(items)
        return made

    @classmethod
    def from_dict(cls, items: Mapping[str, Any]) -> Self:
        """Return a message of these items; what is missing is made as in a new one.

        Reads what later versions of AgentScope write as well, in which the role comes third.

        Raises:
            InvalidInput: They have no name, or no content.
        """
        if not isinstance(items, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"a message is made of a dict, not {type(items).__name__}")
        given = {name: value for name, value in items.items() if name != TYPE}
        if missing := [name for name in ("name", "content") if name not in given]:
            raise InvalidInput(f"a message has a {missing[0]}; these items have {sorted(given)}")
        made = MessageBase(given["name"], given["content"])
        return cls.from_items({**made, **given})

    def to_dict(self) -> dict[str, Any]:
        """Return its items as a plain dict."""
        return dict(self)

    def to_chat(self) -> dict[str, Any]:
        """Return it as `ChatModel.complete` takes it: role, content, and name and urls, if any.

        Without a role it is the assistant's; what a tool answers is said by the user. The urls of
        images go as parts to a model that takes images; all others follow the content, a line each.

        Raises:
            InvalidInput: It has no content, or its url is neither a text nor several.
        """
        if "content" not in self:
            raise InvalidInput(f"a model is told the content of a message; this has {sorted(self)}")
        content, role, name = self["content"], self.get("role") or "assistant", self.get("name")
        said = "" if content is None else text_of_message(self)
        urls = checked_urls(self.get("url"), "the url of a message")
        made = {"role": "user" if role == "tool" else role, "content": said}
        return made | ({"name": name} if name else {}) | ({"urls": urls} if urls else {})

    def to_str(self) -> str:
        """Return it as a line of a prompt."""
        raise NotImplementedError

    def serialize(self) -> str:
        """Return it as JSON, from which `deserialize` makes an equal one."""
        raise NotImplementedError


class Msg(MessageBase):
    """A message of an agent or a user.

    Args:
        echo: Show it through the logger ``fornix.chat``.
        name, content, url, timestamp, items: As `MessageBase`.
    """

    def __init__(
        self,
        name: str,
        content: Any = None,  # noqa: ANN401 - as MessageBase
        url: Url = None,
        timestamp: str | None = None,
        echo: bool = False,  # noqa: FBT001, FBT002 - its fifth position
        **items: Any,  # noqa: ANN401 - as MessageBase
    ) -> None:
        super().__init__(name, content, url, timestamp, **items)
        if echo:
            _LOG.info("%s", self.to_str())

    def to_str(self) -> str:
        """Return ``name: content``."""
        return f"{self['name']}: {self['content']}"

    def serialize(self) -> str:
        """Return it as JSON.

        Raises:
            InvalidInput: It holds what is not JSON.
        """
        try:
            return json.dumps({TYPE: kind_name(self), **self}, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"a message of {self.get('name')!r} cannot be written as JSON: {error}"
            raise InvalidInput(problem) from error


class Tht(Msg):
    """A thought: what an agent says to itself."""

    NAME: ClassVar[str] = "thought"

    def __init__(self, content: Any, timestamp: str | None = None) -> None:  # noqa: ANN401 - as Msg
        super().__init__(self.NAME, content, None, timestamp)

    def to_str(self) -> str:
        """Return ``thought thought: content``."""
        return f"{self['name']} thought: {self['content']}"


KINDS: dict[str, type[Msg]] = {"Msg": Msg, "Tht": Tht}
"""The classes of messages that can be read back, by their names."""


def deserialize(text: str | bytes) -> Msg:
    """Return the message that `Msg.serialize` wrote.

    Raises:
        InvalidInput: It is not JSON, or names a class that is none of messages: no module is ever
            imported because a text names it.
    """
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"this is no serialised message: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"a serialised message is an object, not {type(found).__name__}")
    items = cast("dict[str, Any]", found)
    return kind_of(items.pop(TYPE, "Msg")).from_dict(items)


def kind_name(message: MessageBase) -> str:
    """Return the name of the class that a message is read back as: of a class of yours, `Msg`."""
    return type(message).__name__ if type(message) in KINDS.values() else Msg.__name__


def kind_of(name: object) -> type[Msg]:
    """Return a class of messages by its name.

    Raises:
        InvalidInput: There is none of this name.
    """
    if not isinstance(name, str) or name not in KINDS:
        raise InvalidInput(f"a message of type {name!r} is not known; {', '.join(KINDS)} are")
    return KINDS[name]
