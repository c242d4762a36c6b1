"""Functions that open the parts of a memory: its settings, store, embedder and index."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import KW_ONLY, fields
from datetime import datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn, cast

from alveus.embed import Embedder, open_embedder
from alveus.errors import EmbedderConflict, InvalidInput, StoreReadOnly, Unsupported, Unusable
from alveus.errors.short_repr import short_repr
from alveus.llm import ChatModel, Reranker, checked_reranker
from alveus.memory.maintenance import (
    alone_with_file,
    embedder_notes,
    query_prefix_note,
    query_prefix_of,
)
from alveus.search.embedding_worker import EmbeddingWorker
from alveus.search.index import Index
from alveus.search.near_duplicates import Alike
from alveus.search.query import Searcher
from alveus.sets.admission import Rule
from alveus.sets.compaction import Compactions, CompactionTools
from alveus.sets.writer import Engine
from alveus.state import Ttl
from alveus.store import UNFINISHED_NOTE, Limits, Store
from alveus.store.records import RecordMaker
from alveus.store.sets import Plan
from alveus.store.times import DisciplinedClock, elapsed_beside, wall_clock
from alveus.text import Summariser
from alveus.values.ids import new_id
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import DEFAULT_SPACE, checked_kind, checked_name, counted
from alveus.values.times import Zone
from alveus.values.urls import IMMUTABLE_SUFFIX, is_server, path_of_file

if TYPE_CHECKING:
    from alveus.store.postgres import PostgresStore
    from alveus.store.postgres.schema import RoleGrants
    from alveus.store.sqlite import SqliteStore
    from alveus.telemetry import OpenTelemetry

LONGEST_WAIT_S = 366 * 24 * 3600
DEFAULT_EMBEDDER = "minilm"

WAIT_S: float = 10
"""The default limit of the wait for other writers, in seconds."""


CACHE_BYTES = 256 * 1024 * 1024
"""The default RAM limit of the index in bytes. Memory-mapped files do not count."""

_OF_ANY_MEMORY = frozenset({"url", "space", "knowledge", "mode", "timezone", "token", "timeout_s"})


@dataclass(frozen=True, slots=True)
class OpenSettings:
    """The arguments of `Memory.open`."""

    url: str | os.PathLike[str] = ":memory:"
    _: KW_ONLY
    space: str = DEFAULT_SPACE
    knowledge: str | None = None
    embedder: str | Embedder | None = None
    model: ChatModel | None = None
    reranker: Reranker | None = None
    mode: Literal["rw", "ro"] = "rw"
    durability: Literal["full", "normal"] = "full"
    wait_s: float = WAIT_S
    limits: Limits | None = None
    short_term_ttl: Ttl | None = None
    admission: Sequence[Rule | Callable[..., object]] = ()
    cache_bytes: int = CACHE_BYTES
    clock: Callable[[], datetime] | None = None
    timezone: tzinfo | str | None = None
    telemetry: OpenTelemetry | None = None
    token: str | None = None
    timeout_s: float | None = None

    def for_stores(self) -> list[str]:
        """Return the names of passed arguments that a memory behind a server does not accept."""
        return [
            each.name
            for each in fields(self)
            if each.name not in _OF_ANY_MEMORY
            and getattr(self, each.name) not in (each.default, [])
        ]

    def check(self) -> None:
        """Raise `InvalidInput` for settings of servers, and for values that a store cannot use."""
        for name in ("token", "timeout_s"):
            if getattr(self, name) is not None:
                raise InvalidInput(
                    f"{name}= needs the URL of an alveus server, http://host:port; leave it out "
                    "for other memories"
                )
        checked_kind(self.limits, Limits | None, "limits must be a Limits(items=…, bytes=…)")
        checked_kind(self.short_term_ttl, Ttl | None, "short_term_ttl must be a Ttl(after=…)")
        counted(self.cache_bytes, "cache_bytes", least=0)
        checked_reranker(self.reranker)
        if self.telemetry is not None:
            from alveus.telemetry import OpenTelemetry

            checked_kind(self.telemetry, OpenTelemetry, "telemetry must be an OpenTelemetry(…)")


def refuse_for_server_only(**given: object) -> None:
    """Raise `InvalidInput` if an option is passed that applies only to ``http://`` URLs."""
    for name, value in given.items():
        if value is not None:
            raise InvalidInput(
                f"{name}= needs the URL of an alveus server, http://host:port; leave it out for "
                "other memories"
            )


