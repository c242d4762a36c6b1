"""What can be inferred from fragments: by a language model, or without one."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod

from alveus.agents.layers.fragments import MemoryFragment
from alveus.agents.layers.importance import ask_model, prompt_with_text
from alveus.agents.layers.layer_results import InsightMemoryFragment
from alveus.llm import ChatModel
from alveus.text import ExtractiveSummariser, Summariser

INSIGHT_TOKENS = 64
"""Of an insight that is made without a model."""

_MARK = re.compile(r"^\s*(?:\d+[.)]\s+|\d+\.(?=\S)|[-*•]\s+)?")

_PROMPT = """\
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
        """Return what can be inferred from a fragment; None, or no insights: nothing."""


class LLMInsightExtractor(InsightExtractor):
    """Has a language model infer.

    Args:
        prompt: What it is asked, with ``{text}`` where the fragment goes.
        model: The language model; None: the one that the layer was initialized with.
    """

    def __init__(self, prompt: str | None = None, model: ChatModel | None = None) -> None:
        self._prompt, self._model = prompt_with_text(prompt or _PROMPT), model

    async def extract_insights(
        self, memory_fragment: MemoryFragment, llm_client: ChatModel | None = None
    ) -> InsightMemoryFragment[MemoryFragment] | None:
        """Return the model's insights, one per line of its answer.

        Raises:
            InvalidInput: There is no model.
            ModelFailed: It could not be asked.
        """
        answer = await ask_model(
            self._model or llm_client, self._prompt, memory_fragment.raw_observation
        )
        return InsightMemoryFragment(memory_fragment, parse_list(answer))


class OfflineInsightExtractor(InsightExtractor):
    """Infers nothing, but says in few words what a fragment is about: sentences of its own.

    A stand-in, which needs no model: what is stored as an insight is a summary.
    """

    def __init__(self, summariser: Summariser | None = None) -> None:
        self._summariser = summariser or ExtractiveSummariser()

    async def extract_insights(
        self,
        memory_fragment: MemoryFragment,
        llm_client: ChatModel | None = None,  # noqa: ARG002 - it asks nobody
    ) -> InsightMemoryFragment[MemoryFragment] | None:
        """Return a summary of the fragment, as its insight."""
        texts = [part for part in memory_fragment.raw_observation.split(";") if part.strip()]
        if not texts:
            return None
        summary = await asyncio.to_thread(
            self._summariser.summarise, texts, max_tokens=INSIGHT_TOKENS
        )
        return InsightMemoryFragment(memory_fragment, [" ".join(summary.text.split())])
