"""Large values of a thread in pieces. A thread stores each piece once.

The contents decide where a piece ends, not a number of bytes: two values with a long common part,
such as a list and the same list with one message more, share the pieces of this part.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np

from alveus.state import MemoryObject

Stored: TypeAlias = list[Any]
"""A value as the tree stores it: its type, and its bytes or the digests of its pieces."""

PIECES = "pieces"
"""The name of the field with a value's digests, and of the object with a thread's pieces."""

MOST_WHOLE = 256 * 1024
"""The most bytes of a value that is stored whole."""

LEAST_PIECE, MOST_PIECE = 16 * 1024, 512 * 1024
"""The least and the most bytes of a piece. The last piece of a value may be shorter."""

_AVERAGE_DISTANCE = 112 * 1024
"""The average number of bytes of a piece after its first `LEAST_PIECE` bytes."""

_SCANNED = 32 * 1024
"""How many bytes are scanned for an end of a piece at once."""

_WINDOW = 4
"""The number of bytes that decide whether a piece ends after these bytes."""

_DIGEST_BYTES = 20

_FACTOR, _ENDS_BELOW = np.uint32(0x9E3779B1), np.uint32((1 << 32) // _AVERAGE_DISTANCE)
"""A piece ends after four bytes whose product with `_FACTOR`, modulo 2**32, is below the limit."""


class PieceMissing(Exception):
    """A value has a piece that is missing in the tree."""


def pieces(data: bytes) -> Iterator[memoryview]:
    """Yield *data* in pieces."""
    view, start = memoryview(data), 0
    while len(view) - start > MOST_PIECE:
        end = _piece_end(view[start : start + MOST_PIECE])
        yield view[start : start + end]
        start += end
    yield view[start:]


def _piece_end(view: memoryview) -> int:
    for at in range(LEAST_PIECE - _WINDOW, len(view), _SCANNED):
        scanned = view[at : at + _SCANNED + _WINDOW - 1]
        ends = [
            at + offset + _WINDOW * int(found[0]) + _WINDOW
            for offset in range(_WINDOW)
            if len(found := _marks(scanned, offset))
        ]
        if ends:
            return min(ends)
    return len(view)


def _marks(scanned: memoryview, offset: int) -> Any:  # noqa: ANN401 - of numpy
    count = (len(scanned) - offset) // _WINDOW
    words = np.frombuffer(scanned, "<u4", count=max(count, 0), offset=offset)
    return np.flatnonzero(words * _FACTOR < _ENDS_BELOW)


class ValueWriter:
    """Makes the stored form of the values of one commit, and collects their pieces.

    Args:
        dump: Returns the type and the bytes of a value.
        expires: True if the values of the commit expire. Their pieces are then not shared: a shared
            piece would expire with the first of its values.
    """

    def __init__(self, dump: Callable[[Any], tuple[str, bytes]], *, expires: bool) -> None:
        self._dump = dump
        self._salt = secrets.token_bytes(16) if expires else b""
        self._pieces: dict[str, bytes] = {}

    @property
    def has_pieces(self) -> bool:
        """True if a value was split into pieces. The commit then depends on the stored pieces."""
        return bool(self._pieces)

    def stored(self, value: object) -> Stored:
        """Return *value* in stored form. The pieces are copies, so the value can be freed."""
        kind, data = self._dump(value)
        if len(data) <= MOST_WHOLE:
            return [kind, bytes(data)]
        digests: list[bytes] = []
        for piece in pieces(data):
            digest = blake2b(piece, digest_size=_DIGEST_BYTES, key=self._salt).digest()
            self._pieces[digest.hex()] = bytes(piece)
            digests.append(digest)
        return [kind, {PIECES: b"".join(digests)}]

    def missing(self, known: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the pieces that are not among the *known* names."""
        present = set(known)
        for name, piece in self._pieces.items():
            if name not in present:
                yield name, piece


def piece_names(stored: Any) -> list[str]:  # noqa: ANN401 - of the tree
    """Return the names of the pieces of a value. A value that is stored whole has no pieces."""
    data = stored[1]
    digests: bytes = b"" if isinstance(data, bytes) else data[PIECES]
    starts = range(0, len(digests), _DIGEST_BYTES)
    return [digests[start : start + _DIGEST_BYTES].hex() for start in starts]


def joined(tree: MemoryObject, path: tuple[str, ...], stored: Stored) -> tuple[str, bytes]:
    """Return the type and the bytes of a stored value. Its pieces are read below *path*.

    Raises:
        PieceMissing: A piece is missing in the tree.
    """
    kind, data = stored
    if isinstance(data, bytes):
        return kind, data
    found = [tree.get((*path, name)) for name in piece_names(stored)]
    if None in found:
        raise PieceMissing
    return kind, b"".join(found)
