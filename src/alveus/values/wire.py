"""Storable values as JSON text and back, and digests of them.

JSON has no bytes, NaN or infinities, and some programs lose large ints as they read JSON. So these
values are written as objects with one field: ``{"$bytes": base64}``,
``{"$float": "nan" | "inf" | "-inf"}`` and ``{"$int": hex}``. A dict that looks like one of them
(its only key is one of these names, and its value is a text) is written with one more ``$``. All
other keys are written unchanged.
The store, exports, the server and its clients, and the command line use this form.
`decode(encode(v))` equals *v*, with the same types and the same order of dict keys.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import Any, cast

from alveus.errors import InvalidInput, StoreDamaged
from alveus.values.native import NATIVE
from alveus.values.storable import MAX_DEPTH, Value
from alveus.values.times import format_time

_DIGITS = 600
"""The digits in a row from which an int may be too long: Python may refuse more than 640 digits."""

_DIGIT_RUN = re.compile(rf"[0-9]{{1,{_DIGITS}}}")

_MAX_JSON_LEVELS = 2 * MAX_DEPTH
"""JSON with more levels is not parsed: values have at most half as many."""

_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[]}]', re.DOTALL)

_MARK = re.compile(r"\$+(?:bytes|float|int)")
"""The field of a one-field object that stands for another value, or of a dict that looks like it.

See the docstring of this module.
"""

_MAX_JSON_INT = 1 << 1900

_INT64_BOUND = 1 << 63


def _encoder() -> Callable[[Value], str]:
    """Return a function that writes compact JSON, as `JSONEncoder.encode` without its setup."""
    encoder = json.JSONEncoder(
        ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
    )
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    quoted = json.encoder.encode_basestring
    parts = make(None, encoder.default, quoted, None, ":", ",", False, False, False)  # noqa: FBT003 - as C has it
    return lambda value: "".join(parts(value, 0))


_compact = _encoder()
_decode_first: Callable[[str, int], tuple[Any, int]] = cast("Any", json.JSONDecoder()).scan_once
"""The function that `JSONDecoder.raw_decode` calls, which only adds better error messages."""
_sorted = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False, sort_keys=True
).encode


def encode(value: Value) -> str:
    """Return a checked *value* as compact JSON."""
    if type(value) is int and -_INT64_BOUND < value < _INT64_BOUND:
        return str(value)
    if NATIVE is not None and (written := NATIVE.compact(value)) is not None:
        return written
    try:
        text = _compact(value)
    except (TypeError, ValueError):  # bytes, NaN, or a very large int
        return _compact(_escaped(value))
    if '{"$' in text or (len(text) > _DIGITS and _has_long_int(text)):
        return _compact(_escaped(value))
    return text


def wired(value: Value) -> Any:  # noqa: ANN401 - as json.loads
    """Return a value as plain JSON: bytes, NaN and large numbers are one-field objects."""
    return json.loads(encode(value))


def _has_long_int(text: str) -> bool:
    """Return whether *text* has `_DIGITS` digits in a row.

    Such a run has a digit at a multiple of `_DIGITS`. Only these positions are read first, a
    hundred times as fast as all of a text, which takes seconds for 200 MB.
    """
    for step, char in enumerate(text[::_DIGITS]):
        if "0" <= char <= "9":
            at = step * _DIGITS
            before = text[max(0, at - _DIGITS) : at]
            run = _DIGIT_RUN.match(text, at)
            after = 0 if run is None else run.end() - at
            if len(before) - len(before.rstrip("0123456789")) + after >= _DIGITS:
                return True
    return False


def decode(text: str) -> Value:
    """Return the value of a store's *text*, made by `encode`.

    Raises:
        StoreDamaged: `encode` did not make the text.
    """
    try:
        return parse(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreDamaged(None, "a stored value cannot be read") from error


def decode_plain(text: str) -> Any:  # noqa: ANN401 - as json.loads
    """Return the value of a store's *text*, made by `json.dumps`.

    Raises:
        StoreDamaged: The text is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreDamaged(None, "a stored list cannot be read") from error


def parse(text: str) -> Value:
    """Return the value of *text*, which another program may have written.

    Raises:
        ValueError: The text is not JSON, or a marked value in it cannot be read.
    """
    try:
        parsed, end = _decode_first(text, 0)
    except (json.JSONDecodeError, StopIteration):
        end, parsed = -1, None
    if end != len(text):  # it begins or ends otherwise than `encode` has it, or is no JSON
        parsed = json.loads(text)
    return _unescaped(parsed) if '"$' in text or "\\u0024" in text else cast("Value", parsed)


