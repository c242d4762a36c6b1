"""The routes of Anthropic's Memory Stores, served from the memory of alveus.

A store is a key, ``memory_store:ID``. A version of a memory is an item of the set "versions". The
current version is also an item of the set "memories", with the same id. So a version can be erased
alone, and a search of "memories" finds only current versions. Exact memory records which version is
current.
"""

# ruff: noqa: FAST003 - `_requested_store` reads the store of an address

from __future__ import annotations

import hashlib
import json
import unicodedata
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NamedTuple, cast
from uuid import uuid4

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from alveus.errors import CompareFailed, Conflict, InvalidInput, NotFound
from alveus.memory.keys import KeyBatch, KeyMemory
from alveus.server import requests as asked
from alveus.server.answers import ForeignRoute
from alveus.server.callers import Caller
from alveus.server.json_forms import replaced_field
from alveus.server.routes import Asking, Document
from alveus.server.tokens import Access
from alveus.store.items import Item
from alveus.values.ids import Kind, identity_key
from alveus.values.storable import REPLACED
from alveus.values.times import format_time

KIND: Kind = "memory_store"
"""The identity kind of a store: the part of its key before the id."""

STORE = "memory_store"
"""The object in a key's exact memory that holds the store's description, the ids of its current
versions and its number of writes.
"""

MEMORIES, VERSIONS, REDACTIONS = "memories", "versions", "redactions"

MOST_SEGMENTS, LONGEST_PATH, LARGEST_CONTENT, MOST_PAIRS = 20, 1_024, 102_400, 16

FULL_PAGE = 20
"""The most rows of a page that shows contents."""

STATUS = {412: 409}
"""A failed precondition is a conflict in this protocol."""

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    410: "not_found_error",
    413: "request_too_large",
}


class _StoresRoute(ForeignRoute):
    """A route that returns errors in the form of Anthropic's protocol."""

    def refusal(self, status: int, message: str, headers: Mapping[str, str]) -> Response:
        """See `ForeignRoute.refusal`."""
        status = STATUS.get(status, status)
        answer = {"type": TYPES.get(status, "api_error"), "message": message}
        return JSONResponse({"type": "error", "error": answer}, status, headers)


router = APIRouter(prefix="/v1/memory_stores", route_class=_StoresRoute, include_in_schema=False)

View = Literal["basic", "full"]
Count = Annotated[int, Query(ge=1, le=100)]


class _StoreBody(asked.ValidTexts):
    TEXTS = ("name", "description", "metadata")
    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, min_length=1, max_length=255)
    description: str | None = Field(None, max_length=1_024)
    metadata: dict[str, str | None] | None = None


class _NewMemory(asked.ValidTexts):
    TEXTS = ("content",)
    model_config = ConfigDict(extra="forbid")

    path: str
    content: str


class _Precondition(BaseModel):
    type: Literal["content_sha256"]
    content_sha256: str


class _ChangedMemory(asked.ValidTexts):
    TEXTS = ("content",)
    model_config = ConfigDict(extra="forbid")

    path: str | None = None
    content: str | None = None
    precondition: _Precondition | None = None


