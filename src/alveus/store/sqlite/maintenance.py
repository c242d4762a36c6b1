"""Maintenance of a store file: figures, copies, free pages, and removal of erased data.

A deleted row remains in free pages of the file until they are overwritten, and in copies of pages
in the write-ahead log. Only rewriting the whole file (VACUUM) and emptying the log certainly remove
it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import apsw

from alveus.errors import NotAStore, NotFound, StoreDamaged, StoreReadOnly
from alveus.store import StoredReceipt, StoreStats
from alveus.store.files import part_of, sync_folder, try_lock
from alveus.store.sql import erasing, ledger, past
from alveus.store.sql.connection import query
from alveus.store.sqlite import checksums, schema
from alveus.store.sqlite.connection import (
    BUSY_MS,
    CallSubject,
    SqliteConnection,
    as_alveus_error,
    connect,
)
from alveus.store.sqlite.locks import file_system
from alveus.store.sqlite.log_mover import LogMover
from alveus.values.forks import call_within

IN_PASSING = 500
"""The most pages that a writer returns to the disk when it moves the log; this takes some 10 ms."""

SPARE = 0.25
"""The share of a file that may stay free before pages are returned automatically."""

MIN_FREE_PAGES = 256
"""Free pages (1 MB) that are never returned automatically."""

_TRIM_CHANGES = """
    DELETE FROM change WHERE seq <= (SELECT max(seq) FROM change)
        - max(?, (SELECT 2 * ifnull(sum(items), 0) FROM memory_set))
"""

FEW_LINES = 10_000
"""Lines of the change log that are kept even if there are few items."""


def free_bytes(db: SqliteConnection) -> int:
    """Return the unused bytes of the file."""
    return db.pragma("freelist_count") * db.pragma("page_size")


def give_back(db: SqliteConnection, *, pages: int, spare: float = 0.0) -> int:
    """Return up to *pages* free pages to the disk, inside a transaction. Return their bytes.

    Args:
        spare: Share of the file that may stay free. If it is not 0, `MIN_FREE_PAGES` pages always
            may.
    """
    free = db.pragma("freelist_count")
    if spare:
        free -= max(MIN_FREE_PAGES, int(spare * db.pragma("page_count")))
    if free <= 0:
        return 0
    before = db.pragma("page_count")
    query(db, f"PRAGMA incremental_vacuum({min(free, pages)})")
    return (before - db.pragma("page_count")) * db.pragma("page_size")


def shrink(db: SqliteConnection, *, limit: int, keep_free: float) -> tuple[int, bool]:
    """Return up to *limit* bytes to the disk. Return their number, and whether none can follow.

    If *keep_free* is 0, first delete old lines of the change log: only two lines for each item, and
    at least `FEW_LINES`, are kept. More lines take longer to read than the items.

    Args:
        keep_free: Share of the file that may stay free.
    """
    if not keep_free:
        query(db, _TRIM_CHANGES, FEW_LINES)
    pages = max(1, limit // db.pragma("page_size"))
    given = give_back(db, pages=pages, spare=keep_free)
    return given, not (given and free_bytes(db))


def shrink_files(db: SqliteConnection, *, path: Path, mover: LogMover, folder: Path) -> None:
    """Empty the log, and delete index files of sets that are deleted or too small to need one."""
    empty_log(db, path, mover)
    files = {int(file.stem) for file in (folder / "index").glob("*.seg")}
    sql = "SELECT id FROM memory_set WHERE id IN (SELECT value FROM carray(?)) AND items >= ?"
    kept = query(db, sql, db.numbers([*files]), SMALL)
    clear_files(folder / "index", files.difference(number for (number,) in kept))


READERS_MS = 500
"""How long to wait for readers that hold pages of the log."""

PAUSE_S = 0.01
"""Pause between two tries to empty the log."""

_FIRST_READ_LOCK, _LAST_READ_LOCK, _OPEN_LOCK = 123, 127, 128
"""Bytes of the -shm file that SQLite locks: by readers, and by processes with the file open."""

SMALL = 10_000
"""A set with fewer items needs no file of the index, which makes files for twice as many items."""

LOCKS = Path("/proc/locks")

IN_RAM = 256_000_000
"""The largest database, in bytes, that is rewritten by way of RAM.

