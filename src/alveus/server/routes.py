"""The routes of the server: each checks the caller and makes one call of `Memory`.

Names are query parameters, so that a key, an id or a path may hold any character.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, NamedTuple, TypeVar, cast

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from alveus.errors import CompareFailed, InvalidInput, NotFound, StaleItem, StaleRun
from alveus.facts import LearnOptions
from alveus.facts.learning import checked_options
from alveus.memory.keys import KeyMemory, KnowledgeMemory
from alveus.memory.memory import Memory
from alveus.memory.remote.codecs import Json, argument_of, to_json, value_of
from alveus.runs.runner.tickets import given_up, overtaken
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server import schemas
from alveus.server.answers import StrictRoute
from alveus.server.callers import Caller, caller_of, memories_for
from alveus.server.calls import TABLE, CallArguments, make, takes
from alveus.server.tokens import Access
from alveus.sets import MemorySet
from alveus.sets.commits import answer_once
from alveus.sets.set_writes import item_from
from alveus.state.memory_object import MemoryObject
from alveus.store import NamedRequest, Run, RunStatus, Scope
from alveus.store.items import ITEM_TEXTS, Item, valid_item
from alveus.transfer.export import Selection, export_lines
from alveus.values import wire
from alveus.values.storable import REPLACED, Value, valid_text
from alveus.values.wire import wired

Document = dict[str, Any]

R = TypeVar("R")

JSON_LINES = "application/jsonl"

MOST_ITEMS = 10_000
"""The most items of one request."""

FAULTS: dict[int | str, str] = {
    400: "Something that was asked for cannot be used.",
    401: "A token is needed.",
    403: "The token does not reach so far.",
    404: "It is not there.",
    409: "It conflicts with what is there.",
    410: "It was erased, or its history is gone.",
    412: "It was changed since it was read.",
    413: "The request is too large.",
    422: "A rule of admission rejects it.",
    429: "Too many requests.",
    500: "The server failed unexpectedly; its log has the cause under `facts.reference`.",
    501: "The server cannot do it here, such as reading the past within a batch.",
    502: "A model or an embedder did not answer.",
    503: "The store is busy, or away.",
    507: "The store is full.",
}

RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": asked.Problem, "description": says} for status, says in FAULTS.items()
}

router = APIRouter(prefix="/v1", route_class=StrictRoute, responses=RESPONSES)


def sends(media_type: str, *, each: str | None = None) -> dict[int | str, dict[str, Any]]:
    """Return the description of a response that is not JSON. Errors are JSON all the same.

    Args:
        each: The name of the schema of the JSON in each part of the response.
    """
    schema: Document = {"type": "string"}
    if each is not None:
        schema["contentSchema"] = {"$ref": f"#/components/schemas/{each}"}
    return {200: {"content": {media_type: {"schema": schema}}}}


# These functions are coroutines because they wait for nothing. FastAPI would run each plain
# function in a thread.


async def _caller(request: Request, timezone: asked.Timezone = None) -> Caller:
    state = request.app.state
    used = memories_for(request.scope, state.memories)
    return caller_of(request.headers.get("authorization"), state.tokens, used, timezone)


Asking = Annotated[Caller, Depends(_caller)]


class RequestedKey(NamedTuple):
    """The key that a request names."""

    caller: Caller
    space: str
    key: str

    def open(self, access: Access) -> KeyMemory:
        """Return the memory. Raise `AccessDenied` if the token does not allow *access*."""
        return self.caller.key(self.space, self.key, access)


async def _key(caller: Asking, key: asked.Key, space: asked.Space = asked.DEFAULT) -> RequestedKey:
    return RequestedKey(caller, space, key)


class RequestedOwner(NamedTuple):
    """The key that a request names, or knowledge if it names none."""

    caller: Caller
    space: str
    key: str | None

    def open(self, access: Access) -> KeyMemory | KnowledgeMemory:
        """Return the memory. Raise `AccessDenied` if the token does not allow *access*."""
        return self.caller.owner(self.space, self.key, access)

    def memory(self, access: Access) -> Memory:
        """Return the memory of the space. Without a key, the token must allow all keys."""
        if self.key is None:
            return self.caller.whole(self.space)
        self.open(access)
        return self.caller.memories.of(self.space)

    def shown(self, answer: Document) -> Document:
        """See `Caller.shown`."""
        return self.caller.shown(answer, self.space, self.key)


async def _owner(
    caller: Asking, space: asked.Space = asked.DEFAULT, key: asked.OptionalKey = None
) -> RequestedOwner:
    return RequestedOwner(caller, space, key)


class RequestedSet(NamedTuple):
    """The set that a request names."""

    owner: RequestedOwner
    name: str

    def shown(self, answer: Document) -> Document:
        """See `Caller.shown`."""
        return self.owner.shown(answer)

    def open(self, access: Access) -> MemorySet:
        """Return the set. Raise `AccessDenied` if the token does not allow *access*."""
        return self.owner.open(access).set(self.name)

    def may_see(self, scope: Scope) -> bool:
        """See `Token.may_see`."""
        memory = self.owner.caller.memories.of(self.owner.space)
        return self.owner.caller.token.may_see(scope, knowledge=memory.knowledge.name)


async def _set(
    owner: Annotated[RequestedOwner, Depends(_owner)], name: asked.SetName = "default"
) -> RequestedSet:
    return RequestedSet(owner, name)


InKey = Annotated[RequestedKey, Depends(_key)]
InOwner = Annotated[RequestedOwner, Depends(_owner)]
InSet = Annotated[RequestedSet, Depends(_set)]


# --- keys and sets ----------------------------------------------------------------------------


@router.get("/keys", tags=["keys"], **schemas.answers(schemas.KeyPage))
def list_keys(
    caller: Asking,
    space: asked.Space = asked.DEFAULT,
    prefix: str = "",
    after: str | None = None,
    limit: asked.Count = 100,
) -> Document:
    """List the keys of a space, sorted. For the next page, send the last key as `after`."""
    memory = caller.memory(space, "read")
    begin, longer = sorted((prefix, caller.token.keys), key=len)
    if not longer.startswith(begin):
        return {"keys": [], "more": False}
    found = list(islice(memory.keys(prefix=longer, after=after or None), limit + 1))
    return {"keys": found[:limit], "more": len(found) > limit}


@router.get("/sets", tags=["keys"], **schemas.answers(schemas.SetsAnswer))
def list_sets(at: InOwner) -> Document:
    """List the sets of a key, or of knowledge."""
    counts = at.open("read").sets(counts=True)
    return {"sets": [{"name": name, "items": count} for name, count in counts.items()]}


# --- exact memory -----------------------------------------------------------------------------


@router.get("/exact", tags=["exact memory"], **schemas.answers(schemas.ExactValue))
def read_value(
    at: InKey, response: Response, path: asked.ExactPath = "", as_of: asked.AsOfText = None
) -> Document:
    """Read a value, or an object with everything below it."""
    tree = at.open("read").short_term
    moment = asked.as_of(as_of)
    found = _found_at(tree if moment is None else tree.at(moment), path)
    value = _plain(found)
    response.headers["ETag"] = _etag(value)
    is_object = isinstance(found, MemoryObject)
    return {"path": path, "value": wired(value), "is_object": is_object}


@router.put("/exact", tags=["exact memory"], **schemas.answers(schemas.ExactValue))
def write_value(
    at: InKey,
    response: Response,
    body: asked.ValueBody,
    path: asked.ExactPath,
    idempotency_key: asked.Repeatable = None,
    if_match: asked.IfMatch = None,
) -> Document:
    """Set a value. With If-Match, set it only if the current value has that ETag."""
    tree = at.open("write").short_term
    value, replaced = valid_text(value_of(body.value))
    names, ttl = asked.path_of(path), asked.span(body.ttl_s)
    if if_match is None:
        once = tree if idempotency_key is None else tree.once(idempotency_key)
        once.set(names, value, ttl=ttl)
    else:
        matching = _Matching(path, if_match, idempotency_key)
        matching.change(at, lambda tree: tree.set(names, value, ttl=ttl))
    response.headers["ETag"] = _etag(value)
    answer: Document = {"path": path, "value": wired(value), "is_object": False}
    return answer | forms.replaced_field(replaced)


@router.delete("/exact", tags=["exact memory"], **schemas.answers(schemas.Removed))
def remove_value(
    at: InKey,
    path: asked.ExactPath,
    idempotency_key: asked.Repeatable = None,
    if_match: asked.IfMatch = None,
) -> Document:
    """Delete a value, or an object with everything below it. If-Match works as with `PUT`."""
    names, tree = asked.path_of(path), at.open("write").short_term
    if if_match is not None:
        matching = _Matching(path, if_match, idempotency_key)
        return {"removed": matching.change(at, lambda tree: tree.delete(names))}
    once = tree if idempotency_key is None else tree.once(idempotency_key)
    return {"removed": once.delete(names)}


_NOTHING = object()


def _found_at(tree: MemoryObject, path: str) -> Any:  # noqa: ANN401 - any value
    names = asked.path_of(path)
    found = tree if names == "" else tree.get(names, _NOTHING)
    if found is _NOTHING:
        raise NotFound(f"there is no value at {path!r}")
    return found


def _plain(found: Any) -> Any:  # noqa: ANN401 - any value
    """Return an object as a dict, with its nested objects as dicts. Return a value unchanged."""
    if not isinstance(found, MemoryObject):
        return found
    return {name: _plain(found.get((name,))) for name in found.get_field_names()}


class _Matching(NamedTuple):
    """A change of exact memory, made only if the value at a path has one of some ETags.

    The ETag ``*`` matches any existing value.
    """

    path: str
    etag: str
    idempotency_key: str | None

    def change(self, at: RequestedKey, change: Callable[[MemoryObject], R]) -> R:
        """Compare the ETag and make the change in one commit. Return the result of *change*.

        A repetition under the same idempotency key compares the value that the first request read.

        Raises:
            CompareFailed: The value has changed, or no longer exists.
        """
        matching = asked.etags_of(self.etag)
        while True:
            try:
                with at.open("write").batch(idempotency_key=self.idempotency_key) as batch:
                    if not _fits(batch.short_term, self.path, matching):
                        raise CompareFailed(self.path)
                    return change(batch.short_term)
            except StaleRun:
                continue  # another writer changed the tree, maybe at another path


def _fits(tree: MemoryObject, path: str, etags: frozenset[str]) -> bool:
    """Return whether a value exists at *path* and has one of *etags*."""
    try:
        found = _found_at(tree, path)
    except NotFound:
        return False
    return etags == frozenset((asked.ANY,)) or _etag(_plain(found)).strip('"') in etags


def _etag(value: Any) -> str:  # noqa: ANN401 - any value
    return f'"{hashlib.sha256(wire.encode(value).encode()).hexdigest()[:16]}"'


# --- items ------------------------------------------------------------------------------------


@router.get("/items", tags=["items"], **schemas.answers(schemas.ItemPage))
def list_items(  # noqa: PLR0913, PLR0917 - the parameters of a request
    at: InSet,
    after: str | None = None,
    newest_first: bool = False,  # noqa: FBT001, FBT002 - a parameter of a request
    limit: asked.Count = 100,
    where: str | None = None,
    as_of: asked.AsOfText = None,
    valid_at: asked.ValidAtText = None,
) -> Document:
    """List the items of a set by time. For the next page, send the last item's id as `after`."""
    found = make(
        "set.list",
        at.open("read"),
        where=asked.where_of(where),
        limit=limit + 1,
        after=after,
        newest_first=newest_first,
        as_of=as_of,
        valid_at=valid_at,
    )
    return at.shown({"items": found[:limit], "more": len(found) > limit})


