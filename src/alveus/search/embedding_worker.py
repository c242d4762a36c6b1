"""The worker that computes the vectors of items that were committed without them.

`add` does not wait for a slow embedder. A pending item is a row without vectors. The store finds
such rows by a query, so no item is missed if a process dies. Of all processes that have a store
file open, one embeds in the background: the process that holds a lock. The lock ends with the
process.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from alveus.embed import Embedder, Vectors, embed_quantised
from alveus.errors import AlveusError, EmbedderConflict, EmbedderFailed, Unavailable, Unusable
from alveus.store import PendingVectors, Scope, Store
from alveus.store.records import text_to_embed
from alveus.values.forks import NO_THREAD, BackgroundThread, Flag, HandleLock, began

log = logging.getLogger(__name__)

BATCH = 32
"""Items embedded between two checks for a stop: about 0.3 s of the bundled embedder."""

REST_S = 1.0
"""Pause between two looks while another process embeds for the store, or after a failure."""


class EmbeddingWorker:
    """Embeds the pending items of one store: in the background, or while a caller waits."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        *,
        folder: Path | None,
        expects: Sequence[tuple[str, str]],
    ) -> None:
        self._store, self._embedder, self._folder = store, embedder, folder
        self._expects = expects
        self._wake = Flag()
        self._stop = Flag()
        self._mutex = HandleLock()
        self._embedding = HandleLock()
        self._thread: threading.Thread | None = None
        self.failure: AlveusError | None = None

    @property
    def needed(self) -> bool:
        """Whether there is work: the embedder makes vectors, and the store can be written."""
        return bool(self._embedder.dimensions) and not self._store.read_only

    def notify(self) -> None:
        """Start or wake the background thread, because items may be pending.

        If the thread cannot start, items stay pending until the next call, or until a search.
        """
        if not self.needed or self._stop.is_set():
            return
        self._wake.set()
        with self._mutex:
            if self._thread is None:
                thread = BackgroundThread(self._run, "alveus-embedding", self.leave)
                if began(thread):
                    self._thread = thread
                else:
                    self.failure = Unavailable(
                        f"items cannot be embedded in the background: {NO_THREAD}"
                    )

    def embed(self, *, limit: int, set_numbers: Sequence[int] | None = None) -> int:
        """Embed up to *limit* pending items now. Return their number.

        Args:
            set_numbers: The sets whose items are embedded. None means all sets of the spaces that
                are noted for this embedder.

        Raises:
            EmbedderFailed: The embedder raised; the items stay pending.
        """
        with self._embedding:
            if set_numbers is None:
                batch, expects = self._mine(limit)
            else:
                batch, expects = (
                    self._store.pending_vectors(limit=limit, set_numbers=set_numbers),
                    (),
                )
            if batch:
                texts = [text_to_embed(waiting.text, waiting.metadata) for waiting in batch]
                vectors = embed_quantised(self._embedder, texts)
                filled = zip(batch, vectors, strict=True)
                self._store.store_vectors(
                    [(waiting.set_number, waiting.row, vector) for waiting, vector in filled],
                    expects=sorted({*self._expects, *expects}),
                )
        return len(batch)

    def _mine(self, limit: int) -> tuple[list[PendingVectors], set[tuple[str, str]]]:
        """Return up to *limit* pending items of spaces noted for this embedder, and these notes.

        Other spaces of the store may have other embedders; their items stay pending.
        """
        wanted = limit
        while True:
            found = self._store.pending_vectors(limit=wanted)
            scopes = {s.row: s.set.scope for s in self._store.items_by_row([p.row for p in found])}
            name = self._embedder.name
            says = {note_of(scope): name for scope in set(scopes.values())}
            ours = {note for note in says if self._store.note(note) == name}
            mine = [p for p in found if p.row in scopes and note_of(scopes[p.row]) in ours]
            if len(mine) >= limit or len(found) < wanted:
                return mine[:limit], {(note, name) for note in ours}
            wanted *= 4

    def settle(
        self, *, wait_s: float | None, progress: Callable[[int], None] | None = None
    ) -> bool:
        """Embed until no item is pending. Return False if *wait_s* passed before that.

        With a read-only store nothing is embedded: return whether no item is pending.

        Args:
            wait_s: Longest time for which new batches are begun. None means no limit.
            progress: Called after each batch with the number of items embedded.

        Raises:
            EmbedderFailed: The embedder raised.
        """
        deadline = None if wait_s is None else time.monotonic() + wait_s
        if self._embedder.dimensions and self._store.read_only:
            return not self._mine(1)[0]
        while self.needed:
            done = self.embed(limit=BATCH)
            if progress is not None and done:
                progress(done)
            if done < BATCH:
                break
            if deadline is not None and time.monotonic() > deadline:
                return False
        return True

    def close(self) -> None:
        """Stop the background thread after its current batch; pending items stay pending."""
        self.leave()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def leave(self) -> None:
        """Make the background thread stop after its current batch. Return at once.

        A finalizer may call this while any lock is held.
        """
        self._stop.set()
        self._wake.set()

    def _run(self) -> None:
        try:
            descriptor = self._elected()
        except OSError as error:  # such as too many open files; the next add tries again
            self.failure = Unavailable(f"items cannot be embedded in the background: {error}")
            log.warning("embedding failed, items stay pending", extra={"error": str(error)})
            with self._mutex:
                self._thread = None
            return
        try:
            while descriptor is not None:
                self._wake.clear()
                if self._stop.is_set():  # looked at after clear(): a stop in between is not missed
                    break
                if not self._embed_in_background():
                    # Other processes cannot wake this one, so it looks for their items.
                    self._wake.wait(None if self._folder is None else REST_S)
        finally:
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)

    def _embed_in_background(self) -> bool:
        """Embed one batch. Return whether to embed the next batch at once."""
        try:
            done = self.embed(limit=BATCH)
        except EmbedderConflict as error:  # re-embedded by another process: not ours any more
            if (error.note, error.asked) not in self._expects:
                return True  # another space of the store; the next look leaves it out
            self.failure = error
            self._stop.set()
            return False
        except Unusable:  # the store was closed or forked
            self._stop.set()
            return False
        except AlveusError as error:
            self.failure = error
            log.warning(
                "embedding failed, items stay pending", extra={"error": type(error).__name__}
            )
            self._stop.wait(REST_S)
            return not self._stop.is_set()
        self.failure = None
        return done == BATCH

    def _elected(self) -> int | None:
        """Wait until no other process embeds for this store. Return the descriptor of the lock.

        Return -1 if the store has no folder, because then no lock is needed. Return None if the
        worker was stopped.
        """
        if self._folder is None:
            return -1
        path = self._folder / f"embedder-{blake2b(self._embedder.name.encode()).hexdigest()[:16]}"
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        while not self._stop.is_set():
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._stop.wait(REST_S)
            else:
                return descriptor
        os.close(descriptor)
        return None


def embed_texts(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """Return one vector per text. An embedder with `embed_queries` reads the texts as questions.

    Raises:
        EmbedderFailed: The embedder raised, or returned vectors of the wrong shape, or numbers that
            are not finite.
    """
    # `isinstance` with a protocol takes too long.
    embed = getattr(embedder, "embed_queries", embedder.embed)
    try:
        rows = np.asarray(embed(texts), dtype=np.float32)
    except AlveusError:
        raise
    except Exception as error:  # the edge to other people's code; the cause is kept
        raise EmbedderFailed(f"embedder {embedder.name!r} raised {error!r}") from error
    if rows.shape != (len(texts), embedder.dimensions):
        raise EmbedderFailed(
            f"embedder {embedder.name!r} returned the shape {rows.shape} instead of "
            f"{(len(texts), embedder.dimensions)} for {len(texts)} texts"
        )
    if not np.isfinite(rows).all():
        raise EmbedderFailed(
            f"embedder {embedder.name!r} returned NaN or infinity in the vector of a text"
        )
    return rows


def note_of(scope: Scope) -> str:
    """Return the name of the store's note that holds the name of the embedder of *scope*."""
    return f"embedder of {'knowledge' if scope.key is None else 'space'} {scope.space}"
