"""The importance of fragments, the insights inferred from them, and their ranking."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from alveus.agents.layers.fragments import (
    FragmentId,
    InsightMemoryFragment,
    MemoryFragment,
    T,
    finite,
)
from alveus.agents.storage import LayerStorage, aware
from alveus.errors import InvalidInput
from alveus.llm import ChatModel, ask_text
from alveus.text import ExtractiveSummariser, Summariser
from alveus.values.lazy_dataclass import dataclass
from alveus.values.storable import choice

LOWEST, HIGHEST = 1.0, 10.0
"""The scale on which scorers rate."""

UNKNOWN = 0.5
"""The importance of a fragment whose importance is unknown."""

DECAY = 0.99
"""Decay of recency per hour. Source: DB-GPT's time-weighted retriever (decay rate 0.01)."""

ProfileName: TypeAlias = Literal["alveus", "dbgpt"]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

_RATING_PROMPT = """\
Rate how important it is to remember the text below, from 1 (everyday, soon forgotten) to \
10 (of lasting weight). New skills, events, somebody's feelings and plans, and facts that tell \
much weigh more. Answer with one whole number and nothing else.

Text:
{text}"""


@dataclass(frozen=True, slots=True)
class Profile:
    """The differences between DB-GPT's numbers and alveus's.

    Attributes:
        raw: True for DB-GPT's numbers: an importance is a rating times the layer's weight, and a
            score is a sum. When a merged fragment leaves short-term memory, the fragments that were
            merged into it also stay there. False for alveus's numbers: importance and scores are in
            0..1, a score is a mean, and no fragment is stored twice.
    """

    name: ProfileName
    raw: bool

    @classmethod
    def of(cls, name: ProfileName) -> Profile:
        """Return a profile by its name."""
        return cls(name, raw=choice(name, "profile", *get_args(ProfileName)) == "dbgpt")

    def check(self, importance: float | None, what: str = "an importance") -> None:
        """Check that an importance is in 0..1, or in 0..10 as DB-GPT counts.

        Raises:
            InvalidInput: The importance is outside this range.
        """
        most = HIGHEST if self.raw else 1.0
        if importance is not None and not 0 <= importance <= most:
            raise InvalidInput(f"{what} must be a number from 0 to {most:g}, not {importance!r}")

    def importance(self, rating: float | None, weight: float) -> float:
        """Return the importance for *rating*, which is in 1..10, or None if it is unknown."""
        if self.raw:
            return weight * (HIGHEST / 2 if rating is None else rating)
        return UNKNOWN if rating is None else normalised(rating)


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of recency (alpha), relevance (beta) and importance (gamma).

    By default relevance leads. Equal weights would rank fragments of the last hours above all older
    ones.
    """

    alpha: float = 0.05
    beta: float = 1.0
    gamma: float = 0.1

    def __post_init__(self) -> None:
        """Refuse a negative weight, and weights that are all 0."""
        for field in fields(self):
            weight = finite(getattr(self, field.name), field.name)
            if weight < 0:
                raise InvalidInput(f"{field.name} must be 0 or more, not {weight!r}")
        if not self.alpha + self.beta + self.gamma:
            raise InvalidInput("alpha, beta and gamma are all 0; set at least one of them above 0")

    @classmethod
    def given(cls, alpha: float | None, beta: float | None, gamma: float | None) -> Weights:
        """Return weights. An argument that is None gets its default."""
        weights = {"alpha": alpha, "beta": beta, "gamma": gamma}
        return cls(**{name: weight for name, weight in weights.items() if weight is not None})

    def score(self, parts: Mapping[str, float], *, raw: bool = False) -> float:
        """Return the weighted mean of the parts of a score, or with *raw* their weighted sum."""
        total = (
            self.alpha * parts["recency"]
            + self.beta * parts["relevance"]
            + self.gamma * parts["importance"]
        )
        return total if raw else total / (self.alpha + self.beta + self.gamma)


def recency(accessed: datetime, now: datetime) -> float:
    """Return the recency of *accessed*, 0..1: 0.99 to the power of the hours since that time."""
    hours = max(timedelta(0), now - accessed) / timedelta(hours=1)
    return DECAY**hours


def unit(importance: float | None) -> float:
    """Return an importance, limited to 0..1. Return 0.5 for None."""
    return UNKNOWN if importance is None else min(1.0, max(0.0, importance))


def normalised(rating: float) -> float:
    """Return a rating of 1..10, mapped to 0..1."""
    return (min(HIGHEST, max(LOWEST, rating)) - LOWEST) / (HIGHEST - LOWEST)


def rated(rating: object) -> float | None:
    """Check the rating of a scorer, and return it as a float. Return None for None.

    Raises:
        InvalidInput: The rating is not a number of 1 to 10.
    """
    if rating is None:
        return None
    number = finite(rating, "the rating of a scorer")
    if not LOWEST <= number <= HIGHEST:
        raise InvalidInput(f"the rating of a scorer must be a number from 1 to 10, not {number!r}")
    return number


def parse_number(answer: str, importance_weight: float | None = None) -> float | None:
    """Return the rating in a model's answer, limited to 1..10, or None if it has no number.

    Args:
        importance_weight: If this weight is given, a tenth of the rating is returned, times the
            weight.
    """
    found = _NUMBER.search(answer)
    if found is None:
        return None
    rating = min(HIGHEST, max(LOWEST, float(found[0])))
    return rating if importance_weight is None else rating / HIGHEST * importance_weight


class ImportanceScorer(ABC):
    """Rates fragments."""

    @abstractmethod
    async def score_importance(
        self, memory_fragment: MemoryFragment, llm_client: ChatModel | None = None
    ) -> float | None:
        """Return a rating of 1..10, or None if the scorer has no rating."""


class AsksModel:
    """Asks a language model about fragments.

    Args:
        prompt: The question, with ``{text}`` for the text of the fragment. None means
            `default_prompt`.
        model: The language model. None means the model of the layer.
    """

    default_prompt: ClassVar[str]

    def __init__(self, prompt: str | None = None, model: ChatModel | None = None) -> None:
        self._prompt, self._model = prompt or self.default_prompt, model
        if "{text}" not in self._prompt:
            raise InvalidInput(
                "the prompt does not contain {text}; write {text} at the position of the fragment"
            )

    async def _asked(self, fragment: MemoryFragment, llm_client: ChatModel | None) -> str:
        return await ask_model(self._model or llm_client, self._prompt, fragment.raw_observation)


class LLMImportanceScorer(AsksModel, ImportanceScorer):
    """Asks a language model for a rating; see `AsksModel`."""

    default_prompt: ClassVar[str] = _RATING_PROMPT

    async def score_importance(
        self, memory_fragment: MemoryFragment, llm_client: ChatModel | None = None
    ) -> float | None:
        """Return the model's rating, or None if its answer has no number.

        Raises:
            InvalidInput: Neither the scorer nor the layer has a model.
            ModelFailed: The model could not be asked.
        """
        return parse_number(await self._asked(memory_fragment, llm_client))


async def ask_model(model: ChatModel | None, prompt: str, text: str) -> str:
    """Return the answer of *model* to *prompt* about *text*, without the model's thoughts.

    Raises:
        InvalidInput: *model* is None.
        ModelFailed: The model could not be asked.
    """
    if model is None:
        raise InvalidInput(
            "LLM client is required: pass it to initialize(), or use the scorer or extractor "
            "that works offline"
        )
    message = {"role": "user", "content": prompt.replace("{text}", text)}
    return await asyncio.to_thread(ask_text, model, [message])


_FEELINGS = {
    "love", "loves", "loved", "hate", "hates", "hated", "afraid", "fear", "happy", "sad", "angry",
    "proud", "sorry", "glad", "worried", "upset", "excited", "lonely", "grateful", "miss", "missed",
}  # fmt: skip
_EVENTS = {
    "married", "wedding", "born", "birthday", "died", "death", "moved", "graduated", "hired",
    "fired", "promoted", "bought", "sold", "learned", "learnt", "trained", "started", "finished",
    "decided", "promised", "plan", "plans", "allergic", "diagnosed", "always", "never", "must",
}  # fmt: skip
_WORD = re.compile(r"\w+")


class OfflineImportanceScorer(ImportanceScorer):
    """Rates without a model: by the length of a text, and by words of feelings and events.

    The same text always has the same rating. The scorer knows some English words and no meaning.
    """

    async def score_importance(
        self,
        memory_fragment: MemoryFragment,
        llm_client: ChatModel | None = None,  # noqa: ARG002 - it asks nobody
    ) -> float | None:
        """Return a rating of 1..10."""
        words = _WORD.findall(memory_fragment.raw_observation)
        lower = {word.lower() for word in words}
        rating = LOWEST + min(3.0, len(lower) / 10)
        rating += min(2.0, len(lower & _FEELINGS)) + min(2.0, len(lower & _EVENTS))
        names = sum(word[0].isupper() for word in words[1:]) + any(map(str.isdigit, words))
        return min(HIGHEST, rating + min(2.0, names / 2))


INSIGHT_TOKENS = 64
"""The most tokens of an insight that is made without a model."""

_MARK = re.compile(r"^\s*(?:\d+[.)]\s+|\d+\.(?=\S)|[-*•]\s+)?")

_INSIGHT_PROMPT = """\
Below are things that somebody said, did or saw. Infer one insight about that person's character \
or situation which goes beyond them: do not repeat their words. Answer with one sentence.

