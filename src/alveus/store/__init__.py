"""The promise of a store: one write path, and what can be read back.

A `Ledger` keeps what was committed, a `Finder` gives search what it reads, `Lanes` keep what is to
be run and how far it is. A `Store` is all three. `alveus.testing.StoreContract` holds every
sentence of this page as a test.

Everything is versioned: a commit never overwrites, it ends rows and begins others, so that reads
of the past, replays and forgetting all look at the same rows. Commit numbers are whole, start
at 1, and rise with every commit of the store. Commit times rise with them, but where a clock had
been ahead and went back.
Times are microseconds since 1970 in UTC, as int.
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
    adds_to,
    await_vectors,
    begins_item,
    expiry_cutoff,
    grows,
    parts_of,
    records_of,
    sets_in_batch,
    unchecked_sets,
    upserted,
)
from alveus.store.checks import commit_time
from alveus.store.erasing import Erased, Erasure, ReceiptState, StoredReceipt, UnreachableCopy
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
    CallStatus,
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
    "CallStatus",
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
    "ReceiptState",
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
    "adds_to",
    "await_vectors",
    "begins_item",
    "commit_time",
    "expiry_cutoff",
    "grows",
    "parts_of",
    "records_of",
    "sets_in_batch",
    "unchecked_sets",
    "upserted",
]


class Store(Ledger, Finder, Lanes, Protocol):
    """All of it, and what the handle itself can say.

    Attributes:
        observer: Called for commits, leases and inputs; see `alveus.store.ledger.Observer`.
    """

    observer: Observer = UNOBSERVED

    @property
    def location(self) -> str:
        """Where it is: a path, or ``:memory:``."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether commits are refused."""
        ...
