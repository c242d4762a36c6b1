"""Arrays that grow, the columns of a set, and codes for names: what an index is kept in."""

from __future__ import annotations

import logging
import mmap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from alveus.search.index.segment import SealedTexts

T = TypeVar("T", bound=np.generic)

logger = logging.getLogger(__name__)

PADDING = bytes(1 << 16)


class SpillFolder:
    """Keeps arrays in files without a name, each mapped: they take page cache, and no RAM.

    A file goes with its array, or with the process.

    Args:
        folder: Where the files are; None: where the system keeps temporary ones.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def array(self, values: NDArray[T], room: int) -> NDArray[T]:
        """Return a writable array of *room* entries, the first of which are *values*.

        Raises:
            OSError: There is no space for it.
        """
        import tempfile  # only where something is spilled: it brings five modules along

        shape = (room, *values.shape[1:])
        nbytes = room * values.itemsize * int(np.prod(shape[1:], dtype=np.int64))
        with tempfile.TemporaryFile(dir=self._folder) as file:
            file.write(np.ascontiguousarray(values).data.cast("B"))
            # Written, not left out: what cannot be written to a mapped file ends the process.
            for at in range(values.nbytes, nbytes, len(PADDING)):
                file.write(PADDING[: nbytes - at])
            file.flush()
            mapped = mmap.mmap(file.fileno(), nbytes)
        return np.frombuffer(mapped, values.dtype).reshape(shape)


class Growable(Generic[T]):
    """An array that is appended to; its room doubles, so that appending costs little on average.

    `view` is valid until the next append; writing to it writes to the array.
    """

    __slots__ = ("_room", "_spilled_to", "size")

    def __init__(self, initial: NDArray[T]) -> None:
        self._room = initial
        self._spilled_to: SpillFolder | None = None
        self.size: int = len(initial)

    @property
    def view(self) -> NDArray[T]:
        """What was put in so far."""
        return self._room[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes of RAM it takes, its spare room included."""
        return 0 if self._spilled_to else self._room.nbytes

    def spill(self, to: SpillFolder) -> None:
        """Keep it in a file from now on.

        Raises:
            OSError: There is no space for it; it stays in RAM.
        """
        if self._room.nbytes and not self._spilled_to:
            self._room = to.array(self._room, len(self._room))
            self._spilled_to = to

    def extend(self, values: NDArray[T]) -> None:
        """Add entries, or rows. To an empty array, *values* becomes the array."""
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
    """Named arrays of equal length, one entry per document, made or fetched when first asked for.

    Args:
        fetch: Returns the writable array of a name, as it was stored in a file; None: all of them
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
        """Return the array; writing to it writes to the column, until the next append."""
        return self.growable(name).view

    def growable(self, name: str) -> Growable[Any]:
        """Return the column itself."""
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
        """Keep those that were made or fetched in files from now on; see `Growable.spill`."""
        for column in self._arrays.values():
            column.spill(to)

    @property
    def nbytes(self) -> int:
        """Bytes of RAM they take."""
        return sum(column.nbytes for column in self._arrays.values())


class Codes:
    """Small whole numbers for names: -1 for None, else 0, 1, … in the order of appearance.

    A name that nobody uses any more is forgotten: its place in `names` is then an empty text.

    Args:
        uses: How often each of *names* is used.
        sealed: Names in a file, each in use, which are read when they are first needed.
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
        """Return the code of *name*; None if nobody uses it."""
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
        """Take back one use of *code*."""
        if code < 0:
            return
        uses = self.uses
        uses[code] -= 1
        if not uses[code]:
            del self._codes[self._names[code]]
            self._names[code] = ""

    @property
    def nbytes(self) -> int:
        """Bytes of RAM it takes, roughly."""
        return 200 * len(self._names)


class Texts:
    """A list of texts, the first of which may be in a file."""

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

    def at(self, places: NDArray[np.integer[Any]]) -> list[str]:
        """Return the texts at *places*."""
        added, size = self._added, self._sealed_size
        if self._sealed and len(places) and places.max() < size:
            return self._sealed.at(places)
        return [self[at] if at < size else added[at - size] for at in places.tolist()]

    def slice(self, start: int, stop: int) -> list[str]:
        """Return the texts from *start* up to *stop*."""
        size = self._sealed_size
        added = self._added[max(0, start - size) : max(0, stop - size)]
        if self._sealed and start < size:
            return self._sealed.slice(start, min(stop, size)) + added
        return added

    def where(self, text: str) -> NDArray[np.intp]:
        """Return the places of *text*."""
        size = self._sealed_size
        added = [at + size for at, own in enumerate(self._added) if own == text]
        places = np.array(added, np.intp)
        return np.concatenate([self._sealed.where(text), places]) if self._sealed else places

    def extend(self, texts: Iterable[str]) -> None:
        """Add texts."""
        self._added.extend(texts)

    @property
    def nbytes(self) -> int:
        """Bytes of RAM they take, roughly."""
        return 100 * len(self._added)
