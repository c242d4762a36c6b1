"""Progress bars: on stderr, and only where somebody looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fornix.cli import tables
from fornix.cli.session import Session
from fornix.memory.memory import Memory


class Rate(ProgressColumn):
    """How many are done in a second, lately."""

    def render(self, task: Task) -> Text:
        """Return the rate of a task, once there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


@contextmanager
def progress(session: Session, what: str, *, total: int | None) -> Generator[Callable[[int], None]]:
    """Show a bar for a block; give what moves it on by so many."""
    if session.quiet or not sys.stderr.isatty():
        yield lambda _count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, Rate(), TimeRemainingColumn(), console=tables.console(err=True), transient=True
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.update(task, advance=count)


def settle(session: Session, memory: Memory) -> None:
    """Wait, with a bar, until everything is found by meaning."""
    pending = memory.stats().pending
    if pending:
        with progress(session, "embedding", total=pending) as advance:
            memory.settle(progress=advance)
