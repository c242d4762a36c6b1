"""Relevance: a number that means the same in every search, and the least that is wanted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import pytest

from alveus import Item, KeyMemory, Memory, Signals
from alveus.errors import InvalidInput
from alveus.search.ranking import BUNDLED, UNRELATED, calibration_of

NOTES = [
    "My sister Vera keeps bees on the roof of her school.",
    "The dentist moved my appointment to Thursday.",
    "I prefer oat milk in my coffee.",
    "We signed the lease of the flat in Porto.",
    "The car needs new brakes before winter.",
    "Our team won the pub quiz last week.",
    "The boiler was repaired by Mr Hall.",
    "I started to learn Italian with an app.",
    "The neighbours' cat sleeps in our shed.",
]
ANSWERED = [
    "Who keeps bees?",
    "When is my appointment with the dentist?",
    "Which milk do I like in coffee?",
    "Where did we sign a lease?",
    "What does the car need?",
    "Which language am I learning?",
]
UNANSWERED = ["What is 2+2?", "Write a haiku about autumn.", "How does heap sort work?", "thanks!"]


@pytest.fixture(params=["minilm", "static", "words"])
def ada(request: pytest.FixtureRequest) -> Iterator[KeyMemory]:
    with Memory.open(embedder=request.param) as memory:
        key = memory.key("ada")
        key.add_many([Item(note, time=datetime(2024, 2, 2, 2, 2, tzinfo=UTC)) for note in NOTES])
        memory.settle()
        yield key


def test_what_answers_is_found_and_what_does_not_is_left_out(ada: KeyMemory) -> None:
    """At 0.5 nothing is found that has nothing to do with a question, and what answers it is.

    The plainer embedders know no more of "language" and "Italian" than a part of 0.5.
    """
    for question in ANSWERED:
        best = ada.search(question)[0].item.text
        least = 0.2 if "language" in question else 0.5
        assert ada.search(question, min_score=least)[0].item.text == best, question
    for question in UNANSWERED:
        assert len(ada.search(question, min_score=0.5)) == 0, question


def test_a_least_relevance_leaves_out_and_changes_nothing_else(ada: KeyMemory) -> None:
    """Hits keep scores and order; those below are gone; 0 leaves out none and tells all."""
    for question in [*ANSWERED, *UNANSWERED]:
        plain = ada.search(question)
        judged = ada.search(question, min_score=0)
        assert [(hit.item.id, hit.score) for hit in judged] == [
            (hit.item.id, hit.score) for hit in plain
        ]
        assert {hit.relevance for hit in plain} <= {None}
        for least in (0.1, 0.5, 0.9, 1):
            expected = [hit for hit in judged if (hit.relevance or 0) >= least]
            assert [hit.item.id for hit in ada.search(question, min_score=least)] == [
                hit.item.id for hit in expected
            ]
        assert all(0 <= (hit.relevance or 0) <= 1 for hit in judged)


def test_what_is_named_is_evidence() -> None:
    """A speaker, the user or a date that a question names makes an item more relevant."""
    with Memory.open(embedder="words") as memory:
        key = memory.key("ada")
        key.add("Tea at four.", speaker="Vera")
        key.add("Tea at four.", speaker="Hugo", time=datetime(2023, 5, 8, tzinfo=UTC))
        key.add("Tea at four.", role="user")
        for question, wanted in (
            ("What did Vera say of tea?", {"speaker": "Vera"}),
            ("What of tea on 8 May 2023?", {"speaker": "Hugo"}),
            ("Do I like tea?", {"role": "user"}),
        ):
            hits = key.search(question, min_score=0)
            best = max(hits, key=lambda hit: hit.relevance or 0)
            assert {name: getattr(best.item, name) for name in wanted} == wanted


def test_relevance_is_the_same_in_a_large_set_and_with_any_weights() -> None:
    """It does not follow from the score: weights, limits and other items found change nothing."""
    draw = random.Random(4)
    nouns = ["tea", "oak", "sun", "fox", "rye", "elm", "sky", "ink"]
    texts = [" ".join(draw.choices(nouns, k=5)) for _ in range(40)]
    with Memory.open(embedder="static") as memory:
        key = memory.key("ada")
        key.add_many(texts)
        memory.settle()

        def relevances(**options: object) -> dict[str | None, float]:
            hits = key.search("sun and rye", min_score=0, **options)  # pyright: ignore[reportArgumentType] - on purpose
            return {hit.item.id: round(hit.relevance or 0, 9) for hit in hits}

        everything = relevances(limit=40)
        few = relevances(limit=3)
        assert few == {name: everything[name] for name in few}
        weighed = relevances(limit=40, signals=Signals(words=0.5, session=0, recency=2))
        assert weighed == everything


class Crooked:
    """An embedder all of whose vectors lie close together, as those of some models do."""

    name = "crooked"
    dimensions = 32
    instant = True

    def embed(self, texts):
        rows = []
        for text in texts:
            draw = np.random.default_rng([ord(c) for c in text.lower()[:30]])
            rows.append(2.0 + 0.9 * draw.normal(size=self.dimensions))
        wide = np.array(rows, np.float32)
        return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def test_an_embedder_is_measured_by_texts_that_have_nothing_in_common() -> None:
    """What is alike in all its vectors is no likeness."""
    found = calibration_of(Crooked())
    assert 0.7 < found.unrelated < 0.95
    with Memory.open(embedder=Crooked()) as memory:
        key = memory.key("ada")
        key.add_many(NOTES)
        hits = key.search("heap sort", min_score=0)
        assert max(hit.relevance or 0 for hit in hits) < 0.5
        assert key.search(NOTES[0], min_score=0.9)[0].item.text == NOTES[0]
    assert set(BUNDLED) == {"minilm", "static"}
    assert len(set(UNRELATED)) == len(UNRELATED)


@pytest.mark.parametrize("least", [-0.1, 1.1, "0.5", True, float("nan")])
def test_a_least_relevance_that_makes_no_sense_is_refused(ada: KeyMemory, least: object) -> None:
    """The error names the argument and its range."""
    with pytest.raises(InvalidInput, match=r"min_score must be a number from 0 to 1"):
        ada.search("tea", min_score=least)  # pyright: ignore[reportArgumentType] - on purpose
