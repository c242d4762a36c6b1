"""A memory behind a server: each call is a request; calls that need the store are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from datetime import tzinfo
from types import TracebackType
from typing import Any, Literal, NoReturn, Self
from uuid import uuid4

from alveus.errors import InvalidInput, Unusable
from alveus.facts import LearnOptions, LearnReport, Source
from alveus.facts.learning import LEARNED
from alveus.llm import ChatModel
from alveus.memory.aio import AsyncKey, AsyncSets
from alveus.memory.async_calls import Access
from alveus.memory.keys import KeyBatch, KeyMemory, KeySets, KnowledgeMemory, OwnerSets, Touched
from alveus.memory.maintenance import Difference, set_names
from alveus.memory.memory import Memory
from alveus.memory.opening import WAIT_S
from alveus.memory.prompt import ALL, Context, ContextRequest, Prompts, Sources
from alveus.memory.remote.calls import calls_of, sends
from alveus.memory.remote.codecs import Json, from_json
from alveus.memory.remote.connection import ServerConnection, header_text
from alveus.memory.remote.local_only import no_engine, unsupported
from alveus.memory.remote.remote_conversation import RemoteConversation
from alveus.memory.remote.remote_facts import RemoteFacts, learn_json
from alveus.memory.remote.remote_sets import (
    RemoteKnowledgeSet,
    RemoteQuarantine,
    RemoteSet,
    RemoteWriter,
    owner_in,
)
from alveus.memory.remote.remote_tree import RemoteCalls, RemoteTree, as_of_text, moment_text
from alveus.state import MemoryObject, root_of
from alveus.store import Commit, Scope, SetRef
from alveus.store.scope import set_name
from alveus.store.times import AsOf
from alveus.values.storable import choice
from alveus.values.times import Zone

PAGE = 1_000
"""Keys per request."""


class OwnerCalls:
    """The calls of a key or a knowledge; each is one request."""

    in_batch = False

    def __init__(self, connection: ServerConnection, scope: Scope) -> None:
        self._connection, self._scope = connection, scope

    @property
    def identity(self) -> object:
        """See `RemoteCalls.identity`."""
        return id(self._connection), self._scope

    @property
    def read_only(self) -> bool:
        """See `RemoteCalls.read_only`."""
        return self._connection.address.read_only

    @property
    def timezone(self) -> Zone:
        """See `RemoteCalls.timezone`."""
        return self._connection.timezone

    def read(self, call: str, **arguments: object) -> Json:
        """See `RemoteCalls.read`."""
        return self._connection.read("/v1/call", {"call": call, **arguments}, **self._where)

    def write(self, call: str, idempotency_key: str | None = None, /, **arguments: object) -> Json:
        """See `RemoteCalls.write`."""
        body = {"call": call, **arguments}
        return self._connection.write("/v1/call", body, idempotency_key, **self._where)

    @property
    def _where(self) -> dict[str, str | None]:
        return {"space": self._scope.space, "key": self._scope.key}


class BatchCalls:
    """The calls of a batch: the server runs each without a commit, and commits all at the end.

    The server keeps no state of a batch: each request carries all its calls so far.
    """

    in_batch, read_only = True, False

    def __init__(self, connection: ServerConnection, scope: Scope, idempotency_key: str) -> None:
        self._connection, self._scope, self._key = connection, scope, idempotency_key
        self._writes: list[Json] = []
        self._told: dict[str, Any] = {}
        self._has_read = False
        self.open = False

    @property
    def identity(self) -> object:
        """See `RemoteCalls.identity`."""
        return id(self)

    @property
    def timezone(self) -> Zone:
        """See `RemoteCalls.timezone`."""
        return self._connection.timezone

    def begin(self) -> None:
        """Request the base commit of the batch, whose exact memory it reads."""
        self._told = self._ask([], dry_run=True)
        self.open = True

    def read(self, call: str, **arguments: object) -> Json:
        """See `RemoteCalls.read`; the result includes the batch's changes."""
        self._has_read |= call.startswith("exact.")
        return self._tried({"call": call, **arguments})["answers"][-1]

    def write(self, call: str, idempotency_key: str | None = None, /, **arguments: object) -> Json:
        """See `RemoteCalls.write`; the write is committed when the block ends."""
        if idempotency_key is not None:
            raise InvalidInput(
                "inside a batch give the idempotency_key to the batch, not to a call"
            )
        made = {"call": call, **arguments}
        self._told = self._tried(made)
        self._writes.append(made)
        return self._told["answers"][-1]

    @property
    def has_changes(self) -> bool:
        """Whether the batch has writes."""
        return self._told["changes"]

    @property
    def base(self) -> int:
        """The commit whose exact memory is read; 0 before the batch begins."""
        return self._told.get("base", 0)

    @property
    def touched(self) -> list[Touched]:
        """See `KeyBatch.touched`."""
        told = self._told.get("touched", ())
        return [Touched(each["key"], each["set"], each["id"], each["version"]) for each in told]

    def commit(self) -> Json:
        """Make the server commit the batch; return its report of the commit."""
        return self._ask(self._writes, touched=self._told["touched"])["commit"]

    def _tried(self, call: Json) -> dict[str, Any]:
        if not self.open:
            raise Unusable("a batch is used inside its with block; ask for another one")
        return self._ask([*self._writes, call], dry_run=True)

    def _ask(self, calls: Sequence[Json], **how: object) -> dict[str, Any]:
        answered = len(self._writes)
        body = {
            "calls": calls,
            "answered": answered,
            "base": self._told.get("base"),
            "has_read": self._has_read,
            **how,
        }
        where = {"space": self._scope.space, "key": self._scope.key}
        return self._connection.write("/v1/batch", body, self._key, **where)


