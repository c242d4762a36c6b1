"""Features as arrays: what a set in RAM and a segment file are both made of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from alveus.search.index.arrays import Codes, Columns, Texts
from alveus.search.index.segment import TextList
from alveus.store import Feature
from alveus.values.lazy_dataclass import dataclass
from alveus.values.words import FIRST_TERM, PASSAGE

NONE = -1
"""No name, or no neighbour."""

EXACT_F32 = 2**24
"""Whole numbers up to here are exact in float32, and so is every sum of them that stays here."""

BY_DOC: dict[str, DTypeLike] = {
    "alive": np.bool_,
    "row": np.int64,
    "first": np.int64,
    "time": np.int64,
    "importance": np.float64,
    "length": np.int32,
    "temporal": np.uint8,
    "speaker": np.int32,
    "session": np.int32,
    "role": np.int32,
    "meta": np.int32,
    "passage": np.int32,
    "previous": np.int32,
    "next": np.int32,
    "start": np.int32,
    "windows": np.int32,
    "pending": np.bool_,
}
"""Columns with an entry per document."""

_AS_THEY_ARE = ("row", "first", "time", "importance", "temporal")
"""Columns that hold a field of a `Feature` unchanged."""

BY_ROW: dict[str, DTypeLike] = {"owner": np.int32, "norm": np.float64}
"""Columns with an entry per row, of which a document has one per window."""

BY_PASSAGE: dict[str, DTypeLike] = {"document": np.int32, "words": np.int32}
"""Columns with an entry per passage: whose it is, and its tokens. Every document has one or more,
and the column ``passage`` tells the first."""


@dataclass(frozen=True, slots=True)
class Names:
    """The codes that stand for names in columns, and for metadata texts."""

    speakers: Codes
    sessions: Codes
    roles: Codes
    meta: Callable[[Sequence[str]], NDArray[np.int32]]


def coded(
    texts: Sequence[str], codes: dict[str, int], vocabulary: Texts | TextList
) -> NDArray[np.int32]:
    """Return the codes of *texts*; those without one are added to *codes* and to *vocabulary*."""
    new = [text for text in dict.fromkeys(texts) if text not in codes]
    codes.update(zip(new, range(len(vocabulary), len(vocabulary) + len(new)), strict=True))
    vocabulary.extend(new)
    return np.array([codes[text] for text in texts], np.int32)


@dataclass(frozen=True, slots=True)
class Described:
    """Features as arrays.

    Attributes:
        by_doc: As `BY_DOC`; without links yet.
        by_row: As `BY_ROW`.
        by_passage: As `BY_PASSAGE`.
        terms: Hashes, passages and counts, in order of passages.
    """

    by_doc: dict[str, NDArray[Any]]
    by_row: dict[str, NDArray[Any]]
    by_passage: dict[str, NDArray[Any]]
    rows: NDArray[np.int8]
    terms: tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.uint8]]


class Position(NamedTuple):
    """Where the next document, its first row and its first passage go."""

    doc: int = 0
    row: int = 0
    passage: int = 0


def described(
    features: Sequence[Feature], names: Names, *, dimensions: int, at: Position
) -> Described:
    """Return *features* as arrays, to be put in their places from *at* on."""
    number = len(features)
    values = zip(*features, strict=True)
    of: dict[str, tuple[Any, ...]] = dict(zip(Feature._fields, values, strict=True))
    packed, windows, pending = _usable(of["vectors"], dimensions)
    none = np.full(number, NONE, np.int32)
    docs = np.arange(at.doc, at.doc + number, dtype=np.int32)
    length = np.array(of["tokens"], np.int32)
    passage, by_passage, terms = _passages(of["terms"], length, at)
    by_doc: dict[str, NDArray[Any]] = {
        "alive": np.ones(number, np.bool_),
        **{name: np.array(of[name], BY_DOC[name]) for name in _AS_THEY_ARE},
        "length": length,
        "speaker": names.speakers.use(of["speaker"]),
        "session": names.sessions.use(of["session"]),
        "role": names.roles.use(of["role"]),
        "meta": names.meta(of["metadata"]),
        "passage": passage,
        "previous": none,
        "next": none.copy(),
        "start": at.row + windows.cumsum(dtype=np.int32) - windows,
        "windows": windows,
        "pending": pending,
    }
    rows = np.frombuffer(packed, np.int8).reshape(int(windows.sum()), dimensions)
    by_row: dict[str, NDArray[Any]] = {"owner": docs.repeat(windows), "norm": norms(rows)}
    return Described(by_doc, by_row, by_passage, rows, terms)


def _usable(
    vectors: Sequence[bytes | None], dimensions: int
) -> tuple[bytes, NDArray[np.int32], NDArray[np.bool_]]:
    """Return vectors in one piece, how many rows each document has, and which are pending.

    Vectors of another width are of another embedder, and as good as none yet.
    """
    width = dimensions or sys.maxsize
    sizes = np.array([-1 if v is None else len(v) for v in vectors], np.int64)
    windows = (sizes // width).astype(np.int32)
    pending = sizes % width != 0
    if not pending.any():
        return b"".join(cast("Sequence[bytes]", vectors)), windows, pending
    windows[pending] = 0
    known = zip(vectors, pending.tolist(), strict=True)
    return b"".join([v for v, waits in known if v and not waits]), windows, pending


_Terms = tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.uint8]]


def _passages(
    packed: Sequence[bytes], length: NDArray[np.int32], at: Position
) -> tuple[NDArray[np.int32], dict[str, NDArray[Any]], _Terms]:
    """Return the first passage of each document, the passages, and the terms of packed ones."""
    number = len(packed)
    ends = [len(p) // 5 * 4 for p in packed]
    hashes = np.frombuffer(b"".join([p[:e] for p, e in zip(packed, ends, strict=True)]), "<u4")
    counts = np.frombuffer(b"".join([p[e:] for p, e in zip(packed, ends, strict=True)]), np.uint8)
    of = np.arange(number, dtype=np.int32).repeat(np.array(ends, np.intp) // 4)
    begins = hashes == PASSAGE
    if not begins.any():
        first = np.arange(at.passage, at.passage + number, dtype=np.int32)
        document = np.arange(at.doc, at.doc + number, dtype=np.int32)
        return first, {"document": document, "words": length}, (hashes, of + first[:1], counts)
    cuts = np.bincount(of[begins], minlength=number)
    numbers = np.maximum(cuts, 1)
    first = (numbers.cumsum() - numbers).astype(np.int32)
    # The terms of a text that is not cut have nothing before them, and belong to its only passage.
    later = begins.cumsum() - (cuts.cumsum() - cuts)[of] - (cuts > 0)[of]
    passage = (first[of] + later).astype(np.int32)[~begins]
    hashes, counts = hashes[~begins], counts[~begins]
    words = length.repeat(numbers)
    of_cut = (cuts > 0).repeat(numbers)
    spoken = hashes >= FIRST_TERM
    sums = np.bincount(passage[spoken], counts[spoken], len(words)).astype(np.int32)
    words[of_cut] = sums[of_cut]
    document = np.arange(at.doc, at.doc + number, dtype=np.int32).repeat(numbers)
    by_passage = {"document": document, "words": words}
    return (
        first + np.int32(at.passage),
        by_passage,
        (hashes, passage + np.int32(at.passage), counts),
    )


def norms(rows: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the length of each row; infinite for a row of zeros, whose cosine is then 0."""
    exact = rows.shape[1] * 128**2 < EXACT_F32
    wide = rows.astype(np.float32 if exact else np.float64)
    squares = np.einsum("ij,ij->i", wide, wide).astype(np.float64)
    if not squares.all():
        squares[squares == 0] = np.inf
    return np.sqrt(squares)


