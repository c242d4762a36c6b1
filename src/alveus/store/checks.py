"""The checks that every store makes before a change, and the numbering of rows.

A store looks up the data; this module decides which batch is refused, and with which error.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from alveus.errors import (
    CompactionChanged,
    DuplicateItem,
    EmbedderConflict,
    InvalidInput,
    KeyBusy,
    KeyFull,
    NotFound,
    SetFull,
    SetMoved,
    StaleRun,
)
from alveus.store.changes import (
    Add,
    Batch,
    Compaction,
    Limits,
    Past,
    StoredItem,
    Undo,
    sets_in_batch,
)
from alveus.store.ledger import CLOCK_STEP_US
from alveus.store.runs import DurableCall, Progress, RunStatus, Step
from alveus.store.scope import Scope, SetRef
from alveus.store.sets import AdmissionCheck, Definition

ROW_BITS = 20
"""Commit n numbers its rows from n << 20: at most 1,048,576 items and nodes a commit."""

PLACEHOLDER_EXPIRY = 1
"""The expiry that marks a placeholder: a node that keeps the position of a deleted version.

No read returns a placeholder. No sweep deletes a placeholder, as a later version of the node may
need the position.
"""


def commit_time(reading: int, last: int | None) -> int:
    """Return the time of a commit at clock time *reading*, after a commit at time *last*.

    If the clock went back by at most `CLOCK_STEP_US`, the commit gets the time *last*. If the clock
    went back further, it had been ahead before, and the commit gets the time *reading*.

    Args:
        last: The time of the last commit, or None if there is no commit.
    """
    return last if last is not None and 0 < last - reading <= CLOCK_STEP_US else reading


def check_batch(batch: Batch, last: int) -> None:
    """Check a batch that follows commit *last*.

    Raises:
        StaleRun: `Batch.after` is not the last commit.
        InvalidInput: The batch changes a set of another key, or changes a tree without a base.
    """
    if batch.after is not None and batch.after != last:
        raise StaleRun(batch.scope.owner, expected=batch.after, found=last)
    if batch.define or batch.items:
        _check_sets(batch)
    if batch.state and batch.base is None:
        raise InvalidInput("a batch that changes the exact tree needs a base")


def _check_sets(batch: Batch) -> None:
    """Raise if a batch changes a set of another key."""
    items = batch.items
    if len(items) == 1 and not batch.define:
        add = items[0]  # most batches are a single add: this check is quicker than the loop below
        if type(add) is Add and add.set.scope is batch.scope and not add.links:
            return
    last_scope = batch.scope
    for ref in sets_in_batch(batch):
        if ref.scope is last_scope:  # comparing scopes takes longer than all the rest
            continue
        last_scope = ref.scope
        if ref.scope.key is not None and ref.scope != batch.scope:
            raise InvalidInput(
                f"a batch of key {batch.scope.key!r} cannot change a set of key "
                f"{ref.scope.key!r}; commit one batch per key"
            )


def check_base(batch: Batch, head: int) -> None:
    """Raise `StaleRun` if a batch has a base other than *head*, the last commit of the tree."""
    if batch.base is not None and batch.base != head:
        raise StaleRun(batch.scope.owner, expected=batch.base, found=head)


def check_note(name: str, *, expected: str, actual: str | None) -> None:
    """Raise `EmbedderConflict` if the note *name* does not have the expected text."""
    if actual != expected:
        raise EmbedderConflict(name, asked=expected, found=str(actual))


def check_leases(
    batch: Batch, holder: Callable[[Scope], tuple[str | None, int]], is_alive: Callable[[str], bool]
) -> None:
    """Check the leases of a batch.

    Args:
        holder: Returns the owner of a scope's lease (None if it has no owner), and its epoch.
        is_alive: Returns whether an owner is alive.

    Raises:
        StaleRun: A lease of the batch was lost.
        KeyBusy: The batch changes a tree outside a run, while a live owner runs the key.
    """
    for lease in batch.fences:
        owner, epoch = holder(lease.scope)
        if (owner, epoch) != (lease.owner, lease.epoch):
            raise StaleRun(lease.scope.owner, expected=lease.epoch, found=epoch, what="epoch")
    if batch.epoch is None and not batch.state:
        return
    owner, epoch = holder(batch.scope)
    if batch.epoch is None:
        if owner is not None and is_alive(owner):
            raise KeyBusy(batch.scope.owner, wait_s=0)
    elif owner is None or epoch != batch.epoch:
        raise StaleRun(batch.scope.owner, expected=batch.epoch, found=epoch, what="epoch")


def check_run(
    batch: Batch, progress: Progress, *, status: RunStatus, scope: Scope, has_begun: bool
) -> None:
    """Check that *batch* may commit *progress* of a run.

    Args:
        status: The stored status of the run.
        scope: The stored scope of the run.
        has_begun: Whether a part of the run is committed.

    Raises:
        StaleRun: The run does not have the expected status.
        InvalidInput: The batch has another scope, or the first commit of the run has no `Begin`.
    """
    is_work = isinstance(progress, (Step, DurableCall))
    # Before the scope: a run of a forgotten key has ended, and its key has another name.
    check_status(progress.run, scope, status, "waiting" if is_work else progress.expected)
    if scope != batch.scope:
        raise InvalidInput(f"run {progress.run} belongs to {scope}, but its batch to {batch.scope}")
    if is_work and not has_begun and progress.begin is None:
        raise InvalidInput(f"the first commit of run {progress.run} needs a `Begin`")


def no_run(run: int) -> NotFound:
    """Return the error for a run that does not exist."""
    return NotFound(f"there is no run {run}; it never existed, or was pruned")


def check_status(run: int, scope: Scope, status: RunStatus, expected: RunStatus) -> None:
    """Raise `StaleRun` if a run does not have the expected status."""
    if status != expected:
        raise StaleRun(scope.key or "", expected=expected, found=status, what=f"run {run}")


def check_rules(check: AdmissionCheck, definition: Definition | None) -> None:
    """Raise `SetMoved` if adds were checked by rules other than those of the set's *definition*.

    A set without a definition has the default one.
    """
    if not check.matches_rules(definition or Definition()):
        raise SetMoved(check.set.name, what="other rules")


def no_compaction(ref: SetRef, compaction: int) -> NotFound:
    """Return the error for a compaction that a set does not have."""
    return NotFound(f"set {ref.name!r} has no compaction {compaction}")


def check_undo(undo: Undo, compaction: Compaction | None) -> Compaction:
    """Check that *undo* may undo *compaction*, and return *compaction*.

    Args:
        compaction: The compaction with the rows that are still kept, or None if none has the id.

    Raises:
        NotFound: The set has no such compaction.
        CompactionChanged: The compaction was undone, a version that it retired was purged, or none
            of its retired versions is kept.
        SetMoved: The number of its erased versions has changed since the undo was made.
    """
    if compaction is None or compaction.set != undo.set:
        raise no_compaction(undo.set, undo.compaction)
    if compaction.undo_commit is not None:
        raise CompactionChanged(compaction.id, f"it was undone by commit {compaction.undo_commit}")
    if compaction.purged:
        raise CompactionChanged(
            compaction.id, "its retired items were purged, as the retention of the set says"
        )
    if not compaction.retired:
        raise CompactionChanged(compaction.id, "none of its retired items is kept")
    if undo.erased not in (None, compaction.erased):
        raise SetMoved(undo.set.name)
    return compaction


def needs_trimming(ref: SetRef, definition: Definition, size: tuple[int, int, int]) -> bool:
    """Return whether a set of *size* (items, tokens, bytes) must be trimmed.

    Raises:
        SetFull: The set exceeds a capacity, and its definition refuses adds to a full set.
    """
    exceeded = definition.exceeded_capacity(*size)
    if exceeded is not None and definition.rejects_when_full:
        is_compacted = definition.compaction != "reject"
        raise SetFull(ref.name, capacity=exceeded[1], what=exceeded[0], compacts=is_compacted)
    return exceeded is not None and definition.compaction == "trim"


def check_limits(key: str, limits: Limits, *, items: int, size: int) -> None:
    """Raise `KeyFull` if *items* or *size* (bytes), summed over a key's sets, exceed a limit."""
    for what, usage, limit in (("items", items, limits.items), ("bytes", size, limits.bytes)):
        if limit is not None and usage > limit:
            raise KeyFull(key, what=what, limit=limit)


