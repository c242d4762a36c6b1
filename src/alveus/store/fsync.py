"""Names in a folder: that they survive loss of power, and whose the files are that they name."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Have what was made, renamed and removed in a folder survive loss of power.

    A sync of a file keeps its contents; its name is an entry of the folder, and has to be synced
    there.

    Raises:
        OSError: The folder cannot be opened, or not be synced.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def give_to_owner(path: Path, like: Path) -> None:
    """Give what root made at *path* to the owner of *like*, as SQLite does with its log.

    Else whoever the store belongs to could not open it after ``sudo alveus``.
    """
    if os.geteuid():
        return
    with suppress(OSError):  # of a system that maps users, and knows no such one
        owner = like.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
