"""Tables and bars for people, drawn by rich: it is loaded when one is drawn."""

from __future__ import annotations

import sys
from collections.abc import Container

from rich.console import Console
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

from fornix.cli.output import bar, one_line
from fornix.store.items import Hits

WIDTH = 120
"""Columns of a table where there is no terminal to ask."""


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


class Rate(ProgressColumn):
    """How many are done in a second, lately."""

    def render(self, task: Task) -> Text:
        """Return the rate of a task, once there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


def progress_bar() -> Progress:
    """Return a bar on stderr, which goes when it is done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=console(err=True),
        transient=True,
    )


def explained(hits: Hits, *, marked: Container[str | None] = ()) -> Table:
    """Return a table of hits with what each score is made of; items with *marked* ids stand out."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    shown = [name for name in (hits[0].parts if hits else ()) if _counts(hits, name)]
    table.add_column("score", justify="right")
    table.add_column("")
    judged = bool(hits) and hits[0].relevance is not None
    if judged:
        table.add_column("relevance", justify="right")
    for name in shown:
        table.add_column(name, justify="right")
    table.add_column("text", ratio=1, overflow="fold")
    best = max((hit.score for hit in hits), default=1.0)
    for hit in hits:
        parts = [f"{hit.parts.get(name, 0.0):.2f}".replace("0.00", "·") for name in shown]
        text = one_line(hit.item.text or "")
        mark = "✓ " if hit.item.id in marked else ""
        who = f"{one_line(hit.item.speaker)}: " if hit.item.speaker else ""
        table.add_row(
            f"{hit.score:.2f}",
            Text(bar(hit.score, best), style="cyan"),
            *([f"{hit.relevance:.2f}"] if judged else []),
            *parts,
            Text.assemble((mark, "bold green"), (who, "bold"), text),
        )
    return table


def _counts(found: Hits, name: str) -> bool:
    return any(abs(hit.parts.get(name, 0.0)) >= 0.005 for hit in found)  # noqa: PLR2004 - shown as 0.00
