"""The memory and the agents of Apache Flink Agents, under its own names, on fornix.

Agents, actions, events and exact memory need no adapter: they are fornix's own. What an action
gets as its context, and sets, come in the form that Flink Agents and its design published. An
agent of these names is run by `fornix.LocalRunner`. Where fornix differs is on the page "coming
from Flink Agents".
"""

from fornix.compaction import Summarize, Trim
from fornix.compat.flink_agents.runs import FlinkRunnerContext as RunnerContext
from fornix.compat.flink_agents.runs import action, memory_events
from fornix.compat.flink_agents.sets import (
    ChatMessage,
    DatetimeRange,
    Knowledge,
    KnowledgeSetItem,
    MemorySetItem,
)
from fornix.compat.flink_agents.sets import (
    FlinkKnowledgeSet as KnowledgeSet,
)
from fornix.compat.flink_agents.sets import (
    FlinkLongTermMemory as LongTermMemory,
)
from fornix.compat.flink_agents.sets import (
    FlinkMemorySet as MemorySet,
)
from fornix.events.events import Event, InputEvent, OutputEvent
from fornix.events.memory_events import (
    LongTermGetEvent,
    LongTermSearchEvent,
    LongTermUpdateEvent,
    MemoryEvent,
    SensoryReadEvent,
    SensoryWriteEvent,
    ShortTermReadEvent,
    ShortTermWriteEvent,
)
from fornix.events.memory_events import RunBeginEvent as AgentRunBeginEvent
from fornix.runs.agent import Agent
from fornix.state import MemoryKind as MemoryType
from fornix.state import MemoryObject, MemoryRef

__all__ = [
    "Agent",
    "AgentRunBeginEvent",
    "ChatMessage",
    "DatetimeRange",
    "Event",
    "InputEvent",
    "Knowledge",
    "KnowledgeSet",
    "KnowledgeSetItem",
    "LongTermGetEvent",
    "LongTermMemory",
    "LongTermSearchEvent",
    "LongTermUpdateEvent",
    "MemoryEvent",
    "MemoryObject",
    "MemoryRef",
    "MemorySet",
    "MemorySetItem",
    "MemoryType",
    "OutputEvent",
    "RunnerContext",
    "SensoryReadEvent",
    "SensoryWriteEvent",
    "ShortTermReadEvent",
    "ShortTermWriteEvent",
    "Summarize",
    "Trim",
    "action",
    "memory_events",
]