def digest(value: Value, *, salt: bytes) -> bytes:
    """Return a digest of 16 bytes; equal dicts in any order have the same digest."""
    return blake2b(_sorted(_escaped(value)).encode(), digest_size=16, key=salt).digest()


def canonical(value: Value) -> str:
    """Return JSON that is equal for values that a filter treats as equal.

    Names are sorted, and 1.0 is written as 1; True is not 1.
    """
    return _sorted(_escaped(_whole_numbers(value)))


def _whole_numbers(value: Value) -> Value:
    if type(value) is float and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole_numbers(part) for part in value]
    if isinstance(value, dict):
        return {name: _whole_numbers(part) for name, part in value.items()}
    return value


def _escaped(value: Value) -> Value:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if isinstance(value, int) and not -_MAX_JSON_INT < value < _MAX_JSON_INT:
        return {"$int": hex(value)}
    if isinstance(value, list):
        return [_escaped(v) for v in value]
    if isinstance(value, dict):
        if _marked(value) is not None:
            return {f"${name}": text for name, text in value.items()}
        return {k: _escaped(v) for k, v in value.items()}
    return value


def is_mark(name: str) -> bool:
    """Return whether a dict with only this key, and a text, is written with one more ``$``."""
    return _MARK.fullmatch(name) is not None


def _marked(value: dict[str, Value]) -> tuple[str, str] | None:
    """Return the name and text of a one-field object that stands for a value, or looks like it.

    Return None for any other object.
    """
    if len(value) != 1:
        return None
    ((name, text),) = value.items()
    return (name, text) if isinstance(text, str) and is_mark(name) else None


def _unescaped(value: Value) -> Value:
    if isinstance(value, list):
        return [_unescaped(v) for v in value]
    if not isinstance(value, dict):
        return value
    if (marked := _marked(value)) is not None:
        name, text = marked
        return {name[1:]: text} if name.startswith("$$") else _SPECIAL[name](text)
    return {k: _unescaped(v) for k, v in value.items()}


def decode_user_json(text: str) -> Value:
    """Return the value of JSON written by a user; the output of `encode` is read as by `parse`.

    Raises:
        InvalidInput: A number is too large for a float, or an object has a name twice.
        ValueError: The text is not JSON, or not a storable value.
        RecursionError: The JSON is nested very deeply.
    """
    check_depth(text)
    return _unescaped(json.loads(text, parse_float=_finite, object_pairs_hook=unique_fields))


def unique_fields(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """Return *pairs* as a dict; a function for the `object_pairs_hook` of `json.loads`.

    Raises:
        InvalidInput: A name occurs twice, as JSON allows: one of the values would be lost.
    """
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"the field {twice!r:.40} occurs twice")
    return fields


def check_depth(text: str) -> None:
    """Refuse JSON nested so deeply that a parser would come near the end of the stack.

    Code that Python runs at that depth, such as a finalizer, would fail.

    Raises:
        RecursionError: The JSON has more than `_MAX_JSON_LEVELS` levels.
    """
    if text.count("[") + text.count("{") <= _MAX_JSON_LEVELS:
        return
    depth = 0
    for part in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(part[0], 0)
        if depth > _MAX_JSON_LEVELS:
            raise RecursionError(f"JSON is nested deeper than {_MAX_JSON_LEVELS} levels")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidInput(
            f'the number {text[:40]} is too large for a float; write infinity as {{"$float": '
            '"inf"}'
        )
    return number


_SPECIAL: dict[str, Callable[[str], Value]] = {
    "$bytes": partial(base64.b64decode, validate=True),  # other alphabets would lose bytes
    "$float": float,
    "$int": partial(int, base=16),
}


def fields_as_json(value: object) -> dict[str, Value]:
    """Return the fields of a dataclass as JSON, to any depth; times are ISO 8601."""
    return {f.name: _as_json(getattr(value, f.name)) for f in fields(cast("Any", value))}


def _as_json(value: object) -> Value:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Mapping):
        return {str(k): _as_json(v) for k, v in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(one) for one in cast("Sequence[object]", value)]
    return fields_as_json(value) if is_dataclass(value) else cast("Value", value)
