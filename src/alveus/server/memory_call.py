"""A call that a request carries, and its target: the memory of a key, or knowledge."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import Parameter
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from alveus.conversation import ConversationMemory
from alveus.errors import InvalidInput
from alveus.memory.keys import KeyBatch, KeyMemory, KnowledgeMemory
from alveus.memory.remote.calls import Call, calls_of
from alveus.server.schemas import first_of, new_model, said_of, schema_of
from alveus.server.tokens import Access, Token
from alveus.sets.commits import answer_once
from alveus.state import MemoryObject
from alveus.store import Scope
from alveus.values.storable import Value

Document = dict[str, Any]

Owner: TypeAlias = KeyMemory | KeyBatch | KnowledgeMemory


class CallTarget(NamedTuple):
    """The memory that a call is made on.

    Attributes:
        once: The call's separate idempotency key, if any.
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
            InvalidInput: The target is knowledge, which has none.
        """
        if isinstance(self.owner, KnowledgeMemory):
            raise InvalidInput("exact memory belongs to a key; name one with ?key=")
        tree = self.owner.short_term
        return tree if self.once is None else tree.once(self.once)

    def answer_once(self, act: Callable[[], Document], plain: Value) -> Document:
        """Return the result of *act*, which does not commit; stored under the idempotency key.

        Args:
            plain: The request; another request with the same key is refused.
        """
        if self.once is None:
            return act()
        engine, _, scope = self.owner.inside
        answer = answer_once(engine, scope, act, idempotency_key=self.once, plain=plain)
        return cast("Document", answer)

    def conversation(self, name: str, timezone: str | None = None) -> ConversationMemory:
        """Return a conversation of the key.

        Raises:
            InvalidInput: The target is knowledge, which has none.
        """
        if isinstance(self.owner, KnowledgeMemory):
            raise InvalidInput("a conversation belongs to a key; name one with ?key=")
        return self.owner.conversation(name, timezone=timezone)

    def sets(self, *, knowledge: bool) -> Owner:
        """Return the memory whose sets the call uses."""
        if knowledge and not isinstance(self.owner, KnowledgeMemory):
            return self.owner.knowledge
        return self.owner


class MemoryCall(BaseModel):
    """A call; unknown fields are refused."""

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
        """The set of the call, if any."""
        return None

    def opened(self, to: CallTarget) -> object:
        """Return the object whose method is called.

        Raises:
            InvalidInput: The memory has no such object.
        """
        raise NotImplementedError

    def answer(self, to: CallTarget) -> Document:
        """Make the call; return the body of the response."""
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
        """Make the call alone or in a batch; return the body of the response."""
        call, fields = self.described, dict(self)
        sent = {name: fields[name] for name in self.model_fields_set & call.arguments.keys()}
        return {"result": call.on(self.opened(to), sent, to.once, to.conversation)}


def models_of(
    table: type[object],
    base: type[MemoryCall],
    others: Mapping[str, type[MemoryCall]] = MappingProxyType({}),
) -> list[type[MemoryCall]]:
    """Return a class per call of a table: *base*'s fields, then the arguments.

    The Python call checks its arguments, so that errors are the same as in Python; the fields only
    describe them.

    Args:
        others: Other base classes, by name of the call.
    """
    calls = calls_of(table).values()
    return [_model_of(call, others.get(call.method.__name__, base)) for call in calls]


def _model_of(call: Call, base: type[MemoryCall]) -> type[MemoryCall]:
    fields: dict[str, Any] = {"call": (Literal[call.name], ...)}
    says = said_of(call.method.__doc__, "Args")
    for name, argument in call.arguments.items():
        if not argument.is_sent:
            continue
        kind = schema_of(argument.hint, given=True)
        kind = SkipValidation[list[kind] if argument.is_list else kind]
        default = ... if argument.default is Parameter.empty else None
        fields[name] = (kind, Field(default, description=says.get(argument.name)))
    title = "".join(part.capitalize() for part in re.split(r"[._]", call.name))
    doc = first_of(call.method.__doc__)
    made: type[MemoryCall] = new_model(title, __base__=base, __doc__=doc, **fields)
    made.access, made.described = call.access, call
    return made
