"""Links: what is so many hops away from what was found, against a search of every way."""

from __future__ import annotations

from itertools import pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from alveus.agents.windows.semantic import expanded

NAMES = "abcdef"
GRAPHS = st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=12)
HITS = st.dictionaries(st.sampled_from(NAMES), st.floats(0.01, 1), max_size=3)


def around(links):
    return lambda one: [b if a == one else a for a, b in links if one in (a, b)]


def every_way(hits, links, hops, decay):
    """What each is worth, by trying all ways of up to so many hops."""
    both = links | {(b, a) for a, b in links}
    worth = dict(hits)
    for length in range(1, hops + 1):
        for way in product(NAMES, repeat=length + 1):
            if way[0] in hits and all(step in both for step in pairwise(way)):
                value = hits[way[0]]
                for _ in range(length):
                    value *= decay
                if value > worth.get(way[-1], 0):
                    worth[way[-1]] = value
    return worth


@given(HITS, GRAPHS, st.integers(0, 3), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_the_best_way_counts(hits, links, hops, decay):
    """Whatever the circles: each is worth the best of the ways to it, none longer than asked."""
    found = expanded(hits, around(links), hops=hops, decay=decay, cap=99)
    assert found == every_way(hits, links, hops, decay)
    assert list(found.values()) == sorted(found.values(), reverse=True)


@given(HITS, GRAPHS, st.integers(0, 3), st.integers(0, 4))
def test_the_cap_leaves_out_the_least(hits, links, hops, cap):
    """Hits always stay; of the others as many as there is room for, the best."""
    all_of_it = expanded(hits, around(links), hops=hops, decay=0.5, cap=99)
    found = expanded(hits, around(links), hops=hops, decay=0.5, cap=cap)
    assert hits.keys() <= found.keys()
    linked = [one for one in all_of_it if one not in hits]
    assert {one for one in found if one not in hits} == set(linked[:cap])


def test_a_hub_is_one_step():
    """Ten thousand neighbours, all linked to each other through one, are looked at once each."""
    asked: list[str] = []
    others = [f"{n:05}" for n in range(10_000)]

    def neighbours(one):
        asked.append(one)
        return others if one == "hub" else ["hub"]

    found = expanded({"hub": 1.0}, neighbours, hops=5, decay=0.5, cap=3)
    assert list(found) == ["hub", "09999", "09998", "09997"]
    assert len(asked) == 10_001
