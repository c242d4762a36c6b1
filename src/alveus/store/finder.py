"""The data of items that search reads, how it changes, and the errors for a damaged file."""

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
    """The data of one version that search reads.

    A tuple, as reading a large set makes a million features.
    """

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
        """Return the feature of the version that has the number *row* and the contents *r*."""
        # fmt: off
        return cls(
            row, first, r.id, begin_commit, end_commit, time, r.importance, r.speaker, r.role,
            r.session, r.metadata, r.terms, r.tokens, r.temporal, r.vectors,
        )
        # fmt: on


@dataclass(frozen=True, slots=True)
class FeatureChange:
    """A line of the change log, which records how a feature changed.

    Attributes:
        seq: The number of the line.
        row: The number of the version whose feature changed.
    """

    seq: int
    set_number: int
    row: int
    kind: ChangeKind


@dataclass(frozen=True, slots=True)
class PendingVectors:
    """A version that waits for its vectors.

    Attributes:
        metadata: The metadata in wire form; their captions are embedded too.
    """

    set_number: int
    row: int
    text: str
    metadata: str = "{}"


class SearchCache(NamedTuple):
    """Data that a searcher has read before.

    Attributes:
        seq: The number of the last line of the change log that the searcher has read.
        sets: Numbers of the sets whose features the searcher has.
        notes: Names of the notes that the searcher will read.
    """

    seq: int = 0
    sets: Container[int] = ()
    notes: Sequence[str] = ()


