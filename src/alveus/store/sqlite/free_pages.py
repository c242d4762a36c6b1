"""Giving free pages of the database back to the disk, in bounded steps.

What is deleted leaves free pages, which later writes use. To give one back SQLite moves the last
page of the file into it, which it can do in small steps, as the file says of each page who points
to it (``auto_vacuum = INCREMENTAL``).
"""

from __future__ import annotations

from alveus.store.sql.connection import query
from alveus.store.sqlite.connection import SqliteConnection

IN_PASSING = 500
"""Pages that a writer gives back when it moves the log into the main file: some 10 ms."""

SPARE = 0.25
"""Share of a file that may be free before pages are given back unasked: they are used again."""

MIN_FREE_PAGES = 256
"""Free pages (1 MB) that are never given back unasked."""

_LINES = """
    DELETE FROM change WHERE seq <= (SELECT max(seq) FROM change)
        - max(?, (SELECT 2 * ifnull(sum(items), 0) FROM memory_set))
"""

FEW_LINES = 10_000
"""Lines of the change log that are kept however few items there are."""


def free_bytes(db: SqliteConnection) -> int:
    """Return how many bytes of the file hold nothing."""
    return db.pragma("freelist_count") * db.pragma("page_size")


def give_back(db: SqliteConnection, *, pages: int, spare: float = 0.0) -> int:
    """Give up to *pages* back, inside a transaction; return how many bytes that are.

    Args:
        spare: Share of the file that may stay free; above 0, so may `MIN_FREE_PAGES` pages.
    """
    free = db.pragma("freelist_count")
    if spare:
        free -= max(MIN_FREE_PAGES, int(spare * db.pragma("page_count")))
    if free <= 0:
        return 0
    before = db.pragma("page_count")
    query(db, f"PRAGMA incremental_vacuum({min(free, pages)})")
    return (before - db.pragma("page_count")) * db.pragma("page_size")


def trim_change_log(db: SqliteConnection) -> None:
    """Drop lines of the change log that take longer to read than all items do."""
    query(db, _LINES, FEW_LINES)
