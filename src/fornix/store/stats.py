"""Figures of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fornix.store.scope import Lease
from fornix.values.storable import Value


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A few figures of a store, cheap to read.

    Attributes:
        pending: Items that wait for their vectors.
        oldest_pending: Time the longest waiting one was committed.
        wal_bytes: Written but not yet moved into the main file; 0 where there is no such thing.
        free_bytes: Of the file, those that hold nothing: `Ledger.shrink` gives them back.
        runs_waiting: Runs that were accepted and have not ended, but for those that are parked.
        runs_ended: Runs that were done, discarded or retried, and are kept.
    """

    commits: int
    keys: int
    sets: int
    items: int
    item_versions: int
    nodes: int
    pending: int
    oldest_pending: int | None
    file_bytes: int
    wal_bytes: int
    runs_waiting: int = 0
    runs_parked: int = 0
    runs_ended: int = 0
    free_bytes: int = 0
    leases: Sequence[Lease] = ()
    details: Mapping[str, Value] = field(default_factory=dict[str, Value])
