"""A task: one call of an action with one event, and the context of the action.

The effects of an action stay in its task until the run commits them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from datetime import datetime
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Literal, TypeAlias, TypedDict, cast

from alveus.errors import InvalidInput, Unusable
from alveus.errors.short_repr import short_repr
from alveus.facts import LearnOptions, LearnReport, learn
from alveus.llm import ChatModel
from alveus.memory.keys import KeySets, KnowledgeMemory
from alveus.memory.prompt import Prompts, Sources
from alveus.runs.agent import BoundAction, DispatchTable
from alveus.runs.durable_calls import Calls, Durable, check_outside
from alveus.runs.memory_recorder import MemoryRecorder
from alveus.search.query import SearchOptions, checked_query
from alveus.sets import clearing
from alveus.sets.batch import Draft
from alveus.sets.commits import CommitWriter
from alveus.sets.writer import Engine, PageQuery, WriteCall
from alveus.state import MemoryKind, MemoryObject, Overlay, PathCache, Resolver, Ttl
from alveus.state.cells import Cells
from alveus.state.committed_tree import LeasedTree
from alveus.state.overlay import SealedOverlay
from alveus.state.tree_values import ExactTree
from alveus.store import Ledger, Retire, Run, Scope, SetRef, StoredItem, TreeDelta, parts_of
from alveus.store.items import Hits
from alveus.store.scope import is_hidden
from alveus.store.times import Moment
from alveus.values import wire
from alveus.values.events import Event
from alveus.values.ids import derived_ids
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value, moment

FEW_LOOKUPS = 8
"""The wire form of up to this many lookups is cached: most actions repeat earlier lookups."""

Lookups: TypeAlias = tuple[tuple[str, tuple[Path, ...]], ...]
"""Pairs of the name of a memory and the paths that were looked up in this memory."""

_LOG = logging.getLogger("alveus.run")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The run of an action.

    Attributes:
        id: The id of the run, unique in the store.
        number: The number of the run among the runs of its agent and key, from 0.
        attempt: The number of this attempt at the task in this process, from 1.
    """

    id: int
    number: int
    agent: str
    key: str
    attempt: int


class RunDraft(Draft):
    """The items that an action changes, and lists of its reads and searches.

    Args:
        time: The time of the run, in microseconds.
        recorder: Records the data of memory events; pass None if no memory events are wanted.
    """

    _writing = _answering = False

    def __init__(
        self,
        engine: Engine,
        scope: Scope,
        ids: Callable[[], str],
        time: int,
        recorder: MemoryRecorder | None,
    ) -> None:
        super().__init__(engine, scope, None)
        self._new_id, self._time, self._recorder = ids, time, recorder
        self.read: list[Value] = []
        self.searched: list[Value] = []
        self.open = True
        self.reason = ""

    def now(self) -> int:
        """Return the time of the run; see `Writer.now`."""
        return self._time

    def write(self, call: WriteCall, *, idempotency_key: str | None = None) -> Value:
        """See `Writer.write`."""
        if self._recorder is None:
            return super().write(call, idempotency_key=idempotency_key)
        done = len(self.items)
        self._writing = True  # the reads of a write are not the action's
        try:
            result = super().write(call, idempotency_key=idempotency_key)
        finally:
            self._writing = False
        self._answering = call.name == "update"  # an update also reads the item, to return it
        changes = self.items[done:]
        if changes and call.name == "delete" and call.arguments() == clearing(changes[0].set.name):
            self._recorder.emptied(changes[0].set)
            return result
        visible = [change for change in changes if not is_hidden(change.set)]
        for part in [part for change in visible for part in parts_of(change)]:
            item_id = part.id if isinstance(part, Retire) else part.record.id
            self._recorder.changed(part.set, item_id, self._drafted_item(part.set, item_id))
        return result

    def get(self, ref: SetRef, ids: Sequence[str], *, at: Moment | None) -> list[StoredItem | None]:
        """See `Writer.get`."""
        items = super().get(ref, ids, at=at)
        self._note(ref, [s for s in items if s is not None])
        return items

    def page(self, ref: SetRef, query: PageQuery) -> list[StoredItem]:
        """See `Writer.page`."""
        items = super().page(ref, query)
        self._note(ref, items)
        return items

    def search(self, sets: Sequence[SetRef] | Scope, query: str, options: SearchOptions) -> Hits:
        """See `Writer.search`."""
        refs = [SetRef(sets, name) for name in self.sets(sets)] if isinstance(sets, Scope) else sets
        query = checked_query(query)
        hits = super().search(refs, query, options)
        if refs:  # all sets have the same owner
            names: list[Value] = [ref.name for ref in refs]
            ids: list[Value] = [[hit.item.set_name, hit.item.id] for hit in hits]
            self.searched.append([_owner(refs[0]), names, query, ids])
        if self._recorder is not None:
            self._recorder.searched(refs, query, hits)
        return hits

    def versions(self, ref: SetRef, item_id: str) -> list[tuple[StoredItem, datetime | None]]:
        """See `Writer.versions`."""
        versions = super().versions(ref, item_id)
        if versions:
            self.read.append([_owner(ref), ref.name, [item_id]])
        return versions

    def _note(self, ref: SetRef, items: list[StoredItem]) -> None:
        if items and not self._tidying:
            self.read.append([_owner(ref), ref.name, [stored.record.id for stored in items]])
        if self._recorder is not None:
            if not (self._writing or self._answering):
                self._recorder.got(ref, items)
            self._answering = self._answering and self._writing

    def _check_open(self) -> None:
        if not self.open:
            raise Unusable(self.reason)


