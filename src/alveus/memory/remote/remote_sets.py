"""The sets of a key of a server: each call is a request."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Unpack, cast, overload

from alveus.errors import Unusable
from alveus.llm import MEMORY_DEFAULT, RerankerChoice, checked_reranker
from alveus.memory.remote.json_readers import (
    Json,
    as_of_text,
    item_json,
    read_compaction,
    read_held,
    read_hits,
    read_item,
    read_lineage,
    read_points,
    read_receipt,
    time_text,
    valid_at_text,
    value_json,
)
from alveus.memory.remote.local_only import no_engine, refused, unsupported
from alveus.memory.remote.remote_tree import RemoteCalls
from alveus.search.projection import MapPoints
from alveus.search.query import checked_query, search_options
from alveus.search.signals import Signals
from alveus.sets import KnowledgeSet, MemorySet, OnExisting
from alveus.sets.admission import Quarantine, Quarantined
from alveus.sets.admission.barrier import OnRejected
from alveus.sets.admission.rules import CustomRule
from alveus.sets.admission.verdicts import Added, Verdict
from alveus.sets.compaction import Given
from alveus.sets.compaction.strategies import Merge, Summarize, Trim, stored_form
from alveus.sets.forgetting import HowForgotten, Receipt, Scrub, check_chosen
from alveus.sets.origins import CompactionInfo, Lineage, Undone
from alveus.sets.set_compaction import LAST_ID, checked_page
from alveus.sets.set_options import (
    SetChanges,
    checked_ids,
    checked_options,
    definition,
)
from alveus.sets.set_writes import (
    AddCall,
    DeleteCall,
    PopCall,
    SupersedeCall,
    UpdateCall,
    item_from,
)
from alveus.sets.writer import Where, WriteCall, Writer
from alveus.state import Ttl, ttl_us
from alveus.store import Define, Definition, Scope, SetRef
from alveus.store.filters import Filter, plain_filter
from alveus.store.items import Hits, Item
from alveus.store.times import AsOf, ValidAt
from alveus.values.storable import Value, checked_name, counted, flag, moment

PAGE = 256
"""Items that a walk over a set asks for at a time."""


class RemoteWriter(Writer):
    """The sets of a key, or of knowledge, behind a server.

    Args:
        place: Returns how the one set is named that it writes to; None: it writes to none.
    """

    def __init__(
        self, calls: RemoteCalls, wait_s: float, place: Callable[[], dict[str, Any]] | None = None
    ) -> None:
        super().__init__(no_engine(wait_s, calls.timezone), Scope("", None))
        self.calls, self.wait_s, self._place = calls, wait_s, place

    def of_set(self, place: Callable[[], dict[str, Any]]) -> RemoteWriter:
        """Return the writer of one set."""
        return RemoteWriter(self.calls, self.wait_s, place)

    def sets(self, scope: Scope) -> list[str]:
        """See `SetReader.sets`."""
        return list(self.counts(scope))

    def counts(self, scope: Scope) -> dict[str, int]:
        """See `SetReader.counts`."""
        told = self.calls.read("sets", knowledge=scope.key is None)
        return {each["name"]: each["items"] for each in told["sets"]}

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
        """See `Writer.write`: what the server makes of it."""
        if self._place is None or not isinstance(call, _CALLS):
            raise unsupported(f"the call {call.name!r}")
        name, arguments = _sent(call)
        told = self.calls.write(name, idempotency_key, set=self._place(), **arguments)
        return _result(call, told)


_CALLS = (AddCall, UpdateCall, DeleteCall, PopCall, SupersedeCall)


def _sent(call: WriteCall) -> tuple[str, dict[str, Any]]:
    """Return a call's name and arguments as they are sent."""
    match call:
        case AddCall():
            return "add_many", {
                "items": [item_json(item) for item in call.items],
                "on_existing": call.on_existing,
                "on_rejected": call.on_rejected,
            }
        case UpdateCall():
            item = replace(Item(value=None), **call.changes)
            changes = item_json(item, frozenset(call.changes))
            return "update", {"id": call.item_id, "changes": changes, "if_version": call.if_version}
        case DeleteCall():
            where = where_json(call.where)
            ids = None if call.ids is None else list(call.ids)
            return "delete", {"ids": ids, "where": where, "if_version": call.if_version}
        case PopCall():
            return "pop", {"n": call.n}
        case SupersedeCall():
            at = None if call.at is None else time_text(moment(call.at), "at")
            item = item_json(call.item)
            item.pop("sources", None)  # it is the item that is superseded
            return "supersede", {"id": call.item_id, "item": item, "at": at}
        case _:
            raise unsupported(f"the call {call.name!r}")


