"""Messages in files, as JSON: an array of objects, each with its class and the format's version."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from errno import EINVAL
from pathlib import Path
from tempfile import mkstemp
from typing import Any, cast

from fornix.conversation.message import TYPE, Msg
from fornix.errors import InvalidInput, NotJson

FORMAT = "__format"
"""Which version of this format an object is written in."""

VERSION = 1


def read_messages(source: str | Path) -> list[dict[str, Any]]:
    """Return the messages of a file, or of a text that is JSON.

    Raises:
        NotJson: It is neither.
        InvalidInput: It holds no messages, or the file cannot be read.
    """
    text, what = _text_of(source)
    try:
        found: object = json.loads(text)
    except RecursionError as error:
        raise InvalidInput(f"{what} is nested too deeply for messages") from error
    except json.JSONDecodeError as error:
        raise NotJson(f"Cannot load {what} via json.loads: {error.msg}", error.pos) from error
    except ValueError as error:
        raise InvalidInput(f"{what} holds a number that is too long: {error}") from error
    if not isinstance(found, list | dict):
        raise InvalidInput(f"{what} holds {type(found).__name__}, not a list of messages")
    listed = cast("list[object]", [found] if isinstance(found, dict) else found)
    return [_read(one, what, place) for place, one in enumerate(listed)]


def _text_of(source: str | Path) -> tuple[str, str]:
    try:
        if isinstance(source, Path) or os.path.exists(source):  # noqa: PTH110 - a text may be too long for a Path
            _check_regular(Path(source))
            return Path(source).read_text("utf-8-sig"), f"the file {str(source)!r}"
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the file {str(source)!r} cannot be read: {error}") from error
    except ValueError:
        pass  # a text that can be no path
    return cast("str", source), "a text"


def _read(found: object, what: str, place: int) -> dict[str, Any]:
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise InvalidInput(f"message {place} of {what} is {kind}, not an object")
    items = dict(cast("dict[str, Any]", found))
    if items.pop(FORMAT, VERSION) != VERSION:
        raise InvalidInput(f"message {place} of {what} was written by a newer fornix; upgrade it")
    if "content" in items and "name" in items and TYPE in items:
        return {TYPE: items.pop(TYPE), **Msg.from_dict(items)}
    return items


def _check_regular(path: Path) -> None:
    """Refuse folders, devices and pipes; what is not there may be made.

    Raises:
        OSError: It is one of them.
    """
    if path.exists() and not path.is_file():
        raise OSError(EINVAL, "it is no regular file")


def write_messages(path: str | Path, units: Sequence[Mapping[str, Any]]) -> None:
    """Write messages to a file, whole or not at all.

    Raises:
        InvalidInput: A message holds what is not JSON, or the file cannot be written.
    """
    try:
        text = json.dumps([{**unit, FORMAT: VERSION} for unit in units], indent=4)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the messages cannot be written as JSON: {error}") from error
    if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"file_path is a path, not {type(path).__name__}")
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
        finally:
            Path(part).unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the file {str(path)!r} cannot be written: {error}") from error
