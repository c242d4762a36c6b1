"""The exact tree inside a with block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from fornix.errors import Unusable
from fornix.state import Mark, Overlay
from fornix.state.paths import ParsedPath
from fornix.state.tree_values import Expiry
from fornix.values.storable import Value

R = TypeVar("R")


class BlockTree(Overlay):
    """An overlay that serves one with block: what is written later would be lost, so it raises."""

    __slots__ = ("open",)

    def has(self, place: ParsedPath) -> bool:
        """See `Overlay.has`."""
        self._check_open()
        return super().has(place)

    def read(self, place: ParsedPath) -> Value | Mark:
        """See `Overlay.read`."""
        self._check_open()
        return super().read(place)

    def put(self, place: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """See `Overlay.put`."""
        self._check_open()
        super().put(place, value, expiry)

    def look(self, operation: Callable[[Overlay], R]) -> R:
        """See `Overlay.look`."""
        self._check_open()
        return super().look(operation)

    def change(self, operation: Callable[[Overlay], R], request: Sequence[object] = ()) -> R:
        """See `Overlay.change`."""
        self._check_open()
        return super().change(operation, request)

    def _check_open(self) -> None:
        if not self.open:
            raise Unusable("a batch is used inside its with block; ask for another one")
