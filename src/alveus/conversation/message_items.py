"""Conversions between messages of a conversation (role dicts with tool calls) and items."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, cast

from alveus.errors import InvalidInput, InvalidTime, InvalidValue
from alveus.errors.short_repr import short_repr
from alveus.llm.answer_reader import is_thought, message_without_thoughts
from alveus.llm.chat import ROLES as CHAT_ROLES
from alveus.store import StoredItem
from alveus.store.items import Item
from alveus.store.records import decoded_metadata, item_of, role_of_speaker
from alveus.text.messages import ROLES, Message, Role
from alveus.values import wire
from alveus.values.storable import (
    REPLACED,
    as_dict,
    as_list,
    checked,
    checked_name,
    microseconds,
    moment,
    valid_text,
)
from alveus.values.times import UTC_ZONE, Zone
from alveus.values.urls import append_urls

Said: TypeAlias = Mapping[str, Any] | Message
"""A message: a dict with `role` and `content`, a `Msg`, or a `Message`."""

SUMMARY = "summary of the conversation"
"""The id of a conversation's summary."""

COMPRESSED = "compressed"
"""The mark of messages that the summary covers."""

MARKS = "marks"
"""The metadata field of an item with the marks of its message."""

_CALLS = ("tool_use", "tool_call")
_ANSWERS = ("tool_result",)
_MAIN = ("id", "role", "name", "content")
_IMPORTED = ("tool_calls", "tool_call_id", "tool_name", "refusal", "audio", "function_call")
"""Fields that an import keeps in the metadata of a message."""

_INSTEAD = ("tool_calls", "function_call", "refusal", "audio")
"""Fields that a message may have instead of content."""

_OF_SERVERS = ("name", *_IMPORTED, "images")
"""Fields that servers accept besides role and content; `tool_name` and `images` are Ollama's."""

_ABSENT = "without"
"""The field of an item's value that names which of "role" and "content" a message does not have."""

JUST_NOW = timedelta(minutes=1)
"""A message gets the time of its commit if it is added within this time after its timestamp.

Timestamps often have a precision of one second. They would change the order among messages without
a timestamp.
"""

_MILLISECONDS = 1e11
"""Unix times from this number on count milliseconds: in seconds this number is in the year 5138."""


def listed(messages: object) -> list[dict[str, Any]]:
    """Return one message or several as a list of new dicts."""
    if messages is None:
        return []
    if isinstance(messages, Mapping | Message):
        return [_plain(cast("Said", messages))]
    if isinstance(messages, str | bytes) or not isinstance(messages, Iterable):
        raise _no_message(messages)
    return [_plain(one) for one in cast("Iterable[object]", messages)]


def _no_message(given: object) -> InvalidInput:
    shown = '{"role": "user", "content": "I live in Lisbon."}'
    return InvalidInput(f"a message must be a dict, such as {shown}, not {type(given).__name__}")


def _plain(message: object) -> dict[str, Any]:
    if isinstance(message, Message):
        return dict(message.to_dict())
    if not isinstance(message, Mapping):
        raise _no_message(message)
    made = dict(cast("Mapping[str, Any]", message))
    if not ("content" in made or any(map(made.get, _INSTEAD)) or is_response_item(made)):
        raise InvalidInput(f"a message needs content or tool_calls, but has only {sorted(made)}")
    role = made.get("role", "assistant")
    if not isinstance(role, str) or not role:
        raise InvalidInput(
            f"the role of a message must be one of {', '.join(ROLES)}, not {short_repr(role)}"
        )
    return made


def is_response_item(message: Mapping[str, Any]) -> bool:
    """Return whether a message is an item of OpenAI's Responses, such as a function call.

    Such an item has a type and no role. Messages of the Responses API have both.
    """
    return isinstance(message.get("type"), str) and "role" not in message


def _role_of(message: Mapping[str, Any]) -> str:
    """Return the role of a message. For a Responses item, return the role of its author."""
    if is_response_item(message) and message["type"].endswith("_output"):
        return "tool"
    return message.get("role", "assistant")


