"""The class `Memory`: it opens a store, returns keys and knowledge, and maintains the store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, tzinfo
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from alveus.embed import Embedder, open_embedder
from alveus.errors import InvalidInput
from alveus.memory.keys import KeyMemory, KnowledgeMemory
from alveus.memory.maintenance import Difference, dimensions_of, reindex, sweep
from alveus.memory.opening import (
    OpenSettings,
    alone,
    checked_names,
    file_of,
    file_path,
    no_engine,
    open_engine,
    open_store,
    refused,
    sqlite_store,
    unsupported,
)
from alveus.memory.prompt import Context, KeyContextRequest, prompt_for
from alveus.search.index import Index
from alveus.sets.admission import plans
from alveus.sets.compaction import Compacted
from alveus.sets.forgetting import Receipt, Scrub, receipt_named, receipts_of, scrub
from alveus.sets.writer import Engine
from alveus.state import Ttl
from alveus.store import CLOCK_STEP_US, SWEEP_AFTER_US, Lease, Scope, Store, StoreStats
from alveus.store.times import AsOf
from alveus.values.events import MemoryEvent
from alveus.values.forks import FORKS, variant_of
from alveus.values.keywords import arguments_of, hints_at, made_by, suggest_names_in
from alveus.values.lazy_dataclass import dataclass
from alveus.values.markup import Html
from alveus.values.storable import (
    DEFAULT_SPACE,
    checked_name,
    checked_prefix,
    checked_progress,
    checked_wait,
    choice,
    counted,
    microseconds,
    moment,
)
from alveus.values.times import Zone
from alveus.values.urls import is_http

if TYPE_CHECKING:
    from alveus.memory.remote.connection import ServerConnection
    from alveus.memory.remote.remote_memory import RemoteKey

KEYS_SHOWN = 10
"""The most keys of a memory that a notebook shows."""


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Figures of a memory and its store.

    Attributes:
        pending: The number of items that wait for their vectors.
        queue_age_s: How long the oldest of these items has waited, in seconds.
        leases: The current leases: which process may run which key.
        cache_bytes: The RAM that the index uses.
        unsealed_sets: The number of large sets that were searched without an index file, so that
            every process builds their index again. A search through a writable memory creates the
            file.
        failure: The last error of the background embedder, or None.
    """

    location: str
    space: str
    knowledge: str
    embedder: str
    store: StoreStats
    pending: int
    queue_age_s: float
    wal_bytes: int
    leases: tuple[Lease, ...]
    cache_bytes: int
    unsealed_sets: int
    failure: str | None


