"""The promises of fornix as tests that anyone can run on a store of their own.

Three lines hold a store to all of `fornix.store`::

    class TestMine(StoreContract):
        def open(self, path):
            return MyStore(path)

`store_machine` plays random batches on a store and on `RamStore` and compares every answer;
`play_threads` and `replay` do so with batches that threads committed at the same time.
`ContextContract` holds a memory of an agent's window to its laws, yours or one of fornix.
`ChatServer` speaks the protocol of language models, with its faults, on this machine.
All of it needs ``pip install pytest hypothesis``; fornix itself does not.
"""

from __future__ import annotations

from importlib.util import find_spec

for _needed in ("pytest", "hypothesis"):
    if find_spec(_needed) is None:
        message = f"fornix.testing needs {_needed}: pip install pytest hypothesis"
        raise ImportError(message, name=_needed)

import pytest  # noqa: E402 - after saying what is missing

_PLAYS = ("again", "forgets", "game", "lane_reads", "machine", "replay")
_LAWS = (
    "commits",
    "effects",
    "erasing",
    "erasing_runs",
    "expiry",
    "finder",
    "groups",
    "handle",
    "items",
    "lanes",
    "lineage",
    "ops",
    "outputs",
    "past",
    "persistence",
    "progress",
    "retention",
    "runner_async",
    "runner_durable",
    "runner_failures",
    "runner_inputs",
    "runner_laws",
    "runner_memory",
    "runner_order",
    "runner_outputs",
    "runner_reconcilers",
    "runner_recovery",
    "runner_walk",
    "sets",
    "staging",
    "threads",
    "tree",
    "windows",
)
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in (*_PLAYS, *_LAWS)))

from fornix.testing.batches import (  # noqa: E402 - their assertions are to be rewritten  # noqa: E402 - the same
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
from fornix.testing.chat_server import (  # noqa: E402 - the same
    ChatAsked,
    ChatReply,
    ChatServer,
)
from fornix.testing.contract import (  # noqa: E402 - the same
    PersistentStoreContract,
    StoreContract,
)
from fornix.testing.reads import Follower, differences, reads, tree  # noqa: E402 - the same
from fornix.testing.replay import play_beside, play_threads, replay  # noqa: E402 - the same
from fornix.testing.runner.runner_contract import RunnerContract  # noqa: E402 - the same
from fornix.testing.store_machine import store_machine  # noqa: E402 - the same
from fornix.testing.window_contract import ContextContract  # noqa: E402 - the same

__all__ = [
    "ADA",
    "BOB",
    "HANDBOOK",
    "NOTES",
    "NOW",
    "START",
    "ChatAsked",
    "ChatReply",
    "ChatServer",
    "Clock",
    "ContextContract",
    "Follower",
    "PersistentStoreContract",
    "RunnerContract",
    "StoreContract",
    "add",
    "batch",
    "differences",
    "play_beside",
    "play_threads",
    "reads",
    "record",
    "replay",
    "store_machine",
    "tree",
    "write",
]
