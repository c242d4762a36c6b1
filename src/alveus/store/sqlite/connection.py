"""Connections to a database file: configuration, lending, and translation of errors."""

from __future__ import annotations

import array
import errno
import functools
import json
import os
import resource
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar, cast

import apsw

from alveus.errors import (
    AlveusError,
    InvalidInput,
    NotAStore,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreFull,
    StoreReadOnly,
    TooLarge,
    Unavailable,
)
from alveus.errors.short_repr import short_repr
from alveus.store.finder import POSSIBLE_DAMAGE, damage_of
from alveus.store.records import has_meaning
from alveus.store.sql.connection import Write
from alveus.store.sqlite import checksums
from alveus.values.forks import FORKS
from alveus.values.lazy import lazy_attribute
from alveus.values.sqlite_connections import PlainConnection

BUSY_MS = 10_000
"""How long SQLite itself waits for a lock; alveus waits for its locks outside SQLite."""

CACHE_KIB = 16_384
"""The page cache of one connection, in KiB."""

LOG_KEPT_BYTES = 64_000_000
"""SQLite truncates a longer write-ahead log to this size when the log restarts."""

FILES_NEEDED = 12
"""The number of file descriptors that an open store needs, and a few more."""

_TOO_MANY = (errno.EMFILE, errno.ENFILE)

P = ParamSpec("P")
R = TypeVar("R")


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_FULL = {
    errno.ENOSPC: "the disk is full; free some room and try again",
    errno.EDQUOT: "the quota of this user is used up; free some room and try again",
    errno.EFBIG: (
        "a file has reached the largest size that this process may write; raise the limit: "
        "ulimit -f, LimitFSIZE= of a service"
    ),
}
"""System errors that prevent writing more, with advice."""

_NO_WRITES = (
    apsw.SQLITE_IOERR_WRITE,
    apsw.SQLITE_IOERR_TRUNCATE,
    apsw.SQLITE_IOERR_FSYNC,
    apsw.SQLITE_IOERR_DIR_FSYNC,
    apsw.SQLITE_IOERR_SHMSIZE,
    apsw.SQLITE_IOERR_SHMMAP,
)
"""SQLite's codes for a failed write."""

_CUT_MEANWHILE = (
    apsw.SQLITE_IOERR_SHORT_READ,
    apsw.SQLITE_IOERR_DELETE_NOENT,
    apsw.SQLITE_IOERR_RDLOCK,
)
"""SQLite's codes for a file that another process truncated or deleted ("cut") during a read.

SQLite's locks end when other code of this process closes the file. The locks of `FileGuard` exist
only once SQLite has the log open, and not for readers.
"""

_OPENINGS = 5
"""How often opening a store is tried if a file is cut meanwhile; see `_CUT_MEANWHILE`."""

_REFUSED = (
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.AuthError,
    PermissionError,
)

_FILES = (
    "", "-wal", "-shm", ".alveus", ".alveus/lock", ".alveus/turn", ".alveus/log", ".alveus/owners",
    ".alveus/index",
)  # fmt: skip
"""The suffixes of a store's files, and of the files beside it."""

_CUT_SHORT = (
    "a restore, repair or upgrade was interrupted; open the store once without mode='ro', which "
    "undoes it"
)

NEAR_LIMIT = 1 << 16
"""The most bytes of one write. A file that failed to grow is at most so far below its limit."""


class CallSubject(NamedTuple):
    """The store that a call uses, for the errors of the call.

    Attributes:
        errno: The system's number of the last failed write, 0 if unknown.
    """

    location: str
    read_only: bool = False
    errno: int = 0