@dataclass(frozen=True, slots=True)
class RunnerHooks:
    """The functions that a runner on top of `LocalRunner` replaces.

    Attributes:
        tree: Makes the tree of a key under a lease, from the ledger, the scope and the epoch.
        prune_until: Returns the time, in microseconds, before which ended runs may be pruned, or
            None if no run may be pruned yet. Without the function no such limit exists.
    """

    tree: Callable[[Ledger, Scope, int], LeasedTree] = LeasedTree
    prune_until: Callable[[], int | None] | None = None


@dataclass(frozen=True, slots=True)
class RunnerSetup:
    """The settings that all runs of one runner share, and its caches of parsed paths."""

    engine: Engine
    plan: DispatchTable
    space: str
    knowledge: str
    ttl: Ttl | None
    hooks: RunnerHooks = RunnerHooks()
    paths: PathCache = field(default_factory=partial(PathCache, MemoryKind.SHORT_TERM))
    sensory_paths: PathCache = field(default_factory=partial(PathCache, MemoryKind.SENSORY))


@dataclass(slots=True, eq=False)
class TaskEnvironment:
    """The settings, the run and the exact memories that all tasks of a run share.

    Attributes:
        row: The run, as the store has it.
        short: The short-term memory of the key; only this run changes it during the run.
        now: The time of the run, in microseconds.
        sensory: The sensory memory after the finished tasks, or None while it is empty.
    """

    setup: RunnerSetup
    row: Run
    short: ExactTree
    now: int
    sensory: Overlay | None = None

    @property
    def key(self) -> str:
        """The key of the run."""
        return self.row.scope.key or ""

    def merge_sensory(self, deltas: Iterable[TreeDelta]) -> None:
        """Apply changes to the sensory memory of the run."""
        if self.sensory is None:
            paths = self.setup.sensory_paths
            self.sensory = Overlay.over(None, kind=paths.kind, now=self.now, paths=paths)
        self.sensory.apply(deltas)


class Made(TypedDict, total=False):
    """The parts of a task that its action has used, each made at its first use.

    Threads of one action that use a part at the same time share it: `setdefault` keeps the first.
    """

    sensory: Overlay
    short: Overlay
    draft: RunDraft
    calls: Calls


_OVER = "action {!r} of run {} has ended; its context can no longer be used"


