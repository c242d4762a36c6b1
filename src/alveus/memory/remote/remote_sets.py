"""Sets behind a server: each call is a request."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Unpack, cast

from alveus.memory.aio import AsyncMemorySet, AsyncQuarantine
from alveus.memory.async_calls import Access
from alveus.memory.memory import Memory
from alveus.memory.remote.calls import ask_for, calls_of, sends
from alveus.memory.remote.local_only import no_engine, refused, unsupported
from alveus.memory.remote.remote_tree import RemoteCalls
from alveus.search.signals import Signals
from alveus.sets import KnowledgeSet, MemorySet, OnExisting
from alveus.sets.admission import Quarantine
from alveus.sets.admission.barrier import OnRejected
from alveus.sets.admission.rules import CustomRule
from alveus.sets.admission.verdicts import Added, Verdict
from alveus.sets.compaction import Given
from alveus.sets.compaction.strategies import Merge, Summarize, Trim, stored_form
from alveus.sets.set_options import SetChanges, checked_options, definition
from alveus.sets.writer import WriteCall, Writer
from alveus.state import Ttl, ttl_us
from alveus.store import Define, Definition, Scope, SetRef
from alveus.store.items import Item
from alveus.values.storable import Value

PAGE = 256
"""Items per request of a walk over a set."""

_CALLS = calls_of(AsyncMemorySet)


class RemoteWriter(Writer):
    """The writer of sets behind a server, of a key or of knowledge; sends requests."""

    def __init__(self, calls: RemoteCalls, wait_s: float) -> None:
        super().__init__(no_engine(wait_s, calls.timezone), Scope("", None))
        self.calls, self.wait_s = calls, wait_s

    def stored_compaction(self, compaction: Given) -> str | Mapping[str, Value]:
        """See `SetReader.stored_compaction`."""
        stored = stored_form(compaction, {})
        if not isinstance(compaction, (str, Trim, Summarize, Merge)):
            raise unsupported(
                "compaction by a strategy of your own",
                "name one of alveus, or open the set so where the server's store is opened",
            )
        return stored

    def write(self, call: WriteCall, *, idempotency_key: str | None = None) -> Value:
        """Raise `Unsupported`: the calls of a remote set are requests."""
        _ = idempotency_key
        raise unsupported(f"the call {call.name!r}")


def owner_in(memory: Memory, scope: Scope) -> Any:  # noqa: ANN401 - a key, or knowledge
    """Return the key or the knowledge of a scope in another memory."""
    return memory.knowledge if scope.key is None else memory.key(scope.key)


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
        """Refuse a definition that differs from the existing set's; the first add sends it."""
        if self._options:
            definition(self._options)
            self._wanted = self._made = definition_json(self._options)
            if self._ask("size", set=self._defining_place()):
                self._wanted = {}  # the set has the requested definition
        return ()

    def _place(self) -> dict[str, Any]:
        place: dict[str, Any] = {"name": self.name, "knowledge": self._ref.scope.key is None}
        if self._ttl is not None and not self.calls.read_only:
            seconds = ttl_us(self._ttl.after) / 1_000_000
            place["ttl"] = {"after_s": seconds, "refresh": self._ttl.refresh}
        return place

    def _defining_place(self) -> dict[str, Any]:
        """Return the set's fields in a call that may define the set."""
        if self._wanted:
            return self._place() | {"definition": self._wanted}
        return self._place() | ({"made": self._made} if self._made else {})

    def place(self, access: Access) -> dict[str, Any]:
        """See `Remote.place`."""
        return {"set": self._place() if access == "read" else self._defining_place()}

    def twin(self, memory: Memory) -> MemorySet:
        """See `Remote.twin`."""
        return owner_in(memory, self._ref.scope).set(self.name)

    def _ask(self, name: str, *args: object, **more: Any) -> Any:  # noqa: ANN401 - what it returns
        return ask_for(_CALLS[f"set.{name}"], self, args, {}, **more)

    @property
    def definition(self) -> Definition:
        """See `SetReads.definition`."""
        is_to_make = self._made and not len(self)
        return self._ask("definition", **self.place("write" if is_to_make else "read"))

    def __iter__(self) -> Iterator[Item]:
        after: str | None = None
        while page := self.list(limit=PAGE, after=after):
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id

    def admit(self, value: object) -> Verdict:
        """See `SetWrites.admit`."""
        return self._ask("admit", value, set=self._defining_place())

    def _add(
        self,
        items: builtins.list[Item],
        on_existing: OnExisting,
        idempotency_key: str | None,
        on_rejected: OnRejected = "error",
        *,
        checked: bool = True,
    ) -> Added:
        """See `SetWrites`; after an add the set is defined."""
        _ = checked
        how = {"on_existing": on_existing, "on_rejected": on_rejected}
        once = {"idempotency_key": idempotency_key}
        done: Added = ask_for(_CALLS["set.add_many"], self, (items,), how | once)
        if done.verdicts == () or any(said.outcome == "accept" for said in done.verdicts):
            self._wanted = {}
        return done

    def redefine(self, **changes: Unpack[SetChanges]) -> Definition:
        """See `SetWrites.redefine`."""
        chosen = self._redefining(changes)
        checked_options(chosen)
        wanted = definition_json(chosen)
        self._wanted = {}
        told = self.calls.write("set.redefine", set=self._place(), definition=wanted)
        return Definition.from_json(told["result"])

    @property
    def quarantine(self) -> RemoteQuarantine:
        """See `SetWrites.quarantine`."""
        return RemoteQuarantine(self._writer, self._ref.scope, self.name)

    add_back = refused("set.add_back", "use add_many, or import the export on the server's machine")
    compact = refused(
        "set.compact", "it has no name to be repeated by; run `alveus compact` on its machine"
    )


@sends(AsyncQuarantine)
class RemoteQuarantine(Quarantine):
    """The quarantine of a key or of knowledge behind a server."""

    @property
    def calls(self) -> RemoteCalls:
        """See `Remote.calls`."""
        return cast("RemoteWriter", self._writer).calls

    def place(self, _: Access) -> dict[str, Any]:
        """See `Remote.place`."""
        return {"name": self._name, "of_knowledge": self._scope.key is None}

    def twin(self, memory: Memory) -> Quarantine:
        """See `Remote.twin`."""
        return owner_in(memory, self._scope).quarantine


class RemoteKnowledgeSet(RemoteSet, KnowledgeSet):
    """A set of knowledge behind a server."""


def definition_json(options: Mapping[str, object]) -> dict[str, Any]:
    """Return a definition as JSON; *options* have the stored form.

    Raises:
        Unsupported: An admission rule is a function of the caller.
    """
    sent = dict[str, Any](options)
    if isinstance(span := sent.get("retention"), timedelta):
        sent["retention"] = span.total_seconds()
    if isinstance(signals := sent.get("signals"), Signals):
        sent["signals"] = signals.to_json()
    rules = cast("Sequence[Mapping[str, object]]", sent.get("admission") or ())
    if any(rule.get("rule") == CustomRule.name for rule in rules):
        raise unsupported(
            "admission by a rule of your own",
            "name rules of alveus, or open the set so where the server's store is opened",
        )
    return sent
