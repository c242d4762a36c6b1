"""A plugin of pytest that puts alveus in the place of a peer's own storage; for `peer_suites`.

``PEER_SUITE`` in the environment names the suite. Each class has the name and the arguments of
the peer's class, and nothing of its own but what the arguments need.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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
    "anthropic": put_memory_tools,
    "langgraph": put_stores,
    "openai": put_sessions,
}
PUT[SUITE]()