class SearchView(NamedTuple):
    """The data that a search reads first, as of one moment.

    A store may omit parts; these have their default values.

    Attributes:
        seq: The number of the last line of the change log.
        sets: The requested sets that exist.
        changes: The lines of the change log after line *since*, up to line *seq*; None if the store
            did not read them.
        changed_features: The features of live versions that *changes* name, by row.
        features: For some of *sets*, by number: the features of all live versions, by row.
        notes: The texts of notes, by name.
        epoch: A number that changes when the server crashes or restarts. Numbers of lines, commits,
            rows and sets from another epoch may have another meaning.
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
    """The figures of the live items of a set for which the store chooses candidates.

    Attributes:
        documents: The number of items.
        passages: The number of passages of their texts; a long text has several.
        tokens: The number of tokens of their texts.
        counts: For each requested term, the number of items that contain it.
        speakers: The names of the speakers.
    """

    documents: int
    passages: int
    tokens: int
    counts: Mapping[int, int]
    speakers: Sequence[str]


class CandidateQuery(NamedTuple):
    """Says which items of a large set a search will rank.

    Attributes:
        counts: The terms of the question, and how many items contain each term.
        vector: The vector of the question, of unit length. If empty, items are selected by words
            only.
        speaker, role: Items of this speaker, and items of this role, are also selected separately.
        where: Select items that match this filter, and also the best of all items by words.
        vectors: How many items are selected by meaning.
        texts: Roughly how many items are selected by words.
        scan: Select by *where* alone, because few items match it.
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
    """The methods of a store that search calls: they return the features of items."""

    def seq(self) -> int:
        """Return the number of the last line of the change log, or 0 if it has no line. Cheap."""
        ...

    def sync(self) -> None:
        """Make all commits so far survive loss of power, whatever the durability of the store."""
        ...

    def seq_and_sets(self, sets: Sequence[SetRef] | Scope) -> tuple[int, list[SetInfo]]:
        """Return `seq`, and the *sets* that exist, as of one moment. Cheap.

        Args:
            sets: The requested sets, or a scope for all its sets, sorted by name.
        """
        ...

    def search_view(self, sets: Sequence[SetRef] | Scope, cached: SearchCache) -> SearchView:
        """Return the result of `seq_and_sets`, and more data that the search will probably read.

        The store adds only data that it can read without another round trip to a server.
        """
        ...

    @property
    def large_items(self) -> int | None:
        """The least number of live items for which a search calls `large_set`.

        None if a search must never call it.
        """
        ...

    def large_set(
        self, set_number: int, terms: Sequence[int], *, dimensions: int
    ) -> LargeSet | None:
        """Return the figures of a large set, or None if the caller must read all its features.

        Args:
            terms: The terms for which `LargeSet.counts` counts items.
            dimensions: The length of a vector.
        """
        ...

    def candidates(
        self, set_number: int, wanted: CandidateQuery, *, dimensions: int
    ) -> list[Feature]:
        """Return the features of live items that may be among the best results, in order of row.

        Args:
            set_number: The number of a large set.
        """
        ...

    def neighbours(self, set_number: int, rows: Sequence[int]) -> list[list[int]]:
        """Return, for each of *rows* that has a session, the rows around it in that session.

        These are up to two live items before the row, the row itself, and up to two live items
        after it, in the order of (time, first).
        """
        ...

    def changes(self, since: int, *, limit: int = 10_000) -> list[FeatureChange] | None:
        """Return the lines of the change log after line *since*, in order.

        Returns None if the log no longer has some of these lines.
        """
        ...

    def features(
        self, set_number: int, *, after: int = 0, at: int | None = None
    ) -> Iterator[Feature]:
        """Yield the features of live items after row *after*, in order of row.

        Args:
            at: If given, yield the items that were live after commit *at*.
        """
        ...

    def features_of(self, set_number: int, rows: Sequence[int]) -> list[Feature]:
        """Return the features of the *rows* that exist, live or ended, in any order."""
        ...

    def items_by_row(self, rows: Sequence[int]) -> list[StoredItem]:
        """Return the versions with the numbers *rows*, in that order, without missing ones."""
        ...

    def expired_or_invalid_rows(
        self, set_number: int, *, now: int, valid_at: int | None, at: int | None = None
    ) -> list[int]:
        """Return the rows of live items that have expired by *now*, or are not valid at *valid_at*.

        An item is valid at `valid_from` and later, but before `valid_to`.

        Args:
            valid_at: The time at which items must be valid. If None, validity is not checked.
            at: If given, return rows of the items that were live after commit *at*.
        """
        ...

    def access_times(self, set_number: int) -> list[tuple[int, int]]:
        """Return (row, time of the last read) for each live item that was read.

        `Ledger.touch` notes these times.
        """
        ...

    def pending_vectors(
        self, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
        """Return up to *limit* versions that wait for their vectors, live ones first.

        Args:
            set_numbers: If given, return versions of these sets only.
        """
        ...

    def count_pending(self) -> int:
        """Return how many versions wait for their vectors."""
        ...

    def store_vectors(
        self, vectors: Sequence[tuple[int, int, bytes]], *, expects: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Store the vectors of versions that wait for them. Makes no commit.

        Args:
            vectors: As (set number, row, vectors). Rows that do not wait for vectors are skipped.
            expects: Notes that must have these texts, as (name, text).

        Raises:
            EmbedderConflict: A note has another text than expected; no vectors were stored.
        """
        ...

    def versions_to_stage(self, set_numbers: Sequence[int], *, limit: int) -> list[PendingVectors]:
        """Return up to *limit* versions that need staged vectors, live ones first.

        Versions without a text or a caption need none.
        """
        ...

    def stage_vectors(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep vectors of a new embedder beside the current ones.

        Search reads the current vectors until `use_staged_vectors` replaces all of them at once.

        Args:
            vectors: As (set number, row, vectors).
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

        Returns False, and changes nothing, if a note does not have the expected text.

        A version without staged vectors then waits for the embedder. All staged vectors are
        deleted.

        Args:
            set_numbers: The sets whose vectors are replaced.
            notes: As (name, expected text, new text).
            scopes: More sets: a scope of a key includes all sets of all keys of its space, and a
                scope of knowledge includes all sets of that knowledge.
        """
        ...


class WholeSets:
    """The methods for large sets, for a store whose sets search always reads whole."""

    @property
    def large_items(self) -> int | None:
        """See `Finder.large_items`."""
        return None

    def large_set(
        self,
        set_number: int,  # noqa: ARG002 - no set is large here
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
"""Errors that a fault of alveus may raise, and that a row of a damaged file may raise too."""


@runtime_checkable
class Examinable(Protocol):
    """A store that can find damage in its file."""

    @property
    def location(self) -> str:
        """The path of the file."""
        ...

    def damage(self) -> str | None:
        """Return the first problem of the file, or None if the file has no problem."""
        ...


def damage_of(store: object) -> StoreDamaged | None:
    """Return the error for a damaged file of *store*.

    Returns None if the file is not damaged, or if the store has no file.
    """
    if isinstance(store, type) or not isinstance(store, Examinable):
        return None
    problem = store.damage()
    return None if problem is None else StoreDamaged(store.location, problem)


class _Holder(Protocol):
    @property
    def store(self) -> object: ...


H = TypeVar("H", bound=_Holder)


def raising_damage(method: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
    """Make a method raise `StoreDamaged` if it fails because the store's file is damaged.

    If the method raises one of `POSSIBLE_DAMAGE`, the file is examined. If the file is not
    damaged, the error of the method is raised.
    """

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