def id_of(message: Mapping[str, Any]) -> str | None:
    """Return the id in a message, or None if the message has none.

    Raises:
        InvalidInput: The id is not a valid name, or is the id of the summary.
    """
    found = message.get("id")
    if found is None:
        return None
    if checked_name(found, "a message's id") == SUMMARY:
        raise InvalidInput(f"the id {SUMMARY!r} is the summary's; give the message another id")
    return cast("str", found)


# --- as items -----------------------------------------------------------------------------------


def as_item(
    message: Mapping[str, Any], marks: Sequence[str], session: str, zone: Zone = UTC_ZONE
) -> Item:
    """Return the item that stores a message.

    The value of the item has the form of `Message.to_dict`, so that prompts can show it. Its field
    "more" has the fields of the message that this form does not have, or has in another form.
    Reasoning of a model is left out, except reasoning with a signature, which is kept outside of
    the text. Invalid text is replaced as by `valid_text`, and the metadata has the number of
    replaced characters.

    Args:
        zone: The time zone of a message whose timestamp has no offset.
    """
    message = message_without_thoughts(message)
    message, replaced = valid_text({name: message[name] for name in message if name != "id"})
    content, name, role = message.get("content"), message.get("name"), _role_of(message)
    calls, answers = _ids(message)
    text, time = whole_text(message), time_of(message.get("timestamp"), zone)
    value: dict[str, Any] = {"role": role, "content": text}
    if is_response_item(message):
        value[_ABSENT] = [part for part in ("role", "content") if part not in message]
    if isinstance(name, str) and name:
        value["name"] = name
    if calls:
        value["calls"] = calls
    if answers:
        value["answers"] = answers
    more = {key: given for key, given in message.items() if key not in _MAIN}
    if content != text and "content" not in value.get(_ABSENT, ()):
        more["content"] = content
    if "name" in message and "name" not in value:
        more["name"] = name
    if more:
        value["more"] = more
    about: dict[str, Any] = {MARKS: list(marks)} if marks else {}
    if replaced:
        about[REPLACED] = replaced
    return Item(
        value,
        text=text,
        metadata=about,
        role=role_of_speaker(role) or role,
        speaker=value.get("name"),
        session=session,
        time=time,
        timezone=zone.info if time is None else time.tzinfo,
    )


def time_of(timestamp: object, zone: Zone) -> datetime | None:
    """Return the time that a message's timestamp gives, or None if it gives none.

    The timestamp may be ISO 8601, or Unix time in seconds or milliseconds. A time with an offset
    keeps the offset; otherwise *zone* applies.
    """
    try:
        if isinstance(timestamp, str):
            time = zone.instant(datetime.fromisoformat(timestamp))
        elif isinstance(timestamp, int | float) and not isinstance(timestamp, bool):
            seconds = timestamp / 1000 if timestamp >= _MILLISECONDS else timestamp
            time = zone.local(datetime.fromtimestamp(seconds, UTC))
        else:
            return None
        microseconds(time)
    except (ValueError, OverflowError, OSError, InvalidTime):
        return None
    return time


def in_order(items: Sequence[Item], now: int | None, last: int = 0) -> list[Item]:
    """Return items of messages with times that keep the given order.

    An item without a time gets the time of the next item that has one. If no next item has a time,
    it stays without one, and will get the time of the commit.

    Args:
        now: The time, in microseconds. Items whose times are within `JUST_NOW` before it, or later,
            lose them, and so get the time of the commit. If None, all items keep their times.
        last: The time of the last stored message, in microseconds. If it is in the future, because
            a clock was ahead, items get this time instead of the time of the commit, so that they
            follow that message.
    """
    latest = None if now is None else moment(now) - JUST_NOW
    times: list[datetime | None] = []
    for item in items:
        keeps_time = item.time is not None and (latest is None or item.time < latest)
        times.append(item.time if keeps_time else None)
    after: datetime | None = None
    for at in reversed(range(len(times))):  # an item without a time precedes the next item
        after = times[at] = times[at] or after
    made: list[Item] = []
    ahead = moment(last) if now is not None and last > now else None
    for item, time in zip(items, times, strict=True):
        before = made[-1].time if made else None
        made.append(replace(item, time=ahead if time is None else max(time, before or time)))
    return made


