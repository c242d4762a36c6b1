"""The objects of a memory behind a server.

Each call is a request. Calls that need the store itself raise `Unsupported`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, Self, Unpack, cast
from uuid import uuid4

from alveus.conversation import ConversationMemory, Said, message_items
from alveus.errors import InvalidInput, Unusable
from alveus.facts import Facts, LearnOptions, LearnReport
from alveus.facts.learning import LEARNED, Source, check_model, conversation_of
from alveus.facts.learning import checked_options as checked_learning
from alveus.llm import ChatModel
from alveus.memory.async_calls import Access
from alveus.memory.async_objects import (
    AsyncConversation,
    AsyncFacts,
    AsyncKey,
    AsyncMemorySet,
    AsyncQuarantine,
    AsyncSets,
)
from alveus.memory.keys import KeyBatch, KeyMemory, KeySets, KnowledgeMemory, OwnerSets, Touched
from alveus.memory.opening import WAIT_S, no_engine, refused, unsupported
from alveus.memory.prompt import ALL, Context, ContextRequest, Prompts, Sources
from alveus.memory.remote.calls import ask_for, calls_of, sends
from alveus.memory.remote.codecs import Json, OnlyLocal, argument_json, from_json
from alveus.memory.remote.connection import ServerConnection, header_text
from alveus.memory.remote.remote_tree import RemoteCalls, RemoteTree, as_of_text
from alveus.search.signals import Signals
from alveus.sets import KnowledgeSet, MemorySet, OnExisting
from alveus.sets.admission import Quarantine
from alveus.sets.admission.barrier import OnRejected
from alveus.sets.admission.rules import Added, CustomRule, Verdict
from alveus.sets.batch import OUTSIDE_BLOCK, SECOND_BLOCK
from alveus.sets.compaction import Given
from alveus.sets.compaction.strategies import Merge, Summarize, Trim, stored_form
from alveus.sets.set_options import SetChanges, checked_options, definition
from alveus.sets.writer import Engine, WriteCall, Writer
from alveus.state import MemoryObject, Ttl, root_of, ttl_us
from alveus.store import Commit, Define, Definition, Scope, SetRef
from alveus.store.items import Item
from alveus.values.storable import Value
from alveus.values.times import Zone

ITEMS_PAGE = 256
"""The number of items in one request of an iteration over a set."""

KEYS_PAGE = 1_000
"""The number of keys in one request of an iteration over keys."""

_SET_CALLS = calls_of(AsyncMemorySet)


class RemoteWriter(Writer):
    """The writer of a key's or knowledge's sets behind a server; the sets send requests."""

    def __init__(self, calls: RemoteCalls) -> None:
        super().__init__(no_engine(calls.timezone), Scope("", None))
        self.calls, self.wait_s = calls, WAIT_S

    def stored_compaction(self, compaction: Given) -> str | Mapping[str, Value]:
        """See `SetReader.stored_compaction`."""
        stored = stored_form(compaction, {})
        if not isinstance(compaction, (str, Trim, Summarize, Merge)):
            raise unsupported(
                "compaction by a custom strategy",
                "pass a strategy of alveus, or define the set in the process that opens the "
                "server's store",
            )
        return stored

    def write(self, call: WriteCall, *, idempotency_key: str | None = None) -> Value:
        """Raise `Unsupported`, because the calls of a remote set are requests."""
        _ = idempotency_key
        raise unsupported(f"the call {call.name!r}")


def owner_in(engine: Engine, scope: Scope) -> Any:  # noqa: ANN401 - a key, or knowledge
    """Return the key or knowledge with this scope in the memory with this engine."""
    if scope.key is None:
        return KnowledgeMemory(engine, scope)
    return KeyMemory(engine, scope, ttl=None)


@sends(AsyncMemorySet)
class RemoteSet(MemorySet):
    """A set behind a server."""

    def __init__(
        self, writer: Writer, ref: SetRef, options: Mapping[str, object], *, ttl: Ttl | None = None
    ) -> None:
        assert isinstance(writer, RemoteWriter)  # noqa: S101 - remote sets have no other
        self.calls = writer.calls
        self._wanted: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        super().__init__(writer, ref, options, ttl=ttl)

    def _definition_to_make(self) -> tuple[Define, ...]:
        """Ask the server to refuse a definition that differs from that of the existing set.

        If no set exists, the first add sends the definition.
        """
        if self._options:
            definition(self._options)
            self._wanted = self._made = definition_json(self._options)
            if self._ask("size", set=self._defining_address()):
                self._wanted = {}  # the set has the requested definition
        return ()

    def _address(self) -> dict[str, Any]:
        address: dict[str, Any] = {"name": self.name, "knowledge": self._ref.scope.key is None}
        if self._ttl is not None and not self.calls.read_only:
            seconds = ttl_us(self._ttl.after) / 1_000_000
            address["ttl"] = {"after_s": seconds, "refresh": self._ttl.refresh}
        return address

    def _defining_address(self) -> dict[str, Any]:
        """Return the fields that identify the set in a call that may define the set."""
        if self._wanted:
            return self._address() | {"definition": self._wanted}
        return self._address() | ({"made": self._made} if self._made else {})

    def address(self, access: Access) -> dict[str, Any]:
        """See `Remote.address`."""
        return {"set": self._address() if access == "read" else self._defining_address()}

    def twin(self, engine: Engine) -> MemorySet:
        """See `Remote.twin`."""
        return owner_in(engine, self._ref.scope).set(self.name)

    def _ask(self, name: str, *args: object, **more: Any) -> Any:  # noqa: ANN401 - what it returns
        return ask_for(_SET_CALLS[f"set.{name}"], self, args, {}, **more)

    @property
    def definition(self) -> Definition:
        """See `SetReads.definition`."""
        is_to_make = self._made and not len(self)
        return self._ask("definition", **self.address("write" if is_to_make else "read"))

    def __iter__(self) -> Iterator[Item]:
        after: str | None = None
        while page := self.list(limit=ITEMS_PAGE, after=after):
            yield from page
            if len(page) < ITEMS_PAGE:
                return
            after = page[-1].id

    def admit(self, value: object) -> Verdict:
        """See `SetWrites.admit`."""
        return self._ask("admit", value, set=self._defining_address())

    def _add(
        self,
        items: builtins.list[Item],
        on_existing: OnExisting,
        idempotency_key: str | None,
        on_rejected: OnRejected = "error",
        *,
        checked: bool = True,
    ) -> Added:
        """See `SetWrites`. After an accepted add, later calls do not send the definition again."""
        _ = checked
        how = {"on_existing": on_existing, "on_rejected": on_rejected}
        once = {"idempotency_key": idempotency_key}
        done: Added = ask_for(_SET_CALLS["set.add_many"], self, (items,), how | once)
        if done.verdicts == () or any(said.outcome == "accept" for said in done.verdicts):
            self._wanted = {}
        return done

    def redefine(self, **changes: Unpack[SetChanges]) -> Definition:
        """See `SetWrites.redefine`."""
        chosen = self._redefining(changes)
        checked_options(chosen)
        wanted = definition_json(chosen)
        self._wanted = {}
        answer = self.calls.write("set.redefine", set=self._address(), definition=wanted)
        return Definition.from_json(answer["result"])

    @property
    def quarantine(self) -> RemoteQuarantine:
        """See `SetWrites.quarantine`."""
        return RemoteQuarantine(self._writer, self._ref.scope, self.name)

    add_back = refused("set.add_back", "use add_many, or import the export on the server's machine")
    compact = refused("set.compact", "run `alveus compact` on the server's machine")


@sends(AsyncQuarantine)
class RemoteQuarantine(Quarantine):
    """The quarantine of a key or of knowledge behind a server."""

    @property
    def calls(self) -> RemoteCalls:
        """See `Remote.calls`."""
        return cast("RemoteWriter", self._writer).calls

    def address(self, _: Access) -> dict[str, Any]:
        """See `Remote.address`."""
        return {"name": self._name, "of_knowledge": self._scope.key is None}

    def twin(self, engine: Engine) -> Quarantine:
        """See `Remote.twin`."""
        return owner_in(engine, self._scope).quarantine


class RemoteKnowledgeSet(RemoteSet, KnowledgeSet):
    """A set of knowledge behind a server."""


def definition_json(options: Mapping[str, object]) -> dict[str, Any]:
    """Return the definition with these options as JSON; *options* must have the stored form.

    Raises:
        Unsupported: An admission rule is a function of the caller, which cannot be sent.
    """
    sent = dict[str, Any](options)
    if isinstance(span := sent.get("retention"), timedelta):
        sent["retention"] = span.total_seconds()
    if isinstance(signals := sent.get("signals"), Signals):
        sent["signals"] = signals.to_json()
    rules = cast("Sequence[Mapping[str, object]]", sent.get("admission") or ())
    if any(rule.get("rule") == CustomRule.name for rule in rules):
        raise unsupported(
            "admission by a custom rule",
            "pass rules of alveus, or define the set in the process that opens the server's store",
        )
    return sent


# --- conversations and facts ----------------------------------------------------------------------


@sends(AsyncConversation)
class RemoteConversation(ConversationMemory):
    """A conversation behind a server. Some of its methods call the set of the messages."""

    def __init__(self, writer: RemoteWriter, ref: SetRef, zone: Zone | None = None) -> None:
        super().__init__(writer, ref, zone)
        self.calls = writer.calls

    @property
    def _set(self) -> MemorySet:
        return RemoteSet(self._writer, self._ref, {})

    def address(self, _: Access) -> dict[str, Any]:
        """See `Remote.address`."""
        zone = {} if self._zone is None else {"timezone": self._zone.name(datetime.now(UTC))}
        return {"conversation": self.name, **zone}

    def twin(self, engine: Engine) -> ConversationMemory:
        """See `Remote.twin`."""
        return owner_in(engine, self._ref.scope).conversation(self.name)

    def add(
        self,
        messages: Said | Iterable[Said] | None,
        marks: str | Iterable[str] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """See `ConversationMemory.add`."""
        said = message_items.listed(messages)
        if not said:
            message_items.checked_marks(marks)
            return []
        once: dict[str, Any] = {"idempotency_key": idempotency_key}
        keeps = idempotency_key is not None
        return ask_for(_ADD, self, (said, marks), once, keeps_times=keeps)


_ADD = calls_of(AsyncConversation)["conversation.add"]


@sends(AsyncFacts)
class RemoteFacts(Facts):
    """The facts of one key, behind a server."""

    def __init__(self, calls: RemoteCalls, scope: Scope) -> None:
        self.calls, self._scope = calls, scope

    def __repr__(self) -> str:
        return f"<facts of key {self._scope.key!r}>"

    def address(self, _: Access) -> dict[str, Any]:
        """See `Remote.address`."""
        return {}

    def twin(self, engine: Engine) -> Facts:
        """See `Remote.twin`."""
        return owner_in(engine, self._scope).facts


# --- keys and batches -----------------------------------------------------------------------------


class OwnerCalls:
    """Sends the calls of a key or a knowledge; each call is one request."""

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
    """Sends the calls of a batch. The server runs them without a commit; the end commits all.

    The server keeps no state of a batch: each request carries all writing calls so far.
    """

    in_batch, read_only = True, False

    def __init__(self, connection: ServerConnection, scope: Scope, idempotency_key: str) -> None:
        self._connection, self._scope, self._key = connection, scope, idempotency_key
        self._writes: list[Json] = []
        self._report: dict[str, Any] = {}
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
        """Request the number of the batch's base commit, whose exact memory the batch reads."""
        self._report = self._ask([], dry_run=True)
        self.open = True

    def read(self, call: str, **arguments: object) -> Json:
        """See `RemoteCalls.read`; the result includes the batch's changes."""
        self._has_read |= call.startswith("exact.")
        return self._tried({"call": call, **arguments})["answers"][-1]

    def write(self, call: str, idempotency_key: str | None = None, /, **arguments: object) -> Json:
        """See `RemoteCalls.write`; the write is committed when the block ends."""
        if idempotency_key is not None:
            raise InvalidInput("a call in a batch takes no idempotency_key; pass it to the batch")
        made = {"call": call, **arguments}
        self._report = self._tried(made)
        self._writes.append(made)
        return self._report["answers"][-1]

    @property
    def has_changes(self) -> bool:
        """Whether the batch has writes."""
        return self._report["changes"]

    @property
    def base(self) -> int:
        """The number of the commit whose exact memory is read; 0 before the batch begins."""
        return self._report.get("base", 0)

    @property
    def touched(self) -> list[Touched]:
        """See `KeyBatch.touched`."""
        answer = self._report.get("touched", ())
        return [Touched(each["key"], each["set"], each["id"], each["version"]) for each in answer]

    def commit(self) -> Json:
        """Let the server commit the batch; return its report of the commit, or None."""
        return self._ask(self._writes, touched=self._report["touched"])["commit"]

    def _tried(self, call: Json) -> dict[str, Any]:
        if not self.open:
            raise Unusable(OUTSIDE_BLOCK)
        return self._ask([*self._writes, call], dry_run=True)

    def _ask(self, calls: Sequence[Json], **how: object) -> dict[str, Any]:
        answered = len(self._writes)
        body = {
            "calls": calls,
            "answered": answered,
            "base": self._report.get("base"),
            "has_read": self._has_read,
            **how,
        }
        where = {"space": self._scope.space, "key": self._scope.key}
        return self._connection.write("/v1/batch", body, self._key, **where)


