"""From what was asked for to a commit; where a set is full, with the room made in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from fornix.errors import KeyBusy, SetFull, SetMoved, StaleItem
from fornix.sets.batch import Draft
from fornix.sets.writer import CommitWriter, Engine
from fornix.state.committed_tree import Patience
from fornix.store import Batch, Commit, Compact, ItemChange, TreeDelta
from fornix.store.running_keys import refuse_own_tree
from fornix.values.storable import Value


class RoomyWriter(CommitWriter):
    """Makes each call a commit of its own, and room in it for what it adds."""

    def _commit(self, batch: Batch, deadline: float) -> Commit:
        self._engine.compactions.relieve(batch.items)
        return _committed(self._engine, batch, deadline, None)


def commit_draft(  # noqa: PLR0913 - the parts of a batch, by name
    engine: Engine,
    draft: Draft,
    *,
    op: bytes | None,
    label: str,
    base: int | None,
    state: Sequence[TreeDelta],
    calls: Sequence[Value],
) -> Commit | None:
    """Commit what a block gathered; None if that is nothing. Waits for whoever runs the key."""
    if not (draft.items or draft.define or state or op):
        return None
    if state:
        refuse_own_tree(engine.store, draft.scope)
    request = None if op is None else engine.request(["batch", list(calls)])
    now = engine.clock()
    batch = Batch(
        scope=draft.scope,
        time=now,
        corroborated=engine.clock.corroborated(now),
        op=op,
        request=request,
        label=label,
        expects=engine.expects if draft.items else (),
        base=base,
        state=state,
        define=draft.define,
        items=draft.items,
        screened=tuple(draft.screens.values()),
        limits=engine.limits,
    )
    return _committed(engine, batch, time.monotonic() + engine.wait_s, draft)


def _committed(engine: Engine, batch: Batch, deadline: float, draft: Draft | None) -> Commit:
    """Commit *batch*; where others filled a set meanwhile, or changed what makes room, again.

    What a block gathered is held against what others added meanwhile, too; what one call adds is
    checked anew by whoever built it.
    """
    patience = None if draft is None else Patience(draft.scope, engine.wait_s)
    asked = [item for item in batch.items if not isinstance(item, Compact)]
    while True:
        try:
            commit = engine.store.commit(batch)
        except KeyBusy as error:
            if patience is None:
                raise
            patience.wait(error)
        except (SetFull, SetMoved, StaleItem) as error:
            again = _mended(engine, batch, asked, error, draft)
            if again is None or time.monotonic() > deadline:
                raise
            batch = again
        else:
            engine.written(batch.items, commit)
            return commit


def _mended(
    engine: Engine,
    batch: Batch,
    asked: Sequence[ItemChange],
    error: SetFull | SetMoved | StaleItem,
    draft: Draft | None,
) -> Batch | None:
    """Return *batch* as it may be tried again; None: it may not."""
    if not isinstance(error, SetMoved):
        mends = _mends(error, batch.items)
        return replace(batch, items=_with_room(engine, batch, asked)) if mends else None
    if draft is None:
        return None
    engine.moved(batch)
    if not draft.screens or draft.is_whole(error.set_name):
        return None
    draft.settle()
    return replace(batch, screened=tuple(draft.screens.values()))


def _mends(error: SetFull | StaleItem, items: Sequence[ItemChange]) -> bool:
    """Return whether making room anew may help."""
    if isinstance(error, SetFull):
        return error.compacts
    made = [item for item in items if isinstance(item, Compact)]
    return any(error.item_id == item_id for item in made for item_id, _ in item.retired)


def _with_room(engine: Engine, batch: Batch, asked: Sequence[ItemChange]) -> list[ItemChange]:
    """Return what was asked for, with what makes room for it as the sets are by now."""
    draft = Draft(engine, batch.scope, None)
    draft.open = True
    draft.keep(asked, batch.define)
    return draft.items
