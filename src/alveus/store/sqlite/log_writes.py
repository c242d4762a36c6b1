"""The write-ahead log, written by compiled code where there is some: fewer calls, shorter syncs.

SQLite writes each page that a transaction changed in two calls, and a single add changes nine.
`values/_c/log.h` gathers them, and writes them before the last call of the transaction returns.
Where a commit waits for the disk, it also has a growing log grow in advance, as a sync that has to
write down a new length takes twice as long. A store holds the same without it.
"""

from __future__ import annotations

from typing import Protocol, cast

import apsw

from alveus.store.sqlite.c_functions import SYSTEM_VFS, base_vfs, function_table
from alveus.values.native import compiled

FUNCTIONS = ("gathering", "drop_undone")
"""What a compiled module has to have; one that stayed from another version may not."""


class CompiledLog(Protocol):
    """The functions of `values/_c/log.h`; each is given the table of SQLite's functions."""

    def gathering(self, table: int, below: int, /) -> int:
        """Register a VFS that gathers, resting on another one; return its address."""
        ...

    def drop_undone(self, table: int, db: int, /) -> None:
        """See `drop_undone` below."""
        ...


COMPILED = cast("CompiledLog | None", compiled(FUNCTIONS))
"""The compiled module; None: there is none."""


def gathering(table: int, below: int) -> int:
    """Return the address of a VFS that does so, resting on the VFS *below*; else that one's."""
    if COMPILED is None or base_vfs() != SYSTEM_VFS:  # whose writes are known to come so
        return below
    return COMPILED.gathering(table, below)


def drop_undone(connection: apsw.Connection) -> None:
    """Have what is gathered of a transaction that this connection undoes be dropped.

    A large transaction may be written in parts before it is committed. What is left of one that
    was undone would be written by a later call, over what others committed meanwhile.
    """
    table = function_table()
    if COMPILED is not None and table is not None:
        COMPILED.drop_undone(table, connection.sqlite3_pointer())
