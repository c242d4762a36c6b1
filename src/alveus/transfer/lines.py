"""The lines of an export: the present state, or the history as commits and their changes.

Commit numbers differ from store to store. In the lines they count from 1. A version of an item or
a compaction is named by its commit and its position in the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, replace
from dataclasses import fields as fields_of
from datetime import timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, cast

from alveus.errors import InvalidInput, RuleFailed
from alveus.facts.learning_records import RECORDS, check_note
from alveus.search.signals import Signals
from alveus.sets.admission.rules import rules_of
from alveus.sets.compaction.strategies import CUSTOM, restored
from alveus.sets.set_options import definition
from alveus.state import MemoryKind, MemoryRef
from alveus.store import Definition, Node
from alveus.store.checks import ROW_BITS
from alveus.store.items import Item, counted_valid_item, text_of
from alveus.store.records import check_item, check_spans
from alveus.store.scope import HIDDEN
from alveus.transfer.record_fields import Ids, object_of, texts_of, time_of
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import (
    Path,
    Value,
    checked,
    checked_name,
    counted,
    microseconds,
    moment,
    valid_text,
)
from alveus.values.times import format_time

FORMAT = 1
"""The version of the format."""

KINDS = ("alveus", "set", "item", "learnt", "object", "value")
"""The types of lines of an export without history."""

SETTINGS = tuple(one.name for one in fields_of(Definition))
"""The fields of a "set" line after its key and set."""

ITEM_FIELDS = (
    "type key set id time speaker role session value text metadata importance sources "
    "compacted until expire_at valid_from valid_to"
)
LABELS = ("speaker", "role", "session")
TIMES = ("until", "expire_at", "valid_from", "valid_to")
"""Optional times of an item, which most items lack."""

VERSION = ("place", "version", "first", "created", "updated", "links")
"""Fields that the line of a version has in addition to the fields of an item."""


class ItemLocation(NamedTuple):
    """The key, the set and the id of an item. If the key is None, the set belongs to knowledge."""

    key: str | None
    set: str
    id: str


class RowName(NamedTuple):
    """The name of a version or compaction: its commit, and its position in that commit."""

    commit: int
    position: int


# --- fields -----------------------------------------------------------------------------------


def check_field_names(fields: dict[str, Value], allowed: str) -> None:
    """Raise `InvalidInput` if a line has a field that *allowed* does not list."""
    unknown = fields.keys() - _names(allowed)
    if unknown:
        raise InvalidInput(
            f"a line of type {fields['type']!r} has unknown fields {sorted(unknown)}; the "
            f"fields are {allowed}"
        )


@lru_cache(maxsize=32)
def _names(allowed: str) -> frozenset[str]:
    return frozenset(allowed.split())


def _key(value: Value, name: str = "key", _commits: int = 0) -> str | None:
    return None if value is None else checked_name(value, f'"{name}"')


def _owner(fields: dict[str, Value]) -> tuple[str | None, str]:
    """Return the key and the set that a line names. The key is None for knowledge."""
    if "key" not in fields:
        raise InvalidInput('"key" is missing; for knowledge it is null')
    name = checked_name(fields.get("set"), '"set"')
    return _key(fields["key"]), name


def _path(value: Value, _name: str = "path", _commits: int = 0) -> Path:
    path = texts_of({"path": value}, "path")
    MemoryRef(MemoryKind.SHORT_TERM, path)
    if not path:
        raise InvalidInput('"path" is empty; it needs at least one name')
    return path


def _microseconds(value: Value, name: str, _commits: int = 0) -> int:
    time = time_of(value)
    if time is None:
        raise InvalidInput(f'"{name}" is missing')
    return microseconds(time)


def _position(value: Value, _name: str = "", _commits: int = 0) -> int:
    return counted(value, "a position in a commit", least=0, most=(1 << ROW_BITS) - 1)


def _row(value: Value, name: str, commits: int) -> RowName:
    if not isinstance(value, list) or len(value) != len(RowName._fields):
        raise InvalidInput(f'"{name}" must be a pair: a commit and a position in it, not {value!r}')
    commit = counted(value[0], f'the commit of "{name}"', most=max(1, commits))
    return RowName(commit, _position(value[1]))


def _rows(value: Value, name: str, commits: int) -> tuple[RowName, ...]:
    if not isinstance(value, list):
        raise InvalidInput(f'"{name}" must be a list, not {value!r}')
    return tuple(_row(row, name, commits) for row in value)


def _text(value: Value, name: str, _commits: int) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f'"{name}" must be a text, not {value!r}')
    return value


def _number(value: Value, name: str, _commits: int) -> int:
    return counted(value, f'"{name}"', least=0, most=1 << 40)


_READERS: Mapping[str, Callable[[Value, str, int], Any]] = {
    "key": _key,
    "set": lambda value, name, _: checked_name(value, f'"{name}"'),
    "path": _path,
    **dict.fromkeys(("time", "created", "updated"), _microseconds),
    **dict.fromkeys(("row", "source", "compaction", "first"), _row),
    **dict.fromkeys(("retired", "added", "links"), _rows),
    **dict.fromkeys(("commit", "erased"), _number),
    "place": _position,
    "how": _text,
    "version": lambda value, name, _: counted(value, f'"{name}"'),
    "purged": lambda value, _name, _: value is True,
}
"""The reader of each field of the history. It gets the field's JSON, the field's name, and the
number of commits so far.
"""

_ITEM_READERS: Mapping[str, Callable[[dict[str, Value], str], object]] = {
    **dict.fromkeys(("id", "text", "importance", *LABELS), lambda fields, name: fields[name]),
    "metadata": object_of,
    "sources": texts_of,
    "compacted": lambda fields, name: fields[name] is True,
    **dict.fromkeys(("time", *TIMES), lambda fields, name: time_of(fields[name])),
}
"""The reader of each field of an item except "value". It gets all fields of the line, and the
field's name.
"""


def _to_json(name: str, value: Any) -> Value:  # noqa: ANN401 - a field of any of the classes
    if name in ("created", "updated", "time"):
        return format_time(moment(value))
    if isinstance(value, (tuple, list)):
        return [_to_json("", one) for one in cast("Sequence[Any]", value)]
    return value


# --- lines of the present ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetLine:
    """A set and its definition. If the key is None, the set belongs to knowledge."""

    key: str | None
    set: str
    definition: Definition

    def fields(self) -> dict[str, Value]:
        """Return the line's fields."""
        fields: dict[str, Value] = {"type": "set", "key": self.key, "set": self.set}
        return fields | self.definition.to_json()

    @classmethod
    def from_fields(cls, fields: dict[str, Value]) -> SetLine:
        """Return the set that a line defines."""
        check_field_names(fields, f"type key set {' '.join(SETTINGS)}")
        key, name = _owner(fields)
        made = _definition({name: fields[name] for name in SETTINGS if name in fields})
        if key is None and made != Definition(item_type=made.item_type, admission=made.admission):
            raise InvalidInput("a set of knowledge takes no capacity, compaction or signals")
        return SetLine(key, name, made)


