"""How far receipts are: what is erased at once, what when runs have ended, what is in the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alveus.store import StoredReceipt
from alveus.store.sql import erased_runs
from alveus.store.sql.connection import Connection, query


def tidy(db: Connection, *, now: int) -> list[StoredReceipt]:
    """Erase records of runs that have ended since; return the receipts that are unfinished."""
    found = erased_runs.unfinished_receipts(db)
    for kept in found:
        if kept.open_runs:
            commit = kept.erased.commit or 0
            left = erased_runs.forget_ended(db, kept.open_runs, number=commit, time=now)
            if left != [*kept.open_runs]:  # what was erased now is in the file until a rewrite
                erased_runs.update_receipt(db, replace(kept, open_runs=tuple(left), state="erased"))
    if found:
        query(db, "DELETE FROM access WHERE first NOT IN (SELECT first FROM item)")
    return erased_runs.unfinished_receipts(db)


def finish(
    db: Connection, unfinished: Sequence[StoredReceipt], blockers: Sequence[str], *, now: int
) -> list[str]:
    """Complete the receipts, or note what is in the way; return that."""
    hindrances = list(blockers)
    for receipt in unfinished:
        runs = [f"run {run} has not ended; let it end, or discard it" for run in receipt.open_runs]
        hindrances.extend(runs)
        if blockers or runs:
            erased_runs.update_receipt(db, replace(receipt, blocked_by=(*blockers, *runs)))
        else:
            erased_runs.update_receipt(
                db, replace(receipt, state="scrubbed", blocked_by=(), scrubbed=now)
            )
    return list(dict.fromkeys(hindrances))
