"""The files beside a database, and the locks on them: who may write, and who is alive.

Beside ``app.db`` alveus keeps a folder ``app.db.alveus`` with ``lock`` and ``turn`` (who writes),
``moving`` (who moves the log), ``owners/`` (who is alive), ``log`` (to which database the log
belongs) and ``index/``, which can be deleted.

SQLite's locks belong to the process, and end when the process closes *any* descriptor of the file,
such as in ``shutil.copy`` or in Python's ``sqlite3``. Another process could then delete the
write-ahead log that this process writes. So `FileGuard` holds more locks on the same bytes. These
locks belong to descriptors that only this module closes.

SQLite applies the log that it finds at a path to any database there. If another file was moved to
that path and the process that wrote the log was killed, the pages of both would be mixed. The note
``log`` prevents this.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeAlias

from alveus.errors import StoreBusy, StoreClosed, StoreReadOnly, Unsupported, Unusable
from alveus.store.files import give_to_owner, try_lock
from alveus.values.forks import FORKS, FreshLock, is_owned

_SHARED: Final = (0x40000002, 510)
"""The bytes of a database that SQLite locks: shared by all users, exclusively by the last one."""

_IN_USE: Final = (128, 1)
"""The byte of the -shm file that is locked by every process that has the log open."""

Identity: TypeAlias = tuple[int, int]
"""The identity of a file: its device, and its inode number."""

_SET_LOCK: Final[int | None] = getattr(fcntl, "F_OFD_SETLK", None)
"""The command for locks of an open file description, or None if the system has no such locks."""


class FileGuard:
    """The locks of this process on one database; the last user closes the descriptors."""

    def __init__(self, path: Path, key: Identity) -> None:
        self.key = key
        self.users = weakref.WeakSet[object]()  # an interrupt may keep a user from leaving
        self._path = path
        self._database, self._log = -1, -1
        FORKS.register(self)

    def lock(self) -> None:
        """Take the locks. Call this while SQLite has the database and its log open.

        Raises:
            StoreBusy: Another program has locked the whole database.
        """
        if _SET_LOCK is None:
            return
        with _mutex:
            self._open()
            try:
                _set_lock(self._database, fcntl.F_RDLCK, _SHARED)
                if self._log >= 0:
                    _set_lock(self._log, fcntl.F_RDLCK, _IN_USE)
            except BlockingIOError as error:
                raise StoreBusy(f"{self._path} is locked by another program; try again") from error

    def _open(self) -> None:
        if self._database < 0:
            self._database = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        shm = f"{self._path}-shm"
        with suppress(FileNotFoundError):  # a store that is read at rest, without a log
            found = os.stat(shm)  # noqa: PTH116 - beside the samestat of a descriptor
            if self._log >= 0 and not os.path.samestat(found, os.fstat(self._log)):
                descriptor, self._log = self._log, -1  # first, so that no number is closed twice
                os.close(descriptor)
            if self._log < 0:
                self._log = os.open(shm, os.O_RDONLY | os.O_CLOEXEC)

    def unlock(self) -> bool:
        """Release the locks if this process has only one user. Return whether they were released.

        SQLite can then check whether it is the last user of the file.
        """
        with _mutex:
            if len(self.users) != 1:
                return False
            for descriptor, span in ((self._database, _SHARED), (self._log, _IN_USE)):
                if descriptor >= 0:
                    _set_lock(descriptor, fcntl.F_UNLCK, span)
        return True

    def forked(self, *, quiet: bool) -> None:
        """See `Inherited`. The parent keeps its locks, though the child closes the descriptors."""
        del quiet
        if _guards.get(self.key) is self:
            del _guards[self.key]
        self.close()

    def close(self) -> None:
        """Close the descriptors, which releases the locks."""
        if self._database >= 0:
            descriptor, self._database = self._database, -1
            os.close(descriptor)
        if self._log >= 0:
            descriptor, self._log = self._log, -1
            os.close(descriptor)


_mutex = FreshLock()
_guards: dict[Identity, FileGuard] = {}


def join_guard(path: Path, user: object) -> FileGuard:
    """Return the guard of an existing database; *user* must leave it with `leave_guard`."""
    found = path.stat()
    key = found.st_dev, found.st_ino
    with _mutex:
        guard = _guards.setdefault(key, FileGuard(path, key))
        guard.users.add(user)
    return guard


def leave_guard(user: object) -> None:
    """Leave the guard that *user* joined, if any. Close all connections of *user* before."""
    with _mutex:
        for guard in [one for one in _guards.values() if user in one.users]:
            guard.users.discard(user)
            if not guard.users:
                guard.close()
                _guards.pop(guard.key, None)


def _set_lock(descriptor: int, kind: int, span: tuple[int, int]) -> None:
    start, length = span
    assert _SET_LOCK is not None  # noqa: S101 - there would be no descriptor
    fcntl.fcntl(descriptor, _SET_LOCK, struct.pack("@hhqqi4x", kind, os.SEEK_SET, start, length, 0))


POLL_S = 0.001
"""Longest pause between two tries for a lock that another process holds."""

# fmt: off
_NETWORK = frozenset([
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ncpfs", "ceph", "glusterfs", "lustre",
    "beegfs", "9p", "afpfs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone",
    "fuse.glusterfs", "fuse.davfs", "davfs",
])
"""File systems whose locks do not reliably reach other hosts, or are lost."""


_NO_FILES = frozenset([
    "proc", "sysfs", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "efivarfs", "fusectl",
    "mqueue", "pstore", "securityfs", "tracefs",
])
"""File systems of the kernel, which hold no user files."""
# fmt: on


def refuse_unsupported(path: Path) -> None:
    """Raise `Unsupported` on a platform or file system without reliable locks."""
    if sys.platform == "win32":
        raise Unsupported("alveus needs POSIX file locks, which Windows lacks; use WSL 2")
    kind = file_system(path)
    if kind in _NETWORK:
        raise Unsupported(
            f"{path} is on {kind}, a network file system without reliable locks; put the store "
            "on a local disk"
        )
    if kind in _NO_FILES:
        raise Unsupported(f"{path} is on {kind}, which stores no files; put the store on a disk")


def file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Return the type of the file system of *path*, or None if it is unknown."""
    with suppress(OSError):
        best, kind = "", None
        for line in mounts.read_text(errors="replace").splitlines():
            left, _, right = line.partition(" - ")
            point = left.split(" ")[4].replace("\\040", " ")
            inside = str(path) == point or str(path).startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, kind = point, right.split(" ")[0]
        return kind
    return None


