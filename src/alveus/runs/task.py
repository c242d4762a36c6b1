"""A task: one action at work on one event, and the context that it gets.

What an action does is kept here, and in nothing else, until its run commits it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from datetime import datetime
from functools import lru_cache, partial
from hashlib import blake2b
from typing import TypeAlias, TypedDict, cast

from alveus.errors import InvalidInput, Unusable
from alveus.errors.short_repr import short_repr
from alveus.facts import LearnOptions, LearnReport, learn
from alveus.llm import ChatModel
from alveus.memory.keys import KeySets, KnowledgeMemory
from alveus.memory.prompt import Prompts, Sources
from alveus.runs.agent import BoundAction
from alveus.runs.durable_calls import Calls, Durable, check_outside
from alveus.runs.memory_recorder import MemoryRecorder
from alveus.search.query import SearchOptions, checked_query
from alveus.sets import clearing
from alveus.sets.batch import Draft
from alveus.sets.commits import CommitWriter
from alveus.sets.writer import Engine, WriteCall
from alveus.state import MemoryObject, Overlay, Resolver, Ttl
from alveus.state.cells import Cells
from alveus.state.overlay import SealedOverlay
from alveus.state.paths import PathCache
from alveus.state.tree_values import ExactTree
from alveus.store import Retire, Scope, SetRef, StoredItem, TreeDelta, parts_of
from alveus.store.items import Hits
from alveus.store.scope import is_hidden
from alveus.store.times import Moment
from alveus.values import wire
from alveus.values.events import Event
from alveus.values.ids import derived_ids
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path, Value, moment

FEW_LOOKUPS = 8
"""Lookups of an action whose wire form is cached: most actions look up what others did before."""

Lookups: TypeAlias = tuple[tuple[str, tuple[Path, ...]], ...]
"""By the name of a memory: the paths that were looked up in it."""

_LOG = logging.getLogger("alveus.run")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Which run an action is part of.

    Attributes:
        id: Unique in the store.
        number: Its place among the runs of its agent and key, from 0.
        attempt: How often this process has begun the task, from 1.
    """

    id: int
    number: int
    agent: str
    key: str
    attempt: int


class RunDraft(Draft):
    """The items that an action changes; lists which it read, and what it searched for.

    Args:
        time: Of the run, in microseconds.
        recorder: Takes what memory events are made of; None: nobody asks for any.
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
        """See `Writer.now`: the run's own time."""
        return self._time

    def write(self, call: WriteCall, *, idempotency_key: str | None = None) -> Value:
        """See `Writer.write`."""
        if self._recorder is None:
            return super().write(call, idempotency_key=idempotency_key)
        done = len(self.items)
        self._writing = True  # what is read to do so is no read of the action's
        try:
            result = super().write(call, idempotency_key=idempotency_key)
        finally:
            self._writing = False
        self._answering = call.name == "update"  # which then reads the item, to return it
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

    def page(
        self,
        ref: SetRef,
        *,
        after: tuple[int, int] | None,
        limit: int,
        newest_first: bool,
        at: Moment | None,
    ) -> list[StoredItem]:
        """See `Writer.page`."""
        items = super().page(ref, after=after, limit=limit, newest_first=newest_first, at=at)
        self._note(ref, items)
        return items

    def search(self, sets: Sequence[SetRef] | Scope, query: str, options: SearchOptions) -> Hits:
        """See `Writer.search`."""
        refs = [SetRef(sets, name) for name in self.sets(sets)] if isinstance(sets, Scope) else sets
        query = checked_query(query)
        hits = super().search(refs, query, options)
        if refs:  # all of one owner
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


@dataclass(slots=True, eq=False)
class TaskEnvironment:
    """What is the same for all tasks of a run.

    Attributes:
        sensory_paths: Parsed paths of sensory memory, shared by all runs.
        short: Short-term memory, which nobody else changes meanwhile.
        paths: Its parsed paths.
        sensory: What the finished tasks of the run left in its sensory memory; None: nothing.
    """

    engine: Engine
    scope: Scope
    short: ExactTree
    knowledge: str
    agent: str
    key: str
    run: int
    number: int
    now: int
    sensory_paths: PathCache
    paths: PathCache
    ttl: Ttl | None
    sensory: Overlay | None = None

    def merge_sensory(self, deltas: Iterable[TreeDelta]) -> None:
        """Take changes over into the sensory memory of the run."""
        if self.sensory is None:
            paths = self.sensory_paths
            self.sensory = Overlay.over(None, kind=paths.kind, now=self.now, paths=paths)
        self.sensory.apply(deltas)


class Made(TypedDict, total=False):
    """What the code of an action asked a task for, each made when it was asked for first.

    Threads of one action that ask at once get the same: what comes first into the dict stays.
    """

    sensory: Overlay
    short: Overlay
    draft: RunDraft
    calls: Calls


_OVER = "action {!r} of run {} is over; what is done with its context now would be lost"


