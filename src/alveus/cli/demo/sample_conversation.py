"""The conversation of Ines and Tomas: 24 sessions of a year, and 60 questions about it."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import resources
from statistics import median

from alveus.memory.keys import KeyMemory
from alveus.search.signals import Signals
from alveus.transfer import Source
from alveus.values.lazy_dataclass import dataclass

NAME = "ines-tomas"
KEY = "ines"

WORDS_ALONE = Signals(meaning=0, previous=0, next=0, speaker=0, date=0, when=0)

DEPTH = 10
"""Number of first hits in which recall counts answers."""


@contextmanager
def source() -> Generator[Source]:
    """Open the file of the conversation."""
    with resources.files(__package__).joinpath("conversation.jsonl").open("rb") as handle:
        yield Source("conversation.jsonl", handle)


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """A question, and the ids of the items that answer it."""

    text: str
    gold: frozenset[str]


def questions() -> list[DemoQuestion]:
    """Return the questions about the conversation, in its order."""
    with source() as file:
        _, text = next(file.lines())
    return [
        DemoQuestion(asked["question"], frozenset(f"{NAME}/{turn}" for turn in asked["gold"]))
        for asked in json.loads(text)["queries"]
    ]


@dataclass(frozen=True, slots=True)
class RecallScore:
    """The share of answering items that searches found.

    Attributes:
        at: A dict from N to the share found among the first N hits.
        search_ms: Median time of a search, in milliseconds.
    """

    at: dict[int, float]
    search_ms: float


def recall(
    memory: KeyMemory, questions: Sequence[DemoQuestion], signals: Signals | None = None
) -> RecallScore:
    """Search *memory*, which holds the conversation, for each question. Return the recall."""
    depths = (1, 3, 5, DEPTH)
    found = dict.fromkeys(depths, 0.0)
    times: list[float] = []
    for question in questions:
        start = time.perf_counter()
        hits = memory.search(question.text, limit=DEPTH, signals=signals)
        times.append(1000 * (time.perf_counter() - start))
        ids = [hit.item.id for hit in hits]
        for depth in depths:
            found[depth] += len(question.gold.intersection(ids[:depth])) / len(question.gold)
    return RecallScore({k: total / len(questions) for k, total in found.items()}, median(times))