@sends(AsyncSets)
class RemoteSets(OwnerSets):
    """The named sets of a key, a batch or knowledge behind a server."""

    _make = RemoteSet
    _writer: RemoteWriter

    @property
    def calls(self) -> RemoteCalls:
        """See `Remote.calls`."""
        return self._writer.calls

    def address(self, _: Access) -> dict[str, Json]:
        """See `Remote.address`."""
        return {"of_knowledge": True} if self._scope.key is None else {}

    def twin(self, engine: Engine) -> OwnerSets:
        """See `Remote.twin`."""
        return owner_in(engine, self._scope)

    def _conversation(self, ref: SetRef, zone: Zone | None) -> RemoteConversation:
        return RemoteConversation(self._writer, ref, zone)

    @property
    def quarantine(self) -> RemoteQuarantine:
        """See `OwnerSets.quarantine`."""
        return RemoteQuarantine(self._writer, self._scope)


class RemoteKnowledge(RemoteSets, KnowledgeMemory):
    """Knowledge behind a server."""

    _make = RemoteKnowledgeSet

    def __init__(self, calls: RemoteCalls, space: str) -> None:
        writer = RemoteWriter(calls)
        OwnerSets.__init__(self, no_engine(calls.timezone), writer, Scope(space, None))


class RemotePrompts(Prompts):
    """Prompts that a server makes."""

    _writer: RemoteWriter

    def _assembled(self, request: ContextRequest) -> Context:
        as_of_text(request.as_of)  # the request does not check it
        given = {each.name: getattr(request, each.name) for each in fields(request)}
        exact = ALL if request.exact == [()] else request.exact
        sent = _CONTEXT.sent({**given, "exact": exact})
        return from_json(Context, self._writer.calls.read(_CONTEXT.name, **sent)["result"])


