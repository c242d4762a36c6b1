"""The memory and the agents of thinker, under thinker's names, in Python.

docs/coming-from/thinker.md maps the names and lists differences. A `Stream` made here keeps
thinker's rules, `profile="thinker"`. The windows of `alveus.agents.windows` keep alveus's rules.
"""

from __future__ import annotations

from typing import Unpack

from alveus.agents.automata import Automata, Decoder, Encoder, Epoch, Manifold, Phase, Reasoner
from alveus.agents.automata import LoopState as State
from alveus.agents.windows import ContextMemory, Input, Observation, Reply, Settings, Stamp, Void
from alveus.agents.windows import Stream as StreamWindow
from alveus.embed import float8
from alveus.errors import EpochsSpent, PromptAborted
from alveus.llm import Unfit
from alveus.text.messages import Message

__all__ = [
    "AGENT_ABORT",
    "AGENT_ASK",
    "AGENT_REFINE",
    "AGENT_RETRY",
    "AGENT_RETURN",
    "INFINITE",
    "Answer",
    "Automata",
    "Decoder",
    "Encoder",
    "Epoch",
    "ErrMaxEpoch",
    "Feedback",
    "Input",
    "K",
    "Manifold",
    "Memory",
    "Message",
    "Observation",
    "Phase",
    "Prompt",
    "PromptAborted",
    "Reasoner",
    "Reply",
    "State",
    "Stratum",
    "Stream",
    "Void",
    "float8",
]

Memory = ContextMemory
"""The memory of an agent, with the calls `purge`, `commit` and `context`."""

K = Stamp
"""An id that contains its time of creation: `guid.K`."""

Feedback = Unfit
"""A decoder's error, with the reason for the model."""

ErrMaxEpoch = EpochsSpent
"""The error of `Epoch`."""

INFINITE = -1
"""The cap of a `Stream` that removes nothing. Any number of 0 or less means the same."""

AGENT_RETURN, AGENT_ASK, AGENT_REFINE, AGENT_RETRY, AGENT_ABORT = (
    "return",
    "ask",
    "refine",
    "retry",
    "abort",
)
"""The phases of a reasoner's answer."""

Stratum = Message.stratum
"""Make the first message of a context: fixed instructions."""


def Prompt(text: str) -> Message:  # noqa: N802 - thinker's name
    """Return a message to a model."""
    return Message(text, "user")


def Answer(text: str, *answers: str) -> Message:  # noqa: N802 - thinker's name
    """Return a tool's answer to the calls with these ids."""
    return Message(text, "tool", answers=answers)


class ThinkerStream(StreamWindow):
    """The last *cap* observations, by thinker's rules.

    A cap of 0 or less means no limit. Observations are in the order of their commits. An
    observation that is committed twice is kept twice.

    The stratum and the settings are those of `alveus.agents.windows.Window`.
    """

    def __init__(
        self, cap: int = INFINITE, stratum: str | Message | None = "", **settings: Unpack[Settings]
    ) -> None:
        settings.setdefault("profile", "thinker")
        super().__init__(cap, stratum, **settings)


Stream = ThinkerStream