@takes("set.add_many")
class NewItems(CallArguments):
    """Items to add in one commit."""


@router.post("/items", tags=["items"], **schemas.answers(schemas.AddedIds, status=201))
def add_items(at: InSet, body: NewItems, idempotency_key: asked.Repeatable = None) -> Document:
    """Add items in one commit."""
    into, sent = at.open("write"), body.sent()
    given = sent.pop("items")
    if not (isinstance(given, list) and 1 <= len(cast("list[object]", given)) <= MOST_ITEMS):
        raise InvalidInput(f"body.items must be a list of 1 to {MOST_ITEMS:,} items")
    made = [valid_item(item_from(argument_of(Item, each))) for each in cast("list[Json]", given)]
    ids = into.add_many(made, idempotency_key=idempotency_key, **sent)
    replaced = sum(cast("int", item.metadata.get(REPLACED, 0)) for item in made)
    return {"ids": list(ids), **forms.replaced_field(replaced)}


@router.get("/item", tags=["items"], **schemas.answers(schemas.ItemAnswer))
def read_item(
    at: InSet, response: Response, id: asked.ItemId, as_of: asked.AsOfText = None
) -> Document:
    """Read an item."""
    item = make("set.get", at.open("read"), ids=id, as_of=as_of)
    if item is None:
        raise NotFound(f"set {at.name!r} has no item {id!r}")
    response.headers["ETag"] = f'"{item["version"]}"'
    return at.shown(item)


