"""The window of what is recent and of what is important."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fornix.budget import Budget
from fornix.context.held import Column, Held
from fornix.context.reflection import Reflection
from fornix.context.scorers import Scoring
from fornix.context.settings import Asked
from fornix.context.window import Window
from fornix.keys import KeySets
from fornix.messages import Message
from fornix.place import Now
from fornix.values import counted, in_span

RECENT, IMPORTANT, THRESHOLD = 20, 50, 0.5


class Hybrid(Window):
    """Holds the newest units, and of the older ones those that matter most.

    A unit that is not among the newest any more stays if its importance is above the threshold,
    as long as there is room for it among the important ones; of these the least important goes
    first, of equals the oldest. Where a budget has no room for all, recent and important units
    take turns, the newest and the most important first.

    Args:
        recent: How many of the newest units it holds.
        threshold: Importance above which an older one stays.
        stratum: What each context begins with; "": nothing.
        important: How many of the older units it holds.
        memory, name, budget_tokens, scorer, reflection, now: See `Window`.
    """

    kind: ClassVar[str] = "hybrid"

    def __init__(  # noqa: PLR0913 - what any window is set up with; all but three by name
        self,
        recent: int = RECENT,
        threshold: float = THRESHOLD,
        stratum: str | Message | None = "",
        *,
        important: int = IMPORTANT,
        memory: KeySets | None = None,
        name: str | None = None,
        budget_tokens: int | Budget | None = None,
        scorer: Scoring | None = None,
        reflection: Reflection | None = None,
        now: Now = None,
    ) -> None:
        self._threshold = in_span(threshold, "threshold", least=0, most=1)
        cap = counted(recent, "recent") + counted(important, "important", least=0)
        super().__init__(
            cap,
            stratum,
            memory=memory,
            name=name,
            budget_tokens=budget_tokens,
            evict="least important",
            keep_recent=recent,
            scorer=scorer,
            reflection=reflection,
            now=now,
        )

    def lasting(self, held: Held, asked: Asked) -> Column:
        """Return how much each matters, -inf where that is not above the threshold."""
        importance = self.importance(held, asked)
        return np.where(importance > self._threshold, importance, -np.inf)

    def worth(self, held: Held, asked: Asked) -> Column:
        """Return the turn of each, below zero: the newest, the most important, the next newest."""
        turns = np.full(len(held.live), -np.inf)
        important = self.lasting(held, asked)
        for turn, unit in enumerate(held.last_units(self._keep_recent)):
            slots = [held.slot(entry.id) for entry in unit]
            turns[slots], important[slots] = -2 * turn, -np.inf
        for turn, slot in enumerate(held.best_first(important)):
            turns[slot] = -2 * turn - 1
        return turns
