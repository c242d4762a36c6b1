"""The formats that an import reads: how a file is recognised, and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias, get_args

from alveus.errors import AlveusError, InvalidInput
from alveus.store.records import request_json
from alveus.transfer import lines
from alveus.transfer.chats import ChatReader, ConversationReader, LocomoReader
from alveus.transfer.foreign_formats import (
    ItemReader,
    McpMemoryReader,
    Reader,
    ReadPart,
    Skipped,
    Target,
    UnusablePart,
)
from alveus.transfer.import_source import Invalid, JsonRecord, Source
from alveus.transfer.langgraph import LangGraphFile, LangGraphReader
from alveus.transfer.mem0 import OWN_KEY, Mem0Reader
from alveus.transfer.record_fields import Ids
from alveus.values import wire
from alveus.values.storable import Value

Layout: TypeAlias = Literal[
    "alveus", "items", "chat", "conversation", "locomo", "mem0", "langgraph", "mcp-memory"
]
"""The format of a file: see docs/import-export.md."""

PLAIN: Layout = "items"
"""The format of a record with a text that fits no other format."""

OWN_TARGETS: Mapping[Layout, Target] = {
    "items": Target(key_from="key"),
    "mem0": Target(key_from=OWN_KEY),
}
"""The default targets of formats whose records name their keys."""

Entry: TypeAlias = lines.ExportLine | lines.CommitLine | lines.AccessedLine
"""A part of a file that an import writes."""

LeftOut: TypeAlias = Skipped | Invalid
"""A part of a file that an import leaves out, on purpose or as unusable."""

LAYOUTS: tuple[Layout, ...] = get_args(Layout)

READERS: Mapping[Layout, type[Reader]] = {
    "items": ItemReader,
    "chat": ChatReader,
    "conversation": ConversationReader,
    "locomo": LocomoReader,
    "mem0": Mem0Reader,
    "langgraph": LangGraphReader,
    "mcp-memory": McpMemoryReader,
}

_LISTS = frozenset(name for reader in READERS.values() for name in reader.LISTS)

TWICE = "is there twice with the same contents"

REMEDY = "correct it and import again"

REMEDY_OF_LINE = "correct the line and import again"


def layout_of(source: Source) -> Layout:
    """Return the format of a file, from its first record.

    Raises:
        InvalidInput: The file is empty, or the record fits none of the formats, or several.
    """
    if isinstance(source, LangGraphFile):
        return "langgraph"
    first = next(source.records(_LISTS), None)
    if isinstance(first, Invalid):
        raise first.error
    if first is None:
        raise InvalidInput(f"{source.name} has no records to import; pass another file")
    if first.fields.get("type") in lines.KINDS and source.unit == "line":
        return "alveus"
    fitting: list[Layout] = [layout for layout in READERS if _fits(source, layout, first)]
    fitting = [layout for layout in fitting if layout != PLAIN] or fitting
    if len(fitting) == 1:
        return fitting[0]
    problem = f"the format is unknown; the fields are {sorted(first.fields)[:8]}"
    if fitting:
        problem = f"the fields fit {len(fitting)} formats"
    remedy = (
        f"pass one as --format ({', '.join(fitting or LAYOUTS)}); alveus import --help shows a "
        'record of each; a plain one is {"text": "Prefers window seats."}'
    )
    raise source.wrong(first.number, problem, remedy, line=first.line)


def _fits(source: Source, layout: Layout, first: JsonRecord) -> bool:
    reader = READERS[layout]
    if first.list_name and first.list_name not in reader.LISTS:
        return False  # this format would read the whole list as one record
    record = next(source.records(reader.LISTS), None)
    return isinstance(record, JsonRecord) and reader.recognises(record)


def entries(
    source: Source, layout: Layout, target: Target | None
) -> Iterator[tuple[int, Entry | LeftOut]]:
    """Yield the entries of a file, with the numbers of their lines or records.

    A record that cannot be used yields an `Invalid`, and none of its parts. The messages of a
    conversation are checked one by one.

    Args:
        target: Required, except for "alveus" and the formats of `OWN_TARGETS`, whose records may
            name their keys.

    Raises:
        InvalidInput: A required target is missing, or the rest of the file is unreadable. The
            message names the line and the remedy.
    """
    if layout == "alveus":
        yield from _history_entries(source) if has_history(source) else _export_entries(source)
        return
    target = target or OWN_TARGETS.get(layout)
    if target is None:
        raise InvalidInput(f"{source.name} has no keys; pass a Target with a key")
    reader = READERS[layout](target)
    if reader.PREPARES:
        reader.prepare(source.records(reader.LISTS))
    seen = _SeenEntries(source)
    for record in source.records(reader.LISTS):
        if isinstance(record, Invalid):
            yield 0, record
            continue
        try:
            parts = list(reader.read(record))  # empty if a later part cannot be used
        except AlveusError as error:
            parts = [UnusablePart(str(error))]
        for part in parts:
            yield record.number, _entry_of(source, record, part, seen)


def _entry_of(
    source: Source, record: JsonRecord, part: ReadPart, seen: _SeenEntries
) -> Entry | LeftOut:
    if isinstance(part, Skipped):
        return part
    if isinstance(part, UnusablePart):
        problem = part.problem
    else:
        digest = int.from_bytes(wire.digest(request_json(part.item), salt=b"twice")[:8])
        first, known = seen.first(record.number, part, digest)
        if first is None:
            return part
        if known == digest:
            return Skipped(TWICE)
        where = f"{'on' if source.unit == 'line' else 'in'} {source.at(first)}"
        problem = (
            f"{part.item.id!r} is also {where}, with other contents; remove one of them, or "
            "give it another id"
        )
    return Invalid(source.wrong(record.number, problem, REMEDY, line=record.line))


def _export_entries(source: Source) -> Iterator[tuple[int, Entry | LeftOut]]:
    """Yield the entries of an export.

    Raises:
        InvalidInput: The file has another version, or a set's definition cannot be used.
    """
    ids, seen = Ids(), _SeenEntries(source)
    for number, fields in source.objects():
        if isinstance(fields, Invalid):
            yield number, fields
            continue
        try:
            entry = lines.export_line(fields, ids)
            if entry is not None:
                seen.check(number, entry)
        except AlveusError as error:
            wrong = source.wrong(number, str(error), REMEDY_OF_LINE)
            if fields.get("type") in ("alveus", "set"):
                raise wrong from error
            yield number, Invalid(wrong)
            continue
        if entry is not None:
            yield number, entry


def _history_entries(source: Source) -> Iterator[tuple[int, Entry]]:
    """Yield the entries of a history.

    Each commit depends on the commit before it, so all lines must be valid.

    Raises:
        InvalidInput: A line cannot be used, or is missing.
    """
    reader, number, seen = lines.HistoryReader(), 0, _SeenEntries(source)
    for number, fields in source.objects():
        if isinstance(fields, Invalid):
            raise fields.error
        try:
            for entry in reader.read(fields):
                seen.check(number, entry)
                yield number, entry
        except AlveusError as error:
            raise source.wrong(number, str(error), REMEDY_OF_LINE) from error
    if not reader.ended:
        problem = "the file is incomplete: the last line of a history must have the type end"
        raise source.wrong(number, problem, "get the whole file and import again")


def has_history(source: Source) -> bool:
    """Return whether an alveus export contains history, from its first line."""
    try:
        first: Value = wire.parse(next(source.lines(), (0, "null"))[1])
    except (ValueError, RecursionError):
        return False  # the later read of the whole file raises the error
    return isinstance(first, dict) and first.get("history") is True


def identity(entry: Entry) -> tuple[object, ...]:
    """Return a tuple that identifies an entry in its file. Its last part is the name in errors."""
    match entry:
        case lines.ItemLine():
            return ("item", entry.key, entry.set, entry.item.id)
        case lines.SetLine():
            return ("set", entry.key, entry.set)
        case lines.LearntLine():
            return ("learnt", entry.key, entry.set, next(iter([*entry.ids, *entry.set_aside]), ""))
        case lines.NodeLine():
            return ("node", entry.key, entry.path)
        case lines.CommitLine():
            return ("commit", entry.number)
        case lines.AccessedLine():
            return ("accessed", entry.key, entry.set, entry.row)


class _SeenEntries:
    """The entries read so far. Only a few numbers are kept of each."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._entries: dict[int, tuple[int, int]] = {}

    def first(self, number: int, entry: Entry, digest: int = 0) -> tuple[int | None, int]:
        """Add an entry.

        Return the number and the digest of an earlier entry with the same identity. If there is
        none, return None and *digest*.
        """
        new = (number, digest)
        known = self._entries.setdefault(hash(identity(entry)), new)
        return (None, digest) if known is new else known

    def check(self, number: int, entry: Entry) -> None:
        """Add an entry. Raise `InvalidInput` if its identity occurred before."""
        first, _ = self.first(number, entry)
        if first is not None:
            raise InvalidInput(
                f"{identity(entry)[-1]!r} is also on {self._source.at(first)}; remove one of "
                "them, or give it another id"
            )
