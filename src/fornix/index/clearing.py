"""Removing the sealed files of sets of which something was forgotten."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection
from pathlib import Path


def clear_files(folder: Path, sets: Collection[int]) -> list[int]:
    """Remove the sealed files of *sets*; return those that a process is just sealing.

    Whoever seals a set has its file beside locked from before it reads the set until the file is
    in its place, and looks before that whether something was removed meanwhile. So once the lock
    was free, no file comes that holds what was erased before.
    """
    return [number for number in sorted(sets) if not _cleared(folder, number)]


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
