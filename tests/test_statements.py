"""Whether two texts say the same: by a list of pairs, at the write and in a prompt."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alveus import Memory
from alveus.sets.admission import Near
from alveus.text.statements import anchor_words, anchors, statement
from alveus.values import words
from scale import COUNTS

PAIRS = Path(__file__).parent / "data" / "same_or_not.jsonl"


class Pair(NamedTuple):
    """Two texts, whether they say the same, and whether they were held back while tuning."""

    kind: str
    same: bool
    held_out: bool
    a: str
    b: str


def pairs() -> list[Pair]:
    return [Pair(**json.loads(line)) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module", params=["static", "words", *["minilm"][: COUNTS.embedded // 400]])
def merged(request: pytest.FixtureRequest) -> dict[Pair, tuple[bool, bool]]:
    """Return of each pair whether it is one item at the write, and one line of a prompt."""
    written: dict[Pair, bool] = {}
    with Memory.open(":memory:", embedder=request.param) as memory:
        for number, pair in enumerate(pairs()):
            guarded = memory.key("ada").set(f"{number}", admission=[Near()])
            written[pair] = guarded.add(pair.a) == guarded.add(pair.b)
    found: dict[Pair, tuple[bool, bool]] = {}
    with Memory.open(":memory:", embedder=request.param) as memory:  # waits for no vectors of those
        for number, pair in enumerate(pairs()):
            key = memory.key(f"{number}")
            key.add_many([pair.a, pair.b])
            made = key.context(f"{pair.a} {pair.b}", superseded="show")
            shown = [piece for piece in made.why if piece.part == "items" and piece.shown]
            found[pair] = written[pair], len(shown) == 1
    return found


def test_the_list_is_large_enough() -> None:
    """Of 300 pairs and more half says the same, half of either was held back."""
    for same, least in ((True, 70), (False, 75)):
        for held_out in (True, False):
            chosen = [p for p in pairs() if (p.same, p.held_out) == (same, held_out)]
            assert len(chosen) >= least
    assert len({(p.a, p.b) for p in pairs()}) == len(pairs()) >= 300


@pytest.mark.parametrize("held_out", [False, True])
def test_what_says_something_else_is_never_dropped(
    merged: dict[Pair, tuple[bool, bool]], held_out: bool
) -> None:
    """No tense, negation, question, number, date or name is swallowed, in either place."""
    assert [
        pair
        for pair, places in merged.items()
        if pair.held_out == held_out and not pair.same and any(places)
    ] == []


@pytest.mark.parametrize("place", [0, 1], ids=["write", "prompt"])
@pytest.mark.parametrize("held_out", [False, True])
def test_what_says_the_same_is_mostly_seen(
    merged: dict[Pair, tuple[bool, bool]], held_out: bool, place: int
) -> None:
    """Four of five; what says it in other words is beyond words."""
    same = [places[place] for p, places in merged.items() if p.same and p.held_out == held_out]
    assert sum(same) >= 0.8 * len(same)


def test_pairs_are_judged_alike_in_both_orders() -> None:
    """Whichever text comes first."""
    for pair in pairs():
        one, other = statement(pair.a), statement(pair.b)
        assert one.says_the_same(other) == other.says_the_same(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ich habe einen Hund.", "Ich habe Hund."),
        ("Ich denke an Bob.", "Ich denke Bob."),
        ("Voy a casa.", "Voy casa."),
        ("Il a la clé.", "Il la clé."),
        ("Das ist also gut.", "Das ist gut."),
        ("Er kommt nicht.", "Er kommt."),
        ("你好吗", "你好"),
        ("x != 1", "x = 1"),
        ("Use rm -r here.", "Use rm r here."),
        ("IT helps me.", "It helps me."),
        ('Ada said "I will pay for it".', "Ada said I will pay for it."),
        ("I'd gone by then.", "I would gone by then."),
        ("See https://e.org/a?b=1", "See https://e.org/a?b=2"),
        ("👍", "👎"),
    ],
)
def test_signs_and_other_languages_are_not_read_as_english(one: str, other: str) -> None:
    """What is no English word or spelling is the same only if it is written the same."""
    assert not statement(one).says_the_same(statement(other))


@pytest.mark.parametrize(
    "text", ["Ich habe Äpfel", "ДОМ у моря", "¿dónde estás?", "我爱你", "It’s Ana’s"]
)
def test_any_language_says_the_same_but_for_case_and_punctuation(text: str) -> None:
    """So a text and itself, shouted."""
    for other in (text.upper(), f"  {text} !", text.lower()):
        assert statement(text).says_the_same(statement(other))


def test_today_is_another_day_tomorrow() -> None:
    """What is said of "today" is said again on another day: both are kept and shown."""
    with Memory.open(":memory:", embedder="words") as memory:
        ada = memory.key("ada").set("facts", admission=[Near()])
        first, second = (datetime(2024, 5, day, 8, tzinfo=UTC) for day in (3, 4))
        for text, differs in (("I see the vet today.", True), ("I have a vet.", False)):
            ids = [ada.add(text, time=first), ada.add(text.upper(), time=second)]
            assert (ids[0] != ids[1]) == differs
            assert ada.add(f"{text}!", time=first.replace(hour=9)) == ids[0]
        shown = memory.key("ada").context("vet").why
        assert sum(piece.shown for piece in shown if piece.part == "items") == 3


def test_a_threshold_lets_words_differ_but_nothing_else() -> None:
    """Below 1 nouns and verbs may differ so far; names, forms, negations and numbers may not."""
    text = "My neighbour Ruth waters the tall tomato plants on my balcony"
    with Memory.open(":memory:", embedder="words") as memory:
        facts = memory.key("ada").set("facts", admission=[Near(0.7)])
        first = facts.add(f"{text}.")
        assert facts.add(f"{text.replace('tall', 'small')}.") == first
        assert facts.add(f"{text} daily.") == first
        for old, new in (("waters", "watered"), ("my", "no"), ("Ruth", "Ute"), ("the", "the 3")):
            assert facts.add(f"{text.replace(old, new)}.") != first
        assert facts.add("Ruth waters plants.") != first


WORDS = """
    I you us the a is was not 3 three May 5 first ? . , ! don't cannot can't Ada very on Monday too
    that please 1,500 percent %
""".split()  # noqa: SIM905 - a list of words reads best as text
TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


@given(TEXTS, TEXTS)
def test_what_says_the_same_has_the_same_anchors(one: str, other: str) -> None:
    """Candidates are looked for by them: none that says the same may be missed."""
    first, second = statement(one), statement(other)
    assert first.says_the_same(second) == second.says_the_same(first)
    assert first.says_the_same(first)
    if first.says_the_same(second):
        assert set(anchor_words(one)) == set(anchor_words(other))
        assert set(anchors(one)) <= set(words.terms(other))


@given(st.text(max_size=80))
def test_any_text_can_be_read(text: str) -> None:
    """And says what it says, whatever is in it."""
    assert statement(text).says_the_same(statement(text))
    assert statement(text).says_the_same(statement(f" {text} "))
    anchors(text)


@pytest.mark.parametrize("pair", [p for p in pairs() if p.same], ids=lambda pair: pair.a)
def test_anchors_of_pairs_that_are_the_same(pair: Pair) -> None:
    """The lists' pairs too: see `test_what_says_the_same_has_the_same_anchors`."""
    if statement(pair.a).says_the_same(statement(pair.b)):
        assert set(anchor_words(pair.a)) == set(anchor_words(pair.b))
