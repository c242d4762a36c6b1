"""The calls that a request can make on the memory of a key, or on knowledge.

Each call runs the Python method of the same name. The classes of `alveus.memory.async_objects` list
the methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from inspect import Parameter
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
)

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from alveus.conversation import ConversationMemory
from alveus.errors import InvalidInput, Unsupported
from alveus.facts import Facts
from alveus.facts.fact import FACTS
from alveus.memory.async_objects import (
    AsyncConversation,
    AsyncFacts,
    AsyncKey,
    AsyncMemoryObject,
    AsyncMemorySet,
    AsyncQuarantine,
    AsyncSets,
)
from alveus.memory.keys import KeyBatch, KeyMemory, KnowledgeMemory
from alveus.memory.remote.calls import Call, calls_of
from alveus.memory.remote.codecs import value_of
from alveus.memory.remote.remote_tree import branch_nodes
from alveus.search.signals import Signals
from alveus.server import requests as asked
from alveus.server.schemas import first_of, new_model, said_of, schema_of
from alveus.server.tokens import Access, Token
from alveus.sets import MemorySet, refuse_upkeep
from alveus.sets.admission import Quarantine
from alveus.sets.admission.rules import CustomRule, rules_of
from alveus.sets.commits import CommitWriter, answer_once
from alveus.sets.compaction.strategies import read as read_strategy
from alveus.sets.origins import ItemOrigins, Lineage
from alveus.state import MISSING, MemoryKind, MemoryObject, Overlay, Ttl, root_of
from alveus.state.memory_object import branch_of
from alveus.store import Scope, SetRef
from alveus.store.items import Item
from alveus.values.storable import Value
from alveus.values.wire import wired

Document = dict[str, Any]

B = TypeVar("B", bound=BaseModel)

TABLES = (
    AsyncMemoryObject,
    AsyncMemorySet,
    AsyncSets,
    AsyncKey,
    AsyncQuarantine,
    AsyncConversation,
    AsyncFacts,
)

TABLE: Mapping[str, Call] = {name: call for kind in TABLES for name, call in calls_of(kind).items()}
"""The calls whose arguments are described by the method that they run, by name."""

Owner: TypeAlias = KeyMemory | KeyBatch | KnowledgeMemory


class CallTarget(NamedTuple):
    """The memory that a call is made on.

    Attributes:
        once: The idempotency key of the call, or None. The calls of a batch have None, because the
            batch has the key.
        token: The caller's token.
        renews: Whether a read may extend the lifetime of items, if their set is configured so.
    """

    owner: Owner
    token: Token
    once: str | None = None
    renews: bool = True

    def may_see(self, scope: Scope) -> bool:
        """See `Token.may_see`."""
        return self.token.may_see(scope, knowledge=self.owner.inside.engine.knowledge)

    def tree(self) -> MemoryObject:
        """Return the root of the exact memory.

        Raises:
            InvalidInput: The target is knowledge, which has no exact memory.
        """
        if isinstance(self.owner, KnowledgeMemory):
            raise InvalidInput("exact memory belongs to a key; pass it as ?key=")
        tree = self.owner.short_term
        return tree if self.once is None else tree.once(self.once)

    def answer_once(self, act: Callable[[], Document], plain: Value) -> Document:
        """Return the result of *act*, and store it under the idempotency key of the call, if any.

        A repetition returns the stored result. *act* makes no commit that could store the result.

        Args:
            plain: The request. Another request with the same idempotency key is refused.
        """
        if self.once is None:
            return act()
        engine, _, scope = self.owner.inside
        answer = answer_once(engine, scope, act, idempotency_key=self.once, plain=plain)
        return cast("Document", answer)

    def conversation(self, name: str, timezone: str | None = None) -> ConversationMemory:
        """Return a conversation of the key.

        Raises:
            InvalidInput: The target is knowledge, which has no conversations.
        """
        if isinstance(self.owner, KnowledgeMemory):
            raise InvalidInput("a conversation belongs to a key; pass it as ?key=")
        return self.owner.conversation(name, timezone=timezone)

    def sets(self, *, knowledge: bool) -> Owner:
        """Return the memory whose sets the call uses."""
        if knowledge and not isinstance(self.owner, KnowledgeMemory):
            return self.owner.knowledge
        return self.owner


class MemoryCall(BaseModel):
    """A call, as a request sends it. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)
    access: ClassVar[Access] = "write"
    described: ClassVar[Call]

    @property
    def in_knowledge(self) -> bool:
        """Whether the call uses sets of knowledge although the request names a key."""
        return False

    @property
    def shows_knowledge(self) -> bool:
        """Whether the result may contain items of knowledge."""
        return self.in_knowledge

    @property
    def set_name(self) -> str | None:
        """The name of the set that the call uses, or None if it does not name a set."""
        return None

    def opened(self, to: CallTarget) -> object:
        """Return the object whose method is called.

        Raises:
            InvalidInput: The target does not have this object.
        """
        raise NotImplementedError

    def answer(self, to: CallTarget) -> Document:
        """Make the call, and return the body of the response."""
        call = self.described
        if call.access == "write" and not call.takes_key:
            return self.committed(to)
        return self.made(to)

    def committed(self, to: CallTarget) -> Document:
        """Make the call in one commit, with the request's idempotency key."""
        if not isinstance(to.owner, KeyMemory):
            return self.made(to)
        return to.owner.commit(
            lambda batch: self.made(to._replace(owner=batch, once=None)), idempotency_key=to.once
        )

    def made(self, to: CallTarget) -> Document:
        """Make the call, alone or in a batch, and return the body of the response."""
        call, fields = self.described, dict(self)
        sent = {name: fields[name] for name in self.model_fields_set & call.arguments.keys()}
        return {"result": call.on(self.opened(to), sent, to.once, to.conversation)}