class _Store(NamedTuple):
    """The store of a request."""

    id: str
    key: KeyMemory
    actor: str

    @classmethod
    def at(cls, caller: Caller, store_id: str, access: Access) -> _Store:
        """Return the store that has this id, even if it does not exist.

        The id must begin with the prefix of the token's keys.
        """
        memory = caller.memory(caller.token.space or asked.DEFAULT, access)
        caller.token.check_key(store_id)
        return cls(store_id, memory.key(identity_key(KIND, store_id)), caller.token.name)

    @property
    def about(self) -> Mapping[str, Any] | None:
        """The description of the store, or None if the store does not exist."""
        return _about(self.key)

    def now(self) -> str:
        """Return the present time of the memory's clock as text."""
        return format_time(datetime.fromtimestamp(self.key.engine.clock() / 1e6, UTC))

    def item(self, memory_id: str) -> Item:
        """Return the item with the current version of a memory.

        Raises:
            NotFound: The memory does not exist.
        """
        return _current(self.key, memory_id)

    def write(self, change: Callable[[KeyBatch, Mapping[str, Any]], object]) -> None:
        """Commit a change of the store. Concurrent changes take effect one after the other.

        Args:
            change: Called with the batch to write in, and with the description of the store.

        Raises:
            NotFound: The store was deleted meanwhile.
        """

        def alone(batch: KeyBatch) -> None:
            about = _about(batch)
            if about is None:
                raise self.missing()
            batch.short_term.increment((STORE, "writes"))
            change(batch, about)

        self.key.commit(alone)

    def missing(self) -> NotFound:
        """Return the error of a missing store."""
        return NotFound(f"there is no store {self.id!r}")

    def check_open(self, about: Mapping[str, Any]) -> None:
        """Raise `InvalidInput` if the store is archived."""
        if about.get("archived_at"):
            raise InvalidInput(f"store {self.id!r} is archived; it can only be read or deleted")


def _about(key: KeyMemory | KeyBatch) -> Mapping[str, Any] | None:
    found = key.short_term.get((STORE, "about"), None)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else None


def _current(key: KeyMemory | KeyBatch, memory_id: str) -> Item:
    version = key.short_term.get((STORE, "current", memory_id), None)
    found = key.set(MEMORIES).get(version) if isinstance(version, str) else None
    return _present(found, memory_id)


def _present(item: Item | None, name: str) -> Item:
    if item is None:
        raise NotFound(f"there is no {name!r} in this store")
    return item


class _RequestedStore(NamedTuple):
    """The store that a request names. The caller's access is not checked yet."""

    caller: Asking
    store_id: str

    def open(self, access: Access) -> _Store:
        """Return the store, if the caller's token allows *access*.

        Raises:
            AccessDenied: The token does not allow it.
            NotFound: The store does not exist.
        """
        store = _Store.at(self.caller, self.store_id, access)
        if store.about is None:
            raise store.missing()
        return store


async def _requested_store(caller: Asking, store_id: str) -> _RequestedStore:
    return _RequestedStore(caller, store_id)


AtStore = Annotated[_RequestedStore, Depends(_requested_store)]


# --- stores ---------------------------------------------------------------------------------------


@router.post("")
def create_store(caller: Asking, body: _StoreBody) -> Document:
    """Create a store. Its id begins with the prefix of the token's keys."""
    if body.name is None:
        raise InvalidInput("body.name: a store needs a name")
    store = _Store.at(caller, f"{caller.token.keys}memstore_{uuid4().hex}", "write")
    now = store.now()
    answer: dict[str, Any] = {
        "description": "",
        "metadata": {},
        "created_at": now,
        "archived_at": None,
    }
    store.key.short_term.set((STORE, "about"), _changed(answer, body, now))
    return _shown_store(store) | replaced_field(body.replaced)


@router.get("")
def list_stores(
    caller: Asking,
    limit: Count = 20,
    page: str | None = None,
    include_archived: bool = False,  # noqa: FBT001, FBT002 - a parameter of a request
    created_at_gte: Annotated[datetime | None, Query(alias="created_at[gte]")] = None,
    created_at_lte: Annotated[datetime | None, Query(alias="created_at[lte]")] = None,
) -> Document:
    """List the stores that the token may use, latest first."""
    memory = caller.memory(caller.token.space or asked.DEFAULT, "read")
    keys = memory.keys(prefix=identity_key(KIND, caller.token.keys))
    ids = (key.removeprefix(identity_key(KIND, "")) for key in keys)
    stores = (_Store.at(caller, store_id, "read") for store_id in ids)
    shown = [_shown_store(store) for store in stores if store.about is not None]
    shown = [
        each
        for each in shown
        if (include_archived or each["archived_at"] is None)
        and _is_between(each["created_at"], created_at_gte, created_at_lte)
    ]
    return _paged(shown, page, limit, order="latest")


