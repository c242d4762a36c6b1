"""Windows that keep what matters most, and answer in the order of time."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Unpack

import numpy as np

from fornix.agents.windows.observation import Observation
from fornix.agents.windows.scorers import Explicit, Fading, Length
from fornix.agents.windows.window import Window
from fornix.agents.windows.window_contents import Column, WindowIndex, ticks_of
from fornix.agents.windows.window_settings import CAP, Evict, Settings, WindowRequest
from fornix.text.messages import Message
from fornix.values.storable import in_span, microseconds

TICKS_PER_HOUR = ticks_of(3_600_000_000)


class Priority(Window):
    """Keeps the observations that matter most, and the newest; shows them in the order of time.

    What matters is what the decoder said (`Reply.importance`), or else how long the reply is. Of
    equals the older is let go. Under a budget the most important are shown.

    Args:
        max_size: How many units it holds; None: any number.
        stratum: What each context begins with; "": nothing.
        settings: What every window takes; see `Window`.
    """

    kind: ClassVar[str] = "priority"
    evicts: ClassVar[Evict] = "least important"

    def __init__(
        self,
        max_size: int | None = CAP,
        stratum: str | Message | None = "",
        **settings: Unpack[Settings],
    ) -> None:
        settings.setdefault("scorer", Explicit(Length()))
        super().__init__(max_size, stratum, **settings)

    def worth(self, held: WindowIndex, asked: WindowRequest) -> Column | None:
        """Return how much each observation matters now."""
        return self.importance(held, asked)


class Importance(Priority):
    """Keeps what matters most by now: what mattered once fades as hours go by.

    Importance counts in full when an observation is made, half after *hours*, a third after twice
    as many. It is weighed anew at each eviction and for each context, not only once. What matters
    is what the decoder said, or else how long the reply is, on a logarithmic scale.

    Args:
        max_size: How many units it holds; None: any number.
        stratum: What each context begins with; "": nothing.
        hours: After which importance counts half.
        settings: What every window takes; see `Window`.
    """

    kind: ClassVar[str] = "importance"

    def __init__(
        self,
        max_size: int | None = CAP,
        stratum: str | Message | None = "",
        *,
        hours: float = 1.0,
        **settings: Unpack[Settings],
    ) -> None:
        settings.setdefault("scorer", Explicit(Fading()))
        super().__init__(max_size, stratum, **settings)
        self._hours = in_span(hours, "hours", least=1e-6, most=1e9)

    def importance(self, held: WindowIndex, asked: WindowRequest) -> Column:
        """Return how much each observation matters by now."""
        age = ticks_of(microseconds(asked.now)) - held.made
        hours = np.maximum(age, 0) / TICKS_PER_HOUR
        return held.importance / (1 + hours / self._hours)

    def scored_at(self, observation: Observation) -> datetime:
        """Return when it was made: what time takes from it is `importance`'s."""
        return observation.created.time()
