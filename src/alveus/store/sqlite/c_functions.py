"""SQLite's functions in C, as SQLite gives them to extensions, without an extension being loaded.

SQLite loads an extension so that its symbols are global in the process. Of two libraries that
export a variable of one name, such as ``sqlite3_api``, both then use the first one's: each calls
functions of an SQLite that is not its own, and the process dies. So alveus has SQLite load nothing.
A VFS in Python answers once in place of the system's loader, and keeps the address of the table of
functions (https://sqlite.org/loadext.html).
"""

from __future__ import annotations

import ctypes
import functools

import apsw

from alveus.errors import Unsupported
from alveus.values.sqlite_connections import PlainConnection

SYSTEM_VFS = "unix"
"""SQLite's own way to the files of Linux and macOS."""

VFS_FIND, VFS_REGISTER, _DB_MUTEX, AUTO_EXTENSION = 141, 142, 164, 192
"""Where functions are in the table: an entry never moves."""

ENTRIES = 266
"""How many entries the table of SQLite 3.40 has; later versions have more."""

_NAME = "alveus-functions"

FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
"""The type of the function that finds a VFS by its name; without one, the default VFS."""

_ENTRY_POINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class _Loader(apsw.VFS):
    """Answers SQLite where it loads an extension; `table` is what SQLite gave to that."""

    def __init__(self) -> None:
        self.table = 0
        self._entry = _ENTRY_POINT(self._keep)
        super().__init__(_NAME, base_vfs())

    def _keep(self, _db: int, _error: int, table: int) -> int:
        self.table = table
        return apsw.SQLITE_OK

    def xDlOpen(self, filename: str) -> int:  # noqa: N802 - SQLite's name
        """See SQLite's VFS; any number but 0."""
        del filename
        return 1

    def xDlSym(self, handle: int, symbol: str) -> int:  # noqa: N802 - SQLite's name
        """See SQLite's VFS: the function that SQLite calls with the table."""
        del handle, symbol
        return ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    def xDlClose(self, handle: int) -> None:  # noqa: N802 - SQLite's name
        """See SQLite's VFS."""


def base_vfs() -> str:
    """Return the name of the VFS that alveus's own rest on, whichever is the default one."""
    names = apsw.vfs_names()
    return SYSTEM_VFS if SYSTEM_VFS in names else names[0]


@functools.cache
def function_table() -> int | None:
    """Return the address of the table; None: this build of apsw loads no extensions.

    Nothing of the process is changed: only a connection of this call goes through the VFS.

    Raises:
        Unsupported: The program has SQLite work without mutexes, for one thread alone, or within
            a limit of memory.
    """
    if apsw.soft_heap_limit(-1):
        raise Unsupported(
            "this program limits the memory of SQLite (sqlite3_soft_heap_limit), under which "
            "SQLite crashes where several threads use it; leave that setting out"
        )
    loader = _Loader()
    connection = PlainConnection(":memory:", vfs=_NAME)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        connection.load_extension(_NAME)
        if loader.table and not _has_mutex(loader.table, connection):
            raise Unsupported(
                "this program set SQLite to a single thread (SQLITE_CONFIG_SINGLETHREAD), and "
                "alveus uses several; leave that setting out"
            )
    except (AttributeError, apsw.Error):
        return None
    finally:
        connection.close()
        loader.unregister()
    return loader.table or None


def _has_mutex(table: int, connection: apsw.Connection) -> bool:
    mutex_of = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(functions(table)[_DB_MUTEX])
    return mutex_of(connection.sqlite3_pointer()) is not None


def functions(table: int) -> ctypes.Array[ctypes.c_void_p]:
    """Return the entries of the table that every version has."""
    return (ctypes.c_void_p * ENTRIES).from_address(table)


def vfs_address(table: int, name: str) -> int:
    """Return the address of a VFS that is registered."""
    return FIND(functions(table)[VFS_FIND])(name.encode())
