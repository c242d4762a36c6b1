"""Storable values, names and times: checked once, copied in and out.

One domain serves the exact tree, items, events and durable results: None, bool, int of any
size, float, str, bytes, list, and dict with str keys. Types are exact (a subclass is refused),
nesting is bounded, no value may contain itself, and no text may contain lone surrogates.
NaN is accepted only if the caller allows it (the exact tree): it is not equal to itself, so a
request with NaN would differ from its repetition.
"""

from __future__ import annotations

import dataclasses
import math
import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from sys import float_info
from types import UnionType
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from alveus.errors import InvalidInput, InvalidName, InvalidTime, InvalidValue, TooLarge
from alveus.errors.short_repr import short_repr

T = TypeVar("T")

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[str, Value] | None"
"""A value that can be stored, anywhere in alveus."""

Path: TypeAlias = tuple[str, ...]
"""The names from the root of an exact tree down to a node; the root itself is ``()``."""

DEFAULT_SPACE = "default"
"""The space of a memory that is opened without one."""

MAX_DEPTH = 100
"""Levels of lists and dicts inside one value; far below Python's recursion limit of 1,000."""

MAX_NAME = 4096
"""The most characters of a space, key, set name or item id."""

MAX_SHOWN_PATH = 60
"""The most characters of the path into a nested value that a message shows."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MICROSECOND = timedelta(microseconds=1)  # multiplying it takes half the time of a new one

ATOMS = frozenset({type(None), bool, int, float, str, bytes})
"""Types of immutable values, which need no copy."""

_PLAIN = frozenset({type(None), bool, int, bytes})


def checked(value: object, *, where: str = "value", nan: bool = False) -> Value:
    """Return a deep copy of *value*, which shares nothing mutable with it.

    Args:
        where: The name of the value in an error.
        nan: Whether NaN is accepted.

    Raises:
        InvalidValue: A part of *value* cannot be stored; the message names the part.
    """
    kind = type(value)
    if kind in _PLAIN:
        return cast("Value", value)
    if kind is str:
        return _text(cast("str", value), where)
    if kind is float:
        return _number(cast("float", value), where, nan)
    return _container(value, where, nan, 0)


def _container(value: object, where: str, nan: bool, depth: int) -> Value:  # noqa: FBT001 - inner
    if depth >= MAX_DEPTH:
        problem = f"is nested deeper than {MAX_DEPTH} levels, or contains itself"
        raise InvalidValue(shortened(where), problem, hint="store it in parts")
    # Naming the position of a part is the slow step, so it is skipped for parts that cannot fail.
    if type(value) is list:
        items = cast("list[Any]", value)
        return [
            v
            if type(v) in _PLAIN or (type(v) is str and v.isascii())
            else _inner(v, where, i, nan, depth)
            for i, v in enumerate(items)
        ]
    if type(value) is dict:
        fields = cast("dict[Any, Any]", value)
        return {
            k if type(k) is str and k.isascii() else _name(k, where): v
            if type(v) in _PLAIN or (type(v) is str and v.isascii())
            else _inner(v, where, k, nan, depth)
            for k, v in fields.items()
        }
    raise InvalidValue(
        where, f"a value of type {_type_name(value)} cannot be stored", hint=_hint(value)
    )


def shortened(where: str) -> str:
    """Return the path into a nested value, shortened for a message."""
    return where if len(where) <= MAX_SHOWN_PATH else f"{where[:MAX_SHOWN_PATH]}…"


def _inner(value: object, where: str, at: object, nan: bool, depth: int) -> Value:  # noqa: FBT001 - inner
    kind = type(value)
    if kind is float and value == value:  # noqa: PLR0124 - NaN does not
        return cast("float", value)
    if kind is str and is_text(cast("str", value)):
        return cast("str", value)
    where = f"{where}[{at!r}]"
    if kind is str:
        return _text(cast("str", value), where)
    if kind is float:
        return _number(cast("float", value), where, nan)
    return _container(value, where, nan, depth + 1)


def is_text(text: str) -> bool:
    """Return whether a text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(key: object, where: str) -> str:
    if type(key) is not str:
        problem = f"a dict with the non-str key {short_repr(key)} cannot be stored"
        hint = "use key.value" if isinstance(key, Enum) else "convert its keys with str()"
        raise InvalidValue(where, problem, hint=hint)
    return _text(key, f"a key of {where}")


