"""The compactor: it compacts full sets, and follows the adds of other processes to find them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import cast

from alveus.errors import (
    AlveusError,
    ForkedStore,
    InvalidInput,
    SetBusy,
    StoreBusy,
    StoreClosed,
    StoreFull,
)
from alveus.errors.short_repr import short_repr
from alveus.memory.memory import Memory
from alveus.sets.compaction import executor
from alveus.sets.compaction.executor import due
from alveus.sets.compaction.set_snapshot import living
from alveus.store import SetInfo
from alveus.store.scope import Scope, SetRef, is_hidden
from alveus.values.forks import Flag
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_name, checked_progress, flag, moment

_LOG = logging.getLogger(__name__)

EVERY = timedelta(seconds=30)
MOST_EVERY = timedelta(days=365)
"""The longest wait between two checks."""

WHOLE_S = 600.0
"""Seconds between two checks of all sets; other checks read only the sets with new items."""

HOURS = 24
"""Hours of a day; the first hour is 0."""

MOST_CHANGES = 100_000
"""The most rows of the change log that one check reads. If there are more, the check reads all
sets instead."""


@dataclass(frozen=True, slots=True)
class Look:
    """The progress of a compactor.

    Attributes:
        set: The current set, or None after the last set.
        items: The number of items in the current set.
        done: The number of compactions so far.
        failed: The error of the compaction of the current set, or None if it did not fail.
    """

    set: SetRef | None
    items: int = 0
    done: int = 0
    failed: AlveusError | None = None


class Compactor:
    """Compacts a space's sets with execution "external", or all of its sets.

    Several compactors may run at the same time and may be killed at any time. Only one compacts a
    set at a time, and each compaction is atomic.

    Args:
        at: The share of its capacity above which a set is compacted. None means the high
            water mark of each set.
        hours: Compact only in these hours of the local day, such as ``(1, 5)`` or ``(22, 4)``.
        key, set_name: Compact only sets of this key, or with this name.
        everything: Whether to compact also sets with execution "background" or "sync".
    """

    def __init__(
        self,
        memory: Memory,
        *,
        at: float | None = None,
        hours: tuple[int, int] | None = None,
        key: str | None = None,
        set_name: str | None = None,
        everything: bool = False,
    ) -> None:
        if at is not None and (type(at) not in (int, float) or not 0 < at <= 1):
            raise InvalidInput(f"at must be above 0, at most 1, not {short_repr(at)}")
        if hours is not None and not are_hours(hours):
            raise InvalidInput(
                f"hours must be two hours of the day, such as (1, 5), not {short_repr(hours)}"
            )
        for name, what in ((key, "a key"), (set_name, "a set's name")):
            if name is not None:
                checked_name(name, what)
        self._memory, self._at, self._hours = memory, at, hours
        self._key, self._set_name = key, set_name
        self._everything = flag(everything, "everything")
        self._stop = Flag()
        self._failed: dict[SetRef, tuple[int, float]] = {}
        self._left: set[SetRef] = set()
        self._seq: int | None = None
        self._whole = 0.0
        self._done = 0

    def due(self) -> Iterator[SetInfo]:
        """Yield the sets that need compaction now."""
        memory = self._memory
        for key in memory.keys() if self._key is None else [self._key]:
            for info in memory.store.set_infos(Scope(memory.space, key)):
                if not is_hidden(info.ref) and self._wants(info):
                    yield info

    def _wants(self, info: SetInfo) -> bool:
        chosen = self._everything or info.definition.execution == "external"
        named = self._set_name is None or info.ref.name == self._set_name
        engine = self._memory.engine
        return chosen and named and due(living(engine.store, info, engine.clock()), self._at)

    # --- at work ------------------------------------------------------------------------------

    def run(
        self,
        *,
        watch: bool = False,
        every: timedelta = EVERY,
        progress: Callable[[Look], object] | None = None,
    ) -> int:
        """Compact the sets that are due; return the number of compactions.

        Args:
            watch: Whether to continue until `stop` is called. Each check then reads the sets with
                new items, and every ten minutes all sets. Failures are logged and retried later.
            every: The wait between two checks.
            progress: Called before each set, after each compaction, and after the last set.

        Raises:
            AlveusError: A set could not be compacted, and *watch* is False. The other sets were
                compacted.
        """
        if not isinstance(every, timedelta) or not timedelta(0) < every <= MOST_EVERY:  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"every must be a timedelta above 0, at most a year, not {short_repr(every)}"
            )
        flag(watch, "watch")
        report = checked_progress(progress, "a Look") or _no_report
        self._whole = 0.0
        failure = self._check(report)
        while watch and not self._stop.wait(every.total_seconds()):
            self._check(report)
        if failure is not None and not watch:
            raise failure
        return self._done

    def stop(self) -> None:
        """Make `run` return after its current step. A signal handler may call this."""
        self._stop.set()

    def _check(self, report: Callable[[Look], object]) -> AlveusError | None:
        """Compact the due sets once; return a failure, or None if nothing failed."""
        try:
            return self._compact_due(report)
        except (StoreBusy, StoreFull) as error:
            self._seq = None  # the next check reads all sets, so that no add is missed
            _LOG.warning("the sets could not be looked at: %s", type(error).__name__)
            return error

    def _compact_due(self, report: Callable[[Look], object]) -> AlveusError | None:
        now = self._memory.engine.clock()
        executor.beat(self._memory.store, now)
        if not self._in_hours(now):
            return None
        failure: AlveusError | None = None
        for info in self._fresh():
            if self._stop.is_set():
                break
            failure = self._compact(info, report) or failure
        report(Look(None, done=self._done))
        return failure

    def _in_hours(self, now: int) -> bool:
        if self._hours is None:
            return True
        first, last = self._hours
        hour = moment(now).astimezone().hour
        return first <= hour < last if first < last else hour >= first or hour < last

    def _fresh(self) -> Iterator[SetInfo]:
        """Yield the due sets among the sets with adds since the last check.

        Sets that failed or were busy at an earlier check are included. If it is time to check all
        sets, yield all due sets.
        """
        store, now = self._memory.store, time.monotonic()
        since, self._seq = self._seq, store.seq()
        if now >= self._whole:
            since, self._whole = None, now + WHOLE_S
        changes = None if since is None else store.changes(since, limit=MOST_CHANGES)
        if changes is None or len(changes) == MOST_CHANGES:
            yield from self.due()
            return
        rows = [change.row for change in changes if change.kind == "added"]
        touched = (
            {stored.set for stored in store.items_by_row(rows)} | set(self._failed) | self._left
        )
        self._left = set()
        for ref in sorted(touched, key=lambda ref: (ref.scope.key or "", ref.name)):
            info = store.set_info(ref)
            mine = ref.scope.space == self._memory.space and ref.scope.key is not None
            asked = self._key is None or ref.scope.key == self._key
            if info is not None and mine and asked and self._wants(info):
                yield info
            else:  # the set was deleted, or another compactor compacted it
                self._failed.pop(ref, None)

    def _compact(self, info: SetInfo, report: Callable[[Look], object]) -> AlveusError | None:
        """Compact one set until it is no longer due; return the failure, or None."""
        ref, store, engine = info.ref, self._memory.store, self._memory.engine
        tries, again = self._failed.get(ref, (0, 0.0))
        if time.monotonic() < again:
            return None
        found: SetInfo | None = info
        try:
            while found is not None and self._wants(found) and not self._stop.is_set():
                report(Look(ref, found.items, self._done))
                executor.beat(store, engine.clock())
                if engine.compactions.step(ref, by="external") is None:
                    break
                self._done += 1
                found = store.set_info(ref)
        except (StoreClosed, ForkedStore):
            raise
        except SetBusy:  # another compactor compacts the set
            self._left.add(ref)
            return None
        except AlveusError as error:
            tries += 1
            self._failed[ref] = tries, time.monotonic() + executor.pause_after(tries)
            executor.put_failure(store, info.number, (type(error).__name__, tries))
            _LOG.warning(
                "compaction failed, the set is unchanged: %s",
                type(error).__name__,
                extra={"set": ref.name, "tries": tries},
            )
            report(Look(ref, info.items, self._done, error))
            return error
        self._failed.pop(ref, None)
        return None


def are_hours(given: object) -> bool:
    """Return whether *given* is a pair of a start hour, 0 to 23, and an end hour, up to 24."""
    if not isinstance(given, (tuple, list)):
        return False
    if [type(hour) for hour in cast("tuple[object, ...]", given)] != [int, int]:
        return False
    first, last = cast("tuple[int, int]", given)
    return 0 <= first < HOURS and 0 <= last <= HOURS and first != last


def _no_report(_look: Look) -> None:
    """Do nothing."""
