"""Removing from the files what was erased: rewriting the database, emptying its log, side files.

A deleted row stays in the pages of a database file until they are written over, and in copies of
pages in the write-ahead log; only a rewrite of the whole file (VACUUM) and an empty log are proof.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import apsw

from alveus.store import StoredReceipt
from alveus.store.fsync import sync_folder
from alveus.store.sql import erased_runs
from alveus.store.sql.connection import query
from alveus.store.sqlite import checksums
from alveus.store.sqlite.connection import BUSY_MS, SqliteConnection
from alveus.store.sqlite.log_mover import LogMover
from alveus.values.forks import call_within

READERS_MS = 500
"""How long readers are waited for that hold pages of the log."""

PAUSE_S = 0.01
"""Pause between two tries to empty it."""

_FIRST_READ_LOCK, _LAST_READ_LOCK, _OPEN_LOCK = 123, 127, 128
"""Bytes of the -shm file that SQLite locks: for each who reads, and for each who has it open."""

SMALL = 10_000
"""Items under which a set is served from RAM: the index seals sets of twice as many."""

LOCKS = Path("/proc/locks")

IN_RAM = 256_000_000
"""Bytes of a database up to which it is rewritten by way of RAM; a larger one by a nameless file
in SQLite's folder for such files (the environment variable SQLITE_TMPDIR)."""


def rewrite(db: SqliteConnection, unfinished: Sequence[StoredReceipt]) -> list[StoredReceipt]:
    """Write the whole database anew, if it still holds what was erased; return the receipts.

    The write lock is held, and no transaction is open.
    """
    if all(kept.state == "rewritten" for kept in unfinished):
        return list(unfinished)
    vacuum(db)
    done = [replace(kept, state="rewritten") for kept in unfinished]
    with db:
        for kept in done:
            erased_runs.update_receipt(db, kept)
    return done


def vacuum(db: SqliteConnection) -> None:
    """Write the whole database anew; all of it or nothing, whatever happens meanwhile.

    The write lock is held, and no transaction is open.
    """
    large = db.pragma("page_count") * db.pragma("page_size") > IN_RAM
    db.execute(f"PRAGMA temp_store = {'FILE' if large else 'MEMORY'}")
    try:
        db.execute("VACUUM")
    finally:
        db.execute("PRAGMA temp_store = MEMORY")


def empty_log(db: SqliteConnection, path: Path, mover: LogMover) -> list[str]:
    """Move all of the log into the database, and cut it; return who hinders that, in words."""
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
    except apsw.BusyError:  # SQLite waits for readers, but for nobody who moves the log just now
        return False
    return True


def clear_side_files(folder: Path, unfinished: Sequence[StoredReceipt]) -> list[str]:
    """Remove side files of sets that lost rows; return who hinders that, in words."""
    sets = {number for kept in unfinished for number in kept.erased.sets}
    return [f"a process writes the index of set {n}" for n in clear_files(folder / "index", sets)]


def clear_small_sets(db: SqliteConnection, folder: Path) -> None:
    """Remove side files of sets that are gone, or too small by now to be served from one."""
    files = {int(path.stem) for path in (folder / "index").glob("*.seg")}
    sql = "SELECT id FROM memory_set WHERE id IN (SELECT value FROM carray(?)) AND items >= ?"
    kept = query(db, sql, db.numbers([*files]), SMALL)
    clear_files(folder / "index", files.difference(number for (number,) in kept))


# --- who has the files open -------------------------------------------------------------------


def readers(path: Path) -> list[str]:
    """Return in words which processes read an old state, as far as this system tells."""
    found = _lockers(path, _FIRST_READ_LOCK, _LAST_READ_LOCK)
    return [f"{_named(process)} reads the store" for process in found]


def others(path: Path) -> list[int]:
    """Return the other processes that have the store open, as far as this system tells."""
    return [process for process in _lockers(path, _OPEN_LOCK, _OPEN_LOCK) if process != os.getpid()]


def _named(process: int) -> str:
    own = " (this one)" if process == os.getpid() else ""
    return f"process {process}{own} of host {os.uname().nodename}"


def _lockers(path: Path, start: int, end: int) -> list[int]:
    return sorted({process for process, low, high in _locks(path) if low <= end and high >= start})


def _locks(path: Path) -> Iterator[tuple[int, int, int]]:
    """Yield (process, first byte, last byte) of locks on the -shm file."""
    with suppress(OSError):
        place = Path(f"{path}-shm").stat()
        device = f"{os.major(place.st_dev):02x}:{os.minor(place.st_dev):02x}:{place.st_ino}"
        for line in LOCKS.read_text().splitlines():
            words = line.replace("->", "").split()
            if device in words:
                at = words.index(device)
                low, high = words[at + 1 : at + 3]
                if int(words[at - 1]) > 0:  # else it is of another container
                    yield int(words[at - 1]), int(low), (1 << 62) if high == "EOF" else int(high)


def clear_files(folder: Path, sets: Collection[int]) -> list[int]:
    """Remove the sealed files of *sets*; return those that a process is just sealing.

    Whoever seals a set has its file beside locked from before it reads the set until the file is
    in its place, and looks before that whether something was removed meanwhile. So once the lock
    was free, no file comes that holds what was erased before. No loss of power brings back what
    was removed, here or before.
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
        # One may have begun to be sealed in between: then it reads what is there now.
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        beside.unlink(missing_ok=True)
        (folder / f"{number}.seg").unlink(missing_ok=True)
        return True
    finally:
        os.close(descriptor)
