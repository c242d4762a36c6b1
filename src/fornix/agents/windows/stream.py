"""The windows of thinker: nothing, and the last observations."""

from __future__ import annotations

from typing import ClassVar

from fornix.agents.windows.context_memory import ContextMemory
from fornix.agents.windows.observation import Observation
from fornix.agents.windows.window import Window
from fornix.agents.windows.window_contents import Column, WindowIndex
from fornix.agents.windows.window_settings import WindowRequest, stratum_of
from fornix.text.budget import Budget
from fornix.text.messages import Message


class Void(ContextMemory):
    """Remembers nothing: for agents whose every prompt stands alone.

    Args:
        stratum: What each context begins with; "": nothing.
        budget_tokens: The most tokens of a context.
    """

    def __init__(
        self, stratum: str | Message | None = "", *, budget_tokens: int | Budget | None = None
    ) -> None:
        self._begins, self._budget = stratum_of(stratum), Budget.of(budget_tokens)

    def purge(self) -> None:
        """Do nothing: there is nothing to forget."""

    def commit(self, observation: Observation) -> tuple[Observation, ...]:
        """Let an observation go at once; return it."""
        return (observation,)

    def context(
        self, prompt: Message | str | None, *, budget_tokens: int | Budget | None = None
    ) -> list[Message]:
        """Return the stratum and the prompt; see `Window.context`."""
        told = [*self._begins, *([] if prompt is None else [Message.of(prompt, "user")])]
        budget = self._budget if budget_tokens is None else Budget.of(budget_tokens)
        budget.left(told)
        return told


class Stream(Window):
    """Shows the last observations: for conversations. See `Window`."""

    kind: ClassVar[str] = "stream"

    def worth(self, held: WindowIndex, asked: WindowRequest) -> Column | None:
        """Return None: the newest are shown."""
        _ = held, asked
