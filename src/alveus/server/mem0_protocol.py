"""The routes of mem0's `MemoryClient`, served from the memory of alveus.

`alveus.transfer.mem0` maps mem0's memories to keys and fields of items. Messages that are kept
unchanged go to the set "default", and learnt facts go to the set "facts". Alveus's calls find both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from alveus.errors import InvalidInput, NotFound
from alveus.facts.fact import FACTS, Fact
from alveus.facts.learning import LEARNED
from alveus.llm.answer_reader import text_said
from alveus.memory.keys import KeyMemory
from alveus.memory.remote.codecs import value_of
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server import schemas
from alveus.server.answers import ForeignRoute, StrictRoute
from alveus.server.callers import Caller
from alveus.server.mem0_filters import (
    Where,
    filter_of_key,
    moment_of,
    named_entities,
    owners_of_new,
    read_filters,
)
from alveus.server.routes import FAULTS, Asking, Document
from alveus.server.tokens import Access
from alveus.sets import MemorySet
from alveus.sets.commits import answer_once
from alveus.store import Scope
from alveus.store.items import Item
from alveus.transfer.chats import OTHER_CONTENT, Content
from alveus.transfer.mem0 import (
    ENTITIES,
    KINDS,
    MARKS,
    SETS,
    Entity,
    Mem0Location,
    Mem0Memory,
    end_of,
    entity_name,
    uuid_of,
)
from alveus.values.ids import derived_ids, new_id
from alveus.values.storable import Value, checked
from alveus.values.wire import wired


class _Mem0Errors(ForeignRoute):
    """A route that returns errors in the form that mem0's client parses."""

    def refusal(self, status: int, message: str, headers: Mapping[str, str]) -> Response:
        """See `ForeignRoute.refusal`."""
        return JSONResponse({"detail": message}, status, headers)


class _Mem0Route(_Mem0Errors, StrictRoute):
    """A route of a supported call."""


router = APIRouter(route_class=_Mem0Route, include_in_schema=False)


class _Mem0Body(asked.ValidTexts):
    """A body that refuses unknown fields, because the sender may expect an effect from them."""

    model_config = ConfigDict(extra="forbid")

    filters: dict[str, Any] | None = None
    user_id: object = None
    agent_id: object = None
    app_id: object = None
    run_id: object = None
    version: str | None = None
    output_format: str | None = None
    async_mode: bool | None = None

    def chosen(self) -> Where:
        """Return the filter of the request, with the entities that fields beside it name."""
        given = {name: getattr(self, name) for name in ENTITIES}
        beside = {
            name: entity_name(name, value) for name, value in given.items() if value is not None
        }
        if not self.filters:
            return beside
        filters = value_of(self.filters)  # refuses filters that are nested too deep
        return {"AND": [filters, beside]} if beside else filters


class _Message(asked.ValidTexts):
    """A chat message, possibly with parts other than text."""

    TEXTS = ("content", "name")
    model_config = ConfigDict(extra="allow")

    role: str = "user"
    content: object = None
    name: str | None = None

    def read(self) -> tuple[str, list[str]]:
        """Return the text of the message, and the types of the parts that are not text.

        If there is no text, return "" and at least one type, "nothing" if there are no parts.
        """
        content, given = Content(), self.content
        if isinstance(given, dict):
            given = [cast("object", given)]
        if not isinstance(given, (str, list, type(None))):
            raise InvalidInput(
                f"the content of a message must be a text or a list of parts, not {given!r:.40}"
            )
        content.read(cast("Value", given or ""))
        others = ["image_url"] * len(content.images)
        others += [str(cast("Where", part).get("type", "unknown")) for part in content.parts]
        others += ["thinking"] * content.thoughts
        others += [name for name in OTHER_CONTENT if (self.model_extra or {}).get(name)]
        text = text_said(self.role, " ".join(content.texts))
        return (text, others) if text.strip() else ("", others or ["nothing"])


class _AddBody(_Mem0Body):
    TEXTS = ("metadata",)

    messages: list[_Message] = Field(min_length=1, max_length=1_000)
    metadata: dict[str, Any] | None = None
    infer: bool = True
    timestamp: int | None = Field(None, ge=0, lt=1 << 37)
    expiration_date: date | None = None


class _ListBody(_Mem0Body):
    start_date: str | None = None
    end_date: str | None = None
    show_expired: bool = False


