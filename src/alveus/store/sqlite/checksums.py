"""The VFS of a store's connections: a checksum on every page, and fewer writes to the log.

SQLite's checksum VFS writes a checksum into the last 8 bytes of a page, which a file reserves when
it is made. SQLite reports a page that does not match its checksum as an I/O error. A connection
learns from the head of the file whether pages have checksums. Code that moves the log reads the
head first, because the connection may have been opened before the pages got checksums.

The VFS comes with apsw as an extension. SQLite would load the extension with global symbols, which
may replace the symbols of another library in the process. So a VFS in Python replaces the
system's loader once, and keeps the address of the table of SQLite's functions
(https://sqlite.org/loadext.html). The extension is loaded from a private copy, with a table in
which three functions are replaced. So the extension registers its VFS under a name of alveus, on
top of a VFS that alveus chooses, and changes neither the default VFS nor other connections.

SQLite writes each changed page of a transaction in two calls. `values/_c/log.h` collects the
writes, and makes them before the last call of the transaction returns. If commits wait for the
disk, `log.h` also extends a growing log in advance, since a sync that has to record a new length
takes twice as long. Without the compiled module, a store works the same.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

import apsw

from alveus.errors import StoreDamaged, Unsupported
from alveus.values.forks import FreshLock
from alveus.values.native import compiled
from alveus.values.sqlite_connections import PlainConnection

SYSTEM_VFS = "unix"
"""SQLite's VFS for the files of Linux and macOS."""

VFS_FIND, VFS_REGISTER, _DB_MUTEX, AUTO_EXTENSION = 141, 142, 164, 192
"""The indexes of functions in the table of SQLite's functions; they never change."""

ENTRIES = 266
"""The number of entries in the table of SQLite 3.40; later versions have more."""

_LOADER = "alveus-functions"

FIND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
"""The type of the function that finds a VFS by its name; NULL finds the default VFS."""

_ENTRY_POINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class _Loader(apsw.VFS):
    """A VFS whose loader of extensions loads nothing, but learns the address of SQLite's functions.

    Attributes:
        table: The address of the table of SQLite's functions; 0 until SQLite calls the loader.
    """

    def __init__(self) -> None:
        self.table = 0
        self._entry = _ENTRY_POINT(self._keep)
        super().__init__(_LOADER, base_vfs())

    def _keep(self, _db: int, _error: int, table: int) -> int:
        self.table = table
        return apsw.SQLITE_OK

    def xDlOpen(self, filename: str) -> int:  # noqa: N802 - SQLite's name
        """Pretend to open an extension: return a handle, which is any number but 0."""
        del filename
        return 1

    def xDlSym(self, handle: int, symbol: str) -> int:  # noqa: N802 - SQLite's name
        """Return the address of the function that SQLite calls with the address of the table."""
        del handle, symbol
        return ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    def xDlClose(self, handle: int) -> None:  # noqa: N802 - SQLite's name
        """Do nothing, as nothing was opened."""


def base_vfs() -> str:
    """Return the name of the VFS below alveus's VFS, whichever VFS is the default."""
    names = apsw.vfs_names()
    return SYSTEM_VFS if SYSTEM_VFS in names else names[0]


@functools.cache
def function_table() -> int | None:
    """Return the address of the table of SQLite's functions.

    Return None if this build of apsw loads no extensions.

    Raises:
        Unsupported: The program set SQLite to a single thread.
    """
    loader = _Loader()
    connection = PlainConnection(":memory:", vfs=_LOADER)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        connection.load_extension(_LOADER)
        table = loader.table
        mutex_of = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        if table and mutex_of(functions(table)[_DB_MUTEX])(connection.sqlite3_pointer()) is None:
            raise Unsupported(
                "this program limits SQLite to one thread (SQLITE_CONFIG_SINGLETHREAD), but "
                "alveus uses several; remove that setting"
            )
    except (AttributeError, apsw.Error):
        return None
    finally:
        connection.close()
        loader.unregister()
    return loader.table or None


def functions(table: int) -> ctypes.Array[ctypes.c_void_p]:
    """Return the entries, at address *table*, that the table has in every version of SQLite."""
    return (ctypes.c_void_p * ENTRIES).from_address(table)


def vfs_address(table: int, name: str) -> int:
    """Return the address of the registered VFS *name*."""
    return FIND(functions(table)[VFS_FIND])(name.encode())


FUNCTIONS = ("gathering", "drop_undone")
"""The functions that the compiled module must have; a module of an older version may lack some."""


