"""How alike texts are, where many ask at once."""

from __future__ import annotations

import numpy as np

from alveus.search.similarity import REMEMBERED, Nearness


def test_what_others_push_out_of_memory_is_still_answered():
    """While one call waits for its vectors, others may fill the memory; its own are not lost."""
    others = [f"text {number}" for number in range(2 * REMEMBERED)]

    def embed(texts: list[str]) -> list[list[float]]:
        if texts == ["new"]:
            near.vectors(others)  # as another thread would, between our two looks
        return [[float(len(text)), 1.0] for text in texts]

    near = Nearness(embed)
    (old,) = near.vectors(["old"])
    again, new, same = near.vectors(["old", "new", "old"])
    assert np.array_equal(again, old)
    assert np.array_equal(same, old)
    assert np.array_equal(new, old)  # three letters each