class _SearchBody(_Mem0Body):
    TEXTS = ("query",)

    query: str = Field(min_length=1)
    top_k: int = Field(10, ge=1, le=1_000)
    limit: int | None = Field(None, ge=1, le=1_000)
    threshold: float = Field(0.0, ge=0, le=1)
    rerank: bool | None = None
    keyword_search: bool | None = None


class _Change(asked.ValidTexts):
    TEXTS = ("text", "metadata")
    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(None, min_length=1)
    metadata: dict[str, Any] | None = None
    timestamp: float | str | None = None
    expiration_date: date | None = None

    def fields(self) -> dict[str, Any]:
        """Return the changed fields of the item, except for the metadata."""
        fields: dict[str, Any] = {}
        if self.text is not None:
            fields["value"] = self.text
        if self.timestamp is not None:
            fields["time"] = moment_of(self.timestamp)
        if "expiration_date" in self.model_fields_set:
            fields["expire_at"] = _expiry(self.expiration_date)
        if not fields and self.metadata is None:
            raise InvalidInput(
                "there is nothing to change; pass text, metadata, timestamp or expiration_date"
            )
        return fields


class Mem0Change(_Change):
    """Changes of a memory of mem0."""

    memory_id: str


class Mem0MemoryId(BaseModel):
    """The id of a memory of mem0."""

    memory_id: str


class Mem0Changes(BaseModel):
    """Changes of several memories of mem0, made together."""

    memories: list[Mem0Change] = Field(min_length=1, max_length=1_000)


class Mem0Deletions(BaseModel):
    """Memories of mem0 that are retired together."""

    memories: list[Mem0MemoryId] = Field(min_length=1, max_length=1_000)


class Mem0Done(BaseModel):
    """The result of a change of memories of mem0."""

    message: str
    replaced_characters: schemas.Replaced = None


class Mem0Problem(BaseModel):
    """An error, in the form that mem0's client reads."""

    detail: str


described = APIRouter(
    route_class=_Mem0Route,
    tags=["mem0"],
    responses={
        status: {"model": Mem0Problem | asked.Problem, "description": says}
        for status, says in FAULTS.items()
    },
)
"""Routes at a URL that alveus's calls use too. They are in the description of the API."""


# --- finding memories -----------------------------------------------------------------------------


def _space(caller: Caller) -> str:
    return caller.token.space or asked.DEFAULT


def _open(caller: Caller, key: str, access: Access) -> KeyMemory:
    return caller.key(_space(caller), key, access)


def _located(caller: Caller, memory_id: str, access: Access) -> Mem0Location:
    """Return the key, the set and the item id of a memory of mem0. The item may be deleted.

    Raises:
        InvalidInput: The id is invalid, or items of several keys have it.
        NotFound: No item that the token may read has or had this id.
    """
    packed, item_id = Mem0Location.unpacked(memory_id), uuid_of(memory_id)
    if packed is not None:
        return packed
    if item_id is None:
        raise InvalidInput(
            f"{memory_id!r:.80} is not the id of a memory; pass a UUID from an earlier answer"
        )
    memory, space = caller.memory(_space(caller), access), _space(caller)
    found = [
        Mem0Location(ref.scope.key or "", ref.name, item_id)
        for ref in memory.store.sets_of_item(space, item_id)
        if ref.name in SETS and (ref.scope.key or "").startswith(caller.token.keys)
    ]
    if len(found) > 1:
        live = [each for each in found if memory.key(each.key).set(each.set_name).get(item_id)]
        found = live or found
    if len(found) > 1:
        located = ", ".join(f"{each.packed} of {Entity.of_key(each.key).name!r}" for each in found)
        raise InvalidInput(f"several memories have the id {memory_id}; pass one of {located}")
    if not found:
        raise NotFound(f"there is no memory {memory_id!r}")
    return found[0]


def _found(caller: Caller, memory_id: str, access: Access) -> tuple[Mem0Location, MemorySet, Item]:
    """Return a memory with its location and its set.

    Raises:
        InvalidInput: See `_located`.
        NotFound: The memory does not exist.
    """
    at = _located(caller, memory_id, access)
    inside = _open(caller, at.key, access).set(at.set_name)
    item = inside.get(at.item_id)
    if item is None:
        raise NotFound(f"there is no memory {memory_id!r}")
    return at, inside, item


