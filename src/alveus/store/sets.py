"""The definition of a memory set: how much the set holds, and what happens when it is full."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.store.scope import SetRef
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, counted

HIGH_WATER = 0.9
"""The share of its capacity at which a set is compacted in the background."""

LOW_WATER = 0.7
"""The share of a capacity to which a compaction reduces a set, unless a number is given."""

IN_THE_COMMIT = ("trim", "reject")
"""The policies for a full set that the commit itself carries out. All others are compactions."""

EXECUTIONS = ("background", "sync", "external")

Plan: TypeAlias = Mapping[str, Value]
"""A strategy of compaction, or a rule of admission, as JSON: its name and its settings."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The options of a set, which its first add stores.

    Attributes:
        capacity: The most items. None sets no limit; the same holds for the other capacities.
        compaction: What happens at capacity: "trim" retires the oldest items, "reject" refuses the
            add, and a strategy of compaction, as JSON, compacts the set.
        item_type: The name of the type of the set's values, for `compat`, or None for any storable
            value.
        signals: The weights of search, or None for the defaults.
        capacity_tokens: The most tokens of the items, counted as words.
        capacity_bytes: The most bytes of values, texts and metadata.
        high_water: The share of a capacity at which compaction begins, unless *execution* is
            "sync".
        low_water: The share of a capacity to which a compaction reduces the set.
        execution: Who compacts the set: "background" is a thread of a process that adds, "sync" is
            the add that finds the set full, and "external" is a separate process.
        retention: How long ended versions are kept: "keep" (forever), "purge" (not at all) or a
            number of microseconds.
        admission: Rules that check each add, or None for no rules.
    """

    capacity: int | None = None
    compaction: str | Plan = "trim"
    item_type: str | None = None
    signals: Mapping[str, float] | None = None
    capacity_tokens: int | None = None
    capacity_bytes: int | None = None
    high_water: float = HIGH_WATER
    low_water: float = LOW_WATER
    execution: str = "background"
    retention: str | int = "keep"
    admission: Sequence[Plan] | None = None

    def to_json(self) -> dict[str, Value]:
        """Return the fields that differ from their defaults, as JSON for `from_json`."""
        changed_fields: dict[str, Value] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                changed_fields[field.name] = _plain(value)
        return changed_fields

    @classmethod
    def from_json(cls, document: Mapping[str, Value]) -> Definition:
        """Return the definition whose `to_json` returned *document*.

        Raises:
            InvalidInput: *document* has an unknown field or an invalid value.
        """
        unknown = sorted(set(document).difference(field.name for field in fields(cls)))
        if unknown:
            raise InvalidInput(
                f"the definition of a set has no field {unknown}; the fields are "
                f"{', '.join(field.name for field in fields(cls))}"
            )
        for name, value in document.items():
            _check(name, value)
        return cls(**document)  # pyright: ignore[reportArgumentType]  checked above

    @property
    def retention_us(self) -> int | None:
        """How long ended versions are kept, in microseconds, or None for forever."""
        if isinstance(self.retention, int):
            return self.retention
        return 0 if self.retention == "purge" else None

    @property
    def bounded(self) -> bool:
        """Whether the set has a capacity of any kind."""
        return not self.capacity is self.capacity_tokens is self.capacity_bytes is None

    @property
    def rejects_when_full(self) -> bool:
        """Whether a store refuses an add that would exceed a capacity.

        With a compaction that is "sync", the refused add compacts the set and is then repeated.
        """
        return self.compaction == "reject" or (
            self.compaction != "trim" and self.execution == "sync"
        )

    def exceeded_capacity(
        self, items: int, tokens: int, size: int, *, share: float = 1.0
    ) -> tuple[str, int] | None:
        """Return the (name, limit) of a capacity that a set exceeds, or None if it exceeds none.

        Args:
            items, tokens, size: The size of the set; *size* is in bytes.
            share: The share of the capacity that counts as the limit.
        """
        usage = (
            ("items", items, self.capacity),
            ("tokens", tokens, self.capacity_tokens),
            ("bytes", size, self.capacity_bytes),
        )
        for what, count, most in usage:
            if most is not None and count > share * most:
                return what, most
        return None

    def needs_compaction(self, items: int, tokens: int, size: int) -> bool:
        """Return whether a set of this size needs compaction after an add.

        True only if the policy is a strategy of compaction, and the next item would exceed the
        `high_water` share of a capacity.
        """
        return (
            self.bounded
            and self.compaction not in IN_THE_COMMIT
            and self.exceeded_capacity(items + 1, tokens + 1, size + 1, share=self.high_water)
            is not None
        )


DEFAULT = Definition()
"""The definition of a set that was opened without one.