@made_by('Memory.open("app.db")', Engine)
@hints_at(KeyMemory, 'a key has it: memory.key("…")')
@suggest_names_in
class Memory:
    """A store opened for one space, with the memory of its keys and its knowledge.

    Threads may share a memory, and several processes may open the same file. A forked child cannot
    use the memory of its parent and must open the store again. Use a memory in a `with` block, or
    call `close`.
    """

    def __init__(self, engine: Engine, index: Index, *, space: str, knowledge: str) -> None:
        self._engine, self._index = engine, index
        self._space, self._knowledge = space, knowledge
        self._ttl: Ttl | None = None
        self._generation = FORKS.generation

    @classmethod
    @arguments_of(OpenSettings)
    def open(cls, settings: OpenSettings) -> Memory:
        """Open a memory; create its store if it does not exist.

        Args:
            url: A file's path (or ``sqlite:///path``); ``postgresql://user@host/database``;
                ``:memory:`` for RAM only; ``http://host:port`` of an `alveus serve`.
            space: The application's name. Spaces share nothing but knowledge that both name.
            knowledge: The name of the knowledge to share, by default the name of the space.
            embedder: "minilm" (default), "multilingual", "static", "words", the name of another
                optional embedder, or an `Embedder`. The store records a space's embedder.
            model: A language model for summaries. With None, summaries consist of selected
                sentences.
            reranker: Re-ranks the hits of each search and context, unless the call passes another
                ``reranker=``. With None, only calls that pass a re-ranker re-rank.
            mode: "ro" refuses every change and creates nothing.
            durability: With "full", returned commits survive a power loss. "normal" is faster and
                survives only the death of processes.
            wait_s: The longest wait for other writers, in seconds.
            limits: The limits of one key's data.
            short_term_ttl: The default lifetime of short-term values.
            admission: Rules for items that this memory adds to keys' sets without rules.
            cache_bytes: RAM for the index, in addition to the embedder's.
            clock: Returns the time, with a zone; for tests and replays. A `SteadyClock` also
                reports elapsed time, which retention uses.
            timezone: The reader's zone, as a name ("America/New_York"), an offset ("+05:30") or a
                tzinfo. It dates "yesterday" and is used to show dates. None means this
                machine's zone.
            telemetry: Emits traces and metrics of this memory. With None, nothing is emitted.
            token: The token for ``http://``; None means the value of ALVEUS_TOKEN.
            timeout_s: The limit of a call over ``http://`` with its retries, in seconds; None
                stands for 30 s.

        Raises:
            InvalidInput: An argument is invalid, such as an unknown zone.
            EmbedderConflict: The space or the knowledge was written with another embedder.
            AccessDenied, NotAStore, StoreTooNew, StoreTooOld, StoreReadOnly, NotFound, Unsupported:
                The store cannot be opened; the message says why.
        """
        url, mode, timezone = settings.url, settings.mode, settings.timezone
        space, knowledge = checked_names(settings.space, settings.knowledge)
        choice(mode, "mode", "rw", "ro")
        choice(settings.durability, "durability", "full", "normal")
        zone = Zone.of(timezone)
        if is_http(url):
            from alveus.memory.remote.connection import connected

            given = ["knowledge"] if knowledge != space else []
            given += settings.for_stores()
            connection = connected(url, given, space, mode, settings.token, settings.timeout_s)
            return RemoteMemory(connection, space, timezone)
        settings.check()
        rules = plans(settings.admission)
        store = open_store(
            url,
            mode=mode,
            durability=settings.durability,
            wait_s=settings.wait_s,
            shared=settings.telemetry is None,
        )
        try:
            engine, index = open_engine(store, space, knowledge, zone, settings, rules)
            memory = cls(engine, index, space=space, knowledge=knowledge)
            memory._ttl = settings.short_term_ttl
        except BaseException:
            store.close()
            raise
        return memory

    @classmethod
    def restore(
        cls, url: str | os.PathLike[str], backup: str | os.PathLike[str], *, wait_s: float = 10
    ) -> None:
        """Replace the whole content of a store by a backup, atomically.

        Raises:
            NotFound: The backup does not exist.
            NotAStore, StoreTooNew: The file is not a backup, is empty, or has a newer schema.
            StoreDamaged: The backup cannot be read.
            StoreBusy: A process has the store open.
            Unsupported: The store is in RAM, or on a server.
        """
        source = Path(file_path(backup, "the target of a backup must be a path"))
        # Check before `open_store`, which creates a missing store; a missing store needs a full
        # check.
        is_path = isinstance(url, (str, os.PathLike))  # pyright: ignore[reportUnnecessaryIsInstance] - user input
        is_there = is_path and os.path.exists(url)  # noqa: PTH110 - a URL is no path
        from alveus.store.sqlite import SqliteStore

        SqliteStore.check_backup(source, whole=not is_there)
        with closing(open_store(url, wait_s=wait_s)) as store:
            file_of(store, "restore").restore(source)

    @classmethod
    def repair(
        cls,
        url: str | os.PathLike[str],
        *,
        wait_s: float = 10,
        progress: Callable[[int], None] | None = None,
    ) -> list[str]:
        """Rebuild the derived data of a store; return the repairs as sentences.

        Rebuilds search data, counts of sets and files beside the store. Lost or broken vectors are
        queued for the embedder. Items, exact trees, runs and history are never changed.

        Args:
            progress: Called with the number of items checked since the last call.

        Raises:
            NotAStore: The file itself is damaged; `restore` a backup.
            StoreBusy: A process has the store open.
            Unsupported: The store is in RAM, or on a server.
        """
        report = checked_progress(progress, "a number of items")
        with closing(open_store(url, wait_s=wait_s)) as store:
            file = file_of(store, "repair")
            sizes = dimensions_of(file)
            return file.repair(dimensions=sizes, progress=report or (lambda _count: None))

    @classmethod
    def reindex(
        cls,
        url: str | os.PathLike[str],
        *,
        embedder: str | Embedder,
        space: str = DEFAULT_SPACE,
        knowledge: str | None = None,
        wait_s: float = 10,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Change the embedder of a space and its knowledge; return the number of embedded texts.

        Other processes may use the old embedder meanwhile; afterwards their calls raise an error
        that asks to open the memory again. After an interruption a repeated call continues.

        Args:
            wait_s: The longest wait for another re-embedding of this store, and for other writers.
            progress: Called with two numbers: of texts that are done, and of texts in total.

        Raises:
            StoreBusy: Another process re-embedded this store for longer than *wait_s*.
        """
        checked_progress(progress, "two numbers of texts")
        with closing(open_store(url, wait_s=wait_s)) as store, alone(store, wait_s=wait_s):
            space, knowledge = checked_names(space, knowledge)
            opened = open_embedder(embedder)
            return reindex(
                store, space=space, knowledge=knowledge, embedder=opened, progress=progress
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Memory {self._engine.store.location!r} space {self._space!r}>"

    def _repr_html_(self) -> str:
        from alveus.values import html

        return html.drawn(self._html, repr(self))

    def _html(self) -> Html:
        from alveus.values import html

        stats, keys = self.stats(), [*islice(self.keys(), KEYS_SHOWN + 1)]
        counts = [(key, self.key(key).sets(counts=True)) for key in keys[:KEYS_SHOWN]]
        rows = [(key, len(sets), sum(sets.values())) for key, sets in counts]
        notes = ["… and more keys"] if len(keys) > KEYS_SHOWN else []
        if stats.pending:
            notes.append(f"items that wait to be embedded: {stats.pending:,}")
        return html.frame(
            f"Memory {stats.location!r}, space {self._space!r}",
            html.soft(f"embedder {stats.embedder}, knowledge {self._knowledge!r}"),
            html.table(["Key", "Sets", "Items"], rows) if rows else html.soft("no keys yet"),
            notes=notes,
        )

    @property
    def space(self) -> str:
        """The space (the application) of this memory."""
        return self._space

    @property
    def engine(self) -> Engine:
        """The engine of the memory, for packages of alveus that build on it, such as runners."""
        return self._engine

    @property
    def timezone(self) -> str:
        """The reader's zone: a name such as "Europe/Lisbon", or an offset such as "UTC-05:00"."""
        return self._engine.timezone.name(moment(self._engine.clock()))

    def in_timezone(self, timezone: tzinfo | str) -> Self:
        """Return this memory for a reader in another zone. Closing either object closes both.

        Raises:
            InvalidInput: The zone does not exist.
        """
        return variant_of(self, _engine=self._engine.in_zone(Zone.of(timezone)))

    @property
    def short_term_ttl(self) -> Ttl | None:
        """The default lifetime of short-term values."""
        return self._ttl

    @property
    def embedder(self) -> Embedder:
        """The embedder of the space."""
        return self._engine.recorder.embedder

    @property
    def store(self) -> Store:
        """The store of the memory, for tools and runners."""
        return self._engine.store

    def key(self, key: str) -> KeyMemory:
        """Return the memory of one key, such as a user, a session or a device; write nothing."""
        scope = Scope(self._space, checked_name(key, "a key"))
        return KeyMemory(self._engine, scope, ttl=self._ttl)

    @arguments_of(KeyContextRequest)
    def context(self, request: KeyContextRequest) -> Context:
        """Return a prompt for *query* from the memory of *key*; see `Prompts.context`."""
        return prompt_for(self.key(request.key), request)

    @property
    def knowledge(self) -> KnowledgeMemory:
        """The knowledge that this memory shares with other memories of the same knowledge name."""
        return KnowledgeMemory(self._engine, Scope(self._knowledge, None))

    def keys(self, *, prefix: str = "", after: str | None = None) -> Iterator[str]:
        """Return an iterator over the keys of the space, sorted, which reads one page at a time.

        Args:
            prefix: Return only keys with this prefix.
            after: Return only keys after this key, which need not exist.
        """
        last = None if after is None else checked_name(after, "after")
        return self._keys(checked_prefix(prefix), last)

    def _keys(self, prefix: str, after: str | None) -> Iterator[str]:
        while page := self._engine.store.keys(self._space, prefix=prefix, after=after):
            yield from page
            after = page[-1]

    def subscribe(
        self, listener: Callable[[Any], object], *, kinds: Iterable[type[MemoryEvent]] | None = None
    ) -> Callable[[], None]:
        """Subscribe *listener* to memory events of runs; return a function that unsubscribes it.

        Runners of this process call *listener* after their commits, at most once per event, in the
        committing thread. It should be quick and must not wait for a run. Changes outside runs emit
        no events. If *listener* raises, the error is logged and the event is lost.

        Args:
            kinds: The classes of memory events to report, by default all. `RunBeginEvent` is
                emitted only by agents whose `memory_events` ask for it.
        """
        return self._engine.listeners.subscribe(listener, kinds)

    def on_compaction(self, listener: Callable[[Compacted], object]) -> Callable[[], None]:
        """Subscribe *listener* to compactions in this process; return a function that ends this.

        The committing thread calls *listener* after the commit, at most once per compaction.
        *listener* should be quick. If it raises, the error is logged and the event is lost.
        """
        return self._engine.compactions.listeners.subscribe(listener)

    def diff(
        self,
        key: str,
        a: AsOf,
        b: AsOf | None = None,
        *,
        sets: Sequence[str] | None = None,
        tree: Literal["show", "skip"] = "show",
    ) -> Difference:
        """Return the changes in the memory of *key* between two moments; see `KeyMemory.diff`."""
        return self.key(key).diff(a, b, sets=sets, tree=tree)

    # --- care ---------------------------------------------------------------------------------

    def settle(
        self, wait_s: float | None = None, *, progress: Callable[[int], None] | None = None
    ) -> bool:
        """Wait until committed items have vectors and full sets are compacted.

        Return whether this happened in time. Failed compactions are not waited for.

        Args:
            wait_s: The longest wait in seconds; None sets no limit.
            progress: Called with the number of items embedded since the last call.
        """
        checked_wait(wait_s)
        checked_progress(progress, "a number of items")
        began = time.monotonic()
        compacted = self._engine.compactions.worker.settle(wait_s)
        remaining_s = None if wait_s is None else max(0.0, wait_s - (time.monotonic() - began))
        return self._engine.worker.settle(wait_s=remaining_s, progress=progress) and compacted

    def stats(self) -> MemoryStats:
        """Return figures about stored data, waiting work and leases."""
        engine = self._engine
        store = engine.store.stats()
        oldest = store.oldest_pending
        failure, index = engine.worker.failure, self._index.stats()
        return MemoryStats(
            location=engine.store.location,
            space=self._space,
            knowledge=self._knowledge,
            embedder=self.embedder.name,
            store=store,
            pending=store.pending,
            queue_age_s=0.0 if oldest is None else max(0, engine.clock() - oldest) / 1e6,
            wal_bytes=store.wal_bytes,
            leases=tuple(store.leases),
            cache_bytes=index.bytes,
            unsealed_sets=index.unsealed,
            failure=None if failure is None else str(failure),
        )

    def sweep(self) -> int:
        """Delete expired data and data past its retention, and tidy the index.

        Return the number of retired items and deleted rows.

        Expired items are retired. Values of exact trees are deleted a day after they expired.
        Versions that ended longer ago than their set's retention are deleted for good. Reads of the
        present do not change. Writes sweep a file automatically, except for its items. Call this
        method now and then if items expire, if large sets (20,000 items and more) change a lot, or
        if the memory is in RAM. If more than a quarter of the file is free afterwards, the space
        beyond that quarter is returned to the disk.
        """
        self._index.tidy(dimensions=self.embedder.dimensions)
        return sweep(self._engine)

    def shrink(self, *, progress: Callable[[int], None] | None = None) -> int:
        """Sweep, then give all free space back to the disk; return the number of these bytes.

        The work is done in short transactions, with other writes between them. An interrupted call
        loses nothing and keeps its progress.

        Args:
            progress: Called with the number of bytes returned since the last call.

        Raises:
            StoreReadOnly: This user may not delete index files that are no longer needed.
        """
        checked_progress(progress, "a number of bytes")
        file = sqlite_store(self._engine.store)
        if file is not None:
            file.refuse_closed_index()
        self.sweep()
        freed = 0
        while step_bytes := self._engine.store.shrink():
            freed += step_bytes
            if progress is not None:
                progress(step_bytes)
        return freed

    def prune_history(
        self, *, before: datetime, progress: Callable[[int], None] | None = None
    ) -> int:
        """Delete the versions of exact trees from before a time for good; return their number.

        This applies to all keys of the store. Current values stay. History from the last day stays
        too, and history since the start of the oldest unfinished run. Sets have a separate
        retention.

        Args:
            progress: Called with the number of versions deleted since the last call.

        Raises:
            InvalidInput: *before* is in the future, or is past only by a clock that is ahead.
        """
        checked_progress(progress, "a number of versions")
        until, removed = microseconds(before, "before"), 0
        known = self._engine.clock.settle()
        if until > known + CLOCK_STEP_US:
            raise InvalidInput(
                f"before={before} is later than {moment(known)}, the latest time that this "
                "store can confirm; nothing was removed. Set the clock right; if it is right, "
                "try again after a day of use"
            )
        until = min(until, known - SWEEP_AFTER_US)
        after: int | None = 0
        while after is not None:
            done, after = self._engine.store.prune_history(before=until, after=after)
            removed += done
            if progress is not None:
                progress(done)
        return removed

    def forget(
        self,
        key: str,
        *,
        scrub: Scrub | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Erase all data of a key for good. Afterwards no read finds the data, at any moment.

        This erases the key's tree, sets, events, runs with their records, items derived from the
        key's data, and the name of the key. Waiting runs are discarded, and no accepted or finished
        input runs again. The receipt lists the copies that remain and their location. A second call
        changes nothing, and its receipt says so.

        Args:
            scrub: "now" also removes remains in files. "later" leaves this to the method `scrub`.
                None means "now" if the store is under 200 MB, else for "later".
            dry_run: Whether only to count what would be erased.
            idempotency_key: A second call with the same key erases nothing and returns the same
                receipt.

        Raises:
            KeyBusy: A run kept the key busy for `wait_s`.
        """
        of = self.key(key)
        return of.forget(scrub=scrub, dry_run=dry_run, idempotency_key=idempotency_key)

    def scrub(self) -> list[Receipt]:
        """Remove erased data from the files; return the receipts that waited for the removal.

        The store is rewritten, which takes time proportional to its size; writers wait meanwhile. A
        receipt that is still "pending" names the obstacle. A later call continues.
        """
        return scrub(self._engine, self._owners)

    def receipts(self, *, before: int | None = None, limit: int = 100) -> list[Receipt]:
        """Return the receipts of this space and knowledge, latest first.

        Args:
            before: Return only receipts of commits below this number.
        """
        store, most = self._engine.store, counted(limit, "limit", least=0)
        if before is not None:
            counted(before, "before", least=0)
        return receipts_of(store, self._owners, before=before, limit=most)

    def receipt(self, id: str) -> Receipt:
        """Return the receipt with this id.

        Raises:
            NotFound: The receipt does not exist.
        """
        return receipt_named(self._engine.store, id)

    @property
    def _owners(self) -> list[str]:
        return [f"space {self._space}", f"knowledge {self._knowledge}"]

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a consistent copy of the store to *path*; reads and writes continue meanwhile.

        Raises:
            InvalidInput: *path* exists already.
            Unsupported: The store is in RAM, or on a server.
        """
        file = file_of(self._engine.store, "back up")
        target = Path(file_path(path, "the target of a backup must be a path"))
        if os.path.lexists(target):  # a path that is too long fails in the store
            raise InvalidInput(f"{target} already exists; pass another path, or move the file away")
        file.backup(target)

    def close(self) -> None:
        """Stop embedding and compacting, flush, and close the store. A second call does nothing.

        Pending work stays pending. In a forked child, a memory of the parent is closed already.
        """
        if FORKS.is_inherited(self._generation):
            return
        self._engine.store.observer.close()
        self._engine.compactions.worker.close()
        self._engine.worker.close()
        self._index.leave(self._engine.store)
        self._engine.recall.clear()
        self._engine.recent_hits.clear()
        self._engine.store.close()


class RemoteMemory(Memory):
    """A memory behind an alveus server. Threads may share it."""

    def __init__(
        self, connection: ServerConnection, space: str, timezone: tzinfo | str | None
    ) -> None:
        connection.timezone, connection.names_zone = Zone.of(timezone), timezone is not None
        self._connection, self._space, self._knowledge = connection, space, space
        self._engine, self._ttl = no_engine(connection.timezone), None

    def __repr__(self) -> str:
        return f"<Memory {self._connection.address.url!r} space {self._space!r}>"

    @property
    def timezone(self) -> str:
        """See `Memory.timezone`."""
        return self._connection.timezone.name(datetime.now(UTC))

    def in_timezone(self, timezone: tzinfo | str) -> Self:
        """See `Memory.in_timezone`."""
        zone = Zone.of(timezone)
        connection = variant_of(self._connection, timezone=zone, names_zone=True)
        engine = no_engine(connection.timezone)
        return variant_of(self, _connection=connection, _engine=engine)

    def key(self, key: str) -> RemoteKey:
        """See `Memory.key`."""
        from alveus.memory.remote.remote_memory import RemoteKey

        return RemoteKey(self._connection, Scope(self._space, checked_name(key, "a key")))

    @property
    def knowledge(self) -> KnowledgeMemory:
        """See `Memory.knowledge`."""
        from alveus.memory.remote.remote_memory import knowledge_of

        return knowledge_of(self._connection, self._space)

    def _keys(self, prefix: str, after: str | None) -> Iterator[str]:
        from alveus.memory.remote.remote_memory import key_pages

        for page in key_pages(self._connection, self._space, prefix, after):
            yield from page

    def receipts(self, *, before: int | None = None, limit: int = 100) -> list[Receipt]:
        """See `Memory.receipts`. At most the last 1,000 receipts are returned."""
        from alveus.memory.remote.codecs import from_json

        if before is not None:
            raise unsupported("memory.receipts(before=)", "pass limit=, at most 1,000")
        most = counted(limit, "limit", least=0, most=1_000)
        page = self._connection.get("/v1/receipts", space=self._space, limit=max(1, most))
        return [from_json(Receipt, each) for each in page["receipts"][:most]]

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._connection.close()

    @property
    def engine(self) -> NoReturn:
        """Raise `Unsupported`: a memory behind a server has no store here."""
        raise unsupported("memory.engine")

    @property
    def store(self) -> NoReturn:
        """Raise `Unsupported`: a memory behind a server has no store here."""
        raise unsupported("memory.store")

    @property
    def embedder(self) -> NoReturn:
        """Raise `Unsupported`: the server embeds."""
        raise unsupported("memory.embedder", "`alveus serve --embedder` sets the embedder")

    settle = refused(
        "memory.settle", "`partial` of a search result is true while items wait for vectors"
    )
    stats = refused("memory.stats", "request GET /v1/stats")
    sweep = refused("memory.sweep", "the server sweeps its file while it writes")
    shrink = refused("memory.shrink", "run `alveus shrink` on the server's machine")
    backup = refused("memory.backup", "run `alveus backup` on the server's machine")
    prune_history = refused("memory.prune_history")
    scrub = refused("memory.scrub", "run `alveus scrub` on the server's machine")
    receipt = refused("memory.receipt", "request GET /v1/receipts")
    subscribe = refused("memory.subscribe", "subscribe in the process that runs the agent")
    on_compaction = refused("memory.on_compaction", "request GET /v1/compactions")


def unsealed_sets(memory: Memory) -> int:
    """Return `MemoryStats.unsealed_sets` without computing the other figures."""
    return memory._index.stats().unsealed  # noqa: SLF001 - of this file  # pyright: ignore[reportPrivateUsage] - of this file
