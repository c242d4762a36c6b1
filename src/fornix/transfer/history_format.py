"""The lines of an export of history: commits, each with all that it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import cast

from fornix.errors import InvalidInput
from fornix.store import Node
from fornix.store.checks import GONE, ROW_BITS
from fornix.transfer.fornix_format import FornixLines, only, owner_of
from fornix.transfer.import_entries import (
    AccessedLine,
    Begun,
    CommitLine,
    Ended,
    Entry,
    HistoryStart,
    ImportedCompaction,
    ImportedSource,
    ImportedUndo,
    Name,
    NodeLine,
    Part,
    Removed,
    texts_of,
    time_of,
)
from fornix.values import wire
from fornix.values.storable import Value, checked_name, counted, microseconds

VERSION = ("place", "version", "first", "created", "updated", "links")
"""What a version has beside what an item has."""


class HistoryLines:
    """Reads the lines of an export of history."""

    def __init__(self) -> None:
        self._plain = FornixLines()
        self._digest = blake2b(digest_size=16)
        self._commit: CommitLine | None = None
        self._number = self._time = 0
        self._parts: list[Part] = []
        self._ended = False
        self._kinds: Mapping[str, Callable[[dict[str, Value]], Part]] = {
            "item": self._item,
            "ended": self._ends,
            "link": self._link,
            "compaction": self._compaction,
            "undone": self._undone,
            "removed": self._removed,
            "object": self._plain.node,
            "value": self._plain.node,
            "gone": self._gone,
            "floor": self._floor,
        }

    def line(self, fields: dict[str, Value]) -> Iterator[Entry]:
        """Yield what is complete by a line: the commit before it, or when an item was read.

        Raises:
            InvalidInput: It cannot be used, or not here.
        """
        kind = fields.get("type")
        if self._ended:
            raise InvalidInput("a line follows the end of the history")
        if kind == "fornix":
            self._plain.header(fields)
        elif kind == "set":
            yield from self._whole()
            self._part(self._plain.set(fields), fields)
        elif kind == "commit":
            yield from self._whole()
            self._begin(fields)
        elif kind == "accessed":
            yield from self._whole()
            yield self._accessed(fields)
        elif kind == "end":
            yield from self._whole()
            self._end(fields)
        elif str(kind) in self._kinds and self._commit is not None:
            self._part(self._kinds[str(kind)](fields), fields)
        else:
            raise self._out_of_place(kind)

    def end(self) -> Iterator[Entry]:
        """Refuse a file that was cut off."""
        if not self._ended:
            raise InvalidInput("the file breaks off: a history ends with a line of type end")
        yield from ()

    def _out_of_place(self, kind: Value) -> InvalidInput:
        if str(kind) in self._kinds:
            return InvalidInput(
                f'a line is missing: "type" is {kind!r}, but no commit is before it'
            )
        known = ", ".join(["commit", "set", *self._kinds, "accessed", "end"])
        return InvalidInput(f'"type" is {kind!r}; after a commit it is one of {known}')

    # --- commits

    def _part(self, part: Part, fields: dict[str, Value]) -> None:
        self._digest.update(wire.encode(fields).encode())
        self._parts.append(part)

    def _begin(self, fields: dict[str, Value]) -> None:
        only(fields, "type commit time key")
        if fields.get("commit") != self._number + 1:
            raise InvalidInput(
                f'"commit" is {fields.get("commit")!r}, after {self._number}; a line is missing'
            )
        time, key = _time(fields, "time"), fields.get("key")
        if time is None or time < self._time:
            raise InvalidInput('"time" is missing, or before the one of the commit before')
        if key is not None:
            checked_name(key, '"key"')
        self._number, self._time = self._number + 1, time
        self._digest.update(wire.encode(fields).encode())
        self._commit = CommitLine(self._number, time, cast("str | None", key), (), "")

    def _whole(self) -> Iterator[CommitLine]:
        """Yield the commit whose last line was read."""
        found = self._commit
        if found is None:
            return
        self._commit, parts = None, tuple(self._parts)
        self._parts = []
        for part in parts:
            owner = part.line.key if isinstance(part, Begun) else part.key
            if owner not in (None, found.key):
                raise InvalidInput(f"commit {found.number} of key {found.key!r} reaches {owner!r}")
        yield CommitLine(found.number, found.time, found.key, parts, self._digest.hexdigest())

    def _end(self, fields: dict[str, Value]) -> None:
        only(fields, "type commits")
        if fields.get("commits") != self._number or self._parts:
            raise InvalidInput(
                f'"commits" is {fields.get("commits")!r}, but {self._number} were there'
            )
        self._ended = True

    # --- what they did

    def _gone(self, fields: dict[str, Value]) -> NodeLine:
        only(fields, "type key path")
        line = self._plain.node({**fields, "type": "value", "value": None})
        return NodeLine(line.key, line.path, Node(is_object=False, expires=GONE))

    def _removed(self, fields: dict[str, Value]) -> Removed:
        only(fields, "type key path")
        key = checked_name(fields.get("key"), '"key"')
        return Removed(key, texts_of(fields, "path"))

    def _floor(self, fields: dict[str, Value]) -> HistoryStart:
        only(fields, "type key set commit time")
        key, name = owner_of({"set": "-", **fields})
        if key is None and "set" not in fields:
            raise InvalidInput('"set" is missing; knowledge has sets alone')
        commit = counted(fields.get("commit", 0), '"commit"', least=0, most=1 << 40)
        set_name = name if "set" in fields else None
        return HistoryStart(key, set_name, commit, _time(fields, "time") or 0)

    def _item(self, fields: dict[str, Value]) -> Begun:
        line = self._plain.item({n: v for n, v in fields.items() if n not in VERSION})
        if line.item.time is None:
            raise InvalidInput('"time" is missing; a version has the time of its item')
        return Begun(
            line,
            _place(fields.get("place")),
            counted(fields.get("version", 1), '"version"'),
            self._name(fields["first"], "first") if "first" in fields else None,
            _time(fields, "created"),
            _time(fields, "updated"),
            self._names(fields, "links"),
        )

    def _ends(self, fields: dict[str, Value]) -> Ended:
        only(fields, "type key set row")
        return Ended(*owner_of(fields), self._name(fields.get("row"), "row"))

    def _link(self, fields: dict[str, Value]) -> ImportedSource:
        only(fields, "type key set row source")
        row, source = (self._name(fields.get(name), name) for name in ("row", "source"))
        return ImportedSource(*owner_of(fields), row, source)

    def _compaction(self, fields: dict[str, Value]) -> ImportedCompaction:
        only(fields, "type key set place how retired added erased purged")
        how = fields.get("how")
        if not isinstance(how, str):
            raise InvalidInput(f'"how" must be a text, not {how!r}')
        return ImportedCompaction(
            *owner_of(fields),
            _place(fields.get("place")),
            how,
            self._names(fields, "retired"),
            self._names(fields, "added"),
            counted(fields.get("erased", 0), '"erased"', least=0, most=1 << ROW_BITS),
            purged=fields.get("purged") is True,
        )

    def _undone(self, fields: dict[str, Value]) -> ImportedUndo:
        only(fields, "type key set compaction")
        return ImportedUndo(*owner_of(fields), self._name(fields.get("compaction"), "compaction"))

    def _accessed(self, fields: dict[str, Value]) -> AccessedLine:
        only(fields, "type key set row time")
        time = _time(fields, "time")
        if time is None:
            raise InvalidInput('"time" is missing')
        return AccessedLine(*owner_of(fields), self._name(fields.get("row"), "row"), time)

    def _name(self, found: Value, what: str) -> Name:
        if not isinstance(found, list) or len(found) != 2:  # noqa: PLR2004 - commit, place
            raise InvalidInput(f'"{what}" must be a commit and a place in it, not {found!r}')
        commit = counted(found[0], f'the commit of "{what}"', most=max(1, self._number))
        return Name(commit, _place(found[1]))

    def _names(self, fields: dict[str, Value], what: str) -> tuple[Name, ...]:
        found = fields.get(what, [])
        if not isinstance(found, list):
            raise InvalidInput(f'"{what}" must be a list, not {found!r}')
        return tuple(self._name(one, what) for one in found)


def _place(found: Value) -> int:
    return counted(found, "a place in a commit", least=0, most=(1 << ROW_BITS) - 1)


def _time(fields: dict[str, Value], name: str) -> int | None:
    found = time_of(fields.get(name))
    return None if found is None else microseconds(found)