@takes("set.update", without=("id", "if_version"))
class ItemBody(CallArguments):
    """The changed fields of an item. Omitted fields keep their values."""


@router.patch("/item", tags=["items"], **schemas.answers(schemas.ItemAnswer))
def change_item(
    at: InSet,
    response: Response,
    body: ItemBody,
    id: asked.ItemId,
    idempotency_key: asked.Repeatable = None,
    if_match: asked.IfMatch = None,
) -> Document:
    """Change the given fields of an item in a new version. Omitted fields keep their values."""
    of, changes, version = at.open("write"), body.sent(), _version(if_match)
    said, replaced = valid_text({name: changes[name] for name in ITEM_TEXTS if name in changes})
    sent = {"id": id, **changes, **said} | ({} if version is None else {"if_version": version})
    item = TABLE["set.update"].on(of, sent, idempotency_key)
    response.headers["ETag"] = f'"{item["version"]}"'
    return {**item, **forms.replaced_field(replaced)}


@router.delete("/item", tags=["items"], **schemas.answers(schemas.DeletedCount))
def delete_item(
    at: InSet,
    id: asked.ItemId,
    idempotency_key: asked.Repeatable = None,
    if_match: asked.IfMatch = None,
) -> Document:
    """Retire an item. Its history stays. `POST /v1/forget` erases an item with its history."""
    version = _version(if_match)
    deleted = at.open("write").delete(id, if_version=version, idempotency_key=idempotency_key)
    if if_match is not None and not deleted:
        raise CompareFailed(id) if version is None else StaleItem(id, expected=version, found=None)
    return {"deleted": deleted}


