"""One SQLite file as a store: embedded, crash-safe, shared by many threads and processes."""

from alveus.store.sqlite.shared_store import SharedStore
from alveus.store.sqlite.sqlite_store import SqliteStore

__all__ = ["SharedStore", "SqliteStore"]