def _result(call: WriteCall, told: Mapping[str, Any]) -> Value:
    """Return what a call's commit keeps as its result."""
    match call:
        case AddCall():
            kept: dict[str, Value] = {"ids": told["ids"], "verdicts": told["verdicts"]}
            return kept if told["verdicts"] else told["ids"]
        case UpdateCall():
            item = read_item(told["item"])
            call.new_versions[:] = [item]
            return {"id": item.id, "version": item.version}
        case PopCall():
            items = [read_item(item) for item in told["items"]]
            call.popped.update({(str(item.id), item.version): item for item in items})
            return [[item.id, item.version] for item in items]
        case DeleteCall():
            return told["deleted"]
        case _:
            return told["id"]


class RemoteSet(MemorySet):
    """A set behind a server."""

    def __init__(
        self,
        writer: Writer,
        ref: SetRef,
        options: Mapping[str, object],
        *,
        ttl: Ttl | None = None,
    ) -> None:
        assert isinstance(writer, RemoteWriter)  # noqa: S101 - whose sets are these
        self._calls = writer.calls
        self._wanted: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        super().__init__(writer.of_set(self._defining_place), ref, options, ttl=ttl)

    def _definition_to_make(self) -> tuple[Define, ...]:
        """See `SetReads`: the server makes it; here it is looked whether that can be."""
        if self._options:
            definition(self._options)
            self._wanted = self._made = definition_json(self._options)
            if self._described(wanted=True)["items"]:
                self._wanted = {}  # it is as it was asked for
        return ()

    def _place(self) -> dict[str, Any]:
        place: dict[str, Any] = {"name": self.name, "knowledge": self._ref.scope.key is None}
        if self._ttl is not None and not self._calls.read_only:
            seconds = ttl_us(self._ttl.after) / 1_000_000
            place["ttl"] = {"after_s": seconds, "refresh": self._ttl.refresh}
        return place

    def _defining_place(self) -> dict[str, Any]:
        """Return how the set is named in a call that may define it, or make it again."""
        if self._wanted:
            return self._place() | {"definition": self._wanted}
        return self._place() | ({"made": self._made} if self._made else {})

    def _read(self, call: str, **arguments: object) -> Json:
        return self._calls.read(call, set=self._place(), **arguments)

    def _described(self, *, wanted: bool = False) -> dict[str, Any]:
        place = self._defining_place() if wanted else self._place()
        return self._calls.read("describe", set=place)

    # --- reads ---

    @property
    def definition(self) -> Definition:
        """See `SetReads.definition`."""
        found = self._described()
        if self._made and not found["items"]:
            found = self._described(wanted=True)
        return Definition.from_json(found["definition"])

    def __len__(self) -> int:
        return self._described()["items"]

    def __iter__(self) -> Iterator[Item]:
        after: str | None = None
        while page := self.list(limit=PAGE, after=after):
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].id

    @overload
    def get(self, ids: str, *, as_of: AsOf | None = None) -> Item | None: ...
    @overload
    def get(
        self, ids: builtins.list[str] | tuple[str, ...], *, as_of: AsOf | None = None
    ) -> builtins.list[Item | None]: ...

    def get(
        self, ids: str | builtins.list[str] | tuple[str, ...], *, as_of: AsOf | None = None
    ) -> Item | builtins.list[Item | None] | None:
        """See `SetReads.get`."""
        told = self._read("get", ids=checked_ids(ids), as_of=as_of_text(as_of))
        items = [None if item is None else read_item(item) for item in told["items"]]
        return items[0] if isinstance(ids, str) else items

    def list(
        self,
        *,
        where: Where | None = None,
        limit: int | None = None,
        after: str | None = None,
        newest_first: bool = False,
        as_of: AsOf | None = None,
        valid_at: ValidAt | None = None,
    ) -> builtins.list[Item]:
        """See `SetReads.list`: one answer holds all of it."""
        told = self._read(
            "list",
            where=where_json(where),
            limit=None if limit is None else counted(limit, "limit", least=0),
            after=None if after is None else checked_name(after, "after"),
            newest_first=flag(newest_first, "newest_first"),
            as_of=as_of_text(as_of),
            valid_at=valid_at_text(valid_at),
        )
        return [read_item(item) for item in told["items"]]

    def recent(
        self, n: int = 10, *, as_of: AsOf | None = None, valid_at: ValidAt | None = None
    ) -> builtins.list[Item]:
        """See `SetReads.recent`."""
        count = counted(n, "n", least=0)
        moment, held = as_of_text(as_of), valid_at_text(valid_at)
        told = self._read("recent", n=count, as_of=moment, valid_at=held)
        return [read_item(item) for item in told["items"]]

    def history(self, id: str) -> builtins.list[Item]:
        """See `SetReads.history`."""
        told = self._read("history", id=checked_name(id, "an item's id"))
        return [read_item(item) for item in told["items"]]

    def search(  # noqa: PLR0913 - as `SetReads.search`
        self,
        query: str,
        *,
        limit: int = 10,
        where: Where | None = None,
        as_of: AsOf | None = None,
        signals: Signals | None = None,
        valid_at: ValidAt | None = None,
        min_score: float | None = None,
        reranker: RerankerChoice = MEMORY_DEFAULT,
    ) -> Hits:
        """See `SetReads.search`; a re-ranker of the call's own is refused."""
        asked = search_json(
            query,
            limit=limit,
            where=where,
            as_of=as_of,
            signals=signals,
            valid_at=valid_at,
            min_score=min_score,
            reranker=reranker,
        )
        return read_hits(self._read("search", **asked))

    def admit(self, value: object) -> Verdict:
        """See `SetWrites.admit`."""
        place, item = self._defining_place(), item_json(item_from(value))
        return Verdict(*self._calls.read("admit", set=place, item=item)["verdict"])

    # --- writes ---

    def _add(
        self,
        items: builtins.list[Item],
        on_existing: OnExisting,
        idempotency_key: str | None,
        on_rejected: OnRejected = "error",
        *,
        checked: bool = True,
    ) -> Added:
        """See `SetWrites`: once something was added, the set is defined."""
        done = super()._add(items, on_existing, idempotency_key, on_rejected, checked=checked)
        if done.verdicts == () or any(said.outcome == "accept" for said in done.verdicts):
            self._wanted = {}
        return done

    def _version_made(self, item_id: str, version: object, new_versions: Sequence[Item]) -> Item:
        """See `SetWrites`: the server told the version with its answer."""
        _ = item_id, version
        return new_versions[0]

    def renew(self, ids: str | Sequence[str], *, ttl: timedelta) -> int:
        """See `SetWrites.renew`."""
        seconds, id_list = ttl_us(ttl) / 1_000_000, checked_ids(ids)
        told = self._calls.write("renew", set=self._place(), ids=id_list, ttl_s=seconds)
        return told["renewed"]

    def forget(
        self,
        ids: str | Sequence[str] | None = None,
        *,
        where: Where | None = None,
        scrub: Scrub | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """See `SetWrites.forget`."""
        if self._calls.in_batch:
            raise Unusable("forget is a commit of its own; do it outside of the batch")
        check_chosen(ids, where)
        HowForgotten(scrub, dry_run).check()
        told = self._calls.write(
            "forget",
            idempotency_key,
            set=self._place(),
            ids=None if ids is None else checked_ids(ids),
            where=where_json(where),
            scrub=scrub,
            dry_run=dry_run,
        )
        return read_receipt(told)

    def redefine(self, **changes: Unpack[SetChanges]) -> Definition:
        """See `SetWrites.redefine`."""
        chosen = self._redefining(changes)
        checked_options(chosen)
        wanted = definition_json(chosen)
        self._wanted = {}
        told = self._calls.write("redefine", set=self._place(), definition=wanted)
        return Definition.from_json(told["definition"])

    # --- what was compacted, and what is held -------------------------------------------------

    def compactions(
        self, *, before: int | None = None, limit: int = 100
    ) -> builtins.list[CompactionInfo]:
        """See `SetTidying.compactions`."""
        checked_page(before, limit)
        told = self._read("compactions", before=before, limit=limit)
        return [read_compaction(done) for done in told["compactions"]]

    def undo(self, compaction: int, *, idempotency_key: str | None = None) -> Undone:
        """See `SetTidying.undo`."""
        number = counted(compaction, "a compaction's id", least=0, most=LAST_ID)
        place = self._place()
        told = self._calls.write("undo", idempotency_key, set=place, compaction=number)
        ids = {name: tuple(told[name]) for name in ("restored", "missing", "removed")}
        return Undone(**ids, erased=told["erased"])

    def sources(self, id: str) -> builtins.list[Item]:
        """See `SetTidying.sources`."""
        told = self._read("sources", id=checked_name(id, "an item's id"))
        return [read_item(item) for item in told["items"]]

    def lineage(self, id: str) -> Lineage:
        """See `SetTidying.lineage`."""
        return read_lineage(self._read("lineage", id=checked_name(id, "an item's id")))

    def points(self, *, where: Where | None = None, limit: int | None = None) -> MapPoints:
        """See `SetReads.points`."""
        return read_points(self._read("points", **points_json(where, limit)))

    @property
    def quarantine(self) -> RemoteQuarantine:
        """See `SetWrites.quarantine`."""
        assert isinstance(self._writer, RemoteWriter)  # noqa: S101 - it made it itself
        return RemoteQuarantine(self._writer, self._ref.scope, self.name)

    add_back = refused("set.add_back", "use add_many, or import the export on the server's machine")
    compact = refused(
        "set.compact", "it has no name to be repeated by; run `alveus compact` on its machine"
    )


class RemoteQuarantine(Quarantine):
    """What rules keep out of the sets of a key, or of knowledge, behind a server."""

    def __init__(self, writer: RemoteWriter, scope: Scope, name: str | None = None) -> None:
        super().__init__(writer, scope, name)
        self._calls, self._place = writer.calls, {"name": name, "knowledge": scope.key is None}

    def __len__(self) -> int:
        return self._calls.read("quarantine.list", **self._place, limit=0)["all"]

    def list(self, *, limit: int | None = None) -> builtins.list[Quarantined]:
        """See `Quarantine.list`."""
        most = None if limit is None else counted(limit, "limit", least=0)
        told = self._calls.read("quarantine.list", **self._place, limit=most)
        return [read_held(held) for held in told["held"]]

    def get(self, id: str) -> Quarantined | None:
        """See `Quarantine.get`."""
        name = checked_name(id, "an item's id")
        held = self._calls.read("quarantine.get", **self._place, id=name)["held"]
        return None if held is None else read_held(held)

    def release(self, id: str, *, by: str | None = None, idempotency_key: str | None = None) -> str:
        """See `Quarantine.release`."""
        who = None if by is None else checked_name(by, "who releases")
        given = {**self._place, "id": checked_name(id, "an item's id"), "by": who}
        return self._calls.write("quarantine.release", idempotency_key, **given)["id"]

    def discard(self, id: str, *, idempotency_key: str | None = None) -> None:
        """See `Quarantine.discard`."""
        given = {**self._place, "id": checked_name(id, "an item's id")}
        self._calls.write("quarantine.discard", idempotency_key, **given)


class RemoteKnowledgeSet(RemoteSet, KnowledgeSet):
    """A set of knowledge behind a server."""


# --- as it is sent ----------------------------------------------------------------------------


def points_json(where: Where | None, limit: int | None) -> dict[str, Any]:
    """Return which points are asked for as it is sent, checked."""
    most = None if limit is None else counted(limit, "limit", least=0)
    return {"where": where_json(where), "limit": most}


def where_json(where: Where | None) -> Json:
    """Return a filter as it is sent.

    Raises:
        InvalidFilter: It cannot be understood.
    """
    Filter.parse(where)
    return None if where is None else value_json(plain_filter(where), "where")


def search_json(  # noqa: PLR0913 - as `SetReads.search`
    query: str,
    *,
    limit: int,
    where: Where | None,
    as_of: AsOf | None,
    signals: Signals | None,
    valid_at: ValidAt | None,
    min_score: float | None,
    reranker: RerankerChoice,
) -> dict[str, Any]:
    """Return a search as it is sent, checked.

    Raises:
        Unsupported: It has a re-ranker of its own, which the server does not have.
    """
    search_options(limit, where, None, signals, valid_at, min_score=min_score, reranker=reranker)
    return {
        "query": checked_query(query),
        "limit": limit,
        "where": where_json(where),
        "as_of": as_of_text(as_of),
        "signals": None if signals is None else signals.to_json(),
        "valid_at": valid_at_text(valid_at),
        "min_score": min_score,
        "rerank": is_reranked(reranker),
    }


def is_reranked(reranker: RerankerChoice) -> bool:
    """Return whether the server's re-ranker is to order hits, if it has one.

    Raises:
        Unsupported: It is one of the caller's.
    """
    checked_reranker(reranker)
    if reranker is None or reranker is MEMORY_DEFAULT:
        return reranker is MEMORY_DEFAULT
    raise unsupported("reranker=", "order the hits here, or open the server's memory with it")


def definition_json(options: Mapping[str, object]) -> dict[str, Any]:
    """Return how a set is to be as it is sent; *options* are as its definition keeps them.

    Raises:
        Unsupported: A rule of admission is the caller's own.
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
