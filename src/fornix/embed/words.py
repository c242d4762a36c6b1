"""The embedder that reads no meaning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fornix.embed.vectors import Vectors, as_texts


class Words:
    """No meaning at all: rows without numbers, so that a search runs on words alone."""

    name = "words"
    dimensions = 0
    instant = True

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return an empty row per text, shape (texts, 0)."""
        return np.zeros((len(as_texts(texts)), 0), dtype=np.float32)