@dataclass(frozen=True, slots=True)
class ItemLine:
    """An item of a set.

    Attributes:
        linked: The sources of the item. None means the items of the same set whose ids are in the
            item's `sources`.
        replaced: The number of characters in the file that were not text and were replaced; see
            `counted_valid_item`.
    """

    key: str | None
    set: str
    item: Item
    linked: Sequence[ItemLocation] | None = None
    replaced: int = 0

    def fields(self) -> dict[str, Value]:
        """Return the line's fields.

        Defaults, and a text that follows from the value, are left out.
        """
        item = self.item
        fields: dict[str, Value] = {"type": "item", "key": self.key, "set": self.set, "id": item.id}
        if item.time is not None:
            fields["time"] = format_time(item.time)
        fields |= {n: getattr(item, n) for n in LABELS if getattr(item, n) is not None}
        fields["value"] = item.value
        if item.text is not None and item.text != text_of(item.value):
            fields["text"] = item.text
        others: dict[str, Value] = {
            "metadata": dict(item.metadata),
            "importance": item.importance,
            "sources": list(item.sources),
            "compacted": item.compacted,
        }
        fields |= {name: value for name, value in others.items() if value}
        fields |= {n: format_time(getattr(item, n)) for n in TIMES if getattr(item, n) is not None}
        if self.linked is not None:
            fields["linked"] = [list(location) for location in self.linked]
        return fields

    @classmethod
    def from_fields(cls, fields: dict[str, Value], ids: Ids) -> ItemLine:
        """Return the item of a line. If the line has no id, the item gets an id from *ids*."""
        check_field_names(fields, f"{ITEM_FIELDS} linked")
        key, name = _owner(fields)
        if "value" not in fields:
            raise InvalidInput('"value" is missing')
        known: dict[str, Any] = {
            field: _ITEM_READERS[field](fields, field) for field in fields if field in _ITEM_READERS
        }
        if "id" not in fields:
            known["id"] = ids.make(fields)
        item, replaced = counted_valid_item(Item(fields["value"], **known))
        linked = _locations(fields["linked"]) if "linked" in fields else None
        return ItemLine(key, name, checked_item(item), linked, replaced)


