"""The one loop that plans changes of sets, commits them, and retries after a conflict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import TypeAlias

from alveus.errors import AlveusError, DuplicateItem, KeyBusy, SetFull, SetMoved, StaleItem
from alveus.sets.batch import Draft
from alveus.sets.set_writes import AddCall
from alveus.sets.writer import Engine, PlannedWrite, WriteCall, Writer
from alveus.state.committed_tree import Backoff
from alveus.store import (
    Batch,
    Commit,
    Compact,
    ItemChange,
    ItemRecord,
    NamedRequest,
    Scope,
    TreeDelta,
)
from alveus.store.ledger import UNOBSERVED
from alveus.store.running_keys import refuse_tree_in_run
from alveus.values.ids import derived_ids, new_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked

Refusal: TypeAlias = DuplicateItem | SetFull | SetMoved | StaleItem
"""The errors with which a store refuses a batch. A new batch from a fresh read may succeed."""


class BatchSource(ABC):
    """A source of batches: plans a new batch from the current store after each refusal."""

    @abstractmethod
    def batch(self) -> Batch | None:
        """Return a new batch for the current store, or None if there is nothing to change."""

    @abstractmethod
    def can_retry(self, error: Refusal) -> bool:
        """Return whether a new batch may succeed after this error."""


def commit_with_retries(engine: Engine, scope: Scope, source: BatchSource) -> Commit | None:
    """Commit the batch of *source*; return its commit, or None if there is nothing to change.

    Waits while a run holds the key. After a commit failed because a set was full, each further
    batch makes room in its sets.

    Raises:
        KeyBusy: A run held the key longer than the memory's wait time.
        DuplicateItem, SetFull, SetMoved, StaleItem: A retry cannot help, or the retries failed.
    """
    backoff, makes_room = Backoff(scope, engine.wait_s), False
    while (batch := source.batch()) is not None:
        if makes_room:
            batch = _with_room(engine, batch)
        try:
            commit = engine.store.commit(batch)
        except KeyBusy as error:
            backoff.wait(error)
        except (DuplicateItem, SetFull, SetMoved, StaleItem) as error:
            if isinstance(error, SetMoved):
                engine.moved(batch)
            needs_room = _needs_room(error, batch)
            if backoff.expired or not (needs_room or source.can_retry(error)):
                raise
            makes_room = makes_room or needs_room
        else:
            engine.written(batch.items, commit)
            return commit
    return None


def _needs_room(error: Refusal, batch: Batch) -> bool:
    """Return whether the batch needs room in the current sets."""
    if isinstance(error, SetFull):
        return error.compacts
    compactions = [item for item in batch.items if isinstance(item, Compact)]
    return isinstance(error, StaleItem) and any(
        error.item_id == item_id for item in compactions for item_id, _ in item.retired
    )


def _with_room(engine: Engine, batch: Batch) -> Batch:
    """Return the batch with the compactions that make room for its items in the current sets."""
    draft = Draft(engine, batch.scope, None)
    draft.open = True
    draft.keep([item for item in batch.items if not isinstance(item, Compact)], batch.define)
    return replace(batch, items=draft.items)


class CommitWriter(Writer):
    """A writer that commits each call: atomic, and durable when the call returns."""

    def write(self, call: WriteCall, *, idempotency_key: str | None = None) -> Value:
        """See `Writer.write`."""
        engine, named = self._engine, None
        if idempotency_key is None:
            added = self._added_jointly(call)
            if added is not None:
                return added
        else:
            named = engine.named(self.scope, idempotency_key, [call.name, call.arguments()])
        source = _CallSource(engine, self.scope, call, named)
        earlier = source.earlier()
        if earlier is not None:
            return earlier.result
        try:
            commit = commit_with_retries(engine, self.scope, source)
        except AlveusError:  # the same call may have been committed since the lookup
            earlier = source.earlier()
            if earlier is None:
                raise
            return earlier.result
        return commit.result if commit is not None and commit.adopted else source.planned.result

    def _added_jointly(self, call: WriteCall) -> Value:
        """Add items in one commit with the adds of other threads; return their ids.

        Return None if this call cannot share a commit. Nothing was written then.
        """
        engine = self._engine
        if not isinstance(call, AddCall) or not call.is_simple():
            return None
        if call.editor.ref in engine.compactions.pressed:
            return None  # compact in this thread: a leader must not wait for a compaction
        if engine.store.observer is not UNOBSERVED:  # observe an add in its caller's thread
            return None
        add = _SimpleAdd(engine, self.scope, call)
        commit = engine.joint_adds.commit(add)
        if commit is None:
            return None
        engine.written(add.items, commit)
        return [item_id for item_id, _ in add.pairs]


def commit_call(engine: Engine, scope: Scope, call: WriteCall) -> Commit | None:
    """Commit a call that has no idempotency key; see `commit_with_retries`."""
    return commit_with_retries(engine, scope, _CallSource(engine, scope, call))


def answer_once(
    engine: Engine,
    scope: Scope,
    act: Callable[[], Value],
    *,
    idempotency_key: str | None,
    plain: Value,
) -> Value:
    """Call *act* and return its result, or return the stored result of an earlier equal request.

    A separate commit stores the result, after the commits of *act*. If the process stops before
    that commit, a repetition calls *act* again: *act* must continue where it stopped.

    Args:
        plain: The request as JSON. A request with the same key must be equal.

    Raises:
        InvalidValue: *plain* cannot be stored; nothing was done.
    """
    if idempotency_key is None:
        return act()
    named = engine.named(scope, idempotency_key, checked(plain, where="what is asked", nan=True))
    done = engine.done(named)
    if done is None:
        answer = named.answered(act(), scope=scope, time=engine.clock())
        done = engine.store.commit(answer)
    return done.result


class _SimpleAdd:
    """A call that only adds items, as a `JointAdd`. Another thread may commit its batch."""

    def __init__(self, engine: Engine, scope: Scope, call: AddCall) -> None:
        self._engine, self._scope, self._call = engine, scope, call
        self.pairs, self.zone = call.pairs(new_id), engine.timezone
        self.items: Sequence[ItemChange] = ()

    def batch_of(self, records: Sequence[ItemRecord], *, time: int, corroborated: int) -> Batch:
        """See `JointAdd.batch_of`."""
        engine = self._engine
        self.items = self._call.added(records)
        return Batch(
            scope=self._scope,
            time=time,
            corroborated=corroborated,
            expects=engine.expects,
            items=self.items,
            limits=engine.limits,
        )


@dataclass(slots=True)
class _CallSource(BatchSource):
    """The batches of one call. Each new batch is planned from a fresh read of the store."""

    engine: Engine
    scope: Scope
    call: WriteCall
    named: NamedRequest | None = None
    planned: PlannedWrite = field(init=False)

    def earlier(self) -> Commit | None:
        """Return the commit that the same call made before under its idempotency key.

        Return None if there is no such commit, or the call has no idempotency key.
        """
        return None if self.named is None else self.engine.done(self.named)

    def batch(self) -> Batch | None:
        """See `BatchSource.batch`."""
        engine, named = self.engine, self.named
        planned = self.planned = self.call.plan(new_id if named is None else derived_ids(named.op))
        if not (planned.items or planned.define or named):
            return None
        engine.relieve(planned.items)
        now, corroborated = engine.clock.times()
        return Batch(
            scope=self.scope,
            time=now,
            corroborated=corroborated,
            op=None if named is None else named.op,
            request=None if named is None else named.request,
            label="" if named is None else named.label,
            expects=engine.expects if planned.items else (),
            define=planned.define,
            items=planned.items,
            admission_checks=planned.admission_checks if planned.items else (),
            limits=engine.limits,
            result=None if named is None else planned.result,
        )

    def can_retry(self, error: Refusal) -> bool:
        """See `BatchSource.can_retry`. Each plan judges the items by the current rules."""
        return isinstance(error, SetMoved) or (
            self.planned.retry and isinstance(error, (StaleItem, DuplicateItem))
        )


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
    """Commit the changes that a batch gathered; return None if there are none.

    Waits while a run holds the key.
    """
    if not (draft.items or draft.define or state or op):
        return None
    if state:
        refuse_tree_in_run(engine.store, draft.scope)
    now, corroborated = engine.clock.times()
    batch = Batch(
        scope=draft.scope,
        time=now,
        corroborated=corroborated,
        op=op,
        request=None if op is None else engine.request(["batch", list(calls)]),
        label=label,
        expects=engine.expects if draft.items else (),
        base=base,
        state=state,
        define=draft.define,
        items=draft.items,
        limits=engine.limits,
    )
    return commit_with_retries(engine, draft.scope, _DraftSource(draft, batch))


@dataclass(slots=True)
class _DraftSource(BatchSource):
    """The changes that a batch gathered, as a source of batches.

    After a refusal, the gathered changes are checked against the items that others added since.
    """

    draft: Draft
    gathered: Batch

    def batch(self) -> Batch | None:
        """See `BatchSource.batch`."""
        checks = self.draft.admission_checks
        if not checks:  # a copy of a batch costs more than a new batch
            return self.gathered
        return replace(self.gathered, admission_checks=tuple(checks.values()))

    def can_retry(self, error: Refusal) -> bool:
        """See `BatchSource.can_retry`. Gathered changes are checked against the current sets."""
        draft = self.draft
        if (
            not isinstance(error, SetMoved)
            or not draft.admission_checks
            or draft.is_whole(error.set_name)
        ):
            return False
        draft.recheck()
        return True
