"""What an import file says, entry by entry; and how ids, times and items are checked.

Every entry is checked as far as that is possible without the store it goes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from hashlib import blake2b
from typing import NamedTuple, TypeAlias, cast

from fornix.errors import InvalidInput
from fornix.store import Definition, Node
from fornix.store.items import Item, text_of
from fornix.store.records import as_passed
from fornix.transfer.export import LABELS, item_fields
from fornix.values import wire
from fornix.values.storable import Path, Value, checked, checked_name, microseconds
from fornix.values.times import read_time

MILLISECONDS = 100_000_000_000
"""Unix times from this number on are in milliseconds; in seconds, it is the year 5138."""


@dataclass(frozen=True, slots=True)
class SetLine:
    """A set and its definition; *key* is None for a set of knowledge."""

    key: str | None
    set: str
    definition: Definition


class ItemLocation(NamedTuple):
    """Where an item is; the key None is knowledge."""

    key: str | None
    set: str
    id: str


@dataclass(frozen=True, slots=True)
class ItemLine:
    """An item of a set.

    Attributes:
        sources: What it was made of; None: that its own set has what its item names.
    """

    key: str | None
    set: str
    item: Item
    sources: Sequence[ItemLocation] | None = None


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node of the exact tree of a key."""

    key: str
    path: Path
    node: Node


class Name(NamedTuple):
    """How an export of history names a version, or a compaction: its commit, its place in it."""

    commit: int
    place: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A version of an item as a commit began it.

    Attributes:
        first: Its first version; None: this one.
        created, updated: In microseconds; None: the time of the commit.
        links: What it was derived from.
    """

    line: ItemLine
    place: int
    version: int
    first: Name | None
    created: int | None
    updated: int | None
    links: Sequence[Name]


@dataclass(frozen=True, slots=True)
class Ended:
    """A version that a commit ended."""

    key: str | None
    set: str
    row: Name


@dataclass(frozen=True, slots=True)
class ImportedSource:
    """A source that a version of an earlier commit got."""

    key: str | None
    set: str
    row: Name
    source: Name


@dataclass(frozen=True, slots=True)
class ImportedCompaction:
    """A compaction that a commit did; *erased*: how many of its versions are no longer kept."""

    key: str | None
    set: str
    place: int
    how: str
    retired: Sequence[Name]
    added: Sequence[Name]
    erased: int
    purged: bool


@dataclass(frozen=True, slots=True)
class ImportedUndo:
    """A compaction that a commit undid."""

    key: str | None
    set: str
    compaction: Name


@dataclass(frozen=True, slots=True)
class Removed:
    """A node that a commit removed."""

    key: str
    path: Path


@dataclass(frozen=True, slots=True)
class HistoryStart:
    """From which commit and time on the past of a set is whole; *set* is None for the exact tree.

    The commit 0: from the first; *since* in microseconds.
    """

    key: str | None
    set: str | None
    commit: int
    since: int


Part: TypeAlias = (
    SetLine
    | NodeLine
    | Removed
    | Begun
    | Ended
    | ImportedSource
    | ImportedCompaction
    | ImportedUndo
    | HistoryStart
)
"""What a commit did, a line each."""


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A commit, and all that it did.

    Attributes:
        number: From 1 in the file, without gaps.
        time: In microseconds.
        key: Whose commit it is; None: of knowledge.
        digest: Of the lines of the file up to its end.
    """

    number: int
    time: int
    key: str | None
    parts: Sequence[Part]
    digest: str


@dataclass(frozen=True, slots=True)
class AccessedLine:
    """When an item was last read; *row*: its first version."""

    key: str | None
    set: str
    row: Name
    time: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that is left out on purpose, and why."""

    reason: str


Entry: TypeAlias = SetLine | ItemLine | NodeLine | CommitLine | AccessedLine
"""What is written."""


def checked_item(item: Item) -> Item:
    """Return *item* if every part of it can be stored; a store would refuse it later."""
    checked_name(item.id, "an item's id")
    as_passed(item)
    if item.time is not None:
        microseconds(item.time)
    for name in LABELS:
        if getattr(item, name) is not None:
            checked_name(getattr(item, name), name)
    if type(item.importance) not in (int, float) or not 0 <= item.importance <= 1:
        raise InvalidInput(f"importance must be a number from 0 to 1, not {item.importance!r}")
    if item.text is None and text_of(item.value) is None:
        raise InvalidInput('the value has no text that search could read: add "text" ("" for none)')
    return item


def differs(item: Item, old: Item) -> bool:
    """Return whether the item of a file says something else than the one that is there."""
    whole = replace(
        item,
        text=text_of(item.value) if item.text is None else item.text,
        time=item.time or old.time,
        set_name=old.set_name,
    )
    return item_fields(whole, key=None) != item_fields(old, key=None)


def time_of(found: Value, zone: tzinfo | None = None) -> datetime | None:
    """Return a time: ISO 8601, or Unix time in seconds or milliseconds; None for None.

    Args:
        zone: The zone of a time without one; without it, such a time is refused.
    """
    if found is None:
        return None
    if isinstance(found, (int, float)) and not isinstance(found, bool):
        try:
            return datetime.fromtimestamp(found / 1000 if found >= MILLISECONDS else found, UTC)
        except (OverflowError, OSError, ValueError):
            raise InvalidInput(f"the time {found!r:.40} is out of range") from None
    return read_time(found, zone)


def texts_of(fields: dict[str, Value], name: str) -> tuple[str, ...]:
    """Return the texts that a field lists; without the field, none."""
    found = fields.get(name, [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise InvalidInput(f'"{name}" must be a list of texts, not {found!r}')
    return tuple(cast("list[str]", found))


def object_of(fields: dict[str, Value], name: str) -> dict[str, Value]:
    """Return the object that a field is; an empty one without the field."""
    found = fields.get(name, {})
    if not isinstance(found, dict):
        raise InvalidInput(f'"{name}" must be an object, not {found!r}')
    return found


def objects_of(fields: dict[str, Value], name: str) -> list[dict[str, Value]]:
    """Return the objects that a field lists."""
    found = fields.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidInput(f'"{name}" must be a list of objects')
    return cast("list[dict[str, Value]]", found)


class Ids:
    """Makes ids from contents: the same file gives the same ones, an appended line a new one."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def make(self, contents: Value) -> str:
        """Return an id of *contents*, and of how often the same was there before."""
        line = checked(contents, where="the line", nan=True)
        digest = wire.digest(line, salt=b"fornix import")
        self._seen[digest] += 1
        numbered = digest + self._seen[digest].to_bytes(8)
        return f"import-{blake2b(numbered, digest_size=12).hexdigest()}"
