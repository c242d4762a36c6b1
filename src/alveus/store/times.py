"""Moments of the past, and the clock of a memory, which is checked against elapsed time.

A wall clock may be wrong for a while. Reads and new commits use the wall clock as it is, so an
error ends when the clock is corrected. Retention does not trust the wall clock alone, because
deleted data cannot be restored.

So each store keeps a timeline: wall time over elapsed time. The host's monotonic clock measures
elapsed time, from boot to boot. A reading on that line is corroborated. A reading off the line is
in doubt until the wall clock has kept to a new line for `PROOF_US` of elapsed time. Meanwhile

- if the clock is *ahead*, reads and commits use the clock, and retention uses the old line;
- if the clock is *behind*, reads and commits use the old line, and retention uses the clock.

If the elapsed time is unknown, such as after the host was off, the clock counts as ahead of the
line at first, and retention waits for the proof.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from alveus.errors import HistoryPruned, InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.store import (
    CLOCK_STEP_US,
    CORROBORATED_TIME_NOTE,
    ItemRecord,
    Ledger,
    Scope,
    SetRef,
    Store,
)
from alveus.values.forks import HandleLock
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_function, counted, microseconds

AsOf: TypeAlias = int | datetime
"""A moment of the past: a commit number, or a time with a zone."""

ValidAt: TypeAlias = datetime | Literal["any"]
"""The time at which a fact must hold to be found, or "any" to find facts of any time."""

ANY_TIME: Final = "any"
FOREVER = 1 << 62


class Moment(NamedTuple):
    """A moment of the past: the last commit at the moment, and the time that decides expiries."""

    commit: int
    time: int


def checked_as_of(as_of: AsOf, what: str = "as_of") -> AsOf:
    """Return *as_of* if its type and value are valid; raise `InvalidInput` if not.

    Args:
        what: The name of the argument, for the message.
    """
    if isinstance(as_of, int):
        return counted(as_of, what, least=0)
    if not isinstance(as_of, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(
            f"{what} must be the number of a commit or a datetime, not {short_repr(as_of)}"
        )
    return as_of


def moment_of(ledger: Ledger, as_of: AsOf, *, now: int, what: str = "as_of") -> Moment:
    """Return the moment that *as_of* means.

    A time means the commit with the highest number whose time is not later.

    Args:
        now: The present time.
        what: The name of the argument, for an error.

    Raises:
        InvalidInput: *as_of* is no moment, or the number of a commit that does not exist yet.
    """
    as_of = checked_as_of(as_of, what)
    if isinstance(as_of, int):
        last = ledger.commit_at(FOREVER)
        if as_of > last:
            problem = f"{what}={short_repr(as_of)} is a commit of the future"
            raise InvalidInput(f"{problem}; the last one is {last}")
        return Moment(as_of, ledger.time_of_commit(as_of))
    time = microseconds(as_of, what)
    if time > now:  # a clock may be behind the times of existing commits
        time = min(time, max(now, ledger.time_of_commit(ledger.commit_at(FOREVER))))
    return Moment(ledger.commit_at(time), time)


def check_set(ledger: Ledger, ref: SetRef, moment: Moment) -> None:
    """Raise `HistoryPruned` if the store no longer keeps the set *ref* as of *moment*."""
    info = ledger.set_info(ref)
    if info is not None and moment.commit < info.history_start:
        raise HistoryPruned(f"set {ref.name!r}", commit=moment.commit, floor=info.history_start)


def check_tree(ledger: Ledger, scope: Scope, moment: Moment) -> None:
    """Raise `HistoryPruned` if the store no longer keeps the tree of *scope* as of *moment*."""
    commit, since = ledger.history_start(scope)
    is_early = since != 0 and moment.time < since
    if moment.commit < commit or is_early:
        first = max(commit, ledger.commit_at(since - 1) + 1 if is_early else 0)
        raise HistoryPruned(f"key {scope.key!r}", commit=moment.commit, floor=first)


def valid_time(valid_at: ValidAt | None) -> int | Literal["any"] | None:
    """Return the time at which facts must hold, in microseconds, or "any".

    Returns None for None, which stands for the moment that is read.
    """
    if valid_at is None:
        return None
    if isinstance(valid_at, str) and valid_at == ANY_TIME:
        return ANY_TIME
    if not isinstance(valid_at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"valid_at must be a datetime or 'any', not {short_repr(valid_at)}")
    return microseconds(valid_at, "valid_at")


def expired(record: ItemRecord, now: int) -> bool:
    """Return whether the item of a record has expired by *now*."""
    return record.expires is not None and record.expires <= now


def is_valid_at(record: ItemRecord, at: int) -> bool:
    """Return whether the fact in an item holds at the time *at*."""
    since, to = record.valid_from, record.valid_to
    return (since is None or since <= at) and (to is None or at < to)


PROOF_US = 24 * 3600 * 1_000_000
"""Elapsed time after which readings in doubt become the new line."""

COUNTED_US = 3600 * 1_000_000
"""The longest time between two readings that counts towards `PROOF_US`. The rest is ignored."""

KEPT_EVERY_US = 600 * 1_000_000
"""Active time after which even an unchanged timeline is stored again."""

TIMELINE = "clock"
"""The name of the note that holds a store's timeline."""

