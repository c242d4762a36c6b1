"""The features of one set as arrays, and the postings of its terms."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice, pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from alveus.search.index.arrays import (
    BY_DOC,
    BY_PASSAGE,
    BY_ROW,
    Codes,
    Columns,
    Growable,
    Links,
    Names,
    Position,
    SpillFolder,
    Texts,
    described,
)
from alveus.search.index.column_filters import (
    ItemValues,
    Metadata,
    ReadValues,
    Truth,
    evaluate,
    names_in,
    of_names,
    of_numbers,
)
from alveus.search.index.segment import Segment
from alveus.search.index.vectors import Docs, Quantised, Query, SetVectors
from alveus.store import Feature, LargeSet
from alveus.store.filters import Condition, Filter
from alveus.store.records import MINUTE_US
from alveus.values.lazy_dataclass import dataclass

EXACT = 2_048
"""In a set of at most this many live documents, every document is scored."""

FEW_IDS = 16
"""Most ids in a filter that are searched one by one."""

MASKS = 16
"""Most filters whose results are cached until the set changes."""

EMPTY_BYTES = 9_500
"""RAM that a set without items takes, roughly; most sets are small, and there may be many."""

CHUNK = 16_384
"""Features added at a time."""

_EMPTY: dict[str, Any] = {
    "size": 0,
    "rows": 0,
    "passages": 0,
    "tokens": 0,
    "pending": 0,
    "speakers": (),
    "roles": (),
}
"""Figures of a set without a sealed file."""


_T = TypeVar("_T", bound=np.generic)


class Column(Generic[_T]):
    """An attribute of a `SetIndex` that returns the column with the same name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, index: SetIndex, owner: type) -> NDArray[_T]:
        return index.columns[self._name]


