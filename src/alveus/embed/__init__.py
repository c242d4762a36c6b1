"""Meaning as vectors: the interface of an embedder, the bundled ones, and vectors as bytes.

Bundled, NumPy only: ``minilm`` (all-MiniLM-L6-v2, the default), ``static`` (a table of words made
from it: hundreds of times faster, less sharp) and ``words`` (no meaning at all). ``minilm-onnx``
runs the same weights by ONNX Runtime; ``multilingual`` reads a hundred languages, with the weights
of the package alveus-multilingual. Importing this package reads no weights; an embedder reads
them when it first embeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from alveus.embed.vectors import (
    LARGEST,
    ROWS_AND_NUMBERS,
    Vector,
    Vectors,
    dequantise,
    float8,
    pack_vector,
    quantise,
    quantise_each,
    unpack_vector,
)
from alveus.embed.wordpiece import MOST_WINDOWS
from alveus.errors import AlveusError, EmbedderFailed, InvalidInput
from alveus.errors.short_repr import short_repr
from alveus.values import words
from alveus.values.forks import FreshLock
from alveus.values.languages import language_of
from alveus.values.lazy import lazy_names

if TYPE_CHECKING:
    from alveus.embed.minilm_onnx import MiniLmOnnx
    from alveus.embed.openai_embedder import OpenAIEmbedder

__all__ = [
    "BUNDLED",
    "LARGEST",
    "Embedder",
    "MiniLmOnnx",
    "OpenAIEmbedder",
    "QueryEmbedder",
    "Vector",
    "Vectors",
    "WindowedEmbedder",
    "dequantise",
    "embed_quantised",
    "embed_windows",
    "float8",
    "open_embedder",
    "pack_vector",
    "quantise",
    "quantise_each",
    "reads",
    "unpack_vector",
]

UNIT_TOLERANCE = 0.01
"""Largest accepted difference of a row's length from 1: half precision needs it."""


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors whose cosines measure nearness in meaning.

    One instance serves many threads at once.

    An embedder may also have an attribute ``languages``: the ISO 639-1 codes of the languages that
    its model reads, as a frozenset. None, or no such attribute, means all languages.
    """

    @property
    def name(self) -> str:
        """The name of the vectors. Names are equal if and only if vectors can be compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Numbers in a vector, or 0 for an embedder without meaning."""
        ...

    @property
    def instant(self) -> bool:
        """Whether a text takes under 0.1 ms. If so, items are embedded inside their commit."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a row per text, shape (texts, dimensions), each of length one.

        A text in which the embedder finds nothing to read has a zero row. Its cosine to every text
        is 0, so only its words find it. The result is deterministic: on one machine a text has the
        same row, up to rounding (1e-5 a number), whatever other texts are in the call.
        """
        ...


@runtime_checkable
class QueryEmbedder(Embedder, Protocol):
    """An embedder whose model treats questions differently from texts, such as by a prefix."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return a row per question, as `embed` does for texts."""
        ...


@runtime_checkable
class WindowedEmbedder(Embedder, Protocol):
    """An embedder with a limit of text per vector; a longer text gets several vectors."""

    def embed_windows(self, texts: Sequence[str]) -> list[Vectors]:
        """Return the rows of each text, shape (windows, dimensions): 1 to 32 windows, in order."""
        ...


def embed_windows(embedder: Embedder, texts: Sequence[str]) -> list[Vectors]:
    """Return the checked vectors of each text, shape (windows, dimensions).

    An embedder without windows gives one row per text. A text that joins several texts
    (`words.joined`) has the windows of each, at most 32: the first window of each text, then the
    others.

    Raises:
        EmbedderFailed: The embedder raised, or answered with another number of texts, windows or
            dimensions than it promises, or with rows that are neither of length one nor zero.
    """
    if not any(words.BREAK in text for text in texts):
        return _embed_each(embedder, texts)
    parts = [words.separate(text) for text in texts]
    rest = iter(_embed_each(embedder, [part for text in parts for part in text]))
    return [_gathered([next(rest) for _ in text]) for text in parts]


def reads(embedder: Embedder, text: str) -> bool:
    """Return whether *embedder* reads the language of *text*.

    True if the language is unknown or mixed, or if the embedder does not say which it reads.
    """
    languages: frozenset[str] | None = getattr(embedder, "languages", None)
    return languages is None or (language := language_of(text)) is None or language in languages


