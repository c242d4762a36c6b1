"""The root of all errors, and how errors are pickled and raised again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import TypeVar

E = TypeVar("E", bound="AlveusError")


class AlveusError(Exception):
    """Root of every error that alveus raises on purpose.

    A pickled or copied error keeps its message and its attributes, as from a worker of a process
    pool.
    """

    def __reduce__(self) -> tuple[Callable[..., AlveusError], tuple[object, ...]]:
        """Return a way to rebuild the error without ``__init__``, which takes no message.

        Without it a worker's error would break the pool that waits for the worker.
        """
        return _remade, (type(self), self.args, vars(self))


def _remade(kind: type[E], args: tuple[object, ...], attributes: Mapping[str, object]) -> E:
    error = kind.__new__(kind, *args)
    error.args = args  # an OSError would take them in `__init__`
    vars(error).update(attributes)
    return error


def raisable(kept: BaseException) -> BaseException:
    """Return an exception to raise for a stored error, each time it is reported.

    A raised error refers to each frame that it passes, so an error raised repeatedly would grow
    without end. So an `AlveusError` is copied with its traceback. Any other error loses its
    traceback.
    """
    if not isinstance(kept, AlveusError):
        return kept.with_traceback(None)
    copied = copy(kept).with_traceback(kept.__traceback__)
    copied.__cause__, copied.__context__ = kept.__cause__, kept.__context__
    copied.__suppress_context__ = kept.__suppress_context__
    return copied


def without_frames(error: E) -> E:
    """Return an error for storage; neither the error nor its causes refer to frames."""
    left, seen = list[BaseException | None]([error]), set[int]()
    while left:
        one = left.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            left += [one.__cause__, one.__context__]
    return error
