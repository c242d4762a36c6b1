"""Another embedder for a space: new vectors are made beside the old ones, then take their places.

Everything serves meanwhile with the old vectors. Stopped at any point, it goes on where it was
when it is started again. A memory that was opened with the old embedder then refuses to go on.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from alveus.embed import Embedder, embed_windows, quantise_each
from alveus.errors import Conflict, StoreBusy
from alveus.search.embedding_worker import note_of
from alveus.store import PendingVectors, Scope, Store
from alveus.store.files import give_to_owner
from alveus.store.records import text_to_embed

BATCH = 64

STAGING = "staging"
"""The note that says whose vectors are staged."""

POLL_S = 0.02


def embedder_notes(space: str, knowledge: str) -> tuple[str, str]:
    """Return the names of the notes that say which embedder a space and a knowledge remember."""
    return note_of(Scope(space, "a key")), note_of(Scope(knowledge, None))


def query_prefix_note(note: str) -> str:
    """Return the name of the note with the prefix of questions, beside that of an embedder.

    It is no part of the embedder's name: vectors of texts are the same whatever it is.
    """
    return f"query prefix of {note.removeprefix('embedder of ')}"


def query_prefix_of(embedder: Embedder) -> str:
    """Return what an embedder puts before questions, as far as it tells."""
    return str(getattr(embedder, "query_prefix", ""))


@contextmanager
def alone_with_file(folder: Path, *, wait_s: float) -> Generator[None]:
    """Hold the right to re-embed the store of a folder: two at once would mix their vectors.

    The kernel drops the lock with its process, however that ends.

    Raises:
        StoreBusy: Another process, which the message names, had it for longer than *wait_s*.
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
                        f"{str(folder).removesuffix('.alveus')} is being re-embedded by process "
                        f"{holder}; wait until that has ended, then try again"
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
    """Embed all sets of a space and a knowledge anew; return how many versions were embedded.

    Args:
        progress: Called with how many are done, and how many there are.

    Raises:
        Conflict: Somebody else gave the space another embedder meanwhile.
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
    owners = (Scope(space, "a key"), Scope(knowledge, None))  # also of sets that came meanwhile
    if not store.use_staged_vectors(numbers, notes=changes, scopes=owners):
        raise Conflict(f"space {space!r} was given another embedder meanwhile; look, and try again")
    store.put_note(STAGING, None, expected=store.note(STAGING))
    return done


def _set_numbers(store: Store, space: str, knowledge: str) -> list[int]:
    return [info.number for s in _scopes(store, space, knowledge) for info in store.set_infos(s)]


def _begin(store: Store, target: str) -> None:
    """Go on with what was staged for *target*; drop what was staged for another."""
    found = store.note(STAGING)
    if found != target:
        store.drop_staged_vectors()
        store.put_note(STAGING, target, expected=found)


def _scopes(store: Store, space: str, knowledge: str) -> Iterator[Scope]:
    yield Scope(knowledge, None)
    after: str | None = None
    while page := store.keys(space, after=after):
        yield from (Scope(space, key) for key in page)
        after = page[-1]


def _embedded(embedder: Embedder, found: list[PendingVectors]) -> list[tuple[int, int, bytes]]:
    if not embedder.dimensions:
        return [(waiting.set_number, waiting.row, b"") for waiting in found]
    texts = [text_to_embed(waiting.text, waiting.metadata) for waiting in found]
    windows = embed_windows(embedder, texts)
    return [
        (waiting.set_number, waiting.row, vectors)
        for waiting, vectors in zip(found, quantise_each(windows), strict=True)
    ]
