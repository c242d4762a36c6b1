"""Items as points of a plane: points with nearly the same meaning are near each other.

The plane is that of the two principal components: the directions in which the vectors differ most.
Vectors are read part by part. So the memory beside the index grows only with the number of points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from alveus.search.index import SetIndex
from alveus.values.lazy_dataclass import dataclass
from alveus.values.markup import Figure
from alveus.values.storable import choice

Colouring: TypeAlias = Literal["time", "speaker", "set"]
"""The property that colours the points of a picture."""

STEP = 2_048
"""Vectors read at a time."""

SAMPLE = 16_384
"""Most vectors from which the plane is computed, evenly spread.

For 50,000 items, every point is within 0.02 of the position that all vectors would give. Computing
the plane from all vectors takes three times as long.
"""

AXES = 2

GOLDEN = (5**0.5 - 1) / 2
"""The golden ratio less 1. The fractional parts of its multiples fill 0 to 1 evenly and without a
period."""


@dataclass(frozen=True, slots=True, eq=False)
class MapPoints:
    """Items as points of a plane, as columns of one length.

    The same items always give the same points: the middle of all is at (0, 0), no point is further
    than 1 from it along either axis, and both axes have the same scale.

    Attributes:
        ids: Ids of the items.
        sets: Names of the items' sets.
        x: Position along the direction in which meanings differ most.
        y: Position along the direction at a right angle to it in which they differ most.
        times: Times of the items, in UTC, as `numpy.datetime64`.
        speakers: Speakers of the items; None for an item without a speaker.
        share: Share of the variance that the plane shows, 0..1.
        unplaced: Number of items without a point: they wait for their vectors, or have no text.
        left_out: Number of items beyond the limit.
    """

    ids: Sequence[str]
    sets: Sequence[str]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    times: NDArray[np.datetime64]
    speakers: Sequence[str | None]
    share: float
    unplaced: int
    left_out: int

    def __len__(self) -> int:
        return len(self.ids)

    def plot(self, *, colour: Colouring = "time") -> Figure:
        """Return a picture of the points, coloured by time, speaker or set.

        Raises:
            Unsupported: matplotlib is not installed; ``alveus[plot]`` brings it.
        """
        names = {"speaker": self.speakers, "set": self.sets}
        choice(colour, "colour", "time", "speaker", "set")
        from alveus.values import pictures

        if colour == "time":
            return pictures.map_by_time(self.x, self.y, self.times, says=self._says())
        return pictures.map_by_name(self.x, self.y, names[colour], says=self._says())

    def _says(self) -> str:
        """Return the caption of a picture of the points."""
        says = f"{len(self):,} items by meaning; the plane shows {self.share:.0%} of all difference"
        waiting = f"; {self.unplaced:,} have no vector yet" if self.unplaced else ""
        return f"{says}{waiting}{f'; {self.left_out:,} more' if self.left_out else ''}"


def map_of(
    indexes: Sequence[SetIndex],
    names: Sequence[str],
    allowed: Sequence[NDArray[np.bool_] | None],
    *,
    limit: int | None = None,
) -> MapPoints:
    """Return the items of sets as points of a plane.

    Args:
        names: Names of the sets.
        allowed: The docs of each set to show. None means all live docs.
        limit: Most points. If there are more items, an even sample is shown. None means no limit.
    """
    live = [
        np.flatnonzero(index.alive if mask is None else index.alive & mask)
        for index, mask in zip(indexes, allowed, strict=True)
    ]
    docs = [of[index.has_vectors(of)] for index, of in zip(indexes, live, strict=True)]
    found = sum(map(len, docs))
    unplaced = sum(map(len, live)) - found
    if limit is not None and found > limit:
        docs = _of_each(docs, _spread(found, limit))
    positions, share = _projected(indexes, docs)
    shown = list(zip(indexes, docs, strict=True))
    times = [index.time[of].astype("datetime64[us]") for index, of in shown]
    return MapPoints(
        ids=[item_id for index, of in shown for item_id in index.ids(of)],
        sets=[name for name, of in zip(names, docs, strict=True) for _ in of],
        x=positions[:, 0],
        y=positions[:, 1],
        times=np.concatenate([np.empty(0, "datetime64[us]"), *times]),
        speakers=[name for index, of in shown for name in index.speakers_of(of)],
        share=share,
        unplaced=unplaced,
        left_out=found - len(positions),
    )


def _spread(size: int, limit: int) -> NDArray[np.intp]:
    """Return up to *limit* positions below *size*, ascending, spread evenly without a fixed step.

    A fixed step could match a period of the data: every second message may have the same speaker.
    """
    order = (np.arange(size) * GOLDEN % 1).argsort(kind="stable")
    return np.sort(order[:limit])


def _of_each(docs: Sequence[NDArray[np.intp]], chosen: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return for each set its docs whose positions among the docs of all sets are *chosen*."""
    ends = np.cumsum([len(of) for of in docs])
    starts = ends - [len(of) for of in docs]
    parts = zip(docs, starts, ends, strict=True)
    return [of[chosen[(chosen >= a) & (chosen < b)] - a] for of, a, b in parts]


def _projected(
    indexes: Sequence[SetIndex], docs: Sequence[NDArray[np.intp]]
) -> tuple[NDArray[np.float64], float]:
    """Return the coordinates of docs, in order, and the share of the variance in their plane."""
    found = sum(map(len, docs))
    if not found:
        return np.zeros((0, AXES)), 0.0
    middle, axes, share = _plane(indexes, _of_each(docs, _spread(found, SAMPLE)))
    positions = np.concatenate(
        [
            (index.centres(of[start : start + STEP]) - middle) @ axes
            for index, of in zip(indexes, docs, strict=True)
            for start in range(0, len(of), STEP)
        ]
    ).astype(np.float64)
    positions -= positions.mean(axis=0)
    return positions / (np.abs(positions).max() or 1.0), share


def _plane(
    indexes: Sequence[SetIndex], docs: Sequence[NDArray[np.intp]]
) -> tuple[NDArray[np.float32], NDArray[np.float32], float]:
    """Return the vectors' mean, their two main directions, and the share of variance in these."""
    dimensions = indexes[0].dimensions
    count, total = 0, np.zeros(dimensions)
    products = np.zeros((dimensions, dimensions))
    for index, of in zip(indexes, docs, strict=True):
        for start in range(0, len(of), STEP):
            rows = index.centres(of[start : start + STEP])
            count += len(rows)
            total += rows.sum(axis=0, dtype=np.float64)
            products += rows.T @ rows
    middle = total / count
    spread = products / count - np.outer(middle, middle)
    values, vectors = np.linalg.eigh(spread)
    axes = _turned(vectors[:, : -AXES - 1 : -1])
    whole = float(values.clip(min=0).sum())
    share = float(values[-AXES:].clip(min=0).sum()) / whole if whole > 0 else 0.0
    return middle.astype(np.float32), axes.astype(np.float32), min(share, 1.0)


def _turned(axes: NDArray[Any]) -> NDArray[Any]:
    """Return *axes*, each with the sign for which the cubes of its numbers have a sum above 0.

    The sign of a direction has no meaning. In a sum of cubes large numbers decide, so that a few
    new items seldom flip the picture.
    """
    return axes * np.where((axes**3).sum(axis=0) < 0, -1.0, 1.0)
