"""The window of several layers: what leaves one is in the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack, get_args

import numpy as np

from fornix.agents.windows.observation import Observation
from fornix.agents.windows.observation_items import ObservationHeader, observation_of
from fornix.agents.windows.window import Window
from fornix.agents.windows.window_contents import Column, UnitSelection, WindowIndex
from fornix.agents.windows.window_settings import Evict, Settings, WindowRequest, refuse
from fornix.errors import InvalidInput
from fornix.store import StoredItem
from fornix.text.messages import Message
from fornix.values.storable import counted


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of `Hierarchical`.

    Args:
        cap: How many units it holds.
        budget_tokens: The most tokens of it in a context; None: as many as the window has left.
        evict: What it hands on first. A layer that hands on the least important shows the most
            important first, any other the newest.
    """

    cap: int
    budget_tokens: int | None = None
    evict: Evict = "oldest"

    def __post_init__(self) -> None:
        counted(self.cap, "the cap of a layer")
        if self.budget_tokens is not None:
            counted(self.budget_tokens, "the budget_tokens of a layer")
        if self.evict not in get_args(Evict):
            raise InvalidInput(f"evict of a layer is one of {get_args(Evict)}, not {self.evict!r}")


class Hierarchical(Window):
    """Holds layers: what is committed is in the first, what leaves one is in the next.

    An observation is in one layer, and moves in the commit that makes it move. What leaves the
    last is what `commit` returns. A context takes from each layer what its budget has room for,
    the first layer first, and is in order of time.

    Args:
        layers: From the first to the last; a number is the cap of a `Layer`.
        stratum: What each context begins with; "": nothing.
        settings: What every window takes but for evict and profile; see `Window`.
    """

    kind: ClassVar[str] = "hierarchical"

    def __init__(
        self,
        *layers: Layer | int,
        stratum: str | Message | None = "",
        **settings: Unpack[Settings],
    ) -> None:
        refuse(settings, ("evict", "profile"), "Hierarchical")
        if not layers:
            raise InvalidInput("Hierarchical needs layers, such as Hierarchical(4, 100)")
        self._layers = tuple(one if isinstance(one, Layer) else Layer(one) for one in layers)
        super().__init__(sum(layer.cap for layer in self._layers), stratum, **settings)
        counted(self._keep_recent, "keep_recent", least=0, most=self._layers[0].cap)

    def layers(self) -> list[list[Observation]]:
        """Return copies of what each layer holds, oldest first; nothing counts as accessed."""
        writer = self._place.writer()
        found: list[list[Observation]] = [[] for _ in self._layers]

        def placed(held: WindowIndex) -> list[tuple[int, StoredItem]]:
            layers, stored = self._layers_of(held), self._stored(writer, held)
            return [(int(layers[held.slot(one.record.id)]), one) for one in stored]

        for layer, one in self._looked(writer, placed):
            found[layer].append(observation_of(one))
        return found

    def _layers_of(self, held: WindowIndex) -> Column:
        """Return, by slot, the layer of each; there may have been more when it was kept."""
        return np.minimum(held.layer, len(self._layers) - 1)

    def settled(
        self, held: WindowIndex, new: ObservationHeader, asked: WindowRequest
    ) -> tuple[list[ObservationHeader], dict[str, int]]:
        """Return what leaves the last layer, and which layer the others go to; see `Window`."""
        held.add(new)
        try:
            before, layers = held.layer.copy(), self._layers_of(held)
            for entry in held.unit_of(new):
                layers[held.slot(entry.id)] = 0  # what the new one answers comes back to it
            for number in range(len(self._layers)):
                for entry in self._leaving(held, layers == number, number, asked):
                    layers[held.slot(entry.id)] += 1
            left = held.live & (layers == len(self._layers))
            moved = held.live & ~left & (layers != before)
            gone = [held.at(int(slot)) for slot in np.flatnonzero(left)]
            to = {held.at(int(slot)).id: int(layers[slot]) for slot in np.flatnonzero(moved)}
            return held.in_order(gone), to
        finally:
            held.remove([new.id])

    def _leaving(
        self, held: WindowIndex, among: Column, number: int, asked: WindowRequest
    ) -> list[ObservationHeader]:
        slots = np.flatnonzero(held.live & among)
        over = len(slots) - self._layers[number].cap
        if over > 0 and held.units < len(held):
            over -= len(slots) - len(np.unique(held.unit[slots]))
        if over <= 0:
            return []
        safe = held.last_units(self._keep_recent)
        lasting = self.lasting_by(self._layers[number].evict, held, asked)
        by_age = held.age if lasting is None else lasting  # as a column, of which *among* is a part
        return self._least(held, by_age, over, safe, among=among)

    def fill(self, choice: UnitSelection, held: WindowIndex, asked: WindowRequest) -> None:
        """Choose from each layer within its budget, the newest unit before all; see `Window`."""
        choice.take_newest()
        layers, newest = self._layers_of(held), held.last_units(1)
        for number, layer in enumerate(self._layers):
            most = layer.budget_tokens
            if most is not None and number == 0 and newest:
                most = max(0, most - choice.tokens(newest[0]))
            worth = self._shown_by(layer, held, asked).astype(np.float64)
            choice.fill(np.where(layers == number, worth, -np.inf), most=most)

    def _shown_by(self, layer: Layer, held: WindowIndex, asked: WindowRequest) -> Column:
        return self.importance(held, asked) if layer.evict == "least important" else held.age

    def worth(self, held: WindowIndex, asked: WindowRequest) -> Column:
        """Return when each was made; layers choose by `fill`."""
        _ = asked
        return held.age