Code compares definitions with this object by identity, to skip their checks.
"""


def _plain(value: object) -> Value:
    """Return a copy of a field as JSON: mappings as dicts with sorted names, sequences as lists."""
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        return {name: _plain(mapping[name]) for name in sorted(mapping)}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in cast("Sequence[object]", value)]
    return cast("Value", value)


def _check(field: str, value: Value) -> None:
    """Raise `InvalidInput` if *value* is not valid for the field *field* of a definition."""
    if field in ("capacity", "capacity_tokens", "capacity_bytes"):
        if value is not None:
            counted(value, f'"{field}"')
        return
    if field == "retention" and type(value) is int:
        counted(value, '"retention", in microseconds,')
        return
    usable, what = _FIELDS[field]
    if not usable(value):
        raise InvalidInput(f'"{field}" of a set must be {what}, not {value!r:.80}')


def _is_text(value: Value) -> bool:
    return value is None or (isinstance(value, str) and value != "")


def _is_share(value: Value) -> bool:
    return type(value) in (int, float) and 0 < cast("float", value) <= 1


def _are_weights(value: Value) -> bool:
    return value is None or (
        isinstance(value, dict) and all(type(one) in (int, float) for one in value.values())
    )


def _are_rules(value: Value) -> bool:
    return value is None or (
        isinstance(value, list) and all(isinstance(rule, dict) for rule in value)
    )


_FIELDS: Mapping[str, tuple[Callable[[Value], bool], str]] = {
    "compaction": (
        lambda value: isinstance(value, dict) or value in IN_THE_COMMIT,
        '"trim", "reject" or an object: a strategy and its settings',
    ),
    "item_type": (_is_text, "a text"),
    "signals": (_are_weights, "an object of numbers"),
    "high_water": (_is_share, "a share above 0 and up to 1"),
    "low_water": (_is_share, "a share above 0 and up to 1"),
    "execution": (lambda value: value in EXECUTIONS, f"one of {', '.join(EXECUTIONS)}"),
    "retention": (
        lambda value: value in ("keep", "purge"),
        '"keep", "purge" or a whole number of microseconds',
    ),
    "admission": (_are_rules, "a list of objects"),
}


@dataclass(frozen=True, slots=True)
class SetInfo:
    """Figures of an existing set.

    Attributes:
        number: Unique in the store, never reused.
        items: The number of live items.
        bytes: The bytes of the live items' values, texts and metadata, in UTF-8.
        tokens: The tokens of the live items' texts, counted as words.
        next_expiry: When the first live item expires, or None if no item ever expires.
        has_validity: Whether a live item is valid for a limited time.
        history_start: The commit from which the past of the set is complete.
    """

    number: int
    ref: SetRef
    definition: Definition
    items: int
    bytes: int
    tokens: int = 0
    next_expiry: int | None = None
    has_validity: bool = False
    history_start: int = 0


@dataclass(slots=True)
class SetRules:
    """The rules that check adds to a set.

    Attributes:
        set_rules: The rules of the set's definition, or None if it has none.
        effective: The rules that apply: those of the set or, if it has none, of the memory.
        parsed: The effective rules as `alveus.sets.admission` has parsed them.
    """

    set_rules: Sequence[Plan] | None
    effective: Sequence[Plan]
    parsed: object = None


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """How the adds of a batch to a set were checked.

    Attributes:
        rules: `Definition.admission` of the set when the adds were checked; None also if the set
            did not exist.
        last_row: The highest row that the checks have read. The batch is refused if the set has a
            live item with a higher row. If None, the store does not check this.
    """

    set: SetRef
    rules: Sequence[Plan] | None
    last_row: int | None = None

    def matches_rules(self, definition: Definition) -> bool:
        """Return whether *rules* are still the rules of the set's *definition*."""
        return _as_list(self.rules) == _as_list(definition.admission)


def _as_list(rules: Sequence[Plan] | None) -> list[Plan] | None:
    return None if rules is None else list(rules)