class CompiledLog(Protocol):
    """The functions of `values/_c/log.h`; each takes the address of the `function_table`."""

    def gathering(self, table: int, below: int, /) -> int:
        """Register a VFS that collects writes, on top of another VFS; return its address."""
        ...

    def drop_undone(self, table: int, db: int, /) -> None:
        """See `drop_undone` below."""
        ...


COMPILED = cast("CompiledLog | None", compiled(FUNCTIONS))
"""The compiled module, or None if it is missing or lacks one of `FUNCTIONS`."""


def gathering(table: int, below: int) -> int:
    """Return the address of a VFS that collects writes for the VFS at address *below*.

    Return *below* if writes cannot be collected.
    """
    if COMPILED is None or base_vfs() != SYSTEM_VFS:  # the VFS whose order of writes is known
        return below
    return COMPILED.gathering(table, below)


def drop_undone(connection: apsw.Connection) -> None:
    """Make *connection* drop the collected writes of each transaction that it rolls back.

    A large transaction may have been written in part, and a later call would write the rest.
    """
    table = function_table()
    if COMPILED is not None and table is not None:
        COMPILED.drop_undone(table, connection.sqlite3_pointer())


VFS = "alveus-checksums"
_EXTENSION = "cksumvfs"

RESERVED = 8
"""Bytes that the VFS uses at the end of a page; the file's head says how many are reserved."""

HEAD = 100
_RESERVED_AT, _APPLICATION_AT = 20, 68
_MAGIC = b"SQLite format 3\0"

MARK = "page checksums"
"""The name of a note in each store with checksums.

With the note, the checksums are noticed even if the damaged head of a file denies them.
"""

