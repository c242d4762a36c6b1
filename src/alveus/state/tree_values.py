"""Exact trees: the interface of a reader, the results of reads, limits and expiry."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Final, Literal, Protocol, TypeAlias, cast

from alveus.errors import InvalidInput, TooLarge
from alveus.errors.short_repr import short_repr
from alveus.state.paths import DottedPath, ParsedPath, dotted
from alveus.store import Ledger, Node, Scope
from alveus.store.scope import NameRange
from alveus.values import wire
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import MAX_DEPTH, Path, Value
from alveus.values.times import LONGEST_TTL

IGNORE_EXPIRY: Final = -(1 << 62)
"""The time of a read that includes expired nodes, which a write has to remove."""

FEW_FIELDS = 24
"""Most fields that are read at once: so many small values take as long as three single reads."""

LEAST_VALUE_BYTES = 1024
"""The lowest limit of a value's bytes. With a lower one, short values would have to be counted."""


class ExactTree(Protocol):
    """An exact tree at one moment. The root is an object that always exists."""

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; None if it does not exist or has expired by *now*."""
        ...

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*, in the order they were made."""
        ...

    def few_fields(self, path: Path) -> dict[str, Node | None] | None:
        """Return all fields of an object, also expired ones, if they are few and quick to read.

        Otherwise return None. A field with None instead of a node must be read singly.
        """
        ...

    def field_names(self, path: Path, now: int) -> list[tuple[str, int | None]]:
        """Return the names of the fields and their expiries, without reading values."""
        ...

    def names_in_range(self, path: Path, chosen: NameRange, now: int) -> list[str]:
        """Return the names of the fields in the range *chosen*, in the order of names."""
        ...


@dataclass(slots=True, eq=False)
class Snapshot:
    """The tree of a scope after commit *at*. If *at* is None, each read sees the latest commit."""

    ledger: Ledger
    scope: Scope
    at: int | None

    def node(self, path: Path, now: int) -> Node | None:
        """Return the node at *path*; see `ExactTree`."""
        return self.ledger.node(self.scope, path, at=self.at, now=now)

    def children(self, path: Path, now: int) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*; see `ExactTree`."""
        return self.ledger.children(self.scope, path, at=self.at, now=now)

    def few_fields(self, path: Path) -> dict[str, Node | None] | None:
        """Return the fields if they are few; see `ExactTree`."""
        return self.ledger.few_fields(self.scope, path, at=self.at, most=FEW_FIELDS)

    def field_names(self, path: Path, now: int) -> list[tuple[str, int | None]]:
        """Return the names of the fields; see `ExactTree`."""
        return self.ledger.field_names(self.scope, path, at=self.at, now=now)

    def names_in_range(self, path: Path, chosen: NameRange, now: int) -> list[str]:
        """Return the names of the fields in the range *chosen*; see `ExactTree`."""
        return self.ledger.names_in_range(self.scope, path, chosen, at=self.at, now=now)


class NonValue(Enum):
    """The result of a read that found no value: nothing, or an object."""

    MISSING = "missing"
    OBJECT = "object"


MISSING: Final = NonValue.MISSING
"""The result of a read where nothing is. As ``expected=`` of `MemoryObject.update` it means that
nothing may be there."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A copy of an object and all nodes below it, in order."""

    fields: tuple[tuple[str, Value | Branch], ...]

    def levels(self) -> int:
        """Return the number of names in the longest path below the object."""
        inner = [f.levels() for _, f in self.fields if isinstance(f, Branch)]
        return (1 if self.fields else 0) + max(inner, default=0)

    def to_dict(self) -> dict[str, Value]:
        """Return the branch as nested dicts."""
        return {n: f.to_dict() if isinstance(f, Branch) else f for n, f in self.fields}

    def walk(self, start: Path = ()) -> Iterator[tuple[DottedPath, Value]]:
        """Yield the path of each value and the value, depth first, in order."""
        for name, field in self.fields:
            path = (*start, name)
            if isinstance(field, Branch):
                yield from field.walk(path)
            else:
                yield dotted(path), field


# --- limits -----------------------------------------------------------------------------------

_BYTES_PER_CHARACTER = 6
"""Most bytes in wire form for one character of `repr`: ``nan`` becomes 16 bytes."""

_BYTES_FIELD = 20
"""Most bytes that bytes take in wire form beside their base64."""

_STORABLE_TYPES = frozenset({type(None), bool, int, float, bytes})
"""Types whose values can all be stored."""


