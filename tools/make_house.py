"""The picture of the house in docs/design.md: rooms on floors, drawn from the imports.

A room imports only rooms that lie lower. An arrow is drawn from a room to each room that it imports
and that none of its other rooms imports, directly or not: the rest follow from these.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from house import ROOT, arrows_of, floors_of, graph_of

NOTES = {
    "agents": "contexts of thinker, DB-GPT, AgentScope",
    "cli": "the command line",
    "compat": "names of other systems",
    "conversation": "messages, summaries",
    "embed": "text to vectors",
    "errors": "every error",
    "facts": "learnt from messages",
    "integrations": "adapters of frameworks",
    "llm": "chat models, rerankers",
    "memory": "Memory, keys, prompts, remote",
    "runs": "agents, runners, Flink",
    "search": "query, index, ranking",
    "server": "HTTP, MCP, inspector",
    "sets": "sets, admission, compaction",
    "state": "exact memory",
    "store": "RAM, SQLite, PostgreSQL",
    "telemetry": "spans, metrics",
    "testing": "laws of stores",
    "text": "budgets, summaries",
    "transfer": "import, export",
    "values": "values, ids, times, words",
}
"""What each room is for, in a few words."""

WIDTH, BOX_WIDTH, BOX_HEIGHT, FLOOR_HEIGHT, MARGIN = 960, 250, 44, 84, 30
INK, LINE, PAPER, FILL = "#1f2430", "#9aa3b5", "#ffffff", "#eef1f8"


def house_picture() -> str:
    """Return the picture as SVG.

    Raises:
        ValueError: `NOTES` names other rooms than there are, or the rooms are no floors.
    """
    arrows = arrows_of(graph_of(ROOT / "src"))
    floors = floors_of(arrows)
    if sorted(NOTES) != sorted(room for floor in floors for room in floor):
        raise ValueError(f"NOTES in tools/make_house.py must name these rooms: {sorted(arrows)}")
    height = 2 * MARGIN + FLOOR_HEIGHT * (len(floors) - 1) + BOX_HEIGHT
    corners: dict[str, tuple[float, float]] = {
        room: (x, height - MARGIN - BOX_HEIGHT - FLOOR_HEIGHT * number)
        for number, floor in enumerate(floors)
        for room, x in zip(floor, _columns(len(floor)), strict=True)
    }
    return "\n".join((*_head(height), *_lines(arrows, corners), *_boxes(corners), "</svg>\n"))


def direct(arrows: dict[str, set[str]], room: str) -> list[str]:
    """Return the rooms that a room imports and that it does not reach through another one."""
    return sorted(
        below
        for below in arrows[room]
        if not any(below in _reached(arrows, other) for other in arrows[room] - {below})
    )


def _reached(arrows: dict[str, set[str]], room: str) -> set[str]:
    return arrows[room].union(*(_reached(arrows, below) for below in arrows[room]))


def _columns(count: int) -> list[float]:
    gap = (WIDTH - 2 * MARGIN - count * BOX_WIDTH) / (count + 1)
    return [MARGIN + gap + number * (BOX_WIDTH + gap) for number in range(count)]


def _head(height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" role="img">'
    )
    yield "<title>The rooms of alveus and their imports</title>"
    yield (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker></defs>'
    )
    yield f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>'


def _lines(arrows: dict[str, set[str]], corners: dict[str, tuple[float, float]]) -> Iterator[str]:
    for room in sorted(arrows):
        x, y = corners[room]
        begin, top = x + BOX_WIDTH / 2, y + BOX_HEIGHT
        for below in direct(arrows, room):
            end, bottom = corners[below][0] + BOX_WIDTH / 2, corners[below][1]
            bend = (bottom - top) / 2
            yield (
                f'<path d="M{begin:.0f} {top:.0f}C{begin:.0f} {top + bend:.0f} {end:.0f} '
                f'{bottom - bend:.0f} {end:.0f} {bottom:.0f}" fill="none" stroke="{LINE}" '
                'stroke-width="1.4" marker-end="url(#tip)"/>'
            )


def _boxes(corners: dict[str, tuple[float, float]]) -> Iterator[str]:
    for room, (x, y) in sorted(corners.items()):
        middle = x + BOX_WIDTH / 2
        yield (
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" '
            f'fill="{FILL}" stroke="{LINE}"/>'
        )
        for text, down, style in (
            (room, 18, 'font-size="15" font-weight="bold"'),
            (NOTES[room], 35, 'font-size="12"'),
        ):
            yield (
                f'<text x="{middle:.0f}" y="{y + down:.0f}" {style} fill="{INK}" '
                f'text-anchor="middle">{escape(text)}</text>'
            )
