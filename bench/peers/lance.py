"""LanceDB, embedded: one table, the scope as a column with a BTREE index; searched by vectors, or
hybrid with its full-text index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import lancedb
import pyarrow as pa

from bench.corpus import CorpusEmbedder, Rows
from bench.peers import Vector

COLUMNS = ["id", "text"]


class Lance:
    """Flat search: its documentation asks for a vector index only for large tables, and a default
    one loses a third of the results."""

    name = "lancedb"
    version = version("lancedb")
    searches = "vectors (flat)"
    durable = "the death of the process (it never syncs)"
    lacks: Mapping[str, str] = {"recent": "a table has no order"}
    most_items: int | None = None

    def __init__(self, embedder: CorpusEmbedder) -> None:
        del embedder

    def open(self, path: Path, dimensions: int) -> None:
        self._database = lancedb.connect(path / "lance")
        self._schema = pa.schema(
            [
                ("id", pa.string()),
                ("scope", pa.string()),
                ("kind", pa.string()),
                ("text", pa.string()),
                ("vector", pa.list_(pa.float32(), dimensions)),
            ]
        )
        self._items = self._database.create_table("items", schema=self._schema, exist_ok=True)

    def add(self, rows: Rows, scopes: Sequence[str]) -> None:
        vectors = pa.FixedSizeListArray.from_arrays(
            pa.array(rows.vectors.ravel()), rows.vectors.shape[1]
        )
        self._items.add(
            pa.table(
                [list(rows.ids), list(scopes), list(rows.kinds), list(rows.texts), vectors],
                schema=self._schema,
            )
        )

    def add_one(self, row: Rows, scope: str) -> None:
        self._items.add(
            [
                {
                    "id": row.ids[0],
                    "scope": scope,
                    "kind": row.kinds[0],
                    "text": row.texts[0],
                    "vector": row.vectors[0],
                }
            ]
        )

    def prepare(self) -> None:
        """Index the columns that are filtered by, and fold its files."""
        for column in ("id", "scope", "kind"):
            self._items.create_scalar_index(column)
        self._items.optimize()

    def get(self, name: str, scope: str) -> str:
        return (
            self._items.search()
            .where(f"id = '{name}'")
            .limit(1)
            .select(COLUMNS)
            .to_list()[0]["text"]
        )

    def search(self, vector: Vector, text: str, scope: str | None, limit: int) -> list[str]:
        return self._query(vector, text, f"scope = '{scope}'" if scope else "", limit)

    def search_filtered(
        self, vector: Vector, text: str, scope: str | None, kind: str, limit: int
    ) -> list[str]:
        return self._query(
            vector, text, f"kind = '{kind}'" + (f" AND scope = '{scope}'" if scope else ""), limit
        )

    def recent(self, scope: str, limit: int) -> list[str]:
        raise NotImplementedError(self.lacks["recent"])

    def delete(self, name: str, scope: str) -> None:
        self._items.delete(f"id = '{name}'")

    def close(self) -> None:
        """Nothing to give back: files are opened per call."""

    def _query(self, vector: Vector, text: str, where: str, limit: int) -> list[str]:
        asked = self._items.search(vector)
        if where:
            asked = asked.where(where)
        return [row["id"] for row in asked.limit(limit).select([*COLUMNS, "_distance"]).to_list()]


class LanceHybrid(Lance):
    """The same table with a full-text index; words and vectors fused by reciprocal ranks, its
    default."""

    name = "lancedb-hybrid"
    searches = "words + vectors"

    def prepare(self) -> None:
        """As `Lance.prepare`, and index the words."""
        self._items.create_fts_index("text", replace=True)
        super().prepare()

    def _query(self, vector: Vector, text: str, where: str, limit: int) -> list[str]:
        asked = self._items.search(query_type="hybrid").vector(vector).text(text)
        if where:
            asked = asked.where(where)
        return [row["id"] for row in asked.limit(limit).select(COLUMNS).to_list()]
