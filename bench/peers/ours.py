"""alveus, by its public names only: a scope is a key, an item its text with a metadata field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Literal

from alveus import Item, Memory
from alveus.store.postgres import PostgresStore
from bench.corpus import CorpusEmbedder, Rows
from bench.peers import EVERYWHERE, Vector


class Alveus:
    """Full durability, the default search: words, meaning and signals."""

    name = "alveus"
    version = version("alveus")
    searches = "words + vectors"
    durable = "a power cut"
    durability: Literal["full", "normal"] = "full"
    bundled: Literal["static"] | None = None
    lacks: Mapping[str, str] = {}
    most_items: int | None = None

    def __init__(self, embedder: CorpusEmbedder) -> None:
        self._embedder = embedder

    def open(self, path: Path, dimensions: int) -> None:
        self.memory = Memory.open(
            str(path / "alveus.db"),
            embedder=self.bundled or self._embedder,
            durability=self.durability,
        )
        self._keys = {}

    def add(self, rows: Rows, scopes: Sequence[str]) -> None:
        """One call per scope: a batch of alveus belongs to one key."""
        for scope, places in groupby(range(len(rows)), key=lambda i: scopes[i]):
            items = [
                Item(rows.texts[i], id=rows.ids[i], metadata={"kind": rows.kinds[i]})
                for i in places
            ]
            self._key(scope).add_many(items)

    def add_one(self, row: Rows, scope: str) -> None:
        self._key(scope).add(row.texts[0], id=row.ids[0], metadata={"kind": row.kinds[0]})

    def prepare(self) -> None:
        """Wait until everything is indexed."""
        self.memory.settle()

    def get(self, name: str, scope: str) -> str:
        found = self._key(scope).get(name)
        assert found is not None, name
        return found.text

    def search(self, vector: Vector, text: str, scope: str | None, limit: int) -> list[str]:
        return [hit.item.id for hit in self._key(scope).search(text, limit=limit)]

    def recall(self, text: str, limit: int) -> float:
        """Return how much of what the exact path finds (any search of the past) a search finds."""
        near = {hit.item.id for hit in self._key(None).search(text, limit=limit)}
        exact = set(self.exact(text, None, limit))
        return len(near & exact) / max(1, len(exact))

    def exact(self, text: str, scope: str | None, limit: int) -> list[str]:
        """What `search` would find if it compared everything, as a search of the past does."""
        found = self._key(scope).search(text, limit=limit, as_of=datetime.now(UTC))
        return [hit.item.id for hit in found]

    def search_filtered(
        self, vector: Vector, text: str, scope: str | None, kind: str, limit: int
    ) -> list[str]:
        return [
            hit.item.id for hit in self._key(scope).search(text, limit=limit, where={"kind": kind})
        ]

    def recent(self, scope: str, limit: int) -> list[str]:
        return [item.id for item in self._key(scope).recent(limit)]

    def delete(self, name: str, scope: str) -> None:
        self._key(scope).delete(name)

    def close(self) -> None:
        self.memory.close()

    def _key(self, scope: str | None):
        name = scope or EVERYWHERE
        if name not in self._keys:
            self._keys[name] = self.memory.key(name)
        return self._keys[name]


class AlveusNormal(Alveus):
    """`durability="normal"`: an add survives the death of the process, not a power cut."""

    name = "alveus-normal"
    durable = "the death of the process"
    durability = "normal"


class AlveusStatic(AlveusNormal):
    """With an embedder that makes the vectors, which all others have at hand."""

    name = "alveus-static"
    bundled = "static"


class AlveusPostgres(Alveus):
    """The same on a PostgreSQL server."""

    name = "alveus-postgres"

    def __init__(self, embedder: CorpusEmbedder, url: str) -> None:
        super().__init__(embedder)
        self._url = url

    def open(self, path: Path, dimensions: int) -> None:
        self.memory = Memory.open(self._url, embedder=self._embedder)
        self._keys = {}
        self._dimensions = dimensions

    def prepare(self) -> None:
        """Wait until large sets have their indexes, too; a server makes them in the background."""
        super().prepare()
        store = self.memory.store
        assert isinstance(store, PostgresStore)
        store.build_large_sets(self._dimensions)
