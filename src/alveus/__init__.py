"""Memory for AI agents that behaves like a database.

The way in is `Memory.open`; every name a user needs is here. A name is imported when it is first
used, so that ``import alveus`` costs next to nothing.
"""

from typing import TYPE_CHECKING

from alveus.values.lazy import lazy_names

if TYPE_CHECKING:
    from alveus.conversation import ConversationMemory
    from alveus.embed import Embedder
    from alveus.errors import AlveusError
    from alveus.llm import ChatModel, OpenAIChat, ScriptedChat
    from alveus.memory.aio import AsyncMemory
    from alveus.memory.compactor import Compactor
    from alveus.memory.keys import KeyBatch, KeyMemory, KnowledgeMemory
    from alveus.memory.memory import Memory, MemoryStats
    from alveus.memory.memory_tools import memory_tools
    from alveus.memory.prompt import Context, Shares
    from alveus.runs.agent import Agent, Learn, action
    from alveus.runs.durable_calls import durable
    from alveus.runs.runner import LocalRunner
    from alveus.runs.task import RunnerContext
    from alveus.search.signals import Signals
    from alveus.sets import KnowledgeSet, MemorySet
    from alveus.sets.compaction import Compacted, CompactionPlan, Derived, Merge, Summarize, Trim
    from alveus.sets.forgetting import OutOfReach, Receipt
    from alveus.state import MemoryKind, MemoryObject, MemoryRef, Ttl
    from alveus.store import Limits, Retain
    from alveus.store.items import Hit, Hits, Item
    from alveus.text.budget import Budget
    from alveus.values.events import (
        Event,
        InputEvent,
        LongTermGetEvent,
        LongTermSearchEvent,
        LongTermUpdateEvent,
        MemoryEvent,
        MemoryEvents,
        OutputEvent,
        RunBeginEvent,
        SensoryReadEvent,
        SensoryWriteEvent,
        ShortTermReadEvent,
        ShortTermWriteEvent,
    )
    from alveus.values.retries import Retry
    from alveus.values.storable import valid_text

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AlveusError",
    "AsyncMemory",
    "Budget",
    "ChatModel",
    "Compacted",
    "CompactionPlan",
    "Compactor",
    "Context",
    "ConversationMemory",
    "Derived",
    "Embedder",
    "Event",
    "Hit",
    "Hits",
    "InputEvent",
    "Item",
    "KeyBatch",
    "KeyMemory",
    "KnowledgeMemory",
    "KnowledgeSet",
    "Learn",
    "Limits",
    "LocalRunner",
    "LongTermGetEvent",
    "LongTermSearchEvent",
    "LongTermUpdateEvent",
    "Memory",
    "MemoryEvent",
    "MemoryEvents",
    "MemoryKind",
    "MemoryObject",
    "MemoryRef",
    "MemorySet",
    "MemoryStats",
    "Merge",
    "OpenAIChat",
    "OutOfReach",
    "OutputEvent",
    "Receipt",
    "Retain",
    "Retry",
    "RunBeginEvent",
    "RunnerContext",
    "ScriptedChat",
    "SensoryReadEvent",
    "SensoryWriteEvent",
    "Shares",
    "ShortTermReadEvent",
    "ShortTermWriteEvent",
    "Signals",
    "Summarize",
    "Trim",
    "Ttl",
    "action",
    "durable",
    "memory_tools",
    "valid_text",
]

if not TYPE_CHECKING:  # else any name would be one of the package
    __getattr__ = lazy_names(__name__)


def __dir__() -> list[str]:
    """List the public names alone: shells complete them."""
    return [*__all__, "__version__"]