def models_of(
    table: type[object],
    base: type[MemoryCall],
    others: Mapping[str, type[MemoryCall]] = MappingProxyType({}),
) -> list[type[MemoryCall]]:
    """Return one class per call of a table: the fields of *base*, then the call's arguments.

    The Python call checks its arguments, so that errors are the same as in Python; the fields only
    describe them.

    Args:
        others: Base classes that replace *base* for some calls, by the name of the method.
    """
    calls = calls_of(table).values()
    return [_model_of(call, others.get(call.method.__name__, base)) for call in calls]


def _model_of(call: Call, base: type[MemoryCall]) -> type[MemoryCall]:
    fields = {"call": (Literal[call.name], ...), **_argument_fields(call, base.model_fields)}
    title = "".join(part.capitalize() for part in re.split(r"[._]", call.name))
    doc = first_of(call.method.__doc__)
    made: type[MemoryCall] = new_model(title, __base__=base, __doc__=doc, **fields)
    made.access, made.described = call.access, call
    return made


def _argument_fields(call: Call, others: Collection[str]) -> dict[str, Any]:
    """Return pydantic fields for the arguments of a call, except for the names in *others*."""
    fields: dict[str, Any] = {}
    says = said_of(call.method.__doc__, "Args")
    for name, argument in call.arguments.items():
        if not argument.is_sent or name in others:
            continue
        kind = schema_of(argument.hint, given=True)
        kind = SkipValidation[list[kind] if argument.is_list else kind]
        default = ... if argument.default is Parameter.empty else None
        fields[name] = (kind, Field(default, description=says.get(argument.name)))
    return fields


class CallArguments(BaseModel):
    """The body of a request with the arguments of one call. The call checks the arguments."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def sent(self) -> dict[str, Any]:
        """Return the arguments that the request contains."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def takes(name: str, *, without: Sequence[str] = ()) -> Callable[[type[B]], type[B]]:
    """Return a decorator that adds the arguments of the call *name* to a body as fields.

    The fields that the body defines itself, and the arguments in *without*, are not added.
    """

    def decorate(body: type[B]) -> type[B]:
        fields = _argument_fields(TABLE[name], {*without, *body.model_fields})
        return new_model(body.__name__, __base__=body, __doc__=body.__doc__, **fields)

    return decorate