def _ids(message: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the ids of the tool calls in a message, and of the calls that it answers."""
    calls = _texts(message.get("calls")) + _named(message.get("tool_calls"), None)
    answers = _texts(message.get("answers")) + _texts([message.get("tool_call_id")])
    blocks = message.get("content")
    calls += _named(blocks, _CALLS)
    answers += _named(blocks, _ANSWERS)
    if is_response_item(message):
        ids = _texts([message.get("call_id")])
        calls, answers = (calls, ids) if _role_of(message) == "tool" else (ids, answers)
    return list(dict.fromkeys(calls)), list(dict.fromkeys(answers))


def _named(found: object, kinds: Sequence[str] | None) -> list[str]:
    """Return the ids of the dicts in a list whose type is one of *kinds*; None allows any type."""
    dicts = _dicts(found)
    some = [one for one in dicts if kinds is None or one.get("type") in kinds]
    return _texts([one.get("tool_use_id", one.get("id")) for one in some])


def _dicts(found: object) -> list[Mapping[str, Any]]:
    return [cast("Mapping[str, Any]", part) for part in as_list(found) if isinstance(part, dict)]


def _has_only_dicts(found: object) -> bool:
    """Return whether *found* is a list of dicts, possibly empty."""
    return all(isinstance(part, dict) for part in as_list(found)) and isinstance(found, list)


def _texts(found: object) -> list[str]:
    parts = cast("Sequence[object]", found) if isinstance(found, list | tuple) else ()
    return [part for part in parts if isinstance(part, str) and part]


def text_of_message(message: Mapping[str, Any]) -> str:
    """Return the text of a message: its content, or if that is no text, its parts and calls."""
    content = message.get("content")
    if isinstance(content, str) and content:
        return content
    parts = [part for part in _dicts(content) if not is_thought(part)]
    said_parts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    said_parts += [_call(call) for call in _dicts(message.get("tool_calls"))]
    said_parts += [
        _block(part) for part in _dicts(content) if part.get("type") in (*_CALLS, *_ANSWERS)
    ]
    if is_response_item(message):
        said_parts.append(_response_text(message))
    if not said_parts and content not in (None, "", []) and not _dicts(content):
        return _written(content)
    return "\n".join(said_parts)


def _response_text(item: Mapping[str, Any]) -> str:
    """Return the text of a Responses item: the output of a tool, or a call with its arguments."""
    if "output" in item:
        return _said(item["output"])
    return f"{item['name']}({_written(item.get('arguments', ''))})" if "name" in item else ""


def _said(found: object) -> str:
    """Return the text of a tool's output: the text, the text of its parts, or JSON."""
    said_parts = [part["text"] for part in _dicts(found) if isinstance(part.get("text"), str)]
    return "\n".join(said_parts) or ("" if found in (None, []) else _written(found))


def _written(found: object) -> str:
    """Return a text unchanged, and any other value as JSON.

    Raises:
        InvalidValue: The value cannot be stored.
    """
    if isinstance(found, str):
        return found
    return json.dumps(checked(found, nan=True), ensure_ascii=False, default=str)


def whole_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, followed by its urls on separate lines."""
    return append_urls(text_of_message(message), _urls(message))


def _urls(message: Mapping[str, Any]) -> list[str]:
    url = message.get("url")
    return _texts([url] if isinstance(url, str) else url)


def _call(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    if not isinstance(function, dict):
        return ""
    said = as_dict(cast("object", function))
    return f"{said.get('name', '')}({_written(said.get('arguments', ''))})"


def _block(part: Mapping[str, Any]) -> str:
    if part.get("type") in _CALLS:
        return f"{part.get('name', '')}({_written(part.get('input', ''))})"
    return _said(part.get("output", part.get("content", "")))


# --- as messages --------------------------------------------------------------------------------


def value_of(stored: StoredItem) -> dict[str, Any]:
    """Return the value of a message's item. If it is a plain text, return the value of a message.

    Imports store messages as plain texts.
    """
    item = item_of(stored)
    value: object = item.value
    return cast("dict[str, Any]", value) if isinstance(value, dict) else _value_of_text(item)


def _value_of_text(item: Item) -> dict[str, Any]:
    """Return the value that `as_item` would store for a message that an import stored as a text.

    The import keeps other fields of the message in the item's metadata.
    """
    message: dict[str, Any] = {"role": item.role or "user", "content": item.value}
    if item.speaker is not None:
        message["name"] = item.speaker
    message |= {name: item.metadata[name] for name in _IMPORTED if name in item.metadata}
    return cast("dict[str, Any]", as_item(message, (), "").value)


def as_message(stored: StoredItem) -> dict[str, Any]:
    """Return a message as it was added, with its id."""
    value = value_of(stored)
    more: dict[str, Any] = {}
    if isinstance(value.get("more"), dict):
        more = value.pop("more")
    if "calls" not in more:
        value.pop("calls", None)
    if "answers" not in more:
        value.pop("answers", None)
    for name in value.pop(_ABSENT, ()):
        value.pop(name, None)
    return {"id": stored.record.id, **value, **more}


def for_model(stored: StoredItem) -> dict[str, Any]:
    """Return a message in a form that a model's server accepts.

    The message keeps the format in which it was added: OpenAI's, Ollama's, Anthropic's blocks, or
    an item of OpenAI's Responses. Content in another format, or with urls, becomes text.
    """
    message = as_message(stored)
    if is_response_item(message):
        return {name: message[name] for name in message if name != "id"}
    made: dict[str, Any] = {"role": message.get("role") or "assistant"}
    if made["role"] == "tool" and stored.record.value is None and not _names_a_call(message):
        made["role"] = "assistant"  # from ChatGPT's export; servers refuse an answer without a call
    more = {name: message[name] for name in _OF_SERVERS if message.get(name) is not None}
    content = message.get("content")
    if content is None and any(map(more.get, _INSTEAD)):
        made["content"] = None
    else:
        is_form = isinstance(content, str) or _has_only_dicts(content)
        made["content"] = content if is_form and not message.get("url") else stored.record.text
    return made | more


def _names_a_call(message: Mapping[str, Any]) -> bool:
    return message.get("tool_call_id") is not None or message.get("tool_name") is not None


def for_chat(stored: StoredItem) -> dict[str, Any]:
    """Return a message in the form for a `ChatModel`: its text, and its urls in a field."""
    message = as_message(stored)
    role, name = message.get("role") or "assistant", message.get("name")
    made: dict[str, Any] = {
        "role": role if role in CHAT_ROLES else "user",
        "content": text_of_message(message),
    }
    if isinstance(name, str) and name:
        made["name"] = name
    if urls := _urls(message):
        made["urls"] = urls
    return made


def model_message(stored: StoredItem) -> Message:
    """Return a message for counting tokens and for matching tool calls with their answers.

    Tool calls that the same message answers, in its blocks, are left out.
    """
    value = value_of(stored)
    role = value.get("role")
    said = stored.record.text or ""
    who: Role = role if role in ROLES else "system" if role == "developer" else "user"
    calls, answers = _texts(value.get("calls")), _texts(value.get("answers"))
    inner = {*calls} & {*answers}
    asked = tuple(call for call in calls if call not in inner)
    return Message(said, who, None, asked, tuple(call for call in answers if call not in inner))


def blocks_of(stored: StoredItem) -> list[Any]:
    """Return the content blocks of a message, or an empty list if it has fewer than two."""
    blocks = as_list(as_dict(value_of(stored).get("more")).get("content"))
    return blocks if len(blocks) > 1 and len(_dicts(blocks)) == len(blocks) else []


def with_blocks(stored: StoredItem, blocks: Sequence[Any]) -> StoredItem:
    """Return a copy of a message with only these content *blocks*. The copy must not be stored."""
    message = as_message(stored) | {"content": list(blocks)}
    item = as_item(message, [], stored.record.session or "")
    record = replace(stored.record, value=wire.encode(item.value), text=item.text)
    return replace(stored, record=record)


def line_of(stored: StoredItem) -> str:
    """Return a message as a line of a summariser's input."""
    record = stored.record
    return f"{record.speaker or record.role or 'user'}: {record.text or ''}"


# --- marks --------------------------------------------------------------------------------------


def checked_mark(mark: object, what: str = "mark") -> str:
    """Return *mark* if it is valid.

    Raises:
        InvalidValue: The mark is not a text. This error is a TypeError, too.
        InvalidInput: The mark is empty.
    """
    if not isinstance(mark, str):
        raise InvalidValue(what, f"must be a text, not {type(mark).__name__}", hint="use str(mark)")
    return checked_name(mark, "a mark")


def checked_marks(marks: object, what: str = "marks") -> list[str]:
    """Return the marks in a list, each once, or a single mark as a list. See `checked_mark`."""
    if marks is None:
        return []
    if isinstance(marks, str):
        return [checked_mark(marks, what)]
    if isinstance(marks, bytes) or not isinstance(marks, Iterable):
        raise InvalidValue(
            what, f"must be a list of texts, not {type(marks).__name__}", hint="use a list"
        )
    return list(dict.fromkeys(checked_mark(one, what) for one in cast("Iterable[object]", marks)))


def marks_of(stored: StoredItem) -> list[str]:
    """Return the marks of a message."""
    if stored.record.metadata == "{}":
        return []
    return _texts(decoded_metadata(stored.record.metadata).get(MARKS))


def marks_with(stored: StoredItem, mark: str) -> list[str]:
    """Return the marks of a message with *mark* added."""
    return list(dict.fromkeys([*marks_of(stored), mark]))


def marks_without(stored: StoredItem, mark: str) -> list[str]:
    """Return the marks of a message without *mark*."""
    return [one for one in marks_of(stored) if one != mark]


def with_marks(stored: StoredItem, marks: Sequence[str]) -> Item:
    """Return the item of a message with other marks. The message keeps its position."""
    item = item_of(stored)
    metadata = {key: kept for key, kept in item.metadata.items() if key != MARKS}
    return replace(item, metadata=metadata | ({MARKS: list(marks)} if marks else {}))


# --- states -------------------------------------------------------------------------------------


def of_state(listed_: object, session: str, now: int, zone: Zone) -> list[Item]:
    """Return the items for the messages in a conversation's state.

    Args:
        listed_: The "content" of the state: messages, or pairs of a message and its marks.
        now: The time, in microseconds; see `in_order`.
        zone: The time zone of a message whose timestamp has no offset.

    Raises:
        InvalidInput: *listed_* is not the content of a state.
    """
    if not isinstance(listed_, list | tuple):
        raise InvalidInput(f"the content of a state must be a list, not {type(listed_).__name__}")
    items: dict[str | int, Item] = {}
    for number, entry in enumerate(cast("Sequence[object]", listed_)):
        alone = isinstance(entry, Mapping)
        pair = cast("Sequence[object]", [entry, []] if alone else entry)
        if not isinstance(pair, list | tuple) or len(pair) != 2:  # noqa: PLR2004 - a pair
            raise InvalidInput(f"entry {number} of a state must be a pair: a message and its marks")
        message = _plain(pair[0])
        item = as_item(message, checked_marks(pair[1]), session, zone)
        given = id_of(message)
        items.setdefault(number if given is None else given, replace(item, id=given))
    return in_order(list(items.values()), now)
