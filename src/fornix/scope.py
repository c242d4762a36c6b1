"""Whose memory it is: scopes, the sets in them, and the right to run one."""

from __future__ import annotations

from typing import NamedTuple

from fornix.frozen import frozen


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


@frozen
class Lease:
    """The right to run one key. *epoch* fences whoever held it before."""

    scope: Scope
    owner: str
    epoch: int
