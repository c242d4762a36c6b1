"""Maintenance of a memory: differences between moments, pruning, forgetting, re-embedding."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, cast

from alveus.embed import Embedder, embed_quantised, open_embedder
from alveus.errors import Conflict, EmbedderMissing, InvalidInput, StaleItem, StoreBusy
from alveus.errors.short_repr import short_repr
from alveus.search.embedding_worker import note_of
from alveus.sets.writer import Engine
from alveus.state import DottedPath
from alveus.store import (
    MAX_SWEPT_VERSIONS,
    Batch,
    ItemChange,
    Ledger,
    PendingVectors,
    Retire,
    Scope,
    SetInfo,
    Store,
    StoredItem,
)
from alveus.store.files import give_to_owner
from alveus.store.items import Item
from alveus.store.records import item_of, text_to_embed
from alveus.store.scope import is_hidden
from alveus.store.times import FOREVER, AsOf, Moment, check_set, check_tree, expired, moment_of
from alveus.values import wire
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import Path as TreePath
from alveus.values.storable import Value, checked_name, moment

Kind: TypeAlias = Literal["added", "removed", "changed"]

PAGE = 1_000


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """A path of the exact tree whose value changed.

    Attributes:
        kind: Whether the value was added, removed or changed.
        before: The earlier value: an empty dict if it was an empty object, None if there was none.
        after: The later value, in the same form.
    """

    kind: Kind
    path: DottedPath
    before: Value
    after: Value


@dataclass(frozen=True, slots=True)
class ChangedItem:
    """An item that was added or deleted, or whose content changed.

    Attributes:
        before: The item at the earlier moment, or None if it did not exist.
        after: The item at the later moment, or None if it did not exist.
    """

    kind: Kind
    set_name: str
    id: str
    before: Item | None
    after: Item | None


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes in the memory of a key between two moments; falsy if nothing changed.

    Attributes:
        since, until: The numbers of the last commits at the earlier and at the later moment.
        since_time, until_time: The times of the two moments; None if before the first commit.
        tree: The changes of the exact tree, ordered by path.
        items: The changed items, ordered by set, then by id.
    """

    key: str
    since: int
    until: int
    since_time: datetime | None
    until_time: datetime | None
    tree: tuple[ChangedValue, ...]
    items: tuple[ChangedItem, ...]

    def __bool__(self) -> bool:
        """Return whether anything changed."""
        return bool(self.tree or self.items)


def difference(
    engine: Engine, scope: Scope, a: AsOf, b: AsOf | None, sets: Sequence[str] | None, *, tree: bool
) -> Difference:
    """Return the changes in *scope* from the moment *a* to the moment *b*.

    Args:
        b: The later moment; None means now.
        sets: The names of the sets to compare; None means all sets.
        tree: Whether to compare the exact tree.

    Raises:
        HistoryPruned: The state of one of the moments is no longer kept.
    """
    store, now = engine.store, engine.clock()
    since = moment_of(store, a, now=now, what="a")
    present = Moment(store.commit_at(FOREVER), now)
    until = present if b is None else moment_of(store, b, now=now, what="b")
    return Difference(
        key=scope.key or "",
        since=since.commit,
        until=until.commit,
        since_time=moment(since.time) if since.time else None,
        until_time=moment(until.time) if until.time else None,
        tree=tuple(_tree(store, scope, since, until)) if tree else (),
        items=tuple(_items(store, _chosen(store, scope, sets), since, until)),
    )


def set_names(sets: object) -> list[str]:
    """Return *sets* as a list, if it is a list or tuple of valid names of sets.

    Raises:
        InvalidInput: *sets* is not such a list.
    """
    if not isinstance(sets, (list, tuple)):
        raise InvalidInput(f"sets must be a list of names, not {short_repr(sets)}")
    return [checked_name(name, "a set's name") for name in cast("Sequence[object]", sets)]


def _chosen(store: Store, scope: Scope, sets: Sequence[str] | None) -> list[SetInfo]:
    infos = store.set_infos(scope)
    if sets is None:
        return [info for info in infos if not is_hidden(info.ref)]
    names = set_names(sets)
    return [info for info in infos if info.ref.name in names]


# --- the exact tree


