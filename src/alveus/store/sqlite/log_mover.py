"""Moves a long write-ahead log into its file while others write.

One connection of SQLite may move the log while another adds to it, but the log is begun anew only
once all of it is moved. So a thread moves what is there, and waits for the disk; a commit after
that moves the little that has come meanwhile. Without it, each 16 MB of the log held up the commit
that made it so long for 10 to 40 ms.

SQLite's lock of who moves the log may end while it is held: see `guards`. A second one who moves
it could begin it anew, and the first would then write pages over the file that are no longer those
it takes them for. So whatever of alveus moves the log holds `LogMover.moving`, of another kind.
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
from alveus.store.files import give_to_owner
from alveus.store.sqlite import checksums, locks
from alveus.store.sqlite.connection import connect
from alveus.values.forks import FORKS, BackgroundThread, HandleLock, began

NAME = "moving"
"""The file that is locked, in the folder beside the database."""


class LogMover:
    """Who of this process moves the log of one open file; and the thread that does, if one does.

    Its descriptor stays open as long as the thread needs it, whoever closes the file.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self._path = path
        self._turn = HandleLock()
        self._lock = os.open(folder / NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._close = weakref.finalize(self, os.close, self._lock)
        self._close.atexit = False  # what runs as Python ends may still write
        give_to_owner(folder / NAME, folder)
        self._thread: threading.Thread | None = None
        self._tried = 0

    @contextmanager
    def moving(self) -> Generator[bool]:
        """Give whether nobody else moves the log, here or in another process, during the block."""
        with self._turn:
            if self._lock < 0:
                yield False
                return
            try:
                yield self._is_free()
            finally:
                try:
                    # By name: a child of this process may have it too.
                    fcntl.flock(self._lock, fcntl.LOCK_UN)
                except BaseException:  # an interrupt
                    fcntl.flock(self._lock, fcntl.LOCK_UN)
                    raise

    def _is_free(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Move nothing any more, once nobody does."""
        with self._turn:
            self.abandon()

    def collect(self) -> None:
        """Do so at once, unless the thread moves the log: its descriptor is closed after it."""
        if self._turn.acquire(blocking=False):
            try:
                self.abandon()
            finally:
                self._turn.release()

    def abandon(self) -> None:
        """Close the descriptor, whoever needs it: in a forked child, which alone runs on."""
        self._lock = -1
        self._close()

    @property
    def is_at_work(self) -> bool:
        """Whether the thread moves the log now."""
        return self._thread is not None and self._thread.is_alive()

    def begin(self, pages: int, *, few: int, is_in_place: Callable[[], bool]) -> bool:
        """Begin to move a log of *pages* pages, unless it is at work; return whether that is so.

        It is not if *few* pages have come since it began last, as they are soon moved, nor if the
        system gives no thread. What hinders it is told to whoever moves the rest.

        Args:
            is_in_place: Returns whether the file is open, and still the one at its path.
        """
        if pages < self._tried:  # the log was begun anew
            self._tried = 0
        if pages - self._tried <= few:
            return False
        work = partial(self._move, is_in_place)
        self._thread = BackgroundThread(work, "alveus-log", stop=_soon_done)
        self._tried = pages
        if began(self._thread):
            return True
        self._thread = None
        return False

    def moved(self, *, all_of: int, pages: int) -> None:
        """Note that another moved *pages* pages of a log of *all_of*."""
        self._tried = 0 if pages == all_of else all_of

    def wait(self) -> None:
        """Wait until it is not at work: never inside the gate of forks, which it has to pass."""
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _move(self, is_in_place: Callable[[], bool]) -> None:
        """Move what the log holds now, as far as readers allow, unless somebody else does so."""
        user = threading.current_thread()
        with (
            # Whoever moves the rest meets it, and tells.
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
                    if is_in_place():
                        checksums.head(db)
                        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            finally:
                locks.leave_guard(user)


def _soon_done() -> None:
    """Do nothing: a log is moved within a moment."""
