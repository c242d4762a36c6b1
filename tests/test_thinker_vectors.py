"""The vectors of thinker's memory, by their ids: what is kept, and what is mended.

A test is named after its vector: `test_t29_…` is vector T29. Its docstring says what both do, or
what thinker, or the guide that it was to have, does, and what fornix does instead.
"""

from __future__ import annotations

import numpy as np
import pytest

from fornix.context import (
    Hierarchical,
    Hybrid,
    Linked,
    Observation,
    Reply,
    Semantic,
    float8,
)
from fornix.context.links import expanded
from fornix.embed import pack_vector, unpack_vector
from fornix.messages import Message


def cycle(name, importance=0.0):
    """An observation whose query is its name, and whose reply is that in small letters."""
    return Observation(name, Reply(Message(name.lower(), "assistant"), importance=importance))


def shown(window, prompt="p"):
    """The observations of a context by their names, and the prompt."""
    return [m.content for m in window.context(prompt) if m.role != "assistant"]


def names(observations):
    return [str(one.query.content) for one in observations]


def letters(texts):
    """Vectors: texts that begin with one letter are alike, others are not."""
    return [[float(ord(text[0].upper()) == code) for code in range(65, 91)] for text in texts]


class Letters:
    name, dimensions, instant = "letters", 26, True

    def embed(self, texts):
        return np.array(letters(texts), np.float32)


def test_t29_important_and_recent():
    """The guide: C, prompt, A: what is important comes after the prompt.

    fornix: A, C, prompt. In both B is let go, whose importance is the threshold itself.
    """
    window = Hybrid(1, 0.5)
    gone = [window.commit(cycle(n, i)) for n, i in (("A", 0.9), ("B", 0.5), ("C", 0.2))]
    assert shown(window) == ["A", "C", "p"]
    assert [names(one) for one in gone] == [[], [], ["B"]]


def test_t30_important_while_recent():
    """The guide: A, B, prompt, A: what is both is there twice.

    fornix: A, B, prompt.
    """
    window = Hybrid(2, 0.5)
    for name, importance in (("A", 0.9), ("B", 0.2)):
        window.commit(cycle(name, importance))
    assert shown(window) == ["A", "B", "p"]


@pytest.mark.parametrize("embedder", [None, Letters()])
def test_t31_fewer_than_asked_for(embedder):
    """Both: of three observations a search for five finds three; in fornix in order of time."""
    window = Semantic(5, embedder=embedder)
    for name in ("C", "A", "B"):
        window.commit(cycle(name))
    assert shown(window, "A") == ["C", "A", "B", "A"]


def test_t35_a_link_is_followed():
    """The guide names linked observations, and nothing more.

    fornix: what is linked to a hit of 1.0 is worth 0.5 after a hop, with the decay 0.5.
    """
    links = {"A": ["B"], "B": ["A", "C"], "C": ["B"]}
    found = expanded({"A": 1.0}, links.__getitem__, hops=1, decay=0.5, cap=1)
    assert found == {"A": 1.0, "B": 0.5}
    window = Linked(1, hops=1, decay=0.5, linked=1, embedder=Letters())
    a, b = cycle("A"), cycle("B")
    for one in (a, b, cycle("C"), cycle("Z")):
        window.commit(one)
    assert shown(window, "A") == ["A", "Z", "A"]
    window.link(a, b)
    assert shown(window, "A") == ["A", "B", "Z", "A"]


def test_t36_what_leaves_a_layer():
    """The guide names layers of memory, and nothing more.

    fornix: layers of one and two hold D, and B and C; A is returned.
    """
    window = Hierarchical(1, 2)
    gone = [names(window.commit(cycle(name))) for name in "ABCD"]
    assert [names(layer) for layer in window.layers()] == [["D"], ["B", "C"]]
    assert gone == [[], [], [], ["A"]]
    assert shown(window) == ["B", "C", "D", "p"]


def test_t37_one_byte_floats():
    """Both: the bytes 38, 3c, b8, 77 and 01 are 1.0, 1.5, -1.0, 240 and 0.008789."""
    found = float8(bytes.fromhex("383cb87701"))
    assert found.tolist() == [1.0, 1.5, -1.0, 240.0, pytest.approx(0.008789, abs=1e-6)]


def test_t38_what_is_kept_of_a_vector():
    """thinker: 0.1, 0.3, 0.7, 0.007 and -0.999 become .09375, .28125, .6875, 0 and -.9375.

    fornix: whole numbers of a byte behind a scale: none is off by more than 0.004, and of a vector
    with 1,536 numbers, all of which thinker loses, the direction is kept.
    """
    given = np.array([0.1, 0.3, 0.7, 0.007, -0.999], np.float32)
    assert np.abs(unpack_vector(pack_vector(given)) - given).max() < 0.004
    small = np.random.default_rng(0).uniform(-0.0078, 0.0078, 1536).astype(np.float32)
    again = unpack_vector(pack_vector(small))
    assert small @ again / np.linalg.norm(small) / np.linalg.norm(again) > 0.9999
