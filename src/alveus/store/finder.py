"""The data that search reads of items, its changes, and the errors of a damaged file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import (
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

from alveus.errors import AlveusError, StoreDamaged
from alveus.store.changes import ItemRecord, StoredItem
from alveus.store.filters import Filter
from alveus.store.scope import Scope, SetRef
from alveus.store.sets import SetInfo
from alveus.values.lazy_dataclass import dataclass

ChangeKind: TypeAlias = Literal["added", "ended", "embedded", "removed"]


class Feature(NamedTuple):
    """The data that search reads of a version; a tuple, as reading a large set makes a million."""

    row: int
    first: int
    id: str
    begin_commit: int
    end_commit: int | None
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
        begin_commit: int = 0,
        end_commit: int | None = None,
    ) -> Feature:
        """Return the feature of the version *row* with the contents *r*."""
        # fmt: off
        return cls(
            row, first, r.id, begin_commit, end_commit, time, r.importance, r.speaker, r.role,
            r.session, r.metadata, r.terms, r.tokens, r.temporal, r.vectors,
        )
        # fmt: on


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """A line of the change log: how a feature changed."""

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


class SearchCache(NamedTuple):
    """Data that a searcher has read before.

    Attributes:
        seq: The last line of the change log that it knows.
        sets: Numbers of the sets whose features it has.
        notes: Names of the notes that it will read.
    """

    seq: int = 0
    sets: Container[int] = ()
    notes: Sequence[str] = ()


class SearchView(NamedTuple):
    """The first reads of a search, of one moment; unread parts are empty, or None.

    Attributes:
        sets: The requested sets that exist.
        changes: `Finder.changes` after *since*, up to *seq*.
        changed_features: Live features of *sets* named by *changes*, by row.
        features: All live features of some of *sets*, by number, in order of rows.
        epoch: Changes when a server crashed or restarted: numbers of lines, commits, rows and sets
            that were read before may have another meaning.
    """

    seq: int
    sets: list[SetInfo]
    since: int = 0
    changes: Sequence[FeatureChange] | None = None
    changed_features: Mapping[int, Feature] = {}
    features: Mapping[int, Sequence[Feature]] = {}
    notes: Mapping[str, str | None] = {}
    epoch: int = 0


class LargeSet(NamedTuple):
    """The figures of the live items of a set whose store chooses candidates.

    Attributes:
        counts: The number of items that contain each requested term.
    """

    documents: int
    passages: int
    tokens: int
    counts: Mapping[int, int]
    speakers: Sequence[str]


class CandidateQuery(NamedTuple):
    """Selects the items of a large set that a search ranks.

    Attributes:
        counts: The terms of the question, and how many items contain each.
        vector: The meaning of the question, of unit length; empty: words only.
        speaker, role: Items of this speaker, and of this role, are also selected separately.
        where: Only items that match it, and the best of all by words.
        vectors: How many are chosen by meaning.
        texts: Roughly how many are chosen by words.
        scan: Choose by *where* alone, which few items match.
    """

    counts: Mapping[int, int]
    vector: Sequence[float] = ()
    speaker: str | None = None
    role: str | None = None
    where: Filter | None = None
    vectors: int = 400
    texts: int = 2_000
    scan: bool = False


class Finder(Protocol):
    """Features of items, and their changes."""

    def seq(self) -> int:
        """Return the number of the last line of the change log; 0: no line. Cheap."""
        ...

    def sync(self) -> None:
        """Make all commits until now survive loss of power, whatever the durability."""
        ...

    def seq_and_sets(self, sets: Sequence[SetRef] | Scope) -> tuple[int, list[SetInfo]]:
        """Return `seq`, and the existing *sets*, of a scope by name, as of one moment. Cheap."""
        ...

    def search_view(self, sets: Sequence[SetRef] | Scope, cached: SearchCache) -> SearchView:
        """Return `seq_and_sets`, and the likely next reads, if they cost no more round trips."""
        ...

    @property
    def large_items(self) -> int | None:
        """The number of live items from which a search calls `large_set`. None means never."""
        ...

    def large_set(
        self, set_number: int, terms: Sequence[int], *, dimensions: int
    ) -> LargeSet | None:
        """Return the figures of a large set, or None if the caller must read all its features."""
        ...

    def candidates(
        self, set_number: int, wanted: CandidateQuery, *, dimensions: int
    ) -> list[Feature]:
        """Return features of live items of a large set that may be among the best, by row."""
        ...

    def neighbours(self, set_number: int, rows: Sequence[int]) -> list[list[int]]:
        """Return, for each of *rows* with a session, the rows around it in that session.

        Up to two live items before it, itself, and up to two after it, by (time, first).
        """
        ...

    def changes(self, since: int, *, limit: int = 10_000) -> list[FeatureChange] | None:
        """Return lines past *since*, in order; None if the log begins later."""
        ...

    def features(
        self, set_number: int, *, after: int = 0, at: int | None = None
    ) -> Iterator[Feature]:
        """Yield features of live items past row *after*, by row; after commit *at* if given."""
        ...

    def features_of(self, set_number: int, rows: Sequence[int]) -> list[Feature]:
        """Return the features of the rows that exist, live or ended, in any order."""
        ...

    def items_by_row(self, rows: Sequence[int]) -> list[StoredItem]:
        """Return the versions of the rows that exist, in the order asked."""
        ...

    def expired_or_invalid_rows(
        self, set_number: int, *, now: int, valid_at: int | None, at: int | None = None
    ) -> list[int]:
        """Return rows of live items that have expired by *now*, or are not valid at *valid_at*.

        After commit *at* if given. An item is valid from `valid_from` on, until before `valid_to`.
        """
        ...

    def access_times(self, set_number: int) -> list[tuple[int, int]]:
        """Return (row, time of the last read; see `Ledger.touch`) of live items that were read."""
        ...

    def pending_vectors(
        self, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
        """Return versions that wait for their vectors, live ones first, then by row."""
        ...

    def count_pending(self) -> int:
        """Return how many versions wait for their vectors."""
        ...

    def store_vectors(
        self, vectors: Sequence[tuple[int, int, bytes]], *, expects: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Fill in missing vectors, as (set number, row, vectors); skip other rows. No commit.

        Raises:
            EmbedderConflict: A note has another text than expected; nothing was filled in.
        """
        ...

    def versions_to_stage(self, set_numbers: Sequence[int], *, limit: int) -> list[PendingVectors]:
        """Return versions without staged vectors that can have some, live ones first."""
        ...

    def stage_vectors(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep vectors of a new embedder, as (set number, row, vectors), beside the current ones.

        Search reads the current ones until `use_staged_vectors` replaces all of them at once.
        """
        ...

    def drop_staged_vectors(self) -> None:
        """Delete all staged vectors."""
        ...

    def use_staged_vectors(
        self,
        set_numbers: Sequence[int],
        *,
        notes: Sequence[tuple[str, str | None, str]],
        scopes: Sequence[Scope] = (),
    ) -> bool:
        """Replace the vectors of sets by the staged ones, and change notes. Atomic.

        A version without staged vectors waits for the embedder from then on. Staged vectors are
        deleted.

        Args:
            notes: As (name, expected text, new text). If a text is not as expected, nothing
                changes, and the result is False.
            scopes: Knowledge, and spaces, each by any key: all their sets are included.
        """
        ...


class WholeSets:
    """The methods for large sets, for a store that does not choose candidates."""

    @property
    def large_items(self) -> int | None:
        """See `Finder.large_items`."""
        return None

    def large_set(
        self,
        set_number: int,  # noqa: ARG002 - it is none
        terms: Sequence[int],  # noqa: ARG002 - the same
        *,
        dimensions: int,  # noqa: ARG002 - the same
    ) -> LargeSet | None:
        """See `Finder.large_set`."""
        return None

    def candidates(
        self, set_number: int, wanted: CandidateQuery, *, dimensions: int
    ) -> list[Feature]:
        """See `Finder.candidates`."""
        raise NotImplementedError(f"{set_number} is read whole: {wanted}, {dimensions}")

    def neighbours(self, set_number: int, rows: Sequence[int]) -> list[list[int]]:
        """See `Finder.neighbours`."""
        raise NotImplementedError(f"{set_number} is read whole: {rows}")


P = ParamSpec("P")
R = TypeVar("R")

POSSIBLE_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""Errors that faults of alveus raise, and also rows of a damaged file."""


@runtime_checkable
class Examinable(Protocol):
    """A store that can find damage in its file."""

    @property
    def location(self) -> str:
        """The path of the file."""
        ...

    def damage(self) -> str | None:
        """Return the first problem of the file. None means that there is none."""
        ...


def damage_of(store: object) -> StoreDamaged | None:
    """Return the error for the damage of a store's file. None means no damage, or no file."""
    if isinstance(store, type) or not isinstance(store, Examinable):
        return None
    problem = store.damage()
    return None if problem is None else StoreDamaged(store.location, problem)


class _Holder(Protocol):
    @property
    def store(self) -> object: ...


H = TypeVar("H", bound=_Holder)


def raising_damage(method: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
    """Make a method raise `StoreDamaged` for `POSSIBLE_DAMAGE` if the store's file is damaged."""

    @functools.wraps(method)
    def call(self: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except AlveusError:
            raise
        except POSSIBLE_DAMAGE as error:
            found = damage_of(self.store)
            if found is None:
                raise
            raise found from error

    return call