@router.get("/item/history", tags=["items"], **schemas.answers(schemas.ItemVersions))
def list_versions(at: InSet, id: asked.ItemId) -> Document:
    """Read every version of an item, oldest first, even after its deletion."""
    return at.shown({"versions": make("set.history", at.open("read"), id=id)})


def _version(etag: str | None) -> int | None:
    """Return the version that an If-Match header requires, or None if any version will do."""
    if etag is None or etag.strip() == asked.ANY:
        return None
    numbers = asked.etags_of(etag)
    if len(numbers) != 1 or not all(number.isascii() and number.isdigit() for number in numbers):
        raise InvalidInput(
            f'If-Match must be the ETag of one version of an item, such as "3", or {asked.ANY}, '
            f"not {etag!r}"
        )
    return int(*numbers)


# --- search and prompts -----------------------------------------------------------------------


@takes("key.search")
class SearchBody(CallArguments):
    """A search for items."""

    limit: int = Field(10, ge=1, le=1_000)


@takes("key.context")
class ContextBody(CallArguments):
    """A request for a prompt. A field that is null has its default."""

    query: str | None
    limit: int | None = Field(None, ge=1, le=1_000)


@router.post("/search", tags=["search"], **schemas.answers(schemas.SearchAnswer))
def search(at: InOwner, body: SearchBody) -> Document:
    """Find the items that match a query best, in the sets of a key or in knowledge."""
    return at.shown(make("key.search", at.open("read"), **body.sent()))


@router.post("/context", tags=["search"], **schemas.answers(schemas.ContextAnswer))
def make_context(at: InKey, body: ContextBody) -> Document:
    """Make a prompt from the memory of a key. The response has the reason for each piece."""
    return make("key.context", at.open("read"), **body.sent())


# --- facts ------------------------------------------------------------------------------------