class SetIndex:
    """The features of one set.

    A *doc* is a position, 0 … `size` - 1, in the order of rows; ended docs are holes. A set that
    was built at once gives the same results as one that grew by single changes. A doc has one
    passage, or several if its text is long. Words are searched in passages, which have the order of
    their docs. Two threads must not use a set at once; `Index.view` prevents that.

    Attributes:
        live: Number of live docs.
        live_passages: Number of passages of live docs.
        tokens: Number of tokens in live passages.
        pending: Number of live docs without vectors.
        time: Microseconds since 1970.
        length: Number of tokens of each doc.
        temporal: Number of temporal words of each doc.
        sealed: Number of docs in the sealed file, 0 without a file. They are the first docs, and
            were all live when the file was written.
        cache: Results computed from the current state, by purpose; empty after a change.
    """

    alive = Column[np.bool_]()
    row = Column[np.int64]()
    first = Column[np.int64]()
    time = Column[np.int64]()
    importance = Column[np.float64]()
    length = Column[np.int32]()
    temporal = Column[np.uint8]()
    speaker = Column[np.int32]()
    session = Column[np.int32]()
    role = Column[np.int32]()
    passage = Column[np.int32]()

    def __init__(self, *, dimensions: int, sealed: Segment | None = None) -> None:
        figures = sealed.figures if sealed else _EMPTY
        self.live: int = figures["size"]
        self.live_passages: int = figures["passages"]
        self.tokens: int = figures["tokens"]
        self.pending: int = figures["pending"]
        self.sealed = self.live
        self.spilled = False
        fetch = sealed.copy if sealed else None
        self.columns = Columns(BY_DOC, size=self.live, fetch=fetch)
        self._ids = Texts(sealed and sealed.texts("ids"))
        self._metadata = Metadata(Texts(sealed and sealed.texts("texts")))
        self._values = ItemValues()
        self._names = Names(
            Codes(*figures["speakers"]),
            Codes(sealed=sealed and sealed.texts("sessions")),
            Codes(*figures["roles"]),
            self._metadata.use,
        )
        self._terms = SetPostings(sealed=sealed)
        by_row = Columns(BY_ROW, size=figures["rows"], fetch=fetch)
        self._passages = Columns(BY_PASSAGE, size=self.live_passages, fetch=fetch)
        self._vectors = SetVectors(dimensions, self.columns, by_row, sealed=sealed)
        self._links = Links(self.columns)
        self.cache: dict[Hashable, Any] = {}
        self._whole: LargeSet | None = None

    @classmethod
    def build(cls, features: Iterable[Feature], *, dimensions: int) -> SetIndex:
        """Return the index of *features*, which must come in the order of rows. All count as live.

        Args:
            dimensions: Numbers in a vector of the embedder. A doc whose vectors have another width
                is pending.
        """
        index = cls(dimensions=dimensions)
        index.take(features)
        return index

    @property
    def size(self) -> int:
        """Number of docs, with ended docs."""
        return self.columns.size

    @property
    def dimensions(self) -> int:
        """Numbers in a vector."""
        return self._vectors.dimensions

    @property
    def exact(self) -> bool:
        """Whether every doc is scored: the set is small, or a part of a large set."""
        return self.live <= EXACT or self.is_part

    @property
    def is_part(self) -> bool:
        """Whether the index contains a part of a large set, with the figures of the whole set."""
        return self._whole is not None

    def stand_for(self, whole: LargeSet, windows: Sequence[Sequence[int]]) -> None:
        """Take figures and neighbours from a large set, because the index has only a part of it.

        Args:
            whole: The figures of the large set.
            windows: Rows that follow each other in their session. No other docs are neighbours.
        """
        self._whole = whole
        self.live, self.live_passages, self.tokens = whole.documents, whole.passages, whole.tokens
        known = {int(row): doc for doc, row in enumerate(self.row)}
        pairs = {pair for window in windows for pair in pairwise(window)}
        self._links.put([(known[a], known[b]) for a, b in pairs if a in known and b in known])
        self.cache.clear()

    @property
    def speakers(self) -> list[str]:
        """The names of speakers by code. A name that no live doc has is an empty text."""
        return self._names.speakers.names

    @property
    def roles(self) -> list[str]:
        """The names of roles by code. A name that no live doc has is an empty text."""
        return self._names.roles.names

    @property
    def previous(self) -> NDArray[np.int32]:
        """For each doc the live doc before it in its session, by (time, first); -1 if none."""
        self._links.rebuild()
        return self.columns["previous"]

    @property
    def next(self) -> NDArray[np.int32]:
        """For each doc the live doc after it in its session, by (time, first); -1 if none."""
        self._links.rebuild()
        return self.columns["next"]

    @property
    def linked(self) -> bool:
        """Whether any doc has a neighbour."""
        linked = self.cache.get("linked")
        if linked is None:
            linked = self.cache["linked"] = bool((self.previous >= 0).any())
        return linked

    def id(self, doc: int) -> str:
        """Return the id of the item of *doc*."""
        return self._ids[doc]

    def ids(self, docs: NDArray[np.integer[Any]]) -> list[str]:
        """Return the ids of the items of *docs*."""
        return self._ids.at(docs)

    @property
    def passages(self) -> int:
        """Number of passages, with those of ended docs."""
        return self._passages.size

    @property
    def passage_words(self) -> NDArray[np.int32]:
        """Number of tokens of each passage."""
        return self._passages["words"]

    @property
    def uncut(self) -> bool:
        """Whether each doc has one passage, so that docs and passages have the same numbers."""
        return self.passages == self.size

    def documents(self, passages: Docs) -> Docs:
        """Return the doc of each passage."""
        return passages if self.uncut else self._passages["document"][passages]

    def passages_of(self, docs: NDArray[np.integer[Any]]) -> tuple[Docs, NDArray[np.intp]]:
        """Return all passages of ascending *docs*, and the position of each doc's first one."""
        starts = np.append(self.passage, np.int32(self.passages))
        numbers = starts[docs + 1] - starts[docs]
        firsts = (numbers.cumsum() - numbers).astype(np.intp)
        shifts = (starts[docs] - firsts).repeat(numbers)
        return (shifts + np.arange(len(shifts))).astype(np.int32), firsts

    def frequency(self, term: int) -> int:
        """Return the number of live docs that contain a term."""
        return self.holding(term, self.postings(term)[0])

    def holding(self, term: int, passages: Docs) -> int:
        """Return the number of live docs that contain a term, given its sorted *passages*."""
        if self._whole is not None and term in self._whole.counts:
            return self._whole.counts[term]
        if self.uncut or not len(passages):
            return len(passages)
        docs = self.documents(passages)
        return 1 + int(np.count_nonzero(docs[1:] != docs[:-1]))

    def holders(self, term: int) -> Docs:
        """Return the live docs that contain a term or have a mark, sorted by number."""
        docs = self.documents(self.postings(term)[0])
        return docs if self.uncut else docs[np.diff(docs, prepend=-1) != 0]

    def postings(self, term: int) -> Postings:
        """Return the sorted passages of live docs that contain *term*, and its count in each."""
        passages, counts = self._terms.find(term)
        if self.live == self.size:
            return passages, counts
        alive = self.alive[self.documents(passages)]
        return passages[alive], counts[alive]

    def run(self) -> PostingList | None:
        """Return the postings of every term in live docs. Return None if some are in a file."""
        run = self._terms.all()
        if run is None or self.live == self.size:
            return run
        alive = self.alive[self.documents(run.docs)]
        before = np.append(0, alive.cumsum())
        return PostingList(run.hashes, before[run.offsets], run.docs[alive], run.counts[alive])

    def cosines(
        self, query: Query | Quantised, docs: Docs | None = None, *, mean: float = 0.0
    ) -> NDArray[np.float64]:
        """Return the best cosine of each doc's windows with *query*, for all docs or for *docs*.

        A doc that is pending, ended, or without text has 0.0.

        Args:
            mean: Share, 0..1, that the mean of the windows' cosines has in the result. The best
                cosine has the rest.
        """
        found = self._vectors.cosines(query, docs, mean=mean)
        if self.live != self.size:
            found[~(self.alive if docs is None else self.alive[docs])] = 0.0
        return found

    def has_vectors(self, docs: NDArray[np.integer[Any]]) -> Truth:
        """Return a mask of *docs* that have vectors: docs with a text that are not pending."""
        return self.columns["windows"][docs] > 0

    def unread(self, docs: Docs | None) -> Truth:
        """Return a mask of all docs, or of *docs*, whose text the embedder does not read.

        They are neither pending nor have vectors.
        """
        windows, pending = self.columns["windows"], self.columns["pending"]
        if docs is not None:
            windows, pending = windows[docs], pending[docs]
        return (windows == 0) & ~pending

    def centres(self, docs: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Return for each doc the mean of its windows' vectors. Each doc must have vectors."""
        return self._vectors.centres(docs)

    def speakers_of(self, docs: NDArray[np.integer[Any]]) -> list[str | None]:
        """Return the speaker of each doc, None for a doc without one."""
        names = self.speakers
        return [None if code < 0 else names[code] for code in self.speaker[docs].tolist()]

    def nearest(
        self, query: Query | Quantised, limit: int, allowed: NDArray[np.bool_] | None = None
    ) -> Docs:
        """Return up to *limit* live docs whose bit codes are nearest to that of *query*.

        The docs are candidates, sorted by number; `cosines` gives their exact order. Docs that are
        not *allowed* are left out.
        """
        usable = None if self.live == self.size else self.alive
        if allowed is not None:
            usable = allowed if usable is None else allowed & usable
        return self._vectors.nearest(query, limit, usable)

    def mask(self, where: Filter, read: ReadValues) -> Truth:
        """Return a mask of the live docs that match *where*, as `Filter.matches` decides.

        The mask is cached, so the caller must not change it.

        Args:
            read: Returns the values of items by row, for conditions on values.
        """
        masks: OrderedDict[str, Truth] = self.cache.setdefault("masks", OrderedDict())
        found = masks.get(where.text)
        if found is None:
            found = masks[where.text] = self._mask(where, read)
            if len(masks) > MASKS:
                masks.popitem(last=False)
        return found

    def _mask(self, where: Filter, read: ReadValues) -> Truth:
        conditions = list(where.conditions())
        of_text = self._metadata.truth(conditions)
        meta = self.columns["meta"]
        if any(condition.is_item_field for condition in conditions):

            def leaf(condition: Condition) -> Truth:
                if condition.is_of_value:
                    return self._values.truth(condition, self.row, read)
                return (
                    self._of_item(condition)
                    if condition.is_item_field
                    else of_text(condition)[meta]
                )

            return evaluate(where.root, leaf, self.size) & self.alive
        return evaluate(where.root, of_text, len(self._metadata))[meta] & self.alive

    def share_named(
        self, fields: Sequence[str], is_named: Callable[[str], bool]
    ) -> NDArray[np.float64]:
        """Return for each doc the share of the question's names that its metadata has, 0..1.

        Args:
            fields: Fields of the metadata that contain a name or a list of names.
            is_named: Returns whether the question contains a name.
        """
        columns = [self._metadata.field((name,)) for name in fields]
        held = [[names_in(value) for value in column.values] for column in columns]
        named = {name for lists in held for names in lists for name in names if is_named(name)}
        found = np.zeros(self.size)
        for name in named:
            has_name = np.zeros(len(self._metadata), np.bool_)
            for column, lists in zip(columns, held, strict=True):
                table = np.array([*(name in names for names in lists), False])
                has_name |= table[column.codes.view]
            found += has_name[self.columns["meta"]]
        return found / len(named) if named else found

    @property
    def local_time(self) -> NDArray[np.int64]:
        """The time of each doc on the clock of its sender, as microseconds."""
        found: NDArray[np.int64] | None = self.cache.get("local time")
        if found is None:
            offsets, meta = self._metadata.offsets(), self.columns["meta"]
            found = self.time
            if offsets.any():
                found = self.cache["local time"] = found + offsets[meta] * MINUTE_US
        return found

    def _of_item(self, condition: Condition) -> Truth:
        """Return a mask of the docs whose item meets a condition on one of its fields."""
        (name,) = condition.path
        if name == "$id":
            return self._with_ids(condition)
        if name in ("$time", "$importance"):
            return of_numbers(condition, self.columns[name[1:]])
        known = self._names
        names = {"$speaker": known.speakers, "$session": known.sessions, "$role": known.roles}
        return of_names(condition, names[name], self.columns[name[1:]])

    def _with_ids(self, condition: Condition) -> Truth:
        if condition.op not in ("eq", "in") or len(condition.operands) > FEW_IDS:
            ids = self._ids.slice(0, self.size)
            return np.array([condition.accepts(text) for text in ids], np.bool_)
        found = np.zeros(self.size, np.bool_)
        for _, text in condition.operands:
            found[self._ids.where(str(text))] = True
        return found

    def embedded(self, feature: Feature) -> bool:
        """Add the vectors of *feature* to its doc, if that is pending.

        Return False if the live doc of the row then has other vectors, else True.
        """
        doc = self.find(feature.row)
        if doc is not None and self._vectors.embed(doc, feature.vectors):
            self.pending -= 1
            self.cache.clear()
        return doc is None or self._vectors.are(doc, feature.vectors)

    def end(self, row: int) -> None:
        """End the live doc of a row; the doc becomes a hole. Without a live doc, do nothing."""
        doc = self.find(row)
        if doc is None:
            return
        self.cache.clear()
        columns = self.columns
        columns["alive"][doc] = False
        self._links.end(doc)
        passages, _ = self.passages_of(np.array([doc]))
        self.live -= 1
        self.live_passages -= len(passages)
        self.tokens -= int(self.passage_words[passages].sum())
        self.pending -= int(columns["pending"][doc])
        self._names.speakers.drop(int(columns["speaker"][doc]))
        self._names.roles.drop(int(columns["role"][doc]))

    def take(self, features: Iterable[Feature]) -> None:
        """Add any number of features. Their rows must rise and be above all others."""
        source = iter(features)
        while chunk := list(islice(source, CHUNK)):
            self.extend(chunk)

    def extend(self, features: Sequence[Feature]) -> None:
        """Add features. Their rows must rise and be above all others."""
        if not features:
            return
        self.cache.clear()
        at = Position(self.size, self._vectors.size, self.passages)
        new = described(features, self._names, dimensions=self.dimensions, at=at)
        self.columns.extend(len(features), new.by_doc)
        self._ids.extend([f.id for f in features])
        self._vectors.extend(new.rows, new.by_row)
        self._passages.extend(len(new.by_passage["words"]), new.by_passage)
        self._terms.extend(*new.terms)
        if len(features) == 1:
            self._links.append(at.doc)
        else:
            self._links.invalidate()
        self.live += len(features)
        self.live_passages += len(new.by_passage["words"])
        self.tokens += int(new.by_passage["words"].sum())
        self.pending += int(new.by_doc["pending"].sum())

    def spill(self, to: SpillFolder) -> None:
        """Keep columns and vectors in files from now on, as they are and as they grow.

        Raises:
            OSError: The disk has no space for a file.
        """
        self.spilled = True
        for part in (self.columns, self._passages, self._vectors):
            part.spill(to)

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM, in bytes, without mapped files."""
        parts = (
            self.columns,
            self._passages,
            self._vectors,
            self._terms,
            self._metadata,
            self._values,
            self._ids,
            self._links,
        )
        codes = (self._names.speakers, self._names.sessions, self._names.roles)
        cached = sum(getattr(value, "nbytes", 0) for value in self.cache.values())
        cached += sum(mask.nbytes for mask in self.cache.get("masks", {}).values())
        return sum(part.nbytes for part in (*parts, *codes)) + cached + EMPTY_BYTES

    def has_row(self, row: int) -> bool:
        """Return whether the row has a doc, live or ended."""
        at = int(self.row.searchsorted(row))
        return at < self.size and int(self.row[at]) == row

    def find(self, row: int) -> int | None:
        """Return the live doc of a row, or None if it has none."""
        rows = self.row
        doc = int(rows.searchsorted(row))
        return doc if doc < len(rows) and rows[doc] == row and self.alive[doc] else None


FLAT = 16_384
"""Up to this many entries, scanning them is faster than grouping and searching them."""

SCANS = 16
"""Number of scans of a tail that cost as much as grouping it."""

Postings = tuple[NDArray[np.int32], NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class PostingList:
    """Entries grouped by term: term ``hashes[i]`` has entries ``offsets[i] : offsets[i + 1]``.

    Attributes:
        hashes: The hashes of the terms, sorted.
        docs: The passage of each entry, sorted within a term.
        counts: How often the passage contains the term.
        sealed: The file that holds *docs* and *counts*, which are checked before they are read.
    """

    hashes: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    docs: NDArray[np.int32]
    counts: NDArray[np.uint8]
    sealed: Segment | None = None

    @classmethod
    def of(cls, sealed: Segment) -> PostingList:
        """Return the entries in a sealed file."""
        hashes, offsets = sealed.copy("term.hashes"), sealed.copy("term.offsets")
        docs, counts = sealed.array("term.docs"), sealed.array("term.counts")
        return cls(hashes, offsets, docs, counts, sealed)

    def find(self, term: int) -> Postings | None:
        """Return the sorted passages that contain *term*, and its counts, or None if none do."""
        at = int(self.hashes.searchsorted(np.uint32(term)))
        if at == len(self.hashes) or self.hashes[at] != term:
            return None
        start, stop = int(self.offsets[at]), int(self.offsets[at + 1])
        if self.sealed:
            self.sealed.check_entries("term.docs", start, stop)
            self.sealed.check_entries("term.counts", start, stop)
        return self.docs[start:stop], self.counts[start:stop]


def grouped(
    hashes: NDArray[np.uint32], docs: NDArray[np.int32], counts: NDArray[np.uint8]
) -> PostingList:
    """Return entries grouped by term. They must be given in the order of their passages."""
    keys = hashes.astype(np.uint64) << np.uint64(32)
    keys |= np.arange(len(keys), dtype=np.uint64)
    keys.sort()
    order = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    hashes = hashes[order]
    starts = np.flatnonzero(np.diff(hashes, prepend=~hashes[:1]))
    offsets = np.append(starts, len(hashes)).astype(np.int64)
    return PostingList(hashes[starts], offsets, docs[order], counts[order])


def _no_entries() -> tuple[Growable[np.uint32], Growable[np.int32], Growable[np.uint8]]:
    empty = np.empty
    return Growable(empty(0, np.uint32)), Growable(empty(0, np.int32)), Growable(empty(0, np.uint8))


class SetPostings:
    """The postings of a set: grouped entries, and a tail that is scanned until grouping pays.

    Args:
        sealed: A file with grouped entries, which is read at the first search.
    """

    def __init__(self, *, sealed: Segment | None = None) -> None:
        self._segment = sealed
        self._sealed: PostingList | None = None
        self._grouped: PostingList | None = None
        self._hashes, self._docs, self._counts = _no_entries()
        self._scans = 0

    def extend(
        self, hashes: NDArray[np.uint32], docs: NDArray[np.int32], counts: NDArray[np.uint8]
    ) -> None:
        """Append entries. Their passages must be in order, and after all others."""
        self._hashes.extend(hashes)
        self._docs.extend(docs)
        self._counts.extend(counts)

    def find(self, term: int) -> Postings:
        """Return the sorted passages that contain *term*, and its count in each.

        Passages of ended docs are included.
        """
        if self._segment and not self._sealed:
            self._sealed = PostingList.of(self._segment)
        if self._hashes.size > FLAT:
            self._group()
        runs = [run for run in (self._sealed, self._grouped) if run]
        found = [hit for run in runs if (hit := run.find(term))]
        at = (self._hashes.view == np.uint32(term)).nonzero()[0]
        if len(at) or not found:
            found.append((self._docs.view[at], self._counts.view[at]))
        if len(found) == 1:
            return found[0]
        return np.concatenate([d for d, _ in found]), np.concatenate([c for _, c in found])

    def all(self) -> PostingList | None:
        """Return all entries, grouped. Return None if some are in a file."""
        if self._segment:
            return None
        if self._hashes.size or not self._grouped:
            self._merge()
        return self._grouped

    def _group(self) -> None:
        """Group the tail if it was scanned so often that grouping it would have cost less."""
        self._scans += 1
        run = self._grouped
        if self._scans < SCANS or (run and len(run.docs) > 4 * self._hashes.size):
            return
        self._merge()

    def _merge(self) -> None:
        run = self._grouped
        parts = [(self._hashes.view, self._docs.view, self._counts.view)]
        if run:
            parts.insert(0, (run.hashes.repeat(np.diff(run.offsets)), run.docs, run.counts))
        hashes, docs, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
        merged, tail = grouped(hashes, docs, counts), _no_entries()
        # In one statement, which nothing interrupts; otherwise entries could count twice.
        self._grouped, (self._hashes, self._docs, self._counts), self._scans = merged, tail, 0

    @property
    def nbytes(self) -> int:
        """The size in RAM, in bytes, without mapped files."""
        tail = self._hashes.nbytes + self._docs.nbytes + self._counts.nbytes
        run = self._grouped
        if run is None:
            return tail
        return tail + run.hashes.nbytes + run.offsets.nbytes + run.docs.nbytes + run.counts.nbytes