def _chosen(caller: Caller, filters: Where, access: Access) -> Iterator[tuple[KeyMemory, Where]]:
    """Yield the keys that may have matching memories, each with the filter for the key.

    A memory is in the key of its first entity, and its marks name its other entities. So the keys
    of the filter's entities are read, and also the keys with items whose marks name one of them.

    Raises:
        InvalidInput: The filter names no entity.
    """
    entities = named_entities(filters)
    if not entities:
        raise InvalidInput(f"the filters need one of {', '.join(ENTITIES)}; '*' is not supported")
    keys = list(dict.fromkeys(each.key for each in entities))
    for key in keys:
        yield _open(caller, key, access), filter_of_key(filters, key)
    memory, space = caller.memory(_space(caller), access), _space(caller)
    marks = [each.mark for each in entities if each.kind != KINDS[0]]
    refs = {
        ref.scope.key or ""
        for mark in dict.fromkeys(marks)
        for name in SETS
        for ref in memory.store.sets_with_metadata(space, name, mark)
    }
    for key in sorted(refs.difference(keys)):
        if key.startswith(caller.token.keys):
            inside, where = _open(caller, key, access), filter_of_key(filters, key)
            if any(inside.set(name).list(where=where, limit=1) for name in SETS):
                yield inside, where


def _expiry(day: date | None) -> datetime | None:
    return None if day is None else end_of(day)


# --- what clients read ----------------------------------------------------------------------------


def _shown(key: str, item: Item) -> Document:
    fields = Mem0Memory.of_item(key, item).fields()
    at = Mem0Location(key, item.set_name or "", item.id or "")
    return {"id": at.id, **cast("Document", wired(fields))}


def _event(key: str, set_name: str, item_id: str, event: str, text: str | None) -> Document:
    answer = {"event": event, "memory": text, "data": {"memory": text}}
    return {"id": Mem0Location(key, set_name, item_id).id, **answer}


@router.get("/v1/ping")
def ping(caller: Asking) -> Document:
    """Confirm that the token is valid. Mem0's project id is the space of the token."""
    return {"status": "ok", "org_id": "alveus", "project_id": _space(caller), "user_email": None}


# --- adding ---------------------------------------------------------------------------------------


@router.post("/v3/memories/add")
def add(
    caller: Asking, request: Request, body: _AddBody, idempotency_key: asked.Repeatable = None
) -> Document:
    """Keep messages unchanged, or learn facts from them, and return the results.

    The work is done before the response. `status` says so to clients that would otherwise poll.
    """
    entities = owners_of_new(body.chosen())
    if not entities:
        raise InvalidInput(f"the memories need an owner; pass one of {', '.join(ENTITIES)}")
    key = Entity.first(entities).key
    memory = _open(caller, key, "write")
    read = [(each, *each.read()) for each in body.messages]
    said = [(message, text) for message, text, _ in read if text]
    left_out = [
        {"message": number, "role": message.role, "type": kind}
        for number, (message, _, others) in enumerate(read)
        for kind in others
    ]
    kept = Mem0Memory(
        None,
        entities,
        value_of(body.metadata or {}) | forms.replaced_field(body.replaced),
        created=None if body.timestamp is None else moment_of(body.timestamp),
        expires=_expiry(body.expiration_date),
    )
    # Check now: the facts are marked with these fields only after they are learnt.
    texts = [[message.role, message.name, text] for message, text in said]
    requested = {**body.model_dump(mode="json", exclude={"messages"}), "said": texts}
    checked([requested, left_out], where="body")
    if body.infer:
        answer = answer_once(
            memory.engine,
            Scope(memory.space, memory.key),
            lambda: cast("Value", _learn(memory, request, said, kept)),
            idempotency_key=idempotency_key,
            plain=["mem0 add", json.dumps(requested)],
        )
        fields = cast("Document", answer)
    else:
        fields = _keep(memory, said, kept, body.replaced, idempotency_key)
    replaced = body.replaced + sum(message.replaced for message in body.messages)
    return {
        **fields,
        "status": "SUCCEEDED",
        **({"left_out": left_out} if left_out else {}),
        **forms.replaced_field(replaced),
    }


