"""Commits, and the answers of a store: frozen values, no I/O.

Times are microseconds since 1970 in UTC, as int; commit numbers are whole and start at 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from alveus.errors import InvalidInput
from alveus.store.runs import Progress, StatusChange
from alveus.store.scope import Lease, Scope, SetRef
from alveus.store.sets import AdmissionCheck, Definition
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import ATOMS, Path, Value, counted

# --- the exact tree ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """A node of an exact tree: an object, or a value.

    Attributes:
        expires: From this time on the node does not exist. None means that it stays.
    """

    is_object: bool
    value: Value = None
    expires: int | None = None

    @property
    def is_lasting(self) -> bool:
        """Whether the node is an immutable value without expiry, which only a commit changes."""
        return self.expires is None and not self.is_object and type(self.value) in ATOMS


@dataclass(frozen=True, slots=True)
class Create:
    """Make an empty object at *path*: a new node, or a replacement of a value."""

    path: Path
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Put a value at *path*: a new node, or a replacement of a value, whose position it keeps."""

    path: Path
    value: Value
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the node at *path* and everything below it, if it exists."""

    path: Path


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove everything below the object at *path*, which stays; ``()`` empties the tree."""

    path: Path


@dataclass(frozen=True, slots=True)
class Refresh:
    """Change the expiry of the node at *path*, without a new version."""

    path: Path
    expires: int | None


TreeDelta: TypeAlias = Create | Put | Delete | Clear | Refresh
"""Deltas are applied in order. The parent of a created or put node is an object by then.

Expiry is ignored when they are applied: their maker deletes nodes that had expired for it.
"""


