"""Whose memory it is: scopes, the sets in them, and the right to run one."""

from __future__ import annotations

from typing import NamedTuple

from fornix.frozen import frozen

HIDDEN = "\x1a"
"""Begins the names of sets that fornix keeps for itself: in no listing or search of a scope."""


class Scope(NamedTuple):
    """Where memory lives: a key of a space, or a knowledge (`key` is None, `space` its name).

    A tuple, because it is what nearly everything is looked up by.
    """

    space: str
    key: str | None


@frozen
class SetRef:
    """A named set in a scope."""

    scope: Scope
    name: str


def is_hidden(ref: SetRef) -> bool:
    """Return whether a set is one that fornix keeps for itself."""
    return ref.name.startswith(HIDDEN)


@frozen
class Lease:
    """The right to run one key. *epoch* fences whoever held it before."""

    scope: Scope
    owner: str
    epoch: int
