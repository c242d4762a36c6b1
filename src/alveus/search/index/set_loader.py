"""Loads sets from the store, or from a sealed file and later changes; writes sealed files."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from alveus.errors import StoreBusy, StoreFull, StoreReadOnly
from alveus.search.index.arrays import (
    BY_DOC,
    BY_PASSAGE,
    BY_ROW,
    Codes,
    Names,
    Position,
    SpillFolder,
    coded,
    described,
    link,
)
from alveus.search.index.segment import (
    BLOCK_BYTES,
    Damaged,
    Identity,
    Segment,
    SegmentWriter,
    TextList,
)
from alveus.search.index.set_index import SetIndex
from alveus.search.index.vectors import BLOCK, Bits, words
from alveus.store import ChangeKind, Feature, FeatureChange, Finder
from alveus.store.files import give_to_owner

FETCHED = 5_000
"""Features read at a time."""


class Outdated(Exception):
    """The changes cannot be applied to the loaded set; it must be loaded anew."""


def apply(
    changes: Iterable[FeatureChange],
    index: SetIndex,
    finder: Finder,
    number: int,
    features_by_row: Mapping[int, Feature] = MappingProxyType({}),
) -> None:
    """Apply *changes* of set *number* to *index*; applying a change twice has no effect.

    Args:
        features_by_row: Changed features that were read already. Others are read from the store.

    Raises:
        Outdated: A new row is below an existing one, or vectors were replaced. Some of the changes
            may be applied.
    """
    rows: dict[ChangeKind, set[int]] = {"added": set(), "ended": set(), "embedded": set()}
    for change in changes:
        rows["ended" if change.kind == "removed" else change.kind].add(change.row)
    added, ended = rows["added"], rows["ended"]
    new = {row for row in added - ended if not index.has_row(row)}
    for features in _features(new, finder, number, features_by_row):
        live = sorted(
            (f for f in features if f.end_commit is None), key=lambda feature: feature.row
        )
        if live and index.size and live[0].row < int(index.row[-1]):
            raise Outdated
        index.extend(live)
    embedded = {row for row in rows["embedded"] - ended - new if index.find(row) is not None}
    for features in _features(embedded, finder, number, features_by_row):
        for feature in features:
            if not index.embedded(feature):
                raise Outdated
    for row in ended:
        index.end(row)


def _features(
    rows: Collection[int], finder: Finder, number: int, known: Mapping[int, Feature]
) -> Generator[list[Feature]]:
    if all(row in known for row in rows):
        yield [known[row] for row in rows]
        return
    ordered = sorted(rows)
    for start in range(0, len(ordered), FETCHED):
        yield finder.features_of(number, ordered[start : start + FETCHED])


logger = logging.getLogger(__name__)

ITEM_BYTES = 600
"""RAM that an item takes in a set without a file, roughly."""

LARGE = 5_000
"""Least live items of a set that is sealed. With 5,000 items the first search of a process then
takes 5 ms instead of 30, and writing the file 60 ms. With 10,000 items the search takes 6 ms
instead of 45, and writing the file 120 ms."""

WORN = 0.02
"""If a larger share of a sealed set has changed, it is sealed again in the background."""

OVERGROWN = 0.25
"""If a larger share of a sealed set has changed, it is sealed again at once."""

WITNESSES = 16
"""Lines of the change log that a sealed file repeats, to prove that the store has the same log."""


_UNSEALED = (OSError, Damaged, Outdated, StoreBusy, StoreFull, StoreReadOnly)
"""Errors after which a set stays in RAM: its file, or the store, cannot be written now."""


class SealedSets:
    """Loads sets, and writes, reads and removes the sealed files of one folder.

    Args:
        folder: The folder of sealed files. None means that no file has a name.
        writable: Whether files may be written and removed. If not, they are only read.
        budget_bytes: If a set that may have no named file takes more RAM, it is sealed in a
            nameless file of this process. None means that no set is.
    """

    def __init__(
        self,
        finder: Finder,
        *,
        folder: Path | None,
        salt: bytes,
        writable: bool = True,
        budget_bytes: int | None = 256 << 20,
    ) -> None:
        self._finder = finder
        self._most_in_ram = (
            sys.maxsize if budget_bytes is None else max(LARGE, budget_bytes // ITEM_BYTES)
        )
        self._nameless: dict[int, Segment] = {}
        self._folder, self._writable = folder, writable
        self._unusable: set[int] = set()
        self._store = blake2b(salt, digest_size=16, person=b"alveus index").digest()

    def load(self, number: int, *, dimensions: int, afresh: bool = False) -> SetIndex:
        """Return a set as the store has it now, or a little later.

        Args:
            afresh: Ignore the existing file of the set.
        """
        if self._folder is not None and not afresh and number not in self._unusable:
            index = self._reopened(number, dimensions)
            if index is not None:
                self._nameless.pop(number, None)  # another process made one with a name
                return index
        if self._folder is None or not self._writable:
            return self._without_file(number, dimensions, afresh=afresh)
        source = self._finder.features(number)
        index = SetIndex.build(islice(source, LARGE), dimensions=dimensions)
        if index.size < LARGE:
            if afresh:
                self.discard(number)  # the set shrank: its file would never be of use again
            return index
        return self._sealed_or_in_ram(number, index, source)

    def _without_file(self, number: int, dimensions: int, *, afresh: bool) -> SetIndex:
        """Return a set that may have no named file."""
        segment = self._nameless.pop(number, None)
        if segment is not None and not afresh:
            with suppress(Damaged, Outdated):
                self._refuse_removed(segment.identity.seq, number)
                index = self._replayed(segment, number, dimensions)
                self._nameless[number] = segment
                return index
        source = self._finder.features(number)
        index = SetIndex.build(islice(source, self._most_in_ram), dimensions=dimensions)
        if index.size < self._most_in_ram:
            return index
        return self._sealed_or_in_ram(number, index, source)

    def _sealed_or_in_ram(
        self, number: int, index: SetIndex, source: Iterable[Feature]
    ) -> SetIndex:
        """Return a large set from a new file; if that fails, *index* with the rest of *source*."""
        try:
            return self._sealed(number, index.dimensions)
        except _UNSEALED as problem:
            logger.warning("a large set could not be sealed and stays in RAM: %s", problem)
            index.take(source)
            return index

    def _reopened(self, number: int, dimensions: int) -> SetIndex | None:
        """Return the set from its file and the change log, or None if there is no usable file.

        A file that cannot be used is removed.
        """
        try:
            return self._replayed(Segment(self._path(number)), number, dimensions)
        except FileNotFoundError:
            return None
        except (OSError, Damaged, Outdated) as problem:
            logger.info("a sealed index file is not used: %s", problem)
            self.discard(number)
            return None

    def _sealed(self, number: int, dimensions: int) -> SetIndex:
        """Write the set as it is now to a sealed file, and open that."""
        named = self._folder is not None and self._writable
        path = self._path(number) if named else None
        if path is not None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            give_to_owner(path.parent, path.parent.parent)
        seq = self._finder.seq()
        identity = Identity(self._store, number, dimensions, seq)
        witnesses = self._witnesses(seq)

        def check() -> None:
            self._refuse_removed(seq, number)
            if named:  # else the file could be of commits that a loss of power takes
                self._finder.sync()

        features = self._finder.features(number)
        segment = seal(path, features, identity, check=check, witnesses=witnesses)
        if named:
            self._unusable.discard(number)
        index = self._replayed(segment, number, dimensions)
        if not named:
            self._nameless[number] = segment
        return index

    def _replayed(self, segment: Segment, number: int, dimensions: int) -> SetIndex:
        """Return the set in a sealed file, with later changes applied.

        Raises:
            Damaged: The file is damaged, or of another set, store, embedder or version.
            Outdated: A later change cannot be applied.
        """
        found, figures = segment.identity, segment.figures
        wanted = Identity(self._store, number, dimensions, found.seq)
        if found != wanted or figures["code_block"] != BLOCK:
            raise Damaged(segment.path, "it is of another set, store, embedder or version")
        index = SetIndex(dimensions=dimensions, sealed=segment)
        if figures["witnesses"] != self._witnesses(found.seq) or not self._same(index, number):
            raise Damaged(segment.path, "it was made from another change log than the store's")
        segment.check_again()
        for changes in self._since(found.seq, number):
            apply(changes, index, self._finder, number)
        return index

    def _witnesses(self, seq: int) -> list[list[object]]:
        """Return the last lines of the change log up to *seq*."""
        lines = self._finder.changes(max(0, seq - WITNESSES), limit=WITNESSES)
        return [[c.seq, c.set_number, c.row, c.kind] for c in lines or () if c.seq <= seq]

    def _same(self, index: SetIndex, number: int) -> bool:
        """Return whether the last rows are the same in the store, where it still has them."""
        last = range(max(0, index.size - 4), index.size)
        rows = {int(index.row[doc]): doc for doc in last}
        return all(
            (f.id, f.time) == (index.id(rows[f.row]), int(index.time[rows[f.row]]))
            for f in self._finder.features_of(number, list(rows))
        )

    def _refuse_removed(self, seq: int, number: int) -> None:
        """Raise `Outdated` if items were forgotten after *seq*."""
        for changes in self._since(seq, number):
            if any(change.kind == "removed" for change in changes):
                raise Outdated

    def _since(self, seq: int, number: int) -> Generator[list[FeatureChange]]:
        """Yield the changes of a set after *seq*, in parts."""
        while changes := self._finder.changes(seq):
            yield [change for change in changes if change.set_number == number]
            seq = changes[-1].seq
        if changes is None:
            raise Damaged(Path(f"{number}.seg"), "the change log no longer goes back that far")

    def should_have_file(self, number: int, index: SetIndex | None) -> bool:
        """Return whether a set is large and has no named file."""
        if index is None or self._folder is None or index.live < LARGE:
            return False
        return not index.sealed or number in self._nameless

    def change_share(self, index: SetIndex) -> float:
        """Return the share of the set that differs from its file.

        Without a file it is 1.0 for a set that should have one, and 0.0 for any other set.
        """
        if not index.sealed:
            may_be = self._folder is not None and self._writable
            return 1.0 if may_be and index.live >= LARGE else 0.0
        return (index.size - index.sealed + index.size - index.live) / index.sealed

    def drop_nameless(self, number: int) -> bool:
        """Drop the nameless file of a set; return whether it had one."""
        return self._nameless.pop(number, None) is not None

    def discard(self, number: int) -> None:
        """Remove the file of a set. If that is impossible, never use the file again."""
        if self.drop_nameless(number) and number in self._unusable:
            return  # the named file was dropped before
        if not self._writable:
            self._unusable.add(number)
            return
        try:
            if self._folder is not None:
                self._path(number).unlink(missing_ok=True)
        except OSError as error:
            logger.warning("a sealed index file cannot be removed: %s", error)
            self._unusable.add(number)

    def files(self) -> dict[int, int]:
        """Return the size of each named file by its set; empty if the folder cannot be read."""
        found: dict[int, int] = {}
        if self._folder is None:
            return found
        with suppress(FileNotFoundError, PermissionError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(".seg"):
                    with suppress(FileNotFoundError):  # another process just removed it
                        found[int(entry.name.removesuffix(".seg"))] = entry.stat().st_size
        return found

    def numbers(self) -> set[int]:
        """Return the sets that have a file, named or nameless."""
        return {*self.files(), *self._nameless}

    def leave(self) -> None:
        """Remove the nameless files."""
        self._nameless.clear()

    def spill_folder(self) -> SpillFolder:
        """Return the folder for parts of sets that do not fit into RAM."""
        folder = self._folder
        return SpillFolder(folder if folder and self._writable and folder.is_dir() else None)

    def _path(self, number: int) -> Path:
        return cast("Path", self._folder) / f"{number}.seg"


CHUNK = 16_384
"""Features added at a time."""

REMEMBERED = 100_000
"""After this many distinct metadata texts, a text may be written a second time."""

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
    """Write *features*, all of them live, to a sealed file at *path*, and open the file.

    Args:
        path: None means a nameless file, which is deleted with the segment.
        check: Called before the written file becomes visible. If it raises, no file remains.
        figures: Further figures of the set, to be stored in the file.

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
    """Columns and terms of the features taken so far. Rows of vectors are yielded, not kept."""

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
        """Add features; yield the rows of their vectors."""
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
        """Write everything but the rows of vectors. Return the figures of the set."""
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
    """Entries of postings: spilled to nameless files, then sorted, part by part."""

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
        """Add entries."""
        keys = hashes.astype(np.uint64) << np.uint64(DOC_BITS + COUNT_BITS)
        keys |= docs.astype(np.uint64) << np.uint64(COUNT_BITS)
        keys |= counts
        part = (hashes >> np.uint32(32 - PART_BITS)).astype(np.uint8)
        keys = keys[np.argsort(part, kind="stable")]
        ends = np.bincount(part, minlength=len(self._parts)).cumsum()
        for file, some in zip(self._parts, np.split(keys, ends[:-1]), strict=True):
            file.write(memoryview(some))

    def write(self, writer: SegmentWriter) -> None:
        """Write all entries, sorted by term."""
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
