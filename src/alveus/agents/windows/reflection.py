"""Reflection: when enough importance has added up, an insight from the observations is remembered.

The importance of each observation is added to a note, in a hidden set beside the window's set, by
the commit that keeps the observation. The insight and the note that begins a new sum are one
commit, which is refused if the note changed: a sum is reflected on once, by the first writer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeAlias

from alveus.agents.storage import LayerStorage, Note
from alveus.agents.windows.observation import Observation, Reply, observation_of
from alveus.agents.windows.scorers import text_of
from alveus.errors import AlveusError, InvalidInput
from alveus.llm import ChatModel
from alveus.sets.set_editor import SetEditor
from alveus.sets.writer import PlannedWrite, Writer
from alveus.store import Define, Definition, ItemChange, ItemRecord, Retire, SetRef, StoredItem
from alveus.store.changes import Link
from alveus.store.scope import HIDDEN
from alveus.text import ExtractiveSummariser, ModelSummariser, Summariser
from alveus.text.messages import Message
from alveus.values.forks import HandleLock
from alveus.values.keywords import suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import checked_kind, checked_number, counted

INSIGHT_TOKENS = 128
"""The most tokens of an insight that is a summary."""

SOURCES = 256
"""The most observations for one insight. If there are more, the latest are used."""

QUESTION = "What matters in what was said so far?"

PREFIX = f"{HIDDEN}reflection/"
NOTE = "importance"

FAILURES = (AlveusError, ValueError, OSError)
"""Errors of a function or a model after which the reflection is tried again later.

