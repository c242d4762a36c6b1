"""Windows that choose by time and importance; `semantic` has the windows by meaning."""

from __future__ import annotations

from datetime import datetime
from itertools import chain, zip_longest
from typing import ClassVar, Unpack, get_args

import numpy as np

from alveus.agents.windows.observation import Observation, ObservationHeader, observation_of
from alveus.agents.windows.scorers import Explicit, Fading, Length
from alveus.agents.windows.window import (
    CAP,
    CAP_OF_WINDOW,
    ContextMemory,
    Evict,
    Settings,
    Window,
    WindowRequest,
    check_settings,
    stratum_of,
)
from alveus.agents.windows.window_contents import Column, UnitSelection, WindowIndex, ticks_of
from alveus.errors import InvalidInput
from alveus.store import StoredItem
from alveus.text.budget import Budget
from alveus.text.messages import Message
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_number, choice, counted, microseconds

HYBRID_CAP, RECENT, THRESHOLD = 70, 20, 0.5

TICKS_PER_HOUR = ticks_of(3_600_000_000)


@suggest_names_in
class Void(ContextMemory):
    """A window that remembers nothing, for agents with independent prompts.

    Args:
        stratum: The first message of each context. "" means none.
        budget_tokens: The most tokens of a context.
    """

    def __init__(
        self, stratum: str | Message | None = "", *, budget_tokens: int | Budget | None = None
    ) -> None:
        self._begins, self._budget = stratum_of(stratum), Budget.of(budget_tokens)

    def purge(self) -> None:
        """Do nothing."""

    def commit(self, observation: Observation) -> tuple[Observation, ...]:
        """Keep nothing, and return the observation as evicted."""
        return (observation,)

    def context(
        self, prompt: Message | str | None, *, budget_tokens: int | Budget | None = None
    ) -> list[Message]:
        """Return the stratum and the prompt; see `Window.context`."""
        messages = [*self._begins, *([] if prompt is None else [Message.of(prompt, "user")])]
        budget = self._budget if budget_tokens is None else Budget.of(budget_tokens)
        budget.remaining(messages)
        return messages


class Stream(Window):
    """Shows the last observations, as a conversation needs them. See `Window`."""

    kind: ClassVar[str] = "stream"

    def worth(self, index: WindowIndex, request: WindowRequest) -> Column | None:
        """Return None: all observations are equal, so the newest are shown."""
        _ = index, request


class Priority(Window):
    """Keeps the most important observations and the newest. Shows them in the order of time.

    The importance comes from the decoder (`Reply.importance`), or else from the length of the
    reply. Of equally important observations, the older leaves first. If a budget is too small for
    all, the most important are shown.

    Args:
        cap, stratum, settings: See `Window`.
    """

    kind: ClassVar[str] = "priority"
    evicts: ClassVar[Evict] = "least important"

    def __init__(
        self,
        cap: int | None = CAP,
        stratum: str | Message | None = "",
        **settings: Unpack[Settings],
    ) -> None:
        check_settings(self, settings)
        settings.setdefault("scorer", Explicit(Length()))
        super().__init__(cap, stratum, **settings)

    def worth(self, index: WindowIndex, request: WindowRequest) -> Column | None:
        """Return the importance of each observation now."""
        return self.importance(index, request)


class Importance(Priority):
    """Keeps the observations that are most important now. Importance fades with the hours.

    Importance counts in full at first, half after *hours*, a third after twice as many. It is
    computed again at each eviction and each context. The importance comes from the decoder, or else
    from the length of the reply, on a logarithmic scale.

    Args:
        hours: The age in hours at which importance counts half.
        cap, stratum, settings: See `Window`.
    """

    kind: ClassVar[str] = "importance"

    def __init__(
        self,
        cap: int | None = CAP,
        stratum: str | Message | None = "",
        *,
        hours: float = 1.0,
        **settings: Unpack[Settings],
    ) -> None:
        settings.setdefault("scorer", Explicit(Fading()))
        super().__init__(cap, stratum, **settings)
        self._hours = checked_number(hours, "hours", least=1e-6, most=1e9)

    def importance(self, index: WindowIndex, request: WindowRequest) -> Column:
        """Return the importance of each observation now."""
        age = ticks_of(microseconds(request.now)) - index.made
        hours = np.maximum(age, 0) / TICKS_PER_HOUR
        return index.importance / (1 + hours / self._hours)

    def scored_at(self, observation: Observation) -> datetime:
        """Return the time of creation, because `importance` takes the age into account."""
        return observation.created.time()