def check_past(past: Past, number: int) -> None:
    """Raise `InvalidInput` if *past* cannot be applied by commit *number*.

    Its rows and compactions must have numbers of that commit, its rows must rise, and its versions
    must belong to its set.
    """
    rows = [item.row for item in past.begun_items]
    begun = [*rows, *(done.id for done in past.compactions)]
    if any(row >> ROW_BITS != number for row in begun):
        raise InvalidInput(f"commit {number} cannot import the past of another commit")
    if any(after <= before for before, after in pairwise(rows)):
        raise InvalidInput("the versions of a past must be in the order of their rows, each once")
    if any(item.set != past.set for item in past.begun_items):
        raise InvalidInput(f"a past of set {past.set.name!r} may contain only versions of that set")


def check_next(item: StoredItem, last: tuple[int, bool] | None) -> None:
    """Check that the version *item* can follow the last version of the same id.

    Args:
        last: The number of the last version, and whether that version is live. None if the id has
            no version yet.

    Raises:
        DuplicateItem: The last version is live.
        InvalidInput: The last version has the same number, or a higher one.
    """
    if last is None:
        return
    version, live = last
    if live:
        raise DuplicateItem(item.record.id, set_name=item.set.name)
    if item.version <= version:
        raise InvalidInput(
            f"version {item.version} of item {item.record.id!r} cannot follow version {version}; "
            "import a history into a store without its sets"
        )
