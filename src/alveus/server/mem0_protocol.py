"""The addresses that mem0's `MemoryClient` asks, over the memory of alveus.

`alveus.transfer.mem0` says which key and which fields of an item a memory of mem0 becomes. Messages
that are kept as they are go to the set "default", facts that are learnt to the set "facts", so that
alveus's own calls find both.
"""

from __future__ import annotations

import ast
import base64
import json
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from typing import Annotated, Any, Literal, NamedTuple, cast

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from alveus.errors import AlveusError, InvalidInput, NotFound
from alveus.facts.fact import FACTS
from alveus.facts.learning import LEARNED
from alveus.memory.keys import KeyMemory
from alveus.server import json_forms as forms
from alveus.server import requests as asked
from alveus.server.answers import StrictRoute, error_answer
from alveus.server.callers import Caller
from alveus.server.routes import Asking, Document
from alveus.server.tokens import Access
from alveus.sets import MemorySet
from alveus.sets.commits import answer_once
from alveus.store import Scope
from alveus.store.items import Item
from alveus.transfer.mem0 import ENTITIES, Entity, entity_name
from alveus.values.storable import Value, checked
from alveus.values.times import format_time

FIELD = "mem0"
"""The field of an item's metadata that holds whom it belongs to."""

SHOWN = ("default", FACTS)
"""The sets that clients see."""

Where = dict[str, Any]


