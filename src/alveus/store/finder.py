"""The data that search reads of items, their changes, and the errors of a damaged file."""

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
    """The data that search reads of one version of an item; see `ItemRecord` and `StoredItem`.

    A tuple, because reading a large set makes a million of them.
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
        seq: The line of the change log up to which it knows the changes.
        sets: Numbers of the sets whose features it has.
        notes: Names of the notes that it is going to read.
    """

    seq: int = 0
    sets: Container[int] = ()
    notes: Sequence[str] = ()


class SearchView(NamedTuple):
    """The first reads of a search, of one moment; unread parts are empty, or None.

    Attributes:
        seq: See `Finder.seq`.
        sets: The requested sets that exist.
        since: The line after which *changes* begin.
        changes: The result of `Finder.changes`, up to *seq*.
        changed_features: Live features named by *changes*, by row, if they are of *sets*.
        features: All live features of some of *sets*, by number, in order of rows.
        notes: Some notes by name.
        epoch: Changes when a server crashed or restarted: earlier reads may be lost, and numbers of
            lines, commits, rows and sets may have another meaning.
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
    """A set that is too large for a caller's RAM, so that its store chooses candidates.

    Attributes:
        documents: Live items.
        passages: Passages of their texts, as `tokens`.
        counts: The number of live items that contain each requested term.
        speakers: The speakers in it.
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
        vector: Its meaning, with a length of one; empty: words only.
        speaker: A speaker whose items are looked for separately. None means no speaker.
        role: The same for a role.
        where: Only items that match it, and the best of all by words.
        vectors: How many are chosen by meaning.
        texts: Roughly how many are chosen by words.
        scan: Choose by *where* alone: it leaves so few that each can be looked up.
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
        """Return the number of the last line of the change log; 0: none yet. Cheap."""
        ...

    def sync(self) -> None:
        """Make all commits until now survive loss of power, whatever the durability.

        For a caller that writes data derived from them to a disk.
        """
        ...

    def seq_and_sets(self, sets: Sequence[SetRef] | Scope) -> tuple[int, list[SetInfo]]:
        """Return `seq`, and those *sets* (or sets of a scope, by name) that exist. Cheap.

        Both are of one moment.
        """
        ...

    def search_view(self, sets: Sequence[SetRef] | Scope, cached: SearchCache) -> SearchView:
        """Return the result of `seq_and_sets`, with the reads that a search is likely to need next.

        A remote store reads all of it in one round trip.
        """
        ...

    # If a set is too large for a searcher's RAM, a store may choose candidates itself.

    @property
    def large_items(self) -> int | None:
        """The number of live items from which `large_set` is to be called. None means never."""
        ...

    def large_set(
        self, set_number: int, terms: Sequence[int], *, dimensions: int
    ) -> LargeSet | None:
        """Return the figures of a large set that a search needs, or None to read its features.

        Args:
            dimensions: Dimensions of the embedder.
        """
        ...

    def candidates(
        self, set_number: int, wanted: CandidateQuery, *, dimensions: int
    ) -> list[Feature]:
        """Return features of live items of a large set that may be among the best, by row."""
        ...

    def neighbours(self, set_number: int, rows: Sequence[int]) -> list[list[int]]:
        """Return live items around each of *rows*, of a large set, that has a session.

        Up to two before it in its session, itself, and up to two after it, by (time, first).
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

    def items_by_row(self, rows: Sequence[int]) -> list[StoredItem]:
        """Return the versions of the rows that exist, in the order asked."""
        ...

    def expired_or_invalid_rows(
        self, set_number: int, *, now: int, valid_at: int | None, at: int | None = None
    ) -> list[int]:
        """Return rows of live items that have expired by *now*, or are not valid at *valid_at*.

        As of after commit *at* if given. An item is valid from `valid_from` on, up to but not at
        `valid_to`. None means always.
        """
        ...

    def access_times(self, set_number: int) -> list[tuple[int, int]]:
        """Return (row, time of the last read) of the live items of a set that were ever read.

        The time of the call is proportional to the set. It may lag, as `Ledger.touch` says.
        """
        ...

    def pending_vectors(
        self, *, limit: int, set_numbers: Sequence[int] | None = None
    ) -> list[PendingVectors]:
        """Return versions that wait for their vectors, live ones and earlier ones first."""
        ...

    def count_pending(self) -> int:
        """Return how many versions wait for their vectors."""
        ...

    def store_vectors(
        self, vectors: Sequence[tuple[int, int, bytes]], *, expects: Sequence[tuple[str, str]] = ()
    ) -> None:
        """Fill in vectors, as (set number, row, vectors). Makes no commit.

        A row that does not exist, or has vectors already, is skipped.

        Raises:
            EmbedderConflict: A note has another text than expected; nothing was filled in.
        """
        ...

    # A space changes its embedder in two steps: vectors of the new one are staged beside the
    # old ones, which search still reads, and then replace them all at once.

    def versions_to_stage(self, set_numbers: Sequence[int], *, limit: int) -> list[PendingVectors]:
        """Return versions of sets that have no staged vectors yet, live ones first.

        Only versions that have meaning: with vectors, a text that is not blank, or a caption.
        """
        ...

    def stage_vectors(self, vectors: Sequence[tuple[int, int, bytes]]) -> None:
        """Keep vectors beside the current ones, as (set number, row, vectors)."""
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
        """Replace the vectors of sets by the staged ones, and change notes.

        Notes are (name, expected text, new text). Atomic. A version of these sets without staged
        vectors waits for the embedder from then on. Returns False, and changes nothing, if a note
        does not have the expected text. Staged vectors are deleted.

        Args:
            scopes: Knowledge, and spaces, each by any key: all their sets are included, also sets
                that were made since the numbers were read.
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
"""Errors that our mistakes raise, and also rows that differ from what was written."""


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
    """Make a method raise `StoreDamaged` for any error that a damaged file causes.

    Over a sound file another error is a fault of ours, and is raised as it is.
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
