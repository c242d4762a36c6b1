"""The charts of docs/measured.md: each shows the table that stands below it on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "measured.md"
AIM = "aim"
"""The column of a table that is drawn as a line across the bars of a row."""

WIDTH, LEFT, RIGHT, TOP = 760, 250, 60, 44
BAR, GAP = 11, 12
INK, LINE, PAPER = "#1f2430", "#c5cbd8", "#ffffff"
COLOURS = ("#3f51b5", "#7c8be0", "#b9c2f2", "#f0a04b", "#8d99ae", "#6fb08a", "#c2788f")

PICTURE = re.compile(r"!\[([^\]]*)\]\((pictures/[a-z-]+\.svg)\)\n\n((?:\|.*\n)+)")
"""A picture with a table below it."""

_NUMBER = re.compile(r"\d+(\.\d+)?")


@dataclass(frozen=True)
class Table:
    """A table of percentages: a name per row, a number or None per column."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float | None]]]


def charts() -> dict[str, str]:
    """Return the charts of the page as SVG, by their paths below docs."""
    found = PICTURE.findall(PAGE.read_text(encoding="utf-8"))
    return {
        path: "\n".join([*_drawn(title, _table(lines)), "</svg>\n"]) for title, path, lines in found
    }


def _table(lines: str) -> Table:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
    rows = [(row[0], [_number(cell) for cell in row[1:]]) for row in cells[2:]]
    return Table(cells[0][1:], rows)


def _number(cell: str) -> float | None:
    found = _NUMBER.search(cell)
    return float(found.group()) if found else None


def _drawn(title: str, table: Table) -> Iterator[str]:
    shown = [n for n, column in enumerate(table.columns) if column != AIM]
    aim = next((n for n, column in enumerate(table.columns) if column == AIM), None)
    bars = [sum(values[n] is not None for n in shown) for _, values in table.rows]
    legend = _legend([table.columns[n].replace("`", "") for n in shown])
    top = legend[-1][1] + TOP - 12
    height = top + sum(count * BAR + GAP for count in bars) + 22
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" role="img">'
    )
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>'
    for share in range(0, 101, 25):
        yield f'<path d="M{_x(share)} {top - 6}V{height - 20}" stroke="{LINE}" stroke-width=".7"/>'
        yield _text(_x(share), height - 7, f"{share} %", size=10, anchor="middle")
    for at, (x, y, name) in enumerate(legend):
        yield f'<rect x="{x}" y="{y}" width="11" height="11" fill="{COLOURS[at]}"/>'
        yield _text(x + 15, y + 10, name, size=12)
    y = top
    for (name, values), count in zip(table.rows, bars, strict=True):
        yield _text(LEFT - 8, y + count * BAR / 2 + 4, name, size=12, anchor="end")
        begin = y
        for at, n in enumerate(shown):
            if (value := values[n]) is not None:
                yield (
                    f'<rect x="{LEFT}" y="{y}" width="{_x(value) - LEFT}" height="{BAR - 1}" '
                    f'fill="{COLOURS[at]}"/>'
                )
                yield _text(_x(value) + 4, y + 9, f"{value:g}", size=10)
                y += BAR
        if aim is not None and (value := values[aim]) is not None:
            yield f'<path d="M{_x(value)} {begin - 2}V{y + 1}" stroke="{INK}" stroke-width="2"/>'
        y += GAP


def _legend(names: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return where each name stands, in as many lines as they need."""
    x, y, found = 12, 12, list[tuple[int, int, str]]()
    for name in names:
        width = 30 + 7 * len(name)
        if x + width > WIDTH:
            x, y = 12, y + 18
        found.append((x, y, name))
        x += width
    return found


def _x(share: float) -> int:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * share / 100)


def _text(x: float, y: float, text: str, *, size: int, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{INK}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
