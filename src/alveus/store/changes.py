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
"""A change of a tree. Deltas are applied in order, and ignore expiries.

The maker of the deltas deletes nodes that had expired. Created and put nodes have an object above.
"""


# --- items of sets ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """The contents of one version of an item, ready to be stored.

    See `alveus.store.items.Item` for the other fields.

    Attributes:
        value: In wire form. None means that it is the str `text`.
        metadata: In wire form; ``"{}"`` if empty.
        time: None means the time of the commit.
        expires: From this time on the item is in no read of the present.
        terms: `words.pack`ed hashes and counts of the terms; *tokens* is their number.
        temporal: The number of temporal words in the text, 0..255.
        minute: If `time` is None: the minute since 1970 whose words are among the terms; a commit
            in another minute reads them again. None means that the terms have no such words.
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
            Later changes in the batch of a kept item are `StaleItem`, of a replaced one need no
            version.
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
    """Set the definition of a new set, or with *replace* of an existing one.

    Without *replace*, another definition of an existing set is a `SetDefinitionConflict`, unless
    the batch adds to the set and leaves no live, unexpired item from before it. A set without this
    change has the default definition.
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

    Each item returns as the next version of its id; erased items do not return. The undo is
    `CompactionChanged` if it was made before, if a summary has changed, or if an id is live again.
    A summary that was compacted and restored since counts as unchanged.

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

    New rows and compactions must be numbered by the commit that contains this, and versions of an
    id must grow (`InvalidInput` else; see `Batch.after`); a new id must not be live
    (`DuplicateItem`). Capacities are ignored.

    Attributes:
        begun_items: Versions as they were begun, in the order of their rows.
        ended_rows: Rows that end; rows of this commit among them were never live.
        links: (row, source's row); a link of a row that no longer exists is skipped.
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

    A batch belongs to one key or to knowledge; its item changes may also reach knowledge.

    Attributes:
        time: The time of the caller's clock; see `commit_time`.
        corroborated: Items that expired by this time may be ended if room is needed. None means
            *time*.
        op: Digest of its name, if any. A second commit with the name changes nothing.
        request: Digest of the caller's request. A second commit with the op must carry an equal one
            (else `IdempotencyConflict`, which names *label*). None means that it may carry any.
        expects: Notes that must have these texts, as (name, text): the embedder of the vectors.
        base: The commit of the tree from which *state* was computed; required with state.
        epoch: The epoch of the lease of the run. None means that no run made the batch.
        run: The progress of a run; then *op* is None, as a step and a call have other names.
        release: This commit releases the lease of *epoch*.
        fences: Leases that must be held, whatever their scopes; `StaleRun` else.
        admission_checks: The checks of adds and replacements for each set with rules of admission;
            `SetMoved` if one is missing or outdated. None: the rules do not apply.
        after: The commit that must be the store's last; `StaleRun` else. 0 means no commit.
        history_start: The commit and the time from which the past of the tree is complete, unless
            the tree has later ones.
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
            raise InvalidInput("what a run does is named by its position in it, and has no op")
        if self.epoch is None and not (self.run is None or isinstance(self.run, StatusChange)):
            raise InvalidInput("what a run does is committed under the epoch of its key's lease")
        if self.epoch is None and self.release:
            raise InvalidInput("a batch outside a run has no lease to give back")


@dataclass(frozen=True, slots=True)
class NamedRequest:
    """A name under which work that is no `Batch` is done once; the fields are those of `Batch`."""

    op: bytes
    request: bytes
    label: str

    def answered(self, result: Value, *, scope: Scope, time: int) -> Batch:
        """Return the batch that claims the name, and stores the answer for repetitions."""
        op, request, label = self.op, self.request, self.label
        return Batch(scope=scope, time=time, op=op, request=request, label=label, result=result)


def expiry_cutoff(batch: Batch, time: int) -> int:
    """Return the time up to which *batch*, committed at *time*, may end expired items."""
    return time if batch.corroborated is None else min(time, batch.corroborated)


def unchecked_sets(batch: Batch) -> set[SetRef]:
    """Return the changed sets without an admission check: none may have rules of admission."""
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
        adopted: The batch repeats this earlier commit; nothing was changed now.
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
        put_nodes: An object before its fields, in their order; placeholders too, which are not
            among the removed.
        positions: For each node: the number that orders it among its siblings; a value that
            replaces another keeps its number.
        end_commits: For each node: the commit that replaced or removed it, or None.
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
        retired, added: Rows of the versions that it retired and added, as far as they are kept.
        erased: How many of either were erased or purged since.
        undo_commit: The commit that undid it, if any.
        purged: A version that it retired was purged, so that it cannot be undone.
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
