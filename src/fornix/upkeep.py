"""Upkeep of a store as a whole: what has expired is retired, what is broken made again."""

from __future__ import annotations

from collections.abc import Callable

from fornix.embed import open_embedder
from fornix.embedding import note_of
from fornix.errors import EmbedderMissing, InvalidInput, StaleItem
from fornix.store import SWEPT_AT_ONCE, Batch, ItemChange, Ledger, Retire, Scope
from fornix.writer import Engine

AT_ONCE = 1_000
"""Items that are retired together."""


def sweep(engine: Engine) -> int:
    """Retire items that have expired, and remove what is kept no longer; return how much.

    In steps, each a short transaction: others write between them.
    """
    now, done = engine.clock(), 0
    while found := engine.store.expired(now=now, limit=AT_ONCE):
        changes: dict[Scope, list[ItemChange]] = {}
        for stored in found:
            gone = Retire(stored.set, stored.record.id, stored.version)
            changes.setdefault(stored.set.scope, []).append(gone)
        for scope, items in changes.items():
            done += _retired(engine, Batch(scope=scope, time=now, items=items))
    while (some := engine.store.sweep(now=now)) >= SWEPT_AT_ONCE:
        done += some
    return done + some


def _retired(engine: Engine, batch: Batch) -> int:
    """Return how many were retired: none if somebody changed one of them meanwhile."""
    try:
        engine.store.commit(batch)
    except StaleItem:
        return 0
    return len(batch.items)


def dimensions_of(ledger: Ledger) -> Callable[[Scope], int | None]:
    """Return what tells how long the vectors of a scope are; None: its embedder is not here."""
    known: dict[str, int | None] = {}

    def dimensions(scope: Scope) -> int | None:
        name = ledger.note(note_of(scope))
        if name is None:
            return None
        if name not in known:
            try:
                known[name] = open_embedder(name).dimensions
            except (EmbedderMissing, InvalidInput):
                known[name] = None
        return known[name]

    return dimensions