@router.get("/{store_id}")
def read_store(at: AtStore) -> Document:
    """Read the description of a store."""
    return _shown_store(at.open("read"))


@router.post("/{store_id}")
def change_store(at: AtStore, body: _StoreBody) -> Document:
    """Change the description of a store. Omitted fields keep their values."""
    store = at.open("write")

    def change(batch: KeyBatch, about: Mapping[str, Any]) -> None:
        store.check_open(about)
        batch.short_term.set((STORE, "about"), _changed(about, body, store.now()))

    store.write(change)
    return _shown_store(store) | replaced_field(body.replaced)


@router.delete("/{store_id}")
def delete_store(at: AtStore) -> Document:
    """Erase a store with all its contents for good."""
    at.open("write").key.forget()
    return {"id": at.store_id, "type": "memory_store_deleted"}


@router.post("/{store_id}/archive")
def archive_store(at: AtStore) -> Document:
    """Archive a store: from now on it can only be read and deleted."""
    store = at.open("write")

    def change(batch: KeyBatch, about: Mapping[str, Any]) -> None:
        if about.get("archived_at") is None:
            now = store.now()
            batch.short_term.set((STORE, "about"), {**about, "archived_at": now, "updated_at": now})

    store.write(change)
    return _shown_store(store)


def _changed(answer: Mapping[str, Any], body: _StoreBody, now: str) -> dict[str, Any]:
    """Return the description *answer* of a store, changed as *body* asks.

    A metadata name whose value is null is removed.
    """
    metadata = {**answer["metadata"], **(body.metadata or {})}
    metadata = {name: value for name, value in metadata.items() if value is not None}
    if len(metadata) > MOST_PAIRS:
        raise InvalidInput(f"body.metadata: a store has at most {MOST_PAIRS} pairs")
    changed = {**answer, "metadata": metadata, "updated_at": now}
    for name in ("name", "description"):
        if (value := getattr(body, name)) is not None:
            changed[name] = value
    return changed


def _shown_store(store: _Store) -> Document:
    return {"id": store.id, "type": "memory_store", **(store.about or {})}


# --- memories -------------------------------------------------------------------------------------


@router.post("/{store_id}/memories")
def create_memory(at: AtStore, body: _NewMemory, view: View = "basic") -> Document:
    """Create a memory with a text, at a path that no other memory has."""
    store, memory_id = at.open("write"), f"mem_{uuid4().hex}"
    path, content = _checked_path(body.path), _checked_content(body.content)

    def change(batch: KeyBatch, about_store: Mapping[str, Any]) -> None:
        store.check_open(about_store)
        _check_free(batch, path)
        version = _add_version(batch, store, "created", memory_id, path, content)
        about = {"path": path, "memory": memory_id, "created_at": store.now()}
        about |= replaced_field(body.replaced)
        batch.set(MEMORIES).add(Item(content, id=version, metadata=about))
        batch.short_term.set((STORE, "current", memory_id), version)

    store.write(change)
    return _shown_memory(at.store_id, store.item(memory_id), view)


@router.get("/{store_id}/memories")
def list_memories(
    at: AtStore,
    path_prefix: str = "/",
    depth: Annotated[int, Query(ge=0, le=1)] = 0,
    limit: Count = 20,
    page: str | None = None,
    view: View = "basic",
) -> Document:
    """List memories, sorted by path. With depth 1, subfolders appear instead of their memories."""
    if not (path_prefix.startswith("/") and path_prefix.endswith("/")):
        raise InvalidInput(f"path_prefix must begin and end with a slash, not {path_prefix!r}")
    shown: dict[str, Document] = {}
    for item in at.open("read").key.set(MEMORIES).list():
        path = str(item.metadata["path"])
        if path.startswith(path_prefix):
            head, slash, _ = path[len(path_prefix) :].partition("/")
            if depth and slash:
                folder = f"{path_prefix}{head}/"
                shown[folder] = {"type": "memory_prefix", "path": folder}
            else:
                shown[path] = _shown_memory(at.store_id, item, view)
    return _paged([*shown.values()], page, _most(limit, view), order="path")


