"""Taking the lines of the change log into a loaded set."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from fornix.index.setindex import SetIndex
from fornix.store import Change, ChangeKind, Feature, Finder

FETCHED = 5_000
"""Features read at a time."""


class Outdated(Exception):
    """What changed cannot be taken into the set as it is; it must be read anew."""


def apply(changes: Iterable[Change], index: SetIndex, finder: Finder, number: int) -> None:
    """Take *changes* of set *number* into *index*. Those it has already change nothing.

    Raises:
        Outdated: A row came below one that is there, or vectors took the place of others. Some of
            the changes may be in the index.
    """
    rows: dict[ChangeKind, set[int]] = {"added": set(), "ended": set(), "embedded": set()}
    for change in changes:
        rows["ended" if change.kind == "removed" else change.kind].add(change.row)
    added, ended = rows["added"], rows["ended"]
    new = {row for row in added - ended if not index.knows(row)}
    for features in _features(new, finder, number):
        live = sorted((f for f in features if f.ended is None), key=lambda feature: feature.row)
        if live and index.size and live[0].row < int(index.row[-1]):
            raise Outdated
        index.extend(live)
    known = {row for row in rows["embedded"] - ended - new if index.find(row) is not None}
    for features in _features(known, finder, number):
        for feature in features:
            index.embedded(feature)
            if not index.has_vectors_of(feature):
                raise Outdated
    for row in ended:
        index.end(row)


def _features(rows: Iterable[int], finder: Finder, number: int) -> Generator[list[Feature]]:
    ordered = sorted(rows)
    for start in range(0, len(ordered), FETCHED):
        yield finder.features_of(number, ordered[start : start + FETCHED])
