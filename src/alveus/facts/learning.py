"""Learning: turns messages into facts; each message is read once, despite crashes and races."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias, Unpack, cast

from alveus.conversation import SUMMARY, ConversationMemory, Said
from alveus.errors import (
    DuplicateItem,
    InvalidInput,
    ModelAnswerInvalid,
    ModelFailed,
    ModelRefused,
    ModelUnavailable,
    NotFound,
    StaleItem,
)
from alveus.facts.answers import (
    DECISIONS_SCHEMA,
    FACTS_SCHEMA,
    NEW,
    PROMPT,
    CandidateFact,
    CandidateFacts,
    CheckedDecision,
    KnownText,
    candidate_id,
    checked_decisions,
    checked_facts,
    decisions_request,
    facts_request,
    folded,
    text_of,
)
from alveus.facts.fact import FACTS, Fact, LearningCost, LearnReport, facts_of
from alveus.facts.learning_records import (
    OPEN_END,
    CallBudget,
    LearningRecords,
    ReadPosition,
    RowRange,
)
from alveus.facts.reconciling import CURRENT, FactChanges, Learnt
from alveus.facts.rules import NAME, RULES, decided_by_rules, found_by_rules, may_replace
from alveus.llm import Asking, ChatModel, Messages, Usage, ask_json
from alveus.llm.chat import ChatOptions
from alveus.search.query import search_options
from alveus.sets.commits import CommitWriter, commit_call
from alveus.sets.writer import Engine, NewId, PlannedWrite, PlannerCall
from alveus.store import Commit, Link, Scope, SetRef, StoredItem
from alveus.store.records import item_of
from alveus.store.times import ANY_TIME
from alveus.text.messages import Message
from alveus.text.statements import tokens
from alveus.values import wire, words
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Value, checked_kind, checked_progress, choice, counted, moment
from alveus.values.wire import fields_as_json

LEARNED = "learned"
"""The conversation that keeps texts and messages passed to `learn`."""

NEAREST = 5
"""Number of known facts with which each candidate is compared."""

NEAREST_BY_RULES = 100
"""Number of known facts with which a candidate is compared that may replace a fact by the rules.

The number is larger because the replaced fact may have other words.
"""

GIVES_UP = 100
"""Number of conflicts in a row after which the error is raised."""

READ_ROLES = ("user", "assistant")
"""Roles whose messages are read; instructions and tool answers are not."""

MOVED = (StaleItem, DuplicateItem, NotFound)
"""Errors of a commit if others committed first or forgot a message. The step then starts again."""

Source: TypeAlias = ConversationMemory | str | Said | Iterable[str | Said]
"""Sources of learning: a conversation, or one or several texts and messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnOptions:
    """Options of `learn`.

    Attributes:
        batch_messages: Most messages in one model call.
        batch_tokens: Most tokens of these messages together. A longer message is sent alone.
        tries: Number of calls of `learn` in a row in which the model fails to give a usable answer
            about a batch, after which the batch is set aside and the next batch is read.
        skipped: "leave" skips messages that were set aside; "retry" reads them again.
        at_least: Least number of waiting messages. If fewer wait, no message is read.
        idle: Time that must have passed since the last message was added. Before, no message is
            read.
        calls_per_hour: Most model calls in one hour of the clock, counted over all processes that
            learn in the space with this option. A call is counted before it is made. By default
            there is no limit.
        asking: The options of the model calls.
    """

    batch_messages: int = 50
    batch_tokens: int = 6_000
    tries: int = 3
    skipped: Literal["leave", "retry"] = "leave"
    at_least: int = 1
    idle: timedelta = timedelta(0)
    calls_per_hour: int | None = None
    asking: Asking = field(default_factory=Asking)

    def __post_init__(self) -> None:
        """Raise for options that allow no reading."""
        counted(self.batch_messages, "batch_messages", most=1_000)
        counted(self.batch_tokens, "batch_tokens")
        counted(self.tries, "tries")
        counted(self.at_least, "at_least")
        if not isinstance(self.idle, timedelta) or self.idle < timedelta(0):  # pyright: ignore[reportUnnecessaryIsInstance] - user input
            raise InvalidInput(f"idle must be a timedelta of 0 or more, not {self.idle!r}")
        if self.calls_per_hour is not None:
            counted(self.calls_per_hour, "calls_per_hour")
        choice(self.skipped, "skipped", "leave", "retry")


