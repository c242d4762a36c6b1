"""The options of a set and of its items, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, TypeAlias, TypedDict, cast, get_args

from alveus.errors import InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.search.signals import Signals
from alveus.sets.admission.rules import Rule, checked_share, plans
from alveus.sets.compaction import Given
from alveus.sets.writer import Writer
from alveus.store import Definition, StoredItem
from alveus.store.filters import Filter
from alveus.store.records import filter_fields
from alveus.values.storable import Value, checked_kind, checked_name, choice
from alveus.values.times import LONGEST_TTL

Execution: TypeAlias = Literal["background", "sync", "external"]


class ItemChanges(TypedDict, total=False):
    """Fields of an item that an update may change; see `Item`."""

    text: str | None
    texts: Sequence[str] | None
    time: datetime | None
    metadata: Mapping[str, object] | None
    importance: float
    speaker: str | None
    role: str | None
    session: str | None
    expire_at: datetime | None
    ttl: timedelta | str | None
    valid_from: datetime | None
    valid_to: datetime | None
    timezone: tzinfo | str | None


class ItemFields(ItemChanges, total=False):
    """Fields of a new item; see `Item`."""

    id: str | None


class SetChanges(TypedDict, total=False):
    """Settings of a set that a caller may change; see `Definition`.

    Attributes:
        capacity: Most items in the set.
        compaction: The action at the capacity. "trim" retires the oldest items in the commit of the
            add; "reject" refuses the add. A strategy makes room by its plan: a `Trim`, `Summarize`
            or `Merge`, or a user's strategy.
        capacity_tokens, capacity_bytes: Most tokens of all texts, and most bytes of all items.
        high_water, low_water: Shares of a capacity. A strategy starts above high_water (0.9; 1 for
            a strategy with `n`) and brings the set down to low_water (0.7).
        execution: The executor: "background", a thread of this process; "sync", the add that finds
            the set full; "external", `alveus compact` or a `Compactor`.
        retention: How long retired items are kept, for history and undo.
        signals: Weights of the signals in searches of the set.
        admission: Rules that check each add, in every process.
    """

    capacity: int | None
    compaction: Given | None
    capacity_tokens: int | None
    capacity_bytes: int | None
    high_water: float | None
    low_water: float | None
    execution: Execution | None
    retention: Literal["keep", "purge"] | timedelta | None
    signals: Signals | None
    admission: Sequence[Rule | Callable[..., object]] | None


class SetOptions(SetChanges, total=False):
    """Options for opening a set: its settings, and the type of its items."""

    item_type: str | None


EXECUTIONS: tuple[str, ...] = get_args(Execution)
"""The executors of compactions; see `Definition.execution`."""


def stored_options(options: SetChanges | SetOptions, writer: Writer) -> dict[str, object]:
    """Return the options of a set in the form that its definition stores."""
    stored = dict[str, Any](options)
    if stored.get("compaction") is not None:
        stored["compaction"] = writer.stored_compaction(stored["compaction"])
    if stored.get("admission") is not None:
        stored["admission"] = plans(stored["admission"])
    return stored


def clearing(name: str) -> Value:
    """Return the arguments that distinguish a `clear` from other deletes."""
    return [name, None, {}]


def fits(stored: StoredItem, chosen: Filter | None) -> bool:
    """Return whether an item matches a filter."""
    return chosen is None or chosen.matches(*filter_fields(stored))


def checked_ids(ids: str | Sequence[str]) -> list[str]:
    """Return one id or several ids as a list.

    Raises:
        InvalidInput: *ids* is not an id, or a list or tuple of ids.
    """
    if isinstance(ids, str):
        return [checked_name(ids, "an item's id")]
    if not isinstance(ids, (list, tuple)):
        raise InvalidInput(f"ids must be a str or a list of str, not {short_repr(ids)}")
    return [checked_name(item_id, "an item's id") for item_id in ids]


def definition(options: Mapping[str, object], start: Definition = Definition()) -> Definition:  # noqa: B008 - frozen
    """Check *options* and return *start* with these options changed.

    A capacity of None removes the limit. The compaction must be in the stored form.
    """
    changed = checked_options(options)
    new = replace(start, **changed)  # pyright: ignore[reportArgumentType]  checked above
    plan = new.compaction
    counts = isinstance(plan, Mapping) and "n" in plan
    if counts and "compaction" in options and "high_water" not in options:
        new = replace(new, high_water=1.0)  # the strategy's n says how much room it makes
    _check_marks(new)
    return new


def checked_options(options: Mapping[str, object]) -> dict[str, object]:
    """Check each option of a set by itself; return the options in the form of a definition."""
    return {
        name: _CHECKS[name](value, name) if name in _CHECKS else value
        for name, value in options.items()
    }


def _check_marks(new: Definition) -> None:
    if new.low_water > new.high_water:
        raise InvalidInput(
            f"low_water must be at most high_water, but {new.low_water:g} is above "
            f"{new.high_water:g}"
        )
    plan = new.compaction
    limit = plan.get("limit") if isinstance(plan, Mapping) else None
    if isinstance(limit, int) and new.capacity is not None and limit >= new.capacity:
        raise InvalidInput(
            f"limit of Summarize must be below the capacity, but {limit} is not below "
            f"{new.capacity}"
        )


def _capacity(value: object, what: str) -> int | None:
    if value is None:
        return None
    if type(value) is not int or value < 1:
        raise InvalidInput(
            f"{what} must be a whole number, at least 1, not {short_repr(value)}; leave it out "
            f"for no limit; to remove a limit, use redefine({what}=None)"
        )
    return value


def _retention(value: object, what: str) -> str | int:
    if type(value) is str and value in ("keep", "purge"):
        return value
    if isinstance(value, timedelta) and timedelta(0) < value <= LONGEST_TTL:
        return value // timedelta(microseconds=1)
    raise InvalidInput(
        f"{what} must be 'keep', 'purge' or a timedelta above 0, at most 1,000 years, not "
        f"{short_repr(value)}"
    )


def _signals(value: object, what: str) -> Mapping[str, float]:
    signals: object = checked_kind(value, Signals, f"{what} must be a Signals")
    return cast("Signals", signals).to_json()


_CHECKS: Mapping[str, Callable[[object, str], object]] = {
    "capacity": _capacity,
    "capacity_tokens": _capacity,
    "capacity_bytes": _capacity,
    "high_water": checked_share,
    "low_water": checked_share,
    "execution": lambda value, what: choice(value, what, *EXECUTIONS),
    "retention": _retention,
    "signals": _signals,
    "item_type": checked_name,
}


def refuse_upkeep(options: Mapping[str, object]) -> None:
    """Refuse options that would make a knowledge set change without an explicit call.

    Raises:
        InvalidInput: One of *options* is not None.
    """
    for name, value in options.items():
        if value is not None:
            raise InvalidInput(
                f"a knowledge set takes no {name}, since only explicit calls may change shared "
                "items; use a set of a key"
            )
