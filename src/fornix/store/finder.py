"""What can be found: what search reads of items, and what changed in them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from fornix.store.changes import ItemRecord, StoredItem
from fornix.store.definition import SetInfo
from fornix.store.scope import Scope, SetRef
from fornix.values.lazy_dataclass import dataclass

ChangeKind: TypeAlias = Literal["added", "ended", "embedded", "removed"]


class Feature(NamedTuple):
    """What search reads of one version of an item; see `ItemRecord` and `StoredItem`.

    A tuple, because a large set has a million of them to be made when it is read.
    """

    row: int
    first: int
    id: str
    begun: int
    ended: int | None
    time: int
    importance: float
    speaker: str | None
    role: str | None
    session: str | None
    metadata: str
    terms: bytes
    tokens: int
    temporal: int
    vectors: bytes | None

    @classmethod
    def of(
        cls,
        r: ItemRecord,
        row: int,
        first: int,
        time: int,
        *,
        begun: int = 0,
        ended: int | None = None,
    ) -> Feature:
        """Return what search reads of the version *row* with the contents *r*."""
        # fmt: off
        return cls(
            row, first, r.id, begun, ended, time, r.importance, r.speaker, r.role, r.session,
            r.metadata, r.terms, r.tokens, r.temporal, r.vectors,
        )
        # fmt: on


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """A line of the change log: what happened to a feature."""

    seq: int
    set_number: int
    row: int
    kind: ChangeKind


@dataclass(frozen=True, slots=True)
class PendingVectors:
    """A version that waits for its vectors; *metadata* in wire form, for its captions."""

    set_number: int
    row: int
    text: str
    metadata: str = "{}"


class KnownBefore(NamedTuple):
    """What somebody who searches has read before.

    Attributes:
        seq: The line of the change log up to which it was told what changed.
        sets: Numbers of sets whose features it has.
        notes: Names of notes that it is going to read.
    """

    seq: int = 0
    sets: Container[int] = ()
    notes: Sequence[str] = ()


class SearchView(NamedTuple):
    """What a search reads first, of one moment; what a store did not read along is empty, or None.

    Attributes:
        seq: See `Finder.seq`.
        sets: Those of the asked ones that exist.
        since: The line that *changes* begin after.
        changes: What `Finder.changes` gives, up to *seq*.
        changed: Live features that *changes* are about, by row, if they are of *sets*.
        features: All live features of some of *sets*, by number, in order of rows.
        notes: Some notes by name.
    """

    seq: int
    sets: list[SetInfo]
    since: int = 0
    changes: Sequence[FeatureChange] | None = None
    changed: Mapping[int, Feature] = {}
    features: Mapping[int, Sequence[Feature]] = {}
    notes: Mapping[str, str | None] = {}


class Finder(Protocol):
    """What can be found: features of items, and what changed in them."""

    def seq(self) -> int:
        """Return the number of the last line of the change log; cheap; 0: none yet."""
        ...

    def sync(self) -> None:
        """Have all that was committed until now survive loss of power, whatever the durability.

        For who makes something of it that does: nothing may be on a disk that its source is not.
        """
        ...

    def glance(self, sets: Sequence[SetRef] | Scope) -> tuple[int, list[SetInfo]]:
        """Return `seq`, and those of *sets* (or all of a scope, by name) that exist; cheap.

        Both are of one moment.
        """
        ...

    def search_view(self, sets: Sequence[SetRef] | Scope, known: KnownBefore) -> SearchView:
        """Return what `glance` gives, with what a search is likely to ask next.

        A store that is far away reads all of it in one round trip.
        """
        ...

    def changes(self, since: int, *, limit: int = 10_000) -> list[FeatureChange] | None:
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

    def out_of_time(
        self, set_number: int, *, now: int, valid_at: int | None, at: int | None = None
    ) -> list[int]:
        """Return rows of live items that have expired by *now*, or are not valid at *valid_at*.

        As of after commit *at* if given. An item is valid from `valid_from` on, up to but not at
        `valid_to`; None: whenever.
        """
        ...

    def accessed(self, set_number: int) -> list[tuple[int, int]]:
        """Return (row, when it was last read) of live items of a set that ever were.

        Costs time in proportion to the set; as of `Ledger.touch`, it may lag.
        """
        ...

    def pending(
        self, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
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

    def unstaged(self, set_numbers: Sequence[int], *, limit: int) -> list[PendingVectors]:
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