def check_settings(
    limits: object, ttl: object, cache_bytes: object, telemetry: object, reranker: object
) -> None:
    """Raise `InvalidInput` for a setting that would fail only at the first write."""
    if limits is not None and not isinstance(limits, Limits):
        raise InvalidInput(f"limits must be a Limits(items=…, bytes=…), not {short_repr(limits)}")
    if ttl is not None and not isinstance(ttl, Ttl):
        raise InvalidInput(f"short_term_ttl must be a Ttl(after=…), not {short_repr(ttl)}")
    counted(cache_bytes, "cache_bytes", least=0)
    checked_reranker(reranker)
    if telemetry is not None:
        from alveus.telemetry import OpenTelemetry

        if not isinstance(telemetry, OpenTelemetry):
            shown = short_repr(telemetry)
            raise InvalidInput(f"telemetry must be an OpenTelemetry(…), not {shown}")


def open_store(
    url: str | os.PathLike[str],
    *,
    wait_s: float,
    mode: Literal["rw", "ro"] = "rw",
    durability: Literal["full", "normal"] = "full",
    shared: bool = False,
) -> Store:
    """Return the store at a URL or path; create the store if it does not exist.

    Args:
        shared: Whether an SQLite store may share its open file with other handles of this process.
    """
    if type(wait_s) not in (int, float) or not 0 <= wait_s <= LONGEST_WAIT_S:
        raise InvalidInput(
            f"wait_s must be a number of seconds from 0 to a year, not {short_repr(wait_s)}"
        )
    location = file_path(url, "the location of a memory must be a path, a URL, or ':memory:'")
    if location == ":memory:":
        if mode == "ro":
            raise StoreReadOnly(
                "a memory in RAM starts empty, so it cannot be opened read-only; leave out "
                "mode='ro'"
            )
        from alveus.store.ram import RamStore

        return RamStore()
    if is_server(location):
        try:
            from alveus.store.postgres import PostgresStore
        except ImportError as error:
            raise Unsupported(
                f"PostgreSQL needs the package {error.name}, which is not installed; run: "
                "pip install 'alveus[postgres]'"
            ) from None
        return PostgresStore.open(
            location, read_only=mode == "ro", durability=durability, wait_s=wait_s
        )
    from alveus.store.sqlite import SharedStore, SqliteStore

    path = path_of_file(location, is_typed=isinstance(url, str))
    still = path != location and mode == "ro" and path.endswith(IMMUTABLE_SUFFIX)
    return (SharedStore if shared else SqliteStore).open(
        Path(path.removesuffix(IMMUTABLE_SUFFIX) if still else path),
        read_only=mode == "ro",
        durability=durability,
        wait_s=wait_s,
        still=still,
    )


def check_access(store: Store, space: str, knowledge: str) -> None:
    """Raise if the space or the knowledge may not be used in this store.

    Raises:
        AccessDenied: The owner of a server's tables did not grant access to the database user.
        Unusable: The migration into this store is not complete.
    """
    if store.note(UNFINISHED_NOTE) is not None:
        raise Unusable(
            f"{store.location} is an unfinished migration; repeat the same `alveus migrate` to "
            "finish it"
        )
    if is_server(store.location):
        _of_server(store).check_access(space, knowledge)


def _of_server(store: Store) -> PostgresStore:
    from alveus.store.postgres import PostgresStore

    assert isinstance(store, PostgresStore)  # noqa: S101 - the only server store
    return store


def alone(store: Store, *, wait_s: float) -> AbstractContextManager[None]:
    """Return a context manager that holds the lock for re-embedding *store*.

    Only one process at a time can hold the lock. A store in RAM needs no lock.

    Raises:
        StoreBusy: Another process held the lock for longer than *wait_s*.
    """
    if is_server(store.location):
        return _of_server(store).alone("reindex", wait_s=wait_s)
    file = sqlite_store(store)
    return nullcontext() if file is None else alone_with_file(file.folder, wait_s=wait_s)


def sqlite_store(store: Store) -> SqliteStore | None:
    """Return *store* if it is an SQLite store, else None."""
    if "alveus.store.sqlite" not in sys.modules:  # then no SQLite store is open
        return None
    from alveus.store.sqlite import SqliteStore

    return store if isinstance(store, SqliteStore) else None


def file_of(store: Store, purpose: str) -> SqliteStore:
    """Return *store* if it is an SQLite store.

    Args:
        purpose: The intended use of the file, for the message.

    Raises:
        Unsupported: The store is in RAM, or on a server.
    """
    file = sqlite_store(store)
    if file is None:
        raise Unsupported(
            f"{store.location} has no file to {purpose}; for a server use pg_dump and "
            "pg_restore (docs/postgres.md), for a memory in RAM export()"
        )
    return file


