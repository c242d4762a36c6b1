"""A checksum on every page of a database file, written and verified by SQLite's checksum VFS.

The VFS comes with apsw, as an extension. It writes the checksum into the last 8 bytes of a page,
which a file reserves from its making on; where a page that is read does not match, SQLite raises an
I/O error. A page is verified each time it is read from the file, written as the write-ahead log is
moved into it; the log has checksums of its own.

Each connection learns from the head of the file whether pages have checksums. A connection that
was opened before they had could write pages without; so whoever moves the log reads the head first.

The extension is not loaded by SQLite, which would make its symbols global (see `c_functions`), but
from a copy and for itself: it shares nothing with the program's own, and binds to nobody else's
symbols. It gets a table of functions in which three are others, so that it registers its VFS under
a name of ours, resting on the VFS of our choice, and changes neither the default VFS of the process
nor what the connections of others can do.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from alveus.errors import StoreDamaged, Unsupported
from alveus.store.sqlite import log_writes
from alveus.store.sqlite.c_functions import (
    AUTO_EXTENSION,
    ENTRIES,
    FIND,
    VFS_FIND,
    VFS_REGISTER,
    base_vfs,
    function_table,
    functions,
    vfs_address,
)
from alveus.values.forks import FreshLock

VFS = "alveus-checksums"
_EXTENSION = "cksumvfs"

RESERVED = 8
"""Bytes at the end of a page that the VFS takes; the file's head says how many there are."""

HEAD = 100
_RESERVED_AT, _APPLICATION_AT = 20, 68
_MAGIC = b"SQLite format 3\0"

MARK = "page checksums"
"""The note of a store whose pages have them: a damaged head cannot say that they have not."""

_REGISTER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_AUTO = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class _VfsHead(ctypes.Structure):
    """How a VFS begins in memory, up to its name."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("longest_path", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
    )


_loading = FreshLock()


def vfs() -> str | None:
    """Return the VFS that a store is opened by; None: this apsw has no checksum VFS."""
    with _loading:
        return VFS if _loaded() is not None else None


@functools.cache
def _loaded() -> object | None:
    """Load the checksum VFS; return what it needs as long as the process lives; None: no VFS.

    Connections of others go on as they would without it.
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
    below = log_writes.gathering(table, vfs_address(table, base_vfs()))

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
    for place, function in ours.items():
        given[place] = ctypes.cast(function, ctypes.c_void_p).value
    entry(None, None, given)
    return (library, given, ours, name) if VFS in apsw.vfs_names() else None


def _file() -> Path:
    """Return where the extension is that the VFS comes in.

    apsw's own look-up takes as long as all else of opening a file: it is asked only where the
    extension is not at its usual place.

    Raises:
        ImportError, LookupError: This build of apsw leaves it out.
    """
    folder = Path(apsw.__file__).with_name("sqlite_extra_binaries")
    for file in folder.glob(f"{_EXTENSION}.*"):
        return file
    from apsw import sqlite_extra

    if sqlite_extra.has(_EXTENSION) != "extension":
        raise LookupError(_EXTENSION)
    return Path(sqlite_extra.path(_EXTENSION))


def _library(content: bytes) -> ctypes.CDLL:
    """Load a copy of a shared object: nobody else has it, sees its symbols, or lends it theirs.

    In memory where that can be: a folder for temporary files may forbid that they are executed.

    Raises:
        OSError: It cannot be loaded.
    """
    mode = os.RTLD_LOCAL | getattr(os, "RTLD_DEEPBIND", 0)  # macOS binds to its own anyhow
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create(_EXTENSION), "wb", buffering=0) as file:
            file.write(content)
            try:  # by a path that nobody else uses: they would be given this for what is theirs
                return ctypes.CDLL(f"/proc/thread-self/fd/{file.fileno()}", mode)
            except OSError:
                pass
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile(prefix=f"{_EXTENSION}-") as file:
        file.write(content)
        file.flush()
        return ctypes.CDLL(file.name, mode)


def are_possible(db: apsw.Connection) -> bool:
    """Return whether this connection goes through the checksum VFS, which alone answers this."""
    return db.pragma("checksum_verification") is not None