@router.get("/{store_id}/memories/{memory_id}")
def read_memory(at: AtStore, memory_id: str, view: View = "full") -> Document:
    """Read a memory."""
    return _shown_memory(at.store_id, at.open("read").item(memory_id), view)


@router.post("/{store_id}/memories/{memory_id}")
def change_memory(
    at: AtStore, memory_id: str, body: _ChangedMemory, view: View = "basic"
) -> Document:
    """Change the text or the path of a memory.

    If the request names the digest of an expected text, the memory must still have this text.
    """
    store = at.open("write")
    new_path = None if body.path is None else _checked_path(body.path)
    new_content = None if body.content is None else _checked_content(body.content)
    expected = None if body.precondition is None else body.precondition.content_sha256

    def change(batch: KeyBatch, about_store: Mapping[str, Any]) -> None:
        store.check_open(about_store)
        item = _current(batch, memory_id)
        _check_digest(item, expected)
        old_path = str(item.metadata["path"])
        path = old_path if new_path is None else new_path
        content = str(item.value) if new_content is None else new_content
        if (path, content) == (old_path, item.value):
            return
        if path != old_path:
            _check_free(batch, path)
        version = _add_version(batch, store, "modified", memory_id, path, content)
        about = {**item.metadata, "path": path} | replaced_field(body.replaced)
        inside = batch.set(MEMORIES)
        inside.delete(cast("str", item.id))
        inside.add(Item(content, id=version, metadata=about))
        batch.short_term.set((STORE, "current", memory_id), version)

    store.write(change)
    return _shown_memory(at.store_id, store.item(memory_id), view)


@router.delete("/{store_id}/memories/{memory_id}")
def delete_memory(
    at: AtStore, memory_id: str, expected_content_sha256: str | None = None
) -> Document:
    """Delete a memory. Its versions stay, and a new version records the deletion."""
    store = at.open("write")

    def change(batch: KeyBatch, _: Mapping[str, Any]) -> None:
        item = _current(batch, memory_id)
        _check_digest(item, expected_content_sha256)
        _add_version(batch, store, "deleted", memory_id, str(item.metadata["path"]), None)
        batch.set(MEMORIES).delete(cast("str", item.id))
        batch.short_term.delete((STORE, "current", memory_id))

    store.write(change)
    return {"id": memory_id, "type": "memory_deleted"}


def _check_free(batch: KeyBatch, path: str) -> None:
    if batch.set(MEMORIES).list(where={"path": path}, limit=1):
        raise Conflict(
            f"there is already a memory at {path!r}; change that memory, or pass another path"
        )


def _check_digest(item: Item, expected: str | None) -> None:
    if expected is not None and _digest(str(item.value)) != expected:
        raise CompareFailed(str(item.metadata["path"]))


def _checked_path(path: str) -> str:
    segments = path.split("/")[1:]
    is_clean = not any(
        unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in path
    )
    if not (
        path.startswith("/")
        and is_clean
        and 1 <= len(segments) <= MOST_SEGMENTS
        and not any(segment in ("", ".", "..") for segment in segments)
        and unicodedata.is_normalized("NFC", path)
        and len(path.encode()) <= LONGEST_PATH
    ):
        raise InvalidInput(
            f"body.path: a path must be like /notes/todo.md, with at most {MOST_SEGMENTS} names "
            f"and {LONGEST_PATH:,} bytes, in normal form C, without control characters"
        )
    return path