def index_for(store: Store, *, dimensions: int, budget_bytes: int) -> Index:
    """Return the index of a store. Handles that share an open file share one index."""
    file = sqlite_store(store)

    def made(finder: Store) -> Index:
        return Index(
            finder,
            folder=file and file.folder / "index",
            salt=store.salt(),
            writable=not store.read_only,
            budget_bytes=budget_bytes,
            in_files=store.location != ":memory:",
        )

    index: Index | None = None
    if file is not None:
        from alveus.store.sqlite import SharedStore

        if isinstance(file, SharedStore):
            index = file.common((Index, dimensions, budget_bytes), made)
    index = made(store) if index is None else index
    index.join(store)
    return index


def schema_version() -> int:
    """Return the newest schema version of store files that this alveus supports."""
    from alveus.store.sqlite.schema import SCHEMA

    return SCHEMA


def file_path(path: object, what: str) -> str:
    """Return *path*, a str or a path object, as a str that can name a file.

    Args:
        what: The beginning of the error message. It says what the path is for.

    Raises:
        InvalidInput: *path* cannot name a file.
    """
    is_path = isinstance(path, str | os.PathLike)
    text: object = os.fspath(cast("str | os.PathLike[str]", path)) if is_path else None
    if type(text) is not str or not text:
        raise InvalidInput(f"{what}, not {short_repr(path)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what}; {short_repr(text)} is not valid UTF-8") from None
    if "\0" in text:
        raise InvalidInput(f"{what}; {short_repr(text)} contains a NUL character")
    return text


def embedder_for(
    store: Store, space: str, knowledge: str, requested: str | Embedder | None
) -> Embedder:
    """Return the embedder of the space, and record its name for the space and the knowledge.

    Args:
        requested: The embedder or its name. None means the recorded embedder, or for
            `DEFAULT_EMBEDDER` if none is recorded. A recorded embedder gets the recorded query
            prefix.

    Raises:
        EmbedderConflict: Another embedder is recorded.
    """
    remembered = {note: store.note(note) for note in embedder_notes(space, knowledge)}
    remembered_name = next((name for name in remembered.values() if name is not None), None)
    chosen = requested if requested is not None else remembered_name or DEFAULT_EMBEDDER
    prefixes = {name: store.note(name) for name in map(query_prefix_note, remembered)}
    is_remembered = type(chosen) is str and chosen == remembered_name
    prefix = next((text for text in prefixes.values() if text), "") if is_remembered else ""
    embedder = open_embedder(chosen, query_prefix=prefix)
    for note in sorted(
        remembered, key=lambda note: remembered[note] is None
    ):  # refuse before recording
        name = remembered[note]
        if name is None and not store.read_only:
            store.put_note(note, embedder.name, expected=None)
            name = store.note(note)  # another process may have recorded its embedder first
        if name is not None and name != embedder.name:
            raise EmbedderConflict(note, asked=embedder.name, found=name)
    prefix = query_prefix_of(embedder)
    for note, text in prefixes.items():
        if prefix != (text or "") and not store.read_only:
            store.put_note(note, prefix, expected=text)
    return embedder


def checked_names(space: str, knowledge: str | None) -> tuple[str, str]:
    """Return the checked names of a space and a knowledge.

    The knowledge None means the knowledge with the name of the space.
    """
    name = checked_name(space, "a space")
    return name, checked_name(space if knowledge is None else knowledge, "a knowledge")


