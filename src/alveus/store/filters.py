r"""`where=`: a JSON filter over metadata and item fields, checked once.

::

    {"topic": "travel",                      a field equals a value
     "year": {"gte": 2020, "lt": 2024},      eq ne gt gte lt lte in nin exists contains
     "author.name": "Ada",                   a dot reaches into an object
     "$time": {"gt": "2024-05-01T00:00Z"},   item: $id $importance $role $session $speaker $time
     "$value.city": "Lisbon",                the value of an item, whole or a field of it
     "any": [{…}, {…}], "all": [{…}, {…}], "not": {…}}

An item matches a dict if it matches all entries of the dict. In the name of a field, a backslash
takes away the special meaning of the next character: ``a\.b`` is one name with a dot, ``\any`` is a
field called any, and ``\$x`` is a field whose name begins with a dollar.
Numbers, int or float, compare with numbers, and texts with texts, by code point. A bool is not a
number. Lists and objects can only be compared as a whole: ``{"eq": ["a", "b"]}``.
If an item lacks a field, only ``exists: false`` and ``not`` match. If the value of the field has
another type than the operand, no comparison matches, not even ``ne`` and ``nin``.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import datetime
from enum import Enum
from typing import Final, TypeAlias, cast

from alveus.errors import InvalidFilter, InvalidTime, InvalidValue
from alveus.errors.short_repr import short_repr
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value, checked, microseconds, moment, shortened

MAX_DEPTH = 32
"""The most levels to which ``any``, ``all`` and ``not`` may be nested."""

MAX_CONDITIONS = 1000
"""The most operators in one filter."""

Scalar: TypeAlias = "bool | int | float | str | None"

Key: TypeAlias = tuple[str, Scalar]
"""A (kind, scalar) pair, which comparisons use: 1 equals 1.0, and 1 does not equal True."""


_KINDS: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "bool",
    int: "number",
    float: "number",
    str: "text",
}
_WHOLE: Final[Mapping[type, str]] = {list: "list", dict: "object"}

VALUE: Final = "$value"
"""The name of an item's value in `where=`. A dot after it names a field of the value."""

ITEM_FIELDS: Final[Mapping[str, str]] = {
    "$id": "text",
    "$importance": "number",
    "$role": "text",
    "$session": "text",
    "$speaker": "text",
    "$time": "time",
}
"""The item fields that `where=` can name, and the kind of their operands."""


_MOST_DIGITS = 10**600


class Absent(Enum):
    """The value of a field that an item does not have."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


def key_of(value: Value | Absent) -> Key | None:
    """Return (kind, value) of a scalar, or (kind, canonical JSON) of a list or dict.

    Returns None for bytes, and for `ABSENT`.
    """
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind, cast("Scalar", value)
    kind = _WHOLE.get(type(value))
    return None if kind is None else (kind, wire.canonical(cast("Value", value)))


# --- tests of a value ---------------------------------------------------------------------------


def _equal(value: Value | Absent, operands: frozenset[Key]) -> bool:
    return key_of(value) in operands


def _unequal(value: Value | Absent, operands: frozenset[Key]) -> bool:
    key = key_of(value)
    if key is None or key in operands:
        return False
    if not operands:
        return key[0] not in _WHOLE.values()
    return any(kind == key[0] for kind, _ in operands)


def _ordered(compare: Callable[[float | str, float | str], bool]) -> Test:
    def test(value: Value | Absent, operands: frozenset[Key]) -> bool:
        ((kind, operand),) = operands
        if _KINDS.get(type(value)) != kind:
            return False
        return compare(cast("float | str", value), cast("float | str", operand))

    return test


def _exists(value: Value | Absent, operands: frozenset[Key]) -> bool:
    ((_, wanted),) = operands
    return (value is not ABSENT) == wanted


def _contains(value: Value | Absent, operands: frozenset[Key]) -> bool:
    ((kind, operand),) = operands
    if type(value) is list:
        return any(key_of(part) in operands for part in value)
    return type(value) is str and kind == "text" and cast("str", operand) in value


Test: TypeAlias = Callable[["Value | Absent", frozenset[Key]], bool]

_TESTS: Final[Mapping[str, Test]] = {
    "eq": _equal,
    "ne": _unequal,
    "gt": _ordered(operator.gt),
    "gte": _ordered(operator.ge),
    "lt": _ordered(operator.lt),
    "lte": _ordered(operator.le),
    "in": _equal,
    "nin": _unequal,
    "exists": _exists,
    "contains": _contains,
}
_ORDERS: Final = frozenset({"gt", "gte", "lt", "lte"})
_EQUALITIES: Final = frozenset({"eq", "ne", "in", "nin"})


# --- a parsed filter ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator on one field.

    Attributes:
        path: The names that lead to the field. The path of an item field begins with the name of
            that field, including the dollar.
        is_item_field: Whether the field is an item field. If not, it is a field of the metadata.
        op: The name of the operator, such as ``gte``.
        operands: The values to compare with: one value, or any number with ``in`` and ``nin``.
    """

    path: Path
    is_item_field: bool
    op: str
    operands: frozenset[Key]

    def accepts(self, value: Value | Absent) -> bool:
        """Return whether a field that has *value* matches the condition."""
        return _TESTS[self.op](value, self.operands)

    def value_in(
        self, metadata: Mapping[str, Value], item_fields: Mapping[str, Value]
    ) -> Value | Absent:
        """Return the value that the condition's field has in an item; `ABSENT` if it has none."""
        if not self.is_item_field:
            return reach(metadata, self.path)
        if self.is_of_value:
            return reach(item_fields, self.path)
        value = item_fields.get(self.path[0])
        return ABSENT if value is None else value

    @property
    def is_of_value(self) -> bool:
        """Whether the condition is on the item's value, or a field within that value."""
        return self.is_item_field and self.path[0] == VALUE


