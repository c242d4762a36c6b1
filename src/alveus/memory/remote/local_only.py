"""Calls that need local access to the store: refused over HTTP, with an alternative."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, cast

from alveus.errors import Unsupported
from alveus.sets.writer import Engine
from alveus.values.times import Zone

INSTEAD = "open the server's file or database itself, or do it on the server's machine"


def refused(what: str, instead: str = INSTEAD) -> Callable[..., NoReturn]:
    """Return a function that always raises `Unsupported`."""

    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise unsupported(what, instead)

    return refuse


def unsupported(what: str, instead: str = INSTEAD) -> Unsupported:
    """Return the error of a call that is not available over HTTP."""
    return Unsupported(f"{what} is not done over HTTP; {instead}")


class _NoStore:
    """A placeholder for the engine and the store.

    Attributes:
        wait_s: How long a change is retried while other writers conflict.
        timezone: The reader's zone.
    """

    def __init__(self, wait_s: float, timezone: Zone) -> None:
        self.wait_s, self.timezone = wait_s, timezone

    def __getattr__(self, name: str) -> NoReturn:
        """Raise `Unsupported`."""
        raise unsupported(f"what needs the store itself (its {name})")


def no_engine(wait_s: float, timezone: Zone) -> Engine:
    """Return a placeholder for the engine of a memory behind a server."""
    return cast("Engine", _NoStore(wait_s, timezone))