class _Mem0Route(StrictRoute):
    """Answers errors in the form of which the client makes its own."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await answer(request)
            except AlveusError as error:
                plain = error_answer(error)
                headers = {name: plain.headers[name] for name in _KEPT if name in plain.headers}
                return JSONResponse({"detail": str(error)}, plain.status_code, headers)
            except RequestValidationError as error:
                first = error.errors()[0]
                place = ".".join(map(str, first["loc"]))
                return JSONResponse({"detail": f"{place}: {first['msg']}"}, 400)

        return handler


_KEPT = ("retry-after", "www-authenticate")

router = APIRouter(route_class=_Mem0Route, include_in_schema=False)


class _Mem0Body(BaseModel):
    """A body; what is not known is refused, because it may be meant to change the answer."""

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
        """Return the filter, and what of it is given beside it."""
        given = {name: getattr(self, name) for name in ENTITIES}
        beside = {
            name: entity_name(name, value) for name, value in given.items() if value is not None
        }
        if not self.filters:
            return beside
        filters = asked.stored(self.filters)  # it refuses what is nested too deep to be walked
        return {"AND": [filters, beside]} if beside else filters


class _Said(BaseModel):
    role: str = "user"
    content: str = Field(min_length=1)
    name: str | None = None


class _AddBody(_Mem0Body):
    messages: list[_Said] = Field(min_length=1, max_length=1_000)
    metadata: dict[str, Any] | None = None
    infer: bool = True
    timestamp: int | None = Field(None, ge=0, lt=1 << 37)
    expiration_date: date | None = None


class _ListBody(_Mem0Body):
    start_date: str | None = None
    end_date: str | None = None
    show_expired: bool = False


class _SearchBody(_Mem0Body):
    query: str = Field(min_length=1)
    top_k: int = Field(10, ge=1, le=1_000)
    limit: int | None = Field(None, ge=1, le=1_000)
    threshold: float = Field(0.0, ge=0, le=1)
    rerank: bool | None = None
    keyword_search: bool | None = None


class _Change(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str | None = Field(None, min_length=1)
    metadata: dict[str, Any] | None = None
    timestamp: float | str | None = None
    expiration_date: date | None = None

    def fields(self) -> dict[str, Any]:
        """Return what is to change, but for the metadata."""
        fields: dict[str, Any] = {}
        if self.text is not None:
            fields["value"] = self.text
        if self.timestamp is not None:
            fields["time"] = _moment(self.timestamp)
        if "expiration_date" in self.model_fields_set:
            fields["expire_at"] = _end_of(self.expiration_date)
        if not fields and self.metadata is None:
            raise InvalidInput("name text, metadata, timestamp or expiration_date to change")
        return fields


class _NamedChange(_Change):
    memory_id: str


class _Named(BaseModel):
    memory_id: str


class _Changes(BaseModel):
    memories: list[_NamedChange] = Field(min_length=1, max_length=1_000)


class _Deletions(BaseModel):
    memories: list[_Named] = Field(min_length=1, max_length=1_000)


class _Place(NamedTuple):
    """Where a memory is; as text it is the id that clients see."""

    key: str
    set_name: str
    item_id: str

    @property
    def id(self) -> str:
        """The id that clients see: it names the key, so that no other index is needed."""
        text = json.dumps(self, ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, memory_id: str) -> _Place:
        """Return the place that an id names.

        Raises:
            NotFound: It names none.
        """
        try:
            padded = memory_id.encode() + b"=" * (-len(memory_id) % 4)
            found: Any = json.loads(base64.b64decode(padded, b"-_", validate=True))
            place = cls(*map(_text, found))
        except (ValueError, TypeError, RecursionError):
            place = None
        if place is None or place.set_name not in SHOWN:
            raise NotFound(f"there is no memory {memory_id!r}")
        return place


def _text(found: object) -> str:
    if not isinstance(found, str) or not found:
        raise ValueError(found)
    return found


# --- who, and where -------------------------------------------------------------------------------


def _space(caller: Caller) -> str:
    return caller.token.space or asked.DEFAULT


def _open(caller: Caller, key: str, access: Access) -> KeyMemory:
    return caller.key(_space(caller), key, access)


def _found(caller: Caller, memory_id: str, access: Access) -> tuple[_Place, MemorySet, Item]:
    """Return a memory, and where it is.

    Raises:
        NotFound: There is none of this id.
    """
    place = _Place.parse(memory_id)
    inside = _open(caller, place.key, access).set(place.set_name)
    item = inside.get(place.item_id)
    if item is None:
        raise NotFound(f"there is no memory {memory_id!r}")
    return place, inside, item


def _keys_of(filters: Where) -> list[str]:
    """Return the keys that a filter names.

    Raises:
        InvalidInput: It names none.
    """
    keys = _ranked_keys(filters)[1]
    if not keys:
        raise InvalidInput(
            f"name whose memories are meant: one of {', '.join(ENTITIES)}; '*' is not served"
        )
    return list(dict.fromkeys(keys))


def _ranked_keys(filters: Where) -> tuple[int, list[str]]:
    """Return the keys that a filter names; of a conjunction, those of its first kind."""
    found: list[tuple[int, list[str]]] = []
    for name, operand in filters.items():
        if name in ENTITIES:
            keys = [each.key for each in _entities(name, operand)]
            found.append((ENTITIES.index(name), keys))
        elif name == "AND":
            found.extend(map(_ranked_keys, _parts(name, operand)))
        elif name == "OR":
            ranked = [*map(_ranked_keys, _parts(name, operand))]
            if not all(keys for _, keys in ranked):
                continue  # one of its branches is for anybody
            found.append((min(rank for rank, _ in ranked), [key for _, ks in ranked for key in ks]))
    none: tuple[int, list[str]] = len(ENTITIES), []
    return min((each for each in found if each[1]), default=none)


def _entities(name: str, operand: object) -> list[Entity]:
    """Return the entities that a part of a filter names."""
    if isinstance(operand, dict):
        only = cast("dict[str, object]", operand)
        operand = only.get("in") if only.keys() == {"in"} else None
    names = cast("list[object]", operand if isinstance(operand, list) and operand else [operand])
    return [Entity(name.removesuffix("_id"), entity_name(name, each)) for each in names]


def _parts(name: str, operand: object) -> list[Where]:
    parts = cast("list[object]", operand if isinstance(operand, list) else [operand])
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise InvalidInput(f"{name} must be a list of filters")
    return cast("list[Where]", parts)


def _where(filters: Where, key: str) -> Where:
    """Return a filter as alveus has it, for the items of one key.

    What names the key itself holds for all of them, whoever wrote them.
    """
    return {"all": [_clause(name, operand, key) for name, operand in filters.items()] or [{}]}


def _clause(name: str, operand: object, key: str) -> Where:
    if name in ENTITIES:
        return _owned_by(name, operand, key)
    if name in ("AND", "OR", "NOT"):
        parts = [_where(part, key) for part in _parts(name, operand)]
        return (
            {"all": parts}
            if name == "AND"
            else {"any": parts}
            if name == "OR"
            else ({"not": {"any": parts}})
        )
    if name == "metadata":
        if not isinstance(operand, dict):
            raise InvalidInput("metadata must be an object of names and values")
        fields = cast("dict[str, object]", operand)
        return {"all": [{_literal(field): value} for field, value in fields.items()] or [{}]}
    if name == "created_at":
        bounds = cast(
            "dict[str, object]", operand if isinstance(operand, dict) else {"eq": operand}
        )
        return {"$time": {operator: _moment(value) for operator, value in bounds.items()}}
    if name in _REFUSED:
        raise InvalidInput(f"memories cannot be filtered by {name!r} here; metadata can")
    return {_literal(name): operand}


def _owned_by(name: str, operand: object, key: str) -> Where:
    """Return the filter of a key's items that belong to entities.

    The key alone says who its own entity is, and that no entity of a kind before that owns an item:
    marks, which any writer of the key may have made, name entities of the kinds after it.
    """
    entities, own = _entities(name, operand), ENTITIES.index(f"{Entity.of_key(key).kind}_id")
    if ENTITIES.index(name) > own:
        return {f"{FIELD}.{name}": {"in": [each.name for each in entities]}}
    return {"all" if key in (each.key for each in entities) else "any": []}


_REFUSED = frozenset({"updated_at", "categories", "keywords", "memory_ids", "feedback"})


def _literal(field: str) -> str:
    """Return the name of a field of metadata as filters have it."""
    escaped = field.replace("\\", "\\\\").replace(".", "\\.")
    is_special = escaped.startswith("$") or escaped in ("any", "all", "not")
    return f"\\{escaped}" if is_special else escaped


def _moment(found: object) -> datetime:
    """Return a time that is seconds since 1970, a date, or ISO 8601."""
    try:
        if isinstance(found, (int, float)):
            return datetime.fromtimestamp(found, UTC)
        if isinstance(found, str):
            read = datetime.fromisoformat(found)
            return read.replace(tzinfo=read.tzinfo or UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidInput(f"a time must be seconds, or ISO 8601, not {found!r}")


def _end_of(day: date | None) -> datetime | None:
    """Return the end of the day on which something is to go."""
    return None if day is None else datetime.combine(day, time_of_day.max, UTC)


# --- what clients see -----------------------------------------------------------------------------


def _shown(key: str, item: Item) -> Document:
    metadata = dict(item.metadata)
    marked: Any = metadata.pop(FIELD, None)  # whoever writes to the key may have written it
    marks: Where = cast("Where", marked) if isinstance(marked, dict) else {}
    owner = Entity.of_key(key)
    beside = ENTITIES[ENTITIES.index(f"{owner.kind}_id") + 1 :]
    value = item.value
    fields: Document = {
        "id": _Place(key, item.set_name or "", item.id or "").id,
        "memory": value if isinstance(value, str) else item.text,
        **dict.fromkeys(ENTITIES),
        **{each: forms.wired(marks.get(each)) for each in beside},
        f"{owner.kind}_id": owner.name,
        "metadata": forms.wired(metadata),
        "categories": [],
    }
    dates = {"created_at": item.time, "updated_at": item.updated, "expiration_date": item.expire_at}
    return fields | {name: day and format_time(day) for name, day in dates.items()}


def _event(key: str, set_name: str, item_id: str, event: str, text: str | None) -> Document:
    return {"id": _Place(key, set_name, item_id).id, "event": event, "memory": text}


@router.get("/v1/ping")
def ping(caller: Asking) -> Document:
    """Say that the key is known; the space is what mem0 calls a project."""
    return {"status": "ok", "org_id": "alveus", "project_id": _space(caller), "user_email": None}


# --- adding ---------------------------------------------------------------------------------------


@router.post("/v3/memories/add")
def add(
    caller: Asking, request: Request, body: _AddBody, idempotency_key: asked.Repeatable = None
) -> Document:
    """Keep messages as they are, or learn facts from them; say what came of it."""
    belongs = _belongs(body.chosen())
    if not belongs:
        raise InvalidInput(f"name the owner of these memories: one of {', '.join(ENTITIES)}")
    first = next(entity for entity in ENTITIES if entity in belongs)
    key = Entity(first.removesuffix("_id"), belongs[first]).key
    memory = _open(caller, key, "write")
    metadata = {**asked.stored(body.metadata or {}), FIELD: belongs}
    # Before facts are learnt, which are marked after that.
    checked(body.model_dump(exclude={"expiration_date"}), where="body")
    time = None if body.timestamp is None else _moment(body.timestamp)
    ends = _end_of(body.expiration_date)
    if body.infer:
        results = answer_once(
            memory.engine,
            Scope(memory.space, memory.key),
            lambda: cast("Value", _learn(memory, request, body, metadata)),
            idempotency_key=idempotency_key,
            plain=["mem0 add", body.model_dump_json()],
        )
        return {"results": results}
    made = [
        Item(
            said.content,
            role=said.role,
            speaker=said.name,
            metadata=metadata,
            time=time,
            expire_at=ends,
        )
        for said in body.messages
    ]
    ids = memory.set("default").add_many(made, idempotency_key=idempotency_key)
    pairs = zip(ids, body.messages, strict=True)
    return {"results": [_event(key, "default", each, "ADD", said.content) for each, said in pairs]}


def _belongs(filters: Where) -> dict[str, str]:
    """Return the names of the entities that new memories belong to."""
    found: dict[str, str] = {}
    for name, operand in filters.items():
        if name == "AND":
            named = [pair for part in _parts(name, operand) for pair in _belongs(part).items()]
        elif name in ENTITIES:
            named = [(name, each.name) for each in _entities(name, operand)]
        else:
            raise InvalidInput(f"filters of new memories are {', '.join(ENTITIES)}, not {name!r}")
        for entity, each in named:
            if found.setdefault(entity, each) != each:
                raise InvalidInput(f"{entity} of new memories must be one name")
    return found


def _learn(memory: KeyMemory, request: Request, body: _AddBody, metadata: Where) -> list[Document]:
    """Learn facts, and mark the new ones with what the client says of them, in one commit."""
    said = [{"role": each.role, "content": each.content} for each in body.messages]
    report = memory.learn(said, model=request.app.state.model)
    given: dict[str, Any] = {}
    if body.timestamp is not None:
        given["time"] = _moment(body.timestamp)
    if body.expiration_date is not None:
        given["expire_at"] = _end_of(body.expiration_date)
    with memory.batch() as batch:
        inside = batch.set(FACTS)
        for fact in report.added:
            item = inside.get(fact.id)
            if item is not None:
                marked = {**metadata, **item.metadata}
                inside.update(fact.id, metadata=marked, **given)
    added = [_event(memory.key, FACTS, fact.id, "ADD", fact.text) for fact in report.added]
    ended = (*report.superseded, *report.taken_back)
    facts = memory.set(FACTS)
    return added + [
        _event(memory.key, FACTS, each, "DELETE", versions[-1].text if versions else None)
        for each in ended
        for versions in [facts.history(each)]
    ]


# --- reading --------------------------------------------------------------------------------------


@router.post("/v3/memories")
def get_all(
    caller: Asking,
    body: _ListBody,
    request: Request,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Document:
    """List memories, the latest first, a page at a time."""
    filters = body.chosen()
    for bound, operator in ((body.start_date, "gte"), (body.end_date, "lte")):
        if bound is not None:
            filters = {"AND": [filters, {"created_at": {operator: bound}}]}
    found = _listed(caller, filters, "read", ended=body.show_expired)
    found.sort(key=lambda each: each[1].time or datetime.max.replace(tzinfo=UTC), reverse=True)
    first, last = (page - 1) * page_size, page * page_size
    return {
        "count": len(found),
        "next": _page_url(request, page + 1, page_size) if last < len(found) else None,
        "previous": _page_url(request, page - 1, page_size) if page > 1 else None,
        "results": [_shown(key, item) for key, item in found[first:last]],
    }


def _page_url(request: Request, page: int, page_size: int) -> str:
    """Return the address of a page, without scheme and host: a proxy may have others."""
    asked = request.url.include_query_params(page=page, page_size=page_size)
    return f"{asked.path}?{asked.query}"


def _listed(
    caller: Caller, filters: Where, access: Access, *, ended: bool
) -> list[tuple[str, Item]]:
    """Return all memories that a filter chooses, each with its key."""
    found: list[tuple[str, Item]] = []
    for key in _keys_of(filters):
        memory, where = _open(caller, key, access), _where(filters, key)
        now = datetime.now(UTC)
        for name in SHOWN:
            items = memory.set(name).list(where=where, valid_at="any" if ended else now)
            found.extend((key, item) for item in items)
    return found


@router.post("/v3/memories/search")
def search(caller: Asking, body: _SearchBody) -> Document:
    """Find memories; the score is alveus's relevance, 0 to 1."""
    filters, limit = body.chosen(), body.limit or body.top_k
    found = [
        (key, hit)
        for key in _keys_of(filters)
        for hit in _open(caller, key, "read").search(
            body.query,
            sets=SHOWN,
            limit=limit,
            where=_where(filters, key),
            min_score=body.threshold,
        )
    ]
    if len({key for key, _ in found}) > 1:  # relevance can be compared across keys, score cannot
        found.sort(key=lambda each: -(each[1].relevance or 0))
    return {
        "results": [_shown(key, hit.item) | {"score": hit.relevance} for key, hit in found[:limit]]
    }