@dataclass(frozen=True, slots=True)
class LearntLine:
    """Messages of a conversation that facts were learnt from.

    Attributes:
        ids: The ids of the messages.
        set_aside: A dict from message id to the number of calls without a usable answer.
    """

    key: str
    set: str
    ids: Sequence[str]
    set_aside: Mapping[str, int]

    def fields(self) -> dict[str, Value]:
        """Return the line's fields."""
        fields: dict[str, Value] = {"type": "learnt", "key": self.key, "set": self.set}
        fields["ids"] = [*self.ids]
        if self.set_aside:
            fields["set_aside"] = dict(self.set_aside)
        return fields

    @classmethod
    def from_fields(cls, fields: dict[str, Value]) -> LearntLine:
        """Return the messages of a line."""
        check_field_names(fields, "type key set ids set_aside")
        key, name = _owner(fields)
        if key is None:
            raise InvalidInput("facts cannot be learnt from a set of knowledge")
        failures = {
            item_id: counted(cast("int", count), '"set_aside"')
            for item_id, count in object_of(fields, "set_aside").items()
        }
        return LearntLine(key, name, texts_of(fields, "ids"), failures)


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node of the exact tree of a key. *replaced* counts as in `ItemLine`."""

    key: str
    path: Path
    node: Node
    replaced: int = 0

    def fields(self) -> dict[str, Value]:
        """Return the line's fields."""
        kind = "object" if self.node.is_object else "value"
        fields: dict[str, Value] = {"type": kind, "key": self.key, "path": list(self.path)}
        if not self.node.is_object:
            fields["value"] = self.node.value
        if self.node.expires is not None:
            fields["expires"] = format_time(moment(self.node.expires))
        return fields

    @classmethod
    def from_fields(cls, fields: dict[str, Value]) -> NodeLine:
        """Return the node of a line."""
        check_field_names(fields, "type key path value expires")
        key, path = checked_name(fields.get("key"), '"key"'), _path(fields.get("path", []))
        is_object = fields["type"] == "object"
        if is_object == ("value" in fields):
            raise InvalidInput(
                'a line of type "value" needs a "value", and a line of type "object" takes none'
            )
        expires = time_of(fields.get("expires"))
        given, replaced = valid_text(fields.get("value"))
        node = Node(is_object, checked(given, nan=True), expires and microseconds(expires))
        return NodeLine(key, path, node, replaced)


ExportLine: TypeAlias = SetLine | ItemLine | LearntLine | NodeLine


def export_line(fields: dict[str, Value], ids: Ids) -> ExportLine | None:
    """Return the contents of a line of an export without history, or None for the first line.

    Raises:
        InvalidInput: The line cannot be imported.
    """
    kind = fields.get("type")
    if str(fields.get("set")).startswith(HIDDEN):
        raise InvalidInput(f'"set" must not begin with {HIDDEN!r}')
    match kind:
        case "item":
            return ItemLine.from_fields(fields, ids)
        case "set":
            return SetLine.from_fields(fields)
        case "learnt":
            return LearntLine.from_fields(fields)
        case "object" | "value":
            return NodeLine.from_fields(fields)
        case "alveus":
            return _check_header(fields)
        case _:
            raise InvalidInput(f'"type" must be one of {", ".join(KINDS)}, not {kind!r}')


def _check_header(fields: dict[str, Value]) -> None:
    """Refuse a file whose format this version of alveus cannot read."""
    if fields.get("format") != FORMAT:
        raise InvalidInput(
            f"the format must be {FORMAT}, not {fields.get('format')!r}; upgrade alveus, or "
            "export the memory again with this alveus"
        )


def checked_item(item: Item) -> Item:
    """Return *item*, or raise `InvalidInput` if a store would later refuse a part of it."""
    checked_name(item.id, "an item's id")
    if item.text is None and text_of(checked(item.value)) is None:
        raise InvalidInput('the value has no text for search; add "text" ("" for none)')
    check_item(item)
    times = {
        name: microseconds(time, name)
        for name in ("time", *TIMES)
        if (time := getattr(item, name)) is not None
    }
    if item.until is not None and item.time is None:  # the time of import begins no span
        raise InvalidInput('"until" needs "time", the start of the same period')
    if len(times) > 1:
        check_spans(*map(times.get, ("time", "until", "valid_from", "valid_to")))
    for source in item.sources:
        checked_name(source, "the id of a source")
    return item


def differs(item: Item, stored: Item) -> bool:
    """Return whether the item of a file differs from the stored item.

    If the item of the file has no time, the times are not compared.
    """
    timed = replace(item, time=item.time or stored.time)
    return ItemLine(None, "", timed).fields() != ItemLine(None, "", stored).fields()


