"""The write-ahead log, written by compiled code where there is some: fewer calls, shorter syncs.

SQLite writes each page that a transaction changed in two calls, and a single add changes nine.
`_log_writes.c` gathers them, and writes them before the last call of the transaction returns. Where
a commit waits for the disk, it also has a growing log grow in advance, as a sync that has to write
down a new length takes twice as long. A store holds the same without it.
"""

from __future__ import annotations

from contextlib import suppress

import apsw

from alveus.values.compiled_modules import compiled

COMPILED = compiled("alveus.store.sqlite._log_writes", ())
"""The compiled module; None: there is none."""

RESTS_ON = "unix"
"""The VFS whose writes are known to be gathered so: SQLite's own of Linux and macOS."""

_ENTRY = "sqlite3_alveus_log_init"
"""What SQLite calls as it loads the module."""

_UNDO_ENTRY = "sqlite3_alveus_log_undo"
"""What it calls as it loads the module for a connection that writes."""


def gather(connection: apsw.Connection) -> None:
    """Make a VFS that does so the default, if `RESTS_ON` is that; any connection will do."""
    if COMPILED is None or apsw.vfs_names()[0] != RESTS_ON:
        return
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    with suppress(apsw.ExtensionLoadingError):
        connection.load_extension(str(COMPILED.__file__), _ENTRY)


def drop_undone(connection: apsw.Connection) -> None:
    """Have what is gathered of a transaction that this connection undoes be dropped.

    A large transaction may be written in parts before it is committed. What is left of one that
    was undone would be written by a later call, over what others committed meanwhile.
    """
    if COMPILED is None:
        return
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
    try:
        connection.load_extension(str(COMPILED.__file__), _UNDO_ENTRY)
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0)
