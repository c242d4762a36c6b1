"""A call of a key's memory as a request carries it, and what it is made on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

from pydantic import BaseModel, ConfigDict

from alveus.errors import InvalidInput
from alveus.memory.keys import KeyBatch, KeyMemory, KnowledgeMemory
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
        once: The idempotency key of the call, if it has one of its own.
        token: Of whoever asks.
        renews: Whether a read may have items live longer that expire, as a set asks for.
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
            InvalidInput: Knowledge has none.
        """
        if isinstance(self.owner, KnowledgeMemory):
            raise InvalidInput("exact memory belongs to a key; name one with ?key=")
        tree = self.owner.short_term
        return tree if self.once is None else tree.once(self.once)

    def answer_once(self, act: Callable[[], Document], plain: Value) -> Document:
        """Return what *act* answers, which is no commit that a name could be kept with.

        Args:
            plain: What is asked; another request under the same name is refused.
        """
        if self.once is None:
            return act()
        engine, _, scope = self.owner.inside
        answer = answer_once(engine, scope, act, idempotency_key=self.once, plain=plain)
        return cast("Document", answer)

    def sets(self, *, knowledge: bool) -> Owner:
        """Return the memory whose sets are meant."""
        if knowledge and not isinstance(self.owner, KnowledgeMemory):
            return self.owner.knowledge
        return self.owner


class MemoryCall(BaseModel):
    """A call; every field is known."""

    model_config = ConfigDict(extra="forbid", strict=True)
    access: ClassVar[Access] = "write"

    @property
    def in_knowledge(self) -> bool:
        """Whether it is to sets of knowledge, though a key is named."""
        return False

    @property
    def shows_knowledge(self) -> bool:
        """Whether its answer may hold items of knowledge."""
        return self.in_knowledge

    @property
    def set_name(self) -> str | None:
        """The set that it is to."""
        return None

    def answer(self, to: CallTarget) -> Document:
        """Make the call; return what it answers."""
        raise NotImplementedError