@dataclass(slots=True, eq=False)
class Task:
    """An action at work: what it read, changed and sent so far. Serves one thread at a time."""

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
        """Its durable calls."""
        made = self._made.get("calls")
        return self._made.setdefault("calls", self._make_calls()) if made is None else made

    def check_awaited(self) -> None:
        """Raise where the action, which is async and has ended, left a durable call unawaited."""
        made = self._made.get("calls")
        if made is not None:
            made.check_awaited()

    def sensory(self, resolver: Resolver) -> Overlay:
        """Return the overlay of the run's memory."""
        overlay = self._made.get("sensory")
        if overlay is None:
            env = self.env
            overlay = self._overlay(env.sensory, env.sensory_paths, None, resolver)
            return self._made.setdefault("sensory", overlay)
        if self.is_async:
            check_outside()
        return overlay

    def short_term(self, resolver: Resolver) -> Overlay:
        """Return the overlay of the key's memory."""
        overlay = self._made.get("short")
        if overlay is None:
            env = self.env
            overlay = self._overlay(env.short, env.paths, env.ttl, resolver)
            return self._made.setdefault("short", overlay)
        if self.is_async:
            check_outside()
        return overlay

    def _overlay(
        self, tree: ExactTree | None, paths: PathCache, ttl: Ttl | None, resolver: Resolver
    ) -> Overlay:
        self.check_open()
        kind, recorder = paths.kind, self._recorder
        cells = Cells.over(tree, self.env.now, [])
        tree_recorder = None if recorder is None else recorder.tree(kind)
        return Overlay(kind, paths, cells, ttl, tree_recorder, resolver)

    def _overlays(self) -> list[Overlay]:
        """Return those that were asked for, in this order."""
        parts = [*self._made.values()]  # at once: a thread that was left behind may add to it
        return [part for part in parts if isinstance(part, Overlay)]

    def draft(self) -> RunDraft:
        """Return the writer of items."""
        draft = self._made.get("draft")
        if draft is None:
            self.check_open()
            env = self.env
            ids = derived_ids(self._name())
            draft = RunDraft(env.engine, env.scope, ids, env.now, self._recorder)
            return self._made.setdefault("draft", draft)
        if self.is_async:
            check_outside()
        return draft

    def _name(self) -> bytes:
        """Return the digest of the task's name: ids of items that it adds follow from it."""
        env = self.env
        name = (env.scope.space, env.agent, env.key, env.number, self.ordinal)
        parts = repr((*name, self.action.name)).encode()
        return blake2b(parts, digest_size=16, key=env.engine.store.salt()).digest()

    def send(self, event: Event) -> None:
        """Keep an event, to be sent when the task is committed."""
        self.check_open()
        self.sent.append(event.sent(self._next_id(), self.env.key, self.env.now))

    def _next_id(self) -> str:
        return f"{self.env.run}.{self.ordinal}.{len(self.sent)}"

    def pass_on(self, event: Event) -> None:
        """Keep an event that was sent before, as it is, to be sent on."""
        self.sent.append(event)

    # --- open and closed ----------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise `Unusable` if what is done now would not be kept."""
        if self._reason is not None:
            raise Unusable(self._reason())
        if self.is_async:
            check_outside()

    def seal(self, reason: str) -> None:
        """Have every use raise `Unusable`, until `reopen`."""
        self._reason = partial(str, reason)
        self._sealed = [(overlay, overlay.seal(reason)) for overlay in self._overlays()]
        self._close_draft()

    def _close_draft(self) -> None:
        draft = self._made.get("draft")
        if draft is not None and self._reason is not None:
            draft.open, draft.reason = False, self._reason()

    def reopen(self) -> None:
        """Be usable again."""
        self._reason = None
        for overlay, cells in self._sealed:
            overlay.unseal(cells)
        draft = self._made.get("draft")
        if draft is not None:
            draft.open = True

    def close(self) -> Done:
        """Return what the action did; whatever it does later raises `Unusable`."""
        made = self._made
        short = made["short"].deltas() if "short" in made else ()
        sensory = made["sensory"].deltas() if "sensory" in made else ()
        if self._recorder is not None:
            for event in self._recorder.events(sensory, short):
                env = self.env
                self.sent.append(event.stamped(self._next_id(), env.key, env.now))
        overlays = self._overlays()
        done = Done(self.sent, short, sensory, made.get("draft"), self._read_set(overlays))
        # Sealed for good; what is no longer needed goes at once, not when its group is committed.
        self._reason = reason = partial(_OVER.format, self.action.name, self.env.run)
        sealed = SealedOverlay(reason)
        for overlay in overlays:
            overlay.end(sealed)
        self._close_draft()
        return done

    def _read_set(self, overlays: Sequence[Overlay]) -> str | None:
        """Return, in wire form, what was read: paths, items by set, searches with their hits."""
        draft = self._made.get("draft")
        lookups = tuple([(o.kind, (*paths,)) for o in overlays if (paths := o.lookups)])
        if draft is None or not (draft.read or draft.searched):
            if not lookups:
                return None
            few = sum([len(paths) for _, paths in lookups]) <= FEW_LOOKUPS
            return _cached_lookups(lookups) if few else wire.encode(_plain(lookups))
        read_set = _plain(lookups)
        read_set["items"], read_set["searches"] = draft.read, draft.searched
        return wire.encode(read_set)


