"""Tables and bars for people, drawn by rich. rich is imported when the first one is drawn."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence

from rich.console import Console, ConsoleRenderable
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from alveus.cli.output import BAR, bar, one_line
from alveus.store.items import Hit, Hits

WIDTH = 120
"""Columns of a table without a terminal."""

TEXT_WIDTH = 20
"""Fewest columns of a text beside the parts of its score."""

RELEVANCE, NO = "relevance", "·"
"""The first column beside a score, and the sign for 0.00 in the other columns."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the caller handle a closed pipe, as for all output. Rich would exit with 1."""
        raise BrokenPipeError


def console(*, err: bool = False) -> Console:
    """Return a console on stdout or stderr, as wide as the terminal, or `WIDTH` columns."""
    stream = sys.stderr if err else sys.stdout
    return _Console(
        file=stream,
        width=None if stream.isatty() else WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )


class Rate(ProgressColumn):
    """The recent rate of a task, per second."""

    def render(self, task: Task) -> Text:
        """Return the rate of a task as text, which is empty before the first measurement."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


def progress_bar() -> Progress:
    """Return a progress bar on stderr. It disappears at the end."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=console(err=True),
        transient=True,
    )


def explained(hits: Hits, *, width: int, marked: Container[str | None] = ()) -> ConsoleRenderable:
    """Return a table of hits with the parts of each score. Items with *marked* ids are highlighted.

    If *width* columns leave the text too little space, each hit takes several lines.
    """
    known = dict.fromkeys(name for hit in hits for name in hit.parts)
    shown = [name for name in known if _counts(hits, name)]
    if hits and hits[0].relevance is not None:
        shown.insert(0, RELEVANCE)
    best = max((hit.score for hit in hits), default=1.0)
    rows = [
        (
            f"{hit.score:.2f}",
            Text(bar(hit.score, best), style="cyan"),
            [_shown(hit, name) for name in shown],
            _said(hit, is_marked=hit.item.id in marked),
        )
        for hit in hits
    ]
    if width < 5 + 2 + BAR + sum(2 + max(4, len(name)) for name in shown) + 2 + TEXT_WIDTH:
        return Text("\n\n").join(_block(shown, *row) for row in rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("score", justify="right")
    table.add_column("")
    for name in shown:
        table.add_column(name, justify="right")
    table.add_column("text", ratio=1, overflow="fold")
    for score, bars, parts, text in rows:
        table.add_row(score, bars, *parts, text)
    return table


def _block(names: Sequence[str], score: str, bars: Text, parts: Sequence[str], text: Text) -> Text:
    named = zip(names, parts, strict=True)
    scores = Text(", ".join(f"{name} {part}" for name, part in named if part != NO), style="dim")
    return Text("\n").join([Text.assemble(score, "  ", bars), scores, text])


def _shown(hit: Hit, name: str) -> str:
    if name == RELEVANCE:
        return f"{hit.relevance:.2f}"
    return f"{hit.parts.get(name, 0.0):.2f}".replace("0.00", NO)


def _said(hit: Hit, *, is_marked: bool) -> Text:
    who = f"{one_line(hit.item.speaker)}: " if hit.item.speaker else ""
    mark = "✓ " if is_marked else ""
    return Text.assemble((mark, "bold green"), (who, "bold"), one_line(hit.item.text or ""))


def _counts(found: Hits, name: str) -> bool:
    return any(abs(hit.parts.get(name, 0.0)) >= 0.005 for hit in found)  # noqa: PLR2004 - shown as 0.00
