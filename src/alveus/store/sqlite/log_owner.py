"""Whose a write-ahead log is: noted for as long as it is there, beside the database.

SQLite lays the log that it finds at a path over whatever database is there. If somebody moved
another file to that path, and the process that had the first one open was killed, the pages of both
would be mixed. So before a database is opened, the note says whether the log is that of another.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from alveus.errors import Unusable
from alveus.store.fsync import give_to_owner
from alveus.store.sqlite.lock_files import create_private

NAME = "log"
"""The note, in the folder beside the database: numbers of the database, and of its log."""


Identity: TypeAlias = tuple[int, int]
"""What tells a file from any other: its device, and its number there."""


def identity(path: str | Path) -> Identity | None:
    """Return what tells the file at *path* from any other; None: there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - at every commit, and twice as quick
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def note(folder: Path, path: Path) -> None:
    """Write down that the log beside *path* belongs to the database that is there.

    Where there is no room for that, the log is that of nobody known.
    """
    database, log = identity(path), identity(f"{path}-wal")
    if database is None or log is None or _noted(folder) == (database, log):
        return
    new = folder / f"{NAME}.new"
    with suppress(OSError):
        new.unlink(missing_ok=True)
        create_private(new)
        give_to_owner(new, folder)
        new.write_text(" ".join(map(str, (*database, *log))), encoding="ascii")
        new.replace(folder / NAME)


def forget(folder: Path, path: Path) -> None:
    """Remove the note, if the log is gone."""
    if identity(f"{path}-wal") is None:
        with suppress(OSError):
            (folder / NAME).unlink()


def refuse_other(folder: Path, path: Path) -> None:
    """Refuse to open what is at *path* where the log beside it belongs to another file.

    Raises:
        Unusable: It does.
    """
    noted = _noted(folder)
    if noted is None:
        return
    owner, log = noted
    found = identity(path)
    if found == owner or identity(f"{path}-wal") != log or not _holds_something(f"{path}-wal"):
        return
    problem = "is gone" if found is None else "was replaced by another file"
    raise Unusable(
        f"{path} {problem}, but {path}-wal still holds what was written last to the file before "
        f"it. Move that file back; or, if what was written last may be lost, delete {path}-wal "
        f"and {path}-shm"
    )


def _holds_something(log: str) -> bool:
    with suppress(FileNotFoundError):
        return Path(log).stat().st_size > 0
    return False


def _noted(folder: Path) -> tuple[Identity, Identity] | None:
    """Return the database and the log of the note; None: there is none that can be read."""
    with suppress(OSError, ValueError):
        first, second, third, fourth = map(int, (folder / NAME).read_text("ascii").split())
        return (first, second), (third, fourth)
    return None
