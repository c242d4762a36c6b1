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
"""Most texts whose vectors are cached."""


@runtime_checkable
class DocumentEmbeddings(Protocol):
    """The interface of DB-GPT's embeddings: returns the vectors of several texts."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector per text."""
        ...


class Nearness:
    """Vectors of texts from any source. The vectors of the last texts are cached.

    Args:
        source: An `Embedder`, an object with ``embed_documents``, or a function from texts to
            vectors.
    """

    def __init__(self, source: object) -> None:
        self._embed = embedding_function(source)
        self._known: OrderedDict[str, NDArray[np.float64]] = OrderedDict()
        self._mutex = FreshLock()

    def vectors(self, texts: Sequence[str]) -> list[NDArray[np.float64]]:
        """Return one vector of length 1 per text, or a zero vector if the source gives zeros.

        Raises:
            EmbedderFailed: The source raised, or did not return one usable vector per text.
        """
        with self._mutex:
            known = {text: self._known[text] for text in texts if text in self._known}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        made = dict(zip(new, unit(embedded(self._embed, new)), strict=True)) if new else {}
        with self._mutex:
            self._known |= made
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        vectors = known | made  # not the cache: another thread may have dropped some of them
        return [vectors[text] for text in texts]


def embedded(embed: Callable[[list[str]], Any], texts: Sequence[str]) -> NDArray[np.float64]:
    """Return one row per text. For a single text, *embed* may also return just one vector.

    Raises:
        EmbedderFailed: *embed* raised, or did not return one vector of finite numbers per text, all
            of one length.
    """
    try:
        rows = np.asarray(list(embed(list(texts))), dtype=np.float64)
    except Exception as error:  # the edge to other people's code; the cause is kept
        raise EmbedderFailed(f"the embedding model raised {error!r}") from error
    if rows.ndim == 1 and len(texts) == 1:
        rows = rows[None, :]
    if rows.ndim != 2 or len(rows) != len(texts) or not rows.size or not np.isfinite(rows).all():  # noqa: PLR2004 - a row per text
        raise EmbedderFailed(
            f"the embedding model returned the shape {rows.shape} for {len(texts)} texts; it "
            "must return one vector of finite numbers for each text"
        )
    return rows


def embedding_function(source: object) -> Callable[[list[str]], Any]:
    """Return the function of *source* that computes vectors of texts; see `Nearness`.

    Raises:
        InvalidInput: *source* is none of the accepted kinds, or an embedder without vectors.
    """
    if isinstance(source, Embedder):
        if not source.dimensions:
            raise InvalidInput(f"embedder {source.name!r} makes no vectors; pass another embedder")
        return source.embed
    if isinstance(source, DocumentEmbeddings):
        return source.embed_documents
    if callable(source):
        return source
    raise InvalidInput(
        "embeddings must be an Embedder, a function, or an object with embed_documents(), not "
        f"{source!r}"
    )
