"""A file to import: JSON of any size. It is read one record at a time, and can be read twice."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import field
from typing import IO, cast

from alveus.errors import InvalidInput
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value

FIRST_LINE_BYTES = 1 << 20
"""Bytes of the first line that are read to decide whether each line is a record."""

BLOCK = 1 << 16
"""Fewest bytes of one read."""

LONGEST = 64 << 20
"""Most characters of one record."""

AN_OBJECT = '{"text": "Prefers window seats."}'
"""The simplest record, as an example in errors."""

UNREADABLE = {
    b"\x1f\x8b": "is compressed; unpack it (zcat FILE | alveus import -)",
    b"PK\x03\x04": "is a zip archive; unpack it and import the .json or .jsonl file in it",
    b"SQLite format 3\0": "is an SQLite file; pass its path, since SQLite must read it",
}
"""The problem to report for a file that begins with these bytes."""

_SPACE = re.compile(r"[ \t\r\n]*")


_DECODER = json.JSONDecoder(object_pairs_hook=wire.unique_fields)


def numbered_lines(
    name: str, raw: Iterable[bytes], *, lines_before: int = 0
) -> Iterator[tuple[int, str]]:
    """Yield the number and text of every line that is not blank.

    Args:
        lines_before: The number of lines before *raw*.

    Raises:
        InvalidInput: A line is not UTF-8.
    """
    for number, text in _lines(name, raw, lines_before):
        if isinstance(text, InvalidInput):
            raise text
        yield number, text


def _lines(
    name: str, raw: Iterable[bytes], lines_before: int = 0
) -> Iterator[tuple[int, str | InvalidInput]]:
    """Yield the number of every line that is not blank, and its text.

    If a line is not UTF-8, the error about it replaces the text.
    """
    for number, line in enumerate(raw, start=lines_before + 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            problem = f"byte {error.start + 1} of the line is not UTF-8"
            yield number, line_error(name, number, problem, "save the file as UTF-8")
        else:
            if text:
                yield number, text


def line_error(name: str, number: int, problem: str, remedy: str) -> InvalidInput:
    """Return the error about a line of a file."""
    return InvalidInput(f"{name}:{number}: {problem}; {remedy}")


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """One record of a file, which is a JSON object.

    Attributes:
        number: The number of the line, or of the record if records are not lines.
        line: The line on which the record begins.
        list_name: The field of a document whose list contains the record, or "" if no field does.
        document: The other fields of this document, as far as they were read before the list.
    """

    number: int
    line: int
    fields: dict[str, Value]
    list_name: str = ""
    document: dict[str, Value] = field(default_factory=dict[str, Value])


@dataclass(frozen=True, slots=True)
class Invalid:
    """A record, or a part of a record, that cannot be used.

    Attributes:
        error: The error, whose message names the record and the remedy.
    """

    error: InvalidInput


class Source:
    """A file of JSON: a record per line, or one document.

    Attributes:
        name: The name of the file in errors.
        unit: The unit of record numbers, "line" or "record". `records` sets it.
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
        return numbered_lines(self.name, self._handle)

    def objects(self, *, wired: bool = True) -> Iterator[tuple[int, dict[str, Value] | Invalid]]:
        """Yield the number of every line that is not blank, and its JSON object or an `Invalid`.

        Args:
            wired: True if values are in the wire form of alveus.
        """
        self._handle.seek(0)
        for number, text in _lines(self.name, self._handle):
            try:
                if isinstance(text, InvalidInput):
                    raise text
                yield number, self._read_object(number, text, wired=wired)
            except InvalidInput as error:
                yield number, Invalid(error)

    def _read_object(self, number: int, text: str, *, wired: bool) -> dict[str, Value]:
        remedy = "write one JSON object per line"
        try:
            contents: Value = _DECODER.decode(text)
            if wired and '"$' in text:  # otherwise both forms are equal
                contents = wire.parse(text)
        except (ValueError, RecursionError) as error:
            reason = error
            if isinstance(error, json.JSONDecodeError):
                reason = f"{error.msg} at character {error.pos + 1:,}"
            problem = f"is not JSON that alveus reads ({reason})"
            raise self.wrong(number, problem, remedy) from None
        if not isinstance(contents, dict):
            raise self.wrong(number, f"is JSON, but not an object: {text[:40]}", remedy)
        return contents

    def records(self, lists: Collection[str]) -> Iterator[JsonRecord | Invalid]:
        """Yield the objects of the file: one per line, or as `Document.records` finds them.

        For a record that is not an object, and for a line that is not JSON, yield an `Invalid`.

        Raises:
            InvalidInput: The file is compressed, or it is one document and not JSON.
        """
        if self._has_record_per_line(lists):
            self.unit = "line"
            for number, fields in self.objects(wired=False):
                yield fields if isinstance(fields, Invalid) else JsonRecord(number, number, fields)
            return
        self.unit = "record"
        self._handle.seek(0)
        yield from Document(self.name, self._handle, lists).records()

    def _has_record_per_line(self, lists: Collection[str]) -> bool:
        """Return whether the first line that is not blank is a whole record, and no document."""
        self._handle.seek(0)
        line = self._handle.readline(FIRST_LINE_BYTES)
        for magic, problem in UNREADABLE.items():
            if line.startswith(magic):
                raise InvalidInput(f"{self.name} {problem}")
        while line and not line.strip():
            line = self._handle.readline(FIRST_LINE_BYTES)
        try:
            first: Value = json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and not _lists_in(first, lists)

    def at(self, number: int) -> str:
        """Return the words that name a record in messages."""
        return f"{self.unit} {number:,}" if self.unit != "line" else f"line {number}"

    def wrong(
        self, number: int, problem: str, remedy: str, *, line: int | None = None
    ) -> InvalidInput:
        """Return the error about a record.

        Args:
            line: The line on which the record begins, if records are not lines.
        """
        if self.unit == "line":
            return line_error(self.name, number, problem, remedy)
        where = f"{self.name}:{line}" if line is not None else self.name
        return InvalidInput(f"{where}: {self.unit} {number}: {problem}; {remedy}")


