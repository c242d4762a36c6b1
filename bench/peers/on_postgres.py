"""pgvector alone: a table on PostgreSQL, searched by words and vectors in one statement.

It is used as its own examples do: a `halfvec` column with an HNSW index, a `tsvector` with a GIN
index, and the two rankings fused by reciprocal ranks; with psycopg, prepared, and a commit per
call. The vector index is built after a large load (`prepare`), as its documentation advises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import psycopg

from bench.corpus import CorpusEmbedder, Rows
from bench.peers import EVERYWHERE, Vector

NO_INDEX = "-c enable_indexscan=off"
"""How a connection of libpq is told to compare every vector."""


TABLES = """
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE IF NOT EXISTS item (
        id text PRIMARY KEY,
        scope text NOT NULL,
        kind text NOT NULL,
        body text NOT NULL,
        words tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED,
        embedding halfvec({dimensions}) NOT NULL
    );
    CREATE INDEX IF NOT EXISTS item_scope ON item (scope);
    CREATE INDEX IF NOT EXISTS item_words ON item USING gin (words);
"""

INDEX = "CREATE INDEX IF NOT EXISTS item_near ON item USING hnsw (embedding halfvec_cosine_ops)"

ADD = "INSERT INTO item (id, scope, kind, body, embedding) VALUES (%s, %s, %s, %s, %s)"

SEARCH = """
    WITH semantic AS (
        SELECT id, RANK() OVER (ORDER BY embedding <=> %(vector)s) AS rank
        FROM item WHERE scope = %(scope)s
        ORDER BY embedding <=> %(vector)s LIMIT 20
    ), keyword AS (
        SELECT id, RANK() OVER (ORDER BY ts_rank_cd(words, query) DESC) AS rank
        FROM item, plainto_tsquery('english', %(text)s) query
        WHERE scope = %(scope)s AND words @@ query
        ORDER BY ts_rank_cd(words, query) DESC LIMIT 20
    ), fused AS (
        SELECT COALESCE(semantic.id, keyword.id) AS id,
            COALESCE(1.0 / (60 + semantic.rank), 0)
                + COALESCE(1.0 / (60 + keyword.rank), 0) AS score
        FROM semantic FULL OUTER JOIN keyword ON semantic.id = keyword.id
        ORDER BY score DESC LIMIT %(limit)s
    )
    SELECT id, body, score FROM fused JOIN item USING (id) ORDER BY score DESC
"""


class Pgvector:
    """A table with an HNSW index, and one of words."""

    name = "pgvector-hnsw"
    version = f"{version('pgvector')}, psycopg {version('psycopg')}"
    searches = "words + vectors"
    durable = "a power cut"
    lacks: Mapping[str, str] = {"recent": "not measured", "search_filtered": "not measured"}
    most_items: int | None = None
    index = INDEX

    def __init__(self, embedder: CorpusEmbedder, url: str) -> None:
        self._embedder, self._url = embedder, url

    def open(self, path: Path, dimensions: int) -> None:
        from pgvector.psycopg import register_vector

        self._db = psycopg.connect(self._url, autocommit=True, prepare_threshold=1)
        if not self._db.execute("SELECT to_regclass('item')").fetchone()[0]:  # pyright: ignore[reportOptionalSubscript]: it has a row
            self._db.execute(cast("Any", TABLES.format(dimensions=dimensions)))
        self._exact = psycopg.connect(self._url, autocommit=True, options=NO_INDEX)
        register_vector(self._db)
        register_vector(self._exact)

    def add(self, rows: Rows, scopes: Sequence[str]) -> None:
        with self._db.transaction(), self._db.cursor() as cursor:
            cursor.executemany(ADD, [self._row(rows, i, scope) for i, scope in enumerate(scopes)])

    def add_one(self, row: Rows, scope: str) -> None:
        self._db.execute(ADD, self._row(row, 0, scope))

    def prepare(self) -> None:
        """Index the vectors, and count for the planner."""
        if self.index:
            self._db.execute(cast("Any", self.index))
        self._db.execute("VACUUM ANALYZE item")

    def get(self, name: str, scope: str) -> str:
        found = self._db.execute("SELECT body FROM item WHERE id = %s", (name,)).fetchone()
        assert found is not None, name
        return found[0]

    def search(self, vector: Vector, text: str, scope: str | None, limit: int) -> list[str]:
        return self._ask(self._db, text, scope, limit)

    def exact(self, text: str, scope: str | None, limit: int) -> list[str]:
        """What `search` would find if it compared every vector."""
        return self._ask(self._exact, text, scope, limit)

    def search_filtered(
        self, vector: Vector, text: str, scope: str | None, kind: str, limit: int
    ) -> list[str]:
        raise NotImplementedError(self.lacks["search_filtered"])

    def recent(self, scope: str, limit: int) -> list[str]:
        raise NotImplementedError(self.lacks["recent"])

    def delete(self, name: str, scope: str) -> None:
        self._db.execute("DELETE FROM item WHERE id = %s", (name,))

    def close(self) -> None:
        self._db.close()
        self._exact.close()

    def _ask(
        self, db: psycopg.Connection[Any], text: str, scope: str | None, limit: int
    ) -> list[str]:
        bindings = {
            "vector": self._vector(text),
            "text": text,
            "scope": scope or EVERYWHERE,
            "limit": limit,
        }
        return [row[0] for row in db.execute(SEARCH, bindings).fetchall()]

    def _row(self, rows: Rows, at: int, scope: str) -> tuple[object, ...]:
        return rows.ids[at], scope, rows.kinds[at], rows.texts[at], self._vector(rows.texts[at])

    def _vector(self, text: str) -> object:
        from pgvector import HalfVector

        return HalfVector(self._embedder.embed([text])[0])


class PgvectorExact(Pgvector):
    """The same without an index of vectors: each search compares all of a scope."""

    name = "pgvector-exact"
    index = ""
