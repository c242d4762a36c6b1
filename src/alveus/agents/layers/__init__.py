"""DB-GPT's layers of memory: sensory, short-term and long-term, with consolidation.

Fragments move from one layer to the next, each move in one commit; see docs/layers.md. The names
have DB-GPT's meanings. `alveus.compat.dbgpt` exports all of them.
"""

from alveus.agents.layers.enhanced import EnhancedShortTermMemory, sigmoid
from alveus.agents.layers.fragments import (
    AgentMemoryFragment,
    DiscardedMemoryFragments,
    Dropped,
    Failure,
    InsightMemoryFragment,
    Insights,
    MemoryFragment,
    StructuredAgentMemoryFragment,
    StructuredObservation,
    WriteOperation,
    initialize_id_generator,
    kept_rounds,
    memories_text,
    memory_text,
    new_fragment_id,
    steps_of,
    time_of_id,
    user_prompt,
)
from alveus.agents.layers.gpts_memory import (
    GptsMemory,
    GptsMessage,
    GptsMessageMemory,
    GptsPlan,
    GptsPlansMemory,
    Status,
    parse_conv_id,
)
from alveus.agents.layers.hybrid import AgentMemory, HybridMemory
from alveus.agents.layers.layer import LayerMemory, SensoryMemory, ShortTermMemory
from alveus.agents.layers.long_term import LongTermMemory
from alveus.agents.layers.scoring import (
    ImportanceScorer,
    InsightExtractor,
    LLMImportanceScorer,
    LLMInsightExtractor,
    OfflineImportanceScorer,
    OfflineInsightExtractor,
    RankedFragment,
    Weights,
    parse_list,
    parse_number,
    recency,
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
    "LayerMemory",
    "LongTermMemory",
    "MemoryFragment",
    "OfflineImportanceScorer",
    "OfflineInsightExtractor",
    "RankedFragment",
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
