"""Files that appear whole or not at all, and that survive loss of power."""

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
    """Give a file that root made at *path* to the owner of *like*, as SQLite does with its log."""
    if os.geteuid():
        return
    with suppress(OSError):  # on a system that maps users, and has no such user
        owner = like.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def try_lock(descriptor: int) -> bool:
    """Lock an open file unless another process has locked it. Return whether it is locked here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


POLL_S = 0.01
"""Pause between two tries for a file that another process writes."""


@contextmanager
def part_of(target: Path, *, wait_s: float = 0.0) -> Generator[Path]:
    """Lend an empty file that becomes *target* after the block; if the block raises, it is deleted.

    The writer locks the file, which tells a file in use from the remains of a kill.

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
    """Return *part*, open and locked; an interrupt leaves no lock, as the file closes itself."""
    while True:
        file = open(part, "r+b", buffering=0, opener=_opened)  # noqa: SIM115 - the caller closes it
        try:
            if not try_lock(file.fileno()):
                if time.monotonic() >= deadline:
                    raise StoreBusy(  # noqa: TRY301 - here, so that the file is closed
                        f"another process is writing {target}; wait for it, or choose another path"
                    )
                time.sleep(POLL_S)
            else:
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(file.fileno()), part.stat()):
                        return file
        except BaseException:
            file.close()
            raise
        file.close()  # it is in use, or was completed or deleted meanwhile


def _opened(path: str, _flags: int) -> int:
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)


def _journal_of(part: Path) -> Path:
    return Path(f"{part}-journal")