class Hybrid(Window):
    """Holds the newest units, and the most important older units.

    An older unit stays if its importance is above the threshold and the window has room. The least
    important unit leaves first, of equally important units the oldest. If a budget is too small for
    all units, the choice alternates: the newest, the most important, the next newest, and so on.

    Args:
        cap: The most units in all. None means any number of important units.
        threshold: The importance above which an older unit stays.
        stratum, settings: See `Window`; evict and profile are refused. `keep_recent` is 20 by
            default, or the cap if that is smaller.
    """

    kind: ClassVar[str] = "hybrid"

    def __init__(
        self,
        cap: int | None = HYBRID_CAP,
        stratum: str | Message | None = "",
        *,
        threshold: float = THRESHOLD,
        **settings: Unpack[Settings],
    ) -> None:
        check_settings(self, settings, "evict", "profile")
        self._threshold = checked_number(threshold, "threshold", least=0, most=1)
        settings["evict"] = "least important"
        most = RECENT if cap is None else counted(cap, CAP_OF_WINDOW)
        settings.setdefault("keep_recent", min(RECENT, most))
        super().__init__(cap, stratum, **settings)

    def lasting(self, index: WindowIndex, request: WindowRequest) -> Column:
        """Return the importance of each observation, or -inf if it is not above the threshold."""
        importance = self.importance(index, request)
        return np.where(importance > self._threshold, importance, -np.inf)

    def worth(self, index: WindowIndex, request: WindowRequest) -> Column | None:
        """Return the importance of each observation. `fill` alternates it with the age."""
        return self.importance(index, request)

    def fill(self, choice: UnitSelection, index: WindowIndex, request: WindowRequest) -> None:
        """Choose the newest, the most important, the next newest, and so on; see `Window`."""
        newest = index.best_first(None)
        important = index.best_first(index.of_units(self.lasting(index, request)))
        turns = chain.from_iterable(zip_longest(newest, important))
        choice.take_each(slot for slot in turns if slot is not None)


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of `Hierarchical`.

    Args:
        cap: The most units.
        budget_tokens: The most tokens of the layer in a context. None means all remaining tokens.
        evict: Which unit moves to the next layer first. A layer that evicts the least important
            unit shows the most important units first. Any other layer shows the newest first.
    """

    cap: int
    budget_tokens: int | None = None
    evict: Evict = "oldest"

    def __post_init__(self) -> None:
        counted(self.cap, "the cap of a layer")
        if self.budget_tokens is not None:
            counted(self.budget_tokens, "the budget_tokens of a layer")
        choice(self.evict, "evict of a layer", *get_args(Evict))


class Hierarchical(Window):
    """A window of layers. A new observation enters the first layer, and moves from layer to layer.

    An observation is in one layer, and moves in the commit that causes the move. `commit` returns
    the observations that leave the last layer. A context fills each layer's budget, the first layer
    first, and is in order of time.

    Args:
        layers: The layers, from the first to the last. A number means a `Layer` with this cap.
        stratum, settings: See `Window`; evict and profile are refused.
    """

    kind: ClassVar[str] = "hierarchical"

    def __init__(
        self, *layers: Layer | int, stratum: str | Message | None = "", **settings: Unpack[Settings]
    ) -> None:
        check_settings(self, settings, "evict", "profile")
        if not layers:
            raise InvalidInput("Hierarchical needs at least one layer, as in Hierarchical(4, 100)")
        self._layers = tuple(one if isinstance(one, Layer) else Layer(one) for one in layers)
        super().__init__(sum(layer.cap for layer in self._layers), stratum, **settings)
        counted(self._keep_recent, "keep_recent", least=0, most=self._layers[0].cap)

    def layers(self) -> list[list[Observation]]:
        """Return copies of each layer's observations, oldest first, without recording an access."""
        writer = self._storage.writer()
        found: list[list[Observation]] = [[] for _ in self._layers]

        def placed(index: WindowIndex) -> list[tuple[int, StoredItem]]:
            layers, stored = self._layers_of(index), self._stored(writer, index)
            return [(int(layers[index.slot(one.record.id)]), one) for one in stored]

        for layer, one in self._read(writer, placed):
            found[layer].append(observation_of(one))
        return found

    def _layers_of(self, index: WindowIndex) -> Column:
        """Return, by slot, the layer of each observation, at most the last layer of this window."""
        return np.minimum(index.layer, len(self._layers) - 1)

    def settled(
        self, index: WindowIndex, new: ObservationHeader, request: WindowRequest
    ) -> tuple[list[ObservationHeader], dict[str, int]]:
        """Return the observations that leave, and a dict from the ids of others to new layers."""
        index.add(new)
        try:
            before, layers = index.layer.copy(), self._layers_of(index)
            for entry in index.unit_of(new):
                layers[index.slot(entry.id)] = 0  # the rest of its unit returns to the first layer
            for number in range(len(self._layers)):
                for entry in self._leaving(index, layers == number, number, request):
                    layers[index.slot(entry.id)] += 1
            left = index.live & (layers == len(self._layers))
            moved = index.live & ~left & (layers != before)
            gone = [index.at(int(slot)) for slot in np.flatnonzero(left)]
            to = {index.at(int(slot)).id: int(layers[slot]) for slot in np.flatnonzero(moved)}
            return index.in_order(gone), to
        finally:
            index.remove([new.id])

    def _leaving(
        self, index: WindowIndex, among: Column, number: int, request: WindowRequest
    ) -> list[ObservationHeader]:
        slots = np.flatnonzero(index.live & among)
        over = len(slots) - self._layers[number].cap
        if over > 0 and index.units < len(index):
            over -= len(slots) - len(np.unique(index.unit[slots]))
        if over <= 0:
            return []
        safe = index.last_units(self._keep_recent)
        lasting = self.lasting_by(self._layers[number].evict, index, request)
        by_age = (
            index.age if lasting is None else lasting
        )  # always a column, so that *among* can select a part of it
        return self._least(index, by_age, over, safe, among=among)

    def fill(self, choice: UnitSelection, index: WindowIndex, request: WindowRequest) -> None:
        """Choose the newest unit, then units of each layer within its budget; see `Window`."""
        choice.take_newest()
        layers, newest = self._layers_of(index), index.last_units(1)
        for number, layer in enumerate(self._layers):
            most = layer.budget_tokens
            if most is not None and number == 0 and newest:
                most = max(0, most - choice.tokens(newest[0]))
            by_importance = layer.evict == "least important"
            worth = self.importance(index, request) if by_importance else index.age
            chosen = np.where(layers == number, worth.astype(np.float64), -np.inf)
            choice.fill(chosen, most=most)

    def worth(self, index: WindowIndex, request: WindowRequest) -> Column:
        """Return the age of each observation. `fill` chooses from the layers."""
        _ = request
        return index.age
