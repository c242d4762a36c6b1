"""The batches that a store commits, and the values that it returns: frozen values, no I/O.

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
        expires: From this time on the node does not exist. If None, the node never expires.
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
    """Make an empty object at *path*.

    If *path* has a value, the object replaces it, and keeps the value's position among its
    siblings. If *path* already has an object, nothing changes.
    """

    path: Path
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Put a value at *path*.

    If *path* already has a value, the new value replaces it, and keeps its position among its
    siblings. If *path* has an object, the commit raises `ObjectInTheWay`.
    """

    path: Path
    value: Value
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the node at *path* and everything below it, if it exists."""

    path: Path


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove everything below the object at *path*. The object itself stays.

    The path ``()`` empties the tree.
    """

    path: Path


@dataclass(frozen=True, slots=True)
class Refresh:
    """Change when the node at *path* expires, without a new version of the node."""

    path: Path
    expires: int | None


TreeDelta: TypeAlias = Create | Put | Delete | Clear | Refresh
"""A change of a tree. A store applies deltas in order, as if no node had expired.

So a caller must delete expired nodes by deltas. The parent of a created or put node must be an
object.
"""


# --- items of sets ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """The contents of one version of an item, ready to be stored.

    See `alveus.store.items.Item` for the other fields.

    Attributes:
        value: The value in wire form, or None if the value is the str *text*.
        metadata: The metadata in wire form; ``"{}"`` if there are none.
        time: The time of the item, or None for the time of the commit.
        expires: From this time on no read of the present returns the item.
        terms: Hashes and counts of the terms, as `words.pack` returns them.
        tokens: The number of the terms.
        temporal: The number of temporal words in the text, 0..255.
        minute: The minute since 1970 whose words are among the terms, used only if *time* is None.
            A commit in another minute computes the terms again. None if the terms contain no words
            of a minute.
        vectors: One row of int8 per window of the text. None if the text is not embedded yet, and
            ``b""`` if it never will be.
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
    """A source of an item: the last version of the item *id* of *set*, live or not."""

    set: SetRef
    id: str


@dataclass(frozen=True, slots=True)
class Add:
    """Add an item. By default, the commit raises `DuplicateItem` if a live item has the same id.

    If that live item has expired by the time of the commit, the commit ends it and adds the new
    item.

    Attributes:
        fresh: Whether the id was just made, so that no item can have it.
        links: The sources of the item, in sets of its key or of knowledge. Later versions of the
            item keep them. The commit raises `NotFound` if a source does not exist.
        accessed: When the item counts as last read: a summary takes the time of its sources.
        existing: What happens to a live item with the same id. "error" raises `DuplicateItem`,
            "keep" keeps that item, and "update" replaces it, whatever its version. Later changes
            in the same batch raise `StaleItem` for a kept item, and need no valid version for a
            replaced item.
    """

    set: SetRef
    record: ItemRecord
    fresh: bool = False
    links: Sequence[Link] = ()
    accessed: int | None = None
    existing: Literal["error", "keep", "update"] = "error"


@dataclass(frozen=True, slots=True)
class Replace:
    """End version *version* of an item and begin the next version.

    The commit raises `StaleItem` if *version* is not the live version.

    Attributes:
        links: Sources to add to those of the version before, as in `Add`.
        upsert: Replace whatever version is live. If no version is live, add the item.
    """

    set: SetRef
    version: int
    record: ItemRecord
    links: Sequence[Link] = ()
    upsert: bool = False


@dataclass(frozen=True, slots=True)
class Retire:
    """End version *version* of an item. `StaleItem` is raised if that version is not live."""

    set: SetRef
    id: str
    version: int


