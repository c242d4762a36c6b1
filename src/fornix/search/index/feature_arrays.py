"""Features as arrays: what a set in RAM and a segment file are both made of."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fornix.search.index.arrays import Codes
from fornix.store import Feature

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
    "previous": np.int32,
    "next": np.int32,
    "start": np.int32,
    "windows": np.int32,
    "pending": np.bool_,
}
"""Columns with an entry per document."""

BY_ROW: dict[str, DTypeLike] = {"owner": np.int32, "norm": np.float64}
"""Columns with an entry per row, of which a document has one per window."""


@dataclass(frozen=True, slots=True)
class Names:
    """The codes that stand for names in columns, and for metadata texts."""

    speakers: Codes
    sessions: Codes
    roles: Codes
    meta: Callable[[Sequence[str]], NDArray[np.int32]]


@dataclass(frozen=True, slots=True)
class Described:
    """Features as arrays.

    Attributes:
        by_doc: As `BY_DOC`; without links yet.
        by_row: As `BY_ROW`.
        terms: Hashes, documents and counts, in order of documents.
    """

    by_doc: dict[str, NDArray[Any]]
    by_row: dict[str, NDArray[Any]]
    rows: NDArray[np.int8]
    terms: tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.uint8]]


class _FeatureFields(NamedTuple):
    """The fields of a `Feature`, of many."""

    row: tuple[int, ...]
    first: tuple[int, ...]
    id: tuple[str, ...]
    begun: tuple[int, ...]
    ended: tuple[int | None, ...]
    time: tuple[int, ...]
    importance: tuple[float, ...]
    speaker: tuple[str | None, ...]
    role: tuple[str | None, ...]
    session: tuple[str | None, ...]
    metadata: tuple[str, ...]
    terms: tuple[bytes, ...]
    tokens: tuple[int, ...]
    temporal: tuple[int, ...]
    vectors: tuple[bytes | None, ...]


def described(
    features: Sequence[Feature], names: Names, *, dimensions: int, doc: int, row: int
) -> Described:
    """Return *features* as arrays; the first is document *doc*, its first vector row *row*."""
    number = len(features)
    of = _FeatureFields(*zip(*features, strict=True))
    packed, windows, pending = _usable(of.vectors, dimensions)
    none = np.full(number, NONE, np.int32)
    by_doc: dict[str, NDArray[Any]] = {
        "alive": np.ones(number, np.bool_),
        "row": np.array(of.row, np.int64),
        "first": np.array(of.first, np.int64),
        "time": np.array(of.time, np.int64),
        "importance": np.array(of.importance, np.float64),
        "length": np.array(of.tokens, np.int32),
        "temporal": np.array(of.temporal, np.uint8),
        "speaker": names.speakers.use(of.speaker),
        "session": names.sessions.use(of.session),
        "role": names.roles.use(of.role),
        "meta": names.meta(of.metadata),
        "previous": none,
        "next": none.copy(),
        "start": row + windows.cumsum(dtype=np.int32) - windows,
        "windows": windows,
        "pending": pending,
    }
    docs = np.arange(doc, doc + number, dtype=np.int32)
    rows = np.frombuffer(packed, np.int8).reshape(int(windows.sum()), dimensions)
    by_row: dict[str, NDArray[Any]] = {"owner": docs.repeat(windows), "norm": norms(rows)}
    return Described(by_doc, by_row, rows, _unpacked(docs, of.terms))


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


def _unpacked(
    docs: NDArray[np.int32], packed: Sequence[bytes]
) -> tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.uint8]]:
    """Return the hashes of packed terms, whose they are, and their counts."""
    ends = [len(p) // 5 * 4 for p in packed]
    hashes = b"".join([p[:end] for p, end in zip(packed, ends, strict=True)])
    counts = b"".join([p[end:] for p, end in zip(packed, ends, strict=True)])
    of = docs.repeat(np.array(ends, np.intp) // 4)
    return np.frombuffer(hashes, "<u4"), of, np.frombuffer(counts, np.uint8)


def norms(rows: NDArray[np.int8]) -> NDArray[np.float64]:
    """Return the length of each row; infinite for a row of zeros, whose cosine is then 0."""
    exact = rows.shape[1] * 128**2 < EXACT_F32
    wide = rows.astype(np.float32 if exact else np.float64)
    squares = np.einsum("ij,ij->i", wide, wide).astype(np.float64)
    if not squares.all():
        squares[squares == 0] = np.inf
    return np.sqrt(squares)


def linked(
    docs: NDArray[np.int32],
    session: NDArray[np.int32],
    time: NDArray[np.int64],
    first: NDArray[np.int64],
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return *docs* by session, time and first, and which are followed by one of their session.

    The arrays cover all documents; *docs* are some of them.
    """
    ordered = docs[np.lexsort((first[docs], time[docs], session[docs]))]
    of = session[ordered]
    return ordered, np.append(of[1:] == of[:-1], False)[: len(docs)]