def _text(text: str, where: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            problem = f"has a lone surrogate at position {error.start}, which is not valid text"
            hint = "pass alveus.valid_text(value).value, which has U+FFFD instead"
            raise InvalidValue(where, problem, hint=hint) from None
    return text


def _number(number: float, where: str, nan: bool) -> float:  # noqa: FBT001 - inner
    if not nan and math.isnan(number):
        hint = "leave it out, or store None; only the exact tree takes NaN"
        raise InvalidValue(where, "NaN cannot be stored here", hint=hint)
    return number


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


_HINTS = {
    name: hint
    for hint, names in {
        "list(value)": "tuple set frozenset range deque",
        "bytes(value)": "bytearray memoryview",
        "str(value)": "UUID Decimal Fraction PosixPath",
        "value.isoformat()": "datetime date time",
        "value.total_seconds()": "timedelta",
        "[value.real, value.imag]": "complex",
        "dict(value)": "OrderedDict defaultdict Counter",
        "value.tolist()": "ndarray",
        "value.to_dict(), or set(path, obj), which copies it; new_object() makes one": (
            "MemoryObject"
        ),
    }.items()
    for name in names.split()
}


def _hint(value: object) -> str:
    """Return a hint on the conversion of a value of a foreign type."""
    if isinstance(value, Enum):
        return "use value.value; the member itself would come back as another type"
    for method in ("model_dump", "to_json"):
        if hasattr(value, method):
            return f"use value.{method}()"
    name, is_type = type(value).__name__, isinstance(value, type)
    if dataclasses.is_dataclass(value) and not is_type and name != "MemoryObject":
        return "use dataclasses.asdict(value)"
    if name in _HINTS:
        return f"use {_HINTS[name]}"
    if type(value).__module__ == "numpy":
        return "use value.item()"
    for kind in (str, bytes, int, float, list, dict):
        if isinstance(value, kind):
            return f"use {kind.__name__}(value); a subclass would come back as another type"
    return "convert it to None, bool, int, float, str, bytes, list or dict first"


def checked_name(name: object, what: str) -> str:
    """Return *name* if it can name a space, key, set or item.

    Raises:
        InvalidName: *name* is not a non-empty `str`, or has lone surrogates.
        TooLarge: *name* is longer than `MAX_NAME` characters.
    """
    if type(name) is not str:
        found = f"{short_repr(name)} ({type(name).__name__})"
        raise InvalidName(f"{what} must be a non-empty str, not {found}; {_name_hint(name)}")
    if not name:
        raise InvalidName(f"{what} must be a non-empty str, but is empty; pass a name")
    if len(name) > MAX_NAME:
        raise TooLarge(f"{what} has {len(name)} characters; at most {MAX_NAME} are accepted")
    if not (name.isascii() or is_text(name)):
        raise InvalidName(f"{what} {name!r} contains a lone surrogate, which is not valid text")
    return name


def _name_hint(name: object) -> str:
    """Return a hint on the conversion of an object to a name; `str` is wrong for some."""
    if isinstance(name, Enum):
        return "use its value"
    if isinstance(name, bytes):
        return "decode it"
    return "pass a name" if name is None else "convert it with str()"


def checked_prefix(prefix: object) -> str:
    """Return *prefix* if names can begin with it, or if it is empty.

    Raises:
        InvalidName, TooLarge: See `checked_name`.
    """
    if type(prefix) is str and not prefix:
        return prefix
    return checked_name(prefix, "prefix")


def counted(number: object, what: str, *, least: int = 1, most: int | None = None) -> int:
    """Return *number* if it is a whole number from *least* to *most*; else raise `InvalidInput`."""
    if type(number) is not int or number < least or (most is not None and number > most):
        span = f"at least {least}" if most is None else f"from {least} to {most:,}"
        hint = "" if isinstance(number, int) or not hasattr(number, "__index__") else "; use int()"
        raise InvalidInput(f"{what} must be a whole number, {span}, not {short_repr(number)}{hint}")
    return number


def choice(given: T, what: str, *choices: str) -> T:
    """Return *given* if it is one of *choices*; else raise `InvalidInput`."""
    if type(given) is not str or given not in choices:
        *others, last = map(repr, choices)
        listed = f"{', '.join(others)} or {last}"
        raise InvalidInput(f"{what} must be {listed}, not {short_repr(given)}")
    return cast("T", given)


def flag(given: object, what: str) -> bool:
    """Return *given* if it is True or False; else raise `InvalidInput`."""
    if type(given) is not bool:
        raise InvalidInput(f"{what} must be True or False, not {short_repr(given)}")
    return given


def checked_function(given: T, what: str) -> T:
    """Return *given* if it can be called; else raise `InvalidInput`.

    Args:
        what: The start of the error message: ``commit takes a function of a batch``.
    """
    if not callable(given):
        raise InvalidInput(f"{what}, not {short_repr(given)}")
    return cast("T", given)


def checked_kind(given: T, kind: type | UnionType, what: str) -> T:
    """Return *given* if it is an instance of *kind*; else raise `InvalidInput`.

    Args:
        what: The start of the error message, as in ``retain must be a Retain(…)``.
    """
    if not isinstance(given, kind):
        raise InvalidInput(f"{what}, not {short_repr(given)}")
    return given


def checked_progress(given: T | None, arguments: str) -> T | None:
    """Return *given* if it can be called or is None; else raise `InvalidInput`.

    Args:
        arguments: What *given* is called with, for the error.
    """
    what = f"progress must be a function of {arguments}"
    return None if given is None else checked_function(given, what)


def checked_number(number: object, what: str, *, least: float, most: float = math.inf) -> float:
    """Return *number* if it is a number from *least* to *most*; else raise `InvalidInput`."""
    if type(number) not in (int, float) or not least <= cast("float", number) <= most:
        bounds = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:,.10g}"
        raise InvalidInput(f"{what} must be a number, {bounds}, not {short_repr(number)}")
    return cast("float", number)