def _tree(store: Store, scope: Scope, a: Moment, b: Moment) -> Iterator[ChangedValue]:
    for each in (a, b):
        check_tree(store, scope, each)
    before, after = _values(store, scope, a), _values(store, scope, b)
    for path in sorted(before.keys() | after.keys()):
        was, found = before.get(path), after.get(path)
        kind: Kind = "changed"
        if path not in before or path not in after:
            kind = "added" if path in after else "removed"
        elif wire.encode(was) == wire.encode(found):  # NaN equals itself, and 1 differs from 1.0
            continue
        shown = path if any("." in name for name in path) else ".".join(path)
        yield ChangedValue(kind, shown, was, found)


def _values(store: Store, scope: Scope, at: Moment) -> dict[TreePath, Value]:
    """Return the values of a tree by path. An empty object is an empty dict."""
    found: dict[TreePath, Value] = {}
    stack: list[TreePath] = [()]
    while stack:
        path = stack.pop()
        fields = store.children(scope, path, at=at.commit, now=at.time)
        if not fields and path:
            found[path] = {}
        for name, node in fields:
            if node.is_object:
                stack.append((*path, name))
            else:
                found[*path, name] = node.value
    return found


# --- sets


def _items(store: Store, infos: Sequence[SetInfo], a: Moment, b: Moment) -> Iterator[ChangedItem]:
    for info in infos:
        for each in (a, b):
            check_set(store, info.ref, each)
        before, after = _live(store, info, a), _live(store, info, b)
        for item_id in sorted(before.keys() | after.keys()):
            was, found = before.get(item_id), after.get(item_id)
            kind: Kind = "added" if was is None else "removed" if found is None else "changed"
            if was is not None and found is not None:
                is_later = was.row != found.row
                if not is_later or (was.first == found.first and was.record == found.record):
                    continue
            items = [stored and item_of(stored) for stored in (was, found)]
            yield ChangedItem(kind, info.ref.name, item_id, *items)


def _live(store: Store, info: SetInfo, at: Moment) -> dict[str, StoredItem]:
    """Return the live items of a set at a moment, by id."""
    found: dict[str, StoredItem] = {}
    after: tuple[int, int] | None = None
    while page := store.page(info.ref, after=after, limit=PAGE, at=at.commit):
        found.update((s.record.id, s) for s in page if not expired(s.record, at.time))
        last = page[-1]
        after = (last.updated if last.record.time is None else last.record.time, last.first)
    return found


BATCH = 64

STAGING = "staging"
"""The name of the store's note that says for which embedder vectors are staged."""

POLL_S = 0.02


def embedder_notes(space: str, knowledge: str) -> tuple[str, str]:
    """Return the names of the notes that record the embedder of a space and of a knowledge."""
    return note_of(Scope(space, "a key")), note_of(Scope(knowledge, None))


def query_prefix_note(note: str) -> str:
    """Return the name of the note with the query prefix of an embedder.

    The prefix is not part of the embedder's name, because it does not change vectors of texts.

    Args:
        note: The name of the note with the embedder's name.
    """
    return f"query prefix of {note.removeprefix('embedder of ')}"


def query_prefix_of(embedder: Embedder) -> str:
    """Return the prefix that an embedder puts before queries, or "" if it puts none."""
    return str(getattr(embedder, "query_prefix", ""))


