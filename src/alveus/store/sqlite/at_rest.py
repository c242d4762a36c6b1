"""A file at rest: all is in it, and nobody writes to it."""

from __future__ import annotations

from pathlib import Path


def contents_at_rest(path: Path) -> object:
    """Return what tells the contents of a file that holds all; None: a log may hold more."""
    logs = [Path(f"{path}{suffix}") for suffix in ("-wal", "-journal")]
    return None if any(log.exists() and log.stat().st_size for log in logs) else contents(path)


def contents(path: Path) -> object:
    """Return what changes when a file is written to, or replaced."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