@router.get("/v1/memories/{memory_id:path}/history")
def history(caller: Asking, memory_id: str) -> list[Document]:
    """List what became of a memory, the oldest first, also after it was deleted."""
    place = _Place.parse(memory_id)
    inside = _open(caller, place.key, "read").set(place.set_name)
    versions = inside.history(place.item_id)
    if not versions:
        raise NotFound(f"there is no memory {memory_id!r}")
    rows: list[Document] = []
    old: Item | None = None
    for item in versions:
        if old is None or not (FIELD in item.metadata and FIELD not in old.metadata):
            rows.append(_history_row(place, old, item, "ADD" if old is None else "UPDATE"))
        old = item
    if old is not None and old.retired is not None:
        rows.append(_history_row(place, old, None, "DELETE"))
    return rows


def _history_row(place: _Place, old: Item | None, new: Item | None, event: str) -> Document:
    shown = _shown(place.key, cast("Item", new or old))
    return {
        "id": f"{place.id}:{event}:{new.version if new is not None else 0}",
        "memory_id": place.id,
        "input": [],
        "old_memory": None if old is None else _shown(place.key, old)["memory"],
        "new_memory": None if new is None else shown["memory"],
        "event": event,
        "metadata": shown["metadata"],
        "created_at": shown["created_at"],
        "updated_at": shown["updated_at"],
        **{name: shown[name] for name in ENTITIES},
    }


