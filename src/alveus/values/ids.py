"""Ids of items, and the keys of identities of other systems.

Ids of items rise with time, or follow from the name of the op that makes them.

A thread, a session and a user of the same name have three different keys. A key that a program
names itself is never one of these, so an id of one kind never reads or deletes the memory of
another kind.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import count
from typing import Literal, TypeAlias, get_args

from alveus.values.forks import FORKS

BYTES = 8
"""Random bytes in an id."""

AT_ONCE = 256
"""Ids for which random bytes are read at once: the call costs more than the bytes."""

_RANDOM = (1 << 62) - 1
"""The random bits of an id."""

_VARIANT = 2 << 62
"""The bits of the variant of UUID."""


class _Tails:
    """Random parts of ids, each returned once. A forked process makes new ones."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._generation = FORKS.generation

    def take(self) -> str:
        """Return a random part of an id that is never returned again."""
        if FORKS.is_inherited(self._generation):
            self._parts, self._generation = [], FORKS.generation
        try:
            return self._parts.pop()
        except IndexError:
            first, *rest = _tails(_drawn(AT_ONCE))
            self._parts.extend(rest)
            return first


_TAILS = _Tails()


def new_id() -> str:
    """Return a UUID of version 7: unique. Later UUIDs sort after earlier ones."""
    return uuid7(time.time_ns())


def new_ids(count: int) -> list[str]:
    """Return *count* ids of version 7 in rising order, all with the same time."""
    front = _front(time.time_ns())
    drawn = _drawn(count)
    drawn.sort()  # the random parts order ids of one time
    return [front + tail for tail in _tails(drawn)]


def _drawn(count: int) -> list[int]:
    """Return random numbers of 62 bits with the two bits of the UUID's variant."""
    numbers = struct.unpack(f">{count}Q", os.urandom(BYTES * count))
    return [bits & _RANDOM | _VARIANT for bits in numbers]


def _tails(drawn: Sequence[int]) -> list[str]:
    """Return the random last 17 characters of ids."""
    digits = struct.pack(f">{len(drawn)}Q", *drawn).hex()
    starts = range(0, len(digits), 2 * BYTES)
    return [f"{digits[at : at + 4]}-{digits[at + 4 : at + 16]}" for at in starts]


def _front(ns: int) -> str:
    """Return the first 19 characters of an id: its time."""
    ms, fraction = divmod(ns, 1_000_000)
    sub_ms = (fraction << 12) // 1_000_000  # in parts of 1/4096 of a millisecond
    # This takes two thirds of the time of an f-string with as many formats.
    return "%08x-%04x-7%03x-" % (ms >> 16 & 0xFFFFFFFF, ms & 0xFFFF, sub_ms)  # noqa: UP031 - see above


def made_by(make: Callable[[], str], count: int) -> list[str]:
    """Return *count* ids that *make* makes. Ids of `new_id` are made together, which is faster."""
    return new_ids(count) if count > 1 and make is new_id else [make() for _ in range(count)]


def uuid7(ns: int) -> str:
    """Return a UUID of version 7 for the time *ns*, in nanoseconds (RFC 9562, method 3)."""
    return _front(ns) + _TAILS.take()


def derived_ids(op: bytes) -> Callable[[], str]:
    """Return a function that derives ids from the name of an op. A repeated op gets equal ids."""
    numbers = count()

    def next_id() -> str:
        digest = blake2b(op + next(numbers).to_bytes(8), digest_size=16).digest()
        bits = int.from_bytes(digest) & ~(0xF << 76) & ~(3 << 62)
        return _uuid(bits | 8 << 76 | 2 << 62)

    return next_id


def _uuid(bits: int) -> str:
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


Kind: TypeAlias = Literal[
    "agentscope.agent",
    "agentscope.run",
    "agentscope.user",
    "google_adk.user",
    "langgraph.store",
    "langgraph.thread",
    "memory_store",
    "openai_agents.session",
    "pydantic_ai.store",
]
"""The kinds of identities, each of one integration or protocol. No kind contains a colon."""

KINDS: tuple[Kind, ...] = get_args(Kind)


def identity_key(kind: Kind, identity: str) -> str:
    """Return the key of an identity: its kind, a colon, and the identity as it is.

    Different identities have different keys, because the first colon ends the kind. The key of an
    empty identity is the prefix of all keys of the kind.
    """
    return f"{kind}:{identity}"