def learn(
    engine: Engine,
    scope: Scope,
    source: Source,
    *,
    model: ChatModel | None,
    options: LearnOptions | None = None,
    progress: Callable[[int], None] | None = None,
) -> LearnReport:
    """Learn facts of a key; see `KeyMemory.learn`."""
    check_model(model)
    checked_progress(progress, "a number of messages")
    options = checked_options(options)
    ref = conversation_of(learned_by(CommitWriter(engine, scope), scope), source)  # adds texts
    return _Learner(engine, ref, model, options).run(progress)


def cost_of_learning(
    engine: Engine,
    scope: Scope,
    conversation: ConversationMemory,
    *,
    model: ChatModel | None,
    options: LearnOptions | None,
) -> LearningCost:
    """Return the cost of `learn`; change nothing."""
    check_model(model)
    what = "cost() needs a conversation, such as key.conversation(…)"  # only `learn` adds texts
    checked_kind(conversation, ConversationMemory, what)
    ref = conversation_of(learned_by(CommitWriter(engine, scope), scope), conversation)
    return _Learner(engine, ref, model, checked_options(options)).cost()


def check_model(model: object) -> None:
    """Raise `InvalidInput` unless *model* is a `ChatModel` or None."""
    if model is not None:
        what = "model must be a ChatModel, such as OpenAIChat('gpt-4o'), or None"
        checked_kind(model, ChatModel, what)


def checked_options(options: LearnOptions | None) -> LearnOptions:
    """Return *options*, or the default options if *options* is None."""
    options = LearnOptions() if options is None else options
    return checked_kind(options, LearnOptions, "options must be a LearnOptions")


def learned_by(writer: CommitWriter, scope: Scope) -> ConversationMemory:
    """Return the conversation of a key that keeps the texts and messages passed to `learn`."""
    return ConversationMemory(writer, SetRef(scope, LEARNED))


def conversation_of(learned: ConversationMemory, source: Source) -> SetRef:
    """Return the conversation to learn from; texts and messages are first added to *learned*.

    A message without an id gets an id that is derived from its contents, so that a repetition adds
    nothing.

    Args:
        learned: The conversation for added messages. It belongs to the key that learns.

    Raises:
        InvalidInput: *source* is a conversation of another key, or is not a source of learning.
    """
    if isinstance(source, ConversationMemory):
        key = learned.ref.scope.key
        if source.ref.scope != learned.ref.scope:
            raise InvalidInput(
                f"conversation {source.name!r} belongs to key {source.ref.scope.key!r}, not to "
                f"{key!r}; call learn() of its key"
            )
        return source.ref
    learned.add([_identified(one) for one in _listed(source)])
    return learned.ref


def _listed(source: object) -> list[Mapping[str, Any]]:
    if isinstance(source, str | Mapping | Message):
        return [_message(cast("object", source))]
    if isinstance(source, bytes) or not isinstance(source, Iterable):
        kind = type(source).__name__
        raise InvalidInput(f"learn() needs a conversation, messages or texts, not {kind}")
    return [_message(one) for one in cast("Iterable[object]", source)]


def _message(given: object) -> Mapping[str, Any]:
    if isinstance(given, str):
        if not given.strip():
            raise InvalidInput("a text to learn from is empty; leave it out")
        return {"role": "user", "content": given}
    if isinstance(given, Message):
        return given.to_dict()
    if not isinstance(given, Mapping):
        raise InvalidInput(f"a message must be a dict or a text, not {type(given).__name__}")
    return cast("Mapping[str, Any]", given)


def _identified(message: Mapping[str, Any]) -> Mapping[str, Any]:
    if message.get("id") is not None:
        return message
    said = [repr(message.get(name)) for name in ("role", "name", "content", "timestamp")]
    return {**message, "id": wire.digest([*said], salt=b"alveus message").hex()[:32]}