@router.get("/v1/memories/{memory_id:path}")
def get(caller: Asking, memory_id: str) -> Document:
    """Read a memory."""
    place, _, item = _found(caller, memory_id, "read")
    return _shown(place.key, item)


@router.get("/v1/entities")
def users(caller: Asking) -> Document:
    """List whose memories there are, of those that the token may read."""
    memory = caller.memory(_space(caller), "read")
    found: list[Document] = []
    for key in memory.keys(prefix=caller.token.keys):
        counts = memory.key(key).sets(counts=True)
        total = sum(counts.get(name, 0) for name in SHOWN)
        if total:
            owner = Entity.of_key(key)
            told = {"name": owner.name, "type": owner.kind, "total_memories": total}
            found.append({"id": key, **told})
    return {"count": len(found), "results": found}


# --- changing -------------------------------------------------------------------------------------


@router.put("/v1/memories/{memory_id:path}")
def update(caller: Asking, memory_id: str, body: _Change) -> Document:
    """Change a memory, as a new version."""
    place, inside, item = _found(caller, memory_id, "write")
    changed = inside.update(place.item_id, **cast("Any", _changes(item, body)))
    return _shown(place.key, changed)


def _changes(item: Item, body: _Change) -> dict[str, Any]:
    """Return the fields that change; whom it belongs to stays, and what makes a fact one."""
    fields = body.fields()
    if body.metadata is not None:
        kept = dict(item.metadata) if item.set_name == FACTS else {}
        kept |= {FIELD: item.metadata[FIELD]} if FIELD in item.metadata else {}
        fields["metadata"] = {**asked.stored(body.metadata), **kept}
    return fields


