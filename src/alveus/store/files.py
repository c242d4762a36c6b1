"""Ways to write a file so that it appears whole or not at all, and survives loss of power."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from alveus.errors import StoreBusy


def sync_folder(folder: Path) -> None:
    """Make new, renamed and deleted files of a folder survive loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def give_to_owner(path: Path, like: Path) -> None:
    """If root runs this process, give the file at *path* to the owner of *like*.

    SQLite does the same with its log.
    """
    if os.geteuid():
        return
    with suppress(OSError):  # a system that maps users may not have this user
        owner = like.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def try_lock(descriptor: int) -> bool:
    """Try to lock an open file. Return False if another process has locked the file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


POLL_S = 0.01
"""Pause between two tries for a file that another process writes."""


@contextmanager
def part_of(target: Path, *, wait_s: float = 0.0) -> Generator[Path]:
    """Yield the path of an empty file, which the caller writes and then renames to *target*.

    The file is in the folder of *target*, and is deleted if the block raises. It is locked during
    the block, so that other processes can distinguish it from the remains of a killed process.

    Raises:
        StoreBusy: Another process was writing *target* for longer than *wait_s*.
    """
    part = target.with_name(f"{target.name}.part")
    with _locked(part, target, time.monotonic() + wait_s) as file:
        try:
            _journal_of(part).unlink(missing_ok=True)
            file.truncate(0)
            os.fchmod(file.fileno(), 0o600)
            yield part
        except BaseException:
            _journal_of(part).unlink(missing_ok=True)
            part.unlink(missing_ok=True)
            raise


def _locked(part: Path, target: Path, deadline: float) -> IO[bytes]:
    """Return the file *part*, open and locked.

    If an interrupt comes, Python closes the file, which releases the lock.
    """
    while True:
        file = open(part, "r+b", buffering=0, opener=_opened)  # noqa: SIM115 - the caller closes it
        try:
            if not try_lock(file.fileno()):
                if time.monotonic() >= deadline:
                    raise StoreBusy(  # noqa: TRY301 - here, so that the file is closed
                        f"another process is writing {target}; try again later, or pass another "
                        "path"
                    )
                time.sleep(POLL_S)
            else:
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), part.stat()):
                        return file
        except BaseException:
            file.close()
            raise
        file.close()  # another process uses the file, or has completed or deleted it meanwhile


def _opened(path: str, _flags: int) -> int:
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)


def _journal_of(part: Path) -> Path:
    return Path(f"{part}-journal")
