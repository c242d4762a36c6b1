"""mem0 as a server: its `Memory` on PostgreSQL with pgvector, behind the routes that its own has.

mem0's server is a program of its repository, not of its package: FastAPI over one `Memory`, whose
calls run in threads. This one has the two routes that are measured, on Starlette, with mem0's own
store for it; `infer=False` keeps texts as they are, so no model is asked. Texts become vectors by
alveus's `static` embedder, as on the other side.

    python -m bench.peers.mem0_server POSTGRES_URL PORT FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import uvicorn
from mem0 import Memory
from mem0.configs.embeddings.base import BaseEmbedderConfig
from mem0.embeddings.base import EmbeddingBase
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from alveus.embed import open_embedder
from bench.peers.mem0_qdrant import NO_KEY


class _Static(EmbeddingBase):
    """mem0's embedder interface over alveus's `static`."""

    def __init__(self) -> None:
        self._embedder = open_embedder("static")
        super().__init__(BaseEmbedderConfig(embedding_dims=self._embedder.dimensions))

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self._embedder.embed([text])[0].tolist()


def opened(url: str, folder: Path) -> Memory:
    """Open its memory, as its server's configuration does."""
    dimensions = open_embedder("static").dimensions
    place = {
        "connection_string": url,
        "collection_name": "memories",
        "embedding_model_dims": dimensions,
        "minconn": 1,
        "maxconn": 20,
    }
    openai = {"provider": "openai", "config": {"api_key": NO_KEY}}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "pgvector", "config": place},
            "embedder": openai,
            "llm": openai,
            "history_db_path": str(folder / "history.db"),
        }
    )
    memory.embedding_model = _Static()
    return memory


def application(memory: Memory) -> Starlette:
    """Return the routes that are measured."""

    async def add(request: Request) -> JSONResponse:
        asked: dict[str, Any] = await request.json()
        made = await run_in_threadpool(
            memory.add, asked["messages"], user_id=asked["user_id"], infer=False
        )
        return JSONResponse(made)

    async def search(request: Request) -> JSONResponse:
        asked: dict[str, Any] = await request.json()
        filters = {"user_id": asked["user_id"]}
        found = await run_in_threadpool(memory.search, asked["query"], filters=filters, top_k=10)
        return JSONResponse(found)

    return Starlette(
        routes=[
            Route("/memories", add, methods=["POST"]),
            Route("/search", search, methods=["POST"]),
        ]
    )


if __name__ == "__main__":
    _, postgres, port, place = sys.argv
    uvicorn.run(application(opened(postgres, Path(place))), port=int(port), log_level="warning")
