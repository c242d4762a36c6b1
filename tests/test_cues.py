"""A text that says that something changed is put before the text that it makes outdated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from alveus.search import cues, frames
from alveus.search.changes import asked
from alveus.search.cues import can_be_outdated, cue_of, makes_outdated

LISTS = frames.lists()


def outdated(old: str, new: str, question: str) -> bool:
    """Return whether a later text makes an earlier one outdated."""
    about = asked(question)
    return about is not None and can_be_outdated(old, about) and makes_outdated(new, old, about)


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("I have a Netflix account.", "I cancelled Netflix.", "Do I have a Netflix account?"),
        ("I play tennis.", "I stopped playing tennis, my elbow hurts.", "Do I play tennis?"),
        ("Ben is my roommate.", "Ben moved out.", "Who is my roommate?"),
        ("My phone is a Zeta.", "I got a new phone.", "Which phone do I have?"),
        (
            "Our sprint is two weeks.",
            "We changed the sprint to 3 weeks.",
            "How long is our sprint?",
        ),
        ("The party is in the hall.", "We moved the party to a boat.", "Where is the party?"),
        ("My cat sleeps outside.", "My cat sleeps in my bed now.", "Where does my cat sleep?"),
        ("We use Trello for tasks.", "We use Linear for tasks now.", "What do we use for tasks?"),
    ],
)
def test_a_cue_makes_an_earlier_text_outdated(old: str, new: str, question: str) -> None:
    """For each kind of cue; never the other way round."""
    assert outdated(old, new, question)
    assert not outdated(new, old, question)


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("Our office is in Berlin.", "I left the office at six.", "Where is our office?"),
        ("Tom plays tennis.", "Ann quit tennis.", "Does Tom play tennis?"),
        ("My bike is blue.", "I sold the bike lock.", "What colour is my bike?"),
        ("My car is a red Mazda.", "I moved my car to the garage.", "What car do I have?"),
        ("My boss is Helen.", "My boss cancelled the meeting.", "Who is my boss?"),
        ("I like Thai food.", "I now like Indian food as well.", "What food do I like?"),
        ("I play tennis.", "I might quit tennis.", "Do I play tennis?"),
        ("I play tennis.", "Should I say I quit tennis?", "Do I play tennis?"),
        ("I play tennis.", "I quit tennis.", "What did I play before?"),
        ("I play tennis.", "I quit tennis.", "Which books do I like?"),
        ("I play tennis.", "I quit tennis. " + "I like it. " * 9, "Do I play tennis?"),
        ("The budget is low.", "The budget was cut to 5.", "How is the budget tracked?"),
        ("Bo hat einen Hund.", "Bo hat Spaß, now der Hund.", "Bo Hund hat Spaß?"),
        ("I quit tennis.", "I quit tennis.", "Do I play tennis?"),
        ("", "", ""),
    ],
)
def test_what_merely_has_a_cue_changes_nothing(old: str, new: str, question: str) -> None:
    """It is about somebody or something else, is not sure, or is not asked for."""
    assert not outdated(old, new, question)


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lists that are whole again after the test."""
    yield monkeypatch
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for cached in (frames.english, cues.cue_of, cues._parts, asked):
        cached.cache_clear()


@pytest.mark.parametrize("name", [name for name in LISTS if name.startswith("cue_")])
def test_each_cue_is_needed(lists: pytest.MonkeyPatch, name: str) -> None:
    """Without it, a text says otherwise what changed."""
    phrases = LISTS[name]
    assert len(phrases) == len(set(phrases))
    for phrase in phrases:
        text = f"Ann {phrase} tennis to Bo"
        _forget()
        whole = cue_of(text)
        with lists.context() as one:
            one.setitem(LISTS, name, [other for other in phrases if other != phrase])
            _forget()
            assert cue_of(text) != whole, phrase


def test_words_around_a_cue_are_needed(lists: pytest.MonkeyPatch) -> None:
    """Words of denial, and words that ask for a place or a time."""
    texts: dict[str, Any] = {
        "denials": lambda w: cue_of(f"I {w} longer play tennis now"),
        "wheres": lambda w: outdated(
            "The hall is in Rome.", "The hall was moved to Pisa.", f"{w} is the hall?"
        ),
    }
    for name, says in texts.items():
        words = " ".join(LISTS[name]).split()
        for word in words:
            _forget()
            whole = says(word)
            with lists.context() as one:
                one.setitem(LISTS, name, [other for other in words if other != word])
                _forget()
                assert says(word) != whole, word
