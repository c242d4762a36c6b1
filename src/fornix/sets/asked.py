"""What a caller asks of a set, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from fornix.definition import Plan
from fornix.errors import InvalidInput
from fornix.filters import Filter
from fornix.recall import SearchOptions
from fornix.records import facts_of
from fornix.signals import Signals
from fornix.store import (
    Definition,
    StoredItem,
)
from fornix.values import Value, checked_name, counted
from fornix.writer import Where


def position(stored: StoredItem) -> tuple[int, int]:
    """Return where an item stands among the items of its set."""
    time = stored.record.time
    return (stored.updated if time is None else time, stored.first)


def clearing(name: str) -> Value:
    """Return what a call that empties a set is known by, among those that delete."""
    return [name, None, {}]


def fits(stored: StoredItem, chosen: Filter | None) -> bool:
    """Return whether an item matches a filter."""
    return chosen is None or chosen.matches(*facts_of(stored))


def checked_ids(ids: str | Sequence[str]) -> list[str]:
    """Return ids as a list, checked."""
    if isinstance(ids, str):
        ids = [ids]
    if not isinstance(ids, (list, tuple)):
        raise InvalidInput(f"ids must be a str or a list of them, not {ids!r}")
    wanted = list(ids)
    return [checked_name(item_id, "an item's id") for item_id in wanted]


def listed(value: Value) -> list[Value]:
    """Return the list that a result is."""
    return value if isinstance(value, list) else []


def search_options(
    limit: int, where: Where | None, at: int | None, signals: Signals | None
) -> SearchOptions:
    """Check what a search was asked with."""
    if signals is not None and not isinstance(signals, Signals):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"signals must be a Signals, not {signals!r}")
    return SearchOptions(counted(limit, "limit", most=1000), Filter.parse(where), at, signals)


def definition(given: Mapping[str, object], start: Definition = Definition()) -> Definition:  # noqa: B008 - frozen
    """Return *start* with what was given, checked."""
    capacity = given.get("capacity", start.capacity)
    if "capacity" in given:
        capacity = counted(capacity, "capacity", least=0) or None
    compaction = given.get("compaction", start.compaction)
    if compaction not in ("trim", "reject"):
        raise InvalidInput(f"compaction must be 'trim' or 'reject', not {compaction!r}")
    signals = given.get("signals")
    return Definition(
        capacity=capacity if isinstance(capacity, int) else None,
        compaction=str(compaction),
        item_type=str(given["item_type"]) if "item_type" in given else start.item_type,
        signals=signals.to_json() if isinstance(signals, Signals) else start.signals,
        admission=cast("Sequence[Plan] | None", given.get("admission", start.admission)),
    )