def _keep(
    memory: KeyMemory,
    said: list[tuple[_Message, str]],
    kept: Mem0Memory,
    replaced: int,
    idempotency_key: str | None,
) -> Document:
    """Keep messages unchanged, in one commit.

    The metadata of each item records how many characters were replaced: *replaced*, in the rest of
    the request, and those in the message.
    """
    made = [
        replace(
            kept,
            text=text,
            metadata={**kept.metadata, **forms.replaced_field(replaced + message.replaced)},
            actor=message.name,
            role=message.role,
        ).item()
        for message, text in said
    ]
    ids = memory.set("default").add_many(made, idempotency_key=idempotency_key)
    event = "\n".join(ids) or idempotency_key or new_id()
    pairs = zip(ids, said, strict=True)
    return {
        "event_id": derived_ids(event.encode())(),
        "results": [_event(memory.key, "default", each, "ADD", text) for each, (_, text) in pairs],
    }


def _learn(
    memory: KeyMemory, request: Request, said: list[tuple[_Message, str]], kept: Mem0Memory
) -> Document:
    """Learn facts, and mark the new ones with the client's fields, in one commit."""
    messages = [{"role": message.role, "content": text} for message, text in said]
    results: list[Document] = []
    if messages:
        report = memory.learn(messages, model=request.app.state.model)
        _mark(memory, [fact.id for fact in report.added], kept)
        results = [_event(memory.key, FACTS, fact.id, "ADD", fact.text) for fact in report.added]
        facts = memory.set(FACTS)
        for ended in (*report.superseded, *report.taken_back):
            versions = facts.history(ended)
            text = versions[-1].text if versions else None
            results.append(_event(memory.key, FACTS, ended, "DELETE", text))
    return {"event_id": new_id(), "results": results}


def _mark(memory: KeyMemory, ids: Iterable[str], kept: Mem0Memory) -> None:
    given: dict[str, Any] = {}
    if kept.created is not None:
        given["time"] = kept.created
    if kept.expires is not None:
        given["expire_at"] = kept.expires
    with memory.batch() as batch:
        inside = batch.set(FACTS)
        for fact_id in ids:
            item = inside.get(fact_id)
            if item is not None:
                marked = {**kept.item_metadata(), **item.metadata}
                inside.update(fact_id, metadata=marked, **given)


# --- reading --------------------------------------------------------------------------------------


