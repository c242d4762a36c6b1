"""Which items lie together by meaning, and which say nearly the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Vectors, dequantise
from alveus.embed.vectors import unit
from alveus.store import Feature, StoredItem
from alveus.store.records import RecordMaker
from alveus.text.row_groups import grouped
from alveus.values import words

HASHED = 512
"""Dimensions of the vectors of words, where an embedder gives none."""

MOST_JOINED = 2_000
"""Rows that are compared with each other to find topics."""

DECIMALS = 4
"""Of a cosine; smaller differences are rounding."""

AT_ONCE = 128
"""Rows whose cosines are computed together."""


def meanings(
    items: Sequence[StoredItem], features: Mapping[int, Feature], recorder: RecordMaker
) -> Vectors:
    """Return a unit row per item: of its vectors as they are stored, else of its words.

    What waits for its vectors is embedded here.
    """
    dimensions = recorder.embedder.dimensions
    if not dimensions:
        return unit(np.stack([_hashed(features.get(s.row)) for s in items]))
    waiting = [s for s in items if s.row in features and features[s.row].vectors is None]
    made = dict(
        zip(
            (s.row for s in waiting),
            recorder.vectors([s.record for s in waiting]) if waiting else (),
            strict=True,
        )
    )
    rows = np.zeros((len(items), dimensions), dtype=np.float32)
    for at, stored in enumerate(items):
        feature = features.get(stored.row)
        packed = made.get(stored.row) or (feature.vectors if feature is not None else b"")
        windows = dequantise(packed or b"", dimensions).astype(np.float32)
        if len(windows):
            rows[at] = unit(windows).mean(axis=0)
    return unit(rows)


def _hashed(feature: Feature | None) -> NDArray[np.float32]:
    row = np.zeros(HASHED, dtype=np.float32)
    if feature is not None:
        terms, counts = words.unpack(feature.terms)
        np.add.at(row, terms % HASHED, np.sqrt(counts.astype(np.float32)))
    return row


def topics(rows: Vectors, limit: int) -> list[list[int]]:
    """Return the places of *rows* in at most *limit* groups, the group of the first row first.

    Deterministic. Those are put together first that lose least by it (Ward, 1963); of very many
    rows, those that lie around few centres.
    """
    if limit == 1 or len(rows) <= 1:
        return [list(range(len(rows)))]
    if len(rows) > MOST_JOINED:
        return sorted(grouped(rows, limit))
    leader = list(range(len(rows)))
    for _, pair in sorted(_joined(rows))[: max(0, len(rows) - limit)]:
        first, second = sorted(_led(leader, place) for place in pair)
        leader[second] = first
    groups: dict[int, list[int]] = {}
    for place in range(len(rows)):
        groups.setdefault(_led(leader, place), []).append(place)
    return list(groups.values())


def _led(leader: Sequence[int], place: int) -> int:
    while leader[place] != place:
        place = leader[place]
    return place


def _joined(rows: Vectors) -> list[tuple[float, tuple[int, int]]]:
    """Return every join of two groups until one is left: what it costs, and a row of each.

    By chains of nearest neighbours (Murtagh, 1983), which finds the joins in another order.
    """
    apart = 2 - 2 * np.round(rows @ rows.T, DECIMALS).astype(np.float64)
    np.fill_diagonal(apart, np.inf)
    sizes = np.ones(len(rows))
    found: list[tuple[float, tuple[int, int]]] = []
    chain: list[int] = []
    while len(found) < len(rows) - 1:
        if not chain:
            chain = [int(np.argmax(sizes > 0))]
        last = chain[-1]
        nearest = int(np.argmin(apart[last]))
        if len(chain) > 1 and apart[last, chain[-2]] <= apart[last, nearest]:
            nearest = chain[-2]
            del chain[-2:]
            found.append((float(apart[last, nearest]), (last, nearest)))
            _join(apart, sizes, *sorted((last, nearest)))
        else:
            chain.append(nearest)
    return found


def _join(apart: NDArray[np.float64], sizes: NDArray[np.float64], kept: int, gone: int) -> None:
    """Make one group of two, and note how far it is from the others (Lance and Williams, 1967)."""
    one, other, together = sizes[kept], sizes[gone], sizes[kept] + sizes[gone]
    others = sizes > 0
    others[[kept, gone]] = False
    size = sizes[others]
    joined = (one + size) * apart[kept, others] + (other + size) * apart[gone, others]
    joined = (joined - size * apart[kept, gone]) / (together + size)
    apart[gone, :] = apart[:, gone] = np.inf
    apart[kept, :] = np.inf
    apart[kept, others] = joined
    apart[:, kept] = apart[kept, :]
    sizes[kept], sizes[gone] = together, 0


def alike(
    rows: Vectors, texts: Sequence[str], kinds: Sequence[object], threshold: float
) -> list[list[int]]:
    """Return groups, of two at least, of places that say nearly the same as the group's first.

    Of different *kinds*, nothing is alike.
    """
    leader = list(range(len(rows)))
    same: dict[object, int] = {}
    for at, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        said = " ".join(text.casefold().split())
        leader[at] = same.setdefault((said, kind), at) if said else at
    leading: dict[object, list[int]] = {}
    for at, kind in enumerate(kinds):
        if leader[at] == at:
            leading.setdefault(kind, []).append(at)
    for places in leading.values():
        _follow(rows[places], places, leader, threshold)
    groups: dict[int, list[int]] = {}
    for at, first in enumerate(leader):
        groups.setdefault(leader[first], []).append(at)
    return [group for group in groups.values() if len(group) > 1]


def _follow(rows: Vectors, places: Sequence[int], leader: list[int], threshold: float) -> None:
    """Have each of *places* led by the first one before it that leads and is near, if one is.

    Only those that lead are compared with what comes after them.
    """
    leading, led = list[int](), np.empty_like(rows)
    for start in range(0, len(rows), AT_ONCE):
        block = rows[start : start + AT_ONCE]
        before = len(leading)
        near = block @ led[:before].T >= threshold
        beside = block @ block.T >= threshold
        for row in range(len(block)):
            found = int(near[row].argmax()) if near[row].any() else before
            while before <= found < len(leading) and not beside[row, leading[found] - start]:
                found += 1
            if found < len(leading):
                leader[places[start + row]] = places[leading[found]]
            else:
                led[found] = block[row]
                leading.append(start + row)