def make(name: str, of: object, once: str | None = None, /, **sent: Any) -> Any:  # noqa: ANN401 - any JSON
    """Make the call *name* on the object *of*, and return the result as JSON.

    Args:
        once: The idempotency key, for a method that takes one.
        sent: The arguments as JSON. An argument that is None has its default, if there is one.
    """
    call = TABLE[name]
    given = {
        each: value
        for each, value in sent.items()
        if value is not None or call.arguments[each].default is Parameter.empty
    }
    return call.on(of, given, once)


# --- exact memory ---------------------------------------------------------------------------------

Names: TypeAlias = Annotated[list[str], Field(description="The names from the root down.")]


class TreeCall(MemoryCall):
    """A call of exact memory."""

    path: Names

    def opened(self, to: CallTarget) -> MemoryObject:
        """Return the root if the method takes a path, or else the object at the call's path."""
        has_path = "path" in self.described.arguments
        return self.tree(to) if has_path else self.tree(to).get_object(tuple(self.path))

    def tree(self, to: CallTarget) -> MemoryObject:
        """Return the root of the tree."""
        return to.tree()

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return self.made(to)  # `to.tree` has the idempotency key


class TreeRead(TreeCall):
    """A read of exact memory."""

    access: ClassVar[Access] = "read"
    as_of: str | None = None

    def tree(self, to: CallTarget) -> MemoryObject:
        """Return the root of the tree, as of the requested moment."""
        moment = asked.as_of(self.as_of)
        return to.tree() if moment is None else to.tree().at(moment)


class _Write(TreeCall):
    ttl_s: asked.Seconds = None
    expires_at: asked.Moment | None = None

    def lasting(self) -> dict[str, Any]:
        """Return the lifetime arguments of a write, as calls accept them."""
        return {"ttl": asked.span(self.ttl_s), "expires_at": self.expires_at}