_CONTEXT = calls_of(AsyncSets)["key.context"]


@sends(AsyncKey)
class RemoteKey(RemoteSets, RemotePrompts, KeyMemory):
    """The memory of one key behind a server."""

    def __init__(self, connection: ServerConnection, scope: Scope) -> None:
        calls = OwnerCalls(connection, scope)
        KeySets.__init__(self, no_engine(calls.timezone), RemoteWriter(calls), scope)
        self._connection = connection
        self._ttl = None
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
        """See `KeyMemory.learn`. The server's model finds the facts, or rules if it has no model.

        Raises:
            Unsupported: *model*, *progress* or an option works only with a local store.
        """
        if progress is not None:
            raise unsupported("learn(progress=…)", "the returned report has the number of messages")
        check_model(model)
        if options is not None:
            checked_learning(options)
        try:
            argument_json(ChatModel | None, model, "model")
            how = argument_json(LearnOptions | None, options, "options")
        except OnlyLocal as instead:
            name = "options" if model is None else "model"
            raise unsupported(f"learn({name}=…)", str(instead)) from None
        talk = conversation_of(self.conversation(LEARNED), source)  # first adds texts and messages
        sent = {"conversation": talk.name} | ({} if how is None else {"options": how})
        report = self._connection.write("/v1/learn", sent, space=self.space, key=self.key)
        return from_json(LearnReport, report)