A larger one is rewritten by way of a nameless file in SQLite's folder for temporary files (the
environment variable SQLITE_TMPDIR).
"""


def rewrite_erased(
    db: SqliteConnection, unfinished: Sequence[StoredReceipt]
) -> list[StoredReceipt]:
    """Rewrite the whole database if it still holds erased data. Return the updated receipts.

    The caller holds the write lock, and no transaction is open.
    """
    if all(kept.state == "rewritten" for kept in unfinished):
        return list(unfinished)
    vacuum(db)
    done = [replace(kept, state="rewritten") for kept in unfinished]
    with db:
        for kept in done:
            erasing.update_receipt(db, kept)
    return done


def vacuum(db: SqliteConnection) -> None:
    """Rewrite the whole database, atomically.

    The caller holds the write lock, and no transaction is open.
    """
    large = db.pragma("page_count") * db.pragma("page_size") > IN_RAM
    db.execute(f"PRAGMA temp_store = {'FILE' if large else 'MEMORY'}")
    try:
        db.execute("VACUUM")
    finally:
        db.execute("PRAGMA temp_store = MEMORY")


def empty_log(db: SqliteConnection, path: Path, mover: LogMover) -> list[str]:
    """Move the whole log into the database, and truncate the log.

    Return descriptions of what prevented this; the list is empty if nothing did.
    """
    checksums.head(db)
    deadline = time.monotonic() + READERS_MS / 1000
    db.set_busy_timeout(READERS_MS)
    try:
        while not call_within(mover.moving(), partial(_emptied, db)):
            if time.monotonic() > deadline:
                return readers(path) or [
                    "a reader has an old state of the store open, or another process moves its log"
                ]
            time.sleep(PAUSE_S)
    finally:
        db.set_busy_timeout(BUSY_MS)
    return []


def _emptied(db: SqliteConnection, is_alone: bool) -> bool:  # noqa: FBT001 - of a block
    if not is_alone:
        return False
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:  # SQLite waits for readers, but not for a process that moves the log now
        return False
    return True


# --- who has the files open -------------------------------------------------------------------


def readers(path: Path) -> list[str]:
    """Return a text for each process that reads the store, as far as the system reports them."""
    found = _lockers(path, _FIRST_READ_LOCK, _LAST_READ_LOCK)
    return [f"{_named(process)} reads the store" for process in found]


def other_processes(path: Path) -> list[int]:
    """Return the ids of other processes with the store open, as far as the system reports them."""
    return [process for process in _lockers(path, _OPEN_LOCK, _OPEN_LOCK) if process != os.getpid()]


def _named(process: int) -> str:
    which = " (this one)" if process == os.getpid() else ""
    return f"process {process}{which} of host {os.uname().nodename}"


def _lockers(path: Path, start: int, end: int) -> list[int]:
    return sorted({process for process, low, high in _locks(path) if low <= end and high >= start})


def _locks(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yield (process, first byte, last byte) for each lock on the -shm file."""
    with suppress(OSError):
        shm = Path(f"{path}-shm").stat()
        device = f"{os.major(shm.st_dev):02x}:{os.minor(shm.st_dev):02x}:{shm.st_ino}"
        for line in LOCKS.read_text().splitlines():
            words = line.replace("->", "").split()
            if device in words:
                at = words.index(device)
                low, high = words[at + 1 : at + 3]
                if int(words[at - 1]) > 0:  # else a process of another container has it
                    yield int(words[at - 1]), int(low), (1 << 62) if high == "EOF" else int(high)


def clear_files(folder: Path, sets: Collection[int]) -> list[int]:
    """Delete the sealed index files of *sets*, durably. Return the sets that are being sealed now.

    A process that seals a set locks a file beside the sealed file, reads the set, checks for
    deletions since, and keeps the lock until the sealed file is at its path. So once the lock was
    free, no new file contains data that were erased before.
    """
    busy = [number for number in sorted(sets) if not _cleared(folder, number)]
    if folder.exists():
        sync_folder(folder)
    return busy


