"""The past of a memory: differences of moments, histories let go, and what is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from alveus.embed import open_embedder
from alveus.errors import EmbedderMissing, InvalidInput, StaleItem
from alveus.memory.differences import Difference, difference
from alveus.search.embedding_worker import note_of
from alveus.sets.forgetting import (
    HowForgotten,
    Receipt,
    Scrub,
    forget_key,
    receipt_named,
    receipts_of,
    scrub,
)
from alveus.sets.writer import Engine
from alveus.store import (
    CLOCK_STEP_US,
    MAX_SWEPT_VERSIONS,
    SWEEP_AFTER_US,
    Batch,
    ItemChange,
    Ledger,
    Retire,
    Scope,
)
from alveus.store.times import AsOf
from alveus.values.keywords import suggest_names_in_part
from alveus.values.storable import (
    checked_name,
    checked_progress,
    choice,
    counted,
    microseconds,
    moment,
)


@suggest_names_in_part
class Maintenance:
    """The part of a memory that looks after its past."""

    _engine: Engine
    _space: str
    _knowledge: str

    def diff(
        self,
        key: str,
        a: AsOf,
        b: AsOf | None = None,
        *,
        sets: Sequence[str] | None = None,
        tree: Literal["show", "skip"] = "show",
    ) -> Difference:
        """Return what changed in the memory of *key* between two moments: commits, or times.

        Args:
            b: The later moment; None: now.
            sets: Names of the sets to look at; by default all, ``[]`` for none.
            tree: "skip" leaves out the exact tree.

        Raises:
            HistoryPruned: What was there at one of them is no longer kept.
        """
        scope, now = Scope(self._space, checked_name(key, "a key")), self._engine.clock()
        choice(tree, "tree", "show", "skip")
        store = self._engine.store
        return difference(store, scope, a, b, sets=sets, tree=tree == "show", now=now)

    def prune_history(
        self,
        *,
        before: datetime,
        progress: Callable[[int], None] | None = None,
    ) -> int:
        """Remove what exact trees were before a time, for good; return how many versions went.

        Of all keys of the store. What they are now stays, and so does what ended on the last day
        and since a run that has not ended began. Sets have a retention of their own.

        Args:
            progress: Called with the number of versions that went since the last call.

        Raises:
            InvalidInput: It is to come, or only a clock that is ahead says that it came.
        """
        checked_progress(progress, told="a number of versions")
        until, removed = microseconds(before, "before"), 0
        known = self._engine.clock.settle()
        if until > known + CLOCK_STEP_US:
            raise InvalidInput(
                f"before={before} is later than {moment(known)}, up to which the time of this "
                "store is corroborated; nothing was removed: set the clock right or, if it is, "
                "try again when the store has been in use for a day"
            )
        until = min(until, known - SWEEP_AFTER_US)
        after: int | None = 0
        while after is not None:
            done, after = self._engine.store.prune_history(before=until, after=after)
            removed += done
            if progress is not None:
                progress(done)
        return removed

    def forget(
        self,
        key: str,
        *,
        scrub: Scrub | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Erase all of a key, for good: gone from every read of every time when this returns.

        Its tree, sets, events, runs and their records, what was derived from it, and its name.
        Runs that wait are discarded; nothing that was accepted or done runs again. The receipt
        says what is left where. A second time changes nothing, and says so.

        Args:
            scrub: "now": also remove what is left in files; "later": leave that to `scrub`.
                None: now, if the store is under 200 MB.
            dry_run: Only count.
            idempotency_key: A second call with it erases nothing, and returns the same receipt.

        Raises:
            KeyBusy: Somebody went on running the key for `wait_s`.
        """
        scope = Scope(self._space, checked_name(key, "a key"))
        return forget_key(self._engine, scope, HowForgotten(scrub, dry_run, idempotency_key))

    def scrub(self) -> list[Receipt]:
        """Remove from the files what was erased; return the receipts that waited for it.

        Rewrites the store, which takes time in proportion to its size; writers wait meanwhile. A
        receipt that is still "pending" says who is in the way; a later call goes on.
        """
        return scrub(self._engine, self._owners)

    def receipts(self, *, before: int | None = None, limit: int = 100) -> list[Receipt]:
        """Return the receipts of this space and knowledge, the latest first.

        Args:
            before: Only those of commits below this.
        """
        store, most = self._engine.store, counted(limit, "limit", least=0)
        if before is not None:
            counted(before, "before", least=0)
        return receipts_of(store, self._owners, before=before, limit=most)

    def receipt(self, id: str) -> Receipt:
        """Return a receipt by its id.

        Raises:
            NotFound: There is none.
        """
        return receipt_named(self._engine.store, id)

    @property
    def _owners(self) -> list[str]:
        return [f"space {self._space}", f"knowledge {self._knowledge}"]


AT_ONCE = 1_000
"""Items that are retired together."""


SPARE = 0.25
"""Share of a file that a sweep leaves free: later writes use it."""


def sweep(engine: Engine) -> int:
    """Retire items that have expired, and remove what is kept no longer; return how much.

    In steps, each a short transaction: others write between them. By corroborated time: what only
    a wrong clock takes for old stays.
    """
    now, done = engine.clock.settle(), 0
    while found := engine.store.expired_items(now=now, limit=AT_ONCE):
        changes: dict[Scope, list[ItemChange]] = {}
        for stored in found:
            gone = Retire(stored.set, stored.record.id, stored.version)
            changes.setdefault(stored.set.scope, []).append(gone)
        for scope, items in changes.items():
            done += _retired(engine, Batch(scope=scope, time=now, items=items))
    while (some := engine.store.sweep(now=now)) >= MAX_SWEPT_VERSIONS:
        done += some
    while engine.store.shrink(keep_free=SPARE):
        pass
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