@router.get("/facts", tags=["facts"], **schemas.answers(schemas.FactList))
def list_facts(
    at: InKey,
    subject: str | None = None,
    limit: asked.Count = 100,
    valid_at: asked.ValidAtText = None,
) -> Document:
    """List the facts learnt from a key's conversations."""
    facts = at.open("read").facts
    return {"facts": make("facts.list", facts, subject=subject, limit=limit, valid_at=valid_at)}


@router.get("/about", tags=["facts"], **schemas.answers(schemas.EntityAnswer))
def read_entity(at: InKey, name: str) -> Document:
    """Read the facts of an entity: a person, a location or a thing."""
    return make("facts.about", at.open("read").facts, name=name)


@router.get("/profile", tags=["facts"], **schemas.answers(schemas.ProfileAnswer))
def read_profile(at: InKey, name: str | None = None, budget: asked.Count = 300) -> Document:
    """Read the profile of an entity, with at most `budget` tokens."""
    found = at.open("read").profile(name, budget=budget)
    return {**forms.fields_of(found), "text": found.text}


@takes("facts.cost", without=("conversation",))
class LearnBody(CallArguments):
    """Texts to learn facts from, or a conversation of the key."""

    texts: list[str] | None = Field(None, min_length=1, max_length=1_000)
    conversation: str | None = None


@router.post("/learn", tags=["facts"], **schemas.answers(schemas.LearnAnswer))
def learn(
    at: InKey, request: Request, body: LearnBody, idempotency_key: asked.Repeatable = None
) -> Document:
    """Learn facts from texts, or from the new messages of a conversation.

    If a request was interrupted, a repetition continues it.
    """
    memory = at.open("write")
    if (body.texts is None) == (body.conversation is None):
        raise InvalidInput("pass either texts or a conversation")
    texts, replaced = valid_text(body.texts)
    source = texts if body.conversation is None else memory.conversation(body.conversation)
    how, model = (
        argument_of(LearnOptions | None, body.sent().get("options")),
        request.app.state.model,
    )
    options = () if how is None else (to_json(LearnOptions, checked_options(how)),)
    report = answer_once(
        memory.engine,
        Scope(memory.space, memory.key),
        lambda: memory.learn(cast("Any", source), model=model, options=how).to_json(),
        idempotency_key=idempotency_key,
        plain=["learn", cast("Value", texts), body.conversation, *options],
    )
    return cast("Document", wired(report)) | forms.replaced_field(replaced)


# --- compaction, forgetting -------------------------------------------------------------------


@router.get("/compactions", tags=["maintenance"], **schemas.answers(schemas.CompactionList))
def list_compactions(
    at: InKey, set_name: asked.SetName = "default", limit: asked.Count = 100
) -> Document:
    """List the compactions of a set, latest first."""
    return {"compactions": make("set.compactions", at.open("read").set(set_name), limit=limit)}


@router.post("/compactions/undo", tags=["maintenance"], **schemas.answers(schemas.UndoneAnswer))
def undo_compaction(
    at: InKey,
    id: int,
    set_name: asked.SetName = "default",
    idempotency_key: asked.Repeatable = None,
) -> Document:
    """Restore the items that a compaction retired, and delete the items it added."""
    return make("set.undo", at.open("write").set(set_name), idempotency_key, compaction=id)


@router.post("/forget", tags=["maintenance"], **schemas.answers(schemas.ReceiptAnswer))
def forget(
    at: InKey,
    body: asked.ForgetBody,
    set_name: asked.SetName = "default",
    idempotency_key: asked.Repeatable = None,
) -> Document:
    """Erase items, or a whole key, for good. The receipt names the copies that remain.

    A repetition with the same idempotency key erases nothing more and returns the receipt's present
    state.
    """
    memory = at.open("write")
    if sum((body.ids is not None, body.where is not None, body.everything)) != 1:
        raise InvalidInput('pass exactly one of "ids", "where", and "everything": true')
    name, of = ("key.forget", memory) if body.ids is None else ("set.forget", memory.set(set_name))
    sent = {"ids": body.ids, "where": body.where, "dry_run": body.dry_run}
    return make(name, of, idempotency_key, **sent)


