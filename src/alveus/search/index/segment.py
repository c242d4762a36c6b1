"""A sealed file: named arrays, each block with its checksum; written once, mapped, never changed.

::

    header      4,096 bytes: the set, the position of the directory, a checksum of both
    sections    the arrays, one after the other
    directory   JSON: name, type, shape, offset of each section, figures of the set; checksums

A file is written under another name, synced, and renamed: it exists whole or not at all. Header and
directory are checked when it is opened, a block when it is first touched, so that opening costs
little and nothing is computed from a damaged block.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from alveus.store.files import give_to_owner, sync_folder
from alveus.values.lazy_dataclass import dataclass

FORMAT = 2
MAGIC = b"alveusIX"
HEADER = struct.Struct("<8sI16sQIQQQI")  # magic … offset, size and checksum of the directory
HEADER_BYTES = 4096
BLOCK_BYTES = 16_384
"""Bytes under one checksum; checksums then take less than a thousandth of the file."""

ALIGNMENT = 64


class Damaged(Exception):
    """A sealed file is damaged, or of another set, store or version."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        super().__init__(f"{path.name}: {problem}")


@dataclass(frozen=True, slots=True)
class Identity:
    """The set and state that a sealed file holds.

    Attributes:
        store: Digest that identifies the store.
        seq: Last line of the change log that the file includes.
    """

    store: bytes
    set_number: int
    dimensions: int
    seq: int


@dataclass(frozen=True, slots=True)
class Section:
    """The position of an array in the file. *checks* is the index of the array's first checksum."""

    name: str
    dtype: str
    shape: list[int]
    offset: int
    nbytes: int
    block: int
    checks: int


# --- writing ------------------------------------------------------------------------------------


class SegmentWriter:
    """Writes a sealed file. The end of a ``with`` block removes an unfinished file.

    Args:
        path: The path of the finished file. None means a nameless file in the folder for temporary
            files.

    Raises:
        BlockingIOError: Another process is writing the file.
        OSError: The file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file = _nameless() if path is None else _beside(path)
        self._file.write(bytes(HEADER_BYTES))
        self._at = HEADER_BYTES
        self._sections: list[Section] = []
        self._checks: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._file.closed:
            if self._path is not None:
                self._path.with_suffix(".new").unlink(missing_ok=True)
            self._file.close()

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Write a whole array."""
        self.stream(name, [array], dtype=array.dtype, shape=array.shape[1:])

    def stream(
        self,
        name: str,
        parts: Iterable[NDArray[Any]],
        *,
        dtype: np.dtype[Any],
        shape: tuple[int, ...] = (),
        block: int | None = None,
    ) -> None:
        """Write an array that comes in parts.

        Args:
            shape: Shape of one entry.
            block: Bytes under one checksum; by default `BLOCK_BYTES`.
        """
        block = block or BLOCK_BYTES
        padding = -self._at % ALIGNMENT
        self._file.write(bytes(padding))
        self._at += padding
        first, number, crc, filled = len(self._checks), 0, 0, 0
        for part in parts:
            number += len(part)
            whole = np.ascontiguousarray(part, dtype)
            left = memoryview(whole).cast("B") if part.size else memoryview(b"")
            self._file.write(left)
            while len(left):
                taken = left[: block - filled]
                crc, filled = zlib.crc32(taken, crc), filled + len(taken)
                left = left[len(taken) :]
                if filled == block:
                    self._checks.append(crc)
                    crc = filled = 0
        if filled:
            self._checks.append(crc)
        nbytes = number * int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        section = Section(name, dtype.str, [number, *shape], self._at, nbytes, block, first)
        self._sections.append(section)
        self._at += nbytes

    def finish(self, identity: Identity, figures: Mapping[str, object]) -> Segment:
        """Rename the file to its path, durably, and open it."""
        sections = [asdict(section) for section in self._sections]
        said = json.dumps({"sections": sections, "figures": dict(figures)}).encode()
        checks = np.array(self._checks, "<u4").tobytes()
        directory = struct.pack("<Q", len(said)) + said + checks
        self._file.write(directory)
        self._file.seek(0)
        self._file.write(_header(identity, self._at, directory))
        self._file.flush()
        if self._path is None:
            return Segment(Path("nameless"), self._file)
        os.fsync(self._file.fileno())
        self._path.with_suffix(".new").rename(self._path)
        self._file.close()
        sync_folder(self._path.parent)
        return Segment(self._path)


