"""Vectors of texts from any source, and their similarity."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Embedder
from alveus.embed.vectors import unit
from alveus.errors import EmbedderFailed, InvalidInput
from alveus.values.forks import FreshLock

REMEMBERED = 1024
"""Vectors of texts that are kept at hand."""


@runtime_checkable
class DocumentEmbeddings(Protocol):
    """The interface of DB-GPT's embeddings: returns the vectors of several texts."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector per text."""
        ...


class Nearness:
    """Vectors of texts from any source; the last ones are cached.

    Args:
        source: An `Embedder`, an object with ``embed_documents``, or a function from texts to
            vectors.
    """

    def __init__(self, source: object) -> None:
        self._embed = embedding_function(source)
        self._known: OrderedDict[str, NDArray[np.float64]] = OrderedDict()
        self._mutex = FreshLock()

    def vectors(self, texts: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return a vector of length one per text; zero where nothing can be read.

        Raises:
            EmbedderFailed: The source raised, or answered wrongly.
        """
        with self._mutex:
            known = {text: self._known[text] for text in texts if text in self._known}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        made = dict(zip(new, unit(embedded(self._embed, new)), strict=True)) if new else {}
        with self._mutex:
            self._known |= made
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        vectors = known | made  # of this call: another thread may have dropped some of them
        return [vectors[text] for text in texts]


def embedded(embed: Callable[[list[str]], Any], texts: Sequence[str]) -> NDArray[np.float64]:
    """Return a row per text; a single text *embed* may answer with a single vector.

    Raises:
        EmbedderFailed: It raised, or answered with something else than vectors of one length.
    """
    try:
        rows = np.asarray(list(embed(list(texts))), dtype=np.float64)
    except Exception as error:  # the edge to other people's code; the cause is kept
        raise EmbedderFailed(f"the embedding model raised {error!r}") from error
    if rows.ndim == 1 and len(texts) == 1:
        rows = rows[None, :]
    if rows.ndim != 2 or len(rows) != len(texts) or not rows.size or not np.isfinite(rows).all():  # noqa: PLR2004 - a row per text
        raise EmbedderFailed(
            f"the embedding model answered {len(texts)} texts with the shape {rows.shape}, "
            "not with one vector of finite numbers each"
        )
    return rows


def embedding_function(source: object) -> Callable[[list[str]], Any]:
    """Return the function that computes vectors of texts; see `Nearness`."""
    if isinstance(source, Embedder):
        if not source.dimensions:
            raise InvalidInput(f"embedder {source.name!r} has no vectors; take another one")
        return source.embed
    if isinstance(source, DocumentEmbeddings):
        return source.embed_documents
    if callable(source):
        return source
    raise InvalidInput(
        f"embeddings must be an Embedder, have embed_documents, or be a function; not {source!r}"
    )
