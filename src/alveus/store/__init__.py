"""The interface of a store: how memory is written and read, and what a store promises.

A `Ledger` keeps commits, a `Finder` returns the data that search reads, and `Lanes` keep runs and
their progress. A `Store` is all three. `alveus.testing.StoreContract` tests every sentence of this
page.

Everything is versioned: a commit never overwrites a row. A commit ends rows and begins others, so
that reads of the past, replays and forgetting all use the same rows. Commit numbers are whole,
start at 1, and rise with every commit of the store. Commit times do not fall, unless a clock had
been ahead and was set back. Times are microseconds since 1970 in UTC, as int.
"""

from __future__ import annotations

from typing import Protocol

from alveus.store.changes import (
    Add,
    Batch,
    Clear,
    Commit,
    Compact,
    Compaction,
    Create,
    Define,
    Delete,
    Effects,
    ItemChange,
    ItemRecord,
    Limits,
    Link,
    NamedRequest,
    Node,
    Past,
    Put,
    Refresh,
    Replace,
    Retire,
    Revive,
    StoredItem,
    TreeDelta,
    Undo,
    await_vectors,
    parts_of,
    records_of,
    unchecked_sets,
)
from alveus.store.checks import commit_time
from alveus.store.erasing import Erased, Erasure, StoredReceipt, UnreachableCopy
from alveus.store.finder import (
    CandidateQuery,
    ChangeKind,
    Feature,
    FeatureChange,
    Finder,
    LargeSet,
    PendingVectors,
    SearchCache,
    SearchView,
    WholeSets,
)
from alveus.store.ledger import (
    CLOCK_STEP_US,
    CORROBORATED_TIME_NOTE,
    MAX_SHRUNK_BYTES,
    MAX_SWEPT_VERSIONS,
    OP_RETENTION_US,
    OPS_KEPT,
    SWEEP_AFTER_US,
    UNFINISHED_NOTE,
    UNOBSERVED,
    Lanes,
    Ledger,
    Observer,
    StoreStats,
)
from alveus.store.runs import (
    Accepted,
    Begin,
    DurableCall,
    Progress,
    QueuedInput,
    Retain,
    Run,
    RunStatus,
    StatusChange,
    Step,
    StepDone,
    StoredOutput,
)
from alveus.store.scope import Lease, Scope, SetRef
from alveus.store.sets import AdmissionCheck, Definition, SetInfo

__all__ = [
    "CLOCK_STEP_US",
    "CORROBORATED_TIME_NOTE",
    "MAX_SHRUNK_BYTES",
    "MAX_SWEPT_VERSIONS",
    "OPS_KEPT",
    "OP_RETENTION_US",
    "SWEEP_AFTER_US",
    "UNFINISHED_NOTE",
    "Accepted",
    "Add",
    "AdmissionCheck",
    "Batch",
    "Begin",
    "CandidateQuery",
    "ChangeKind",
    "Clear",
    "Commit",
    "Compact",
    "Compaction",
    "Create",
    "Define",
    "Definition",
    "Delete",
    "DurableCall",
    "Effects",
    "Erased",
    "Erasure",
    "Feature",
    "FeatureChange",
    "Finder",
    "ItemChange",
    "ItemRecord",
    "Lanes",
    "LargeSet",
    "Lease",
    "Ledger",
    "Limits",
    "Link",
    "NamedRequest",
    "Node",
    "Past",
    "PendingVectors",
    "Progress",
    "Put",
    "QueuedInput",
    "Refresh",
    "Replace",
    "Retain",
    "Retire",
    "Revive",
    "Run",
    "RunStatus",
    "Scope",
    "SearchCache",
    "SearchView",
    "SetInfo",
    "SetRef",
    "StatusChange",
    "Step",
    "StepDone",
    "Store",
    "StoreStats",
    "StoredItem",
    "StoredOutput",
    "StoredReceipt",
    "TreeDelta",
    "Undo",
    "UnreachableCopy",
    "WholeSets",
    "await_vectors",
    "commit_time",
    "parts_of",
    "records_of",
    "unchecked_sets",
]


class Store(Ledger, Finder, Lanes, Protocol):
    """An open store: a ledger, a finder and lanes in one.

    Attributes:
        observer: An object that the store calls for commits, leases and inputs; see
            `alveus.store.ledger.Observer`.
    """

    observer: Observer = UNOBSERVED

    @property
    def location(self) -> str:
        """The location of the store: a path, or ``:memory:``."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether the store refuses commits."""
        ...