@router.put("/v1/batch")
def batch_update(caller: Asking, body: _Changes) -> Document:
    """Change memories; those of one user are changed in one commit."""
    found = [(_found(caller, each.memory_id, "write"), each) for each in body.memories]
    changes = [(place, _changes(item, each)) for (place, _, item), each in found]
    for key in dict.fromkeys(place.key for place, _ in changes):
        with _open(caller, key, "write").batch() as batch:
            for place, fields in changes:
                if place.key == key:
                    inside = batch.set(place.set_name)
                    inside.update(place.item_id, **cast("Any", fields))
    return {"message": f"Successfully updated {len(changes)} memories"}


@router.delete("/v1/batch")
def batch_delete(caller: Asking, body: _Deletions) -> Document:
    """Retire memories; those of one user in one commit."""
    places = [_found(caller, each.memory_id, "write")[0] for each in body.memories]
    _retire(caller, places)
    return {"message": f"Successfully deleted {len(places)} memories"}


def _retire(caller: Caller, places: Iterable[_Place]) -> None:
    by_key: dict[str, list[_Place]] = {}
    for place in places:
        by_key.setdefault(place.key, []).append(place)
    for key, inside in by_key.items():
        with _open(caller, key, "write").batch() as batch:
            for name in SHOWN:
                ids = [place.item_id for place in inside if place.set_name == name]
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
    """Retire all memories that are chosen; their history stays."""
    named = zip(ENTITIES, (user_id, agent_id, app_id, run_id), strict=True)
    given: Where = {entity: name for entity, name in named if name is not None}
    chosen = given if filters is None else {"AND": [_read_filters(filters), given]}
    found = _listed(caller, chosen, "write", ended=True)
    _retire(caller, [_Place(key, item.set_name or "", item.id or "") for key, item in found])
    return {"message": "Memories deleted successfully!"}


