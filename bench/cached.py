"""Vectors that are made once and kept in a folder, so that runs and peers share them.

A bench with `--cache FOLDER` takes its embedders from `embedder(name, folder)`. The folder has a
file of SQLite per embedder; remove it when the weights change.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from alveus.embed import Embedder, open_embedder
from alveus.embed.vectors import Vectors

Embed = Callable[[Sequence[str]], Sequence[Vectors]]
"""Returns the rows of each text."""


class CachedEmbedder:
    """An embedder that embeds each text once, and keeps its vectors in a file of *folder*.

    Without a folder, vectors live as long as the object does. It has `embed_windows` and
    `embed_queries` if the embedder has them.
    """

    def __init__(self, name: str, folder: Path | None = None) -> None:
        self._embedder: Any = open_embedder(name)
        self.name: str = self._embedder.name
        self.dimensions: int = self._embedder.dimensions
        self.instant: bool = self._embedder.instant
        self.languages: frozenset[str] | None = getattr(self._embedder, "languages", None)
        self._lock = Lock()
        self._file = _open(folder, self.name)
        self._known: dict[bytes, Vectors] = {}
        for key, rows in self._file.execute("SELECT key, rows FROM vectors"):
            self._known[key] = self._unpacked(rows)
        if hasattr(self._embedder, "embed_windows"):
            windows = self._embedder.embed_windows
            self.embed_windows = partial(self._rows, "windows", windows)
        if hasattr(self._embedder, "embed_queries"):
            self.embed_queries = partial(self._each, "query", self._embedder.embed_queries)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a row per text."""
        return self._each("text", self._embedder.embed, texts)

    def _each(self, kind: str, embed: Callable[[Sequence[str]], Vectors], texts: Any) -> Vectors:
        found = self._rows(kind, lambda new: list(embed(new)[:, None, :]), texts)
        return np.concatenate(found) if found else np.zeros((0, self.dimensions), np.float32)

    def _rows(self, kind: str, embed: Embed, texts: Sequence[str]) -> list[Vectors]:
        """Return the rows of each text, of those that are not known by *embed*."""
        keys = [_key(kind, text) for text in texts]
        with self._lock:
            if kind == "text":  # a text of one window has the same row
                for key, text in zip(keys, texts, strict=True):
                    rows = self._known.get(_key("windows", text))
                    if rows is not None and len(rows) == 1:
                        self._known[key] = rows
            pairs = zip(keys, texts, strict=True)
            new = {key: text for key, text in pairs if key not in self._known}
            if new:
                made = dict(zip(new, embed(list(new.values())), strict=True))
                self._known.update(made)
                self._file.executemany(
                    "INSERT OR IGNORE INTO vectors VALUES (?, ?)",
                    [(key, np.asarray(rows, np.float32).tobytes()) for key, rows in made.items()],
                )
            return [self._known[key] for key in keys]

    def _unpacked(self, rows: bytes) -> Vectors:
        return np.frombuffer(rows, np.float32).reshape(-1, self.dimensions)


def _open(folder: Path | None, name: str) -> sqlite3.Connection:
    place = ":memory:"
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        place = str(folder / f"{name}.db")
    file = sqlite3.connect(place, check_same_thread=False, isolation_level=None, timeout=60)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = OFF")
    file.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, rows BLOB NOT NULL)")
    return file


def _key(kind: str, text: str) -> bytes:
    return blake2b(f"{kind} {text}".encode(), digest_size=16).digest()


@lru_cache
def embedder(name: str, folder: Path | None = None) -> Embedder:
    """Return the embedder *name*; if its texts take long, it makes the vectors of each once."""
    opened = open_embedder(name)
    return opened if opened.instant else CachedEmbedder(name, folder)


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Give *parser* the option `--cache`."""
    parser.add_argument("--cache", type=Path, help="a folder that keeps vectors between runs")
