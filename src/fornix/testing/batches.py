"""Batches for tests: short to write, with everything a test does not care about filled in."""

from __future__ import annotations

from typing import TypeAlias

from fornix.store import (
    Add,
    Batch,
    Commit,
    Compact,
    Define,
    ItemChange,
    Limits,
    Past,
    Record,
    Replace,
    Retire,
    Revive,
    Scope,
    SetRef,
    Store,
    TreeDelta,
    Undo,
)
from fornix.values import Value

NOW = 1_800_000_000_000_000
"""The time of a test: in microseconds since 1970, some day in 2027."""

SECOND = 1_000_000
DAY = 86_400 * SECOND

ADA = Scope("app", "ada")
BOB = Scope("app", "bob")
HANDBOOK = Scope("handbook", None)
"""A knowledge."""

NOTES = SetRef(ADA, "notes")

ITEM_CHANGES = (Add, Replace, Retire, Compact, Undo, Revive, Past)

AnyChange: TypeAlias = TreeDelta | Define | ItemChange


def record(item_id: str, text: str | None = None) -> Record:
    """Return the contents of an item whose value is its text; ``text of <id>`` by default."""
    return Record(item_id, value=None, text=f"text of {item_id}" if text is None else text)


def add(
    item_id: str, text: str | None = None, *, to: SetRef = NOTES, time: int | None = None
) -> Add:
    """Return a change that adds `record(item_id, text)`."""
    made = record(item_id, text)
    return Add(to, Record(made.id, made.value, made.text, time=time))


def batch(  # noqa: PLR0913 - the fields of Batch
    *changes: AnyChange,
    scope: Scope = ADA,
    time: int = NOW,
    base: int | None = None,
    epoch: int | None = None,
    op: bytes | None = None,
    request: bytes | None = None,
    label: str = "",
    limits: Limits | None = None,
    result: Value = None,
) -> Batch:
    """Return a batch of *changes* in any mixture; each kind keeps its order."""
    return Batch(
        scope=scope,
        time=time,
        base=base,
        epoch=epoch,
        op=op,
        request=request,
        label=label,
        state=tuple(c for c in changes if not isinstance(c, (*ITEM_CHANGES, Define))),
        define=tuple(c for c in changes if isinstance(c, Define)),
        items=tuple(c for c in changes if isinstance(c, ITEM_CHANGES)),
        limits=limits,
        result=result,
    )


def write(
    store: Store,
    *changes: AnyChange,
    scope: Scope = ADA,
    time: int = NOW,
    limits: Limits | None = None,
) -> Commit:
    """Commit *changes* on top of whatever is there."""
    base = store.head(scope)
    return store.commit(batch(*changes, scope=scope, time=time, base=base, limits=limits))
