"""Taking the lines of the change log into a loaded set."""

from __future__ import annotations

from collections.abc import Iterable

from fornix.index.setindex import SetIndex
from fornix.store import Change, Finder

FETCHED = 5_000
"""Features read at a time."""


class OutOfOrder(Exception):
    """A row was added below one that is there; the set must be read anew."""


def apply(changes: Iterable[Change], index: SetIndex, finder: Finder, number: int) -> None:
    """Take *changes* of set *number* into *index*. Those it has already change nothing.

    Raises:
        OutOfOrder: It must be read anew; some of the changes may be in it.
    """
    added: set[int] = set()
    ended: set[int] = set()
    embedded: set[int] = set()
    for change in changes:
        if change.kind == "added":
            added.add(change.row)
        elif change.kind == "embedded":
            embedded.add(change.row)
        else:
            ended.add(change.row)
    _add(sorted(row for row in added - ended if not index.knows(row)), index, finder, number)
    waiting = [row for row in embedded - ended if index.awaits(row)]
    for start in range(0, len(waiting), FETCHED):
        for feature in finder.features_of(number, waiting[start : start + FETCHED]):
            index.embedded(feature)
    for row in ended:
        index.end(row)


def _add(rows: list[int], index: SetIndex, finder: Finder, number: int) -> None:
    for start in range(0, len(rows), FETCHED):
        found = finder.features_of(number, rows[start : start + FETCHED])
        live = sorted((f for f in found if f.ended is None), key=lambda feature: feature.row)
        if not live:
            continue
        if index.size and live[0].row < int(index.row[-1]):
            raise OutOfOrder
        index.extend(live)