def _checked_content(content: str) -> str:
    if len(content.encode()) > LARGEST_CONTENT:
        raise InvalidInput(f"body.content: a memory has at most {LARGEST_CONTENT:,} bytes")
    return content


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def _shown_memory(store_id: str, item: Item, view: View) -> Document:
    content = str(item.value)
    return {
        "id": item.metadata["memory"],
        "type": "memory",
        "memory_store_id": store_id,
        "memory_version_id": item.id,
        "path": item.metadata["path"],
        **_sized(content, view),
        "created_at": item.metadata["created_at"],
        "updated_at": format_time(cast("datetime", item.created)),
        **replaced_field(cast("int", item.metadata.get(REPLACED, 0))),
    }


def _sized(content: str | None, view: View) -> Document:
    return {
        "content": content if view == "full" else None,
        "content_sha256": None if content is None else _digest(content),
        "content_size_bytes": None if content is None else len(content.encode()),
    }


# --- versions -------------------------------------------------------------------------------------


def _add_version(
    batch: KeyBatch, store: _Store, operation: str, memory_id: str, path: str, content: str | None
) -> str:
    """Add a version to a batch, and return its id."""
    version_id = f"memver_{uuid4().hex}"
    about = {"memory": memory_id, "operation": operation, "by": store.actor}
    value = {"path": path, "content": content}
    batch.set(VERSIONS).add(Item(value, id=version_id, text=operation, metadata=about))
    return version_id


@router.get("/{store_id}/memory_versions")
def list_versions(  # noqa: PLR0913, PLR0917 - as the protocol has it
    at: AtStore,
    memory_id: str | None = None,
    operation: Literal["created", "modified", "deleted"] | None = None,
    api_key_id: str | None = None,
    session_id: str | None = None,
    service_account_id: str | None = None,
    created_at_gte: Annotated[datetime | None, Query(alias="created_at[gte]")] = None,
    created_at_lte: Annotated[datetime | None, Query(alias="created_at[lte]")] = None,
    limit: Count = 20,
    page: str | None = None,
    view: View = "basic",
) -> Document:
    """List versions, latest first. The API key id of a token is the token's name."""
    asked_for = {"memory": memory_id, "operation": operation, "by": api_key_id}
    where = {name: value for name, value in asked_for.items() if value is not None}
    key = at.open("read").key
    # A redaction adds a mark before it erases the item. Items are read before marks here, so that
    # a version which is being redacted is found as one of the two.
    live = {item.id: item for item in key.set(VERSIONS).list(where=where)}
    redacted = {item.id: item for item in key.set(REDACTIONS).list(where=where)}
    shown = [
        _shown_version(at.store_id, live.get(each), redacted.get(each), view)
        for each in live | redacted
    ]
    if session_id is not None or service_account_id is not None:
        shown = []  # sessions and service accounts write nothing here
    shown = [
        each for each in shown if _is_between(each["created_at"], created_at_gte, created_at_lte)
    ]
    return _paged(shown, page, _most(limit, view), order="latest")


@router.get("/{store_id}/memory_versions/{version_id}")
def read_version(at: AtStore, version_id: str, view: View = "full") -> Document:
    """Read a version."""
    return _read_version(at.open("read"), at.store_id, version_id, view)


@router.post("/{store_id}/memory_versions/{version_id}/redact")
def redact_version(at: AtStore, version_id: str) -> Document:
    """Erase the content of a version for good. The record of the version stays."""
    store = at.open("write")
    item = store.key.set(VERSIONS).get(version_id)
    if item is not None:
        if store.key.set(MEMORIES).get(version_id) is not None:
            raise InvalidInput(
                f"{version_id!r} is the current version of memory {item.metadata['memory']!r}; "
                "change or delete that memory first"
            )
        if store.key.set(REDACTIONS).get(version_id) is None:
            created = format_time(cast("datetime", item.created))
            about = {**item.metadata, "created_at": created, "redacted_by": store.actor}
            mark = Item(None, id=version_id, text="redacted", metadata=about)
            store.write(lambda batch, _: batch.set(REDACTIONS).add(mark, on_existing="keep"))
        for name in (MEMORIES, VERSIONS):
            store.key.set(name).forget(version_id)
    return _read_version(store, at.store_id, version_id, "full")


