"""A PostgreSQL server as a store: the same memory for many hosts; needs ``alveus[postgres]``."""

from alveus.store.postgres.postgres_store import PostgresStore

__all__ = ["PostgresStore"]