def _read_filters(text: str) -> Where:
    """Return filters of an address: JSON, or, as the client of Python sends them, its literals."""
    found: Any = None
    for read in (json.loads, ast.literal_eval):
        try:
            found = asked.stored(read(text))
            break
        except InvalidInput:
            raise
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue  # TypeError: a set, say, is a literal, and no JSON
    if not isinstance(found, dict):
        raise InvalidInput('filters must be an object, such as {"user_id": "ada"}')
    return cast("Where", found)


@router.delete("/v1/memories/{memory_id:path}")
def delete(
    caller: Asking,
    memory_id: str,
    delete_linked: Literal["false"] | None = None,  # noqa: ARG001 - another value is refused
) -> Document:
    """Retire a memory; its history stays. What it superseded stays ended."""
    place, inside, _ = _found(caller, memory_id, "write")
    inside.delete(place.item_id)
    return {"message": "Memory deleted successfully!"}


@router.delete("/v2/entities/{kind}/{name:path}")
def delete_users(
    caller: Asking, kind: Literal["user", "agent", "app", "run"], name: str
) -> Document:
    """Erase for good what is shown of a user, an agent, an app or a run, with what it came from.

    Other sets of the key, and its exact memory, stay.
    """
    memory = _open(caller, Entity(kind, entity_name(kind, name)).key, "write")
    if not any(memory.sets(counts=True).get(each) for each in (*SHOWN, LEARNED)):
        raise NotFound(f"there is no {kind} {name!r}")
    for each in (LEARNED, *SHOWN):
        memory.set(each).forget(where={})
    return {"message": "Entity deleted successfully!"}
