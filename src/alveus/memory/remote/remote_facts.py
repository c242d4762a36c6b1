"""The facts of a key of a server: each call is a request."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any, cast

from alveus.conversation import ConversationMemory
from alveus.errors import InvalidInput
from alveus.facts import (
    EntityPage,
    EntityProfile,
    Fact,
    FactOrigin,
    FactProblem,
    Facts,
    Learning,
    LearningCost,
    LearnOptions,
    LearnReport,
    Quotation,
)
from alveus.facts.entities import MOST_STEPS
from alveus.facts.facts import names_of_learnings
from alveus.facts.learning import (
    Source,
    check_conversation,
    check_model,
    checked_options,
    conversation_of,
)
from alveus.llm import Asking, ChatModel
from alveus.memory.remote.json_readers import (
    Json,
    as_of_text,
    optional_time,
    valid_at_text,
    value_of,
)
from alveus.memory.remote.local_only import unsupported
from alveus.memory.remote.remote_sets import where_json
from alveus.memory.remote.remote_tree import RemoteCalls
from alveus.sets.writer import Where
from alveus.store import Scope
from alveus.store.times import AsOf, ValidAt
from alveus.values.storable import checked_name, counted


class RemoteFacts(Facts):
    """The facts of one key, behind a server."""

    def __init__(self, calls: RemoteCalls, scope: Scope) -> None:
        self._calls, self._scope = calls, scope

    def __repr__(self) -> str:
        return f"<facts of key {self._scope.key!r}>"

    def __len__(self) -> int:
        return self._read("count")["facts"]

    def _read(self, call: str, **arguments: object) -> Json:
        return self._calls.read(f"facts.{call}", **arguments)

    # --- reading ------------------------------------------------------------------------------

    def list(
        self,
        *,
        subject: str | None = None,
        where: Where | None = None,
        limit: int | None = None,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> builtins.list[Fact]:
        """See `Facts.list`."""
        told = self._read(
            "list",
            subject=None if subject is None else checked_name(subject, "a subject"),
            where=where_json(where),
            limit=None if limit is None else counted(limit, "limit", least=0),
            **_dates(as_of, valid_at),
        )
        return [read_fact(fact) for fact in told["facts"]]

    def get(self, id: str) -> Fact | None:
        """See `Facts.get`."""
        found = self._read("get", id=checked_name(id, "a fact's id"))["fact"]
        return None if found is None else read_fact(found)

    def history(self, id: str) -> builtins.list[Fact]:
        """See `Facts.history`."""
        told = self._read("history", id=checked_name(id, "an item's id"))
        return [read_fact(fact) for fact in told["facts"]]

    def learnings(self, limit: int = 100) -> builtins.list[Learning]:
        """See `Facts.learnings`."""
        told = self._read("learnings", limit=counted(limit, "limit", least=0))
        return [_learning(each) for each in told["learnings"]]

    def why(self, fact: str | Fact) -> FactOrigin:
        """See `Facts.why`."""
        name = fact.id if isinstance(fact, Fact) else checked_name(fact, "a fact's id")
        told = self._read("why", id=name)
        learning = told["learning"]
        return FactOrigin(
            fact=read_fact(told["fact"]),
            messages=tuple(cast("list[Mapping[str, Any]]", value_of(told["messages"]))),
            learning=None if learning is None else _learning(learning),
            replaced=_facts(told["replaced"]),
            contradicts=_facts(told["contradicts"]),
        )

    def cost(
        self,
        conversation: ConversationMemory,
        *,
        model: ChatModel | None,
        options: LearnOptions | None = None,
    ) -> LearningCost:
        """See `Facts.cost`: of what rules read; a model and options are refused."""
        check_model(model)
        check_conversation(conversation)
        checked_options(options)
        if model is not None or options is not None:
            raise unsupported("facts.cost(model=, options=)", "ask where the model is")
        return LearningCost(**self._read("cost", conversation=conversation.name))

    def check(self) -> builtins.list[FactProblem]:
        """See `Facts.check`."""
        return [FactProblem(**each) for each in self._read("check")["problems"]]

    # --- entities -----------------------------------------------------------------------------

    def about(
        self, name: str, *, as_of: AsOf | None = None, valid_at: ValidAt | None = None
    ) -> EntityPage:
        """See `Facts.about`."""
        named = checked_name(name, "a name")
        told = self._read("about", name=named, **_dates(as_of, valid_at))
        names = tuple(told.pop("names"))
        return EntityPage(names=names, **{part: _facts(told[part]) for part in told})

    def entities(
        self, *, as_of: AsOf | None = None, valid_at: ValidAt | None = None
    ) -> dict[str, int]:
        """See `Facts.entities`."""
        return self._read("entities", **_dates(as_of, valid_at))["entities"]

    def neighbours(
        self,
        name: str,
        *,
        steps: int = 1,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> dict[str, tuple[int, Fact]]:
        """See `Facts.neighbours`."""
        named, far = checked_name(name, "a name"), counted(steps, "steps", most=MOST_STEPS)
        told = self._read("neighbours", name=named, steps=far, **_dates(as_of, valid_at))
        return {
            each["name"]: (each["steps"], read_fact(each["fact"])) for each in told["neighbours"]
        }

    def timeline(
        self,
        name: str | None = None,
        *,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> builtins.list[Fact]:
        """See `Facts.timeline`."""
        named = None if name is None else checked_name(name, "a name")
        told = self._read("timeline", name=named, **_dates(as_of, valid_at))
        return [read_fact(fact) for fact in told["facts"]]

    def profile(
        self,
        name: str | None = None,
        *,
        budget: int = 300,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> EntityProfile:
        """See `Facts.profile`."""
        named = None if name is None else checked_name(name, "a name")
        most = counted(budget, "budget")
        told = self._read("profile", name=named, budget=most, **_dates(as_of, valid_at))
        counts = {each: told[each] for each in ("name", "tokens", "left_out")}
        return EntityProfile(facts=_facts(told["facts"]), **counts)

    def merge(self, name: str, *others: str) -> EntityPage:
        """See `Facts.merge`."""
        if not others:
            raise InvalidInput("merge takes a name and its other names: merge('Grace', 'Gracie')")
        more = [checked_name(other, "a name") for other in others]
        self._calls.write("facts.merge", name=checked_name(name, "a name"), others=more)
        return self.about(name)

    def split(self, name: str) -> None:
        """See `Facts.split`."""
        self._calls.write("facts.split", name=checked_name(name, "a name"))

    def undo(self, *learnings: str | LearnReport, idempotency_key: str | None = None) -> int:
        """See `Facts.undo`."""
        names = names_of_learnings(learnings)
        return self._calls.write("facts.undo", idempotency_key, learnings=names)["facts"]


def learn_json(
    learned: ConversationMemory,
    source: Source,
    model: ChatModel | None,
    options: LearnOptions | None,
) -> dict[str, Any]:
    """Return what is learnt from as it is sent; texts and messages are added to *learned* before.

    Raises:
        Unsupported: There is a model of the call's own.
    """
    check_model(model)
    if model is not None:
        raise unsupported("learn(model=…)", "`alveus serve --model` chooses who finds the facts")
    sent = {} if options is None else {"options": _options_json(checked_options(options))}
    return {"conversation": conversation_of(learned, source).name, **sent}


def _options_json(options: LearnOptions) -> dict[str, Any]:
    if options.asking != Asking():
        raise unsupported("LearnOptions(asking=…)", "the server's model is asked as it is set up")
    sent: dict[str, Any] = {"idle_s": options.idle.total_seconds()}
    for name in ("batch_messages", "batch_tokens", "tries", "skipped", "at_least"):
        sent[name] = getattr(options, name)
    return sent | {"calls_per_hour": options.calls_per_hour}


def read_report(told: Mapping[str, Any]) -> LearnReport:
    """Return what a server tells that was learnt."""
    made = _tupled(told)
    made["added"] = _facts(told["added"])
    return LearnReport(**made)


def read_fact(told: Mapping[str, Any]) -> Fact:
    """Return the fact that a server tells of."""
    made = _tupled(told)
    made["quotations"] = tuple(Quotation(**quote) for quote in told["quotations"])
    for name in ("valid_from", "valid_to", "retired"):
        made[name] = optional_time(told[name])
    return Fact(**made)


def _facts(told: builtins.list[Mapping[str, Any]]) -> tuple[Fact, ...]:
    return tuple(read_fact(fact) for fact in told)


def _tupled(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with tuples for lists."""
    return {
        name: tuple(cast("builtins.list[Any]", it)) if isinstance(it, list) else it
        for name, it in told.items()
    }


def _learning(told: Mapping[str, Any]) -> Learning:
    return Learning(**_tupled(told))


def _dates(as_of: AsOf | None, valid_at: ValidAt | None) -> dict[str, str | None]:
    return {"as_of": as_of_text(as_of), "valid_at": valid_at_text(valid_at)}
