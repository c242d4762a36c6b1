"""What the readers of other formats share: where items go, and which field says what."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import ClassVar

from fornix.errors import FornixError, InvalidInput
from fornix.store.items import Item, text_of
from fornix.transfer.import_entries import Ids, ItemLine, Skipped, checked_item, object_of, time_of
from fornix.transfer.json_stream import JsonRecord
from fornix.values.storable import Value, checked_name

NO_TEXT = "has no text"
"""Why an item is left out: search could not find it, nobody could read it."""

TIMES = ("time", "timestamp", "created_at")
"""The fields in which a message says when it was sent."""

_NUMBER = re.compile(r"-?[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Target:
    """Where the items of a file go that names no key of fornix, and which fields say so.

    Fields are dotted paths into a record: ``user_id``, ``metadata.customer``, ``namespace.1``.

    Attributes:
        key: Their key; None: into knowledge, or as `key_from` says.
        set: Their set.
        key_from: The field that names the key; `key` is for records without it.
        set_from: The field that names the set; `set` is for records without it.
        time_from: The field that says when it happened, if not the one the format has.
        text_from: The field that search reads, if not the one the format has.
        zone: Of times that say none.
    """

    key: str | None = None
    set: str = "default"
    key_from: str | None = None
    set_from: str | None = None
    time_from: str | None = None
    text_from: str | None = None
    zone: tzinfo | None = None


class Reader(ABC):
    """Turns the records of one format into items.

    Attributes:
        LISTS: Fields of a document whose lists hold records.
        PREPARES: Whether `prepare` wants to see them.
    """

    LISTS: ClassVar[frozenset[str]] = frozenset()
    PREPARES: ClassVar[bool] = False

    def __init__(self, target: Target) -> None:
        self.target = target
        self.ids = Ids()

    @classmethod
    @abstractmethod
    def knows(cls, record: JsonRecord) -> bool:
        """Return whether a record looks like one of this format."""

    def prepare(self, records: Iterable[JsonRecord]) -> None:  # noqa: B027 - most formats need not
        """Look at all records before the first is read; most formats do not need to."""

    @abstractmethod
    def read(self, record: JsonRecord) -> Iterator[ItemLine | Skipped]:
        """Yield the items of a record.

        Raises:
            InvalidInput: It cannot be used.
        """

    def placed(
        self, item: Item, *wholes: dict[str, Value], keep: bool = False
    ) -> ItemLine | Skipped:
        """Return an item in its key and set.

        Args:
            wholes: Where the fields that the target names are looked for, one after the other.
            keep: Whether it stays even without a text, for what else it says.
        """
        target = self.target
        if target.text_from is not None:
            item = replace(item, text=_text(target.text_from, wholes))
        text = item.text if item.text is not None else text_of(item.value)
        if not keep and text is not None and not text.strip() and not item.metadata.get("caption"):
            return Skipped(NO_TEXT)
        key = target.key
        if target.key_from is not None:
            key = _name(target.key_from, wholes) or key
            if key is None:
                raise InvalidInput(
                    f"there is no {target.key_from!r} that could name its key; "
                    "name a key for such records too (--key)"
                )
        name = target.set
        if target.set_from is not None:
            name = _name(target.set_from, wholes) or name
        return ItemLine(
            key if key is None else checked_name(key, "a key"),
            checked_name(name, "a set"),
            checked_item(item),
        )

    def when(
        self,
        *records: dict[str, Value],
        names: Iterable[str] = TIMES,
        zone: tzinfo | None = None,
    ) -> datetime | None:
        """Return the time in the target's field, or else the time of the first record that has one.

        Args:
            records: The message first, then what it is part of.
            names: The fields that may hold a time, the preferred one first.
            zone: The zone of a time without one, if the target names none.

        Raises:
            InvalidInput: The field holds no time, or one without a zone.
        """
        zone = self.target.zone or zone
        if self.target.time_from is not None:
            return self.read_time(looked_up(self.target.time_from, records), zone)
        found = ((name, record[name]) for record in records for name in names if name in record)
        for name, value in found:
            try:
                time = self.read_time(value, zone)
            except InvalidInput as error:
                options = "--zone sets a zone, --time-from names another field"
                raise InvalidInput(f"field {name!r}: {error} ({options})") from error
            if time is not None:
                return time
        return None

    def read_time(self, value: Value, zone: tzinfo | None) -> datetime | None:
        """Return the time that a field holds; None for null."""
        return time_of(value, zone)


def looked_up(path: str, wholes: Iterable[Value]) -> Value:
    """Return what is at a dotted path, in the first of *wholes* that has it; else None."""
    for whole in wholes:
        found = whole
        for name in path.split("."):
            found = _step(found, name)
        if found is not None:
            return found
    return None


def _step(value: Value, name: str) -> Value:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list) and _NUMBER.fullmatch(name):
        at = int(name)
        return value[at] if -len(value) <= at < len(value) else None
    return None


def _name(path: str, wholes: Iterable[Value]) -> str | None:
    found = looked_up(path, wholes)
    if found is None:
        return None
    if not isinstance(found, (str, int)) or isinstance(found, bool):
        raise InvalidInput(f"{path!r} is {found!r:.40}, which names no key or set; name a text")
    return str(found)


def _text(path: str, wholes: Iterable[Value]) -> str:
    found = looked_up(path, wholes)
    if found is not None and not isinstance(found, str):
        raise InvalidInput(f"{path!r} is {found!r:.40}, and no text; name another field")
    return found or ""


def name_of(fields: dict[str, Value], *names: str) -> str | None:
    """Return the first of these fields that is there, as the text or number it is."""
    for name in names:
        found = fields.get(name)
        if isinstance(found, (str, int)) and not isinstance(found, bool) and found != "":
            return str(found)
    return None


def label_of(fields: dict[str, Value], name: str) -> str | None:
    """Return a field that says who or where; an empty one is none."""
    found = fields.get(name)
    if found is not None and not isinstance(found, str):
        raise InvalidInput(f'"{name}" must be a text, not {found!r:.40}')
    return found or None


def metadata_of(fields: dict[str, Value]) -> dict[str, Value]:
    """Return the metadata that a record has itself; null is none."""
    return {} if fields.get("metadata") is None else object_of(fields, "metadata")


@contextmanager
def inside(what: str) -> Generator[None]:
    """Name the part of a record that something is wrong with."""
    try:
        yield
    except FornixError as error:
        raise InvalidInput(f"{what}: {error}") from error