@dataclass(frozen=True, slots=True)
class Define:
    """Set the definition of a new set or, with *replace*, of an existing set.

    Without *replace*, a different definition for an existing set raises `SetDefinitionConflict`.
    The exception is a batch that adds an item to the set and leaves no live, unexpired item of an
    earlier commit in it. A set that no `Define` has named has the default definition.
    """

    set: SetRef
    definition: Definition
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Compact:
    """Retire items of a set and add summaries of them: one compaction, which is undone as a whole.

    Attributes:
        retired: The (id, version) of each item to retire. The commit raises `StaleItem` if
            one of these versions is not live.
        added: The summaries: items of the same set, each linked to its retired sources.
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
                    f"a compaction of set {self.set.name!r} cannot add to set {add.set.name!r}"
                )


@dataclass(frozen=True, slots=True)
class Undo:
    """Restore the items that compaction *compaction* of a set retired, and retire its summaries.

    Each item returns as the next version of its id; erased items do not return. The commit raises
    `CompactionChanged` if the compaction was undone before, if a summary has changed, or if the set
    again has an item with the id of a retired one. A summary that was compacted and restored since
    counts as unchanged.

    Attributes:
        erased: How many retired and added items had been erased when the undo was made. The commit
            raises `SetMoved` if it finds another number. If None, the number is not checked.
    """

    set: SetRef
    compaction: int
    erased: int | None = None


@dataclass(frozen=True, slots=True)
class Revive:
    """Restore the ended version with the number *row*, as the next version of its item.

    The commit raises `NotFound` if the set has no such version, and `DuplicateItem` if a version
    of the item is live.
    """

    set: SetRef
    row: int


@dataclass(frozen=True, slots=True)
class Past:
    """Apply the changes that a commit of another store made to a set; used to import a history.

    The numbers of new rows and compactions must belong to the commit that applies the change (see
    `Batch.after`), and the version numbers of an item must grow; otherwise the commit raises
    `InvalidInput`. It raises `DuplicateItem` if the id of a begun version is live. Capacities are
    ignored.

    Attributes:
        begun_items: The versions that the commit began, in the order of their rows.
        ended_rows: Rows of the versions that the commit ended. A version that it also began was
            never live.
        links: Pairs of (row, row of its source). Links whose rows no longer exist are skipped.
        history_start: The commit from which the past of the set is complete. If the set already
            has a later such commit, that one stays.
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
    """Return the `Add` that has the same effect as *change*, a `Replace` with *upsert*."""
    return Add(change.set, change.record, links=change.links, existing="update")


def parts_of(change: ItemChange) -> Sequence[Add | Replace | Retire]:
    """Return the changes of single items that *change* lists.

    `Undo`, `Revive` and `Past` list none.
    """
    if isinstance(change, Compact):
        retired = [Retire(change.set, item_id, version) for item_id, version in change.retired]
        return [*retired, *change.added]
    return () if isinstance(change, (Undo, Revive, Past)) else (change,)