@dataclass(slots=True, eq=False)
class Task:
    """One call of an action, with its reads, changes and events so far.

    Only one thread may use a task at a time.
    """

    env: TaskEnvironment
    action: BoundAction
    ordinal: int
    attempt: int
    is_async: bool
    _make_calls: Callable[[], Calls]
    _recorder: MemoryRecorder | None = None
    sent: list[Event] = field(default_factory=list[Event])
    _made: Made = field(default_factory=cast("Callable[[], Made]", dict))
    _reason: Callable[[], str] | None = None
    _sealed: Sequence[tuple[Overlay, Cells]] = ()

    @property
    def calls(self) -> Calls:
        """The durable calls of the task."""
        made = self._made.get("calls")
        return self._made.setdefault("calls", self._make_calls()) if made is None else made

    def check_awaited(self) -> None:
        """Raise `InvalidInput` if an ended async action did not await one of its durable calls."""
        made = self._made.get("calls")
        if made is not None:
            made.check_awaited()

    def overlay(self, memory: Literal["sensory", "short"], resolver: Resolver) -> Overlay:
        """Return the overlay of the run's sensory memory, or of the key's short-term memory."""
        overlay = self._made.get(memory)
        if overlay is None:
            self.check_open()
            env, setup, recorder = self.env, self.env.setup, self._recorder
            if memory == "sensory":
                tree, paths, ttl = env.sensory, setup.sensory_paths, None
            else:
                tree, paths, ttl = env.short, setup.paths, setup.ttl
            cells = Cells.over(tree, env.now, [])
            tree_recorder = None if recorder is None else recorder.tree(paths.kind)
            overlay = Overlay(paths, cells, ttl, tree_recorder, resolver)
            return self._made.setdefault(memory, overlay)
        if self.is_async:
            check_outside()
        return overlay

    def _overlays(self) -> list[Overlay]:
        """Return the overlays in use, in the order of their first use."""
        parts = [*self._made.values()]  # a copy: an abandoned thread may still add a part
        return [part for part in parts if isinstance(part, Overlay)]

    def draft(self) -> RunDraft:
        """Return the draft through which the action reads and changes items."""
        draft = self._made.get("draft")
        if draft is None:
            self.check_open()
            env = self.env
            ids = derived_ids(self._name())
            draft = RunDraft(env.setup.engine, env.row.scope, ids, env.now, self._recorder)
            return self._made.setdefault("draft", draft)
        if self.is_async:
            check_outside()
        return draft

    def _name(self) -> bytes:
        """Return the digest from which the ids of the task's new items are derived."""
        setup, row = self.env.setup, self.env.row
        name = (row.scope.space, setup.plan.name, row.scope.key or "", row.number, self.ordinal)
        parts = repr((*name, self.action.name)).encode()
        return blake2b(parts, digest_size=16, key=setup.engine.store.salt()).digest()

    def send(self, event: Event) -> None:
        """Keep *event*, to be sent when the task is committed."""
        self.check_open()
        self.sent.append(event.sent(self._next_id(), self.env.key, self.env.now))

    def _next_id(self) -> str:
        return f"{self.env.row.id}.{self.ordinal}.{len(self.sent)}"

    # --- open and closed ----------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise `Unusable` if the task is sealed: the effects of further use would be lost."""
        if self._reason is not None:
            raise Unusable(self._reason())
        if self.is_async:
            check_outside()

    def seal(self, reason: str) -> None:
        """Make every use of the task raise `Unusable` with *reason*, until `reopen` is called."""
        self._reason = partial(str, reason)
        self._sealed = [(overlay, overlay.seal(reason)) for overlay in self._overlays()]
        self._close_draft()

    def _close_draft(self) -> None:
        draft = self._made.get("draft")
        if draft is not None and self._reason is not None:
            draft.open, draft.reason = False, self._reason()

    def reopen(self) -> None:
        """Make the task usable again."""
        self._reason = None
        for overlay, cells in self._sealed:
            overlay.unseal(cells)
        draft = self._made.get("draft")
        if draft is not None:
            draft.open = True

    def close(self) -> Done:
        """Return the effects of the action, and seal the task for good."""
        made = self._made
        short = made["short"].deltas() if "short" in made else ()
        sensory = made["sensory"].deltas() if "sensory" in made else ()
        if self._recorder is not None:
            for event in self._recorder.events(sensory, short):
                env = self.env
                self.sent.append(event.stamped(self._next_id(), env.key, env.now))
        overlays = self._overlays()
        done = Done(self.sent, short, sensory, made.get("draft"), self._read_set(overlays))
        # Memory is freed here, not when the group is committed.
        self._reason = reason = partial(_OVER.format, self.action.name, self.env.row.id)
        sealed = SealedOverlay(reason)
        for overlay in overlays:
            overlay.end(sealed)
        self._close_draft()
        return done

    def _read_set(self, overlays: Sequence[Overlay]) -> str | None:
        """Return the paths, items and searches that the action read, in wire form.

        Return None if the action read nothing.
        """
        draft = self._made.get("draft")
        lookups = tuple([(o.paths.kind, (*paths,)) for o in overlays if (paths := o.lookups)])
        if draft is None or not (draft.read or draft.searched):
            if not lookups:
                return None
            few = sum([len(paths) for _, paths in lookups]) <= FEW_LOOKUPS
            return _cached_lookups(lookups) if few else wire.encode(_plain(lookups))
        read_set = _plain(lookups)
        read_set["items"], read_set["searches"] = draft.read, draft.searched
        return wire.encode(read_set)


def _plain(lookups: Lookups) -> dict[str, Value]:
    """Return a dict from the names of memories to the paths looked up, without duplicates."""
    return {name: [[*path] for path in dict.fromkeys(paths)] for name, paths in lookups}


@lru_cache
def _cached_lookups(lookups: Lookups) -> str:
    return wire.encode(_plain(lookups))


def _owner(ref: SetRef) -> Value:
    """Return the owner of a set as a step stores it.

    The owner is the name of the knowledge. Return None if the set belongs to the run's key.
    """
    return ref.scope.space if ref.scope.key is None else None


