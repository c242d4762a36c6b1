"""Chroma, embedded (`PersistentClient`): one collection, the scope as metadata, its own HNSW
index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import chromadb
from chromadb.api.types import Where

from bench.corpus import CorpusEmbedder, Rows
from bench.peers import Vector


class Chroma:
    """Vectors are passed in, so its embedding function (which would be downloaded) is never
    made."""

    name = "chroma"
    version = version("chromadb")
    searches = "vectors (HNSW)"
    durable = "a power cut"
    lacks: Mapping[str, str] = {"recent": "a collection has no order"}
    most_items = 100_000

    def __init__(self, embedder: CorpusEmbedder) -> None:
        del embedder

    def open(self, path: Path, dimensions: int) -> None:
        self._client = chromadb.PersistentClient(path=path / "chroma")
        self._items = self._client.get_or_create_collection("items", embedding_function=None)
        self._at_once = self._client.get_max_batch_size()

    def add(self, rows: Rows, scopes: Sequence[str]) -> None:
        for start in range(0, len(rows), self._at_once):
            part = rows.part(start, start + self._at_once)
            marks = [
                {"scope": scope, "kind": kind}
                for scope, kind in zip(scopes[start:], part.kinds, strict=False)
            ]
            self._items.add(
                ids=list(part.ids),
                embeddings=part.vectors,
                documents=list(part.texts),
                metadatas=marks,
            )

    def add_one(self, row: Rows, scope: str) -> None:
        self.add(row, [scope])

    def prepare(self) -> None:
        """Nothing: it indexes as it goes."""

    def get(self, name: str, scope: str) -> str:
        return (self._items.get(ids=[name])["documents"] or [])[0]

    def search(self, vector: Vector, text: str, scope: str | None, limit: int) -> list[str]:
        return self._query(vector, {"scope": scope} if scope else None, limit)

    def search_filtered(
        self, vector: Vector, text: str, scope: str | None, kind: str, limit: int
    ) -> list[str]:
        return self._query(
            vector, {"$and": [{"scope": scope}, {"kind": kind}]} if scope else {"kind": kind}, limit
        )

    def recent(self, scope: str, limit: int) -> list[str]:
        raise NotImplementedError(self.lacks["recent"])

    def delete(self, name: str, scope: str) -> None:
        self._items.delete(ids=[name])

    def close(self) -> None:
        self._client.close()

    def _query(self, vector: Vector, where: Where | None, limit: int) -> list[str]:
        return self._items.query(query_embeddings=vector[None, :], where=where, n_results=limit)[
            "ids"
        ][0]
