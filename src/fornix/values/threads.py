"""Threads of fornix's own: begun where the system gives them, and ended before Python does.

Python stops the threads that it does not wait for wherever they are. In the midst of a product of
matrices that is too early: the process then waits for OpenBLAS, which waits for a thread that was
never told to end (NumPy 2.4.6 on Linux: 4 of 150 processes never ended).
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol

_LOG = logging.getLogger(__name__)

AT_EXIT_S = 5.0
"""How long the end of a process waits for what such threads are at, in all."""

NO_THREAD = "no thread could be started: the system gives no more, or Python is ending"


def began(thread: threading.Thread) -> bool:
    """Start a thread; return whether that was possible.

    It is not where a limit of the system is reached, and in Python 3.12 as Python ends. What was
    committed stands then, so whoever asks goes on, and asks again later.
    """
    try:
        thread.start()
    except RuntimeError as error:
        _LOG.warning("thread %s was not started: %s", thread.name, error)
        return False
    return True


class Stop(Protocol):
    """What says that work is to stop, as `threading.Event` and `StopSign` do."""

    def is_set(self) -> bool:
        """Return whether it was said."""
        ...


class StopSign:
    """Says once and for all that work is to stop.

    The handler of a signal may set it, also where it interrupts a `wait` of its own thread. An
    `Event` would wait there for a lock that this thread holds, and the process would never end.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._came = SimpleQueue[None]()

    def set(self) -> None:
        """Say it; as often as one likes, from any thread."""
        self._is_set = True
        self._came.put(None)

    def is_set(self) -> bool:
        """Return whether it was said."""
        return self._is_set

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is said, or for so long; return whether it was."""
        if not self._is_set:
            with suppress(Empty):
                self._came.get(timeout=timeout_s)
                self._came.put(None)  # for others that wait
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
