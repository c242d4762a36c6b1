"""Ids of fragments: fornix's own numbers, or the smaller ones that DB-GPT's programs ask for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from fornix.errors import InvalidInput
from fornix.sets.writer import new_id
from fornix.values.storable import counted

INSTANCES, SEQUENCE = 1 << 10, 1 << 12
"""How many processes, and ids of one process and millisecond, a Snowflake tells apart."""

TIMED_BITS = 22
"""Below the milliseconds of a Snowflake."""

LARGEST = 1 << 64
"""Above all Snowflakes, below all numbers of fornix's own."""

OWN_TIMED_BITS = 80
"""Below the milliseconds of a version 7 UUID, which is what fornix's own numbers are."""


class Snowflakes:
    """Makes numbers of 64 bits that rise: milliseconds, the number of the process, a count.

    Args:
        instance: The number of this process, 0..1023; no other that writes has it.
        seq: The count of the first id, 0..4095.
        epoch: When the milliseconds begin, itself in milliseconds since 1970.
        timestamp: The least time of the first id, in milliseconds since 1970.
    """

    def __init__(
        self, instance: int, seq: int = 0, epoch: int = 0, timestamp: int | None = None
    ) -> None:
        self._instance = _below(instance, "instance", INSTANCES)
        self._seq = _below(seq, "seq", SEQUENCE) - 1
        self.epoch = _below(epoch, "epoch", _milliseconds())
        first = self.epoch if timestamp is None else timestamp
        self._last = max(_milliseconds(), counted(first, "timestamp", least=self.epoch))
        self._mutex = threading.Lock()

    def __call__(self) -> int:
        """Return the next number; one that runs ahead of the clock if a millisecond is used up."""
        with self._mutex:
            now = max(_milliseconds(), self._last)
            self._seq = self._seq + 1 if now == self._last else 0
            if self._seq == SEQUENCE:
                now, self._seq = now + 1, 0
            self._last = now
            return (now - self.epoch << TIMED_BITS) | self._instance << 12 | self._seq


class _Ids:
    """Who makes ids in this process."""

    snowflakes: Callable[[], int] | None = None
    epoch = 0


_IDS = _Ids()


def initialize_id_generator(
    instance: int | None = None, seq: int = 0, epoch: int = 0, timestamp: int | None = None
) -> None:
    """Have ids of new fragments in this process be Snowflakes, as DB-GPT's are.

    Call it before the first fragment is made. Ids of fornix's own need no number of the process.

    Args:
        instance: The number of this process, 0..1023; no other that writes has it. None: fornix's
            own ids again.
        seq: The count of the first id, 0..4095.
        epoch: When the milliseconds begin, itself in milliseconds since 1970.
        timestamp: The least time of the first id, in milliseconds since 1970.

    Raises:
        InvalidInput: A number is out of its range.
    """
    _IDS.snowflakes = None if instance is None else Snowflakes(instance, seq, epoch, timestamp)
    _IDS.epoch = 0 if instance is None else epoch


def new_fragment_id() -> int:
    """Return a number that nobody else gets, in this process or another; it rises with time."""
    if _IDS.snowflakes is not None:
        return _IDS.snowflakes()
    return int(new_id().replace("-", ""), 16)


def time_of_id(fragment_id: int) -> datetime:
    """Return when fornix made an id; senseless for one from outside.

    Of a Snowflake: with the epoch that ids have now.
    """
    if fragment_id < LARGEST:
        milliseconds = _IDS.epoch + (fragment_id >> TIMED_BITS)
    else:
        milliseconds = fragment_id >> OWN_TIMED_BITS
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000


def _below(number: int, what: str, limit: int) -> int:
    if counted(number, what, least=0) >= limit:
        raise InvalidInput(f"{what} must be below {limit}, not {number}")
    return number
