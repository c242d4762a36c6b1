"""The one that compacts in the background: sets that commits of this process brought to their mark.

A thread per memory, from the first such commit on until the memory is closed. What it had not done
then, or when the process died, the next add to the set sets off again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from alveus.errors import AlveusError, ForkedStore, SetBusy, StoreClosed, Unavailable
from alveus.errors.root import without_frames
from alveus.store.scope import SetRef
from alveus.values.forks import NO_THREAD, BackgroundThread, Flag, HandleLock, began
from alveus.values.lazy_dataclass import dataclass

_LOG = logging.getLogger(__name__)

PAUSES_S = (1.0, 300.0)
"""First and longest pause before a set is tried again whose compaction failed."""

BUSY_S = 0.05
"""Pause before a set is looked at again that another process compacts."""

MOST_REMEMBERED = 10_000
"""Sets that are kept in mind whose compaction failed."""


@dataclass(frozen=True, slots=True)
class CompactionFailure:
    """Why a set was not compacted.

    Attributes:
        tries: How often in a row.
        due: When it is tried again, by the monotonic clock.
    """

    error: AlveusError
    tries: int
    due: float


class CompactionWorker:
    """Does steps of compactions, one after the other, until none is left to do.

    Attributes:
        failures: Of sets that wait to be tried again.
    """

    def __init__(
        self,
        step: Callable[[SetRef], bool],
        failed: Callable[[SetRef, CompactionFailure], None],
    ) -> None:
        self._step, self._failed = step, failed
        self._waiting: dict[SetRef, float] = {}
        self.failures: dict[SetRef, CompactionFailure] = {}
        self._mutex = HandleLock()
        self._changed = Flag()
        self._closed = False
        self._current_set: SetRef | None = None
        self._thread: threading.Thread | None = None

    def notify(self, ref: SetRef) -> None:
        """Have a set seen to; starts the thread if need be.

        Where none can be started, the set waits for the next call.
        """
        with self._mutex:
            if self._closed:
                return
            failure = self.failures.get(ref)
            self._waiting.setdefault(ref, 0.0 if failure is None else failure.due)
            self._begin()
            self._changed.set()

    def _begin(self) -> None:
        """Start the thread, unless it runs, or none can be started."""
        if self._thread is None:
            thread = BackgroundThread(self._run, "alveus-compaction", self._ask_to_stop)
            self._thread = thread if began(thread) else None

    def settle(self, wait_s: float | None) -> bool:
        """Wait until nothing is left to do but what failed; return whether it is in time.

        Raises:
            Unavailable: Something is left, and no thread can be started.
        """
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while True:
            with self._mutex:
                if self._closed or not (self._current_set or self._fresh()):
                    return True
                self._begin()
                if self._thread is None:
                    raise Unavailable(f"nothing is compacted in the background: {NO_THREAD}")
                change = self._next_change()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            change.wait(left)

    def _fresh(self) -> bool:
        return any(ref not in self.failures for ref in self._waiting)

    def pause(self, seconds: float) -> None:
        """Wait until something changes here, or for so long."""
        with self._mutex:
            change = self._next_change()
        change.wait(seconds)

    def close(self) -> None:
        """Stop after the step it is at."""
        self._ask_to_stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def leave(self) -> None:
        """Stop after the step it is at; called anywhere, with any lock held, by a finalizer."""
        self._closed = True
        self._changed.set()

    def _ask_to_stop(self) -> None:
        with self._mutex:
            self._closed = True
            self._changed.set()

    def _next_change(self) -> Flag:
        """Return what is set when anything changes from now on; the lock is held."""
        if self._changed.is_set():
            self._changed = Flag()
        return self._changed

    def _run(self) -> None:
        while (ref := self._next()) is not None:
            more = self._tried(ref)
            with self._mutex:
                self._current_set = None
                if more is not None:
                    self._waiting.setdefault(ref, more)
                self._changed.set()

    def _next(self) -> SetRef | None:
        """Return the next set to see to, when it is time; None: closed."""
        while True:
            with self._mutex:
                if self._closed:
                    return None
                now = time.monotonic()
                ready = min(self._waiting, key=self._waiting.__getitem__, default=None)
                left = None if ready is None else self._waiting[ready] - now
                if ready is not None and self._waiting[ready] <= now:
                    del self._waiting[ready]
                    self._current_set = ready
                    return ready
                change = self._next_change()
            if not self._closed:  # `leave` takes no lock, and may have set the flag before this one
                change.wait(left)

    def _tried(self, ref: SetRef) -> float | None:
        """Do a step; return when to come again, None: there is no need."""
        try:
            more = self._step(ref)
        except (StoreClosed, ForkedStore):  # nobody is left to compact for
            with self._mutex:
                self._closed = True
            return None
        except SetBusy as error:
            _LOG.debug("compaction waits: %s", error)
            return time.monotonic() + BUSY_S
        except AlveusError as error:
            return self._again(ref, error)
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: nobody else hears of it
            _LOG.exception("compaction raised, the set is as it was")
            problem = f"the compaction of set {ref.name!r} raised {type(error).__name__}"
            return self._again(ref, Unavailable(problem))
        self.failures.pop(ref, None)
        return 0.0 if more else None

    def _again(self, ref: SetRef, error: AlveusError) -> float:
        before = self.failures.get(ref)
        tries = 1 if before is None else before.tries + 1
        shortest, longest = PAUSES_S
        due = time.monotonic() + min(longest, shortest * 2.0 ** min(tries - 1, 20))
        if len(self.failures) >= MOST_REMEMBERED and before is None:
            self.failures.clear()
        failure = self.failures[ref] = CompactionFailure(without_frames(error), tries, due)
        _LOG.warning(
            "compaction failed, the set is as it was: %s",
            type(error).__name__,
            extra={"set": ref.name, "tries": tries},
        )
        self._failed(ref, failure)
        return due
