"""Calls of sets as requests carry them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from alveus.errors import InvalidInput, Unsupported
from alveus.llm import MEMORY_DEFAULT
from alveus.memory.keys import KeyBatch, KeyMemory, KnowledgeMemory
from alveus.search.signals import Signals
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server.memory_call import CallTarget, Document, MemoryCall
from alveus.server.tokens import Access
from alveus.sets import MemorySet, refuse_upkeep
from alveus.sets.admission.rules import CustomRule, rules_of
from alveus.sets.admission.verdicts import Verdict
from alveus.sets.compaction.strategies import read as read_strategy
from alveus.state import Ttl
from alveus.store.items import Item
from alveus.values.keywords import UnknownKeyword


class SetLife(BaseModel):
    """How long items of a set stay that do not say."""

    model_config = ConfigDict(extra="forbid", strict=True)
    after_s: Annotated[float, Field(gt=0, le=asked.LONGEST_S)]
    refresh: Literal["write", "read"] = "write"

    def ttl(self) -> Ttl:
        """Return it as sets take it."""
        return Ttl(timedelta(seconds=self.after_s), self.refresh)


SpanS = Annotated[float, Field(ge=0, le=asked.LONGEST_S)]
"""A span of time in seconds."""

OF_KNOWLEDGE = frozenset({"item_type", "admission"})
"""What a set of knowledge may be defined by."""


class SetDefinition(BaseModel):
    """How a set is to be; what is left out is as by default. See `Definition` of alveus."""

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
        """Return what was given, as sets take it.

        Raises:
            InvalidInput, RuleFailed: It cannot be used.
            Unsupported: It names code, which is not run for who asks over a network.
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
    definition: SetDefinition | None = None
    made: SetDefinition | None = Field(
        default=None, description="How it was made: if it was forgotten since, it is made so again."
    )
    ttl: SetLife | None = None

    def open(self, to: CallTarget) -> MemorySet:
        """Return it."""
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


class SetRead(SetCall):
    """A call of one set that changes nothing."""

    access: ClassVar[Access] = "read"


class Describe(SetRead):
    """Tell how many items a set has, and how it is kept; refuse another definition."""

    call: Literal["describe"]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        opened = self.set.open(to)
        definition = forms.wired(opened.definition.to_json())
        return {"items": len(opened), "definition": definition}


class GetItems(SetRead):
    """Read items by id, in that order; null where none is."""

    call: Literal["get"]
    ids: list[str]
    as_of: str | None = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        found = self.set.open(to).get(self.ids, as_of=asked.as_of(self.as_of))
        return {"items": [None if item is None else forms.item_fields(item) for item in found]}


class ListItems(SetRead):
    """List items by time."""

    call: Literal["list"]
    where: Any = None
    limit: int | None = Field(None, ge=0)
    after: str | None = None
    newest_first: bool = False
    as_of: str | None = None
    valid_at: str | None = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        found = self.set.open(to).list(
            where=asked.stored(self.where),
            limit=self.limit,
            after=self.after,
            newest_first=self.newest_first,
            as_of=asked.as_of(self.as_of),
            valid_at=asked.valid_at(self.valid_at),
        )
        return {"items": [*map(forms.item_fields, found)]}


class RecentItems(SetRead):
    """Read the last items by time, the oldest first."""

    call: Literal["recent"]
    n: int = 10
    as_of: str | None = None
    valid_at: str | None = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        when, held = asked.as_of(self.as_of), asked.valid_at(self.valid_at)
        found = self.set.open(to).recent(self.n, as_of=when, valid_at=held)
        return {"items": [*map(forms.item_fields, found)]}


class ItemHistory(SetRead):
    """Read every version of an item, the oldest first."""

    call: Literal["history"]
    id: str

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"items": [*map(forms.item_fields, self.set.open(to).history(self.id))]}


class JudgeItem(SetRead):
    """Tell what the rules of a set say of an item; nothing is stored."""

    call: Literal["admit"]
    item: asked.NewItem

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        return {"verdict": _verdict(self.set.open(to).admit(item_of(self.item)))}


class AddItems(SetCall):
    """Add items."""

    call: Literal["add_many"]
    items: list[asked.NewItem] = Field(max_length=10_000)
    on_existing: Literal["error", "keep", "update"] = "error"
    on_rejected: Literal["error", "skip"] = "error"

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        done = self.set.open(to).add_many(
            [item_of(item) for item in self.items],
            on_existing=self.on_existing,
            on_rejected=self.on_rejected,
            idempotency_key=to.once,
        )
        return {"ids": list(done), "verdicts": [*map(_verdict, done.verdicts)]}


class UpdateItem(SetCall):
    """Change what is given of an item, as a new version."""

    call: Literal["update"]
    id: str
    changes: asked.ItemBody
    if_version: int | None = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        item = self.set.open(to).update(
            self.id,
            if_version=self.if_version,
            idempotency_key=to.once,
            **self.changes.changes(),
        )
        return {"item": forms.item_fields(item)}


class DeleteItems(SetCall):
    """Retire items by id, or those that match a filter; `{}` matches all."""

    call: Literal["delete"]
    ids: list[str] | None = None
    where: Any = None
    if_version: int | None = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        deleted = self.set.open(to).delete(
            self.ids,
            where=asked.stored(self.where),
            if_version=self.if_version,
            idempotency_key=to.once,
        )
        return {"deleted": deleted}


