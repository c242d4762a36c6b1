"""LangGraph's stores: on SQLite with sqlite-vec, and in memory. The scope is part of the namespace.

`SqliteStore` loads sqlite-vec, which many builds of Python forbid their `sqlite3`. It takes any
connection of that shape, so it is given one of pysqlite3, opened as `SqliteStore.from_conn_string`
opens its own. Its `recent` is its search without a query: by the second of the last update, which
items of one second leave open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import cast

import pysqlite3
from langgraph.store.base import BaseStore, IndexConfig, PutOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore
from langgraph.store.sqlite.base import SqliteIndexConfig

from bench.corpus import CorpusEmbedder, Rows
from bench.peers import Vector


class InMemoryPeer:
    """The store for tests and short-lived agents: a dict, and every vector compared in turn."""

    name = "langgraph-memory"
    version = version("langgraph")
    searches = "vectors (flat)"
    durable = "nothing"
    lacks: Mapping[str, str] = {"reopen": "nothing is kept"}
    most_items: int | None = 100_000
    _store: BaseStore

    def __init__(self, embedder: CorpusEmbedder) -> None:
        self._embedder = embedder

    def open(self, path: Path, dimensions: int) -> None:
        self._store = InMemoryStore(index=self._index(dimensions))

    def add(self, rows: Rows, scopes: Sequence[str]) -> None:
        """All at once, but for repeated texts: it fails on a batch that has a text twice."""
        first: dict[str, PutOp] = {}
        for name, text, kind, scope in zip(rows.ids, rows.texts, rows.kinds, scopes, strict=True):
            put = PutOp(("items", scope), name, {"text": text, "kind": kind})
            if first.setdefault(text, put) is not put:
                self._store.batch([put])
        self._store.batch(list(first.values()))

    def add_one(self, row: Rows, scope: str) -> None:
        self._store.put(("items", scope), row.ids[0], {"text": row.texts[0], "kind": row.kinds[0]})

    def prepare(self) -> None:
        """Nothing: there is no index to build."""

    def get(self, name: str, scope: str) -> str:
        found = self._store.get(("items", scope), name)
        assert found is not None, name
        return found.value["text"]

    def search(self, vector: Vector, text: str, scope: str | None, limit: int) -> list[str]:
        return [found.key for found in self._store.search(_space(scope), query=text, limit=limit)]

    def search_filtered(
        self, vector: Vector, text: str, scope: str | None, kind: str, limit: int
    ) -> list[str]:
        return [
            found.key
            for found in self._store.search(
                _space(scope), query=text, filter={"kind": kind}, limit=limit
            )
        ]

    def recent(self, scope: str, limit: int) -> list[str]:
        return [found.key for found in self._store.search(_space(scope), limit=limit)]

    def delete(self, name: str, scope: str) -> None:
        self._store.delete(("items", scope), name)

    def close(self) -> None:
        """Nothing to give back."""

    def _index(self, dimensions: int) -> IndexConfig:
        return {"dims": dimensions, "embed": self._vectors, "fields": ["text"]}

    def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        return self._embedder.embed(texts).tolist()


class SqlitePeer(InMemoryPeer):
    """The store on a file."""

    name = "langgraph-sqlite"
    version = (
        f"{version('langgraph-checkpoint-sqlite')}, sqlite-vec {version('sqlite-vec')},"
        f" SQLite {pysqlite3.sqlite_version}"
    )
    durable = "a power cut"
    lacks: Mapping[str, str] = {}
    most_items = None

    def open(self, path: Path, dimensions: int) -> None:
        self._connection = pysqlite3.connect(
            str(path / "langgraph.db"), check_same_thread=False, isolation_level=None
        )
        # It reads `text_fields`, not the documented `fields`; without it the whole value is
        # embedded, as JSON.
        index = {**self._index(dimensions), "text_fields": ["text"]}
        store = SqliteStore(self._connection, index=cast("SqliteIndexConfig", index))
        store.setup()
        self._store = store

    def close(self) -> None:
        self._connection.close()


def _space(scope: str | None) -> tuple[str, ...]:
    return ("items", scope) if scope else ("items",)
