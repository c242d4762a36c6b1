"""The root of all errors, and how one goes from process to process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

E = TypeVar("E", bound="FornixError")


class FornixError(Exception):
    """Root of every error that fornix raises on purpose.

    Pickled or copied, as by a pool of processes whose worker raised it, it keeps its message and
    its attributes.
    """

    def __reduce__(self) -> tuple[Callable[..., FornixError], tuple[object, ...]]:
        """Have it made again without its ``__init__``, which takes something else than a message.

        Without this a worker's error would break the pool that waits for it.
        """
        return _remade, (type(self), self.args, vars(self))


def _remade(kind: type[E], args: tuple[object, ...], attributes: Mapping[str, object]) -> E:
    error = kind.__new__(kind, *args)
    error.args = args  # an OSError would take them in `__init__`
    vars(error).update(attributes)
    return error
