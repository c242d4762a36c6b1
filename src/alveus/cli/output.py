"""The form of results: JSON for programs, lines for people. `alveus.cli.tables` draws tables."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar, cast

import click

from alveus.errors import InvalidInput
from alveus.server import json_forms
from alveus.server.json_forms import Json
from alveus.store.files import part_of, sync_folder
from alveus.values.storable import Value
from alveus.values.times import Zone
from alveus.values.wire import wired

if TYPE_CHECKING:
    from alveus.store.items import Item

C = TypeVar("C")
T = TypeVar("T")

PAGE = 500
"""Rows of one read."""

WIDEST = 200
"""Most characters of a value or a text on one line."""

BAR = 12
"""Columns of the bar of the best hit."""

_CONTROL = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160))}
_ESCAPED = {number: f"\\u{number:04x}" for number in range(127, 160)}
_KEPT = {ord("\n"): "\n", ord("\t"): "\t"}


def plain(text: str) -> str:
    """Return *text* with control characters escaped, so that it cannot control a terminal."""
    return text.translate(_CONTROL | _KEPT)


def one_line(text: str) -> str:
    """Return *text* on one line."""
    return plain(" ".join(text.split()))


# --- JSON -------------------------------------------------------------------------------------


attributes, fields_of = json_forms.attributes, json_forms.fields_of
"""Commands import these names from here."""


def document(value: Json, *, err: bool = False) -> None:
    """Print *value* as a line of JSON, in UTF-8 whatever encoding the terminal has."""
    click.echo(inline(value).encode("utf-8", "backslashreplace"), err=err)


def error(kind: str, message: str, facts: Mapping[str, object]) -> None:
    """Print an error on stderr as JSON: its class, its message, and its attributes."""
    known = {name: _fact(fact) for name, fact in facts.items() if not name.startswith("_")}
    document({"error": {"type": kind, "message": message, "facts": known}}, err=True)


def _fact(fact: object) -> Json:
    """Return an attribute of an error as JSON, or as text if it has no JSON form."""
    try:
        return wired(cast("Value", fact))
    except (TypeError, ValueError, InvalidInput):
        return str(fact)


def inline(value: Json) -> str:
    """Return *value* as JSON on one line, without characters that control a terminal."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).translate(_ESCAPED)


def shown(value: Value) -> str:
    """Return a stored value as JSON on one line."""
    return inline(wired(value))


# --- for people -------------------------------------------------------------------------------


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, header: bool) -> None:
    """Print rows, one per line, below the names of their columns.

    Rows are printed as they arrive. The first `PAGE` rows set the widths.
    """
    left = iter(rows)
    first = [[one_line(cell) for cell in row] for row in islice(left, PAGE)]
    widths = [max(map(len, cells)) for cells in zip(columns, *first, strict=True)]
    if header:
        click.echo(click.style(_aligned(columns, widths), bold=True))
    for row in chain(first, left):
        click.echo(_aligned([one_line(cell) for cell in row], widths))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells[:-1], widths, strict=False)]
    return "  ".join([*padded, cells[-1]]).rstrip()


def paged(
    read: Callable[[C | None, int], Sequence[T]], cursor: Callable[[T], C], limit: int | None = None
) -> Iterator[T]:
    """Yield at most *limit* rows, read page by page.

    Args:
        read: Takes a cursor and a number. Returns at most this number of rows after the row that
            has the cursor. If the cursor is None, the first rows are returned.
        cursor: Returns the cursor of a row.
    """
    after, left = None, limit
    while left is None or left > 0:
        size = PAGE if left is None else min(PAGE, left)
        page = read(after, size)
        yield from page
        if len(page) < size:
            return
        after, left = cursor(page[-1]), None if left is None else left - size


ITEM_COLUMNS = ("id", "time", "text")


def item_row(item: Item, zone: Zone) -> tuple[str, str, str]:
    """Return the table cells of an item: id, time in the reader's zone, speaker and text."""
    time = "" if item.time is None else f"{zone.local(item.time):%Y-%m-%d %H:%M}"
    who = item.speaker or item.role
    text = item.text or shown(item.value)
    return item.id or "", time, text if who is None else f"{who}: {text}"


def short(text: str) -> str:
    """Return the first `WIDEST` characters of a text, on one line."""
    text = one_line(text)
    return text if len(text) <= WIDEST else f"{text[:WIDEST]} …"


def bar(amount: float, most: float, *, columns: int = BAR) -> str:
    """Return a bar that is full if *amount* equals *most*, and shorter for a smaller share."""
    eighths = round(8 * columns * max(0.0, amount) / most) if most > 0 else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 item" or "3,000 items"."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def size(count: int) -> str:
    """Return a number of bytes in its largest unit."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":  # noqa: PLR2004 - of the metric system
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def span(seconds: float) -> str:
    """Return a span of time in its largest unit."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def facts(rows: Iterable[tuple[str, str]]) -> None:
    """Print pairs of a name and a text, in two columns."""
    listed = list(rows)
    width = max((len(name) for name, _ in listed), default=0)
    for name, fact in listed:
        click.echo(f"{click.style(name.ljust(width), dim=True)}  {plain(fact)}".rstrip())


def stdin() -> TextIO:
    """Return stdin. Bytes that are invalid in its encoding are read as lone surrogates."""
    opened = cast("TextIO", sys.stdin)
    if isinstance(opened, io.TextIOWrapper):
        opened.reconfigure(errors="surrogateescape")
    return cast("TextIO", opened)


# --- files ------------------------------------------------------------------------------------


@contextmanager
def sink(file: str, *, force: bool) -> Generator[Callable[[bytes], object]]:
    """Yield a function that writes to stdout, or to a file that appears whole or not at all.

    Raises:
        InvalidInput: The file exists and may not be replaced, or it is not a regular file
            (/dev/null).
        StoreBusy: Another process is writing it.
    """
    if file == "-":
        yield lambda line: click.echo(line, nl=False)
        return
    path = Path(file)
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{plain(file)} is not a file; pass a file, or - for stdout")
    if path.exists() and not force:
        raise InvalidInput(
            f"{plain(file)} already exists; pass another file, or add --force to replace it"
        )
    path = Path(os.path.realpath(path))  # writes the target of a link, and keeps the link
    try:
        with part_of(path) as part:
            with part.open("wb") as out:
                yield out.write
                out.flush()
                os.fsync(out.fileno())
            part.replace(path)
    except OSError as error:
        if error.filename is None:  # an error of a write names no file; the message must
            error.filename = file
        raise
    sync_folder(path.parent)
