"""A PostgreSQL server as a store: the same memory for many hosts; needs ``fornix[postgres]``."""

from fornix.store.postgres.postgres_store import PostgresStore

__all__ = ["PostgresStore"]