def _plain(lookups: Lookups) -> dict[str, Value]:
    """Return which paths were looked up, by memory, each once."""
    return {name: [[*path] for path in dict.fromkeys(paths)] for name, paths in lookups}


@lru_cache
def _cached_lookups(lookups: Lookups) -> str:
    return wire.encode(_plain(lookups))


def _owner(ref: SetRef) -> Value:
    """Return the owner of a set as a step stores it: None for a key, or a knowledge's name."""
    return ref.scope.space if ref.scope.key is None else None


@dataclass(slots=True, eq=False)
class Done:
    """What an action did.

    Attributes:
        short: Changes of short-term memory.
        sensory: Changes of sensory memory.
        read_set: What it read, in wire form.
    """

    sent: Sequence[Event]
    short: Sequence[TreeDelta]
    sensory: Sequence[TreeDelta]
    draft: RunDraft | None
    read_set: str | None


class RunnerContext(Prompts):
    """What an action works with: the memories of its key, and what it sends.

    It belongs to the one call it was made for, and to the thread that makes it; used later, it
    raises `Unusable`. Exact memory is read as it was when the action began, items as they are
    now, both with the action's own changes.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def __repr__(self) -> str:
        return f"<context of action {self._task.action.name!r}, run {self._task.env.run}>"

    # --- the memories -------------------------------------------------------------------------

    @property
    def sensory_memory(self) -> MemoryObject:
        """The root of the run's exact memory: empty when the run begins, gone when it ends."""
        overlay = self._task.sensory(self)
        return MemoryObject(overlay, overlay.paths.root)

    @property
    def short_term_memory(self) -> MemoryObject:
        """The root of the key's exact memory, which lasts across runs."""
        overlay = self._task.short_term(self)
        return MemoryObject(overlay, overlay.paths.root)

    @property
    def long_term_memory(self) -> KeySets:
        """The sets of the key."""
        env = self._task.env
        return KeySets(env.engine, self._task.draft(), env.scope)

    @property
    def knowledge(self) -> KnowledgeMemory:
        """The sets that all keys share."""
        env = self._task.env
        return KnowledgeMemory(env.engine, Scope(env.knowledge, None), self._task.draft())

    def _sources(self) -> Sources:
        env = self._task.env
        knowledge, draft = Scope(env.knowledge, None), self._task.draft()
        return Sources(draft, env.scope, knowledge, lambda: self.short_term_memory)

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

    # --- what it sends and calls --------------------------------------------------------------

    def send_event(self, event: Event) -> None:
        """Send an event, once the action has returned and all it changed is committed.

        An `OutputEvent` goes to the world; any event sets off the actions that ask for its class.

        Raises:
            InvalidInput: It is no event.
            InvalidValue: A field of it cannot be stored.
        """
        if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(
                f"send_event takes an Event, not {short_repr(event)}; for the world: "
                "OutputEvent(value)"
            )
        self._task.send(event)

    @property
    def durable(self) -> Durable:
        """Call a function once, whatever happens: ``ctx.durable(fn, *args)``.

        What it returned, or raised, is stored before the action goes on; an action that begins
        anew after a crash is given that, and the function is not called again. In an async action
        it is awaited, and *fn* may be async as well. `Durable.using` sets options. While a plain
        *fn* is at work the context is closed to it.

        Raises:
            InvalidValue: An argument or the result cannot be stored.
            InvalidInput: *fn* has no name that stays.
            NonDeterministicAction: The action made another call here before.
        """
        return Durable(self._task.calls, self._task)

    def learn(
        self,
        conversation: str,
        *,
        model: ChatModel | None,
        options: LearnOptions | None = None,
    ) -> LearnReport:
        """Learn facts from a conversation of the key; see `KeyMemory.learn`.

        It reads what earlier actions committed, not what this one adds. What is learnt is
        committed at once, apart from the action; an action that begins anew learns nothing twice.
        """
        self._task.check_open()
        env = self._task.env
        talk = KeySets(env.engine, CommitWriter(env.engine, env.scope), env.scope)
        source = talk.conversation(conversation)
        return learn(env.engine, env.scope, source, model=model, options=options)

    # --- where and when -----------------------------------------------------------------------

    @property
    def key(self) -> str:
        """The key of the run."""
        return self._task.env.key

    @property
    def run(self) -> RunInfo:
        """Which run this is."""
        env = self._task.env
        return RunInfo(env.run, env.number, env.agent, env.key, self._task.attempt)

    @property
    def now(self) -> datetime:
        """The time of the run, in UTC: the same in all its actions, and after a crash."""
        return moment(self._task.env.now)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the ids of run and action."""
        env = self._task.env
        extra = {"agent": env.agent, "run": env.run, "action": self._task.action.name}
        return logging.LoggerAdapter(_LOG, extra)
