"""Rows that lie together, found without chance: the same groups of the same rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Vectors

ROUNDS = 8
"""How often groups are drawn anew around their centres, at most."""

DECIMALS = 4
"""Of a cosine; smaller differences are rounding, and the earlier group has the row."""


def grouped(rows: Vectors, limit: int) -> list[list[int]]:
    """Return the places of *rows* in at most *limit* groups, each ascending, none empty.

    Centres begin with the row nearest to the mean, then each time the row farthest from all of
    them (Gonzalez, 1985), and move to the mean of their group until nothing changes.
    """
    centres = rows[_seeds(rows, limit)]
    nearest = _nearest(rows, centres)
    for _ in range(ROUNDS):
        centres = np.stack(
            [_centre(rows[nearest == at], centre) for at, centre in enumerate(centres)]
        )
        moved = _nearest(rows, centres)
        if (moved == nearest).all():
            break
        nearest = moved
    return [np.flatnonzero(nearest == at).tolist() for at in np.unique(nearest)]


def _seeds(rows: Vectors, limit: int) -> list[int]:
    seeds = [int(np.argmax(_cosines(rows, rows.mean(axis=0))))]
    alike = np.where(rows.any(axis=1), _cosines(rows, rows[seeds[0]]), 1)
    while len(seeds) < limit:
        farthest = int(np.argmin(alike))
        if alike[farthest] >= 1:  # it equals a seed, or is a row of zeros: it founds no group
            break
        seeds.append(farthest)
        alike = np.maximum(alike, _cosines(rows, rows[farthest]))
    return seeds


def _nearest(rows: Vectors, centres: Vectors) -> NDArray[np.intp]:
    return np.argmax(_cosines(rows, centres.T), axis=1)


def _cosines(rows: Vectors, others: Vectors) -> Vectors:
    return np.round(rows @ others, DECIMALS)


def _centre(members: Vectors, old: Vectors) -> Vectors:
    """Return the direction of the mean of *members*; *old*, if there is none."""
    total = members.sum(axis=0)
    length = np.linalg.norm(total)
    return total / length if length > 0 else old
