"""What every window of fornix is: what it holds, what it shows within a budget, what it lets go."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import ClassVar, Literal, TypeAlias, TypedDict, get_args, overload

from fornix.batch import AFTER_ALL, Draft
from fornix.budget import Budget
from fornix.context.choosing import Choice, answered
from fornix.context.held import Column, Held, by_arrival, by_time
from fornix.context.kept import (
    Entry,
    as_committed,
    entry_of,
    kept,
    messages_of,
    observation_of,
    with_score,
)
from fornix.context.memory import ContextMemory
from fornix.context.mirror import Mirror
from fornix.context.observation import Observation
from fornix.context.scorers import Score, Scoring, ages, checked_scorer, scored
from fornix.errors import BudgetTooSmall, DuplicateItem, InvalidInput
from fornix.keys import KeySets
from fornix.messages import OBSERVATIONS, Message
from fornix.place import Now, Place
from fornix.store import Add, Define, Definition, ItemChange, Record, Retire, Screened, StoredItem
from fornix.values import counted
from fornix.writer import Call, Change, Writer

CAP = 100
"""Units that a window holds, unless it is told otherwise."""

SAID = 1_024
"""Observations of which a window has at hand what was said."""

LOOKED_AT = 256
"""Observations, the newest, that a scorer may compare a new one with."""

LAST = (1 << 63) - 1
"""The row of an observation that is being committed: past all others."""

Evict: TypeAlias = Literal["oldest", "least important", "least recently used"]
"""What a full window lets go first."""

Profile: TypeAlias = Literal["fornix", "thinker"]
"""Whose rules a window keeps; see `Window`."""


class Settings(TypedDict, total=False):
    """What every window takes besides its cap and its stratum; see `Window`."""

    memory: KeySets | None
    name: str | None
    budget_tokens: int | Budget | None
    evict: Evict | None
    keep_recent: int
    scorer: Scoring | None
    now: Now
    profile: Profile


@dataclass(frozen=True, slots=True)
class Asked:
    """What a window is asked for.

    Attributes:
        prompt: What comes last; None: nothing, or what is asked for is room.
        now: The time.
        writer: What reads the window.
        known: What `Window.known` found out about the prompt.
    """

    prompt: Message | None
    now: datetime
    writer: Writer
    known: object = None


class Window(ContextMemory):
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
        now: The clock of RAM.
        profile: "thinker": a cap of 0 or less is none, observations stand as they arrived, and
            as often as they did, and the newest may be let go.
    """

    kind: ClassVar[str]
    evicts: ClassVar[Evict] = "oldest"

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
        now: Now = None,
        profile: Profile = "fornix",
    ) -> None:
        self._as_thinker = _one_of(profile, get_args(Profile), "profile") == "thinker"
        self._cap = self._checked_cap(cap)
        self._keep_recent = 0 if self._as_thinker else self._checked_recent(keep_recent)
        self._evict = _one_of(self.evicts if evict is None else evict, get_args(Evict), "evict")
        self._scorer = None if scorer is None else checked_scorer(scorer)
        self._budget = Budget.of(budget_tokens)
        self._begins = stratum_of(stratum)
        self._place = Place(memory, now=now, embedder="words")
        self._name = self.kind if name is None else name
        self._turn, self._opening = threading.Lock(), threading.Lock()
        self._opened: Mirror | None = None
        self._said: dict[int, tuple[Message, Message]] = {}
        self.kept_on = memory
        if memory is not None:
            memory.set(self._name)  # refuses what cannot be a name

    def __repr__(self) -> str:
        most = "any number" if self._cap is None else self._cap
        return f"<{type(self).__name__} {self._name!r} of {most} in {self._place!r}>"

    def __len__(self) -> int:
        """Return how many observations it holds."""
        with self._mirror.seen(self._place.writer()) as held:
            return len(held)

    @property
    def name(self) -> str:
        """The name of the set that holds its observations."""
        return self._name

    def close(self) -> None:
        """Free the RAM, if that is where it is; a memory that was given stays open."""
        self._place.close()

    def _checked_cap(self, cap: object) -> int | None:
        if cap is None or (self._as_thinker and type(cap) is int and cap <= 0):
            return None
        return counted(cap, "the cap of a window (None: no limit)")

    def _checked_recent(self, units: int) -> int:
        return counted(units, "keep_recent", least=0, most=self._cap)

    @property
    def _mirror(self) -> Mirror:
        with self._opening:
            if self._opened is None:
                place = by_arrival if self._as_thinker else by_time
                self._opened = Mirror(self._place.engine.store, self._place.ref(self._name), place)
            return self._opened

    # --- what a strategy says -----------------------------------------------------------------

    @abstractmethod
    def worth(self, held: Held, asked: Asked) -> Column | None:
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

    def importance(self, held: Held, asked: Asked) -> Column:
        """Return, by slot, how much each observation matters now.

        As it was scored when it was committed; a scorer whose scores fall is asked again.
        """
        if self._scorer is None or not ages(self._scorer):
            return held.importance
        column = held.importance.copy()
        for stored in self._stored(asked.writer, held):
            score = self._scored(self._scorer, as_committed(stored), asked.writer)
            column[held.slot(stored.record.id)] = score.value
        return column

    def lasting(self, held: Held, asked: Asked) -> Column | None:
        """Return, by slot, how much each observation is worth keeping; the least goes first.

        Of equals the older goes first, and None says that all are equal.
        """
        if self._evict == "oldest":
            return None
        if self._evict == "least important":
            return self.importance(held, asked)
        return self._mirror.accessed(held)

    # --- what is committed --------------------------------------------------------------------

    def purge(self) -> None:
        """Forget every observation, in one commit; what it was stays in the history of the set."""
        writer = self._place.writer()

        def build(_new_id: Callable[[], str]) -> Change:
            with self._mirror.seen(writer) as held:
                gone = self._stored(writer, held)
            return Change([_retired(stored) for stored in gone], None, retry=True)

        with self._turn:
            writer.write(Call("purge", lambda: [self._name]), build)

    def commit(self, observation: Observation) -> tuple[Observation, ...]:
        """Keep an observation as it is now; return what was let go for it, oldest first.

        Durable when it returns. One that is held already changes nothing; one that is older than
        all that a full window holds may be what is let go.

        Raises:
            InvalidInput: A part of it cannot be kept.
            DuplicateItem: Another one has the same `created`.
        """
        item, writer = kept(observation), self._place.writer()
        created = str(item.id)
        if self._scorer is not None:
            item = with_score(item, self._scored(self._scorer, observation, writer))
        new = _New(observation, writer.records([(created, item)])[0], writer)

        def build(new_id: Callable[[], str]) -> Change:
            with self._mirror.seen(writer) as held:
                return self._planned(held, new, new_id)

        with self._turn:
            writer.write(Call("commit", lambda: [self._name, created]), build)
        return tuple(new.gone)

    def _scored(self, scorer: Scoring, observation: Observation, writer: Writer) -> Score:
        newest = _Newest(lambda: self._newest(writer))
        return scored(scorer, observation, now=self.scored_at(observation), held=newest)

    def _planned(self, held: Held, new: _New, new_id: Callable[[], str]) -> Change:
        """Return what keeps an observation, and note what goes for it. The window is locked."""
        record, writer = new.record, new.writer
        new.gone.clear()
        if record.id in held:
            if not self._as_thinker:
                self._check_same(held[record.id], new)
                return Change([], None)
            record = replace(record, id=f"{record.id} {new_id()}")
        entry = entry_of(record, LAST, LAST, where=self._name)
        victims = self._over(held, entry, Asked(None, self._place.now(), writer))
        stored = {one.record.id: one for one in self._stored(writer, victims)}
        for victim in victims:
            is_new = victim.id == record.id
            new.gone.append(new.observation if is_new else observation_of(stored[victim.id]))
        if entry in victims:
            return Change([], None)
        changes: list[ItemChange] = [_retired(one) for one in stored.values()]
        changes.append(Add(self._place.ref(self._name), record))
        return self._guarded(changes)

    def _guarded(self, changes: Sequence[ItemChange]) -> Change:
        """Return changes that are refused if somebody added to the window since it was looked at.

        Without that, two that saw room for one more would both take it.
        """
        ref, known = self._place.ref(self._name), self._mirror.definition
        define = [] if known else [Define(ref, Definition(item_type=OBSERVATIONS))]
        past = None if self._cap is None else self._mirror.past
        screened = [Screened(ref, known and known.admission, past)]
        return Change(changes, None, define, retry=True, screened=screened, whole=past is not None)

    def _over(self, held: Held, new: Entry, asked: Asked) -> list[Entry]:
        """Return what is too much in the window once *new* is in it, oldest first."""
        held.add(new)
        try:
            over = 0 if self._cap is None else held.units - self._cap
            if over <= 0:
                return []
            safe = held.last_units(self._keep_recent)
            kept_slots = {held.slot(entry.id) for unit in safe for entry in unit}
            worth, gone = held.of_units(self.lasting(held, asked)), list[Entry]()
            for _ in range(over):
                slot = held.worst(worth, kept_slots)
                if slot is None:
                    break
                unit = held.unit_of(held.at(slot))
                gone += unit
                kept_slots.update(held.slot(entry.id) for entry in unit)
            return held.in_order(gone)
        finally:
            held.remove([new.id])

    def _check_same(self, there: Entry, new: _New) -> None:
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
        asked = Asked(next(iter(last), None), self._place.now(), writer)
        asked = replace(asked, known=self.known(asked.prompt, writer))
        with self._mirror.seen(writer) as held:
            shown = self._chosen(held, asked, budget, left)
            said = [message for entry in shown for message in self._messages(writer, entry)]
        self._note_shown(writer, shown)
        return [*self._begins, *said, *last]

    def _chosen(self, held: Held, asked: Asked, budget: Budget, left: int | None) -> list[Entry]:
        def size(entry: Entry) -> int:
            return self._size(asked.writer, entry, budget)

        choice = Choice(held, left=left, size=size)
        needed = answered(held, asked.prompt.answers if asked.prompt else ())
        if not choice.take(needed):
            assert budget.tokens is not None and left is not None  # noqa: S101, PT018 - nothing is too much for no budget
            raise BudgetTooSmall(budget.tokens, budget.tokens - left + sum(map(size, needed)))
        choice.fill(self.worth(held, asked))
        return choice.in_order()

    def _size(self, writer: Writer, entry: Entry, budget: Budget) -> int:
        sizes = self._mirror.sizes if budget is self._budget else {}
        if entry.row not in sizes:
            size = budget.size(self._messages(writer, entry))
            if entry.row >= AFTER_ALL:
                return size
            sizes[entry.row] = size
        return sizes[entry.row]

    def _note_shown(self, writer: Writer, shown: Sequence[Entry]) -> None:
        if isinstance(writer, Draft):
            writer.get(self._place.ref(self._name), [entry.id for entry in shown], at=None)
        self._place.engine.recall.touch([e.first for e in shown if e.first < AFTER_ALL])

    # --- what is read -------------------------------------------------------------------------

    def observations(self) -> list[Observation]:
        """Return copies of all that it holds, in its order; nothing counts as accessed."""
        writer = self._place.writer()
        with self._mirror.seen(writer) as held:
            return [observation_of(stored) for stored in self._stored(writer, held)]

    def _newest(self, writer: Writer) -> list[Observation]:
        with self._mirror.seen(writer) as held:
            newest = list(islice(reversed(held), LOOKED_AT))[::-1]
            return [observation_of(stored) for stored in self._stored(writer, newest)]

    def _messages(self, writer: Writer, entry: Entry) -> tuple[Message, Message]:
        """Return what was said; the window is locked."""
        said = self._said.get(entry.row)
        if said is None:
            said = messages_of(self._stored(writer, [entry])[0])
            if entry.row < AFTER_ALL:  # what a batch gathered has the row of another in the next
                self._said[entry.row] = said
                if len(self._said) > SAID:
                    del self._said[next(iter(self._said))]
        return said

    def _stored(self, writer: Writer, entries: Iterable[Entry]) -> list[StoredItem]:
        """Return the items of observations, as the window holds them."""
        wanted = [entry for entry in entries if entry.row != LAST]
        if isinstance(writer, Draft):
            ref = self._place.ref(self._name)
            found = Draft.get(writer, ref, [entry.id for entry in wanted], at=None)
            return [stored for stored in found if stored is not None]
        return self._place.engine.store.stored([entry.row for entry in wanted])


