"""Summaries without a model: central sentences that differ from each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from alveus.embed import Embedder, Vectors, embed_windows, open_embedder
from alveus.embed.vectors import grouped, unit
from alveus.errors import InvalidInput
from alveus.text.statements import BYTES_A_TOKEN, Sentence, joined, sentences, shortened, tokens
from alveus.text.summary import SUMMARY_TOKENS, Summary, Topic, checked_request
from alveus.values.keywords import suggest_names
from alveus.values.storable import counted

EXTRACTIVE = "extractive"
"""`Summary.by` without a model."""

DIVERSITY = 0.3
"""The weight of difference from chosen sentences, beside nearness to the centre, 0..1.

It is 1 - lambda of maximal marginal relevance: Carbonell and Goldstein, SIGIR 1998.
"""

MOST_SENTENCES = 2_000
"""Most sentences that are considered."""

DECIMALS = 4
"""Of a score; smaller differences are rounding, and the earlier sentence goes first."""

TITLE_WORDS = 8
"""Of a topic's title."""

TITLE_CHARACTERS = 80
"""Of a topic's title, at most."""

TOPIC_CHARACTERS = 1_000
"""Characters of a text, from its beginning, that decide its topic."""


class ExtractiveSummariser:
    """Chooses sentences; the same ones from the same texts, on one machine.

    A summary consists of sentences of its texts, in their order, equal ones once. Of more than
    *most_sentences*, so many are considered, evenly spread, and the summary says how many were
    left out.

    Args:
        embedder: Compares sentences; with one without meaning the first sentences are chosen.
        diversity: 0: the nearest to the centre, however alike; 1: the most unlike.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    @suggest_names
    def __init__(
        self,
        embedder: str | Embedder = "static",
        *,
        diversity: float = DIVERSITY,
        most_sentences: int = MOST_SENTENCES,
    ) -> None:
        if not 0 <= diversity <= 1:
            raise InvalidInput(f"diversity must be from 0 to 1, not {diversity!r}")
        self._embedder, self._diversity = open_embedder(embedder), diversity
        self._most_sentences = counted(most_sentences, "most_sentences")

    def __repr__(self) -> str:
        return f"ExtractiveSummariser({self._embedder.name!r})"

    def summarise(
        self,
        texts: Sequence[str],
        *,
        max_tokens: int = SUMMARY_TOKENS,
        vectors: Vectors | None = None,
    ) -> Summary:
        """Return the central sentences of *texts*; see `Summariser.summarise`.

        If the best sentence has no room, its beginning is returned. With *vectors* their mean is
        the centre, else that of the sentences.

        Raises:
            InvalidInput: An argument cannot be used.
            EmbedderFailed: The embedder raised or answered wrongly.
        """
        dimensions = self._embedder.dimensions
        texts, vectors = checked_request(texts, vectors, max_tokens, dimensions=dimensions)
        found, left_out = self._considered(texts)
        text = self._chosen(found, self._rows(found, texts, vectors), vectors, max_tokens)
        return Summary(text=text, by=EXTRACTIVE, tokens=tokens(text), left_out=left_out)

    def topics(
        self,
        texts: Sequence[str],
        limit: int,
        *,
        max_tokens: int = SUMMARY_TOKENS,
        vectors: Vectors | None = None,
    ) -> tuple[Topic, ...]:
        """Return *texts* grouped by how near their beginnings are; see `Summariser.topics`.

        A title is the beginning of the group's most central sentence.

        Raises:
            InvalidInput: An argument cannot be used.
            EmbedderFailed: The embedder raised or answered wrongly.
        """
        dimensions = self._embedder.dimensions
        texts, vectors = checked_request(texts, vectors, max_tokens, limit, dimensions=dimensions)
        said = [at for at, text in enumerate(texts) if text.strip()]
        if not said:
            return ()
        rows = self._embedded([texts[at].strip()[:TOPIC_CHARACTERS] for at in said])
        if vectors is not None:
            rows = unit(vectors[said])
        groups = [[said[at] for at in group] for group in grouped(rows, limit)]
        return tuple(self._topic(texts, group, max_tokens) for group in sorted(groups))

    def _topic(self, texts: Sequence[str], group: Sequence[int], max_tokens: int) -> Topic:
        members = [texts[at] for at in group]
        summary = self.summarise(members, max_tokens=max_tokens)
        best = self.summarise(members, max_tokens=TITLE_CHARACTERS).text.split("\n", 1)[0]
        words = " ".join(best.split()[:TITLE_WORDS])
        title = words[:TITLE_CHARACTERS].strip(" .,;:!?") or words[:TITLE_CHARACTERS]
        return Topic(title=title, summary=summary.text, indices=tuple(group), by=EXTRACTIVE)

    def _considered(self, texts: Sequence[str]) -> tuple[list[Sentence], int]:
        """Return the sentences to look at, each once, and how many are left out."""
        once: dict[str, Sentence] = {}
        for source, text in enumerate(texts):
            for sentence in sentences(text, source):
                once.setdefault(" ".join(sentence.text.casefold().split()), sentence)
        found = list(once.values())
        most = min(len(found), self._most_sentences)
        return [found[at * len(found) // most] for at in range(most)], len(found) - most

    def _rows(
        self, found: Sequence[Sentence], texts: Sequence[str], vectors: Vectors | None
    ) -> Vectors:
        """Return a row per sentence; a text that is one sentence has its row already."""
        rows = np.zeros((len(found), self._embedder.dimensions), dtype=np.float32)
        missing = list(range(len(found)))
        if vectors is not None:
            whole = [at for at in missing if found[at].text == texts[found[at].source].strip()]
            rows[whole] = vectors[[found[at].source for at in whole]]
            missing = sorted(set(missing).difference(whole))
        if missing:
            rows[missing] = self._embedded([found[at].text for at in missing])
        return rows

    def _embedded(self, texts: Sequence[str]) -> Vectors:
        windows = embed_windows(self._embedder, texts)
        return unit(np.stack([rows.mean(axis=0) for rows in windows]))

    def _chosen(
        self, found: Sequence[Sentence], rows: Vectors, vectors: Vectors | None, max_tokens: int
    ) -> str:
        if not found:
            return ""
        centre = unit((rows if vectors is None else vectors).mean(axis=0, keepdims=True))[0]
        nearness = rows @ centre
        taken = _marginal(found, rows, nearness, diversity=self._diversity, most=max_tokens)
        while taken:
            text = joined([found[at] for at in sorted(taken)])
            if tokens(text) <= max_tokens:
                return text
            # A word that was cut in two may have one token more where it is whole again.
            taken.pop()
        return shortened(found[int(nearness.round(DECIMALS).argmax())].text, max_tokens)


def _marginal(
    found: Sequence[Sentence],
    rows: Vectors,
    nearness: NDArray[np.float32],
    *,
    diversity: float,
    most: int,
) -> list[int]:
    """Return which sentences are taken, the best first, by maximal marginal relevance."""
    least = np.array([-(-len(sentence.text) // BYTES_A_TOKEN) for sentence in found])
    open_, alike = np.ones(len(found), dtype=bool), np.zeros(len(found), dtype=np.float32)
    taken: list[int] = []
    while (open_ := open_ & (least <= most)).any():
        scores = np.round((1 - diversity) * nearness - diversity * alike, DECIMALS)
        at = int(np.argmax(np.where(open_, scores, -np.inf)))
        open_[at] = False
        # One byte more, for the space or line end that may come before it.
        needs = max(tokens(found[at].text), tokens(f"{found[at].text} "))
        if needs <= most:
            most -= needs
            taken.append(at)
            alike = np.maximum(alike, rows @ rows[at])
    return taken
