"""What all errors of one kind are: the roots of the tree that `fornix.errors` draws."""

from __future__ import annotations


class FornixError(Exception):
    """Root of every error that fornix raises on purpose."""


class InvalidInput(FornixError, ValueError):
    """What was passed cannot be used; nothing was changed."""


class Conflict(FornixError):
    """Somebody else was first; nothing was changed."""


class NotFound(FornixError, LookupError):
    """There is no such item, set, key or file."""


class LimitReached(FornixError):
    """A limit that somebody chose was reached; nothing was changed."""


class Unavailable(FornixError):
    """The store cannot do this now; nothing was changed; trying again later may work."""


class Unusable(FornixError):
    """This handle or file cannot serve."""
