"""Ids of items: rising with time, or following from what they are made for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from hashlib import blake2b
from itertools import count


def new_id() -> str:
    """Return a UUID of version 7: unique, and rising with time."""
    return uuid7(time.time_ns())


def uuid7(ns: int) -> str:
    """Return a UUID of version 7 of a time in nanoseconds (RFC 9562, method 3)."""
    ms, fraction = divmod(ns, 1_000_000)
    random = int.from_bytes(os.urandom(8)) & ((1 << 62) - 1)
    sub_ms = (fraction << 12) // 1_000_000
    return _uuid((ms & ((1 << 48) - 1)) << 80 | 7 << 76 | sub_ms << 64 | 2 << 62 | random)


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
