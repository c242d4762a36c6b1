"""The formats that an import reads: how a file is recognised, and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias, get_args

from alveus.errors import AlveusError, InvalidInput
from alveus.store.records import request_json
from alveus.transfer.alveus_format import KINDS, AlveusLines, ExportLine, ItemLine
from alveus.transfer.chats import ChatReader
from alveus.transfer.conversations import ConversationReader, LocomoReader
from alveus.transfer.foreign_formats import Reader, Skipped, Target
from alveus.transfer.history_format import AccessedLine, CommitLine, HistoryLines
from alveus.transfer.import_source import JsonRecord, Source
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
    return record is not None and reader.recognises(record)


def entries(
    source: Source, layout: Layout, target: Target | None
) -> Iterator[tuple[int, Entry | Skipped]]:
    """Yield the entries of a file, with the numbers of their lines or records.

    Args:
        target: Needed for every format but "alveus", which names its own keys, and those of
            `OWN_TARGETS`, whose records may.

    Raises:
        InvalidInput: A record cannot be used; the message names it and what to do.
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
        try:
            for entry in reader.read(record):
                new = isinstance(entry, Skipped) or items.add(source, record.number, entry)
                yield record.number, entry if new else Skipped(TWICE)
        except AlveusError as error:
            raise source.wrong(record.number, str(error), REMEDY, line=record.line) from error


def _lines(source: Source) -> Iterator[tuple[int, Entry]]:
    if has_history(source):
        yield from _history_lines(source)
        return
    reader = AlveusLines()
    for number, fields, has_passed in source.passing_objects():
        try:
            entry = reader.line(fields, has_passed=has_passed)
        except AlveusError as error:
            raise source.wrong(number, str(error), REMEDY_OF_LINE) from error
        if entry is not None:
            yield number, entry


def _history_lines(source: Source) -> Iterator[tuple[int, Entry]]:
    reader, number = HistoryLines(), 0
    for number, fields in source.objects():
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

    def add(self, source: Source, number: int, line: ItemLine) -> bool:
        """Return whether the item is new.

        Raises:
            InvalidInput: Another item of the file has the same id.
        """
        digest = int.from_bytes(wire.digest(request_json(line.item), salt=b"twice")[:8])
        name = hash((line.key, line.set, line.item.id))
        new = (number, digest)
        first = self._items.setdefault(name, new)
        if first is not new and first[1] != digest:
            where = f"{'on' if source.unit == 'line' else 'in'} {source.at(first[0])}"
            raise InvalidInput(
                f"{line.item.id!r} was there before, {where}, with other contents; "
                "remove one, or give it another id"
            )
        return first is new