@dataclass(slots=True)
class _New:
    """An observation that is being committed.

    Attributes:
        gone: What is let go for it.
    """

    observation: Observation
    record: Record
    writer: Writer
    gone: list[Observation] = field(default_factory=list[Observation])


class _Newest(Sequence[Observation]):
    """The newest observations of a window, oldest first; read if a scorer looks at them."""

    def __init__(self, read: Callable[[], Sequence[Observation]]) -> None:
        self._read = read
        self._found: Sequence[Observation] | None = None

    def _all(self) -> Sequence[Observation]:
        if self._found is None:
            self._found = self._read()
        return self._found

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, at: int) -> Observation: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Observation]: ...
    def __getitem__(self, at: int | slice) -> Observation | Sequence[Observation]:
        return self._all()[at]


def stratum_of(given: str | Message | None) -> tuple[Message, ...]:
    """Return what a context begins with: one message, or none."""
    if given is None or given == "":
        return ()
    return (given if isinstance(given, Message) else Message.stratum(given),)


def _retired(stored: StoredItem) -> Retire:
    return Retire(stored.set, stored.record.id, stored.version)


def _one_of(given: str, names: Sequence[str], what: str) -> str:
    if given not in names:
        listed = ", ".join(repr(name) for name in names)
        raise InvalidInput(f"{what} of a window must be one of {listed}; not {given!r}")
    return given