class ReadValue(TreeRead):
    """Read a value. For an object, the result says only that it is an object."""

    call: Literal["exact.get"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": found_form(self.tree(to).get(tuple(self.path), MISSING))}


class ReadFields(TreeRead):
    """Read the fields of an object. Of a nested object, the result says only that it is one."""

    call: Literal["exact.get_fields"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        fields = self.tree(to).get_object(tuple(self.path)).get_fields().items()
        return {"result": [{"name": name, **found_form(found)} for name, found in fields]}


class Subtree(TreeRead):
    """Read an object and everything below it as nodes, objects before their fields."""

    call: Literal["exact.to_dict"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"result": branch_nodes(branch_of(self.tree(to).get_object(tuple(self.path))))}


class ReplaceValue(_Write):
    """Set a value if the current value is `expected`, or, without `expected`, if none exists."""

    call: Literal["exact.update"]
    value: Any
    expected: Any = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        given = "expected" in self.model_fields_set
        expected = value_of(self.expected) if given else MISSING
        value = value_of(self.value)
        to.tree().update(tuple(self.path), value, expected=expected, **self.lasting())
        return {"result": None}


class NewNode(BaseModel):
    """A node of a copied tree: a value, or an object without one."""

    model_config = ConfigDict(extra="forbid", strict=True)
    path: Names
    value: Any = None


class CopyObject(_Write):
    """Copy an object of this memory, or one in the request, with everything below it."""

    call: Literal["exact.copy"]
    source: Annotated[list[str] | None, Field(description="The object, by its path.")] = None
    nodes: Annotated[list[NewNode] | None, Field(description="As `exact.to_dict` tells.")] = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        if (self.source is None) == (self.nodes is None):
            raise InvalidInput("pass either source or nodes")
        tree, path = to.tree(), tuple(self.path)
        found = tree.get_object(tuple(self.source)) if self.source is not None else self._sent()
        tree.set(path, found, **self.lasting())
        return {"result": None}

    def _sent(self) -> MemoryObject:
        """Return the nodes of the request as a separate exact memory."""
        made = root_of(Overlay.over(None, kind=MemoryKind.SENSORY, now=0))
        for node in self.nodes or ():
            if "value" in node.model_fields_set:
                made.set(tuple(node.path), value_of(node.value))
            else:
                made.new_object(tuple(node.path))
        return made


def found_form(found: object) -> Document:
    """Return a result from exact memory as JSON: a value, an object, or nothing."""
    if found is MISSING:
        return {"found": "nothing"}
    if isinstance(found, MemoryObject):
        return {"found": "object"}
    return {"found": "value", "value": wired(cast("Any", found))}


_READS = ("is_exist", "get_field_names", "names")

_EXACT = (
    *models_of(AsyncMemoryObject, TreeCall, others=dict.fromkeys(_READS, TreeRead)),
    ReadValue,
    ReadFields,
    Subtree,
    ReplaceValue,
    CopyObject,
)


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
"""The options that the definition of a set in knowledge may have."""


class DefinitionOptions(BaseModel):
    """The definition of a set. Omitted options have defaults. See `Definition` of alveus."""

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
            raise InvalidInput(
                "compaction must be 'trim', 'reject', or an object with the name of a strategy"
            )
        if given.get("admission") is not None:
            given["admission"] = rules_of(given["admission"])
            if any(isinstance(rule, CustomRule) for rule in given["admission"]):
                raise Unsupported(
                    "a custom rule of admission cannot be set over HTTP; set it in the process "
                    "that opens the server's file or database"
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
        """Make the call, which does not commit, once per idempotency key of the request."""
        plain = self.model_dump(mode="json", warnings=False)
        return to.answer_once(lambda: self.made(to._replace(once=None)), plain)


class OriginCall(SetCall):
    """A call that returns items of other sets. Items that the token may not see are omitted."""

    @property
    def shows_knowledge(self) -> bool:
        """See `MemoryCall.shows_knowledge`."""
        return True

    def opened(self, to: CallTarget) -> object:
        """See `MemoryCall.opened`."""
        return _SeenOrigins(self.set.open(to).inside, to.may_see)


class _SeenOrigins(NamedTuple):
    """The sources of the items of a set that a token may see."""

    all: ItemOrigins
    may_see: Callable[[Scope], bool]

    def sources(self, id: str) -> list[Item]:
        """See `MemorySet.sources`."""
        return self.all.sources(id, may_see=self.may_see)

    def lineage(self, id: str) -> Lineage:
        """See `MemorySet.lineage`."""
        return self.all.lineage(id, may_see=self.may_see)


class RedefineSet(SetCall):
    """Change the definition of a set. Omitted options keep their values."""

    call: Literal["set.redefine"]
    definition: DefinitionOptions

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        if "item_type" in self.definition.model_fields_set:
            raise InvalidInput("item_type cannot be redefined; leave it out, or use a new set")
        return self.committed(to)

    def made(self, to: CallTarget) -> Document:
        """See `MemoryCall.made`."""
        changed = self.set.open(to).redefine(**self.definition.options())
        return {"result": wired(changed.to_json())}


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
                f"{self.described.name} needs a key and works only outside of batches; pass the "
                "key as ?key="
            )
        return owner


class QuarantineCall(OwnerCall):
    """A call on the quarantine: items that admission rules hold back from sets."""

    name: Annotated[str | None, Field(description="The set; left out: all of them.")] = None

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
            raise InvalidInput(
                "facts belong to a key and are read only outside of batches; pass the key as ?key="
            )
        return super().answer(to)

    def opened(self, to: CallTarget) -> Facts:
        """See `MemoryCall.opened`."""
        _, writer, scope = to.owner.inside
        return Facts(cast("CommitWriter", writer), SetRef(scope, FACTS))  # or a commit's writer


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

        With an idempotency key, `add` keeps the times of messages. A client that generates keys
        only to repeat its requests sets `keeps_times` to false: messages of the last minute then
        get the time of the commit.
        """
        return super().answer(to) if self.keeps_times else self.committed(to)


_EVERY = (
    *_EXACT,
    *models_of(AsyncMemorySet, SetCall, others={"sources": OriginCall, "lineage": OriginCall}),
    RedefineSet,
    *models_of(AsyncSets, OwnerCall),
    *models_of(AsyncKey, OwnerCall),
    *models_of(AsyncQuarantine, QuarantineCall),
    *models_of(AsyncConversation, ConversationCall),
    *models_of(AsyncFacts, FactCall),
)

if TYPE_CHECKING:  # a checker knows the class that all have in common
    CallBody = MemoryCall
else:
    CallBody = Annotated[Union[*_EVERY], Field(discriminator="call")]
