"""How a window is set up, and what it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, TypedDict

from fornix.agents.storage import Now
from fornix.agents.windows.reflection import Reflection
from fornix.agents.windows.scorers import Scoring
from fornix.errors import InvalidInput
from fornix.memory.keys import KeySets
from fornix.sets.writer import Writer
from fornix.text.budget import Budget
from fornix.text.messages import Message

CAP = 100
"""Units that a window holds, unless it is told otherwise."""

Evict: TypeAlias = Literal["oldest", "least important", "least recently used"]
"""What a full window lets go first."""

Profile: TypeAlias = Literal["fornix", "thinker"]
"""Whose rules a window keeps; see `Window`."""


class Settings(TypedDict, total=False):
    """What every window takes besides its cap and its stratum; see `Window`."""

    memory: KeySets | None
    name: str | None
    budget_tokens: int | Budget | None
    evict: Evict | None
    keep_recent: int
    scorer: Scoring | None
    reflection: Reflection | None
    now: Now
    profile: Profile


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """What a window is asked for.

    Attributes:
        prompt: What comes last; None: nothing, or what is asked for is room.
        now: The time.
        writer: What reads the window.
        known: What `Window.known` found out about the prompt.
    """

    prompt: Message | None
    now: datetime
    writer: Writer
    known: object = None


def refuse(settings: Settings, names: Collection[str], window: str) -> None:
    """Refuse settings that a window has made itself, or cannot go by."""
    for name in names:
        if name in settings and (name, settings[name]) != ("profile", "fornix"):
            raise InvalidInput(f"{window} takes no {name}={settings[name]!r}; it has its own")


def stratum_of(given: str | Message | None) -> tuple[Message, ...]:
    """Return what a context begins with: one message, or none."""
    if given is None or given == "":
        return ()
    return (given if isinstance(given, Message) else Message.stratum(given),)


def one_of(given: str, names: Sequence[str], what: str) -> str:
    """Return *given* if it is one of *names*."""
    if given not in names:
        listed = ", ".join(repr(name) for name in names)
        raise InvalidInput(f"{what} of a window must be one of {listed}; not {given!r}")
    return given
