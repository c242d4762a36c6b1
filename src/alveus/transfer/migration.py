"""Copying a whole store into another one, with its history."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing

from alveus.errors import InvalidInput
from alveus.memory.opening import open_store
from alveus.store import Store
from alveus.store.sql.copying import CopyResult, check_source, copy_store
from alveus.store.sql.database import SqlDatabase


def migrate(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    progress: Callable[[int], None] = lambda _count: None,
    wait_s: float = 10,
) -> CopyResult:
    """Copy a store, with all spaces and all history, into an empty store, and compare both.

    Both are files or URLs of a server, as for `Memory.open`. Numbers of commits, versions, times,
    lineage, ops, runs, outputs and receipts stay the same. The call reads the source as it is at
    the beginning, and does not change it. Later writes to the source are not copied. After an
    interruption, the same call continues and copies nothing twice. Until the call has returned, the
    target cannot be opened as a memory. A call for a finished copy compares both again.

    Args:
        progress: Called with the number of rows copied or compared since the last call.
        wait_s: Longest wait for other writers of the target.

    Raises:
        AccessDenied: The user is not the owner of the tables on a server.
        InvalidInput: The target holds other data, or both are the same, or one is in RAM.
        Unusable: The copy differs from the source, and the message names the difference; or
            a schema is not the one that this alveus needs.
        NotAStore, NotFound, StoreBusy, StoreTooNew, Unavailable: One of them cannot be opened.
    """
    with closing(open_store(source, mode="ro", durability="full", wait_s=wait_s)) as old:
        check_source(_sql_store(old))
        with closing(open_store(target, mode="rw", durability="full", wait_s=wait_s)) as new:
            first, second = _sql_store(old), _sql_store(new)
            if first.location == second.location:
                problem = "is both the source and the target; pass two memories"
                raise InvalidInput(f"{first.location} {problem}")
            return copy_store(first, second, progress=progress)


def _sql_store(store: Store) -> SqlDatabase:
    if not isinstance(store, SqlDatabase):
        raise InvalidInput("a memory in RAM cannot be migrated; use export and import")
    return store
