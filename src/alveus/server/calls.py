"""The calls that requests carry, on the memory of a key or on knowledge.

Each is the Python call of the same name; the classes of `alveus.memory.async_objects` list them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, cast

from pydantic import BaseModel, ConfigDict, Field

from alveus.conversation import ConversationMemory
from alveus.errors import InvalidInput, Unsupported
from alveus.facts import Facts
from alveus.facts.fact import FACTS
from alveus.memory.async_objects import (
    AsyncConversation,
    AsyncFacts,
    AsyncKey,
    AsyncMemorySet,
    AsyncQuarantine,
    AsyncSets,
)
from alveus.memory.keys import KeyMemory, KnowledgeMemory
from alveus.memory.remote.codecs import wire_json
from alveus.search.signals import Signals
from alveus.server import exact_calls
from alveus.server import requests as asked
from alveus.server.memory_call import CallTarget, Document, MemoryCall, models_of
from alveus.sets import MemorySet, refuse_upkeep
from alveus.sets.admission import Quarantine
from alveus.sets.admission.rules import CustomRule, rules_of
from alveus.sets.commits import CommitWriter
from alveus.sets.compaction.strategies import read as read_strategy
from alveus.sets.origins import Lineage
from alveus.sets.set_compaction import ItemOrigins
from alveus.state import Ttl
from alveus.store import Scope, SetRef
from alveus.store.items import Item

# --- sets -----------------------------------------------------------------------------------------


class SetLife(BaseModel):
    """The default lifetime of items of a set."""

    model_config = ConfigDict(extra="forbid", strict=True)
    after_s: Annotated[float, Field(gt=0, le=asked.LONGEST_S)]
    refresh: Literal["write", "read"] = "write"

    def ttl(self) -> Ttl:
        """Return the lifetime as sets accept it."""
        return Ttl(timedelta(seconds=self.after_s), self.refresh)


SpanS = Annotated[float, Field(ge=0, le=asked.LONGEST_S)]
"""A span of time in seconds."""

OF_KNOWLEDGE = frozenset({"item_type", "admission"})
"""The definition options of a knowledge set."""


class DefinitionOptions(BaseModel):
    """The definition of a set; omitted options have defaults. See `Definition` of alveus."""

    model_config = ConfigDict(extra="forbid", strict=True)
    capacity: int | None = None
    compaction: str | dict[str, Any] | None = None
    capacity_tokens: int | None = None
    capacity_bytes: int | None = None
    high_water: float | None = None
    low_water: float | None = None
    execution: Literal["background", "sync", "external"] | None = None
    retention: Literal["keep", "purge"] | SpanS | None = None
    signals: dict[str, float] | None = None
    admission: list[dict[str, Any]] | None = None
    item_type: str | None = None

    def options(self) -> dict[str, Any]:
        """Return the given options, as sets accept them.

        Raises:
            InvalidInput, RuleFailed: An option is invalid.
            Unsupported: An option names code, which the server does not run for network clients.
        """
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if isinstance(given.get("compaction"), dict):
            given["compaction"] = read_strategy(given["compaction"])
        elif given.get("compaction") not in (None, "trim", "reject"):
            raise InvalidInput("compaction must be 'trim', 'reject', or a strategy with its name")
        if given.get("admission") is not None:
            given["admission"] = rules_of(given["admission"])
            if any(isinstance(rule, CustomRule) for rule in given["admission"]):
                raise Unsupported(
                    "a rule of admission of your own is not taken over HTTP; give it to the set "
                    "where the server's file or database is opened"
                )
        if isinstance(seconds := given.get("retention"), float):
            given["retention"] = timedelta(seconds=seconds)
        if given.get("signals") is not None:
            given["signals"] = Signals.from_json(given["signals"])
        return given


class NamedSet(BaseModel):
    """A set of the key, or of knowledge."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: str = "default"
    knowledge: bool = False
    definition: DefinitionOptions | None = None
    made: DefinitionOptions | None = Field(
        default=None, description="How it was made: if it was forgotten since, it is made so again."
    )
    ttl: SetLife | None = None

    def open(self, to: CallTarget) -> MemorySet:
        """Return the set."""
        owner = to.sets(knowledge=self.knowledge)
        given = self.definition
        if self.made is not None and self.name not in owner.sets(prefix=self.name):
            given = self.made
        options = {} if given is None else given.options()
        ttl = None if self.ttl is None or not to.renews else self.ttl.ttl()
        if isinstance(owner, KnowledgeMemory):
            refuse_upkeep({"ttl": ttl} | {n: options.pop(n) for n in {*options} - OF_KNOWLEDGE})
            return owner.set(self.name, **options)
        return owner.set(self.name, ttl=ttl, **options)