def translated(function: Callable[P, R]) -> Callable[P, R]:
    """Make *function*, which opens a store, raise alveus's errors instead of SQLite's.

    The second argument of *function* must be the path of the store.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except StoreDamaged as error:
            if error.path is not None:
                raise
            raise StoreDamaged(str(args[1]), error.problem) from error
        except (apsw.Error, OSError, UnicodeDecodeError) as error:
            subject = CallSubject(str(args[1]), kwargs.get("read_only") is True)
            found = explained(error, subject)
            if found is None:
                raise
            raise found from error

    return call


def retried(function: Callable[P, R]) -> Callable[P, R]:
    """Make *function*, which opens a store, try again if a file was cut while it was read.

    See `_CUT_MEANWHILE`.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for _ in range(_OPENINGS - 1):
            try:
                return function(*args, **kwargs)
            except apsw.IOError as error:
                if not was_cut(error):
                    raise
        return function(*args, **kwargs)

    return call


def was_cut(error: Exception) -> bool:
    """Return whether *error* came from a file that was truncated or deleted while it was read.

    Then the call may be tried again.
    """
    return getattr(error, "extendedresult", 0) in _CUT_MEANWHILE


def explained(error: Exception, subject: CallSubject, store: object = None) -> AlveusError | None:
    """Return the alveus error for *error*, or None if *error* is a fault in alveus.

    Args:
        store: The open store of the call, whose file is examined for `POSSIBLE_DAMAGE`.
    """
    if isinstance(error, (apsw.SQLError, apsw.BindingsError, apsw.MisuseError, *POSSIBLE_DAMAGE)):
        if isinstance(error, UnicodeDecodeError):
            return as_alveus_error(error, subject)
        before = error.__context__
        if isinstance(before, apsw.Error):  # SQLite ended the transaction over that
            return as_alveus_error(before, subject)
        return damage_of(store)
    return as_alveus_error(error, subject) if isinstance(error, (apsw.Error, OSError)) else None


def as_alveus_error(
    error: apsw.Error | OSError | UnicodeDecodeError, subject: CallSubject
) -> AlveusError:
    """Return the alveus error that explains *error* to the caller."""
    location = subject.location
    if _lacks_files(error):
        return Unavailable(
            f"{location}: this process has too many files open ({error}); close some, or raise "
            f"the limit of {resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,}: ulimit -n, "
            "LimitNOFILE= of a service"
        )
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_ROLLBACK:
        return StoreReadOnly(f"{location}: {_CUT_SHORT} ({error})")
    hindrance = _hindrance(error, subject)
    if hindrance is not None:
        return StoreFull(f"{location}: {_FULL[hindrance]} ({error})")
    if isinstance(error, PermissionError) and not os.path.realpath(  # such as the file of a backup
        os.fsdecode(error.filename or location)
    ).startswith(os.path.realpath(location)):
        return StoreReadOnly(
            f"{error.filename}: {error.strerror}; give this process the right to write there, "
            "or pass another path"
        )
    if isinstance(error, _REFUSED):
        return StoreReadOnly(f"{location}: {_access(subject)} ({error})")
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return InvalidInput(
            f"{short_repr(error.filename or location)} is longer than a path may be; pass a "
            "shorter path"
        )
    kinds: list[tuple[type[Exception], type[AlveusError], str]] = [
        (apsw.BusyError, StoreBusy, "another program holds the database; try again"),
        (apsw.LockedError, StoreBusy, "the database is locked; try again"),
        (apsw.ConnectionClosedError, StoreClosed, "the store was closed; open it again"),
        (apsw.CursorClosedError, StoreClosed, "the store was closed; open it again"),
        (apsw.TooBigError, TooLarge, "a value is over SQLite's limit of 1 GB; store it in parts"),
    ]
    for theirs, ours, words in kinds:
        if isinstance(error, theirs):
            return ours(f"{location}: {words} ({error})")
    return _damaged(error, location) or Unavailable(
        f"{location} could not be used: {_kind(error)}: {error}"
    )


def _kind(error: Exception) -> str:
    """Return the name of the kind of *error*, as SQLite has one text for all disk errors."""
    code: int = getattr(error, "extendedresult", 0)
    return str(apsw.mapping_extended_result_codes.get(code, type(error).__name__))