@sends(AsyncSets)
class RemoteSets(OwnerSets):
    """Named sets behind a server, of a key, a batch or knowledge."""

    _make = RemoteSet
    _writer: RemoteWriter

    @property
    def calls(self) -> RemoteCalls:
        """See `Remote.calls`."""
        return self._writer.calls

    def place(self, _: Access) -> dict[str, Json]:
        """See `Remote.place`."""
        return {"of_knowledge": True} if self._scope.key is None else {}

    def twin(self, memory: Memory) -> OwnerSets:
        """See `Remote.twin`."""
        return owner_in(memory, self._scope)

    @property
    def quarantine(self) -> RemoteQuarantine:
        """See `OwnerSets.quarantine`."""
        return RemoteQuarantine(self._writer, self._scope)


class RemoteKnowledge(RemoteSets, KnowledgeMemory):
    """Knowledge behind a server."""

    _make = RemoteKnowledgeSet

    def __init__(self, calls: RemoteCalls, space: str) -> None:
        writer = RemoteWriter(calls, WAIT_S)
        OwnerSets.__init__(self, no_engine(WAIT_S, calls.timezone), writer, Scope(space, None))


class RemotePrompts(Prompts):
    """Prompts that a server makes."""

    _writer: RemoteWriter

    def _assembled(self, request: ContextRequest) -> Context:
        as_of_text(request.as_of)  # the request does not check it
        given = {each.name: getattr(request, each.name) for each in fields(request)}
        exact = ALL if request.exact == [()] else request.exact
        sent = _CONTEXT.sent({**given, "budget_tokens": request.budget, "exact": exact})
        return from_json(Context, self._writer.calls.read(_CONTEXT.name, **sent)["result"])


_CONTEXT = calls_of(AsyncSets)["key.context"]


