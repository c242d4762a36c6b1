"""The protocols `Ledger`, for commits, and `Lanes`, for runs; and the `Observer` of a store.

Stores, searches, compactions and runners call the observer of a store. The default observer does
nothing; a user assigns another to `Store.observer`. The observed work runs in a block of the
`Observed` that the observer returns.
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
"""A store recognises a repetition of an op for at least this long."""

SWEEP_AFTER_US = 24 * 3600 * 1_000_000
"""A store keeps an expired node for this long, for work that began before the node expired."""

MAX_SWEPT_VERSIONS = 2_000
"""The most ended versions of a set's items that one sweep removes."""

OPS_KEPT = 10_000
"""A store recognises the ops of this many last commits, however old they are."""

CLOCK_STEP_US = 60 * 1_000_000
"""A clock that is at most this far behind the last commit counts as equal to it.

See `commit_time`.
"""

CORROBORATED_TIME_NOTE = "corroborated time"
"""The name of the note with the time that a sweep may use if its caller passes none."""

UNFINISHED_NOTE = "unfinished migration"
"""The name of a note of a store that is an unfinished copy. Its text is the salt of the source."""

MAX_SHRUNK_BYTES = 4_000_000
"""The most bytes that one transaction gives back to the disk, which takes some 20 ms."""


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Figures of a store.

    Attributes:
        pending: The number of versions that wait for their vectors.
        oldest_pending: When the oldest of these versions was committed, or None.
        wal_bytes: Bytes of the write-ahead log that are not in the main file yet.
        free_bytes: Unused bytes of the file, which `Ledger.shrink` gives back.
        runs_ended: The number of kept runs that are done, discarded or retried.
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
"""`Ledger.few_fields` may omit values that take more bytes than this."""


