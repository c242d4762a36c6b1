"""The window: observations in a set. A context shows as many of them as its budget allows."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from itertools import islice
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict, TypeVar, cast, get_args

import numpy as np

from alveus.agents.storage import RAM_PAST_US, LayerStorage, Now
from alveus.agents.windows.observation import (
    Observation,
    ObservationHeader,
    as_committed,
    entry_of,
    item_of_observation,
    messages_of,
    observation_of,
    value_of,
    with_metadata,
)
from alveus.agents.windows.reflection import Besides, Reflecting, Reflection
from alveus.agents.windows.scorers import Score, Scoring, ages, checked_scorer, scored, with_score
from alveus.agents.windows.window_contents import (
    Column,
    Mirror,
    UnitSelection,
    WindowIndex,
    answered,
    by_arrival,
    by_time,
)
from alveus.errors import BudgetTooSmall, DuplicateItem, InvalidInput, SetMoved, Unusable
from alveus.memory.keys import KeySets
from alveus.sets.batch import AFTER_ALL, Draft
from alveus.sets.set_editor import NewId, SetEditor
from alveus.sets.writer import PlannedWrite, Writer
from alveus.store import (
    Add,
    AdmissionCheck,
    Define,
    Definition,
    ItemRecord,
    Link,
    Replace,
    SetRef,
    StoredItem,
)
from alveus.store.items import Item
from alveus.store.scope import set_name
from alveus.text.budget import Budget
from alveus.text.messages import OBSERVATIONS, Message
from alveus.values.forks import HandleLock
from alveus.values.keywords import check_keywords, suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import choice, counted

R = TypeVar("R")

CACHED, LONGEST = 1_024, 16_384
"""The most observations whose messages a window caches, and the most characters of each."""

COMPARED = 256
"""How many of the newest observations a scorer may compare a new observation with."""

LAST = (1 << 63) - 1
"""The row of an observation during its commit: after all others."""

ATTEMPTS = 100
"""How often a window is read again if rows were removed during the read."""

CAP = 100
"""The default cap of a window, in units; see `Window`."""

CAP_OF_WINDOW = "the cap of a window (None: no limit)"

Evict: TypeAlias = Literal["oldest", "least important", "least recently used"]
"""Which unit leaves a full window first."""

Profile: TypeAlias = Literal["alveus", "thinker"]
"""The rules of a window; see `Window`."""


class Settings(TypedDict, total=False):
    """The settings of every window besides `cap` and `stratum`; see `Window`."""

    memory: KeySets | None
    name: str | None
    budget_tokens: int | Budget | None
    evict: Evict | None
    keep_recent: int
    scorer: Scoring | None
    reflection: Reflection | None
    now: Now
    profile: Profile


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """A call that reads a window.

    Attributes:
        prompt: The last message of the context. None means no prompt, or a commit.
        now: The time of the call.
        writer: The writer through which the window is read.
        prepared: The result of `Window.prepare`.
    """

    prompt: Message | None
    now: datetime
    writer: Writer
    prepared: object = None


def check_settings(window: object, settings: Settings, *refused: str) -> None:
    """Check the settings that a strategy passes to `Window`.

    Args:
        refused: Settings that this strategy sets itself.

    Raises:
        TypeError: No window has a setting with this name.
        InvalidInput: The caller gave a setting that the strategy sets itself.
    """
    check_keywords(window, "__init__", settings, Settings, excluded=refused)
    for name in refused:
        if name in settings and (name, settings[name]) != ("profile", "alveus"):
            kind = type(window).__name__
            raise InvalidInput(f"{kind} sets {name} itself; leave out {name}={settings[name]!r}")


def stratum_of(given: str | Message | None) -> tuple[Message, ...]:
    """Return the stratum (the first message of each context) in a tuple, or an empty tuple."""
    if given is None or given == "":
        return ()
    return (given if isinstance(given, Message) else Message.stratum(given),)


class ContextMemory(ABC):
    """The memory of an agent between its calls of a model.

    An agent commits each observation, and asks for a context before the next call. The strategy
    decides which observations the context shows, and in which order.

    Derive from this class for another rule. Vectors for a search by meaning are in
    ``observation.query.relevance`` and ``observation.reply.relevance``, the importance in
    ``observation.reply.importance``, and related observations in ``observation.links``.

    A memory that keeps the longest answers::

        >>> from alveus.agents.windows import ContextMemory, Observation
        >>> class Longest(ContextMemory):
        ...     def __init__(self, most):
        ...         self.most, self.kept = most, []
        ...     def purge(self):
        ...         self.kept.clear()
        ...     def commit(self, observation):
        ...         reply = observation.reply
        ...         reply.importance = min(1.0, len(str(reply.content)) / 1000)
        ...         self.kept.append(observation)
        ...         self.kept.sort(key=lambda o: o.reply.importance, reverse=True)
        ...         del self.kept[self.most:]
        ...     def context(self, prompt):
        ...         shown = sorted(self.kept, key=lambda o: o.created)
        ...         return [m for o in shown for m in o.messages] + ([prompt] if prompt else [])
        >>> memory = Longest(1)
        >>> memory.commit(Observation("what is it?", "a vaulted structure"))
        >>> memory.commit(Observation("where?", "here"))
        >>> [str(message) for message in memory.context(None)]
        ['what is it?', 'a vaulted structure']

    Agents share memories, so an implementation must be safe under threads: hold one lock in all
    three methods, `context` included. The windows of alveus are safe, also across processes if
    they are kept in a file. `alveus.testing.ContextContract` tests yours.

    Attributes:
        stored_in: The memory of the key that keeps the observations. None means RAM, or unknown.
            The prompts of an agent are runs of this key, and commits of observations belong to
            the runs.
    """

    stored_in: KeySets | None = None

    @abstractmethod
    def purge(self) -> None:
        """Remove every observation. The settings stay. `Automata.prompt_once` calls this method."""

    @abstractmethod
    def commit(self, observation: Observation) -> object:
        """Keep an observation. The next `context` may show it.

        An implementation makes vectors, scores importance, evicts, and keeps indexes here. The
        windows of alveus return the evicted observations.
        """

    @abstractmethod
    def context(self, prompt: Message | None) -> list[Message]:
        """Return the messages to the model: instructions, observations, and *prompt* last.

        An implementation chooses the observations here: the last, the hits of a search, the most
        important, or as many as a token budget allows. Without a prompt, the observations are last.
        """

    def reset(self) -> None:
        """Call `purge`. Later versions of thinker use this name."""
        self.purge()


@suggest_names_in
class Window(ContextMemory):
    """A window kept in a set. A context shows as many of its units as the budget allows.

    A unit is an observation, or a group in which observations answer each other's tool calls. A
    window holds up to *cap* units. A commit evicts the others, and returns them. A context is the
    stratum, the chosen units in the order of creation, and the prompt. It never has more tokens
    than the budget.

    Each `commit` is one commit of the memory, durable when the call returns. Inside an action, it
    is a part of the action's commit. Threads and processes may share a window. A context shows the
    window at one moment. A repeated commit of an observation changes nothing.

    Args:
        cap: The most units. None means any number.
        stratum: The first message of each context. "" means none.
        memory: The memory that keeps the observations: `Memory.key(…)`. None means RAM, until the
            process ends.
        name: The name of the set. Windows of a key with the same name share their observations.
        budget_tokens: The most tokens of a context, or a `Budget` with another counter.
        evict: Which unit leaves a full window first.
        keep_recent: The number of newest units that never leave.
        scorer: Scores an observation at its commit. None means that an observation keeps its
            importance.
        reflection: When the window infers an insight from its observations. None means never.
        now: The clock of RAM.
        profile: "thinker" means: a cap of 0 or less is no limit, observations are in the order of
            their commits, a repeated commit adds again, and the newest may leave.
    """

    kind: ClassVar[str]
    evicts: ClassVar[Evict] = "oldest"
    ram_embedder: str | None = "words"

    def __init__(  # noqa: PLR0913 - the settings of any window; all but two by name
        self,
        cap: int | None = CAP,
        stratum: str | Message | None = "",
        *,
        memory: KeySets | None = None,
        name: str | None = None,
        budget_tokens: int | Budget | None = None,
        evict: Evict | None = None,
        keep_recent: int = 1,
        scorer: Scoring | None = None,
        reflection: Reflection | None = None,
        now: Now = None,
        profile: Profile = "alveus",
    ) -> None:
        self._as_thinker = choice(profile, "profile of a window", *get_args(Profile)) == "thinker"
        unlimited = cap is None or (self._as_thinker and type(cap) is int and cap <= 0)
        self._cap = None if unlimited else counted(cap, CAP_OF_WINDOW)
        recent = 0 if self._as_thinker else keep_recent
        self._keep_recent = counted(recent, "keep_recent", least=0, most=self._cap)
        evict = self.evicts if evict is None else evict
        self._evict = choice(evict, "evict of a window", *get_args(Evict))
        self._scorer = None if scorer is None else checked_scorer(scorer)
        self._stratum, self._turn = stratum_of(stratum), HandleLock()
        self._changing_thread: int | None = None
        self._is_weighing = False
        self._storage = LayerStorage(memory, now=now, embedder=self.ram_embedder)
        self._name = set_name(self.kind if name is None else name)
        self._budget = Budget.of(budget_tokens)
        self._opening = HandleLock()
        self._opened: Mirror | None = None
        self._messages_by_row: dict[int, tuple[Message, Message]] = {}
        self._reflecting = None
        if reflection is not None:
            self._reflecting = Reflecting(reflection, self._storage, self._name)
        self.stored_in = memory

    def sets(self) -> KeySets:
        """Return the memory of the window's key, which may be in RAM."""
        return self._storage.sets()

    def __repr__(self) -> str:
        most = "any number" if self._cap is None else self._cap
        return f"<{type(self).__name__} {self._name!r} of {most} in {self._storage!r}>"

    # --- observations -------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of observations."""
        with self._mirror.snapshot(self._storage.writer()) as index:
            return len(index)

    @property
    def name(self) -> str:
        """The name of the set that holds the window's observations."""
        return self._name

    def close(self) -> None:
        """Free the window's RAM, if any. A memory that was passed stays open."""
        self._storage.close()

    def observations(self) -> list[Observation]:
        """Return copies of all observations, in order, without recording an access."""
        writer = self._storage.writer()
        stored = self._read(writer, lambda index: self._stored(writer, index))
        return [observation_of(one) for one in stored]

    @property
    def _ref(self) -> SetRef:
        return self._storage.ref(self._name)

    @property
    def _mirror(self) -> Mirror:
        with self._opening:
            if self._opened is None:
                order = by_arrival if self._as_thinker else by_time
                self._opened = Mirror(self._storage.engine.store, self._ref, order)
            return self._opened

    def _read(self, writer: Writer, work: Callable[[WindowIndex], R]) -> R:
        """Call *work* with the index of the window, under the window's lock. Return the result.

        If rows are removed during the read, *work* is called again.

        Raises:
            SetMoved: Rows were removed during every attempt.
        """
        for _ in range(ATTEMPTS):
            with self._mirror.snapshot(writer) as index:
                try:
                    return work(index)
                except SetMoved:
                    continue
        raise SetMoved(self._name)

    def _newest(self, writer: Writer) -> list[Observation]:
        def newest(index: WindowIndex) -> list[StoredItem]:
            return self._stored(writer, list(islice(reversed(index), COMPARED))[::-1])

        return [observation_of(stored) for stored in self._read(writer, newest)]

    def _stored(self, writer: Writer, entries: Iterable[ObservationHeader]) -> list[StoredItem]:
        """Return the items of observations, in the order of *entries*.

        Raises:
            SetMoved: An item was removed during the read.
        """
        wanted = [entry for entry in entries if entry.row != LAST]
        if isinstance(writer, Draft):
            ref = self._ref
            found = Draft.get(writer, ref, [entry.id for entry in wanted], at=None)
            there = [stored for stored in found if stored is not None]
        else:
            there = self._storage.engine.store.items_by_row([entry.row for entry in wanted])
        if len(there) < len(wanted):
            raise SetMoved(self._name)
        return there

    def _messages(
        self, writer: Writer, entries: Sequence[ObservationHeader]
    ) -> list[tuple[Message, Message]]:
        """Return the messages of each observation. The caller holds the window's lock."""
        cache = self._messages_by_row
        messages = {entry.row: cache[entry.row] for entry in entries if entry.row in cache}
        missing = [entry for entry in entries if entry.row not in messages]
        for entry, stored in zip(missing, self._stored(writer, missing), strict=True):
            messages[entry.row] = pair = messages_of(value_of(stored))
            # A row of a batch belongs to another observation in the next batch.
            if entry.row < AFTER_ALL and sum(len(one.content) for one in pair) <= LONGEST:
                cache[entry.row] = pair
        while len(cache) > CACHED:
            del cache[next(iter(cache))]
        return [messages[entry.row] for entry in entries]

    def _size(self, writer: Writer, entry: ObservationHeader, budget: Budget) -> int:
        """Return the tokens of an observation. The caller holds the window's lock."""
        sizes = self._mirror.sizes if budget.counts_as(self._budget) else {}
        size = sizes.get(entry.row)
        if size is None:
            size = budget.size(self._messages(writer, [entry])[0])
            if entry.row < AFTER_ALL:
                sizes[entry.row] = size
        return size

    def _note_shown(self, writer: Writer, shown: Sequence[ObservationHeader]) -> None:
        """Record that observations were shown, and that the active action, if any, read them."""
        if isinstance(writer, Draft):
            writer.get(self._ref, [entry.id for entry in shown], at=None)
        self._storage.engine.recall.touch([e.first for e in shown if e.first < AFTER_ALL])

    # --- for strategies -----------------------------------------------------------------------

    @abstractmethod
    def worth(self, index: WindowIndex, request: WindowRequest) -> Column | None:
        """Return, by slot, the worth of showing each observation, or None if all are equal.

        The observation with the greatest worth is shown first. Of observations with equal worth,
        the newer is first. An observation with the worth -inf is not shown. A unit has the worth of
        its best observation. Called under the window's lock.
        """

    def prepare(self, prompt: Message | None, writer: Writer) -> object:
        """Return data about a prompt for `worth`, such as a vector. Called without a lock."""
        _ = prompt, writer

    def scored_at(self, observation: Observation) -> datetime:
        """Return the time at which a new observation is scored: by default now."""
        _ = observation
        return self._storage.now()

    def importance(self, index: WindowIndex, request: WindowRequest) -> Column:
        """Return, by slot, the importance of each observation now.

        By default, it is the score that the observation got at its commit. If scores fall with
        time, the scorer is asked again.
        """
        if self._scorer is None or not ages(self._scorer):
            return index.importance
        if self._is_weighing:
            raise Unusable(
                f"the scorer of window {self._name!r} reads the window while it scores it; read "
                "the scorer's argument `index` instead"
            )
        column, self._is_weighing = index.importance.copy(), True
        try:
            for stored in self._stored(request.writer, index):
                score = self._score(self._scorer, as_committed(stored), request.writer)
                column[index.slot(stored.record.id)] = score.value
        finally:
            self._is_weighing = False
        return column

    def lasting(self, index: WindowIndex, request: WindowRequest) -> Column | None:
        """Return, by slot, the worth of keeping each observation, or None if all are equal.

        The observation with the least worth leaves first. Of observations with equal worth, the
        older leaves first. An observation with the worth -inf leaves at once, unless it is among
        the newest.
        """
        return self.lasting_by(self._evict, index, request)

    def lasting_by(self, evict: str, index: WindowIndex, request: WindowRequest) -> Column | None:
        """Return what `lasting` returns for the rule of eviction *evict*."""
        if evict == "oldest":
            return None
        if evict == "least important":
            return self.importance(index, request)
        return self._mirror.accessed(index)

    def item(self, observation: Observation) -> Item:
        """Return the item that stores an observation. May be slow."""
        return item_of_observation(observation)

    @contextmanager
    def _one_by_one(self) -> Generator[None]:
        """Let only one thread of this process change the window at a time.

        Raises:
            Unusable: A function that a change calls, such as a scorer, changes the window.
        """
        if self._changing_thread == threading.get_ident():
            raise Unusable(
                f"window {self._name!r} cannot be changed by a function that it calls, such as "
                "its scorer or token counter; change it after the call"
            )
        with self._turn:
            self._changing_thread = threading.get_ident()
            try:
                yield
            finally:
                self._changing_thread = None

    # --- committing ---------------------------------------------------------------------------

    def purge(self) -> None:
        """Remove every observation, in one commit. The history of the set keeps them."""
        editor = SetEditor(self._storage.writer(), self._ref)
        with self._one_by_one():
            editor.commit("purge", [], partial(self._purged, editor))

    def _purged(self, editor: SetEditor, _new_id: NewId) -> PlannedWrite:
        writer = editor.writer
        changes = editor.retired(self._read(writer, lambda index: self._stored(writer, index)))
        if self._reflecting is not None:
            changes += self._reflecting.cleared(writer)
        return PlannedWrite(changes, None, retry=True)

    def commit(self, observation: Observation) -> tuple[Observation, ...]:
        """Keep a copy of an observation. Return the evicted observations, oldest first.

        The copy is durable when the call returns. A repeated commit changes nothing. An
        observation that is older than all others of a full window may be evicted itself.

        Raises:
            InvalidInput: A part of the observation cannot be stored.
            DuplicateItem: Another observation has the same `created`.
        """
        writer, reflecting = self._storage.writer(), self._reflecting
        if reflecting is None:
            return self._committed(writer, observation, self._scored(observation, writer))
        item, counted = self._scored(observation, writer), reflecting.counting(writer)
        gone = self._committed(writer, observation, item, besides=counted)
        return gone + reflecting.after(writer, partial(self._committed, writer))

    def _scored(self, observation: Observation, writer: Writer) -> Item:
        item = self.item(observation)
        if self._scorer is None:
            return item
        return with_score(item, self._score(self._scorer, observation, writer))

    def _score(self, scorer: Scoring, observation: Observation, writer: Writer) -> Score:
        newest = Newest(lambda: self._newest(writer))
        return scored(scorer, observation, now=self.scored_at(observation), newest=newest)

    def _committed(
        self,
        writer: Writer,
        observation: Observation,
        item: Item | None = None,
        *,
        besides: Besides | None = None,
        sources: Sequence[Link] = (),
    ) -> tuple[Observation, ...]:
        item = item or self.item(observation)
        record = writer.records([(str(item.id), item)])[0]
        editor = SetEditor(writer, self._ref)
        new = _New(observation, record, editor, tuple(sources))

        def plan(new_id: NewId) -> PlannedWrite:
            planned = self._read(writer, lambda index: self._planned(index, new, new_id))
            return planned if besides is None else besides(planned, record)

        with self._one_by_one():
            gone = editor.commit("commit", [str(item.id)], plan)
        self._storage.changed()
        return gone

    def reflect(self) -> Observation | None:
        """Reflect on the observations since the last reflection. Return the insight.

        Return None if no observation is important, if the reflection infers no insight, or if
        another thread or process reflects first.

        Raises:
            InvalidInput: The window has no `reflection`.
        """
        if self._reflecting is None:
            raise InvalidInput(f"window {self._name!r} has no reflection; open it with reflection=")
        writer = self._storage.writer()
        return self._reflecting.now(writer, partial(self._committed, writer))

    @property
    def failure(self) -> Exception | None:
        """The error of the last reflection, or None. The next commit tries the reflection again."""
        return None if self._reflecting is None else self._reflecting.failure

    def _planned(self, index: WindowIndex, new: _New, new_id: NewId) -> PlannedWrite:
        """Return the plan that adds an observation. The plan's result is the evicted observations.

        The store refuses the plan if another writer added to the window since the read: otherwise
        two commits could both add the last unit up to the cap. The caller holds the window's lock.
        """
        record, editor = new.record, new.editor
        writer = editor.writer
        if record.id in index:
            if not self._as_thinker:
                (there,) = self._stored(writer, [index[record.id]])
                if messages_of(value_of(there)) != new.observation.messages:
                    raise DuplicateItem(record.id, set_name=self._name)
                return editor.plan([], ())
            record = replace(record, id=f"{record.id} {new_id()}")
        entry = entry_of(record, LAST, LAST, where=self._name)
        request = WindowRequest(None, self._storage.now(), writer)
        victims, layers = self.settled(index, entry, request)
        moved = [index[item_id] for item_id in layers if item_id != record.id]
        stored = {one.record.id: one for one in self._stored(writer, [*victims, *moved])}
        gone = tuple(
            new.observation if victim.id == record.id else observation_of(stored[victim.id])
            for victim in victims
        )
        if entry in victims:
            return editor.plan([], gone)
        changes = editor.retired(stored[victim.id] for victim in victims)
        for one in (stored[entry.id] for entry in moved):
            replaced = with_metadata(one.record, "layer", layers[one.record.id])
            changes.append(Replace(one.set, one.version, replaced))
        if record.id in layers:
            record = with_metadata(record, "layer", layers[record.id])
        changes.append(Add(self._ref, record, links=new.sources))
        known = self._mirror.definition
        defined = Definition(item_type=OBSERVATIONS, retention=self._retention)
        past = None if self._cap is None else self._mirror.past
        return PlannedWrite(
            changes,
            gone,  # pyright: ignore[reportArgumentType] - stored under an idempotency key only
            [] if known else [Define(self._ref, defined)],
            retry=True,
            admission_checks=[AdmissionCheck(self._ref, known and known.admission, past)],
            whole=past is not None,
        )

    @property
    def _retention(self) -> str | int:
        """How long evicted observations are kept. RAM keeps them only for a reflection."""
        if not self._storage.is_ram:
            return "keep"
        return "purge" if self._reflecting is None else RAM_PAST_US

    def settled(
        self, index: WindowIndex, new: ObservationHeader, request: WindowRequest
    ) -> tuple[list[ObservationHeader], dict[str, int]]:
        """Return the observations that leave when *new* is added, oldest first.

        Also return a dict from the ids of observations that change their layer to the new layers.

        Called under the window's lock.
        """
        if self._cap is None:
            return [], {}
        index.add(new)
        try:
            safe = index.last_units(self._keep_recent)
            gone = self._least(index, self.lasting(index, request), index.units - self._cap, safe)
            return index.in_order(gone), {}
        finally:
            index.remove([new.id])

    def _least(
        self,
        index: WindowIndex,
        lasting: Column | None,
        over: int,
        safe: Iterable[Sequence[ObservationHeader]],
        *,
        among: Column | None = None,
    ) -> list[ObservationHeader]:
        """Return the observations of the *over* units with the least worth, without *safe* units.

        Units with the worth -inf are returned as well.
        """
        kept_slots = {index.slot(entry.id) for unit in safe for entry in unit}
        gone = list[ObservationHeader]()
        worth = None if lasting is None else index.of_units(lasting)
        at_once = worth is not None and bool(np.isneginf(worth[index.slots]).any())
        while over > 0 or at_once:
            slot = index.worst(worth, kept_slots, among=among)
            if slot is None or (over <= 0 and worth is not None and worth[slot] > -np.inf):
                break
            unit = index.unit_of(index.at(slot))
            gone += unit
            kept_slots.update(index.slot(entry.id) for entry in unit)
            over -= 1
        return gone

    # --- contexts -----------------------------------------------------------------------------

    def context(
        self, prompt: Message | str | None, *, budget_tokens: int | Budget | None = None
    ) -> list[Message]:
        """Return the stratum, the chosen observations, and *prompt* last, within the budget.

        All observations are read at one moment, and their access is recorded.

        Args:
            budget_tokens: Replaces the budget of the window.

        Raises:
            BudgetTooSmall: The stratum, the prompt and the observations whose tool calls the prompt
                answers have more tokens than the budget.
        """
        last = [] if prompt is None else [Message.of(prompt, "user")]
        budget = self._budget if budget_tokens is None else Budget.of(budget_tokens)
        left, writer = budget.remaining([*self._stratum, *last]), self._storage.writer()
        request = WindowRequest(next(iter(last), None), self._storage.now(), writer)
        request = replace(request, prepared=self.prepare(request.prompt, writer))

        def choose(
            index: WindowIndex,
        ) -> tuple[list[ObservationHeader], list[tuple[Message, Message]]]:
            chosen = self._chosen(index, request, budget, left)
            return chosen, self._messages(writer, chosen)

        shown, messages = self._read(writer, choose)
        self._note_shown(writer, shown)
        return [*self._stratum, *(message for pair in messages for message in pair), *last]

    def _chosen(
        self, index: WindowIndex, request: WindowRequest, budget: Budget, left: int | None
    ) -> list[ObservationHeader]:
        def size(entry: ObservationHeader) -> int:
            return self._size(request.writer, entry, budget)

        choice = UnitSelection(index, room=left, size=size)
        needed = answered(index, request.prompt.answers if request.prompt else ())
        if not choice.take(needed):
            assert budget.tokens is not None and left is not None  # noqa: S101, PT018 - nothing is too much for no budget
            fixed = budget.tokens - left + sum(map(size, needed))
            raise BudgetTooSmall(budget.tokens, fixed, with_calls=True)
        self.fill(choice, index, request)
        return choice.in_order()

    def fill(self, choice: UnitSelection, index: WindowIndex, request: WindowRequest) -> None:
        """Choose observations besides those that the prompt needs. Called under the lock."""
        choice.take_newest()
        choice.fill(self.worth(index, request))


@dataclass(frozen=True, slots=True)
class _New:
    """An observation during its commit.

    Attributes:
        sources: The observations that the observation was derived from.
    """

    observation: Observation
    record: ItemRecord
    editor: SetEditor
    sources: tuple[Link, ...]


class Newest(Sequence[Observation]):
    """The newest observations of a window, oldest first, read only if a scorer needs them."""

    def __init__(self, read: Callable[[], Sequence[Observation]]) -> None:
        self._all = cache(read)

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 - an index, or a slice
        return cast("Any", self._all())[at]
