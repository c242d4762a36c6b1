"""Arrays that grow, the columns of a set, codes for names, and features as arrays.

A set in RAM and a segment file are both made of these.
"""

from __future__ import annotations

import logging
import mmap
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from alveus.search.index.segment import SealedTexts, TextList
from alveus.store import Feature
from alveus.values.lazy_dataclass import dataclass
from alveus.values.words import FIRST_TERM, PASSAGE

T = TypeVar("T", bound=np.generic)

logger = logging.getLogger(__name__)

PADDING = bytes(1 << 16)


class SpillFolder:
    """Keeps arrays in unnamed, memory-mapped files, so that the kernel can free their pages.

    A file is deleted with its array, or with the process.

    Args:
        folder: The folder of the files. None means the system's folder for temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def array(self, values: NDArray[T], room: int) -> NDArray[T]:
        """Return a writable array of *room* entries. It begins with *values*.

        Raises:
            OSError: The disk has no space for the file.
        """
        import tempfile  # only where something is spilled: it brings five modules along

        shape = (room, *values.shape[1:])
        nbytes = room * values.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        with tempfile.TemporaryFile(dir=self._folder) as file:
            file.write(np.ascontiguousarray(values).data.cast("B"))
            # Written in full: if the disk is full, a write to an unwritten part of the map kills
            # the process.
            for at in range(values.nbytes, nbytes, len(PADDING)):
                file.write(PADDING[: nbytes - at])
            file.flush()
            mapped = mmap.mmap(file.fileno(), nbytes)
        return np.frombuffer(mapped, values.dtype).reshape(shape)


class Growable(Generic[T]):
    """An array that grows in large steps, so that appending costs little on average.

    `view` is valid until the next append. Writing to the view writes to the array.
    """

    __slots__ = ("_room", "_spilled_to", "size")

    def __init__(self, initial: NDArray[T]) -> None:
        self._room = initial
        self._spilled_to: SpillFolder | None = None
        self.size: int = len(initial)

    @property
    def view(self) -> NDArray[T]:
        """The entries, without the spare room."""
        return self._room[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes of RAM of the array, with its spare room."""
        return 0 if self._spilled_to else self._room.nbytes

    def spill(self, to: SpillFolder) -> None:
        """Keep the array in a file from now on.

        Raises:
            OSError: The disk has no space for the array; it stays in RAM.
        """
        if self._room.nbytes and not self._spilled_to:
            self._room = to.array(self._room, len(self._room))
            self._spilled_to = to

    def extend(self, values: NDArray[T]) -> None:
        """Append *values*: entries, or rows. If the array is empty, writable *values* become it."""
        size = self.size + len(values)
        if not self.size and values.flags.writeable:
            self._room, self.size = values, size
            return
        if size > len(self._room):
            self._grow(size)
        self._room[self.size : size] = values
        self.size = size

    def _grow(self, size: int) -> None:
        room = max(size, self.size * 2 if self.size < 1 << 17 else self.size + (self.size >> 3), 16)
        if self._spilled_to:
            try:
                self._room = self._spilled_to.array(self.view, room)
            except OSError as problem:
                logger.warning("a column of a large set goes back to RAM: %s", problem)
                self._spilled_to = None
            else:
                return
        grown = np.empty((room, *self._room.shape[1:]), dtype=self._room.dtype)
        grown[: self.size] = self.view
        self._room = grown


