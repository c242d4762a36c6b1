"""The window of what is recent and of what is important."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import ClassVar, Unpack

import numpy as np

from fornix.agents.windows.window import Window
from fornix.agents.windows.window_contents import Column, UnitSelection, WindowIndex
from fornix.agents.windows.window_settings import Settings, WindowRequest, refuse
from fornix.text.messages import Message
from fornix.values.storable import counted, in_span

RECENT, IMPORTANT, THRESHOLD = 20, 50, 0.5


class Hybrid(Window):
    """Holds the newest units, and of the older ones those that matter most.

    A unit that is not among the newest any more stays if its importance is above the threshold,
    as long as there is room for it among the important ones; of these the least important goes
    first, of equals the oldest. Where a budget has no room for all, units take turns: the newest,
    the most important, the next newest, and so on.

    Args:
        recent: How many of the newest units it holds.
        threshold: Importance above which an older one stays.
        stratum: What each context begins with; "": nothing.
        important: How many of the older units it holds.
        settings: What every window takes but for evict, keep_recent and profile; see `Window`.
    """

    kind: ClassVar[str] = "hybrid"

    def __init__(
        self,
        recent: int = RECENT,
        threshold: float = THRESHOLD,
        stratum: str | Message | None = "",
        *,
        important: int = IMPORTANT,
        **settings: Unpack[Settings],
    ) -> None:
        refuse(settings, ("evict", "keep_recent", "profile"), "Hybrid")
        self._threshold = in_span(threshold, "threshold", least=0, most=1)
        cap = counted(recent, "recent") + counted(important, "important", least=0)
        settings |= {"evict": "least important", "keep_recent": recent}
        super().__init__(cap, stratum, **settings)

    def lasting(self, held: WindowIndex, asked: WindowRequest) -> Column:
        """Return how much each matters, -inf where that is not above the threshold."""
        importance = self.importance(held, asked)
        return np.where(importance > self._threshold, importance, -np.inf)

    def worth(self, held: WindowIndex, asked: WindowRequest) -> Column | None:
        """Return how much each matters; `fill` takes turns with the newest."""
        return self.importance(held, asked)

    def fill(self, choice: UnitSelection, held: WindowIndex, asked: WindowRequest) -> None:
        """Choose the newest, the most important, the next newest, and so on; see `Window`."""
        newest = held.best_first(None)
        important = held.best_first(held.of_units(self.lasting(held, asked)))
        turns = chain.from_iterable(zip_longest(newest, important))
        choice.take_each(slot for slot in turns if slot is not None)
