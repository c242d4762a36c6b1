"""Memory for AI agents that behaves like a database.

The way in is `Memory.open`; every name a user needs is here. A name is imported when it is first
used, so that ``import fornix`` costs next to nothing.
"""

from typing import TYPE_CHECKING

from fornix.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from fornix.compaction import Compacted, CompactionPlan, Derived, Merge, Summarize, Trim
    from fornix.conversation import ConversationMemory
    from fornix.embed import Embedder
    from fornix.errors import FornixError
    from fornix.events.events import Event, InputEvent, OutputEvent
    from fornix.events.memory_events import (
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
    from fornix.llm import ChatModel, OpenAIChat, ScriptedChat
    from fornix.memory.aio import AsyncMemory
    from fornix.memory.compactor import Compactor
    from fornix.memory.keys import KeyBatch, KeyMemory, KnowledgeMemory
    from fornix.memory.memory import Memory, MemoryStats
    from fornix.memory.prompt import Context, Shares
    from fornix.runs.agent import Agent, Learn, action
    from fornix.runs.durable_calls import durable
    from fornix.runs.runner import LocalRunner
    from fornix.runs.task import RunnerContext
    from fornix.search.signals import Signals
    from fornix.sets import KnowledgeSet, MemorySet
    from fornix.sets.forgetting import OutOfReach, Receipt
    from fornix.state import MemoryKind, MemoryObject, MemoryRef, Ttl
    from fornix.store import Limits, Retain
    from fornix.store.items import Hit, Hits, Item
    from fornix.text.budget import Budget
    from fornix.tools.memory_tools import memory_tools
    from fornix.values.retries import Retry

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
    "ConversationMemory",
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
]

_NAMES = {
    "fornix.compaction": ("Compacted", "CompactionPlan", "Derived", "Merge", "Summarize", "Trim"),
    "fornix.conversation": ("ConversationMemory",),
    "fornix.embed": ("Embedder",),
    "fornix.errors": ("FornixError",),
    "fornix.events.events": ("Event", "InputEvent", "OutputEvent"),
    "fornix.events.memory_events": (
        "LongTermGetEvent",
        "LongTermSearchEvent",
        "LongTermUpdateEvent",
        "MemoryEvent",
        "MemoryEvents",
        "RunBeginEvent",
        "SensoryReadEvent",
        "SensoryWriteEvent",
        "ShortTermReadEvent",
        "ShortTermWriteEvent",
    ),
    "fornix.llm": ("ChatModel", "OpenAIChat", "ScriptedChat"),
    "fornix.memory.aio": ("AsyncMemory",),
    "fornix.memory.compactor": ("Compactor",),
    "fornix.memory.keys": ("KeyBatch", "KeyMemory", "KnowledgeMemory"),
    "fornix.memory.memory": ("Memory", "MemoryStats"),
    "fornix.memory.prompt": ("Context", "Shares"),
    "fornix.runs.agent": ("Agent", "Learn", "action"),
    "fornix.runs.durable_calls": ("durable",),
    "fornix.runs.runner": ("LocalRunner",),
    "fornix.runs.task": ("RunnerContext",),
    "fornix.search.signals": ("Signals",),
    "fornix.sets": ("KnowledgeSet", "MemorySet"),
    "fornix.sets.forgetting": ("OutOfReach", "Receipt"),
    "fornix.state": ("MemoryKind", "MemoryObject", "MemoryRef", "Ttl"),
    "fornix.store": ("Limits", "Retain"),
    "fornix.store.items": ("Hit", "Hits", "Item"),
    "fornix.text.budget": ("Budget",),
    "fornix.tools.memory_tools": ("memory_tools",),
    "fornix.values.retries": ("Retry",),
}
"""The module of each public name."""

if not TYPE_CHECKING:  # else any name would be one of the package
    __getattr__ = lazy_names(__name__, _NAMES)


def __dir__() -> list[str]:
    """List the public names alone: shells complete them."""
    return [*__all__, "__version__"]
