"""What every window of fornix is: what it holds, what it shows within a budget, what it lets go."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import ClassVar, get_args

import numpy as np

from fornix.agents.storage import LayerStorage, Now
from fornix.agents.windows.observation import Observation
from fornix.agents.windows.observation_items import (
    ObservationHeader,
    as_committed,
    entry_of,
    kept,
    messages_of,
    observation_of,
    with_known,
    with_score,
)
from fornix.agents.windows.reflection import Besides, Reflecting, Reflection
from fornix.agents.windows.scorers import Score, Scoring, ages, checked_scorer, scored
from fornix.agents.windows.window_contents import Column, UnitSelection, WindowIndex, answered
from fornix.agents.windows.window_reads import LAST, Newest, WindowReads
from fornix.agents.windows.window_settings import (
    CAP,
    Evict,
    Profile,
    WindowRequest,
    one_of,
    stratum_of,
)
from fornix.errors import BudgetTooSmall, DuplicateItem, InvalidInput, Unusable
from fornix.memory.keys import KeySets
from fornix.sets.writer import PlannedWrite, WriteCall, Writer
from fornix.store import (
    Add,
    Define,
    Definition,
    ItemChange,
    ItemRecord,
    Link,
    Replace,
    Retire,
    Screened,
    StoredItem,
)
from fornix.store.items import Item
from fornix.store.scope import set_name
from fornix.text.budget import Budget
from fornix.text.messages import OBSERVATIONS, Message
from fornix.values.keywords import suggest_names
from fornix.values.storable import counted

RAM_PAST_US = 24 * 3600 * 1_000_000
"""How long a window in RAM that reflects keeps what it let go of: reflections draw on that."""


class Window(WindowReads):
    """A window kept in a set: the units it holds, and those of them that a prompt has room for.

    A unit is an observation, or several of which one answers the tool calls of another. A window
    holds up to *cap* units; a commit lets go of those above that, and returns them. A context is
    the stratum, the chosen units in the order in which they were made, and the prompt; it never
    has more tokens than the budget.

    Each commit is one commit of the memory, durable when it returns; inside an action it belongs
    to the action. Threads and processes may share a window: who was late plans anew. A context
    shows the window as it was at one moment. An observation that is committed again is there once.

    Args:
        cap: How many units it holds; None: any number.
        stratum: What each context begins with; "": nothing.
        memory: Where observations are kept: `Memory.key(…)`. None: in RAM, until the process ends.
        name: Of the set that holds them; two windows of one name hold the same.
        budget_tokens: The most tokens of a context, or a `Budget` with a counter of its own.
        evict: What is let go first.
        keep_recent: How many of the newest units are never let go.
        scorer: Says how much an observation matters as it is committed; None: it says itself.
        reflection: When it remembers what follows from what was committed; None: never.
        now: The clock of RAM.
        profile: "thinker": a cap of 0 or less is none, observations stand as they arrived, and
            as often as they did, and the newest may be let go.
    """

    kind: ClassVar[str]
    evicts: ClassVar[Evict] = "oldest"
    ram_embedder: str | None = "words"

    @suggest_names
    def __init__(  # noqa: PLR0913 - what any window is set up with; all but two by name
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
        profile: Profile = "fornix",
    ) -> None:
        self._as_thinker = one_of(profile, get_args(Profile), "profile") == "thinker"
        self._cap = self._checked_cap(cap)
        self._keep_recent = 0 if self._as_thinker else self._checked_recent(keep_recent)
        self._evict = one_of(self.evicts if evict is None else evict, get_args(Evict), "evict")
        self._scorer = None if scorer is None else checked_scorer(scorer)
        self._begins, self._turn = stratum_of(stratum), threading.Lock()
        self._at_work: int | None = None
        self._is_weighing = False
        place = LayerStorage(memory, now=now, embedder=self.ram_embedder)
        own_name, budget = self.kind if name is None else name, Budget.of(budget_tokens)
        super().__init__(place, own_name, budget, by_age=not self._as_thinker)
        self._reflecting = None
        if reflection is not None:
            self._reflecting = Reflecting(reflection, self._place, self._name)
        self.kept_on = memory
        set_name(self._name)

    def place(self) -> KeySets:
        """Return what it is kept on, which may be RAM of its own."""
        return self._place.sets()

    def __repr__(self) -> str:
        most = "any number" if self._cap is None else self._cap
        return f"<{type(self).__name__} {self._name!r} of {most} in {self._place!r}>"

    def _checked_cap(self, cap: object) -> int | None:
        if cap is None or (self._as_thinker and type(cap) is int and cap <= 0):
            return None
        return counted(cap, "the cap of a window (None: no limit)")

    def _checked_recent(self, units: int) -> int:
        return counted(units, "keep_recent", least=0, most=self._cap)

    # --- what a strategy says -----------------------------------------------------------------

    @abstractmethod
    def worth(self, held: WindowIndex, asked: WindowRequest) -> Column | None:
        """Return, by slot, how much each observation is worth showing; more goes first.

        Of equals the newer goes first, and None says that all are equal; what is worth -inf is not
        shown. A unit is worth as much as the best of it. Called while the window is locked.
        """

    def known(self, prompt: Message | None, writer: Writer) -> object:
        """Return what `worth` has to know of a prompt, such as its vector; may take its time."""
        _ = prompt, writer

    def scored_at(self, observation: Observation) -> datetime:
        """Return the time as of which a new observation is scored: now."""
        _ = observation
        return self._place.now()

    def importance(self, held: WindowIndex, asked: WindowRequest) -> Column:
        """Return, by slot, how much each observation matters now.

        As it was scored when it was committed; a scorer whose scores fall is asked again.
        """
        if self._scorer is None or not ages(self._scorer):
            return held.importance
        if self._is_weighing:
            raise Unusable(
                f"window {self._name!r} is asked by its own scorer while that says how much "
                "matters by now; let it look at `held` instead"
            )
        column, self._is_weighing = held.importance.copy(), True
        try:
            for stored in self._stored(asked.writer, held):
                score = self._score(self._scorer, as_committed(stored), asked.writer)
                column[held.slot(stored.record.id)] = score.value
        finally:
            self._is_weighing = False
        return column

    def lasting(self, held: WindowIndex, asked: WindowRequest) -> Column | None:
        """Return, by slot, how much each observation is worth keeping; the least goes first.

        Of equals the older goes first, and None says that all are equal. What is worth -inf goes
        at once, unless it is among the newest.
        """
        return self.lasting_by(self._evict, held, asked)

    def lasting_by(self, evict: str, held: WindowIndex, asked: WindowRequest) -> Column | None:
        """Return what `lasting` is where *evict* is let go first."""
        if evict == "oldest":
            return None
        if evict == "least important":
            return self.importance(held, asked)
        return self._mirror.accessed(held)

    def item(self, observation: Observation) -> Item:
        """Return the item that keeps an observation; may take its time."""
        return kept(observation)

    @contextmanager
    def _one_by_one(self) -> Generator[None]:
        """Have changes wait for each other: of two that are planned at once one is refused.

        Raises:
            Unusable: What a change asks, such as a scorer, would wait for the change itself.
        """
        if self._at_work == threading.get_ident():
            raise Unusable(
                f"window {self._name!r} is being changed by what called this, its scorer or its "
                "token counter say; change it after that"
            )
        with self._turn:
            self._at_work = threading.get_ident()
            try:
                yield
            finally:
                self._at_work = None

    # --- what is committed --------------------------------------------------------------------

    def purge(self) -> None:
        """Forget every observation, in one commit; what it was stays in the history of the set."""
        writer = self._place.writer()

        def build(_new_id: Callable[[], str]) -> PlannedWrite:
            gone = self._looked(writer, lambda held: self._stored(writer, held))
            changes: list[ItemChange] = [_retired(stored) for stored in gone]
            if self._reflecting is not None:
                changes += self._reflecting.cleared(writer)
            return PlannedWrite(changes, None, retry=True)

        with self._one_by_one():
            writer.write(WriteCall("purge", lambda: [self._name]), build)

    def commit(self, observation: Observation) -> tuple[Observation, ...]:
        """Keep an observation as it is now; return what was let go for it, oldest first.

        Durable when it returns. One that is held already changes nothing; one that is older than
        all that a full window holds may be what is let go.

        Raises:
            InvalidInput: A part of it cannot be kept.
            DuplicateItem: Another one has the same `created`.
        """
        writer, reflecting = self._place.writer(), self._reflecting
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
        return scored(scorer, observation, now=self.scored_at(observation), held=newest)

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
        new = _New(observation, record, writer, tuple(sources))

        def build(new_id: Callable[[], str]) -> PlannedWrite:
            change = self._looked(writer, lambda held: self._planned(held, new, new_id))
            return change if besides is None else besides(change, new.record)

        with self._one_by_one():
            writer.write(WriteCall("commit", lambda: [self._name, str(item.id)]), build)
        self._place.changed()
        return tuple(new.gone)

    def reflect(self) -> Observation | None:
        """Reflect on what has come since the last time, enough or not; return the insight.

        None: nothing has come that matters, or nothing follows, or somebody else was first.

        Raises:
            InvalidInput: The window has no `reflection`.
        """
        if self._reflecting is None:
            raise InvalidInput(f"window {self._name!r} does not reflect; give it reflection=")
        writer = self._place.writer()
        return self._reflecting.now(writer, partial(self._committed, writer))

    @property
    def failure(self) -> Exception | None:
        """Why the last reflection failed, which is tried again with the next commit."""
        return None if self._reflecting is None else self._reflecting.failure

    def _planned(self, held: WindowIndex, new: _New, new_id: Callable[[], str]) -> PlannedWrite:
        """Return what keeps an observation, and note what goes for it. The window is locked."""
        record, writer = new.record, new.writer
        new.gone.clear()
        if record.id in held:
            if not self._as_thinker:
                self._check_same(held[record.id], new)
                return PlannedWrite([], None)
            record = replace(record, id=f"{record.id} {new_id()}")
        entry = entry_of(record, LAST, LAST, where=self._name)
        victims, layers = self.settled(held, entry, WindowRequest(None, self._place.now(), writer))
        moved = [held[item_id] for item_id in layers if item_id != record.id]
        stored = {one.record.id: one for one in self._stored(writer, [*victims, *moved])}
        for victim in victims:
            is_new = victim.id == record.id
            new.gone.append(new.observation if is_new else observation_of(stored[victim.id]))
        if entry in victims:
            return PlannedWrite([], None)
        changes: list[ItemChange] = [_retired(stored[victim.id]) for victim in victims]
        for one in (stored[entry.id] for entry in moved):
            replaced = with_known(one.record, "layer", layers[one.record.id])
            changes.append(Replace(one.set, one.version, replaced))
        if record.id in layers:
            record = with_known(record, "layer", layers[record.id])
        changes.append(Add(self._place.ref(self._name), record, links=new.sources))
        return self._guarded(changes)

    def _guarded(self, changes: Sequence[ItemChange]) -> PlannedWrite:
        """Return changes that are refused if somebody added to the window since it was looked at.

        Without that, two that saw room for one more would both take it.
        """
        ref, known = self._place.ref(self._name), self._mirror.definition
        defined = Definition(item_type=OBSERVATIONS, retention=self._retention)
        define = [] if known else [Define(ref, defined)]
        past = None if self._cap is None else self._mirror.past
        screened = [Screened(ref, known and known.admission, past)]
        return PlannedWrite(
            changes, None, define, retry=True, screened=screened, whole=past is not None
        )

    @property
    def _retention(self) -> str | int:
        """How long what was let go is kept: in RAM no longer than a reflection may ask for it."""
        if not self._place.is_ram:
            return "keep"
        return "purge" if self._reflecting is None else RAM_PAST_US

    def settled(
        self, held: WindowIndex, new: ObservationHeader, asked: WindowRequest
    ) -> tuple[list[ObservationHeader], dict[str, int]]:
        """Return what leaves the window once *new* is in it, oldest first, and who changes layer.

        The layers that they change to, by id. Called while the window is locked.
        """
        if self._cap is None:
            return [], {}
        held.add(new)
        try:
            safe = held.last_units(self._keep_recent)
            gone = self._least(held, self.lasting(held, asked), held.units - self._cap, safe)
            return held.in_order(gone), {}
        finally:
            held.remove([new.id])

    def _least(
        self,
        held: WindowIndex,
        lasting: Column | None,
        over: int,
        safe: Iterable[Sequence[ObservationHeader]],
        *,
        among: Column | None = None,
    ) -> list[ObservationHeader]:
        """Return so many units that are worth least, or -inf, but for those that are safe."""
        kept_slots = {held.slot(entry.id) for unit in safe for entry in unit}
        worth, gone = held.of_units(lasting), list[ObservationHeader]()
        at_once = worth is not None and bool(np.isneginf(worth[held.slots]).any())
        while over > 0 or at_once:
            slot = held.worst(worth, kept_slots, among=among)
            if slot is None or (over <= 0 and worth is not None and worth[slot] > -np.inf):
                break
            unit = held.unit_of(held.at(slot))
            gone += unit
            kept_slots.update(held.slot(entry.id) for entry in unit)
            over -= 1
        return gone

    def _check_same(self, there: ObservationHeader, new: _New) -> None:
        stored = self._stored(new.writer, [there])[0]
        if messages_of(stored) != new.observation.messages:
            raise DuplicateItem(there.id, set_name=self._name)

    # --- what is shown ------------------------------------------------------------------------

    def context(
        self, prompt: Message | str | None, *, budget_tokens: int | Budget | None = None
    ) -> list[Message]:
        """Return the stratum, what is remembered, and *prompt* last, within the budget.

        What is remembered is of one moment; what is shown counts as accessed.

        Args:
            budget_tokens: In place of the window's own.

        Raises:
            BudgetTooSmall: The stratum and the prompt alone have more tokens, with the
                observations whose tool calls the prompt answers.
        """
        last = [] if prompt is None else [Message.of(prompt, "user")]
        budget = self._budget if budget_tokens is None else Budget.of(budget_tokens)
        left, writer = budget.left([*self._begins, *last]), self._place.writer()
        asked = WindowRequest(next(iter(last), None), self._place.now(), writer)
        asked = replace(asked, known=self.known(asked.prompt, writer))

        def told(
            held: WindowIndex,
        ) -> tuple[list[ObservationHeader], list[tuple[Message, Message]]]:
            shown = self._chosen(held, asked, budget, left)
            return shown, self._messages(writer, shown)

        shown, said = self._looked(writer, told)
        self._note_shown(writer, shown)
        return [*self._begins, *(message for both in said for message in both), *last]

    def _chosen(
        self, held: WindowIndex, asked: WindowRequest, budget: Budget, left: int | None
    ) -> list[ObservationHeader]:
        def size(entry: ObservationHeader) -> int:
            return self._size(asked.writer, entry, budget)

        choice = UnitSelection(held, left=left, size=size)
        needed = answered(held, asked.prompt.answers if asked.prompt else ())
        if not choice.take(needed):
            assert budget.tokens is not None and left is not None  # noqa: S101, PT018 - nothing is too much for no budget
            fixed = budget.tokens - left + sum(map(size, needed))
            raise BudgetTooSmall(budget.tokens, fixed, with_calls=True)
        self.fill(choice, held, asked)
        return choice.in_order()

    def fill(self, choice: UnitSelection, held: WindowIndex, asked: WindowRequest) -> None:
        """Choose what is shown besides what has to be. Called while the window is locked."""
        choice.take_newest()
        choice.fill(self.worth(held, asked))


@dataclass(slots=True)
class _New:
    """An observation that is being committed.

    Attributes:
        sources: What it was derived from.
        gone: What is let go for it.
    """

    observation: Observation
    record: ItemRecord
    writer: Writer
    sources: tuple[Link, ...] = ()
    gone: list[Observation] = field(default_factory=list[Observation])


def _retired(stored: StoredItem) -> Retire:
    return Retire(stored.set, stored.record.id, stored.version)