class Columns:
    """Named arrays of equal length, such as one entry per document, each made at its first use.

    Args:
        fetch: Returns the array with a name from a file, writable. None means that all columns
            begin empty.
    """

    __slots__ = ("_arrays", "_fetch", "_types", "size")

    def __init__(
        self,
        types: dict[str, DTypeLike],
        *,
        size: int = 0,
        fetch: Callable[[str], NDArray[Any]] | None = None,
    ) -> None:
        self.size = size
        self._types = types
        self._arrays: dict[str, Growable[Any]] = {}
        self._fetch = fetch

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the column *name* as an array. Until the next append, writing to it is allowed."""
        return self.growable(name).view

    def growable(self, name: str) -> Growable[Any]:
        """Return the column *name*, which can grow."""
        column = self._arrays.get(name)
        if column is None:
            first = self._fetch(name) if self._fetch else np.empty(0, self._types[name])
            column = self._arrays[name] = Growable(first)
        return column

    def extend(self, number: int, values: dict[str, NDArray[Any]]) -> None:
        """Add *number* entries to each column."""
        for name in self._types:
            self.growable(name).extend(values[name])
        self.size += number

    def spill(self, to: SpillFolder) -> None:
        """Keep the columns in files from now on; see `Growable.spill`."""
        for column in self._arrays.values():
            column.spill(to)

    @property
    def nbytes(self) -> int:
        """The size in RAM, in bytes."""
        return sum(column.nbytes for column in self._arrays.values())


class Codes:
    """Numbers for names: -1 for None, else 0, 1, … in the order of first use.

    A name without uses is forgotten: its entry in `names` is then an empty text.

    Args:
        uses: How often each of *names* is used.
        sealed: Names in a file, all in use. They are read when first needed.
    """

    __slots__ = ("_codes", "_names", "_sealed", "_uncounted", "_uses")

    def __init__(
        self,
        names: Sequence[str] = (),
        uses: Sequence[int] = (),
        *,
        sealed: SealedTexts | None = None,
    ) -> None:
        self._sealed = sealed
        self._uncounted: list[NDArray[np.int32]] = []
        self._set(names, uses)

    def _set(self, names: Sequence[str], uses: Sequence[int]) -> None:
        self._names = list(names)
        self._uses = list(uses)
        self._codes: dict[str | None, int] = {None: -1}
        self._codes.update((name, code) for code, name in enumerate(names) if uses[code])

    def _ready(self) -> dict[str | None, int]:
        if self._sealed is not None:
            names, self._sealed = self._sealed.slice(0, len(self._sealed)), None
            self._set(names, [1] * len(names))
        return self._codes

    @property
    def names(self) -> list[str]:
        """The names by their codes."""
        self._ready()
        return self._names

    @property
    def uses(self) -> list[int]:
        """How often each name is used."""
        self._ready()
        uses = self._uses
        for codes in self._uncounted:
            for code, number in enumerate(np.bincount(codes[codes >= 0]).tolist()):
                uses[code] += number
        self._uncounted.clear()
        return uses

    def find(self, name: object) -> int | None:
        """Return the code of *name*; None if *name* has no uses."""
        return self._ready().get(cast("str", name))

    def use(self, names: Sequence[str | None]) -> NDArray[np.int32]:
        """Return the codes of *names*, and count one use of each."""
        known = self._ready()
        for name in dict.fromkeys(names):
            if name not in known:
                known[name] = len(self._names)
                self._names.append(cast("str", name))
                self._uses.append(0)
        codes = np.array([known[name] for name in names], np.int32)
        self._uncounted.append(codes)
        return codes

    def drop(self, code: int) -> None:
        """Count one use of *code* less. Its name is forgotten with the last use."""
        if code < 0:
            return
        uses = self.uses
        uses[code] -= 1
        if not uses[code]:
            del self._codes[self._names[code]]
            self._names[code] = ""

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM, in bytes."""
        return 200 * len(self._names)


