"""The exact tree inside a batch: an overlay, and whether the block only ever set values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from alveus.state.overlay import Overlay
from alveus.state.paths import MemoryKind, ParsedPath, PathCache, Resolver
from alveus.state.tree_values import Expiry, NonValue
from alveus.store import TreeDelta
from alveus.store.as_of import AsOf
from alveus.store.name_ranges import NameRange
from alveus.values.storable import Path, Value

Result = TypeVar("Result")


class SetValue(NamedTuple):
    """A value that the block set: where, what, and how long it lasts."""

    location: ParsedPath
    value: Value
    expiry: Expiry


class BatchTree:
    """An exact memory over an `Overlay`, which notes whether anything but values was asked for.

    A block that read nothing of the tree, and only set values, does not depend on what is there:
    its values can be laid over any state.
    """

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._only_sets = True
        self._set: dict[Path, tuple[ParsedPath, Expiry]] = {}

    @property
    def kind(self) -> MemoryKind:
        """See `ExactMemory.kind`."""
        return self._overlay.kind

    @property
    def paths(self) -> PathCache:
        """See `ExactMemory.paths`."""
        return self._overlay.paths

    @property
    def resolver(self) -> Resolver | None:
        """See `ExactMemory.resolver`."""
        return self._overlay.resolver

    @property
    def identity(self) -> object:
        """See `ExactMemory.identity`: each batch reads and writes a memory of its own."""
        return id(self)

    @property
    def requests(self) -> list[Value]:
        """See `Overlay.requests`."""
        return self._overlay.requests

    def put(self, location: ParsedPath, value: object, expiry: Expiry = None) -> None:
        """See `ExactMemory.put`."""
        self._overlay.put(location, value, expiry)
        self._set.pop(location.path, None)  # the last one set comes last
        self._set[location.path] = location, expiry

    def has(self, location: ParsedPath) -> bool:
        """See `ExactMemory.has`."""
        return self._read().has(location)

    def read(self, location: ParsedPath) -> Value | NonValue:
        """See `ExactMemory.read`."""
        return self._read().read(location)

    def chosen_names(self, location: ParsedPath, chosen: NameRange) -> list[str]:
        """See `ExactMemory.chosen_names`."""
        return self._read().chosen_names(location, chosen)

    def query(self, operation: Callable[[Overlay], Result]) -> Result:
        """See `ExactMemory.query`."""
        return self._read().query(operation)

    def change(
        self, operation: Callable[[Overlay], Result], request: Sequence[object] = ()
    ) -> Result:
        """See `ExactMemory.change`."""
        return self._read().change(operation, request)

    def once(self, idempotency_key: str) -> Overlay:
        """See `Overlay.once`."""
        return self._overlay.once(idempotency_key)

    def tree_as_of(self, as_of: AsOf) -> Overlay:
        """See `Overlay.tree_as_of`."""
        return self._overlay.tree_as_of(as_of)

    def _read(self) -> Overlay:
        self._only_sets = False
        return self._overlay

    def end(self, reason: str) -> tuple[tuple[TreeDelta, ...], list[SetValue] | None]:
        """Have every later use raise `Unusable`, saying *reason*.

        Returns:
            The changes of the tree as it was; and, if the block only set values, those.
        """
        deltas = self._overlay.deltas()
        values = self._values() if self._only_sets and deltas else None
        self._overlay.seal(reason)
        return deltas, values

    def _values(self) -> list[SetValue]:
        values: list[SetValue] = []
        for path, (location, expiry) in self._set.items():
            node = self._overlay.node(path, self._overlay.now)
            if node is not None:
                values.append(SetValue(location, node.value, expiry))
        return values
