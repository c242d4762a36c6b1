"""The meanings of items as rows, and which items say nearly the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Vectors, dequantise
from alveus.embed.vectors import unit
from alveus.store import Feature, StoredItem
from alveus.store.records import RecordMaker
from alveus.values import words

HASHED = 512
"""Dimensions of the vectors of words, where an embedder gives none."""

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
