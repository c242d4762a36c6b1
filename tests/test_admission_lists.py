"""The lists that the write barrier is measured with, and the figures that it must keep."""

from __future__ import annotations

from collections import Counter

import pytest

from admission_texts import HALVES, LISTS, half_of, lines, samples


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_long_varied_and_split_by_a_hash(name: str):
    """At least 150 different texts, of many kinds; nobody chose which half a text is in."""
    held = lines(name)
    assert len({line["text"] for line in held}) == len(held) >= 150
    assert len({line["kind"] for line in held}) >= 5
    assert [line["half"] for line in held] == [half_of(line["text"]) for line in held]
    halves = Counter(line["half"] for line in held)
    assert min(halves[half] for half in HALVES) >= 70


def test_no_text_is_both_an_attack_and_harmless():
    texts = [sample.text for name in LISTS for sample in samples(name)]
    assert len(set(texts)) == len(texts)
