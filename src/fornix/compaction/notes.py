"""What compactors tell each other, and `fornix doctor`, through notes in the store."""

from __future__ import annotations

import json
import logging
from typing import cast

from fornix.errors import FornixError
from fornix.store import Store

_LOG = logging.getLogger(__name__)

SEEN = "compactor"
"""The note that says when a compactor of its own was last at work."""

FAILED = "compaction failures"
"""The note that says which sets could not be compacted, by their numbers in the store."""

ABSENT_US = 600 * 1_000_000
"""A compactor that was not heard of for so long is not there."""

BEAT_US = 60 * 1_000_000
"""How often a compactor at work says so."""

MOST_FAILED = 100
"""Sets that are named; of more, the first ones."""

OVERFLOW = 1.5
"""Times its capacity at which a set that nobody compacts is spoken of."""

ATTEMPTS = 10


def beat(store: Store, now: int) -> None:
    """Say that a compactor is at work; durable, so not more often than `BEAT_US`."""
    before = store.note(SEEN)
    if before is None or not 0 <= now - int(before) < BEAT_US:
        store.put_note(SEEN, str(now), expected=before)


def is_seen(store: Store, now: int) -> bool:
    """Return whether a compactor was at work lately."""
    last = store.note(SEEN)
    return last is not None and abs(now - int(last)) < ABSENT_US


def failures(store: Store) -> dict[int, tuple[str, int]]:
    """Return the sets that could not be compacted, by number: the kind of error, how often."""
    text = store.note(FAILED)
    found = cast("dict[str, tuple[str, int]]", json.loads(text or "{}"))
    return {int(number): (kind, tries) for number, (kind, tries) in found.items()}


def put_failure(store: Store, number: int, failure: tuple[str, int] | None) -> None:
    """Note that a set could not be compacted, or could again.

    It is only a note: if it cannot be made, that is logged.
    """
    try:
        _put_failure(store, number, failure)
    except FornixError as error:
        _LOG.warning("what became of a compaction is not noted: %s", type(error).__name__)


def _put_failure(store: Store, number: int, failure: tuple[str, int] | None) -> None:
    for _ in range(ATTEMPTS):
        before = store.note(FAILED)
        found = cast("dict[str, tuple[str, int]]", json.loads(before or "{}"))
        if failure is None:
            if found.pop(str(number), None) is None:
                return
        elif str(number) in found or len(found) < MOST_FAILED:
            found[str(number)] = failure
        text = json.dumps(found) if found else None
        if store.put_note(FAILED, text, expected=before):
            return
