"""The texts for inputs, outputs and problems that Flink and alveus exchange."""

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
"""A function that returns the key, value or id of a record of the user's stream."""

_TYPED = re.compile(r"(bool|bytes|float|int|str):")


class FlinkInput(NamedTuple):
    """An input in Flink.

    Attributes:
        key: The key of a memory; see `key_text`.
        event_id: The id by which a repeated input is recognised.
        value: A pair in wire form: the name of the event class and the data of the event. For an
            `InputEvent`: None and the value.
    """

    key: str
    event_id: str
    value: str

    def content(self, types: dict[str, type[Event]]) -> object:
        """Return the input for the runner: a value, or an event of a class in *types*.

        Raises:
            AgentChanged: *types* has no class with this name, or the class has other fields.
        """
        name, data = cast("tuple[str | None, Value]", wire.decode(self.value))
        if name is None:
            return data
        return restored([name, None, None, data], key=self.key, types=types, event_id="", time=0)


def key_text(key: object) -> str:
    """Return the key of a memory for the key of a stream; `key_of` is the inverse.

    The int ``7`` becomes ``"int:7"``, so that it differs from the str ``"7"``. A str does not
    change, except that a str which begins with a type and a colon gets the prefix ``str:``.

    Raises:
        InvalidInput: *key* is not a str, int, bool, float or bytes.
        InvalidName: *key* is empty, or too long.
    """
    if isinstance(key, str):
        return checked_name(f"str:{key}" if _TYPED.match(key) else key, "a key")
    if isinstance(key, bytes):
        return f"bytes:{key.hex()}"
    if isinstance(key, bool | int | float):
        return f"{type(key).__name__}:{key!r}"
    raise InvalidInput(
        f"a key must be a str, an int, a bool, a float or bytes, not {short_repr(key)}; pass "
        "key=, a function that returns one of them for a record"
    )


def key_of(text: str) -> str | int | bool | float | bytes:
    """Return the key of a stream whose `key_text` is *text*."""
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

    The functions *key*, *value* and *event_id* return the parts of the record. A part whose
    function is None is found by its position or name: the record is then a tuple
    ``(key, value, id)``, a dict with these names, or such a dict as JSON. If the dict also has the
    name "event", it names an event class, and the value is the dict of the event's fields.

    Raises:
        AlveusError: The record is not an input, or its value cannot be stored.
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
            f"the id of an input must be a non-empty str, not {short_repr(label)}; use a field "
            "of the event, or its partition and offset"
        )
    return FlinkInput(name, checked_name(label, "an event id"), _content(plain, content))


def _content(record: object, content: object) -> str:
    """Return the `FlinkInput.value` for *content*, the value or event in *record*."""
    if isinstance(content, Event):
        return wire.encode([content.type_name(), {**content.checked().data}])
    named = cast("dict[str, object]", record).get("event") if isinstance(record, dict) else None
    if named is None:
        return wire.encode([None, checked(content)])
    if isinstance(named, str) and isinstance(content, dict):
        return wire.encode([named, checked(cast("object", content))])
    raise InvalidInput(
        "an input with an event needs the name of the event's class and a dict of its fields, not "
        f"{short_repr(named)} and {short_repr(content)}"
    )


def _parsed(text: str) -> object:
    try:
        return wire.parse(text)
    except ValueError as error:
        raise InvalidInput(
            f"an input must be a line of JSON, {{'key': …, 'value': …, 'id': …}} ({error})"
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
        f"an input has no {name!r}: {shown}; records must be (key, value, id), or pass a "
        f"function: {'event_id' if name == 'id' else name}=lambda record: …"
    )


def output_line(given: FlinkInput, run: int, number: int, position: int, output: Value) -> str:
    """Return an output as a line of JSON; *position* is its number in the run, from 0."""
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
    """Return the error that explains why an input has no outputs, as a line of JSON.

    Args:
        given: The input, or None if *record* is not an input.
    """
    where: dict[str, Value] = {"record": short_repr(record)}
    if given is not None:
        where = {"key": given.key, "id": given.event_id}
    return wire.encode({**where, "error": type(error).__name__, "message": str(error)})