{text}"""


def parse_list(answer: str) -> list[str]:
    """Return the lines of a model's answer, without numbers, bullets and blank lines."""
    lines = (_MARK.sub("", line, count=1).strip() for line in answer.splitlines())
    return [line for line in lines if line]


class InsightExtractor(ABC):
    """Infers insights from fragments."""

    @abstractmethod
    async def extract_insights(
        self, memory_fragment: MemoryFragment, llm_client: ChatModel | None = None
    ) -> InsightMemoryFragment[MemoryFragment] | None:
        """Return the insights from a fragment, or None if there are none."""


class LLMInsightExtractor(AsksModel, InsightExtractor):
    """Asks a language model for insights; see `AsksModel`."""

    default_prompt: ClassVar[str] = _INSIGHT_PROMPT

    async def extract_insights(
        self, memory_fragment: MemoryFragment, llm_client: ChatModel | None = None
    ) -> InsightMemoryFragment[MemoryFragment] | None:
        """Return the model's insights, one per line of its answer.

        Raises:
            InvalidInput: Neither the extractor nor the layer has a model.
            ModelFailed: The model could not be asked.
        """
        answer = await self._asked(memory_fragment, llm_client)
        return InsightMemoryFragment(memory_fragment, parse_list(answer))


class OfflineInsightExtractor(InsightExtractor):
    """Returns a summary instead of an insight: sentences of the fragment, without a model."""

    def __init__(self, summariser: Summariser | None = None) -> None:
        self._summariser = summariser or ExtractiveSummariser()

    async def extract_insights(
        self,
        memory_fragment: MemoryFragment,
        llm_client: ChatModel | None = None,  # noqa: ARG002 - it asks nobody
    ) -> InsightMemoryFragment[MemoryFragment] | None:
        """Return a summary of the fragment as its insight, or None for a blank fragment."""
        texts = [part for part in memory_fragment.raw_observation.split(";") if part.strip()]
        if not texts:
            return None
        summary = await asyncio.to_thread(
            self._summariser.summarise, texts, max_tokens=INSIGHT_TOKENS
        )
        return InsightMemoryFragment(memory_fragment, [" ".join(summary.text.split())])


