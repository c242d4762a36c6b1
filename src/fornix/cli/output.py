"""How results look: JSON for programs, lines and tables for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias, cast

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fornix.errors import InvalidInput
from fornix.store.fsync import sync_folder
from fornix.store.items import Hits, Item
from fornix.transfer import stamp
from fornix.values import wire
from fornix.values.storable import Value

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

WIDTH = 120
"""Columns of a table where there is no terminal to ask."""

BAR = 12
"""Columns of the bar of the best hit."""

_CONTROL = {number: f"\\x{number:02x}" for number in (*range(32), *range(127, 160))}
_KEPT = {ord("\n"): "\n", ord("\t"): "\t"}


def plain(text: str) -> str:
    """Return *text* such that printing it cannot steer a terminal."""
    return text.translate(_CONTROL | _KEPT)


def one_line(text: str) -> str:
    """Return *text* on one line."""
    return plain(" ".join(text.split()))


# --- JSON -------------------------------------------------------------------------------------


def document(value: Json, *, err: bool = False) -> None:
    """Print *value* as a line of JSON, in UTF-8 whatever the terminal says."""
    click.echo(inline(value).encode("utf-8", "backslashreplace"), err=err)


def inline(value: Json) -> str:
    """Return *value* as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def wired(value: Value) -> Json:
    """Return a storable value as JSON: bytes, NaN and large numbers as one-field objects."""
    return cast("Json", json.loads(wire.encode(value)))


def item_fields(item: Item) -> dict[str, Json]:
    """Return every field of an item, as JSON."""
    return {
        "id": item.id,
        "set": item.set_name,
        "value": wired(item.value),
        "text": item.text,
        "metadata": wired(dict(item.metadata)),
        "importance": item.importance,
        "speaker": item.speaker,
        "role": item.role,
        "session": item.session,
        "time": _stamp(item.time),
        "created": _stamp(item.created),
        "updated": _stamp(item.updated),
        "accessed": _stamp(item.accessed),
        "sources": list(item.sources),
        "compacted": item.compacted,
        "until": _stamp(item.until),
        "expire_at": _stamp(item.expire_at),
        "valid_from": _stamp(item.valid_from),
        "valid_to": _stamp(item.valid_to),
        "version": item.version,
        "retired": _stamp(item.retired),
    }


def _stamp(time: datetime | None) -> str | None:
    return None if time is None else stamp(time)


def hits_fields(hits: Hits) -> dict[str, Json]:
    """Return the result of a search, as JSON."""
    return {
        "partial": hits.partial,
        "hits": [
            {"score": hit.score, "parts": dict(hit.parts), "item": item_fields(hit.item)}
            for hit in hits
        ],
    }


# --- for people -------------------------------------------------------------------------------


def console(*, err: bool = False) -> Console:
    """Return a console on stdout or stderr, as wide as the terminal, or as `WIDTH`."""
    stream = sys.stderr if err else sys.stdout
    return Console(
        file=stream,
        width=None if stream.isatty() else WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


def items(found: Iterable[Item]) -> None:
    """Print items, a line each: when, who, what, and the id."""
    for item in found:
        click.echo(f"{_when(item)}  {_said(item)}  {_ident(item)}")


def _when(item: Item) -> str:
    return "" if item.time is None else f"{item.time.astimezone(UTC):%Y-%m-%d %H:%M}"


def _ident(item: Item) -> str:
    return click.style(f"[{plain(item.id or '')}]", dim=True)


def _said(item: Item) -> str:
    who = item.speaker or item.role
    text = one_line(item.text or inline(wired(item.value)))
    return text if who is None else f"{click.style(one_line(who), bold=True)}: {text}"


def hits(found: Hits) -> None:
    """Print hits, a line each, best first."""
    for hit in found:
        item = hit.item
        click.echo(f"{hit.score:5.2f}  {_when(item)}  {_said(item)}  {_ident(item)}")


def explained(found: Hits, *, marked: Container[str | None] = ()) -> Table:
    """Return a table of hits with what each score is made of; items with *marked* ids stand out."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [name for name in (found[0].parts if found else ()) if _counts(found, name)]
    table.add_column("score", justify="right")
    table.add_column("")
    for name in shown:
        table.add_column(name, justify="right")
    table.add_column("text", ratio=1, overflow="fold")
    best = max((hit.score for hit in found), default=1.0)
    for hit in found:
        parts = [f"{hit.parts.get(name, 0.0):.2f}".replace("0.00", "·") for name in shown]
        text = one_line(hit.item.text or "")
        mark = "✓ " if hit.item.id in marked else ""
        who = f"{one_line(hit.item.speaker)}: " if hit.item.speaker else ""
        table.add_row(
            f"{hit.score:.2f}",
            Text(bar(hit.score, best), style="cyan"),
            *parts,
            Text.assemble((mark, "bold green"), (who, "bold"), text),
        )
    return table


def _counts(found: Hits, name: str) -> bool:
    return any(abs(hit.parts.get(name, 0.0)) >= 0.005 for hit in found)  # noqa: PLR2004 - shown as 0.00


def bar(amount: float, most: float, *, columns: int = BAR) -> str:
    """Return a bar as long as *amount* is of *most*."""
    eighths = round(8 * columns * max(0.0, amount) / most) if most > 0 else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def size(count: int) -> str:
    """Return a number of bytes as people write it."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":  # noqa: PLR2004 - of the metric system
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def span(seconds: float) -> str:
    """Return a span of time in its largest unit, as people say it."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def facts(rows: Iterable[tuple[str, str]]) -> None:
    """Print names and what they are, in two columns."""
    listed = list(rows)
    width = max((len(name) for name, _ in listed), default=0)
    for name, fact in listed:
        click.echo(f"{click.style(name.ljust(width), dim=True)}  {plain(fact)}".rstrip())


@contextmanager
def sink(file: str, *, force: bool) -> Generator[Callable[[bytes], object]]:
    """Give what writes to a file that appears whole, or not at all; or to stdout."""
    if file == "-":
        yield lambda line: click.echo(line, nl=False)
        return
    path = Path(file)
    if path.exists() and not force:
        raise InvalidInput(f"{plain(file)} exists; name another file, or add --force")
    part = path.with_name(f"{path.name}.part")
    handle = os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            yield out.write
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)