class Texts:
    """A list of texts; its first texts may be in a file."""

    __slots__ = ("_added", "_sealed", "_sealed_size")

    def __init__(self, sealed: SealedTexts | None = None) -> None:
        self._sealed = sealed
        self._sealed_size = len(sealed) if sealed else 0
        self._added: list[str] = []

    def __len__(self) -> int:
        return self._sealed_size + len(self._added)

    def __getitem__(self, at: int) -> str:
        if self._sealed and at < self._sealed_size:
            return self._sealed.slice(at, at + 1)[0]
        return self._added[at - self._sealed_size]

    def at(self, positions: NDArray[np.integer[Any]]) -> list[str]:
        """Return the texts at the given positions."""
        added, size = self._added, self._sealed_size
        if not size:
            return list(map(added.__getitem__, positions.tolist()))
        if self._sealed and len(positions) and positions.max() < size:
            return self._sealed.at(positions)
        return [self[at] if at < size else added[at - size] for at in positions.tolist()]

    def slice(self, start: int, stop: int) -> list[str]:
        """Return the texts from *start* up to *stop*."""
        size = self._sealed_size
        added = self._added[max(0, start - size) : max(0, stop - size)]
        if self._sealed and start < size:
            return self._sealed.slice(start, min(stop, size)) + added
        return added

    def where(self, text: str) -> NDArray[np.intp]:
        """Return the positions of *text*."""
        size = self._sealed_size
        added = [at + size for at, each in enumerate(self._added) if each == text]
        positions = np.array(added, np.intp)
        return np.concatenate([self._sealed.where(text), positions]) if self._sealed else positions

    def extend(self, texts: Iterable[str]) -> None:
        """Add texts."""
        self._added.extend(texts)

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM, in bytes."""
        return 100 * len(self._added)


NONE = -1
"""The code for no name, and the position that means no neighbour."""

EXACT_F32 = 2**24
"""Whole numbers up to this number are exact in float32, and so are their sums up to it."""

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
"""Columns with an entry per row; a document has one row per window."""

BY_PASSAGE: dict[str, DTypeLike] = {"document": np.int32, "words": np.int32}
"""Columns with an entry per passage: its document and its tokens. Every document has at least one
passage. The column ``passage`` of `BY_DOC` has the first passage of each document."""


@dataclass(frozen=True, slots=True)
class Names:
    """The codes of names in columns, and a function that returns the codes of metadata texts."""

    speakers: Codes
    sessions: Codes
    roles: Codes
    meta: Callable[[Sequence[str]], NDArray[np.int32]]


def coded(
    texts: Sequence[str], codes: dict[str, int], vocabulary: Texts | TextList
) -> NDArray[np.int32]:
    """Return the codes of *texts*; new texts are added to *codes* and to *vocabulary*."""
    new = [text for text in dict.fromkeys(texts) if text not in codes]
    codes.update(zip(new, range(len(vocabulary), len(vocabulary) + len(new)), strict=True))
    vocabulary.extend(new)
    return np.array([codes[text] for text in texts], np.int32)


@dataclass(frozen=True, slots=True)
class Described:
    """Features as arrays.

    Attributes:
        by_doc: The columns of `BY_DOC`. No document is linked to its neighbours yet.
        by_row: The columns of `BY_ROW`.
        by_passage: The columns of `BY_PASSAGE`.
        terms: Term hashes, their passages and counts, in order of passages.
    """

    by_doc: dict[str, NDArray[Any]]
    by_row: dict[str, NDArray[Any]]
    by_passage: dict[str, NDArray[Any]]
    rows: NDArray[np.int8]
    terms: tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.uint8]]


class Position(NamedTuple):
    """The numbers of the next document, row and passage."""

    doc: int = 0
    row: int = 0
    passage: int = 0


def described(
    features: Sequence[Feature], names: Names, *, dimensions: int, at: Position
) -> Described:
    """Return *features* as arrays, to be appended at position *at*."""
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
    """Return all vectors joined, the number of rows per document, and which documents are pending.

    Vectors of another width come from another embedder. Their documents count as pending.
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
    """Return each document's first passage, the columns of `BY_PASSAGE`, and `Described.terms`.

    Args:
        packed: The packed terms of each document.
        length: The number of tokens of each document.
    """
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
    # The terms of an uncut text have no passage mark before them, and belong to its only passage.
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
    """Fill in the columns ``previous`` and ``next`` of *docs*.

    *docs* must be all live docs of some sessions.

    Returns:
        *docs* ordered by session, time and first row, and a mask of those that have a next doc in
        their session.
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
    """Maintains the columns ``previous`` and ``next``: live neighbours in a session by time.

    Appending at the end of a session and ending a document update the links at once. Any other
    change makes the links of the session outdated; they are computed when they are next read.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._last: dict[int, int] | None = None
        self._outdated: set[int] = set()
        self._all_outdated = False

    def invalidate(self) -> None:
        """Make the next read compute all links again."""
        self._all_outdated = True
        self._outdated.clear()
        self._last = None

    def put(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Replace all links by *pairs* of a document and the document after it."""
        self._columns["previous"][:] = self._columns["next"][:] = NONE
        for before, after in pairs:
            self._columns["next"][before] = after
            self._columns["previous"][after] = before
        self._all_outdated = False
        self._outdated.clear()
        self._last = None

    def append(self, doc: int) -> None:
        """Link *doc*, the last document, which has no links yet, to the end of its session."""
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
        """Unlink an ended document from its session."""
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
        """Return the last live document of each session whose links are current.

        If these are not known yet, they are found among the first *size* documents.
        """
        if self._last is None:
            columns = self._columns
            session = columns["session"][:size]
            last = columns["alive"][:size] & (session >= 0) & (columns["next"][:size] == NONE)
            docs = np.flatnonzero(last)
            self._last = dict(zip(session[docs].tolist(), docs.tolist(), strict=True))
        return self._last

    @property
    def nbytes(self) -> int:
        """The approximate size in RAM beside the columns, in bytes."""
        return 100 * len(self._last or ())
