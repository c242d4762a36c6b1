"""Filters over many documents at once: each condition is tested once per distinct value."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from alveus.search.index.arrays import Codes, Growable, Texts, coded
from alveus.store.filters import (
    ABSENT,
    VALUE,
    Absent,
    All,
    Condition,
    Key,
    Node,
    Not,
    Some,
    key_of,
    reach,
)
from alveus.store.records import decoded_metadata, offset_in
from alveus.values import wire
from alveus.values.storable import Path, Value

Truth: TypeAlias = NDArray[np.bool_]

REMEMBERED = 16
"""Most conditions of a field whose results are cached."""

MOST_FIELDS = 64
"""Most cached fields of a set's metadata, and of its values: those that filters used last.
A filter may name any field, also one that no item has."""

FIELD_BYTES = 1_200
"""RAM of a field without its values, roughly."""

CONDITION_BYTES = 500
"""RAM of a cached condition without its result, roughly."""

FEW = 64
"""Up to this many values are tested one by one, because arrays would gain nothing."""

DECODED = 65_536
"""Texts decoded at a time."""

MANY = 20_000
"""From this number of texts on, it pays to keep them sorted."""

VALUES = 4_096
"""Items whose values are read at once."""

ReadValues: TypeAlias = Callable[[Sequence[int]], Mapping[int, Value]]
"""Returns the values of items by their rows, without items that no longer exist."""

_COMPARE: dict[str, Callable[[NDArray[Any], float], Truth]] = {
    "gt": np.greater,
    "gte": np.greater_equal,
    "lt": np.less,
    "lte": np.less_equal,
}


def evaluate(node: Node, leaf: Callable[[Condition], Truth], size: int) -> Truth:
    """Return the mask of *node*, given a function that returns the mask of a condition."""
    match node:
        case Condition():
            return leaf(node)
        case All(parts) | Some(parts):
            held = [evaluate(part, leaf, size) for part in parts]
            if isinstance(node, All):
                return np.logical_and.reduce([np.ones(size, np.bool_), *held])
            return np.logical_or.reduce([np.zeros(size, np.bool_), *held])
        case Not(part):
            return ~evaluate(part, leaf, size)


def of_numbers(condition: Condition, numbers: NDArray[Any]) -> Truth:
    """Return a mask of the numbers that meet a condition.

    *numbers* are int64 or float64. NaN marks a value that is no number, and never matches.
    """
    if condition.op in ("exists", "contains"):
        return np.full(len(numbers), condition.op == "exists" and condition.accepts(0))
    operands = [cast("float", value) for kind, value in condition.operands if kind == "number"]
    if not all(_fits(operand, numbers.dtype.kind) for operand in operands):
        distinct, codes = np.unique(numbers, return_inverse=True)
        return np.array([condition.accepts(value) for value in distinct.tolist()], np.bool_)[codes]
    if condition.op in _COMPARE:
        return _COMPARE[condition.op](numbers, operands[0])
    equal = np.isin(numbers, np.array(operands, numbers.dtype))
    return equal if condition.op in ("eq", "in") else ~equal & ~np.isnan(numbers)


def _fits(number: float, kind: str) -> bool:
    """Return whether an array of this kind can represent *number* exactly."""
    if kind == "i":
        return isinstance(number, int) and -(2**63) <= number < 2**63
    return exact_float(number) is not None


def exact_float(number: float) -> float | None:
    """Return the float that equals *number*, or None if no float does."""
    try:
        near = float(number)
    except OverflowError:
        return None
    return near if near == number else None


class Field:
    """The distinct values of one field of the metadata.

    Attributes:
        codes: For each metadata text the position of its value in `values`; -1 for a text that
            lacks the field.
    """

    def __init__(self) -> None:
        self.codes = Growable(np.empty(0, np.int32))
        self.values: list[Value] = []
        self._code: dict[tuple[str, object], int] = {}
        self._numbers = Growable(np.empty(0, np.float64))
        self._exact = True
        self._kept: OrderedDict[Condition, Growable[np.bool_]] = OrderedDict()
        self._order = np.empty(0, np.intp)
        self._ordered = 0

    def extend(self, values: Sequence[Value | Absent]) -> None:
        """Add the values of further texts."""
        known = len(self.values)
        self.codes.extend(np.array([self._use(value) for value in values], np.int32))
        numbers = [self._number(value) for value in self.values[known:]]
        self._numbers.extend(np.array(numbers, np.float64))

    def _use(self, value: Value | Absent) -> int:
        if value is ABSENT:
            return -1
        key = key_of(value) or ("other", wire.encode(value))
        code = self._code.setdefault(key, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code

    def _number(self, value: Value) -> float:
        if type(value) is not int and type(value) is not float:
            return np.nan
        near = exact_float(value)
        self._exact = self._exact and near is not None
        return np.nan if near is None else near

    def truth(self, condition: Condition) -> Truth:
        """Return for each metadata text whether the condition holds."""
        kept = self._kept.setdefault(condition, Growable(np.empty(0, np.bool_)))
        self._kept.move_to_end(condition)
        if len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)
        if kept.size < len(self.values):
            kept.extend(self._test(condition, kept.size))
        table = np.append(kept.view, condition.accepts(ABSENT))
        return table[self.codes.view]

    def _test(self, condition: Condition, start: int) -> Truth:
        """Return whether the condition holds for each value from *start* on."""
        values = self.values[start:]
        if len(values) > FEW:
            if condition.op in ("eq", "in"):
                return self._equal(condition.operands)[start:]
            kinds = {kind for kind, _ in condition.operands}
            if kinds == {"number"} and self._exact and condition.op != "contains":
                return of_numbers(condition, self._numbers.view[start:])
            if kinds == {"text"} and condition.op in _COMPARE and len(self.values) > MANY:
                return self._beyond(condition)[start:]
        return np.array([condition.accepts(value) for value in values], np.bool_)

    def _equal(self, operands: Iterable[Key]) -> Truth:
        found = np.zeros(len(self.values), np.bool_)
        codes = [code for key in operands if (code := self._code.get(key)) is not None]
        found[codes] = True
        return found

    def _beyond(self, condition: Condition) -> Truth:
        """Return a mask of the values that are texts on the asked side of the operand."""
        if self._ordered < len(self.values):
            texts = [at for at, value in enumerate(self.values) if type(value) is str]
            self._order = np.array(sorted(texts, key=self._text), np.intp)
            self._ordered = len(self.values)
        ((_, operand),) = condition.operands
        after = condition.op in ("gt", "lte")
        cut = (bisect_right if after else bisect_left)(
            self._order, cast("str", operand), key=self._text
        )
        found = np.zeros(len(self.values), np.bool_)
        found[self._order[cut:] if condition.op in ("gt", "gte") else self._order[:cut]] = True
        return found

    def _text(self, at: int) -> str:
        return cast("str", self.values[at])

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM, in bytes."""
        kept = sum(truth.nbytes + CONDITION_BYTES for truth in self._kept.values())
        arrays = self.codes.nbytes + self._numbers.nbytes + self._order.nbytes
        return arrays + kept + 200 * len(self.values) + FIELD_BYTES


