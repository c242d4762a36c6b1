"""The formats that an import reads: how a file is recognised, and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias, cast, get_args

from alveus.errors import AlveusError, InvalidInput
from alveus.store.records import request_json
from alveus.transfer.alveus_format import KINDS, AlveusLines, ExportLine, ItemLine
from alveus.transfer.chats import ChatReader
from alveus.transfer.conversations import ConversationReader, LocomoReader
from alveus.transfer.foreign_formats import Reader, ReadPart, Skipped, Target, UnusablePart
from alveus.transfer.history_format import AccessedLine, CommitLine, HistoryLines
from alveus.transfer.import_source import Invalid, JsonRecord, Source
from alveus.transfer.langgraph import LangGraphFile, LangGraphReader
from alveus.transfer.mcp_memory import McpMemoryReader
from alveus.transfer.mem0 import OWN_KEY, Mem0Reader
from alveus.transfer.plain_items import ItemReader
from alveus.values import wire
from alveus.values.storable import Value

Layout: TypeAlias = Literal[
    "alveus", "items", "chat", "conversation", "locomo", "mem0", "langgraph", "mcp-memory"
]
"""What a file is: see docs/import-export.md."""

PLAIN: Layout = "items"
"""The format of what has a text, and fits no other."""

OWN_TARGETS: Mapping[Layout, Target] = {
    "items": Target(key_from="key"),
    "mem0": Target(key_from=OWN_KEY),
}
"""The targets of formats whose records name their keys, for imports without a key."""

Entry: TypeAlias = ExportLine | CommitLine | AccessedLine
"""What an import writes."""

LeftOut: TypeAlias = Skipped | Invalid
"""What an import does not write: on purpose, or because it cannot be used."""

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

TWICE = "is there twice, exactly alike"

REMEDY = "correct it and import again"

REMEDY_OF_LINE = "correct the line and import again"


def layout_of(source: Source) -> Layout:
    """Return the format of a file, by its first record.

    Raises:
        InvalidInput: It fits none of the formats, or several.
    """
    if isinstance(source, LangGraphFile):
        return "langgraph"
    first = next(source.records(_LISTS), None)
    if isinstance(first, Invalid):
        raise first.error
    if first is None:
        raise InvalidInput(f"{source.name}: there is nothing to import; name another file")
    if first.fields.get("type") in KINDS and source.unit == "line":
        return "alveus"
    fitting: list[Layout] = [layout for layout in READERS if _fits(source, layout, first)]
    fitting = [layout for layout in fitting if layout != PLAIN] or fitting
    if len(fitting) == 1:
        return fitting[0]
    problem = f"no format is recognised by the fields {sorted(first.fields)[:8]}"
    if fitting:
        problem = f"this fits {len(fitting)} formats"
    remedy = (
        f"name a --format ({', '.join(fitting or LAYOUTS)}); alveus import --help shows a record "
        'of each, and a plain one is {"text": "Prefers window seats."}'
    )
    raise source.wrong(first.number, problem, remedy, line=first.line)


def _fits(source: Source, layout: Layout, first: JsonRecord) -> bool:
    reader = READERS[layout]
    if first.list_name and first.list_name not in reader.LISTS:
        return False  # this format would read the list, which may be long, as one record
    record = next(source.records(reader.LISTS), None)
    return isinstance(record, JsonRecord) and reader.recognises(record)


def entries(
    source: Source, layout: Layout, target: Target | None
) -> Iterator[tuple[int, Entry | LeftOut]]:
    """Yield the entries of a file, with the numbers of their lines or records.

    A record that cannot be used is invalid; none of its parts is an entry, but for the messages of
    a conversation, each of which is an item.

    Args:
        target: Needed for every format but "alveus", which names its own keys, and those of
            `OWN_TARGETS`, whose records may.

    Raises:
        InvalidInput: The file cannot be read on; the message names where and what to do.
    """
    if layout == "alveus":
        yield from _lines(source)
        return
    target = target or OWN_TARGETS.get(layout)
    if target is None:
        raise InvalidInput(f"{source.name} names no keys of its own; pass a Target with a key")
    reader = READERS[layout](target)
    if reader.PREPARES:
        reader.prepare(source.records(reader.LISTS))
    items = _ImportedItems()
    for record in source.records(reader.LISTS):
        if isinstance(record, Invalid):
            yield 0, record
            continue
        try:
            parts = list(reader.read(record))  # none, if a later one cannot be used
        except AlveusError as error:
            parts = [UnusablePart(str(error))]
        for part in parts:
            yield record.number, _entry_of(source, record, part, items)


def _entry_of(
    source: Source, record: JsonRecord, part: ReadPart, items: _ImportedItems
) -> Entry | LeftOut:
    problem = part.problem if isinstance(part, UnusablePart) else ""
    if isinstance(part, ItemLine):
        problem = items.conflict(source, record.number, part)
        if problem is None:
            return Skipped(TWICE)
    if problem:
        return Invalid(source.wrong(record.number, problem, REMEDY, line=record.line))
    return cast("ItemLine | Skipped", part)


def _lines(source: Source) -> Iterator[tuple[int, Entry | LeftOut]]:
    """Yield the entries of an export.

    Raises:
        InvalidInput: The first line or the definition of a set cannot be used: the file is of
            another version, or items would go into a set of another definition.
    """
    if has_history(source):
        yield from _history_lines(source)
        return
    reader = AlveusLines()
    for number, fields, has_passed in source.passing_objects():
        if isinstance(fields, Invalid):
            yield number, fields
            continue
        try:
            entry = reader.line(fields, has_passed=has_passed)
        except AlveusError as error:
            wrong = source.wrong(number, str(error), REMEDY_OF_LINE)
            if fields.get("type") in ("alveus", "set"):
                raise wrong from error
            yield number, Invalid(wrong)
            continue
        if entry is not None and not source.leaves_out(number):
            yield number, entry
        if not has_passed:
            source.pass_line()


def _history_lines(source: Source) -> Iterator[tuple[int, Entry]]:
    """Yield the entries of a history; each commit follows the one before it, so all must be valid.

    Raises:
        InvalidInput: A line cannot be used, or is missing.
    """
    reader, number = HistoryLines(), 0
    for number, fields in source.objects():
        if isinstance(fields, Invalid):
            raise fields.error
        try:
            yield from ((number, entry) for entry in reader.line(fields))
        except AlveusError as error:
            raise source.wrong(number, str(error), REMEDY_OF_LINE) from error
    if not reader.ended:
        problem = "the file breaks off: a history ends with a line of type end"
        raise source.wrong(number, problem, "get the whole file and import again")


def has_history(source: Source) -> bool:
    """Return whether an export of alveus contains history, by its first line."""
    try:
        first: Value = wire.parse(next(source.lines(), (0, "null"))[1])
    except (ValueError, RecursionError):
        return False  # reading the whole file raises the error
    return isinstance(first, dict) and first.get("history") is True


class _ImportedItems:
    """The items of a file so far, as a few numbers for each."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[int, int]] = {}

    def conflict(self, source: Source, number: int, line: ItemLine) -> str | None:
        """Add an item; return why it cannot be used, "" if it can, None if it was there before."""
        digest = int.from_bytes(wire.digest(request_json(line.item), salt=b"twice")[:8])
        name = hash((line.key, line.set, line.item.id))
        new = (number, digest)
        first = self._items.setdefault(name, new)
        if first is new:
            return ""
        if first[1] == digest:
            return None
        where = f"{'on' if source.unit == 'line' else 'in'} {source.at(first[0])}"
        return (
            f"{line.item.id!r} was there before, {where}, with other contents; "
            "remove one, or give it another id"
        )
