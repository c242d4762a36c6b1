"""Files of inputs: a line of JSON each, with a key, a value, and perhaps an id."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import blake2b
from io import BufferedReader
from typing import IO, cast

from alveus.errors import InvalidInput
from alveus.transfer.import_source import line_error, numbered_lines
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked, checked_name

SHAPE = 'write {"key": "ada", "value": …}, and "id": "…" if it has one'

BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class Line:
    """An input, as a line says it.

    Attributes:
        number: Of the line, from 1.
        event_id: Its own id, or one that follows from its text, its place and all before it.
        has_id: Whether the line gave it.
    """

    number: int
    key: str
    value: Value
    event_id: str
    has_id: bool


class Lines:
    """Reads lines one after the other, and gives an id to those that have none.

    The id says which input it is and a digest of it and of all before it: the same lines have the
    same ids, whatever their file is called, and lines that are put behind them change nothing.

    Args:
        name: How errors call the file.
        again: Part of the ids; with another one the same lines are other inputs.
    """

    def __init__(self, name: str, *, again: str = "") -> None:
        self._name, self._again = name, again
        self._last, self._count = b"", 0

    def read(self, texts: Iterator[tuple[int, str]]) -> Iterator[Line]:
        """Yield what numbered lines say.

        Raises:
            InvalidInput: One cannot be used.
        """
        for number, text in texts:
            try:
                yield self._line(number, text)
            except (ValueError, RecursionError) as error:
                raise line_error(self._name, number, str(error), SHAPE) from None

    def _line(self, number: int, text: str) -> Line:
        self._last = blake2b(text.encode(), digest_size=16, key=self._last).digest()
        self._count += 1
        try:
            found = wire.decode_user_json(text)
        except ValueError as error:
            problem = f"is not JSON that alveus reads ({error})"
            raise InvalidInput(problem) from None
        if not isinstance(found, dict):
            problem = f"is JSON, but not an object: {text[:40]}"
            raise InvalidInput(problem)
        fields = cast("dict[str, object]", found)
        missing = [name for name in ("key", "value") if name not in fields]
        other = sorted(fields.keys() - {"key", "value", "id"})
        if missing or other:
            raise InvalidInput(
                f"has no {missing[0]!r}" if missing else f"has a field {other[0]!r}, unknown here"
            )
        key = checked_name(fields["key"], "a key")
        value = checked(found["value"])
        if found.get("id") is None:
            event_id = f"input {self._count} {self._last.hex()} {self._again}".rstrip()
            return Line(number, key, value, event_id, has_id=False)
        return Line(number, key, value, checked_name(fields["id"], "an event id"), has_id=True)


def count(handle: IO[bytes], name: str) -> int:
    """Return how many inputs a file has, after reading all of it.

    Raises:
        InvalidInput: A line cannot be used, or has the id of another one.
    """
    handle.seek(0)
    counted = 0
    used: dict[str, tuple[int, bytes]] = {}
    for line in Lines(name).read(numbered_lines(name, handle)):
        counted += 1
        if line.has_id:
            digest = wire.digest([line.key, line.value], salt=b"")
            first, known = used.setdefault(line.event_id, (line.number, digest))
            if known != digest:
                problem = f"the id {line.event_id!r} is that of line {first}, which differs"
                raise line_error(name, line.number, problem, "give each input an id of its own")
    return counted


def batches_of_stdin(lines: Lines) -> Iterator[Iterator[Line]]:
    """Yield what comes through stdin as it comes: a program may wait for answers to its lines."""
    number, rest = 0, b""
    stdin = cast("BufferedReader", sys.stdin.buffer)
    while block := stdin.read1(BLOCK):
        *whole, rest = (rest + block).split(b"\n")
        yield lines.read(numbered_lines("stdin", whole, lines_before=number))
        number += len(whole)
    yield lines.read(numbered_lines("stdin", [rest], lines_before=number))