def create_private(path: Path) -> None:
    """Make an empty file that only its owner can read, unless the file exists."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


class WriteLock:
    """Lets one thread of all processes write at a time. Waiting is bounded, and goes in turn.

    With polling alone, a lock would nearly always go to the process that just released it. So the
    first waiting process takes a second lock, `turn`, and keeps it while polling.
    """

    def __init__(self, folder: Path, *, wait_s: float) -> None:
        self._wait_s = wait_s
        self._mutex = threading.RLock()  # no thread takes it twice; it knows its owner
        self._closed = False
        self._name = f"{os.getpid():<20}".encode()
        self._lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            self._turn = os.open(folder / "turn", os.O_CREAT | os.O_RDWR, 0o600)
        except BaseException:
            os.close(self._lock)
            raise
        # A memory that is collected without close() leaves no descriptors behind.
        self._close = weakref.finalize(self, _close_all, (self._lock, self._turn))
        self._close.atexit = False  # code that runs as Python ends may still write
        for name in ("lock", "turn"):
            give_to_owner(folder / name, folder)

    def __enter__(self) -> Self:
        """Take the lock; raise `StoreBusy`, which names its holder, after *wait_s*."""
        try:
            self._take_all()
        except BaseException:
            # No function of ours is called: after a RecursionError, the call would fail too.
            if is_owned(self._mutex):
                try:
                    if not self._closed:
                        fcntl.flock(self._lock, fcntl.LOCK_UN)
                finally:
                    self._mutex.release()
            raise
        return self

    def _take_all(self) -> None:
        began = time.monotonic()
        if not self._mutex.acquire(timeout=self._wait_s):
            raise StoreBusy(
                f"another thread has been writing for {self._wait_s:g} s; try again, or raise "
                "wait_s"
            )
        if self._closed:  # while this thread waited: the descriptors may be of other files
            raise StoreClosed(_CLOSED)
        try:
            deadline = began + self._wait_s
            self._take(self._turn, deadline)
            try:
                self._take(self._lock, deadline)
            finally:
                fcntl.flock(self._turn, fcntl.LOCK_UN)
            os.pwrite(self._lock, self._name, 0)
        except OSError:
            if self._closed:  # by the collection of the last handle, which never waits
                raise StoreClosed(_CLOSED) from None
            raise

    def __exit__(self, *_: object) -> None:
        """Release the lock if this thread holds it. Releasing twice is allowed."""
        if not is_owned(self._mutex):
            return
        try:
            if not self._closed:
                fcntl.flock(self._lock, fcntl.LOCK_UN)
        finally:
            self._mutex.release()

    def _take(self, descriptor: int, deadline: float) -> None:
        pause = POLL_S / 20
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                name = os.pread(self._lock, 20, 0).decode(errors="replace").strip()
                raise StoreBusy(
                    f"process {name or 'unknown'} has been writing for over {self._wait_s:g} s; "
                    "try again, or raise wait_s"
                )
            time.sleep(pause)
            pause = min(pause * 2, POLL_S)

    def close(self) -> None:
        """Close the descriptors, which releases the locks, once no thread here holds them."""
        with self._mutex:
            self.abandon()

    def abandon(self) -> None:
        """Close the descriptors at once, even if a thread has the lock, as in a forked child."""
        self._closed = True
        self._close()


_CLOSED = "the store was closed; open it again"


def _close_all(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        with suppress(OSError):
            os.close(descriptor)


class Owners:
    """Records which owners of leases are alive: each owner holds a lock on a separate file.

    The kernel releases the lock when the process dies, so no clock is needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "owners"
        self._mine: dict[str, int] = {}

    def enlist(self, owner: str) -> None:
        """Make *owner* count as alive until *owner* is dismissed or this process ends."""
        if owner in self._mine:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        give_to_owner(self._folder, self._folder.parent)
        for file in self._folder.iterdir():  # files that killed processes left
            self._is_held(file)
        descriptor = os.open(self._path(owner), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._mine[owner] = descriptor
        except BaseException:
            if owner not in self._mine:
                os.close(descriptor)  # else an interrupt would leave the name without an owner
            raise
        give_to_owner(self._path(owner), self._folder)

    def dismiss(self, owner: str) -> None:
        """Make *owner* count as dead."""
        descriptor = self._mine.pop(owner, None)
        if descriptor is not None:
            self._path(owner).unlink(missing_ok=True)
            os.close(descriptor)

    def is_alive(self, owner: str) -> bool:
        """Return whether a process holds the file of *owner*; delete the file of a dead owner."""
        return owner in self._mine or self._is_held(self._path(owner))

    def _is_held(self, file: Path) -> bool:
        try:
            descriptor = os.open(file, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            is_held = not try_lock(descriptor)
            if not is_held:
                file.unlink(missing_ok=True)
            return is_held
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Dismiss all owners enlisted here."""
        for owner in list(self._mine):
            self.dismiss(owner)

    def abandon(self) -> None:
        """Close the inherited descriptors in a forked child; the parent's owners stay alive."""
        for descriptor in self._mine.values():
            with suppress(OSError):
                os.close(descriptor)
        self._mine.clear()

    def _path(self, owner: str) -> Path:
        return self._folder / owner.encode().hex()


def drop_locks(folder: Path) -> None:
    """In a forked child, close the inherited descriptors of locked files in *folder*.

    The descriptor numbers stay in use, so that no object with an old number reaches another file.
    """
    listing = Path("/proc/self/fd")
    if not listing.exists():
        return
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for entry in listing.iterdir():
        with suppress(OSError):
            if str(entry.readlink()).startswith(f"{folder}/"):
                os.dup2(nothing, int(entry.name), inheritable=False)
    os.close(nothing)


def private_folder(path: Path, database: Path) -> Path:
    """Make the folder *path* beside the database unless it exists, and return *path*.

    Only the folder's owner may use the folder.

    Raises:
        StoreReadOnly: The folder cannot be made.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreReadOnly(
            f"{path} cannot be created ({error.strerror}); give this process the right to write "
            "to the folder, or open it with mode='ro'"
        ) from error
    give_to_owner(path, database)
    return path


LOG_NOTE = "log"
"""The file, in the folder beside the database, with the identities of the database and its log."""


def identity(path: str | Path) -> Identity | None:
    """Return the identity of the file at *path*, or None if no file exists."""
    try:
        found = os.stat(path)  # noqa: PTH116 - at every commit, and twice as quick
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def note_log(folder: Path, path: Path) -> None:
    """Record that the log beside *path* belongs to the database at *path*.

    An error, such as a full disk, is ignored.
    """
    database, log = identity(path), identity(f"{path}-wal")
    if database is None or log is None or _noted(folder) == (database, log):
        return
    new = folder / f"{LOG_NOTE}.new"
    with suppress(OSError):
        new.unlink(missing_ok=True)
        create_private(new)
        give_to_owner(new, folder)
        new.write_text(" ".join(map(str, (*database, *log))), encoding="ascii")
        new.replace(folder / LOG_NOTE)


def forget_log(folder: Path, path: Path) -> None:
    """Delete the note `LOG_NOTE` if the log beside *path* no longer exists."""
    if identity(f"{path}-wal") is None:
        with suppress(OSError):
            (folder / LOG_NOTE).unlink()


def refuse_other_log(folder: Path, path: Path) -> None:
    """Raise `Unusable` if the log beside *path* belongs to another database."""
    noted = _noted(folder)
    if noted is None:
        return
    owner, log = noted
    found = identity(path)
    if found == owner or identity(f"{path}-wal") != log or not _holds_something(f"{path}-wal"):
        return
    problem = "is gone" if found is None else "was replaced by another file"
    raise Unusable(
        f"{path} {problem}, but {path}-wal still holds the last writes of the file before it. "
        f"Move that file back; or, to lose those writes, delete {path}-wal and {path}-shm"
    )


def _holds_something(log: str) -> bool:
    with suppress(FileNotFoundError):
        return Path(log).stat().st_size > 0
    return False


def _noted(folder: Path) -> tuple[Identity, Identity] | None:
    """Return the identities of database and log in the note, or None if no note can be read."""
    with suppress(OSError, ValueError):
        first, second, third, fourth = map(int, (folder / LOG_NOTE).read_text("ascii").split())
        return (first, second), (third, fourth)
    return None
