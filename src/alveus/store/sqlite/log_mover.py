"""Moves a long write-ahead log into its file while other threads and processes write.

A thread moves the present log and waits for the disk; a later commit moves the rest, after which
the log restarts. Without the thread, each 16 MB of the log delayed one commit by 10 to 40 ms.

SQLite's lock for moving the log may end while it is held: see `FileGuard`. A second mover could
then restart the log, and the first one would write wrong pages over the file. So all code of alveus
that moves the log holds `LogMover.moving`, a lock of another kind.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import apsw

from alveus.errors import AlveusError
from alveus.store.files import give_to_owner, try_lock
from alveus.store.sqlite import checksums, locks
from alveus.store.sqlite.connection import connect
from alveus.values.forks import FORKS, BackgroundThread, HandleLock, began

NAME = "moving"
"""The name of the file that is locked, in the folder beside the database."""


class LogMover:
    """The lock for moving the log of one open file, and the thread that moves it."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path
        self._turn = HandleLock()
        self._lock = os.open(folder / NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._close = weakref.finalize(self, os.close, self._lock)
        self._close.atexit = False  # code that runs as Python ends may still write
        give_to_owner(folder / NAME, folder)
        self._thread: threading.Thread | None = None
        self._tried = 0

    @contextmanager
    def moving(self) -> Generator[bool]:
        """Yield whether this thread may move the log during the block.

        Yield True if no other thread or process moves the log, and False if another process does,
        or if this object was closed.
        """
        with self._turn:
            if self._lock < 0:
                yield False
                return
            try:
                yield try_lock(self._lock)
            finally:
                try:
                    # Explicitly: a child of this process may have the same lock.
                    fcntl.flock(self._lock, fcntl.LOCK_UN)
                except BaseException:  # an interrupt
                    fcntl.flock(self._lock, fcntl.LOCK_UN)
                    raise

    def close(self) -> None:
        """Wait for the current move, then close; nothing is moved afterwards."""
        with self._turn:
            self.abandon()

    def collect(self) -> None:
        """Close without waiting. While a thread moves the log, do nothing.

        The descriptor is then closed with this object, which nothing keeps after the thread ended.
        """
        if self._turn.acquire(blocking=False):
            try:
                self.abandon()
            finally:
                self._turn.release()

    def abandon(self) -> None:
        """Close the descriptor without waiting, as in a forked child, where no thread runs."""
        self._lock = -1
        self._close()

    @property
    def is_at_work(self) -> bool:
        """Whether the thread is moving the log now."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, pages: int, *, few: int, is_at_path: Callable[[], bool]) -> bool:
        """Start a thread that moves a log of *pages* pages. Return whether it started.

        No thread starts if at most *few* pages have come since the last start, or if the system
        can give no thread.

        Args:
            is_at_path: Returns whether the file is open, and still at its path.
        """
        if pages < self._tried:  # the log has restarted
            self._tried = 0
        if pages - self._tried <= few:
            return False
        work = partial(self._move, is_at_path)
        self._thread = BackgroundThread(work, "alveus-log", stop=lambda: None)  # it soon ends
        self._tried = pages
        if began(self._thread):
            return True
        self._thread = None
        return False

    def moved(self, *, all_of: int, pages: int) -> None:
        """Record that the writer itself moved *pages* of the *all_of* pages of the log."""
        self._tried = 0 if pages == all_of else all_of

    def wait(self) -> None:
        """Wait until no move is running. Never call it inside the gate of forks: it would hang."""
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _move(self, is_at_path: Callable[[], bool]) -> None:
        """Move the present log, as far as readers allow, unless another process moves it."""
        user = threading.current_thread()
        with (
            # The caller that moves the rest meets the same error, and raises it.
            suppress(apsw.Error, OSError, AlveusError),
            FORKS.inside(),
            self.moving() as is_alone,
        ):
            if not is_alone:
                return
            guard = locks.join_guard(self._path, user)
            try:
                with closing(connect(self._path)) as db:
                    db.execute("SELECT 1 FROM note LIMIT 1").fetchall()  # opens the log
                    guard.lock()  # until the end, though the file may be closed by then
                    if is_at_path():
                        checksums.head(db)
                        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            finally:
                locks.leave_guard(user)