# --- neighbours in a session ---


def link(
    columns: Columns | dict[str, NDArray[Any]], docs: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Fill in the links among *docs*, which are all live ones of their sessions.

    Returns:
        *docs* by session, time and first, and which are followed by one of their session.
    """
    keys = (columns["first"][docs], columns["time"][docs], columns["session"][docs])
    order = docs[np.lexsort(keys)]
    session = columns["session"][order]
    followed = np.append(session[1:] == session[:-1], False)[: len(docs)]
    before, after = order[:-1][followed[:-1]], order[1:][followed[:-1]]
    columns["next"][before] = after
    columns["previous"][after] = before
    return order, followed


class Links:
    """Keeps the columns ``previous`` and ``next``: live neighbours by (time, first) in a session.

    Appending at the end of a session and ending a document update the links at once. Any other
    change makes the links of the session outdated; they are computed when they are next read.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._last: dict[int, int] | None = None
        self._outdated: set[int] = set()
        self._all_outdated = False

    def invalidate(self) -> None:
        """Have all links computed again when they are next read."""
        self._all_outdated = True
        self._outdated.clear()
        self._last = None

    def put(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Take *pairs* of documents to be neighbours, and no others."""
        self._columns["previous"][:] = self._columns["next"][:] = NONE
        for before, after in pairs:
            self._columns["next"][before] = after
            self._columns["previous"][after] = before
        self._all_outdated = False
        self._outdated.clear()
        self._last = None

    def append(self, doc: int) -> None:
        """Take in the last document, which has no links yet."""
        columns = self._columns
        session = int(columns["session"][doc])
        if session < 0 or self._all_outdated or session in self._outdated:
            return
        lasts = self._lasts(doc)
        last = lasts.get(session, NONE)
        if last != NONE:
            time, first = columns["time"], columns["first"]
            if (time[last], first[last]) > (time[doc], first[doc]):
                self._outdated.add(session)
                return
            columns["previous"][doc] = last
            columns["next"][last] = doc
        lasts[session] = doc

    def end(self, doc: int) -> None:
        """Take a document, which is no longer alive, out of its session."""
        session = int(self._columns["session"][doc])
        if session < 0 or self._all_outdated or session in self._outdated:
            return
        previous, following = self._columns["previous"], self._columns["next"]
        lasts = self._lasts(self._columns.size)
        before, after = int(previous[doc]), int(following[doc])
        if before != NONE:
            following[before] = after
        if after != NONE:
            previous[after] = before
        elif before != NONE:
            lasts[session] = before
        else:
            lasts.pop(session, None)
        previous[doc] = following[doc] = NONE

    def rebuild(self) -> None:
        """Compute the links of outdated sessions."""
        if not self._all_outdated and not self._outdated:
            return
        columns = self._columns
        chosen = columns["session"] >= 0
        if not chosen.any():
            self._all_outdated = False
            self._outdated.clear()
            return
        if not self._all_outdated:
            outdated = np.fromiter(self._outdated, np.int32, len(self._outdated))
            chosen &= np.isin(columns["session"], outdated)
        columns["previous"][chosen] = columns["next"][chosen] = NONE
        order, followed = link(columns, np.flatnonzero(chosen & columns["alive"]).astype(np.int32))
        if self._last is not None:
            for session in self._outdated:
                self._last.pop(session, None)
            lasts = order[~followed]
            self._last.update(zip(columns["session"][lasts].tolist(), lasts.tolist(), strict=True))
        self._all_outdated = False
        self._outdated.clear()

    def _lasts(self, size: int) -> dict[int, int]:
        """Return the last of the first *size* documents in each session with current links."""
        if self._last is None:
            columns = self._columns
            session = columns["session"][:size]
            last = columns["alive"][:size] & (session >= 0) & (columns["next"][:size] == NONE)
            docs = np.flatnonzero(last)
            self._last = dict(zip(session[docs].tolist(), docs.tolist(), strict=True))
        return self._last

    @property
    def nbytes(self) -> int:
        """Bytes of RAM it takes beside its columns, roughly."""
        return 100 * len(self._last or ())