def checked_wait(wait_s: object) -> float | None:
    """Return *wait_s* if it is a number of seconds, or None for no limit.

    Raise `InvalidInput` if it is neither.
    """
    if wait_s is None:
        return None
    if type(wait_s) in (int, float):
        seconds = cast("float", wait_s)
        if seconds <= float_info.max or seconds == math.inf:  # neither NaN, nor too long a number
            return seconds
    raise InvalidInput(
        f"wait_s must be a number of seconds, or None for no limit, not {short_repr(wait_s)}"
    )


def encodable(text: object, what: str) -> str:
    """Return *text* if it is a `str` without lone surrogates; else raise `InvalidInput`.

    Models and servers accept no other text.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"{what} contains a lone surrogate at {error.start}; use valid Unicode"
        raise InvalidInput(problem) from None  # the cause would contain the text
    return text


def as_dict(value: object) -> dict[str, object]:
    """Return *value* if it is a dict, such as an object of JSON; else an empty dict."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return *value* if it is a list; else an empty list."""
    return cast("list[object]", value) if isinstance(value, list) else []


def microseconds(time: datetime, what: str = "time") -> int:
    """Return *time* as microseconds since 1970 in UTC.

    Raises:
        InvalidTime: *time* is no datetime, or is outside the years 1 to 9999 in UTC. Or *time* has
            no zone: its meaning would depend on the machine.
    """
    if not isinstance(time, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidTime(f"{what} must be a datetime with a zone, not {short_repr(time)}")
    if time.tzinfo is None or time.utcoffset() is None:
        raise InvalidTime(
            f"{what} {time!r} has no time zone; use datetime.now(UTC) or time.replace(tzinfo=UTC)"
        )
    try:
        since_epoch = time.astimezone(UTC) - EPOCH
    except OverflowError:
        raise InvalidTime(
            f"{what} {short_repr(time)} lies outside the years 1 to 9999 in UTC"
        ) from None
    return (since_epoch.days * 86_400 + since_epoch.seconds) * 1_000_000 + since_epoch.microseconds


def moment(us: int) -> datetime:
    """Return the UTC datetime of *us* microseconds since 1970."""
    return EPOCH + us * _MICROSECOND


REPLACEMENT = "\ufffd"

REPLACED = "replaced_characters"
"""The field with the number of replaced characters, in the metadata of an item or in an answer."""

_LONE = re.compile(r"[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


class ValidText(NamedTuple, Generic[T]):
    """A value whose texts can be stored.

    Attributes:
        value: The value with its replacements; the same object if nothing changed.
        replaced: The number of characters that were replaced by U+FFFD.
    """

    value: T
    replaced: int


def valid_text(value: T) -> ValidText[T]:
    """Return *value* with every text made storable.

    Half of a surrogate pair, from a text that was cut inside a character, is replaced by U+FFFD.
    The two halves of a pair become their character. This holds for every text in lists, tuples and
    dicts, also for names of fields. A name that becomes equal to another gets a further U+FFFD.
    Nothing else is changed or checked.
    """
    made, replaced = _valid(value, 0)
    return ValidText(cast("T", made), replaced)


def replaced_note(replaced: int) -> str:
    """Return a note about *replaced* characters, or "" if there are none."""
    if not replaced:
        return ""
    if replaced == 1:
        return "1 character was no valid text: it is kept as U+FFFD."
    return f"{replaced:,} characters were no valid text: they are kept as U+FFFD."


def _valid(value: Any, depth: int) -> tuple[Any, int]:  # noqa: ANN401 - any value
    if isinstance(value, str):
        return (value, 0) if is_text(value) else _replaced(value)
    if depth >= MAX_DEPTH:  # too deep to be stored, or contains itself: the store says so
        return value, 0
    if type(value) in (list, tuple):
        pairs = [_valid(part, depth + 1) for part in value]
        if all(made is part for (made, _), part in zip(pairs, value, strict=True)):
            return value, 0
        return type(value)(made for made, _ in pairs), sum(count for _, count in pairs)
    return _valid_dict(cast("dict[Any, Any]", value), depth) if type(value) is dict else (value, 0)


def _replaced(text: str) -> tuple[str, int]:
    made, count = _LONE.subn(REPLACEMENT, text)
    return made.encode("utf-16-le", "surrogatepass").decode("utf-16-le"), count


def _valid_dict(value: dict[Any, Any], depth: int) -> tuple[dict[Any, Any], int]:
    made: dict[Any, Any] = {}
    total, is_changed = 0, False
    for given, part in value.items():
        (name, in_name), (inner, in_part) = _valid(given, MAX_DEPTH), _valid(part, depth + 1)
        while name is not given and (name in made or name in value):
            name += REPLACEMENT
        is_changed |= name is not given or inner is not part
        made[name] = inner
        total += in_name + in_part
    return (made, total) if is_changed else (value, 0)