def _locations(linked: Value) -> list[ItemLocation]:
    locations: list[ItemLocation] = []
    for location in linked if isinstance(linked, list) else [None]:
        if not isinstance(location, list) or len(location) != len(ItemLocation._fields):
            raise InvalidInput(f'"linked" must be a list of [key, set, id], not {linked!r}')
        key, name, item_id = location
        owner = None if key is None else checked_name(key, 'a key of "linked"')
        where = checked_name(name, 'a set of "linked"'), checked_name(item_id, 'an id of "linked"')
        locations.append(ItemLocation(owner, *where))
    return locations


def _definition(given: dict[str, Value]) -> Definition:
    """Return a definition, checked like the arguments of a set.

    A compaction strategy that a user defined is not checked. The compaction looks it up.
    """
    stored = {name: value for name, value in given.items() if value is not None}
    read = Definition.from_json(stored)
    options: dict[str, object] = {**stored, "high_water": read.high_water}
    if isinstance(read.retention, int):
        options["retention"] = timedelta(microseconds=read.retention)
    if read.signals is not None:
        options["signals"] = Signals.from_json(read.signals)
    if not isinstance(read.compaction, str) and read.compaction.get("name") != CUSTOM:
        restored(read.compaction, {})
    try:
        rules_of(read.admission or ())
    except RuleFailed as error:
        raise InvalidInput(f'"admission" cannot be used: {error}') from error
    return definition(options)


# --- lines of the history ---------------------------------------------------------------------


class _HistoryLine:
    """A line of the history. The dataclass fields of a subclass are the fields of the line.

    A field that has its default value is not in the line.
    """

    __slots__ = ()
    KIND: ClassVar[str]

    def fields(self) -> dict[str, Value]:
        """Return the line's fields."""
        return {"type": self.KIND} | self._more_fields()

    @classmethod
    def from_fields(cls, fields: dict[str, Value], commits: int) -> Self:
        """Return the contents of a line that follows *commits* commits in the file.

        Raises:
            InvalidInput: A field is missing, unknown, or has an unusable value.
        """
        names = [field.name for field in fields_of(cast("Any", cls))]
        check_field_names(fields, " ".join(["type", *names]))
        if "key" not in fields:
            raise InvalidInput('"key" is missing; for knowledge it is null')
        if fields["key"] is None and "set" not in fields:
            raise InvalidInput('"set" is missing; knowledge consists of sets')
        return cls(**cls._read(fields, commits))

    def _more_fields(self) -> dict[str, Value]:
        values = {field: getattr(self, field.name) for field in fields_of(cast("Any", self))}
        return {
            field.name: _to_json(field.name, value)
            for field, value in values.items()
            if field.name in _READERS and value != field.default
        }

    @classmethod
    def _read(cls, fields: dict[str, Value], commits: int) -> dict[str, Any]:
        return {
            field.name: _READERS[field.name](fields.get(field.name), field.name, commits)
            for field in fields_of(cast("Any", cls))
            if field.name in _READERS and (field.name in fields or field.default is MISSING)
        }


@dataclass(frozen=True, slots=True)
class ItemBegun(_HistoryLine):
    """A version of an item that a commit began.

    Attributes:
        first: The item's first version. None means this version.
        created, updated: The times of the item in microseconds. None means the time of the commit.
        links: The versions that this version was derived from.
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
        """Return the line's fields."""
        return self.line.fields() | self._more_fields()

    @classmethod
    def from_fields(cls, fields: dict[str, Value], commits: int) -> ItemBegun:
        """Return the version that a line begins."""
        check_field_names(fields, f"{ITEM_FIELDS} {' '.join(VERSION)}")
        plain = {name: value for name, value in fields.items() if name not in VERSION}
        line = ItemLine.from_fields(plain, Ids())
        if line.item.time is None:
            raise InvalidInput('"time" is missing; it is the time of the item')
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
    """A source that a commit added to a version of an earlier commit."""

    KIND = "link"
    key: str | None
    set: str
    row: RowName
    source: RowName


@dataclass(frozen=True, slots=True)
class CompactionDone(_HistoryLine):
    """A compaction in a commit. *erased* counts the retired versions that are no longer kept."""

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
    """A node that is no longer kept. The line keeps its position among the other nodes."""

    KIND = "gone"
    key: str
    path: Path


