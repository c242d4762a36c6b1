"""Connections to one database file, set up alike, and SQLite's errors in our words."""

from __future__ import annotations

import array
import errno
import functools
import os
import resource
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast

import apsw

from fornix.errors import (
    FornixError,
    NotAStore,
    StoreBusy,
    StoreClosed,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    TooLarge,
    Unavailable,
)
from fornix.store.records import is_meant

APPLICATION_ID = 0x666F726E
"""``forn``: tells a fornix store from other SQLite files."""

SCHEMA = 2
"""The newest schema this code knows; `migrations/` has a file for each number."""

BUSY_MS = 10_000
"""How long SQLite itself waits for a lock; ours are waited for outside it."""

CACHE_KIB = 16_384
"""Page cache of one connection."""

FILES_NEEDED = 12
"""Descriptors that an open store takes, and a few."""

_TOO_MANY = (errno.EMFILE, errno.ENFILE)

Row: TypeAlias = tuple[Any, ...]
"""A row as SQLite gives it: the query beside its use says what each column is."""

P = ParamSpec("P")
R = TypeVar("R")


_CANNOT_OPEN = (
    "its files cannot be opened; let this process write its folder, or open it with mode='ro'"
)


def translated(function: Callable[P, R]) -> Callable[P, R]:
    """Make *function* raise fornix's errors in place of SQLite's."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (apsw.SQLError, apsw.BindingsError, apsw.MisuseError):
            raise  # a fault of ours, not of the caller's or the machine's
        except (apsw.Error, OSError, UnicodeDecodeError) as error:
            raise in_our_words(error, _place(args)) from error

    return call


def _place(args: tuple[object, ...]) -> str:
    """Return which store a call was about: an open one, or the path that one is opened at."""
    if len(args) > 1 and isinstance(args[0], type):
        return str(args[1])
    return str(getattr(args[0], "location", "the store")) if args else "the store"


def in_our_words(error: apsw.Error | OSError | UnicodeDecodeError, place: str) -> FornixError:
    """Return the fornix error that says what *error* at *place* means for the caller."""
    kinds: list[tuple[type[Exception], type[FornixError], str]] = [
        (apsw.FullError, StoreFull, "the disk is full; free some room and try again"),
        (apsw.ReadOnlyError, StoreReadOnly, "the store cannot be written; mode='ro' only reads"),
        (apsw.CantOpenError, StoreReadOnly, _CANNOT_OPEN),
        (apsw.PermissionsError, StoreReadOnly, "the store's files may not be opened"),
        (apsw.AuthError, StoreReadOnly, "the store may not be opened"),
        (PermissionError, StoreReadOnly, "its files may not be written; mode='ro' only reads"),
        (apsw.BusyError, StoreBusy, "another program holds the database; try again"),
        (apsw.LockedError, StoreBusy, "the database is locked; try again"),
        (apsw.ConnectionClosedError, StoreClosed, "the store was closed; open it again"),
        (apsw.TooBigError, TooLarge, "a value is over SQLite's limit of 1 GB; store it in parts"),
    ]
    if _lacks_files(error):
        return Unavailable(
            f"{place}: this process has too many files open ({error}); close some, or allow it "
            f"more than {resource.getrlimit(resource.RLIMIT_NOFILE)[0]:,}: ulimit -n, "
            "LimitNOFILE= of a service"
        )
    for theirs, ours, words in kinds:
        if isinstance(error, theirs):
            return ours(f"{place}: {words} ({error})")
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)):
        return NotAStore(place, f"is not a fornix store, or is damaged ({error})")
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return StoreFull(f"{place}: the disk is full; free some room and try again ({error})")
    return Unavailable(f"{place} could not be used: {type(error).__name__}: {error}")


def _lacks_files(error: Exception) -> bool:
    """Return whether *error* came because no more files may be opened.

    SQLite does not say why it could not open one; and some may have been closed again since.
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


def query(db: apsw.Connection, sql: str, *bindings: object) -> list[Row]:
    """Return all rows of a query."""
    return db.execute(sql, cast("Any", bindings)).fetchall()


def first(db: apsw.Connection, sql: str, *bindings: object) -> Any:  # noqa: ANN401 - as the query says
    """Return the first row of a query, or its only column; None: no row."""
    return db.execute(sql, cast("Any", bindings)).get


def numbers(values: Sequence[int]) -> object:
    """Return whole numbers as a binding for ``carray(?)``."""
    return apsw.carray(array.array("q", values or [0]))


def texts(values: Sequence[str]) -> object:
    """Return texts, at least one, as a binding for ``carray(?)``."""
    return apsw.carray(tuple(values), flags=apsw.SQLITE_CARRAY_TEXT)


def connect(path: Path, *, read_only: bool = False, immutable: bool = False) -> apsw.Connection:
    """Return a connection that is set up as every one of fornix is."""
    flags = apsw.SQLITE_OPEN_READWRITE
    name = str(path)
    if read_only:
        flags = apsw.SQLITE_OPEN_READONLY
    if immutable:
        flags |= apsw.SQLITE_OPEN_URI
        name = f"{path.as_uri()}?immutable=1"
    connection = apsw.Connection(name, flags=flags, statementcachesize=200)
    connection.set_busy_timeout(BUSY_MS)
    # Closing the last connection would checkpoint and delete the log: only `SqliteFile.close` may,
    # while it holds the write lock; never a forked child, nor the garbage collector.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    for pragma in (
        f"cache_size = -{CACHE_KIB}",
        "temp_store = MEMORY",
        "recursive_triggers = OFF",
        "wal_autocheckpoint = 0",
        "trusted_schema = OFF",
    ):
        connection.execute(f"PRAGMA {pragma}")
    connection.create_scalar_function("is_meant", cast("Any", is_meant), 2, deterministic=True)
    return connection


def check(connection: apsw.Connection, path: Path) -> int:
    """Return the schema number of an open file; 0: empty.

    Raises:
        NotAStore: It is some other SQLite file.
        StoreTooNew: Its schema is newer than `SCHEMA`.
    """
    found = connection.pragma("user_version")
    empty = not connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    if empty and found == 0:
        return 0
    if connection.pragma("application_id") != APPLICATION_ID:
        raise NotAStore(path, "is an SQLite file, but not a fornix store; choose another path")
    if not isinstance(found, int) or found > SCHEMA:
        raise StoreTooNew(path, found=int(found or 0), known=SCHEMA)
    return found


def migrate(connection: apsw.Connection, *, found: int) -> None:
    """Bring an open file from schema *found* to `SCHEMA`, in one transaction.

    A new file gets `schema.sql`, which is the whole of it.
    """
    names = ["schema.sql"] if found == 0 else [f for n, f in migrations().items() if n > found]
    with connection:
        for name in names:
            connection.execute(sql(name))
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", SCHEMA)


def migrations() -> dict[int, str]:
    """Return the migration scripts: for each schema number the file that leads to it."""
    folder = resources.files(__package__).joinpath("migrations")
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".sql"))
    return {int(name.split("_", 1)[0]): f"migrations/{name}" for name in names}


def sql(name: str) -> str:
    """Return the text of an .sql file of this package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
