"""Inputs, outputs and problems as texts, between Flink and alveus."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

from alveus.errors import AlveusError, InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values import wire
from alveus.values.events import Event, restored
from alveus.values.storable import Value, checked, checked_name

Extract: TypeAlias = Callable[[Any], object]
"""Returns a part of a record of the user's stream."""

_TYPED = re.compile(r"(bool|bytes|float|int|str):")


class FlinkInput(NamedTuple):
    """An input in Flink.

    Attributes:
        value: In wire form: the name of its event class and the event's data; or None and a value,
            for an `InputEvent`.
    """

    key: str
    event_id: str
    value: str

    def content(self, types: dict[str, type[Event]]) -> object:
        """Return the input for the runner: a value, or an event of one of these classes.

        Raises:
            AgentChanged: The agent has no class of that name, or the class has other fields.
        """
        name, data = cast("tuple[str | None, Value]", wire.decode(self.value))
        if name is None:
            return data
        return restored([name, None, None, data], key=self.key, types=types, event_id="", time=0)


def key_text(key: object) -> str:
    """Return the key of a memory for the key of a stream.

    A str does not change, unless it begins like a key of another type: then it gets the prefix
    ``str:``. ``7`` is ``int:7``, so it differs from ``"7"``. `key_of` is the inverse.

    Raises:
        InvalidInput: The key is no str, int, bool, float or bytes.
        InvalidName: The key is empty, or too long.
    """
    if isinstance(key, str):
        return checked_name(f"str:{key}" if _TYPED.match(key) else key, "a key")
    if isinstance(key, bytes):
        return f"bytes:{key.hex()}"
    if isinstance(key, bool | int | float):
        return f"{type(key).__name__}:{key!r}"
    raise InvalidInput(
        f"a key is a str, an int, a bool, a float or bytes, not {short_repr(key)}; give key= a "
        "function that makes one of them from a record"
    )


def key_of(text: str) -> str | int | bool | float | bytes:
    """Return the key of a stream from its `key_text`."""
    named = _TYPED.match(text)
    if named is None:
        return text
    rest = text[named.end() :]
    match named[1]:
        case "str":
            return rest
        case "bytes":
            return bytes.fromhex(rest)
        case "bool":
            return rest == "True"
        case "int":
            return int(rest)
        case _:
            return float(rest)


def input_from(
    record: object, key: Extract | None, value: Extract | None, event_id: Extract | None
) -> FlinkInput:
    """Return the input in a record of a stream.

    Without functions the record is ``(key, value, id)``, a dict with these names, or such a dict as
    JSON; "event" in it names the event class whose fields the value has.

    Raises:
        AlveusError: The record is no input, or its value cannot be stored.
    """
    plain = record
    if isinstance(record, str) and (key is None or value is None or event_id is None):
        plain = _parsed(record)
    name = key_text(_part(plain, "key", 0) if key is None else key(record))
    content = _part(plain, "value", 1) if value is None else value(record)
    label = _part(plain, "id", 2) if event_id is None else event_id(record)
    if isinstance(label, int) and not isinstance(label, bool):
        label = str(label)
    if not isinstance(label, str):
        raise InvalidInput(
            f"an input needs an id, by which it is recognised when Flink sends it again, not "
            f"{short_repr(label)}: a field of the event, or its partition and offset"
        )
    return FlinkInput(name, checked_name(label, "an event id"), _content(plain, content))


def _content(record: object, content: object) -> str:
    """Return the `FlinkInput.value` of a value or an event."""
    if isinstance(content, Event):
        return wire.encode([content.type_name(), {**content.checked().data}])
    named = cast("dict[str, object]", record).get("event") if isinstance(record, dict) else None
    if named is None:
        return wire.encode([None, checked(content)])
    if isinstance(named, str) and isinstance(content, dict):
        return wire.encode([named, checked(cast("object", content))])
    raise InvalidInput(
        f"an input with an event names its class, and has a dict of its fields as value, not "
        f"{short_repr(named)} and {short_repr(content)}"
    )


def _parsed(text: str) -> object:
    try:
        return wire.parse(text)
    except ValueError as error:
        raise InvalidInput(
            f"an input is a line of JSON, {{'key': …, 'value': …, 'id': …}}: {error}"
        ) from error


def _part(record: object, name: str, position: int) -> object:
    if isinstance(record, dict):
        fields = cast("dict[str, object]", record)
        if name in fields:
            return fields[name]
    elif isinstance(record, tuple):
        parts = cast("tuple[object, ...]", record)
        if position < len(parts):
            return parts[position]
    shown = short_repr(cast("object", record))
    raise InvalidInput(
        f"an input has no {name!r}: {shown}; records are (key, value, id), or name "
        f"the function: {'event_id' if name == 'id' else name}=lambda record: …"
    )


def output_line(given: FlinkInput, run: int, number: int, position: int, output: Value) -> str:
    """Return an output as a line of JSON; *position* counts the outputs of its run."""
    return wire.encode(
        {
            "key": given.key,
            "id": given.event_id,
            "run": run,
            "number": number,
            "position": position,
            "output": output,
        }
    )


def problem_line(error: AlveusError, *, given: FlinkInput | None, record: object = None) -> str:
    """Return the reason for missing outputs, as a line of JSON."""
    where: dict[str, Value] = {"record": short_repr(record)}
    if given is not None:
        where = {"key": given.key, "id": given.event_id}
    return wire.encode({**where, "error": type(error).__name__, "message": str(error)})
