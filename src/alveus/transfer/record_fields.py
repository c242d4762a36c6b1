"""Functions that read, check and find fields of records, and ids made from a record's contents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from hashlib import blake2b
from typing import cast

from alveus.errors import AlveusError, InvalidInput
from alveus.values import wire
from alveus.values.storable import Value, checked, valid_text
from alveus.values.times import parse_time

MILLISECONDS = 100_000_000_000
"""Unix times from this number on are in milliseconds. In seconds, the number is the year 5138."""

_INDEX = re.compile(r"-?[0-9]{1,6}")


def time_of(value: Value, zone: tzinfo | None = None) -> datetime | None:
    """Return the time that *value* states, or None if *value* is None.

    Args:
        value: A time in ISO 8601, or a Unix time in seconds or milliseconds.
        zone: The zone of a time without a zone, and of a Unix time. If *zone* is None, a time
            without a zone is refused, and a Unix time is in UTC.
    """
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            seconds = value / 1000 if value >= MILLISECONDS else value
            return datetime.fromtimestamp(seconds, UTC if zone is None else zone)
        except (OverflowError, OSError, ValueError):
            raise InvalidInput(f"the time {value!r:.40} is out of range") from None
    return parse_time(value, zone)


def texts_of(fields: dict[str, Value], name: str) -> tuple[str, ...]:
    """Return the texts in a field, or an empty tuple if the field is missing."""
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InvalidInput(f'"{name}" must be a list of texts, not {value!r}')
    return tuple(cast("list[str]", value))


def object_of(fields: dict[str, Value], name: str) -> dict[str, Value]:
    """Return the object in a field, or an empty dict if the field is missing."""
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise InvalidInput(f'"{name}" must be an object, not {value!r}')
    return value


def list_of(fields: dict[str, Value], name: str) -> list[Value]:
    """Return the list in a field."""
    value = fields.get(name)
    if not isinstance(value, list):
        raise InvalidInput(f'"{name}" must be a list of objects')
    return value


def checked_object(value: Value) -> dict[str, Value]:
    """Return *value*, an element of a list, or raise `InvalidInput` if it is not an object."""
    if not isinstance(value, dict):
        raise InvalidInput(f"a list of objects contains {value!r:.40}, which is not an object")
    return value


def metadata_of(fields: dict[str, Value]) -> dict[str, Value]:
    """Return the metadata of a record. Return an empty dict if it is missing or null."""
    return {} if fields.get("metadata") is None else object_of(fields, "metadata")


def name_of(fields: dict[str, Value], *names: str) -> str | None:
    """Return the first of these fields that has a text or a whole number, as a text.

    Return None if none of them has.
    """
    values = (fields.get(name) for name in names)
    readable = (value for value in values if isinstance(value, (str, int)) and value != "")
    return next((str(value) for value in readable if not isinstance(value, bool)), None)


def label_of(fields: dict[str, Value], name: str) -> str | None:
    """Return the speaker, role or session in a field, or None if it is missing or empty."""
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f'"{name}" must be a text, not {value!r:.40}')
    return value or None


def value_at(path: str, records: Iterable[Value]) -> Value:
    """Return the first value at a dotted path in *records*, or None if no record has one."""
    for record in records:
        value = record
        for name in path.split("."):
            value = _child(value, name)
        if value is not None:
            return value
    return None


def _child(value: Value, name: str) -> Value:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list) and _INDEX.fullmatch(name):
        index = int(name)
        return value[index] if -len(value) <= index < len(value) else None
    return None


@contextmanager
def inside(what: str) -> Generator[None]:
    """Name a part of a record in errors that the block raises."""
    try:
        yield
    except AlveusError as error:
        raise InvalidInput(f"{what} cannot be used: {error}") from error


class Ids:
    """Makes ids from the contents of records.

    Equal files get equal ids. A line that is appended to a file does not change the earlier ids.
    """

    def __init__(self) -> None:
        self._counts: Counter[bytes] = Counter()

    def of_record(self, fields: dict[str, Value]) -> str:
        """Return the id in a record, unchecked. If it has none, make one from the contents."""
        given = fields.get("id")
        if given is None:
            return self.make(fields)
        return str(given) if type(given) is int else cast("str", given)

    def make(self, contents: Value) -> str:
        """Return an id made from *contents* and the number of equal contents before."""
        line = checked(valid_text(contents).value, where="the line", nan=True)
        digest = wire.digest(line, salt=b"alveus import")
        self._counts[digest] += 1
        numbered = digest + self._counts[digest].to_bytes(8)
        return f"import-{blake2b(numbered, digest_size=12).hexdigest()}"