def _lists_in(fields: dict[str, Value], lists: Collection[str]) -> list[str]:
    return [name for name, value in fields.items() if name in lists and isinstance(value, list)]


class Document:
    """The JSON of a file, read only as far as needed. A long list need not fit in memory.

    Args:
        lists: The names of fields whose lists contain records.
    """

    def __init__(self, name: str, handle: IO[bytes], lists: Collection[str]) -> None:
        self._name, self._handle, self._lists = name, handle, lists
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._position = "", 0
        self._line, self._column = 1, 1  # where the text begins in the file
        self._at_end = False
        self._records = 0

    def records(self) -> Iterator[JsonRecord | Invalid]:
        """Yield the records of the document.

        The document is a list of records, an object with such a list in a field, or one record.

        Raises:
            InvalidInput: The file is not JSON.
        """
        while char := self._peek():
            if char == "[":
                yield from self._elements("", {})
            elif char == "{":
                yield from self._object()
            else:
                problem = f"the file must be a list or an object, such as {AN_OBJECT}"
                raise self._wrong(problem, self._position)

    def _object(self) -> Iterator[JsonRecord | Invalid]:
        line, fields, has_list = self._line_at(self._position), dict[str, Value](), False
        for name in self._field_names():
            if name in self._lists and self._peek() == "[":
                has_list = True
                yield from self._elements(name, dict(fields))
            else:
                fields[name] = self._value()
        if not has_list:
            yield self._record(line, fields, "", {})

    def _field_names(self) -> Iterator[str]:
        """Yield the names of an object's fields. The caller reads the value after each name."""
        self._expect("{")
        seen = set[str]()
        while self._peek() != "}":
            name = self._value()
            if not isinstance(name, str):
                problem = f"the name of a field must be a text, not {name!r:.40}"
                raise self._wrong(problem, self._position)
            self._expect(":")
            if name in seen:
                raise self._wrong(f"the field {name!r:.40} occurs twice", self._position)
            seen.add(name)
            yield name
            if self._peek() != "}":
                self._expect(",")
        self._expect("}")

    def _elements(
        self, list_name: str, document: dict[str, Value]
    ) -> Iterator[JsonRecord | Invalid]:
        self._expect("[")
        while self._peek() != "]":
            line, element = self._line_at(self._position), self._value()
            inner = _lists_in(element, self._lists) if isinstance(element, dict) else []
            if isinstance(element, dict) and inner and not list_name:
                yield from self._inner_records(line, element, inner)
            else:
                yield self._record(line, element, list_name, document)
            if self._peek() != "]":
                self._expect(",")
        self._expect("]")

    def _inner_records(
        self, line: int, element: dict[str, Value], names: Sequence[str]
    ) -> Iterator[JsonRecord | Invalid]:
        """Yield the records in the lists of an object that is an element of a list."""
        others = {name: value for name, value in element.items() if name not in names}
        for name in names:
            for record in cast("list[Value]", element[name]):
                yield self._record(line, record, name, others)

    def _record(
        self, line: int, fields: Value, list_name: str, document: dict[str, Value]
    ) -> JsonRecord | Invalid:
        self._records += 1
        if not isinstance(fields, dict):
            problem = f"record {self._records} is not an object: {json.dumps(fields)[:40]}"
            return Invalid(line_error(self._name, line, problem, f"write {AN_OBJECT}"))
        return JsonRecord(self._records, line, fields, list_name, document)

    # --- the text -----------------------------------------------------------------------------

    def _peek(self) -> str:
        """Return the next character that is not a space, or "" at the end of the file."""
        while True:
            match = _SPACE.match(self._text, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._text) or not self._read_on():
                return self._text[self._position : self._position + 1]

    def _expect(self, char: str) -> None:
        actual = self._peek()
        if actual != char:
            shown = f"not {actual!r}" if actual else "but the file ends"
            raise self._wrong(f"{char!r} is expected here, {shown}", self._position)
        self._position += 1

    def _value(self) -> Value:
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._position)
            except RecursionError:
                raise self._wrong("the file is nested too deeply", self._position) from None
            except ValueError as error:
                offset = (
                    error.pos - self._position if isinstance(error, json.JSONDecodeError) else 0
                )
                if self._read_on():
                    continue
                raise self._unreadable(error, self._position + offset) from None
            if end == len(self._text) and self._read_on():
                continue  # a number may continue
            self._position = end
            return cast("Value", value)

    def _read_on(self) -> bool:
        """Read more of the file, at least as much as the unread rest of the text.

        Return false if the file has no more, or if the rest is longer than one record may be.
        """
        rest = self._text[self._position :]
        if self._at_end or len(rest) > LONGEST:
            return False
        raw = self._handle.read(max(BLOCK, len(rest)))
        self._at_end = not raw
        try:
            new = self._decoder.decode(raw, final=self._at_end)
        except UnicodeDecodeError as error:
            line = self._line_at(len(self._text)) + raw.count(b"\n", 0, error.start)
            problem = "the file is not UTF-8"
            raise line_error(self._name, line, problem, "save the file as UTF-8") from None
        self._line, self._column = self._line_at(self._position), self._column_at(self._position)
        self._text, self._position = rest + new, 0
        return not self._at_end

    # --- errors -------------------------------------------------------------------------------

    def _line_at(self, position: int) -> int:
        return self._line + self._text.count("\n", 0, position)

    def _column_at(self, position: int) -> int:
        line_end = self._text.rfind("\n", 0, position)
        return self._column + position if line_end < 0 else position - line_end

    def _unreadable(self, error: ValueError, position: int) -> InvalidInput:
        if len(self._text) - self._position > LONGEST and not self._at_end:
            return self._wrong(f"a record has more than {LONGEST:,} characters", self._position)
        reason = error.msg if isinstance(error, json.JSONDecodeError) else error
        return self._wrong(f"the file is not JSON that alveus reads ({reason})", position)

    def _wrong(self, problem: str, position: int) -> InvalidInput:
        where = f"{self._name}:{self._line_at(position)}:{self._column_at(position)}"
        return InvalidInput(f"{where}: {problem}; correct it and import again")
