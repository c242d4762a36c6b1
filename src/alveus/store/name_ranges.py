"""Names in their own order, as ranges: those that begin so, past one, so many of them."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from alveus.values.lazy_dataclass import dataclass

_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = 0xD7FF, 0xE000
_LAST_CODE_POINT = 0x10FFFF


@functools.lru_cache(maxsize=16_384)
def escaped(name: str) -> str:
    """Return a name of an exact tree as it stands in a path: dots and backslashes escaped.

    Names are ordered by this form.
    """
    return name.replace("\\", "\\\\").replace(".", "\\.")


def end_of_prefix(prefix: str) -> str | None:
    """Return the least text past all that begin with *prefix*; None: there is no such text."""
    while prefix:
        last = ord(prefix[-1])
        if last != _LAST_CODE_POINT:
            after = _FIRST_AFTER_SURROGATES if last == _LAST_BEFORE_SURROGATES else last + 1
            return prefix[:-1] + chr(after)
        prefix = prefix[:-1]
    return None


@dataclass(frozen=True, slots=True)
class NameRange:
    """Which names are asked for, by their own order: code points, a dot before a backslash.

    Attributes:
        prefix: What they begin with.
        after: The name that they come after, in the direction of the reading; None: none.
        limit: How many at most; None: all.
        newest_first: Whether they are read from the last one to the first.
    """

    prefix: str = ""
    after: str | None = None
    limit: int | None = None
    newest_first: bool = False

    def choose(self, names: Iterable[str]) -> list[str]:
        """Return those of *names* that are asked for, in order."""
        found = [name for name in names if name.startswith(self.prefix)]
        if self.after is not None:
            after = escaped(self.after)
            if self.newest_first:
                found = [name for name in found if escaped(name) < after]
            else:
                found = [name for name in found if escaped(name) > after]
        return sorted(found, key=escaped, reverse=self.newest_first)[: self.limit]