class _Asked(NamedTuple):
    """Messages, the facts in the model's answer about them, and the name of the answer's record."""

    messages: Sequence[StoredItem]
    found: CandidateFacts
    name: list[Value]


class _Learner:
    """Reads one conversation to its end, one batch of messages after the other."""

    def __init__(
        self, engine: Engine, conversation: SetRef, model: ChatModel | None, options: LearnOptions
    ) -> None:
        self._engine, self._conversation = engine, conversation
        self._scope = conversation.scope
        self._model: _CountedModel | None = None
        if model is not None:
            budget = None
            if options.calls_per_hour is not None:
                calls = CallBudget(engine, self._scope.space)
                budget = partial(calls.take, options.calls_per_hour)
            self._model = _CountedModel(model, budget)
        self._name = NAME if model is None else model.name
        self._prompt = RULES if model is None else PROMPT
        self._options = options
        self._writer = CommitWriter(engine, self._scope)
        self._facts = SetRef(self._scope, FACTS)
        self._records = LearningRecords(self._writer, self._scope)
        self._unread: list[tuple[int, str]] = []
        self._unread_of = 0
        self._failed: set[int] = set()
        self._set_aside = 0
        self._lost = False
        self._learnt: list[tuple[Learnt, Commit]] = []

    def cost(self) -> LearningCost:
        """Return the cost of `run`."""
        position = self._records.position(self._conversation.name)
        messages = calls = size = 0
        for part in self._parts(position):
            after = part.after
            while batch := self._batch(part._replace(after=after)):
                after = batch[-1].first
                read = [stored for stored in batch if is_read(stored)]
                messages += len(read)
                if read and self._model is not None:
                    calls += 2
                    size += sum(tokens(one["content"]) for one in facts_request(read))
        return LearningCost(messages, calls, size)

    def _parts(self, position: ReadPosition) -> list[RowRange]:
        """Return the ranges of messages that this call must read.

        Ranges that failed in this call are left out. So are ranges that were set aside before,
        unless the options say to retry them.
        """
        ranges = position.ranges()
        if self._options.skipped == "leave":
            tries = self._options.tries
            ranges = [one for one in ranges if one.until == OPEN_END or one.failures < tries]
        return [one for one in ranges if one.after not in self._failed]

    def run(self, progress: Callable[[int], None] | None = None) -> LearnReport:
        """Read until no message is left; return the report."""
        if not self._is_due():
            return self._report()
        try:
            while (messages := self._next()) is not None:
                if progress is not None:
                    progress(messages)
        except ModelUnavailable:
            if self._model is None or not self._model.is_spent:
                raise
            return self._report(waiting=self.cost().messages)
        return self._report()

    def _next(self) -> int | None:
        """Read the next messages, with retries after conflicts; see `_step` for the result."""
        for left in reversed(range(GIVES_UP)):
            try:
                messages = self._step()
            except MOVED:
                self._unread.clear()
                self._lost = True
                if not left:
                    raise
            else:
                if messages is None and self._lost:
                    self._records.discard(self._conversation.name)
                return messages
        raise AssertionError("the last failure is raised")

    def _is_due(self) -> bool:
        """Return whether enough messages wait, and the last of them is old enough."""
        least, idle = self._options.at_least, self._options.idle
        if least == 1 and not idle:
            return True
        parts = self._parts(self._records.position(self._conversation.name))
        waiting = [one for part in parts for one in self._after(part)]
        if len(waiting) < least:
            return False
        last = self._writer.get(self._conversation, [name for _, name in waiting[-1:]], at=None)
        now = moment(self._engine.clock())
        return all(one is None or now - moment(one.created) >= idle for one in last)

    def _step(self) -> int | None:
        """Read the next messages; return their number, or None at the end."""
        position = self._records.position(self._conversation.name)
        part = self._parts(position)[0]
        messages = self._batch(part)
        if not messages:
            if part.until == OPEN_END:
                return None
            self._records.move(self._conversation.name, position.moved(part, part.until))
            return 0
        try:
            self._learnt.append(self._learn(position, part, messages))
        except (ModelAnswerInvalid, ModelRefused) as error:
            if not _is_about_the_messages(error):
                raise
            return self._give_up(part, messages, error)
        return self._learnt[-1][0].messages

    def _give_up(self, part: RowRange, messages: Sequence[StoredItem], error: ModelFailed) -> int:
        """Count another failure of the model at *messages*.

        If they are set aside now, return their number. Return 0 if another process read or counted
        them first. Otherwise raise *error*.
        """
        recorded = self._recorded(self._answer_name(part), part)
        read = messages if recorded is None else recorded.messages
        conversation, tries = self._conversation.name, self._options.tries
        position = self._records.position(conversation)
        if part not in position.ranges():
            return 0  # another process read or counted first
        self._records.move(conversation, position.failed(part, read[-1].first, tries=tries))
        if part.failures + 1 < tries:
            raise error
        self._failed.add(part.after)
        count = sum(map(is_read, read))
        self._set_aside += count
        return count

    def _report(self, *, waiting: int = 0) -> LearnReport:
        changes = [one for one, _ in self._learnt]
        refused = Counter[str]()
        for one in changes:
            refused.update(one.refused)
        ids = [item_id for one in changes for item_id in one.changes.added]
        found = self._writer.get(self._facts, ids, at=None) if ids else []
        return LearnReport(
            added=tuple(facts_of([item_of(one) for one in found if one is not None])),
            confirmed=_joined(one.confirmed for one in changes),
            superseded=_joined(one.superseded for one in changes),
            contradicted=_joined(one.contradicted for one in changes),
            taken_back=_joined(one.changes.taken_back for one in changes),
            refused=dict(refused),
            model_calls=0 if self._model is None else self._model.calls,
            messages=sum(one.messages for one in changes),
            set_aside=self._set_aside,
            waiting=waiting,
            learnings=tuple(one.changes.id for one in changes),
            commits=tuple(commit.number for _, commit in self._learnt),
        )

    # --- what is read -------------------------------------------------------------------------

    def _batch(self, part: RowRange) -> list[StoredItem]:
        """Return the next messages of a range, in the order in which they were added."""
        self._unread = [one for one in self._unread if one[0] > part.after]
        if self._unread_of != part.until or not self._unread:
            self._unread, self._unread_of = self._after(part), part.until
        batch: list[StoredItem] = []
        size = 0
        for at in range(0, len(self._unread), self._options.batch_messages):
            ids = [one for _, one in self._unread[at : at + self._options.batch_messages]]
            for stored in self._writer.get(self._conversation, ids, at=None):
                if stored is None:
                    continue
                size += tokens(text_of(stored)) if is_read(stored) else 0
                if batch and size > self._options.batch_tokens:
                    return batch
                batch.append(stored)
                if len(batch) == self._options.batch_messages:
                    return batch
        return batch

    def _after(self, part: RowRange) -> list[tuple[int, str]]:
        """Return the first row and the id of each message added in a range of rows, sorted by row.

        A changed message has a later row but keeps its first row. So a change makes no message
        appear twice, and no waiting message is skipped.
        """
        info = self._writer.info(self._conversation)
        if info is None:
            return []
        features = self._engine.store.features(info.number, after=part.after)
        return sorted(
            (f.first, f.id)
            for f in features
            if part.after < f.first <= part.until and f.id != SUMMARY
        )

    # --- a batch --------------------------------------------------------------------------------

    def _learn(
        self, position: ReadPosition, part: RowRange, messages: Sequence[StoredItem]
    ) -> tuple[Learnt, Commit]:
        asked = self._asked(part, messages)
        decisions = self._decided(asked, self._near(asked.found.facts))
        decided = list(zip(asked.found.facts, decisions, strict=True))
        moved, learnt = position.moved(part, asked.messages[-1].first), list[Learnt]()
        plan = partial(self._planned, asked, decided, moved, learnt)
        commit = commit_call(self._engine, self._scope, PlannerCall("learn", None, plan))
        assert commit is not None  # noqa: S101 - a position always moves
        return learnt[0], commit

    def _planned(
        self,
        asked: _Asked,
        decided: Sequence[tuple[CandidateFact, CheckedDecision]],
        position: ReadPosition,
        learnt: list[Learnt],
        _new_id: NewId,
    ) -> PlannedWrite:
        """Plan the facts of one batch of messages and their records; put the result in *learnt*."""
        records, conversation = self._records, self._conversation.name
        planned = FactChanges(
            writer=self._writer,
            facts=self._facts,
            conversation=self._conversation,
            messages=[stored for stored in asked.messages if is_read(stored)],
            found_by=(self._name, self._prompt),
            refused=asked.found.refused,
        )
        planned.take(decided)
        learnt[:] = [planned.learnt()]
        about = {"conversation": conversation, "model": self._name, "prompt": self._prompt}
        items = [
            *planned.items,
            records.moved(conversation, position),
            records.learnt(learnt[0].changes, about, learnt[0].messages),
            *records.used(conversation),
        ]
        return PlannedWrite(
            items,
            None,
            [*planned.define, *records.definitions()],
            admission_checks=[*planned.admission_checks, *records.checks()],
        )

    def _answer_name(self, part: RowRange) -> list[Value]:
        return [self._conversation.name, part.after, self._name, self._prompt]

    def _asked(self, part: RowRange, messages: Sequence[StoredItem]) -> _Asked:
        """Return the answer of the model, or of the rules, about the next messages.

        An answer that another process recorded, and did not use yet, is used here: the process may
        be slower or was killed. The result then has the messages about which that process asked.
        """
        name = self._answer_name(part)
        if self._model is None:
            read = [stored for stored in messages if is_read(stored)]
            return _Asked(messages, found_by_rules(read), name)
        if (done := self._recorded(name, part)) is not None:
            return done
        read = [stored for stored in messages if is_read(stored)]
        if not read:
            return _Asked(messages, CandidateFacts((), {}), name)
        found = ask_json(
            self._model,
            facts_request(read),
            json_schema=FACTS_SCHEMA,
            check=lambda answer: checked_facts(answer, read),
            asking=self._options.asking,
        )
        of: list[Value] = [[stored.record.id, stored.row] for stored in messages]
        links = [Link(self._conversation, stored.record.id) for stored in read]
        value: dict[str, Value] = {"of": of, "answer": fields_as_json(found)}
        recorded = self._records.record_answer(name, value, links)
        same = self._unchanged(recorded["of"])
        if same is None:
            raise StaleItem(messages[0].record.id, expected=messages[0].version, found=None)
        return _Asked(same, CandidateFacts.from_json(recorded["answer"]), name)

    def _recorded(self, name: list[Value], part: RowRange) -> _Asked | None:
        """Return a recorded answer and its messages, or None if there is no usable answer."""
        recorded = self._records.answer(name)
        same = None if recorded is None else self._unchanged(recorded["of"])
        if recorded is None or not same or same[-1].first > part.until:
            return None
        return _Asked(same, CandidateFacts.from_json(recorded["answer"]), name)

    def _unchanged(self, of: Sequence[Sequence[Any]]) -> list[StoredItem] | None:
        """Return the messages with these ids and rows, or None if one of them changed."""
        found = self._writer.get(self._conversation, [one for one, _ in of], at=None)
        same = [stored for stored in found if stored is not None]
        return same if [one.row for one in same] == [row for _, row in of] else None

    def _near(self, candidates: Sequence[CandidateFact]) -> list[list[KnownText]]:
        """Return known facts and earlier candidates with which to compare each candidate."""
        found: list[list[KnownText]] = []
        by_subject: dict[str, list[tuple[KnownText, set[int]]]] = {}
        for number, candidate in enumerate(candidates, start=1):
            terms = set(words.terms(candidate.text))
            earlier = by_subject.setdefault(folded(candidate.subject), [])
            nearest = sorted(earlier, key=lambda one, t=terms: -len(t & one[1]))[
                : self._most(candidate)
            ]
            found.append([*self._known(candidate), *(one for one, _ in nearest)])
            earlier.insert(0, (KnownText(candidate_id(number), candidate.text), terms))
        return found

    def _most(self, candidate: CandidateFact) -> int:
        """Return the number of facts to compare with a candidate."""
        return NEAREST_BY_RULES if self._model is None and may_replace(candidate) else NEAREST

    def _known(self, candidate: CandidateFact) -> list[KnownText]:
        """Return the known facts of the same subject that are nearest to a candidate."""
        where = {"subject_key": folded(candidate.subject), "state": CURRENT}
        options = search_options(self._most(candidate), where, None, None, ANY_TIME, reranker=None)
        hits = self._engine.recall.search([self._facts], candidate.text, options)
        return [
            KnownText(str(hit.item.id), hit.item.text or "")
            for hit in hits
            if Fact.of(hit.item) is not None
        ]

    def _decided(self, asked: _Asked, near: Sequence[Sequence[KnownText]]) -> list[CheckedDecision]:
        """Return the decision about each candidate.

        A candidate that repeats a fact word for word is the same fact. The model, or the rules,
        decide about other candidates that have a fact near them; the rest are new.
        """
        candidates = asked.found.facts
        plain = [_said_before(*pair) for pair in zip(candidates, near, strict=True)]
        open_ = [some if same is None else () for some, same in zip(near, plain, strict=True)]
        if not any(open_):
            return [same or NEW for same in plain]
        if self._model is None:
            answered = decided_by_rules(candidates, open_)
        else:
            answered = self._asked_decisions(self._model, asked, open_)
        return [same or one for same, one in zip(plain, answered, strict=True)]

    def _asked_decisions(
        self, model: ChatModel, asked: _Asked, near: Sequence[Sequence[KnownText]]
    ) -> list[CheckedDecision]:
        """Return the model's decisions, from its recorded answer if there is one."""
        request = decisions_request(asked.found.facts, near)
        digest = self._engine.request([message["content"] for message in request]).hex()
        name: list[Value] = [*asked.name, digest]
        recorded = self._records.answer(name)
        if recorded is None:
            found = ask_json(
                model,
                request,
                json_schema=DECISIONS_SCHEMA,
                check=lambda answer: checked_decisions(answer, near),
                asking=self._options.asking,
            )
            facts = dict.fromkeys(one.id for some in near for one in some)
            mark = candidate_id(0)[0]
            links = [Link(self._facts, name) for name in facts if not name.startswith(mark)]
            links += [
                Link(self._conversation, one.record.id) for one in asked.messages if is_read(one)
            ]
            value: dict[str, Value] = {"of": digest, "answer": cast("Value", found)}
            recorded = self._records.record_answer(name, value, links)
        return [CheckedDecision(*one) for one in recorded["answer"]]


