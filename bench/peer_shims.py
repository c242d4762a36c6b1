"""A plugin of pytest that puts alveus in the place of a peer's own storage; for `peer_suites`.

``PEER_SUITE`` in the environment names the suite. Each class has the name and the arguments of
the peer's class, and nothing of its own but what the arguments need.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from alveus import Memory

SUITE = os.environ["PEER_SUITE"]

MEMORIES: dict[str, Memory] = {}
"""The memory that takes the place of a folder, by its path."""


def put_sessions() -> None:
    """Replace `SQLiteSession` of the OpenAI Agents SDK."""
    import agents
    import agents.memory
    import agents.memory.sqlite_session as defining

    from alveus.integrations.openai_agents import AlveusSession

    class SQLiteSession(AlveusSession):
        def __init__(
            self, session_id: str, db_path: str | Path = ":memory:", *, session_settings: Any = None
        ) -> None:
            super().__init__(session_id, str(db_path), session_settings=session_settings)

    for module in (agents, agents.memory, defining):
        module.SQLiteSession = SQLiteSession


def put_stores() -> None:
    """Replace `InMemoryStore` and `SqliteStore` of LangGraph."""
    from langgraph.store import memory, sqlite

    from alveus.integrations.langgraph import AlveusStore

    def fields_of(index: dict[str, Any] | None) -> tuple[str, ...]:
        asked = index or {}
        return tuple(asked.get("text_fields") or asked.get("fields") or ("$",))

    class InMemoryStore(AlveusStore):
        def __init__(self, *, index: dict[str, Any] | None = None) -> None:
            super().__init__(Memory.open(), fields=fields_of(index))

    class SqliteStore(AlveusStore):
        @classmethod
        @contextmanager
        def from_conn_string(
            cls, place: str, *, index: dict[str, Any] | None = None
        ) -> Iterator[AlveusStore]:
            fields = fields_of(index)
            if place == ":memory:":
                with AlveusStore.from_conn_string(place, fields=fields) as store:
                    yield with_setup(store)
                return
            with AlveusStore.from_conn_string(f"{place}.alveus.db", fields=fields) as store:
                yield with_setup(store)

    def with_setup(store: Any) -> Any:
        store.setup = lambda: None  # there is nothing to set up
        return store

    memory.InMemoryStore = InMemoryStore
    sqlite.SqliteStore = SqliteStore


def put_memory_tools() -> None:
    """Replace the memory tools of Anthropic's SDK that keep files in a folder."""
    from anthropic.lib.tools import _beta_builtin_memory_tool as defining

    from alveus.integrations.anthropic_memory import AlveusAsyncMemoryTool, AlveusMemoryTool

    class BetaLocalFilesystemMemoryTool(AlveusMemoryTool):
        def __init__(self, base_path: str) -> None:
            self.base_path = base_path
            super().__init__(MEMORIES.setdefault(str(base_path), Memory.open()), key="ada")

    class BetaAsyncLocalFilesystemMemoryTool(AlveusAsyncMemoryTool):
        def __init__(self, base_path: str) -> None:
            self.base_path = base_path
            super().__init__(MEMORIES.setdefault(str(base_path), Memory.open()), key="ada")

    defining.BetaLocalFilesystemMemoryTool = BetaLocalFilesystemMemoryTool
    defining.BetaAsyncLocalFilesystemMemoryTool = BetaAsyncLocalFilesystemMemoryTool


def put_chat_stores() -> None:
    """Replace `SQLAlchemyChatStore` of LlamaIndex."""
    from llama_index.core.storage.chat_store import sql

    from alveus.integrations.llama_index import AlveusChatStore

    class SQLAlchemyChatStore(AlveusChatStore):
        def __init__(self, table_name: str, async_database_uri: str) -> None:
            super().__init__(Memory.open(), key=table_name)

    sql.SQLAlchemyChatStore = SQLAlchemyChatStore


def put_history_providers() -> None:
    """Replace `InMemoryHistoryProvider` and `FileHistoryProvider` of Microsoft Agent Framework."""
    import agent_framework

    from alveus.integrations.agent_framework import AlveusHistoryProvider

    class InMemoryHistoryProvider(AlveusHistoryProvider):
        def __init__(self, source_id: str = "in_memory", **options: Any) -> None:
            super().__init__(Memory.open(), key="ada", source_id=source_id, **options)

    class FileHistoryProvider(AlveusHistoryProvider):
        def __init__(self, storage_path: str | Path, **options: Any) -> None:
            memory = MEMORIES.setdefault(str(storage_path), Memory.open())
            super().__init__(memory, key="ada", **options)

    agent_framework.InMemoryHistoryProvider = InMemoryHistoryProvider
    agent_framework.FileHistoryProvider = FileHistoryProvider


def put_memory_services() -> None:
    """Replace `InMemoryMemoryService` of Google ADK."""
    from google.adk.memory import in_memory_memory_service as defining

    from alveus.integrations.google_adk import AlveusMemoryService

    class InMemoryMemoryService(AlveusMemoryService):
        def __init__(self) -> None:
            super().__init__(Memory.open())

    defining.InMemoryMemoryService = InMemoryMemoryService


class GivenVectors:
    """An embedder whose vectors are those that the tests of CrewAI come with, filled with zeros."""

    name, dimensions, instant = "given", 4096, True

    def __init__(self) -> None:
        self.vectors: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector of length one for each text."""
        return np.stack([self.vectors[text] for text in texts])

    def know(self, text: str, vector: Sequence[float]) -> None:
        """Take the vector of a text; of nothing but zeros, the last axis."""
        filled = np.zeros(self.dimensions, np.float32)
        filled[: len(vector)] = vector
        filled[-1] += not filled.any()
        self.vectors[text] = filled / np.float32(np.linalg.norm(filled))


def put_storages() -> None:
    """Replace `LanceDBStorage` of CrewAI; vectors come from the tests, not from its embedder."""
    from crewai.memory.storage import lancedb_storage as defining

    from alveus.integrations.crewai import AlveusStorage

    class LanceDBStorage(AlveusStorage):
        def __init__(
            self,
            path: str | Path | None = None,
            table_name: str = "memories",
            vector_dim: int | None = None,
            compact_every: int = 100,
        ) -> None:
            memory = MEMORIES.setdefault(str(path), Memory.open(embedder=GivenVectors()))
            self.given: Any = memory.embedder
            super().__init__(memory, key="crew", name=table_name)

        def save(self, records: list[Any]) -> None:
            for record in records:
                self.given.know(record.content, record.embedding or ())
            super().save(records)

        def search(self, query_embedding: list[float], *given: Any, **named: Any) -> Any:
            question = f"question {len(self.given.vectors)}"
            self.given.know(question, query_embedding)
            (vector,) = self.embedder([question])
            return super().search(vector, *given, **named)

    defining.LanceDBStorage = LanceDBStorage


def files_in(base_path: str) -> dict[str, str]:
    """Return the files of a memory tool by their paths, as the tests read them from a folder."""
    items = MEMORIES[base_path].key("ada").set("memories").list()
    return {str(item.id).lstrip("/"): item.text or "" for item in items}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have tests that look into a folder look into the memory."""
    for item in items:
        module: Any = getattr(item, "module", None)
        if hasattr(module, "get_directory_snapshot"):
            module.get_directory_snapshot = files_in


PUT = {
    "agent-framework": put_history_providers,
    "anthropic": put_memory_tools,
    "crewai": put_storages,
    "google-adk": put_memory_services,
    "langgraph": put_stores,
    "llama-index": put_chat_stores,
    "openai": put_sessions,
}
PUT[SUITE]()
