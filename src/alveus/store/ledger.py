"""The protocol `Ledger`: what was committed, and the one way to commit; and its `Observer`.

`Observer` is the hook for telemetry: stores, searches, compactions and runners call it. The
observer of a store does nothing until another is assigned to `Store.observer`. Each method that
returns an `Observed` is called as the work begins, and used as a context manager around the work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, Self, TypeAlias, TypeVar

from alveus.errors import AlveusError
from alveus.store.changes import Batch, Commit, Compaction, Effects, Node, StoredItem
from alveus.store.erasing import Erased, Erasure, StoredReceipt
from alveus.store.runs import DurableCall, QueuedInput, Run
from alveus.store.scope import Lease, NameRange, Scope, SetRef
from alveus.store.sets import SetInfo
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value

OP_RETENTION_US = 90 * 24 * 3600 * 1_000_000
"""How long a repetition of an op is recognised at least."""

SWEEP_AFTER_US = 24 * 3600 * 1_000_000
"""How long an expired node stays for work that began while it was there."""


MAX_SWEPT_VERSIONS = 2_000
"""Ended versions of items that one sweep removes of a set at most."""

OPS_KEPT = 10_000
"""Commits whose ops are recognised whatever their age: the last ones of the store."""

CLOCK_STEP_US = 60 * 1_000_000
"""How far a clock may go back for the times of commits to wait for it; past that they follow."""

CORROBORATED_TIME_NOTE = "corroborated time"
"""The note that says which time a sweep may go by that nobody asked for."""

UNFINISHED_NOTE = "unfinished migration"
"""The note of a store into which not everything was copied yet: the salt of the source."""

MAX_SHRUNK_BYTES = 4_000_000
"""Bytes that are given back to the disk in one transaction at most: some 20 ms."""


@dataclass(frozen=True, slots=True)
class StoreStats:
    """A few figures of a store.

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


SMALL_BYTES = 1_000
"""Values over this are left out where many are read because one is likely to be asked for."""


