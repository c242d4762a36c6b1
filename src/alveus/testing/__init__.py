"""Tests for the author of a store, an embedder, a context or an agent.

Three lines hold a store to the laws of `alveus.store`::

    class TestMine(StoreContract):
        def open(self, path):
            return MyStore(path)

`reads` and `differences` compare all answers of two stores.
`EmbedderContract` holds an embedder to its laws.
`ContextContract` holds a memory of an agent's window to its laws.
`ChatServer` is a local server of the chat protocol that can simulate the faults of real servers.

`ChatServer`, `ChatReply` and `ReceivedRequest` need nothing but alveus.
Everything else needs ``pip install pytest hypothesis``.
"""

from __future__ import annotations

from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING

_MISSING = [name for name in ("pytest", "hypothesis") if find_spec(name) is None]

if not _MISSING:
    import pytest

    pytest.register_assert_rewrite(
        *(f"{__name__}.{module.name}" for module in iter_modules(__path__))
    )

    from alveus.testing.batches import (
        ADA,
        BOB,
        HANDBOOK,
        NOTES,
        NOW,
        START,
        Clock,
        add,
        batch,
        record,
        write,
    )
    from alveus.testing.contract import PersistentStoreContract, StoreContract
    from alveus.testing.embedder_laws import EmbedderContract
    from alveus.testing.reads import Follower, differences, reads, tree
    from alveus.testing.window_contract import ContextContract

from alveus.testing.chat_server import ChatReply, ChatServer, ReceivedRequest  # noqa: E402 - pytest registers all modules before

__all__ = [
    "ADA",
    "BOB",
    "HANDBOOK",
    "NOTES",
    "NOW",
    "START",
    "ChatReply",
    "ChatServer",
    "Clock",
    "ContextContract",
    "EmbedderContract",
    "Follower",
    "PersistentStoreContract",
    "ReceivedRequest",
    "StoreContract",
    "add",
    "batch",
    "differences",
    "reads",
    "record",
    "tree",
    "write",
]


if not TYPE_CHECKING:  # otherwise type checkers accept any name

    def __getattr__(name: str) -> object:
        """Raise an error that names the packages which *name* needs."""
        if _MISSING and name in __all__:
            missing = " and ".join(_MISSING)
            message = f"alveus.testing.{name} needs {missing}: pip install pytest hypothesis"
            raise ImportError(message, name=_MISSING[0])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
