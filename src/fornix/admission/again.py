"""What was checked for a batch, checked again before it is committed: only against what is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fornix.admission.barrier import Barrier
from fornix.alike import Probe
from fornix.errors import SetMoved
from fornix.items import Item
from fornix.records import item_of
from fornix.store import Scope, Screened, SetRef, StoredItem
from fornix.writer import CommitWriter, Engine, Ruled


class Since(CommitWriter):
    """Reads that know of no item up to a row, and of no search."""

    def __init__(self, engine: Engine, scope: Scope, past: int) -> None:
        super().__init__(engine, scope)
        self._past = past

    def alike(
        self, ref: SetRef, probes: Sequence[Probe]
    ) -> tuple[int | None, list[list[StoredItem]]]:
        """See `Writer.alike`."""
        past, found = super().alike(ref, probes)
        return past, [[s for s in items if s.row > self._past] for items in found]

    def echoes(self, scope: Scope) -> list[tuple[Scope, Item]]:
        """See `Writer.echoes`."""
        _ = scope
        return []


def screened_again(engine: Engine, before: Screened, added: Sequence[StoredItem]) -> Screened:
    """Return the screen of items that are still to be added, as of now.

    Raises:
        SetMoved: What others added meanwhile makes a difference to one of them.
    """
    if before.past is None:
        return before
    since = Since(engine, before.set.scope, before.past)
    barrier = Barrier(since, before.set, Ruled(before.rules, before.rules or ()))
    verdicts = barrier.judge([(item_of(stored), stored.record) for stored in added])
    if any(verdict.outcome != "accept" for verdict in verdicts):
        raise SetMoved(before.set.name)
    past = barrier.screened.past
    return before if past is None else replace(before, past=past)


def both(before: Screened | None, now: Screened) -> Screened:
    """Return the screen of two calls to one set: the earlier of what they knew."""
    known = [s.past for s in (before, now) if s is not None and s.past is not None]
    return replace(now, past=min(known, default=None))
