"""A PostgreSQL server as a store: the same memory for many hosts; needs ``alveus[postgres]``.

The tables are those of SQLite, and so are the statements, translated by `dialect`. A statement
without a result waits, and is sent with the next one that has a result.

Commits:
    The row `ledger` has the number of the last commit. A transaction locks the row, so that commits
    have one order, and commits without waiting for the disk. An empty transaction then waits for
    the disk.
    Most commits are drafted without the lock and sent as one packet: see `drafting`.
    Each commit writes the number of its attempt into its host's row of `appender`: if the answer
    was lost, the row says whether the commit happened, and a fence refuses an attempt that arrives
    later. PostgreSQL's transaction ids cannot serve: after a crash, the server reuses lost ids.

Caches:
    A host caches the numbers of keys and sets, and notes, until `ledger.structure` changes;
    triggers change it. A search sends one query for changes and one for hits that are not cached.
    In sets of 200,000 items and more, the server selects candidates, and the host ranks them.

A host that runs a key renews its row every two seconds. It counts as dead five seconds after the
last renewal, by the server's clock. Users other than the owner are limited by row-level security.
"""

from alveus.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
