"""One SQLite file as a store: embedded, crash-safe, shared by many threads and processes."""

from alveus.store.sqlite.store import SharedStore, SqliteStore

__all__ = ["SharedStore", "SqliteStore"]