The commit raises any other error.
"""

Infer: TypeAlias = Callable[[Sequence[Observation]], str | None]
"""A function that returns an insight from observations, or None for no insight."""

_LOG = logging.getLogger(__name__)


class CommitInsight(Protocol):
    """The function by which a window keeps an insight; see `Window`."""

    def __call__(
        self, observation: Observation, /, *, besides: Besides, sources: Sequence[Link]
    ) -> tuple[Observation, ...] | None:
        """Commit an insight with further changes.

        Return the observations that left the window, or None if *besides* refused the commit.
        """
        ...


Besides: TypeAlias = Callable[[PlannedWrite, ItemRecord], PlannedWrite]
"""A function that adds changes to the commit of an observation."""


@suggest_names_in
@dataclass(frozen=True, slots=True)
class Reflection:
    """The settings of a window's reflection.

    Args:
        threshold: The sum of importance at which the window reflects. Each reflection begins a new
            sum.
        infer: Makes the insight: a function of the observations, oldest first; a language model,
            which summarises them; or a `Summariser`. None means a summary of their best sentences,
            made without a model.
        on_reflection: A function that is called with each insight after the commit of the insight.
        question: The query of the observation that an insight is kept as.
        max_tokens: The most tokens of an insight that is a summary.
    """

    threshold: float
    infer: Infer | ChatModel | Summariser | None = None
    on_reflection: Callable[[Observation], object] | None = None
    question: str = QUESTION
    max_tokens: int = INSIGHT_TOKENS

    def __post_init__(self) -> None:
        checked_number(self.threshold, "the threshold of a reflection", least=1e-9, most=1e9)
        counted(self.max_tokens, "max_tokens")
        Message(self.question)
        for name, given in (("infer", self.infer), ("on_reflection", self.on_reflection)):
            known = callable(given) or (
                name == "infer" and isinstance(given, (ChatModel, Summariser))
            )
            if given is not None and not known:
                raise InvalidInput(f"{name} of a reflection must be a function, not {given!r}")

    def insight(self, sources: Sequence[Observation]) -> Observation | None:
        """Return an insight as an observation with links to *sources*, or None for no insight."""
        infer = self.infer
        by = getattr(infer, "__name__", type(infer).__name__)
        if infer is None or isinstance(infer, (ChatModel, Summariser)):
            summariser = infer or ExtractiveSummariser()
            if not isinstance(summariser, Summariser):
                summariser = ModelSummariser(summariser)
            texts = [text_of(one) for one in sources]
            summary = summariser.summarise(texts, max_tokens=self.max_tokens)
            text, by = summary.text, summary.by
        else:
            text = infer(sources)
        checked_kind(text, str | None, "a reflection must return a text or None")
        if not text or not text.strip():
            return None
        importance = max(one.reply.importance for one in sources)
        reply = Reply(Message(text, "assistant"), None, importance, f"reflection by {by}")
        return Observation(self.question, reply, links=tuple(one.created for one in sources))


class Tally(Note):
    """The importance that has added up in a window since the last reflection."""

    __slots__ = ()

    @property
    def total(self) -> float:
        """The sum of importance."""
        return self.value.get("total", 0.0)

    @property
    def since(self) -> list[str]:
        """The ids of the summed observations, oldest first."""
        return self.value.get("since", [])

    @property
    def reflections(self) -> int:
        """The number of sums begun so far."""
        return self.value.get("reflections", 0)

    def added_to(
        self, change: PlannedWrite, writer: Writer, total: float, since: list[str], reflections: int
    ) -> PlannedWrite:
        """Return *change*, extended by the change that writes a sum.

        The store refuses the result if another writer wrote a sum after this sum was read.
        """
        self.value = {"total": total, "since": since[-SOURCES:], "reflections": reflections}
        begun = [] if self.stored else [Define(self.ref, Definition(retention="purge"))]
        items = [*change.items, self.change(writer)]
        return replace(change, items=items, define=[*change.define, *begun])


class Reflecting:
    """The reflections of one window in this process.

    Attributes:
        failure: The error of the last reflection that was due, or None. The next commit tries the
            reflection again.
    """

    def __init__(self, settings: Reflection, storage: LayerStorage, name: str) -> None:
        checked_kind(settings, Reflection, "reflection must be a Reflection(threshold)")
        self._settings, self._storage, self._name = settings, storage, name
        self._turn = HandleLock()
        self.failure: Exception | None = None

    @property
    def _window(self) -> SetRef:
        return self._storage.ref(self._name)

    def _tally(self, writer: Writer) -> Tally:
        return Tally.read(writer, self._storage.ref(PREFIX + self._name), NOTE)

    def counting(self, writer: Writer) -> Besides:
        """Return a function that adds the importance of an observation to the sum."""

        def counted(change: PlannedWrite, record: ItemRecord) -> PlannedWrite:
            if not change.items or not record.importance:
                return change
            tally = self._tally(writer)
            total, since = tally.total + record.importance, [*tally.since, record.id]
            return tally.added_to(change, writer, total, since, tally.reflections)

        return counted

    def cleared(self, writer: Writer) -> list[ItemChange]:
        """Return the changes that begin a new sum when the window is purged."""
        tally = self._tally(writer)
        if tally.stored is None:
            return []
        return [Retire(tally.ref, NOTE, tally.stored.version)]

    def after(self, writer: Writer, commit: CommitInsight) -> tuple[Observation, ...]:
        """Reflect until the sum is below the threshold. Return the evicted observations."""
        gone: tuple[Observation, ...] = ()
        with self._exclusive() as is_exclusive:
            while is_exclusive:
                tally = self._tally(writer)
                if tally.total < self._settings.threshold:
                    break
                try:
                    insight, removed = self._reflected(writer, tally, commit)
                except FAILURES as error:
                    _LOG.warning("a reflection failed", extra={"error": type(error).__name__})
                    self.failure = error
                    break
                gone += removed
                self._notify(insight)
        return gone

    def now(self, writer: Writer, commit: CommitInsight) -> Observation | None:
        """Reflect now, even if the sum is below the threshold. Return the insight, or None.

        None means that there is no insight, or that another writer reflects.
        """
        with self._exclusive() as is_exclusive:
            tally = self._tally(writer)
            if not is_exclusive or not tally.since:
                return None
            insight, _ = self._reflected(writer, tally, commit)
            self._notify(insight)
            return insight

    @contextmanager
    def _exclusive(self) -> Generator[bool]:
        """Yield True if this thread may reflect, or False if another thread here is reflecting."""
        is_exclusive = self._turn.acquire(blocking=False)
        try:
            yield is_exclusive
        finally:
            if is_exclusive:
                self._turn.release()

    def _observation(self, writer: Writer, item_id: str) -> StoredItem | None:
        """Return an observation, even if it left the window, or None if it was forgotten."""
        stored = writer.get(self._window, [item_id], at=None)[0]
        if stored is not None:
            return stored
        past = writer.versions(self._window, item_id)
        return past[-1][0] if past else None

    def _reflected(
        self, writer: Writer, tally: Tally, commit: CommitInsight
    ) -> tuple[Observation | None, tuple[Observation, ...]]:
        """Commit an insight and begin a new sum. Return the insight and the evicted observations.

        The insight is None if there is no insight, or if another writer reflected first.
        """
        sources = [stored for one in tally.since if (stored := self._observation(writer, one))]
        insight = None
        if sources:
            insight = self._settings.insight([observation_of(stored) for stored in sources])

        def besides(change: PlannedWrite, _record: ItemRecord | None = None) -> PlannedWrite:
            now = self._tally(writer)
            if now.stored is None or now.reflections != tally.reflections:
                return PlannedWrite([], None)
            since = [one for one in now.since if one not in tally.since]
            total = max(0.0, now.total - tally.total)
            return now.added_to(change, writer, total, since, now.reflections + 1)

        if insight is None:
            nothing = PlannedWrite([], None, retry=True)
            SetEditor(writer, self._window).commit("reflect", [], lambda _: besides(nothing))
            return None, ()
        links = [Link(self._window, stored.record.id) for stored in sources]
        removed = commit(insight, besides=besides, sources=links)
        return (None, ()) if removed is None else (insight, removed)

    def _notify(self, insight: Observation | None) -> None:
        self.failure = None
        if self._settings.on_reflection is not None and insight is not None:
            self._settings.on_reflection(insight)