@dataclass(frozen=True, slots=True)
class All:
    """A node that matches if every part matches."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """A node that matches if at least one part matches."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """A node that matches if its part does not match."""

    part: Node


Node: TypeAlias = Condition | All | Some | Not


def reach(metadata: Mapping[str, Value], path: Path) -> Value | Absent:
    """Return the value at *path* in nested *metadata*, or `ABSENT` if there is none."""
    name, *rest = path
    value = metadata.get(name, ABSENT)
    for name in rest:
        if type(value) is not dict:
            return ABSENT
        value = value.get(name, ABSENT)
    return value


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed `where=`. Two filters are equal if their `text` is equal.

    Attributes:
        text: The filter in canonical JSON: its names are sorted, each condition names its operator,
            and times are in UTC. Parsing the text returns an equal filter.
        root: The filter as a tree of conditions.
    """

    text: str
    root: Node = field(compare=False, repr=False)

    @staticmethod
    def parse(where: Mapping[str, object] | None) -> Filter | None:
        """Return *where* as a filter, or None if *where* is None or empty.

        Raises:
            InvalidFilter: The filter is invalid; the message names the wrong part.
        """
        if where is None:
            return None
        root, plain = _Parser().parse(where, "where", 0)
        if not plain:
            return None
        text = json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return Filter(text, root)

    def matches(self, metadata: Mapping[str, Value], item_fields: Mapping[str, Value]) -> bool:
        """Return whether an item matches the filter.

        Args:
            metadata: The metadata of the item.
            item_fields: The item fields by their names in `ITEM_FIELDS`, and the value as `VALUE`.
                ``$time`` is in microseconds since 1970. An item field that is None, such as an
                unknown speaker, counts as absent.
        """
        return _matches(self.root, metadata, item_fields)

    def conditions(self) -> Iterator[Condition]:
        """Yield all conditions in the filter."""
        return _conditions(self.root)


def _matches(node: Node, metadata: Mapping[str, Value], item_fields: Mapping[str, Value]) -> bool:
    match node:
        case Condition():
            return node.accepts(node.value_in(metadata, item_fields))
        case All(parts):
            return all(_matches(part, metadata, item_fields) for part in parts)
        case Some(parts):
            return any(_matches(part, metadata, item_fields) for part in parts)
        case Not(part):
            return not _matches(part, metadata, item_fields)


def _conditions(node: Node) -> Iterator[Condition]:
    match node:
        case Condition():
            yield node
        case All(parts) | Some(parts):
            for part in parts:
                yield from _conditions(part)
        case Not(part):
            yield from _conditions(part)


# --- parsing ------------------------------------------------------------------------------------

_Json: TypeAlias = dict[str, object]


