"""Whose memory it is: scopes, the sets in them, and the right to run one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """Where memory lives: a key of a space, or a knowledge (`key` is None, `space` its name)."""

    space: str
    key: str | None


@dataclass(frozen=True, slots=True)
class SetRef:
    """A named set in a scope."""

    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run one key. *epoch* fences whoever held it before."""

    scope: Scope
    owner: str
    epoch: int
