"""Text from elsewhere made storable: U+FFFD in the place of each lone surrogate, counted."""

from __future__ import annotations

import re
from typing import Any, Generic, NamedTuple, TypeVar, cast

from alveus.values.storable import MAX_DEPTH, is_text

T = TypeVar("T")

REPLACEMENT = "\ufffd"

REPLACED = "replaced_characters"
"""Field that says how many characters were replaced: of an item's metadata, of an answer."""

_LONE = re.compile(r"[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


class ValidText(NamedTuple, Generic[T]):
    """A value whose texts can be stored.

    Attributes:
        value: The value with its replacements; the very object that was given if nothing changed.
        replaced: The number of characters that were replaced by U+FFFD.
    """

    value: T
    replaced: int


def valid_text(value: T) -> ValidText[T]:
    """Return *value*, in which every text can be stored.

    Half of a surrogate pair, as a program makes that cuts a text in the middle of a character, is
    no text: U+FFFD takes its place. The two halves of a pair become the character that they are.
    In lists, tuples and dicts, names of fields included, every text is treated so; a name that
    becomes the same as another one has a further U+FFFD. Nothing else is changed or checked.
    """
    made, replaced = _valid(value, 0)
    return ValidText(cast("T", made), replaced)


def replaced_note(replaced: int) -> str:
    """Return what to tell of replaced characters; "" of none."""
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
        return _valid_list(value, depth)
    return _valid_dict(cast("dict[Any, Any]", value), depth) if type(value) is dict else (value, 0)


def _replaced(text: str) -> tuple[str, int]:
    made, count = _LONE.subn(REPLACEMENT, text)
    return made.encode("utf-16-le", "surrogatepass").decode("utf-16-le"), count


def _valid_list(value: Any, depth: int) -> tuple[Any, int]:  # noqa: ANN401 - a list or a tuple
    pairs = [_valid(part, depth + 1) for part in value]
    if all(made is part for (made, _), part in zip(pairs, value, strict=True)):
        return value, 0
    return type(value)(made for made, _ in pairs), sum(count for _, count in pairs)


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
