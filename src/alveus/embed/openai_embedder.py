"""Vectors from servers of the OpenAI embeddings protocol: OpenAI, vLLM, Ollama and others."""

from __future__ import annotations

import os
import re
from ast import literal_eval
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from alveus.embed.vectors import Vectors, unit
from alveus.errors import EmbedderFailed, InvalidInput
from alveus.values.forks import FreshLock
from alveus.values.http_json import ServerFailed, post_json, server_url

OPENAI = "https://api.openai.com/v1"
KNOWN_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}
"""Dimensions of known models."""

BATCH = 128
"""Texts in one request."""

LONGEST = 24_000
"""Most characters of a text that are sent, about 6,000 words. Models read fewer."""

FITS = 250
"""Characters that every model accepts. A refusal of a shorter text has another reason."""

_REFUSALS = frozenset({400, 413, 422})
"""Statuses with which servers refuse texts that are too long, and other requests."""

_NAMED = re.compile(r"(.+?)(?:@([1-9]\d*))?( ['\"].*)?", re.DOTALL)
"""Matches a name: a model, and perhaps its dimensions and its prefix of texts."""


class _Refused(EmbedderFailed):
    """The server refused a request, perhaps because of a text that is too long."""


class OpenAIEmbedder:
    """Asks a server for vectors. One instance serves many threads.

    Only the texts and the model's name are sent. A text of spaces is not sent, and has a zero row.

    Args:
        model: The name of the model at the server.
        base_url: Address of the server, up to ``/v1``. By default ``OPENAI_BASE_URL``, or the
            address of OpenAI.
        api_key: Key for the server. By default ``OPENAI_API_KEY``. A server on this machine may
            need none.
        dimensions: Numbers in a vector, for a model that can give shorter vectors. By default the
            full number. If it is unknown, the server is asked once.
        query_prefix, text_prefix: Prefixes of questions and texts that the model needs: for e5
            ``"query: "`` and ``"passage: "``. The prefix of texts is a part of `name`; a memory
            stores both.
        timeout_s: Limit of one request in seconds, with up to four tries and the pauses.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    instant = False

    def __init__(  # noqa: PLR0913 - all but the model by name
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        query_prefix: str = "",
        text_prefix: str = "",
        timeout_s: float = 30.0,
    ) -> None:
        if not model:
            raise InvalidInput("the model of an embedder is empty; pass a name, as in openai:MODEL")
        if dimensions is not None and not 1 <= dimensions <= 65_536:  # noqa: PLR2004 - said below
            raise InvalidInput(f"dimensions must be from 1 to 65,536, not {dimensions!r}")
        address = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI
        self._url = server_url(address, "base_url")
        self._model, self._key = model, api_key
        self._asked_dimensions, self._timeout_s = dimensions, timeout_s
        self.query_prefix, self._text_prefix = query_prefix, text_prefix
        self._dimensions = dimensions or KNOWN_DIMENSIONS.get(model)
        self._lock = FreshLock()

    def __repr__(self) -> str:
        return f"OpenAIEmbedder({self._model!r})"

    @property
    def name(self) -> str:
        """``openai:MODEL``, with the dimensions and the prefix of texts, if they were given."""
        size = f"@{self._asked_dimensions}" if self._asked_dimensions else ""
        prefix = f" {self._text_prefix!r}" if self._text_prefix else ""
        return f"openai:{self._model}{size}{prefix}"

    @property
    def dimensions(self) -> int:
        """Numbers in a vector. For an unknown model the server is asked for one vector, once."""
        if self._dimensions is None:
            with self._lock:
                if self._dimensions is None:
                    self._dimensions = len(self._asked(["dimensions"])[0])
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row of length 1 per text, or a zero row for a blank text.

        Raises:
            EmbedderFailed: The server did not answer, or did not give one vector per text.
        """
        return self._rows(texts, self._text_prefix)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return a row per question, with the prefix that the model wants before questions."""
        return self._rows(texts, self.query_prefix)

    def _rows(self, texts: Sequence[str], prefix: str) -> Vectors:
        found = np.zeros((len(texts), self.dimensions), np.float32)
        sent = [at for at, text in enumerate(texts) if text.strip()]
        for start in range(0, len(sent), BATCH):
            batch = sent[start : start + BATCH]
            rows = self._fitting([prefix + texts[at][:LONGEST] for at in batch])
            if any(len(row) != self.dimensions for row in rows):
                raise EmbedderFailed(
                    f"embedder {self.name!r} returned vectors of {len(rows[0])} numbers instead "
                    f"of {self.dimensions}; pass the dimensions of its model"
                )
            found[batch] = np.array(rows, np.float32)
        return unit(found)

    def _fitting(self, texts: list[str]) -> list[list[float]]:
        """Return a row per text. A request that the server refuses as too long is split.

        Several texts are sent again as two requests, and of a single text only the first half. So
        each text gets a vector, also a text that is too long for the model.
        """
        try:
            return self._asked(texts)
        except _Refused:
            if max(map(len, texts)) <= FITS:
                raise
        if len(texts) == 1:
            return self._fitting([texts[0][: len(texts[0]) // 2]])
        half = len(texts) // 2
        return self._fitting(texts[:half]) + self._fitting(texts[half:])

    def _asked(self, texts: list[str]) -> list[list[float]]:
        body: dict[str, object] = {"model": self._model, "input": texts}
        if self._asked_dimensions:
            body["dimensions"] = self._asked_dimensions
        key = self._key or os.environ.get("OPENAI_API_KEY")
        try:
            answer = post_json(f"{self._url}/embeddings", body, key=key, timeout_s=self._timeout_s)
        except ServerFailed as error:
            failed = _Refused if error.status in _REFUSALS else EmbedderFailed
            raise failed(f"embedder {self.name!r}: {error}") from None
        return _vectors(answer, len(texts), self.name)


def by_name(model: str, *, query_prefix: str = "") -> OpenAIEmbedder:
    """Return the embedder whose name is ``openai:`` followed by *model*.

    Raises:
        InvalidInput: The prefix of texts in the name is not written as a Python string.
    """
    found = _NAMED.fullmatch(model)
    name, size, prefix = found.groups() if found else (model, None, None)
    try:
        text_prefix = literal_eval(prefix.strip()) if prefix else ""
    except (SyntaxError, ValueError):
        text_prefix = None
    if not isinstance(text_prefix, str):
        raise InvalidInput(
            f"{f'openai:{model}'!r} is no name of an embedder; to give one a prefix, pass "
            f"embedder=OpenAIEmbedder({name!r}, text_prefix=…)"
        )
    return OpenAIEmbedder(
        name,
        dimensions=int(size) if size else None,
        query_prefix=query_prefix,
        text_prefix=text_prefix,
    )


def _vectors(answer: object, number: int, name: str) -> list[list[float]]:
    """Return the vectors of an answer in the order of their texts.

    Raises:
        EmbedderFailed: The answer has not exactly one usable vector per text.
    """
    found: dict[int, list[float]] = {}
    try:
        for at, entry in enumerate(cast("Mapping[str, Any]", answer)["data"]):
            found[int(entry.get("index", at))] = [float(value) for value in entry["embedding"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        found.clear()
    if sorted(found) != list(range(number)) or not all(
        vector and np.isfinite(vector).all() for vector in found.values()
    ):
        raise EmbedderFailed(f"embedder {name!r}: the server did not return a vector for each text")
    return [found[at] for at in range(number)]
