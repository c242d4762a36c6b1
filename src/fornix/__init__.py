"""Memory for AI agents that behaves like a database.

The way in is `Memory.open`; every name a user needs is here.
"""

from fornix.agent import Agent, action
from fornix.aio import AsyncMemory
from fornix.budget import Budget
from fornix.compaction import Compacted, CompactionPlan, Derived, Merge, Summarize, Trim
from fornix.compactor import Compactor
from fornix.durable_calls import durable
from fornix.embed import Embedder
from fornix.errors import FornixError
from fornix.events import Event, InputEvent, OutputEvent
from fornix.forgetting import OutOfReach, Receipt
from fornix.items import Hit, Hits, Item
from fornix.keys import KeyBatch, KeyMemory, KnowledgeMemory
from fornix.llm import ChatModel, OpenAIChat, ScriptedChat
from fornix.memory import Memory, MemoryStats
from fornix.memory_events import (
    LongTermGetEvent,
    LongTermSearchEvent,
    LongTermUpdateEvent,
    MemoryEvent,
    MemoryEvents,
    RunBeginEvent,
    SensoryReadEvent,
    SensoryWriteEvent,
    ShortTermReadEvent,
    ShortTermWriteEvent,
)
from fornix.prompt import Context, Shares
from fornix.retries import Retry
from fornix.runner import LocalRunner
from fornix.sets import KnowledgeSet, MemorySet
from fornix.signals import Signals
from fornix.state import MemoryKind, MemoryObject, MemoryRef, Ttl
from fornix.store import Limits, Retain
from fornix.task import RunnerContext

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AsyncMemory",
    "Budget",
    "ChatModel",
    "Compacted",
    "CompactionPlan",
    "Compactor",
    "Context",
    "Derived",
    "Embedder",
    "Event",
    "FornixError",
    "Hit",
    "Hits",
    "InputEvent",
    "Item",
    "KeyBatch",
    "KeyMemory",
    "KnowledgeMemory",
    "KnowledgeSet",
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
]