@dataclass(frozen=True, slots=True)
class RankedFragment(Generic[T]):
    """A recalled fragment with its score.

    Attributes:
        score: The weighted mean of `parts`. With the profile "dbgpt", it is the weighted sum.
        parts: `recency`, `relevance` and `importance`, each 0..1. With the profile "dbgpt",
            `importance` is up to 10.
    """

    fragment: T
    score: float
    parts: Mapping[str, float]


class Ranked(NamedTuple):
    """An item to rank, with the id of its fragment."""

    score: float
    id: FragmentId
    item: Any
    parts: Mapping[str, float]


def best_first(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Return items, best first. Of equal scores, the item with the newest id is first."""
    newest = sorted(ranked, key=lambda one: _order(one.id), reverse=True)
    return sorted(newest, key=lambda one: -one.score)


def _order(name: FragmentId) -> tuple[bool, int, str]:
    """Return the sort key of an id: texts come before numbers, which rise with time."""
    return (True, name, "") if isinstance(name, int) else (False, 0, name)


def score_parts(
    accessed: datetime | None, relevance: float, importance: float, now: datetime
) -> dict[str, float]:
    """Return the parts of a score. A fragment that was never recalled has recency 1."""
    near = recency(aware(accessed or now), now)
    return {"recency": near, "relevance": relevance, "importance": importance}


def ranked(
    storage: LayerStorage, fragments: Sequence[T], observation: str, weights: Weights
) -> list[T]:
    """Return fragments, ranked by their scores for *observation*, best first."""
    if not fragments:
        return []
    now, near = storage.now(), relevances(storage, fragments, observation, weights)
    found: list[Ranked] = []
    for fragment, relevance in zip(fragments, near, strict=True):
        parts = score_parts(fragment.last_accessed_time, relevance, unit(fragment.importance), now)
        found.append(Ranked(weights.score(parts), fragment.id, fragment, parts))
    return [one.item for one in best_first(found)]


def relevances(
    storage: LayerStorage, fragments: Sequence[MemoryFragment], observation: str, weights: Weights
) -> list[float]:
    """Return the relevance of each fragment to an observation, 0..1.

    Without vectors, it is the share of the observation's words that the fragment has. It is 0 if
    the weight of relevance is 0.
    """
    if not weights.beta:
        return [0.0] * len(fragments)
    texts = [fragment.raw_observation for fragment in fragments]
    if not storage.engine.recorder.embedder.dimensions:
        return [_shared_words(observation, text) for text in texts]
    query, *rows = storage.nearness.vectors([observation, *texts])
    return [min(1.0, max(0.0, float(np.dot(query, row)))) for row in rows]


def _shared_words(query: str, text: str) -> float:
    """Return the share of the query's words that a text has."""
    words = set(query.casefold().split())
    return len(words & set(text.casefold().split())) / len(words) if words else 0.0
