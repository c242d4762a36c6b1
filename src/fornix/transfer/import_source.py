"""A file to import, which is read twice: to check it, and to import it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import IO

from fornix.errors import InvalidInput
from fornix.transfer.export_lines import numbered, wrong
from fornix.transfer.json_stream import DECODER, Document, JsonRecord
from fornix.values import wire
from fornix.values.storable import Value

HEAD = 1 << 20
"""Bytes of a first line that is looked at whole, to see whether each line is a record."""

PACKED = {
    b"\x1f\x8b": "is compressed; unpack it (zcat FILE | fornix import -)",
    b"PK\x03\x04": "is a zip archive; unpack it and import the .json or .jsonl file in it",
    b"SQLite format 3\0": "is an SQLite file; name the file itself, which is read through SQLite",
}


class Source:
    """A file of JSON: a record per line, or one document.

    Attributes:
        name: How errors name it.
        unit: What its records are numbered by: "line" or "record"; known once it was read.
    """

    def __init__(self, name: str, handle: IO[bytes]) -> None:
        self.name = name
        self.unit = "line"
        self._handle = handle

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and text of every line that is not blank.

        Raises:
            InvalidInput: A line is not UTF-8.
        """
        self._handle.seek(0)
        return numbered(self.name, self._handle)

    def objects(self, *, wired: bool = True) -> Iterator[tuple[int, dict[str, Value]]]:
        """Yield the number and contents of every line; each must be a JSON object.

        Args:
            wired: Whether values are in the wire form of fornix.

        Raises:
            InvalidInput: One is not.
        """
        for number, text in self.lines():
            try:
                found: Value = DECODER.decode(text)
                found = wire.parse(text) if wired else found
            except (ValueError, RecursionError) as error:
                said = error
                if isinstance(error, json.JSONDecodeError):
                    said = f"{error.msg} at character {error.pos + 1:,}"
                problem = f"is not JSON that fornix reads ({said})"
                raise self.wrong(number, problem, "write one JSON object per line") from None
            if not isinstance(found, dict):
                problem = f"is JSON, but not an object: {text[:40]}"
                raise self.wrong(number, problem, "write one JSON object per line")
            yield number, found

    def records(self, lists: Collection[str]) -> Iterator[JsonRecord]:
        """Yield the objects of the file, a line each or as `Document.records` finds them.

        Raises:
            InvalidInput: It is not JSON, or packed, or something in it is no object.
        """
        if self._by_line(lists):
            self.unit = "line"
            for number, fields in self.objects(wired=False):
                yield JsonRecord(number, number, fields)
            return
        self.unit = "record"
        self._handle.seek(0)
        yield from Document(self.name, self._handle).records(lists)

    def _by_line(self, lists: Collection[str]) -> bool:
        """Return whether the first line that is not blank is a whole record."""
        self._handle.seek(0)
        head = self._handle.readline(HEAD)
        for magic, problem in PACKED.items():
            if head.startswith(magic):
                raise InvalidInput(f"{self.name} {problem}")
        while head and not head.strip():
            head = self._handle.readline(HEAD)
        try:
            first: Value = json.loads(head.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and not any(
            isinstance(first.get(name), list) for name in lists
        )

    def at(self, number: int) -> str:
        """Return how a message names a record."""
        return f"{self.unit} {number:,}" if self.unit != "line" else f"line {number}"

    def wrong(
        self, number: int, problem: str, remedy: str, *, line: int | None = None
    ) -> InvalidInput:
        """Return the error about a record.

        Args:
            line: Where it begins, where that is not its number.
        """
        if self.unit == "line":
            return wrong(self.name, number, problem, remedy)
        place = f"{self.name}:{line}" if line is not None else self.name
        return InvalidInput(f"{place}: {self.unit} {number}: {problem}; {remedy}")
