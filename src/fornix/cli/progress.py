"""Progress bars: on stderr, and only where somebody looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from fornix.cli.session import Session
from fornix.memory.memory import Memory


@contextmanager
def progress(session: Session, what: str, *, total: int | None) -> Generator[Callable[[int], None]]:
    """Show a bar for a block; give what moves it on by so many."""
    if session.quiet or not sys.stderr.isatty():
        yield lambda _count: None
        return
    from fornix.cli.tables import progress_bar

    with progress_bar() as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.update(task, advance=count)


def settle(session: Session, memory: Memory) -> None:
    """Wait, with a bar, until everything is found by meaning."""
    pending = memory.stats().pending
    if pending:
        with progress(session, "embedding", total=pending) as advance:
            memory.settle(progress=advance)
