"""Rows that lie together, found without chance: the same groups of the same rows."""

from __future__ import annotations

import numpy as np

from alveus.embed import Vectors
from alveus.embed.vectors import unit

MOST_JOINED = 1_000
"""Rows that are joined into groups; of more rows, so many are, and each other one goes to the group
whose mean it is nearest to."""

DECIMALS = 4
"""Of a cosine; smaller differences are rounding, and the earlier group has the row."""


def grouped(rows: Vectors, limit: int) -> list[list[int]]:
    """Return the places of *rows*, of unit length or zero, in at most *limit* groups.

    Each group is ascending, none is empty, and they are in the order of their first rows. Equal
    rows are in one group.
    """
    if limit == 1:
        return [list(range(len(rows)))]
    step = -(-len(rows) // MOST_JOINED)
    groups = _joined(rows[::step], limit)
    if step > 1:
        means = np.stack([rows[::step][group].mean(axis=0) for group in groups])
        nearest = np.argmax(np.round(rows @ unit(means).T, DECIMALS), axis=1)
        groups = [np.flatnonzero(nearest == at).tolist() for at in np.unique(nearest)]
    return sorted(groups)


def _joined(rows: Vectors, limit: int) -> list[list[int]]:
    """Return groups that were made by joining, each time, the two that lose least by it.

    What is lost is nearness to the means of groups (Ward, 1963); how far a joined group is from
    the others follows from its parts (Lance and Williams, 1967).
    """
    products = np.round(rows @ rows.T, DECIMALS).astype(np.float64)
    squares = products.diagonal()
    apart = squares[:, None] + squares - 2 * products
    np.fill_diagonal(apart, np.inf)
    groups, sizes = [[at] for at in range(len(rows))], np.ones(len(rows))
    for left in range(len(rows), 1, -1):
        kept, gone = sorted(divmod(int(apart.argmin()), len(rows)))
        if left <= limit and apart[kept, gone] > 0:
            break
        one, other = sizes[kept], sizes[gone]
        joined = (one + sizes) * apart[kept] + (other + sizes) * apart[gone]
        joined -= sizes * apart[kept, gone]
        apart[kept] = apart[:, kept] = joined / (one + other + sizes)
        apart[gone] = apart[:, gone] = apart[kept, kept] = np.inf
        sizes[kept], sizes[gone] = one + other, 0
        groups[kept] += groups[gone]
        groups[gone] = []
    return [sorted(group) for group in groups if group]
