"""JSON of any size, a record at a time: what is one long list need not fit in memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, cast

from fornix.errors import InvalidInput
from fornix.values.storable import Value

BLOCK = 1 << 16
"""Bytes that are read at once, at least."""

LONGEST = 64 << 20
"""Characters that one record may have."""


def _fields_of(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    """Return an object of its fields, which JSON lets be there twice: one would be lost."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r:.40} is there twice")
    return fields


DECODER = json.JSONDecoder(object_pairs_hook=_fields_of)
"""Reads JSON of others; a ValueError says what is wrong."""

_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """One object of a file.

    Attributes:
        number: Of its line; where records are not lines, of the record.
        line: Where it begins.
        fields: What it says.
        under: The field of the document whose list it is in; "" for none.
        around: The fields of the document that come before that list.
    """

    number: int
    line: int
    fields: dict[str, Value]
    under: str = ""
    around: dict[str, Value] = field(default_factory=dict[str, Value])


def _listed(fields: dict[str, Value], lists: Collection[str]) -> list[str]:
    return [name for name, v in fields.items() if name in lists and isinstance(v, list)]


class Document:
    """The JSON of a file, read as far as it is needed."""

    def __init__(self, name: str, handle: IO[bytes]) -> None:
        self._name, self._handle = name, handle
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at = "", 0
        self._line, self._column = 1, 1  # where the text begins
        self._counted = (0, 1)  # up to where its lines were counted
        self._over = False
        self._number = 0

    def records(self, lists: Collection[str]) -> Iterator[JsonRecord]:
        """Yield objects: the elements of a list, or of a list that is a field of an object.

        Args:
            lists: The names of fields whose lists are taken apart.

        Raises:
            InvalidInput: It is not JSON, or something in it is no object.
        """
        while char := self._peek():
            if char == "[":
                yield from self._elements(lists, "", {})
            elif char == "{":
                yield from self._object(lists)
            else:
                raise self._wrong("this is neither a list nor an object", self._at)

    def _object(self, lists: Collection[str]) -> Iterator[JsonRecord]:
        line, fields, apart = self._place(self._at), dict[str, Value](), False
        for name in self._fields():
            if name in lists and self._peek() == "[":
                apart = True
                yield from self._elements(lists, name, dict(fields))
            else:
                fields[name] = self._value()
        if not apart:
            yield self._record(line, fields, "", {})

    def _fields(self) -> Iterator[str]:
        """Yield the names of an object's fields; who is given one has to read its value."""
        self._take("{")
        seen = set[str]()
        while self._peek() != "}":
            name = self._value()
            if not isinstance(name, str):
                raise self._wrong(f"the name of a field is a text, not {name!r:.40}", self._at)
            self._take(":")
            if name in seen:
                raise self._wrong(f"the field {name!r:.40} is there twice", self._at)
            seen.add(name)
            yield name
            if self._peek() != "}":
                self._take(",")
        self._take("}")

    def _elements(
        self, lists: Collection[str], under: str, around: dict[str, Value]
    ) -> Iterator[JsonRecord]:
        self._take("[")
        while self._peek() != "]":
            line = self._place(self._at)
            found = self._value()
            if isinstance(found, dict) and not under and _listed(found, lists):
                yield from self._apart(line, found, _listed(found, lists))
            else:
                yield self._record(line, found, under, around)
            if self._peek() != "]":
                self._take(",")
        self._take("]")

    def _apart(
        self, line: int, fields: dict[str, Value], names: Sequence[str]
    ) -> Iterator[JsonRecord]:
        """Yield what the lists of an object hold, which is itself an element of a list."""
        around = {name: v for name, v in fields.items() if name not in names}
        for name in names:
            for one in cast("list[Value]", fields[name]):
                yield self._record(line, one, name, around)

    def _record(self, line: int, fields: Value, under: str, around: dict[str, Value]) -> JsonRecord:
        if not isinstance(fields, dict):
            problem = f"record {self._number + 1} is no object: {json.dumps(fields)[:40]}"
            raise InvalidInput(f"{self._name}:{line}: {problem}; correct it and import again")
        self._number += 1
        return JsonRecord(self._number, line, fields, under, around)

    # --- the text -----------------------------------------------------------------------------

    def _peek(self) -> str:
        """Return the next character that is no space; "" at the end of the file."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def _take(self, char: str) -> None:
        found = self._peek()
        if found != char:
            shown = f"not {found!r}" if found else "but the file ends"
            raise self._wrong(f"{char!r} should be here, {shown}", self._at)
        self._at += 1

    def _value(self) -> Value:
        self._peek()
        while True:
            try:
                found, end = DECODER.raw_decode(self._text, self._at)
            except RecursionError:
                raise self._wrong("something is nested too deeply", self._at) from None
            except ValueError as error:
                into = error.pos - self._at if isinstance(error, json.JSONDecodeError) else 0
                if self._more():
                    continue
                raise self._unread(error, self._at + into) from None
            if end == len(self._text) and self._more():
                continue  # a number may go on
            self._at = end
            return cast("Value", found)

    def _more(self) -> bool:
        """Read on, as much again as is waiting; return whether there was more."""
        rest = self._text[self._at :]
        if self._over or len(rest) > LONGEST:
            return False
        raw = self._handle.read(max(BLOCK, len(rest)))
        self._over = not raw
        try:
            read = self._decoder.decode(raw, final=self._over)
        except UnicodeDecodeError as error:
            line = self._place(len(self._text)) + raw.count(b"\n", 0, error.start)
            raise self._not_text(line) from None
        self._line, self._column = self._place(self._at), self._column_of(self._at)
        self._text, self._at, self._counted = rest + read, 0, (0, self._line)
        return not self._over

    # --- what is wrong ------------------------------------------------------------------------

    def _place(self, at: int) -> int:
        """Return the line of a place, from the last one that was asked for if it lies behind it."""
        start, line = self._counted if at >= self._counted[0] else (0, self._line)
        self._counted = (at, line + self._text.count("\n", start, at))
        return self._counted[1]

    def _column_of(self, at: int) -> int:
        line = self._text.rfind("\n", 0, at)
        return self._column + at if line < 0 else at - line

    def _unread(self, error: ValueError, at: int) -> InvalidInput:
        if len(self._text) - self._at > LONGEST and not self._over:
            return self._wrong(f"a record has more than {LONGEST:,} characters", self._at)
        said = error.msg if isinstance(error, json.JSONDecodeError) else error
        return self._wrong(f"this is not JSON that fornix reads ({said})", at)

    def _wrong(self, problem: str, at: int) -> InvalidInput:
        place = f"{self._name}:{self._place(at)}:{self._column_of(at)}"
        return InvalidInput(f"{place}: {problem}; correct it and import again")

    def _not_text(self, line: int) -> InvalidInput:
        return InvalidInput(f"{self._name}:{line}: this is not UTF-8; save the file as UTF-8")