@router.post("/v3/memories")
def get_all(
    caller: Asking,
    body: _ListBody,
    request: Request,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Document:
    """List memories, latest first, a page at a time."""
    filters = body.chosen()
    for bound, operator in ((body.start_date, "gte"), (body.end_date, "lte")):
        if bound is not None:
            filters = {"AND": [filters, {"created_at": {operator: bound}}]}
    found = _listed(caller, filters, "read", ended=body.show_expired)
    found.sort(key=lambda each: each[1].time or datetime.max.replace(tzinfo=UTC), reverse=True)
    answer = _page(request, found, page, page_size)
    return answer | {"results": [_shown(key, item) for key, item in answer["results"]]}


def _page(request: Request, found: Sequence[object], page: int, page_size: int) -> Document:
    """Return a page of a list, with the URLs of the pages next to it."""
    first, last = (page - 1) * page_size, page * page_size
    return {
        "count": len(found),
        "next": _page_url(request, page + 1, page_size) if last < len(found) else None,
        "previous": _page_url(request, page - 1, page_size) if page > 1 else None,
        "results": found[first:last],
    }


def _page_url(request: Request, page: int, page_size: int) -> str:
    """Return the URL of a page without scheme and host, which a proxy may change."""
    asked = request.url.include_query_params(page=page, page_size=page_size)
    return f"{asked.path}?{asked.query}"


def _listed(
    caller: Caller, filters: Where, access: Access, *, ended: bool
) -> list[tuple[str, Item]]:
    """Return all memories that match a filter, each with its key."""
    found: list[tuple[str, Item]] = []
    for memory, where in _chosen(caller, filters, access):
        now = datetime.now(UTC)
        for name in SETS:
            items = memory.set(name).list(where=where, valid_at="any" if ended else now)
            found.extend((memory.key, item) for item in items)
    return found


@router.post("/v3/memories/search")
def search(caller: Asking, body: _SearchBody) -> Document:
    """Find memories. Their score is alveus's relevance, from 0 to 1."""
    filters, limit = body.chosen(), body.limit or body.top_k
    found = [
        (memory.key, hit)
        for memory, where in _chosen(caller, filters, "read")
        for hit in memory.search(
            body.query, sets=SETS, limit=limit, where=where, min_score=body.threshold
        )
    ]
    if len({key for key, _ in found}) > 1:  # only relevance is comparable across keys
        found.sort(key=lambda each: -(each[1].relevance or 0))
    return {
        "results": [_shown(key, hit.item) | {"score": hit.relevance} for key, hit in found[:limit]]
    }


@router.get("/v1/memories/{memory_id:whole}/history")
def history(caller: Asking, memory_id: str) -> list[Document]:
    """List the versions of a memory, oldest first, even after its deletion."""
    at = _located(caller, memory_id, "read")
    inside = _open(caller, at.key, "read").set(at.set_name)
    versions = inside.history(at.item_id)
    if not versions:
        raise NotFound(f"there is no memory {memory_id!r}")
    rows: list[Document] = []
    old: Item | None = None
    for item in versions:
        if old is None or not (MARKS in item.metadata and MARKS not in old.metadata):
            rows.append(_history_row(at, old, item, "ADD" if old is None else "UPDATE"))
        old = item
    if old is not None and old.retired is not None:
        rows.append(_history_row(at, old, None, "DELETE"))
    return rows


def _history_row(at: Mem0Location, old: Item | None, new: Item | None, event: str) -> Document:
    shown = _shown(at.key, cast("Item", new or old))
    return {
        "id": f"{at.id}:{event}:{new.version if new is not None else 0}",
        "memory_id": at.id,
        "input": [],
        "old_memory": None if old is None else _shown(at.key, old)["memory"],
        "new_memory": None if new is None else shown["memory"],
        "event": event,
        "metadata": shown["metadata"],
        "created_at": shown["created_at"],
        "updated_at": shown["updated_at"],
        **{name: shown[name] for name in ENTITIES},
    }


@router.get("/v1/memories/{memory_id:whole}")
def get(caller: Asking, memory_id: str) -> Document:
    """Read a memory."""
    at, _, item = _found(caller, memory_id, "read")
    return _shown(at.key, item)


@router.get("/v1/entities")
def users(
    caller: Asking,
    request: Request,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int | None, Query(ge=1, le=1_000)] = None,
) -> Document:
    """List the entities with memories that the token may read.

    Without ``page_size``, one page has all entities. A client that deletes all entities expects
    this.
    """
    memory = caller.memory(_space(caller), "read")
    found: list[Document] = []
    for key in memory.keys(prefix=caller.token.keys):
        counts = memory.key(key).sets(counts=True)
        total = sum(counts.get(name, 0) for name in SETS)
        owner = Entity.of_key(key)
        if total and owner.key == key:  # else the key belongs to no entity of mem0
            answer = {"name": owner.name, "type": owner.kind, "total_memories": total}
            found.append({"id": key, **answer})
    return _page(request, found, page, page_size or max(len(found), 1))


# --- changing -------------------------------------------------------------------------------------


@router.put("/v1/memories/{memory_id:whole}")
def update(caller: Asking, memory_id: str, body: _Change) -> Document:
    """Change a memory, as a new version."""
    at, inside, item = _found(caller, memory_id, "write")
    changed = inside.update(at.item_id, **cast("Any", _changes(at.key, item, body)))
    return _shown(at.key, changed) | forms.replaced_field(body.replaced)


def _changes(key: str, item: Item, body: _Change) -> dict[str, Any]:
    """Return the changed fields of the item.

    The entities of the memory stay, and so do the fields of a learnt fact in the metadata.
    """
    fields = body.fields()
    if body.metadata is not None:
        metadata: dict[str, Value] = value_of(body.metadata)
        if MARKS in item.metadata or MARKS in metadata:
            memory = replace(Mem0Memory.of_item(key, item), metadata=metadata, updated=None)
            metadata = memory.item_metadata()
        fact = Fact.of(item) if item.set_name == FACTS else None
        kept = () if fact is None else item.metadata.keys() & fact.to_json().keys()
        fields["metadata"] = {**metadata, **{name: item.metadata[name] for name in kept}}
    return fields


