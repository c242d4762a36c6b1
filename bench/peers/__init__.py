"""alveus and its peers behind one promise, each called the way its own documentation shows, with
its defaults.

One module per system; a system that is not installed stops nobody but itself. `offline` must be
called before `peer`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.corpus import CorpusEmbedder, Rows

Vector = NDArray[np.float32]

EVERYWHERE = "all"
"""The scope of every item in a layout that has one scope only."""


class Peer(Protocol):
    """A memory that can be filled and asked. Ids, texts and vectors are the harness's own; a scope
    is a user, a key, a namespace.

    Attributes:
        name: As on the command line and in every table.
        version: Of the package that does the work.
        searches: What a search of it reads: `vectors`, `words + vectors`, …
        durable: What an add that has returned survives, as the system comes.
        lacks: Operations (by method name) that the system has not, with the reason; they are never
        called.
        most_items: More than these would take hours or all memory; None where there is no such
        bound.
    """

    name: str
    version: str
    searches: str
    durable: str
    lacks: Mapping[str, str]
    most_items: int | None

    def open(self, path: Path, dimensions: int) -> None:
        """Open what is under the folder *path*, or make it."""

    def add(self, rows: Rows, scopes: Sequence[str]) -> None:
        """Add *rows*, `scopes[i]` being the scope of row i, by the system's call for many."""

    def add_one(self, row: Rows, scope: str) -> None:
        """Add the one item of *row* by the system's call for one."""

    def prepare(self) -> None:
        """What the system asks for after a large load, such as an index on a filtered column."""

    def get(self, name: str, scope: str) -> str:
        """The text of item *name*."""
        ...

    def search(self, vector: Vector, text: str, scope: str | None, limit: int) -> list[str]:
        """The ids of the best *limit* items of *scope* (None: of all), with their texts read."""
        ...

    def search_filtered(
        self, vector: Vector, text: str, scope: str | None, kind: str, limit: int
    ) -> list[str]:
        """As `search`, among the items of *kind* only."""
        ...

    def recent(self, scope: str, limit: int) -> list[str]:
        """The ids of the last *limit* items of *scope*, in the system's own order."""
        ...

    def delete(self, name: str, scope: str) -> None:
        """Delete item *name*."""

    def close(self) -> None:
        """Give everything back."""


SYSTEMS: Mapping[str, tuple[str, str]] = {
    "alveus": ("bench.peers.ours", "Alveus"),
    "alveus-normal": ("bench.peers.ours", "AlveusNormal"),
    "alveus-static": ("bench.peers.ours", "AlveusStatic"),
    "langgraph-sqlite": ("bench.peers.langgraph_store", "SqlitePeer"),
    "langgraph-memory": ("bench.peers.langgraph_store", "InMemoryPeer"),
    "chroma": ("bench.peers.chroma", "Chroma"),
    "lancedb": ("bench.peers.lance", "Lance"),
    "lancedb-hybrid": ("bench.peers.lance", "LanceHybrid"),
    "mem0": ("bench.peers.mem0_qdrant", "Mem0"),
}
OURS = ("alveus", "alveus-normal", "alveus-static")
PEERS = tuple(name for name in SYSTEMS if name not in OURS)


def peer(name: str, embedder: CorpusEmbedder) -> Peer:
    """The system *name*, not yet opened.

    Raises:
        ImportError: It is not installed (`pip install -r bench/requirements.txt`).
        KeyError: There is no system of this name.
    """
    module, made_by = SYSTEMS[name]
    return getattr(import_module(module), made_by)(embedder)


def offline(home: Path) -> None:
    """Keep every peer from calling home, downloading, tracing, or writing outside *home*; for this
    process and its children."""
    os.environ.update(
        ANONYMIZED_TELEMETRY="False",
        DO_NOT_TRACK="1",
        HF_HUB_OFFLINE="1",
        LANGCHAIN_TRACING_V2="false",
        LANGSMITH_TRACING="false",
        LANCEDB_LOG="error",
        MEM0_DIR=str(home / "mem0-home"),
        MEM0_TELEMETRY="False",
        TOKENIZERS_PARALLELISM="false",
        TRANSFORMERS_OFFLINE="1",
    )
