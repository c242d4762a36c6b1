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
"""The expiry of a placeholder of a node that is no longer kept: others keep their positions.

No read returns a placeholder, and no sweep deletes it: a version at its position may follow.
"""


def commit_time(reading: int, last: int | None) -> int:
    """Return the time of a commit at clock time *reading*, after a commit at time *last*.

    If the clock went back by at most `CLOCK_STEP_US`, the commit gets the time *last*. If it went
    back further, it had been ahead, and the commit gets the time *reading*.
    """
    return last if last is not None and 0 < last - reading <= CLOCK_STEP_US else reading


def check_batch(batch: Batch, last: int) -> None:
    """Check a batch that follows commit *last*.

    Raises:
        StaleRun: `Batch.after` is not the last commit.
        InvalidInput: The batch changes another key, or changes a tree without naming its base.
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
        add = items[0]  # as most batches are: quicker than what follows
        if type(add) is Add and add.set.scope is batch.scope and not add.links:
            return
    last_scope = batch.scope
    for ref in sets_in_batch(batch):
        if ref.scope is last_scope:  # to compare scopes takes longer than the rest
            continue
        last_scope = ref.scope
        if ref.scope.key is not None and ref.scope != batch.scope:
            raise InvalidInput(
                f"a batch of key {batch.scope.key!r} cannot change a set of key "
                f"{ref.scope.key!r}; commit one batch per key"
            )


def check_base(batch: Batch, head: int) -> None:
    """Raise `StaleRun` if a batch was not made from the tree's current commit."""
    if batch.base is not None and batch.base != head:
        raise StaleRun(batch.scope.owner, expected=batch.base, found=head)


def check_note(name: str, *, expected: str, actual: str | None) -> None:
    """Raise `EmbedderConflict` if a note does not have the expected text."""
    if actual != expected:
        raise EmbedderConflict(name, asked=expected, found=str(actual))


def check_leases(
    batch: Batch, holder: Callable[[Scope], tuple[str | None, int]], is_alive: Callable[[str], bool]
) -> None:
    """Check the leases of a batch.

    Args:
        holder: Returns the owner of a scope's lease (None means no owner), and its epoch.

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
    """Check the progress of a run that has *status*, *scope* and *has_begun*.

    Raises:
        StaleRun: The run has another status.
        InvalidInput: The run has another key, or its first commit carries no begin.
    """
    is_work = isinstance(progress, (Step, DurableCall))
    # First: a run of a forgotten key has ended, and another name of its key.
    check_status(progress.run, scope, status, "waiting" if is_work else progress.expected)
    if scope != batch.scope:
        raise InvalidInput(f"run {progress.run} is of {scope}, its batch of {batch.scope}")
    if is_work and not has_begun and progress.begin is None:
        raise InvalidInput(f"the first commit of run {progress.run} says when and how it began")


def no_run(run: int) -> NotFound:
    """Return the error for a run that does not exist."""
    return NotFound(f"there is no run {run}; it was never accepted, or was pruned")


def check_status(run: int, scope: Scope, status: RunStatus, expected: RunStatus) -> None:
    """Raise `StaleRun` if a run does not have the expected status."""
    if status != expected:
        raise StaleRun(scope.key or "", expected=expected, found=status, what=f"run {run}")


def check_rules(check: AdmissionCheck, definition: Definition | None) -> None:
    """Raise `SetMoved` if adds were checked by rules other than the set's."""
    if not check.matches_rules(definition or Definition()):
        raise SetMoved(check.set.name, what="other rules")


def no_compaction(ref: SetRef, compaction: int) -> NotFound:
    """Return the error for a compaction that a set does not have."""
    return NotFound(f"set {ref.name!r} has no compaction {compaction}")


def check_undo(undo: Undo, compaction: Compaction | None) -> Compaction:
    """Return the compaction to undo; *compaction* lists the rows that are still kept.

    Raises:
        NotFound: The set has no such compaction.
        CompactionChanged: It was undone, or none of the rows that it retired is kept.
        SetMoved: Some of its rows were erased since the undo was made.
    """
    if compaction is None or compaction.set != undo.set:
        raise no_compaction(undo.set, undo.compaction)
    if compaction.undo_commit is not None:
        raise CompactionChanged(compaction.id, f"it was undone by commit {compaction.undo_commit}")
    if compaction.purged:
        raise CompactionChanged(
            compaction.id, "what it retired was purged: see the set's retention"
        )
    if not compaction.retired:
        raise CompactionChanged(compaction.id, "nothing that it retired is kept")
    if undo.erased not in (None, compaction.erased):
        raise SetMoved(undo.set.name)
    return compaction


def needs_trimming(ref: SetRef, definition: Definition, size: tuple[int, int, int]) -> bool:
    """Return whether a set of *size* (items, tokens, bytes) must be trimmed; or raise `SetFull`."""
    exceeded = definition.exceeded_capacity(*size)
    if exceeded is not None and definition.rejects_when_full:
        is_compacted = definition.compaction != "reject"
        raise SetFull(ref.name, capacity=exceeded[1], what=exceeded[0], compacts=is_compacted)
    return exceeded is not None and definition.compaction == "trim"


def check_limits(key: str, limits: Limits, *, items: int, size: int) -> None:
    """Raise `KeyFull` if the sets of a key exceed a limit."""
    for what, usage, limit in (("items", items, limits.items), ("bytes", size, limits.bytes)):
        if limit is not None and usage > limit:
            raise KeyFull(key, what=what, limit=limit)


def check_past(past: Past, number: int) -> None:
    """Raise `InvalidInput` if a past has rows of another commit than *number*, or in disorder."""
    rows = [item.row for item in past.begun_items]
    begun = [*rows, *(done.id for done in past.compactions)]
    if any(row >> ROW_BITS != number for row in begun):
        raise InvalidInput(f"a past of another commit than {number} cannot be taken in by it")
    if any(after <= before for before, after in pairwise(rows)):
        raise InvalidInput("versions of a past come in the order of their rows, each once")
    if any(item.set != past.set for item in past.begun_items):
        raise InvalidInput(f"a past of set {past.set.name!r} begins versions of that set alone")


def check_next(item: StoredItem, last: tuple[int, bool] | None) -> None:
    """Raise if a version cannot follow *last*: the last version's number, and whether it is live.

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
