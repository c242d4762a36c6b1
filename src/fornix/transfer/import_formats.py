"""The formats that an import reads: which of them a file is, and what it says in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias, get_args

from fornix.errors import FornixError, InvalidInput
from fornix.store.records import as_passed
from fornix.transfer.chats import ChatReader
from fornix.transfer.conversations import ConversationReader, LocomoReader
from fornix.transfer.foreign_formats import Reader, Skipped, Target
from fornix.transfer.fornix_format import KINDS, ExportLine, FornixLines, ItemLine
from fornix.transfer.history_format import AccessedLine, CommitLine, HistoryLines
from fornix.transfer.import_source import JsonRecord, Source
from fornix.transfer.langgraph import LangGraphFile, LangGraphReader
from fornix.transfer.mcp_memory import McpMemoryReader
from fornix.transfer.mem0 import Mem0Reader
from fornix.values import wire
from fornix.values.storable import Value

Layout: TypeAlias = Literal[
    "fornix", "chat", "conversation", "locomo", "mem0", "langgraph", "mcp-memory"
]
"""What a file is: see docs/import-export.md."""

Entry: TypeAlias = ExportLine | CommitLine | AccessedLine
"""What an import writes."""

LAYOUTS: tuple[Layout, ...] = get_args(Layout)

READERS: Mapping[Layout, type[Reader]] = {
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


def layout_of(source: Source) -> Layout:
    """Return what a file is, as its first record tells.

    Raises:
        InvalidInput: It is none of the formats, or could be several.
    """
    if isinstance(source, LangGraphFile):
        return "langgraph"
    first = next(source.records(_LISTS), None)
    if first is None:
        raise InvalidInput(f"{source.name}: there is nothing to import; name another file")
    if first.fields.get("type") in KINDS and source.unit == "line":
        return "fornix"
    fitting: list[Layout] = [layout for layout in READERS if _fits(source, layout, first)]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(fitting or LAYOUTS)
    problem = f"cannot tell what this is from its fields {sorted(first.fields)[:8]}"
    if fitting:
        problem = f"this could be of {len(fitting)} formats"
    remedy = f"name a --format ({known}), see docs/import-export.md"
    raise source.wrong(first.number, problem, remedy, line=first.line)


def _fits(source: Source, layout: Layout, first: JsonRecord) -> bool:
    reader = READERS[layout]
    if first.list_name and first.list_name not in reader.LISTS:
        return False  # its list is nothing to this format, and may be too long to be one record
    record = next(source.records(reader.LISTS), None)
    return record is not None and reader.knows(record)


def entries(
    source: Source, layout: Layout, target: Target | None
) -> Iterator[tuple[int, Entry | Skipped]]:
    """Yield what a file says, with the numbers of its lines or records.

    Args:
        target: Needed for every format but "fornix", which names its own keys.

    Raises:
        InvalidInput: A record cannot be used; the message names it and what to do.
    """
    if layout == "fornix":
        yield from _lines(source)
        return
    if target is None:
        raise InvalidInput(f"{source.name} names no keys of its own; say where it goes (a Target)")
    reader = READERS[layout](target)
    if reader.PREPARES:
        reader.prepare(source.records(reader.LISTS))
    seen = _Seen()
    for record in source.records(reader.LISTS):
        try:
            for entry in reader.read(record):
                new = isinstance(entry, Skipped) or seen.new(source, record.number, entry)
                yield record.number, entry if new else Skipped(TWICE)
        except FornixError as error:
            raise source.wrong(record.number, str(error), REMEDY, line=record.line) from error


def _lines(source: Source) -> Iterator[tuple[int, Entry]]:
    reader = HistoryLines() if has_history(source) else FornixLines()
    number, remedy = 0, "correct the line and import again"
    for number, fields in source.objects():
        try:
            yield from ((number, entry) for entry in reader.line(fields))
        except FornixError as error:
            raise source.wrong(number, str(error), remedy) from error
    if isinstance(reader, HistoryLines) and not reader.ended:
        problem = "the file breaks off: a history ends with a line of type end"
        raise source.wrong(number, problem, "get the whole file and import again")


def has_history(source: Source) -> bool:
    """Return whether an export of fornix has history: its first line says so."""
    try:
        first: Value = wire.parse(next(source.lines(), (0, "null"))[1])
    except (ValueError, RecursionError):
        return False  # reading it says what is wrong
    return isinstance(first, dict) and first.get("history") is True


class _Seen:
    """Which items were there before; a few numbers for each."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[int, int]] = {}

    def new(self, source: Source, number: int, line: ItemLine) -> bool:
        """Return whether an item was not there before.

        Raises:
            InvalidInput: Another one of its id was.
        """
        named = hash((line.key, line.set, line.item.id))
        told = int.from_bytes(wire.digest(as_passed(line.item), salt=b"twice")[:8])
        made = (number, told)
        old = self._items.setdefault(named, made)
        if old is made:
            return True
        if old[1] != told:
            place = f"{'on' if source.unit == 'line' else 'in'} {source.at(old[0])}"
            raise InvalidInput(
                f"{line.item.id!r} was there before, {place}, with other contents; "
                "remove one, or give it another id"
            )
        return False
