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
"""The value of `Summary.by` for a summary that was made without a model."""

DIVERSITY = 0.3
"""The weight, 0..1, of a sentence's difference from the sentences chosen before it.

The rest of the weight is the sentence's nearness to the centre of all texts. The weight is
1 - lambda of maximal marginal relevance: Carbonell and Goldstein, SIGIR 1998.
"""

MOST_SENTENCES = 2_000
"""Most sentences that are considered."""

DECIMALS = 4
"""Decimals of a score. Smaller differences are rounding: of equal scores, the earlier is first."""

TITLE_WORDS = 8
"""Most words of a topic's title."""

TITLE_CHARACTERS = 80
"""Most characters of a topic's title."""

TOPIC_CHARACTERS = 1_000
"""Number of characters at the beginning of a text that decide its topic."""


class ExtractiveSummariser:
    """A summariser that chooses sentences from the texts, without a model.

    On one machine, it always chooses the same sentences from the same texts. A summary has the
    sentences in the order of the texts; of equal sentences it has one. If there are more than
    *most_sentences*, an even sample of this size is considered, and the summary says how many
    sentences were left out.

    Args:
        embedder: Compares the meanings of sentences. With an embedder that has no vectors, the
            first sentences are chosen.
        diversity: The weight of differences between chosen sentences, 0..1. With 0, the sentences
            nearest to the centre of the texts are chosen, however alike; with 1, the sentences that
            differ most.

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

        If even the best sentence has too many tokens, its beginning is returned. The centre of the
        texts is the mean of *vectors*, or without them the mean of the sentences' vectors.

        Raises:
            InvalidInput: An argument cannot be used.
            EmbedderFailed: The embedder raised, or returned no valid vectors.
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
        """Group *texts* by the meanings of their beginnings; see `Summariser.topics`.

        The title of a topic is the beginning of a short summary of its texts.

        Raises:
            InvalidInput: An argument cannot be used.
            EmbedderFailed: The embedder raised, or returned no valid vectors.
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
        """Return the distinct sentences to consider, and the number of sentences left out."""
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
        """Return the vector of each sentence, as rows.

        If a text is a single sentence, its vector is taken from *vectors*, if they are given.
        """
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
            # A word that was cut between two sentences is whole again, and may have one token more.
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
    """Return the indexes of the chosen sentences, the best first, by maximal marginal relevance.

    Together the sentences have about *most* tokens or fewer.
    """
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