@contextmanager
def unverified(db: apsw.Connection) -> Generator[None]:
    """Have pages read by this connection whatever their checksums say: all are to be replaced."""
    db.pragma("checksum_verification", False)  # noqa: FBT003 - apsw's
    try:
        yield
    finally:
        db.pragma("checksum_verification", True)  # noqa: FBT003 - apsw's


def is_mismatch(error: Exception) -> bool:
    """Return whether SQLite raised *error* because a page does not match its checksum."""
    return getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA


def head(db: apsw.Connection) -> bytes:
    """Return the head of the file; the VFS of this connection learns from it, too."""
    return db.read("main", 0, 0, HEAD)[1]


def are_kept(db: apsw.Connection) -> bool:
    """Return whether the pages of the file have checksums."""
    return head(db)[_RESERVED_AT] == RESERVED


def reserve(db: apsw.Connection) -> None:
    """Have an empty file, or one that is rewritten next by VACUUM, keep checksums."""
    if are_possible(db):
        size = ctypes.c_int(RESERVED)
        db.file_control("main", apsw.SQLITE_FCNTL_RESERVE_BYTES, ctypes.addressof(size))


def is_ours(db: apsw.Connection, application: int) -> bool:
    """Return whether the head of a file says that it is a store, also where the rest cannot be."""
    found = head(db)
    named = found[_APPLICATION_AT : _APPLICATION_AT + 4] == application.to_bytes(4, "big")
    return found.startswith(_MAGIC) and named


def check(db: apsw.Connection, path: Path) -> None:
    """Refuse a file whose head does not say what its contents do, or that cannot be verified.

    Raises:
        StoreDamaged: The head is wrong, or the end is cut off.
        Unsupported: Pages have checksums, and this apsw cannot write them.
    """
    size, page = path.stat().st_size, int(db.pragma("page_size"))
    log = Path(f"{path}-wal")
    if size % page and not (log.exists() and log.stat().st_size):  # else its end may be there
        raise StoreDamaged(path, f"it ends within page {size // page + 1}")
    reserved = head(db)[_RESERVED_AT]
    if reserved not in (0, RESERVED) or (reserved != RESERVED and _is_marked(db)):
        raise StoreDamaged(path, f"its head reserves {reserved} bytes of each page")
    if reserved and not are_possible(db):
        raise Unsupported(
            f"{path}: its pages have checksums, which this build of apsw does not keep; install "
            "apsw as a wheel, and let TMPDIR name a folder from which libraries may be loaded"
        )


def are_noted(db: apsw.Connection) -> bool:
    """Return whether a file whose pages have checksums is marked as one."""
    return not are_kept(db) or _is_marked(db)


def _is_marked(db: apsw.Connection) -> bool:
    return db.execute("SELECT 1 FROM note WHERE name = ?", (MARK,)).get is not None


def mark(db: apsw.Connection) -> None:
    """Note in the store that its pages have checksums, if they have."""
    if are_kept(db):
        db.execute("INSERT INTO note (name, text) VALUES (?, '8') ON CONFLICT DO NOTHING", (MARK,))


def add(db: apsw.Connection) -> bool:
    """Give a sound file checksums by rewriting it; return whether that was done.

    The file is in WAL mode, its write lock is held and nobody else has it open. Killed at any
    moment, it is as it was, or wholly rewritten: all new pages are in the log, its first one
    first, and the VFS computes from that page on.
    """
    if are_kept(db) or not are_possible(db):
        return False
    reserve(db)
    db.execute("VACUUM")
    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    mark(db)
    return True


def damaged_pages(db: apsw.Connection) -> list[int]:
    """Return the numbers of all pages of the file that do not match their checksums.

    Also those that nothing uses. A page that is being written by somebody else is read again.
    """
    if not are_kept(db):
        return []
    size = int(db.pragma("page_size"))
    pages = range(1, int(db.pragma("page_count")) + 1)
    return [n for n in pages if all(_fails(db, n, size) for _ in range(3))]


def _fails(db: apsw.Connection, number: int, size: int) -> bool:
    try:
        db.read("main", 0, (number - 1) * size, size)
    except apsw.Error:
        return True
    return False
