"""Numbers and times of a draft, which others may move until the draft is committed.

Such a number has a type of its own, so that a number that was read is never moved with it; what
cannot be said of it before is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

from alveus.store.checks import ROW_BITS


class NotADraft(Exception):
    """What is to be done gives rows, or writes, that a draft cannot foresee.

    Attributes:
        place: Of the first ticket of a group that cannot be in one draft with those before it, or
            of its middle, where only the server found that some cannot.
    """

    def __init__(self, place: int = 0) -> None:
        super().__init__(place)
        self.place = place


def _refusing(self: object, other: object = None, /) -> Any:  # noqa: ANN401, ARG001 - any operator
    raise NotADraft


class _Moving(int):
    """A number that others may move; it is equal to none that was read, whatever it looks like."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and int.__eq__(self, cast("int", other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return int.__hash__(self)

    def __bool__(self) -> bool:
        return True

    __lt__ = __le__ = __gt__ = __ge__ = __or__ = __ror__ = __and__ = __mul__ = _refusing
    __floordiv__ = __mod__ = __radd__ = __rsub__ = _refusing


class DraftRow(_Moving):
    """The number of a row that a draft begins, or of an output."""

    __slots__ = ()

    def __add__(self, other: int) -> DraftRow:
        return DraftRow(int(self) + int(other))

    def __rshift__(self, bits: int) -> DraftNumber:
        return DraftNumber(int(self) >> bits)

    __sub__ = __lshift__ = _refusing


class DraftNumber(_Moving):
    """The number of a commit that is drafted."""

    __slots__ = ()

    def __add__(self, other: int) -> DraftNumber:
        return DraftNumber(int(self) + int(other))

    def __sub__(self, other: int) -> DraftNumber:
        return DraftNumber(int(self) - int(other))

    def __lshift__(self, bits: int) -> DraftRow:
        return DraftRow(int(self) << bits)

    __rshift__ = _refusing


class DraftRun(_Moving):
    """The id of a run that a draft begins: how many come after the last one before the draft."""

    __slots__ = ()

    def __add__(self, other: int) -> DraftRun:
        return DraftRun(int(self) + int(other))

    def __sub__(self, other: int) -> DraftRun:
        return DraftRun(int(self) - int(other))

    __lshift__ = __rshift__ = _refusing


class TimeUse:
    """Whether something was decided by the time of a commit, which is not to move then."""

    decided = False


def _deciding(operator: Callable[[int, Any], Any]) -> Callable[[Any, object], Any]:
    def decide(time: DraftTime, other: object) -> object:
        time.use.decided = True
        return operator(int(time), other)

    return decide


class DraftTime(int):
    """The time of a commit that is drafted; others may have committed later."""

    use: TimeUse

    def __new__(cls, value: int, use: TimeUse) -> Self:
        """Make it of what the clock read."""
        self = super().__new__(cls, value)
        self.use = use
        return self

    __lt__, __le__ = _deciding(int.__lt__), _deciding(int.__le__)
    __gt__, __ge__ = _deciding(int.__gt__), _deciding(int.__ge__)
    __eq__, __ne__ = _deciding(int.__eq__), _deciding(int.__ne__)
    __add__, __radd__ = _deciding(int.__add__), _deciding(int.__radd__)
    __sub__, __rsub__ = _deciding(int.__sub__), _deciding(int.__rsub__)

    def __hash__(self) -> int:
        return int.__hash__(self)


class DraftRows(str):
    """Numbers of rows that a draft begins, as JSON."""

    __slots__ = ()


_MOVED = "current_setting('alveus.moved')::bigint"

_WAYS: dict[type, str] = {
    DraftNumber: f"(?{{}} + {_MOVED})",
    DraftRow: f"(?{{}} + ({_MOVED} << {ROW_BITS}))",
    DraftRows: f"""
        (SELECT '[' || string_agg((number::bigint + ({_MOVED} << {ROW_BITS}))::text, ', '
            ORDER BY place) || ']'
        FROM json_array_elements_text(?{{}}::json) WITH ORDINALITY AS made(number, place))
    """,  # noqa: S608 - ours
    DraftRun: "(?{} + current_setting('alveus.runs_moved')::bigint)",
    DraftTime: "greatest(?{}, current_setting('alveus.time')::bigint)",
}


def is_moving(value: object) -> bool:
    """Return whether a number is of a draft, so that others may move it."""
    return type(value) in _WAYS


def moved(statement: str, bindings: Sequence[object]) -> str:
    """Return *statement* with those of its bindings moved that are to move with the draft."""
    kinds = tuple(kind if kind in _WAYS else None for kind in map(type, bindings))
    return with_moved(statement, kinds) if any(kinds) else statement


@functools.lru_cache(maxsize=1024)
def with_moved(statement: str, kinds: tuple[type | None, ...]) -> str:
    """Return *statement* with its bindings numbered, and those moved that are of a kind."""
    last = 0

    def way(found: re.Match[str]) -> str:
        nonlocal last
        last = int(found[1]) if found[1] else last + 1
        kind = kinds[last - 1]
        return ("?{}" if kind is None else _WAYS[kind]).format(last)

    return re.sub(r"\?(\d*)", way, statement)
