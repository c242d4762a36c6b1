"""LangGraph's `PostgresStore` with an index of vectors, and its checkpoints, on PostgreSQL.

The calls are those of `langgraph_store`; the vector index is the one that `setup` makes (HNSW), but
for a large load it is dropped first and made again after it, as pgvector's documentation advises.
"""

from __future__ import annotations

from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.store.postgres import PostgresStore

from bench.corpus import CorpusEmbedder
from bench.peers.langgraph_store import InMemoryPeer
from bench.peers.on_postgres import NO_INDEX
from bench.runs import LangGraph

INDEX = """
    CREATE INDEX IF NOT EXISTS store_vectors_embedding_idx ON store_vectors
    USING hnsw (embedding vector_cosine_ops)
"""


class LangGraphPostgres(InMemoryPeer):
    """The store, with one connection, as `from_conn_string` opens it."""

    name = "langgraph-postgres"
    version = f"{version('langgraph-checkpoint-postgres')}, psycopg {version('psycopg')}"
    searches = "vectors (HNSW)"
    durable = "a power cut"
    most_items = None

    def __init__(self, embedder: CorpusEmbedder, url: str) -> None:
        super().__init__(embedder)
        self._url = url

    def open(self, path: Path, dimensions: int) -> None:
        self._open = ExitStack()
        self._store = self._opened(self._url, dimensions)
        self._store.setup()
        self._unindexed = self._opened(_with_options(self._url, NO_INDEX), dimensions)
        with psycopg.connect(self._url, autocommit=True) as db:
            if db.execute("SELECT 1 FROM store LIMIT 1").fetchone() is None:
                db.execute("DROP INDEX IF EXISTS store_vectors_embedding_idx")

    def _opened(self, url: str, dimensions: int) -> PostgresStore:
        index = cast("Any", self._index(dimensions))
        return self._open.enter_context(PostgresStore.from_conn_string(url, index=index))

    def prepare(self) -> None:
        """Make the index of vectors that `setup` makes, and count for the planner."""
        with psycopg.connect(self._url, autocommit=True) as db:
            db.execute(INDEX)
            db.execute("VACUUM ANALYZE store")
            db.execute("VACUUM ANALYZE store_vectors")

    def exact(self, text: str, scope: str | None, limit: int) -> list[str]:
        """What `search` would find if it compared every vector."""
        space = ("items", scope) if scope else ("items",)
        return [found.key for found in self._unindexed.search(space, query=text, limit=limit)]

    def close(self) -> None:
        self._open.close()


class LangGraphRuns(LangGraph):
    """The graph of `bench/runs.py` with the PostgreSQL checkpointer."""

    def __init__(self, url: str) -> None:
        super().__init__("sync")
        self._url = url

    def saver(self, folder: Path) -> PostgresSaver:
        self._open = ExitStack()
        saver = self._open.enter_context(PostgresSaver.from_conn_string(self._url))
        saver.setup()
        return saver

    def close(self) -> None:
        self._open.close()


def _with_options(url: str, options: str) -> str:
    return psycopg.conninfo.make_conninfo(url, options=options)
