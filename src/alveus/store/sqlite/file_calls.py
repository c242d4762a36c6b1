"""What each commit asks of the system about files, by compiled code where there is some.

Python lets go of its lock around each such call, and among many threads may wait for it then; and
what it tells of a file are twenty fields, of which two are needed. The functions below say what
`_file_calls.c` does.
"""

from __future__ import annotations

import fcntl
import os
from typing import Protocol, TypeAlias, cast

from alveus.values.compiled_modules import compiled

Identity: TypeAlias = tuple[int, int]
"""What tells a file from any other: its device, and its number there."""


class FileCalls(Protocol):
    """What both have."""

    def identity(self, path: str | os.PathLike[str], /) -> Identity | None:
        """Return what tells the file at *path* from any other; None: there is none."""
        ...

    def take_at_once(self, turn: int, lock: int, name: bytes, /) -> bool:
        """Take the lock of an open file if no other process has it, or waits for it.

        Args:
            turn: A file whose lock has whoever waits; it is free afterwards.
            lock: The file; its first bytes are *name* then.
        """
        ...


def _identity(path: str | os.PathLike[str], /) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - at every commit, and twice as quick
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _take_at_once(turn: int, lock: int, name: bytes, /) -> bool:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            fcntl.flock(turn, fcntl.LOCK_UN)
    except BlockingIOError:
        return False
    os.pwrite(lock, name, 0)
    return True


_COMPILED = cast(
    "FileCalls | None",
    compiled("alveus.store.sqlite._file_calls", ("identity", "take_at_once")),
)

identity = _identity if _COMPILED is None else _COMPILED.identity
take_at_once = _take_at_once if _COMPILED is None else _COMPILED.take_at_once
