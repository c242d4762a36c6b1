"""What tests of faults need of the machine, whoever runs them: a small disk, a user without rights.

A test that cannot run fails; it never leaves itself out.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from alveus.store.sqlite import checksums

DROP_RIGHTS = """
import os as _os
if _os.getuid() == 0:
    _os.setgroups([])
    _os.setgid(65534)
    _os.setuid(65534)
"""
"""Code that makes a process of root one of nobody; anybody else's has no right to give up."""


@contextmanager
def closed_folder() -> Generator[Path]:
    """Give a folder that nobody may write to, from when the block has called `shut` on it."""
    folder = Path(tempfile.mkdtemp(prefix="alveus-rights-"))  # pytest's own are closed to others
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def shut(folder: Path, *files: Path) -> None:
    """Let everybody read a folder and these files of it, and nobody write there."""
    for file in files:
        file.chmod(0o444)
    folder.chmod(0o555)


@contextmanager
def small_disk(folder: Path, *, mount: bool = True) -> Generator[str]:
    """Make *folder* a disk of 2 MB; tell how: "mounted", or "pretended" where nobody may mount.

    The pretended one fails in SQLite's own way, at the write that is one too many.
    """
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(folder)]
    if mount and not subprocess.run(command, check=False, capture_output=True).returncode:
        try:
            yield "mounted"
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    disk = _SmallDisk(folder)
    try:
        with opened_by("small disk"):
            yield "pretended"
    finally:
        disk.unregister()


@contextmanager
def opened_by(vfs: str) -> Generator[None]:
    """Have stores be opened by another VFS, which rests on their own."""
    own = checksums.vfs
    checksums.vfs = lambda: vfs
    try:
        yield
    finally:
        checksums.vfs = own


class _SmallDisk(apsw.VFS):
    """SQLite's way to the file system, with a limit on what one folder takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__("small disk", checksums.vfs() or "")

    def xOpen(self, name, flags):  # noqa: N802 - apsw's
        return _SmallDiskFile(self.folder, name, flags)


class _SmallDiskFile(apsw.VFSFile):
    def __init__(self, folder: Path, name, flags) -> None:
        self.folder = folder
        # What SQLite forgives, as it closes, apsw would still raise: so only the log is limited.
        self.is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__(checksums.VFS, name, flags)

    def xWrite(self, data, offset):  # noqa: N802 - apsw's
        taken = sum(entry.stat().st_size for entry in self.folder.rglob("*"))
        grows = max(0, offset + memoryview(data).nbytes - self.xFileSize())
        if self.is_log and grows > 0 and taken + grows > 2_000_000:
            raise apsw.FullError("no room")
        super().xWrite(data, offset)