@dataclass(frozen=True, slots=True)
class HistoryStart(_HistoryLine):
    """The commit and time from which the past of a set is complete.

    If *set* is None, it is the past of exact memory. The commit 0 means that the past is complete
    from the first commit on. *time* is in microseconds.
    """

    KIND = "floor"
    key: str | None
    set: str | None = None
    commit: int = 0
    time: int = 0


@dataclass(frozen=True, slots=True)
class AccessedLine(_HistoryLine):
    """The last access of an item. *row* is the first version of the item."""

    KIND = "accessed"
    key: str | None
    set: str
    row: RowName
    time: int


SetPart: TypeAlias = ItemBegun | ItemEnded | SourceAdded | CompactionDone | CompactionUndone
"""A change of a commit to the items of a set."""

CommitPart: TypeAlias = SetPart | SetLine | NodeLine | NodeRemoved | NodeGone | HistoryStart
"""A change that a commit made, which is one line."""

_HISTORY_LINES = (
    *(ItemBegun, ItemEnded, SourceAdded, CompactionDone, CompactionUndone, NodeRemoved, NodeGone),
    HistoryStart,
)

_PARTS: Mapping[str, Callable[[dict[str, Value], int], CommitPart]] = {
    **{kind.KIND: kind.from_fields for kind in _HISTORY_LINES},
    "object": lambda fields, _commits: NodeLine.from_fields(fields),
    "value": lambda fields, _commits: NodeLine.from_fields(fields),
}
"""The reader of each line in a commit, by type."""


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A commit, and all its changes.

    Attributes:
        number: The number of the commit in the file. Numbers begin at 1 and have no gaps.
        time: The time of the commit, in microseconds.
        key: The key of the commit. None means knowledge.
        digest: The digest of the lines of the file up to the end of the commit.
    """

    number: int
    time: int
    key: str | None
    parts: Sequence[CommitPart] = ()
    digest: str = ""

    def fields(self) -> dict[str, Value]:
        """Return the line's fields, without the changes."""
        time = _to_json("time", self.time)
        return {"type": "commit", "commit": self.number, "time": time, "key": self.key}

    @classmethod
    def from_fields(cls, fields: dict[str, Value], last: CommitLine | None) -> CommitLine:
        """Return the commit that a line begins. *last* is the commit before it, if there is one."""
        check_field_names(fields, "type commit time key")
        before, since = (0, 0) if last is None else (last.number, last.time)
        if fields.get("commit") != before + 1:
            raise InvalidInput(
                f'"commit" is {fields.get("commit")!r} after {before}; a line is missing'
            )
        time = _microseconds(fields.get("time"), "time")
        if time < since:
            raise InvalidInput('"time" is earlier than in the commit before')
        return cls(before + 1, time, _key(fields.get("key")))


class HistoryReader:
    """Reads the lines of an export of history.

    Attributes:
        ended: True once the last line was read. If it is false after all lines, the file was cut
            off.
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

    def read(self, fields: dict[str, Value]) -> Iterator[CommitLine | AccessedLine]:
        """Yield the commit that a line completes, or the access in the line.

        Raises:
            InvalidInput: The line cannot be imported, or is not expected here.
        """
        kind = fields.get("type")
        if self.ended:
            raise InvalidInput("there is a line after the end of the history; remove it")
        if kind in ("set", "commit", "accessed", "end"):
            yield from self._completed()
        match kind:
            case "alveus":
                _check_header(fields)
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
        if kind not in _PARTS:
            known = ", ".join(["commit", "set", *_PARTS, "accessed", "end"])
            raise InvalidInput(f'"type" must be one of {known} after a commit, not {kind!r}')
        if not self._open:
            raise InvalidInput(
                f'"type" is {kind!r}, but no commit is before this line; a line is missing'
            )
        return _PARTS[kind](fields, self._commits)

    def _add_part(self, part: CommitPart, fields: dict[str, Value]) -> None:
        self._digest.update(wire.encode(fields).encode())
        self._parts.append(part)

    def _completed(self) -> Iterator[CommitLine]:
        """Yield the commit whose last line was read, if any."""
        if self._last is None or not self._open:
            return
        commit, parts = self._last, tuple(self._parts)
        self._open, self._parts = False, []
        for part in parts:
            if part.key not in (None, commit.key):
                raise InvalidInput(
                    f"commit {commit.number} of key {commit.key!r} contains data of {part.key!r}"
                )
        yield replace(commit, parts=parts, digest=self._digest.hexdigest())

    def _read_end(self, fields: dict[str, Value]) -> None:
        check_field_names(fields, "type commits")
        if fields.get("commits") != self._commits or self._parts:
            raise InvalidInput(
                f'"commits" is {fields.get("commits")!r}, but the file has {self._commits}'
            )
        self.ended = True
