"""Makes a sealed file of features, a chunk at a time, without holding their vectors in RAM."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from alveus.search.index.arrays import Codes
from alveus.search.index.bit_codes import BLOCK, Bits, words
from alveus.search.index.feature_arrays import (
    BY_DOC,
    BY_PASSAGE,
    BY_ROW,
    Names,
    Position,
    coded,
    described,
    link,
)
from alveus.search.index.segment import (
    BLOCK_BYTES,
    Identity,
    Segment,
    SegmentWriter,
    TextList,
)
from alveus.store import Feature

CHUNK = 16_384
"""Features taken in at a time."""

REMEMBERED = 100_000
"""Distinct metadata texts that are recognised when they come again."""

PART_BITS, DOC_BITS, COUNT_BITS = 4, 28, 8
"""Terms are sorted in parts, by the first bits of their hashes, so that not all are in RAM at once.

The rest of a hash, its document and its count then fit into one 64-bit number.
"""


def seal(
    path: Path | None,
    features: Iterable[Feature],
    identity: Identity,
    *,
    check: Callable[[], None] = lambda: None,
    **figures: object,
) -> Segment:
    """Write *features*, all of them live, to *path*, and open that.

    Args:
        path: None: a file without a name, which goes with what is returned.
        check: Called when all is written and nobody can see it yet; if it raises, none is left.

    Raises:
        OSError: The file cannot be written.
    """
    dimensions = identity.dimensions
    block = dimensions * max(1, BLOCK_BYTES // dimensions) if dimensions else BLOCK_BYTES
    with ExitStack() as open_files:
        writer = open_files.enter_context(SegmentWriter(path))
        taken = _Taken(_Terms(path and path.parent, open_files), dimensions)
        rows = taken.take(features)
        writer.stream("rows", rows, dtype=np.dtype(np.int8), shape=(dimensions,), block=block)
        figures = {**taken.write(writer), **figures}
        check()
        return writer.finish(identity, figures)


class _Taken:
    """What is known of the features so far; their vectors' rows are passed on."""

    def __init__(self, terms: _Terms, dimensions: int) -> None:
        self._dimensions = dimensions
        self._at = Position()
        types = BY_DOC | BY_ROW | BY_PASSAGE
        columns = {name: [np.empty(0, of)] for name, of in types.items()}
        self._columns: dict[str, list[NDArray[Any]]] = columns
        self._ids, self._texts = TextList(), TextList()
        self._text_codes: dict[str, int] = {}
        self._names = Names(Codes(), Codes(), Codes(), self._meta)
        self._bits = Bits(dimensions)
        self._terms = terms

    def _meta(self, texts: Sequence[str]) -> NDArray[np.int32]:
        if len(self._text_codes) >= REMEMBERED:
            self._text_codes.clear()
        return coded(texts, self._text_codes, self._texts)

    def take(self, features: Iterable[Feature]) -> Generator[NDArray[np.int8]]:
        """Take in features; yield their vectors' rows."""
        source = iter(features)
        while chunk := list(islice(source, CHUNK)):
            new = described(chunk, self._names, dimensions=self._dimensions, at=self._at)
            for name, values in (new.by_doc | new.by_row | new.by_passage).items():
                self._columns[name].append(values)
            self._ids.extend([feature.id for feature in chunk])
            self._terms.take(*new.terms)
            self._bits.extend(new.rows)
            doc, row, passage = self._at
            passage += len(new.by_passage["document"])
            self._at = Position(doc + len(chunk), row + len(new.rows), passage)
            yield new.rows

    def write(self, writer: SegmentWriter) -> dict[str, object]:
        """Write all but the rows; return figures of the set."""
        by_doc = {name: np.concatenate(self._columns.pop(name)) for name in BY_DOC}
        link(by_doc, np.flatnonzero(by_doc["session"] >= 0).astype(np.int32))
        for name, values in by_doc.items():
            writer.add(name, values)
        by_passage = {name: np.concatenate(self._columns.pop(name)) for name in BY_PASSAGE}
        by_row = {name: np.concatenate(self._columns.pop(name)) for name in BY_ROW}
        for name, values in (by_row | by_passage).items():
            writer.add(name, values)
        shape = (words(self._dimensions), BLOCK)
        writer.stream("codes", self._bits.full_blocks(), dtype=np.dtype(np.uint64), shape=shape)
        self._ids.write(writer, "ids")
        self._texts.write(writer, "texts")
        sessions = TextList()
        sessions.extend(self._names.sessions.names)
        sessions.write(writer, "sessions")
        self._terms.write(writer)
        return {
            "size": self._at.doc,
            "rows": self._at.row,
            "passages": self._at.passage,
            "tokens": int(by_passage["words"].sum()),
            "pending": int(by_doc["pending"].sum()),
            "single": bool((by_doc["windows"] <= 1).all()),
            "in_order": bool((by_doc["windows"] == 1).all()),
            "speakers": [self._names.speakers.names, self._names.speakers.uses],
            "roles": [self._names.roles.names, self._names.roles.uses],
            "code_block": BLOCK,
        }


class _Terms:
    """Entries of postings, spilled to nameless files and then sorted, part by part."""

    def __init__(self, folder: Path | None, open_files: ExitStack) -> None:
        import tempfile  # only where a file is written: it brings five modules along

        self._parts: list[IO[bytes]] = [
            open_files.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - a context
            for _ in range(1 << PART_BITS)
        ]
        self._hashes: list[NDArray[np.uint32]] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._counts: list[NDArray[np.uint8]] = []

    def take(
        self, hashes: NDArray[np.uint32], docs: NDArray[np.int32], counts: NDArray[np.uint8]
    ) -> None:
        """Take in entries."""
        keys = hashes.astype(np.uint64) << np.uint64(DOC_BITS + COUNT_BITS)
        keys |= docs.astype(np.uint64) << np.uint64(COUNT_BITS)
        keys |= counts
        part = (hashes >> np.uint32(32 - PART_BITS)).astype(np.uint8)
        keys = keys[np.argsort(part, kind="stable")]
        ends = np.bincount(part, minlength=len(self._parts)).cumsum()
        for file, some in zip(self._parts, np.split(keys, ends[:-1]), strict=True):
            file.write(memoryview(some))

    def write(self, writer: SegmentWriter) -> None:
        """Write all entries, by term."""
        writer.stream("term.docs", self._sorted(), dtype=np.dtype(np.int32))
        writer.stream("term.counts", self._counts, dtype=np.dtype(np.uint8))
        writer.stream("term.hashes", self._hashes, dtype=np.dtype(np.uint32))
        sizes = np.concatenate([np.zeros(1, np.int64), *self._sizes])
        writer.add("term.offsets", sizes.cumsum())

    def _sorted(self) -> Generator[NDArray[np.int32]]:
        for number, file in enumerate(self._parts):
            file.seek(0)
            keys = np.frombuffer(bytearray(file.read()), np.uint64)
            keys.sort(kind="stable")  # the fastest where terms repeat, as words do
            self._counts.append((keys & np.uint64(2**COUNT_BITS - 1)).astype(np.uint8))
            hashes = (keys >> np.uint64(DOC_BITS + COUNT_BITS)).astype(np.uint32)
            hashes |= np.uint32(number << (32 - PART_BITS))
            starts = np.flatnonzero(np.diff(hashes, prepend=~hashes[:1]))
            self._hashes.append(hashes[starts])
            self._sizes.append(np.diff(starts, append=len(keys)))
            docs = keys >> np.uint64(COUNT_BITS)
            yield (docs & np.uint64(2**DOC_BITS - 1)).astype(np.int32)