_REGISTER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_AUTO = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class _VfsHead(ctypes.Structure):
    """The first fields of SQLite's structure for a VFS, up to the name of the VFS."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("longest_path", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
    )


_loading = FreshLock()


def vfs() -> str | None:
    """Return the name of the VFS for a connection, or None if apsw has no checksum VFS.

    Raises:
        Unsupported: The program limits the memory of SQLite, or set it to a single thread.
    """
    if apsw.soft_heap_limit(-1):  # checked each time: a program may set it later
        raise Unsupported(
            "this program limits SQLite's memory (sqlite3_soft_heap_limit), with which SQLite "
            "crashes when several threads use it; remove that setting"
        )
    with _loading:
        return VFS if _loaded() is not None else None


@functools.cache
def _loaded() -> object | None:
    """Load the checksum VFS. Return objects that must be kept as long as the process lives.

    Return None if the VFS cannot be loaded.
    """
    table = function_table()
    if table is None:
        return None
    try:
        library = _library(_file().read_bytes())
        entry = library.sqlite3_cksumvfs_init
    except (AttributeError, ImportError, LookupError, OSError):
        return None
    known = functions(table)
    below = gathering(table, vfs_address(table, base_vfs()))

    name = VFS.encode()

    def find(asked: bytes | None) -> int | None:
        return None if asked else below

    def register(address: int, _as_default: int) -> int:
        _VfsHead.from_address(address).name = name
        return _REGISTER(known[VFS_REGISTER])(address, 0)

    def leave_out(_function: int) -> int:
        return apsw.SQLITE_OK

    given = (ctypes.c_void_p * ENTRIES)(*known)
    ours = {
        VFS_FIND: FIND(find),
        VFS_REGISTER: _REGISTER(register),
        AUTO_EXTENSION: _AUTO(leave_out),
    }
    for index, function in ours.items():
        given[index] = ctypes.cast(function, ctypes.c_void_p).value
    entry(None, None, given)
    return (library, given, ours, name) if VFS in apsw.vfs_names() else None


def _file() -> Path:
    """Return the path of the extension with the VFS. apsw's slow look-up is tried last.

    Raises:
        ImportError, LookupError: This build of apsw does not have the extension.
    """
    folder = Path(apsw.__file__).with_name("sqlite_extra_binaries")
    for file in folder.glob(f"{_EXTENSION}.*"):
        return file
    from apsw import sqlite_extra

    if sqlite_extra.has(_EXTENSION) != "extension":
        raise LookupError(_EXTENSION)
    return Path(sqlite_extra.path(_EXTENSION))


def _library(content: bytes) -> ctypes.CDLL:
    """Load the shared object *content* from a copy, in memory if possible, with private symbols."""
    mode = os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0)  # macOS needs no flag
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create(_EXTENSION), "wb", buffering=0) as file:
            file.write(content)
            try:  # by an unused path: another load of the same path would return this library
                return ctypes.CDLL(f"/proc/thread-self/fd/{file.fileno()}", mode)
            except OSError:
                pass
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile(prefix=f"{_EXTENSION}-") as file:
        file.write(content)
        file.flush()
        return ctypes.CDLL(file.name, mode)


def are_possible(db: apsw.Connection) -> bool:
    """Return whether this connection uses the checksum VFS."""
    return db.pragma("checksum_verification") is not None


@contextmanager
def unverified(db: apsw.Connection) -> Generator[None]:
    """Make *db* read pages without verifying checksums in a block, which replaces all pages."""
    db.pragma("checksum_verification", False)  # noqa: FBT003 - apsw's
    try:
        yield
    finally:
        db.pragma("checksum_verification", True)  # noqa: FBT003 - apsw's


def is_mismatch(error: Exception) -> bool:
    """Return whether *error* means that a page does not match its checksum."""
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA


def head(db: apsw.Connection) -> bytes:
    """Return the head of the file. By reading it, the VFS also learns of checksums in the file."""
    return db.read("main", 0, 0, HEAD)[1]


def are_kept(db: apsw.Connection) -> bool:
    """Return whether the pages of the file have checksums."""
    return head(db)[_RESERVED_AT] == RESERVED


def reserve(db: apsw.Connection) -> None:
    """Make an empty file keep checksums, if *db* can. Any other file needs a VACUUM next."""
    if are_possible(db):
        size = ctypes.c_int(RESERVED)
        db.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(size))


def is_ours(db: apsw.Connection, application: int) -> bool:
    """Return whether the head marks the file as a store. The rest need not be readable.

    Args:
        application: The application id of stores.
    """
    found = head(db)
    named = found[_APPLICATION_AT : _APPLICATION_AT + 4] == application.to_bytes(4, "big")
    return found.startswith(_MAGIC) and named


def check(db: apsw.Connection, path: Path) -> None:
    """Raise if a file's head contradicts its contents, or if the file cannot be verified.

    Raises:
        StoreDamaged: The head is wrong, or the end of the file is missing.
        Unsupported: Pages have checksums, and this apsw cannot write them.
    """
    size, page = path.stat().st_size, int(db.pragma("page_size"))
    log = Path(f"{path}-wal")
    if size % page and not (log.exists() and log.stat().st_size):  # else its end may be in the log
        raise StoreDamaged(path, f"it ends within page {size // page + 1}")
    reserved = head(db)[_RESERVED_AT]
    if reserved not in (0, RESERVED) or (reserved != RESERVED and _is_marked(db)):
        raise StoreDamaged(path, f"its head reserves {reserved} bytes of each page")
    if reserved and not are_possible(db):
        raise Unsupported(
            f"{path} has checksums, which this build of apsw does not support; install apsw as "
            "a wheel, and let TMPDIR be a folder that libraries can be loaded from"
        )


def are_noted(db: apsw.Connection) -> bool:
    """Return whether the file has the note `MARK`, or no checksums and so needs no note."""
    return not are_kept(db) or _is_marked(db)


def _is_marked(db: apsw.Connection) -> bool:
    return db.execute("SELECT 1 FROM note WHERE name = ?", (MARK,)).get is not None


def mark(db: apsw.Connection) -> None:
    """Write the note `MARK` if the store's pages have checksums."""
    if are_kept(db):
        db.execute("INSERT INTO note (name, text) VALUES (?, '8') ON CONFLICT DO NOTHING", (MARK,))


def add(db: apsw.Connection) -> bool:
    """Add checksums to a sound file by rewriting it. Return whether it was rewritten.

    The file is in WAL mode, its write lock is held and no other process has it open. After a kill
    at any moment, the file is unchanged, or completely rewritten.
    """
    if are_kept(db) or not are_possible(db):
        return False
    reserve(db)
    db.execute("VACUUM")
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    mark(db)
    return True


def damaged_pages(db: apsw.Connection) -> list[int]:
    """Return the numbers of all pages, also unused ones, that do not match their checksums."""
    if not are_kept(db):
        return []
    size = int(db.pragma("page_size"))
    pages = range(1, int(db.pragma("page_count")) + 1)
    return [n for n in pages if all(_fails(db, n, size) for _ in range(3))]  # maybe just written


def _fails(db: apsw.Connection, number: int, size: int) -> bool:
    try:
        db.read("main", 0, (number - 1) * size, size)
    except apsw.Error:
        return True
    return False
