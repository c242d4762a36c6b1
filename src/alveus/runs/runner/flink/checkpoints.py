"""Which checkpoints of a Flink job are complete: what ended before them may be pruned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

TIMEOUT_S = 600.0
"""How long a checkpoint may take: `settings` gives it to Flink, which gives up a longer one."""

MARGIN_S = 60.0
"""How far the clocks of the machines of a cluster may be apart."""

_CHECKPOINT = re.compile(r"chk-([0-9]+)")


def covered_until(folder: str) -> int | None:
    """Return a time before which everything that ended is in each checkpoint that is kept.

    In microseconds; None: there is no complete checkpoint in the folder, where there may be those
    of several jobs, also of jobs that are no more: somebody may go on from any of them.

    A checkpoint is complete when its metadata are there, and it was begun at most `TIMEOUT_S`
    before. What had ended then is not sent again to a job that goes on from it.
    """
    oldest = min(_complete(Path(folder)), default=None)
    return None if oldest is None else round((oldest[0] - TIMEOUT_S - MARGIN_S) * 1_000_000)


def latest(folder: str) -> str | None:
    """Return the last complete checkpoint of a folder; None: there is none."""
    found = max(_complete(Path(folder)), default=None)
    return None if found is None else str(found[2])


def _complete(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield when each was complete, its number and its folder."""
    for entry in folder.glob("*/chk-*"):
        named = _CHECKPOINT.fullmatch(entry.name)
        try:
            if named is not None:
                yield (entry / "_metadata").stat().st_mtime, int(named[1]), entry
        except FileNotFoundError:  # it is not complete, or was just removed
            continue