def _joined(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the ids in all *groups*, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


def _is_about_the_messages(error: ModelFailed) -> bool:
    """Return whether a failure may be due to the messages, and not to the server."""
    return not isinstance(error, ModelRefused) or error.status in (None, 400, 413, 422)


def is_read(message: StoredItem) -> bool:
    """Return whether a message can contain facts."""
    return message.record.role in READ_ROLES and bool(text_of(message).strip())


def _said_before(candidate: CandidateFact, near: Sequence[KnownText]) -> CheckedDecision | None:
    """Return the decision "same" if a candidate repeats another fact word for word, or None."""
    text = folded(candidate.text)
    found = next((one.id for one in near if folded(one.text) == text), None)
    return None if found is None else CheckedDecision("same", found)


class _CountedModel(ChatModel):
    """A model that counts its calls.

    Args:
        budget: Counts a call before it is made; returns False if no call is left. None means no
            limit.
    """

    def __init__(self, model: ChatModel, budget: Callable[[], bool] | None) -> None:
        self._model, self._budget = model, budget
        self.calls = 0
        self.is_spent = False

    @property
    def name(self) -> str:
        """See `ChatModel.name`."""
        return self._model.name

    @property
    def usage(self) -> Usage:
        """See `ChatModel.usage`."""
        return self._model.usage

    def complete(self, messages: Messages, **options: Unpack[ChatOptions]) -> str:
        """See `ChatModel.complete`."""
        if self._budget is not None and not self._budget():
            self.is_spent = True
            raise ModelUnavailable(
                self.name,
                "its limit of calls per hour (calls_per_hour) is reached; try again later",
            )
        self.calls += 1
        return self._model.complete(messages, **options)