@contextmanager
def alone_with_file(folder: Path, *, wait_s: float) -> Generator[None]:
    """Hold the lock for re-embedding the store with this folder, during a `with` block.

    Two processes that re-embed at the same time would mix their vectors. The kernel releases the
    lock however the process ends.

    Raises:
        StoreBusy: Another process held the lock for longer than *wait_s*. The message names the
            process.
    """
    deadline = time.monotonic() + wait_s
    lock = os.open(folder / "reindex", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        give_to_owner(folder / "reindex", folder)
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
                    raise StoreBusy(
                        f"process {holder} is embedding {str(folder).removesuffix('.alveus')} "
                        "again; try again when that process has ended"
                    ) from None
            time.sleep(POLL_S)
        os.pwrite(lock, f"{os.getpid():<20}".encode(), 0)
        yield
    finally:
        os.close(lock)


def reindex(
    store: Store,
    *,
    space: str,
    knowledge: str,
    embedder: Embedder,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Embed all sets of a space and a knowledge again; return the number of embedded versions.

    A call after an interruption continues with the versions that are left.

    Args:
        progress: Called with two numbers: of versions that are done, and of versions in total.

    Raises:
        Conflict: Another process changed the embedder of the space meanwhile.
    """
    notes = embedder_notes(space, knowledge)
    before = [store.note(name) for name in notes]
    _begin(store, f"{space} {knowledge} {embedder.name}")
    done, total = 0, store.stats().item_versions
    while True:
        numbers = _set_numbers(store, space, knowledge)
        found = store.versions_to_stage(numbers, limit=BATCH)
        if not found:
            break
        store.stage_vectors(_embedded(embedder, found))
        done += len(found)
        if progress is not None:
            progress(done, max(total, done))
    changes = [(n, old, embedder.name) for n, old in zip(notes, before, strict=True)]
    for name in map(query_prefix_note, notes):
        old, new = store.note(name), query_prefix_of(embedder)
        changes += [] if new == (old or "") else [(name, old, new)]
    owners = (Scope(space, "a key"), Scope(knowledge, None))  # they include sets added meanwhile
    if not store.use_staged_vectors(numbers, notes=changes, scopes=owners):
        raise Conflict(
            f"another process changed the embedder of space {space!r} meanwhile; check the "
            "embedder, and try again"
        )
    store.put_note(STAGING, None, expected=store.note(STAGING))
    return done


def _set_numbers(store: Store, space: str, knowledge: str) -> list[int]:
    scopes, after = [Scope(knowledge, None)], None
    while page := store.keys(space, after=after):
        scopes += [Scope(space, key) for key in page]
        after = page[-1]
    return [info.number for scope in scopes for info in store.set_infos(scope)]


def _begin(store: Store, target: str) -> None:
    """Keep vectors staged for *target*; delete vectors staged for another embedder."""
    found = store.note(STAGING)
    if found != target:
        store.drop_staged_vectors()
        store.put_note(STAGING, target, expected=found)


def _embedded(embedder: Embedder, found: list[PendingVectors]) -> list[tuple[int, int, bytes]]:
    if not embedder.dimensions:
        return [(waiting.set_number, waiting.row, b"") for waiting in found]
    texts = [text_to_embed(waiting.text, waiting.metadata) for waiting in found]
    return [
        (waiting.set_number, waiting.row, vectors)
        for waiting, vectors in zip(found, embed_quantised(embedder, texts), strict=True)
    ]


AT_ONCE = 1_000
"""The largest number of expired items in one read; those of one scope are retired in one commit."""


SPARE = 0.25
"""The share of a file that a sweep leaves free for later writes."""


def sweep(engine: Engine) -> int:
    """Retire expired items and delete data past its retention.

    Return the number of retired items plus the number of deleted rows. The work is done in short
    transactions, with other writes between them. It uses corroborated time, so data that only a
    wrong clock considers old stays.
    """
    now, done = engine.clock.settle(), 0
    while found := engine.store.expired_items(now=now, limit=AT_ONCE):
        changes: dict[Scope, list[ItemChange]] = {}
        for stored in found:
            gone = Retire(stored.set, stored.record.id, stored.version)
            changes.setdefault(stored.set.scope, []).append(gone)
        for scope, items in changes.items():
            with suppress(StaleItem):  # another writer changed one of the items
                engine.store.commit(Batch(scope=scope, time=now, items=items))
                done += len(items)
    while (some := engine.store.sweep(now=now)) >= MAX_SWEPT_VERSIONS:
        done += some
    while engine.store.shrink(keep_free=SPARE):
        pass
    return done + some


def dimensions_of(ledger: Ledger) -> Callable[[Scope], int | None]:
    """Return a function that returns the vector length of a scope.

    The function returns None if the scope has no recorded embedder, or if the embedder cannot be
    opened.
    """

    @cache
    def of_embedder(name: str) -> int | None:
        try:
            return open_embedder(name).dimensions
        except (EmbedderMissing, InvalidInput):
            return None

    def of_scope(scope: Scope) -> int | None:
        name = ledger.note(note_of(scope))
        return None if name is None else of_embedder(name)

    return of_scope
