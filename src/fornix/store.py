"""The promise of a store: one write path, and what can be read back.

A `Ledger` keeps what was committed, a `Finder` gives search what it reads, `Lanes` keep what is to
be run and how far it is. A `Store` is all three. `fornix.testing.StoreContract` holds every
sentence of this page as a test.

Everything is versioned: a commit never overwrites, it ends rows and begins others, so that reads
of the past, replays and forgetting all look at the same rows. Commit numbers are whole, start
at 1, and rise with every commit of the store; commit times never go back.
Times are microseconds since 1970 in UTC, as int.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from fornix.changes import (
    Add,
    Batch,
    Change,
    ChangeKind,
    Clear,
    Commit,
    Create,
    Define,
    Definition,
    Delete,
    Effects,
    Feature,
    ItemChange,
    Limits,
    Node,
    Overflow,
    Pending,
    Put,
    Record,
    Refresh,
    Replace,
    Retire,
    SetInfo,
    StoredItem,
    StoreStats,
    TreeDelta,
)
from fornix.errors import FornixError
from fornix.progress import (
    Accepted,
    Begin,
    Call,
    CallStatus,
    Input,
    Output,
    Progress,
    Retain,
    Run,
    RunStatus,
    Step,
    StepDone,
    Turn,
)
from fornix.scope import Lease, Scope, SetRef
from fornix.values import Path

__all__ = [
    "OP_RETENTION_US",
    "SWEEP_AFTER_US",
    "Accepted",
    "Add",
    "Batch",
    "Begin",
    "Call",
    "CallStatus",
    "Change",
    "ChangeKind",
    "Clear",
    "Commit",
    "Create",
    "Define",
    "Definition",
    "Delete",
    "Effects",
    "Feature",
    "Finder",
    "Input",
    "ItemChange",
    "Lanes",
    "Lease",
    "Ledger",
    "Limits",
    "Node",
    "Output",
    "Overflow",
    "Pending",
    "Progress",
    "Put",
    "Record",
    "Refresh",
    "Replace",
    "Retain",
    "Retire",
    "Run",
    "RunStatus",
    "Scope",
    "SetInfo",
    "SetRef",
    "Step",
    "StepDone",
    "Store",
    "StoreStats",
    "StoredItem",
    "TreeDelta",
    "Turn",
]


OP_RETENTION_US = 90 * 24 * 3600 * 1_000_000
"""How long a repetition of an op is recognised at least."""

SWEEP_AFTER_US = 24 * 3600 * 1_000_000
"""How long an expired node stays for work that began while it was there."""


class Ledger(Protocol):
    """What was committed. Every method may be called from any thread."""

    def commit(self, batch: Batch) -> Commit:
        """Apply *batch*: atomic, and durable when this returns; visible to all reads after it.

        Raises:
            StaleRun: *base* is not the tree's commit number, *epoch* not the lease's, a run's
                status not the one that a turn expects; or the run of a step or call does not wait.
            KeyBusy: It changes an exact tree outside a run, while somebody alive runs the key.
            NotFound: There is no such run.
            InvalidInput: The run is of another key, or its first step or call carries no begin.
            StaleItem: An item to replace or retire has another live version, or none.
            DuplicateItem: An id to add is live.
            IdempotencyConflict: The op was taken by another request.
            SetDefinitionConflict: A set to define exists with another definition.
            EmbedderConflict: A note that is expected says something else.
            SetFull: A set with compaction "reject" would exceed its capacity.
            KeyFull: The key would exceed its limits.
            Unavailable: The store cannot be written now.
        """
        ...

    def commit_many(self, batches: Sequence[Batch]) -> list[Commit | FornixError]:
        """Apply batches in order, in one transaction; each has an answer of its own.

        A batch that is refused changes nothing, and the others stand; where `commit` raises for
        one alone, its error is its answer. What hinders all of them is raised, and none stands.
        """
        ...

    def adopted(self, op: bytes, *, request: bytes | None, label: str) -> Commit | None:
        """Return the commit that took *op*, or None.

        Raises:
            IdempotencyConflict: It was taken by another request.
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

    def effects(self, number: int) -> Effects | None:
        """Return what commit *number* changed; None if there is no such commit."""
        ...

    def commit_at(self, time: int) -> int:
        """Return the number of the last commit at or before *time*; 0: none."""
        ...

    def set_info(self, ref: SetRef) -> SetInfo | None:
        """Return the set, or None while nobody added to it."""
        ...

    def set_infos(self, scope: Scope) -> list[SetInfo]:
        """Return the sets of *scope*, by name."""
        ...

    def keys(self, space: str, *, after: str | None = None, limit: int = 1000) -> list[str]:
        """Return keys of *space* that a commit or an input ever named, in code point order."""
        ...

    def spaces(self) -> list[str]:
        """Return the spaces that have a key, by name."""
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

    def touch(self, rows: Sequence[int], *, time: int) -> None:
        """Note that items (by `StoredItem.first`) were read; kept with a later commit.

        Visible to reads of this handle at once; may be lost by a kill. Moves no number.
        """
        ...

    def lease(self, scope: Scope, owner: str) -> Lease | None:
        """Take the right to run *scope* for *owner*, or None while a live owner has it.

        The one who has it gets the same lease again. A dead owner's is taken over at once, under
        a higher epoch.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Give a lease back; nothing happens if it was taken over."""
        ...

    def note(self, name: str) -> str | None:
        """Return what was noted under *name* (such as the embedder of a space), or None."""
        ...

    def put_note(self, name: str, text: str | None, *, expected: str | None) -> bool:
        """Note *text* if what stands there is *expected*; return whether it did. Durable."""
        ...

    def sweep(self, *, now: int) -> int:
        """Remove what expired `SWEEP_AFTER_US` ago, and names of ops past `OP_RETENTION_US`.

        Returns how much was removed. Moves no commit number; reads are the same before and after.
        """
        ...

    def stats(self) -> StoreStats:
        """Return figures of the store."""
        ...

    def salt(self) -> bytes:
        """Return 16 random bytes, made with the store, that key every digest in it."""
        ...

    def close(self) -> None:
        """Flush touches, close. Further use is `StoreClosed`. Closing twice is fine."""
        ...