class PopItems(SetCall):
    """Retire the last items by time, and answer with them."""

    call: Literal["pop"]
    n: int = 1

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        popped = self.set.open(to).pop(self.n, idempotency_key=to.once)
        return {"items": [*map(forms.item_fields, popped)]}


class SupersedeItem(SetCall):
    """Say what holds instead of an item from a time on."""

    call: Literal["supersede"]
    id: str
    item: asked.NewItem
    at: asked.Moment | None = None

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        fields = self.item.changes()
        new_id, value = fields.pop("id", None), fields.pop("value")
        value = None if value is ... else value
        try:
            made = self.set.open(to).supersede(
                self.id, value, at=self.at, new_id=new_id, idempotency_key=to.once, **fields
            )
        except UnknownKeyword as error:  # its source, say, is the old one
            raise InvalidInput(f"item: {error}") from error
        return {"id": made}


class RenewItems(SetCall):
    """Have items that expire live so long from now on."""

    call: Literal["renew"]
    ids: list[str]
    ttl_s: Annotated[float, Field(gt=0, le=asked.LONGEST_S)]

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""

        def renew() -> Document:
            life = timedelta(seconds=self.ttl_s)
            return {"renewed": self.set.open(to).renew(self.ids, ttl=life)}

        return to.answer_once(renew, self.model_dump(mode="json"))


class ForgetItems(SetCall):
    """Erase items of a set, of all sets of the key, or all of the key, for good."""

    call: Literal["forget"]
    ids: list[str] | None = None
    where: Any = None
    of: Annotated[
        Literal["set", "sets", "key"], Field(description="Of the set, of all sets; or the key.")
    ] = "set"
    scrub: Literal["now", "later"] | None = None
    dry_run: bool = False

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        how: Any = {"scrub": self.scrub, "dry_run": self.dry_run, "idempotency_key": to.once}
        where = asked.stored(self.where)
        if isinstance(to.owner, KeyBatch):
            raise InvalidInput("forget is a commit of its own; ask for it with POST /v1/call")
        if self.of == "set":
            receipt = self.set.open(to).forget(self.ids, where=where, **how)
        elif not isinstance(to.owner, KeyMemory):
            raise InvalidInput("what is forgotten of a key needs the key: name one with ?key=")
        elif self.ids is not None:
            raise InvalidInput("ids are of one set; of a key or all its sets, leave them out")
        elif (self.of == "key") != (where is None):
            raise InvalidInput("of the key all is erased; of its sets, what `where` names")
        else:
            receipt = to.owner.forget(where=where, **how)
        return forms.receipt_fields(receipt)


class RedefineSet(SetCall):
    """Change how a set is kept; what is left out stays."""

    call: Literal["redefine"]
    definition: SetDefinition

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        options = self.definition.options()
        if "item_type" in options:
            raise InvalidInput("item_type is not redefined: it says what the items already are")

        def redefine() -> Document:
            return {"definition": forms.wired(self.set.open(to).redefine(**options).to_json())}

        return to.answer_once(redefine, self.model_dump(mode="json"))


class ListSets(MemoryCall):
    """List sets by name, with how many items each has."""

    access: ClassVar[Access] = "read"
    call: Literal["sets"]
    prefix: str = ""
    knowledge: bool = False

    @property
    def in_knowledge(self) -> bool:
        """See `MemoryCall.in_knowledge`."""
        return self.knowledge

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        found = to.sets(knowledge=self.knowledge).sets(prefix=self.prefix, counts=True)
        return {"sets": [{"name": name, "items": count} for name, count in found.items()]}


class SearchItems(SetRead):
    """Find what answers a question best, in one set, or in several together."""

    call: Literal["search"]
    query: str
    sets: Annotated[
        Literal["all"] | list[str] | None,
        Field(description='Several sets, or "all" of them, in place of `set`.'),
    ] = None
    limit: int = 10
    where: Any = None
    as_of: str | None = None
    valid_at: str | None = None
    signals: dict[str, float] | None = None
    min_score: float | None = None
    rerank: Annotated[bool, Field(description="By the re-ranker of the server, if any.")] = True

    def answer(self, to: CallTarget) -> Document:
        """See `MemoryCall.answer`."""
        options: dict[str, Any] = {
            "limit": self.limit,
            "where": asked.stored(self.where),
            "as_of": asked.as_of(self.as_of),
            "valid_at": asked.valid_at(self.valid_at),
            "signals": None if self.signals is None else Signals.from_json(self.signals),
            "min_score": self.min_score,
            "reranker": MEMORY_DEFAULT if self.rerank else None,
        }
        if self.sets is None:
            return forms.hits_fields(self.set.open(to).search(self.query, **options))
        names = None if self.sets == "all" else self.sets
        owner = to.sets(knowledge=self.set.knowledge)
        return forms.hits_fields(owner.search(self.query, sets=names, **options))


def item_of(body: asked.NewItem) -> Item:
    """Return the item that a body is."""
    return Item(asked.stored(body.value), **body.fields())


def _verdict(said: Verdict) -> list[str | None]:
    return [said.outcome, said.reason, said.rule, said.into]
