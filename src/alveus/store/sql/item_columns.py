"""Items of a bulk add by columns: what is the same in all is looked at, and bound, once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace

from alveus.store import ItemRecord
from alveus.store.packed_values import packed
from alveus.store.sql.connection import ColumnRows
from alveus.values.lazy_dataclass import columns_of, dataclass

_OWN = dict.fromkeys(
    ("id", "text", "metadata", "terms", "tokens", "temporal", "vectors", "minute"), ...
)
"""Fields in which each record may have a value of its own."""

_MAYBE = (
    *("value", "speaker", "role", "session", "time", "sources"),
    *("until", "expires", "valid_from", "valid_to"),
)
"""Fields that each has if the first one has."""

_NAMES = tuple(one.name for one in fields(ItemRecord))

FEW = 16
"""Items that are quicker bound row by row."""


@dataclass(slots=True, eq=False)
class ItemColumns:
    """First versions of items of a set, which one commit begins.

    Attributes:
        number: The set.
        row: Of the first; the others follow it.
        count: How many there are.
        tokens: Of all.
        bytes: Of the values, texts and metadata of all.
        times: Of those that have one; None: none has.
        expires: None: none expires.
        items: Rows of the table of items.
        features: Rows of what search reads.
    """

    number: int
    row: int
    count: int
    tokens: int
    bytes: int
    times: list[int | None] | None
    expires: list[int | None] | None
    items: ColumnRows
    features: ColumnRows


def item_columns(
    number: int, commit: int, records: list[ItemRecord], row: int, now: int
) -> ItemColumns | None:
    """Return the columns of first versions; None: they differ in what the first one leaves out.

    Or they are few, or there is no compiled code that looks at all of them at once.
    """
    if len(records) < FEW:
        return None
    r = records[0]
    varying = _OWN | {name: ... for name in _MAYBE if getattr(r, name) not in (None, ())}
    if r.importance:
        varying["importance"] = ...
    columns = columns_of(records, replace(r, **varying))
    if columns is None:
        return None
    of = dict(zip((name for name in _NAMES if name in varying), columns, strict=True))
    count = len(records)
    rows = list(range(row, row + count))
    ids, texts, metadata, tokens = of["id"], of["text"], of["metadata"], of["tokens"]
    values = of.get("value")
    if values is not None:
        values = [packed(value) for value in values]
    sources = [json.dumps(each) if each else None for each in of["sources"]] if r.sources else None
    importance = of.get("importance", r.importance)
    time, speaker, role, session = (of.get(n) for n in ("time", "speaker", "role", "session"))
    expires = of.get("expires")
    # fmt: off
    items = (
        rows, number, ids, rows, 1, commit, time, now, now, values, texts, metadata, importance,
        speaker, role, session, sources, int(r.compacted), tokens, of.get("until"), expires,
        of.get("valid_from"), of.get("valid_to"),
    )
    features = (
        number, 0, rows, rows, ids, commit, time, importance, speaker, role, session, metadata,
        of["terms"], tokens, of["temporal"], of["vectors"], now,
    )
    # fmt: on
    return ItemColumns(
        number=number,
        row=row,
        count=count,
        tokens=sum(tokens),
        bytes=_size(texts) + _size(metadata) + _size(values or ()),
        times=time,
        expires=expires,
        items=ColumnRows(items, count=count),
        features=ColumnRows(features, count=count),
    )


def _size(parts: Sequence[str | bytes | None]) -> int:
    """Return the bytes of texts, or of packed values."""
    texts = [part for part in parts if isinstance(part, str)]
    joined = "".join(texts)
    size = len(joined) if joined.isascii() else len(joined.encode())
    if len(texts) < len(parts):
        size += sum([len(part) for part in parts if isinstance(part, bytes)])
    return size