class _Parser:
    """Parses one `where=`, and refuses more than `MAX_CONDITIONS` conditions."""

    def __init__(self) -> None:
        self._left = MAX_CONDITIONS

    def parse(self, where: object, path: str, depth: int) -> tuple[Node, _Json]:
        """Return *where* as a node, and as a dict for canonical JSON.

        Args:
            path: The position of *where* in the filter, for errors.
            depth: How many levels of ``any``, ``all`` and ``not`` are around *where*.
        """
        if not isinstance(where, Mapping):
            raise InvalidFilter(
                f"{path} must be a dict of fields and operators, not {short_repr(where)}"
            )
        if depth > MAX_DEPTH:
            raise InvalidFilter(
                f"{shortened(path)} is nested deeper than {MAX_DEPTH} levels, or contains "
                "itself; use fewer levels"
            )
        parts: list[Node] = []
        plain: _Json = {}
        for name, asked in cast("Mapping[object, object]", where).items():
            at = f"{path}[{short_repr(name)}]"
            if type(name) is not str:
                raise InvalidFilter(f"{at}: the name of a field must be a str")
            node, spelled, said = self._entry(name, asked, at, depth)
            if spelled in plain:
                raise InvalidFilter(f"{at} contains a field twice; use 'all' with two dicts")
            parts.append(node)
            plain[spelled] = said
        return parts[0] if len(parts) == 1 else All(tuple(parts)), plain

    def _entry(self, name: str, asked: object, at: str, depth: int) -> tuple[Node, str, object]:
        if name == "not":
            node, plain = self.parse(asked, at, depth + 1)
            return Not(node), name, plain
        if name in ("any", "all"):
            nodes, plains = self._list(asked, at, depth + 1)
            return (Some(nodes) if name == "any" else All(nodes)), name, plains
        path, of_item = _path(name, at)
        node, plain = self._field(path, of_item, asked, at)
        if not of_item:
            return node, _spelled(path), plain
        return node, ".".join((path[0], *map(_escaped, path[1:]))), plain

    def _list(self, asked: object, at: str, depth: int) -> tuple[tuple[Node, ...], list[_Json]]:
        if not isinstance(asked, list | tuple):
            raise InvalidFilter(f"{at} must be a list of dicts, not {short_repr(asked)}")
        parts = cast("list[object]", asked)
        both = [self.parse(part, f"{at}[{i}]", depth) for i, part in enumerate(parts)]
        return tuple(node for node, _ in both), [plain for _, plain in both]

    def _field(self, path: Path, of_item: bool, asked: object, at: str) -> tuple[Node, _Json]:  # noqa: FBT001 - of the path
        short = not isinstance(asked, Mapping)
        operators = cast("Mapping[object, object]", {"eq": asked} if short else asked)
        if not operators:
            raise InvalidFilter(f"{at} has no operator; use one of {', '.join(_TESTS)}")
        kind = ITEM_FIELDS.get(path[0]) if of_item else None
        parts: list[Node] = []
        plain: _Json = {}
        for op, operand in operators.items():
            self._left -= 1
            if self._left < 0:
                raise InvalidFilter(f"{at}: a filter has at most {MAX_CONDITIONS} conditions")
            where = at if short else f"{at}[{short_repr(op)}]"
            if type(op) is not str or op not in _TESTS:
                raise InvalidFilter(
                    f"{where} is not an operator; the operators are {', '.join(_TESTS)}"
                )
            if short and isinstance(operand, list | tuple):
                raise InvalidFilter(
                    f"{where} is a list; use {{'in': […]}} for one value of several, "
                    "{'contains': …} for a list that contains the value, {'eq': […]} for an "
                    "equal list"
                )
            operands = _operands(op, operand, kind, where)
            parts.append(Condition(path, of_item, op, frozenset(operands)))
            plain[op] = _said(op, operands, kind)
        return parts[0] if len(parts) == 1 else All(tuple(parts)), plain


def _path(name: str, at: str) -> tuple[Path, bool]:
    """Return the path that *name* spells, and whether the path leads to an item field."""
    if name.startswith("$"):
        if name in ITEM_FIELDS:
            return (name,), True
        if name != VALUE and not name.startswith(f"{VALUE}."):
            raise InvalidFilter(
                f"{at} is not a field of an item; the fields are "
                f"{', '.join((*ITEM_FIELDS, VALUE))}. For a field of the metadata that begins "
                f"with a dollar write '\\{name}'"
            )
    names = [""]
    marks = iter(name)
    for mark in marks:
        if mark == ".":
            names.append("")
        else:
            names[-1] += next(marks, mark) if mark == "\\" else mark
    _checked_text(name, at)
    if not all(names):
        raise InvalidFilter(f"{at} contains an empty name; for a dot inside a name write '\\.'")
    return tuple(names), name.startswith("$")


def _escaped(name: str) -> str:
    return re.sub(r"([\\.])", r"\\\1", name)


def _spelled(path: Path) -> str:
    """Return *path* as `where=` writes it; equal paths return the same text."""
    joined = ".".join(map(_escaped, path))
    return f"\\{joined}" if joined in ("any", "all", "not") or joined.startswith("$") else joined