@described.put("/v1/batch", **schemas.answers(Mem0Done))
def batch_update(caller: Asking, body: Mem0Changes) -> Document:
    """Change memories. The memories of one user change in one commit."""
    found = [(_found(caller, each.memory_id, "write"), each) for each in body.memories]
    changes = [(at, _changes(at.key, item, each)) for (at, _, item), each in found]
    for key in dict.fromkeys(at.key for at, _ in changes):
        with _open(caller, key, "write").batch() as batch:
            for at, fields in changes:
                if at.key == key:
                    inside = batch.set(at.set_name)
                    inside.update(at.item_id, **cast("Any", fields))
    replaced = sum(each.replaced for each in body.memories)
    return {
        "message": f"Successfully updated {len(changes)} memories",
        **forms.replaced_field(replaced),
    }


@described.delete("/v1/batch", **schemas.answers(Mem0Done))
def batch_delete(caller: Asking, body: Mem0Deletions) -> Document:
    """Retire memories. The memories of one user are retired in one commit."""
    located = [_found(caller, each.memory_id, "write")[0] for each in body.memories]
    _retire(caller, located)
    return {"message": f"Successfully deleted {len(located)} memories"}


def _retire(caller: Caller, located: Iterable[Mem0Location]) -> None:
    by_key: dict[str, list[Mem0Location]] = {}
    for at in located:
        by_key.setdefault(at.key, []).append(at)
    for key, inside in by_key.items():
        with _open(caller, key, "write").batch() as batch:
            for name in SETS:
                ids = [at.item_id for at in inside if at.set_name == name]
                if ids:
                    batch.set(name).delete(ids)


@router.delete("/v1/memories")
def delete_all(
    caller: Asking,
    user_id: str | None = None,
    agent_id: str | None = None,
    app_id: str | None = None,
    run_id: str | None = None,
    filters: str | None = None,
) -> Document:
    """Retire all matching memories. Their history stays."""
    named = zip(ENTITIES, (user_id, agent_id, app_id, run_id), strict=True)
    given: Where = {entity: name for entity, name in named if name is not None}
    chosen = given if filters is None else {"AND": [read_filters(filters), given]}
    found = _listed(caller, chosen, "write", ended=True)
    _retire(caller, [Mem0Location(key, item.set_name or "", item.id or "") for key, item in found])
    return {"message": "Memories deleted successfully!"}


@router.delete("/v1/memories/{memory_id:whole}")
def delete(
    caller: Asking,
    memory_id: str,
    delete_linked: Literal["false"] | None = None,  # noqa: ARG001 - another value is refused
) -> Document:
    """Retire a memory. Its history stays. Memories that it superseded stay superseded."""
    at, inside, _ = _found(caller, memory_id, "write")
    inside.delete(at.item_id)
    return {"message": "Memory deleted successfully!"}


@router.delete("/v2/entities/{kind}/{name:whole}")
def delete_users(
    caller: Asking, kind: Literal["user", "agent", "app", "run"], name: str
) -> Document:
    """Erase the memories of a user, an agent, an app or a run for good, with their sources.

    Other sets of the key, and its exact memory, stay.
    """
    memory = _open(caller, Entity(kind, entity_name(kind, name)).key, "write")
    if not any(memory.sets(counts=True).get(each) for each in (*SETS, LEARNED)):
        raise NotFound(f"there is no {kind} {name!r}")
    for each in (LEARNED, *SETS):
        memory.set(each).forget(where={})
    return {"message": "Entity deleted successfully!"}


# --- calls that are not served --------------------------------------------------------------------

_UNSERVED = (
    *("/v1/feedback", "/v1/exports", "/v1/exports/get", "/v1/summary"),
    *("/v2/profiles/{rest:whole}", "/v2/entities/user/{rest:whole}/profile"),
    *("/api/v1/orgs/{rest:whole}", "/api/v1/webhooks/{rest:whole}"),
)
"""Addresses of mem0's client for feedback, exports, summaries, profiles, projects, webhooks."""


def refuse(caller: Asking, request: Request) -> Response:
    """Refuse a call of mem0's client by name, so that the client does not look for a memory."""
    caller.token.check("read")
    raise InvalidInput(
        f"{request.method} {request.url.path} of mem0 is not supported; docs/server.md lists "
        "the supported calls"
    )


for _path in _UNSERVED:
    router.add_api_route(
        _path,
        refuse,
        methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        route_class_override=_Mem0Errors,
    )
