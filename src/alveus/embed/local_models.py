"""Embedders by two libraries for models on this machine, if these are installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from alveus.embed.vectors import Vectors, unit
from alveus.errors import EmbedderFailed, EmbedderMissing
from alveus.values.forks import FreshLock


class _LocalModel:
    """A model that is loaded when it first embeds. One thread at a time uses it."""

    instant = False
    _package: str
    _class: str
    _kind: str

    def __init__(self, model: str) -> None:
        self._model_name = model
        self._lock = FreshLock()
        self._model: Any = None
        self._dimensions: int | None = None
        if find_spec(self._package) is None:
            raise EmbedderMissing(
                f"embedder {self.name!r} needs the package {self._kind}, which is not "
                f"installed; run: pip install {self._kind}"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model_name!r})"

    @property
    def name(self) -> str:
        """The library and the model."""
        return f"{self._kind}:{self._model_name}"

    @property
    def dimensions(self) -> int:
        """Numbers in a vector. The first read loads the model."""
        known = self._dimensions
        if known is None:
            known = self._dimensions = int(self.embed(["dimensions"]).shape[1])
        return known

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 per text, or a zero row for a blank text."""
        return self._rows(texts, question=False)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return a row per question, with the prefix that the model has for questions, if any."""
        return self._rows(texts, question=True)

    def _rows(self, texts: Sequence[str], *, question: bool) -> Vectors:
        with self._lock:
            if self._model is None:
                self._model = self._loaded()
            rows = np.array(self._encoded(list(texts), question=question), np.float32)
        rows[[not text.strip() for text in texts]] = 0
        return unit(rows)

    def _loaded(self) -> object:
        try:
            return getattr(import_module(self._package), self._class)(self._model_name)
        except Exception as error:  # the edge to other people's code; the cause is kept
            raise EmbedderFailed(f"embedder {self.name!r} cannot load a model: {error}") from error

    def _encoded(self, texts: list[str], *, question: bool) -> object:
        raise NotImplementedError


class SentenceTransformerEmbedder(_LocalModel):
    """A model of sentence-transformers, by its name or folder; its prompts are used.

    Raises:
        EmbedderMissing: sentence-transformers is not installed.
    """

    _package, _class = "sentence_transformers", "SentenceTransformer"
    _kind = "sentence-transformers"

    def _encoded(self, texts: list[str], *, question: bool) -> object:
        prompts: dict[str, str] = getattr(self._model, "prompts", None) or {}
        names = ("query",) if question else ("document", "passage")
        prompt = next((name for name in names if prompts.get(name)), None)
        return self._model.encode(texts, prompt_name=prompt, show_progress_bar=False)


class FastEmbedder(_LocalModel):
    """A model of fastembed, by its name.

    Raises:
        EmbedderMissing: fastembed is not installed.
    """

    _package, _class = "fastembed", "TextEmbedding"
    _kind = "fastembed"

    def _encoded(self, texts: list[str], *, question: bool) -> object:
        found = self._model.query_embed(texts) if question else self._model.passage_embed(texts)
        return np.array(list(found))