class NeedsFullCheck(Exception):
    """A value needs the full check of `values.checked`."""


def fast_copy(value: object, levels: int = MAX_DEPTH) -> Value:
    """Return a copy of a text, list or dict that can be stored.

    Several times as fast as `checked`, but explains no errors.

    Raises:
        NeedsFullCheck: The value has an unusual part, or is of another type. It may be storable.
    """
    kind = type(value)
    if kind is str:
        return _encodable(cast("str", value))
    if kind is list and levels:
        return [
            v
            if type(v) in _STORABLE_TYPES or (type(v) is str and v.isascii())
            else fast_copy(v, levels - 1)
            for v in cast("list[Value]", value)
        ]
    if kind is dict and levels:
        fields = cast("dict[str, Value]", value)
        for name in fields:
            if type(name) is not str or not name.isascii():
                raise NeedsFullCheck
        return {
            k: v
            if type(v) in _STORABLE_TYPES or (type(v) is str and v.isascii())
            else fast_copy(v, levels - 1)
            for k, v in fields.items()
        }
    raise NeedsFullCheck


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NeedsFullCheck from None
    return text


def size_bound(value: Value) -> int:
    """Return quickly an upper bound of the bytes of *value* in wire form."""
    if type(value) is bytes:  # base64
        return 4 * len(value) // 3 + _BYTES_FIELD
    try:
        return _BYTES_PER_CHARACTER * len(repr(value))
    except ValueError:  # Python shows no int of over 4,300 digits
        return len(wire.encode(value).encode())


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """The limits of an exact tree; see also `paths.MAX_LEVELS` and `storable.MAX_NAME`.

    Attributes:
        value_bytes: Most bytes of one value in wire form (JSON in UTF-8); at least 1024.
    """

    value_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        """Refuse limits that cannot be kept."""
        if self.value_bytes < LEAST_VALUE_BYTES:
            raise InvalidInput(f"value_bytes must be at least {LEAST_VALUE_BYTES}")

    def check_size(self, value: Value, location: ParsedPath) -> int:
        """Return an upper bound of the bytes of *value*, which is to be put at *location*.

        Raises:
            TooLarge: The value has more than `value_bytes`.
        """
        bound = size_bound(value)
        if bound > self.value_bytes:
            bound = len(wire.encode(value).encode())
            if bound > self.value_bytes:
                raise TooLarge(
                    f"the value for {location.text!r} has {bound} bytes in wire form; at most "
                    f"{self.value_bytes} are accepted: store it in parts, or in a file"
                )
        return bound


# --- expiry -----------------------------------------------------------------------------------

Expiry: TypeAlias = "timedelta | int | None"
"""The expiry of a write: a time to live, an end in microseconds, or None for the default."""


def ttl_us(ttl: object) -> int:
    """Return *ttl* in microseconds.

    Raises:
        InvalidInput: *ttl* is not a timedelta, not above zero, or over 1,000 years.
    """
    if not isinstance(ttl, timedelta) or ttl <= timedelta(0):
        raise InvalidInput(f"a ttl must be a timedelta above 0, not {short_repr(ttl)}")
    if ttl > LONGEST_TTL:
        raise InvalidInput(
            f"a ttl of {ttl.days:,} days is longer than 1,000 years; to keep the value, leave "
            "out ttl"
        )
    return (ttl.days * 86_400 + ttl.seconds) * 1_000_000 + ttl.microseconds


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Ttl:
    """The default time to live of writes to a memory.

    Attributes:
        after: How long a value lives after its last write; more than zero.
        refresh: "read" means that reading a value that expires extends the expiry of the value, and
            of the objects above it, to at least *after* from the read.
    """

    after: timedelta
    refresh: Literal["write", "read"] = "write"

    def __post_init__(self) -> None:
        """Refuse an invalid time to live."""
        ttl_us(self.after)
        if self.refresh not in ("write", "read"):
            raise InvalidInput(f"refresh must be 'write' or 'read', not {self.refresh!r}")


def expiry_json(expiry: Expiry) -> Value:
    """Return the expiry that a write requests, as part of its request."""
    return ["ttl", ttl_us(expiry)] if isinstance(expiry, timedelta) else expiry


def put_request(location: ParsedPath, value: object, expiry: Expiry) -> list[object]:
    """Return the request of a `set`, to recognise a repetition."""
    return ["set", list(location.path), value, expiry_json(expiry)]
