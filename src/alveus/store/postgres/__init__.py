"""A PostgreSQL server as a store, in which many hosts share one memory.

Needs ``alveus[postgres]``. The tables and the statements are those of SQLite; `dialect` translates
the statements. A statement without a result waits, and is sent with the next statement that has a
result.

Commits:
    The table `ledger` has one row, with the number of the last commit. A transaction locks this
    row, so that all commits have one order. It commits without waiting for the disk. An empty
    transaction after it waits for the disk.
    Most commits are drafted without the lock and sent as one packet: see `drafting`.
    Each commit writes the number of its attempt into its host's row of `appender`. If the answer of
    the server was lost, this row says whether the commit happened, and a fence in the row makes the
    server refuse an attempt that arrives later. PostgreSQL's transaction ids cannot serve for this:
    after a crash, the server reuses lost ids.

Caches:
    A host caches the numbers of keys and sets, and notes, until `ledger.structure` changes, which
    triggers change. A search sends one query for changes, and one query for hits that are not
    cached. In sets of 200,000 items and more, the server selects candidates, and the host ranks
    them.

A host that runs a key renews its row of `owner` every two seconds. The host counts as dead five
seconds after the last renewal, by the server's clock. Row-level security limits users other than
the owner of the tables.
"""

from alveus.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
