"""Statements that write many rows, run by compiled code where there is some.

apsw looks a statement up again for each row, and lets go of Python's lock around each row.
`_statements.c` reads the values of all rows first, and then has SQLite run them all at one release
of the lock, in half the time (bench/LOG.md, 2026-11-26). Without it, and for values that it leaves
alone, `SqliteConnection.write` has apsw do it; the rows are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

import apsw

from alveus.store.sqlite.c_functions import function_table
from alveus.values.compiled_modules import compiled

if TYPE_CHECKING:
    from alveus.store.sql.connection import Write

FUNCTIONS = ("prepare_with", "run", "finish", "count_pages", "pages")
"""What a compiled module has to have; one that stayed from another version may not."""


class Compiled(Protocol):
    """The functions of `_statements.c`."""

    def prepare_with(self, table: int, db: int, /) -> object:
        """Return where the statements of a connection will be kept, of SQLite's functions."""
        ...

    def run(self, prepared: object, writes: Sequence[Write], /) -> tuple[int, str] | bool:
        """Run each statement for each of its rows, in this order.

        Returns True; False: nothing was done, it is for apsw; or the code and the message of what
        SQLite refused, up to which all was done.
        """
        ...

    def finish(self, prepared: object, /) -> None:
        """Let go of the statements."""
        ...

    def count_pages(self, prepared: object, /) -> None:
        """Have `pages` tell how long the write-ahead log is after a commit."""
        ...

    def pages(self, prepared: object, /) -> int:
        """Return how many pages it has after the last commit; 0: none since it was asked."""
        ...


COMPILED = cast("Compiled | None", compiled("alveus.store.sqlite._statements", FUNCTIONS))
"""The compiled functions; None: there are none."""


def statements_of(connection: apsw.Connection) -> Statements | None:
    """Return what a connection is to write by; None: by apsw."""
    table = function_table()
    return None if COMPILED is None or table is None else Statements(COMPILED, table, connection)


class Statements:
    """What one connection has prepared to write; closed before the connection is."""

    def __init__(self, compiled: Compiled, table: int, connection: apsw.Connection) -> None:
        self._compiled = compiled
        self._prepared = compiled.prepare_with(table, connection.sqlite3_pointer())

    def run(self, writes: Sequence[Write]) -> bool:
        """Run each statement for each of its rows; return False where that is for apsw to do.

        Raises:
            apsw.Error: SQLite refused one; it undid that one.
        """
        done = self._compiled.run(self._prepared, writes)
        if isinstance(done, bool):
            return done
        code, message = done
        error = apsw.exception_for(code)
        error.args = (message,)
        raise error

    def count_pages(self) -> None:
        """Have SQLite count the pages of the log: for Python it would wait in each commit."""
        self._compiled.count_pages(self._prepared)

    def pages(self) -> int:
        """See `Compiled.pages`."""
        return self._compiled.pages(self._prepared)

    def close(self) -> None:
        """Let go of them."""
        self._compiled.finish(self._prepared)