def _cleared(folder: Path, number: int) -> bool:
    beside = folder / f"{number}.new"
    try:
        descriptor = os.open(beside, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        (folder / f"{number}.seg").unlink(missing_ok=True)
        # A process that began to seal the set since reads the present rows.
        return True
    try:
        is_free = try_lock(descriptor)
        if is_free:
            beside.unlink(missing_ok=True)
            (folder / f"{number}.seg").unlink(missing_ok=True)
        return is_free
    finally:
        os.close(descriptor)


BACKUP_PAGES = 2_000

_ERASED = "SELECT EXISTS (SELECT 1 FROM receipt WHERE state = 0)"


def file_stats(db: SqliteConnection, path: Path) -> StoreStats:
    """Return the statistics of the store, with the sizes of its files."""
    return replace(
        ledger.table_stats(db),
        file_bytes=size_of(path),
        wal_bytes=size_of(Path(f"{path}-wal")),
        free_bytes=free_bytes(db),
        details={
            "sqlite": apsw.sqlite_lib_version(),
            "schema": db.pragma("user_version"),
            "file_system": file_system(path),
            "versions_to_sweep": past.count_overdue(db),
        },
    )


def size_of(path: Path) -> int:
    """Return the bytes of a file, 0 if it does not exist."""
    return path.stat().st_size if path.exists() else 0


def backup(db: SqliteConnection, target: Path) -> None:
    """Copy the current store, without erased data, to *target*, atomically."""
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}; create it first")
    with part_of(target) as part:
        copy = SqliteConnection(str(part), vfs=checksums.vfs())
        try:
            if checksums.are_kept(db):
                checksums.reserve(copy)
                copy.pragma("application_id", schema.APPLICATION_ID)  # from now on its VFS computes
            with db:  # one snapshot for the whole copy, whatever is written meanwhile
                db.execute("SELECT 1 FROM note").fetchall()
                with copy.backup("main", db, "main") as work:
                    while not work.done:
                        work.step(BACKUP_PAGES)
            copy.execute("PRAGMA journal_mode = DELETE")
            if copy.execute(_ERASED).get:  # pages that are free were copied too
                vacuum(copy)
        finally:
            copy.close()
        part.replace(target)
    sync_folder(target.parent)


def restore(db: SqliteConnection, source: Path, *, side_files: Path) -> None:
    """Replace the contents of an open store, damaged pages too, by a backup, in one transaction.

    Side files of the old contents are deleted durably before. After a kill they could seem to match
    the new contents, because the change log of the backup may have the same line numbers.

    Raises:
        NotFound, NotAStore, StoreTooNew, StoreDamaged: See `opened_backup`.
    """
    with opened_backup(source) as copy:
        drop_side_files(side_files)
        # The VFS writes checksums into pages until it has seen a head that reserves no bytes for
        # them. The head is written first, unless other pages leave the cache before.
        db.pragma("cache_spill", checksums.are_kept(db) == checksums.are_kept(copy))
        try:
            with checksums.unverified(db), db.backup("main", copy, "main") as work:
                while not work.done:
                    work.step(BACKUP_PAGES)
        finally:
            db.pragma("cache_spill", True)  # noqa: FBT003 - apsw's


@contextmanager
def opened_backup(source: Path) -> Generator[SqliteConnection]:
    """Open a backup for reading; errors name the backup.

    Raises:
        NotFound: The backup does not exist.
        NotAStore: The file is something else, or empty, such as a copy made on a full disk.
        StoreTooNew: A newer alveus made the backup.
        StoreDamaged: The backup cannot be read, now or in the block.
    """
    if not source.exists():
        raise NotFound(f"there is no backup {source}; pass the path of an existing file")
    if not source.is_file():
        raise NotAStore(source, "is not a file; pass another path")
    copy = connect(source, read_only=True, immutable=not Path(f"{source}-wal").exists())
    try:
        if not schema.check(copy, source):
            raise NotAStore(source, "is empty; pass another backup")
        yield copy
    except apsw.Error as error:
        problem = as_alveus_error(error, CallSubject(str(source)))
        if isinstance(problem, StoreDamaged | NotAStore):
            raise problem from error
        raise
    finally:
        copy.close()


def refuse_closed(folder: Path) -> None:
    """Raise `StoreReadOnly` if this user may not delete files from *folder*."""
    if folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise StoreReadOnly(
            f"{folder} holds files to delete, but this user cannot read and write it; grant "
            "that right, or run this as the owner of the folder"
        )


def drop_side_files(folder: Path) -> None:
    """Delete the side files made from a store's contents, durably."""
    refuse_closed(folder)
    if folder.exists():
        import shutil  # takes long to import, and is needed only here

        shutil.rmtree(folder)
        sync_folder(folder.parent)