class Ledger(Protocol):
    """What was committed. Every method may be called from any thread."""

    def commit(self, batch: Batch) -> Commit:
        """Apply *batch*: atomic, and durable when this returns; visible to all reads after it.

        Raises:
            StaleRun: *base* is not the tree's commit number, *epoch* not the lease's, *after* not
                the last commit, a run's status not the one that a turn expects; or the run of a
                step or call does not wait.
            KeyBusy: It changes an exact tree outside a run, while somebody alive runs the key.
            NotFound: There is no such run, compaction or version, or no such source of an item.
            InvalidInput: The run is of another key, its first step or call carries no begin, or a
                past names rows that are not of this commit.
            Forgotten: The op was taken by a commit whose results were erased.
            StaleItem: An item to replace or retire has another live version, or none.
            DuplicateItem: An id to add or bring back is live.
            CompactionChanged: A compaction to undo was undone, or what it made was changed.
            IdempotencyConflict: The op was taken by another request.
            SetDefinitionConflict: A set to define exists with another definition.
            EmbedderConflict: A note that is expected says something else.
            SetMoved: What the adds were checked by or against is not so any more.
            SetFull: A set that refuses what it has no room for would exceed its capacity.
            KeyFull: The key would exceed its limits.
            Unavailable: The store cannot be written now.
        """
        ...

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | AlveusError]:
        """Apply batches in order, in one transaction; each has an answer of its own.

        A batch that is refused changes nothing, and the others stand; where `commit` raises for
        one alone, its error is its answer. What hinders all of them is raised, and none stands.
        """
        ...

    def commit_of_op(self, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
        """Return the commit that took *op*, or None.

        Raises:
            IdempotencyConflict: It was taken by another request.
            Forgotten: What that commit made was erased.
        """
        ...

    def head(self, scope: Scope) -> int:
        """Return the number of the last commit that changed the tree of *scope*; 0: none yet."""
        ...

    def node(self, scope: Scope, path: Path, *, at: int | None, now: int) -> Node | None:
        """Return the node at *path* after commit *at* (None: the latest), or None.

        A node that expired by *now* is not there. The root is an object that always exists.
        """
        ...

    def children(
        self, scope: Scope, path: Path, *, at: int | None, now: int
    ) -> list[tuple[str, Node]]:
        """Return the direct fields of the object at *path* in the order they were made.

        Costs time in proportion to their number, whatever else the tree holds.
        """
        ...

    def few_fields(
        self, scope: Scope, path: Path, *, at: int | None, most: int
    ) -> dict[str, Node | None] | None:
        """Return the direct fields of the object at *path*, if it has at most so many; else None.

        Also those that have expired. In place of one whose value takes over `SMALL_BYTES` there may
        be None: it is to be asked for by itself. A file reads hardly more than so many.
        """
        ...

    def field_names(
        self, scope: Scope, path: Path, *, at: int | None, now: int
    ) -> list[tuple[str, int | None]]:
        """Return the names of what `children` returns, and when each expires; reads no values."""
        ...

    def names_in_range(
        self, scope: Scope, path: Path, chosen: NameRange, *, at: int | None, now: int
    ) -> list[str]:
        """Return the names of the direct fields that are *chosen*, in their own order.

        In a file it costs time in proportion to how many it returns, not to how many there are.
        """
        ...

    def node_commits(self, scope: Scope, path: Path) -> list[int]:
        """Return the commits that put or removed a node at *path*, as far as kept, rising.

        Of the root: those that put or removed any node.
        """
        ...

    def effects(self, number: int) -> Effects | None:
        """Return what commit *number* changed; None if there is no such commit."""
        ...

    def scopes_of_commits(self, after: int, *, limit: int = 1000) -> list[tuple[int, Scope]]:
        """Return the numbers of the commits past *after*, and whose they are, in order.

        Of a key that was forgotten since, that is nobody whose name is known.
        """
        ...

    def commit_at(self, time: int) -> int:
        """Return the number of the last commit at or before *time*; 0: none.

        Where a clock was ahead and went back, what was committed meanwhile came before what was
        committed since, and so does in the answer: numbers, not times, say what came first.
        """
        ...

    def time_of_commit(self, number: int) -> int:
        """Return the time of commit *number*, or of the last one before it; 0: there is none."""
        ...

    def live_items_by_commit(self) -> list[tuple[int, int]]:
        """Return how many live items of the store each commit added, as (commit, items), rising.

        Costs time in proportion to the items.
        """
        ...

    def history_start(self, scope: Scope) -> tuple[int, int]:
        """Return the commit and the time from which on the past of the tree of *scope* is whole.

        What `prune_history` and `sweep` removed was there before; (0, 0): nothing was removed.
        """
        ...

    def prune_history(
        self, *, before: int, after: int = 0, limit: int = 10_000
    ) -> tuple[int, int | None]:
        """Remove versions of nodes that ended before the time *before*, in bounded steps.

        Of trees alone; what work under way may need stays: what ended within `SWEEP_AFTER_US` of
        the last commit, or since a run that has not ended began. Looks at *limit* versions past
        *after*; returns how many went, and where to go on; None: it was all. Moves no number.
        """
        ...

    def expired_items(self, *, now: int, limit: int = 1000) -> list[StoredItem]:
        """Return live items of any set that have expired by *now*, in the order of their commits.

        Where there are more than *limit*, it is some of them.
        """
        ...

    def set_info(self, ref: SetRef) -> SetInfo | None:
        """Return the set, or None while nobody added to it."""
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
        """Return the sets of keys of *space* that have a version of an item of this id, in order.

        The time of a call grows with the number of sets of the space.
        """
        ...

    def sets_with_metadata(self, space: str, name: str, text: str) -> list[SetRef]:
        """Return the sets called *name*, of keys of *space*, with a live item that has a metadata.

        They are in order of keys. The time of a call grows with the number of items in such sets.

        Args:
            text: A part of the metadata in wire form, with the same letters.
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
        """Return every version of an id ever committed and kept, oldest first."""
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
        """Return what versions were derived from: (row, source's row), by both."""
        ...

    def derived_links(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return what was derived from versions: (row, source's row), by both."""
        ...

    def touch(self, rows: Sequence[int], *, time: int) -> None:
        """Note that items (by `StoredItem.first`) were read; kept with a later commit.

        Visible to reads of this handle at once; may be lost by a kill, and where a process that
        commits nothing reads very many items. Moves no number.
        """
        ...

    def renew(self, expiries: Sequence[tuple[int, int]], *, now: int) -> int:
        """Have live versions of items (by row) expire later; return how many do. Durable.

        It makes no version, and moves no number. What never expires, has expired by *now*, or
        expires later anyway stays as it is; so does what ended meanwhile.
        """
        ...

    def acquire_lease(self, scope: Scope, owner: str) -> Lease | None:
        """Take the right to run *scope* for *owner*, or None while a live owner has it.

        The one who has it gets the same lease again. A dead owner's is taken over at once, under
        a higher epoch.
        """
        ...

    def release_lease(self, lease: Lease) -> None:
        """Give a lease back; nothing happens if it was taken over."""
        ...

    def note(self, name: str) -> str | None:
        """Return what was noted under *name* (such as the embedder of a space), or None."""
        ...

    def put_note(self, name: str, text: str | None, *, expected: str | None) -> bool:
        """Note *text* if what stands there is *expected*; return whether it did. Durable."""
        ...

    def sweep(self, *, now: int, ops_kept: int = OPS_KEPT) -> int:
        """Remove what expired `SWEEP_AFTER_US` ago, and names of ops past `OP_RETENTION_US`.

        *now* is the caller's word: it has to be a time that is corroborated, since nothing that
        goes comes back. Ops of the last *ops_kept* commits stay, whatever it says.
        And, up to `MAX_SWEPT_VERSIONS` of a set, versions of items that ended longer ago than its
        retention, with their features and links; but for those that ended since a run that has
        not ended began. Returns how much was removed. Moves no commit number; reads of the
        present are the same before and after, and the floors of a tree and a set tell of which
        past they are.
        """
        ...

    def shrink(self, *, limit: int = MAX_SHRUNK_BYTES, keep_free: float = 0.0) -> int:
        """Give free room back to the disk, up to *limit* bytes; return how many.

        0: nothing is left to give. A short transaction, which changes nothing that is read. What
        is given back at the end is gone from the disk once no reader needs it.

        Args:
            keep_free: Share of the file that may stay free.
        """
        ...

    # --- forgetting

    def erase(self, erasure: Erasure) -> Erased:
        """Erase, in one commit: gone from every read of every time when this returns.

        Of a whole key: its tree, sets, and records of runs; runs that wait are discarded, and no
        event id or op of it is accepted again. Only its numbers go on, under a digest in place of
        its name, which finds them when the key is used again. Of items: all versions, and the
        records of ended runs that wrote or read one.

        What was derived from erased items, to any depth, is erased with them; what it was derived
        from besides comes back where only that compaction had retired it. Without anything to
        erase, nothing is changed, and there is no commit and no receipt.

        Raises:
            KeyBusy: Somebody alive runs the key; what is under way may have read what is to go.
            Unavailable: The store cannot be written now.
        """
        ...

    def scrub(self, *, now: int) -> list[str]:
        """Remove what erasures left in the files of the store; complete their receipts.

        Before that, records of runs that were open when something of theirs was erased go, if
        they have ended. Moves no commit number; costs time in proportion to the store.

        Returns:
            Who or what is in the way, in words; the receipts say so too, and a later call goes
            on. Empty: nothing is left.
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
        """Return all sets of *scope*, those that no listing shows too, by name."""
        ...

    def stats(self) -> StoreStats:
        """Return figures of the store.

        Most are counted for that, so that it costs time in proportion to what there is.
        """
        ...

    def size_bytes(self) -> int:
        """Return what the store takes on the disk, counting nothing in it; 0 in RAM."""
        ...

    def salt(self) -> bytes:
        """Return 16 random bytes, made with the store, that key every digest in it."""
        ...

    def close(self) -> None:
        """Flush touches, close. Further use is `StoreClosed`. Closing twice is fine."""
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

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """End the observation, with the error that the work raised, if any."""


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
        """Note that this process has done with the run, for now or for good; twice is fine."""


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
"""Observe nothing; `UNOBSERVED` is the observer of every store that has no other."""