@dataclass(slots=True, eq=False)
class Done:
    """The effects of an action.

    Attributes:
        sent: The events that the action sent, and the memory events about it.
        short: The changes of short-term memory.
        sensory: The changes of sensory memory.
        draft: The changes of items, or None if the action used no items.
        read_set: The reads of the action in wire form, or None if it read nothing.
    """

    sent: Sequence[Event]
    short: Sequence[TreeDelta]
    sensory: Sequence[TreeDelta]
    draft: RunDraft | None
    read_set: str | None


class RunnerContext(Prompts):
    """The context of an action: the memories of its key, events and durable calls.

    The context is valid during one call of the action, in one thread; later uses raise `Unusable`.
    Reads of exact memory return the state when the action began. Reads of items return the latest
    state. Both include the changes of the action itself.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def __repr__(self) -> str:
        return f"<context of action {self._task.action.name!r}, run {self._task.env.row.id}>"

    # --- the memories -------------------------------------------------------------------------

    @property
    def sensory_memory(self) -> MemoryObject:
        """The root of the run's exact memory, which is empty at the start and lost at the end."""
        overlay = self._task.overlay("sensory", self)
        return MemoryObject(overlay, overlay.paths.root)

    @property
    def short_term_memory(self) -> MemoryObject:
        """The root of the key's exact memory, which lasts across runs."""
        overlay = self._task.overlay("short", self)
        return MemoryObject(overlay, overlay.paths.root)

    @property
    def long_term_memory(self) -> KeySets:
        """The sets of the key."""
        env = self._task.env
        return KeySets(env.setup.engine, self._task.draft(), env.row.scope)

    @property
    def knowledge(self) -> KnowledgeMemory:
        """The sets that all keys share."""
        setup = self._task.env.setup
        return KnowledgeMemory(setup.engine, Scope(setup.knowledge, None), self._task.draft())

    def _sources(self) -> Sources:
        scope = self._task.env.row.scope
        return Sources(self._task.draft(), scope, lambda: self.short_term_memory)

    def get_sensory_memory(self) -> MemoryObject:
        """Return `sensory_memory`."""
        return self.sensory_memory

    def get_short_term_memory(self) -> MemoryObject:
        """Return `short_term_memory`."""
        return self.short_term_memory

    def get_long_term_memory(self) -> KeySets:
        """Return `long_term_memory`."""
        return self.long_term_memory

    def get_knowledge(self) -> KnowledgeMemory:
        """Return `knowledge`."""
        return self.knowledge

    # --- events and durable calls --------------------------------------------------------------

    def send_event(self, event: Event) -> None:
        """Send an event when the action has returned and its changes are committed.

        An event triggers the actions of its class. An `OutputEvent` also becomes an output of the
        run.

        Raises:
            InvalidInput: *event* is not an `Event`.
            InvalidValue: A field of *event* cannot be stored.
        """
        if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"send_event() needs an Event, not {short_repr(event)}; for an output, pass "
                "OutputEvent(value)"
            )
        self._task.send(event)

    @property
    def durable(self) -> Durable:
        """Call a function once, whatever happens: ``ctx.durable(fn, *args)``.

        The result, or the error, is stored before the action continues. An action that is repeated
        after a crash gets the stored outcome; the function is not called again. An async action
        awaits the call, and *fn* may then be async as well. `Durable.using` sets options. *fn*
        cannot use the context.

        Raises:
            InvalidValue: An argument or the result cannot be stored.
            InvalidInput: *fn* has no stable name.
            NonDeterministicAction: An earlier attempt at the action made a different call here.
        """
        return Durable(self._task.calls, self._task)

    def learn(
        self, conversation: str, *, model: ChatModel | None, options: LearnOptions | None = None
    ) -> LearnReport:
        """Learn facts from a conversation of the key; see `KeyMemory.learn`.

        Only messages that earlier actions committed are read, not messages of this action. The
        facts are committed at once, in a separate commit. A repeated action learns nothing twice.
        """
        self._task.check_open()
        engine, scope = self._task.env.setup.engine, self._task.env.row.scope
        source = KeySets(engine, CommitWriter(engine, scope), scope).conversation(conversation)
        return learn(engine, scope, source, model=model, options=options)

    # --- where and when -----------------------------------------------------------------------

    @property
    def key(self) -> str:
        """The key of the run."""
        return self._task.env.key

    @property
    def run(self) -> RunInfo:
        """The run of the action."""
        env = self._task.env
        return RunInfo(env.row.id, env.row.number, env.setup.plan.name, env.key, self._task.attempt)

    @property
    def now(self) -> datetime:
        """The time of the run, in UTC. All actions of the run get the same, also after a crash."""
        return moment(self._task.env.now)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that adds the agent, the run's id and the action to each line."""
        env = self._task.env
        action = self._task.action.name
        extra = {"agent": env.setup.plan.name, "run": env.row.id, "action": action}
        return logging.LoggerAdapter(_LOG, extra)
