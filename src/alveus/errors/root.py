"""The root of all errors, and functions to pickle errors and to raise them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import TypeVar

E = TypeVar("E", bound="AlveusError")


class AlveusError(Exception):
    """The root of all errors that alveus raises on purpose.

    A pickled or copied error keeps its message and its attributes, for example when a worker of a
    process pool sends the error.
    """

    def __reduce__(self) -> tuple[Callable[..., AlveusError], tuple[object, ...]]:
        """Return the function and arguments with which pickle rebuilds the error.

        They do not call ``__init__``, which in most classes does not take the message. Otherwise an
        error of a worker would break the process pool that waits for the worker.
        """
        return _remade, (type(self), self.args, vars(self))


def _remade(kind: type[E], args: tuple[object, ...], attributes: Mapping[str, object]) -> E:
    error = kind.__new__(kind, *args)
    error.args = args  # an OSError would take the arguments in `__init__`
    vars(error).update(attributes)
    return error


def raisable(kept: BaseException) -> BaseException:
    """Return an exception that may be raised for the stored error *kept*, each time it is reported.

    A raised error refers to each frame that it passes, so an error that is raised repeatedly would
    grow without end. Therefore an `AlveusError` is copied with its traceback. Any other error is
    returned itself, without its traceback.
    """
    if not isinstance(kept, AlveusError):
        return kept.with_traceback(None)
    copied = copy(kept).with_traceback(kept.__traceback__)
    copied.__cause__, copied.__context__ = kept.__cause__, kept.__context__
    copied.__suppress_context__ = kept.__suppress_context__
    return copied


def without_frames(error: E) -> E:
    """Return *error* after removing the tracebacks of the error and its causes.

    A stored error then keeps no frames alive.
    """
    left, seen = list[BaseException | None]([error]), set[int]()
    while left:
        one = left.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            left += [one.__cause__, one.__context__]
    return error