def _damaged(error: Exception, location: str) -> AlveusError | None:
    """Return the error for damaged contents of a file, or None if *error* reports none."""
    if checksums.is_mismatch(error):
        return StoreDamaged(location, "a page of the file does not match its checksum")
    if isinstance(error, (apsw.CorruptError, UnicodeDecodeError)):
        return StoreDamaged(location, str(error))
    if isinstance(error, apsw.NotADBError):
        return NotAStore(location, f"is not an alveus store ({error})")
    return None


def _access(subject: CallSubject) -> str:
    """Return advice for a store whose files may not be opened as the call needs."""
    if os.access(subject.location, os.F_OK) and not os.access(subject.location, os.R_OK):
        rights = "read it" if subject.read_only else "read and write it, and write its folder"
        return f"its file cannot be read; give this process the right to {rights}"
    if subject.read_only:
        return (
            "its files cannot be read without writing beside them; let this process write to "
            "its folder, or read a copy that is not open elsewhere"
        )
    names = [f"{subject.location}{suffix}" for suffix in _FILES]
    closed = [name for name in names if os.access(name, os.F_OK) and not os.access(name, os.W_OK)]
    path = closed[0] if closed else "its folder"
    return (
        f"its files cannot be written; give this process the right to write {path}, or open it "
        "with mode='ro'"
    )


def _hindrance(error: Exception, subject: CallSubject) -> int | None:
    """Return the errno that explains why there was no room to write.

    Return None if a lack of room was not the cause of *error*.
    """
    if isinstance(error, OSError):
        return error.errno if error.errno in _NO_ROOM else None
    if isinstance(error, apsw.FullError):
        return errno.ENOSPC
    code = getattr(error, "extendedresult", None)
    if not isinstance(error, apsw.IOError) or code not in _NO_WRITES:
        return None
    if subject.errno in _NO_ROOM:
        return subject.errno
    path = Path(subject.location)
    if not path.parent.is_dir():
        return None
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    files = [file for file in path.parent.iterdir() if file.name.startswith(path.name)]
    if most != resource.RLIM_INFINITY and any(f.stat().st_size + NEAR_LIMIT > most for f in files):
        return errno.EFBIG
    disk = os.statvfs(path.parent)
    is_full = disk.f_bavail * disk.f_frsize < NEAR_LIMIT
    return errno.ENOSPC if is_full and not subject.errno else None


def _lacks_files(error: Exception) -> bool:
    """Return whether *error* came because this process may open no more files.

    SQLite's error does not say so; therefore this function tries to open some files.
    """
    if not isinstance(error, apsw.CantOpenError):
        return isinstance(error, OSError) and error.errno in _TOO_MANY
    with ExitStack() as probes:
        try:
            for _ in range(FILES_NEEDED):
                probes.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as found:
            return found.errno in _TOO_MANY
    return False


class SqliteConnection(PlainConnection):
    """A connection to SQLite with the methods that the shared statements use."""

    at_rest: object = None
    """The identity of the file's contents when this connection was opened to a file at rest."""
    _counted_pages: list[int]
    taken = apsw.ConstraintError

    @lazy_attribute
    def _writing(self) -> apsw.Cursor:
        return self.cursor()

    def numbers(self, values: Sequence[int]) -> object:
        """See `Connection.numbers`."""
        return apsw.carray(array.array("q", values or [0]))

    def json_of(self, rows: Sequence[int]) -> str:
        """See `Connection.json_of`."""
        return json.dumps(rows)

    def texts(self, values: Sequence[str]) -> object:
        """See `Connection.texts`."""
        return apsw.carray(tuple(values), flags=apsw.SQLITE_CARRAY_TEXT)

    def query_all(self, *queries: tuple[str, Sequence[Any]]) -> list[list[tuple[Any, ...]]]:
        """See `Connection.query_all`."""
        return [self.execute(sql, bindings).fetchall() for sql, bindings in queries]

    def write(self, *writes: Write) -> None:
        """See `Connection.write`."""
        run = self._writing.executemany  # one cursor for all: to make one takes half as long
        for sql, rows in writes:
            run(sql, rows)

    def count_pages(self) -> None:
        """Make `log_pages` report the length of the write-ahead log."""
        counted = self._counted_pages = list[int]()

        def count(_connection: apsw.Connection, _name: str, pages: int) -> int:
            counted[:] = [pages]
            return apsw.SQLITE_OK

        self.set_wal_hook(count)

    def log_pages(self) -> int:
        """Return the pages in the log after the last commit.

        Return 0 if there was no commit since the last call.
        """
        return self._counted_pages.pop() if self._counted_pages else 0

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - as apsw has it
        """Close the connection. A second call does nothing."""
        vars(self).pop("_writing", None)
        super().close(force)

    def settle(self) -> None:
        """Do nothing: SQLite completes each statement at once."""

    def roll_back(self, statement: str) -> None:
        """See `Connection.roll_back`."""
        self.execute(statement)

    def recover(self) -> None:
        """Do nothing: SQLite itself undoes a failed statement."""


