"""Connections to SQLite that the hooks of other code in the process do not see.

`apsw.connection_hooks` belongs to the program: apsw calls each hook with every new connection, and
`apsw.bestpractice` adds some that write to the file (``journal_mode``, ``optimize``) or change what
statements do (``foreign_keys``). Only alveus may set up a file of alveus.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import apsw

from alveus.values.forks import FreshLock

_opening = FreshLock()
"""Held while `apsw.connection_hooks` is replaced."""


class PlainConnection(apsw.Connection):
    """A connection for which apsw calls no hook of the program.

    Each connection has a separate page cache and mutex, even if the program asked for a shared
    cache (`apsw.enable_shared_cache`) or for no mutexes by default.
    """

    def __init__(
        self,
        filename: str,
        *,
        flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
        vfs: str | None = None,
        statementcachesize: int = 100,
    ) -> None:
        flags |= apsw.SQLITE_OPEN_PRIVATECACHE | apsw.SQLITE_OPEN_FULLMUTEX
        with _without_hooks():
            super().__init__(filename, flags, vfs, statementcachesize)


class _HooksOfOthers(list[Callable[[apsw.Connection], Any]]):
    """The hooks of the program, hidden from apsw in the thread that made this object."""

    def __init__(self, hooks: list[Callable[[apsw.Connection], Any]]) -> None:
        super().__init__(hooks)
        self._thread = get_ident()

    def __iter__(self) -> Iterator[Callable[[apsw.Connection], Any]]:
        return iter(()) if get_ident() == self._thread else super().__iter__()


@contextmanager
def _without_hooks() -> Generator[None]:
    """Hide the hooks from apsw in this thread; other threads keep theirs."""
    if not apsw.connection_hooks:
        yield
        return
    with _opening:
        hooks = apsw.connection_hooks
        apsw.connection_hooks = meanwhile = _HooksOfOthers(hooks)
        try:
            yield
        finally:
            if meanwhile != hooks:  # another thread added or removed a hook
                hooks[:] = meanwhile[:]
            if apsw.connection_hooks is meanwhile:
                apsw.connection_hooks = hooks
