"""The stored form of a value: its wire text, or a packed form if the value contains many bytes.

Wire text contains bytes values in base64, which makes them a third larger. The packed form consists
of the number of the form, the length of the text, the text with the length of each bytes value
instead of its base64, and all bytes. `restored(packed(text))` equals *text*, for every text.
"""

from __future__ import annotations

import base64
import re
import struct
from typing import Any, overload

from alveus.errors import StoreDamaged

MIN_PACKED_BYTES = 64
"""A value is packed if its bytes values have at least this many bytes in total."""

_FORM = 1
"""The first byte of a packed value. No stored text begins with this byte, as texts are JSON."""

_FORMS = tuple(bytes([form]) for form in range(32) if form not in b"\t\n\r")
"""The first bytes that packed values may have: those of `_FORM`, and of forms added later."""

_HEAD = struct.Struct(">BI")

_FIELD = '{"$bytes":"'
"""The beginning of each bytes value in wire text.

Nothing else in wire text contains it, as quotes inside a JSON text are escaped.
"""

_FIELD_BYTES = _FIELD.encode()

_PLACEHOLDER = re.compile(rf"{re.escape(_FIELD)}(\d{{1,10}})")


class Packed(str):
    """A wire text that is stored unchanged, in a column that also holds packed values."""

    __slots__ = ()


@overload
def packed(text: str) -> Packed | bytes: ...
@overload
def packed(text: str | None) -> Packed | bytes | None: ...
def packed(text: str | None) -> Packed | bytes | None:
    """Return the stored form of a wire text, or None for None. Equal texts have equal forms."""
    if text is None:
        return None
    if _FIELD not in text:
        return Packed(text)
    parts: list[str] = []
    raw_values: list[bytes] = []
    offset = 0
    while (field_at := text.find(_FIELD, offset)) >= 0:
        start = field_at + len(_FIELD)
        end = text.find('"', start)
        raw = _decoded(text[start:end]) if end >= 0 else None
        if raw is None:
            return Packed(text)
        parts += text[offset:start], str(len(raw))
        raw_values.append(raw)
        offset = end
    if sum(map(len, raw_values)) < MIN_PACKED_BYTES:
        return Packed(text)
    parts.append(text[offset:])
    skeleton = "".join(parts).encode()
    return b"".join((_HEAD.pack(_FORM, len(skeleton)), skeleton, *raw_values))


def packed_bytes(raw: bytes) -> bytes:
    """Return the packed form of a value that is *raw* alone.

    Args:
        raw: At least `MIN_PACKED_BYTES` bytes.
    """
    return _bytes_head(len(raw)) + raw


def bytes_alone(stored: Any) -> bytes | None:  # noqa: ANN401 - a column
    """Return the bytes from which `packed_bytes` made *stored*, or None if it did not make it."""
    if type(stored) is not bytes or not stored.startswith(_FIELD_BYTES, _HEAD.size):
        return None
    end = stored.find(b"}", _HEAD.size) + 1
    return stored[end:] if stored.startswith(_bytes_head(len(stored) - end)) else None


def _bytes_head(length: int) -> bytes:
    skeleton = f'{_FIELD}{length}"}}'.encode()
    return _HEAD.pack(_FORM, len(skeleton)) + skeleton


def _decoded(digits: str) -> bytes | None:
    """Return the bytes that *digits* encode, or None if *digits* are not canonical base64."""
    try:
        raw = base64.b64decode(digits)
    except ValueError:
        return None
    return raw if base64.b64encode(raw).decode("ascii") == digits else None


def restored(stored: Any) -> Any:  # noqa: ANN401 - a column, which may be NULL
    """Return the wire text from which `packed` made *stored*, or None for None.

    A text may be stored as bytes in UTF-8, for an engine whose column can hold bytes only.

    Raises:
        StoreDamaged: *stored* is not a result of `packed`.
    """
    if stored is None or isinstance(stored, str):
        return stored
    try:
        return _unpacked(stored)
    except (struct.error, TypeError, ValueError) as error:
        raise StoreDamaged(None, "a packed value cannot be read") from error


def as_stored(stored: Any) -> Any:  # noqa: ANN401 - a column, which may be NULL
    """Return *stored* in the form that every engine accepts: a `Packed` text, or packed bytes.

    Returns None for None.
    """
    if stored is None or isinstance(stored, Packed):
        return stored
    if isinstance(stored, bytes):
        return stored if stored.startswith(_FORMS) else Packed(str(stored, "utf-8"))
    return Packed(stored)


def _unpacked(stored: bytes) -> str:
    if stored and not stored.startswith(_FORMS):
        return str(stored, "utf-8")
    form, length = _HEAD.unpack_from(stored)
    if form != _FORM:
        raise ValueError(f"the form {form} of a packed value is unknown")
    offset = _HEAD.size + length
    text = str(stored[_HEAD.size : offset], "utf-8")
    parts: list[str] = []
    last = 0
    for placeholder in _PLACEHOLDER.finditer(text):
        end = offset + int(placeholder[1])
        parts += (
            text[last : placeholder.start(1)],
            base64.b64encode(stored[offset:end]).decode("ascii"),
        )
        last, offset = placeholder.end(1), end
    if offset != len(stored):
        raise ValueError(f"a packed value has {len(stored)} bytes instead of {offset}")
    parts.append(text[last:])
    return "".join(parts)