def connect(path: Path, *, read_only: bool = False, immutable: bool = False) -> SqliteConnection:
    """Return a connection to the file at *path*, configured like all connections of alveus.

    Args:
        immutable: Whether nothing changes the file meanwhile, so that SQLite needs no locks.
    """
    flags = apsw.SQLITE_OPEN_READWRITE
    name = str(path)
    if read_only:
        flags = apsw.SQLITE_OPEN_READONLY
    if immutable:
        flags |= apsw.SQLITE_OPEN_URI
        name = f"{path.as_uri()}?immutable=1"
    connection = SqliteConnection(name, flags=flags, vfs=checksums.vfs(), statementcachesize=200)
    try:
        if not read_only:
            checksums.drop_undone(connection)
        _configure(connection)
    except BaseException:  # no traceback may keep the file open until it is collected
        connection.close()
        raise
    return connection


def _configure(connection: SqliteConnection) -> None:
    connection.set_busy_timeout(BUSY_MS)
    # Closing the last connection would checkpoint and delete the log: only `SqliteFile.close` may,
    # while it holds the write lock; never a forked child, nor the garbage collector.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # One plan serves all bindings; else SQLite plans again for each bound LIMIT.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    for pragma in (
        f"cache_size = -{CACHE_KIB}",
        "temp_store = MEMORY",
        "recursive_triggers = OFF",
        "wal_autocheckpoint = 0",
        f"journal_size_limit = {LOG_KEPT_BYTES}",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.create_scalar_function("is_meant", cast("Any", has_meaning), 2, deterministic=True)


_leave = FORKS.leave
"""`FORKS.leave`, looked up in advance: a look-up needs memory, and leaving must not fail."""


class Lender(Protocol):
    """An open file that lends connections; see `SqliteFile`."""

    def lend(self) -> SqliteConnection: ...  # noqa: D102 - see the class
    def take_back(self, db: SqliteConnection) -> None: ...  # noqa: D102 - the same


class Borrowed:
    """A reading connection, lent for a ``with`` block."""

    __slots__ = ("_db", "_file")

    def __init__(self, file: Lender) -> None:
        self._file = file

    def __enter__(self) -> SqliteConnection:
        try:
            FORKS.enter(self)
            self._db = self._file.lend()
        except BaseException:
            _leave(self)
            raise
        return self._db

    def __exit__(self, *_: object) -> None:
        try:
            self._file.take_back(self._db)
        finally:
            try:
                _leave(self)
            except BaseException:  # an interrupt: a caller left inside would block every fork
                _leave(self)
                raise


def contents_at_rest(path: Path) -> object:
    """Return the identity of a file's contents, or None if a log beside it may contain more."""
    logs = [Path(f"{path}{suffix}") for suffix in ("-wal", "-journal")]
    return None if any(log.exists() and log.stat().st_size for log in logs) else contents(path)


def contents(path: Path) -> object:
    """Return a value that changes when the file is written to, or replaced."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