# --- items of sets ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """The contents of one version of an item, ready to be stored.

    Attributes:
        id: Its id in the set.
        value: In wire form. None means that it is the str `text`.
        text: The text that search reads. None means no text.
        metadata: In wire form; ``"{}"`` if empty.
        time: None means the time of the commit.
        until: The end of the span of time that the item covers; `time` is its beginning.
        expires: From this time on the item is in no read of the present.
        valid_from: When its statement began to hold. None means always.
        valid_to: When its statement ceased to hold. None means that it holds.
        terms: The terms of search by words: `words.pack`ed term hashes and counts.
        tokens: The number of tokens of the words.
        temporal: The number of temporal words in the text, 0..255.
        minute: Where `time` is None: the minute since 1970 whose words are among the terms; a
            commit in another minute reads them again. None means that the terms have no such words.
        vectors: int8 rows, one per window; None: not embedded yet; ``b""``: never embedded.
    """

    id: str
    value: str | None
    text: str | None
    metadata: str = "{}"
    importance: float = 0.0
    speaker: str | None = None
    role: str | None = None
    session: str | None = None
    time: int | None = None
    sources: tuple[str, ...] = ()
    compacted: bool = False
    until: int | None = None
    expires: int | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    terms: bytes = b""
    tokens: int = 0
    temporal: int = 0
    minute: int | None = field(default=None, compare=False, repr=False)
    vectors: bytes | None = b""


@dataclass(frozen=True, slots=True)
class Link:
    """The source of an item: the last version of an id, live or not."""

    set: SetRef
    id: str


@dataclass(frozen=True, slots=True)
class Add:
    """Add an item; `DuplicateItem` if a live one has its id. *fresh*: the id was just made.

    A live item that has expired by the time of the commit is ended by it.

    Attributes:
        existing: "keep" keeps a live item of the id, "update" replaces it, whatever its version.
            Later changes of the batch to a replaced item need name no version; to a kept one they
            are `StaleItem`.
        links: Its sources, of its key or of knowledge; `NotFound` if one does not exist. Later
            versions of the item keep them.
        accessed: When it counts as last read: a summary takes the time of its sources.
    """

    set: SetRef
    record: ItemRecord
    fresh: bool = False
    links: Sequence[Link] = ()
    accessed: int | None = None
    existing: Literal["error", "keep", "update"] = "error"


@dataclass(frozen=True, slots=True)
class Replace:
    """End version *version* of an item and begin the next; `StaleItem` if that is not live.

    Attributes:
        links: More sources than the version before has; as in `Add`.
        upsert: Replace whatever version is live; if none is, add the item.
    """

    set: SetRef
    version: int
    record: ItemRecord
    links: Sequence[Link] = ()
    upsert: bool = False


@dataclass(frozen=True, slots=True)
class Retire:
    """End version *version* of an item; `StaleItem` if that is not live."""

    set: SetRef
    id: str
    version: int


@dataclass(frozen=True, slots=True)
class Define:
    """Set the definition of a set: of a new one, or with *replace* of an existing one.

    Without *replace*, a set that exists with another definition is a `SetDefinitionConflict`; but
    an empty set takes the definition that comes with its next add. A set is empty if the batch
    leaves no live item from before it, expired ones aside. A set that gets its first item without
    this has the default definition.
    """

    set: SetRef
    definition: Definition
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Compact:
    """Retire items of a set and add summaries of them: one compaction, undone as one.

    Attributes:
        retired: Their ids and versions; `StaleItem` if one is not live.
        added: Items of the same set, each linked to its retired sources.
        how: The strategy and its caller, as JSON.
    """

    set: SetRef
    retired: Sequence[tuple[str, int]]
    added: Sequence[Add]
    how: str

    def __post_init__(self) -> None:
        """Raise if an added item belongs to another set."""
        for add in self.added:
            if add.set != self.set:
                raise InvalidInput(
                    f"a compaction of set {self.set.name!r} adds to it, not to {add.set.name!r}"
                )


@dataclass(frozen=True, slots=True)
class Undo:
    """Restore the items that compaction *compaction* of a set retired, and retire its summaries.

    Each item returns as the next version of its id, with all fields of the retired version; erased
    items do not return. `CompactionChanged` if the compaction was undone before, if a summary was
    changed, or if an id is live again. A summary that was compacted since, and restored by undoing
    that, counts as unchanged. `NotFound` for a compaction of the same batch.

    Attributes:
        erased: How many retired and added items had been erased when the undo was made; `SetMoved`
            if more are erased by now. None means any number.
    """

    set: SetRef
    compaction: int
    erased: int | None = None


@dataclass(frozen=True, slots=True)
class Revive:
    """Restore a version of an item that is not live, as the item's next version.

    `NotFound` if there is no such row, `DuplicateItem` if the id is live.
    """

    set: SetRef
    row: int


@dataclass(frozen=True, slots=True)
class Past:
    """Apply the changes that a commit of another store made to a set; used to import a history.

    Rows and ids of compactions are complete: (commit number << 20 | index). New rows and
    compactions must be of the commit that contains this (`InvalidInput` else; see `Batch.after`),
    versions of an id must grow (`InvalidInput`), and a new id must not be live (`DuplicateItem`). A
    `first` may be a row that is not kept. Capacities are ignored.

    Attributes:
        begun_items: Versions as they were begun, in the order of their rows.
        ended_rows: Rows that end; rows of this commit among them were never live.
        links: (row, source's row); also of rows that were begun before. A link is skipped if a
            sweep deleted one of the two rows.
        compactions: The compactions of the commit; the rows that were `erased` are not known.
        undone_compactions: Ids of compactions that were undone.
        history_start: The commit from which the past of the set is complete, unless the set has a
            later one.
    """

    set: SetRef
    begun_items: Sequence[StoredItem] = ()
    ended_rows: Sequence[int] = ()
    links: Sequence[tuple[int, int]] = ()
    compactions: Sequence[Compaction] = ()
    undone_compactions: Sequence[int] = ()
    history_start: int = 0


ItemChange: TypeAlias = Add | Replace | Retire | Compact | Undo | Revive | Past


def upserted(change: Replace) -> Add:
    """Return the add that is equivalent to an upsert, whichever version is live."""
    return Add(change.set, change.record, links=change.links, existing="update")


def parts_of(change: ItemChange) -> Sequence[Add | Replace | Retire]:
    """Return the changes of single items within *change*, as far as *change* lists them."""
    if isinstance(change, Compact):
        retired = [Retire(change.set, item_id, version) for item_id, version in change.retired]
        return [*retired, *change.added]
    return () if isinstance(change, (Undo, Revive, Past)) else (change,)


def records_of(change: ItemChange) -> Sequence[ItemRecord]:
    """Return the new records of *change*."""
    if isinstance(change, (Add, Replace)):
        return (change.record,)
    if isinstance(change, Past):
        return [item.record for item in change.begun_items]
    return [add.record for add in change.added] if isinstance(change, Compact) else ()


def await_vectors(changes: Sequence[ItemChange]) -> bool:
    """Return whether a record of *changes* is not embedded yet."""
    for change in changes:
        records = (change.record,) if type(change) is Add else records_of(change)
        for record in records:
            if record.vectors is None:
                return True
    return False


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one key may hold in all its sets. None means no limit."""

    items: int | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        """Raise if a limit is not a whole number of 0 or more."""
        for what, limit in (("items", self.items), ("bytes", self.bytes)):
            if limit is not None:
                counted(limit, f"the limit of {what}", least=0)


# --- the one write path -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """All changes of one action, as one value: committed whole, or not at all.

    It has one key (or is of knowledge alone); its item changes may also reach knowledge.

    Attributes:
        time: The time of the caller's clock; `commit_time` computes the commit's time from it.
        corroborated: The time up to which that clock is corroborated: items that expired by then
            are ended if room is needed. None means all of *time*.
        op: Digest of its name. None means no name. A second commit with a name changes nothing.
        request: Digest of the caller's request. With an op, a second commit must carry an equal one
            (else `IdempotencyConflict`, which names *label*). None means that it may carry any.
        expects: Notes that must have these texts, as (name, text): the embedder that made the
            vectors in *items*.
        base: The tree's commit number that *state* was computed from; required with state, and
            checked whenever given.
        epoch: The lease's epoch under which this was made; None: made outside a run.
        run: The progress of a run. A step and a call have other names, and *op* is None.
        release: This commit releases the lease of *epoch*.
        fences: Leases that must be held, whatever their scopes; `StaleRun` else.
        admission_checks: The checks of its adds and replacements, for each set with rules of
            admission; `SetMoved` if one is missing or outdated. None: they pass every set's rules,
            as a restored item does.
        after: The commit that must be the store's last, 0: there must be none; `StaleRun` else.
        history_start: The commit and the time from which on the past of the tree is complete,
            unless the tree has later ones: an exported history may lack what came before.
        result: The answer to a repetition.
    """

    scope: Scope
    time: int
    corroborated: int | None = None
    op: bytes | None = None
    request: bytes | None = None
    label: str = ""
    expects: Sequence[tuple[str, str]] = ()
    base: int | None = None
    epoch: int | None = None
    run: Progress | None = None
    release: bool = False
    fences: Sequence[Lease] = ()
    after: int | None = None
    history_start: tuple[int, int] = (0, 0)
    state: Sequence[TreeDelta] = ()
    define: Sequence[Define] = ()
    items: Sequence[ItemChange] = ()
    admission_checks: Sequence[AdmissionCheck] | None = ()
    limits: Limits | None = None
    result: Value = None

    def __post_init__(self) -> None:
        """Raise if a batch contradicts itself."""
        if self.op is not None and not (self.run is None or isinstance(self.run, StatusChange)):
            raise InvalidInput("what a run does is named by its place in it, and has no op")
        if self.epoch is None and not (self.run is None or isinstance(self.run, StatusChange)):
            raise InvalidInput("what a run does is committed under the epoch of its key's lease")
        if self.epoch is None and self.release:
            raise InvalidInput("a batch outside a run has no lease to give back")


@dataclass(frozen=True, slots=True)
class NamedRequest:
    """A name under which work that is no `Batch` is done once; see there.

    The work and the name are one transaction. A second request of that name changes nothing.
    """

    op: bytes
    request: bytes
    label: str

    def answered(self, result: Value, *, scope: Scope, time: int) -> Batch:
        """Return the batch that claims the name, and stores the answer for repetitions."""
        return Batch(
            scope=scope,
            time=time,
            op=self.op,
            request=self.request,
            label=self.label,
            result=result,
        )


def expiry_cutoff(batch: Batch, time: int) -> int:
    """Return the time up to which *batch*, committed at *time*, may end expired items."""
    return time if batch.corroborated is None else min(time, batch.corroborated)


def unchecked_sets(batch: Batch) -> set[SetRef]:
    """Return the sets that *batch* adds to or replaces items in without an admission check.

    The store refuses the batch if one of these sets has rules of admission.
    """
    if batch.admission_checks is None:
        return set()
    checked = {screened.set for screened in batch.admission_checks}
    changed = {change.set for change in batch.items if isinstance(change, (Add, Replace))}
    return changed - checked


def grows(batch: Batch, ref: SetRef) -> bool:
    """Return whether *batch* may begin a new item of a set."""
    return any(change.set == ref and begins_item(change) for change in batch.items)


def begins_item(change: ItemChange) -> bool:
    """Return whether a change may begin a new item."""
    return (
        isinstance(change, Add)
        or (isinstance(change, Compact) and bool(change.added))
        or (isinstance(change, Replace) and change.upsert)
    )


def adds_to(batch: Batch, ref: SetRef) -> bool:
    """Return whether *batch* adds an item to a set."""
    return any(isinstance(change, Add) and change.set == ref for change in batch.items)


def sets_in_batch(batch: Batch) -> Iterator[SetRef]:
    """Yield every set that *batch* changes, or derives items from; a set may repeat."""
    last = None
    for change in (*batch.define, *batch.items):
        if change.set is not last:  # most changes are of the same set
            last = change.set
            yield last
        if isinstance(change, (Add, Replace)):
            if change.links:
                yield from (link.set for link in change.links)
        elif isinstance(change, Compact):
            yield from (link.set for add in change.added for link in add.links)


@dataclass(frozen=True, slots=True)
class Commit:
    """The answer to a batch.

    Attributes:
        number: Its commit number; of the first one if *adopted*.
        adopted: The batch's op, or its position in a run, was taken; nothing was changed now.
        result: The first batch's result.
        sets_to_compact: Sets that it added to and that now need compaction.
    """

    number: int
    time: int
    adopted: bool
    result: Value
    sets_to_compact: Sequence[SetRef] = ()


@dataclass(frozen=True, slots=True)
class Effects:
    """The changes of a commit, read through its journal row.

    Attributes:
        put_nodes: Nodes, an object before its fields; fields of one object in their order.
            Placeholders of nodes that are no longer kept are included here, and not among the
            removed.
        positions: For each node: the number that orders it among its siblings (commit << 20 |
            index); a value that replaces another keeps its number.
        end_commits: For each node: the commit that replaced or removed it, or None.
        compactions: Its compactions.
        undone_compactions: Ids of the compactions that it undid.
    """

    commit: Commit
    scope: Scope
    put_nodes: Sequence[tuple[Path, Node]]
    removed_paths: Sequence[Path]
    begun_items: Sequence[StoredItem]
    ended_items: Sequence[StoredItem]
    positions: Sequence[int] = ()
    end_commits: Sequence[int | None] = ()
    compactions: Sequence[Compaction] = ()
    undone_compactions: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class StoredItem:
    """One version of an item, as it is in the store.

    Attributes:
        row: Unique in the store, never reused, rising in commit order.
        first: The row of the item's first version; items of equal time are ordered by it.
        end_commit: The commit that ended this version. None means that it is live.
    """

    row: int
    first: int
    set: SetRef
    begin_commit: int
    end_commit: int | None
    version: int
    created: int
    updated: int
    accessed: int | None
    record: ItemRecord


@dataclass(frozen=True, slots=True)
class Compaction:
    """A committed compaction.

    Attributes:
        id: Unique in the store, rising: the commit's number << 20, plus its index there.
        retired: Rows of the versions it retired that were not erased since.
        added: Rows of the versions it added that were not erased since.
        erased: How many of either were erased or purged since.
        undo_commit: The commit that undid it. None means that no commit did.
        purged: Its set kept ended versions for a time that is over: it cannot be undone.
    """

    id: int
    set: SetRef
    commit: int
    time: int
    how: str
    retired: Sequence[int]
    added: Sequence[int]
    erased: int
    undo_commit: int | None
    purged: bool = False
