"""Scopes, the sets in them, the lease to run a key, and ranges of names."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import field
from typing import NamedTuple

from alveus.errors import InvalidName
from alveus.values.lazy_dataclass import dataclass, holds_text
from alveus.values.storable import checked_name

HIDDEN = "\x1a"
"""The prefix of the names of internal sets, which no listing or search of a scope includes."""


@holds_text
class Scope(NamedTuple):
    """What a piece of memory belongs to: a key of a space, or a knowledge.

    A knowledge has a `key` of None, and its name as `space`.
    """

    space: str
    key: str | None

    @property
    def owner(self) -> str:
        """The key, or the name of the knowledge, as errors name it."""
        return self.key or self.space


@holds_text
class SetRef(NamedTuple):
    """A named set in a scope."""

    scope: Scope
    name: str


def is_hidden(ref: SetRef) -> bool:
    """Return whether a set is internal to alveus."""
    return ref.name.startswith(HIDDEN)


def set_name(name: str) -> str:
    """Return *name*, the name of a user's set.

    Raises:
        InvalidName: *name* is not a valid name, or is a name of an internal set.
    """
    if checked_name(name, "a set's name").startswith(HIDDEN):
        raise InvalidName(f"the name of a set must not begin with {HIDDEN!r}, as {name!r} does")
    return name


@dataclass(frozen=True, slots=True)
class Lease:
    """The right of one owner to run a key.

    Attributes:
        epoch: A number that rises with each new owner, so that a store refuses commits of earlier
            owners.
        taken_over: Whether the call that returned this lease took it from a dead owner. Leases that
            differ in this field only are equal.
    """

    scope: Scope
    owner: str
    epoch: int
    taken_over: bool = field(default=False, compare=False)


_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = 0xD7FF, 0xE000
_LAST_CODE_POINT = 0x10FFFF


@functools.lru_cache(maxsize=16_384)
def escaped(name: str) -> str:
    """Return *name* with dots and backslashes escaped, as in a path.

    Names are in the order of their escaped forms.
    """
    return name.replace("\\", "\\\\").replace(".", "\\.")


def end_of_prefix(prefix: str) -> str | None:
    """Return the least text after all texts that begin with *prefix*.

    Returns None if no text comes after them.
    """
    while prefix:
        last = ord(prefix[-1])
        if last != _LAST_CODE_POINT:
            after = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else last + 1
            return prefix[:-1] + chr(after)
        prefix = prefix[:-1]
    return None


@dataclass(frozen=True, slots=True)
class NameRange:
    """A range of names. Names are in the order of code points, but a dot precedes a backslash.

    Attributes:
        prefix: The names in the range begin with this text.
        after: The range begins after this name, in the direction of reading. If None, it begins
            with the first name.
        limit: The most names in the range, or None for all.
        newest_first: Read from the last name to the first.
    """

    prefix: str = ""
    after: str | None = None
    limit: int | None = None
    newest_first: bool = False

    def choose(self, names: Iterable[str]) -> list[str]:
        """Return the *names* in the range, in the order of reading."""
        found = [name for name in names if name.startswith(self.prefix)]
        if self.after is not None:
            after = escaped(self.after)
            if self.newest_first:
                found = [name for name in found if escaped(name) < after]
            else:
                found = [name for name in found if escaped(name) > after]
        return sorted(found, key=escaped, reverse=self.newest_first)[: self.limit]
