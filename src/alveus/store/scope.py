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
"""The prefix of internal sets, which no listing or search of a scope includes."""


@holds_text
class Scope(NamedTuple):
    """The owner of memory: a key of a space, or a knowledge (`key` is None, `space` its name)."""

    space: str
    key: str | None

    @property
    def owner(self) -> str:
        """The key, or the name of the knowledge, for errors."""
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
    """Return *name*; `InvalidName` if it is no name, or one of an internal set."""
    if checked_name(name, "a set's name").startswith(HIDDEN):
        raise InvalidName(f"a set's name does not begin with {HIDDEN!r}, unlike {name!r}")
    return name


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one key. *epoch* fences earlier owners.

    Attributes:
        taken_over: This call took it from an owner that died; equal leases may differ in it.
    """

    scope: Scope
    owner: str
    epoch: int
    taken_over: bool = field(default=False, compare=False)


_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = 0xD7FF, 0xE000
_LAST_CODE_POINT = 0x10FFFF


@functools.lru_cache(maxsize=16_384)
def escaped(name: str) -> str:
    """Return a name with dots and backslashes escaped, as in a path; names are ordered so."""
    return name.replace("\\", "\\\\").replace(".", "\\.")


def end_of_prefix(prefix: str) -> str | None:
    """Return the least text after all texts that begin with *prefix*, or None."""
    while prefix:
        last = ord(prefix[-1])
        if last != _LAST_CODE_POINT:
            after = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else last + 1
            return prefix[:-1] + chr(after)
        prefix = prefix[:-1]
    return None


@dataclass(frozen=True, slots=True)
class NameRange:
    """A range of names, in their order: code points, a dot before a backslash.

    Attributes:
        after: The name before the first, in the direction of reading. None means no bound.
        limit: The most names. None means all.
        newest_first: Read from the last name to the first.
    """

    prefix: str = ""
    after: str | None = None
    limit: int | None = None
    newest_first: bool = False

    def choose(self, names: Iterable[str]) -> list[str]:
        """Return the names in the range, in order."""
        found = [name for name in names if name.startswith(self.prefix)]
        if self.after is not None:
            after = escaped(self.after)
            if self.newest_first:
                found = [name for name in found if escaped(name) < after]
            else:
                found = [name for name in found if escaped(name) > after]
        return sorted(found, key=escaped, reverse=self.newest_first)[: self.limit]
