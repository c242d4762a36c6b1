"""Messages as AgentScope has them: dicts whose items are also attributes."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from errno import EINVAL
from math import isnan, nan
from mimetypes import guess_type
from pathlib import Path
from tempfile import mkstemp
from typing import Any, ClassVar, Self, TypeAlias, cast
from uuid import uuid4

import numpy as np

from alveus.conversation.message_items import text_of_message
from alveus.embed import Embedder, open_embedder
from alveus.errors import InvalidInput, NotJson
from alveus.llm.answer_reader import text_said
from alveus.search.similarity import embedding_function
from alveus.store.files import sync_folder
from alveus.values.urls import checked_urls

TIMESTAMP = "%Y-%m-%d %H:%M:%S"
"""The format of a timestamp: local time without a zone, as AgentScope writes it."""

TYPE = "__type"
"""The name of the item that holds the class of a serialised message."""

Url: TypeAlias = str | Sequence[str] | None
"""The address of a picture, a recording or another file, or several addresses."""

_LOG = logging.getLogger("alveus.chat")


class MessageBase(dict[str, Any]):
    """A message: a dict whose items are also attributes.

    Args:
        name: The name of the author.
        content: Any value. A memory keeps a message only if the value is storable.
        url: The address of a file, or several addresses, which are kept as a list.
        timestamp: The time of the message. None means now, in local time, to the second.
        items: Further items. By default, ``role`` is "assistant", and ``id`` is a new id.
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

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the value of an item
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
        """Return a message with these items. Missing items are made as in a new message.

        Items that a later version of AgentScope wrote, with the role as the third, are read too.

        Raises:
            InvalidInput: The items have no name, or no content.
        """
        if not isinstance(items, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"the items of a message must be a dict, not {type(items).__name__}")
        given = {name: value for name, value in items.items() if name != TYPE}
        if missing := [name for name in ("name", "content") if name not in given]:
            raise InvalidInput(f"a message needs a {missing[0]!r}, but has only {sorted(given)}")
        made = MessageBase(given["name"], given["content"])
        return cls.from_items({**made, **given})

    def to_dict(self) -> dict[str, Any]:
        """Return the items as a plain dict."""
        return dict(self)

    def to_chat(self) -> dict[str, Any]:
        """Return the message as `ChatModel.complete` takes it: role, content, name and urls.

        A message without a role gets the role "assistant". The answer of a tool gets the role
        "user". Thoughts of the assistant are left out. A model that takes images gets the urls of
        images as parts. All other urls follow the content, each on a line.

        Raises:
            InvalidInput: The message has no content, or its url is neither a text nor a list of
                texts.
        """
        if "content" not in self:
            raise InvalidInput(
                f"a message to a model needs a 'content'; it has only {sorted(self)}"
            )
        content, role, name = self["content"], self.get("role") or "assistant", self.get("name")
        said = "" if content is None else text_of_message(self)
        urls = checked_urls(self.get("url"), "the url of a message")
        made = {"role": "user" if role == "tool" else role, "content": said}
        made["content"] = text_said(role, said)
        return made | ({"name": name} if name else {}) | ({"urls": urls} if urls else {})

    def get_content_blocks(self, block_type: str | None = None) -> list[dict[str, Any]]:
        """Return copies of the blocks of the content, followed by a block for each url.

        Args:
            block_type: Return only blocks of this type, such as "text" or "image".
        """
        content = self.get("content")
        several = cast("list[object]", content) if isinstance(content, list) else [content]
        blocks = [_block(part) for part in several if part is not None]
        blocks += [_url_block(url) for url in checked_urls(self.get("url"), "the url of a message")]
        return [one for one in blocks if block_type in (None, one.get("type"))]

    def get_text_content(self, separator: str = "") -> str:
        """Return the texts of the blocks of text, joined by *separator*."""
        return separator.join(block.get("text", "") for block in self.get_content_blocks("text"))

    def to_str(self) -> str:
        """Return the message as a line of a prompt."""
        raise NotImplementedError

    def serialize(self) -> str:
        """Return the message as JSON, from which `deserialize` makes an equal message."""
        raise NotImplementedError


def _block(part: object) -> dict[str, Any]:
    """Return a part of a content as a block. A part that is no dict becomes a block of text."""
    if isinstance(part, dict):
        return {**cast("dict[str, Any]", part)}
    return {"type": "text", "text": str(part)}


def _url_block(url: str) -> dict[str, Any]:
    """Return a block for an address. The type of the block follows from the file extension."""
    found, _ = guess_type(url)
    kind = (found or "").partition("/")[0]
    return {"type": kind if kind in ("image", "audio", "video") else "file", "url": url}


class Msg(MessageBase):
    """A message of an agent or a user.

    Args:
        echo: True to log the message through the logger ``alveus.chat``.
        name, content, url, timestamp, items: As in `MessageBase`.
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
        """Return the message as JSON.

        Raises:
            InvalidInput: An item is not JSON.
        """
        try:
            return json.dumps({TYPE: kind_name(self), **self}, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            problem = f"a message of {self.get('name')!r} cannot be written as JSON: {error}"
            raise InvalidInput(problem) from error


class Tht(Msg):
    """A thought of an agent."""

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
        InvalidInput: The text is not JSON, or names a class outside `KINDS`. No text can make this
            call import a module.
    """
    items = _items(_parsed(text, "a serialised message"), "a serialised message")
    return kind_of(items.pop(TYPE, "Msg")).from_dict(items)


