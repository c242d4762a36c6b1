"""The lines of an export of fornix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import cast

from fornix.compaction.own import as_kept
from fornix.errors import InvalidInput
from fornix.items import Item
from fornix.sets import definition
from fornix.signals import Signals
from fornix.state import MemoryKind, MemoryRef
from fornix.store import Definition, Node
from fornix.transfer.entries import (
    Entry,
    Ids,
    ItemLine,
    NodeLine,
    SetLine,
    checked_item,
    object_of,
    texts_of,
    time_of,
)
from fornix.transfer.export import FORMAT
from fornix.values import Value, checked, checked_name, microseconds

KINDS = ("fornix", "set", "item", "object", "value")
"""What the lines of an export are of."""

OWNER = ("type", "key", "set")
"""What a set's line has before its definition."""


def numbered(name: str, raw: Iterable[bytes], *, past: int = 0) -> Iterator[tuple[int, str]]:
    """Yield the number and text of every line that is not blank.

    Args:
        past: How many lines were before.

    Raises:
        InvalidInput: A line is not UTF-8.
    """
    for number, line in enumerate(raw, start=past + 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            problem = f"byte {error.start + 1} of the line is not UTF-8"
            raise wrong(name, number, problem, "save the file as UTF-8") from None
        if text:
            yield number, text


def wrong(name: str, number: int, problem: str, remedy: str) -> InvalidInput:
    """Return the error about a line of a file."""
    return InvalidInput(f"{name}:{number}: {problem}; {remedy}")


def only(fields: dict[str, Value], known: str) -> None:
    """Refuse fields that a line of such a type has not."""
    unknown = sorted(set(fields).difference(known.split()))
    if unknown:
        raise InvalidInput(f"unknown fields {unknown}: a {fields['type']!r} line has {known}")


def owner_of(fields: dict[str, Value]) -> tuple[str | None, str]:
    """Return the key (None: knowledge) and the set that a line names."""
    if "key" not in fields:
        raise InvalidInput('"key" is missing; it is null for knowledge')
    key = fields["key"]
    name = checked_name(fields.get("set"), '"set"')
    return (None if key is None else checked_name(key, '"key"')), name


class FornixLines:
    """Reads the lines of an export."""

    def __init__(self) -> None:
        self._ids = Ids()

    def line(self, fields: dict[str, Value]) -> Iterator[Entry]:
        """Yield what a line says.

        Raises:
            InvalidInput: It cannot be used.
        """
        kind = fields.get("type")
        if kind == "fornix":
            self.header(fields)
        elif kind == "set":
            yield self.set(fields)
        elif kind == "item":
            yield self.item(fields)
        elif kind in ("object", "value"):
            yield self.node(fields)
        else:
            raise InvalidInput(f'"type" is {kind!r}; it is fornix, set, item, object or value')

    def end(self) -> Iterator[Entry]:
        """Yield what the end of the file says: nothing."""
        yield from ()

    def header(self, fields: dict[str, Value]) -> None:
        """Refuse the first line of a format that this fornix does not read."""
        if fields.get("format") != FORMAT:
            raise InvalidInput(
                f"the format is {fields.get('format')!r}, this fornix reads {FORMAT}; "
                "upgrade fornix, or export it again with this one"
            )

    def set(self, fields: dict[str, Value]) -> SetLine:
        """Return the set that a line defines."""
        key, name = owner_of(fields)
        told = {what: found for what, found in fields.items() if what not in OWNER}
        if told.get("compaction") is not None:
            told["compaction"] = as_kept(told["compaction"])
        made = Definition.from_json({what: one for what, one in told.items() if one is not None})
        if made.item_type is not None:
            checked_name(made.item_type, '"item_type"')
        signals = None if made.signals is None else Signals.from_json(made.signals).to_json()
        made = definition({}, replace(made, signals=signals))
        if key is None and made != Definition(item_type=made.item_type, admission=made.admission):
            raise InvalidInput("a set of knowledge has no capacity, compaction or signals")
        return SetLine(key, name, made)

    def item(self, fields: dict[str, Value]) -> ItemLine:
        """Return the item that a line is."""
        only(
            fields,
            "type key set id time speaker role session value text metadata importance sources "
            "compacted until expire_at valid_from valid_to",
        )
        key, name = owner_of(fields)
        if "value" not in fields:
            raise InvalidInput('"value" is missing')
        item = Item(
            value=fields["value"],
            id=cast("str", fields["id"]) if "id" in fields else self._ids.make(fields),
            text=cast("str | None", fields.get("text")),
            metadata=object_of(fields, "metadata"),
            importance=cast("float", fields.get("importance", 0.0)),
            speaker=cast("str | None", fields.get("speaker")),
            role=cast("str | None", fields.get("role")),
            session=cast("str | None", fields.get("session")),
            time=time_of(fields.get("time")),
            sources=texts_of(fields, "sources"),
            compacted=fields.get("compacted") is True,
            until=time_of(fields.get("until")),
            expire_at=time_of(fields.get("expire_at")),
            valid_from=time_of(fields.get("valid_from")),
            valid_to=time_of(fields.get("valid_to")),
        )
        return ItemLine(key, name, checked_item(item))

    def node(self, fields: dict[str, Value]) -> NodeLine:
        """Return the node of exact memory that a line is."""
        only(fields, "type key path value expires")
        key, path = checked_name(fields.get("key"), '"key"'), texts_of(fields, "path")
        MemoryRef(MemoryKind.SHORT_TERM, path)
        if not path:
            raise InvalidInput('"path" is empty; name at least one field')
        is_object = fields["type"] == "object"
        if is_object == ("value" in fields):
            raise InvalidInput('a "value" line has a "value", an "object" line has none')
        expires = time_of(fields.get("expires"))
        value = None if is_object else checked(fields["value"], nan=True)
        return NodeLine(key, path, Node(is_object, value, expires and microseconds(expires)))
