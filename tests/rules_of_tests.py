"""Rules of admission that tests bring along: importable, as a set keeps where they are found."""

from __future__ import annotations

import os
from pathlib import Path

from alveus import Item
from alveus.sets.admission import Candidate, Verdict, admission_rule
from waiting import wait_until

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
def meets(item: Item, candidate: Candidate) -> Verdict:
    """Accept, once as many processes as the metadata say have looked for duplicates of the item."""
    place, of = Path(str(item.metadata["at"])), item.metadata["of"]
    (place / f"{os.getpid()}").touch()
    wait_until(lambda: len(list(place.iterdir())) >= of)
    return Verdict("accept")


@admission_rule
def broken(item: Item, candidate: Candidate) -> Verdict:
    """Raise."""
    raise ZeroDivisionError


@admission_rule  # pyright: ignore[reportArgumentType] - what is refused
def mute(item: Item, candidate: Candidate) -> None:
    """Answer nothing."""
