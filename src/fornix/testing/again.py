"""Batches made for one store, said in the numbers of another that was told the same."""

from __future__ import annotations

from dataclasses import replace

from fornix.store import Batch, ItemChange, Revive, Store, Undo
from fornix.testing.reads import FAR


def again(batch: Batch, *, of: Store, on: Store) -> Batch:
    """Return a batch that was made looking at *of*, to be committed on *on*.

    Compactions are known by their place among those of their set, versions by id and number.
    """
    return replace(batch, items=[_change(change, of, on) for change in batch.items])


def _change(change: ItemChange, of: Store, on: Store) -> ItemChange:
    if isinstance(change, Undo):
        theirs = [c.id for c in reversed(of.compactions(change.set, limit=FAR))]
        ours = [c.id for c in reversed(on.compactions(change.set, limit=FAR))]
        place = theirs.index(change.compaction) if change.compaction in theirs else len(ours)
        return replace(change, compaction=ours[place] if place < len(ours) else 0)
    if isinstance(change, Revive):
        found = of.stored([change.row])
        versions = on.versions(change.set, found[0].record.id) if found else []
        rows = [v.row for v in versions if v.version == found[0].version]
        return replace(change, row=rows[0] if rows else 0)
    return change
