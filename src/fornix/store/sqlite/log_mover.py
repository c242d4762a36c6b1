"""Moves a long write-ahead log into its file while others write.

One connection of SQLite may move the log while another adds to it, but the log is begun anew only
once all of it is moved. So a thread moves what is there, and waits for the disk; a commit after
that moves the little that has come meanwhile. Without it, each 16 MB of the log held up the commit
that made it so long for 10 to 40 ms.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import apsw

from fornix.store.sqlite import checksums
from fornix.store.sqlite.connection import connect
from fornix.values.forks import FORKS
from fornix.values.threads import BackgroundThread, began


class LogMover:
    """The thread that moves the log of one open file, when there is one: begun by who writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: threading.Thread | None = None
        self._tried = 0

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
        thread = BackgroundThread(
            partial(_move, self._path, is_in_place), "fornix-log", stop=_soon_done
        )
        if not began(thread):
            return False
        self._thread, self._tried = thread, pages
        return True

    def moved(self, *, all_of: int, pages: int) -> None:
        """Note that another moved *pages* pages of a log of *all_of*."""
        self._tried = 0 if pages == all_of else all_of

    def wait(self) -> None:
        """Wait until it is not at work: never inside the gate of forks, which it has to pass."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _move(path: Path, is_in_place: Callable[[], bool]) -> None:
    """Move what the log holds now, as far as readers allow."""
    with (
        suppress(apsw.Error, OSError),  # whoever moves the rest meets it too, and tells
        FORKS.inside(),
        closing(connect(path)) as db,
    ):
        if is_in_place():
            db.execute("SELECT 1 FROM note LIMIT 1").fetchall()  # opens the log
            if is_in_place():
                checksums.head(db)
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def _soon_done() -> None:
    """Do nothing: a log is moved within a moment."""