class Finder(Protocol):
    """What can be found: features of items, and what changed in them."""

    def seq(self) -> int:
        """Return the number of the last line of the change log; cheap; 0: none yet."""
        ...

    def glance(self, sets: Sequence[SetRef] | Scope) -> tuple[int, list[SetInfo]]:
        """Return `seq`, and those of *sets* (or all of a scope, by name) that exist; cheap.

        Both are of one moment.
        """
        ...

    def changes(self, since: int, *, limit: int = 10_000) -> list[Change] | None:
        """Return lines past *since*, in order; None if the log no longer goes back that far."""
        ...

    def features(
        self, set_number: int, *, after: int = 0, at: int | None = None
    ) -> Iterator[Feature]:
        """Yield features of live items with rows past *after*, by row; as after *at* if given."""
        ...

    def features_of(self, set_number: int, rows: Sequence[int]) -> list[Feature]:
        """Return the features of the rows that exist, live or ended, in any order."""
        ...

    def stored(self, rows: Sequence[int]) -> list[StoredItem]:
        """Return the versions of the rows that exist, in the order asked."""
        ...

    def pending(self, *, limit: int, set_numbers: Sequence[int] | None = None) -> list[Pending]:
        """Return versions that wait for their vectors, live ones and earlier ones first."""
        ...

    def embed(
        self, vectors: Sequence[tuple[int, int, bytes]], *, expects: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Fill in vectors, as (set number, row, vectors); moves no commit number.

        A row that is gone, or has vectors already, is left alone.

        Raises:
            EmbedderConflict: A note that is expected says something else; nothing was filled in.
        """
        ...

    # A space changes its embedder in two steps: vectors of the new one are staged beside the
    # old ones, which go on serving, and then take their places all at once.

    def unstaged(self, set_numbers: Sequence[int], *, limit: int) -> list[Pending]:
        """Return versions of sets that have no staged vectors yet, live ones first.

        Those that meaning can read: with vectors, or a text that is not blank, or a caption.
        """
        ...

    def stage(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep vectors beside those in use, as (set number, row, vectors)."""
        ...

    def unstage(self) -> None:
        """Drop everything staged."""
        ...

    def swap(
        self, set_numbers: Sequence[int], *, notes: Sequence[tuple[str, str | None, str]]
    ) -> bool:
        """Put the staged vectors of sets in place, and change notes, as (name, expected, text).

        Atomic. A version of these sets without staged vectors waits for the embedder from then on.
        Returns False, and does nothing, if a note is not as expected. Staged vectors are dropped.
        """
        ...


class Lanes(Protocol):
    """What is to be run, and how far it is. A lane is the queue of one agent and key.

    An agent's name is that of its runner, in a space. Runs of a lane are numbered from 0 without
    gaps, in the order their inputs were accepted.
    """

    def accept(
        self, agent: str, inputs: Sequence[Input], *, owner: str | None = None
    ) -> list[Accepted]:
        """Keep inputs, all of one space: durable when this returns; answer in their order.

        Moves no commit number.

        Args:
            owner: Also take the leases of their keys for it, where they are free.

        Raises:
            IdempotencyConflict: An event id was used for another request; none was kept.
            InvalidInput: They are of several spaces, or of knowledge.
        """
        ...

    def run(self, run: int) -> Run | None:
        """Return a run, or None if there is none (any more)."""
        ...

    def runs(
        self,
        space: str,
        *,
        agent: str | None = None,
        key: str | None = None,
        status: RunStatus | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """Return runs, the latest first, with ids below *before*."""
        ...

    def queue(self, agent: str, scope: Scope, *, limit: int = 100) -> list[Run]:
        """Return the runs of a lane that wait or are parked, in order."""
        ...

    def lanes(self, agent: str, space: str, *, past_parked: bool, limit: int = 1000) -> list[Scope]:
        """Return the scopes of an agent's lanes where a run waits, by its id.

        Args:
            past_parked: Also those where an earlier run is parked.
        """
        ...

    def steps(self, run: int) -> list[StepDone]:
        """Return the tasks of a run that are done, by ordinal."""
        ...

    def calls(self, run: int, ordinal: int) -> list[Call]:
        """Return the durable calls of a task, by position, as they stand; see `Call`."""
        ...

    def retry(self, run: int, *, last: bool, time: int) -> int:
        """Let a parked run wait again, as it is; return its id. Moves no commit number.

        Args:
            last: A new run takes its input over instead, at the end of the lane; its id is
                returned, and the parked one is "retried".

        Raises:
            NotFound: There is no such run.
            StaleRun: It is not parked.
        """
        ...

    def outputs(self, agent: str, space: str, *, after: int = 0, limit: int = 100) -> list[Output]:
        """Return outputs of an agent past a position, in order.

        Raises:
            OutputsPruned: Some past *after* were pruned.
        """
        ...

    def outputs_of(self, run: int) -> list[Output]:
        """Return the outputs of one run, in order."""
        ...

    def consumer(self, agent: str, space: str, name: str) -> int:
        """Return the position up to which a consumer has read; a new one is noted, at the floor.

        The floor is the last position that was pruned. From then on outputs past a consumer's
        position are kept.
        """
        ...

    def advance(self, agent: str, space: str, name: str, position: int) -> None:
        """Move a consumer up to *position*; durable. It never moves back.

        Raises:
            NotFound: There is no such consumer (any more).
        """
        ...

    def drop_consumer(self, agent: str, space: str, name: str) -> bool:
        """Forget a consumer; return whether there was one. Outputs no longer wait for it."""
        ...

    def prune(self, agent: str, space: str, retain: Retain, *, now: int, limit: int = 1000) -> int:
        """Remove up to *limit* ended runs that *retain* gives up, with what hangs on them.

        What they changed in memory stays. They go in the order they ended, up to the first whose
        outputs a consumer has yet to read; so do up to *limit* ids of events. Returns how many
        runs went; moves no commit number.
        """
        ...


class Store(Ledger, Finder, Lanes, Protocol):
    """All of it, and what the handle itself can say."""

    @property
    def location(self) -> str:
        """Where it is: a path, or ``:memory:``."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether commits are refused."""
        ...