class SetCall(MemoryCall):
    """A call of one set."""

    set: NamedSet = NamedSet()

    @property
    def in_knowledge(self) -> bool:
        """See `MemoryCall.in_knowledge`."""
        return self.set.knowledge

    @property
    def set_name(self) -> str | None:
        """See `MemoryCall.set_name`."""
        return self.set.name

    def opened(self, to: CallTarget) -> object:
        """See `MemoryCall.opened`."""
        return self.set.open(to)

    def committed(self, to: CallTarget) -> Document:
        """Make a call that does not commit, once per idempotency key of the request."""
        plain = self.model_dump(mode="json", warnings=False)
        return to.answer_once(lambda: self.made(to._replace(once=None)), plain)


class OriginCall(SetCall):
    """A call that returns items of other sets; items that the token may not see are omitted."""

    @property
    def shows_knowledge(self) -> bool:
        """See `MemoryCall.shows_knowledge`."""
        return True

    def opened(self, to: CallTarget) -> object:
        """See `MemoryCall.opened`."""
        return _SeenOrigins(self.set.open(to).inside, to.may_see)


class _SeenOrigins(NamedTuple):
    """The sources of the items of a set, as a token may see them."""

    all: ItemOrigins
    may_see: Callable[[Scope], bool]

    def sources(self, id: str) -> list[Item]:
        """See `MemorySet.sources`."""
        return self.all.sources(id, may_see=self.may_see)

    def lineage(self, id: str) -> Lineage:
        """See `MemorySet.lineage`."""
        return self.all.lineage(id, may_see=self.may_see)


class RedefineSet(SetCall):
    """Change the definition of a set; omitted options stay."""

    call: Literal["set.redefine"]
    definition: DefinitionOptions

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        if "item_type" in self.definition.model_fields_set:
            raise InvalidInput("item_type is not redefined: it says what the items already are")
        return self.committed(to)

    def made(self, to: CallTarget) -> Document:
        """See `MemoryCall.made`."""
        changed = self.set.open(to).redefine(**self.definition.options())
        return {"result": wire_json(changed.to_json())}


# --- of a key, or of knowledge --------------------------------------------------------------------


class OwnerCall(MemoryCall):
    """A call of a key, or of knowledge."""

    of_knowledge: bool = False

    @property
    def in_knowledge(self) -> bool:
        """See `MemoryCall.in_knowledge`."""
        return self.of_knowledge

    def opened(self, to: CallTarget) -> object:
        """See `MemoryCall.opened`."""
        owner = to.sets(knowledge=self.of_knowledge)
        if not hasattr(owner, self.described.method.__name__):
            raise InvalidInput(
                f"{self.described.name} is a call of a key, outside of batches; name it with ?key="
            )
        return owner


class QuarantineCall(MemoryCall):
    """A call on the quarantine: items that admission rules hold back from sets."""

    name: Annotated[str | None, Field(description="The set; left out: all of them.")] = None
    of_knowledge: bool = False

    @property
    def in_knowledge(self) -> bool:
        """See `MemoryCall.in_knowledge`."""
        return self.of_knowledge

    def opened(self, to: CallTarget) -> Quarantine:
        """See `MemoryCall.opened`."""
        owner = to.sets(knowledge=self.of_knowledge)
        return owner.quarantine if self.name is None else owner.set(self.name).quarantine


# --- facts and conversations ----------------------------------------------------------------------


class FactCall(MemoryCall):
    """A call of the facts of a key."""

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        if not isinstance(to.owner, KeyMemory):
            raise InvalidInput("facts belong to a key, outside of batches; name it with ?key=")
        return super().answer(to)

    def opened(self, to: CallTarget) -> Facts:
        """See `MemoryCall.opened`."""
        _, writer, scope = to.owner.inside
        return Facts(cast("CommitWriter", writer), SetRef(scope, FACTS))  # or that of a commit


class ConversationCall(MemoryCall):
    """A call of one conversation."""

    conversation: Annotated[str, Field(description="Its name; it is the set of that name.")]
    timezone: Annotated[
        str | None, Field(description="Where it takes place; by default where the reader is.")
    ] = None
    keeps_times: Annotated[
        bool, Field(description="Whether `add` keeps a `timestamp` of the last minute.")
    ] = True

    @property
    def set_name(self) -> str | None:
        """See `MemoryCall.set_name`."""
        return self.conversation

    def opened(self, to: CallTarget) -> ConversationMemory:
        """See `MemoryCall.opened`."""
        return to.conversation(self.conversation, self.timezone)

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`.

        With an idempotency key, `add` keeps the times of messages. A client that generated a key to
        repeat its request wants the time of the commit instead.
        """
        return super().answer(to) if self.keeps_times else self.committed(to)


_EVERY = (
    *exact_calls.CALLS,
    *models_of(AsyncMemorySet, SetCall, others={"sources": OriginCall, "lineage": OriginCall}),
    RedefineSet,
    *models_of(AsyncSets, OwnerCall),
    *models_of(AsyncKey, OwnerCall),
    *models_of(AsyncQuarantine, QuarantineCall),
    *models_of(AsyncConversation, ConversationCall),
    *models_of(AsyncFacts, FactCall),
)

if TYPE_CHECKING:  # a checker knows the class that all have in common
    Call = MemoryCall
else:
    Call = Annotated[Union[*_EVERY], Field(discriminator="call")]
