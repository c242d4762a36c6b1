"""Moments: which commit a read of the past is of, what was there by then, and what held."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from alveus.errors import HistoryPruned, InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.store import ItemRecord, Ledger, Scope, SetRef
from alveus.values.storable import counted, microseconds

AsOf: TypeAlias = int | datetime
"""A moment of the past: a commit number, or a time with a zone."""

ValidAt: TypeAlias = datetime | Literal["any"]
"""When a fact has to hold to be found; "any": whenever."""

ANY_TIME: Final = "any"
FOREVER = 1 << 62


class Moment(NamedTuple):
    """A moment of the past.

    Attributes:
        commit: The last commit by then.
        time: What expired by this is not there, in microseconds.
    """

    commit: int
    time: int


def checked_as_of(as_of: AsOf, what: str = "as_of") -> AsOf:
    """Return *as_of*, if it can mean a moment."""
    if isinstance(as_of, int):
        return counted(as_of, what, least=0)
    if not isinstance(as_of, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(
            f"{what} must be the number of a commit or a datetime, not {short_repr(as_of)}"
        )
    return as_of


def moment_of(ledger: Ledger, as_of: AsOf, *, now: int, what: str = "as_of") -> Moment:
    """Return the moment that *as_of* means: of a commit, or of a time up to *now*.

    A time means what was there after the last commit, by number, whose time is not later.
    """
    as_of = checked_as_of(as_of, what)
    if isinstance(as_of, int):
        last = ledger.commit_at(FOREVER)
        return Moment(last, now) if as_of > last else Moment(as_of, ledger.time_of_commit(as_of))
    time = microseconds(as_of, what)
    if time > now:  # a clock may be behind the commits that are there
        time = min(time, max(now, ledger.time_of_commit(ledger.commit_at(FOREVER))))
    return Moment(ledger.commit_at(time), time)


def check_set(ledger: Ledger, ref: SetRef, moment: Moment) -> None:
    """Raise `HistoryPruned` where a set no longer keeps what it was at *moment*."""
    info = ledger.set_info(ref)
    if info is not None and moment.commit < info.history_start:
        raise HistoryPruned(f"set {ref.name!r}", commit=moment.commit, floor=info.history_start)


def check_tree(ledger: Ledger, scope: Scope, moment: Moment) -> None:
    """Raise `HistoryPruned` where the tree of *scope* is no longer kept as it was at *moment*."""
    commit, since = ledger.history_start(scope)
    is_early = since != 0 and moment.time < since
    floor = max(commit, ledger.commit_at(since - 1) + 1 if is_early else 0)
    if moment.commit < commit or is_early:
        raise HistoryPruned(f"key {scope.key!r}", commit=moment.commit, floor=floor)


def valid_time(valid_at: ValidAt | None) -> int | Literal["any"] | None:
    """Return when facts have to hold, in microseconds, or "any"; None: at the moment read.

    Raises:
        InvalidInput: It is neither "any" nor a time with a zone.
    """
    if valid_at is None:
        return None
    if isinstance(valid_at, str) and valid_at == ANY_TIME:
        return ANY_TIME
    if not isinstance(valid_at, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        raise InvalidInput(f"valid_at must be a datetime or 'any', not {short_repr(valid_at)}")
    return microseconds(valid_at, "valid_at")


def expired(record: ItemRecord, now: int) -> bool:
    """Return whether an item has expired by *now*."""
    return record.expires is not None and record.expires <= now


def is_valid_at(record: ItemRecord, at: int) -> bool:
    """Return whether what an item says holds at *at*."""
    since, to = record.valid_from, record.valid_to
    return (since is None or since <= at) and (to is None or at < to)
