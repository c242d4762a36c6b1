"""The format of an export of history: commits, each followed by what it did, a line each.

Numbers of commits differ from store to store; in the lines they count from 1. A version of an item
or a compaction is named by its commit and its place in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, replace
from dataclasses import fields as fields_of
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, cast

from alveus.errors import InvalidInput
from alveus.facts.learning_records import RECORDS, check_note
from alveus.store.checks import ROW_BITS
from alveus.transfer.alveus_format import (
    ITEM_FIELDS,
    ItemLine,
    NodeLine,
    SetLine,
    check_header,
    checked_path,
)
from alveus.transfer.record_fields import Ids, check_field_names, time_of
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value, checked_name, counted, microseconds, moment
from alveus.values.times import format_time

VERSION = ("place", "version", "first", "created", "updated", "links")
"""Fields of a version in addition to those of an item."""

_TIMES = ("created", "updated", "time")


class RowName(NamedTuple):
    """The name of a version or compaction: its commit, and its place in it."""

    commit: int
    place: int


def _read_time(value: Value, name: str, _commits: int) -> int:
    time = time_of(value)
    if time is None:
        raise InvalidInput(f'"{name}" is missing')
    return microseconds(time)


def _read_row(value: Value, name: str, commits: int) -> RowName:
    if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - commit, place
        raise InvalidInput(f'"{name}" must be a commit and a place in it, not {value!r}')
    commit = counted(value[0], f'the commit of "{name}"', most=max(1, commits))
    return RowName(commit, _read_place(value[1], name, commits))


def _read_rows(value: Value, name: str, commits: int) -> tuple[RowName, ...]:
    if not isinstance(value, list):
        raise InvalidInput(f'"{name}" must be a list, not {value!r}')
    return tuple(_read_row(row, name, commits) for row in value)


def _read_place(value: Value, _name: str, _commits: int) -> int:
    return counted(value, "a place in a commit", least=0, most=(1 << ROW_BITS) - 1)


def _read_text(value: Value, name: str, _commits: int) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f'"{name}" must be a text, not {value!r}')
    return value


def _read_number(value: Value, name: str, _commits: int) -> int:
    return counted(value, f'"{name}"', least=0, most=1 << 40)


_READ: Mapping[str, Callable[[Value, str, int], Any]] = {
    "key": lambda value, name, _: None if value is None else checked_name(value, f'"{name}"'),
    "set": lambda value, name, _: checked_name(value, f'"{name}"'),
    "path": lambda value, _name, _: checked_path(value),
    "time": _read_time,
    "created": _read_time,
    "updated": _read_time,
    "row": _read_row,
    "source": _read_row,
    "compaction": _read_row,
    "first": _read_row,
    "retired": _read_rows,
    "added": _read_rows,
    "links": _read_rows,
    "place": _read_place,
    "how": _read_text,
    "version": lambda value, name, _: counted(value, f'"{name}"'),
    "commit": _read_number,
    "erased": _read_number,
    "purged": lambda value, _name, _: value is True,
}
"""How each field of the format is read: from its JSON, its name, and the commits so far."""


def _to_json(name: str, value: Any) -> Value:  # noqa: ANN401 - a field of any of the classes
    if name in _TIMES:
        return format_time(moment(value))
    if isinstance(value, (tuple, list)):
        return [_to_json("", one) for one in cast("Sequence[Any]", value)]
    return value


class _HistoryLine:
    """A line of the history. Its dataclass fields are the fields of the line.

    A field with a default is left out of the line if it has that value.
    """

    __slots__ = ()
    KIND: ClassVar[str]

    def fields(self) -> dict[str, Value]:
        """Return the line."""
        return {"type": self.KIND} | self._own_fields()

    @classmethod
    def from_fields(cls, fields: dict[str, Value], commits: int) -> Self:
        """Return what a line says that follows so many commits.

        Raises:
            InvalidInput: A field is missing, unknown, or has no such value.
        """
        check_field_names(
            fields, " ".join(["type", *(field.name for field in fields_of(cast("Any", cls)))])
        )
        if "key" not in fields:
            raise InvalidInput('"key" is missing; it is null for knowledge')
        if fields["key"] is None and "set" not in fields:
            raise InvalidInput('"set" is missing; knowledge has sets alone')
        return cls(**cls._read(fields, commits))

    def _own_fields(self) -> dict[str, Value]:
        values = {field: getattr(self, field.name) for field in fields_of(cast("Any", self))}
        return {
            field.name: _to_json(field.name, value)
            for field, value in values.items()
            if field.name in _READ and value != field.default
        }

    @classmethod
    def _read(cls, fields: dict[str, Value], commits: int) -> dict[str, Any]:
        return {
            field.name: _READ[field.name](fields.get(field.name), field.name, commits)
            for field in fields_of(cast("Any", cls))
            if field.name in _READ and (field.name in fields or field.default is MISSING)
        }


@dataclass(frozen=True, slots=True)
class ItemBegun(_HistoryLine):
    """A version of an item as a commit began it.

    Attributes:
        first: The item's first version; None: this one.
        created, updated: In microseconds; None: the time of the commit.
        links: The versions that it was derived from.
    """

    KIND = "item"
    line: ItemLine
    place: int
    version: int = 1
    first: RowName | None = None
    created: int | None = None
    updated: int | None = None
    links: Sequence[RowName] = ()

    @property
    def key(self) -> str | None:
        """The key of the item."""
        return self.line.key

    @property
    def set(self) -> str:
        """The set of the item."""
        return self.line.set

    def fields(self) -> dict[str, Value]:
        """Return the line."""
        return self.line.fields() | self._own_fields()

    @classmethod
    def from_fields(cls, fields: dict[str, Value], commits: int) -> ItemBegun:
        """Return the version that a line begins."""
        check_field_names(fields, f"{ITEM_FIELDS} {' '.join(VERSION)}")
        plain = {name: value for name, value in fields.items() if name not in VERSION}
        line = ItemLine.from_fields(plain, Ids())
        if line.item.time is None:
            raise InvalidInput('"time" is missing; a version has the time of its item')
        if line.set == RECORDS:
            check_note(line.item)
        return cls(line, **cls._read(fields, commits))


@dataclass(frozen=True, slots=True)
class ItemEnded(_HistoryLine):
    """A version that a commit ended."""

    KIND = "ended"
    key: str | None
    set: str
    row: RowName


@dataclass(frozen=True, slots=True)
class SourceAdded(_HistoryLine):
    """A source that a version of an earlier commit received."""

    KIND = "link"
    key: str | None
    set: str
    row: RowName
    source: RowName


@dataclass(frozen=True, slots=True)
class CompactionDone(_HistoryLine):
    """A compaction that a commit did; *erased*: how many of its versions are no longer kept."""

    KIND = "compaction"
    key: str | None
    set: str
    place: int
    how: str
    retired: Sequence[RowName]
    added: Sequence[RowName]
    erased: int = 0
    purged: bool = False


@dataclass(frozen=True, slots=True)
class CompactionUndone(_HistoryLine):
    """A compaction that a commit undid."""

    KIND = "undone"
    key: str | None
    set: str
    compaction: RowName


@dataclass(frozen=True, slots=True)
class NodeRemoved(_HistoryLine):
    """A node that a commit removed."""

    KIND = "removed"
    key: str
    path: Path


@dataclass(frozen=True, slots=True)
class NodeGone(_HistoryLine):
    """A node that is no longer kept, but has a place among others."""

    KIND = "gone"
    key: str
    path: Path


@dataclass(frozen=True, slots=True)
class HistoryStart(_HistoryLine):
    """From which commit and time on the past of a set is complete; *set*: None for exact memory.

    The commit 0: from the first; *time* in microseconds.
    """

    KIND = "floor"
    key: str | None
    set: str | None = None
    commit: int = 0
    time: int = 0


@dataclass(frozen=True, slots=True)
class AccessedLine(_HistoryLine):
    """When an item was last read; *row*: its first version."""

    KIND = "accessed"
    key: str | None
    set: str
    row: RowName
    time: int


SetPart: TypeAlias = ItemBegun | ItemEnded | SourceAdded | CompactionDone | CompactionUndone
"""What a commit did to the items of a set."""

CommitPart: TypeAlias = SetPart | SetLine | NodeLine | NodeRemoved | NodeGone | HistoryStart
"""What a commit did, a line each."""

PARTS: Mapping[str, Callable[[dict[str, Value], int], CommitPart]] = {
    ItemBegun.KIND: ItemBegun.from_fields,
    ItemEnded.KIND: ItemEnded.from_fields,
    SourceAdded.KIND: SourceAdded.from_fields,
    CompactionDone.KIND: CompactionDone.from_fields,
    CompactionUndone.KIND: CompactionUndone.from_fields,
    NodeRemoved.KIND: NodeRemoved.from_fields,
    "object": lambda fields, _commits: NodeLine.from_fields(fields),
    "value": lambda fields, _commits: NodeLine.from_fields(fields),
    NodeGone.KIND: NodeGone.from_fields,
    HistoryStart.KIND: HistoryStart.from_fields,
}
"""How the lines after a commit are read, by their type."""


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A commit, and all that it did.

    Attributes:
        number: From 1 in the file, without gaps.
        time: In microseconds.
        key: The key whose commit it is; None: of knowledge.
        digest: Of the lines of the file up to its end.
    """

    number: int
    time: int
    key: str | None
    parts: Sequence[CommitPart] = ()
    digest: str = ""

    def fields(self) -> dict[str, Value]:
        """Return the line, without what the commit did."""
        time = _to_json("time", self.time)
        return {"type": "commit", "commit": self.number, "time": time, "key": self.key}

    @classmethod
    def from_fields(cls, fields: dict[str, Value], last: CommitLine | None) -> CommitLine:
        """Return the commit that a line begins, after the *last* one."""
        check_field_names(fields, "type commit time key")
        before, since = (0, 0) if last is None else (last.number, last.time)
        if fields.get("commit") != before + 1:
            raise InvalidInput(
                f'"commit" is {fields.get("commit")!r}, after {before}; a line is missing'
            )
        time, key = _read_time(fields.get("time"), "time", before), fields.get("key")
        if time < since:
            raise InvalidInput('"time" is before the one of the commit before')
        return cls(before + 1, time, None if key is None else checked_name(key, '"key"'))


