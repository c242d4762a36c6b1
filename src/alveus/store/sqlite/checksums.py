"""A checksum on every page of a database file, written and verified by SQLite's checksum VFS.

The VFS comes with apsw. It writes the checksum into the last 8 bytes of a page, which a file
reserves from its making on; where a page that is read does not match, SQLite raises an I/O error.
A page is verified each time it is read from the file, written as the write-ahead log is moved into
it; the log has checksums of its own.

Each connection learns from the head of the file whether pages have checksums. A connection that
was opened before they had could write pages without; so whoever moves the log reads the head first.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from alveus.errors import StoreDamaged, Unsupported
from alveus.store.sqlite import log_writes
from alveus.values.forks import FreshLock

VFS = "cksmvfs"
_EXTENSION = "cksumvfs"

RESERVED = 8
"""Bytes at the end of a page that the VFS takes; the file's head says how many there are."""

HEAD = 100
_RESERVED_AT, _APPLICATION_AT = 20, 68
_MAGIC = b"SQLite format 3\0"

MARK = "page checksums"
"""The note of a store whose pages have them: a damaged head cannot say that they have not."""

SINCE = 4
"""The first schema that has them; earlier versions of alveus would write pages without."""

IN_PASSING = 64_000_000
"""Bytes of a file up to which it gets checksums as its schema is migrated; others by a repair."""

_loading = FreshLock()


def vfs() -> str | None:
    """Return the VFS that a store is opened by; None: the default one of this process.

    That is the checksum VFS, unless this apsw does not have it, or somebody made a VFS of their own
    the default: it has to rest on the checksum VFS, or stores with checksums are refused.
    """
    with _loading:
        base = _loaded()
    return VFS if base is not None and apsw.vfs_names()[0] in (VFS, base) else None


@functools.cache
def _loaded() -> str | None:
    """Load the checksum VFS into the process; return what it rests on; None: it is not there.

    Connections of others go on using the default VFS.
    """
    default, *others = apsw.vfs_names()
    base = "unix" if "unix" in others else default
    apsw.set_default_vfs(base)
    connection = apsw.Connection(":memory:")
    try:
        log_writes.gather(connection)
        _load(connection)
    except (ImportError, LookupError, OSError, apsw.Error):
        return None
    finally:
        connection.close()
        apsw.set_default_vfs(default)
    return base


def _load(connection: apsw.Connection) -> None:
    """Load the extension that the VFS is.

    apsw's own look-up takes as long as all else of opening a file: it is asked only where the
    extension is not at its usual place.

    Raises:
        ImportError, LookupError: This build of apsw leaves it out.
    """
    folder = Path(apsw.__file__).with_name("sqlite_extra_binaries")
    for file in folder.glob(f"{_EXTENSION}.*"):
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 1)
        connection.load_extension(str(file))
        return
    from apsw import sqlite_extra

    if sqlite_extra.has(_EXTENSION) != "extension":
        raise LookupError(_EXTENSION)
    sqlite_extra.load(connection, _EXTENSION)


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
            f"{path}: its pages have checksums, which this build of apsw, or the VFS that somebody "
            "made the default of this process, does not keep; install apsw as a wheel"
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
