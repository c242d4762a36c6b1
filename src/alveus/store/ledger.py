"""The protocols `Ledger`, for commits, and `Lanes`, for runs; and the `Observer` of a store.

Stores, searches, compactions and runners call the observer of a store, which does nothing until
another is assigned to `Store.observer`. An `Observed` is used as a context manager around the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, Self, TypeAlias, TypeVar

from alveus.errors import AlveusError
from alveus.store.changes import Batch, Commit, Compaction, Effects, NamedRequest, Node, StoredItem
from alveus.store.erasing import Erased, Erasure, StoredReceipt
from alveus.store.runs import (
    Accepted,
    DurableCall,
    QueuedInput,
    Retain,
    Run,
    RunStatus,
    StepDone,
    StoredOutput,
)
from alveus.store.scope import Lease, NameRange, Scope, SetRef
from alveus.store.sets import SetInfo
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value

OP_RETENTION_US = 90 * 24 * 3600 * 1_000_000
"""A repetition of an op is recognised for at least this long."""

SWEEP_AFTER_US = 24 * 3600 * 1_000_000
"""An expired node is kept this long, for work that began before it expired."""

MAX_SWEPT_VERSIONS = 2_000
"""The most ended versions of a set's items that one sweep removes."""

OPS_KEPT = 10_000
"""The ops of this many last commits are recognised, however old they are."""

CLOCK_STEP_US = 60 * 1_000_000
"""A clock that is at most this far behind the last commit counts as equal; see `commit_time`."""

CORROBORATED_TIME_NOTE = "corroborated time"
"""The note with the time that a sweep may use when no caller gives one."""

UNFINISHED_NOTE = "unfinished migration"
"""The note of a store that is an unfinished copy: it holds the salt of the source."""

MAX_SHRUNK_BYTES = 4_000_000
"""The most bytes that one transaction gives back to the disk: some 20 ms."""


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Figures of a store.

    Attributes:
        pending: Items that wait for their vectors; the first was committed at *oldest_pending*.
        wal_bytes: Bytes of the write-ahead log that are not in the main file yet.
        free_bytes: Unused bytes of the file, which `Ledger.shrink` gives back.
        runs_ended: Runs that are done, discarded or retried, and are kept.
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


SMALL_BYTES = 1_000
"""`Ledger.few_fields` may omit larger values."""


