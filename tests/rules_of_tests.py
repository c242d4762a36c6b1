"""Rules of admission that tests bring along: importable, as a set keeps where they are found."""

from __future__ import annotations

from fornix import Item
from fornix.admission import Candidate, Verdict, admission_rule

ASKED: list[str | None] = []


@admission_rule
def no_weather(item: Item, candidate: Candidate) -> Verdict:
    """Hold what is about the weather, merge what is half said already."""
    ASKED.append(item.id)
    if "weather" in candidate.text:
        return Verdict("quarantine", "it is about the weather")
    for like, _ in candidate.alike(0.5):
        return Verdict("merge", "half of it is there", into=like.id)
    return Verdict("accept")


@admission_rule
def broken(item: Item, candidate: Candidate) -> Verdict:
    """Raise."""
    raise ZeroDivisionError


@admission_rule  # pyright: ignore[reportArgumentType] - what is refused
def mute(item: Item, candidate: Candidate) -> None:
    """Answer nothing."""
