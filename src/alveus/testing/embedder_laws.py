"""The laws of an embedder, as a class to inherit from."""

from __future__ import annotations

import numpy as np
import pytest

from alveus.embed import Embedder, QueryEmbedder, Vectors, embed_windows, open_embedder
from alveus.testing.batches import at_once

TEXTS = ("A window seat, please.", "", "Où est la gare ?", "\0", "🦊🎉", "a seat " * 150, "x")
"""Texts for embedders: plain, empty, odd and long."""


class EmbedderContract:
    """The laws of an `alveus.embed.Embedder`.

    A test class inherits from this class, and returns the embedder::

        class TestMine(EmbedderContract):
            def open(self):
                return MyEmbedder()
    """

    def open(self) -> Embedder:
        """Return the embedder to test."""
        raise NotImplementedError

    @pytest.fixture
    def embedder(self) -> Embedder:
        """The embedder, in the form that `Memory.open` accepts."""
        return open_embedder(self.open())

    def test_a_call_returns_a_row_per_text(self, embedder: Embedder) -> None:
        """Each row has the promised number of dimensions. A call without texts returns no rows."""
        assert np.asarray(embedder.embed(list(TEXTS))).shape == (len(TEXTS), embedder.dimensions)
        assert len(embedder.embed([])) == 0

    def test_alveus_accepts_every_row(self, embedder: Embedder) -> None:
        """Each row has length one or is zero, and each text has 1 to 32 windows."""
        assert len(embed_windows(embedder, TEXTS)) == len(TEXTS)

    def test_the_row_of_a_text_depends_on_that_text_alone(self, embedder: Embedder) -> None:
        """The other texts of a call, and their order, change a row by at most 1e-5."""
        together = embedder.embed(list(TEXTS))
        alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
        np.testing.assert_allclose(together, alone, atol=1e-5)
        np.testing.assert_allclose(embedder.embed(list(TEXTS[::-1]))[::-1], alone, atol=1e-5)

    def test_threads_share_the_embedder(self, embedder: Embedder) -> None:
        """Each thread gets the rows that it would get alone."""

        def embed(at: int) -> Vectors:
            return embedder.embed(list(TEXTS[at : at + 2]))

        for at, rows in enumerate(at_once(len(TEXTS), embed)):
            np.testing.assert_allclose(rows, embed(at), atol=1e-5)

    def test_a_question_has_a_row_of_the_same_kind(self, embedder: Embedder) -> None:
        """Rows of questions have the same form as rows of texts."""
        if isinstance(embedder, QueryEmbedder):
            shape = np.asarray(embedder.embed_queries(list(TEXTS))).shape
            assert shape == (len(TEXTS), embedder.dimensions)