def open_engine(
    store: Store,
    space: str,
    knowledge: str,
    zone: Zone,
    settings: OpenSettings,
    rules: Sequence[Plan] = (),
) -> tuple[Engine, Index]:
    """Return the engine of a memory on *store*, with its index.

    The threads of the engine end when nothing refers to the engine any more, even if it was not
    closed. The threads refer to the store, so the store is garbage-collected after they end. Items
    that wait for vectors are embedded from now on.
    """
    check_access(store, space, knowledge)
    chosen = embedder_for(store, space, knowledge, settings.embedder)
    now = DisciplinedClock(wall_clock(settings.clock), elapsed_beside(settings.clock), store)
    if not store.read_only:
        now.settle()
    expects = tuple((note, chosen.name) for note in embedder_notes(space, knowledge))
    index = index_for(store, dimensions=chosen.dimensions, budget_bytes=settings.cache_bytes)
    file = None if store.read_only else sqlite_store(store)
    worker = EmbeddingWorker(store, chosen, folder=file and file.folder, expects=expects)
    recorder = RecordMaker(chosen)
    tools = CompactionTools(
        store,
        recorder,
        partial(_summariser, None),
        None if settings.model is None else partial(_summariser, settings.model),
        now,
        new_id,
        expects,
        settings.wait_s,
    )
    engine = Engine(
        store=store,
        recorder=recorder,
        recall=Searcher(store, index, chosen, worker, now, expects, reranker=settings.reranker),
        alike=Alike(store, index, dimensions=chosen.dimensions),
        worker=worker,
        compactions=Compactions(tools),
        clock=now,
        limits=settings.limits,
        wait_s=settings.wait_s,
        expects=expects,
        admission=rules,
        knowledge=knowledge,
        timezone=zone,
    )
    if settings.telemetry is not None:
        from alveus.telemetry.memory_telemetry import MemoryTelemetry

        store.observer = MemoryTelemetry(settings.telemetry, store, now)
    for each in (worker, engine.compactions.worker):
        weakref.finalize(engine, each.leave).atexit = False  # at exit Python ends the threads
    if worker.needed and store.pending_vectors(limit=1):
        worker.notify()
    return engine, index


def _summariser(model: ChatModel | None) -> Summariser:
    from alveus.text import ExtractiveSummariser, ModelSummariser

    return ExtractiveSummariser() if model is None else ModelSummariser(model)


# --- access to spaces of a database server --- ---------------------------------------------------


def grant(url: str, role: str, *, space: str, knowledge: str | None = None) -> RoleGrants:
    """Let *role* use a space and the knowledge with the same name. Return all grants of the role.

    A second call does nothing.

    Args:
        knowledge: Let *role* use only this knowledge, and not the space.

    Raises:
        AccessDenied: The user of the URL is not the owner of the tables.
        InvalidInput: The URL is not that of a database server, or the server has no such role.
    """
    with closing(_server_store(url)) as store:
        return store.grant(role, space=space, knowledge=knowledge)


def revoke(url: str, role: str, *, space: str, knowledge: str | None = None) -> RoleGrants:
    """Revoke the access that `grant` gave for the same arguments. Return the role's other grants.

    Raises:
        AccessDenied, InvalidInput: See `grant`.
    """
    with closing(_server_store(url)) as store:
        return store.revoke(role, space=space, knowledge=knowledge)


def grants(url: str) -> list[RoleGrants]:
    """Return the grants of all roles.

    Raises:
        AccessDenied, InvalidInput: See `grant`.
    """
    with closing(_server_store(url)) as store:
        return store.grants()


def _server_store(url: str) -> PostgresStore:
    if not is_server(url):
        raise InvalidInput(
            "users exist only on a server, as in postgresql://…; for a file, set its "
            "permissions: chmod 600 FILE"
        )
    return _of_server(open_store(url, wait_s=WAIT_S))


def empty_engine() -> Engine:
    """Return the engine of an empty memory in RAM."""
    store = open_store(":memory:", wait_s=WAIT_S)
    settings = OpenSettings(embedder="words", cache_bytes=0)
    return open_engine(store, DEFAULT_SPACE, DEFAULT_SPACE, Zone.of(None), settings)[0]


# --- a memory behind a server --------------------------------------------------------------------

INSTEAD = "open the server's file or database, or run it on the server's machine"


def refused(what: str, instead: str = INSTEAD) -> Callable[..., NoReturn]:
    """Return a function that always raises the error of `unsupported`."""

    def refuse(*_args: object, **_options: object) -> NoReturn:
        raise unsupported(what, instead)

    return refuse


def unsupported(what: str, instead: str = INSTEAD) -> Unsupported:
    """Return the error of a call that is not available over HTTP.

    Args:
        what: The name of the call.
        instead: What the user can do instead.
    """
    return Unsupported(f"{what} is not available over HTTP; {instead}")


class _NoStore:
    """A placeholder for an engine; most attributes raise `Unsupported`."""

    def __init__(self, timezone: Zone) -> None:
        self.wait_s, self.timezone = WAIT_S, timezone

    def __getattr__(self, name: str) -> NoReturn:
        """Raise `Unsupported`."""
        raise unsupported(f"a call that needs the store (its {name})")


def no_engine(timezone: Zone) -> Engine:
    """Return a placeholder for the engine of a memory behind a server."""
    return cast("Engine", _NoStore(timezone))
