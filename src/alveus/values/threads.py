"""Threads of alveus's own: begun where the system gives them, and ended before Python does.

Python stops the threads that it does not wait for wherever they are. In the midst of a product of
matrices that is too early: the process then waits for OpenBLAS, which waits for a thread that was
never told to end (NumPy 2.4.6 on Linux: 4 of 150 processes never ended).
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from typing import Protocol

_LOG = logging.getLogger(__name__)

AT_EXIT_S = 5.0
"""How long the end of a process waits for what such threads are at, in all."""

NO_THREAD = "no thread could be started: the system gives no more, or Python is ending"


def began(thread: threading.Thread) -> bool:
    """Start a thread; return whether that was possible.

    It is not where a limit of the system is reached, nor as Python ends: a thread would wait for
    it, and whoever waits for the thread as well. What was committed stands then, so whoever asks
    goes on, and asks again later.

    Python waits by a lock of Python's until a thread has begun. An interrupt there could leave it
    held, and the thread would wait for it for good; so it is another thread that starts this one
    where interrupts come, in the main thread.
    """
    problems: list[RuntimeError] = []
    if sys.is_finalizing():
        return False
    is_known = threading.Lock()

    def begin() -> None:
        try:
            thread.start()
        except RuntimeError as error:
            problems.append(error)
        finally:
            is_known.release()

    is_known.acquire()
    if threading.current_thread() is threading.main_thread():
        try:
            start_new_thread(begin, ())
        except RuntimeError as error:
            problems.append(error)
        else:
            is_known.acquire()
    else:
        begin()
    for problem in problems:
        _LOG.warning("thread %s was not started: %s", thread.name, problem)
    return not problems


class Stop(Protocol):
    """What says that work is to stop, as `threading.Event` and `Flag` do."""

    def is_set(self) -> bool:
        """Return whether it was said."""
        ...


class Flag:
    """An event that signals cannot break: their handlers may set it, and may raise anywhere.

    The lock of a `threading.Event` is taken in Python. A handler that sets the event which its own
    thread waits for then waits for that lock for good; and one that raises there, as that of
    Ctrl-C, leaves it held, for whoever comes next. Here that is a lock of C, which is free while
    the flag is set: who waits takes it, and gives it back for others that wait.
    """

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._is_set = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Set it, and wake all that wait."""
        self._is_set = True
        try:  # noqa: SIM105 - Python handles no signal between the two
            self._lock.release()
        except RuntimeError:
            pass  # it is free

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._is_set

    def clear(self) -> None:
        """Take it back; only the thread that waits may."""
        self._is_set = False
        self._lock.acquire(blocking=False)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set, at most so long; return whether it is."""
        if not self._is_set:
            try:
                self._lock.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s))
            finally:
                if self._is_set:
                    self.set()
        return self._is_set


class BackgroundThread(threading.Thread):
    """Runs *work* until it returns, which it soon does after *stop* was called.

    Attributes:
        stop: Asks *work* to return, without waiting. It is called as Python ends, at the latest.
    """

    def __init__(self, work: Callable[[], None], name: str, stop: Callable[[], None]) -> None:
        super().__init__(target=work, name=name, daemon=True)
        self.stop = stop


def _end_all() -> None:
    running = [  # not one that is only being started, which nobody can wait for
        thread
        for thread in threading.enumerate()
        if isinstance(thread, BackgroundThread) and thread.is_alive()
    ]
    for thread in running:
        thread.stop()
    deadline = time.monotonic() + AT_EXIT_S
    for thread in running:
        thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_end_all)
