"""The form in which a store keeps a value: wire text, or packed, where the value contains bytes.

Wire text has bytes in base64, a third more than they are. Packed are: the number of this form, the
length of the text, the text with the length of each bytes value in the place of its base64, and
then the bytes of them all. Values without bytes, or with few, are kept as their wire text, and so
is any text that `wire.encode` would have written otherwise.

`restored(packed(text))` equals *text*, whatever it is.
"""

from __future__ import annotations

import base64
import re
import struct
from typing import Any, overload

from fornix.errors import StoreDamaged

FEWEST = 64
"""Bytes in all from which on a value is packed."""

_FORM = 1
"""No text begins with this character: neither JSON nor an empty one."""

_FORMS = tuple(bytes([form]) for form in range(32) if form not in b"\t\n\r")
"""What packed values begin with, of this form and later ones."""

_HEAD = struct.Struct(">BI")

_FIELD = '{"$bytes":"'
"""Begins each bytes value, and nothing else: quotes inside a JSON text are escaped."""

_PLACE = re.compile(rf"{re.escape(_FIELD)}(\d{{1,10}})")


class Packed(str):
    """A wire text that is kept as it is, in a column that also holds packed values."""

    __slots__ = ()


@overload
def packed(text: str) -> Packed | bytes: ...
@overload
def packed(text: str | None) -> Packed | bytes | None: ...
def packed(text: str | None) -> Packed | bytes | None:
    """Return the form in which a wire text is kept; equal texts have equal forms."""
    if text is None:
        return None
    if _FIELD not in text:
        return Packed(text)
    parts: list[str] = []
    raws: list[bytes] = []
    at = 0
    while (found := text.find(_FIELD, at)) >= 0:
        start = found + len(_FIELD)
        end = text.find('"', start)
        raw = _decoded(text[start:end]) if end >= 0 else None
        if raw is None:
            return Packed(text)
        parts += text[at:start], str(len(raw))
        raws.append(raw)
        at = end
    if sum(map(len, raws)) < FEWEST:
        return Packed(text)
    parts.append(text[at:])
    rest = "".join(parts).encode()
    return b"".join((_HEAD.pack(_FORM, len(rest)), rest, *raws))


def _decoded(digits: str) -> bytes | None:
    """Return the bytes of which *digits* are the base64; None: of none."""
    try:
        raw = base64.b64decode(digits)
    except ValueError:
        return None
    return raw if base64.b64encode(raw).decode("ascii") == digits else None


def restored(kept: Any) -> Any:  # noqa: ANN401 - a column, which may be NULL
    """Return the wire text that `packed` made *kept* from, or None for None.

    Where an engine's column holds bytes alone, a text is kept as its UTF-8.

    Raises:
        StoreDamaged: `packed` did not make it.
    """
    if kept is None or isinstance(kept, str):
        return kept
    try:
        return _unpacked(kept)
    except (struct.error, TypeError, ValueError) as error:
        raise StoreDamaged(None, "a packed value cannot be read") from error


def _unpacked(kept: bytes) -> str:
    if kept and not kept.startswith(_FORMS):
        return str(kept, "utf-8")
    form, length = _HEAD.unpack_from(kept)
    if form != _FORM:
        raise ValueError(f"form {form} of a packed value is not known")
    at = _HEAD.size + length
    text = str(kept[_HEAD.size : at], "utf-8")
    parts: list[str] = []
    last = 0
    for found in _PLACE.finditer(text):
        end = at + int(found[1])
        parts += text[last : found.start(1)], base64.b64encode(kept[at:end]).decode("ascii")
        last, at = found.end(1), end
    if at != len(kept):
        raise ValueError(f"a packed value of {len(kept)} bytes was to have {at}")
    parts.append(text[last:])
    return "".join(parts)