@sends(AsyncKey)
class RemoteKey(RemoteSets, RemotePrompts, KeyMemory):
    """The memory of one key behind a server."""

    def __init__(self, connection: ServerConnection, scope: Scope) -> None:
        calls = OwnerCalls(connection, scope)
        KeySets.__init__(
            self, no_engine(WAIT_S, calls.timezone), RemoteWriter(calls, WAIT_S), scope
        )
        self._connection = connection
        self._knowledge, self._ttl = scope.space, None
        self._live = RemoteTree(calls)

    @property
    def engine(self) -> NoReturn:
        """Raise `Unsupported`: a memory behind a server has no store here."""
        raise unsupported("key.engine")

    @property
    def knowledge(self) -> RemoteKnowledge:
        """See `KeyMemory.knowledge`."""
        return knowledge_of(self._connection, self.space)

    def batch(self, *, idempotency_key: str | None = None) -> RemoteBatch:
        """See `KeyMemory.batch`."""
        return RemoteBatch(self._connection, self._scope, idempotency_key)

    def conversation(
        self, name: str, *, timezone: tzinfo | str | None = None
    ) -> RemoteConversation:
        """See `KeySets.conversation`."""
        zone = None if timezone is None else Zone.of(timezone)
        return RemoteConversation(self._writer, SetRef(self._scope, set_name(name)), zone)

    def diff(
        self, a: AsOf, b: AsOf | None, *, sets: Sequence[str] | None, tree: Literal["show", "skip"]
    ) -> Difference:
        """See `Memory.diff`."""
        choice(tree, "tree", "show", "skip")
        told = self._writer.calls.read(
            "key.diff",
            a=moment_text(a, "a"),
            b=as_of_text(b, "b"),
            sets=None if sets is None else set_names(sets),
            tree=tree,
        )
        return from_json(Difference, told["result"])

    @property
    def facts(self) -> RemoteFacts:
        """See `KeyMemory.facts`."""
        return RemoteFacts(self._writer.calls, self._scope)

    def learn(
        self,
        source: Source,
        *,
        model: ChatModel | None,
        options: LearnOptions | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> LearnReport:
        """See `KeyMemory.learn`; the server's model finds the facts, or rules without a model."""
        if progress is not None:
            raise unsupported("learn(progress=…)", "the report says how many messages were read")
        asked = learn_json(self.conversation(LEARNED), source, model, options)
        where = {"space": self.space, "key": self.key}
        told = self._connection.write("/v1/learn", asked, **where)
        return from_json(LearnReport, told)


class RemoteBatch(RemoteSets, RemotePrompts, KeyBatch):
    """Changes of one key and of knowledge behind a server, committed together.

    Each call in the block is a request that changes nothing. The end of the block sends one more
    request, which commits all calls together.
    """

    def __init__(
        self, connection: ServerConnection, scope: Scope, idempotency_key: str | None
    ) -> None:
        self._is_named = idempotency_key is not None
        named = str(uuid4()) if idempotency_key is None else header_text(idempotency_key)
        self._calls = BatchCalls(connection, scope, named)
        writer, zone = RemoteWriter(self._calls, WAIT_S), self._calls.timezone
        KeySets.__init__(self, no_engine(WAIT_S, zone), writer, scope)
        self._root: MemoryObject | None = None
        self.committed: Commit | None = None
        self.has_changes = False

    def __enter__(self) -> Self:
        if self._root is not None:
            raise Unusable("a batch serves one block; ask for another one")
        self._calls.begin()
        self._root = root_of(RemoteTree(self._calls))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._root is None:
            return
        self._calls.open = False
        self.has_changes = self._calls.has_changes
        if kind is not None or not (self._is_named or self.has_changes):
            return
        done = self._calls.commit()
        if done is not None:
            # A generated key was never used before: its commit is this one.
            adopted = done["adopted"] and self._is_named
            self.committed = Commit(done["number"], done["time"], adopted, result=None)

    @property
    def base(self) -> int:
        """See `KeyBatch.base`."""
        return self._calls.base

    @property
    def touched(self) -> list[Touched]:
        """See `KeyBatch.touched`."""
        return self._calls.touched

    @property
    def short_term(self) -> MemoryObject:
        """See `KeyBatch.short_term`."""
        if self._root is None:
            raise Unusable("a batch is used inside its with block; ask for another one")
        return self._root

    @property
    def knowledge(self) -> RemoteKnowledge:
        """See `KeyBatch.knowledge`."""
        return RemoteKnowledge(self._calls, self._scope.space)

    def _sources(self) -> Sources:
        return Sources(
            self._writer, self._scope, Scope(self._scope.space, None), lambda: self.short_term
        )

    def conversation(
        self, name: str, *, timezone: tzinfo | str | None = None
    ) -> RemoteConversation:
        """See `KeySets.conversation`."""
        zone = None if timezone is None else Zone.of(timezone)
        return RemoteConversation(self._writer, SetRef(self._scope, set_name(name)), zone)


def knowledge_of(connection: ServerConnection, space: str) -> RemoteKnowledge:
    """Return the knowledge of a space."""
    return RemoteKnowledge(OwnerCalls(connection, Scope(space, None)), space)


def key_pages(
    connection: ServerConnection, space: str, prefix: str, after: str | None
) -> Iterator[list[str]]:
    """Yield the keys of a space, a page at a time."""
    while True:
        told = connection.get("/v1/keys", space=space, prefix=prefix, after=after, limit=PAGE)
        yield told["keys"]
        if not told["more"]:
            return
        after = told["keys"][-1]
