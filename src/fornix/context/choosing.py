"""Which observations a prompt has room for: whole units, the newest first, then by worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fornix.context.held import Column, Held
from fornix.context.kept import Entry

MISSES = 8
"""Units in a row for which there is no room, after which no more are looked at."""


class Choice:
    """Units that are shown, in the making.

    Args:
        left: How many tokens they may have; None: any number.
        size: Returns how many an observation has.
    """

    def __init__(self, held: Held, *, left: int | None, size: Callable[[Entry], int]) -> None:
        self._held, self._left, self._size = held, left, size
        self._taken: dict[str, Entry] = {}
        self._passed: set[str] = set()

    def take_newest(self) -> None:
        """Take the newest unit, if there is room for it."""
        for unit in self._held.last_units(1):
            self.take(unit)

    def fill(self, worth: Column | None, *, most: int | None = None) -> None:
        """Take the best units, as long as there is room.

        Args:
            most: Tokens that they may have; None: as many as are left.
        """
        if most is None:
            self._fill(worth)
            return
        left = self._left
        self._left = granted = most if left is None else min(left, most)
        self._fill(worth)
        self._left = None if left is None else left - (granted - self._left)

    def tokens(self, unit: Sequence[Entry]) -> int:
        """Return how many tokens a unit has."""
        return sum(self._size(entry) for entry in unit)

    def _fill(self, worth: Column | None) -> None:
        self.take_each(self._held.best_first(self._held.of_units(worth)))

    def take_each(self, slots: Iterable[int]) -> None:
        """Take the units of slots in their order, as long as there is room."""
        misses = 0
        for slot in slots:
            entry = self._held.at(slot)
            if entry.id in self._taken or entry.id in self._passed:
                continue
            misses = 0 if self.take(self._held.unit_of(entry)) else misses + 1
            if misses == MISSES:
                return

    def take(self, unit: Sequence[Entry]) -> bool:
        """Take a unit if there is room for all of it; return whether there is."""
        if self._left is not None:
            size = self.tokens(unit)
            if size > self._left:
                self._passed.update(entry.id for entry in unit)
                return False
            self._left -= size
        self._taken.update((entry.id, entry) for entry in unit)
        return True

    def in_order(self) -> list[Entry]:
        """Return what was taken, in the order of the window."""
        return self._held.in_order(self._taken.values())


def answered(held: Held, answers: Iterable[str]) -> list[Entry]:
    """Return the units whose tool calls a prompt answers: it is not shown without them."""
    units: dict[str, Entry] = {}
    for call in answers:
        caller = held.caller(call)
        if caller is not None:
            units.update((entry.id, entry) for entry in held.unit_of(caller))
    return held.in_order(units.values())
