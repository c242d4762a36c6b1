"""Summaries by a language model: in bounded requests, checked, and without it if it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from alveus.embed import Vectors
from alveus.errors import InvalidInput, ModelFailed
from alveus.llm import Asking, ChatModel, ModelMessage, ask_json
from alveus.text.extractive_summariser import ExtractiveSummariser
from alveus.text.statements import parts, shortened, tokens
from alveus.text.summary import (
    SUMMARY_TOKENS,
    Summariser,
    Summary,
    Topic,
    checked_limits,
    checked_texts,
    checked_vectors,
)
from alveus.text.summary_prompts import (
    ITEM_TOKENS,
    SUMMARY_SCHEMA,
    TOPICS_SCHEMA,
    CheckedTopic,
    summary_messages,
    summary_of,
    topics_messages,
    topics_of,
)
from alveus.values.keywords import suggest_names
from alveus.values.storable import counted

BATCH_TOKENS = 6_000
"""Of texts that are shown to a model at once, if nothing is said."""

LEAST_BATCH_TOKENS = 2_048
"""The least that may be shown at once: a sentence fits in, and several summaries."""

SHARE = 8
"""A summary between two rounds, and a text that is sorted, has at most this part of a batch."""

SHORT_TOKENS = 32
"""Texts that have fewer may have a summary that is longer than they are, up to this."""

T = TypeVar("T")


class _TopicEntry(NamedTuple):
    """Something to be sorted: a text, or a topic of an earlier round; and whose texts it has."""

    text: str
    indices: tuple[int, ...]


class ModelSummariser:
    """Asks a language model, and goes without where it cannot.

    Texts are shown in batches of at most *batch_tokens*; if there are several, their summaries
    are summed up in the same way, so the calls grow as the texts do: about one for each
    *batch_tokens*, and a few more. The texts go as JSON, said to be data.

    Every answer is checked. After one that cannot be used the model is told why, and asked again,
    *attempts* times in all; then, and if it is unavailable or refuses, all of the result comes
    from *fallback*, and says so in ``by`` and ``because``. What is wrong with the set-up
    (`ModelMissing`, `ModelClosed`, `ScriptEnded`) is raised.

    Args:
        temperature: None: the model's own.
        fallback: None: an `ExtractiveSummariser`.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    @suggest_names
    def __init__(
        self,
        chat: ChatModel,
        *,
        batch_tokens: int = BATCH_TOKENS,
        attempts: int = 3,
        temperature: float | None = None,
        fallback: Summariser | None = None,
    ) -> None:
        if not isinstance(chat, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
            kind = type(chat).__name__
            raise InvalidInput(f"{kind} is not a ChatModel: it needs name, usage and complete()")
        self._chat, self._fallback = chat, fallback or ExtractiveSummariser()
        self._batch_tokens = counted(batch_tokens, "batch_tokens", least=LEAST_BATCH_TOKENS)
        self._asking = Asking(attempts=counted(attempts, "attempts"), temperature=temperature)

    def __repr__(self) -> str:
        return f"ModelSummariser({self._chat.name!r})"

    @property
    def by(self) -> str:
        """What `Summary.by` is if the model made it."""
        return f"model:{self._chat.name}"

    def summarise(
        self,
        texts: Sequence[str],
        *,
        max_tokens: int = SUMMARY_TOKENS,
        vectors: Vectors | None = None,
    ) -> Summary:
        """Return what the model says of *texts*; see `Summariser.summarise`.

        It has at most as many tokens as the texts, or `SHORT_TOKENS`.

        Args:
            vectors: For the fallback.

        Raises:
            InvalidInput: An argument cannot be used.
            ModelMissing, ModelClosed, ScriptEnded: The model cannot be asked at all.
        """
        texts = self._checked(texts, 1, max_tokens, vectors)
        said = [text for text in texts if text.strip()]
        if not said:
            return self._fallback.summarise(texts, max_tokens=max_tokens, vectors=vectors)
        try:
            text = self._summary(said, max_tokens)
        except ModelFailed as error:
            made = self._fallback.summarise(texts, max_tokens=max_tokens, vectors=vectors)
            return replace(made, because=str(error))
        return Summary(text=text, by=self.by, tokens=tokens(text))

    def topics(
        self,
        texts: Sequence[str],
        limit: int,
        *,
        max_tokens: int = SUMMARY_TOKENS,
        vectors: Vectors | None = None,
    ) -> tuple[Topic, ...]:
        """Return *texts* as the model sorts them; see `Summariser.topics`.

        Of a text that has more than an eighth of a batch the model sees the beginning. What it
        leaves out of every topic stays out.

        Args:
            vectors: For the fallback.

        Raises:
            InvalidInput: An argument cannot be used.
            ModelMissing, ModelClosed, ScriptEnded: The model cannot be asked at all.
        """
        texts = self._checked(texts, limit, max_tokens, vectors)
        entries = [
            _TopicEntry(shortened(text.strip(), self._batch_tokens // SHARE), (at,))
            for at, text in enumerate(texts)
            if text.strip()
        ]
        if not entries:
            return ()
        try:
            found = self._topics(entries, limit, max_tokens)
        except ModelFailed as error:
            made = self._fallback.topics(texts, limit, max_tokens=max_tokens, vectors=vectors)
            return tuple(replace(topic, because=str(error)) for topic in made)
        return tuple(sorted(found, key=lambda topic: topic.indices))

    def _checked(
        self, texts: Sequence[str], limit: int, max_tokens: int, vectors: Vectors | None
    ) -> tuple[str, ...]:
        found = checked_texts(texts)
        checked_limits(max_tokens, limit)
        rows = checked_vectors(vectors, found, None)
        if rows is not None:
            # What the fallback would refuse on the day the model fails, it refuses today.
            self._fallback.summarise((), vectors=rows[:0])
        return found

    def _summary(self, texts: Sequence[str], max_tokens: int) -> str:
        most = self._batch_tokens - ITEM_TOKENS
        texts = [part for text in texts for part in parts(text, most)]
        while len(batches := self._batches(texts, lambda text: text)) > 1:
            between = min(max_tokens, self._batch_tokens // SHARE)
            texts = [self._summary_of(batch, between) for batch in batches]
        return self._summary_of(batches[0], max_tokens)

    def _summary_of(self, texts: Sequence[str], max_tokens: int) -> str:
        most = min(max_tokens, max(sum(map(tokens, texts)), SHORT_TOKENS))
        messages = summary_messages(texts, most)
        return self._ask(messages, SUMMARY_SCHEMA, lambda value: summary_of(value, most))

    def _topics(self, entries: Sequence[_TopicEntry], limit: int, max_tokens: int) -> list[Topic]:
        while len(batches := self._batches(entries, lambda entry: entry.text)) > 1:
            entries = [entry for batch in batches for entry in self._sorted(batch, limit)]
        return [
            Topic(
                title=found.title,
                summary=found.summary,
                indices=_together(found, batches[0]),
                by=self.by,
            )
            for found in self._topics_of(batches[0], limit, max_tokens)
        ]

    def _sorted(self, batch: Sequence[_TopicEntry], limit: int) -> Iterable[_TopicEntry]:
        """Return the topics of one of several batches, at most half as many as it has entries."""
        if len(batch) == 1:
            return batch
        most = self._batch_tokens // SHARE
        found = self._topics_of(batch, min(limit, len(batch) // 2), most)
        return [
            _TopicEntry(shortened(f"{topic.title}: {topic.summary}", most), _together(topic, batch))
            for topic in found
        ]

    def _topics_of(
        self, batch: Sequence[_TopicEntry], limit: int, most: int
    ) -> tuple[CheckedTopic, ...]:
        texts = [entry.text for entry in batch]
        messages = topics_messages(texts, limit, most)
        return self._ask(
            messages, TOPICS_SCHEMA, lambda value: topics_of(value, len(texts), limit, most)
        )

    def _ask(
        self,
        messages: Sequence[ModelMessage],
        schema: Mapping[str, object],
        check: Callable[[object], T],
    ) -> T:
        return ask_json(self._chat, messages, json_schema=schema, check=check, asking=self._asking)

    def _batches(self, entries: Sequence[T], text_of: Callable[[T], str]) -> list[list[T]]:
        """Return entries in groups, in order, of at most `batch_tokens` each."""
        found: list[list[T]] = []
        size = self._batch_tokens
        for entry in entries:
            more = tokens(text_of(entry)) + ITEM_TOKENS
            if size + more > self._batch_tokens:
                found.append([])
                size = 0
            found[-1].append(entry)
            size += more
        return found


def _together(found: CheckedTopic, batch: Sequence[_TopicEntry]) -> tuple[int, ...]:
    """Return the texts of all entries of a topic."""
    return tuple(sorted(index for item in found.items for index in batch[item].indices))
