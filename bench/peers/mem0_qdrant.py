"""mem0 (open source) on Qdrant's local mode, `infer=False`: texts are kept as they are and no model
is asked.

It names its memories itself, so the harness's ids travel as metadata. It would turn texts into
vectors over the network; its embedder is replaced by the corpus's, and its language model is
configured (it must be) but never called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from mem0 import Memory
from mem0.configs.embeddings.base import BaseEmbedderConfig
from mem0.embeddings.base import EmbeddingBase

from bench.corpus import CorpusEmbedder, Rows
from bench.peers import Vector

NO_KEY = "never-used"


class Mem0:
    """Its `get` and `delete` take its own ids, which the adapter keeps in a dict."""

    name = "mem0"
    version = f"{version('mem0ai')}, qdrant-client {version('qdrant-client')}"
    searches = "vectors (flat)"
    durable = "a power cut"
    lacks: Mapping[str, str] = {"recent": "get_all has no order"}
    most_items = 10_000

    def __init__(self, embedder: CorpusEmbedder) -> None:
        self._embedder = embedder
        self._own: dict[str, str] = {}

    def open(self, path: Path, dimensions: int) -> None:
        place = {
            "collection_name": "items",
            "path": str(path / "qdrant"),
            "embedding_model_dims": dimensions,
            "on_disk": True,
        }
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": place},
                "embedder": {
                    "provider": "openai",
                    "config": {"api_key": NO_KEY, "embedding_dims": dimensions},
                },
                "llm": {"provider": "openai", "config": {"api_key": NO_KEY}},
                "history_db_path": str(path / "history.db"),
            }
        )
        self._memory.embedding_model = _Lookup(self._embedder)

    def add(self, rows: Rows, scopes: Sequence[str]) -> None:
        """One by one: it has no call for many texts of many users."""
        for i, scope in enumerate(scopes):
            self.add_one(rows.part(i, i + 1), scope)

    def add_one(self, row: Rows, scope: str) -> None:
        marks = {"name": row.ids[0], "kind": row.kinds[0]}
        made = self._memory.add(row.texts[0], user_id=scope, metadata=marks, infer=False)
        self._own[row.ids[0]] = made["results"][0]["id"]

    def prepare(self) -> None:
        """Nothing: its local mode has no index."""

    def get(self, name: str, scope: str) -> str:
        found = self._memory.get(self._own[name])
        assert found is not None, name
        return found["memory"]

    def search(self, vector: Vector, text: str, scope: str | None, limit: int) -> list[str]:
        return self._query(text, {"user_id": scope or "*"}, limit)

    def search_filtered(
        self, vector: Vector, text: str, scope: str | None, kind: str, limit: int
    ) -> list[str]:
        return self._query(text, {"user_id": scope or "*", "kind": kind}, limit)

    def recent(self, scope: str, limit: int) -> list[str]:
        raise NotImplementedError(self.lacks["recent"])

    def delete(self, name: str, scope: str) -> None:
        self._memory.delete(self._own.pop(name))

    def close(self) -> None:
        self._memory.close()
        self._memory.vector_store.client.close()

    def _query(self, text: str, filters: dict[str, str], limit: int) -> list[str]:
        found = self._memory.search(text, filters=filters, top_k=limit)
        return [each["metadata"]["name"] for each in found["results"]]


class _Lookup(EmbeddingBase):
    """mem0's embedder interface over the corpus's vectors."""

    def __init__(self, embedder: CorpusEmbedder) -> None:
        super().__init__(BaseEmbedderConfig(embedding_dims=embedder.dimensions))
        self._embedder = embedder

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self._embedder.embed([text])[0].tolist()
