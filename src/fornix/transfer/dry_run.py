"""What an import would do, found out before it does anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fornix.transfer.foreign_formats import Target
from fornix.transfer.import_entries import (
    AccessedLine,
    Begun,
    CommitLine,
    Entry,
    ItemLine,
    SetLine,
    Skipped,
)
from fornix.transfer.import_formats import Layout, entries
from fornix.transfer.import_source import Source

STEP = 500
"""Entries after which progress is told."""

SAMPLE = 3
"""Items that a survey keeps to be looked at."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a file has in it.

    Attributes:
        layout: Its format.
        entries: What would be written: items, sets, nodes of exact memory.
        items: How many items, by key and set; the key None is knowledge. In a history, versions.
        skipped: How much is left out, by the reason.
        sample: The first items, each with its key and set.
    """

    layout: Layout
    entries: int
    items: Mapping[tuple[str | None, str], int]
    skipped: Mapping[str, int]
    sample: tuple[ItemLine, ...]

    @property
    def keys(self) -> int:
        """How many keys have items."""
        return len({key for key, _ in self.items if key is not None})


def survey(
    source: Source,
    layout: Layout,
    target: Target | None,
    *,
    progress: Callable[[int], None] = lambda _count: None,
) -> Survey:
    """Return what a file has in it, after reading all of it; nothing is written.

    Args:
        progress: Called with the number of entries read since the last call.

    Raises:
        InvalidInput: A record cannot be used, or names an item or a field a second time.
    """
    count = 0
    seen: dict[int, int] = {}
    items: Counter[tuple[str | None, str]] = Counter()
    skipped: Counter[str] = Counter()
    sample: list[ItemLine] = []
    for number, entry in entries(source, layout, target):
        if isinstance(entry, Skipped):
            skipped[entry.reason] += 1
            continue
        count += 1
        if not count % STEP:
            progress(STEP)
        named = _named(entry)
        first = seen.setdefault(hash(named), number)
        if len(seen) < count:
            problem = f"{named[-1]!r} was there before, on {source.at(first)}"
            raise source.wrong(number, problem, "remove one, or give it another id")
        for line in _items(entry):
            items[line.key, line.set] += 1
            if len(sample) < SAMPLE:
                sample.append(line)
    return Survey(layout, count, dict(items), dict(skipped), tuple(sample))


def check(source: Source, layout: Layout, target: Target | None) -> int:
    """Return how many entries a file has, after reading all of it; nothing is written.

    Raises:
        InvalidInput: A record cannot be used, or names an item or a field a second time.
    """
    return survey(source, layout, target).entries


def _items(entry: Entry) -> Iterator[ItemLine]:
    if isinstance(entry, ItemLine):
        yield entry
    elif isinstance(entry, CommitLine):
        yield from (part.line for part in entry.parts if isinstance(part, Begun))


def _named(entry: Entry) -> tuple[object, ...]:
    if isinstance(entry, ItemLine):
        return ("item", entry.key, entry.set, entry.item.id)
    if isinstance(entry, SetLine):
        return ("set", entry.key, entry.set)
    if isinstance(entry, CommitLine):
        return ("commit", entry.number)
    if isinstance(entry, AccessedLine):
        return ("accessed", entry.key, entry.set, entry.row)
    return ("node", entry.key, entry.path)