class HistoryLines:
    """Reads the lines of an export of history.

    Attributes:
        ended: Whether its last line was read; without it, the file was cut off.
    """

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=16)
        self._last: CommitLine | None = None
        self._open = False
        self._parts: list[CommitPart] = []
        self.ended = False

    @property
    def _commits(self) -> int:
        return 0 if self._last is None else self._last.number

    def line(self, fields: dict[str, Value]) -> Iterator[CommitLine | AccessedLine]:
        """Yield what a line completes: the commit before it, or when an item was read.

        Raises:
            InvalidInput: The line cannot be imported, or is out of place.
        """
        kind = fields.get("type")
        if self.ended:
            raise InvalidInput("a line follows the end of the history")
        if kind in ("set", "commit", "accessed", "end"):
            yield from self._completed()
        match kind:
            case "alveus":
                check_header(fields)
            case "set":
                self._add_part(SetLine.from_fields(fields), fields)
            case "commit":
                self._last = CommitLine.from_fields(fields, self._last)
                self._open = True
                self._digest.update(wire.encode(fields).encode())
            case "accessed":
                yield AccessedLine.from_fields(fields, self._commits)
            case "end":
                self._read_end(fields)
            case _:
                self._add_part(self._part(fields), fields)

    def _part(self, fields: dict[str, Value]) -> CommitPart:
        kind = str(fields.get("type"))
        if kind not in PARTS:
            known = ", ".join(["commit", "set", *PARTS, "accessed", "end"])
            raise InvalidInput(f'"type" is {kind!r}; after a commit it is one of {known}')
        if not self._open:
            raise InvalidInput(f'a line is missing: "type" is {kind!r}, but no commit is before it')
        return PARTS[kind](fields, self._commits)

    def _add_part(self, part: CommitPart, fields: dict[str, Value]) -> None:
        self._digest.update(wire.encode(fields).encode())
        self._parts.append(part)

    def _completed(self) -> Iterator[CommitLine]:
        """Yield the commit whose last line was read, if there is one."""
        if self._last is None or not self._open:
            return
        commit, parts = self._last, tuple(self._parts)
        self._open, self._parts = False, []
        for part in parts:
            if part.key not in (None, commit.key):
                raise InvalidInput(
                    f"commit {commit.number} of key {commit.key!r} reaches {part.key!r}"
                )
        yield replace(commit, parts=parts, digest=self._digest.hexdigest())

    def _read_end(self, fields: dict[str, Value]) -> None:
        check_field_names(fields, "type commits")
        if fields.get("commits") != self._commits or self._parts:
            raise InvalidInput(
                f'"commits" is {fields.get("commits")!r}, but {self._commits} were there'
            )
        self.ended = True
