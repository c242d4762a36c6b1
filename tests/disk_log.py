"""Records what a disk is told, in one order: by SQLite through a VFS, by alveus through `os`.

`recording(folder)` notes every write, truncation and sync of every file below a folder, every name
that is made, renamed and removed there, and every sync of a folder. `disk_states` makes of such a
log what a disk may hold after a loss of power.

SQLite's ``-shm`` file is left out: it is rebuilt at opening, and nothing in it has to last. What is
written by way of `open` or `os.fdopen` is noted where the file is next synced, renamed or closed,
or at the next `DiskLog.note`, as writes of the pages that changed since.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import apsw

from alveus.store.sqlite import checksums
from hardship import opened_by

PAGE = 4096


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes were written into a file."""

    file: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file was cut or extended."""

    file: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    """All that was written into a file so far is on the disk."""

    file: int


@dataclass(frozen=True, slots=True)
class Rename:
    """A name came to stand for a file or folder.

    Attributes:
        old: The name that it had in the same folder; None: it is new.
        new: None: the name *old* was removed.
    """

    folder: int
    old: str | None
    new: str | None
    node: int


@dataclass(frozen=True, slots=True)
class SyncFolder:
    """All names that were made, changed and removed in a folder so far are on the disk."""

    folder: int


@dataclass(frozen=True, slots=True)
class Note:
    """What the program was told, or did, at this moment; no business of the disk."""

    text: str


Op: TypeAlias = Write | Truncate | Sync | Rename | SyncFolder | Note

ROOT = 0


@dataclass
class Tree:
    """Folders and files: a number for each, names in folders, contents of files."""

    folders: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})
    files: dict[int, bytearray] = field(default_factory=dict[int, bytearray])

    def find(self, parts: tuple[str, ...]) -> int | None:
        """Return what a path stands for."""
        node: int | None = ROOT
        for part in parts:
            if node is None:
                return None
            node = self.folders.get(node, {}).get(part)
        return node

    def paths(self, folder: int = ROOT, prefix: str = "") -> Generator[tuple[str, int]]:
        """Yield the path and number of everything below a folder, folders first."""
        for name, node in sorted(self.folders[folder].items()):
            yield prefix + name, node
            if node in self.folders:
                yield from self.paths(node, f"{prefix}{name}/")


class DiskLog:
    """What the disk was told since *root* was looked at for the first time.

    Attributes:
        before: What was there at the beginning, durably.
        ops: What came since.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.lock = threading.RLock()
        self._numbers = iter(range(1, 1 << 40))
        self.settle()

    def settle(self) -> None:
        """Take all that is there for durable, and begin anew; no store is open."""
        self.ops: list[Op] = []
        self.now = Tree()
        self._by_inode: dict[tuple[int, int], int] = {self._inode(self.root): ROOT}
        self._of_sqlite: set[int] = set()
        self._scan(self.root, ROOT)
        self.before = Tree(
            {node: dict(names) for node, names in self.now.folders.items()},
            {node: bytearray(data) for node, data in self.now.files.items()},
        )

    def _scan(self, place: Path, folder: int) -> None:
        for path in sorted(place.iterdir()):
            node = self._made(path, is_folder=path.is_dir())
            self.now.folders[folder][path.name] = node
            if path.is_dir():
                self._scan(path, node)
            else:
                self.now.files[node][:] = path.read_bytes()

    def _inode(self, place: Path | int) -> tuple[int, int]:
        found = os.stat(place)  # noqa: PTH116 - of a descriptor too
        return found.st_dev, found.st_ino

    def _made(self, path: Path, *, is_folder: bool) -> int:
        node = next(self._numbers)
        self._by_inode[self._inode(path)] = node
        if is_folder:
            self.now.folders[node] = {}
        else:
            self.now.files[node] = bytearray()
        return node

    # --- looking up -----------------------------------------------------------------------------

    def parts(self, path: Any, dir_fd: int | None = None) -> tuple[str, ...] | None:
        """Return the names that lead from the root to *path*; None: it is not for this log."""
        if isinstance(path, int):
            return None
        whole = Path(os.fsdecode(path))
        if dir_fd is not None:
            folder = self.number(dir_fd)
            if folder is None:
                return None
            whole = self._path(folder) / whole
        whole = Path(os.path.abspath(whole))  # noqa: PTH100 - what it links to is another file
        if whole == self.root or not whole.is_relative_to(self.root) or whole.name.endswith("-shm"):
            return None
        return whole.relative_to(self.root).parts

    def number(self, descriptor: int) -> int | None:
        """Return which file or folder an open descriptor is of."""
        return self._by_inode.get(self._inode(descriptor))

    def _path(self, wanted: int) -> Path:
        if wanted == ROOT:
            return self.root
        return self.root / next(path for path, node in self.now.paths() if node == wanted)

    # --- what happens ---------------------------------------------------------------------------

    def made(self, parts: tuple[str, ...], *, is_folder: bool = False, sqlite: bool = False) -> int:
        """Note that a file or folder is there; return its number."""
        node = self.now.find(parts)
        if node is None:
            node = self._made(self.root.joinpath(*parts), is_folder=is_folder)
            self._rename(parts[:-1], None, parts[-1], node)
        if sqlite and node not in self._of_sqlite:  # its locks would go if it were opened later
            self._capture(node)
            self._of_sqlite.add(node)
        return node

    def removed(self, parts: tuple[str, ...]) -> None:
        """Note that a name is gone."""
        node = self.now.find(parts)
        assert node is not None, f"{parts} was made behind the recorder's back"
        self._rename(parts[:-1], parts[-1], None, node)

    def renamed(self, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Note that something has another name in the same folder."""
        assert old[:-1] == new[:-1], "a rename across folders is not recorded"
        node = self.now.find(old)
        assert node is not None, f"{old} was made behind the recorder's back"
        self._rename(old[:-1], old[-1], new[-1], node)
        self._capture(node)  # as far as it was not yet known; the disk may do both in any order

    def _rename(self, folder: tuple[str, ...], old: str | None, new: str | None, node: int) -> None:
        above = self.now.find(folder)
        assert above is not None, f"{folder} was made behind the recorder's back"
        op = Rename(above, old, new, node)
        self.ops.append(op)
        rename(self.now, op)

    def write(self, file: int, offset: int, data: bytes) -> None:
        """Note a write."""
        self.ops.append(Write(file, offset, data))
        write(self.now.files[file], offset, data)

    def truncate(self, file: int, size: int) -> None:
        """Note a truncation."""
        if len(self.now.files[file]) != size:
            self.ops.append(Truncate(file, size))
            truncate(self.now.files[file], size)

    def sync(self, node: int) -> None:
        """Note the sync of a file or folder."""
        if node in self.now.folders:
            self.ops.append(SyncFolder(node))
        else:
            self._capture(node)
            self.ops.append(Sync(node))

    def sync_folder_of(self, parts: tuple[str, ...]) -> None:
        """Note that the folder that a name is in was synced."""
        above = self.now.find(parts[:-1])
        assert above is not None
        self.ops.append(SyncFolder(above))

    def note(self, text: str) -> None:
        """Note what the program was told."""
        with self.lock:
            for node in [node for _, node in self.now.paths() if node in self.now.files]:
                self._capture(node)
            self.ops.append(Note(text))

    def capture(self, descriptor: int) -> None:
        """Note what was written into an open file since it was last looked at."""
        node = self.number(descriptor)
        if node is not None and node in self.now.files:
            self._capture(node)

    def _capture(self, node: int) -> None:
        """Note as writes of pages what changed in a file that SQLite does not write."""
        if node in self._of_sqlite or all(node != other for _, other in self.now.paths()):
            return
        found, known = self._path(node).read_bytes(), self.now.files[node]
        if found == known:
            return
        if len(found) < len(known):
            self.truncate(node, len(found))
        for start in range(0, len(found), PAGE):
            page = found[start : start + PAGE]
            if page != known[start : start + PAGE]:
                self.write(node, start, page)

    def check(self) -> None:
        """Assert that the folder is as the log says; no store is open any more."""
        there = {str(path.relative_to(self.root)): path for path in self.root.rglob("*")}
        told = {path: node for path, node in self.now.paths() if not path.endswith("-shm")}
        assert there.keys() == told.keys()
        for path, node in told.items():
            if node in self.now.files:
                assert there[path].read_bytes() == self.now.files[node], path


def write(data: bytearray, offset: int, new: bytes) -> None:
    """Write into a file as it is in RAM; a hole reads as zeros."""
    if offset > len(data):
        data.extend(bytes(offset - len(data)))
    data[offset : offset + len(new)] = new


def truncate(data: bytearray, size: int) -> None:
    """Cut or extend a file as it is in RAM."""
    del data[size:]
    data.extend(bytes(size - len(data)))


def rename(tree: Tree, op: Rename) -> None:
    """Apply what became of a name; without effect where it has become something else."""
    names = tree.folders[op.folder]
    if op.old is not None and names.get(op.old) == op.node:
        del names[op.old]
    if op.new is not None:
        names[op.new] = op.node


# --- SQLite's part ------------------------------------------------------------------------------

_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


class RecordedFile(apsw.VFSFile):
    """A file of SQLite's in the recorded folder; all but the noting is done by its own VFS."""

    def __init__(self, base: str, name: Any, flags: list[int], log: DiskLog) -> None:
        asked, parts = flags[0], log.parts(_text(name))
        assert parts is not None
        super().__init__(base, name, flags)
        self._log, self._parts = log, parts
        self._node = log.made(parts, sqlite=True)
        self._is_new_journal = bool(asked & apsw.SQLITE_OPEN_CREATE and asked & _JOURNALS)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        """See SQLite's io methods."""
        with self._log.lock:
            super().xWrite(data, offset)
            self._log.write(self._node, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        """See SQLite's io methods."""
        with self._log.lock:
            super().xTruncate(newsize)
            self._log.truncate(self._node, newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        """See SQLite's io methods; a new journal's folder too (os_unix.c: UNIXFILE_DIRSYNC)."""
        with self._log.lock:
            super().xSync(flags)
            self._log.sync(self._node)
            if self._is_new_journal:
                self._log.sync_folder_of(self._parts)
                self._is_new_journal = False


class RecordingVfs(apsw.VFS):
    """The VFS of stores in this process, with a log of what it does in one folder."""

    def __init__(self, log: DiskLog) -> None:
        self._log, self._base = log, checksums.vfs() or apsw.vfs_names()[0]
        super().__init__("recording", self._base)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        """See SQLite's VFS."""
        if name is None or self._log.parts(_text(name)) is None:
            return super().xOpen(name, flags)
        with self._log.lock:
            return RecordedFile(self._base, name, flags, self._log)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's
        """See SQLite's VFS."""
        parts = self._log.parts(filename)
        with self._log.lock:
            super().xDelete(filename, syncdir)
            if parts is not None:
                self._log.removed(parts)
                if syncdir:
                    self._log.sync_folder_of(parts)


def _text(name: Any) -> str:
    return name.filename() if isinstance(name, apsw.URIFilename) else name


# --- alveus's part ------------------------------------------------------------------------------


class _Patched:
    """`os` functions that note what they did in the recorded folder."""

    def __init__(self, log: DiskLog) -> None:
        self._log = log
        names = "open close fsync fdatasync mkdir rmdir unlink remove rename replace ftruncate"
        self.real = {name: getattr(os, name) for name in names.split()}

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        with self._log.lock:
            descriptor = self.real["open"](path, flags, mode, dir_fd=dir_fd)
            parts = self._log.parts(path, dir_fd)
            nameless = flags & getattr(os, "O_TMPFILE", 0) == getattr(os, "O_TMPFILE", -1)
            if parts is not None and not nameless and self._log.now.find(parts) is None:
                self._log.made(parts)
            elif parts is not None and flags & os.O_TRUNC:
                self._log.capture(descriptor)
            return descriptor

    def close(self, descriptor: int) -> None:
        with self._log.lock:
            with suppress(OSError):
                self._log.capture(descriptor)
            self.real["close"](descriptor)

    def fsync(self, descriptor: int) -> None:
        with self._log.lock:
            self.real["fsync"](descriptor)
            node = self._log.number(descriptor)
            if node is not None:
                self._log.sync(node)

    fdatasync = fsync

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        with self._log.lock:
            self.real["mkdir"](path, mode, dir_fd=dir_fd)
            parts = self._log.parts(path, dir_fd)
            if parts is not None:
                self._log.made(parts, is_folder=True)

    def unlink(self, path: Any, *, dir_fd: int | None = None, name: str = "unlink") -> None:
        with self._log.lock:
            parts = self._log.parts(path, dir_fd)
            self.real[name](path, dir_fd=dir_fd)
            if parts is not None:
                self._log.removed(parts)

    remove = unlink

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self.unlink(path, dir_fd=dir_fd, name="rmdir")

    def rename(self, src: Any, dst: Any, **folders: int | None) -> None:
        with self._log.lock:
            old, new = self._log.parts(src), self._log.parts(dst)
            self.real["rename"](src, dst, **folders)
            if old is not None and new is not None:
                self._log.renamed(old, new)

    replace = rename

    def ftruncate(self, descriptor: int, length: int) -> None:
        with self._log.lock:
            self.real["ftruncate"](descriptor, length)
            node = self._log.number(descriptor)
            if node is not None:
                self._log.truncate(node, length)


@contextmanager
def recording(root: Path) -> Generator[DiskLog]:
    """Record what this process does below *root*, while it alone does; all is closed at the end."""
    log = DiskLog(root)
    patched = _Patched(log)
    vfs = RecordingVfs(log)
    for name in patched.real:
        setattr(os, name, getattr(patched, name))
    try:
        with opened_by("recording"):
            yield log
        log.note("the end")
    finally:
        for name, real in patched.real.items():
            setattr(os, name, real)
        vfs.unregister()
    log.check()
