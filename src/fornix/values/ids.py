"""Ids of items: rising with time, or following from what they are made for."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from hashlib import blake2b
from itertools import count

from fornix.values.forks import FORKS

BYTES = 8
"""Of randomness in an id."""

AT_ONCE = 256
"""Ids whose randomness is asked for at once: the system takes longer to answer than to make it."""

_RANDOM = (1 << 62) - 1
"""The bits of an id that are drawn."""

_VARIANT = 2 << 62
"""The bits that say which kind of UUID it is."""


class _Randomness:
    """Random bytes of the system, each given once, in whatever process: a fork takes new ones."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._generation = FORKS.generation

    def take(self) -> bytes:
        """Return eight bytes that nobody else gets."""
        if FORKS.is_inherited(self._generation):
            self._parts, self._generation = [], FORKS.generation
        try:
            return self._parts.pop()
        except IndexError:
            pool = os.urandom(BYTES * AT_ONCE)
            first, *rest = (pool[at : at + BYTES] for at in range(0, len(pool), BYTES))
            self._parts.extend(rest)
            return first


_RANDOMNESS = _Randomness()


def new_id() -> str:
    """Return a UUID of version 7: unique, and rising with time."""
    return uuid7(time.time_ns())


def new_ids(count: int) -> list[str]:
    """Return as many ids as asked for, as `new_id` makes them: rising, and all of one time."""
    ms, sub_ms = _time_of(time.time_ns())
    numbers = struct.Struct(f">{count}Q")
    drawn = [bits & _RANDOM | _VARIANT for bits in numbers.unpack(os.urandom(BYTES * count))]
    drawn.sort()  # what is drawn says which comes first of one time
    digits = numbers.pack(*drawn).hex()
    front = f"{ms:012x}{0x7000 | sub_ms:04x}"
    front = f"{front[:8]}-{front[8:12]}-{front[12:]}-"
    starts = range(0, len(digits), 2 * BYTES)
    return [f"{front}{digits[at : at + 4]}-{digits[at + 4 : at + 16]}" for at in starts]


def made_by(make: Callable[[], str], count: int) -> list[str]:
    """Return as many ids as asked for, of a maker of ids; those of `new_id` are made at once."""
    return new_ids(count) if count > 1 and make is new_id else [make() for _ in range(count)]


def uuid7(ns: int) -> str:
    """Return a UUID of version 7 of a time in nanoseconds (RFC 9562, method 3)."""
    ms, sub_ms = _time_of(ns)
    random = int.from_bytes(_RANDOMNESS.take()) & _RANDOM
    return _uuid(ms << 80 | 7 << 76 | sub_ms << 64 | _VARIANT | random)


def _time_of(ns: int) -> tuple[int, int]:
    """Return the milliseconds of a time, and the rest in parts of 1/4096 of one."""
    ms, fraction = divmod(ns, 1_000_000)
    return ms & ((1 << 48) - 1), (fraction << 12) // 1_000_000


def derived_ids(op: bytes) -> Callable[[], str]:
    """Return a maker of ids that follow from the name of an op: the same for a repetition."""
    numbers = count()

    def next_id() -> str:
        digest = blake2b(op + next(numbers).to_bytes(8), digest_size=16).digest()
        bits = int.from_bytes(digest) & ~(0xF << 76) & ~(3 << 62)
        return _uuid(bits | 8 << 76 | 2 << 62)

    return next_id


def _uuid(bits: int) -> str:
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
