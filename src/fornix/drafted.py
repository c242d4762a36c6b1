"""What a batch gathered, item by item: where it stands, and what search reads of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from fornix.store import Add, Compact, Feature, ItemChange, Record, Replace, Retire, StoredItem

Single: TypeAlias = Add | Replace | Retire
"""A change of one item."""


def embedded(change: ItemChange, done: Mapping[int, Record]) -> ItemChange:
    """Return *change* with those records that got their vectors."""
    if isinstance(change, (Add, Replace)):
        return replace(change, record=done.get(id(change.record), change.record))
    if isinstance(change, Compact):
        added = [replace(add, record=done.get(id(add.record), add.record)) for add in change.added]
        return replace(change, added=added)
    return change


def id_of(change: Single) -> str:
    """Return the id that a change is of."""
    return change.id if isinstance(change, Retire) else change.record.id


def place_of(stored: StoredItem) -> tuple[int, int]:
    """Return where an item stands in its set."""
    time = stored.record.time
    return (stored.updated if time is None else time, stored.first)


def is_past(stored: StoredItem, after: tuple[int, int] | None, newest_first: bool) -> bool:  # noqa: FBT001 - inner
    """Return whether an item stands past a place."""
    if after is None:
        return True
    return place_of(stored) < after if newest_first else place_of(stored) > after


def feature_of(stored: StoredItem) -> Feature:
    """Return what search reads of an item."""
    r = stored.record
    return Feature(
        row=stored.row,
        first=stored.first,
        id=r.id,
        begun=0,
        ended=None,
        time=place_of(stored)[0],
        importance=r.importance,
        speaker=r.speaker,
        role=r.role,
        session=r.session,
        metadata=r.metadata,
        terms=r.terms,
        tokens=r.tokens,
        temporal=r.temporal,
        vectors=r.vectors,
    )