def records_of(change: ItemChange) -> Sequence[ItemRecord]:
    """Return the records of the versions that *change* adds; none for `Undo` and `Revive`."""
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
    """The most items and bytes that one key may hold in all its sets. None sets no limit."""

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
    """All changes of one action, as one value. A store commits all of them or none.

    A batch belongs to one key or to knowledge. The item changes of a key's batch may also change
    sets of knowledge.

    Attributes:
        scope: The key or the knowledge to which the batch belongs.
        time: The time of the caller's clock; see `commit_time`.
        corroborated: If a set is full, the commit may end items that expired by this time. None
            stands for *time*.
        op: The digest of the batch's name, or None if it has no name. A second batch with the same
            name changes nothing.
        request: The digest of the caller's request. If a second batch with the same op carries
            another digest, the commit raises `IdempotencyConflict`, which names *label*. A second
            batch with None is not compared.
        expects: Notes that must have these texts, as (name, text), such as the embedder that made
            the vectors.
        base: The last commit of the tree from which *state* was computed; required with *state*.
        epoch: The epoch of the lease of the run, or None if no run made the batch.
        run: The progress of a run, or None. With a step or a durable call, *op* must be None:
            their positions in the run name them.
        release: Whether this commit releases the lease of *epoch*.
        fences: Leases of any scopes that must still be held. The commit raises `StaleRun` if one
            was lost.
        admission_checks: One check of the adds and replacements for each set that has rules of
            admission. The commit raises `SetMoved` if a check is missing or outdated. If None, the
            rules do not apply.
        after: The number that the store's last commit must have (0 if there must be no commit).
            The commit raises `StaleRun` if it has another. If None, any number will do.
        history_start: The commit and the time from which the past of the tree is complete. If the
            tree already has a later commit or time, that one stays.
        result: The value that the answer to a repetition of the batch returns.
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
            raise InvalidInput("a batch of a run takes no op; its position in the run is its name")
        if self.epoch is None and not (self.run is None or isinstance(self.run, StatusChange)):
            raise InvalidInput("a batch of a run needs the epoch of the lease of its key")
        if self.epoch is None and self.release:
            raise InvalidInput("a batch outside a run has no lease to release")


@dataclass(frozen=True, slots=True)
class NamedRequest:
    """A name that makes a store do a piece of work other than a `Batch` only once.

    The fields mean the same as the fields of `Batch`.
    """

    op: bytes
    request: bytes
    label: str

    def answered(self, result: Value, *, scope: Scope, time: int) -> Batch:
        """Return the batch that claims the name, and that stores *result* for repetitions."""
        op, request, label = self.op, self.request, self.label
        return Batch(scope=scope, time=time, op=op, request=request, label=label, result=result)


def expiry_cutoff(batch: Batch, time: int) -> int:
    """Return the time up to which *batch*, committed at *time*, may end expired items."""
    return time if batch.corroborated is None else min(time, batch.corroborated)


def unchecked_sets(batch: Batch) -> set[SetRef]:
    """Return the sets that *batch* adds to or replaces in without an admission check.

    None of these sets may have rules of admission.
    """
    if batch.admission_checks is None:
        return set()
    checked = {screened.set for screened in batch.admission_checks}
    changed = {change.set for change in batch.items if isinstance(change, (Add, Replace))}
    return changed - checked


def grows(batch: Batch, ref: SetRef) -> bool:
    """Return whether *batch* may begin a new item in the set *ref*."""
    return any(change.set == ref and begins_item(change) for change in batch.items)


def begins_item(change: ItemChange) -> bool:
    """Return whether a change may begin a new item."""
    return (
        isinstance(change, Add)
        or (isinstance(change, Compact) and bool(change.added))
        or (isinstance(change, Replace) and change.upsert)
    )


def adds_to(batch: Batch, ref: SetRef) -> bool:
    """Return whether *batch* has an `Add` to the set *ref*."""
    return any(isinstance(change, Add) and change.set == ref for change in batch.items)


def sets_in_batch(batch: Batch) -> Iterator[SetRef]:
    """Yield every set that *batch* changes, or from which it derives items. A set may repeat."""
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
        adopted: Whether the batch repeated this earlier commit, so that it changed nothing.
        result: The `Batch.result` of the commit.
        sets_to_compact: Sets to which the commit added items, and which now need compaction.
    """

    number: int
    time: int
    adopted: bool
    result: Value
    sets_to_compact: Sequence[SetRef] = ()


@dataclass(frozen=True, slots=True)
class Effects:
    """The changes that a commit made, as the store keeps them.

    Attributes:
        put_nodes: The nodes that the commit put, each object before its fields. They include
            placeholders, which *removed_paths* omits.
        positions: For each of *put_nodes*, the number that orders it among its siblings. A value
            that replaces another value has the same number.
        end_commits: For each of *put_nodes*, the commit that replaced or removed it, or None if it
            still exists.
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
    """One version of an item, as a store keeps it.

    Attributes:
        row: The number of the version: unique in the store, never reused, rising in commit order.
        first: The row of the item's first version. It orders items of equal time.
        end_commit: The commit that ended this version, or None if the version is live.
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
        id: Unique in the store, and rising: the number of the commit << 20, plus the index of the
            compaction within the commit.
        retired, added: Rows of the versions that the compaction retired and added, without those
            that were erased or purged since.
        erased: How many retired and added versions were erased or purged since.
        undo_commit: The commit that undid the compaction, or None.
        purged: Whether a retired version was purged, so that the compaction cannot be undone.
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