def _read_version(store: _Store, store_id: str, version_id: str, view: View) -> Document:
    live = store.key.set(VERSIONS).get(version_id)
    redacted = store.key.set(REDACTIONS).get(version_id)
    _present(live or redacted, version_id)
    return _shown_version(store_id, live, redacted, view)


def _shown_version(store_id: str, live: Item | None, redacted: Item | None, view: View) -> Document:
    item = cast("Item", redacted or live)
    value = cast("Mapping[str, Any]", item.value or {"path": None, "content": None})
    by = item.metadata.get("redacted_by")
    created = item.metadata.get("created_at") or format_time(cast("datetime", item.created))
    return {
        "id": item.id,
        "type": "memory_version",
        "memory_id": item.metadata["memory"],
        "memory_store_id": store_id,
        "operation": item.metadata["operation"],
        "path": value["path"],
        **_sized(value["content"], view),
        "created_at": created,
        "created_by": _actor(item.metadata["by"]),
        "redacted_at": None if by is None else format_time(cast("datetime", item.created)),
        "redacted_by": None if by is None else _actor(by),
    }


def _actor(name: object) -> Document:
    return {"type": "api_actor", "api_key_id": name}


# --- pages ----------------------------------------------------------------------------------------


def _most(limit: int, view: View) -> int:
    return min(limit, FULL_PAGE) if view == "full" else limit


def _is_between(time: str, first: datetime | None, last: datetime | None) -> bool:
    if any(each is not None and each.tzinfo is None for each in (first, last)):
        raise InvalidInput("a time must have a zone, such as 2026-05-01T00:00:00Z")
    moment = datetime.fromisoformat(time)
    return (first is None or moment >= first) and (last is None or moment <= last)


_ORDERS: Mapping[str, tuple[str, ...]] = {"path": ("path",), "latest": ("created_at", "id")}
"""The fields by which each order sorts rows."""


def _paged(
    rows: Sequence[Document], page: str | None, limit: int, *, order: Literal["path", "latest"]
) -> Document:
    """Return one page of rows, and the token of the next page.

    Args:
        page: The token of the page, which names the last row of the page before. None means the
            first page. The named row may have been deleted, as when a client deletes the rows of
            each page that it reads.
    """

    def position(row: Document) -> list[str]:
        return [row[name] for name in _ORDERS[order]]

    rest = sorted(rows, key=position, reverse=order == "latest")
    if page is not None:
        last = _position_named(page, len(_ORDERS[order]))
        rest = [
            row
            for row in rest
            if (position(row) < last if order == "latest" else position(row) > last)
        ]
    shown = rest[:limit]
    mark = None
    if len(rest) > limit:
        mark = urlsafe_b64encode(json.dumps(position(shown[-1])).encode()).decode()
    return {"data": shown, "next_page": mark}


def _position_named(page: str, names: int) -> list[str]:
    """Return the sort fields in the token *page*: those of the last row of the page before.

    Args:
        names: The number of sort fields.

    Raises:
        InvalidInput: *page* is not a token that an answer named as its ``next_page``.
    """
    try:
        found: Any = json.loads(urlsafe_b64decode(page.encode()))
    except (ValueError, RecursionError):
        found = None
    if not (
        isinstance(found, list)
        and len(cast("list[object]", found)) == names
        and all(isinstance(name, str) for name in cast("list[object]", found))
    ):
        raise InvalidInput("page must be the next_page of an answer; leave it out to begin again")
    return cast("list[str]", found)