def embed_quantised(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    """Return the quantised windows of each text, empty bytes if the embedder does not read it.

    Of a text that joins several texts, those in languages that the embedder reads have windows.
    *texts* must not be empty.
    """
    if getattr(embedder, "languages", None) is None:
        return _quantised(embedder, texts)
    known = [_read_part(embedder, text) for text in texts]
    read = [text for text in known if text is not None]
    windows = iter(_quantised(embedder, read) if read else ())
    return [b"" if text is None else next(windows) for text in known]


def _read_part(embedder: Embedder, text: str) -> str | None:
    """Return the joined texts in *text* that *embedder* reads, or None if it reads none."""
    if words.BREAK not in text:
        return text if reads(embedder, text) else None
    parts = words.separate(text)
    read = [part for part in parts if reads(embedder, part)]
    return text if len(read) == len(parts) else words.joined(read) if read else None


def _quantised(embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
    if words.BREAK not in "".join(texts):
        rows = _ask(embedder, texts)
        if isinstance(rows, np.ndarray) and rows.size and len(rows) == len(texts):
            _check(embedder, rows)
            packed, width = quantise(rows), rows.shape[1]
            if len(rows) == 1:
                return [packed]
            return [packed[at : at + width] for at in range(0, len(packed), width)]
        return quantise_each(_checked(embedder, texts, rows))
    return quantise_each(embed_windows(embedder, texts))


def _gathered(windows: Sequence[Vectors]) -> Vectors:
    """Return the windows of several texts as one array: the first of each, then the others."""
    if len(windows) == 1:
        return windows[0]
    rows = [row for rank in zip_longest(*windows) for row in rank if row is not None]
    return np.stack(rows[:MOST_WINDOWS])


def _embed_each(embedder: Embedder, texts: Sequence[str]) -> list[Vectors]:
    return _checked(embedder, texts, _ask(embedder, texts))


def _checked(
    embedder: Embedder, texts: Sequence[str], found: list[Vectors] | Vectors
) -> list[Vectors]:
    """Check the answer of an embedder, and return the vectors of each text."""
    if isinstance(found, np.ndarray):
        _check(embedder, found)
        found = [found[at : at + 1] for at in range(len(found))]
    else:
        for rows in found:
            _check(embedder, rows)
            if not 1 <= len(rows) <= MOST_WINDOWS:
                problem = f"{len(rows)} windows for a text instead of 1 to {MOST_WINDOWS}"
                raise EmbedderFailed(f"embedder {embedder.name!r} returned {problem}")
    if len(found) != len(texts):
        raise EmbedderFailed(
            f"embedder {embedder.name!r} must return one result for each text, but returned "
            f"{len(found)} for {len(texts)}"
        )
    return found


def open_embedder(name: str | Embedder, *, query_prefix: str = "") -> Embedder:
    """Return an embedder by its name, or the embedder that was passed.

    A name is that of a bundled embedder, or ``openai:MODEL``, ``sentence-transformers:MODEL`` or
    ``fastembed:MODEL``. There is one instance per name and process, and it reads its weights when
    it first embeds.

    Args:
        query_prefix: A prefix of questions, only for ``openai:MODEL``.

    Raises:
        InvalidInput: No embedder has this name, or the object is not an embedder.
        EmbedderMissing: The embedder needs a package that is not installed.
    """
    if isinstance(name, str):
        return _open_embedders.take(name, query_prefix)
    if not isinstance(name, Embedder):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
        raise InvalidInput(
            f"{type(name).__name__} is not an embedder; it needs name, dimensions, instant and "
            "embed()"
        )
    return name


def _ask(embedder: Embedder, texts: Sequence[str]) -> list[Vectors] | Vectors:
    """Return the windows of each text, or one row per text if the embedder has no windows."""
    # `isinstance` with a protocol takes longer than a quick embedder does.
    windowed = getattr(embedder, "embed_windows", None)
    try:
        if windowed is not None:
            return [np.asarray(rows, dtype=np.float32) for rows in windowed(texts)]
        return np.asarray(embedder.embed(texts), dtype=np.float32)
    except AlveusError:
        raise
    except Exception as error:  # the edge to other people's code; the cause is kept
        raise EmbedderFailed(f"embedder {embedder.name!r} raised {error!r}") from error


def _check(embedder: Embedder, rows: Vectors) -> None:
    if rows.ndim != ROWS_AND_NUMBERS or rows.shape[1] != embedder.dimensions:
        problem = f"shape {rows.shape} instead of rows of {embedder.dimensions} numbers"
    else:
        if len(rows) == 1 and abs(np.vdot(rows, rows) - 1) <= UNIT_TOLERANCE:
            return  # the usual answer for one text: the rest takes longer than a quick embedder
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        fine = (np.abs(lengths - 1) <= UNIT_TOLERANCE) | (lengths == 0)
        if fine.all():
            return
        problem = f"a row of length {lengths[~fine][0]:.3g}; divide each row by its length"
    raise EmbedderFailed(f"embedder {embedder.name!r} returned {problem}")


BUNDLED = {
    "minilm": "minilm.MiniLm",
    "static": "static.Static",
    "words": "static.Words",
    "minilm-onnx": "minilm_onnx.MiniLmOnnx",
    "multilingual": "multilingual.Multilingual",
}
"""The module and class of each embedder that `open_embedder` opens by name."""

BY_MODEL = {
    "openai": "openai_embedder.by_name",
    "sentence-transformers": "local_models.SentenceTransformerEmbedder",
    "fastembed": "local_models.FastEmbedder",
}
"""The module and factory of an embedder, by the text before a colon: ``openai:MODEL``."""


class _OpenEmbedders:
    """The open embedders of this process: their weights are large, so each is opened once."""

    def __init__(self) -> None:
        self._lock = FreshLock()
        self._open: dict[tuple[str, str], Embedder] = {}

    def take(self, name: str, query_prefix: str) -> Embedder:
        kind, colon, model = name.partition(":")
        where = BY_MODEL.get(kind) if colon and model else BUNDLED.get(name)
        if where is None:
            there_are = ", ".join([*BUNDLED, *(f"{kind}:MODEL" for kind in BY_MODEL)])
            raise InvalidInput(
                f"there is no embedder {short_repr(name)}; the embedders are {there_are}"
            )
        given = {"query_prefix": query_prefix} if query_prefix and kind == "openai" else {}
        known = name, given.get("query_prefix", "")
        with self._lock:
            if known not in self._open:
                module, _, made = where.partition(".")
                make = getattr(import_module(f"{__name__}.{module}"), made)
                self._open[known] = make(model, **given) if colon else make()
            return self._open[known]


_open_embedders = _OpenEmbedders()

if not TYPE_CHECKING:  # else any name would be one of the package
    __getattr__ = lazy_names(__name__)
