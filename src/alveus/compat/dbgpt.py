"""DB-GPT's agents, their memory and their language model, under the names of DB-GPT.

Differences are listed in docs/coming-from/dbgpt.md.
"""

from __future__ import annotations

import os

from alveus.agents.chat import (
    Action,
    ActionOutput,
    AgentContext,
    AgentMessage,
    BlankAction,
    ConversableAgent,
    LLMConfig,
    ProfileConfig,
    UserProxyAgent,
)
from alveus.agents.layers import (
    AgentMemory,
    AgentMemoryFragment,
    DiscardedMemoryFragments,
    EnhancedShortTermMemory,
    GptsMemory,
    GptsMessage,
    GptsMessageMemory,
    GptsPlan,
    GptsPlansMemory,
    HybridMemory,
    ImportanceScorer,
    InsightExtractor,
    InsightMemoryFragment,
    LLMImportanceScorer,
    LLMInsightExtractor,
    LongTermMemory,
    MemoryFragment,
    SensoryMemory,
    ShortTermMemory,
    StructuredAgentMemoryFragment,
    StructuredObservation,
    WriteOperation,
    initialize_id_generator,
)
from alveus.agents.layers import LayerMemory as Memory
from alveus.llm import OpenAIChat

__all__ = [
    "Action",
    "ActionOutput",
    "AgentContext",
    "AgentMemory",
    "AgentMemoryFragment",
    "AgentMessage",
    "BlankAction",
    "ConversableAgent",
    "DefaultGptsMessageMemory",
    "DefaultGptsPlansMemory",
    "DiscardedMemoryFragments",
    "EnhancedShortTermMemory",
    "GptsMemory",
    "GptsMessage",
    "GptsMessageMemory",
    "GptsPlan",
    "GptsPlansMemory",
    "HybridMemory",
    "ImportanceScorer",
    "InsightExtractor",
    "InsightMemoryFragment",
    "LLMConfig",
    "LLMImportanceScorer",
    "LLMInsightExtractor",
    "LongTermMemory",
    "Memory",
    "MemoryFragment",
    "OpenAILLMClient",
    "ProfileConfig",
    "SensorMemory",
    "SensoryMemory",
    "ShortTermMemory",
    "StructuredAgentMemoryFragment",
    "StructuredObservation",
    "UserProxyAgent",
    "WriteOperation",
    "initialize_id_generator",
]

SensorMemory = SensoryMemory
"""Alias: DB-GPT's document uses both spellings."""

DefaultGptsMessageMemory, DefaultGptsPlansMemory = GptsMessageMemory, GptsPlansMemory
"""Aliases: the names of DB-GPT's defaults."""


class OpenAILLMClient(OpenAIChat):
    """`alveus.llm.OpenAIChat` with the arguments of DB-GPT. It connects at the first call.

    Args:
        model_alias: The model's name on the server.
        api_base: The address of the server, up to and with ``/v1``. None means the environment
            variable ``OPENAI_API_BASE``, or else the default of `OpenAIChat`.
        api_key: The API key. None means the environment variable ``OPENAI_API_KEY`` at the first
            call.

    Raises:
        InvalidInput: An argument cannot be used.
    """

    def __init__(
        self, model_alias: str, api_base: str | None = None, api_key: str | None = None
    ) -> None:
        base_url = api_base or os.environ.get("OPENAI_API_BASE") or None
        super().__init__(model_alias, base_url=base_url, api_key=api_key)
