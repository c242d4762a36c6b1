"""A PostgreSQL server as a store: the same memory for many hosts; needs ``alveus[postgres]``."""

from alveus.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