class Ledger(Protocol):
    """The commits of a store. Every method may be called from any thread."""

    def commit(self, batch: Batch) -> Commit:
        """Apply *batch*: atomic, durable when this method returns, and visible to all later reads.

        Raises:
            StaleRun: *base* is not the last commit of the tree, *epoch* is not the epoch of the
                lease, a lease of *fences* was lost, *after* is not the last commit of the store,
                or a run does not have the expected status.
            KeyBusy: The batch changes an exact tree outside a run, while a live owner runs the key.
            NotFound: A run, compaction, version, or source of an item does not exist.
            InvalidInput: The run belongs to another key, the first step or call of a run has no
                `Begin`, or a `Past` has rows that are not numbered by this commit.
            Forgotten: An earlier commit had the same op, and its results were erased.
            StaleItem: An item to replace or retire has another live version, or none.
            DuplicateItem: The id of an item to add or to restore is live.
            CompactionChanged: A compaction to undo was undone before, or its summaries have
                changed.
            IdempotencyConflict: An earlier commit had the same op for another request.
            SetDefinitionConflict: A set to define exists with another definition.
            EmbedderConflict: A note has another text than expected.
            SetMoved: The rules by which adds were checked, or the items against which they were
                checked, have changed.
            SetFull: A set that refuses items when full would exceed its capacity.
            KeyFull: The key would exceed its limits.
            Unavailable: The store cannot be written now.
        """
        ...

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | AlveusError]:
        """Apply batches in order, in one transaction, and return an answer for each.

        A refused batch changes nothing, and its answer is the error that `commit` would raise. An
        error that concerns all batches is raised, and no batch is applied.
        """
        ...

    def commit_of_op(self, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
        """Return the earlier commit that has *op*, or None if no commit has it.

        Args:
            request: The digest that the commit's request must have, or None to accept any.
            label: The name of the request in an error.

        Raises:
            IdempotencyConflict: The commit was made for another request.
            Forgotten: The results of the commit were erased.
        """
        ...

    def head(self, scope: Scope) -> int:
        """Return the last commit that changed the tree of *scope*, or 0 if none did."""
        ...

    def node(self, scope: Scope, path: Path, *, at: int | None, now: int) -> Node | None:
        """Return the node at *path*, or None if it does not exist.

        A node that expired by *now* does not exist. The root is an object that always exists.

        Args:
            at: Read the tree as it was after this commit. If None, read the tree as it is. The same
                holds for the other methods that have *at*.
        """
        ...

    def children(
        self, scope: Scope, path: Path, *, at: int | None, now: int
    ) -> list[tuple[str, Node]]:
        """Return the fields of the object at *path*, oldest first.

        The time is proportional to the number of fields.
        """
        ...

    def few_fields(
        self, scope: Scope, path: Path, *, at: int | None, most: int
    ) -> dict[str, Node | None] | None:
        """Return the fields of the object at *path*, including expired ones.

        Returns None if there are more than *most* fields. If the value of a field takes more than
        `SMALL_BYTES`, the result may have None instead of its node; `node` returns the node.
        """
        ...

    def field_names(
        self, scope: Scope, path: Path, *, at: int | None, now: int
    ) -> list[tuple[str, int | None]]:
        """Return (name, expiry) of the fields that `children` returns.

        The expiry is None for a field that never expires.
        """
        ...

    def names_in_range(
        self, scope: Scope, path: Path, chosen: NameRange, *, at: int | None, now: int
    ) -> list[str]:
        """Return the names of the fields of the object at *path* that *chosen* selects, in order.

        The time is proportional to the number of these names.
        """
        ...

    def node_commits(self, scope: Scope, path: Path) -> list[int]:
        """Return the numbers of the commits that put or removed the node at *path*, in order.

        For the root, these are the commits that put or removed any node. Commits whose
        versions were all pruned are left out.
        """
        ...

    def effects(self, number: int) -> Effects | None:
        """Return the changes of commit *number*, or None if the commit does not exist."""
        ...

    def scopes_of_commits(self, after: int, *, limit: int = 1000) -> list[tuple[int, Scope]]:
        """Return (number, scope) of up to *limit* commits after commit *after*, in order.

        A forgotten key has a digest instead of its name.
        """
        ...

    def commit_at(self, time: int) -> int:
        """Return the highest number of a commit whose time is at most *time*, or 0 if none is."""
        ...

    def time_of_commit(self, number: int) -> int:
        """Return the time of commit *number* or, if it does not exist, of the last commit before.

        Returns 0 if there is no such commit either.
        """
        ...

    def live_items_by_commit(self) -> list[tuple[int, int]]:
        """Return how many of today's live items each commit added, as (commit, items), in order."""
        ...

    def history_start(self, scope: Scope) -> tuple[int, int]:
        """Return the commit and the time from which the past of the tree of *scope* is complete.

        `prune_history` and `sweep` delete older versions. Returns (0, 0) if they deleted none.
        """
        ...

    def prune_history(
        self, *, before: int, after: int = 0, limit: int = 10_000
    ) -> tuple[int, int | None]:
        """Delete versions of nodes that ended before the time *before*. Makes no commit.

        One call examines up to *limit* versions with rows above *after*. Versions that ended within
        `SWEEP_AFTER_US` of the last commit, or since an unfinished run began, stay.

        Returns how many versions were deleted, and the *after* of the next call, or None if no
        version is left to examine.
        """
        ...

    def expired_items(self, *, now: int, limit: int = 1000) -> list[StoredItem]:
        """Return up to *limit* live items of any set that have expired by *now*, oldest first."""
        ...

    def set_info(self, ref: SetRef) -> SetInfo | None:
        """Return the set *ref*, or None if it does not exist: it was never defined or added to."""
        ...

    def set_infos(self, scope: Scope) -> list[SetInfo]:
        """Return the sets of *scope*, sorted by name."""
        ...

    def keys(
        self, space: str, *, prefix: str = "", after: str | None = None, limit: int = 1000
    ) -> list[str]:
        """Return up to *limit* keys of *space* that a commit or an input ever named.

        The keys begin with *prefix*, come after the key *after*, and are in order of code points.
        """
        ...

    def spaces(self) -> list[str]:
        """Return the names of the spaces that have a key, in order."""
        ...

    def sets_of_item(self, space: str, item_id: str) -> list[SetRef]:
        """Return the sets of keys of *space* that have a version of the item *item_id*, in order.

        The version need not be live.
        """
        ...

    def sets_with_metadata(self, space: str, name: str, text: str) -> list[SetRef]:
        """Return the sets *name* of keys of *space* in which a live item's metadata contain *text*.

        The sets are in order of keys.

        Args:
            text: A part of the metadata in wire form, case-sensitive.
        """
        ...

    def get(
        self, ref: SetRef, ids: Sequence[str], *, at: int | None = None
    ) -> list[StoredItem | None]:
        """Return, for each of *ids*, the live version of the item, or None if it has none.

        Args:
            at: If given, return the versions that were live after this commit.
        """
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
        """Return up to *limit* live items of a set, in order of (time, first).

        Args:
            after: Return the items that follow this (time, first) in the direction of reading.
            newest_first: Read from the last item to the first.
            at: If given, return items that were live after this commit.
        """
        ...

    def versions(self, ref: SetRef, item_id: str) -> list[StoredItem]:
        """Return all kept versions of the item *item_id*, oldest first."""
        ...

    def compactions(
        self, ref: SetRef, *, before: int | None = None, limit: int = 100
    ) -> list[Compaction]:
        """Return up to *limit* compactions of a set, the latest first.

        Args:
            before: If given, return compactions with lower ids only.
        """
        ...

    def compaction(self, compaction: int) -> Compaction | None:
        """Return the compaction with the id *compaction*, or None if it does not exist."""
        ...

    def source_links(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return the sources of the versions *rows*, as sorted pairs (row, row of the source)."""
        ...

    def derived_links(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return the versions that were derived from the versions *rows*.

        The result has sorted pairs (row of the derived version, row of the source).
        """
        ...

    def touch(self, rows: Sequence[int], *, time: int) -> None:
        """Record that items, named by `StoredItem.first`, were read at *time*.

        Reads of this handle see the time at once. A later commit writes the time to the store. If
        the process is killed before, the time is lost; it may also be lost if the process reads
        very many items and commits nothing.
        """
        ...

    def renew(self, expiries: Sequence[tuple[int, int]], *, now: int) -> int:
        """Let live versions of items expire later, and return how many were changed. Durable.

        Makes no version and no commit. A version stays unchanged if it never expires, has expired
        by *now*, or already expires later.

        Args:
            expiries: The row and the new expiry of each version.
        """
        ...

    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        """Take the lease of *scope* for *owner*, or return None while another live owner has it.

        If *owner* already has the lease, the same lease is returned again. The lease of a dead
        owner is taken over at once, with a higher epoch.
        """
        ...

    def release_lease(self, lease: Lease) -> None:
        """Release *lease*. If another owner has taken the lease over, nothing happens."""
        ...

    def note(self, name: str) -> str | None:
        """Return the text of the note *name*, such as the embedder of a space.

        Returns None if the note does not exist.
        """
        ...

    def put_note(self, name: str, text: str | None, *, expected: str | None) -> bool:
        """Write the note *name*, or delete it if *text* is None. Durable.

        Returns False, and changes nothing, if the note's current text is not *expected*. A note
        that does not exist has the text None.
        """
        ...

    def sweep(self, *, now: int, ops_kept: int = OPS_KEPT) -> int:
        """Delete nodes that expired `SWEEP_AFTER_US` ago, and ops older than `OP_RETENTION_US`.

        Ops of the last *ops_kept* commits stay. Also deletes versions of items that ended longer
        ago than the retention of their set, up to `MAX_SWEPT_VERSIONS` of each set. Versions that
        ended since an unfinished run began stay. Makes no commit, and changes no read of the
        present.

        Returns how many nodes, ops and versions were deleted.

        Args:
            now: A corroborated time, because deleted data cannot be restored.
        """
        ...

    def shrink(self, *, limit: int = MAX_SHRUNK_BYTES, keep_free: float = 0.0) -> int:
        """Give up to *limit* unused bytes back to the disk.

        Returns how many bytes were given back, or 0 if no more can be.

        Args:
            keep_free: Share of the file that may stay free.
        """
        ...

    # --- forgetting

    def erase(self, erasure: Erasure) -> Erased:
        """Erase items or a whole key, in one commit.

        When this method returns, no read returns the erased data, whatever its *at*. For a whole
        key, its tree, its sets and the records of its runs are erased. Waiting runs are discarded,
        no event id or op of the key is accepted again, and a digest replaces the name of the key.
        For items, all their versions are erased, and the records of ended runs that wrote or read
        one of them.

        Items derived from erased items are erased too. Their other sources become live again if
        only the compaction of the derived item had retired them. If there is nothing to erase, no
        commit and no receipt are made.

        Raises:
            KeyBusy: A live owner runs the key, and its work may have read the items.
            Unavailable: The store cannot be written now.
        """
        ...

    def scrub(self, *, now: int) -> list[str]:
        """Remove the remains of erasures from the store's files, and complete their receipts.

        Also deletes the records of runs whose erasure had to wait for their end. Makes no commit.
        Takes time proportional to the size of the store.

        Returns: A sentence for each reason why remains are left; the receipts hold them too. A
        later call continues.
        """
        ...

    def receipts(
        self, owners: Sequence[str], *, before: int | None = None, limit: int = 100
    ) -> list[StoredReceipt]:
        """Return up to *limit* receipts of *owners*, the latest first.

        Args:
            owners: Names that `owner_of` returns.
            before: If given, return receipts of commits with lower numbers only.
        """
        ...

    def receipt(self, receipt: str) -> StoredReceipt | None:
        """Return the receipt with the id *receipt*, or None if it does not exist."""
        ...

    def all_versions(
        self, ref: SetRef, *, after: tuple[str, int] | None = None, limit: int = 256
    ) -> list[StoredItem]:
        """Return up to *limit* versions, live or not, of all items of a set, by (id, version).

        Args:
            after: If given, return the versions that follow this (id, version).
        """
        ...

    def all_sets(self, scope: Scope) -> list[SetRef]:
        """Return all sets of *scope*, including hidden ones, sorted by name."""
        ...

    def stats(self) -> StoreStats:
        """Return figures of the store, in time proportional to its contents."""
        ...

    def size_bytes(self) -> int:
        """Return the number of bytes that the store takes on the disk; 0 for a store in RAM."""
        ...

    def salt(self) -> bytes:
        """Return the 16 random bytes, made with the store, that are the key of all its digests."""
        ...

    def close(self) -> None:
        """Write pending access times, and close the store. Later calls raise `StoreClosed`."""
        ...


# ruff: noqa: ARG002 - these observers do nothing


R = TypeVar("R")

Outcome: TypeAlias = Literal["done", "parked", "fenced", "interrupted"]


class Observed:
    """A context manager around observed work. This base class does nothing."""

    __slots__ = ()

    def answered(self, answer: R) -> R:
        """Observe *answer*, the result of the work, and return it."""
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None: ...


class RunObserver:
    """Observes a run from its first task in this process on. This base class does nothing."""

    def action(self, name: str, attempt: int) -> Observed:
        """Observe a call of the action *name*. The first attempt is 1."""
        return IGNORED

    def called(self, call: DurableCall, outcome: str) -> None:
        """Observe that *call*, a durable call of the last action, ended or was replayed."""

    def failed(self, error: BaseException) -> None:
        """Observe the error that parks the run."""

    def end(self, outcome: Outcome) -> None:
        """Record that this process has finished with the run; a second call does nothing."""


class Observer:
    """Observes the work on a store. This base class does nothing.

    The methods of an observer must not raise. In each method that returns an `Observed`, "the
    answer" is what `Observed.answered` receives.
    """

    def commit(self, batches: Sequence[Batch]) -> Observed:
        """Observe a commit. The answer is a list with a `Commit` or an error for each batch."""
        return IGNORED

    def transaction(self, callers: Sequence[Observed]) -> Observed:
        """Observe a transaction that does the work of these *callers*."""
        return IGNORED

    def accept(self, agent: str, inputs: Sequence[QueuedInput]) -> Observed:
        """Observe the acceptance of inputs. The answer is a list of `Accepted`."""
        return IGNORED

    def leased(self, lease: Lease | None) -> Lease | None:
        """Observe the result of a call that requested a lease, and return it.

        Args:
            lease: The lease, or None if another owner has it.
        """
        return lease

    def search(self, sets: Sequence[SetRef] | Scope, query: str, limit: int) -> Observed:
        """Observe a search. The answer is a `Hits`."""
        return IGNORED

    def compaction(self, ref: SetRef, by: str) -> Observed:
        """Observe a step of a compaction of the set *ref*. The answer is a `Compacted`, or None."""
        return IGNORED

    def compaction_due(self, ref: SetRef) -> None:
        """Observe that a commit of the caller started a compaction of *ref* in the background."""

    def run(self, row: Run, agent: str) -> RunObserver:
        """Return the observer of a run of the agent class *agent*."""
        return IGNORED_RUN

    def close(self) -> None:
        """Observe that the memory is closed."""


IGNORED, IGNORED_RUN, UNOBSERVED = Observed(), RunObserver(), Observer()
"""The objects of an observer that does nothing."""


class Lanes(Protocol):
    """The runs of a store. A lane is the queue of the runs of one agent for one key.

    A runner passes the name of its agent. The runs of a lane are numbered from 0 without gaps, in
    the order in which their inputs were accepted.
    """

    def accept(
        self, agent: str, inputs: Sequence[QueuedInput], *, owner: str | None = None
    ) -> list[Accepted]:
        """Store inputs of one space durably, and return an answer for each. Makes no commit.

        Args:
            owner: If given, take the free leases of the inputs' keys for this owner.

        Raises:
            IdempotencyConflict: An event id was used for another request; no input was stored.
            InvalidInput: The inputs belong to several spaces, or to knowledge.
        """
        ...

    def run(self, run: int) -> Run | None:
        """Return the run with the id *run*, or None if it does not exist."""
        ...

    def runs(  # noqa: PLR0913 - all filters, each by name
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
        """Return up to *limit* runs of *space*, the latest first.

        Args:
            agent, key, status: If given, return only runs that have this value.
            before, after: If given, return only runs with ids below *before*, or above *after*.
        """
        ...

    def run_statuses(self, runs: Sequence[int]) -> dict[int, RunStatus]:
        """Return a dict from id to status, for the *runs* that exist."""
        ...

    def queued_runs(
        self, agent: str, scope: Scope, *, past_parked: bool = False, limit: int = 100
    ) -> list[Run]:
        """Return up to *limit* runs of a lane that wait or are parked, in order.

        Args:
            past_parked: Return only the waiting runs.
        """
        ...

    def waiting_lanes(
        self, agent: str, space: str, *, past_parked: bool, limit: int = 1000
    ) -> list[Scope]:
        """Return the scopes of the lanes whose first unfinished run waits, in order of these runs.

        Args:
            past_parked: Ignore parked runs, so that the first run that is not parked counts.
        """
        ...

    def steps(self, run: int) -> list[StepDone]:
        """Return the finished tasks of a run, in order of ordinal."""
        ...

    def durable_calls(self, run: int, ordinal: int) -> list[DurableCall]:
        """Return the durable calls of the task *ordinal* of a run, by `DurableCall.position`."""
        ...

    def retry_run(
        self, run: int, *, last: bool, time: int, named: NamedRequest | None = None
    ) -> int:
        """Make a parked run wait again, and return the id of the waiting run.

        Args:
            last: Make a new run at the end of the lane, which takes over the input of the parked
                run. The parked run gets the status "retried", and the new id is returned.
            named: If given, the retry makes a commit with this op, so that a repetition changes
                nothing and returns the same id.

        Raises:
            NotFound: The run does not exist.
            StaleRun: The run is not parked.
        """
        ...

    def outputs(
        self, agent: str, space: str, *, after: int = 0, limit: int = 100
    ) -> list[StoredOutput]:
        """Return up to *limit* outputs of an agent with positions above *after*, in order.

        Raises:
            OutputsPruned: Some outputs above *after* were pruned.
        """
        ...

    def run_outputs(self, run: int) -> list[StoredOutput]:
        """Return the outputs of one run, in order."""
        ...

    def consumer_position(self, agent: str, space: str, name: str) -> int:
        """Return the position of the last output that a consumer has read.

        Creates the consumer if it does not exist. Its position is then that of the last pruned
        output, or 0 if no output was pruned.
        Outputs after the position of a consumer are kept.
        """
        ...

    def advance_consumer(self, agent: str, space: str, name: str, position: int) -> None:
        """Move a consumer forward to *position*, never back. Durable.

        Raises:
            NotFound: The consumer does not exist.
        """
        ...

    def drop_consumer(self, agent: str, space: str, name: str) -> bool:
        """Delete a consumer, so that outputs are no longer kept for it.

        Returns whether the consumer existed.
        """
        ...

    def prune_runs(
        self, agent: str, space: str, retain: Retain, *, now: int, limit: int = 1000
    ) -> int:
        """Delete up to *limit* runs that *retain* no longer keeps, and up to *limit* event ids.

        Runs are deleted in the order in which they ended, up to the first run that must stay: one
        that *retain* keeps, or one with outputs that a consumer has not read yet. Changes of
        memory that the runs made stay. Returns the number of deleted runs. Makes no commit.
        """
        ...
