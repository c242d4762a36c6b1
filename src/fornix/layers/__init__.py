"""Layers of memory: sensory, short-term and long-term, with consolidation, as DB-GPT's agents know.

What is written goes from one layer to the next, each move one commit; see docs/layers.md.
The names here mean what DB-GPT means by them; `fornix.compat.dbgpt` has all of them.
"""

from fornix.layers.agent_memory import AgentMemory
from fornix.layers.enhanced import EnhancedShortTermMemory, sigmoid
from fornix.layers.fragments import (
    AgentMemoryFragment,
    MemoryFragment,
    WriteOperation,
)
from fornix.layers.gpts import (
    GptsMemory,
    GptsMessage,
    GptsMessageMemory,
    GptsPlan,
    GptsPlansMemory,
    Status,
    parse_conv_id,
)
from fornix.layers.hybrid import HybridMemory
from fornix.layers.insights import (
    InsightExtractor,
    LLMInsightExtractor,
    OfflineInsightExtractor,
    parse_list,
)
from fornix.layers.layer import Memory
from fornix.layers.long_term import LongTermMemory
from fornix.layers.prompts import kept_rounds, memories_text, memory_text, user_prompt
from fornix.layers.ranking import Recalled
from fornix.layers.scoring import (
    ImportanceScorer,
    LLMImportanceScorer,
    OfflineImportanceScorer,
    Weights,
    parse_number,
    recency,
)
from fornix.layers.sensory import SensoryMemory
from fornix.layers.short_term import ShortTermMemory
from fornix.layers.snowflakes import initialize_id_generator, new_fragment_id, time_of_id
from fornix.layers.structured import (
    StructuredAgentMemoryFragment,
    StructuredObservation,
    steps_of,
)
from fornix.layers.wrappers import (
    DiscardedMemoryFragments,
    Dropped,
    Failure,
    InsightMemoryFragment,
    Insights,
)

__all__ = [
    "AgentMemory",
    "AgentMemoryFragment",
    "DiscardedMemoryFragments",
    "Dropped",
    "EnhancedShortTermMemory",
    "Failure",
    "GptsMemory",
    "GptsMessage",
    "GptsMessageMemory",
    "GptsPlan",
    "GptsPlansMemory",
    "HybridMemory",
    "ImportanceScorer",
    "InsightExtractor",
    "InsightMemoryFragment",
    "Insights",
    "LLMImportanceScorer",
    "LLMInsightExtractor",
    "LongTermMemory",
    "Memory",
    "MemoryFragment",
    "OfflineImportanceScorer",
    "OfflineInsightExtractor",
    "Recalled",
    "SensoryMemory",
    "ShortTermMemory",
    "Status",
    "StructuredAgentMemoryFragment",
    "StructuredObservation",
    "Weights",
    "WriteOperation",
    "initialize_id_generator",
    "kept_rounds",
    "memories_text",
    "memory_text",
    "new_fragment_id",
    "parse_conv_id",
    "parse_list",
    "parse_number",
    "recency",
    "sigmoid",
    "steps_of",
    "time_of_id",
    "user_prompt",
]