def _beside(path: Path) -> IO[bytes]:
    """Open an empty file that will become *path*, locked."""
    new = path.with_suffix(".new")
    file = os.fdopen(_locked(new), "wb", buffering=1 << 20)
    give_to_owner(new, path.parent)
    file.truncate()
    return file


def _nameless() -> IO[bytes]:
    import tempfile  # only where a file is written: it brings five modules along

    return tempfile.TemporaryFile(buffering=1 << 20)


def _header(identity: Identity, at: int, directory: bytes) -> bytes:
    header = HEADER.pack(
        MAGIC,
        FORMAT,
        identity.store,
        identity.set_number,
        identity.dimensions,
        identity.seq,
        at,
        len(directory),
        zlib.crc32(directory),
    )
    return header + struct.pack("<I", zlib.crc32(header))


def _locked(path: Path) -> int:
    """Open a file, lock it, and return its descriptor. A file that a killed process left is reused.

    The lock belongs to the descriptor, so it ends with its process. If another process renamed the
    file between the opening and the locking, this process must not write to it, and opens *path*
    again.
    """
    while True:
        number = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.fstat(number).st_ino == path.stat().st_ino:
                return number
        except BaseException:
            os.close(number)
            raise
        os.close(number)


class TextList:
    """A list of texts that will be written to a sealed file, one after the other."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._sizes: list[NDArray[np.int64]] = [np.zeros(1, np.int64)]
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def extend(self, texts: Sequence[str]) -> None:
        """Add texts."""
        encoded = [text.encode() for text in texts]
        self._bytes += b"".join(encoded)
        self._sizes.append(np.array([len(text) for text in encoded], np.int64))
        self._number += len(texts)

    def write(self, writer: SegmentWriter, name: str) -> None:
        """Write an array of the bytes of all texts, and an array of their offsets."""
        writer.add(name, np.frombuffer(self._bytes, np.uint8))
        writer.add(f"{name}.offsets", np.concatenate(self._sizes).cumsum())


# --- reading ------------------------------------------------------------------------------------


class Segment:
    """An open sealed file. Callers check the parts of arrays that they read.

    Args:
        opened: The open file, which is closed here. None means that *path* is opened.

    Raises:
        FileNotFoundError: The file does not exist.
        Damaged: The header or the directory of the file is damaged.
    """

    def __init__(self, path: Path, opened: IO[bytes] | None = None) -> None:
        self.path = path
        with opened or path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < HEADER_BYTES:
                raise Damaged(path, "it is too short")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        at, length, crc = self._read_header()
        directory = self._map[at : at + length]
        if at + length != size or zlib.crc32(directory) != crc:
            raise Damaged(path, "its directory is damaged")
        (said,) = struct.unpack_from("<Q", directory)
        known = json.loads(directory[8 : 8 + said])
        self.figures: dict[str, Any] = known["figures"]
        sections = [Section(**section) for section in known["sections"]]
        self._sections = {section.name: section for section in sections}
        self._checks = np.frombuffer(directory, "<u4", offset=8 + said)
        self._sound = np.zeros(len(self._checks), np.bool_)
        self._wholly_sound: set[str] = set()

    def _read_header(self) -> tuple[int, int, int]:
        header = self._map[: HEADER.size]
        (crc,) = struct.unpack_from("<I", self._map, HEADER.size)
        magic, version, store, number, dimensions, seq, at, length, of = HEADER.unpack(header)
        if zlib.crc32(header) != crc or magic != MAGIC or version != FORMAT:
            raise Damaged(self.path, "its header is damaged, or of another version")
        self.identity = Identity(store, number, dimensions, seq)
        return at, length, of

    def array(self, name: str) -> NDArray[Any]:
        """Return an array of the file, unchecked and read-only."""
        section = self._sections[name]
        size = section.nbytes // np.dtype(section.dtype).itemsize
        flat = np.frombuffer(self._map, section.dtype, count=size, offset=section.offset)
        return flat.reshape(section.shape)

    def copy(self, name: str) -> NDArray[Any]:
        """Check an array, and return a copy of it."""
        section = self._sections[name]
        self.check_bytes(name, 0, section.nbytes)
        return self.array(name).copy()

    def check_again(self) -> None:
        """Make each block be checked again at its next read."""
        self._sound[:] = False
        self._wholly_sound.clear()

    def check_bytes(self, name: str, start: int, stop: int) -> None:
        """Check the blocks that contain the bytes from *start* up to *stop* of an array."""
        if start < stop and name not in self._wholly_sound:
            block = self._sections[name].block
            self._check(self._sections[name], range(start // block, -(-stop // block)))

    def check_entries(self, name: str, start: int, stop: int) -> None:
        """Check the blocks that contain the entries from *start* up to *stop* of an array."""
        if name in self._wholly_sound:
            return
        section = self._sections[name]
        size = section.nbytes // section.shape[0] if section.shape[0] else 0
        self.check_bytes(name, start * size, stop * size)

    def check_rows(self, name: str, at: NDArray[np.integer[Any]]) -> None:
        """Check the blocks that contain the entries *at*. Blocks must contain whole entries."""
        if name in self._wholly_sound:
            return
        section = self._sections[name]
        if len(at) and section.nbytes:
            per_block = section.block * section.shape[0] // section.nbytes
            blocks = at // per_block
            unsound = ~self._sound[section.checks + blocks]
            if unsound.any():
                self._check(section, sorted({*blocks[unsound].tolist()}))

    def _check(self, section: Section, blocks: Iterable[int]) -> None:
        unsound = [block for block in blocks if not self._sound[section.checks + block]]
        for block in unsound:
            start = section.offset + block * section.block
            stop = min(start + section.block, section.offset + section.nbytes)
            with memoryview(self._map) as whole, whole[start:stop] as part:
                crc = zlib.crc32(part)
            if crc != self._checks[section.checks + block]:
                raise Damaged(self.path, f"block {block} of {section.name} is damaged")
            self._sound[section.checks + block] = True
        if unsound:
            end = section.checks + -(-section.nbytes // section.block)
            if self._sound[section.checks : end].all():
                self._wholly_sound.add(section.name)

    def texts(self, name: str) -> SealedTexts:
        """Return a list of texts that `TextList` wrote."""
        return SealedTexts(self, name)


class SealedTexts:
    """Texts of a sealed file, checked as they are read."""

    def __init__(self, segment: Segment, name: str) -> None:
        self._segment = segment
        self._name = name
        self._bytes = segment.array(name)
        self._offsets = segment.array(f"{name}.offsets")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def slice(self, start: int, stop: int) -> list[str]:
        """Return the texts from *start* up to *stop*."""
        self._segment.check_entries(f"{self._name}.offsets", start, stop + 1)
        offsets = cast("list[int]", self._offsets[start : stop + 1].tolist())
        first, last = offsets[0], offsets[-1]
        self._segment.check_bytes(self._name, first, last)
        whole = self._bytes[first:last].tobytes()
        return [whole[a - first : b - first].decode() for a, b in pairwise(offsets)]

    def at(self, positions: NDArray[np.integer[Any]]) -> list[str]:
        """Return the texts at the given positions."""
        self._segment.check_rows(f"{self._name}.offsets", np.append(positions, positions + 1))
        starts = cast("list[int]", self._offsets[positions].tolist())
        stops = cast("list[int]", self._offsets[positions + 1].tolist())
        found: list[str] = []
        for start, stop in zip(starts, stops, strict=True):
            self._segment.check_bytes(self._name, start, stop)
            found.append(self._bytes[start:stop].tobytes().decode())
        return found

    def where(self, text: str) -> NDArray[np.intp]:
        """Return the positions of *text*."""
        wanted = np.frombuffer(text.encode(), np.uint8)
        self._segment.check_entries(f"{self._name}.offsets", 0, len(self) + 1)
        self._segment.check_entries(self._name, 0, len(self._bytes))
        at = np.flatnonzero(np.diff(self._offsets) == len(wanted))
        for last in reversed(range(len(wanted))):  # ids made in a row differ at their ends
            at = at[self._bytes[self._offsets[at] + last] == wanted[last]]
        return at