class Ledger(Protocol):
    """The commits of a store. Every method may be called from any thread."""

    def commit(self, batch: Batch) -> Commit:
        """Apply *batch*: atomic, durable when this returns, and visible to all reads after it.

        Raises:
            StaleRun: *base* is not the tree's commit number, *epoch* not the lease's, *after* not
                the last commit, or a run does not have the expected status.
            KeyBusy: It changes an exact tree outside a run, while a live owner runs the key.
            NotFound: The run, compaction, version, or source of an item does not exist.
            InvalidInput: The run is of another key, its first step or call carries no begin, or a
                past names rows that are not of this commit.
            Forgotten: The op was taken by a commit whose results were erased.
            StaleItem: An item to replace or retire has another live version, or none.
            DuplicateItem: An id to add or bring back is live.
            CompactionChanged: A compaction to undo was undone, or the items that it made were
                changed.
            IdempotencyConflict: The op was taken by another request.
            SetDefinitionConflict: A set to define exists with another definition.
            EmbedderConflict: A note has another text than expected.
            SetMoved: The rules or items that adds were checked by or against have changed.
            SetFull: A set that refuses items when full would exceed its capacity.
            KeyFull: The key would exceed its limits.
            Unavailable: The store cannot be written now.
        """
        ...

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | AlveusError]:
        """Apply batches in order, in one transaction, and return an answer for each.

        A refused batch changes nothing, and its answer is the error that `commit` would raise. An
        error that concerns all batches is raised, and none is applied.
        """
        ...

    def commit_of_op(self, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
        """Return the commit that took *op*, or None.

        Raises:
            IdempotencyConflict: It was taken by another request.
            Forgotten: The results of that commit were erased.
        """
        ...

    def head(self, scope: Scope) -> int:
        """Return the last commit that changed the tree of *scope*; 0: none did."""
        ...

    def node(self, scope: Scope, path: Path, *, at: int | None, now: int) -> Node | None:
        """Return the node at *path* after commit *at* (None means the latest), or None.

        A node that expired by *now* does not exist. The root is an object that always exists.
        """
        ...

    def children(
        self, scope: Scope, path: Path, *, at: int | None, now: int
    ) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*, oldest first, in time proportional to them."""
        ...

    def few_fields(
        self, scope: Scope, path: Path, *, at: int | None, most: int
    ) -> dict[str, Node | None] | None:
        """Return the fields of the object at *path*, expired ones too; None: more than *most*.

        A field whose value takes over `SMALL_BYTES` may be None; `node` returns it.
        """
        ...

    def field_names(
        self, scope: Scope, path: Path, *, at: int | None, now: int
    ) -> list[tuple[str, int | None]]:
        """Return the names of the fields that `children` returns, and when each expires."""
        ...

    def names_in_range(
        self, scope: Scope, path: Path, chosen: NameRange, *, at: int | None, now: int
    ) -> list[str]:
        """Return the names of the fields that *chosen* selects, in time proportional to them."""
        ...

    def node_commits(self, scope: Scope, path: Path) -> list[int]:
        """Return the kept commits that put or removed the node at *path*, of the root any node."""
        ...

    def effects(self, number: int) -> Effects | None:
        """Return the changes of commit *number*; None if there is no such commit."""
        ...

    def scopes_of_commits(self, after: int, *, limit: int = 1000) -> list[tuple[int, Scope]]:
        """Return the commits past *after* and their scopes, in order, without forgotten names."""
        ...

    def commit_at(self, time: int) -> int:
        """Return the number of the last commit, by number, at or before *time*; 0: none."""
        ...

    def time_of_commit(self, number: int) -> int:
        """Return the time of commit *number*, or of the last one before it; 0: there is none."""
        ...

    def live_items_by_commit(self) -> list[tuple[int, int]]:
        """Return how many live items each commit added, as (commit, items), in order."""
        ...

    def history_start(self, scope: Scope) -> tuple[int, int]:
        """Return the commit and the time from which the past of a tree is complete.

        `prune_history` and `sweep` delete what came before; (0, 0): nothing was deleted.
        """
        ...

    def prune_history(
        self, *, before: int, after: int = 0, limit: int = 10_000
    ) -> tuple[int, int | None]:
        """Delete versions of nodes that ended before *before*, among *limit* ones past *after*.

        Versions that ended within `SWEEP_AFTER_US` of the last commit, or since an unfinished run
        began, stay. Returns how many were deleted, and the next *after*; None: none is left. Makes
        no commit.
        """
        ...

    def expired_items(self, *, now: int, limit: int = 1000) -> list[StoredItem]:
        """Return up to *limit* live items of any set that have expired by *now*, oldest first."""
        ...

    def set_info(self, ref: SetRef) -> SetInfo | None:
        """Return the set, or None if it has never had an item."""
        ...

    def set_infos(self, scope: Scope) -> list[SetInfo]:
        """Return the sets of *scope*, by name."""
        ...

    def keys(
        self, space: str, *, prefix: str = "", after: str | None = None, limit: int = 1000
    ) -> list[str]:
        """Return keys of *space* that a commit or an input ever named, in code point order."""
        ...

    def spaces(self) -> list[str]:
        """Return the spaces that have a key, by name."""
        ...

    def sets_of_item(self, space: str, item_id: str) -> list[SetRef]:
        """Return the sets of keys of *space* with a version of an item of this id, in order."""
        ...

    def sets_with_metadata(self, space: str, name: str, text: str) -> list[SetRef]:
        """Return the sets called *name* with *text* in a live item's metadata, in order of keys.

        Args:
            text: A part of the metadata in wire form, case-sensitive.
        """
        ...

    def get(
        self, ref: SetRef, ids: Sequence[str], *, at: int | None = None
    ) -> list[StoredItem | None]:
        """Return the live version of each id, in the order asked; after commit *at* if given."""
        ...

    def page(
        self,
        ref: SetRef,
        *,
        after: tuple[int, int] | None = None,
        limit: int = 256,
        newest_first: bool = False,
        at: int | None = None,
    ) -> list[StoredItem]:
        """Return up to *limit* items by (time, first), past *after*, in either direction."""
        ...

    def versions(self, ref: SetRef, item_id: str) -> list[StoredItem]:
        """Return every kept version of an id, oldest first."""
        ...

    def compactions(
        self, ref: SetRef, *, before: int | None = None, limit: int = 100
    ) -> list[Compaction]:
        """Return compactions of a set, the latest first, with ids below *before*."""
        ...

    def compaction(self, compaction: int) -> Compaction | None:
        """Return a compaction, or None if there is none of that id."""
        ...

    def source_links(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return the sources of versions, as (row, source's row), sorted."""
        ...

    def derived_links(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return the versions that were derived from versions, as (row, source's row), sorted."""
        ...

    def touch(self, rows: Sequence[int], *, time: int) -> None:
        """Note that items (by `StoredItem.first`) were read; a later commit writes it.

        Reads of this handle see it at once. A kill loses it, and so may a process that commits
        nothing and reads very many items.
        """
        ...

    def renew(self, expiries: Sequence[tuple[int, int]], *, now: int) -> int:
        """Make live versions of items (by row) expire later; return how many did. Durable.

        Makes no version and no commit. Versions that never expire, have expired by *now* or expire
        later anyway stay unchanged.
        """
        ...

    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        """Take the lease of *scope* for *owner*, or return None while another live owner has it.

        Its holder gets the same lease again. A dead holder's lease is taken over at once, under a
        higher epoch.
        """
        ...

    def release_lease(self, lease: Lease) -> None:
        """Release a lease; nothing happens if another owner took it over."""
        ...

    def note(self, name: str) -> str | None:
        """Return the text of the note *name* (such as the embedder of a space), or None."""
        ...

    def put_note(self, name: str, text: str | None, *, expected: str | None) -> bool:
        """Write a note if its text is *expected*; return whether it was. Durable."""
        ...

    def sweep(self, *, now: int, ops_kept: int = OPS_KEPT) -> int:
        """Delete nodes that expired `SWEEP_AFTER_US` ago, and ops older than `OP_RETENTION_US`.

        Ops of the last *ops_kept* commits stay. Also deletes, up to `MAX_SWEPT_VERSIONS` of a set,
        versions that ended before the set's retention, unless they ended since an unfinished run
        began. Returns how many of all were deleted. Makes no commit, and changes no read of the
        present.

        Args:
            now: A corroborated time, since nothing that is deleted comes back.
        """
        ...

    def shrink(self, *, limit: int = MAX_SHRUNK_BYTES, keep_free: float = 0.0) -> int:
        """Give up to *limit* unused bytes back to the disk; return how many, 0: none are left.

        Args:
            keep_free: Share of the file that may stay free.
        """
        ...

    # --- forgetting

    def erase(self, erasure: Erasure) -> Erased:
        """Erase items or a key, in one commit: they are in no read of any time when this returns.

        Of a whole key: its tree, sets, and records of runs. Waiting runs are discarded, and no
        event id or op of the key is accepted again; a digest of its name keeps its numbers. Of
        items: all versions, and the records of ended runs that wrote or read one.

        Items derived from erased ones are erased too; their other sources come back if only that
        compaction had retired them. Without anything to erase there is no commit and no receipt.

        Raises:
            KeyBusy: A live owner runs the key: work under way may have read the items.
            Unavailable: The store cannot be written now.
        """
        ...

    def scrub(self, *, now: int) -> list[str]:
        """Remove the remains of erasures from the store's files, and complete their receipts.

        Also deletes the records of runs that have ended since an erasure. Makes no commit; takes
        time proportional to the store.

        Returns: The hindrances, in words, which the receipts hold too; a later call continues.
        """
        ...

    def receipts(
        self, owners: Sequence[str], *, before: int | None = None, limit: int = 100
    ) -> list[StoredReceipt]:
        """Return receipts by `owner_of`, the latest first, of commits below *before*."""
        ...

    def receipt(self, receipt: str) -> StoredReceipt | None:
        """Return a receipt, or None if there is none of that id."""
        ...

    def all_versions(
        self, ref: SetRef, *, after: tuple[str, int] | None = None, limit: int = 256
    ) -> list[StoredItem]:
        """Return every version of every item of a set, by (id, version), past *after*."""
        ...

    def all_sets(self, scope: Scope) -> list[SetRef]:
        """Return all sets of *scope*, hidden ones too, by name."""
        ...

    def stats(self) -> StoreStats:
        """Return figures of the store, in time proportional to its contents."""
        ...

    def size_bytes(self) -> int:
        """Return the bytes of the store on the disk; 0 in RAM."""
        ...

    def salt(self) -> bytes:
        """Return 16 random bytes, made with the store, that key every digest in it."""
        ...

    def close(self) -> None:
        """Write pending access times, and close. Other calls then raise `StoreClosed`."""
        ...


# ruff: noqa: ARG002 - these observers do nothing


R = TypeVar("R")

Outcome: TypeAlias = Literal["done", "parked", "fenced", "interrupted"]


class Observed:
    """Work that is observed, as a context manager; this one does nothing."""

    __slots__ = ()

    def answered(self, answer: R) -> R:
        """Note the answer of the work, and return it."""
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None: ...


class RunObserver:
    """Observes a run from its first task in this process; this one does nothing."""

    def action(self, name: str, attempt: int) -> Observed:
        """Observe a call of an action; *attempt* counts from 1."""
        return IGNORED

    def called(self, call: DurableCall, outcome: str) -> None:
        """Note that a durable call of the last action returned, raised or was replayed."""

    def failed(self, error: BaseException) -> None:
        """Note the error that parks the run."""

    def end(self, outcome: Outcome) -> None:
        """Record that this process has finished with the run; a second call does nothing."""


class Observer:
    """Observes the work on a store; this one does nothing. Its methods raise nothing."""

    def commit(self, batches: Sequence[Batch]) -> Observed:
        """Observe a commit of batches, which answers with a `Commit` or an error for each."""
        return IGNORED

    def transaction(self, callers: Sequence[Observed]) -> Observed:
        """Observe a transaction that does the work of these *callers*."""
        return IGNORED

    def accept(self, agent: str, inputs: Sequence[QueuedInput]) -> Observed:
        """Observe that inputs are accepted; the answer is a list of `Accepted`."""
        return IGNORED

    def leased(self, lease: Lease | None) -> Lease | None:
        """Note a lease that was asked for, and return it."""
        return lease

    def search(self, sets: Sequence[SetRef] | Scope, query: str, limit: int) -> Observed:
        """Observe a search, which answers with `Hits`."""
        return IGNORED

    def compaction(self, ref: SetRef, by: str) -> Observed:
        """Observe a step of a compaction, which answers with a `Compacted`, or None."""
        return IGNORED

    def compaction_due(self, ref: SetRef) -> None:
        """Note that the caller's commit sets off a compaction in the background."""

    def run(self, row: Run, agent: str) -> RunObserver:
        """Return the observer of a run of the agent class *agent*."""
        return IGNORED_RUN

    def close(self) -> None:
        """Note that the memory is closed."""


IGNORED, IGNORED_RUN, UNOBSERVED = Observed(), RunObserver(), Observer()
"""Observe nothing."""


class Lanes(Protocol):
    """The runs of a store. A lane is the queue of one agent, named by its runner, and one key.

    Its runs are numbered from 0 without gaps, in the order in which their inputs were accepted.
    """

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """Keep inputs, all of one space, durably; return an answer for each. Makes no commit.

        Args:
            owner: Also take the leases of their keys for it, where they are free.

        Raises:
            IdempotencyConflict: An event id was used for another request; no input was kept.
            InvalidInput: They are of several spaces, or of knowledge.
        """
        ...

    def run(self, run: int) -> Run | None:
        """Return a run, or None if there is none."""
        ...

    def runs(  # noqa: PLR0913 - which of them, by name
        self,
        space: str,
        *,
        agent: str | None = None,
        key: str | None = None,
        status: RunStatus | None = None,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """Return runs, the latest first, with ids below *before* and above *after*."""
        ...

    def run_statuses(self, runs: Sequence[int]) -> dict[int, RunStatus]:
        """Return the statuses of the runs that exist, by id."""
        ...

    def queued_runs(
        self, agent: str, scope: Scope, *, past_parked: bool = False, limit: int = 100
    ) -> list[Run]:
        """Return the runs of a lane that wait or are parked, in order; or only waiting ones."""
        ...

    def waiting_lanes(
        self, agent: str, space: str, *, past_parked: bool, limit: int = 1000
    ) -> list[Scope]:
        """Return the scopes of lanes whose first open run waits, in the order of these runs.

        Args:
            past_parked: Ignore parked runs.
        """
        ...

    def steps(self, run: int) -> list[StepDone]:
        """Return the finished tasks of a run, by ordinal."""
        ...

    def durable_calls(self, run: int, ordinal: int) -> list[DurableCall]:
        """Return the durable calls of a task, by position; see `DurableCall`."""
        ...

    def retry_run(
        self, run: int, *, last: bool, time: int, named: NamedRequest | None = None
    ) -> int:
        """Let a parked run wait again; return its id. A *named* retry makes a commit.

        Args:
            last: A new run at the end of the lane takes its input over; its id is returned, and
                the parked run is "retried".

        Raises:
            NotFound: There is no such run.
            StaleRun: It is not parked.
        """
        ...

    def outputs(
        self, agent: str, space: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredOutput]:
        """Return outputs of an agent past a position, in order.

        Raises:
            OutputsPruned: Some past *after* were pruned.
        """
        ...

    def run_outputs(self, run: int) -> list[StoredOutput]:
        """Return the outputs of one run, in order."""
        ...

    def consumer_position(self, agent: str, space: str, name: str) -> int:
        """Return the position up to which a consumer has read; make the consumer if it is new.

        It begins after the outputs that were pruned; outputs past its position are kept.
        """
        ...

    def advance_consumer(self, agent: str, space: str, name: str, position: int) -> None:
        """Move a consumer up to *position*, never back; durable.

        Raises:
            NotFound: There is no such consumer.
        """
        ...

    def drop_consumer(self, agent: str, space: str, name: str) -> bool:
        """Delete a consumer; return whether there was one. Outputs no longer wait for it."""
        ...

    def prune_runs(
        self, agent: str, space: str, retain: Retain, *, now: int, limit: int = 1000
    ) -> int:
        """Delete up to *limit* runs that *retain* no longer keeps, and up to *limit* event ids.

        Runs are deleted in the order in which they ended, up to the first with outputs that a
        consumer has yet to read. Their changes of memory stay. Returns the number of runs. Makes no
        commit.
        """
        ...