TRIES = 20
"""How many times a process tries to store a timeline while other processes store theirs."""

Elapsed: TypeAlias = Callable[[int], tuple[str, int]]
"""A function that takes the wall time, and returns the name of an era and its elapsed time.

An era is a period over which elapsed time can be measured, such as a boot of the host. Both times
are in microseconds.
"""


@runtime_checkable
class SteadyClock(Protocol):
    """A user's clock that also measures elapsed time; see `Memory.open`."""

    def __call__(self) -> datetime:
        """Return the wall time, with a zone."""
        ...

    def elapsed(self) -> timedelta:
        """Return the time elapsed since the clock was made, even if the clock was set since."""
        ...


@dataclass(frozen=True, slots=True)
class Doubt:
    """A series of readings of the wall clock that are all ahead of the line, or all behind it.

    Attributes:
        ahead: Whether the readings are ahead of the line.
        least: The lowest line (wall time minus active time) of any of the readings.
        since: The active time of the first reading.
        upheld: The elapsed time so far that counts towards `PROOF_US`.
        commit: The store's last commit at the first reading.
    """

    ahead: bool
    least: int
    since: int
    upheld: int
    commit: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The known time of a store, in microseconds.

    Attributes:
        era: The name of the era of the last reading.
        at: The elapsed time of the last reading in that era.
        active: The elapsed time over all eras at the last reading, as far as known.
        line: Wall time minus active time.
        doubt: The readings in doubt, or None if the last reading was on the line.
    """

    era: str
    at: int
    active: int
    line: int
    doubt: Doubt | None = None

    def active_at(self, era: str, at: int) -> int:
        """Return the elapsed time over all eras, at the elapsed time *at* of *era*.

        The time between two eras counts as 0.
        """
        return self.active + at - self.at if era == self.era and at > self.at else self.active

    def observed(self, wall: int, era: str, at: int, commit: int) -> Timeline:
        """Return the timeline after another reading of the clocks.

        Args:
            wall: The wall time.
            era, at: The era, and the time elapsed in it.
            commit: The store's last commit.
        """
        active = self.active_at(era, at)
        line, doubt = wall - active, self.doubt
        if abs(line - self.line) <= CLOCK_STEP_US:
            return Timeline(era, at, active, min(line, self.line))
        ahead = line > self.line
        if doubt is None or doubt.ahead != ahead:
            doubt = Doubt(ahead, line, active, 0, commit)
        else:
            upheld = doubt.upheld + min(active - self.active, COUNTED_US)
            doubt = replace(doubt, least=min(line, doubt.least), upheld=upheld)
        if doubt.upheld >= PROOF_US:
            return Timeline(era, at, active, doubt.least)
        return Timeline(era, at, active, self.line, doubt)

    def continues(self, before: Timeline) -> bool:
        """Return whether this timeline adds so little to *before* that it need not be stored."""
        sides = [None if t.doubt is None else t.doubt.ahead for t in (self, before)]
        return (
            self.era == before.era
            and sides[0] == sides[1]
            and abs(self.line - before.line) <= CLOCK_STEP_US
            and self.active - before.active < KEPT_EVERY_US
        )


def host_elapsed() -> Elapsed:
    """Return a function that measures elapsed time by the host's clock.

    That clock continues while the host sleeps, and an era is a boot of the host. If the host has no
    such clock or no boot id, an era is this process.
    """
    try:
        era, clock = _boot_id(), time.CLOCK_BOOTTIME
    except (OSError, AttributeError):
        era, clock = f"process {uuid.uuid4()}", time.CLOCK_MONOTONIC
    return lambda _wall: (era, time.clock_gettime_ns(clock) // 1000)


@lru_cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class _Followed:
    """Measures elapsed time for a user's clock that has no `elapsed`.

    Between two readings, the smaller of the advances of the user's clock and of the host's clock
    counts.
    """

    def __init__(self) -> None:
        self._era, self._at = f"followed {uuid.uuid4()}", 0
        self._last: tuple[int, int] | None = None
        self._lock = HandleLock()

    def __call__(self, wall: int) -> tuple[str, int]:
        with self._lock:
            now = time.monotonic_ns() // 1000
            if self._last is not None:
                self._at += max(0, min(wall - self._last[0], now - self._last[1]))
            self._last = wall, now
            return self._era, self._at


def wall_clock(clock: Callable[[], datetime] | None) -> Callable[[], int]:
    """Return a function that returns the time of *clock* in microseconds.

    Args:
        clock: A user's clock, or None for the host's clock.
    """
    if clock is None:
        return lambda: time.time_ns() // 1000
    checked_function(clock, "a clock is a function that returns a datetime")
    return lambda: microseconds(clock(), "the clock's time")


def elapsed_beside(clock: Callable[[], datetime] | None) -> Elapsed:
    """Return the function that measures elapsed time for a memory's clock.

    Args:
        clock: A user's clock, or None for the host's clock.
    """
    if clock is None:
        return host_elapsed()
    if not isinstance(clock, SteadyClock):
        return _Followed()
    era = f"clock {id(clock)} of process {os.getpid()}"
    return lambda _wall: (era, clock.elapsed() // timedelta(microseconds=1))


class DisciplinedClock:
    """The clock of an open memory. Calling it returns the time of reads and commits.

    Args:
        ticks: Returns the wall time, in microseconds.
        elapsed: Returns the elapsed time.
        store: Keeps the timeline that all memories of the store share.
    """

    def __init__(self, ticks: Callable[[], int], elapsed: Elapsed, store: Store) -> None:
        self._ticks, self._elapsed, self._store = ticks, elapsed, store
        self._lock = HandleLock()
        text = store.note(TIMELINE)
        if text is not None:
            self._timeline = _read(text)
            return
        wall = ticks()
        era, at = elapsed(wall)
        last = store.time_of_commit(FOREVER)  # the first timeline begins there
        self._timeline = Timeline(era, at, 0, min(wall, last) if last else wall)

    def __call__(self) -> int:
        """Return the wall time or, while the wall clock is behind, the time of the line."""
        wall = self._ticks()
        era, at = self._elapsed(wall)
        known = self._timeline
        line = known.line + known.active  # `active_at` inlined: a run calls this four times
        if era == known.era and at > known.at:
            line += at - known.at
        return wall if wall >= line - CLOCK_STEP_US else self._behind(wall, era, at)

    def times(self) -> tuple[int, int]:
        """Return the time of a call, and its `corroborated` time."""
        wall = self._ticks()
        era, at = self._elapsed(wall)
        known = self._timeline
        line = known.line + known.active_at(era, at)
        if wall < line - CLOCK_STEP_US:
            wall = self._behind(wall, era, at)
            return wall, _believed(self._timeline, wall, era, at)
        return wall, wall if wall <= line + CLOCK_STEP_US else line

    def _behind(self, wall: int, era: str, at: int) -> int:
        """Record a reading of a wall clock that is behind, and return the time to use."""
        with self._lock:
            self._timeline = known = self._timeline.observed(wall, era, at, 0)
        return max(wall, known.line + known.active)

    def corroborated(self, time: int) -> int:
        """Return *time*, or the time of the line if *time* is ahead of the line."""
        era, at = self._elapsed(time)
        return _believed(self._timeline, time, era, at)

    def settle(self) -> int:
        """Read the clocks, store the timeline, and return the time that retention may use.

        Raises:
            Unavailable: The store cannot be written now.
        """
        left = TRIES
        while True:
            left -= 1
            text = self._store.note(TIMELINE)
            before = self._timeline if text is None else _read(text)
            wall = self._ticks()
            era, at = self._elapsed(wall)
            with self._lock:
                self._timeline = known = self._look(before, wall, era, at)
            believed = _believed(known, wall, era, at)
            same = text is not None and known.continues(before)
            if same or self._store.read_only or self._keep(text, known, believed) or not left:
                return believed

    def _keep(self, before: str | None, known: Timeline, believed: int) -> bool:
        text = json.dumps(asdict(known))
        if not self._store.put_note(TIMELINE, text, expected=before):
            return False
        noted = self._store.note(CORROBORATED_TIME_NOTE)
        self._store.put_note(CORROBORATED_TIME_NOTE, str(believed), expected=noted)
        return True

    def _look(self, before: Timeline, wall: int, era: str, at: int) -> Timeline:
        """Return the timeline *before* with one more reading of the clocks.

        If a commit since the doubt began has a time well before the readings in doubt, another
        process has a clock that is not ahead. Then the doubt about this clock begins anew.
        """
        last, doubt = self._store.commit_at(FOREVER), before.doubt
        if doubt is not None and doubt.ahead:
            behind = self._store.commit_at(doubt.least + doubt.since - CLOCK_STEP_US)
            if behind > doubt.commit:
                before = replace(before, doubt=None)
        return before.observed(wall, era, at, last)


def _believed(known: Timeline, time: int, era: str, at: int) -> int:
    line = known.line + known.active_at(era, at)
    return time if time <= line + CLOCK_STEP_US else line


def _read(text: str) -> Timeline:
    plain = json.loads(text)
    doubt = plain.pop("doubt")
    return Timeline(**plain, doubt=None if doubt is None else Doubt(**doubt))