def kind_name(message: MessageBase) -> str:
    """Return the name of the class that `deserialize` makes: "Msg" for a user's class."""
    return type(message).__name__ if type(message) in KINDS.values() else Msg.__name__


def kind_of(name: object) -> type[Msg]:
    """Return the class of messages with this name. Raise `InvalidInput` if it is unknown."""
    if not isinstance(name, str) or name not in KINDS:
        raise InvalidInput(f"the type of a message must be one of {', '.join(KINDS)}, not {name!r}")
    return KINDS[name]


Embed: TypeAlias = "str | Embedder | Callable[[list[str]], Any]"
"""The name of a bundled embedder, an embedder, or a function that makes vectors of texts."""


def embed_with(model: Embed) -> Callable[[list[str]], Any]:
    """Return a function that makes vectors of texts."""
    return embedding_function(open_embedder(model) if isinstance(model, str) else model)


def vector_of(query: object) -> object | None:
    """Return the query if it is a vector, or None if the query has to be embedded."""
    if isinstance(query, str | dict):
        return None
    if isinstance(query, np.ndarray):
        return cast("object", query)
    if isinstance(query, Sequence):
        numbers = cast("Sequence[object]", query)
        if numbers and all(isinstance(number, int | float) for number in numbers):
            return numbers
    kind = type(cast("object", query)).__name__
    raise InvalidInput(f"a query must be a text, a message or a vector, not {kind}")


def score_of(metric: Callable[[Any, Any], float], query: object, vector: object) -> float:
    """Return the nearness of two vectors by *metric*. Raise `InvalidInput` if it is no number."""
    if not callable(metric):
        raise InvalidInput(f"a metric must be a function of two vectors, not {metric!r}")
    found = metric(query, vector)
    try:
        score = float(found)
    except (TypeError, ValueError):
        score = nan
    if isnan(score):
        raise InvalidInput(f"the metric must return a finite number, not {found!r:.40}")
    return score


FORMAT = "__format"
"""The name of the item that holds the version of the format of files."""

VERSION = 1


def read_messages(source: str | Path) -> list[dict[str, Any]]:
    """Return the messages of a file, or of a JSON text.

    Raises:
        NotJson: The argument is neither the path of a file nor JSON.
        InvalidInput: There are no messages in it, or the file cannot be read.
    """
    text, what = _text_of(source)
    found = _parsed(text, what)
    if not isinstance(found, list | dict):
        raise InvalidInput(f"{what} must hold a list of messages, not {type(found).__name__}")
    listed = cast("list[object]", [found] if isinstance(found, dict) else found)
    return [_read(one, f"message {at} of {what}") for at, one in enumerate(listed)]


def _parsed(text: str | bytes, what: str) -> object:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise InvalidInput(f"{what} is nested too deeply; store its contents flatter") from error
    except json.JSONDecodeError as error:
        raise NotJson(f"Cannot load {what} via json.loads: {error.msg}", error.pos) from error
    except (TypeError, ValueError) as error:  # a number that is too long, or not text
        raise InvalidInput(f"{what} cannot be read ({error})") from error


def _text_of(source: str | Path) -> tuple[str, str]:
    try:
        if isinstance(source, Path) or os.path.exists(source):  # noqa: PTH110 - a text may be too long for a Path
            _check_regular(Path(source))
            return Path(source).read_text("utf-8-sig"), f"the file {str(source)!r}"
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the file {str(source)!r} cannot be read ({error})") from error
    except ValueError:
        pass  # this text cannot be a path
    return cast("str", source), "a text, not the path of a file,"


def _items(found: object, what: str) -> dict[str, Any]:
    """Return the items of a message, which the caller may change."""
    if not isinstance(found, dict):
        raise InvalidInput(f"{what} must be an object, not {type(found).__name__}")
    return cast("dict[str, Any]", found)


def _read(found: object, what: str) -> dict[str, Any]:
    items = _items(found, what)
    if items.pop(FORMAT, VERSION) != VERSION:
        raise InvalidInput(f"{what} was written by a newer alveus; upgrade alveus to read it")
    if "content" in items and "name" in items and TYPE in items:
        return {TYPE: items.pop(TYPE), **Msg.from_dict(items)}
    return items


def _check_regular(path: Path) -> None:
    """Refuse folders, devices and pipes. A missing file is allowed."""
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "it is not a regular file")


def write_messages(path: str | Path, units: Sequence[Mapping[str, Any]]) -> None:
    """Write messages to a file. The file is written whole, or not at all."""
    try:
        text = json.dumps([{**unit, FORMAT: VERSION} for unit in units], indent=4)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the messages cannot be written as JSON: {error}") from error
    if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"file_path must be a path, not {type(path).__name__}")
    try:
        target = Path(path).resolve()
        _check_regular(target)
        handle, part = mkstemp(".part", dir=target.parent)  # others may write to the same path
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            Path(part).replace(target)
            sync_folder(target.parent)
        finally:
            Path(part).unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the file {str(path)!r} cannot be written ({error})") from error
