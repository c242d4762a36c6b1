"""One SQLite file as a store: embedded, crash-safe, shared by many threads and processes.

The file is the only truth. It is in WAL mode with `synchronous=FULL`, or NORMAL with
`durability="normal"`. apsw brings SQLite, so its version is known. The folder `app.db.alveus`
holds locks and an index that can be deleted at any time.

Rows:
    A row of an item or a value is numbered ``commit << 20 | position``, so numbers are unique,
    are never reused, and the rows of one commit form a range. Exact memory is flat: one row per
    node, found by its parent's path and its name. A value with 64 bytes or more of `bytes` is
    stored as a blob; all others as JSON. Item rows have no vectors: a feature row per version,
    clustered by set, holds everything that search reads. The size of a set grows in the insert
    of an item, and triggers lower it when an item ends.

Locks:
    Writers queue on a lock file, for at most `wait_s`. A process that runs a key holds a lock on
    a file, which the kernel releases when the process dies. The guard holds locks of an open file
    description on the bytes that SQLite locks, because a `close()` anywhere in the process
    releases SQLite's; the last process to close releases the guard, and SQLite removes the log.
    Network file systems are refused.

Files:
    A thread moves a long log into the file while others write. Backups, exports and the index
    are written beside their path, synced and renamed, and the folder is synced. A receipt of
    forgetting waits until the folder of a removed file is synced. SQLite's checksum VFS writes and
    checks a checksum of each page; a wrong one raises `StoreDamaged`. Only alveus's connections use
    this VFS, and no defaults of SQLite or apsw are changed.

Processes:
    Memories that open one path with the same mode, durability and `wait_s`, without telemetry,
    share the connections, the locks, the queue of commits and the index. A fork waits until every
    thread has left SQLite; the child closes the inherited connections, and inherited handles raise
    `ForkedStore`.
"""

from alveus.store.sqlite.store import SharedStore, SqliteStore

__all__ = ["SharedStore", "SqliteStore"]