class RemoteBatch(RemoteSets, RemotePrompts, KeyBatch):
    """Changes of one key and of knowledge behind a server, committed together.

    Each call in the block is a request that changes nothing. At the end of the block, one more
    request commits all calls together.
    """

    def __init__(
        self, connection: ServerConnection, scope: Scope, idempotency_key: str | None
    ) -> None:
        self._is_named = idempotency_key is not None
        named = str(uuid4()) if idempotency_key is None else header_text(idempotency_key)
        self._calls = BatchCalls(connection, scope, named)
        writer, zone = RemoteWriter(self._calls), self._calls.timezone
        KeySets.__init__(self, no_engine(zone), writer, scope)
        self._root: MemoryObject | None = None
        self.committed: Commit | None = None
        self.has_changes = False

    def __enter__(self) -> Self:
        if self._root is not None:
            raise Unusable(SECOND_BLOCK)
        self._calls.begin()
        self._root = root_of(RemoteTree(self._calls))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
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
            raise Unusable(OUTSIDE_BLOCK)
        return self._root

    @property
    def knowledge(self) -> RemoteKnowledge:
        """See `KeyBatch.knowledge`."""
        return RemoteKnowledge(self._calls, self._scope.space)

    def _sources(self) -> Sources:
        return Sources(self._writer, self._scope, lambda: self.short_term)


def knowledge_of(connection: ServerConnection, space: str) -> RemoteKnowledge:
    """Return the knowledge that a space uses, behind a server."""
    return RemoteKnowledge(OwnerCalls(connection, Scope(space, None)), space)


def key_pages(
    connection: ServerConnection, space: str, prefix: str, after: str | None
) -> Iterator[list[str]]:
    """Yield pages of the keys of a space, sorted.

    Args:
        prefix: Yield only keys with this prefix.
        after: Yield only keys after this key; None means all keys.
    """
    while True:
        answer = connection.get(
            "/v1/keys", space=space, prefix=prefix, after=after, limit=KEYS_PAGE
        )
        yield answer["keys"]
        if not answer["more"]:
            return
        after = answer["keys"][-1]
