"""Postings: which documents hold a term, and how often."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alveus.search.index.arrays import Growable
from alveus.search.index.segment import Segment
from alveus.values.lazy_dataclass import dataclass

FLAT = 16_384
"""Entries that are scanned faster than they are found by a search for their term."""

PATIENCE = 16
"""Scans of a tail that cost as much as grouping it."""

Postings = tuple[NDArray[np.int32], NDArray[np.uint8]]


@dataclass(frozen=True, slots=True)
class PostingList:
    """Entries grouped by term: those of ``hashes[i]`` are at ``offsets[i] : offsets[i + 1]``.

    Attributes:
        hashes: Rising.
        sealed: The file that holds *docs* and *counts*, which are checked before they are read.
    """

    hashes: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    docs: NDArray[np.int32]
    counts: NDArray[np.uint8]
    sealed: Segment | None = None

    @classmethod
    def of(cls, sealed: Segment) -> PostingList:
        """Return the entries of a file."""
        hashes, offsets = sealed.copy("term.hashes"), sealed.copy("term.offsets")
        docs, counts = sealed.array("term.docs"), sealed.array("term.counts")
        return cls(hashes, offsets, docs, counts, sealed)

    def find(self, term: int) -> Postings | None:
        """Return the documents of *term*, rising, and its counts; None: nobody holds it."""
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
    """Return entries, which are in order of documents, as a run."""
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
    """The postings of a set: runs, and a tail that is scanned until it pays to group it.

    Args:
        sealed: A file with a run of them, which is read when postings are first asked for.
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
        """Take entries of documents that come after all others, in their order."""
        self._hashes.extend(hashes)
        self._docs.extend(docs)
        self._counts.extend(counts)

    def find(self, term: int) -> Postings:
        """Return the documents that hold *term*, rising, ended ones included, and its counts."""
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
        """Return every entry, grouped; None where some are in a file."""
        if self._segment:
            return None
        if self._hashes.size or not self._grouped:
            self._merge()
        return self._grouped

    def _group(self) -> None:
        """Group the tail once it was scanned so often that grouping it would have cost less."""
        self._scans += 1
        own = self._grouped
        if self._scans < PATIENCE or (own and len(own.docs) > 4 * self._hashes.size):
            return
        self._merge()

    def _merge(self) -> None:
        own = self._grouped
        parts = [(self._hashes.view, self._docs.view, self._counts.view)]
        if own:
            parts.insert(0, (own.hashes.repeat(np.diff(own.offsets)), own.docs, own.counts))
        hashes, docs, counts = (np.concatenate(part) for part in zip(*parts, strict=True))
        merged, tail = grouped(hashes, docs, counts), _no_entries()
        # In one statement, which nothing interrupts: else entries would count twice.
        self._grouped, (self._hashes, self._docs, self._counts), self._scans = merged, tail, 0

    @property
    def nbytes(self) -> int:
        """Bytes of RAM it takes; what is mapped from a file is not counted."""
        tail = self._hashes.nbytes + self._docs.nbytes + self._counts.nbytes
        own = self._grouped
        if own is None:
            return tail
        return tail + own.hashes.nbytes + own.offsets.nbytes + own.docs.nbytes + own.counts.nbytes