def _operands(op: str, operand: object, kind: str | None, at: str) -> list[Key]:
    """Return the operands of *op*, checked, and without repetitions."""
    if op == "exists":
        if type(operand) is not bool:
            raise InvalidFilter(f"{at} must be True or False, not {short_repr(operand)}")
        return [("bool", operand)]
    if op in ("in", "nin"):
        if not isinstance(operand, list | tuple | set | frozenset):
            raise InvalidFilter(f"{at} must be a list of values, not {short_repr(operand)}")
        values = enumerate(cast("list[object]", operand))
        return list(dict.fromkeys(_operand(op, value, kind, f"{at}[{i}]") for i, value in values))
    return [_operand(op, operand, kind, at)]


def _operand(op: str, operand: object, kind: str | None, at: str) -> Key:
    if kind == "time":
        return "number", _time(op, operand, at)
    key = _key(op, operand, at)
    if op in _ORDERS and key[0] not in ("number", "text"):
        raise InvalidFilter(
            f"{at} must be a number or a str, which have an order, not {short_repr(operand)}"
        )
    if kind and key[0] != kind:
        wanted = "a number" if kind == "number" else "a str"
        raise InvalidFilter(
            f"{at} must be {wanted}, not {short_repr(operand)}; for a missing value use 'exists'"
        )
    return _checked_key(key, at)


def _key(op: str, operand: object, at: str) -> Key:
    whole, key = type(operand) in _WHOLE, None
    try:
        if not whole or op in _EQUALITIES:
            key = key_of(checked(operand) if whole else cast("Value", operand))
        if key is not None and whole:
            json.dumps(operand)
    except (InvalidValue, TypeError) as error:  # a TypeError: the operand contains bytes
        raise InvalidFilter(f"{at} has a value that cannot be compared: {error}") from None
    if key is None:
        allowed = "None, bool, int, float or str"
        more = "" if op not in _EQUALITIES else ", or a list or dict of such"
        raise InvalidFilter(f"{at} must be {allowed}{more}, not {short_repr(operand)}")
    return key


def _checked_key(key: Key, at: str) -> Key:
    kind, value = key
    if isinstance(value, str):
        _checked_text(value, at)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidFilter(f"{at} must be a finite number, not {short_repr(value)}")
    if isinstance(value, int) and not -_MOST_DIGITS < value < _MOST_DIGITS:
        raise InvalidFilter(f"{at} is a number of more than 600 digits; use a smaller number")
    return kind, value


def _checked_text(text: str, at: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidFilter(f"{at} contains a lone surrogate, which is not valid text") from None


def _time(op: str, operand: object, at: str) -> int:
    if op == "contains":
        raise InvalidFilter(f"{at}: a time cannot contain a value; use eq gt gte lt lte in or nin")
    try:
        time = datetime.fromisoformat(operand) if isinstance(operand, str) else operand
        us = microseconds(cast("datetime", time), at)
        moment(us)  # raises if the time in UTC is not within the years 1 to 9999
    except (ValueError, InvalidTime, OverflowError) as error:
        raise InvalidFilter(
            f"{at} must be a datetime with a zone, or ISO text with an offset such as "
            f"'2024-05-01T00:00:00+00:00', not {short_repr(operand)}"
        ) from error
    return us


def _said(op: str, operands: list[Key], kind: str | None) -> object:
    """Return operands as the canonical form of `where=` writes them: several as a sorted list."""
    ordered = sorted(operands, key=_sortable)
    if kind == "time" and op != "exists":
        values: list[object] = [moment(cast("int", us)).isoformat() for _, us in ordered]
    else:
        values = [_plain(key) for key in ordered]
    return values if op in ("in", "nin") else values[0]


def _plain(key: Key) -> object:
    kind, value = key
    return wire.parse(cast("str", value)) if kind in _WHOLE.values() else value


def _sortable(key: Key) -> tuple[str, float, str]:
    kind, value = key
    return (kind, 0, value) if isinstance(value, str) else (kind, value or 0, "")


def plain_filter(where: object) -> object:
    """Return a checked filter in JSON types: collections become lists, times become ISO text.

    The client sends filters in this form, and repeated requests are compared in this form.
    """
    if isinstance(where, Mapping):
        parts = cast("Mapping[object, object]", where)
        return {name: plain_filter(part) for name, part in parts.items()}
    if isinstance(where, set | frozenset):
        return [plain_filter(part) for part in sorted(cast("set[object]", where), key=repr)]
    if isinstance(where, list | tuple):
        return [plain_filter(part) for part in cast("list[object]", where)]
    return where.isoformat() if isinstance(where, datetime) else where