class RecentFields:
    """The fields of a set that were last used in filters."""

    def __init__(self) -> None:
        self._fields: OrderedDict[Path, Field] = OrderedDict()

    def of(self, paths: Collection[Path]) -> dict[Path, Field]:
        """Return the fields at *paths*; new fields are empty. Drop the least recently used ones."""
        fields = {path: self._fields.setdefault(path, Field()) for path in paths}
        for path in paths:
            self._fields.move_to_end(path)
        while len(self._fields) > max(MOST_FIELDS, len(paths)):
            self._fields.popitem(last=False)
        return fields

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM, in bytes."""
        return sum(field.nbytes for field in self._fields.values())


class Metadata:
    """The distinct metadata texts of a set, and the fields that filters named lately."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._code: dict[str, int] = {}
        self._recent = RecentFields()
        self._offsets = Growable(np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self._texts)

    def use(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """Return the codes of *texts*. A new text gets a new code."""
        return coded(texts, self._code, self._texts)

    def truth(self, conditions: Iterable[Condition]) -> Callable[[Condition], Truth]:
        """Return a function that takes one of *conditions* and returns its mask of texts."""
        paths = {condition.path for condition in conditions if not condition.is_item_field}
        fields = self._read(paths)
        return lambda condition: fields[condition.path].truth(condition)

    def _read(self, paths: set[Path]) -> dict[Path, Field]:
        """Return the fields at *paths* with their values in all texts.

        Fields that end at the same text share the decoding of further texts.
        """
        fields, size = self._recent.of(paths), len(self._texts)
        while (start := min((one.codes.size for one in fields.values()), default=size)) < size:
            texts = self._texts.slice(start, min(start + DECODED, size))
            decoded = [_decoded(text) for text in texts]
            for path, one in fields.items():
                if one.codes.size == start:
                    one.extend([reach(metadata, path) for metadata in decoded])
        return fields

    def field(self, path: Path) -> Field:
        """Return the field of the metadata at *path*, with its values in all texts."""
        return self._read({path})[path]

    def offsets(self) -> NDArray[np.int64]:
        """Return for each text the offset from UTC of its items, in minutes."""
        while (start := self._offsets.size) < (size := len(self._texts)):
            texts = self._texts.slice(start, min(start + DECODED, size))
            self._offsets.extend(np.array([offset_in(text) for text in texts], np.int64))
        return self._offsets.view

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM, in bytes."""
        return (
            self._offsets.nbytes + self._recent.nbytes + self._texts.nbytes + 100 * len(self._code)
        )


class ItemValues:
    """The fields of items' values that filters named lately. Each field is read once per doc."""

    def __init__(self) -> None:
        self._recent = RecentFields()

    def truth(self, condition: Condition, rows: NDArray[np.int64], read: ReadValues) -> Truth:
        """Return for each of *rows* whether the value of its item meets the condition.

        *rows* must be the rows of all docs of the set, in order.
        """
        field = self._recent.of([condition.path])[condition.path]
        while (start := field.codes.size) < len(rows):
            chunk: list[int] = rows[start : start + VALUES].tolist()
            values = read(chunk)
            item_fields = ({VALUE: values[row]} if row in values else {} for row in chunk)
            field.extend([reach(of_item, condition.path) for of_item in item_fields])
        return field.truth(condition)

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM, in bytes."""
        return self._recent.nbytes


def names_in(value: Value) -> frozenset[str]:
    """Return the names in *value*, a text or a list of texts, in lower case."""
    names = value if isinstance(value, list) else [value]
    return frozenset(name.casefold() for name in names if isinstance(name, str))


def _decoded(text: str) -> dict[str, Value]:
    value: object = decoded_metadata(text)
    return value if type(value) is dict else {}


def of_names(condition: Condition, names: Codes, codes: NDArray[np.int32]) -> Truth:
    """Return a mask of the codes whose name meets a condition. The code -1 means no name."""
    table = np.zeros(len(names.names) + 1, np.bool_)
    if condition.op in ("eq", "in"):
        found = (names.find(value) for _, value in condition.operands)
        table[[code for code in found if code is not None]] = True
    else:
        table[:-1] = [condition.accepts(name) for name in names.names]
    table[-1] = condition.accepts(ABSENT)
    return table[codes]