@router.get("/receipts", tags=["maintenance"], **schemas.answers(schemas.ReceiptList))
def list_receipts(
    caller: Asking, space: asked.Space = asked.DEFAULT, limit: asked.Count = 100
) -> Document:
    """List the receipts of forgotten data, latest first."""
    found = caller.whole(space).receipts(limit=limit)
    return {"receipts": [*map(forms.fields_of, found)]}


# --- runs -------------------------------------------------------------------------------------


@router.get("/runs", tags=["runs"], **schemas.answers(schemas.RunList))
def list_runs(
    of: InOwner,
    agent: str | None = None,
    status: RunStatus | None = None,
    before: asked.OptionalRunId = None,
    limit: asked.Count = 100,
) -> Document:
    """List runs of agents, latest first. For the next page, send the last run's id as `before`."""
    found = of.memory("read").store.runs(
        of.space, key=of.key, agent=agent, status=status, before=before, limit=limit + 1
    )
    return {"runs": [*map(forms.run_fields, found[:limit])], "more": len(found) > limit}


@router.post("/runs/retry", tags=["runs"], **schemas.answers(schemas.RunChosen))
def retry_run(
    caller: Asking,
    run: asked.RunId,
    space: asked.Space = asked.DEFAULT,
    idempotency_key: asked.Repeatable = None,
) -> Document:
    """Retry a parked run. A process that serves the run's agent runs it again."""
    memory = caller.whole(space)
    named = _named(memory, idempotency_key, ["retry", run])
    if named is not None and (done := memory.engine.done(named)) is not None:
        return {"run": done.result}
    row = run_of(memory, run)
    last, now = overtaken(memory.store, row), memory.engine.clock()
    return {"run": memory.store.retry_run(row.id, last=last, time=now, named=named)}


@router.post("/runs/discard", tags=["runs"], **schemas.answers(schemas.RunChosen))
def discard_run(
    caller: Asking,
    run: asked.RunId,
    space: asked.Space = asked.DEFAULT,
    idempotency_key: asked.Repeatable = None,
) -> Document:
    """Discard a run. The effects of its finished actions stay. Its other actions never run."""
    memory = caller.whole(space)
    named = _named(memory, idempotency_key, ["discard", run])
    if named is None or memory.engine.done(named) is None:
        batch = given_up(run_of(memory, run), memory.engine.clock())
        if named is not None:
            batch = replace(batch, op=named.op, request=named.request, label=named.label)
        memory.store.commit(batch)
    return {"run": run}


def _named(memory: Memory, idempotency_key: str | None, plain: Value) -> NamedRequest | None:
    if idempotency_key is None:
        return None
    return memory.engine.named(Scope(memory.space, None), idempotency_key, plain)


def run_of(memory: Memory, number: int) -> Run:
    """Return the run that has this id, if it belongs to the space of *memory*.

    Raises:
        NotFound: The space has no such run.
    """
    row = memory.store.run(number)
    if row is None or row.scope.space != memory.space:
        raise NotFound(f"there is no run {number} in space {memory.space!r}")
    return row


# --- the whole space --------------------------------------------------------------------------


@router.get("/stats", tags=["maintenance"], **schemas.answers(schemas.StatsAnswer))
def read_stats(caller: Asking, space: asked.Space = asked.DEFAULT) -> Document:
    """Read the size of the store and its waiting work.

    Numbers about all spaces are null for a token that is limited to one space.
    """
    found = caller.whole(space).stats()
    answer = forms.attributes(found, "space knowledge embedder pending queue_age_s failure")
    if caller.token.space is not None:
        return answer | {"pending": None, "queue_age_s": None, "failure": None, "store": None}
    counts = "commits keys sets items pending file_bytes wal_bytes runs_waiting runs_parked"
    return answer | {"store": forms.attributes(found.store, counts)}


@router.get("/export", tags=["maintenance"], responses=sends(JSON_LINES))
def export_space(
    of: InOwner,
    knowledge: bool = True,  # noqa: FBT001, FBT002 - a parameter of a request
) -> Response:
    """Export a space, or one key, as JSON lines: a consistent snapshot."""
    keys = None if of.key is None else [of.key]
    chosen = Selection(keys=keys, knowledge=knowledge and keys is None)
    lines = _lines(export_lines(of.memory("admin"), chosen))
    return StreamingResponse(lines, media_type=JSON_LINES)


def _lines(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield f"{line}\n"
