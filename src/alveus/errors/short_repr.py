"""The function `short_repr`, which shows arguments in messages."""

from __future__ import annotations

import reprlib

_DEPTH, _PARTS, _LENGTH = 4, 8, 200

_BITS = 512
"""Of an int with more bits only the size is shown: Python refuses to write very long ints."""


class _ShortRepr(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = _DEPTH
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = _PARTS
        self.maxstring = self.maxother = self.maxlong = _LENGTH

    def repr_int(self, x: int, level: int) -> str:
        """Return an int as text, or a large int's size in bits."""
        size = x.bit_length()
        return super().repr_int(x, level) if size <= _BITS else f"<an int of {size:,} bits>"


_short_repr = _ShortRepr()


def short_repr(value: object) -> str:
    """Return the `repr` of any *value* in a few hundred characters.

    Long and deep values are cut, so that a message stays short and never fails.
    """
    return _short_repr.repr(value)
