"""Whose memory it is: scopes, the sets in them, and the right to run one."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

from alveus.errors import InvalidName
from alveus.values.lazy_dataclass import dataclass, holds_text
from alveus.values.storable import checked_name

HIDDEN = "\x1a"
"""Begins the names of sets that alveus keeps for itself: in no listing or search of a scope."""


@holds_text
class Scope(NamedTuple):
    """Where memory lives: a key of a space, or a knowledge (`key` is None, `space` its name).

    A tuple, because it is what nearly everything is looked up by.
    """

    space: str
    key: str | None

    @property
    def owner(self) -> str:
        """The key, or the name of the knowledge: how an error names it."""
        return self.key or self.space


@holds_text
class SetRef(NamedTuple):
    """A named set in a scope; a tuple, as `Scope` is one."""

    scope: Scope
    name: str


def is_hidden(ref: SetRef) -> bool:
    """Return whether a set is one that alveus keeps for itself."""
    return ref.name.startswith(HIDDEN)


def set_name(name: str) -> str:
    """Return the name of a set that a user may have.

    Raises:
        InvalidName: It is no name, or one of those that alveus keeps for itself.
    """
    if checked_name(name, "a set's name").startswith(HIDDEN):
        raise InvalidName(f"a set's name does not begin with {HIDDEN!r}, unlike {name!r}")
    return name


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one key. *epoch* fences whoever held it before.

    Attributes:
        taken_over: This call took it from an owner that died; equal leases may differ in it.
    """

    scope: Scope
    owner: str
    epoch: int
    taken_over: bool = field(default=False, compare=False)
